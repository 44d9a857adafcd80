//! [`ZoneBuilder`]: builds a [`Zone`] from records in any order.
//!
//! The records of one owner usually come together: they wait until the owner changes and then become a node
//! blob at the end of the arena. A name that occurs again later gets a second blob; `finish` merges the two.
//! So building needs neither an index nor an allocation for each name. Results that need no index are
//! computed while records are still coming: see [`super::blobs`].

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

/// Most notes stored; see [`ZoneBuilder::notes_left_out`].
const MAX_NOTES: usize = 1000;

/// The reason why a record cannot be in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// A type for queries or messages only (RFC 6895 §3.1).
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

/// The reason why records are no zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// No SOA at the apex, or a malformed one.
    NoSoa,
    /// More than 32 GiB of records.
    TooBig,
    /// Building the zone takes more memory than allowed; see [`ZoneBuilder::finish_within`].
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
    /// A reused buffer of [`ZoneBuilder::add_blob`].
    copy: Vec<u8>,
}

/// Collects consecutive records of one name, and builds a blob from them.
pub(super) struct Gatherer {
    pub(super) apex: LowerNameBuf,
    pub(super) encoder: Encoder,
    pub(super) notes: Notes,
    pending: Pending,
}

impl Gatherer {
    fn new(apex: Name<'_>) -> Self {
        let (encoder, notes, pending) = (Encoder::new(), Notes::new(MAX_NOTES), Pending::new());
        Gatherer { apex: apex.to_lower(), encoder, notes, pending }
    }

    /// Adds a record. Returns the blob of the name before, if this record has another name.
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

    /// Returns the blob of the last name, if there is one.
    pub(super) fn close(&mut self) -> Option<&[u8]> {
        let Gatherer { apex, encoder, notes, pending } = self;
        let is_empty = pending.records.is_empty();
        let last = if is_empty { None } else { encoder.encode(pending, apex.as_name(), notes) };
        pending.records.clear();
        last
    }
}

/// Checks whether a record can be in a zone.
pub(super) fn check_fit(t: Type, rdata: &[u8]) -> Result<(), AddError> {
    match t.is_meta() {
        true => Err(AddError::MetaType),
        false if rdata.len() > MAX_RDATA => Err(AddError::RdataTooLong),
        false => Ok(()),
    }
}

impl ZoneBuilder {
    /// Returns a builder for the zone named `apex`. `key` is the hash key of its names.
    pub fn new(apex: Name<'_>, key: &HashKey) -> Self {
        let gatherer = Gatherer::new(apex);
        let blobs = Blobs::new(&gatherer.apex, key);
        ZoneBuilder { key: *key, gatherer, blobs, copy: Vec::new() }
    }

    /// Adds a record of class IN; `rdata` is uncompressed. See [`add_from`](Self::add_from).
    pub fn add(&mut self, owner: Name<'_>, t: Type, ttl: Ttl, rdata: &[u8]) -> Result<(), AddError> {
        self.add_from(owner, t, ttl, rdata, 0)
    }

    /// Adds a record with its origin: `source` is any number, such as a line, and is repeated in the
    /// [`Note`]s about the record.
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

    /// Builds the zone from all records added so far and leaves the builder empty, except for the notes.
    ///
    /// Notes of kind [`is_error`](super::NoteKind::is_error) do not prevent the zone from being built: see
    /// [`first_error`](Self::first_error).
    pub fn finish(&mut self) -> Result<Zone, BuildError> {
        self.finish_within(&mut |_| true)
    }

    /// Builds the zone with bounded memory: `may_take` returns whether this many bytes may be taken for the
    /// zone, including those of [`memory`](Self::memory). It is called whenever that number has changed much.
    ///
    /// # Errors
    /// Also [`BuildError::OutOfMemory`], if `may_take` returns false.
    pub fn finish_within(&mut self, may_take: &mut dyn FnMut(usize) -> bool) -> Result<Zone, BuildError> {
        if let Some(blob) = self.gatherer.close() {
            self.blobs.push(blob);
        }
        super::finish::finish(self, Room::new(may_take))
    }

    /// Returns the bytes of memory that the records added so far take.
    pub fn memory(&self) -> usize {
        self.blobs.memory() + self.gatherer.pending.memory()
    }

    /// Returns the notes about the records, in the order of their discovery; complete after
    /// [`finish`](Self::finish). At most 1,000 are stored.
    pub fn notes(&self) -> &[Note] {
        &self.gatherer.notes.kept
    }

    /// Returns the number of notes beyond those stored.
    pub fn notes_left_out(&self) -> u64 {
        self.gatherer.notes.left_out
    }

    /// Returns the first note that [`is_error`](super::NoteKind::is_error), whether it was stored or not.
    pub fn first_error(&self) -> Option<&Note> {
        self.gatherer.notes.error.as_ref()
    }

    /// Adds a node of another snapshot of the zone, with its records but without the flags and addresses that
    /// it has from other names. Empty non-terminals are left out.
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
