//! Zones that several targets start from, and their records.

use std::sync::Arc;

use wire::{NameBuf, Ttl, Type};
use zone::{Zone, ZoneBuilder};

/// Returns a name; the text has to be one.
pub(crate) fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

/// Returns the zone `example.` with SOA, NS and the address of its name server, and with these records.
pub(crate) fn zone(records: &[(&str, Type, &[u8])]) -> Arc<Zone> {
    let mut builder = ZoneBuilder::new(name("example.").as_name(), &testkit::key());
    let soa = [&[0, 0, 0, 0, 0, 1][..], &[0; 16]].concat();
    let of_apex: [(&str, Type, &[u8]); 3] = [
        ("example.", Type::SOA, &soa),
        ("example.", Type::NS, b"\x02ns\x07example\0"),
        ("ns.example.", Type::A, &[192, 0, 2, 1]),
    ];
    for (owner, rtype, data) in of_apex.iter().chain(records) {
        builder.add(name(owner).as_name(), *rtype, Ttl::from_secs(60), data).expect("a record");
    }
    Arc::new(builder.finish().expect("a zone"))
}

/// A record: its owner as written, type, TTL and RDATA.
pub(crate) type ZoneRecord = (Vec<u8>, u16, u32, Vec<u8>);

/// Returns the records of a zone in order, signatures among them.
pub(crate) fn records(zone: &Zone) -> Vec<ZoneRecord> {
    let mut all = Vec::new();
    for node in zone {
        let owner = node.written_owner().as_name().as_wire().to_vec();
        for set in node.rrsets() {
            for rdata in set.rdatas().chain(set.sig_rdatas()) {
                let mut data = Vec::new();
                rdata.copy_to(&mut data);
                all.push((owner.clone(), set.rtype().0, rdata.ttl().as_secs(), data));
            }
        }
    }
    all.sort();
    all
}
