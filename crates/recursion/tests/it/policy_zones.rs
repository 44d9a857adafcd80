//! Response policy zones: each trigger and action, their precedence, and that no path to an answer leads
//! around a rule.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use policy::{ListFormat, NameKeys, PolicyRecord, RpzAction, RpzReport, RuleBuilder, SourceId};
use recursion::{
    BlockAnswer, BlockList, PolicyConfig, PolicyRules, PolicyZone, RewriteKind, RpzOptions, RpzOverride,
};
use resolver::LookupFailure;
use transport::Transport;
use wire::edns::ErrorInfo;
use wire::{Rcode, Ttl, Type};

use crate::support::{Ask, Upstream, World, ask, data, denial, domain, record};
use crate::validation::{Server, Validated, forged};

/// A response policy zone with these records, whose owners are relative to the zone.
struct Rpz<'t> {
    records: &'t [&'t str],
    instead: RpzOverride,
}

fn given<'t>(records: &'t [&'t str]) -> Rpz<'t> {
    Rpz { records, instead: RpzOverride::Given }
}

/// The rules of policy zones, in this order, and of a list behind them.
fn rules(zones: &[Rpz<'_>], list: &str, options: RpzOptions) -> Arc<PolicyRules> {
    let mut builder = RuleBuilder::new(NameKeys::new(testkit::key()));
    let mut in_force = Vec::new();
    for (number, Rpz { records, instead }) in (0u8..).zip(zones) {
        let name = testkit::name(&format!("rpz{number}.test."));
        let apex = name.as_name().to_lower();
        let mut report = RpzReport::default();
        let records: Vec<_> = records
            .iter()
            .map(|line| {
                let (owner, rest) = line.split_once(' ').expect("an owner");
                record(&format!("{owner}.rpz{number}.test. {rest}"))
            })
            .collect();
        for of_owner in records.chunk_by(|a, b| a.owner == b.owner) {
            let owner = of_owner[0].owner.as_name().to_lower();
            let all: Vec<_> = of_owner
                .iter()
                .map(|record| PolicyRecord { rtype: record.rtype, ttl: record.ttl, rdata: &record.rdata })
                .collect();
            builder.rpz(SourceId(number), apex.as_lower(), owner.as_lower(), &all, &mut report);
        }
        assert_eq!(report.faults, 0, "{report:?}");
        let soa = record(&format!("rpz{number}.test. 30 SOA ns. admin. {number} 3600 600 86400 60"));
        in_force.push(PolicyZone {
            name,
            instead: *instead,
            max_ttl: Ttl::from_secs(300),
            soa: Some((soa.ttl, soa.rdata.into())),
            info: Some(ErrorInfo::BLOCKED),
            is_logged: true,
            counts: Arc::default(),
        });
    }
    let source = SourceId(u8::try_from(zones.len()).expect("few"));
    builder.list(source, ListFormat::Auto, list.as_bytes(), false).expect("a list");
    let list = BlockList { name: "list".into(), answer: BlockAnswer::NoData, blocked: Arc::default() };
    Arc::new(PolicyRules::new(builder.build(), in_force, options, vec![list], Ttl::from_secs(60)))
}

/// A list that blocks no name of these tests.
const NO_LIST: &str = "unused.test\n";

fn policed(zones: &[Rpz<'_>]) -> impl FnOnce(&mut PolicyConfig) {
    let rules = rules(zones, "||listed.example^\n", RpzOptions::default());
    move |policy| policy.lists = Some(rules)
}

/// The numbers of queries by action of one zone, without those that are 0.
fn counts(world: &World, zone: usize) -> Vec<(&'static str, u64)> {
    let zone = &world.policy.lists.as_ref().expect("rules").zones()[zone];
    let all = RewriteKind::ALL.map(|(kind, label)| (label, zone.counts.of(kind).get()));
    all.into_iter().filter(|(_, number)| *number > 0).collect()
}

/// Sends a query, and if it needs lookups has each answered with these records, or denied if there are none.
fn answer(world: &mut World, question: &Ask, answers: &[(&str, &[&str])]) -> Option<(String, Vec<String>)> {
    let shown = |reply: crate::support::Reply| (reply.says(), reply.answers());
    if let Some(reply) = world.ask_or_drop(question)? {
        return Some(shown(reply));
    }
    while let Some(asked) = world.asked().first().cloned() {
        let found = answers.iter().find(|(question, _)| *question == asked);
        match found {
            Some((_, records)) => world.answered(&asked, &data(records)),
            None => world.answered(&asked, &denial(Rcode::NOERROR)),
        }
    }
    let late = world.late_or_dropped();
    assert_eq!(late.len(), 1, "one query");
    late.into_iter().next().flatten().map(shown)
}

const NXDOMAIN: &str = "NXDOMAIN rd ra EDE 15";
const REWRITTEN: &str = "NOERROR rd ra EDE 15";
const AS_IS: &str = "NOERROR rd ra";

const ACTIONS: [&str; 9] = [
    "nx.example 60 CNAME .",
    "nodata.example 60 CNAME *.",
    "pass.example 60 CNAME rpz-passthru.",
    "drop.example 60 CNAME rpz-drop.",
    "tcp.example 60 CNAME rpz-tcp-only.",
    "data.example 900 A 10.0.0.1",
    "data.example 60 MX 10 mail.example.",
    "garden.example 60 CNAME walled.example.",
    "*.wild.example 60 CNAME *.walled.example.",
];

#[test]
fn each_action_is_carried_out_before_any_server_is_asked() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    let at_once = |world: &mut World, question: &str, transport| {
        let reply = world.ask_or_drop(&Ask { transport, ..ask(question) })?;
        let reply = reply.unwrap_or_else(|| panic!("{question}: a server is asked"));
        Some((reply.says(), reply.answers()))
    };
    for transport in [Transport::Udp, Transport::Tcp] {
        let mut at_once = |question: &str| at_once(&mut world, question, transport);
        assert_eq!(at_once("nx.example. A"), Some((NXDOMAIN.into(), vec![])));
        assert_eq!(at_once("NX.example. TXT"), Some((NXDOMAIN.into(), vec![])));
        assert_eq!(at_once("nodata.example. A"), Some((REWRITTEN.into(), vec![])));
        assert_eq!(at_once("drop.example. A"), None);
        let a = "data.example. 300 A 10.0.0.1".to_owned();
        let mx = "data.example. 60 MX 10 mail.example.".to_owned();
        assert_eq!(at_once("data.example. A"), Some((REWRITTEN.into(), vec![a.clone()])), "max-ttl");
        assert_eq!(at_once("data.example. TXT"), Some((REWRITTEN.into(), vec![])));
        assert_eq!(at_once("data.example. ANY"), Some((REWRITTEN.into(), vec![a, mx])));
        let cname = "garden.example. 60 CNAME walled.example.".to_owned();
        assert_eq!(at_once("garden.example. CNAME"), Some((REWRITTEN.into(), vec![cname])));
    }
    assert_eq!(
        at_once(&mut world, "tcp.example. A", Transport::Udp),
        Some(("NOERROR tc rd ra EDE 15".into(), vec![]))
    );
    assert_eq!((world.asked(), world.cached()), (vec![], vec![]));
    let twice = |label| (label, 4u64);
    assert_eq!(
        counts(&world, 0),
        [twice("nxdomain"), ("nodata", 2), ("drop", 2), ("tcp-only", 1), ("local-data", 8)]
    );
}

#[test]
fn names_that_go_on_to_their_servers_are_answered_from_them_and_from_the_cache() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    for _ in 0..2 {
        let reply = answer(
            &mut world,
            &ask("pass.example. A"),
            &[("pass.example. A", &["pass.example. 60 A 192.0.2.1"])],
        );
        assert_eq!(reply, Some((AS_IS.into(), vec!["pass.example. 60 A 192.0.2.1".into()])));
        let over_tcp = Ask { transport: Transport::Tcp, ..ask("tcp.example. A") };
        let reply = answer(&mut world, &over_tcp, &[("tcp.example. A", &["tcp.example. 60 A 192.0.2.2"])]);
        assert_eq!(reply, Some((AS_IS.into(), vec!["tcp.example. 60 A 192.0.2.2".into()])));
    }
    assert_eq!(counts(&world, 0), [("passthru", 2), ("tcp-only", 2)]);
}

/// From the cache, too: a list has a rule about the target of an alias.
#[test]
fn a_name_that_a_zone_exempts_is_exempt_from_lists() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    let chain = ["pass.example. 60 CNAME listed.example.", "listed.example. 60 A 192.0.2.1"];
    assert_eq!(world.learn("pass.example. A", &data(&chain)).answers(), chain);
    assert_eq!(world.hit(&ask("pass.example. A")).answers(), chain);
    let chain = ["www.example. 60 CNAME listed.example.", "listed.example. 60 A 192.0.2.1"];
    assert_eq!(world.learn("www.example. A", &data(&chain)).says(), REWRITTEN, "blocked");
}

#[test]
fn the_target_of_a_rules_alias_is_resolved_and_not_rewritten_again() {
    let mut world = World::new(policed(&[given(&[&ACTIONS[..], &["walled.example 60 CNAME ."]].concat())]));
    let servers: [(&str, &[&str]); 2] = [
        ("walled.example. A", &["walled.example. 60 A 192.0.2.9"]),
        ("x.wild.example.walled.example. A", &["x.wild.example.walled.example. 60 A 192.0.2.8"]),
    ];
    for _ in 0..2 {
        let reply = answer(&mut world, &ask("garden.example. A"), &servers).expect("a reply");
        let chain = ["garden.example. 60 CNAME walled.example.", "walled.example. 60 A 192.0.2.9"];
        assert_eq!((reply.0.as_str(), reply.1), (REWRITTEN, chain.map(String::from).to_vec()));
        let reply = answer(&mut world, &ask("x.wild.example. A"), &servers).expect("a reply");
        let chain = [
            "x.wild.example. 60 CNAME x.wild.example.walled.example.",
            "x.wild.example.walled.example. 60 A 192.0.2.8",
        ];
        assert_eq!((reply.0.as_str(), reply.1), (REWRITTEN, chain.map(String::from).to_vec()));
    }
    let cached = ["walled.example. A NOERROR 60", "x.wild.example.walled.example. A NOERROR 60"];
    assert_eq!(world.cached(), cached, "no rewritten answer is cached");
    let labels = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(40)].join(".");
    let long = format!("{labels}.wild.example. A");
    assert_eq!(world.hit(&ask(&long)).says(), "YXDOMAIN rd ra EDE 15");
}

#[test]
fn an_answer_is_cut_before_the_name_that_has_a_rule() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    let servers: [(&str, &[&str]); 4] = [
        ("www.example. A", &["www.example. 60 CNAME nx.example.", "nx.example. 60 A 192.0.2.1"]),
        (
            "w2.example. A",
            &[
                "w2.example. 60 CNAME a.w.example.",
                "a.w.example. 60 CNAME garden.example.",
                "garden.example. 60 A 192.0.2.1",
            ],
        ),
        ("w3.example. A", &["w3.example. 60 CNAME drop.example.", "drop.example. 60 A 192.0.2.1"]),
        ("walled.example. A", &["walled.example. 60 A 192.0.2.9"]),
    ];
    for _ in 0..2 {
        let link = "www.example. 60 CNAME nx.example.".to_owned();
        assert_eq!(answer(&mut world, &ask("www.example. A"), &servers), Some((NXDOMAIN.into(), vec![link])));
        let chain = [
            "w2.example. 60 CNAME a.w.example.",
            "a.w.example. 60 CNAME garden.example.",
            "garden.example. 60 CNAME walled.example.",
            "walled.example. 60 A 192.0.2.9",
        ];
        let reply = answer(&mut world, &ask("w2.example. A"), &servers);
        assert_eq!(reply, Some((REWRITTEN.into(), chain.map(String::from).to_vec())));
        assert_eq!(answer(&mut world, &ask("w3.example. A"), &servers), None);
    }
    // An alias of a zone here.
    let rules = rules(&[given(&["www.example 60 CNAME ."])], NO_LIST, RpzOptions::default());
    world.change_policy(|policy| policy.lists = Some(rules));
    let reply = world.hit(&ask("out.local.example. A"));
    let link = ["out.local.example. 60 CNAME www.example."];
    assert_eq!(
        (reply.says().as_str(), reply.answers()),
        ("NXDOMAIN aa rd ra EDE 15", link.map(String::from).to_vec())
    );
}

#[test]
fn addresses_of_answers_are_compared_with_rules() {
    let zone = [
        "24.0.2.0.192.rpz-ip 60 CNAME *.",
        "32.7.2.0.192.rpz-ip 60 CNAME rpz-passthru.",
        "48.zz.1.db8.2001.rpz-ip 60 CNAME .",
    ];
    let mut world = World::new(policed(&[given(&zone)]));
    let servers: [(&str, &[&str]); 4] = [
        ("a.example. A", &["a.example. 60 A 198.51.100.1", "a.example. 60 A 192.0.2.1"]),
        ("b.example. A", &["b.example. 60 CNAME c.example.", "c.example. 60 A 192.0.2.7"]),
        ("b.example. AAAA", &["b.example. 60 CNAME c.example.", "c.example. 60 AAAA 2001:db8:1::1"]),
        ("a.example. TXT", &["a.example. 60 TXT 192.0.2.1"]),
    ];
    for _ in 0..2 {
        assert_eq!(answer(&mut world, &ask("a.example. A"), &servers), Some((REWRITTEN.into(), vec![])));
        let reply = answer(&mut world, &ask("b.example. A"), &servers).expect("a reply");
        assert_eq!((reply.0.as_str(), reply.1.len()), (AS_IS, 2), "the longest prefix");
        let link = vec!["b.example. 60 CNAME c.example.".to_owned()];
        assert_eq!(answer(&mut world, &ask("b.example. AAAA"), &servers), Some((NXDOMAIN.into(), link)));
        assert_eq!(answer(&mut world, &ask("a.example. TXT"), &servers).expect("a reply").0, AS_IS);
    }
}

#[test]
fn rules_about_clients_come_first_in_a_zone() {
    let zone = [
        "nx.example 60 CNAME .",
        "32.9.0.0.127.rpz-client-ip 60 CNAME rpz-passthru.",
        "32.8.0.0.127.rpz-client-ip 60 CNAME rpz-drop.",
    ];
    let mut world = World::new(policed(&[given(&["first.example 60 CNAME ."]), given(&zone)]));
    let servers: [(&str, &[&str]); 2] = [
        ("nx.example. A", &["nx.example. 60 A 192.0.2.1"]),
        ("www.example. A", &["www.example. 60 CNAME nx.example.", "nx.example. 60 A 192.0.2.1"]),
    ];
    for _ in 0..2 {
        assert_eq!(
            answer(&mut world, &ask("nx.example. A").from("127.0.0.9"), &servers).expect("a reply").0,
            AS_IS
        );
        assert_eq!(
            answer(&mut world, &ask("www.example. A").from("127.0.0.9"), &servers).expect("a reply").0,
            AS_IS
        );
        assert_eq!(answer(&mut world, &ask("www.example. A").from("127.0.0.8"), &servers), None);
        assert_eq!(
            answer(&mut world, &ask("first.example. A").from("127.0.0.8"), &servers).expect("a reply").0,
            NXDOMAIN
        );
        assert_eq!(answer(&mut world, &ask("www.example. A"), &servers).expect("a reply").0, NXDOMAIN);
        // A list blocks no name for a client that a zone exempts.
        let listed: [(&str, &[&str]); 1] = [("listed.example. A", &["listed.example. 60 A 192.0.2.1"])];
        assert_eq!(
            answer(&mut world, &ask("listed.example. A").from("127.0.0.9"), &listed).expect("a reply").0,
            AS_IS
        );
        assert_eq!(answer(&mut world, &ask("listed.example. A"), &listed).expect("a reply").0, REWRITTEN);
    }
}

/// Draft §5.2: the order of zones comes before the kind of the trigger.
#[test]
fn a_rule_about_a_name_waits_for_the_answer_if_an_earlier_zone_has_rules_about_answers() {
    let (first, second) =
        (["32.1.2.0.192.rpz-ip 60 CNAME rpz-passthru."], ["nx.example 60 CNAME .", "*.example 60 CNAME *."]);
    let mut world = World::new(policed(&[given(&first), given(&second)]));
    let servers: [(&str, &[&str]); 3] = [
        ("nx.example. A", &["nx.example. 60 A 192.0.2.1"]),
        ("nx.example. AAAA", &["nx.example. 60 AAAA 2001:db8::1"]),
        ("a.example. A", &["a.example. 60 A 192.0.2.2"]),
    ];
    for _ in 0..2 {
        assert_eq!(answer(&mut world, &ask("nx.example. A"), &servers).expect("a reply").0, AS_IS);
        assert_eq!(answer(&mut world, &ask("nx.example. AAAA"), &servers).expect("a reply").0, NXDOMAIN);
        assert_eq!(answer(&mut world, &ask("a.example. A"), &servers).expect("a reply").0, REWRITTEN);
    }
    let mut world = World::new(policed(&[given(&second), given(&first)]));
    assert_eq!(world.hit(&ask("nx.example. A")).says(), NXDOMAIN);
}

#[test]
fn name_servers_are_compared_with_rules_and_looked_up_if_they_are_not_known() {
    let zone = [
        "ns.bad.example.rpz-nsdname 60 CNAME .",
        "32.66.2.0.192.rpz-nsip 60 CNAME *.",
        "ok.good.example 60 CNAME rpz-passthru.",
    ];
    let servers: [(&str, &[&str]); 9] = [
        ("www.evil.example. A", &["www.evil.example. 60 A 198.51.100.1"]),
        (
            "evil.example. NS",
            &["evil.example. 600 NS ns.bad.example.", "evil.example. 600 NS ns.ok.example."],
        ),
        ("www.hosted.example. A", &["www.hosted.example. 60 A 198.51.100.1"]),
        ("hosted.example. NS", &["hosted.example. 600 NS ns.hoster.example."]),
        ("ns.hoster.example. A", &["ns.hoster.example. 600 A 192.0.2.66"]),
        ("www.good.example. A", &["www.good.example. 60 A 198.51.100.1"]),
        ("good.example. NS", &["good.example. 600 NS ns.ok.example."]),
        ("ns.ok.example. A", &["ns.ok.example. 600 A 192.0.2.67"]),
        ("ok.good.example. A", &["ok.good.example. 60 A 198.51.100.1"]),
    ];
    let mut world = World::new(policed(&[given(&zone)]));
    for _ in 0..2 {
        assert_eq!(answer(&mut world, &ask("www.evil.example. A"), &servers).expect("a reply").0, NXDOMAIN);
        assert_eq!(
            answer(&mut world, &ask("www.hosted.example. A"), &servers).expect("a reply").0,
            REWRITTEN
        );
        assert_eq!(answer(&mut world, &ask("www.good.example. A"), &servers).expect("a reply").0, AS_IS);
        assert_eq!(answer(&mut world, &ask("ok.good.example. A"), &servers).expect("a reply").0, AS_IS);
        assert_eq!(world.asked(), [""; 0]);
    }
    // Servers that are not known and cannot be looked up have no rule.
    let mut world = World::new(policed(&[given(&zone)]));
    world.miss(&ask("www.evil.example. A"));
    world.answered("www.evil.example. A", &data(&["www.evil.example. 60 A 198.51.100.1"]));
    assert_eq!(world.asked(), ["www.evil.example. NS"]);
    world.failed("www.evil.example. NS", LookupFailure::TimedOut);
    world.failed("evil.example. NS", LookupFailure::TimedOut);
    assert_eq!(world.later().says(), AS_IS);
    // Without waiting, the lookups are for the next query.
    let options = RpzOptions { ns_wait_recurse: false, ..RpzOptions::default() };
    let rules = rules(&[given(&zone)], NO_LIST, options);
    let mut world = World::new(|policy| policy.lists = Some(rules));
    world.miss(&ask("www.evil.example. A"));
    world.answered("www.evil.example. A", &data(&["www.evil.example. 60 A 198.51.100.1"]));
    assert_eq!(world.later().says(), AS_IS);
    assert_eq!(world.asked(), ["www.evil.example. NS", "evil.example. NS"]);
    world.answered("www.evil.example. NS", &denial(Rcode::NOERROR));
    world.answered("evil.example. NS", &data(&["evil.example. 600 NS ns.bad.example."]));
    assert_eq!(world.hit(&ask("www.evil.example. A")).says(), NXDOMAIN);
}

/// The rule was left out where a domain's servers answered no queries for their names, or named others.
#[test]
fn servers_of_a_delegation_are_compared_with_rules_whatever_the_domain_says() {
    let zone = ["ns.bad.example.rpz-nsdname 60 CNAME .", "32.66.2.0.192.rpz-nsip 60 CNAME *."];
    let other: &[&str] = &["evil.example. 600 NS ns.ok.example."];
    let delegations =
        [("ns.bad.example.", vec![], NXDOMAIN), ("ns.x.example.", vec![[192, 0, 2, 66].into()], REWRITTEN)];
    for ((server, addresses, says), answer) in
        delegations.into_iter().flat_map(|of| [(of.clone(), None), (of, Some(other))])
    {
        let mut world = World::new(policed(&[given(&zone)]));
        let server = (testkit::name(server).as_name().to_lower(), addresses);
        let domain = testkit::name("evil.example.").as_name().to_lower();
        world.noted.1.lock().expect("one thread").push((domain, vec![server]));
        world.miss(&ask("www.evil.example. A"));
        world.answered("www.evil.example. A", &data(&["www.evil.example. 60 A 198.51.100.1"]));
        world.failed("www.evil.example. NS", LookupFailure::TimedOut);
        match answer {
            Some(records) => world.answered("evil.example. NS", &data(records)),
            None => world.failed("evil.example. NS", LookupFailure::TimedOut),
        }
        while let Some(of_address) = world.asked().pop() {
            world.answered(&of_address, &denial(Rcode::NOERROR));
        }
        assert_eq!(world.later().says(), says, "{answer:?}");
        // The failures are cached by now, and so is the answer.
        assert_eq!(world.hit(&ask("www.evil.example. A")).says(), says, "{answer:?}");
    }
}

#[test]
fn a_query_has_so_many_lookups_of_name_servers() {
    let zone = ["ns.bad.example.rpz-nsdname 60 CNAME ."];
    for (ns_lookups, wanted, refused) in [(2, NXDOMAIN, 0), (1, AS_IS, 1), (0, AS_IS, 2)] {
        let options = RpzOptions { ns_lookups, ..RpzOptions::default() };
        let rules = rules(&[given(&zone)], NO_LIST, options);
        let mut world = World::new(|policy| policy.lists = Some(rules));
        world.miss(&ask("www.evil.example. A"));
        world.answered("www.evil.example. A", &data(&["www.evil.example. 60 A 198.51.100.1"]));
        if ns_lookups > 0 {
            world.answered("www.evil.example. NS", &denial(Rcode::NOERROR));
        }
        if ns_lookups > 1 {
            world.answered("evil.example. NS", &data(&["evil.example. 600 NS ns.bad.example."]));
        }
        assert_eq!(world.later().says(), wanted, "{ns_lookups}");
        assert_eq!(world.service.stats().ns_lookups_refused.get(), refused, "{ns_lookups}");
    }
}

#[test]
fn signed_answers_are_kept_for_clients_that_can_validate_them() {
    let zone = ["nx.example 60 CNAME .", "32.1.2.0.192.rpz-ip 60 CNAME *."];
    let rrsig = "nx.example. 60 RRSIG A 13 2 60 20301126000000 20001126000000 1 example. AAAA";
    let of_alias = "w.example. 60 RRSIG CNAME 13 2 60 20301126000000 20001126000000 1 example. AAAA";
    let servers: [(&str, &[&str]); 4] = [
        ("nx.example. A do", &["nx.example. 60 A 192.0.2.1", rrsig]),
        ("nx.example. TXT do", &["nx.example. 60 TXT unsigned"]),
        ("w.example. A do", &["w.example. 60 CNAME nx.example.", of_alias, "nx.example. 60 A 192.0.2.1"]),
        ("a.example. A do", &["a.example. 60 A 192.0.2.1"]),
    ];
    let mut world = World::new(policed(&[given(&zone)]));
    for _ in 0..2 {
        assert_eq!(answer(&mut world, &ask("nx.example. A do"), &servers).expect("a reply").0, AS_IS);
        assert_eq!(answer(&mut world, &ask("nx.example. TXT do"), &servers).expect("a reply").0, NXDOMAIN);
        let reply = answer(&mut world, &ask("w.example. A do"), &servers).expect("a reply");
        assert_eq!(
            (reply.0.as_str(), reply.1.len()),
            (NXDOMAIN, 2),
            "the signed alias, and a rule about its target"
        );
        assert_eq!(answer(&mut world, &ask("a.example. A do"), &servers).expect("a reply").0, REWRITTEN);
        assert_eq!(world.hit(&ask("nx.example. A")).says(), NXDOMAIN);
    }
    let options = RpzOptions { break_dnssec: true, ..RpzOptions::default() };
    let rules = rules(&[given(&zone)], NO_LIST, options);
    world.change_policy(|policy| policy.lists = Some(rules));
    assert_eq!(world.hit(&ask("nx.example. A do")).says(), NXDOMAIN);
}

/// The client's rule was passed over for the whole query if its first name was signed.
#[test]
fn a_rule_about_the_client_applies_to_the_first_name_that_may_be_rewritten() {
    let zone = ["32.9.0.0.127.rpz-client-ip 60 CNAME *."];
    let rrsig = "w.example. 60 RRSIG CNAME 13 2 60 20301126000000 20001126000000 1 example. AAAA";
    let chain = ["w.example. 60 CNAME a.example.", rrsig, "a.example. 60 A 192.0.2.1"];
    let mut world = World::new(policed(&[given(&zone)]));
    for _ in 0..2 {
        let reply =
            answer(&mut world, &ask("w.example. A do").from("127.0.0.9"), &[("w.example. A do", &chain)]);
        let (says, answers) = reply.expect("a reply");
        assert_eq!((says.as_str(), answers.len()), (REWRITTEN, 2));
    }
}

/// Draft §5.6. The first address of the answer decided.
#[test]
fn of_prefixes_of_one_length_the_smallest_address_decides() {
    let zone = ["32.2.2.0.192.rpz-ip 60 CNAME .", "32.1.2.0.192.rpz-ip 60 CNAME *."];
    let mut world = World::new(policed(&[given(&zone)]));
    let addresses = ["a.example. 60 A 192.0.2.2", "a.example. 60 A 192.0.2.1"];
    assert_eq!(world.learn("a.example. A", &data(&addresses)).says(), REWRITTEN);
}

#[test]
fn rewritten_answers_have_the_record_of_their_zone() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    let soa = |reply: &crate::support::Reply| reply.additional().join(" ").contains("rpz0.test. 30 SOA");
    for question in ["nx.example. A", "nodata.example. A", "data.example. A", "garden.example. CNAME"] {
        assert!(soa(&world.hit(&ask(question))), "{question}");
    }
    let walled = data(&["walled.example. 60 A 192.0.2.9"]);
    let reply = world.learn_of("garden.example. A", "walled.example. A", &walled);
    assert!(soa(&reply), "{reply:?}");
    assert!(soa(&world.hit(&ask("garden.example. A"))), "from the cache");
    assert!(!soa(&world.learn("a.example. A", &data(&["a.example. 60 A 192.0.2.1"]))));
}

#[test]
fn the_operator_orders_otherwise_than_a_zone() {
    let names = [
        "a.example 60 CNAME .",
        "b.example 60 CNAME rpz-passthru.",
        "c.example 60 A 10.0.0.1",
        "garden.example 60 CNAME .",
    ];
    let overridden = |instead| {
        let rules = rules(
            &[Rpz { records: &names, instead }, given(&["c.example 60 CNAME *."])],
            NO_LIST,
            RpzOptions::default(),
        );
        World::new(|policy| policy.lists = Some(rules))
    };
    let mut world = overridden(RpzOverride::Action(RpzAction::NoData));
    for name in ["a", "b", "c"] {
        assert_eq!(world.hit(&ask(&format!("{name}.example. A"))).says(), REWRITTEN);
    }
    let mut world = overridden(RpzOverride::Cname(testkit::name("garden.example.")));
    let reply =
        world.learn_of("b.example. A", "garden.example. A", &data(&["garden.example. 60 A 10.0.0.9"]));
    let chain = ["b.example. 60 CNAME garden.example.", "garden.example. 60 A 10.0.0.9"];
    assert_eq!((reply.says().as_str(), reply.answers()), (REWRITTEN, chain.map(String::from).to_vec()));
    assert_eq!(world.hit(&ask("garden.example. A")).says(), AS_IS, "an alias to itself is none");
    // Counted once on each path: looked up, from the cache, by a rule of another zone.
    let mut world = overridden(RpzOverride::Disabled);
    world.learn("a.example. A", &data(&["a.example. 60 A 192.0.2.1"]));
    assert_eq!(counts(&world, 0), [("disabled", 1)]);
    assert_eq!(world.hit(&ask("a.example. A")).says(), AS_IS);
    assert_eq!(counts(&world, 0), [("disabled", 2)]);
    assert_eq!(world.hit(&ask("c.example. A")).says(), REWRITTEN, "by the next zone");
    assert_eq!((counts(&world, 0), counts(&world, 1)), (vec![("disabled", 3)], vec![("nodata", 1)]));
}

#[test]
fn a_change_of_rules_applies_to_cached_stale_and_late_answers() {
    let mut world = World::new(|policy| policy.stale_after = Some(Duration::from_millis(1800)));
    let chain = ["www.example. 60 CNAME nx.example.", "nx.example. 60 A 192.0.2.1"];
    world.learn("www.example. A", &data(&chain));
    world.learn("data.example. A", &data(&["data.example. 60 A 192.0.2.1"]));
    world.miss(&ask("late.example. A"));
    world.change_policy(policed(&[given(&ACTIONS)]));
    world.answered(
        "late.example. A",
        &data(&["late.example. 60 CNAME nx.example.", "nx.example. 60 A 192.0.2.1"]),
    );
    assert_eq!(world.later().says(), NXDOMAIN, "the query came before the rules");
    assert_eq!(world.hit(&ask("www.example. A")).says(), NXDOMAIN);
    assert_eq!(world.hit(&ask("data.example. A")).answers(), ["data.example. 300 A 10.0.0.1"]);
    world.after(100);
    world.miss(&ask("www.example. A"));
    world.failed("www.example. A", LookupFailure::TimedOut);
    world.late().into_iter().for_each(|reply| assert_eq!(reply.says(), NXDOMAIN));
    assert_eq!(world.hit(&ask("www.example. A")).says(), NXDOMAIN, "stale");
    world.change_policy(|policy| policy.lists = None);
    assert_eq!(world.hit(&ask("www.example. A")).answers().len(), 2);
}

/// A popular answer is fetched anew before it expires, and no client waits for it.
#[test]
fn a_prefetch_is_no_way_round_a_rule() {
    let (old, new) = (["www.example. 600 A 192.0.2.80"], ["www.example. 600 A 192.0.2.81"]);
    let mut world = World::new(|_| {});
    world.learn("www.example. A", &data(&old));
    for _ in 0..5 {
        world.hit(&ask("www.example. A"));
    }
    world.after(540);
    assert_eq!(world.hit(&ask("www.example. A")).answers(), ["www.example. 60 A 192.0.2.80"]);
    assert_eq!(world.asked(), ["www.example. A"], "it is prefetched");
    // A rule that comes while the prefetch waits.
    world.change_policy(policed(&[given(&["www.example 60 CNAME ."])]));
    assert_eq!(world.hit(&ask("www.example. A")).says(), NXDOMAIN);
    world.answered("www.example. A", &data(&new));
    assert!(world.late().is_empty(), "no client waits");
    assert_eq!(world.service.stats().prefetched.get(), 1);
    assert_eq!(world.hit(&ask("www.example. A")).says(), NXDOMAIN, "the prefetched answer");
    assert_eq!(counts(&world, 0), [("nxdomain", 2)]);
    // A rule about the address of the prefetched answer.
    world.change_policy(policed(&[given(&["32.81.2.0.192.rpz-ip 60 A 10.0.0.1"])]));
    let rewritten = ["www.example. 60 A 10.0.0.1"];
    assert_eq!(world.hit(&ask("www.example. A")).answers(), rewritten);
    world.change_policy(|policy| policy.lists = None);
    assert_eq!(world.hit(&ask("www.example. A")).answers(), new, "no rewritten answer is cached");
}

/// The address of the answer in the cache has no rule; that of the prefetched one does.
#[test]
fn rules_about_addresses_apply_to_a_prefetched_answer() {
    let mut world = World::new(policed(&[given(&["32.81.2.0.192.rpz-ip 60 CNAME ."])]));
    world.learn("www.example. A", &data(&["www.example. 600 A 192.0.2.80"]));
    for _ in 0..5 {
        assert_eq!(world.hit(&ask("www.example. A")).says(), AS_IS);
    }
    world.after(540);
    assert_eq!(world.hit(&ask("www.example. A")).says(), AS_IS);
    assert_eq!(world.asked(), ["www.example. A"], "it is prefetched");
    world.answered("www.example. A", &data(&["www.example. 600 A 192.0.2.81"]));
    assert!(world.late().is_empty(), "no client waits");
    let reply = world.hit(&ask("www.example. A"));
    assert_eq!((reply.says(), reply.answers()), (NXDOMAIN.into(), vec![]));
    assert_eq!(counts(&world, 0), [("nxdomain", 1)]);
}

/// docs/RPZ.md: "Bogus answers are never rewritten."
#[test]
fn a_bogus_answer_is_never_rewritten() {
    let of_name: &[&str] = &["www.nsec.test 60 A 10.0.0.1"];
    let of_addresses: &[&str] = &["1.0.0.0.0.rpz-ip 60 A 10.0.0.1", "1.0.0.0.128.rpz-ip 60 A 10.0.0.1"];
    let of_servers: &[&str] = &["*.test.rpz-nsdname 60 A 10.0.0.1"];
    for zone in [of_name, of_addresses, of_servers] {
        let options = RpzOptions { qname_wait_recurse: true, break_dnssec: true, ..RpzOptions::default() };
        let rules = rules(&[given(zone)], NO_LIST, options);
        let server: Server = |query_key, reply| forged(query_key, reply, Type::A);
        let mut with = Validated { server, ..Validated::new(|policy| policy.lists = Some(rules)) };
        for question in ["www.nsec.test. A", "www.nsec.test. A do"] {
            assert_eq!(with.says(question), "SERVFAIL rd ra EDE 6", "{zone:?}");
        }
        assert_eq!(counts(&with.world, 0), [], "{zone:?}");
        // The rule is in force: a good answer is rewritten.
        with.server = |_, reply| Some(reply);
        with.world.after(61);
        let reply = with.resolve("www.nsec.test. A");
        let rewritten = vec!["www.nsec.test. 60 A 10.0.0.1".to_owned()];
        assert_eq!((reply.says(), reply.answers()), (REWRITTEN.into(), rewritten), "{zone:?}");
    }
}

/// The rules changed while the query waited: the number of its local data was that of another rule.
#[test]
fn a_query_that_waits_is_rewritten_by_the_rules_in_force_at_its_end() {
    let first = ["32.1.2.0.192.rpz-ip 60 CNAME rpz-passthru."];
    let mut world = World::new(policed(&[given(&first), given(&["a.example 60 A 10.0.0.1"])]));
    world.miss(&ask("a.example. A"));
    world.change_policy(policed(&[given(&["b.example 60 A 10.0.0.2", "a.example 60 A 10.0.0.3"])]));
    world.answered("a.example. A", &data(&["a.example. 60 A 192.0.2.5"]));
    assert_eq!(world.later().answers(), ["a.example. 60 A 10.0.0.3"]);
}

#[test]
fn a_chain_that_comes_in_pieces_is_rewritten_at_each_of_its_names() {
    let mut world = World::new(|policy| {
        policed(&[given(&ACTIONS)])(policy);
        policy.domains.push(domain("other.example."));
    });
    let servers: [(&str, &[&str]); 2] = [
        ("www.example. A", &["www.example. 60 CNAME a.other.example."]),
        ("a.other.example. A", &["a.other.example. 60 CNAME nx.example."]),
    ];
    for _ in 0..2 {
        let chain = ["www.example. 60 CNAME a.other.example.", "a.other.example. 60 CNAME nx.example."];
        let reply = answer(&mut world, &ask("www.example. A"), &servers);
        assert_eq!(reply, Some((NXDOMAIN.into(), chain.map(String::from).to_vec())));
    }
}

#[test]
fn a_client_that_may_not_recurse_gets_no_rewritten_answer() {
    let mut world = World::new(policed(&[given(&ACTIONS)]));
    let outside: IpAddr = [192, 0, 2, 1].into();
    assert_eq!(world.hit(&Ask { from: outside, ..ask("nx.example. A") }).rcode(), Rcode::REFUSED);
    assert_eq!(world.hit(&Ask { from: outside, ..ask("drop.example. A") }).rcode(), Rcode::REFUSED);
    let not_desired = Ask { recursion_desired: false, ..ask("nx.example. A") };
    assert_eq!(world.hit(&not_desired).rcode(), Rcode::REFUSED);
}

#[test]
fn denials_are_rewritten_too() {
    let mut world =
        World::new(policed(&[given(&["*.gone.example 60 A 10.0.0.1", "32.1.2.0.192.rpz-ip 60 CNAME ."])]));
    let reply = world.hit(&ask("x.gone.example. A"));
    assert_eq!(reply.answers(), ["x.gone.example. 60 A 10.0.0.1"]);
    world.miss(&ask("other.example. A"));
    world.answered("other.example. A", &Upstream { rcode: Rcode::NXDOMAIN, ..denial(Rcode::NXDOMAIN) });
    assert_eq!(world.later().says(), "NXDOMAIN rd ra");
}
