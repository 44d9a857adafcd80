//! The part of the DNS message format that the benchmark needs: encodes queries and summarises answers so
//! that those of different servers can be compared. Independent of the server's own code, as it judges that.

use std::collections::BTreeSet;
use std::ops::Range;

/// Record and query types of the workloads.
pub(crate) mod kind {
    /// Address.
    pub(crate) const A: u16 = 1;
    /// Name server.
    pub(crate) const NS: u16 = 2;
    /// Start of authority.
    pub(crate) const SOA: u16 = 6;
    /// Mail exchange.
    pub(crate) const MX: u16 = 15;
    /// Text.
    pub(crate) const TXT: u16 = 16;
    /// IPv6 address.
    pub(crate) const AAAA: u16 = 28;
    /// Delegation signer.
    pub(crate) const DS: u16 = 43;
    /// Signature.
    pub(crate) const RRSIG: u16 = 46;
    /// Zone key.
    pub(crate) const DNSKEY: u16 = 48;
    /// Differences of a zone (RFC 1995).
    pub(crate) const IXFR: u16 = 251;
    /// A whole zone (RFC 5936).
    pub(crate) const AXFR: u16 = 252;

    /// Returns the mnemonic for text query files.
    pub(crate) fn name(kind: u16) -> &'static str {
        match kind {
            A => "A",
            NS => "NS",
            SOA => "SOA",
            MX => "MX",
            TXT => "TXT",
            AAAA => "AAAA",
            DS => "DS",
            DNSKEY => "DNSKEY",
            _ => "ANY",
        }
    }
}

/// EDNS in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edns {
    /// No OPT record.
    None,
    /// OPT with a payload size of 1232 bytes.
    Plain,
    /// OPT with a payload size of 1232 bytes and the DO bit.
    Do,
}

/// Appends a query with ID 0 and no flags. `name` is plain text without escapes; the final dot is optional.
pub(crate) fn write_query(out: &mut Vec<u8>, name: &str, qtype: u16, edns: Edns) {
    let additional = u8::from(edns != Edns::None);
    out.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, additional]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        out.push(label.len() as u8);
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend_from_slice(&qtype.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    if edns != Edns::None {
        let flags = if edns == Edns::Do { 0x80 } else { 0 };
        out.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, flags, 0, 0, 0]);
    }
}

/// Counts of one section: RRsets (signatures apart by the type they cover) and records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Count {
    /// Number of different combinations of owner, type and covered type.
    pub(crate) sets: u16,
    /// Records.
    pub(crate) records: u16,
}

/// The properties of an answer that must be equal between correct servers.
///
/// Excludes what RFC 1034 and RFC 2181 leave to the server: the NS set (and its signature) in the authority
/// section of a positive answer, and additional records other than glue for the delegation itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Summary {
    /// Response code without its EDNS extension.
    pub(crate) rcode: u8,
    /// Authoritative answer.
    pub(crate) authoritative: bool,
    /// Validated (AD).
    pub(crate) authentic: bool,
    /// Truncated; the sections are then not compared.
    pub(crate) truncated: bool,
    /// Answer section.
    pub(crate) answer: Count,
    /// Authority section.
    pub(crate) authority: Count,
    /// Number of additional addresses whose owner is within the delegated name (RFC 9471).
    pub(crate) glue: u16,
}

struct Record {
    owner: Vec<u8>,
    kind: u16,
    covered: u16,
}

/// Summarises a response; the error says why it is malformed.
pub(crate) fn summarise(message: &[u8]) -> Result<Summary, &'static str> {
    let header = message.get(..12).ok_or("shorter than a header")?;
    if header[2] & 0x80 == 0 {
        return Err("not a response");
    }
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let mut position = 12;
    for _ in 0..count(4) {
        position = read_name(message, position)?.1 + 4;
    }
    let mut summary = Summary {
        rcode: header[3] & 15,
        authoritative: header[2] & 4 != 0,
        authentic: header[3] & 0x20 != 0,
        truncated: header[2] & 2 != 0,
        answer: Count::default(),
        authority: Count::default(),
        glue: 0,
    };
    if summary.truncated {
        return Ok(summary);
    }
    let answer = read_section(message, &mut position, count(6))?;
    let authority = read_section(message, &mut position, count(8))?;
    let additional = read_section(message, &mut position, count(10))?;
    if position != message.len() {
        return Err("bytes after the last record");
    }
    let positive = !answer.is_empty();
    summary.answer = tally(answer.iter());
    summary.authority = tally(
        authority
            .iter()
            .filter(|record| !(positive && (record.kind == kind::NS || record.covered == kind::NS))),
    );
    let cut = authority.iter().find(|record| record.kind == kind::NS).filter(|_| !positive);
    if let Some(cut) = cut {
        let address = |record: &&Record| record.kind == kind::A || record.kind == kind::AAAA;
        let below = |record: &&Record| record.owner.ends_with(&cut.owner);
        summary.glue = additional.iter().filter(address).filter(below).count() as u16;
    }
    Ok(summary)
}

fn tally<'a>(records: impl Iterator<Item = &'a Record>) -> Count {
    let mut sets = BTreeSet::new();
    let mut count = 0;
    for record in records {
        count += 1;
        sets.insert((&record.owner, record.kind, record.covered));
    }
    Count { sets: sets.len() as u16, records: count }
}

fn read_section(message: &[u8], position: &mut usize, count: u16) -> Result<Vec<Record>, &'static str> {
    let mut records = Vec::new();
    for _ in 0..count {
        let (owner, after) = read_name(message, *position)?;
        let fixed = message.get(after..after + 10).ok_or("record cut off")?;
        let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
        let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let rdata = message.get(after + 10..after + 10 + length).ok_or("RDATA cut off")?;
        let covered = match rdata {
            [high, low, ..] if kind == kind::RRSIG => u16::from_be_bytes([*high, *low]),
            _ => 0,
        };
        *position = after + 10 + length;
        records.push(Record { owner, kind, covered });
    }
    Ok(records)
}

/// Offsets of a record in its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Offset of the owner.
    pub(crate) owner: usize,
    /// Offset of the type and the fixed fields: class, TTL, length.
    pub(crate) fixed: usize,
    /// Its type.
    pub(crate) kind: u16,
    /// Its RDATA.
    pub(crate) rdata: Range<usize>,
}

/// Calls `each` for every record of the answer section without decoding names; the error says what is
/// malformed.
pub(crate) fn each_answer(message: &[u8], mut each: impl FnMut(&Place)) -> Result<(), &'static str> {
    let header = message.get(..12).ok_or("shorter than a header")?;
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let mut position = 12;
    for _ in 0..count(4) {
        position = skip_name(message, position)? + 4;
    }
    for _ in 0..count(6) {
        let (owner, fixed) = (position, skip_name(message, position)?);
        let bytes = message.get(fixed..fixed + 10).ok_or("record cut off")?;
        let rdata = fixed + 10..fixed + 10 + usize::from(u16::from_be_bytes([bytes[8], bytes[9]]));
        position = rdata.end;
        if position > message.len() {
            return Err("RDATA cut off");
        }
        each(&Place { owner, fixed, kind: u16::from_be_bytes([bytes[0], bytes[1]]), rdata });
    }
    Ok(())
}

/// Returns the offset after a name.
fn skip_name(message: &[u8], mut at: usize) -> Result<usize, &'static str> {
    loop {
        match *message.get(at).ok_or("name cut off")? {
            0 => return Ok(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xc0.. => return Ok(at + 2),
            _ => return Err("unknown label type"),
        }
    }
}

/// Returns the serial of the SOA record at this place.
pub(crate) fn serial_at(message: &[u8], place: &Place) -> Result<u32, &'static str> {
    let names = skip_name(message, skip_name(message, place.rdata.start)?)?;
    let serial = message.get(names..names + 4).ok_or("SOA cut off")?;
    Ok(u32::from_be_bytes([serial[0], serial[1], serial[2], serial[3]]))
}

/// Returns the serial of the first SOA record in the answer section of a NOERROR response; `None` without
/// one.
pub(crate) fn answered_serial(message: &[u8]) -> Option<u32> {
    let mut serial = None;
    let good = message.get(3)? & 15 == 0;
    let soa = |place: &Place| {
        if place.kind == kind::SOA && serial.is_none() {
            serial = serial_at(message, place).ok();
        }
    };
    each_answer(message, soa).ok()?;
    serial.filter(|_| good)
}

/// Returns a possibly compressed name, in lower case and uncompressed, and the offset after it.
pub(crate) fn read_name(message: &[u8], start: usize) -> Result<(Vec<u8>, usize), &'static str> {
    let mut name = Vec::new();
    let (mut at, mut after) = (start, None);
    loop {
        let length = *message.get(at).ok_or("name cut off")?;
        match length {
            0 => {
                name.push(0);
                return Ok((name, after.unwrap_or(at + 1)));
            }
            1..=63 => {
                let end = at + 1 + usize::from(length);
                name.extend(message.get(at..end).ok_or("label cut off")?.iter().map(u8::to_ascii_lowercase));
                at = end;
            }
            0xc0.. => {
                let low = *message.get(at + 1).ok_or("pointer cut off")?;
                let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if target >= at {
                    return Err("pointer does not go back");
                }
                after = after.or(Some(at + 2));
                at = target;
            }
            _ => return Err("unknown label type"),
        }
        if name.len() > 255 {
            return Err("name too long");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(counts: [u8; 3], flags: [u8; 2], tail: &[u8]) -> Vec<u8> {
        let mut query = Vec::new();
        write_query(&mut query, "www.Example.com", kind::A, Edns::None);
        query[2] = flags[0];
        query[3] = flags[1];
        query[7] = counts[0];
        query[9] = counts[1];
        query[11] = counts[2];
        query.extend_from_slice(tail);
        query
    }

    const ADDRESS: &[u8] = &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 1];
    const NS: &[u8] = &[0xc0, 16, 0, 2, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12];

    #[test]
    fn query_has_the_wire_form() {
        let mut plain = Vec::new();
        write_query(&mut plain, "a.bc.", kind::MX, Edns::None);
        assert_eq!(plain, b"\0\0\0\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x0f\0\x01");
        let mut with_do = Vec::new();
        write_query(&mut with_do, ".", kind::NS, Edns::Do);
        assert_eq!(with_do, b"\0\0\0\0\0\x01\0\0\0\0\0\x01\0\0\x02\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0");
    }

    #[test]
    fn positive_answers_compare_equal_with_and_without_authority_ns() {
        let lean = summarise(&response([1, 0, 0], [0x84, 0], ADDRESS)).unwrap();
        let full = summarise(&response([1, 1, 0], [0x84, 0], &[ADDRESS, NS].concat())).unwrap();
        assert_eq!(lean, full);
        assert_eq!(lean.answer, Count { sets: 1, records: 1 });
        assert!(lean.authoritative);
    }

    #[test]
    fn referral_counts_its_glue_and_its_ns() {
        let glued = summarise(&response([0, 1, 1], [0x80, 0], &[NS, ADDRESS].concat())).unwrap();
        let bare = summarise(&response([0, 1, 0], [0x80, 0], NS)).unwrap();
        assert_eq!(glued.authority, Count { sets: 1, records: 1 });
        assert_eq!((glued.glue, bare.glue), (1, 0));
    }

    /// An SOA record of `www.example.com` with this serial; its names are the root.
    fn soa(serial: u8) -> Vec<u8> {
        let mut record = vec![0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 9, 0, 22, 0, 0, 0, 0, 0, serial];
        record.extend([0; 16]);
        record
    }

    #[test]
    fn the_first_serial_of_a_response_without_error_counts() {
        let tail = [ADDRESS, &soa(7), &soa(8)].concat();
        assert_eq!(answered_serial(&response([3, 0, 0], [0x84, 0], &tail)), Some(7));
        assert_eq!(answered_serial(&response([3, 0, 0], [0x84, 5], &tail)), None, "refused");
        assert_eq!(answered_serial(&response([1, 0, 0], [0x84, 0], ADDRESS)), None);
    }

    #[test]
    fn records_are_found_without_reading_names_and_none_is_read_past_the_end() {
        let whole = response([2, 0, 0], [0x84, 0], &[ADDRESS, &soa(7)].concat());
        let mut kinds = Vec::new();
        each_answer(&whole, |place| kinds.push((place.kind, place.rdata.len()))).unwrap();
        assert_eq!(kinds, [(kind::A, 4), (kind::SOA, 22)]);
        for length in 0..whole.len() {
            assert!(each_answer(&whole[..length], |_| {}).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn damaged_responses_are_refused() {
        let whole = response([1, 0, 0], [0x84, 0], ADDRESS);
        for length in 0..whole.len() {
            assert!(summarise(&whole[..length]).is_err(), "cut at {length}");
        }
        assert!(summarise(&response([0, 0, 0], [0x84, 0], ADDRESS)).is_err(), "bytes left over");
        let looping = response([1, 0, 0], [0x84, 0], &[0xc0, 33, 0, 1, 0, 1, 0, 0, 0, 9, 0, 0]);
        assert!(summarise(&looping).is_err());
        assert!(summarise(&response([0, 0, 0], [0, 0], &[])).is_err(), "a query");
    }
}
