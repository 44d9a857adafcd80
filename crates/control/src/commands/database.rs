//! `nomen ctl database`, and zones that are created in and removed from the database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use database::{Database, DatabaseFault, DatabaseNode, NewZone, RecordedChange, ZoneId};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use wire::{UnixTime, ZoneName};
use zone_plan::Origin;

use super::{CommandResult, ended_with};
use crate::database_state::{DatabaseState, zones_of};
use crate::fault::CommandFault;
use crate::parts::ServerParts;
use zone_manager::database::ZoneDatabase;
use zone_manager::zones::created::{CreationSource, ZoneCreation};
use zone_manager::zones::manager::{ReloadFault, RoundReport, Summary};

/// Longest time until this node follows a zone that it created or removed in the database.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval in which the zone table is looked at meanwhile.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(5);
/// Most zones that are named among those not served.
const MAX_UNSERVED: usize = 20;

/// Returns the state of the database, and the nodes that use it.
pub(super) async fn report(parts: &Arc<ServerParts>) -> CommandResult {
    let zones = Arc::clone(zones_of(parts).ok_or(CommandFault::NoDatabase)?);
    let nodes = match zones.database().cloned() {
        Some(database) => nodes(&database).await,
        None => Err(DatabaseFault::Unavailable("the connection has not started".into())),
    };
    super::blocking(parts, move |parts| {
        let state = DatabaseState::of(parts).ok_or(CommandFault::NoDatabase)?;
        let mut shown = state.json();
        shown["unserved_zones"] = unserved(parts, &zones);
        shown["commits"] = commits(&zones);
        match nodes {
            Ok(nodes) => {
                shown["nodes"] = nodes.iter().map(|node| node_row(node, &state)).collect();
            }
            Err(fault) => {
                shown["nodes"] = json!([]);
                shown["nodes_fault"] = fault.to_string().into();
            }
        }
        Ok(shown)
    })
    .await
}

/// Reads the table of nodes.
async fn nodes(database: &Database) -> Result<Vec<DatabaseNode>, DatabaseFault> {
    let (reply, result) = oneshot::channel();
    // The receiver waits for it.
    database.nodes(Box::new(move |nodes| drop(reply.send(nodes))));
    result.await.unwrap_or_else(|_| Err(stopping()))
}

fn stopping() -> DatabaseFault {
    DatabaseFault::Unavailable("the connection has ended".into())
}

/// Returns a node as it has last reported; this one as it is now.
fn node_row(node: &DatabaseNode, state: &DatabaseState) -> Value {
    let status = &state.status;
    let change = if node.name == state.node { status.followed } else { node.change };
    json!({
        "name": node.name,
        "seen": UnixTime::from(node.seen).as_secs(),
        "age_seconds": node.age.as_millis() as f64 / 1e3,
        "change": change,
        "behind": status.last_change.saturating_sub(change).max(0),
        "zones": node.zones,
        "version": node.version,
        "address": node.address.map(|address| address.to_string()),
        "signs": node.signs,
    })
}

/// Returns changes by their result.
fn commits(zones: &ZoneDatabase) -> Value {
    let Some(database) = zones.database() else { return Value::Null };
    let results = crate::database_state::results(database.counts());
    results.into_iter().map(|(word, count)| (word.to_owned(), Value::from(count))).collect()
}

/// Returns zones of the database without a version in service, each with the reason, by name.
fn unserved(parts: &ServerParts, zones: &ZoneDatabase) -> Value {
    let mut missing: Vec<(ZoneName, &str)> = Vec::new();
    for (apex, known) in zones.known() {
        match parts.table.get(&apex) {
            Some(state) if state.zone.is_some() => {}
            Some(state) if state.spec.origin != Origin::Database => {}
            Some(_) => missing.push((apex, "no valid version")),
            None if known.template.is_some() => missing.push((apex, "no such template here")),
            None => missing.push((apex, "not taken over yet")),
        }
    }
    missing.sort_by(|(a, _), (b, _)| (a.as_name(), a.view()).cmp(&(b.as_name(), b.view())));
    let changes = parts.changes.as_ref();
    let row = |(apex, why): &(ZoneName, &str)| {
        let fault = changes.and_then(|changes| changes.status(apex)?.fault);
        json!({"zone": apex.to_string(), "why": fault.as_deref().unwrap_or(why)})
    };
    missing.iter().take(MAX_UNSERVED).map(row).collect()
}

/// Returns the zones of the database if a zone is to be created in it. Zones from primaries are those of this
/// node alone.
pub(super) fn creates(parts: &ServerParts, zone: &ZoneCreation) -> Option<Arc<ZoneDatabase>> {
    zones_of(parts).filter(|_| matches!(zone.source, CreationSource::Records(_))).cloned()
}

/// Returns the zones of the database, and the number of this one, if it is served from there or not at all.
pub(super) fn has(parts: &ServerParts, apex: &ZoneName) -> Option<(Arc<ZoneDatabase>, ZoneId)> {
    let zones = zones_of(parts)?;
    let is_served_otherwise =
        parts.table.get(apex).is_some_and(|state| state.spec.origin != Origin::Database);
    let id = zones.id(apex).filter(|_| !is_served_otherwise)?;
    Some((Arc::clone(zones), id))
}

/// Creates a zone in the database, and waits until this node serves it.
pub(super) async fn create(
    parts: &Arc<ServerParts>,
    zones: Arc<ZoneDatabase>,
    zone: ZoneCreation,
    author: String,
) -> CommandResult {
    if zone.dnssec_policy.is_some() {
        let message = "zones of the database are signed by the `dnssec-policy` of their template".to_owned();
        return Err(CommandFault::Reload(ReloadFault::Configuration(message.into())));
    }
    let (apex, template) = (zone.apex.clone(), zone.template.clone());
    let content = ended_with(parts.manager.first_version(zone)).await.map_err(CommandFault::Reload)?;
    let database = zones.database().ok_or_else(stopping)?;
    let (reply, result) = oneshot::channel();
    let new = NewZone { apex: apex.clone(), template, content, author };
    // The client may have disconnected.
    database.create(new, Box::new(move |created| drop(reply.send(created))));
    let id = result.await.unwrap_or_else(|_| Err(stopping()))?;
    let is_served = || {
        let is_known = zones.id(&apex) == Some(id);
        let entry = || parts.frontend.engine.zone_entry(&apex);
        is_known && entry().is_some_and(|entry| entry.zone().is_some())
    };
    followed(&apex, is_served).await?;
    let summary = Summary { zones: 1, loaded: 1, ..Summary::default() };
    Ok(json!(RoundReport { summary, ..RoundReport::default() }))
}

/// Removes a zone from the database, and waits until this node does not serve it any more.
pub(super) async fn remove(
    parts: &Arc<ServerParts>,
    zones: Arc<ZoneDatabase>,
    (apex, id): (&ZoneName, ZoneId),
    author: String,
) -> CommandResult {
    let database = zones.database().ok_or_else(stopping)?;
    let (reply, result) = oneshot::channel();
    // The client may have disconnected.
    database.remove(id, author, Box::new(move |removed| drop(reply.send(removed))));
    result.await.unwrap_or_else(|_| Err(stopping()))?;
    followed(apex, || zones.id(apex) != Some(id)).await?;
    // Without a reply, the server is stopping.
    let _ = parts.manager.publish_now().await;
    let summary = Summary { removed: 1, ..Summary::default() };
    Ok(json!(RoundReport { summary, ..RoundReport::default() }))
}

/// Waits until this node has followed the database.
async fn followed(apex: &ZoneName, has_followed: impl Fn() -> bool) -> Result<(), CommandFault> {
    let until = Instant::now() + FOLLOW_TIMEOUT;
    while !has_followed() {
        if Instant::now() >= until {
            return Err(CommandFault::NotFollowed(apex.to_string()));
        }
        tokio::time::sleep(FOLLOW_INTERVAL).await;
    }
    Ok(())
}

/// Returns the newest changes of a zone of the database, at most `most`; `None` if the zone is not in it or
/// it cannot be asked.
pub async fn recorded_changes(
    parts: &ServerParts,
    apex: &ZoneName,
    most: usize,
) -> Option<Vec<RecordedChange>> {
    let (zones, id) = has(parts, apex)?;
    let (reply, result) = oneshot::channel();
    // The client may have disconnected.
    zones.database()?.history(id, most, Box::new(move |rows| drop(reply.send(rows))));
    result.await.ok()?.ok()
}
