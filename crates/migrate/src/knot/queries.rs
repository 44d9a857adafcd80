//! Who may query a zone of knot.conf: `acl` items with the action `query`, and the module `mod-queryacl`.

use std::net::IpAddr;

use super::{Frame, members, refused};
use crate::clients::{Grant, allow_query, no_client};
use crate::ledger::Coverage;
use crate::network::{Member, Network};
use crate::tree::{SourceWord, Statement};
use crate::units;
use crate::work::Work;

/// `allow-query` of a zone; empty if every client may query it. Of `acl` items the first match decides, and a
/// client that matches none may query the zone if the module permits it.
pub(super) fn list<'t>(
    work: &mut Work,
    frame: &Frame<'t>,
    entry: &dyn Fn(&str) -> Option<&'t Statement>,
    items: &[&Statement],
) -> Vec<String> {
    let mut grants: Vec<Grant> = Vec::new();
    for item in items.iter().filter(|item| item.find("action").is_some() && has_action(item, "query")) {
        let deny = is_deny(item);
        if is_conditional(work, item, &mut Vec::new()) {
            if deny {
                grants.push(no_client_passes());
            }
            continue;
        }
        let (clients, whole) = members(work, frame, item);
        if deny && !whole {
            let why = "which clients it refuses cannot be said; no client passes behind it";
            work.ledger.part(&item.span, &item.title(), Coverage::Narrower, why);
            grants.push(no_client_passes());
        }
        for (networks, key) in clients {
            match networks {
                None => grants.push(Grant { refuses: deny, network: None, key }),
                // Mapped addresses of a list are other clients here.
                Some(networks) => grants.extend(
                    networks.into_iter().filter(|network| deny || !network.is_mapped()).map(|network| {
                        Grant { refuses: deny, network: Some(network.unmapped()), key: key.clone() }
                    }),
                ),
            }
        }
    }
    let of_modules = modules(work, frame, entry);
    if of_modules.is_none() && !grants.iter().any(|grant| grant.refuses) {
        return Vec::new();
    }
    let rest = of_modules.unwrap_or_else(|| vec!["any".to_owned()]);
    // A client must pass both.
    let Some(mut list) = allow_query(&grants).filter(|_| is_combined(&grants, &rest)) else {
        let words = "no client may query the zone: its `acl` and `mod-queryacl` cannot be one `allow-query`";
        for found in ["acl", "module", "global-module"].iter().filter_map(|key| entry(key)) {
            work.ledger.part(&found.span, &found.title(), Coverage::Narrower, words);
        }
        return no_client();
    };
    list.extend(rest);
    while list.last().is_some_and(|text| text.starts_with('!')) {
        list.pop();
    }
    if list.is_empty() { no_client() } else { list }
}

/// Refuses all clients.
fn no_client_passes() -> Grant {
    Grant { refuses: true, network: None, key: None }
}

/// Whether members of `acl` items may be before those of the module: only refusals, or all clients after
/// them.
fn is_combined(grants: &[Grant], rest: &[String]) -> bool {
    rest == ["any"] || grants.iter().all(|grant| grant.refuses)
}

/// The members that `mod-queryacl` permits; `None` without such a module.
fn modules<'t>(
    work: &mut Work,
    frame: &Frame<'t>,
    entry: &dyn Fn(&str) -> Option<&'t Statement>,
) -> Option<Vec<String>> {
    // A global module applies to all zones, and is in the default template.
    let default = frame.templates.get("default").and_then(|default| default.find("global-module"));
    let mut named: Vec<&Statement> = Vec::new();
    for found in [entry("module"), entry("global-module"), default].into_iter().flatten() {
        if !named.iter().any(|other| other.id == found.id) {
            named.push(found);
        }
    }
    let is_module = |word: &&SourceWord| word.text.split('/').next() == Some("mod-queryacl");
    let words: Vec<&SourceWord> = named.iter().flat_map(|found| found.values()).filter(is_module).collect();
    let first = words.first()?;
    let item = first.text.split_once('/').and_then(|(_, id)| frame.query_modules.get(id));
    let found = match (item, words.len()) {
        (Some(item), 1) => permitted(work, item),
        _ => None,
    };
    Some(found.unwrap_or_else(|| {
        let why = "which clients it permits cannot be said; no client may query the zone";
        work.ledger.part(&first.span, &first.text, Coverage::Narrower, why);
        no_client()
    }))
}

/// The members for `address` and `interface` of a module: a client must match both. `None` if they cannot be
/// expressed.
fn permitted(work: &mut Work, item: &Statement) -> Option<Vec<String>> {
    let read = |key: &str| -> Option<Vec<Network>> {
        let Some(found) = item.find(key) else { return Some(Vec::new()) };
        let all: Option<Vec<Vec<Network>>> =
            found.values().map(|word| Network::parse_range(&word.text)).collect();
        all.map(|all| all.into_iter().flatten().collect())
    };
    let (from, on) = (read("address")?, read("interface")?);
    let on: Option<Vec<IpAddr>> = on.iter().map(|network| network.single()).collect();
    let on = on.filter(|on| on.len() <= 64)?;
    let from: Vec<String> = match item.find("address") {
        None => vec!["any".to_owned()],
        Some(_) => from.iter().filter(|network| !network.is_mapped()).map(ToString::to_string).collect(),
    };
    let from = if from.is_empty() { no_client() } else { from };
    for found in item.block() {
        work.ledger.translated(found, "`allow-query` of the zones that have the module");
    }
    Some(match item.find("interface") {
        None => from,
        Some(_) => on.iter().flat_map(|on| from.iter().map(move |from| format!("{from} on:{on}"))).collect(),
    })
}

/// Whether an `acl` item covers an action; a refusing item without actions covers all.
pub(super) fn has_action(item: &Statement, action: &str) -> bool {
    match item.find("action") {
        Some(found) => found.values().any(|value| value.text == action),
        None => is_deny(item),
    }
}

/// Conditions of an `acl` item that nomen cannot check.
const CONDITIONS: [&str; 3] = ["protocol", "cert-key", "cert-hostname"];

/// Whether an item has such a condition. Its clients do not pass; if it refuses, it refuses all clients.
pub(super) fn is_conditional(work: &mut Work, item: &Statement, denied: &mut Vec<Member>) -> bool {
    let found = item.block().iter().find(|entry| CONDITIONS.contains(&entry.key()));
    if let Some(entry) = found {
        work.ledger.missing(entry, "nomen cannot ask for that of clients; its clients do not pass");
        if is_deny(item) {
            denied.push(refused(None, None));
        }
    }
    found.is_some()
}

pub(super) fn is_deny(item: &Statement) -> bool {
    item.find("deny").is_some_and(|deny| units::switch(deny.value()) == Some(true))
}
