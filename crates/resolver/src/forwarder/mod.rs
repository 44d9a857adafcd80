//! The forwarder: lookups in flight, who waits for them, and when to look again.
//!
//! A lookup has tries, each a query to one server on a link of its own or on a connection that is kept. All its tries
//! are listened to until the lookup ends: the first reply that can be used answers it. `tries` sends them and moves on
//! where they fail; `replies` judges what comes back; `streams` keeps the connections; `state` has what each of them is;
//! `configure` replaces the settings.

mod configure;
mod replies;
mod state;
mod streams;
mod tries;

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use exchange::{Action, Core, Event, Link, NumberMap, Transport};

use crate::config::ForwardConfig;
use crate::inquiry::{
    ForwarderRequest, Inquiry, LookupFailure, LookupOutcome, LookupRequest, Outlet, ShedReason,
};
use crate::limits::Load;
use crate::random::Random;
use crate::rules::Rules;
use crate::select::Asked;
use crate::server::Server;
use crate::stats::ForwardStats;
use crate::trace::{TraceEvent, Tracer};
use state::{Client, HeldId, LinkUse, Lookup, LookupId, Timer, Try, TryId};

/// Resolves questions by asking the servers of its rules.
pub struct Forwarder<O: Outlet, R: Random> {
    config: ForwardConfig,
    rules: Rules,
    servers: Vec<Server>,
    outlet: O,
    random: R,
    stats: Arc<ForwardStats>,
    load: Load,
    lookups: NumberMap<LookupId, Lookup<O::Waiter>>,
    by_inquiry: HashMap<Inquiry, LookupId>,
    tries: NumberMap<TryId, Try>,
    links: NumberMap<Link, LinkUse>,
    /// Clients whose outcome is held back.
    held: NumberMap<HeldId, (Client<O::Waiter>, LookupOutcome)>,
    timers: BTreeSet<(Instant, Timer)>,
    /// Clients that wait and want a trace.
    traced: usize,
    /// The number that a lookup, a try, a link or a held client had last.
    last: u64,
}

impl<O: Outlet, R: Random> Forwarder<O, R> {
    /// A forwarder that hands outcomes to `outlet`. Rules that name the same server share what is known of it.
    pub fn new(config: ForwardConfig, outlet: O, mut random: R) -> Self {
        let (rules, upstreams) = Rules::of(&config);
        let servers: Vec<_> =
            upstreams.into_iter().map(|upstream| Server::new(upstream, random.bytes())).collect();
        let stats = Arc::new(ForwardStats::new());
        stats.set_upstreams(servers.iter().map(|server| Arc::clone(&server.stats)).collect());
        Forwarder {
            load: Load::new(rules.len()),
            config,
            rules,
            servers,
            outlet,
            random,
            stats,
            lookups: NumberMap::default(),
            by_inquiry: HashMap::new(),
            tries: NumberMap::default(),
            links: NumberMap::default(),
            held: NumberMap::default(),
            timers: BTreeSet::new(),
            traced: 0,
            last: 0,
        }
    }

    /// The counters, which any thread may read.
    pub fn stats(&self) -> Arc<ForwardStats> {
        Arc::clone(&self.stats)
    }

    /// Whether nobody waits and nothing is under way: all that is kept is what is known of servers.
    pub fn is_idle(&self) -> bool {
        let maps =
            [self.lookups.len(), self.by_inquiry.len(), self.tries.len(), self.links.len(), self.held.len()];
        maps == [0; 5] && self.timers.is_empty() && self.traced == 0 && self.load.is_empty()
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

    /// Takes a client into the lookup it asks for, which may have to be started.
    fn admit(
        &mut self,
        inquiry: Inquiry,
        client: Client<O::Waiter>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> Result<(), (Client<O::Waiter>, LookupFailure)> {
        let Some(rule) = self.rules.covering(&inquiry) else {
            return Err((client, LookupFailure::NoRule));
        };
        if let Some(tracer) = &client.tracer
            && let Some(event) = self.rule_event(rule)
        {
            tracer.note(now, event);
        }
        let limits = &self.config.limits;
        let known = self.by_inquiry.get(&inquiry).copied();
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
            None => self.start(inquiry, rule, client, now, actions),
        }
        Ok(())
    }

    /// A client joins a lookup in flight.
    fn join(&mut self, id: LookupId, client: Client<O::Waiter>, now: Instant) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        self.stats.joined.add(1);
        if let Some(tracer) = &client.tracer {
            tracer.note(now, TraceEvent::Joined { clients: lookup.clients.len() });
        }
        let (before, at) = (lookup.first_deadline, client.deadline);
        lookup.clients.push(client);
        if at < before {
            lookup.first_deadline = at;
            self.drop_timer(Some(before), Timer::Client(id));
            self.set_timer(at, Timer::Client(id));
        }
    }

    fn start(
        &mut self,
        inquiry: Inquiry,
        rule: usize,
        client: Client<O::Waiter>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let id = LookupId(self.number());
        let servers = self.rules.get(rule).map(|rule| rule.servers.as_slice()).unwrap_or_default();
        let asked = servers.iter().map(|&server| Asked { server, ..Asked::default() }).collect();
        let first_deadline = client.deadline;
        self.set_timer(first_deadline, Timer::Client(id));
        let lookup = Lookup {
            inquiry,
            rule,
            clients: vec![client],
            first_deadline,
            asked,
            tries_left: self.config.limits.tries,
            tries: Vec::new(),
            resume: None,
            fault: None,
        };
        self.lookups.insert(id, lookup);
        self.by_inquiry.insert(inquiry, id);
        self.load.lookup_came(rule);
        self.stats.lookups.add(1);
        self.stats.in_flight.set(self.load.lookups() as u64);
        self.ask_next(id, now, actions);
        self.ask_failing(id, now, actions);
    }

    /// The clients of a lookup whose time is over go; with the last one the lookup ends.
    fn client_timer(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let outcome = LookupOutcome::Failed(LookupFailure::TimedOut);
        let Some(next) = lookup.clients.iter().map(|client| client.deadline).filter(|at| *at > now).min()
        else {
            self.stats.timed_out.add(lookup.clients.len() as u64);
            return self.end(id, outcome, now, actions);
        };
        let gone: Vec<_> = lookup.clients.extract_if(.., |client| client.deadline <= now).collect();
        lookup.first_deadline = next;
        self.set_timer(next, Timer::Client(id));
        self.stats.timed_out.add(gone.len() as u64);
        for client in gone {
            self.went(client, outcome.clone(), now);
        }
    }

    /// Ends a lookup. Tries that may show that a failing server answers again go on without it.
    fn end(&mut self, id: LookupId, outcome: LookupOutcome, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.remove(&id) else { return };
        self.by_inquiry.remove(&lookup.inquiry);
        self.load.lookup_went(lookup.rule);
        self.stats.in_flight.set(self.load.lookups() as u64);
        self.drop_timer(Some(lookup.first_deadline), Timer::Client(id));
        self.drop_timer(lookup.resume, Timer::Resume(id));
        for id in lookup.tries {
            self.leave(id, now, actions);
        }
        match &outcome {
            LookupOutcome::Answered(_) => self.stats.answered.add(1),
            LookupOutcome::Failed(_) => self.stats.failed.add(1),
        }
        self.outlet.ended(&lookup.inquiry, &outcome, now);
        for client in lookup.clients {
            self.went(client, outcome.clone(), now);
        }
    }

    /// The outcome of a lookup that a client waited for. Who has waited for long may get it a little later.
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

    /// A client that waited gets its outcome.
    fn release(&mut self, client: Client<O::Waiter>, outcome: LookupOutcome, now: Instant) {
        self.load.client_went(client.prefix);
        self.settle(client, outcome, now);
    }

    fn settle(&mut self, client: Client<O::Waiter>, outcome: LookupOutcome, now: Instant) {
        if let Some(tracer) = client.tracer {
            tracer.settled(now, &outcome);
        }
        self.outlet.settle(client.waiter, outcome, now);
    }

    /// Notes a step of a lookup for the clients that want it.
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

    /// Notes a step of a try, made of its server, its transport and the try itself.
    fn note_of(
        &self,
        id: TryId,
        now: Instant,
        event: impl FnOnce(SocketAddr, Transport, &Try) -> TraceEvent,
    ) {
        if self.traced == 0 {
            return;
        }
        let Some(one) = self.tries.get(&id) else { return };
        if let (Some(lookup), Some(server)) = (one.lookup, self.servers.get(one.server)) {
            self.note(lookup, now, || event(server.upstream.address, one.transport(), one));
        }
    }

    /// What a rule is, for a trace.
    fn rule_event(&self, rule: usize) -> Option<TraceEvent> {
        let rule = self.rules.get(rule)?;
        let upstreams = rule.servers.iter().filter_map(|&place| Some(self.servers.get(place)?.upstream));
        Some(TraceEvent::Rule {
            domain: Box::new(rule.domain),
            upstreams: upstreams.collect(),
            recursion_desired: rule.recursion_desired,
        })
    }
}

impl<O: Outlet, R: Random> Core for Forwarder<O, R> {
    type Request = ForwarderRequest<O::Waiter>;

    fn request(&mut self, request: Self::Request, now: Instant, actions: &mut Vec<Action>) {
        let request = match request {
            ForwarderRequest::Lookup(request) => request,
            ForwarderRequest::Configure(config) => return self.configure(*config, now, actions),
        };
        let LookupRequest { inquiry, recursion_desired, client: prefix, patience, trace, waiter } = request;
        let most = self.config.timing.client;
        let deadline = now + patience.map_or(most, |time| time.min(most));
        let tracer = trace.map(|trace| Tracer::new(trace, now));
        let client = Client { waiter, prefix, since: now, deadline, tracer };
        let done = match recursion_desired {
            true => self.admit(inquiry, client, now, actions),
            false => Err((client, LookupFailure::NoRecursion)),
        };
        if let Err((client, failure)) = done {
            self.settle(client, LookupOutcome::Failed(failure), now);
        }
    }

    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>) {
        match event {
            Event::Opened { link } => self.opened(link),
            Event::Message { link, message } => self.message(link, message, now, actions),
            Event::Ended { link, error } => self.ended(link, error, now, actions),
        }
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
                Timer::Try(id) => self.unanswered(id, now, actions),
                Timer::Idle(link) => self.close_stream(link, now, actions),
                Timer::Held(id) => {
                    if let Some((client, outcome)) = self.held.remove(&id) {
                        self.release(client, outcome, now);
                    }
                }
            }
        }
    }
}
