//! Chains out of a zone, out of local data, or from one rule's names to another's.

use transport::Transport;
use wire::Rcode;

use crate::support::{SOA, Upstream, World, ask, data, denial, domain, record};

const WWW: [&str; 1] = ["www.example. 600 A 192.0.2.80"];

/// One rule for all names and one for `corp.example.`.
fn world() -> World {
    World::new(|policy| policy.domains.push(domain("corp.example.")))
}

#[test]
fn an_alias_out_of_a_zone_goes_on_for_those_who_may() {
    let mut world = world();
    world.miss(&ask("HOP.local.example. A"));
    assert_eq!(world.asked(), ["www.example. A"]);
    world.answered("www.example. A", &data(&WWW));
    let whole = [
        "HOP.local.example. 60 CNAME out.local.example.",
        "out.local.example. 60 CNAME www.example.",
        "www.example. 600 A 192.0.2.80",
    ];
    let first = world.later();
    assert_eq!(
        (first.says(), first.answers()),
        ("NOERROR aa rd ra".into(), whole.map(String::from).to_vec())
    );
    let second = world.hit(&ask("HOP.local.example. A"));
    assert_eq!((second.says(), second.answers()), (first.says(), first.answers()));
    assert_eq!(world.cached(), ["www.example. A NOERROR 600"], "the zone's part is not cached");
    for question in ["out.local.example. A", "out.local.example. CNAME"] {
        let refused = world.hit(&ask(question).from("192.0.2.1"));
        assert_eq!(refused.says(), "NOERROR aa rd");
        assert_eq!(refused.answers(), ["out.local.example. 60 CNAME www.example."]);
    }
    assert_eq!(world.hit(&ask("in.local.example. A")).answers().len(), 2);
}

#[test]
fn where_the_end_of_an_alias_does_not_exist_nor_does_the_alias() {
    let mut world = world();
    world.miss(&ask("out.local.example. A"));
    world.answered("www.example. A", &denial(Rcode::NXDOMAIN));
    for reply in [world.later(), world.hit(&ask("out.local.example. A"))] {
        assert_eq!(reply.says(), "NXDOMAIN aa rd ra");
        assert_eq!(reply.answers(), ["out.local.example. 60 CNAME www.example."]);
        assert_eq!(reply.authorities(), [SOA.replace("900", "300")]);
    }
}

#[test]
fn where_the_end_of_an_alias_cannot_be_had_there_is_no_answer() {
    let mut world = world();
    world.miss(&ask("out.local.example. A"));
    world.failed("www.example. A", resolver::LookupFailure::NoReply);
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 22");
    assert_eq!(world.hit(&ask("out.local.example. A")).says(), "SERVFAIL rd ra EDE 13");
    world.change_policy(|policy| policy.domains.clear());
    let alone = world.hit(&ask("out.local.example. A"));
    assert_eq!((alone.says(), alone.answers().len()), ("NOERROR aa rd ra".into(), 1), "no rule for the rest");
}

#[test]
fn a_chain_that_does_not_fit_is_truncated() {
    let lines: Vec<String> = (0..40).map(|n| format!("www.example. 60 A 192.0.2.{n}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut world = world();
    let mut small = ask("out.local.example. A");
    small.edns = None;
    world.miss(&small);
    world.answered("www.example. A", &data(&lines));
    for reply in [world.later(), world.hit(&small)] {
        assert_eq!((reply.says(), reply.answers().len()), ("NOERROR aa tc rd ra".into(), 0));
    }
    small.transport = Transport::Tcp;
    assert_eq!(world.hit(&small).answers().len(), 41);
}

#[test]
fn an_alias_out_of_local_data_goes_on() {
    let mut world = World::new(|policy| policy.local.data = vec![record("alias.lan. 60 CNAME www.example.")]);
    world.miss(&ask("Alias.lan. A"));
    world.answered("www.example. A", &data(&WWW));
    for reply in [world.later(), world.hit(&ask("Alias.lan. A"))] {
        assert_eq!(reply.says(), "NOERROR aa rd ra");
        assert_eq!(reply.answers(), ["Alias.lan. 60 CNAME www.example.", WWW[0]]);
    }
}

#[test]
fn a_chain_across_rules_is_joined_and_cached_under_its_first_name() {
    let mut world = world();
    world.miss(&ask("WWW.corp.example. A"));
    let links = ["www.corp.example. 300 CNAME a.corp.example.", "a.corp.example. 200 CNAME www.example."];
    world.answered("www.corp.example. A", &data(&[links[0], links[1], "www.example. 5 A 198.51.100.66"]));
    assert_eq!(world.asked(), ["www.example. A"], "what is not theirs is asked of others");
    world.answered("www.example. A", &data(&WWW));
    let first = world.later();
    assert_eq!(first.says(), "NOERROR rd ra");
    assert_eq!(first.answers(), [links[0].replace("www", "WWW").as_str(), links[1], WWW[0]]);
    assert_eq!(world.cached(), ["www.corp.example. A NOERROR 200", "www.example. A NOERROR 600"]);
    world.after(50);
    let again = world.hit(&ask("www.corp.example. A"));
    let ttls: Vec<u32> = again.0.sections[0].iter().map(|line| line.ttl.as_secs()).collect();
    assert_eq!(ttls, [250, 150, 550]);
}

#[test]
fn a_chain_across_rules_to_a_denial_is_kept_no_longer_than_that() {
    let mut world = world();
    // The last piece of the chain is cached already.
    world.learn("www.example. A", &denial(Rcode::NXDOMAIN));
    world.after(100);
    world.miss(&ask("www.corp.example. A"));
    world.answered("www.corp.example. A", &data(&["www.corp.example. 3600 CNAME www.example."]));
    let reply = world.later();
    assert_eq!((reply.says(), reply.answers().len()), ("NXDOMAIN rd ra".into(), 1));
    assert_eq!(world.cached(), ["www.corp.example. A NXDOMAIN 200", "www.example. * NXDOMAIN 200"]);
    assert_eq!(world.hit(&ask("www.corp.example. A")).says(), "NXDOMAIN rd ra");
}

#[test]
fn ad_is_for_chains_that_are_validated_as_a_whole() {
    let mut world = World::new(|policy| policy.domains = vec![domain("."), domain("+corp.example.")]);
    for trusted_all in [false, true] {
        let name = if trusted_all { "b.corp.example." } else { "a.corp.example." };
        let link = format!("{name} 300 CNAME www.example.");
        let question = format!("{name} A do");
        if trusted_all {
            world.change_policy(|policy| policy.domains[0].trust_ad = true);
        }
        world.miss(&ask(&question));
        world.answered(&question, &Upstream { authentic: true, ..data(&[&link]) });
        if !trusted_all {
            world.answered("www.example. A do", &Upstream { authentic: true, ..data(&WWW) });
        }
        let flags = if trusted_all { "NOERROR rd ra ad" } else { "NOERROR rd ra" };
        assert_eq!(world.later().says(), flags);
        assert_eq!(world.hit(&ask(&question)).says(), flags, "from the cache");
    }
}

#[test]
fn a_chain_across_rules_has_an_end() {
    let mut world =
        World::new(|policy| (policy.max_chain, policy.domains) = (3, vec![domain("a."), domain("b.")]));
    world.miss(&ask("n0.a. A"));
    for n in 0..3 {
        let (from, to) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let link = format!("n{n}.{from}. 60 CNAME n{}.{to}.", n + 1);
        world.answered(&format!("n{n}.{from}. A"), &data(&[&link]));
    }
    world.answered("n3.b. A", &data(&["n3.b. 60 CNAME n4.a."]));
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 0");
    assert_eq!((world.asked().len(), world.cached().len()), (0, 0));
}

#[test]
fn a_chain_that_comes_back_to_a_name_is_a_loop_even_if_that_says_otherwise_now() {
    let mut world = World::new(|policy| policy.domains = vec![domain("a."), domain("b.")]);
    world.miss(&ask("x.a. A"));
    world.answered("x.a. A", &data(&["x.a. 60 CNAME x.b."]));
    world.answered("x.b. A", &data(&["x.b. 60 CNAME x.a."]));
    assert_eq!(world.later().says(), "SERVFAIL rd ra EDE 0");
    assert_eq!(world.asked().len(), 0);
}
