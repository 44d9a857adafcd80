//! Dynamic updates (RFC 2136): clients that each add a record and delete it again, and wait for every reply
//! before the next update. A reply means that the change is made and durable (§3.5), so the rate is that of
//! durable changes.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::{TcpStream, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use wire::Type;

use crate::answers::exchange;
use crate::failure::{Context, Failure, Result};
use crate::load::{Latency, Load, named};
use crate::message::{Edns, summarise, write_query};
use crate::{namespaces, sys, tcp};

/// Time after which a client repeats an unanswered update.
const RESEND_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it sends the same update.
const TRIES: u32 = 5;
/// Interval of checks for clients that have waited too long. A check costs more with more clients, and on a
/// machine with few CPUs the clients' own CPU time can become the limit.
const LOOKS: Duration = Duration::from_millis(100);

/// Parameters of updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updating<'a> {
    /// The server.
    pub(crate) server: SocketAddr,
    /// The zone to change.
    pub(crate) zone: &'a str,
    /// Number of concurrent clients.
    pub(crate) clients: usize,
    /// Whether to use TCP, with one connection per client, instead of UDP.
    pub(crate) tcp: bool,
}

/// Change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Adds an A record.
    Add,
    /// Deletes its A records.
    Delete,
}

/// Appends an update of `zone` with ID 0 that changes `name`.
fn write_update(out: &mut Vec<u8>, zone: &str, name: &str, change: Change) {
    let at = out.len();
    write_query(out, zone, Type::SOA, Edns::None);
    // Opcode UPDATE; the question is the zone section, followed by one record to change (RFC 2136 §2).
    out[at + 2] = 0x28;
    out[at + 9] = 1;
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&[0xc0, 12, 0, Type::A.0 as u8]);
    match change {
        Change::Add => out.extend_from_slice(&[0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1]),
        // Class ANY, no TTL, no RDATA: the whole RRset (§2.5.2).
        Change::Delete => out.extend_from_slice(&[0, 255, 0, 0, 0, 0, 0, 0]),
    }
}

impl Updating<'_> {
    /// Sends updates for `seconds`; at the end each client deletes what it has added. One thread runs all
    /// clients: with a thread each, switching between them took as much CPU as the server under test.
    pub(crate) fn run(self, seconds: f64, turn: usize) -> Result<Load> {
        let began = Instant::now();
        let end = began + Duration::from_secs_f64(seconds);
        let mut lines = Lines::open(self)?;
        let mut clients: Vec<Client> = (0..self.clients).map(|_| Client::default()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.name = format!("u{turn}-{number}-0");
            lines.send(number, self.zone, &client.name, Change::Add)?;
        }
        let mut open = clients.len();
        while open > 0 {
            for (number, code, took) in lines.replies()? {
                let client = &mut clients[number];
                client.times.push(took.as_nanos() as u64);
                client.codes[usize::from(code)] += 1;
                if client.times.len() % 2 == 1 {
                    lines.send(number, self.zone, &client.name, Change::Delete)?;
                } else if Instant::now() >= end || sys::interrupted() {
                    open -= 1;
                } else {
                    // Another name each time, as with clients that come and go.
                    client.name = format!("u{turn}-{number}-{}", client.times.len() / 2);
                    lines.send(number, self.zone, &client.name, Change::Add)?;
                }
            }
        }
        let mut load = Load { seconds: began.elapsed().as_secs_f64(), ..Load::default() };
        let (mut codes, mut times) = ([0; 16], Vec::new());
        for client in clients {
            load.sent += client.times.len() as u64;
            times.extend(client.times);
            for (sum, count) in codes.iter_mut().zip(client.codes) {
                *sum += count;
            }
        }
        (load.answered, load.rcodes) = (codes[0], named(&codes));
        if let Some(code) = (1..codes.len()).find(|code| codes[*code] > 0) {
            return Err(Failure::new(format!("{} updates end with RCODE {code}", codes[code])));
        }
        load.latency = Latency::of(&mut times);
        Ok(load)
    }

    /// Checks that a record exists once its update is answered, and is gone once its deletion is.
    pub(crate) fn check(self) -> Result<()> {
        let mut lines = Lines::open(Updating { clients: 1, ..self })?;
        let socket = namespaces::socket(None, self.server)?;
        socket.set_read_timeout(Some(RESEND_TIMEOUT))?;
        let mut query = Vec::new();
        write_query(&mut query, &format!("u-check.{}", self.zone), Type::A, Edns::None);
        for (change, rcode, records) in [(Change::Add, 0, 1), (Change::Delete, 3, 0)] {
            lines.send(0, self.zone, "u-check", change)?;
            let code = loop {
                if let Some((_, code, _)) = lines.replies()?.first() {
                    break *code;
                }
            };
            let answer = exchange(&socket, &query, 1).context(|| "no answer after an update".to_string())?;
            let answer = summarise(&answer).context(|| "an answer is malformed".to_string())?;
            if (code, answer.rcode, answer.answer.records) != (0, rcode, records) {
                let said = format!("RCODE {} with {} records", answer.rcode, answer.answer.records);
                return Err(Failure::new(format!("{change:?} ends with RCODE {code}, and then {said}")));
            }
        }
        Ok(())
    }
}

/// Results of a client, and the name that it currently changes.
#[derive(Debug, Default)]
struct Client {
    name: String,
    times: Vec<u64>,
    codes: [u64; 16],
}

/// The clients' sockets, each with at most one update in flight.
struct Lines {
    poll: Poll,
    events: Events,
    lines: Vec<Line>,
    /// Number of updates sent so far, for their IDs.
    sent: u64,
    /// Time of the last check for clients that have waited too long.
    looked: Instant,
}

impl Lines {
    fn open(updating: Updating<'_>) -> Result<Lines> {
        let poll = Poll::new()?;
        let mut lines = Vec::new();
        for number in 0..updating.clients {
            let mut way = Way::open(updating.server, updating.tcp)?;
            match &mut way {
                Way::Datagrams(socket) => {
                    poll.registry().register(socket, Token(number), Interest::READABLE)?;
                }
                Way::Stream(stream) => {
                    poll.registry().register(stream, Token(number), Interest::READABLE)?;
                }
            }
            lines.push(Line { way, message: Vec::new(), sent: None, tries: 0, reply: Vec::new() });
        }
        let (events, looked) = (Events::with_capacity(updating.clients.max(1)), Instant::now());
        Ok(Lines { poll, events, lines, sent: 0, looked })
    }

    /// Sends an update on the client's socket.
    fn send(&mut self, client: usize, zone: &str, name: &str, change: Change) -> Result<()> {
        self.sent += 1;
        let line = &mut self.lines[client];
        line.message.clear();
        write_update(&mut line.message, zone, name, change);
        line.message[..2].copy_from_slice(&(self.sent as u16).to_be_bytes());
        line.sent = Some(Instant::now());
        line.tries = 1;
        line.send()
    }

    /// Waits for replies; returns the client, the response code and the time since the update was sent for
    /// each. Unanswered updates are repeated over UDP: a repeated update changes nothing.
    fn replies(&mut self) -> Result<Vec<(usize, u8, Duration)>> {
        self.poll.poll(&mut self.events, Some(RESEND_TIMEOUT))?;
        let mut replies = Vec::new();
        for event in self.events.iter() {
            let number = event.token().0;
            let line = &mut self.lines[number];
            if let Some(code) = line.receive()?
                && let Some(sent) = line.sent.take()
            {
                replies.push((number, code, sent.elapsed()));
            }
        }
        if self.looked.elapsed() >= LOOKS {
            self.looked = Instant::now();
            self.send_again()?;
        }
        Ok(replies)
    }

    /// Repeats updates that were not answered in time.
    fn send_again(&mut self) -> Result<()> {
        for line in &mut self.lines {
            if line.sent.is_some_and(|sent| self.looked - sent > RESEND_TIMEOUT * line.tries) {
                if line.tries == TRIES {
                    return Err(Failure::new("no reply to an update"));
                }
                line.tries += 1;
                if let Way::Datagrams(_) = line.way {
                    line.send()?;
                }
            }
        }
        Ok(())
    }
}

/// A client's socket and its state.
struct Line {
    way: Way,
    /// The current update, and when it was first sent; `None` once it is answered.
    message: Vec<u8>,
    sent: Option<Instant>,
    tries: u32,
    /// The received part of a reply over TCP.
    reply: Vec<u8>,
}

/// A non-blocking socket.
enum Way {
    Datagrams(UdpSocket),
    Stream(TcpStream),
}

impl Way {
    fn open(server: SocketAddr, tcp: bool) -> Result<Way> {
        if !tcp {
            let socket = namespaces::socket(None, server)?;
            socket.set_nonblocking(true)?;
            return Ok(Way::Datagrams(UdpSocket::from_std(socket)));
        }
        let stream = std::net::TcpStream::connect(server).context(|| format!("cannot reach {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Way::Stream(TcpStream::from_std(stream)))
    }
}

impl Line {
    fn send(&mut self) -> Result<()> {
        match &mut self.way {
            // Lost updates are repeated.
            Way::Datagrams(socket) => drop(socket.send(&self.message)),
            // Only one small update is in flight at a time, so there is always room for it.
            Way::Stream(stream) => {
                stream.write_all(&tcp::framed(&self.message))?;
            }
        }
        Ok(())
    }

    /// Reads until the reply is complete, and returns its response code; `None` if it is not. Further data
    /// triggers a new event, so no extra read is needed.
    fn receive(&mut self) -> Result<Option<u8>> {
        let mut buffer = [0; 1024];
        loop {
            let received = match &mut self.way {
                Way::Datagrams(socket) => socket.recv(&mut buffer),
                Way::Stream(stream) => stream.read(&mut buffer),
            };
            let length = match received {
                Ok(0) => return Err(Failure::new("the server closed a connection with an update on it")),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            if let Way::Datagrams(_) = self.way {
                match self.code(&buffer[..length]) {
                    // A reply to a repeated update that was answered before.
                    None => continue,
                    code => return Ok(code),
                }
            }
            self.reply.extend_from_slice(&buffer[..length]);
            if let [high, low, rest @ ..] = &self.reply[..]
                && rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
            {
                let found = self.code(rest);
                let code = found.ok_or_else(|| Failure::new("a reply belongs to no update"))?;
                self.reply.clear();
                return Ok(Some(code));
            }
        }
    }

    /// Returns the code of a response with opcode UPDATE and the ID of the query.
    fn code(&self, reply: &[u8]) -> Option<u8> {
        match reply {
            [high, low, flags, code, ..] if [*high, *low] == self.message[..2] && flags & 0xf8 == 0xa8 => {
                Some(code & 15)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_update_has_the_wire_form() {
        let mut add = Vec::new();
        write_update(&mut add, "test", "a", Change::Add);
        let head = b"\0\0\x28\0\0\x01\0\0\0\x01\0\0\x04test\0\0\x06\0\x01\x01a\xc0\x0c\0\x01";
        assert_eq!(add, [&head[..], b"\0\x01\0\0\x01\x2c\0\x04\xc0\0\x02\x01"].concat());
        let mut delete = Vec::new();
        write_update(&mut delete, "test", "a", Change::Delete);
        assert_eq!(delete, [&head[..], b"\0\xff\0\0\0\0\0\0"].concat());
    }

    /// Runs a client over TCP against a server that answers its updates with this code.
    fn against(code: u8) -> (Result<Load>, Vec<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut length, mut seen) = ([0; 2], Vec::new());
                while stream.read_exact(&mut length).is_ok() {
                    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                    stream.read_exact(&mut message).unwrap();
                    seen.push(message[22..].to_vec());
                    message.truncate(12);
                    (message[2], message[3]) = (0xa8, code);
                    stream.write_all(&[&[0, 12][..], &message].concat()).unwrap();
                }
                seen
            });
            let updating = Updating { server, zone: "test", clients: 1, tcp: true };
            (updating.run(0.0, 3), served.join().unwrap())
        })
    }

    #[test]
    fn a_client_deletes_what_it_adds_and_refusals_are_a_failure() {
        let (load, seen) = against(0);
        let load = load.unwrap();
        assert_eq!((load.sent, load.answered, seen.len()), (2, 2, 2));
        assert_eq!(seen[0][..9], seen[1][..9], "another name");
        assert!(against(5).0.is_err());
    }
}
