//! Every pair of response code and signed records: one response code is right, and no other is secure.

use testkit::answers::Line;
use testkit::name;
use testkit::tree::{TreeReply, covered};
use validator::{BogusReason, Security};
use wire::{NameBuf, Rcode, Type};

use crate::classes::signed;
use crate::support::{TREE, is_bogus, reply, security, validate};

/// Names that exist or do not exist in every zone of the tree, with a type: data, aliases, wildcards,
/// absences, and delegations.
const QUESTIONS: [(&str, Type); 22] = [
    ("www.", Type::A),
    ("www.", Type::ANY),
    ("www.", Type::AAAA),
    ("", Type::SOA),
    ("", Type::TXT),
    ("mail.", Type::MX),
    ("alias.", Type::A),
    ("alias.", Type::AAAA),
    ("alias.", Type::CNAME),
    ("gone.", Type::A),
    ("x.wild.", Type::A),
    ("x.wild.", Type::AAAA),
    ("x.walias.", Type::A),
    ("x.walias.", Type::AAAA),
    ("nothing.", Type::A),
    ("nothing.", Type::DS),
    ("deep.ent.", Type::A),
    ("moved.", Type::DNAME),
    ("x.moved.", Type::A),
    ("x.moved.", Type::AAAA),
    ("child.", Type::DS),
    ("bare.", Type::DS),
];

const WITH_RECORDS: [Rcode; 3] = [Rcode::NOERROR, Rcode::NXDOMAIN, Rcode::YXDOMAIN];

/// Answers whose name a DNAME makes too long, directly and after an alias.
fn too_long(zone: &str) -> [TreeReply; 2] {
    let label = |letter: &str, len: usize| letter.repeat(len);
    let target = name(&format!("{}.{zone}", label("d", 63)));
    let dname = signed(zone, &format!("d.{zone}"), Type::DNAME, &[target.as_name().as_wire()]);
    let long = [label("a", 63), label("b", 63), label("c", 63), "d".to_owned(), zone.to_owned()].join(".");
    let long: NameBuf = long.parse().expect("a name");
    let alias = signed(zone, &format!("alias.{zone}"), Type::CNAME, &[long.as_name().as_wire()]);
    let of = |asked: NameBuf, answer| TreeReply {
        name: asked,
        answer,
        authority: Vec::new(),
        rcode: Rcode::YXDOMAIN,
        ..reply(&format!("www.{zone}"), Type::A)
    };
    [of(long, dname.clone()), of(name(&format!("alias.{zone}")), [alias, dname].concat())]
}

/// Regression: a signed answer whose response code was changed to YXDOMAIN was sent as YXDOMAIN with AD.
#[test]
fn a_response_code_that_signatures_prove_wrong_is_bogus() {
    for zone in ["nsec.test.", "hash.test."] {
        let all = QUESTIONS.iter().map(|(owner, qtype)| reply(&format!("{owner}{zone}"), *qtype));
        for honest in all.chain(too_long(zone)) {
            assert!(WITH_RECORDS.contains(&honest.rcode));
            for rcode in WITH_RECORDS {
                let changed = TreeReply { rcode, ..honest.clone() };
                let (state, right) = (security(&changed), rcode == honest.rcode);
                let expected = if right { state == Security::Secure } else { is_bogus(state) };
                assert!(expected, "{} {} with {rcode}: {state:?}", honest.name, honest.qtype);
            }
        }
    }
    let changed = TreeReply { rcode: Rcode::YXDOMAIN, ..reply("www.nsec.test.", Type::A) };
    assert_eq!(security(&changed), Security::Bogus(BogusReason::Rcode));
}

/// The proofs deny the name, with an SOA beside them and without.
#[test]
fn a_denial_without_its_soa_proves_its_response_code_and_no_other() {
    for zone in ["nsec.test.", "hash.test."] {
        let all = QUESTIONS.iter().map(|(owner, qtype)| reply(&format!("{owner}{zone}"), *qtype));
        let is_soa = |line: &Line| line.rtype == Type::SOA || covered(line) == Some(Type::SOA);
        let mut denials = 0;
        for honest in all.filter(|reply| reply.authority.iter().any(is_soa)) {
            denials += 1;
            for rcode in WITH_RECORDS {
                let changed = TreeReply { rcode, ..honest.clone().without(is_soa) };
                let ended = validate(&changed).validated;
                let (state, right) = (ended.security, rcode == honest.rcode);
                // Nothing is proven about the target of an alias then, so the response code is not decided.
                let expected = match changed.answer.is_empty() {
                    true if right => state == Security::Secure,
                    true => is_bogus(state),
                    false => state == Security::Secure && ended.leads_to.is_some(),
                };
                assert!(expected, "{} {} with {rcode}: {ended:?}", honest.name, honest.qtype);
            }
        }
        assert!(denials > 5, "{denials}");
    }
}

/// An empty answer with NS records in the authority section, those of the zone or of one below, proves
/// nothing.
#[test]
fn what_a_referral_has_is_no_secure_answer_with_any_response_code() {
    for zone in ["nsec.test.", "hash.test."] {
        let ns = name(&format!("ns.{zone}"));
        let own = signed(zone, zone, Type::NS, &[ns.as_name().as_wire()]);
        let of = |asked: &str, authority: &[Line]| TreeReply {
            answer: Vec::new(),
            authority: authority.to_vec(),
            ..reply(&format!("{asked}{zone}"), Type::A)
        };
        let below = TREE.referral(name(&format!("child.{zone}"))).authority;
        let denial = reply(&format!("www.{zone}"), Type::AAAA).authority;
        let all = [
            ("the own zone", of("www.", &own)),
            ("the own zone, for a name that is not there", of("nothing.", &own)),
            ("a zone below", of("www.child.", &below)),
            ("a zone below, for a name beside it", of("www.", &below)),
            ("both", of("www.child.", &[own, below].concat())),
            ("no zone: nothing", of("www.", &[])),
            ("no zone: the denial of another type", of("www.child.", &denial)),
        ];
        for (what, changed) in all {
            for rcode in WITH_RECORDS {
                let state = security(&TreeReply { rcode, ..changed.clone() });
                assert!(is_bogus(state), "{zone}, servers of {what} with {rcode}: {state:?}");
            }
        }
        // Below a delegation that is proven to be insecure any of them may be true.
        let bare = TREE.referral(name(&format!("bare.{zone}"))).authority;
        for rcode in WITH_RECORDS {
            let state = security(&TreeReply { rcode, ..of("www.bare.", &bare) });
            assert!(matches!(state, Security::Insecure(_)), "{zone} with {rcode}: {state:?}");
        }
    }
}

/// Without signatures no response code is proven, neither right nor wrong.
#[test]
fn no_response_code_makes_an_insecure_zone_secure() {
    for zone in ["plain.test.", "island.test.", "bare.nsec.test."] {
        // One alias points into a signed zone.
        for (owner, qtype) in QUESTIONS.into_iter().filter(|(owner, _)| *owner != "gone.") {
            for rcode in WITH_RECORDS {
                let changed = TreeReply { rcode, ..reply(&format!("{owner}{zone}"), qtype) };
                let state = security(&changed);
                assert!(
                    matches!(state, Security::Insecure(_)),
                    "{owner}{zone} {qtype} with {rcode}: {state:?}"
                );
            }
        }
    }
}

/// No signature covers the records of an error response. Codes from 16 on use bits of OPT.
#[test]
fn no_error_is_secure_whatever_records_come_with_it() {
    for rcode in (0..=23).chain([256, 4095]).map(Rcode).filter(|rcode| !WITH_RECORDS.contains(rcode)) {
        for (owner, qtype) in QUESTIONS {
            let changed = TreeReply { rcode, ..reply(&format!("{owner}nsec.test."), qtype) };
            assert_eq!(security(&changed), Security::Indeterminate, "{owner} {qtype} with {rcode}");
        }
    }
}
