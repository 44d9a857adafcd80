//! Changes of a zone, read from disk for IXFR.

use std::sync::Arc;

use journal::History;
use wire::{Serial, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use crate::changes::Changes;
use crate::secondaries::Secondaries;
use crate::stores::differences::Differences;
use crate::stores::produced::ProducedStores;
use telemetry::repeated::log_repeated;

/// The stores of changes of all zones.
#[derive(Clone)]
pub struct Histories {
    /// Of zones that updates have changed.
    pub changes: Option<Arc<Changes>>,
    /// Of zone files.
    pub differences: Option<Arc<Differences>>,
    /// Of secondary zones.
    pub secondaries: Arc<Secondaries>,
    /// Of produced catalog zones.
    pub produced: Arc<ProducedStores>,
}

impl Histories {
    /// Whether changes of a zone may be stored.
    pub(super) fn knows(&self, apex: &ZoneName) -> bool {
        self.produced.has(apex)
            || self.changes.as_ref().is_some_and(|changes| changes.is_stored(apex))
            || self.differences.as_ref().is_some_and(|differences| differences.knows(apex))
            || self.secondaries.keeps(apex)
    }

    /// Returns the changes from a version to this one, in order; none if they are not stored, or have more
    /// records than the zone or than `most`. Waits for the disk.
    pub(super) fn differences(
        &self,
        apex: &ZoneName,
        zone: &Zone,
        from: Serial,
        most: u64,
    ) -> Vec<Arc<ChangeSet>> {
        let of_changes = self.changes.as_ref().filter(|changes| changes.is_stored(apex));
        let of_files = self.differences.as_ref().filter(|differences| differences.knows(apex));
        let history = match (of_changes, of_files) {
            _ if self.produced.has(apex) => self.produced.history(apex, from),
            (Some(changes), _) => changes.history(apex, from),
            (None, Some(differences)) => differences.history(apex, from),
            (None, None) => self.secondaries.history(apex, from),
        };
        let most = most.min(zone.record_count());
        history.and_then(|history| read(history, apex, zone, most)).unwrap_or_default()
    }
}

/// Returns the changes up to the version of the zone: the disk may have a later version than the one in
/// service.
fn read(history: History, apex: &ZoneName, zone: &Zone, most: u64) -> Option<Vec<Arc<ChangeSet>>> {
    let (mut differences, mut records) = (Vec::new(), 0);
    for change in history {
        let change = match change {
            Ok(change) => change,
            Err(fault) => {
                let about = ("history", &*apex.to_string());
                log_repeated!(warn, WARN, about, "zone {apex}: its history cannot be read: {fault}");
                return None;
            }
        };
        records += change.record_count();
        if records > most {
            return None;
        }
        let is_last = change.after == zone.serial();
        differences.push(Arc::new(change));
        if is_last {
            return Some(differences);
        }
    }
    None
}
