//! Queue of one zone that may change: the jobs that wait, and the newest version.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ::database::{ZoneContent, ZoneId};
use wire::{Serial, UnixTime, ZoneName};
use zone::Zone;

use super::Reply;
use super::group::{ChangeJob, Course, KeepFault, TakeEnd};
use super::signing::ZoneSigner;
use crate::fold::{FoldNumber, Folding};
use crate::managed::FileStamp;
use crate::managed::publishing::{Claim, ClaimedZone};

/// An entry in the queue of a zone.
pub(super) enum Entry {
    /// A job that may change the zone.
    Change(ChangeJob),
    /// The zone file is about to be taken: the zone stays claimed until `Taken`. The reply is whether the
    /// zone can be changed.
    Hold(Reply<bool>),
    /// Replies with the result of taking the zone file; `None` if it was not taken.
    Taken(Reply<Option<TakeEnd>>),
    /// Replies with the newest version; `None` if the thread has none.
    Newest(Reply<Option<Arc<Zone>>>),
    /// Drops the version: the next job begins with the version in service.
    Release(Reply<()>),
    /// What the database has of the zone with this number.
    Follow(ZoneId, ZoneContent),
    /// Drops all that the thread has of the zone, which does not exist any more.
    Forget(Reply<()>),
}

/// The queue of a zone, and its version.
#[derive(Default)]
pub(super) struct ZoneQueue {
    pub(super) entries: VecDeque<Entry>,
    pub(super) phase: Phase,
    /// Whether the zone file is about to be taken, so that the claim stays.
    pub(super) is_held: bool,
    /// The result of taking it.
    pub(super) taken: Option<TakeEnd>,
}

/// State of a zone in the thread.
#[derive(Default)]
pub(super) enum Phase {
    /// The thread has no version of the zone; the zone may load from its file.
    #[default]
    Closed,
    /// The thread waits for the version in service.
    Claiming,
    /// The zone takes jobs.
    Open(Box<UpdatableZone>),
    /// Changes of the zone, which is signed here, are being decided and signed.
    Signing(Box<UpdatableZone>),
    /// Changes of the zone are being stored.
    Storing(Box<UpdatableZone>, Box<Group>),
}

impl Phase {
    /// Whether jobs wait for another thread.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Claiming | Self::Signing(_) | Self::Storing(..))
    }
}

/// Jobs whose changes are being stored.
pub(super) struct Group {
    pub(super) jobs: Vec<ChangeJob>,
    pub(super) course: Course,
    /// When they were decided.
    pub(super) now: UnixTime,
    /// When storing them began.
    pub(super) begun: Instant,
}

/// Jobs of a zone that is signed here, decided and signed.
pub(super) struct SignedGroup {
    pub(super) jobs: Vec<ChangeJob>,
    pub(super) course: Result<Course, KeepFault>,
    pub(super) signer: Option<Box<ZoneSigner>>,
    /// When they were decided.
    pub(super) now: UnixTime,
}

/// A zone that changes.
pub(super) struct UpdatableZone {
    /// Distinguishes it from an earlier one of the same name.
    pub(super) number: u64,
    /// The newest stored version: in service, or about to be.
    pub(super) version: Arc<Zone>,
    pub(super) folding: Folding,
    /// A fold that ended while changes were being stored: the job's number, and the version.
    pub(super) fold_end: Option<(FoldNumber, Option<Arc<Zone>>)>,
    /// Whether the zone has a store on disk, so that its file no longer goes into service.
    pub(super) is_stored: bool,
    /// The zone's file as it was when the zone was read from it.
    pub(super) file: Option<FileStamp>,
    /// The serial number of the version in that file.
    pub(super) file_serial: Serial,
    /// Ends when dropped, unless the zone has a store on disk.
    pub(super) claim: Claim,
    /// Its number in the database, if it is a zone of one.
    pub(super) database: Option<ZoneId>,
    /// The attempts to commit the jobs in progress.
    pub(super) attempts: Option<Attempts>,
    /// Its keys and signatures, if it is signed here and has been signed since it was claimed.
    pub(super) signer: Option<Box<ZoneSigner>>,
}

/// Attempts to commit jobs in the database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    /// When the first one began.
    pub(super) since: Instant,
    /// How often in a row the commit came after one of another node.
    pub(super) conflicts: u32,
}

impl ZoneQueue {
    /// Whether the queue is empty and no other thread works for the zone.
    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty() && !self.phase.is_waiting()
    }

    /// Returns the zone if it takes jobs now.
    pub(super) fn open(&mut self) -> Option<&mut UpdatableZone> {
        match &mut self.phase {
            Phase::Open(zone) => Some(zone),
            Phase::Closed | Phase::Claiming | Phase::Signing(_) | Phase::Storing(..) => None,
        }
    }

    /// Returns a zone of which no version is in service, to be signed for the first time: the version that
    /// waits to be taken.
    pub(super) fn unsigned(&self, apex: &ZoneName) -> Option<ClaimedZone> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Change(ChangeJob::File(job)) if job.rules.signing.is_some() => {
                let (version, file) = (Arc::clone(&job.zone), job.file.clone());
                let claim = Claim::new(apex.clone(), None);
                Some(ClaimedZone { version, of_database: false, file, claim })
            }
            _ => None,
        })
    }

    /// Removes and returns the change jobs at the front of the queue, at most `most`.
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
