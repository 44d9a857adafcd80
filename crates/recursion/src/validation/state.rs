//! The validation threads' shared state: running and recent validations.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dnssec::{Need, Validated};
use resolver::{Budget, ClientPrefix, ScrubbedAnswer};
use wire::{LowerNameBuf, Type};

use super::Basis;
use super::form::Form;
use super::job::Job;
use super::queue::{Candidate, Wanted};
use crate::policy::Policy;

/// Recent validations kept for clients that are settled later than others.
pub(super) const RECENT: usize = 16;

/// Running validations, and the cached keys of zones.
pub(crate) struct State {
    /// The policy seen last.
    pub(super) policy: Arc<Policy>,
    pub(super) basis: Arc<Basis>,
    pub(super) jobs: HashMap<u64, Underway>,
    /// The jobs by the address of their first answer; [`Underway::received`] keeps it alive.
    pub(super) by_answer: HashMap<usize, u64>,
    /// Pending lookups of DS and DNSKEY, and the jobs that need them.
    pub(super) needed: HashMap<Key, Needed>,
    /// Deadlines of the clients of resting jobs, with the job's number.
    pub(super) ends: BTreeSet<(Instant, u64)>,
    pub(super) recent: VecDeque<Arc<Finished>>,
    /// The last job number used.
    pub(super) last: u64,
}

impl State {
    /// No validations and no cached keys.
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

    /// Returns the recent validation of this answer.
    pub(super) fn recent(&self, answer: &Arc<ScrubbedAnswer>) -> Option<Arc<Finished>> {
        self.recent.iter().find(|known| Arc::ptr_eq(&known.received, answer)).cloned()
    }

    /// Adds a waiter to a job.
    pub(super) fn join(&mut self, id: u64, candidate: Candidate) {
        self.ends.extend(candidate.budget.ends().map(|end| (end, id)));
        if let Some(underway) = self.jobs.get_mut(&id) {
            underway.candidates.push(candidate);
        }
    }

    /// Puts a job to rest until its data arrives, unless no candidate waits for it. Returns the client and
    /// budget to charge.
    pub(super) fn rest(&mut self, id: u64, job: Box<Job>) -> Option<(ClientPrefix, Budget)> {
        let underway = self.jobs.get_mut(&id)?;
        underway.job = Some(job);
        self.ends.extend(underway.candidates.iter().filter_map(|one| Some((one.budget.ends()?, id))));
        let payer = underway.candidates.first()?;
        Some((payer.client, payer.budget.for_proofs()))
    }

    /// Removes a validation.
    pub(super) fn remove(&mut self, id: u64) -> Option<Underway> {
        let underway = self.jobs.remove(&id)?;
        self.by_answer.remove(&(Arc::as_ptr(&underway.received) as usize));
        for end in underway.candidates.iter().filter_map(|one| one.budget.ends()) {
            self.ends.remove(&(end, id));
        }
        Some(underway)
    }
}

/// Name and type of the lookup, and whether it is the second one.
pub(super) type Key = (LowerNameBuf, Type, bool);

/// A pending lookup of DS or DNSKEY.
pub(super) struct Needed {
    /// The budget it is charged to.
    pub(super) payer: Budget,
    /// The jobs that need it, the first one started it.
    pub(super) jobs: Vec<u64>,
}

/// A running validation and its waiters.
pub(super) struct Underway {
    /// The first answer.
    pub(super) received: Arc<ScrubbedAnswer>,
    /// The waiters. The first is charged.
    pub(super) candidates: Vec<Candidate>,
    /// The job, if it rests.
    pub(super) job: Option<Box<Job>>,
}

pub(super) fn key(wanted: &Wanted) -> Key {
    (wanted.need.name().to_lower(), wanted.need.rtype(), wanted.again)
}

/// A completed validation.
pub(super) struct Finished {
    /// The first answer.
    pub(super) received: Arc<ScrubbedAnswer>,
    /// The answer that counts.
    pub(super) answer: Arc<ScrubbedAnswer>,
    pub(super) form: Mutex<Form>,
    pub(super) validated: Validated,
    pub(super) asked: Vec<Need>,
}
