//! Changes of one zone that are decided and stored together: requests, transactions and zone files, each
//! applied to the version that the one before has made.

use std::sync::Arc;

use journal::StoreFault;
use update::{Requester, UpdateFault, Updater};
use wire::{Serial, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet, diff};
use zone_plan::ZoneUpdates;

use super::Job;
use super::serials::with_serial;
use super::transactions::{CommitOrder, TransactionFault};
use crate::managed::FileStamp;
use crate::shown_change::ShownRecord;

/// Why changes are not stored.
#[derive(Debug)]
pub(super) enum KeepFault {
    /// The changes cannot be written to disk.
    Store(StoreFault),
    /// The changes do not result in a valid zone.
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

/// A job that may change a zone.
pub(super) enum ChangeJob {
    /// A request.
    Update(Box<Job>),
    /// A transaction to commit.
    Commit(Box<CommitOrder>),
    /// A zone file to take: the zone is changed to what its file holds.
    File(Box<FileJob>),
}

/// A zone file to take.
pub(super) struct FileJob {
    pub(super) apex: ZoneName,
    /// The version in the file.
    pub(super) zone: Arc<Zone>,
    /// The file as it was when it was read.
    pub(super) file: Option<FileStamp>,
    pub(super) rules: Arc<ZoneUpdates>,
}

impl ChangeJob {
    /// Returns the rules for changes of the zone.
    pub(super) fn rules(&self) -> &ZoneUpdates {
        match self {
            Self::Update(job) => &job.rules,
            Self::Commit(order) => &order.rules,
            Self::File(job) => &job.rules,
        }
    }
}

/// The change that a job makes, if any.
pub(super) enum Decided {
    /// A request.
    Update(Result<Option<Arc<ChangeSet>>, UpdateFault>),
    /// A transaction, with the record count of the zone after it.
    Commit(Result<Option<(Arc<ChangeSet>, u64)>, TransactionFault>),
    /// A zone file, with the record count of the zone after it.
    File(Option<(Arc<ChangeSet>, u64)>),
}

impl Decided {
    /// Returns the change, if there is one.
    pub(super) fn change(&self) -> Option<&Arc<ChangeSet>> {
        match self {
            Self::Update(decided) => decided.as_ref().ok()?.as_ref(),
            Self::Commit(decided) => decided.as_ref().ok()?.as_ref().map(|(change, _)| change),
            Self::File(decided) => decided.as_ref().map(|(change, _)| change),
        }
    }
}

/// The changes that a sequence of jobs makes to a version.
pub(super) struct Course {
    /// One entry per job, in their order.
    pub(super) decided: Vec<Decided>,
    /// The resulting version.
    pub(super) zone: Arc<Zone>,
    /// The changes that lead to it; several jobs may share one.
    pub(super) steps: Vec<Arc<ChangeSet>>,
}

impl Course {
    /// Decides jobs on a version.
    ///
    /// # Errors
    /// The changes do not result in a valid zone; no job is decided then.
    pub(super) fn of(zone: &Arc<Zone>, jobs: &[ChangeJob], now: UnixTime) -> Result<Course, ChangeError> {
        let mut course = Course { decided: Vec::new(), zone: Arc::clone(zone), steps: Vec::new() };
        let mut updater = Updater::new(zone);
        for job in jobs {
            let decided = match job {
                ChangeJob::Update(job) => {
                    let key = job.key.as_ref().map(|key| key.as_lower());
                    let permission = job.rules.policy.permission(Requester {
                        key,
                        address: job.client,
                        certificate: job.certificate.as_deref(),
                    });
                    let change = updater.apply(&job.request, &permission, job.rules.serial, now);
                    Decided::Update(change.map(|change| change.map(Arc::new)))
                }
                // These two are compared with the version that the requests before them have made.
                ChangeJob::Commit(order) => {
                    course.end(updater)?;
                    let decided = course.commit(order, now);
                    updater = Updater::new(&course.zone);
                    Decided::Commit(decided)
                }
                ChangeJob::File(job) => {
                    course.end(updater)?;
                    let decided = course.file(job, now)?;
                    updater = Updater::new(&course.zone);
                    Decided::File(decided)
                }
            };
            course.decided.push(decided);
        }
        course.end(updater)?;
        Ok(course)
    }

    /// Adds the change that the requests so far have made together.
    fn end(&mut self, updater: Updater) -> Result<(), ChangeError> {
        if let Some((zone, change)) = updater.finish()? {
            self.zone = Arc::new(zone);
            self.steps.push(Arc::new(change));
        }
        Ok(())
    }

    /// Makes the next version. Returns its record count.
    fn step(&mut self, change: &Arc<ChangeSet>) -> Result<u64, ChangeError> {
        self.zone = Arc::new(self.zone.apply(change)?);
        self.steps.push(Arc::clone(change));
        Ok(self.zone.record_count())
    }

    fn commit(
        &mut self,
        order: &CommitOrder,
        now: UnixTime,
    ) -> Result<Option<(Arc<ChangeSet>, u64)>, TransactionFault> {
        let Some(change) = order.work.change_of(&self.zone, &order.rules, now)? else { return Ok(None) };
        let change = Arc::new(change);
        let records = self.step(&change).map_err(TransactionFault::Unfit)?;
        Ok(Some((change, records)))
    }

    fn file(&mut self, job: &FileJob, now: UnixTime) -> Result<Option<(Arc<ChangeSet>, u64)>, ChangeError> {
        let change = diff(&self.zone, &job.zone);
        let change = with_serial(change, &self.zone, &job.zone, job.zone.serial(), job.rules.serial, now);
        if change.is_empty() {
            return Ok(None);
        }
        let change = Arc::new(change);
        let records = self.step(&change)?;
        Ok(Some((change, records)))
    }

    /// Returns the changes of all jobs, in their order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Arc<ChangeSet>> {
        self.decided.iter().filter_map(Decided::change)
    }

    /// Returns the number of jobs before the change with this index, counted from 0.
    pub(super) fn jobs_before_change(&self, number: usize) -> usize {
        let changes = self.decided.iter().enumerate().filter(|(_, decided)| decided.change().is_some());
        changes.map(|(at, _)| at).nth(number).unwrap_or(self.decided.len())
    }
}

/// Result of taking a zone file: the change, if any.
pub type TakeEnd = Result<Option<TakenFile>, TakeFault>;

/// Why a zone file is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeFault {
    /// No version of the zone is in service.
    NotInService,
    /// The change cannot be stored, for this reason.
    NotStored(String),
}

impl std::fmt::Display for TakeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotInService => f.write_str("no version of the zone is in service"),
            Self::NotStored(why) => {
                write!(f, "its file is not applied, the change cannot be stored: {why}")
            }
        }
    }
}
impl std::error::Error for TakeFault {}

/// Most listed records of those that a zone file drops. Of the others only the number is reported.
const MAX_LISTED_RECORDS: usize = 1000;

/// The change that taking a zone file made to a zone that updates had changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenFile {
    /// Figures of the change.
    pub step: TakenStep,
    /// Records that were in service and that the file does not have, one per line; without SOA.
    pub dropped: Vec<String>,
    /// Number of such records that are not listed.
    pub more_dropped: usize,
}

impl TakenFile {
    pub(super) fn of(step: TakenStep, change: &ChangeSet) -> Self {
        let mut gone = change.removed.iter().filter(|record| record.rtype != Type::SOA);
        let dropped =
            gone.by_ref().take(MAX_LISTED_RECORDS).map(|record| ShownRecord(record).to_string()).collect();
        TakenFile { step, dropped, more_dropped: gone.count() }
    }
}

/// Figures of a change that did not come as an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenStep {
    /// The serial number before.
    pub from: Serial,
    /// The serial number now.
    pub to: Serial,
    /// Number of removed records, with the SOA.
    pub removed: usize,
    /// Number of added records.
    pub added: usize,
    /// Number of records in the zone now.
    pub records: u64,
}

impl TakenStep {
    /// Returns the figures of a change, after which the zone has `records` records.
    pub(super) fn of(change: &ChangeSet, records: u64) -> Self {
        let (removed, added) = (change.removed.len(), change.added.len());
        TakenStep { from: change.before, to: change.after, removed, added, records }
    }
}
