//! Random sequences of queries, outcomes, time and changes of policy.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use recursion::Dns64Config;
use resolver::{LookupFailure, QueryKey};
use testkit::answers::Line;
use wire::{Rcode, Type};

use crate::support::{Ask, Reply, SOA, Upstream, World, ask, data, denial, domain, query_key, record};

/// The next step.
#[derive(Clone, Debug)]
enum Step {
    /// A client's query: name, type, DO, CD, RD, and whether it may use recursion.
    Ask(usize, usize, [bool; 4]),
    /// The pending lookup of that number has this outcome.
    End(usize, Reported),
    /// The clients with a stale answer have waited long enough.
    RunOut,
    /// Seconds that pass.
    Wait(u64),
    /// Another policy takes effect.
    Policy(usize),
}

/// A server's answer.
#[derive(Clone, Copy, Debug)]
enum Reported {
    Data,
    Private,
    Nothing,
    NoName,
    Alias(usize),
    Failure,
}

const NAMES: [&str; 7] = [
    "www.example.",
    "below.www.example.",
    "www.corp.example.",
    "a.corp.example.",
    "out.local.example.",
    "printer.lan.",
    "a.localhost.",
];
const TYPES: [&str; 3] = ["A", "AAAA", "TXT"];

fn step() -> impl Strategy<Value = Step> {
    let reported = prop_oneof![
        4 => Just(Reported::Data),
        1 => Just(Reported::Private),
        1 => Just(Reported::Nothing),
        1 => Just(Reported::NoName),
        2 => (0..4usize).prop_map(Reported::Alias),
        2 => Just(Reported::Failure),
    ];
    let bits = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.9), prop::bool::weighted(0.9));
    let bits = bits.prop_map(|(a, b, c, d)| [a, b, c, d]);
    prop_oneof![
        6 => (0..NAMES.len(), 0..TYPES.len(), bits).prop_map(|(n, t, bits)| Step::Ask(n, t, bits)),
        6 => (any::<usize>(), reported).prop_map(|(n, reported)| Step::End(n, reported)),
        1 => Just(Step::RunOut),
        2 => prop_oneof![Just(1u64), Just(3), Just(50), Just(400), Just(90_000)].prop_map(Step::Wait),
        1 => (0..6usize).prop_map(Step::Policy),
    ]
}

/// Applies one of several policies, all with the same rules.
fn change(world: &mut World, number: usize) {
    world.change_policy(|policy| {
        let domains = vec![domain("."), domain("+corp.example.")];
        *policy = recursion::PolicyConfig { domains, ..crate::support::policy() };
        match number {
            0 => {}
            1 => policy.stale_after = Some(Duration::from_millis(1800)),
            2 => policy.private.blocks = recursion::PrivateConfig::usual_blocks(),
            3 => policy.dns64 = Some(Dns64Config::new("64:ff9b::/96".parse().expect("a network"))),
            4 => policy.local.data = vec![record("printer.lan. 60 A 192.0.2.5")],
            _ => (policy.max_chain, policy.nxdomain_cut, policy.prefetch) = (1, false, false),
        }
    });
}

/// Delivers a server's answer to a query. Its data encode DO, CD and the rule of the query.
fn report(world: &mut World, query_key: &QueryKey, reported: Reported) {
    let name = query_key.name.to_string();
    let mark = mark(&name, query_key.dnssec_ok, query_key.checking_disabled);
    let rdata = match (query_key.qtype, reported) {
        (Type::A, Reported::Private) => format!("10.0.0.{mark}"),
        (Type::A, _) => format!("8.8.8.{mark}"),
        (Type::AAAA, _) => format!("2001:db8::{mark:x}"),
        _ => format!("\"{mark}\""),
    };
    let own = format!("{name} 300 {} {rdata}", query_key.qtype);
    let alias = |to: usize| format!("{name} 300 CNAME {}", NAMES[to]);
    let soa = if name.ends_with("corp.example.") { "corp.example. 900 SOA a. b. 1 2 3 4 300" } else { SOA };
    // `printer.lan.` is in a zone of its own.
    let soa = if name.ends_with("example.") { soa } else { "lan. 900 SOA a. b. 1 2 3 4 300" };
    let authorities = [soa];
    let nothing = Upstream { authorities: &authorities, ..denial(Rcode::NOERROR) };
    let outcome = match reported {
        Reported::Data | Reported::Private => world.outcome(query_key, &data(&[&own])),
        Reported::Nothing => world.outcome(query_key, &nothing),
        Reported::NoName => world.outcome(query_key, &Upstream { rcode: Rcode::NXDOMAIN, ..nothing }),
        Reported::Alias(to) => world.outcome(query_key, &data(&[&alias(to)])),
        Reported::Failure => resolver::LookupOutcome::Failed(LookupFailure::NoReply),
    };
    world.end(query_key, &outcome);
}

/// Encodes the rule, DO and CD as a number below 8.
fn mark(name: &str, dnssec_ok: bool, checking_disabled: bool) -> u8 {
    let corp = name.to_lowercase().ends_with("corp.example.");
    u8::from(dnssec_ok) | u8::from(checking_disabled) << 1 | u8::from(corp) << 2
}

/// Every record fits the query, its DO and CD, and the rule of its owner.
fn check(ask: &Ask, reply: &Reply) {
    assert_eq!(reply.0.question, ask.question(), "{ask:?}: {reply:?}");
    assert_eq!(reply.flags().contains("cd"), ask.checking_disabled && reply.flags().contains("ra"));
    let mut at = ask.name.to_string().to_lowercase();
    for Line { owner, rtype, rdata, .. } in &reply.0.sections[0] {
        let owner = owner.to_string().to_lowercase();
        assert_eq!(owner, at, "the chain, {reply:?}");
        match *rtype {
            Type::CNAME => {
                at = wire::Name::from_wire(rdata).expect("a name").to_string().to_lowercase();
                continue;
            }
            other => assert_eq!(other, ask.qtype, "{reply:?}"),
        }
        let own = ["printer.lan.", "a.localhost.", "ns.local.example."].contains(&owner.as_str());
        let last = if *rtype == Type::TXT { rdata[1] - b'0' } else { rdata[rdata.len() - 1] };
        if !own {
            assert_eq!(last, mark(&owner, ask.dnssec_ok, ask.checking_disabled), "{ask:?}: {reply:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_question_gets_one_reply_for_itself(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new(|_| {});
        change(&mut world, 0);
        let (mut next, mut waiting) = (0u16, HashMap::new());
        let late = |world: &mut World, waiting: &mut HashMap<u16, Ask>| {
            for reply in world.late() {
                let ask = waiting.remove(&reply.id()).expect("one waiter, once");
                check(&ask, &reply);
            }
        };
        for step in steps {
            match step {
                Step::Ask(name, qtype, [dnssec_ok, checking_disabled, recursion_desired, may]) => {
                    let mut question = ask(&format!("{} {}", NAMES[name], TYPES[qtype]));
                    next += 1;
                    question.id = next;
                    (question.dnssec_ok, question.checking_disabled) = (dnssec_ok, checking_disabled);
                    question.recursion_desired = recursion_desired;
                    let question = if may { question } else { question.from("192.0.2.1") };
                    match world.ask(&question) {
                        Some(reply) => {
                            assert_eq!(reply.id(), next);
                            check(&question, &reply);
                        }
                        None => {
                            assert!(may && recursion_desired, "{question:?}");
                            waiting.insert(next, question);
                        }
                    }
                }
                Step::End(number, reported) => {
                    let asked = world.asked();
                    if let Some(text) = asked.get(number % asked.len().max(1)) {
                        let text = text.split(" within").next().expect("text");
                        report(&mut world, &query_key(text), reported);
                    }
                }
                Step::RunOut if world.asked().iter().any(|text| text.contains("within")) => world.run_out(),
                Step::RunOut => {}
                Step::Wait(seconds) => world.after(seconds),
                Step::Policy(number) => change(&mut world, number),
            }
            late(&mut world, &mut waiting);
        }
        // All pending lookups end.
        let mut rounds = 0;
        while let Some(text) = world.asked().first() {
            let text = text.split(" within").next().expect("text").to_owned();
            report(&mut world, &query_key(&text), if rounds < 20 { Reported::Data } else { Reported::Failure });
            late(&mut world, &mut waiting);
            rounds += 1;
        }
        prop_assert!(waiting.is_empty(), "without a reply: {waiting:?}");
    }
}
