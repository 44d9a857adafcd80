//! The client's side of a signed response (RFC 8945 §5.4, §5.3.1).

use std::fmt;
use std::sync::Arc;

use wire::UnixTime;
use wire::message::Offset;

use super::digest::{Digest, Mac, Variables};
use super::key::TsigKey;
use super::record::TsigRecord;
use super::{MOST_UNSIGNED, TsigRcode};

/// Why the signatures of a response were rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The first or the last message has no TSIG record, or more than 99 in a row have none (RFC 8945
    /// §5.3.1).
    Unsigned,
    /// A TSIG record is malformed.
    Malformed,
    /// The MAC is longer than the algorithm's, or truncated too far (RFC 8945 §5.2.2.1).
    MacSize,
    /// Signed with another key or algorithm than the request.
    OtherKey,
    /// The MAC is wrong.
    BadSignature,
    /// The time signed is too far from the current time.
    BadTime(UnixTime),
    /// The MAC is shorter than the key accepts.
    Truncated,
    /// The server rejected the signature of the request.
    Refused {
        /// The TSIG error.
        error: TsigRcode,
        /// Whether the server signed this response, so that the error is authentic.
        authentic: bool,
        /// The server's time for BADTIME.
        server_time: Option<UnixTime>,
    },
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("not signed where it must be"),
            Self::Malformed => f.write_str("the TSIG record cannot be read"),
            Self::MacSize => f.write_str("the MAC is longer or shorter than RFC 8945 allows"),
            Self::OtherKey => f.write_str("signed with another key"),
            Self::BadSignature => f.write_str("the signature is wrong"),
            Self::BadTime(time) => write!(f, "signed at {time}, too far from now"),
            Self::Truncated => f.write_str("the MAC is cut shorter than the key takes"),
            Self::Refused { error, server_time, .. } => {
                write!(f, "the server refuses the signature: {error}")?;
                server_time.map_or(Ok(()), |time| write!(f, ", its time is {time}"))
            }
        }
    }
}
impl std::error::Error for ResponseError {}

/// Verifies the messages of the response to one signed request, in their order.
///
/// A message without a signature is unproven until a later signed one is verified: a caller must not use a
/// response of several messages before [`end`](Self::end).
pub struct ResponseVerifier {
    key: Arc<TsigKey>,
    /// The MAC that the next one covers: that of the request, then that of the last signed message.
    prior: Mac,
    /// Whether a signed message was received.
    begun: bool,
    /// Unsigned messages since then, and their digest for the MAC of the next signed one.
    unsigned: u32,
    pending: Option<Digest>,
}

impl ResponseVerifier {
    pub(super) fn new(key: Arc<TsigKey>, request: Mac) -> ResponseVerifier {
        ResponseVerifier { key, prior: request, begun: false, unsigned: 0, pending: None }
    }

    /// The key that signed the request and must sign the response.
    pub fn key(&self) -> &Arc<TsigKey> {
        &self.key
    }

    /// Verifies the next message. `tsig_at` is the offset of its TSIG record, if it has one: the last record,
    /// as [`find`](super::find) returns it. Must not be called again after an error.
    pub fn message(
        &mut self,
        message: &[u8],
        tsig_at: Option<Offset>,
        now: UnixTime,
    ) -> Result<(), ResponseError> {
        let Some(at) = tsig_at else { return self.unsigned(message) };
        let record = TsigRecord::read(message, at).map_err(|_| ResponseError::Malformed)?;
        let algorithm = self.key.algorithm();
        if record.owner.as_lower() != self.key.name() || record.algorithm.as_lower() != algorithm.wire_name()
        {
            return Err(ResponseError::OtherKey);
        }
        let len = record.mac.len();
        if len == 0 && record.error != TsigRcode::NOERROR {
            return Err(ResponseError::Refused { error: record.error, authentic: false, server_time: None });
        }
        if !(algorithm.least_mac_len()..=algorithm.mac_len()).contains(&len) {
            return Err(ResponseError::MacSize);
        }
        let mut digest = self.digest();
        digest.signed(message, at, record.original_id).map_err(|_| ResponseError::Malformed)?;
        match self.begun {
            false => digest.variables(&Variables::of(&record)),
            true => digest.timers(record.time, record.fudge),
        }
        if !digest.ends_in(record.mac) {
            return Err(ResponseError::BadSignature);
        }
        if record.error != TsigRcode::NOERROR {
            let server_time = record.other.first_chunk::<6>().filter(|_| record.error == TsigRcode::BADTIME);
            let server_time = server_time.map(|[a, b, c, d, e, f]| {
                UnixTime::from_secs(u64::from_be_bytes([0, 0, *a, *b, *c, *d, *e, *f]))
            });
            return Err(ResponseError::Refused { error: record.error, authentic: true, server_time });
        }
        if record.time.abs_diff(now) > self.key.fudge_of(record.fudge) {
            return Err(ResponseError::BadTime(record.time));
        }
        if len < self.key.mac_len() {
            return Err(ResponseError::Truncated);
        }
        (self.prior, self.begun, self.unsigned) = (Mac::of(record.mac, len), true, 0);
        Ok(())
    }

    /// Checks, at the end of the response, that its last message was signed.
    pub fn end(&self) -> Result<(), ResponseError> {
        if self.begun && self.unsigned == 0 { Ok(()) } else { Err(ResponseError::Unsigned) }
    }

    fn unsigned(&mut self, message: &[u8]) -> Result<(), ResponseError> {
        if !self.begun || self.unsigned >= MOST_UNSIGNED {
            return Err(ResponseError::Unsigned);
        }
        let mut digest = self.digest();
        digest.plain(message);
        self.pending = Some(digest);
        self.unsigned += 1;
        Ok(())
    }

    /// The digest for the MAC of the next signed message, as far as known.
    fn digest(&mut self) -> Digest {
        self.pending.take().unwrap_or_else(|| {
            let mut digest = Digest::new(&self.key);
            digest.mac(&self.prior);
            digest
        })
    }
}

impl fmt::Debug for ResponseVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResponseVerifier({:?}, {} unsigned)", self.key, self.unsigned)
    }
}
