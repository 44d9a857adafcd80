//! The primary of very many small zones in `secondaries`: it answers SOA queries, sends zones and NOTIFYs,
//! and records when each zone is queried. It is one thread of the benchmark, generates its answers from
//! little more than the zone's name, and its CPU time is not in any server's figures.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use wire::Type;

use crate::failure::{Context, Failure, Result};
use crate::primary::{Request, request};
use crate::random::mix;
use crate::sys;
use crate::zones::{SERIAL, ZoneSet};

/// Longest wait for a query before it checks whether to stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of unanswered NOTIFY messages.
const ANNOUNCED: usize = 64;
/// Time after which an unanswered NOTIFY is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// REFRESH of versions that are not to be refreshed, in seconds.
const RARELY: u32 = 86_400;
/// How much later than REFRESH after the last query a zone may be queried: timers count whole seconds.
const GRACE: Duration = Duration::from_secs(1);
/// Number of records of a zone.
pub(crate) const RECORDS: u64 = 9;
/// The first version whose REFRESH is short.
pub(crate) const DUE: u32 = 2;

/// The zones' names, and the REFRESH of the last version.
pub(crate) struct SmallZones {
    names: Vec<Vec<u8>>,
    places: HashMap<Vec<u8>, usize>,
    refresh: u32,
}

impl SmallZones {
    /// Creates the zones of a set; REFRESH is `refresh` seconds from version [`DUE`] on.
    pub(crate) fn of(zones: &ZoneSet, refresh: u32) -> SmallZones {
        let name = |name: &str| {
            let mut wire = Vec::with_capacity(name.len() + 2);
            for label in name.split('.') {
                wire.push(label.len() as u8);
                wire.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
            }
            wire.push(0);
            wire
        };
        let names: Vec<Vec<u8>> = zones.zones.iter().map(|zone| name(&zone.name)).collect();
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        SmallZones { names, places, refresh }
    }

    /// Returns the number of zones.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the REFRESH of the last version, in seconds.
    pub(crate) fn refresh(&self) -> u32 {
        self.refresh
    }

    /// Returns the serial of a version.
    pub(crate) fn serial(version: u32) -> u32 {
        SERIAL + version
    }

    /// Writes an SOA query for a zone, or, with another opcode, a NOTIFY.
    pub(crate) fn write_question(&self, out: &mut Vec<u8>, place: usize, id: u16, flags: u8) {
        out.clear();
        out.extend(id.to_be_bytes());
        out.extend([flags, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        out.extend(&self.names[place]);
        out.extend([0, Type::SOA.0 as u8, 0, 1]);
    }

    /// Appends the SOA record after a question for the zone.
    fn write_soa(&self, out: &mut Vec<u8>, version: u32) {
        out.extend([0xc0, 12, 0, Type::SOA.0 as u8, 0, 1]);
        out.extend(86_400u32.to_be_bytes());
        out.extend([0, 6 + 13 + 20]);
        out.extend(b"\x03ns1\xc0\x0c\x0ahostmaster\xc0\x0c");
        let refresh = if version < DUE { RARELY } else { self.refresh };
        for number in [SmallZones::serial(version), refresh, 5, 1_209_600, 900] {
            out.extend(number.to_be_bytes());
        }
    }

    /// Appends the other records: those of a zone of `zones-100k`, with another address in each version.
    fn write_rest(&self, out: &mut Vec<u8>, place: usize, version: u32) {
        let hash = mix(place as u64);
        let address = (0x0a00_0000 | (hash as u32 & 0x00ff_fff0) | version).to_be_bytes();
        let mut record = |owner: &[u8], rtype: Type, ttl: u32, rdata: &[u8]| {
            out.extend(owner);
            out.extend([0xc0, 12]);
            out.extend(rtype.0.to_be_bytes());
            out.extend([0, 1]);
            out.extend(ttl.to_be_bytes());
            out.extend((rdata.len() as u16).to_be_bytes());
            out.extend(rdata);
        };
        record(b"", Type::NS, 86_400, b"\x03ns1\xc0\x0c");
        record(b"", Type::NS, 86_400, b"\x03ns2\xc0\x0c");
        record(b"\x03ns1", Type::A, 86_400, &[192, 0, 2, 1]);
        record(b"\x03ns2", Type::A, 86_400, &[192, 0, 2, 2]);
        record(b"", Type::A, 3600, &address);
        record(b"\x03www", Type::A, 3600, &address);
        let end = (hash as u16).to_be_bytes();
        record(
            b"\x03www",
            Type::AAAA,
            3600,
            &[0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end[0], end[1]],
        );
        record(b"", Type::MX, 3600, b"\x00\x0a\x03www\xc0\x0c");
    }
}

/// Times of a zone's queries, in microseconds since the primary was started.
#[derive(Default)]
struct Asked {
    /// The newest version that was sent, plus one.
    sent: AtomicU32,
    /// Time of the last query.
    last: AtomicU64,
    /// Longest time between two queries.
    gap: AtomicU64,
}

impl Asked {
    fn note(&self, now: u64) {
        let before = self.last.swap(now, SeqCst);
        self.gap.fetch_max(now.saturating_sub(before), SeqCst);
    }

    /// Returns by how many seconds the latest query came later than `refresh` seconds after the one before;
    /// includes a query that is still missing.
    fn behind(&self, now: u64, refresh: u32) -> f64 {
        let open = now.saturating_sub(self.last.load(SeqCst));
        self.gap.load(SeqCst).max(open) as f64 / 1e6 - f64::from(refresh)
    }
}

struct Shared {
    zones: Arc<SmallZones>,
    version: AtomicU32,
    done: AtomicBool,
    began: Instant,
    asked: Vec<Asked>,
    questions: AtomicU64,
    transfers: AtomicU64,
}

/// How late zones were queried.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    /// Number of queries.
    pub(crate) questions: u64,
    /// Number of zones with a late or missing query.
    pub(crate) late: u64,
    /// Seconds by which the latest query was late; negative if all were early.
    pub(crate) latest: f64,
}

impl Shared {
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// Returns the response to a query, and records the query; `None` for no response.
    fn answer(&self, message: &[u8], is_stream: bool) -> Option<Vec<u8>> {
        let Request { id, zone, qtype, has, end } = request(message)?;
        let mut out = Vec::with_capacity(512);
        out.extend(id);
        out.extend([0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
        out.extend(message.get(12..end)?);
        let Some(place) = self.zones.places.get(&zone) else {
            // REFUSED.
            (out[3], out[7]) = (5, 0);
            return Some(out);
        };
        let version = self.version.load(SeqCst);
        self.note(*place);
        self.zones.write_soa(&mut out, version);
        // Over UDP, the SOA record alone makes the server retry over TCP (RFC 1995 §2).
        let is_known = has == Some(SmallZones::serial(version));
        if qtype != Type::SOA && is_stream && !is_known {
            self.zones.write_rest(&mut out, *place, version);
            self.zones.write_soa(&mut out, version);
            out[7] = RECORDS as u8 + 1;
            self.transfers.fetch_add(1, SeqCst);
            self.asked[*place].sent.store(version + 1, SeqCst);
        }
        Some(out)
    }

    fn note(&self, place: usize) {
        self.asked[place].note(self.now());
        self.questions.fetch_add(1, SeqCst);
    }

    fn is_over(&self) -> bool {
        self.done.load(SeqCst) || sys::interrupted()
    }
}

/// A running primary; ends when dropped.
pub(crate) struct Provider {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Provider {
    /// Starts it on this CPU, with the first version of all zones.
    pub(crate) fn start(address: SocketAddr, cpu: usize, zones: &Arc<SmallZones>) -> Result<Provider> {
        let busy = || format!("primary: cannot listen on {address}");
        let listener = std::net::TcpListener::bind(address).context(busy)?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let socket = UdpSocket::bind(address).context(busy)?;
        sys::widen_buffers(&socket, 4 << 20);
        socket.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            zones: zones.clone(),
            version: AtomicU32::new(0),
            done: AtomicBool::new(false),
            began: Instant::now(),
            asked: (0..zones.len()).map(|_| Asked::default()).collect(),
            questions: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
        });
        let (listener, socket) = (TcpListener::from_std(listener), mio::net::UdpSocket::from_std(socket));
        let mut desk = Desk::open(listener, socket, shared.clone())?;
        let thread = std::thread::spawn(move || {
            let _ = sys::pin(0, cpu);
            desk.work()
        });
        Ok(Provider { address, shared, thread: Some(thread) })
    }

    /// Switches all zones to this version, without a NOTIFY.
    pub(crate) fn renew(&self, version: u32) {
        self.shared.version.store(version, SeqCst);
    }

    /// Whether the newest version of a zone was sent.
    pub(crate) fn has_sent(&self, place: usize) -> bool {
        self.shared.asked[place].sent.load(SeqCst) > self.shared.version.load(SeqCst)
    }

    /// Returns the number of zones sent so far.
    pub(crate) fn transfers(&self) -> u64 {
        self.shared.transfers.load(SeqCst)
    }

    /// Resets the records of late queries.
    pub(crate) fn forget(&self) {
        self.shared.asked.iter().for_each(|asked| asked.gap.store(0, SeqCst));
        self.shared.questions.store(0, SeqCst);
    }

    /// Returns how late zones were queried since the reset, including queries that are still missing.
    pub(crate) fn lateness(&self) -> Lateness {
        let (now, refresh) = (self.shared.now(), self.shared.zones.refresh);
        let mut found = Lateness {
            questions: self.shared.questions.load(SeqCst),
            latest: f64::NEG_INFINITY,
            ..Lateness::default()
        };
        for asked in &self.shared.asked {
            let behind = asked.behind(now, refresh);
            found.latest = found.latest.max(behind);
            found.late += u64::from(behind > GRACE.as_secs_f64());
        }
        found
    }

    /// Sends a NOTIFY (RFC 1996) of every zone's newest version to a server, each until the server responds
    /// or queries the zone, or until `over` is set.
    pub(crate) fn announce(&self, server: SocketAddr, over: &AtomicBool) -> Result<()> {
        let socket = UdpSocket::bind((self.address.ip(), 0))?;
        socket.connect(server).context(|| format!("cannot notify {server}"))?;
        socket.set_read_timeout(Some(PAUSE))?;
        let mut waiting: VecDeque<usize> = (0..self.shared.zones.len()).collect();
        let mut unheard: HashMap<u16, (usize, Instant)> = HashMap::new();
        let (mut id, mut message, mut buffer) = (0u16, Vec::new(), [0; 4096]);
        while !(over.load(SeqCst) || sys::interrupted()) {
            if waiting.is_empty() && unheard.is_empty() {
                break;
            }
            while unheard.len() < ANNOUNCED
                && let Some(place) = waiting.pop_front()
            {
                id = id.wrapping_add(1);
                // Opcode NOTIFY, authoritative.
                self.shared.zones.write_question(&mut message, place, id, 0x24);
                unheard.insert(id, (place, Instant::now()));
                // Lost messages are sent again.
                let _ = socket.send(&message);
            }
            match socket.recv(&mut buffer).ok().and_then(|length| buffer.get(..length)) {
                Some([high, low, flags, code, ..]) if flags & 0xf8 == 0xa0 => {
                    let heard = unheard.remove(&u16::from_be_bytes([*high, *low]));
                    if heard.is_some() && code & 15 != 0 {
                        return Err(Failure::new(format!("answers a NOTIFY with RCODE {}", code & 15)));
                    }
                }
                _ => unheard.retain(|_, (place, sent)| {
                    let is_late = sent.elapsed() > AGAIN;
                    if is_late && !self.has_sent(*place) {
                        waiting.push_back(*place);
                    }
                    !is_late
                }),
            }
        }
        Ok(())
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.shared.done.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The sockets, all non-blocking.
struct Desk {
    poll: Poll,
    listener: TcpListener,
    socket: mio::net::UdpSocket,
    lines: Vec<Option<Line>>,
    free: Vec<usize>,
    shared: Arc<Shared>,
}

const DATAGRAMS: Token = Token(0);
const CONNECTIONS: Token = Token(1);
/// Tokens below those of connections.
const FIRST: usize = 2;

impl Desk {
    fn open(mut listener: TcpListener, mut socket: mio::net::UdpSocket, shared: Arc<Shared>) -> Result<Desk> {
        let poll = Poll::new()?;
        poll.registry().register(&mut socket, DATAGRAMS, Interest::READABLE)?;
        poll.registry().register(&mut listener, CONNECTIONS, Interest::READABLE)?;
        Ok(Desk { poll, listener, socket, lines: Vec::new(), free: Vec::new(), shared })
    }

    fn work(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        while !self.shared.is_over() {
            self.poll.poll(&mut events, Some(PAUSE))?;
            for event in &events {
                match event.token() {
                    DATAGRAMS => self.answer_datagrams(),
                    CONNECTIONS => self.accept()?,
                    Token(token) => self.serve(token - FIRST),
                }
            }
        }
        Ok(())
    }

    fn answer_datagrams(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok((length, peer)) = self.socket.recv_from(&mut buffer) {
            if let Some(reply) = buffer.get(..length).and_then(|message| self.shared.answer(message, false)) {
                let _ = self.socket.send_to(&reply, peer);
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nodelay(true)?;
            // If a server closes the connection, its port must be free again at once.
            sys::reset_on_close(&stream)?;
            let place = self.free.pop().unwrap_or_else(|| {
                self.lines.push(None);
                self.lines.len() - 1
            });
            let line = Line::open(stream, self.poll.registry(), Token(place + FIRST))?;
            self.lines[place] = Some(line);
            self.serve(place);
        }
        Ok(())
    }

    fn serve(&mut self, place: usize) {
        let Some(line) = self.lines.get_mut(place).and_then(Option::as_mut) else { return };
        // The server reopens a failed connection.
        if line.serve(&self.shared).is_err() {
            self.lines[place] = None;
            self.free.push(place);
        }
    }
}

/// A connection, with a partly read query and unwritten responses.
struct Line {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Line {
    fn open(mut stream: TcpStream, registry: &Registry, token: Token) -> Result<Line> {
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Line { stream, input: Vec::new(), output: Vec::new() })
    }

    /// Reads, answers and writes as much as possible without blocking. Fails once the connection is closed.
    fn serve(&mut self, shared: &Shared) -> std::io::Result<()> {
        let mut buffer = [0; 16_384];
        loop {
            let is_more = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.input.extend_from_slice(&buffer[..length]);
                    true
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => false,
                Err(error) => return Err(error),
            };
            let mut at = 0;
            while let Some([high, low, rest @ ..]) = self.input.get(at..)
                && let Some(message) = rest.get(..usize::from(u16::from_be_bytes([*high, *low])))
            {
                at += 2 + message.len();
                let reply = shared.answer(message, true).ok_or(ErrorKind::InvalidData)?;
                self.output.extend((reply.len() as u16).to_be_bytes());
                self.output.extend(reply);
            }
            self.input.drain(..at);
            self.write()?;
            if !is_more {
                return Ok(());
            }
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(length) => drop(self.output.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::answers::exchange;
    use crate::axfr::Connection;
    use crate::message::{Edns, answered_serial, each_answer, summarise, write_query};
    use crate::zones::Maker;

    /// A primary of `count` zones with a REFRESH of one second.
    pub(crate) fn primary(count: u64) -> (Provider, Arc<SmallZones>, ZoneSet) {
        let folder = tempfile::tempdir().unwrap();
        let set = Maker::new(folder.path(), 3).taken(count);
        let zones = Arc::new(SmallZones::of(&set, 1));
        (Provider::start(([127, 0, 0, 1], 0).into(), 0, &zones).unwrap(), zones, set)
    }

    /// The address of a primary, which answers SOA queries as a server does.
    pub(crate) fn address(provider: &Provider) -> SocketAddr {
        provider.address
    }

    fn asking(provider: &Provider) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(provider.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }

    #[test]
    fn a_zone_is_sent_as_it_is_in_the_newest_version_and_is_a_zone_of_nine_records() {
        let (provider, zones, set) = primary(3);
        let name = &set.zones[1].name;
        let mut kinds = Vec::new();
        let mut take = || {
            let each = |message: &[u8]| {
                assert!(summarise(message).is_ok());
                kinds.clear();
                each_answer(message, |_, record| kinds.push(record.rtype)).unwrap();
            };
            Connection::open(provider.address).unwrap().take(name, Duration::from_secs(20), each).unwrap()
        };
        assert!(!provider.has_sent(1));
        let taken = take();
        assert_eq!((taken.records, taken.serial), (RECORDS + 1, SERIAL));
        assert_eq!((provider.has_sent(0), provider.has_sent(1)), (false, true));
        provider.renew(1);
        assert!(!provider.has_sent(1), "not the newest");
        assert_eq!(take().serial, SERIAL + 1);
        assert_eq!((provider.has_sent(1), provider.transfers()), (true, 2));
        assert_eq!((kinds[0], kinds[9]), (Type::SOA, Type::SOA));
        assert!([Type::NS, Type::A, Type::AAAA, Type::MX].iter().all(|kind| kinds.contains(kind)));
        assert_eq!(zones.len(), 3);
    }

    #[test]
    fn who_has_the_newest_version_is_sent_no_more_and_unknown_zones_are_refused() {
        let (provider, _, set) = primary(2);
        let mut query = Vec::new();
        write_query(&mut query, &set.zones[0].name.to_uppercase(), Type::SOA, Edns::None);
        let answer = exchange(&asking(&provider), &query, 7).unwrap();
        assert_eq!(answered_serial(&answer), Some(SERIAL));
        write_query(&mut query, "not-there.test", Type::SOA, Edns::None);
        let unknown = exchange(&asking(&provider), &query[query.len() / 2..], 7);
        assert!(unknown.is_none_or(|answer| answer[3] & 15 == 5));
        let mut since = Vec::new();
        write_query(&mut since, &set.zones[0].name, Type::IXFR, Edns::None);
        since[9] = 1;
        since.extend([0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
        since.extend(SERIAL.to_be_bytes());
        since.extend([0; 16]);
        let answer = provider.shared.answer(&since, true).unwrap();
        assert_eq!(summarise(&answer).unwrap().answer.records, 1);
        assert_eq!(provider.transfers(), 0);
        provider.renew(1);
        let answer = provider.shared.answer(&since, true).unwrap();
        assert_eq!(summarise(&answer).unwrap().answer.records, RECORDS as u16 + 1);
    }

    #[test]
    fn a_question_is_late_after_the_one_before_and_so_is_one_that_does_not_come() {
        let (asked, second) = (Asked::default(), 1_000_000);
        asked.last.store(9 * second, SeqCst);
        [10, 14, 24, 25].iter().for_each(|at| asked.note(at * second));
        // Ten seconds between the second and the third query.
        assert_eq!(asked.behind(26 * second, 7), 3.0);
        asked.gap.store(0, SeqCst);
        assert_eq!(asked.behind(26 * second, 7), -6.0, "not due yet");
        asked.note(31 * second);
        assert_eq!(asked.behind(32 * second, 7), -1.0);
        assert_eq!(asked.behind(40 * second, 7), 2.0, "one that has not come");
    }

    #[test]
    fn the_last_version_is_due_and_what_is_asked_of_it_is_counted() {
        let (provider, _, set) = primary(3);
        let ask = |zone: usize| {
            let mut query = Vec::new();
            write_query(&mut query, &set.zones[zone].name, Type::SOA, Edns::None);
            exchange(&asking(&provider), &query, 7).unwrap()
        };
        // REFRESH is the fourth last number.
        let refresh = |soa: Vec<u8>| u32::from_be_bytes(soa[soa.len() - 16..][..4].try_into().unwrap());
        assert_eq!(refresh(ask(0)), RARELY);
        provider.renew(DUE);
        assert_eq!(refresh(ask(0)), 1);
        (0..3).for_each(|zone| drop(ask(zone)));
        provider.forget();
        assert_eq!(provider.lateness().questions, 0);
        drop(ask(2));
        // Longer ago than REFRESH and the grace period.
        let before = provider.shared.now() + 100_000_000;
        provider.shared.asked[1].gap.store(before, SeqCst);
        let found = provider.lateness();
        assert_eq!((found.questions, found.late), (1, 1));
        assert!(found.latest > 90.0);
    }

    #[test]
    fn every_zone_is_announced_until_it_is_heard() {
        let (provider, _, _) = primary(100);
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let over = AtomicBool::new(false);
        let heard = std::thread::scope(|scope| {
            let announcing = scope.spawn(|| provider.announce(address, &over));
            let (mut heard, mut buffer, mut lost) = (std::collections::HashSet::new(), [0; 512], 3);
            while heard.len() < 100 {
                let (length, peer) = server.recv_from(&mut buffer).unwrap();
                if lost > 0 {
                    lost -= 1;
                    continue;
                }
                heard.insert(buffer[12..length].to_vec());
                buffer[2] |= 0x80;
                server.send_to(&buffer[..length], peer).unwrap();
            }
            announcing.join().unwrap().unwrap();
            heard
        });
        assert_eq!(heard.len(), 100);
    }
}
