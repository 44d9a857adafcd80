//! `nomen ctl zone`: what is known of zones, and their records.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::AnswerLine;
use super::parts::Parts;
use super::status::seconds;
use super::verbs::{last, send};
use crate::config::table::value::quote;
use crate::config::zones::zone_name;
use crate::secondaries::ZoneOrder;
use crate::zones::dump::dump_lines;
use crate::zones::keeping::{Kept, unix_now};
use crate::zones::{Apex, ZoneState, ZoneText};

/// Size of the pieces a long output is sent in, in bytes.
const PIECE: usize = 64 * 1024;

/// The zone that a command names.
pub(super) fn apex(name: &str) -> Result<Apex, String> {
    zone_name(name).map(|n| n.as_name().as_wire().into()).map_err(|fault| fault.to_string())
}

fn find(kept: &Kept, name: &str) -> Result<Arc<ZoneState>, String> {
    kept.get(&apex(name)?).ok_or_else(|| format!("there is no zone {name} here"))
}

/// Every zone, or those that are not served in the newest version of their files.
pub(super) fn list(kept: &Kept, only_failed: bool) -> Value {
    let mut states = kept.all();
    states.retain(|state| !only_failed || state.word() != "ok");
    states.sort_by(|a, b| a.spec.name().cmp(&b.spec.name()));
    let rows = states.iter().map(|state| {
        json!({
            "name": state.spec.name().to_string(),
            "state": state.word(),
            "serial": state.zone.as_ref().map(|z| z.serial().0),
            "records": state.zone.as_ref().map(|z| z.record_count()),
            "signed": state.zone.as_ref().map(|z| z.is_signed()),
        })
    });
    Value::Array(rows.collect())
}

/// One zone.
pub(super) fn status(parts: &Parts, name: &str) -> Result<Value, String> {
    let Parts { frontend, kept, secondaries, changes, in_force, .. } = parts;
    let changes = changes.as_deref();
    let (engine, state) = (&frontend.engine, find(kept, name)?);
    let name = state.spec.name();
    let zone = state.zone.as_ref();
    let examined = state.examined.as_deref();
    let first = examined.and_then(|found| found.signatures);
    let catalog = kept.catalogs().into_iter().find(|catalog| catalog.zone == name.to_string());
    let per_zone = in_force.settings().counts_per_zone();
    Ok(json!({
        "name": name.to_string(),
        "state": state.word(),
        "role": if state.spec.text == ZoneText::Primaries { "secondary" } else { "primary" },
        "file": state.spec.text.to_string(),
        "from": state.spec.origin.to_string(),
        "loaded": state.loaded.map(seconds),
        "serial": zone.map(|z| z.serial().0),
        "records": zone.map(|z| z.record_count()),
        "names": zone.map(|z| z.node_count()),
        "memory_bytes": zone.map(|z| z.memory()),
        "negative_ttl": zone.map(|z| z.negative_ttl().as_secs()),
        "signed": zone.map(|z| z.is_signed()),
        "denial": zone.filter(|z| z.is_signed()).map(|z| if z.nsec3().is_some() { "NSEC3" } else { "NSEC" }),
        "warnings": state.warnings,
        "fault": state.fault.as_deref().map(ToString::to_string),
        "findings": examined.map(|found| &found.findings),
        "more_findings": examined.map(|found| found.more).filter(|more| *more > 0),
        "signatures": first.map(|first| first.age(unix_now()).word()),
        "signatures_end": first.map(|first| first.at),
        "catalog": catalog,
        "transfers": secondaries.status(&state.spec.apex),
        "updates": changes.and_then(|changes| changes.status(&state.spec.apex)),
        "frozen": changes.map(|changes| changes.is_frozen(&state.spec.apex)).filter(|frozen| *frozen),
        "queries": per_zone.then(|| engine.catalog().get(name).map(|e| e.queries())).flatten(),
    }))
}

/// The `[[zone]]` of a zone that is to be added: its name, those of these keys that are set, and its primaries.
pub(super) fn block<const N: usize>(
    name: &str,
    keys: [(&str, Option<String>); N],
    primaries: &[String],
) -> String {
    let mut text = format!("[[zone]]\nname = {}\n", quote(name));
    for (key, value) in keys {
        text += &value.map(|value| format!("{key} = {}\n", quote(&value))).unwrap_or_default();
    }
    if !primaries.is_empty() {
        let all: Vec<String> = primaries.iter().map(|peer| quote(peer)).collect();
        text += &format!("primaries = [{}]\n", all.join(", "));
    }
    text
}

/// Has something done about a zone that other servers have, too.
pub(super) fn order(parts: &Parts, name: &str, order: ZoneOrder) -> Result<Value, String> {
    let state = find(&parts.kept, name)?;
    parts.secondaries.order(&state.spec.apex, order).map_err(|fault| fault.to_string())?;
    let ordered = match order {
        ZoneOrder::Refresh => "refresh",
        ZoneOrder::Retransfer => "retransfer",
        ZoneOrder::Notify => "notify",
    };
    Ok(json!({"zone": state.spec.name().to_string(), "ordered": ordered}))
}

/// Has a zone take no updates, or take them again.
pub(super) fn freeze(parts: &Parts, name: &str, frozen: bool) -> Result<Value, String> {
    let state = find(&parts.kept, name)?;
    let changes = parts.changes.as_deref().filter(|changes| changes.takes_any(&state.spec.apex));
    let changes =
        changes.ok_or("the zone takes no updates: it has neither `allow-update` nor `update-policy`")?;
    let is_new = changes.freeze(&state.spec.apex, frozen);
    Ok(json!({"zone": state.spec.name().to_string(), "frozen": frozen, "was": frozen != is_new}))
}

/// Sends a zone's records in pieces; waits for a client that reads slowly, and stops when it has gone.
pub(super) fn dump(kept: &Kept, name: &str, lines: &mpsc::Sender<AnswerLine>) {
    let state = match find(kept, name) {
        Ok(state) => state,
        Err(error) => return send(lines, Err(error)),
    };
    let Some(zone) = &state.zone else {
        return send(lines, Err(format!("zone {name} is not loaded")));
    };
    let mut piece = String::with_capacity(PIECE + 1024);
    let whole = dump_lines(zone, &mut |line| {
        piece.push_str(line);
        piece.push('\n');
        piece.len() < PIECE
            || lines.blocking_send(AnswerLine::Text { text: std::mem::take(&mut piece) }).is_ok()
    });
    if !whole {
        return;
    }
    if !piece.is_empty() && lines.blocking_send(AnswerLine::Text { text: piece }).is_err() {
        return;
    }
    let data = json!({"zone": zone.apex().to_string(), "records": zone.record_count()});
    let _ = lines.blocking_send(last(Ok(data)));
}
