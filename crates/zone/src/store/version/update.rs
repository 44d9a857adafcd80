//! [`ZoneUpdate`]: makes the next version from the version in service and the current records of the zone's
//! source.
//!
//! Records become blobs as they do when a zone is built, with the same notes. Each blob is compared with the
//! blob of its name in the version in service. That one most likely follows the previous match, because the
//! zone was stored in the order of the zone file. So nothing is hashed and memory is read in one direction,
//! unless a name is not at its expected position. Blobs that differ are kept; nodes whose names did not occur
//! are removed.
//!
//! If so much differs that a version would be built as a whole anyway, building begins: from the nodes found
//! to be the same, the blobs kept, and the remaining records.
//!
//! The same errors are found at the same places as in any load, since names become blobs in the same way. A
//! bit for each address records which nodes occurred; a name that occurs in several places is merged first.
//! The change is returned with the version. A small zone file is built as a whole, which costs less than an
//! overlay, and compared afterwards.

use wire::hash::HashKey;
use wire::{LowerName, LowerNameBuf, Name, Ttl, Type};

use super::apply::Touched;
use super::settle::REBUILD_NODES;
use super::{ChangeError, ChangeSet};
use crate::store::arena::NodeAddress;
use crate::store::build::{AddError, BuildError, Gatherer, ZoneBuilder};
use crate::store::finish::unpack;
use crate::store::node::{DEAD, INHERITED, Node, NodeFlags, SETTLED, TARGETS};
use crate::store::pending::{Note, Pending};
use crate::store::{Zone, blob, encode};

/// The flags that depend only on a blob's own records.
const OWN_FLAGS: u16 = !(INHERITED | SETTLED | TARGETS | DEAD | NodeFlags::NSEC3_ONLY.0);

/// Makes the next version of a zone from all its records, in any order. It shares what did not change with
/// the version in service. The result and the notes are those of a [`ZoneBuilder`] with the same records.
pub struct ZoneUpdate<'z> {
    /// Encodes the records; builds the zone if `compared` is `None`.
    builder: ZoneBuilder,
    compared: Option<Comparison<'z>>,
}

/// The result of a [`ZoneUpdate`].
#[derive(Debug)]
pub struct Updated {
    /// The next version.
    pub zone: Zone,
    /// The change; `None` if the zone was built as a whole, because there was no version to compare with or
    /// because too much differed.
    pub step: Option<ChangeSet>,
}

impl<'z> ZoneUpdate<'z> {
    /// Starts an update of the version in service. The next version uses the same hash key.
    pub fn new(served: &'z Zone) -> Self {
        let builder = ZoneBuilder::new(served.apex().as_name(), served.key());
        ZoneUpdate { builder, compared: Some(Comparison::new(served)) }
    }

    /// Starts a build without a version to compare with.
    pub fn whole(apex: Name<'_>, key: &HashKey) -> Self {
        ZoneUpdate { builder: ZoneBuilder::new(apex, key), compared: None }
    }

    /// Adds a record, as [`ZoneBuilder::add_from`] does.
    #[inline]
    pub fn add_from(
        &mut self,
        owner: Name<'_>,
        t: Type,
        ttl: Ttl,
        rdata: &[u8],
        source: u64,
    ) -> Result<(), AddError> {
        let Some(compared) = &mut self.compared else {
            return self.builder.add_from(owner, t, ttl, rdata, source);
        };
        if let Some(blob) = self.builder.gatherer.add(owner, t, ttl, rdata, source)? {
            compared.take(blob);
            if compared.is_too_much() {
                self.build_whole();
            }
        }
        Ok(())
    }

    /// Continues as a builder of the whole zone.
    #[cold]
    fn build_whole(&mut self) {
        let Some(compared) = self.compared.take() else { return };
        for node in compared.served.iter().filter(|node| compared.same.has(node.address())) {
            self.builder.add_blob(node.blob());
        }
        compared.differing.iter().for_each(|differing| self.builder.add_blob(&differing.blob));
    }

    /// Makes the next version from all records added; `None` if the [first error](Self::first_error) prevents
    /// it from being served.
    ///
    /// # Errors
    /// As for [`ZoneBuilder::finish`].
    pub fn finish(&mut self) -> Result<Option<Updated>, BuildError> {
        let Some(mut compared) = self.compared.take() else {
            let zone = self.builder.finish()?;
            return Ok(self.first_error().is_none().then_some(Updated { zone, step: None }));
        };
        let gatherer = &mut self.builder.gatherer;
        gatherer.close().into_iter().for_each(|blob| compared.take(blob));
        let touched = compared.touched(gatherer);
        match compared.served.apex_after(&touched) {
            Err(ChangeError::Fault(note)) => {
                gatherer.notes.add(note.kind, note.owner.as_name(), note.rtype, note.source);
            }
            Err(_) => return Err(BuildError::NoSoa),
            Ok(_) => {}
        }
        match gatherer.notes.error {
            Some(_) => Ok(None),
            None => compared.served.updated(&touched).map(Some),
        }
    }

    /// The notes about the records; see [`ZoneBuilder::notes`].
    pub fn notes(&self) -> &[Note] {
        self.builder.notes()
    }

    /// Number of notes beyond those kept.
    pub fn notes_left_out(&self) -> u64 {
        self.builder.notes_left_out()
    }

    /// The first note that [is an error](crate::store::NoteKind::is_error), whether it was kept or not.
    pub fn first_error(&self) -> Option<&Note> {
        self.builder.first_error()
    }
}

impl Zone {
    /// Makes the version in which the names of `touched` have their new records, and the change.
    fn updated(&self, touched: &[Touched]) -> Result<Updated, BuildError> {
        let too_much = is_too_much(self, touched.len());
        let mut step = (!too_much).then(ChangeSet::default);
        if let Some(step) = &mut step {
            for Touched { name, hash, blob } in touched {
                let old = self.place(self.overlay(), name.as_lower(), *hash).now.map(|at| self.node(at));
                super::diff::nodes(old, blob.as_deref().map(Node::of_blob), step);
            }
        }
        let zone = if touched.is_empty() { self.shared() } else { self.with(touched)? };
        if let Some(step) = &mut step {
            (step.before, step.after) = (self.serial(), zone.serial());
        }
        Ok(Updated { zone, step })
    }
}

/// Whether rebuilding a zone is cheaper than changing so many names.
fn is_too_much(zone: &Zone, names: usize) -> bool {
    names > REBUILD_NODES && names as u64 > zone.node_count() / 8
}

/// The version in service, and the differences found so far between it and the new records.
struct Comparison<'z> {
    served: &'z Zone,
    /// Address in the base of the node that most likely comes next.
    next: Option<NodeAddress>,
    /// The nodes in service whose names occurred.
    seen: AddressSet,
    /// The nodes in `seen` with the same records whose names occurred once.
    same: AddressSet,
    /// Number of records of all nodes in `seen`.
    records: u64,
    /// All other blobs, in order of arrival.
    differing: Vec<Differing>,
}

/// A blob from the encoder that differs from the blob in service, if there is one.
struct Differing {
    blob: Vec<u8>,
    now: Option<NodeAddress>,
}

impl<'z> Comparison<'z> {
    fn new(served: &'z Zone) -> Self {
        let (seen, same) = (AddressSet::new(served), AddressSet::new(served));
        let next = with_records(served, served.arena.first());
        Comparison { served, next, seen, same, records: 0, differing: Vec::new() }
    }

    fn is_too_much(&self) -> bool {
        is_too_much(self.served, self.differing.len())
    }

    /// Compares the records of a name, or some of them, with the version in service.
    fn take(&mut self, blob: &[u8]) {
        let now = self.find(blob::owner(blob));
        if let Some(at) = now {
            let served = self.served.node(at).blob();
            if self.seen.insert(at) {
                self.records += records(served);
                if is_same(served, blob) {
                    self.same.insert(at);
                    return;
                }
            } else if self.same.remove(at) {
                // All records of the name before this blob were the ones in service.
                let mut first = served.to_vec();
                encode::set_apart(&mut first, self.served.apex().len());
                self.differing.push(Differing { blob: first, now });
            }
        }
        self.differing.push(Differing { blob: blob.to_vec(), now });
    }

    /// Returns the current address of a name's node in service.
    fn find(&mut self, owner: LowerName<'_>) -> Option<NodeAddress> {
        let (zone, overlay) = (self.served, self.served.overlay());
        let expected = self.next.filter(|&at| blob::owner(zone.arena.from(at)) == owner);
        let (base, now) = match expected {
            Some(base) => (expected, overlay.map_or(expected, |overlay| overlay.redirect(base))),
            None => {
                let place = zone.place(overlay, owner, zone.key().name(owner));
                (place.base, place.now)
            }
        };
        if let Some(base) = base {
            self.next = with_records(zone, zone.arena.next(base));
        }
        now
    }

    /// Returns the names whose records differ, in canonical order. Merges the blobs of names that occurred in
    /// several places.
    fn touched(&mut self, gatherer: &mut Gatherer) -> Vec<Touched> {
        let key = self.served.key();
        let mut differing: Vec<_> = std::mem::take(&mut self.differing)
            .into_iter()
            .map(|differing| {
                let name = blob::owner(&differing.blob).to_buf();
                (key.name(name.as_lower()), name, differing)
            })
            .collect();
        // The same order as that of the merge in `finish`, so that the notes have the same order. Blobs of
        // one name keep theirs.
        differing.sort_by(|(a, a_name, _), (b, b_name, _)| {
            a.bits().cmp(&b.bits()).then_with(|| a_name.as_name().as_wire().cmp(b_name.as_name().as_wire()))
        });
        let mut touched = Vec::new();
        let mut pending = Pending::new();
        for group in differing.chunk_by_mut(|(_, a, _), (_, b, _)| a == b) {
            let several = group.len() > 1;
            let (hash, name, Differing { blob: first, now }) = &mut group[0];
            let (hash, name, now) = (*hash, *name, *now);
            let mut blob = Some(std::mem::take(first));
            if several {
                if let Some(first) = &blob {
                    pending.begin(blob::written_owner(first).as_name());
                    unpack(Node::of_blob(first), &mut pending);
                }
                let rest = group[1..].iter();
                rest.for_each(|(_, _, more)| unpack(Node::of_blob(&more.blob), &mut pending));
                let Gatherer { apex, encoder, notes, .. } = gatherer;
                blob = encoder.encode(&mut pending, apex.as_name(), notes).map(<[u8]>::to_vec);
            }
            let served = now.map(|at| self.served.node(at).blob());
            if !several || blob.as_deref().zip(served).is_none_or(|(blob, served)| !is_same(served, blob)) {
                touched.push(Touched { name, hash, blob });
            }
        }
        self.add_unseen(&mut touched);
        touched.sort_by(|a, b| a.name.as_name().canonical_cmp(b.name.as_name()));
        touched
    }

    /// Adds the names of nodes that did not occur.
    fn add_unseen(&self, touched: &mut Vec<Touched>) {
        if self.records == self.served.record_count() {
            return;
        }
        let gone =
            |node: &Node<'_>| !node.flags().contains(NodeFlags::EMPTY) && !self.seen.has(node.address());
        touched.extend(self.served.iter().filter(gone).map(|node| {
            let name: LowerNameBuf = node.owner().to_buf();
            Touched { hash: self.served.key().name(name.as_lower()), name, blob: None }
        }));
    }
}

/// The first node of the base with records, starting at `from`.
fn with_records(zone: &Zone, mut from: Option<NodeAddress>) -> Option<NodeAddress> {
    while let Some(at) = from
        && blob::flags(zone.arena.from(at)) & (DEAD | NodeFlags::EMPTY.0) != 0
    {
        from = zone.arena.next(at);
    }
    from
}

/// Number of records and signatures in a blob.
fn records(blob: &[u8]) -> u64 {
    blob::entries(blob).map(|(entry, _)| entry.count as u64 + (entry.sigs & blob::SIG_COUNT) as u64).sum()
}

/// Whether a blob of a snapshot has the same owner and records as a blob from the encoder, including letter
/// case and order.
fn is_same(stored: &[u8], new: &[u8]) -> bool {
    // The size of the blob and the length of the owner, then the flags.
    if stored.len() != new.len()
        || stored[..4] != new[..4]
        || (blob::flags(stored) ^ blob::flags(new)) & OWN_FLAGS != 0
    {
        return false;
    }
    // Compares everything but the addresses of targets, which the encoder leaves empty.
    let mut from = 6;
    if blob::flags(new) & TARGETS != 0 {
        let directory = blob::HEADER + new[3] as usize + blob::rrsets(new) * blob::ENTRY;
        if stored[from..directory] != new[from..directory] {
            return false;
        }
        from = directory;
        for (entry, at) in blob::entries(new).filter(|(entry, _)| entry.has_targets()) {
            let targets = at + entry.targets_at();
            if stored[from..targets] != new[from..targets] {
                return false;
            }
            from = at + entry.data_len();
        }
    }
    stored[from..] == new[from..]
}

/// A set of addresses of nodes.
struct AddressSet {
    /// One bit for each unit of the arena.
    base: Vec<u64>,
    /// One bit for each slot.
    slots: Vec<u64>,
}

impl AddressSet {
    /// An empty set of addresses of one snapshot.
    fn new(zone: &Zone) -> Self {
        AddressSet { base: vec![0; zone.arena.end() / 64 + 1], slots: Vec::new() }
    }

    /// Returns the word that contains an address' bit, and the bit.
    fn word(&mut self, at: NodeAddress) -> (Option<&mut u64>, u64) {
        let (words, bit) = match at.slot() {
            None => (&mut self.base, at.0),
            Some(slot) => {
                let needed = slot as usize / 64 + 1;
                self.slots.resize(needed.max(self.slots.len()), 0);
                (&mut self.slots, slot)
            }
        };
        (words.get_mut(bit as usize / 64), 1 << (bit % 64))
    }

    fn has(&self, at: NodeAddress) -> bool {
        let (words, bit) = at.slot().map_or((&self.base, at.0), |slot| (&self.slots, slot));
        words.get(bit as usize / 64).is_some_and(|word| word & 1 << (bit % 64) != 0)
    }

    /// Adds an address. Returns whether it was absent.
    fn insert(&mut self, at: NodeAddress) -> bool {
        let (Some(word), bit) = self.word(at) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes an address. Returns whether it was present.
    fn remove(&mut self, at: NodeAddress) -> bool {
        let (Some(word), bit) = self.word(at) else { return false };
        let there = *word & bit != 0;
        *word &= !bit;
        there
    }
}
