//! Changes of one zone that are decided and stored together: requests, transactions and zone files, each
//! applied to the version that the one before has made.

use std::sync::Arc;

use ::database::KeyCommit;
use journal::StoreFault;
use signer::zone::SignFault;
use update::{
    Requester, SerialPolicy, Update, UpdateFault, UpdateFaultKind, UpdateRequest, Updater, is_signed,
    is_signers,
};
use wire::{Serial, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet, ChangedRecord, diff};
use zone_plan::ZoneUpdates;

use super::Job;
use super::edits::{EditFault, EditOrder, EditRules};
use super::origins::ChangeOrigin;
use super::serials::with_serial;
use super::signing::{Maintenance, SignOrder, SigningFault, ZoneSigner};
use super::transactions::{CommitOrder, TransactionFault};
use crate::managed::FileStamp;
use crate::managed::state::TakeWhen;
use crate::shown_change::ShownRecord;

/// Why changes are not stored.
#[derive(Debug)]
pub(super) enum KeepFault {
    /// The changes cannot be written to disk.
    Store(StoreFault),
    /// The changes do not result in a valid zone.
    Zone(ChangeError),
    /// The zone cannot be signed.
    Signing(SigningFault),
    /// The database was not reached, or other nodes were faster, for this reason: a later try may succeed.
    Database(String),
    /// The database refuses the changes, for this reason.
    Refused(String),
}

impl From<ChangeError> for KeepFault {
    fn from(fault: ChangeError) -> Self {
        Self::Zone(fault)
    }
}

impl From<SigningFault> for KeepFault {
    fn from(fault: SigningFault) -> Self {
        Self::Signing(fault)
    }
}

impl std::fmt::Display for KeepFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(fault) => fault.fmt(f),
            Self::Zone(fault) => write!(f, "the changes make no zone: {fault}"),
            Self::Signing(fault) => write!(f, "the zone cannot be signed: {fault}"),
            Self::Database(why) | Self::Refused(why) => f.write_str(why),
        }
    }
}

/// A job that may change a zone.
pub(super) enum ChangeJob {
    /// A request.
    Update(Box<Job>),
    /// A transaction to commit.
    Commit(Box<CommitOrder>),
    /// An edit to make.
    Edit(Box<EditOrder>),
    /// A zone file to take: the zone is changed to what its file holds.
    File(Box<FileJob>),
    /// Keys and signatures of a zone that is signed here are due for a look.
    Sign(Box<SignOrder>),
}

/// A zone file to take.
pub(super) struct FileJob {
    pub(super) apex: ZoneName,
    /// The version in the file.
    pub(super) zone: Arc<Zone>,
    /// The file as it was when it was read.
    pub(super) file: Option<FileStamp>,
    pub(super) rules: Arc<ZoneUpdates>,
    pub(super) when: TakeWhen,
    /// It was not tried before.
    pub(super) is_new: bool,
}

impl ChangeJob {
    /// Returns the rules for changes of the zone.
    pub(super) fn rules(&self) -> &ZoneUpdates {
        match self {
            Self::Update(job) => &job.rules,
            Self::Commit(order) => &order.rules,
            Self::Edit(order) => &order.rules,
            Self::File(job) => &job.rules,
            Self::Sign(order) => &order.rules,
        }
    }

    /// Whether a client, an operator or a program asks for it: the zone then has data that its file has not.
    pub(super) fn is_asked(&self) -> bool {
        match self {
            Self::Update(_) | Self::Commit(_) | Self::Edit(_) => true,
            Self::File(_) | Self::Sign(_) => false,
        }
    }

    /// What its change comes from.
    pub(super) fn origin(&self) -> ChangeOrigin {
        match self {
            Self::Update(job) => {
                let key = job.key.as_ref().map(|key| key.to_string().into());
                ChangeOrigin::Update { client: job.client, key }
            }
            Self::Commit(_) => ChangeOrigin::Transaction,
            Self::Edit(order) => ChangeOrigin::Edit(order.edit.by.clone()),
            Self::File(_) => ChangeOrigin::File,
            Self::Sign(_) => ChangeOrigin::Signer,
        }
    }

    /// Whether an operator asks for a change of keys or signatures.
    pub(super) fn commands(&self) -> bool {
        matches!(self, Self::Sign(order) if order.commands())
    }

    /// Whether it is work that waits behind other work of the machine.
    pub(super) fn is_maintenance(&self) -> bool {
        matches!(self, Self::Sign(_))
    }
}

/// A change, and the record count of the zone after it.
type CountedChange = (Arc<ChangeSet>, u64);

/// The change that a job makes, if any.
pub(super) enum Decided {
    /// A request.
    Update(Result<Option<Arc<ChangeSet>>, UpdateFault>),
    /// A transaction.
    Commit(Result<Option<CountedChange>, TransactionFault>),
    /// An edit.
    Edit(Result<Option<CountedChange>, EditFault>),
    /// A zone file.
    File(Option<CountedChange>),
    /// Maintenance of keys and signatures.
    Sign(Option<Arc<ChangeSet>>),
}

impl Decided {
    /// Returns the change, if there is one.
    pub(super) fn change(&self) -> Option<&Arc<ChangeSet>> {
        match self {
            Self::Update(decided) => decided.as_ref().ok()?.as_ref(),
            Self::Commit(decided) => decided.as_ref().ok()?.as_ref().map(|(change, _)| change),
            Self::Edit(decided) => decided.as_ref().ok()?.as_ref().map(|(change, _)| change),
            Self::File(decided) => decided.as_ref().map(|(change, _)| change),
            Self::Sign(change) => change.as_ref(),
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
    /// What is stored, in order: each change with the index of the first job that it belongs to. Of a signed
    /// zone these are the steps, else the changes of the jobs.
    stored: Vec<(usize, Arc<ChangeSet>)>,
    /// The first job that no step has yet.
    open_from: usize,
    /// Of a zone of the database that the nodes sign: the keys that it is signed with, and what they become.
    pub(super) keys: Option<KeyCommit>,
}

/// Decides jobs of one zone on one version of it.
struct Deciding<'a> {
    course: Course,
    signer: Option<&'a mut ZoneSigner>,
    now: UnixTime,
}

impl Course {
    /// Decides jobs on a version. `signer` signs each step, if the zone is signed here.
    ///
    /// # Errors
    /// The changes do not result in a valid zone, or it cannot be signed; no job is decided then.
    pub(super) fn of(
        zone: &Arc<Zone>,
        jobs: &[ChangeJob],
        signer: Option<&mut ZoneSigner>,
        now: UnixTime,
    ) -> Result<Course, KeepFault> {
        let course = Course::undecided(Arc::clone(zone));
        let mut deciding = Deciding { course, signer, now };
        let mut updater = deciding.updater();
        for job in jobs {
            let ChangeJob::Update(job) = job else {
                // These are compared with the version that the requests before them have made.
                deciding.end(updater)?;
                let decided = deciding.decide(job)?;
                updater = deciding.updater();
                deciding.add(decided);
                deciding.course.open_from = deciding.course.decided.len();
                continue;
            };
            if !deciding.has_usable_keys(&job.request) {
                deciding.add(Decided::Update(Err(UpdateFaultKind::UnusedAlgorithm.into())));
                continue;
            }
            let key = job.key.as_ref().map(|key| key.as_lower());
            let permission = job.rules.policy.permission(Requester {
                key,
                address: job.client,
                certificate: job.certificate.as_deref(),
            });
            let change = updater.apply(&job.request, &permission, job.rules.serial, now);
            deciding.add(Decided::Update(change.map(|change| change.map(Arc::new))));
        }
        deciding.end(updater)?;
        Ok(deciding.course)
    }

    /// Returns a course without a decision, at a version.
    pub(super) fn undecided(zone: Arc<Zone>) -> Course {
        let (decided, steps, stored) = (Vec::new(), Vec::new(), Vec::new());
        Course { decided, zone, steps, stored, open_from: 0, keys: None }
    }

    /// Whether keys of the database change.
    pub(super) fn changes_keys(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.after.is_some())
    }

    /// Returns the changes to store, in their order.
    pub(super) fn changes(&self) -> impl Iterator<Item = &Arc<ChangeSet>> {
        self.stored.iter().map(|(_, change)| change)
    }

    /// Returns the changes to store, each with the index of the first job that it belongs to.
    pub(super) fn stored(&self) -> &[(usize, Arc<ChangeSet>)] {
        &self.stored
    }

    /// Returns the number of jobs that do not need the stored change with this index, counted from 0, or a
    /// later one.
    pub(super) fn jobs_before_change(&self, number: usize) -> usize {
        self.stored.get(number).map_or(self.decided.len(), |(first, _)| *first)
    }
}

impl Deciding<'_> {
    /// Returns what applies requests to the newest version.
    fn updater(&self) -> Updater {
        match self.signer {
            Some(_) => Updater::of_signed_here(&self.course.zone),
            None => Updater::new(&self.course.zone),
        }
    }

    /// Whether the zone may have the DNSKEY records that a request adds. One request that adds another must
    /// not fail those that are signed with it.
    fn has_usable_keys(&self, request: &UpdateRequest) -> bool {
        let Some(signer) = &self.signer else { return true };
        request.updates().iter().all(|update| match update {
            Update::Add { owner, rtype: Type::DNSKEY, rdata, .. }
                if owner.as_name() == request.zone().as_name() =>
            {
                signer.may_have_key(rdata)
            }
            _ => true,
        })
    }

    /// Decides a job that is no request.
    fn decide(&mut self, job: &ChangeJob) -> Result<Decided, KeepFault> {
        Ok(match job {
            ChangeJob::Update(_) => Decided::Update(Ok(None)),
            ChangeJob::Commit(order) => Decided::Commit(self.commit(order)?),
            ChangeJob::Edit(order) => Decided::Edit(self.edit(order)),
            ChangeJob::File(job) => Decided::File(self.file(job)?),
            ChangeJob::Sign(order) => Decided::Sign(self.maintain(order)?),
        })
    }

    /// Adds the decision on a job. Its change is stored as it is, unless the zone is signed.
    fn add(&mut self, decided: Decided) {
        let course = &mut self.course;
        let change = decided.change().filter(|_| self.signer.is_none());
        course.stored.extend(change.map(|change| (course.decided.len(), Arc::clone(change))));
        course.decided.push(decided);
    }

    /// Adds the change that the requests so far have made together.
    fn end(&mut self, updater: Updater) -> Result<(), KeepFault> {
        if self.signer.is_some() {
            if let Some(change) = updater.into_change() {
                self.signed_step(&change)?;
            }
        } else if let Some((zone, change)) = updater.finish()? {
            self.course.zone = Arc::new(zone);
            self.course.steps.push(Arc::new(change));
        }
        self.course.open_from = self.course.decided.len();
        Ok(())
    }

    /// Makes the next version of a zone that is signed here. Returns the change with its signatures.
    fn signed_step(&mut self, change: &ChangeSet) -> Result<Arc<ChangeSet>, KeepFault> {
        let Some(signer) = &mut self.signer else { return Ok(Arc::new(ChangeSet::default())) };
        let step = signer.sign(&self.course.zone, change, self.now)?;
        Ok(self.take_step(step.zone, step.change))
    }

    /// Makes a signed version the newest one.
    fn take_step(&mut self, zone: Zone, change: ChangeSet) -> Arc<ChangeSet> {
        let (course, change) = (&mut self.course, Arc::new(change));
        course.zone = Arc::new(zone);
        course.steps.push(Arc::clone(&change));
        course.stored.push((course.open_from, Arc::clone(&change)));
        change
    }

    /// Makes the next version. Returns the whole change, and the record count of the version.
    fn step(&mut self, change: ChangeSet) -> Result<CountedChange, KeepFault> {
        if self.signer.is_some() {
            let change = self.signed_step(&change)?;
            return Ok((change, self.course.zone.record_count()));
        }
        let change = Arc::new(change);
        self.course.zone = Arc::new(self.course.zone.apply(&change)?);
        self.course.steps.push(Arc::clone(&change));
        Ok((change, self.course.zone.record_count()))
    }

    /// A fault of the transaction itself leaves the other jobs as they are.
    fn commit(
        &mut self,
        order: &CommitOrder,
    ) -> Result<Result<Option<CountedChange>, TransactionFault>, KeepFault> {
        let change = match order.work.change_of(&self.course.zone, &order.rules, self.now) {
            Ok(Some(change)) => change,
            Ok(None) => return Ok(Ok(None)),
            Err(fault) => return Ok(Err(fault)),
        };
        match self.step(change) {
            Ok(step) => Ok(Ok(Some(step))),
            Err(KeepFault::Zone(fault)) => Ok(Err(TransactionFault::Unfit(fault))),
            Err(fault) => Ok(Err(TransactionFault::NotKept(fault.to_string()))),
        }
    }

    /// A fault of an edit leaves the other jobs as they are.
    fn edit(&mut self, order: &EditOrder) -> Result<Option<CountedChange>, EditFault> {
        let (signed_here, now) = (self.signer.is_some(), self.now);
        let rules = EditRules { updates: &order.rules, signed_here, now };
        let Some(change) = order.edit.change_of(&self.course.zone, rules)? else { return Ok(None) };
        let apex = self.course.zone.apex().as_name();
        let is_key = |record: &ChangedRecord<'_>| record.rtype == Type::DNSKEY && record.owner == apex;
        let may_have = |key: &[u8]| self.signer.as_ref().is_none_or(|signer| signer.may_have_key(key));
        if change.added.iter().any(|record| is_key(&record) && !may_have(record.rdata)) {
            return Err(EditFault::UnusedAlgorithm);
        }
        self.step(change).map(Some).map_err(|fault| match fault {
            KeepFault::Zone(fault) | KeepFault::Signing(SigningFault::Sign(SignFault::Change(fault))) => {
                EditFault::Unfit(fault)
            }
            fault => EditFault::NotKept(fault.to_string()),
        })
    }

    fn file(&mut self, job: &FileJob) -> Result<Option<CountedChange>, KeepFault> {
        let zone = &self.course.zone;
        let change = match &self.signer {
            Some(signer) => signer.difference(zone, &job.zone),
            None => diff(zone, &job.zone),
        };
        let change = with_serial(change, zone, &job.zone, job.zone.serial(), job.rules.serial, self.now);
        // A zone that is not signed yet gets signatures, and so another serial.
        let first = self.signer.is_some() && !is_signed(zone);
        let change = match change.is_empty() && first {
            true => next_version(zone, job.rules.serial, self.now),
            false => change,
        };
        if change.is_empty() {
            return Ok(None);
        }
        self.step(change).map(Some)
    }

    fn maintain(&mut self, order: &SignOrder) -> Result<Option<Arc<ChangeSet>>, KeepFault> {
        let Some(signer) = &mut self.signer else { return Ok(None) };
        let after = order.rules.serial.next(self.course.zone.serial(), self.now);
        match signer.maintain(&self.course.zone, order, after, self.now)? {
            Maintenance::Nothing => Ok(None),
            Maintenance::Step(step) => Ok(Some(self.take_step(step.zone, step.change))),
        }
    }
}

/// Returns the change of a zone to the next serial.
fn next_version(zone: &Zone, policy: SerialPolicy, now: UnixTime) -> ChangeSet {
    let next = policy.next(zone.serial(), now);
    with_serial(ChangeSet::default(), zone, zone, next, policy, now)
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
    /// Records that were in service and that the file does not have, one per line; without SOA and
    /// what the signer of a zone makes.
    pub dropped: Vec<String>,
    /// Number of such records that are not listed.
    pub more_dropped: usize,
}

impl TakenFile {
    pub(super) fn of(step: TakenStep, change: &ChangeSet) -> Self {
        let is_data = |rtype| rtype != Type::SOA && !is_signers(rtype);
        let mut gone = change.removed.iter().filter(|record| is_data(record.rtype));
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

#[cfg(test)]
mod tests {
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl};
    use zone::ZoneBuilder;

    use super::*;

    /// A store that fails in the middle leaves the jobs before, whatever they were.
    #[test]
    fn each_stored_step_of_a_signed_zone_begins_with_its_first_job() {
        let apex: NameBuf = "example.".parse().expect("a name");
        let zone = |address: u8| {
            let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
            let soa = [&[0, 0][..], &[0, 0, 0, 1], &[0; 16]].concat();
            builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(60), &soa).expect("added");
            builder.add(apex.as_name(), Type::NS, Ttl::from_secs(60), &[0]).expect("added");
            builder.add(apex.as_name(), Type::A, Ttl::from_secs(60), &[192, 0, 2, address]).expect("added");
            Arc::new(builder.finish().expect("a zone"))
        };
        let policy = Arc::new(signer::policy::DnssecPolicy::default());
        let signing = Arc::new(zone_plan::ZoneSigning {
            policy,
            parental_servers: Vec::new(),
            ds_push: zone_plan::DsPush::Off,
        });
        let rules = Arc::new(ZoneUpdates { signing: Some(Arc::clone(&signing)), ..ZoneUpdates::default() });
        let file = |address| {
            let (zone, rules) = (zone(address), Arc::clone(&rules));
            let apex = ZoneName::from(apex.as_name());
            let when = TakeWhen::Anyway;
            ChangeJob::File(Box::new(FileJob { apex, zone, file: None, rules, when, is_new: true }))
        };
        let folder = tempfile::tempdir().expect("a folder");
        let (apex, now) = (ZoneName::from(apex.as_name()), UnixTime::from_secs(1_800_000_000));
        let mut signer =
            ZoneSigner::open(folder.path(), &apex, signing, Default::default(), now).expect("a signer");
        let jobs = [file(1), file(1), file(2), file(3)];
        let course = Course::of(&zone(1), &jobs, Some(&mut signer), now).expect("a course");
        // The first job signs the zone, the second changes nothing.
        assert_eq!((course.steps.len(), course.changes().count()), (3, 3));
        let before = |number| course.jobs_before_change(number);
        assert_eq!([before(0), before(1), before(2), before(3)], [0, 2, 3, 4]);
    }
}
