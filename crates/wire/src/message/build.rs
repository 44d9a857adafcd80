//! Builds messages in a buffer of fixed size, with name compression.
//!
//! Space for OPT, TSIG or padding is reserved by [`Builder::set_limit`]; a record that does not fit leaves
//! the message unchanged and returns [`Full`]. The builder holds the section counts until [`Builder::finish`]
//! writes them into the header.

use super::compress::{Compressor, Suffixes};
use super::header::{Header, Rcode};
use super::layout::{
    HEADER_LEN, MAX_MESSAGE, Offset, POINTER, POINTER_LEN, QUESTION_TAIL, RDLENGTH_AT, RECORD_HEAD, TTL_AT,
};
use super::parse::Parser;
use crate::bytes::copy;
use crate::name::Name;
use crate::rdata::{self, NameRule};
use crate::rr::{Class, Type};
use crate::ttl::Ttl;

/// The record does not fit; the message is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A section of a message, numbered as in the header's counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Answer.
    Answer = 1,
    /// Authority.
    Authority = 2,
    /// Additional.
    Additional = 3,
}

/// The form in which a record's owner is written.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// As a name, compressed against the message.
    Name(Name<'a>),
    /// As the name already written at this offset, in the question, as an owner or in RDATA: as a pointer to
    /// it, or written again if no pointer reaches it.
    At(Offset),
}

/// A state of a message, for rollback.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len: usize,
    counts: Counts,
}

/// Counts of the four sections in one register, the first one lowest. A message cannot hold enough records
/// for one count to overflow into the next.
#[derive(Clone, Copy, Debug, Default)]
struct Counts(u64);

impl Counts {
    #[inline]
    fn add(&mut self, section: usize, n: u16) {
        debug_assert!(u16::MAX - self.get(section) >= n, "more records than a message has room for");
        self.0 = self.0.wrapping_add((n as u64) << (16 * section));
    }

    #[inline]
    fn get(self, section: usize) -> u16 {
        (self.0 >> (16 * section)) as u16
    }

    /// The counts as in the header, where each is big-endian: swaps the two bytes of all counts at once.
    /// Counts 1, 2, 3 and 4 are `0004_0003_0002_0001`; shifted by a byte in both directions and combined they
    /// are `0400_0300_0200_0100`, which is `00 01 00 02 00 03 00 04` from the lowest byte on.
    #[inline]
    fn to_bytes(self) -> [u8; 8] {
        let high = 0x00ff_00ff_00ff_00ff;
        (((self.0 & high) << 8) | ((self.0 >> 8) & high)).to_le_bytes()
    }
}

/// A message under construction.
pub struct Builder<'b> {
    buf: &'b mut [u8],
    names: &'b mut Compressor,
    header: Header,
    len: usize,
    limit: usize,
    counts: Counts,
}

impl<'b> Builder<'b> {
    /// Starts a message in `buf` with `header`, whose counts are ignored. The message has at most `limit`
    /// bytes and fits in `buf`, which must have room for the header.
    #[inline]
    pub fn new(buf: &'b mut [u8], limit: usize, header: Header, names: &'b mut Compressor) -> Self {
        names.clear();
        let len = buf.len().min(MAX_MESSAGE);
        let buf = &mut buf[..len];
        assert!(buf.len() >= HEADER_LEN);
        let limit = limit.min(buf.len());
        Builder { buf, names, header, len: HEADER_LEN, limit, counts: Counts::default() }
    }

    /// Bytes written so far.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a message has at least its header")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The offset at which the next byte will be written.
    #[inline]
    pub fn end(&self) -> Offset {
        Offset::end_of(self.len)
    }

    /// Bytes that may still be written.
    #[inline]
    pub fn room(&self) -> usize {
        self.limit - self.len
    }

    /// The bytes written so far, without a valid header.
    #[inline]
    pub fn written(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// A copy of the message with its current header.
    pub fn message(&self) -> Vec<u8> {
        let mut message = self.written().to_vec();
        message[..4].copy_from_slice(&self.header.as_bytes()[..4]);
        message[4..HEADER_LEN].copy_from_slice(&self.counts.to_bytes());
        message
    }

    /// Sets the size limit, bounded by the buffer and at least the current length.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(self.buf.len()).max(self.len);
    }

    /// The current header without counts; [`flags`](Self::flags) changes it.
    #[inline]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Changes header flags in place.
    #[inline]
    pub fn flags(&mut self, change: impl FnOnce(&mut Header)) {
        change(&mut self.header);
    }

    /// Sets the low four bits of the response code.
    #[inline]
    pub fn set_rcode(&mut self, rcode: Rcode) {
        self.flags(|h| h.set_rcode(rcode));
    }

    /// The four low bits of the response code.
    pub fn rcode(&self) -> Rcode {
        self.header().rcode()
    }

    /// Number of records in `section` so far.
    #[inline]
    pub fn count(&self, section: Section) -> u16 {
        self.counts.get(section as usize)
    }

    /// Adds `n` to the count of `section`, for records appended by [`append`](Self::append).
    #[inline]
    pub fn add_count(&mut self, section: Section, n: u16) {
        self.counts.add(section as usize, n);
    }

    /// The current state, for [`rollback`](Self::rollback).
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { len: self.len, counts: self.counts }
    }

    /// Removes everything written since `mark`.
    pub fn rollback(&mut self, mark: Mark) {
        self.len = mark.len;
        self.counts = mark.counts;
        self.names.truncate(mark.len);
    }

    /// Counts the question whose bytes were just appended.
    #[inline]
    pub fn add_question(&mut self) {
        self.counts.add(0, 1);
    }

    /// Appends bytes unchanged and returns their offset.
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> Result<Offset, Full> {
        let (start, begin) = (self.len, self.end());
        let end = start + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        copy(&mut self.buf[start..end], bytes);
        self.len = end;
        Ok(begin)
    }

    /// The remaining buffer, for callers that write bytes themselves and then call
    /// [`advance`](Self::advance).
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.buf[self.len..self.limit]
    }

    /// Adds the first `len` bytes of [`spare_mut`](Self::spare_mut) to the message, with this many records of
    /// the answer, authority and additional section. Names in them are not available for compression.
    ///
    /// # Panics
    /// If `len` exceeds the room.
    #[inline]
    pub fn advance(&mut self, len: usize, records: [u16; 3]) {
        assert!(len <= self.room());
        self.len += len;
        for (section, n) in (1..).zip(records) {
            self.counts.add(section, n);
        }
    }

    /// The bytes written so far, for patching in place.
    #[inline]
    pub fn written_mut(&mut self) -> &mut [u8] {
        &mut self.buf[..self.len]
    }

    /// Ends the RDATA that starts at `rdata_at` here: writes its length into the two bytes before it.
    #[inline]
    pub fn end_rdata(&mut self, rdata_at: Offset) {
        let start = rdata_at.index();
        let len = (self.len - start) as u16; // a message is no longer
        self.buf[start - 2..start].copy_from_slice(&len.to_be_bytes());
    }

    /// Adds a question with its name uncompressed; the first one is at [`Offset::QNAME`].
    #[inline]
    pub fn question(&mut self, name: Name<'_>, qtype: Type, qclass: Class) -> Result<(), Full> {
        let mark = self.mark();
        self.append(name.as_wire())?;
        let mut fixed = [0; QUESTION_TAIL];
        fixed[..2].copy_from_slice(&qtype.0.to_be_bytes());
        fixed[2..].copy_from_slice(&qclass.0.to_be_bytes());
        if self.append(&fixed).is_err() {
            self.rollback(mark);
            return Err(Full);
        }
        self.counts.add(0, 1);
        Ok(())
    }

    /// Registers a name written uncompressed at `at`, such as the question's, for compression.
    pub fn learn(&mut self, name: Name<'_>, at: Offset) {
        self.names.insert(&Suffixes::of(name), usize::MAX, at);
    }

    /// Writes a name, compressed, and returns where it starts.
    pub fn name(&mut self, name: Name<'_>) -> Result<Offset, Full> {
        let start = self.end();
        let wire = name.as_wire();
        let suffixes = Suffixes::of(name);
        match self.names.find(&self.buf[..self.len], &suffixes) {
            None => {
                self.append(wire)?;
                self.names.insert(&suffixes, usize::MAX, start);
            }
            Some((labels, pointer)) => {
                let own = suffixes.bytes_before(labels);
                if own + POINTER_LEN > self.room() {
                    return Err(Full);
                }
                self.append(&wire[..own])?;
                self.append(&pointer)?;
                self.names.insert(&suffixes, labels, start);
            }
        }
        Ok(start)
    }

    /// A pointer to the name at `at`, if it is in reach. If that is itself a pointer, returns that pointer:
    /// owners that point at each other would form an endless chain (see
    /// [`MAX_POINTERS`](super::MAX_POINTERS)).
    #[inline]
    fn pointer_to(&self, at: Offset) -> Option<[u8; POINTER_LEN]> {
        match self.buf.get(at.index()..)?.first_chunk() {
            Some(&pointer) if pointer[0] >= POINTER => Some(pointer),
            _ => at.pointer(),
        }
    }

    /// Writes the name at `at` again; also returns [`Full`] if there is no name at `at`.
    #[cold]
    fn name_again(&mut self, at: Offset) -> Result<Offset, Full> {
        let (_, mut parser) = Parser::new(self.written()).map_err(|_| Full)?;
        let name = parser.name_at(at).map_err(|_| Full)?;
        self.name(name.as_name())
    }

    /// Adds a record with uncompressed `rdata`, compressing the names that may be compressed, and returns the
    /// offset of its RDATA. On [`Full`] the message is unchanged.
    pub fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rtype: Type,
        class: Class,
        ttl: Ttl,
        rdata: &[u8],
    ) -> Result<Offset, Full> {
        let mark = self.mark();
        let done = self.try_record(owner, rtype, class, ttl, rdata);
        match done {
            Ok(_) => self.add_count(section, 1),
            Err(Full) => self.rollback(mark),
        }
        done
    }

    fn try_record(
        &mut self,
        owner: Owner<'_>,
        rtype: Type,
        class: Class,
        ttl: Ttl,
        rdata: &[u8],
    ) -> Result<Offset, Full> {
        match owner {
            Owner::Name(name) => self.name(name)?,
            Owner::At(at) => match self.pointer_to(at) {
                Some(pointer) => self.append(&pointer)?,
                None => self.name_again(at)?,
            },
        };
        let mut head = [0; RECORD_HEAD];
        head[..2].copy_from_slice(&rtype.0.to_be_bytes());
        head[2..4].copy_from_slice(&class.0.to_be_bytes());
        head[TTL_AT..RDLENGTH_AT].copy_from_slice(&ttl.to_be_bytes());
        self.append(&head)?;
        let rdata_at = self.end();
        let mut copied = 0;
        for name in rdata::embedded_names(rtype, rdata) {
            if name.rule != NameRule::Compress {
                continue;
            }
            let bytes = rdata.get(name.start..name.start + name.len).unwrap_or(&[]);
            let Ok(embedded) = Name::from_wire(bytes) else { continue };
            self.append(&rdata[copied..name.start])?;
            self.name(embedded)?;
            copied = name.start + name.len;
        }
        self.append(&rdata[copied..])?;
        self.end_rdata(rdata_at);
        Ok(rdata_at)
    }

    /// Writes the header with its counts and returns the length of the message.
    #[inline]
    pub fn finish(mut self) -> usize {
        self.close()
    }

    /// Like [`finish`](Self::finish), for borrowed builders.
    #[inline]
    pub fn close(&mut self) -> usize {
        self.buf[..4].copy_from_slice(&self.header.as_bytes()[..4]);
        self.buf[4..HEADER_LEN].copy_from_slice(&self.counts.to_bytes());
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{MAX_POINTERS, Parser};
    use crate::name::NameBuf;

    const MINUTE: Ttl = Ttl::from_secs(60);

    fn name(text: &str) -> NameBuf {
        text.parse().expect("name")
    }

    #[test]
    fn names_are_compressed_against_all_before_them() {
        let (mut buf, mut names) = ([0u8; 512], Compressor::small());
        let mut b = Builder::new(&mut buf, 512, Header::query(1), &mut names);
        let qname = name("www.Example.com.");
        b.question(qname.as_name(), Type::NS, Class::IN).expect("fits");
        b.learn(qname.as_name(), Offset::QNAME);
        let mx = [b"\0\x0a".as_slice(), name("mail.Example.com.").as_name().as_wire()].concat();
        b.record(Section::Answer, Owner::At(Offset::QNAME), Type::MX, Class::IN, MINUTE, &mx).expect("fits");
        b.record(
            Section::Answer,
            Owner::Name(name("mail.Example.com.").as_name()),
            Type::A,
            Class::IN,
            MINUTE,
            &[1, 2, 3, 4],
        )
        .expect("fits");
        let len = b.finish();
        let message = &buf[..len];
        // question 12+17+4=33; MX: 2+10+2 -> the name at 47: mail + pointer to 16
        assert_eq!(&message[47..54], b"\x04mail\xc0\x10");
        assert_eq!(&message[54..56], b"\xc0\x2f");
        let (header, mut parser) = Parser::new(message).expect("header");
        assert_eq!(header.counts(), [1, 2, 0, 0]);
        parser.question().expect("question");
        let first = parser.record().expect("record");
        let second = parser.record().expect("record");
        assert!(parser.at_end());
        let mut rdata = Vec::new();
        parser.expand_rdata(&first, &mut rdata).expect("rdata");
        assert_eq!(rdata, mx);
        assert_eq!(parser.name_at(second.owner_at), Ok(name("mail.example.com.")));
    }

    #[test]
    fn names_are_compressed_only_where_letter_case_agrees() {
        let (mut buf, mut names) = ([0; 512], Compressor::small());
        let mut b = Builder::new(&mut buf, 512, Header::query(1), &mut names);
        for (text, bytes) in [
            ("a.Example.com.", &b"\x01a\x07Example\x03com\0"[..]),
            ("b.example.com.", b"\x01b\x07example\xc0\x16"),
            ("A.Example.com.", b"\x01A\xc0\x0e"),
            ("b.example.com.", b"\xc0\x1b"),
            ("B.EXAMPLE.COM.", b"\x01B\x07EXAMPLE\x03COM\0"),
        ] {
            let at = b.name(name(text).as_name()).expect("fits").index();
            assert_eq!(&b.written()[at..], bytes, "{text}");
        }
    }

    #[test]
    fn counts_stand_in_the_header_section_by_section() {
        let mut counts = Counts::default();
        for (section, n) in [(0, 1), (1, 0x1234), (2, 0xff), (3, 0x0100), (1, 1)] {
            counts.add(section, n);
        }
        assert_eq!(counts.get(1), 0x1235);
        assert_eq!(counts.to_bytes(), [0, 1, 0x12, 0x35, 0, 0xff, 1, 0]);
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_no_trace() {
        let (mut buf, mut names) = ([0u8; 512], Compressor::small());
        let mut b = Builder::new(&mut buf, 60, Header::query(1), &mut names);
        b.question(name("a.example.").as_name(), Type::A, Class::IN).expect("fits");
        let before = b.end();
        let long = name("quite.a.long.name.that.takes.room.");
        let add = |b: &mut Builder<'_>, owner: &NameBuf, data: &[u8]| {
            b.record(Section::Answer, Owner::Name(owner.as_name()), Type::TXT, Class::IN, MINUTE, data)
        };
        assert_eq!(add(&mut b, &long, &[0; 40]), Err(Full));
        assert_eq!((b.end(), b.count(Section::Answer)), (before, 0));
        // If the table still had the removed names, this owner would point nowhere.
        b.set_limit(512);
        add(&mut b, &long, &[0; 4]).expect("fits");
        let len = b.finish();
        let (_, mut parser) = Parser::new(&buf[..len]).expect("header");
        assert_eq!(parser.name_at(before), Ok(long));
    }

    /// The number of pointers that a reader of the name at `at` follows.
    fn pointers(message: &[u8], at: Offset) -> usize {
        let mut at = at.index();
        let mut pointers = 0;
        while message[at] != 0 {
            if message[at] >= POINTER {
                at = Offset::of_pointer([message[at], message[at + 1]]).index();
                pointers += 1;
            } else {
                at += message[at] as usize + 1;
            }
        }
        pointers
    }

    #[test]
    fn names_that_could_point_at_each_other_for_ever_stay_shallow() {
        let (mut buf, mut names) = ([0u8; 4096], Compressor::small());
        let mut b = Builder::new(&mut buf, 4096, Header::query(1), &mut names);
        let mut owner = name("example.");
        b.question(owner.as_name(), Type::NS, Class::IN).expect("fits");
        b.learn(owner.as_name(), Offset::QNAME);
        let mut at = Offset::QNAME;
        for label in b'a'..=b'z' {
            let target = NameBuf::prepend(&[label], owner.as_name()).expect("short");
            // The owner is the target of the previous record, once by offset and once by name.
            let rdata = target.as_name().as_wire();
            at = b.record(Section::Answer, Owner::At(at), Type::NS, Class::IN, MINUTE, rdata).expect("fits");
            b.record(Section::Answer, Owner::Name(target.as_name()), Type::A, Class::IN, MINUTE, &[0; 4])
                .expect("fits");
            owner = target;
        }
        let len = b.finish();
        let (_, mut parser) = Parser::new(&buf[..len]).expect("header");
        parser.question().expect("question");
        let mut deepest = 0;
        while !parser.at_end() {
            let record = parser.record().expect("record");
            deepest = deepest.max(pointers(&buf, record.owner_at));
            if record.rtype == Type::NS {
                assert!(pointers(&buf, record.rdata_at()) < MAX_POINTERS, "owners may point here");
            }
        }
        assert_eq!(deepest, MAX_POINTERS);
        assert_eq!(parser.name_at(at), Ok(owner));
        assert!(len < 1100, "compressed all the same: {len} bytes");
    }

    #[test]
    fn owners_at_owners_do_not_make_a_chain() {
        let (mut buf, mut names) = ([0u8; 4096], Compressor::small());
        let mut b = Builder::new(&mut buf, 4096, Header::query(1), &mut names);
        b.question(name("example.").as_name(), Type::A, Class::IN).expect("fits");
        let mut at = Offset::QNAME;
        for _ in 0..20 {
            let owner_at = b.end();
            b.record(Section::Answer, Owner::At(at), Type::A, Class::IN, MINUTE, &[0; 4]).expect("fits");
            at = owner_at;
        }
        let len = b.finish();
        assert_eq!(pointers(&buf[..len], at), 1);
    }

    #[test]
    fn a_full_table_only_makes_messages_longer() {
        let (mut buf, mut names) = (vec![0u8; 65_535], Compressor::small());
        let mut b = Builder::new(&mut buf, 65_535, Header::query(1), &mut names);
        let owners: Vec<NameBuf> = (0..1000).map(|i| name(&format!("n{i}.x{}.example.", i % 7))).collect();
        for owner in &owners {
            b.record(Section::Answer, Owner::Name(owner.as_name()), Type::A, Class::IN, MINUTE, &[0; 4])
                .expect("fits");
        }
        let len = b.finish();
        let (_, mut parser) = Parser::new(&buf[..len]).expect("header");
        for owner in &owners {
            let record = parser.record().expect("record");
            assert_eq!(parser.name_at(record.owner_at), Ok(*owner));
        }
    }
}
