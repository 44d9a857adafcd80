//! `nomen ctl policy`: block lists.

use serde_json::{Value, json};
use wire::hash::HashedName;
use wire::{Name, UnixTime};

use super::CommandResult;
use super::recursion::RecursiveParts;
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use config::lists::ListSource;
use config::zone_name::zone_name;
use policy::{Match, RuleEffect, RuleReach};
use serving::recursive::{ListFetches, ListStatus, Recursive};

/// Returns the state of every list.
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
    Ok(recursive.lists.status().into_iter().map(one).collect())
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

/// Returns the rule that decides about a name.
pub(super) fn test(RecursiveParts { recursive, .. }: RecursiveParts<'_>, text: &str) -> CommandResult {
    let name = zone_name(text).map_err(ArgumentFault::Name)?;
    let Some(lists) = recursive.lists.in_force() else {
        return Ok(json!({"result": "no-rule", "text": "there are no lists"}));
    };
    let mut hashed = HashedName::new();
    hashed.set(recursive.service.cache().key(), name.as_name());
    let found = lists.rule(&hashed).and_then(|rule| Some((rule, lists.list(&rule)?.name.clone())));
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
        RuleEffect::Block { important: false } | RuleEffect::Rpz(_) => ("blocked", "blocks it"),
    };
    let covers = match rule.reach {
        RuleReach::Name => format!("the rule for {of}"),
        RuleReach::Below => format!("the rule for all names below {of}"),
        RuleReach::NameAndBelow => format!("the rule for {of} and all names below"),
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
