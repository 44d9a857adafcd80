//! Zones of the database: which of them are served, and with which keys. Zones of the configuration, of
//! catalog zones and those added at run time have precedence over a zone of the database of the same name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ::database::{ListedZone, ZoneId};
use wire::{Serial, ZoneName};
use zone_plan::{DatabasePlan, Origin, PlannedZone, WantedZones};

use super::{LEAST_HELD, Removal, ZONES_A_TURN, ZoneManager};
use crate::changes::Changes;
use crate::database::{KnownZone, ZoneDatabase};
use telemetry::repeated::log_repeated;
use threads::sync::read;

/// News of the database about which zones it has.
pub(in crate::zones) enum DatabaseNews {
    /// All zones.
    Listed(Vec<ListedZone>),
    /// A zone that is new, or has other properties.
    Created(ListedZone),
    /// A zone that is gone.
    Removed(ZoneId, ZoneName),
}

impl ZoneManager {
    fn zone_database(&self) -> Option<&Arc<ZoneDatabase>> {
        self.executor.changes.as_ref()?.database()
    }

    /// Adds the zones of the database to the zones of a configuration, as far as they are known.
    /// Those that the database does not list any more and that are held back are removed by force.
    pub(super) fn join_database(&mut self, wanted: &mut WantedZones, removal: Removal) {
        self.joining.database.clone_from(&wanted.database);
        if let (Removal::Force, Some(database)) = (removal, self.zone_database().cloned()) {
            let held = std::mem::take(&mut self.joining.database_held);
            self.leave_database(&database, &held);
            database.set_held(0);
        }
        let (Some(plan), Some(database)) = (&self.joining.database, self.zone_database()) else { return };
        let others: HashMap<ZoneName, Origin> =
            wanted.specs.iter().map(|spec| (spec.apex.clone(), spec.origin.clone())).collect();
        for (apex, zone) in database.known() {
            let Some(planned) = served(plan, &apex, &zone, others.get(&apex)) else { continue };
            let PlannedZone { spec, peers, grants, queries, updates, listing } = planned;
            wanted.listings.extend(listing.map(|listing| (spec.apex.clone(), listing)));
            peers.into_iter().for_each(|peers| wanted.peers.set(&spec.apex, peers));
            wanted.transfers.set(&spec.apex, grants);
            wanted.queries.set(&spec.apex, queries);
            wanted.updates.set(&spec.apex, updates);
            wanted.specs.push(spec);
        }
    }

    /// Handles news of the database. Then the zone table has its zones, and `done` gets the serial number at
    /// hand of each listed zone.
    pub(super) fn of_database(&mut self, news: DatabaseNews, done: &SyncSender<Vec<Option<Serial>>>) {
        let serials = match news {
            DatabaseNews::Listed(zones) => self.database_listed(&zones),
            DatabaseNews::Created(zone) => {
                self.database_created(&zone);
                Vec::new()
            }
            DatabaseNews::Removed(id, apex) => {
                self.database_removed(id, &apex);
                Vec::new()
            }
        };
        // If a round of all zones is in progress, its end does this.
        if self.round.is_none() {
            self.produce(Removal::HoldBack);
        }
        // The receiver waits for it.
        let _ = done.try_send(serials);
    }

    fn database_listed(&mut self, zones: &[ListedZone]) -> Vec<Option<Serial>> {
        let Some(database) = self.zone_database().cloned() else { return Vec::new() };
        let before = database.known();
        let now: HashMap<ZoneName, KnownZone> =
            zones.iter().map(|zone| (zone.apex.clone(), KnownZone::from(zone))).collect();
        let gone: Vec<ZoneName> = before.keys().filter(|apex| !now.contains_key(*apex)).cloned().collect();
        let held = self.hold_back(&database, gone, before.len());
        let is_of_new_number =
            |apex: &ZoneName, zone: &KnownZone| before.get(apex).is_none_or(|before| before.id != zone.id);
        for (apex, _) in now.iter().filter(|(apex, zone)| is_of_new_number(apex, zone)) {
            // A zone with another number was created anew. It stays in service until its records come, and a
            // start before that must not take its version for one of the new zone.
            if before.contains_key(apex) {
                database.forget_now(apex);
            }
            self.take_next(apex);
        }
        let is_new = |(apex, zone): &(&ZoneName, &KnownZone)| before.get(*apex) != Some(*zone);
        let new: Vec<(ZoneName, KnownZone)> =
            now.iter().filter(is_new).map(|(apex, zone)| (apex.clone(), zone.clone())).collect();
        let kept = held.iter().filter_map(|apex| Some((apex.clone(), before.get(apex)?.clone())));
        database.set_all(now.into_iter().chain(kept).collect());
        for zones in new.chunks(ZONES_A_TURN) {
            self.want_of_database(zones);
        }
        let states = read(&self.table.states.zones);
        let serial = |zone: &ListedZone| {
            let status = states.get(&zone.apex)?.state.status();
            // Content of a zone that is served from elsewhere is not needed.
            if status.spec.origin != Origin::Database {
                return Some(zone.serial);
            }
            // The version at hand may be one of another zone: the connection before was lost meanwhile.
            let takes_next = |changes: &Arc<Changes>| changes.takes_next(&zone.apex);
            let is_void = self.executor.changes.as_ref().is_some_and(takes_next);
            status.zone.as_ref().filter(|_| !is_void).map(|zone| zone.serial())
        };
        zones.iter().map(serial).collect()
    }

    /// Removes zones that the database does not list any more, unless they are too many of so many: another
    /// or an empty database must not end the service of all zones. Returns the zones that stay.
    fn hold_back(&mut self, database: &ZoneDatabase, gone: Vec<ZoneName>, of: usize) -> Vec<ZoneName> {
        let is_held = gone.len() >= LEAST_HELD && gone.len() as f64 > self.bounds.max_removed * of as f64;
        let (gone, held) = if is_held { (Vec::new(), gone) } else { (gone, Vec::new()) };
        if is_held {
            log_repeated!(
                error,
                ERROR,
                ("database zones held", ""),
                "the database lists {} of {of} zones no longer, more than `max-removed`: they stay in service; \
                 `nomen ctl reload --force` removes them",
                held.len()
            );
        }
        self.leave_database(database, &gone);
        database.set_held(held.len());
        self.joining.database_held.clone_from(&held);
        held
    }

    fn database_created(&mut self, zone: &ListedZone) {
        let Some(database) = self.zone_database().cloned() else { return };
        let (apex, known) = (zone.apex.clone(), KnownZone::from(zone));
        let before = database.id(&apex);
        if before.is_some_and(|id| id != zone.id) {
            self.leave_database(&database, std::slice::from_ref(&apex));
        }
        if before != Some(zone.id) {
            self.take_next(&apex);
        }
        database.set(&apex, known.clone());
        self.want_of_database(&[(apex, known)]);
    }

    /// Has the first version of a zone of the database taken, whatever version of an earlier zone of its name
    /// there is.
    fn take_next(&self, apex: &ZoneName) {
        self.executor.changes.iter().for_each(|changes| changes.take_next(apex));
    }

    fn database_removed(&mut self, id: ZoneId, apex: &ZoneName) {
        let Some(database) = self.zone_database().cloned() else { return };
        if database.id(apex) == Some(id) {
            self.leave_database(&database, std::slice::from_ref(apex));
        }
    }

    /// Removes zones that the database does not have any more, and what is stored of them.
    fn leave_database(&mut self, database: &ZoneDatabase, gone: &[ZoneName]) {
        let served: Vec<ZoneName> = {
            let states = read(&self.table.states.zones);
            let is_here = |apex: &&ZoneName| {
                let origin = states.get(*apex).map(|zone| &zone.state.status().spec.origin);
                origin == Some(&Origin::Database)
            };
            gone.iter().filter(is_here).cloned().collect()
        };
        self.leave(served.iter());
        for apex in gone {
            database.remove(apex);
            database.forget(apex);
        }
        if let Some(changes) = &self.executor.changes {
            gone.iter().for_each(|apex| changes.leave(apex));
        }
    }

    fn want_of_database(&mut self, zones: &[(ZoneName, KnownZone)]) {
        let Some(plan) = self.joining.database.clone() else { return };
        let planned: Vec<PlannedZone> = {
            let states = read(&self.table.states.zones);
            let origin = |apex: &ZoneName| {
                let origin = states.get(apex).map(|zone| &zone.state.status().spec.origin);
                origin.filter(|origin| **origin != Origin::Database)
            };
            zones.iter().filter_map(|(apex, zone)| served(&plan, apex, zone, origin(apex))).collect()
        };
        self.want(planned);
    }
}

/// Returns a zone of the database as it is served; `None`, with a line in the log, if it is not.
fn served(
    plan: &DatabasePlan,
    apex: &ZoneName,
    zone: &KnownZone,
    other: Option<&Origin>,
) -> Option<PlannedZone> {
    let planned = match other {
        Some(origin) => Err(format!("there is such a zone here already ({origin})")),
        None => plan.zone(apex, zone.template.as_deref()),
    };
    planned
        .inspect_err(|why| {
            let about = ("database zone not served", &*apex.to_string());
            log_repeated!(error, ERROR, about, "zone {apex} of the database is not served: {why}");
        })
        .ok()
}
