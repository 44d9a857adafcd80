//! Tests of the comparison of forwarders: what it must notice, and for each rule a case that it excuses and a
//! similar one that it must not.

use super::{name, record, world};
use crate::compare::{self, Case, Facet, Forwarding, Reply};
use crate::explained;
use crate::forwarders;
use crate::query::{Query, rtype};
use crate::report::Tally;
use crate::servers::{FORWARDING, Kind};
use crate::zones::{World, Zone};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A server's reply: RCODE and the sections' records.
#[derive(Clone, Default)]
pub(super) struct Says {
    rcode: u8,
    sections: [Vec<Vec<u8>>; 3],
    /// EDNS options, if the reply has an OPT record.
    options: Option<Vec<u8>>,
    pub(super) flags: u8,
    /// Whether there is no reply.
    silent: bool,
}

impl Says {
    pub(super) fn fails(rcode: u8) -> Self {
        Self { rcode, ..Self::default() }
    }

    pub(super) fn silence() -> Self {
        Self { silent: true, ..Self::default() }
    }

    pub(super) fn answer(records: &[Vec<u8>]) -> Self {
        Self { sections: [records.to_vec(), vec![], vec![]], ..Self::default() }
    }

    pub(super) fn authority(mut self, records: &[Vec<u8>]) -> Self {
        self.sections[1] = records.to_vec();
        self
    }

    pub(super) fn additional(mut self, records: &[Vec<u8>]) -> Self {
        self.sections[2] = records.to_vec();
        self
    }

    pub(super) fn rcode(self, rcode: u8) -> Self {
        Self { rcode, ..self }
    }

    fn options(self, options: &[u8]) -> Self {
        Self { options: Some(options.to_vec()), ..self }
    }

    pub(super) fn reply(&self, query: &Query) -> Reply {
        if self.silent {
            return Reply::Silence;
        }
        let mut wire = query.to_wire(0);
        wire.truncate(12 + query.name.wire_len() + 4);
        wire[2] = 0x81 | self.flags;
        wire[3] = 0x80 | self.rcode;
        for (at, records) in [7, 9, 11].into_iter().zip(&self.sections) {
            wire[at] = records.len() as u8;
            wire.extend(records.concat());
        }
        if let Some(options) = &self.options {
            wire[11] += 1;
            wire.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, options.len() as u8]);
            wire.extend_from_slice(options);
        }
        let reply = Reply::from_wire(Some(&wire));
        assert!(reply.answer().is_some(), "{reply:?}");
        reply
    }
}

/// Nomen's replies now and before, those of all peers, and the upstream server's.
struct Scene {
    query: Query,
    upstream: Says,
    mine: Says,
    earlier: Option<Says>,
    theirs: Says,
    /// Unbound's reply, if it differs from the others'.
    unbound: Option<Says>,
    kept_apart: usize,
    world: World,
}

impl Scene {
    fn new(owner: &str, qtype: u16, upstream: Says, mine: Says, theirs: Says) -> Self {
        Self {
            query: Query::plain(name(owner), qtype),
            upstream,
            mine,
            earlier: None,
            theirs,
            unbound: None,
            kept_apart: 1,
            world: world(),
        }
    }

    /// Returns all differences, each with the rule that excuses it.
    fn differences(&self) -> BTreeSet<(Facet, bool, Option<&'static str>)> {
        let world = &self.world;
        let peers = FORWARDING.into_iter().filter(|k| *k != Kind::Nomen);
        let mut replies = vec![(Kind::Nomen, self.mine.reply(&self.query))];
        let of = |kind| self.unbound.as_ref().filter(|_| kind == Kind::Unbound).unwrap_or(&self.theirs);
        replies.extend(peers.map(|kind| (kind, of(kind).reply(&self.query))));
        let earlier = self.earlier.iter().map(|says| (Kind::Nomen, says.reply(&self.query))).collect();
        let upstream = (Kind::Nsd, self.upstream.reply(&self.query));
        let kept_apart = self.kept_apart;
        let forwarding = Some(Forwarding { upstream, slack: 2, earlier, waited: 2, kept_apart });
        let case = Case { query: &self.query, message: None, world, replies, forwarding, resolving: None };
        let mut tally = Tally::default();
        let rest = tally.add(&case, Kind::Nomen);
        assert_eq!(tally.unexplained, usize::from(!rest.is_empty()));
        let differences = compare::differences(&case, Kind::Nomen);
        let own = |d: &compare::Difference| d.against == [Kind::Nomen];
        let rule = |d: &compare::Difference| explained::explain(&case, Kind::Nomen, d).map(|r| r.id);
        differences.iter().map(|d| (d.facet, own(d), rule(d))).collect()
    }

    /// Asserts that the only differences are from the other servers in `facets`, and that `rule` excuses
    /// them.
    fn is_excused(&self, facets: &[Facet], rule: &'static str) {
        let wanted = facets.iter().map(|facet| (*facet, false, Some(rule))).collect();
        assert_eq!(self.differences(), wanted);
    }

    /// Asserts that there is a difference that no rule excuses.
    fn is_not_excused(&self) {
        let differences = self.differences();
        assert!(differences.iter().any(|(_, _, rule)| rule.is_none()), "{differences:?}");
    }
}

fn a(owner: &str, ttl: u32) -> Vec<u8> {
    record(owner, rtype::A, ttl, &[192, 0, 2, 1])
}

pub(super) fn pointing(owner: &str, rtype: u16, target: &str) -> Vec<u8> {
    record(owner, rtype, 300, &name(target).to_wire())
}

fn soa() -> Vec<u8> {
    record("test.", rtype::SOA, 300, &[&[0; 2][..], &[0; 20]].concat())
}

/// All replies are the same.
fn agreed(says: &Says) -> Scene {
    Scene::new("www.test.", rtype::A, says.clone(), says.clone(), says.clone())
}

#[test]
fn the_same_answer_with_younger_records_is_no_difference() {
    let mut scene = agreed(&Says::answer(&[a("www.test.", 300)]));
    assert!(scene.differences().is_empty());
    for ttl in [298, 302] {
        scene.mine = Says::answer(&[a("www.test.", ttl)]);
        assert!(scene.differences().is_empty(), "{ttl}");
    }
}

#[test]
fn ttls_further_apart_than_the_caches_ages_are_noticed() {
    for ttl in [0, 297, 303, u32::MAX >> 1] {
        for section in 0..3 {
            let mut scene = agreed(&Says::default());
            scene.theirs.sections[section] = vec![a("www.test.", 300)];
            scene.mine.sections[section] = vec![a("www.test.", ttl)];
            let wanted = BTreeSet::from([(Facet::Ttl, false, None)]);
            assert_eq!(scene.differences(), wanted, "{ttl} in section {section}");
        }
    }
}

#[test]
fn a_record_missing_added_or_changed_is_noticed() {
    let good = [a("www.test.", 300), record("www.test.", rtype::A, 300, &[192, 0, 2, 2])];
    let changed = [good[0].clone(), record("www.test.", rtype::A, 300, &[192, 0, 2, 3])];
    let added = [&good[..], &changed[1..]].concat();
    for mine in [&good[..1], &changed, &added] {
        let mut scene = agreed(&Says::answer(&good));
        scene.mine = Says::answer(mine);
        assert_eq!(scene.differences(), BTreeSet::from([(Facet::Answer, false, None)]));
    }
}

#[test]
fn the_second_time_ttls_have_gone_down() {
    let mut scene = agreed(&Says::answer(&[a("www.test.", 298)]));
    for (before, now, fine) in [(300, 298, true), (300, 297, true), (300, 299, false), (298, 300, false)] {
        scene.earlier = Some(Says::answer(&[a("www.test.", before)]));
        scene.mine = Says::answer(&[a("www.test.", now)]);
        let wanted = if fine { BTreeSet::new() } else { BTreeSet::from([(Facet::Ttl, true, None)]) };
        assert_eq!(scene.differences(), wanted, "{before} then {now}");
    }
}

#[test]
fn the_second_time_everything_else_is_the_same() {
    let good = Says::answer(&[a("www.test.", 298)]);
    let mut earlier = good.clone();
    earlier.sections[0] = vec![a("www.test.", 300)];
    let mut scene = agreed(&good);
    for (facet, before) in [
        (Facet::Rcode, earlier.clone().rcode(3)),
        (Facet::Answer, Says::default()),
        (Facet::Authority, earlier.clone().authority(&[soa()])),
        (Facet::Additional, earlier.clone().additional(&[a("ns.test.", 300)])),
        (Facet::Edns, earlier.clone().options(&[])),
        (Facet::Aa, Says { flags: 4, ..earlier.clone() }),
    ] {
        scene.earlier = Some(before);
        let wanted = BTreeSet::from([(facet, true, None)]);
        assert_eq!(scene.differences(), wanted, "{facet:?}");
    }
}

#[test]
fn a_referral_is_no_answer() {
    let delegation = [pointing("sub.test.", rtype::NS, "ns.sub.test.")];
    let referral = Says::default().authority(&delegation).additional(&[a("ns.sub.test.", 300)]);
    let facets = [Facet::Rcode, Facet::Authority, Facet::Additional];
    let mut scene = Scene::new("www.sub.test.", rtype::A, referral.clone(), Says::fails(2), referral.clone());
    scene.is_excused(&facets, "forward-referral");
    // Another error, a referral with records in the answer, and a failure where there was an answer.
    scene.mine = Says::fails(5);
    scene.is_not_excused();
    scene.mine = Says::answer(&[a("www.sub.test.", 300)]).rcode(2);
    scene.is_not_excused();
    scene.mine = Says::fails(2);
    scene.upstream = Says::answer(&[a("www.sub.test.", 300)]).authority(&delegation);
    scene.is_not_excused();
    scene.upstream = Says::default().authority(&[soa()]);
    scene.is_not_excused();
}

#[test]
fn a_chain_into_a_delegation_has_no_end() {
    let link = pointing("www.test.", rtype::CNAME, "www.sub.other.");
    let half = Says::answer(std::slice::from_ref(&link));
    let delegation = pointing("sub.other.", rtype::NS, "ns.sub.other.");
    let referral = half.clone().authority(&[delegation]);
    let mut scene = Scene::new("www.test.", rtype::A, half.clone(), Says::fails(2), referral);
    for qtype in [rtype::A, rtype::DNAME] {
        scene.query.qtype = qtype;
        scene.is_excused(&[Facet::Rcode, Facet::Answer, Facet::Authority], "forward-referral");
    }
    scene.query.qtype = rtype::CNAME;
    scene.is_not_excused();
    scene.query.qtype = rtype::A;
    // No server returns a delegation, it is of another name, or the chain is complete.
    scene.theirs = half.clone();
    scene.is_not_excused();
    scene.theirs = half.authority(&[pointing("sub.test.", rtype::NS, "ns.sub.test.")]);
    scene.is_not_excused();
    scene.theirs = Says::answer(&[link, a("www.sub.other.", 300)]);
    scene.is_not_excused();
}

#[test]
fn a_loop_is_a_matter_of_taste_and_a_chain_is_not() {
    let link = |n: u32| pointing(&format!("{n}.test."), rtype::CNAME, &format!("{}.test.", n + 1));
    let round = [link(0), link(1), pointing("2.test.", rtype::CNAME, "0.test.")];
    let mut scene =
        Scene::new("0.test.", rtype::A, Says::answer(&round), Says::fails(2), Says::answer(&round));
    scene.is_excused(&[Facet::Rcode, Facet::Answer], "forward-chain-limit");
    let chain: Vec<_> = (0..4).map(link).chain([a("4.test.", 300)]).collect();
    scene.upstream = Says::answer(&chain);
    scene.theirs = Says::answer(&chain);
    scene.is_not_excused();
}

#[test]
fn a_chain_that_upstream_leaves_off_is_not_the_answer() {
    let link = pointing("www.test.", rtype::CNAME, "www.other.");
    let half = Says::answer(std::slice::from_ref(&link));
    let whole = Says::answer(&[link, a("www.other.", 300)]);
    Scene::new("www.test.", rtype::A, half.clone(), half, whole).is_not_excused();
}

#[test]
fn a_name_that_becomes_too_long_may_fail_in_several_ways() {
    let long = format!("{}.", ["l".repeat(60), "l".repeat(60), "l".repeat(60), "l".repeat(40)].join("."));
    let chain = [pointing("test.", rtype::DNAME, &long)];
    let says = Says::answer(&chain).rcode(3);
    let owner = format!("{}.test.", "w".repeat(60));
    let mut scene = Scene::new(&owner, rtype::A, says.clone(), says, Says::answer(&chain).rcode(6));
    scene.is_excused(&[Facet::Rcode], "forward-too-long");
    scene.query = Query::plain(name("w.test."), rtype::A);
    scene.is_not_excused();
    scene.query = Query::plain(name(&owner), rtype::A);
    scene.mine = scene.mine.rcode(0);
    scene.is_not_excused();
}

#[test]
fn a_dname_at_a_wildcard_is_not_kept() {
    let cname = pointing("x.d.test.", rtype::CNAME, "x.other.");
    let upstream = [cname.clone(), pointing("x.d.test.", rtype::DNAME, "other.")];
    let mut scene = Scene::new(
        "x.d.test.",
        rtype::A,
        Says::answer(&upstream).rcode(3),
        Says::answer(&[cname]).rcode(3),
        Says::fails(3),
    );
    scene.is_excused(&[Facet::Answer], "forward-wildcard-dname");
    scene.upstream = scene.mine.clone();
    scene.is_not_excused();
    scene.upstream = Says::answer(&upstream).rcode(3);
    scene.mine = Says::answer(&[pointing("x.d.test.", rtype::CNAME, "made.up.")]).rcode(3);
    scene.is_not_excused();
}

#[test]
fn a_cname_that_upstream_does_not_show_depends_on_the_cache() {
    let none = Says::default().authority(&[soa()]);
    let found = Says::answer(&[pointing("www.test.", rtype::CNAME, "test.")]).authority(&[soa()]);
    let mut scene = Scene::new("www.test.", rtype::RRSIG, none.clone(), none.clone(), found.clone());
    scene.is_excused(&[Facet::Answer], "forward-cname-and-old-types");
    scene.query.qtype = rtype::TXT;
    scene.is_not_excused();
    scene.query.qtype = rtype::RRSIG;
    scene.upstream = found;
    scene.is_not_excused();
    // The upstream server has a record of the type beside the CNAME; the subject passes it on, or loses it.
    let sig = Says::answer(&[record("www.test.", rtype::RRSIG, 300, &[0; 20])]);
    (scene.upstream, scene.mine) = (sig.clone(), sig);
    scene.is_excused(&[Facet::Answer, Facet::Authority], "forward-cname-and-old-types");
    scene.mine = Says::default();
    scene.is_not_excused();
    scene.mine = none.clone();
    // Where the chain fails, no reply shows it, but the zone does.
    (scene.upstream, scene.theirs) = (none, Says::fails(2));
    scene.is_not_excused();
    scene.world.zones.push(Zone {
        name: name("test."),
        source: PathBuf::new(),
        full: PathBuf::new(),
        refused_by: Vec::new(),
        nodes: BTreeMap::from([(name("www.test."), BTreeSet::from(["CNAME".to_owned()]))]),
        signed: false,
    });
    scene.is_excused(&[Facet::Rcode, Facet::Authority], "forward-cname-and-old-types");
}

#[test]
fn only_a_full_datagram_fits_here_and_not_there() {
    let truncated = Says { flags: 2, ..Says::default() };
    for (bytes, excused) in [(200, false), (470, true), (550, true), (600, false)] {
        let text = record("www.test.", rtype::TXT, 300, &vec![0; bytes - 46]);
        let whole = Says::answer(&[text]);
        let mut scene = Scene::new("www.test.", rtype::TXT, whole.clone(), whole, truncated.clone());
        for _ in 0..2 {
            if excused {
                scene.is_excused(&[Facet::Tc], "forward-fits-or-not");
            } else {
                scene.is_not_excused();
            }
            (scene.mine, scene.theirs) = (scene.theirs, scene.mine);
        }
    }
}

#[test]
fn an_error_needs_no_records() {
    let chain = Says::answer(&[pointing("www.test.", rtype::CNAME, "www.other.")]);
    let failed = chain.clone().rcode(2);
    let mut scene = Scene::new("www.test.", rtype::A, failed.clone(), Says::fails(2), failed.clone());
    scene.is_excused(&[Facet::Answer], "forward-error");
    // The rule does not excuse the RCODE, nor answers that the upstream server did return.
    scene.theirs = chain.clone();
    scene.is_not_excused();
    scene.upstream = Says::answer(&[pointing("www.test.", rtype::CNAME, "www.other."), a("www.other.", 300)]);
    scene.theirs = failed;
    scene.is_not_excused();
}

#[test]
fn a_chain_left_off_at_a_failure_needs_no_records() {
    let half = Says::answer(&[pointing("www.test.", rtype::CNAME, "www.other.")]);
    let failed = half.clone().rcode(2);
    let mut scene = Scene::new("www.test.", rtype::A, half.clone(), Says::fails(2), failed);
    scene.is_excused(&[Facet::Answer], "forward-error");
    // Not if Unbound finds the rest, nor for an answer that the upstream server returned.
    scene.unbound = Some(half);
    scene.is_not_excused();
    scene.unbound = None;
    scene.upstream = Says::answer(&[a("www.test.", 300)]);
    scene.is_not_excused();
}

#[test]
fn another_class_is_refused_in_several_ways() {
    let mut scene = Scene::new("test.", rtype::A, Says::fails(5), Says::fails(2), Says::fails(5));
    scene.is_not_excused();
    scene.query.class = 4;
    scene.is_not_excused();
    scene.mine = Says::fails(5);
    scene.theirs = Says::fails(4);
    scene.is_excused(&[Facet::Rcode], "forward-class");
    scene.mine = Says::default();
    scene.is_not_excused();
    scene.mine = Says::fails(5);
    scene.upstream = Says::default();
    scene.is_not_excused();
    // For QCLASS ANY, an error without records, and nothing else.
    scene.query.class = 255;
    scene.is_excused(&[Facet::Rcode], "forward-class");
    scene.mine = Says::answer(&[a("test.", 300)]);
    scene.is_not_excused();
}

#[test]
fn a_chain_that_upstream_breaks_off_is_passed_on_as_it_came() {
    let link = pointing("www.test.", rtype::CNAME, "end.test.");
    let broken = Says::answer(std::slice::from_ref(&link)).rcode(3);
    let whole = Says::answer(&[link, a("end.test.", 300)]);
    let mut scene = Scene::new("www.test.", rtype::A, broken.clone(), broken.clone(), whole);
    scene.is_excused(&[Facet::Rcode, Facet::Answer], "forward-broken-chain");
    // The other has no record there, or the subject returns other records than the upstream server.
    scene.theirs = Says::answer(&[pointing("www.test.", rtype::CNAME, "end.test.")]);
    scene.is_not_excused();
    scene.theirs = Says::answer(&[pointing("www.test.", rtype::CNAME, "end.test."), a("end.test.", 300)]);
    scene.mine = Says::answer(&[pointing("www.test.", rtype::CNAME, "other.test.")]).rcode(3);
    scene.is_not_excused();
}

#[test]
fn a_denial_that_is_bare_with_do_is_passed_on_without() {
    let dname = pointing("*.test.", rtype::DNAME, "end.test.");
    let link = pointing("www.*.test.", rtype::CNAME, "www.end.test.");
    let said = Says::answer(&[dname, link]).rcode(3);
    let mut scene = Scene::new("www.*.test.", rtype::A, said.clone(), said, Says::fails(3));
    scene.is_excused(&[Facet::Answer], "forward-bare-denial");
    scene.mine = Says::answer(&[pointing("www.*.test.", rtype::CNAME, "www.other.test.")]).rcode(3);
    scene.is_not_excused();
}

#[test]
fn dname_below_a_dname_is_redirected() {
    let links = [pointing("d.test.", rtype::DNAME, "test."), pointing("x.d.test.", rtype::CNAME, "x.test.")];
    let half = Says::answer(&links);
    let whole = half.clone().authority(&[soa()]).rcode(3);
    let mut scene = Scene::new("x.d.test.", rtype::DNAME, half.clone(), whole.clone(), half.clone());
    scene.is_excused(&[Facet::Rcode, Facet::Authority], "forward-dname-type");
    // After a CNAME as well.
    let behind = |says: &Says| {
        let mut says = says.clone();
        says.sections[0].insert(0, pointing("www.test.", rtype::CNAME, "x.d.test."));
        says
    };
    let (from, to) = (behind(&half), behind(&whole));
    Scene::new("www.test.", rtype::DNAME, from.clone(), to, from)
        .is_excused(&[Facet::Rcode, Facet::Authority], "forward-dname-type");
    // A DNAME is the answer at its own name; and it must not get lost.
    let itself = Says::answer(&links[..1]);
    Scene::new("d.test.", rtype::DNAME, itself.clone(), whole, itself).is_not_excused();
    scene.query = Query::plain(name("x.d.test."), rtype::A);
    scene.is_not_excused();
    scene.query.qtype = rtype::DNAME;
    for rcode in [2, 3] {
        scene.mine = Says::fails(rcode);
        scene.is_not_excused();
    }
}

#[test]
fn ds_behind_a_cname_is_followed() {
    let half = Says::answer(&[pointing("www.test.", rtype::CNAME, "other.")]);
    let whole = half.clone().authority(&[soa()]);
    let mut scene = Scene::new("www.test.", rtype::DS, half.clone(), whole.clone(), half.clone());
    scene.unbound = Some(whole.clone());
    scene.is_excused(&[Facet::Authority], "forward-ds-after-cname");
    // Another type, a complete chain, and an end that no other server finds.
    scene.query.qtype = rtype::TXT;
    scene.is_not_excused();
    scene.query.qtype = rtype::DS;
    scene.upstream = whole;
    scene.is_not_excused();
    scene.upstream = half.clone();
    scene.unbound = Some(half);
    scene.is_not_excused();
}

#[test]
fn proofs_are_passed_on_as_they_came() {
    let nsec = |owner| record(owner, rtype::NSEC, 300, &[1, b'z', 0, 0, 1, 64]);
    let few = Says::fails(3).authority(&[soa(), nsec("a.test.")]);
    let more = Says::fails(3).authority(&[soa(), nsec("a.test."), nsec("b.test.")]);
    let mut scene = Scene::new("aa.test.", rtype::A, few.clone(), few.clone(), more.clone());
    scene.is_excused(&[Facet::Authority], "forward-proofs");
    // Fewer records than received, more than received, and another difference than in the proofs.
    scene.mine = Says::fails(3).authority(&[soa()]);
    scene.is_not_excused();
    (scene.mine, scene.theirs) = (more, few.clone());
    scene.is_not_excused();
    (scene.mine, scene.theirs) = (few, Says::fails(3).authority(&[nsec("a.test.")]));
    scene.is_not_excused();
}

#[test]
fn any_is_answered_with_what_came_and_no_more() {
    let txt = record("www.test.", rtype::TXT, 300, &[1, b'a']);
    let both = Says::answer(&[a("www.test.", 300), txt.clone()]);
    let one = Says::answer(&[a("www.test.", 300)]);
    let mut scene = Scene::new("www.test.", rtype::ANY, one.clone(), one.clone(), both.clone());
    scene.is_excused(&[Facet::Answer], "forward-any");
    scene.mine = Says::answer(&[txt]);
    scene.is_not_excused();
    scene.mine = Says::default();
    scene.is_not_excused();
    scene.mine = one;
    scene.query.qtype = rtype::A;
    scene.is_not_excused();
}

#[test]
fn the_additional_section_can_be_left_out_and_not_made_up() {
    let less = Says::answer(&[pointing("test.", rtype::NS, "ns.test.")]);
    let more = less.clone().additional(&[a("ns.test.", 300)]);
    let mut scene = Scene::new("test.", rtype::NS, more.clone(), less.clone(), more.clone());
    scene.is_excused(&[Facet::Additional], "forward-additional");
    (scene.mine, scene.theirs) = (more, less);
    scene.is_not_excused();
}

#[test]
fn an_extended_error_may_stand_beside_an_error_only() {
    let with = |rcode, options: &[u8]| Says::fails(rcode).options(options);
    let ede = [0, 15, 0, 2, 0, 22];
    let mut scene = Scene::new("www.test.", rtype::A, with(5, &[]), with(2, &ede), with(2, &[]));
    scene.is_excused(&[Facet::Edns], "forward-extended-error");
    (scene.mine, scene.theirs) = (with(0, &ede), with(0, &[]));
    scene.is_not_excused();
    (scene.mine, scene.theirs) = (with(2, &[0, 10, 0, 0]), with(2, &[]));
    scene.is_not_excused();
}

#[test]
fn what_ran_out_meanwhile_is_fetched_again() {
    let mut scene = agreed(&Says::answer(&[a("www.test.", 1)]));
    scene.earlier = Some(scene.mine.clone());
    assert_eq!(scene.differences(), BTreeSet::from([(Facet::Ttl, true, Some("forward-ttl-runs-out"))]));
    // Not for differences from other servers, whatever the TTL.
    scene.earlier = None;
    scene.theirs = Says::answer(&[a("www.test.", 9)]);
    scene.is_not_excused();
}

#[test]
fn what_a_crowded_name_has_no_room_for_is_fetched_again() {
    let mut scene = agreed(&Says::answer(&[a("www.test.", 300)]));
    scene.upstream = Says::answer(&[a("www.test.", 300)]);
    scene.earlier = Some(scene.mine.clone());
    let difference = |rule| BTreeSet::from([(Facet::Ttl, true, rule)]);
    for (kept_apart, rule) in [(16, None), (17, Some("forward-crowded-name"))] {
        scene.kept_apart = kept_apart;
        assert_eq!(scene.differences(), difference(rule), "{kept_apart}");
    }
    // A TTL that rises above that of the upstream server.
    scene.upstream = Says::answer(&[a("www.test.", 299)]);
    assert_eq!(scene.differences(), difference(None));
}

#[test]
fn each_rule_has_a_name_of_its_own() {
    let all: Vec<_> = explained::all().map(|r| r.id).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn every_forwarder_is_told_where_to_forward() {
    let upstream = "127.0.0.1:4711".parse().unwrap();
    for kind in FORWARDING {
        let text = forwarders::config(kind, 4712, upstream, Path::new("/nowhere")).unwrap();
        assert!(text.contains("4711") && text.contains("4712"), "{text}");
    }
    for kind in [Kind::Nsd, Kind::Knot] {
        assert_eq!(forwarders::config(kind, 4712, upstream, Path::new("/nowhere")), None);
    }
}
