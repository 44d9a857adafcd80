//! Encodes queries, and summarises answers so that those of different servers can be compared.

use std::collections::BTreeSet;

use wire::message::{Header, Parser, RawRecord};
use wire::rdata::view::Soa;
use wire::{LowerNameBuf, Malformed, Rcode, Type};

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
pub(crate) fn write_query(out: &mut Vec<u8>, name: &str, qtype: Type, edns: Edns) {
    let additional = u8::from(edns != Edns::None);
    out.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, additional]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        out.push(label.len() as u8);
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend_from_slice(&qtype.0.to_be_bytes());
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
    owner: LowerNameBuf,
    rtype: Type,
    /// The type that a signature covers.
    covered: Option<Type>,
}

/// Summarises a response.
pub(crate) fn summarise(message: &[u8]) -> Result<Summary, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    if !header.is_response() {
        return Err(Malformed);
    }
    let [questions, answers, authorities, additionals] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut summary = Summary {
        rcode: header.rcode().0 as u8,
        authoritative: header.authoritative(),
        authentic: header.authentic_data(),
        truncated: header.truncated(),
        answer: Count::default(),
        authority: Count::default(),
        glue: 0,
    };
    if summary.truncated {
        return Ok(summary);
    }
    let answer = read_section(&mut parser, answers)?;
    let authority = read_section(&mut parser, authorities)?;
    let additional = read_section(&mut parser, additionals)?;
    if !parser.at_end() {
        return Err(Malformed);
    }
    let positive = !answer.is_empty();
    summary.answer = tally(answer.iter());
    let is_ns = |record: &Record| record.rtype == Type::NS || record.covered == Some(Type::NS);
    summary.authority = tally(authority.iter().filter(|record| !(positive && is_ns(record))));
    let cut = authority.iter().find(|record| record.rtype == Type::NS).filter(|_| !positive);
    if let Some(cut) = cut {
        let address = |record: &&Record| record.rtype == Type::A || record.rtype == Type::AAAA;
        let below = |record: &&Record| record.owner.as_lower().is_at_or_below(cut.owner.as_lower());
        summary.glue = additional.iter().filter(address).filter(below).count() as u16;
    }
    Ok(summary)
}

fn tally<'a>(records: impl Iterator<Item = &'a Record>) -> Count {
    let mut sets = BTreeSet::new();
    let mut count = 0;
    for record in records {
        count += 1;
        sets.insert((record.owner.as_lower().as_wire(), record.rtype, record.covered));
    }
    Count { sets: sets.len() as u16, records: count }
}

fn read_section(parser: &mut Parser<'_>, count: u16) -> Result<Vec<Record>, Malformed> {
    let mut records = Vec::new();
    for _ in 0..count {
        let record = parser.record()?;
        let owner = parser.name_at(record.owner_at)?.as_name().to_lower();
        let covered = match parser.message().get(record.rdata.clone()) {
            Some([high, low, ..]) if record.rtype == Type::RRSIG => {
                Some(Type(u16::from_be_bytes([*high, *low])))
            }
            _ => None,
        };
        records.push(Record { owner, rtype: record.rtype, covered });
    }
    Ok(records)
}

/// Calls `each` for every record of the answer section, whose names are not decoded. Returns the header.
pub(crate) fn each_answer(
    message: &[u8],
    mut each: impl FnMut(&mut Parser<'_>, &RawRecord),
) -> Result<Header, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, ..] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    for _ in 0..answers {
        let record = parser.record()?;
        each(&mut parser, &record);
    }
    Ok(header)
}

/// Returns the serial of an SOA record.
pub(crate) fn serial_of(parser: &mut Parser<'_>, record: &RawRecord) -> Result<u32, Malformed> {
    let mut rdata = Vec::new();
    parser.expand_rdata(record, &mut rdata)?;
    Ok(Soa::read(&rdata)?.numbers.serial.0)
}

/// Returns the serial of the first SOA record in the answer section of a NOERROR response; `None` without
/// one, or if it is malformed.
pub(crate) fn answered_serial(message: &[u8]) -> Option<u32> {
    let mut serial = None;
    let soa = |parser: &mut Parser<'_>, record: &RawRecord| {
        if record.rtype == Type::SOA {
            serial.get_or_insert_with(|| serial_of(parser, record));
        }
    };
    let header = each_answer(message, soa).ok()?;
    serial?.ok().filter(|_| header.rcode() == Rcode::NOERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(counts: [u8; 3], flags: [u8; 2], tail: &[u8]) -> Vec<u8> {
        let mut query = Vec::new();
        write_query(&mut query, "www.Example.com", Type::A, Edns::None);
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
        write_query(&mut plain, "a.bc.", Type::MX, Edns::None);
        assert_eq!(plain, b"\0\0\0\0\0\x01\0\0\0\0\0\0\x01a\x02bc\0\0\x0f\0\x01");
        let mut with_do = Vec::new();
        write_query(&mut with_do, ".", Type::NS, Edns::Do);
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
        let cut = [0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 9, 0, 2, 0, 0];
        let tail = [&cut[..], &soa(8)].concat();
        assert_eq!(answered_serial(&response([2, 0, 0], [0x84, 0], &tail)), None, "the first is malformed");
    }

    #[test]
    fn records_are_found_without_reading_names_and_none_is_read_past_the_end() {
        let whole = response([2, 0, 0], [0x84, 0], &[ADDRESS, &soa(7)].concat());
        let mut kinds = Vec::new();
        each_answer(&whole, |_, record| kinds.push((record.rtype, record.rdata.len()))).unwrap();
        assert_eq!(kinds, [(Type::A, 4), (Type::SOA, 22)]);
        for length in 0..whole.len() {
            assert!(each_answer(&whole[..length], |_, _| {}).is_err(), "cut at {length}");
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
