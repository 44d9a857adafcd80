//! The HTTP listener of `[metrics]`: `/metrics` in the format that the client prefers, and `/healthz` and
//! `/readyz` for load balancers and orchestrators. `/` names these paths.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::connections::ConnectionSet;
use crate::in_force::InForce;
use crate::metrics::{AllFigures, Format, render};
use crate::parts::ServerParts;
use crate::readiness::unready;
use config::metrics::MetricsSection;

/// Longest lifetime of a connection, busy or not.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);

/// The media type of plain text.
const TEXT: &str = "text/plain; charset=utf-8";

/// The answer at `/`.
const PATHS: &str = "\
nomen: figures and health of this server, for programs.

/metrics   figures for Prometheus, and in the OpenMetrics format
/healthz   200 while the server accepts requests
/readyz    200 while every zone is in service, else 503 with the names of those that are not

The web page for operators is served by [api]; `nomen ctl status` shows the state without it.
";

/// What the HTTP listener serves.
#[derive(Clone)]
pub struct HttpService {
    /// Served at `/metrics`.
    pub figures: AllFigures,
    /// The parts whose state `/readyz` has.
    pub parts: ServerParts,
    /// Holds the limits.
    pub in_force: Arc<InForce>,
    /// The open connections.
    pub connections: Arc<ConnectionSet>,
}

/// Answers requests for as long as the runtime runs.
pub async fn serve(shown: HttpService, listener: TcpListener) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of file descriptors: some may be free soon.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let bounds = shown.bounds();
        let place = Arc::new(shown.connections.place(bounds.connections.0).await);
        let shown = shown.clone();
        tokio::spawn(async move {
            let of_request = Arc::clone(&place);
            let service = hyper::service::service_fn(move |request| {
                let (shown, place) = (shown.clone(), Arc::clone(&of_request));
                async move {
                    place.busy();
                    let response = respond(shown, request).await;
                    place.idle();
                    response
                }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(bounds.head.0)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks the protocol or stays too long is disconnected; other clients are not
            // affected.
            tokio::select! {
                _ = tokio::time::timeout(CONNECTION_LIFE, connection) => {}
                () = place.evicted() => {}
            }
        });
        // Lets the request, which has most likely arrived, be read before the connection can be evicted.
        tokio::task::yield_now().await;
    }
}

impl HttpService {
    fn bounds(&self) -> MetricsSection {
        self.in_force.settings().metrics.as_ref().map(|metrics| metrics.value.clone()).unwrap_or_default()
    }
}

async fn respond(
    shown: HttpService,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are possible here.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    // Summing and printing a million zones takes long, so it runs on a blocking thread: this one handles
    // signals.
    let made = match request.uri().path() {
        "/metrics" => {
            let format = wanted(request.headers());
            let print = move || render(&shown.figures, format).ok();
            let made = tokio::task::spawn_blocking(print).await;
            made.ok().flatten().map(|text| with_type(text, format.media_type()))
        }
        // The thread that answers this also handles signals and control commands.
        "/healthz" => Some(with_type("ok\n", TEXT)),
        "/readyz" => {
            let unready = tokio::task::spawn_blocking(move || unready(&shown.parts)).await.ok();
            unready.map(|unready| match unready {
                None => with_type("ready\n", TEXT),
                Some(why) => {
                    let mut response = with_type(why, TEXT);
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    response
                }
            })
        }
        "/" => Some(with_type(PATHS, TEXT)),
        _ => return Ok(plain(StatusCode::NOT_FOUND, PATHS)),
    };
    let failed = || plain(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be generated.\n");
    Ok(made.unwrap_or_else(failed))
}

fn with_type(text: impl Into<Bytes>, media_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = with_type(text, TEXT);
    *response.status_mut() = status;
    response
}

fn wanted(headers: &HeaderMap) -> Format {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    negotiated(ranges)
}

/// Returns the format that the client prefers by its Accept headers (RFC 9110 §12.5.1): Prometheus' own if
/// both are equally preferred or neither is named, since a browser shows it as text.
fn negotiated<'a>(headers: impl Iterator<Item = &'a str>) -> Format {
    let (mut text, mut open) = (0.0_f32, 0.0_f32);
    for range in headers.flat_map(|header| header.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let (mut quality, mut version) = (1.0_f32, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => quality = value.trim().parse().unwrap_or(0.0),
                "version" => version = Some(value.trim().trim_matches('"')),
                _ => {}
            }
        }
        match (kind.as_str(), version) {
            ("application/openmetrics-text", None | Some("1.0.0")) => open = open.max(quality),
            ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => text = text.max(quality),
            _ => {}
        }
    }
    if open > text { Format::OpenMetrics } else { Format::Prometheus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_client_prefers() {
        use Format::{OpenMetrics, Prometheus};
        for (accept, format) in [
            ("", Prometheus),
            ("*/*", Prometheus),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Prometheus),
            ("application/openmetrics-text", OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", OpenMetrics),
            ("Application/OpenMetrics-Text;Version=\"1.0.0\"", OpenMetrics),
            // Only an older draft is accepted.
            ("application/openmetrics-text;version=0.0.1", Prometheus),
            ("application/openmetrics-text;q=0.3,text/plain;version=0.0.4;q=0.5", Prometheus),
            ("application/openmetrics-text;q=0", Prometheus),
            ("application/openmetrics-text;q=high", Prometheus),
            // Prometheus 2.53, and 3.5.
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;\
                 version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;\
                 q=0.3,*/*;q=0.2",
                OpenMetrics,
            ),
        ] {
            assert_eq!(negotiated([accept].into_iter()), format, "{accept}");
        }
    }
}
