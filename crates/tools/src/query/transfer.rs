//! The client side of zone transfers: AXFR (RFC 5936) and IXFR (RFC 1995) over TCP, message by message up to
//! the closing SOA. A transfer that ends before that is a fault, whatever the reason.

use std::cmp::Ordering::Greater;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use transfer::tsig::ResponseVerifier;
use wire::message::Parser;
use wire::rdata::view::Soa;
use wire::{Malformed, NameBuf, Rcode, Serial, Type};

use super::ask::{StreamLink, any_source, belongs, failure};
use super::words::Wanted;
use crate::signing::{self, SignatureFault};
use message::print;
use message::yaml::Passage;

/// Why a transfer is incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncompleteTransfer {
    /// The server refuses it: the response code, and the text with the server's extended errors.
    Refused(Rcode, String),
    /// Connecting, sending or receiving failed, or the connection ended.
    Link(String),
    /// A message cannot be parsed.
    Malformed,
    /// A message answers another question.
    Foreign,
    /// A transfer begins with the zone's SOA (RFC 5936 §2.2); this one does not.
    NoOpeningSoa,
    /// The closing SOA differs from the opening one (RFC 5936 §2.2).
    OtherSerial {
        /// Serial of the opening SOA.
        opening: Serial,
        /// Serial of the closing SOA.
        closing: Serial,
    },
    /// The differences between versions are not consecutive (RFC 1995 §4).
    Gap {
        /// The serial that the previous difference leads to.
        reached: Serial,
        /// The serial that the next difference starts from.
        next: Serial,
    },
    /// Records after the closing SOA.
    AfterTheEnd,
    /// The request was signed, and the signature of the answer is not as RFC 8945 §5.3.1 requires, or the
    /// server refuses the signature of the request.
    Signature(SignatureFault),
}

impl fmt::Display for IncompleteTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(_, words) => write!(f, "the server refuses the transfer: {words}"),
            Self::Link(words) => f.write_str(words),
            Self::Malformed => f.write_str("the server sent a malformed message"),
            Self::Foreign => f.write_str("the server sent a message that does not belong to the question"),
            Self::NoOpeningSoa => f.write_str("the answer does not begin with the zone's SOA"),
            Self::OtherSerial { opening, closing } => {
                write!(f, "it begins with the SOA of serial {opening} and ends with that of {closing}")
            }
            Self::Gap { reached, next } => {
                write!(f, "after the changes up to serial {reached} come those from serial {next}")
            }
            Self::AfterTheEnd => f.write_str("there are records after the closing SOA"),
            Self::Signature(fault) if fault.is_refusal() => {
                write!(f, "the server refuses the signature: {fault}")
            }
            Self::Signature(fault) => write!(f, "the answer cannot be trusted: {fault}"),
        }
    }
}

impl std::error::Error for IncompleteTransfer {}

/// The progress of a transfer's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No record was received.
    Start,
    /// Only the opening SOA was received.
    Opened,
    /// Records of the whole zone.
    Zone,
    /// Records to remove.
    Removing,
    /// Records to add in this version.
    Adding(Serial),
    /// The closing SOA was received.
    Closed,
}

/// Tracks the records of a transfer up to its end.
#[derive(Debug)]
struct Sequence {
    /// The client's version if the transfer is an IXFR.
    has: Option<Serial>,
    opening: Serial,
    stage: Stage,
}

impl Sequence {
    fn new(has: Option<Serial>) -> Self {
        Self { has, opening: Serial(0), stage: Stage::Start }
    }

    /// Processes the next record: `soa` is its serial if it is the zone's SOA.
    fn take(&mut self, soa: Option<Serial>) -> Result<(), IncompleteTransfer> {
        let opening = self.opening;
        self.stage = match (self.stage, soa) {
            (Stage::Start, Some(serial)) => {
                self.opening = serial;
                Stage::Opened
            }
            (Stage::Start, None) => return Err(IncompleteTransfer::NoOpeningSoa),
            (Stage::Opened | Stage::Zone, None) => Stage::Zone,
            (Stage::Opened | Stage::Zone, Some(serial)) if serial == opening => Stage::Closed,
            // A second SOA directly after the first begins the differences (RFC 1995 §4).
            (Stage::Opened, Some(serial)) if self.has == Some(serial) => Stage::Removing,
            (Stage::Opened | Stage::Zone, Some(closing)) => match self.has {
                Some(reached) if self.stage == Stage::Opened => {
                    return Err(IncompleteTransfer::Gap { reached, next: closing });
                }
                _ => return Err(IncompleteTransfer::OtherSerial { opening, closing }),
            },
            (Stage::Removing, Some(serial)) => Stage::Adding(serial),
            (Stage::Adding(reached), Some(next)) if next == reached => match reached == opening {
                true => Stage::Closed,
                false => Stage::Removing,
            },
            (Stage::Adding(reached), Some(next)) => return Err(IncompleteTransfer::Gap { reached, next }),
            (stage @ (Stage::Removing | Stage::Adding(_)), None) => stage,
            (Stage::Closed, _) => return Err(IncompleteTransfer::AfterTheEnd),
        };
        Ok(())
    }

    /// Returns whether the transfer is complete after a whole message. A single SOA answers an IXFR if
    /// nothing is newer (RFC 1995 §2).
    fn is_complete(&self) -> bool {
        let nothing_newer = || self.has.is_some_and(|has| self.opening.compare(has) != Some(Greater));
        self.stage == Stage::Closed || (self.stage == Stage::Opened && nothing_newer())
    }
}

/// A transfer in progress.
pub struct Transfer {
    /// Records so far.
    pub records: u64,
    /// Messages so far.
    pub messages: u64,
    /// Bytes of those messages.
    pub bytes: u64,
    server: SocketAddr,
    begun: Instant,
    query: Vec<u8>,
    zone: NameBuf,
    link: StreamLink,
    sequence: Sequence,
    /// Verifies the answer, if the request was signed.
    verifier: Option<ResponseVerifier>,
    /// Messages that no signature covers yet.
    unproven: Vec<Vec<u8>>,
    /// Verified messages that the caller has not taken yet.
    ready: VecDeque<Vec<u8>>,
    fault: Option<IncompleteTransfer>,
}

impl Transfer {
    /// Connects and sends the query; `verifier` is that of a signed query.
    ///
    /// # Errors
    /// [`IncompleteTransfer::Link`].
    pub fn begin(
        wanted: &Wanted,
        query: &[u8],
        verifier: Option<ResponseVerifier>,
    ) -> Result<Self, IncompleteTransfer> {
        let begun = Instant::now();
        let mut link = StreamLink::connect(wanted).map_err(IncompleteTransfer::Link)?;
        link.send(query).map_err(IncompleteTransfer::Link)?;
        Ok(Self {
            records: 0,
            messages: 0,
            bytes: 0,
            server: wanted.server,
            begun,
            query: query.to_vec(),
            zone: wanted.query.name,
            link,
            sequence: Sequence::new(wanted.query.has_version),
            verifier,
            unproven: Vec::new(),
            ready: VecDeque::new(),
            fault: None,
        })
    }

    /// Returns the time since the beginning.
    pub fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the addresses and times of the exchange, for YAML.
    pub fn passage(&self, wanted: &Wanted) -> Passage {
        let received = SystemTime::now();
        Passage {
            server: self.server,
            client: wanted.source.unwrap_or_else(|| any_source(self.server)),
            tcp: true,
            sent: received.checked_sub(self.took()).unwrap_or(received),
            received,
        }
    }

    /// Returns the next message; `None` after the last one of a complete transfer. A fault in a message is
    /// reported by the call after the one that returns it. In a signed transfer, only messages that a
    /// signature covers are returned.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, IncompleteTransfer> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(message));
            }
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            if self.sequence.is_complete() {
                return Ok(None);
            }
            let message = self.link.receive().map_err(|e| self.link_fault(&e))?;
            self.messages += 1;
            self.bytes += message.len() as u64;
            let followed = self.follow(&message);
            let proven = match (self.prove(&message), &followed) {
                (Ok(proven), _) => proven,
                // A refusal by a server that does not sign it.
                (Err(SignatureFault::Unsigned(_)), Err(IncompleteTransfer::Refused(..))) => false,
                (Err(fault), _) => return Err(IncompleteTransfer::Signature(fault)),
            };
            self.fault = followed.err();
            self.unproven.push(message);
            if proven {
                self.ready.extend(self.unproven.drain(..));
            }
        }
    }

    /// Verifies a message. Returns whether it and the earlier ones are authentic; without a signed request
    /// they count as such.
    fn prove(&mut self, message: &[u8]) -> Result<bool, SignatureFault> {
        let Some(verifier) = &mut self.verifier else { return Ok(true) };
        let proven = signing::verify(verifier, message)?;
        if self.sequence.is_complete() {
            signing::end(verifier, message)?;
        }
        Ok(proven)
    }

    fn link_fault(&self, e: &io::Error) -> IncompleteTransfer {
        IncompleteTransfer::Link(match e.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".into(),
            _ => failure("ask", self.server, self.link.transport(), e),
        })
    }

    fn follow(&mut self, message: &[u8]) -> Result<(), IncompleteTransfer> {
        if !belongs(&self.query, message) {
            return Err(IncompleteTransfer::Foreign);
        }
        let rcode = print::rcode(message)?;
        if rcode != Rcode::NOERROR {
            return Err(IncompleteTransfer::Refused(rcode, print::refusal(message)?));
        }
        let (header, mut parser) = Parser::new(message)?;
        let [questions, answers, ..] = header.counts();
        for _ in 0..questions {
            parser.question()?;
        }
        if answers == 0 && self.records == 0 {
            return Err(IncompleteTransfer::NoOpeningSoa);
        }
        for _ in 0..answers {
            let record = parser.record()?;
            let mut rdata = Vec::new();
            let soa = match record.rtype == Type::SOA && parser.name_at(record.owner_at)? == self.zone {
                true => {
                    parser.expand_rdata(&record, &mut rdata)?;
                    Some(Soa::read(&rdata)?.numbers.serial)
                }
                false => None,
            };
            self.sequence.take(soa)?;
            self.records += 1;
        }
        Ok(())
    }
}

impl From<Malformed> for IncompleteTransfer {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Returns whether a query type requests a transfer.
pub fn is_transfer(qtype: Type) -> bool {
    matches!(qtype, Type::AXFR | Type::IXFR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows records, written as `s7` for the zone's SOA of serial 7 and `r` for any other, and returns
    /// whether they are a complete transfer.
    fn follow(has: Option<u32>, records: &str) -> Result<bool, IncompleteTransfer> {
        let mut sequence = Sequence::new(has.map(Serial));
        for record in records.split_whitespace() {
            let serial = record.strip_prefix('s').map(|n| Serial(n.parse().expect("a serial")));
            sequence.take(serial)?;
        }
        Ok(sequence.is_complete())
    }

    #[test]
    fn a_zone_ends_with_the_soa_that_it_began_with() {
        assert_eq!(follow(None, "s7"), Ok(false));
        assert_eq!(follow(None, "s7 r r"), Ok(false));
        assert_eq!(follow(None, "s7 r r s7"), Ok(true));
        assert_eq!(follow(None, "s7 s7"), Ok(true));
        assert_eq!(follow(None, "r s7"), Err(IncompleteTransfer::NoOpeningSoa));
        assert_eq!(follow(None, "s7 r s7 r"), Err(IncompleteTransfer::AfterTheEnd));
        let other = IncompleteTransfer::OtherSerial { opening: Serial(7), closing: Serial(8) };
        assert_eq!(follow(None, "s7 r s8"), Err(other));
    }

    #[test]
    fn ixfr_answers_take_three_forms() {
        // Nothing newer: one SOA. A newer one must be followed by records.
        assert_eq!(follow(Some(7), "s7"), Ok(true));
        assert_eq!(follow(Some(8), "s7"), Ok(true));
        assert_eq!(follow(Some(u32::MAX), "s7"), Ok(false));
        // The whole zone.
        assert_eq!(follow(Some(5), "s7 r r s7"), Ok(true));
        // Differences, here in two steps; each may remove or add nothing.
        assert_eq!(follow(Some(5), "s7 s5 r r s6 r s6 r s7 r"), Ok(false));
        assert_eq!(follow(Some(5), "s7 s5 r r s6 r s6 r s7 r s7"), Ok(true));
        assert_eq!(follow(Some(6), "s7 s6 s7 s7"), Ok(true));
    }

    #[test]
    fn changes_that_do_not_follow_each_other_are_refused() {
        let gap =
            |reached, next| Err(IncompleteTransfer::Gap { reached: Serial(reached), next: Serial(next) });
        assert_eq!(follow(Some(5), "s7 s4"), gap(5, 4));
        assert_eq!(follow(Some(5), "s7 s5 r s6 r s7"), gap(6, 7));
        assert_eq!(follow(Some(5), "s7 s5 s7 r s7 r"), Err(IncompleteTransfer::AfterTheEnd));
    }
}
