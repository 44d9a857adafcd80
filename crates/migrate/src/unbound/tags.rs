//! Tags of unbound.conf: `local-zone-tag` and `access-control-tag`, as rules of lists with `$ctag` and groups
//! of clients with `tags`.
//!
//! In Unbound the longest network of `access-control` and `access-control-tag` that a client is in decides
//! which tags it has; in nomen, the first group. So each of these networks is a group, the longest first.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::Keys;
use crate::network::Network;
use crate::tree::Statement;
use crate::work::{Work, domain};

/// Most groups of clients.
const MAX_GROUPS: usize = 64;

/// The tags of local zones by the names of the zones, as values of `$ctag`.
pub(super) type ZoneTags = BTreeMap<String, String>;

/// Keys that change what tags do, in ways that nomen has no counterpart for.
const OVERRIDES: [&str; 6] = [
    "access-control-tag-action",
    "access-control-tag-data",
    "interface-tag",
    "interface-tag-action",
    "interface-tag-data",
    "local-zone-override",
];

/// Returns the tags of those zones whose names are only blocked, and so can be for certain clients; makes the
/// groups of clients. None if Unbound's distinction of clients is not possible here.
pub(super) fn convert(work: &mut Work, all: &[&Statement], is_listed: impl Fn(&str) -> bool) -> ZoneTags {
    if all.iter().any(|statement| OVERRIDES.contains(&statement.key())) {
        return ZoneTags::new();
    }
    let (mut zones, mut doubled) = (ZoneTags::new(), BTreeSet::new());
    for statement in all.iter().filter(|statement| statement.key() == "local-zone-tag") {
        let (Some(name), Some(tags)) = (domain(statement.value()), tags(statement)) else { continue };
        if !is_listed(&name) || zones.insert(name.clone(), tags.join("|")).is_some() {
            doubled.insert(name);
        }
    }
    zones.retain(|name, _| !doubled.contains(name));
    if zones.is_empty() {
        return zones;
    }
    let Some(clients) = clients(all) else { return ZoneTags::new() };
    for (network, tags) in clients {
        let mut keys = Keys::default();
        if !tags.is_empty() {
            keys.texts("tags", tags.into_iter().collect());
        }
        work.group("clients", &[network], keys);
    }
    for statement in all.iter().filter(|s| ["access-control-tag", "define-tag"].contains(&s.key())) {
        work.ledger.translated(statement, "`tags` of [[policy.group]]");
    }
    zones
}

/// The networks of clients with their tags, the longest first; `None` if there is one that is not understood,
/// or more than there can be groups.
fn clients(all: &[&Statement]) -> Option<Vec<(Network, BTreeSet<String>)>> {
    let mut clients: Vec<(Network, BTreeSet<String>)> = Vec::new();
    for statement in all {
        let own = match statement.key() {
            "access-control" => Vec::new(),
            "access-control-tag" => tags(statement)?,
            _ => continue,
        };
        let network = Network::parse(statement.value()).filter(|network| !network.is_mapped())?;
        match clients.iter_mut().find(|(other, _)| *other == network) {
            Some((_, tags)) => tags.extend(own),
            None => clients.push((network, own.into_iter().collect())),
        }
    }
    clients.sort_by_key(|(network, _)| std::cmp::Reverse(network.length()));
    // Without a longer network with other tags, those without tags at the end are in no group.
    while clients.last().is_some_and(|(_, tags)| tags.is_empty()) {
        clients.pop();
    }
    (clients.len() <= MAX_GROUPS).then_some(clients)
}

/// The tags that a statement has behind its first value; `None` if there are none, or some that a rule cannot
/// have.
fn tags(statement: &Statement) -> Option<Vec<String>> {
    let words = statement.words().skip(2).flat_map(|word| word.text.split_whitespace());
    let tags: Vec<String> = words.map(str::to_owned).collect();
    let is_plain =
        |tag: &String| tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    (!tags.is_empty() && tags.iter().all(is_plain)).then_some(tags)
}
