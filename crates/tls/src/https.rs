//! DNS over HTTPS to other servers (RFC 8484), by HTTP/2 over TLS, without sockets.
//!
//! Each query is a POST request with a stream of its own. HTTP/2 is that of `h2`, which is asynchronous: it
//! reads and writes a pipe in memory, and is polled whenever something has changed, so that no task and no
//! waker is needed. Only a response with the status 200 and the type `application/dns-message` is one;
//! redirections are not followed.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri, Version};
use rustls::{ClientConnection, Error};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::{Encryption, EncryptionFault, SessionState, StreamedEvent, StreamedSession, Transport};

use crate::client::{
    ClientSettings, ServerIdentity, Verifier, client_config, connection, decrypt, take_output,
};
use crate::url::HttpsUrl;

/// The application protocol of HTTP/2 (RFC 9113 §3.2).
const H2: &[u8] = b"h2";
/// The type of a DNS message (RFC 8484 §6).
const DNS_MESSAGE: &str = "application/dns-message";
/// Bytes of a DNS message, at least and at most.
const HEADER_BYTES: usize = 12;
const MESSAGE_BYTES: usize = 65_535;
/// Bytes of the headers of a response.
const MAX_HEADER_BYTES: u32 = 16 * 1024;
/// Bytes of responses that may arrive on a connection before they are read, which is at once.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Streams of a connection that were reset and whose late frames are ignored.
const MAX_RESET_STREAMS: usize = 32;

/// Returns the encryption of connections to a server over HTTPS that serves DNS at `url`.
///
/// # Errors
/// The authorities are of no use to the verifier.
pub fn over_https(identity: &ServerIdentity, url: &HttpsUrl) -> Result<Encryption, Error> {
    let (verifier, name) = Verifier::new(identity)?;
    let config = Arc::new(client_config(Arc::new(verifier), &ClientSettings::default(), H2)?);
    let described = format!("{} at {url}", identity.described());
    let shown = match identity.to_string() {
        // The identity is in the URL.
        identity if identity == url.host() => url.to_string(),
        identity => format!("{url}, {identity}"),
    };
    let url = url.uri().clone();
    let begin = move |to: SocketAddr, _: Instant| {
        let tls = connection(&config, name.as_ref(), to)?;
        Ok(Box::new(HttpsSession::new(tls, url.clone())) as Box<dyn StreamedSession>)
    };
    Ok(Encryption::streamed(Transport::Https, described, shown, begin))
}

/// Bytes between HTTP/2 and TLS.
#[derive(Default)]
struct PipeBytes {
    incoming: VecDeque<u8>,
    /// The server has ended the connection.
    ended: bool,
    outgoing: Vec<u8>,
}

/// The connection as HTTP/2 sees it. It is polled again after each change, so that it keeps no waker.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<PipeBytes>>);

impl Pipe {
    fn bytes(&self) -> MutexGuard<'_, PipeBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes();
        if bytes.incoming.is_empty() && !bytes.ended {
            return Poll::Pending;
        }
        let len = bytes.incoming.as_slices().0.len().min(into.remaining());
        into.put_slice(&bytes.incoming.as_slices().0[..len]);
        bytes.incoming.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.bytes().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A request in flight. Dropping it cancels its stream.
struct HttpExchange {
    /// The ID of the query.
    id: u16,
    state: ExchangeState,
}

enum ExchangeState {
    /// The headers of the response have not arrived.
    Headers(ResponseFuture),
    /// The body of the response so far.
    Body(RecvStream, Vec<u8>),
}

/// HTTP/2 of one connection.
struct Http {
    requests: SendRequest<Bytes>,
    connection: Connection<Pipe, Bytes>,
    /// The server takes no further requests.
    draining: bool,
}

/// One connection's session.
struct HttpsSession {
    tls: ClientConnection,
    url: Uri,
    pipe: Pipe,
    /// `None` before the handshake is complete.
    http: Option<Http>,
    /// Queries that wait for the handshake, or for the server to allow another stream.
    queued: VecDeque<(u16, Bytes)>,
    exchanges: Vec<HttpExchange>,
    events: VecDeque<StreamedEvent>,
    ended: bool,
    plain: Vec<u8>,
}

impl HttpsSession {
    fn new(tls: ClientConnection, url: Uri) -> Self {
        HttpsSession {
            tls,
            url,
            pipe: Pipe::default(),
            http: None,
            queued: VecDeque::new(),
            exchanges: Vec::new(),
            events: VecDeque::new(),
            ended: false,
            plain: Vec::new(),
        }
    }

    /// Begins HTTP/2 after the handshake.
    fn begin(&mut self, resumed: bool) {
        if self.tls.alpn_protocol() != Some(H2) {
            return self.end(StreamedEvent::Insecure(EncryptionFault::NoHttp2));
        }
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            .max_header_list_size(MAX_HEADER_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_reset_streams(MAX_RESET_STREAMS)
            .max_local_error_reset_streams(Some(MAX_RESET_STREAMS));
        let beginning = std::pin::pin!(builder.handshake::<_, Bytes>(self.pipe.clone()));
        // It writes the preface, and waits for nothing.
        match beginning.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok((requests, connection))) => {
                self.http = Some(Http { requests, connection, draining: false });
                self.events.push_back(StreamedEvent::Established { resumed });
            }
            Poll::Ready(Err(_)) | Poll::Pending => {
                self.end(StreamedEvent::Insecure(EncryptionFault::Http2));
            }
        }
    }

    /// Ends the session with an event, unless it has ended.
    fn end(&mut self, event: StreamedEvent) {
        if !std::mem::replace(&mut self.ended, true) {
            self.events.push_back(event);
        }
    }

    /// Lets HTTP/2 read what has arrived and write what it has to.
    fn drive(&mut self) {
        if self.ended || self.http.is_none() {
            return;
        }
        let mut context = Context::from_waker(Waker::noop());
        self.poll_connection(&mut context);
        self.send_queued(&mut context);
        self.poll_exchanges(&mut context);
        // Writes the requests, and the room for further responses.
        self.poll_connection(&mut context);
        let outgoing = std::mem::take(&mut self.pipe.bytes().outgoing);
        // Without a limit its buffer takes all.
        let _ = self.tls.writer().write_all(&outgoing);
    }

    fn poll_connection(&mut self, context: &mut Context<'_>) {
        let Some(http) = self.http.as_mut().filter(|_| !self.ended) else { return };
        match Pin::new(&mut http.connection).poll(context) {
            Poll::Pending => {}
            Poll::Ready(Err(error)) if !error.is_io() && !error.is_remote() => {
                self.poll_exchanges(context);
                self.end(StreamedEvent::Insecure(EncryptionFault::Http2));
            }
            // Responses that are complete come before the end.
            Poll::Ready(_) => {
                self.poll_exchanges(context);
                self.end(StreamedEvent::Ended(io::ErrorKind::UnexpectedEof));
            }
        }
    }

    /// Sends queued queries, as many as the server allows.
    fn send_queued(&mut self, context: &mut Context<'_>) {
        let Some(http) = self.http.as_mut().filter(|_| !self.ended) else { return };
        loop {
            match http.requests.poll_ready(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => break,
            }
            let Some((id, query)) = self.queued.pop_front() else { return };
            let sent = http.requests.send_request(request(&self.url, query.len()), false);
            let sent = sent.and_then(|(response, mut body)| body.send_data(query, true).map(|()| response));
            match sent {
                Ok(response) => {
                    self.exchanges.push(HttpExchange { id, state: ExchangeState::Headers(response) });
                }
                Err(_) => self.events.push_back(StreamedEvent::Failed { id, fault: None }),
            }
        }
        if !std::mem::replace(&mut http.draining, true) {
            self.events.push_back(StreamedEvent::Draining);
        }
        let unsent = self.queued.drain(..);
        self.events.extend(unsent.map(|(id, _)| StreamedEvent::Failed { id, fault: None }));
    }

    fn poll_exchanges(&mut self, context: &mut Context<'_>) {
        let events = &mut self.events;
        self.exchanges.retain_mut(|exchange| match exchange.poll(context) {
            Poll::Pending => true,
            Poll::Ready(event) => {
                events.push_back(event);
                false
            }
        });
    }
}

/// Returns the request for a query of this length.
fn request(url: &Uri, len: usize) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.clone();
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(DNS_MESSAGE));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(DNS_MESSAGE));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    request
}

impl HttpExchange {
    /// Returns the response, or the reason why there is none.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<StreamedEvent> {
        let id = self.id;
        self.poll_message(context).map(|outcome| match outcome {
            Ok(message) => StreamedEvent::Response(message),
            Err(fault) => StreamedEvent::Failed { id, fault },
        })
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<u8>, Option<EncryptionFault>>> {
        if let ExchangeState::Headers(response) = &mut self.state {
            match Pin::new(response).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(stream_fault(&error))),
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    if let Some(fault) = response_fault(head.status, head.headers.get(CONTENT_TYPE)) {
                        return Poll::Ready(Err(Some(fault)));
                    }
                    self.state = ExchangeState::Body(body, Vec::new());
                }
            }
        }
        let ExchangeState::Body(body, message) = &mut self.state else { return Poll::Pending };
        loop {
            match body.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(data))) => {
                    // It is read, so there is room for as much again.
                    let _ = body.flow_control().release_capacity(data.len());
                    message.extend_from_slice(&data);
                    if message.len() > MESSAGE_BYTES {
                        return Poll::Ready(Err(Some(EncryptionFault::HttpLength)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(stream_fault(&error))),
                Poll::Ready(None) => break,
            }
        }
        if message.len() < HEADER_BYTES {
            return Poll::Ready(Err(Some(EncryptionFault::HttpLength)));
        }
        message[..2].copy_from_slice(&self.id.to_be_bytes());
        Poll::Ready(Ok(std::mem::take(message)))
    }
}

/// Returns why a stream ended without a response; `None` if the server has not processed the request.
fn stream_fault(error: &h2::Error) -> Option<EncryptionFault> {
    let is_unprocessed =
        error.is_io() || error.is_go_away() || error.reason() == Some(Reason::REFUSED_STREAM);
    match error.is_remote() || error.is_io() {
        true => (!is_unprocessed).then_some(EncryptionFault::HttpReset),
        false => Some(EncryptionFault::Http2),
    }
}

/// Returns why a response with this status and type is not a DNS message.
fn response_fault(status: StatusCode, content_type: Option<&HeaderValue>) -> Option<EncryptionFault> {
    match status.as_u16() {
        200 => {
            let of_type = content_type.and_then(|value| value.to_str().ok());
            // A type may have parameters.
            let essence = of_type.and_then(|value| value.split(';').next()).map(str::trim);
            let is_message = essence.is_some_and(|essence| essence.eq_ignore_ascii_case(DNS_MESSAGE));
            (!is_message).then_some(EncryptionFault::HttpType)
        }
        300..400 => Some(EncryptionFault::HttpRedirect),
        401 | 403 | 407 => Some(EncryptionFault::HttpForbidden),
        404 | 410 => Some(EncryptionFault::HttpNotFound),
        429 => Some(EncryptionFault::HttpTooMany),
        400..500 => Some(EncryptionFault::HttpRefused),
        500..600 => Some(EncryptionFault::HttpServer),
        _ => Some(EncryptionFault::HttpStatus),
    }
}

impl StreamedSession for HttpsSession {
    fn send(&mut self, query: &[u8], _: Instant) {
        let Some((&id, rest)) = query.split_first_chunk::<2>() else { return };
        let mut message = vec![0; 2];
        message.extend_from_slice(rest);
        self.queued.push_back((u16::from_be_bytes(id), message.into()));
        self.drive();
    }

    fn cancel(&mut self, id: u16, _: Instant) {
        self.queued.retain(|(queued, _)| *queued != id);
        self.exchanges.retain(|exchange| exchange.id != id);
        self.drive();
    }

    fn receive(&mut self, received: &[u8], _: Instant) {
        if self.ended {
            return;
        }
        let mut plain = std::mem::take(&mut self.plain);
        let state = decrypt(&mut self.tls, received, &mut plain);
        {
            let mut bytes = self.pipe.bytes();
            bytes.incoming.extend(&plain);
            bytes.ended = state == Ok(SessionState::Closed);
        }
        plain.clear();
        self.plain = plain;
        if let (None, Ok(SessionState::Established { resumed })) = (&self.http, state) {
            self.begin(resumed);
        }
        self.drive();
        match state {
            Ok(SessionState::Handshake | SessionState::Established { .. }) => {}
            Ok(SessionState::Closed) => self.end(StreamedEvent::Ended(io::ErrorKind::UnexpectedEof)),
            Err(fault) => self.end(StreamedEvent::Insecure(fault)),
        }
    }

    fn event(&mut self) -> Option<StreamedEvent> {
        self.events.pop_front()
    }

    fn output(&mut self, bytes: &mut Vec<u8>, _: Instant) -> bool {
        let before = bytes.len();
        take_output(&mut self.tls, bytes);
        bytes.len() > before
    }

    fn deadline(&mut self) -> Option<Instant> {
        None
    }

    fn timeout(&mut self, _: Instant) {}

    fn close(&mut self, _: Instant) {
        self.exchanges.clear();
        self.queued.clear();
        self.drive();
        self.tls.send_close_notify();
    }
}
