//! The server's side of a signed request (RFC 8945 §5.2).

use std::fmt;
use std::sync::Arc;

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
    signed: UnixTime,
    /// As in the request.
    fudge: u16,
}

/// What tells a signed request from every other one: the start of its MAC.
///
/// The MAC covers the whole message and the name of the key. It does not cover the ID of the message, which a
/// server that forwards it may change, nor the letter case of the names of key and algorithm; and a MAC can
/// be cut down to the length that its key takes. The same request in any of these forms has the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignedId(pub [u8; 16]);

impl Verified {
    /// The key that signed it.
    pub fn key(&self) -> &Arc<TsigKey> {
        &self.key
    }

    /// What tells the request from others.
    pub fn id(&self) -> SignedId {
        let mac = self.mac.as_bytes();
        // What is beyond the length that the key takes may have been cut off.
        let len = mac.len().min(self.key.mac_len()).min(16);
        let mut id = SignedId([0; 16]);
        id.0[..len].copy_from_slice(&mac[..len]);
        id
    }

    /// When it was signed, by the clock of the client.
    pub fn signed_at(&self) -> UnixTime {
        self.signed
    }

    /// The last second in which it is accepted.
    pub fn valid_until(&self) -> UnixTime {
        self.signed.saturating_add(self.key.fudge_of(self.fudge))
    }

    /// Returns the refusal of the request for its time, although that is within the fudge.
    pub fn bad_time(&self) -> TsigRefusal {
        TsigRefusal {
            error: TsigRcode::BADTIME,
            owner: self.key.name().to_buf(),
            algorithm: self.key.algorithm().wire_name().to_buf(),
            time: self.signed,
            fudge: self.fudge,
            signer: Some(self.signer()),
        }
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
    let (signed, fudge) = (record.time, record.fudge);
    let verified = Verified { key: key.clone(), mac: Mac::of(record.mac, len), signed, fudge };
    if signed.abs_diff(now) > key.fudge_of(fudge) {
        return Err(refused(TsigRcode::BADTIME, Some(verified.signer())));
    }
    if len < key.mac_len() {
        return Err(refused(TsigRcode::BADTRUNC, Some(verified.signer())));
    }
    Ok(verified)
}
