//! What changed in a zone, read from the disk for IXFR.

use std::sync::Arc;

use journal::History;
use tracing::warn;
use wire::Serial;
use zone::Zone;
use zone::store::ChangeSet;

use crate::changes::Changes;
use crate::secondaries::Secondaries;
use crate::zones::Apex;
use crate::zones::produce::ProducedStores;

/// Who knows what changed in zones.
#[derive(Clone)]
pub(super) struct Histories {
    pub(super) changes: Option<Arc<Changes>>,
    pub(super) secondaries: Arc<Secondaries>,
    pub(super) produced: Arc<ProducedStores>,
}

impl Histories {
    /// Whether anything may be known of a zone.
    pub(super) fn knows(&self, zone: &Zone) -> bool {
        let apex = zone.apex().as_wire();
        self.produced.has(apex)
            || self.changes.as_ref().is_some_and(|changes| changes.is_stored(apex))
            || self.secondaries.keeps(apex)
    }

    /// What leads from a version to this one, step by step; nothing if that is not known, or is more than the zone itself.
    /// Waits for the disk.
    pub(super) fn differences(&self, zone: &Zone, from: Serial) -> Vec<Arc<ChangeSet>> {
        let apex = Apex::from(zone.apex().as_wire());
        let of_changes = self.changes.as_ref().filter(|changes| changes.is_stored(&apex));
        let history = match of_changes {
            _ if self.produced.has(&apex) => self.produced.history(&apex, from),
            Some(changes) => changes.history(&apex, from),
            None => self.secondaries.history(&apex, from),
        };
        history.and_then(|history| read(history, zone)).unwrap_or_default()
    }
}

/// The steps up to the version of the zone: what is on the disk may be one ahead of what is in service.
fn read(history: History, zone: &Zone) -> Option<Vec<Arc<ChangeSet>>> {
    let (mut differences, mut records) = (Vec::new(), 0);
    for change in history {
        let change = match change {
            Ok(change) => change,
            Err(fault) => {
                warn!("zone {}: its history cannot be read: {fault}", zone.apex().as_name());
                return None;
            }
        };
        records += (change.removed.len() + change.added.len()) as u64;
        if records > zone.record_count() {
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
