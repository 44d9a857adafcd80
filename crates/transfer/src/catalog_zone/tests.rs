//! Reading catalog zones, and determining the members.

use std::collections::BTreeMap;

use proptest::prelude::*;
use testkit::{Record, build, key, name};
use wire::{Serial, Ttl, Type, ZoneName};
use zone::Zone;
use zone::store::{ChangeSet, ChangedRecords};

use super::*;

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, ttl: Ttl::ZERO, rdata: rdata.to_vec() }
}

/// `lines`: an owner name below the catalog zone, and the name of its PTR record, or a quoted text.
fn catalog(lines: &[(&str, &str)]) -> Zone {
    let soa = [&[0, 0][..], &[0, 0, 0, 1], &[0; 16]].concat();
    let mut records =
        vec![record("cat.", Type::SOA, &soa), record("cat.", Type::NS, name("invalid.").as_name().as_wire())];
    records.extend(lines.iter().map(|(owner, data)| {
        let owner = format!("{owner}.cat.");
        match data.strip_prefix('"') {
            Some(text) => record(&owner, Type::TXT, &[&[text.len() as u8], text.as_bytes()].concat()),
            None => record(&owner, Type::PTR, name(data).as_name().as_wire()),
        }
    }));
    build(name("cat.").as_name(), &key(), &records)
}

fn read(lines: &[(&str, &str)]) -> Result<CatalogZone, CatalogFault> {
    CatalogZone::read(&catalog(lines))
}

fn zone_of(text: &str) -> ZoneName {
    ZoneName::from(&name(text))
}

#[test]
fn members_have_labels_groups_and_new_owners() {
    let catalog = read(&[
        ("version", "\"2"),
        ("A1.zones", "One.example."),
        ("group.a1.zones", "\"gold"),
        ("coo.a1.zones", "Other.cat."),
        ("b.zones", "two.example."),
        ("unknown.b.zones", "\"passed over"),
        ("x.y.ext.b.zones", "\"passed over"),
        ("group.c.zones", "\"of no member"),
        ("zones", "\"no member either"),
        ("d.elsewhere", "three.example."),
    ])
    .expect("a catalog zone");
    let one = Member {
        id: b"a1"[..].into(),
        groups: vec![b"gold"[..].into()],
        new_owner: Some(zone_of("other.cat.")),
    };
    let two = Member { id: b"b"[..].into(), ..Member::default() };
    let expected = BTreeMap::from([(zone_of("one.example."), one), (zone_of("two.example."), two)]);
    assert_eq!((catalog.members, catalog.warnings), (expected, Vec::new()));
}

#[test]
fn a_broken_catalog_zone_is_not_processed() {
    assert_eq!(read(&[]), Err(CatalogFault::NoVersion));
    assert_eq!(read(&[("version", "\"2"), ("version", "\"3")]), Err(CatalogFault::NoVersion));
    assert_eq!(read(&[("version", "\"1")]), Err(CatalogFault::OtherVersion(b"1"[..].into())));
    let twice = [("version", "\"2"), ("a.zones", "one."), ("a.zones", "two.")];
    assert_eq!(read(&twice), Err(CatalogFault::SeveralNames(zone_of("a.zones.cat."))));
    let owners = [("version", "\"2"), ("a.zones", "one."), ("coo.a.zones", "x."), ("coo.a.zones", "y.")];
    assert_eq!(read(&owners), Err(CatalogFault::SeveralNames(zone_of("coo.a.zones.cat."))));
}

#[test]
fn what_is_listed_twice_counts_once() {
    let lines = [("version", "\"2"), ("b.zones", "one."), ("a.zones", "ONE."), ("c.zones", "cat.")];
    let catalog = read(&lines).expect("a catalog zone");
    assert_eq!(catalog.members[&zone_of("one.")].id[..], b"a"[..]);
    let twice = CatalogWarning::ListedTwice { zone: zone_of("one."), id: b"b"[..].into() };
    assert_eq!(catalog.warnings, [twice, CatalogWarning::ListsItself]);
}

/// A catalog zone's name and its members: zone, label, new owner.
type ListedBy<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)]);
/// Several catalog zones.
type Listed<'a> = &'a [ListedBy<'a>];

fn settled(before: &BTreeMap<ZoneName, MemberOf>, catalogs: Listed<'_>) -> Settled {
    let read: Vec<(ZoneName, CatalogZone)> = catalogs
        .iter()
        .map(|(catalog, members)| {
            let member = |(zone, id, to): &(&str, &str, &str)| {
                let new_owner = (!to.is_empty()).then(|| zone_of(to));
                (zone_of(zone), Member { id: id.as_bytes().into(), new_owner, ..Member::default() })
            };
            let members = members.iter().map(member).collect();
            (zone_of(catalog), CatalogZone { members, ..CatalogZone::default() })
        })
        .collect();
    let read: Vec<_> = read.iter().map(|(name, catalog)| (name.clone(), catalog)).collect();
    settle(before, &read, |zone| *zone == zone_of("configured."))
}

fn members(settled: &Settled) -> BTreeMap<ZoneName, MemberOf> {
    settled.members.iter().map(|(zone, (of, _))| (zone.clone(), of.clone())).collect()
}

/// The catalog zone that owns `z.`, whether it is the zone from before, and the number of conflicts.
fn holder(settled: &Settled) -> (String, Claim, usize) {
    let (of, claim) = &settled.members[&zone_of("z.")];
    (of.catalog.to_string(), *claim, settled.conflicts.len())
}

#[test]
fn the_first_catalog_zone_gets_a_new_zone_and_keeps_it() {
    let both: Listed<'_> = &[("a.", &[("z.", "1", "")]), ("b.", &[("z.", "1", "")])];
    let first = settled(&BTreeMap::new(), both);
    assert_eq!(holder(&first), ("a.".into(), Claim::New, 1));
    let turned: Listed<'_> = &[both[1], both[0]];
    assert_eq!(holder(&settled(&members(&first), turned)), ("a.".into(), Claim::Kept, 1));
    // If the first catalog no longer lists it, the second one lists another zone.
    assert_eq!(holder(&settled(&members(&first), &[("a.", &[]), both[1]])), ("b.".into(), Claim::New, 0));
}

#[test]
fn another_label_makes_it_another_zone() {
    let first = members(&settled(&BTreeMap::new(), &[("a.", &[("z.", "1", "")])]));
    assert_eq!(holder(&settled(&first, &[("a.", &[("z.", "2", "")])])), ("a.".into(), Claim::New, 0));
}

#[test]
fn a_change_of_ownership_keeps_the_zone_if_its_label_stays() {
    let before = members(&settled(&BTreeMap::new(), &[("a.", &[("z.", "1", "")])]));
    let moves = |id: &'static str| {
        let catalogs: [ListedBy<'_>; 2] = [("a.", &[("z.", "1", "b.")]), ("b.", &[("z.", id, "")])];
        holder(&settled(&before, &catalogs))
    };
    assert_eq!(moves("1"), ("b.".into(), Claim::Kept, 1));
    assert_eq!(moves("2"), ("b.".into(), Claim::New, 1));
    // It is not passed on before the new owner lists it.
    let alone: Listed<'_> = &[("a.", &[("z.", "1", "b.")]), ("b.", &[])];
    assert_eq!(holder(&settled(&before, alone)), ("a.".into(), Claim::Kept, 0));
}

#[test]
fn no_catalog_zone_takes_a_configured_zone() {
    let settled = settled(&BTreeMap::new(), &[("a.", &[("configured.", "1", "")])]);
    assert!(settled.members.is_empty());
    assert_eq!(settled.conflicts[0].held_by, ListedIn::Configuration);
}

/// Zones named by a number below 20, each with a label, groups and a new owner.
fn entries() -> impl Strategy<Value = BTreeMap<ZoneName, Member>> {
    let member =
        (0..4_u8, proptest::collection::btree_set("[a-c]{1,2}", 0..3), proptest::option::of(0..3_u8));
    proptest::collection::btree_map(0..20_u8, member, 0..12).prop_map(|all| {
        let entry =
            |(zone, (label, groups, owner)): (u8, (u8, std::collections::BTreeSet<String>, Option<u8>))| {
                let member = Member {
                    id: member_label([zone, label, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
                    groups: groups.into_iter().map(|group| group.into_bytes().into()).collect(),
                    new_owner: owner.map(|owner| zone_of(&format!("cat{owner}."))),
                };
                (zone_of(&format!("z{zone}.example.")), member)
            };
        all.into_iter().map(entry).collect()
    })
}

/// The change from a version with the old entries to one with the new.
fn change(old: &BTreeMap<ZoneName, Member>, new: &BTreeMap<ZoneName, Member>) -> ChangeSet {
    let apex = name("cat.");
    let mut step = version_step(apex.as_name(), Serial(7), Serial(8));
    let all: std::collections::BTreeSet<&ZoneName> = old.keys().chain(new.keys()).collect();
    for zone in all {
        let (before, after) = (old.get(zone), new.get(zone));
        record_change(apex.as_name(), zone.as_name(), before, after, &mut step).expect("there is room");
    }
    step
}

#[test]
fn an_entry_that_changes_its_group_keeps_its_other_record() {
    let entry = |group: &str| {
        let member =
            Member { id: member_label([7; 16]), groups: vec![group.as_bytes().into()], new_owner: None };
        BTreeMap::from([(zone_of("one.example."), member)])
    };
    let step = change(&entry("gold"), &entry("silver"));
    let types = |records: &ChangedRecords| records.iter().map(|record| record.rtype).collect::<Vec<_>>();
    assert_eq!(
        (types(&step.removed), types(&step.added)),
        (vec![Type::SOA, Type::TXT], vec![Type::SOA, Type::TXT])
    );
}

#[test]
fn a_catalog_zone_whose_name_leaves_no_room_for_members_is_refused() {
    let long = |labels: usize| name(&format!("{}cat.", "0123456789.".repeat(labels)));
    assert!(base_records(long(18).as_name(), Serial(1)).is_ok());
    assert!(base_records(long(19).as_name(), Serial(1)).is_err());
}

proptest! {
    #[test]
    fn what_is_produced_is_read_back_and_changed_into_what_comes_next(old in entries(), new in entries()) {
        let apex = name("cat.");
        let mut builder = zone::ZoneBuilder::new(apex.as_name(), &key());
        for record in base_records(apex.as_name(), Serial(7)).expect("there is room").iter() {
            builder.add(record.owner, record.rtype, record.ttl, record.rdata).expect("a record");
        }
        let first = change(&BTreeMap::new(), &old);
        for record in first.added.iter().filter(|record| record.rtype != Type::SOA) {
            builder.add(record.owner, record.rtype, record.ttl, record.rdata).expect("a record");
        }
        let zone = builder.finish().expect("a zone");
        let read = CatalogZone::read(&zone).expect("a catalog zone");
        prop_assert_eq!((&read.members, read.warnings.len()), (&old, 0));
        let step = change(&old, &new);
        prop_assert!(step.is_difference_sequence());
        let next = zone.apply(&step).expect("the next version");
        prop_assert_eq!(next.serial(), Serial(8));
        let mut read = CatalogZone::read(&next).expect("a catalog zone").members;
        // An existing record comes before a new one.
        read.values_mut().for_each(|member| member.groups.sort());
        prop_assert_eq!(read, new);
    }
}
