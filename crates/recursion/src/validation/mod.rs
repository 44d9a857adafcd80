//! Answers are validated here before anybody gets them. No signature is verified and no name hashed on the query path, nor on the
//! thread that asks other servers: [`Validations`] is for threads of its own, and answers come to them by a
//! [`Queue`](queue::Queue).
//!
//! ```text
//!     settler ─┬─▶ queue ──▶ Validations ─┬─▶ cache, clients
//!        ▲     └─▶ recalled ──────────────┼──────▲
//!        └──────── other servers ◀────────┘ DS and DNSKEY
//! ```
//!
//! An answer whose state follows from what is known of its zone already, such as that it is not signed, comes to its clients
//! where it arrived, by the same rules: nobody is woken for it. It has no job, asks for nothing, and is never bogus.
//!
//! Clients who wait for the same answer share one validation. Those that need the same DS or DNSKEY share the question for
//! it; the one that came first pays. Whatever a client shares, it waits no longer than its own query's time; and where one that
//! paid has no more time or means, the next one pays, from what it has. DS that referrals on the way to an answer brought come with it, and are not asked for.
//!
//! One server of a zone that is broken or lies must not make the zone bogus, nor a copy of it on this machine. So what is bogus
//! is asked for once more, of another server of the zone; only if there is none, or what that says is bogus too, the first verdict stands. It is paid
//! from the same budgets.
//!
//! Any number of threads share one [`State`], which is locked while somebody takes a job out of it or puts it back, and not
//! while anything is verified. A job is at work on one thread at a time, or it rests and waits for something.

pub(crate) mod bogus;
pub(crate) mod denied;
mod form;
mod job;
pub(crate) mod queue;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cache::Now;
use dnssec::{
    BogusReason, Need, Progress, Response, Security, TrustTable, Validated, Validation, ValidationBudget,
};
use resolver::{
    Answer, AnsweredBy, Budget, ClientPrefix, Inquiry, LookupFailure, LookupOutcome, LookupRequest,
    ReplyFault, ReportAgent, ShedReason,
};
use wire::{Class, LowerNameBuf, Name, NameBuf, Ttl, Type};

use crate::message::Message;
use crate::policy::{Policy, ValidationConfig};
use crate::pursuit::refusal_of;
use crate::service::{Piece, Service};
use crate::settler::{Waiter, Waiting, Who, is_of_servers};
use crate::stats::ValidationStats;
use form::Form;
use job::Job;
use queue::{Came, Candidate, Next, Task, Wanted};

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

/// Validates answers for a service, on whatever threads. All of one service are the same.
#[derive(Clone)]
pub struct Validations {
    service: Arc<Service>,
}

/// Answers being validated, and what is known of the keys of zones: what the threads share.
pub(crate) struct State {
    /// The policy seen last.
    policy: Arc<Policy>,
    basis: Arc<Basis>,
    jobs: HashMap<u64, Underway>,
    /// The jobs by the address of the answer that came first, which each of these holds.
    by_answer: HashMap<usize, u64>,
    /// What is asked for, and who needs it.
    needed: HashMap<Key, Needed>,
    /// When clients of the jobs that rest have waited as long as they may, with the job's number.
    ends: BTreeSet<(Instant, u64)>,
    recent: VecDeque<Arc<Finished>>,
    /// The number that a job had last.
    last: u64,
}

impl State {
    /// Nothing is being validated, or known.
    pub(crate) fn new(policy: Arc<Policy>) -> State {
        State {
            basis: Basis::new(&policy.validation),
            policy,
            jobs: HashMap::new(),
            by_answer: HashMap::new(),
            needed: HashMap::new(),
            ends: BTreeSet::new(),
            recent: VecDeque::new(),
            last: 0,
        }
    }

    /// What an answer that has just been validated was found to be.
    fn recent(&self, answer: &Arc<Answer>) -> Option<Arc<Finished>> {
        self.recent.iter().find(|known| Arc::ptr_eq(&known.received, answer)).cloned()
    }

    /// One more waits for a job.
    fn join(&mut self, id: u64, candidate: Candidate) {
        self.ends.extend(candidate.budget.ends().map(|end| (end, id)));
        if let Some(underway) = self.jobs.get_mut(&id) {
            underway.candidates.push(candidate);
        }
    }

    /// A job rests and waits for something, unless nobody waits for it any more. Returns who pays for that, from where.
    fn rest(&mut self, id: u64, job: Box<Job>) -> Option<(ClientPrefix, Budget)> {
        let underway = self.jobs.get_mut(&id)?;
        underway.job = Some(job);
        self.ends.extend(underway.candidates.iter().filter_map(|one| Some((one.budget.ends()?, id))));
        let payer = underway.candidates.first()?;
        Some((payer.client, payer.budget.for_proofs()))
    }

    /// Takes an answer that is under way out.
    fn remove(&mut self, id: u64) -> Option<Underway> {
        let underway = self.jobs.remove(&id)?;
        self.by_answer.remove(&(Arc::as_ptr(&underway.received) as usize));
        for end in underway.candidates.iter().filter_map(|one| one.budget.ends()) {
            self.ends.remove(&(end, id));
        }
        Some(underway)
    }
}

/// What validating goes by.
struct Basis {
    config: ValidationConfig,
    table: TrustTable,
}

/// The name and type that are needed, and whether that is once more.
type Key = (LowerNameBuf, Type, bool);

/// Who needs DS or DNSKEY that are asked for.
struct Needed {
    /// What the question is paid from.
    payer: Budget,
    /// The jobs, the one first that asked.
    jobs: Vec<u64>,
}

/// An answer under way, and who waits for it.
struct Underway {
    /// The answer that came first.
    received: Arc<Answer>,
    /// Those who wait. The first pays.
    candidates: Vec<Candidate>,
    /// The job, if it rests.
    job: Option<Box<Job>>,
}

/// An answer that was validated.
struct Finished {
    /// As it came first.
    received: Arc<Answer>,
    /// What counts.
    answer: Arc<Answer>,
    form: Mutex<Form>,
    validated: Validated,
    asked: Vec<Need>,
}

/// When something happens.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) cache: Now,
    /// Seconds since 1970.
    pub(crate) wall: u64,
}

/// The time in seconds since 1970, by the system's clock.
pub(crate) fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// What holds while one task is done.
struct Turn<'t> {
    policy: &'t Policy,
    basis: &'t Basis,
    at: Moment,
}

impl Turn<'_> {
    fn by(&self) -> Validation<'_> {
        let ValidationConfig { settings, anchors, .. } = &self.basis.config;
        Validation { settings, anchors, now: self.at.wall }
    }
}

impl Basis {
    fn new(config: &ValidationConfig) -> Arc<Basis> {
        Arc::new(Basis { config: config.clone(), table: TrustTable::new(config.names) })
    }
}

fn key(wanted: &Wanted) -> Key {
    (wanted.need.name().to_lower(), wanted.need.rtype(), wanted.again)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Has an answer validated, and then handed to whoever waits for it: at once, if what is known says by itself what it is.
    pub(crate) fn validate(
        &self,
        policy: &Arc<Policy>,
        answer: Arc<Answer>,
        unchecked: Unchecked,
        who: Who,
        at: Moment,
    ) {
        let Unchecked { inquiry, client, budget } = unchecked;
        let config = &policy.validation;
        let Some(place) = self.unvalidated.place(client, config.waiting, config.waiting_of_network) else {
            self.stats().validation.shed.add();
            return self.give_up(policy, who, LookupFailure::Shed(ShedReason::Queue), None, at.cache);
        };
        let candidate = Candidate { answer, inquiry, client, budget, who, _place: place };
        let basis = self.basis(policy);
        if let Some(candidate) = self.recall(&Turn { policy, basis: &basis, at }, candidate) {
            self.unvalidated.put(candidate);
        }
    }

    /// Hands an answer over that was validated a moment ago, or is not bogus and takes neither signatures nor hashes nor records to
    /// be told. Any other is returned, and nothing was done about it.
    fn recall(&self, turn: &Turn<'_>, candidate: Candidate) -> Option<Candidate> {
        let recent = lock(&self.validating).recent(&candidate.answer);
        if let Some(finished) = recent {
            hand_over(self, turn, &finished, candidate);
            return None;
        }
        let (by, table) = (turn.by(), &turn.basis.table);
        // Nothing is read here that will most likely be read again.
        if !by.knows_insecure(candidate.inquiry.name.as_name(), table) {
            return Some(candidate);
        }
        let left = match &candidate.who {
            Who::Client(waiting) => waiting.pursuit.effort.clone(),
            _ => None,
        };
        let budget = left.unwrap_or_else(|| ValidationBudget::new(turn.basis.config.limits));
        let Ok(mut job) = Job::of(&candidate, budget).read() else { return Some(candidate) };
        let validated = job.validator.recall(&by, table);
        let sound = validated.filter(|validated| !matches!(validated.security, Security::Bogus(_)));
        let Some(validated) = sound else { return Some(candidate) };
        self.stats().validation.recalled.add();
        let received = Arc::clone(&candidate.answer);
        self.conclude(turn, job, validated, |_| Some((received, vec![candidate])));
        None
    }

    /// What validating goes by under a policy.
    fn basis(&self, policy: &Arc<Policy>) -> Arc<Basis> {
        let mut state = lock(&self.validating);
        if !Arc::ptr_eq(&state.policy, policy) {
            state.policy = Arc::clone(policy);
            if policy.validation != state.basis.config {
                // What was learned goes by other anchors or settings.
                state.basis = Basis::new(&policy.validation);
                state.recent.clear();
            }
        }
        Arc::clone(&state.basis)
    }

    /// What is known of the keys of a name and of those below may not be so any more.
    pub(crate) fn forget_keys(&self, name: Name<'_>) {
        let mut state = lock(&self.validating);
        state.recent.clear();
        let basis = Arc::clone(&state.basis);
        drop(state);
        basis.table.forget(name);
    }

    /// What an answer is stands now: that is counted and remembered, and those who wait for it get it. `who` says as which answer it
    /// came first, and who waits.
    fn conclude(
        &self,
        turn: &Turn<'_>,
        job: Box<Job>,
        validated: Validated,
        who: impl FnOnce(&mut State) -> Option<(Arc<Answer>, Vec<Candidate>)>,
    ) {
        self.learn(turn, &job, &validated);
        let form = Mutex::new(Form::of(job.validator.response(), &validated));
        let Job { answer, inquiry, asked, budget, fault, .. } = *job;
        let mut state = lock(&self.validating);
        let Some((received, mut candidates)) = who(&mut state) else { return };
        let finished = Arc::new(Finished { received, answer, form, validated, asked });
        state.recent.truncate(RECENT - 1);
        state.recent.push_front(Arc::clone(&finished));
        drop(state);
        if let Some(Candidate { who: Who::Client(waiting), .. }) = candidates.first_mut() {
            // It may not be the one that the work was begun for.
            waiting.pursuit.effort.get_or_insert(budget);
        }
        let for_client = candidates.iter().any(|candidate| matches!(candidate.who, Who::Client(_)));
        for candidate in candidates {
            hand_over(self, turn, &finished, candidate);
        }
        // Also where another server had a better answer: one of them has not, and no client will complain of it.
        let fault = fault.filter(|reason| for_client && !matches!(reason, BogusReason::Limit(_)));
        if let (Some(reason), Some(agent)) = (fault, &finished.received.agent) {
            self.report(turn.policy, &inquiry, reason.extended_error(), agent, turn.at.cache);
        }
    }

    /// Counts what an answer was found to be, and remembers of it what is of use for others.
    fn learn(&self, turn: &Turn<'_>, job: &Job, validated: &Validated) {
        let stats = &self.stats().validation;
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
                self.remember_bogus(turn.policy, &job.inquiry, reason, ttl, turn.at.cache);
            }
        }
        let Some(response) = job.validator.response() else { return };
        let proven = (response, validated);
        if let Some(ttl) = job.answer.negative_ttl {
            let ttl = ttl.min(validated.ttl);
            self.learn_denial(turn.policy, &job.inquiry, proven, ttl, turn.at.cache);
        }
        self.learn_wildcards(turn.policy, &job.inquiry, proven, turn.at.cache);
    }

    fn remember_bogus(
        &self,
        policy: &Policy,
        inquiry: &Inquiry,
        reason: BogusReason,
        ttl: Option<Ttl>,
        now: Now,
    ) {
        let failure = self.cache().config().failure;
        let seconds = ttl.map_or(failure.min, Ttl::as_secs).clamp(failure.min, failure.max);
        self.bogus.note(inquiry, reason, now.plus(seconds));
        for dnssec_ok in [false, true] {
            let inquiry = Inquiry { dnssec_ok, ..*inquiry };
            self.keep_failure(policy, &inquiry, ttl, now);
        }
    }

    /// Whoever waits for an answer gets none.
    fn give_up(
        &self,
        policy: &Policy,
        who: Who,
        failure: LookupFailure,
        agent: Option<&ReportAgent>,
        now: Now,
    ) {
        match who {
            Who::Client(waiting) => self.fail(policy, waiting, failure, agent, now),
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
        Validations { service }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.service.validating)
    }

    /// Validates what comes, until [`Service::stop_validating`] is called. As many threads may do so as there are.
    pub fn run(&self) {
        loop {
            self.expire(Instant::now(), wall());
            match self.service.unvalidated.wait(self.deadline()) {
                Next::Task(task) => self.take(task, Instant::now(), wall()),
                Next::Late => {}
                // Whoever waits is told by that.
                Next::Closed => return self.begin_anew(),
            }
        }
    }

    /// When somebody who waits has to be told that its time is over, if nothing happens before: [`work`](Self::work) does
    /// that.
    pub fn deadline(&self) -> Option<Instant> {
        self.state().ends.first().map(|(at, _)| *at)
    }

    /// Does what there is to do `now`, at `wall` seconds since 1970, and returns.
    pub fn work(&self, now: Instant, wall: u64) {
        while let Some(task) = self.service.unvalidated.next() {
            self.take(task, now, wall);
        }
        self.expire(now, wall);
    }

    /// Drops what is being validated, and all that was learned: a thread has panicked, and nobody knows what it left behind.
    pub fn begin_anew(&self) {
        let mut state = self.state();
        let jobs = std::mem::take(&mut state.jobs);
        state.basis = Basis::new(&state.policy.validation);
        state.by_answer.clear();
        state.needed.clear();
        state.ends.clear();
        state.recent.clear();
        drop(state);
        // Whoever waits is told by that.
        drop(jobs);
    }

    fn take(&self, task: Task, now: Instant, wall: u64) {
        let policy = self.service.policy();
        let basis = self.service.basis(&policy);
        let turn = self.turn(&policy, &basis, now, wall);
        match task {
            Task::Validate(candidate) => self.begin(&turn, *candidate),
            Task::Found(wanted, outcome) => self.found(&turn, wanted, outcome),
            Task::Resume(id, wanted, came) => self.resume(&turn, id, wanted, Some(&came)),
            Task::Second(id, outcome) => self.second(&turn, id, outcome),
        }
    }

    fn turn<'t>(&self, policy: &'t Policy, basis: &'t Basis, now: Instant, wall: u64) -> Turn<'t> {
        Turn { policy, basis, at: Moment { cache: self.service.now(now), wall } }
    }

    /// Tells those whose time is over.
    fn expire(&self, now: Instant, wall: u64) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let policy = self.service.policy();
        let basis = self.service.basis(&policy);
        let turn = self.turn(&policy, &basis, now, wall);
        loop {
            let mut state = self.state();
            let Some(&(at, id)) = state.ends.first().filter(|(at, _)| *at <= now) else { return };
            state.ends.remove(&(at, id));
            drop(state);
            let is_late = |candidate: &Candidate| candidate.budget.ends().is_some_and(|end| end <= now);
            self.part(&turn, id, LookupFailure::TimedOut, is_late);
        }
    }

    fn stats(&self) -> &ValidationStats {
        &self.service.stats().validation
    }

    /// Begins with an answer, unless others have brought it already.
    fn begin(&self, turn: &Turn<'_>, mut candidate: Candidate) {
        let mut state = self.state();
        if let Some(finished) = state.recent(&candidate.answer) {
            drop(state);
            return hand_over(&self.service, turn, &finished, candidate);
        }
        let address = Arc::as_ptr(&candidate.answer) as usize;
        if let Some(id) = state.by_answer.get(&address).copied() {
            return state.join(id, candidate);
        }
        let left = match &mut candidate.who {
            Who::Client(waiting) => waiting.pursuit.effort.take(),
            _ => None,
        };
        let budget = left.unwrap_or_else(|| ValidationBudget::new(turn.basis.config.limits));
        let begun = Job::of(&candidate, budget);
        state.last += 1;
        let (id, received) = (state.last, Arc::clone(&candidate.answer));
        state.by_answer.insert(address, id);
        state.jobs.insert(id, Underway { received, candidates: vec![candidate], job: None });
        drop(state);
        match begun.read() {
            Ok(job) => self.go_on(turn, id, job),
            Err(failure) => self.fail(turn, id, failure),
        }
    }

    /// Takes a job that rests to work.
    fn take_job(&self, id: u64) -> Option<Box<Job>> {
        self.state().jobs.get_mut(&id)?.job.take()
    }

    /// Goes on with a job as far as it can be gone.
    fn go_on(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>) {
        let (by, table) = (turn.by(), &turn.basis.table);
        loop {
            match job.validator.step(&by, table, &mut job.budget) {
                Progress::Done(validated) => return self.done(turn, id, job, validated),
                Progress::Need(need) => match job.take_referral(&need) {
                    Some(response) => {
                        self.stats().referrals.add();
                        job.validator.receive_referral(response);
                    }
                    None => {
                        job.asked.push(need);
                        return self.want(turn, id, job, Wanted { need, again: false });
                    }
                },
                Progress::Again(need) if job.heard_from(&need).is_none() => job.validator.give_up(&by, table),
                Progress::Again(need) => return self.want(turn, id, job, Wanted { need, again: true }),
            }
        }
    }

    /// A job rests until DS or DNSKEY come. They are asked for, unless others have done so.
    fn want(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>, wanted: Wanted) {
        // That it has failed for the other one is remembered already.
        let outlived = std::mem::take(&mut job.outlived);
        let other_than = job.heard_from(&wanted.need).filter(|_| wanted.again);
        let mut state = self.state();
        let Some((client, budget)) = state.rest(id, job) else { return };
        let is_first = match state.needed.entry(key(&wanted)) {
            Entry::Occupied(mut others) => {
                others.get_mut().jobs.push(id);
                false
            }
            Entry::Vacant(first) => {
                first.insert(Needed { payer: budget.clone(), jobs: vec![id] });
                true
            }
        };
        drop(state);
        if is_first {
            let inquiry = unchecked(wanted.need.name().to_lower(), wanted.need.rtype());
            let failed = |failure| self.service.unvalidated.found(wanted, LookupOutcome::Failed(failure));
            if !wanted.again && !outlived && self.service.has_failed(turn.policy, &inquiry, turn.at.cache) {
                return failed(LookupFailure::NoReply);
            }
            if !wanted.again {
                self.stats().fetches.add();
            }
            let waiter = Waiter::new(Who::Validations(Box::new(wanted)));
            if self.ask(inquiry, client, budget, other_than, waiter).is_some() {
                failed(LookupFailure::Shed(ShedReason::Queue));
            }
        }
    }

    /// Has other servers asked.
    fn ask(
        &self,
        inquiry: Inquiry,
        client: ClientPrefix,
        budget: Budget,
        other_than: Option<AnsweredBy>,
        waiter: Waiter,
    ) -> Option<LookupRequest<Waiter>> {
        self.service.request(LookupRequest {
            inquiry,
            recursion_desired: true,
            client,
            patience: None,
            budget: Some(budget),
            other_than,
            trace: None,
            waiter,
        })
    }

    /// DS or DNSKEY came, or could not be had.
    fn found(&self, turn: &Turn<'_>, wanted: Wanted, outcome: LookupOutcome) {
        let read = match outcome {
            LookupOutcome::Answered(answer) => match Response::read(&answer.message, answer.rcode) {
                Ok(response) => Ok(Arc::new(Came { response, answer })),
                Err(_) => Err(LookupFailure::BadReply(ReplyFault::Malformed)),
            },
            LookupOutcome::Failed(failure) => Err(failure),
        };
        let came = match read {
            Ok(came) => came,
            Err(failure) => return self.not_found(turn, wanted, failure),
        };
        if wanted.again {
            self.stats().again.add();
        }
        // The first job learns from it what the others then find in the table. Those that need it meanwhile do not ask for
        // it once more.
        let ids = self.state().needed.get_mut(&key(&wanted)).map(|all| std::mem::take(&mut all.jobs));
        let mut ids = ids.into_iter().flatten();
        if let Some(first) = ids.next() {
            self.resume(turn, first, wanted, Some(&came));
        }
        let late = self.state().needed.remove(&key(&wanted));
        for id in ids.chain(late.into_iter().flat_map(|all| all.jobs)) {
            self.service.unvalidated.resume(id, wanted, Arc::clone(&came));
        }
    }

    /// A job goes on with what it needed; without, if that is not to be had a second time.
    fn resume(&self, turn: &Turn<'_>, id: u64, wanted: Wanted, came: Option<&Came>) {
        let Some(mut job) = self.take_job(id) else { return };
        let (by, table) = (turn.by(), &turn.basis.table);
        let next = job.validator.step(&by, table, &mut job.budget);
        let still = match wanted.again {
            true => Progress::Again(wanted.need),
            false => Progress::Need(wanted.need),
        };
        match came {
            Some(came) if next == still => {
                job.hear(wanted.need, &came.answer);
                job.validator.receive(came.response.clone(), &by, table);
            }
            None if next == still => job.validator.give_up(&by, table),
            _ => {}
        }
        self.go_on(turn, id, job);
    }

    /// What some jobs need cannot be had. If that was for want of means or time of the one that asked, others ask again. What
    /// was asked for a second time need not be had.
    fn not_found(&self, turn: &Turn<'_>, wanted: Wanted, failure: LookupFailure) {
        use LookupFailure::{Overspent, Shed, TimedOut};
        let needed = self.state().needed.remove(&key(&wanted));
        let Some(Needed { payer, jobs }) = needed else { return };
        let own = matches!(failure, Overspent(_) | Shed(_) | TimedOut);
        for (number, id) in jobs.into_iter().enumerate() {
            if wanted.again && (number == 0 || !own) {
                self.resume(turn, id, wanted, None);
            } else if own {
                let has_paid = |one: &Candidate| number == 0 && one.budget.is_same(&payer);
                if self.part(turn, id, failure, has_paid)
                    && let Some(mut job) = self.take_job(id)
                {
                    job.outlived = true;
                    self.go_on(turn, id, job);
                }
            } else {
                self.fail(turn, id, failure);
            }
        }
    }

    /// Some of those who wait for a job get no answer. With the last of them it ends; returns whether it has not.
    fn part(
        &self,
        turn: &Turn<'_>,
        id: u64,
        failure: LookupFailure,
        leaves: impl Fn(&Candidate) -> bool,
    ) -> bool {
        let mut state = self.state();
        let Some(underway) = state.jobs.get_mut(&id) else { return false };
        if underway.candidates.iter().all(&leaves) {
            drop(state);
            self.fail(turn, id, failure);
            return false;
        }
        let gone: Vec<Candidate> = underway.candidates.extract_if(.., |one| leaves(one)).collect();
        drop(state);
        for candidate in gone {
            self.service.give_up(turn.policy, candidate.who, failure, None, turn.at.cache);
        }
        true
    }

    /// A job cannot be finished.
    fn fail(&self, turn: &Turn<'_>, id: u64, failure: LookupFailure) {
        let Some(Underway { received, candidates, job, .. }) = self.state().remove(id) else { return };
        self.stats().unfinished.add();
        // That a client's time is over says nothing about the servers, which were asked by the forwarder.
        let of_servers = is_of_servers(failure) && failure != LookupFailure::TimedOut;
        if let Some(job) = job {
            self.count(&job);
            for dnssec_ok in [false, true].into_iter().filter(|_| of_servers) {
                let inquiry = Inquiry { dnssec_ok, ..job.inquiry };
                self.service.keep_failure(turn.policy, &inquiry, None, turn.at.cache);
            }
        }
        let mut agent = received.agent.as_deref();
        for candidate in candidates {
            let is_client = matches!(candidate.who, Who::Client(_));
            let agent = agent.take_if(|_| is_client);
            self.service.give_up(turn.policy, candidate.who, failure, agent, turn.at.cache);
        }
    }

    /// Counts what a job has cost.
    fn count(&self, job: &Job) {
        let (signatures, failures) = job.spent();
        self.stats().signatures.add_many(signatures.into());
        self.stats().failed_signatures.add_many(failures.into());
    }

    /// It is known what an answer is. If it is bogus, another server may have a better one.
    fn done(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>, validated: Validated) {
        if let Security::Bogus(reason) = validated.security {
            job.fault.get_or_insert(reason);
        }
        match (validated.security, job.first.take()) {
            (Security::Bogus(_), Some(first)) => self.finish(turn, id, job, first),
            (Security::Bogus(reason), None) if job.is_at_fault(reason, &validated, turn) => {
                job.first = Some(validated);
                self.ask_again(id, job);
            }
            (_, first) => {
                if first.is_some() {
                    self.stats().mended.add();
                }
                self.finish(turn, id, job, validated);
            }
        }
    }

    /// Asks another server than the one whose answer is bogus.
    fn ask_again(&self, id: u64, job: Box<Job>) {
        let other_than = job.answer.by;
        let inquiry = Inquiry { dnssec_ok: true, checking_disabled: true, ..job.inquiry };
        let Some((client, budget)) = self.state().rest(id, job) else { return };
        let waiter = Waiter::new(Who::Second(id));
        if self.ask(inquiry, client, budget, other_than, waiter).is_some() {
            let failed = LookupOutcome::Failed(LookupFailure::Shed(ShedReason::Queue));
            self.service.unvalidated.second(id, failed);
        }
    }

    /// Another server has answered, or none.
    fn second(&self, turn: &Turn<'_>, id: u64, outcome: LookupOutcome) {
        let Some(mut job) = self.take_job(id) else { return };
        let answer = match outcome {
            LookupOutcome::Answered(answer) if !self.service.withholds(&answer.message) => {
                self.stats().again.add();
                Some(answer)
            }
            _ => None,
        };
        if answer.is_some_and(|answer| job.begin_again(answer)) {
            return self.go_on(turn, id, job);
        }
        match job.first.take() {
            Some(first) => self.finish(turn, id, job, first),
            None => self.go_on(turn, id, job),
        }
    }

    /// What an answer is stands now.
    fn finish(&self, turn: &Turn<'_>, id: u64, job: Box<Job>, validated: Validated) {
        self.count(&job);
        self.service.conclude(turn, job, validated, |state| {
            let Underway { received, candidates, .. } = state.remove(id)?;
            Some((received, candidates))
        });
    }
}

/// A question with DO and CD: for everything that validating takes.
fn unchecked(name: LowerNameBuf, qtype: Type) -> Inquiry {
    Inquiry { name, qtype, qclass: Class::IN, dnssec_ok: true, checking_disabled: true }
}

/// Whoever waits for an answer that was validated gets it, if it is not bogus, and the cache before that.
fn hand_over(service: &Service, turn: &Turn<'_>, finished: &Finished, candidate: Candidate) {
    let Finished { answer, form, validated, asked, .. } = finished;
    let (policy, now) = (turn.policy, turn.at.cache);
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
    let mut form = lock(form);
    let leads_to = form.leads_to(answer, validated);
    let negative_ttl = answer.negative_ttl.map(|ttl| form.cap(validated, ttl));
    let Ok((message, is_new)) = form.write(answer, validated, candidate.inquiry.dnssec_ok) else {
        let failure = LookupFailure::BadReply(ReplyFault::Malformed);
        return service.give_up(policy, candidate.who, failure, answer.agent.as_deref(), now);
    };
    drop(form);
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
