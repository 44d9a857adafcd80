//! Writing an image: beside its place first, then moved there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Making;
use super::format::{Header, Kind, PAGE, PIECE, PROGRAM, Section, fingerprint, sum};
use crate::store::{LAYOUT, Parts, Zone};

/// What the name of an image begins with while it is being written.
pub const TEMPORARY: &str = ".unfinished-";

/// Bytes after which what was written is brought to the disk, so that the rest of the system does not have
/// to wait for all of it at once.
const PORTION: usize = 64 << 20;

/// Tells temporary files of one process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Writes the image of `zone` to `path`, in place of what is there, and gives its size in bytes.
///
/// Only the owner may read the file. At any time `path` is what it was before or the whole image, whatever
/// happens to the process or the system.
pub fn write(path: &Path, zone: &Zone, making: &Making) -> io::Result<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut name = OsString::from(TEMPORARY);
    name.push(format!("{}-{}-", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
    name.push(path.file_name().unwrap_or(OsStr::new("image")));
    let temporary = folder.join(name);
    let written = write_new(&temporary, zone, making).and_then(|len| {
        fs::rename(&temporary, path)?;
        Ok(len)
    });
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&temporary);
    }
    let len = written?;
    File::open(folder)?.sync_all()?;
    Ok(len)
}

/// Removes what writers that were killed left in a folder, but nothing that is still being written.
pub fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
            continue;
        }
        // Writers hold a lock, which ends with them.
        let abandoned = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if abandoned {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn write_new(path: &Path, zone: &Zone, making: &Making) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.lock()?;
    let mut out = BufWriter::new(Portions { file: &file, unsynced: 0 });
    let len = write_to(&mut out, zone, making)?;
    out.flush()?;
    file.sync_all()?;
    Ok(len)
}

/// Brings what is written to the disk from time to time.
struct Portions<'a> {
    file: &'a File,
    unsynced: usize,
}

impl Write for Portions<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(&bytes[..bytes.len().min(PORTION)])?;
        self.unsynced += written;
        if self.unsynced >= PORTION {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the image of `zone` to `out` and gives its size in bytes. A file should be written with [`write()`].
pub fn write_to(out: &mut impl Write, zone: &Zone, making: &Making) -> io::Result<u64> {
    let parts = zone.parts();
    let (header, bytes) = lay_out(zone, &parts, making);
    out.write_all(&bytes)?;
    let mut at = bytes.len() as u64;
    for (section, (_, bytes)) in header.sections.iter().zip(pieces_of(&parts)) {
        pad(out, section.at - at)?;
        out.write_all(bytes)?;
        at = section.at + section.len;
    }
    Ok(at)
}

fn pad(out: &mut impl Write, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), bytes), out).map(|_| ())
}

/// The parts with their kinds, in the order in which they are written.
pub(super) fn pieces_of(parts: &Parts) -> impl Iterator<Item = (Kind, &[u8])> {
    let chunks = parts.chunks.iter().map(|chunk| (Kind::Chunk, &chunk[..]));
    let chain = parts.nsec3.as_ref().map(|chain| (Kind::Nsec3, &chain.places[..]));
    let index = [(Kind::Index, &parts.index[..]), (Kind::Nsec, &parts.nsec[..])];
    chunks.chain(index).chain(chain)
}

/// The header, with the parts' places and checksums, and its bytes.
fn lay_out(zone: &Zone, parts: &Parts, making: &Making) -> (Header, Vec<u8>) {
    let section = |(kind, bytes): (Kind, &[u8])| Section {
        kind,
        at: 0,
        len: bytes.len() as u64,
        sums: bytes.chunks(PIECE).map(sum).collect(),
    };
    let mut header = Header {
        layout: LAYOUT,
        program: PROGRAM.to_owned(),
        key: fingerprint(zone.key()),
        apex: zone.apex().to_buf(),
        serial: zone.serial(),
        apex_at: parts.apex,
        counts: parts.counts,
        nsec3: parts.nsec3.as_ref().map(|chain| (chain.iterations, chain.salt.to_vec())),
        making: making.clone(),
        sections: pieces_of(parts).map(section).collect(),
    };
    // Places take the same room whatever they are.
    let mut at = header.to_bytes().len() as u64;
    for section in &mut header.sections {
        at = at.next_multiple_of(PAGE);
        section.at = at;
        at += section.len;
    }
    let bytes = header.to_bytes();
    (header, bytes)
}
