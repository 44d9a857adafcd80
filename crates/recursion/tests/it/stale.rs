//! Expired answers for clients whose servers do not answer (RFC 8767).

use std::time::Duration;

use resolver::LookupFailure;
use wire::Rcode;

use crate::support::{World, ask, cache_config, data, denial, domain};

const WWW: [&str; 1] = ["www.example. 600 A 192.0.2.80"];

/// Stale answers after 1.8 seconds.
fn world() -> World {
    World::new(|policy| policy.stale_after = Some(Duration::from_millis(1800)))
}

#[test]
fn a_client_gets_an_old_answer_when_its_patience_ends_and_the_lookup_goes_on() {
    let mut world = world();
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.example. A"));
    assert_eq!(world.asked(), ["www.example. A", "www.example. A within 1800 ms"]);
    world.after(2);
    world.run_out();
    let reply = world.later();
    assert_eq!(
        (reply.says(), reply.answers()),
        ("NOERROR rd ra EDE 3".into(), vec![WWW[0].replace("600", "30")])
    );
    assert_eq!(world.service.stats().stale.get(), 1);
    world.answered("www.example. A", &data(&["www.example. 600 A 192.0.2.81"]));
    assert!(world.late().is_empty());
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 600 A 192.0.2.81"]);
}

#[test]
fn a_fresh_answer_in_time_is_better() {
    let mut world = world();
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.example. A"));
    world.answered("www.example. A", &data(&["www.example. 600 A 192.0.2.81"]));
    let reply = world.later();
    assert_eq!(
        (reply.says(), reply.answers()),
        ("NOERROR rd ra".into(), vec!["www.example. 600 A 192.0.2.81".into()])
    );
}

#[test]
fn after_a_failure_an_old_answer_comes_at_once() {
    let mut world = world();
    world.learn("www.example. A", &data(&WWW));
    world.learn("no.example. A", &denial(Rcode::NXDOMAIN));
    world.after(700);
    for (question, says) in
        [("www.example. A", "NOERROR rd ra EDE 3"), ("no.example. A", "NXDOMAIN rd ra EDE 19")]
    {
        world.miss(&ask(question));
        world.failed(question, LookupFailure::NoReply);
        for reply in [world.later(), world.hit(&ask(question))] {
            assert_eq!(reply.says(), says);
            assert_eq!(reply.ttl().map(|ttl| ttl.as_secs()), Some(30));
        }
    }
    assert_eq!(world.asked(), Vec::<String>::new());
    assert_eq!(world.service.stats().failures.total(), 0);
}

#[test]
fn a_dead_upstream_costs_one_wait_and_then_old_answers_come_at_once() {
    let mut world = world();
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "NOERROR rd ra EDE 3");
    // For half a minute no lookup starts.
    for _ in 0..9 {
        world.after(3);
        assert_eq!(world.hit(&ask("www.example. A")).says(), "NOERROR rd ra EDE 3");
    }
    assert_eq!(world.asked(), Vec::<String>::new());
    // Then one starts in the background, every half minute.
    for _ in 0..3 {
        world.after(4);
        for _ in 0..3 {
            assert_eq!(world.hit(&ask("www.example. A")).says(), "NOERROR rd ra EDE 3");
        }
        assert_eq!(world.asked(), ["www.example. A"]);
        world.failed("www.example. A", LookupFailure::NoReply);
        world.after(26);
    }
    world.after(4);
    assert_eq!(world.hit(&ask("www.example. A")).says(), "NOERROR rd ra EDE 3");
    world.answered("www.example. A", &data(&["www.example. 10 A 192.0.2.81"]));
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 10 A 192.0.2.81"]);
    // The servers are back: the next client waits for them again.
    world.after(11);
    world.miss(&ask("www.example. A"));
    assert_eq!(world.asked(), ["www.example. A", "www.example. A within 1800 ms"]);
}

#[test]
fn servers_that_failed_long_ago_are_waited_for() {
    let mut world = world();
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.example. A"));
    world.run_out();
    assert_eq!(world.later().says(), "NOERROR rd ra EDE 3");
    world.after(60);
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "NOERROR rd ra EDE 3");
    world.change_policy(|policy| policy.stale_refresh = 0);
    world.after(3);
    world.miss(&ask("www.example. A"));
}

#[test]
fn there_is_an_age_at_which_answers_are_too_old() {
    let mut world = World::with_cache(&cache::CacheConfig { max_stale: 100, ..cache_config() }, |policy| {
        policy.stale_after = Some(Duration::ZERO);
    });
    world.learn("www.example. A", &data(&WWW));
    world.after(699);
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "NOERROR rd ra EDE 3");
    world.after(2);
    world.miss(&ask("www.example. A"));
    assert_eq!(world.asked(), ["www.example. A"], "with all patience");
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
}

#[test]
fn old_answers_are_not_served_where_that_is_off() {
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.example. A"));
    assert_eq!(world.asked(), ["www.example. A"]);
    world.failed("www.example. A", LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
}

#[test]
fn an_old_part_of_a_chain_makes_it_old_and_it_is_not_cached() {
    let mut world = world();
    world.change_policy(|policy| policy.domains.push(domain("+corp.example.")));
    world.learn("www.example. A", &data(&WWW));
    world.after(700);
    world.miss(&ask("www.corp.example. A"));
    world.answered("www.corp.example. A", &data(&["www.corp.example. 300 CNAME www.example."]));
    world.failed("www.example. A", LookupFailure::NoReply);
    let reply = world.later();
    assert_eq!(reply.says(), "NOERROR rd ra EDE 3");
    assert_eq!(reply.answers(), ["www.corp.example. 300 CNAME www.example.", "www.example. 30 A 192.0.2.80"]);
    assert!(!world.cached().iter().any(|held| held.contains("corp")), "{:?}", world.cached());
}
