//! Handles the end of a validation: counts it, caches the answer or failure, and delivers it to its waiter.

use std::sync::{Arc, Mutex};

use cache::Now;
use resolver::{AnsweredBy, LookupFailure, LookupOutcome, QueryKey, ReplyFault, ReportAgent, ScrubbedAnswer};
use validator::{BogusReason, Need, Security, Validated};
use wire::{NameBuf, Ttl};

use crate::failures::FailureCause;
use crate::jobs::Turn;
use crate::jobs::form::Form;
use crate::jobs::job::Job;
use crate::jobs::queue::Candidate;
use crate::jobs::state::{Finished, MAX_RECENT_VALIDATIONS, State};
use crate::message::{Message, Piece};
use crate::service::Service;
use crate::settings::Policy;
use crate::steps::refusal_of;
use crate::sync::lock;
use crate::waiter::{Verdict, Waiter, WaiterKind, Waiting};

impl Service {
    /// Counts and records a result, and delivers the answer to its waiters. `take` returns the first
    /// received answer and the waiters.
    pub(super) fn conclude(
        &self,
        turn: &Turn<'_>,
        job: Box<Job>,
        validated: Validated,
        take: impl FnOnce(&mut State) -> Option<(Arc<ScrubbedAnswer>, Vec<Candidate>)>,
    ) {
        self.record_result(turn, &job, &validated);
        let form = Mutex::new(Form::of(job.validator.response(), &validated));
        let Job { answer, query_key, asked, fault, .. } = *job;
        let mut state = lock(&self.validating);
        let Some((received, candidates)) = take(&mut state) else { return };
        let finished = Arc::new(Finished { received, answer, form, validated, asked });
        state.recent.truncate(MAX_RECENT_VALIDATIONS - 1);
        state.recent.push_front(Arc::clone(&finished));
        drop(state);
        let for_client = candidates.iter().any(|candidate| matches!(candidate.waiter, WaiterKind::Client(_)));
        for candidate in candidates {
            deliver(self, turn, &finished, candidate);
        }
        // Also if another server had a good answer: one of them has not, and no client will complain about
        // it.
        let fault = fault.filter(|reason| for_client && !matches!(reason, BogusReason::Limit(_)));
        if let (Some(reason), Some(agent)) = (fault, &finished.received.agent) {
            self.report(turn.policy, &query_key, reason.extended_error(), agent, turn.at.cache);
        }
    }

    /// Counts a result, and caches its proofs and failures for other queries.
    fn record_result(&self, turn: &Turn<'_>, job: &Job, validated: &Validated) {
        let stats = &self.stats().validation;
        match validated.security {
            Security::Secure => stats.secure.add(),
            Security::Insecure(_) => stats.insecure.add(),
            Security::Indeterminate => stats.indeterminate.add(),
            Security::Bogus(reason) => {
                stats.bogus.add();
                // Work beyond the limit of one query may be within that of the next.
                let ttl = match reason {
                    BogusReason::Limit(_) => {
                        stats.overspent.add();
                        None
                    }
                    _ => Some(validated.ttl),
                };
                self.remember_bogus(turn.policy, &job.query_key, reason, ttl, turn.at.cache);
            }
        }
        let Some(response) = job.validator.response() else { return };
        if let Some(ttl) = job.answer.negative_ttl {
            let ttl = ttl.min(validated.ttl);
            self.store_denial(turn.policy, &job.query_key, response, validated, ttl, turn.at.cache);
        }
        self.store_wildcards(turn.policy, &job.query_key, response, validated, turn.at.cache);
    }

    fn remember_bogus(
        &self,
        policy: &Policy,
        query_key: &QueryKey,
        reason: BogusReason,
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let failure = self.cache().config().failure;
        let seconds = ttl.map_or(failure.min, Ttl::as_secs).clamp(failure.min, failure.max);
        self.bogus.note(query_key, reason, now.plus(seconds));
        for dnssec_ok in [false, true] {
            let query_key = QueryKey { dnssec_ok, ..*query_key };
            self.keep_failure(policy, &query_key, ttl, now);
        }
    }

    /// Ends a waiter's query without an answer.
    pub(super) fn give_up(
        &self,
        policy: &Policy,
        waiter: WaiterKind,
        failure: LookupFailure,
        agent: Option<&ReportAgent>,
        now: Now,
    ) {
        match waiter {
            WaiterKind::Client(waiting) => self.fail(policy, waiting, failure, agent, now),
            waiter => Waiter::new(waiter).complete(LookupOutcome::Failed(failure)),
        }
    }

    /// Refuses a query whose validation exceeds the limit because it also paid for other answers.
    pub(super) fn refuse_overspent(
        &self,
        policy: &Policy,
        waiter: WaiterKind,
        reason: BogusReason,
        at: &NameBuf,
        now: Now,
    ) {
        match waiter {
            WaiterKind::Client(waiting) => {
                // The next name may not be at fault: the query name led to the cost.
                self.keep_failure_of_query(policy, &waiting.query_state, now);
                self.refuse_bogus(policy, waiting, reason, at, now);
            }
            // Callbacks ask for one answer only.
            waiter => drop(waiter),
        }
    }

    /// Refuses a query whose answer is bogus.
    pub(super) fn refuse_bogus(
        &self,
        policy: &Policy,
        waiting: Box<Waiting>,
        reason: BogusReason,
        at: &NameBuf,
        now: Now,
    ) {
        if waiting.query_state.rewrite.awaits_servers() {
            return self.resume_without_servers(policy, waiting, now);
        }
        self.failed(&waiting.query_state.next, FailureCause::Bogus { at, reason });
        waiting.responder.refuse(refusal_of(reason));
    }
}

/// Caches a validated answer, if it is not bogus, and delivers it to its waiter.
pub(super) fn deliver(service: &Service, turn: &Turn<'_>, finished: &Finished, candidate: Candidate) {
    let Finished { answer, form, validated, asked, .. } = finished;
    let (policy, now) = (turn.policy, turn.at.cache);
    let info = match validated.security {
        Security::Bogus(reason) => {
            return match candidate.waiter {
                WaiterKind::Client(waiting) => {
                    service.refuse_bogus(policy, waiting, reason, &validated.at, now)
                }
                waiter => call_back(waiter, answer, validated, asked),
            };
        }
        Security::Insecure(reason) => reason.extended_error(),
        Security::Secure | Security::Indeterminate => None,
    };
    let mut form = lock(form);
    let leads_to = form.leads_to(answer, validated);
    let negative_ttl = answer.negative_ttl.map(|ttl| form.cap(validated, ttl));
    let Ok((message, is_new)) = form.write(answer, validated, candidate.query_key.dnssec_ok) else {
        let failure = LookupFailure::BadReply(ReplyFault::Malformed);
        return service.give_up(policy, candidate.waiter, failure, answer.agent.as_deref(), now);
    };
    drop(form);
    // The first part of a chain is not an answer by itself.
    if is_new && leads_to.is_none() {
        service.keep(policy, &candidate.query_key, &message, negative_ttl, now);
    }
    match candidate.waiter {
        WaiterKind::Client(waiting) => {
            let piece = Piece {
                message: Message::Own(message),
                rcode: if leads_to.is_some() { wire::Rcode::NOERROR } else { answer.rcode },
                authentic: validated.security == Security::Secure,
                negative_ttl,
                stale: false,
                info,
                upstream: answer.by.and_then(AnsweredBy::server),
            };
            service.resume(policy, waiting, piece, leads_to, now);
        }
        waiter => call_back(waiter, answer, validated, asked),
    }
}

/// Passes the verdict to a callback.
fn call_back(waiter: WaiterKind, answer: &Arc<ScrubbedAnswer>, validated: &Validated, asked: &[Need]) {
    if let WaiterKind::Callback(callback) = waiter {
        let Validated { security, at, .. } = *validated;
        let verdict = Verdict { security, at, asked: asked.to_vec() };
        callback(LookupOutcome::Answered(Arc::clone(answer)), Some(verdict));
    }
}
