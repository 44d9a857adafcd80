//! Cases for which the random zones of `tests/model.rs` are too small: limits, growth, order of discovery.

use std::collections::BTreeMap;

use wire::hash::HashKey;
use wire::message::{MAX_POINTERS, Offset, POINTER};
use wire::rdata::{embedded_names, validate};
use wire::rr::TYPES;
use wire::{NameBuf, Serial, Ttl, Type};

use super::blob::target_offset;
use super::{
    AddError, BuildError, ChangeError, ChangeSet, Node, NodeFlags, NoteKind, RrSet, Zone, ZoneBuilder,
};

const MINUTE: Ttl = Ttl::from_secs(60);
const HOUR: Ttl = Ttl::from_secs(3600);

fn name(text: &str) -> NameBuf {
    text.parse().expect("a name")
}

fn builder(apex: &str) -> ZoneBuilder {
    let mut builder = ZoneBuilder::new(name(apex).as_name(), &HashKey::new([11, 22, 33]));
    let mut soa = b"\x02ns\0\x05admin\0".to_vec();
    [1u32, 2, 3, 4, 5].iter().for_each(|n| soa.extend_from_slice(&n.to_be_bytes()));
    builder.add(name(apex).as_name(), Type::SOA, HOUR, &soa).expect("a record");
    builder.add(name(apex).as_name(), Type::NS, HOUR, b"\x02ns\0").expect("a record");
    builder
}

fn add(builder: &mut ZoneBuilder, owner: &str, t: Type, ttl: u32, rdata: &[u8]) {
    builder.add(name(owner).as_name(), t, Ttl::from_secs(ttl), rdata).expect("a record");
}

fn kinds(builder: &ZoneBuilder) -> Vec<NoteKind> {
    builder.notes().iter().map(|note| note.kind).collect()
}

fn get<'a>(zone: &'a Zone, owner: &str) -> Node<'a> {
    zone.find_name(name(owner).as_name()).unwrap_or_else(|| panic!("{owner} is not there"))
}

#[test]
fn the_compiled_form_is_exactly_this() {
    let mut b = builder("example.");
    add(&mut b, "www.example.", Type::MX, 300, b"\0\x0a\x04mail\x07example\0");
    add(&mut b, "WWW.example.", Type::MX, 300, b"\0\x14\x01b\x04mail\x07example\0");
    let zone = b.finish().expect("a zone");
    let set = get(&zone, "WWW.example.").rrset(Type::MX).expect("MX");
    let expected = [
        &b"\xc0\x0c\0\x0f\0\x01\0\0\x01\x2c\0\x09\0\x0a\x04mail\xc0\x10"[..],
        // The question takes bytes 12 to 29; the first name is at offset 14 of the RRset.
        b"\xc0\x0c\0\x0f\0\x01\0\0\x01\x2c\0\x06\0\x14\x01b\xc0\x2b",
    ]
    .concat();
    assert_eq!(set.records(), expected);
    assert_eq!(set.compiled_at(), 29);
    let fixups: Vec<_> = set.fixups().map(|f| (f.at, f.to_question)).collect();
    assert_eq!(fixups, [(19, true), (37, false)]);
    assert_eq!(zone.memory() - size_of::<Zone>(), zone.arena.memory() + zone.index.memory());
}

#[test]
fn names_are_compressed_only_where_letter_case_agrees() {
    let mut b = builder("example.");
    add(&mut b, "Www.EXAMPLE.", Type::MX, 300, b"\0\x0a\x04mail\x07EXAMPLE\0");
    add(&mut b, "www.example.", Type::MX, 300, b"\0\x14\x01b\x04Mail\x07EXAMPLE\0");
    add(&mut b, "www.example.", Type::MX, 300, b"\0\x1e\x01b\x04Mail\x07example\0");
    let zone = b.finish().expect("a zone");
    let node = get(&zone, "www.example.");
    let ends: Vec<&[u8]> = vec![b"\x04mail\xc0\x10", b"\x01b\x04Mail\xc0\x10", b"\x01b\x04Mail\x07example\0"];
    let set = node.rrset(Type::MX).expect("MX");
    assert_eq!(set.rdatas().map(|rdata| &rdata.compiled()[2..]).collect::<Vec<_>>(), ends);
    assert_eq!(node.written_owner().to_string(), "Www.EXAMPLE.");
    assert_eq!(node.owner().to_string(), "www.example.");
}

/// The lowest byte of a hash is its tag in the index, and 0 marks an unused slot.
#[test]
fn names_whose_hashes_end_in_a_zero_byte_are_found() {
    let key = HashKey::new([11, 22, 33]);
    let names = (0..4096).map(|i| name(&format!("n{i}.example.")));
    let hash = |name: &NameBuf| key.name(name.as_name().to_lower().as_lower());
    let ending: Vec<NameBuf> = names.filter(|name| hash(name).bits() as u8 == 0).collect();
    assert!(ending.len() > 4, "{ending:?}");
    for owner in ending {
        let mut b = builder("example.");
        b.add(owner.as_name(), Type::A, MINUTE, &[192, 0, 2, 1]).expect("a record");
        let zone = b.finish().expect("a zone");
        assert!(zone.find_name(owner.as_name()).is_some(), "{owner}");
    }
}

/// An unused slot has the address of the first node, here a node that is not in the index. It was searched if
/// the slot before it had the wanted tag.
#[test]
fn slots_that_are_not_in_use_are_not_searched() {
    let key = HashKey::new([11, 22, 33]);
    let tag = |name: &NameBuf| key.name(name.as_name().to_lower().as_lower()).bits() as u8;
    let low = |pattern: fn(u32) -> String| {
        (0..).map(move |i| name(&pattern(i))).find(|n| tag(n) <= 1).expect("one")
    };
    let (hashed, host) = (low(|i| format!("{i:032}.example.")), low(|i| format!("n{i}.example.")));
    let mut b = ZoneBuilder::new(name("example.").as_name(), &key);
    let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], b"\0\x01\x40"].concat();
    b.add(hashed.as_name(), Type::NSEC3, MINUTE, &nsec3).expect("a record");
    b.add(name("example.").as_name(), Type::SOA, MINUTE, &[0; 22]).expect("a record");
    b.add(host.as_name(), Type::A, MINUTE, &[192, 0, 2, 1]).expect("a record");
    let zone = b.finish().expect("a zone");
    assert!(zone.find_name(host.as_name()).is_some());
    assert_eq!(zone.find_name(hashed.as_name()), None, "it holds NSEC3 only");
}

#[test]
fn targets_stand_where_their_types_have_their_first_name() {
    // RDATA of each type: the fields before the name at their minimum length, all zero, then the name.
    let targets = TYPES.iter().filter_map(|&(t, _)| Some((t, target_offset(t)?)));
    let mut seen = 0;
    for (t, offset) in targets {
        let rdata = [vec![0; offset].as_slice(), b"\x04host\0"].concat();
        let name = embedded_names(t, &rdata).next().expect("a name");
        assert_eq!((name.start, name.len), (offset, 6), "{t}");
        assert_eq!(validate(t, &rdata), Ok(()), "{t}");
        seen += 1;
    }
    assert_eq!(seen, 9);
}

#[test]
fn rrsets_too_large_for_a_message_are_named_and_left_out() {
    let mut b = builder("example.");
    for i in 0..4200u32 {
        add(&mut b, "big.example.", Type::A, 60, &i.to_be_bytes());
    }
    for i in 0..4000u32 {
        add(&mut b, "fits.example.", Type::A, 60, &i.to_be_bytes());
    }
    let long = vec![b'x'; 65_500];
    add(&mut b, "fits.example.", Type(65280), 60, &long);
    add(&mut b, "fits.example.", Type(65281), 60, &long[..65_000]);
    let zone = b.finish().expect("a zone");
    assert_eq!(kinds(&b), [NoteKind::RrsetTooLarge, NoteKind::RrsetTooLarge]);
    assert_eq!((b.notes()[0].owner, b.notes()[0].rtype), (name("big.example."), Type::A));
    assert_eq!(b.first_error(), b.notes().first());
    let fits = get(&zone, "fits.example.");
    assert_eq!(fits.rrset(Type::A).map(|set| set.count()), Some(4000));
    assert!(fits.rrset(Type(65280)).is_none());
    assert_eq!(fits.rrset(Type(65281)).map(|set| set.records().len()), Some(65_012));
    assert!(get(&zone, "big.example.").flags().contains(NodeFlags::EMPTY));
}

#[test]
fn pointers_into_the_rrset_stay_within_reach() {
    let mut b = builder("example.");
    for i in 0..2000 {
        let target = name(&format!("n{i}.x{}.elsewhere.", i / 2));
        add(&mut b, "many.example.", Type::NS, 60, target.as_name().as_wire());
    }
    let zone = b.finish().expect("a zone");
    let set = get(&zone, "many.example.").rrset(Type::NS).expect("NS");
    assert_eq!(set.count(), 2000);
    for fixup in set.fixups().filter(|fixup| !fixup.to_question) {
        let at = fixup.at as usize;
        let pointer = u16::from_be_bytes([set.records()[at], set.records()[at + 1]]) & 0x3fff;
        assert!((pointer as usize) < set.compiled_at() + RrSet::POINTER_REACH);
    }
    for (i, rdata) in set.rdatas().enumerate() {
        let mut bytes = Vec::new();
        rdata.copy_to(&mut bytes);
        assert_eq!(bytes, name(&format!("n{i}.x{}.elsewhere.", i / 2)).as_name().as_wire());
    }
}

/// Owners in the additional section point at the names of an RRset, so these names may have one pointer less
/// than the maximum.
#[test]
fn names_of_an_rrset_do_not_point_through_all_those_before() {
    let mut b = builder("example.");
    let mut target = name("mail.other.");
    for i in 0..40 {
        add(&mut b, "mx.example.", Type::MX, 60, &[&[0, i], target.as_name().as_wire()].concat());
        target = NameBuf::prepend(&[b'a' + i % 26], target.as_name()).expect("short");
    }
    let zone = b.finish().expect("a zone");
    let set = get(&zone, "mx.example.").rrset(Type::MX).expect("MX");
    let records = set.records();
    let mut deepest = 0;
    for name_at in set.targets().map(|target| target.name_at) {
        let (mut at, mut pointers) = (name_at, 0);
        while records[at] != 0 {
            if records[at] >= POINTER {
                let to = Offset::of_pointer([records[at], records[at + 1]]).index();
                (at, pointers) = (to - set.compiled_at(), pointers + 1);
            } else {
                at += records[at] as usize + 1;
            }
        }
        deepest = deepest.max(pointers);
    }
    assert_eq!(deepest, MAX_POINTERS - 1);
    let mut last = Vec::new();
    set.rdatas().last().expect("forty").copy_to(&mut last);
    assert_eq!(last[2..].len(), name("mail.other.").as_name().len() + 2 * 39);
}

#[test]
fn what_names_may_not_have_is_noted() {
    let mut b = builder("example.");
    let target = name("t.example.");
    let target = target.as_name().as_wire();
    add(&mut b, "a.example.", Type::CNAME, 60, target);
    add(&mut b, "a.example.", Type::RRSIG, 60, &[0, 5, 0, 0]);
    add(&mut b, "a.example.", Type::TXT, 60, b"\x01x");
    add(&mut b, "b.example.", Type::CNAME, 60, target);
    add(&mut b, "b.example.", Type::CNAME, 60, b"\x01u\0");
    add(&mut b, "c.example.", Type::DNAME, 60, target);
    add(&mut b, "c.example.", Type::DNAME, 60, b"\x01u\0");
    add(&mut b, "d.example.", Type::SOA, 60, &[0; 22]);
    add(&mut b, "e.other.", Type::A, 60, &[0; 4]);
    add(&mut b, "f.example.", Type::A, 60, &[0; 4]);
    add(&mut b, "f.example.", Type::A, 61, &[0; 4]);
    add(&mut b, "f.example.", Type::A, 61, &[1; 4]);
    // A second group of records for `a.example.`, which has a CNAME.
    add(&mut b, "a.example.", Type::A, 60, &[0; 4]);
    assert_eq!(b.add(name("g.example.").as_name(), Type::ANY, MINUTE, b""), Err(AddError::MetaType));
    assert_eq!(
        b.add(name("g.example.").as_name(), Type::TXT, MINUTE, &[0; 65536]),
        Err(AddError::RdataTooLong)
    );
    let zone = b.finish().expect("a zone");
    use NoteKind::*;
    let expected = [
        CnameAndOther,
        MultipleCname,
        MultipleDname,
        OutOfZone,
        SoaBelowApex,
        Duplicate,
        TtlMismatch,
        CnameAndOther,
    ];
    let mut seen = kinds(&b);
    seen.sort_by_key(|kind| expected.iter().position(|e| e == kind));
    let mut sorted = expected;
    sorted.sort_by_key(|kind| expected.iter().position(|e| e == kind));
    assert_eq!(seen, sorted);
    assert_eq!(get(&zone, "a.example.").rrset_count(), 3, "nothing is lost");
    assert_eq!(get(&zone, "f.example.").rrset(Type::A).map(|s| (s.ttl(), s.count())), Some((MINUTE, 2)));
}

#[test]
fn a_zone_needs_a_soa_and_should_have_ns() {
    let apex = name("example.");
    let mut b = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
    assert_eq!(b.finish().err(), Some(BuildError::NoSoa));
    b.add(apex.as_name(), Type::SOA, MINUTE, &[0; 5]).expect("a record");
    assert_eq!(b.finish().err(), Some(BuildError::NoSoa), "too short to be one");
    b.add(apex.as_name(), Type::SOA, MINUTE, &[0; 22]).expect("a record");
    let zone = b.finish().expect("a zone");
    assert_eq!((kinds(&b), zone.node_count()), (vec![NoteKind::NoApexNs], 1));
    assert!(zone.memory() < 1000, "{}", zone.memory());
}

#[test]
fn signatures_over_missing_types_keep_their_ttls() {
    let mut b = builder("example.");
    for (covered, ttl) in [(1u8, 60), (28, 61), (16, 62), (16, 63)] {
        add(&mut b, "s.example.", Type::RRSIG, ttl, &[0, covered, 13, ttl as u8]);
    }
    add(&mut b, "s.example.", Type::TXT, 7, b"\x01x");
    let zone = b.finish().expect("a zone");
    let node = get(&zone, "s.example.");
    let lone: Vec<Ttl> = node.rrset(Type::RRSIG).expect("two").rdatas().map(|r| r.ttl()).collect();
    assert_eq!(lone, [60, 61].map(Ttl::from_secs));
    let txt = node.rrset(Type::TXT).expect("TXT");
    assert_eq!(txt.sig_rdatas().map(|r| r.ttl()).collect::<Vec<_>>(), [62, 62].map(Ttl::from_secs));
    assert_eq!((txt.ttl(), kinds(&b)), (Ttl::from_secs(7), vec![NoteKind::TtlMismatch]));
}

/// Names that occur again and again in random order, and deep names without parents: many blobs are dead at
/// the end, and the index has to grow.
#[test]
fn zones_without_any_order_are_put_together() {
    let mut b = builder("example.");
    let mut expected: BTreeMap<NameBuf, Vec<u8>> = BTreeMap::new();
    for i in 0..30_000u32 {
        let shuffled = i.wrapping_mul(7_919) % 30_000;
        let owner = name(&format!("n{}.p{}.q{}.example.", shuffled / 3, shuffled / 6, shuffled / 60));
        b.add(owner.as_name(), Type::TXT, MINUTE, &[1, (shuffled % 3) as u8]).expect("a record");
        expected.entry(owner).or_default().push((shuffled % 3) as u8);
    }
    let zone = b.finish().expect("a zone");
    assert_eq!(zone.record_count(), 30_002);
    assert_eq!(zone.node_count(), 10_000 + 5_000 + 500 + 1);
    for (owner, texts) in &expected {
        let node = zone.find_name(owner.as_name()).expect("there");
        let set = node.rrset(Type::TXT).expect("TXT");
        let seen: Vec<u8> = set.rdatas().map(|rdata| rdata.compiled()[1]).collect();
        assert_eq!(&seen, texts, "in the order they came");
        let parent = zone.find_name(owner.as_name().skip(1)).expect("an empty non-terminal");
        assert!(parent.flags().contains(NodeFlags::EMPTY));
    }
    let names: Vec<NameBuf> = zone.iter().map(|node| node.owner().as_name().to_buf()).collect();
    assert!(names.is_sorted() && names.len() == 15_501);
    assert!(zone.memory() < 2_500_000, "dead blobs are gone: {}", zone.memory());
    assert!(kinds(&b).is_empty());
}

/// Names that each have `depth` empty non-terminals above them.
fn deep_names(count: usize, depth: usize) -> impl Iterator<Item = NameBuf> {
    (0..count).map(move |i| name(&format!("{}n{i}.example.", "x.".repeat(depth))))
}

#[test]
fn the_memory_for_a_zone_was_bounded_while_its_records_came_but_not_while_it_was_made() {
    let deep = |b: &mut ZoneBuilder| {
        let names = deep_names(2_000, 110);
        names.for_each(|owner| b.add(owner.as_name(), Type::A, MINUTE, &[0; 4]).expect("a record"));
    };
    // Each name occurs in two places.
    let twice = |b: &mut ZoneBuilder| {
        (0..2).for_each(|n| {
            (0..40_000).for_each(|i| add(b, &format!("n{i}.example."), Type::TXT, 60, &[1, n]));
        });
    };
    let fills: [&dyn Fn(&mut ZoneBuilder); 2] = [&deep, &twice];
    for fill in fills {
        let made = |most: usize| {
            let mut b = builder("example.");
            fill(&mut b);
            let (came, mut peak) = (b.memory(), 0);
            let zone = b.finish_within(&mut |bytes| {
                peak = peak.max(bytes);
                bytes <= most
            });
            (came, peak, zone.map(|zone| zone.memory()))
        };
        let (came, peak, zone) = made(usize::MAX);
        let zone = zone.expect("a zone");
        // Large parts use whole huge pages.
        assert!(peak > came && peak + (4 << 20) > zone, "{came} {peak} {zone}");
        assert_eq!(made(peak).2, Ok(zone));
        assert_eq!(made(peak - 1).2, Err(BuildError::OutOfMemory));
    }
}

#[test]
fn the_memory_for_a_change_was_not_bounded() {
    let soa = |serial: u32| {
        let mut soa = b"\x02ns\0\x05admin\0".to_vec();
        [serial, 2, 3, 4, 5].iter().for_each(|n| soa.extend_from_slice(&n.to_be_bytes()));
        soa
    };
    let zone = builder("example.").finish().expect("a zone");
    // A change of nodes, and one so large that a new base is built.
    for (count, depth, own_base) in [(400, 110, false), (5_000, 8, true)] {
        let mut change = ChangeSet { before: Serial(1), after: Serial(2), ..ChangeSet::default() };
        change.removed.push(name("example.").as_name(), Type::SOA, HOUR, &soa(1));
        change.added.push(name("example.").as_name(), Type::SOA, HOUR, &soa(2));
        deep_names(count, depth)
            .for_each(|owner| change.added.push(owner.as_name(), Type::A, MINUTE, &[0; 4]));
        let made = |most: usize| {
            let mut peak = 0;
            let zone = zone.apply_within(&change, &mut |bytes| {
                peak = peak.max(bytes);
                bytes <= most
            });
            (peak, zone)
        };
        let (peak, version) = made(usize::MAX);
        let version = version.expect("a version");
        assert_eq!(version.overlay_estimate() == 0, own_base);
        let taken = if own_base { version.memory() / 2 } else { version.overlay_size().bytes * 2 / 3 };
        assert!(peak > taken, "{peak} {taken}");
        assert!(made(peak).1.is_ok());
        assert_eq!(made(peak - 1).1.err(), Some(ChangeError::OutOfMemory));
    }
}

/// Checks a build on several threads: duplicate names, targets and parents are all in other chunks.
#[test]
fn a_zone_of_several_chunks_has_all_its_names_and_targets() {
    let mut b = builder("example.");
    let filler = [&[255][..], &[b'x'; 255]].concat().repeat(60);
    let hosts = 5_000;
    for round in ["first", "second"] {
        for i in 0..hosts {
            add(
                &mut b,
                &format!("h{i}.sub{}.example.", i % 700),
                Type::TXT,
                60,
                format!("\x01{}", &round[..1]).as_bytes(),
            );
            let mail = (i * 7919) % hosts;
            let target =
                [&[0, 10], name(&format!("h{mail}.sub{}.example.", mail % 700)).as_name().as_wire()].concat();
            add(&mut b, &format!("m{i}.{round}.example."), Type::MX, 60, &target);
            if i % 4 == 0 {
                add(&mut b, &format!("big{i}.{round}.example."), Type::TXT, 60, &filler);
            }
        }
    }
    let zone = b.finish().expect("a zone");
    assert!(zone.arena.chunk_count() > 1, "one chunk is finished on one thread");
    assert_eq!(zone.node_count(), 1 + 2 + 700 + hosts as u64 * 3 + 2 * hosts as u64 / 4);
    for i in 0..hosts {
        let texts = get(&zone, &format!("h{i}.sub{}.example.", i % 700)).rrset(Type::TXT).expect("TXT");
        assert_eq!(texts.count(), 2, "h{i}");
        assert!(get(&zone, &format!("sub{}.example.", i % 700)).flags().contains(NodeFlags::EMPTY));
        for round in ["first", "second"] {
            let mail = (i * 7919) % hosts;
            let set = get(&zone, &format!("m{i}.{round}.example.")).rrset(Type::MX).expect("MX");
            let at = get(&zone, &format!("h{mail}.sub{}.example.", mail % 700)).address();
            assert_eq!(set.target_addresses().collect::<Vec<_>>(), [at], "m{i}.{round}");
        }
    }
}

/// A name and its records.
type Named = (String, Vec<(Type, Vec<u8>)>);

/// Names at every kind of position in a zone, each with its records: those that can be settled on arrival in
/// the usual order, and others.
fn names_in_order(count: usize) -> Vec<Named> {
    let target = |host: &str| name(host).as_name().as_wire().to_vec();
    let mx = |host: &str| [&[0, 10], &target(host)[..]].concat();
    let mut all = Vec::new();
    for i in 0..count {
        let (cut, under) = (format!("d{i}.example."), format!("u{i}.example."));
        let own = [format!("ns1.{cut}"), format!("NS2.{cut}")];
        let own = if i % 3 == 0 { &own[..1] } else { &own };
        let mut ns: Vec<_> = own.iter().map(|host| (Type::NS, target(host))).collect();
        ns.push((Type::NS, target("ns.elsewhere.")));
        if i % 3 > 0 {
            ns.push((Type::NS, target(&format!("ns1.d{}.example.", (i + 1) % count))));
            // Some have more targets than can wait for a later name.
            ns.extend((0..i % 40).map(|j| (Type::NS, target(&format!("u{}.example.", (i + j) % count)))));
        }
        all.push((cut.clone(), ns));
        for host in own.iter().take(1 + i % 2) {
            all.push((host.to_ascii_lowercase(), vec![(Type::A, vec![192, 0, 2, i as u8])]));
        }
        all.push((format!("deep.ns1.{cut}"), vec![(Type::MX, mx(&under))]));
        all.push((under.clone(), vec![(Type::MX, mx(&format!("a.gap.{under}"))), (Type::A, vec![1; 4])]));
        all.push((format!("*.{under}"), vec![(Type::CNAME, target(&under))]));
        all.push((format!("a.gap.{under}"), vec![(Type::MX, mx(&format!("gap.{under}")))]));
        all.push((format!("b.gap.{under}"), vec![(Type::MX, mx("example."))]));
        if i % 5 == 0 {
            all.push((format!("t.{under}"), vec![(Type::DNAME, target(&cut))]));
            all.push((format!("*.t.{under}"), vec![(Type::TXT, b"\x01x".to_vec())]));
        }
    }
    all
}

/// The content of a zone by name: flags, records, and the owners of the target nodes.
fn known(zone: &Zone) -> BTreeMap<NameBuf, (NodeFlags, Vec<Option<NameBuf>>)> {
    let of = |node: Node<'_>| {
        let targets = node.rrsets().flat_map(|set| set.targets());
        let targets = targets.map(|target| target.node.map(|node| node.owner().as_name().to_buf()));
        (node.owner().as_name().to_buf(), (node.flags(), targets.collect()))
    };
    zone.iter().map(of).collect()
}

#[test]
fn what_is_found_out_as_names_come_is_what_is_found_out_at_the_end() {
    type Names<'a> = dyn Iterator<Item = &'a Named> + 'a;
    // Few names are in one pile, many in several; the most use several threads.
    for count in [3, 40, 1000, 25_000] {
        let names = names_in_order(count);
        let build = |names: &mut Names<'_>, last: Option<&str>| {
            let mut b = builder("example.");
            for (owner, records) in names {
                records.iter().for_each(|(t, rdata)| add(&mut b, owner, *t, 60, rdata));
            }
            last.into_iter().for_each(|owner| add(&mut b, owner, Type::TXT, 60, b"\x01x"));
            let left = (b.blobs.unsettled.len(), b.blobs.unresolved.len());
            (left, b.finish().expect("a zone"))
        };
        let ((unsettled, unresolved), zone) = build(&mut names.iter(), None);
        let expected = known(&zone);
        assert!(zone.arena.chunk_count() > 1 || count < 25_000);
        assert!(unsettled < 3 * count, "two have an empty non-terminal before them: {unsettled} of {count}");
        assert!(unresolved >= 4 * count && unresolved < 5 * count, "{unresolved} of {count}");
        assert_eq!((zone.node_count() as usize, zone.has_wildcards()), (expected.len(), true));
        let sets = zone.iter().flat_map(|node| node.rrsets()).map(|set| u64::from(set.count())).sum::<u64>();
        assert_eq!(zone.record_count(), sets);
        let ((unsettled, _), reversed) = build(&mut names.iter().rev(), None);
        assert!(unsettled > 3 * count, "{unsettled} of {count}");
        assert_eq!(known(&reversed), expected, "{count} names the other way round");
        assert_eq!((reversed.record_count(), reversed.node_count()), (sets, zone.node_count()));
        // A name that occurs again makes the builder redo everything.
        let lasts = ["example.", "d1.example.", "u2.example.", "ns1.d2.example."];
        for last in &lasts[..if count > 1000 { 1 } else { 4 }] {
            let (_, again) = build(&mut names.iter(), Some(last));
            assert_eq!((again.record_count(), again.node_count()), (sets + 1, zone.node_count()));
            let again = known(&again);
            assert_eq!(again, expected, "{last} again, {count} names");
        }
    }
}
