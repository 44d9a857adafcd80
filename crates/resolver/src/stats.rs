//! What has been counted. One thread adds, any thread reads.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exchange::Counter;

use crate::config::Upstream;
use crate::outcome::ShedReason;

/// Upper ends of the buckets of [`UpstreamStats::rtt`] in milliseconds; the last bucket has no end.
pub const RTT_BUCKETS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, u64::MAX];

/// Counters and state of one upstream server.
#[derive(Debug)]
pub struct UpstreamStats {
    /// The server.
    pub upstream: Upstream,
    /// Queries sent by UDP.
    pub udp: Counter,
    /// Queries sent over TCP.
    pub tcp: Counter,
    /// Of both, those that only probe whether a server answers again.
    pub probes: Counter,
    /// Replies that fitted their query, by their time: see [`RTT_BUCKETS`].
    pub rtt: [Counter; RTT_BUCKETS.len()],
    /// The sum of these times, in microseconds.
    pub rtt_sum: Counter,
    /// Tries that were not answered in time.
    pub timeouts: Counter,
    /// Links that failed: refused, unreachable, reset.
    pub failures: Counter,
    /// Replies that fitted but could not be used: SERVFAIL, REFUSED, what is malformed.
    pub bad_replies: Counter,
    smoothed_rtt: Counter,
    failing: AtomicBool,
}

impl UpstreamStats {
    pub(crate) fn new(upstream: Upstream) -> Self {
        UpstreamStats {
            upstream,
            udp: Counter::default(),
            tcp: Counter::default(),
            probes: Counter::default(),
            rtt: Default::default(),
            rtt_sum: Counter::default(),
            timeouts: Counter::default(),
            failures: Counter::default(),
            bad_replies: Counter::default(),
            smoothed_rtt: Counter::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// The smoothed round-trip time (RFC 6298 §2), to the microsecond; `None` if it was never measured.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        Some(self.smoothed_rtt.get()).filter(|&micros| micros > 0).map(Duration::from_micros)
    }

    /// Whether the server does not answer at the moment, or nothing of use.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    /// What is known of the server now.
    pub(crate) fn publish(&self, smoothed_rtt: Option<Duration>, failing: bool) {
        // Less than a microsecond is one.
        self.smoothed_rtt.set(smoothed_rtt.map_or(0, |rtt| (rtt.as_micros() as u64).max(1)));
        self.failing.store(failing, Relaxed);
    }

    /// A reply has come, after so long.
    pub(crate) fn replied(&self, after: Duration) {
        let bucket = RTT_BUCKETS.iter().position(|&ms| after <= Duration::from_millis(ms));
        if let Some(count) = bucket.and_then(|bucket| self.rtt.get(bucket)) {
            count.add(1);
        }
        self.rtt_sum.add(after.as_micros() as u64);
    }
}

/// Messages that did not fit the query they came for: what a forger sends.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Another ID.
    pub id: Counter,
    /// Another question.
    pub question: Counter,
    /// The name in another letter case.
    pub case: Counter,
    /// Another client cookie, or none where the server is known to send it.
    pub cookie: Counter,
    /// No response, or nothing that can be read.
    pub unreadable: Counter,
}

/// The resolver's counters.
#[derive(Debug)]
pub struct ForwardStats {
    upstreams: Mutex<Vec<Arc<UpstreamStats>>>,
    /// Lookups started.
    pub lookups: Counter,
    /// Lookups in flight at the moment.
    pub in_flight: Counter,
    /// Clients that joined a lookup in flight.
    pub joined: Counter,
    /// Lookups that ended with an answer.
    pub answered: Counter,
    /// Lookups that ended without one.
    pub failed: Counter,
    /// Clients whose time was over.
    pub timed_out: Counter,
    /// Clients shed, by reason: their prefix, the lookup, the rule, all lookups, the zone.
    pub shed: [Counter; 5],
    /// Referrals followed.
    pub referrals: Counter,
    /// Steps of lookups that a copy of a zone on this machine has answered, so that none of its servers was
    /// asked.
    pub copied: Counter,
    /// Lookups of servers' addresses, which no client has asked for.
    pub address_lookups: Counter,
    /// Lookups that ended since their client's query had cost enough.
    pub overspent: Counter,
    /// Answers from servers that offer recursion and are not authoritative, since every other server of the
    /// zone failed.
    pub recursive: Counter,
    /// Questions to the servers of zones above a zone whose servers failed: for its delegation or their
    /// addresses.
    pub parents_asked: Counter,
    /// Lookups that were not given more than a moment, since all servers of their rule are known not to
    /// answer.
    pub dead: Counter,
    /// Lookups that were begun anew, step by step, since the servers of their rule had no answer.
    pub instead: Counter,
    /// Bytes of what is known of delegations.
    pub delegation_bytes: Counter,
    /// What may have been forged.
    pub suspects: Suspects,
}

impl ForwardStats {
    pub(crate) fn new() -> Self {
        ForwardStats {
            upstreams: Mutex::default(),
            lookups: Counter::default(),
            in_flight: Counter::default(),
            joined: Counter::default(),
            answered: Counter::default(),
            failed: Counter::default(),
            timed_out: Counter::default(),
            shed: Default::default(),
            referrals: Counter::default(),
            copied: Counter::default(),
            address_lookups: Counter::default(),
            overspent: Counter::default(),
            recursive: Counter::default(),
            parents_asked: Counter::default(),
            dead: Counter::default(),
            instead: Counter::default(),
            delegation_bytes: Counter::default(),
            suspects: Suspects::default(),
        }
    }

    /// The servers of the rules in force, each once, in the order in which the rules name them.
    pub fn upstreams(&self) -> Vec<Arc<UpstreamStats>> {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The servers are others now.
    pub(crate) fn set_upstreams(&self, upstreams: Vec<Arc<UpstreamStats>>) {
        *self.upstreams.lock().unwrap_or_else(PoisonError::into_inner) = upstreams;
    }

    /// The counter of clients shed for this reason; none if that is not for the resolver to count.
    pub fn shed(&self, reason: ShedReason) -> Option<&Counter> {
        let [prefix, clients, rule, lookups, zone] = &self.shed;
        match reason {
            ShedReason::ClientPrefix => Some(prefix),
            ShedReason::Clients => Some(clients),
            ShedReason::Rule => Some(rule),
            ShedReason::Lookups => Some(lookups),
            ShedReason::Zone => Some(zone),
            ShedReason::Queue => None,
        }
    }
}
