//! One zone from its master file to a snapshot, and back to text. Everything that is wrong with the file is
//! reported with its place; whether the zone goes into service is `reload`'s matter.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use wire::hash::HashKey;
use wire::{Type, rdata};
use zone::catalog::{Catalog, Change};
use zone::scan::{self, Limits, Record, Refusal, ScanConfig, Severity, Sink, Source};
use zone::store::{Note, RrSet};
use zone::{Zone, ZoneBuilder};

use super::{Origin, ZoneSpec, ZoneTable};

/// A zone that can be served.
pub struct Loaded {
    /// The snapshot.
    pub zone: Zone,
    /// Files the master file included.
    pub included: Vec<PathBuf>,
    /// What is not as it should be, each in one line.
    pub warnings: Vec<String>,
}

/// One thing that is wrong with a zone.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Whether the zone must not be served with it.
    pub error: bool,
    /// The file; empty if none is to blame.
    pub file: Arc<str>,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// What is wrong, one line.
    pub message: String,
    /// Several lines for people: the source line and a caret, where there is one.
    pub pretty: String,
}

/// Everything that reading one zone brought to light.
pub struct Examined {
    /// The snapshot, unless there was an error.
    pub zone: Option<Zone>,
    /// Errors and warnings in the order of their discovery, as far as the limit allows.
    pub findings: Vec<Finding>,
    /// Number of errors, those not shown included.
    pub errors: u64,
    /// Number of warnings, those not shown included.
    pub warnings: u64,
    /// Records read.
    pub records: u64,
    /// Every file read.
    pub files: Vec<PathBuf>,
}

/// Takes a scan's records into a builder.
struct IntoBuilder {
    builder: ZoneBuilder,
}

/// A record's place as the one number a builder keeps.
fn place_number(place: scan::Place) -> u64 {
    u64::from(place.file) << 32 | u64::from(place.line)
}

impl Sink for IntoBuilder {
    fn record(&mut self, record: &Record<'_>) -> Result<(), Refusal> {
        let place = place_number(record.place);
        self.builder
            .add_from(record.owner, record.rtype, record.ttl, record.rdata, place)
            .map_err(|fault| Refusal::error(fault.to_string()))
    }
}

/// Reads a zone's file with at most `shown` errors reported.
pub fn examine(spec: &ZoneSpec, key: &HashKey, shown: usize) -> Examined {
    let config = ScanConfig {
        limits: Limits { errors: shown.max(1), warnings: shown.max(1), ..Limits::default() },
        ..ScanConfig::new(spec.name())
    };
    let source = match &spec.origin {
        Origin::File(path) => Source::file(path),
        Origin::BuiltIn(text) => Source::bytes("built-in", text.as_bytes()),
    };
    let mut sink = IntoBuilder { builder: ZoneBuilder::new(spec.name(), key) };
    let report = scan::read(source, &config, &mut sink);
    let IntoBuilder { mut builder } = sink;
    let mut out = Examined {
        zone: None,
        findings: report.faults.iter().map(from_fault).collect(),
        errors: report.errors,
        warnings: report.warnings,
        records: report.records,
        files: report.files.iter().map(|f| PathBuf::from(&**f)).collect(),
    };
    let built = builder.finish();
    for note in builder.notes() {
        let finding = from_note(note, &report.files);
        let count = if finding.error { &mut out.errors } else { &mut out.warnings };
        *count += 1;
        if *count <= shown as u64 {
            out.findings.push(finding);
        }
    }
    out.warnings += builder.notes_left_out();
    match built {
        Ok(zone) if out.errors == 0 && report.is_clean() && builder.first_error().is_none() => {
            out.zone = Some(zone);
        }
        Ok(_) => {}
        // Without its SOA because the file could not be read to its end: that was said already.
        Err(_) if out.errors > 0 => {}
        Err(fault) => {
            out.errors += 1;
            out.findings.push(plain(&report.files, fault.to_string()));
        }
    }
    if out.zone.is_none() && out.errors == 0 {
        out.errors += 1;
        out.findings.push(plain(&report.files, "the file was not read to its end".into()));
    }
    out
}

fn from_fault(fault: &scan::Fault) -> Finding {
    Finding {
        error: fault.severity == Severity::Error,
        file: Arc::clone(&fault.file),
        line: fault.line,
        column: fault.column,
        message: fault.message.clone(),
        pretty: fault.pretty().to_string(),
    }
}

fn from_note(note: &Note, files: &[Arc<str>]) -> Finding {
    let (number, line) = ((note.source >> 32) as usize, note.source as u32);
    let file = files.get(number).cloned().unwrap_or_else(|| "".into());
    let error = note.kind.is_error();
    let word = if error { "error" } else { "warning" };
    let message = note.to_string();
    let pretty = if line > 0 {
        format!("{file}:{line}: {word}: {message}")
    } else {
        format!("{file}: {word}: {message}")
    };
    Finding { error, file, line, column: 0, message, pretty }
}

/// An error of the zone as a whole.
fn plain(files: &[Arc<str>], message: String) -> Finding {
    let file = files.first().cloned().unwrap_or_else(|| "".into());
    let pretty = format!("{file}: error: {message}");
    Finding { error: true, file, line: 0, column: 0, message, pretty }
}

/// Faults shown for one zone in the log.
const SHOWN: usize = 5;

/// Reads a zone for service; the error is text for people, one or more lines.
pub fn load(spec: &ZoneSpec, key: &HashKey) -> Result<Loaded, String> {
    let examined = examine(spec, key, SHOWN);
    match examined.zone {
        Some(zone) => Ok(Loaded {
            zone,
            included: examined.files,
            warnings: examined.findings.into_iter().map(|f| f.pretty).collect(),
        }),
        None => {
            let shown: Vec<&str> =
                examined.findings.iter().filter(|f| f.error).map(|f| f.pretty.as_str()).collect();
            let mut text = shown.join("\n");
            if examined.errors > shown.len() as u64 {
                let _ = write!(text, "\n… {} errors in all; `nomen zone check` shows more", examined.errors);
            }
            Err(text)
        }
    }
}

/// The catalog that follows `old` and serves `table`.
pub fn catalog(old: &Catalog, table: &ZoneTable) -> Catalog {
    let gone = old.iter().filter(|e| !table.contains_key(e.name().as_wire()));
    let gone: Vec<Change> = gone.map(|e| Change::Remove(e.name().to_buf())).collect();
    let served = table.values().map(|state| match &state.zone {
        Some(zone) => Change::Serve(Arc::clone(zone)),
        None => Change::Unload(state.spec.name().to_buf()),
    });
    old.with(gone.into_iter().chain(served))
}

/// A zone as master-file text, line by line in canonical order, SOA first. Stops, and returns false, when
/// `line` does.
pub fn dump(zone: &Zone, line: &mut impl FnMut(&str) -> bool) -> bool {
    let mut text = String::new();
    for node in zone.iter() {
        let owner = node.owner().to_string();
        let soa = node.rrset(Type::SOA);
        let rest = node.rrsets().filter(|set| set.rtype() != Type::SOA);
        for set in soa.into_iter().chain(rest) {
            if !dump_set(&owner, &set, &mut text, line) {
                return false;
            }
        }
    }
    true
}

fn dump_set(owner: &str, set: &RrSet<'_>, text: &mut String, line: &mut impl FnMut(&str) -> bool) -> bool {
    let records = set.rdatas().map(|r| (set.rtype(), r));
    let sigs = set.sig_rdatas().map(|r| (Type::RRSIG, r));
    let mut octets = Vec::new();
    for (rtype, record) in records.chain(sigs) {
        octets.clear();
        record.copy_to(&mut octets);
        text.clear();
        // Writing to a String cannot fail.
        let _ = write!(text, "{owner} {} IN {rtype} {}", record.ttl(), RdataText(rtype, &octets));
        if !line(text) {
            return false;
        }
    }
    true
}

/// RDATA in presentation form.
pub struct RdataText<'a>(pub Type, pub &'a [u8]);

impl fmt::Display for RdataText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rdata::write_text(self.0, self.1, f)
    }
}

/// The name of a zone's file or of the program's own text, for people.
pub fn origin_name(spec: &ZoneSpec) -> String {
    match &spec.origin {
        Origin::File(path) => path.display().to_string(),
        Origin::BuiltIn(_) => "built in".into(),
    }
}
