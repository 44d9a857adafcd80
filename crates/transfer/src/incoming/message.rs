//! Reads one message of a transfer: header, question, signature, and each record.

use wire::message::{Header, Malformed, Offset, POINTER, Parser, RawRecord};
use wire::{Class, NameBuf, Opcode, Rcode, Type, UnixTime, rdata};

use super::fault::{TransferFault, TransferLimit, TransferLimits};
use super::sequence::Sequence;
use super::{AskedFor, SentRequest};
use crate::opt::ResponseOpt;
use crate::tsig::{ResponseError, ResponseVerifier};

impl From<Malformed> for TransferFault {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Reads messages; see the module.
pub(super) struct MessageReader {
    id: u16,
    apex: NameBuf,
    qtype: Type,
    limits: TransferLimits,
    verifier: Option<ResponseVerifier>,
    messages: u64,
    bytes: u64,
    records: u64,
    /// The value of EXPIRE (RFC 7314), in seconds.
    expire: Option<u32>,
    /// RDATA of the current record.
    rdata: Vec<u8>,
    /// The current record's owner, and the offset at which the previous owner was read.
    owner: NameBuf,
    owner_at: Option<Offset>,
}

impl MessageReader {
    pub(super) fn new(
        request: &SentRequest,
        limits: TransferLimits,
        verifier: Option<ResponseVerifier>,
    ) -> Self {
        let qtype = if request.asked == AskedFor::Axfr { Type::AXFR } else { Type::IXFR };
        MessageReader {
            id: request.id,
            apex: request.apex,
            qtype,
            limits,
            verifier,
            messages: 0,
            bytes: 0,
            records: 0,
            expire: None,
            rdata: Vec::new(),
            owner: NameBuf::ROOT,
            owner_at: None,
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn expire(&self) -> Option<u32> {
        self.expire
    }

    /// Reads a message and passes its records to `to`.
    pub(super) fn read(
        &mut self,
        message: &[u8],
        now: UnixTime,
        to: &mut Sequence,
    ) -> Result<(), TransferFault> {
        self.count(message)?;
        let (header, mut parser) = Parser::new(message)?;
        if header.id() != self.id || !header.is_response() || header.opcode() != Opcode::QUERY {
            return Err(TransferFault::NotTheResponse);
        }
        let [questions, answers, authorities, additionals] = header.counts();
        self.question(&mut parser, questions)?;
        self.owner_at = None;
        let transferred = header.rcode() == Rcode::NOERROR && !header.truncated();
        for _ in 0..answers {
            let record = parser.record()?;
            if transferred {
                self.record(&mut parser, &record, to)?;
            }
        }
        let mut opt = ResponseOpt::default();
        for _ in 0..authorities {
            let record = parser.record()?;
            opt.read(message, &record)?;
        }
        let tsig_at = additional(&mut parser, additionals, &mut opt)?;
        self.expire = self.expire.or(opt.expire);
        self.verify(message, header, tsig_at, now)?;
        if header.truncated() {
            return Err(TransferFault::Truncated);
        }
        if answers == 0 { Err(TransferFault::Empty) } else { Ok(()) }
    }

    /// Checks that the last message was signed, if the request was signed.
    pub(super) fn end(&self) -> Result<(), TransferFault> {
        self.verifier.as_ref().map_or(Ok(()), ResponseVerifier::end).map_err(TransferFault::Tsig)
    }

    fn count(&mut self, message: &[u8]) -> Result<(), TransferFault> {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(message.len() as u64);
        if self.messages > self.limits.messages {
            return Err(TransferFault::Limit(TransferLimit::Messages));
        }
        if self.bytes > self.limits.bytes {
            return Err(TransferFault::Limit(TransferLimit::Bytes));
        }
        Ok(())
    }

    /// Checks that the message has the request's question, or none (RFC 5936 §2.2.2).
    fn question(&self, parser: &mut Parser<'_>, questions: u16) -> Result<(), TransferFault> {
        match questions {
            0 => Ok(()),
            1 => {
                let question = parser.question()?;
                let same = question.name == self.apex.as_name()
                    && question.qtype == self.qtype
                    && question.qclass == Class::IN;
                if same { Ok(()) } else { Err(TransferFault::OtherQuestion) }
            }
            _ => Err(TransferFault::OtherQuestion),
        }
    }

    /// Verifies the signature and checks the response code. If the server refused the request's signature,
    /// that is the fault.
    fn verify(
        &mut self,
        message: &[u8],
        header: Header,
        tsig_at: Option<Offset>,
        now: UnixTime,
    ) -> Result<(), TransferFault> {
        let verified = match &mut self.verifier {
            Some(verifier) => verifier.message(message, tsig_at, now).map_err(TransferFault::Tsig),
            None if tsig_at.is_some() => Err(TransferFault::UnexpectedTsig),
            None => Ok(()),
        };
        match (verified, header.rcode()) {
            (verified, Rcode::NOERROR) => verified,
            (Err(refused @ TransferFault::Tsig(ResponseError::Refused { .. })), _) => Err(refused),
            // A refusal has no effect except to end the transfer, so it counts even if the signature is
            // wrong.
            (_, rcode) => Err(TransferFault::Rcode(rcode)),
        }
    }

    #[inline]
    fn record(
        &mut self,
        parser: &mut Parser<'_>,
        record: &RawRecord,
        to: &mut Sequence,
    ) -> Result<(), TransferFault> {
        self.records += 1;
        if self.records > self.limits.records {
            return Err(TransferFault::Limit(TransferLimit::Records));
        }
        if !self.has_same_owner(parser.message(), record.owner_at) {
            parser.read_name_at(record.owner_at, &mut self.owner)?;
            if !self.owner.as_name().is_at_or_below(self.apex.as_name()) {
                return Err(TransferFault::OutOfZone(Box::new(self.owner), record.rtype));
            }
            self.owner_at = Some(record.owner_at);
        }
        if record.class != Class::IN {
            return Err(TransferFault::Class(Box::new(self.owner), record.rtype));
        }
        if record.rtype.is_meta() {
            return Err(TransferFault::MetaType(Box::new(self.owner), record.rtype));
        }
        self.rdata.clear();
        parser.expand_rdata(record, &mut self.rdata)?;
        if !rdata::is_expanded(record.rtype) {
            rdata::validate(record.rtype, &self.rdata)?;
        }
        to.record(self.owner.as_name(), record.rtype, record.ttl(), &self.rdata)
    }

    /// Whether the owner at `at` is a pointer to the place from which the previous owner was read, or the
    /// same pointer as the previous owner.
    #[inline]
    fn has_same_owner(&self, message: &[u8], at: Offset) -> bool {
        let Some(before) = self.owner_at else { return false };
        let pointer = |at: Offset| message.get(at.index()..)?.first_chunk::<2>().filter(|p| p[0] >= POINTER);
        match pointer(at) {
            Some(&here) => Offset::of_pointer(here) == before || pointer(before) == Some(&here),
            None => false,
        }
    }
}

/// Reads the additional section, which must end the message. Returns the offset of the TSIG record if the
/// last record is one (RFC 8945 §5.1).
fn additional(
    parser: &mut Parser<'_>,
    additionals: u16,
    opt: &mut ResponseOpt,
) -> Result<Option<Offset>, Malformed> {
    let mut found = None;
    for left in (0..additionals).rev() {
        let record = parser.record()?;
        match record.rtype {
            Type::TSIG if left > 0 => return Err(Malformed),
            Type::TSIG => found = Some(record.owner_at),
            _ => opt.read(parser.message(), &record)?,
        }
    }
    if parser.at_end() { Ok(found) } else { Err(Malformed) }
}
