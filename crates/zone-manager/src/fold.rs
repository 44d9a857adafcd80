//! Folding of a version that changes: a background job rebuilds the version with a base of its own while the
//! zone changes further. Those changes are then applied to the rebuilt version.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zone::Zone;
use zone::store::ChangeSet;

use threads::background::{Background, JobKind};

/// Most changes since the fold began that the owner of the newest version applies itself. More are applied by
/// a second job. The owner then applies the changes made during that job, whatever their number: otherwise a
/// zone that changes all the time would need jobs without end.
const FEW_CHANGES: usize = 1024;

/// Identifies a job. No two jobs of the process are equal, so the end of a job of a zone that was removed and
/// added again is not taken for the end of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldNumber(u64);

impl FoldNumber {
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        FoldNumber(LAST.fetch_add(1, Relaxed))
    }
}

/// State of folding one zone, and its changes since the fold began.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    job: Option<JobInProgress>,
}

/// The job in progress of one zone.
#[derive(Debug)]
struct JobInProgress {
    number: FoldNumber,
    /// The changes since it began.
    since: Vec<Arc<ChangeSet>>,
    /// Whether it applies changes to a folded version.
    is_second: bool,
}

/// Next step after a job has ended.
#[derive(Debug)]
pub(crate) enum FoldEnd {
    /// Nothing: the job is not the one in progress.
    Outdated,
    /// This version replaces the newest one, and holds the same records.
    Folded(Arc<Zone>),
    /// This job applies the changes since to the rebuilt version.
    Continue(FoldJob),
    /// The version cannot be folded; the newest one stays.
    Failed,
}

/// A background job: folds a version, or applies changes to a folded one.
#[derive(Debug)]
pub struct FoldJob {
    number: FoldNumber,
    zone: Arc<Zone>,
    /// Changes to apply to the folded version; `None`: the version is to be folded.
    changes: Option<Vec<Arc<ChangeSet>>>,
}

impl Folding {
    /// Starts to fold a version if that saves memory and no fold is in progress.
    pub(crate) fn begin(&mut self, zone: &Arc<Zone>) -> Option<FoldJob> {
        if self.job.is_some() || !zone.is_worth_folding() {
            return None;
        }
        let number = FoldNumber::next();
        self.job = Some(JobInProgress { number, since: Vec::new(), is_second: false });
        Some(FoldJob { number, zone: Arc::clone(zone), changes: None })
    }

    /// Records changes that lead on from the newest version.
    pub(crate) fn changed(&mut self, changes: &[Arc<ChangeSet>]) {
        if let Some(job) = &mut self.job {
            job.since.extend(changes.iter().cloned());
        }
    }

    /// Makes a job in progress outdated: the zone has a version that no changes lead to.
    pub(crate) fn cancel(&mut self) {
        self.job = None;
    }

    /// Handles the result of a job.
    pub(crate) fn ended(&mut self, number: FoldNumber, zone: Option<Arc<Zone>>) -> FoldEnd {
        let Some(JobInProgress { since, is_second, .. }) = self.job.take_if(|job| job.number == number)
        else {
            return FoldEnd::Outdated;
        };
        match zone {
            None => FoldEnd::Failed,
            Some(zone) if is_second || since.len() <= FEW_CHANGES => {
                apply_all(zone, &since).map_or(FoldEnd::Failed, FoldEnd::Folded)
            }
            Some(zone) => {
                let number = FoldNumber::next();
                self.job = Some(JobInProgress { number, since: Vec::new(), is_second: true });
                FoldEnd::Continue(FoldJob { number, zone, changes: Some(since) })
            }
        }
    }
}

/// Applies changes to a version, in order; `None` if one cannot be applied.
fn apply_all(zone: Arc<Zone>, changes: &[Arc<ChangeSet>]) -> Option<Arc<Zone>> {
    changes.iter().try_fold(zone, |zone, change| zone.apply(change).ok().map(Arc::new))
}

impl FoldJob {
    /// Identifies the job.
    pub(crate) fn number(&self) -> FoldNumber {
        self.number
    }

    /// Runs the job on a background thread. `ended` gets the version, or `None` if the job failed.
    pub(crate) fn run(
        self,
        background: &Arc<Background>,
        ended: impl FnOnce(FoldNumber, Option<Arc<Zone>>) + Send + 'static,
    ) {
        let FoldJob { number, zone, changes } = self;
        background.run(JobKind::Fold, move || {
            let made = catch_unwind(AssertUnwindSafe(|| match &changes {
                None => zone.folded().ok().map(Arc::new),
                Some(changes) => apply_all(zone, changes),
            }));
            ended(number, made.ok().flatten());
        });
    }
}

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;
    use zone::store::diff;

    use super::*;

    /// Returns a zone with this serial number and so many hosts.
    fn zone(serial: u32, hosts: u32) -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("a record");
        builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("a record");
        for host in 0..hosts {
            let name: NameBuf = format!("host{host}.example.").parse().expect("a name");
            builder.add(name.as_name(), Type::A, Ttl::from_secs(60), &host.to_be_bytes()).expect("a record");
        }
        Arc::new(builder.finish().expect("a zone"))
    }

    /// Makes the next version, and records the change.
    fn step(folding: &mut Folding, version: &mut Arc<Zone>, serial: u32) {
        let change = Arc::new(diff(version, &zone(serial, serial.min(8))));
        *version = Arc::new(version.apply(&change).expect("it fits"));
        folding.changed(&[change]);
    }

    #[test]
    fn many_changes_during_a_fold_are_one_more_job_and_those_during_that_are_made_at_once() {
        let (mut folding, mut version) = (Folding::default(), zone(1, 1));
        assert!(folding.begin(&version).is_none(), "it has a base of its own");
        step(&mut folding, &mut version, 2);
        let job = folding.begin(&version).expect("it has more changes than records");
        let first = job.number;
        assert!(folding.begin(&version).is_none(), "one job at a time");
        for serial in 3..=FEW_CHANGES as u32 + 3 {
            step(&mut folding, &mut version, serial);
        }
        let folded = Arc::new(job.zone.folded().expect("a zone"));
        let FoldEnd::Continue(job) = folding.ended(first, Some(folded)) else { panic!("many changes") };
        assert_ne!(job.number, first);
        assert_eq!(job.changes.as_ref().map(Vec::len), Some(FEW_CHANGES + 1));
        for serial in 0..=FEW_CHANGES as u32 {
            step(&mut folding, &mut version, FEW_CHANGES as u32 + 4 + serial);
        }
        let made = apply_all(Arc::clone(&job.zone), job.changes.as_deref().unwrap_or_default());
        let FoldEnd::Folded(newest) = folding.ended(job.number, made) else { panic!("the second job") };
        assert!(diff(&newest, &version).is_empty() && newest.serial() == version.serial());
        assert!(matches!(folding.ended(job.number, Some(newest)), FoldEnd::Outdated));
    }

    #[test]
    fn a_fold_that_fails_leaves_the_newest_version_and_may_begin_again() {
        let (mut folding, mut version) = (Folding::default(), zone(1, 1));
        step(&mut folding, &mut version, 2);
        let first = folding.begin(&version).expect("a job").number;
        assert!(matches!(folding.ended(first, None), FoldEnd::Failed));
        let second = folding.begin(&version).expect("another job").number;
        folding.cancel();
        assert!(matches!(folding.ended(second, Some(version)), FoldEnd::Outdated));
    }
}
