//! Zones keep the letter case of their records: owners that of their first record, RDATA its own.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use testkit::random;
use wire::hash::HashKey;
use wire::{Name, NameBuf, Ttl, Type};
use zone::image::{self, Image, Provenance};
use zone::store::{NodeFlags, Zone, ZoneBuilder};

fn key() -> HashKey {
    HashKey::new([3, 5, 7])
}

fn through_image(zone: &Zone) -> Zone {
    let mut bytes = Vec::new();
    image::write_to(&mut bytes, zone, &Provenance::default()).expect("written");
    Image::from_bytes(&bytes).expect("an image").read(&key(), 2).expect("the zone")
}

/// Checks that every owner and RDATA of `zone` has the same letter case as in `records`.
fn check(zone: &Zone, apex: Name<'_>, records: &[testkit::ModelRecord]) -> Result<(), TestCaseError> {
    let mut owners: BTreeMap<NameBuf, Vec<u8>> = BTreeMap::new();
    let mut rdatas: BTreeSet<(NameBuf, Type, &[u8])> = BTreeSet::new();
    for record in records.iter().filter(|record| record.owner.as_name().is_at_or_below(apex)) {
        owners.entry(record.owner).or_insert_with(|| record.owner.as_name().as_wire().to_vec());
        rdatas.insert((record.owner, record.rtype, &record.rdata));
    }
    for node in zone {
        let (owner, written) = (node.owner().as_name().to_buf(), node.written_owner());
        let wire = written.as_name().as_wire();
        prop_assert_eq!(node.flags().contains(NodeFlags::CASED), written.as_name().has_upper_case());
        match owners.get(&owner) {
            Some(first) => prop_assert_eq!(wire, &first[..], "{}", owner),
            None => prop_assert_eq!(wire, owner.as_name().as_wire(), "an empty non-terminal"),
        }
        for set in node.rrsets() {
            let mut bytes = Vec::new();
            for (rtype, rdata) in
                set.rdatas().map(|r| (set.rtype(), r)).chain(set.sig_rdatas().map(|r| (Type::RRSIG, r)))
            {
                bytes.clear();
                rdata.copy_to(&mut bytes);
                prop_assert!(rdatas.contains(&(owner, rtype, &bytes)), "{} {} {:?}", owner, rtype, bytes);
            }
            let cased = set.targets().any(|target| {
                set.name_at(target.name_at).is_some_and(|name| name.as_name().has_upper_case())
            });
            prop_assert_eq!(set.has_cased_targets(), cased, "{} {}", owner, set.rtype());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    #[test]
    fn owners_and_rdata_keep_their_letter_case((apex, records) in random::zone()) {
        let zone = testkit::build(apex.as_name(), &key(), &records);
        check(&zone, apex.as_name(), &records)?;
        check(&through_image(&zone), apex.as_name(), &records)?;
    }
}

#[test]
fn a_duplicate_in_another_letter_case_does_not_count() {
    let name = |text: &str| text.parse::<NameBuf>().expect("a name");
    let mut builder = ZoneBuilder::new(name("example.").as_name(), &key());
    let mut add = |rtype, rdata: &[u8]| {
        builder.add(name("example.").as_name(), rtype, Ttl::from_secs(60), rdata).expect("a record");
    };
    add(Type::SOA, &random::soa(Name::ROOT, 1));
    add(Type::MX, b"\0\x01\x04mail\0");
    add(Type::MX, b"\0\x01\x04MAIL\0");
    let zone = builder.finish().expect("a zone");
    let mx = zone.apex_node().rrset(Type::MX).expect("MX");
    assert_eq!((mx.count(), mx.has_cased_targets()), (1, false));
}

#[test]
fn an_owner_that_comes_back_in_another_letter_case_keeps_its_first_one() {
    let name = |text: &str| text.parse::<NameBuf>().expect("a name");
    let apex = name("Example.");
    let mut builder = ZoneBuilder::new(apex.as_name(), &key());
    let mut add = |owner: &str, rtype, rdata: &[u8]| {
        builder.add(name(owner).as_name(), rtype, Ttl::from_secs(60), rdata).expect("a record");
    };
    add("exAmple.", Type::SOA, &random::soa(Name::ROOT, 1));
    add("wWw.example.", Type::A, &[192, 0, 2, 1]);
    add("other.example.", Type::A, &[192, 0, 2, 2]);
    add("WWW.EXAMPLE.", Type::AAAA, &[1; 16]);
    let zone = builder.finish().expect("a zone");
    let shown =
        |text: &str| zone.find_name(name(text).as_name()).map(|node| node.written_owner().to_string());
    assert_eq!(shown("www.example."), Some("wWw.example.".into()));
    assert_eq!(shown("example."), Some("exAmple.".into()));
    assert_eq!(shown("other.example."), Some("other.example.".into()));
    let www = zone.find_name(name("www.example.").as_name()).expect("a node");
    assert_eq!(www.rrset_count(), 2, "both records are there");
}
