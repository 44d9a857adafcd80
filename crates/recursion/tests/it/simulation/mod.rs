//! The whole resolver on virtual time: clients, cache, validation and lookups, in an Internet of random
//! zones. Messages are lost, duplicated, delayed and reordered, off-path attackers forge replies, servers
//! lie, fail and come back, and the resolver restarts. Everything follows from a seed; each step asserts
//! these invariants:
//!
//! - each client gets one answer, in time, or none if the resolver stopped meanwhile;
//! - no query costs other servers more than its budget;
//! - AD is set only where a chain of trust leads to true data, and secure data is never anything else;
//! - data that no liar can influence is true, also in the cache: nothing out of bailiwick gets there;
//! - in the end nothing is left: no lookup, link or timer.
//!
//! `SIMULATION_SEED=N cargo test -p recursion --test it simulation -- --nocapture` repeats seed N and shows
//! each step; `SIMULATION_SEEDS=FROM..TO` runs others than the few of an ordinary test.

mod net;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use cache::Now;
use recursion::{Domain, FailureCause, LookupCompletion, PolicyConfig, SpecialOff, Validations};
use resolver::{
    Budget, BudgetLimits, ChaCha, ForwardConfig, IterateConfig, IterateRule, Partition, QueryKey, Resolver,
    ResolverRequest, StartServer,
};
use testkit::decode::decode;
use testkit::tree::NOW;
use transport::{Core, Event};
use wire::message::Parser;
use wire::{NameBuf, Rcode, Type, UnixTime};

use crate::support::{Ask, Reply, World, ask};
use net::{Coming, Net, Weather};
use zones::{Dice, HOSTS, Zones, address, is_evil, records};

/// Seeds of an ordinary run.
const SEEDS: u64 = 100;
/// Longest wait of a client: a query's time budget, whatever it is joined to.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps between two checks of the cache.
const LOOK: u64 = 16;

/// A client's query.
struct Client {
    ask: Ask,
    since: Instant,
}

/// Counts over one seed.
#[derive(Default)]
struct Sum {
    asked: u64,
    secure: u64,
    plain: u64,
    failed: u64,
    lost: u64,
    queries: u64,
    restarts: u64,
}

struct Simulation {
    dice: Dice,
    zones: Zones,
    world: World,
    validations: Validations,
    resolver: Resolver<LookupCompletion, ChaCha>,
    net: Net,
    start: Instant,
    now: Instant,
    /// The waiting clients.
    clients: BTreeMap<u16, Client>,
    budgets: Vec<Budget>,
    /// Nothing goes wrong, so every query must be answered.
    calm: bool,
    sum: Sum,
    steps: u64,
    shown: bool,
}

fn validating(policy: &mut PolicyConfig, zones: &Zones) {
    policy.domains =
        vec![Domain { name: NameBuf::ROOT, partition: Partition::SHARED, trust_ad: false, validate: true }];
    policy.local.special_off = SpecialOff::All;
    policy.validation.anchors = zones.anchors.clone();
}

fn resolver(completion: LookupCompletion, dice: &mut Dice) -> Resolver<LookupCompletion, ChaCha> {
    let servers = vec![StartServer { name: None, addresses: vec![(address(0), 53).into()] }];
    let rule = IterateRule { domain: NameBuf::ROOT, servers, prime: false, copy: None };
    let iterate = IterateConfig { rules: vec![rule], ..Default::default() };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&dice.next().to_be_bytes());
    Resolver::new(ForwardConfig { iterate, ..Default::default() }, completion, ChaCha::new(seed))
}

impl Simulation {
    fn new(seed: u64, shown: bool) -> Simulation {
        let mut dice = Dice::new(seed);
        let calm = dice.percent(15);
        let mut weather = Weather::default();
        let mut liars = BTreeSet::new();
        if !calm {
            let worst = [0, 5, 30];
            weather = Weather {
                lost: *dice.pick(&worst),
                doubled: *dice.pick(&worst),
                late: *dice.pick(&worst),
                forged: *dice.pick(&worst),
                damaged: *dice.pick(&worst),
            };
            liars = (1..HOSTS).filter(|_| dice.percent(20)).collect();
        }
        let zones = Zones::grow(&mut dice, &liars);
        let mut world = World::new(|policy| validating(policy, &zones));
        let validations = world.service.validations();
        let resolver = resolver(world.completion(), &mut dice);
        let start = world.now();
        world.set_time(start);
        if shown {
            let report =
                |query_key: &QueryKey, why: FailureCause<'_>| println!("{} fails: {why}", query_key.name);
            world.service.report_failures(Box::new(report));
        }
        Simulation {
            net: Net::new(weather, liars),
            dice,
            zones,
            world,
            validations,
            resolver,
            start,
            now: start,
            clients: BTreeMap::new(),
            budgets: Vec::new(),
            calm,
            sum: Sum::default(),
            steps: 0,
            shown,
        }
    }

    fn show(&self, what: impl FnOnce() -> String) {
        if self.shown {
            println!("{:>12} µs: {}", (self.now - self.start).as_micros(), what());
        }
    }

    fn wall(&self) -> u64 {
        u64::from(NOW) + (self.now - self.start).as_secs()
    }

    fn set_clocks(&mut self) {
        self.world.set_time(self.now);
        self.world.wall.store(self.wall(), Relaxed);
    }

    /// Runs all steps.
    fn run(&mut self) -> Result<(), String> {
        for n in 0..4 + self.dice.below(16) {
            let gap = match self.dice.below(10) {
                0..5 => self.dice.below(20),
                5..9 => self.dice.below(2000),
                _ => self.dice.below(4_000_000),
            };
            self.pass(Duration::from_millis(gap as u64))?;
            if !self.calm {
                self.misfortune();
            }
            self.ask(n as u16)?;
        }
        self.pass(Duration::from_secs(60))?;
        self.look()?;
        if let Some((id, client)) = self.clients.first_key_value() {
            return Err(format!(
                "client {id} never got an answer to {} {}",
                client.ask.name, client.ask.qtype
            ));
        }
        if !self.net.links.is_empty()
            || self.resolver.deadline().is_some()
            || !self.resolver.is_idle()
            || self.validations.deadline().is_some()
        {
            return Err("something is left behind".to_owned());
        }
        self.sum.queries = self.net.queries;
        Ok(())
    }

    /// Servers fail and come back, and the resolver restarts.
    fn misfortune(&mut self) {
        if self.dice.percent(10) {
            let host = self.dice.below(HOSTS);
            if !self.net.down.remove(&host) {
                self.show(|| format!("server {host} dies"));
                self.net.dies(host, self.now);
            }
        }
        if self.dice.percent(3) {
            self.restart();
        }
    }

    /// Restarts the resolver, with the saved cache or an empty one.
    fn restart(&mut self) {
        self.show(|| "the resolver is restarted".to_owned());
        let mut saved = Vec::new();
        let (service, wall) = (self.world.service.clone(), self.wall());
        service.cache().save(&mut saved, service.now(self.now), UnixTime::from_secs(wall)).expect("memory");
        let zones = &self.zones;
        self.world = World::new(|policy| validating(policy, zones));
        self.set_clocks();
        self.validations = self.world.service.validations();
        self.resolver = resolver(self.world.completion(), &mut self.dice);
        if self.dice.percent(50) {
            let now = self.world.service.now(self.now);
            self.world
                .service
                .cache()
                .load(&mut saved.as_slice(), now, UnixTime::from_secs(wall))
                .expect("what was saved");
        }
        self.net.forget();
        self.sum.lost += self.clients.len() as u64;
        self.sum.restarts += 1;
        self.clients.clear();
        self.budgets.clear();
    }

    fn question(&mut self) -> (NameBuf, Type) {
        let dice = &mut self.dice;
        let apex = dice.pick(&self.zones.sites).apex;
        let names = [
            "www",
            "www",
            "www",
            "alias",
            "far",
            "further",
            "gone",
            "q.wild",
            "a.q.wild",
            "wild",
            "deep.ent",
            "ent",
            "x.moved",
            "q.moved",
            "moved",
            "q.tree",
            "nothing",
            "a.nothing",
            "",
        ];
        let name = match *dice.pick(&names) {
            "" => apex,
            labels => NameBuf::from_text(labels.as_bytes(), Some(apex.as_name())).expect("short"),
        };
        let types =
            [Type::A, Type::A, Type::A, Type::TXT, Type::AAAA, Type::NS, Type::DS, Type::DNSKEY, Type::SOA];
        (name, *dice.pick(&types))
    }

    fn ask(&mut self, id: u16) -> Result<(), String> {
        let (name, qtype) = self.question();
        let dice = &mut self.dice;
        let bits =
            [(50, " do"), (10, " cd"), (30, " ad")].map(|(n, bit)| if dice.percent(n) { bit } else { "" });
        let question = format!("{name} {qtype}{}", bits.concat());
        self.show(|| format!("client {id} asks for {question}"));
        let ask = Ask { id, ..ask(&question) };
        self.sum.asked += 1;
        self.clients.insert(id, Client { ask: ask.clone(), since: self.now });
        if let Some(reply) = self.world.ask(&ask) {
            self.answered(&reply)?;
        }
        self.settle()
    }

    /// Advances the time by `by`, with all events on the way.
    fn pass(&mut self, by: Duration) -> Result<(), String> {
        let end = self.now + by;
        loop {
            let deadlines = [self.resolver.deadline(), self.validations.deadline(), self.net.next()];
            let next = deadlines.into_iter().flatten().min().filter(|at| *at <= end);
            let Some(at) = next else { break };
            self.now = self.now.max(at);
            self.set_clocks();
            let mut actions = Vec::new();
            if self.net.next() == Some(at) {
                if let Some((link, what)) = self.net.take() {
                    self.comes(link, what, &mut actions);
                }
            } else {
                self.resolver.timeout(self.now, &mut actions);
            }
            self.act(actions)?;
            self.settle()?;
            self.steps += 1;
            if self.steps.is_multiple_of(LOOK) {
                self.look()?;
            }
            if self.steps > 100_000 {
                return Err("it goes on for ever".to_owned());
            }
        }
        self.now = end;
        self.set_clocks();
        Ok(())
    }

    fn comes(&mut self, link: transport::Link, what: Coming, actions: &mut Vec<transport::Action>) {
        let event = match &what {
            Coming::Message(message) => Event::Message { link, message },
            Coming::Opened => Event::Opened { link },
            Coming::Ended(error) => Event::Ended { link, error: *error },
        };
        self.resolver.event(event, self.now, actions);
    }

    fn act(&mut self, actions: Vec<transport::Action>) -> Result<(), String> {
        for action in actions {
            if let transport::Action::Send { link, message } = &action {
                self.show(|| format!("asks {:?} for {}", self.net.links.get(link), asked(message)));
            }
            self.net.act(action, &self.zones, &mut self.dice, self.now)?;
        }
        Ok(())
    }

    /// Does all work that is possible now.
    fn settle(&mut self) -> Result<(), String> {
        loop {
            self.validations.work(self.now, UnixTime::from_secs(self.wall()));
            let noted = std::mem::take(&mut *self.world.noted.0.lock().expect("one thread"));
            if noted.is_empty() {
                break;
            }
            for request in noted {
                self.budgets.extend(request.budget.clone());
                let mut actions = Vec::new();
                self.resolver.request(ResolverRequest::Lookup(request), self.now, &mut actions);
                self.act(actions)?;
            }
        }
        for reply in self.world.late() {
            self.answered(&reply)?;
        }
        let limits = BudgetLimits::default();
        let spent = |budget: &&Budget| {
            let over_bytes = budget.bytes() > limits.bytes + usize::from(u16::MAX);
            budget.queries() > limits.queries || over_bytes
        };
        if let Some(budget) = self.budgets.iter().find(spent) {
            return Err(format!("a query has cost {} queries, {} bytes", budget.queries(), budget.bytes()));
        }
        let overdue = |client: &Client| client.since + CLIENT_TIMEOUT < self.now;
        match self.clients.iter().find(|(_, client)| overdue(client)) {
            Some((id, _)) => Err(format!("client {id} waits for too long")),
            None => Ok(()),
        }
    }

    /// Checks a client's answer.
    fn answered(&mut self, reply: &Reply) -> Result<(), String> {
        self.show(|| format!("client {} gets {reply:?}", reply.id()));
        let Some(client) = self.clients.remove(&reply.id()) else {
            return Err(format!("client {} gets a second answer", reply.id()));
        };
        let Ask { name, qtype, checking_disabled, .. } = client.ask;
        let wrong = |what: &str| Err(format!("{name} {qtype}: {what}: {reply:?}"));
        let authentic = reply.0.header.authentic_data();
        if !matches!(reply.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN) {
            self.sum.failed += 1;
            return if self.calm { wrong("nothing was wrong") } else { Ok(()) };
        }
        if reply.0.header.truncated() {
            self.sum.plain += 1;
            return Ok(());
        }
        let truth = self.zones.truth(name.as_name(), qtype);
        let same = truth.rcode == reply.rcode() && truth.records == records(&reply.0.sections[0]);
        let secure = truth.from.iter().all(|site| site.secure);
        let opt_out = truth.proven && truth.from.iter().any(|site| site.opt_out);
        let asks = client.ask.dnssec_ok || client.ask.authentic;
        if authentic && !(secure && same) {
            return wrong("AD, and it is not true, or no chain leads there");
        }
        if secure && !checking_disabled && !same && !opt_out {
            return wrong("it is signed, and not true");
        }
        if secure && !checking_disabled && asks && !authentic && !opt_out {
            return wrong("it is secure, and AD is not set");
        }
        if !same && !truth.from.iter().any(|site| site.influenced) {
            return wrong("no server has lied of it, and it is not true");
        }
        if authentic {
            self.sum.secure += 1
        } else {
            self.sum.plain += 1
        }
        Ok(())
    }

    /// Checks all cached answers.
    fn look(&self) -> Result<(), String> {
        let mut fault = None;
        let now: Now = self.world.service.now(self.now);
        self.world.service.cache().for_each(now, |held| {
            let message = decode(&held.message());
            for line in message.sections.iter().flatten().filter(|line| is_evil(line)) {
                let site = self.zones.site_of(line.owner.as_name(), line.rtype);
                if !site.influenced {
                    fault = Some(format!("{line:?} in the cache, out of bailiwick"));
                }
                // Where opt-out leaves names out of proofs, a queried server can forge an unsigned name
                // (RFC 5155 §12.2).
                let could_be = site.opt_out && !self.zones.has(&line.owner, line.rtype);
                if site.secure && !held.checking_disabled() && !could_be {
                    fault = Some(format!("{line:?} in the cache, where all is signed"));
                }
            }
        });
        fault.map_or(Ok(()), Err)
    }
}

/// The query as `www.example. A`.
fn asked(query: &[u8]) -> String {
    let (_, mut parser) = Parser::new(query).expect("a header");
    let question = parser.question().expect("a question");
    format!("{} {}", question.name, question.qtype)
}

/// The seeds to run, and whether each step is shown.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let number = |text: &str| text.trim().parse().expect("a number");
    if let Ok(seed) = std::env::var("SIMULATION_SEED") {
        let seed = number(&seed);
        return (seed..seed + 1, true);
    }
    let seeds = std::env::var("SIMULATION_SEEDS").unwrap_or_else(|_| format!("0..{SEEDS}"));
    let (from, to) = seeds.split_once("..").expect("FROM..TO");
    (number(from)..number(to), false)
}

#[test]
fn whatever_happens_to_messages_servers_and_resolver_what_must_hold_holds() {
    let (seeds, shown) = seeds();
    let mut all = Sum::default();
    let (mut steps, mut faults) = (0, 0);
    for seed in seeds.clone() {
        let mut simulation = Simulation::new(seed, shown);
        if let Err(fault) = simulation.run() {
            faults += 1;
            println!(
                "seed {seed}: {fault}\nrepeat it: SIMULATION_SEED={seed} cargo test -p recursion --test it \
                 simulation -- --nocapture"
            );
            continue;
        }
        let sum = simulation.sum;
        all.asked += sum.asked;
        all.secure += sum.secure;
        all.plain += sum.plain;
        all.failed += sum.failed;
        all.lost += sum.lost;
        all.queries += sum.queries;
        all.restarts += sum.restarts;
        steps += simulation.steps;
    }
    println!(
        "{} seeds, {faults} with faults, {steps} steps: {} questions of clients, {} answers secure, \
         {} others, {} failures, {} lost in {} restarts; {} queries to servers",
        seeds.end - seeds.start,
        all.asked,
        all.secure,
        all.plain,
        all.failed,
        all.lost,
        all.restarts,
        all.queries
    );
    assert_eq!(faults, 0, "seeds with faults");
    assert_eq!(all.asked, all.secure + all.plain + all.failed + all.lost);
}
