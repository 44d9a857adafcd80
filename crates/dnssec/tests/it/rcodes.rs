//! Every pair of response code and signed records: one response code is right, and no other is secure.

use dnssec::{BogusReason, Security};
use testkit::name;
use testkit::tree::Reply;
use wire::{NameBuf, Rcode, Type};

use crate::classes::signed;
use crate::support::{is_bogus, reply, security};

/// Names that every zone of the tree has, or has not, with a type: data, aliases, wildcards, absences, and delegations.
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

/// Answers whose name a DNAME makes too long, at once and behind an alias.
fn too_long(zone: &str) -> [Reply; 2] {
    let label = |letter: &str, len: usize| letter.repeat(len);
    let target = name(&format!("{}.{zone}", label("d", 63)));
    let dname = signed(zone, &format!("d.{zone}"), Type::DNAME, &[target.as_name().as_wire()]);
    let long = [label("a", 63), label("b", 63), label("c", 63), "d".to_owned(), zone.to_owned()].join(".");
    let long: NameBuf = long.parse().expect("a name");
    let alias = signed(zone, &format!("alias.{zone}"), Type::CNAME, &[long.as_name().as_wire()]);
    let of = |asked: NameBuf, answer| Reply {
        name: asked,
        answer,
        authority: Vec::new(),
        rcode: Rcode::YXDOMAIN,
        ..reply(&format!("www.{zone}"), Type::A)
    };
    [of(long, dname.clone()), of(name(&format!("alias.{zone}")), [alias, dname].concat())]
}

/// A signed answer whose response code was changed to YXDOMAIN went out as YXDOMAIN with AD.
#[test]
fn a_response_code_that_signatures_prove_wrong_is_bogus() {
    for zone in ["nsec.test.", "hash.test."] {
        let all = QUESTIONS.iter().map(|(owner, qtype)| reply(&format!("{owner}{zone}"), *qtype));
        for honest in all.chain(too_long(zone)) {
            assert!(WITH_RECORDS.contains(&honest.rcode));
            for rcode in WITH_RECORDS {
                let changed = Reply { rcode, ..honest.clone() };
                let (state, right) = (security(&changed), rcode == honest.rcode);
                let expected = if right { state == Security::Secure } else { is_bogus(state) };
                assert!(expected, "{} {} with {rcode}: {state:?}", honest.name, honest.qtype);
            }
        }
    }
    let changed = Reply { rcode: Rcode::YXDOMAIN, ..reply("www.nsec.test.", Type::A) };
    assert_eq!(security(&changed), Security::Bogus(BogusReason::Rcode));
}

/// No signature covers what comes with an error.
#[test]
fn no_error_is_secure_whatever_records_come_with_it() {
    for rcode in (0..16).map(Rcode).filter(|rcode| !WITH_RECORDS.contains(rcode)) {
        for (owner, qtype) in QUESTIONS {
            let changed = Reply { rcode, ..reply(&format!("{owner}nsec.test."), qtype) };
            assert_eq!(security(&changed), Security::Indeterminate, "{owner} {qtype} with {rcode}");
        }
    }
}
