//! `nomen ctl policy`: response policy zones and block lists.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use transport::{Client, Transport};
use wire::hash::HashedName;
use wire::{Name, Prefix, Type, UnixTime};

use super::CommandResult;
use super::recursion::RecursiveParts;
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use config::lists::ListSource;
use config::policy_groups::DEFAULT_GROUP;
use config::table::value::parse_duration;
use config::zone_name::zone_name;
use policy::{Match, PolicyQuery, RuleEffect, RuleReach, TriggerKind};
use recursion::{PolicyRules, RewriteKind};
use serving::recursive::{ListFetches, ListStatus, PolicyZoneStatus, Recursive};

/// Returns the state of every response policy zone, then of every list.
pub(super) fn status(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let one = |(ListStatus { config, report, read, fault, fetches }, blocked): (ListStatus, u64)| {
        let (file, url) = match &config.source {
            ListSource::File(file) => (Some(file.display().to_string()), None),
            ListSource::Url(fetching) => (None, Some(fetching.url.as_str())),
        };
        let time =
            |of: fn(&ListFetches) -> Option<UnixTime>| fetches.as_ref().and_then(of).map(UnixTime::as_secs);
        let mut status = json!({
            "name": config.name,
            "kind": if config.exempts { "allow" } else { "block" },
            "loaded": read.map(|read| read.as_secs()),
            "rules": report.as_ref().map(|report| report.rules),
            "lines_ignored": report.as_ref().map(|report| report.ignored),
            "lines_unusable": report.as_ref().map(|report| report.faults),
            "first_unusable": report.as_ref().map(|report| config.places(report).collect::<Vec<_>>()),
            "fault": fault,
            "blocked": blocked,
        });
        match (file, url) {
            (Some(file), _) => status["file"] = file.into(),
            (None, url) => {
                status["url"] = url.into();
                status["confirmed"] = time(|fetches| fetches.confirmed).into();
                status["attempted"] = time(|fetches| fetches.attempted).into();
                status["next_attempt"] = time(|fetches| Some(fetches.next)).into();
            }
        }
        status
    };
    let zones = zones(recursive).into_iter();
    let groups = recursive.lists.groups().into_iter();
    let group = |(name, paused): (String, Option<UnixTime>)| json!({"name": name, "kind": "group", "paused_until": paused.map(UnixTime::as_secs)});
    let lists = recursive.lists.status().into_iter().map(one);
    Ok(zones
        .chain(lists)
        .chain(groups.filter(|(name, until)| until.is_some() || name != DEFAULT_GROUP).map(group))
        .collect())
}

/// Fetches or reads lists now: the one of this name, or all. Returns the outcomes.
pub(super) async fn refresh(parts: &ServerParts, list: Option<&str>) -> CommandResult {
    let recursive = parts.recursive.as_deref().ok_or(CommandFault::NotRecursive)?;
    let outcomes = recursive.refresh_lists(list);
    let outcomes = outcomes.ok_or_else(|| CommandFault::NoSuchList(list.unwrap_or_default().to_owned()))?;
    // The thread of lists drops an order without a reply only while the server stops.
    let outcomes = outcomes.await.map_err(|_| CommandFault::Stopping)?;
    let failed = outcomes.values().filter(|outcome| outcome.is_err()).count();
    let one = |(ListStatus { config, report, .. }, _): (ListStatus, u64)| {
        let (result, fault) = match outcomes.get(&config.name)? {
            Ok(true) => ("updated", None),
            Ok(false) => ("unchanged", None),
            Err(fault) => ("failed", Some(fault)),
        };
        let rules = report.map(|report| report.rules);
        Some(json!({"name": config.name, "result": result, "rules": rules, "fault": fault}))
    };
    let lists: Vec<Value> = recursive.lists.status().into_iter().filter_map(one).collect();
    let outcomes = json!({"lists": lists});
    match failed {
        0 => Ok(outcomes),
        failed => Err(CommandFault::NotRefreshed { failed, outcomes }),
    }
}

/// Returns the state of every response policy zone.
fn zones(recursive: &Recursive) -> Vec<Value> {
    let (zones, in_force) = recursive.lists.zones();
    let rules = in_force.as_deref().map_or(&[][..], PolicyRules::zones).iter();
    let one = |(status, zone): (PolicyZoneStatus, &recursion::PolicyZone)| {
        let PolicyZoneStatus { config, serial, report } = status;
        let counts =
            RewriteKind::ALL.map(|(kind, label)| (label.to_owned(), json!(zone.counts.of(kind).get())));
        let first = report.first.iter().map(|skipped| format!("{}: {}", skipped.owner, skipped.fault));
        json!({
            "name": config.name.to_string(),
            "kind": "policy-zone",
            "serial": serial.map(|serial| serial.0),
            "rules": report.rules,
            "owners_unusable": report.faults,
            "first_unusable": first.collect::<Vec<_>>(),
            "queries": serde_json::Map::from_iter(counts),
        })
    };
    zones.into_iter().zip(rules).map(one).collect()
}

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(7 * 86_400);

/// Suspends all rules for a group of clients for a time, or ends that.
pub(super) fn pause(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    group: &str,
    time: Option<&str>,
) -> CommandResult {
    let time = time.map(parse_duration).transpose().map_err(ArgumentFault::Duration)?;
    if time.is_some_and(|time| !(Duration::from_secs(1)..=LONGEST_PAUSE).contains(&time)) {
        return Err(ArgumentFault::DurationRange.into());
    }
    if !recursive.pause_rules(group, time) {
        return Err(CommandFault::NoSuchGroup(group.to_owned()));
    }
    Ok(match time {
        Some(_) => json!("done; no rule applies to the group until then"),
        None => json!("done"),
    })
}

/// Returns the rule that decides about a name, queried by a client if there is one.
pub(super) fn test(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    text: &str,
    client: Option<IpAddr>,
) -> CommandResult {
    let name = zone_name(text).map_err(ArgumentFault::Name)?;
    if recursive.lists.in_force().is_none() {
        return Ok(json!({"result": "no-rule", "text": "there are no policy zones and no lists"}));
    }
    let found = decided(recursive, name.as_name(), client);
    let none = || json!({"result": "no-rule", "text": "no policy zone and no list has a rule for it"});
    Ok(found.unwrap_or_else(none))
}

/// Returns the rule that decides about a query name, if there is one.
pub(super) fn decided(recursive: &Recursive, name: Name<'_>, client: Option<IpAddr>) -> Option<Value> {
    let rules = recursive.lists.in_force()?;
    let mut hashed = HashedName::new();
    hashed.set(recursive.service.cache().key(), name);
    let query = PolicyQuery { name: &hashed, qtype: Type::A, client };
    // Groups by interface or transport are those of UDP on no certain interface.
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    let asking =
        |client| Client { peer: SocketAddr::new(client, 0), local: unspecified, transport: Transport::Udp };
    let sources = client.map_or(rules.sources(), |client| rules.sources_of(&asking(client)));
    let found = rules.decide(&query, sources);
    if let Some(rule) = found.rpz {
        return of_zone(&rules, name, &rule, client);
    }
    let rule = found.list?;
    Some(described(recursive, name, rule, &rules.list(&rule)?.name))
}

/// Returns the rule of a response policy zone about a query name or its client.
fn of_zone(rules: &PolicyRules, name: Name<'_>, rule: &Match, client: Option<IpAddr>) -> Option<Value> {
    let (zone, action) = (rules.zone(rule)?.name.to_string(), rules.action_label(rule)?);
    let does = match action {
        "nxdomain" => "answers NXDOMAIN",
        "nodata" => "answers that there are no records",
        "passthru" => "exempts it from all rules",
        "drop" => "sends no reply",
        "tcp-only" => "makes the client ask again over TCP",
        _ => "answers with its own records",
    };
    let of = name.skip(rule.skip).to_string();
    let about = match (rule.trigger, client, rule.rule.reach) {
        (TriggerKind::ClientIp, Some(client), _) => {
            // The lengths of IPv4 prefixes are those of mapped addresses.
            let len = rule.rule.prefix_len;
            let len = if client.to_canonical().is_ipv4() { len.checked_sub(96)? } else { len };
            Prefix::of(client.to_canonical(), len)?.to_string()
        }
        (_, _, RuleReach::Name | RuleReach::Pattern) => of,
        (_, _, RuleReach::Below | RuleReach::NameAndBelow) => format!("*.{of}"),
    };
    let trigger = rule.trigger.name();
    Some(json!({
        "result": action,
        "zone": zone,
        "trigger": trigger,
        "name": about,
        "text": format!("the policy zone {zone} {does}: its {trigger} rule for {about}"),
    }))
}

/// Returns the rule of a list for a name, with its line.
fn described(recursive: &Recursive, name: Name<'_>, found: Match, list: &str) -> Value {
    let Match { rule, skip, .. } = found;
    let of = name.skip(skip);
    let (result, does) = match rule.effect {
        RuleEffect::Allow { important: false } => ("exempt", "exempts it"),
        RuleEffect::Allow { important: true } => ("exempt", "exempts it, as important"),
        RuleEffect::Block { important: true } => ("blocked", "blocks it, as important"),
        RuleEffect::Block { important: false } | RuleEffect::Rpz(_) | RuleEffect::Disable { .. } => {
            ("blocked", "blocks it")
        }
    };
    let covers = match rule.reach {
        RuleReach::Name => format!("the rule for {of}"),
        RuleReach::Below => format!("the rule for all names below {of}"),
        RuleReach::NameAndBelow => format!("the rule for {of} and all names below"),
        RuleReach::Pattern => format!("a pattern that {of} matches"),
    };
    let line = recursive.lists.line(list, of);
    let place = line.map_or(String::new(), |line| format!(", line {line},"));
    json!({
        "result": result,
        "list": list,
        "line": line,
        "name": of.to_string(),
        "text": format!("the list {list}{place} {does}: {covers}"),
    })
}

/// Returns the fault of the first list whose file could not be read. A reload reads no lists with a URL.
pub(super) fn fault(recursive: &Recursive) -> Option<CommandFault> {
    let mut lists = recursive.lists.status().into_iter();
    lists.find_map(|(ListStatus { config, fault, .. }, _)| match config.source {
        ListSource::File(file) => Some(CommandFault::List { name: config.name, file, fault: fault? }),
        ListSource::Url(_) => None,
    })
}
