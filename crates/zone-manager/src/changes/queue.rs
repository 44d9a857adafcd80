//! One zone that may change: the jobs that wait, and the newest version that they are done on.

use std::collections::VecDeque;
use std::sync::Arc;

use wire::Serial;
use zone::Zone;

use super::Reply;
use super::group::{ChangeJob, Course, TakeEnd};
use crate::fold::Folding;
use crate::managed::FileStamp;
use crate::managed::publishing::Claim;

/// What waits for a zone, in the order in which it came.
pub(super) enum Entry {
    /// A job that may change the zone.
    Change(ChangeJob),
    /// The zone is about to be taken from its file: until `Taken`, it is claimed. The reply says whether it
    /// can be.
    Hold(Reply<bool>),
    /// The result of taking the zone from its file; `None` if it was not taken.
    Taken(Reply<Option<TakeEnd>>),
    /// The newest version, if updates have been made since the start.
    Newest(Reply<Option<Arc<Zone>>>),
    /// The version is given up: the next job begins with the one in service.
    Release(Reply<()>),
}

/// The jobs of a zone, and its version.
#[derive(Default)]
pub(super) struct ZoneQueue {
    pub(super) entries: VecDeque<Entry>,
    pub(super) phase: Phase,
    /// The zone is about to be taken from its file: its claim stays.
    pub(super) is_held: bool,
    /// The result of that.
    pub(super) taken: Option<TakeEnd>,
}

/// What a zone is doing.
#[derive(Default)]
pub(super) enum Phase {
    /// Nothing: it has no version here, and may come from its file.
    #[default]
    Closed,
    /// It waits for the version in service.
    Claiming,
    /// It takes jobs.
    Open(Box<UpdatableZone>),
    /// Changes of it are being stored.
    Storing(Box<UpdatableZone>, Box<Group>),
}

impl Phase {
    /// Whether jobs wait for another thread.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Claiming | Self::Storing(..))
    }
}

/// Jobs whose changes are being stored.
pub(super) struct Group {
    pub(super) jobs: Vec<ChangeJob>,
    pub(super) course: Course,
    /// The time for which they were decided, in seconds since 1970.
    pub(super) now: u64,
}

/// A zone that changes.
pub(super) struct UpdatableZone {
    /// Distinguishes it from one of the same zone before.
    pub(super) number: u64,
    /// The newest version that is stored: in service, or about to be.
    pub(super) version: Arc<Zone>,
    pub(super) folding: Folding,
    /// The end of a fold that came while changes were being stored: the job's number, and the version.
    pub(super) fold_end: Option<(u64, Option<Arc<Zone>>)>,
    /// Whether something of the zone is stored, so that its file is no longer read into service.
    pub(super) is_stored: bool,
    /// The zone's file, as it was when the zone was read from it.
    pub(super) file: Option<FileStamp>,
    /// The serial number of the version in it.
    pub(super) file_serial: Serial,
    /// Ends with this zone, unless something of it is stored.
    pub(super) claim: Claim,
}

impl ZoneQueue {
    /// Whether nothing waits, and no other thread works for the zone.
    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty() && !self.phase.is_waiting()
    }

    /// The zone, if it takes jobs now.
    pub(super) fn open(&mut self) -> Option<&mut UpdatableZone> {
        match &mut self.phase {
            Phase::Open(zone) => Some(zone),
            Phase::Closed | Phase::Claiming | Phase::Storing(..) => None,
        }
    }

    /// Takes the jobs in front that may change the zone, at most so many.
    pub(super) fn take_jobs(&mut self, most: usize) -> Vec<ChangeJob> {
        let is_job = |entry: &Entry| matches!(entry, Entry::Change(_));
        let count = self.entries.iter().take(most).take_while(|entry| is_job(entry)).count();
        let jobs = self.entries.drain(..count).filter_map(|entry| match entry {
            Entry::Change(job) => Some(job),
            _ => None,
        });
        jobs.collect()
    }
}
