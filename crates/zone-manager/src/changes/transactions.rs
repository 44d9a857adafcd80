//! Transactions: an operator begins one on a zone, sets and unsets records in it, reads the difference, and
//! commits or aborts it. It is not in service before the commit. A commit is one change of the zone, made by
//! the thread that makes all others.
//!
//! A transaction is a version of the zone beside the one in service, and shares the unchanged parts with it.
//! Their number, their size and their idle time are limited.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde::Serialize;
use update::{is_signed, is_signers};
use wire::rdata::view::Soa;
use wire::{NameBuf, Ttl, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::store::{ChangeError, ChangeSet, diff_names};
use zone_plan::ZoneUpdates;

use super::group::TakenStep;
use super::rrsets::{extended, put_difference, records, ttl_beside, without};
use super::serials::with_serial;
use crate::shown_change::IgnoredParts;
use telemetry::repeated::log_repeated;
use threads::sync::lock;

/// Limits of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransactionBounds {
    /// Most transactions open at a time.
    pub most: usize,
    /// Most bytes of the records that are set and unset in one transaction.
    pub bytes: usize,
    /// Longest idle time of an open transaction.
    pub idle: Duration,
}

/// Why a step of a transaction failed. The transaction is unchanged.
#[derive(Debug)]
pub enum TransactionFault {
    /// The zone has no transaction.
    NotOpen,
    /// The zone has a transaction already.
    Open,
    /// The limit of open transactions, given here, is reached.
    TooMany(usize),
    /// The transaction would exceed this limit in bytes.
    TooLarge(usize),
    /// The transaction is being committed.
    Committing,
    /// The zone is frozen.
    Frozen,
    /// The zone is signed by another program.
    Signed,
    /// Records of this type are made by the signer of a zone.
    SignersType(Type),
    /// All records at the apex would be removed.
    ZoneName,
    /// The records to remove do not exist.
    NotThere(Box<NameBuf>, Option<Type>),
    /// The result would not be a valid zone.
    Unfit(ChangeError),
    /// The transaction's names have changed in the zone since it was begun, by this change.
    Conflict(Box<ChangeSet>),
    /// The change cannot be stored, for this reason.
    NotKept(String),
    /// The thread that changes zones does not reply.
    Busy,
}

impl fmt::Display for TransactionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen => {
                f.write_str("the zone has no transaction: `begin` opens one, and an unused one is dropped")
            }
            Self::Open => f.write_str("the zone already has a transaction: `commit` or `abort` it"),
            Self::TooMany(most) => {
                write!(f, "{most} transactions are open, as many as `transactions` of [updates] says")
            }
            Self::TooLarge(most) => {
                write!(
                    f,
                    "the transaction would have more than {most} bytes of records, `transaction-size` of \
                     [updates]"
                )
            }
            Self::Committing => f.write_str("the transaction is being committed"),
            Self::Frozen => f.write_str("the zone is frozen"),
            Self::Signed => {
                f.write_str("the zone is signed elsewhere, and a change would make its signatures invalid")
            }
            Self::SignersType(rtype) => write!(f, "records of type {rtype} are made by the signer of a zone"),
            Self::ZoneName => {
                f.write_str("the zone's own name cannot be without records: name the type to delete")
            }
            Self::NotThere(owner, Some(rtype)) => write!(f, "{owner} {rtype}: there is no such record"),
            Self::NotThere(owner, None) => write!(f, "{owner}: there are no records"),
            Self::Unfit(error) => error.fmt(f),
            Self::Conflict(_) => {
                f.write_str("records of the transaction have changed in the zone since `begin`")
            }
            Self::NotKept(why) => f.write_str(why),
            Self::Busy => f.write_str("the thread that changes zones does not answer"),
        }
    }
}
impl std::error::Error for TransactionFault {}

/// A record to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRecord {
    /// The owner.
    pub owner: NameBuf,
    /// The type.
    pub rtype: Type,
    /// The TTL; `None`: that of the RRset, or else that of the SOA.
    pub ttl: Option<Ttl>,
    /// The data, uncompressed.
    pub rdata: Vec<u8>,
}

/// Records to unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetRecords {
    /// Their owner.
    pub owner: NameBuf,
    /// Their type; `None`: all.
    pub rtype: Option<Type>,
    /// The data of one record; `None`: all of the type.
    pub rdata: Option<Vec<u8>>,
}

/// State of an open transaction, for operators.
#[derive(Debug, Clone, Serialize)]
pub struct OpenTransaction {
    /// The serial number of the version that the transaction began with.
    pub serial: u32,
    /// Number of names that were changed.
    pub names: usize,
    /// Bytes of the records that were set and unset.
    pub bytes: usize,
    /// Seconds since its last use.
    pub idle: u64,
}

/// The result of a transaction so far.
#[derive(Clone)]
pub(super) struct Work {
    /// The version that the transaction began with.
    pub(super) base: Arc<Zone>,
    /// That version with all steps applied.
    pub(super) version: Arc<Zone>,
    /// The names that were changed.
    pub(super) names: BTreeSet<NameBuf>,
}

impl Work {
    /// Returns the difference to the version that the transaction began with. Of a signed zone, it has no
    /// records that signing makes.
    pub(super) fn difference(&self) -> ChangeSet {
        let change = diff_names(&self.base, &self.version, self.names.iter().map(NameBuf::as_name));
        IgnoredParts { serial: false, dnssec: is_signed(&self.base) }.without(&change)
    }

    /// Returns the change that the transaction makes to the newest version, with the next serial number;
    /// `None` if it changes nothing.
    ///
    /// # Errors
    /// [`TransactionFault::Conflict`].
    pub(super) fn change_of(
        &self,
        newest: &Zone,
        rules: &ZoneUpdates,
        now: UnixTime,
    ) -> Result<Option<ChangeSet>, TransactionFault> {
        // Each change has a new serial number, and signatures are renewed, which is no conflict.
        let ignored = IgnoredParts { serial: true, dnssec: is_signed(&self.base) };
        let names = self.names.iter().map(NameBuf::as_name);
        let meanwhile = ignored.without(&diff_names(&self.base, newest, names));
        if !meanwhile.is_empty() {
            return Err(TransactionFault::Conflict(Box::new(meanwhile)));
        }
        let touches_apex = self.names.iter().any(|name| name.as_name() == newest.apex().as_name());
        let soa_of = if touches_apex { &*self.version } else { newest };
        let wanted = if self.sets_serial() { self.version.serial() } else { newest.serial() };
        let change = with_serial(self.difference(), newest, soa_of, wanted, rules.serial, now);
        Ok(Some(change).filter(|change| !change.is_empty()))
    }

    /// Returns the change that adds a record, or replaces the one of a type that has one record per name. The
    /// whole RRset gets its TTL (RFC 2181 §5.2).
    fn setting(&self, record: &SetRecord) -> Result<ChangeSet, TransactionFault> {
        let SetRecord { owner, rtype, ttl, rdata } = record;
        if is_signers(*rtype) {
            return Err(TransactionFault::SignersType(*rtype));
        }
        let old = records(&self.version, owner.as_name(), *rtype);
        let ttl = ttl.unwrap_or_else(|| ttl_beside(&self.version, &old));
        let new = extended(*rtype, &old, ttl, [rdata]);
        let mut change = self.nothing();
        if let (Type::SOA, Some((_, soa))) = (*rtype, new.last()) {
            // The zone refuses a malformed SOA.
            change.after = Soa::read(soa).map_or(change.after, |soa| soa.numbers.serial);
        }
        put_difference(&mut change, owner, *rtype, &old, &new);
        Ok(change)
    }

    /// Returns the change that removes some records.
    fn unsetting(&self, records_of: &UnsetRecords) -> Result<ChangeSet, TransactionFault> {
        let UnsetRecords { owner, rtype, rdata } = records_of;
        let types: Vec<Type> = match rtype {
            Some(rtype) if is_signers(*rtype) => return Err(TransactionFault::SignersType(*rtype)),
            Some(rtype) => vec![*rtype],
            None if owner.as_name() == self.version.apex().as_name() => {
                return Err(TransactionFault::ZoneName);
            }
            None => {
                let node = self.version.find_name(owner.as_name());
                node.iter().flat_map(|node| node.rrsets()).map(|set| set.rtype()).collect()
            }
        };
        let mut change = self.nothing();
        for of_type in types {
            let old = records(&self.version, owner.as_name(), of_type);
            let left = rdata.as_ref().map(|rdata| without(of_type, &old, std::slice::from_ref(rdata)));
            put_difference(&mut change, owner, of_type, &old, &left.unwrap_or_default());
        }
        if change.removed.is_empty() {
            return Err(TransactionFault::NotThere(Box::new(*owner), *rtype));
        }
        Ok(change)
    }

    /// Whether the transaction sets a serial number.
    pub(super) fn sets_serial(&self) -> bool {
        self.version.serial() != self.base.serial()
    }

    fn nothing(&self) -> ChangeSet {
        let serial = self.version.serial();
        ChangeSet { before: serial, after: serial, ..ChangeSet::default() }
    }
}

/// Returns the result of a transaction that sets an address.
#[cfg(test)]
pub(super) fn work_with(base: &Arc<Zone>, owner: &str, address: [u8; 4]) -> Work {
    let owner: NameBuf = owner.parse().expect("a name");
    let mut work = Work { base: Arc::clone(base), version: Arc::clone(base), names: BTreeSet::from([owner]) };
    let record = SetRecord { owner, rtype: Type::A, ttl: None, rdata: address.to_vec() };
    let change = work.setting(&record).expect("a change");
    work.version = Arc::new(base.apply(&change).expect("a version"));
    work
}

/// Returns the size of the records of a change in bytes.
fn bytes_of(change: &ChangeSet) -> usize {
    let records = change.removed.iter().chain(change.added.iter());
    records.map(|record| record.owner.len() + 10 + record.rdata.len()).sum()
}

/// An open transaction.
struct Transaction {
    work: Work,
    bytes: usize,
    used: Instant,
    committing: bool,
}

/// All open transactions.
#[derive(Default)]
pub(super) struct Transactions {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    zones: HashMap<ZoneName, Transaction>,
    /// Whether a thread drops idle transactions.
    watched: bool,
}

impl Transactions {
    /// Opens a transaction on a version of a zone. Returns whether the caller must start
    /// [`watch`](Self::watch) on a thread.
    pub(super) fn begin(
        &self,
        apex: &ZoneName,
        base: &Arc<Zone>,
        bounds: TransactionBounds,
        now: Instant,
    ) -> Result<bool, TransactionFault> {
        let mut open = lock(&self.open);
        drop_idle(&mut open, bounds.idle, now);
        if open.zones.contains_key(apex) {
            return Err(TransactionFault::Open);
        }
        if open.zones.len() >= bounds.most {
            return Err(TransactionFault::TooMany(bounds.most));
        }
        let work = Work { base: Arc::clone(base), version: Arc::clone(base), names: BTreeSet::new() };
        open.zones.insert(apex.clone(), Transaction { work, bytes: 0, used: now, committing: false });
        Ok(!std::mem::replace(&mut open.watched, true))
    }

    /// Drops idle transactions until none is open: the body of a thread.
    pub(super) fn watch(&self, idle: impl Fn() -> Duration) {
        loop {
            let idle = idle();
            let next = {
                let mut open = lock(&self.open);
                drop_idle(&mut open, idle, Instant::now());
                open.watched = !open.zones.is_empty();
                match open.zones.values().map(|transaction| transaction.used).min() {
                    Some(used) => (used + idle).saturating_duration_since(Instant::now()),
                    None => return,
                }
            };
            std::thread::sleep(next.max(Duration::from_millis(100)));
        }
    }

    /// Reports that no thread could be started for [`watch`](Self::watch).
    pub(super) fn unwatched(&self) {
        lock(&self.open).watched = false;
    }

    /// Sets a record. Returns the change.
    pub(super) fn set(
        &self,
        apex: &ZoneName,
        record: &SetRecord,
        bounds: TransactionBounds,
        now: Instant,
    ) -> Result<ChangeSet, TransactionFault> {
        self.step(apex, &record.owner, bounds, now, |work| work.setting(record))
    }

    /// Unsets records. Returns the change.
    pub(super) fn unset(
        &self,
        apex: &ZoneName,
        records: &UnsetRecords,
        bounds: TransactionBounds,
        now: Instant,
    ) -> Result<ChangeSet, TransactionFault> {
        self.step(apex, &records.owner, bounds, now, |work| work.unsetting(records))
    }

    fn step(
        &self,
        apex: &ZoneName,
        owner: &NameBuf,
        bounds: TransactionBounds,
        now: Instant,
        step: impl Fn(&Work) -> Result<ChangeSet, TransactionFault>,
    ) -> Result<ChangeSet, TransactionFault> {
        let mut open = lock(&self.open);
        let transaction = usable(&mut open, apex, bounds.idle, now)?;
        let change = step(&transaction.work)?;
        if change.is_empty() {
            return Ok(change);
        }
        let bytes = transaction.bytes + bytes_of(&change);
        if bytes > bounds.bytes {
            return Err(TransactionFault::TooLarge(bounds.bytes));
        }
        let version = transaction.work.version.apply(&change).map_err(TransactionFault::Unfit)?;
        transaction.work.version = Arc::new(version);
        transaction.work.names.insert(*owner);
        transaction.bytes = bytes;
        Ok(change)
    }

    /// Returns the result of a transaction so far.
    pub(super) fn work(
        &self,
        apex: &ZoneName,
        bounds: TransactionBounds,
        now: Instant,
    ) -> Result<Work, TransactionFault> {
        Ok(usable(&mut lock(&self.open), apex, bounds.idle, now)?.work.clone())
    }

    /// Commits a transaction with `commit`, and returns its result. A committed transaction is closed.
    pub(super) fn commit(
        &self,
        apex: &ZoneName,
        bounds: TransactionBounds,
        now: Instant,
        commit: impl FnOnce(Work) -> CommitEnd,
    ) -> CommitEnd {
        let work = {
            let mut open = lock(&self.open);
            let transaction = usable(&mut open, apex, bounds.idle, now)?;
            transaction.committing = true;
            transaction.work.clone()
        };
        let end = commit(work);
        let mut open: MutexGuard<'_, Open> = lock(&self.open);
        if end.is_ok() {
            open.zones.remove(apex);
        } else if let Some(transaction) = open.zones.get_mut(apex) {
            transaction.committing = false;
        }
        end
    }

    /// Drops a transaction.
    pub(super) fn abort(&self, apex: &ZoneName) -> Result<(), TransactionFault> {
        let mut open = lock(&self.open);
        match open.zones.get(apex) {
            None => Err(TransactionFault::NotOpen),
            Some(transaction) if transaction.committing => Err(TransactionFault::Committing),
            Some(_) => {
                open.zones.remove(apex);
                Ok(())
            }
        }
    }

    /// Drops the transaction of a zone that does not exist any more.
    pub(super) fn forget(&self, apex: &ZoneName) {
        lock(&self.open).zones.remove(apex);
    }

    /// State of a transaction, for operators.
    pub(super) fn status(&self, apex: &ZoneName, now: Instant) -> Option<OpenTransaction> {
        let open = lock(&self.open);
        let Transaction { work, bytes, used, .. } = open.zones.get(apex)?;
        let idle = now.saturating_duration_since(*used).as_secs();
        Some(OpenTransaction { serial: work.base.serial().0, names: work.names.len(), bytes: *bytes, idle })
    }
}

/// Returns the transaction of a zone, and resets its idle time.
fn usable<'o>(
    open: &'o mut Open,
    apex: &ZoneName,
    idle: Duration,
    now: Instant,
) -> Result<&'o mut Transaction, TransactionFault> {
    drop_idle(open, idle, now);
    let transaction = open.zones.get_mut(apex).ok_or(TransactionFault::NotOpen)?;
    if transaction.committing {
        return Err(TransactionFault::Committing);
    }
    transaction.used = now;
    Ok(transaction)
}

/// Drops transactions that have been idle for `idle`.
fn drop_idle(open: &mut Open, idle: Duration, now: Instant) {
    open.zones.retain(|apex, transaction| {
        let is_idle = now.saturating_duration_since(transaction.used) >= idle && !transaction.committing;
        if is_idle {
            let name = apex.as_name();
            log_repeated!(
                warn,
                WARN,
                ("transaction dropped", &name.to_string()),
                "zone {name}: its transaction is dropped, it has not been used for {} s",
                idle.as_secs()
            );
        }
        !is_idle
    });
}

/// Result of a commit: the figures of the change; `None` if nothing changed.
pub(super) type CommitEnd = Result<Option<TakenStep>, TransactionFault>;

/// A commit to run on the thread that changes zones.
pub(super) struct CommitOrder {
    pub(super) work: Work,
    pub(super) rules: Arc<ZoneUpdates>,
    pub(super) reply: super::Reply<CommitEnd>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::group::{ChangeJob, Course, Decided};
    use proptest::prelude::*;
    use std::ops::ControlFlow;
    use wire::hash::HashKey;
    use zone::LoadConfig;
    use zone::scan::TextSource;
    use zone::store::diff;

    const BOUNDS: TransactionBounds =
        TransactionBounds { most: 2, bytes: 100_000, idle: Duration::from_secs(600) };

    fn zone(more: &str) -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let text = format!("$TTL 60\n@ SOA ns1 admin 7 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n{more}");
        let (key, source) = (HashKey::random(), TextSource::bytes("test", text.as_bytes()));
        let config = LoadConfig::default();
        let loaded = zone::load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
        Arc::new(loaded.expect("a zone").zone)
    }

    fn apex(name: &str) -> ZoneName {
        name.parse::<NameBuf>().expect("a name").as_name().into()
    }

    fn address(owner: &str, last: u8) -> SetRecord {
        let owner = owner.parse().expect("a name");
        SetRecord { owner, rtype: Type::A, ttl: None, rdata: vec![192, 0, 2, last] }
    }

    #[test]
    fn so_many_are_open_for_so_long() {
        let (all, begun, base) = (Transactions::default(), Instant::now(), zone(""));
        let at = |seconds| begun + Duration::from_secs(seconds);
        let [a, b, c] = ["a.", "b.", "c."].map(apex);
        assert!(matches!(all.begin(&a, &base, BOUNDS, at(0)), Ok(true)));
        assert!(matches!(all.begin(&b, &base, BOUNDS, at(300)), Ok(false)), "it is watched already");
        assert!(matches!(all.begin(&b, &base, BOUNDS, at(300)), Err(TransactionFault::Open)));
        assert!(matches!(all.begin(&c, &base, BOUNDS, at(300)), Err(TransactionFault::TooMany(2))));
        assert!(all.set(&a, &address("a.example.", 1), BOUNDS, at(599)).is_ok());
        // Each use restarts the idle time.
        assert!(all.work(&a, BOUNDS, at(1198)).is_ok());
        assert!(matches!(all.work(&b, BOUNDS, at(1198)), Err(TransactionFault::NotOpen)));
        assert!(all.begin(&c, &base, BOUNDS, at(1198)).is_ok());
        assert!(matches!(all.work(&a, BOUNDS, at(1798)), Err(TransactionFault::NotOpen)));
        assert!(all.begin(&a, &base, BOUNDS, at(1798)).is_ok());
        let small = TransactionBounds { bytes: 30, ..BOUNDS };
        assert!(all.set(&a, &address("a.example.", 1), small, at(1798)).is_ok());
        let second = all.set(&a, &address("b.example.", 1), small, at(1798));
        assert!(matches!(second, Err(TransactionFault::TooLarge(30))));
    }

    #[test]
    fn one_that_is_being_committed_is_not_changed_and_one_that_failed_stays() {
        let (all, now, base, a) = (Transactions::default(), Instant::now(), zone(""), apex("a."));
        all.begin(&a, &base, BOUNDS, now).expect("opened");
        let failed = all.commit(&a, BOUNDS, now, |_| {
            let set = all.set(&a, &address("a.example.", 1), BOUNDS, now);
            assert!(matches!(set, Err(TransactionFault::Committing)));
            assert!(matches!(all.abort(&a), Err(TransactionFault::Committing)));
            Err(TransactionFault::Frozen)
        });
        assert!(matches!(failed, Err(TransactionFault::Frozen)));
        assert!(all.set(&a, &address("a.example.", 1), BOUNDS, now).is_ok());
        assert!(matches!(all.commit(&a, BOUNDS, now, |_| Ok(None)), Ok(None)));
        assert!(matches!(all.abort(&a), Err(TransactionFault::NotOpen)));
    }

    #[test]
    fn commits_that_come_together_are_compared_with_each_other() {
        let (base, now) = (zone(""), Instant::now());
        // The second job changes a name that the first has changed since the transaction began.
        let jobs: Vec<ChangeJob> = ["a.example.", "a.example.", "b.example."]
            .iter()
            .zip(1..)
            .map(|(owner, last)| {
                let (all, apex) = (Transactions::default(), apex("example."));
                all.begin(&apex, &base, BOUNDS, now).expect("begun");
                all.set(&apex, &address(owner, last), BOUNDS, now).expect("set");
                let work = all.work(&apex, BOUNDS, now).expect("open");
                let (reply, _) = std::sync::mpsc::sync_channel(1);
                ChangeJob::Commit(Box::new(CommitOrder { work, rules: Arc::default(), reply }))
            })
            .collect();
        let course = Course::of(&base, &jobs, None, UnixTime::EPOCH).expect("a version");
        let ends: Vec<String> = course.decided.iter().map(in_words).collect();
        assert_eq!(ends, ["7 to 8", "conflict", "8 to 9"]);
        assert_eq!((course.zone.serial().0, course.steps.len(), course.changes().count()), (9, 2, 2));
        assert_eq!(course.zone.record_count(), base.record_count() + 2);
        // The first of two changes is stored: two jobs are before the second one.
        assert_eq!((course.jobs_before_change(1), course.jobs_before_change(2)), (2, 3));
    }

    fn in_words(decided: &Decided) -> String {
        match decided {
            Decided::Commit(Ok(Some((change, _)))) => format!("{} to {}", change.before, change.after),
            Decided::Commit(Err(TransactionFault::Conflict(_))) => "conflict".into(),
            _ => "otherwise".into(),
        }
    }

    #[test]
    fn the_difference_of_a_signed_zone_has_no_records_of_the_signer() {
        let signed =
            zone("@ RRSIG SOA 13 1 60 20300101000000 20200101000000 1 @ c2ln\na A 192.0.2.1\na NSEC @ A\n");
        let (all, now, of) = (Transactions::default(), Instant::now(), apex("example."));
        all.begin(&of, &signed, BOUNDS, now).expect("opened");
        let owner: NameBuf = "a.example.".parse().expect("a name");
        all.unset(&of, &UnsetRecords { owner, rtype: None, rdata: None }, BOUNDS, now).expect("unset");
        let change = all.work(&of, BOUNDS, now).expect("work").difference();
        let removed: Vec<Type> = change.removed.iter().map(|record| record.rtype).collect();
        assert_eq!((removed, change.added.len()), (vec![Type::A], 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        #[test]
        fn the_difference_leads_from_the_one_version_to_the_other_and_has_no_more_than_differs(
            steps in prop::collection::vec((any::<bool>(), 0..4usize, 0..4usize, 0..3u8, prop::option::of(0..3u32)), 1..30),
        ) {
            let base = zone("a A 192.0.2.1\na A 192.0.2.2\nb.a TXT x\nc CNAME a\n");
            let (all, now, of) = (Transactions::default(), Instant::now(), apex("example."));
            all.begin(&of, &base, BOUNDS, now).expect("opened");
            for (sets, owner, rtype, data, ttl) in steps {
                let owner: NameBuf = ["example.", "a.example.", "B.a.example.", "c.example."][owner].parse().expect("a name");
                let (rtype, rdata) = match rtype {
                    0 => (Type::A, vec![192, 0, 2, data]),
                    1 => (Type::TXT, vec![1, b'x' + data]),
                    2 => (Type::CNAME, vec![1, b'x' + data, 0]),
                    _ => (Type::NS, vec![1, b'x' + data, 0]),
                };
                // Some steps are refused, and change nothing.
                let _ = match (sets, data) {
                    (true, _) => all.set(&of, &SetRecord { owner, rtype, ttl: ttl.map(Ttl::from_secs), rdata }, BOUNDS, now),
                    (false, 0) => all.unset(&of, &UnsetRecords { owner, rtype: None, rdata: None }, BOUNDS, now),
                    (false, 1) => all.unset(&of, &UnsetRecords { owner, rtype: Some(rtype), rdata: None }, BOUNDS, now),
                    _ => all.unset(&of, &UnsetRecords { owner, rtype: Some(rtype), rdata: Some(rdata) }, BOUNDS, now),
                };
            }
            let work = all.work(&of, BOUNDS, now).expect("open");
            let difference = work.difference();
            prop_assert_eq!(&difference, &diff(&base, &work.version));
            let made = base.apply(&difference).expect("a version");
            prop_assert!(diff(&made, &work.version).is_empty());
        }
    }
}
