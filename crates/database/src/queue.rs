//! What waits for the database: commits, zones to create and to remove, questions; and what is in flight.
//! Callers add to it on any thread; the thread `database` takes from it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use wire::ZoneName;

use crate::counts::DatabaseNode;
use crate::interface::{CommitEnd, DatabaseFault, NewZone, RecordedChange, ZoneCommit, ZoneId};

/// Most jobs that wait.
const MOST_WAITING: usize = 100_000;
/// Most commits that go together.
pub(crate) const MOST_IN_GROUP: usize = 1000;
/// Most records of the steps of commits that go together. A commit with more of them replaces its zone.
pub(crate) const MOST_GROUP_RECORDS: u64 = 20_000;

/// What is called with an end. If it is dropped before, as when a connection breaks, it is called with a
/// fault.
pub(crate) struct Reply<T> {
    call: Option<Box<dyn FnOnce(T) + Send>>,
    dropped: fn(DatabaseFault) -> T,
}

impl<T> Reply<T> {
    /// `dropped` makes the end from a fault.
    pub(crate) fn new(call: Box<dyn FnOnce(T) + Send>, dropped: fn(DatabaseFault) -> T) -> Self {
        Reply { call: Some(call), dropped }
    }

    /// Passes the end on.
    pub(crate) fn send(mut self, end: T) {
        if let Some(call) = self.call.take() {
            call(end);
        }
    }

    /// Passes a fault on.
    pub(crate) fn fail(self, fault: DatabaseFault) {
        let end = (self.dropped)(fault);
        self.send(end);
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call((self.dropped)(DatabaseFault::Unavailable("the connection was lost".into())));
        }
    }
}

/// The end of a commit that was not made.
pub(crate) fn failed_commit(fault: DatabaseFault) -> CommitEnd {
    match fault {
        DatabaseFault::Gone => CommitEnd::Gone,
        DatabaseFault::Refused(why) => CommitEnd::Refused(why),
        DatabaseFault::Unclear(why) => CommitEnd::Unclear(why),
        DatabaseFault::Unavailable(why) => CommitEnd::Unavailable(why),
        DatabaseFault::Exists => CommitEnd::Refused(fault.to_string()),
    }
}

/// Something to be changed in the database.
pub(crate) enum Job {
    Commit(Box<ZoneCommit>, Reply<CommitEnd>),
    Create(NewZone, Reply<Result<ZoneId, DatabaseFault>>),
    Remove(ZoneId, String, Reply<Result<(), DatabaseFault>>),
}

impl Job {
    /// Ends it with a fault.
    pub(crate) fn fail(self, fault: DatabaseFault) {
        match self {
            Self::Commit(_, end) => end.fail(fault),
            Self::Create(_, end) => end.fail(fault),
            Self::Remove(_, _, end) => end.fail(fault),
        }
    }

    /// When it was tried first.
    fn since(&self) -> Instant {
        match self {
            Self::Commit(commit, _) => commit.since,
            Self::Create(..) | Self::Remove(..) => Instant::now(),
        }
    }

    /// The zone that it is about, unless it is new.
    pub(crate) fn zone(&self) -> Option<ZoneId> {
        match self {
            Self::Commit(commit, _) => Some(commit.zone),
            Self::Create(..) => None,
            Self::Remove(zone, ..) => Some(*zone),
        }
    }
}

/// A job, and since when it waits.
pub(crate) struct Waiting {
    pub(crate) job: Job,
    pub(crate) since: Instant,
}

/// Jobs that were sent and have no answer yet.
pub(crate) struct InFlight {
    /// Marks their changes in the database.
    pub(crate) tag: i64,
    /// The session that they were sent on: process and start of it.
    pub(crate) session: (i32, String),
    /// The last change that was known before: theirs have later numbers.
    pub(crate) after: i64,
    pub(crate) jobs: Vec<Waiting>,
}

/// What is read in turn with the changes, so that content comes in order.
pub(crate) enum Reading {
    /// A whole zone again, for the sink.
    Fetch(ZoneId, ZoneName),
    /// What the database has instead of a commit.
    Conflict(Waiting),
}

/// A question.
pub(crate) enum Question {
    History(ZoneId, usize, Reply<Result<Vec<RecordedChange>, DatabaseFault>>),
    Nodes(Reply<Result<Vec<DatabaseNode>, DatabaseFault>>),
}

impl Question {
    pub(crate) fn fail(self, fault: DatabaseFault) {
        match self {
            Self::History(_, _, end) => end.fail(fault),
            Self::Nodes(end) => end.fail(fault),
        }
    }
}

/// Work for one statement or one transaction.
pub(crate) enum Work {
    /// Commits of different zones, which go together.
    Group(Vec<Waiting>),
    /// Anything else.
    One(Waiting),
}

/// Whether jobs wait for a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Gate {
    /// They wait: there is a connection, or the first attempt to make one has not ended.
    #[default]
    Open,
    /// They are refused, with the reason.
    Closed(String),
}

#[derive(Default)]
struct Waits {
    gate: Gate,
    jobs: VecDeque<Waiting>,
    readings: VecDeque<Reading>,
    questions: VecDeque<Question>,
    in_flight: Option<InFlight>,
}

/// All that waits.
#[derive(Default)]
pub(crate) struct Queue {
    waits: Mutex<Waits>,
    /// There is a job.
    pub(crate) has_job: Notify,
    /// There is something to read.
    pub(crate) has_reading: Notify,
    /// There is a question.
    pub(crate) has_question: Notify,
}

impl Queue {
    fn locked(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job, or ends it if jobs are refused.
    pub(crate) fn add(&self, job: Job) {
        let mut waits = self.locked();
        let refusal = match &waits.gate {
            Gate::Closed(why) => why.clone(),
            Gate::Open if waits.jobs.len() >= MOST_WAITING => format!("{MOST_WAITING} changes wait for it"),
            Gate::Open => {
                let since = job.since();
                waits.jobs.push_back(Waiting { job, since });
                drop(waits);
                return self.has_job.notify_one();
            }
        };
        drop(waits);
        job.fail(DatabaseFault::Unavailable(refusal));
    }

    /// Adds something to read. While there is no connection, a zone that is to be fetched is forgotten:
    /// after the next connection, all zones that differ are read.
    pub(crate) fn read(&self, reading: Reading) {
        let mut waits = self.locked();
        if let Gate::Open = waits.gate {
            waits.readings.push_back(reading);
            drop(waits);
            return self.has_reading.notify_one();
        }
        drop(waits);
        drop_reading(reading, "the connection was lost");
    }

    /// Adds a question, or ends it.
    pub(crate) fn ask(&self, question: Question) {
        let mut waits = self.locked();
        let refusal = match &waits.gate {
            Gate::Closed(why) => why.clone(),
            Gate::Open if waits.questions.len() >= MOST_WAITING => "too many questions wait for it".into(),
            Gate::Open => {
                waits.questions.push_back(question);
                drop(waits);
                return self.has_question.notify_one();
            }
        };
        drop(waits);
        question.fail(DatabaseFault::Unavailable(refusal));
    }

    /// From now on, jobs wait.
    pub(crate) fn open(&self) {
        self.locked().gate = Gate::Open;
    }

    /// Refuses all that waits and what comes, but not what is in flight.
    pub(crate) fn close(&self, why: &str) {
        let mut waits = self.locked();
        waits.gate = Gate::Closed(why.to_owned());
        let jobs = std::mem::take(&mut waits.jobs);
        drop(waits);
        for waiting in jobs {
            waiting.job.fail(DatabaseFault::Unavailable(why.to_owned()));
        }
        self.drop_questions(why);
    }

    /// From now on jobs are refused; those that wait are not.
    pub(crate) fn refuse_new(&self, why: &str) {
        self.locked().gate = Gate::Closed(why.to_owned());
    }

    /// Refuses questions and readings that wait.
    pub(crate) fn drop_questions(&self, why: &str) {
        let mut waits = self.locked();
        let (questions, readings) =
            (std::mem::take(&mut waits.questions), std::mem::take(&mut waits.readings));
        drop(waits);
        for question in questions {
            question.fail(DatabaseFault::Unavailable(why.to_owned()));
        }
        for reading in readings {
            drop_reading(reading, why);
        }
    }

    /// Refuses jobs that have waited this long.
    pub(crate) fn expire(&self, limit: Duration) {
        let mut waits = self.locked();
        let mut late = Vec::new();
        while waits.jobs.front().is_some_and(|first| first.since.elapsed() >= limit) {
            late.extend(waits.jobs.pop_front());
        }
        drop(waits);
        for waiting in late {
            waiting.job.fail(DatabaseFault::Unavailable(format!("no connection within {limit:?}")));
        }
    }

    /// Takes the next work: the first job, and with a commit all that can go together with it. Jobs of one
    /// zone keep their order.
    pub(crate) fn take_work(&self) -> Option<Work> {
        let mut waits = self.locked();
        let first = waits.jobs.pop_front()?;
        let mut records = match &first.job {
            Job::Commit(commit, _) if records_of(commit) <= MOST_GROUP_RECORDS => records_of(commit),
            _ => return Some(Work::One(first)),
        };
        let mut zones: HashSet<ZoneId> = first.job.zone().into_iter().collect();
        let mut group = vec![first];
        let mut rest = VecDeque::new();
        while group.len() < MOST_IN_GROUP
            && let Some(next) = waits.jobs.pop_front()
        {
            let is_free = next.job.zone().is_none_or(|zone| zones.insert(zone));
            match &next.job {
                Job::Commit(commit, _) if is_free && records + records_of(commit) <= MOST_GROUP_RECORDS => {
                    records += records_of(commit);
                    group.push(next);
                }
                _ => rest.push_back(next),
            }
        }
        while let Some(passed) = rest.pop_back() {
            waits.jobs.push_front(passed);
        }
        Some(Work::Group(group))
    }

    /// Takes the next thing to read.
    pub(crate) fn take_reading(&self) -> Option<Reading> {
        self.locked().readings.pop_front()
    }

    /// Takes the next question.
    pub(crate) fn take_question(&self) -> Option<Question> {
        self.locked().questions.pop_front()
    }

    /// Notes what is sent.
    pub(crate) fn sent(&self, in_flight: InFlight) {
        self.locked().in_flight = Some(in_flight);
    }

    /// Takes back what was sent.
    pub(crate) fn take_sent(&self) -> Option<InFlight> {
        self.locked().in_flight.take()
    }

    /// How many jobs wait or are in flight.
    pub(crate) fn count(&self) -> usize {
        let waits = self.locked();
        waits.jobs.len() + waits.in_flight.as_ref().map_or(0, |sent| sent.jobs.len())
    }
}

/// Ends a commit whose conflict is not read any more.
fn drop_reading(reading: Reading, why: &str) {
    if let Reading::Conflict(waiting) = reading {
        waiting.job.fail(DatabaseFault::Unavailable(format!(
            "another node changed the zone, and what it changed could not be read: {why}"
        )));
    }
}

/// Number of records of the steps of a commit.
pub(crate) fn records_of(commit: &ZoneCommit) -> u64 {
    commit.steps.iter().map(|step| step.change.record_count()).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::store::ChangeSet;
    use zone::{Zone, ZoneBuilder};

    use super::*;
    use crate::interface::CommitStep;

    fn zone() -> Arc<Zone> {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&b"\0\0"[..], &[0; 20]].concat();
        builder.add(apex.as_name(), wire::Type::SOA, wire::Ttl::from_secs(1), &soa).expect("an SOA");
        Arc::new(builder.finish().expect("a zone"))
    }

    /// A commit of a zone whose step has this many records.
    fn commit(id: i64, records: usize) -> (Job, Receiver<CommitEnd>) {
        let (done, end) = channel();
        let mut change = ChangeSet::default();
        let owner: NameBuf = "example.".parse().expect("a name");
        for _ in 0..records {
            change.added.push(owner.as_name(), wire::Type::A, wire::Ttl::from_secs(1), &[192, 0, 2, 1]);
        }
        let content = zone();
        let commit = ZoneCommit {
            zone: ZoneId(id),
            apex: content.apex().into(),
            before: Arc::clone(&content),
            after: content,
            steps: vec![CommitStep { change: Arc::new(change), author: String::new() }],
            keys: None,
            since: Instant::now(),
        };
        let send = move |end| {
            let _ = done.send(end);
        };
        (Job::Commit(Box::new(commit), Reply::new(Box::new(send), failed_commit)), end)
    }

    fn removal(id: i64) -> Job {
        Job::Remove(ZoneId(id), String::new(), Reply::new(Box::new(|_| {}), Err))
    }

    /// The zones of the next work; whether it is a group.
    fn taken(queue: &Queue) -> Option<(bool, Vec<i64>)> {
        let zones =
            |jobs: &[Waiting]| jobs.iter().filter_map(|waiting| Some(waiting.job.zone()?.0)).collect();
        Some(match queue.take_work()? {
            Work::Group(jobs) => (true, zones(&jobs)),
            Work::One(waiting) => (false, zones(&[waiting])),
        })
    }

    #[test]
    fn commits_of_different_zones_go_together_and_those_of_one_zone_in_order() {
        let queue = Queue::default();
        for id in [1, 2, 1, 3] {
            queue.add(commit(id, 1).0);
        }
        queue.add(removal(3));
        queue.add(commit(3, 1).0);
        queue.add(commit(4, 1).0);
        assert_eq!(taken(&queue), Some((true, vec![1, 2, 3, 4])));
        assert_eq!(taken(&queue), Some((true, vec![1])), "the commit of zone 3 waits for the removal");
        assert_eq!(taken(&queue), Some((false, vec![3])));
        assert_eq!(taken(&queue), Some((true, vec![3])));
        assert_eq!(taken(&queue), None);
    }

    #[test]
    fn large_commits_go_alone_and_groups_are_bounded() {
        let queue = Queue::default();
        let many = MOST_GROUP_RECORDS as usize;
        for (id, records) in [(1, many + 1), (2, many - 1), (3, 2), (4, 1)] {
            queue.add(commit(id, records).0);
        }
        assert_eq!(taken(&queue), Some((false, vec![1])));
        assert_eq!(taken(&queue), Some((true, vec![2, 4])));
        assert_eq!(taken(&queue), Some((true, vec![3])));
    }

    #[test]
    fn what_is_dropped_has_an_end() {
        let (job, end) = commit(1, 1);
        drop(job);
        assert!(matches!(end.recv(), Ok(CommitEnd::Unavailable(_))));
        let (job, end) = commit(1, 1);
        job.fail(DatabaseFault::Gone);
        assert!(matches!(end.recv(), Ok(CommitEnd::Gone)));
        assert!(end.recv().is_err(), "one end only");
    }

    #[test]
    fn jobs_are_refused_without_a_database() {
        let queue = Queue::default();
        let (waits, waited) = commit(1, 1);
        queue.add(waits);
        queue.expire(Duration::from_secs(60));
        assert_eq!(queue.count(), 1);
        queue.close("it is down");
        assert!(matches!(waited.recv(), Ok(CommitEnd::Unavailable(why)) if why == "it is down"));
        let (comes, came) = commit(1, 1);
        queue.add(comes);
        assert!(matches!(came.recv(), Ok(CommitEnd::Unavailable(_))));
        queue.open();
        let (late, lately) = commit(1, 1);
        queue.add(late);
        queue.expire(Duration::ZERO);
        assert!(matches!(lately.recv(), Ok(CommitEnd::Unavailable(why)) if why.contains("no connection")));
    }
}
