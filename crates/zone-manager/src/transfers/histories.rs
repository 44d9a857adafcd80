//! What changed in a zone, read from the disk for IXFR.

use std::sync::Arc;

use journal::History;
use wire::Serial;
use zone::Zone;
use zone::store::ChangeSet;

use crate::changes::Changes;
use crate::managed::Apex;
use crate::secondaries::Secondaries;
use crate::stores::differences::Differences;
use crate::stores::produced::ProducedStores;
use telemetry::repeated::log_repeated;

/// Where it is stored what changed in zones.
#[derive(Clone)]
pub struct Histories {
    /// In zones that updates have changed.
    pub changes: Option<Arc<Changes>>,
    /// In zone files.
    pub differences: Option<Arc<Differences>>,
    /// In zones from primaries.
    pub secondaries: Arc<Secondaries>,
    /// In catalog zones that are made here.
    pub produced: Arc<ProducedStores>,
}

impl Histories {
    /// Whether anything may be known of a zone.
    pub(super) fn knows(&self, zone: &Zone) -> bool {
        let apex = zone.apex().as_wire();
        self.produced.has(apex)
            || self.changes.as_ref().is_some_and(|changes| changes.is_stored(apex))
            || self.differences.as_ref().is_some_and(|differences| differences.knows(apex))
            || self.secondaries.keeps(apex)
    }

    /// What leads from a version to this one, step by step; nothing if that is not known, or is more than the
    /// zone itself or so many records. Waits for the disk.
    pub(super) fn differences(&self, zone: &Zone, from: Serial, most: u64) -> Vec<Arc<ChangeSet>> {
        let apex = Apex::from(zone.apex().as_wire());
        let of_changes = self.changes.as_ref().filter(|changes| changes.is_stored(&apex));
        let of_files = self.differences.as_ref().filter(|differences| differences.knows(&apex));
        let history = match (of_changes, of_files) {
            _ if self.produced.has(&apex) => self.produced.history(&apex, from),
            (Some(changes), _) => changes.history(&apex, from),
            (None, Some(differences)) => differences.history(&apex, from),
            (None, None) => self.secondaries.history(&apex, from),
        };
        let most = most.min(zone.record_count());
        history.and_then(|history| read(history, zone, most)).unwrap_or_default()
    }
}

/// The steps up to the version of the zone: what is on the disk may be one ahead of what is in service.
fn read(history: History, zone: &Zone, most: u64) -> Option<Vec<Arc<ChangeSet>>> {
    let (mut differences, mut records) = (Vec::new(), 0);
    for change in history {
        let change = match change {
            Ok(change) => change,
            Err(fault) => {
                let apex = zone.apex().as_name();
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
