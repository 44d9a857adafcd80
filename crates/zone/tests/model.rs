//! Compares the store with the reference model: random zones, every question.

use std::collections::BTreeMap;

use domain::base::iana::Rtype;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, Record, ToName};
use domain::rdata::AllRecordData;
use proptest::prelude::*;
use testkit::model::{ModelFlags, ModelSet, ModelZone, canonical};
use testkit::random;
use wire::hash::{HashKey, HashedName};
use wire::{Name, NameBuf, Ttl, Type};
use zone::image::{self, Image, Provenance};
use zone::store::{Node, NodeFlags, RrSet, Zone};

fn key() -> HashKey {
    HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7])
}

fn flags(node: Node<'_>) -> ModelFlags {
    let has = |flag| node.flags().contains(flag);
    ModelFlags {
        apex: has(NodeFlags::APEX),
        cut: has(NodeFlags::CUT),
        dname: has(NodeFlags::DNAME),
        occluded: has(NodeFlags::OCCLUDED),
        wildcard_child: has(NodeFlags::WILDCARD_CHILD),
        empty: has(NodeFlags::EMPTY),
        wildcard: has(NodeFlags::WILDCARD),
        nsec3_only: has(NodeFlags::NSEC3_ONLY),
    }
}

/// All RRsets of a node in the model's form.
fn sets(node: Node<'_>) -> BTreeMap<Type, ModelSet> {
    let mut sets = BTreeMap::new();
    for set in node.rrsets() {
        let mut model = ModelSet { ttl: set.ttl(), ..ModelSet::default() };
        for rdata in set.rdatas() {
            // Signatures over different types keep their own TTLs.
            assert!(rdata.ttl() == set.ttl() || set.rtype() == Type::RRSIG);
            let mut bytes = Vec::new();
            rdata.copy_to(&mut bytes);
            model.rdatas.push(canonical(set.rtype(), &bytes));
        }
        for rdata in set.sig_rdatas() {
            model.sig_ttl = rdata.ttl();
            let mut bytes = Vec::new();
            rdata.copy_to(&mut bytes);
            model.sigs.push(bytes);
        }
        assert_eq!((set.count() as usize, set.sig_count() as usize), (model.rdatas.len(), model.sigs.len()));
        assert_eq!(set.records_and_sigs(), [set.records(), set.sigs()].concat());
        assert!(sets.insert(set.rtype(), model).is_none(), "{} twice", set.rtype());
    }
    sets
}

/// Owners, their ancestors, and children of all of these.
fn universe(apex: Name<'_>, records: &[testkit::ModelRecord]) -> Vec<NameBuf> {
    let mut names = vec![apex.to_buf()];
    for record in records {
        let owner = record.owner.as_name();
        for ancestor in owner.ancestors().take_while(|n| n.is_at_or_below(apex)) {
            names.push(ancestor.to_buf());
            for label in [&b"*"[..], b"a", b"zz", b"\0"] {
                names.extend(NameBuf::prepend(label, ancestor));
            }
        }
    }
    names.iter_mut().for_each(|name| *name = name.as_name().to_lower().into());
    names.sort();
    names.dedup();
    names
}

/// Parses a message with the question `qname` and the RRset `gap` bytes after it with another library.
/// Returns the RDATA of each record, uncompressed.
fn read_elsewhere(set: &RrSet<'_>, qname: Name<'_>, gap: usize) -> Vec<(Type, Ttl, Vec<u8>)> {
    let count = set.count() + set.sig_count();
    let filler = gap > 0;
    let mut message = vec![0, 0, 0x84, 0, 0, 1];
    message.extend_from_slice(&(count + filler as u16).to_be_bytes());
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(qname.as_wire());
    message.extend_from_slice(&[0, 255, 0, 1]);
    if filler {
        message.extend_from_slice(&[0, 255, 0, 0, 1, 0, 0, 0, 0]);
        message.extend_from_slice(&((gap - 11) as u16).to_be_bytes());
        message.resize(message.len() + gap - 11, 0);
    }
    let start = message.len();
    message.extend_from_slice(set.records_and_sigs());
    let longer = qname.len() - set.node().owner().len();
    for fixup in set.fixups() {
        let at = start + fixup.at as usize;
        let shift = if fixup.to_question { longer } else { start - set.compiled_at() };
        let pointer = u16::from_be_bytes([message[at], message[at + 1]]) + shift as u16;
        message[at..at + 2].copy_from_slice(&pointer.to_be_bytes());
    }
    let message = Message::from_octets(message).expect("a header");
    let mut seen = Vec::new();
    for record in message.answer().expect("a question").skip(filler as usize) {
        let record = record.expect("a record");
        let owner: domain::base::Name<Vec<u8>> = record.owner().to_name();
        assert_eq!(owner.as_slice(), qname.as_wire());
        let (t, ttl) = (Type(record.rtype().to_int()), Ttl::from_secs(record.ttl().as_secs()));
        let mut rdata = Vec::new();
        // NSEC with a root target and the like are valid, so the other library parses everything the store
        // encodes.
        let parsed: Record<_, AllRecordData<_, _>> =
            record.into_record().expect("RDATA").expect("every type is taken");
        parsed.data().compose_rdata(&mut rdata).expect("a vector grows");
        seen.push((t, ttl, rdata));
    }
    assert_eq!(seen.len(), count as usize);
    seen
}

/// Checks that the compiled form has the content of `rdatas`, in place and moved.
fn check_compiled(set: &RrSet<'_>) {
    assert_ne!(Rtype::from_int(set.rtype().0), Rtype::OPT);
    let mut plain = Vec::new();
    for (t, rdata) in set.rdatas().map(|r| (set.rtype(), r)).chain(set.sig_rdatas().map(|r| (Type::RRSIG, r)))
    {
        let mut bytes = Vec::new();
        rdata.copy_to(&mut bytes);
        plain.push((t, rdata.ttl(), canonical(t, &bytes)));
    }
    let owner = set.node().owner().as_name();
    let mut names = vec![owner.to_buf()];
    if owner.is_wildcard() {
        // A wildcard's compiled form is used for longer names, so no pointer may refer to the asterisk.
        let parent = owner.parent().expect("below the root");
        names = [&b"x"[..], b"longer", b"seven"]
            .iter()
            .filter_map(|l| NameBuf::prepend(l, parent).ok())
            .collect();
        names.retain(|n| n.as_name().len() >= owner.len());
    }
    for qname in names {
        for gap in [0, 11, 300] {
            let read = read_elsewhere(set, qname.as_name(), gap);
            let read: Vec<_> = read.into_iter().map(|(t, ttl, r)| (t, ttl, canonical(t, &r))).collect();
            assert_eq!(read, plain, "{} {}", qname, set.rtype());
        }
    }
    assert!(set.fixups().map(|f| f.at).is_sorted());
}

fn check_targets(zone: &Zone, set: &RrSet<'_>) {
    let offset = match set.rtype() {
        Type::NS | Type::CNAME => 0,
        Type::MX | Type::SVCB => 2,
        Type::SRV => 6,
        _ => return assert_eq!(set.targets().count(), 0),
    };
    let targets: Vec<_> = set.targets().collect();
    assert_eq!(targets.len(), set.count() as usize);
    for (target, rdata) in targets.iter().zip(set.rdatas()) {
        let mut bytes = Vec::new();
        rdata.copy_to(&mut bytes);
        let mut name = Name::parse(&bytes[offset..]).expect("a name").to_buf();
        if set.rtype() == Type::SVCB && bytes[..2] != [0, 0] && name.as_name().is_root() {
            name = set.node().owner().as_name().to_buf();
        }
        assert_eq!(target.node, zone.find_name(name.as_name()), "{name}");
        let compiled = &set.records()[target.name_at..];
        let same = compiled[0] >= 0xc0 || compiled[0] == bytes[offset];
        assert!(same, "the target's place");
    }
}

fn check_zone(apex: Name<'_>, records: &[testkit::ModelRecord]) -> Result<(), TestCaseError> {
    check_snapshot(&testkit::build(apex, &key(), records), apex, records)
}

/// The same zone after a round trip through an image.
fn through_image(zone: &Zone) -> Zone {
    let mut bytes = Vec::new();
    image::write_to(&mut bytes, zone, &Provenance::default()).expect("written");
    Image::from_bytes(&bytes).expect("an image").read(&key(), 2).expect("the zone")
}

fn check_snapshot(
    zone: &Zone,
    apex: Name<'_>,
    records: &[testkit::ModelRecord],
) -> Result<(), TestCaseError> {
    let model = ModelZone::new(apex, records);
    prop_assert_eq!(zone.record_count(), model.record_count());
    let mut hashed = HashedName::new();
    let names = universe(apex, records);
    for name in &names {
        let name = name.as_name();
        hashed.set(&key(), name);
        let found = zone.find(hashed.suffix(0), hashed.hash(0));
        prop_assert_eq!(found.is_some(), model.exists(name), "{}", name);
        if let Some(node) = found {
            prop_assert_eq!(node.owner().as_name(), name);
            prop_assert_eq!(flags(node), model.flags(name), "{}", name);
            prop_assert_eq!(sets(node), model.sets(name), "{}", name);
        }
        let covering = zone
            .nsec()
            .and_then(|chain| chain.covering(hashed.as_lower()))
            .map(|n| n.owner().as_name().to_buf());
        prop_assert_eq!(covering, model.nsec_covering(name), "{}", name);
    }
    let all: Vec<NameBuf> = zone.iter().map(|n| n.owner().as_name().to_buf()).collect();
    prop_assert_eq!(&all, &model.all());
    prop_assert_eq!(zone.node_count() as usize, all.len());
    for node in zone {
        prop_assert_eq!(flags(node), model.flags(node.owner().as_name()), "{:?}", node);
        prop_assert_eq!(sets(node), model.sets(node.owner().as_name()));
        for set in node.rrsets() {
            prop_assert!(node.rrset(set.rtype()).is_some_and(|s| s.records() == set.records()));
            check_compiled(&set);
            check_targets(zone, &set);
        }
    }
    check_nsec3(zone, &model)
}

fn check_nsec3(zone: &Zone, model: &ModelZone) -> Result<(), TestCaseError> {
    let chain = model.nsec3_chain();
    prop_assert_eq!(zone.nsec3().is_some(), chain.is_some());
    let (Some(nsec3), Some(chain)) = (zone.nsec3(), chain) else { return Ok(()) };
    for text in random::HASHES.map(|h| h.to_vec()) {
        for text in [text.clone(), next_text(text)] {
            let hash = decode(&text);
            let covering = chain.range(..=text.clone()).next_back().or(chain.last_key_value());
            let covering = covering.map(|(_, name)| *name).expect("a chain has members");
            prop_assert_eq!(nsec3.covering(&hash).owner().as_name().to_buf(), covering);
            prop_assert_eq!(
                nsec3.matching(&hash).map(|n| n.owner().as_name().to_buf()),
                chain.get(&text).copied()
            );
        }
    }
    Ok(())
}

/// Returns a slightly greater hash, or the same if its last digit is `v`.
fn next_text(mut text: Vec<u8>) -> Vec<u8> {
    match text.last_mut() {
        Some(last @ (b'0'..=b'8' | b'a'..=b'u')) => *last += 1,
        Some(last) => *last = b'v',
        None => {}
    }
    text
}

fn decode(text: &[u8]) -> [u8; 20] {
    let bits: Vec<u8> = text
        .iter()
        .map(|c| if c.is_ascii_digit() { c - b'0' } else { c - b'a' + 10 })
        .flat_map(|v| (0..5).rev().map(move |bit| v >> bit & 1))
        .collect();
    let bytes: Vec<u8> = bits.chunks(8).map(|b| b.iter().fold(0, |o, bit| o << 1 | bit)).collect();
    bytes.try_into().expect("32 digits are 20 bytes")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]
    #[test]
    fn random_zones_are_what_the_model_says((apex, records) in random::zone()) {
        check_zone(apex.as_name(), &records)?;
    }

    #[test]
    fn sorted_zones_are_what_the_model_says((apex, mut records) in random::zone()) {
        records.sort_by_key(|r| (r.owner, r.rtype));
        check_zone(apex.as_name(), &records)?;
    }

    #[test]
    fn zones_from_images_are_what_the_model_says((apex, records) in random::zone()) {
        let zone = testkit::build(apex.as_name(), &key(), &records);
        let read = through_image(&zone);
        prop_assert_eq!((read.memory(), read.soa(), read.is_signed()), (zone.memory(), zone.soa(), zone.is_signed()));
        prop_assert_eq!(read.has_wildcards(), zone.has_wildcards());
        check_snapshot(&read, apex.as_name(), &records)?;
    }
}
