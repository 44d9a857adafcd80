//! Where the outcomes of lookups go: into the cache, and to the clients who wait. Runs on the threads that ask other
//! servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use cache::Now;
use engine::{Refusal, Ticket};
use resolver::{
    Answer, Inquiry, LookupFailure, LookupOutcome, LookupRequest, Outlet, ReplyFault, ReportAgent, ShedReason,
};
use wire::edns::ErrorInfo;
use wire::{LowerNameBuf, Name, Rcode, Ttl};

use crate::failures::FailureCause;
use crate::message::Wishes;
use crate::policy::Policy;
use crate::pursuit::{Pursuit, Step, shared};
use crate::realms::Realm;
use crate::service::{Piece, Service};
use crate::validation::effort::Effort;
use crate::validation::queue::Wanted;
use crate::validation::{Moment, Unchecked, Verdict};

/// A waiter for the outcome of a lookup.
pub struct Waiter {
    who: Who,
    /// Set where an answer is validated first: what was really asked.
    pub(crate) unchecked: Option<Box<Unchecked>>,
}

/// Who that is.
pub(crate) enum Who {
    /// No client: only the cache gets the answer. Its validation is paid from this.
    Unattended(Effort),
    /// A client.
    Client(Box<Waiting>),
    /// A callback in this program.
    Told(Box<Told>),
    /// A validation that needs it.
    Validations(Box<Wanted>),
    /// A validation that needs a second answer, since the first is bogus: its number.
    Second(u64),
}

/// Takes the outcome of a lookup, and what validating has found.
pub(crate) type Told = dyn FnOnce(LookupOutcome, Option<Verdict>) + Send;

impl Waiter {
    pub(crate) fn new(who: Who) -> Self {
        Waiter { who, unchecked: None }
    }

    /// A waiter without a client; the validation of its answer is paid from this.
    pub(crate) fn unattended(effort: Effort) -> Self {
        Waiter::new(Who::Unattended(effort))
    }

    /// What validating takes is paid from this.
    pub(crate) fn effort(&self) -> Effort {
        match &self.who {
            Who::Unattended(effort) => effort.clone(),
            Who::Client(waiting) => waiting.pursuit.effort.clone(),
            Who::Told(_) | Who::Validations(_) | Who::Second(_) => Effort::default(),
        }
    }

    /// A waiter that passes the outcome to a callback in this program and, where answers are validated, the
    /// verdict.
    pub fn tell(told: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static) -> Self {
        Waiter::new(Who::Told(Box::new(told)))
    }

    /// Tells the outcome, if that is what is waited for.
    pub(crate) fn told(self, outcome: LookupOutcome) {
        if let Who::Told(told) = self.who {
            told(outcome, None);
        }
    }
}

/// A client who waits.
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) pursuit: Pursuit,
}

/// How long a withheld answer is remembered as none, in seconds.
const WITHHELD_TTL: u32 = 60;

/// Says how many seconds since 1970 it is at a moment.
type Clock = dyn Fn(Instant) -> u64 + Send;

/// Takes the outcomes of lookups.
pub struct Settler {
    service: Arc<Service>,
    wall: Box<Clock>,
    /// The answer that was judged last: most clients who wait for one get it one after the other.
    judged: Option<Judged>,
}

/// An answer, and what clients get.
struct Judged {
    answer: Arc<Answer>,
    /// What they get in its place, if they may not have it.
    instead: Option<Arc<Answer>>,
}

impl Settler {
    pub(crate) fn new(service: Arc<Service>, wall: Box<Clock>) -> Self {
        Settler { service, wall, judged: None }
    }

    /// What clients get in place of an answer that they may not have: one without any records. Clients may be settled long
    /// after their lookup has ended, so each answer is judged where it is handed out, too.
    fn instead_of(
        &mut self,
        policy: &Policy,
        inquiry: &Inquiry,
        answer: &Arc<Answer>,
    ) -> Option<Arc<Answer>> {
        let private = policy.private.as_ref()?;
        match &self.judged {
            Some(judged) if Arc::ptr_eq(&judged.answer, answer) => judged.instead.clone(),
            _ => {
                let instead = private.offends(&answer.message).then(|| nothing(inquiry));
                self.judged = Some(Judged { answer: Arc::clone(answer), instead: instead.clone() });
                instead
            }
        }
    }
}

/// An answer without records.
fn nothing(inquiry: &Inquiry) -> Arc<Answer> {
    let message =
        cache::message(Rcode::NOERROR, inquiry.name.as_lower(), inquiry.qtype, inquiry.qclass, [0; 3], &[]);
    Arc::new(Answer {
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

impl Outlet for Settler {
    type Waiter = Waiter;

    fn ended(&mut self, inquiry: &Inquiry, outcome: &LookupOutcome, now: Instant) {
        let policy = self.service.policy();
        let now = self.service.now(now);
        self.judged = None;
        match outcome {
            LookupOutcome::Answered(answer) => {
                self.service.stalled.answered(inquiry);
                let instead = self.instead_of(&policy, inquiry, answer);
                if instead.is_some() {
                    self.service.stats().withheld.add();
                }
                let answer = instead.as_ref().unwrap_or(answer);
                // The beginning of a chain is no answer by itself.
                if answer.leads_to.is_none() {
                    self.service.keep_received(&policy, inquiry, answer, now);
                }
            }
            LookupOutcome::Failed(failure) if is_of_servers(*failure) => {
                self.service.keep_failure_of_servers(&policy, inquiry, now);
            }
            LookupOutcome::Failed(_) => {}
        }
    }

    fn took_recursive(&mut self, zone: Name<'_>, server: SocketAddr, inquiry: &Inquiry) {
        self.service.took_recursive(zone, server, inquiry);
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
                let instead = self.instead_of(&policy, &waiting.pursuit.next, &answer);
                let info = instead.as_ref().map(|_| ErrorInfo::FILTERED);
                let answer = instead.as_ref().unwrap_or(&answer);
                let realm = self.service.realm(&policy, &waiting.pursuit.next);
                let is_unchecked = !waiting.pursuit.next.checking_disabled && instead.is_none();
                if is_unchecked && realm.is_some_and(|realm| realm.validates) {
                    // It was asked for when nothing was validated yet.
                    return self.service.ask(&policy, waiting, false, now);
                }
                let trusts_ad = realm.is_some_and(Realm::trusts_ad);
                (Piece { info, ..shared(answer, trusts_ad) }, answer.leads_to)
            }
            LookupOutcome::Failed(failure) => {
                let agent = waiting.pursuit.budget.take_agent();
                return self.service.fail(&policy, waiting, failure, agent.as_deref(), now);
            }
        };
        self.service.resume(&policy, waiting, piece, leads_to, now);
    }
}

impl Settler {
    /// Returns the answer to validate before any client gets it. An answer that is withheld from all clients
    /// is not validated: its replacement goes into the cache.
    fn fit_to_validate(
        &mut self,
        policy: &Policy,
        unchecked: &Unchecked,
        outcome: &LookupOutcome,
        now: Now,
    ) -> Option<Arc<Answer>> {
        let LookupOutcome::Answered(answer) = outcome else { return None };
        match self.instead_of(policy, &unchecked.inquiry, answer) {
            None => Some(Arc::clone(answer)),
            Some(instead) => {
                let (message, ttl) = (&instead.message, instead.negative_ttl);
                self.service.keep(policy, &unchecked.inquiry, message, ttl, now);
                None
            }
        }
    }
}

impl Service {
    /// Has the next question of a client asked; with an old answer at hand it waits for a shorter time, and what comes later
    /// is for the cache (RFC 8767 §5).
    pub(crate) fn ask(&self, policy: &Policy, waiting: Box<Waiting>, stale: bool, now: Now) {
        let Pursuit { next: inquiry, client, .. } = waiting.pursuit;
        let patience = policy.stale_after.filter(|_| stale);
        if patience.is_some() {
            let Pursuit { budget, effort, .. } = &waiting.pursuit;
            self.fetch(inquiry, client, Some(budget.clone()), effort.clone());
        }
        let budget = Some(waiting.pursuit.budget.clone());
        let request = LookupRequest {
            inquiry,
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

    /// A client's question came to nothing; an old answer will do, if there is one. If the servers have named
    /// an agent for that, the failure is reported to it.
    pub(crate) fn fail(
        &self,
        policy: &Policy,
        waiting: Box<Waiting>,
        failure: LookupFailure,
        agent: Option<&ReportAgent>,
        now: Now,
    ) {
        let failed = waiting.pursuit.next;
        self.tell_failure(policy, waiting, failure, now);
        if let (Some(agent), Some(error)) = (agent, refusal(failure).info) {
            self.report(policy, &failed, error, agent, now);
        }
    }

    fn tell_failure(&self, policy: &Policy, waiting: Box<Waiting>, failure: LookupFailure, now: Now) {
        if let Some(piece) = self.stale(policy, &waiting.pursuit, now) {
            if piece.stale && is_of_servers(failure) {
                self.stalled.failed(&waiting.pursuit.next, now, policy.stale_refresh);
            }
            return self.resume(policy, waiting, piece, None, now);
        }
        if let LookupFailure::Overspent(_) = failure {
            // The name that comes next may be innocent: others can ask for it. The one that was asked led to all that.
            self.keep_failure(policy, &waiting.pursuit.asked, None, now);
        }
        self.failed(&waiting.pursuit.next, FailureCause::Lookup(failure));
        waiting.ticket.refuse(refusal(failure));
    }

    /// Goes on with a client's question, of which one more piece is known.
    pub(crate) fn resume(
        &self,
        policy: &Policy,
        mut waiting: Box<Waiting>,
        piece: Piece,
        leads_to: Option<LowerNameBuf>,
        now: Now,
    ) {
        let taken = self.take(policy, &mut waiting.pursuit, piece, leads_to, now);
        match taken.unwrap_or_else(|| self.pursue(policy, &mut waiting.pursuit, now)) {
            Step::Reply(reply) => {
                let Waiting { mut ticket, pursuit, .. } = *waiting;
                ticket.set_upstream(pursuit.upstream);
                let Some(wishes) = ticket.request().map(Wishes::of) else { return };
                ticket.resume(move |b| Ok(reply.write(wishes, b)));
            }
            Step::Refuse(refusal) => waiting.ticket.refuse(refusal),
            Step::Ask { stale } => self.ask(policy, waiting, stale, now),
        }
    }
}

/// Whether a failure is one of the servers that were asked, which will not be better in an instant (RFC 9520 §2).
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

/// The refusal that a client gets for a failure.
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
