//! Answers are validated here before anybody gets them. Nothing of that is done on the query path, nor on the thread that asks
//! other servers: [`Validations`] is for a thread of its own, and answers come to it by a [`Queue`](queue::Queue).
//!
//! ```text
//!     settler ──▶ queue ──▶ Validations ──▶ cache, clients
//!        ▲                       │ DS and DNSKEY
//!        └──── other servers ◀───┘
//! ```
//!
//! Clients who wait for the same answer share one validation. Those that need the same DS or DNSKEY share the question for
//! it; the one that came first pays.

pub(crate) mod bogus;
mod form;
pub(crate) mod queue;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cache::Now;
use dnssec::{
    BogusReason, Need, Progress, Response, Security, TrustTable, Validated, Validation, ValidationBudget,
    Validator,
};
use resolver::{
    Answer, Budget, ClientPrefix, Inquiry, LookupFailure, LookupOutcome, LookupRequest, ReplyFault,
    ShedReason,
};
use wire::{Class, LowerNameBuf, NameBuf, Ttl, Type};

use crate::message::Message;
use crate::policy::{Policy, ValidationConfig};
use crate::pursuit::refusal_of;
use crate::service::{Piece, Service};
use crate::settler::{Waiter, Waiting, Who, is_of_servers};
use crate::stats::ValidationStats;
use form::Form;
use queue::{Candidate, Task};

/// What a client really asked, whose answer is validated before it gets it.
pub(crate) struct Unchecked {
    /// The question, with CD clear.
    pub(crate) inquiry: Inquiry,
    /// Where the client is.
    pub(crate) client: ClientPrefix,
    /// What DS and DNSKEY are paid from.
    pub(crate) budget: Budget,
}

/// What validating an answer has found, for a person who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its state.
    pub security: Security,
    /// The name whose records decided: where the chain broke, or where it is insecure.
    pub at: NameBuf,
    /// The DS and DNSKEY that had to be asked for, in order.
    pub asked: Vec<Need>,
}

/// Answers whose validation is remembered for clients who are settled later than others.
const RECENT: usize = 16;

/// Answers being validated, and what is known of the keys of zones.
pub struct Validations {
    service: Arc<Service>,
    /// What the table goes by.
    config: ValidationConfig,
    table: TrustTable,
    jobs: HashMap<u64, Job>,
    /// The jobs by the address of the answer, which each of them holds.
    by_answer: HashMap<usize, u64>,
    /// The jobs that need something, the one first that asked for it.
    needed: HashMap<(LowerNameBuf, Type), Vec<u64>>,
    recent: VecDeque<Finished>,
    /// The number that a job had last.
    last: u64,
}

/// An answer being validated.
struct Job {
    answer: Arc<Answer>,
    inquiry: Inquiry,
    client: ClientPrefix,
    validator: Validator,
    budget: ValidationBudget,
    /// Signatures verified when it began, and those of them that were not good.
    before: [u32; 2],
    paid: Budget,
    asked: Vec<Need>,
    candidates: Vec<Candidate>,
}

/// An answer that was validated.
struct Finished {
    answer: Arc<Answer>,
    form: Form,
    validated: Validated,
    asked: Vec<Need>,
}

/// When something happens.
#[derive(Clone, Copy)]
struct Moment {
    cache: Now,
    /// Seconds since 1970.
    wall: u64,
}

impl Service {
    /// Has an answer validated, and then handed to whoever waits for it.
    pub(crate) fn validate(
        &self,
        policy: &Policy,
        answer: Arc<Answer>,
        unchecked: Unchecked,
        who: Who,
        now: Now,
    ) {
        let Unchecked { inquiry, client, budget } = unchecked;
        let config = &policy.validation;
        match self.unvalidated.place(client, config.waiting, config.waiting_of_network) {
            Some(place) => {
                self.unvalidated.put(Candidate { answer, inquiry, client, budget, who, _place: place });
            }
            None => {
                self.stats().validation.shed.add();
                self.give_up(policy, who, LookupFailure::Shed(ShedReason::Queue), now);
            }
        }
    }

    /// Whoever waits for an answer gets none.
    fn give_up(&self, policy: &Policy, who: Who, failure: LookupFailure, now: Now) {
        match who {
            Who::Client(waiting) => self.fail(policy, waiting, failure, now),
            who => Waiter::new(who).told(LookupOutcome::Failed(failure)),
        }
    }

    /// The answer to a client's question is bogus.
    fn refuse_bogus(&self, waiting: Box<Waiting>, reason: BogusReason, at: &NameBuf) {
        self.stats().failures.add();
        self.failed(&waiting.pursuit.next, &format_args!("bogus at {at}: {reason}"));
        waiting.ticket.refuse(refusal_of(reason));
    }
}

impl Validations {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        let config = service.policy().validation.clone();
        Validations {
            service,
            table: TrustTable::new(config.names),
            config,
            jobs: HashMap::new(),
            by_answer: HashMap::new(),
            needed: HashMap::new(),
            recent: VecDeque::new(),
            last: 0,
        }
    }

    /// Validates what comes, until [`Service::stop_validating`] is called.
    pub fn run(&mut self) {
        let service = Arc::clone(&self.service);
        while let Some(task) = service.unvalidated.wait() {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
            self.take(task, Instant::now(), wall);
        }
    }

    /// Does what there is to do `now`, at `wall` seconds since 1970, and returns.
    pub fn work(&mut self, now: Instant, wall: u64) {
        let service = Arc::clone(&self.service);
        while let Some(task) = service.unvalidated.next() {
            self.take(task, now, wall);
        }
    }

    fn take(&mut self, task: Task, now: Instant, wall: u64) {
        let at = Moment { cache: self.service.now(now), wall };
        let policy = self.service.policy();
        if policy.validation != self.config {
            // What was learned goes by other anchors or settings.
            self.config = policy.validation.clone();
            self.table = TrustTable::new(self.config.names);
            self.recent.clear();
        }
        match task {
            Task::Validate(candidate) => self.begin(&policy, *candidate, at),
            Task::Found(need, outcome) => self.found(&policy, need, outcome, at),
            Task::Forget(name) => {
                self.table.forget(name.as_name());
                self.recent.clear();
            }
        }
    }

    fn stats(&self) -> &ValidationStats {
        &self.service.stats().validation
    }

    /// Begins with an answer, unless others have brought it already.
    fn begin(&mut self, policy: &Policy, mut candidate: Candidate, at: Moment) {
        let finished = self.recent.iter_mut().find(|known| Arc::ptr_eq(&known.answer, &candidate.answer));
        if let Some(finished) = finished {
            return hand_over(&self.service, policy, finished, candidate, at.cache);
        }
        let address = Arc::as_ptr(&candidate.answer) as usize;
        let known = self.by_answer.get(&address).and_then(|id| self.jobs.get_mut(id));
        if let Some(job) = known {
            job.candidates.push(candidate);
            return;
        }
        let Ok(response) = Response::read(&candidate.answer.message, candidate.answer.rcode) else {
            let failure = LookupFailure::BadReply(ReplyFault::Malformed);
            return self.service.give_up(policy, candidate.who, failure, at.cache);
        };
        let left = match &mut candidate.who {
            Who::Client(waiting) => waiting.pursuit.effort.take(),
            _ => None,
        };
        let budget = left.unwrap_or_else(|| ValidationBudget::new(self.config.limits));
        self.last += 1;
        let job = Job {
            answer: Arc::clone(&candidate.answer),
            inquiry: candidate.inquiry,
            client: candidate.client,
            validator: Validator::answer(response),
            before: [budget.signatures(), budget.failures()],
            budget,
            paid: candidate.budget.for_proofs(),
            asked: Vec::new(),
            candidates: vec![candidate],
        };
        self.by_answer.insert(address, self.last);
        self.jobs.insert(self.last, job);
        self.go_on(policy, self.last, at);
    }

    /// Goes on with a job as far as it can be gone.
    fn go_on(&mut self, policy: &Policy, id: u64, at: Moment) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let by = Validation { settings: &self.config.settings, anchors: &self.config.anchors, now: at.wall };
        match job.validator.step(&by, &mut self.table, &mut job.budget) {
            Progress::Done(validated) => self.done(policy, id, validated, at),
            Progress::Need(need) => {
                job.asked.push(need);
                let others = self.needed.entry((need.name().to_lower(), need.rtype())).or_default();
                others.push(id);
                if others.len() == 1 {
                    self.ask(policy, id, need, at);
                }
            }
        }
    }

    /// Asks for what a job needs.
    fn ask(&self, policy: &Policy, id: u64, need: Need, at: Moment) {
        let Some(job) = self.jobs.get(&id) else { return };
        let inquiry = Inquiry {
            name: need.name().to_lower(),
            qtype: need.rtype(),
            qclass: Class::IN,
            dnssec_ok: true,
            checking_disabled: true,
        };
        let failed = |failure| self.service.unvalidated.found(need, LookupOutcome::Failed(failure));
        if self.service.has_failed(policy, &inquiry, at.cache) {
            return failed(LookupFailure::NoReply);
        }
        self.stats().fetches.add();
        let request = LookupRequest {
            inquiry,
            recursion_desired: true,
            client: job.client,
            patience: None,
            budget: Some(job.paid.clone()),
            trace: None,
            waiter: Waiter::new(Who::Validations(Box::new(need))),
        };
        if self.service.request(request).is_some() {
            failed(LookupFailure::Shed(ShedReason::Queue));
        }
    }

    /// DS or DNSKEY came, or could not be had.
    fn found(&mut self, policy: &Policy, need: Need, outcome: LookupOutcome, at: Moment) {
        let key = (need.name().to_lower(), need.rtype());
        let ids = self.needed.remove(&key).unwrap_or_default();
        let read = match outcome {
            LookupOutcome::Answered(answer) => Response::read(&answer.message, answer.rcode)
                .map_err(|_| LookupFailure::BadReply(ReplyFault::Malformed)),
            LookupOutcome::Failed(failure) => Err(failure),
        };
        let response = match read {
            Ok(response) => response,
            Err(failure) => return self.not_found(policy, ids, failure, at),
        };
        for id in ids {
            // Another has learned from it already, most likely, and this one needs it no more.
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let by =
                Validation { settings: &self.config.settings, anchors: &self.config.anchors, now: at.wall };
            let next = job.validator.step(&by, &mut self.table, &mut job.budget);
            if next == Progress::Need(need) {
                job.validator.receive(response.clone(), &by, &mut self.table);
            }
            self.go_on(policy, id, at);
        }
    }

    /// What some jobs need cannot be had. If that was for want of means of the one that asked, others ask again.
    fn not_found(&mut self, policy: &Policy, ids: Vec<u64>, failure: LookupFailure, at: Moment) {
        let own = matches!(failure, LookupFailure::Overspent(_) | LookupFailure::Shed(_));
        for (number, id) in ids.into_iter().enumerate() {
            match own && number > 0 {
                true => self.go_on(policy, id, at),
                false => self.fail(policy, id, failure, at),
            }
        }
    }

    /// A job cannot be finished.
    fn fail(&mut self, policy: &Policy, id: u64, failure: LookupFailure, at: Moment) {
        let Some(job) = self.remove(id) else { return };
        self.stats().unfinished.add();
        for dnssec_ok in [false, true].into_iter().filter(|_| is_of_servers(failure)) {
            let inquiry = Inquiry { dnssec_ok, ..job.inquiry };
            self.service.keep_failure(policy, &inquiry, None, at.cache);
        }
        for candidate in job.candidates {
            self.service.give_up(policy, candidate.who, failure, at.cache);
        }
    }

    /// Takes a job out, and counts what it has cost.
    fn remove(&mut self, id: u64) -> Option<Job> {
        let job = self.jobs.remove(&id)?;
        self.by_answer.remove(&(Arc::as_ptr(&job.answer) as usize));
        let [signatures, failures] = job.before;
        let stats = self.stats();
        stats.signatures.add_many(job.budget.signatures().saturating_sub(signatures).into());
        stats.failed_signatures.add_many(job.budget.failures().saturating_sub(failures).into());
        Some(job)
    }

    /// It is known what an answer is.
    fn done(&mut self, policy: &Policy, id: u64, validated: Validated, at: Moment) {
        let Some(mut job) = self.remove(id) else { return };
        let stats = self.stats();
        match validated.security {
            Security::Secure => stats.secure.add(),
            Security::Insecure(_) => stats.insecure.add(),
            Security::Indeterminate => stats.indeterminate.add(),
            Security::Bogus(reason) => {
                stats.bogus.add();
                // What is too much work for one query says nothing about the next.
                let ttl = match reason {
                    BogusReason::Limit(_) => {
                        stats.overspent.add();
                        None
                    }
                    _ => Some(validated.ttl),
                };
                self.remember_bogus(policy, &job.inquiry, reason, ttl, at.cache);
            }
        }
        let form = Form::of(job.validator.response(), &validated);
        let mut finished = Finished { answer: job.answer, form, validated, asked: job.asked };
        if let Some(Candidate { who: Who::Client(waiting), .. }) = job.candidates.first_mut() {
            waiting.pursuit.effort = Some(job.budget);
        }
        for candidate in job.candidates {
            hand_over(&self.service, policy, &mut finished, candidate, at.cache);
        }
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(finished);
    }

    fn remember_bogus(
        &self,
        policy: &Policy,
        inquiry: &Inquiry,
        reason: BogusReason,
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let failure = self.service.cache().config().failure;
        let seconds = ttl.map_or(failure.min, Ttl::as_secs).clamp(failure.min, failure.max);
        self.service.bogus.note(inquiry, reason, now.plus(seconds));
        for dnssec_ok in [false, true] {
            let inquiry = Inquiry { dnssec_ok, ..*inquiry };
            self.service.keep_failure(policy, &inquiry, ttl, now);
        }
    }
}

/// Whoever waits for an answer that was validated gets it, if it is not bogus, and the cache before that.
fn hand_over(service: &Service, policy: &Policy, finished: &mut Finished, candidate: Candidate, now: Now) {
    let Finished { answer, form, validated, asked } = finished;
    let info = match validated.security {
        Security::Bogus(reason) => {
            return match candidate.who {
                Who::Client(waiting) => service.refuse_bogus(waiting, reason, &validated.at),
                who => tell(who, answer, validated, asked),
            };
        }
        Security::Insecure(reason) => reason.extended_error(),
        Security::Secure | Security::Indeterminate => None,
    };
    let leads_to = form.leads_to(answer, validated);
    let negative_ttl = answer.negative_ttl.map(|ttl| form.cap(validated, ttl));
    let Ok((message, is_new)) = form.write(answer, validated, candidate.inquiry.dnssec_ok) else {
        let failure = LookupFailure::BadReply(ReplyFault::Malformed);
        return service.give_up(policy, candidate.who, failure, now);
    };
    // The beginning of a chain is no answer by itself.
    if is_new && leads_to.is_none() {
        service.keep(policy, &candidate.inquiry, &message, negative_ttl, now);
    }
    match candidate.who {
        Who::Client(waiting) => {
            let piece = Piece {
                message: Message::Own(message),
                rcode: if leads_to.is_some() { wire::Rcode::NOERROR } else { answer.rcode },
                authentic: validated.security == Security::Secure,
                negative_ttl,
                stale: false,
                info,
            };
            service.resume(policy, waiting, piece, leads_to, now);
        }
        who => tell(who, answer, validated, asked),
    }
}

/// Whoever asked in this program is told what was found.
fn tell(who: Who, answer: &Arc<Answer>, validated: &Validated, asked: &[Need]) {
    if let Who::Told(told) = who {
        let Validated { security, at, .. } = *validated;
        let verdict = Verdict { security, at, asked: asked.to_vec() };
        told(LookupOutcome::Answered(Arc::clone(answer)), Some(verdict));
    }
}
