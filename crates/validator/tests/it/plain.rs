//! Honest answers, each with its expected state.

use validator::{InsecureReason, Security};
use wire::Type;

use crate::support::{OPT_OUT, UNSIGNED, reply, security, validate};

/// Questions below a zone that cover every kind of answer.
pub(crate) const QUESTIONS: &[(&str, Type)] = &[
    ("www", Type::A),
    ("www", Type::TXT),
    ("www", Type::AAAA),
    ("mail", Type::MX),
    ("alias", Type::A),
    ("alias", Type::CNAME),
    ("alias", Type::AAAA),
    ("far", Type::A),
    ("gone", Type::A),
    ("nothing", Type::A),
    ("a.b.c.nothing", Type::A),
    ("ent", Type::A),
    ("deep.ent", Type::A),
    ("x.wild", Type::A),
    ("x.y.wild", Type::A),
    ("x.wild", Type::AAAA),
    ("*.wild", Type::A),
    ("here.wild", Type::A),
    ("here.wild", Type::AAAA),
    ("x.here.wild", Type::A),
    ("x.top", Type::A),
    ("x.b.top", Type::A),
    ("b.top", Type::A),
    ("x.walias", Type::A),
    ("x.walias", Type::AAAA),
    ("moved", Type::DNAME),
    ("x.moved", Type::A),
    ("x.moved", Type::AAAA),
    ("here.moved", Type::A),
    ("zz", Type::A),
    ("zzz", Type::A),
    ("www", Type::DS),
    ("nothing", Type::DS),
    ("alias", Type::DS),
];

fn at(owner: &str, zone: &str) -> String {
    format!("{owner}.{zone}")
}

#[test]
fn honest_answers_of_secure_zones_are_secure() {
    for zone in ["test.", "nsec.test.", "hash.test.", "child.nsec.test.", "child.hash.test."] {
        for (owner, qtype) in QUESTIONS {
            let ended = validate(&reply(&at(owner, zone), *qtype));
            assert_eq!(
                ended.validated.security,
                Security::Secure,
                "{owner}.{zone} {qtype} {:?}",
                ended.needs
            );
            assert_eq!(ended.budget.failures(), 0);
        }
        for qtype in [Type::SOA, Type::NS, Type::DNSKEY, Type::DS, Type::AAAA] {
            assert_eq!(security(&reply(zone, qtype)), Security::Secure, "{zone} {qtype}");
        }
    }
    for qtype in [Type::SOA, Type::NS, Type::DNSKEY, Type::DS, Type::AAAA] {
        assert_eq!(security(&reply(".", qtype)), Security::Secure, ". {qtype}");
    }
}

#[test]
fn honest_answers_of_unsigned_zones_are_insecure() {
    let unsigned = ["plain.test.", "bare.nsec.test.", "bare.hash.test.", "island.test.", "child.plain.test."];
    for zone in unsigned {
        for (owner, qtype) in QUESTIONS {
            let state = security(&reply(&at(owner, zone), *qtype));
            assert_eq!(state, UNSIGNED, "{owner}.{zone} {qtype}");
        }
    }
    for (owner, qtype) in QUESTIONS {
        assert_eq!(security(&reply(&at(owner, "bare.opt.test."), *qtype)), OPT_OUT, "{owner} {qtype}");
        for (zone, reason) in [
            ("odd.test.", InsecureReason::UnsupportedAlgorithm),
            ("digest.test.", InsecureReason::UnsupportedDigest),
        ] {
            let state = security(&reply(&at(owner, zone), *qtype));
            assert_eq!(state, Security::Insecure(reason), "{owner}.{zone} {qtype}");
        }
    }
}

#[test]
fn what_opt_out_covers_is_not_secure_and_the_rest_is() {
    for (owner, qtype) in QUESTIONS {
        let reply = reply(&at(owner, "opt.test."), *qtype);
        let denied = reply.authority.iter().filter(|line| line.rtype == Type::NSEC3).count();
        let state = security(&reply);
        assert!(state == Security::Secure || denied > 0 && state == OPT_OUT, "{owner} {qtype}: {state:?}");
    }
    assert_eq!(security(&reply("www.opt.test.", Type::AAAA)), Security::Secure);
    assert_eq!(security(&reply("nothing.opt.test.", Type::A)), OPT_OUT);
    assert_eq!(security(&reply("bare.opt.test.", Type::DS)), OPT_OUT);
}

#[test]
fn the_chain_is_asked_for_by_the_names_of_the_signers() {
    let ended = validate(&reply("www.child.nsec.test.", Type::A));
    let needs: Vec<String> =
        ended.needs.iter().map(|need| format!("{} {}", need.name(), need.rtype())).collect();
    let expected = [
        "child.nsec.test. DS",
        "nsec.test. DS",
        "test. DS",
        ". DNSKEY",
        "test. DNSKEY",
        "nsec.test. DNSKEY",
        "child.nsec.test. DNSKEY",
    ];
    assert_eq!(needs, expected);
    assert_eq!(ended.budget.signatures(), 8, "seven of the chain and the answer's");
}
