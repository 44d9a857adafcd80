//! The query log: workers put short records into a bounded queue and never wait; a thread of its own turns them
//! into log lines. What the queue cannot take is dropped and counted.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use engine::{LogEntry, QueryLog};
use exchange::Transport;
use wire::name::Name;
use wire::{Class, Rcode, Type};

/// Records that may wait for the writer.
const QUEUE: usize = 8192;

/// One answered query, small enough to be copied on the query path.
struct LogRecord {
    peer: SocketAddr,
    transport: Transport,
    qtype: Option<Type>,
    qclass: Option<Class>,
    rcode: Rcode,
    bytes: usize,
    dnssec_ok: bool,
    name_len: u8,
    name: [u8; 255],
}

/// What goes through the queue.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation on the query path")]
enum Item {
    /// A query to log.
    Query(LogRecord),
    /// Report that everything before this was written.
    Flush(Sender<()>),
}

/// The queue and the counter of what it lost.
pub struct QueryLogger {
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
}

impl QueryLogger {
    /// Starts the writer's thread, which ends when the logger and all its taps are gone.
    pub fn start() -> std::io::Result<Self> {
        let (queue, items) = sync_channel(QUEUE);
        std::thread::Builder::new().name("query-log".into()).spawn(move || write(&items))?;
        Ok(Self { queue, dropped: Arc::default() })
    }

    /// What the engine writes to: all queries, or about a share of them.
    pub fn tap(&self, share: f64) -> Tap {
        // The share as a threshold for 32 random bits; 1.0 lets all pass.
        let threshold = (share.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        Tap { queue: self.queue.clone(), dropped: Arc::clone(&self.dropped), threshold }
    }

    /// Waits until what was queued so far is written, but no longer than `patience`.
    pub fn flush(&self, patience: Duration) {
        let (done, written) = channel();
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            // What is written later is lost: that is what the limit is for.
            let _ = written.recv_timeout(patience);
        }
    }

    /// Records lost because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The engine's end of the queue.
pub struct Tap {
    queue: SyncSender<Item>,
    dropped: Arc<AtomicU64>,
    threshold: u64,
}

thread_local! {
    /// State of a small generator that picks samples; nothing depends on it being hard to guess.
    static DICE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// 32 random bits (xorshift64*).
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

impl QueryLog for Tap {
    fn log(&self, entry: &LogEntry<'_>) {
        if dice() >= self.threshold {
            return;
        }
        let question = entry.request.question;
        let mut name = [0; 255];
        let mut name_len = 0;
        if question.is_some() {
            let wire = entry.qname.as_wire();
            name[..wire.len()].copy_from_slice(wire);
            // A name has at most 255 bytes.
            name_len = wire.len() as u8;
        }
        let record = LogRecord {
            peer: entry.client.peer,
            transport: entry.client.transport,
            qtype: question.map(|q| q.qtype),
            qclass: question.map(|q| q.qclass),
            rcode: entry.rcode,
            bytes: entry.len,
            dnssec_ok: entry.request.dnssec_ok(),
            name_len,
            name,
        };
        if self.queue.try_send(Item::Query(record)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(items: &Receiver<Item>) {
    while let Ok(item) = items.recv() {
        let record = match item {
            Item::Query(record) => record,
            Item::Flush(done) => {
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
                continue;
            }
        };
        let name = Name::from_wire(&record.name[..usize::from(record.name_len)]).unwrap_or(Name::ROOT);
        tracing::info!(
            client = %record.peer,
            transport = record.transport.label(),
            name = %name,
            class = record.qclass.map(|c| c.to_string()),
            r#type = record.qtype.map(|t| t.to_string()),
            rcode = %record.rcode,
            bytes = record.bytes,
            dnssec_ok = record.dnssec_ok,
            "query"
        );
    }
}
