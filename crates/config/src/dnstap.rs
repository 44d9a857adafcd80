//! `[dnstap]`: copies of DNS messages for a collector, made by `dnstap` of `telemetry`.

use std::path::PathBuf;

use dnstap::DnstapKind;

use super::answers::ChaosText;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::At;
use super::table::value::{Int, Size, Word, list};

/// The destination of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The collector on this Unix socket.
    Socket(PathBuf),
    /// This file.
    File(PathBuf),
}

/// The messages that are copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The kinds of messages.
    pub kinds: Vec<DnstapKind>,
    /// One in this many queries is sampled.
    pub sample: u32,
}

/// The configuration of dnstap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnstapConfig {
    /// The destination of frames.
    pub destination: Destination,
    /// The messages that are copied.
    pub selection: Selection,
    /// The server's name in frames, if any.
    pub identity: Option<Box<[u8]>>,
    /// The server's version in frames, if any.
    pub version: Option<Box<[u8]>>,
    /// Approximate size of the message queue, in bytes.
    pub queue_size: usize,
}

keys! {
    /// Copies of messages for a dnstap collector, in Frame Streams to a socket or a file. The section's
    /// presence turns it on; one of `socket` and `file` must be given. Queries never wait for it: messages
    /// beyond its speed are dropped and counted. [LOGGING.md](LOGGING.md) explains it.
    pub struct DnstapSection in "[dnstap]" {
        /// Unix socket that the collector listens on. nomen connects as the user it runs as, and reconnects
        /// after the connection is lost.
        restart "socket" socket: Option<PathBuf> = None, example "/run/dnstap.sock";
        /// File that frames are appended to. SIGHUP and `nomen ctl log reopen` open it again, for log
        /// rotation.
        restart "file" file: Option<PathBuf> = None, example "/var/log/nomen/nomen.dnstap";
        /// Messages that are copied: "auth-…" are of clients for zones served here, "client-…" of clients for
        /// other names, "resolver-…" and "forwarder-…" are exchanged with other servers, "update-…" are
        /// dynamic updates. Unset: all.
        live "messages" messages: Option<Vec<At<DnstapKind>>> = None,
            example ["client-response", "auth-response"];
        /// One in this many queries is copied. A response is copied if its query is.
        live "sample" sample: Int<u32, 1, 1000000> = Int(1), example 100;
        /// Name of this server in each frame; "auto" is the host's name, "hide" sends none.
        restart "identity" identity: ChaosText = ChaosText::Auto, example "ams1";
        /// Version of this server in each frame; "auto" is the program and its version, "hide" sends none.
        restart "version" version: ChaosText = ChaosText::Auto, example "hide";
        /// Memory for messages that wait to be written, also while no collector is connected. Messages beyond
        /// it are dropped.
        restart "queue-size" queue_size: Size<4_194_304, 1_073_741_824> = Size(16 << 20), example "64MiB";
    }
}

impl Word for DnstapKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auth-query", Self::AuthQuery),
        ("auth-response", Self::AuthResponse),
        ("client-query", Self::ClientQuery),
        ("client-response", Self::ClientResponse),
        ("resolver-query", Self::ResolverQuery),
        ("resolver-response", Self::ResolverResponse),
        ("forwarder-query", Self::ForwarderQuery),
        ("forwarder-response", Self::ForwarderResponse),
        ("update-query", Self::UpdateQuery),
        ("update-response", Self::UpdateResponse),
    ];

    fn kind() -> String {
        format!("message ({})", list(Self::WORDS.iter().map(|(word, _)| *word)))
    }
}

impl DnstapSection {
    /// Returns the destination of frames; `None` if none or both are set.
    fn destination(&self) -> Option<Destination> {
        match (&self.socket.value, &self.file.value) {
            (Some(path), None) => Some(Destination::Socket(path.clone())),
            (None, Some(path)) => Some(Destination::File(path.clone())),
            _ => None,
        }
    }

    /// Returns the messages that are copied.
    pub fn selection(&self) -> Selection {
        let kinds = match &self.messages.value {
            Some(kinds) => kinds.iter().map(|kind| kind.value).collect(),
            None => DnstapKind::WORDS.iter().map(|(_, kind)| *kind).collect(),
        };
        Selection { kinds, sample: self.sample.0 }
    }

    /// Returns the configuration of dnstap; `None` without a destination.
    pub fn config(&self) -> Option<DnstapConfig> {
        Some(DnstapConfig {
            destination: self.destination()?,
            selection: self.selection(),
            identity: self.identity.of_host(),
            version: self.version.of_program(),
            queue_size: self.queue_size.0,
        })
    }
}

/// Reports a missing or ambiguous destination of frames.
pub(super) fn check(dnstap: &At<DnstapSection>, faults: &mut Vec<Diagnostic>) {
    if dnstap.destination().is_some() {
        return;
    }
    faults.push(match dnstap.socket.is_some() {
        true => Diagnostic::at(dnstap.file.place.as_ref(), "frames go to `socket` or to `file`, not to both"),
        false => Diagnostic::at(dnstap.place.as_ref(), "[dnstap] has no `socket` and no `file` to write to"),
    });
}
