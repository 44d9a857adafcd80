//! The server's side of a signed request (RFC 8945 §5.2).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wire::message::{Full, Offset};
use wire::{LowerNameBuf, Rcode, UnixTime};

use super::TsigRcode;
use super::digest::{Digest, Mac, Variables};
use super::key::{TsigKey, TsigKeys};
use super::record::{NewTsig, TsigRecord, record_len, time_bytes};
use super::response::{ResponseSigner, Stamp};

/// A request whose signature was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    key: Arc<TsigKey>,
    mac: Mac,
}

impl Verified {
    /// The key that signed it.
    pub fn key(&self) -> &Arc<TsigKey> {
        &self.key
    }

    /// Returns the signer for the response; it must sign the messages in their order.
    pub fn signer(&self) -> ResponseSigner {
        ResponseSigner::new(self.key.clone(), Some(self.mac))
    }
}

/// Why the signature of a request was rejected.
#[derive(Clone, Debug)]
pub enum TsigError {
    /// The record is malformed, or has an invalid class or TTL: FORMERR (RFC 8945 §5.1, §4.2).
    Malformed,
    /// The MAC is longer than the algorithm's, or truncated too far: FORMERR (RFC 8945 §5.2.2.1).
    MacSize,
    /// The record is well formed, but rejected: NOTAUTH, with a TSIG record that has the error.
    Refused(Box<TsigRefusal>),
}

impl TsigError {
    /// The response code for the error.
    pub fn rcode(&self) -> Rcode {
        match self {
            Self::Malformed | Self::MacSize => Rcode::FORMERR,
            Self::Refused(_) => Rcode::NOTAUTH,
        }
    }
}

impl fmt::Display for TsigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("the TSIG record cannot be read"),
            Self::MacSize => f.write_str("the MAC is longer or shorter than RFC 8945 allows"),
            Self::Refused(refusal) => write!(f, "{} for key {}", refusal.error, refusal.owner),
        }
    }
}
impl std::error::Error for TsigError {}

/// The TSIG record of a response to a request with a rejected signature: without a MAC for BADKEY and BADSIG,
/// with one for BADTIME and BADTRUNC (RFC 8945 §5.3.2).
#[derive(Clone, Debug)]
pub struct TsigRefusal {
    error: TsigRcode,
    owner: LowerNameBuf,
    algorithm: LowerNameBuf,
    /// As in the request.
    time: UnixTime,
    fudge: u16,
    /// The signer, if the request's MAC was correct.
    signer: Option<ResponseSigner>,
}

impl TsigRefusal {
    /// The TSIG error.
    pub fn error(&self) -> TsigRcode {
        self.error
    }

    /// Bytes that [`append`](Self::append) adds to a message.
    pub fn reserve(&self) -> usize {
        let (mac, other) = match &self.signer {
            Some(signer) => (signer.key().mac_len(), self.other_len()),
            None => (0, 0),
        };
        record_len(self.owner.as_name().len(), self.algorithm.as_name().len(), mac, other)
    }

    /// BADTIME carries the server's time (RFC 8945 §5.2.3).
    fn other_len(&self) -> usize {
        if self.error == TsigRcode::BADTIME { time_bytes(UnixTime::EPOCH).len() } else { 0 }
    }

    /// Appends the record to the response, the message of `len` bytes at the start of `buf`, and returns its
    /// new length. On [`Full`] the message is unchanged.
    pub fn append(&self, buf: &mut [u8], len: usize, now: UnixTime) -> Result<usize, Full> {
        let server_time = time_bytes(now);
        let other = &server_time[..self.other_len()];
        match &self.signer {
            // A BADTIME response repeats the request's time, so that the client accepts it.
            Some(signer) => {
                let time = if self.error == TsigRcode::BADTIME { self.time } else { now };
                let stamp = Stamp { time, fudge: self.fudge, error: self.error, other };
                signer.clone().sign_with(buf, len, stamp)
            }
            None => {
                let id = buf.first_chunk().map(|id| u16::from_be_bytes(*id)).ok_or(Full)?;
                let record = NewTsig {
                    owner: self.owner.as_name(),
                    algorithm: self.algorithm.as_name(),
                    time: self.time,
                    fudge: self.fudge,
                    mac: &[],
                    original_id: id,
                    error: self.error,
                    other: &[],
                };
                record.append(buf, len)
            }
        }
    }
}

/// Verifies `request`, whose TSIG record starts at `at` and ends it.
///
/// Checks in the order of RFC 8945 §5.2: key, MAC, time, length of the MAC.
pub fn verify(request: &[u8], at: Offset, keys: &TsigKeys, now: UnixTime) -> Result<Verified, TsigError> {
    let record = TsigRecord::read(request, at).map_err(|_| TsigError::Malformed)?;
    let refused = |error, signer| {
        let TsigRecord { owner, algorithm, time, fudge, .. } = record;
        TsigError::Refused(Box::new(TsigRefusal { error, owner, algorithm, time, fudge, signer }))
    };
    let known = keys.get(record.owner.as_lower());
    let Some(key) = known.filter(|key| key.algorithm().wire_name() == record.algorithm.as_lower()) else {
        return Err(refused(TsigRcode::BADKEY, None));
    };
    let len = record.mac.len();
    if !(key.algorithm().least_mac_len()..=key.algorithm().mac_len()).contains(&len) {
        return Err(TsigError::MacSize);
    }
    let mut digest = Digest::new(key);
    digest.signed(request, at, record.original_id).map_err(|_| TsigError::Malformed)?;
    digest.variables(&Variables::of(&record));
    if !digest.ends_in(record.mac) {
        return Err(refused(TsigRcode::BADSIG, None));
    }
    let verified = Verified { key: key.clone(), mac: Mac::of(record.mac, len) };
    if record.time.abs_diff(now) > Duration::from_secs(record.fudge.into()) {
        return Err(refused(TsigRcode::BADTIME, Some(verified.signer())));
    }
    if len < key.mac_len() {
        return Err(refused(TsigRcode::BADTRUNC, Some(verified.signer())));
    }
    Ok(verified)
}
