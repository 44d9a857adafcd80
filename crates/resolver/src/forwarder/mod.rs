//! The forwarder: lookups in flight, who waits for them, and when to look again.
//!
//! A lookup has tries, each a query to one server on a link of its own or on a connection that is kept. All its tries
//! are listened to until the lookup ends: the first reply that can be used answers it. `tries` sends them and moves on
//! where they fail; `replies` judges what comes back; `streams` keeps the connections; `state` has what each of them is.

mod replies;
mod state;
mod streams;
mod tries;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use exchange::{Action, Core, Event, Link};
use wire::{LowerNameBuf, Type};

use crate::config::{ForwardConfig, Upstream};
use crate::inquiry::{Inquiry, LookupFailure, LookupOutcome, LookupRequest, Outlet, ShedReason};
use crate::limits::Load;
use crate::random::Random;
use crate::select::Asked;
use crate::server::Server;
use crate::stats::ForwardStats;
use state::{Client, LinkUse, Lookup, LookupId, Timer, Try, TryId};

/// Resolves questions by asking the servers of its rules.
pub struct Forwarder<O: Outlet, R: Random> {
    config: ForwardConfig,
    /// The servers of each rule, by their place in `servers`.
    rules: Vec<Vec<usize>>,
    domains: HashMap<LowerNameBuf, usize>,
    servers: Vec<Server>,
    outlet: O,
    random: R,
    stats: Arc<ForwardStats>,
    load: Load,
    lookups: HashMap<LookupId, Lookup<O::Waiter>>,
    by_inquiry: HashMap<Inquiry, LookupId>,
    tries: HashMap<TryId, Try>,
    links: HashMap<Link, LinkUse>,
    timers: BTreeSet<(Instant, Timer)>,
    /// The number that a lookup, a try or a link had last.
    last: u64,
}

impl<O: Outlet, R: Random> Forwarder<O, R> {
    /// A forwarder that hands outcomes to `outlet`. Rules that name the same server share what is known of it.
    pub fn new(config: ForwardConfig, outlet: O, mut random: R) -> Self {
        let mut upstreams: Vec<Upstream> = Vec::new();
        let (mut rules, mut domains) = (Vec::new(), HashMap::new());
        for (number, rule) in config.rules.iter().enumerate() {
            let mut places = Vec::new();
            for upstream in &rule.upstreams {
                let place = upstreams.iter().position(|known| known == upstream).unwrap_or(upstreams.len());
                if place == upstreams.len() {
                    upstreams.push(*upstream);
                }
                if !places.contains(&place) {
                    places.push(place);
                }
            }
            rules.push(places);
            domains.insert(rule.domain.as_name().to_lower(), number);
        }
        let stats = Arc::new(ForwardStats::new(&upstreams));
        let servers = upstreams.into_iter().map(|upstream| Server::new(upstream, random.bytes())).collect();
        Forwarder {
            load: Load::new(rules.len()),
            config,
            rules,
            domains,
            servers,
            outlet,
            random,
            stats,
            lookups: HashMap::new(),
            by_inquiry: HashMap::new(),
            tries: HashMap::new(),
            links: HashMap::new(),
            timers: BTreeSet::new(),
            last: 0,
        }
    }

    /// The counters, which any thread may read.
    pub fn stats(&self) -> Arc<ForwardStats> {
        Arc::clone(&self.stats)
    }

    /// The rule that covers a question. DS stands in the parent's zone: at the domain of a rule it is another's
    /// (RFC 4035 §3.1.4.1).
    fn rule_of(&self, inquiry: &Inquiry) -> Option<usize> {
        let lower = inquiry.name.as_lower();
        let from = if inquiry.qtype == Type::DS { lower.parent().unwrap_or(lower) } else { lower };
        std::iter::successors(Some(from), |name| name.parent())
            .find_map(|name| self.domains.get(&name.to_buf()).copied())
            .filter(|&rule| self.rules.get(rule).is_some_and(|servers| !servers.is_empty()))
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
    ) -> Result<(), (O::Waiter, LookupFailure)> {
        let Some(rule) = self.rule_of(&inquiry) else { return Err((client.waiter, LookupFailure::NoRule)) };
        let limits = &self.config.limits;
        let known = self.by_inquiry.get(&inquiry).copied();
        let full = |lookup: &Lookup<O::Waiter>| lookup.clients.len() >= limits.clients_per_lookup;
        let admitted = self.load.may_wait(limits, client.prefix).and_then(|()| match known {
            Some(id) if self.lookups.get(&id).is_some_and(full) => Err(ShedReason::Clients),
            Some(_) => Ok(()),
            None => self.load.may_start(limits, rule),
        });
        if let Err(reason) = admitted {
            self.stats.shed(reason).add();
            return Err((client.waiter, LookupFailure::Shed(reason)));
        }
        self.load.client_came(client.prefix);
        if let Some(lookup) = known.and_then(|id| self.lookups.get_mut(&id)) {
            self.stats.joined.add();
            // All wait equally long: the first one's timer comes first.
            lookup.clients.push(client);
            return Ok(());
        }
        self.start(inquiry, rule, client, now, actions);
        Ok(())
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
        let servers = self.rules.get(rule).map(Vec::as_slice).unwrap_or_default();
        let asked = servers.iter().map(|&server| Asked { server, ..Asked::default() }).collect();
        self.set_timer(client.deadline, Timer::Client(id));
        let lookup = Lookup {
            inquiry,
            rule,
            clients: vec![client],
            asked,
            tries_left: self.config.limits.tries,
            tries: Vec::new(),
            resume: None,
            fault: None,
        };
        self.lookups.insert(id, lookup);
        self.by_inquiry.insert(inquiry, id);
        self.load.lookup_came(rule);
        self.stats.lookups.add();
        self.stats.in_flight.set(self.load.lookups());
        self.ask_next(id, now, actions);
        self.ask_failing(id, now, actions);
    }

    /// The clients of a lookup whose time is over go; with the last one the lookup ends.
    fn client_timer(&mut self, id: LookupId, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        let over = lookup.clients.iter().take_while(|client| client.deadline <= now).count();
        let gone: Vec<_> = lookup.clients.drain(..over).collect();
        let next = lookup.clients.first().map(|client| client.deadline);
        for client in gone {
            self.stats.timed_out.add();
            self.load.client_went(client.prefix);
            self.outlet.settle(client.waiter, LookupOutcome::Failed(LookupFailure::TimedOut));
        }
        match next {
            Some(at) => self.set_timer(at, Timer::Client(id)),
            None => self.end(id, LookupOutcome::Failed(LookupFailure::TimedOut), now, actions),
        }
    }

    /// Ends a lookup. Tries that may show that a failing server answers again go on without it.
    fn end(&mut self, id: LookupId, outcome: LookupOutcome, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = self.lookups.remove(&id) else { return };
        self.by_inquiry.remove(&lookup.inquiry);
        self.load.lookup_went(lookup.rule);
        self.stats.in_flight.set(self.load.lookups());
        self.drop_timer(lookup.clients.first().map(|client| client.deadline), Timer::Client(id));
        self.drop_timer(lookup.resume, Timer::Resume(id));
        for id in lookup.tries {
            self.leave(id, now, actions);
        }
        match &outcome {
            LookupOutcome::Answered(answer) => {
                self.stats.answered.add();
                self.outlet.learned(&lookup.inquiry, answer);
            }
            LookupOutcome::Failed(_) => self.stats.failed.add(),
        }
        for client in lookup.clients {
            self.load.client_went(client.prefix);
            self.outlet.settle(client.waiter, outcome.clone());
        }
    }
}

impl<O: Outlet, R: Random> Core for Forwarder<O, R> {
    type Request = LookupRequest<O::Waiter>;

    fn request(&mut self, request: Self::Request, now: Instant, actions: &mut Vec<Action>) {
        let LookupRequest { inquiry, recursion_desired, client: prefix, waiter } = request;
        let client = Client { waiter, prefix, deadline: now + self.config.timing.client };
        let done = match recursion_desired {
            true => self.admit(inquiry, client, now, actions),
            false => Err((client.waiter, LookupFailure::NoRecursion)),
        };
        if let Err((waiter, failure)) = done {
            self.outlet.settle(waiter, LookupOutcome::Failed(failure));
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
            }
        }
    }
}
