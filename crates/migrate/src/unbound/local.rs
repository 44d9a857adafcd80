//! `local-zone` and `local-data` of unbound.conf.

use std::net::IpAddr;

use super::tags::{self, ZoneTags};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::narrow::is_below;
use crate::policy::{Effect, at_and_below};
use crate::tree::Statement;
use crate::work::{Work, domain, is_special};

/// What a local zone does with names that have no `local-data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Default {
    /// They are resolved.
    Resolved,
    /// They get this answer of a block list.
    Listed(&'static str),
    /// They are refused.
    Refused,
    /// They have the records of the zone.
    Redirected,
}

/// A local zone.
struct LocalZone<'s> {
    name: String,
    default: Default,
    /// Whether its `local-data` is answered.
    has_data: bool,
    statement: &'s Statement,
}

/// The behaviour of a type; `None` if it is unknown.
fn of_type(kind: &str) -> Option<(Default, bool)> {
    Some(match kind {
        "transparent" | "typetransparent" | "inform" | "nodefault" => (Default::Resolved, true),
        "always_transparent" => (Default::Resolved, false),
        "static" => (Default::Listed("nxdomain"), true),
        "always_nxdomain" => (Default::Listed("nxdomain"), false),
        "always_nodata" => (Default::Listed("nodata"), false),
        "always_null" => (Default::Listed("null"), false),
        "refuse" | "deny" | "inform_deny" => (Default::Refused, true),
        "always_refuse" | "always_deny" => (Default::Refused, false),
        "redirect" | "inform_redirect" => (Default::Redirected, true),
        _ => return None,
    })
}

/// The name of the list that is made for an answer.
fn list_name(answer: &str) -> &'static str {
    match answer {
        "nodata" => "local-zones-nodata",
        "null" => "local-zones-null",
        _ => "local-zones-nxdomain",
    }
}

/// Converts local zones and their data.
pub(super) fn names(work: &mut Work, all: &[&Statement]) {
    let is_listed = |name: &str| {
        let mut zones =
            all.iter().filter(|s| s.key() == "local-zone" && domain(s.value()).as_deref() == Some(name));
        let kind = zones.next().and_then(|zone| zone.argument(1)).map_or("", |kind| &kind.text);
        matches!(of_type(kind), Some((Default::Listed(_), _))) && at_and_below(name).is_some()
    };
    let of_groups = tags::convert(work, all, is_listed);
    let tagged = tagged(work, all, &of_groups);
    let zones = zones(work, all, &tagged);
    for zone in &zones {
        convert(work, &zones, zone, of_groups.get(&zone.name).map(String::as_str));
    }
    if zones.iter().any(|zone| matches!(zone.default, Default::Listed(_))) {
        work.ledger.unwritten(
            Coverage::Differs,
            "local zones that are lists here ([[policy.list]]) are for the targets of aliases, too, and come \
             after [[policy.zone]]",
        );
    }
    data(work, all, (&tagged, &of_groups), &zones);
}

/// The local zones, of which the first of a name counts.
fn zones<'s>(work: &mut Work, all: &[&'s Statement], tagged: &[String]) -> Vec<LocalZone<'s>> {
    let mut zones: Vec<LocalZone<'s>> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for statement in all.iter().copied().filter(|s| s.key() == "local-zone") {
        let Some(name) = domain(statement.value()) else {
            work.refuse_recursion(statement, "its name is not understood here");
            continue;
        };
        if tagged.contains(&name) {
            work.ledger.narrower(
                statement,
                "nomen has no tags for it: its `local-data` is left out, and its names are refused",
            );
            continue;
        }
        if !seen.insert(name.clone()) {
            work.ledger.unneeded(statement, "there is another `local-zone` of this name, which counts");
            continue;
        }
        let kind = statement.argument(1).map_or("", |kind| &kind.text);
        let (default, has_data) = of_type(kind).unwrap_or((Default::Refused, true));
        let default = match default {
            Default::Listed(_) if at_and_below(&name).is_none() => Default::Refused,
            default => default,
        };
        zones.push(LocalZone { name, default, has_data, statement });
    }
    zones
}

/// The closest zone at or above a name, except `not`.
fn closest<'z, 's>(zones: &'z [LocalZone<'s>], name: &str, not: Option<&str>) -> Option<&'z LocalZone<'s>> {
    let above = zones.iter().filter(|zone| is_below(name, &zone.name) && Some(zone.name.as_str()) != not);
    above.max_by_key(|zone| zone.name.trim_matches('.').len())
}

fn convert(work: &mut Work, zones: &[LocalZone<'_>], zone: &LocalZone<'_>, tags: Option<&str>) {
    let (name, statement) = (&zone.name, zone.statement);
    let kind = statement.argument(1).map_or("", |kind| &kind.text);
    let around = closest(zones, name, Some(name));
    match zone.default {
        Default::Resolved => resolved(work, zones, zone),
        Default::Redirected => {
            // Names of the zone without data of their own are not queried.
            work.refuse_all_below(name);
            work.ledger.translated(statement, "`local-data` of [resolver], with a `*` in front as well");
        }
        Default::Listed(_) if kind == "static" && is_special(name) && tags.is_none() => {
            work.ledger.unneeded(statement, "nomen does so anyway");
        }
        Default::Listed(answer) => {
            let condition = tags.map(|tags| format!("$ctag={tags}")).unwrap_or_default();
            at_and_below(name).into_iter().for_each(|rule| {
                let line = format!("{rule}{condition}");
                work.list_line(list_name(answer), &Effect::answer(answer), line);
            });
            work.ledger.translated(statement, format!("[[policy.list]] `{}`", list_name(answer)));
            if tags.is_none()
                && around.is_some_and(|around| {
                    !matches!(around.default, Default::Listed(other) if other == answer)
                        && around.default != Default::Resolved
                })
            {
                work.ledger.differs(statement, "its names get the answer of the `local-zone` above it");
            }
        }
        Default::Refused => {
            work.refuse_all_below(name);
            match kind {
                "refuse" | "always_refuse" => {
                    work.narrow.exact.push(name.clone());
                    work.ledger.translated(statement, "`refused-domains` of [resolver]");
                }
                "deny" | "inform_deny" | "always_deny" => {
                    work.ledger.differs(statement, "nomen answers REFUSED, it does not stay silent");
                }
                _ => work.ledger.narrower(
                    statement,
                    "its `local-data` is answered, and all other names in it are refused (`refused-domains`)",
                ),
            }
        }
    }
}

/// Converts a zone whose names are resolved, also if it is in one whose names are not.
fn resolved(work: &mut Work, zones: &[LocalZone<'_>], zone: &LocalZone<'_>) {
    let (name, statement) = (&zone.name, zone.statement);
    match statement.argument(1).map_or("", |kind| &kind.text) {
        "nodefault" if is_special(name) => {
            work.recurse().add("special-names-off", name);
            work.in_key(statement, Section::Resolver, "special-names-off");
        }
        "nodefault" => work.ledger.unneeded(statement, "nomen answers nothing for it by itself"),
        "always_transparent" => {
            work.ledger.unneeded(statement, "its names are resolved as any other, and its `local-data` is left out");
        }
        "transparent" => {
            work.ledger.unneeded(statement, "names without `local-data` are resolved as any other")
        }
        _ => work.ledger.differs(
            statement,
            "its `local-data` is answered; all other names in it are resolved, and other types of a name with \
             data do not exist",
        ),
    }
    let around = closest(zones, name, Some(name)).map(|around| around.default);
    let is_open_below = zones
        .iter()
        .filter(|other| other.name != *name && is_below(&other.name, name))
        .all(|other| other.default == Default::Resolved);
    match around {
        None | Some(Default::Resolved) => {}
        Some(Default::Listed(answer)) if is_open_below && at_and_below(name).is_some() => {
            let rule = at_and_below(name).unwrap_or_default();
            work.list_line(list_name(answer), &Effect::answer(answer), format!("@@{rule}"));
            work.ledger
                .translated(statement, format!("an exception in [[policy.list]] `{}`", list_name(answer)));
        }
        Some(_) => work.ledger.narrower(
            statement,
            "its names are those of a `local-zone` above it, and are blocked or refused with it",
        ),
    }
}

/// Converts `local-data`. Records of a zone of type `redirect` also answer for all names below it.
fn data(
    work: &mut Work,
    all: &[&Statement],
    (tagged, of_groups): (&[String], &ZoneTags),
    zones: &[LocalZone<'_>],
) {
    for statement in all {
        let text = match statement.key() {
            "local-data" => statement.value().to_owned(),
            "local-data-ptr" => match pointer(statement.value()) {
                Some(text) => text,
                None => {
                    work.not_understood(statement);
                    continue;
                }
            },
            _ => continue,
        };
        let owner = text.split_whitespace().next().and_then(domain);
        let Some(owner) = owner else {
            work.not_understood(statement);
            continue;
        };
        if tagged.iter().chain(of_groups.keys()).any(|zone| is_below(&owner, zone)) {
            work.ledger.narrower(
                statement,
                "nomen has no tags for records: it would be answered to every client, and is left out",
            );
            continue;
        }
        let zone = closest(zones, &owner, None);
        if zone.is_some_and(|zone| !zone.has_data) {
            work.ledger.unneeded(statement, "the type of its `local-zone` takes no account of data");
            continue;
        }
        if zone.is_some_and(|zone| zone.default == Default::Redirected && zone.name == owner) {
            let rest = text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
            work.recurse().add("local-data", format!("*.{owner}. {rest}"));
        }
        work.recurse().add("local-data", text);
        work.in_key(statement, Section::Resolver, "local-data");
    }
}

/// Converts local zones for certain clients that are no rules for groups: refuses their names.
fn tagged(work: &mut Work, all: &[&Statement], of_groups: &ZoneTags) -> Vec<String> {
    let mut out = Vec::new();
    for statement in all.iter().filter(|s| s.key() == "local-zone-tag") {
        match domain(statement.value()) {
            Some(name) if of_groups.contains_key(&name) => {
                work.ledger.translated(statement, "`$ctag` of the rule for the zone");
            }
            Some(name) => {
                work.refuse_all_below(&name);
                work.ledger.narrower(
                    statement,
                    "nomen has tags for blocked names alone: the names of this zone are refused (`refused-domains`)",
                );
                out.push(name);
            }
            None => work.refuse_recursion(statement, "its name is not understood here"),
        }
    }
    out
}

/// Converts `ADDRESS [TTL] NAME` to a PTR record.
fn pointer(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (address, ttl, name) = match words[..] {
        [address, name] => (address, "", name),
        [address, ttl, name] => (address, ttl, name),
        _ => return None,
    };
    let owner = match address.parse().ok()? {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(v6) => {
            let digits: Vec<String> =
                format!("{:032x}", u128::from(v6)).chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa.", digits.join("."))
        }
    };
    Some(
        [owner.as_str(), ttl, "PTR", name]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
    )
}
