//! Waiting clients: the lookups that they need, and how their queries end.

use cache::Now;
use query_path::Refusal;
use resolver::{LookupFailure, LookupRequest, NetworkFault, ReplyFault, ReportAgent, ShedReason};
use wire::edns::ErrorInfo;
use wire::{LowerNameBuf, Rcode};

use crate::failures::FailureCause;
use crate::message::{Piece, ReplyOptions};
use crate::query_state::QueryState;
use crate::service::Service;
use crate::settings::Policy;
use crate::steps::Step;
use crate::waiter::{Waiter, WaiterKind, Waiting};

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
        let QueryState { budget, rewrite, .. } = &waiting.query_state;
        let budget = Some(if rewrite.awaits_servers() { &rewrite.budget } else { budget }.clone());
        let waiter = Waiter::new(WaiterKind::Client(waiting));
        let request = LookupRequest { patience, budget, ..LookupRequest::new(query_key, client, waiter) };
        if let Some(LookupRequest { waiter: Waiter { kind: WaiterKind::Client(waiting), .. }, .. }) =
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
        mut waiting: Box<Waiting>,
        failure: LookupFailure,
        agent: Option<&ReportAgent>,
        now: Now,
    ) {
        let query_state = &mut waiting.query_state;
        if failure == LookupFailure::NoRule
            && !query_state.next.partition.is_shared()
            && !query_state.is_retried
        {
            // Its rules have changed just now. The resolver takes new ones before it begins this lookup
            // again.
            query_state.is_retried = true;
            return self.go_on(policy, waiting, None, now);
        }
        if waiting.query_state.rewrite.awaits_servers() {
            return self.resume_without_servers(policy, waiting, now);
        }
        let failed = waiting.query_state.next;
        self.end_failed(policy, waiting, failure, now);
        if let (Some(agent), Some(error)) = (agent, refusal(failure).info) {
            self.report(policy, &failed, error, agent, now);
        }
    }

    fn end_failed(&self, policy: &Policy, mut waiting: Box<Waiting>, failure: LookupFailure, now: Now) {
        if let Some(piece) = self.stale(policy, &waiting.query_state, now) {
            if piece.stale && is_of_servers(failure) {
                self.stalled.failed(&waiting.query_state.next, now, policy.stale_refresh);
            }
            return self.resume(policy, waiting, piece, None, now);
        }
        if let LookupFailure::Overspent(_) = failure {
            // The next name may not be at fault, and other clients may query it; the query name led to the
            // cost.
            self.keep_failure_of_query(policy, &waiting.query_state, now);
        }
        self.failed(&waiting.query_state.next, FailureCause::Lookup(failure));
        if let LookupFailure::Network(NetworkFault::Encryption(fault)) = failure {
            waiting.responder.set_error_text(fault.text());
        }
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
        self.go_on(policy, waiting, taken, now);
    }

    /// Carries out a step of a client's query, or the next one.
    pub(crate) fn go_on(&self, policy: &Policy, mut waiting: Box<Waiting>, taken: Option<Step>, now: Now) {
        let step = taken.unwrap_or_else(|| self.next_step(policy, &mut waiting.query_state, now));
        let rewrite = &waiting.query_state.rewrite;
        let rule = if matches!(step, Step::Ask { .. }) { rewrite.rule } else { policy.counted(rewrite) };
        waiting.responder.set_rule(rule);
        match step {
            Step::Reply(reply) => {
                let Waiting { mut responder, query_state, .. } = *waiting;
                responder.set_upstream(query_state.upstream);
                let Some(reply_options) = responder.request().map(ReplyOptions::of) else { return };
                responder.resume(move |b| Ok(reply.write(reply_options, b)));
            }
            Step::Refuse(refusal) => waiting.responder.refuse(refusal),
            Step::NoReply => waiting.responder.withhold(),
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
