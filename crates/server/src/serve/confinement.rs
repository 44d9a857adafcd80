//! The sandbox of the server: which files it needs, from the configuration and its zones.

use std::path::{Path, PathBuf};

use config::Settings;
use config::confinement::SandboxMode;
use config::named_paths::{NamedPaths, template_folders};
use sandbox::{SandboxFault, SandboxGrants};
use transport::Transport;
use zone_plan::{WantedZones, ZoneText};

use crate::config_source::Prepared;

/// Why the server does not start with its sandbox.
#[derive(Debug)]
pub enum ConfinementFault {
    /// The system refuses a part that it has.
    Refused(SandboxFault),
    /// The configuration requires the sandbox, and the system lacks this part.
    Missing(String),
}

impl std::error::Error for ConfinementFault {}

impl std::fmt::Display for ConfinementFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(fault) => {
                write!(f, "{fault}\n  hint: `sandbox = false` in [server] starts without the sandbox")
            }
            Self::Missing(part) => write!(f, "`sandbox` in [server] is \"required\", but {part}"),
        }
    }
}

/// Enters the sandbox, unless it is off. Returns notes for the operator. Must be called before the first
/// thread starts. `control`: the control socket.
///
/// # Errors
/// [`ConfinementFault`].
pub fn enter(prepared: &Prepared, control: Option<&Path>) -> Result<Vec<String>, ConfinementFault> {
    let Prepared { settings, zones, files, .. } = prepared;
    let mode = settings.server.confinement.mode.value;
    if mode == SandboxMode::Off {
        return Ok(vec![
            "`sandbox` in [server] is off: a flaw in nomen gives an attacker all that its user may do".into(),
        ]);
    }
    let sandbox =
        sandbox::enter(&grants(settings, zones, files, control)).map_err(ConfinementFault::Refused)?;
    wording::mention_sandbox();
    let mut missing = sandbox.missing();
    match (mode, missing.is_empty()) {
        (SandboxMode::Required, false) => Err(ConfinementFault::Missing(missing.swap_remove(0))),
        (_, true) => Ok(Vec::new()),
        (_, false) => {
            Ok(missing.into_iter().map(|part| format!("the sandbox is incomplete: {part}")).collect())
        }
    }
}

/// Returns what the server needs.
fn grants(
    settings: &Settings,
    zones: &WantedZones,
    files: &[PathBuf],
    control: Option<&Path>,
) -> SandboxGrants {
    let NamedPaths { mut read_files, mut read, mut written_files, mut written, appended } =
        settings.named_paths();
    read_files.extend(files.iter().cloned());
    // They are often links that are replaced by others.
    read_files.extend(zones.tls_files.iter().filter_map(|path| path.canonicalize().ok()));
    read_files.extend(zones.tls_files.iter().cloned());
    read.extend(certificates());
    read.extend(zones.folders.iter().map(|folder| folder.path.clone()));
    let (templates, changed) = template_folders(&zones.templates);
    read.extend(templates);
    written.extend(changed);
    for spec in &zones.specs {
        let may_change = zones.updates.get(&spec.apex).is_some_and(|updates| updates.changes_here());
        let all = if may_change { &mut written_files } else { &mut read_files };
        match &spec.text {
            ZoneText::File(path) => all.push(path.to_path_buf()),
            ZoneText::Disputed(paths) => all.extend(paths.iter().map(|path| path.to_path_buf())),
            ZoneText::BuiltIn(_) | ZoneText::Primaries | ZoneText::Produced | ZoneText::Database => {}
        }
    }
    let notified = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    SandboxGrants {
        read_files,
        read,
        written_files,
        written,
        appended,
        removed_files: control.map(Path::to_owned).into_iter().collect(),
        tcp_ports: tcp_ports(settings),
        abstract_sockets: notified.as_encoded_bytes().starts_with(b"@"),
    }
}

/// Returns the folders and files of certificates that the environment names for OpenSSL.
fn certificates() -> impl Iterator<Item = PathBuf> {
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(std::env::var_os).map(PathBuf::from)
}

/// Returns the ports of TCP listeners, which are opened again if their sockets fail.
fn tcp_ports(settings: &Settings) -> Vec<u16> {
    let of_dns = settings
        .listens
        .iter()
        .filter(|listen| listen.proto.iter().any(|p| p.value.socket() == Transport::Tcp));
    let dns = of_dns.flat_map(|listen| listen.addr.iter().map(|addr| addr.value.0.port()));
    let metrics = settings.metrics.iter().map(|metrics| metrics.listen.0.port());
    let api = settings.api.iter().flat_map(|api| api.addresses().map(|addr| addr.port()));
    let acme = settings.acme.iter().flat_map(|acme| acme.http_addresses().map(|addr| addr.value.0.port()));
    dns.chain(metrics).chain(api).chain(acme).collect()
}
