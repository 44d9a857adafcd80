//! Zone files that are edited: records are added, removed, moved, changed and broken.

use wire::{NameBuf, Type};

use crate::choices::Choices;
use crate::data::{HOUR, soa};
use crate::zones::{APEXES, chain, record, settle};
use crate::{Chain, ModelRecord, name};

/// Maximum number of edits of one text.
const MAX_EDITS: usize = 16;
/// Maximum number of initial records, not counting those that signing adds.
const MAX_RECORDS: usize = 30;
/// The name of the included file.
pub const INCLUDED: &str = "included.zone";

/// The lines of a zone file, and of a file that it may include under the name [`INCLUDED`].
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The zone file itself.
    pub lines: Vec<String>,
    /// The included file.
    pub included: Vec<String>,
}

/// Edits a zone file step by step, as long as the choices last. Calls `check` with each text and the apex; if
/// it returns false, the edit is undone.
pub fn edit_step_by_step(choices: &mut Choices<'_>, check: &mut dyn FnMut(NameBuf, &Text) -> bool) {
    let apex = name(choices.pick(&APEXES)[0]);
    let mut chain = chain(choices);
    let mut unsigned = vec![
        ModelRecord { owner: apex, rtype: Type::SOA, ttl: HOUR, rdata: soa(apex.as_name(), 1) },
        ModelRecord { owner: apex, rtype: Type::NS, ttl: HOUR, rdata: apex.as_name().as_wire().to_vec() },
    ];
    for _ in 0..choices.below(MAX_RECORDS) {
        let new = record(choices, apex);
        // Most random combinations are no valid zone: these types are rarer, as they conflict with most
        // others.
        if !matches!(new.rtype, Type::CNAME | Type::DNAME | Type::SOA) || choices.one_in(4) {
            unsigned.push(new);
        }
    }
    let signed =
        |unsigned: &[ModelRecord], chain: Option<&Chain>| lines(&settle(apex, unsigned.to_vec(), chain));
    let mut text = Text { lines: signed(&unsigned, chain.as_ref()), included: Vec::new() };
    while !check(apex, &text) && unsigned.len() > 2 {
        // The random records make no valid zone; half of them may.
        unsigned.truncate(unsigned.len().div_ceil(2).max(2));
        text.lines = signed(&unsigned, chain.as_ref());
    }
    for _ in 0..MAX_EDITS {
        if choices.is_over() {
            return;
        }
        let before = text.clone();
        if choices.one_in(6) {
            // Signs the whole zone again, sometimes with another chain.
            if choices.one_in(3) {
                chain = self::chain(choices);
            }
            text.lines = signed(&unsigned, chain.as_ref());
        }
        for _ in 0..=choices.below(4) {
            edit(choices, apex, &mut text);
        }
        if !check(apex, &text) {
            text = before;
        }
    }
}

/// Returns the lines of these records, with full names and TTLs.
fn lines(records: &[ModelRecord]) -> Vec<String> {
    records.iter().filter_map(line).collect()
}

fn line(record: &ModelRecord) -> Option<String> {
    let mut data = String::new();
    wire::rdata::write_text(record.rtype, &record.rdata, &mut data).ok()?;
    Some(format!("{} {} {} {data}", record.owner, record.ttl.as_secs(), record.rtype))
}

/// Makes one change to a text.
fn edit(choices: &mut Choices<'_>, apex: NameBuf, text: &mut Text) {
    let at = choices.below(text.lines.len());
    let Some(here) = text.lines.get(at).cloned() else { return };
    let (owner, rest) = here.split_once(' ').unwrap_or((&here, ""));
    let new = line(&record(choices, apex)).unwrap_or_default();
    let lines = &mut text.lines;
    match choices.below(24) {
        0..6 => lines.insert(at, new),
        6..10 => drop(lines.remove(at)),
        10 => lines[at] = format!("{} {rest}", owner.to_uppercase()),
        11 => lines[at] = format!("{} {rest}", owner.to_lowercase()),
        12 => {
            let (ttl, data) = rest.split_once(' ').unwrap_or((rest, ""));
            lines[at] = format!("{owner} {}1 {data}", ttl.get(..1).unwrap_or("7"));
        }
        13 => lines.push(here),
        14 => {
            let moved = lines.remove(at);
            let to = choices.below(lines.len() + 1);
            lines.insert(to, moved);
        }
        15 | 16 => count_up(lines),
        17 => lines.insert(at, format!("{owner} 60 {}", choices.pick(&["A nonsense", "CNAME", "WHAT 1"]))),
        18 => lines.insert(at, choices.pick(&["$TTL 77", "$TTL", "$ORIGIN a", "; a comment"]).to_owned()),
        19 => lines.insert(at, " 60 A 192.0.2.9".to_owned()),
        20 => lines.insert(at, format!("g$$.{apex} 60 A 192.0.2.1")),
        21 => lines.insert(at, format!("$GENERATE 1-3 g$.{apex} 60 A 192.0.2.$")),
        22 => {
            text.included.push(new);
            if !lines.iter().any(|line| line.starts_with("$INCLUDE")) {
                lines.push(format!("$INCLUDE {INCLUDED}"));
            }
        }
        _ => lines.truncate(at.max(2)),
    }
}

/// Increments the serial of the SOA record.
fn count_up(lines: &mut [String]) {
    let Some(line) = lines.iter_mut().find(|line| line.split(' ').nth(2) == Some("SOA")) else { return };
    let mut fields: Vec<String> = line.split(' ').map(str::to_owned).collect();
    if let Some(serial) = fields.get_mut(5) {
        *serial = serial.parse::<u32>().map_or(1, |serial| serial.wrapping_add(1)).to_string();
    }
    *line = fields.join(" ");
}
