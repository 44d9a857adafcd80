//! Places of findings in the text of a zone. Snapshots store no places, so the text is read again to show a
//! finding at its word.
//!
//! `nomen zone check`, `nomen ctl zone status` and failed loads show findings so.

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;

use wire::{NameBuf, Serial, Type};
use zone::Zone;
use zone::check::{self, Flaw};
use zone::scan::{
    self, Limits, Record, Rejection, Remark, RemarkAt, ScanConfig, ScanProgress, Severity, Sink, TextSource,
};
use zone_plan::{ZoneSpec, ZoneText};

use super::text::{ZoneFinding, from_fault};

/// A finding without its place.
pub struct Unplaced {
    /// Whether it is an error, not a warning.
    pub error: bool,
    message: String,
    subject: Subject,
    /// The finding as first made, if it was made when the text was read.
    before: Option<ZoneFinding>,
}

impl Unplaced {
    /// Returns a finding about a snapshot.
    pub fn new(error: bool, message: &dyn Display, subject: Subject) -> Self {
        Unplaced { error, message: message.to_string(), subject, before: None }
    }

    /// Returns the finding for a flaw of a zone as a whole.
    pub fn of(flaw: Flaw) -> Self {
        let (error, message) = (flaw.kind.severity() == Severity::Error, flaw.to_string());
        Unplaced { error, message, subject: Subject::Flaw(flaw), before: None }
    }

    fn without_place(self, spec: &ZoneSpec) -> ZoneFinding {
        let Unplaced { error, message, before, .. } = self;
        before.unwrap_or_else(|| without_place(spec, error, message))
    }
}

/// Returns a finding without a place: no text has it, the text was edited meanwhile, or the text is not read.
pub fn without_place(spec: &ZoneSpec, error: bool, message: String) -> ZoneFinding {
    let file = spec.text.file().map(|file| file.display().to_string()).unwrap_or_default();
    let colon = if file.is_empty() { "" } else { ": " };
    let pretty = format!("{file}{colon}{}: {message}", if error { "error" } else { "warning" });
    let file = file.into();
    ZoneFinding { error, unread: false, file, line: 0, column: 0, message, pretty, about: None }
}

/// The subject of a finding.
pub enum Subject {
    /// The record that has this flaw.
    Flaw(Flaw),
    /// The first record of a name and type.
    Set(NameBuf, Type, RemarkAt),
    /// The record that begins on a line of a file.
    Line(Arc<str>, u32),
}

impl Subject {
    /// Returns the first record at a name; one of this type if there is any.
    pub fn at(zone: &Zone, owner: NameBuf, rtype: Type) -> Self {
        let node = zone.find_name(owner.as_name());
        match node.and_then(|node| node.rrsets().next().filter(|_| node.rrset(rtype).is_none())) {
            Some(other) => Self::Set(owner, other.rtype(), RemarkAt::Owner),
            None => Self::Set(owner, rtype, RemarkAt::Type),
        }
    }
}

/// Removes and returns the findings that have at most a line: those made when the zone was built.
pub fn unplaced(findings: &mut Vec<ZoneFinding>) -> Vec<Unplaced> {
    let rough = |finding: &ZoneFinding| {
        finding.column == 0 && !finding.unread && (finding.line > 0 || finding.about.is_some())
    };
    let taken = findings.extract_if(.., |finding| rough(finding)).map(|finding| {
        let subject = match &finding.about {
            Some(about) if finding.line == 0 => Subject::Set(about.0, about.1, RemarkAt::Type),
            _ => Subject::Line(Arc::clone(&finding.file), finding.line),
        };
        let (error, message) = (finding.error, finding.message.clone());
        Unplaced { error, message, subject, before: Some(finding) }
    });
    taken.collect()
}

/// Finds the records that findings are about.
#[derive(Default)]
struct Finder {
    /// Findings without a place so far; placed ones are `None`.
    open: Vec<Option<Unplaced>>,
    /// Indices of findings, by the owner and type of their records.
    by_set: HashMap<(NameBuf, Type), Vec<usize>>,
    /// Indices of findings, by line.
    by_line: HashMap<u32, Vec<usize>>,
    /// Whether reading may stop once these findings are placed.
    hurries: bool,
    /// The serial number of the version that the findings are about, if the text may hold another one by now.
    version: Option<Serial>,
    /// Whether the text holds another version.
    is_other: bool,
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
        if let Some(wanted) = self.version.filter(|_| record.rtype == Type::SOA) {
            self.is_other |= serial(record.rdata) != Some(wanted);
        }
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

    fn progress(&mut self, _: ScanProgress) -> ControlFlow<()> {
        let done = self.is_other || self.hurries && self.open.iter().all(Option::is_none);
        if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Returns the serial number in the RDATA of an SOA record: the first of five numbers after two names (RFC
/// 1035 §3.3.13).
fn serial(rdata: &[u8]) -> Option<Serial> {
    let (serial, _) = rdata.get(rdata.len().checked_sub(20)?..)?.split_first_chunk::<4>()?;
    Some(Serial(u32::from_be_bytes(*serial)))
}

/// Reads the zone's text again to place findings, if there are any, and adds them to those that have places,
/// all in the order of the text. Findings without a place come last.
pub fn place(spec: &ZoneSpec, shown: usize, unplaced: Vec<Unplaced>, findings: &mut Vec<ZoneFinding>) {
    if !unplaced.is_empty() {
        let finder = Finder { hurries: findings.is_empty(), ..Finder::new(unplaced) };
        look(spec, shown, finder, findings);
    }
}

/// Reads the text for a finder. Returns whether the text holds the version that the findings are about.
fn look(spec: &ZoneSpec, shown: usize, mut finder: Finder, findings: &mut Vec<ZoneFinding>) -> bool {
    let source = match &spec.text {
        ZoneText::File(path) => Some(TextSource::file(&**path)),
        ZoneText::BuiltIn(text) => Some(TextSource::bytes("built-in", text.as_bytes())),
        // None of these texts was read.
        ZoneText::Disputed(_) | ZoneText::Primaries | ZoneText::Produced | ZoneText::Database => None,
    };
    // Faults of the text itself were reported when it was first read.
    let limits = Limits { errors: shown.max(1), warnings: 0, ..Limits::default() };
    let split_strings = spec.rules.split_strings;
    let config = ScanConfig { limits, split_strings, ..ScanConfig::new(spec.name()) };
    let report = source.map(|source| scan::read(source, &config, &mut finder)).unwrap_or_default();
    findings.extend(report.remarks.iter().map(from_fault));
    findings.extend(finder.open.into_iter().flatten().map(|finding| finding.without_place(spec)));
    let number = |finding: &ZoneFinding| report.files.iter().position(|file| *file == finding.file);
    findings.sort_by_key(|finding| (finding.line == 0, number(finding), finding.line, finding.column));
    !finder.is_other
}

/// Returns the first `shown` flaws of a version in service, each with its place if the text still holds that
/// version. Reads zone and text completely, so threads that answer queries must not call this.
pub fn flaws(spec: &ZoneSpec, zone: &Zone, shown: usize) -> Vec<ZoneFinding> {
    let mut found: Vec<Flaw> = Vec::new();
    check::check(zone, &mut |flaw| {
        if found.len() < shown {
            found.push(flaw);
        }
    });
    let unplaced: Vec<Unplaced> = found.iter().cloned().map(Unplaced::of).collect();
    if unplaced.is_empty() {
        return Vec::new();
    }
    let finder = Finder { hurries: true, version: Some(zone.serial()), ..Finder::new(unplaced) };
    let mut findings = Vec::new();
    match look(spec, shown, finder, &mut findings) {
        true => findings,
        false => found.into_iter().map(|flaw| Unplaced::of(flaw).without_place(spec)).collect(),
    }
}
