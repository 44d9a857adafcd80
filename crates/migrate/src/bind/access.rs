//! Access to recursion in `options` of named.conf.

use super::{Frame, acl, is_none};
use crate::ledger::Coverage;
use crate::work::Work;

/// Converts access to recursion: a client must pass both `allow-recursion` and `allow-query-cache`. If one is
/// not set, the other applies in its place, and `allow-query` in place of both.
pub(super) fn recursion(work: &mut Work, frame: &Frame<'_>) {
    if let Some(found) = frame.global("blackhole").filter(|found| !is_none(found)) {
        match acl::exact(&frame.acls, found.block()) {
            Some(networks) => networks.iter().for_each(|n| work.nomen.grant("refuse", n.to_string())),
            None => work.refuse_recursion(found, "it names clients that nomen cannot name"),
        }
        work.ledger.part(
            &found.span,
            &found.title(),
            Coverage::Differs,
            "these clients are refused recursion; nomen answers REFUSED, it does not stay silent",
        );
    }
    for key in ["allow-recursion-on", "allow-query-cache-on"] {
        if let Some(found) = frame.global(key).filter(|found| !acl::for_all(&frame.acls, found.block())) {
            work.refuse_recursion(
                found,
                "`[[resolver.access]]` takes interfaces by their names, not addresses",
            );
        }
    }
    let [recursion, cache, query] =
        ["allow-recursion", "allow-query-cache", "allow-query"].map(|key| frame.global(key));
    let said = match (recursion, cache, query) {
        (Some(recursion), Some(cache), _) => {
            acl::access_both(work, &frame.acls, [recursion.block(), cache.block()])
        }
        (Some(found), None, _) | (None, Some(found), _) | (None, None, Some(found)) => {
            acl::access(work, &frame.acls, found.block())
        }
        (None, None, None) => {
            ["loopback", "attached"].into_iter().for_each(|from| work.nomen.grant("allow", from));
            true
        }
    };
    let query = query.filter(|_| recursion.is_none() && cache.is_none());
    for found in [recursion, cache, query].into_iter().flatten() {
        work.ledger.translated(found, "[[resolver.access]]");
        if !said && recursion.is_some() && cache.is_some() {
            let why = "which clients pass both `allow-recursion` and `allow-query-cache` cannot be said; no \
                       other may recurse";
            work.ledger.part(&found.span, &found.title(), Coverage::Narrower, why);
        }
    }
    // A list that permits no client must not become a missing list.
    if work.nomen.access.is_empty() {
        work.nomen.grant("refuse", "any");
    }
}
