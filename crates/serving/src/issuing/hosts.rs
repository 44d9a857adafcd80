//! Addresses of a CA's server: from this server's own resolver, or else, where it is off, from the resolvers
//! of the system.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fetch::HostAddresses;
use threads::sync::lock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use wire::message::{Builder, Compressor, Parser};
use wire::{Class, Header, Name, NameBuf, Rcode, Type};
use wording::reason;

use crate::recursive::{ListHosts, Recursive, addresses_in};

/// The file that names the resolvers of the system.
const RESOLVERS_FILE: &str = "/etc/resolv.conf";
/// Most bytes of it.
const MAX_FILE: u64 = 1 << 20;
/// Most resolvers that are asked (resolv.conf(5)).
const MAX_RESOLVERS: usize = 3;
/// Wait for a response, and how often all resolvers are asked.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
const ROUNDS: usize = 2;
/// Most bytes of a response over UDP without EDNS (RFC 1035 §4.2.1).
const MAX_DATAGRAM: usize = 512;
/// The port of resolvers.
const DNS_PORT: u16 = 53;

/// Resolves the name of a CA's server.
pub(super) enum IssuingHosts {
    /// By the resolver of this server.
    Own(ListHosts),
    /// By those of the system.
    System(SystemResolvers),
}

impl IssuingHosts {
    pub(super) fn new(recursive: Option<&Arc<Recursive>>) -> Self {
        match recursive {
            Some(recursive) => Self::Own(recursive.hosts()),
            None => Self::System(SystemResolvers::default()),
        }
    }
}

impl HostAddresses for IssuingHosts {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        match self {
            Self::Own(hosts) => hosts.addresses(host).await,
            Self::System(resolvers) => resolvers.addresses(host).await,
        }
    }
}

/// The resolvers of the system.
#[derive(Default)]
pub(super) struct SystemResolvers {
    /// Those that were read last: a file that was replaced cannot be read from inside the sandbox.
    last: Mutex<Vec<IpAddr>>,
}

impl SystemResolvers {
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        if host == "localhost" {
            return Ok(vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]);
        }
        let name: NameBuf = host.parse().map_err(|_| "it is not a domain name".to_owned())?;
        let resolvers = self.resolvers(Path::new(RESOLVERS_FILE))?;
        let asked = |qtype| ask_all(&resolvers, name, qtype);
        let (six, four) = tokio::join!(asked(Type::AAAA), asked(Type::A));
        match (six, four) {
            (Err(fault), Err(_)) => Err(fault),
            (six, four) => Ok([six.unwrap_or_default(), four.unwrap_or_default()].concat()),
        }
    }

    fn resolvers(&self, file: &Path) -> Result<Vec<SocketAddr>, String> {
        let mut last = lock(&self.last);
        match zone::regular::read_to_string(file, MAX_FILE) {
            Ok(text) => *last = named(&text),
            Err(_) if !last.is_empty() => {}
            Err(error) => return Err(format!("cannot read {}: {}", file.display(), reason(&error))),
        }
        Ok(last.iter().map(|address| SocketAddr::new(*address, DNS_PORT)).collect())
    }
}

/// Returns the resolvers that a file names; that of this machine if there are none.
fn named(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse().ok())?
    };
    let all: Vec<IpAddr> = text.lines().filter_map(address).take(MAX_RESOLVERS).collect();
    if all.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { all }
}

/// Asks each resolver until one has a response.
async fn ask_all(resolvers: &[SocketAddr], name: NameBuf, qtype: Type) -> Result<Vec<IpAddr>, String> {
    let mut fault = "no resolver".to_owned();
    for resolver in resolvers.iter().cycle().take(resolvers.len() * ROUNDS) {
        let asked = timeout(RESPONSE_TIMEOUT, ask(*resolver, name, qtype)).await;
        match asked.unwrap_or_else(|_| Err("it does not respond".to_owned())) {
            Ok(message) => return addresses_in(&message, name, qtype),
            Err(of_resolver) => fault = format!("the resolver {}: {of_resolver}", resolver.ip()),
        }
    }
    Err(fault)
}

/// Returns the response of a resolver to a query with a random ID.
async fn ask(resolver: SocketAddr, name: NameBuf, qtype: Type) -> Result<Vec<u8>, String> {
    let of_system = |error: std::io::Error| reason(&error);
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|_| "the system has no random numbers".to_owned())?;
    let id = u16::from_be_bytes(id);
    let query = query(id, name.as_name(), qtype);
    let any =
        if resolver.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.map_err(of_system)?;
    socket.connect(resolver).await.map_err(of_system)?;
    socket.send(&query).await.map_err(of_system)?;
    let mut buffer = [0; MAX_DATAGRAM];
    loop {
        let len = socket.recv(&mut buffer).await.map_err(of_system)?;
        match Header::of(&buffer[..len]).filter(|_| is_reply(&buffer[..len], id, name, qtype)) {
            Some(header) if header.truncated() => break,
            Some(header) => return usable(&buffer[..len], header),
            None => {}
        }
    }
    let mut stream = TcpStream::connect(resolver).await.map_err(of_system)?;
    let length = u16::try_from(query.len()).unwrap_or_default().to_be_bytes();
    stream.write_all(&[&length[..], &query].concat()).await.map_err(of_system)?;
    let len = stream.read_u16().await.map_err(of_system)?;
    let mut message = vec![0; len.into()];
    stream.read_exact(&mut message).await.map_err(of_system)?;
    match Header::of(&message) {
        Some(header) if is_reply(&message, id, name, qtype) => usable(&message, header),
        _ => Err("the response is of another query".to_owned()),
    }
}

fn query(id: u16, name: Name<'_>, qtype: Type) -> Vec<u8> {
    let (mut buffer, mut names) = ([0; MAX_DATAGRAM], Compressor::small());
    let mut header = Header::query(id);
    header.set_recursion_desired(true);
    let mut builder = Builder::new(&mut buffer, MAX_DATAGRAM, header, &mut names);
    // A question fits.
    let _ = builder.question(name, qtype, Class::IN);
    let len = builder.finish();
    buffer[..len].to_vec()
}

/// Whether a message is a response to this query.
fn is_reply(message: &[u8], id: u16, name: NameBuf, qtype: Type) -> bool {
    let Ok((header, mut parser)) = Parser::new(message) else { return false };
    let is_same = |parser: &mut Parser<'_>| {
        parser.question().is_ok_and(|question| question.qtype == qtype && question.name == name.as_name())
    };
    header.id() == id && header.is_response() && header.counts()[0] == 1 && is_same(&mut parser)
}

fn usable(message: &[u8], header: Header) -> Result<Vec<u8>, String> {
    match header.rcode() {
        Rcode::NOERROR => Ok(message.to_vec()),
        Rcode::NXDOMAIN => Err("there is no such name".to_owned()),
        rcode => Err(format!("the response is {rcode}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_those_of_the_file_or_this_machine() {
        let text = "# x\nnameserver 192.0.2.1\n search a.example\nnameserver\t2001:db8::1 \noptions edns0\n\
                    nameserver fe80::1%eth0\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let addresses = |all: &[&str]| -> Vec<IpAddr> {
            all.iter().map(|text| text.parse().expect("an address")).collect()
        };
        assert_eq!(named(text), addresses(&["192.0.2.1", "2001:db8::1", "192.0.2.2"]));
        assert_eq!(named("search a.example\n"), addresses(&["127.0.0.1"]));
    }

    #[test]
    fn the_last_resolvers_stay_when_the_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, resolvers) = (folder.path().join("resolv.conf"), SystemResolvers::default());
        let fault = resolvers.resolvers(&file).expect_err("no file");
        assert!(fault.contains("there is no such file"), "{fault}");
        std::fs::write(&file, "nameserver 192.0.2.9\n").expect("written");
        let read = resolvers.resolvers(&file).expect("read");
        assert_eq!(read, ["192.0.2.9:53".parse().expect("an address")]);
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(resolvers.resolvers(&file).expect("as before"), read);
    }

    #[tokio::test]
    async fn a_resolver_is_asked_over_udp_and_a_truncated_response_over_tcp() {
        let name: NameBuf = "ca.example".parse().expect("a name");
        let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let at = udp.local_addr().expect("bound");
        let tcp = tokio::net::TcpListener::bind(at).await.expect("the same port");
        let serve = async {
            let mut buffer = [0; MAX_DATAGRAM];
            let (len, client) = udp.recv_from(&mut buffer).await.expect("a query");
            let asked = buffer[..len].to_vec();
            // One of another ID first, then a truncated one.
            let mut reply = asked.clone();
            (reply[2], reply[0]) = (0x82, !asked[0]);
            udp.send_to(&reply, client).await.expect("sent");
            reply[0] = asked[0];
            udp.send_to(&reply, client).await.expect("sent");
            let (mut stream, _) = tcp.accept().await.expect("a connection");
            let mut over_tcp = vec![0; stream.read_u16().await.expect("a length").into()];
            stream.read_exact(&mut over_tcp).await.expect("a query");
            over_tcp[2] = 0x80;
            over_tcp[7] = 1;
            over_tcp.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
            let framed = [&(over_tcp.len() as u16).to_be_bytes()[..], &over_tcp].concat();
            stream.write_all(&framed).await.expect("sent");
        };
        let servers = [at];
        let (found, ()) = tokio::join!(ask_all(&servers, name, Type::A), serve);
        assert_eq!(found, Ok(vec!["192.0.2.7".parse().expect("an address")]));
    }
}
