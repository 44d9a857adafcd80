//! Responses made ready to be kept: read whole, without OPT, with the places of their TTLs, and such that the
//! body can be copied behind any question for the name.

use std::fmt;
use std::ops::Range;

use wire::edns::Edns;
use wire::message::{
    Builder, Compressor, MAX_MESSAGE, Offset, Owner, Parser, RECORD_HEAD, RawRecord, Section, TTL_AT,
};
use wire::{Class, Header, LowerNameBuf, Malformed, Name, Opcode, Rcode, Ttl, Type, rdata};

use crate::config::Config;
use crate::flags::Flags;
use crate::key::Reach;
use crate::pointers;
use crate::rank::Credibility;

/// What is known of a response beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Whose answer it is: the number of a view or a forward zone.
    pub view: u32,
    /// DO of the query that it answers.
    pub dnssec_ok: bool,
    /// CD of that query.
    pub checking_disabled: bool,
    /// How far it is to be trusted.
    pub rank: Credibility,
    /// How long to keep it. For a negative answer what its SOA says: the lower one of MINIMUM and the
    /// record's TTL (RFC 2308 §5); without it such an answer is not kept. For a failure as the caller likes,
    /// [`Config::failure`] if `None`. With other answers it says that they are negative in spite of their
    /// records: a CNAME that leads to NODATA.
    pub ttl: Option<Ttl>,
}

/// A response that can be kept: without OPT, and such that it can be copied behind any question for its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub(crate) name: LowerNameBuf,
    pub(crate) qtype: Type,
    pub(crate) qclass: Class,
    pub(crate) terms: Terms,
    pub(crate) kind: AnswerKind,
    pub(crate) rcode: Rcode,
    pub(crate) authoritative: bool,
    pub(crate) authentic: bool,
    pub(crate) counts: [u16; 3],
    /// What stands behind the question.
    pub(crate) body: Vec<u8>,
    /// Where TTLs stand in that.
    pub(crate) ttls: Vec<u16>,
    /// The lowest of them.
    pub(crate) lowest: Option<Ttl>,
}

/// What a response says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Here is data.
    Positive,
    /// There is none: NXDOMAIN or NODATA (RFC 2308 §2).
    Negative,
    /// No server could answer (RFC 9520 §2).
    Failure,
}

/// Why a response cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not a DNS message, or one of its records is not well formed.
    Malformed,
    /// QR is clear, or the opcode is not QUERY.
    NoResponse,
    /// TC is set: what came is not all (RFC 2181 §9).
    Truncated,
    /// There is not exactly one question, or it is for a type that no answer is kept for.
    Question,
    /// A record has a type that is no data: TSIG, a second OPT, an OPT outside the additional section.
    Meta,
    /// It denies something without a lifetime for that (RFC 2308 §5).
    NoLifetime,
    /// It does not fit a message when it is written again.
    TooLong,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed message",
            Self::NoResponse => "not a response to a query",
            Self::Truncated => "truncated",
            Self::Question => "not one question for data",
            Self::Meta => "a record that is no data",
            Self::NoLifetime => "negative, without a time to live",
            Self::TooLong => "too long",
        })
    }
}
impl std::error::Error for Unfit {}

impl From<Malformed> for Unfit {
    fn from(_: Malformed) -> Self {
        Unfit::Malformed
    }
}

impl Answer {
    /// Takes a complete response, from which the resolver has taken what does not belong (RFC 2181 §5.4.1).
    ///
    /// Every record is read, down to the names in its data. OPT is left out. Compression pointers stay as
    /// they are where they lead to the name of the question or to one in a record, and OPT was the last one;
    /// otherwise the message is written again.
    pub fn of(message: &[u8], terms: &Terms) -> Result<Answer, Unfit> {
        Self::with_extended(message, terms, 0)
    }

    /// The same for a response without OPT, whose response code has these upper bits.
    pub(crate) fn with_extended(message: &[u8], terms: &Terms, upper: u8) -> Result<Answer, Unfit> {
        let walk = Walk::of(message)?;
        let upper = walk.upper_rcode | upper;
        if !walk.must_be_written_again {
            return walk.answer(message, terms, upper);
        }
        let again = rewrite(message, walk.question.name)?;
        Walk::of(&again)?.answer(&again, terms, upper)
    }

    /// What the response says.
    pub fn kind(&self) -> AnswerKind {
        self.kind
    }

    /// Under what it is kept.
    pub(crate) fn reach(&self) -> Reach {
        match self.kind {
            AnswerKind::Failure => Reach::Failure,
            // Behind a CNAME it is another name that does not exist (RFC 2308 §2.1, RFC 6604 §3). About DS it
            // is the zone above that was asked (RFC 4035 §3.1.4.1), and the zone at the name may be served
            // all the same.
            AnswerKind::Negative if self.rcode == Rcode::NXDOMAIN => match (self.qtype, self.counts[0]) {
                (Type::DS, _) | (_, 1..) => Reach::Type,
                (_, 0) => Reach::Name,
            },
            _ => Reach::Type,
        }
    }

    /// The flags of the entry that are not of its key.
    pub(crate) fn flags(&self) -> Flags {
        Flags::answer(self.authoritative, self.authentic, self.kind == AnswerKind::Negative)
    }

    /// Seconds to keep it, 0 for not at all, and its TTLs brought within the same bounds: no record outlives
    /// the bound, and none ends before the answer as a whole does.
    pub(crate) fn settle(&mut self, config: &Config) -> u32 {
        let lowest = self.lowest.unwrap_or(Ttl::MAX).min(self.terms.ttl.unwrap_or(Ttl::MAX)).as_secs();
        let (bounds, seconds) = match self.kind {
            AnswerKind::Failure => {
                let asked = self.terms.ttl.map_or(config.failure.min, Ttl::as_secs);
                (config.failure, config.failure.clamp(asked))
            }
            _ if lowest == 0 => return 0,
            AnswerKind::Positive => (config.positive, config.positive.clamp(lowest)),
            AnswerKind::Negative => (config.negative, config.negative.clamp(lowest)),
        };
        let links = match self.kind {
            AnswerKind::Positive => usize::MAX,
            AnswerKind::Negative => self.counts[0] as usize,
            AnswerKind::Failure => 0,
        };
        let denied = self.terms.ttl.unwrap_or(Ttl::MAX).as_secs();
        for (number, &at) in self.ttls.iter().enumerate() {
            let Some(field) = self.body.get_mut(at as usize..).and_then(|rest| rest.first_chunk_mut::<4>())
            else {
                continue;
            };
            let own = Ttl::from_be_bytes(*field).as_secs();
            // Aliases that lead to a denial are not denied themselves; its SOA is kept as long as it says
            // (RFC 2308 §5).
            let ttl = match number < links {
                true => config.positive.clamp(own),
                false => bounds.clamp(own.min(denied)),
            };
            let ttl = ttl.max(seconds);
            *field = ttl.to_be_bytes();
        }
        seconds
    }
}

/// A response that has been read from front to back.
struct Walk<'m> {
    header: Header,
    question: wire::message::Question<'m>,
    /// The upper bits of the response code, from OPT.
    upper_rcode: u8,
    /// Where what is kept stands.
    body: Range<usize>,
    counts: [u16; 3],
    ttls: Vec<u16>,
    lowest: Option<Ttl>,
    must_be_written_again: bool,
}

impl<'m> Walk<'m> {
    fn of(message: &'m [u8]) -> Result<Walk<'m>, Unfit> {
        let (header, mut parser) = Parser::new(message)?;
        if !header.is_response() || header.opcode() != Opcode::QUERY {
            return Err(Unfit::NoResponse);
        }
        if header.truncated() {
            return Err(Unfit::Truncated);
        }
        let [questions, counts @ ..] = header.counts();
        if questions != 1 {
            return Err(Unfit::Question);
        }
        let question = parser.question()?;
        if question.qtype.is_meta() && question.qtype != Type::ANY {
            return Err(Unfit::Question);
        }
        let start = parser.position().index();
        let mut walk = Walk {
            header,
            question,
            upper_rcode: 0,
            body: start..start,
            counts,
            ttls: Vec::new(),
            lowest: None,
            must_be_written_again: false,
        };
        let mut reader = Reader { parser, pointers: pointers::Bounds::of(&question), rdata: Vec::new() };
        let mut options = false;
        for (section, count) in counts.into_iter().enumerate() {
            for _ in 0..count {
                let record = reader.parser.record()?;
                if record.rtype == Type::OPT && section == 2 && !options {
                    options = true;
                    walk.upper_rcode = Edns::parse(message, &record)?.extended_rcode;
                    walk.counts[2] -= 1;
                    continue;
                }
                // What stands behind OPT would point to the wrong places without it.
                walk.must_be_written_again |= options | !reader.read(&record)?;
                walk.note(&record);
            }
        }
        if !reader.parser.at_end() {
            return Err(Unfit::Malformed);
        }
        Ok(walk)
    }

    /// Takes a record that was read.
    fn note(&mut self, record: &RawRecord) {
        let at = record.rdata.start - RECORD_HEAD + TTL_AT - self.body.start;
        // A message has 65,535 bytes, so every place in it is a 16-bit number.
        self.ttls.push(at as u16);
        self.lowest = Some(self.lowest.map_or(record.ttl(), |lowest| lowest.min(record.ttl())));
        self.body.end = record.rdata.end;
    }

    fn answer(self, message: &[u8], terms: &Terms, upper_rcode: u8) -> Result<Answer, Unfit> {
        let rcode = Rcode((upper_rcode as u16) << 4 | self.header.rcode().0);
        let kind = match rcode {
            Rcode::NXDOMAIN => AnswerKind::Negative,
            Rcode::NOERROR if self.counts[0] == 0 || terms.ttl.is_some() => AnswerKind::Negative,
            Rcode::NOERROR => AnswerKind::Positive,
            // The answer is the DNAME that makes the name too long (RFC 6672 §2.2).
            Rcode::YXDOMAIN if self.counts[0] > 0 => AnswerKind::Positive,
            _ => AnswerKind::Failure,
        };
        if kind == AnswerKind::Negative && terms.ttl.is_none() {
            return Err(Unfit::NoLifetime);
        }
        Ok(Answer {
            name: self.question.name.to_lower(),
            qtype: self.question.qtype,
            qclass: self.question.qclass,
            terms: *terms,
            kind,
            rcode,
            authoritative: self.header.authoritative(),
            authentic: self.header.authentic_data(),
            counts: self.counts,
            body: message.get(self.body).unwrap_or_default().to_vec(),
            ttls: self.ttls,
            lowest: self.lowest,
        })
    }
}

/// Reads records whole.
struct Reader<'m> {
    parser: Parser<'m>,
    pointers: pointers::Bounds,
    /// The record's data, names decompressed.
    rdata: Vec<u8>,
}

impl Reader<'_> {
    /// Reads owner and data, and says whether all pointers in them lead to where the same bytes will stand in
    /// every message that this one is copied into.
    fn read(&mut self, record: &RawRecord) -> Result<bool, Unfit> {
        if record.rtype.is_meta() {
            return Err(Unfit::Meta);
        }
        self.pointers.note_ttl(record.rdata.start - RECORD_HEAD + TTL_AT);
        self.parser.name_at(record.owner_at)?;
        let message = self.parser.message();
        let mut stay = self.pointers.allow(message, record.owner_at.index());
        let region = message.get(record.rdata.clone()).ok_or(Unfit::Malformed)?;
        self.rdata.clear();
        let (parser, pointers) = (&mut self.parser, &self.pointers);
        rdata::expand(record.rtype, region, &mut self.rdata, |at, out| {
            let at = record.rdata.start + at;
            let mut names = parser.clone();
            names.seek(Offset::new(at)?);
            let name = names.name().ok()?;
            stay &= pointers.allow(message, at);
            out.extend_from_slice(name.as_name().as_wire());
            let end = names.position().index();
            names.seek(parser.position());
            // The clone has paid for the pointers that it followed.
            *parser = names;
            Some(end - at)
        })?;
        rdata::validate(record.rtype, &self.rdata)?;
        Ok(stay)
    }
}

/// Writes a response again behind a question for `name`, which is that of its question or one below it,
/// without OPT.
pub(crate) fn rewrite(message: &[u8], name: Name<'_>) -> Result<Vec<u8>, Unfit> {
    let (header, mut parser) = Parser::new(message)?;
    let question = parser.question()?;
    let mut written = vec![0; MAX_MESSAGE];
    let mut names = Compressor::large();
    let mut b = Builder::new(&mut written, MAX_MESSAGE, header, &mut names);
    b.question(name, question.qtype, question.qclass).map_err(|_| Unfit::TooLong)?;
    b.learn(name, Offset::QNAME);
    let [_, counts @ ..] = header.counts();
    let mut data = Vec::new();
    for (section, count) in [Section::Answer, Section::Authority, Section::Additional].into_iter().zip(counts)
    {
        for _ in 0..count {
            let record = parser.record()?;
            if record.rtype == Type::OPT {
                continue;
            }
            let owner = parser.name_at(record.owner_at)?;
            data.clear();
            parser.expand_rdata(&record, &mut data)?;
            let owner = Owner::Name(owner.as_name());
            b.record(section, owner, record.rtype, record.class, record.ttl(), &data)
                .map_err(|_| Unfit::TooLong)?;
        }
    }
    let len = b.finish();
    written.truncate(len);
    Ok(written)
}
