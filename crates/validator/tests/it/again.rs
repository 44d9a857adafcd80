//! DS and DNSKEY that are bogus at one server and valid at another, and DS in referrals.

use testkit::name;
use testkit::tree::{TreeReply, UNIX_NOW};
use validator::{
    BogusReason, Need, Progress, Security, TrustTable, Validated, Validation, ValidationBudget,
    ValidationLimit, ValidationLimits, ValidationSettings, Validator,
};
use wire::Type;

use crate::plain::QUESTIONS;
use crate::support::{TREE, is_bogus, reply};

/// The result of a validation, its requests, and which of them were repeated.
struct Run {
    validated: Validated,
    needs: Vec<Need>,
    again: Vec<Need>,
    budget: ValidationBudget,
}

/// The first server's response instead of an honest reply, and the second server's; `None`: there is none.
struct Servers<'s> {
    first: &'s dyn Fn(&Need, TreeReply) -> TreeReply,
    second: &'s dyn Fn(&Need, TreeReply) -> Option<TreeReply>,
}

/// Validates an answer, with referrals to the zones in `referred`.
fn run(answer: &TreeReply, servers: &Servers<'_>, referred: &[&str], table: &TrustTable) -> Run {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let by = Validation { settings: &settings, anchors: &anchors, now: UNIX_NOW };
    let mut budget = ValidationBudget::new(ValidationLimits { signatures: 48, ..Default::default() });
    let mut validator = Validator::answer(answer.response());
    let (mut needs, mut again, mut left) = (Vec::new(), Vec::new(), referred.to_vec());
    loop {
        match validator.step(&by, table, &mut budget) {
            Progress::Done(validated) => return Run { validated, needs, again, budget },
            Progress::Need(need) => {
                let referral = left.iter().position(|zone| need == Need::Ds(name(zone)));
                if let Some(at) = referral {
                    let child = name(left.swap_remove(at));
                    validator.receive_referral(TREE.referral(child).response());
                    continue;
                }
                needs.push(need);
                let honest = TREE.reply(need.name().to_buf(), need.rtype());
                validator.receive((servers.first)(&need, honest).response(), &by, table);
            }
            Progress::Again(need) => {
                again.push(need);
                assert!(again.len() < 20, "it never ends: {again:?}");
                let honest = TREE.reply(need.name().to_buf(), need.rtype());
                match (servers.second)(&need, honest) {
                    Some(reply) => validator.receive(reply.response(), &by, table),
                    None => validator.give_up(&by, table),
                }
            }
        }
    }
}

/// Makes the signatures of one type invalid.
fn forged(mut reply: TreeReply, rtype: Type) -> TreeReply {
    if reply.qtype == rtype {
        let signatures = reply.lines_mut().filter(|line| line.rtype == Type::RRSIG);
        signatures.for_each(|line| *line.rdata.last_mut().expect("data") ^= 1);
    }
    reply
}

#[test]
fn keys_and_ds_that_are_bogus_at_one_server_are_taken_from_another() {
    for (rtype, once_more) in
        [(Type::DNSKEY, Need::Dnskey(name("nsec.test."))), (Type::DS, Need::Ds(name("nsec.test.")))]
    {
        let bad = |need: &Need, reply| match need.name() == name("nsec.test.").as_name() {
            true => forged(reply, rtype),
            false => reply,
        };
        let servers = Servers { first: &bad, second: &|_, reply| Some(reply) };
        let table = TrustTable::new(100);
        let ended = run(&reply("www.nsec.test.", Type::A), &servers, &[], &table);
        assert_eq!((ended.validated.security, ended.again), (Security::Secure, vec![once_more]));
        assert!(!table.is_broken(name("nsec.test.").as_name(), UNIX_NOW));
    }
}

#[test]
fn what_is_bogus_twice_or_has_no_other_server_is_bogus_and_asked_for_no_more() {
    let bad = |_: &Need, reply| forged(reply, Type::DNSKEY);
    for second in [true, false] {
        let servers = Servers { first: &bad, second: &|need, reply| second.then(|| bad(need, reply)) };
        let table = TrustTable::new(100);
        let ended = run(&reply("www.nsec.test.", Type::A), &servers, &[], &table);
        assert!(is_bogus(ended.validated.security));
        // The root's, on which everything else depends.
        assert_eq!(ended.again, [Need::Dnskey(name("."))]);
        assert!(table.is_broken(name("www.nsec.test.").as_name(), UNIX_NOW));
        let ended = run(&reply("zz.hash.test.", Type::A), &servers, &[], &table);
        assert!(is_bogus(ended.validated.security) && ended.again.is_empty(), "it is known");
    }
}

#[test]
fn what_is_asked_for_again_is_paid_from_the_same_budget() {
    let bad = |_: &Need, reply| forged(reply, Type::DNSKEY);
    let servers = Servers { first: &bad, second: &|_, reply| Some(reply) };
    let ended = run(&reply("www.nsec.test.", Type::A), &servers, &[], &TrustTable::new(100));
    assert_eq!((ended.validated.security, ended.again.len()), (Security::Secure, 3), "root, test, nsec.test");
    assert_eq!(ended.budget.failures(), 3);
    assert_eq!(ended.budget.fetches() as usize, ended.needs.len() + ended.again.len());
    // With a fourth zone all four failures are used up, and nothing more is verified.
    let deep = run(&reply("www.child.nsec.test.", Type::A), &servers, &[], &TrustTable::new(100));
    let spent = BogusReason::Limit(ValidationLimit::Failures);
    assert_eq!((deep.validated.security, deep.budget.failures()), (Security::Bogus(spent), 4));
}

/// A referral is equivalent to a DS query: the results are the same, and no DS is requested.
#[test]
fn what_a_referral_says_of_ds_is_what_asking_for_them_says() {
    let honest = Servers { first: &|_, reply| reply, second: &|_, _| None };
    for (zone, referred) in [
        ("nsec.test.", &["test.", "nsec.test."][..]),
        ("child.nsec.test.", &["test.", "nsec.test.", "child.nsec.test."]),
        ("bare.nsec.test.", &["test.", "nsec.test.", "bare.nsec.test."]),
        ("hash.test.", &["test.", "hash.test."]),
        ("child.hash.test.", &["test.", "hash.test.", "child.hash.test."]),
        ("bare.hash.test.", &["test.", "hash.test.", "bare.hash.test."]),
        ("opt.test.", &["test.", "opt.test."]),
        ("bare.opt.test.", &["test.", "opt.test.", "bare.opt.test."]),
        ("iter.test.", &["test.", "iter.test."]),
        ("island.test.", &["test.", "island.test."]),
        ("odd.test.", &["test.", "odd.test."]),
        ("digest.test.", &["test.", "digest.test."]),
        ("plain.test.", &["test.", "plain.test."]),
        ("child.plain.test.", &["test.", "plain.test.", "child.plain.test."]),
    ] {
        for (owner, qtype) in QUESTIONS.iter().filter(|(_, qtype)| *qtype != Type::DS) {
            let answer = reply(&format!("{owner}.{zone}"), *qtype);
            let asked = run(&answer, &honest, &[], &TrustTable::new(100));
            let table = TrustTable::new(100);
            let told = run(&answer, &honest, referred, &table);
            let verdict = |run: &Run| (run.validated.security, run.validated.at, run.validated.ttl);
            assert_eq!(verdict(&told), verdict(&asked), "{owner}.{zone} {qtype}");
            let ds_of_zone =
                told.needs.iter().any(|need| referred.iter().any(|zone| *need == Need::Ds(name(zone))));
            // The referrals of an unsigned zone prove nothing about DS.
            let says_nothing = zone == "child.plain.test.";
            assert!(!ds_of_zone || says_nothing, "{owner}.{zone} {qtype}: {:?}", told.needs);
        }
    }
}

#[test]
fn a_referral_that_proves_nothing_costs_a_question_and_nothing_else() {
    let (settings, anchors) = (ValidationSettings::default(), TREE.anchors());
    let by = Validation { settings: &settings, anchors: &anchors, now: UNIX_NOW };
    let forgeries: [&dyn Fn(TreeReply) -> TreeReply; 3] = [
        &|reply| reply.without(|line| line.rtype == Type::RRSIG),
        &|mut reply| {
            let ds = reply.lines_mut().filter(|line| line.rtype == Type::DS);
            ds.for_each(|line| line.rdata[4] ^= 1);
            reply
        },
        &|mut reply| {
            reply.authority = TREE.referral(name("plain.test.")).authority;
            reply
        },
    ];
    for forgery in forgeries {
        let (table, mut budget) = (TrustTable::new(100), ValidationBudget::new(Default::default()));
        let mut validator = Validator::answer(reply("www.nsec.test.", Type::A).response());
        let (mut asked, mut referred) = (Vec::new(), false);
        let validated = loop {
            match validator.step(&by, &table, &mut budget) {
                Progress::Done(validated) => break validated,
                Progress::Need(need) if need == Need::Ds(name("nsec.test.")) && !referred => {
                    referred = true;
                    validator.receive_referral(forgery(TREE.referral(name("nsec.test."))).response());
                }
                Progress::Need(need) | Progress::Again(need) => {
                    asked.push(need);
                    let honest = TREE.reply(need.name().to_buf(), need.rtype());
                    validator.receive(honest.response(), &by, &table);
                }
            }
        };
        assert_eq!(validated.security, Security::Secure);
        assert!(asked.contains(&Need::Ds(name("nsec.test."))), "{asked:?}");
    }
}
