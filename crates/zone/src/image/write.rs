//! Writes images: to a temporary name in the same directory, then renamed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Provenance;
use super::format::{ImageHeader, ImagePart, PAGE, PIECE, PROGRAM, PartKind, fingerprint, sum};
use crate::regular;
use crate::store::{LAYOUT, Zone, ZoneParts};

/// The prefix of an image's name while it is being written.
pub const TEMPORARY: &str = ".unfinished-";

/// Bytes after which written data is synced to the disk, so that other programs do not have to wait for all
/// of it at the end.
const SYNC_BYTES: usize = 64 << 20;

/// Distinguishes the temporary files of one process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes the image of `zone` to `path`, replacing any file there. Returns its size in bytes.
///
/// Only the owner may read the file. At any time `path` is the old file or the whole image, even if the
/// process or the system fails.
pub fn write(path: &Path, zone: &Zone, provenance: &Provenance) -> io::Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = OsString::from(TEMPORARY);
    name.push(format!("{}-{}-", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    name.push(path.file_name().unwrap_or(OsStr::new("image")));
    let temporary = folder.join(name);
    let written = write_new(&temporary, zone, provenance).and_then(|len| {
        fs::rename(&temporary, path)?;
        Ok(len)
    });
    if written.is_err() {
        // The file may not even have been created.
        let _ = fs::remove_file(&temporary);
    }
    let len = written?;
    File::open(folder)?.sync_all()?;
    Ok(len)
}

/// Removes leftovers of killed writers from a directory, but no files that are still being written.
pub fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
            continue;
        }
        // Writers hold a lock on their file, which the system releases when they end.
        let abandoned = regular::open(&entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write_new(path: &Path, zone: &Zone, provenance: &Provenance) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.lock()?;
    let mut out = BufWriter::new(Portions { file: &file, unsynced: 0 });
    let len = write_to(&mut out, zone, provenance)?;
    out.flush()?;
    file.sync_all()?;
    Ok(len)
}

/// Syncs written data to the disk after every [`SYNC_BYTES`].
struct Portions<'a> {
    file: &'a File,
    unsynced: usize,
}

impl Write for Portions<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(SYNC_BYTES)])?;
        self.unsynced += written;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the image of `zone` to `out`. Returns its size in bytes. For a file use [`write()`].
///
/// An image holds a base only: for a zone with an overlay a new base is built first, which takes the same
/// amount of memory again.
pub fn write_to(out: &mut impl Write, zone: &Zone, provenance: &Provenance) -> io::Result<u64> {
    if zone.overlay_size().nodes > 0 {
        let folded = zone.folded().map_err(io::Error::other)?;
        return write_to(out, &folded, provenance);
    }
    let parts = zone.parts();
    let (header, bytes) = lay_out(zone, &parts, provenance);
    out.write_all(&bytes)?;
    let mut at = bytes.len() as u64;
    for (part, (_, bytes)) in header.parts.iter().zip(pieces_of(&parts)) {
        pad(out, part.at - at)?;
        out.write_all(bytes)?;
        at = part.at + part.len;
    }
    Ok(at)
}

fn pad(out: &mut impl Write, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), out).map(|_| ())
}

/// Returns the parts with their kinds, in the order in which they are written.
pub(super) fn pieces_of(parts: &ZoneParts) -> impl Iterator<Item = (PartKind, &[u8])> {
    let chunks = parts.chunks.iter().map(|chunk| (PartKind::Chunk, &chunk[..]));
    let chain = parts.nsec3.as_ref().map(|chain| (PartKind::Nsec3, &chain.nodes[..]));
    let index = [(PartKind::Index, &parts.index[..]), (PartKind::Nsec, &parts.nsec[..])];
    chunks.chain(index).chain(chain)
}

/// Returns the header, with the offsets and checksums of the parts, and its bytes.
fn lay_out(zone: &Zone, parts: &ZoneParts, provenance: &Provenance) -> (ImageHeader, Vec<u8>) {
    let described = |(kind, bytes): (PartKind, &[u8])| ImagePart {
        kind,
        at: 0,
        len: bytes.len() as u64,
        sums: bytes.chunks(PIECE).map(sum).collect(),
    };
    let mut header = ImageHeader {
        layout: LAYOUT,
        program: PROGRAM.to_owned(),
        key: fingerprint(zone.key()),
        apex: zone.apex().to_buf(),
        serial: zone.serial(),
        apex_at: parts.apex,
        counts: parts.counts,
        nsec3: parts.nsec3.as_ref().map(|chain| (chain.iterations, chain.salt.to_vec())),
        provenance: provenance.clone(),
        parts: pieces_of(parts).map(described).collect(),
    };
    // The offsets are not known yet, but their length is fixed.
    let mut at = header.to_bytes().len() as u64;
    for part in &mut header.parts {
        at = at.next_multiple_of(PAGE);
        part.at = at;
        at += part.len;
    }
    let bytes = header.to_bytes();
    (header, bytes)
}
