//! Counters of recursive service, with the names that commands and metrics share.

use super::Recursive;

/// A counter: its name, its description, and its value.
pub(super) type Described = (&'static str, &'static str, u64);

/// Returns the name and value of every counter without labels.
pub fn counts(recursive: &Recursive) -> Vec<(&'static str, u64)> {
    recursion_counts(recursive).into_iter().map(|(name, _, value)| (name, value)).collect()
}

/// Returns every counter without labels, with its description.
pub fn recursion_counts(recursive: &Recursive) -> Vec<Described> {
    [
        &service_counts(recursive)[..],
        &validation_counts(recursive)[..],
        &forward_counts(recursive)[..],
        &suspect_counts(recursive)[..],
    ]
    .concat()
}

/// Returns the counters of the service and its cache.
fn service_counts(recursive: &Recursive) -> [Described; 17] {
    let stats = recursive.service.stats();
    let cache = recursive.service.cache().stats();
    [
        (
            "cache_misses",
            "Queries that the cache did not answer, so that other servers were queried",
            stats.misses.get(),
        ),
        (
            "cache_nxdomain_above",
            "Queries answered NXDOMAIN from the cache because a name above does not exist",
            stats.nxdomain_above.get(),
        ),
        (
            "cache_denied",
            "Queries with a negative answer from cached NSEC or NSEC3 records (aggressive-nsec)",
            stats.denied.get(),
        ),
        (
            "cache_expanded",
            "Queries answered from cached records of a wildcard (aggressive-nsec)",
            stats.expanded.get(),
        ),
        (
            "cache_redirected",
            "Queries redirected by a cached DNAME (aggressive-nsec)",
            stats.redirected.get(),
        ),
        (
            "cache_denial_hashes",
            "SHA-1 blocks hashed to answer queries from cached NSEC3 records (aggressive-nsec)",
            stats.denial_hashes.get(),
        ),
        (
            "cache_failures_served",
            "Queries answered with a cached failure (failure-ttl)",
            stats.remembered_failures.get(),
        ),
        (
            "cache_stale",
            "Queries answered from the cache with expired answers (serve-stale)",
            stats.stale.get(),
        ),
        (
            "cache_prefetched",
            "Popular answers refreshed before they expired (prefetch)",
            stats.prefetched.get(),
        ),
        ("cache_inserts", "Answers stored in the cache", cache.inserts),
        ("cache_evictions", "Answers evicted from the cache to make room", cache.evictions),
        (
            "recursion_refused",
            "Queries refused because the client may not use recursion",
            stats.refused.get(),
        ),
        ("recursion_local", "Queries answered locally: special-use names and local-data", stats.local.get()),
        ("recursion_synthesized", "Answers with AAAA records synthesized by DNS64", stats.synthesized.get()),
        ("policy_server_lookups_refused", "Lookups beyond ns-lookups", stats.ns_lookups_refused.get()),
        ("recursion_withheld", "Answers withheld because of private-addresses", stats.withheld.get()),
        (
            "error_reports",
            "Reports sent about names that could not be resolved or validated (error-reporting)",
            stats.reports.sent.get(),
        ),
    ]
}

/// Returns the counters of validation.
fn validation_counts(recursive: &Recursive) -> [Described; 14] {
    let validation = &recursive.service.stats().validation;
    [
        ("validation_secure", "Answers of other servers found secure", validation.secure.get()),
        ("validation_insecure", "Answers of other servers proven to be unsigned", validation.insecure.get()),
        ("validation_bogus", "Answers of other servers found bogus", validation.bogus.get()),
        (
            "validation_indeterminate",
            "Answers of other servers without a trust anchor",
            validation.indeterminate.get(),
        ),
        (
            "validation_recalled",
            "Answers whose status was known from cached data of their zones, so that no validating thread \
            was needed",
            validation.recalled.get(),
        ),
        (
            "validation_overspent",
            "Answers that counted as bogus because validation exceeded its limits",
            validation.overspent.get(),
        ),
        (
            "validation_unfinished",
            "Answers whose DS or DNSKEY records could not be fetched",
            validation.unfinished.get(),
        ),
        ("validation_signatures", "Signatures verified", validation.signatures.get()),
        (
            "validation_signature_failures",
            "Signatures that failed to verify",
            validation.failed_signatures.get(),
        ),
        ("validation_fetches", "Queries for DS and DNSKEY", validation.fetches.get()),
        (
            "validation_referrals",
            "DS records, or proofs of their absence, taken from referrals, which saved a query",
            validation.referrals.get(),
        ),
        (
            "validation_again",
            "Answers, DS and DNSKEY fetched from another server because the first ones were bogus",
            validation.again.get(),
        ),
        (
            "validation_mended",
            "Answers that were bogus at first, replaced by valid ones of another server",
            validation.mended.get(),
        ),
        (
            "validation_shed",
            "Clients refused because too many waited for validation (validations)",
            validation.shed.get(),
        ),
    ]
}

/// Returns the counters of lookups at other servers.
fn forward_counts(recursive: &Recursive) -> [Described; 15] {
    let forward = &recursive.forward;
    [
        ("forward_lookups", "Lookups that queried other servers", forward.lookups.get()),
        ("forward_joined", "Clients that joined a lookup in flight", forward.joined.get()),
        ("forward_answered", "Lookups that ended with an answer", forward.answered.get()),
        ("forward_failed", "Lookups that ended without an answer", forward.failed.get()),
        (
            "forward_sockets_exhausted",
            "Sockets to other servers that were not opened because no file descriptor was left",
            recursive.link_counts().exhausted.get(),
        ),
        ("forward_referrals", "Referrals followed to the servers of another zone", forward.referrals.get()),
        (
            "forward_local_root",
            "Steps of lookups answered by the copy of the root zone instead of root servers (local-root)",
            forward.copied.get(),
        ),
        (
            "local_root_fallbacks",
            "Steps of lookups that queried the root servers because no copy of the root zone could be used \
            (local-root)",
            recursive.local_root.fallbacks(),
        ),
        (
            "forward_address_lookups",
            "Lookups of addresses of servers, on behalf of other lookups",
            forward.address_lookups.get(),
        ),
        (
            "forward_parents_asked",
            "Queries to servers of parent zones for the delegation of a zone whose servers failed, or for \
            their addresses",
            forward.parents_asked.get(),
        ),
        (
            "forward_recursive_answers",
            "Answers accepted from servers that offer recursion and are not authoritative, because every \
            other server of the zone failed",
            forward.recursive.get(),
        ),
        (
            "forward_dead",
            "Lookups that failed within 50 ms because no server of their rule has answered for some time",
            forward.dead.get(),
        ),
        (
            "forward_instead",
            "Lookups repeated from the root servers because the servers of their rule had no answer \
            (forward-first)",
            forward.instead.get(),
        ),
        (
            "forward_overspent",
            "Lookups ended because their client's query exceeded its budget (budget-…)",
            forward.overspent.get(),
        ),
        (
            "forward_timed_out",
            "Clients that timed out before there was an answer (client-timeout, budget-time)",
            forward.timed_out.get(),
        ),
    ]
}

/// Returns the counters of replies that may be forged.
fn suspect_counts(recursive: &Recursive) -> [Described; 5] {
    let suspects = &recursive.forward.suspects;
    [
        ("forward_wrong_id", "Replies dropped because of a wrong ID", suspects.id.get()),
        ("forward_wrong_question", "Replies dropped because of a wrong question", suspects.question.get()),
        (
            "forward_wrong_case",
            "Replies dropped because of a wrong letter case in the question (mixed-case)",
            suspects.case.get(),
        ),
        ("forward_wrong_cookie", "Replies dropped because of a wrong cookie", suspects.cookie.get()),
        ("forward_unreadable", "Replies dropped because they are malformed", suspects.unreadable.get()),
    ]
}
