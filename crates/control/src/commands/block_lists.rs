//! `nomen ctl policy`: block lists.

use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::{Name, Type};

use super::CommandResult;
use super::recursion::RecursiveParts;
use crate::fault::{ArgumentFault, CommandFault};
use config::zone_name::zone_name;
use policy::{Match, PolicyQuery, RuleEffect, RuleReach};
use serving::recursive::{ListStatus, Recursive};

/// Returns the state of every list.
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
    Ok(recursive.lists.status().into_iter().map(one).collect())
}

/// Returns the rule that decides about a name.
pub(super) fn test(RecursiveParts { recursive, .. }: RecursiveParts<'_>, text: &str) -> CommandResult {
    let name = zone_name(text).map_err(ArgumentFault::Name)?;
    let Some(lists) = recursive.lists.in_force() else {
        return Ok(json!({"result": "no-rule", "text": "there are no lists"}));
    };
    let mut hashed = HashedName::new();
    hashed.set(recursive.service.cache().key(), name.as_name());
    let query = PolicyQuery { name: &hashed, qtype: Type::A, client: None };
    let found = lists.rule(&query).and_then(|rule| Some((rule, lists.list(&rule)?.name.clone())));
    Ok(match found {
        Some((rule, list)) => described(recursive, name.as_name(), rule, &list),
        None => json!({"result": "no-rule", "text": "no list has a rule for it"}),
    })
}

/// Returns the rule of a list for a name, with its line.
pub(super) fn described(recursive: &Recursive, name: Name<'_>, found: Match, list: &str) -> Value {
    let Match { rule, skip } = found;
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
