//! State of one zone, and the actions that follow from an event. A state machine without files, threads or a
//! clock; `manager` and `publishing` report events to it, and `executor` carries out its actions.
//!
//! ```text
//!  Wanted ──▶ Load ─ ─ ─ ▶ Looked: Unchanged            nothing
//!                          Looked: Loaded      ──▶ KeepDifference, Publish, WriteImage, Examine, Report
//!                          Looked: Bad         ──▶ Report; the version stays, or SERVFAIL is published
//!  Folded ──▶ Publish; a fold begins with Looked: Loaded
//!  Unwanted ──▶ Publish (removal)
//!
//!  of a secondary zone:
//!  Wanted, the first time ──▶ Load ─ ─ ─ ▶ Looked: Kept     ──▶ Begin; Publish, Examine if one is stored
//!  News: Received ──▶ Publish, Examine     Folded, Confirmed ──▶ Publish     Expired ──▶ Publish (SERVFAIL)
//!
//!  of a zone that takes updates:
//!  Claimed ──▶ its file no longer goes into service      Changed ──▶ Publish, Examine
//!  Wanted ──▶ Load ─ ─ ─ ▶ Looked: Stored ──▶ as if claimed; Publish, Examine
//!                          Looked: Loaded ──▶ Report, or Take if that was wanted
//!  Wrote ──▶ its file is known to hold the version that updates have made
//!
//!  of a zone that is signed here, which is claimed from the start:
//!  Wanted ──▶ Load ─ ─ ─ ▶ Looked: Stored ──▶ Publish, Examine, Maintain; Load if its file was edited
//!                          Looked: Loaded ──▶ Take         News: Received ──▶ Take
//!  Changed ──▶ Publish, Examine
//!
//!  of a zone of the database:
//!  Wanted, the first time ──▶ Load ─ ─ ─ ▶ Looked: Local    ──▶ Publish (SERVFAIL without a version), Examine
//!  Changed ──▶ Publish, Examine
//!
//!  of a catalog zone that nomen produces:
//!  Produced ──▶ Publish, Examine, or Report      Wanted ──▶ nothing: there are no files
//! ```
//!
//! One load at a time is in progress. Requests that arrive meanwhile start another load when it has ended.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wire::{Serial, UnixTime};
use zone::Zone;
use zone::catalog::Change;
use zone::image::Provenance;
use zone::store::ChangeSet;
use zone_plan::{DifferenceRule, ZoneFault, ZoneSpec, ZoneText};

use super::examination::Examination;
use super::{FileStamp, ZoneStatus};
use crate::fold::{FoldEnd, FoldJob, FoldNumber, Folding};

/// When to read a zone's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadWhen {
    /// If their stamps differ from the known ones.
    IfChanged,
    /// In any case.
    Anyway,
    /// In any case; the text then replaces the version that updates have made.
    Take,
}

/// A load, as the loader needs it.
#[derive(Debug, Clone)]
pub struct Load {
    /// Distinguishes this load from earlier ones of the zone.
    pub number: u32,
    /// The zone and its files.
    pub spec: ZoneSpec,
    /// The files as they were when last read: if their stamps are unchanged, nothing is read. `None`: they
    /// are read in any case.
    pub known: Option<Arc<[FileStamp]>>,
    /// Whether an image may be read in place of the files.
    pub image: bool,
    /// Whether a version that updates have made, if the state folder has one, takes precedence.
    pub stored: bool,
    /// The version in service, for comparison.
    pub serving: Option<Arc<Zone>>,
}

/// Result of a load.
#[derive(Debug)]
pub enum Looked {
    /// The files' stamps are the known ones.
    Unchanged,
    /// The files hold a valid zone.
    Loaded(Box<Reading>),
    /// Updates have changed the zone, or it is signed here; this is the version that they have made.
    Stored(Box<Reading>, FileEdit),
    /// The files do not hold a valid zone, or cannot be read.
    Bad {
        /// Why.
        fault: Arc<ZoneFault>,
        /// The files as they were.
        stamps: Arc<[FileStamp]>,
    },
    /// The zone is a secondary zone; the version is the stored one, if any. The other one is the version with
    /// signatures of this server, if it is signed here.
    Kept(Option<KeptVersion>, Option<Box<Reading>>),
    /// The zone is in the database; this is the version in the state folder, if any.
    Local(Option<Arc<Zone>>),
}

/// Whether the file of a stored zone was edited since nomen read or wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEdit {
    /// It was not, or there is none.
    Known,
    /// It was.
    Edited,
}

/// A version stored in an earlier run.
#[derive(Debug, Clone)]
pub struct KeptVersion {
    /// The version.
    pub zone: Arc<Zone>,
    /// When a primary last confirmed it as the newest.
    pub confirmed: UnixTime,
    /// Whether that time is past the zone's expire interval.
    pub expired: bool,
}

/// An event of a secondary zone.
#[derive(Debug, Clone)]
pub enum SecondaryNews {
    /// Another version was received.
    Received(Arc<Zone>),
    /// The version in service, rebuilt with a base of its own.
    Folded(Arc<Zone>),
    /// A primary confirmed the stored version as the newest.
    Confirmed,
    /// No primary has confirmed the version within its expire interval (RFC 1034 §4.3.5).
    Expired,
}

/// A zone that was read from its files, an image or the state folder.
#[derive(Debug)]
pub struct Reading {
    /// The snapshot.
    pub zone: Arc<Zone>,
    /// The files as they were.
    pub stamps: Arc<[FileStamp]>,
    /// When the zone was read.
    pub at: SystemTime,
    /// How long reading took.
    pub took: Duration,
    /// The change since the version in service; empty if nothing changed. `None` if no version was in
    /// service, or too much has changed.
    pub step: Option<Arc<ChangeSet>>,
    /// Warnings about the zone, each of one line or more. A zone from an image has only their number.
    pub warnings: Vec<String>,
    /// Number of warnings.
    pub warning_count: usize,
    /// How the zone was made from text, for its image. `None` if the zone came from an image or gets none.
    pub provenance: Option<Provenance>,
}

/// An image to write.
#[derive(Debug)]
pub struct ImageOrder {
    /// The zone's entry in the configuration.
    pub spec: ZoneSpec,
    /// The version that is in service.
    pub zone: Arc<Zone>,
    /// How the version was made.
    pub provenance: Provenance,
}

/// An event of a zone.
#[derive(Debug)]
pub enum ZoneEvent {
    /// The configuration has the zone, with this text.
    Wanted(ZoneText, ReadWhen),
    /// A load has ended.
    Looked(u32, Looked),
    /// A load makes no progress, for this reason.
    Stalled(u32, Arc<ZoneFault>),
    /// An event of a secondary zone, and its time.
    News(SecondaryNews, SystemTime),
    /// True: from now on updates change the zone, and its file does not. False: no longer.
    Claimed(bool),
    /// The zone's file, with this stamp now, was written with the version that updates have made.
    Wrote(FileStamp),
    /// Updates have made another version, or the version was folded.
    Changed(Arc<Zone>, SystemTime),
    /// A version of a produced catalog zone, or why there is none.
    Produced(Result<Arc<Zone>, Arc<ZoneFault>>, SystemTime),
    /// This version was examined.
    Examined(Arc<Zone>, Arc<Examination>),
    /// The end of a job that folds a version of the zone's text; `None` if it failed.
    Folded(FoldNumber, Option<Arc<Zone>>),
    /// The configuration no longer has the zone.
    Unwanted,
}

/// An action to carry out.
#[derive(Debug)]
pub enum ZoneAction {
    /// Load the zone; ends in [`ZoneEvent::Looked`].
    Load(Load),
    /// Add this step to the next catalog.
    Publish(Change),
    /// Publish this step at once: other servers already have the version.
    PublishNow(Change),
    /// Start to refresh the zone from its primaries, which have this version or a later one. Its events come
    /// as [`ZoneEvent::News`].
    Begin(Option<KeptVersion>),
    /// Change the zone to this version: that of its file, as it was when read, or of its primaries.
    Take(Arc<Zone>, Option<FileStamp>, TakeWhen),
    /// Look at the keys and signatures of the zone.
    Maintain,
    /// Store the change, and at least so many bytes of earlier changes.
    KeepDifference(Arc<ChangeSet>, u64),
    /// Store the change only if the stored changes lead up to it. They alone show that the change's first
    /// serial number belongs to one version only.
    ContinueDifferences(Arc<ChangeSet>, u64),
    /// Remove the stored changes: they do not lead to this version.
    ForgetDifferences,
    /// Write an image once the zone is in service.
    WriteImage(ImageOrder),
    /// Fold a version in the background; ends in [`ZoneEvent::Folded`].
    Fold(FoldJob),
    /// Examine this version; ends in [`ZoneEvent::Examined`].
    Examine(Arc<Zone>),
    /// Log this for the operator.
    Report(Notice),
}

/// When to change a zone to a version of its file or its primaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeWhen {
    /// In any case.
    Anyway,
    /// Unless updates or transactions have changed the zone since the last time.
    Unchanged,
}

/// A log message for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A warning about the version that goes into service.
    Warning(String),
    /// The files are bad; with the serial number of the version that stays in service, if any.
    Bad(Arc<ZoneFault>, Option<Serial>),
    /// Another version goes into service.
    Changed(VersionStep),
    /// The version that goes into service has a lower serial number than the one before: secondaries do not
    /// transfer it (RFC 1982).
    SerialBack(VersionStep),
    /// The file holds a version with this serial number, which does not go into service because updates have
    /// changed the zone.
    FileNotTaken(Serial),
    /// The version that goes into service has other records under the same serial number: secondaries do not
    /// transfer it.
    SerialKept(VersionStep),
}

/// A step from one version of a zone to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionStep {
    /// The serial number before; `None` if no version was in service.
    pub from: Option<Serial>,
    /// The serial number now.
    pub to: Serial,
    /// Records now.
    pub records: u64,
    /// How long reading took.
    pub took: Duration,
}

impl VersionStep {
    /// Returns the log messages about the step; `same`: both versions have the same records.
    fn notices(self, same: bool) -> impl Iterator<Item = Notice> {
        let changed = (!same).then_some(Notice::Changed(self));
        let odd = match self.from {
            Some(from) if from == self.to => (!same).then_some(Notice::SerialKept(self)),
            // Serial numbers 2^31 apart cannot be compared: secondaries do not transfer such a version
            // either.
            Some(from) if from.compare(self.to) != Some(Ordering::Less) => Some(Notice::SerialBack(self)),
            _ => None,
        };
        changed.into_iter().chain(odd)
    }
}

/// One zone's state.
#[derive(Debug)]
pub struct ZoneState {
    status: Arc<ZoneStatus>,
    source: Source,
    loading: Option<Loading>,
    /// Number of the last load.
    number: u32,
}

/// The source of a zone's versions.
#[derive(Debug)]
enum Source {
    /// Its text: a file, or part of the program.
    Text(TextSource),
    /// Dynamic updates. The file is read, but goes into service only on request.
    Updates(TextSource),
    /// Its primaries.
    Primaries {
        /// Whether refreshing has started. Before that, the stored version is read.
        begun: bool,
    },
    /// The producer of catalog zones.
    Producer,
    /// The database.
    Database {
        /// Whether the state folder was read.
        begun: bool,
    },
}

/// State of the text of a zone.
#[derive(Debug, Default)]
struct TextSource {
    /// The files as they were when last read; `None` before that.
    stamps: Option<Arc<[FileStamp]>>,
    /// Whether other records have been in service under the current serial number. Secondaries may have
    /// those, and differences from that serial number are not valid for them.
    ambiguous: bool,
    /// Folding of the versions that are made of changes to the one before.
    folding: Folding,
}

impl Source {
    /// Returns the source of a zone, before anything is read.
    fn of(spec: &ZoneSpec) -> Self {
        match spec.text {
            ZoneText::Primaries => Self::Primaries { begun: false },
            ZoneText::Produced => Self::Producer,
            ZoneText::Database => Self::Database { begun: false },
            ZoneText::File(_) if spec.signed => Self::Updates(TextSource::default()),
            ZoneText::File(_) | ZoneText::BuiltIn(_) | ZoneText::Disputed(_) => {
                Self::Text(TextSource::default())
            }
        }
    }

    fn text(&mut self) -> Option<&mut TextSource> {
        match self {
            Self::Text(text) | Self::Updates(text) => Some(text),
            Self::Primaries { .. } | Self::Producer | Self::Database { .. } => None,
        }
    }

    fn stamps(&self) -> Option<&Arc<[FileStamp]>> {
        match self {
            Self::Text(text) | Self::Updates(text) => text.stamps.as_ref(),
            Self::Primaries { .. } | Self::Producer | Self::Database { .. } => None,
        }
    }

    fn set_stamps(&mut self, stamps: Option<Arc<[FileStamp]>>) {
        if let Some(text) = self.text() {
            text.stamps = stamps;
        }
    }

    /// Starts to fold the next version of the text, if that saves memory. `change` leads to it from the
    /// version before; `None` if that is not known.
    fn fold(&mut self, change: Option<&Arc<ChangeSet>>, zone: &Arc<Zone>) -> Option<FoldJob> {
        let Self::Text(text) = self else { return None };
        match change {
            Some(change) => text.folding.changed(std::slice::from_ref(change)),
            None => text.folding.cancel(),
        }
        text.folding.begin(zone)
    }

    /// Starts or ends the claim by updates. Only a zone with a text can be claimed.
    fn claim(&mut self, claimed: bool) {
        if let Some(text) = self.text() {
            // The thread of updates folds the versions that they make.
            text.folding.cancel();
            let text = std::mem::take(text);
            *self = if claimed { Self::Updates(text) } else { Self::Text(text) };
        }
    }
}

/// A load in progress.
#[derive(Debug)]
struct Loading {
    /// The load requested since it began, if any.
    again: Option<ReadWhen>,
    /// What was requested.
    when: ReadWhen,
    /// The load makes no progress, and nothing waits for it.
    stalled: bool,
}

impl ZoneState {
    /// Returns the state of a zone before its first load.
    pub fn new(spec: ZoneSpec) -> Self {
        let status = ZoneStatus {
            spec,
            zone: None,
            expired: None,
            loaded: None,
            fault: None,
            warnings: 0,
            examined: None,
        };
        let source = Source::of(&status.spec);
        ZoneState { status: Arc::new(status), source, loading: None, number: 0 }
    }

    /// The status of the zone.
    pub fn status(&self) -> &Arc<ZoneStatus> {
        &self.status
    }

    /// Whether changes of the zone's file may be stored.
    pub fn keeps_differences(&self) -> bool {
        let spec = &self.status.spec;
        spec.differences.from_records.is_some() && spec.text.file().is_some() && !self.is_claimed()
    }

    /// The zone's own file as it was when last read; `None` before that, and if there is none.
    pub fn file(&self) -> Option<&FileStamp> {
        self.source.stamps()?.first()
    }

    /// Whether updates change the zone, and its file does not.
    pub fn is_claimed(&self) -> bool {
        matches!(self.source, Source::Updates(_))
    }

    /// Whether refreshing from its primaries has started.
    fn is_begun(&self) -> bool {
        matches!(self.source, Source::Primaries { begun: true })
    }

    /// Whether a load is in progress.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether a load is in progress that has not stalled.
    pub fn is_awaitable(&self) -> bool {
        self.loading.as_ref().is_some_and(|loading| !loading.stalled)
    }

    /// Sets the zone's entry in the configuration, except its text, which [`ZoneEvent::Wanted`] has.
    pub fn wanted_as(&mut self, wanted: &ZoneSpec) {
        let spec = &self.status.spec;
        if spec.rules != wanted.rules && !self.is_claimed() {
            // The text is checked again under the new rules.
            self.source.set_stamps(None);
        }
        let signed = wanted.signed;
        if signed && wanted.text.file().is_some() {
            // The version in service stays until the signed one is there.
            self.source.claim(true);
        } else if spec.signed && !signed {
            // The stored version, or the file, comes next.
            self.source.claim(false);
            self.source.set_stamps(None);
        }
        let spec = &self.status.spec;
        if spec.origin != wanted.origin
            || spec.differences != wanted.differences
            || spec.rules != wanted.rules
            || spec.signed != signed
        {
            self.change(|state| {
                let spec = ZoneSpec { text: state.spec.text.clone(), ..wanted.clone() };
                state.spec = spec;
            });
        }
    }

    /// Handles an event. Returns the actions in the order in which to carry them out.
    pub fn handle(&mut self, event: ZoneEvent) -> Vec<ZoneAction> {
        match event {
            ZoneEvent::Wanted(text, when) => self.wanted(text, when),
            ZoneEvent::Looked(number, looked) if number == self.number && self.loading.is_some() => {
                self.looked(looked)
            }
            ZoneEvent::Stalled(number, fault) if number == self.number && self.is_awaitable() => {
                self.stalled(fault)
            }
            // The load was replaced or cancelled.
            ZoneEvent::Looked(..) | ZoneEvent::Stalled(..) => Vec::new(),
            ZoneEvent::News(news, at) if self.is_begun() => self.news(news, at),
            // The zone has a file now.
            ZoneEvent::News(..) => Vec::new(),
            ZoneEvent::Claimed(claimed) => {
                self.source.claim(claimed || self.status.spec.signed);
                Vec::new()
            }
            ZoneEvent::Wrote(file) => {
                if self.is_claimed() {
                    self.source.set_stamps(Some([file].into()));
                    self.change(|state| state.fault = None);
                }
                Vec::new()
            }
            // The version that is served once a primary confirms the zone.
            ZoneEvent::Changed(zone, _) if self.is_signed_transfer() && self.status.expired.is_some() => {
                self.change(|state| state.expired = Some(zone));
                Vec::new()
            }
            ZoneEvent::Changed(zone, at)
                if self.is_claimed() || self.is_signed_transfer() || self.is_of_database() =>
            {
                self.change(|state| (state.zone, state.loaded) = (Some(Arc::clone(&zone)), Some(at)));
                let examine = ZoneAction::Examine(Arc::clone(&zone));
                vec![ZoneAction::PublishNow(Change::Serve(zone)), examine]
            }
            // The zone has another source now.
            ZoneEvent::Changed(..) => Vec::new(),
            ZoneEvent::Produced(made, at) if self.status.spec.text == ZoneText::Produced => {
                self.produced(made, at)
            }
            // The zone has another source now.
            ZoneEvent::Produced(..) => Vec::new(),
            ZoneEvent::Examined(zone, examination) => {
                // A fold may have replaced the version by one with the same records. Updates may have made
                // another version: if they do so all the time, findings about an earlier one are nearly as
                // good.
                let is_same = |served: &Arc<Zone>| {
                    served.serial() == zone.serial() && served.record_count() == zone.record_count()
                };
                if self.status.zone.as_ref().is_some_and(is_same) || self.is_claimed() {
                    self.change(|state| state.examined = Some(examination));
                }
                Vec::new()
            }
            ZoneEvent::Folded(number, zone) => self.folded(number, zone),
            ZoneEvent::Unwanted => {
                self.loading = None;
                vec![ZoneAction::Publish(Change::Remove(Box::new(self.status.spec.name().to_buf())))]
            }
        }
    }

    fn wanted(&mut self, text: ZoneText, when: ReadWhen) -> Vec<ZoneAction> {
        if self.status.spec.text != text {
            let is_claimed = self.is_claimed() && text.file().is_some();
            self.change(|state| state.spec.text = text);
            self.source = Source::of(&self.status.spec);
            if is_claimed {
                self.source.claim(true);
            }
        }
        match self.source {
            Source::Producer => {
                // The result of a load in progress is ignored.
                self.loading = None;
                return Vec::new();
            }
            Source::Primaries { begun: true } | Source::Database { begun: true } => return Vec::new(),
            Source::Text(_)
            | Source::Updates(_)
            | Source::Primaries { begun: false }
            | Source::Database { begun: false } => {}
        }
        match &mut self.loading {
            Some(loading) => {
                loading.again = loading.again.max(Some(when));
                Vec::new()
            }
            None => vec![self.load(when)],
        }
    }

    fn load(&mut self, when: ReadWhen) -> ZoneAction {
        self.loading = Some(Loading { again: None, when, stalled: false });
        self.number = self.number.wrapping_add(1);
        // Bad files are read again: the fault may have been elsewhere.
        let known = self
            .source
            .stamps()
            .cloned()
            .filter(|_| when == ReadWhen::IfChanged && self.status.fault.is_none());
        let image = when == ReadWhen::IfChanged;
        let (spec, serving) = (self.status.spec.clone(), self.status.zone.clone());
        let stored = !self.is_claimed() || self.status.spec.signed && serving.is_none();
        ZoneAction::Load(Load { number: self.number, spec, known, image, stored, serving })
    }

    fn looked(&mut self, looked: Looked) -> Vec<ZoneAction> {
        if self.loading.as_ref().is_some_and(|loading| loading.stalled) {
            // The result of the load replaces the fault of the stall.
            self.change(|state| state.fault = None);
        }
        let mut actions = match looked {
            Looked::Unchanged => Vec::new(),
            Looked::Loaded(reading) if self.is_claimed() => self.set_aside(*reading),
            Looked::Loaded(reading) => self.accept(*reading),
            // Updates have made newer versions since this one was read.
            Looked::Stored(..) if self.is_claimed() && self.status.zone.is_some() => Vec::new(),
            Looked::Stored(reading, edit) => {
                self.source.claim(true);
                self.stored(*reading, edit)
            }
            Looked::Bad { fault, stamps } => self.reject(fault, stamps),
            // The zone has a file now; the next load reads it.
            Looked::Kept(..) | Looked::Local(_) if self.source.text().is_some() => Vec::new(),
            Looked::Local(zone) => {
                self.loading.iter_mut().for_each(|loading| loading.again = None);
                self.local(zone)
            }
            Looked::Kept(kept, signed) => {
                let mut actions =
                    signed.map_or_else(Vec::new, |signed| self.stored(*signed, FileEdit::Known));
                actions.extend(self.begin(kept));
                self.loading.iter_mut().for_each(|loading| loading.again = None);
                actions
            }
        };
        if let Some(when) = self.loading.take().and_then(|loading| loading.again) {
            actions.push(self.load(when));
        }
        actions
    }

    /// Whether the database has the zone.
    fn is_of_database(&self) -> bool {
        matches!(self.source, Source::Database { .. })
    }

    /// Serves the version in the state folder, unless the database has sent one meanwhile.
    fn local(&mut self, zone: Option<Arc<Zone>>) -> Vec<ZoneAction> {
        self.source = Source::Database { begun: true };
        if self.status.zone.is_some() {
            return Vec::new();
        }
        let Some(zone) = zone else { return vec![ZoneAction::Publish(self.unload())] };
        self.change(|state| (state.zone, state.fault) = (Some(Arc::clone(&zone)), None));
        vec![ZoneAction::Publish(Change::Serve(Arc::clone(&zone))), ZoneAction::Examine(zone)]
    }

    /// Whether the zone is transferred from its primaries, and signed here.
    fn is_signed_transfer(&self) -> bool {
        self.status.spec.signed && matches!(self.source, Source::Primaries { .. })
    }

    /// Serves the stored version of a zone that updates have changed, or that is signed here.
    fn stored(&mut self, reading: Reading, edit: FileEdit) -> Vec<ZoneAction> {
        if !self.status.spec.signed {
            return self.accept(reading);
        }
        if edit == FileEdit::Edited
            && let Some(loading) = &mut self.loading
        {
            loading.again = loading.again.max(Some(ReadWhen::Anyway));
        }
        let mut actions = self.accept(reading);
        actions.push(ZoneAction::Maintain);
        actions
    }

    fn accept(&mut self, reading: Reading) -> Vec<ZoneAction> {
        let Reading { zone, stamps, at, took, step: changes, warnings, warning_count, provenance } = reading;
        self.source.set_stamps(Some(stamps));
        let fold = self.source.fold(changes.as_ref(), &zone);
        let from = self.status.zone.as_ref().map(|zone| zone.serial());
        let step = VersionStep { from, to: zone.serial(), records: zone.record_count(), took };
        self.change(|state| {
            (state.zone, state.expired) = (Some(Arc::clone(&zone)), None);
            (state.loaded, state.fault, state.warnings) = (Some(at), None, warning_count);
            state.examined = None;
        });
        let mut actions: Vec<ZoneAction> =
            warnings.into_iter().map(|text| ZoneAction::Report(Notice::Warning(text))).collect();
        let same = from.is_some() && changes.as_ref().is_some_and(|changes| changes.is_empty());
        actions.extend(step.notices(same).map(ZoneAction::Report));
        actions.extend(self.difference(step, changes.filter(|_| !same), &zone));
        actions.push(ZoneAction::Publish(Change::Serve(Arc::clone(&zone))));
        actions.push(ZoneAction::Examine(Arc::clone(&zone)));
        actions.extend(fold.map(ZoneAction::Fold));
        let spec = self.status.spec.clone();
        actions.extend(
            provenance.map(|provenance| ZoneAction::WriteImage(ImageOrder { spec, zone, provenance })),
        );
        actions
    }

    /// Serves the version that a fold has made, or continues the fold.
    fn folded(&mut self, number: FoldNumber, zone: Option<Arc<Zone>>) -> Vec<ZoneAction> {
        let Source::Text(text) = &mut self.source else { return Vec::new() };
        match text.folding.ended(number, zone) {
            FoldEnd::Outdated | FoldEnd::Failed => Vec::new(),
            FoldEnd::Continue(job) => vec![ZoneAction::Fold(job)],
            FoldEnd::Folded(zone) => {
                self.change(|state| state.zone = Some(Arc::clone(&zone)));
                vec![ZoneAction::Publish(Change::Serve(zone))]
            }
        }
    }

    /// Decides whether to store the difference to the version before. At a start there is a difference only
    /// to a version that an earlier run has served.
    fn difference(
        &mut self,
        step: VersionStep,
        changes: Option<Arc<ChangeSet>>,
        zone: &Zone,
    ) -> Option<ZoneAction> {
        let DifferenceRule { bytes, .. } = self.status.spec.differences;
        let wants = self.status.spec.differences.wants(zone);
        let is_smaller = |change: &ChangeSet| change.record_count() <= zone.record_count();
        let Some(from) = step.from else {
            let leads_on = |change: &ChangeSet| change.before.compare(change.after) == Some(Ordering::Less);
            let change = changes.filter(|change| wants && leads_on(change) && is_smaller(change))?;
            return Some(ZoneAction::ContinueDifferences(change, bytes));
        };
        if from.compare(step.to) != Some(Ordering::Less) {
            let is_other = from != step.to || changes.is_some();
            self.source.text().into_iter().for_each(|text| text.ambiguous |= is_other);
            return is_other.then_some(ZoneAction::ForgetDifferences);
        }
        let was_ambiguous = self.source.text().is_some_and(|text| std::mem::take(&mut text.ambiguous));
        let change = changes.filter(|change| !was_ambiguous && wants && is_smaller(change))?;
        Some(ZoneAction::KeepDifference(change, bytes))
    }

    /// Keeps the version of the file out of service because updates have changed the zone. If the load was
    /// requested as `Take`, updates change the zone to that version.
    fn set_aside(&mut self, reading: Reading) -> Vec<ZoneAction> {
        let file = reading.stamps.first().cloned();
        self.source.set_stamps(Some(reading.stamps));
        self.change(|state| state.fault = None);
        let is_wanted = self.loading.as_ref().is_some_and(|loading| loading.when == ReadWhen::Take);
        let same = reading.step.as_ref().is_some_and(|step| step.is_empty());
        match (is_wanted, same) {
            (true, _) => vec![ZoneAction::Take(reading.zone, file, TakeWhen::Anyway)],
            (false, _) if self.status.spec.signed => {
                let warning = |text| ZoneAction::Report(Notice::Warning(text));
                let take = ZoneAction::Take(reading.zone, file, TakeWhen::Unchanged);
                // Until it is signed for the first time, clients get SERVFAIL.
                let unload = self.status.zone.is_none().then(|| ZoneAction::Publish(self.unload()));
                reading.warnings.into_iter().map(warning).chain(unload).chain([take]).collect()
            }
            (false, true) => Vec::new(),
            (false, false) => vec![ZoneAction::Report(Notice::FileNotTaken(reading.zone.serial()))],
        }
    }

    fn reject(&mut self, fault: Arc<ZoneFault>, stamps: Arc<[FileStamp]>) -> Vec<ZoneAction> {
        self.source.set_stamps(Some(stamps));
        self.change(|state| state.fault = Some(Arc::clone(&fault)));
        let serving = self.status.zone.as_ref().map(|zone| zone.serial());
        let mut actions = vec![ZoneAction::Report(Notice::Bad(fault, serving))];
        if serving.is_none() {
            actions.push(ZoneAction::Publish(self.unload()));
        }
        actions
    }

    /// Counts the zone as bad until its load ends.
    fn stalled(&mut self, fault: Arc<ZoneFault>) -> Vec<ZoneAction> {
        self.loading.iter_mut().for_each(|loading| loading.stalled = true);
        let stamps = self.source.stamps().cloned();
        let actions = self.reject(fault, Arc::new([]));
        self.source.set_stamps(stamps);
        actions
    }

    /// Serves a version of a produced catalog zone.
    fn produced(&mut self, made: Result<Arc<Zone>, Arc<ZoneFault>>, at: SystemTime) -> Vec<ZoneAction> {
        let zone = match made {
            Ok(zone) => zone,
            Err(fault) => return self.reject(fault, Arc::new([])),
        };
        self.change(|state| {
            (state.zone, state.expired) = (Some(Arc::clone(&zone)), None);
            (state.loaded, state.fault, state.warnings, state.examined) = (Some(at), None, 0, None);
        });
        let examine = ZoneAction::Examine(Arc::clone(&zone));
        vec![ZoneAction::PublishNow(Change::Serve(zone)), examine]
    }

    /// Starts refreshing the zone from its primaries. A version already in service stays until they answer.
    fn begin(&mut self, kept: Option<KeptVersion>) -> Vec<ZoneAction> {
        self.source = Source::Primaries { begun: true };
        self.change(|state| state.fault = None);
        let mut actions = vec![ZoneAction::Begin(kept.clone())];
        match kept {
            Some(KeptVersion { zone, confirmed, expired: false }) => {
                actions.extend(self.news(SecondaryNews::Received(zone), confirmed.into()));
            }
            Some(KeptVersion { zone, .. }) => {
                self.change(|state| {
                    let signed = state.spec.signed.then(|| state.zone.take()).flatten();
                    (state.zone, state.expired) = (None, signed.or(Some(zone)));
                });
                actions.push(ZoneAction::Publish(self.unload()));
            }
            None if self.status.zone.is_none() => {
                actions.push(ZoneAction::Publish(self.unload()));
            }
            None => {}
        }
        actions
    }

    fn news(&mut self, news: SecondaryNews, at: SystemTime) -> Vec<ZoneAction> {
        let serve = |zone: &Arc<Zone>| ZoneAction::PublishNow(Change::Serve(Arc::clone(zone)));
        match news {
            // The version in service is the signed one.
            SecondaryNews::Received(zone) if self.status.spec.signed => {
                vec![ZoneAction::Take(zone, None, TakeWhen::Anyway)]
            }
            SecondaryNews::Folded(_) if self.status.spec.signed => Vec::new(),
            SecondaryNews::Received(zone) => {
                self.change(|state| {
                    (state.zone, state.expired) = (Some(Arc::clone(&zone)), None);
                    (state.loaded, state.warnings, state.examined) = (Some(at), 0, None);
                });
                vec![serve(&zone), ZoneAction::Examine(zone)]
            }
            SecondaryNews::Folded(zone) if self.status.zone.is_some() => {
                self.change(|state| state.zone = Some(Arc::clone(&zone)));
                vec![serve(&zone)]
            }
            SecondaryNews::Folded(zone) => {
                self.change(|state| state.expired = Some(zone));
                Vec::new()
            }
            SecondaryNews::Confirmed => {
                let Some(zone) = self.status.expired.clone() else { return Vec::new() };
                if self.status.spec.signed && !zone.is_signed() && !zone.is_chainless() {
                    self.change(|state| state.expired = None);
                    return vec![ZoneAction::Take(zone, None, TakeWhen::Anyway)];
                }
                self.change(|state| state.zone = state.expired.take());
                vec![serve(&zone)]
            }
            SecondaryNews::Expired => {
                if self.status.zone.is_some() {
                    self.change(|state| state.expired = state.zone.take());
                }
                vec![ZoneAction::PublishNow(self.unload())]
            }
        }
    }

    /// Returns the change after which the server answers for the zone with SERVFAIL.
    fn unload(&self) -> Change {
        Change::Unload(Box::new(self.status.spec.name().to_buf()))
    }

    /// Changes the status. Readers of the old status keep it.
    fn change(&mut self, change: impl FnOnce(&mut ZoneStatus)) {
        change(Arc::make_mut(&mut self.status));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use zone_plan::Origin;

    use super::*;
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;

    fn apex() -> NameBuf {
        "example.".parse().expect("a name")
    }

    fn state() -> ZoneState {
        let spec = ZoneSpec {
            apex: apex().as_name().into(),
            text: file("a"),
            origin: Origin::Configuration,
            differences: DifferenceRule::default(),
            rules: zone_plan::TextRules::default(),
            signed: false,
        };
        ZoneState::new(spec)
    }

    fn reading(serial: u8) -> Looked {
        let mut builder = ZoneBuilder::new(apex().as_name(), &HashKey::new([1, 2, 3]));
        let rdata = [&[0, 0][..], &[0, 0, 0, serial], &[0; 16]].concat();
        builder.add(apex().as_name(), Type::SOA, Ttl::from_secs(60), &rdata).expect("a record");
        builder.add(apex().as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
        Looked::Loaded(Box::new(Reading {
            zone: Arc::new(builder.finish().expect("a zone")),
            stamps: Arc::new([]),
            at: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            step: None,
            warnings: vec!["odd".into()],
            warning_count: 1,
            provenance: Some(Provenance { sources: Vec::new(), warnings: 1 }),
        }))
    }

    fn bad() -> Looked {
        Looked::Bad { fault: Arc::new(ZoneFault::without_place("no SOA")), stamps: Arc::new([]) }
    }

    /// Returns one word for each action.
    fn words(actions: &[ZoneAction]) -> Vec<String> {
        let word = |action: &ZoneAction| match action {
            ZoneAction::Load(load) => {
                format!("load {} known {} image {}", load.number, load.known.is_some(), load.image)
            }
            ZoneAction::Publish(Change::Serve(zone)) => format!("serve {}", zone.serial()),
            ZoneAction::Publish(Change::Unload(_)) => "unload".into(),
            ZoneAction::Publish(Change::Remove(_)) => "remove".into(),
            ZoneAction::PublishNow(Change::Serve(zone)) => format!("serve {} now", zone.serial()),
            ZoneAction::PublishNow(_) => "unload now".into(),
            ZoneAction::Begin(kept) => format!("begin with {}", kept.is_some()),
            ZoneAction::WriteImage(_) => "image".into(),
            ZoneAction::Maintain => "maintain".into(),
            ZoneAction::Take(zone, _, TakeWhen::Anyway) => format!("take {}", zone.serial()),
            ZoneAction::Take(zone, _, TakeWhen::Unchanged) => {
                format!("take {} unless changed", zone.serial())
            }
            ZoneAction::KeepDifference(change, _) => format!("keep {} to {}", change.before, change.after),
            ZoneAction::ContinueDifferences(change, _) => {
                format!("continue {} to {}", change.before, change.after)
            }
            ZoneAction::ForgetDifferences => "forget".into(),
            ZoneAction::Report(Notice::FileNotTaken(serial)) => format!("not taken {serial}"),
            ZoneAction::Report(Notice::Warning(text)) => format!("warn {text}"),
            ZoneAction::Report(Notice::Bad(_, serial)) => format!("bad, serving {}", serial.is_some()),
            ZoneAction::Report(Notice::Changed(step)) => match step.from {
                Some(from) => format!("{from} to {}", step.to),
                None => format!("new {}", step.to),
            },
            ZoneAction::Report(Notice::SerialBack(_)) => "serial back".into(),
            ZoneAction::Report(Notice::SerialKept(_)) => "serial kept".into(),
            ZoneAction::Fold(_) => "fold".into(),
            ZoneAction::Examine(_) => "examine".into(),
        };
        actions.iter().map(word).collect()
    }

    fn file(path: &str) -> ZoneText {
        ZoneText::File(Path::new(path).into())
    }

    fn want(state: &mut ZoneState, when: ReadWhen) -> Vec<String> {
        words(&state.handle(ZoneEvent::Wanted(file("a"), when)))
    }

    fn look(state: &mut ZoneState, number: u32, looked: Looked) -> Vec<String> {
        words(&state.handle(ZoneEvent::Looked(number, looked)))
    }

    #[test]
    fn a_good_zone_is_served_and_then_read_only_when_it_changed() {
        let mut state = state();
        assert_eq!(want(&mut state, ReadWhen::IfChanged), ["load 1 known false image true"]);
        assert_eq!(look(&mut state, 1, reading(7)), ["warn odd", "new 7", "serve 7", "examine", "image"]);
        assert_eq!((state.status().word(), state.status().warnings), ("ok", 1));
        assert_eq!(want(&mut state, ReadWhen::IfChanged), ["load 2 known true image true"]);
        assert!(look(&mut state, 2, Looked::Unchanged).is_empty());
        assert_eq!(want(&mut state, ReadWhen::Anyway), ["load 3 known false image false"]);
    }

    #[test]
    fn a_bad_version_leaves_the_one_that_is_served() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        want(&mut state, ReadWhen::IfChanged);
        assert_eq!(look(&mut state, 2, bad()), ["bad, serving true"]);
        assert_eq!(state.status().word(), "old");
        // The files are read again even if their stamps are unchanged.
        assert_eq!(want(&mut state, ReadWhen::IfChanged), ["load 3 known false image true"]);
        assert_eq!(look(&mut state, 3, reading(8)), ["warn odd", "7 to 8", "serve 8", "examine", "image"]);
        assert_eq!((state.status().word(), state.status().fault.is_none()), ("ok", true));
    }

    #[test]
    fn a_zone_without_a_good_version_is_ours_all_the_same() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        assert_eq!(look(&mut state, 1, bad()), ["bad, serving false", "unload"]);
        assert_eq!(state.status().word(), "failed");
    }

    #[test]
    fn a_load_without_progress_counts_as_bad_until_it_ends() {
        let mut state = state();
        let stalled = |number| ZoneEvent::Stalled(number, Arc::new(ZoneFault::without_place("stalled")));
        want(&mut state, ReadWhen::IfChanged);
        assert_eq!(words(&state.handle(stalled(1))), ["bad, serving false", "unload"]);
        assert_eq!(
            (state.status().word(), state.is_loading(), state.is_awaitable()),
            ("failed", true, false)
        );
        assert!(state.handle(stalled(1)).is_empty(), "that is known");
        assert_eq!(look(&mut state, 1, reading(7)), ["warn odd", "new 7", "serve 7", "examine", "image"]);
        want(&mut state, ReadWhen::IfChanged);
        assert_eq!(words(&state.handle(stalled(2))), ["bad, serving true"]);
        assert_eq!(state.status().word(), "old");
        assert!(look(&mut state, 2, Looked::Unchanged).is_empty());
        assert_eq!(state.status().word(), "ok");
        assert!(state.handle(stalled(2)).is_empty(), "the load has ended");
    }

    #[test]
    fn what_is_wanted_during_a_load_is_looked_at_after_it() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        assert!(want(&mut state, ReadWhen::Anyway).is_empty());
        assert!(want(&mut state, ReadWhen::IfChanged).is_empty());
        let all = look(&mut state, 1, reading(7));
        assert_eq!(
            all,
            ["warn odd", "new 7", "serve 7", "examine", "image", "load 2 known false image false"]
        );
        assert!(look(&mut state, 1, reading(6)).is_empty(), "the first load has ended already");
    }

    #[test]
    fn what_changes_is_kept_where_the_serial_goes_on_and_leads_on_from_one_version_alone() {
        let mut state = state();
        let rule = |from_records| DifferenceRule { from_records, bytes: 7 };
        let wanted = |state: &mut ZoneState, differences| {
            let spec = ZoneSpec { differences, ..state.status().spec.clone() };
            state.wanted_as(&spec);
        };
        wanted(&mut state, rule(Some(0)));
        let mut read = |number: u32, serial: u8, from: Option<u8>, rule: Option<DifferenceRule>| {
            rule.into_iter().for_each(|rule| wanted(&mut state, rule));
            want(&mut state, ReadWhen::Anyway);
            let Looked::Loaded(mut loaded) = reading(serial) else { panic!("a reading") };
            loaded.step = from.map(|from| {
                let change = ChangeSet {
                    before: Serial(from.into()),
                    after: Serial(serial.into()),
                    ..ChangeSet::default()
                };
                let mut change = change;
                change.added.push(apex().as_name(), Type::A, Ttl::from_secs(60), &[1, 2, 3, 4]);
                Arc::new(change)
            });
            let words = look(&mut state, number, Looked::Loaded(loaded));
            words.into_iter().find(|word| word.starts_with("keep") || word == "forget")
        };
        let kept = |step: &str| Some(format!("keep {step}"));
        assert_eq!(read(1, 1, None, None), None, "there is nothing before the first");
        assert_eq!(read(2, 2, Some(1), None), kept("1 to 2"));
        assert_eq!(read(3, 3, None, None), None, "too much changed to say");
        assert_eq!(read(4, 4, Some(3), None), kept("3 to 4"));
        assert_eq!(read(5, 4, Some(4), None), Some("forget".into()), "other records under the same serial");
        assert_eq!(read(6, 5, Some(4), None), None, "of no use to who has the first version 4");
        assert_eq!(read(7, 6, Some(5), None), kept("5 to 6"));
        assert_eq!(read(8, 3, Some(6), None), Some("forget".into()), "the serial went back");
        assert_eq!(read(9, 7, Some(3), None), None);
        assert_eq!(read(10, 8, Some(7), Some(rule(Some(3)))), None, "a small zone");
        assert_eq!(read(11, 9, Some(8), Some(rule(None))), None, "not wanted");
    }

    #[test]
    fn a_serial_that_goes_back_or_stays_is_reported() {
        let mut state = state();
        let mut read = |number: u32, looked: Looked| {
            want(&mut state, ReadWhen::Anyway);
            let words = look(&mut state, number, looked);
            words
                .into_iter()
                .filter(|word| word.contains("serial") || word.contains(" to "))
                .collect::<Vec<_>>()
        };
        assert!(read(1, reading(7)).is_empty());
        assert_eq!(read(2, reading(6)), ["7 to 6", "serial back"]);
        assert_eq!(read(3, reading(6)), ["6 to 6", "serial kept"]);
        let Looked::Loaded(mut same) = reading(6) else { return };
        same.step = Some(Arc::new(ChangeSet::default()));
        assert!(read(4, Looked::Loaded(same)).is_empty());
    }

    #[test]
    fn what_is_found_out_about_a_version_goes_with_it() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let version = state.status().zone.clone().expect("a zone");
        let found = Arc::new(Examination { more: 1, ..Examination::default() });
        let event = || ZoneEvent::Examined(Arc::clone(&version), Arc::clone(&found));
        assert!(state.handle(event()).is_empty());
        assert_eq!(state.status().examined, Some(Arc::clone(&found)));
        want(&mut state, ReadWhen::Anyway);
        look(&mut state, 2, reading(8));
        assert_eq!(state.status().examined, None);
        assert!(state.handle(event()).is_empty());
        assert_eq!(state.status().examined, None, "that was found out about the version before");
    }

    #[test]
    fn a_version_that_was_folded_is_published_with_the_changes_made_since() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let mut version = snapshot(7);
        let mut next = |state: &mut ZoneState, serial: u8| {
            let change = zone::store::diff(&version, &snapshot(serial));
            version = Arc::new(version.apply(&change).expect("it fits"));
            let Looked::Loaded(mut reading) = reading(serial) else { return Vec::new() };
            (reading.zone, reading.step) = (Arc::clone(&version), Some(Arc::new(change)));
            want(state, ReadWhen::Anyway);
            state.handle(ZoneEvent::Looked(u32::from(serial) - 6, Looked::Loaded(reading)))
        };
        let fold_of = |actions: Vec<ZoneAction>| {
            actions.into_iter().find_map(|action| match action {
                ZoneAction::Fold(job) => Some(job),
                _ => None,
            })
        };
        let job = fold_of(next(&mut state, 8)).expect("the whole zone has changed");
        assert!(fold_of(next(&mut state, 9)).is_none(), "one fold at a time");
        let ended = |state: &mut ZoneState, zone| words(&state.handle(ZoneEvent::Folded(job.number(), zone)));
        assert_eq!(ended(&mut state, Some(snapshot(8))), ["serve 9"]);
        let served = state.status().zone.clone().expect("a zone");
        assert!(zone::store::diff(&served, &snapshot(9)).is_empty());
        assert!(ended(&mut state, Some(snapshot(8))).is_empty(), "the job has ended");
        // A version that no known change leads to, and a claim, make a fold outdated.
        for claims in [false, true] {
            let mut state = self::state();
            want(&mut state, ReadWhen::IfChanged);
            look(&mut state, 1, reading(7));
            version = snapshot(7);
            let next = |state: &mut ZoneState| {
                let change = zone::store::diff(&version, &snapshot(8));
                let Looked::Loaded(mut reading) = reading(8) else { return Vec::new() };
                reading.zone = Arc::new(version.apply(&change).expect("it fits"));
                reading.step = Some(Arc::new(change));
                want(state, ReadWhen::Anyway);
                state.handle(ZoneEvent::Looked(2, Looked::Loaded(reading)))
            };
            let job = fold_of(next(&mut state)).expect("a job");
            match claims {
                true => drop(state.handle(ZoneEvent::Claimed(true))),
                false => {
                    want(&mut state, ReadWhen::Anyway);
                    look(&mut state, 3, reading(9));
                }
            }
            assert!(state.handle(ZoneEvent::Folded(job.number(), Some(snapshot(8)))).is_empty());
        }
    }

    #[test]
    fn findings_about_a_version_were_lost_if_it_was_folded_meanwhile() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let version = state.status().zone.clone().expect("a zone");
        state.change(|status| status.zone = Some(snapshot(7)));
        let found = Arc::new(Examination { more: 1, ..Examination::default() });
        state.handle(ZoneEvent::Examined(version, Arc::clone(&found)));
        assert_eq!(state.status().examined, Some(found));
    }

    #[test]
    fn another_file_is_read_whatever_was_known_of_the_first() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let moved = state.handle(ZoneEvent::Wanted(file("b"), ReadWhen::IfChanged));
        assert_eq!(words(&moved), ["load 2 known false image true"]);
    }

    fn snapshot(serial: u8) -> Arc<Zone> {
        let Looked::Loaded(reading) = reading(serial) else { unreachable!("a reading") };
        reading.zone
    }

    fn kept(expired: bool) -> Looked {
        Looked::Kept(
            Some(KeptVersion { zone: snapshot(7), confirmed: UnixTime::from_secs(1), expired }),
            None,
        )
    }

    /// Returns the state of a secondary zone after its stored version was read, and the actions of that.
    fn secondary(kept: Looked) -> (ZoneState, Vec<String>) {
        let spec = ZoneSpec {
            apex: apex().as_name().into(),
            text: ZoneText::Primaries,
            origin: Origin::Configuration,
            differences: DifferenceRule::default(),
            rules: zone_plan::TextRules::default(),
            signed: false,
        };
        let mut state = ZoneState::new(spec);
        let wanted = words(&state.handle(ZoneEvent::Wanted(ZoneText::Primaries, ReadWhen::IfChanged)));
        assert_eq!(wanted, ["load 1 known false image true"]);
        let begun = look(&mut state, 1, kept);
        (state, begun)
    }

    fn news(state: &mut ZoneState, news: SecondaryNews) -> Vec<String> {
        words(&state.handle(ZoneEvent::News(news, SystemTime::UNIX_EPOCH)))
    }

    #[test]
    fn a_zone_from_primaries_is_ours_before_it_has_come_and_served_at_once_when_it_has() {
        let (mut state, begun) = secondary(Looked::Kept(None, None));
        assert_eq!(
            (begun, state.status().word()),
            (vec!["begin with false".into(), "unload".into()], "empty")
        );
        assert_eq!(news(&mut state, SecondaryNews::Received(snapshot(7))), ["serve 7 now", "examine"]);
        assert_eq!(state.status().word(), "ok");
        assert_eq!(news(&mut state, SecondaryNews::Folded(snapshot(7))), ["serve 7 now"]);
        assert!(news(&mut state, SecondaryNews::Confirmed).is_empty());
        // A reload does not start a load; the zone's timers decide.
        let wanted = state.handle(ZoneEvent::Wanted(ZoneText::Primaries, ReadWhen::IfChanged));
        assert!(wanted.is_empty() && !state.is_loading());
    }

    #[test]
    fn a_zone_that_expired_is_held_back_until_a_primary_confirms_it() {
        let (mut state, begun) = secondary(kept(false));
        assert_eq!(begun, ["begin with true", "serve 7 now", "examine"]);
        assert_eq!(news(&mut state, SecondaryNews::Expired), ["unload now"]);
        assert_eq!(state.status().word(), "expired");
        assert!(news(&mut state, SecondaryNews::Folded(snapshot(7))).is_empty());
        assert_eq!(news(&mut state, SecondaryNews::Confirmed), ["serve 7 now"]);
        assert_eq!(state.status().word(), "ok");
        let (mut state, begun) = secondary(kept(true));
        assert_eq!(begun, ["begin with true", "unload"]);
        assert_eq!(news(&mut state, SecondaryNews::Received(snapshot(8))), ["serve 8 now", "examine"]);
        assert!(news(&mut state, SecondaryNews::Confirmed).is_empty());
    }

    #[test]
    fn a_zone_that_gets_primaries_or_a_file_is_served_until_there_is_another_version() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let moved = state.handle(ZoneEvent::Wanted(ZoneText::Primaries, ReadWhen::IfChanged));
        assert_eq!(words(&moved), ["load 2 known false image true"]);
        assert_eq!(look(&mut state, 2, Looked::Kept(None, None)), ["begin with false"]);
        assert_eq!(state.status().word(), "ok");
        assert_eq!(want(&mut state, ReadWhen::IfChanged), ["load 3 known false image true"]);
        assert!(news(&mut state, SecondaryNews::Received(snapshot(9))).is_empty(), "it has a file now");
        assert_eq!(look(&mut state, 3, bad()), ["bad, serving true"]);
    }

    #[test]
    fn a_zone_that_gets_a_file_while_its_stored_version_is_read_comes_from_the_file() {
        let mut state = state();
        state.handle(ZoneEvent::Wanted(ZoneText::Primaries, ReadWhen::IfChanged));
        assert!(want(&mut state, ReadWhen::IfChanged).is_empty());
        assert_eq!(look(&mut state, 1, kept(false)), ["load 2 known false image true"]);
        assert_eq!(look(&mut state, 2, reading(8)), ["warn odd", "new 8", "serve 8", "examine", "image"]);
        assert!(news(&mut state, SecondaryNews::Received(snapshot(9))).is_empty());
    }

    #[test]
    fn a_stored_version_that_was_read_before_an_update_does_not_replace_what_the_update_made() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        want(&mut state, ReadWhen::Anyway);
        state.handle(ZoneEvent::Claimed(true));
        state.handle(ZoneEvent::Changed(snapshot(8), SystemTime::UNIX_EPOCH));
        let Looked::Loaded(stored) = reading(7) else { return };
        assert!(look(&mut state, 2, Looked::Stored(stored, FileEdit::Known)).is_empty());
        assert_eq!(state.status().zone.as_ref().map(|zone| zone.serial()), Some(Serial(8)));
    }

    #[test]
    fn a_zone_that_updates_have_changed_stays_until_its_file_is_to_be_taken() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        let changed = |serial| ZoneEvent::Changed(snapshot(serial), SystemTime::UNIX_EPOCH);
        assert!(state.handle(changed(8)).is_empty(), "it is not claimed for updates yet");
        state.handle(ZoneEvent::Claimed(true));
        assert_eq!(words(&state.handle(changed(8))), ["serve 8 now", "examine"]);
        want(&mut state, ReadWhen::Anyway);
        assert_eq!(look(&mut state, 2, reading(9)), ["not taken 9"]);
        assert_eq!(state.status().zone.as_ref().map(|zone| zone.serial()), Some(Serial(8)));
        want(&mut state, ReadWhen::Take);
        assert_eq!(look(&mut state, 3, reading(9)), ["take 9"]);
        state.handle(ZoneEvent::Claimed(false));
        want(&mut state, ReadWhen::Anyway);
        assert_eq!(
            look(&mut state, 4, reading(9)),
            ["warn odd", "8 to 9", "serve 9", "examine", "image"],
            "nothing was kept of the updates"
        );
    }

    /// Returns the same with or without a policy for signing.
    fn signed(state: &mut ZoneState, signed: bool) {
        let spec = ZoneSpec { signed, ..state.status().spec.clone() };
        state.wanted_as(&spec);
    }

    fn changed(state: &mut ZoneState, serial: u8) -> Vec<String> {
        words(&state.handle(ZoneEvent::Changed(snapshot(serial), SystemTime::UNIX_EPOCH)))
    }

    #[test]
    fn a_zone_that_is_signed_here_is_served_only_with_its_signatures() {
        let spec = ZoneSpec { signed: true, ..state().status().spec.clone() };
        let mut state = ZoneState::new(spec);
        assert_eq!(want(&mut state, ReadWhen::IfChanged), ["load 1 known false image true"]);
        assert_eq!(look(&mut state, 1, reading(7)), ["warn odd", "unload", "take 7 unless changed"]);
        assert_eq!(state.status().word(), "failed");
        assert_eq!(changed(&mut state, 8), ["serve 8 now", "examine"]);
        assert_eq!(state.status().word(), "ok");
        // The end of a claim does not end this one.
        state.handle(ZoneEvent::Claimed(false));
        want(&mut state, ReadWhen::Anyway);
        assert_eq!(look(&mut state, 2, reading(9)), ["warn odd", "take 9 unless changed"]);
        want(&mut state, ReadWhen::Take);
        assert_eq!(look(&mut state, 3, reading(9)), ["take 9"]);
        assert_eq!(state.status().zone.as_ref().map(|zone| zone.serial()), Some(Serial(8)));
    }

    #[test]
    fn the_stored_version_of_a_signed_zone_is_served_at_the_start_and_an_edited_file_read_after_it() {
        let spec = ZoneSpec { signed: true, ..state().status().spec.clone() };
        for (edit, then) in
            [(FileEdit::Known, None), (FileEdit::Edited, Some("load 2 known false image false"))]
        {
            let mut state = ZoneState::new(spec.clone());
            let load = state.handle(ZoneEvent::Wanted(file("a"), ReadWhen::IfChanged));
            assert!(matches!(&load[..], [ZoneAction::Load(load)] if load.stored));
            let Looked::Loaded(stored) = reading(9) else { return };
            let begun = look(&mut state, 1, Looked::Stored(stored, edit));
            let mut expected = vec!["warn odd", "new 9", "serve 9", "examine", "image", "maintain"];
            expected.extend(then);
            assert_eq!(begun, expected);
        }
    }

    #[test]
    fn a_zone_keeps_its_version_while_it_becomes_signed_and_comes_from_its_store_when_it_no_longer_is() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        look(&mut state, 1, reading(7));
        signed(&mut state, true);
        assert!(state.is_claimed() && state.status().word() == "ok");
        assert_eq!(changed(&mut state, 8), ["serve 8 now", "examine"]);
        signed(&mut state, false);
        let load = state.handle(ZoneEvent::Wanted(file("a"), ReadWhen::IfChanged));
        assert!(matches!(&load[..], [ZoneAction::Load(load)] if load.stored && load.known.is_none()));
    }

    #[test]
    fn a_zone_of_primaries_that_is_signed_here_is_served_only_with_its_signatures() {
        let (mut state, _) = secondary(Looked::Kept(None, None));
        signed(&mut state, true);
        assert_eq!(news(&mut state, SecondaryNews::Received(snapshot(7))), ["take 7"]);
        assert_eq!(state.status().word(), "empty");
        assert_eq!(changed(&mut state, 8), ["serve 8 now", "examine"]);
        assert!(news(&mut state, SecondaryNews::Folded(snapshot(7))).is_empty());
        // An expired zone is not served because its signatures were renewed.
        assert_eq!(news(&mut state, SecondaryNews::Expired), ["unload now"]);
        assert!(changed(&mut state, 9).is_empty());
        assert_eq!(state.status().word(), "expired");
        // Versions of these tests have no signatures.
        assert_eq!(news(&mut state, SecondaryNews::Confirmed), ["take 9"]);
    }

    #[test]
    fn what_updates_have_made_comes_before_the_file_at_the_start() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        let Looked::Loaded(stored) = reading(9) else { return };
        let served = look(&mut state, 1, Looked::Stored(stored, FileEdit::Known));
        assert_eq!(served, ["warn odd", "new 9", "serve 9", "examine", "image"]);
        want(&mut state, ReadWhen::Anyway);
        assert_eq!(look(&mut state, 2, reading(7)), ["not taken 7"]);
    }

    #[test]
    fn a_zone_that_is_no_longer_wanted_goes_and_stays_gone() {
        let mut state = state();
        want(&mut state, ReadWhen::IfChanged);
        assert_eq!(words(&state.handle(ZoneEvent::Unwanted)), ["remove"]);
        assert!(look(&mut state, 1, reading(7)).is_empty(), "the load that was under way");
    }
}
