//! One query to one server and its response: over UDP, and over TCP if the response is truncated.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;
use wire::edns::plain_opt;
use wire::message::{Builder, Compressor, Opcode, Parser, Section};
use wire::{Class, Header, NameBuf, Rcode, Type};
use wording::reason;

/// EDNS UDP payload size in queries to authoritative servers.
const UDP_SIZE: u16 = 1232;
/// Most bytes of a query: header, name, question, OPT.
const MAX_QUERY: usize = 512;
/// Most bytes of a datagram that are read: a server may exceed the size that the query has.
const MAX_DATAGRAM: usize = 4096;

/// The fault of a response that cannot be parsed.
pub(crate) const MALFORMED: &str = "the response is malformed";

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerQuery {
    /// QNAME.
    pub(crate) name: NameBuf,
    /// QTYPE.
    pub(crate) qtype: Type,
    /// Opcode, flags and EDNS.
    pub(crate) kind: QueryKind,
}

/// What a query is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// A resolver is to resolve the name: with RD, without EDNS.
    Resolve,
    /// An authoritative server is asked for what it has: without RD, with EDNS and without DO.
    Iterate,
    /// The same with DO.
    IterateSigned,
    /// NOTIFY (RFC 1996 §3.6): without EDNS, and never over TCP.
    Notify,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExchangeFault {
    /// This host has no route to the address, or no address of its family.
    NoRoute(String),
    /// The query was not sent, or not answered.
    NoResponse(String),
}

impl ExchangeFault {
    /// Returns the reason as text.
    pub(crate) fn into_text(self) -> String {
        let (Self::NoRoute(text) | Self::NoResponse(text)) = self;
        text
    }
}

impl From<std::io::Error> for ExchangeFault {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable => Self::NoRoute(reason(&error)),
            _ => Self::NoResponse(reason(&error)),
        }
    }
}

/// Sends a query with a random ID from a random port until there is a response, this often at most. Each try
/// takes this long at most. The response code is not judged.
pub(crate) async fn exchange(
    server: SocketAddr,
    query: &ServerQuery,
    longest: Duration,
    tries: u32,
) -> Result<Vec<u8>, ExchangeFault> {
    let mut fault = ExchangeFault::NoResponse("it is not asked".to_owned());
    for _ in 0..tries {
        let silent = |_| Err(ExchangeFault::NoResponse("it does not respond".to_owned()));
        match timeout(longest, ask(server, query)).await.unwrap_or_else(silent) {
            Err(ExchangeFault::NoResponse(text)) => fault = ExchangeFault::NoResponse(text),
            end => return end,
        }
    }
    Err(fault)
}

/// Sends a query once.
async fn ask(server: SocketAddr, query: &ServerQuery) -> Result<Vec<u8>, ExchangeFault> {
    let mut id = [0; 2];
    let no_random = |_| ExchangeFault::NoResponse("the system has no random numbers".to_owned());
    getrandom::fill(&mut id).map_err(no_random)?;
    let id = u16::from_be_bytes(id);
    let sent = query.message(id);
    let any =
        if server.is_ipv4() { IpAddr::from(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
    // Of all systems, only those without IPv6 refuse this.
    let unbound = |error: std::io::Error| match server.is_ipv6() {
        true => ExchangeFault::NoRoute(reason(&error)),
        false => error.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(unbound)?;
    socket.connect(server).await?;
    socket.send(&sent).await?;
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let len = socket.recv(&mut buffer).await?;
        match query.reply(&buffer[..len], id) {
            Some(header) if header.truncated() && query.kind != QueryKind::Notify => break,
            Some(_) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            None => {}
        }
    }
    let message = over_tcp(server, &sent).await?;
    match query.reply(&message, id) {
        Some(_) => Ok(message),
        None => Err(ExchangeFault::NoResponse("the response is of another query".to_owned())),
    }
}

/// Sends a message over TCP. Returns the first that comes.
async fn over_tcp(server: SocketAddr, sent: &[u8]) -> Result<Vec<u8>, std::io::Error> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(sent.len()).unwrap_or_default().to_be_bytes();
    stream.write_all(&[&length[..], sent].concat()).await?;
    let len = stream.read_u16().await?;
    let mut message = vec![0; len.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// Returns a response if its code is NOERROR or NXDOMAIN, and else the code as text.
pub(crate) fn usable(message: Vec<u8>) -> Result<Vec<u8>, String> {
    match Header::of(&message).map(|header| header.rcode()) {
        Some(rcode) => usable_rcode(rcode).map(|()| message),
        None => Err(MALFORMED.to_owned()),
    }
}

/// Whether a response with this code has an answer: NOERROR or NXDOMAIN.
pub(super) fn usable_rcode(rcode: Rcode) -> Result<(), String> {
    match rcode {
        Rcode::NOERROR | Rcode::NXDOMAIN => Ok(()),
        rcode => Err(format!("the response is {rcode}")),
    }
}

impl ServerQuery {
    fn opcode(&self) -> Opcode {
        match self.kind {
            QueryKind::Resolve | QueryKind::Iterate | QueryKind::IterateSigned => Opcode::QUERY,
            QueryKind::Notify => Opcode::NOTIFY,
        }
    }

    /// Returns the message.
    fn message(&self, id: u16) -> Vec<u8> {
        let (mut buffer, mut names) = ([0; MAX_QUERY], Compressor::small());
        let mut header = *Header::query(id).as_bytes();
        header[2] = self.opcode().0 << 3;
        let mut header = Header::of(&header).unwrap_or_else(|| Header::query(id));
        header.set_recursion_desired(self.kind == QueryKind::Resolve);
        header.set_authoritative(self.kind == QueryKind::Notify);
        let mut builder = Builder::new(&mut buffer, MAX_QUERY, header, &mut names);
        // A question and an OPT record fit.
        let _ = builder.question(self.name.as_name(), self.qtype, Class::IN);
        let dnssec_ok = match self.kind {
            QueryKind::Resolve | QueryKind::Notify => None,
            QueryKind::Iterate => Some(false),
            QueryKind::IterateSigned => Some(true),
        };
        if let Some(dnssec_ok) = dnssec_ok
            && builder.append(&plain_opt(UDP_SIZE, dnssec_ok)).is_ok()
        {
            builder.add_count(Section::Additional, 1);
        }
        let len = builder.finish();
        buffer[..len].to_vec()
    }

    /// Returns the header of a message that is the response to this query. The response to NOTIFY, and an
    /// error, may lack the question.
    fn reply(&self, message: &[u8], id: u16) -> Option<Header> {
        let (header, mut parser) = Parser::new(message).ok()?;
        let is_same = match header.counts()[0] {
            0 => {
                self.kind == QueryKind::Notify || !matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN)
            }
            1 => parser.question().is_ok_and(|question| {
                (question.name, question.qtype, question.qclass)
                    == (self.name.as_name(), self.qtype, Class::IN)
            }),
            _ => false,
        };
        let is_reply = header.id() == id && header.is_response() && header.opcode() == self.opcode();
        (is_reply && is_same).then_some(header)
    }
}
