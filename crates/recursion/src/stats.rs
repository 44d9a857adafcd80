//! Counters of queries that miss the cache. All threads share them: such queries are rare enough.

use crate::count::SharedCount;
use crate::failures::FailureCounts;

/// Outcomes of queries outside the zones served here that were not cache hits on the query path.
#[derive(Debug, Default)]
pub struct RecursionStats {
    /// Queries refused because the client may not use recursion.
    pub refused: SharedCount,
    /// Answered with special-use names or local data.
    pub local: SharedCount,
    /// Queries that were passed to the resolver because the answer was not in the cache.
    pub misses: SharedCount,
    /// Queries answered NXDOMAIN because of a cached NXDOMAIN for an ancestor (RFC 8020).
    pub nxdomain_above: SharedCount,
    /// Queries denied by cached proofs for other names (RFC 8198).
    pub denied: SharedCount,
    /// Queries answered from a cached wildcard that was received for another name (RFC 8198).
    pub expanded: SharedCount,
    /// Queries redirected by a DNAME that was cached for another name (RFC 6672 §3.4).
    pub redirected: SharedCount,
    /// SHA-1 blocks hashed to use cached NSEC3 records that way.
    pub denial_hashes: SharedCount,
    /// Queries answered with a cached failure (RFC 9520).
    pub remembered_failures: SharedCount,
    /// Queries answered with an expired answer (RFC 8767).
    pub stale: SharedCount,
    /// Popular answers refreshed before they expired.
    pub prefetched: SharedCount,
    /// Answers with AAAA records synthesized from A records (RFC 6147).
    pub synthesized: SharedCount,
    /// Answers withheld because of private addresses in them.
    pub withheld: SharedCount,
    /// Lookups of name servers that a query did not get, because of the limit for one query.
    pub ns_lookups_refused: SharedCount,
    /// Requests shed because the resolver's queue was full.
    pub shed: SharedCount,
    /// Clients that received SERVFAIL, by cause.
    pub failures: FailureCounts,
    /// Results of validation.
    pub validation: ValidationStats,
    /// Error reports.
    pub reports: ReportStats,
}

/// Why a failure is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// The agent domain is in the failed zone, which RFC 9567 §8.1 forbids: the failure would affect the
    /// report.
    Agent,
    /// The failed query is itself a report.
    Report,
    /// The report's name would have more than 255 bytes (RFC 9567 §6.1.1).
    Length,
    /// The agent domain is a local name, or no rule covers it.
    Local,
    /// It was reported recently, or the answer to the report is still in the cache.
    Repeated,
    /// The limit of reports per second is reached.
    Rate,
    /// The resolver's queue is full.
    Queue,
}

impl Unreported {
    /// Every reason with its label.
    pub const ALL: [(Unreported, &str); 7] = [
        (Unreported::Agent, "agent"),
        (Unreported::Report, "report"),
        (Unreported::Length, "length"),
        (Unreported::Local, "local"),
        (Unreported::Repeated, "repeated"),
        (Unreported::Rate, "rate"),
        (Unreported::Queue, "queue"),
    ];
}

/// Error reports to the agents that the zones' servers name (RFC 9567).
#[derive(Debug, Default)]
pub struct ReportStats {
    /// Reports sent.
    pub sent: SharedCount,
    unreported: [SharedCount; Unreported::ALL.len()],
}

impl ReportStats {
    /// Returns how many reports were not sent for the reason `why`.
    pub fn unreported(&self, why: Unreported) -> &SharedCount {
        let [agent, report, length, local, repeated, rate, queue] = &self.unreported;
        match why {
            Unreported::Agent => agent,
            Unreported::Report => report,
            Unreported::Length => length,
            Unreported::Local => local,
            Unreported::Repeated => repeated,
            Unreported::Rate => rate,
            Unreported::Queue => queue,
        }
    }
}

/// Results of validation. Each answer counts once, however many clients wait for it.
#[derive(Debug, Default)]
pub struct ValidationStats {
    /// Secure answers.
    pub secure: SharedCount,
    /// Insecure answers: proven to be unsigned.
    pub insecure: SharedCount,
    /// Bogus answers.
    pub bogus: SharedCount,
    /// Indeterminate answers: no trust anchor above, or of a type that cannot be signed.
    pub indeterminate: SharedCount,
    /// Answers whose state followed from cached keys of their zones, without being queued for validation.
    pub recalled: SharedCount,
    /// Bogus answers because validation would have exceeded the budget of one query.
    pub overspent: SharedCount,
    /// Answers not validated because DS or DNSKEY records could not be fetched.
    pub unfinished: SharedCount,
    /// Signatures verified.
    pub signatures: SharedCount,
    /// Signatures that failed verification.
    pub failed_signatures: SharedCount,
    /// Queries for DS and DNSKEY.
    pub fetches: SharedCount,
    /// DS records, or proofs of their absence, that came with referrals and so needed no query.
    pub referrals: SharedCount,
    /// Answers, DS and DNSKEY fetched from another server of the zone because the first answer was bogus.
    pub again: SharedCount,
    /// Bogus answers that were replaced by a good one from another server.
    pub mended: SharedCount,
    /// Clients shed because too many waited for validation.
    pub shed: SharedCount,
}
