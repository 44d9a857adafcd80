//! Everything `nomen zone check` looks for beyond single records: the zone as a whole, and with `--dnssec` its
//! signatures and proofs. Snapshots keep no places, so if there are findings the text is read once more, to show each at the
//! word that is meant.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use authority::audit::audit;
use wire::hash::HashKey;
use wire::{NameBuf, Type};
use zone::Zone;
use zone::check::{self, Flaw};
use zone::scan::{self, Limits, Record, Rejection, Remark, RemarkAt, ScanConfig, Severity, Sink, TextSource};
use zone::zonemd::{self, ZonemdFault};

use super::audited::AuditSum;
use crate::cli::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE, FailOn};
use crate::config::peers::ZonemdPolicy;
use crate::zones::text::{Examined, Meter, ZoneFinding, examine, from_fault};
use crate::zones::{ZoneSpec, ZoneText};

/// A finding before its place is known.
struct Unplaced {
    error: bool,
    message: String,
    subject: Subject,
    /// As it was found, if that was when the text was read.
    before: Option<ZoneFinding>,
}

/// What a finding is about.
enum Subject {
    /// A record of those that have this flaw.
    Flaw(Flaw),
    /// The first record of a name and type.
    Set(NameBuf, Type, RemarkAt),
    /// The record that begins on a line of a file.
    Line(Arc<str>, u32),
}

impl Subject {
    /// The first record at a name, of a type if it has that.
    fn at(zone: &Zone, owner: NameBuf, rtype: Type) -> Self {
        let node = zone.find_name(owner.as_name());
        match node.and_then(|node| node.rrsets().next().filter(|_| node.rrset(rtype).is_none())) {
            Some(other) => Self::Set(owner, other.rtype(), RemarkAt::Owner),
            None => Self::Set(owner, rtype, RemarkAt::Type),
        }
    }
}

/// Reads a zone and checks all there is to check, with at most about `shown` findings of each kind reported.
/// With `audit_at`, seconds since 1970 modulo 2^32 (RFC 4034 §3.1.5), DNSSEC is checked as of that time. With `zonemd`, or where
/// the configuration says so, the zone must have a digest that is right (RFC 8976).
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
        check::check(zone, &mut |flaw| {
            let error = flaw.kind.severity() == Severity::Error;
            keep(unplaced_of(error, &flaw.to_string(), Subject::Flaw(flaw)));
        });
        let zonemd = zonemd || spec.rules.zonemd == Some(ZonemdPolicy::Require);
        if zonemd && let Err(fault @ (ZonemdFault::Absent | ZonemdFault::Unknown)) = zonemd::verify(zone) {
            let subject = Subject::Set(spec.name().to_buf(), Type::SOA, RemarkAt::Type);
            keep(unplaced_of(true, &format_args!("a digest is required: {fault}"), subject));
        }
        if let Some(time) = audit_at {
            let mut sum = AuditSum::default();
            audit(zone, wire::Serial(time), &mut |finding| sum.add(finding));
            sum.tell(&mut |finding, message| {
                let subject = Subject::at(zone, finding.owner, finding.rtype);
                keep(unplaced_of(finding.kind.is_error(), &message, subject));
            });
        }
    }
    // What came to light when the zone was put together has a line at most.
    for finding in examined.findings.extract_if(.., |finding| finding.column == 0 && !finding.unread) {
        let subject = match &finding.about {
            Some(about) if finding.line == 0 => Subject::Set(about.0, about.1, RemarkAt::Type),
            _ => Subject::Line(Arc::clone(&finding.file), finding.line),
        };
        let (error, message) = (finding.error, finding.message.clone());
        unplaced.push(Unplaced { error, message, subject, before: Some(finding) });
    }
    if !unplaced.is_empty() {
        place(spec, shown, unplaced, &mut examined.findings);
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

fn unplaced_of(error: bool, message: &dyn Display, subject: Subject) -> Unplaced {
    Unplaced { error, message: message.to_string(), subject, before: None }
}

/// Looks for the records that findings are about.
#[derive(Default)]
struct Finder {
    /// Findings that are not placed yet; those that are have left.
    open: Vec<Option<Unplaced>>,
    /// Numbers of findings, by the owner and type of their records.
    by_set: HashMap<(NameBuf, Type), Vec<usize>>,
    /// The same, by the line.
    by_line: HashMap<u32, Vec<usize>>,
}

impl Finder {
    fn new(findings: Vec<Unplaced>) -> Self {
        let mut finder = Finder::default();
        for (number, finding) in findings.iter().enumerate() {
            match &finding.subject {
                Subject::Flaw(flaw) => finder.by_set.entry((flaw.owner, flaw.rtype)).or_default(),
                Subject::Set(owner, rtype, _) => finder.by_set.entry((*owner, *rtype)).or_default(),
                Subject::Line(_, line) => finder.by_line.entry(*line).or_default(),
            }
            .push(number);
        }
        finder.open = findings.into_iter().map(Some).collect();
        finder
    }
}

impl Sink for Finder {
    fn record(&mut self, _: &Record<'_>) -> Result<(), Rejection> {
        Ok(())
    }

    fn remarks(&mut self, record: &Record<'_>, file: &str) -> Vec<Remark> {
        let of_set = self.by_set.get(&(record.owner.to_buf(), record.rtype));
        let of_line = self.by_line.get(&record.place.line);
        let mut remarks = Vec::new();
        for number in of_set.into_iter().chain(of_line).flatten() {
            let Some(slot) = self.open.get_mut(*number) else { continue };
            let is_it = |finding: &mut Unplaced| match &finding.subject {
                Subject::Flaw(flaw) => flaw.is_of(record.rdata),
                Subject::Set(..) => true,
                Subject::Line(at, _) => **at == *file,
            };
            let Some(Unplaced { error, message, subject, .. }) = slot.take_if(is_it) else { continue };
            let severity = if error { Severity::Error } else { Severity::Warning };
            let at = match subject {
                Subject::Flaw(flaw) => flaw.at(),
                Subject::Set(_, _, at) => at,
                Subject::Line(..) => RemarkAt::Type,
            };
            remarks.push(Remark { severity, message, at });
        }
        remarks
    }
}

/// Reads the zone's text again for the places of findings, and adds them to those that have theirs, all in the order of
/// the text. What has no place in it comes last.
fn place(spec: &ZoneSpec, shown: usize, unplaced: Vec<Unplaced>, findings: &mut Vec<ZoneFinding>) {
    let source = match &spec.text {
        ZoneText::File(path) => Some(TextSource::file(&**path)),
        ZoneText::BuiltIn(text) => Some(TextSource::bytes("built-in", text.as_bytes())),
        // None of them was read.
        ZoneText::Disputed(_) | ZoneText::Primaries | ZoneText::Produced => None,
    };
    let mut finder = Finder::new(unplaced);
    // What is wrong with the text was found when it was read first.
    let limits = Limits { errors: shown.max(1), warnings: 0, ..Limits::default() };
    let split_strings = spec.rules.split_strings;
    let config = ScanConfig { limits, split_strings, ..ScanConfig::new(spec.name()) };
    let report = source.map(|source| scan::read(source, &config, &mut finder)).unwrap_or_default();
    findings.extend(report.remarks.iter().map(from_fault));
    findings.extend(finder.open.into_iter().flatten().map(|finding| without_place(spec, finding)));
    let number = |finding: &ZoneFinding| report.files.iter().position(|file| *file == finding.file);
    findings.sort_by_key(|finding| (finding.line == 0, number(finding), finding.line, finding.column));
}

/// A finding of which nothing in the text is to blame; or the text was edited meanwhile.
fn without_place(spec: &ZoneSpec, Unplaced { error, message, before, .. }: Unplaced) -> ZoneFinding {
    before.unwrap_or_else(|| {
        let file = spec.text.to_string();
        let pretty = format!("{file}: {}: {message}", if error { "error" } else { "warning" });
        let file = file.into();
        ZoneFinding { error, unread: false, file, line: 0, column: 0, message, pretty, about: None }
    })
}
