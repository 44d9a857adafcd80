//! Validates answers before clients get them. The query path and the resolver's thread verify no signatures
//! and hash no names: [`Validations`] runs on threads of its own, which take the answers from a
//! [`Queue`](queue::Queue).
//!
//! ```text
//!     completion ─┬─▶ queue ──▶ Validations ─┬─▶ cache, clients
//!        ▲     └─▶ recalled ──────────────┼──────▲
//!        └──────── other servers ◀────────┘ DS and DNSKEY
//! ```
//!
//! An answer whose state follows from cached zone keys, for example because its zone is known to be unsigned,
//! goes to its clients on the thread where it arrived, by the same rules and without waking another thread.
//! It has no job, sends no queries, and is never bogus.
//!
//! Clients that wait for the same answer share one validation, charged to the first of them. If its budget,
//! partly spent on other answers, does not suffice, the next client is charged. Jobs that need the same DS or
//! DNSKEY share one lookup, charged to the first. A client waits no longer than its own query may take,
//! whatever it shares; if a charged client runs out of time or budget, the next one is charged. DS records
//! that referrals brought on the way to an answer come with it and need no query.
//!
//! One broken or malicious server of a zone, or a local copy of the zone, must not make the zone bogus. So a
//! bogus answer is fetched once more from another server of the zone; the first verdict stands only if there
//! is none, or its answer is bogus, too. The same budgets are charged.
//!
//! If an answer is bogus at every server and begins with an alias, the alias is validated alone and its
//! target is looked up separately: a server may have only a copy of the names behind an alias.
//!
//! Any number of threads share one [`State`]. It is locked while a thread takes a job out or puts it back,
//! not during verification. A job either runs on one thread or rests until its data arrives.
//!
//! # Validated answers and their cache keys
//!
//! For each client without CD, upstream queries have DO and CD set. Answers that are not bogus are passed on,
//! with or without DNSSEC records, and cached under keys with CD clear. Answers for clients with CD are
//! cached under keys with CD set, which serve no other clients. The number of the cache view depends on the
//! trust anchors.
//!
//! The number of waiting clients is bounded; DS, DNSKEY and second answers are always queued.
//!
//! Cached proofs (`denied`: denials, wildcards, DNAME) are used after a cache miss and before a lookup, off
//! the path of cache hits. An answer made from them is cached when it is queried a second time (`repeats`),
//! so that a flood of different names takes no space.
//!
//! | file | holds |
//! |---|---|
//! | `work.rs` | the validation threads' work |
//! | `state.rs`, `queue.rs` | their shared state; their queue of tasks |
//! | `job.rs`, `outcome.rs` | one validation; the handling of its result |
//! | `quota.rs` | the work charged to one query |
//! | `link.rs` | the first link of an alias chain as an answer |
//! | `denied.rs`, `repeats.rs` | answers from cached proofs; recent queries |
//! | `form.rs`, `bogus.rs` | a validated answer's messages for clients; reasons of bogus answers |

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
use resolver::{Budget, ClientPrefix, LookupFailure, QueryKey, ScrubbedAnswer, ShedReason};
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

/// The original query of an answer that is validated before its waiter gets it.
pub(crate) struct Unchecked {
    /// The query, with CD clear.
    pub(crate) query_key: QueryKey,
    /// The client's network.
    pub(crate) client: ClientPrefix,
    /// Pays for lookups of DS and DNSKEY.
    pub(crate) budget: Budget,
    /// Pays for the validation work.
    pub(crate) quota: ValidationQuota,
}

/// The result of validation, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The answer's security status.
    pub security: Security,
    /// The name whose records decided: where the chain of trust breaks, or becomes insecure.
    pub at: NameBuf,
    /// The DS and DNSKEY lookups that were needed, in order.
    pub asked: Vec<Need>,
}

/// Validation settings and cached keys.
struct Basis {
    config: ValidationConfig,
    table: TrustTable,
}

/// A point in time, by both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) cache: Now,
    /// Unix time in seconds.
    pub(crate) wall: u64,
}

/// Returns the system clock's Unix time in seconds.
pub(crate) fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The settings and time of one task.
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
    /// Validates an answer and hands it to its waiter: at once, if its state follows from cached keys, or
    /// else by the validation threads.
    pub(crate) fn validate(
        &self,
        policy: &Arc<Policy>,
        answer: Arc<ScrubbedAnswer>,
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

    /// Hands over an answer that was validated recently, or whose state follows from cached keys without
    /// signatures, hashes or records and is not bogus. Any other candidate is returned unchanged.
    fn recall(&self, turn: &Turn<'_>, candidate: Candidate) -> Option<Candidate> {
        let recent = lock(&self.validating).recent(&candidate.answer);
        if let Some(finished) = recent {
            hand_over(self, turn, &finished, candidate);
            return None;
        }
        let (by, table) = (turn.by(), &turn.basis.table);
        // Most likely the validation threads would have to read the answer again.
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

    /// Returns the validation settings and cached keys under a policy.
    fn basis(&self, policy: &Arc<Policy>) -> Arc<Basis> {
        let mut state = lock(&self.validating);
        if !Arc::ptr_eq(&state.policy, policy) {
            state.policy = Arc::clone(policy);
            if policy.validation != state.basis.config {
                // The cached keys depend on the anchors and settings.
                state.basis = Basis::new(&policy.validation);
                state.recent.clear();
            }
        }
        Arc::clone(&state.basis)
    }

    /// Drops the cached keys at and below a name.
    pub(crate) fn forget_keys(&self, name: Name<'_>) {
        let mut state = lock(&self.validating);
        state.recent.clear();
        let basis = Arc::clone(&state.basis);
        drop(state);
        basis.table.forget(name);
    }
}
