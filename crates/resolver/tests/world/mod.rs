//! A resolver on virtual time that collects queries and outcomes and asserts invariants.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use resolver::{
    ChaCha, ClientPrefix, ForwardConfig, LookupOutcome, LookupRequest, LookupSink, Partition, QueryKey,
    Resolver, ResolverRequest,
};
use transport::{Action, Core, Event, Link, Transport};
use wire::{Class, NameBuf, Type};

/// Outcomes by client, in order of arrival.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(pub(crate) Arc<Mutex<Vec<(usize, LookupOutcome)>>>);

impl LookupSink for Outcomes {
    type Waiter = usize;
    fn ended(&mut self, _: &QueryKey, _: &LookupOutcome, _: Instant) {}
    fn settle(&mut self, waiter: usize, outcome: LookupOutcome, _: Instant) {
        self.0.lock().expect("one thread").push((waiter, outcome));
    }
}

pub(crate) struct World {
    pub(crate) core: Resolver<Outcomes, ChaCha>,
    pub(crate) now: Instant,
    /// The links that are open.
    pub(crate) open: BTreeMap<Link, (SocketAddr, Transport)>,
    /// All queries that were sent.
    pub(crate) queries: Vec<(Link, Vec<u8>)>,
    pub(crate) outcomes: Outcomes,
}

impl World {
    pub(crate) fn new(config: ForwardConfig, seed: u8) -> Self {
        let outcomes = Outcomes::default();
        World {
            core: Resolver::new(config, outcomes.clone(), ChaCha::new([seed; 32])),
            now: Instant::now(),
            open: BTreeMap::new(),
            queries: Vec::new(),
            outcomes,
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open { link, transport, to, .. } => {
                    assert!(self.open.insert(link, (to, transport)).is_none(), "a link in use");
                }
                // The event that ends the link may come before this action.
                Action::Cancel { .. } | Action::Resume { .. } => {}
                Action::Close { link } => assert!(self.open.remove(&link).is_some(), "a link closed twice"),
                Action::Send { link, message } => {
                    assert!(self.open.contains_key(&link), "sent on a link that is over");
                    self.queries.push((link, message));
                }
            }
        }
    }

    pub(crate) fn event(&mut self, event: Event<'_>) {
        let mut actions = Vec::new();
        self.core.event(event, self.now, &mut actions);
        self.act(actions);
    }

    pub(crate) fn request(&mut self, request: ResolverRequest<usize>) {
        let mut actions = Vec::new();
        self.core.request(request, self.now, &mut actions);
        self.act(actions);
    }

    /// A client queries the A records of a name.
    pub(crate) fn ask(&mut self, client: usize, name: &str, from: IpAddr, patience: Duration) {
        let name: NameBuf = name.parse().expect("a name");
        let query_key = QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::A,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        };
        self.request(ResolverRequest::Lookup(LookupRequest {
            query_key,
            recursion_desired: true,
            client: ClientPrefix::of(from),
            patience: Some(patience),
            budget: None,
            other_than: None,
            trace: None,
            waiter: client,
        }));
    }

    /// Advances the time, with every deadline on the way.
    pub(crate) fn wait(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(at) = self.core.deadline().filter(|at| *at <= end) {
            assert!(at >= self.now, "a deadline that has passed");
            self.now = at;
            let mut actions = Vec::new();
            self.core.timeout(at, &mut actions);
            assert!(self.core.deadline().is_none_or(|next| next > at), "it stands still");
            self.act(actions);
        }
        self.now = end;
    }
}
