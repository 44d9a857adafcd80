//! Messages between primary and secondary: SOA queries (RFC 1034 §4.3.5), transfer requests, NOTIFY (RFC
//! 1996).

use wire::edns::{OptWriter, OptionCode};
use wire::message::{
    Builder, Compressor, Full, HEADER_LEN, Header, Malformed, Offset, Opcode, Owner, Parser, RawRecord,
    Rcode, Section,
};
use wire::rdata::view::Soa;
use wire::{Class, Name, NameBuf, Serial, Ttl, Type};

use crate::incoming::{AskedFor, TransferFault};
use crate::opt::ResponseOpt;

/// EDNS UDP payload size in queries: responses to SOA queries are small, and nothing larger is requested over
/// UDP.
const UDP_SIZE: u16 = 1232;

/// Queries over TLS are padded to multiples of so many bytes (RFC 8467 §4.1).
const PADDED_TO: usize = 128;
/// Bytes of an option before its data.
const OPTION_HEAD: usize = 4;

/// Whether a query has an OPT record with EXPIRE, as a secondary's should (RFC 7314 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskExpire {
    /// It has.
    Yes,
    /// It has, and is padded, for an encrypted connection (RFC 9103 §7.4). A signature of `signature` bytes
    /// follows.
    Padded {
        /// Bytes of the TSIG record that the caller appends.
        signature: usize,
    },
    /// It has no OPT: the primary does not support EDNS.
    No,
}

/// Writes a question, an SOA with this RDATA in the given section, and EXPIRE.
fn query(
    buf: &mut [u8],
    header: Header,
    apex: Name<'_>,
    qtype: Type,
    soa: Option<(Section, &[u8])>,
    expire: AskExpire,
) -> Result<usize, Full> {
    if buf.len() < HEADER_LEN {
        return Err(Full);
    }
    let mut names = Compressor::small();
    let limit = buf.len();
    let mut b = Builder::new(buf, limit, header, &mut names);
    b.question(apex, qtype, Class::IN)?;
    b.learn(apex, Offset::QNAME);
    if let Some((section, rdata)) = soa {
        b.record(section, Owner::At(Offset::QNAME), Type::SOA, Class::IN, Ttl::ZERO, rdata)?;
    }
    if expire != AskExpire::No {
        let mut opt = OptWriter::begin(&mut b, UDP_SIZE, 0, false)?;
        opt.option(&mut b, OptionCode::EXPIRE, &[])?;
        if let AskExpire::Padded { signature } = expire {
            let used = b.len() + OPTION_HEAD + signature;
            let padding = used.next_multiple_of(PADDED_TO) - used;
            opt.option(&mut b, OptionCode::PADDING, &[&[0; PADDED_TO][..padding]])?;
        }
    }
    Ok(b.finish())
}

/// Writes the SOA query for `apex` to `buf`, and returns its length.
pub fn soa_query(buf: &mut [u8], id: u16, apex: Name<'_>, expire: AskExpire) -> Result<usize, Full> {
    query(buf, Header::query(id), apex, Type::SOA, None, expire)
}

/// Writes the transfer request to `buf`, and returns its length. An IXFR request has our SOA, with RDATA
/// `soa`, in the authority section (RFC 1995 §3).
pub fn transfer_query(
    buf: &mut [u8],
    id: u16,
    apex: Name<'_>,
    asked: AskedFor,
    soa: &[u8],
    expire: AskExpire,
) -> Result<usize, Full> {
    let (qtype, soa) = match asked {
        AskedFor::Axfr => (Type::AXFR, None),
        AskedFor::Ixfr(_) => (Type::IXFR, Some((Section::Authority, soa))),
    };
    query(buf, Header::query(id), apex, qtype, soa, expire)
}

/// Writes a NOTIFY for `apex` with its SOA's RDATA to `buf`, and returns its length (RFC 1996 §3.7).
pub fn notify_query(buf: &mut [u8], id: u16, apex: Name<'_>, soa: &[u8]) -> Result<usize, Full> {
    let mut header = *Header::query(id).as_bytes();
    header[2] = Opcode::NOTIFY.0 << 3;
    let mut header = Header::of(&header).ok_or(Full)?;
    header.set_authoritative(true);
    query(buf, header, apex, Type::SOA, Some((Section::Answer, soa)), AskExpire::No)
}

/// The content of a NOTIFY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The zone.
    pub apex: NameBuf,
    /// The new serial, if the NOTIFY has an SOA. It is unauthenticated, a hint only (RFC 1996 §3.11).
    pub serial: Option<Serial>,
}

/// Parses a NOTIFY for a zone's SOA (RFC 1996 §3.7); [`Malformed`] for any other message.
pub fn read_notify(message: &[u8]) -> Result<Notification, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let question = parser.question()?;
    let [questions, answers, ..] = header.counts();
    let asked = (header.is_response(), header.opcode(), questions, question.qtype, question.qclass);
    if asked != (false, Opcode::NOTIFY, 1, Type::SOA, Class::IN) {
        return Err(Malformed);
    }
    let mut serial = None;
    for _ in 0..answers {
        let record = parser.record()?;
        serial = serial.or(soa_serial(&mut parser, &record, question.name)?);
    }
    Ok(Notification { apex: question.name.to_buf(), serial })
}

/// The response code, if `message` is the reply to the NOTIFY with this ID for `apex`.
pub fn notify_reply(message: &[u8], id: u16, apex: Name<'_>) -> Option<Rcode> {
    let (header, mut parser) = Parser::new(message).ok()?;
    let same = header.id() == id && header.is_response() && header.opcode() == Opcode::NOTIFY;
    // RFC 1996 §4.7: "a NOTIFY response" has the question of the request; an error may omit it.
    let asked = header.counts()[0] == 0 || parser.question().is_ok_and(|question| question.name == apex);
    (same && asked).then(|| header.rcode())
}

/// A primary's response to an SOA query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoaReply {
    /// The version.
    pub serial: Serial,
    /// Seconds for which the version may still be served, if the primary sent EXPIRE (RFC 7314).
    pub expire: Option<u32>,
}

/// Parses the response to [`soa_query`] for `apex`. Only an authoritative response is accepted.
pub fn read_soa_reply(message: &[u8], id: u16, apex: Name<'_>) -> Result<SoaReply, TransferFault> {
    let (header, mut parser) = Parser::new(message)?;
    if header.id() != id || !header.is_response() || header.opcode() != Opcode::QUERY {
        return Err(TransferFault::NotTheResponse);
    }
    if header.rcode() != Rcode::NOERROR {
        return Err(TransferFault::Rcode(header.rcode()));
    }
    let [questions, answers, authorities, additionals] = header.counts();
    let question = parser.question()?;
    if questions != 1 || question.name != apex || question.qtype != Type::SOA {
        return Err(TransferFault::OtherQuestion);
    }
    if header.truncated() {
        return Err(TransferFault::Truncated);
    }
    let (mut found, mut opt) = (None, ResponseOpt::default());
    for _ in 0..answers {
        let record = parser.record()?;
        found = found.or(soa_serial(&mut parser, &record, apex)?);
    }
    let serial = found.filter(|_| header.authoritative()).ok_or(TransferFault::NoSoa)?;
    for _ in 0..u32::from(authorities) + u32::from(additionals) {
        let record = parser.record()?;
        opt.read(message, &record)?;
    }
    Ok(SoaReply { serial, expire: opt.expire })
}

/// The serial of the record, if it is the SOA of `apex`.
fn soa_serial(
    parser: &mut Parser<'_>,
    record: &RawRecord,
    apex: Name<'_>,
) -> Result<Option<Serial>, Malformed> {
    if record.rtype != Type::SOA || record.class != Class::IN {
        return Ok(None);
    }
    if parser.name_at(record.owner_at)?.as_name() != apex {
        return Ok(None);
    }
    let mut rdata = Vec::new();
    parser.expand_rdata(record, &mut rdata)?;
    Ok(Some(Soa::read(&rdata)?.numbers.serial))
}
