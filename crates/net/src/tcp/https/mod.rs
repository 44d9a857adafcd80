//! DNS over HTTPS (RFC 8484), HTTP/2 and HTTP/1.1: one connection, from its handshake to its end. `message`
//! reads requests and writes responses, `client` has queries answered, `body` counts what is not sent yet,
//! `clear` has the bytes of connections without TLS.

mod body;
mod clear;
mod client;
pub(crate) mod message;

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::header::HeaderValue;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep_until, timeout_at};
use transport::{HandlerFactory, ProxiedEnds, ProxyHeader, ProxyHeaderFault, Transport};

use clear::ClearBytes;
pub(super) use client::{HttpClient, HttpState};

use crate::config::ListenerConfig;
use crate::fault::WorkerId;

use super::connection::Bytes;
use super::event::ConnectionEvent;
use super::life::Close;
use super::secured::{OpenTls, TlsBytes};

/// Most requests of an HTTP/2 connection at a time.
const MAX_STREAMS: u32 = 100;
/// Bytes of a request's body and of all of a connection that a client may send before they are read.
const STREAM_WINDOW: u32 = 65_535;
const CONNECTION_WINDOW: u32 = 256 * 1024;
/// Bytes of replies that HTTP/2 buffers for each request.
const STREAM_BUFFER: usize = 16 * 1024;
/// Most bytes of the headers of a request.
const MAX_HEADERS: u32 = 16 * 1024;
/// Limits of one connection: requests that the client cancels before the server takes them (CVE-2023-44487),
/// and requests that the server resets for errors of the client.
const MAX_CANCELLED: usize = 20;
const MAX_FAULTS: usize = 100;
/// Longest wait for the end of an HTTP/2 connection after the server has announced it.
const LAST_REQUESTS: std::time::Duration = std::time::Duration::from_secs(1);

/// The application protocol of HTTP/2.
const HTTP2: &[u8] = b"h2";

/// Time for which clients may keep in mind that there is HTTP/3, in seconds.
const ALT_SVC_AGE: u32 = 3600;

/// Returns where HTTP/3 is, for the responses of a listener of HTTPS; `None` if it is not at the same
/// address.
pub(super) fn alt_svc(id: WorkerId, config: &ListenerConfig) -> Option<HeaderValue> {
    let value = format!("h3=\":{}\"; ma={ALT_SVC_AGE}", id.local.port());
    HeaderValue::try_from(value).ok().filter(|_| id.transport == Transport::Https && config.with_h3)
}

/// Serves one connection until it ends; `open` opens it.
pub(super) async fn serve<F: HandlerFactory, S: AsyncRead + AsyncWrite + Unpin + 'static>(
    open: impl Future<Output = Result<Opened<S>, Close>>,
    mut client: HttpClient<F>,
    mut events: UnboundedReceiver<ConnectionEvent>,
) -> Close {
    let first = Instant::now() + client.times().first_message;
    let opened = {
        let mut open = pin!(timeout_at(first.into(), open));
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(ConnectionEvent::Late(_)) => {}
                    Some(ConnectionEvent::Evict) => return Close::Evicted,
                    // No request can follow the handshake.
                    Some(ConnectionEvent::Drain) | None => return Close::Stopped,
                },
                opened = &mut open => break opened,
            }
        }
    };
    let Opened { stream, ends, name, is_http2 } = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(close)) => return close,
        Err(_) => return Close::First,
    };
    if let Some(ends) = ends
        && let Err(reason) = client.pass_to(ends)
    {
        return Close::Refused(reason);
    }
    client.name = name;
    let (client, io) = (Rc::new(client), TokioIo::new(stream));
    if is_http2 {
        let connection = http2_settings().serve_connection(io, client.service());
        drive(connection, |connection| connection.graceful_shutdown(), &client, events, true).await
    } else {
        let mut settings = http1::Builder::new();
        settings.timer(TokioTimer::new()).header_read_timeout(client.times().first_message);
        settings.max_buf_size(MAX_HEADERS as usize);
        let connection = settings.serve_connection(io, client.service());
        drive(connection, |connection| connection.graceful_shutdown(), &client, events, false).await
    }
}

fn http2_settings() -> http2::Builder<LocalExecutor> {
    let mut settings = http2::Builder::new(LocalExecutor);
    settings
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(STREAM_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        .max_pending_accept_reset_streams(MAX_CANCELLED)
        .max_local_error_reset_streams(MAX_FAULTS);
    settings
}

/// A connection on which requests can follow.
pub(super) struct Opened<S> {
    stream: S,
    /// The ends that a PROXY header named.
    ends: Option<ProxiedEnds>,
    /// The name that the client has written for itself.
    name: Option<Arc<str>>,
    is_http2: bool,
}

/// Does the handshake of a connection with TLS, and reads the header of a proxy before it or behind it.
/// `longest`: the length of the longest header, if the proxy has to send one.
pub(super) async fn open_secured(
    mut bytes: TlsBytes,
    longest: Option<usize>,
) -> Result<Opened<OpenTls>, Close> {
    let mut header = Vec::new();
    let mut stream = bytes.handshake(&mut header).await.map_err(|_| Close::Error)?;
    let name = bytes.client_name().map(Arc::clone);
    let is_http2 = stream.protocol() == Some(HTTP2);
    let ends = match longest {
        Some(longest) => read_header(&mut stream, header, longest).await?,
        None => None,
    };
    Ok(Opened { stream, ends, name, is_http2 })
}

/// Reads the header of a proxy on a connection without TLS, and as much of what follows as shows whether it
/// is HTTP/2 (RFC 9113 §3.3, prior knowledge).
pub(super) async fn open_clear(
    mut stream: TcpStream,
    longest: Option<usize>,
) -> Result<Opened<ClearBytes>, Close> {
    let ends = match longest {
        Some(longest) => read_header(&mut stream, Vec::new(), longest).await?,
        None => None,
    };
    let (stream, is_http2) = ClearBytes::begin(stream).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Close::Peer,
        _ => Close::Error,
    })?;
    Ok(Opened { stream, ends, name: None, is_http2 })
}

/// Reads the header of a proxy, which begins with the bytes in `header`.
async fn read_header(
    stream: &mut (impl AsyncRead + Unpin),
    mut header: Vec<u8>,
    longest: usize,
) -> Result<Option<ProxiedEnds>, Close> {
    loop {
        match ProxyHeader::read(&header, longest) {
            Ok(Some(read)) => return Ok(read.ends),
            Ok(None) => {}
            Err(fault) => return Err(Close::Header(fault)),
        }
        // Byte by byte, as what follows is for HTTP; there are a few hundred at most.
        match stream.read_u8().await {
            Ok(byte) => header.push(byte),
            // A proxy that only looks whether the port is open sends nothing.
            Err(error) if header.is_empty() && error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Close::Peer);
            }
            Err(_) => return Err(Close::Header(ProxyHeaderFault::Missing)),
        }
    }
}

/// Polls the connection until it ends, a timeout passes or an event ends it. `finish` has it end after the
/// requests that it has.
async fn drive<F: HandlerFactory, C: Future<Output = hyper::Result<()>>>(
    connection: C,
    finish: impl Fn(Pin<&mut C>),
    client: &Rc<HttpClient<F>>,
    mut events: UnboundedReceiver<ConnectionEvent>,
    is_http2: bool,
) -> Close {
    let mut connection = pin!(connection);
    let mut ending: Option<(Instant, Close)> = None;
    loop {
        let (at, _) = ending.unwrap_or_else(|| client.deadline());
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(ConnectionEvent::Late(_)) => {}
                Some(ConnectionEvent::Evict) => return Close::Evicted,
                Some(ConnectionEvent::Drain) | None => {
                    finish(connection.as_mut());
                    ending = Some((Instant::now() + client.drain(), Close::Stopped));
                }
            },
            ended = connection.as_mut() => return match (ended, ending) {
                // After GOAWAY a client may close TCP without close_notify of TLS.
                (_, Some((_, close))) => close,
                (Ok(()), None) => Close::Peer,
                (Err(error), None) if error.is_parse() => Close::Framing,
                (Err(_), None) => Close::Error,
            },
            () = client.changed() => {}
            () = sleep_until(at.into()) => {
                let (at, close) = ending.unwrap_or_else(|| client.deadline());
                if at > Instant::now() {
                    continue;
                }
                if !is_http2 || close != Close::Idle || ending.is_some() {
                    return close;
                }
                // The client may have sent a request meanwhile, which it then sends again.
                finish(connection.as_mut());
                ending = Some((Instant::now() + LAST_REQUESTS, close));
            },
        }
    }
}

/// Runs the tasks of HTTP/2 on the thread of the worker.
#[derive(Clone)]
struct LocalExecutor;

impl<T: Future<Output = ()> + 'static> Executor<T> for LocalExecutor {
    fn execute(&self, task: T) {
        tokio::task::spawn_local(task);
    }
}

impl TlsBytes {
    /// Does the handshake. Bytes of a PROXY header before it are added to `header`.
    async fn handshake(&mut self, header: &mut Vec<u8>) -> io::Result<OpenTls> {
        loop {
            let mut part = [0; 256];
            let mut part = tokio::io::ReadBuf::new(&mut part);
            let begin = |cx: &mut Context<'_>| -> Poll<io::Result<bool>> { self.poll_begin(cx, &mut part) };
            if std::future::poll_fn(begin).await? {
                return self.take();
            }
            if part.filled().is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            header.extend_from_slice(part.filled());
        }
    }
}
