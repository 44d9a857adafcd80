//! Frames of dnstap messages, encoded by the thread that writes them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use dnstap::{
    DnstapFrame, DnstapKind, DnstapMessage, DnstapPolicy, DnstapPolicyAction, DnstapPolicyMatch,
    DnstapSocketFamily, append_frame,
};
use prost::Message;
use query_path::{RuleAction, RuleNote, RuleTrigger, SourceKind};
use tracing::warn;
use transport::Transport;

use super::sink::{Sink, SinkFault};
use super::{Destination, DnstapCounts, WallClock, protocol};
use crate::repeated::log_repeated;
use crate::worker_queue::RecordWriter;

/// Bytes of encoded frames that are written before a round is over.
const ROUND_BYTES: usize = 64 * 1024;

/// A copied message. Its bytes are the zone's name, the view's name, and the message.
pub(super) struct Seen {
    pub(super) kind: DnstapKind,
    pub(super) transport: Transport,
    /// The client's address, and its port if known.
    pub(super) asks: Option<(IpAddr, Option<u16>)>,
    pub(super) answers: SocketAddr,
    /// Nanoseconds since 1970.
    pub(super) query_at: Option<u64>,
    pub(super) response_at: Option<u64>,
    pub(super) zone_len: usize,
    pub(super) view_len: usize,
    /// The rule of a policy that decided the query.
    pub(super) rule: Option<RuleNote>,
}

impl Seen {
    /// Returns the text of the field `extra`: the view that the query is in.
    fn extra(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let view = bytes.get(self.zone_len..)?.get(..self.view_len)?;
        (!view.is_empty()).then(|| [b"view=", view].concat())
    }

    /// Returns the dnstap description of the message.
    fn describe(&self, bytes: &[u8]) -> DnstapMessage {
        let (zone, rest) = bytes.split_at(self.zone_len);
        let (_, message) = rest.split_at(self.view_len);
        let (query_time_sec, query_time_nsec) = parts(self.query_at);
        let (response_time_sec, response_time_nsec) = parts(self.response_at);
        let [query_message, response_message] = match self.kind.is_response() {
            false => [Some(message.to_vec()), None],
            true => [None, Some(message.to_vec())],
        };
        let family = match self.answers.ip().to_canonical() {
            IpAddr::V4(_) => DnstapSocketFamily::Inet,
            IpAddr::V6(_) => DnstapSocketFamily::Inet6,
        };
        DnstapMessage {
            kind: self.kind as i32,
            socket_family: Some(family as i32),
            socket_protocol: Some(protocol(self.transport) as i32),
            query_address: self.asks.map(|(asks, _)| bytes_of(asks)),
            response_address: Some(bytes_of(self.answers.ip())),
            query_port: self.asks.and_then(|(_, port)| port.map(Into::into)),
            response_port: Some(self.answers.port().into()),
            query_time_sec,
            query_time_nsec,
            query_message,
            query_zone: (!zone.is_empty()).then(|| zone.to_vec()),
            response_time_sec,
            response_time_nsec,
            response_message,
            policy: self.rule.map(policy),
        }
    }
}

/// Returns dnstap's description of a rule.
fn policy(rule: RuleNote) -> DnstapPolicy {
    let of = match rule.kind {
        SourceKind::Zone => "RPZ",
        SourceKind::List => "LIST",
    };
    let action = match rule.action {
        RuleAction::NxDomain => DnstapPolicyAction::NxDomain,
        RuleAction::NoData => DnstapPolicyAction::NoData,
        RuleAction::Passthru => DnstapPolicyAction::Pass,
        RuleAction::Drop => DnstapPolicyAction::Drop,
        RuleAction::TcpOnly => DnstapPolicyAction::Truncate,
        RuleAction::LocalData => DnstapPolicyAction::LocalData,
    };
    let matched = match rule.trigger {
        RuleTrigger::Qname => DnstapPolicyMatch::Qname,
        RuleTrigger::ClientIp => DnstapPolicyMatch::ClientIp,
        RuleTrigger::Ip => DnstapPolicyMatch::ResponseIp,
        RuleTrigger::NsDname => DnstapPolicyMatch::NsName,
        RuleTrigger::NsIp => DnstapPolicyMatch::NsIp,
    };
    DnstapPolicy { of: Some(of.into()), action: Some(action as i32), matched: Some(matched as i32) }
}

/// Returns the bytes of an address: four for an IPv4-mapped one.
fn bytes_of(address: IpAddr) -> Vec<u8> {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Splits nanoseconds into seconds and nanoseconds.
fn parts(unix: Option<u64>) -> (Option<u64>, Option<u32>) {
    let nanos = |unix| u32::try_from(unix % 1_000_000_000).unwrap_or(0);
    (unix.map(|unix| unix / 1_000_000_000), unix.map(nanos))
}

/// The state of the writing thread.
pub(super) struct Frames {
    sink: Sink,
    counts: Arc<DnstapCounts>,
    clock: Arc<WallClock>,
    /// A frame without its message.
    blank: DnstapFrame,
    /// Encoded frames that are not written yet, and their number.
    waiting: Vec<u8>,
    count: u64,
    /// Whether the last write or connection failed.
    failing: bool,
}

impl Frames {
    /// Opens the file, or prepares the connection to the collector. Each frame is `blank` with a message.
    pub(super) fn open(
        destination: &Destination,
        blank: DnstapFrame,
        counts: Arc<DnstapCounts>,
        clock: Arc<WallClock>,
    ) -> Result<Self, SinkFault> {
        let sink = match destination {
            Destination::File(path) => Sink::file(path)?,
            Destination::Socket(path) => Sink::socket(path),
        };
        counts.connected.store(sink.is_open().into(), Relaxed);
        Ok(Frames { sink, counts, clock, blank, waiting: Vec::new(), count: 0, failing: false })
    }

    /// Reopens the file.
    pub(super) fn reopen(&mut self) -> Result<(), SinkFault> {
        self.write_out();
        self.sink.reopen()
    }

    /// Ends the stream in order, within `patience`.
    pub(super) fn finish(&mut self, patience: Duration) {
        self.write_out();
        if let Err(fault) = self.sink.finish(patience) {
            warn!("dnstap: {} was not closed properly: {fault}", self.sink);
        }
        self.counts.connected.store(0, Relaxed);
    }

    /// Writes the encoded frames. On failure they wait for the next connection, or are counted as lost.
    fn write_out(&mut self) {
        if self.waiting.is_empty() || !self.sink.is_open() {
            return;
        }
        match self.sink.write(&mut self.waiting) {
            Ok(()) => {
                self.counts.written.fetch_add(self.count, Relaxed);
                self.count = 0;
                self.failing = false;
            }
            Err(fault) => {
                let left = frames_in(&self.waiting);
                let gone = self.count.saturating_sub(left);
                // It is unknown what a collector had not read when it disconnected.
                self.counts.lost.fetch_add(gone, Relaxed);
                self.count = left;
                if !std::mem::replace(&mut self.failing, true) {
                    let about = ("dnstap", &*self.sink.to_string());
                    log_repeated!(warn, WARN, about, "dnstap: cannot write to {}: {fault}", self.sink);
                }
            }
        }
        self.counts.connected.store(self.sink.is_open().into(), Relaxed);
    }
}

/// Returns the number of frames.
fn frames_in(mut frames: &[u8]) -> u64 {
    let mut count = 0;
    while let Some(len) = dnstap::first_frame(frames) {
        frames = &frames[len..];
        count += 1;
    }
    count
}

impl RecordWriter<Seen> for Frames {
    fn is_ready(&mut self) -> bool {
        if !self.sink.is_open() {
            let failed_before = self.failing;
            match self.sink.connect(Instant::now()) {
                None => {}
                Some(Ok(())) => {
                    self.failing = false;
                    let about = ("dnstap connected", &*self.sink.to_string());
                    log_repeated!(info, INFO, about, "dnstap: writing to {}", self.sink);
                }
                Some(Err(_)) if failed_before => {}
                Some(Err(fault)) => {
                    self.failing = true;
                    let about = ("dnstap", &*self.sink.to_string());
                    let sink = &self.sink;
                    log_repeated!(warn, WARN, about, "dnstap: cannot write to {sink}, trying again: {fault}");
                }
            }
            self.counts.connected.store(self.sink.is_open().into(), Relaxed);
        }
        self.sink.is_open()
    }

    fn write(&mut self, seen: &Seen, bytes: &[u8]) {
        if !self.sink.is_open() {
            // The connection was lost during this round.
            self.counts.lost.fetch_add(1, Relaxed);
            return;
        }
        self.blank.extra = seen.extra(bytes);
        self.blank.message = Some(Box::new(seen.describe(bytes)));
        append_frame(&mut self.waiting, |out| {
            // Encoding fails only if the buffer is full, and a vector grows.
            let _ = self.blank.encode(out);
        });
        self.count += 1;
        if self.waiting.len() >= ROUND_BYTES {
            self.write_out();
        }
    }

    fn settle(&mut self) {
        self.clock.set();
        self.write_out();
    }
}
