//! The bytes of a TLS connection (RFC 7858). The handshake is part of the first read, so that the timeouts,
//! limits and events of a connection apply to it as well.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::Acceptor;
use rustls::{AlertDescription, HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, LazyConfigAcceptor, StartHandshake, TlsAcceptor};
use transport::{ClientCertificate, Counter};

use super::connection::Bytes;
use crate::config::{IdentifyClient, ListenerConfig};
use crate::handshakes::HandshakeSettings;
use crate::stats::WorkerStats;

/// The first byte of a PROXY header; a TLS record never begins with it.
const HEADER_BEGINS: u8 = b'\r';
/// Bytes of a PROXY header up to and with its length.
const HEADER_FIXED: usize = 16;
/// Bytes of a PROXY header that are read at once.
const HEADER_STEP: usize = 256;
/// The application protocol of the challenge tls-alpn-01 (RFC 8737 §6.2).
const CHALLENGE_ALPN: &[u8] = b"acme-tls/1";

/// A connection with TLS, as a stream of the bytes inside.
pub(crate) struct TlsBytes {
    state: State,
    /// Bytes that were encrypted and that the system has not taken whole.
    unsent: usize,
    stats: Arc<WorkerStats>,
    identify: Option<IdentifyClient>,
    config: Rc<ListenerConfig>,
    /// The certificate that the client has shown.
    certificate: Option<Arc<ClientCertificate>>,
    /// The name that the client has written for itself.
    client_name: Option<Arc<str>>,
}

enum State {
    /// A proxy may send its header before the handshake.
    First {
        stream: TcpStream,
        settings: HandshakeSettings,
    },
    /// The proxy sends it: it is read as if it were inside.
    Header {
        stream: TcpStream,
        settings: HandshakeSettings,
        header: Header,
    },
    /// A challenge is pending: what the client sends first decides which handshake follows.
    Hello(Box<Hello>),
    Handshake(Box<Accept<TcpStream>>),
    /// A handshake of a challenge, after which the connection ends.
    Challenge(Box<Accept<TcpStream>>),
    Open(Box<TlsStream<TcpStream>>),
    /// The handshake failed.
    Failed,
}

/// The first message of a client that is being read, and the settings of both handshakes that may follow.
struct Hello {
    acceptor: LazyConfigAcceptor<TcpStream>,
    config: Arc<ServerConfig>,
    challenge: Arc<ServerConfig>,
}

impl Hello {
    /// Returns the handshake that this message begins.
    fn begun(&self, start: StartHandshake<TcpStream>) -> State {
        let is_challenge = start.client_hello().alpn().is_some_and(|mut protocols| {
            protocols.next() == Some(CHALLENGE_ALPN) && protocols.next().is_none()
        });
        match is_challenge {
            true => State::Challenge(Box::new(start.into_stream(Arc::clone(&self.challenge)))),
            false => State::Handshake(Box::new(start.into_stream(Arc::clone(&self.config)))),
        }
    }
}

/// A PROXY header that is being read.
#[derive(Default)]
struct Header {
    fixed: [u8; HEADER_FIXED],
    read: usize,
}

impl Header {
    /// Returns how many bytes of it are missing, as far as that is known.
    fn missing(&self) -> usize {
        let rest = usize::from(u16::from_be_bytes([self.fixed[14], self.fixed[15]]));
        match self.read < HEADER_FIXED {
            true => HEADER_FIXED - self.read,
            false => HEADER_FIXED + rest - self.read,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let rest = &mut self.fixed[self.read.min(HEADER_FIXED)..];
        let n = rest.len().min(bytes.len());
        rest[..n].copy_from_slice(&bytes[..n]);
        self.read += bytes.len();
    }
}

impl TlsBytes {
    /// Returns the bytes inside the TLS connection that begins on `stream`. `from_proxy`: a PROXY header may
    /// precede the handshake.
    pub(crate) fn new(
        stream: TcpStream,
        settings: HandshakeSettings,
        identify: Option<IdentifyClient>,
        config: Rc<ListenerConfig>,
        from_proxy: bool,
        stats: Arc<WorkerStats>,
    ) -> Self {
        let state = match from_proxy {
            true => State::First { stream, settings },
            false => State::accept(stream, &settings),
        };
        TlsBytes { state, unsent: 0, stats, identify, config, certificate: None, client_name: None }
    }

    /// Brings the handshake forward. `Ready(Ok(true))`: the connection is open; `Ready(Ok(false))`: bytes of
    /// a PROXY header were read into `buf`, or the stream ended in it.
    pub(super) fn poll_begin(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        loop {
            self.state = match std::mem::replace(&mut self.state, State::Failed) {
                State::First { stream, settings } => {
                    let mut byte = [0];
                    match stream.poll_peek(cx, &mut ReadBuf::new(&mut byte)) {
                        Poll::Ready(Ok(1)) if byte[0] == HEADER_BEGINS => {
                            State::Header { stream, settings, header: Header::default() }
                        }
                        Poll::Ready(Ok(_)) => State::accept(stream, &settings),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {
                            self.state = State::First { stream, settings };
                            return Poll::Pending;
                        }
                    }
                }
                State::Header { stream, settings, header } if header.missing() == 0 => {
                    State::accept(stream, &settings)
                }
                State::Header { mut stream, settings, mut header } => {
                    let read = poll_header(&mut stream, &mut header, cx, buf);
                    self.state = State::Header { stream, settings, header };
                    return read.map_ok(|()| false);
                }
                State::Hello(mut hello) => match Pin::new(&mut hello.acceptor).poll(cx) {
                    Poll::Ready(Ok(start)) => hello.begun(start),
                    Poll::Ready(Err(error)) => return self.failed(error),
                    Poll::Pending => {
                        self.state = State::Hello(hello);
                        return Poll::Pending;
                    }
                },
                State::Challenge(accept) => return self.poll_challenge(accept, cx),
                State::Handshake(mut accept) => match Pin::new(&mut *accept).poll(cx) {
                    Poll::Ready(Ok(stream)) => {
                        self.stats.tls_handshakes.add(1);
                        let kind = stream.get_ref().1.handshake_kind();
                        if kind == Some(HandshakeKind::Resumed) {
                            self.stats.tls_resumed.add(1);
                        }
                        let session = stream.get_ref().1;
                        self.client_name = self.config.client_names.of_server_name(session.server_name());
                        let chain = session.peer_certificates();
                        self.certificate = chain.zip(self.identify.as_ref()).and_then(|(c, of)| of(c));
                        State::Open(Box::new(stream))
                    }
                    Poll::Ready(Err(error)) => return self.failed(error),
                    Poll::Pending => {
                        self.state = State::Handshake(accept);
                        return Poll::Pending;
                    }
                },
                open @ State::Open(_) => {
                    self.state = open;
                    return Poll::Ready(Ok(true));
                }
                State::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            };
        }
    }

    /// Brings the handshake of a challenge forward. After it, for the connection, the stream has ended.
    fn poll_challenge(
        &mut self,
        mut accept: Box<Accept<TcpStream>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<bool>> {
        match Pin::new(&mut *accept).poll(cx) {
            Poll::Ready(Ok(mut stream)) => {
                self.stats.tls_handshakes.add(1);
                end_in_order(&mut stream);
                Poll::Ready(Ok(false))
            }
            Poll::Ready(Err(error)) => self.failed(error),
            Poll::Pending => {
                self.state = State::Challenge(accept);
                Poll::Pending
            }
        }
    }

    /// Counts a handshake that failed.
    fn failed(&self, error: io::Error) -> Poll<io::Result<bool>> {
        failure_counter(&self.stats, &error).add(1);
        Poll::Ready(Err(error))
    }

    /// Moves the stream out, if it is open.
    pub(super) fn take(&mut self) -> io::Result<OpenTls> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Open(stream) => Ok(OpenTls(stream)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns the stream, if it is open.
    fn open(&mut self) -> io::Result<Pin<&mut TlsStream<TcpStream>>> {
        match &mut self.state {
            State::Open(stream) => Ok(Pin::new(stream)),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl State {
    fn accept(stream: TcpStream, settings: &HandshakeSettings) -> State {
        let config = Arc::clone(&settings.config);
        match settings.challenges.pending() {
            None => State::Handshake(Box::new(TlsAcceptor::from(config).accept(stream))),
            Some(challenge) => {
                let acceptor = LazyConfigAcceptor::new(Acceptor::default(), stream);
                State::Hello(Box::new(Hello { acceptor, config, challenge }))
            }
        }
    }
}

/// Reads a part of the header, and no byte behind it.
fn poll_header(
    stream: &mut TcpStream,
    header: &mut Header,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let mut bytes = [0; HEADER_STEP];
    let most = header.missing().min(HEADER_STEP).min(buf.remaining());
    let mut part = ReadBuf::new(&mut bytes[..most]);
    ready!(Pin::new(stream).poll_read(cx, &mut part))?;
    header.take(part.filled());
    buf.put_slice(part.filled());
    Poll::Ready(Ok(()))
}

fn failure_counter<'s>(stats: &'s WorkerStats, error: &io::Error) -> &'s Counter {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        // Most alerts of clients refuse the certificate.
        Some(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)) => &stats.tls_incompatible,
        Some(rustls::Error::AlertReceived(_)) => &stats.tls_refused,
        Some(
            rustls::Error::InvalidMessage(_)
            | rustls::Error::InappropriateMessage { .. }
            | rustls::Error::InappropriateHandshakeMessage { .. }
            | rustls::Error::PeerMisbehaved(_)
            | rustls::Error::DecryptError,
        ) => &stats.tls_malformed,
        Some(rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol) => {
            &stats.tls_incompatible
        }
        _ => &stats.tls_broken,
    }
}

impl AsyncRead for TlsBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !matches!(self.state, State::Open(_)) && !ready!(self.poll_begin(cx, buf))? {
            return Poll::Ready(Ok(()));
        }
        match ready!(self.open()?.poll_read(cx, buf)) {
            // Many clients close the connection without an alert. Messages have lengths, so an end that was
            // forged cuts none.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}

impl AsyncWrite for TlsBytes {
    /// Returns `Ready` once the system has taken the encrypted bytes, so that the connection counts bytes
    /// that wait here as unsent. After `Pending` it must be called with the same bytes, and may be called
    /// with more behind them.
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent == 0 {
            self.unsent = ready!(self.open()?.poll_write(cx, bytes))?;
        }
        ready!(self.open()?.poll_flush(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut self.unsent)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open()?.poll_shutdown(cx)
    }
}

impl Bytes for TlsBytes {
    fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.certificate.as_ref()
    }

    fn client_name(&self) -> Option<&Arc<str>> {
        self.client_name.as_ref()
    }

    fn is_quiet(&self) -> bool {
        match &self.state {
            State::First { stream, .. } | State::Header { stream, .. } => stream.is_quiet(),
            // The acceptor reads what there is.
            State::Hello(_) => true,
            State::Handshake(accept) | State::Challenge(accept) => {
                accept.get_ref().is_none_or(Bytes::is_quiet)
            }
            State::Open(stream) => stream.get_ref().0.is_quiet(),
            State::Failed => true,
        }
    }
}

/// An open connection for a reader and writer that count nothing themselves, which ends in order.
pub(super) struct OpenTls(Box<TlsStream<TcpStream>>);

impl OpenTls {
    /// Returns the application protocol that both ends agreed on.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
    }
}

impl AsyncRead for OpenTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for OpenTls {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Drop for OpenTls {
    fn drop(&mut self) {
        end_in_order(&mut self.0);
    }
}

/// Sends the alert of an orderly end, if the system takes it at once.
fn end_in_order(stream: &mut TlsStream<TcpStream>) {
    let _ = Pin::new(stream).poll_shutdown(&mut Context::from_waker(std::task::Waker::noop()));
}

impl Drop for TlsBytes {
    fn drop(&mut self) {
        if let State::Open(stream) = &mut self.state {
            end_in_order(stream);
        }
    }
}
