//! Counters of the HTTP API, which the crate `api` counts and [`metrics`](crate::metrics) prints.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A limit of the API that refuses requests or connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiLimit {
    /// The body is larger than `body-size`.
    Body,
    /// More than `requests-per-second` of a client address.
    Rate,
    /// More than `wrong-tokens` of a client address.
    WrongTokens,
    /// More open streams than `streams`.
    Streams,
    /// The host name is not one of `hosts`.
    Host,
    /// The head, or the TLS handshake, did not arrive within `head-timeout`.
    Head,
    /// More dumps at a time than may be sent.
    Dumps,
    /// The request took longer than `request-timeout`.
    Time,
}

impl ApiLimit {
    /// All limits with their labels.
    pub const ALL: [(&'static str, ApiLimit); 8] = [
        ("body-size", ApiLimit::Body),
        ("requests-per-second", ApiLimit::Rate),
        ("wrong-tokens", ApiLimit::WrongTokens),
        ("streams", ApiLimit::Streams),
        ("hosts", ApiLimit::Host),
        ("head-timeout", ApiLimit::Head),
        ("dumps", ApiLimit::Dumps),
        ("request-timeout", ApiLimit::Time),
    ];
}

/// Classes of HTTP statuses with their labels.
pub const STATUS_CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Counters of the API.
#[derive(Debug, Default)]
pub struct ApiFigures {
    responses: [AtomicU64; STATUS_CLASSES.len()],
    limited: [AtomicU64; ApiLimit::ALL.len()],
    /// Requests with a token that is wrong or has expired.
    pub wrong_tokens: AtomicU64,
    /// Requests that their token does not allow.
    pub forbidden: AtomicU64,
    /// Open streams of queries.
    pub streams: AtomicU64,
    /// Queries that streams left out because their clients read too slowly.
    pub stream_lost: AtomicU64,
    /// TLS handshakes that failed.
    pub tls_failed: AtomicU64,
}

impl ApiFigures {
    /// Counts a response by its status.
    pub fn responded(&self, status: u16) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        if let Some(count) = self.responses.get(class) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a request that a limit refuses.
    pub fn refused_by(&self, limit: ApiLimit) {
        if let Some(count) = self.limited.get(limit as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the responses by class.
    pub fn responses(&self) -> [u64; STATUS_CLASSES.len()] {
        self.responses.each_ref().map(|count| count.load(Relaxed))
    }

    /// Returns the requests that each limit has refused, with its label.
    pub fn limited(&self) -> [(&'static str, u64); ApiLimit::ALL.len()] {
        ApiLimit::ALL.map(|(label, limit)| {
            (label, self.limited.get(limit as usize).map_or(0, |count| count.load(Relaxed)))
        })
    }
}
