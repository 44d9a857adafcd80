//! One zone that changes: its newest version and its store, and requests taken together.

use std::sync::Arc;
use std::time::Instant;

use journal::{StoreFault, ZoneStore};
use update::{Requester, UpdateFault, Updater};
use wire::Serial;
use zone::Zone;
use zone::store::{ChangeError, ChangeSet};

use super::Job;
use super::counts::UpdateCounts;
use crate::zones::FileStamp;

/// A zone that changes.
pub(super) struct Line {
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

/// What a request came to: what it changes, if anything.
pub(super) type Decided = Result<Option<ChangeSet>, UpdateFault>;

/// What a group of requests came to.
pub(super) struct Group {
    /// For the first of them, in their order, what each came to; the others were not kept.
    pub(super) decided: Vec<Decided>,
    /// Why the others were not kept.
    pub(super) fault: Option<KeepFault>,
    /// Whether there is another version.
    pub(super) changed: bool,
}

impl Line {
    /// Takes requests one after the other, and returns when what they change is on the disk. What is not there has not
    /// happened: the zone is as it was.
    pub(super) fn take(&mut self, jobs: &[Job], now: u64, counts: &UpdateCounts) -> Group {
        let (updater, mut decided) = decide(&self.zone, jobs, now);
        if changes(&decided).next().is_none() {
            return Group { decided, fault: None, changed: false };
        }
        let nothing =
            |error| Group { decided: Vec::new(), fault: Some(KeepFault::Zone(error)), changed: false };
        let mut next = match updater.finish() {
            Ok(next) => next,
            Err(error) => return nothing(error),
        };
        let (written, fault) = self.write(&decided, counts);
        if fault.is_some() {
            // Those in front of the fault are on the disk, and nothing else has happened.
            let (updater, others) = decide(&self.zone, &jobs[..kept(&decided, written)], now);
            decided = others;
            next = match updater.finish() {
                Ok(next) => next,
                Err(error) => return nothing(error),
            };
        }
        let changed = next.is_some();
        if let Some((zone, change)) = next {
            self.zone = Arc::new(zone);
            self.since.iter_mut().for_each(|since| since.push(Arc::new(change.clone())));
        }
        Group { decided, fault, changed }
    }

    /// Puts a change on the disk, and makes the next version.
    pub(super) fn step(&mut self, change: ChangeSet, counts: &UpdateCounts) -> Result<(), KeepFault> {
        let zone = self.zone.apply(&change).map_err(KeepFault::Zone)?;
        let (_, fault) = self.write(&[Ok(Some(change.clone()))], counts);
        fault.map_or(Ok(()), Err)?;
        self.zone = Arc::new(zone);
        self.since.iter_mut().for_each(|since| since.push(Arc::new(change.clone())));
        Ok(())
    }

    /// Writes what changes, and returns how many changes are on the disk then, and why not all are.
    fn write(&mut self, decided: &[Decided], counts: &UpdateCounts) -> (usize, Option<KeepFault>) {
        if let Err(fault) = self.prepare() {
            return (0, Some(KeepFault::Store(fault)));
        }
        let (mut written, mut fault) = (0, None);
        for change in changes(decided) {
            match self.store.append(change) {
                Ok(()) => written += 1,
                Err(other) => {
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

/// What requests come to, one after the other, on a version.
fn decide(zone: &Arc<Zone>, jobs: &[Job], now: u64) -> (Updater, Vec<Decided>) {
    let mut updater = Updater::new(zone);
    let decide = |job: &Job| {
        let key = job.key.as_ref().map(|key| key.as_lower());
        let permission = job.rules.policy.permission(Requester { key, address: job.client });
        updater.apply(&job.request, &permission, job.rules.serial, now)
    };
    let decided = jobs.iter().map(decide).collect();
    (updater, decided)
}

/// What changes, step by step.
fn changes(decided: &[Decided]) -> impl Iterator<Item = &ChangeSet> {
    decided.iter().filter_map(|decided| decided.as_ref().ok().and_then(Option::as_ref))
}

/// How many requests stand in front of the change with this number.
fn kept(decided: &[Decided], written: usize) -> usize {
    let is_change = |(_, decided): &(usize, &Decided)| matches!(decided, Ok(Some(_)));
    decided.iter().enumerate().filter(is_change).nth(written).map_or(decided.len(), |(at, _)| at)
}
