//! Saves the cache to a file, so that it survives a restart.
//!
//! ```text
//! "nomencac"   version (u32)   seconds since 1970 (u64)   checksum
//! for each entry:
//!   length of the message (u32), never 0
//!   view (u32)   age (u32)   lifetime (u32)   response code (u16)   rank (u8)   flags (u8)
//!   the message: header, question, sections, TTLs as they were stored
//!   checksum
//! length 0 (u32)   number of entries (u64)   checksum
//! ```
//!
//! Numbers are little-endian, times in seconds. Each checksum (u64) covers the bytes since the previous one.
//! The file has no hashes: their key may be another one next time.
//!
//! File contents are untrusted. An entry with a valid checksum is parsed like a response from the network,
//! and stored or refused like one. So a damaged file can lose entries, but can neither break the cache nor
//! make it allocate more than one message.

use std::fmt;
use std::io::{self, Read, Write};

use wire::message::MAX_MESSAGE;
use wire::{Ttl, UnixTime};

use crate::answer::{Answer, AnswerKind, Terms};
use crate::cache::Cache;
use crate::clock::Now;
use crate::credibility::Credibility;
use crate::flags::Flags;
use crate::held::Held;

const MAGIC: &[u8; 8] = b"nomencac";

/// Version of the layout.
const VERSION: u32 = 1;

/// Bytes of the file header, without its checksum.
const FRONT: usize = 20;

/// Bytes in front of an entry's message.
const ENTRY: usize = 20;

/// Bytes of a checksum.
const SUM: usize = 8;

/// The result of loading a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Entries stored.
    pub kept: u64,
    /// Entries skipped: too old, or refused by the current configuration.
    pub left_out: u64,
}

/// Why loading stopped. The entries before the fault are in the cache.
#[derive(Debug)]
pub enum LoadFault {
    /// Reading failed.
    Io(io::Error),
    /// It does not begin like a cache file.
    Foreign,
    /// An unknown version of the layout.
    Version(u32),
    /// A checksum, length or number is wrong, or the file has trailing bytes.
    Damaged,
    /// It is truncated.
    Short,
}

impl fmt::Display for LoadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read: {error}"),
            Self::Foreign => f.write_str("not a file of a cache"),
            Self::Version(version) => write!(f, "version {version} of the layout is not known"),
            Self::Damaged => f.write_str("damaged"),
            Self::Short => f.write_str("ends too early"),
        }
    }
}
impl std::error::Error for LoadFault {}

impl From<io::Error> for LoadFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof { LoadFault::Short } else { LoadFault::Io(error) }
    }
}

/// Returns a checksum that any change of a single word changes: each step is invertible.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    }
    sum
}

/// Writes bytes and their checksum.
fn write_summed(write: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    write.write_all(bytes)?;
    write.write_all(&checksum(bytes).to_le_bytes())
}

impl Cache {
    /// Writes every entry that may be served, fresh or stale, and returns their number. Takes no lock.
    /// Makes many small writes: `write` should be buffered.
    pub fn save(&self, write: &mut impl Write, now: Now, wall: UnixTime) -> io::Result<u64> {
        let mut bytes = Vec::with_capacity(ENTRY + MAX_MESSAGE);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(wall.as_secs().to_le_bytes());
        write_summed(write, &bytes)?;
        let (mut count, mut done) = (0u64, Ok(()));
        self.for_each(now, |held| {
            if done.is_ok() && put(&mut bytes, held) {
                done = write_summed(write, &bytes);
                count += 1;
            }
        });
        done?;
        bytes.clear();
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        write_summed(write, &bytes)?;
        Ok(count)
    }

    /// Loads a file written by [`save`](Self::save), with TTLs aged by the time since. If `wall` is earlier
    /// than the time of the file, entries do not age. Makes many small reads: `read` should be buffered.
    pub fn load(&self, read: &mut impl Read, now: Now, wall: UnixTime) -> Result<Restored, LoadFault> {
        let mut bytes = vec![0; ENTRY + MAX_MESSAGE + SUM];
        let magic = bytes.get_mut(..MAGIC.len()).ok_or(LoadFault::Damaged)?;
        // A shorter file is foreign, too.
        let long_enough = read.read_exact(magic).map_err(LoadFault::from);
        if matches!(long_enough, Err(LoadFault::Short)) || (long_enough.is_ok() && *magic != *MAGIC) {
            return Err(LoadFault::Foreign);
        }
        long_enough?;
        let mut fields = Fields(summed(read, &mut bytes[..FRONT + SUM], MAGIC.len())?);
        fields.bytes::<8>()?;
        let version = fields.u32()?;
        if version != VERSION {
            return Err(LoadFault::Version(version));
        }
        let saved = UnixTime::from_secs(u64::from_le_bytes(fields.bytes()?));
        let passed = u32::try_from(wall.saturating_duration_since(saved).as_secs()).unwrap_or(u32::MAX);
        let mut restored = Restored::default();
        loop {
            read.read_exact(&mut bytes[..4])?;
            let len = Fields(&bytes).u32()? as usize;
            if len == 0 {
                break;
            }
            let frame = bytes.get_mut(..ENTRY + len + SUM).ok_or(LoadFault::Damaged)?;
            let entry = summed(read, frame, 4)?;
            match self.restore(entry, passed, now) {
                Some(()) => restored.kept += 1,
                None => restored.left_out += 1,
            }
        }
        let mut end = Fields(summed(read, &mut bytes[..4 + 8 + SUM], 4)?);
        end.u32()?;
        let count = u64::from_le_bytes(end.bytes()?);
        let more = read.read(&mut [0])?;
        if count != restored.kept + restored.left_out || more > 0 {
            return Err(LoadFault::Damaged);
        }
        Ok(restored)
    }

    /// Stores an entry of a file.
    fn restore(&self, entry: &[u8], passed: u32, now: Now) -> Option<()> {
        let mut fields = Fields(entry);
        fields.u32().ok()?;
        let (view, age, lifetime) = (fields.u32().ok()?, fields.u32().ok()?, fields.u32().ok()?);
        let rcode = u16::from_le_bytes(fields.bytes().ok()?);
        let [rank, flags] = fields.bytes().ok()?;
        let flags = Flags(flags);
        let positive = !flags.is_negative() && !flags.is_failure();
        let terms = Terms {
            view,
            dnssec_ok: flags.dnssec_ok(),
            checking_disabled: flags.checking_disabled(),
            rank: Credibility::ALL.get(rank as usize).copied()?,
            ttl: if positive { None } else { Some(Ttl::from_secs(lifetime)) },
        };
        let answer = Answer::with_extended(fields.0, &terms, (rcode >> 4) as u8).ok()?;
        if (answer.kind() == AnswerKind::Positive) != positive || answer.rcode.0 != rcode {
            return None;
        }
        self.insert_aged(answer, age.saturating_add(passed), now).ok()
    }
}

/// Writes an entry to `bytes`, replacing their content. Returns whether it fits the format: at most one
/// message.
fn put(bytes: &mut Vec<u8>, held: &Held) -> bool {
    let message = held.message();
    let Some(len) = u32::try_from(message.len()).ok().filter(|len| *len as usize <= MAX_MESSAGE) else {
        return false;
    };
    bytes.clear();
    for number in [len, held.view(), held.age, held.lifetime()] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(held.rcode().0.to_le_bytes());
    bytes.extend([held.rank() as u8, held.flags().0]);
    bytes.extend(message);
    true
}

/// Reads the rest of `frame`, of which `have` bytes are there, and returns it without its checksum, if that
/// is right.
fn summed<'b>(read: &mut impl Read, frame: &'b mut [u8], have: usize) -> Result<&'b [u8], LoadFault> {
    read.read_exact(frame.get_mut(have..).ok_or(LoadFault::Damaged)?)?;
    let (bytes, sum) = frame.split_last_chunk::<SUM>().ok_or(LoadFault::Damaged)?;
    if checksum(bytes) == u64::from_le_bytes(*sum) { Ok(bytes) } else { Err(LoadFault::Damaged) }
}

/// Reads numbers from bytes.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], LoadFault> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(LoadFault::Damaged)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, LoadFault> {
        self.bytes().map(u32::from_le_bytes)
    }
}
