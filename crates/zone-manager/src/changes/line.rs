//! One zone that changes: its newest version and its store, and requests and transactions taken together.

use std::sync::Arc;
use std::time::Instant;

use journal::{StoreFault, ZoneStore};
use update::{Requester, UpdateFault, Updater};
use wire::Serial;
use zone::Zone;
use zone::store::{ChangeError, ChangeSet};

use super::Job;
use super::counts::UpdateCounts;
use super::plan::ZoneUpdates;
use super::transactions::{CommitOrder, TransactionFault};
use crate::zones::manager::Claim;
use crate::zones::{Apex, FileStamp};

/// A zone that changes.
pub(super) struct UpdatableZone {
    /// Distinguishes it from one of the same zone before.
    pub(super) number: u64,
    pub(super) store: ZoneStore,
    /// The newest version: in service, or about to be.
    pub(super) zone: Arc<Zone>,
    /// What has changed since folding began, while the zone is folded.
    pub(super) since: Option<Vec<Arc<ChangeSet>>>,
    /// A new base is being written.
    pub(super) compacting: bool,
    /// The zone's file, as it was when the zone was read from it.
    pub(super) file: Option<FileStamp>,
    /// The serial number of the version in it.
    pub(super) first: Serial,
    /// Ends with the line, unless something of the zone is stored.
    pub(super) claim: Claim,
}

/// Why changes are not kept.
#[derive(Debug)]
pub(super) enum KeepFault {
    /// The disk does not take them.
    Store(StoreFault),
    /// They do not make a zone.
    Zone(ChangeError),
}

impl std::fmt::Display for KeepFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(fault) => fault.fmt(f),
            Self::Zone(fault) => write!(f, "the changes make no zone: {fault}"),
        }
    }
}

/// What waits for a change of a zone.
pub(super) enum UpdateJob {
    /// A request.
    Update(Box<Job>),
    /// A transaction that is to become a change.
    Commit(CommitOrder),
}

impl UpdateJob {
    /// The zone.
    pub(super) fn apex(&self) -> &Apex {
        match self {
            Self::Update(job) => &job.apex,
            Self::Commit(order) => &order.apex,
        }
    }

    /// How the zone may be changed.
    pub(super) fn rules(&self) -> &ZoneUpdates {
        match self {
            Self::Update(job) => &job.rules,
            Self::Commit(order) => &order.rules,
        }
    }
}

/// What a demand came to: what it changes, if anything.
pub(super) enum Decided {
    /// A request.
    Update(Result<Option<ChangeSet>, UpdateFault>),
    /// A transaction, with the number of records that the zone has then.
    Commit(Result<Option<(ChangeSet, u64)>, TransactionFault>),
}

impl Decided {
    /// What changes, if anything does.
    pub(super) fn change(&self) -> Option<&ChangeSet> {
        match self {
            Self::Update(decided) => decided.as_ref().ok()?.as_ref(),
            Self::Commit(decided) => decided.as_ref().ok()?.as_ref().map(|(change, _)| change),
        }
    }
}

/// What a group of demands came to.
pub(super) struct Group {
    /// For the first of them, in their order, what each came to; the others were not kept.
    pub(super) decided: Vec<Decided>,
    /// Why the others were not kept.
    pub(super) fault: Option<KeepFault>,
    /// Whether there is another version.
    pub(super) changed: bool,
}

impl UpdatableZone {
    /// Takes demands one after the other, and returns when what they change is on the disk, for which it has
    /// waited once. What is not there has not happened: the zone is as it was.
    pub(super) fn take(&mut self, demands: &[UpdateJob], now: u64, counts: &UpdateCounts) -> Group {
        let nothing =
            |error| Group { decided: Vec::new(), fault: Some(KeepFault::Zone(error)), changed: false };
        let mut course = match Course::of(&self.zone, demands, now) {
            Ok(course) => course,
            Err(error) => return nothing(error),
        };
        if course.changes().next().is_none() {
            return Group { decided: course.decided, fault: None, changed: false };
        }
        let (written, fault) = self.write(course.changes(), counts);
        if fault.is_some() {
            // Those in front of the fault are on the disk, and nothing else has happened.
            let kept = kept(&course.decided, written);
            course = match Course::of(&self.zone, &demands[..kept], now) {
                Ok(course) => course,
                Err(error) => return nothing(error),
            };
        }
        let changed = !course.steps.is_empty();
        self.zone = course.zone;
        self.since.iter_mut().for_each(|since| since.append(&mut course.steps));
        Group { decided: course.decided, fault, changed }
    }

    /// Puts a change on the disk, and makes the next version.
    pub(super) fn step(&mut self, change: ChangeSet, counts: &UpdateCounts) -> Result<(), KeepFault> {
        let zone = self.zone.apply(&change).map_err(KeepFault::Zone)?;
        let (_, fault) = self.write(std::iter::once(&change), counts);
        fault.map_or(Ok(()), Err)?;
        self.zone = Arc::new(zone);
        self.since.iter_mut().for_each(|since| since.push(Arc::new(change.clone())));
        Ok(())
    }

    /// Writes what changes, and returns how many changes are on the disk then, and why not all are.
    fn write<'c>(
        &mut self,
        changes: impl Iterator<Item = &'c ChangeSet>,
        counts: &UpdateCounts,
    ) -> (usize, Option<KeepFault>) {
        if let Err(fault) = self.prepare() {
            return (0, Some(KeepFault::Store(fault)));
        }
        let (mut written, mut fault) = (0, None);
        for change in changes {
            match self.store.append(change) {
                Ok(()) => written += 1,
                Err(other) => {
                    // The disk keeps all of what is not acknowledged, or nothing.
                    written = if matches!(other, StoreFault::Io { .. } | StoreFault::Refused) {
                        0
                    } else {
                        written
                    };
                    fault = Some(KeepFault::Store(other));
                    break;
                }
            }
        }
        let begun = Instant::now();
        match self.store.sync() {
            Ok(_) => {
                counts.synced(written, begun.elapsed());
                (written, fault)
            }
            Err(other) => (0, Some(KeepFault::Store(other))),
        }
    }

    /// The store has this version of the zone, and can take changes of it.
    fn prepare(&mut self) -> Result<(), StoreFault> {
        let is_there = self.store.serial() == Some(self.zone.serial());
        match (is_there, self.store.is_broken()) {
            (true, false) => Ok(()),
            (true, true) => self.store.compact(&self.zone),
            (false, _) => self.store.replace(&self.zone),
        }
    }
}

/// What demands come to, one after the other, on a version.
struct Course {
    decided: Vec<Decided>,
    /// The version that they make.
    zone: Arc<Zone>,
    /// What leads to it.
    steps: Vec<Arc<ChangeSet>>,
}

impl Course {
    fn of(zone: &Arc<Zone>, demands: &[UpdateJob], now: u64) -> Result<Course, ChangeError> {
        let mut course = Course { decided: Vec::new(), zone: Arc::clone(zone), steps: Vec::new() };
        let mut updater = Updater::new(zone);
        for demand in demands {
            let decided = match demand {
                UpdateJob::Update(job) => {
                    let key = job.key.as_ref().map(|key| key.as_lower());
                    let permission = job.rules.policy.permission(Requester { key, address: job.client });
                    Decided::Update(updater.apply(&job.request, &permission, job.rules.serial, now))
                }
                // It is compared with what the requests before it have made.
                UpdateJob::Commit(order) => {
                    course.end(updater)?;
                    let decided = course.commit(order, now);
                    updater = Updater::new(&course.zone);
                    Decided::Commit(decided)
                }
            };
            course.decided.push(decided);
        }
        course.end(updater)?;
        Ok(course)
    }

    /// Takes what requests have made together.
    fn end(&mut self, updater: Updater) -> Result<(), ChangeError> {
        if let Some((zone, change)) = updater.finish()? {
            self.zone = Arc::new(zone);
            self.steps.push(Arc::new(change));
        }
        Ok(())
    }

    fn commit(
        &mut self,
        order: &CommitOrder,
        now: u64,
    ) -> Result<Option<(ChangeSet, u64)>, TransactionFault> {
        let Some(change) = order.work.change_of(&self.zone, &order.rules, now)? else { return Ok(None) };
        let zone = self.zone.apply(&change).map_err(TransactionFault::Unfit)?;
        let records = zone.record_count();
        self.zone = Arc::new(zone);
        self.steps.push(Arc::new(change.clone()));
        Ok(Some((change, records)))
    }

    /// What changes, step by step.
    fn changes(&self) -> impl Iterator<Item = &ChangeSet> {
        self.decided.iter().filter_map(Decided::change)
    }
}

/// How many demands stand in front of the change with this number.
fn kept(decided: &[Decided], written: usize) -> usize {
    let changes = decided.iter().enumerate().filter(|(_, decided)| decided.change().is_some());
    changes.map(|(at, _)| at).nth(written).unwrap_or(decided.len())
}
