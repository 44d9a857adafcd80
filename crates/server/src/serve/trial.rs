//! Checks what a start needs of the system, without starting: user, addresses, folders. For
//! `nomen check --system`.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use net::BindFault;
use nix::unistd::{Gid, Uid};

use super::passed::PassedSockets;
use super::sockets::{HttpUse, hint, open_early, open_http};
use crate::privileges;
use config::log::LogTarget;
use config::report::{ConfigPlace, Diagnostic};
use config::{ListenSocket, Settings};
use control::socket::default_paths;
use telemetry::process::{UserIds, is_root};
use wording::reason;

/// Returns everything that would make a start with these settings fail, or would be missing afterwards.
/// Sockets are opened and closed again, except passed ones. An address in use is not a fault while a server
/// answers on the configured control socket: it probably belongs to that server.
pub fn check(settings: &Settings) -> Vec<Diagnostic> {
    let mut faults = Vec::new();
    let ids = user(settings, &mut faults);
    sockets(settings, &mut faults);
    let mut folder = |path: &Path, what: &str, place: Option<&ConfigPlace>| {
        let fault = writable(path, ids).err();
        faults.extend(fault.map(|fault| Diagnostic::at(place, format!("{what}: {fault}"))));
    };
    if let LogTarget::File(path) = &settings.log.target.value {
        let place = settings.log.target.place.as_ref();
        match fs::metadata(path) {
            Ok(about) if about.is_file() && may_write(&about, ids) => {}
            Ok(_) => folder(path, "log file", place),
            Err(_) => folder(parent(path), "log folder", place),
        }
    }
    let storage = &settings.server.storage;
    if let Some(path) = &storage.dir.value {
        // Root makes the folder if it is missing.
        let path = if path.exists() { path } else { parent(path) };
        folder(path, "state folder", storage.dir.place.as_ref());
    }
    let control = &settings.control;
    if let (true, Some(path)) = (*control.enable, &control.socket.value) {
        let of_socket = parent(path);
        let path = if of_socket.exists() { of_socket } else { parent(of_socket) };
        folder(path, "folder of the control socket", control.socket.place.as_ref());
    }
    faults
}

/// Returns the user that the server will run as, if it differs from the current one.
fn user(settings: &Settings, faults: &mut Vec<Diagnostic>) -> Option<UserIds> {
    let wanted = &settings.server.privileges;
    let user = wanted.user.as_deref()?;
    match privileges::find(user, wanted.group.as_deref()) {
        Ok(ids) => Some(ids).filter(|_| is_root()),
        Err(fault) => {
            faults.push(Diagnostic::at(wanted.user.place.as_ref(), fault.to_string()));
            None
        }
    }
}

/// Returns whether a server accepts connections on the control socket.
fn is_running(settings: &Settings) -> bool {
    let paths = settings.control.socket.value.clone().map_or_else(default_paths, |path| vec![path]);
    paths.iter().any(|path| UnixStream::connect(path).is_ok())
}

/// Checks the sockets of metrics, of the API, of challenges and of listeners, passed or new.
fn sockets(settings: &Settings, faults: &mut Vec<Diagnostic>) {
    let running = is_running(settings);
    let mut passed = match PassedSockets::take(settings, None) {
        Ok(passed) => passed,
        Err(fault) => return faults.push(Diagnostic::whole(fault.to_string()).hint(fault.hint())),
    };
    let of_metrics = settings.metrics.iter().map(|of| (HttpUse::Metrics, &of.listen, *of.freebind));
    let of_api = settings.api.iter().flat_map(|of| {
        let freebind = *of.freebind;
        of.listen.iter().map(move |addr| (HttpUse::Api, addr, freebind))
    });
    let of_acme = settings.acme.iter().flat_map(|of| of.http_addresses());
    let of_acme = of_acme.map(|addr| (HttpUse::Acme, addr, false));
    for (wanted, addr, freebind) in of_metrics.chain(of_api).chain(of_acme) {
        match open_http(wanted, addr.value, freebind, &mut passed) {
            Err(e) if !(running && e.kind() == std::io::ErrorKind::AddrInUse) => {
                let message = format!("cannot listen on {} for {wanted}: {}", addr.value, reason(&e));
                faults.push(Diagnostic::at(addr.place.as_ref(), message));
            }
            _ => {}
        }
    }
    if !passed.is_empty() && !settings.names_addresses() {
        let refused = passed.listeners(&settings.net_config()).into_iter().filter_map(Result::err);
        return faults.extend(refused.map(|e| Diagnostic::whole(e.to_string())));
    }
    listeners(settings, running, &mut passed, faults);
}

fn listeners(settings: &Settings, running: bool, passed: &mut PassedSockets, faults: &mut Vec<Diagnostic>) {
    let config = settings.net_config();
    for ListenSocket { listen, addr, transport, .. } in settings.sockets() {
        match open_early(addr.value.0, transport, *listen.freebind, &config, passed) {
            Err(e) if !(running && matches!(e.fault, BindFault::AddressInUse)) => {
                let fault = Diagnostic::at(addr.place.as_ref(), e.to_string());
                faults.push(match hint(&e) {
                    Some(hint) => fault.hint(hint),
                    None => fault,
                });
            }
            _ => {}
        }
    }
}

/// Returns the folder of a path.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that the server's user can create files in a folder.
fn writable(folder: &Path, ids: Option<UserIds>) -> Result<(), String> {
    let shown: PathBuf = folder.to_owned();
    let about = fs::metadata(folder).map_err(|e| format!("{}: {}", shown.display(), reason(&e)))?;
    if !about.is_dir() {
        return Err(format!("{} is no folder, or no file that can be written", shown.display()));
    }
    match may_write(&about, ids) {
        true => Ok(()),
        false => Err(format!("{} cannot be written by the user nomen will run as", shown.display())),
    }
}

/// Returns whether the permissions let a user write: the given one, or else the current one.
fn may_write(about: &Metadata, ids: Option<UserIds>) -> bool {
    let (uid, gid) = match ids {
        Some(ids) => (ids.uid, ids.gid),
        None => (Uid::effective().as_raw(), Gid::effective().as_raw()),
    };
    let shift = if about.uid() == uid {
        6
    } else if about.gid() == gid {
        3
    } else {
        0
    };
    let bits = about.mode() >> shift;
    // Creating files in a folder also requires search permission.
    let needed = if about.is_dir() { 0o3 } else { 0o2 };
    uid == 0 || bits & needed == needed
}
