//! Lines of key signing requests and responses: headers of slots, and records of the zone's name.

use std::fmt::{self, Write as _};

use wire::text::{duration, time, tokens, write_time};
use wire::{Class, Name, NameBuf, Ttl, Type, UnixTime};
use wording::moment;

/// The version of both formats.
const VERSION: &str = "1.0";

/// A fault in the text of a request or a response, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeFault {
    /// Counted from 1. For a fault of the whole text that of its last line.
    pub line: usize,
    /// The kind of fault.
    pub kind: ExchangeFaultKind,
}

impl fmt::Display for ExchangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.kind)
    }
}
impl std::error::Error for ExchangeFault {}

/// Kinds of [`ExchangeFault`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeFaultKind {
    /// The line begins with `;;`, and is not the header of this word.
    BadHeader(&'static str),
    /// A record comes before the first header.
    NoHeader(&'static str),
    /// The slot does not begin after the one before it.
    Order,
    /// The slot has no DNSKEY record.
    NoKeys,
    /// There is no slot.
    NoSlots,
    /// The owner is not this zone.
    OtherOwner(String),
    /// The line is not `NAME [TTL] [IN] TYPE DATA`.
    NoRecord,
    /// Records of this type have no place here.
    OtherType(String),
    /// The data of a record of this type are malformed.
    BadData(String, String),
    /// The TTL differs from that of the other records of this type in the slot.
    OtherTtl(String),
}

impl fmt::Display for ExchangeFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadHeader(word) => {
                write!(
                    f,
                    "expected `;; {word} {VERSION} YYYYMMDDHHmmSS`, with the time at which a slot begins"
                )
            }
            Self::NoHeader(word) => {
                write!(f, "expected `;; {word} {VERSION} YYYYMMDDHHmmSS` before the records")
            }
            Self::Order => f.write_str("the slot does not begin after the one before it"),
            Self::NoKeys => f.write_str("the slot has no DNSKEY record"),
            Self::NoSlots => f.write_str("there is no slot"),
            Self::OtherOwner(name) => write!(f, "the record is of {name}, which is not the zone"),
            Self::NoRecord => f.write_str("expected a record `NAME TTL IN TYPE DATA`"),
            Self::OtherType(rtype) => write!(f, "a record of the type {rtype} has no place here"),
            Self::BadData(rtype, why) => write!(f, "not a record of the type {rtype}: {why}"),
            Self::OtherTtl(rtype) => {
                write!(f, "the TTL is not that of the other {rtype} records of the slot")
            }
        }
    }
}

/// A line of a request or a response.
pub(super) enum ExchangeLine {
    /// A slot begins.
    Slot(UnixTime),
    /// The end: the words after `generated`.
    End(String),
    /// A record of the zone's name; `None`: without a TTL.
    Record(Type, Option<Ttl>, Vec<u8>),
}

/// Reads the lines of a text that are not empty, each with its number. `word` is that of the headers.
pub(super) fn read_lines<'t>(
    text: &'t str,
    zone: Name<'t>,
    word: &'static str,
    types: &'t [Type],
) -> impl Iterator<Item = Result<(usize, ExchangeLine), ExchangeFault>> + 't {
    text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).map(move |(text, line)| {
        let read = match text.trim_start().strip_prefix(";;") {
            Some(header) => read_header(header, word),
            None => read_record(text, zone, types),
        };
        read.map(|read| (line, read)).map_err(|kind| ExchangeFault { line, kind })
    })
}

fn read_header(header: &str, word: &'static str) -> Result<ExchangeLine, ExchangeFaultKind> {
    let bad = || ExchangeFaultKind::BadHeader(word);
    let rest = header.trim_start().strip_prefix(word).ok_or_else(bad)?;
    let mut words = rest.split_whitespace();
    if words.next() != Some(VERSION) {
        return Err(bad());
    }
    match words.next().ok_or_else(bad)? {
        "generated" => Ok(ExchangeLine::End(words.collect::<Vec<_>>().join(" "))),
        inception => Ok(ExchangeLine::Slot(read_time(inception).ok_or_else(bad)?)),
    }
}

/// Reads a time `YYYYMMDDHHmmSS`.
pub(super) fn read_time(text: &str) -> Option<UnixTime> {
    let seconds = (text.len() == 14).then(|| time(text.as_bytes()))?;
    Some(UnixTime::from_secs(seconds?.into()))
}

fn read_record(text: &str, zone: Name<'_>, types: &[Type]) -> Result<ExchangeLine, ExchangeFaultKind> {
    use ExchangeFaultKind as Kind;
    let text = text.split(';').next().unwrap_or_default();
    let tokens: Vec<_> = tokens(text).collect();
    let mut rest = &tokens[..];
    let mut next = || {
        let (first, others) = rest.split_first()?;
        rest = others;
        std::str::from_utf8(first.bytes).ok()
    };
    let owner = next().ok_or(Kind::NoRecord)?;
    let name = NameBuf::from_text(owner.as_bytes(), Some(Name::ROOT)).map_err(|_| Kind::NoRecord)?;
    if name.as_name() != zone {
        return Err(Kind::OtherOwner(owner.to_owned()));
    }
    let mut word = next().ok_or(Kind::NoRecord)?;
    let ttl = duration(word.as_bytes()).filter(|seconds| *seconds <= Ttl::MAX.as_secs()).map(Ttl::from_secs);
    if ttl.is_some() {
        word = next().ok_or(Kind::NoRecord)?;
    }
    if word.eq_ignore_ascii_case(&Class::IN.to_string()) {
        word = next().ok_or(Kind::NoRecord)?;
    }
    let rtype: Type = word.parse().map_err(|_| Kind::NoRecord)?;
    if !types.contains(&rtype) {
        return Err(Kind::OtherType(rtype.to_string()));
    }
    let mut rdata = Vec::new();
    wire::rdata::parse_text(rtype, rest, Some(Name::ROOT), &mut rdata)
        .map_err(|fault| Kind::BadData(rtype.to_string(), fault.to_string()))?;
    wire::rdata::canonical(rtype, &mut rdata);
    Ok(ExchangeLine::Record(rtype, ttl, rdata))
}

/// Writes the header of a slot.
pub(super) fn write_header(out: &mut String, word: &str, inception: UnixTime) {
    // Writing to a String cannot fail.
    let _ = write!(out, ";; {word} {VERSION} ");
    let _ = write_time(inception.to_serial().0, out);
    let _ = writeln!(out, " ({})", moment(inception));
}

/// Writes the last line; `more` ends it.
pub(super) fn write_end(out: &mut String, word: &str, now: UnixTime, more: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, ";; {word} {VERSION} generated at {} by nomen{more}", moment(now));
}

/// Writes a record.
pub(super) fn write_record(out: &mut String, zone: Name<'_>, rtype: Type, ttl: Ttl, rdata: &[u8]) {
    // Writing to a String cannot fail.
    let _ = write!(out, "{zone}\t{ttl}\tIN\t{rtype}\t");
    let _ = wire::rdata::write_text(rtype, rdata, out);
    out.push('\n');
}
