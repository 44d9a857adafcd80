//! The control socket: its path, its permissions, and its protocol: one JSON object per line in each
//! direction. `verbs` selects the file that handles a command. The client is `ctl` of the crate `tools`.
//!
//! A command is one line, such as `{"verb":"zone-status","name":"example.com"}`. The answer is one line,
//! `{"ok":true,"data":…}` or `{"ok":false,"error":"…"}`; lines `{"text":"…"}`, which are pieces of a long
//! output, may come before it. A connection carries any number of commands, one at a time.

mod explain;
pub mod hand_over;
mod log;
mod record_text;
mod recursion;
mod stats;
mod status;
mod transactions;
mod verbs;
mod zones;

use std::fmt;
use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Uid};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

use crate::parts::Parts;

use crate::connections::ConnectionPlace;
use crate::privileges;
use wording::reason;

/// Longest command, in bytes.
const MAX_COMMAND: u64 = 64 * 1024;

/// The version to accept in place of a damaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedVersion {
    /// The contents of the zone file.
    File,
    /// The readable part of the journal.
    Journal,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Report the state of the server.
    Status,
    /// Report every counter.
    Stats,
    /// Read the configuration and changed zones again.
    Reload {
        /// Remove zones that are no longer configured, however many they are.
        #[serde(default)]
        force: bool,
    },
    /// List every zone.
    ZoneList {
        /// Only zones that are not at the newest version of their file.
        #[serde(default)]
        failed: bool,
    },
    /// Report the state of one zone.
    ZoneStatus {
        /// Its name.
        name: String,
    },
    /// Read one zone again.
    ZoneReload {
        /// Its name.
        name: String,
        /// Take the contents of its file, even if updates have changed the zone.
        #[serde(default)]
        force: bool,
    },
    /// Accept an older version of a zone whose journal is damaged.
    ZoneAccept {
        /// Its name.
        name: String,
        /// The version to accept.
        from: AcceptedVersion,
    },
    /// Stop accepting updates for a zone, and write its file.
    ZoneFreeze {
        /// Its name.
        name: String,
    },
    /// Load a zone from its file, and accept updates again.
    ZoneThaw {
        /// Its name.
        name: String,
    },
    /// Write a zone to a file.
    ZoneWrite {
        /// Its name.
        name: String,
        /// The file; the zone's own if absent.
        #[serde(default)]
        to: Option<String>,
        /// Overwrite a file that exists, or that was edited.
        #[serde(default)]
        force: bool,
    },
    /// Open a transaction.
    ZoneBegin {
        /// The zone's name.
        name: String,
    },
    /// Set a record in a transaction.
    ZoneSet {
        /// The zone's name.
        name: String,
        /// The record in zone file syntax.
        record: String,
    },
    /// Unset records in a transaction.
    ZoneUnset {
        /// The zone's name.
        name: String,
        /// An owner, an owner and a type, or a record.
        record: String,
    },
    /// Show what a transaction changes.
    ZoneDiff {
        /// The zone's name.
        name: String,
    },
    /// Commit a transaction to its zone.
    ZoneCommit {
        /// The zone's name.
        name: String,
    },
    /// Abort a transaction.
    ZoneAbort {
        /// The zone's name.
        name: String,
    },
    /// Refresh a zone from its primaries.
    ZoneRefresh {
        /// Its name.
        name: String,
    },
    /// Transfer a zone from its primaries in full.
    ZoneRetransfer {
        /// Its name.
        name: String,
    },
    /// Send NOTIFY to a zone's secondaries.
    ZoneNotify {
        /// Its name.
        name: String,
    },
    /// Add a zone and serve it.
    ZoneAdd {
        /// Its name.
        name: String,
        /// Its template.
        #[serde(default)]
        template: Option<String>,
        /// Its file.
        #[serde(default)]
        file: Option<String>,
        /// Its primaries, as in the configuration.
        #[serde(default)]
        primaries: Vec<String>,
        /// The catalog zone that lists it.
        #[serde(default)]
        catalog: Option<String>,
        /// Its group in the catalog zone.
        #[serde(default)]
        group: Option<String>,
    },
    /// Remove a zone that was added.
    ZoneRemove {
        /// Its name.
        name: String,
    },
    /// Return the records of one zone.
    ZoneDump {
        /// Its name.
        name: String,
    },
    /// Explain how a query would be answered.
    Explain {
        /// The query name.
        name: String,
        /// The query type.
        rtype: String,
        /// Whether the DNSSEC OK bit is set.
        #[serde(default)]
        dnssec: bool,
    },
    /// Report the counters of the cache.
    CacheStats,
    /// Flush a name from the cache.
    CacheFlush {
        /// The name.
        name: String,
        /// Also all names below it.
        #[serde(default)]
        tree: bool,
        /// Only records of this type.
        #[serde(default)]
        rtype: Option<String>,
    },
    /// Return every entry of the cache.
    CacheDump,
    /// Write the cache to a file.
    CacheSave {
        /// The file; the configured one if absent.
        #[serde(default)]
        file: Option<String>,
    },
    /// Read a file into the cache.
    CacheLoad {
        /// The file; the configured one if absent.
        #[serde(default)]
        file: Option<String>,
    },
    /// List every forwarding rule.
    ForwardList,
    /// Forward queries for a domain to these servers.
    ForwardAdd {
        /// The domain.
        domain: String,
        /// The servers.
        servers: Vec<SocketAddr>,
        /// The servers are authoritative.
        #[serde(default)]
        stub: bool,
    },
    /// Remove the rule for a domain.
    ForwardRemove {
        /// The domain.
        domain: String,
    },
    /// List every trust anchor.
    TrustAnchorList,
    /// List every negative trust anchor.
    NtaList,
    /// Add a negative trust anchor: the domain is not validated for a while.
    NtaAdd {
        /// The domain.
        domain: String,
        /// The duration, such as `1h`.
        time: String,
    },
    /// Remove a negative trust anchor.
    NtaRemove {
        /// The domain.
        domain: String,
    },
    /// Reopen the files of the logs and of dnstap.
    LogReopen,
    /// Change the log level.
    LogLevel {
        /// The level, as in the configuration.
        level: String,
    },
    /// Turn the query log on or off.
    LogQueries {
        /// Whether queries are logged.
        on: bool,
        /// The share of queries that is logged, if not all are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
    },
    /// Send the listening sockets to the client of this connection, and stop.
    HandOver,
    /// Stop the server.
    Stop,
}

/// One line of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AnswerLine {
    /// A piece of a long output.
    Text {
        /// Whole lines.
        text: String,
    },
    /// The end of a successful answer.
    Done {
        /// Always true.
        ok: True,
        /// The result of the command.
        data: serde_json::Value,
    },
    /// The end of an answer to a failed command.
    Fault {
        /// Always false.
        ok: bool,
        /// The reason.
        error: String,
        /// What was done nevertheless, and the faults in detail.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<serde_json::Value>,
    },
}

/// The literal `true` in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct True;

impl Serialize for True {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(True),
            false => Err(serde::de::Error::custom("expected true")),
        }
    }
}

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
    pub fn bind(wanted: Option<&Path>, owner: Option<privileges::UserIds>) -> Result<Self, SocketFault> {
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

    fn bind_at(path: &Path, owner: Option<privileges::UserIds>) -> Result<Self, SocketFault> {
        let fault = |what| move |e| SocketFault::Io { what, path: path.to_owned(), error: e };
        if let Some(folder) = path.parent() {
            prepare_folder(folder, owner)?;
        }
        if path.exists() {
            if StdStream::connect(path).is_ok() {
                return Err(SocketFault::Live(path.to_owned()));
            }
            let is_socket = fs::symlink_metadata(path).is_ok_and(|m| {
                use std::os::unix::fs::FileTypeExt;
                m.file_type().is_socket()
            });
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
    pub fn into_tokio(self) -> std::io::Result<UnixListener> {
        UnixListener::from_std(self.listener)
    }
}

/// Makes the socket's folder if it is missing; a folder in the temporary folder must belong to this user
/// alone.
fn prepare_folder(folder: &Path, owner: Option<privileges::UserIds>) -> Result<(), SocketFault> {
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

fn give(path: &Path, owner: Option<privileges::UserIds>) -> std::io::Result<()> {
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

/// Answers commands for as long as the runtime runs; a message on `stop` requests the shutdown.
pub async fn serve(parts: Arc<Parts>, listener: UnixListener, stop: mpsc::Sender<&'static str>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place =
                    parts.connections.control.place(parts.in_force.settings().control.connections.0).await;
                let (parts, stop) = (Arc::clone(&parts), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        // A client that breaks the protocol or disconnects ends only its own connection.
                        _ = converse(parts, stream, stop, &place) => {}
                        () = place.evicted() => {}
                    }
                });
                // Lets the command, which has most likely arrived, be read before the connection can be
                // evicted.
                tokio::task::yield_now().await;
            }
            // Out of file descriptors: some may be free soon.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(
    parts: Arc<Parts>,
    stream: UnixStream,
    stop: mpsc::Sender<&'static str>,
    place: &ConnectionPlace,
) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let longest = parts.in_force.settings().control.idle.0;
        let mut limited = (&mut reader).take(MAX_COMMAND);
        let read = limited.read_until(b'\n', &mut line);
        let Ok(read) = tokio::time::timeout(longest, read).await else { return Ok(()) };
        if read? == 0 {
            return Ok(());
        }
        place.busy();
        let command = if line.ends_with(b"\n") {
            serde_json::from_slice::<Command>(&line).map_err(|e| format!("not a command: {e}"))
        } else {
            Err(format!("a command has one line of at most {MAX_COMMAND} bytes"))
        };
        if command == Ok(Command::HandOver) {
            if hand_over::give(&parts.frontend, &mut writer).await? {
                let _ = stop.send("sockets handed over to another server").await;
            }
            place.idle();
            continue;
        }
        let (lines, mut waiting) = mpsc::channel(4);
        let stopping = command == Ok(Command::Stop);
        let whole = line.ends_with(b"\n");
        match command {
            Ok(command) => verbs::answer(&parts, command, lines),
            Err(error) => {
                let _ = lines.try_send(AnswerLine::Fault { ok: false, error, data: None });
                // The answer ends when the last sender is dropped.
                drop(lines);
            }
        }
        while let Some(line) = waiting.recv().await {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            // A client that does not read blocks only its own connection.
            place.idle();
            let Ok(written) = tokio::time::timeout(longest, writer.write_all(&text)).await else {
                return Ok(());
            };
            written?;
            place.busy();
        }
        place.idle();
        if stopping {
            let _ = stop.send("nomen ctl stop").await;
        }
        if !whole {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_read_back() {
        let all = [
            Command::Status,
            Command::Reload { force: true },
            Command::ZoneList { failed: true },
            Command::ZoneStatus { name: "a".into() },
            Command::Explain { name: "a".into(), rtype: "A".into(), dnssec: false },
        ];
        for command in all {
            let text = serde_json::to_string(&command).expect("text");
            assert_eq!(serde_json::from_str::<Command>(&text).ok(), Some(command), "{text}");
        }
        let plain = serde_json::from_str::<Command>(r#"{"verb":"reload"}"#);
        assert_eq!(plain.ok(), Some(Command::Reload { force: false }));
        assert!(serde_json::from_str::<Command>(r#"{"verb":"zone-status","name":"a","nmae":"b"}"#).is_err());
    }

    #[test]
    fn answer_lines_are_told_apart() {
        let fault = AnswerLine::Fault { ok: false, error: "e".into(), data: None };
        let half_done = AnswerLine::Fault { ok: false, error: "e".into(), data: Some(1.into()) };
        let done = AnswerLine::Done { ok: True, data: serde_json::json!({"error": "no"}) };
        for line in [fault, half_done, done, AnswerLine::Text { text: "t".into() }] {
            let text = serde_json::to_string(&line).expect("text");
            assert_eq!(serde_json::from_str::<AnswerLine>(&text).ok(), Some(line));
        }
    }

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
