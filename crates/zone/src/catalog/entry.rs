//! One zone of a catalog in one cache line: what a lookup compares and what it finds. Where the line lies is
//! [`super::trie`]'s matter.

use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::{LowerName, NameHash};

use super::trie::COUNTS;
use crate::store::Zone;

/// Bytes of a name that an entry has room for.
const ROOM: usize = 39;

/// One zone of a catalog, in one cache line. Cloning shares the zone, its counter and when it expires.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct ZoneEntry {
    zone: Option<Arc<Zone>>,
    /// The name's, under the catalog's key.
    pub(super) hash: NameHash,
    /// Shared by all snapshots of the zone while it stays in the catalog.
    lasting: Arc<Lasting>,
    name: EntryName,
}

/// What a zone keeps from snapshot to snapshot.
#[derive(Default)]
struct Lasting {
    queries: AtomicU64,
    /// When the zone expires, in seconds since 1970; 0 for one that does not.
    expires: AtomicU64,
}

/// A name in wire form, in the entry's line if it goes in.
#[derive(Clone)]
enum EntryName {
    Short(NonZeroU8, [u8; ROOM]),
    Long(Arc<[u8]>),
}

const _: () = assert!(size_of::<Option<ZoneEntry>>() == 64);

impl EntryName {
    fn new(name: LowerName<'_>) -> Self {
        let lower = name.as_wire();
        let mut room = [0; ROOM];
        match (room.get_mut(..lower.len()), NonZeroU8::new(lower.len() as u8)) {
            (Some(start), Some(len)) => {
                start.copy_from_slice(lower);
                EntryName::Short(len, room)
            }
            _ => EntryName::Long(lower.into()),
        }
    }

    #[inline]
    fn as_lower(&self) -> LowerName<'_> {
        LowerName::of_checked(match self {
            EntryName::Short(len, name) => name.get(..len.get() as usize).unwrap_or_default(),
            EntryName::Long(name) => name,
        })
    }
}

impl ZoneEntry {
    /// A zone that has not been queried yet. `hash` is its name's.
    pub(super) fn new(name: LowerName<'_>, hash: NameHash, zone: Option<Arc<Zone>>) -> Self {
        ZoneEntry { zone, hash, lasting: Arc::default(), name: EntryName::new(name) }
    }

    /// The same zone, with its counter, in another snapshot or unloaded.
    pub(super) fn followed_by(&self, zone: Option<Arc<Zone>>) -> Self {
        ZoneEntry { zone, hash: self.hash, lasting: Arc::clone(&self.lasting), name: self.name.clone() }
    }

    /// The zone's name.
    #[inline]
    pub fn name(&self) -> LowerName<'_> {
        self.name.as_lower()
    }

    /// The snapshot; `None` if the zone is configured but not loaded, which is answered with SERVFAIL.
    #[inline]
    pub fn zone(&self) -> Option<&Arc<Zone>> {
        self.zone.as_ref()
    }

    /// Counts one query. All workers write to the same place, so this is for those who ask for it.
    #[inline]
    pub fn count_query(&self) {
        self.lasting.queries.fetch_add(1, Relaxed);
    }

    /// Queries counted since the zone came into the catalog.
    pub fn queries(&self) -> u64 {
        self.lasting.queries.load(Relaxed)
    }

    /// When a zone that is taken from primaries expires unless one of them answers, in seconds since 1970;
    /// `None` for any other.
    pub fn expires(&self) -> Option<u64> {
        Some(self.lasting.expires.load(Relaxed)).filter(|at| *at > 0)
    }

    /// Says when the zone expires, in this and all later catalogs that have the zone.
    pub fn set_expires(&self, at: Option<u64>) {
        self.lasting.expires.store(at.unwrap_or_default(), Relaxed);
    }

    /// Bytes of memory beyond the line, the snapshot's not among them.
    pub(super) fn memory(&self) -> usize {
        let name = match &self.name {
            EntryName::Short(..) => 0,
            EntryName::Long(name) => (COUNTS + name.len()).next_multiple_of(align_of::<usize>()),
        };
        name + COUNTS + size_of::<Lasting>()
    }
}

impl fmt::Debug for ZoneEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), if self.zone.is_some() { "loaded" } else { "not loaded" })
    }
}
