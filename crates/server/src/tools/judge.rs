//! Everything `nomen zone check` looks for beyond single records: the zone as a whole, and with `--dnssec` its
//! signatures and proofs. Snapshots keep no places, so the file is read once more to find those of the findings.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use authority::audit::audit;
use wire::hash::HashKey;
use wire::{NameBuf, Type};
use zone::check;
use zone::scan::{self, Record, Rejection, ScanConfig, Severity, Sink, TextSource};
use zone::zonemd::{self, ZonemdFault};

use super::audited::AuditSum;
use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, FailOn};
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
/// With `audit_at`, seconds since 1970 modulo 2^32 (RFC 4034 §3.1.5), DNSSEC is checked as of that time. With `zonemd` the
/// zone must have a digest that is right (RFC 8976).
pub fn judge(spec: &ZoneSpec, key: &HashKey, shown: usize, audit_at: Option<u32>, zonemd: bool) -> Examined {
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
        if zonemd && let Err(fault @ (ZonemdFault::Absent | ZonemdFault::Unknown)) = zonemd::verify(zone) {
            keep(unplaced_of(
                true,
                spec.name().to_buf(),
                Type::SOA,
                &format_args!("a digest is required: {fault}"),
            ));
        }
        if let Some(time) = audit_at {
            let mut sum = AuditSum::default();
            audit(zone, wire::Serial(time), &mut |finding| sum.add(finding));
            sum.tell(&mut |finding, message| {
                keep(unplaced_of(finding.kind.is_error(), finding.owner, finding.rtype, &message));
            });
        }
    }
    if !unplaced.is_empty() {
        let places = places(spec, &unplaced);
        examined.findings.extend(unplaced.into_iter().map(|finding| placed(spec, &places, finding)));
    }
    examined
}

/// What becomes of a zone, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing was found.
    Good,
    /// It is served; something is not as it should be.
    Warned,
    /// It is served, but works badly for somebody.
    Faulty,
    /// The server does not take it: its last good version stays in service, or it is answered with SERVFAIL.
    Refused,
}

impl Verdict {
    /// The verdict on what was found.
    pub fn on(examined: &Examined) -> Self {
        match (&examined.zone, examined.errors(), examined.warnings()) {
            (None, ..) => Self::Refused,
            (Some(_), 1.., _) => Self::Faulty,
            (Some(_), 0, 1..) => Self::Warned,
            (Some(_), 0, 0) => Self::Good,
        }
    }

    /// The exit code of a check that found no worse than this.
    pub fn exit_code(self, fail_on: FailOn) -> u8 {
        let least = match fail_on {
            FailOn::Warning => Self::Warned,
            FailOn::Error => Self::Faulty,
            FailOn::Refused => Self::Refused,
        };
        if self >= least { EXIT_FAULTS } else { EXIT_OK }
    }
}

/// The exit code for one zone: of what was found, or that its file could not be opened.
pub fn exit_code(examined: &Examined, fail_on: FailOn) -> u8 {
    if examined.unread() { EXIT_OUTSIDE } else { Verdict::on(examined).exit_code(fail_on) }
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
        ZoneText::File(path) => TextSource::file(&**path),
        ZoneText::BuiltIn(text) => TextSource::bytes("built-in", text.as_bytes()),
        // None of them was read, so nothing was found in one.
        ZoneText::Disputed(_) | ZoneText::Primaries | ZoneText::Produced => return Places::new(),
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
    ZoneFinding { error, unread: false, file, line, column, message, pretty }
}

/// What the zone's own file is called.
fn file_of(spec: &ZoneSpec) -> Arc<str> {
    spec.text.to_string().into()
}
