//! Names that lists block: no path to an answer leads around a list.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use policy::{ListFormat, NameKeys, RuleBuilder, SourceId};
use recursion::{BlockAnswer, BlockList, LocalConfig, PolicyConfig, PolicyRules, RpzOptions};
use resolver::LookupFailure;
use transport::Transport;
use wire::Ttl;

use crate::support::{Ask, Upstream, World, ask, data, domain, record};

/// Two lists that block, with different answers, and one that exempts.
fn lists() -> Arc<PolicyRules> {
    let mut builder = RuleBuilder::new(NameKeys::new(testkit::key()));
    let mut lists = Vec::new();
    for (number, text, exempts, answer) in [
        (0, "||ads.example^\n0.0.0.0 host.example\n", false, BlockAnswer::NxDomain),
        (1, "||null.example^\n||ads.example^\n", false, BlockAnswer::null()),
        (2, "good.ads.example\nexempt.example\n", true, BlockAnswer::NxDomain),
    ] {
        builder.list(SourceId(number), ListFormat::Auto, text.as_bytes(), exempts).expect("a list");
        lists.push(BlockList { name: format!("list{number}"), answer, blocked: Arc::default() });
    }
    Arc::new(rules_of(builder, lists))
}

/// The rules of these lists, without response policy zones.
fn rules_of(builder: RuleBuilder, lists: Vec<BlockList>) -> PolicyRules {
    PolicyRules::new(builder.build(), Vec::new(), RpzOptions::default(), lists, Ttl::from_secs(60))
}

fn listed(policy: &mut PolicyConfig) {
    policy.lists = Some(lists());
}

const BLOCKED: &str = "NXDOMAIN rd ra EDE 15";

/// The numbers of queries that the lists blocked.
fn counts(world: &World) -> Vec<u64> {
    let lists = world.policy.lists.as_ref().expect("lists");
    lists.lists().iter().map(|list| list.blocked.get()).collect()
}

#[test]
fn a_blocked_name_is_answered_at_once_and_no_server_is_asked() {
    let mut world = World::new(listed);
    for transport in [Transport::Udp, Transport::Tcp] {
        for question in ["ads.example. A", "x.Ads.example. MX do", "host.example. A cd", "y.ads.example. ANY"]
        {
            let reply = world.hit(&Ask { transport, ..ask(question) });
            let says = reply.says().replace(" cd", "");
            assert_eq!((says.as_str(), reply.answers().len()), (BLOCKED, 0), "{question}");
        }
    }
    assert_eq!(world.asked(), [""; 0]);
    assert_eq!(counts(&world), [8, 0, 0], "the first list that blocks the name counts");
    let reply = world.hit(&ask("a.null.example. A"));
    let address = "a.null.example. 60 A 0.0.0.0".to_owned();
    assert_eq!((reply.says(), reply.answers()), ("NOERROR rd ra EDE 15".into(), vec![address]));
    assert_eq!(world.hit(&ask("a.null.example. TXT")).says(), "NOERROR rd ra EDE 15");
    assert_eq!(world.cached(), [""; 0], "a change of lists needs no flush");
}

#[test]
fn names_that_no_rule_covers_are_answered() {
    let mut world = World::new(listed);
    for name in ["good.ads.example.", "x.host.example.", "example.", "badads.example."] {
        let line = format!("{name} 60 A 192.0.2.1");
        let reply = world.learn(&format!("{name} A"), &data(&[&line]));
        assert_eq!((reply.says(), reply.answers()), ("NOERROR rd ra".into(), vec![line]), "{name}");
        assert_eq!(world.hit(&ask(&format!("{name} A"))).says(), "NOERROR rd ra", "{name}");
    }
}

/// The exception covers its own name only, as a line of a list of domains does.
#[test]
fn an_exception_covers_what_its_line_says() {
    let mut world = World::new(listed);
    assert_eq!(world.hit(&ask("x.good.ads.example. A")).says(), BLOCKED);
    world.miss(&ask("good.ads.example. A"));
}

#[test]
fn an_alias_to_a_blocked_name_is_blocked_from_upstream_and_from_the_cache() {
    // The server validates, and its answer is secure; the answer in its place is not.
    let mut world = World::new(|policy| {
        listed(policy);
        policy.domains = vec![domain("+.")];
    });
    let chain = [
        "www.example. 600 CNAME cdn.example.",
        "cdn.example. 600 CNAME t.ads.example.",
        "t.ads.example. 600 A 192.0.2.1",
    ];
    for _ in 0..2 {
        let question = ask("www.example. A ad");
        let reply = world.ask(&question).unwrap_or_else(|| {
            world.answered("www.example. A", &Upstream { authentic: true, ..data(&chain) });
            world.later()
        });
        assert_eq!((reply.says().as_str(), reply.answers().len()), (BLOCKED, 0));
    }
    assert_eq!(world.cached(), ["www.example. A NOERROR 600"], "as it was received");
    assert_eq!(counts(&world), [2, 0, 0]);
    // The query name is exempt, so its aliases are not looked at.
    let exempt = ["exempt.example. 600 CNAME t.ads.example.", "t.ads.example. 600 A 192.0.2.1"];
    assert_eq!(world.learn("exempt.example. A", &data(&exempt)).answers(), exempt);
    assert_eq!(world.hit(&ask("exempt.example. A")).answers(), exempt);
}

/// A server may send the records of a chain in any order.
#[test]
fn an_alias_behind_its_addresses_is_found_too() {
    let mut world = World::new(listed);
    let chain = [
        "t.ads.example. 600 A 192.0.2.1",
        "cdn.example. 600 CNAME t.ads.example.",
        "www.example. 600 CNAME cdn.example.",
    ];
    assert_eq!(world.learn("www.example. A", &data(&chain)).says(), BLOCKED);
    assert_eq!(world.hit(&ask("www.example. A")).says(), BLOCKED);
}

#[test]
fn a_chain_that_comes_in_pieces_stops_before_a_blocked_name() {
    let mut world = World::new(|policy| {
        listed(policy);
        policy.domains.push(domain("ads.example."));
    });
    world.miss(&ask("www.example. A"));
    world.answered("www.example. A", &data(&["www.example. 600 CNAME t.ads.example."]));
    assert_eq!(world.later().says(), BLOCKED);
    assert_eq!(world.asked(), [""; 0], "no server of the blocked name is asked");
}

/// The second server was not asked, and the answer was the one for a blocked name.
#[test]
fn a_chain_that_comes_in_pieces_is_followed_for_an_exempt_name() {
    let mut world = World::new(|policy| {
        listed(policy);
        policy.domains.push(domain("ads.example."));
    });
    let chain = ["exempt.example. 600 CNAME t.ads.example.", "t.ads.example. 600 A 192.0.2.1"];
    world.miss(&ask("exempt.example. A"));
    world.answered("exempt.example. A", &data(&chain[..1]));
    world.answered("t.ads.example. A", &data(&chain[1..]));
    assert_eq!(world.later().answers(), chain);
}

#[test]
fn an_alias_of_a_zone_here_to_a_blocked_name_is_blocked() {
    let mut world = World::new(|policy| {
        policy.local = LocalConfig::default();
        let mut builder = RuleBuilder::new(NameKeys::new(testkit::key()));
        builder
            .list(SourceId(0), ListFormat::Domains, b"www.example\nns.local.example\n", false)
            .expect("a list");
        let list = BlockList { name: "l".into(), answer: BlockAnswer::NxDomain, blocked: Arc::default() };
        policy.lists = Some(Arc::new(rules_of(builder, vec![list])));
    });
    assert_eq!(world.hit(&ask("out.local.example. A")).says(), BLOCKED);
    assert_eq!(world.hit(&ask("hop.local.example. A")).says(), BLOCKED);
    assert_eq!(
        world.hit(&ask("in.local.example. A")).answers().len(),
        2,
        "names of zones here are not blocked"
    );
}

#[test]
fn local_names_are_the_operators_own() {
    let mut world = World::new(|policy| {
        listed(policy);
        policy.local.data = vec![record("a.ads.example. 60 A 192.0.2.7")];
    });
    assert_eq!(world.hit(&ask("a.ads.example. A")).answers(), ["a.ads.example. 60 A 192.0.2.7"]);
    assert_eq!(world.hit(&ask("b.ads.example. A")).says(), BLOCKED);
}

#[test]
fn a_change_of_lists_applies_to_cached_stale_and_late_answers() {
    let mut world = World::new(|policy| policy.stale_after = Some(Duration::from_millis(1800)));
    let chain = ["www.example. 60 CNAME t.ads.example.", "t.ads.example. 60 A 192.0.2.1"];
    world.learn("www.example. A", &data(&chain));
    world.learn("t.ads.example. A", &data(&["t.ads.example. 60 A 192.0.2.1"]));
    world.miss(&ask("late.example. A"));
    world.change_policy(listed);
    // Late: the query came before the list.
    world.answered("late.example. A", &data(&["late.example. 60 CNAME t.ads.example."]));
    assert_eq!(world.later().says(), BLOCKED);
    assert_eq!(world.hit(&ask("t.ads.example. A")).says(), BLOCKED);
    assert_eq!(world.hit(&ask("www.example. A")).says(), BLOCKED);
    // Stale: the servers do not answer.
    world.after(100);
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::TimedOut);
    for reply in world.late() {
        assert_eq!(reply.says(), BLOCKED);
    }
    assert_eq!(world.hit(&ask("www.example. A")).says(), BLOCKED, "the failure is cached");
    world.change_policy(|policy| policy.lists = None);
    assert_eq!(world.hit(&ask("www.example. A")).answers().len(), 2, "stale, and no longer blocked");
}

/// A client that may not recurse does not learn which names are listed.
#[test]
fn clients_who_may_not_recurse_are_refused_for_blocked_names_too() {
    let mut world = World::new(listed);
    let outside = Ask { from: [192, 0, 2, 1].into(), ..ask("ads.example. A") };
    assert_eq!(
        world.hit(&outside).says(),
        world.hit(&Ask { name: testkit::name("x."), ..outside.clone() }).says()
    );
    let not_desired = Ask { recursion_desired: false, ..ask("ads.example. A") };
    assert!(!world.hit(&not_desired).says().contains("EDE 15"));
}

/// Rules for certain clients decide about answers in the cache and about those that are not.
#[test]
fn a_rule_for_one_client_blocks_nothing_for_others() {
    let rules = "||ads.example^$client=127.0.0.1\n/^track/$dnstype=A,client=~127.0.0.1\n";
    let mut world = World::new(|policy| {
        let mut builder = RuleBuilder::new(NameKeys::new(testkit::key()));
        builder.list(SourceId(0), ListFormat::Auto, rules.as_bytes(), false).expect("a list");
        let list = BlockList { name: "own".into(), answer: BlockAnswer::NxDomain, blocked: Arc::default() };
        policy.lists = Some(Arc::new(rules_of(builder, vec![list])));
    });
    let [own, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
    let from = |from, question| Ask { from, ..ask(question) };
    for (question, blocked, open) in [("x.ads.example. A", own, other), ("tracker.example. A", other, own)] {
        assert_eq!(world.hit(&from(blocked, question)).says(), BLOCKED, "not cached: {question}");
        let line = question.replace(" A", " 60 A 192.0.2.1");
        world.miss(&from(open, question));
        world.answered(question, &data(&[&line]));
        assert_eq!(world.later().answers(), [line.as_str()]);
        assert_eq!(world.hit(&from(open, question)).answers(), [line], "cached: {question}");
        assert_eq!(world.hit(&from(blocked, question)).says(), BLOCKED, "cached: {question}");
    }
    assert_eq!(counts(&world), [4]);
    let chain = ["www.example. 600 CNAME t.ads.example.", "t.ads.example. 600 A 192.0.2.1"];
    world.miss(&from(other, "www.example. A"));
    world.answered("www.example. A", &data(&chain));
    assert_eq!(world.later().answers(), chain);
    assert_eq!(world.hit(&from(other, "www.example. A")).answers(), chain);
    assert_eq!(world.hit(&from(own, "www.example. A")).says(), BLOCKED);
}
