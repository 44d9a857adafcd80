//! Transfers from other servers, message by message: AXFR (RFC 5936), IXFR (RFC 1995).
//!
//! What comes is used as a whole or not at all. A whole zone goes into a builder while it arrives;
//! differences are kept until the last. Nothing a peer sends is believed: each record is of the zone and well
//! formed, the end is where the SOA of the beginning comes again, and limits hold for all there is.
//!
//! | file | holds |
//! |---|---|
//! | `fault.rs` | [`TransferFault`], [`TransferLimits`] |
//! | `message.rs` | reading one message: header, question, signature, records |
//! | `sequence.rs` | what the records mean, one after the other |

mod fault;
mod message;
mod sequence;
#[cfg(test)]
mod tests;

use wire::hash::HashKey;
use wire::{NameBuf, Serial};
use zone::store::{BuildError, ChangeSet};
use zone::{Zone, ZoneBuilder};

pub use fault::{TransferFault, TransferLimit, TransferLimits};

use crate::tsig::ResponseVerifier;
use message::MessageReader;
use sequence::Sequence;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// The whole zone.
    Axfr,
    /// What changed since this version.
    Ixfr(Serial),
}

/// A request for a transfer, as far as its response depends on it.
#[derive(Clone, Copy, Debug)]
pub struct SentRequest {
    /// Its ID.
    pub id: u16,
    /// The zone, as the question has it.
    pub apex: NameBuf,
    /// What was asked for.
    pub asked: AskedFor,
    /// Whether it was sent in a datagram, so that one message is all there will be.
    pub datagram: bool,
}

/// What a transfer brought.
#[derive(Debug)]
pub enum Received {
    /// The SOA alone. If its serial is not later than ours, the zone has not changed; if it is, the answer
    /// did not fit into the datagram (RFC 1995 §2).
    SoaOnly(Serial),
    /// All of the zone.
    Zone(ReceivedZone),
    /// What changed, from the version asked for to the newest, in order: at least one. Each
    /// [is a difference sequence](ChangeSet::is_difference_sequence).
    Differences(Vec<ChangeSet>),
}

/// All records of a zone, still to be made one.
#[derive(Debug)]
pub struct ReceivedZone {
    builder: Box<ZoneBuilder>,
    serial: Serial,
}

impl ReceivedZone {
    /// The zone's version.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Makes the zone. What is left to do for it takes a while for large zones: a matter for a thread that
    /// may be busy.
    pub fn build(self) -> Result<Zone, TransferFault> {
        self.build_within(&mut |_| true)
    }

    /// The same with bounded memory: `may_take` is asked whether so many bytes, those of the records among
    /// them, may be taken, whenever that number has changed much. If not, the fault is
    /// [`TransferLimit::Memory`].
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

/// A transfer on its way in.
pub struct IncomingTransfer {
    reader: MessageReader,
    sequence: Sequence,
}

impl IncomingTransfer {
    /// Waits for the response to `request`. `key` is the one under which names of the zone will be looked up.
    /// `verifier` is of the request's signature, if it had one.
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

    /// Refuses a zone that is older than this version, as soon as its first SOA has come (RFC 1982). A
    /// response to a request for differences is compared with the version asked for anyway.
    pub fn not_older_than(mut self, held: Option<Serial>) -> IncomingTransfer {
        self.sequence.not_older_than(held);
        self
    }

    /// Takes the next message. `now` is in seconds since 1970. Returns what was received once that is
    /// complete; after that, and after a fault, nothing more is to be passed in.
    pub fn message(&mut self, message: &[u8], now: u64) -> Result<Option<Received>, TransferFault> {
        self.reader.read(message, now, &mut self.sequence)?;
        let received = self.sequence.end_of_message()?;
        if received.is_some() {
            self.reader.end()?;
        }
        Ok(received)
    }

    /// Bytes of memory that its records take by now.
    pub fn memory(&self) -> u64 {
        self.sequence.memory()
    }

    /// Records taken so far.
    pub fn records(&self) -> u64 {
        self.reader.records()
    }

    /// Bytes of messages taken so far.
    pub fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    /// Seconds for which the zone may be served, if the primary has said so: EXPIRE (RFC 7314 §4). It counts
    /// once the transfer is complete.
    pub fn expire(&self) -> Option<u32> {
        self.reader.expire()
    }
}

impl std::fmt::Debug for IncomingTransfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IncomingTransfer({} records, {} bytes)", self.records(), self.bytes())
    }
}
