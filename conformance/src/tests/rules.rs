//! Tests of the rules for servers of zones: for each a case that it excuses and one close by that it must not.

use super::forwarding::{Says, pointing};
use super::{name, record, world};
use crate::compare::{self, Case, Facet};
use crate::explained;
use crate::query::{Query, rtype};
use crate::servers::Kind;
use crate::zones::{World, Zone};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// AA, as the second byte of the flags has it.
const AA: u8 = 4;

/// The differences between what nomen says and what all peers say, each with the rule that excuses it.
fn judged(world: &World, query: &Query, mine: &Says, theirs: &Says) -> BTreeMap<Facet, Option<&'static str>> {
    judged_against(world, query, mine, [theirs, theirs, theirs])
}

/// The same with BIND, NSD and Knot apart.
fn judged_against(
    world: &World,
    query: &Query,
    mine: &Says,
    theirs: [&Says; 3],
) -> BTreeMap<Facet, Option<&'static str>> {
    let mut replies = vec![(Kind::Nomen, mine.reply(query))];
    let peers = [Kind::Bind, Kind::Nsd, Kind::Knot].into_iter().zip(theirs);
    replies.extend(peers.map(|(kind, says)| (kind, says.reply(query))));
    let case = Case { query, message: None, world, replies, forwarding: None, resolving: None };
    let rule = |d: &compare::Difference| explained::explain(&case, Kind::Nomen, d).map(|r| r.id);
    compare::differences(&case, Kind::Nomen).iter().map(|d| (d.facet, rule(d))).collect()
}

fn excused(facets: &[Facet], rule: &'static str) -> BTreeMap<Facet, Option<&'static str>> {
    facets.iter().map(|facet| (*facet, Some(rule))).collect()
}

fn a(owner: &str) -> Vec<u8> {
    record(owner, rtype::A, 300, &[192, 0, 2, 1])
}

fn svcb(owner: &str, target: &str) -> Vec<u8> {
    record(owner, rtype::SVCB, 300, &[vec![0, 1], name(target).to_wire()].concat())
}

#[test]
fn only_addresses_of_its_targets_may_stand_beside_svcb() {
    let query = Query::plain(name("test."), rtype::SVCB);
    let says =
        |target: &str, additional: &[Vec<u8>]| Says::answer(&[svcb("test.", target)]).additional(additional);
    let judge = |mine: &Says, theirs: &Says| judged(&world(), &query, mine, theirs);
    let good = excused(&[Facet::Additional], "svcb-additional");
    let bad = BTreeMap::from([(Facet::Additional, None)]);
    let at = |target| judge(&says(target, &[a("host.test.")]), &says(target, &[]));
    assert_eq!(at("host.test."), good);
    assert_eq!(at("other.test."), bad);
    let own = judge(&says(".", &[a("test.")]), &says(".", &[]));
    assert_eq!(own, good, "the root is the owner itself");
    // The other may follow a CNAME at the target, and may not have an address that the subject left out.
    let alias = pointing("host.test.", rtype::CNAME, "end.test.");
    let less = |theirs: &[Vec<u8>]| judge(&says("host.test.", &[]), &says("host.test.", theirs));
    assert_eq!(less(&[alias.clone(), a("end.test.")]), good);
    assert_eq!(less(&[a("host.test.")]), bad);
    assert_eq!(less(&[alias, a("other.test.")]), bad);
    assert_eq!(less(&[pointing("other.test.", rtype::CNAME, "end.test.")]), bad);
}

#[test]
fn any_below_a_dname_may_stop_at_the_alias_and_nowhere_else() {
    let query = Query::plain(name("www.d.test."), rtype::ANY);
    let dname = pointing("d.test.", rtype::DNAME, "e.test.");
    let link = pointing("www.d.test.", rtype::CNAME, "www.e.test.");
    let whole = Says::answer(&[dname.clone(), link.clone(), a("www.e.test.")]);
    let judge = |mine: &[Vec<u8>]| judged(&world(), &query, &Says::answer(mine), &whole);
    let good = excused(&[Facet::Answer], "any-at-dname");
    assert_eq!(judge(&[dname.clone(), link.clone()]), good);
    let wrong = pointing("www.d.test.", rtype::CNAME, "www.f.test.");
    assert_ne!(judge(&[dname.clone(), wrong]), good);
    assert_ne!(judge(&[dname, link, a("other.test.")]), good);
}

#[test]
fn class_any_excuses_what_each_server_is_known_for_and_no_more() {
    let query = Query { class: 255, ..Query::plain(name("test."), rtype::A) };
    let ns = pointing("test.", rtype::NS, "ns.test.");
    let says = |flags: u8, authority: &[Vec<u8>]| {
        let mut says = Says::answer(&[a("test.")]).authority(authority);
        says.flags = flags;
        says
    };
    let judge = |theirs: &Says| judged(&world(), &query, &says(0, std::slice::from_ref(&ns)), theirs);
    assert_eq!(judge(&says(AA, std::slice::from_ref(&ns))), excused(&[Facet::Aa], "class-any"));
    assert_eq!(judge(&says(0, &[])), excused(&[Facet::Authority], "class-any"));
    let other = says(0, &[pointing("test.", rtype::NS, "other.test.")]);
    assert_eq!(judge(&other), BTreeMap::from([(Facet::Authority, None)]));
    assert_eq!(judge(&says(0, std::slice::from_ref(&ns)).rcode(3)), BTreeMap::from([(Facet::Rcode, None)]));
}

#[test]
fn only_a_nearly_full_datagram_fits_here_and_not_there() {
    const TC: u8 = 2;
    let query = Query::plain(name("test."), rtype::TXT);
    let text = |len: usize| Says::answer(&[record("test.", rtype::TXT, 300, &vec![7; len])]);
    let mut cut = Says::default();
    cut.flags = TC;
    let facets = |len| judged_against(&world(), &query, &cut, [&text(len), &text(len), &cut]);
    assert_eq!(facets(470).get(&Facet::Tc), Some(&Some("fits-or-not")));
    // That one peer truncates as well is no excuse.
    assert_eq!(facets(100).get(&Facet::Tc), Some(&None));
}

#[test]
fn a_wildcard_without_records_is_no_data_where_it_has_names_below() {
    let zone = |nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (name(node).lower(), BTreeSet::from(["A".to_owned()]))).collect();
        let (source, full) = (PathBuf::new(), PathBuf::new());
        Zone { name: name("test."), source, full, refused_by: Vec::new(), nodes, signed: false }
    };
    let world = |nodes: &[&str]| World { name: "one", zones: vec![zone(nodes)], share: 1 };
    let query = Query::plain(name("x.test."), rtype::A);
    let none = Says::fails(3);
    let judge = |nodes: &[&str], mine: &Says, knot: &Says| {
        judged_against(&world(nodes), &query, mine, [&none, &none, knot])
    };
    let nodata = Says::default();
    let good = excused(&[Facet::Rcode], "wildcard-without-data");
    let bad = BTreeMap::from([(Facet::Rcode, None)]);
    assert_eq!(judge(&["test.", "b.*.test."], &nodata, &nodata), good);
    assert_eq!(judge(&["test.", "b.*.test."], &nodata, &none), bad, "Knot says so, too");
    assert_eq!(judge(&["test.", "*.test."], &nodata, &nodata), bad, "the wildcard has records");
    assert_eq!(judge(&["test.", "b.a.test."], &nodata, &nodata), bad, "there is no wildcard");
    assert_eq!(judge(&["test.", "b.x.test."], &nodata, &nodata), bad, "the name itself is there");
}
