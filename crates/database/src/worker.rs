//! The thread `database`: connects, follows, commits and answers questions while the connections hold, and
//! connects again.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};
use tracing::{error, info, warn};

use crate::connect::{Link, LinkUse, ServerPlace, Timeline, connect_any, connect_to};
use crate::follow::Follower;
use crate::interface::{CommitEnd, DatabaseFault, NewZone, ZoneCommit, ZoneId};
use crate::progress::Progress;
use crate::queue::{InFlight, Job, Question, Reading, Waiting, Work};
use crate::read::{history, nodes};
use crate::schema;
use crate::shared::Shared;
use crate::write::{EndFound, Found, Outcome, WriteFault, Writer, end_found, find_out, payload, random_tag};

/// Bounds of the wait before another attempt to connect.
pub(crate) const SHORTEST_BACK_OFF: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);
/// How often jobs are looked at that wait for a connection.
const EXPIRE_EVERY: Duration = Duration::from_millis(100);
/// How often commits are tried that other transactions are in the way of.
const MOST_TRIES: usize = 5;
/// Why jobs are refused at the end.
pub(crate) const STOPPING: &str = "the server stops";

/// Both connections of a session, to the same server.
struct Links {
    reader: Link,
    writer: Link,
    place: ServerPlace,
}

/// Jobs whose connection broke before the answer.
struct Lost {
    sent: InFlight,
    why: String,
    deadline: Instant,
}

/// Runs until it is stopped.
pub(crate) async fn work(shared: &Arc<Shared>) {
    let mut progress = Progress::open(shared.settings.state.as_deref());
    let mut lost: Option<Lost> = None;
    let mut back_off = SHORTEST_BACK_OFF;
    let mut stop = shared.stop.subscribe();
    let mut fault = String::new();
    while !*stop.borrow() {
        let opened = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            opened = open_in_time(shared, &mut lost, progress.at.timeline.clone()) => opened,
        };
        match opened {
            Err(why) => {
                shared.queue.close(&why);
                note_fault(shared, &why, &mut fault);
            }
            Ok(links) => {
                if let Some(lost) = lost.take() {
                    settle(shared, &links.reader, lost).await;
                }
                connected(shared, &links.reader, &links.place);
                fault.clear();
                progress.at.timeline = links.reader.timeline.clone().or(progress.at.timeline.take());
                progress.save();
                let mut was_current = false;
                let why = session(shared, &links, &mut progress, &mut stop, &mut was_current).await;
                progress.save();
                let deadline = Instant::now() + shared.settings.timeout;
                lost = shared.queue.take_sent().map(|sent| Lost { sent, why: why.clone(), deadline });
                if *stop.borrow() {
                    break;
                }
                shared.queue.drop_questions(&why);
                note_fault(shared, &why, &mut fault);
                if was_current {
                    back_off = SHORTEST_BACK_OFF;
                }
            }
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = sleep(back_off) => {}
        }
        back_off = (back_off * 2).min(LONGEST_BACK_OFF);
    }
    // What is in flight now has waited for its timeout.
    if let Some(Lost { sent, why, .. }) = lost {
        end_lost(shared, sent, &Found::Unknown(STOPPING.into()), &why);
    }
}

/// Ends all that waits when the thread ends, even by a panic.
pub(crate) struct AtEnd<'s>(pub(crate) &'s Shared);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.queue.close(STOPPING);
        if let Some(sent) = self.0.queue.take_sent() {
            end_lost(self.0, sent, &Found::Unknown(STOPPING.into()), "no answer came");
        }
        self.0.note(|status| (status.connected, status.signs) = (false, false));
    }
}

/// Notes that the connection broke or could not be made, and logs it if the reason is new.
pub(crate) fn note_fault(shared: &Shared, why: &str, known: &mut String) {
    shared.counts.faults.fetch_add(1, Relaxed);
    shared.note(|status| {
        if status.connected || status.since.is_none() {
            status.since = Some(SystemTime::now());
        }
        status.connected = false;
        status.fault = Some(why.to_owned());
    });
    if known != why {
        warn!(
            "the database {} is not available, zones are served from memory and not changed: {why}",
            shared.settings.url
        );
        known.clear();
        known.push_str(why);
        shared.sink.reached(false, Some(why));
    }
}

/// Notes a connection.
pub(crate) fn connected(shared: &Shared, link: &Link, place: &ServerPlace) {
    shared.counts.connects.fetch_add(1, Relaxed);
    let (place, server) = (place.to_string(), link.server.clone());
    info!("connected to the database at {place}, PostgreSQL {server}");
    shared.note(|status| {
        (status.connected, status.since, status.fault) = (true, Some(SystemTime::now()), None);
        (status.host, status.server) = (Some(place), Some(server));
    });
    shared.queue.open();
    shared.sink.reached(true, None);
}

/// Connects; refuses what has waited too long meanwhile.
async fn open_in_time(
    shared: &Arc<Shared>,
    lost: &mut Option<Lost>,
    newest: Option<Timeline>,
) -> Result<Links, String> {
    let limit = shared.settings.timeout;
    let late = lost.as_ref().map(|lost| lost.deadline);
    let expiring = async {
        loop {
            sleep(EXPIRE_EVERY).await;
            shared.queue.expire(limit);
        }
    };
    let opening = open(shared, newest);
    tokio::pin!(opening, expiring);
    let until_late = sleep_until(late.unwrap_or_else(Instant::now).into());
    tokio::select! {
        opened = &mut opening => return opened,
        () = &mut expiring => {}
        () = until_late, if late.is_some() => {}
    }
    if let Some(Lost { sent, why, .. }) = lost.take() {
        end_lost(shared, sent, &Found::Unknown(format!("no new connection within {limit:?}")), &why);
    }
    tokio::select! {
        opened = &mut opening => opened,
        () = &mut expiring => Err(String::new()),
    }
}

async fn open(shared: &Arc<Shared>, newest: Option<Timeline>) -> Result<Links, String> {
    let settings = &shared.settings;
    let (reader, place) = connect_any(settings, LinkUse::Read, newest.as_ref()).await?;
    schema::is_usable(&reader.client).await?;
    let writer =
        connect_to(settings, &place, LinkUse::Write).await.map_err(|why| format!("{place}: {why}"))?;
    Ok(Links { reader, writer, place })
}

/// Runs all that needs a connection until it breaks, and returns why.
async fn session(
    shared: &Arc<Shared>,
    links: &Links,
    progress: &mut Progress,
    stop: &mut watch::Receiver<bool>,
    was_current: &mut bool,
) -> String {
    let follower = Follower::new(shared, &links.reader, progress);
    let following = follower.run(|| *was_current = true);
    let ending = async {
        let _ = stop.wait_for(|stop| *stop).await;
        // No new jobs; those that wait have this long.
        shared.queue.refuse_new(STOPPING);
        shared.queue.has_job.notify_one();
        sleep(shared.settings.timeout).await;
    };
    tokio::select! {
        why = following => why,
        why = commit_all(shared, &links.writer) => why,
        why = answer_all(shared, &links.reader) => why,
        () = ending => STOPPING.into(),
    }
}

/// Answers questions.
async fn answer_all(shared: &Arc<Shared>, link: &Link) -> String {
    loop {
        let Some(question) = shared.queue.take_question() else {
            shared.queue.has_question.notified().await;
            continue;
        };
        let limit = shared.settings.timeout;
        let late = || DatabaseFault::Unavailable(format!("no answer within {limit:?}"));
        match question {
            Question::History(zone, most, end) => {
                let read = tokio::time::timeout(limit, history(&link.client, zone, most)).await;
                end.send(
                    read.map_err(|_| late())
                        .and_then(|read| read.map_err(|fault| DatabaseFault::Unavailable(fault.0))),
                );
            }
            Question::Nodes(end) => {
                let read = tokio::time::timeout(limit, nodes(&link.client)).await;
                end.send(
                    read.map_err(|_| late())
                        .and_then(|read| read.map_err(|fault| DatabaseFault::Unavailable(fault.0))),
                );
            }
        }
    }
}

/// Does what waits to be written, until the connection breaks or the server stops.
async fn commit_all(shared: &Arc<Shared>, link: &Link) -> String {
    let settings = &shared.settings;
    let writer = match Writer::new(link, &settings.node, settings.timeout).await {
        Ok(writer) => writer,
        Err(why) => return why,
    };
    loop {
        let Some(work) = shared.queue.take_work() else {
            if *shared.stop.borrow() {
                return STOPPING.into();
            }
            shared.queue.has_job.notified().await;
            continue;
        };
        let done = match work {
            Work::Group(jobs) => commit_group(shared, &writer, jobs).await,
            Work::One(waiting) => one(shared, &writer, waiting).await,
        };
        if let Err(why) = done {
            return why;
        }
    }
}

/// Notes jobs as sent and returns their tag.
fn send(shared: &Shared, link: &Link, jobs: Vec<Waiting>) -> i64 {
    let tag = random_tag();
    let (session, after) = (link.session.clone(), known_change(shared));
    shared.queue.sent(InFlight { tag, session, after, jobs });
    tag
}

/// The last change of the database that this node knows.
fn known_change(shared: &Shared) -> i64 {
    shared.status().last_change
}

/// Takes back the jobs that were sent.
fn take_back(shared: &Shared) -> Vec<Waiting> {
    shared.queue.take_sent().map(|sent| sent.jobs).unwrap_or_default()
}

/// Commits many changes in one statement. If the database does not accept it, each goes alone.
async fn commit_group(shared: &Arc<Shared>, writer: &Writer<'_>, jobs: Vec<Waiting>) -> Result<(), String> {
    let mut left = vec![jobs];
    while let Some(jobs) = left.pop() {
        let count = jobs.len();
        match commit_once(shared, writer, jobs).await? {
            None => {}
            Some((jobs, why)) if count == 1 => {
                for waiting in jobs {
                    end(shared, waiting, Some(DatabaseFault::Refused(why.clone())));
                }
            }
            Some((jobs, _)) => left.extend(jobs.into_iter().rev().map(|waiting| vec![waiting])),
        }
    }
    Ok(())
}

/// Commits changes in one statement; returns them with the reason if the database does not accept it.
async fn commit_once(
    shared: &Arc<Shared>,
    writer: &Writer<'_>,
    jobs: Vec<Waiting>,
) -> Result<Option<(Vec<Waiting>, String)>, String> {
    let commits = jobs.iter().filter_map(|waiting| match &waiting.job {
        Job::Commit(commit, _) => Some(&**commit),
        _ => None,
    });
    let signed = commits.clone().any(|commit| commit.keys.is_some());
    let text = match payload(commits) {
        Ok(text) => text,
        Err(why) => return Ok(Some((jobs, why))),
    };
    let tag = send(shared, writer.link, jobs);
    let mut tries = 0;
    let done = loop {
        match writer.commit(&text, signed, tag).await {
            Err(WriteFault::Again(_)) if tries < MOST_TRIES => tries += 1,
            done => break done,
        }
    };
    let outcomes = match done {
        Ok(outcomes) => outcomes,
        Err(WriteFault::Lost(why)) => return Err(why),
        Err(WriteFault::Refused(why)) => return Ok(Some((take_back(shared), why))),
        Err(WriteFault::NotMade(why) | WriteFault::Again(why)) => {
            for waiting in take_back(shared) {
                end(shared, waiting, Some(DatabaseFault::Unavailable(why.clone())));
            }
            return Ok(None);
        }
        Err(WriteFault::Useless(why)) => {
            for waiting in take_back(shared) {
                end(shared, waiting, Some(DatabaseFault::Unavailable(why.clone())));
            }
            return Err(why);
        }
    };
    shared.counts.groups.fetch_add(1, Relaxed);
    for waiting in take_back(shared) {
        let outcome = waiting.job.zone().and_then(|zone| outcomes.get(&zone)).copied();
        end_outcome(shared, waiting, outcome.unwrap_or(Outcome::Gone));
    }
    Ok(None)
}

/// Ends a commit as the database says.
fn end_outcome(shared: &Arc<Shared>, waiting: Waiting, outcome: Outcome) {
    match outcome {
        Outcome::Committed => end(shared, waiting, None),
        Outcome::Gone => end(shared, waiting, Some(DatabaseFault::Gone)),
        Outcome::Conflict if waiting.since.elapsed() >= shared.settings.timeout => {
            let why =
                format!("other nodes have changed the zone all the time for {:?}", shared.settings.timeout);
            end(shared, waiting, Some(DatabaseFault::Unavailable(why)));
        }
        // What the database has instead is read in turn with the changes.
        Outcome::Conflict => shared.queue.read(Reading::Conflict(waiting)),
    }
}

/// Ends a job: with success, or with a fault.
fn end(shared: &Shared, waiting: Waiting, fault: Option<DatabaseFault>) {
    let Waiting { job, since } = waiting;
    shared.counts.took(since.elapsed());
    let count = match &fault {
        None => &shared.counts.committed,
        Some(DatabaseFault::Unavailable(_)) => &shared.counts.unavailable,
        Some(DatabaseFault::Unclear(_)) => &shared.counts.unclear,
        Some(_) => &shared.counts.refused,
    };
    count.fetch_add(1, Relaxed);
    match (fault, job) {
        (Some(fault), job) => job.fail(fault),
        (None, Job::Commit(_, end)) => end.send(CommitEnd::Committed),
        (None, Job::Remove(_, _, end)) => end.send(Ok(())),
        // The number of a created zone is passed by `end_created`.
        (None, Job::Create(_, end)) => end.fail(DatabaseFault::Unclear("its number is missing".into())),
    }
}

/// Does one job that goes alone.
async fn one(shared: &Arc<Shared>, writer: &Writer<'_>, waiting: Waiting) -> Result<(), String> {
    let tag = random_tag();
    let session = writer.link.session.clone();
    let Waiting { job, since } = waiting;
    // A copy is sent, since the job stays with what is in flight.
    let copy = match &job {
        Job::Commit(commit, _) => OneJob::Replace((**commit).clone()),
        Job::Create(zone, _) => OneJob::Create(zone.clone()),
        Job::Remove(zone, author, _) => OneJob::Remove(*zone, author.clone()),
    };
    let after = known_change(shared);
    shared.queue.sent(InFlight { tag, session, after, jobs: vec![Waiting { job, since }] });
    let done = copy.perform(writer, tag).await;
    if let Err(WriteFault::Lost(why)) = done {
        return Err(why);
    }
    for waiting in take_back(shared) {
        match &done {
            Ok(OneEnd::Outcome(outcome)) => end_outcome(shared, waiting, *outcome),
            Ok(OneEnd::Created(Some(id))) => end_created(shared, waiting, *id),
            Ok(OneEnd::Created(None)) => end(shared, waiting, Some(DatabaseFault::Exists)),
            Ok(OneEnd::Removed(true)) => end(shared, waiting, None),
            Ok(OneEnd::Removed(false)) => end(shared, waiting, Some(DatabaseFault::Gone)),
            Err(WriteFault::Refused(why)) => end(shared, waiting, Some(DatabaseFault::Refused(why.clone()))),
            Err(
                WriteFault::Again(why)
                | WriteFault::NotMade(why)
                | WriteFault::Useless(why)
                | WriteFault::Lost(why),
            ) => end(shared, waiting, Some(DatabaseFault::Unavailable(why.clone()))),
        }
    }
    match done {
        Err(WriteFault::Useless(why)) => Err(why),
        _ => Ok(()),
    }
}

/// What goes alone.
enum OneJob {
    Replace(ZoneCommit),
    Create(NewZone),
    Remove(ZoneId, String),
}

/// How it ended.
enum OneEnd {
    Outcome(Outcome),
    Created(Option<ZoneId>),
    Removed(bool),
}

impl OneJob {
    async fn perform(&self, writer: &Writer<'_>, tag: i64) -> Result<OneEnd, WriteFault> {
        Ok(match self {
            Self::Replace(commit) => {
                let before = Some(i64::from(commit.before.serial().0));
                let author = commit.steps.last().map(|step| &*step.author).unwrap_or_default();
                let keys = commit.keys.as_ref();
                OneEnd::Outcome(writer.replace(commit.zone, before, &commit.after, keys, author, tag).await?)
            }
            Self::Create(zone) => OneEnd::Created(writer.create(zone, tag).await?),
            Self::Remove(zone, author) => OneEnd::Removed(writer.remove(*zone, author, tag).await?),
        })
    }
}

/// Ends a job that created a zone; any other one with success.
fn end_created(shared: &Shared, waiting: Waiting, id: ZoneId) {
    match waiting {
        Waiting { job: Job::Create(_, end), since } => {
            shared.counts.took(since.elapsed());
            shared.counts.committed.fetch_add(1, Relaxed);
            end.send(Ok(id));
        }
        waiting => end(shared, waiting, None),
    }
}

/// Finds out what became of lost jobs, and ends them.
async fn settle(shared: &Shared, link: &Link, lost: Lost) {
    let Lost { sent, why, deadline } = lost;
    let found = find_out(&link.client, &sent, deadline).await;
    end_lost(shared, sent, &found, &why);
}

/// Ends jobs whose answer was lost.
fn end_lost(shared: &Shared, sent: InFlight, found: &Found, why: &str) {
    if let Found::Unknown(reason) = found {
        error!("{} changes may or may not be in the database: {why}; {reason}", sent.jobs.len());
    }
    end_found(sent.jobs, found, why, |waiting, ended| match ended {
        EndFound::Made(id) => end_created(shared, waiting, id),
        ended => end(shared, waiting, ended.fault()),
    });
}
