//! Tags of unbound.conf: `local-zone-tag`, `access-control-tag` and what depends on them, as rules of lists
//! for groups of clients.
//!
//! In Unbound the longest network of `access-control` and `access-control-tag` that a client is in decides
//! which tags it has; in nomen, the first group. So each of these networks is a group, the longest first. A
//! zone with tags counts for clients that have one of them. The first of these, in the order of `define-tag`,
//! decides what the zone does: its `access-control-tag-action`, or without one the type of the zone.

use std::collections::{BTreeMap, BTreeSet};

use super::local_types::{LocalDefault, of_type};
use crate::ledger::Coverage;
use crate::model::{Keys, Setting};
use crate::narrow::is_below;
use crate::network::Network;
use crate::policy::at_and_below;
use crate::tree::Statement;
use crate::work::{Work, domain};

/// Most groups of clients.
const MAX_GROUPS: usize = 64;

/// What a local zone with tags does for certain clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagRule {
    /// The answer of a block list; `None` if the modifiers have it.
    pub(super) answer: Option<&'static str>,
    /// The modifiers of the rule, without `$`.
    pub(super) modifiers: String,
}

/// What zones with tags do, by their names.
pub(super) type ZoneTags = BTreeMap<String, Vec<TagRule>>;

/// Keys that change what tags do, in ways that nomen has no counterpart for.
const OVERRIDES: [&str; 4] =
    ["interface-tag", "interface-tag-action", "interface-tag-data", "local-zone-override"];

/// Keys of actions and records for the clients of a network by tag.
const ACTIONS: [&str; 2] = ["access-control-tag-action", "access-control-tag-data"];

/// The clients of a network.
struct Clients<'s> {
    network: Network,
    tags: BTreeSet<String>,
    /// The statements with an action, by their tags.
    actions: Vec<(&'s str, &'s str)>,
    /// Records, by their tags.
    data: Vec<(&'s str, &'s str)>,
}

/// Returns what those zones with tags do whose names can be for certain clients; makes the groups of clients.
/// None if Unbound's distinction of clients is not possible here.
pub(super) fn convert(work: &mut Work, all: &[&Statement]) -> ZoneTags {
    if all.iter().any(|statement| OVERRIDES.contains(&statement.key())) {
        return ZoneTags::new();
    }
    let has_actions = all.iter().any(|statement| ACTIONS.contains(&statement.key()));
    let zones = zones(all, has_actions);
    if zones.is_empty() {
        return ZoneTags::new();
    }
    let Some(clients) = clients(all) else { return ZoneTags::new() };
    let rules = match has_actions {
        false => Some(zones.iter().map(|zone| (zone.name.clone(), vec![zone.for_tags()])).collect()),
        true => by_group(work, all, &zones, &clients),
    };
    let Some(rules) = rules else { return ZoneTags::new() };
    for Clients { network, tags, .. } in clients {
        let mut keys = Keys::default();
        if !tags.is_empty() {
            keys.texts("tags", tags.into_iter().collect());
        }
        work.group("clients", &[network], keys);
    }
    for statement in all.iter().filter(|s| ["access-control-tag", "define-tag"].contains(&s.key())) {
        work.ledger.translated(statement, "`tags` of [[policy.group]]");
    }
    for statement in all.iter().filter(|s| ACTIONS.contains(&s.key())) {
        work.ledger.translated(statement, "rules of [[policy.list]] for the group of these clients");
    }
    rules
}

/// A local zone with tags.
struct TaggedZone {
    name: String,
    tags: Vec<String>,
    default: LocalDefault,
}

impl TaggedZone {
    /// What the type of the zone does for the clients of its tags.
    fn for_tags(&self) -> TagRule {
        let answer = match self.default {
            LocalDefault::Listed(answer) => Some(answer),
            _ => None,
        };
        TagRule { answer, modifiers: format!("ctag={}", self.tags.join("|")) }
    }
}

/// Returns the zones with tags that can be for certain clients: those whose names are only blocked, and with
/// actions also those that do nothing by themselves, unless they are in or around other zones.
fn zones(all: &[&Statement], has_actions: bool) -> Vec<TaggedZone> {
    let kind = |name: &str| {
        let mut zones =
            all.iter().filter(|s| s.key() == "local-zone" && domain(s.value()).as_deref() == Some(name));
        zones.next().and_then(|zone| zone.argument(1)).map(|kind| kind.text.as_str())
    };
    let is_alone = |name: &str| {
        let mut others = all.iter().filter(|s| s.key() == "local-zone").filter_map(|s| domain(s.value()));
        !others.any(|other| other != name && (is_below(name, &other) || is_below(&other, name)))
    };
    let (mut zones, mut doubled): (Vec<TaggedZone>, Vec<String>) = (Vec::new(), Vec::new());
    for statement in all.iter().filter(|statement| statement.key() == "local-zone-tag") {
        let (Some(name), Some(tags)) = (domain(statement.value()), tags(statement)) else { continue };
        let default = kind(&name).and_then(of_type).map(|(default, _)| default);
        let default = default.filter(|default| match default {
            LocalDefault::Listed(_) => !has_actions || is_alone(&name),
            LocalDefault::Resolved => has_actions && is_alone(&name),
            LocalDefault::Refused | LocalDefault::Redirected => false,
        });
        match default.filter(|_| at_and_below(&name).is_some() && !zones.iter().any(|zone| zone.name == name))
        {
            Some(default) => zones.push(TaggedZone { name, tags, default }),
            None => doubled.push(name),
        }
    }
    zones.retain(|zone| !doubled.contains(&zone.name));
    zones
}

/// The rules of each zone for the groups that the clients will be; `None` if one of them is not possible.
fn by_group(
    work: &mut Work,
    all: &[&Statement],
    zones: &[TaggedZone],
    clients: &[Clients<'_>],
) -> Option<ZoneTags> {
    let is_taken =
        work.nomen.policy_groups.iter().any(
            |group| matches!(group.get("name"), Some(Setting::Text(name)) if name.starts_with("clients")),
        );
    if is_taken {
        return None;
    }
    let defined = all.iter().filter(|statement| statement.key() == "define-tag");
    let order: Vec<&str> = defined.flat_map(|statement| statement.value().split_whitespace()).collect();
    let mut out = ZoneTags::new();
    for zone in zones {
        let mut rules = Vec::new();
        for (number, own) in clients.iter().enumerate() {
            // The names that the groups will have.
            let group = match number {
                0 => "clients".to_owned(),
                number => format!("clients-{}", number + 1),
            };
            let has = |tags: &[String], tag: &str| tags.iter().any(|of| of == tag);
            if let Some(tag) = order.iter().find(|tag| own.tags.contains(**tag) && has(&zone.tags, tag)) {
                rules.extend(own.rules(tag, zone, &group, has_data(all, &zone.name))?);
            }
        }
        out.insert(zone.name.clone(), rules);
    }
    let has = |value: &str| out.values().flatten().any(|rule| rule.modifiers.contains(value));
    let mut actions = clients.iter().flat_map(|own| &own.actions);
    if has("dnsrewrite=REFUSED") && actions.any(|(_, action)| action.contains("deny")) {
        let words =
            "clients whose tag has an action of the kind `deny` get REFUSED; nomen does not stay silent";
        work.ledger.unwritten(Coverage::Differs, words);
    }
    if has("dnsrewrite=NOERROR") {
        let words = "records of `access-control-tag-data` have the TTL `block-ttl` of [policy]";
        work.ledger.unwritten(Coverage::Differs, words);
    }
    Some(out)
}

impl Clients<'_> {
    /// What a zone does for these clients, who are a group, by their tag; `None` if it is not possible.
    /// `has_data`: the zone has records of its own.
    fn rules(&self, tag: &str, zone: &TaggedZone, group: &str, has_data: bool) -> Option<Vec<TagRule>> {
        let action = self.actions.iter().find(|(of, _)| *of == tag);
        let default = match action {
            Some((_, kind)) => of_type(kind)?.0,
            None => zone.default,
        };
        let with =
            |value: &str| TagRule { answer: None, modifiers: format!("client='{group}',dnsrewrite={value}") };
        let listed = |answer| vec![TagRule { answer: Some(answer), modifiers: format!("client='{group}'") }];
        Some(match default {
            LocalDefault::Resolved => Vec::new(),
            LocalDefault::Listed(answer) => listed(answer),
            LocalDefault::Refused => vec![with("REFUSED")],
            LocalDefault::Redirected => {
                let data = self.data.iter().filter(|(of, _)| *of == tag).map(|(_, data)| record(data));
                let values: Vec<String> = data.collect::<Option<_>>()?;
                match values.is_empty() {
                    // Without records of the tag, those of the zone count.
                    true if has_data => return None,
                    true => listed("nodata"),
                    false => values.iter().map(|value| with(value)).collect(),
                }
            }
        })
    }
}

/// Whether there is `local-data` for a name.
fn has_data(all: &[&Statement], name: &str) -> bool {
    let mut data = all.iter().filter(|statement| statement.key() == "local-data");
    data.any(|data| data.value().split_whitespace().next().and_then(domain).as_deref() == Some(name))
}

/// The type and data of a record as the value of `$dnsrewrite`; `None` if that cannot have it.
fn record(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().skip_while(|word| {
        word.eq_ignore_ascii_case("in") || word.bytes().all(|digit| digit.is_ascii_digit())
    });
    let (kind, value) = (words.next()?.to_ascii_uppercase(), words.next()?);
    let is_good = match kind.as_str() {
        "A" => value.parse::<std::net::Ipv4Addr>().is_ok(),
        "AAAA" => value.parse::<std::net::Ipv6Addr>().is_ok(),
        "CNAME" => return domain(value).map(|name| format!("NOERROR;CNAME;{name}")),
        _ => false,
    };
    (is_good && words.next().is_none()).then(|| format!("NOERROR;{kind};{value}"))
}

/// The networks of clients with their tags, the longest first; `None` if there is one that is not understood,
/// or more than there can be groups.
fn clients<'s>(all: &[&'s Statement]) -> Option<Vec<Clients<'s>>> {
    let mut clients: Vec<Clients<'s>> = Vec::new();
    for statement in all.iter().copied() {
        let own = match statement.key() {
            "access-control" | "access-control-tag-action" | "access-control-tag-data" => Vec::new(),
            "access-control-tag" => tags(statement)?,
            _ => continue,
        };
        let network = Network::parse(statement.value()).filter(|network| !network.is_mapped())?;
        let at = match clients.iter().position(|other| other.network == network) {
            Some(at) => at,
            None => {
                clients.push(Clients {
                    network,
                    tags: BTreeSet::new(),
                    actions: Vec::new(),
                    data: Vec::new(),
                });
                clients.len() - 1
            }
        };
        clients[at].tags.extend(own);
        let values = statement.argument(1).zip(statement.argument(2));
        let values = values.map(|(tag, value)| (tag.text.as_str(), value.text.as_str()));
        match statement.key() {
            "access-control-tag-action" => clients[at].actions.push(values?),
            "access-control-tag-data" => clients[at].data.push(values?),
            _ => {}
        }
    }
    clients.sort_by_key(|own| std::cmp::Reverse(own.network.length()));
    // Without a longer network with other tags, those without tags at the end are in no group.
    while clients.last().is_some_and(|own| own.tags.is_empty()) {
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
