//! One zone of a catalog in one cache line: the name that a lookup compares, and the zone. [`super::trie`]
//! decides the place of the line.

use std::fmt;
use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use wire::{LowerName, NameHash, UnixTime};

use super::online::AnswerSigner;
use super::trie::COUNTS;
use crate::store::Zone;

/// Longest name stored in the entry itself, in bytes.
const INLINE_NAME_BYTES: usize = 39;

/// One zone of a catalog, in one cache line. Clones share the zone, its query counter and its expiry.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct ZoneEntry {
    zone: Option<Arc<Zone>>,
    /// The hash of the name with the catalog's key.
    pub(super) hash: NameHash,
    /// Shared by all snapshots of the zone while it stays in the catalog.
    lasting: Arc<Lasting>,
    name: EntryName,
}

/// State of a zone that outlives its snapshots.
#[derive(Default)]
struct Lasting {
    queries: AtomicU64,
    /// When the zone expires, as a [`UnixTime`]; 0 if it does not.
    expires: AtomicU64,
    /// The number of the zone's access rules; 0 if it has none.
    access: AtomicU32,
    /// Whether the zone is one of a view.
    in_view: bool,
    /// What signs the answers, if the zone is signed while answering.
    signer: OnceLock<Arc<dyn AnswerSigner>>,
}

/// A name in wire form, inside the entry if it is short enough.
#[derive(Clone)]
enum EntryName {
    Short(NonZeroU8, [u8; INLINE_NAME_BYTES]),
    Long(Arc<[u8]>),
}

const _: () = assert!(size_of::<Option<ZoneEntry>>() == 64);

impl EntryName {
    fn new(name: LowerName<'_>) -> Self {
        let lower = name.as_wire();
        let mut room = [0; INLINE_NAME_BYTES];
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
        match self {
            EntryName::Short(len, name) => {
                LowerName::of_checked(name.get(..len.get() as usize).unwrap_or_default())
            }
            EntryName::Long(name) => LowerName::of_checked(name),
        }
    }
}

impl ZoneEntry {
    /// Returns the entry of a new zone. `hash` is that of its name.
    pub(super) fn new(name: LowerName<'_>, hash: NameHash, zone: Option<Arc<Zone>>, in_view: bool) -> Self {
        let lasting = Arc::new(Lasting { in_view, ..Lasting::default() });
        ZoneEntry { zone, hash, lasting, name: EntryName::new(name) }
    }

    /// Whether both have the same snapshot of the same zone.
    pub(super) fn is_same(&self, other: &ZoneEntry) -> bool {
        self.zone.as_ref().map(Arc::as_ptr) == other.zone.as_ref().map(Arc::as_ptr)
            && Arc::ptr_eq(&self.lasting, &other.lasting)
    }

    /// Whether the zone is one of a view, in the catalog of that view.
    #[inline]
    pub fn is_in_view(&self) -> bool {
        self.lasting.in_view
    }

    /// Returns the entry of the same zone, with its lasting state, with another snapshot or unloaded.
    pub(super) fn followed_by(&self, zone: Option<Arc<Zone>>) -> Self {
        ZoneEntry { zone, hash: self.hash, lasting: Arc::clone(&self.lasting), name: self.name.clone() }
    }

    /// The zone's name.
    #[inline]
    pub fn name(&self) -> LowerName<'_> {
        self.name.as_lower()
    }

    /// Returns the snapshot; `None` if the zone is configured but not loaded, which is answered with
    /// SERVFAIL.
    #[inline]
    pub fn zone(&self) -> Option<&Arc<Zone>> {
        self.zone.as_ref()
    }

    /// Counts one query. All workers write to the same counter, so counting is optional.
    #[inline]
    pub fn count_query(&self) {
        self.lasting.queries.fetch_add(1, Relaxed);
    }

    /// Returns the number of queries counted since the zone was added to the catalog.
    pub fn queries(&self) -> u64 {
        self.lasting.queries.load(Relaxed)
    }

    /// Returns when a secondary zone expires unless a primary responds; `None` for other zones.
    pub fn expires(&self) -> Option<UnixTime> {
        Some(UnixTime::from_secs(self.lasting.expires.load(Relaxed))).filter(|at| *at > UnixTime::EPOCH)
    }

    /// Sets when the zone expires, in this and all later catalogs that have the zone.
    pub fn set_expires(&self, at: Option<UnixTime>) {
        self.lasting.expires.store(at.unwrap_or_default().as_secs(), Relaxed);
    }

    /// Returns the number of the zone's access rules, as the query path numbers them; 0 if it has none.
    #[inline]
    pub fn access(&self) -> u32 {
        self.lasting.access.load(Relaxed)
    }

    /// Sets the number of the zone's access rules, in this and all later catalogs that have the zone. A zone
    /// whose number is set before its catalog goes into service is never answered without the rules.
    pub fn set_access(&self, number: u32) {
        self.lasting.access.store(number, Relaxed);
    }

    /// Returns what signs the answers of the zone; `None` if they are as in the snapshot.
    pub fn signer(&self) -> Option<&Arc<dyn AnswerSigner>> {
        self.lasting.signer.get()
    }

    /// Sets what signs the answers of the zone, in this and all later catalogs that have the zone. Only the
    /// first call has an effect: a zone has one such signer for all its keys.
    pub fn set_signer(&self, signer: Arc<dyn AnswerSigner>) {
        let _ = self.lasting.signer.set(signer);
    }

    /// Returns the bytes of memory beyond the cache line, without the snapshot's.
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
