//! Writing: commits of many zones in one statement, zones that are created, replaced and removed, and
//! whether what was in flight when a connection broke was made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type as SqlType};
use tokio_postgres::{Client, Row};
use wire::ZoneName;
use zone::Zone;

use crate::connect::{Link, fault_text};
use crate::interface::{DatabaseFault, NewZone, ZoneCommit, ZoneId};
use crate::keys::{KeyCommit, KeyCommitText, KeySetText, ZoneKeySet};
use crate::queue::{InFlight, MOST_GROUP_RECORDS, Waiting};
use crate::text::{
    RrsetKey, RrsetText, StepText, key_of, lines, node_of, rrsets_of, rrsets_of_zone, zone_texts,
};

/// RRsets that one statement adds to a zone.
const RRSETS_AT_A_TIME: usize = 5000;
/// Longest time of a transaction that writes a large zone.
const LARGE_TIMEOUT: Duration = Duration::from_secs(600);
/// How long to wait for a session that was asked to end.
const SESSION_POLL: Duration = Duration::from_millis(50);

/// Why a statement failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WriteFault {
    /// It is not known whether it was made: the session is lost.
    Lost(String),
    /// It was not made, and the session is of no more use.
    Useless(String),
    /// It was not made.
    NotMade(String),
    /// It was not made, since the database does not accept it.
    Refused(String),
    /// It was not made, since other transactions were in the way: try again.
    Again(String),
}

impl WriteFault {
    /// Sorts a fault by its code.
    pub(crate) fn of(link: &Link, fault: &tokio_postgres::Error) -> WriteFault {
        let Some(code) = fault.code() else { return Self::Lost(link.reason(fault)) };
        let text = fault_text(fault);
        if *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE {
            return Self::Again(text);
        }
        if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            return Self::Useless(text);
        }
        match code.code().get(..2) {
            // The server ends the session: it may have made what it was doing.
            _ if code.code().starts_with("57P") => Self::Lost(text),
            // Data, constraints, privileges, names that are missing, limits of the program.
            Some("0A" | "21" | "22" | "23" | "42" | "44" | "54" | "P0") => Self::Refused(text),
            _ => Self::NotMade(text),
        }
    }
}

/// A random number.
pub(crate) fn random_tag() -> i64 {
    RandomState::new().hash_one(0_u8).cast_signed()
}

/// A commit as `nomen.commit` takes it.
#[derive(Serialize)]
struct CommitText<'a> {
    zone: i64,
    before: u32,
    after: u32,
    gone: Vec<GoneText>,
    rrsets: Vec<RrsetText>,
    steps: Vec<StepText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<KeyCommitText<'a>>,
}

#[derive(Serialize)]
struct GoneText {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    covers: String,
}

impl<'a> CommitText<'a> {
    fn of(commit: &'a ZoneCommit) -> CommitText<'a> {
        let mut touched: BTreeMap<ZoneName, BTreeSet<RrsetKey>> = BTreeMap::new();
        let (mut gone, mut rrsets, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for step in &commit.steps {
            let change = &*step.change;
            for record in change.removed.iter().chain(change.added.iter()) {
                let keys = touched.entry(record.owner.to_lower().as_lower().into()).or_default();
                keys.insert(key_of(record.rtype, record.rdata));
            }
            steps.push(StepText {
                before: change.before.0,
                after: change.after.0,
                removed: lines(&change.removed),
                added: lines(&change.added),
                author: &step.author,
            });
        }
        for (name, keys) in touched {
            let node = node_of(&commit.after, name.as_name());
            let mut rows = node.map(rrsets_of).unwrap_or_default();
            for key in keys {
                match rows.remove(&key) {
                    Some(row) => rrsets.push(row),
                    None => gone.push(GoneText {
                        name: name.as_name().to_string(),
                        rtype: key.0.to_string(),
                        covers: key.1.map(|covered| covered.to_string()).unwrap_or_default(),
                    }),
                }
            }
        }
        let (before, after) = (commit.before.serial().0, commit.after.serial().0);
        let keys = commit.keys.as_ref().map(KeyCommitText::of);
        CommitText { zone: commit.zone.0, before, after, gone, rrsets, steps, keys }
    }
}

/// Returns the text that `nomen.commit` is called with.
pub(crate) fn payload<'a>(commits: impl IntoIterator<Item = &'a ZoneCommit>) -> Result<String, String> {
    json(&commits.into_iter().map(CommitText::of).collect::<Vec<_>>())
}

/// A zone as `nomen.create_zones` takes it.
#[derive(Serialize)]
struct NewZoneText<'a> {
    view: &'a str,
    name: String,
    template: Option<&'a str>,
    serial: u32,
    author: &'a str,
    rrsets: Vec<RrsetText>,
}

fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|fault| fault.to_string())
}

/// What became of a zone in a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Conflict,
    Gone,
}

impl Outcome {
    fn of(text: &str) -> Outcome {
        match text {
            "committed" | "ready" => Self::Committed,
            "gone" => Self::Gone,
            _ => Self::Conflict,
        }
    }
}

/// A link with what each statement needs.
pub(crate) struct Writer<'l> {
    pub(crate) link: &'l Link,
    pub(crate) node: &'l str,
    pub(crate) timeout: Duration,
    commit: tokio_postgres::Statement,
}

impl<'l> Writer<'l> {
    pub(crate) async fn new(link: &'l Link, node: &'l str, timeout: Duration) -> Result<Writer<'l>, String> {
        let text = "SELECT of_zone, outcome FROM nomen.commit($1::text::jsonb, $2, $3)";
        let prepared = link.client.prepare_typed(text, &[SqlType::TEXT, SqlType::TEXT, SqlType::INT8]);
        let commit = tokio::time::timeout(timeout, prepared).await;
        let commit = commit.map_err(|_| format!("no answer within {timeout:?}"))?;
        Ok(Writer { link, node, timeout, commit: commit.map_err(|fault| link.reason(&fault))? })
    }

    /// Waits for a statement, a little longer than the server lets it take.
    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, WriteFault> {
        match timeout(limit + Duration::from_millis(500), work).await {
            Ok(done) => done.map_err(|fault| WriteFault::of(self.link, &fault)),
            Err(_) => Err(WriteFault::Lost(format!("no answer within {limit:?}"))),
        }
    }

    /// Commits changes of zones in one statement. `signed`: the nodes sign some of the zones.
    pub(crate) async fn commit(
        &self,
        payload: &str,
        signed: bool,
        tag: i64,
    ) -> Result<HashMap<ZoneId, Outcome>, WriteFault> {
        let client = &self.link.client;
        let rows = match signed {
            true => {
                let query = "SELECT of_zone, outcome FROM nomen.commit_signed($1::text::jsonb, $2, $3)";
                let parameters: [(&(dyn ToSql + Sync), SqlType); 3] =
                    [(&payload, SqlType::TEXT), (&self.node, SqlType::TEXT), (&tag, SqlType::INT8)];
                self.within(self.timeout, client.query_typed(query, &parameters)).await?
            }
            false => {
                let parameters: [&(dyn ToSql + Sync); 3] = [&payload, &self.node, &tag];
                self.within(self.timeout, client.query(&self.commit, &parameters)).await?
            }
        };
        let outcome = |row: &Row| Ok((ZoneId(row.try_get(0)?), Outcome::of(row.try_get(1)?)));
        let outcomes: Result<_, tokio_postgres::Error> = rows.iter().map(outcome).collect();
        outcomes.map_err(|fault| WriteFault::Lost(fault_text(&fault)))
    }

    /// Replaces the records of a zone, and its keys if `keys` has some. `before`: the serial that it must
    /// have; `None`: any.
    pub(crate) async fn replace(
        &self,
        zone: ZoneId,
        before: Option<i64>,
        content: &Zone,
        keys: Option<&KeyCommit>,
        author: &str,
        tag: i64,
    ) -> Result<Outcome, WriteFault> {
        let client = &self.link.client;
        self.begin().await?;
        let made = async {
            if let Some(keys) = keys {
                let outcome = self.check_keys(zone, keys).await?;
                if outcome != Outcome::Committed {
                    return Ok(outcome);
                }
            }
            let after = i64::from(content.serial().0);
            let begun = async {
                client
                    .query_typed_one(
                        "SELECT nomen.begin_replace($1, $2, $3)",
                        &[(&zone.0, SqlType::INT8), (&before, SqlType::INT8), (&after, SqlType::INT8)],
                    )
                    .await
            };
            let row = self.within(LARGE_TIMEOUT, begun).await?;
            let outcome = Outcome::of(row.try_get(0).map_err(|fault| WriteFault::of(self.link, &fault))?);
            if outcome == Outcome::Committed {
                self.put_zone(zone, content).await?;
                self.record(zone, "replace", before, author, tag).await?;
                if let Some(KeyCommit { after: Some(after), author, .. }) = keys {
                    self.put_keys(zone, after, author, tag).await?;
                }
            }
            Ok(outcome)
        };
        self.finish(made.await).await
    }

    /// Creates a zone; `None` if there is one of this name.
    pub(crate) async fn create(&self, zone: &NewZone, tag: i64) -> Result<Option<ZoneId>, WriteFault> {
        if zone.content.record_count() <= MOST_GROUP_RECORDS {
            let made =
                self.within(self.timeout, create_small(&self.link.client, &[zone], self.node, tag)).await?;
            return Ok(made.into_iter().next().flatten());
        }
        self.begin().await?;
        let made = create_in_parts(self, zone, tag).await;
        self.finish(made).await
    }

    /// Creates a zone with keys; `None` if there is one of this name.
    pub(crate) async fn create_with_keys(
        &self,
        zone: &NewZone,
        keys: &ZoneKeySet,
        tag: i64,
    ) -> Result<Option<ZoneId>, WriteFault> {
        self.begin().await?;
        let made = async {
            let made = create_in_parts(self, zone, tag).await?;
            if let Some(id) = made {
                self.put_keys(id, keys, &zone.author, tag).await?;
            }
            Ok(made)
        };
        self.finish(made.await).await
    }

    pub(crate) async fn begin(&self) -> Result<(), WriteFault> {
        let limit = LARGE_TIMEOUT.as_millis();
        let begin = format!("BEGIN; SET LOCAL statement_timeout = {limit}");
        self.within(self.timeout, self.link.client.batch_execute(&begin)).await
    }

    /// Ends a transaction: with a commit, or after a fault without.
    pub(crate) async fn finish<T>(&self, made: Result<T, WriteFault>) -> Result<T, WriteFault> {
        match made {
            Ok(made) => {
                self.within(LARGE_TIMEOUT, self.link.client.batch_execute("COMMIT")).await?;
                Ok(made)
            }
            Err(fault) => {
                if !matches!(fault, WriteFault::Lost(_)) {
                    self.within(self.timeout, self.link.client.batch_execute("ROLLBACK")).await?;
                }
                Err(fault)
            }
        }
    }

    /// Adds all RRsets of a zone, in parts.
    async fn put_zone(&self, id: ZoneId, content: &Zone) -> Result<(), WriteFault> {
        let mut rrsets = rrsets_of_zone(content);
        loop {
            let part: Vec<RrsetText> = rrsets.by_ref().take(RRSETS_AT_A_TIME).collect();
            if part.is_empty() {
                return Ok(());
            }
            let text = json(&part).map_err(WriteFault::Refused)?;
            let put = async {
                self.link
                    .client
                    .query_typed(
                        "SELECT nomen.put_rrsets($1, $2::text::jsonb)",
                        &[(&id.0, SqlType::INT8), (&text, SqlType::TEXT)],
                    )
                    .await
            };
            self.within(LARGE_TIMEOUT, put).await?;
        }
    }

    /// Locks a zone, and compares the stamp of its keys and the clock of this node.
    async fn check_keys(&self, zone: ZoneId, keys: &KeyCommit) -> Result<Outcome, WriteFault> {
        let at = i64::try_from(keys.at.as_secs()).unwrap_or(i64::MAX);
        let checked = async {
            let parameters: [(&(dyn ToSql + Sync), SqlType); 3] =
                [(&zone.0, SqlType::INT8), (&keys.before.stamp, SqlType::INT8), (&at, SqlType::INT8)];
            self.link.client.query_typed_one("SELECT nomen.check_keys($1, $2, $3)", &parameters).await
        };
        let row = self.within(LARGE_TIMEOUT, checked).await?;
        row.try_get(0).map(Outcome::of).map_err(|fault| WriteFault::of(self.link, &fault))
    }

    /// Replaces the keys of a zone that is locked.
    async fn put_keys(
        &self,
        zone: ZoneId,
        keys: &ZoneKeySet,
        author: &str,
        tag: i64,
    ) -> Result<(), WriteFault> {
        let text = json(&KeySetText::of(keys)).map_err(WriteFault::Refused)?;
        let put = async {
            let parameters: [(&(dyn ToSql + Sync), SqlType); 5] = [
                (&zone.0, SqlType::INT8),
                (&text, SqlType::TEXT),
                (&author, SqlType::TEXT),
                (&self.node, SqlType::TEXT),
                (&tag, SqlType::INT8),
            ];
            let query = "SELECT nomen.put_keys($1, $2::text::jsonb, $3, $4, $5)";
            self.link.client.query_typed(query, &parameters).await
        };
        self.within(LARGE_TIMEOUT, put).await.map(|_| ())
    }

    async fn record(
        &self,
        id: ZoneId,
        kind: &str,
        before: Option<i64>,
        author: &str,
        tag: i64,
    ) -> Result<(), WriteFault> {
        let recorded = async {
            self.link
                .client
                .query_typed(
                    "SELECT nomen.record_change($1, $2, $3, $4, $5, $6)",
                    &[
                        (&id.0, SqlType::INT8),
                        (&kind, SqlType::TEXT),
                        (&before, SqlType::INT8),
                        (&author, SqlType::TEXT),
                        (&self.node, SqlType::TEXT),
                        (&tag, SqlType::INT8),
                    ],
                )
                .await
        };
        self.within(LARGE_TIMEOUT, recorded).await.map(|_| ())
    }

    /// Removes a zone; returns whether there was one.
    pub(crate) async fn remove(&self, zone: ZoneId, author: &str, tag: i64) -> Result<bool, WriteFault> {
        let removed = async {
            self.link
                .client
                .query_typed_one(
                    "SELECT nomen.remove_zone($1, $2, $3, $4)",
                    &[
                        (&zone.0, SqlType::INT8),
                        (&author, SqlType::TEXT),
                        (&self.node, SqlType::TEXT),
                        (&tag, SqlType::INT8),
                    ],
                )
                .await
        };
        let row = self.within(self.timeout, removed).await?;
        let number: Result<Option<i64>, _> = row.try_get(0);
        number.map(|number| number.is_some()).map_err(|fault| WriteFault::Lost(fault_text(&fault)))
    }
}

/// Creates zones in one statement; `None` where there is one of that name.
pub(crate) async fn create_small(
    client: &Client,
    zones: &[&NewZone],
    node: &str,
    tag: i64,
) -> Result<Vec<Option<ZoneId>>, tokio_postgres::Error> {
    let mut texts = Vec::with_capacity(zones.len());
    for zone in zones {
        let (view, name) = zone_texts(&zone.apex);
        let rrsets = rrsets_of_zone(&zone.content).collect();
        let (template, author) = (zone.template.as_deref(), &*zone.author);
        texts.push(NewZoneText { view, name, template, serial: zone.content.serial().0, author, rrsets });
    }
    // Rows consist of text and numbers, which are always written.
    let text = json(&texts).unwrap_or_default();
    let rows = client
        .query_typed(
            "SELECT at_position, made FROM nomen.create_zones($1::text::jsonb, $2, $3)",
            &[(&text, SqlType::TEXT), (&node, SqlType::TEXT), (&tag, SqlType::INT8)],
        )
        .await?;
    let mut made = vec![None; zones.len()];
    for row in rows {
        let position: i64 = row.try_get(0)?;
        let at = usize::try_from(position - 1).ok().and_then(|at| made.get_mut(at));
        if let Some(at) = at {
            *at = Some(ZoneId(row.try_get(1)?));
        }
    }
    Ok(made)
}

/// Creates a large zone within a transaction that has begun.
async fn create_in_parts(
    writer: &Writer<'_>,
    zone: &NewZone,
    tag: i64,
) -> Result<Option<ZoneId>, WriteFault> {
    let (view, name) = zone_texts(&zone.apex);
    let serial = i64::from(zone.content.serial().0);
    let begun = async {
        writer
            .link
            .client
            .query_typed_one(
                "SELECT nomen.begin_zone($1, $2, $3, $4)",
                &[
                    (&view, SqlType::TEXT),
                    (&name, SqlType::TEXT),
                    (&zone.template, SqlType::TEXT),
                    (&serial, SqlType::INT8),
                ],
            )
            .await
    };
    let row = writer.within(LARGE_TIMEOUT, begun).await?;
    let made: Option<i64> = row.try_get(0).map_err(|fault| WriteFault::of(writer.link, &fault))?;
    let Some(id) = made.map(ZoneId) else { return Ok(None) };
    writer.put_zone(id, &zone.content).await?;
    writer.record(id, "create", None, &zone.author, tag).await?;
    Ok(Some(id))
}

/// What is known about jobs whose answer was lost.
pub(crate) enum Found {
    /// The transaction was committed, with changes of these zones.
    Made(Vec<ZoneId>),
    /// It was not, and never will be.
    NotMade,
    /// Not known within the time.
    Unknown(String),
}

/// Finds out over a new connection whether jobs were made: their tag is in the database, or their session
/// has ended without it. A session that is still there is ended. It is not known where the database has
/// forgotten changes since.
pub(crate) async fn find_out(client: &Client, sent: &InFlight, deadline: Instant) -> Found {
    let mut why = String::from("the session of the commit does not end");
    loop {
        match look(client, sent).await {
            Ok(Some(found)) => return found,
            Ok(None) => {}
            Err(fault) => {
                why = fault_text(&fault);
                if fault.is_closed() {
                    break;
                }
            }
        }
        if Instant::now() >= deadline {
            break;
        }
        sleep(SESSION_POLL).await;
    }
    Found::Unknown(why)
}

async fn look(client: &Client, sent: &InFlight) -> Result<Option<Found>, tokio_postgres::Error> {
    let (pid, began) = &sent.session;
    // The session is looked for first: one that has ended before cannot commit after the second look.
    let ended = client
        .query_typed(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid = $1 AND coalesce(extract(epoch FROM backend_start)::text, '') = $2",
            &[(pid, SqlType::INT4), (began, SqlType::TEXT)],
        )
        .await?;
    let is_there = !ended.is_empty();
    let rows = client
        .query_typed("SELECT DISTINCT zone FROM nomen.changes WHERE tag = $1", &[(&sent.tag, SqlType::INT8)])
        .await?;
    if !rows.is_empty() {
        let zones: Result<Vec<ZoneId>, _> = rows.iter().map(|row| row.try_get(0).map(ZoneId)).collect();
        return Ok(Some(Found::Made(zones?)));
    }
    if is_there {
        return Ok(None);
    }
    let query = "SELECT a.last_change, (SELECT min(c.number) FROM nomen.changes c) FROM nomen.about a";
    let row = client.query_typed_one(query, &[]).await?;
    let (last, first): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let has_all = last <= sent.after || first.is_some_and(|first| first <= sent.after + 1);
    Ok(Some(match has_all {
        true => Found::NotMade,
        false => Found::Unknown("the database has forgotten changes since (`keep-changes`)".into()),
    }))
}

/// Ends jobs as they were found.
pub(crate) fn end_found(
    jobs: Vec<Waiting>,
    found: &Found,
    lost: &str,
    mut end: impl FnMut(Waiting, EndFound),
) {
    for waiting in jobs {
        let ended = match found {
            Found::Made(zones) => match waiting.job.zone() {
                Some(zone) if zones.contains(&zone) => EndFound::Made(zone),
                // A zone that is created goes alone.
                None => {
                    zones.first().map_or(EndFound::NotMade(lost.to_owned()), |zone| EndFound::Made(*zone))
                }
                Some(_) => EndFound::NotMade(lost.to_owned()),
            },
            Found::NotMade => EndFound::NotMade(lost.to_owned()),
            Found::Unknown(why) => EndFound::Unknown(format!("{lost}; {why}")),
        };
        end(waiting, ended);
    }
}

/// How one job ended whose answer was lost.
pub(crate) enum EndFound {
    Made(ZoneId),
    NotMade(String),
    Unknown(String),
}

impl EndFound {
    /// The fault of a job that was not made, or may not have been.
    pub(crate) fn fault(self) -> Option<DatabaseFault> {
        match self {
            Self::Made(_) => None,
            Self::NotMade(why) => Some(DatabaseFault::Unavailable(why)),
            Self::Unknown(why) => Some(DatabaseFault::Unclear(why)),
        }
    }
}
