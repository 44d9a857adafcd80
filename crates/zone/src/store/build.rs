//! [`ZoneBuilder`]: takes records in any order and makes a [`Zone`] of them.
//!
//! The records of one owner usually come together: they wait until the owner changes and then become a node
//! blob at the end of the arena. A name that comes back later gets a second blob; `finish` merges the two. So
//! building needs neither an index nor an allocation for each name. What can be found out about a blob
//! without an index is, while the next records are still to come: see [`super::blobs`].

use std::fmt;

use wire::hash::HashKey;
use wire::rdata::MAX_RDATA;
use wire::{LowerNameBuf, Name, Ttl, Type};

use super::blobs::Blobs;
use super::encode::Encoder;
use super::node::NodeFlags;
use super::pending::{Note, Notes, Pending};
use super::room::Room;
use super::{Zone, blob};

/// How many notes are kept; see [`ZoneBuilder::notes_left_out`].
const NOTES: usize = 1000;

/// Why one record cannot be in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// A type for questions or messages only (RFC 6895 §3.1).
    MetaType,
    /// More than 65,535 bytes of RDATA.
    RdataTooLong,
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetaType => "records of this type cannot be in a zone",
            Self::RdataTooLong => "more than 65535 bytes of RDATA",
        })
    }
}
impl std::error::Error for AddError {}

/// Why the records do not make a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// No SOA at the apex, or one that cannot be read.
    NoSoa,
    /// More than 32 GiB of records.
    TooBig,
    /// Making the zone takes more memory than it may; see [`ZoneBuilder::finish_within`].
    OutOfMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSoa => "no SOA record at the zone's name",
            Self::TooBig => "more than 32 GiB of records",
            Self::OutOfMemory => "more memory is needed than there may be",
        })
    }
}
impl std::error::Error for BuildError {}

/// Builds one [`Zone`]; records may come in any order, sorted ones are fastest.
pub struct ZoneBuilder {
    pub(super) key: HashKey,
    pub(super) gatherer: Gatherer,
    pub(super) blobs: Blobs,
    /// Used again and again by [`ZoneBuilder::add_blob`].
    copy: Vec<u8>,
}

/// Puts the records of one name together, as long as they come one after the other, and makes a blob of them.
pub(super) struct Gatherer {
    pub(super) apex: LowerNameBuf,
    pub(super) encoder: Encoder,
    pub(super) notes: Notes,
    pending: Pending,
}

impl Gatherer {
    fn new(apex: Name<'_>) -> Self {
        let (encoder, notes, pending) = (Encoder::new(), Notes::new(NOTES), Pending::new());
        Gatherer { apex: apex.to_lower(), encoder, notes, pending }
    }

    /// Takes a record. Returns the blob of the name before, if there was one and this is another.
    #[inline]
    pub(super) fn add(
        &mut self,
        owner: Name<'_>,
        t: Type,
        ttl: Ttl,
        rdata: &[u8],
        source: u64,
    ) -> Result<Option<&[u8]>, AddError> {
        check_fit(t, rdata)?;
        let Gatherer { apex, encoder, notes, pending } = self;
        let mut before = None;
        if pending.records.is_empty() || pending.owner.as_name() != owner {
            if !owner.is_at_or_below(apex.as_name()) {
                notes.add(super::NoteKind::OutOfZone, owner, t, source);
                return Ok(None);
            }
            if !pending.records.is_empty() {
                before = encoder.encode(pending, apex.as_name(), notes);
            }
            pending.begin(owner);
        }
        pending.push(t, ttl, rdata, source);
        Ok(before)
    }

    /// The blob of the last name, if there is one.
    pub(super) fn close(&mut self) -> Option<&[u8]> {
        let Gatherer { apex, encoder, notes, pending } = self;
        let is_empty = pending.records.is_empty();
        let last = if is_empty { None } else { encoder.encode(pending, apex.as_name(), notes) };
        pending.records.clear();
        last
    }
}

/// Whether a record can be in a zone.
pub(super) fn check_fit(t: Type, rdata: &[u8]) -> Result<(), AddError> {
    match t.is_meta() {
        true => Err(AddError::MetaType),
        false if rdata.len() > MAX_RDATA => Err(AddError::RdataTooLong),
        false => Ok(()),
    }
}

impl ZoneBuilder {
    /// A builder for the zone named `apex`. `key` is the one under which names will be looked up.
    pub fn new(apex: Name<'_>, key: &HashKey) -> Self {
        let gatherer = Gatherer::new(apex);
        let blobs = Blobs::new(&gatherer.apex, key);
        ZoneBuilder { key: *key, gatherer, blobs, copy: Vec::new() }
    }

    /// Adds a record of class IN; `rdata` is uncompressed. See [`add_from`](Self::add_from).
    pub fn add(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), AddError> {
        self.add_from(owner, t, ttl, rdata, 0)
    }

    /// Adds a record and says where it came from: `source` is any number, a line for instance, and comes back
    /// in the [`Note`]s that concern the record.
    ///
    /// RDATA is expected to be well-formed for its type; names in malformed RDATA are not compressed. An
    /// owner outside the zone is noted and left out.
    pub fn add_from(
        &mut self,
        owner: Name<'_>,
        t: Type,
        ttl: Ttl,
        rdata: &[u8],
        source: u64,
    ) -> Result<(), AddError> {
        if let Some(blob) = self.gatherer.add(owner, t, ttl, rdata, source)? {
            self.blobs.push(blob);
        }
        Ok(())
    }

    /// Makes the zone of all records added so far and leaves the builder empty, but for the notes.
    ///
    /// Notes of kind [`is_error`](super::NoteKind::is_error) do not keep the zone from being made: see
    /// [`first_error`](Self::first_error).
    pub fn finish(&mut self) -> Result<Zone, BuildError> {
        self.finish_within(&mut |_| true)
    }

    /// The same with bounded memory: `may_take` is asked whether so many bytes may be taken for the zone,
    /// those of [`memory`](Self::memory) among them, whenever that number has changed much.
    ///
    /// # Errors
    /// Also [`BuildError::OutOfMemory`], if they may not.
    pub fn finish_within(&mut self, may_take: &mut dyn FnMut(usize) -> bool) -> Result<Zone, BuildError> {
        if let Some(blob) = self.gatherer.close() {
            self.blobs.push(blob);
        }
        super::finish::finish(self, Room::new(may_take))
    }

    /// Bytes of memory that the records added so far take.
    pub fn memory(&self) -> usize {
        self.blobs.memory() + self.gatherer.pending.memory()
    }

    /// What was noticed about the records, in the order of its discovery; complete after
    /// [`finish`](Self::finish). At most 1,000 are kept.
    pub fn notes(&self) -> &[Note] {
        &self.gatherer.notes.kept
    }

    /// Number of notes beyond those kept.
    pub fn notes_left_out(&self) -> u64 {
        self.gatherer.notes.left_out
    }

    /// The first note that [`is_error`](super::NoteKind::is_error), whether it was kept or not.
    pub fn first_error(&self) -> Option<&Note> {
        self.gatherer.notes.error.as_ref()
    }

    /// Adds a node of another snapshot of the zone, with its records but without what it has from other
    /// names. Empty non-terminals are left out.
    pub(super) fn add_blob(&mut self, blob: &[u8]) {
        if blob::flags(blob) & NodeFlags::EMPTY.0 != 0 {
            return;
        }
        self.copy.clear();
        self.copy.extend_from_slice(blob);
        super::encode::set_apart(&mut self.copy, self.gatherer.apex.as_name().len());
        self.blobs.push(&self.copy);
    }
}

impl fmt::Debug for ZoneBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZoneBuilder({}, {} bytes)", self.gatherer.apex, self.blobs.arena.memory())
    }
}
