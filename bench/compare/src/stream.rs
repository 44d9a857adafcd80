//! A zone as the messages of its transfer (RFC 5936), made once from one of our own zone files and kept in
//! memory, so that sending it costs next to nothing and is the same for every server.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use wire::Type;

use crate::axfr::Content;
use crate::failure::{Context, Result};
use crate::zones::SERIAL;

/// Size of a message in bytes: as far as compression pointers reach.
const MESSAGE: usize = 0x4000;
/// Size of the length field before each message, in bytes.
const LENGTH: usize = 2;

/// A zone ready to be sent.
pub(crate) struct Stream {
    bytes: Vec<u8>,
    /// Offset of each message, after its length field.
    messages: Vec<usize>,
    /// Offset of the question's type.
    qtype: usize,
}

/// A response with only the zone's SOA record.
#[derive(Clone)]
pub(crate) struct SoaReply {
    bytes: Vec<u8>,
    /// Offset of the question's type.
    qtype: usize,
}

impl SoaReply {
    /// Returns the response to a query with this ID and type.
    pub(crate) fn answering(&self, id: [u8; 2], qtype: Type) -> Vec<u8> {
        let mut out = self.bytes.clone();
        out[..2].copy_from_slice(&id);
        out[self.qtype..self.qtype + 2].copy_from_slice(&qtype.0.to_be_bytes());
        out
    }
}

impl Stream {
    /// Reads a zone file and sets this serial; returns all of the zone or its first `most` records, and the
    /// response with its SOA record.
    pub(crate) fn read(file: &Path, zone: &str, serial: u32, most: usize) -> Result<(Stream, SoaReply)> {
        let text = fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
        let records = text.lines().filter(|line| !line.starts_with('$')).take(most);
        let mut writer = Writer::new(zone);
        let qtype = writer.question();
        let mut first = None;
        let mut reply = Vec::new();
        for line in records {
            let line = line.replace(&format!(" {SERIAL} "), &format!(" {serial} "));
            writer.record(&line)?;
            if first.is_none() {
                writer.finish();
                reply = writer.bytes[writer.start..].to_vec();
                first = Some(line);
            }
        }
        writer.record(&first.context(|| format!("{} has no records", file.display()))?)?;
        writer.finish();
        let Writer { bytes, messages, .. } = writer;
        Ok((Stream { bytes, messages, qtype }, SoaReply { bytes: reply, qtype: qtype - LENGTH }))
    }

    /// Returns the messages with their length fields, as the response to a query with this ID and type.
    pub(crate) fn answering(&mut self, id: [u8; 2], qtype: Type) -> &[u8] {
        for at in &self.messages {
            self.bytes[*at..at + 2].copy_from_slice(&id);
        }
        self.bytes[self.qtype..self.qtype + 2].copy_from_slice(&qtype.0.to_be_bytes());
        &self.bytes
    }

    /// Returns the size of all messages with their length fields.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the sum over the zone's records.
    pub(crate) fn content(&self) -> Content {
        let mut content = Content::default();
        for (number, at) in self.messages.iter().enumerate() {
            let end = self.messages.get(number + 1).map_or(self.bytes.len(), |next| next - LENGTH);
            content.add(&self.bytes[*at..end]);
        }
        content
    }
}

/// Writes records into messages. Names are compressed to the zone's, and to the previous owner.
struct Writer<'a> {
    bytes: Vec<u8>,
    messages: Vec<usize>,
    /// Offset of the current message.
    start: usize,
    records: u16,
    zone: &'a str,
    zone_at: Option<u16>,
    owner: String,
    owner_at: Option<u16>,
}

impl<'a> Writer<'a> {
    fn new(zone: &'a str) -> Writer<'a> {
        let mut writer = Writer {
            bytes: Vec::new(),
            messages: Vec::new(),
            start: 0,
            records: 0,
            zone,
            zone_at: None,
            owner: String::new(),
            owner_at: None,
        };
        writer.begin();
        writer
    }

    fn begin(&mut self) {
        self.start = self.bytes.len() + LENGTH;
        self.messages.push(self.start);
        // QR and AA; counts are written at the end.
        self.bytes.extend([0, 0, 0, 0, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        (self.records, self.zone_at, self.owner_at) = (0, None, None);
    }

    /// Adds the question, which only the first message has (RFC 5936 §2.2.1), and returns the offset of its
    /// type.
    fn question(&mut self) -> usize {
        self.bytes[self.start + 5] = 1;
        self.name(self.zone);
        let qtype = self.bytes.len();
        self.bytes.extend([0, 0, 0, 1]);
        qtype
    }

    /// Writes the length and the count of the message.
    fn finish(&mut self) {
        let length = (self.bytes.len() - self.start) as u16;
        self.bytes[self.start - LENGTH..self.start].copy_from_slice(&length.to_be_bytes());
        self.bytes[self.start + 6..self.start + 8].copy_from_slice(&self.records.to_be_bytes());
    }

    /// Adds a line of a zone file as `zones.rs` writes them: owner, TTL, class, type, RDATA.
    fn record(&mut self, line: &str) -> Result<()> {
        // No record of ours is longer.
        if self.bytes.len() - self.start > MESSAGE - 300 {
            self.finish();
            self.begin();
        }
        self.parse(line).context(|| format!("cannot send {line:?}"))?;
        self.records += 1;
        Ok(())
    }

    fn parse(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let owner = self.absolute(words.next()?);
        // Not to a pointer: BIND from 9.20 on refuses a pointer to a pointer.
        let at = match &owner {
            same if *same == self.owner && self.owner_at.is_some() => self.owner_at,
            zone if zone == self.zone && self.zone_at.is_some() => self.zone_at,
            _ => self.here(),
        };
        self.name(&owner);
        (self.owner, self.owner_at) = (owner, at);
        let ttl: u32 = words.next()?.parse().ok()?;
        let (_class, rtype) = (words.next()?, words.next()?);
        let rdata: Vec<&str> = words.collect();
        let number = match rtype {
            "A" => Type::A,
            "NS" => Type::NS,
            "SOA" => Type::SOA,
            "AAAA" => Type::AAAA,
            "DS" => Type::DS,
            _ => return None,
        };
        self.bytes.extend(number.0.to_be_bytes());
        self.bytes.extend([0, 1]);
        self.bytes.extend(ttl.to_be_bytes());
        self.bytes.extend([0, 0]);
        let before = self.bytes.len();
        self.rdata(number, &rdata)?;
        let length = (self.bytes.len() - before) as u16;
        self.bytes[before - 2..before].copy_from_slice(&length.to_be_bytes());
        Some(())
    }

    fn rdata(&mut self, rtype: Type, words: &[&str]) -> Option<()> {
        match (rtype, words) {
            (Type::A, [address]) => self.bytes.extend(address.parse::<Ipv4Addr>().ok()?.octets()),
            (Type::AAAA, [address]) => self.bytes.extend(address.parse::<Ipv6Addr>().ok()?.octets()),
            (Type::NS, [host]) => self.name(&self.absolute(host)),
            (Type::SOA, [host, mailbox, numbers @ ..]) => {
                self.name(&self.absolute(host));
                self.name(&self.absolute(mailbox));
                for number in numbers {
                    self.bytes.extend(number.parse::<u32>().ok()?.to_be_bytes());
                }
            }
            (Type::DS, [tag, algorithm, digest, hash]) => {
                self.bytes.extend(tag.parse::<u16>().ok()?.to_be_bytes());
                self.bytes.extend([algorithm.parse::<u8>().ok()?, digest.parse::<u8>().ok()?]);
                for pair in hash.as_bytes().chunks(2) {
                    self.bytes.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the absolute form of a name in the file, without its final dot.
    fn absolute(&self, name: &str) -> String {
        match name.strip_suffix('.') {
            Some(name) => name.to_string(),
            None if name == "@" => self.zone.to_string(),
            None => format!("{name}.{}", self.zone),
        }
    }

    /// Returns the current offset in the message, if a pointer can reach it.
    fn here(&self) -> Option<u16> {
        u16::try_from(self.bytes.len() - self.start).ok().filter(|at| *at < 0x4000)
    }

    fn name(&mut self, name: &str) {
        let mut rest = name;
        while !rest.is_empty() {
            let known = match rest {
                _ if rest == self.owner && self.owner_at.is_some() => self.owner_at,
                _ if rest == self.zone => self.zone_at,
                _ => None,
            };
            if let Some(at) = known {
                self.bytes.extend((0xc000 | at).to_be_bytes());
                return;
            }
            if rest == self.zone {
                self.zone_at = self.here();
            }
            let (label, after) = rest.split_once('.').unwrap_or((rest, ""));
            self.bytes.push(label.len() as u8);
            self.bytes.extend(label.as_bytes());
            rest = after;
        }
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{answered_serial, each_answer, summarise};
    use crate::zones::Maker;

    fn messages(bytes: &[u8]) -> Vec<&[u8]> {
        let (mut at, mut found) = (0, Vec::new());
        while at < bytes.len() {
            let end = at + 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            found.push(&bytes[at + 2..end]);
            at = end;
        }
        found
    }

    /// Whether a record's owner is a pointer to a pointer.
    fn has_pointer_to_pointer(message: &[u8]) -> bool {
        let mut found = false;
        let pointer = |at: usize| match message.get(at..at + 2) {
            Some(&[high, low]) if high >= 0xc0 => Some(usize::from(high & 0x3f) << 8 | usize::from(low)),
            _ => None,
        };
        each_answer(message, |_, record| {
            found |= pointer(record.owner_at.index()).is_some_and(|to| pointer(to).is_some())
        })
        .unwrap();
        found
    }

    #[test]
    fn every_record_of_the_file_is_sent_between_two_soa_records() {
        let folder = tempfile::tempdir().unwrap();
        let set = Maker::new(folder.path(), 3).delegations(500, false).unwrap();
        let (mut stream, _) = Stream::read(&set.zones[0].file, "test", 9, usize::MAX).unwrap();
        assert_eq!(stream.len(), stream.bytes.len());
        let bytes = stream.answering([1, 2], Type::IXFR).to_vec();
        let found = messages(&bytes);
        assert!(found.len() > 3, "one message shows little");
        let mut kinds = Vec::new();
        for message in &found {
            assert_eq!(message[..2], [1, 2]);
            assert!(message.len() <= MESSAGE);
            assert!(summarise(message).is_ok());
            assert!(!has_pointer_to_pointer(message), "BIND refuses it");
            each_answer(message, |_, record| kinds.push(record.rtype)).unwrap();
        }
        assert_eq!(kinds.len() as u64, set.records + 1);
        assert_eq!((kinds[0], kinds.last()), (Type::SOA, Some(&Type::SOA)));
        assert_eq!(kinds.iter().filter(|kind| **kind == Type::SOA).count(), 2);
        assert_eq!((found[0][12 + 7], answered_serial(found[0])), (Type::IXFR.0 as u8, Some(9)));
    }

    #[test]
    fn the_soa_record_alone_answers_too_and_the_content_follows_the_serial() {
        let folder = tempfile::tempdir().unwrap();
        let set = Maker::new(folder.path(), 3).delegations(5, false).unwrap();
        let read = |serial, most| Stream::read(&set.zones[0].file, "test", serial, most).unwrap();
        let reply = read(8, 5).1.answering([5, 6], Type::SOA);
        assert_eq!((reply[..2].to_vec(), answered_serial(&reply)), (vec![5, 6], Some(8)));
        assert_eq!(summarise(&reply).unwrap().answer.records, 1);
        let content = |serial, most| read(serial, most).0.content();
        assert_eq!(content(9, 9), content(9, 9));
        assert_ne!(content(9, 9), content(8, 9));
        assert_ne!(content(9, 9), content(9, 8));
    }
}
