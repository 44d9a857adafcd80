//! The state of the database of zones, for operators: what `nomen ctl`, metrics, `/readyz` and the API show.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use database::{DatabaseCounts, DatabaseStatus};
use serde_json::{Value, json};
use wire::UnixTime;
use zone_manager::database::ZoneDatabase;
use zone_manager::database::sections::SectionStatus;
use zone_plan::Origin;

use crate::parts::ServerParts;
use config::database::DatabaseSchema;
use config::sections::{SectionState, SectionUse};

/// Most sections that are named among those with faults.
const MAX_FAULTS: usize = 20;

/// The state of the database at a moment.
pub struct DatabaseState {
    /// The state of the connection.
    pub status: DatabaseStatus,
    /// The name of this node.
    pub node: String,
    schema: &'static str,
    /// For how long this node may lack changes of the database; zero: it has all of them.
    pub lag: Duration,
    /// Zones of the database, as far as this node knows.
    pub zones: u64,
    /// Zones of the database that this node serves from it.
    pub served: u64,
    /// Zones of the database that another zone of this node has precedence over.
    pub shadowed: u64,
    /// Zones that the database does not list any more, and that stay in service until an operator removes
    /// them.
    pub held: u64,
    /// Sections of the configuration that the database has.
    pub sections: SectionStatus,
}

/// Returns the zones of the database, if there is one.
pub fn zones_of(parts: &ServerParts) -> Option<&Arc<ZoneDatabase>> {
    parts.changes.as_ref()?.database()
}

/// Returns numbers of changes of zones by their result, with its word.
pub fn results(counts: &DatabaseCounts) -> [(&'static str, u64); 5] {
    [
        ("committed", &counts.committed),
        ("conflict", &counts.conflicts),
        ("refused", &counts.refused),
        ("unavailable", &counts.unavailable),
        ("unclear", &counts.unclear),
    ]
    .map(|(word, count)| (word, count.load(Relaxed)))
}

impl DatabaseState {
    /// Returns the state; `None` without a database. Looks at every zone.
    pub fn of(parts: &ServerParts) -> Option<DatabaseState> {
        let zones = zones_of(parts)?;
        let status = match zones.database() {
            Some(database) => database.status(),
            None => DatabaseStatus::default(),
        };
        let section = parts.in_force.settings().database.as_ref().map(|section| {
            let schema = match section.schema.value {
                DatabaseSchema::Nomen => "nomen",
                DatabaseSchema::PowerDns => "powerdns",
            };
            (section.node_name(), schema)
        });
        let (node, schema) = section.unwrap_or_default();
        let (mut served, mut shadowed) = (0, 0);
        for state in parts.table.all() {
            match state.spec.origin {
                Origin::Database => served += u64::from(state.zone.is_some()),
                _ => shadowed += u64::from(zones.id(&state.spec.apex).is_some()),
            }
        }
        let lag = lag(&status, parts.process.started, SystemTime::now());
        Some(DatabaseState {
            status,
            node,
            schema,
            lag,
            zones: zones.count() as u64,
            served,
            shadowed,
            held: zones.held() as u64,
            sections: parts.sections.as_ref().map(|sections| sections.status()).unwrap_or_default(),
        })
    }

    /// Zones of the database that clients get no answers from.
    pub fn unserved(&self) -> u64 {
        self.zones.saturating_sub(self.served + self.shadowed)
    }

    /// Returns the state of the sections as JSON.
    fn sections(&self) -> Value {
        let SectionStatus { number, states, fault, is_held } = &self.sections;
        let count =
            |fits: &dyn Fn(&SectionUse) -> bool| states.iter().filter(|state| fits(&state.used)).count();
        let faulty = states.iter().filter_map(|state| Some((state, state.used.fault()?)));
        let row = |(state, fault): (&SectionState, &str)| {
            let SectionState { section, used } = state;
            json!({"kind": section.kind, "name": section.name, "use": used.word(), "why": fault})
        };
        json!({
            "number": number,
            "count": states.len(),
            "in_force": count(&|used| *used == SectionUse::InForce),
            "own_file": count(&|used| *used == SectionUse::OwnFile),
            "no_resolver": count(&|used| *used == SectionUse::NoResolver),
            "unusable": self.sections.unusable(),
            "faults": faulty.take(MAX_FAULTS).map(row).collect::<Vec<_>>(),
            "not_applied": fault,
            "held": is_held,
        })
    }

    /// Returns the state as JSON.
    pub fn json(&self) -> Value {
        let status = &self.status;
        let seconds = |at: SystemTime| UnixTime::from(at).as_secs();
        json!({
            "node": self.node,
            "schema": self.schema,
            "connected": status.connected,
            "host": status.host,
            "since": status.since.map(seconds),
            "fault": status.fault,
            "server": status.server,
            "last_change": status.last_change,
            "followed": status.followed,
            "lag_seconds": self.lag.as_millis() as f64 / 1e3,
            "current_at": status.current_at.map(seconds),
            "zones": self.zones,
            "unread": status.unread,
            "unfit": status.unfit,
            "unserved": self.unserved(),
            "shadowed": self.shadowed,
            "held": self.held,
            "waiting": status.waiting,
            "signs": status.signs,
            "sections": self.sections(),
        })
    }
}

/// Returns for how long a node may lack changes: since it last had all of them, or since its start.
fn lag(status: &DatabaseStatus, started: SystemTime, now: SystemTime) -> Duration {
    let is_current = status.connected && status.unread == 0 && status.followed >= status.last_change;
    match status.current_at {
        Some(_) if is_current => Duration::ZERO,
        at => now.duration_since(at.unwrap_or(started)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_lags_while_it_lacks_changes_or_the_connection() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let current = DatabaseStatus {
            connected: true,
            last_change: 7,
            followed: 7,
            current_at: Some(at(50)),
            ..DatabaseStatus::default()
        };
        let lag = |status: &DatabaseStatus| lag(status, at(10), at(100)).as_secs();
        assert_eq!(lag(&current), 0);
        assert_eq!(lag(&DatabaseStatus { followed: 6, ..current.clone() }), 50);
        assert_eq!(lag(&DatabaseStatus { unread: 1, ..current.clone() }), 50);
        assert_eq!(lag(&DatabaseStatus { connected: false, ..current.clone() }), 50);
        assert_eq!(lag(&DatabaseStatus { current_at: None, ..current.clone() }), 90, "since the start");
        assert_eq!(lag(&DatabaseStatus { current_at: Some(at(500)), followed: 6, ..current }), 0);
    }
}
