//! Tests that need internals of images; the others are in `tests/image.rs`.

use wire::hash::HashKey;
use wire::{NameBuf, Ttl, Type};

use super::format::{PartKind, fingerprint, sum};
use crate::store::{LAYOUT, Zone, ZoneBuilder};

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

/// A zone with all elements of the layout: targets, pointers, signatures, NSEC and NSEC3.
fn zone() -> Zone {
    let mut builder = ZoneBuilder::new(name("example.").as_name(), &HashKey::new([1, 2, 3]));
    let mut add = |owner: &str, rtype: Type, rdata: &[u8]| {
        builder.add(name(owner).as_name(), rtype, Ttl::from_secs(3600), rdata).expect("a record");
    };
    add(
        "example.",
        Type::SOA,
        b"\x02ns\x07example\0\x05admin\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05",
    );
    add("example.", Type::RRSIG, b"\0\x06\x0d\x01\0\0\0\0\x60\0\0\0\x50\0\0\0\0\x01\x07example\0signature");
    add("example.", Type::NS, b"\x02ns\x07example\0");
    add("example.", Type::NSEC, b"\x02ns\x07example\0\0\x01\x40");
    add("example.", Type::NSEC3PARAM, &[1, 0, 0, 0, 0]);
    add("ns.example.", Type::A, &[192, 0, 2, 1]);
    add("*.wild.example.", Type::TXT, b"\x04text");
    let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], b"\0\x01\x40"].concat();
    add("0p9mhaveqvm6t7vbl5lop2u3t2rp3tom.example.", Type::NSEC3, &nsec3);
    builder.finish().expect("a zone")
}

/// Images of another layout are refused by its number, so a new layout needs a new number.
#[test]
fn the_layout_has_its_number() {
    let parts = zone().parts();
    let pieces = super::write::pieces_of(&parts).flat_map(|(kind, bytes)| [kind as u64, sum(bytes)]);
    let all: Vec<u8> = pieces.flat_map(u64::to_le_bytes).collect();
    assert_eq!(
        (LAYOUT, sum(&all)),
        (3, 14163076302144696670),
        "the bytes of a zone, or how names are hashed, changed: raise LAYOUT and put the new sum here"
    );
}

#[test]
fn fingerprints_of_different_keys_differ() {
    let keys = [[1, 2, 3], [1, 2, 4], [3, 2, 3], [1, 4, 3]].map(HashKey::new);
    for (i, a) in keys.iter().enumerate() {
        for b in &keys[i + 1..] {
            assert_ne!(fingerprint(a), fingerprint(b));
        }
        assert!(fingerprint(a) == fingerprint(a) && fingerprint(a)[0] != fingerprint(a)[1]);
    }
}

#[test]
fn parts_come_in_one_order_and_each_kind_once_but_chunks() {
    let parts = zone().parts();
    let kinds: Vec<PartKind> = super::write::pieces_of(&parts).map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [PartKind::Chunk, PartKind::Index, PartKind::Nsec, PartKind::Nsec3]);
}
