//! Delivers lookup outcomes to the cache and the waiting clients. Runs on the resolver's threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use cache::Now;
use engine::{Refusal, Responder};
use resolver::{
    LookupFailure, LookupOutcome, LookupRequest, LookupSink, QueryKey, ReplyFault, ReportAgent,
    ScrubbedAnswer, ShedReason,
};
use wire::edns::ErrorInfo;
use wire::{LowerNameBuf, Name, Rcode, Ttl};

use crate::cache_views::CacheView;
use crate::failures::FailureCause;
use crate::message::ReplyOptions;
use crate::policy::Policy;
use crate::query_state::{QueryState, Step, shared};
use crate::service::{Piece, Service};
use crate::validation::queue::Wanted;
use crate::validation::quota::ValidationQuota;
use crate::validation::{Moment, Unchecked, Verdict};

/// A waiter for the outcome of a lookup.
pub struct Waiter {
    who: Who,
    /// Set if the answer is to be validated: the original query.
    pub(crate) unchecked: Option<Box<Unchecked>>,
}

/// The kinds of waiters.
pub(crate) enum Who {
    /// No client: only the cache receives the answer. Validation is charged to this quota.
    Unattended(ValidationQuota),
    /// A client.
    Client(Box<Waiting>),
    /// A callback in this process.
    Callback(Box<OutcomeCallback>),
    /// A validation that needs the answer.
    Validations(Box<Wanted>),
    /// The number of a validation that needs a second answer, since the first was bogus.
    Second(u64),
}

/// Takes the outcome of a lookup and the verdict of validation.
pub(crate) type OutcomeCallback = dyn FnOnce(LookupOutcome, Option<Verdict>) + Send;

impl Waiter {
    pub(crate) fn new(who: Who) -> Self {
        Waiter { who, unchecked: None }
    }

    /// A waiter without a client; validation of its answer is charged to `quota`.
    pub(crate) fn unattended(quota: ValidationQuota) -> Self {
        Waiter::new(Who::Unattended(quota))
    }

    /// Returns the quota that validation is charged to.
    pub(crate) fn quota(&self) -> ValidationQuota {
        match &self.who {
            Who::Unattended(quota) => quota.clone(),
            Who::Client(waiting) => waiting.query_state.quota.clone(),
            Who::Callback(_) | Who::Validations(_) | Who::Second(_) => ValidationQuota::default(),
        }
    }

    /// A waiter that passes the outcome and, where answers are validated, the verdict to a callback.
    pub fn tell(told: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static) -> Self {
        Waiter::new(Who::Callback(Box::new(told)))
    }

    /// Calls the callback with the outcome, if the waiter is a callback.
    pub(crate) fn told(self, outcome: LookupOutcome) {
        if let Who::Callback(told) = self.who {
            told(outcome, None);
        }
    }
}

/// A waiting client.
pub(crate) struct Waiting {
    pub(crate) responder: Responder,
    pub(crate) query_state: QueryState,
}

/// How long a withheld answer is cached as NODATA, in seconds.
const WITHHELD_TTL: u32 = 60;

/// Returns the Unix time of an instant, in seconds.
type Clock = dyn Fn(Instant) -> u64 + Send;

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

impl LookupCompletion {
    pub(crate) fn new(service: Arc<Service>, wall: Box<Clock>) -> Self {
        LookupCompletion { service, wall, judged: None }
    }

    /// Returns the empty answer that clients get instead of a withheld one. Clients may be settled long after
    /// their lookup has ended, so each answer is also judged when it is handed out.
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
    let message = cache::message(
        Rcode::NOERROR,
        query_key.name.as_lower(),
        query_key.qtype,
        query_key.qclass,
        [0; 3],
        &[],
    );
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
        let waiting = match (waiter.who, waiter.unchecked) {
            (Who::Validations(wanted), _) => return self.service.unvalidated.found(*wanted, outcome),
            (Who::Second(id), _) => return self.service.unvalidated.second(id, outcome),
            (who, Some(unchecked)) => match self.fit_to_validate(&policy, &unchecked, &outcome, now) {
                Some(answer) => {
                    let at = Moment { cache: now, wall: (self.wall)(at) };
                    return self.service.validate(&policy, answer, *unchecked, who, at);
                }
                None => match who {
                    Who::Client(waiting) => waiting,
                    who => return Waiter::new(who).told(outcome),
                },
            },
            (Who::Client(waiting), None) => waiting,
            (who, None) => return Waiter::new(who).told(outcome),
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
                (Piece { info, ..shared(answer, trusts_ad) }, answer.leads_to)
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

impl Service {
    /// Sends the client's next query to the resolver. With a stale answer at hand the client waits a shorter
    /// time, and a later answer only goes into the cache (RFC 8767 §5).
    pub(crate) fn ask(&self, policy: &Policy, waiting: Box<Waiting>, stale: bool, now: Now) {
        let QueryState { next: query_key, client, .. } = waiting.query_state;
        let patience = policy.stale_after.filter(|_| stale);
        if patience.is_some() {
            let QueryState { budget, quota, .. } = &waiting.query_state;
            self.fetch(query_key, client, Some(budget.clone()), quota.clone());
        }
        let budget = Some(waiting.query_state.budget.clone());
        let request = LookupRequest {
            query_key,
            recursion_desired: true,
            client,
            patience,
            budget,
            other_than: None,
            trace: None,
            waiter: Waiter::new(Who::Client(waiting)),
        };
        if let Some(LookupRequest { waiter: Waiter { who: Who::Client(waiting), .. }, .. }) =
            self.request(request)
        {
            self.fail(policy, waiting, LookupFailure::Shed(ShedReason::Queue), None, now);
        }
    }

    /// Ends a client's query after a failed lookup, with a stale answer if there is one. Reports the failure
    /// to the agent, if the servers named one.
    pub(crate) fn fail(
        &self,
        policy: &Policy,
        waiting: Box<Waiting>,
        failure: LookupFailure,
        agent: Option<&ReportAgent>,
        now: Now,
    ) {
        let failed = waiting.query_state.next;
        self.tell_failure(policy, waiting, failure, now);
        if let (Some(agent), Some(error)) = (agent, refusal(failure).info) {
            self.report(policy, &failed, error, agent, now);
        }
    }

    fn tell_failure(&self, policy: &Policy, waiting: Box<Waiting>, failure: LookupFailure, now: Now) {
        if let Some(piece) = self.stale(policy, &waiting.query_state, now) {
            if piece.stale && is_of_servers(failure) {
                self.stalled.failed(&waiting.query_state.next, now, policy.stale_refresh);
            }
            return self.resume(policy, waiting, piece, None, now);
        }
        if let LookupFailure::Overspent(_) = failure {
            // The next name may not be at fault, and other clients may query it; the query name led to the
            // cost.
            self.keep_failure(policy, &waiting.query_state.asked, None, now);
        }
        self.failed(&waiting.query_state.next, FailureCause::Lookup(failure));
        waiting.responder.refuse(refusal(failure));
    }

    /// Continues a client's query with one more piece of its answer.
    pub(crate) fn resume(
        &self,
        policy: &Policy,
        mut waiting: Box<Waiting>,
        piece: Piece,
        leads_to: Option<LowerNameBuf>,
        now: Now,
    ) {
        let taken = self.take(policy, &mut waiting.query_state, piece, leads_to, now);
        match taken.unwrap_or_else(|| self.pursue(policy, &mut waiting.query_state, now)) {
            Step::Reply(reply) => {
                let Waiting { mut responder, query_state, .. } = *waiting;
                responder.set_upstream(query_state.upstream);
                let Some(reply_options) = responder.request().map(ReplyOptions::of) else { return };
                responder.resume(move |b| Ok(reply.write(reply_options, b)));
            }
            Step::Refuse(refusal) => waiting.responder.refuse(refusal),
            Step::Ask { stale } => self.ask(policy, waiting, stale, now),
        }
    }
}

/// Whether a failure is due to the upstream servers and likely persists, so that it is cached (RFC 9520 §2).
pub(crate) fn is_of_servers(failure: LookupFailure) -> bool {
    match failure {
        LookupFailure::TimedOut
        | LookupFailure::NoReply
        | LookupFailure::BadReply(_)
        | LookupFailure::Network(_)
        | LookupFailure::NoServers => true,
        LookupFailure::NoRecursion
        | LookupFailure::NoRule
        | LookupFailure::Shed(_)
        | LookupFailure::Overspent(_)
        | LookupFailure::NoOtherServer => false,
    }
}

/// Returns the response code and extended error for a failed lookup.
fn refusal(failure: LookupFailure) -> Refusal {
    let info = match failure {
        LookupFailure::NoRecursion | LookupFailure::NoRule => return Refusal::NOT_AUTHORITATIVE,
        LookupFailure::TimedOut
        | LookupFailure::NoReply
        | LookupFailure::NoServers
        | LookupFailure::NoOtherServer => ErrorInfo::NO_REACHABLE_AUTHORITY,
        LookupFailure::BadReply(ReplyFault::Rcode(_) | ReplyFault::Referral | ReplyFault::Lame) => {
            ErrorInfo::NO_REACHABLE_AUTHORITY
        }
        LookupFailure::Network(_) | LookupFailure::BadReply(ReplyFault::Truncated) => {
            ErrorInfo::NETWORK_ERROR
        }
        LookupFailure::BadReply(_) => ErrorInfo::INVALID_DATA,
        LookupFailure::Shed(_) | LookupFailure::Overspent(_) => ErrorInfo::OTHER,
    };
    Refusal::because(Rcode::SERVFAIL, info)
}
