//! Changes of a zone, read from disk: for IXFR, and for operators.

use std::sync::Arc;

use journal::{History, StoreFault};
use wire::{Serial, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;

use crate::changes::{Changes, VersionOrigin};
use crate::database::ZoneDatabase;
use crate::secondaries::Secondaries;
use crate::stores::HistoryStart;
use crate::stores::composed::{Composition, reversed};
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
            || self.database(apex).is_some()
            || self.changes.as_ref().is_some_and(|changes| changes.is_stored(apex))
            || self.differences.as_ref().is_some_and(|differences| differences.knows(apex))
            || self.secondaries.keeps(apex)
    }

    /// Returns the zones of the database, if it has this one.
    fn database(&self, apex: &ZoneName) -> Option<&Arc<ZoneDatabase>> {
        let database = self.changes.as_ref()?.database()?;
        database.id(apex).map(|_| database)
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
        let most = most.min(zone.record_count());
        let history = self.history(apex, from.into());
        history.and_then(|history| read(history, apex, zone, most)).unwrap_or_default()
    }

    /// Returns the stored changes of a zone; `None` if there are none from there on.
    fn history(&self, apex: &ZoneName, from: HistoryStart) -> Option<History> {
        let of_changes = self.changes.as_ref().filter(|changes| changes.is_stored(apex));
        let of_files = self.differences.as_ref().filter(|differences| differences.knows(apex));
        match (of_changes, of_files) {
            _ if self.produced.has(apex) => self.produced.history(apex, from),
            _ if self.database(apex).is_some() => self.database(apex)?.history(apex, from),
            (Some(changes), _) => changes.history(apex, from),
            (None, Some(differences)) => differences.history(apex, from),
            (None, None) => self.secondaries.history(apex, from),
        }
    }

    /// Returns the newest stored changes of a zone, at most `most`, in order: what they changed, and who has
    /// made them, as far as that is remembered. Waits for the disk.
    pub fn versions(&self, apex: &ZoneName, most: usize) -> Vec<KeptStep> {
        let history = self.history(apex, HistoryStart::Last(most));
        let steps = history.into_iter().flatten().map_while(|change| intact(apex, change));
        let origin = |serial| self.changes.as_ref()?.origin_of(apex, serial);
        let kept = |change: ChangeSet| KeptStep {
            before: change.before,
            after: change.after,
            removed: change.removed.len(),
            added: change.added.len(),
            origin: origin(change.after),
        };
        steps.map(kept).collect()
    }

    /// Returns the change from one stored version of a zone to another, earlier or later; `None` if the
    /// changes between them are not stored, or have more than half a million records. Waits for the disk.
    pub fn between(&self, apex: &ZoneName, from: Serial, to: Serial) -> Option<ChangeSet> {
        self.forward(apex, from, to).or_else(|| self.forward(apex, to, from).map(reversed))
    }

    fn forward(&self, apex: &ZoneName, from: Serial, to: Serial) -> Option<ChangeSet> {
        let mut history = self.history(apex, from.into())?;
        let (mut composed, mut at) = (Composition::from_version(from), from);
        while at != to {
            let change = intact(apex, history.next()?)?;
            at = change.after;
            if !composed.push(&change) {
                return None;
            }
        }
        Some(composed.finish())
    }
}

/// A stored change of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptStep {
    /// The serial number before.
    pub before: Serial,
    /// The serial number after.
    pub after: Serial,
    /// Number of removed records, with the SOA.
    pub removed: usize,
    /// Number of added records, with the SOA.
    pub added: usize,
    /// When and by whom it was made; `None` if that is not remembered.
    pub origin: Option<VersionOrigin>,
}

/// Returns a change that was read; `None`, with a line in the log, if it cannot be read.
fn intact(apex: &ZoneName, change: Result<ChangeSet, StoreFault>) -> Option<ChangeSet> {
    change
        .inspect_err(|fault| {
            let about = ("history", &*apex.to_string());
            log_repeated!(warn, WARN, about, "zone {apex}: its history cannot be read: {fault}");
        })
        .ok()
}

/// Returns the changes up to the version of the zone: the disk may have a later version than the one in
/// service.
fn read(history: History, apex: &ZoneName, zone: &Zone, most: u64) -> Option<Vec<Arc<ChangeSet>>> {
    let (mut differences, mut records) = (Vec::new(), 0);
    for change in history {
        let change = intact(apex, change)?;
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
