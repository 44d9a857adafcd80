//! The resolver: lookups in flight, their waiting clients, and their timers.
//!
//! A lookup has tries, each a query to one server, on a link of its own or on a kept connection. All its
//! tries stay open until the lookup ends: the first useful reply answers it. `tries` sends them and continues
//! after failures; `replies` evaluates replies; `streams` keeps the connections; `state` has the types;
//! `configure` replaces the settings. `encrypted` has encrypted transports of authoritative servers,
//! `target_keys` keys of targets behind proxies. `payers` chooses the budget that a lookup is charged to.
//!
//! A lookup by a rule with iteration proceeds in steps, each like a forwarded query to the servers of one
//! zone, with as much of the name as they need. `walk` takes these steps, `addresses` has the known addresses
//! of the servers. If no server has a known address, a lookup without clients finds one, and the first lookup
//! depends on it: `seek` starts these. `fallback` is for zones whose servers are all useless, `dead` for
//! rules whose servers are all down, `instead` for rules that forward first. A local copy of the zone that a
//! rule starts from replaces the zone's servers.
//!
//! A lookup that is woken by the end of another continues at the end of the same call, so that calls do not
//! recurse. Aliases are followed by `recursion`, through its cache and its rules, and not here.

mod addresses;
mod configure;
mod dead;
mod encrypted;
mod fallback;
mod instead;
mod minimise;
mod payers;
mod replies;
mod seek;
mod state;
mod streams;
mod target_keys;
mod tries;
mod walk;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use transport::{Action, Core, Event, Link, NumberMap};

use crate::config::{ForwardConfig, UpstreamTransport};
use crate::delegations::{Delegations, ZoneCuts};
use crate::limits::Load;
use crate::outcome::{LookupFailure, LookupOutcome, ShedReason};
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::request::{LookupRequest, LookupSink, ResolverRequest};
use crate::rules::{Rules, Way};
use crate::select::{self, Asked};
use crate::servers::Servers;
use crate::stats::ForwardStats;
use crate::trace::{TraceEvent, Tracer};
use payers::Payer;
use state::{Client, HeldId, LinkUse, Lookup, LookupId, Timer, Try, TryId};

/// Resolves queries at the servers of its rules.
pub struct Resolver<O: LookupSink, R: Random> {
    config: ForwardConfig,
    rules: Rules,
    servers: Servers,
    delegations: Delegations,
    /// Until when IPv4 and IPv6 addresses are avoided, since the family has no route.
    no_way: [Option<Instant>; 2],
    /// When the zone of a rule may be primed again, by the rule's number.
    prime_again: HashMap<usize, Instant>,
    /// Lookups whose dependency ended, or that restart; they run before the next event.
    woken: VecDeque<LookupId>,
    sink: O,
    random: R,
    stats: Arc<ForwardStats>,
    load: Load,
    lookups: NumberMap<LookupId, Lookup<O::Waiter>>,
    by_inquiry: HashMap<QueryKey, LookupId>,
    tries: NumberMap<TryId, Try>,
    links: NumberMap<Link, LinkUse>,
    /// Clients whose outcome is delayed.
    held: NumberMap<HeldId, (Client<O::Waiter>, LookupOutcome)>,
    timers: BTreeSet<(Instant, Timer)>,
    /// Number of waiting clients with a trace.
    traced: usize,
    /// Number of probes of encrypted transports in flight.
    probes: usize,
    /// The last number given to a lookup, try, link or delayed client.
    last: u64,
}

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// A resolver that delivers outcomes to `sink`. Rules that name the same server share its state.
    pub fn new(config: ForwardConfig, sink: O, mut random: R) -> Self {
        let mut servers = Servers::default();
        let (rules, upstreams) = Rules::of(&config, &[], &mut servers, &mut random);
        let stats = Arc::<ForwardStats>::default();
        stats.set_upstreams(servers.stats(&upstreams));
        Resolver {
            load: Load::new(rules.len()),
            config,
            rules,
            servers,
            delegations: Delegations::default(),
            no_way: [None; 2],
            prime_again: HashMap::new(),
            woken: VecDeque::new(),
            sink,
            random,
            stats,
            lookups: NumberMap::default(),
            by_inquiry: HashMap::new(),
            tries: NumberMap::default(),
            links: NumberMap::default(),
            held: NumberMap::default(),
            timers: BTreeSet::new(),
            traced: 0,
            probes: 0,
            last: 0,
        }
    }

    /// Returns the counters, which any thread may read.
    pub fn stats(&self) -> Arc<ForwardStats> {
        Arc::clone(&self.stats)
    }

    /// Returns the cached zone cuts, which any thread may read.
    pub fn cuts(&self) -> Arc<ZoneCuts> {
        Arc::clone(&self.delegations.cuts)
    }

    /// Whether no client waits and nothing is in flight: only cached state is left.
    pub fn is_idle(&self) -> bool {
        let maps =
            [self.lookups.len(), self.by_inquiry.len(), self.tries.len(), self.links.len(), self.held.len()];
        maps == [0; 5]
            && self.woken.is_empty()
            && self.timers.is_empty()
            && self.traced == 0
            && self.probes == 0
            && self.load.is_empty()
    }

    fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn set_timer(&mut self, at: Instant, timer: Timer) {
        self.timers.insert((at, timer));
    }

    fn drop_timer(&mut self, at: Option<Instant>, timer: Timer) {
        if let Some(at) = at {
            self.timers.remove(&(at, timer));
        }
    }

    /// Handles a client's request.
    fn look_up(&mut self, request: LookupRequest<O::Waiter>, now: Instant, actions: &mut Vec<Action>) {
        let LookupRequest {
            query_key,
            recursion_desired,
            client: prefix,
            patience,
            budget,
            other_than,
            trace,
            waiter,
        } = request;
        let tracer = trace.map(|trace| Tracer::new(trace, now));
        let rule = self.rules.covering(&query_key);
        let walks = rule.and_then(|rule| self.rules.get(rule)).is_some_and(|rule| rule.may_walk());
        let budget = if walks { Some(budget.unwrap_or_default()) } else { budget };
        let limits = &self.config.iterate.budget;
        let most = if walks { limits.time } else { self.config.timing.client };
        let begun = budget.as_ref().map(|budget| budget.begin(limits, now)).transpose();
        let deadline = now + patience.map_or(most, |time| time.min(most));
        let deadline = begun.ok().flatten().map_or(deadline, |end| end.min(deadline));
        let client = Client { waiter, prefix, since: now, deadline, budget, tracer };
        let done = match (recursion_desired, rule, begun) {
            (false, ..) => Err((client, LookupFailure::NoRecursion)),
            (true, None, _) => Err((client, LookupFailure::NoRule)),
            (true, Some(_), Err(spent)) => {
                self.stats.overspent.add(1);
                Err((client, LookupFailure::Overspent(spent)))
            }
            (true, Some(rule), Ok(_)) => {
                let lookup = Lookup { other_than, ..Lookup::new(query_key, rule) };
                self.admit(lookup, client, now, actions)
            }
        };
        if let Err((client, failure)) = done {
            self.settle(client, LookupOutcome::Failed(failure), now);
        }
    }

    /// Adds a client to the lookup for its query, which is started unless it is in flight.
    fn admit(
        &mut self,
        mut lookup: Lookup<O::Waiter>,
        client: Client<O::Waiter>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> Result<(), (Client<O::Waiter>, LookupFailure)> {
        let rule = lookup.rule;
        if let Some(tracer) = &client.tracer
            && let Some(event) = self.rule_event(rule)
        {
            tracer.note(now, event);
        }
        let limits = &self.config.limits;
        let known = self.by_inquiry.get(&lookup.query_key).copied().filter(|_| lookup.other_than.is_none());
        let full = |lookup: &Lookup<O::Waiter>| lookup.clients.len() >= limits.clients_per_lookup;
        let admitted = self.load.may_wait(limits, client.prefix).and_then(|()| match known {
            Some(id) if self.lookups.get(&id).is_some_and(full) => Err(ShedReason::Clients),
            Some(_) => Ok(()),
            None => self.load.may_start(limits, rule),
        });
        if let Err(reason) = admitted {
            if let Some(count) = self.stats.shed(reason) {
                count.add(1);
            }
            return Err((client, LookupFailure::Shed(reason)));
        }
        self.load.client_came(client.prefix);
        self.traced += usize::from(client.tracer.is_some());
        match known {
            Some(id) => self.join(id, client, now),
            None => {
                if let Some(budget) = &client.budget {
                    budget.count_lookup();
                }
                lookup.charge.budget = client.budget.clone();
                lookup.clients.push(client);
                self.start(lookup, now, actions);
            }
        }
        Ok(())
    }

    /// Adds a client to a lookup in flight.
    fn join(&mut self, id: LookupId, client: Client<O::Waiter>, now: Instant) {
        self.stats.joined.add(1);
        if self.lookups.get(&id).is_some_and(|lookup| lookup.clients.is_empty()) {
            // From now on the new client is charged instead of another client's query.
            self.pays(id, Payer::client(&client));
            if self.is_stalled(id) {
                self.woken.push_back(id);
            }
        }
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        if let Some(tracer) = &client.tracer {
            tracer.note(now, TraceEvent::Joined { clients: lookup.clients.len() });
        }
        let (before, at) = (lookup.first_deadline, client.deadline);
        lookup.clients.push(client);
        if before.is_none_or(|before| at < before) {
            lookup.first_deadline = Some(at);
            self.drop_timer(before, Timer::Client(id));
            self.set_timer(at, Timer::Client(id));
        }
    }

    /// Starts a lookup.
    fn start(&mut self, mut lookup: Lookup<O::Waiter>, now: Instant, actions: &mut Vec<Action>) {
        let id = LookupId(self.number());
        // No client joins a lookup for a second answer.
        let (query_key, rule, alone) = (lookup.query_key, lookup.rule, lookup.other_than.is_none());
        lookup.first_deadline = lookup.clients.iter().map(|client| client.deadline).min();
        if let Some(at) = lookup.first_deadline {
            self.set_timer(at, Timer::Client(id));
        }
        let payer = Payer { budget: lookup.charge.budget.take(), depth: lookup.charge.depth };
        lookup.paid_by(payer);
        lookup.attempts.tries_left = self.config.limits.tries;
        let way = self.rules.get(rule).map(|rule| &rule.way);
        if let Some(Way::Forward { servers, .. }) = way {
            let asked = servers.iter().map(|&server| Asked { server, ..Asked::default() });
            lookup.attempts.asked = asked.collect();
            let unwanted = lookup.unwanted_server();
            select::set_aside(&mut lookup.attempts.asked, &self.servers, unwanted.as_slice());
        }
        let walks = matches!(way, Some(Way::Iterate { .. }));
        self.lookups.insert(id, lookup);
        if alone {
            self.by_inquiry.insert(query_key, id);
        }
        self.load.lookup_came(rule);
        self.stats.lookups.add(1);
        self.stats.in_flight.set(self.load.lookups() as u64);
        if walks {
            return self.set_out(id, now, actions);
        }
        if self.ends_at_dead_servers(id, now, actions) {
            return;
        }
        self.ask_next(id, now, actions);
        self.ask_failing(id, now, actions);
    }

    /// Ends the wait of the clients whose deadline passed. The lookup ends with its last client, unless
    /// others depend on it.
    fn client_timer(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        // Its clients have no time left for the second attempt of a rule that forwards first.
        let forwards_first = self.rules.get(lookup.rule).is_some_and(|rule| rule.may_walk() && !rule.walks());
        let failure = if forwards_first { LookupFailure::TimedOut } else { lookup.time_is_over() };
        let outcome = LookupOutcome::Failed(failure);
        let next = lookup.clients.iter().map(|client| client.deadline).filter(|at| *at > now).min();
        lookup.first_deadline = next;
        if next.is_none() && lookup.dependents.is_empty() {
            self.stats.timed_out.add(lookup.clients.len() as u64);
            return self.end(id, outcome, now, actions);
        }
        let gone: Vec<_> = lookup.clients.extract_if(.., |client| client.deadline <= now).collect();
        if let Some(next) = next {
            self.set_timer(next, Timer::Client(id));
        }
        self.stats.timed_out.add(gone.len() as u64);
        self.next_pays(id);
        for client in gone {
            self.went(client, outcome.clone(), now);
        }
    }

    /// Ends a lookup.
    fn end(&mut self, id: LookupId, outcome: LookupOutcome, now: Instant, actions: &mut Vec<Action>) {
        if let LookupOutcome::Failed(failure) = &outcome
            && self.goes_instead(id, *failure, now, actions)
        {
            return;
        }
        let Some(mut lookup) = self.remove(id, now, actions) else { return };
        match &outcome {
            LookupOutcome::Answered(_) => self.stats.answered.add(1),
            LookupOutcome::Failed(_) => {
                self.stats.failed.add(1);
                lookup.tell_of_agent();
            }
        }
        let says_something = match &outcome {
            LookupOutcome::Answered(_) => true,
            // The first answer remains valid.
            LookupOutcome::Failed(_) if lookup.other_than.is_some() => false,
            // Its clients may have come with hardly any time left.
            LookupOutcome::Failed(LookupFailure::TimedOut) => {
                lookup.seeks() || lookup.attempts.asked.iter().any(|asked| asked.silent > 0)
            }
            LookupOutcome::Failed(_) => true,
        };
        if says_something {
            self.sink.ended(&lookup.query_key, &outcome, now);
        }
        if let LookupOutcome::Failed(failure) = &outcome
            && matches!(failure, LookupFailure::NoReply | LookupFailure::TimedOut | LookupFailure::Network(_))
        {
            self.check_servers(lookup.rule, now, actions);
        }
        if !lookup.dependents.is_empty() {
            self.found(&lookup, id, &outcome, now);
        }
        for client in lookup.clients {
            self.went(client, outcome.clone(), now);
        }
    }

    /// Removes a lookup, and those that only it depended on. Tries that may show that a failing server
    /// answers again continue without it.
    fn remove(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) -> Option<Lookup<O::Waiter>> {
        let mut lookup = self.lookups.remove(&id)?;
        if self.by_inquiry.get(&lookup.query_key) == Some(&id) {
            self.by_inquiry.remove(&lookup.query_key);
        }
        self.load.lookup_went(lookup.rule);
        self.stats.in_flight.set(self.load.lookups() as u64);
        self.drop_timer(lookup.first_deadline, Timer::Client(id));
        self.drop_timer(lookup.attempts.resume, Timer::Resume(id));
        self.drop_timer(lookup.state.take_hopeless(), Timer::Hopeless(id));
        for id in std::mem::take(&mut lookup.attempts.tries) {
            self.leave(id, now, actions);
        }
        if let Some(walk) = lookup.state.walk() {
            self.load.zone_went(walk.cut.zone.as_lower());
            self.drop_timer(walk.seek_at, Timer::Seek(id));
            for wait in &walk.waits {
                self.depends_no_more(id, wait.on, now, actions);
            }
        }
        Some(lookup)
    }

    /// Delivers a lookup's outcome to a client. A client that has waited long may get it a little later.
    fn went(&mut self, client: Client<O::Waiter>, outcome: LookupOutcome, now: Instant) {
        self.traced -= usize::from(client.tracer.is_some());
        let long = now.saturating_duration_since(client.since) > self.config.timing.gather;
        let slot = if long { self.load.take_slot(&self.config.limits, client.prefix, now) } else { now };
        let at = slot.min(client.deadline);
        if at <= now {
            return self.release(client, outcome, now);
        }
        let id = HeldId(self.number());
        self.held.insert(id, (client, outcome));
        self.set_timer(at, Timer::Held(id));
    }

    /// Ends a client's wait with its outcome.
    fn release(&mut self, client: Client<O::Waiter>, outcome: LookupOutcome, now: Instant) {
        self.load.client_went(client.prefix);
        self.settle(client, outcome, now);
    }

    fn settle(&mut self, client: Client<O::Waiter>, outcome: LookupOutcome, now: Instant) {
        if let Some(tracer) = client.tracer {
            tracer.settled(now, &outcome);
        }
        self.sink.settle(client.waiter, outcome, now);
    }

    /// Adds an event of a lookup to its clients' traces.
    fn note(&self, id: LookupId, now: Instant, event: impl FnOnce() -> TraceEvent) {
        if self.traced == 0 {
            return;
        }
        let clients = self.lookups.get(&id).map(|lookup| lookup.clients.as_slice()).unwrap_or_default();
        let tracers: Vec<_> = clients.iter().filter_map(|client| client.tracer.as_ref()).collect();
        if !tracers.is_empty() {
            let event = event();
            tracers.iter().for_each(|tracer| tracer.note(now, event.clone()));
        }
    }

    /// Adds an event of a try to the traces, made of its server, its transport and the try itself.
    fn note_of(
        &self,
        id: TryId,
        now: Instant,
        event: impl FnOnce(SocketAddr, UpstreamTransport, &Try) -> TraceEvent,
    ) {
        if self.traced == 0 {
            return;
        }
        let Some(one) = self.tries.get(&id) else { return };
        if let (Some(lookup), Some(server)) = (one.lookup, self.servers.get(one.server)) {
            let transport = server.transport(one.stream);
            self.note(lookup, now, || event(server.upstream.address, transport, one));
        }
    }

    /// Returns the trace event of a rule.
    fn rule_event(&self, rule: usize) -> Option<TraceEvent> {
        let rule = self.rules.get(rule)?;
        let Way::Forward { recursion_desired, servers, .. } = &rule.way else { return None };
        let upstreams = servers.iter().filter_map(|&id| Some(self.servers.get(id)?.upstream.clone()));
        Some(TraceEvent::Rule {
            domain: Box::new(rule.domain),
            upstreams: upstreams.collect(),
            recursion_desired: *recursion_desired,
        })
    }
}

impl<O: LookupSink, R: Random> Core for Resolver<O, R> {
    type Request = ResolverRequest<O::Waiter>;

    /// The client's network.
    fn origin(request: &Self::Request) -> u64 {
        match request {
            ResolverRequest::Lookup(request) => request.client.number(),
            ResolverRequest::Configure(_) | ResolverRequest::Encryption(_) => 0,
        }
    }

    fn request(&mut self, request: Self::Request, now: Instant, actions: &mut Vec<Action>) {
        match request {
            ResolverRequest::Lookup(request) => self.look_up(request, now, actions),
            ResolverRequest::Configure(config) => self.configure(*config, now, actions),
            // The thread that asked may have gone.
            ResolverRequest::Encryption(to) => drop(to.send(self.encryption(now))),
        }
        self.wake(now, actions);
    }

    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>) {
        match event {
            Event::Opened { link } => self.opened(link),
            Event::Secured { link, resumed } => self.secured(link, resumed),
            Event::Message { link, message } => self.message(link, message, now, actions),
            Event::Ended { link, error } => self.ended(link, error, now, actions),
            Event::Insecure { link, fault } => self.insecure(link, fault, now, actions),
            Event::Failed { link, id, fault } => self.failed(link, id, fault, now, actions),
            Event::KeyWanted { link } => self.key_wanted(link, now, actions),
            Event::Draining { link } => self.draining(link),
        }
        self.wake(now, actions);
    }

    fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    fn timeout(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Client(id) => self.client_timer(id, now, actions),
                Timer::Resume(id) => self.resume(id, now, actions),
                Timer::Seek(id) => self.seek_longer(id, now, actions),
                Timer::Hopeless(id) => self.hopeless(id, now, actions),
                Timer::Try(id) => self.unanswered(id, now, actions),
                Timer::Idle(link) => self.idle_timer(link, now, actions),
                Timer::Handshake(link) => self.handshake_timer(link, now, actions),
                Timer::Held(id) => {
                    if let Some((client, outcome)) = self.held.remove(&id) {
                        self.release(client, outcome, now);
                    }
                }
            }
            self.wake(now, actions);
        }
    }
}
