//! Signed queries (RFC 8945): whether a signature is good, and what signs the reply. Whatever the reply says,
//! it is signed if the query was, and by a key that is known here.

use exchange::unix_seconds;
use transfer::tsig::{TsigError, TsigKeys, Verified, verify};
use wire::Rcode;
use wire::message::Offset;

use crate::refusal::Refusal;

/// What became of the signature of a query.
#[derive(Clone, Debug)]
pub(crate) enum Signature {
    /// It is good.
    Good(Verified),
    /// It is not, and the reply says why.
    Bad(TsigError),
}

impl Signature {
    /// Looks at the signature that starts at `at` of `packet`.
    #[cold]
    pub(crate) fn of(packet: &[u8], at: Offset, keys: &TsigKeys) -> Signature {
        match verify(packet, at, keys, unix_seconds()) {
            Ok(verified) => Signature::Good(verified),
            Err(error) => Signature::Bad(error),
        }
    }

    /// The key that signed the query, and how its reply is signed.
    pub(crate) fn verified(&self) -> Option<&Verified> {
        match self {
            Signature::Good(verified) => Some(verified),
            Signature::Bad(_) => None,
        }
    }

    /// Why a query with this signature is refused, if it is.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Signature::Good(_) => None,
            Signature::Bad(error) => Some(Refusal::plain(error.rcode())),
        }
    }

    /// Bytes that [`append`](Self::append) adds.
    pub(crate) fn reserve(&self) -> usize {
        match self {
            Signature::Good(verified) => verified.signer().reserve(),
            Signature::Bad(TsigError::Refused(refusal)) => refusal.reserve(),
            Signature::Bad(_) => 0,
        }
    }

    /// Adds the TSIG record to a reply with this response code, the `len` bytes at the start of `out`.
    /// Returns its new length, which is the old one if there is no room.
    #[cold]
    pub(crate) fn append(&self, rcode: Rcode, out: &mut [u8], len: usize) -> usize {
        let now = unix_seconds();
        let signed = match self {
            Signature::Good(verified) => verified.signer().sign(out, len, now),
            // NOTAUTH alone is about the signature: other refusals have other reasons.
            Signature::Bad(TsigError::Refused(refusal)) if rcode == Rcode::NOTAUTH => {
                refusal.append(out, len, now)
            }
            Signature::Bad(_) => return len,
        };
        signed.unwrap_or(len)
    }
}
