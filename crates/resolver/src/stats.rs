//! The resolver's counters. One thread increments, any thread reads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use transport::{Counter, ENCRYPTION_FAULTS, EncryptionFault};

use crate::config::{Upstream, UpstreamTransport};
use crate::outcome::ShedReason;

/// Upper bounds of the buckets of [`UpstreamStats::rtt`] in milliseconds; the last bucket is unbounded.
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
    /// Queries sent over TLS.
    pub tls: Counter,
    /// Queries sent over HTTPS.
    pub https: Counter,
    /// Queries sent over QUIC.
    pub quic: Counter,
    /// Queries sent by Oblivious DoH.
    pub odoh: Counter,
    /// Of all, queries that only probe whether a failing server answers again.
    pub probes: Counter,
    /// Replies that matched their query, by round-trip time: see [`RTT_BUCKETS`].
    pub rtt: [Counter; RTT_BUCKETS.len()],
    /// The sum of the round-trip times, in microseconds.
    pub rtt_sum: Counter,
    /// Tries that were not answered in time.
    pub timeouts: Counter,
    /// Links that failed: refused, unreachable, reset.
    pub failures: Counter,
    /// Replies that matched but were useless: SERVFAIL, REFUSED, malformed.
    pub bad_replies: Counter,
    /// Encrypted connections opened by a full handshake.
    pub handshakes: Counter,
    /// Encrypted connections opened by the resumption of an earlier session.
    pub resumptions: Counter,
    /// Encrypted connections that could not be opened, and queries on them without a response, by
    /// [fault](EncryptionFault::index).
    pub encryption_faults: [Counter; ENCRYPTION_FAULTS],
    /// The index of the last of these faults, if no connection was opened and no reply came since; else
    /// [`ENCRYPTION_FAULTS`].
    last_fault: AtomicUsize,
    smoothed_rtt: Counter,
    failing: AtomicBool,
}

impl UpstreamStats {
    pub(crate) fn new(upstream: Upstream) -> Self {
        UpstreamStats {
            upstream,
            udp: Counter::default(),
            tcp: Counter::default(),
            tls: Counter::default(),
            https: Counter::default(),
            quic: Counter::default(),
            odoh: Counter::default(),
            probes: Counter::default(),
            rtt: Default::default(),
            rtt_sum: Counter::default(),
            timeouts: Counter::default(),
            failures: Counter::default(),
            bad_replies: Counter::default(),
            handshakes: Counter::default(),
            resumptions: Counter::default(),
            encryption_faults: std::array::from_fn(|_| Counter::default()),
            last_fault: AtomicUsize::new(ENCRYPTION_FAULTS),
            smoothed_rtt: Counter::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// Returns the counter of the queries sent by this transport.
    pub fn queries(&self, transport: UpstreamTransport) -> &Counter {
        match transport {
            UpstreamTransport::Udp => &self.udp,
            UpstreamTransport::Tcp => &self.tcp,
            UpstreamTransport::Tls => &self.tls,
            UpstreamTransport::Https => &self.https,
            UpstreamTransport::Quic => &self.quic,
            UpstreamTransport::Oblivious => &self.odoh,
        }
    }

    /// Returns the smoothed round-trip time (RFC 6298 §2), to the microsecond; `None` if never measured.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        Some(self.smoothed_rtt.get()).filter(|&micros| micros > 0).map(Duration::from_micros)
    }

    /// Whether the server is failing: it does not answer, or only with useless replies.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    /// Returns why no encrypted connection could be opened, or no reply came on it, if neither happened
    /// since.
    pub fn last_fault(&self) -> Option<EncryptionFault> {
        EncryptionFault::ALL.get(self.last_fault.load(Relaxed)).copied()
    }

    /// Counts an encrypted connection.
    pub(crate) fn secured(&self, resumed: bool) {
        let count = if resumed { &self.resumptions } else { &self.handshakes };
        count.add(1);
        self.mended();
    }

    /// Clears the last fault.
    pub(crate) fn mended(&self) {
        self.last_fault.store(ENCRYPTION_FAULTS, Relaxed);
    }

    /// Counts an encrypted connection that could not be opened, or a query on one that gets no response.
    pub(crate) fn insecure(&self, fault: EncryptionFault) {
        if let Some(count) = self.encryption_faults.get(fault.index()) {
            count.add(1);
        }
        self.last_fault.store(fault.index(), Relaxed);
    }

    /// Publishes the server's state.
    pub(crate) fn publish(&self, smoothed_rtt: Option<Duration>, failing: bool) {
        // Values below a microsecond count as one, since 0 means none.
        self.smoothed_rtt.set(smoothed_rtt.map_or(0, |rtt| (rtt.as_micros() as u64).max(1)));
        self.failing.store(failing, Relaxed);
    }

    /// Counts a reply with its round-trip time.
    pub(crate) fn replied(&self, after: Duration) {
        let bucket = RTT_BUCKETS.iter().position(|&ms| after <= Duration::from_millis(ms));
        if let Some(count) = bucket.and_then(|bucket| self.rtt.get(bucket)) {
            count.add(1);
        }
        self.rtt_sum.add(after.as_micros() as u64);
    }
}

/// Messages that did not match the query on their socket, as off-path attackers send them.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Wrong ID.
    pub id: Counter,
    /// Wrong question.
    pub question: Counter,
    /// QNAME in a different letter case.
    pub case: Counter,
    /// Wrong client cookie, or none where the server is known to send it.
    pub cookie: Counter,
    /// Not a response, or malformed.
    pub unreadable: Counter,
}

/// Counters of one encrypted transport of authoritative servers.
#[derive(Debug, Default)]
pub struct OpportunisticCounts {
    /// Queries sent over it, probes apart.
    pub queries: Counter,
    /// Probes sent.
    pub probes: Counter,
    /// Probes with a useful reply.
    pub successes: Counter,
    /// Probes without one: no connection, or a useless reply.
    pub failures: Counter,
    /// Probes without a reply in time.
    pub timeouts: Counter,
    /// Queries sent in the clear after all, since they got no useful reply over it.
    pub fallbacks: Counter,
}

/// Counters of opportunistic encryption (RFC 9539).
#[derive(Debug, Default)]
pub struct OpportunisticStats {
    /// Over TLS.
    pub tls: OpportunisticCounts,
    /// Over QUIC.
    pub quic: OpportunisticCounts,
    /// Probes in flight now.
    pub in_flight: Counter,
    /// Probes that were not sent, since too many were in flight.
    pub suppressed: Counter,
}

impl OpportunisticStats {
    /// Returns the counters of a transport.
    pub(crate) fn of(&self, transport: UpstreamTransport) -> &OpportunisticCounts {
        if transport == UpstreamTransport::Quic { &self.quic } else { &self.tls }
    }
}

/// The resolver's counters.
#[derive(Debug, Default)]
pub struct ForwardStats {
    upstreams: Mutex<Vec<Arc<UpstreamStats>>>,
    /// Lookups started.
    pub lookups: Counter,
    /// Lookups in flight now.
    pub in_flight: Counter,
    /// Clients that joined a lookup in flight.
    pub joined: Counter,
    /// Lookups that ended with an answer.
    pub answered: Counter,
    /// Lookups that ended without one.
    pub failed: Counter,
    /// Clients whose deadline passed.
    pub timed_out: Counter,
    /// Clients shed, by limit: per prefix, per lookup, per rule, all lookups, per zone.
    pub shed: [Counter; 5],
    /// Referrals followed.
    pub referrals: Counter,
    /// Steps of lookups that a local copy of a zone answered, instead of the zone's servers.
    pub copied: Counter,
    /// Lookups of name servers' addresses, which no client requested.
    pub address_lookups: Counter,
    /// Lookups that ended because their client's query exceeded its budget.
    pub overspent: Counter,
    /// Answers that are not authoritative, from servers that offer recursion, used because every other server
    /// of the zone failed.
    pub recursive: Counter,
    /// Queries to the servers of a parent zone because the zone's own servers failed: for its delegation or
    /// their addresses.
    pub parents_asked: Counter,
    /// Lookups with a shortened wait, since all servers of their rule are known to be dead.
    pub dead: Counter,
    /// Lookups restarted by iteration because the servers of their rule had no answer.
    pub instead: Counter,
    /// Bytes of cached delegations.
    pub delegation_bytes: Counter,
    /// Messages that may have been forged.
    pub suspects: Suspects,
    /// Encryption of queries to authoritative servers.
    pub opportunistic: OpportunisticStats,
}

impl ForwardStats {
    /// Returns the servers of the current rules, each once, in the rules' order.
    pub fn upstreams(&self) -> Vec<Arc<UpstreamStats>> {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the servers.
    pub(crate) fn set_upstreams(&self, upstreams: Vec<Arc<UpstreamStats>>) {
        *self.upstreams.lock().unwrap_or_else(PoisonError::into_inner) = upstreams;
    }

    /// Returns the counter of clients shed for this reason; `None` if the resolver does not count it.
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
