//! Incoming transfers, message by message: AXFR (RFC 5936), IXFR (RFC 1995).
//!
//! A transfer is used as a whole or not at all. A whole zone goes into a builder while it arrives;
//! differences are held until the transfer is complete. All input is checked: each record is in the zone and
//! well formed, the transfer ends where the first SOA recurs, and everything has a limit.
//!
//! | file | holds |
//! |---|---|
//! | `fault.rs` | [`TransferFault`], [`TransferLimits`] |
//! | `message.rs` | reading one message: header, question, signature, records |
//! | `sequence.rs` | the sequence of records |

mod fault;
mod message;
mod sequence;
#[cfg(test)]
mod tests;

use wire::hash::HashKey;
use wire::{NameBuf, Serial, UnixTime};
use zone::store::{BuildError, ChangeSet};
use zone::{Zone, ZoneBuilder};

pub use fault::{TransferFault, TransferLimit, TransferLimits};

use crate::tsig::ResponseVerifier;
use message::MessageReader;
use sequence::Sequence;

/// The kind of transfer requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// The whole zone.
    Axfr,
    /// The changes since this version.
    Ixfr(Serial),
}

/// The parts of a transfer request on which its response depends.
#[derive(Clone, Copy, Debug)]
pub struct SentRequest {
    /// Its ID.
    pub id: u16,
    /// The zone, as in the question.
    pub apex: NameBuf,
    /// The kind of transfer.
    pub asked: AskedFor,
    /// Whether it was sent in a datagram, so that the response is one message.
    pub datagram: bool,
}

/// The content of a complete transfer.
#[derive(Debug)]
pub enum Received {
    /// The SOA alone. If its serial is not later than ours, the zone has not changed; otherwise the response
    /// did not fit into the datagram (RFC 1995 §2).
    SoaOnly(Serial),
    /// The whole zone.
    Zone(ReceivedZone),
    /// The changes from the version in the request to the newest, in order: at least one. Each [is a
    /// difference sequence](ChangeSet::is_difference_sequence).
    Differences(Vec<ChangeSet>),
}

/// All records of a zone, not built yet.
#[derive(Debug)]
pub struct ReceivedZone {
    builder: Box<ZoneBuilder>,
    serial: Serial,
}

impl ReceivedZone {
    /// The serial of the zone.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Builds the zone. Takes a while for large zones: to be called on a thread that may be busy.
    pub fn build(self) -> Result<Zone, TransferFault> {
        self.build_within(&mut |_| true)
    }

    /// Like [`build`](Self::build), with bounded memory. Whenever the bytes needed, including the records,
    /// have changed much, `may_take` is called with their number and returns whether to continue. If not, the
    /// fault is [`TransferLimit::Memory`].
    pub fn build_within(mut self, may_take: &mut dyn FnMut(usize) -> bool) -> Result<Zone, TransferFault> {
        let zone = self.builder.finish_within(may_take).map_err(|error| match error {
            BuildError::OutOfMemory => TransferFault::Limit(TransferLimit::Memory),
            error => TransferFault::NoZone(error),
        })?;
        match self.builder.first_error() {
            Some(note) => Err(TransferFault::BadZone(Box::new(note.clone()))),
            None => Ok(zone),
        }
    }
}

/// An incoming transfer.
pub struct IncomingTransfer {
    reader: MessageReader,
    sequence: Sequence,
}

impl IncomingTransfer {
    /// Creates a transfer that expects the response to `request`. `key` is the zone's hash key for lookups by
    /// name. `verifier` belongs to the request's signature, if it had one.
    pub fn new(
        request: SentRequest,
        key: &HashKey,
        limits: TransferLimits,
        verifier: Option<ResponseVerifier>,
    ) -> IncomingTransfer {
        IncomingTransfer {
            reader: MessageReader::new(&request, limits, verifier),
            sequence: Sequence::new(&request, key, limits),
        }
    }

    /// Rejects a zone older than this version as soon as its first SOA has arrived (RFC 1982). A response to
    /// IXFR is compared with the request's version in any case.
    pub fn not_older_than(mut self, held: Option<Serial>) -> IncomingTransfer {
        self.sequence.not_older_than(held);
        self
    }

    /// Processes the next message. Returns the content once it is complete.
    /// Must not be called again after that, or after a fault.
    pub fn message(&mut self, message: &[u8], now: UnixTime) -> Result<Option<Received>, TransferFault> {
        self.reader.read(message, now, &mut self.sequence)?;
        let received = self.sequence.end_of_message()?;
        if received.is_some() {
            self.reader.end()?;
        }
        Ok(received)
    }

    /// Bytes of memory that the records take so far.
    pub fn memory(&self) -> u64 {
        self.sequence.memory()
    }

    /// Records received so far.
    pub fn records(&self) -> u64 {
        self.reader.records()
    }

    /// Bytes of messages received so far.
    pub fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// Seconds for which the zone may be served, if the primary sent EXPIRE (RFC 7314 §4). Valid once the
    /// transfer is complete.
    pub fn expire(&self) -> Option<u32> {
        self.reader.expire()
    }
}

impl std::fmt::Debug for IncomingTransfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IncomingTransfer({} records, {} bytes)", self.records(), self.bytes())
    }
}
