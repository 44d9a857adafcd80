//! Following: after a connection the list of all zones and the content of those that differ, then changes,
//! in the order of their numbers. Everything that the sink gets comes from here, one after the other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::{sleep, timeout};
use tokio_postgres::types::Type as SqlType;
use tracing::{debug, warn};
use wire::ZoneName;
use zone::store::ChangeSet;

use crate::connect::Link;
use crate::interface::{CommitEnd, DatabaseFault, ListedZone, ZoneContent, ZoneId};
use crate::key_rows::{KEY_SETS_AT_A_TIME, key_sets, key_versions};
use crate::progress::{Position, Progress};
use crate::queue::{Job, Reading, Waiting};
use crate::read::{
    CHANGES_AT_A_TIME, FollowedChange, FollowedKind, ReadFault, WantedZone, ZONES_AT_A_TIME, changes_after,
    contents, listing, tag_of, zones,
};
use crate::sections::sections;
use crate::shared::Shared;
use crate::signing::SignerLock;

/// How often this node reports to the table of nodes.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// How often old changes are removed, and how many at a time.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_AT_A_TIME: i32 = 10_000;

/// Follows a database over one connection.
pub(crate) struct Follower<'s> {
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) link: &'s Link,
    pub(crate) progress: &'s mut Progress,
    signer: SignerLock<'s>,
    reported: Option<Instant>,
    forgot: Option<Instant>,
}

/// What came of a look for changes.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// There are no more.
    Current,
    /// There may be more.
    More,
    /// Changes are missing, or the database went back: the list is to be read again.
    Gap,
}

/// What a batch of changes comes to, zone by zone.
#[derive(Default)]
struct Batch {
    /// The steps of zones, in the order of their first one.
    steps: Vec<(ZoneId, ZoneName, Vec<Arc<ChangeSet>>)>,
    /// Where a zone is in `steps`.
    places: HashMap<ZoneId, usize>,
    /// Zones that are new or have other properties.
    announced: Vec<ZoneId>,
    /// Zones that are to be read whole.
    whole: Vec<(ZoneId, ZoneName)>,
    /// Zones whose keys are to be read.
    keys: BTreeSet<ZoneId>,
}

impl Batch {
    fn is_whole(&self, zone: ZoneId) -> bool {
        self.whole.iter().any(|(id, _)| *id == zone)
    }

    fn forget(&mut self, zone: ZoneId) {
        self.announced.retain(|id| *id != zone);
        self.keys.remove(&zone);
        self.whole.retain(|(id, _)| *id != zone);
        if let Some((_, _, steps)) = self.places.get(&zone).and_then(|at| self.steps.get_mut(*at)) {
            steps.clear();
        }
    }

    fn read_whole(&mut self, zone: ZoneId, apex: ZoneName) {
        if !self.is_whole(zone) {
            self.whole.push((zone, apex));
        }
    }

    fn step(&mut self, zone: ZoneId, apex: ZoneName, step: Arc<ChangeSet>) {
        // What is read whole later has this step.
        if self.is_whole(zone) {
            return;
        }
        let at = *self.places.entry(zone).or_insert(self.steps.len());
        match self.steps.get_mut(at) {
            Some((_, _, steps)) => steps.push(step),
            None => self.steps.push((zone, apex, vec![step])),
        }
    }
}

impl<'s> Follower<'s> {
    pub(crate) fn new(shared: &'s Arc<Shared>, link: &'s Link, progress: &'s mut Progress) -> Self {
        let signer = SignerLock::new(shared);
        Follower { shared, link, progress, signer, reported: None, forgot: None }
    }

    /// Follows until the connection breaks, and returns why. `is_current` is called once, when all is read.
    pub(crate) async fn run(mut self, is_current: impl FnOnce()) -> String {
        let mut is_current = Some(is_current);
        loop {
            if let Err(ReadFault(why)) = self.follow(&mut is_current).await {
                return why;
            }
        }
    }

    /// Reads the list and follows changes until there is a gap in them.
    async fn follow(&mut self, is_current: &mut Option<impl FnOnce()>) -> Result<(), ReadFault> {
        self.link.client.batch_execute("LISTEN nomen").await?;
        self.synchronise().await?;
        loop {
            let limit = self.shared.settings.timeout;
            match self.look().await? {
                Look::More => continue,
                Look::Gap => {
                    warn!("changes of the database are missing here: all its zones are compared again");
                    return Ok(());
                }
                Look::Current => {}
            }
            if let Some(is_current) = is_current.take() {
                is_current();
            }
            while let Some(reading) = self.shared.queue.take_reading() {
                self.read(reading).await?;
            }
            timeout(limit, self.keep_house())
                .await
                .unwrap_or_else(|_| Err(ReadFault(format!("no answer within {limit:?}"))))?;
            tokio::select! {
                () = self.link.notified() => {}
                () = self.shared.queue.has_reading.notified() => {}
                () = sleep(self.shared.settings.poll) => {}
            }
        }
    }

    /// Compares all zones with those at hand and reads those that differ.
    async fn synchronise(&mut self) -> Result<(), ReadFault> {
        let client = &self.link.client;
        let listing = listing(client).await?;
        let is_other = self.is_other(&listing.cluster, listing.last_change).await?;
        if is_other {
            warn!("the database lacks changes that this node has seen: all its zones are read whole");
        }
        let count = listing.zones.len() as u64;
        self.shared.note(|status| {
            (status.last_change, status.zones) = (listing.last_change, count);
        });
        self.read_sections(true).await?;
        let zones = listing.zones;
        let sink = Arc::clone(&self.shared.sink);
        let asked = zones.clone();
        let at_hand = blocking(move || sink.listed(asked)).await?;
        let mut at_hand = at_hand.into_iter();
        let mut wanted: Vec<WantedZone> = Vec::new();
        self.progress.zones.clear();
        self.progress.unfit.clear();
        for ListedZone { id, apex, serial, .. } in zones {
            self.progress.zones.insert(id);
            let at_hand = at_hand.next().flatten();
            if is_other || at_hand != Some(serial) {
                wanted.push(WantedZone { id, apex, at_hand: at_hand.filter(|_| !is_other) });
            }
        }
        debug!(zones = count, differ = wanted.len(), "zones of the database were listed");
        self.synchronise_keys().await?;
        let mut left = wanted.into_iter().peekable();
        while left.peek().is_some() {
            let part: Vec<WantedZone> = left.by_ref().take(ZONES_AT_A_TIME).collect();
            let unread = (left.len() + part.len()) as u64;
            self.shared.note(|status| status.unread = unread);
            self.read_contents(part).await?;
            self.report().await?;
        }
        self.progress.at.cluster = listing.cluster;
        self.progress.at.number = listing.last_change;
        self.progress.at.tag = tag_of(&self.link.client, listing.last_change).await?;
        self.shared.note(|status| {
            (status.unread, status.followed) = (0, listing.last_change);
        });
        Ok(())
    }

    /// Whether the database is not a continuation of the one that this node has seen: another one, or one
    /// that lost changes, as a replica that was promoted before it had them.
    async fn is_other(&self, cluster: &str, last_change: i64) -> Result<bool, ReadFault> {
        let Position { cluster: seen, number, tag, .. } = &self.progress.at;
        if seen.is_empty() {
            return Ok(false);
        }
        if seen != cluster || last_change < *number {
            return Ok(true);
        }
        let (Some(tag), Some(found)) = (tag, tag_of(&self.link.client, *number).await?) else {
            return Ok(false);
        };
        Ok(*tag != found)
    }

    /// Reads the keys of zones that this node does not have.
    async fn synchronise_keys(&self) -> Result<(), ReadFault> {
        let versions = key_versions(&self.link.client).await?;
        let wanted = self.shared.sink.keys_listed(&versions);
        self.read_keys(&wanted).await
    }

    /// Reads the keys of zones for the sink.
    async fn read_keys(&self, zones: &[ZoneId]) -> Result<(), ReadFault> {
        for part in zones.chunks(KEY_SETS_AT_A_TIME) {
            for (zone, apex, keys) in key_sets(&self.link.client, part).await? {
                self.shared.sink.keys(zone, &apex, keys);
            }
        }
        Ok(())
    }

    /// Reads all sections of the configuration for the sink.
    async fn read_sections(&mut self, listed: bool) -> Result<(), ReadFault> {
        let limit = self.shared.settings.timeout;
        let read = timeout(limit, sections(&self.link.client)).await;
        let set = read.unwrap_or_else(|_| Err(ReadFault(format!("no answer within {limit:?}"))))?;
        let sink = Arc::clone(&self.shared.sink);
        blocking(move || sink.sections(set, listed)).await
    }

    /// Reads the content of zones for the sink.
    async fn read_contents(&mut self, wanted: Vec<WantedZone>) -> Result<(), ReadFault> {
        let (shared, unfit) = (self.shared, &mut self.progress.unfit);
        let key = &shared.settings.key;
        contents(&self.link.client, key, wanted, &mut |id, apex, content| {
            give(shared, unfit, id, apex, content);
        })
        .await
    }

    /// Looks for changes and hands them on.
    async fn look(&mut self) -> Result<Look, ReadFault> {
        let mut changes: Vec<FollowedChange> = Vec::new();
        let after = self.progress.at.number;
        let last = {
            let limit = self.shared.settings.timeout;
            changes_after(&self.link.client, after, limit, &mut |change| changes.push(change)).await?
        };
        let numbers = changes.iter().map(|change| change.number);
        let is_gap = !numbers.eq(after + 1..=after + changes.len() as i64);
        if is_gap || last < after || changes.is_empty() && last > after {
            return Ok(Look::Gap);
        }
        let count = changes.len() as i64;
        let tag = changes.last().map(|change| change.tag);
        self.shared.counts.changes_read.fetch_add(count as u64, Relaxed);
        self.hand_on(changes).await?;
        self.progress.at.number = after + count;
        self.progress.at.tag = tag.or(self.progress.at.tag);
        let (followed, zones, unfit) =
            (self.progress.at.number, self.progress.zones.len(), self.progress.unfit.len());
        self.shared.note(|status| {
            (status.last_change, status.followed) = (last.max(followed), followed);
            (status.zones, status.unfit) = (zones as u64, unfit as u64);
            if followed >= last {
                status.current_at = Some(SystemTime::now());
            }
        });
        Ok(if count == CHANGES_AT_A_TIME || followed < last { Look::More } else { Look::Current })
    }

    /// Hands changes on to the sink.
    async fn hand_on(&mut self, changes: Vec<FollowedChange>) -> Result<(), ReadFault> {
        let mut batch = Batch::default();
        let mut sections_changed = false;
        for change in changes {
            let id = change.zone;
            if let FollowedKind::Section = change.kind {
                sections_changed = true;
                continue;
            }
            let Some(apex) = change.apex else { continue };
            match change.kind {
                FollowedKind::Created => {
                    batch.announced.push(id);
                    batch.read_whole(id, apex);
                }
                FollowedKind::Replaced | FollowedKind::Step(None) => batch.read_whole(id, apex),
                FollowedKind::Step(Some(step)) => batch.step(id, apex, step),
                FollowedKind::Properties => batch.announced.push(id),
                FollowedKind::Keys => _ = batch.keys.insert(id),
                FollowedKind::Section => {}
                FollowedKind::Removed => {
                    batch.forget(id);
                    self.progress.zones.remove(&id);
                    self.progress.unfit.remove(&id);
                    let sink = Arc::clone(&self.shared.sink);
                    blocking(move || sink.removed(id, &apex)).await?;
                }
            }
        }
        // Zones may need a template that comes with them.
        if sections_changed {
            self.read_sections(false).await?;
        }
        // Before the records that are signed with them.
        self.read_keys(&batch.keys.iter().copied().collect::<Vec<ZoneId>>()).await?;
        for (id, apex, steps) in batch.steps {
            if !steps.is_empty() && !batch.whole.iter().any(|(whole, _)| *whole == id) {
                give(self.shared, &mut self.progress.unfit, id, &apex, ZoneContent::Steps(steps));
            }
        }
        if !batch.announced.is_empty() {
            let ids: Vec<i64> = batch.announced.iter().map(|id| id.0).collect();
            for listed in zones(&self.link.client, &ids).await? {
                self.progress.zones.insert(listed.id);
                let sink = Arc::clone(&self.shared.sink);
                blocking(move || sink.created(listed)).await?;
            }
        }
        let wanted = |(id, apex)| WantedZone { id, apex, at_hand: None };
        self.read_contents(batch.whole.into_iter().map(wanted).collect()).await
    }

    /// Reads what was asked for.
    async fn read(&mut self, reading: Reading) -> Result<(), ReadFault> {
        match reading {
            Reading::Fetch(id, apex) => {
                self.read_contents(vec![WantedZone { id, apex, at_hand: None }]).await
            }
            Reading::Conflict(waiting) => self.conflict(waiting).await,
        }
    }

    /// Ends a commit with what the database has instead.
    async fn conflict(&mut self, waiting: Waiting) -> Result<(), ReadFault> {
        let Waiting { job: Job::Commit(commit, end), since } = waiting else { return Ok(()) };
        let at_hand = Some(commit.before.serial());
        let wanted = vec![WantedZone { id: commit.zone, apex: commit.apex.clone(), at_hand }];
        let mut found = None;
        let read = async {
            if commit.keys.is_some() {
                self.read_keys(&[commit.zone]).await?;
            }
            let key = &self.shared.settings.key;
            contents(&self.link.client, key, wanted, &mut |_, _, content| found = Some(content)).await
        };
        let read = read.await;
        self.shared.counts.took(since.elapsed());
        match (read, found) {
            (Ok(()), Some(content)) => {
                self.shared.counts.conflicts.fetch_add(1, Relaxed);
                end.send(CommitEnd::Conflict(content));
                Ok(())
            }
            (Ok(()), None) => {
                self.shared.counts.refused.fetch_add(1, Relaxed);
                end.send(CommitEnd::Gone);
                Ok(())
            }
            (Err(ReadFault(why)), _) => {
                self.shared.counts.unavailable.fetch_add(1, Relaxed);
                let why_not = format!("another node changed the zone, which could not be read: {why}");
                end.fail(DatabaseFault::Unavailable(why_not));
                Err(ReadFault(why))
            }
        }
    }

    /// Signs if no other node does, reports to the table of nodes and removes old changes, when it is time.
    async fn keep_house(&mut self) -> Result<(), ReadFault> {
        self.signer.keep(self.link).await?;
        self.report().await?;
        if self.forgot.is_some_and(|last| last.elapsed() < FORGET_EVERY) {
            return Ok(());
        }
        let keep = self.shared.settings.keep_changes.as_secs_f64();
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), SqlType); 2] =
            [(&keep, SqlType::FLOAT8), (&FORGET_AT_A_TIME, SqlType::INT4)];
        let query = "SELECT nomen.forget_changes(make_interval(secs => $1), $2)";
        let forgotten: i64 = self.link.client.query_typed_one(query, &parameters).await?.try_get(0)?;
        // A full step may leave more: the next one follows at the next look.
        self.forgot = (forgotten < i64::from(FORGET_AT_A_TIME)).then(Instant::now);
        Ok(())
    }

    async fn report(&mut self) -> Result<(), ReadFault> {
        if self.reported.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return Ok(());
        }
        let query = "INSERT INTO nomen.nodes (name, seen, change, zones, version, address) \
            VALUES ($1, clock_timestamp(), $2, $3, $4, inet_client_addr()) \
            ON CONFLICT (name) DO UPDATE SET seen = excluded.seen, change = excluded.change, zones = excluded.zones, \
            version = excluded.version, address = excluded.address";
        let zones = self.progress.zones.len() as i64;
        self.link
            .client
            .query_typed(
                query,
                &[
                    (&self.shared.settings.node, SqlType::TEXT),
                    (&self.progress.at.number, SqlType::INT8),
                    (&zones, SqlType::INT8),
                    (&env!("CARGO_PKG_VERSION"), SqlType::TEXT),
                ],
            )
            .await?;
        self.reported = Some(Instant::now());
        self.progress.save();
        Ok(())
    }
}

/// Hands content on to the sink, and counts it.
fn give(shared: &Shared, unfit: &mut HashSet<ZoneId>, id: ZoneId, apex: &ZoneName, content: ZoneContent) {
    match &content {
        ZoneContent::Unfit(_) => {
            shared.counts.unfit.fetch_add(1, Relaxed);
            unfit.insert(id);
        }
        ZoneContent::Whole(_) => {
            shared.counts.zones_read.fetch_add(1, Relaxed);
            unfit.remove(&id);
        }
        ZoneContent::Steps(_) => {
            unfit.remove(&id);
        }
    }
    let count = unfit.len() as u64;
    shared.note(|status| status.unfit = count);
    shared.sink.content(id, apex, content);
}

/// Calls what may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ReadFault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ReadFault("a panic while zones were handed on".into()))
}
