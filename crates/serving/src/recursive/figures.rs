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
fn service_counts(recursive: &Recursive) -> [Described; 16] {
    let stats = recursive.service.stats();
    let cache = recursive.service.cache().stats();
    [
        (
            "cache_misses",
            "Questions that the cache did not answer: other servers were asked",
            stats.misses.get(),
        ),
        (
            "cache_nxdomain_above",
            "Questions denied from the cache because a name above does not exist",
            stats.nxdomain_above.get(),
        ),
        (
            "cache_denied",
            "Questions denied by what NSEC or NSEC3 records of other answers prove (aggressive-nsec)",
            stats.denied.get(),
        ),
        (
            "cache_expanded",
            "Questions answered with records of a wildcard that were known from other names \
            (aggressive-nsec)",
            stats.expanded.get(),
        ),
        (
            "cache_redirected",
            "Questions redirected by a DNAME that was known from other names (aggressive-nsec)",
            stats.redirected.get(),
        ),
        (
            "cache_denial_hashes",
            "SHA-1 blocks hashed to deny or expand names by the NSEC3 records of other answers \
            (aggressive-nsec)",
            stats.denial_hashes.get(),
        ),
        (
            "cache_failures_served",
            "Questions answered from the cache with a failure that is remembered",
            stats.remembered_failures.get(),
        ),
        ("cache_stale", "Questions answered from the cache with what had expired", stats.stale.get()),
        (
            "cache_prefetched",
            "Answers fetched anew before they expired, because they are asked for often",
            stats.prefetched.get(),
        ),
        ("cache_inserts", "Answers put into the cache", cache.inserts),
        ("cache_evictions", "Answers dropped from the cache to make room", cache.evictions),
        ("recursion_refused", "Questions of clients who may not have others asked", stats.refused.get()),
        (
            "recursion_local",
            "Questions answered on the spot: special-use names and local data",
            stats.local.get(),
        ),
        ("recursion_synthesized", "Answers with addresses made by DNS64", stats.synthesized.get()),
        ("recursion_withheld", "Answers withheld because of private addresses", stats.withheld.get()),
        (
            "error_reports",
            "Reports sent of what could not be resolved or validated (error-reporting)",
            stats.reports.sent.get(),
        ),
    ]
}

/// Returns the counters of validation.
fn validation_counts(recursive: &Recursive) -> [Described; 14] {
    let validation = &recursive.service.stats().validation;
    [
        ("validation_secure", "Answers of other servers found secure", validation.secure.get()),
        (
            "validation_insecure",
            "Answers of other servers proven not to be signed",
            validation.insecure.get(),
        ),
        ("validation_bogus", "Answers of other servers found bogus", validation.bogus.get()),
        (
            "validation_indeterminate",
            "Answers of other servers that no trust anchor is for",
            validation.indeterminate.get(),
        ),
        (
            "validation_recalled",
            "Answers of which it was known by their zones what they are, so that no thread that validates \
            was woken",
            validation.recalled.get(),
        ),
        ("validation_overspent", "Bogus answers that were too much work", validation.overspent.get()),
        ("validation_unfinished", "Answers whose DS or DNSKEY could not be had", validation.unfinished.get()),
        ("validation_signatures", "Signatures verified", validation.signatures.get()),
        ("validation_signature_failures", "Signatures that are not good", validation.failed_signatures.get()),
        ("validation_fetches", "Questions for DS and DNSKEY", validation.fetches.get()),
        (
            "validation_referrals",
            "DS, or proofs that there are none, that referrals brought, so that no query was sent for them",
            validation.referrals.get(),
        ),
        (
            "validation_again",
            "Answers, DS and DNSKEY of another server, asked since what came first was bogus",
            validation.again.get(),
        ),
        (
            "validation_mended",
            "Answers that were bogus at first and that another server had good ones in place of",
            validation.mended.get(),
        ),
        ("validation_shed", "Clients turned away since too many waited", validation.shed.get()),
    ]
}

/// Returns the counters of lookups at other servers.
fn forward_counts(recursive: &Recursive) -> [Described; 15] {
    let forward = &recursive.forward;
    [
        ("forward_lookups", "Lookups that other servers were asked for", forward.lookups.get()),
        ("forward_joined", "Clients who joined a lookup in flight", forward.joined.get()),
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
            "Steps of lookups that the copy of the root zone answered, so that no root server was asked \
            (local-root)",
            forward.copied.get(),
        ),
        (
            "local_root_fallbacks",
            "Steps of lookups for which the root servers were asked since no copy of the root zone could be \
            used (local-root)",
            recursive.local_root.fallbacks(),
        ),
        (
            "forward_address_lookups",
            "Lookups of the addresses of servers, made for other lookups",
            forward.address_lookups.get(),
        ),
        (
            "forward_parents_asked",
            "Questions to the servers of parent zones for the delegation of a zone whose servers failed, or \
            for their addresses",
            forward.parents_asked.get(),
        ),
        (
            "forward_recursive_answers",
            "Answers taken from servers that offer recursion and are not authoritative, since every other \
            server of the zone failed",
            forward.recursive.get(),
        ),
        (
            "forward_dead",
            "Lookups that failed at once or within 50 ms, since no server of their rule has answered for \
            some time",
            forward.dead.get(),
        ),
        (
            "forward_instead",
            "Lookups that were begun anew from the root since the servers of their rule had no answer \
            (forward-first)",
            forward.instead.get(),
        ),
        (
            "forward_overspent",
            "Lookups ended since their client's query had cost enough",
            forward.overspent.get(),
        ),
        (
            "forward_timed_out",
            "Clients whose time was over before there was an answer",
            forward.timed_out.get(),
        ),
    ]
}

/// Returns the counters of replies that may be forged.
fn suspect_counts(recursive: &Recursive) -> [Described; 5] {
    let suspects = &recursive.forward.suspects;
    [
        ("forward_wrong_id", "Replies dropped because their ID is another than was sent", suspects.id.get()),
        (
            "forward_wrong_question",
            "Replies dropped because their question is another than was asked",
            suspects.question.get(),
        ),
        (
            "forward_wrong_case",
            "Replies dropped because their question has the name in another letter case",
            suspects.case.get(),
        ),
        (
            "forward_wrong_cookie",
            "Replies dropped because their cookie is another than was sent",
            suspects.cookie.get(),
        ),
        ("forward_unreadable", "Replies dropped because they cannot be read", suspects.unreadable.get()),
    ]
}
