//! Reads an image: first the header, which shows whether the rest is current, then all parts in parallel.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{self, Path};
use std::sync::{Mutex, PoisonError};

use wire::hash::HashKey;
use wire::{LowerName, Name, Serial};

use super::format::{FRONT, ImageHeader, ImagePart, PIECE, PartKind, fingerprint, sum};
use super::{ImageError, Provenance, damaged};
use crate::regular;
use crate::store::{Nsec3Parts, Region, Unsound, Zone, ZoneParts, in_parallel};

/// An image whose header has been read and verified.
pub struct Image<R = File> {
    from: R,
    header: ImageHeader,
    checked: bool,
}

/// Bytes that can be read from any offset.
trait ReadAt: Sync {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(buffer, at)
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Image {
    /// Opens the image at `path` and reads its header.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        let file = regular::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ImageError::Missing,
            _ => ImageError::Io(error),
        })?;
        let about = file.metadata().map_err(ImageError::Io)?;
        Image::new(file, about.len(), true)
    }
}

impl<'a> Image<&'a [u8]> {
    /// Returns the image in `bytes`.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Image::new(bytes, bytes.len() as u64, true)
    }

    /// Returns the image in `bytes`, whose checksums are not verified: for tests of wrong content.
    pub fn unchecked(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Image::new(bytes, bytes.len() as u64, false)
    }
}

impl<R> Image<R> {
    /// The zone's name.
    pub fn apex(&self) -> LowerName<'_> {
        self.header.apex.as_lower()
    }

    /// Returns the serial of the zone's SOA.
    pub fn serial(&self) -> Serial {
        self.header.serial
    }

    /// Returns the origin of the zone.
    pub fn provenance(&self) -> &Provenance {
        &self.header.provenance
    }

    /// Checks that the image equals what reading the zone `apex` from the file `text` with `key` would yield
    /// now: it was built so, and none of the files that were read has changed.
    pub fn check_current(&self, apex: Name<'_>, text: &Path, key: &HashKey) -> Result<(), ImageError> {
        if self.apex().as_name() != apex {
            return Err(ImageError::OtherZone);
        }
        if self.header.key != fingerprint(key) {
            return Err(ImageError::OtherKey);
        }
        let text = path::absolute(text).map_err(ImageError::Io)?;
        if self.provenance().sources.first().is_none_or(|source| source.path != text) {
            return Err(ImageError::OtherFile(text));
        }
        match self.provenance().sources.iter().find(|source| !source.is_current()) {
            Some(source) => Err(ImageError::Changed(source.path.clone())),
            None => Ok(()),
        }
    }
}

#[expect(private_bounds, reason = "an image is made from a file or from bytes, by the functions here")]
impl<R: ReadAt> Image<R> {
    fn new(from: R, file: u64, checked: bool) -> Result<Self, ImageError> {
        let mut front = [0; FRONT];
        if file < FRONT as u64 {
            return Err(ImageError::OtherFormat);
        }
        from.read_at(&mut front, 0).map_err(ImageError::Io)?;
        let mut bytes = vec![0; ImageHeader::len(&front, file)?];
        from.read_at(&mut bytes, 0).map_err(ImageError::Io)?;
        let header = ImageHeader::from_bytes(&bytes, file, checked)?;
        match header.is_ours() {
            true => Ok(Image { from, header, checked }),
            false => Err(ImageError::OtherFormat),
        }
    }

    /// Reads and verifies everything with `threads` threads. Returns the zone, whose hash key is `key`.
    pub fn read(&self, key: &HashKey, threads: usize) -> Result<Zone, ImageError> {
        if self.checked && self.header.key != fingerprint(key) {
            return Err(ImageError::OtherKey);
        }
        let parts = &self.header.parts;
        // Parts must not overlap, so no more is allocated than the file has bytes.
        let mut ranges: Vec<_> = parts.iter().map(|part| (part.at, part.len)).collect();
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(damaged("two parts lie in the same place"));
        }
        let mut memory = Vec::with_capacity(parts.len());
        for part in parts {
            let len = usize::try_from(part.len).map_err(|_| damaged("a part is larger than memory"))?;
            memory.push(Region::zeroed(len));
        }
        self.fill(&mut memory, threads)?;
        let parts = self.parts(memory)?;
        let unsound = |Unsound(what)| damaged(what);
        let zone = Zone::from_parts(parts, self.apex(), key, threads).map_err(unsound)?;
        match zone.serial() == self.serial() {
            true => Ok(zone),
            false => Err(damaged("the serial number is not that of the zone")),
        }
    }

    /// Reads every part into its memory.
    fn fill(&self, memory: &mut [Region], threads: usize) -> Result<(), ImageError> {
        let mut jobs = Vec::new();
        for (number, (part, memory)) in self.header.parts.iter().zip(memory).enumerate() {
            for (i, piece) in memory.as_mut().chunks_mut(PIECE).enumerate() {
                let at = part.at + (i * PIECE) as u64;
                let expected = part.sums.get(i).copied();
                jobs.push(Mutex::new(PieceToRead { number, kind: part.kind, at, expected, bytes: piece }));
            }
        }
        in_parallel(threads, jobs.len(), |job| {
            let mut piece = jobs[job].lock().unwrap_or_else(PoisonError::into_inner);
            self.fill_piece(&mut piece)
        })
    }

    fn fill_piece(&self, piece: &mut PieceToRead<'_>) -> Result<(), ImageError> {
        self.from.read_at(piece.bytes, piece.at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it has become shorter while it was read"),
            _ => ImageError::Io(error),
        })?;
        if self.checked && piece.expected != Some(sum(piece.bytes)) {
            let PieceToRead { number, kind, at, .. } = piece;
            return Err(damaged(format!(
                "the checksum of part {number} ({kind}) is wrong from byte {at} on"
            )));
        }
        Ok(())
    }

    /// Returns the parts in the filled memory, by their kinds.
    fn parts(&self, memory: Vec<Region>) -> Result<ZoneParts, ImageError> {
        let mut chunks = Vec::new();
        let [mut index, mut nsec, mut nodes] = [const { None }; 3];
        for (ImagePart { kind, .. }, memory) in self.header.parts.iter().zip(memory) {
            let bytes = memory.freeze();
            let slot = match kind {
                PartKind::Chunk => {
                    chunks.push(bytes);
                    continue;
                }
                PartKind::Index => &mut index,
                PartKind::Nsec => &mut nsec,
                PartKind::Nsec3 => &mut nodes,
            };
            if slot.replace(bytes).is_some() {
                return Err(damaged("two parts of the same kind"));
            }
        }
        let missing = || damaged("a part is missing");
        let nsec3 = match (&self.header.nsec3, nodes) {
            (Some((iterations, salt)), Some(nodes)) => {
                Some(Nsec3Parts { iterations: *iterations, salt: salt[..].into(), nodes })
            }
            (None, None) => None,
            _ => return Err(missing()),
        };
        let (index, nsec) = (index.ok_or_else(missing)?, nsec.ok_or_else(missing)?);
        let (apex, counts) = (self.header.apex_at, self.header.counts);
        Ok(ZoneParts { chunks, index, nsec, nsec3, apex, counts })
    }
}

/// A piece of a part that is to be read, and its destination.
struct PieceToRead<'m> {
    /// Number and kind of the part.
    number: usize,
    kind: PartKind,
    /// The offset in the file.
    at: u64,
    /// The checksum in the header.
    expected: Option<u64>,
    bytes: &'m mut [u8],
}
