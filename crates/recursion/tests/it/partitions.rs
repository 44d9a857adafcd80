//! Clients with rules of their own, on virtual time and with the real resolver: what they share with others,
//! and what they do not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use query_path::GroupPart;
use recursion::{
    AccessAction, AccessRule, Domain, LookupCompletion, PartitionedGroup, PartitionsConfig, PolicyConfig,
    SpecialOff, Validations,
};
use resolver::{
    ChaCha, ForwardConfig, ForwardRule, Partition, QueryKey, Resolver, ResolverRequest, Upstream as Server,
};
use testkit::name;
use testkit::tree::NOW;
use transport::{Action, Core, Event, Link};
use wire::message::Parser;
use wire::{Class, Rcode, Type, UnixTime};

use crate::support::{Ask, Reply, Upstream, World, ask, data};
use crate::validation::TREE;

/// A client in no group.
const GUEST: &str = "127.0.0.1";
/// A client of the group `staff`.
const STAFF: &str = "127.0.0.2";
/// A client of the group `lab`.
const LAB: &str = "127.0.0.3";

/// A rule: the partition, the domain, and the server.
type Rule = (u32, &'static str, u8);

/// All names are asked at server 1, but those of `corp.example.` at server 2 for staff.
const COMPANY: &[Rule] = &[(0, ".", 1), (1, "corp.example.", 2)];

/// What a server says.
#[derive(Clone, Debug, Default)]
struct Records {
    /// The records by name and type, as text.
    lines: Vec<String>,
    /// It answers from the signed zones of the tree; `false` in the second place: without keys.
    tree: Option<bool>,
}

impl Records {
    fn of(lines: &[&str]) -> Records {
        Records { lines: lines.iter().map(|line| (*line).to_owned()).collect(), tree: None }
    }

    /// Whether a name without records does not exist, or names below it do.
    fn denial(&self, at: &str) -> Rcode {
        let below = format!(".{at}");
        let is_below = |line: &String| line.split(' ').next().is_some_and(|owner| owner.ends_with(&below));
        if self.lines.iter().any(is_below) { Rcode::NOERROR } else { Rcode::NXDOMAIN }
    }

    /// Answers a query as a recursive server does, with the whole chain.
    fn reply(&self, question: &QueryKey) -> Vec<u8> {
        if let Some(has_keys) = self.tree {
            let with_keys = TREE.reply(question.name.into(), question.qtype).message();
            let no_keys = || data(&[]).message(question);
            return if has_keys || question.qtype != Type::DNSKEY { with_keys } else { no_keys() };
        }
        let (mut at, mut answers) = (question.name.to_string(), Vec::new());
        let rcode = loop {
            let of_name: Vec<&String> =
                self.lines.iter().filter(|line| line.starts_with(&format!("{at} "))).collect();
            let of_type = |rtype: &str| {
                let word = format!(" {rtype} ");
                of_name.iter().filter(move |line| line.contains(&word)).map(|line| line.as_str())
            };
            answers.extend(of_type(&question.qtype.to_string()));
            let alias = of_type("CNAME").next().filter(|_| question.qtype != Type::CNAME);
            match alias {
                Some(alias) => {
                    answers.push(alias);
                    at = alias.rsplit(' ').next().expect("a target").to_owned();
                }
                None if of_name.is_empty() => break self.denial(&at),
                None => break Rcode::NOERROR,
            }
        };
        let zone = if at.ends_with("corp.example.") { "corp.example." } else { "." };
        let soa = format!("{zone} 900 SOA ns.{zone} admin.{zone} 1 3600 600 86400 60").replace("..", ".");
        let is_negative =
            answers.last().is_none_or(|line| line.contains(" CNAME ") && question.qtype != Type::CNAME);
        let authorities = if is_negative { vec![soa.as_str()] } else { Vec::new() };
        Upstream { rcode, authentic: false, answers: &answers, authorities: &authorities }.message(question)
    }
}

/// Recursive service, its resolver, and the servers.
struct Partitioned {
    world: World,
    resolver: Resolver<LookupCompletion, ChaCha>,
    validations: Validations,
    servers: BTreeMap<u8, Records>,
    /// Servers that do not answer.
    silent: BTreeSet<u8>,
    links: BTreeMap<Link, u8>,
    /// Queries without a reply so far.
    held: Vec<(Link, u8, Vec<u8>)>,
    /// The queries since the last look, such as `2: www.example. A`.
    queries: Vec<String>,
}

fn group(name: &str, from: &str, partition: u32) -> PartitionedGroup {
    let from = vec![format!("{from}/32").parse().expect("a network")];
    let clients = AccessRule { action: AccessAction::Allow, from, local: None, transports: None };
    let keys = Vec::new();
    let rule = GroupPart { clients, keys, ids: Vec::new() }.into();
    PartitionedGroup { name: name.into(), rule, partition: Partition::numbered(partition) }
}

fn policy(policy: &mut PolicyConfig, rules: &[Rule]) {
    let domain = |(partition, domain, _): &Rule| Domain {
        name: name(domain),
        partition: Partition::numbered(*partition),
        trust_ad: false,
        validate: false,
    };
    policy.domains = rules.iter().map(domain).collect();
    let has = |partition| if rules.iter().any(|(of, ..)| *of == partition) { partition } else { 0 };
    let groups = vec![group("staff", STAFF, has(1)), group("lab", LAB, has(2))];
    policy.partitions = PartitionsConfig { groups, others: Partition::numbered(has(3)), trusted: Vec::new() };
    policy.stale_after = Some(Duration::from_millis(1800));
}

fn forward(rules: &[Rule]) -> ForwardConfig {
    let rule = |(partition, domain, server): &Rule| ForwardRule {
        partition: Partition::numbered(*partition),
        ..ForwardRule::new(name(domain), vec![Server::new(([192, 0, 2, *server], 53).into())])
    };
    let rules = rules.iter().map(rule).collect();
    ForwardConfig { rules, mixed_case: false, cookies: false, ..Default::default() }
}

impl Partitioned {
    fn new(rules: &[Rule], servers: &[(u8, &[&str])]) -> Partitioned {
        Partitioned::with(rules, servers, |_| {})
    }

    fn with(
        rules: &[Rule],
        servers: &[(u8, &[&str])],
        change: impl FnOnce(&mut PolicyConfig),
    ) -> Partitioned {
        let world = World::new(|config| {
            policy(config, rules);
            change(config);
        });
        let resolver = Resolver::new(forward(rules), world.completion(), ChaCha::new([1; 32]));
        let validations = world.service.validations();
        let servers = servers.iter().map(|(at, lines)| (*at, Records::of(lines))).collect();
        Partitioned {
            world,
            resolver,
            validations,
            servers,
            silent: BTreeSet::new(),
            links: BTreeMap::new(),
            held: Vec::new(),
            queries: Vec::new(),
        }
    }

    /// Puts other rules into force, as a reload does.
    fn reload(&mut self, rules: &[Rule]) {
        let mut actions = Vec::new();
        let config = Box::new(forward(rules));
        self.resolver.request(ResolverRequest::Configure(config), self.world.now(), &mut actions);
        self.act(actions);
        self.world.change_policy(|config| policy(config, rules));
        self.settle();
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { link, to: SocketAddr::V4(to), .. } => {
                    self.links.insert(link, to.ip().octets()[3]);
                }
                Action::Open { .. } => panic!("all servers are at IPv4 addresses"),
                Action::Send { link, message } => {
                    let server = self.links[&link];
                    let QueryKey { name, qtype, .. } = question(&message);
                    self.queries.push(format!("{server}: {name} {qtype}"));
                    self.held.push((link, server, message));
                }
                // No link here has streams.
                Action::Cancel { .. } | Action::Resume { .. } => {}
                Action::Close { link } => self.held.retain(|(held, ..)| *held != link),
            }
        }
    }

    /// Does all work that is possible now.
    fn settle(&mut self) {
        loop {
            let now = self.world.now();
            self.validations.work(now, UnixTime::from_secs(NOW.into()));
            let noted = std::mem::take(&mut *self.world.noted.0.lock().expect("one thread"));
            let mut actions = Vec::new();
            let has_more = !noted.is_empty();
            for request in noted {
                self.resolver.request(ResolverRequest::Lookup(request), now, &mut actions);
            }
            self.act(actions);
            let speaks = |(_, server, _): &(Link, u8, Vec<u8>)| !self.silent.contains(server);
            match self.held.iter().position(speaks) {
                Some(at) => {
                    let (link, server, query) = self.held.remove(at);
                    let mut message = self.servers[&server].reply(&question(&query));
                    message[..2].copy_from_slice(&query[..2]);
                    let mut actions = Vec::new();
                    self.resolver.event(Event::Message { link, message: &message }, now, &mut actions);
                    self.act(actions);
                }
                None if has_more => {}
                None => return,
            }
        }
    }

    /// Advances the time, and returns the replies on the way.
    fn pass(&mut self, time: Duration) -> Vec<Reply> {
        let (end, mut replies) = (self.world.now() + time, Vec::new());
        loop {
            self.settle();
            replies.extend(self.world.late());
            let next = [self.resolver.deadline(), self.validations.deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= end) else { break };
            self.world.set_time(next);
            let mut actions = Vec::new();
            self.resolver.timeout(next, &mut actions);
            self.act(actions);
        }
        self.world.set_time(end);
        replies
    }

    /// Sends a query of a client and returns the reply, which may take the longest time.
    fn reply(&mut self, client: &str, question: &str) -> Reply {
        self.reply_to(&ask(question).from(client))
    }

    fn reply_to(&mut self, ask: &Ask) -> Reply {
        if let Some(reply) = self.world.ask(ask) {
            return reply;
        }
        let mut replies = self.pass(Duration::ZERO);
        for _ in 0..100 {
            if replies.is_empty() {
                replies = self.pass(Duration::from_millis(100));
            }
        }
        assert_eq!(replies.len(), 1, "{ask:?}: {replies:?}");
        replies.remove(0)
    }

    /// The response code, and the data at the end of the answer.
    fn says(&mut self, client: &str, question: &str) -> String {
        let reply = self.reply(client, question);
        let data = reply.answers().last().map(|line| line.rsplit(' ').next().expect("data").to_owned());
        format!("{} {}", reply.rcode(), data.unwrap_or_default()).trim_end().to_owned()
    }

    /// Returns the queries to servers since the last look.
    fn asked(&mut self) -> Vec<String> {
        std::mem::take(&mut self.queries)
    }
}

fn question(query: &[u8]) -> QueryKey {
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    QueryKey {
        name: question.name.to_lower(),
        qtype: question.qtype,
        qclass: Class::IN,
        dnssec_ok: false,
        checking_disabled: false,
        partition: Partition::SHARED,
    }
}

const OUTSIDE: &[&str] = &[
    "www.example. 60 A 192.0.2.80",
    "host.corp.example. 60 A 192.0.2.81",
    "public.corp.example. 60 A 192.0.2.82",
    "into.example. 60 CNAME host.corp.example.",
    "nothing.example. 60 CNAME none.corp.example.",
];
const INSIDE: &[&str] = &[
    "host.corp.example. 60 A 10.0.0.81",
    "none.corp.example. 60 A 10.0.0.82",
    "public.corp.example. 60 TXT inside",
    "out.corp.example. 60 CNAME www.example.",
    "www.example. 60 A 10.0.0.80",
];

fn company() -> Partitioned {
    Partitioned::new(COMPANY, &[(1, OUTSIDE), (2, INSIDE)])
}

#[test]
fn names_of_a_groups_rule_have_answers_of_their_own_and_all_others_are_shared() {
    let mut company = company();
    for round in 0..3 {
        assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 10.0.0.81");
        assert_eq!(company.says(GUEST, "host.corp.example. A"), "NOERROR 192.0.2.81");
        assert_eq!(company.says(GUEST, "none.corp.example. A"), "NXDOMAIN");
        assert_eq!(company.says(STAFF, "none.corp.example. A"), "NOERROR 10.0.0.82");
        assert_eq!(company.says(STAFF, "public.corp.example. A"), "NOERROR", "there is TXT only");
        assert_eq!(company.says(GUEST, "public.corp.example. A"), "NOERROR 192.0.2.82");
        assert_eq!(company.says(STAFF, "gone.corp.example. A"), "NXDOMAIN");
        assert_eq!(company.says(GUEST, "www.example. A"), "NOERROR 192.0.2.80");
        assert_eq!(company.says(STAFF, "www.example. A"), "NOERROR 192.0.2.80");
        assert_eq!(company.says(LAB, "host.corp.example. A"), "NOERROR 192.0.2.81");
        let asked = company.asked();
        assert_eq!(asked.len(), if round == 0 { 8 } else { 0 }, "{asked:?}");
        let of_names = asked.iter().filter(|query| query.ends_with("www.example. A"));
        assert_eq!(of_names.count(), usize::from(round == 0), "all clients share it");
    }
}

#[test]
fn a_chain_is_looked_up_name_by_name_in_the_clients_partition() {
    let mut company = company();
    for round in 0..2 {
        assert_eq!(company.says(STAFF, "into.example. A"), "NOERROR 10.0.0.81");
        assert_eq!(company.says(GUEST, "into.example. A"), "NOERROR 192.0.2.81");
        assert_eq!(company.says(GUEST, "nothing.example. A"), "NXDOMAIN none.corp.example.");
        assert_eq!(company.says(STAFF, "nothing.example. A"), "NOERROR 10.0.0.82");
        assert_eq!(
            company.says(STAFF, "out.corp.example. A"),
            "NOERROR 192.0.2.80",
            "that name is not theirs"
        );
        assert_eq!(company.says(GUEST, "out.corp.example. A"), "NXDOMAIN");
        let asked = company.asked();
        assert_eq!(asked.is_empty(), round > 0, "the joined answers are cached: {asked:?}");
    }
    company.world.after(61);
    assert_eq!(company.says(GUEST, "into.example. A"), "NOERROR 192.0.2.81");
    assert_eq!(company.says(STAFF, "into.example. A"), "NOERROR 10.0.0.81");
}

#[test]
fn clients_of_two_partitions_share_no_lookup() {
    let mut company = company();
    company.silent.extend([1, 2]);
    for (id, client) in [(1, STAFF), (2, GUEST), (3, STAFF), (4, GUEST), (5, LAB)] {
        company.world.miss(&Ask { id, ..ask("host.corp.example. A").from(client) });
    }
    company.settle();
    assert_eq!(company.asked(), ["2: host.corp.example. A", "1: host.corp.example. A"]);
    company.silent.clear();
    let mut replies: Vec<String> = company
        .pass(Duration::ZERO)
        .iter()
        .map(|reply| format!("{} {}", reply.id(), reply.answers()[0].rsplit(' ').next().expect("data")))
        .collect();
    replies.sort();
    assert_eq!(replies, ["1 10.0.0.81", "2 192.0.2.81", "3 10.0.0.81", "4 192.0.2.81", "5 192.0.2.81"]);
}

#[test]
fn stale_answers_and_failures_are_those_of_the_partition() {
    let mut company = company();
    company.says(STAFF, "host.corp.example. A");
    company.says(GUEST, "host.corp.example. A");
    company.says(STAFF, "into.example. A");
    company.says(GUEST, "into.example. A");
    company.world.after(100);
    company.silent.extend([1, 2]);
    for _ in 0..2 {
        assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 10.0.0.81");
        assert_eq!(company.says(GUEST, "host.corp.example. A"), "NOERROR 192.0.2.81");
        assert_eq!(company.says(GUEST, "into.example. A"), "NOERROR 192.0.2.81");
        assert_eq!(company.says(STAFF, "into.example. A"), "NOERROR 10.0.0.81");
    }
    company.silent.remove(&1);
    assert_eq!(company.says(STAFF, "gone.corp.example. A"), "SERVFAIL");
    assert_eq!(company.says(GUEST, "gone.corp.example. A"), "NXDOMAIN", "the failure is of server 2");
    company.asked();
    assert_eq!(company.says(STAFF, "gone.corp.example. A"), "SERVFAIL");
    assert_eq!(company.asked(), [""; 0], "it is cached");
}

#[test]
fn a_popular_answer_is_refreshed_at_the_servers_of_its_partition() {
    let mut company = company();
    company.says(STAFF, "host.corp.example. A");
    company.asked();
    company.world.after(58);
    for _ in 0..3 {
        assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 10.0.0.81");
        company.settle();
    }
    assert_eq!(company.asked(), ["2: host.corp.example. A"]);
}

#[test]
fn a_reload_takes_the_rule_away_and_gives_another_one() {
    let mut company = company();
    company.says(STAFF, "host.corp.example. A");
    company.says(STAFF, "into.example. A");
    company.says(GUEST, "into.example. A");
    company.reload(&[(0, ".", 1)]);
    assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 192.0.2.81");
    assert_eq!(company.says(STAFF, "into.example. A"), "NOERROR 192.0.2.81");
    // An answer for all clients, which leads to a name of the next rule.
    company.servers.insert(3, Records::of(&["host.corp.example. 60 A 10.3.0.1"]));
    company.reload(&[(0, ".", 1), (2, "corp.example.", 3)]);
    assert_eq!(company.says(LAB, "into.example. A"), "NOERROR 10.3.0.1");
    assert_eq!(company.says(LAB, "host.corp.example. A"), "NOERROR 10.3.0.1");
    assert_eq!(company.says(STAFF, "into.example. A"), "NOERROR 192.0.2.81");
    assert_eq!(company.says(GUEST, "into.example. A"), "NOERROR 192.0.2.81");
}

#[test]
fn a_query_in_flight_ends_by_the_rule_that_it_began_by() {
    let mut company = company();
    company.silent.insert(2);
    company.world.miss(&ask("host.corp.example. A").from(STAFF));
    company.settle();
    company.reload(&[(0, ".", 1)]);
    company.silent.clear();
    let replies = company.pass(Duration::ZERO);
    assert_eq!(replies.len(), 1);
    assert!(replies[0].answers()[0].ends_with("10.0.0.81"), "{replies:?}");
    assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 192.0.2.81", "it is not cached");
}

#[test]
fn a_query_that_is_faster_than_the_resolvers_settings_is_repeated() {
    let mut company = Partitioned::new(&[(0, ".", 1)], &[(1, OUTSIDE), (2, INSIDE)]);
    company.world.change_policy(|config| policy(config, COMPANY));
    company.world.miss(&ask("host.corp.example. A").from(STAFF));
    let request = company.world.noted.0.lock().expect("one thread").remove(0);
    let mut actions = Vec::new();
    company.resolver.request(ResolverRequest::Lookup(request), company.world.now(), &mut actions);
    let config = Box::new(forward(COMPANY));
    company.resolver.request(ResolverRequest::Configure(config), company.world.now(), &mut actions);
    company.act(actions);
    let replies = company.pass(Duration::ZERO);
    assert!(replies[0].answers()[0].ends_with("10.0.0.81"), "{replies:?}");
}

#[test]
fn a_rule_for_a_special_use_name_is_for_the_group_alone() {
    let reverse = ["1.0.0.10.in-addr.arpa. 60 PTR host.corp.example."];
    let rules: &[Rule] = &[(0, ".", 1), (1, "10.in-addr.arpa.", 2)];
    let mut company = Partitioned::new(rules, &[(1, OUTSIDE), (2, &reverse)]);
    for _ in 0..2 {
        assert_eq!(company.says(STAFF, "1.0.0.10.in-addr.arpa. PTR"), "NOERROR host.corp.example.");
        let reply = company.reply(GUEST, "1.0.0.10.in-addr.arpa. PTR");
        assert_eq!(reply.says(), "NXDOMAIN aa rd ra", "a local answer");
    }
    assert_eq!(company.asked(), ["2: 1.0.0.10.in-addr.arpa. PTR"]);
    company.reload(rules);
    assert_eq!(company.says(STAFF, "1.0.0.10.in-addr.arpa. PTR"), "NOERROR host.corp.example.");
    assert_eq!(company.asked(), [""; 0], "the answer may stay");
}

#[test]
fn a_rule_for_the_root_is_for_all_names_without_a_longer_one() {
    let rules: &[Rule] = &[(0, ".", 1), (0, "corp.example.", 2), (3, ".", 3)];
    let own = ["www.example. 60 A 198.51.100.1", "host.corp.example. 60 A 198.51.100.2"];
    let mut company = Partitioned::new(rules, &[(1, OUTSIDE), (2, INSIDE), (3, &own)]);
    assert_eq!(
        company.says(GUEST, "www.example. A"),
        "NOERROR 198.51.100.1",
        "a rule of clients in no group"
    );
    assert_eq!(company.says(STAFF, "www.example. A"), "NOERROR 192.0.2.80");
    assert_eq!(company.says(GUEST, "host.corp.example. A"), "NOERROR 10.0.0.81");
    assert_eq!(company.says(STAFF, "host.corp.example. A"), "NOERROR 10.0.0.81");
    assert_eq!(company.asked().len(), 3, "the longer rule is for all");
}

#[test]
fn what_is_loaded_from_a_file_is_for_the_clients_that_it_was_for() {
    let mut company = company();
    company.says(STAFF, "host.corp.example. A");
    company.says(GUEST, "into.example. A");
    let (mut saved, wall) = (Vec::new(), UnixTime::from_secs(NOW.into()));
    let service = company.world.service.clone();
    service.cache().save(&mut saved, service.now(company.world.now()), wall).expect("memory");
    for (rules, from_cache) in
        [(COMPANY, true), (&[(0, ".", 1), (1, "corp.example.", 3), (4, ".", 3)], false)]
    {
        // The second rules have another partition for staff.
        let rules: Vec<Rule> =
            rules.iter().map(|rule| if from_cache { *rule } else { (rule.0 * 2, rule.1, rule.2) }).collect();
        let other = ["host.corp.example. 60 A 10.3.0.1"];
        let mut next = Partitioned::with(&rules, &[(1, OUTSIDE), (2, INSIDE), (3, &other)], |config| {
            if !from_cache {
                config.partitions.groups[0].partition = Partition::numbered(2);
            }
        });
        let (service, now) = (next.world.service.clone(), next.world.now());
        service.cache().load(&mut saved.as_slice(), service.now(now), wall).expect("what was saved");
        service.drop_unfit();
        let own = next.says(STAFF, "host.corp.example. A");
        assert_eq!(own, if from_cache { "NOERROR 10.0.0.81" } else { "NOERROR 10.3.0.1" });
        assert_eq!(next.asked().is_empty(), from_cache);
        assert_eq!(next.says(GUEST, "into.example. A"), "NOERROR 192.0.2.81");
        assert_eq!(next.asked(), [""; 0], "the rules of clients in no group are the same");
    }
}

#[test]
fn the_keys_of_zones_are_those_of_the_partition() {
    for first in [STAFF, GUEST] {
        let rules: &[Rule] = &[(0, ".", 1), (1, "nsec.test.", 2)];
        let mut company = Partitioned::with(rules, &[], |config| {
            config.domains.iter_mut().for_each(|domain| domain.validate = true);
            config.local.special_off = SpecialOff::All;
            config.validation.anchors = TREE.anchors();
            config.aggressive_nsec = true;
        });
        company.servers.insert(1, Records { tree: Some(true), ..Records::default() });
        // The zone's keys are missing there.
        company.servers.insert(2, Records { tree: Some(false), ..Records::default() });
        let second = if first == STAFF { GUEST } else { STAFF };
        for client in [first, second, first, second] {
            let says = company.reply(client, "www.nsec.test. A do").says();
            let wanted = if client == STAFF { "SERVFAIL" } else { "NOERROR rd ra ad" };
            assert!(says.starts_with(wanted), "{client}, after {first}: {says}");
        }
        let says = company.reply(STAFF, "www.hash.test. A do").says();
        assert_eq!(says, "NOERROR rd ra ad", "other zones have the keys of all");
        assert!(company.reply(GUEST, "zzz.nsec.test. A do").says().starts_with("NXDOMAIN rd ra ad"));
        assert!(
            company.reply(STAFF, "zzy.nsec.test. A do").says().starts_with("SERVFAIL"),
            "no proof of others"
        );
    }
}

const NAMES: [&str; 9] = [
    "a.example.",
    "b.example.",
    "c.test.",
    "a.corp.example.",
    "b.corp.example.",
    "c.corp.example.",
    "a.lab.corp.example.",
    "b.lab.corp.example.",
    "corp.example.",
];

/// What a server has for a name.
#[derive(Clone, Debug)]
enum Content {
    Nothing,
    Address,
    Text,
    Alias(usize),
}

fn server() -> impl Strategy<Value = Vec<Content>> {
    let content = prop_oneof![
        2 => Just(Content::Nothing),
        3 => Just(Content::Address),
        1 => Just(Content::Text),
        4 => (1..NAMES.len()).prop_map(Content::Alias),
    ];
    prop::collection::vec(content, NAMES.len())
}

/// The records of a server. Aliases lead to later names, so that there is no loop, whatever servers are
/// asked.
fn records(server: usize, contents: &[Content]) -> Records {
    let line = |(at, content): (usize, &Content)| {
        let name = NAMES[at];
        match content {
            Content::Nothing => None,
            Content::Address => Some(format!("{name} 60 A 192.0.{server}.{at}")),
            Content::Text => Some(format!("{name} 60 TXT {server}-{at}")),
            Content::Alias(by) => NAMES.get(at + by).map(|target| format!("{name} 60 CNAME {target}")),
        }
    };
    Records { lines: contents.iter().enumerate().filter_map(line).collect(), tree: None }
}

/// The rules of four configurations; the partitions are 1 for staff, 2 for lab, 3 for clients in no group. No
/// rule for all is for names for which a group has one, too: where the chain to such a name is cut for the
/// group's sake, that rule counts, and not what the servers of the query name say.
const RULES: [&[Rule]; 4] = [
    &[(0, ".", 1), (1, "corp.example.", 2), (2, "lab.corp.example.", 3), (2, "corp.example.", 2)],
    &[(0, ".", 1), (0, "lab.corp.example.", 3), (1, ".", 2), (2, "corp.example.", 3)],
    &[(0, ".", 1), (3, "corp.example.", 2), (2, "b.example.", 3)],
    &[(0, ".", 1), (0, "c.test.", 4), (1, "corp.example.", 2), (1, "test.", 4)],
];

/// The rules of one client's partition, on a server where all clients have them.
fn alone(rules: &[Rule], partition: u32) -> Vec<Rule> {
    let of = |rule: &&Rule| rule.0 == 0 || rule.0 == partition;
    rules.iter().filter(of).map(|rule| if rule.0 == 0 { *rule } else { (3, rule.1, rule.2) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Clients of several groups get from one server what each would get from a server of its own.
    #[test]
    fn each_client_gets_what_a_server_with_its_rules_alone_gives(
        contents in prop::collection::vec(server(), 4),
        number in 0..RULES.len(),
        steps in prop::collection::vec((0..3usize, 0..NAMES.len(), 0..3usize, 0..5u64), 1..40),
    ) {
        let rules = RULES[number];
        let servers: BTreeMap<u8, Records> =
            contents.iter().enumerate().map(|(at, contents)| (at as u8 + 1, records(at + 1, contents))).collect();
        let mut together = Partitioned::new(rules, &[]);
        together.servers = servers.clone();
        let mut apart: Vec<Partitioned> = [3, 1, 2]
            .into_iter()
            .map(|partition| {
                let mut own = Partitioned::new(&alone(rules, partition), &[]);
                own.servers = servers.clone();
                own
            })
            .collect();
        for (client, asked, qtype, wait) in steps {
            let question = format!("{} {}", NAMES[asked], ["A", "TXT", "CNAME"][qtype]);
            let reply = |of: &mut Partitioned, from: &str| {
                of.world.after(wait * 15);
                let reply = of.reply(from, &question);
                // Who has asked before decides how old an answer is.
                let answers: Vec<String> = reply.0.sections[0]
                    .iter()
                    .map(|line| format!("{} {:?}", line.owner, (line.rtype, &line.rdata)))
                    .collect();
                (reply.rcode(), answers)
            };
            let wanted = reply(&mut apart[client], GUEST);
            let found = reply(&mut together, [GUEST, STAFF, LAB][client]);
            prop_assert_eq!(found, wanted, "{} of {}", question, [GUEST, STAFF, LAB][client]);
        }
    }
}
