//! Where the outcomes of lookups go: into the cache, and to the clients who wait. Runs on the threads that ask other
//! servers.

use std::sync::Arc;
use std::time::Instant;

use cache::Now;
use engine::{Refusal, Ticket};
use resolver::{Answer, Inquiry, LookupFailure, LookupOutcome, LookupRequest, Outlet, ReplyFault};
use wire::edns::ErrorInfo;
use wire::{LowerNameBuf, Rcode, Ttl};

use crate::message::{Wishes, assemble};
use crate::policy::Policy;
use crate::pursuit::{Pursuit, Step, shared};
use crate::service::{Piece, Service};

/// Whoever waits for the outcome of a lookup.
pub struct Waiter(Who);

enum Who {
    /// Nobody: the cache is all that is to have it.
    Nobody,
    /// A client.
    Client(Box<Waiting>),
    /// Somebody in this program.
    Told(Box<dyn FnOnce(LookupOutcome) + Send>),
}

impl Waiter {
    /// Nobody waits.
    pub(crate) fn nobody() -> Self {
        Waiter(Who::Nobody)
    }

    /// Tells somebody in this program.
    pub fn tell(told: impl FnOnce(LookupOutcome) + Send + 'static) -> Self {
        Waiter(Who::Told(Box::new(told)))
    }
}

/// A client who waits.
pub(crate) struct Waiting {
    pub(crate) ticket: Ticket,
    pub(crate) pursuit: Pursuit,
}

/// How long a withheld answer is remembered as none, in seconds.
const WITHHELD_TTL: u32 = 60;

/// Takes the outcomes of lookups.
pub struct Settler {
    service: Arc<Service>,
    /// Of the lookup that ended last.
    withheld: Option<Withheld>,
}

/// An answer that no client gets.
struct Withheld {
    answer: Arc<Answer>,
    /// What clients get.
    instead: Arc<Answer>,
}

impl Settler {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        Settler { service, withheld: None }
    }

    /// An answer without the records that may not be in it: none at all.
    fn withhold(&mut self, inquiry: &Inquiry, answer: &Arc<Answer>) -> Arc<Answer> {
        self.service.stats().withheld.add();
        let question = (inquiry.qtype, inquiry.qclass);
        let message = assemble(inquiry.name.as_lower(), question, Rcode::NOERROR, [0; 3], &[]);
        let ttl = Some(Ttl::from_secs(WITHHELD_TTL));
        let instead = Arc::new(Answer {
            message: message.into(),
            rcode: Rcode::NOERROR,
            authentic: false,
            authoritative: false,
            negative_ttl: ttl,
            leads_to: None,
        });
        self.withheld = Some(Withheld { answer: Arc::clone(answer), instead: Arc::clone(&instead) });
        instead
    }
}

impl Outlet for Settler {
    type Waiter = Waiter;

    fn ended(&mut self, inquiry: &Inquiry, outcome: &LookupOutcome) {
        let policy = self.service.policy();
        let now = self.service.now(Instant::now());
        self.withheld = None;
        match outcome {
            LookupOutcome::Answered(answer) => {
                let answer = match &policy.private {
                    Some(private) if private.offends(&answer.message) => self.withhold(inquiry, answer),
                    _ => Arc::clone(answer),
                };
                // The beginning of a chain is no answer by itself.
                if answer.leads_to.is_none() {
                    self.service.keep(&policy, inquiry, &answer.message, answer.negative_ttl, now);
                }
            }
            LookupOutcome::Failed(failure) if is_of_servers(*failure) => {
                self.service.keep_failure(&policy, inquiry, now);
            }
            LookupOutcome::Failed(_) => {}
        }
    }

    fn settle(&mut self, waiter: Waiter, outcome: LookupOutcome) {
        let waiting = match waiter.0 {
            Who::Nobody => return,
            Who::Told(told) => return told(outcome),
            Who::Client(waiting) => waiting,
        };
        let (service, policy) = (&self.service, self.service.policy());
        let now = service.now(Instant::now());
        let (piece, leads_to) = match outcome {
            LookupOutcome::Answered(answer) => {
                let withheld =
                    self.withheld.as_ref().filter(|withheld| Arc::ptr_eq(&withheld.answer, &answer));
                let info = withheld.map(|_| ErrorInfo::FILTERED);
                let answer = withheld.map_or(&answer, |withheld| &withheld.instead);
                let trust_ad = service.trusts_ad(&policy, &waiting.pursuit.next);
                (Piece { info, ..shared(answer, trust_ad) }, answer.leads_to)
            }
            LookupOutcome::Failed(failure) => match service.stale(&policy, &waiting.pursuit.next, now) {
                Some(piece) => (piece, None),
                None => {
                    service.stats().failures.add();
                    return waiting.ticket.refuse(refusal(failure));
                }
            },
        };
        service.resume(&policy, waiting, piece, leads_to, now);
    }
}

impl Service {
    /// Has the next question of a client asked; with an old answer at hand it waits for a shorter time, and what comes later
    /// is for the cache (RFC 8767 §5).
    pub(crate) fn ask(&self, policy: &Policy, waiting: Box<Waiting>, stale: bool) {
        let Pursuit { next: inquiry, client, .. } = waiting.pursuit;
        let patience = policy.stale_after.filter(|_| stale);
        if patience.is_some() {
            self.fetch(inquiry, client);
        }
        let waiter = Waiter(Who::Client(waiting));
        self.request(LookupRequest {
            inquiry,
            recursion_desired: true,
            client,
            patience,
            trace: None,
            waiter,
        });
    }

    /// Goes on with a client's question, of which one more piece is known.
    fn resume(
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
                let Waiting { ticket, .. } = *waiting;
                let Some(wishes) = ticket.request().map(Wishes::of) else { return };
                ticket.resume(move |b| Ok(reply.write(wishes, b)));
            }
            Step::Refuse(refusal) => waiting.ticket.refuse(refusal),
            Step::Ask { stale } => self.ask(policy, waiting, stale),
        }
    }
}

/// Whether a failure is one of the servers that were asked, which will not be better in an instant (RFC 9520 §2).
fn is_of_servers(failure: LookupFailure) -> bool {
    match failure {
        LookupFailure::TimedOut | LookupFailure::NoReply | LookupFailure::BadReply(_) => true,
        LookupFailure::NoRecursion | LookupFailure::NoRule | LookupFailure::Shed(_) => false,
    }
}

/// In which words a client is told of a failure.
fn refusal(failure: LookupFailure) -> Refusal {
    let info = match failure {
        LookupFailure::NoRecursion | LookupFailure::NoRule => return Refusal::NOT_AUTHORITATIVE,
        LookupFailure::TimedOut | LookupFailure::NoReply => ErrorInfo::NO_REACHABLE_AUTHORITY,
        LookupFailure::BadReply(ReplyFault::Rcode(_) | ReplyFault::Referral) => {
            ErrorInfo::NO_REACHABLE_AUTHORITY
        }
        LookupFailure::BadReply(ReplyFault::Truncated) => ErrorInfo::NETWORK_ERROR,
        LookupFailure::BadReply(_) => ErrorInfo::INVALID_DATA,
        LookupFailure::Shed(_) => ErrorInfo::OTHER,
    };
    Refusal::because(Rcode::SERVFAIL, info)
}
