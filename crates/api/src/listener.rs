//! Accepts connections, with TLS if it is configured, and answers their requests within the limits of
//! `[api]`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use config::api::ApiSection;
use control::api_figures::ApiLimit;
use control::connections::ConnectionPlace;

use crate::answer::answer;
use crate::body::ReplyBody;
use crate::parts::ApiParts;

/// Longest lifetime of a connection without an open stream, busy or not.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Pause after the system refuses a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests on one listening socket for as long as the runtime runs.
pub async fn serve(api: ApiParts, listener: TcpListener) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Out of file descriptors: some may be free soon.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let bounds = api.bounds();
        let place = Arc::new(api.server.connections.api.place(bounds.connections.0).await);
        let api = api.clone();
        tokio::spawn(async move {
            let evicted = Arc::clone(&place);
            tokio::select! {
                () = converse(api, stream, peer, (bounds, place)) => {}
                () = evicted.evicted() => {}
            }
        });
        // Lets the request, which has most likely arrived, be read before the connection can be evicted.
        tokio::task::yield_now().await;
    }
}

/// Answers the requests of one connection.
async fn converse(
    api: ApiParts,
    stream: TcpStream,
    peer: SocketAddr,
    (bounds, place): (ApiSection, Arc<ConnectionPlace>),
) {
    // Small responses are not delayed; a failure has no other effect.
    let _ = stream.set_nodelay(true);
    let Some(tls) = api.tls.clone() else {
        return connection(api, stream, peer, (bounds, place)).await;
    };
    let figures = Arc::clone(&api.server.api_figures);
    match tokio::time::timeout(bounds.head.0, TlsAcceptor::from(tls).accept(stream)).await {
        Ok(Ok(stream)) => connection(api, stream, peer, (bounds, place)).await,
        Ok(Err(_)) => drop(figures.tls_failed.fetch_add(1, Relaxed)),
        Err(_) => figures.refused_by(ApiLimit::Head),
    }
}

/// Answers the requests of one connection in plain text.
async fn connection(
    api: ApiParts,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    (bounds, place): (ApiSection, Arc<ConnectionPlace>),
) {
    let has_asked = Arc::new(AtomicBool::new(false));
    let (asked, for_requests) = (Arc::clone(&has_asked), api.clone());
    let of_request = Arc::clone(&place);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        asked.store(true, Relaxed);
        let (api, place) = (for_requests.clone(), Arc::clone(&of_request));
        async move {
            place.busy();
            let mut response = answer(&api, peer.ip(), request).await;
            match response.body_mut() {
                // The connection of a stream stays busy until the stream ends.
                ReplyBody::Stream(stream) => stream.hold(place),
                ReplyBody::Whole(_) => place.idle(),
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head.0)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let life = CONNECTION_LIFE.max(bounds.request.0 * 2);
    // A client that breaks the protocol or stays too long is disconnected; others are not affected.
    loop {
        match tokio::time::timeout(life, served.as_mut()).await {
            Ok(Err(fault)) if fault.is_timeout() && !has_asked.load(Relaxed) => {
                return api.server.api_figures.refused_by(ApiLimit::Head);
            }
            Ok(_) => return,
            Err(_) if place.is_busy() => {}
            Err(_) => return,
        }
    }
}
