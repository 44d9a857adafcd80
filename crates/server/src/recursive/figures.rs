//! What recursive service counts, under one set of names for commands and metrics.

use super::Recursive;

/// Every counter that has no labels: its name and value.
pub fn counts(recursive: &Recursive) -> Vec<(&'static str, u64)> {
    recursion_counts(recursive).into_iter().map(|(name, _, value)| (name, value)).collect()
}

/// The same with what they count.
pub fn recursion_counts(recursive: &Recursive) -> [(&'static str, &'static str, u64); 35] {
    let stats = recursive.service.stats();
    let forward = &recursive.forward;
    let cache = recursive.service.cache().stats();
    let suspects = &forward.suspects;
    let validation = &stats.validation;
    [
        ("cache_misses", "Questions that other servers had to be asked", stats.misses.get()),
        ("cache_nxdomain_above", "Denied because a name above does not exist", stats.nxdomain_above.get()),
        (
            "cache_failures_served",
            "Answered with a failure that is remembered",
            stats.remembered_failures.get(),
        ),
        ("cache_stale", "Answered with what had expired", stats.stale.get()),
        ("cache_prefetched", "Answers in use fetched anew before they expired", stats.prefetched.get()),
        ("cache_inserts", "Answers kept", cache.inserts),
        ("cache_evictions", "Answers dropped to make room", cache.evictions),
        ("recursion_refused", "Questions of clients who may not have others asked", stats.refused.get()),
        ("recursion_local", "Answered with special-use names or local data", stats.local.get()),
        ("recursion_synthesized", "Answers with addresses made by DNS64", stats.synthesized.get()),
        ("recursion_withheld", "Answers withheld because of private addresses", stats.withheld.get()),
        ("recursion_failures", "Clients told that there is no answer", stats.failures.get()),
        ("validation_secure", "Answers found secure", validation.secure.get()),
        ("validation_insecure", "Answers proven not to be signed", validation.insecure.get()),
        ("validation_bogus", "Answers found bogus", validation.bogus.get()),
        ("validation_indeterminate", "Answers that no trust anchor is for", validation.indeterminate.get()),
        ("validation_overspent", "Bogus answers that were too much work", validation.overspent.get()),
        ("validation_unfinished", "Answers whose DS or DNSKEY could not be had", validation.unfinished.get()),
        ("validation_signatures", "Signatures verified", validation.signatures.get()),
        ("validation_signature_failures", "Signatures that are not good", validation.failed_signatures.get()),
        ("validation_fetches", "Questions for DS and DNSKEY", validation.fetches.get()),
        ("validation_shed", "Clients turned away since too many waited", validation.shed.get()),
        ("forward_lookups", "Lookups started", forward.lookups.get()),
        ("forward_joined", "Clients who joined a lookup in flight", forward.joined.get()),
        ("forward_answered", "Lookups that ended with an answer", forward.answered.get()),
        ("forward_failed", "Lookups that ended without", forward.failed.get()),
        ("forward_referrals", "Referrals followed", forward.referrals.get()),
        ("forward_address_lookups", "Lookups of servers' addresses", forward.address_lookups.get()),
        (
            "forward_overspent",
            "Lookups ended since their client's query had cost enough",
            forward.overspent.get(),
        ),
        ("forward_timed_out", "Clients whose time was over", forward.timed_out.get()),
        ("forward_wrong_id", "Messages with another ID than was sent", suspects.id.get()),
        ("forward_wrong_question", "Messages with another question", suspects.question.get()),
        ("forward_wrong_case", "Messages with the name in another letter case", suspects.case.get()),
        ("forward_wrong_cookie", "Messages with another cookie", suspects.cookie.get()),
        ("forward_unreadable", "Messages that cannot be read", suspects.unreadable.get()),
    ]
}
