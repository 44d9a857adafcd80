//! What can be wrong with a transfer that is received.

use std::fmt;

use wire::{NameBuf, Rcode, Serial, Type};
use zone::store::{BuildError, ChangeError, Note};
use zone::zonemd::ZonemdFault;

use crate::tsig::ResponseError;

/// Bounds on one transfer, each a number that is still taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLimits {
    /// Records, those removed and added by differences included.
    pub records: u64,
    /// Bytes of messages; and bytes of memory that the records of a whole zone take, which may be several
    /// times as many: names are compressed on their way.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Differences of an incremental transfer.
    pub differences: u64,
    /// Bytes of their records: they are kept until the last has come, whatever they come to.
    pub difference_bytes: u64,
}

impl Default for TransferLimits {
    /// A hundred million records in 16 GiB; a hundred thousand differences in 64 MiB.
    fn default() -> Self {
        TransferLimits {
            records: 100_000_000,
            bytes: 16 << 30,
            messages: 50_000_000,
            differences: 100_000,
            difference_bytes: 64 << 20,
        }
    }
}

/// Which limit was reached: one of the [`TransferLimits`], or one of the transfer's driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the limit of its name")]
pub enum TransferLimit {
    Records,
    Bytes,
    Messages,
    Differences,
    Time,
    Rate,
    Memory,
}

/// Why a transfer is given up: nothing of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// A message that cannot be read, or with a record whose data is not of the form of its type.
    Malformed,
    /// No response, of another opcode, or with another ID than the request.
    NotTheResponse,
    /// Cut short (TC): to be asked for over a stream.
    Truncated,
    /// More than one question, or another than was asked.
    OtherQuestion,
    /// The server refuses.
    Rcode(Rcode),
    /// The signatures are not good.
    Tsig(ResponseError),
    /// Signed, though the request was not.
    UnexpectedTsig,
    /// A message without a record to be transferred (RFC 5936 §2.2).
    Empty,
    /// The first record is not the zone's SOA.
    NoSoa,
    /// A record outside the zone.
    OutOfZone(Box<NameBuf>, Type),
    /// A record of another class than IN.
    Class(Box<NameBuf>, Type),
    /// A record of a type for questions and messages only (RFC 6895 §3.1).
    MetaType(Box<NameBuf>, Type),
    /// The SOA at the end is not the one at the beginning (RFC 5936 §2.2).
    OtherLastSoa,
    /// Something follows the SOA at the end.
    AfterEnd,
    /// The differences do not lead on from the version that was reached so far (RFC 1995 §4).
    BrokenChain {
        /// The version reached.
        reached: Serial,
        /// The version that the next SOA has.
        found: Serial,
    },
    /// An older version than the one that is held.
    Older {
        /// The version sent.
        sent: Serial,
        /// The version held.
        held: Serial,
    },
    /// More than was allowed.
    Limit(TransferLimit),
    /// The records do not make a zone.
    NoZone(BuildError),
    /// The records make a zone that should not be served.
    BadZone(Box<Note>),
    /// The differences cannot be made in the version that we have.
    Unfit(Box<ChangeError>),
    /// The zone is not the one that its digest was made of (RFC 8976 §4).
    Digest(ZonemdFault),
}

impl fmt::Display for TransferFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("a message cannot be read"),
            Self::NotTheResponse => f.write_str("not the response to the request"),
            Self::Truncated => f.write_str("the response is truncated"),
            Self::OtherQuestion => f.write_str("the response has another question"),
            Self::Rcode(rcode) => write!(f, "the server answers {rcode}"),
            Self::Tsig(error) => write!(f, "TSIG: {error}"),
            Self::UnexpectedTsig => f.write_str("the response is signed, the request was not"),
            Self::Empty => f.write_str("a message without records"),
            Self::NoSoa => f.write_str("the first record is not the zone's SOA"),
            Self::OutOfZone(owner, t) => write!(f, "{owner} {t} is outside the zone"),
            Self::Class(owner, t) => write!(f, "{owner} {t} is not of class IN"),
            Self::MetaType(owner, t) => write!(f, "{owner} {t} cannot be in a zone"),
            Self::OtherLastSoa => f.write_str("the SOA at the end is not the one at the beginning"),
            Self::AfterEnd => f.write_str("records behind the SOA at the end"),
            Self::BrokenChain { reached, found } => {
                write!(f, "the differences lead to serial {reached} and go on from {found}")
            }
            Self::Older { sent, held } => {
                write!(
                    f,
                    "it sends serial {sent}, older than ours, {held}; `nomen ctl zone retransfer` takes it all the same"
                )
            }
            Self::Limit(TransferLimit::Records) => f.write_str("more records than the limit"),
            Self::Limit(TransferLimit::Bytes) => f.write_str("more bytes than the limit"),
            Self::Limit(TransferLimit::Messages) => f.write_str("more messages than the limit"),
            Self::Limit(TransferLimit::Differences) => f.write_str("more differences than the limit"),
            Self::Limit(TransferLimit::Time) => f.write_str("it takes longer than the limit"),
            Self::Limit(TransferLimit::Rate) => f.write_str("it is slower than the limit"),
            Self::Limit(TransferLimit::Memory) => {
                f.write_str("all transfers together take more memory than the limit, and it takes most")
            }
            Self::NoZone(error) => write!(f, "the records do not make a zone: {error}"),
            Self::BadZone(note) => write!(f, "the records make no zone to be served: {note}"),
            Self::Unfit(error) => write!(f, "the differences do not fit: {error}"),
            Self::Digest(fault) => write!(f, "the zone is refused: {fault}"),
        }
    }
}
impl std::error::Error for TransferFault {}
