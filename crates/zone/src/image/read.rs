//! Reading an image: the header first, which tells whether it is worth reading, then all parts at once.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{self, Path};
use std::sync::{Mutex, PoisonError};

use wire::hash::HashKey;
use wire::{LowerName, Name, Serial};

use super::format::{FRONT, Header, Kind, PIECE, Section, fingerprint, sum};
use super::{ImageError, Making, damaged};
use crate::store::{ChainParts, Memory, Parts, Unsound, Zone, in_parallel};

/// An image whose header has been read and found whole.
pub struct Image<R = File> {
    from: R,
    header: Header,
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
    /// Opens the image at `path` and reads what it tells of itself.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ImageError::Missing,
            _ => ImageError::Io(error),
        })?;
        let about = file.metadata().map_err(ImageError::Io)?;
        if !about.is_file() {
            return Err(ImageError::OtherFormat);
        }
        Image::new(file, about.len(), true)
    }
}

impl<'a> Image<&'a [u8]> {
    /// The image that `bytes` are.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Image::new(bytes, bytes.len() as u64, true)
    }

    /// The image that `bytes` are, without regard to checksums: to find out what wrong content can do.
    pub fn unchecked(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Image::new(bytes, bytes.len() as u64, false)
    }
}

impl<R> Image<R> {
    /// The zone's name.
    pub fn apex(&self) -> LowerName<'_> {
        self.header.apex.as_lower()
    }

    /// The serial number of the zone's SOA.
    pub fn serial(&self) -> Serial {
        self.header.serial
    }

    /// How the zone was made.
    pub fn making(&self) -> &Making {
        &self.header.making
    }

    /// Whether it is what reading the zone `apex` from `text` under `key` would make now: none of the files has
    /// changed.
    pub fn check_current(&self, apex: Name<'_>, text: &Path, key: &HashKey) -> Result<(), ImageError> {
        if self.apex().as_name() != apex {
            return Err(ImageError::OtherZone);
        }
        if self.header.key != fingerprint(key) {
            return Err(ImageError::OtherKey);
        }
        let text = path::absolute(text).map_err(ImageError::Io)?;
        if self.making().sources.first().is_none_or(|source| source.path != text) {
            return Err(ImageError::OtherFile(text));
        }
        match self.making().sources.iter().find(|source| !source.is_current()) {
            Some(source) => Err(ImageError::Changed(source.path.clone())),
            None => Ok(()),
        }
    }
}

#[expect(private_bounds, reason = "what can be read from is this module's own affair")]
impl<R: ReadAt> Image<R> {
    fn new(from: R, file: u64, checked: bool) -> Result<Self, ImageError> {
        let mut front = [0; FRONT];
        if file < FRONT as u64 {
            return Err(ImageError::OtherFormat);
        }
        from.read_at(&mut front, 0).map_err(ImageError::Io)?;
        let mut bytes = vec![0; Header::len(&front, file)?];
        from.read_at(&mut bytes, 0).map_err(ImageError::Io)?;
        let header = Header::from_bytes(&bytes, file, checked)?;
        match header.is_ours() {
            true => Ok(Image { from, header, checked }),
            false => Err(ImageError::OtherFormat),
        }
    }

    /// Reads and checks everything with `threads` threads and gives the zone, to be looked up under `key`.
    pub fn read(&self, key: &HashKey, threads: usize) -> Result<Zone, ImageError> {
        if self.checked && self.header.key != fingerprint(key) {
            return Err(ImageError::OtherKey);
        }
        let sections = &self.header.sections;
        // No part lies in another, so what is allocated is never more than the file.
        let mut places: Vec<_> = sections.iter().map(|section| (section.at, section.len)).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err(damaged("two parts lie in the same place"));
        }
        let mut memory = Vec::with_capacity(sections.len());
        for section in sections {
            let len = usize::try_from(section.len).map_err(|_| damaged("a part is larger than memory"))?;
            memory.push(Memory::zeroed(len));
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

    /// Reads every section into its memory.
    fn fill(&self, memory: &mut [Memory], threads: usize) -> Result<(), ImageError> {
        let mut jobs = Vec::new();
        for (number, (section, memory)) in self.header.sections.iter().zip(memory).enumerate() {
            for (i, piece) in memory.as_mut().chunks_mut(PIECE).enumerate() {
                let at = section.at + (i * PIECE) as u64;
                let told = section.sums.get(i).copied();
                jobs.push(Mutex::new(Piece { number, kind: section.kind, at, told, bytes: piece }));
            }
        }
        in_parallel(threads, jobs.len(), |job| {
            let mut piece = jobs[job].lock().unwrap_or_else(PoisonError::into_inner);
            self.fill_piece(&mut piece)
        })
    }

    fn fill_piece(&self, piece: &mut Piece<'_>) -> Result<(), ImageError> {
        self.from.read_at(piece.bytes, piece.at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it has become shorter"),
            _ => ImageError::Io(error),
        })?;
        if self.checked && piece.told != Some(sum(piece.bytes)) {
            let Piece { number, kind, at, .. } = piece;
            return Err(damaged(format!("the checksum of part {number} ({kind}) from byte {at} on")));
        }
        Ok(())
    }

    /// Puts the filled memory in its place.
    fn parts(&self, memory: Vec<Memory>) -> Result<Parts, ImageError> {
        let mut chunks = Vec::new();
        let [mut index, mut nsec, mut places] = [const { None }; 3];
        for (Section { kind, .. }, memory) in self.header.sections.iter().zip(memory) {
            let bytes = memory.freeze();
            let slot = match kind {
                Kind::Chunk => {
                    chunks.push(bytes);
                    continue;
                }
                Kind::Index => &mut index,
                Kind::Nsec => &mut nsec,
                Kind::Nsec3 => &mut places,
            };
            if slot.replace(bytes).is_some() {
                return Err(damaged("two parts of the same kind"));
            }
        }
        let missing = || damaged("a part is missing");
        let nsec3 = match (&self.header.nsec3, places) {
            (Some((iterations, salt)), Some(places)) => {
                Some(ChainParts { iterations: *iterations, salt: salt[..].into(), places })
            }
            (None, None) => None,
            _ => return Err(missing()),
        };
        let (index, nsec) = (index.ok_or_else(missing)?, nsec.ok_or_else(missing)?);
        let (apex, counts) = (self.header.apex_at, self.header.counts);
        Ok(Parts { chunks, index, nsec, nsec3, apex, counts })
    }
}

/// A piece of a section, and where it goes.
struct Piece<'m> {
    /// Number and kind of the section.
    number: usize,
    kind: Kind,
    /// Where in the file it begins.
    at: u64,
    /// The checksum that the header tells.
    told: Option<u64>,
    bytes: &'m mut [u8],
}
