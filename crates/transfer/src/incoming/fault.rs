//! Faults and limits of incoming transfers.

use std::fmt;

use wire::{NameBuf, Rcode, Serial, Type};
use zone::store::{BuildError, ChangeError, Note};
use zone::zonemd::ZonemdFault;

use crate::tsig::ResponseError;

/// Limits of one transfer, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferLimits {
    /// Records, including those that differences remove and add.
    pub records: u64,
    /// Bytes of messages; also bytes of memory for the records of a whole zone, which may be several times as
    /// many, since names are compressed in messages.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// Differences of an incremental transfer.
    pub differences: u64,
    /// Bytes of the records of all differences, which are held until the transfer is complete.
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

/// The limit that was exceeded: one of the [`TransferLimits`], or one of the transfer's driver.
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

/// Why a transfer fails; none of its content is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// A message is malformed, or the RDATA of a record does not have its type's format.
    Malformed,
    /// Not a response, or with another opcode or ID than the request.
    NotTheResponse,
    /// Truncated (TC): the client has to retry over a stream.
    Truncated,
    /// More than one question, or another question than in the request.
    OtherQuestion,
    /// The server refuses with this response code.
    Rcode(Rcode),
    /// Signature verification failed.
    Tsig(ResponseError),
    /// Signed, though the request was not.
    UnexpectedTsig,
    /// A message without answer records (RFC 5936 §2.2).
    Empty,
    /// The first record is not the zone's SOA.
    NoSoa,
    /// A record outside the zone.
    OutOfZone(Box<NameBuf>, Type),
    /// A record of a class other than IN.
    Class(Box<NameBuf>, Type),
    /// A record of a QTYPE or meta-TYPE (RFC 6895 §3.1).
    MetaType(Box<NameBuf>, Type),
    /// The SOA at the end differs from the one at the beginning (RFC 5936 §2.2).
    OtherLastSoa,
    /// Records follow the SOA at the end.
    AfterEnd,
    /// A difference does not start at the version reached by the previous one (RFC 1995 §4).
    BrokenChain {
        /// The version reached.
        reached: Serial,
        /// The version of the next SOA.
        found: Serial,
    },
    /// The version sent is older than the one held.
    Older {
        /// The version sent.
        sent: Serial,
        /// The version held.
        held: Serial,
    },
    /// A limit was exceeded.
    Limit(TransferLimit),
    /// The records do not form a zone.
    NoZone(BuildError),
    /// The records form a zone that should not be served.
    BadZone(Box<Note>),
    /// The differences do not apply to the version held.
    Unfit(Box<ChangeError>),
    /// The zone does not match its digest (RFC 8976 §4).
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
                    "it sends serial {sent}, older than ours, {held}; `nomen ctl zone retransfer` takes it \
                     all the same"
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
