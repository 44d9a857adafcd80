//! The validation threads' shared state: running and recent validations.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use resolver::{Budget, ClientPrefix, Partition, ScrubbedAnswer};
use validator::{Need, Validated};
use wire::{LowerNameBuf, Type};

use super::Basis;
use super::form::Form;
use super::job::Job;
use super::queue::Candidate;
use crate::settings::Policy;
use crate::waiter::Wanted;

/// Recent validations kept for clients that are settled later than others.
pub(crate) const MAX_RECENT_VALIDATIONS: usize = 16;

/// Running validations, and the cached keys of zones.
pub(crate) struct State {
    /// The policy seen last.
    pub(crate) policy: Arc<Policy>,
    pub(crate) basis: Arc<Basis>,
    pub(crate) jobs: HashMap<u64, Underway>,
    /// The jobs by the address of their first answer; [`Underway::received`] keeps it alive.
    pub(crate) by_answer: HashMap<usize, u64>,
    /// Pending lookups of DS and DNSKEY, and the jobs that need them.
    pub(crate) needed: HashMap<Key, Needed>,
    /// Deadlines of the clients of resting jobs, with the job's number.
    pub(crate) ends: BTreeSet<(Instant, u64)>,
    pub(crate) recent: VecDeque<Arc<Finished>>,
    /// The last job number used.
    pub(crate) last: u64,
}

impl State {
    /// No validations and no cached keys.
    pub(crate) fn new(policy: Arc<Policy>) -> State {
        State {
            basis: Basis::new(&policy),
            policy,
            jobs: HashMap::new(),
            by_answer: HashMap::new(),
            needed: HashMap::new(),
            ends: BTreeSet::new(),
            recent: VecDeque::new(),
            last: 0,
        }
    }

    /// Returns the validation settings and cached keys under a policy.
    pub(crate) fn basis(&mut self, policy: &Arc<Policy>) -> Arc<Basis> {
        if !Arc::ptr_eq(&self.policy, policy) {
            self.policy = Arc::clone(policy);
            if !self.basis.fits(policy) {
                // The cached keys depend on the anchors, settings and partitions.
                self.basis = Basis::new(policy);
                self.recent.clear();
            }
        }
        Arc::clone(&self.basis)
    }

    /// Returns the recent validation of this answer.
    pub(crate) fn recent(&self, answer: &Arc<ScrubbedAnswer>) -> Option<Arc<Finished>> {
        self.recent.iter().find(|known| Arc::ptr_eq(&known.received, answer)).cloned()
    }

    /// Adds a waiter to a job.
    pub(crate) fn join(&mut self, id: u64, candidate: Candidate) {
        self.ends.extend(candidate.budget.ends().map(|end| (end, id)));
        if let Some(underway) = self.jobs.get_mut(&id) {
            underway.candidates.push(candidate);
        }
    }

    /// Puts a job to rest until its data arrives, unless no candidate waits for it. Returns the client and
    /// budget to charge.
    pub(crate) fn rest(&mut self, id: u64, job: Box<Job>) -> Option<(ClientPrefix, Budget)> {
        let underway = self.jobs.get_mut(&id)?;
        underway.job = Some(job);
        self.ends.extend(underway.candidates.iter().filter_map(|one| Some((one.budget.ends()?, id))));
        let payer = underway.candidates.first()?;
        Some((payer.client, payer.budget.for_proofs()))
    }

    /// Removes a validation.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Underway> {
        let underway = self.jobs.remove(&id)?;
        self.by_answer.remove(&(Arc::as_ptr(&underway.received) as usize));
        for end in underway.candidates.iter().filter_map(|one| one.budget.ends()) {
            self.ends.remove(&(end, id));
        }
        Some(underway)
    }
}

/// Name and type of the lookup, whether it is the second one, and the partition of the answers that need it.
pub(crate) type Key = (LowerNameBuf, Type, bool, Partition);

/// A pending lookup of DS or DNSKEY.
pub(crate) struct Needed {
    /// The budget it is charged to.
    pub(crate) payer: Budget,
    /// The jobs that need it, the first one started it.
    pub(crate) jobs: Vec<u64>,
}

/// A running validation and its waiters.
pub(crate) struct Underway {
    /// The first answer.
    pub(crate) received: Arc<ScrubbedAnswer>,
    /// The waiters. The first is charged.
    pub(crate) candidates: Vec<Candidate>,
    /// The job, if it rests.
    pub(crate) job: Option<Box<Job>>,
}

pub(crate) fn key(wanted: &Wanted) -> Key {
    (wanted.need.name().to_lower(), wanted.need.rtype(), wanted.again, wanted.partition)
}

/// A completed validation.
pub(crate) struct Finished {
    /// The first answer.
    pub(crate) received: Arc<ScrubbedAnswer>,
    /// The answer that counts.
    pub(crate) answer: Arc<ScrubbedAnswer>,
    pub(crate) form: Mutex<Form>,
    pub(crate) validated: Validated,
    pub(crate) asked: Vec<Need>,
}
