//! Tests of the rules for authoritative servers: for each a case that it excuses and a similar one that it
//! must not.

use super::forwarding::{Says, pointing};
use super::{name, record, world};
use crate::compare::{self, Case, Facet};
use crate::explained;
use crate::messages::Message;
use crate::query::{Query, rtype};
use crate::servers::Kind;
use crate::zones::{World, Zone};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// AA and TC, in the first flag byte, and the opcode of NOTIFY.
const AA: u8 = 4;
const TC: u8 = 2;
const NOTIFY: u8 = 4 << 3;

/// Returns the differences between the replies of nomen and of all peers, each with the rule that excuses it.
fn judged(world: &World, query: &Query, mine: &Says, theirs: &Says) -> BTreeMap<Facet, Option<&'static str>> {
    judged_against(world, query, mine, [theirs, theirs, theirs])
}

/// Like [`judged`], with separate replies of BIND, NSD and Knot.
fn judged_against(
    world: &World,
    query: &Query,
    mine: &Says,
    theirs: [&Says; 3],
) -> BTreeMap<Facet, Option<&'static str>> {
    judged_message(world, query, None, mine, theirs)
}

/// Like [`judged`], for a message of the suite of odd ones.
fn judged_message(
    world: &World,
    query: &Query,
    message: Option<&Message>,
    mine: &Says,
    theirs: [&Says; 3],
) -> BTreeMap<Facet, Option<&'static str>> {
    let mut replies = vec![(Kind::Nomen, mine.reply(query))];
    let peers = [Kind::Bind, Kind::Nsd, Kind::Knot].into_iter().zip(theirs);
    replies.extend(peers.map(|(kind, says)| (kind, says.reply(query))));
    let case = Case { query, message, world, replies, forwarding: None, resolving: None };
    let rule = |d: &compare::Difference| explained::explain(&case, Kind::Nomen, d).map(|r| r.id);
    compare::differences(&case, Kind::Nomen).iter().map(|d| (d.facet, rule(d))).collect()
}

fn excused(facets: &[Facet], rule: &'static str) -> BTreeMap<Facet, Option<&'static str>> {
    facets.iter().map(|facet| (*facet, Some(rule))).collect()
}

/// A zone with these names, each with an address unless a type precedes it.
fn zone(apex: &str, nodes: &[&str]) -> Zone {
    let node = |text: &&str| {
        let (types, owner) = text.split_once(' ').unwrap_or(("A", text));
        (name(owner).lower(), BTreeSet::from([types.to_owned()]))
    };
    let nodes = nodes.iter().map(node).collect();
    let (source, full) = (PathBuf::new(), PathBuf::new());
    Zone { name: name(apex), source, full, refused_by: Vec::new(), nodes, signed: false }
}

fn flagged(mut says: Says, flags: u8) -> Says {
    says.flags = flags;
    says
}

fn soa(owner: &str) -> Vec<u8> {
    record(owner, rtype::SOA, 300, &[&[0; 2][..], &[0; 20]].concat())
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
    // The other may follow a CNAME at the target, but must not have an address that the subject lacks.
    let alias = pointing("host.test.", rtype::CNAME, "end.test.");
    let less = |theirs: &[Vec<u8>]| judge(&says("host.test.", &[]), &says("host.test.", theirs));
    assert_eq!(less(&[alias.clone(), a("end.test.")]), good);
    assert_eq!(less(&[a("host.test.")]), bad);
    assert_eq!(less(&[alias, a("other.test.")]), bad);
    assert_eq!(less(&[pointing("other.test.", rtype::CNAME, "end.test.")]), bad);
}

#[test]
fn only_knot_may_send_nsec3_beside_svcb_and_only_of_the_target() {
    let query = Query::plain(name("test."), rtype::SVCB);
    let says = |additional: &[Vec<u8>]| Says::answer(&[svcb("test.", "host.test.")]).additional(additional);
    let nsec3 = |next: u8| {
        let rdata = [&[1, 0, 0, 0, 0, 20][..], &[next; 20]].concat();
        record("00000000000000000000000000000000.test.", rtype::NSEC3, 300, &rdata)
    };
    let own = a("host.test.");
    // No two of the others agree.
    let alias = says(&[pointing("host.test.", rtype::CNAME, "end.test.")]);
    let judge = |knot: &Says| {
        judged_against(&world(), &query, &says(std::slice::from_ref(&own)), [&says(&[]), &alias, knot])
    };
    let good = excused(&[Facet::Additional], "svcb-additional");
    let bad = BTreeMap::from([(Facet::Additional, None)]);
    assert_eq!(judge(&says(&[own.clone(), nsec3(255)])), good, "it covers everything");
    assert_eq!(judge(&says(&[own.clone(), nsec3(0)])), good, "the only one of its chain does so as well");
    assert_eq!(judge(&says(&[own.clone(), nsec3(1)])), bad, "it covers what is hashed to next to nothing");
    let proven = says(&[own.clone(), nsec3(255)]);
    assert_eq!(judged(&world(), &query, &says(&[own]), &proven), bad, "from others, too");
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
    let says =
        |flags: u8, authority: &[Vec<u8>]| flagged(Says::answer(&[a("test.")]).authority(authority), flags);
    let judge = |theirs: &Says| judged(&world(), &query, &says(0, std::slice::from_ref(&ns)), theirs);
    assert_eq!(judge(&says(AA, std::slice::from_ref(&ns))), excused(&[Facet::Aa], "class-any"));
    assert_eq!(judge(&says(0, &[])), excused(&[Facet::Authority], "class-any"));
    let other = says(0, &[pointing("test.", rtype::NS, "other.test.")]);
    assert_eq!(judge(&other), BTreeMap::from([(Facet::Authority, None)]));
    assert_eq!(judge(&says(0, std::slice::from_ref(&ns)).rcode(3)), BTreeMap::from([(Facet::Rcode, None)]));
    assert_eq!(judge(&Says::fails(1))[&Facet::Rcode], Some("class-any"));
    assert_eq!(judge(&Says::fails(2))[&Facet::Rcode], None);
}

#[test]
fn class_any_excuses_addresses_of_servers_that_are_left_out_and_what_then_fits() {
    let query = Query { class: 255, ..Query::plain(name("test."), rtype::A) };
    let whole = |additional: &[Vec<u8>]| {
        let says = Says::answer(&[a("test.")]).authority(&[pointing("test.", rtype::NS, "ns.test.")]);
        says.additional(additional)
    };
    let bare = Says::answer(&[a("test.")]);
    let judge = |mine: &Says, theirs: &Says| judged(&world(), &query, mine, theirs);
    let both = [Facet::Authority, Facet::Additional];
    assert_eq!(judge(&whole(&[a("ns.test.")]), &bare), excused(&both, "class-any"));
    let additional = |mine: &Says, theirs: &Says| judge(mine, theirs)[&Facet::Additional];
    assert_eq!(additional(&whole(&[a("other.test.")]), &bare), None, "no server");
    assert_eq!(additional(&whole(&[a("ns.test.")]), &whole(&[])), None, "nothing is left out");
    assert_eq!(additional(&whole(&[]), &bare.clone().additional(&[a("ns.test.")])), None, "more than mine");
    let refused = Says::fails(5);
    assert_eq!(additional(&whole(&[a("other.test.")]), &refused), Some("class-any"));
    // Of truncated responses only TC is compared.
    let tc = |mine: &Says, theirs: &Says| judge(mine, theirs)[&Facet::Tc];
    assert_eq!(tc(&flagged(whole(&[]), TC), &bare), Some("class-any"));
    assert_eq!(tc(&flagged(whole(&[]), TC), &refused), Some("class-any"));
    assert_eq!(tc(&flagged(whole(&[]), TC), &whole(&[])), None);
    assert_eq!(tc(&whole(&[]), &flagged(bare, TC)), None);
}

#[test]
fn only_a_nearly_full_datagram_fits_here_and_not_there() {
    let query = Query::plain(name("test."), rtype::TXT);
    let text = |len: usize| Says::answer(&[record("test.", rtype::TXT, 300, &vec![7; len])]);
    let cut = flagged(Says::default(), TC);
    let facets = |len| judged_against(&world(), &query, &cut, [&text(len), &text(len), &cut]);
    assert_eq!(facets(470).get(&Facet::Tc), Some(&Some("fits-or-not")));
    // A peer that truncates as well is no excuse.
    assert_eq!(facets(100).get(&Facet::Tc), Some(&None));
    let other_code = judged(&world(), &query, &cut.clone().rcode(3), &text(470));
    assert_eq!(other_code.get(&Facet::Tc), Some(&None), "what both say is not the same");
}

#[test]
fn names_that_a_dname_makes_fill_a_datagram_by_their_own_length_and_no_more() {
    let query = Query::plain(name("www.d.test."), rtype::TXT);
    let chain =
        [pointing("d.test.", rtype::DNAME, "e.test."), pointing("www.d.test.", rtype::CNAME, "www.e.test.")];
    let cut = flagged(Says::answer(&chain), TC);
    // Header and question take 28 bytes, the chain 60, the rest of the last record 22: 84 of 512 may be
    // missing.
    let tc = |len: usize| {
        let text = record("www.e.test.", rtype::TXT, 300, &vec![7; len - 110]);
        let whole = Says::answer(&[&chain[..], &[text]].concat());
        judged(&world(), &query, &cut, &whole).get(&Facet::Tc).copied()
    };
    assert_eq!((tc(428), tc(429)), (Some(None), Some(Some("fits-or-not"))));
}

#[test]
fn a_wildcard_without_records_is_no_data_where_it_has_names_below() {
    let world = |nodes: &[&str]| World { name: "one", zones: vec![zone("test.", nodes)], share: 1 };
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

#[test]
fn a_notify_may_be_refused_in_other_words_and_without_records() {
    let query = Query { opcode: 4, ..Query::plain(name("test."), rtype::SOA) };
    let message = Message { name: "NOTIFY".to_owned(), wire: query.to_wire(0), query: query.clone() };
    let says = |rcode: u8| flagged(Says::fails(rcode), NOTIFY);
    let judge = |message: Option<&Message>, mine: &Says, theirs: &Says| {
        judged_message(&world(), &query, message, mine, [theirs, theirs, theirs])
    };
    let good = excused(&[Facet::Rcode], "notify-refused");
    let bad = BTreeMap::from([(Facet::Rcode, None)]);
    for theirs in [0, 9] {
        assert_eq!(judge(Some(&message), &says(5), &says(theirs)), good, "{theirs}");
    }
    assert_eq!(
        judge(Some(&message), &says(5), &flagged(Says::fails(9), NOTIFY | AA))[&Facet::Aa],
        good[&Facet::Rcode]
    );
    assert_eq!(judge(Some(&message), &says(5), &says(2)), bad);
    assert_eq!(judge(Some(&message), &says(0), &says(9)), bad, "it is to be refused");
    assert_eq!(judge(None, &says(5), &says(9)), bad, "a query like others");
    let answers = flagged(Says::answer(&[soa("test.")]), NOTIFY);
    assert_eq!(judge(Some(&message), &says(5), &answers)[&Facet::Rcode], None);
    assert_eq!(judge(Some(&message), &Says::fails(5), &Says::fails(9)), bad, "another opcode");
}

#[test]
fn ns_at_a_wildcard_is_data_here_and_a_referral_there() {
    let world = World { name: "one", zones: vec![zone("test.", &["test.", "NS *.ns.test."])], share: 1 };
    let query = Query::plain(name("x.ns.test."), rtype::NS);
    let data = flagged(Says::answer(&[pointing("x.ns.test.", rtype::NS, "host.test.")]), AA);
    let referral = |owner: &str| Says::default().authority(&[pointing(owner, rtype::NS, "host.test.")]);
    let judge = |mine: &Says, theirs: &Says| judged(&world, &query, mine, theirs);
    let facets = [Facet::Aa, Facet::Answer, Facet::Authority];
    assert_eq!(judge(&data, &referral("*.ns.test.")), excused(&facets, "wildcard-ns"));
    let is_bad = |mine: &Says, theirs: &Says| judge(mine, theirs).values().any(Option::is_none);
    assert!(is_bad(&data, &referral("*.test.")), "no such wildcard");
    assert!(is_bad(&data, &referral("*.x.ns.test.")), "no wildcard above the name");
    assert!(is_bad(&referral("*.ns.test."), &data), "the other way round");
    assert!(is_bad(&data, &flagged(Says::default().authority(&[soa("test.")]), AA)), "other data");
    assert!(is_bad(&data.clone().rcode(3), &referral("*.ns.test.")));
}

#[test]
fn chains_without_end_are_followed_for_different_lengths_by_the_same_steps() {
    let query = Query::plain(name("0.test."), rtype::A);
    let link =
        |from: usize, to: usize| pointing(&format!("{from}.test."), rtype::CNAME, &format!("{to}.test."));
    let chain = |count: usize| (0..count).map(|n| link(n, n + 1)).collect::<Vec<_>>();
    let loop_of = |count: usize| [chain(count), vec![link(count, 0)]].concat();
    let judge = |mine: &Says, theirs: &Says| judged(&world(), &query, mine, theirs);
    let answer = |records: &[Vec<u8>]| Says::answer(records);
    let good = excused(&[Facet::Answer], "chain-limit");
    let bad = BTreeMap::from([(Facet::Answer, None)]);
    assert_eq!(judge(&answer(&chain(14)), &answer(&chain(16))), good);
    assert_eq!(judge(&answer(&chain(16)), &answer(&chain(14))), good);
    let all = excused(&[Facet::Rcode, Facet::Answer], "chain-limit");
    assert_eq!(judge(&answer(&loop_of(2)), &Says::fails(2)), all);
    // A regular chain, one that branches off, and an unrelated RCODE.
    assert_eq!(judge(&answer(&chain(4)), &answer(&chain(6))), bad);
    let aside = [chain(13), vec![link(13, 99)]].concat();
    assert_eq!(judge(&answer(&chain(16)), &answer(&aside)), bad);
    assert_eq!(judge(&answer(&loop_of(2)), &Says::fails(5))[&Facet::Rcode], None);
    // A loop in a third server's answer is no excuse for the other two.
    let (short, long) = (answer(&chain(4)), answer(&chain(6)));
    assert_eq!(judged_against(&world(), &query, &short, [&long, &long, &answer(&loop_of(2))]), bad);
}

#[test]
fn behind_a_cname_as_well_the_parent_answers_for_ds() {
    let zones = vec![zone("test.", &["test."]), zone("child.test.", &["child.test."])];
    let world = World { name: "two", zones, share: 1 };
    let query = Query::plain(name("www.child.test."), rtype::DS);
    let says = |apex: &str| {
        Says::answer(&[pointing("www.child.test.", rtype::CNAME, "child.test.")]).authority(&[soa(apex)])
    };
    let judge = |mine: &Says, theirs: &Says| judged(&world, &query, mine, theirs);
    let good = excused(&[Facet::Authority], "ds-after-cname");
    assert_eq!(judge(&says("test."), &says("child.test.")), good);
    let is_bad = |mine: &Says, theirs: &Says| judge(mine, theirs).values().any(Option::is_none);
    assert!(is_bad(&says("child.test."), &says("test.")), "the child does not");
    let bare = Says::answer(&[pointing("www.child.test.", rtype::CNAME, "child.test.")]);
    assert!(is_bad(&says("child.test."), &bare), "nor where the other stops");
    assert_eq!(judge(&says("test."), &bare), good);
    assert!(is_bad(&says("test."), &says("child.test.").rcode(3)));
    assert!(is_bad(&says("test.").rcode(2), &says("child.test.")));
    assert!(is_bad(&says("test."), &says("other.test.")), "neither of them");
}
