//! The transports by which nomen receives queries, compared with each other: the answer must be the same
//! bytes by all of them. The answers of the sockets on loopback, which are compared with the peers elsewhere,
//! are the reference for replies that are sent together (UDP_SEGMENT) and for AF_XDP. Counters must show that
//! these transports were used.

use crate::answer;
use crate::client;
use crate::network::{self, Network};
use crate::servers::{METRICS_OFFSET, Server};
use crate::zones::World;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Port in the namespaces on which AF_XDP receives queries.
const XDP_PORT: u16 = 53;
/// Port in the namespaces on which the sockets receive queries.
const SOCKETS_PORT: u16 = 54;
/// Port of the metrics in the namespace.
const METRICS_PORT: u16 = 9153;
/// Messages from one client socket: several clients, so that each receive queue gets some.
const PER_CLIENT: usize = 256;
/// Time after which an unanswered query is sent again.
const RESEND_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long to wait for answers to queries that the sockets did not answer.
const SILENCE: Duration = Duration::from_millis(200);

/// Transport of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// Sockets, with bursts of queries whose answers have the same length.
    Bursts,
    /// AF_XDP.
    Xdp,
}

/// One transport to the server.
#[derive(Clone, Debug)]
struct Front {
    label: String,
    address: SocketAddr,
    /// Address under which its frames are counted; AF_XDP counts both families under one.
    counted: SocketAddr,
    carrier: Carrier,
    /// Whether the server behind the network answers, and not that on loopback.
    remote: bool,
}

/// Counts of one transport.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    /// Queries.
    pub asked: usize,
    /// Answers that differ from those of the sockets on loopback.
    pub different: usize,
    /// Answers that were sent together with others, or frames that AF_XDP received, depending on the
    /// transport.
    pub taken: u64,
}

/// Counts by the label of the transport.
pub(crate) type Counts = BTreeMap<String, Count>;

/// All transports to nomen that this machine supports.
#[derive(Debug)]
pub(crate) struct Ways {
    network: Option<Network>,
    segments: bool,
    /// The unsupported ones, with the reason.
    pub skipped: Vec<String>,
}

impl Ways {
    /// Finds out what this machine supports.
    pub(crate) fn find() -> Self {
        let mut skipped = Vec::new();
        let segments = takes_segments();
        if !segments {
            skipped.push("replies that leave together: this kernel has no UDP_SEGMENT".to_owned());
        }
        let network = has_xdp().and_then(|()| Network::new());
        let network = network.map_err(|reason| skipped.push(format!("AF_XDP over veth: {reason}"))).ok();
        Self { network, segments, skipped }
    }

    /// Starts the additional server that is needed; the one at `loopback` already serves the same world.
    pub(crate) fn start(
        &self,
        program: &Path,
        world: &World,
        loopback: SocketAddr,
        dir: &Path,
    ) -> Result<Fronts<'_>, String> {
        let mut list = Vec::new();
        let front = |label: &str, address: SocketAddr, counted, carrier, remote| {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            Front { label: format!("{label}, {family}"), address, counted, carrier, remote }
        };
        if self.segments {
            list.push(front("in bursts, loopback", loopback, loopback, Carrier::Bursts, false));
        }
        let mut remote = None;
        if let Some(network) = &self.network {
            if self.segments {
                let ends = network::sockets(0, SOCKETS_PORT);
                list.extend(ends.map(|end| front("in bursts, veth", end, end, Carrier::Bursts, true)));
            }
            for (pair, label) in [(0, "AF_XDP in the driver"), (1, "AF_XDP, generic")] {
                let ends = network::sockets(pair, XDP_PORT);
                list.extend(ends.map(|end| front(label, end, ends[0], Carrier::Xdp, true)));
            }
            let dir = dir.join(format!("{}-fronts", world.name));
            let server = Server::start_inside(&network.server, program, &listens(), &world.zones, &dir)?;
            let log = server.log();
            if let Some(line) = log.lines().find(|line| line.contains("no AF_XDP on")) {
                return Err(format!("this kernel has AF_XDP and nomen does not use it: {line}"));
            }
            remote = Some(server);
        }
        let counts = list.iter().map(|front| (front.label.clone(), Count::default())).collect();
        Ok(Fronts { ways: self, list, remote, counts })
    }
}

/// The transports to the servers of one world.
#[derive(Debug)]
pub(crate) struct Fronts<'a> {
    ways: &'a Ways,
    list: Vec<Front>,
    remote: Option<Server>,
    counts: Counts,
}

/// An answer that depends on the transport.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Index of the query.
    pub index: usize,
    /// The transport.
    pub label: String,
    /// The reply by this transport.
    pub reply: Option<Vec<u8>>,
}

impl Fronts<'_> {
    /// Sends `messages` by every transport; `expected` are the answers of the sockets of `loopback`. The ID
    /// of message `i` is `i`.
    pub(crate) fn compare(
        &mut self,
        loopback: &Server,
        messages: &[Vec<u8>],
        expected: &[Option<Vec<u8>>],
    ) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for front in &self.list {
            let ask = || self.ask(front, loopback, messages, expected);
            let replies = match self.ways.network.as_ref().filter(|_| front.remote) {
                Some(network) => network.client.enter(ask),
                None => ask(),
            };
            let replies = replies.map_err(|e| format!("{}: {e}", front.label))?;
            let found = differing(expected, &replies);
            let count = self.counts.entry(front.label.clone()).or_default();
            count.asked += messages.len();
            count.different += found.len();
            differences.extend(found.into_iter().map(|index| Difference {
                index,
                label: front.label.clone(),
                reply: replies[index].clone(),
            }));
        }
        Ok(differences)
    }

    fn ask(
        &self,
        front: &Front,
        loopback: &Server,
        messages: &[Vec<u8>],
        expected: &[Option<Vec<u8>>],
    ) -> Result<Vec<Option<Vec<u8>>>, String> {
        let mut replies = vec![None; messages.len()];
        let mut indices: Vec<_> = (0..messages.len()).collect();
        // Neighbours in a burst have answers of the same length.
        indices.sort_by_key(|&i| expected[i].as_ref().map_or(usize::MAX, Vec::len));
        let silent = indices.split_off(indices.partition_point(|&i| expected[i].is_some()));
        let failed = |e: std::io::Error| e.to_string();
        if front.carrier == Carrier::Bursts {
            let server = self.remote.as_ref().filter(|_| front.remote).unwrap_or(loopback);
            let pause = |stop| server.signal(if stop { Signal::SIGSTOP } else { Signal::SIGCONT });
            client::bursts(front.address, messages, &indices, &mut replies, RESEND_TIMEOUT, pause)?;
            indices.retain(|&i| replies[i].is_none());
        }
        for some in indices.chunks(PER_CLIENT) {
            client::udp_some(front.address, messages, some, &mut replies, RESEND_TIMEOUT, client::MAX_SENDS)
                .map_err(failed)?;
        }
        client::udp_some(front.address, messages, &silent, &mut replies, SILENCE, 1).map_err(failed)?;
        Ok(replies)
    }

    /// Adds the counts to `total`; fails if the counters show that a transport was not used.
    pub(crate) fn finish(mut self, loopback: &Server, total: &mut Counts) -> Result<(), String> {
        if !self.remote.as_mut().is_none_or(Server::is_alive) {
            return Err("nomen behind the network died".to_owned());
        }
        let local = metrics((Ipv4Addr::LOCALHOST, loopback.address.port() + METRICS_OFFSET).into())?;
        let remote = match &self.ways.network {
            Some(network) => network.server.enter(|| metrics((Ipv4Addr::LOCALHOST, METRICS_PORT).into()))?,
            None => String::new(),
        };
        for front in &self.list {
            let figures = if front.remote { &remote } else { &local };
            let mut count = self.counts.get(&front.label).copied().unwrap_or_default();
            count.taken = taken(front, figures, count.asked)?;
            let sum = total.entry(front.label.clone()).or_default();
            sum.asked += count.asked;
            sum.different += count.different;
            sum.taken += count.taken;
        }
        Ok(())
    }
}

/// Returns how often the transport was used; fails if it was not, or not for all queries.
fn taken(front: &Front, figures: &str, asked: usize) -> Result<u64, String> {
    let of = |name: &str, address: SocketAddr, carrier: &str| {
        let labels = [format!("listen=\"{address}\""), format!("transport=\"{carrier}\"")];
        figure(figures, &format!("nomen_net_{name}_total"), &labels)
    };
    match front.carrier {
        Carrier::Bursts => {
            let joined = of("joined", front.address, "udp")?;
            if joined == 0 && asked > 0 {
                return Err(format!("{}: no replies left together, of {asked}", front.label));
            }
            Ok(joined)
        }
        Carrier::Xdp => {
            let through_sockets = of("queries", front.address, "udp")?;
            if through_sockets > 0 {
                return Err(format!("{}: {through_sockets} queries went through the sockets", front.label));
            }
            let frames = of("xdp_frames_in", front.counted, "xdp")?;
            if frames < 2 * asked as u64 {
                return Err(format!("{}: AF_XDP took {frames} frames of {}", front.label, 2 * asked));
            }
            Ok(frames)
        }
    }
}

/// Returns the indices of the replies that are not as expected.
fn differing(expected: &[Option<Vec<u8>>], replies: &[Option<Vec<u8>>]) -> Vec<usize> {
    (0..expected.len().max(replies.len())).filter(|&i| expected.get(i) != replies.get(i)).collect()
}

/// Prints the counts and the unsupported transports, and returns the number of different answers.
pub(crate) fn print(counts: &Counts, skipped: &[String]) -> usize {
    for (label, Count { asked, different, taken }) in counts {
        let what = if label.contains("bursts") { "answers left together" } else { "frames taken" };
        println!(
            "nomen {label}: {asked} queries, {different} answered unlike over the sockets; {taken} {what}"
        );
    }
    for reason in skipped {
        println!("nomen: skipped: {reason}");
    }
    counts.values().map(|count| count.different).sum()
}

/// Prints one difference.
pub(crate) fn show(difference: &Difference, query: &str, expected: Option<&[u8]>) {
    let Difference { label, reply, .. } = difference;
    println!("\n{label}: not what the sockets on loopback answer to {query}");
    for (who, wire) in [("sockets", expected), ("this way", reply.as_deref())] {
        match wire {
            None => println!("  {who}: silence"),
            Some(wire) => print!("  {who}:\n{}", answer::render(wire)),
        }
    }
}

/// Returns the listeners of the server behind the network, as configuration.
fn listens() -> String {
    let list = |ends: [SocketAddr; 2]| ends.map(|a| format!("\"{}@{}\"", a.ip(), a.port())).join(", ");
    let mut out = format!(
        "[server]\ncookies = false\n\n[rate-limits]\nexempt = [\"loopback\", \"private\", \"198.18.0.0/15\"]\n\n\
         [metrics]\nlisten = \"127.0.0.1@{METRICS_PORT}\"\n\n[[listen]]\n\
         addr = [\"127.0.0.1@{XDP_PORT}\"]\n\n[[listen]]\naddr = [{}]\nproto = [\"udp\"]\n",
        list(network::sockets(0, SOCKETS_PORT))
    );
    for (pair, attach) in [(0, "driver"), (1, "generic")] {
        let _ = write!(
            out,
            "\n[[listen]]\naddr = [{}]\nproto = [\"udp\"]\nxdp = \"{}\"\nxdp-attach = \"{attach}\"\n",
            list(network::sockets(pair, XDP_PORT)),
            network::interface(pair)
        );
    }
    out
}

fn takes_segments() -> bool {
    let made = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    made.is_ok_and(|socket| setsockopt(&socket, sockopt::UdpGsoSegment, &1200).is_ok())
}

fn has_xdp() -> Result<(), String> {
    let path = "/proc/net/protocols";
    let known = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let found = known.lines().any(|line| line.split_whitespace().next() == Some("XDP"));
    if found { Ok(()) } else { Err("this kernel has no AF_XDP".to_owned()) }
}

/// Fetches the metrics of a server as text.
pub(crate) fn metrics(address: SocketAddr) -> Result<String, String> {
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: nomen\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    fetch().map_err(|e| format!("metrics at {address}: {e}"))
}

/// Returns the value of a metric with these labels.
pub(crate) fn figure(text: &str, name: &str, labels: &[String]) -> Result<u64, String> {
    text.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "))
        .find(|(found, _)| labels.iter().all(|label| found.split(',').any(|l| l == label)))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| format!("nomen has no figure {name} with {}", labels.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        "198.18.0.2:53".parse().unwrap()
    }

    /// Returns metrics as nomen prints them.
    fn figures(joined: u64, queries: u64, frames: u64) -> String {
        let line = |name: &str, carrier: &str, value: u64| {
            format!("nomen_net_{name}_total{{listen=\"198.18.0.2:53\",transport=\"{carrier}\"}} {value}\n")
        };
        [
            "HTTP/1.1 200 OK\r\n\r\n# TYPE nomen_net_joined counter\n".to_owned(),
            "nomen_net_joined_total{listen=\"127.0.0.1:53\",transport=\"udp\"} 5\n".to_owned(),
            line("joined", "udp", joined),
            line("queries", "udp", queries),
            line("queries", "xdp", 7),
            line("xdp_frames_in", "udp", 0),
            line("xdp_frames_in", "xdp", frames),
        ]
        .concat()
    }

    fn front(carrier: Carrier) -> Front {
        Front { label: "x".to_owned(), address: address(), counted: address(), carrier, remote: true }
    }

    #[test]
    fn one_byte_or_silence_is_a_difference() {
        let reply = |bytes: &[u8]| Some(bytes.to_vec());
        let expected = [reply(&[0, 1, 2]), None, reply(&[3]), None, reply(&[5, 6])];
        let replies = [reply(&[0, 1, 2]), None, None, reply(&[4]), reply(&[5, 7])];
        assert_eq!(differing(&expected, &replies), [2, 3, 4]);
        assert_eq!(differing(&expected, &expected), [0; 0]);
    }

    #[test]
    fn a_way_not_taken_is_a_fault() {
        assert_eq!(taken(&front(Carrier::Bursts), &figures(9, 0, 0), 20), Ok(9));
        assert!(taken(&front(Carrier::Bursts), &figures(0, 0, 0), 20).unwrap_err().contains("left together"));
        assert_eq!(taken(&front(Carrier::Xdp), &figures(0, 0, 40), 20), Ok(40));
        assert!(taken(&front(Carrier::Xdp), &figures(0, 0, 39), 20).unwrap_err().contains("39 frames of 40"));
        let error = taken(&front(Carrier::Xdp), &figures(0, 1, 40), 20).unwrap_err();
        assert!(error.contains("1 queries went through the sockets"), "{error}");
        assert!(taken(&front(Carrier::Xdp), "", 0).is_err());
    }

    #[test]
    fn different_answers_count_as_unexplained() {
        let count = |different| Count { asked: 10, different, taken: 10 };
        let counts = Counts::from([("a".to_owned(), count(2)), ("b".to_owned(), count(1))]);
        assert_eq!(print(&counts, &["why".to_owned()]), 3);
    }

    #[test]
    fn what_a_burst_leaves_unanswered_is_asked_again() {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let messages: Vec<_> = (0..100_u16).map(|id| [&id.to_be_bytes()[..], &[7; 20]].concat()).collect();
        let mut replies = vec![None; 100];
        let all: Vec<_> = (0..100).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The server ignores the very first query, and answers its repetition.
                let mut buffer = [0; 100];
                for n in 0..101 {
                    let (len, peer) = server.recv_from(&mut buffer).unwrap();
                    if n > 0 {
                        server.send_to(&buffer[..len], peer).unwrap();
                    }
                }
            });
            let patience = Duration::from_millis(300);
            let pauses = std::cell::Cell::new(0);
            let pause = |_| {
                pauses.set(pauses.get() + 1);
                Ok(())
            };
            client::bursts(address, &messages, &all, &mut replies, patience, pause).unwrap();
            assert_eq!(pauses.get(), 4);
            let left: Vec<_> = all.iter().copied().filter(|&i| replies[i].is_none()).collect();
            assert_eq!(left, [0]);
            client::udp_some(address, &messages, &left, &mut replies, patience, 2).unwrap();
        });
        assert!(replies.iter().zip(&messages).all(|(reply, message)| reply.as_ref() == Some(message)));
    }

    #[test]
    fn namespaces_are_joined_and_leave_nothing_behind() {
        let network = match Network::new() {
            Ok(network) => network,
            Err(reason) => return testkit::left_out(&reason),
        };
        let path = network.server.path();
        for pair in 0..network::PAIRS {
            for there in network::sockets(pair, 5353) {
                let server = network.server.enter(|| {
                    let socket = std::net::UdpSocket::bind(there).map_err(|e| e.to_string())?;
                    socket.set_read_timeout(Some(RESEND_TIMEOUT / 10)).map_err(|e| e.to_string())?;
                    Ok(socket)
                });
                let client = network.client.enter(|| {
                    let any = if there.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    std::net::UdpSocket::bind(any).map_err(|e| e.to_string())
                });
                let (server, client) = (server.unwrap(), client.unwrap());
                // The first datagrams may be lost, before the other side's address is resolved.
                let arrived = (0..50).any(|_| {
                    let _ = client.send_to(&[9], there);
                    server.recv(&mut [0; 9]).is_ok_and(|bytes| bytes == 1)
                });
                assert!(arrived, "{there}");
            }
        }
        assert!(std::fs::metadata(&path).is_ok());
        drop(network);
        assert!(std::fs::metadata(&path).is_err());
    }
}
