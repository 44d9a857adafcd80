//! The HTTP listeners of the challenge http-01 (RFC 8555 §8.3): the paths of challenges while an order is in
//! progress, and 404 for all else.
//!
//! Any host can connect, so all is bounded: connections, the time of a head, its size, the
//! lifetime of a connection. A request has no body that is read, and is answered from memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::connections::ConnectionPlace;
use crate::parts::ServerParts;
use config::acme::HttpBounds;

/// Longest lifetime of a connection. A CA sends one request.
const CONNECTION_LIFE: Duration = Duration::from_secs(30);
/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 8 * 1024;
/// Pause after the system refuses a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests on one listening socket for as long as the runtime runs.
pub async fn serve(parts: Arc<ServerParts>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: some may be free soon.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Without [acme] after a reload, the address stays until the next start, and nothing is shown.
        let bounds = parts.in_force.settings().acme.as_ref().map(|acme| acme.http_bounds());
        let bounds = bounds.unwrap_or_default();
        let place = parts.connections.acme.place(bounds.connections).await;
        let parts = Arc::clone(&parts);
        tokio::spawn(async move { converse(parts, stream, &place, bounds).await });
        // Lets the request, which has most likely arrived, be read before the connection can be evicted.
        tokio::task::yield_now().await;
    }
}

/// Answers the requests of one connection.
async fn converse(parts: Arc<ServerParts>, stream: TcpStream, place: &ConnectionPlace, bounds: HttpBounds) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let parts = Arc::clone(&parts);
        async move { Ok::<_, Infallible>(respond(&parts, &request)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    // A client that breaks the protocol or stays too long is disconnected; others are not affected.
    tokio::select! {
        _ = tokio::time::timeout(CONNECTION_LIFE, connection) => {}
        () = place.evicted() => {}
    }
}

fn respond(parts: &ServerParts, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let shown = parts.issuing.http.at(if is_read { request.uri().path() } else { "" });
    let (status, kind, text) = match shown {
        Some(text) => (StatusCode::OK, "application/octet-stream", text),
        None => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", String::new()),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
