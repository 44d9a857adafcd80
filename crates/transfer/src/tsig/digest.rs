//! The input of the MAC (RFC 8945 §4.3).

use aws_lc_rs::{constant_time, hmac};
use wire::message::{HEADER_LEN, Header, Malformed, Offset};
use wire::{Class, Name, UnixTime};

use super::TsigRcode;
use super::key::TsigKey;
use super::record::{TsigRecord, time_bytes};

/// Bytes of the longest MAC: that of HMAC-SHA512.
const MAX_MAC: usize = 64;

/// A MAC as sent, possibly truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mac {
    bytes: [u8; MAX_MAC],
    len: u8,
}

impl Mac {
    /// The first `len` bytes of `mac`, or all if it is shorter.
    pub(super) fn of(mac: &[u8], len: usize) -> Mac {
        let len = len.min(mac.len()).min(MAX_MAC);
        let mut bytes = [0; MAX_MAC];
        bytes[..len].copy_from_slice(&mac[..len]);
        Mac { bytes, len: len as u8 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// The fields of a TSIG record that go into the MAC of a first message (RFC 8945 §4.3.3).
pub(super) struct Variables<'a> {
    /// The key's name, in lower case.
    pub(super) owner: Name<'a>,
    /// In lower case.
    pub(super) algorithm: Name<'a>,
    pub(super) time: UnixTime,
    pub(super) fudge: u16,
    pub(super) error: TsigRcode,
    pub(super) other: &'a [u8],
}

impl<'a> Variables<'a> {
    /// The variables of a received record.
    pub(super) fn of(record: &'a TsigRecord<'_>) -> Variables<'a> {
        Variables {
            owner: record.owner.as_name(),
            algorithm: record.algorithm.as_name(),
            time: record.time,
            fudge: record.fudge,
            error: record.error,
            other: record.other,
        }
    }
}

/// A MAC being computed.
pub(super) struct Digest(hmac::Context);

impl Digest {
    pub(super) fn new(key: &TsigKey) -> Digest {
        Digest(hmac::Context::with_key(key.secret()))
    }

    /// Adds the MAC of the request or of the previous message, with its length (RFC 8945 §5.3, §5.3.1).
    pub(super) fn mac(&mut self, mac: &Mac) {
        self.0.update(&(mac.len as u16).to_be_bytes());
        self.0.update(mac.as_bytes());
    }

    /// Adds a message that has no TSIG record, unchanged.
    pub(super) fn plain(&mut self, message: &[u8]) {
        self.0.update(message);
    }

    /// Adds a message without its TSIG record, which starts at `at`: with the original ID, and without the
    /// record in the count (RFC 8945 §4.3.2).
    pub(super) fn signed(&mut self, message: &[u8], at: Offset, original_id: u16) -> Result<(), Malformed> {
        let mut header = Header::of(message).ok_or(Malformed)?;
        let mut counts = header.counts();
        counts[3] = counts[3].checked_sub(1).ok_or(Malformed)?;
        header.set_counts(counts);
        let body = message.get(HEADER_LEN..at.index()).ok_or(Malformed)?;
        self.0.update(&original_id.to_be_bytes());
        self.0.update(&header.as_bytes()[2..]);
        self.0.update(body);
        Ok(())
    }

    /// Adds the variables of the record (RFC 8945 §4.3.3).
    pub(super) fn variables(&mut self, variables: &Variables<'_>) {
        self.0.update(variables.owner.as_wire());
        self.0.update(&Class::ANY.0.to_be_bytes());
        self.0.update(&[0; 4]); // TTL
        self.0.update(variables.algorithm.as_wire());
        self.timers(variables.time, variables.fudge);
        self.0.update(&variables.error.0.to_be_bytes());
        self.0.update(&(variables.other.len() as u16).to_be_bytes());
        self.0.update(variables.other);
    }

    /// Adds the timers of the record; a message after the first adds no other variables (RFC 8945 §5.3.1).
    pub(super) fn timers(&mut self, time: UnixTime, fudge: u16) {
        self.0.update(&time_bytes(time));
        self.0.update(&fudge.to_be_bytes());
    }

    /// Returns the MAC, truncated to `len` bytes.
    pub(super) fn end(self, len: usize) -> Mac {
        Mac::of(self.0.sign().as_ref(), len)
    }

    /// Whether `mac` equals the MAC, or a prefix of it. Compares in constant time.
    pub(super) fn ends_in(self, mac: &[u8]) -> bool {
        let whole = self.0.sign();
        let front = whole.as_ref().get(..mac.len()).unwrap_or_default();
        constant_time::verify_slices_are_equal(front, mac).is_ok()
    }
}
