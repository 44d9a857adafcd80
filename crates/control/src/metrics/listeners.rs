//! Listeners, as the crate `net` counts.

use std::fmt;
use std::sync::Arc;

use super::{Figures, MetricType, Printer, unix};
use crate::in_force::InForce;
use serving::frontend::{Frontend, ListenerTotals};
use serving::issuing::Issuing;

/// Metrics of the listeners, and the limits they share.
pub struct ListenerFigures {
    /// Owns the listeners.
    pub frontend: Arc<Frontend>,
    /// The certificate that this server orders from a CA.
    pub issuing: Arc<Issuing>,
    /// Holds the limits.
    pub in_force: Arc<InForce>,
}

impl Figures for ListenerFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        ListenerReport(self.frontend.listeners()).print(out)?;
        let open = self.frontend.tcp_limits.current();
        out.gauge(
            "tcp_connections",
            "Open connections of all listeners: TCP, TLS, HTTPS and QUIC",
            open as f64,
        )?;
        let waiting = self.frontend.tcp_limits.waiting();
        out.gauge(
            "tcp_waiting_bytes",
            "Bytes that wait in all connections: answers not read, and messages not complete (tcp-memory)",
            waiting as f64,
        )?;
        let limit = self.in_force.settings().server.tcp.connections.0;
        out.gauge("tcp_connections_limit", "Limit of open connections (tcp-connections)", limit as f64)?;
        let idle = self.frontend.tcp_limits.idle_timeout();
        out.gauge(
            "tcp_idle_timeout_seconds",
            "Time without a query after which connections are closed now: tcp-idle-timeout, or less while more \
             than half of tcp-connections are open (tcp-idle-timeout-full)",
            idle.as_secs_f64(),
        )?;
        let expiry = self.frontend.certificates.in_use().into_iter().map(|certificate| {
            let file = certificate
                .file
                .as_ref()
                .map_or_else(|| "self-signed".into(), |file| file.display().to_string());
            ([("file", file.into())], unix(certificate.not_after))
        });
        let help = "When the certificates of TLS listeners expire, in seconds since 1970";
        out.family("certificate_expiry_seconds", help, MetricType::Gauge, expiry)?;
        let help = "Certificates that a CA has issued to this server ([acme])";
        out.counter("acme_certificates", help, self.issuing.obtained.get())?;
        let help = "Orders of a certificate that have failed ([acme])";
        out.counter("acme_failures", help, self.issuing.failed.get())?;
        let help = "Attempts to remove records of challenges from zones that have failed ([acme])";
        out.counter("acme_left_records", help, self.issuing.left_records.get())?;
        let help = "Questions to the CA about the time of renewal without an answer ([acme])";
        out.counter("acme_renewal_info_failures", help, self.issuing.unanswered.get())?;
        let help = "Requests of the challenge http-01 that got a key authorization ([acme])";
        out.counter("acme_http_challenges", help, self.issuing.http.answered.get())?;
        let help = "Requests to `http-listen` for anything else, answered with 404 ([acme])";
        out.counter("acme_http_refused", help, self.issuing.http.refused.get())
    }
}

/// Counters of the listeners; `net` defines their names and descriptions.
pub struct ListenerReport(pub Vec<ListenerTotals>);

impl Figures for ListenerReport {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        for (i, (counter, doc)) in net::Totals::DESCRIBED.iter().enumerate() {
            if proxy_fault(counter).is_some() {
                continue;
            }
            let series =
                self.0.iter().filter(|listener| is_counted(counter, listener.carrier)).map(|listener| {
                    let value = listener.totals.iter().nth(i).map_or(0, |(_, value)| value);
                    let listen = listener.local.to_string().into();
                    ([("listen", listen), ("transport", listener.carrier.into())], value)
                });
            let help = doc.trim().trim_end_matches('.').replace('`', "");
            out.family(&format!("net_{}", name(counter)), &help, MetricType::Counter, series)?;
        }
        let help =
            "Datagrams, connections and requests of proxies dropped because no valid header named the client";
        let faults = self.0.iter().flat_map(|listener| {
            let listen = listener.local.to_string();
            listener.totals.iter().filter_map(move |(counter, value)| {
                let (listen, transport) = (listen.clone().into(), listener.carrier.into());
                let reason = proxy_fault(counter)?.into();
                Some(([("listen", listen), ("transport", transport), ("reason", reason)], value))
            })
        });
        out.family("net_proxy_dropped", help, MetricType::Counter, faults)
    }
}

/// Returns the label of a counter of messages that proxies sent without a valid header.
fn proxy_fault(counter: &str) -> Option<&'static str> {
    Some(match counter {
        "proxy_missing" => "missing",
        "proxy_malformed" => "malformed",
        "proxy_too_long" => "too-long",
        "proxy_no_address" => "no-address",
        _ => return None,
    })
}

/// Returns whether listeners of this kind count `counter` at all.
fn is_counted(counter: &str, carrier: &str) -> bool {
    const CARRIERS: [(&str, &[&str]); 7] = [
        ("tcp", &["tcp", "tls", "https", "quic", "h3", "http"]),
        ("tls", &["tls", "https", "quic", "h3"]),
        // A listener of QUIC may have HTTP/3 as well.
        ("https", &["https", "quic", "h3", "http"]),
        ("http_", &["http"]),
        ("odoh", &["https", "quic", "h3", "http"]),
        ("quic", &["quic", "h3"]),
        ("xdp", &["xdp"]),
    ];
    let own = CARRIERS.into_iter().find(|(kind, _)| counter.starts_with(kind));
    own.is_none_or(|(_, carriers)| carriers.contains(&carrier))
}

/// Returns the metric name of a counter: the unit comes last.
fn name(counter: &str) -> &str {
    match counter {
        "bytes_in" => "received_bytes",
        "bytes_out" => "sent_bytes",
        other => other,
    }
}
