//! What is being validated, and what was a moment ago: what the threads share.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dnssec::{Need, Validated};
use resolver::{Answer, Budget, ClientPrefix};
use wire::{LowerNameBuf, Type};

use super::Basis;
use super::form::Form;
use super::job::Job;
use super::queue::{Candidate, Wanted};
use crate::policy::Policy;

/// Answers whose validation is remembered for clients who are settled later than others.
pub(super) const RECENT: usize = 16;

/// Answers being validated, and what is known of the keys of zones: what the threads share.
pub(crate) struct State {
    /// The policy seen last.
    pub(super) policy: Arc<Policy>,
    pub(super) basis: Arc<Basis>,
    pub(super) jobs: HashMap<u64, Underway>,
    /// The jobs by the address of the answer that came first, which each of these holds.
    pub(super) by_answer: HashMap<usize, u64>,
    /// What is asked for, and who needs it.
    pub(super) needed: HashMap<Key, Needed>,
    /// When clients of the jobs that rest have waited as long as they may, with the job's number.
    pub(super) ends: BTreeSet<(Instant, u64)>,
    pub(super) recent: VecDeque<Arc<Finished>>,
    /// The number that a job had last.
    pub(super) last: u64,
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
    pub(super) fn recent(&self, answer: &Arc<Answer>) -> Option<Arc<Finished>> {
        self.recent.iter().find(|known| Arc::ptr_eq(&known.received, answer)).cloned()
    }

    /// One more waits for a job.
    pub(super) fn join(&mut self, id: u64, candidate: Candidate) {
        self.ends.extend(candidate.budget.ends().map(|end| (end, id)));
        if let Some(underway) = self.jobs.get_mut(&id) {
            underway.candidates.push(candidate);
        }
    }

    /// A job rests and waits for something, unless no candidate waits for it any more. Returns who pays for
    /// that, from where.
    pub(super) fn rest(&mut self, id: u64, job: Box<Job>) -> Option<(ClientPrefix, Budget)> {
        let underway = self.jobs.get_mut(&id)?;
        underway.job = Some(job);
        self.ends.extend(underway.candidates.iter().filter_map(|one| Some((one.budget.ends()?, id))));
        let payer = underway.candidates.first()?;
        Some((payer.client, payer.budget.for_proofs()))
    }

    /// Takes an answer that is under way out.
    pub(super) fn remove(&mut self, id: u64) -> Option<Underway> {
        let underway = self.jobs.remove(&id)?;
        self.by_answer.remove(&(Arc::as_ptr(&underway.received) as usize));
        for end in underway.candidates.iter().filter_map(|one| one.budget.ends()) {
            self.ends.remove(&(end, id));
        }
        Some(underway)
    }
}

/// The name and type that are needed, and whether that is once more.
pub(super) type Key = (LowerNameBuf, Type, bool);

/// Who needs DS or DNSKEY that are asked for.
pub(super) struct Needed {
    /// What the question is paid from.
    pub(super) payer: Budget,
    /// The jobs, the one first that asked.
    pub(super) jobs: Vec<u64>,
}

/// An answer under way, and who waits for it.
pub(super) struct Underway {
    /// The answer that came first.
    pub(super) received: Arc<Answer>,
    /// Those who wait. The first pays.
    pub(super) candidates: Vec<Candidate>,
    /// The job, if it rests.
    pub(super) job: Option<Box<Job>>,
}

pub(super) fn key(wanted: &Wanted) -> Key {
    (wanted.need.name().to_lower(), wanted.need.rtype(), wanted.again)
}

/// An answer that was validated.
pub(super) struct Finished {
    /// As it came first.
    pub(super) received: Arc<Answer>,
    /// What counts.
    pub(super) answer: Arc<Answer>,
    pub(super) form: Mutex<Form>,
    pub(super) validated: Validated,
    pub(super) asked: Vec<Need>,
}
