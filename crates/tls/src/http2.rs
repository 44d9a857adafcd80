//! HTTP/2 over TLS to another server, without sockets: requests, each with a tag, and their responses.
//!
//! HTTP/2 is that of `h2`, which is asynchronous: it reads and writes a pipe in memory, and is polled
//! whenever something has changed, so that no task and no waker is needed. Redirections are not followed.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::response::Parts;
use http::{HeaderMap, Request};
use rustls::ClientConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::{EncryptionFault, SessionState};

use crate::client::{decrypt, take_output};

/// The application protocol of HTTP/2 (RFC 9113 §3.2).
pub(crate) const H2: &[u8] = b"h2";
/// Bytes of the headers of a response.
const MAX_HEADER_BYTES: u32 = 16 * 1024;
/// Bytes of responses that may arrive on a connection before they are read, which is at once.
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Streams of a connection that were reset and whose late frames are ignored.
const MAX_RESET_STREAMS: usize = 32;

/// The tag of a request: what its user keeps of it, and which responses it accepts.
pub(crate) trait HttpTag {
    /// Returns why a response with this status and these headers is not the wanted one.
    fn head_fault(&self, head: &Parts) -> Option<EncryptionFault>;

    /// Returns the number of bytes that the body of a response may have, and the fault of a longer one.
    fn body_limit(&self) -> (usize, EncryptionFault);
}

/// An event of an [`HttpConnection`].
pub(crate) enum HttpEvent<T> {
    /// The server is authenticated, and requests are sent.
    Established {
        /// Whether an earlier session was resumed.
        resumed: bool,
    },
    /// The headers and the body of a response.
    Response(T, HeaderMap, Vec<u8>),
    /// A request gets no response; without a reason the server has not processed it.
    Failed(T, Option<EncryptionFault>),
    /// The server takes no further requests on this connection.
    Draining,
    /// The connection has ended, by an error of the network, or by the server in order.
    Ended(io::ErrorKind),
    /// The connection has ended: there is none with this server.
    Insecure(EncryptionFault),
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
struct HttpExchange<T> {
    tag: T,
    state: ExchangeState,
}

enum ExchangeState {
    /// The headers of the response have not arrived.
    Headers(ResponseFuture),
    /// The headers of the response, and its body so far.
    Body(HeaderMap, RecvStream, Vec<u8>),
}

/// HTTP/2 of one connection.
struct Http {
    requests: SendRequest<Bytes>,
    connection: Connection<Pipe, Bytes>,
    /// The server takes no further requests.
    draining: bool,
}

/// A request that waits for the handshake, or for the server to allow another stream.
struct QueuedRequest<T> {
    tag: T,
    head: Request<()>,
    body: Bytes,
}

/// One connection.
pub(crate) struct HttpConnection<T> {
    tls: ClientConnection,
    pipe: Pipe,
    /// `None` before the handshake is complete.
    http: Option<Http>,
    queued: VecDeque<QueuedRequest<T>>,
    exchanges: Vec<HttpExchange<T>>,
    events: VecDeque<HttpEvent<T>>,
    ended: bool,
    plain: Vec<u8>,
}

impl<T: HttpTag> HttpConnection<T> {
    /// Returns the connection over a session of TLS that begins.
    pub(crate) fn new(tls: ClientConnection) -> Self {
        HttpConnection {
            tls,
            pipe: Pipe::default(),
            http: None,
            queued: VecDeque::new(),
            exchanges: Vec::new(),
            events: VecDeque::new(),
            ended: false,
            plain: Vec::new(),
        }
    }

    /// Sends a request, or queues it.
    pub(crate) fn send(&mut self, tag: T, head: Request<()>, body: Bytes) {
        self.queued.push_back(QueuedRequest { tag, head, body });
        self.drive();
    }

    /// Cancels the requests with such a tag: their responses are not wanted any more.
    pub(crate) fn cancel(&mut self, is_cancelled: impl Fn(&T) -> bool) {
        self.queued.retain(|queued| !is_cancelled(&queued.tag));
        self.exchanges.retain(|exchange| !is_cancelled(&exchange.tag));
        self.drive();
    }

    /// Processes bytes of the connection.
    pub(crate) fn receive(&mut self, received: &[u8]) {
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
            Ok(SessionState::Closed) => self.end(HttpEvent::Ended(io::ErrorKind::UnexpectedEof)),
            Err(fault) => self.end(HttpEvent::Insecure(fault)),
        }
    }

    /// Removes and returns the next event.
    pub(crate) fn event(&mut self) -> Option<HttpEvent<T>> {
        self.events.pop_front()
    }

    /// Appends bytes to send. Returns whether there were any.
    pub(crate) fn output(&mut self, bytes: &mut Vec<u8>) -> bool {
        let before = bytes.len();
        take_output(&mut self.tls, bytes);
        bytes.len() > before
    }

    /// Ends the connection in order.
    pub(crate) fn close(&mut self) {
        self.exchanges.clear();
        self.queued.clear();
        self.drive();
        self.tls.send_close_notify();
    }

    /// Begins HTTP/2 after the handshake.
    fn begin(&mut self, resumed: bool) {
        if self.tls.alpn_protocol() != Some(H2) {
            return self.end(HttpEvent::Insecure(EncryptionFault::NoHttp2));
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
                self.events.push_back(HttpEvent::Established { resumed });
            }
            Poll::Ready(Err(_)) | Poll::Pending => {
                self.end(HttpEvent::Insecure(EncryptionFault::Http2));
            }
        }
    }

    /// Ends the connection with an event, unless it has ended.
    fn end(&mut self, event: HttpEvent<T>) {
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
                self.end(HttpEvent::Insecure(EncryptionFault::Http2));
            }
            // Responses that are complete come before the end.
            Poll::Ready(_) => {
                self.poll_exchanges(context);
                self.end(HttpEvent::Ended(io::ErrorKind::UnexpectedEof));
            }
        }
    }

    /// Sends queued requests, as many as the server allows.
    fn send_queued(&mut self, context: &mut Context<'_>) {
        let Some(http) = self.http.as_mut().filter(|_| !self.ended) else { return };
        loop {
            match http.requests.poll_ready(context) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => break,
            }
            let Some(QueuedRequest { tag, head, body }) = self.queued.pop_front() else { return };
            let is_bare = body.is_empty();
            let sent = http.requests.send_request(head, is_bare);
            let sent = sent.and_then(|(response, mut stream)| match is_bare {
                true => Ok(response),
                false => stream.send_data(body, true).map(|()| response),
            });
            match sent {
                Ok(response) => {
                    self.exchanges.push(HttpExchange { tag, state: ExchangeState::Headers(response) });
                }
                Err(_) => self.events.push_back(HttpEvent::Failed(tag, None)),
            }
        }
        if !std::mem::replace(&mut http.draining, true) {
            self.events.push_back(HttpEvent::Draining);
        }
        let unsent = self.queued.drain(..);
        self.events.extend(unsent.map(|queued| HttpEvent::Failed(queued.tag, None)));
    }

    fn poll_exchanges(&mut self, context: &mut Context<'_>) {
        let mut at = 0;
        while let Some(exchange) = self.exchanges.get_mut(at) {
            match exchange.poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(outcome) => {
                    let HttpExchange { tag, .. } = self.exchanges.remove(at);
                    self.events.push_back(match outcome {
                        Ok((headers, body)) => HttpEvent::Response(tag, headers, body),
                        Err(fault) => HttpEvent::Failed(tag, fault),
                    });
                }
            }
        }
    }
}

/// The headers and the body of a response; or why there is none, as in [`HttpEvent::Failed`].
type Responded = Result<(HeaderMap, Vec<u8>), Option<EncryptionFault>>;

impl<T: HttpTag> HttpExchange<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Responded> {
        if let ExchangeState::Headers(response) = &mut self.state {
            match Pin::new(response).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(stream_fault(&error))),
                Poll::Ready(Ok(response)) => {
                    let (head, body) = response.into_parts();
                    if let Some(fault) = self.tag.head_fault(&head) {
                        return Poll::Ready(Err(Some(fault)));
                    }
                    self.state = ExchangeState::Body(head.headers, body, Vec::new());
                }
            }
        }
        let (limit, too_long) = self.tag.body_limit();
        let ExchangeState::Body(headers, body, received) = &mut self.state else { return Poll::Pending };
        loop {
            match body.poll_data(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(data))) => {
                    // It is read, so there is room for as much again.
                    let _ = body.flow_control().release_capacity(data.len());
                    received.extend_from_slice(&data);
                    if received.len() > limit {
                        return Poll::Ready(Err(Some(too_long)));
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(stream_fault(&error))),
                Poll::Ready(None) => {
                    return Poll::Ready(Ok((std::mem::take(headers), std::mem::take(received))));
                }
            }
        }
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
