//! Whether the server is ready: `/readyz`.

use crate::database_state::zones_of;
use crate::parts::ServerParts;
use zone_manager::managed::ZoneStatus;
use zone_plan::Origin;

/// Largest number of zones that are named.
const MAX_ZONES: usize = 20;

/// Returns why the server is not ready, with the names of some zones that have no version in service; `None`
/// if every zone has one, even an old one.
///
/// A zone whose records in the database are no zone does not count: it is the same on every node, and
/// a load balancer would take all of them out of service.
pub(crate) fn unready(parts: &ServerParts) -> Option<String> {
    let zones = parts.table.all();
    let is_silent = |zone: &ZoneStatus| zone.zone.is_none() && !is_unfit(parts, zone);
    let mut silent: Vec<_> = zones.iter().filter(|zone| is_silent(zone)).collect();
    if silent.is_empty() {
        return database(parts);
    }
    let count = silent.len();
    silent.sort_by(|a, b| a.spec.name().cmp(&b.spec.name()));
    let mut out = format!("not ready: {count} of {} zones are not answered\n", zones.len());
    silent.iter().take(MAX_ZONES).for_each(|zone| out += &format!("{} {}\n", zone.spec.apex, zone.word()));
    Some(out)
}

/// How far this node is with the first zones of its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstZones {
    /// They are being read.
    Awaited,
    /// They are in service, or there are none.
    InService,
    /// The database cannot be reached.
    OutOfReach,
}

/// Whether there is a database of which this node knows no zones from an earlier run.
pub fn lacks_first_zones(parts: &ServerParts) -> bool {
    zones_of(parts).is_some_and(|zones| zones.count() == 0)
}

/// Returns how far this node is with the first zones of its database.
pub fn first_zones(parts: &ServerParts) -> FirstZones {
    let Some(database) = zones_of(parts).and_then(|zones| zones.database()) else {
        return FirstZones::InService;
    };
    let status = database.status();
    if status.current_at.is_none() {
        return if status.fault.is_some() { FirstZones::OutOfReach } else { FirstZones::Awaited };
    }
    let is_awaited = |zone: &ZoneStatus| {
        zone.spec.origin == Origin::Database && zone.zone.is_none() && !is_unfit(parts, zone)
    };
    match parts.table.all().iter().any(|zone| is_awaited(zone)) {
        true => FirstZones::Awaited,
        false => FirstZones::InService,
    }
}

/// Whether the records of a zone in the database are no zone.
fn is_unfit(parts: &ServerParts, zone: &ZoneStatus) -> bool {
    let changes = || parts.changes.as_ref()?.status(&zone.spec.apex)?.fault;
    zone.spec.origin == Origin::Database && changes().is_some()
}

/// Returns that this node does not know the zones of the database, neither from there nor from an earlier
/// run, if that is so.
fn database(parts: &ServerParts) -> Option<String> {
    let zones = zones_of(parts).filter(|zones| zones.count() == 0)?;
    let status = zones.database().map(|database| database.status()).unwrap_or_default();
    let why = status.fault.map_or_else(String::new, |fault| format!(": {fault}"));
    let unread = || format!("not ready: the zones of the database have not been read{why}\n");
    status.current_at.is_none().then(unread)
}
