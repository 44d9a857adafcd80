//! The upstream server of forwarders: it makes every answer from the question alone, so it has no data and is
//! never the bottleneck; it can delay answers, and counts queries. It answers as a recursive server does (RA,
//! no AA), over UDP only. For signed answers it passes the queries on to a server with the zone, and counts
//! them. It runs in a thread of the benchmark, so that its CPU time is not in any server's figures.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::Type;

use crate::answers::exchange;
use crate::failure::{Context, Result};
use crate::namespaces;
use crate::queries::{MISSING, WILD};
use crate::sys::{self, Batch, SLOT};

/// Size of a socket buffer in bytes, each for receiving and sending.
const SOCKET_BUFFER: usize = 8 << 20;
/// TTL of all records, in seconds: long enough that nothing expires during a run.
const TTL: u32 = 3600;
/// Longest wait for a query before it checks whether to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// The first number of names for measurements; lower ones are those that servers are compared with.
const FIRST_UNUSED: u64 = 1 << 20;

/// Counts of queries.
#[derive(Debug, Default)]
struct Counts {
    /// Queries for repeated names.
    known: AtomicU64,
    /// Queries for names below the wildcard, which are not repeated.
    unique: AtomicU64,
}

/// Counts of queries at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Number of queries for repeated names.
    pub(crate) known: u64,
    /// Number of queries for names below the wildcard.
    pub(crate) unique: u64,
}

/// A running upstream; ends when dropped.
pub(crate) struct Upstream {
    /// Its address.
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    next: AtomicU64,
}

impl Upstream {
    /// Starts it on this CPU; every answer is sent `delay` after its query arrived.
    pub(crate) fn start(address: SocketAddr, cpu: usize, delay: Duration) -> Result<Upstream> {
        let socket = UdpSocket::bind(address).context(|| format!("upstream: cannot listen on {address}"))?;
        sys::widen_buffers(&socket, SOCKET_BUFFER);
        socket.set_read_timeout(Some(PAUSE))?;
        let address = socket.local_addr()?;
        let (counts, done) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let mut threads = Vec::new();
        let (count, stop) = (counts.clone(), done.clone());
        if delay.is_zero() {
            threads.push(std::thread::spawn(move || at_once(&socket, cpu, &count, &stop)));
        } else {
            let (out, waiting) = channel();
            let sender = socket.try_clone()?;
            threads.push(std::thread::spawn(move || receive(&socket, cpu, &count, &stop, delay, &out)));
            threads.push(std::thread::spawn(move || send_when_due(&sender, cpu, &waiting)));
        }
        Ok(Upstream { address, counts, done, threads, next: AtomicU64::new(FIRST_UNUSED) })
    }

    /// Starts one that passes everything on to `origin`, one query after the other.
    pub(crate) fn passing_on(address: SocketAddr, cpu: usize, origin: SocketAddr) -> Result<Upstream> {
        let socket = UdpSocket::bind(address).context(|| format!("upstream: cannot listen on {address}"))?;
        sys::widen_buffers(&socket, SOCKET_BUFFER);
        socket.set_read_timeout(Some(PAUSE))?;
        let way = namespaces::socket(None, origin)?;
        way.set_read_timeout(Some(PAUSE))?;
        let address = socket.local_addr()?;
        let (counts, done) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (counts.clone(), done.clone());
        let thread = std::thread::spawn(move || pass_on(&socket, &way, cpu, &count, &stop));
        Ok(Upstream { address, counts, done, threads: vec![thread], next: AtomicU64::new(FIRST_UNUSED) })
    }

    /// Returns the counts so far.
    pub(crate) fn asked(&self) -> Asked {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Asked { known: of(&self.counts.known), unique: of(&self.counts.unique) }
    }

    /// Returns the number of an unused name below the wildcard.
    pub(crate) fn unused(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn at_once(socket: &UdpSocket, cpu: usize, counts: &Counts, done: &AtomicBool) {
    let _ = sys::pin(0, cpu);
    let mut batch = Batch::new();
    while !done.load(Ordering::Relaxed) {
        let Ok(count) = batch.receive(socket) else { continue };
        for index in 0..count {
            let (bytes, length) = batch.slot(index);
            *length = answer(bytes, *length, counts);
        }
        // A full socket buffer drops replies, as it would another server's.
        let _ = batch.send(socket, count);
    }
}

fn pass_on(socket: &UdpSocket, way: &UdpSocket, cpu: usize, counts: &Counts, done: &AtomicBool) {
    let _ = sys::pin(0, cpu);
    let mut bytes = vec![0; usize::from(u16::MAX)];
    while !done.load(Ordering::Relaxed) {
        let Ok((length, peer)) = socket.recv_from(&mut bytes) else { continue };
        counts.known.fetch_add(1, Ordering::Relaxed);
        // A client without an answer repeats its query.
        let Some(query) = bytes.get(..length).filter(|query| query.len() > 2) else { continue };
        let id = u16::from_be_bytes([query[0], query[1]]);
        if let Some(reply) = exchange(way, query, id) {
            let _ = socket.send_to(&reply, peer);
        }
    }
}

/// An answer, its send time and its destination.
type Delayed = (Instant, Vec<u8>, SocketAddr);

fn receive(
    socket: &UdpSocket,
    cpu: usize,
    counts: &Counts,
    done: &AtomicBool,
    delay: Duration,
    out: &Sender<Delayed>,
) {
    let _ = sys::pin(0, cpu);
    let mut bytes = [0; SLOT];
    while !done.load(Ordering::Relaxed) {
        let Ok((length, peer)) = socket.recv_from(&mut bytes) else { continue };
        let due = Instant::now() + delay;
        let length = answer(&mut bytes, length, counts);
        if out.send((due, bytes[..length].to_vec(), peer)).is_err() {
            return;
        }
    }
}

fn send_when_due(socket: &UdpSocket, cpu: usize, waiting: &Receiver<Delayed>) {
    let _ = sys::pin(0, cpu);
    for (due, reply, peer) in waiting {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let _ = socket.send_to(&reply, peer);
    }
}

/// A question: offsets of its labels, and its type.
struct Question {
    labels: Vec<usize>,
    qtype: Type,
    end: usize,
}

fn question(bytes: &[u8; SLOT], length: usize) -> Option<Question> {
    let message = bytes.get(..length)?;
    let (mut at, mut labels) = (12, Vec::with_capacity(8));
    loop {
        match *message.get(at)? {
            0 => break,
            size @ 1..=63 => {
                labels.push(at);
                at += 1 + usize::from(size);
            }
            _ => return None,
        }
    }
    let qtype = message.get(at + 1..at + 5)?;
    Some(Question { labels, qtype: Type(u16::from_be_bytes([qtype[0], qtype[1]])), end: at + 5 })
}

/// Turns a query into its answer and returns the new length; 0, for an empty datagram, if it is no query.
fn answer(bytes: &mut [u8; SLOT], length: usize, counts: &Counts) -> usize {
    let Some(question) = question(bytes, length) else { return 0 };
    let has_label = |at: Option<&usize>, text: &str, whole: bool| {
        at.is_some_and(|at| {
            let label = &bytes[at + 1..=at + usize::from(bytes[*at])];
            let head = label.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()));
            head && (!whole || label.len() == text.len())
        })
    };
    let missing = has_label(question.labels.first(), MISSING, false);
    let wild = has_label(question.labels.get(1), WILD, true);
    if wild { &counts.unique } else { &counts.known }.fetch_add(1, Ordering::Relaxed);
    let edns = u16::from_be_bytes([bytes[10], bytes[11]]) > 0;
    let records = if missing { Vec::new() } else { rdata(question.qtype, hash(&bytes[12..question.end])) };
    let mut out = Vec::with_capacity(256);
    for rdata in &records {
        record(&mut out, &[0xc0, 12], question.qtype, rdata);
    }
    if records.is_empty() {
        out.extend(soa(&question.labels));
    }
    if edns {
        out.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    }
    bytes[2] = 0x80 | bytes[2] & 1;
    bytes[3] = 0x80 | if missing { 3 } else { 0 };
    bytes[6..12].copy_from_slice(&[
        0,
        records.len() as u8,
        0,
        u8::from(records.is_empty()),
        0,
        u8::from(edns),
    ]);
    let end = (question.end + out.len()).min(SLOT);
    bytes[question.end..end].copy_from_slice(&out[..end - question.end]);
    end
}

fn record(out: &mut Vec<u8>, owner: &[u8], rtype: Type, rdata: &[u8]) {
    out.extend_from_slice(owner);
    out.extend_from_slice(&rtype.0.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&TTL.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
}

/// Returns the RDATA of the records of a type; names in it end with a pointer to QNAME (`c00c`).
fn rdata(qtype: Type, hash: u32) -> Vec<Vec<u8>> {
    let [a, b, c, d] = hash.to_be_bytes();
    match qtype {
        Type::A => vec![vec![198, 18 | a & 1, b, c]],
        Type::AAAA => vec![[&[0x20, 0x01, 0x0d, 0xb8], &[0; 8][..], &[a, b, c, d]].concat()],
        Type::MX => vec![b"\0\x0a\x04mail\xc0\x0c".to_vec()],
        Type::NS => vec![b"\x03ns1\xc0\x0c".to_vec(), b"\x03ns2\xc0\x0c".to_vec()],
        Type::TXT => vec![b"\x1fv=spf1 mx ip4:192.0.2.0/24 -all".to_vec()],
        _ => Vec::new(),
    }
}

/// Returns the SOA of the zone: the last two labels of QNAME, or the root.
fn soa(labels: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let owner = labels.len().checked_sub(2).and_then(|index| labels.get(index));
    let owner = owner.map_or(vec![0], |at| (0xc000 | *at as u16).to_be_bytes().to_vec());
    let mut rdata = [&b"\x03ns1"[..], &owner, b"\x0ahostmaster", &owner].concat();
    for number in [1, 7200, 3600, 1_209_600, TTL] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    record(&mut out, &owner, Type::SOA, &rdata);
    out
}

/// FNV-1a: answers differ from name to name and are the same every time.
fn hash(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Count, Edns, summarise, write_query};

    fn query(name: &str, qtype: Type, edns: Edns) -> Vec<u8> {
        let mut out = Vec::new();
        write_query(&mut out, name, qtype, edns);
        out
    }

    fn upstream(delay: u64) -> (Upstream, UdpSocket) {
        let address = ([127, 0, 0, 1], 0).into();
        let upstream = Upstream::start(address, 0, Duration::from_millis(delay)).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(upstream.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        (upstream, socket)
    }

    #[test]
    fn every_type_has_an_answer_and_missing_names_have_none() {
        let (upstream, socket) = upstream(0);
        let types =
            [(Type::A, 1), (Type::AAAA, 1), (Type::MX, 1), (Type::NS, 2), (Type::TXT, 1), (Type::DS, 0)];
        for (qtype, records) in types {
            for edns in [Edns::None, Edns::Plain] {
                let answer = exchange(&socket, &query("a.example.net", qtype, edns), 7).unwrap();
                let summary = summarise(&answer).unwrap();
                assert_eq!((summary.rcode, summary.answer.records), (0, records), "{qtype}");
                assert_eq!(summary.authority.records, u16::from(records == 0));
                assert!(!summary.authoritative);
            }
        }
        let answer = exchange(&socket, &query("nx-a.example.net", Type::A, Edns::Plain), 7).unwrap();
        let summary = summarise(&answer).unwrap();
        assert_eq!((summary.rcode, summary.answer.records), (3, 0));
        assert_eq!(summary.authority, Count { sets: 1, records: 1 });
        let answer = exchange(&socket, &query(".", Type::NS, Edns::None), 7).unwrap();
        assert_eq!(summarise(&answer).unwrap().answer.records, 2);
        exchange(&socket, &query("x.WILD.example.net", Type::A, Edns::None), 7).unwrap();
        assert_eq!(upstream.asked(), Asked { known: 14, unique: 1 });
    }

    #[test]
    fn a_delayed_answer_is_no_earlier_than_it_should_be() {
        let (_upstream, socket) = upstream(20);
        let began = Instant::now();
        let answer = exchange(&socket, &query("a.example.net", Type::A, Edns::None), 7).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert_eq!(summarise(&answer).unwrap().answer.records, 1);
    }

    #[test]
    fn what_is_passed_on_is_answered_by_the_origin_and_counted() {
        let origin = Upstream::start(([127, 0, 0, 1], 0).into(), 0, Duration::ZERO).unwrap();
        let upstream = Upstream::passing_on(([127, 0, 0, 1], 0).into(), 0, origin.address).unwrap();
        let socket = namespaces::socket(None, upstream.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        for number in 0..3 {
            let query = query("x.wild.example.net", Type::A, Edns::Do);
            let answer = exchange(&socket, &query, number).unwrap();
            assert_eq!(summarise(&answer).unwrap().answer.records, 1);
        }
        assert_eq!(upstream.asked(), Asked { known: 3, unique: 0 });
        assert_eq!(origin.asked(), Asked { known: 0, unique: 3 });
    }

    #[test]
    fn what_is_no_query_is_not_answered() {
        let counts = Counts::default();
        let whole = query("a.example.net", Type::A, Edns::None);
        for length in 0..whole.len() {
            let mut bytes = [0xff; SLOT];
            bytes[..length].copy_from_slice(&whole[..length]);
            assert_eq!(answer(&mut bytes, length, &counts), 0, "cut at {length}");
        }
    }
}
