//! Known mistakes of validators, one test for each class, named after it. The comments name known cases.

use std::sync::Arc;
use std::time::Duration;

use testkit::answers::Line;
use testkit::keys::{SigningKey, Validity};
use testkit::name;
use testkit::tree::{NOW, TreeReply, UNIX_NOW, VALID, covered};
use validator::{
    BogusReason, InsecureReason, Need, Response, Security, Trust, TrustAnchors, TrustTable, Validation,
    ValidationBudget, ValidationLimit, ValidationLimits, ValidationSettings, Validator,
};
use wire::{Class, Name, NameBuf, Rcode, Ttl, Type};

use crate::support::{OPT_OUT, TREE, UNSIGNED, assert_bogus, is_bogus, reply, security, validate};

const TTL: Ttl = Ttl::from_secs(3600);
const WRONG: BogusReason = BogusReason::DenialWrong;
const MISSING: BogusReason = BogusReason::DenialMissing;

pub(crate) fn line(owner: &str, rtype: Type, rdata: &[u8]) -> Line {
    Line { owner: name(owner), rtype, ttl: TTL, rdata: rdata.to_vec() }
}

/// An RRset with a valid signature of the zone, whether the zone has it or not.
pub(crate) fn signed(zone: &str, owner: &str, rtype: Type, rdatas: &[&[u8]]) -> Vec<Line> {
    signed_at(zone, owner, rtype, rdatas, VALID)
}

fn signed_at(zone: &str, owner: &str, rtype: Type, rdatas: &[&[u8]], validity: Validity) -> Vec<Line> {
    let mut data: Vec<Vec<u8>> = rdatas.iter().map(|rdata| rdata.to_vec()).collect();
    data.sort();
    let sig = TREE.sign(name(zone), name(owner), rtype, TTL, &data, validity);
    let mut lines: Vec<Line> = data.iter().map(|rdata| line(owner, rtype, rdata)).collect();
    lines.push(line(owner, Type::RRSIG, &sig.rdata));
    lines
}

/// An NSEC record with a valid signature of the zone.
pub(crate) fn nsec(zone: &str, owner: &str, next: &str, types: &[Type]) -> Vec<Line> {
    signed(zone, owner, Type::NSEC, &[&nsec_data(next, types)])
}

fn nsec_data(next: &str, types: &[Type]) -> Vec<u8> {
    let mut map = [0u8; 32];
    types.iter().for_each(|t| map[t.0 as usize / 8] |= 0x80 >> (t.0 % 8));
    [name(next).as_name().as_wire(), &[0, 32], &map[..31], &[map[31] | 1]].concat()
}

fn query(qname: &str, qtype: Type, rcode: Rcode) -> TreeReply {
    let (answer, authority) = (Vec::new(), Vec::new());
    TreeReply { name: name(qname), qtype, rcode, class: Class::IN, answer, authority }
}

pub(crate) fn denied(qname: &str, qtype: Type, rcode: Rcode, authority: Vec<Line>) -> TreeReply {
    TreeReply { authority, ..query(qname, qtype, rcode) }
}

/// The lines of the RRsets of one type, with their signatures.
fn only(lines: &[Line], rtype: Type) -> Vec<Line> {
    lines.iter().filter(|line| covered(line).unwrap_or(line.rtype) == rtype).cloned().collect()
}

/// The NSEC or NSEC3 of an honest answer.
fn proof(qname: &str, qtype: Type) -> Vec<Line> {
    let authority = reply(qname, qtype).authority;
    [only(&authority, Type::NSEC), only(&authority, Type::NSEC3)].concat()
}

/// Validates with the DNSKEY reply of one zone changed by `make`.
fn with_dnskey(zone: &str, qname: &str, make: &dyn Fn(TreeReply) -> TreeReply) -> validator::Validated {
    let need = Need::Dnskey(name(zone));
    let settings = ValidationSettings::default();
    let honest = reply(qname, Type::A);
    TREE.validate_with(&honest, &settings, &mut |n, reply| Some(if *n == need { make(reply) } else { reply }))
        .validated
}

/// RUSTSEC-2025-0006: a key that matches its DS does not make other keys of the set valid.
#[test]
fn class_1_one_trusted_key_does_not_make_the_set_trusted() {
    let foreign = SigningKey::new(999, SigningKey::ZSK);
    let zone = name("nsec.test.");
    let added = |mut reply: TreeReply| {
        reply.answer.push(line("nsec.test.", Type::DNSKEY, &foreign.dnskey));
        reply
    };
    let resigned = |reply: TreeReply| {
        let mut reply = added(reply);
        let keys: Vec<Vec<u8>> =
            reply.answer.iter().filter(|l| l.rtype == Type::DNSKEY).map(|l| l.rdata.clone()).collect();
        let mut keys = keys;
        keys.sort();
        let sig = foreign.sign(zone.as_name(), zone, Type::DNSKEY, TTL, &keys, VALID);
        reply.answer.retain(|line| line.rtype != Type::RRSIG);
        reply.answer.push(line("nsec.test.", Type::RRSIG, &sig.rdata));
        reply
    };
    let state =
        |make: &dyn Fn(TreeReply) -> TreeReply| with_dnskey("nsec.test.", "www.nsec.test.", make).security;
    assert_eq!(state(&|reply| reply), Security::Secure);
    let bad = Security::Bogus(BogusReason::Signature(dnssec::verify::SigFault::BadSignature));
    assert_eq!(state(&added), bad);
    let no_key = Security::Bogus(BogusReason::Signature(dnssec::verify::SigFault::NoKey));
    assert_eq!(state(&resigned), no_key, "signed by a key that no DS names");
}

/// CVE-2026-123593: an anchor is valid for its own name only.
#[test]
fn class_2_an_anchor_is_compared_with_its_owner() {
    let key = &TREE.keys(name("nsec.test."))[0];
    let state = |ds_of: &str| {
        let mut anchors = TrustAnchors::none();
        let ds = key.ds(name(ds_of).as_name());
        anchors.add_ds(name("nsec.test.").as_name(), &ds).expect("an anchor");
        let validator = Validator::answer(reply("www.nsec.test.", Type::A).response());
        let (settings, table) = (ValidationSettings::default(), TrustTable::new(100));
        let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
        ended.validated.security
    };
    assert_eq!(state("nsec.test."), Security::Secure);
    assert_eq!(state("hash.test."), Security::Bogus(BogusReason::NoDnskey));
    let mut anchors = TrustAnchors::none();
    anchors.add_dnskey(name("hash.test.").as_name(), &key.dnskey).expect("an anchor");
    let validator = Validator::answer(reply("www.nsec.test.", Type::A).response());
    let (settings, table) = (ValidationSettings::default(), TrustTable::new(100));
    let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
    assert_eq!(ended.validated.security, Security::Indeterminate, "that of another name is none");
}

/// CVE-2026-11721, CVE-2026-44690, CVE-2026-52688.
#[test]
fn class_3_fewer_labels_than_the_signer_has() {
    let sig = |labels: u8| {
        let owner = name("www.nsec.test.");
        let star = if labels == 1 { name("*.test.") } else { name("*.") };
        let made = TREE.sign(name("nsec.test."), star, Type::A, TTL, &[vec![192, 0, 2, 9]], VALID);
        vec![
            Line { owner, rtype: Type::A, ttl: TTL, rdata: vec![192, 0, 2, 9] },
            Line { owner, rtype: Type::RRSIG, ttl: TTL, rdata: made.rdata },
        ]
    };
    for labels in [0, 1] {
        let forged = TreeReply { answer: sig(labels), ..reply("www.nsec.test.", Type::A) };
        assert_bogus(&forged, BogusReason::Signature(dnssec::verify::SigFault::BadLabels));
    }
}

/// CVE-2026-13321.
#[test]
fn class_4_nsec_whose_next_name_is_outside_the_zone() {
    let types = [Type::A, Type::RRSIG, Type::NSEC];
    for next in ["zzzz.", "test.", "nsec2.test."] {
        let forged = nsec("nsec.test.", "nothina.nsec.test.", next, &types);
        let star = nsec("nsec.test.", "nsec.test.", "0.nsec.test.", &[Type::SOA, Type::NS]);
        let reply = denied("nothing.nsec.test.", Type::A, Rcode::NXDOMAIN, [forged, star].concat());
        assert_bogus(&reply, WRONG);
    }
    let next = "nothinz.nsec.test.";
    let fine = nsec("nsec.test.", "nothina.nsec.test.", next, &types);
    let star = nsec("nsec.test.", "nsec.test.", "0.nsec.test.", &[Type::SOA, Type::NS]);
    let reply = denied("nothing.nsec.test.", Type::A, Rcode::NXDOMAIN, [fine, star].concat());
    assert_eq!(security(&reply), Security::Secure, "the same with a next name inside");
}

/// CVE-2026-10723, CVE-2026-123580, RUSTSEC-2026-0505.
#[test]
fn class_5_nsec3_of_another_zone() {
    let other = proof("nothing.child.hash.test.", Type::A);
    assert_bogus(&denied("nothing.hash.test.", Type::A, Rcode::NXDOMAIN, other.clone()), MISSING);
    assert_bogus(&denied("child.hash.test.", Type::DS, Rcode::NOERROR, other), MISSING);
    // With the zone's own signature, but the hash below a name that is not the apex.
    let honest = proof("nothing.hash.test.", Type::A);
    let moved: Vec<Line> = honest
        .iter()
        .filter(|line| line.rtype == Type::NSEC3)
        .flat_map(|nsec3| {
            let label = nsec3.owner.as_name().labels().next().expect("a hash");
            let below = NameBuf::prepend(label, name("www.hash.test.").as_name()).expect("a name");
            signed("hash.test.", &below.to_string(), Type::NSEC3, &[&nsec3.rdata])
        })
        .collect();
    assert_bogus(&denied("nothing.hash.test.", Type::A, Rcode::NXDOMAIN, moved), MISSING);
}

/// CVE-2026-123596, RFC 6840 §4.1.
#[test]
fn class_6_the_nsec_of_a_cut_says_nothing_of_names_below() {
    let types = [Type::NS, Type::DS, Type::RRSIG, Type::NSEC];
    let of_cut = nsec("nsec.test.", "child.nsec.test.", "d.nsec.test.", &types);
    for rcode in [Rcode::NXDOMAIN, Rcode::NOERROR] {
        let forged = denied("www.child.nsec.test.", Type::AAAA, rcode, of_cut.clone());
        assert!(is_bogus(security(&forged)), "{rcode:?}");
    }
    // The only NSEC3 covers every other name.
    let cut = name("child.hash.test.").as_name().to_lower();
    let hash = dnssec::nsec3::hash(cut.as_lower(), &[], 0);
    let owner = String::from_utf8(testkit::answers::base32hex(&hash)).expect("ASCII");
    let of_types = |types: &[u8]| {
        let rdata = [&[1, 0, 0, 0, 0, 20][..], &hash, types].concat();
        let sets = signed("hash.test.", &format!("{owner}.hash.test."), Type::NSEC3, &[&rdata]);
        security(&denied("www.child.hash.test.", Type::A, Rcode::NXDOMAIN, sets))
    };
    assert!(is_bogus(of_types(&[0, 1, 0x20])), "NS");
    assert_eq!(of_types(&[0, 1, 0x40]), Security::Secure, "A: it is no cut");
    // A DNAME hides the names below it, too.
    let types = [Type::DNAME, Type::RRSIG, Type::NSEC];
    let dname = nsec("nsec.test.", "m.nsec.test.", "n.nsec.test.", &types);
    let star = nsec("nsec.test.", "nsec.test.", "0.nsec.test.", &[Type::SOA, Type::NS]);
    let forged = [dname, star].concat();
    assert_bogus(&denied("x.m.nsec.test.", Type::A, Rcode::NXDOMAIN, forged), WRONG);
}

/// CVE-2026-123591, RFC 6840 §4.4.
#[test]
fn class_7_ds_are_denied_by_the_zone_above_alone() {
    let apex = [Type::NS, Type::SOA, Type::RRSIG, Type::NSEC, Type::DNSKEY];
    let by_child = nsec("child.nsec.test.", "child.nsec.test.", "alias.child.nsec.test.", &apex);
    assert_bogus(&denied("child.nsec.test.", Type::DS, Rcode::NOERROR, by_child.clone()), MISSING);
    let with_soa = nsec("nsec.test.", "child.nsec.test.", "d.nsec.test.", &apex);
    assert_bogus(&denied("child.nsec.test.", Type::DS, Rcode::NOERROR, with_soa.clone()), WRONG);
    // So no forged answer of the child becomes insecure by it.
    let unsigned = reply("www.child.nsec.test.", Type::A).without(|line| line.rtype == Type::RRSIG);
    for forged in [by_child, with_soa] {
        let settings = ValidationSettings::default();
        let ended = TREE.validate_with(&unsigned, &settings, &mut |need, reply| match need {
            Need::Ds(at) if *at == name("child.nsec.test.") => {
                Some(denied("child.nsec.test.", Type::DS, Rcode::NOERROR, forged.clone()))
            }
            _ => Some(reply),
        });
        assert!(is_bogus(ended.validated.security), "{:?}", ended.validated);
    }
    // Without the NS bit there is no delegation, so nothing becomes insecure.
    let no_ns = nsec("nsec.test.", "child.nsec.test.", "d.nsec.test.", &[Type::RRSIG, Type::NSEC]);
    let ended =
        TREE.validate_with(&unsigned, &ValidationSettings::default(), &mut |need, reply| match need {
            Need::Ds(at) if *at == name("child.nsec.test.") => {
                Some(denied("child.nsec.test.", Type::DS, Rcode::NOERROR, no_ns.clone()))
            }
            _ => Some(reply),
        });
    assert!(is_bogus(ended.validated.security), "{:?}", ended.validated);
}

/// CVE-2026-123594.
#[test]
fn class_8_an_empty_non_terminal_is_no_missing_name() {
    for zone in ["nsec.test.", "hash.test."] {
        let honest = reply(&format!("deep.ent.{zone}"), Type::A);
        assert_eq!((honest.rcode, security(&honest)), (Rcode::NOERROR, Security::Secure));
        let forged = TreeReply { rcode: Rcode::NXDOMAIN, ..honest };
        assert_bogus(&forged, WRONG);
    }
}

/// CVE-2026-123601.
#[test]
fn class_9_the_last_nsec3_leads_around_the_end() {
    let mut hashes: Vec<(NameBuf, Line)> = Vec::new();
    for label in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"] {
        for owner in ["hash.test.", "child.hash.test."] {
            let all = proof(&format!("{label}{label}.{owner}"), Type::A);
            hashes.extend(all.into_iter().filter(|l| l.rtype == Type::NSEC3).map(|l| (name(owner), l)));
        }
    }
    let last = hashes.iter().filter(|(_, line)| {
        let mut own = Vec::new();
        let label = line.owner.as_name().labels().next().expect("a hash");
        wire::text::Base32Hex::decode(label, &mut own).expect("a hash");
        wire::rdata::view::Nsec3::read(&line.rdata).expect("NSEC3").next_hash <= &own[..]
    });
    assert!(last.count() > 0, "no name is covered by the last one: the test proves nothing");
    for label in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r"] {
        for zone in ["hash.test.", "child.hash.test."] {
            assert_eq!(security(&reply(&format!("{label}{label}.{zone}"), Type::A)), Security::Secure);
        }
    }
}

/// CVE-2026-123587.
#[test]
fn class_10_an_unsigned_soa_does_not_say_where_the_zone_ends() {
    // An SOA that claims the parent as the zone would make its last NSEC end outside, and none wrap around.
    let mut honest = reply("zzz.nsec.test.", Type::A);
    assert_eq!(security(&honest), Security::Secure);
    honest.authority.iter_mut().filter(|l| l.rtype == Type::SOA).for_each(|l| l.owner = name("test."));
    let ended = validate(&honest);
    assert_eq!(ended.validated.security, Security::Secure);
    let sets = honest.response().sets;
    assert!(ended.validated.covers.iter().all(|at| sets[*at].rtype != Type::SOA), "the SOA is not covered");
    // An unsigned SOA of the zone itself is bogus.
    let unsigned = reply("zzz.nsec.test.", Type::A).without(|line| covered(line) == Some(Type::SOA));
    assert_bogus(&unsigned, BogusReason::Unsigned);
}

/// CVE-2026-123600.
#[test]
fn class_11_no_data_at_the_zone_s_name_needs_the_nsec3_of_that_name() {
    let other = proof("www.hash.test.", Type::AAAA);
    assert_bogus(&denied("hash.test.", Type::AAAA, Rcode::NOERROR, other), WRONG);
    let covering = proof("nothing.hash.test.", Type::A);
    let apex = proof("hash.test.", Type::AAAA);
    let without: Vec<Line> = covering.into_iter().filter(|line| line.owner != apex[0].owner).collect();
    assert_bogus(&denied("hash.test.", Type::AAAA, Rcode::NOERROR, without), WRONG);
}

/// CVE-2026-123579.
#[test]
fn class_12_a_wildcard_for_a_name_that_is_there() {
    for zone in ["nsec.test.", "hash.test."] {
        let expanded = reply(&format!("x.wild.{zone}"), Type::A);
        let matching = proof(&format!("here.wild.{zone}"), Type::AAAA);
        let here = name(&format!("here.wild.{zone}"));
        let mut answer = expanded.answer;
        answer.iter_mut().for_each(|line| line.owner = here);
        let forged = TreeReply {
            name: here,
            answer,
            authority: matching,
            ..reply(&format!("here.wild.{zone}"), Type::A)
        };
        assert_bogus(&forged, WRONG);
    }
}

/// CVE-2026-123581.
#[test]
fn class_13_only_what_was_asked_is_an_answer() {
    let www = reply("www.nsec.test.", Type::A);
    for (qname, qtype) in
        [("mail.nsec.test.", Type::A), ("www.nsec.test.", Type::TXT), ("zz.nsec.test.", Type::A)]
    {
        let forged = TreeReply {
            answer: www.answer.clone(),
            authority: www.authority.clone(),
            ..query(qname, qtype, Rcode::NOERROR)
        };
        assert_bogus(&forged, MISSING);
    }
}

/// CVE-2026-123590, CVE-2026-13204.
#[test]
fn class_14_a_signature_over_one_set_is_none_over_its_neighbour() {
    let honest = reply("nothing.nsec.test.", Type::A);
    for t in [Type::NSEC, Type::SOA] {
        let unsigned = honest.clone().without(|line| covered(line) == Some(t));
        let state = security(&unsigned);
        assert!(is_bogus(state), "{t}: {state:?}");
    }
    // An unsigned NSEC at the same owner as signed records.
    let mut forged = reply("www.nsec.test.", Type::TXT);
    forged.answer.clear();
    forged.authority = signed("nsec.test.", "www.nsec.test.", Type::A, &[&[192, 0, 2, 1]]);
    forged.authority.push(line("www.nsec.test.", Type::NSEC, &nsec_data("x.nsec.test.", &[Type::A])));
    assert_bogus(&forged, MISSING);
    let wildcard = reply("x.wild.hash.test.", Type::A).without(|line| covered(line) == Some(Type::NSEC3));
    assert_bogus(&wildcard, MISSING);
}

/// CVE-2026-123599.
#[test]
fn class_15_another_class_is_not_validated_as_in() {
    for class in [Class::CH, Class::HS, Class(0), Class::ANY] {
        let answered = TreeReply { class, ..reply("www.nsec.test.", Type::A) };
        assert_bogus(&answered, MISSING);
        assert_bogus(&TreeReply { class, ..reply("nothing.nsec.test.", Type::A) }, MISSING);
    }
    let mut message = reply("www.nsec.test.", Type::A).message();
    let qclass = 12 + name("www.nsec.test.").as_name().len() + 3;
    message[qclass] = 3;
    let response = Response::read(&message, Rcode::NOERROR).expect("a response");
    let (settings, table) = (ValidationSettings::default(), TrustTable::new(100));
    let ended =
        TREE.run(Validator::answer(response), &settings, &TREE.anchors(), &table, &mut |_, r| Some(r));
    assert_eq!(ended.validated.security, Security::Indeterminate);
}

/// CVE-2026-52686.
#[test]
fn class_16_an_alias_of_a_wildcard_needs_its_proof() {
    for zone in ["nsec.test.", "hash.test."] {
        let honest = reply(&format!("x.walias.{zone}"), Type::A);
        assert_eq!(security(&honest), Security::Secure);
        let forged = TreeReply { authority: Vec::new(), ..honest };
        assert_bogus(&forged, MISSING);
    }
}

/// CVE-2026-35501, CVE-2026-50106.
#[test]
fn class_17_an_island_below_an_unsigned_zone_is_not_trusted() {
    assert_eq!(security(&reply("www.child.plain.test.", Type::A)), UNSIGNED);
    assert_eq!(security(&reply("www.island.test.", Type::A)), UNSIGNED);
    // With an anchor of its own it is.
    let mut anchors = TREE.anchors();
    let key = &TREE.keys(name("island.test."))[0].dnskey;
    anchors.add_dnskey(name("island.test.").as_name(), key).expect("an anchor");
    let validator = Validator::answer(reply("www.island.test.", Type::A).response());
    let (settings, table) = (ValidationSettings::default(), TrustTable::new(100));
    let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
    assert_eq!(ended.validated.security, Security::Secure);
    assert_eq!(ended.needs, [Need::Dnskey(name("island.test."))]);
    // A negative anchor makes even signed zones insecure.
    anchors.add_negative(name("nsec.test.").as_name());
    let validator = Validator::answer(reply("www.child.nsec.test.", Type::A).response());
    let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
    assert_eq!(ended.validated.security, Security::Insecure(InsecureReason::NegativeAnchor));
    assert_eq!(ended.needs, []);
}

/// RUSTSEC-2026-0118: validation ends, whatever the owners.
#[test]
fn class_18_an_soa_that_is_not_above_the_name() {
    for owner in ["elsewhere.", "www.nothing.nsec.test.", "zz.test."] {
        let mut forged = reply("nothing.nsec.test.", Type::A);
        forged.authority.iter_mut().filter(|l| l.rtype == Type::SOA).for_each(|l| l.owner = name(owner));
        let ended = validate(&forged);
        // The NSEC records deny the name, and they are valid.
        assert_eq!(ended.validated.security, Security::Secure, "{owner}");
        let sets = forged.response().sets;
        assert!(ended.validated.covers.iter().all(|at| sets[*at].rtype != Type::SOA), "{owner}");
    }
}

/// CVE-2026-93657, and class 22: code that rewrites answers gets nothing from a bogus one.
#[test]
fn class_19_nothing_of_a_bogus_answer_is_covered() {
    let mut forged = reply("alias.nsec.test.", Type::A);
    forged.answer.retain(|line| covered(line) != Some(Type::A));
    let validated = validate(&forged).validated;
    assert_eq!(validated.security, Security::Bogus(BogusReason::Unsigned));
    assert_eq!(validated.covers, []);
    assert_eq!(validated.at, name("www.nsec.test."), "the name at fault");
    assert_eq!(validated.ttl, ValidationSettings::default().bogus_ttl);
}

/// CVE-2026-46582: a wildcard expansion is cached only with its proof.
#[test]
fn class_20_the_proof_of_a_wildcard_is_part_of_what_is_covered() {
    for (zone, t) in [("nsec.test.", Type::NSEC), ("hash.test.", Type::NSEC3)] {
        let honest = reply(&format!("x.wild.{zone}"), Type::A);
        let sets = honest.response().sets;
        let covers: Vec<Type> = validate(&honest).validated.covers.iter().map(|at| sets[*at].rtype).collect();
        assert_eq!(covers, [Type::A, t]);
    }
}

/// CVE-2026-44687: names below a nonexistent name, and zones that exist.
#[test]
fn class_21_a_cut_that_is_known_is_not_denied_by_the_zone_above() {
    let table = TrustTable::new(100);
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let run = |reply: &TreeReply, table: &TrustTable| {
        let validator = Validator::answer(reply.response());
        TREE.run(validator, &settings, &anchors, table, &mut |_, reply| Some(reply)).validated.security
    };
    assert_eq!(run(&reply("www.child.nsec.test.", Type::A), &table), Security::Secure);
    let span = nsec("nsec.test.", "b.nsec.test.", "d.nsec.test.", &[Type::A]);
    let star = nsec("nsec.test.", "nsec.test.", "0.nsec.test.", &[Type::SOA, Type::NS]);
    let forged = denied("www.child.nsec.test.", Type::A, Rcode::NXDOMAIN, [span, star].concat());
    assert_eq!(run(&forged, &table), Security::Bogus(MISSING));
}

/// CVE-2026-42959, CVE-2026-12617.
#[test]
fn class_23_the_alias_beside_a_dname_has_to_follow_from_it() {
    let honest = reply("x.moved.nsec.test.", Type::A);
    assert_eq!(security(&honest), Security::Secure);
    let mut forged = honest.clone();
    let aliases = forged.answer.iter_mut().filter(|line| line.rtype == Type::CNAME);
    aliases.for_each(|line| line.rdata = name("www.nsec.test.").as_name().as_wire().to_vec());
    assert_bogus(&forged, BogusReason::Synthesis);
    let mut reversed = honest.clone();
    reversed.answer.reverse();
    assert_eq!(security(&reversed), Security::Secure, "in any order");
    let unsigned = honest.without(|line| covered(line) == Some(Type::DNAME));
    assert_bogus(&unsigned, BogusReason::Unsigned);
}

/// RFC 5155 §9.2.
#[test]
fn class_24_what_opt_out_covers_is_never_secure() {
    let honest = reply("nothing.opt.test.", Type::A);
    assert_eq!(security(&honest), OPT_OUT);
    // Nor does it make existing names insecure: names with data have an NSEC3.
    let www = reply("www.opt.test.", Type::A).without(|line| line.rtype == Type::RRSIG);
    let forged = TreeReply { authority: honest.authority, ..www };
    assert_bogus(&forged, BogusReason::Unsigned);
    let settings = ValidationSettings::default();
    let proof = reply("bare.opt.test.", Type::DS);
    let ended = TREE.validate_with(&forged, &settings, &mut |need, reply| match need {
        Need::Ds(at) if *at == forged.name => Some(TreeReply { name: *at, ..proof.clone() }),
        _ => Some(reply),
    });
    assert!(is_bogus(ended.validated.security), "{:?}", ended.validated);
}

#[test]
fn class_25_nsec3_of_different_parameters_prove_nothing_together() {
    let honest = proof("nothing.hash.test.", Type::A);
    let mut nsec3: Vec<Vec<Line>> = honest.chunks(2).map(<[Line]>::to_vec).collect();
    assert!(nsec3.len() > 1 && security(&reply("nothing.hash.test.", Type::A)) == Security::Secure);
    for (at, byte) in [(0, 2), (1, 2), (3, 1)] {
        let mut mixed = nsec3.clone();
        for set in mixed.iter_mut().skip(1) {
            let mut rdata = set[0].rdata.clone();
            rdata[at] = byte;
            *set = signed("hash.test.", &set[0].owner.to_string(), Type::NSEC3, &[&rdata]);
        }
        let forged = denied("nothing.hash.test.", Type::A, Rcode::NXDOMAIN, mixed.concat());
        assert_bogus(&forged, WRONG);
    }
    nsec3.reverse();
    let reversed = denied("nothing.hash.test.", Type::A, Rcode::NXDOMAIN, nsec3.concat());
    assert_eq!(security(&reversed), Security::Secure);
}

/// RFC 9276 §3.2.
#[test]
fn too_many_iterations_are_insecure_if_they_are_signed() {
    let reason = Security::Insecure(InsecureReason::Iterations);
    assert_eq!(security(&reply("nothing.iter.test.", Type::A)), reason);
    assert_eq!(security(&reply("www.iter.test.", Type::A)), Security::Secure, "what is there is there");
    assert_eq!(validate(&reply("nothing.iter.test.", Type::A)).budget.nsec3_hashes(), 0);
    let mut forged = reply("nothing.hash.test.", Type::A);
    forged.authority.iter_mut().filter(|l| l.rtype == Type::NSEC3).for_each(|l| l.rdata[3] = 200);
    assert_bogus(&forged, BogusReason::Signature(dnssec::verify::SigFault::BadSignature));
    let fifty = ValidationSettings { max_nsec3_iterations: 51, ..ValidationSettings::default() };
    let ended = TREE.validate_with(&reply("nothing.iter.test.", Type::A), &fifty, &mut |_, r| Some(r));
    assert_eq!(ended.validated.security, Security::Secure);
    assert_eq!(ended.budget.nsec3_hashes(), 3 * 52, "three names");
}

#[test]
fn class_26_times_of_signatures() {
    let at = |inception, expiration| {
        let validity = Validity { inception, expiration };
        let answer = signed_at("nsec.test.", "zz.nsec.test.", Type::A, &[&[192, 0, 2, 6]], validity);
        let forged = TreeReply { answer, ..reply("zz.nsec.test.", Type::A) };
        validate(&forged).validated
    };
    let sig = |fault| Security::Bogus(BogusReason::Signature(fault));
    use dnssec::verify::SigFault;
    assert_eq!(at(NOW - 10, NOW + 10).security, Security::Secure);
    assert_eq!(at(NOW - 10, NOW + 10).ttl, Ttl::from_secs(70), "no longer than the signature lasts");
    assert_eq!(at(NOW + 60, NOW + 100).security, Security::Secure, "clocks may differ");
    assert_eq!(at(NOW + 61, NOW + 100).security, sig(SigFault::NotYetValid));
    assert_eq!(at(NOW - 100, NOW - 60).security, Security::Secure);
    assert_eq!(at(NOW - 100, NOW - 61).security, sig(SigFault::Expired));
    assert_eq!(at(NOW + 5, NOW - 5).security, sig(SigFault::ExpiredBeforeValid));
    assert_eq!(at(NOW.wrapping_sub(1 << 30), NOW.wrapping_add(1 << 30)).security, Security::Secure);
}

/// RFC 4035 §5.2, RFC 6840 §5.2, §5.11.
#[test]
fn class_27_unsupported_ds_make_insecure_only_if_all_are() {
    let zone = name("nsec.test.");
    let good = TREE.keys(zone)[0].ds(zone.as_name());
    let with = |at: usize, byte: u8| {
        let mut ds = good.clone();
        ds[at] = byte;
        ds
    };
    let (algorithm, digest, wrong) = (with(2, 200), with(3, 200), with(9, 0xee));
    let sha1 = with(3, 1);
    let state = |ds: &[&[u8]]| {
        let answer = signed("test.", "nsec.test.", Type::DS, ds);
        let settings = ValidationSettings::default();
        let ended = TREE.validate_with(&reply("www.nsec.test.", Type::A), &settings, &mut |need, reply| {
            Some(if *need == Need::Ds(zone) { TreeReply { answer: answer.clone(), ..reply } } else { reply })
        });
        ended.validated.security
    };
    let insecure = Security::Insecure;
    assert_eq!(state(&[&good]), Security::Secure);
    assert_eq!(state(&[&algorithm, &digest, &good]), Security::Secure);
    assert_eq!(state(&[&algorithm]), insecure(InsecureReason::UnsupportedAlgorithm));
    assert_eq!(state(&[&digest]), insecure(InsecureReason::UnsupportedDigest));
    assert_eq!(state(&[&algorithm, &digest]), insecure(InsecureReason::UnsupportedDigest));
    assert_eq!(state(&[&algorithm, &wrong]), Security::Bogus(BogusReason::NoDnskey), "no downgrade");
    assert_eq!(state(&[&wrong, &good]), Security::Secure, "one is enough");
    assert_eq!(state(&[&sha1[..24], &good]), Security::Secure, "RFC 4509 §3: SHA-1 is not looked at");
    assert_eq!(state(&[&sha1[..24], &digest]), Security::Bogus(BogusReason::NoDnskey), "it is, alone");
    // RFC 9905: RSA with SHA-1 is not supported, unless the operator says otherwise.
    assert_eq!(state(&[&with(2, 5)]), insecure(InsecureReason::UnsupportedAlgorithm));
    assert_eq!(state(&[&with(2, 7)]), insecure(InsecureReason::UnsupportedAlgorithm));
}

#[test]
fn class_28_signatures_over_what_no_zone_holds() {
    for t in [Type::OPT, Type::ANY, Type::TSIG, Type::AXFR, Type(0), Type(128)] {
        let answer = signed("nsec.test.", "www.nsec.test.", t, &[b"x"]);
        let forged = TreeReply { answer, ..query("www.nsec.test.", t, Rcode::NOERROR) };
        let state = security(&forged);
        assert!(state != Security::Secure, "{t}: {state:?}");
    }
    // A signature over signatures proves nothing: RRSIG cannot be signed (RFC 4035 §2.2).
    let forged = reply("www.nsec.test.", Type::RRSIG);
    assert_eq!(security(&forged), Security::Indeterminate);
}

#[test]
fn class_29_an_alias_in_answer_to_ds_ends_there() {
    let unsigned = reply("alias.nsec.test.", Type::CNAME).without(|line| line.rtype == Type::RRSIG);
    let ended = validate(&unsigned);
    assert_eq!(ended.validated.security, Security::Bogus(BogusReason::Unsigned));
    let last = ended.needs.last();
    assert_eq!(last, Some(&Need::Ds(name("alias.nsec.test."))), "the alias says that no zone begins here");
    // An unsigned alias proves nothing, and is not followed.
    let settings = ValidationSettings::default();
    let ended = TREE.validate_with(&unsigned, &settings, &mut |need, reply| match need {
        Need::Ds(at) if *at == unsigned.name => Some(reply.without(|line| line.rtype == Type::RRSIG)),
        _ => Some(reply),
    });
    assert!(is_bogus(ended.validated.security));
    assert!(ended.needs.len() <= 8, "{:?}", ended.needs);
}

/// CVE-2026-39155: an NSEC generated on the fly denies a minimal range; as it is signed, it is accepted.
#[test]
fn class_30_minimal_nsec_are_believed_for_what_they_cover() {
    let types = [Type::RRSIG, Type::NSEC];
    let span = nsec("nsec.test.", r"nothinf\255.nsec.test.", r"nothing\000.nsec.test.", &types);
    let star = nsec("nsec.test.", r"\041\255.nsec.test.", r"+.nsec.test.", &types);
    let all = [span.clone(), star].concat();
    assert_eq!(security(&denied("nothing.nsec.test.", Type::A, Rcode::NXDOMAIN, all)), Security::Secure);
    assert_bogus(&denied("nothing.nsec.test.", Type::A, Rcode::NXDOMAIN, span.clone()), WRONG);
    assert_bogus(&denied("other.nsec.test.", Type::A, Rcode::NXDOMAIN, span), WRONG);
    // RFC 9824: the name itself, with a type that marks it as nonexistent.
    let map = [&[0, 17][..], &[0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]].concat();
    let rdata = [name(r"\000.nothing.nsec.test.").as_name().as_wire(), &map].concat();
    let compact = signed("nsec.test.", "nothing.nsec.test.", Type::NSEC, &[&rdata]);
    for rcode in [Rcode::NOERROR, Rcode::NXDOMAIN] {
        let reply = denied("nothing.nsec.test.", Type::A, rcode, compact.clone());
        assert_eq!(security(&reply), Security::Secure, "{rcode:?}");
    }
}

/// An NSEC expanded from a wildcard is not one of the name that it then has.
#[test]
fn an_nsec_made_of_a_wildcard_proves_nothing() {
    let star = proof("x.wild.nsec.test.", Type::AAAA);
    let of_star: Vec<Line> =
        star.into_iter().filter(|line| line.owner == name("*.wild.nsec.test.")).collect();
    assert!(!of_star.is_empty());
    let mut moved = of_star;
    moved.iter_mut().for_each(|line| line.owner = name("here.wild.nsec.test."));
    assert_bogus(&denied("here.wild.nsec.test.", Type::TXT, Rcode::NOERROR, moved), WRONG);
}

/// A referral yields the trust state that it proves, and no more.
#[test]
fn referrals_teach_what_they_prove() {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let learned = |reply: TreeReply, child: &str| {
        let table = TrustTable::new(100);
        let validator = Validator::referral(reply.response(), name(child).as_name());
        TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
        table.get(name(child).as_name(), UNIX_NOW)
    };
    let honest = |child: &str| learned(TREE.referral(name(child)), child);
    assert!(matches!(honest("nsec.test."), Some(Trust::Delegated(_))));
    assert!(matches!(honest("child.hash.test."), Some(Trust::Delegated(_))));
    for child in ["plain.test.", "bare.nsec.test.", "bare.hash.test."] {
        assert_eq!(honest(child), Some(Trust::Insecure(InsecureReason::Unsigned)), "{child}");
    }
    assert_eq!(honest("bare.opt.test."), Some(Trust::Insecure(InsecureReason::OptOut)));
    assert_eq!(honest("odd.test."), Some(Trust::Insecure(InsecureReason::UnsupportedAlgorithm)));
    let bare = TREE.referral(name("nsec.test.")).without(|line| line.rtype != Type::NS);
    assert_eq!(learned(bare, "nsec.test."), None, "it has neither DS nor a proof");
    let mut forged = TREE.referral(name("nsec.test."));
    forged.authority.retain(|line| line.rtype == Type::NS);
    forged.authority.extend(proof("plain.test.", Type::DS));
    assert_eq!(learned(forged, "nsec.test."), None, "it proves nothing");
}

#[test]
fn one_client_s_exhausted_budget_is_not_held_against_the_zone() {
    let anchors = TREE.anchors();
    let settings = ValidationSettings::default();
    let by = Validation { settings: &settings, anchors: &anchors, now: UNIX_NOW };
    let table = TrustTable::new(100);
    let mut budget = ValidationBudget::new(ValidationLimits { signatures: 2, ..ValidationLimits::default() });
    let mut validator = Validator::answer(reply("www.nsec.test.", Type::A).response());
    let ended = loop {
        match validator.step(&by, &table, &mut budget) {
            validator::Progress::Done(validated) => break validated,
            validator::Progress::Again(_) => validator.give_up(&by, &table),
            validator::Progress::Need(need) => {
                let reply = TREE.reply(need.name().to_buf(), need.rtype());
                validator.receive(reply.response(), &by, &table);
            }
        }
    };
    assert_eq!(ended.security, Security::Bogus(BogusReason::Limit(ValidationLimit::Signatures)));
    assert_eq!(budget.signatures(), 2);
    let ended = TREE.run(
        Validator::answer(reply("www.nsec.test.", Type::A).response()),
        &settings,
        &anchors,
        &table,
        &mut |_, reply| Some(reply),
    );
    assert_eq!(ended.validated.security, Security::Secure);
}

#[test]
fn limits_of_one_set_are_named() {
    let limit = |limit| Security::Bogus(BogusReason::Limit(limit));
    let many: Vec<[u8; 4]> = (0..=256u32).map(u32::to_be_bytes).collect();
    let many: Vec<&[u8]> = many.iter().map(|a| &a[..]).collect();
    let answer = signed("nsec.test.", "zz.nsec.test.", Type::A, &many);
    let reply_of = |answer| TreeReply { answer, ..reply("zz.nsec.test.", Type::A) };
    assert_eq!(security(&reply_of(answer)), limit(ValidationLimit::RecordsPerSet));
    assert_eq!(
        security(&reply_of(signed("nsec.test.", "zz.nsec.test.", Type::A, &many[..256]))),
        Security::Secure
    );
    // Signatures by absent keys cost nothing, but only a limited number is checked.
    let mut answer = signed("nsec.test.", "zz.nsec.test.", Type::A, &[&[192, 0, 2, 6]]);
    let good = answer.pop().expect("a signature");
    for number in 0..8u8 {
        let mut other = good.clone();
        other.rdata[16] = other.rdata[16].wrapping_add(number + 1);
        answer.push(other);
    }
    answer.push(good);
    assert_eq!(security(&reply_of(answer.clone())), limit(ValidationLimit::SignaturesPerSet));
    answer.remove(1);
    assert_eq!(security(&reply_of(answer)), Security::Secure, "the eighth is good");
}

/// Names with a revoked key, or one that is not a zone key (RFC 5011 §2.1, RFC 4034 §2.1.1).
#[test]
fn keys_that_may_not_sign_do_not() {
    let zone = name("nsec.test.");
    for flags in [SigningKey::KSK | 0x80, 1, 0] {
        let key = SigningKey::new(77, flags);
        let sig = key.sign(zone.as_name(), zone, Type::DNSKEY, TTL, std::slice::from_ref(&key.dnskey), VALID);
        let answer =
            vec![line("nsec.test.", Type::DNSKEY, &key.dnskey), line("nsec.test.", Type::RRSIG, &sig.rdata)];
        let ds = signed("test.", "nsec.test.", Type::DS, &[&key.ds(zone.as_name())]);
        let settings = ValidationSettings::default();
        let ended = TREE.validate_with(&reply("www.nsec.test.", Type::A), &settings, &mut |need, reply| {
            Some(match need {
                Need::Ds(at) if *at == zone => TreeReply { answer: ds.clone(), ..reply },
                Need::Dnskey(at) if *at == zone => TreeReply { answer: answer.clone(), ..reply },
                _ => reply,
            })
        });
        assert_eq!(ended.validated.security, Security::Bogus(BogusReason::NoZoneKey), "{flags:x}");
    }
}

#[test]
fn what_cannot_be_had_is_bogus_and_says_so() {
    let settings = ValidationSettings::default();
    let honest = reply("www.nsec.test.", Type::A);
    let ended = TREE.validate_with(&honest, &settings, &mut |_, _| None);
    assert_eq!(ended.validated.security, Security::Bogus(BogusReason::Unreachable));
    let none = TrustAnchors::none();
    let table = TrustTable::new(100);
    let ended = TREE.run(Validator::answer(honest.response()), &settings, &none, &table, &mut |_, r| Some(r));
    assert_eq!((ended.validated.security, ended.needs), (Security::Indeterminate, Vec::new()));
}

/// A zone's DS are cached no longer than their TTL, and keys no longer than the DS.
#[test]
fn what_was_learned_is_kept_for_its_time() {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let table = TrustTable::new(100);
    let honest = reply("www.nsec.test.", Type::A);
    TREE.run(Validator::answer(honest.response()), &settings, &anchors, &table, &mut |_, r| Some(r));
    let after = |seconds| {
        table.get(name("nsec.test.").as_name(), UNIX_NOW.saturating_add(Duration::from_secs(seconds)))
    };
    let keys: Arc<[Vec<u8>]> = TREE.keys(name("nsec.test.")).iter().map(|key| key.dnskey.clone()).collect();
    let Some(Trust::Secure(known)) = after(3599) else { panic!("keys") };
    assert_eq!(known.len(), keys.len());
    assert_eq!(after(3600), None);
    let again =
        TREE.run(Validator::answer(honest.response()), &settings, &anchors, &table, &mut |_, r| Some(r));
    assert_eq!((again.validated.security, again.needs.len()), (Security::Secure, 0));
    assert_eq!(again.budget.signatures(), 1);
    table.forget(Name::ROOT);
    assert!(table.is_empty());
}
