//! Reading messages: a cursor with a budget for compression pointers, and nothing allocated.
//!
//! A pointer must lead to before the octet where the run of labels it ends began, so chains always move
//! backwards and end; and all names of one message share one budget of pointer hops, so that a message
//! full of long chains costs no more than a plain one.

use std::ops::Range;

use super::header::{HEADER_LEN, Header};
use crate::name::{MAX_LABEL, MAX_NAME, Name, NameBuf};
use crate::rdata;
use crate::rr::{Class, Type};

/// Compression pointers followed per message before it is given up as hostile.
///
/// A full 64 KiB transfer message of small records holds about 4,000 names of one hop each.
pub const MAX_POINTER_HOPS: u16 = 16_384;

/// A message that cannot be read. Carries nothing: on the query path the answer is FORMERR or silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed message")
    }
}
impl std::error::Error for Malformed {}

/// A cursor over one message.
#[derive(Clone)]
pub struct Parser<'m> {
    message: &'m [u8],
    at: usize,
    hops_left: u16,
}

/// A question whose name lies in the message uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'m> {
    /// QNAME in the letter case it came in.
    pub name: Name<'m>,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
}

/// A record found in a message, its owner and data still in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Where the owner name starts.
    pub owner_at: usize,
    /// TYPE.
    pub rtype: Type,
    /// CLASS; for OPT the sender's UDP size.
    pub class: Class,
    /// TTL in seconds; for OPT version and flags.
    pub ttl: u32,
    /// Where RDATA lies, inside the message.
    pub rdata: Range<usize>,
}

impl RawRecord {
    /// Whether the owner is the root, written as the single octet zero.
    pub fn owner_is_root(&self, message: &[u8]) -> bool {
        message.get(self.owner_at) == Some(&0)
    }
}

impl<'m> Parser<'m> {
    /// Reads the header and stands in front of the question section.
    #[inline]
    pub fn new(message: &'m [u8]) -> Result<(Header, Self), Malformed> {
        let header = Header::of(message).ok_or(Malformed)?;
        Ok((header, Parser { message, at: HEADER_LEN, hops_left: MAX_POINTER_HOPS }))
    }

    /// The message being read.
    pub fn message(&self) -> &'m [u8] {
        self.message
    }

    /// Offset of the next octet to read.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Stands at `offset`; reading beyond the end is [`Malformed`] as ever.
    pub fn seek(&mut self, offset: usize) {
        self.at = offset;
    }

    /// Whether everything has been read.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.at == self.message.len()
    }

    fn octets<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let rest = self.message.get(self.at..).ok_or(Malformed)?;
        let octets = *rest.first_chunk().ok_or(Malformed)?;
        self.at += N;
        Ok(octets)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.octets().map(u16::from_be_bytes)
    }

    /// Reads a question whose name is not compressed; there is nothing in front of the first one that a
    /// pointer could honestly mean.
    #[inline]
    pub fn question(&mut self) -> Result<Question<'m>, Malformed> {
        let name = Name::parse(self.message.get(self.at..).ok_or(Malformed)?).map_err(|_| Malformed)?;
        self.at += name.len();
        let fixed: [u8; 4] = self.octets()?;
        let qtype = Type(u16::from_be_bytes([fixed[0], fixed[1]]));
        Ok(Question { name, qtype, qclass: Class(u16::from_be_bytes([fixed[2], fixed[3]])) })
    }

    /// Reads a record up to the end of its data, without decoding either name or data.
    #[inline]
    pub fn record(&mut self) -> Result<RawRecord, Malformed> {
        let owner_at = self.at;
        self.skip_name()?;
        let fixed: [u8; 10] = self.octets()?;
        let start = self.at;
        let end = start + u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
        if end > self.message.len() {
            return Err(Malformed);
        }
        self.at = end;
        Ok(RawRecord {
            owner_at,
            rtype: Type(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: Class(u16::from_be_bytes([fixed[2], fixed[3]])),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata: start..end,
        })
    }

    /// Steps over a name, compressed or not, without following its pointer.
    #[inline]
    pub fn skip_name(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        loop {
            let len = *self.message.get(self.at).ok_or(Malformed)? as usize;
            match len {
                0 => {
                    self.at += 1;
                    return Ok(());
                }
                1..=MAX_LABEL => self.at += len + 1,
                0xc0.. => {
                    self.u16()?;
                    return Ok(());
                }
                _ => return Err(Malformed),
            }
            if self.at - start >= MAX_NAME {
                return Err(Malformed);
            }
        }
    }

    /// Decodes the name at `offset`, which may be compressed; the cursor does not move.
    pub fn name_at(&mut self, offset: usize) -> Result<NameBuf, Malformed> {
        self.decode(offset, self.message.len()).map(|(name, _)| name)
    }

    /// Decodes the name at the cursor and steps over it.
    pub fn name(&mut self) -> Result<NameBuf, Malformed> {
        let (name, end) = self.decode(self.at, self.message.len())?;
        self.at = end;
        Ok(name)
    }

    /// Decodes a name and gives the offset after its own octets; it may not start or run beyond `end`
    /// before its first pointer.
    fn decode(&mut self, offset: usize, end: usize) -> Result<(NameBuf, usize), Malformed> {
        let mut bytes = [0u8; MAX_NAME];
        let (mut len, mut at, mut end) = (0usize, offset, end);
        let mut run = offset; // where the present run of labels began
        let mut after = None;
        loop {
            let octet = *self.message[..end].get(at).ok_or(Malformed)? as usize;
            match octet {
                0 => {
                    let name = NameBuf::from_parts(bytes, len as u8 + 1);
                    return Ok((name, after.unwrap_or(at + 1)));
                }
                1..=MAX_LABEL => {
                    let label = self.message[..end].get(at..=at + octet).ok_or(Malformed)?;
                    // One octet stays free for the root.
                    bytes
                        .get_mut(len..len + octet + 1)
                        .filter(|_| len + octet + 1 < MAX_NAME)
                        .ok_or(Malformed)?
                        .copy_from_slice(label);
                    len += octet + 1;
                    at += octet + 1;
                }
                0xc0.. => {
                    let low = *self.message[..end].get(at + 1).ok_or(Malformed)? as usize;
                    let target = (octet & 0x3f) << 8 | low;
                    self.hops_left = self.hops_left.checked_sub(1).ok_or(Malformed)?;
                    if target >= run {
                        return Err(Malformed);
                    }
                    after.get_or_insert(at + 2);
                    (run, at, end) = (target, target, self.message.len());
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// Appends a record's data to `out` with its names decompressed, for the types in which compression may be
    /// met; see [`rdata::expand`].
    pub fn expand_rdata(&mut self, record: &RawRecord, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Range { start, end } = record.rdata.clone();
        let region = self.message.get(start..end).ok_or(Malformed)?;
        let expanded = rdata::expand(record.rtype, region, out, |at, out| {
            let (name, after) = self.decode(start + at, end).ok()?;
            out.extend_from_slice(name.as_name().as_wire());
            Some(after - start - at)
        });
        expanded.map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        let mut message = Header::query(1).octets().to_vec();
        message.extend_from_slice(body);
        message
    }

    fn decode(body: &[u8], at: usize) -> Result<NameBuf, Malformed> {
        let message = message(body);
        let (_, mut parser) = Parser::new(&message)?;
        parser.name_at(at)
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
        // A ladder of pointers, each to the one before: the top one costs as many hops as there are rungs.
        let mut body = vec![0];
        for rung in 0..2_000u16 {
            let target = if rung == 0 { 12 } else { 13 + 2 * (rung - 1) };
            body.extend((0xc000 | target).to_be_bytes());
        }
        let message = message(&body);
        let (_, mut parser) = Parser::new(&message).expect("header");
        let top = message.len() - 2;
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
    fn questions_take_no_pointer() {
        let message = message(b"\xc0\x04\0\x01\0\x01");
        let (_, mut parser) = Parser::new(&message).expect("header");
        assert_eq!(parser.question(), Err(Malformed));
    }
}
