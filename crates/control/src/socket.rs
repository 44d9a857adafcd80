//! The control socket: its path and its permissions. The client is `ctl` of the crate `tools`.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid};
use tokio::net::UnixListener;

use telemetry::process::UserIds;
use wording::reason;

/// Why there is no control socket.
#[derive(Debug)]
pub enum SocketFault {
    /// Another server accepts connections on it.
    Live(PathBuf),
    /// The path exists and is not a socket.
    NoSocket(PathBuf),
    /// Its folder is in a world-writable place, and other users may use it.
    SharedFolder(PathBuf),
    /// There is no default path to try.
    NoFolder,
    /// The system refused.
    Io {
        /// The failed action; the path follows the text.
        what: &'static str,
        /// The socket or its folder.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl fmt::Display for SocketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(path) => {
                write!(f, "another nomen already listens on the control socket {}", path.display())
            }
            Self::NoSocket(path) => {
                write!(f, "{} is no socket, so the control socket cannot replace it", path.display())
            }
            Self::SharedFolder(folder) => {
                write!(f, "{} is not a folder that this user alone can open", folder.display())
            }
            Self::NoFolder => f.write_str("there is no folder for the control socket"),
            Self::Io { what, path, error } => write!(f, "{what} {}: {}", path.display(), reason(error)),
        }
    }
}

impl std::error::Error for SocketFault {}

/// A control socket that is open and not served yet.
pub struct Socket {
    /// Its path.
    pub path: PathBuf,
    listener: StdListener,
}

impl Socket {
    /// Opens the socket at `wanted`, or at the first of [`default_paths`] that can be used. `owner`, if
    /// given, becomes its owner. The stale socket of an ended server is replaced; a live one is an error.
    ///
    /// # Errors
    /// [`SocketFault`]; for the default paths, the fault of the last one.
    pub fn bind(wanted: Option<&Path>, owner: Option<UserIds>) -> Result<Self, SocketFault> {
        match wanted {
            Some(path) => Self::bind_at(path, owner),
            None => {
                let mut fault = SocketFault::NoFolder;
                for path in default_paths() {
                    match Self::bind_at(&path, owner) {
                        Ok(socket) => return Ok(socket),
                        // If another server has the socket, the next path is not tried: `nomen ctl` would
                        // find that server.
                        Err(e @ SocketFault::Live(_)) => return Err(e),
                        Err(e) => fault = e,
                    }
                }
                Err(fault)
            }
        }
    }

    fn bind_at(path: &Path, owner: Option<UserIds>) -> Result<Self, SocketFault> {
        let fault = |what| move |e| SocketFault::Io { what, path: path.to_owned(), error: e };
        if let Some(folder) = path.parent() {
            prepare_folder(folder, owner)?;
        }
        if path.exists() {
            if StdStream::connect(path).is_ok() {
                return Err(SocketFault::Live(path.to_owned()));
            }
            let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
            if !is_socket {
                return Err(SocketFault::NoSocket(path.to_owned()));
            }
            fs::remove_file(path).map_err(fault("cannot replace the old control socket"))?;
        }
        // No other user may connect before the permissions of the socket are set.
        let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = StdListener::bind(path);
        nix::sys::stat::umask(before);
        let listener = bound.map_err(fault("cannot open the control socket"))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .and_then(|()| give(path, owner))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(fault("cannot prepare the control socket"))?;
        Ok(Self { path: path.to_owned(), listener })
    }

    /// Converts the socket for the runtime that serves it.
    ///
    /// # Errors
    /// If the runtime does not take the socket.
    pub fn into_tokio(self) -> std::io::Result<UnixListener> {
        UnixListener::from_std(self.listener)
    }
}

/// Makes the socket's folder if it is missing; a folder in the temporary folder must belong to this user
/// alone.
fn prepare_folder(folder: &Path, owner: Option<UserIds>) -> Result<(), SocketFault> {
    let fault = |error| SocketFault::Io { what: "cannot make the folder", path: folder.to_owned(), error };
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return give(folder, owner).map_err(fault),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(fault(e)),
    }
    if folder.starts_with(std::env::temp_dir()) && Some(folder) == temp_folder().as_deref() {
        let meta = fs::symlink_metadata(folder).map_err(fault)?;
        if !meta.is_dir() || meta.uid() != Uid::effective().as_raw() || meta.mode() & 0o077 != 0 {
            return Err(SocketFault::SharedFolder(folder.to_owned()));
        }
    }
    Ok(())
}

fn give(path: &Path, owner: Option<UserIds>) -> std::io::Result<()> {
    match owner {
        Some(id) if telemetry::process::is_root() => {
            nix::unistd::chown(path, Some(Uid::from_raw(id.uid)), Some(Gid::from_raw(id.gid)))
                .map_err(std::io::Error::from)
        }
        _ => Ok(()),
    }
}

fn temp_folder() -> Option<PathBuf> {
    Some(std::env::temp_dir().join(format!("nomen-{}", Uid::effective().as_raw())))
}

/// Returns the paths at which the socket is searched and made if none is configured, the best first.
pub fn default_paths() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("nomen"));
    [Some(PathBuf::from("/run/nomen")), runtime, temp_folder()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("ctl.sock"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_sockets_are_replaced_and_live_ones_kept() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("sub/ctl.sock");
        let first = Socket::bind(Some(&path), None).expect("first");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert!(matches!(Socket::bind(Some(&path), None), Err(SocketFault::Live(at)) if at == path));
        drop(first);
        Socket::bind(Some(&path), None).expect("stale");
        let plain = folder.path().join("plain");
        fs::write(&plain, "keep me").expect("written");
        assert!(matches!(Socket::bind(Some(&plain), None), Err(SocketFault::NoSocket(at)) if at == plain));
        assert_eq!(fs::read_to_string(&plain).expect("kept"), "keep me");
    }
}
