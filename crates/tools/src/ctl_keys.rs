//! `nomen ctl key`: its commands, and their answers as text.

use serde_json::Value;

use crate::ctl_values::{flat, value_text};
use crate::key_args::{CtlKey, KeyRoleArg};
use control::protocol::{ControlCommand, RolledRole};

/// Returns the command of these arguments.
pub(super) fn about_keys(verb: &CtlKey) -> ControlCommand {
    match verb {
        CtlKey::List { zone } => ControlCommand::KeyList { name: zone.clone() },
        CtlKey::Timeline { zone } => ControlCommand::KeyTimeline { name: zone.clone() },
        CtlKey::Roll { zone, key, role } => {
            let role = role.map(|role| match role {
                KeyRoleArg::Ksk => RolledRole::Ksk,
                KeyRoleArg::Zsk => RolledRole::Zsk,
                KeyRoleArg::Csk => RolledRole::Csk,
            });
            ControlCommand::KeyRoll { name: zone.clone(), key: key.clone(), role }
        }
        CtlKey::Retire { zone, key } => ControlCommand::KeyRetire { name: zone.clone(), key: key.clone() },
        CtlKey::DsPublished { zone, key } => {
            ControlCommand::KeyDsPublished { name: zone.clone(), key: key.clone() }
        }
        CtlKey::DsWithdrawn { zone, key } => {
            ControlCommand::KeyDsWithdrawn { name: zone.clone(), key: key.clone() }
        }
        CtlKey::ExportDs { zone, digest } => {
            let mut digests: Vec<u8> = digest.iter().map(|digest| digest.code()).collect();
            digests.dedup();
            ControlCommand::KeyExportDs { name: zone.clone(), digests }
        }
    }
}

fn rows<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn time(value: &Value, key: &str) -> String {
    value_text(key, &value[key])
}

/// Returns the keys of a zone as text: a line for each key, and below it one for each of its records.
pub(super) fn key_list_text(list: &Value) -> String {
    let mut out = format!("zone {}: policy {}", flat(&list["zone"]), flat(&list["policy"]));
    if !list["signatures_end"].is_null() {
        out += &format!(", first expiration {}", time(list, "signatures_end"));
    }
    out += &format!(", next look {}\n", time(list, "next_look"));
    if let Some(fault) = list["fault"].as_str() {
        out += &format!("the last look failed: {fault}\n");
    }
    for key in rows(list, "keys") {
        let [tag, algorithm, role, goal] = ["tag", "algorithm", "role", "goal"].map(|name| flat(&key[name]));
        out += &format!("key {tag}/{algorithm}, {role}, goal {goal}");
        for (name, words) in [("predecessor", "replaces"), ("successor", "replaced by")] {
            if let Some(other) = key[name].as_str() {
                out += &format!(", {words} {other}");
            }
        }
        out.push('\n');
        for record in rows(key, "records") {
            let (name, state) = (flat(&record["record"]), flat(&record["state"]));
            let since = match record["since"].is_null() {
                true => String::new(),
                false => format!(" since {}", time(record, "since")),
            };
            out += &format!("    {name:15}  {state}{since}\n");
        }
        let waits = &key["waits"];
        if let Some(cause) = waits["for"].as_str() {
            let until = match waits["until"].is_null() {
                true => String::new(),
                false => format!(", until {}", time(waits, "until")),
            };
            out += &format!("    waits: {cause}{until}\n");
        }
    }
    rows(list, "waits").for_each(|wait| out += &format!("the zone waits: {}\n", flat(wait)));
    out
}

/// Returns the events to come as text, a line for each.
pub(super) fn timeline_text(timeline: &Value) -> String {
    let line = |event: &Value| {
        let [tag, algorithm, what] = ["tag", "algorithm", "event"].map(|name| flat(&event[name]));
        format!("{}  key {tag}/{algorithm}: {what}\n", time(event, "at"))
    };
    let lines: String = rows(timeline, "events").map(line).collect();
    match lines.is_empty() {
        true => "no event comes by itself: `nomen ctl key list` shows what each key waits for\n".into(),
        false => lines,
    }
}

/// Returns the DS records that the parent is to have, one on each line.
pub(super) fn ds_text(records: &Value) -> String {
    rows(records, "ds").map(|record| flat(record) + "\n").collect()
}
