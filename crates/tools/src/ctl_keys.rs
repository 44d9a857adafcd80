//! `nomen ctl key`: its commands, and their answers as text.

use serde_json::Value;
use transport::unix_now;

use crate::ctl_values::{flat, value_text};
use crate::key_args::{CtlKey, KeyRoleArg, KeyTime};
use crate::sign_request::read_text;
use control::protocol::{ControlCommand, RolledRole};
use wording::reason;

/// Returns the command of these arguments.
pub(super) fn about_keys(verb: &CtlKey) -> ControlCommand {
    match verb {
        CtlKey::List { zone } => ControlCommand::KeyList { name: zone.clone() },
        CtlKey::Timeline { zone } => ControlCommand::KeyTimeline { name: zone.clone() },
        CtlKey::Roll { zone, key, role, emergency } => {
            let role = role.map(|role| match role {
                KeyRoleArg::Ksk => RolledRole::Ksk,
                KeyRoleArg::Zsk => RolledRole::Zsk,
                KeyRoleArg::Csk => RolledRole::Csk,
            });
            ControlCommand::KeyRoll { name: zone.clone(), key: key.clone(), role, emergency: *emergency }
        }
        CtlKey::Retire { zone, key } => ControlCommand::KeyRetire { name: zone.clone(), key: key.clone() },
        CtlKey::DsPublished { zone, key } => {
            ControlCommand::KeyDsPublished { name: zone.clone(), key: key.clone() }
        }
        CtlKey::DsWithdrawn { zone, key } => {
            ControlCommand::KeyDsWithdrawn { name: zone.clone(), key: key.clone() }
        }
        CtlKey::Pregenerate { zone, until } => {
            ControlCommand::KeyPregenerate { name: zone.clone(), until: until.after(unix_now()).as_secs() }
        }
        CtlKey::Request { zone, from, until } => {
            let seconds = |time: &Option<KeyTime>| time.map(|time| time.after(unix_now()).as_secs());
            ControlCommand::KeyRequest { name: zone.clone(), from: seconds(from), until: seconds(until) }
        }
        // Its text is read when the command is sent.
        CtlKey::ImportResponse { zone, .. } => {
            ControlCommand::KeyImportResponse { name: zone.clone(), text: String::new() }
        }
        CtlKey::ExportDs { zone, digest } => {
            let mut digests: Vec<u8> = digest.iter().map(|digest| digest.code()).collect();
            digests.dedup();
            ControlCommand::KeyExportDs { name: zone.clone(), digests }
        }
    }
}

/// Reads the file of a command into it, if the command has one.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read_file(verb: &CtlKey, command: &mut ControlCommand) -> Result<(), String> {
    if let (CtlKey::ImportResponse { file, .. }, ControlCommand::KeyImportResponse { text, .. }) =
        (verb, command)
    {
        *text = read_text(file).map_err(|fault| format!("{}: {}", file.display(), reason(&fault)))?;
    }
    Ok(())
}

fn rows<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn time(value: &Value, key: &str) -> String {
    value_text(key, &value[key])
}

/// Returns an answer about the keys of a zone as text.
pub(super) fn key_text(verb: &CtlKey, said: &Value) -> String {
    match verb {
        CtlKey::List { .. } => key_list_text(said),
        CtlKey::Timeline { .. } => timeline_text(said),
        CtlKey::ExportDs { .. } => ds_text(said),
        CtlKey::Request { .. } => flat(&said["request"]),
        _ => signer_text(said),
    }
}

/// Returns what the signer of a zone does, as text.
pub(super) fn signer_text(said: &Value) -> String {
    format!("zone {}: {}\n", flat(&said["zone"]), flat(&said["result"]))
}

/// Returns the keys of a zone as text: a line for each key, and below it one for each of its records.
fn key_list_text(list: &Value) -> String {
    let mut out = format!("zone {}: policy {}", flat(&list["zone"]), flat(&list["policy"]));
    if !list["signatures_end"].is_null() {
        out += &format!(", first expiration {}", time(list, "signatures_end"));
    }
    out += &format!(", next look {}\n", time(list, "next_look"));
    out += &online_text(list);
    let offline = &list["offline"];
    if !offline.is_null() {
        let times = [
            ("slot_since", "slot of the signed key response since"),
            ("next_slot", "next slot from"),
            ("response_until", "signed key responses last until"),
            ("keys_until", "ZSKs are planned until"),
        ];
        let known = times.into_iter().filter(|(key, _)| !offline[key].is_null());
        let known: Vec<String> =
            known.map(|(key, words)| format!("{words} {}", time(offline, key))).collect();
        let known = if known.is_empty() { "no signed key response".into() } else { known.join(", ") };
        out += &format!("the KSK is offline: {known}\n");
    }
    if let Some(fault) = list["fault"].as_str() {
        out += &format!("the last look failed: {fault}\n");
    }
    out += &push_text(list);
    for key in rows(list, "keys") {
        let [tag, algorithm, role, goal] = ["tag", "algorithm", "role", "goal"].map(|name| flat(&key[name]));
        let duty = key["duty"].as_str().map(|duty| format!("{duty}, ")).unwrap_or_default();
        out += &format!("key {tag}/{algorithm}, {role}, {duty}goal {goal}");
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

/// Returns a line about how the zone is signed, if its answers are.
fn online_text(said: &Value) -> String {
    match said["online"].as_str() {
        Some(denial) => format!("answers are signed when they are asked for, with {denial} denial\n"),
        None => String::new(),
    }
}

/// Returns the events to come as text, a line for each.
fn timeline_text(timeline: &Value) -> String {
    let line = |event: &Value| {
        let [tag, algorithm, what] = ["tag", "algorithm", "event"].map(|name| flat(&event[name]));
        format!("{}  key {tag}/{algorithm}: {what}\n", time(event, "at"))
    };
    let lines: String = rows(timeline, "events").map(line).collect();
    let lines = match lines.is_empty() {
        true => "no event comes by itself: `nomen ctl key list` shows what each key waits for\n".into(),
        false => lines,
    };
    online_text(timeline) + &lines + &push_text(timeline)
}

/// Returns what was pushed to the parent, as a line; empty if nothing was.
fn push_text(of: &Value) -> String {
    let push = &of["ds_push"];
    let Some(state) = push["state"].as_str() else { return String::new() };
    let mut out = format!("DS records pushed to {}: {state}", flat(&push["to"]));
    if !push["at"].is_null() && state != "running" {
        out += &format!(" {}", time(push, "at"));
    }
    if let Some(detail) = push["detail"].as_str() {
        out += &format!(": {detail}");
    }
    if !push["next_try"].is_null() {
        out += &format!("; next try {}", time(push, "next_try"));
    }
    out + "\n"
}

/// Returns the DS records that the parent is to have, one on each line.
fn ds_text(records: &Value) -> String {
    rows(records, "ds").map(|record| flat(record) + "\n").collect()
}
