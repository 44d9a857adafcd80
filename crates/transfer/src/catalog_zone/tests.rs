//! What catalog zones list, and which zones that makes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use testkit::{Record, build, key, name};
use wire::{Name, NameBuf, Ttl, Type};
use zone::Zone;

use super::*;

fn record(owner: &str, rtype: Type, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, ttl: Ttl::ZERO, rdata: rdata.to_vec() }
}

/// `lines`: an owner below the catalog zone, and what it has: a name of a PTR record, or a text in quotes.
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
    zone_name(name(text).as_name())
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
/// Several.
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

/// The catalog zone that has `z.`, whether it is the zone from before, and how many list it in vain.
fn holder(settled: &Settled) -> (String, Claim, usize) {
    let (of, claim) = &settled.members[&zone_of("z.")];
    (shown(&of.catalog).to_string(), *claim, settled.conflicts.len())
}

#[test]
fn the_first_catalog_zone_gets_a_new_zone_and_keeps_it() {
    let both: Listed<'_> = &[("a.", &[("z.", "1", "")]), ("b.", &[("z.", "1", "")])];
    let first = settled(&BTreeMap::new(), both);
    assert_eq!(holder(&first), ("a.".into(), Claim::New, 1));
    let turned: Listed<'_> = &[both[1], both[0]];
    assert_eq!(holder(&settled(&members(&first), turned)), ("a.".into(), Claim::Kept, 1));
    // Gone from the first, it is another zone in the second.
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
    // It goes nowhere before the new owner lists it.
    let alone: Listed<'_> = &[("a.", &[("z.", "1", "b.")]), ("b.", &[])];
    assert_eq!(holder(&settled(&before, alone)), ("a.".into(), Claim::Kept, 0));
}

#[test]
fn no_catalog_zone_takes_a_configured_zone() {
    let settled = settled(&BTreeMap::new(), &[("a.", &[("configured.", "1", "")])]);
    assert!(settled.members.is_empty());
    assert_eq!(settled.conflicts[0].held_by, ListedIn::Configuration);
}

proptest! {
    #[test]
    fn what_is_produced_is_read_back(members: BTreeMap<[u8; 3], Option<[u8; 2]>>) {
        let zones: Vec<(NameBuf, Option<[u8; 2]>)> = members
            .iter()
            .map(|(label, group)| (NameBuf::prepend(label, Name::ROOT).expect("a name"), *group))
            .collect();
        let listed = zones.iter().map(|(zone, group)| ProducedMember {
            zone: zone.as_name(),
            group: group.as_ref().map(|group| &group[..]),
        });
        let records = member_records(name("cat.").as_name(), listed).expect("records");
        let mut builder = zone::ZoneBuilder::new(name("cat.").as_name(), &key());
        builder.add(name("cat.").as_name(), Type::SOA, Ttl::ZERO, &[0; 22]).expect("a record");
        builder.add(name("cat.").as_name(), Type::NS, Ttl::ZERO, name("invalid.").as_name().as_wire()).expect("a record");
        for record in records.iter() {
            builder.add(record.owner, record.rtype, record.ttl, record.rdata).expect("a record");
        }
        let read = CatalogZone::read(&builder.finish().expect("a zone")).expect("a catalog zone");
        prop_assert!(read.warnings.is_empty() || zones.len() > read.members.len());
        for (zone, group) in &zones {
            let member = &read.members[&zone_name(zone.as_name())];
            prop_assert_eq!(&member.id[..], &member_id(zone.as_name())[..]);
            let others = zones.iter().filter(|(other, _)| other.to_string().eq_ignore_ascii_case(&zone.to_string()));
            if others.count() == 1 {
                prop_assert_eq!(&member.groups, &group.iter().map(|g| g[..].into()).collect::<Vec<Box<[u8]>>>());
            }
        }
    }
}
