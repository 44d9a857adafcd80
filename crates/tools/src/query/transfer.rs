//! Zone transfers as a client reads them: AXFR (RFC 5936) and IXFR (RFC 1995) over TCP, message by message up
//! to the SOA that closes them. A transfer that ends before is a fault, whatever ended it.

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

use super::ask::{TcpLink, any_source, belongs, failure};
use super::words::Wanted;
use crate::signing::{self, SignatureFault};
use server::message::print;
use server::message::yaml::Passage;

/// What keeps a transfer from being complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferFault {
    /// The server refuses it: the response code, and that with the server's own words.
    Refused(Rcode, String),
    /// Connecting, sending or receiving failed, or the connection ended.
    Link(String),
    /// A message cannot be read.
    Malformed,
    /// A message belongs to another question.
    Foreign,
    /// A transfer begins with the zone's SOA (RFC 5936 §2.2); this one does not.
    NoOpeningSoa,
    /// The SOA at the end is not that of the beginning (RFC 5936 §2.2).
    OtherSerial {
        /// Serial at the beginning.
        opening: Serial,
        /// Serial at the end.
        closing: Serial,
    },
    /// The steps from version to version do not follow each other (RFC 1995 §4).
    Gap {
        /// Where the step before led.
        reached: Serial,
        /// Where the next one begins.
        next: Serial,
    },
    /// Records after the closing SOA.
    AfterTheEnd,
    /// The request was signed, and its answer is not as RFC 8945 §5.3.1 says, or the server refuses the
    /// signature.
    Signature(SignatureFault),
}

impl fmt::Display for TransferFault {
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
            Self::Signature(fault) => write!(f, "the answer cannot be believed: {fault}"),
        }
    }
}

impl std::error::Error for TransferFault {}

/// How far the records of a transfer have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No record has come.
    Start,
    /// Only the opening SOA.
    Opened,
    /// Records of the whole zone.
    Zone,
    /// Records that are to go.
    Removing,
    /// Records that are new in this version.
    Adding(Serial),
    /// The closing SOA.
    Closed,
}

/// Follows the records of a transfer to its end.
#[derive(Debug)]
struct Sequence {
    /// The version that the client has: the transfer is an IXFR.
    has: Option<Serial>,
    opening: Serial,
    stage: Stage,
}

impl Sequence {
    fn new(has: Option<Serial>) -> Self {
        Self { has, opening: Serial(0), stage: Stage::Start }
    }

    /// Takes the next record: its serial, if it is the zone's SOA.
    fn take(&mut self, soa: Option<Serial>) -> Result<(), TransferFault> {
        let opening = self.opening;
        self.stage = match (self.stage, soa) {
            (Stage::Start, Some(serial)) => {
                self.opening = serial;
                Stage::Opened
            }
            (Stage::Start, None) => return Err(TransferFault::NoOpeningSoa),
            (Stage::Opened | Stage::Zone, None) => Stage::Zone,
            (Stage::Opened | Stage::Zone, Some(serial)) if serial == opening => Stage::Closed,
            // A second SOA right behind the first begins the changes (RFC 1995 §4).
            (Stage::Opened, Some(serial)) if self.has == Some(serial) => Stage::Removing,
            (Stage::Opened | Stage::Zone, Some(closing)) => match self.has {
                Some(reached) if self.stage == Stage::Opened => {
                    return Err(TransferFault::Gap { reached, next: closing });
                }
                _ => return Err(TransferFault::OtherSerial { opening, closing }),
            },
            (Stage::Removing, Some(serial)) => Stage::Adding(serial),
            (Stage::Adding(reached), Some(next)) if next == reached => match reached == opening {
                true => Stage::Closed,
                false => Stage::Removing,
            },
            (Stage::Adding(reached), Some(next)) => return Err(TransferFault::Gap { reached, next }),
            (stage @ (Stage::Removing | Stage::Adding(_)), None) => stage,
            (Stage::Closed, _) => return Err(TransferFault::AfterTheEnd),
        };
        Ok(())
    }

    /// Whether nothing more is to come after a whole message. One SOA alone answers IXFR where there is
    /// nothing newer (RFC 1995 §2).
    fn is_complete(&self) -> bool {
        let nothing_newer = || self.has.is_some_and(|has| self.opening.compare(has) != Some(Greater));
        self.stage == Stage::Closed || (self.stage == Stage::Opened && nothing_newer())
    }
}

/// A transfer under way.
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
    link: TcpLink,
    sequence: Sequence,
    /// Of a signed request: who verifies the answer.
    verifier: Option<ResponseVerifier>,
    /// Messages that no signature proves yet.
    unproven: Vec<Vec<u8>>,
    /// Messages that were not taken yet.
    ready: VecDeque<Vec<u8>>,
    fault: Option<TransferFault>,
}

impl Transfer {
    /// Connects and asks; `verifier` is that of a signed query.
    ///
    /// # Errors
    /// [`TransferFault::Link`].
    pub fn begin(
        wanted: &Wanted,
        query: &[u8],
        verifier: Option<ResponseVerifier>,
    ) -> Result<Self, TransferFault> {
        let begun = Instant::now();
        let mut link = TcpLink::connect(wanted).map_err(TransferFault::Link)?;
        link.send(query).map_err(TransferFault::Link)?;
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

    /// Time since the beginning.
    pub fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    /// How the messages come, for YAML.
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

    /// The next message; none after the last of a complete transfer. What is wrong with a message is reported
    /// by the call after the one that returns it. Of a signed transfer only messages that a signature proves
    /// are returned.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, TransferFault> {
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
                // What a server says who signs nothing.
                (Err(SignatureFault::Unsigned(_)), Err(TransferFault::Refused(..))) => false,
                (Err(fault), _) => return Err(TransferFault::Signature(fault)),
            };
            self.fault = followed.err();
            self.unproven.push(message);
            if proven {
                self.ready.extend(self.unproven.drain(..));
            }
        }
    }

    /// Verifies a message. Returns whether it and those before it are proven, where the request was signed.
    fn prove(&mut self, message: &[u8]) -> Result<bool, SignatureFault> {
        let Some(verifier) = &mut self.verifier else { return Ok(true) };
        let proven = signing::verify(verifier, message)?;
        if self.sequence.is_complete() {
            signing::end(verifier, message)?;
        }
        Ok(proven)
    }

    fn link_fault(&self, e: &io::Error) -> TransferFault {
        TransferFault::Link(match e.kind() {
            io::ErrorKind::UnexpectedEof => "the server closed the connection".into(),
            _ => failure("ask", self.server, "TCP", e),
        })
    }

    fn follow(&mut self, message: &[u8]) -> Result<(), TransferFault> {
        if !belongs(&self.query, message) {
            return Err(TransferFault::Foreign);
        }
        let rcode = print::rcode(message)?;
        if rcode != Rcode::NOERROR {
            return Err(TransferFault::Refused(rcode, print::refusal(message)?));
        }
        let (header, mut parser) = Parser::new(message)?;
        let [questions, answers, ..] = header.counts();
        for _ in 0..questions {
            parser.question()?;
        }
        if answers == 0 && self.records == 0 {
            return Err(TransferFault::NoOpeningSoa);
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

impl From<Malformed> for TransferFault {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Whether a type asks for a transfer.
pub fn is_transfer(qtype: Type) -> bool {
    matches!(qtype, Type::AXFR | Type::IXFR)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows records, written as `s7` for the zone's SOA of serial 7 and `r` for any other, and says
    /// whether they are a complete transfer.
    fn follow(has: Option<u32>, records: &str) -> Result<bool, TransferFault> {
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
        assert_eq!(follow(None, "r s7"), Err(TransferFault::NoOpeningSoa));
        assert_eq!(follow(None, "s7 r s7 r"), Err(TransferFault::AfterTheEnd));
        let other = TransferFault::OtherSerial { opening: Serial(7), closing: Serial(8) };
        assert_eq!(follow(None, "s7 r s8"), Err(other));
    }

    #[test]
    fn ixfr_answers_take_three_forms() {
        // Nothing newer: one SOA. What is newer must follow it.
        assert_eq!(follow(Some(7), "s7"), Ok(true));
        assert_eq!(follow(Some(8), "s7"), Ok(true));
        assert_eq!(follow(Some(u32::MAX), "s7"), Ok(false));
        // The whole zone.
        assert_eq!(follow(Some(5), "s7 r r s7"), Ok(true));
        // Changes, here in two steps; each may have nothing to remove or to add.
        assert_eq!(follow(Some(5), "s7 s5 r r s6 r s6 r s7 r"), Ok(false));
        assert_eq!(follow(Some(5), "s7 s5 r r s6 r s6 r s7 r s7"), Ok(true));
        assert_eq!(follow(Some(6), "s7 s6 s7 s7"), Ok(true));
    }

    #[test]
    fn changes_that_do_not_follow_each_other_are_refused() {
        let gap = |reached, next| Err(TransferFault::Gap { reached: Serial(reached), next: Serial(next) });
        assert_eq!(follow(Some(5), "s7 s4"), gap(5, 4));
        assert_eq!(follow(Some(5), "s7 s5 r s6 r s7"), gap(6, 7));
        assert_eq!(follow(Some(5), "s7 s5 s7 r s7 r"), Err(TransferFault::AfterTheEnd));
    }
}
