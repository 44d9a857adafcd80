//! The parts of a transfer beside its records: header, question, OPT, TSIG.

use wire::message::{HEADER_LEN, Header, Malformed, Offset, Parser};
use wire::{LowerNameBuf, Serial, Type, UnixTime};

use crate::tsig::ResponseSigner;

/// Default limit for the bytes of a message: the range of compression pointers. In a longer message, names
/// beyond this could not be pointed at.
pub const DEFAULT_LIMIT: usize = Offset::REACH;

/// Returns the current time.
pub type TransferClock = Box<dyn FnMut() -> UnixTime + Send>;

/// The signer of a transfer's messages, and its clock.
pub(super) struct Signing {
    pub(super) signer: ResponseSigner,
    pub(super) clock: TransferClock,
}

/// The parts of a transfer beside its records.
pub struct TransferFrame {
    pub(super) header: Header,
    /// As received; in the first message only (RFC 5936 §2.2.2).
    pub(super) question: Box<[u8]>,
    /// In the first message only (RFC 5936 §2.2.5); empty if there is none.
    pub(super) opt: Box<[u8]>,
    pub(super) signing: Option<Signing>,
    pub(super) limit: usize,
}

impl TransferFrame {
    /// The frame of the response to `request`, whose first question is answered: its ID, question and RD,
    /// with AA set (RFC 5936 §2.2.1). A message has at most `limit` bytes; a larger record gets a message of
    /// its own.
    pub fn answering(request: &[u8], limit: usize) -> Result<TransferFrame, Malformed> {
        let (header, mut parser) = Parser::new(request)?;
        parser.question()?;
        let question = request.get(HEADER_LEN..parser.position().index()).ok_or(Malformed)?.into();
        let mut header = header.reply();
        header.set_authoritative(true);
        Ok(TransferFrame { header, question, opt: [].into(), signing: None, limit })
    }

    /// Adds this OPT record, in wire form, to the first message.
    pub fn with_opt(self, record: &[u8]) -> TransferFrame {
        TransferFrame { opt: record.into(), ..self }
    }

    /// Signs every message. Reads `clock` once for each.
    pub fn signed(self, signer: ResponseSigner, clock: TransferClock) -> TransferFrame {
        TransferFrame { signing: Some(Signing { signer, clock }), ..self }
    }
}

/// An IXFR request (RFC 1995 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IxfrRequest {
    /// The zone.
    pub apex: LowerNameBuf,
    /// The client's version.
    pub serial: Serial,
}

impl IxfrRequest {
    /// Parses the request: one question, and in the authority section the SOA of the client's version.
    pub fn read(request: &[u8]) -> Result<IxfrRequest, Malformed> {
        let (header, mut parser) = Parser::new(request)?;
        let question = parser.question()?;
        let [questions, answers, authorities, _] = header.counts();
        if (questions, answers, authorities) != (1, 0, 1) || question.qtype != Type::IXFR {
            return Err(Malformed);
        }
        let record = parser.record()?;
        let owner = parser.name_at(record.owner_at)?;
        if record.rtype != Type::SOA || owner.as_name() != question.name || record.class != question.qclass {
            return Err(Malformed);
        }
        let mut rdata = Vec::new();
        parser.expand_rdata(&record, &mut rdata)?;
        let soa = wire::rdata::view::Soa::read(&rdata)?;
        Ok(IxfrRequest { apex: question.name.to_lower(), serial: soa.numbers.serial })
    }
}
