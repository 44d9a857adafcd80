//! Denials used for other names than those they were proven for: they never deny existing names, and do deny
//! nonexistent ones. Wildcard expansions equal the answers of the zone's servers.

use std::time::Duration;

use testkit::name;
use testkit::tree::{Ended, TreeReply};
use validator::{
    DenialWork, ProvenDenials, Security, TrustTable, ValidationLimits, ValidationSettings, Validator,
};
use wire::{NameBuf, Rcode, Ttl, Type};

use crate::plain::QUESTIONS;
use crate::support::TREE;

const ZONES: [&str; 8] = [
    "nsec.test.",
    "child.nsec.test.",
    "hash.test.",
    "child.hash.test.",
    "opt.test.",
    "iter.test.",
    "plain.test.",
    "island.test.",
];

/// Existing and nonexistent names: at, in and between all names of the zones.
const OWNERS: [&str; 30] = [
    "@",
    "a",
    "alias",
    "b.top",
    "a.b.top",
    "c.b.top",
    "bare",
    "www.bare",
    "child",
    "www.child",
    "x.child",
    "ent",
    "deep.ent",
    "x.deep.ent",
    "x.ent",
    "mail",
    "x.mail",
    "moved",
    "x.moved",
    "walias",
    "x.walias",
    "wild",
    "x.wild",
    "x.y.wild",
    "here.wild",
    "x.here.wild",
    "*.wild",
    "nothing",
    "x.nothing",
    "zzzz",
];

const TYPES: [Type; 8] =
    [Type::A, Type::AAAA, Type::TXT, Type::NS, Type::DS, Type::SOA, Type::CNAME, Type::NSEC];

/// When all denials are stored.
const NOW: Duration = Duration::from_secs(1000);

/// Returns the time `seconds` after [`NOW`].
fn after(seconds: u64) -> Duration {
    NOW + Duration::from_secs(seconds)
}

fn at(owner: &str, zone: &str) -> NameBuf {
    if owner == "@" { name(zone) } else { name(&format!("{owner}.{zone}")) }
}

fn validated(reply: &TreeReply, table: &TrustTable) -> Ended {
    validated_by(reply, table, &ValidationSettings::default())
}

fn validated_by(reply: &TreeReply, table: &TrustTable, settings: &ValidationSettings) -> Ended {
    let (validator, anchors) = (Validator::answer(reply.response()), TREE.anchors());
    TREE.run(validator, settings, &anchors, table, &mut |_, reply| Some(reply))
}

/// Stores all denials and wildcards among the answers to these questions.
fn learn(denials: &ProvenDenials, questions: impl Iterator<Item = (NameBuf, Type)>, table: &TrustTable) {
    for (owner, qtype) in questions {
        let reply = TREE.reply(owner, qtype);
        let ended = validated(&reply, table);
        denials.store_denial(1, &reply.response(), &ended.validated, Ttl::from_secs(60), NOW);
        denials.store_wildcards(1, &reply.response(), &ended.validated, NOW);
    }
}

fn questions() -> impl Iterator<Item = (NameBuf, Type)> {
    ZONES.iter().flat_map(|zone| QUESTIONS.iter().map(move |(owner, qtype)| (at(owner, zone), *qtype)))
}

#[test]
fn what_is_denied_is_not_there() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    learn(&denials, questions(), &table);
    let (mut denied, mut there) = ([0; 2], 0);
    for zone in ZONES.iter().chain(&["test.", "."]) {
        for (owner, qtype) in OWNERS.iter().flat_map(|owner| TYPES.map(|qtype| (owner, qtype))) {
            let asked =
                if *zone == "." { name(&format!("{owner}.").replace("@.", ".")) } else { at(owner, zone) };
            let Some(denial) = denials.deny(1, asked.as_name(), qtype, NOW, &mut DenialWork::default())
            else {
                there += 1;
                continue;
            };
            let truth = TREE.reply(asked, qtype);
            assert!(truth.answer.is_empty(), "{asked} {qtype}: {denial:#?} {truth:#?}");
            assert_eq!(denial.rcode, truth.rcode, "{asked} {qtype}: {denial:#?}");
            assert_eq!(validated(&truth, &table).validated.security, Security::Secure, "{asked} {qtype}");
            assert_eq!((denial.ttl, denial.sets[0].rtype), (Ttl::from_secs(60), Type::SOA));
            denied[usize::from(denial.rcode == Rcode::NXDOMAIN)] += 1;
        }
    }
    assert!(denied.iter().all(|count| *count > 100) && there > 500, "{denied:?} {there}");
}

/// A synthesized denial validates at a client.
#[test]
fn what_is_made_of_denials_validates() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    learn(&denials, questions(), &table);
    for zone in ["nsec.test.", "hash.test."] {
        for (owner, qtype) in [("nothingness", Type::TXT), ("zz", Type::MX), ("ent", Type::TXT)] {
            let asked = at(owner, zone);
            let Some(denial) = denials.deny(1, asked.as_name(), qtype, NOW, &mut DenialWork::default())
            else {
                continue;
            };
            let mut response = TREE.reply(asked, qtype).response();
            response.sets = denial.sets.iter().map(|set| (**set).clone()).collect();
            response.rcode = denial.rcode;
            let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
            let validator = Validator::answer(response);
            let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
            assert_eq!(ended.validated.security, Security::Secure, "{asked} {qtype}");
        }
    }
}

#[test]
fn one_denial_denies_its_neighbours() {
    for (zone, sibling) in [("nsec.test.", "nothing0"), ("hash.test.", "nothing")] {
        let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
        learn(&denials, [(at("nothing", zone), Type::A)].into_iter(), &table);
        let found = denials
            .deny(1, at(sibling, zone).as_name(), Type::TXT, NOW, &mut DenialWork::default())
            .expect("denied");
        assert_eq!(found.rcode, Rcode::NXDOMAIN);
        assert!(
            denials
                .deny(2, at(sibling, zone).as_name(), Type::TXT, NOW, &mut DenialWork::default())
                .is_none(),
            "another view"
        );
        assert!(
            denials
                .deny(1, at(sibling, zone).as_name(), Type::TXT, after(60), &mut DenialWork::default())
                .is_none(),
            "its time is over"
        );
        assert!(
            denials.deny(1, at("www", zone).as_name(), Type::A, NOW, &mut DenialWork::default()).is_none()
        );
        denials.forget(at("anything", zone).as_name(), false);
        assert!(denials.is_empty() && denials.bytes() == 0);
        assert!(
            denials
                .deny(1, at(sibling, zone).as_name(), Type::TXT, NOW, &mut DenialWork::default())
                .is_none()
        );
    }
}

#[test]
fn neither_opt_out_nor_what_is_not_secure_teaches_anything() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    for zone in ["opt.test.", "iter.test.", "plain.test.", "island.test.", "odd.test."] {
        learn(&denials, QUESTIONS.iter().map(|(owner, qtype)| (at(owner, zone), *qtype)), &table);
    }
    // The denials of DS by test. itself are another matter.
    for zone in ["opt.test.", "iter.test.", "plain.test.", "island.test.", "odd.test."] {
        assert!(
            denials
                .deny(1, at("nothing", zone).as_name(), Type::A, NOW, &mut DenialWork::default())
                .is_none(),
            "{zone}"
        );
    }
    let mut forged = TREE.reply(at("nothing", "nsec.test."), Type::A);
    forged.lines_mut().for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
    let before = denials.len();
    denials.store_denial(
        1,
        &forged.response(),
        &validated(&forged, &table).validated,
        Ttl::from_secs(60),
        NOW,
    );
    assert_eq!(denials.len(), before);
}

#[test]
fn they_are_bounded_and_what_came_first_goes_first() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(16 * 3000));
    for _ in 0..50 {
        learn(&denials, questions(), &table);
        assert!(denials.bytes() <= 16 * 3000, "{}", denials.bytes());
    }
    assert!(denials.len() > 3);
    denials.clear(0);
    learn(&denials, questions(), &table);
    assert!(denials.is_empty() && denials.bytes() == 0, "there is no room");
}

/// A wildcard expansion equals the answer of the zone's servers, and validates at a client.
#[test]
fn what_is_made_of_wildcards_is_what_servers_answer() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    learn(&denials, questions(), &table);
    let (mut made, mut links) = (0, 0);
    for zone in ZONES.iter().chain(&["test."]) {
        for (owner, qtype) in OWNERS.iter().flat_map(|owner| TYPES.map(|qtype| (owner, qtype))) {
            let asked = at(owner, zone);
            let Some(wildcard) = denials.expand(1, asked.as_name(), qtype, NOW, &mut DenialWork::default())
            else {
                continue;
            };
            let mut response = TREE.reply(asked, qtype).response();
            let truth = response.sets.clone();
            assert_eq!(truth.first(), Some(&wildcard.set), "{asked} {qtype}");
            assert!(truth.contains(&wildcard.proof), "{asked} {qtype}: {wildcard:#?} {truth:#?}");
            assert!(wildcard.ttl <= Ttl::from_secs(3600) && wildcard.ttl > Ttl::ZERO);
            response.sets = vec![wildcard.set, (*wildcard.proof).clone()];
            response.rcode = Rcode::NOERROR;
            let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
            let validator = Validator::answer(response);
            let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
            assert_eq!(ended.validated.security, Security::Secure, "{asked} {qtype}");
            assert_eq!(ended.validated.leads_to, wildcard.leads_to, "{asked} {qtype}");
            made += 1;
            links += u32::from(wildcard.leads_to.is_some());
        }
    }
    assert!(made > 20 && links > 10, "{made} {links}");
}

#[test]
fn one_answer_of_a_wildcard_answers_for_its_other_names() {
    for zone in ["nsec.test.", "hash.test."] {
        let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
        learn(&denials, [(at("x.wild", zone), Type::A)].into_iter(), &table);
        let of = |owner: &str, qtype, now| {
            denials.expand(1, at(owner, zone).as_name(), qtype, now, &mut DenialWork::default())
        };
        let found = of("y.x.wild", Type::A, NOW).expect("known");
        assert_eq!((found.set.rdatas, found.leads_to), (vec![vec![192, 0, 2, 4]], None));
        assert_eq!(found.ttl, of("y.x.wild", Type::A, NOW).expect("known").ttl);
        let later = of("y.x.wild", Type::A, after(10)).expect("known");
        assert_eq!(later.ttl.as_secs() + 10, found.ttl.as_secs());
        assert!(of("y.x.wild", Type::A, after(found.ttl.as_secs().into())).is_none(), "its time is over");
        assert!(of("y.x.wild", Type::TXT, NOW).is_none(), "of another type nothing is known");
        assert!(of("y.x.wild", Type::ANY, NOW).is_none(), "there may be more");
        for there in ["here.wild", "x.here.wild", "*.wild", "wild", "x.top", "www"] {
            assert!(of(there, Type::A, NOW).is_none(), "{there}");
        }
        assert!(
            denials
                .expand(2, at("y.x.wild", zone).as_name(), Type::A, NOW, &mut DenialWork::default())
                .is_none(),
            "another view"
        );
        // Without an SOA nothing is denied.
        assert!(
            denials
                .deny(1, at("here.wild", zone).as_name(), Type::MX, NOW, &mut DenialWork::default())
                .is_none()
        );
        denials.forget(at("anything", zone).as_name(), false);
        assert!(denials.is_empty() && denials.bytes() == 0);
        assert!(of("y.x.wild", Type::A, NOW).is_none());
    }
}

#[test]
fn large_sets_of_wildcards_are_not_kept() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    let reply = TREE.reply(at("x.wild", "nsec.test."), Type::A);
    let validated = validated(&reply, &table).validated;
    let of = |count: u16| {
        let mut response = reply.response();
        response.sets[0].rdatas = (0..count).map(|n| n.to_be_bytes().repeat(2)).collect();
        denials.clear(1 << 20);
        denials.store_wildcards(1, &response, &validated, NOW);
        denials
            .expand(1, at("y.wild", "nsec.test.").as_name(), Type::A, NOW, &mut DenialWork::default())
            .is_some()
    };
    assert!(of(400) && !of(512));
}

/// Regression: a name was hashed for the search and again for each proof, with a limit of 64 blocks of SHA-1:
/// with more than eight iterations no name was denied, and no wildcard expanded.
#[test]
fn denials_were_never_used_again_in_zones_with_more_than_eight_iterations() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    let asked = ["nothing", "x.ent", "x.a.deep.ent", "x.wild", "*.wild", "www", "ent"];
    learn(&denials, asked.iter().map(|owner| (at(owner, "slow.test."), Type::AAAA)), &table);
    learn(&denials, std::iter::once((at("x.wild", "slow.test."), Type::A)), &table);
    let deny = |owner: &str, qtype| {
        let denial =
            denials.deny(1, at(owner, "slow.test.").as_name(), qtype, NOW, &mut DenialWork::default());
        denial.map(|denial| denial.rcode)
    };
    for owner in ["nothing", "a.b.c.d.nothing", "x.a.deep.ent", "y.x.a.deep.ent"] {
        assert_eq!(deny(owner, Type::TXT), Some(Rcode::NXDOMAIN), "{owner}");
    }
    for owner in ["www", "ent", "z.x.wild"] {
        assert_eq!(deny(owner, Type::MX), Some(Rcode::NOERROR), "{owner}");
    }
    let star =
        denials.expand(1, at("z.x.wild", "slow.test.").as_name(), Type::A, NOW, &mut DenialWork::default());
    assert!(star.is_some(), "the wildcard covers it");
}

/// The denials of a zone with more iterations than the default allows.
fn many_iterations(settings: &ValidationSettings, limits: &ValidationLimits) -> ProvenDenials {
    let table = TrustTable::new(1000);
    let denials = ProvenDenials::new(0);
    denials.configure(1 << 20, settings, limits);
    for owner in ["nothing", "x.wild"] {
        // Validated under the operator's settings, like an answer.
        let taken = ValidationSettings { max_nsec3_iterations: 51, ..ValidationSettings::default() };
        let reply = TREE.reply(at(owner, "iter.test."), Type::AAAA);
        let ended = validated_by(&reply, &table, &taken);
        assert_eq!(ended.validated.security, Security::Secure);
        denials.store_denial(1, &reply.response(), &ended.validated, Ttl::from_secs(60), NOW);
    }
    denials
}

/// Regression: the default limits applied, whatever the operator's settings.
#[test]
fn the_operators_bounds_did_not_hold_for_denials_that_are_used_again() {
    let settings = |most| ValidationSettings { max_nsec3_iterations: most, ..ValidationSettings::default() };
    let limits = |hashes| ValidationLimits { nsec3_hashes: hashes, ..ValidationLimits::default() };
    let deny = |denials: &ProvenDenials| {
        let mut work = DenialWork::default();
        let name = at("a.nothing", "iter.test.");
        let denial = denials.deny(1, name.as_name(), Type::TXT, NOW, &mut work);
        (denial.map(|denial| denial.rcode), work.hashes())
    };
    // The name, the apex, the name directly below the apex, and the wildcard, each with 51 iterations.
    let hashes = 4 * 52;
    assert_eq!(deny(&many_iterations(&settings(51), &limits(hashes))), (Some(Rcode::NXDOMAIN), hashes));
    let (denied, spent) = deny(&many_iterations(&settings(51), &limits(hashes - 1)));
    assert!(denied.is_none() && spent < hashes, "{denied:?} {spent}");
    assert!(many_iterations(&settings(50), &limits(450)).is_empty(), "they are not kept");
}

/// A flood of names, each queried once.
#[test]
fn random_names_cost_no_more_hashes_than_one_question_may() {
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    let questions = QUESTIONS.iter().map(|(owner, qtype)| (at(owner, "slow.test."), *qtype));
    learn(&denials, questions.chain([(at("nothing", "slow.test."), Type::A)]), &table);
    let (most, mut random, mut sum, mut denied) = (ValidationLimits::default().nsec3_hashes, 1u64, 0, 0);
    for n in 0..1000 {
        let labels = (0..=n % 40).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{:x}.", random >> 48)
        });
        let below = ["", "ent.", "deep.ent.", "wild."][n % 4];
        let asked = name(&format!("{}{below}slow.test.", labels.collect::<String>()));
        let mut work = DenialWork::default();
        let denial = denials.deny(1, asked.as_name(), Type::A, NOW, &mut work);
        let star = denials.expand(1, asked.as_name(), Type::A, NOW, &mut work);
        denied += usize::from(denial.is_some() || star.is_some());
        assert!(work.hashes() <= most, "{asked}: {}", work.hashes());
        sum += work.hashes();
    }
    println!("{} SHA-1 blocks for a name, {denied} of 1000 answered", sum / 1000);
    assert!(denied > 500, "{denied}");
}

#[test]
fn a_dname_that_is_known_redirects_all_names_below_it() {
    for zone in ["nsec.test.", "hash.test."] {
        let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
        learn(&denials, std::iter::once((at("x.moved", zone), Type::A)), &table);
        for owner in ["y.moved", "a.b.c.moved"] {
            let asked = at(owner, zone);
            let made = denials.redirect(1, asked.as_name(), Type::TXT, NOW).expect("it is known");
            let truth = TREE.reply(asked, Type::TXT).answer;
            let cname = truth.iter().find(|line| line.rtype == Type::CNAME).expect("a CNAME");
            assert_eq!((made.cname.owner, &made.cname.rdatas), (cname.owner, &vec![cname.rdata.clone()]));
            assert_eq!(
                made.leads_to.map(|name| name.as_name().as_wire().to_vec()),
                Some(cname.rdata.clone())
            );
            assert!(made.dname.owner == at("moved", zone) && !made.dname.signatures.is_empty());
            let asked_for = denials.redirect(1, asked.as_name(), Type::CNAME, NOW).expect("it is known");
            assert_eq!(asked_for.leads_to, None);
        }
        for (owner, view, now) in
            [("moved", 1, NOW), ("x.nothing", 1, NOW), ("y.moved", 2, NOW), ("y.moved", 1, after(8999))]
        {
            assert!(denials.redirect(view, at(owner, zone).as_name(), Type::A, now).is_none(), "{owner}");
        }
        let long = name(&format!("{0}.{0}.{0}.{1}.moved.{zone}", "a".repeat(60), "b".repeat(40)));
        assert!(denials.redirect(1, long.as_name(), Type::A, NOW).is_some(), "it becomes shorter");
        denials.forget(name(zone).as_name(), false);
        assert!(denials.redirect(1, at("y.moved", zone).as_name(), Type::A, NOW).is_none());
    }
    let (table, denials) = (TrustTable::new(1000), ProvenDenials::new(1 << 20));
    learn(&denials, std::iter::once((at("x.moved", "plain.test."), Type::A)), &table);
    assert!(
        denials.redirect(1, at("y.moved", "plain.test.").as_name(), Type::A, NOW).is_none(),
        "not signed"
    );
}
