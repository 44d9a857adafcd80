//! Counts of the zones of a catalog, updated from one catalog to the next.

use wire::name::MAX_LABELS;

use super::entry::ZoneEntry;

/// Counts of a catalog's zones.
#[derive(Clone)]
pub(super) struct Census {
    zones: usize,
    /// Number of zones by the number of labels in their name.
    of_depth: [u32; MAX_LABELS + 1],
    /// Bytes of memory of the entries beyond their cache lines.
    memory: usize,
}

impl Census {
    pub(super) const fn new() -> Self {
        Census { zones: 0, of_depth: [0; MAX_LABELS + 1], memory: 0 }
    }

    /// Returns counts that are large enough to be changed by the difference of two catalogs, for code that
    /// needs only how they change.
    pub(super) const fn of_differences() -> Self {
        Census { zones: usize::MAX / 2, of_depth: [u32::MAX / 2; MAX_LABELS + 1], memory: usize::MAX / 2 }
    }

    pub(super) fn add(&mut self, entry: &ZoneEntry) {
        self.zones += 1;
        self.of_depth[entry.name().label_count()] += 1;
        self.memory += entry.memory();
    }

    pub(super) fn remove(&mut self, entry: &ZoneEntry) {
        self.zones -= 1;
        self.of_depth[entry.name().label_count()] -= 1;
        self.memory -= entry.memory();
    }

    pub(super) fn zones(&self) -> usize {
        self.zones
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Returns the set of depths: bit [`MAX_LABELS`] - n is set if some zone has a name of n labels.
    pub(super) fn depths(&self) -> u128 {
        self.of_depth.iter().fold(0, |depths, &zones| depths << 1 | u128::from(zones > 0))
    }
}
