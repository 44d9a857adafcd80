//! The validation threads: they take answers from the queue, request the DS and DNSKEY they need, and
//! continue when these arrive.

use std::collections::hash_map::Entry;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use resolver::{
    AnsweredBy, Budget, ClientPrefix, LookupFailure, LookupOutcome, LookupRequest, Partition, QueryKey,
    ReplyFault, ShedReason,
};
use transport::unix_now;
use validator::{BogusReason, Progress, Response, Security, Validated};
use wire::{Class, LowerNameBuf, NameBuf, Type, UnixTime};

use super::outcome::deliver;
use crate::clients::is_of_servers;
use crate::jobs::job::Job;
use crate::jobs::queue::{Came, Candidate, Next, Task};
use crate::jobs::state::{Needed, State, Underway, key};
use crate::jobs::{Basis, Moment, Turn};
use crate::query_state::in_partition;
use crate::service::Service;
use crate::settings::Policy;
use crate::stats::ValidationStats;
use crate::sync::lock;
use crate::waiter::{Waiter, WaiterKind, Wanted};

/// Validates answers of a service, on any number of threads. All clones are equivalent.
#[derive(Clone)]
pub struct Validations {
    service: Arc<Service>,
}

impl Validations {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Validations { service }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.service.validating)
    }

    /// Validates answers until [`Service::stop_validating`] is called. Any number of threads may call it.
    pub fn run(&self) {
        loop {
            self.expire(Instant::now(), unix_now());
            match self.service.unvalidated.wait(self.deadline()) {
                Next::Task(task) => self.take(task, Instant::now(), unix_now()),
                Next::Late => {}
                // Dropping the jobs notifies their waiters.
                Next::Closed => return self.reset(),
            }
        }
    }

    /// Returns the next waiter's deadline, when [`work`](Self::work) ends its wait unless its answer is ready
    /// before.
    pub fn deadline(&self) -> Option<Instant> {
        self.state().ends.first().map(|(at, _)| *at)
    }

    /// Does all pending work at the time `now`, by the wall clock `wall`, and returns.
    pub fn work(&self, now: Instant, wall: UnixTime) {
        while let Some(task) = self.service.unvalidated.next() {
            self.take(task, now, wall);
        }
        self.expire(now, wall);
    }

    /// Drops all validations and cached keys: a thread has panicked, and the state may be inconsistent.
    pub fn reset(&self) {
        let mut state = self.state();
        let jobs = std::mem::take(&mut state.jobs);
        state.basis = Basis::new(&state.policy);
        state.by_answer.clear();
        state.needed.clear();
        state.ends.clear();
        state.recent.clear();
        drop(state);
        // The drop notifies the waiters.
        drop(jobs);
    }

    fn take(&self, task: Task, now: Instant, wall: UnixTime) {
        let policy = self.service.policy();
        let basis = self.state().basis(&policy);
        let turn = self.turn(&policy, &basis, now, wall);
        match task {
            Task::Validate(candidate) => self.begin(&turn, *candidate),
            Task::Found(wanted, outcome) => self.found(&turn, wanted, outcome),
            Task::Resume(id, wanted, came) => self.resume(&turn, id, wanted, Some(&came)),
            Task::Second(id, outcome) => self.second(&turn, id, outcome),
        }
    }

    fn turn<'t>(&self, policy: &'t Policy, basis: &'t Basis, now: Instant, wall: UnixTime) -> Turn<'t> {
        Turn { policy, basis, at: Moment { cache: self.service.now(now), wall } }
    }

    /// Ends the wait of clients whose deadline has passed.
    fn expire(&self, now: Instant, wall: UnixTime) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let policy = self.service.policy();
        let basis = self.state().basis(&policy);
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

    /// Starts the validation of an answer, or joins a running one of the same answer.
    fn begin(&self, turn: &Turn<'_>, candidate: Candidate) {
        let mut state = self.state();
        if let Some(finished) = state.recent(&candidate.answer) {
            drop(state);
            return deliver(&self.service, turn, &finished, candidate);
        }
        let address = Arc::as_ptr(&candidate.answer) as usize;
        if let Some(id) = state.by_answer.get(&address).copied() {
            return state.join(id, candidate);
        }
        let begun = Job::of(&candidate);
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

    /// Takes a resting job to run it.
    fn take_job(&self, id: u64) -> Option<Box<Job>> {
        self.state().jobs.get_mut(&id)?.job.take()
    }

    /// Runs a job until it rests or ends.
    fn go_on(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>) {
        let (by, table) = (turn.by(), turn.basis.table(job.query_key.partition));
        loop {
            match job.step(turn) {
                Progress::Done(validated) => match self.done(turn, id, job, validated) {
                    Some(next) => job = next,
                    None => return,
                },
                Progress::Need(need) => match job.take_referral(&need) {
                    Some(response) => {
                        self.stats().referrals.add();
                        job.validator.receive_referral(response);
                    }
                    None => {
                        job.asked.push(need);
                        let partition = job.query_key.partition;
                        return self.want(turn, id, job, Wanted { need, again: false, partition });
                    }
                },
                Progress::Again(need) if job.source_of(&need).is_none() => job.validator.give_up(&by, table),
                Progress::Again(need) => {
                    let partition = job.query_key.partition;
                    return self.want(turn, id, job, Wanted { need, again: true, partition });
                }
            }
        }
    }

    /// Puts a job to rest until DS or DNSKEY arrive, and starts the lookup unless one is pending.
    fn want(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>, wanted: Wanted) {
        // The other query's failure may be cached; it does not count for this one.
        let outlived = std::mem::take(&mut job.outlived);
        let other_than = job.source_of(&wanted.need).filter(|_| wanted.again);
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
            let query_key = unchecked(wanted.need.name().to_lower(), wanted.need.rtype());
            let query_key = in_partition(turn.policy, wanted.partition, query_key);
            let failed = |failure| self.service.unvalidated.found(wanted, LookupOutcome::Failed(failure));
            if !wanted.again && !outlived && self.service.has_failed(turn.policy, &query_key, turn.at.cache) {
                return failed(LookupFailure::NoReply);
            }
            if !wanted.again {
                self.stats().fetches.add();
            }
            let waiter = Waiter::new(WaiterKind::Validations(Box::new(wanted)));
            if self.ask(query_key, client, budget, other_than, waiter).is_some() {
                failed(LookupFailure::Shed(ShedReason::Queue));
            }
        }
    }

    /// Sends a request to the resolver.
    fn ask(
        &self,
        query_key: QueryKey,
        client: ClientPrefix,
        budget: Budget,
        other_than: Option<AnsweredBy>,
        waiter: Waiter,
    ) -> Option<LookupRequest<Waiter>> {
        self.service.request(LookupRequest {
            query_key,
            recursion_desired: true,
            client,
            patience: None,
            budget: Some(budget),
            other_than,
            trace: None,
            waiter,
        })
    }

    /// Handles the outcome of a lookup of DS or DNSKEY.
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
        // The first job puts the keys into the table, where the others find them. Jobs that need them
        // meanwhile join this lookup.
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

    /// Resumes a job with the data it needed, or without, if the second lookup failed.
    fn resume(&self, turn: &Turn<'_>, id: u64, wanted: Wanted, came: Option<&Came>) {
        let Some(mut job) = self.take_job(id) else { return };
        let (by, table) = (turn.by(), turn.basis.table(job.query_key.partition));
        let next = job.step(turn);
        let still = match wanted.again {
            true => Progress::Again(wanted.need),
            false => Progress::Need(wanted.need),
        };
        match came {
            Some(came) if next == still => {
                job.record_source(wanted.need, &came.answer);
                job.validator.receive(came.response.clone(), &by, table);
            }
            None if next == still => job.validator.give_up(&by, table),
            _ => {}
        }
        self.go_on(turn, id, job);
    }

    /// Handles a failed lookup. If the client that was charged ran out of budget or time, the other jobs
    /// request it again. A second lookup is optional.
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

    /// Ends the wait of some waiters of a job without an answer. The job ends with the last one; returns
    /// whether it continues.
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
            self.service.give_up(turn.policy, candidate.waiter, failure, None, turn.at.cache);
        }
        true
    }

    /// Ends a job that cannot be completed.
    fn fail(&self, turn: &Turn<'_>, id: u64, failure: LookupFailure) {
        let Some(Underway { received, candidates, job, .. }) = self.state().remove(id) else { return };
        self.stats().unfinished.add();
        // A client's timeout is not a failure of the servers; the resolver has reported those.
        let of_servers = is_of_servers(failure) && failure != LookupFailure::TimedOut;
        if let Some(job) = job {
            self.count(&job);
            for dnssec_ok in [false, true].into_iter().filter(|_| of_servers) {
                let query_key = QueryKey { dnssec_ok, ..job.query_key };
                self.service.keep_failure(turn.policy, &query_key, None, turn.at.cache);
            }
        }
        let mut agent = received.agent.as_deref();
        for candidate in candidates {
            let is_client = matches!(candidate.waiter, WaiterKind::Client(_));
            let agent = agent.take_if(|_| is_client);
            self.service.give_up(turn.policy, candidate.waiter, failure, agent, turn.at.cache);
        }
    }

    /// Counts the work of a job.
    fn count(&self, job: &Job) {
        let spent = job.spent();
        self.stats().signatures.add_many(spent.signatures().into());
        self.stats().failed_signatures.add_many(spent.failures().into());
    }

    /// Handles a result. If it is bogus, another server may have a good answer, or the chain's first link may
    /// be good. Returns a job to continue with: this one, or that of the next client to be charged.
    fn done(&self, turn: &Turn<'_>, id: u64, mut job: Box<Job>, validated: Validated) -> Option<Box<Job>> {
        if let Security::Bogus(reason) = validated.security {
            if job.is_spent_elsewhere(reason) {
                return self.spent(turn, id, &job, reason, &validated.at);
            }
            job.fault.get_or_insert(reason);
        }
        match (validated.security, job.first.take()) {
            (Security::Bogus(_), Some(first)) => {
                if job.begin_with_first_link(&first) {
                    return Some(job);
                }
                self.finish(turn, id, job, first);
            }
            (Security::Bogus(reason), None) if job.is_at_fault(reason, &validated, turn) => {
                job.first = Some(validated);
                self.ask_again(id, job);
            }
            (Security::Bogus(_), None) if job.begin_with_first_link(&validated) => return Some(job),
            (_, first) => {
                if first.is_some() {
                    self.stats().mended.add();
                }
                self.finish(turn, id, job, validated);
            }
        }
        None
    }

    /// Handles a job whose charged query reached its limit, partly by other answers. This answer may still be
    /// secure: the next waiter is charged, with the rest of its own quota.
    fn spent(
        &self,
        turn: &Turn<'_>,
        id: u64,
        job: &Job,
        reason: BogusReason,
        at: &NameBuf,
    ) -> Option<Box<Job>> {
        self.count(job);
        self.stats().bogus.add();
        self.stats().overspent.add();
        let mut state = self.state();
        let underway = state.jobs.get_mut(&id)?;
        let paid = |one: &mut Candidate| one.budget.is_same(&job.payer);
        let gone: Vec<Candidate> = underway.candidates.extract_if(.., paid).collect();
        let next = underway.candidates.first().map(Job::of);
        if next.is_none() {
            state.remove(id);
        }
        drop(state);
        for candidate in gone {
            self.service.refuse_overspent(turn.policy, candidate.waiter, reason, at, turn.at.cache);
        }
        match next?.read() {
            Ok(next) => Some(next),
            Err(failure) => {
                self.fail(turn, id, failure);
                None
            }
        }
    }

    /// Requests the answer from another server than the one whose answer is bogus.
    fn ask_again(&self, id: u64, job: Box<Job>) {
        let other_than = job.answer.by;
        let query_key = QueryKey { dnssec_ok: true, checking_disabled: true, ..job.query_key };
        let Some((client, budget)) = self.state().rest(id, job) else { return };
        let waiter = Waiter::new(WaiterKind::Second(id));
        if self.ask(query_key, client, budget, other_than, waiter).is_some() {
            let failed = LookupOutcome::Failed(LookupFailure::Shed(ShedReason::Queue));
            self.service.unvalidated.second(id, failed);
        }
    }

    /// Handles the outcome of the lookup of a second answer.
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
            Some(first) if job.begin_with_first_link(&first) => self.go_on(turn, id, job),
            Some(first) => self.finish(turn, id, job, first),
            None => self.go_on(turn, id, job),
        }
    }

    /// Ends a job with its result.
    fn finish(&self, turn: &Turn<'_>, id: u64, job: Box<Job>, validated: Validated) {
        self.count(&job);
        self.service.conclude(turn, job, validated, |state| {
            let Underway { received, candidates, .. } = state.remove(id)?;
            Some((received, candidates))
        });
    }
}

/// Returns a query with DO and CD set, as validation uses for all its lookups.
fn unchecked(name: LowerNameBuf, qtype: Type) -> QueryKey {
    QueryKey {
        name,
        qtype,
        qclass: Class::IN,
        dnssec_ok: true,
        checking_disabled: true,
        partition: Partition::SHARED,
    }
}
