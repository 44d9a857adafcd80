//! Counters of one worker: only the worker writes them; other threads read and sum them for reports.

use std::time::Duration;

use cookies::CookieStanding;
use transport::{Counter, TRANSPORTS, Transport};
use wire::Type;
use wire::edns::ErrorInfo;

use crate::reply_limits::{LimitAction, ReplyKind};

/// Response codes with a counter each; higher ones share the last counter.
pub const RCODES: usize = 25;
/// Counters for types: 0 to 127 by number, then URI, CAA, and all others.
pub const TYPES: usize = 131;
/// INFO-CODEs of extended errors with a counter each (RFC 8914). Higher ones share one more counter, and
/// replies without an extended error have another.
pub const INFO_CODES: usize = 32;
/// Upper bounds of the response size histogram, in bytes; one more counter is for larger replies.
pub const SIZE_BOUNDS: [usize; 9] = [64, 128, 256, 512, 1_024, 1_232, 4_096, 16_384, 65_535];
/// Upper bounds of the latency histogram, in nanoseconds; one more counter is for longer times.
pub const LATENCY_BOUNDS: [u64; 11] =
    [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// What a query's cookie shows, each with a counter.
pub const COOKIE_STANDINGS: [CookieStanding; 3] =
    [CookieStanding::Valid, CookieStanding::ClientOnly, CookieStanding::Invalid];

/// The counters of one worker, on cache lines of their own.
#[repr(align(128))]
pub struct QueryStats {
    /// Queries by transport and [`type_place`].
    pub queries: [[Counter; TYPES]; TRANSPORTS],
    /// Replies by transport and response code.
    pub replies: [[Counter; RCODES]; TRANSPORTS],
    /// Replies by transport and size, see [`SIZE_BOUNDS`].
    pub sizes: [[Counter; SIZE_BOUNDS.len() + 1]; TRANSPORTS],
    /// Bytes sent, by transport.
    pub bytes_out: [Counter; TRANSPORTS],
    /// Bytes received, by transport.
    pub bytes_in: [Counter; TRANSPORTS],
    /// Replies with SERVFAIL by the INFO-CODE of their extended error, see [`INFO_CODES`].
    pub failures: [Counter; INFO_CODES + 2],
    /// Replies with TC set.
    pub truncated: Counter,
    /// Queries that are dropped without a reply (responses, packets shorter than a header).
    pub dropped: Counter,
    /// Queries with DO set.
    pub dnssec_ok: Counter,
    /// Queries whose answer is pending.
    pub pending: Counter,
    /// Pending queries that were answered, with a reply or a stream.
    pub late: Counter,
    /// Queries answered by a stream of messages.
    pub streams: Counter,
    /// Queries answered from the cache at once.
    pub cache_hits: Counter,
    /// Cache hits that are negative (RFC 2308).
    pub cache_negative: Counter,
    /// Queries refused because the limit for hashing names of zones with many NSEC3 iterations was reached.
    pub hashing_refused: Counter,
    /// Messages that the server's access rules refuse.
    pub access_refused: Counter,
    /// Messages that they drop.
    pub access_dropped: Counter,
    /// Messages that they answer with a truncated reply.
    pub access_truncated: Counter,
    /// Queries that the rules of their zone refuse.
    pub zone_refused: Counter,
    /// Chains of aliases that end because the rules of the next zone refuse the query.
    pub zone_chains_ended: Counter,
    /// Replies with a cookie, by what the query's cookie shows: see [`COOKIE_STANDINGS`].
    pub cookies: [Counter; COOKIE_STANDINGS.len()],
    /// Replies over a limit, by their kind and what happened to them.
    pub limited: [[Counter; LimitAction::ALL.len()]; ReplyKind::ALL.len()],
    /// Time from receiving a batch to having answered it, counted once per query; see [`LATENCY_BOUNDS`].
    pub latency: [Counter; LATENCY_BOUNDS.len() + 1],
    /// Sum of those times in nanoseconds.
    pub latency_sum: Counter,
}

impl Default for QueryStats {
    fn default() -> Self {
        use std::array::from_fn;
        QueryStats {
            queries: from_fn(|_| from_fn(|_| Counter::default())),
            replies: from_fn(|_| from_fn(|_| Counter::default())),
            sizes: from_fn(|_| from_fn(|_| Counter::default())),
            bytes_out: from_fn(|_| Counter::default()),
            bytes_in: from_fn(|_| Counter::default()),
            failures: from_fn(|_| Counter::default()),
            truncated: Counter::default(),
            dropped: Counter::default(),
            dnssec_ok: Counter::default(),
            pending: Counter::default(),
            late: Counter::default(),
            streams: Counter::default(),
            cache_hits: Counter::default(),
            cache_negative: Counter::default(),
            hashing_refused: Counter::default(),
            access_refused: Counter::default(),
            access_dropped: Counter::default(),
            access_truncated: Counter::default(),
            zone_refused: Counter::default(),
            zone_chains_ended: Counter::default(),
            cookies: from_fn(|_| Counter::default()),
            limited: from_fn(|_| from_fn(|_| Counter::default())),
            latency: from_fn(|_| Counter::default()),
            latency_sum: Counter::default(),
        }
    }
}

/// Returns the index in [`QueryStats::queries`] that counts `qtype`.
#[inline]
pub fn type_place(qtype: Type) -> usize {
    match qtype {
        Type(n @ 0..=127) => n as usize,
        Type::URI => 128,
        Type::CAA => 129,
        _ => TYPES - 1,
    }
}

/// Returns the label of an index in [`QueryStats::queries`].
pub fn place_label(place: usize) -> String {
    match place {
        128 => Type::URI.to_string(),
        129 => Type::CAA.to_string(),
        n if n < 128 => Type(n as u16).to_string(),
        _ => "other".into(),
    }
}

impl QueryStats {
    /// Counts a parsed query.
    #[inline]
    pub(crate) fn query(&self, transport: Transport, qtype: Option<Type>, len: usize, dnssec_ok: bool) {
        let place = qtype.map_or(TYPES - 1, type_place);
        self.queries[transport.index()][place].add(1);
        self.bytes_in[transport.index()].add(len as u64);
        self.dnssec_ok.add(dnssec_ok as u64);
    }

    /// Counts a reply of `len` bytes.
    #[inline]
    pub(crate) fn reply(&self, transport: Transport, rcode: u16, truncated: bool, len: usize) {
        let t = transport.index();
        self.replies[t][(rcode as usize).min(RCODES - 1)].add(1);
        let place = SIZE_BOUNDS.iter().position(|&bound| len <= bound).unwrap_or(SIZE_BOUNDS.len());
        self.sizes[t][place].add(1);
        self.bytes_out[t].add(len as u64);
        self.truncated.add(truncated as u64);
    }

    /// Counts a reply with a cookie.
    pub(crate) fn cookie(&self, standing: CookieStanding) {
        let place = COOKIE_STANDINGS.iter().position(|listed| *listed == standing);
        if let Some(counter) = place.and_then(|place| self.cookies.get(place)) {
            counter.add(1);
        }
    }

    /// Counts a reply that is over a limit.
    pub(crate) fn limited(&self, kind: ReplyKind, action: LimitAction) {
        self.limited[kind.index()][action.index()].add(1);
    }

    /// Counts a reply with SERVFAIL.
    pub(crate) fn failure(&self, info: Option<ErrorInfo>) {
        let place = info.map_or(INFO_CODES + 1, |info| usize::from(info.0).min(INFO_CODES));
        self.failures[place].add(1);
    }

    /// Counts the time that a batch of `queries` took.
    #[inline]
    pub fn batch(&self, took: Duration, queries: usize) {
        let nanos = took.as_nanos() as u64;
        let place = LATENCY_BOUNDS.iter().position(|&bound| nanos <= bound).unwrap_or(LATENCY_BOUNDS.len());
        self.latency[place].add(queries as u64);
        self.latency_sum.add(nanos.wrapping_mul(queries as u64));
    }
}
