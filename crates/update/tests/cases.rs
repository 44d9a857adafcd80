//! Single cases, each for a sentence of an RFC or for a fault to prevent.

mod support;

use std::sync::Arc;

use support::{Raw, apex, message, rdata_of, zone};
use testkit::versions::records;
use testkit::{Chain, ModelRecord, build, key, name, sign};
use update::{
    Requester, SerialPolicy, UpdateFault, UpdateFaultKind as Kind, UpdateLimits, UpdatePolicy, UpdateRequest,
    Updater,
};
use wire::{Class, Rcode, Serial, Ttl, Type, UnixTime};
use zone::Zone;
use zone::store::ChangeSet;

fn raw(owner: &str, rtype: Type, class: Class, rdata: Vec<u8>) -> Raw {
    let ttl = if class == Class::IN { 60 } else { 0 };
    Raw { is_prerequisite: false, owner: name(owner), rtype, class, ttl, rdata }
}

fn add(owner: &str, rtype: Type, number: u8) -> Raw {
    raw(owner, rtype, Class::IN, rdata_of(rtype, number))
}

fn read(raws: &[Raw]) -> Result<UpdateRequest, UpdateFault> {
    UpdateRequest::read(&message(raws), UpdateLimits::default())
}

fn policy(rules: &[&str]) -> UpdatePolicy {
    UpdatePolicy::new(rules.iter().map(|rule| rule.parse().expect("a rule")))
}

fn apply(updater: &mut Updater, raws: &[Raw], rules: &[&str]) -> Result<Option<ChangeSet>, UpdateFault> {
    let policy = policy(rules);
    let permission =
        policy.permission(Requester { key: None, address: [127, 0, 0, 1].into(), certificate: None });
    updater.apply(&read(raws)?, &permission, SerialPolicy::Increment, UnixTime::EPOCH)
}

const ALL: &[&str] = &["grant any zone ANY"];

/// The small zone after one request.
fn after(raws: &[Raw]) -> (Zone, Serial) {
    let mut updater = Updater::new(&Arc::new(zone()));
    let _change = apply(&mut updater, raws, ALL).expect("done");
    let serial = updater.serial();
    (updater.finish().expect("a zone").map_or_else(zone, |(zone, _)| zone), serial)
}

fn of(zone: &Zone, owner: &str, rtype: Type) -> Vec<(u32, Vec<u8>)> {
    let of_set = |record: &ModelRecord| record.owner == name(owner) && record.rtype == rtype;
    let found = records(zone).into_iter().filter(of_set);
    found.map(|record| (record.ttl.as_secs(), record.rdata)).collect()
}

#[test]
fn the_whole_rrset_gets_the_ttl_of_the_newest_record() {
    let newest = Raw { ttl: 7, ..add("a.example.", Type::A, 3) };
    let (zone, serial) = after(&[newest]);
    let ttls: Vec<u32> = of(&zone, "a.example.", Type::A).iter().map(|(ttl, _)| *ttl).collect();
    assert_eq!((ttls, serial), (vec![7, 7, 7], Serial(6)));
    // Also if the record exists already.
    let (zone, _) = after(&[Raw { ttl: 7, ..add("a.example.", Type::A, 1) }]);
    assert!(of(&zone, "a.example.", Type::A).iter().all(|(ttl, _)| *ttl == 7));
}

#[test]
fn what_changes_nothing_has_no_serial_number_of_its_own() {
    for raws in [
        vec![],
        vec![add("a.example.", Type::A, 1)],
        vec![raw("c.example.", Type::ANY, Class::ANY, vec![])],
        vec![raw("a.example.", Type::A, Class::NONE, rdata_of(Type::A, 1)), add("a.example.", Type::A, 1)],
        vec![add("c.example.", Type::A, 1), raw("c.example.", Type::A, Class::ANY, vec![])],
        vec![add("a.example.", Type::CNAME, 1)],
        vec![add("b.example.", Type::A, 1)],
        vec![add("example.", Type::DS, 1)],
        vec![add("a.example.", Type::SOA, 2)],
    ] {
        let mut updater = Updater::new(&Arc::new(zone()));
        assert_eq!(apply(&mut updater, &raws, ALL), Ok(None), "{raws:?}");
        assert_eq!(updater.serial(), Serial(5));
        assert!(updater.finish().expect("a zone").is_none());
    }
}

#[test]
fn the_soa_and_the_last_ns_stay() {
    let gone = |rtype| raw("example.", rtype, Class::ANY, vec![]);
    let last = raw("example.", Type::NS, Class::NONE, rdata_of(Type::NS, 2));
    let soa = raw("example.", Type::SOA, Class::NONE, rdata_of(Type::SOA, 1));
    let (zone, serial) = after(&[
        gone(Type::SOA),
        gone(Type::NS),
        last.clone(),
        soa,
        gone(Type::ANY),
        add("c.example.", Type::A, 0),
    ]);
    assert_eq!((zone.record_count(), serial), (9, Serial(6)));
    // Beside another NS record, it can be deleted.
    let (zone, _) = after(&[add("example.", Type::NS, 3), last]);
    assert_eq!(of(&zone, "example.", Type::NS), [(60, rdata_of(Type::NS, 3))]);
}

#[test]
fn an_soa_of_a_later_version_is_taken_as_it_is() {
    // 8 is after 5; 1 is not, and 3,000,000,000 is too far away.
    assert_eq!(after(&[add("example.", Type::SOA, 2)]).1, Serial(8));
    for not_later in [0, 1, 5] {
        let raws = [add("example.", Type::SOA, not_later), add("c.example.", Type::A, 0)];
        assert_eq!(after(&raws).1, Serial(6));
    }
}

#[test]
fn letter_case_makes_no_other_record() {
    let upper = Raw { owner: name("A.EXAMPLE."), ..add("a.example.", Type::MX, 0) };
    let lower = Raw { rdata: rdata_of(Type::MX, 0).to_ascii_uppercase(), ..add("a.example.", Type::MX, 0) };
    let (zone, _) = after(&[upper, lower]);
    assert_eq!(of(&zone, "a.example.", Type::MX), [(60, rdata_of(Type::MX, 0))]);
    let node = zone.find_name(name("a.example.").as_name()).expect("a node");
    assert_eq!(node.written_owner().to_string(), "A.example.");
}

#[test]
fn an_empty_non_terminal_is_no_name_in_use() {
    let prerequisite =
        |owner: &str| Raw { is_prerequisite: true, ..raw(owner, Type::ANY, Class::ANY, vec![]) };
    let ask = |owner: &str| {
        let mut updater = Updater::new(&Arc::new(zone()));
        apply(&mut updater, &[prerequisite(owner)], ALL).map_err(|fault| fault.kind)
    };
    assert_eq!(ask("x.y.b.example."), Ok(None));
    assert_eq!(ask("y.b.example."), Err(Kind::NameNotInUse));
}

#[test]
fn requests_build_on_each_other_and_one_that_fails_leaves_nothing() {
    let start = Arc::new(zone());
    let mut updater = Updater::new(&start);
    let first = apply(&mut updater, &[add("c.example.", Type::A, 0)], ALL).expect("done").expect("a change");
    let large = Raw { rdata: vec![0; 65_000], ..raw("d.example.", Type(65_280), Class::IN, vec![]) };
    assert!(apply(&mut updater, std::slice::from_ref(&large), ALL).is_ok());
    let other = Raw { rdata: vec![1; 65_000], ..large };
    let fault = apply(&mut updater, &[raw("c.example.", Type::A, Class::ANY, vec![]), other], ALL);
    assert_eq!(
        fault.map_err(|fault| (fault.kind, fault.rcode())),
        Err((Kind::RrsetTooLarge, Rcode::REFUSED))
    );
    let prerequisite = Raw { is_prerequisite: true, ..raw("c.example.", Type::A, Class::ANY, vec![]) };
    let third = apply(&mut updater, &[prerequisite, add("c.example.", Type::A, 1)], ALL);
    let third = third.expect("the name is there since the first").expect("a change");
    assert_eq!(
        (first.before, first.after, third.before, third.after),
        (Serial(5), Serial(6), Serial(7), Serial(8))
    );
    let (version, change) = updater.finish().expect("a zone").expect("a change");
    assert_eq!((change.before, change.after, version.serial()), (Serial(5), Serial(8), Serial(8)));
    assert_eq!(of(&version, "c.example.", Type::A).len(), 2);
    // The combined change has one change of the SOA.
    assert_eq!((change.removed.len(), change.added.len()), (1, 4));
    assert_eq!(change.added.get(0).map(|soa| soa.rtype), Some(Type::SOA));
}

#[test]
fn a_zone_signed_by_others_takes_nothing() {
    let signed = sign(apex().as_name(), &records(&zone()), &Chain::Nsec);
    let signed = Arc::new(build(apex().as_name(), &key(), &signed));
    let fault = apply(&mut Updater::new(&signed), &[add("c.example.", Type::A, 0)], ALL);
    assert_eq!(fault.map_err(|fault| fault.kind), Err(Kind::SignedZone));
}

/// Deleting all RRsets of a name leaves no name behind, although its signatures go only when the zone is
/// signed again.
#[test]
fn requests_do_not_see_what_the_signer_of_this_server_has_made() {
    let signed = sign(apex().as_name(), &records(&zone()), &Chain::Nsec);
    let signed = Arc::new(build(apex().as_name(), &key(), &signed));
    let mut updater = Updater::of_signed_here(&signed);
    let free = Raw { is_prerequisite: true, ..raw("a.example.", Type::ANY, Class::NONE, vec![]) };
    let again = [free, add("a.example.", Type::A, 9)];
    assert_eq!(apply(&mut updater, &again, ALL).map_err(|fault| fault.kind), Err(Kind::NameInUse));
    let gone = apply(&mut updater, &[raw("a.example.", Type::ANY, Class::ANY, vec![])], ALL);
    let gone = gone.expect("done").expect("a change");
    assert!(gone.removed.iter().all(|record| !update::is_signers(record.rtype)));
    assert!(apply(&mut updater, &again, ALL).expect("the name is free").is_some());
    let change = updater.into_change().expect("a change");
    assert_eq!((change.before, change.after), (Serial(5), Serial(7)));
}

#[test]
fn what_signers_make_is_refused_in_every_zone_and_keys_are_not() {
    for rtype in [Type::RRSIG, Type::NSEC, Type::NSEC3, Type::NSEC3PARAM] {
        let fault =
            apply(&mut Updater::new(&Arc::new(zone())), &[raw("example.", rtype, Class::ANY, vec![])], ALL);
        assert_eq!(fault.map_err(|fault| fault.kind), Err(Kind::SignersType), "{rtype}");
    }
    let dnskey = raw("example.", Type::DNSKEY, Class::IN, vec![1, 1, 3, 13, 7]);
    assert_eq!(of(&after(&[dnskey]).0, "example.", Type::DNSKEY).len(), 1);
}

#[test]
fn nobody_learns_of_names_who_may_change_none() {
    let prerequisite = Raw { is_prerequisite: true, ..raw("nope.example.", Type::ANY, Class::ANY, vec![]) };
    let ask = |raws: &[Raw], rules: &[&str]| {
        apply(&mut Updater::new(&Arc::new(zone())), raws, rules).map_err(|fault| fault.kind)
    };
    assert_eq!(ask(std::slice::from_ref(&prerequisite), &["deny any zone"]), Err(Kind::NotPermitted));
    let raws = [prerequisite, add("b.example.", Type::A, 0)];
    assert_eq!(ask(&raws, &["grant any name c.example."]), Err(Kind::NotPermitted));
}

#[test]
fn all_rrsets_of_a_name_go_only_if_each_of_them_may() {
    let ask = |owner: &str, rules: &[&str]| {
        let gone = raw(owner, Type::ANY, Class::ANY, vec![]);
        let mut updater = Updater::new(&Arc::new(zone()));
        let both = [add("a.example.", Type::TXT, 0)];
        assert!(apply(&mut updater, &both, ALL).is_ok());
        apply(&mut updater, &[gone], rules).map(|change| change.is_some()).map_err(|fault| fault.kind)
    };
    assert_eq!(ask("a.example.", &["grant any zone A TXT"]), Ok(true));
    assert_eq!(ask("a.example.", &["grant any zone A"]), Err(Kind::NotPermitted));
    assert_eq!(ask("none.example.", &["grant any zone A"]), Ok(false));
    assert_eq!(ask("none.example.", &["grant any name a.example. A"]), Err(Kind::NotPermitted));
    // SOA and NS stay, so the client needs no permission to delete them.
    assert_eq!(ask("example.", &["grant any zone A"]), Ok(false));
}

#[test]
fn a_request_that_is_not_well_formed_is_no_request() {
    let kind =
        |message: &[u8]| UpdateRequest::read(message, UpdateLimits::default()).map_err(|fault| fault.kind);
    let good = message(&[add("a.example.", Type::A, 0)]);
    assert!(kind(&good).is_ok());
    for end in 0..good.len() {
        assert!(kind(&good[..end]).is_err(), "{end}");
    }
    assert_eq!(kind(&[&good[..], &[0]].concat()), Err(Kind::Malformed));
    let with = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        kind(&message).map(|_| ())
    };
    assert_eq!(with(2, 0), Err(Kind::Malformed), "a query");
    assert_eq!(with(2, 0xa8), Err(Kind::Malformed), "a response");
    assert_eq!(with(5, 0), Err(Kind::ZoneSection));
    assert_eq!(with(22, 1), Err(Kind::ZoneSection), "type A");
    assert_eq!(with(24, 3), Err(Kind::OtherZone), "class CH");
    let few = UpdateLimits { records: 0 };
    assert_eq!(UpdateRequest::read(&good, few).map_err(|fault| fault.kind), Err(Kind::TooManyRecords));
    let short = Raw { rdata: vec![1, 2, 3], ..add("a.example.", Type::A, 0) };
    assert_eq!(read(&[short]).map_err(|fault| fault.kind), Err(Kind::BadData));
    let other = zone_of_another_name();
    assert_eq!(other.map_err(|fault| fault.kind), Err(Kind::OtherZone));
}

fn zone_of_another_name() -> Result<Option<ChangeSet>, UpdateFault> {
    let apex = name("other.");
    let records: Vec<ModelRecord> = records(&zone())
        .into_iter()
        .filter(|record| record.owner == self::apex())
        .map(|record| ModelRecord { owner: apex, ..record })
        .collect();
    let other = Arc::new(build(apex.as_name(), &key(), &records));
    apply(
        &mut Updater::new(&other),
        &[Raw { ttl: Ttl::ZERO.as_secs(), ..add("a.example.", Type::A, 0) }],
        ALL,
    )
}
