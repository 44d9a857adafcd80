//! Responses for tests, and servers on loopback addresses that send them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use threads::sync::lock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinSet;
use wire::message::{Builder, Compressor, MAX_MESSAGE, Owner, Parser, Section};
use wire::rdata::embedded_names;
use wire::{Class, Header, Name, NameBuf, Rcode, Ttl, Type};

pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

/// The data of a DSYNC record.
pub(crate) fn dsync(rtype: Type, scheme: u8, port: u16, target: &str) -> Vec<u8> {
    let target = name(target);
    [&rtype.0.to_be_bytes()[..], &[scheme], &port.to_be_bytes(), target.as_name().as_wire()].concat()
}

/// A response.
#[derive(Clone)]
pub(crate) struct Response {
    pub(crate) qname: NameBuf,
    pub(crate) qtype: Type,
    authoritative: bool,
    truncated: bool,
    rcode: Rcode,
    records: Vec<(Section, NameBuf, Type, u32, Vec<u8>)>,
}

impl Response {
    pub(crate) fn to(qname: &str, qtype: Type) -> Self {
        let (authoritative, truncated, rcode) = (false, false, Rcode::NOERROR);
        Response { qname: name(qname), qtype, authoritative, truncated, rcode, records: Vec::new() }
    }

    pub(crate) fn authoritative(mut self) -> Self {
        self.authoritative = true;
        self
    }

    pub(crate) fn truncated(mut self) -> Self {
        self.truncated = true;
        self
    }

    pub(crate) fn rcode(mut self, rcode: Rcode) -> Self {
        self.rcode = rcode;
        self
    }

    pub(crate) fn answer(self, owner: &str, rtype: Type, ttl: u32, rdata: &[u8]) -> Self {
        self.with(Section::Answer, owner, rtype, ttl, rdata)
    }

    pub(crate) fn authority(self, owner: &str, rtype: Type, ttl: u32, rdata: &[u8]) -> Self {
        self.with(Section::Authority, owner, rtype, ttl, rdata)
    }

    pub(crate) fn soa(self, apex: &str) -> Self {
        self.with(Section::Authority, apex, Type::SOA, 60, &[0; 22])
    }

    fn with(mut self, section: Section, owner: &str, rtype: Type, ttl: u32, rdata: &[u8]) -> Self {
        debug_assert!(embedded_names(rtype, rdata).all(|name| name.len > 0), "the data is of the type");
        self.records.push((section, name(owner), rtype, ttl, rdata.to_vec()));
        self
    }

    pub(crate) fn message(&self) -> Vec<u8> {
        self.message_to(Header::query(0))
    }

    pub(crate) fn message_to(&self, query: Header) -> Vec<u8> {
        let (mut buffer, mut names) = (vec![0; MAX_MESSAGE], Compressor::large());
        let mut header = query.reply();
        header.set_authoritative(self.authoritative);
        header.set_truncated(self.truncated);
        header.set_rcode(self.rcode);
        let mut b = Builder::new(&mut buffer, MAX_MESSAGE, header, &mut names);
        b.question(self.qname.as_name(), self.qtype, Class::IN).expect("room");
        for (section, owner, rtype, ttl, rdata) in &self.records {
            let owner = Owner::Name(owner.as_name());
            b.record(*section, owner, *rtype, Class::IN, Ttl::from_secs(*ttl), rdata).expect("room");
        }
        let len = b.finish();
        buffer.truncate(len);
        buffer
    }
}

/// A query that a server has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) message: Vec<u8>,
    pub(crate) over_tcp: bool,
}

/// What a server sends for a query: `None` is no response.
pub(crate) type Responses = Arc<dyn Fn(Name<'_>, Type) -> Option<Response> + Send + Sync>;

/// Servers on one port, which end with this.
pub(crate) struct Servers {
    pub(crate) port: u16,
    pub(crate) received: Arc<Mutex<Vec<(IpAddr, Received)>>>,
    tasks: JoinSet<()>,
}

impl Servers {
    /// Finds a port that is free, for UDP and TCP, at this many addresses from 127.0.0.1 on. Returns the
    /// servers without any that responds, and the sockets.
    pub(crate) async fn bind(count: u8) -> (Self, Vec<(UdpSocket, TcpListener)>) {
        'port: loop {
            let first = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
            let port = first.local_addr().expect("bound").port();
            drop(first);
            let mut sockets = Vec::new();
            for last in 1..=count {
                let at = (Ipv4Addr::new(127, 0, 0, last), port);
                let (Ok(udp), Ok(tcp)) = (UdpSocket::bind(at).await, TcpListener::bind(at).await) else {
                    continue 'port;
                };
                sockets.push((udp, tcp));
            }
            return (Servers { port, received: Arc::default(), tasks: JoinSet::new() }, sockets);
        }
    }

    /// Starts servers at 127.0.0.1, 127.0.0.2 and so on.
    pub(crate) async fn start(all: Vec<Responses>) -> Self {
        let (mut servers, sockets) = Self::bind(u8::try_from(all.len()).expect("few")).await;
        for (responses, (udp, tcp)) in all.into_iter().zip(sockets) {
            servers.serve(responses, udp, tcp);
        }
        servers
    }

    /// Sends the responses to queries at these sockets. A truncated response has no records over UDP, and is
    /// whole over TCP.
    pub(crate) fn serve(&mut self, responses: Responses, udp: UdpSocket, tcp: TcpListener) {
        let (received, of_udp) = (Arc::clone(&self.received), Arc::clone(&responses));
        self.tasks.spawn(async move {
            let at = udp.local_addr().expect("bound").ip();
            let mut buffer = vec![0; MAX_MESSAGE];
            while let Ok((len, client)) = udp.recv_from(&mut buffer).await {
                let message = buffer[..len].to_vec();
                let response = respond(&of_udp, &message, false);
                lock(&received).push((at, Received { message, over_tcp: false }));
                if let Some(response) = response {
                    udp.send_to(&response, client).await.expect("sent");
                }
            }
        });
        let received = Arc::clone(&self.received);
        self.tasks.spawn(async move {
            let at = tcp.local_addr().expect("bound").ip();
            while let Ok((mut stream, _)) = tcp.accept().await {
                let Ok(len) = stream.read_u16().await else { continue };
                let mut message = vec![0; len.into()];
                stream.read_exact(&mut message).await.expect("a query");
                let response = respond(&responses, &message, true).expect("a response");
                lock(&received).push((at, Received { message, over_tcp: true }));
                let framed = [&(response.len() as u16).to_be_bytes()[..], &response].concat();
                stream.write_all(&framed).await.expect("sent");
            }
        });
    }

    pub(crate) fn address(&self, last: u8) -> SocketAddr {
        (Ipv4Addr::new(127, 0, 0, last), self.port).into()
    }

    /// Returns the queries that the server at 127.0.0.`last` has received.
    pub(crate) fn received_at(&self, last: u8) -> Vec<Received> {
        let at = self.address(last).ip();
        let received = lock(&self.received);
        received.iter().filter(|(by, _)| *by == at).map(|(_, query)| query.clone()).collect()
    }
}

fn respond(responses: &Responses, query: &[u8], over_tcp: bool) -> Option<Vec<u8>> {
    let (header, mut parser) = Parser::new(query).expect("a query");
    let question = parser.question().expect("a question");
    let mut response = responses(question.name, question.qtype)?;
    match over_tcp {
        true => response.truncated = false,
        false if response.truncated => response.records.clear(),
        false => {}
    }
    Some(response.message_to(header))
}
