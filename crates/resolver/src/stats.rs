//! What has been counted. One thread adds, any thread reads.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::config::Upstream;
use crate::inquiry::ShedReason;

/// A number that only grows, or with `set` one that is as it is.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn set(&self, n: usize) {
        self.0.store(n as u64, Relaxed);
    }
}

/// Upper ends of the buckets of [`UpstreamStats::rtt`] in milliseconds; the last bucket has no end.
pub const RTT_BUCKETS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, u64::MAX];

/// Counters of one upstream server.
#[derive(Debug)]
pub struct UpstreamStats {
    /// The server.
    pub address: SocketAddr,
    /// Queries sent by UDP.
    pub udp: Count,
    /// Queries sent over TCP.
    pub tcp: Count,
    /// Of both, those that only probe whether a server answers again.
    pub probes: Count,
    /// Replies that fitted their query, by their time: see [`RTT_BUCKETS`].
    pub rtt: [Count; RTT_BUCKETS.len()],
    /// Tries that were not answered in time.
    pub timeouts: Count,
    /// Links that failed: refused, unreachable, reset.
    pub failures: Count,
    /// Replies that fitted but could not be used: SERVFAIL, REFUSED, what is malformed.
    pub bad_replies: Count,
}

impl UpstreamStats {
    fn new(upstream: &Upstream) -> Self {
        UpstreamStats {
            address: upstream.address,
            udp: Count::default(),
            tcp: Count::default(),
            probes: Count::default(),
            rtt: Default::default(),
            timeouts: Count::default(),
            failures: Count::default(),
            bad_replies: Count::default(),
        }
    }

    pub(crate) fn replied(&self, after: Duration) {
        let bucket = RTT_BUCKETS.iter().position(|&ms| after <= Duration::from_millis(ms));
        if let Some(count) = bucket.and_then(|bucket| self.rtt.get(bucket)) {
            count.add();
        }
    }
}

/// Messages that did not fit the query they came for: what a forger sends.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Another ID.
    pub id: Count,
    /// Another question.
    pub question: Count,
    /// The name in another letter case.
    pub case: Count,
    /// Another client cookie, or none where the server is known to send it.
    pub cookie: Count,
    /// No response, or nothing that can be read.
    pub unreadable: Count,
}

/// The forwarder's counters.
#[derive(Debug)]
pub struct ForwardStats {
    /// By server, each once.
    pub upstreams: Vec<UpstreamStats>,
    /// Lookups started.
    pub lookups: Count,
    /// Lookups in flight at the moment.
    pub in_flight: Count,
    /// Clients that joined a lookup in flight.
    pub joined: Count,
    /// Lookups that ended with an answer.
    pub answered: Count,
    /// Lookups that ended without one.
    pub failed: Count,
    /// Clients whose time was over.
    pub timed_out: Count,
    /// Clients shed, by reason: their prefix, the lookup, the rule, all lookups.
    pub shed: [Count; 4],
    /// What may have been forged.
    pub suspects: Suspects,
}

impl ForwardStats {
    pub(crate) fn new(upstreams: &[Upstream]) -> Self {
        ForwardStats {
            upstreams: upstreams.iter().map(UpstreamStats::new).collect(),
            lookups: Count::default(),
            in_flight: Count::default(),
            joined: Count::default(),
            answered: Count::default(),
            failed: Count::default(),
            timed_out: Count::default(),
            shed: Default::default(),
            suspects: Suspects::default(),
        }
    }

    /// The counter of clients shed for this reason.
    pub fn shed(&self, reason: ShedReason) -> &Count {
        let [prefix, clients, rule, lookups] = &self.shed;
        match reason {
            ShedReason::ClientPrefix => prefix,
            ShedReason::Clients => clients,
            ShedReason::Rule => rule,
            ShedReason::Lookups => lookups,
        }
    }
}
