//! A small zone with a record of every kind that affects an answer.

use wire::{Ttl, Type};

use crate::data::soa;
use crate::{ModelRecord, name};

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> ModelRecord {
    ModelRecord { owner: name(owner), rtype, ttl: Ttl::from_secs(60), rdata: rdata.to_vec() }
}

fn to(owner: &str, rtype: Type, front: &[u8], target: &str) -> ModelRecord {
    record(owner, rtype, &[front, name(target).as_name().as_wire()].concat())
}

/// Returns the unsigned records of the zone at `apex`.
pub fn records(apex: &str) -> Vec<ModelRecord> {
    let below = |label: &str| format!("{label}.{apex}");
    let mut records = vec![
        record(apex, Type::SOA, &soa(name(apex).as_name(), 1)),
        to(apex, Type::NS, &[], &below("ns")),
        record(&below("ns"), Type::A, &[192, 0, 2, 53]),
        record(&below("host"), Type::A, &[192, 0, 2, 1]),
        record(&below("host"), Type::AAAA, &[1; 16]),
        record(&below("*.wild"), Type::A, &[192, 0, 2, 2]),
        to(&below("mx"), Type::MX, &[0, 1], &below("host")),
        to(&below("mx"), Type::MX, &[0, 2], &below("a.wild")),
        to(&below("mx"), Type::MX, &[0, 3], &below("b.wild")),
        to(&below("mx"), Type::MX, &[0, 4], "mail.elsewhere."),
        to(&below("*.mxs"), Type::MX, &[0, 1], &below("c.wild")),
        to(&below("far"), Type::CNAME, &[], &below("mx")),
        to(&below("svc"), Type::HTTPS, &[0, 1], "."),
        record(&below("svc"), Type::A, &[192, 0, 2, 3]),
        to(&below("cut"), Type::NS, &[], &below("ns.cut")),
        to(&below("cut"), Type::NS, &[], &below("ns")),
        record(&below("ns.cut"), Type::A, &[192, 0, 2, 4]),
        to(&below("secure"), Type::NS, &[], &below("ns")),
        record(&below("secure"), Type::DS, &[&[0, 1, 13, 2][..], &[7; 32]].concat()),
        to(&below("d"), Type::DNAME, &[], &below("e")),
        to(&below("e"), Type::DNAME, &[], &below("wild")),
        to(&below("circle"), Type::DNAME, &[], &below("a.circle")),
    ];
    for i in 0..14 {
        records.push(to(&below(&format!("c{i}")), Type::CNAME, &[], &below(&format!("c{}", i + 1))));
    }
    records.push(record(&below("c14"), Type::A, &[192, 0, 2, 5]));
    records
}
