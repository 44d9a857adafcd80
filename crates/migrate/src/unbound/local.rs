//! `local-zone` and `local-data` of unbound.conf.

use std::net::IpAddr;

use super::local_types::{LocalDefault, list_name, of_type};
use super::tags::{self, TagRule, ZoneTags};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::narrow::is_below;
use crate::policy::{Effect, at_and_below};
use crate::tree::Statement;
use crate::work::{Work, domain, is_special};

/// A local zone.
struct LocalZone<'s> {
    name: String,
    default: LocalDefault,
    /// Whether its `local-data` is answered.
    has_data: bool,
    statement: &'s Statement,
}

/// Converts local zones and their data.
pub(super) fn names(work: &mut Work, all: &[&Statement]) {
    let of_groups = tags::convert(work, all);
    let tagged = tagged(work, all, &of_groups);
    let zones = zones(work, all, &tagged);
    for zone in &zones {
        convert(work, &zones, zone, of_groups.get(&zone.name).map(Vec::as_slice));
    }
    if !of_groups.is_empty() || zones.iter().any(|zone| matches!(zone.default, LocalDefault::Listed(_))) {
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
        let (default, has_data) = of_type(kind).unwrap_or((LocalDefault::Refused, true));
        let default = match default {
            LocalDefault::Listed(_) if at_and_below(&name).is_none() => LocalDefault::Refused,
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

fn convert(work: &mut Work, zones: &[LocalZone<'_>], zone: &LocalZone<'_>, tags: Option<&[TagRule]>) {
    let (name, statement) = (&zone.name, zone.statement);
    if let Some(rules) = tags {
        return for_groups(work, zone, rules);
    }
    let kind = statement.argument(1).map_or("", |kind| &kind.text);
    let around = closest(zones, name, Some(name));
    match zone.default {
        LocalDefault::Resolved => resolved(work, zones, zone),
        LocalDefault::Redirected => {
            // Names of the zone without data of their own are not queried.
            work.refuse_all_below(name);
            work.ledger.translated(statement, "`local-data` of [resolver], with a `*` in front as well");
        }
        LocalDefault::Listed(_) if kind == "static" && is_special(name) => {
            work.ledger.unneeded(statement, "nomen does so anyway");
        }
        LocalDefault::Listed(answer) => {
            at_and_below(name).into_iter().for_each(|rule| {
                work.list_line(list_name(answer), &Effect::answer(answer), rule);
            });
            work.ledger.translated(statement, format!("[[policy.list]] `{}`", list_name(answer)));
            if around.is_some_and(|around| {
                !matches!(around.default, LocalDefault::Listed(other) if other == answer)
                    && around.default != LocalDefault::Resolved
            }) {
                work.ledger.differs(statement, "its names get the answer of the `local-zone` above it");
            }
        }
        LocalDefault::Refused => {
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

/// Converts a zone that counts for groups of clients alone.
fn for_groups(work: &mut Work, zone: &LocalZone<'_>, rules: &[TagRule]) {
    for TagRule { answer, modifiers } in rules {
        let answer = answer.unwrap_or("nxdomain");
        if let Some(rule) = at_and_below(&zone.name) {
            work.list_line(list_name(answer), &Effect::answer(answer), format!("{rule}${modifiers}"));
        }
    }
    work.ledger.translated(zone.statement, "[[policy.list]] `local-zones-…`, for groups of clients");
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
    // Those of a zone further above are refused, whatever lists exempt.
    let is_refused = zones.iter().any(|other| {
        let is_above = other.name != *name && is_below(name, &other.name);
        is_above && matches!(other.default, LocalDefault::Refused | LocalDefault::Redirected)
    });
    let is_open_below = zones
        .iter()
        .filter(|other| other.name != *name && is_below(&other.name, name))
        .all(|other| other.default == LocalDefault::Resolved);
    match around {
        None | Some(LocalDefault::Resolved) => {}
        Some(LocalDefault::Listed(answer))
            if is_open_below && !is_refused && at_and_below(name).is_some() =>
        {
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
        if zone.is_some_and(|zone| zone.default == LocalDefault::Redirected && zone.name == owner) {
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
                work.ledger.translated(statement, "`$ctag` or `$client` of the rules for the zone");
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
