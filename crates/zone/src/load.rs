//! Loads a zone: parses its text ([`scan`]) and builds the snapshot ([`store`](crate::store)), on two threads
//! if the text is large. [`reload`] compares large text with the version in service, and builds the next
//! version from the differences.
//!
//! Faults of both are returned as one list of [`Fault`]s, each with its place in the text.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use wire::hash::HashKey;
use wire::{Name, Ttl, Type};

use crate::scan::{self, Fault, FaultKind, Limits, Record, Rejection, ScanConfig, ScanProgress, ScanReport};
use crate::scan::{Severity, Sink, TextSource};
use crate::stamp::SourceFile;
use crate::store::{ChangeSet, Note, NoteKind, Updated, Zone, ZoneUpdate, diff_within};

/// Size in bytes below which text is read on the caller's thread: a second thread would cost more than it
/// saves.
const SMALL_TEXT_BYTES: u64 = 256 * 1024;

/// Settings for loading a zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadConfig {
    /// TTL of records without one, until a `$TTL`.
    pub default_ttl: Option<Ttl>,
    /// Split strings that are too long, see [`ScanConfig::split_strings`].
    pub split_strings: bool,
    /// Limits of one scan.
    pub limits: Limits,
}

/// A loaded zone.
#[derive(Debug)]
pub struct Loaded {
    /// The snapshot.
    pub zone: Zone,
    /// The changes since the version in service; empty if there are none. `None` if there was no version to
    /// compare with, or if so much changed that the zone was built whole.
    pub step: Option<ChangeSet>,
    /// Warnings, in the order of their places; those without a place last.
    pub warnings: Vec<Fault>,
    /// Number of warnings beyond those stored.
    pub more_warnings: u64,
    /// Names of the files that were read, the zone's own first.
    pub files: Vec<Arc<str>>,
    /// The files that were read, each with its version when it was opened; `None` if something other than a
    /// file was read, too.
    pub sources: Option<Vec<SourceFile>>,
}

/// The reason why a zone was not loaded.
#[derive(Debug)]
pub struct LoadError {
    /// At least one error, and the warnings found with it.
    pub faults: Vec<Fault>,
    /// Number of errors and warnings beyond those stored.
    pub more: u64,
}

impl fmt::Display for LoadError {
    /// The first error on one line, and the number of further ones.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.faults.iter().filter(|fault| fault.severity == Severity::Error);
        match errors.next() {
            Some(first) => write!(f, "{first}")?,
            None => f.write_str("the zone could not be loaded")?,
        }
        match errors.count() {
            0 => Ok(()),
            more => write!(f, " (and {more} more errors)"),
        }
    }
}
impl std::error::Error for LoadError {}

/// Loads the zone `apex` from the zone file at `path`. `key` is the hash key of its names.
pub fn load_file(
    path: &Path,
    apex: Name<'_>,
    key: &HashKey,
    config: &LoadConfig,
) -> Result<Loaded, LoadError> {
    load(TextSource::file(path), apex, key, config, |_| ControlFlow::Continue(()))
}

/// Loads the zone `apex` from any source. Calls `progress` every few hundred KiB; `Break` ends the load with
/// an error.
pub fn load(
    source: TextSource<'_>,
    apex: Name<'_>,
    key: &HashKey,
    config: &LoadConfig,
    progress: impl FnMut(ScanProgress) -> ControlFlow<()>,
) -> Result<Loaded, LoadError> {
    let small = is_small(&source);
    read(source, small, config, BuilderSink { zone: ZoneUpdate::whole(apex, key), progress }, apex)
}

/// Loads the next version of a zone in service, with its key. If the text is large, both versions share the
/// unchanged parts.
pub fn reload(
    source: TextSource<'_>,
    apex: Name<'_>,
    served: &Zone,
    config: &LoadConfig,
    progress: impl FnMut(ScanProgress) -> ControlFlow<()>,
) -> Result<Loaded, LoadError> {
    let small = is_small(&source);
    let zone = match small {
        true => ZoneUpdate::whole(apex, served.key()),
        false => ZoneUpdate::new(served),
    };
    let mut loaded = read(source, small, config, BuilderSink { zone, progress }, apex)?;
    // Text in another order differs everywhere, but may hold the same records.
    if loaded.step.is_none() && (small || served.serial() == loaded.zone.serial()) {
        let most = if small { usize::MAX } else { served.record_count() as usize / 8 };
        loaded.step = diff_within(served, &loaded.zone, most);
    }
    Ok(loaded)
}

/// Whether a text is read on the caller's thread, and its zone built whole.
fn is_small(source: &TextSource<'_>) -> bool {
    source.size().is_some_and(|size| size < SMALL_TEXT_BYTES)
}

fn read<P: FnMut(ScanProgress) -> ControlFlow<()>>(
    source: TextSource<'_>,
    small: bool,
    config: &LoadConfig,
    mut sink: BuilderSink<'_, P>,
    apex: Name<'_>,
) -> Result<Loaded, LoadError> {
    let name = source.name();
    let LoadConfig { default_ttl, split_strings, limits } = *config;
    let scan_config = ScanConfig { default_ttl, split_strings, limits, ..ScanConfig::new(apex) };
    let mut report = match small {
        true => scan::read(source, &scan_config, &mut sink),
        false => scan::read_pipelined(source, &scan_config, &mut sink),
    };
    let mut builder = sink.zone;
    let made = match report.is_clean() {
        true => builder.finish().map_err(|error| whole_file(&name, error.to_string())),
        false => Err(whole_file(&name, "not read to the end".to_owned())),
    };
    let (errors, mut faults) = (report.errors > 0, std::mem::take(&mut report.faults));
    let kept = faults.len() as u64;
    faults.extend(builder.notes().iter().map(|note| at_place(note, &name, &report)));
    let more = report.errors + report.warnings - kept.min(report.errors + report.warnings);
    let more = more + builder.notes_left_out();
    match made {
        Ok(Some(Updated { zone, step })) => {
            let sources = sources(&report);
            let warnings = sorted(faults, &report);
            return Ok(Loaded { zone, step, warnings, more_warnings: more, files: report.files, sources });
        }
        Ok(None) if faults.iter().any(|fault| fault.severity == Severity::Error) => {}
        Ok(None) => faults.extend(builder.first_error().map(|error| at_place(error, &name, &report))),
        Err(_) if errors => {}
        Err(error) => faults.push(error),
    }
    Err(LoadError { faults: sorted(faults, &report), more })
}

/// Adds the scanner's records to the zone.
struct BuilderSink<'z, P> {
    zone: ZoneUpdate<'z>,
    progress: P,
}

impl<P: FnMut(ScanProgress) -> ControlFlow<()>> Sink for BuilderSink<'_, P> {
    #[inline]
    fn record(&mut self, record: &Record<'_>) -> Result<(), Rejection> {
        let source = (record.place.file as u64) << 32 | record.place.line as u64;
        let added = self.zone.add_from(record.owner, record.rtype, record.ttl, record.rdata, source);
        added.map_err(|error| Rejection::error(error.to_string()))
    }

    fn progress(&mut self, progress: ScanProgress) -> ControlFlow<()> {
        (self.progress)(progress)
    }
}

/// Returns the files that were read; `None` if something other than a file was read, too.
fn sources(report: &ScanReport) -> Option<Vec<SourceFile>> {
    report.sources.iter().cloned().collect()
}

fn whole_file(name: &Arc<str>, message: String) -> Fault {
    Fault {
        kind: FaultKind::Rejected,
        severity: Severity::Error,
        file: name.clone(),
        line: 0,
        column: 0,
        message,
        note: None,
        excerpt: None,
        about: None,
    }
}

/// Turns a note about the zone's data into a fault at the record's place.
fn at_place(note: &Note, name: &Arc<str>, report: &ScanReport) -> Fault {
    let severity = if note.kind.is_error() { Severity::Error } else { Severity::Warning };
    let file = report.files.get((note.source >> 32) as usize).unwrap_or(name).clone();
    // A missing NS has no place, so the place is that of the SOA.
    let rtype = if note.kind == NoteKind::NoApexNs { Type::SOA } else { note.rtype };
    let about = Some(Box::new((note.owner, rtype)));
    Fault { severity, file, line: note.source as u32, about, ..whole_file(name, note.to_string()) }
}

/// Sorts faults by their places, those of whole files last.
fn sorted(mut faults: Vec<Fault>, report: &ScanReport) -> Vec<Fault> {
    let number = |fault: &Fault| report.files.iter().position(|file| *file == fault.file);
    faults.sort_by_key(|fault| (fault.line == 0, number(fault), fault.line));
    faults
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use wire::{NameBuf, Serial};

    use super::*;

    fn load_text(text: &str) -> Result<Loaded, LoadError> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let key = HashKey::new([1, 2, 3]);
        let source = TextSource::bytes("test.zone", text.as_bytes());
        load(source, apex.as_name(), &key, &LoadConfig::default(), |_| ControlFlow::Continue(()))
    }

    const APEX: &str = "$TTL 60\n@ SOA ns1 admin 7 1 2 3 4\n@ NS ns1\nns1 A 192.0.2.1\n";

    #[test]
    fn a_zone_is_loaded() {
        let loaded = load_text(APEX).expect("a zone");
        assert_eq!((loaded.zone.serial(), loaded.zone.negative_ttl()), (Serial(7), Ttl::from_secs(4)));
        assert_eq!(loaded.zone.record_count(), 3);
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }

    #[test]
    fn warnings_have_places() {
        let text = format!("{APEX}ns1 61 A 192.0.2.2\nns1 A 192.0.2.1\nx.elsewhere. A 192.0.2.1\n");
        let loaded = load_text(&text).expect("a zone");
        let lines: Vec<u32> = loaded.warnings.iter().map(|w| w.line).collect();
        assert_eq!(lines, [5, 6, 7], "{:?}", loaded.warnings);
        assert_eq!(
            loaded.warnings[1].to_string(),
            "test.zone:6: warning: ns1.example. A: the same record twice"
        );
    }

    #[test]
    fn errors_have_places() {
        let error = load_text(&format!("{APEX}w CNAME ns1\nw A 192.0.2.3\n")).expect_err("CNAME beside A");
        assert_eq!(error.to_string(), "test.zone:6: error: w.example. A: CNAME and other data");
        let error = load_text("@ 60 NS ns1\n").expect_err("no SOA");
        assert_eq!(error.to_string(), "test.zone: error: no SOA record at the zone's name");
        let error = load_text(&format!("{APEX}w A nonsense\n")).expect_err("bad RDATA");
        assert_eq!(error.faults.len(), 1, "the scanner's error stands alone");
        assert_eq!(error.faults[0].line, 5);
    }

    #[test]
    fn large_files_are_read_on_two_threads() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(APEX.as_bytes()).expect("written");
        let mut expected = 3;
        for i in 0..10_000 {
            writeln!(file, "host-with-a-rather-long-name-{i} A 192.0.2.7").expect("written");
            expected += 1;
        }
        writeln!(file, "ns1 AAAA 2001:db8::1").expect("written");
        let apex: NameBuf = "example.".parse().expect("a name");
        let (key, config) = (HashKey::new([1, 2, 3]), LoadConfig::default());
        let loaded = load_file(file.path(), apex.as_name(), &key, &config).expect("a zone");
        assert_eq!(loaded.zone.record_count(), expected + 1);
        let ns1: NameBuf = "ns1.example.".parse().expect("a name");
        let ns1 = loaded.zone.find_name(ns1.as_name()).expect("the name that came twice");
        assert!(ns1.rrset(Type::A).is_some() && ns1.rrset(Type::AAAA).is_some());
    }
}
