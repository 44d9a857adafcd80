//! Cache misses and hits, TTLs, and the separation of cached answers.

use recursion::LocalConfig;
use transport::Transport;
use wire::Rcode;

use crate::support::{SOA, Upstream, World, ask, cache_config, data, denial, domain, query_key, record};

const WWW: [&str; 1] = ["www.example. 600 A 192.0.2.80"];

#[test]
fn a_miss_is_asked_of_others_and_then_a_hit_but_for_its_ttl() {
    let mut world = World::new(|_| {});
    let question = ask("WwW.Example. A");
    world.miss(&question);
    assert_eq!(world.asked(), ["www.example. A"]);
    world.after(1);
    world.answered("www.example. A", &data(&WWW));
    let first = world.later();
    assert_eq!((first.says().as_str(), first.id()), ("NOERROR rd ra", 0x1234));
    assert_eq!(first.answers(), ["WwW.Example. 600 A 192.0.2.80"], "in the letters of the question");
    assert_eq!(first.0.question, question.question());
    world.after(100);
    let mut again = ask("wWW.eXAMPLE. A");
    again.id = 7;
    let second = world.hit(&again);
    assert_eq!((second.says(), second.id()), (first.says(), 7));
    assert_eq!(second.answers(), ["wWW.eXAMPLE. 500 A 192.0.2.80"]);
    assert_eq!(second.0.question, again.question());
    assert_eq!((world.asked(), world.cached()), (vec![], vec!["www.example. A NOERROR 500".into()]));
    world.after(500);
    world.miss(&again);
}

#[test]
fn all_who_ask_meanwhile_get_the_one_answer() {
    let mut world = World::new(|_| {});
    for id in 0..1000 {
        let mut question = ask("www.example. A");
        question.id = id;
        world.miss(&question);
    }
    world.answered("www.example. A", &data(&WWW));
    let mut ids: Vec<u16> = world.late().iter().map(|reply| (reply.id(), reply.answers().len()).0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>());
    assert_eq!(world.service.stats().misses.get(), 1000);
}

#[test]
fn denials_are_kept_as_long_as_their_soa_says() {
    let mut world = World::new(|policy| policy.nxdomain_cut = false);
    let nodata = world.learn("www.example. MX", &denial(Rcode::NOERROR));
    assert_eq!((nodata.says(), nodata.answers().len()), ("NOERROR rd ra".into(), 0));
    let nxdomain = world.learn("no.example. A", &denial(Rcode::NXDOMAIN));
    assert_eq!(
        (nxdomain.says(), nxdomain.authorities()),
        ("NXDOMAIN rd ra".into(), vec![SOA.replace("900", "300")])
    );
    assert_eq!(world.cached(), ["no.example. * NXDOMAIN 300", "www.example. MX NOERROR 300"]);
    world.after(20);
    let other_type = world.hit(&ask("no.example. TXT"));
    assert_eq!(other_type.says(), "NXDOMAIN rd ra");
    assert_eq!(other_type.authorities(), [SOA.replace("900", "280")]);
    world.miss(&ask("www.example. TXT"));
    world.miss(&ask("below.no.example. A"));
}

#[test]
fn a_name_below_one_that_does_not_exist_does_not_either() {
    let mut world = World::new(|_| {});
    world.learn("no.example. A", &denial(Rcode::NXDOMAIN));
    let below = world.hit(&ask("a.b.no.example. TXT"));
    assert_eq!(
        (below.says(), below.authorities()),
        ("NXDOMAIN rd ra".into(), vec![SOA.replace("900", "300")])
    );
    assert_eq!(world.service.stats().nxdomain_above.get(), 1);
    world.miss(&ask("nono.example. A"));
    world.change_policy(|policy| policy.nxdomain_cut = false);
    world.miss(&ask("a.b.no.example. TXT"));
}

#[test]
fn the_time_that_answers_are_kept_has_bounds_and_ttl_0_is_for_one_question() {
    let mut config = cache_config();
    config.positive = cache::Lifetime { min: 30, max: 3600 };
    let mut world = World::with_cache(&config, |_| {});
    world.learn("short.example. A", &data(&["short.example. 5 A 192.0.2.1"]));
    world.learn("long.example. A", &data(&["long.example. 80000 A 192.0.2.1"]));
    let zero = world.learn("zero.example. A", &data(&["zero.example. 0 A 192.0.2.1"]));
    assert_eq!(zero.answers(), ["zero.example. 0 A 192.0.2.1"]);
    assert_eq!(world.cached(), ["long.example. A NOERROR 3600", "short.example. A NOERROR 30"]);
    world.miss(&ask("zero.example. A"));
}

#[test]
fn do_cd_and_the_rule_of_a_name_never_share_an_answer() {
    let mut world = World::new(|policy| policy.domains.push(domain("corp.example.")));
    let all = ["www.example. A", "www.example. A do", "www.example. A cd", "www.example. A do cd"];
    for (n, question) in all.iter().enumerate() {
        let address = format!("www.example. 600 A 192.0.2.{n}");
        assert_eq!(world.learn(question, &data(&[&address])).answers(), [address]);
    }
    for (n, question) in all.iter().enumerate() {
        assert_eq!(world.hit(&ask(question)).answers(), [format!("www.example. 600 A 192.0.2.{n}")]);
    }
    // An answer from another rule's servers does not count for a name that has a rule of its own since.
    world.learn("www.corp.example. A", &data(&["www.corp.example. 600 A 192.0.2.9"]));
    world.change_policy(|policy| policy.domains.truncate(1));
    world.miss(&ask("www.corp.example. A"));
    world.change_policy(|policy| policy.domains.push(domain("Corp.Example.")));
    assert_eq!(world.hit(&ask("www.corp.example. A")).answers().len(), 1);
}

#[test]
fn ad_is_passed_on_from_those_who_are_trusted_to_those_who_understand_it() {
    let validated = Upstream { authentic: true, ..data(&WWW) };
    let mut world = World::new(|policy| policy.domains = vec![domain("+.")]);
    for (question, flags) in [
        ("www.example. A", "NOERROR rd ra"),
        ("www.example. A ad", "NOERROR rd ra ad"),
        ("www.example. A do", "NOERROR rd ra ad"),
        ("www.example. A cd ad", "NOERROR rd ra ad cd"),
    ] {
        let fetched = match world.ask(&ask(question)) {
            Some(hit) => hit,
            None => {
                world.answered(question, &validated);
                world.later()
            }
        };
        assert_eq!(fetched.says(), flags, "{question}");
        assert_eq!(world.hit(&ask(question)).says(), flags, "{question}, from the cache");
    }
    let mut untrusted = World::new(|_| {});
    assert_eq!(untrusted.learn("www.example. A do", &validated).says(), "NOERROR rd ra");
    assert_eq!(untrusted.hit(&ask("www.example. A do")).says(), "NOERROR rd ra");
    assert_eq!(
        world.learn("txt.example. A do", &data(&["txt.example. 60 A 192.0.2.1"])).says(),
        "NOERROR rd ra"
    );
}

#[test]
fn popular_answers_near_their_end_are_fetched_anew_once() {
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&WWW));
    for _ in 0..5 {
        world.hit(&ask("www.example. A"));
    }
    world.after(539);
    world.hit(&ask("www.example. A"));
    assert_eq!(world.asked(), Vec::<String>::new());
    world.after(1);
    for _ in 0..5 {
        assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 60 A 192.0.2.80"]);
    }
    assert_eq!(world.asked(), ["www.example. A"]);
    world.answered("www.example. A", &data(&["www.example. 600 A 192.0.2.81"]));
    assert!(world.late().is_empty(), "no client waits");
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 600 A 192.0.2.81"]);
    assert_eq!(world.service.stats().prefetched.get(), 1);
}

#[test]
fn nothing_is_fetched_anew_where_that_is_off() {
    let mut world = World::new(|policy| policy.prefetch = false);
    world.learn("www.example. A", &data(&WWW));
    for _ in 0..5 {
        world.hit(&ask("www.example. A"));
    }
    world.after(590);
    world.hit(&ask("www.example. A"));
    assert_eq!(world.asked(), Vec::<String>::new());
}

#[test]
fn an_answer_that_does_not_fit_is_truncated_and_whole_over_tcp() {
    let lines: Vec<String> = (0..60).map(|n| format!("www.example. 60 A 192.0.2.{n}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut world = World::new(|_| {});
    let mut small = ask("www.example. A");
    small.edns = None;
    world.miss(&small);
    world.answered("www.example. A", &data(&lines));
    for reply in [world.later(), world.hit(&small)] {
        assert_eq!((reply.says(), reply.answers().len()), ("NOERROR tc rd ra".into(), 0));
    }
    small.transport = Transport::Tcp;
    let whole = world.hit(&small);
    assert_eq!((whole.says(), whole.answers().len()), ("NOERROR rd ra".into(), 60));
    assert_eq!(world.hit(&ask("www.example. A")).answers().len(), 60, "1232 bytes are enough");
}

#[test]
fn local_data_come_before_the_cache_and_what_was_cached_goes() {
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&WWW));
    world.learn("a.www.example. A", &data(&["a.www.example. 600 A 192.0.2.81"]));
    world.learn("other.example. A", &data(&["other.example. 600 A 192.0.2.82"]));
    let lines = ["www.example. 60 A 198.51.100.1", "*.www.example. 60 A 198.51.100.2"];
    world.change_policy(|policy| policy.local.data = lines.iter().map(|line| record(line)).collect());
    assert_eq!(world.cached(), ["other.example. A NOERROR 600"]);
    for (question, address) in [("www.example. A", "198.51.100.1"), ("a.www.example. A", "198.51.100.2")] {
        let reply = world.hit(&ask(question));
        assert_eq!(reply.says(), "NOERROR aa rd ra");
        assert!(reply.answers()[0].ends_with(address), "{reply:?}");
    }
    world.change_policy(|policy| policy.local = LocalConfig::default());
    world.miss(&ask("www.example. A"));
}

#[test]
fn a_lookup_that_ends_after_its_name_became_local_is_not_cached() {
    let mut world = World::new(|_| {});
    world.miss(&ask("www.example. A"));
    world.change_policy(|policy| policy.local.data = vec![record("www.example. 60 A 198.51.100.1")]);
    world.answered("www.example. A", &data(&WWW));
    world.later();
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 60 A 198.51.100.1"]);
    assert_eq!(world.cached(), Vec::<String>::new());
}

#[test]
fn special_names_are_asked_of_nobody() {
    let mut world = World::new(|_| {});
    assert_eq!(world.hit(&ask("x.localhost. A")).answers(), ["x.localhost. 10800 A 127.0.0.1"]);
    assert_eq!(world.hit(&ask("x.test. A")).says(), "NXDOMAIN aa rd ra");
    assert_eq!(world.hit(&ask("1.1.168.192.in-addr.arpa. PTR")).says(), "NXDOMAIN aa rd ra");
    assert_eq!((world.asked().len(), world.service.stats().local.get()), (0, 3));
}

#[test]
fn a_person_is_told_what_is_known() {
    let mut world = World::new(|policy| policy.domains.push(domain("corp.example.")));
    world.learn("www.example. A", &data(&WWW));
    world.after(10);
    let at = world.service.now(std::time::Instant::now()).plus(10);
    let known = inspect(&world, "www.example. A", at);
    assert_eq!(known.rule.map(|rule| rule.to_string()), Some(".".into()));
    assert_eq!(known.cached.map(|cached| cached.rcode), Some(Rcode::NOERROR));
    assert!(!known.local && known.failure.is_none());
    let corp = inspect(&world, "www.corp.example. A", at);
    assert_eq!(corp.rule.map(|rule| rule.to_string()), Some("corp.example.".into()));
    assert!(corp.cached.is_none());
    assert!(inspect(&world, "localhost. A", at).local);
}

/// The state for a query of a client without rules of its own.
fn inspect(world: &World, question: &str, at: cache::Now) -> recursion::Inspection {
    world.service.inspect(resolver::Partition::SHARED, query_key(question), at).0
}
