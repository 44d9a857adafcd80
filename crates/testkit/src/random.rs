//! Random names, records and zones that are small enough to collide in every interesting way.

use proptest::prelude::*;
use wire::{Name, NameBuf, Ttl, Type};

use crate::choices::Choices;
use crate::data::{HOUR, joined, nsec3};
use crate::model::ModelRecord;

pub use crate::data::{HASHES, rrsig, soa};

/// A label from a small set: letters in both cases, `*`, odd bytes, sometimes an NSEC3 hash.
pub fn label() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        12 => prop::sample::select(vec!["a", "b", "A", "ns", "Ns1", "*", "c"]).prop_map(|l| l.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
        1 => prop::collection::vec(b'x'..=b'y', 20..=63),
        1 => prop::sample::select(HASHES.to_vec()).prop_map(|l| l.to_vec()),
        1 => prop::sample::select(HASHES.to_vec()).prop_map(|l| l.to_ascii_uppercase()),
    ]
}

/// A name at or below `apex`, mostly near it, sometimes deep.
pub fn name_below(apex: NameBuf) -> impl Strategy<Value = NameBuf> {
    let labels =
        prop_oneof![12 => prop::collection::vec(label(), 0..4), 1 => prop::collection::vec(label(), 0..40)];
    labels.prop_map(move |labels| {
        let mut name = apex;
        for label in &labels {
            name = NameBuf::prepend(label, name.as_name()).unwrap_or(name);
        }
        name
    })
}

/// The apex of a random zone, sometimes the root.
pub fn apex() -> impl Strategy<Value = NameBuf> {
    prop::sample::select(vec![".", "Com.", "eXample.com.", "1.168.192.in-addr.arpa."])
        .prop_map(|text| text.parse().expect("a name"))
}

/// A name in the zone or elsewhere.
fn target(apex: NameBuf) -> impl Strategy<Value = NameBuf> {
    let elsewhere = "host.elsewhere.Net.".parse::<NameBuf>().expect("a name");
    prop_oneof![
        6 => name_below(apex),
        2 => name_below(elsewhere),
        1 => Just(NameBuf::ROOT),
        1 => apex_upper(apex),
    ]
}

fn apex_upper(apex: NameBuf) -> impl Strategy<Value = NameBuf> {
    let wire = apex.as_name().as_wire().to_ascii_uppercase();
    Just(Name::from_wire(&wire).map_or(NameBuf::ROOT, Name::to_buf))
}

fn record_data(apex: NameBuf) -> impl Strategy<Value = (Type, Vec<u8>)> {
    let named = (target(apex), 0u8..3).prop_flat_map(|(name, n)| {
        let wire = name.as_name().as_wire().to_vec();
        let with = |front: &[u8]| joined(&[front, &wire]);
        prop::sample::select(vec![
            (Type::NS, with(&[])),
            (Type::NS, with(&[])),
            (Type::CNAME, with(&[])),
            (Type::PTR, with(&[])),
            (Type::DNAME, with(&[])),
            (Type::MX, with(&[0x41 + 0x20 * (n & 1), n])),
            (Type::SRV, with(&[0, n, 0, 0, 0, 53])),
            (Type::SVCB, with(&[0, n])),
            (Type::NSEC, joined(&[&wire, b"\0\x01\x40"])),
        ])
    });
    let sig = (prop::sample::select(vec![1u16, 2, 5, 6, 15, 16, 47, 50, 51, 46, 43]), 0u8..3);
    prop_oneof![
        3 => (0u8..4).prop_map(|n| (Type::A, vec![192, 0, 2, n])),
        1 => (0u8..2).prop_map(|n| (Type::AAAA, vec![n; 16])),
        1 => prop::collection::vec(b'a'..b'c', 1..4).prop_map(|t| (Type::TXT, joined(&[&[t.len() as u8], &t]))),
        1 => any::<[u8; 3]>().prop_map(|r| (Type(65280), r.to_vec())),
        6 => named,
        3 => sig.prop_map(|(t, tag)| (Type::RRSIG, rrsig(Type(t), tag))),
        2 => (any::<bool>(), 0u8..4).prop_map(|(other, next)| (Type::NSEC3, nsec3(other, next))),
    ]
}

/// A record at or below `apex`, sometimes outside. NSEC3 records are mostly at hash owners.
pub fn record(apex: NameBuf) -> impl Strategy<Value = ModelRecord> {
    let hash = prop::sample::select(HASHES.to_vec())
        .prop_map(move |label| NameBuf::prepend(label, apex.as_name()).unwrap_or(apex));
    let elsewhere = "elsewhere.net.".parse::<NameBuf>().expect("a name");
    let owner = prop_oneof![30 => name_below(apex), 1 => name_below(elsewhere)];
    (owner, hash, record_data(apex), prop::sample::select(vec![0, 60, 3600]), 0..8u8).prop_map(
        |(owner, hash, (rtype, rdata), ttl, odd)| {
            let of_nsec3 = rtype == Type::NSEC3 || rtype == Type::RRSIG && rdata[..2] == [0, 50];
            let owner = if of_nsec3 && odd > 0 { hash } else { owner };
            ModelRecord { owner, rtype, ttl: Ttl::from_secs(ttl), rdata }
        },
    )
}

/// A zone: its apex and up to 60 records in any order, with duplicates, among them exactly one SOA and up to
/// two NSEC3PARAM at the apex.
pub fn zone() -> impl Strategy<Value = (NameBuf, Vec<ModelRecord>)> {
    apex().prop_flat_map(|apex| {
        let records = prop::collection::vec(record(apex), 0..60);
        let params = prop::sample::subsequence(vec![false, true], 0..=2);
        (records, params, 1u32..100, any::<prop::sample::Index>()).prop_map(
            move |(mut records, params, serial, at)| {
                let apex_record = |rtype, rdata| ModelRecord { owner: apex, rtype, ttl: HOUR, rdata };
                let soa = apex_record(Type::SOA, soa(apex.as_name(), serial));
                let place = at.index(records.len() + 1);
                records.insert(place, soa);
                for other in params {
                    // The parameters of `nsec3`, up to the salt.
                    let salt: &[u8] = if other { b"\x00" } else { b"\x02\xab\xcd" };
                    let rdata = joined(&[&[1, 0, 0, other as u8], salt]);
                    records.insert(place, apex_record(Type::NSEC3PARAM, rdata));
                }
                (apex, records)
            },
        )
    })
}

/// One to three zones that are served together, as [`zones`](crate::zones) makes them.
pub fn zones() -> impl Strategy<Value = Vec<(NameBuf, Vec<ModelRecord>)>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..700);
    bytes.prop_map(|bytes| crate::zones::zones(&mut Choices::new(&bytes)))
}
