//! Signed queries (RFC 8945): whether the TSIG is valid, and the signature of the reply. Every reply to a
//! query signed with a known key is signed.

use transfer::tsig::{TsigError, TsigKeys, Verified, verify};
use transport::unix_now;
use wire::Rcode;
use wire::message::Offset;

use crate::refusal::Refusal;

/// The result of verifying the TSIG of a query.
#[derive(Clone, Debug)]
pub(crate) enum Signature {
    /// Valid.
    Good(Verified),
    /// Invalid; the reply carries the error.
    Bad(TsigError),
}

impl Signature {
    /// Verifies the TSIG record that starts at offset `at` of `packet`.
    #[cold]
    pub(crate) fn of(packet: &[u8], at: Offset, keys: &TsigKeys) -> Signature {
        match verify(packet, at, keys, unix_now()) {
            Ok(verified) => Signature::Good(verified),
            Err(error) => Signature::Bad(error),
        }
    }

    /// Returns the key of a valid TSIG and the state that signs the reply.
    pub(crate) fn verified(&self) -> Option<&Verified> {
        match self {
            Signature::Good(verified) => Some(verified),
            Signature::Bad(_) => None,
        }
    }

    /// Returns the refusal of a query with this TSIG, if it is invalid.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Signature::Good(_) => None,
            Signature::Bad(error) => Some(Refusal::plain(error.rcode())),
        }
    }

    /// Returns the number of bytes that [`append`](Self::append) adds.
    pub(crate) fn reserve(&self) -> usize {
        match self {
            Signature::Good(verified) => verified.signer().reserve(),
            Signature::Bad(TsigError::Refused(refusal)) => refusal.reserve(),
            Signature::Bad(_) => 0,
        }
    }

    /// Appends the TSIG record to a reply with this response code and extended error, the `len` bytes at the
    /// start of `out`. Returns its new length, which is the old one if there is no room.
    #[cold]
    pub(crate) fn append(&self, replied: Refusal, out: &mut [u8], len: usize) -> usize {
        let (now, rcode) = (unix_now(), replied.rcode);
        let signed = match self {
            Signature::Good(verified) if replied == Refusal::STALE_SIGNATURE => {
                verified.bad_time().append(out, len, now)
            }
            Signature::Good(verified) => verified.signer().sign(out, len, now),
            // Only NOTAUTH is about the TSIG: other response codes have other reasons.
            Signature::Bad(TsigError::Refused(refusal)) if rcode == Rcode::NOTAUTH => {
                refusal.append(out, len, now)
            }
            Signature::Bad(_) => return len,
        };
        signed.unwrap_or(len)
    }
}
