//! Figures for Prometheus: `GET /metrics` over plain HTTP, made from the workers' counters at each scrape.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::stats::{LATENCY_BOUNDS, RCODES, SIZE_BOUNDS, TYPES, place_label};
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
use wire::Rcode;

use crate::app::{App, lock};

/// Connections served at a time; further ones wait in the kernel.
const MAX_CONNECTIONS: usize = 16;
/// Longest life of a connection, whatever it does.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Longest time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Labels of the engine's transports, in its order.
const TRANSPORTS: [&str; 2] = ["udp", "tcp"];

/// Answers scrapes for as long as the runtime runs.
pub async fn serve(app: Arc<App>, listener: TcpListener) {
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
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(|request| respond(Arc::clone(&app), request));
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

async fn respond(app: Arc<App>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
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
    match tokio::task::spawn_blocking(move || render(&app)).await {
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
pub fn render(app: &Arc<App>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("nomen");
    registry.register_collector(Box::new(Figures(Arc::clone(app))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// All figures of a running server.
struct Figures(Arc<App>);

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}

/// Prints one figure after the other.
struct Printer<'e>(DescriptorEncoder<'e>);

impl Printer<'_> {
    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A family with label sets of one shape; series that are zero are printed too, unless `sparse`.
    fn family<'l, const N: usize>(
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

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let app = &self.0;
        let mut printer = Printer(encoder);
        queries(app, &mut printer)?;
        histograms(app, &mut printer)?;
        transports(app, &mut printer)?;
        zones(app, &mut printer)?;
        images(app, &mut printer)?;
        process(app, &mut printer)
    }
}

fn queries(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let queries = TRANSPORTS.iter().enumerate().flat_map(|(t, transport)| {
        (0..TYPES).filter_map(move |place| {
            let count = app.sum(|s| s.queries[t][place].get());
            let labels = [("transport", (*transport).into()), ("type", place_label(place).into())];
            (count > 0).then_some((labels, count))
        })
    });
    out.family("queries", "Queries received, by transport and type", MetricType::Counter, queries)?;
    let replies = TRANSPORTS.iter().enumerate().flat_map(|(t, transport)| {
        (0..RCODES).filter_map(move |rcode| {
            let count = app.sum(|s| s.replies[t][rcode].get());
            let label = match u16::try_from(rcode) {
                Ok(n) if rcode + 1 < RCODES => Rcode(n).to_string(),
                _ => "other".into(),
            };
            // The usual codes are there from the start, so that rates can be computed from the first query on.
            (count > 0 || rcode <= 5)
                .then(|| ([("transport", (*transport).into()), ("rcode", label.into())], count))
        })
    });
    out.family("replies", "Replies sent, by transport and response code", MetricType::Counter, replies)?;
    let one = |figure: fn(&engine::Stats) -> u64| app.sum(figure);
    out.counter("truncated", "Replies with TC set", one(|s| s.truncated.get()))?;
    out.counter(
        "unanswered",
        "Messages that are given no reply, such as responses",
        one(|s| s.dropped.get()),
    )?;
    out.counter("dnssec_ok", "Queries that asked for DNSSEC records", one(|s| s.dnssec_ok.get()))?;
    out.counter(
        "query_log_dropped",
        "Queries that the query log could not take",
        app.query_logger.dropped(),
    )?;
    out.counter("log_dropped", "Log lines that the log could not take", app.logging.dropped() as u64)
}

fn histograms(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let mut metric =
        out.0.encode_descriptor("response_size_bytes", "Size of replies", None, MetricType::Histogram)?;
    for (t, transport) in TRANSPORTS.iter().enumerate() {
        let bounds = SIZE_BOUNDS.iter().map(|b| *b as f64).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.enumerate().map(|(i, bound)| (bound, app.sum(|s| s.sizes[t][i].get()))).collect();
        let octets = app.sum(|s| s.octets_out[t].get());
        let count = buckets.iter().map(|b| b.1).sum();
        let labels: &[(&str, &str)] = &[("transport", *transport)];
        let mut one = metric.encode_family(&labels)?;
        one.encode_histogram::<NoLabelSet>(octets as f64, count, &buckets, None)?;
    }
    let help = "Time from taking a batch of queries to having answered it, once for each query";
    let mut metric = out.0.encode_descriptor("latency_seconds", help, None, MetricType::Histogram)?;
    let bounds = LATENCY_BOUNDS.iter().map(|b| *b as f64 / 1e9).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> =
        bounds.enumerate().map(|(i, bound)| (bound, app.sum(|s| s.latency[i].get()))).collect();
    let seconds = app.sum(|s| s.latency_sum.get()) as f64 / 1e9;
    let count = buckets.iter().map(|b| b.1).sum();
    metric.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
}

/// What `net` counts, for each listener; names of counters are `net`'s.
fn transports(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let listeners = app.net_totals();
    let names: Vec<&'static str> = net::Totals::default().iter().map(|(name, _)| name).collect();
    for (i, name) in names.iter().enumerate() {
        let series = listeners.iter().map(|(addr, transport, totals)| {
            let value = totals.iter().nth(i).map_or(0, |(_, value)| value);
            ([("listen", addr.to_string().into()), ("transport", (*transport).into())], value)
        });
        let help = format!("Counter `{name}` of a listener");
        out.family(&format!("net_{name}"), &help, MetricType::Counter, series)?;
    }
    out.gauge("tcp_connections", "TCP connections open now", app.tcp_limits.current() as f64)?;
    let limit = app.settings.load().server.tcp_connections.0;
    out.gauge("tcp_connections_limit", "Most TCP connections there may be", limit as f64)
}

fn zones(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let table = app.zones.load_full();
    let count = |word| table.values().filter(|z| z.word() == word).count() as u64;
    let states = ["ok", "old", "failed"].map(|word| ([("state", word.into())], count(word)));
    out.family(
        "zones",
        "Zones by state: ok, old (the file is bad, its last good version is served), failed (not served)",
        MetricType::Gauge,
        states.into_iter(),
    )?;
    let loaded = || table.values().filter_map(|z| z.zone.as_ref());
    let records: u64 = loaded().map(|z| z.record_count()).sum();
    let memory: usize = loaded().map(|z| z.memory()).sum();
    out.gauge("zone_records", "Records in all zones", records as f64)?;
    out.gauge("zone_memory_bytes", "Memory of all zones", memory as f64)?;
    if let Some(last) = lock(&app.last_reload).as_ref() {
        out.gauge("last_reload_timestamp_seconds", "When the last reload ended", unix(last.at))?;
        let good = last.result.as_ref().is_ok_and(|s| s.failed == 0);
        out.gauge(
            "last_reload_success",
            "1 if everything in the last reload was good",
            f64::from(u8::from(good)),
        )?;
    }
    if !app.settings.load().metrics.as_ref().is_some_and(|m| m.per_zone.value) {
        return Ok(());
    }
    let serials = table.values().filter_map(|state| {
        let zone = state.zone.as_ref()?;
        Some(([("zone", state.spec.name().to_string().into())], u64::from(zone.serial().0)))
    });
    out.family("zone_serial", "Serial number of each zone", MetricType::Gauge, serials)?;
    let catalog = app.engine.catalog();
    let queries = catalog.iter().map(|e| ([("zone", e.name().to_string().into())], e.queries()));
    out.family("zone_queries", "Queries for names in each zone", MetricType::Counter, queries)
}

fn images(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let Some(counts) = app.images.as_ref().map(|images| images.counts()) else { return Ok(()) };
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let loads = [
        ("used", &counts.used),
        ("missing", &counts.missing),
        ("stale", &counts.stale),
        ("damaged", &counts.damaged),
    ];
    out.family(
        "image_loads",
        "Zones to be loaded by what became of their image; all but those whose image was used are read from text",
        MetricType::Counter,
        loads.into_iter().map(|(word, count)| ([("image", word.into())], get(count))),
    )?;
    let writes = [("written", &counts.written), ("failed", &counts.unwritten)];
    out.family(
        "image_writes",
        "Images written, and those that could not be",
        MetricType::Counter,
        writes.into_iter().map(|(word, count)| ([("result", word.into())], get(count))),
    )
}

fn process(app: &App, out: &mut Printer<'_>) -> fmt::Result {
    let mut info = out.0.encode_descriptor("build", "This program", None, MetricType::Info)?;
    let labels: &[(&str, &str)] = &[("version", env!("CARGO_PKG_VERSION"))];
    info.encode_info(&labels)?;
    out.gauge("start_time_seconds", "When the process started", unix(app.started))?;
    out.gauge("uptime_seconds", "Time since then", app.started_at.elapsed().as_secs_f64())?;
    if let Some(bytes) = resident_memory() {
        out.gauge("resident_memory_bytes", "Memory of the process in RAM", bytes as f64)?;
    }
    Ok(())
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// Memory of the process in RAM, in bytes, as the kernel tells it.
pub fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
