//! A small zone, and messages of arbitrary records.

use testkit::{ModelRecord, build, key, name};
use wire::message::{Builder, Compressor, Header, Owner, Section};
use wire::{Class, NameBuf, Opcode, Ttl, Type};
use zone::Zone;

/// A record of a prerequisite or update section.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) is_prerequisite: bool,
    pub(crate) owner: NameBuf,
    pub(crate) rtype: Type,
    pub(crate) class: Class,
    pub(crate) ttl: u32,
    pub(crate) rdata: Vec<u8>,
}

/// The name of the zone.
pub(crate) fn apex() -> NameBuf {
    name("example.")
}

fn soa(serial: u32) -> Vec<u8> {
    let mut rdata = b"\x02ns\x07Example\0\x05admin\x07example\0".to_vec();
    [serial, 3600, 600, 86_400, 60].iter().for_each(|number| rdata.extend(number.to_be_bytes()));
    rdata
}

/// RDATA of a type, from a few values selected by `number`.
pub(crate) fn rdata_of(rtype: Type, number: u8) -> Vec<u8> {
    let few = number % 4;
    let target = name(["ns.sub.example.", "NS.sub.example.", "a.example.", "host.elsewhere."][few as usize]);
    let target = target.as_name().as_wire();
    match rtype {
        Type::A => vec![192, 0, 2, few],
        Type::NS | Type::CNAME | Type::DNAME => target.to_vec(),
        Type::SOA => soa([1, 5, 8, 0x8000_0004, 0x8000_0007, 3_000_000_000][number as usize % 6]),
        Type::MX => [&[0, number % 2][..], target].concat(),
        Type::TXT => vec![1, b'a' + few],
        Type::WKS => vec![192, 0, 2, number % 2, 6, few],
        Type::DS => vec![0, few, 13, 2, 7, 7],
        Type::KEY => vec![1, 0, 3, 13, few],
        Type::NSEC3PARAM => vec![1, 0, 0, 0, 0],
        Type::RRSIG => {
            [&[0, 1, 13, 1, 0, 0, 0, 60, 1, 2, 3, 4, 1, 2, 3, 0, 0, few][..], b"\0", &[few]].concat()
        }
        _ => vec![few; 3],
    }
}

/// The zone before all updates: serial 5.
pub(crate) fn zone() -> Zone {
    let record = |owner: &str, rtype, rdata: Vec<u8>| ModelRecord {
        owner: name(owner),
        rtype,
        ttl: Ttl::from_secs(60),
        rdata,
    };
    let records = [
        record("example.", Type::SOA, soa(5)),
        record("example.", Type::NS, rdata_of(Type::NS, 2)),
        record("A.example.", Type::A, rdata_of(Type::A, 1)),
        record("A.example.", Type::A, rdata_of(Type::A, 2)),
        record("b.example.", Type::CNAME, rdata_of(Type::CNAME, 3)),
        record("x.y.b.example.", Type::TXT, rdata_of(Type::TXT, 1)),
        record("sub.example.", Type::NS, rdata_of(Type::NS, 1)),
        record("ns.sub.example.", Type::A, rdata_of(Type::A, 3)),
    ];
    build(apex().as_name(), &key(), &records)
}

/// The message with these records.
pub(crate) fn message(records: &[Raw]) -> Vec<u8> {
    let (mut buf, mut names) = (vec![0; 65_535], Compressor::small());
    let mut header = Header::query(7);
    let mut bytes = *header.as_bytes();
    bytes[2] = Opcode::UPDATE.0 << 3;
    header = Header::of(&bytes).expect("a header");
    let mut builder = Builder::new(&mut buf, 65_535, header, &mut names);
    builder.question(apex().as_name(), Type::SOA, Class::IN).expect("room");
    for raw in records {
        let section = if raw.is_prerequisite { Section::Answer } else { Section::Authority };
        let at = builder.end().index();
        let owner = Owner::Name(raw.owner.as_name());
        let rdata_at =
            builder.record(section, owner, raw.rtype, raw.class, Ttl::ZERO, &raw.rdata).expect("room");
        // The builder can only write TTLs that RFC 2181 allows.
        let ttl_at = rdata_at.index() - 6;
        assert!(ttl_at > at);
        builder.written_mut()[ttl_at..ttl_at + 4].copy_from_slice(&raw.ttl.to_be_bytes());
    }
    let len = builder.finish();
    buf.truncate(len);
    buf
}
