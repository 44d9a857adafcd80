//! The HTTP listener: `/metrics` in the format that the client wants, and the status page at `/`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{AllFigures, Format, render};
use crate::page::StatusPage;

/// Connections served at a time; further ones wait in the kernel.
const MAX_CONNECTIONS: usize = 16;
/// Longest life of a connection, whatever it does.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What can be had here.
#[derive(Clone)]
pub struct Shown {
    /// At `/metrics`.
    pub figures: AllFigures,
    /// At `/`.
    pub page: Arc<StatusPage>,
}

/// Answers requests for as long as the runtime runs.
pub async fn serve(shown: Shown, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of descriptors: there may be some soon.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let shown = shown.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| respond(shown.clone(), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(16 * 1024)
                .serve_connection(TokioIo::new(stream), service);
            // Whoever breaks the protocol or stays too long is cut off; that concerns nobody else.
            let _ = tokio::time::timeout(CONNECTION_LIFE, connection).await;
            drop(permit);
        });
    }
}

async fn respond(shown: Shown, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are possible here.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    // Summing and printing a million zones takes a while: not on the thread that hears signals.
    let made = match request.uri().path() {
        "/metrics" => {
            let format = wanted(request.headers());
            let print = move || render(&shown.figures, format).ok();
            let made = tokio::task::spawn_blocking(print).await;
            made.ok().flatten().map(|text| with_type(text, format.media_type()))
        }
        "/" => tokio::task::spawn_blocking(move || shown.page.render()).await.ok().map(page),
        _ => {
            return Ok(plain(
                StatusCode::NOT_FOUND,
                "The status page is at /, the figures are at /metrics.\n",
            ));
        }
    };
    let failed = || plain(StatusCode::INTERNAL_SERVER_ERROR, "What is wanted cannot be made.\n");
    Ok(made.unwrap_or_else(failed))
}

/// The status page, with all that keeps a browser from doing more than showing it.
fn page(text: String) -> Response<Full<Bytes>> {
    let mut response = with_type(text, "text/html; charset=utf-8");
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, StatusPage::policy()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn with_type(text: impl Into<Bytes>, media_type: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = with_type(text, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

fn wanted(headers: &HeaderMap) -> Format {
    let ranges = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    negotiated(ranges)
}

/// The format that a client prefers by its Accept headers (RFC 9110 §12.5.1). Prometheus' own where both are as good, or
/// neither is named: whoever looks with a browser wants to read it.
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
            // An older draft only.
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
