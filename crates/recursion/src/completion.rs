//! Delivers lookup outcomes to the cache and the waiting clients. Runs on the resolver's threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use cache::Now;
use resolver::{LookupOutcome, LookupSink, QueryKey, ScrubbedAnswer};
use transport::unix_now;
use wire::edns::ErrorInfo;
use wire::{Name, Rcode, Ttl, UnixTime};

use crate::cache_views::CacheView;
use crate::clients::is_of_servers;
use crate::jobs::Moment;
use crate::message::{Piece, response};
use crate::service::Service;
use crate::settings::Policy;
use crate::waiter::{Unchecked, Waiter, WaiterKind};

/// How long a withheld answer is cached as NODATA, in seconds.
const WITHHELD_TTL: u32 = 60;

/// Returns the wall-clock time of an instant.
type Clock = dyn Fn(Instant) -> UnixTime + Send;

/// Takes the outcomes of lookups.
pub struct LookupCompletion {
    service: Arc<Service>,
    wall: Box<Clock>,
    /// The last answer judged: usually all clients waiting for one answer receive it in a row.
    judged: Option<Judged>,
}

/// An answer and its replacement.
struct Judged {
    answer: Arc<ScrubbedAnswer>,
    /// What clients get instead, if the answer is withheld.
    instead: Option<Arc<ScrubbedAnswer>>,
}

impl Service {
    /// Returns the sink for lookup outcomes.
    pub fn completion(self: &Arc<Self>) -> LookupCompletion {
        self.completion_by(|_| unix_now())
    }

    /// Like [`completion`](Self::completion), with `wall` as the validation clock.
    pub fn completion_by(
        self: &Arc<Self>,
        wall: impl Fn(Instant) -> UnixTime + Send + 'static,
    ) -> LookupCompletion {
        LookupCompletion::new(Arc::clone(self), Box::new(wall))
    }
}

impl LookupCompletion {
    fn new(service: Arc<Service>, wall: Box<Clock>) -> Self {
        LookupCompletion { service, wall, judged: None }
    }

    /// Returns the empty answer that clients get instead of a withheld one. Clients may be settled long after
    /// their lookup has ended, so each answer is also judged when a client receives it.
    fn instead_of(
        &mut self,
        policy: &Policy,
        query_key: &QueryKey,
        answer: &Arc<ScrubbedAnswer>,
    ) -> Option<Arc<ScrubbedAnswer>> {
        let private = policy.private.as_ref()?;
        match &self.judged {
            Some(judged) if Arc::ptr_eq(&judged.answer, answer) => judged.instead.clone(),
            _ => {
                let instead = private.offends(&answer.message).then(|| nothing(query_key));
                self.judged = Some(Judged { answer: Arc::clone(answer), instead: instead.clone() });
                instead
            }
        }
    }
}

/// Returns a NOERROR answer without records.
fn nothing(query_key: &QueryKey) -> Arc<ScrubbedAnswer> {
    let message = response(query_key, Rcode::NOERROR, [0; 3], &[]);
    Arc::new(ScrubbedAnswer {
        message: message.into(),
        rcode: Rcode::NOERROR,
        authentic: false,
        authoritative: false,
        negative_ttl: Some(Ttl::from_secs(WITHHELD_TTL)),
        leads_to: None,
        by: None,
        agent: None,
        referrals: Vec::new(),
    })
}

impl LookupSink for LookupCompletion {
    type Waiter = Waiter;

    fn ended(&mut self, query_key: &QueryKey, outcome: &LookupOutcome, now: Instant) {
        let policy = self.service.policy();
        let now = self.service.now(now);
        self.judged = None;
        match outcome {
            LookupOutcome::Answered(answer) => {
                self.service.stalled.answered(query_key);
                let instead = self.instead_of(&policy, query_key, answer);
                if instead.is_some() {
                    self.service.stats().withheld.add();
                }
                let answer = instead.as_ref().unwrap_or(answer);
                // The first part of a chain is not an answer by itself.
                if answer.leads_to.is_none() {
                    self.service.keep_received(&policy, query_key, answer, now);
                }
            }
            LookupOutcome::Failed(failure) if is_of_servers(*failure) => {
                self.service.keep_failure_of_servers(&policy, query_key, now);
            }
            LookupOutcome::Failed(_) => {}
        }
    }

    fn took_recursive(&mut self, zone: Name<'_>, server: SocketAddr, query_key: &QueryKey) {
        self.service.took_recursive(zone, server, query_key);
    }

    fn settle(&mut self, waiter: Waiter, outcome: LookupOutcome, now: Instant) {
        let (policy, at) = (self.service.policy(), now);
        let now = self.service.now(at);
        let waiting = match (waiter.kind, waiter.unchecked) {
            (WaiterKind::Validations(wanted), _) => return self.service.unvalidated.found(*wanted, outcome),
            (WaiterKind::Second(id), _) => return self.service.unvalidated.second(id, outcome),
            (kind, Some(unchecked)) => match self.fit_to_validate(&policy, &unchecked, &outcome, now) {
                Some(answer) => {
                    let at = Moment { cache: now, wall: (self.wall)(at) };
                    return self.service.validate(&policy, answer, *unchecked, kind, at);
                }
                None => match kind {
                    WaiterKind::Client(waiting) => waiting,
                    kind => return Waiter::new(kind).complete(outcome),
                },
            },
            (WaiterKind::Client(waiting), None) => waiting,
            (kind, None) => return Waiter::new(kind).complete(outcome),
        };
        let (piece, leads_to) = match outcome {
            LookupOutcome::Answered(answer) => {
                let instead = self.instead_of(&policy, &waiting.query_state.next, &answer);
                let info = instead.as_ref().map(|_| ErrorInfo::FILTERED);
                let answer = instead.as_ref().unwrap_or(&answer);
                let cache_view = self.service.cache_view(&policy, &waiting.query_state.next);
                let is_unchecked = !waiting.query_state.next.checking_disabled && instead.is_none();
                if is_unchecked && cache_view.is_some_and(|cache_view| cache_view.validates) {
                    // Validation was switched on after the request was sent.
                    return self.service.ask(&policy, waiting, false, now);
                }
                let trusts_ad = cache_view.is_some_and(CacheView::trusts_ad);
                (Piece { info, ..Piece::shared(answer, trusts_ad) }, answer.leads_to)
            }
            LookupOutcome::Failed(failure) => {
                let agent = waiting.query_state.budget.take_agent();
                return self.service.fail(&policy, waiting, failure, agent.as_deref(), now);
            }
        };
        self.service.resume(&policy, waiting, piece, leads_to, now);
    }
}

impl LookupCompletion {
    /// Returns the answer to validate before any client gets it. An answer that is withheld from all clients
    /// is not validated: its replacement goes into the cache.
    fn fit_to_validate(
        &mut self,
        policy: &Policy,
        unchecked: &Unchecked,
        outcome: &LookupOutcome,
        now: Now,
    ) -> Option<Arc<ScrubbedAnswer>> {
        let LookupOutcome::Answered(answer) = outcome else { return None };
        match self.instead_of(policy, &unchecked.query_key, answer) {
            None => Some(Arc::clone(answer)),
            Some(instead) => {
                let (message, ttl) = (&instead.message, instead.negative_ttl);
                self.service.keep(policy, &unchecked.query_key, message, ttl, now);
                None
            }
        }
    }
}
