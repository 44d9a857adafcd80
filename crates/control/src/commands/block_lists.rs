//! `nomen ctl policy`: response policy zones and block lists.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::{Name, Prefix, Type, UnixTime};

use super::CommandResult;
use super::asking::QueryClient;
use super::recursion::RecursiveParts;
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use crate::protocol::TopKind;
use config::lists::ListSource;
use config::policy_groups::DEFAULT_GROUP;
use config::table::value::parse_duration;
use config::zone_name::zone_name;
use policy::{Match, PolicyQuery, Rewrites, RuleEffect, RuleReach, TriggerKind};
use recursion::{PolicyRules, RewriteKind};
use serving::recursive::{ListFetches, ListStatus, PolicyZoneStatus, Recursive};
use telemetry::heavy::TopList;
use telemetry::policy_top::TopBy;

/// Returns the state of every response policy zone, then of every list.
pub(super) fn status(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let one = |(ListStatus { config, report, read, fault, fetches, .. }, blocked): (ListStatus, u64)| {
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
    let figures = recursive.lists.group_figures().into_iter();
    let over_limit: BTreeMap<String, u64> =
        figures.map(|(name, figure)| (name, figure.over_limit.load(Relaxed))).collect();
    let group = |(name, paused): (String, Option<UnixTime>)| {
        json!({
            "name": name,
            "kind": "group",
            "paused_until": paused.map(UnixTime::as_secs),
            "host_addresses": recursive.lists.host_addresses(&name),
            "over_limit": over_limit.get(&name),
        })
    };
    let lists = recursive.lists.status().into_iter().map(one);
    let is_shown = |(name, until): &(String, Option<UnixTime>)| {
        until.is_some() || name != DEFAULT_GROUP || over_limit.get(name).is_some_and(|count| *count > 0)
    };
    Ok(zones.chain(lists).chain(groups.filter(is_shown).map(group)).collect())
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

/// Most names, clients or sources in one answer.
const MOST_TOP: usize = 100_000;

/// Returns what the policy zones and lists block most.
pub(super) fn top(
    RecursiveParts { frontend, .. }: RecursiveParts<'_>,
    by: TopKind,
    count: usize,
    last_hour: bool,
) -> CommandResult {
    let (of, word) = match by {
        TopKind::Name => (TopBy::Name, "name"),
        TopKind::Client => (TopBy::Client, "client"),
        TopKind::RuleSource => (TopBy::RuleSource, "rule_source"),
    };
    if frontend.policy_top.size() == 0 {
        return Err(CommandFault::NoTop);
    }
    let found = frontend.policy_top.list(of, last_hour, count.clamp(1, MOST_TOP));
    let TopList { total, entries, others } = found.ok_or(CommandFault::Stopping)?;
    let entry =
        |(text, queries, error): (String, u64, u64)| json!({word: text, "queries": queries, "error": error});
    Ok(json!({
        "by": word,
        "period": if last_hour { "hour" } else { "start" },
        "queries": total,
        "top": entries.into_iter().map(entry).collect::<Vec<_>>(),
        "others_at_most": others,
        "dropped": frontend.policy_top.dropped(),
    }))
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

/// Returns the rule that decides about a name, queried by a client if the operator names one, for a type (A
/// if it is empty).
pub(super) fn test(
    RecursiveParts { recursive, .. }: RecursiveParts<'_>,
    text: &str,
    client: &QueryClient,
    rtype: &str,
) -> CommandResult {
    let name = zone_name(text).map_err(ArgumentFault::Name)?;
    let qtype = match rtype {
        "" => Type::A,
        text => text.parse().map_err(|_| ArgumentFault::Type(text.into()))?,
    };
    if recursive.lists.in_force().is_none() {
        return Ok(json!({"result": "no-rule", "text": "there are no policy zones and no lists"}));
    }
    let found = decided(recursive, name.as_name(), client, qtype);
    let none = || json!({"result": "no-rule", "text": "no policy zone and no list has a rule for it"});
    let mut described = found.unwrap_or_else(none);
    if let Some(Some(group)) = group_of(recursive, client) {
        let text = described["text"].as_str().unwrap_or_default();
        described["text"] = format!("{text} (group `{group}`)").into();
        described["group"] = group.into();
    }
    Ok(described)
}

/// Returns the group of a client that the operator names, `Some(None)` if it is in none; `None` if there are
/// no groups.
pub(super) fn group_of(recursive: &Recursive, client: &QueryClient) -> Option<Option<String>> {
    let has_groups = recursive.lists.groups().iter().any(|(name, _)| name != DEFAULT_GROUP);
    let client = client.of_groups().filter(|_| has_groups)?;
    let rules = recursive.lists.in_force()?;
    Some(rules.group_of(client).facts.map(|facts| facts.name.clone()))
}

/// Returns the rule that decides about a query name, if there is one.
pub(super) fn decided(
    recursive: &Recursive,
    name: Name<'_>,
    client: &QueryClient,
    qtype: Type,
) -> Option<Value> {
    let rules = recursive.lists.in_force()?;
    let mut hashed = HashedName::new();
    hashed.set(recursive.service.cache().key(), name);
    let view = client.of_groups().map(|client| rules.group_of(client));
    let (sources, group) = view.map_or((rules.sources(), None), |view| (view.sources, view.facts));
    let query = PolicyQuery { name: &hashed, qtype, client: client.address(), group };
    let found = rules.decide(&query, sources);
    let mut described = if let Some(rule) = found.rpz {
        of_zone(&rules, name, &rule, client.address())?
    } else if let Some(rewrites) = rules.rewrites(&query, sources, found.list.as_ref()) {
        rewritten(recursive, &rules, name, &rewrites)?
    } else {
        let rule = found.list?;
        described(recursive, name, rule, &rules.list(&rule)?.name)
    };
    if let Some(group) = group {
        described["group"] = group.name.as_str().into();
    }
    Some(described)
}

/// Returns the answer that lists give to a query.
fn rewritten(
    recursive: &Recursive,
    rules: &PolicyRules,
    name: Name<'_>,
    rewrites: &Rewrites,
) -> Option<Value> {
    let number = usize::from(rewrites.source.0).checked_sub(rules.zones().len())?;
    let list = &rules.lists().get(number)?.name;
    let records = rewrites.records().flat_map(|data| rules.rules().local_data(data));
    let records: Vec<String> = records
        .map(|record| {
            let mut text = format!("{} ", record.rtype);
            // Writing to a string does not fail.
            let _ = wire::rdata::write_text(record.rtype, record.rdata, &mut text);
            text
        })
        .collect();
    let answer = match rewrites.code {
        Some(code) => format!("with {code}"),
        None => format!("with {}", records.join(", ")),
    };
    // A rule may be about a name above.
    let of = (0..name.label_count()).map(|skip| name.skip(skip));
    let line = of.filter_map(|of| recursive.lists.line(list, of)).next();
    let place = line.map_or(String::new(), |line| format!(", line {line},"));
    Some(json!({
        "result": "rewritten",
        "list": list,
        "line": line,
        "name": name.to_string(),
        "code": rewrites.code.map(|code| code.to_string()),
        "records": records,
        "text": format!("the list {list}{place} answers {answer}"),
    }))
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
        _ => ("blocked", "blocks it"),
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
