//! The query log: workers put short records into a queue and never block; a thread formats them as log lines.
//! Records that find the queue full are dropped and counted. While there are observers, such as the streams
//! of the HTTP API, the thread passes all queries to them, too.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use query_path::{LoggedQuery, LoggedReply, QueryLog, RuleNote, SourceKind, SourceName};
use transport::Client;
use wire::edns::ErrorInfo;
use wire::name::Name;
use wire::{Class, Opcode, Rcode, Type, ViewName};

use crate::logging::{QUERIES, QueryFile};
use crate::worker_queue::{RecordWriter, WorkerQueue, WriterThread};
use threads::sync::lock;

/// Approximate size of the queue, in bytes.
const QUEUE_BYTES: usize = 4 << 20;

/// One answered query; its bytes are QNAME and the names of the zone, of the TSIG key and of the view.
struct LogRecord {
    /// Whether it is in the sample of the log.
    logged: bool,
    client: Client,
    opcode: Opcode,
    qtype: Option<Type>,
    qclass: Option<Class>,
    /// `None`: the query got no reply, by a rule.
    rcode: Option<Rcode>,
    truncated: bool,
    info: Option<ErrorInfo>,
    rule: Option<RuleNote>,
    bytes: usize,
    recursion_desired: bool,
    /// The UDP size advertised in OPT; `None` without OPT.
    edns_size: Option<u16>,
    dnssec_ok: bool,
    /// From the query's arrival to its reply.
    took: Duration,
    upstream: Option<SocketAddr>,
    name_len: usize,
    zone_len: usize,
    key_len: usize,
}

/// An answered query, as observers see it.
#[derive(Debug, Clone, Copy)]
pub struct ObservedQuery<'a> {
    /// The client.
    pub client: &'a Client,
    /// The query name, as the client wrote it.
    pub name: Name<'a>,
    /// The query type, if there was a question.
    pub qtype: Option<Type>,
    /// The zone here that the name is in.
    pub zone: Option<Name<'a>>,
    /// The view that the query is in.
    pub view: Option<&'a str>,
    /// The response code; `None`: the query got no reply, by a rule.
    pub rcode: Option<Rcode>,
    /// Whether TC is set.
    pub truncated: bool,
    /// Whether the client set DO.
    pub dnssec_ok: bool,
    /// Bytes of the reply.
    pub bytes: usize,
    /// From the query's arrival to its reply.
    pub took: Duration,
    /// The server that the newest part of the answer came from.
    pub upstream: Option<SocketAddr>,
    /// The rule of a policy that decided the query.
    pub rule: Option<&'a RuleNote>,
}

/// Sees every answered query, on the thread of the query log. Must neither block nor fail.
pub trait QueryObserver: Send + Sync {
    /// Sees a query.
    fn observe(&self, query: &ObservedQuery<'_>);
}

/// The observers, with their numbers.
type Observers = Arc<Mutex<Vec<(u64, Arc<dyn QueryObserver>)>>>;

/// The queue and the writer.
pub struct QueryLogger {
    queue: Arc<WorkerQueue<LogRecord>>,
    thread: WriterThread<LogRecord, Lines>,
    file: Option<QueryFile>,
    observers: Observers,
    /// The number of observers.
    observing: AtomicUsize,
}

impl QueryLogger {
    /// Starts the writing thread. Lines go to `file`, or else to the log.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn start(file: Option<QueryFile>) -> std::io::Result<Self> {
        let observers = Observers::default();
        let lines = Lines { file: file.clone(), observers: Arc::clone(&observers) };
        let (queue, thread) = WriterThread::start("query-log", QUEUE_BYTES, lines)?;
        Ok(Self { queue, thread, file, observers, observing: AtomicUsize::new(0) })
    }

    /// Returns the engine's end of the queue, which samples a share of the queries for the log, and has all
    /// for the observers there are now; `None` if there is nothing to do.
    pub fn tap(&self, share: f64) -> Option<QueryLogTap> {
        // The share as a threshold for 32 random bits; 1.0 passes all.
        let threshold = (share.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        let observed = self.observing.load(Relaxed) > 0;
        (threshold > 0 || observed).then(|| QueryLogTap {
            queue: Arc::clone(&self.queue),
            threshold,
            observed,
        })
    }

    /// Adds an observer, and returns its number. It sees queries from the next [`tap`](Self::tap) on.
    pub fn add_observer(&self, observer: Arc<dyn QueryObserver>) -> u64 {
        let mut observers = lock(&self.observers);
        let number = observers.last().map_or(0, |(last, _)| last + 1);
        observers.push((number, observer));
        self.observing.store(observers.len(), Relaxed);
        number
    }

    /// Removes an observer.
    pub fn remove_observer(&self, number: u64) {
        let mut observers = lock(&self.observers);
        observers.retain(|(own, _)| *own != number);
        self.observing.store(observers.len(), Relaxed);
    }

    /// Waits until the records queued so far are written, but no longer than `patience`.
    pub fn flush(&self, patience: Duration) {
        // Records written later are lost: the wait is bounded on purpose.
        let _ = self.thread.ask(patience, |_| ());
    }

    /// Returns the number of records lost because the queue was full or the file could not be written.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped() + self.file.as_ref().map_or(0, QueryFile::lost)
    }
}

/// The engine's end of the queue.
pub struct QueryLogTap {
    queue: Arc<WorkerQueue<LogRecord>>,
    threshold: u64,
    /// Whether observers see all queries.
    observed: bool,
}

thread_local! {
    /// State of a small random number generator for sampling; it need not be unpredictable.
    static DICE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// Returns 32 random bits (xorshift64*).
fn dice() -> u64 {
    DICE.with(|dice| {
        let mut x = dice.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        dice.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    })
}

impl QueryLog for QueryLogTap {
    /// Does nothing: each line is about a query and its reply.
    fn query(&self, _: &LoggedQuery<'_>) {}

    fn reply(&self, query: &LoggedQuery<'_>, reply: &LoggedReply<'_>) {
        self.put(query, Some(reply), reply.rule);
    }

    fn withheld(&self, query: &LoggedQuery<'_>, rule: Option<&RuleNote>) {
        self.put(query, None, rule.copied());
    }
}

impl QueryLogTap {
    /// Puts a record about a query into the queue, if it is in the sample or observed.
    fn put(&self, query: &LoggedQuery<'_>, reply: Option<&LoggedReply<'_>>, rule: Option<RuleNote>) {
        let logged = dice() < self.threshold;
        if !logged && !self.observed {
            return;
        }
        let question = query.request.question;
        let name = if question.is_some() { query.qname().as_wire() } else { &[] };
        let zone = query.zone.map_or(&[][..], |zone| zone.as_wire());
        let key = query.key.map_or(&[][..], |key| key.name().as_wire());
        let view = query.view.map_or("", ViewName::as_str).as_bytes();
        let record = || LogRecord {
            logged,
            client: query.client,
            opcode: query.request.header.opcode(),
            qtype: question.map(|q| q.qtype),
            qclass: question.map(|q| q.qclass),
            rcode: reply.map(|reply| reply.rcode),
            truncated: reply.is_some_and(|reply| reply.truncated),
            info: reply.and_then(|reply| reply.info),
            rule,
            bytes: reply.map_or(0, |reply| reply.message.len()),
            recursion_desired: query.request.header.recursion_desired(),
            edns_size: query.request.edns.map(|edns| edns.udp_size),
            dnssec_ok: query.request.dnssec_ok(),
            took: query.received.elapsed(),
            upstream: reply.and_then(|reply| reply.upstream),
            name_len: name.len(),
            zone_len: zone.len(),
            key_len: key.len(),
        };
        self.queue.put(record, &[name, zone, key, view]);
    }
}

/// Formats records as lines, and passes them to observers.
struct Lines {
    file: Option<QueryFile>,
    observers: Observers,
}

impl Lines {
    /// Passes a query to the observers.
    fn observe(&self, record: &LogRecord, name: Name<'_>, zone: Option<Name<'_>>, view: Option<&str>) {
        let observers = lock(&self.observers);
        if observers.is_empty() {
            return;
        }
        let query = ObservedQuery {
            client: &record.client,
            name,
            qtype: record.qtype,
            zone,
            view,
            rcode: record.rcode,
            truncated: record.truncated,
            dnssec_ok: record.dnssec_ok,
            bytes: record.bytes,
            took: record.took,
            upstream: record.upstream,
            rule: record.rule.as_ref(),
        };
        observers.iter().for_each(|(_, observer)| observer.observe(&query));
    }
}

impl RecordWriter<LogRecord> for Lines {
    fn write(&mut self, record: &LogRecord, bytes: &[u8]) {
        let (name, rest) = bytes.split_at(record.name_len);
        let (zone, rest) = rest.split_at(record.zone_len);
        let (key, view) = rest.split_at(record.key_len);
        let name = Name::from_wire(name).unwrap_or(Name::ROOT);
        let (zone, key) = (Name::from_wire(zone).ok(), Name::from_wire(key).ok());
        let view = std::str::from_utf8(view).ok().filter(|view| !view.is_empty());
        self.observe(record, name, zone, view);
        if !record.logged {
            return;
        }
        let of = |kind, rule: RuleNote| (rule.kind == kind).then(|| rule.source.as_str());
        tracing::info!(
            target: QUERIES,
            client = %record.client.peer,
            listener = %record.client.local,
            transport = record.client.transport.label(),
            opcode = %record.opcode,
            name = %name,
            class = record.qclass.map(|c| c.to_string()),
            r#type = record.qtype.map(|t| t.to_string()),
            zone = zone.map(|zone| zone.to_string()),
            view = view,
            rcode = record.rcode.map(tracing::field::display),
            truncated = record.truncated,
            extended_error = record.info.map(|info| info.0),
            policy_action = record.rule.map(|rule| rule.action.label()),
            policy_trigger = record.rule.map(|rule| rule.trigger.label()),
            policy_zone = record.rule.and_then(|rule| of(SourceKind::Zone, rule)),
            policy_list = record.rule.and_then(|rule| of(SourceKind::List, rule)),
            policy_group = record.rule.and_then(|rule| rule.group).map(SourceName::as_str),
            bytes = record.bytes,
            recursion_desired = record.recursion_desired,
            edns_size = record.edns_size,
            dnssec_ok = record.dnssec_ok,
            key = key.map(|key| key.to_string()),
            microseconds = u64::try_from(record.took.as_micros()).unwrap_or(u64::MAX),
            upstream = record.upstream.map(|upstream| upstream.to_string()),
            "query"
        );
    }

    fn settle(&mut self) {
        if let Some(file) = &self.file {
            file.flush();
        }
    }
}
