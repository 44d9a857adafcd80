//! Access lists of named.conf: of the server, of zones, and of recursion.

use std::net::IpAddr;

use super::{Frame, acl, is_none};
use crate::addresses::AddressSet;
use crate::clients::{PLACES, Place, QueryList, keys, permitted, query_list};
use crate::ledger::Coverage;
use crate::model::Keys;
use crate::network::{Client, Member, Network};
use crate::tree::Statement;
use crate::work::Work;

/// Most addresses of `allow-query-on`; each takes members of its own.
const MAX_LOCAL: usize = 8;
/// Most blocks of `[[server.access]]`, and most rules of `allow-query`.
const MAX_RULES: usize = 64;

/// Converts `blackhole`: messages of these clients are not answered. BIND ignores keys in it.
pub(super) fn blackhole(work: &mut Work, frame: &Frame<'_>) {
    let Some(found) = frame.global("blackhole") else { return };
    if is_none(found) {
        return work.ledger.unneeded(found, "nomen does so anyway");
    }
    let list = acl::members(work, &frame.acls, found.block(), 0);
    let mut blocks = Vec::new();
    let is_plain = list.iter().all(|member| drop_or_accept(member, &mut blocks).is_some());
    // Trailing blocks that accept have no effect.
    while blocks.last().is_some_and(|(drops, _)| !drops) {
        blocks.pop();
    }
    let is_exact = is_plain && blocks.chunk_by(|a, b| a.0 == b.0).count() <= MAX_RULES;
    if !is_exact {
        let maybe = PLACES
            .iter()
            .fold(AddressSet::none(), |set, place| set.or(&permitted(&list, None, *place).maybe));
        blocks = maybe.networks().iter().map(|network| (true, network.to_string())).collect();
        let is_known = PLACES.iter().all(|place| permitted(&list, None, *place).surely == maybe);
        if !is_known {
            let why = "nomen cannot tell which clients it is for: all that it may be for get no answers";
            work.ledger.part(&found.span, &found.title(), Coverage::Narrower, why);
        }
    }
    if is_exact && list.iter().any(|member| !member.deny && matches!(member.client, Client::Own)) {
        let why = "nomen cannot name the addresses of this machine: clients in the networks that it is attached to \
                   get no answers either";
        work.ledger.part(&found.span, "localhost", Coverage::Narrower, why);
    }
    for (drops, from) in blocks {
        work.nomen.accept(if drops { "drop" } else { "allow" }, from);
    }
    let how = "[[server.access]] with action \"drop\"; nomen does query servers at these addresses";
    work.ledger.differs(found, how);
}

/// Appends the words of a member, each with whether its clients are dropped. `None` if it has none.
fn drop_or_accept(member: &Member, out: &mut Vec<(bool, String)>) -> Option<()> {
    let whole = |networks: &[Network]| Network::all().iter().all(|all| networks.contains(all));
    let words: Vec<String> = match (&member.client, member.deny) {
        (Client::Networks(networks), _) if whole(networks) => vec!["any".to_owned()],
        (Client::Networks(networks), _) if networks.iter().any(|network| network.is_mapped()) => return None,
        (Client::Networks(networks), _) => networks.iter().map(ToString::to_string).collect(),
        // All addresses of the host are in its networks.
        (Client::Own, false) => vec!["loopback".to_owned(), "attached".to_owned()],
        (Client::Own, true) => Network::loopback().iter().map(ToString::to_string).collect(),
        (Client::Attached, _) => vec!["attached".to_owned()],
        (Client::Key(_), _) => Vec::new(),
        (Client::List(_) | Client::Unknown, _) => return None,
    };
    out.extend(words.into_iter().map(|word| (!member.deny, word)));
    Some(())
}

/// The local addresses that `allow-query-on` permits.
enum Local {
    Any,
    At(Vec<IpAddr>),
    NotAt(Vec<IpAddr>),
    Unclear,
}

/// Converts `allow-query` and `allow-query-on` of a zone, or of `options` and the view without one.
pub(super) fn queries(work: &mut Work, frame: &Frame<'_>, zone: Option<&Statement>, out: &mut Keys) {
    let deciding = |key| match zone {
        Some(zone) => frame.deciding(zone, key),
        None => frame.global(key),
    };
    let mut list = QueryList { grants: Vec::new(), is_exact: true };
    if let Some(found) = deciding("allow-query") {
        list = query_list(&acl::members(work, &frame.acls, found.block(), 0));
        work.ledger.translated(found, "`allow-query` of the zone");
        if !list.is_exact {
            let why =
                "`allow-query` of nomen cannot name all of its clients: the others may not query the zone";
            work.ledger.part(&found.span, &found.title(), Coverage::Narrower, why);
        }
    }
    let mut texts = list.texts();
    if let Some(found) = deciding("allow-query-on") {
        work.ledger.translated(found, "`on:ADDRESS` in `allow-query` of the zone");
        let all = if texts.is_empty() { vec!["any".to_owned()] } else { texts.clone() };
        let with = |on: &str| all.iter().map(|text| format!("{text} on:{on}")).collect::<Vec<_>>();
        let local = local(work, frame, found);
        let combined = match &local {
            _ if list.is_for_none() => Some(texts.clone()),
            Local::Any => Some(texts.clone()),
            Local::At(addresses) => Some(addresses.iter().flat_map(|at| with(&at.to_string())).collect()),
            Local::NotAt(addresses) => {
                let refused = addresses.iter().map(|at| format!("!any on:{at}"));
                Some(refused.chain(all.iter().cloned()).collect())
            }
            Local::Unclear => None,
        };
        texts = combined.filter(|texts| is_short(texts)).unwrap_or_else(|| {
            let why = "`on:` takes single addresses of this server: no client may query the zone";
            work.ledger.part(&found.span, &found.title(), Coverage::Narrower, why);
            QueryList::of_none(false).texts()
        });
    }
    out.texts("allow-query", texts);
}

/// Whether these members of `allow-query` are no more rules than nomen can have, at most one for each.
fn is_short(texts: &[String]) -> bool {
    texts.len() <= MAX_RULES || !texts.iter().any(|text| text.contains(" on:"))
}

fn local(work: &mut Work, frame: &Frame<'_>, found: &Statement) -> Local {
    let list = acl::members(work, &frame.acls, found.block(), 0);
    let all = keys(&list).into_iter().map(Some).chain([None]);
    // A local address is one of the host itself.
    let set = all.fold(AddressSet::all(), |set, key| set.and(&permitted(&list, key, Place::Own).surely));
    if set.is_all() {
        return Local::Any;
    }
    let single = |set: &AddressSet| {
        let networks = set.networks();
        let all: Option<Vec<IpAddr>> = networks.iter().map(|network| network.single()).collect();
        all.filter(|all| (1..=MAX_LOCAL).contains(&all.len()))
    };
    let others = AddressSet::all().minus(&set);
    single(&set).map(Local::At).or_else(|| single(&others).map(Local::NotAt)).unwrap_or(Local::Unclear)
}

/// Allows recursion to the clients of views: `sets` of them at each place.
fn of_views(work: &mut Work, sets: &[AddressSet; 3], is_exact: bool, at: Option<&Statement>) {
    // nomen has no word for the addresses of this machine, which may be any of those that it is attached to,
    // and none that refuses attached networks alone: clients that may recurse at one place only may not at
    // all.
    let [all_elsewhere, all_attached, own] = sets;
    let attached = all_attached.and(own);
    let elsewhere = all_elsewhere.and(&attached);
    let is_exact = is_exact && attached == *all_attached && elsewhere == *all_elsewhere;
    if attached != elsewhere {
        // What is left after this is allowed from attached networks.
        let others = AddressSet::all().minus(&attached).networks();
        others.iter().for_each(|network| work.nomen.grant("refuse", network.to_string()));
    }
    match elsewhere.is_all() {
        true => work.nomen.grant("allow", "any"),
        false => {
            elsewhere.networks().iter().for_each(|network| work.nomen.grant("allow", network.to_string()));
        }
    }
    if attached != elsewhere {
        work.nomen.grant("allow", "attached");
    }
    if let (false, Some(found)) = (is_exact, at) {
        let why = "[[resolver.access]] cannot name all of its clients: the others may not recurse";
        work.ledger.part(&found.span, &found.title(), Coverage::Narrower, why);
    }
}

/// Converts access to recursion: a client must pass both `allow-recursion` and `allow-query-cache`. If one is
/// not set, the other applies in its place, and `allow-query` in place of both.
pub(super) fn recursion(work: &mut Work, frame: &Frame<'_>) {
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
    if let Some((sets, is_exact)) = &frame.recursing {
        let at = recursion.or(cache).or(query).or(frame.scopes.last().copied());
        of_views(work, sets, *is_exact, at);
        for found in [recursion, cache].into_iter().flatten() {
            work.ledger.translated(found, "[[resolver.access]]");
        }
        if work.nomen.access.is_empty() {
            work.nomen.grant("refuse", "any");
        }
        return;
    }
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
