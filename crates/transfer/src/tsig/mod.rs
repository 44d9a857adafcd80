//! Transaction signatures (RFC 8945): messages authenticated by a shared secret.
//!
//! ```text
//! server   verify(request) ─▶ Verified ─▶ ResponseSigner::sign(each message of the response)
//!                        └──▶ TsigError::Refused ─▶ TsigRefusal::append(the response NOTAUTH)
//! client   sign_request(request) ─▶ ResponseVerifier::message(each message), then ::end
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `key.rs` | [`TsigKey`], [`TsigKeys`], [`TsigAlgorithm`] |
//! | `keyfile.rs` | keys in the format of BIND's tools: [`read_keys`] |
//! | `record.rs` | the TSIG record on the wire |
//! | `digest.rs` | the input of the MAC |
//! | `request.rs` | the server's side of a request: [`verify`] |
//! | `response.rs` | signing: [`ResponseSigner`], [`sign_request`] |
//! | `verifier.rs` | the client's side of a response: [`ResponseVerifier`] |

mod digest;
mod key;
mod keyfile;
mod record;
mod request;
mod response;
#[cfg(test)]
mod tests;
mod verifier;

use std::fmt;

use wire::Type;
use wire::message::{Malformed, Offset, Parser};

pub use key::{DuplicateKey, TsigAlgorithm, TsigKey, TsigKeyError, TsigKeys};
pub use keyfile::{KeyFileFault, KeyFileFaultKind, read_keys};
pub use request::{SignedId, TsigError, TsigRefusal, Verified, verify};
pub use response::{ResponseSigner, sign_request, signature_len};
pub use verifier::{ResponseError, ResponseVerifier};

/// Seconds that the clocks of both sides may differ, unless set for a key (RFC 8945 §10 recommends 300).
pub const FUDGE: u16 = 300;
/// Most consecutive messages of a response without a signature (RFC 8945 §5.3.1).
pub const MOST_UNSIGNED: u32 = 99;

/// The error field of a TSIG record (RFC 8945 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsigRcode(pub u16);

impl TsigRcode {
    /// No error.
    pub const NOERROR: TsigRcode = TsigRcode(0);
    /// The MAC is wrong.
    pub const BADSIG: TsigRcode = TsigRcode(16);
    /// The key is unknown, or has another algorithm.
    pub const BADKEY: TsigRcode = TsigRcode(17);
    /// The time signed is too far from the current time.
    pub const BADTIME: TsigRcode = TsigRcode(18);
    /// The MAC is shorter than the local policy accepts.
    pub const BADTRUNC: TsigRcode = TsigRcode(22);
}

impl fmt::Display for TsigRcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOERROR => f.write_str("NOERROR"),
            Self::BADSIG => f.write_str("BADSIG"),
            Self::BADKEY => f.write_str("BADKEY"),
            Self::BADTIME => f.write_str("BADTIME"),
            Self::BADTRUNC => f.write_str("BADTRUNC"),
            TsigRcode(n) => write!(f, "RCODE{n}"),
        }
    }
}

/// Offset of the TSIG record of `message`, for callers that do not parse its records themselves. It must be
/// the last record of the additional section, and the only one (RFC 8945 §5.1): anything else is
/// [`Malformed`].
pub fn find(message: &[u8]) -> Result<Option<Offset>, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, authorities, additionals] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    for _ in 0..answers as u32 + authorities as u32 {
        if parser.record()?.rtype == Type::TSIG {
            return Err(Malformed);
        }
    }
    let mut found = None;
    for left in (0..additionals).rev() {
        let record = parser.record()?;
        match record.rtype {
            Type::TSIG if left == 0 => found = Some(record.owner_at),
            Type::TSIG => return Err(Malformed),
            _ => {}
        }
    }
    if parser.at_end() { Ok(found) } else { Err(Malformed) }
}
