//! Reading: the list of zones, the content of zones as steps or whole, the changes after a number, the
//! history of a zone, the nodes. Rows are handled as they arrive, so memory is bounded by the largest zone
//! or change.

use std::collections::{HashMap, HashSet};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type as SqlType};
use tokio_postgres::{Client, Row, RowStream};
use wire::hash::HashKey;
use wire::{Serial, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use crate::connect::fault_text;
use crate::counts::DatabaseNode;
use crate::interface::{ListedZone, RecordedChange, ZoneContent, ZoneId};
use crate::schema::LOCK_CONDITION;
use crate::text::{ZoneReader, change_set, zone_name};

/// Longest wait for the next row.
const ROW_TIMEOUT: Duration = Duration::from_secs(60);
/// Zones whose content is read by one statement.
pub(crate) const ZONES_AT_A_TIME: usize = 1000;
/// Changes that one statement reads.
pub(crate) const CHANGES_AT_A_TIME: i64 = 1000;
/// Most records of the steps of one zone; beyond them the zone is read whole.
const MOST_STEP_RECORDS: usize = 100_000;
/// Records from which a zone is built on another thread.
const LARGE_ZONE: u64 = 20_000;
/// Rows after which other tasks of the thread have their turn.
const ROWS_IN_A_TURN: u64 = 500;

/// A fault while reading: of the connection, or rows that are not as they should be.
#[derive(Debug)]
pub(crate) struct ReadFault(pub(crate) String);

impl From<tokio_postgres::Error> for ReadFault {
    fn from(fault: tokio_postgres::Error) -> Self {
        ReadFault(fault_text(&fault))
    }
}

/// Rows of a query, as they arrive.
struct Rows<'a> {
    stream: Pin<&'a mut RowStream>,
    count: u64,
    /// Longest wait for the next row.
    limit: Duration,
}

impl Rows<'_> {
    /// Returns the next row.
    async fn next(&mut self) -> Result<Option<Row>, ReadFault> {
        self.count += 1;
        if self.count.is_multiple_of(ROWS_IN_A_TURN) {
            tokio::task::yield_now().await;
        }
        match timeout(self.limit, self.stream.try_next()).await {
            Ok(row) => Ok(row?),
            Err(_) => Err(ReadFault(format!("no answer within {:?}", self.limit))),
        }
    }
}

/// Parameters of a query with their types, so that it needs no round trip before.
type Typed<'a> = &'a [(&'a (dyn ToSql + Sync), SqlType)];

async fn stream(client: &Client, query: &str, parameters: Typed<'_>) -> Result<RowStream, ReadFault> {
    let parameters = parameters.iter().map(|(value, kind)| (*value, kind.clone()));
    match timeout(ROW_TIMEOUT, client.query_typed_raw(query, parameters)).await {
        Ok(rows) => Ok(rows?),
        Err(_) => Err(ReadFault(format!("no answer within {ROW_TIMEOUT:?}"))),
    }
}

/// All zones of one snapshot.
pub(crate) struct Listing {
    /// Which database it is: a copy that went its own way is another one.
    pub(crate) cluster: String,
    /// The number of the last change in it.
    pub(crate) last_change: i64,
    pub(crate) zones: Vec<ListedZone>,
}

/// Reads the list of all zones.
pub(crate) async fn listing(client: &Client) -> Result<Listing, ReadFault> {
    let query = "SELECT a.cluster::text, a.last_change, z.id, z.view, z.name, z.template, z.serial \
                 FROM nomen.about a LEFT JOIN nomen.zones z ON true ORDER BY z.id";
    let stream = pin!(stream(client, query, &[]).await?);
    let mut rows = Rows { stream, count: 0, limit: ROW_TIMEOUT };
    let mut listing = Listing { cluster: String::new(), last_change: 0, zones: Vec::new() };
    while let Some(row) = rows.next().await? {
        if listing.cluster.is_empty() {
            listing.cluster = row.try_get(0)?;
            listing.last_change = row.try_get(1)?;
        }
        if row.try_get::<_, Option<i64>>(2)?.is_some() {
            listing.zones.extend(listed_zone(&row, 2)?);
        }
    }
    match listing.cluster.is_empty() {
        true => Err(ReadFault("the table nomen.about has no row".into())),
        false => Ok(listing),
    }
}

/// Reads a zone from the columns id, view, name, template, serial. `None` if its name cannot be read, which
/// is logged.
fn listed_zone(row: &Row, at: usize) -> Result<Option<ListedZone>, ReadFault> {
    let id = ZoneId(row.try_get(at)?);
    let (view, name): (&str, &str) = (row.try_get(at + 1)?, row.try_get(at + 2)?);
    match zone_name(view, name) {
        Ok(apex) => {
            let (template, serial) = (row.try_get(at + 3)?, serial(row.try_get(at + 4)?));
            Ok(Some(ListedZone { id, apex, template, serial }))
        }
        Err(fault) => {
            tracing::error!("zone {name:?} (number {id}) of the database is not served: {fault}");
            Ok(None)
        }
    }
}

/// The table allows only numbers below 2^32.
fn serial(number: i64) -> Serial {
    Serial(number as u32)
}

/// Reads zones by their numbers. Those that are gone are left out.
pub(crate) async fn zones(client: &Client, ids: &[i64]) -> Result<Vec<ListedZone>, ReadFault> {
    let query = "SELECT id, view, name, template, serial FROM nomen.zones WHERE id = ANY($1) ORDER BY id";
    let rows = client.query_typed(query, &[(&ids, SqlType::INT8_ARRAY)]).await?;
    let mut found = Vec::new();
    for row in rows {
        found.extend(listed_zone(&row, 0)?);
    }
    Ok(found)
}

/// A zone whose content is wanted.
#[derive(Clone, Debug)]
pub(crate) struct WantedZone {
    pub(crate) id: ZoneId,
    pub(crate) apex: ZoneName,
    /// The serial of the version that steps are to begin at; `None`: the zone whole.
    pub(crate) at_hand: Option<Serial>,
}

/// Reads the content of zones: steps if there are all of them, else whole. Zones that are gone are left
/// out. `give` is called once for each zone.
pub(crate) async fn contents(
    client: &Client,
    key: &HashKey,
    wanted: Vec<WantedZone>,
    give: &mut (impl FnMut(ZoneId, &ZoneName, ZoneContent) + Send),
) -> Result<(), ReadFault> {
    let by_steps: Vec<&WantedZone> = wanted.iter().filter(|zone| zone.at_hand.is_some()).collect();
    let mut done = HashSet::new();
    for part in by_steps.chunks(ZONES_AT_A_TIME) {
        for (id, steps) in steps_since(client, part).await? {
            let apex = part.iter().find(|zone| zone.id == id).map(|zone| &zone.apex);
            if let Some(apex) = apex {
                give(id, apex, ZoneContent::Steps(steps));
                done.insert(id);
            }
        }
    }
    let whole: Vec<(ZoneId, &ZoneName)> =
        wanted.iter().filter(|zone| !done.contains(&zone.id)).map(|zone| (zone.id, &zone.apex)).collect();
    for part in whole.chunks(ZONES_AT_A_TIME) {
        whole_zones(client, key, part, give).await?;
    }
    Ok(())
}

/// The steps of one zone while they are read.
struct Chain {
    id: ZoneId,
    /// The serial to which the steps lead so far; `None`: they do not fit together.
    reached: Option<Serial>,
    /// The serial of the zone.
    goal: Serial,
    records: usize,
    steps: Vec<Arc<ChangeSet>>,
}

impl Chain {
    /// Adds a row: kind, serials, records. Returns nothing: a row that does not fit ends the chain.
    fn add(&mut self, row: &Row) -> Result<(), ReadFault> {
        let kind: &str = row.try_get(2)?;
        if matches!(kind, "properties" | "keys") {
            return Ok(());
        }
        let (before, after): (Option<i64>, Option<i64>) = (row.try_get(3)?, row.try_get(4)?);
        let (removed, added): (Option<Vec<&str>>, Option<Vec<&str>>) = (row.try_get(5)?, row.try_get(6)?);
        let (before, after) = (before.map(serial), after.map(serial));
        let fits = kind == "change" && self.reached.is_some() && self.reached == before;
        self.reached = None;
        if let (true, Some(before), Some(after), Some(removed), Some(added)) =
            (fits, before, after, removed, added)
        {
            self.records += removed.len() + added.len();
            if self.records <= MOST_STEP_RECORDS
                && let Ok(step) = change_set(before, after, &removed, &added)
            {
                self.steps.push(Arc::new(step));
                self.reached = Some(after);
            }
        }
        Ok(())
    }

    /// The steps, if they lead to the version of the zone.
    fn finish(self) -> Option<(ZoneId, Vec<Arc<ChangeSet>>)> {
        (self.reached == Some(self.goal) && !self.steps.is_empty()).then_some((self.id, self.steps))
    }
}

/// Reads the steps from the versions at hand to those of the database, where there are all of them.
async fn steps_since(
    client: &Client,
    wanted: &[&WantedZone],
) -> Result<Vec<(ZoneId, Vec<Arc<ChangeSet>>)>, ReadFault> {
    let query = "SELECT z.id, z.serial, c.kind, c.serial_before, c.serial_after, c.removed, c.added, w.serial \
        FROM unnest($1::bigint[], $2::bigint[]) AS w (zone, serial) \
        JOIN nomen.zones z ON z.id = w.zone \
        CROSS JOIN LATERAL (SELECT max(f.number) AS number FROM nomen.changes f \
            WHERE f.zone = w.zone AND f.kind = 'change' AND f.serial_before = w.serial) AS first \
        JOIN nomen.changes c ON c.zone = w.zone AND c.number >= first.number \
        ORDER BY z.id, c.number";
    let ids: Vec<i64> = wanted.iter().map(|zone| zone.id.0).collect();
    let serials: Vec<i64> =
        wanted.iter().map(|zone| zone.at_hand.map_or(-1, |serial| i64::from(serial.0))).collect();
    let parameters: Typed<'_> = &[(&ids, SqlType::INT8_ARRAY), (&serials, SqlType::INT8_ARRAY)];
    let stream = pin!(stream(client, query, parameters).await?);
    let mut rows = Rows { stream, count: 0, limit: ROW_TIMEOUT };
    let (mut found, mut chain): (Vec<_>, Option<Chain>) = (Vec::new(), None);
    while let Some(row) = rows.next().await? {
        let id = ZoneId(row.try_get(0)?);
        if chain.as_ref().is_none_or(|chain| chain.id != id) {
            found.extend(chain.take().and_then(Chain::finish));
        }
        let (goal, begins) = (serial(row.try_get(1)?), serial(row.try_get(7)?));
        let begin = || Chain { id, reached: Some(begins), goal, records: 0, steps: Vec::new() };
        chain.get_or_insert_with(begin).add(&row)?;
    }
    found.extend(chain.and_then(Chain::finish));
    Ok(found)
}

/// Reads zones whole. Zones that are gone are left out.
async fn whole_zones(
    client: &Client,
    key: &HashKey,
    wanted: &[(ZoneId, &ZoneName)],
    give: &mut (impl FnMut(ZoneId, &ZoneName, ZoneContent) + Send),
) -> Result<(), ReadFault> {
    let query = "SELECT z.id, r.name, r.type, r.ttl, r.data \
        FROM nomen.zones z LEFT JOIN nomen.rrsets r ON r.zone = z.id \
        WHERE z.id = ANY($1) ORDER BY z.id, lower(r.name)";
    let ids: Vec<i64> = wanted.iter().map(|(id, _)| id.0).collect();
    let names: HashMap<i64, &ZoneName> = wanted.iter().map(|(id, apex)| (id.0, *apex)).collect();
    let stream = pin!(stream(client, query, &[(&ids, SqlType::INT8_ARRAY)]).await?);
    let mut rows = Rows { stream, count: 0, limit: ROW_TIMEOUT };
    let mut reader: Option<(i64, &ZoneName, ZoneReader)> = None;
    while let Some(row) = rows.next().await? {
        let id: i64 = row.try_get(0)?;
        let Some(apex) = names.get(&id) else { continue };
        if reader.as_ref().is_none_or(|(current, ..)| *current != id)
            && let Some((done, apex, read)) = reader.replace((id, apex, ZoneReader::new(apex, key)))
        {
            give(ZoneId(done), apex, finish(read).await);
        }
        // A zone without records has one row of nulls.
        if let (Some((_, _, reader)), Some(name)) = (&mut reader, row.try_get::<_, Option<&str>>(1)?) {
            let data: Vec<&str> = row.try_get(4)?;
            reader.add(name, row.try_get(2)?, row.try_get(3)?, &data);
        }
    }
    if let Some((done, apex, read)) = reader {
        give(ZoneId(done), apex, finish(read).await);
    }
    Ok(())
}

/// Builds a zone, on another thread if it is large.
async fn finish(reader: ZoneReader) -> ZoneContent {
    let built = match reader.records() {
        LARGE_ZONE.. => tokio::task::spawn_blocking(move || reader.finish())
            .await
            .unwrap_or_else(|_| Err("it could not be built".into())),
        _ => reader.finish(),
    };
    match built {
        Ok(zone) => ZoneContent::Whole(Arc::new(zone)),
        Err(fault) => ZoneContent::Unfit(fault),
    }
}

/// Reads one zone whole; `None` if it is gone.
pub(crate) async fn whole_zone(
    client: &Client,
    key: &HashKey,
    id: ZoneId,
    apex: &ZoneName,
) -> Result<Option<Result<Arc<Zone>, String>>, ReadFault> {
    let mut found = None;
    whole_zones(client, key, &[(id, apex)], &mut |_, _, content| {
        found = match content {
            ZoneContent::Whole(zone) => Some(Ok(zone)),
            ZoneContent::Unfit(why) => Some(Err(why)),
            ZoneContent::Steps(_) => None,
        };
    })
    .await?;
    Ok(found)
}

/// A change as a reader follows it.
#[derive(Debug)]
pub(crate) struct FollowedChange {
    pub(crate) number: i64,
    pub(crate) tag: i64,
    pub(crate) zone: ZoneId,
    pub(crate) apex: Option<ZoneName>,
    pub(crate) kind: FollowedKind,
}

/// What a change is.
#[derive(Debug)]
pub(crate) enum FollowedKind {
    /// The zone is new.
    Created,
    /// Records changed. `None`: they cannot be read as a step, so the zone is to be read whole.
    Step(Option<Arc<ChangeSet>>),
    /// The zone changed as a whole.
    Replaced,
    Removed,
    /// Its template changed.
    Properties,
    /// Its keys changed.
    Keys,
    /// A section of the configuration changed; there is no zone.
    Section,
}

/// Reads the changes after a number, [`CHANGES_AT_A_TIME`] at most and not many records of them, and
/// returns the number of the last change in the same snapshot. `give` is called for each, in order.
pub(crate) async fn changes_after(
    client: &Client,
    after: i64,
    limit: Duration,
    give: &mut (impl FnMut(FollowedChange) + Send),
) -> Result<i64, ReadFault> {
    let query = "SELECT a.last_change, c.number, c.tag, c.zone, c.view, c.name, c.kind, c.serial_before, \
            c.serial_after, c.removed, c.added \
        FROM nomen.about a LEFT JOIN LATERAL (SELECT s.*, \
                sum(coalesce(cardinality(s.removed), 0) + coalesce(cardinality(s.added), 0)) \
                    OVER (ORDER BY s.number) AS records \
            FROM (SELECT * FROM nomen.changes WHERE number > $1 ORDER BY number LIMIT $2) AS s \
        ) AS c ON c.records <= $3 OR c.number = $1 + 1 ORDER BY c.number";
    let parameters: Typed<'_> = &[
        (&after, SqlType::INT8),
        (&CHANGES_AT_A_TIME, SqlType::INT8),
        (&(MOST_STEP_RECORDS as i64), SqlType::INT8),
    ];
    let stream = timeout(limit, stream(client, query, parameters)).await;
    let stream = pin!(stream.unwrap_or_else(|_| Err(ReadFault(format!("no answer within {limit:?}"))))?);
    let mut rows = Rows { stream, count: 0, limit };
    let mut last = None;
    while let Some(row) = rows.next().await? {
        last = Some(row.try_get(0)?);
        if row.try_get::<_, Option<i64>>(1)?.is_some() {
            give(followed(&row)?);
        }
    }
    last.ok_or_else(|| ReadFault("the table nomen.about has no row".into()))
}

fn followed(row: &Row) -> Result<FollowedChange, ReadFault> {
    let kind = match row.try_get::<_, &str>(6)? {
        "create" => FollowedKind::Created,
        "change" => FollowedKind::Step(followed_step(row)?),
        "remove" => FollowedKind::Removed,
        "properties" => FollowedKind::Properties,
        "keys" => FollowedKind::Keys,
        "section" => FollowedKind::Section,
        _ => FollowedKind::Replaced,
    };
    Ok(FollowedChange {
        number: row.try_get(1)?,
        tag: row.try_get(2)?,
        zone: ZoneId(row.try_get(3)?),
        apex: zone_name(row.try_get(4)?, row.try_get(5)?).ok(),
        kind,
    })
}

fn followed_step(row: &Row) -> Result<Option<Arc<ChangeSet>>, ReadFault> {
    let (before, after): (Option<i64>, Option<i64>) = (row.try_get(7)?, row.try_get(8)?);
    let (removed, added): (Option<Vec<&str>>, Option<Vec<&str>>) = (row.try_get(9)?, row.try_get(10)?);
    let (Some(before), Some(after), Some(removed), Some(added)) = (before, after, removed, added) else {
        return Ok(None);
    };
    Ok(change_set(serial(before), serial(after), &removed, &added).ok().map(Arc::new))
}

/// Returns the tag of a change; `None` if there is none of this number.
pub(crate) async fn tag_of(client: &Client, number: i64) -> Result<Option<i64>, ReadFault> {
    let query = "SELECT tag FROM nomen.changes WHERE number = $1";
    let rows = client.query_typed(query, &[(&number, SqlType::INT8)]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Reads the last changes of a zone, the newest first.
pub(crate) async fn history(
    client: &Client,
    zone: ZoneId,
    most: usize,
) -> Result<Vec<RecordedChange>, ReadFault> {
    let query = "SELECT number, kind, serial_before, serial_after, removed, added, author, node, at \
        FROM nomen.changes WHERE zone = $1 ORDER BY number DESC LIMIT $2";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = client.query_typed(query, &[(&zone.0, SqlType::INT8), (&most, SqlType::INT8)]).await?;
    let change = |row: &Row| {
        Ok(RecordedChange {
            number: row.try_get(0)?,
            kind: row.try_get(1)?,
            before: row.try_get::<_, Option<i64>>(2)?.map(serial),
            after: row.try_get::<_, Option<i64>>(3)?.map(serial),
            removed: row.try_get::<_, Option<_>>(4)?.unwrap_or_default(),
            added: row.try_get::<_, Option<_>>(5)?.unwrap_or_default(),
            author: row.try_get(6)?,
            node: row.try_get(7)?,
            at: row.try_get(8)?,
        })
    };
    rows.iter().map(change).collect()
}

/// Reads the table of nodes.
pub(crate) async fn nodes(client: &Client) -> Result<Vec<DatabaseNode>, ReadFault> {
    let query = format!(
        "SELECT n.name, n.seen, greatest(extract(epoch FROM clock_timestamp() - n.seen), 0)::float8, n.change, n.zones, \
         n.version, n.address, EXISTS (SELECT FROM nomen.signer s JOIN pg_locks l ON l.pid = s.session \
             AND {LOCK_CONDITION} WHERE s.node = n.name) \
         FROM nomen.nodes n ORDER BY n.name"
    );
    let node = |row: &Row| {
        Ok(DatabaseNode {
            name: row.try_get(0)?,
            seen: row.try_get::<_, SystemTime>(1)?,
            age: Duration::try_from_secs_f64(row.try_get(2)?).unwrap_or_default(),
            change: row.try_get(3)?,
            zones: row.try_get::<_, i64>(4)?.unsigned_abs(),
            version: row.try_get(5)?,
            address: row.try_get(6)?,
            signs: row.try_get(7)?,
        })
    };
    client.query_typed(&query, &[]).await?.iter().map(node).collect()
}
