//! One transfer from a primary, on a thread that may block: connects, sends the request, reads the response,
//! and makes the version. The version in service stays untouched meanwhile.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use net::PeerStream;
use transfer::incoming::{
    AskedFor, IncomingTransfer, Received, SentRequest, TransferFault, TransferLimit, TransferLimits,
};
use transfer::secondary::{AskExpire, SecondaryFault, transfer_query};
use transfer::tsig::{sign_request, signature_len};
use transport::{EncryptionFault, unix_now};
use wire::hash::HashKey;
use wire::{NameBuf, Rcode, Type};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet};
use zone_plan::PeerServer;

use super::memory::{MemoryShare, OutOfMemory};
use config::peers::{ZonemdPolicy, too_many_iterations};
use telemetry::repeated::log_repeated;

/// Longest wait for a connection, and then for its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a waiting transfer checks its limits.
const LIMIT_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Period over which the rate is measured.
const RATE_OVER: Duration = Duration::from_secs(60);
/// Bytes per read once a transfer is larger than a small zone.
const READ_BYTES: usize = 64 * 1024;
/// Initial size of the read buffer in bytes; enough for a small zone.
const INITIAL_BUFFER_BYTES: usize = 4 * 1024;
/// Size limit of a request in bytes: a question and an SOA, an OPT and a TSIG record.
const MAX_REQUEST_BYTES: usize = 2048;

/// Limits of one transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FetchLimits {
    /// Limits of the received zone.
    pub(super) transfer: TransferLimits,
    /// Longest duration.
    pub(super) time: Duration,
    /// Least rate in bytes per second, over a minute; 0: no limit.
    pub(super) rate: u64,
    /// Longest time without received bytes.
    pub(super) idle: Duration,
}

/// A transfer to run.
pub(super) struct FetchJob {
    /// Identifies the transfer.
    pub(super) number: u64,
    /// The zone.
    pub(super) apex: NameBuf,
    /// The primary to ask.
    pub(super) primary: PeerServer,
    /// What to ask for.
    pub(super) asked: AskedFor,
    /// Whether a version older than the one at hand is accepted.
    pub(super) any_serial: bool,
    /// The request's ID.
    pub(super) id: u16,
    /// The version at hand.
    pub(super) have: Option<Arc<Zone>>,
    /// The hash key with which zones are built.
    pub(super) key: HashKey,
    /// How the version's digest decides whether it is accepted.
    pub(super) zonemd: ZonemdPolicy,
    /// Limit of NSEC3 iterations, if not the default.
    pub(super) nsec3_max_iterations: Option<u16>,
    /// Limits of the transfer.
    pub(super) limits: FetchLimits,
    /// Set when the transfer is no longer wanted.
    pub(super) cancelled: Arc<AtomicBool>,
}

/// Figures of a transfer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FetchFigures {
    /// Records received, including removed ones.
    pub(super) records: u64,
    /// Bytes of messages.
    pub(super) bytes: u64,
    /// Duration, including building the zone.
    pub(super) took: Duration,
    /// EXPIRE option of the primary: remaining seconds until the zone expires (RFC 7314).
    pub(super) expire: Option<u32>,
}

/// Result of a transfer.
#[derive(Debug)]
pub(super) enum Fetched {
    /// The version at hand is the newest.
    Same,
    /// The zone as a whole.
    Whole(Arc<Zone>),
    /// The zone made from the version at hand by differences, with these, in order.
    Changed(Arc<Zone>, Vec<Arc<ChangeSet>>),
}

/// Runs a transfer, whose memory is counted in `share`.
///
/// # Errors
/// Why the transfer failed.
pub(super) fn fetch(
    job: &FetchJob,
    figures: &mut FetchFigures,
    mut share: MemoryShare,
) -> Result<Fetched, SecondaryFault> {
    let begun = Instant::now();
    let mut fetched = transfer(job, expire_of(&job.primary), begun, figures, &mut share);
    if fetched.as_ref().is_err_and(takes_no_opt) {
        fetched = transfer(job, AskExpire::No, begun, figures, &mut share);
    }
    figures.took = begun.elapsed();
    fetched
}

/// Returns the OPT record of queries to a primary: over TLS they are padded.
pub(super) fn expire_of(primary: &PeerServer) -> AskExpire {
    match primary.encryption {
        None => AskExpire::Yes,
        Some(_) => AskExpire::Padded { signature: primary.key.as_deref().map_or(0, signature_len) },
    }
}

/// Opens a connection to another server of a zone, encrypted if the server is asked over TLS. The handshake
/// takes as long as the connection itself at most.
///
/// # Errors
/// Why there is no connection.
pub(crate) fn connect(server: &PeerServer, timeout: Duration) -> Result<PeerStream, SecondaryFault> {
    let encrypted = server.encryption.as_ref();
    let unreachable = |error: io::Error| {
        let of_encryption = encrypted.and_then(|_| EncryptionFault::before_open(error.kind()));
        match (of_encryption, error.kind()) {
            // There is no handshake yet.
            (Some(EncryptionFault::HandshakeTimeout), _) => {
                SecondaryFault::Insecure(EncryptionFault::Unreachable)
            }
            (Some(fault), _) => SecondaryFault::Insecure(fault),
            (None, io::ErrorKind::ConnectionRefused) => SecondaryFault::Refused,
            (None, _) => SecondaryFault::Unreachable,
        }
    };
    let stream = net::connect(server.address, server.source, timeout).map_err(unreachable)?;
    // If the system refuses it, messages are sent a little later.
    let _ = stream.set_nodelay(true);
    PeerStream::begin(stream, encrypted, timeout).map_err(SecondaryFault::Insecure)
}

/// Whether a primary may have refused a query because of its OPT (RFC 6891 §7).
pub(super) fn takes_no_opt(fault: &SecondaryFault) -> bool {
    matches!(fault, SecondaryFault::Transfer(TransferFault::Rcode(Rcode::FORMERR | Rcode::NOTIMP)))
}

fn transfer(
    job: &FetchJob,
    expire: AskExpire,
    begun: Instant,
    figures: &mut FetchFigures,
    share: &mut MemoryShare,
) -> Result<Fetched, SecondaryFault> {
    let unreachable = |_| SecondaryFault::Unreachable;
    let (request, verifier) = request(job, expire)?;
    let mut stream = connect(&job.primary, CONNECT_TIMEOUT)?;
    stream.socket().set_write_timeout(Some(job.limits.idle)).map_err(unreachable)?;
    stream.socket().set_read_timeout(Some(LIMIT_CHECK_INTERVAL)).map_err(unreachable)?;
    stream.write_all(&request).map_err(unreachable)?;
    let sent = SentRequest { id: job.id, apex: job.apex, asked: job.asked, datagram: false };
    let mut limits = job.limits.transfer;
    // Differences larger than the zone itself are better replaced by the whole zone.
    let ours = job.have.as_ref().map_or(0, |zone| zone.memory() as u64);
    limits.difference_bytes = limits.difference_bytes.max(ours);
    let held = job.have.as_ref().map(|zone| zone.serial()).filter(|_| !job.any_serial);
    let mut incoming = IncomingTransfer::new(sent, &job.key, limits, verifier).not_older_than(held);
    let mut messages = Messages::new(stream, job, begun);
    let received = loop {
        let message = messages.next(share)?;
        let taken = incoming.message(message, unix_now());
        (figures.records, figures.bytes) = (incoming.records(), incoming.bytes());
        figures.expire = incoming.expire();
        share.takes(incoming.memory()).map_err(out_of_memory)?;
        if let Some(received) = taken.map_err(SecondaryFault::Transfer)? {
            break received;
        }
    };
    made(job, received, incoming.memory(), share)
}

fn out_of_memory(_: OutOfMemory) -> SecondaryFault {
    SecondaryFault::Transfer(TransferFault::Limit(TransferLimit::Memory))
}

/// Returns the request with its length prefix, and the verifier of the response.
fn request(
    job: &FetchJob,
    expire: AskExpire,
) -> Result<(Vec<u8>, Option<transfer::tsig::ResponseVerifier>), SecondaryFault> {
    let full = |_| SecondaryFault::Transfer(TransferFault::Malformed);
    let soa = job.have.as_deref().map(soa_data).unwrap_or_default();
    let mut buf = [0; MAX_REQUEST_BYTES];
    let apex = job.apex.as_name();
    let mut len = transfer_query(&mut buf, job.id, apex, job.asked, &soa, expire).map_err(full)?;
    let mut verifier = None;
    if let Some(key) = &job.primary.key {
        let (signed, theirs) = sign_request(key, &mut buf, len, unix_now()).map_err(full)?;
        (len, verifier) = (signed, Some(theirs));
    }
    let framed = [&(len as u16).to_be_bytes()[..], &buf[..len]].concat();
    Ok((framed, verifier))
}

/// Returns the data of a zone's SOA record.
pub(super) fn soa_data(zone: &Zone) -> Vec<u8> {
    let mut data = Vec::new();
    if let Some(record) = zone.apex_node().rrset(Type::SOA).and_then(|soa| soa.rdatas().next()) {
        record.copy_to(&mut data);
    }
    data
}

/// Makes the version from a received transfer, whose records take `records` bytes of memory.
fn made(
    job: &FetchJob,
    received: Received,
    records: u64,
    share: &mut MemoryShare,
) -> Result<Fetched, SecondaryFault> {
    let ours = job.have.as_ref().map(|zone| zone.serial());
    match (received, &job.have) {
        (Received::SoaOnly(theirs), _) => match ours {
            Some(ours) if theirs != ours => Err(SecondaryFault::Behind { theirs, ours }),
            _ => Ok(Fetched::Same),
        },
        (Received::Zone(zone), _) => {
            let zone = zone.build_within(&mut |bytes| share.takes(bytes as u64).is_ok());
            let zone = zone.map_err(SecondaryFault::Transfer)?;
            share.takes(zone.memory() as u64).map_err(out_of_memory)?;
            verified(job, &zone)?;
            Ok(Fetched::Whole(Arc::new(zone)))
        }
        (Received::Differences(differences), Some(have)) => {
            let mut zone = Arc::clone(have);
            let mut changes = Vec::with_capacity(differences.len());
            // Of the intermediate versions only the newest is kept, with the base that one of them may have
            // got.
            let mut base = 0;
            for change in differences {
                let mut may_take = |bytes| share.takes(records + base + bytes as u64).is_ok();
                zone = Arc::new(zone.apply_within(&change, &mut may_take).map_err(unfit)?);
                if zone.overlay_estimate() == 0 {
                    base = zone.memory() as u64;
                }
                changes.push(Arc::new(change));
            }
            let bytes = records + base + zone.overlay_estimate() as u64;
            share.takes(bytes).map_err(out_of_memory)?;
            verified(job, &zone)?;
            Ok(Fetched::Changed(zone, changes))
        }
        // Only a client that has a version receives differences.
        (Received::Differences(_), None) => Err(SecondaryFault::Transfer(TransferFault::NoSoa)),
    }
}

fn unfit(error: ChangeError) -> SecondaryFault {
    match error {
        ChangeError::OutOfMemory => out_of_memory(OutOfMemory),
        error => SecondaryFault::Transfer(TransferFault::Unfit(Box::new(error))),
    }
}

/// Refuses a version with too many NSEC3 iterations, or with a wrong digest.
fn verified(job: &FetchJob, zone: &Zone) -> Result<(), SecondaryFault> {
    if let Some(fault) = too_many_iterations(zone, job.nsec3_max_iterations) {
        return Err(SecondaryFault::VersionRefused(fault.into()));
    }
    match job.zonemd.objection(zone) {
        None => Ok(()),
        Some(fault) => {
            let (serial, primary) = (zone.serial(), &job.primary);
            let apex = zone.apex().as_name();
            let about = ("version refused", &*format!("{apex} {primary} {fault}"));
            log_repeated!(
                error,
                ERROR,
                about,
                "zone {apex}: version {serial} of primary {primary} is refused: {fault}"
            );
            Err(SecondaryFault::Transfer(TransferFault::Digest(fault)))
        }
    }
}

/// Reads the messages of a stream one by one, within the time limits.
struct Messages<'j> {
    stream: PeerStream,
    job: &'j FetchJob,
    buffer: Vec<u8>,
    /// The part of the buffer not consumed yet.
    from: usize,
    to: usize,
    begun: Instant,
    /// When bytes were last received.
    heard: Instant,
    /// When the current rate period began, and the bytes received since then.
    counted: (Instant, u64),
}

impl<'j> Messages<'j> {
    fn new(stream: PeerStream, job: &'j FetchJob, begun: Instant) -> Self {
        let now = Instant::now();
        Messages {
            stream,
            job,
            buffer: vec![0; INITIAL_BUFFER_BYTES],
            from: 0,
            to: 0,
            begun,
            heard: now,
            counted: (now, 0),
        }
    }

    /// Returns the next message, without its length prefix.
    fn next(&mut self, share: &MemoryShare) -> Result<&[u8], SecondaryFault> {
        self.fill(2, share)?;
        let len = match self.buffer.get(self.from..).and_then(|rest| rest.first_chunk::<2>()) {
            Some(len) => usize::from(u16::from_be_bytes(*len)),
            None => return Err(SecondaryFault::Unreachable),
        };
        self.fill(2 + len, share)?;
        let start = self.from + 2;
        self.from = start + len;
        self.buffer.get(start..start + len).ok_or(SecondaryFault::Unreachable)
    }

    /// Reads until `wanted` bytes are in the buffer.
    fn fill(&mut self, wanted: usize, share: &MemoryShare) -> Result<(), SecondaryFault> {
        while self.to - self.from < wanted {
            if self.from + wanted > self.buffer.len() || self.to == self.buffer.len() {
                self.buffer.copy_within(self.from..self.to, 0);
                (self.from, self.to) = (0, self.to - self.from);
                self.buffer.resize(2 * READ_BYTES, 0);
            }
            match self.stream.read(&mut self.buffer[self.to..]) {
                Ok(0) => return Err(SecondaryFault::BrokenOff),
                Ok(read) => {
                    self.to += read;
                    self.heard = Instant::now();
                    self.counted.1 += read as u64;
                }
                Err(e) if is_wait(&e) => {}
                Err(e) => {
                    let fault = net::encryption_fault(&e);
                    return Err(fault.map_or(SecondaryFault::BrokenOff, SecondaryFault::Insecure));
                }
            }
            if share.is_given_up() {
                return Err(out_of_memory(OutOfMemory));
            }
            self.look(Instant::now())?;
        }
        Ok(())
    }

    /// Checks the time limits.
    fn look(&mut self, now: Instant) -> Result<(), SecondaryFault> {
        let limit = |limit| Err(SecondaryFault::Transfer(TransferFault::Limit(limit)));
        let limits = &self.job.limits;
        if self.job.cancelled.load(Relaxed) || now.duration_since(self.heard) > limits.idle {
            return Err(SecondaryFault::Unreachable);
        }
        if now.duration_since(self.begun) > limits.time {
            return limit(TransferLimit::Time);
        }
        let (since, bytes) = self.counted;
        if now.duration_since(since) >= RATE_OVER {
            if bytes < limits.rate.saturating_mul(RATE_OVER.as_secs()) {
                return limit(TransferLimit::Rate);
            }
            self.counted = (now, 0);
        }
        Ok(())
    }
}

/// Whether a read timed out or was interrupted.
fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn job(listener: &TcpListener) -> FetchJob {
        let limits = FetchLimits {
            transfer: TransferLimits::default(),
            time: Duration::from_secs(301),
            rate: 100,
            idle: Duration::from_secs(50),
        };
        FetchJob {
            number: 1,
            apex: "example.".parse().expect("a name"),
            primary: PeerServer {
                address: listener.local_addr().expect("bound"),
                key: None,
                source: None,
                encryption: None,
            },
            asked: AskedFor::Axfr,
            any_serial: true,
            id: 7,
            have: None,
            key: HashKey::new([1, 2, 3]),
            zonemd: ZonemdPolicy::Verify,
            nsec3_max_iterations: None,
            limits,
            cancelled: Arc::default(),
        }
    }

    #[test]
    fn a_transfer_stops_at_each_limit_of_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let job = job(&listener);
        let stream = TcpStream::connect(job.primary.address).expect("a connection");
        let begun = Instant::now();
        let mut messages = Messages::new(PeerStream::Plain(stream), &job, begun);
        let start = messages.heard;
        let after = |seconds| start + Duration::from_secs(seconds);
        let limit = |limit| Err(SecondaryFault::Transfer(TransferFault::Limit(limit)));
        assert_eq!(messages.look(after(50)), Ok(()));
        assert_eq!(messages.look(after(51)), Err(SecondaryFault::Unreachable), "nothing comes");
        // 100 bytes per second are enough; each minute is measured separately.
        for minute in 1..5 {
            messages.heard = after(minute * 60);
            messages.counted.1 = 6000;
            assert_eq!(messages.look(after(minute * 60)), Ok(()));
        }
        messages.heard = after(300);
        messages.counted.1 = 5999;
        assert_eq!(messages.look(after(300)), limit(TransferLimit::Rate));
        assert_eq!(messages.look(after(303)), limit(TransferLimit::Time));
        job.cancelled.store(true, Relaxed);
        assert_eq!(messages.look(start), Err(SecondaryFault::Unreachable));
    }

    #[test]
    fn a_refused_connection_was_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let job = job(&listener);
        drop(listener);
        let share = Arc::<crate::secondaries::IncomingMemory>::default().begin();
        let fetched = fetch(&job, &mut FetchFigures::default(), share);
        assert!(matches!(fetched, Err(SecondaryFault::Refused)), "{fetched:?}");
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let job = job(&listener);
        let stream = TcpStream::connect(job.primary.address).expect("a connection");
        let (mut peer, _) = listener.accept().expect("the connection");
        let sizes = [1, 0, 65_535, 40_000, 65_535, 3];
        let sent = std::thread::spawn(move || {
            for size in sizes {
                let message = vec![size as u8; size];
                peer.write_all(&(size as u16).to_be_bytes()).expect("sent");
                peer.write_all(&message).expect("sent");
            }
        });
        let mut messages = Messages::new(PeerStream::Plain(stream), &job, Instant::now());
        let share = Arc::<crate::secondaries::IncomingMemory>::default().begin();
        for size in sizes {
            assert_eq!(messages.next(&share).expect("a message"), vec![size as u8; size]);
        }
        sent.join().expect("all is sent");
        assert_eq!(messages.next(&share), Err(SecondaryFault::BrokenOff));
    }
}
