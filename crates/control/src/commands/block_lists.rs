//! `nomen ctl policy`: response policy zones and block lists.

use std::net::IpAddr;

use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::{Name, Prefix, Type};

use super::CommandResult;
use super::recursion::RecursiveParts;
use crate::fault::{ArgumentFault, CommandFault};
use config::zone_name::zone_name;
use policy::{Match, PolicyQuery, RuleEffect, RuleReach, TriggerKind};
use recursion::{BlockLists, RewriteKind};
use serving::recursive::{ListStatus, PolicyZoneStatus, Recursive};

/// Returns the state of every response policy zone, then of every list.
pub(super) fn status(RecursiveParts { recursive, .. }: RecursiveParts<'_>) -> CommandResult {
    let one = |(ListStatus { config, report, read, fault }, blocked): (ListStatus, u64)| {
        json!({
            "name": config.name,
            "file": config.file.display().to_string(),
            "kind": if config.exempts { "allow" } else { "block" },
            "loaded": read.map(|read| read.as_secs()),
            "rules": report.as_ref().map(|report| report.rules),
            "lines_ignored": report.as_ref().map(|report| report.ignored),
            "lines_unusable": report.as_ref().map(|report| report.faults),
            "first_unusable": report.as_ref().map(|report| config.places(report).collect::<Vec<_>>()),
            "fault": fault,
            "blocked": blocked,
        })
    };
    let zones = zones(recursive).into_iter();
    Ok(zones.chain(recursive.lists.status().into_iter().map(one)).collect())
}

/// Returns the state of every response policy zone.
fn zones(recursive: &Recursive) -> Vec<Value> {
    let (zones, in_force) = recursive.lists.zones();
    let rules = in_force.as_deref().map_or(&[][..], BlockLists::zones).iter();
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
    let query = PolicyQuery { name: &hashed, qtype: Type::A, client, is_first: true };
    let found = rules.decide(&query, rules.sources());
    if let Some(rule) = found.rpz {
        return of_zone(&rules, name, &rule, client);
    }
    let rule = found.list?;
    Some(described(recursive, name, rule, &rules.list(&rule)?.name))
}

/// Returns the rule of a response policy zone about a query name or its client.
fn of_zone(rules: &BlockLists, name: Name<'_>, rule: &Match, client: Option<IpAddr>) -> Option<Value> {
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

/// Returns the fault of the first list that could not be read.
pub(super) fn fault(recursive: &Recursive) -> Option<CommandFault> {
    let mut lists = recursive.lists.status().into_iter();
    lists.find_map(|(ListStatus { config, fault, .. }, _)| {
        Some(CommandFault::List { name: config.name, file: config.file, fault: fault? })
    })
}
