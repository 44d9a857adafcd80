//! [`Zone::apply`]: converts the records of a change, name by name, to nodes, and these to the next version.

use wire::{LowerNameBuf, NameHash, Type, rdata};

use super::place::{Draft, Rebuild};
use super::{ChangeError, ChangeSet, ChangedRecord};
use crate::store::build::{BuildError, check_fit};
use crate::store::encode::Encoder;
use crate::store::finish::{read_soa, unpack};
use crate::store::node::Node;
use crate::store::pending::{Note, NoteKind, Notes, Pending, PendingRecord};
use crate::store::room::Room;
use crate::store::{Zone, blob};

/// A name whose records change, and its node as encoded; `None` if it has no records left.
pub(super) struct Touched {
    pub(super) name: LowerNameBuf,
    pub(super) hash: NameHash,
    pub(super) blob: Option<Vec<u8>>,
}

/// A record of a change, and whether it is added.
type Step<'c> = (ChangedRecord<'c>, bool);

impl Zone {
    /// Applies a change and returns the next version. Both versions share what did not change. The cost
    /// depends on the nodes that changed and the nodes whose flags depend on them; the first change after a
    /// base was made also [sorts](Self::iter) the base.
    ///
    /// Removed records must be in the zone, and added ones must not (RFC 1995 §4); removals come first. The
    /// content of the changed names is checked as [`ZoneBuilder`](crate::ZoneBuilder) checks it. If much
    /// changes at once, as below a new zone cut or with new NSEC3 parameters, the next version is built as a
    /// whole and has a base of its own.
    ///
    /// # Errors
    /// [`ChangeError`] if the change cannot be applied; then nothing changes.
    pub fn apply(&self, change: &ChangeSet) -> Result<Zone, ChangeError> {
        self.apply_within(change, &mut |_| true)
    }

    /// As [`apply`](Self::apply) with bounded memory: calls `may_take` whenever the number of bytes has
    /// changed much. The number is the bytes needed in addition to this version's base, for the
    /// [overlay](Self::overlay_estimate) of the next version or for its own base.
    ///
    /// # Errors
    /// Also [`ChangeError::OutOfMemory`], if `may_take` returns `false`.
    pub fn apply_within(
        &self,
        change: &ChangeSet,
        may_take: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Zone, ChangeError> {
        if change.before != self.serial() {
            return Err(ChangeError::OtherVersion(self.serial()));
        }
        let (draft, mut room) = (Draft::new(self), Room::new(may_take));
        let reader = Reader { draft: &draft, encoder: Encoder::new(), pending: Pending::new() };
        let touched = reader.read(change, &mut room)?;
        let (soa, _) = self.apex_after(&touched)?;
        if soa.serial != change.after {
            return Err(ChangeError::OtherResult(soa.serial));
        }
        self.with_draft(draft, &touched, &mut room).map_err(|error| match error {
            BuildError::NoSoa => ChangeError::NoSoa,
            BuildError::TooBig => ChangeError::TooBig,
            BuildError::OutOfMemory => ChangeError::OutOfMemory,
        })
    }

    /// Makes the version in which the names of `touched`, in canonical order, have their new records.
    pub(super) fn with(&self, touched: &[Touched]) -> Result<Zone, BuildError> {
        self.with_draft(Draft::new(self), touched, &mut Room::new(&mut |_| true))
    }

    fn with_draft(
        &self,
        draft: Draft<'_>,
        touched: &[Touched],
        room: &mut Room<'_>,
    ) -> Result<Zone, BuildError> {
        match draft.finish(touched, room) {
            Ok(zone) => Ok(zone),
            Err(Halt::Rebuild) => self.rebuilt(touched, room),
            Err(Halt::OutOfMemory) => Err(BuildError::OutOfMemory),
        }
    }

    /// The SOA numbers and negative TTL after a change, if the apex is valid.
    pub(super) fn apex_after(&self, touched: &[Touched]) -> Result<super::SoaAndTtl, ChangeError> {
        let apex = touched.iter().find(|touched| touched.name.as_lower() == self.apex());
        let Some(apex) = apex else { return Ok((self.soa, self.negative_ttl)) };
        let node = Node::of_blob(apex.blob.as_deref().ok_or(ChangeError::NoSoa)?);
        let soa = read_soa(node).ok_or(ChangeError::NoSoa)?;
        if node.rrset(Type::NS).is_none() {
            let (owner, rtype) = (node.owner().as_name().to_buf(), Type::NS);
            return Err(ChangeError::Fault(Box::new(Note {
                kind: NoteKind::NoApexNs,
                owner,
                rtype,
                source: 0,
            })));
        }
        Ok(soa)
    }
}

/// Why a draft cannot become a version.
enum Halt {
    /// A new base must be built instead.
    Rebuild,
    OutOfMemory,
}

impl From<Rebuild> for Halt {
    fn from(_: Rebuild) -> Self {
        Self::Rebuild
    }
}

/// Bytes of memory of the names to be changed.
pub(super) fn memory(touched: &[Touched]) -> usize {
    touched.iter().map(Touched::memory).sum()
}

impl Touched {
    fn memory(&self) -> usize {
        size_of::<Touched>() + self.blob.as_ref().map_or(0, Vec::len)
    }
}

impl Draft<'_> {
    /// Makes the version in which these names have their new records.
    fn finish(mut self, touched: &[Touched], room: &mut Room<'_>) -> Result<Zone, Halt> {
        if self.is_too_much(touched.len()) {
            return Err(Halt::Rebuild);
        }
        let beside = memory(touched);
        // Names are removed from the bottom up and added from the top down, so that few empty non-terminals
        // are created and removed on the way.
        for Touched { name, hash, .. } in touched.iter().rev().filter(|touched| touched.blob.is_none()) {
            self.set(name.as_lower(), *hash, None)?;
            room.takes(beside + self.overlay.estimate()).map_err(|_| Halt::OutOfMemory)?;
        }
        for Touched { name, hash, blob } in touched.iter().filter(|touched| touched.blob.is_some()) {
            self.set(name.as_lower(), *hash, blob.as_deref())?;
            room.takes(beside + self.overlay.estimate()).map_err(|_| Halt::OutOfMemory)?;
        }
        Ok(self.into_zone()?)
    }
}

/// Encodes the records of a change.
struct Reader<'d, 'z> {
    draft: &'d Draft<'z>,
    encoder: Encoder,
    pending: Pending,
}

impl Reader<'_, '_> {
    /// Returns the names that a change touches, in canonical order.
    fn read(mut self, change: &ChangeSet, room: &mut Room<'_>) -> Result<Vec<Touched>, ChangeError> {
        let apex = self.draft.from.apex().as_name();
        let goes = change.removed.iter().map(|record| (record, false));
        let mut steps: Vec<Step<'_>> = goes.chain(change.added.iter().map(|record| (record, true))).collect();
        for (record, _) in &steps {
            check_fit(record.rtype, record.rdata)
                .map_err(|error| ChangeError::Unfit(error, (*record).into()))?;
            if !record.owner.is_at_or_below(apex) {
                return Err(ChangeError::OutOfZone((*record).into()));
            }
        }
        steps.sort_by(|(a, _), (b, _)| a.owner.canonical_cmp(b.owner));
        let mut bytes = size_of_val(&*steps);
        let name = |steps| {
            let touched = self.name(steps)?;
            bytes += touched.memory();
            room.takes(bytes).map_err(|_| ChangeError::OutOfMemory)?;
            Ok(touched)
        };
        steps.chunk_by(|(a, _), (b, _)| a.owner == b.owner).map(name).collect()
    }

    /// Encodes one name after removing and then adding records.
    fn name(&mut self, steps: &[Step<'_>]) -> Result<Touched, ChangeError> {
        let owner = steps[0].0.owner;
        let name = owner.to_lower();
        let hash = self.draft.from.key().name(name.as_lower());
        let place = self.draft.place(name.as_lower(), hash);
        self.pending.begin(owner);
        if let Some(at) = place.now {
            let blob = self.draft.blob(at);
            self.pending.begin(blob::written_owner(blob).as_name());
            unpack(Node::of_blob(blob), &mut self.pending);
        }
        let (goes, comes) = steps.split_at(steps.iter().position(|(_, comes)| *comes).unwrap_or(steps.len()));
        for (record, _) in goes {
            let at = self.find(record).ok_or_else(|| ChangeError::NotThere((*record).into()))?;
            self.pending.records.remove(at);
        }
        if let ([], [(first, _), ..]) = (&self.pending.records[..], comes) {
            self.pending.begin(first.owner);
        }
        for (record, _) in comes {
            if self.find(record).is_some() {
                return Err(ChangeError::AlreadyThere((*record).into()));
            }
            self.pending.push(record.rtype, record.ttl, record.rdata, 0);
        }
        let mut notes = Notes::new(0);
        let blob = match self.pending.records.is_empty() {
            true => None,
            false => {
                let apex = self.draft.from.apex().as_name();
                self.encoder.encode(&mut self.pending, apex, &mut notes).map(<[u8]>::to_vec)
            }
        };
        match notes.error {
            Some(note) => Err(ChangeError::Fault(Box::new(note))),
            None => Ok(Touched { name, hash, blob }),
        }
    }

    /// The index of the pending record that equals this one.
    fn find(&self, wanted: &ChangedRecord<'_>) -> Option<usize> {
        let is_same = |record: &PendingRecord| {
            record.rtype == wanted.rtype
                && rdata::is_same(wanted.rtype, self.pending.rdata(record), wanted.rdata)
        };
        self.pending.records.iter().position(is_same)
    }
}
