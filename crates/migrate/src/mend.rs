//! Removes contradictions from a nomen configuration and reports the changes.

use std::collections::HashSet;

use crate::ledger::Coverage;
use crate::local_root;
use crate::model::{Keys, Nomen, Setting, Zone, bounded};
use crate::units;
use crate::work::Work;

/// Keys with a minimum and a maximum.
const ORDERS: [(&str, &str); 3] =
    [("min-refresh", "max-refresh"), ("min-retry", "max-retry"), ("min-expire", "max-expire")];

/// Removes all contradictions.
pub(crate) fn mend(work: &mut Work) {
    let nomen = &mut work.nomen;
    let mut words = Vec::new();
    connections(nomen);
    listens(nomen, &mut words);
    rules(nomen, &mut words);
    local_root::mend(nomen, &mut words);
    if let Some(resolver) = &mut nomen.resolver {
        order(resolver, "min-ttl", "max-ttl", "1d", &mut words);
        timeouts(resolver, &mut words);
    }
    policies(nomen, &mut words);
    listings(nomen, &mut words);
    unsigned(nomen, &mut words);
    let zones = nomen.zones.iter_mut().map(|zone| &mut zone.keys);
    for keys in zones.chain(nomen.templates.iter_mut().map(|(_, keys)| keys)) {
        for (low, high) in ORDERS {
            if keys.get(high).is_some() {
                order(keys, low, high, "", &mut words);
            }
        }
    }
    words.into_iter().for_each(|words| work.ledger.unwritten(Coverage::Differs, words));
}

/// Removes policies without a resolver, keys about policy zones without one, and lists beyond nomen's limit.
fn policies(nomen: &mut Nomen, words: &mut Vec<String>) {
    const MAX_LISTS: usize = 256;
    if nomen.resolver.is_none() {
        nomen.policy = Keys::default();
        nomen.policy_zones.clear();
        nomen.policy_lists.clear();
        nomen.policy_groups.clear();
    }
    // Safe search has rules as those of a policy zone.
    let searches =
        nomen.policy_groups.iter().chain([&nomen.policy]).any(|keys| keys.get("safe-search").is_some());
    if nomen.policy_zones.is_empty() && !searches {
        nomen.policy.0.retain(|(key, _)| ["block-ttl", "lists"].contains(key));
    }
    for list in nomen.policy_lists.drain(MAX_LISTS.min(nomen.policy_lists.len())..) {
        if let Some(Setting::Text(name)) = list.get("name") {
            words.push(format!("there can be {MAX_LISTS} lists: {name} is left out"));
            for keys in nomen.policy_groups.iter_mut().chain([&mut nomen.policy]) {
                if let Some((_, Setting::Texts(lists))) = keys.0.iter_mut().find(|(key, _)| *key == "lists") {
                    lists.retain(|list| list != name);
                }
            }
        }
    }
}

/// Removes the policies of response policy zones, which nomen does not sign.
fn unsigned(nomen: &mut Nomen, words: &mut Vec<String>) {
    let rules: HashSet<&str> = nomen
        .policy_zones
        .iter()
        .filter_map(|zone| match zone.get("name") {
            Some(Setting::Text(name)) => Some(name.trim_end_matches('.')),
            _ => None,
        })
        .collect();
    let is_rules = |zone: &&mut Zone| rules.contains(&*zone.name) && zone.view().is_none();
    for zone in nomen.zones.iter_mut().filter(is_rules) {
        if zone.keys.get("dnssec-policy").is_some() {
            words.push(format!("the policy zone {} is not signed", zone.name));
            zone.keys.remove("dnssec-policy");
            zone.keys.remove("parental-servers");
        }
    }
}

/// Removes entries in catalog zones that nomen does not produce.
fn listings(nomen: &mut Nomen, words: &mut Vec<String>) {
    let produced: HashSet<String> =
        nomen.zones.iter().filter(|zone| zone.is_produced()).map(|zone| zone.name.clone()).collect();
    let mut unknown = Vec::new();
    let zones = nomen.zones.iter_mut().map(|zone| &mut zone.keys);
    for keys in zones.chain(nomen.templates.iter_mut().map(|(_, keys)| keys)) {
        let Some(Setting::Text(name)) = keys.get("catalog-member") else { continue };
        if !produced.contains(name) {
            unknown.push(name.clone());
            keys.remove("catalog-member");
            keys.remove("catalog-group");
        }
    }
    unknown.sort();
    unknown.dedup();
    for name in unknown {
        words.push(format!("no catalog zone {name} is made here: its members are listed nowhere"));
    }
}

/// Limits the connections per client to the total.
fn connections(nomen: &mut Nomen) {
    const USUAL: u64 = 100;
    let number = |key| match nomen.server.get(key) {
        Some(Setting::Number(number)) => Some(*number),
        _ => None,
    };
    let (all, one) = (number("tcp-connections"), number("tcp-connections-per-client"));
    if let Some(all) = all.filter(|all| *all < one.unwrap_or(USUAL))
        && let Some((setting, _)) = bounded("[server]", "tcp-connections-per-client", all)
    {
        nomen.server.set("tcp-connections-per-client", setting);
    }
}

/// Makes one block of those with the same transports, and removes addresses that a wildcard address on the
/// same port includes. Other keys of the first block apply to all.
fn listens(nomen: &mut Nomen, words: &mut Vec<String>) {
    let mut blocks: Vec<Keys> = Vec::new();
    for block in std::mem::take(&mut nomen.listens) {
        match blocks.iter_mut().find(|other| other.get("proto") == block.get("proto")) {
            Some(other) => block.members("addr").iter().for_each(|addr| other.add("addr", addr)),
            None => blocks.push(block),
        }
    }
    for mut block in blocks {
        let all = without_included(block.members("addr"), words);
        if !all.is_empty() {
            block.texts("addr", all);
            nomen.freebind.iter().for_each(|on| block.switch("freebind", *on));
            nomen.listens.push(block);
        }
    }
}

/// Returns the addresses, each once, that no wildcard address on the same port includes.
fn without_included(addresses: &[String], words: &mut Vec<String>) -> Vec<String> {
    let mut all = addresses.to_vec();
    let mut seen = HashSet::new();
    all.retain(|text| seen.insert(text.clone()));
    let wide: Vec<String> = all
        .iter()
        .filter(|text| text.starts_with("0.0.0.0@") || text.starts_with("[::]@"))
        .cloned()
        .collect();
    let covered = |text: &String| {
        wide.iter().any(|wide| {
            let same_port = wide.rsplit('@').next() == text.rsplit('@').next();
            same_port && wide != text && wide.starts_with('[') == text.starts_with('[')
        })
    };
    for text in all.iter().filter(|text| covered(text)) {
        words.push(format!("{text} is one of all addresses that nomen listens on, and is left out"));
    }
    all.retain(|text| !covered(text));
    all
}

/// Keeps one rule per domain.
fn rules(nomen: &mut Nomen, words: &mut Vec<String>) {
    let mut seen = HashSet::new();
    let mut first = |rule: &Keys| match rule.get("domain") {
        Some(Setting::Text(domain)) => {
            let new = seen.insert(domain.clone());
            if !new {
                words.push(format!("there are two rules for {domain}; the first one counts"));
            }
            new
        }
        _ => false,
    };
    nomen.forwards.retain(&mut first);
    nomen.stubs.retain(&mut first);
}

/// Puts the first timeout for an unmeasured server between minimum and maximum, including nomen's defaults.
fn timeouts(resolver: &mut Keys, words: &mut Vec<String>) {
    let time = |key, usual| match resolver.get(key) {
        Some(Setting::Text(text)) => ms(text),
        _ => Some(usual),
    };
    let times = (time("min-timeout", 50), time("first-timeout", 400), time("max-timeout", 2000));
    let (Some(least), Some(first), Some(most)) = times else { return };
    let between = first.max(least).min(most);
    for (key, old, new) in [("first-timeout", first, between), ("min-timeout", least, least.min(between))] {
        if new != old {
            let new = units::duration(new);
            words.push(format!(
                "`min-timeout`, `first-timeout` and `max-timeout` do not fit together: `{key}` is {new} here"
            ));
            resolver.text(key, new);
        }
    }
}

/// Limits a minimum to its maximum.
fn order(keys: &mut Keys, low: &'static str, high: &'static str, usual: &str, words: &mut Vec<String>) {
    let time = |key, usual: &str| match keys.get(key) {
        Some(Setting::Text(text)) => ms(text),
        _ => ms(usual),
    };
    if let (Some(least), Some(most)) = (time(low, ""), time(high, usual))
        && least > most
    {
        words.push(format!("`{low}` is more than `{high}`, and is lowered to it"));
        keys.text(low, units::duration(most));
    }
}

/// Parses a duration written by `units::duration`, as milliseconds.
fn ms(text: &str) -> Option<u64> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok(),
        None => units::seconds(text)?.checked_mul(1000),
    }
}
