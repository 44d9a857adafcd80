//! The header of an image, byte by byte, and the checksums. Opens no files.
//!
//! ```text
//!  0  [u8; 8]  magic
//!  8  u32      version of the format
//! 12  u32      bytes of the header
//! 16  u64      checksum of what follows in the header
//! 24           fields in the order of [`ImageHeader`]: numbers little-endian, strings of bytes after their length (u32)
//! ```

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use wire::hash::HashKey;
use wire::{LowerName, LowerNameBuf, Name, Serial};
use xxhash_rust::xxh3::xxh3_64;

use super::{ImageError, Provenance, damaged};
use crate::stamp::{SourceFile, Stamp};
use crate::store::{LAYOUT, NodeAddress, ZoneCounts};

const MAGIC: [u8; 8] = *b"nomenimg";
/// Incremented whenever the header changes.
const VERSION: u32 = 1;
/// Bytes before the fields.
pub(super) const FRONT: usize = 24;
/// Parts begin at multiples of this, in bytes.
pub(super) const PAGE: u64 = 4096;
/// Size of a piece in bytes. Every piece has a checksum of its own; the last piece of a part may be shorter.
pub(super) const PIECE: usize = 1 << 20;
/// Longest header in bytes: a longer one would have the checksums of more pieces than an arena can hold.
const MAX_HEADER: usize = 16 << 20;

/// The kinds of parts of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartKind {
    Chunk = 1,
    Index = 2,
    Nsec = 3,
    Nsec3 = 4,
}

impl PartKind {
    fn of(number: u8) -> Option<PartKind> {
        use PartKind::{Chunk, Index, Nsec, Nsec3};
        [Chunk, Index, Nsec, Nsec3].into_iter().find(|&kind| kind as u8 == number)
    }
}

impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PartKind::Chunk => "names",
            PartKind::Index => "index",
            PartKind::Nsec => "order of NSEC",
            PartKind::Nsec3 => "order of NSEC3",
        })
    }
}

/// A part of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImagePart {
    pub(super) kind: PartKind,
    /// Its offset in the file.
    pub(super) at: u64,
    /// Its length in bytes.
    pub(super) len: u64,
    /// The checksum of each of its pieces.
    pub(super) sums: Vec<u64>,
}

/// The fields of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageHeader {
    /// The layout of the parts.
    pub(super) layout: u32,
    /// The version of the program that wrote the image: another one may read the same text differently.
    pub(super) program: String,
    /// See [`fingerprint`].
    pub(super) key: [u64; 2],
    pub(super) apex: LowerNameBuf,
    pub(super) serial: Serial,
    pub(super) apex_at: NodeAddress,
    pub(super) counts: ZoneCounts,
    /// Iterations and salt of the NSEC3 chain.
    pub(super) nsec3: Option<(u16, Vec<u8>)>,
    pub(super) provenance: Provenance,
    pub(super) parts: Vec<ImagePart>,
}

/// The version of this program.
pub(super) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Returns the checksum of bytes.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Returns the fingerprint of a key, which an image holds in place of the key itself: the hashes of two fixed
/// names. They differ for another key, or another hash function.
pub(super) fn fingerprint(key: &HashKey) -> [u64; 2] {
    [&b"\x05image\x05nomen\0"[..], b"\x0bfingerprint\x03key\x05image\x05nomen\0"]
        .map(|wire| key.name(LowerName::of_checked(wire)).bits())
}

impl ImageHeader {
    /// Whether this version of the program wrote the image.
    pub(super) fn is_ours(&self) -> bool {
        self.layout == LAYOUT && self.program == PROGRAM
    }

    /// Returns the bytes of the header in the file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = HeaderWriter(vec![0; FRONT]);
        out.u32(self.layout);
        out.bytes(self.program.as_bytes());
        self.key.iter().for_each(|&half| out.u64(half));
        out.bytes(self.apex.as_name().as_wire());
        out.u32(self.serial.0);
        out.0.extend_from_slice(&self.apex_at.stored());
        out.u64(self.counts.records);
        out.u64(self.counts.nodes);
        out.u32(self.counts.wildcards.into());
        out.u32(self.nsec3.as_ref().map_or(u32::MAX, |&(iterations, _)| iterations.into()));
        out.bytes(self.nsec3.as_ref().map_or(&[], |(_, salt)| salt));
        out.u64(self.provenance.warnings);
        out.u32(self.provenance.sources.len() as u32);
        for source in &self.provenance.sources {
            out.bytes(source.path.as_os_str().as_bytes());
            let Stamp { size, inode, modified, changed } = source.stamp;
            out.u64(size);
            out.u64(inode);
            for (seconds, nanos) in [modified, changed] {
                out.u64(seconds as u64);
                out.u32(nanos);
            }
        }
        out.u32(self.parts.len() as u32);
        for part in &self.parts {
            out.u32(part.kind as u32);
            out.u64(part.at);
            out.u64(part.len);
            part.sums.iter().for_each(|&sum| out.u64(sum));
        }
        let mut bytes = out.0;
        let (len, checksum) = (bytes.len() as u32, sum(&bytes[FRONT..]));
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the length of the header that begins with `front`, in a file of `file` bytes.
    pub(super) fn len(front: &[u8; FRONT], file: u64) -> Result<usize, ImageError> {
        let mut front = HeaderReader(front);
        if front.take(8)? != MAGIC || front.u32()? != VERSION {
            return Err(ImageError::OtherFormat);
        }
        let len = front.u32()? as usize;
        match (FRONT..=MAX_HEADER).contains(&len) && len as u64 <= file {
            true => Ok(len),
            false => Err(damaged("the header has an impossible length")),
        }
    }

    /// Parses a whole header. Verifies its checksum if `checked`.
    pub(super) fn from_bytes(bytes: &[u8], file: u64, checked: bool) -> Result<ImageHeader, ImageError> {
        let (front, fields) = bytes.split_at_checked(FRONT).ok_or_else(short)?;
        let expected = front.last_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes));
        if checked && expected != sum(fields) {
            return Err(damaged("the checksum of the header is wrong"));
        }
        let mut from = HeaderReader(fields);
        let layout = from.u32()?;
        let program = String::from_utf8_lossy(from.bytes()?).into_owned();
        let key = [from.u64()?, from.u64()?];
        let apex =
            Name::from_wire(from.bytes()?).map_err(|_| damaged("the zone's name is malformed"))?.to_lower();
        let (serial, apex_at) = (Serial(from.u32()?), NodeAddress::of(from.chunk()?));
        let (records, nodes, wildcards) = (from.u64()?, from.u64()?, from.u32()? != 0);
        let (iterations, salt) = (u16::try_from(from.u32()?).ok(), from.bytes()?.to_vec());
        let provenance = Provenance { warnings: from.u64()?, sources: from.sources()? };
        let parts = from.parts(file)?;
        if !from.0.is_empty() {
            return Err(damaged("the header has more than it should"));
        }
        Ok(ImageHeader {
            layout,
            program,
            key,
            apex,
            serial,
            apex_at,
            counts: ZoneCounts { records, nodes, wildcards },
            nsec3: iterations.map(|iterations| (iterations, salt)),
            provenance,
            parts,
        })
    }
}

fn short() -> ImageError {
    damaged("the header is cut short")
}

struct HeaderWriter(Vec<u8>);

impl HeaderWriter {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }
}

/// The bytes left to be read. Memory for a length is allocated only if the bytes exist.
struct HeaderReader<'a>(&'a [u8]);

impl<'a> HeaderReader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], ImageError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(short)?;
        self.0 = rest;
        Ok(taken)
    }
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(short)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn u32(&mut self) -> Result<u32, ImageError> {
        self.chunk().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, ImageError> {
        self.chunk().map(u64::from_le_bytes)
    }
    fn bytes(&mut self) -> Result<&'a [u8], ImageError> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    fn sources(&mut self) -> Result<Vec<SourceFile>, ImageError> {
        let count = self.u32()?;
        let mut sources = Vec::new();
        for _ in 0..count {
            let path = PathBuf::from(OsStr::from_bytes(self.bytes()?));
            let (size, inode) = (self.u64()?, self.u64()?);
            let modified = (self.u64()? as i64, self.u32()?);
            let changed = (self.u64()? as i64, self.u32()?);
            sources.push(SourceFile { path, stamp: Stamp { size, inode, modified, changed } });
        }
        Ok(sources)
    }

    /// Reads the parts, which must be inside a file of `file` bytes.
    fn parts(&mut self, file: u64) -> Result<Vec<ImagePart>, ImageError> {
        let count = self.u32()?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let kind = u8::try_from(self.u32()?).ok().and_then(PartKind::of);
            let kind = kind.ok_or_else(|| damaged("a part of unknown kind"))?;
            let (at, len) = (self.u64()?, self.u64()?);
            if at.checked_add(len).is_none_or(|end| end > file) {
                return Err(damaged(format!("part {} lies beyond the end", parts.len())));
            }
            let pieces = len.div_ceil(PIECE as u64) as usize;
            let sums = self.take(pieces.saturating_mul(8))?.as_chunks::<8>().0;
            let sums = sums.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
            parts.push(ImagePart { kind, at, len, sums });
        }
        Ok(parts)
    }
}
