//! dnstap: copies of messages for a collector. Workers and the resolver's thread call `Dnstap`, which puts
//! messages into a queue and never blocks; a thread encodes them as frames (`frames`) and writes those to a
//! socket or a file (`sink`). `upstream` copies the messages to and from other servers.

mod frames;
mod sink;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dnstap::{DnstapFrame, DnstapKind, DnstapSocketProtocol, DnstapType};
use query_path::{LoggedQuery, LoggedReply, QueryLog, Role, RuleNote};
use transport::Transport;
use wire::Opcode;

use crate::worker_queue::{WorkerQueue, WriterThread};
use config::Adopt;
use config::Settings;
use config::dnstap::{Destination, DnstapConfig, Selection};
use frames::{Frames, Seen};
pub use sink::SinkFault;
pub use upstream::Tapped;

/// Longest wait for the file to be reopened.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Counters shared with the writing thread.
#[derive(Default)]
pub struct DnstapCounts {
    /// Frames written.
    pub written: AtomicU64,
    /// Frames lost with a connection, or not written because of an error.
    pub lost: AtomicU64,
    /// 1 while the file or the connection to the collector is open.
    pub connected: AtomicU32,
}

/// The dnstap logger, called with each message.
pub struct Dnstap {
    queue: Arc<WorkerQueue<Seen>>,
    thread: WriterThread<Seen, Frames>,
    counts: Arc<DnstapCounts>,
    clock: Arc<WallClock>,
    destination: Destination,
    /// A bit for each [`DnstapKind`], at the position of its number.
    kinds: AtomicU32,
    sample: AtomicU32,
    /// Keys the sampling, so that clients cannot choose which queries are sampled.
    secret: u64,
}

/// Converts instants of the monotonic clock to the time of day.
struct WallClock {
    start: Instant,
    /// Nanoseconds since 1970 at `start`, by the system's current clock.
    unix: AtomicU64,
}

impl WallClock {
    fn new() -> Self {
        let clock = WallClock { start: Instant::now(), unix: AtomicU64::new(0) };
        clock.set();
        clock
    }

    /// Follows the system clock, which may have been set.
    fn set(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix = now.saturating_sub(self.start.elapsed());
        self.unix.store(u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns the time in nanoseconds since 1970.
    fn unix(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.start).as_nanos();
        self.unix.load(Relaxed).saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

impl Dnstap {
    /// Opens the file, or starts connecting to the collector. An unreachable collector is no error.
    ///
    /// # Errors
    /// If the file cannot be used, or the system refuses a thread.
    pub fn start(config: DnstapConfig) -> Result<Dnstap, SinkFault> {
        let (counts, clock) = (Arc::<DnstapCounts>::default(), Arc::new(WallClock::new()));
        let DnstapConfig { destination, selection, identity, version, queue_size } = config;
        let (identity, version) = (identity.map(Vec::from), version.map(Vec::from));
        let of = DnstapType::Message as i32;
        let blank = DnstapFrame { identity, version, extra: None, message: None, of };
        let frames = Frames::open(&destination, blank, Arc::clone(&counts), Arc::clone(&clock))?;
        let (queue, thread) = WriterThread::start("dnstap", queue_size, frames).map_err(SinkFault::Thread)?;
        let mut secret = [0; 8];
        getrandom::fill(&mut secret).map_err(SinkFault::Random)?;
        let secret = u64::from_ne_bytes(secret) | 1;
        let (kinds, sample) = (AtomicU32::new(0), AtomicU32::new(1));
        let dnstap = Dnstap { queue, thread, counts, clock, destination, kinds, sample, secret };
        dnstap.select(&selection);
        Ok(dnstap)
    }

    /// Selects the messages to copy from now on.
    pub fn select(&self, selection: &Selection) {
        let bits = selection.kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u32);
        self.kinds.store(bits, Relaxed);
        self.sample.store(selection.sample.max(1), Relaxed);
    }

    /// Reopens the file, for example after it was moved away; returns its name. Does nothing if frames go to
    /// a collector.
    ///
    /// # Errors
    /// If the file cannot be opened: frames then still go to the old one.
    pub fn reopen(&self) -> Result<Option<String>, SinkFault> {
        let Destination::File(path) = &self.destination else { return Ok(None) };
        let reopened = self.thread.ask(REOPEN_TIMEOUT, Frames::reopen);
        reopened.unwrap_or(Err(SinkFault::Busy)).map(|()| Some(path.display().to_string()))
    }

    /// Ends the stream in order; waits no longer than `patience`.
    pub fn finish(&self, patience: Duration) {
        // Frames not written by then are lost: the wait is bounded on purpose.
        let _ = self.thread.ask(patience, move |frames| frames.finish(patience));
    }

    /// Returns the number of frames written.
    pub fn written(&self) -> u64 {
        self.counts.written.load(Relaxed)
    }

    /// Returns the number of messages that found the queue full or could not be written.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped() + self.counts.lost.load(Relaxed)
    }

    /// Returns whether the file or the connection to the collector is open.
    pub fn is_connected(&self) -> bool {
        self.counts.connected.load(Relaxed) == 1
    }

    /// Returns whether messages of this kind are copied.
    fn is_selected(&self, kind: DnstapKind) -> bool {
        self.kinds.load(Relaxed) & 1 << kind as u32 != 0
    }

    /// Returns whether messages of this kind are copied and this one is sampled. `id` and `port` are those of
    /// the query, so that its response is sampled, too.
    fn wants(&self, kind: DnstapKind, id: [u8; 2], port: u16) -> bool {
        if !self.is_selected(kind) {
            return false;
        }
        let sample = u64::from(self.sample.load(Relaxed));
        let query = u64::from(u16::from_be_bytes(id)) << 16 | u64::from(port);
        // The upper half of the product depends on all bits of the query, and on the secret.
        sample == 1 || ((query + 1).wrapping_mul(self.secret) >> 32).is_multiple_of(sample)
    }

    fn leave(&self, seen: impl Fn() -> Seen, [zone, view]: [&[u8]; 2], message: &[u8]) {
        self.queue.put(seen, &[zone, view, message]);
    }

    fn of_client(&self, query: &LoggedQuery<'_>, response: Option<&[u8]>, rule: Option<RuleNote>) {
        let [as_query, as_response] = match (query.request.header.opcode(), query.role) {
            (Opcode::UPDATE, _) => [DnstapKind::UpdateQuery, DnstapKind::UpdateResponse],
            (_, Role::Authority) => [DnstapKind::AuthQuery, DnstapKind::AuthResponse],
            (_, Role::Recursion) => [DnstapKind::ClientQuery, DnstapKind::ClientResponse],
        };
        let kind = if response.is_some() { as_response } else { as_query };
        let (client, packet) = (query.client, query.packet);
        let id = packet.first_chunk().copied().unwrap_or_default();
        if !self.wants(kind, id, client.peer.port()) {
            return;
        }
        let zone = query.zone.map_or(&[][..], |zone| zone.as_wire());
        let view = query.view.map_or(&[][..], |view| view.as_str().as_bytes());
        let response_at = response.map(|_| self.clock.unix(Instant::now()));
        let query_at = Some(self.clock.unix(query.received));
        let seen = || Seen {
            kind,
            transport: client.transport,
            asks: Some((client.peer.ip(), Some(client.peer.port()))),
            answers: client.local,
            query_at,
            response_at,
            zone_len: zone.len(),
            view_len: view.len(),
            rule,
        };
        self.leave(seen, [zone, view], response.unwrap_or(packet));
    }
}

impl QueryLog for Dnstap {
    fn query(&self, query: &LoggedQuery<'_>) {
        self.of_client(query, None, None);
    }

    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>) {
        self.of_client(query, Some(reply.message), reply.rule);
    }
}

impl Adopt for Dnstap {
    fn adopt(&self, settings: &Settings) {
        if let Some(dnstap) = &settings.dnstap {
            self.select(&dnstap.selection());
        }
    }
}

/// Returns dnstap's value for a transport.
fn protocol(transport: Transport) -> DnstapSocketProtocol {
    match transport {
        Transport::Tcp => DnstapSocketProtocol::Tcp,
        Transport::Tls => DnstapSocketProtocol::Dot,
        Transport::Https | Transport::Http | Transport::H3 => DnstapSocketProtocol::Doh,
        Transport::Quic => DnstapSocketProtocol::Doq,
        _ => DnstapSocketProtocol::Udp,
    }
}
