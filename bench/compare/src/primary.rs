//! The primary of the zone in `axfr-in`: it has a very small old version and a new one, answers SOA queries
//! and sends the whole zone to any client that asks for AXFR or IXFR (RFC 1995 §4 permits that). It runs in
//! threads of the benchmark, so that its CPU time is not in any server's figures.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wire::message::Parser;
use wire::{Opcode, Type};

use crate::failure::{Context, Result};
use crate::message::{Edns, serial_of, write_query};
use crate::stream::{SoaReply, Stream};
use crate::zones::{SERIAL, ZoneSet};
use crate::{sys, tcp};

/// Longest wait for a query before it checks whether to stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Number of records of the old version: those at the apex.
const APEX: usize = 5;

/// Both versions of a zone, made once for all servers.
#[derive(Clone)]
pub(crate) struct Versions {
    zone: String,
    old: Arc<Version>,
    new: Arc<Version>,
}

struct Version {
    serial: u32,
    soa: SoaReply,
    /// Locked while it is sent.
    stream: Mutex<Stream>,
}

impl Versions {
    /// Reads the file of the first zone of a set.
    pub(crate) fn of(zones: &ZoneSet) -> Result<Versions> {
        let zone = zones.zones.first().context(|| "no zone to be taken".to_string())?;
        let read = |serial, most| -> Result<Arc<Version>> {
            let (stream, soa) = Stream::read(&zone.file, &zone.name, serial, most)?;
            Ok(Arc::new(Version { serial, soa, stream: Mutex::new(stream) }))
        };
        Ok(Versions { zone: zone.name.clone(), old: read(SERIAL - 1, APEX)?, new: read(SERIAL, usize::MAX)? })
    }

    /// Returns the zone's name.
    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }

    /// Returns the size of a transfer of the new version, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.new.stream).len()
    }

    /// Returns the serial of the new version.
    pub(crate) fn serial(&self) -> u32 {
        self.new.serial
    }
}

/// Times of the new version's transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// When it was requested.
    pub(crate) asked: Option<Instant>,
    /// When the last byte had reached the server's kernel.
    pub(crate) done: Option<Instant>,
}

struct Shared {
    versions: Versions,
    is_new: AtomicBool,
    done: AtomicBool,
    sent: Mutex<Sent>,
}

/// A running primary; ends when dropped.
pub(crate) struct Primary {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Primary {
    /// Starts it on this CPU, with the old version.
    pub(crate) fn start(address: SocketAddr, cpu: usize, versions: &Versions) -> Result<Primary> {
        let busy = || format!("primary: cannot listen on {address}");
        let listener = TcpListener::bind(address).context(busy)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let socket = UdpSocket::bind(address).context(busy)?;
        socket.set_read_timeout(Some(PAUSE))?;
        let shared = Arc::new(Shared {
            versions: versions.clone(),
            is_new: AtomicBool::new(false),
            done: AtomicBool::new(false),
            sent: Mutex::new(Sent::default()),
        });
        let (datagrams, streams) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || answer_datagrams(&socket, cpu, &datagrams)),
            std::thread::spawn(move || accept(&listener, cpu, &streams)),
        ];
        Ok(Primary { address, shared, threads })
    }

    /// Switches to the new version, without a NOTIFY.
    pub(crate) fn renew(&self) {
        self.shared.is_new.store(true, Ordering::SeqCst);
    }

    /// Sends a NOTIFY (RFC 1996) to a server.
    pub(crate) fn notify(&self, server: SocketAddr) -> Result<()> {
        let socket = UdpSocket::bind((self.address.ip(), 0))?;
        let mut message = Vec::new();
        write_query(&mut message, self.shared.versions.zone(), Type::SOA, Edns::None);
        // Opcode NOTIFY, authoritative.
        message[2] = 0x24;
        socket.send_to(&message, server).context(|| format!("cannot notify {server}"))?;
        Ok(())
    }

    /// Returns the progress of the new version's transfer.
    pub(crate) fn sent(&self) -> Sent {
        *lock(&self.shared.sent)
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn is_over(&self) -> bool {
        self.done.load(Ordering::Relaxed) || sys::interrupted()
    }

    /// Returns whether the new version is current, and the current version.
    fn current(&self) -> (bool, &Version) {
        let is_new = self.is_new.load(Ordering::SeqCst);
        (is_new, if is_new { &self.versions.new } else { &self.versions.old })
    }
}

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: [u8; 2],
    /// The zone, in lower case and wire format.
    pub(crate) zone: Vec<u8>,
    pub(crate) qtype: Type,
    /// The server's serial, in an IXFR query.
    pub(crate) has: Option<u32>,
    /// Offset of the end of the question.
    pub(crate) end: usize,
}

/// Parses an SOA, IXFR or AXFR query; `None` for anything else.
pub(crate) fn request(message: &[u8]) -> Option<Request> {
    let (header, mut parser) = Parser::new(message).ok()?;
    if header.is_response() || header.opcode() != Opcode::QUERY || header.counts()[0] != 1 {
        return None;
    }
    let question = parser.question().ok()?;
    let (zone, qtype) = (question.name.to_lower().as_lower().as_wire().to_vec(), question.qtype);
    let end = parser.position().index();
    // The server's SOA record is in the authority section (RFC 1995 §3).
    let mut known = || {
        let record = parser.record().ok()?;
        serial_of(&mut parser, &record).ok()
    };
    let has = if qtype == Type::IXFR { known() } else { None };
    let wanted = matches!(qtype, Type::SOA | Type::IXFR | Type::AXFR);
    let id = header.id().to_be_bytes();
    wanted.then_some(Request { id, zone, qtype, has, end })
}

/// Answers with the SOA record only; over UDP this makes the server retry over TCP (RFC 1995 §2).
fn answer_datagrams(socket: &UdpSocket, cpu: usize, shared: &Shared) {
    let _ = sys::pin(0, cpu);
    let mut buffer = [0; 4096];
    while !shared.is_over() {
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
        let Some(request) = buffer.get(..length).and_then(request) else { continue };
        let reply = shared.current().1.soa.answering(request.id, request.qtype);
        let _ = socket.send_to(&reply, peer);
    }
}

fn accept(listener: &TcpListener, cpu: usize, shared: &Arc<Shared>) {
    let _ = sys::pin(0, cpu);
    let mut threads = Vec::new();
    while !shared.is_over() {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let shared = shared.clone();
        // The server reopens a failed connection.
        threads.push(std::thread::spawn(move || drop(serve(stream, &shared))));
    }
    threads.into_iter().for_each(|thread| drop(thread.join()));
}

fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let mut message = Vec::new();
    loop {
        let mut length = [0; 2];
        if !read_whole(&mut stream, &mut length, shared)? {
            return Ok(());
        }
        message.resize(usize::from(u16::from_be_bytes(length)), 0);
        if !read_whole(&mut stream, &mut message, shared)? {
            return Ok(());
        }
        let Some(request) = request(&message) else { return Ok(()) };
        let (is_new, version) = shared.current();
        if request.qtype == Type::SOA || request.has == Some(version.serial) {
            let reply = version.soa.answering(request.id, request.qtype);
            stream.write_all(&tcp::framed(&reply))?;
            continue;
        }
        let mut zone = lock(&version.stream);
        if is_new {
            *lock(&shared.sent) = Sent { asked: Some(Instant::now()), done: None };
        }
        write_whole(&mut stream, zone.answering(request.id, request.qtype), shared)?;
        if is_new {
            // The server has it once its kernel has acknowledged it.
            while sys::unacknowledged(&stream)? > 0 && !shared.is_over() {
                std::thread::sleep(Duration::from_micros(100));
            }
            lock(&shared.sent).done = Some(Instant::now());
        }
    }
}

/// Reads `bytes` completely; returns false if the server has closed the connection, or the primary stops.
fn read_whole(stream: &mut TcpStream, bytes: &mut [u8], shared: &Shared) -> Result<bool> {
    stream.set_read_timeout(Some(PAUSE))?;
    let mut at = 0;
    while at < bytes.len() {
        match stream.read(&mut bytes[at..]) {
            Ok(0) => return Ok(false),
            Ok(count) => at += count,
            Err(error) if waits(&error) && !shared.is_over() => {}
            Err(error) if waits(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Writes all bytes, unless the primary stops before.
fn write_whole(stream: &mut TcpStream, mut bytes: &[u8], shared: &Shared) -> Result<()> {
    stream.set_write_timeout(Some(PAUSE))?;
    while !bytes.is_empty() && !shared.is_over() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if waits(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    stream.set_write_timeout(None)?;
    Ok(())
}

fn waits(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::exchange;
    use crate::axfr::{Connection, Content};
    use crate::message::answered_serial;
    use crate::zones::Maker;

    #[test]
    fn a_request_is_read_with_the_serial_it_names() {
        let mut plain = Vec::new();
        write_query(&mut plain, "test", Type::IXFR, Edns::None);
        let zone = b"\x04test\0".to_vec();
        let asked = Request { id: [0, 0], zone, qtype: Type::IXFR, has: None, end: plain.len() };
        assert_eq!(request(&plain), Some(asked));
        let mut since = plain.clone();
        since[9] = 1;
        since.extend([0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0, 0, 0, 1, 2]);
        since.extend([0; 16]);
        assert_eq!(request(&since).unwrap().has, Some(258));
        plain[2] = 0x24;
        assert_eq!(request(&plain), None, "a NOTIFY");
        assert_eq!(request(&since[..13]), None);
    }

    #[test]
    fn the_new_version_is_sent_once_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let set = Maker::new(folder.path(), 3).delegations(500, false).unwrap();
        let versions = Versions::of(&set).unwrap();
        let primary = Primary::start(([127, 0, 0, 1], 0).into(), 0, &versions).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(primary.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut query = Vec::new();
        write_query(&mut query, "test", Type::SOA, Edns::None);
        let serial = || answered_serial(&exchange(&socket, &query, 7).unwrap());
        let take = || {
            let mut content = Content::default();
            let mut connection = Connection::open(primary.address).unwrap();
            let each = |message: &[u8]| content.add(message);
            let taken = connection.take("test", Duration::from_secs(60), each).unwrap();
            (taken, content)
        };
        assert_eq!((serial(), take().0.records), (Some(SERIAL - 1), APEX as u64 + 1));
        assert!(primary.sent().asked.is_none());
        primary.renew();
        let (taken, content) = take();
        assert_eq!((serial(), taken.serial, taken.records), (Some(SERIAL), SERIAL, set.records + 1));
        assert_eq!(taken.bytes, versions.bytes() as u64);
        assert_eq!(content, lock(&versions.new.stream).content());
        while primary.sent().done.is_none() {
            std::thread::yield_now();
        }
    }
}
