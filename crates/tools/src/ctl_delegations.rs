//! `nomen ctl delegation`: its commands, and their answers as text.

use serde_json::Value;

use control::protocol::ControlCommand;

use crate::args::CtlDelegation;
use crate::ctl_values::{flat, value_text};

/// Returns the command to send.
pub(super) fn about_delegations(delegation: &CtlDelegation) -> ControlCommand {
    match delegation {
        CtlDelegation::List { zone } => ControlCommand::DelegationList { name: zone.clone() },
        CtlDelegation::Check { zone, child } => {
            ControlCommand::DelegationCheck { name: zone.clone(), child: child.clone() }
        }
    }
}

/// Returns the delegations of a zone as text, a line for each.
pub(super) fn delegations_text(list: &Value) -> String {
    let mut out = format!("zone {}: accepts {}", flat(&list["zone"]), flat(&list["accepts"]));
    match list["scan"].as_str() {
        Some(every) => out += &format!(", asks every {every}"),
        None => out += ", does not scan",
    }
    if list["notify"].as_bool() == Some(true) {
        out += " and after NOTIFY";
    }
    if list["dry_run"].as_bool() == Some(true) {
        out += "; dry run: it is not changed";
    }
    out.push('\n');
    let rows = list["delegations"].as_array().into_iter().flatten();
    rows.for_each(|row| out += &delegation_text(row));
    out
}

/// Returns what a check of a delegation has found as text, a line for each kind of record.
pub(super) fn checks_text(found: &Value) -> String {
    found["checks"].as_array().into_iter().flatten().map(delegation_text).collect()
}

/// Returns the last check of a delegation as a line.
fn delegation_text(row: &Value) -> String {
    let mut line = format!("{} {}: {}", flat(&row["child"]), flat(&row["records"]), flat(&row["outcome"]));
    if let Some(reason) = row["reason"].as_str() {
        line += &format!(" ({reason})");
    }
    line += &format!(", checked {}", value_text("checked", &row["checked"]));
    for (key, words) in [("changed", "changed"), ("next", "next check")] {
        if !row[key].is_null() {
            line += &format!(", {words} {}", value_text("at", &row[key]));
        }
    }
    if let Some(detail) = row["detail"].as_str() {
        line += &format!("\n    {detail}");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delegation_has_a_line_and_its_fault_another() {
        let list = json!({
            "zone": "example.", "accepts": ["cds", "bootstrap"], "scan": "1d", "notify": true,
            "dry_run": true,
            "delegations": [
                {"child": "a.example.", "records": "cds", "outcome": "unchanged", "checked": 0},
                {"child": "b.example.", "records": "csync", "outcome": "refused", "reason": "lame",
                 "checked": 0, "next": 0, "detail": "name server 192.0.2.1: the server does not have the zone"},
            ],
        });
        let text = delegations_text(&list);
        let lines: Vec<&str> = text.lines().collect();
        let head = "zone example.: accepts cds, bootstrap, asks every 1d and after NOTIFY; dry run: it is not changed";
        assert_eq!(lines[0], head);
        assert!(lines[1].starts_with("a.example. cds: unchanged, checked 1970-01-01"), "{text}");
        assert!(lines[2].starts_with("b.example. csync: refused (lame), checked 1970-01-01"), "{text}");
        assert!(lines[2].contains(", next check 1970-01-01"), "{text}");
        assert_eq!(lines[3], "    name server 192.0.2.1: the server does not have the zone");
    }
}
