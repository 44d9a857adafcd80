//! Reads and runs scenarios; `iterate.rs` explains the language.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use resolver::{
    AnsweredBy, Budget, ForwardConfig, ForwardRule, IterateRule, LocalCopy, LookupFailure, LookupOutcome,
    Minimisation, Partition, QueryKey, ResolverRequest, StartServer, Trace, Upstream,
};
use transport::{Encryption, EncryptionFault, Transport};
use wire::{Class, Type};

use crate::internet::{Asked, Host, Internet, Rr, TestCopy, Zone, name};
use crate::shown::{duration, show, wire_form};

/// Runs all scenarios of a file.
pub(crate) fn run(file: &str, text: &str) {
    let mut common: Vec<(usize, &str)> = Vec::new();
    let (mut play, mut failed) = (None::<Play>, 0);
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("scenario ") {
            failed += usize::from(play.take().is_some_and(|play| !play.finish()));
            let mut next = Play::new(format!("{file}: {title}"));
            common.iter().for_each(|(number, line)| next.step(*number, line));
            play = Some(next);
        } else if let Some(play) = &mut play {
            play.step(number + 1, line);
        } else {
            common.push((number + 1, line));
        }
    }
    failed += usize::from(!play.expect("a scenario").finish());
    assert_eq!(failed, 0, "scenarios failed");
}

pub(crate) struct Play {
    title: String,
    at: String,
    pub(crate) config: ForwardConfig,
    configured: bool,
    /// A line has failed; the following ones are skipped.
    failed: bool,
    pub(crate) net: Internet,
    zone: Option<usize>,
    copy: Arc<TestCopy>,
    asked: Instant,
    /// Number of queries before the last `ask`.
    before: usize,
    clients: HashMap<u32, (Budget, Trace, usize)>,
}

impl Play {
    pub(crate) fn new(title: String) -> Self {
        let mut config = ForwardConfig { explore: 0, ..Default::default() };
        config.iterate.minimisation = Minimisation::Relaxed;
        let net = Internet::new(config.clone(), 7);
        let (asked, clients) = (net.now, HashMap::new());
        Play {
            at: title.clone(),
            title,
            config,
            configured: false,
            failed: false,
            net,
            zone: None,
            copy: Arc::default(),
            asked,
            before: 0,
            clients,
        }
    }

    /// Runs a line.
    pub(crate) fn line(&mut self, number: usize, line: &str) {
        self.at = format!("{} (line {number}: {line})", self.title);
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        assert!(
            self.net
                .log
                .iter()
                .all(|asked| !asked.recursion_desired || self.net.offers_recursion(&asked.host)),
            "{}: servers of zones are asked without RD unless they offer recursion",
            self.at
        );
        match verb {
            "server" => {
                let addresses = words[1..].iter().map(|a| a.parse().expect("an address")).collect();
                self.net.hosts.insert(words[0].into(), Host { addresses, ..Host::default() });
            }
            "zone" => self.zone(&words),
            "+" => self.add(&words),
            "-" => {
                let (owner, rtype) = (name(words[0]), Type::from_text(words[1].as_bytes()).expect("a type"));
                let zone = self.zone.expect("a zone comes first");
                self.net.zones[zone].records.retain(|rr| rr.owner != owner || rr.rtype != rtype);
            }
            "unserve" => {
                let apex = name(words[0]);
                let at = self.net.zones.iter().position(|zone| zone.apex == apex).expect("a zone");
                self.host(words[1]).zones.retain(|zone| *zone != at);
            }
            "is" => {
                let host = self.host(words[0]);
                host.ways = words[1..].iter().map(ToString::to_string).collect();
                host.offered |= ["cache", "recursor"].iter().any(|way| host.ways.contains(*way));
            }
            "no-way" => {
                self.net.no_way = [words.contains(&"ipv4"), words.contains(&"ipv6")];
            }
            "hints" | "primed" => {
                let servers = words[1..].iter().map(|word| self.start_server(word)).collect();
                let (domain, prime) = (name(words[0]), verb == "primed");
                self.config.iterate.rules.push(IterateRule { domain, servers, prime, copy: None });
            }
            "copied" => {
                let copy = LocalCopy::new(self.copy.clone());
                self.config.iterate.rules.last_mut().expect("a rule comes first").copy = Some(copy);
                self.copy_is("");
            }
            "copy" => self.copy_is(words[0]),
            "forward" => {
                let address = self.host(words[1]).addresses[0];
                let upstream = Upstream::new(SocketAddr::new(address, 53));
                let rule = ForwardRule::new(name(words[0]), vec![upstream]);
                self.config.rules.push(ForwardRule { recursion_desired: false, ..rule });
            }
            "no-rules" => {
                self.config.iterate.rules.clear();
                self.config.rules.clear();
            }
            "set" => self.set(words[0], words[1]),
            "configure" => self.configure(),
            "ask" => self.ask(&words),
            "at" => {
                let until = self.net.now + duration(words[0].trim_start_matches('+'));
                self.net.run(until, |_| false);
            }
            _ => self.expect(verb, rest, &words),
        }
    }

    /// Checks a line with an expectation.
    fn expect(&mut self, verb: &str, rest: &str, words: &[&str]) {
        match verb {
            "answer" => {
                let (client, wanted) = rest.split_once(' ').expect("a client and an answer");
                let shown = show(&self.outcome(client));
                let shown = shown.strip_prefix("aa ").unwrap_or(&shown);
                assert_eq!(shown, wanted, "{}", self.at);
            }
            "failed" => {
                let outcome = self.outcome(words[0]);
                let LookupOutcome::Failed(failure) = outcome else {
                    panic!("{}: it was answered: {}", self.at, show(&outcome))
                };
                assert_eq!(failure_text(failure), words[1..].join(" "), "{}", self.at);
            }
            "waits" => {
                let client = words[0].parse().expect("a number");
                assert!(!self.net.is_settled(client), "{}: it has its outcome", self.at);
            }
            "took" => assert_eq!(self.net.now - self.asked, duration(words[0]), "{}", self.at),
            "log" => {
                let shown: Vec<String> = self.net.log[self.before..].iter().map(show_asked).collect();
                assert_eq!(shown.join(", "), rest, "{}", self.at);
            }
            "sent" => self.sent(words),
            "bytes" => {
                let client: u32 = words[1].parse().expect("a number");
                let bytes = self.clients[&client].0.bytes();
                assert!(fits(bytes, words[0]), "{}: {bytes} bytes", self.at);
            }
            "count" => {
                let stats = self.net.core.stats();
                let counter = match words[0] {
                    "lookups" => &stats.lookups,
                    "referrals" => &stats.referrals,
                    "copied" => &stats.copied,
                    "address-lookups" => &stats.address_lookups,
                    "overspent" => &stats.overspent,
                    "recursive" => &stats.recursive,
                    "parents-asked" => &stats.parents_asked,
                    "joined" => &stats.joined,
                    "encrypted" => &stats.opportunistic.tls.queries,
                    "encrypted.quic" => &stats.opportunistic.quic.queries,
                    "probes" => &stats.opportunistic.tls.probes,
                    "probes.quic" => &stats.opportunistic.quic.probes,
                    "probes.succeeded" => &stats.opportunistic.tls.successes,
                    "probes.failed" => &stats.opportunistic.tls.failures,
                    "probes.timed-out" => &stats.opportunistic.tls.timeouts,
                    "probes.suppressed" => &stats.opportunistic.suppressed,
                    "probes.in-flight" => &stats.opportunistic.in_flight,
                    "fallbacks" => &stats.opportunistic.tls.fallbacks,
                    "shed.zone" => &stats.shed[4],
                    _ => panic!("{}: no such counter", self.at),
                };
                assert!(fits(counter.get() as usize, words[1]), "{}: it is {}", self.at, counter.get());
            }
            "encryption" => assert_eq!(self.net.encryption(), rest, "{}", self.at),
            "queries" => {
                let client: u32 = words[1].parse().expect("a number");
                let queries = usize::from(self.clients[&client].0.queries());
                assert!(fits(queries, words[0]), "{}: {queries} queries", self.at);
            }
            "ended" => {
                let wanted = query_key(words[0], words[1], false);
                let ended = self.net.outcomes.ended.lock().expect("one thread");
                let of = ended.iter().rev().find(|(query_key, _)| *query_key == wanted);
                let (_, outcome) = of.unwrap_or_else(|| panic!("{}: it has not", self.at));
                let shown = match outcome {
                    LookupOutcome::Answered(answer) => answer.rcode.to_string(),
                    LookupOutcome::Failed(failure) => failure_text(*failure),
                };
                assert_eq!(shown, words[2..].join(" "), "{}", self.at);
            }
            "agent" => {
                let (client, wanted) = rest.split_once(' ').expect("a client and an agent");
                let client = client.parse().expect("a number");
                let settled = self.net.outcomes.settled.lock().expect("one thread");
                let of = settled.iter().find(|(number, _)| *number == client);
                let agent = match of.unwrap_or_else(|| panic!("{}: it still waits", self.at)) {
                    (_, LookupOutcome::Answered(answer)) => answer.agent.clone(),
                    (_, LookupOutcome::Failed(_)) => self.clients[&client].0.take_agent(),
                };
                let shown =
                    agent.map_or("none".into(), |agent| format!("{} for {}", agent.domain, agent.zone));
                assert_eq!(shown, wanted, "{}", self.at);
            }
            "step" => {
                let (client, wanted) = rest.split_once(' ').expect("a client and a step");
                let (_, trace, taken) =
                    self.clients.get_mut(&client.parse().expect("a number")).expect("a client");
                let steps = trace.steps();
                let shown = steps.get(*taken).map(ToString::to_string);
                assert_eq!(shown.as_deref(), Some(wanted), "{}", self.at);
                *taken += 1;
            }
            _ => panic!("{}: no such line", self.at),
        }
    }

    fn host(&mut self, host: &str) -> &mut Host {
        let at = &self.at;
        self.net.hosts.get_mut(host).unwrap_or_else(|| panic!("{at}: no such server"))
    }

    /// Sets the copy of the last rule's zone to the zone as it is now, with a fault; or removes it.
    fn copy_is(&mut self, way: &str) {
        let domain = self.config.iterate.rules.last().expect("a rule comes first").domain;
        let zone = self.net.zones.iter().find(|zone| zone.apex == domain && way != "gone").cloned();
        *self.copy.zone.lock().expect("one thread") = zone;
        *self.copy.way.lock().expect("one thread") = way.into();
    }

    fn start_server(&mut self, word: &str) -> StartServer {
        let (host, known_as) = word.split_once('=').unwrap_or((word, ""));
        let addresses = self.host(host).addresses.iter().map(|&ip| SocketAddr::new(ip, 53)).collect();
        StartServer { name: (!known_as.is_empty()).then(|| name(known_as)), addresses }
    }

    fn zone(&mut self, words: &[&str]) {
        let apex = name(words[0]);
        let known = self.net.zones.iter().position(|zone| zone.apex == apex);
        let at = known.unwrap_or(self.net.zones.len());
        if known.is_none() {
            self.net.zones.push(Zone { apex, records: Vec::new() });
        }
        self.zone = Some(at);
        for host in &words[1..] {
            self.host(host).zones.push(at);
        }
    }

    fn add(&mut self, words: &[&str]) {
        let (times, words) = match words[0].strip_prefix('*') {
            Some(times) => (times.parse().expect("a number"), &words[1..]),
            None => (1, words),
        };
        let zone = self.zone.expect("a zone comes first");
        for n in 1..=times {
            let words: Vec<String> = words.iter().map(|word| word.replace("$N", &n.to_string())).collect();
            let rtype = Type::from_text(words[2].as_bytes()).expect("a type");
            let (owner, ttl) = (name(&words[0]), words[1].parse().expect("seconds"));
            let data = wire_form(rtype, &words[3..].join(" "));
            self.net.zones[zone].records.push(Rr { owner, ttl, rtype, data });
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let number = || value.parse::<usize>().expect("a number");
        let iterate = &mut self.config.iterate;
        match key {
            "minimisation" => {
                iterate.minimisation = match value {
                    "off" => Minimisation::Off,
                    "strict" => Minimisation::Strict,
                    _ => Minimisation::Relaxed,
                };
            }
            "ipv4" => iterate.ipv4 = value == "on",
            "ipv6" => iterate.ipv6 = value == "on",
            "queries" => iterate.budget.queries = number() as u16,
            "queries-per-zone" => iterate.budget.queries_per_zone = number() as u16,
            "bytes" => iterate.budget.bytes = number(),
            "time" => iterate.budget.time = duration(value),
            "aliases" => iterate.budget.aliases = number() as u16,
            "fruitless" => iterate.budget.fruitless = number() as u16,
            "minimised" => iterate.budget.minimised = number() as u16,
            "depth" => iterate.depth = number() as u8,
            "servers" => iterate.servers = number(),
            "addresses" => iterate.addresses = number(),
            "lookups-per-zone" => iterate.lookups_per_zone = number(),
            "lookups-per-dead-zone" => iterate.lookups_per_dead_zone = number(),
            "loopback" => iterate.loopback = value == "on",
            "known-servers" => iterate.known_servers = number(),
            "encrypt" => iterate.opportunistic.encryptions = encryptions(value),
            "probes" => iterate.opportunistic.probes = number(),
            "damping" => iterate.opportunistic.damping = duration(value),
            "persistence" => iterate.opportunistic.persistence = duration(value),
            "tries" => self.config.limits.tries = number() as u8,
            "first-timeout" => self.config.timing.first_rto = duration(value),
            "explore" => self.config.explore = number() as u32,
            _ => panic!("{}: no such setting", self.at),
        }
    }

    fn configure(&mut self) {
        self.configured = true;
        self.net.request(ResolverRequest::Configure(Box::new(self.config.clone())));
    }

    fn ask(&mut self, words: &[&str]) {
        if !self.configured {
            self.configure();
        }
        let client: u32 = words[0].parse().expect("a number");
        let with = words.iter().find_map(|word| word.strip_prefix("with="));
        let with = with.map(|client| self.clients[&client.parse().expect("a number")].0.clone());
        let budget = with.unwrap_or_default();
        let trace = Trace::default();
        self.clients.insert(client, (budget.clone(), trace.clone(), 0));
        (self.asked, self.before) = (self.net.now, self.net.log.len());
        let trace = words.contains(&"trace").then_some(trace);
        let mut query_key = query_key(words[1], words[2], words.contains(&"do"));
        if words.contains(&"chaos") {
            query_key.qclass = Class(3);
        }
        let other_than = words.iter().find_map(|word| word.strip_prefix("not="));
        self.net.other_than = other_than.map(|who| match who {
            "copy" => AnsweredBy::Copy,
            ip => AnsweredBy::Server(SocketAddr::new(ip.parse().expect("an address"), 53)),
        });
        self.net.ask(client, query_key, Some(budget), trace);
        if !words.contains(&"later") {
            self.net.run(self.asked + Duration::from_secs(30), |net| net.is_settled(client));
        }
    }

    fn sent(&mut self, words: &[&str]) {
        let log = &self.net.log[self.before..];
        let (count, wanted) = match words {
            [wanted] => (log.len(), wanted),
            [host, wanted] => (log.iter().filter(|asked| asked.host == *host).count(), wanted),
            _ => panic!("{}: how many?", self.at),
        };
        let shown: Vec<String> = log.iter().map(show_asked).collect();
        assert!(fits(count, wanted), "{}: {count} were sent: {}", self.at, shown.join(", "));
    }

    fn outcome(&mut self, client: &str) -> LookupOutcome {
        let client: u32 = client.parse().expect("a number");
        let mut settled = self.net.outcomes.settled.lock().expect("one thread");
        let at = settled.iter().position(|(number, _)| *number == client);
        settled.remove(at.unwrap_or_else(|| panic!("{}: client {client} still waits", self.at))).1
    }

    /// Runs a line, unless one before has failed.
    fn step(&mut self, number: usize, line: &str) {
        self.failed = self.failed || catch_unwind(AssertUnwindSafe(|| self.line(number, line))).is_err();
    }

    /// Whether all lines passed.
    fn finish(mut self) -> bool {
        !self.failed && catch_unwind(AssertUnwindSafe(|| self.end())).is_ok()
    }

    /// Checks that every outcome was expected, no budget was exceeded, and nothing is left behind.
    fn end(&mut self) {
        let settled = self.net.outcomes.settled.lock().expect("one thread").len();
        assert_eq!(settled, 0, "{}: outcomes that were not expected", self.title);
        let limits = &self.config.iterate.budget;
        for (budget, ..) in self.clients.values() {
            assert!(budget.queries() <= limits.queries, "{}: {} queries", self.title, budget.queries());
        }
        self.net.finish();
    }
}

fn fits(n: usize, wanted: &str) -> bool {
    match wanted.strip_prefix("<=") {
        Some(most) => n <= most.parse().expect("a number"),
        None => n == wanted.parse().expect("a number"),
    }
}

fn failure_text(failure: LookupFailure) -> String {
    match failure {
        LookupFailure::BadReply(fault) => format!("BadReply {fault:?}"),
        LookupFailure::Shed(reason) => format!("Shed {reason:?}"),
        LookupFailure::Overspent(what) => format!("Overspent {what:?}"),
        other => format!("{other:?}"),
    }
}

fn show_asked(asked: &Asked) -> String {
    let mut out = format!("{} {} {}", asked.name, asked.qtype, asked.host);
    match asked.transport {
        Transport::Tls => out += "/dot",
        Transport::Quic => out += "/doq",
        transport if transport.is_stream() => out += "/tcp",
        _ => {}
    }
    if !asked.edns {
        out += "/plain";
    }
    if asked.dnssec_ok {
        out += "/do";
    }
    if asked.recursion_desired {
        out += "/rd";
    }
    if asked.to.is_ipv6() {
        out += "/v6";
    }
    out
}

/// The encryptions of `dot,doq`; none of `off`.
fn encryptions(text: &str) -> Vec<Encryption> {
    let made = |word: &str| match word {
        "dot" => Encryption::new("any".into(), "any".into(), |_| Err(EncryptionFault::Protocol)),
        "doq" => Encryption::streamed(Transport::Quic, "any".into(), "any".into(), |_, _| {
            Err(EncryptionFault::Protocol)
        }),
        _ => panic!("no such transport: {word}"),
    };
    text.split(',').filter(|word| *word != "off").map(made).collect()
}

/// A query key.
fn query_key(qname: &str, qtype: &str, dnssec_ok: bool) -> QueryKey {
    QueryKey {
        name: name(qname).as_name().to_lower(),
        qtype: Type::from_text(qtype.as_bytes()).expect("a type"),
        qclass: Class::IN,
        dnssec_ok,
        checking_disabled: false,
        partition: Partition::SHARED,
    }
}
