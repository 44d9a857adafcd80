//! Prepares responses for the cache: parses them completely, removes OPT, records the positions of the TTLs,
//! and makes sure that the body can be copied behind any question for the name.

use std::fmt;
use std::ops::Range;

use wire::edns::Edns;
use wire::message::{
    Builder, Compressor, MAX_MESSAGE, Offset, Owner, Parser, RECORD_HEAD, RawRecord, Section, TTL_AT,
};
use wire::{Class, Header, LowerNameBuf, Malformed, Name, Opcode, Rcode, Ttl, Type, rdata};

use crate::config::CacheConfig;
use crate::credibility::Credibility;
use crate::flags::Flags;
use crate::key::Reach;
use crate::pointers;

/// Properties of a response besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The number of the view or rule that the answer belongs to.
    pub view: u32,
    /// DO of the query that was answered.
    pub dnssec_ok: bool,
    /// CD of the query that was answered.
    pub checking_disabled: bool,
    /// Its credibility.
    pub rank: Credibility,
    /// How long to cache it. For a negative answer, the lower one of the SOA's MINIMUM and TTL (RFC 2308 §5);
    /// without, it is not cached. For a failure the caller's choice; `None` for [`CacheConfig::failure`].
    /// Other answers count as negative if this is set, although they have records: a CNAME that leads to
    /// NODATA.
    pub ttl: Option<Ttl>,
}

/// A response fit for the cache: without OPT, and copyable behind any question for its name.
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
    /// The part behind the question.
    pub(crate) body: Vec<u8>,
    /// Positions of the TTLs in `body`.
    pub(crate) ttls: Vec<u16>,
    /// The lowest TTL.
    pub(crate) lowest: Option<Ttl>,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Data.
    Positive,
    /// No data: NXDOMAIN or NODATA (RFC 2308 §2).
    Negative,
    /// No server could answer (RFC 9520 §2).
    Failure,
}

/// Why a response cannot be cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is not a DNS message, or a record is malformed.
    Malformed,
    /// QR is clear, or the opcode is not QUERY.
    NoResponse,
    /// TC is set: it is incomplete (RFC 2181 §9).
    Truncated,
    /// It does not have exactly one question, or the type is not cacheable.
    Question,
    /// It has a record of a meta type: TSIG, a second OPT, an OPT outside the additional section.
    Meta,
    /// It is negative without a lifetime (RFC 2308 §5).
    NoLifetime,
    /// It exceeds the size of a message when it is rewritten.
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
    /// Prepares a complete, scrubbed response (RFC 2181 §5.4.1).
    ///
    /// Parses every record, down to the names in RDATA. OPT is removed. The message is rewritten, unless OPT
    /// was the last record and all compression pointers lead to QNAME or to a name in a record.
    pub fn of(message: &[u8], terms: &Terms) -> Result<Answer, Unfit> {
        Self::with_extended(message, terms, 0)
    }

    /// Like [`of`](Self::of), for a response without OPT. `upper` has the upper bits of its response code.
    pub(crate) fn with_extended(message: &[u8], terms: &Terms, upper: u8) -> Result<Answer, Unfit> {
        let walk = Walk::of(message)?;
        let upper = walk.upper_rcode | upper;
        if !walk.must_be_written_again {
            return walk.answer(message, terms, upper);
        }
        let again = rewrite(message, walk.question.name)?;
        Walk::of(&again)?.answer(&again, terms, upper)
    }

    /// Returns its kind.
    pub fn kind(&self) -> AnswerKind {
        self.kind
    }

    /// Returns what its entry covers.
    pub(crate) fn reach(&self) -> Reach {
        match self.kind {
            AnswerKind::Failure => Reach::Failure,
            // Behind a CNAME another name does not exist (RFC 2308 §2.1, RFC 6604 §3). A query for DS is
            // answered by the parent zone (RFC 4035 §3.1.4.1), while the zone at the name may be served
            // nevertheless.
            AnswerKind::Negative if self.rcode == Rcode::NXDOMAIN => match (self.qtype, self.counts[0]) {
                (Type::DS, _) | (_, 1..) => Reach::Type,
                (_, 0) => Reach::Name,
            },
            _ => Reach::Type,
        }
    }

    /// Returns the flags of the entry that do not belong to its key.
    pub(crate) fn flags(&self) -> Flags {
        Flags::answer(self.authoritative, self.authentic, self.kind == AnswerKind::Negative)
    }

    /// Returns the lifetime in seconds, 0 if it must not be cached, and adjusts the TTLs: no record outlives
    /// the bounds, and none expires before the answer as a whole.
    pub(crate) fn settle(&mut self, config: &CacheConfig) -> u32 {
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
            // Aliases that lead to a denial are not denied themselves; the SOA is cached for its own time
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

/// A completely parsed response.
struct Walk<'m> {
    header: Header,
    question: wire::message::Question<'m>,
    /// The upper bits of the response code, from OPT.
    upper_rcode: u8,
    /// The range of the message to keep.
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
                // Without OPT, pointers behind it would be off by its length.
                walk.must_be_written_again |= options | !reader.read(&record)?;
                walk.note(&record);
            }
        }
        if !reader.parser.at_end() {
            return Err(Unfit::Malformed);
        }
        Ok(walk)
    }

    /// Adds a record.
    fn note(&mut self, record: &RawRecord) {
        let at = record.rdata.start - RECORD_HEAD + TTL_AT - self.body.start;
        // It always fits: a message has at most 65,535 bytes.
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
            // The answer is the DNAME whose substitution makes the name too long (RFC 6672 §2.2).
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

/// Parses whole records.
struct Reader<'m> {
    parser: Parser<'m>,
    pointers: pointers::Bounds,
    /// RDATA of the record, with names decompressed.
    rdata: Vec<u8>,
}

impl Reader<'_> {
    /// Parses owner and RDATA, and returns whether all their pointers lead to bytes that are the same in
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
            // The clone has counted the pointers that it followed.
            *parser = names;
            Some(end - at)
        })?;
        rdata::validate(record.rtype, &self.rdata)?;
        Ok(stay)
    }
}

/// Rewrites a response without OPT, with a question for `name`, which is QNAME or below it.
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
