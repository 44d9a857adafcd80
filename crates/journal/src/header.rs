//! The header: the first 512 bytes of a store. docs/JOURNAL.md lists its fields.

use std::ops::Range;
use std::path::Path;

use wire::{LowerName, LowerNameBuf, Name, Serial, UnixTime};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::fault::{StoreFault, damaged};

const MAGIC: [u8; 8] = *b"nomenjnl";
/// Format version, incremented with every change of the format.
const VERSION: u32 = 1;
/// Bytes of the header; frames follow.
pub(crate) const HEADER: u64 = 512;
/// Offset of the zone's name, after its length.
const APEX_AT: usize = 65;
/// Offset of the previous file's nonce, followed by whether the zone has a mark.
const PREVIOUS_AT: usize = 320;
/// Offset of the time of the last confirmation.
pub(crate) const CONFIRMED_AT: usize = 480;
/// Offset of the checksum of all bytes before [`CONFIRMED_AT`].
const SUM_AT: usize = 504;

/// Fields of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seed of the checksums of this file.
    pub(crate) nonce: u64,
    /// Offset of the base; history lies before it.
    pub(crate) base_at: u64,
    /// Offset at which the base ends.
    pub(crate) base_end: u64,
    /// Number of records in the base.
    pub(crate) records: u64,
    /// Length of the file when it was renamed into place; all of it had been synced.
    pub(crate) sealed: u64,
    /// The version at which the history begins.
    pub(crate) first: Serial,
    /// The version of the base.
    pub(crate) base: Serial,
    /// The nonce of the file that this one replaced; 0 if there was none.
    pub(crate) previous: u64,
    /// Whether the zone also has a mark in the marks file.
    pub(crate) marked: bool,
}

/// The time at which a primary confirmed a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub(crate) at: UnixTime,
    pub(crate) serial: Serial,
}

/// The head of a file: header, zone name, last confirmation, and the length of the file.
pub(crate) struct StoreHead {
    pub(crate) header: Header,
    pub(crate) apex: LowerNameBuf,
    pub(crate) confirmed: Option<Confirmed>,
    pub(crate) len: u64,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl Confirmed {
    pub(crate) fn to_bytes(self, nonce: u64) -> [u8; SUM_AT - CONFIRMED_AT] {
        let mut bytes = [0; SUM_AT - CONFIRMED_AT];
        bytes[..8].copy_from_slice(&self.at.as_secs().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.serial.0.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..16], nonce);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The confirmation in a header, if it is intact.
    pub(crate) fn of_header(bytes: &[u8; HEADER as usize], nonce: u64) -> Option<Confirmed> {
        let bytes = &bytes[CONFIRMED_AT..SUM_AT];
        let is_whole = u64_at(bytes, 16) == xxh3_64_with_seed(&bytes[..16], nonce);
        is_whole.then(|| Confirmed {
            at: UnixTime::from_secs(u64_at(bytes, 0)),
            serial: Serial(u32_at(bytes, 8)),
        })
    }
}

impl Header {
    /// Byte range of the base.
    pub(crate) fn base_range(&self) -> Range<u64> {
        self.base_at..self.base_end
    }

    pub(crate) fn to_bytes(self, apex: LowerName<'_>, confirmed: Option<Confirmed>) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&[0; 4]);
        for number in [self.nonce, self.base_at, self.base_end, self.records, self.sealed] {
            put(&number.to_le_bytes());
        }
        put(&self.first.0.to_le_bytes());
        put(&self.base.0.to_le_bytes());
        put(&[apex.len() as u8]);
        put(apex.as_wire());
        bytes[PREVIOUS_AT..PREVIOUS_AT + 8].copy_from_slice(&self.previous.to_le_bytes());
        bytes[PREVIOUS_AT + 8..PREVIOUS_AT + 12].copy_from_slice(&u32::from(self.marked).to_le_bytes());
        if let Some(confirmed) = confirmed {
            bytes[CONFIRMED_AT..SUM_AT].copy_from_slice(&confirmed.to_bytes(self.nonce));
        }
        let sum = xxh3_64(&bytes[..CONFIRMED_AT]);
        bytes[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a header.
    pub(crate) fn read(
        bytes: &[u8; HEADER as usize],
        path: &Path,
    ) -> Result<(Header, LowerNameBuf), StoreFault> {
        if bytes[..8] != MAGIC || u32_at(bytes, 8) != VERSION {
            return Err(StoreFault::OtherFormat(path.to_owned()));
        }
        if u64_at(bytes, SUM_AT) != xxh3_64(&bytes[..CONFIRMED_AT]) {
            return Err(damaged(path, 0, "the checksum of the header is wrong"));
        }
        let numbers = [16, 24, 32, 40, 48].map(|at| u64_at(bytes, at));
        let [nonce, base_at, base_end, records, sealed] = numbers;
        let (first, base) = (Serial(u32_at(bytes, 56)), Serial(u32_at(bytes, 60)));
        let apex = Name::parse(&bytes[APEX_AT..APEX_AT + 255])
            .map_err(|_| damaged(path, APEX_AT as u64 - 1, "the name of the zone is malformed"))?;
        if !(HEADER..=base_end).contains(&base_at) || base_end > sealed {
            return Err(damaged(path, 24, "the base is where it cannot be"));
        }
        let (previous, marked) = (u64_at(bytes, PREVIOUS_AT), u32_at(bytes, PREVIOUS_AT + 8) & 1 == 1);
        let header = Header { nonce, base_at, base_end, records, sealed, first, base, previous, marked };
        Ok((header, apex.to_lower()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_not_if_a_bit_differs() {
        let header = Header {
            nonce: 0x1234_5678_9abc_def0,
            base_at: 600,
            base_end: 700,
            records: 5,
            sealed: 800,
            first: Serial(1),
            base: Serial(u32::MAX),
            previous: 0xfedc_ba98_7654_3210,
            marked: true,
        };
        let apex: wire::NameBuf = "example.".parse().expect("a name");
        let apex = apex.as_name().to_lower();
        let confirmed = Confirmed { at: UnixTime::from_secs(1_700_000_000), serial: Serial(7) };
        let bytes = header.to_bytes(apex.as_lower(), Some(confirmed));
        let path = Path::new("x");
        assert_eq!(Header::read(&bytes, path).expect("a header"), (header, apex));
        assert_eq!(Confirmed::of_header(&bytes, header.nonce), Some(confirmed));
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_slot = (CONFIRMED_AT..SUM_AT).contains(&(bit / 8));
            assert_eq!(Header::read(&bytes, path).is_ok(), is_slot, "bit {bit}");
            assert_eq!(Confirmed::of_header(&bytes, header.nonce).is_some(), !is_slot, "bit {bit}");
        }
    }
}
