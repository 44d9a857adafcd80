//! Dynamic updates (RFC 2136): clients that each add a record and delete it again, and wait for every reply before
//! they go on. A reply says that the change is made and will outlast the server (§3.5), so the rate is that of
//! durable changes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::answers::exchange;
use crate::failure::{Context, Failure, Result};
use crate::load::{Latency, Load, named};
use crate::message::{Edns, kind, summarise, write_query};
use crate::namespaces;
use crate::sys;

/// How long a client waits for a reply before it sends its update again.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it sends the same update.
const TRIES: usize = 5;

/// How updates are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updating<'a> {
    /// To whom.
    pub(crate) server: SocketAddr,
    /// The zone that is changed.
    pub(crate) zone: &'a str,
    /// Clients at a time.
    pub(crate) clients: usize,
    /// Over TCP, one connection for each client, or else over UDP.
    pub(crate) tcp: bool,
}

/// What is done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// An A record is added.
    Add,
    /// Its A records are deleted.
    Delete,
}

/// Appends an update of `zone` with ID 0 that changes `name`.
fn write_update(out: &mut Vec<u8>, zone: &str, name: &str, change: Change) {
    let at = out.len();
    write_query(out, zone, kind::SOA, Edns::None);
    // Opcode UPDATE; the question is the zone section, and one record to change follows (RFC 2136 §2).
    out[at + 2] = 0x28;
    out[at + 9] = 1;
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&[0xc0, 12, 0, kind::A as u8]);
    match change {
        Change::Add => out.extend_from_slice(&[0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1]),
        // Class ANY, no TTL, no RDATA: the whole RRset (§2.5.2).
        Change::Delete => out.extend_from_slice(&[0, 255, 0, 0, 0, 0, 0, 0]),
    }
}

impl Updating<'_> {
    /// Updates for so many seconds; each client ends with what it has added deleted.
    pub(crate) fn run(self, seconds: f64, turn: usize) -> Result<Load> {
        let began = Instant::now();
        let end = began + Duration::from_secs_f64(seconds);
        let seen: Vec<Result<Seen>> = std::thread::scope(|scope| {
            let client = |number| scope.spawn(move || self.client(turn, number, end));
            let threads: Vec<_> = (0..self.clients).map(client).collect();
            let failed = |_| Err(Failure::new("a client failed"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        let mut load = Load { seconds: began.elapsed().as_secs_f64(), ..Load::default() };
        let (mut codes, mut times) = ([0; 16], Vec::new());
        for seen in seen {
            let seen = seen?;
            load.sent += seen.sent;
            times.extend(seen.times);
            for (sum, count) in codes.iter_mut().zip(seen.codes) {
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

    fn client(self, turn: usize, number: usize, end: Instant) -> Result<Seen> {
        let mut line = Line::open(self.server, self.tcp)?;
        let (mut seen, mut message) = (Seen::default(), Vec::new());
        for round in 0.. {
            // The name is another each time, as it is with clients that come and go.
            let name = format!("u{turn}-{number}-{round}");
            for change in [Change::Add, Change::Delete] {
                message.clear();
                write_update(&mut message, self.zone, &name, change);
                message[..2].copy_from_slice(&(seen.sent as u16).to_be_bytes());
                seen.sent += 1;
                let began = Instant::now();
                let code = line.ask(&message)?;
                seen.times.push(began.elapsed().as_nanos() as u64);
                seen.codes[usize::from(code)] += 1;
            }
            if Instant::now() >= end || sys::interrupted() {
                break;
            }
        }
        Ok(seen)
    }

    /// Whether a record is there once its update is answered, and gone once that of its deletion is.
    pub(crate) fn check(self) -> Result<()> {
        let mut line = Line::open(self.server, self.tcp)?;
        let socket = namespaces::socket(None, self.server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (mut query, mut message) = (Vec::new(), Vec::new());
        write_query(&mut query, &format!("u-check.{}", self.zone), kind::A, Edns::None);
        for (change, rcode, records) in [(Change::Add, 0, 1), (Change::Delete, 3, 0)] {
            message.clear();
            write_update(&mut message, self.zone, "u-check", change);
            let code = line.ask(&message)?;
            let answer = exchange(&socket, &query, 1).context(|| "no answer after an update".to_string())?;
            let answer = summarise(&answer).map_err(Failure::new)?;
            if (code, answer.rcode, answer.answer.records) != (0, rcode, records) {
                let said = format!("RCODE {} with {} records", answer.rcode, answer.answer.records);
                return Err(Failure::new(format!("{change:?} ends with RCODE {code}, and then {said}")));
            }
        }
        Ok(())
    }
}

/// What a client has seen.
#[derive(Debug, Default)]
struct Seen {
    sent: u64,
    times: Vec<u64>,
    codes: [u64; 16],
}

/// A client's way to the server.
enum Line {
    Datagrams(UdpSocket),
    Stream(TcpStream),
}

impl Line {
    fn open(server: SocketAddr, tcp: bool) -> Result<Line> {
        if !tcp {
            let socket = namespaces::socket(None, server)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            return Ok(Line::Datagrams(socket));
        }
        let stream = TcpStream::connect(server).context(|| format!("cannot reach {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE * TRIES as u32))?;
        Ok(Line::Stream(stream))
    }

    /// Sends an update and waits for its reply; returns the response code.
    fn ask(&mut self, message: &[u8]) -> Result<u8> {
        let silent = || "no reply to an update".to_string();
        let reply = match self {
            // An update that is made twice changes nothing the second time.
            Line::Datagrams(socket) => {
                let id = u16::from_be_bytes([message[0], message[1]]);
                (0..TRIES).find_map(|_| exchange(socket, message, id)).context(silent)?
            }
            Line::Stream(stream) => {
                stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], message].concat())?;
                let mut length = [0; 2];
                stream.read_exact(&mut length).context(silent)?;
                let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut reply).context(silent)?;
                reply
            }
        };
        // A response with the opcode UPDATE and the ID that was asked with.
        match reply[..] {
            [high, low, flags, code, ..] if [high, low] == message[..2] && flags & 0xf8 == 0xa8 => {
                Ok(code & 15)
            }
            _ => Err(Failure::new("a reply belongs to no update")),
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

    /// A server that answers updates of one client over TCP with this code, until the client is done.
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
