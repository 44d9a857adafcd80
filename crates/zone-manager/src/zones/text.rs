//! Builds one zone from its text. All faults of the text are reported with their places. The state of the
//! zone decides whether the zone goes into service.
//!
//! If new text is bad, the version in service stays, and the fault is logged. nomen writes the operator's
//! text only if the operator asks for it, and never over an edit that was not read.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::hash::HashKey;
use wire::{NameBuf, Type};
use zone::image::Provenance;
use zone::scan::{Fault, FaultKind, Limits, ScanProgress, Severity, TextSource};
use zone::store::ChangeSet;
use zone::{LoadConfig, SourceFile, Zone};
use zone_plan::{ZoneFault, ZoneSpec, ZoneText};

use super::places;

/// A zone that can be served.
pub struct BuiltZone {
    /// The snapshot.
    pub zone: Zone,
    /// The change since the version in service; see [`zone::Loaded::step`].
    pub step: Option<ChangeSet>,
    /// Files that the zone file includes.
    pub included: Vec<PathBuf>,
    /// Warnings, each in one line.
    pub warnings: Vec<String>,
    /// How the zone was made, for its image; `None` if it was not made from files only.
    pub provenance: Option<Provenance>,
}

/// One fault or warning about a zone.
#[derive(Debug, Clone)]
pub struct ZoneFinding {
    /// Whether the finding prevents the zone from being served.
    pub error: bool,
    /// Whether the finding is that the zone's own file cannot be opened.
    pub unread: bool,
    /// The file; empty if no file has it.
    pub file: Arc<str>,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    pub column: u32,
    /// The description in one line.
    pub message: String,
    /// Several lines for people, with the source line and a caret if there is one.
    pub pretty: String,
    /// The owner and type of the records, if the finding was made when the zone was built.
    pub about: Option<Box<(NameBuf, Type)>>,
}

impl ZoneFinding {
    /// Returns the finding as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "severity": if self.error { "error" } else { "warning" },
            "file": &*self.file,
            "line": (self.line > 0).then_some(self.line),
            "column": (self.column > 0).then_some(self.column),
            "message": self.message,
        })
    }
}

/// The result of reading one zone.
pub struct Examined {
    /// The snapshot, unless there was an error.
    pub zone: Option<Zone>,
    /// The change since the version in service; see [`zone::Loaded::step`].
    pub step: Option<ChangeSet>,
    /// Errors and warnings in the order of their discovery, up to the limit.
    pub findings: Vec<ZoneFinding>,
    /// Number of findings beyond the limit.
    pub hidden: u64,
    /// All files that were read.
    pub files: Vec<PathBuf>,
    /// These files with their stamps, if there is a zone and it was read from files only.
    pub sources: Option<Vec<SourceFile>>,
}

impl Examined {
    /// Number of errors among the findings; at least one if there is no zone.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|f| f.error).count()
    }

    /// Whether the zone's own file cannot be opened.
    pub fn unread(&self) -> bool {
        self.findings.iter().any(|f| f.unread)
    }

    /// Number of warnings among the findings.
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }
}

/// Counters of all loads, updated by the loaders.
#[derive(Debug, Default)]
pub struct Meter {
    /// Records read.
    pub records: AtomicU64,
    /// Loads refused because the text was longer than `file-max-size`.
    pub too_long: AtomicU64,
    /// Loads without progress for longer than `load-stall-timeout`.
    pub stalled: AtomicU64,
}

/// Reads a zone's file; reports at most about `shown` errors and as many warnings.
pub fn examine(spec: &ZoneSpec, key: &HashKey, shown: usize, meter: &Meter) -> Examined {
    read(spec, key, None, shown, meter, &AtomicU64::new(0))
}

/// Reads a zone's file as the next version of `served`, if given.
fn read(
    spec: &ZoneSpec,
    key: &HashKey,
    served: Option<&Zone>,
    shown: usize,
    meter: &Meter,
    progress_count: &AtomicU64,
) -> Examined {
    let text = spec.rules.most_text();
    let limits = Limits { errors: shown.max(1), warnings: shown.max(1), text, ..Limits::default() };
    let config = LoadConfig { limits, split_strings: spec.rules.split_strings, ..LoadConfig::default() };
    let source = match &spec.text {
        ZoneText::File(path) if spec.rules.any_file => TextSource::any_file(&**path),
        ZoneText::File(path) => TextSource::file(&**path),
        ZoneText::BuiltIn(text) => TextSource::bytes("built-in", text.as_bytes()),
        ZoneText::Disputed(_) => {
            return unread(format!("several files hold the zone, and none is served: {}", spec.text));
        }
        ZoneText::Primaries | ZoneText::Produced | ZoneText::Database => {
            return unread(format!("there is no file of the zone, it is {}", spec.text));
        }
    };
    let mut seen = 0;
    let progress = |progress: ScanProgress| {
        meter.records.fetch_add(progress.records.saturating_sub(seen), Ordering::Relaxed);
        seen = progress.records;
        progress_count.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let (mut sources, mut step) = (None, None);
    let loaded = match served {
        Some(served) => zone::load::reload(source, spec.name(), served, &config, progress),
        None => zone::load::load(source, spec.name(), key, &config, progress),
    };
    let (zone, faults, hidden, files) = match loaded {
        Ok(loaded) => {
            (sources, step) = (loaded.sources, loaded.step);
            (Some(loaded.zone), loaded.warnings, loaded.more_warnings, loaded.files)
        }
        Err(error) => (None, error.faults, error.more, Vec::new()),
    };
    if faults.iter().any(|fault| fault.kind == FaultKind::TextTooLong) {
        meter.too_long.fetch_add(1, Ordering::Relaxed);
    }
    Examined {
        zone,
        step,
        findings: faults.iter().map(from_fault).collect(),
        hidden,
        files: files.iter().map(|f| PathBuf::from(&**f)).collect(),
        sources,
    }
}

/// Returns the result for a zone that has no file to read.
fn unread(message: String) -> Examined {
    let finding = ZoneFinding {
        error: true,
        unread: false,
        file: "".into(),
        line: 0,
        column: 0,
        pretty: format!("error: {message}"),
        message,
        about: None,
    };
    let findings = vec![finding];
    Examined { zone: None, step: None, findings, hidden: 0, files: Vec::new(), sources: None }
}

/// Converts a fault to a finding.
pub fn from_fault(fault: &Fault) -> ZoneFinding {
    let unread = fault.kind == FaultKind::CannotRead && fault.line == 0;
    if unread && sandbox::is_outside(Path::new(&*fault.file)) {
        // The system's reason, that permission is denied, would lead to the permissions of the file.
        let message = "the file is outside the sandbox; after a restart it can be read".to_owned();
        return finding(&Fault { message, ..fault.clone() }, unread);
    }
    finding(fault, unread)
}

fn finding(fault: &Fault, unread: bool) -> ZoneFinding {
    ZoneFinding {
        error: fault.severity == Severity::Error,
        unread,
        file: Arc::clone(&fault.file),
        line: fault.line,
        column: fault.column,
        message: fault.message.clone(),
        pretty: fault.pretty().to_string(),
        about: fault.about.clone(),
    }
}

/// Faults per zone shown in the log.
pub const MAX_LOGGED_FAULTS: usize = 5;

/// Builds a zone for service, as the next version of `served`, if given. `progress_count` grows while the
/// text is read.
///
/// # Errors
/// The faults of its files.
pub fn build(
    spec: &ZoneSpec,
    key: &HashKey,
    served: Option<&Zone>,
    meter: &Meter,
    progress_count: &AtomicU64,
) -> Result<BuiltZone, ZoneFault> {
    let mut examined = read(spec, key, served, MAX_LOGGED_FAULTS, meter, progress_count);
    if examined.zone.is_none() {
        // No version is built, so nothing waits for this; the operator who fixes the zone needs the places.
        let unplaced = places::unplaced(&mut examined.findings);
        places::place(spec, MAX_LOGGED_FAULTS, unplaced, &mut examined.findings);
    }
    built(examined)
}

/// Converts the result of [`examine`] for service.
///
/// # Errors
/// The faults of its files.
pub fn built(examined: Examined) -> Result<BuiltZone, ZoneFault> {
    let hidden = examined.hidden;
    match examined.zone {
        Some(zone) => {
            let provenance = provenance(examined.sources, examined.findings.len() as u64 + hidden);
            let mut warnings: Vec<String> = examined.findings.into_iter().map(|f| f.pretty).collect();
            if hidden > 0 {
                warnings.push(format!("{hidden} more warnings; `nomen zone check` shows them"));
            }
            // The zone's own file is the first.
            let (step, included) = (examined.step, examined.files.into_iter().skip(1).collect());
            Ok(BuiltZone { zone, step, included, warnings, provenance })
        }
        None => {
            let mut shown: Vec<&str> =
                examined.findings.iter().filter(|f| f.error).map(|f| f.pretty.as_str()).collect();
            let all = shown.len();
            shown.truncate(MAX_LOGGED_FAULTS);
            let mut text = shown.join("\n");
            let more = hidden + (all - shown.len()) as u64;
            if more > 0 {
                let _ = write!(text, "\n… {more} more; `nomen zone check` shows them");
            }
            let first = examined.findings.iter().find(|finding| finding.error);
            let fault = first.map(|first| ZoneFault {
                file: Arc::clone(&first.file),
                line: first.line,
                column: first.column,
                message: first.message.clone(),
                text: text.clone(),
            });
            Err(fault.unwrap_or_else(|| ZoneFault::without_place(text)))
        }
    }
}

fn provenance(sources: Option<Vec<SourceFile>>, warnings: u64) -> Option<Provenance> {
    let sources = sources?.into_iter().map(SourceFile::absolute).collect::<Result<_, _>>().ok()?;
    Some(Provenance { sources, warnings })
}
