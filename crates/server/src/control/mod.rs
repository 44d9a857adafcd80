//! The control socket: where it is, who may open it, and the protocol on it: one JSON object in a line each
//! way. `verbs` chooses the file that does what a command asks for. The other end is `ctl` of the crate
//! `tools`.
//!
//! A command is one line, such as `{"verb":"zone-status","name":"example.com"}`. The answer is one line,
//! `{"ok":true,"data":…}` or `{"ok":false,"error":"…"}`; before it there may be lines `{"text":"…"}`, which
//! are pieces of a long output. A connection carries any number of commands, one at a time.

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

/// What is accepted in place of a damaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptedVersion {
    /// What the zone's file holds.
    File,
    /// What can be read of the journal.
    Journal,
}

/// A command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// The server as a whole.
    Status,
    /// Every counter.
    Stats,
    /// Read the configuration and changed zones again.
    Reload {
        /// Remove zones that are gone however many they are.
        #[serde(default)]
        force: bool,
    },
    /// Every zone.
    ZoneList {
        /// Only those that are not at the newest version of their file.
        #[serde(default)]
        failed: bool,
    },
    /// One zone.
    ZoneStatus {
        /// Its name.
        name: String,
    },
    /// Read one zone again.
    ZoneReload {
        /// Its name.
        name: String,
        /// Take what its file says, though updates have changed the zone.
        #[serde(default)]
        force: bool,
    },
    /// Accept an older version of a zone whose journal is damaged.
    ZoneAccept {
        /// Its name.
        name: String,
        /// Which one.
        from: AcceptedVersion,
    },
    /// Take no updates for a zone, and write its file.
    ZoneFreeze {
        /// Its name.
        name: String,
    },
    /// Take a zone's file, and updates again.
    ZoneThaw {
        /// Its name.
        name: String,
    },
    /// Write a zone to a file.
    ZoneWrite {
        /// Its name.
        name: String,
        /// The file; the zone's own if there is none.
        #[serde(default)]
        to: Option<String>,
        /// Replace a file that is there, or that was edited.
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
        /// The record, as a zone file has it.
        record: String,
    },
    /// Unset records in a transaction.
    ZoneUnset {
        /// The zone's name.
        name: String,
        /// An owner, an owner and a type, or a record.
        record: String,
    },
    /// What a transaction changes.
    ZoneDiff {
        /// The zone's name.
        name: String,
    },
    /// Make a transaction a change of its zone.
    ZoneCommit {
        /// The zone's name.
        name: String,
    },
    /// Drop a transaction.
    ZoneAbort {
        /// The zone's name.
        name: String,
    },
    /// Ask a zone's primaries for a newer version.
    ZoneRefresh {
        /// Its name.
        name: String,
    },
    /// Take all of a zone from its primaries.
    ZoneRetransfer {
        /// Its name.
        name: String,
    },
    /// Tell a zone's secondaries of its version.
    ZoneNotify {
        /// Its name.
        name: String,
    },
    /// Serve a zone from now on.
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
        /// Its group there.
        #[serde(default)]
        group: Option<String>,
    },
    /// Serve a zone no longer that was added.
    ZoneRemove {
        /// Its name.
        name: String,
    },
    /// The records of one zone.
    ZoneDump {
        /// Its name.
        name: String,
    },
    /// How a question would be answered.
    Explain {
        /// The name asked for.
        name: String,
        /// The type asked for.
        rtype: String,
        /// Whether the DNSSEC OK bit is set.
        #[serde(default)]
        dnssec: bool,
    },
    /// What the cache holds and has done.
    CacheStats,
    /// Drop what is cached of a name.
    CacheFlush {
        /// The name.
        name: String,
        /// And of all names below.
        #[serde(default)]
        tree: bool,
        /// Of this type only.
        #[serde(default)]
        rtype: Option<String>,
    },
    /// Every entry of the cache.
    CacheDump,
    /// Write the cache to a file.
    CacheSave {
        /// The file; the configured one if there is none.
        #[serde(default)]
        file: Option<String>,
    },
    /// Read a file into the cache.
    CacheLoad {
        /// The file; the configured one if there is none.
        #[serde(default)]
        file: Option<String>,
    },
    /// Every rule that says whom to ask.
    ForwardList,
    /// Ask these servers for a domain.
    ForwardAdd {
        /// The domain.
        domain: String,
        /// The servers.
        servers: Vec<SocketAddr>,
        /// They are authoritative.
        #[serde(default)]
        stub: bool,
    },
    /// Drop the rule for a domain.
    ForwardRemove {
        /// The domain.
        domain: String,
    },
    /// Every trust anchor.
    TrustAnchorList,
    /// Every domain in which nothing is validated.
    NtaList,
    /// Validate nothing in a domain for a while.
    NtaAdd {
        /// The domain.
        domain: String,
        /// How long, such as `1h`.
        time: String,
    },
    /// Validate in a domain again.
    NtaRemove {
        /// The domain.
        domain: String,
    },
    /// Open the files of logs and of dnstap anew.
    LogReopen,
    /// Change the least severe level that is logged.
    LogLevel {
        /// The level, as the configuration has it.
        level: String,
    },
    /// Turn the log of queries on or off.
    LogQueries {
        /// Whether queries are logged.
        on: bool,
        /// The share of them that is logged, where that is not all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        share: Option<f64>,
    },
    /// Hand the listening sockets over to the client of this connection, and stop.
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
    /// The end of an answer that went well.
    Done {
        /// Always true.
        ok: True,
        /// What was asked for.
        data: serde_json::Value,
    },
    /// The end of an answer that did not.
    Fault {
        /// Always false.
        ok: bool,
        /// Why.
        error: String,
        /// What was done all the same, and what is wrong in detail.
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
    /// Another server answers on it.
    Live(PathBuf),
    /// There is something at its place that is no socket.
    NoSocket(PathBuf),
    /// Its folder lies where all may write, and others may use it.
    SharedFolder(PathBuf),
    /// There is no place to try.
    NoFolder,
    /// The system refused.
    Io {
        /// What, in words that the path follows.
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
            Self::SharedFolder(folder) => write!(f, "{} is not a folder of ours alone", folder.display()),
            Self::NoFolder => f.write_str("there is no folder for the control socket"),
            Self::Io { what, path, error } => write!(f, "{what} {}: {}", path.display(), reason(error)),
        }
    }
}

impl std::error::Error for SocketFault {}

/// A control socket that was opened and is not served yet.
pub struct Socket {
    /// Where it is.
    pub path: PathBuf,
    listener: StdListener,
}

impl Socket {
    /// Opens the socket at `wanted`, or at the first of [`default_paths`] that can be used. It will belong to
    /// `owner`, if given. A socket left over by a server that is gone is replaced; a live one is an error.
    ///
    /// # Errors
    /// [`SocketFault`]; of the default places, that of the last.
    pub fn bind(wanted: Option<&Path>, owner: Option<privileges::UserIds>) -> Result<Self, SocketFault> {
        match wanted {
            Some(path) => Self::bind_at(path, owner),
            None => {
                let mut fault = SocketFault::NoFolder;
                for path in default_paths() {
                    match Self::bind_at(&path, owner) {
                        Ok(socket) => return Ok(socket),
                        // Another server is not a reason to go elsewhere: `nomen ctl` would find that one.
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
        // No other user may connect before the socket has its permissions.
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

    /// The socket for the runtime that serves it.
    pub fn into_tokio(self) -> std::io::Result<UnixListener> {
        UnixListener::from_std(self.listener)
    }
}

/// Makes the socket's folder if it is missing; one in a place that all may write to must be ours alone.
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

/// Where the socket is looked for, and made, when the configuration has no place for it: the best first.
pub fn default_paths() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(|d| PathBuf::from(d).join("nomen"));
    [Some(PathBuf::from("/run/nomen")), runtime, temp_folder()]
        .into_iter()
        .flatten()
        .map(|folder| folder.join("ctl.sock"))
        .collect()
}

/// Answers commands for as long as the runtime runs; a message on `stop` asks for the end.
pub async fn serve(parts: Arc<Parts>, listener: UnixListener, stop: mpsc::Sender<&'static str>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let place =
                    parts.connections.control.place(parts.in_force.settings().control.connections.0).await;
                let (parts, stop) = (Arc::clone(&parts), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        // A client that breaks the protocol or goes away ends its own connection only.
                        _ = converse(parts, stream, stop, &place) => {}
                        () = place.evicted() => {}
                    }
                });
                // Its command, which is most likely there, is read before another connection may take its
                // place.
                tokio::task::yield_now().await;
            }
            // Out of descriptors: there may be some soon.
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
                // The answer ends where the last sender does.
                drop(lines);
            }
        }
        while let Some(line) = waiting.recv().await {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            // A client that does not read holds its connection only.
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
