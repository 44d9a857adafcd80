//! What is counted on the way past memory. Any thread adds; that is rare enough to share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::failures::FailureCounts;
use crate::reports::Unreported;

/// A number that any thread adds to.
#[derive(Debug, Default)]
pub struct SharedCount(AtomicU64);

impl SharedCount {
    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self) {
        self.add_many(1);
    }

    pub(crate) fn add_many(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }
}

/// What became of questions that no zone here answers and that were not answered from the cache at once.
#[derive(Debug, Default)]
pub struct RecursionStats {
    /// Clients refused: they may not have others asked.
    pub refused: SharedCount,
    /// Answered with special-use names or local data.
    pub local: SharedCount,
    /// Not in the cache: other servers were asked.
    pub misses: SharedCount,
    /// Denied because a name above is known not to exist (RFC 8020).
    pub nxdomain_above: SharedCount,
    /// Denied by what was proven for another name (RFC 8198).
    pub denied: SharedCount,
    /// Answered with records of a wildcard that other names have, too (RFC 8198).
    pub expanded: SharedCount,
    /// Redirected by a DNAME that was known from another name (RFC 6672 §3.4).
    pub redirected: SharedCount,
    /// SHA-1 blocks hashed for NSEC3 to deny or answer so.
    pub denial_hashes: SharedCount,
    /// Answered with a failure that is remembered (RFC 9520).
    pub remembered_failures: SharedCount,
    /// Answered with what had expired (RFC 8767).
    pub stale: SharedCount,
    /// Answers fetched anew before they expired, since they are in use.
    pub prefetched: SharedCount,
    /// Answers with addresses made of IPv4 ones (RFC 6147).
    pub synthesized: SharedCount,
    /// Answers withheld because of private addresses in them.
    pub withheld: SharedCount,
    /// Shed because too many requests waited for the resolver that asks other servers.
    pub shed: SharedCount,
    /// Clients that got SERVFAIL, by cause.
    pub failures: FailureCounts,
    /// What came of validating.
    pub validation: ValidationStats,
    /// What was reported of failures.
    pub reports: ReportStats,
}

/// What was reported of failures to whom the servers of the zone name (RFC 9567).
#[derive(Debug, Default)]
pub struct ReportStats {
    /// Reports sent.
    pub sent: SharedCount,
    unreported: [SharedCount; Unreported::ALL.len()],
}

impl ReportStats {
    /// What was not reported for this reason.
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

/// What became of answers that were to be validated; each counts once, however many clients wait for it.
#[derive(Debug, Default)]
pub struct ValidationStats {
    /// Found secure.
    pub secure: SharedCount,
    /// Proven not to be secured.
    pub insecure: SharedCount,
    /// Found bogus.
    pub bogus: SharedCount,
    /// Without a trust anchor above, or of a kind that cannot be signed.
    pub indeterminate: SharedCount,
    /// Answers whose state followed from what was known of their zones, so that they were not queued for
    /// validation.
    pub recalled: SharedCount,
    /// Of the bogus ones those that would have taken more work than one query may cost.
    pub overspent: SharedCount,
    /// Not validated since DS or DNSKEY could not be had.
    pub unfinished: SharedCount,
    /// Signatures that were verified.
    pub signatures: SharedCount,
    /// Of these, those that were not good.
    pub failed_signatures: SharedCount,
    /// Questions for DS and DNSKEY.
    pub fetches: SharedCount,
    /// DS, or proofs that there are none, that referrals brought, so that no server had to be asked.
    pub referrals: SharedCount,
    /// Answers, DS and DNSKEY that another server of the zone had, asked since what came first was bogus.
    pub again: SharedCount,
    /// Answers that were bogus at first and that another server had good ones in place of.
    pub mended: SharedCount,
    /// Clients turned away since too many waited already.
    pub shed: SharedCount,
}
