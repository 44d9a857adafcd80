//! Figures for Prometheus: `GET /metrics` over plain HTTP, made at each scrape by the parts that have figures:
//! each file here prints what one of them counts.

mod listeners;
mod process;
mod queries;
mod recursion;
mod secondaries;
mod transfers;
mod updates;
mod zones;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use listeners::ListenerFigures;
pub use process::ProcessFigures;
pub use queries::QueryFigures;
pub use recursion::RecursionFigures;
pub use secondaries::SecondaryFigures;
pub use transfers::TransferFigures;
pub use updates::UpdateFigures;
pub use zones::ZoneFigures;

/// Connections served at a time; further ones wait in the kernel.
const MAX_CONNECTIONS: usize = 16;
/// Longest life of a connection, whatever it does.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers scrapes for as long as the runtime runs.
pub async fn serve(figures: AllFigures, listener: TcpListener) {
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
        let figures = Arc::clone(&figures);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| respond(Arc::clone(&figures), request));
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

async fn respond(
    figures: AllFigures,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let plain = |status, text: &'static str| {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return Ok(plain(StatusCode::NOT_FOUND, "The figures are at /metrics.\n"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is possible here.\n");
        response.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    // Summing and printing a million zones takes a while: not on the thread that hears signals.
    match tokio::task::spawn_blocking(move || render(&figures)).await {
        Ok(Ok(text)) => {
            let mut response = Response::new(Full::new(Bytes::from(text)));
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
            Ok(response)
        }
        _ => Ok(plain(StatusCode::INTERNAL_SERVER_ERROR, "The figures cannot be printed.\n")),
    }
}

/// All figures as OpenMetrics text.
pub fn render(figures: &AllFigures) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("nomen");
    registry.register_collector(Box::new(Everything(Arc::clone(figures))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Something that has figures to print.
pub trait Figures: Send + Sync {
    /// Prints them.
    ///
    /// # Errors
    /// If `out` does not take them.
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result;
}

/// The figures of all parts, in the order in which they are printed.
pub type AllFigures = Arc<[Box<dyn Figures>]>;

/// All of them, as the registry wants them.
struct Everything(AllFigures);

impl fmt::Debug for Everything {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Everything")
    }
}

/// Prints one figure after the other.
pub struct Printer<'e>(DescriptorEncoder<'e>);

impl Printer<'_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A family with label sets of one shape.
    pub(super) fn family<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        series: impl Iterator<Item = ([(&'static str, std::borrow::Cow<'l, str>); N], u64)>,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in series {
            let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_ref())).collect();
            let mut one = metric.encode_family(&labels)?;
            match kind {
                MetricType::Counter => one.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
                _ => one.encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?,
            }
        }
        Ok(())
    }
}

impl Collector for Everything {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut printer = Printer(encoder);
        self.0.iter().try_for_each(|figures| figures.print(&mut printer))
    }
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
