//! The HTTP API, as the crate `api` counts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{Figures, MetricType, Printer, labelled};
use crate::api_figures::{ApiFigures, STATUS_CLASSES};

/// Metrics of the HTTP API.
pub struct ApiMetrics(pub Arc<ApiFigures>);

impl Figures for ApiMetrics {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        let figures = &self.0;
        let responses = STATUS_CLASSES.into_iter().zip(figures.responses());
        let help = "Responses of the HTTP API, by class of their status";
        out.family("api_responses", help, MetricType::Counter, labelled("status", responses))?;
        let help = "Requests and connections of the HTTP API that a limit refused, by its key in [api]";
        out.family("api_limited", help, MetricType::Counter, labelled("limit", figures.limited()))?;
        let help = "Requests of the HTTP API with a token that is wrong or has expired";
        out.counter("api_wrong_tokens", help, figures.wrong_tokens.load(Relaxed))?;
        let help = "Requests of the HTTP API that their token does not allow";
        out.counter("api_forbidden", help, figures.forbidden.load(Relaxed))?;
        let help = "Connections to the HTTP API whose TLS handshake failed";
        out.counter("api_tls_failures", help, figures.tls_failed.load(Relaxed))?;
        let help = "Open streams of queries of the HTTP API";
        out.gauge("api_streams", help, figures.streams.load(Relaxed))?;
        let help = "Queries that streams of the HTTP API left out because they were not read fast enough";
        out.counter("api_stream_lost", help, figures.stream_lost.load(Relaxed))
    }
}
