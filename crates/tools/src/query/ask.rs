//! One exchange with a server: a query and its response, over UDP with retries, over TCP, TLS or QUIC. A
//! response is accepted only from the queried server, with the ID and question of the query (RFC 5452 §9).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use net::PeerStream;
use socket2::{Domain, Socket, Type as Kind};
use transport::Transport;
use wire::message::{Header, Parser};

use super::oblivious;
use super::quic::QuicStream;
use super::secured::said;
use super::words::Wanted;
use wording::reason;

/// A response with its source and timing.
pub struct ReceivedResponse {
    /// The message.
    pub message: Vec<u8>,
    /// The server that sent it.
    pub server: SocketAddr,
    /// The transport that it was received by.
    pub transport: Transport,
    /// Time from the query to the response.
    pub took: Duration,
}

/// Sends the query and waits for the response, as the options require.
pub fn ask(wanted: &Wanted, query: &[u8]) -> Result<ReceivedResponse, String> {
    let begun = Instant::now();
    let (message, transport) = if let Some(how) = &wanted.oblivious {
        let message = oblivious::ask(wanted, how, query)?;
        if !belongs(query, &message) {
            return Err(format!("{} sent an answer that does not belong to the question", wanted.server));
        }
        (message, Transport::Https)
    } else if wanted.is_stream() {
        (over_stream(wanted, query)?, wanted.stream())
    } else {
        let message = over_udp(wanted, query)?;
        let truncated = Header::of(&message).is_some_and(|h| h.truncated());
        if truncated && !wanted.keep_truncated {
            eprintln!(";; Truncated, asking again over TCP");
            (over_stream(wanted, query)?, Transport::Tcp)
        } else {
            (message, Transport::Udp)
        }
    };
    Ok(ReceivedResponse { message, server: wanted.server, transport, took: begun.elapsed() })
}

/// Returns whether a message answers the query: a response with the same ID, and the same question if it has
/// one.
pub fn belongs(query: &[u8], message: &[u8]) -> bool {
    let (Ok((asked, mut a)), Ok((answered, mut b))) = (Parser::new(query), Parser::new(message)) else {
        return false;
    };
    if asked.id() != answered.id() || !answered.is_response() {
        return false;
    }
    // Servers that could not parse the question may omit it.
    answered.counts()[0] == 0
        || asked.counts()[0] == 0
        || matches!((a.question(), b.question()), (Ok(a), Ok(b)) if a == b)
}

/// Returns the unspecified address of a server's family, with port 0.
pub fn any_source(server: SocketAddr) -> SocketAddr {
    if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() }
}

fn unusable(source: SocketAddr, e: &io::Error) -> String {
    format!("cannot send from {source}: {}", reason(e))
}

/// Connects to a server, from a source address if one is configured.
fn connect(wanted: &Wanted) -> Result<TcpStream, String> {
    let server = wanted.server;
    let fault = |e: io::Error| failure("ask", server, wanted.stream(), &e);
    let Some(source) = wanted.source else {
        return TcpStream::connect_timeout(&server, wanted.time).map_err(fault);
    };
    let socket = Socket::new(Domain::for_address(server), Kind::STREAM, None).map_err(fault)?;
    socket.bind(&source.into()).map_err(|e| unusable(source, &e))?;
    socket.connect_timeout(&server.into(), wanted.time).map_err(fault)?;
    Ok(socket.into())
}

fn over_udp(wanted: &Wanted, query: &[u8]) -> Result<Vec<u8>, String> {
    let server = wanted.server;
    let fault = |e: io::Error| failure("ask", server, Transport::Udp, &e);
    let source = wanted.source.unwrap_or_else(|| any_source(server));
    let socket = UdpSocket::bind(source).map_err(|e| unusable(source, &e))?;
    socket.connect(server).map_err(fault)?;
    let mut buf = vec![0; 65_535];
    for _ in 0..wanted.tries {
        socket.send(query).map_err(fault)?;
        let until = Instant::now() + wanted.time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            socket.set_read_timeout(Some(left)).map_err(fault)?;
            match socket.recv(&mut buf) {
                Ok(n) if belongs(query, &buf[..n]) => return Ok(buf[..n].to_vec()),
                // A response to another query, a late one, or a forgery.
                Ok(n) => {
                    eprintln!(";; Ignored a datagram of {n} bytes from {server}: it does not fit the query")
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fault(e)),
            }
        }
    }
    Err(format!("no answer from {server} over UDP in {} tries of {:?}", wanted.tries, wanted.time))
}

fn over_stream(wanted: &Wanted, query: &[u8]) -> Result<Vec<u8>, String> {
    let mut link = StreamLink::connect(wanted)?;
    link.send(query)?;
    let message = link.receive().map_err(|e| failure("ask", wanted.server, wanted.stream(), &e))?;
    if belongs(query, &message) {
        Ok(message)
    } else {
        let transport = shown(wanted.stream());
        Err(format!("{} sent an answer over {transport} that does not belong to the question", wanted.server))
    }
}

/// Bytes in both directions.
trait Bytes: Read + Write {}
impl<T: Read + Write> Bytes for T {}

/// A TCP or TLS connection to a server, or one over QUIC, which is for one message. Each step may take as
/// long as one try.
pub struct StreamLink {
    stream: Box<dyn Bytes>,
    server: SocketAddr,
    transport: Transport,
}

impl StreamLink {
    /// Connects to the server.
    pub fn connect(wanted: &Wanted) -> Result<Self, String> {
        let server = wanted.server;
        let transport = wanted.stream();
        let fault = |e: io::Error| failure("ask", server, transport, &e);
        if let (Transport::Quic, Some(tls)) = (transport, &wanted.tls) {
            let source = wanted.source.unwrap_or_else(|| any_source(server));
            let stream = QuicStream::connect(server, source, tls, wanted.time).map_err(fault)?;
            return Ok(Self { stream: Box::new(stream), server, transport });
        }
        let stream = connect(wanted)?;
        let encryption = wanted.tls.as_ref().map(|tls| tls.encryption(server)).transpose()?;
        let stream = PeerStream::begin(stream, encryption.as_ref(), wanted.time)
            .map_err(|fault| format!("cannot ask {server} over {}: {}", shown(transport), said(fault)))?;
        stream.socket().set_read_timeout(Some(wanted.time)).map_err(fault)?;
        stream.socket().set_write_timeout(Some(wanted.time)).map_err(fault)?;
        Ok(Self { stream: Box::new(stream), server, transport })
    }

    /// Returns its transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Sends a message with its length prefix (RFC 1035 §4.2.2).
    pub fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let length = u16::try_from(message.len()).map_err(|_| "the query is too long for TCP".to_owned())?;
        let framed = [&length.to_be_bytes(), message].concat();
        let sent = self.stream.write_all(&framed).and_then(|()| self.stream.flush());
        sent.map_err(|e| failure("ask", self.server, self.transport, &e))
    }

    /// Waits for the next message.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream.read_exact(&mut message)?;
        Ok(message)
    }
}

/// Returns the text of a network error.
pub fn failure(what: &str, server: SocketAddr, transport: Transport, e: &io::Error) -> String {
    let of_encryption = net::encryption_fault(e);
    let why = match e.kind() {
        _ if of_encryption.is_some() => of_encryption.map(said).unwrap_or_default().into(),
        io::ErrorKind::ConnectionRefused => "connection refused, nothing listens there".into(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".into(),
        io::ErrorKind::UnexpectedEof => "the connection was closed before the answer came".into(),
        _ => reason(e),
    };
    format!("cannot {what} {server} over {}: {why}", shown(transport))
}

/// Returns the name of a transport in capitals, as dig writes it.
pub fn shown(transport: Transport) -> String {
    transport.label().to_ascii_uppercase()
}
