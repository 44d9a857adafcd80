//! `nomen ctl delegation`: what child zones ask of their delegations.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::NameBuf;

use super::CommandResult;
use super::zones::find;
use crate::fault::{ArgumentFault, CommandFault};
use crate::parts::ServerParts;
use config::table::value::format_duration;
use config::zone_name::zone_name;
use zone_manager::changes::{DelegationStatus, Delegations};

fn not_asked(zone: &str) -> CommandFault {
    let why = format!("the child zones of {zone} are not asked: it has no `delegation-updates`");
    CommandFault::Delegations(why)
}

/// Returns what checks delegations.
fn part(parts: &ServerParts, zone: &str) -> Result<Arc<Delegations>, CommandFault> {
    let changes = parts.changes.as_ref().and_then(|changes| changes.delegations().cloned());
    changes.ok_or_else(|| not_asked(zone))
}

/// Returns what was found of the delegations of a zone.
pub(super) fn list(parts: &ServerParts, name: &str) -> CommandResult {
    let apex = find(&parts.table, name)?.spec.apex.clone();
    let zone = apex.to_string();
    let status = part(parts, &zone)?.status(&apex);
    let (rules, all) = status.ok_or_else(|| not_asked(&zone))?;
    let words = [("cds", rules.cds), ("bootstrap", rules.bootstrap), ("csync", rules.csync)];
    let accepted: Vec<&str> = words.iter().filter(|(_, is_on)| *is_on).map(|(word, _)| *word).collect();
    Ok(json!({
        "zone": zone,
        "accepts": accepted,
        "scan": rules.scan_every.map(format_duration),
        "notify": rules.notify,
        "dry_run": rules.dry_run,
        "delegations": all.iter().map(row).collect::<Vec<Value>>(),
    }))
}

/// Checks a delegation now, and returns what was found.
pub(super) fn check(parts: &ServerParts, name: &str, child: &str) -> CommandResult {
    let apex = find(&parts.table, name)?.spec.apex.clone();
    let child: NameBuf = zone_name(child).map_err(ArgumentFault::Name)?;
    let delegations = part(parts, &apex.to_string())?;
    if delegations.status(&apex).is_none() {
        return Err(not_asked(&apex.to_string()));
    }
    let checked = delegations.check_now(&apex, &child).map_err(CommandFault::Delegations)?;
    Ok(json!({ "checks": checked.iter().map(row).collect::<Vec<Value>>() }))
}

fn row(status: &DelegationStatus) -> Value {
    let mut row = json!({
        "child": status.child.to_string(),
        "records": status.kind.word(),
        "outcome": status.outcome.word(),
        "checked": status.checked.as_secs(),
    });
    let reason = status.outcome.reason().map(|reason| reason.word());
    let optional = [
        ("reason", reason.map(Value::from)),
        ("detail", status.outcome.detail().map(Value::from)),
        ("changed", status.changed.map(|at| at.as_secs().into())),
        ("next", status.next.map(|at| at.as_secs().into())),
    ];
    for (key, value) in optional {
        value.into_iter().for_each(|value| row[key] = value);
    }
    row
}
