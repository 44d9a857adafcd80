//! Stores of the catalog zones that nomen produces. `zones::produce` writes them; transfers read their
//! history.

use std::collections::HashSet;
use std::sync::{OnceLock, RwLock};

use journal::History;
use wire::ZoneName;

use super::{HistoryStart, ZoneStores};
use telemetry::repeated::log_repeated;
use threads::sync::{read, write};

/// The stores of produced catalog zones. Neither a reader nor [`has`](Self::has) waits for a write of another
/// zone.
#[derive(Default)]
pub struct ProducedStores {
    pub(crate) zones: RwLock<HashSet<ZoneName>>,
    /// Opened when the first catalog zone is produced.
    pub(crate) stores: OnceLock<ZoneStores>,
}

impl ProducedStores {
    /// Whether nomen produces a zone. Does not wait for the disk.
    pub fn has(&self, apex: &ZoneName) -> bool {
        read(&self.zones).contains(apex)
    }

    /// Returns the changes of a zone since a version; `None` if they are no longer stored. Waits for the
    /// disk.
    pub fn history(&self, apex: &ZoneName, from: impl Into<HistoryStart>) -> Option<History> {
        self.stores.get()?.history(apex, from).unwrap_or_else(|fault| {
            let name = apex.to_string();
            let about = ("history", &*name);
            log_repeated!(warn, WARN, about, "zone {name}: its history cannot be read: {fault}");
            None
        })
    }

    pub(crate) fn set(&self, apex: &ZoneName, is_produced: bool) {
        let mut zones = write(&self.zones);
        if is_produced {
            zones.insert(apex.clone())
        } else {
            zones.remove(apex)
        };
    }
}
