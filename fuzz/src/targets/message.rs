//! Messages: whatever is decoded can be encoded and decoded again unchanged.
//!
//! RFC 1035 §4.1.4: a compressed name is "replaced with a pointer to a prior occurance of the same name", so
//! a pointer's target lies before it, every name ends, and compression does not change any record.

use wire::message::{Builder, Compressor, MAX_MESSAGE, Malformed, Owner, Parser, Section};
use wire::{Class, Header, NameBuf, Ttl, Type};

/// A record: its section, owner, type, class, TTL and RDATA.
type PlainRecord = (Section, Vec<u8>, Type, Class, Ttl, Vec<u8>);

/// A message with uncompressed names.
#[derive(Debug, PartialEq)]
struct Plain {
    questions: Vec<(Vec<u8>, Type, Class)>,
    records: Vec<PlainRecord>,
}

pub(crate) fn run(data: &[u8]) {
    let Ok((header, plain)) = read(data) else { return };
    let mut buffer = vec![0; MAX_MESSAGE];
    // A message with pointers that our encoder would not find may not fit when encoded again.
    let Some(length) = write(&mut buffer, header, &plain) else { return };
    let (_, again) = read(&buffer[..length]).expect("what we write, we read");
    assert_eq!(fold(plain), fold(again));
}

/// Lowers letter case where it may change: a pointer may lead to the same name in another case (RFC 1035
/// §2.3.3), in owners and in the RDATA of the types that may be compressed, which are all old.
fn fold(mut plain: Plain) -> Plain {
    const NEWEST_WITH_COMPRESSION: Type = Type::DNAME;
    for (_, owner, rtype, _, _, rdata) in &mut plain.records {
        owner.make_ascii_lowercase();
        if rtype.0 <= NEWEST_WITH_COMPRESSION.0 {
            rdata.make_ascii_lowercase();
        }
    }
    plain
}

fn read(data: &[u8]) -> Result<(Header, Plain), Malformed> {
    let (header, mut parser) = Parser::new(data)?;
    let counts = header.counts();
    let mut plain = Plain { questions: Vec::new(), records: Vec::new() };
    for _ in 0..counts[0] {
        let question = parser.question()?;
        plain.questions.push((question.name.as_wire().to_vec(), question.qtype, question.qclass));
    }
    let sections = [Section::Answer, Section::Authority, Section::Additional];
    for (section, count) in sections.into_iter().zip(&counts[1..]) {
        for _ in 0..*count {
            let record = parser.record()?;
            assert!(record.rdata.end == parser.position().index() && record.rdata.start <= record.rdata.end);
            let owner: NameBuf = parser.name_at(record.owner_at)?;
            let mut rdata = Vec::new();
            parser.expand_rdata(&record, &mut rdata)?;
            let owner = owner.as_name().as_wire().to_vec();
            plain.records.push((section, owner, record.rtype, record.class, record.ttl(), rdata));
        }
    }
    Ok((header, plain))
}

fn write(buffer: &mut [u8], header: Header, plain: &Plain) -> Option<usize> {
    let mut names = Compressor::large();
    let mut builder = Builder::new(buffer, MAX_MESSAGE, header, &mut names);
    for (name, qtype, qclass) in &plain.questions {
        let name = wire::Name::from_wire(name).expect("was a name");
        builder.question(name, *qtype, *qclass).ok()?;
    }
    for (section, owner, rtype, class, ttl, rdata) in &plain.records {
        let owner = wire::Name::from_wire(owner).expect("was a name");
        builder.record(*section, Owner::Name(owner), *rtype, *class, *ttl, rdata).ok()?;
    }
    Some(builder.finish())
}
