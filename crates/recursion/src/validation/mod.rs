//! Answers are validated here before anybody gets them. No signature is verified and no name hashed on the
//! query path, nor on the thread that asks other servers: [`Validations`] is for threads of its own, and
//! answers come to them by a [`Queue`](queue::Queue).
//!
//! ```text
//!     completion ─┬─▶ queue ──▶ Validations ─┬─▶ cache, clients
//!        ▲     └─▶ recalled ──────────────┼──────▲
//!        └──────── other servers ◀────────┘ DS and DNSKEY
//! ```
//!
//! An answer whose state follows from what is known of its zone already, such as that it is not signed, comes
//! to its clients where it arrived, by the same rules: no thread is woken for it. It has no job, asks for
//! nothing, and is never bogus.
//!
//! Clients who wait for the same answer share one validation, and the one that came first pays. If that one
//! has spent so much on other answers that the rest does not suffice, the next one pays. Those that need the
//! same DS or DNSKEY share the question for it; the one that came first pays. Whatever a client shares, it
//! waits no longer than its own query's time; and where one that paid has no more time or means, the next one
//! pays, from what it has. DS that referrals on the way to an answer brought come with it, and are not asked
//! for.
//!
//! One server of a zone that is broken or lies must not make the zone bogus, nor a copy of it on this
//! machine. So what is bogus is asked for once more, of another server of the zone; only if there is none, or
//! what that says is bogus too, the first verdict stands. It is paid from the same budgets.
//!
//! Where an answer is bogus at every server and begins with an alias, that alias is validated by itself, and
//! what it leads to is looked up by itself: a server may know the names behind an alias only from a copy.
//!
//! Any number of threads share one [`State`], which is locked while a thread takes a job out of it or puts it
//! back, and not while anything is verified. A job is at work on one thread at a time, or it rests and waits
//! for something.
//!
//! # Which answers are validated, and where they are kept
//!
//! The service asks other servers with DO and CD for every client without CD. What validating finds not bogus
//! is handed on, with or without DNSSEC records. It is kept under keys with CD clear; what came for clients
//! with CD is kept under keys with CD set, which serve no others. The number of the cache view has the trust
//! anchors in it.
//!
//! Clients that wait have a bounded number of places; what validating has asked for always finds one.
//!
//! What was proven before (`denied`: denials, wildcards, DNAME) is used when the cache has nothing and before
//! any server is asked, off the path of hits. Such an answer is kept in the cache when it is asked for a
//! second time (`repeats`), so that a flood of names that differ takes no room.
//!
//! | file | holds |
//! |---|---|
//! | `work.rs` | what the threads do |
//! | `state.rs`, `queue.rs` | what they share; the tasks on their way to them |
//! | `job.rs`, `outcome.rs` | one answer on its way; what becomes of it |
//! | `quota.rs` | what validating costs the query that pays |
//! | `link.rs` | the first link of an alias chain by itself |
//! | `denied.rs`, `repeats.rs` | answers from what was proven; which questions came lately |
//! | `form.rs`, `bogus.rs` | what clients get of an answer; why answers were bogus |

pub(crate) mod bogus;
pub(crate) mod denied;
mod form;
mod job;
mod link;
mod outcome;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod repeats;
mod state;
mod work;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use cache::Now;
use dnssec::{Need, Security, TrustTable, Validation};
use resolver::{Answer, Budget, ClientPrefix, LookupFailure, QueryKey, ShedReason};
use wire::{Name, NameBuf};

use crate::completion::Who;
use crate::policy::{Policy, ValidationConfig};
use crate::service::Service;
use job::Job;
use outcome::hand_over;
use queue::Candidate;
use quota::ValidationQuota;
pub(crate) use state::State;
pub use work::Validations;

/// What a client really asked, whose answer is validated before it gets it.
pub(crate) struct Unchecked {
    /// The question, with CD clear.
    pub(crate) query_key: QueryKey,
    /// Where the client is.
    pub(crate) client: ClientPrefix,
    /// What DS and DNSKEY are paid from.
    pub(crate) budget: Budget,
    /// What the work is paid from.
    pub(crate) quota: ValidationQuota,
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

/// What validating goes by.
struct Basis {
    config: ValidationConfig,
    table: TrustTable,
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Has an answer validated, and then handed to its waiter: at once, if its state follows from what is
    /// known.
    pub(crate) fn validate(
        &self,
        policy: &Arc<Policy>,
        answer: Arc<Answer>,
        unchecked: Unchecked,
        who: Who,
        at: Moment,
    ) {
        let Unchecked { query_key, client, budget, quota } = unchecked;
        let config = &policy.validation;
        let Some(place) = self.unvalidated.place(client, config.waiting, config.waiting_of_network) else {
            self.stats().validation.shed.add();
            return self.give_up(policy, who, LookupFailure::Shed(ShedReason::Queue), None, at.cache);
        };
        let candidate = Candidate { answer, query_key, client, budget, quota, who, _place: place };
        let basis = self.basis(policy);
        if let Some(candidate) = self.recall(&Turn { policy, basis: &basis, at }, candidate) {
            self.unvalidated.put(candidate);
        }
    }

    /// Hands over an answer that was validated a moment ago, or that is not bogus and can be judged without
    /// signatures, hashes or records. Any other is returned, and nothing was done about it.
    fn recall(&self, turn: &Turn<'_>, candidate: Candidate) -> Option<Candidate> {
        let recent = lock(&self.validating).recent(&candidate.answer);
        if let Some(finished) = recent {
            hand_over(self, turn, &finished, candidate);
            return None;
        }
        let (by, table) = (turn.by(), &turn.basis.table);
        // Nothing is read here that will most likely be read again.
        if !by.knows_insecure(candidate.query_key.name.as_name(), table) {
            return Some(candidate);
        }
        let Ok(mut job) = Job::of(&candidate).read() else {
            return Some(candidate);
        };
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
}
