//! [`Parser`]: reads messages without allocating, with a limit on compression pointers.
//!
//! A pointer must refer to before the start of the labels it ends, so that chains always move backwards and
//! end. All names of a message share one budget of pointer hops, so that a message full of long chains costs
//! no more than an ordinary one.

use std::ops::Range;

use super::header::Header;
use super::layout::{
    HEADER_LEN, MAX_MESSAGE, Offset, POINTER, POINTER_LEN, QUESTION_TAIL, RECORD_HEAD, TTL_AT, rdlength,
};
use crate::bytes::copy;
use crate::malformed::Malformed;
use crate::name::{MAX_LABEL, MAX_NAME, Name, NameBuf};
use crate::rdata;
use crate::rr::{Class, Type};
use crate::ttl::Ttl;

/// Most compression pointers followed per message; a message that needs more is hostile.
///
/// A full transfer message of 64 KiB with small records has about 4,000 names of one hop each.
pub const MAX_POINTER_HOPS: u16 = 16_384;

/// [`MAX_LABEL`] as a length byte.
const LABEL: u8 = MAX_LABEL as u8;

/// A cursor over one message.
#[derive(Clone)]
pub struct Parser<'m> {
    message: &'m [u8],
    /// The rest of the message, not read yet.
    rest: &'m [u8],
    hops_left: u16,
}

/// A question, with its name uncompressed in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'m> {
    /// QNAME in the letter case it came in.
    pub name: Name<'m>,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

/// A record in a message, with owner and RDATA not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Offset of the owner name.
    pub owner_at: Offset,
    /// TYPE.
    pub rtype: Type,
    /// CLASS; for OPT the sender's UDP size.
    pub class: Class,
    /// The field with the [`ttl`](Self::ttl), or for OPT with response code, version and flags (RFC 6891
    /// §6.1.3).
    pub ttl_field: [u8; 4],
    /// Byte range of RDATA in the message.
    pub rdata: Range<usize>,
}

impl RawRecord {
    /// Whether the owner is the root, written as a single zero byte.
    pub fn owner_is_root(&self, message: &[u8]) -> bool {
        message.get(self.owner_at.index()) == Some(&0)
    }

    /// The TTL, for types other than OPT.
    pub fn ttl(&self) -> Ttl {
        Ttl::from_be_bytes(self.ttl_field)
    }

    /// Offset of RDATA.
    pub fn rdata_at(&self) -> Offset {
        Offset::end_of(self.rdata.start)
    }
}

impl<'m> Parser<'m> {
    /// Parses the header and moves to the question section. Rejects messages longer than [`MAX_MESSAGE`].
    #[inline]
    pub fn new(message: &'m [u8]) -> Result<(Header, Self), Malformed> {
        let header = Header::of(message).filter(|_| message.len() <= MAX_MESSAGE).ok_or(Malformed)?;
        Ok((header, Parser { message, rest: &message[HEADER_LEN..], hops_left: MAX_POINTER_HOPS }))
    }

    /// The message being read.
    pub fn message(&self) -> &'m [u8] {
        self.message
    }

    /// Offset of the next byte to read.
    #[inline]
    pub fn position(&self) -> Offset {
        Offset::end_of(self.message.len() - self.rest.len())
    }

    /// Moves to `offset`; beyond the end nothing is left to read.
    pub fn seek(&mut self, offset: Offset) {
        self.rest = self.message.get(offset.index()..).unwrap_or_default();
    }

    /// The bytes not read yet.
    #[inline]
    pub fn rest(&self) -> &'m [u8] {
        self.rest
    }

    /// Returns the bytes not read yet and moves to the end.
    #[inline]
    pub fn take_rest(&mut self) -> &'m [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Whether everything has been read.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<&'m [u8; N], Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a question with an uncompressed name; before the first one there is nothing that a pointer could
    /// validly refer to.
    #[inline]
    pub fn question(&mut self) -> Result<Question<'m>, Malformed> {
        let name = Name::parse(self.rest).map_err(|_| Malformed)?;
        self.rest = &self.rest[name.len()..];
        let [t0, t1, c0, c1] = *self.bytes::<QUESTION_TAIL>()?;
        let (qtype, qclass) = (Type(u16::from_be_bytes([t0, t1])), Class(u16::from_be_bytes([c0, c1])));
        Ok(Question { name, qtype, qclass })
    }

    /// Reads a record up to the end of its RDATA, without decoding name or RDATA.
    #[inline]
    pub fn record(&mut self) -> Result<RawRecord, Malformed> {
        let owner_at = self.position();
        self.skip_name()?;
        let head = self.bytes::<RECORD_HEAD>()?;
        let start = self.message.len() - self.rest.len();
        let (rdata, rest) = self.rest.split_at_checked(rdlength(head)).ok_or(Malformed)?;
        self.rest = rest;
        Ok(RawRecord {
            owner_at,
            rtype: Type(u16::from_be_bytes([head[0], head[1]])),
            class: Class(u16::from_be_bytes([head[2], head[3]])),
            ttl_field: [head[TTL_AT], head[TTL_AT + 1], head[TTL_AT + 2], head[TTL_AT + 3]],
            rdata: start..start + rdata.len(),
        })
    }

    /// Skips a name, compressed or not, without following its pointer.
    #[inline]
    pub fn skip_name(&mut self) -> Result<(), Malformed> {
        let (labels, end) = run(self.rest)?;
        let end = labels + if end == 0 { 1 } else { POINTER_LEN };
        self.rest = self.rest.get(end..).ok_or(Malformed)?;
        Ok(())
    }

    /// Decodes the name at `at`, which may be compressed, without moving.
    pub fn name_at(&mut self, at: Offset) -> Result<NameBuf, Malformed> {
        let mut name = NameBuf::ROOT;
        self.read_name_at(at, &mut name)?;
        Ok(name)
    }

    /// Like [`name_at`](Self::name_at), into an existing buffer, whose content is undefined after an error.
    #[inline]
    pub fn read_name_at(&mut self, at: Offset, name: &mut NameBuf) -> Result<(), Malformed> {
        self.decode(at.index(), self.message.len(), name).map(|_| ())
    }

    /// Decodes the name at the current position and moves past it.
    pub fn name(&mut self) -> Result<NameBuf, Malformed> {
        let mut name = NameBuf::ROOT;
        let end = self.decode(self.position().index(), self.message.len(), &mut name)?;
        self.rest = &self.message[end..];
        Ok(name)
    }

    /// Decodes a name into `name` and returns the offset after its own bytes; before its first pointer it
    /// must not extend beyond `end`. The content of `name` is undefined after an error.
    fn decode(&mut self, start: usize, end: usize, name: &mut NameBuf) -> Result<usize, Malformed> {
        let (bytes, mut len) = (name.writer(), 0);
        let (mut message, mut at, mut after) = (&self.message[..end], start, None);
        loop {
            let here = message.get(at..).ok_or(Malformed)?;
            let (labels, end) = run(here)?;
            // One byte is reserved for the root.
            let to = bytes.get_mut(len..len + labels).filter(|_| len + labels < MAX_NAME);
            copy(to.ok_or(Malformed)?, &here[..labels]);
            len += labels;
            if end == 0 {
                name.end_after(len);
                return Ok(after.unwrap_or(at + labels + 1));
            }
            let low = *here.get(labels + 1).ok_or(Malformed)?;
            let target = Offset::of_pointer([end, low]).index();
            self.hops_left = self.hops_left.checked_sub(1).ok_or(Malformed)?;
            if target >= at {
                return Err(Malformed);
            }
            after.get_or_insert(at + labels + POINTER_LEN);
            (message, at) = (self.message, target);
        }
    }

    /// Appends a record's RDATA to `out` with its names decompressed, for the types that may contain
    /// compressed names; see [`rdata::expand`].
    pub fn expand_rdata(&mut self, record: &RawRecord, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Range { start, end } = record.rdata.clone();
        let region = self.message.get(start..end).ok_or(Malformed)?;
        rdata::expand(record.rtype, region, out, |at, out| {
            let mut name = NameBuf::ROOT;
            let after = self.decode(start + at, end, &mut name).ok()?;
            out.extend_from_slice(name.as_name().as_wire());
            Some(after - start - at)
        })
    }
}

/// The length of the labels at the front of `bytes`, and the byte after them: the root's zero or the first
/// byte of a pointer.
#[inline]
fn run(bytes: &[u8]) -> Result<(usize, u8), Malformed> {
    let mut at = 0;
    loop {
        match *bytes.get(at).ok_or(Malformed)? {
            end @ (0 | POINTER..) => return Ok((at, end)),
            len @ 1..=LABEL => at += len as usize + 1,
            _ => return Err(Malformed),
        }
        if at >= MAX_NAME {
            return Err(Malformed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = Header::query(1).as_bytes().to_vec();
        message.extend_from_slice(body);
        message
    }

    fn decode(body: &[u8], at: usize) -> Result<NameBuf, Malformed> {
        let message = message(body);
        let (_, mut parser) = Parser::new(&message)?;
        parser.name_at(Offset::new(at).ok_or(Malformed)?)
    }

    #[test]
    fn pointers_lead_backwards_only() {
        assert_eq!(decode(b"\x01a\0\x01b\xc0\x0c", 15), Ok("b.a.".parse().expect("name")));
        assert_eq!(decode(b"\xc0\x0c", 12), Err(Malformed), "to itself");
        assert_eq!(decode(b"\x01a\xc0\x0c", 12), Err(Malformed), "into its own run");
        assert_eq!(decode(b"\xc0\x0e\x01a\0", 12), Err(Malformed), "forwards");
        assert_eq!(decode(b"\x01a\0\x40", 15), Err(Malformed), "unassigned label kind");
    }

    #[test]
    fn names_too_long_are_refused_when_decoded_too() {
        let mut body = Vec::new();
        for _ in 0..3 {
            body.push(63);
            body.extend([b'a'; 63]);
        }
        body.push(0);
        let second = 12 + body.len();
        body.push(61);
        body.extend([b'b'; 61]);
        body.extend([0xc0, 0x0c]);
        assert_eq!(decode(&body, second).map(|n| n.as_name().len()), Ok(255));
        let third = 12 + body.len();
        body.push(62);
        body.extend([b'b'; 62]);
        body.extend([0xc0, 0x0c]);
        assert_eq!(decode(&body, third), Err(Malformed));
    }

    #[test]
    fn one_budget_of_hops_for_the_whole_message() {
        // Each pointer points at the previous one: the last one costs as many hops as there are pointers.
        let mut body = vec![0];
        for rung in 0..2_000u16 {
            let target = if rung == 0 { 12 } else { 13 + 2 * (rung - 1) };
            body.extend((0xc000 | target).to_be_bytes());
        }
        let message = message(&body);
        let (_, mut parser) = Parser::new(&message).expect("header");
        let top = Offset::new(message.len() - 2).expect("an offset");
        let asked = (0..).take_while(|_| parser.name_at(top).is_ok()).take(100).count();
        assert_eq!(asked, MAX_POINTER_HOPS as usize / 2_000);
    }

    #[test]
    fn a_record_may_not_overrun_the_message() {
        let message = message(b"\0\0\x01\0\x01\0\0\0\0\0\x04abc");
        let (_, mut parser) = Parser::new(&message).expect("header");
        assert_eq!(parser.record(), Err(Malformed));
    }

    #[test]
    fn no_message_is_longer_than_a_stream_can_frame() {
        let mut longest = message(&[0; MAX_MESSAGE - HEADER_LEN]);
        assert!(Parser::new(&longest).is_ok());
        longest.push(0);
        assert_eq!(Parser::new(&longest).map(|(header, _)| header), Err(Malformed));
    }

    #[test]
    fn questions_take_no_pointer() {
        let message = message(b"\xc0\x04\0\x01\0\x01");
        let (_, mut parser) = Parser::new(&message).expect("header");
        assert_eq!(parser.question(), Err(Malformed));
    }
}
