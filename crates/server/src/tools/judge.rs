//! Everything `nomen zone check` looks for beyond single records: the zone as a whole, and with `--dnssec` its
//! signatures and proofs. Snapshots keep no places, so the file is read once more to find those of the findings.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::hash::HashKey;
use wire::{NameBuf, Type};
use zone::check;
use zone::scan::{self, Record, Rejection, ScanConfig, Severity, Sink, TextSource};

use crate::zones::text::{Examined, Meter, ZoneFinding, examine};
use crate::zones::{ZoneSpec, ZoneText};

/// A finding before its place is known.
struct Unplaced {
    error: bool,
    owner: NameBuf,
    rtype: Type,
    message: String,
}

/// Reads a zone and checks all there is to check, with at most about `shown` findings of each kind reported.
/// With `audit_at`, seconds since 1970 modulo 2^32 (RFC 4034 §3.1.5), DNSSEC is checked as of that time.
pub fn judge(spec: &ZoneSpec, key: &HashKey, shown: usize, audit_at: Option<u32>) -> Examined {
    let mut examined = examine(spec, key, shown, &Meter::default());
    let mut unplaced = Vec::new();
    if let Some(zone) = &examined.zone {
        // Errors have room of their own: many warnings must not hide one.
        let mut room = [shown.max(1); 2];
        let mut keep = |finding: Unplaced| match &mut room[usize::from(finding.error)] {
            0 => examined.hidden += 1,
            left => {
                *left -= 1;
                unplaced.push(finding);
            }
        };
        check::check(zone, &mut |finding| {
            let error = finding.kind.severity() == Severity::Error;
            keep(unplaced_of(error, finding.owner, finding.rtype, &finding));
        });
        if let Some(time) = audit_at {
            authority::audit::audit(zone, wire::Serial(time), &mut |finding| {
                keep(unplaced_of(finding.kind.is_error(), finding.owner, finding.rtype, &finding));
            });
        }
    }
    if !unplaced.is_empty() {
        let places = places(spec, &unplaced);
        examined.findings.extend(unplaced.into_iter().map(|finding| placed(spec, &places, finding)));
    }
    examined
}

/// Seconds since 1970 modulo 2^32, as signatures count them.
pub fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as u32)
}

/// The findings of one zone for people: nothing if there are none.
pub fn text_of(spec: &ZoneSpec, examined: &Examined) -> String {
    let mut out = String::new();
    for finding in &examined.findings {
        out += &finding.pretty;
        out.push('\n');
    }
    if examined.hidden > 0 {
        out += &format!("zone {}: {} more not shown (--errors)\n", spec.name(), examined.hidden);
    }
    out
}

fn unplaced_of(error: bool, owner: NameBuf, rtype: Type, text: &dyn Display) -> Unplaced {
    Unplaced { error, owner, rtype, message: text.to_string() }
}

/// Where the first record of an RRset stands: file number and line.
type Places = HashMap<(NameBuf, Type), Option<(Arc<str>, u32)>>;

struct Finder {
    wanted: HashMap<(NameBuf, Type), Option<(u32, u32)>>,
}

impl Sink for Finder {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let key = (record.owner.to_buf(), record.rtype);
        if let Some(place @ None) = self.wanted.get_mut(&key) {
            *place = Some((record.place.file, record.place.line));
        }
        Ok(())
    }
}

/// Reads the zone's text again for the places of what was found.
fn places(spec: &ZoneSpec, findings: &[Unplaced]) -> Places {
    let wanted = findings.iter().map(|f| ((f.owner, f.rtype), None)).collect();
    let mut finder = Finder { wanted };
    let source = match &spec.text {
        ZoneText::File(path) => TextSource::file(path),
        ZoneText::BuiltIn(text) => TextSource::bytes("built-in", text.as_bytes()),
        // None of them was read, so nothing was found in one.
        ZoneText::Disputed(_) => return Places::new(),
    };
    let report = scan::read(source, &ScanConfig::new(spec.name()), &mut finder);
    let named = |(file, line): (u32, u32)| Some((Arc::clone(report.files.get(file as usize)?), line));
    finder.wanted.into_iter().map(|(key, place)| (key, place.and_then(named))).collect()
}

fn placed(spec: &ZoneSpec, places: &Places, finding: Unplaced) -> ZoneFinding {
    let Unplaced { error, owner, rtype, message } = finding;
    let place = places.get(&(owner, rtype)).cloned().flatten();
    let (file, line) = place.unwrap_or_else(|| (file_of(spec), 0));
    let column = (line > 0) as u32;
    let place = if line > 0 { format!("{file}:{line}:{column}") } else { file.to_string() };
    let pretty = format!("{place}: {}: {message}", if error { "error" } else { "warning" });
    ZoneFinding { error, file, line, column, message, pretty }
}

/// What the zone's own file is called.
fn file_of(spec: &ZoneSpec) -> Arc<str> {
    spec.text.to_string().into()
}
