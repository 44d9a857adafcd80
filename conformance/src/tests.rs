//! Tests of the comparison: any change of an answer must be noticed, and an equivalent answer must not.

use crate::answer::Answer;
use crate::compare::{self, Case, Facet, Reply};
use crate::name::Name;
use crate::query::{Query, rtype};
use crate::report::Tally;
use crate::servers::Kind;
use crate::zones::World;
use std::collections::BTreeSet;

fn name(text: &str) -> Name {
    Name::from_text(text).unwrap()
}

fn record(owner: &str, rtype: u16, ttl: u32, rdata: &[u8]) -> Vec<u8> {
    let mut out = name(owner).to_wire();
    out.extend_from_slice(&rtype.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
    out
}

/// A referral-like answer with records in each section and an OPT.
fn good() -> Vec<u8> {
    let mut out = vec![0, 0, 0x84, 0, 0, 1, 0, 2, 0, 1, 0, 2];
    out.extend_from_slice(&name("www.Test.").to_wire());
    out.extend_from_slice(&[0, 1, 0, 1]);
    out.extend(record("www.test.", rtype::A, 60, &[192, 0, 2, 1]));
    out.extend(record("www.test.", rtype::A, 60, &[192, 0, 2, 2]));
    out.extend(record("test.", rtype::NS, 60, &name("ns.test.").to_wire()));
    out.extend(record("ns.test.", rtype::A, 60, &[192, 0, 2, 3]));
    out.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    out
}

fn reply(wire: &[u8]) -> Reply {
    Reply::from_wire(Some(wire))
}

fn world() -> World {
    World { name: "none", zones: Vec::new(), share: 1 }
}

fn facets(mine: Reply, peers: [Reply; 3]) -> BTreeSet<Facet> {
    let world = world();
    let query = Query::plain(name("www.test."), rtype::A);
    let kinds = [Kind::Bind, Kind::Nsd, Kind::Knot];
    let mut replies = vec![(Kind::Nomen, mine)];
    replies.extend(kinds.into_iter().zip(peers));
    let case =
        Case { query: &query, message: None, world: &world, replies, forwarding: None, resolving: None };
    let found = compare::differences(&case, Kind::Nomen).iter().map(|d| d.facet).collect();
    // Unexplained differences must be counted.
    let mut tally = Tally::default();
    let rest = tally.add(&case, Kind::Nomen);
    assert_eq!(tally.unexplained, usize::from(!rest.is_empty()));
    found
}

fn against_good(mine: &[u8]) -> BTreeSet<Facet> {
    facets(reply(mine), [reply(&good()), reply(&good()), reply(&good())])
}

#[test]
fn the_same_answer_is_no_difference() {
    assert!(against_good(&good()).is_empty());
}

#[test]
fn order_and_letter_case_of_records_do_not_count() {
    let mut other = vec![0, 0, 0x84, 0, 0, 1, 0, 2, 0, 1, 0, 2];
    other.extend_from_slice(&name("www.Test.").to_wire());
    other.extend_from_slice(&[0, 1, 0, 1]);
    other.extend(record("WWW.test.", rtype::A, 60, &[192, 0, 2, 2]));
    other.extend(record("www.TEST.", rtype::A, 60, &[192, 0, 2, 1]));
    other.extend(record("tesT.", rtype::NS, 60, &name("NS.test.").to_wire()));
    other.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    other.extend(record("nS.test.", rtype::A, 60, &[192, 0, 2, 3]));
    assert!(against_good(&other).is_empty());
}

#[test]
fn every_changed_byte_is_noticed() {
    let good = good();
    // The ID is matched by the client; everything else counts.
    for at in 2..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(!against_good(&bad).is_empty(), "byte {at} changed unnoticed");
    }
}

#[test]
fn each_facet_is_told_from_the_others() {
    let only = |facet| BTreeSet::from([facet]);
    let with = |at: usize, bits: u8| {
        let mut wire = good();
        wire[at] ^= bits;
        against_good(&wire)
    };
    assert_eq!(with(2, 0x04), only(Facet::Aa));
    assert_eq!(with(2, 0x02), only(Facet::Tc));
    assert_eq!(with(2, 0x01), only(Facet::Flags));
    assert_eq!(with(3, 0x80), only(Facet::Flags));
    assert_eq!(with(3, 0x03), only(Facet::Rcode));
    assert_eq!(with(13, 0x20), only(Facet::Question));
    assert_eq!(facets(Reply::Silence, [(); 3].map(|()| reply(&good()))), only(Facet::Reply));
    assert_eq!(against_good(&good()[..good().len() - 1]), only(Facet::Reply));
    let mut trailing = good();
    trailing.push(0);
    assert_eq!(against_good(&trailing), only(Facet::Reply));
}

#[test]
fn a_missing_and_an_added_record_are_noticed() {
    let whole = Answer::parse(&good()).unwrap();
    for (section, facet) in [Facet::Answer, Facet::Authority, Facet::Additional].into_iter().enumerate() {
        let mut less = whole.clone();
        less.sections[section].pop_first();
        let mut more = whole.clone();
        let mut extra = more.sections[section].first().unwrap().clone();
        extra.ttl += 1;
        more.sections[section].insert(extra);
        for changed in [less, more] {
            let peers = [(); 3].map(|()| reply(&good()));
            assert_eq!(facets(Reply::Answer(Box::new(changed)), peers), BTreeSet::from([facet]));
        }
    }
}

#[test]
fn the_majority_decides() {
    let mut other = good();
    other[3] |= 3;
    let mut third = good();
    third[3] |= 5;
    let (a, b, c) = (|| reply(&good()), || reply(&other), || reply(&third));
    // Two peers agree with the subject, one does not: no difference.
    assert!(facets(a(), [a(), a(), b()]).is_empty());
    // One peer agrees, two agree against it.
    assert!(!facets(a(), [a(), b(), b()]).is_empty());
    // All peers differ from each other; one of them agrees.
    assert!(facets(a(), [a(), b(), c()]).is_empty());
    // No other server agrees with the subject.
    assert!(!facets(a(), [b(), c(), c()]).is_empty());
    assert!(!facets(a(), [b(), b(), b()]).is_empty());
}

#[test]
fn a_truncated_answer_is_compared_by_its_header_only() {
    let mut cut = good();
    cut[2] |= 2;
    let mut less = cut.clone();
    less.truncate(12 + 10 + 4);
    less[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    let peers = [(); 3].map(|()| reply(&cut));
    // The OPT is missing, too, which is still a difference.
    assert_eq!(facets(reply(&less), peers), BTreeSet::from([Facet::Edns]));
}

#[test]
fn the_explained_page_and_the_table_agree() {
    let page = include_str!("../EXPLAINED.md");
    let titled: Vec<_> = page.lines().filter_map(|l| l.strip_prefix("## `")?.strip_suffix('`')).collect();
    let policy = || crate::policy::variants::all().map(|known| (known.id, known.why));
    let ruled: Vec<_> = crate::explained::all().map(|r| r.id).chain(policy().map(|(id, _)| id)).collect();
    assert_eq!(titled, ruled, "EXPLAINED.md has one section per rule, in the order of the table");
    for rule in crate::explained::all() {
        assert!(
            page.contains(rule.why),
            "EXPLAINED.md does not give the reason of `{}` as the table has it",
            rule.id
        );
    }
    for (id, why) in policy() {
        assert!(page.contains(why), "EXPLAINED.md does not give the reason of `{id}` as the table has it");
    }
}

mod forwarding;
mod resolving;
mod rules;
