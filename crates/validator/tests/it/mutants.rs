//! Forged variants of honest answers. Secure data is always true, and nothing in a signed zone becomes
//! insecure.
//!
//! The truth is the zones' own answer to the same question.

use std::collections::BTreeSet;

use testkit::answers::Line;
use testkit::name;
use testkit::tree::{TreeReply, covered};
use validator::{ReceivedSet, Response, Security, TrustTable, ValidationSettings, Validator};
use wire::message::Section;
use wire::{NameBuf, Rcode, Serial, Type};

use crate::plain::QUESTIONS;
use crate::support::{OPT_OUT, TREE, is_bogus};

/// Signed zones, and whether opt-out leaves some of their names insecure.
const ZONES: [(&str, bool); 4] =
    [("nsec.test.", false), ("hash.test.", false), ("opt.test.", true), ("child.nsec.test.", false)];

/// An RRset for comparison.
type Set = (NameBuf, u16, Vec<Vec<u8>>);

/// The signed content of an answer section. A CNAME that follows from a DNAME is not signed.
fn said<'s>(sets: impl Iterator<Item = &'s ReceivedSet>) -> BTreeSet<Set> {
    let answers = sets.filter(|set| set.section == Section::Answer);
    let signed = answers.filter(|set| set.rtype != Type::CNAME || !set.signatures.is_empty());
    signed.map(|set| (set.owner, set.rtype.0, set.rdatas.clone())).collect()
}

/// A question, its honest answer and the keys of all zones on the way.
struct Case {
    honest: TreeReply,
    table: TrustTable,
    opt_out: bool,
}

impl Case {
    fn new(owner: &str, qtype: Type, (zone, opt_out): (&str, bool)) -> Self {
        let honest = TREE.reply(name(&format!("{owner}.{zone}")), qtype);
        let table = TrustTable::new(1000);
        let validator = Validator::answer(honest.response());
        let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
        let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
        let state = ended.validated.security;
        assert!(state == Security::Secure || opt_out && state == OPT_OUT, "{honest:#?}: {state:?}");
        Case { honest, table, opt_out }
    }

    /// Validates a mutant of the honest answer; `made` describes it. Returns whether it was rejected.
    fn judge(&self, mutant: &TreeReply, made: &str) -> bool {
        // A malformed response is not validated.
        let Ok(response) = Response::read(&mutant.message(), mutant.rcode) else { return true };
        let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
        let table = self.table.clone();
        let validator = Validator::answer(response.clone());
        let ended = TREE.run(validator, &settings, &anchors, &table, &mut |_, reply| Some(reply));
        let limits = ended.budget.limits();
        assert!(ended.budget.signatures() <= limits.signatures && ended.budget.failures() <= limits.failures);
        let validated = ended.validated;
        match validated.security {
            Security::Bogus(_) => assert_eq!(validated.covers, [], "{made}"),
            Security::Secure => {
                let truth = TREE.reply(mutant.name, mutant.qtype);
                let covered = said(validated.covers.iter().map(|at| &response.sets[*at]));
                let honest = said(truth.response().sets.iter());
                let context = || format!("{made}: {validated:?} {mutant:#?} {truth:#?}");
                assert!(validated.ttl.as_secs() <= 3600, "{}", context());
                match validated.leads_to {
                    // The target is queried separately.
                    Some(_) => assert!(covered.is_subset(&honest) && !covered.is_empty(), "{}", context()),
                    None => assert!(covered == honest && mutant.rcode == truth.rcode, "{}", context()),
                }
            }
            Security::Insecure(_) => {
                assert!(self.opt_out && validated.security == OPT_OUT, "{made}: {validated:?} {mutant:#?}");
            }
            Security::Indeterminate => panic!("{made}: {validated:?} {mutant:#?}"),
        }
        is_bogus(validated.security)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    ZONES.iter().flat_map(|zone| QUESTIONS.iter().map(move |(owner, qtype)| Case::new(owner, *qtype, *zone)))
}

/// Applies `change` to each line of a reply in turn; it returns whether it changed the line.
fn each_line(honest: &TreeReply, change: impl Fn(&mut Line) -> bool) -> Vec<TreeReply> {
    let lines = honest.answer.len() + honest.authority.len();
    let changed = |at: usize| {
        let mut mutant = honest.clone();
        let line = mutant.lines_mut().nth(at)?;
        change(line).then_some(mutant)
    };
    (0..lines).filter_map(changed).collect()
}

/// The reply without its line number `at`.
pub(crate) fn without_line(honest: &TreeReply, at: usize) -> TreeReply {
    let mut seen = 0;
    honest.clone().without(|_| {
        seen += 1;
        seen == at + 1
    })
}

#[test]
fn lines_left_out() {
    let (mut mutants, mut rejected) = (0, 0);
    for case in cases() {
        for at in 0..case.honest.answer.len() + case.honest.authority.len() {
            mutants += 1;
            rejected += case.judge(&without_line(&case.honest, at), "left out") as u32;
        }
        for t in [Type::NSEC, Type::NSEC3, Type::SOA, Type::RRSIG] {
            mutants += 1;
            let gone = case.honest.clone().without(|line| line.rtype == t);
            rejected += case.judge(&gone, "a type left out") as u32;
        }
    }
    assert!(mutants > 600 && rejected > mutants / 2, "{rejected} of {mutants}");
}

#[test]
fn bytes_changed() {
    let (mut mutants, mut rejected) = (0, 0);
    for case in cases() {
        for place in [0, 3, 6] {
            for mutant in each_line(&case.honest, |line| {
                let at = line.rdata.len() * place / 7;
                line.rdata[at] ^= 1 << (at % 8);
                true
            }) {
                mutants += 1;
                rejected += case.judge(&mutant, "a byte changed") as u32;
            }
        }
    }
    assert!(mutants > 600 && rejected > mutants * 3 / 4, "{rejected} of {mutants}");
}

/// A change of the RDATA of an RRSIG.
type Change = dyn Fn(&mut Vec<u8>);

#[test]
fn fields_of_signatures_changed() {
    let set = |at: usize, bytes: &'static [u8]| {
        move |rdata: &mut Vec<u8>| rdata[at..at + bytes.len()].copy_from_slice(bytes)
    };
    let add = |at: usize, more: u8| move |rdata: &mut Vec<u8>| rdata[at] = rdata[at].wrapping_add(more);
    let signer = |to: &'static str| {
        move |rdata: &mut Vec<u8>| {
            let end = 18 + wire::Name::parse(&rdata[18..]).expect("a signer").len();
            rdata.splice(18..end, name(to).as_name().as_wire().iter().copied());
        }
    };
    let changes: Vec<Box<Change>> = vec![
        Box::new(set(0, &[0, 1])),
        Box::new(set(0, &[0, 47])),
        Box::new(set(2, &[13])),
        Box::new(set(2, &[5])),
        Box::new(set(2, &[0])),
        Box::new(set(3, &[0])),
        Box::new(add(3, 1)),
        Box::new(add(3, u8::MAX)),
        Box::new(add(7, 1)),
        Box::new(set(8, &[0x7f, 0xff, 0xff, 0xff])),
        Box::new(set(12, &[0, 0, 0, 1])),
        Box::new(add(17, 1)),
        Box::new(signer(".")),
        Box::new(signer("test.")),
        Box::new(signer("nsec.test.")),
        Box::new(signer("www.nsec.test.")),
        Box::new(signer("bare.nsec.test.")),
        Box::new(signer("plain.test.")),
        Box::new(|rdata| rdata.truncate(40)),
    ];
    let (mut mutants, mut rejected) = (0, 0);
    for case in cases().step_by(3) {
        for (number, change) in changes.iter().enumerate() {
            for mutant in each_line(&case.honest, |line| {
                let before = line.rdata.clone();
                let _ = line.rtype == Type::RRSIG && {
                    change(&mut line.rdata);
                    true
                };
                line.rdata != before
            }) {
                mutants += 1;
                rejected += case.judge(&mutant, &format!("signature changed, {number}")) as u32;
            }
        }
    }
    assert!(mutants > 600 && rejected > mutants * 3 / 4, "{rejected} of {mutants}");
}

#[test]
fn sets_moved_to_other_owners() {
    let (mut mutants, mut rejected) = (0, 0);
    for case in cases() {
        let zone = case.honest.name.as_name().parent().expect("a parent").to_buf();
        let owners = [case.honest.name, zone, NameBuf::prepend(b"nothing", zone.as_name()).expect("a name")];
        let sets: BTreeSet<(NameBuf, Type)> = {
            let lines = case.honest.answer.iter().chain(&case.honest.authority);
            lines.filter(|line| line.rtype != Type::RRSIG).map(|line| (line.owner, line.rtype)).collect()
        };
        for (owner, rtype) in sets {
            for to in owners.iter().filter(|to| **to != owner) {
                let mut mutant = case.honest.clone();
                let of_set =
                    |line: &&mut Line| line.owner == owner && covered(line).unwrap_or(line.rtype) == rtype;
                mutant.lines_mut().filter(of_set).for_each(|line| line.owner = *to);
                mutants += 1;
                rejected += case.judge(&mutant, "moved") as u32;
            }
        }
    }
    assert!(mutants > 600 && rejected > mutants / 2, "{rejected} of {mutants}");
}

#[test]
fn other_response_codes() {
    for case in cases() {
        let mut mutant = case.honest.clone();
        mutant.rcode = if mutant.rcode == Rcode::NOERROR { Rcode::NXDOMAIN } else { Rcode::NOERROR };
        case.judge(&mutant, "other response code");
        mutant.authority.clear();
        case.judge(&mutant, "other response code, nothing to prove it");
    }
}

#[test]
fn answers_to_one_question_given_to_another() {
    let (mut mutants, mut rejected) = (0, 0);
    for zone in &ZONES[..3] {
        let cases: Vec<Case> = QUESTIONS.iter().map(|(owner, t)| Case::new(owner, *t, *zone)).collect();
        for asked in &cases {
            for answered in &cases {
                if asked.honest.name == answered.honest.name && asked.honest.qtype == answered.honest.qtype {
                    continue;
                }
                let (name, qtype) = (asked.honest.name, asked.honest.qtype);
                let mutant = TreeReply { name, qtype, ..answered.honest.clone() };
                mutants += 1;
                rejected += asked.judge(&mutant, "of another question") as u32;
                // The answer with the proof of another one, and vice versa.
                let crossed = TreeReply { answer: asked.honest.answer.clone(), ..mutant };
                asked.judge(&crossed, "with the proof of another question");
                let rcode = answered.honest.rcode;
                let emptied = TreeReply { answer: Vec::new(), rcode, ..crossed };
                asked.judge(&emptied, "nothing but the proof of another question");
            }
        }
    }
    assert!(mutants > 600 && rejected > mutants / 2, "{rejected} of {mutants}");
}

#[test]
fn proofs_of_the_zones_above_and_below() {
    let others = [
        "nothing.test.",
        "nothing.",
        "nothing.child.nsec.test.",
        "nothing.child.hash.test.",
        "nothing.nsec.test.",
        "nothing.hash.test.",
        "child.nsec.test.",
        "bare.nsec.test.",
        "child.hash.test.",
        "bare.opt.test.",
    ];
    let proofs: Vec<TreeReply> =
        others.iter().flat_map(|other| [Type::A, Type::DS].map(|t| TREE.reply(name(other), t))).collect();
    let (mut mutants, mut rejected) = (0, 0);
    for case in cases() {
        for proof in &proofs {
            let mut mutant = TreeReply { name: case.honest.name, qtype: case.honest.qtype, ..proof.clone() };
            mutants += 1;
            rejected += case.judge(&mutant, "proof of another zone") as u32;
            mutant.authority.extend(case.honest.authority.clone());
            case.judge(&mutant, "proofs of two zones");
        }
    }
    assert!(mutants > 600 && rejected > mutants * 3 / 4, "{rejected} of {mutants}");
}

#[test]
fn signatures_out_of_their_time() {
    use testkit::tree::NOW;
    let (mut mutants, mut rejected) = (0u32, 0);
    let outside = [
        (NOW - 9000, NOW - 61),
        (NOW + 61, NOW + 9000),
        (NOW + 5, NOW - 5),
        (NOW.wrapping_add(1 << 31), NOW),
    ];
    for case in cases().step_by(2) {
        for (inception, expiration) in outside {
            for mutant in each_line(&case.honest, |line| resign(&case.honest, line, inception, expiration)) {
                mutants += 1;
                rejected += case.judge(&mutant, "out of time") as u32;
            }
        }
        let good = each_line(&case.honest, |line| resign(&case.honest, line, NOW - 10, NOW + 10));
        assert!(good.iter().all(|good| !case.judge(good, "signed anew")), "signed anew is as good");
    }
    // Without some records of a proof the rest of it may suffice.
    assert!(mutants > 600 && rejected > mutants * 9 / 10, "{rejected} of {mutants}");
}

/// Signs the RRset of this RRSIG again, with the zone's key, for another time. Leaves RRsets of wildcards
/// unchanged.
fn resign(reply: &TreeReply, line: &mut Line, inception: u32, expiration: u32) -> bool {
    let Some(rtype) = covered(line) else { return false };
    let sig = wire::rdata::view::Rrsig::read(&line.rdata).expect("an RRSIG");
    let owner = line.owner.as_name();
    if (sig.labels as usize) < owner.label_count() - owner.is_wildcard() as usize {
        return false;
    }
    let zone = sig.signer.to_buf();
    let lines = reply.answer.iter().chain(&reply.authority);
    let of_set = lines.filter(|other| other.rtype == rtype && other.owner == line.owner);
    let rdatas: BTreeSet<Vec<u8>> = of_set.map(|line| line.rdata.clone()).collect();
    let rdatas: Vec<Vec<u8>> = rdatas.into_iter().collect();
    let (owner, ttl) = (line.owner, sig.original_ttl);
    let validity = testkit::keys::Validity { inception, expiration };
    let made = TREE.sign(zone, owner, rtype, ttl, &rdatas, validity);
    assert_ne!(Serial(inception), Serial(expiration));
    line.rdata = made.rdata;
    true
}

#[test]
fn links_of_the_chain_taken_from_elsewhere() {
    let elsewhere = [
        ("bare.nsec.test.", Type::DS),
        ("nothing.test.", Type::DS),
        ("nothing.test.", Type::A),
        ("plain.test.", Type::DS),
        ("www.nsec.test.", Type::DS),
        ("odd.test.", Type::DS),
        ("island.test.", Type::DNSKEY),
        ("bare.opt.test.", Type::DS),
        ("iter.test.", Type::AAAA),
        ("test.", Type::DNSKEY),
        ("child.plain.test.", Type::DS),
    ];
    let mut mutants = 0;
    for (owner, zone) in [("www", "nsec.test."), ("nothing", "hash.test."), ("www", "child.hash.test.")] {
        let honest = TREE.reply(name(&format!("{owner}.{zone}")), Type::A);
        let forged = TreeReply {
            answer: honest.answer.iter().filter(|l| l.rtype != Type::RRSIG).cloned().collect(),
            authority: Vec::new(),
            ..honest.clone()
        };
        let needs = TREE.validate(&honest).needs;
        for need in &needs {
            for (other, t) in elsewhere.iter().filter(|(other, _)| name(other).as_name() != need.name()) {
                let bad = TREE.reply(name(other), *t);
                for renamed in [false, true] {
                    for reply in [&honest, &forged] {
                        let ended =
                            TREE.validate_with(reply, &ValidationSettings::default(), &mut |n, honest| {
                                if n != need {
                                    return Some(honest);
                                }
                                let mut bad =
                                    TreeReply { name: n.name().to_buf(), qtype: n.rtype(), ..bad.clone() };
                                let owners = |line: &&mut Line| renamed && line.owner == name(other);
                                bad.lines_mut()
                                    .filter(owners)
                                    .for_each(|line| line.owner = n.name().to_buf());
                                Some(bad)
                            });
                        mutants += 1;
                        let state = ended.validated.security;
                        let context = || format!("{need:?} from {other} {t} for {}: {state:?}", reply.name);
                        assert!(is_bogus(state), "{}", context());
                    }
                }
            }
        }
    }
    assert!(mutants > 600, "{mutants}");
}
