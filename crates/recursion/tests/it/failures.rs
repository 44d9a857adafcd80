//! Lookups that fail.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use resolver::{LookupFailure, NetworkFault, Overspent, ReplyFault, ShedReason};
use wire::Rcode;

use crate::support::{QUEUE, World, ask, data, domain};

const WWW: [&str; 1] = ["www.example. 600 A 192.0.2.80"];

#[test]
fn every_failure_is_told_with_its_reason() {
    let bad = LookupFailure::BadReply;
    let all = [
        (LookupFailure::NoRule, "REFUSED rd ra EDE 20", false),
        (LookupFailure::NoRecursion, "REFUSED rd ra EDE 20", false),
        (LookupFailure::TimedOut, "SERVFAIL rd ra EDE 22", true),
        (LookupFailure::NoReply, "SERVFAIL rd ra EDE 22", true),
        (bad(ReplyFault::Rcode(Rcode::SERVFAIL)), "SERVFAIL rd ra EDE 22", true),
        (bad(ReplyFault::Referral), "SERVFAIL rd ra EDE 22", true),
        (bad(ReplyFault::Lame), "SERVFAIL rd ra EDE 22", true),
        (LookupFailure::NoServers, "SERVFAIL rd ra EDE 22", true),
        (LookupFailure::Network(NetworkFault::Refused), "SERVFAIL rd ra EDE 23", true),
        (LookupFailure::Overspent(Overspent::Queries), "SERVFAIL rd ra EDE 0", true),
        (bad(ReplyFault::Truncated), "SERVFAIL rd ra EDE 23", true),
        (bad(ReplyFault::Malformed), "SERVFAIL rd ra EDE 24", true),
        (bad(ReplyFault::SetTooLarge), "SERVFAIL rd ra EDE 24", true),
        (bad(ReplyFault::Chain), "SERVFAIL rd ra EDE 24", true),
        (LookupFailure::Shed(ShedReason::Clients), "SERVFAIL rd ra EDE 0", false),
    ];
    for (failure, says, remembered) in all {
        let mut world = World::new(|_| {});
        world.miss(&ask("www.example. A"));
        world.failed("www.example. A", failure);
        assert_eq!(world.later().says(), says, "{failure:?}");
        let failures = world.service.stats().failures.total();
        assert_eq!(failures, u64::from(says.starts_with("SERVFAIL")), "{failure:?}");
        let again = world.ask(&ask("www.example. A"));
        assert_eq!(again.map(|reply| reply.says()), remembered.then(|| "SERVFAIL rd ra EDE 13".into()));
    }
}

#[test]
fn a_failure_is_remembered_for_two_seconds_for_its_own_question_alone() {
    let mut world = World::new(|_| {});
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::NoReply);
    world.later();
    world.after(1);
    assert_eq!(world.hit(&ask("WWW.example. A")).says(), "SERVFAIL rd ra EDE 13");
    assert_eq!(world.service.stats().remembered_failures.get(), 1);
    for question in ["www.example. AAAA", "www.example. A do", "www.example. A cd", "a.www.example. A"] {
        world.miss(&ask(question));
    }
    world.after(1);
    world.miss(&ask("www.example. A"));
    world.answered("www.example. A", &data(&WWW));
    assert_eq!(world.later().says(), "NOERROR rd ra");
}

#[test]
fn a_question_that_finds_no_place_in_the_queue_is_refused_at_once() {
    let mut world = World::new(|policy| policy.stale_after = Some(Duration::ZERO));
    world.learn("old.example. A", &data(&["old.example. 60 A 192.0.2.81"]));
    world.after(100);
    (0..QUEUE).for_each(|n| world.miss(&ask(&format!("n{n}.example. A"))));
    world.miss(&ask("www.example. A"));
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 0");
    assert_eq!((world.service.stats().shed.get(), world.service.stats().failures.total()), (1, 1));
    // It is not a failure of the servers, and not cached. A stale answer will do (RFC 8767 §4).
    world.miss(&ask("old.example. A"));
    assert_eq!(world.later().says(), "NOERROR rd ra EDE 3");
    world.failed("n7.example. A", LookupFailure::NoReply);
    world.later();
    world.miss(&ask("www.example. A"));
    world.answered("www.example. A", &data(&WWW));
    assert_eq!(world.later().says(), "NOERROR rd ra");
}

#[test]
fn who_waits_for_nobody_is_told() {
    let mut world = World::new(|_| {});
    world.miss(&ask("www.example. A"));
    world.noted.0.lock().expect("one thread").clear();
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 0");
}

#[test]
fn a_chain_whose_second_part_fails_is_told_so_and_nothing_of_it_is_kept() {
    let mut world = World::new(|policy| policy.domains.push(domain("corp.example.")));
    world.miss(&ask("www.corp.example. A"));
    world.answered("www.corp.example. A", &data(&["www.corp.example. 300 CNAME www.example."]));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
    world.after(2);
    assert_eq!(world.cached(), Vec::<String>::new());
}

#[test]
fn why_a_question_gets_servfail_is_reported_for_the_log() {
    let mut world = World::new(|_| ());
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&told);
    world.service.report_failures(Box::new(move |query_key, why| {
        note.lock().expect("lock").push(format!("{}: {why}", query_key.name.as_name()));
    }));
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
    assert_eq!(world.hit(&ask("www.example. A")).says(), "SERVFAIL rd ra EDE 13");
    let told = told.lock().expect("lock");
    let expected = [
        format!("www.example.: {}", LookupFailure::NoReply),
        "www.example.: an earlier lookup failed, which is remembered".into(),
    ];
    assert_eq!(told[..], expected);
}

/// TsuNAME: clients repeat queries that no server can answer. Servers get one lookup in two seconds.
#[test]
fn a_thousand_retries_in_a_minute_are_thirty_lookups() {
    let (mut world, mut lookups) = (World::new(|_| {}), 0);
    for retry in 1..=1000 {
        if world.ask(&ask("www.example. A")).is_none() {
            lookups += 1;
            world.failed("www.example. A", LookupFailure::NoServers);
            assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
        }
        world.after(u64::from(retry % 17 == 0));
    }
    assert_eq!((lookups, world.service.stats().remembered_failures.get()), (30, 970));
}
