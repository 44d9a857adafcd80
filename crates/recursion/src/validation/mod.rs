//! Validates answers before clients get them. The query path and the resolver's thread verify no signatures
//! and hash no names: [`Validations`] runs on threads of its own, which take the answers from a
//! [`Queue`](crate::jobs::queue::Queue).
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
//! Any number of threads share one [`State`](crate::jobs::state::State). It is locked while a thread takes a
//! job out or puts it back, not during verification. A job either runs on one thread or rests until its data
//! arrives.
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
//! | `outcome.rs` | the handling of a validation's result |
//! | `work.rs` | the validation threads' work |
//!
//! The data that they work on are in `jobs`.

mod outcome;
mod work;

use std::sync::Arc;

use resolver::{LookupFailure, ScrubbedAnswer, ShedReason};
use validator::Security;

use crate::jobs::job::Job;
use crate::jobs::queue::Candidate;
use crate::jobs::{Moment, Turn};
use crate::service::Service;
use crate::settings::Policy;
use crate::sync::lock;
use crate::waiter::{Unchecked, WaiterKind};
use outcome::deliver;
pub use work::Validations;

impl Service {
    /// Returns the validator of answers, to be run on threads of its own.
    pub fn validations(self: &Arc<Self>) -> Validations {
        Validations::new(Arc::clone(self))
    }

    /// Stops validation: [`Validations::run`] returns, and every waiter is notified.
    pub fn stop_validating(&self) {
        self.unvalidated.close();
    }

    /// Returns the number of clients whose answers wait for validation.
    pub fn unvalidated(&self) -> usize {
        self.unvalidated.clients()
    }

    /// Validates an answer and delivers it to its waiter: at once, if its state follows from cached keys, or
    /// else by the validation threads.
    pub(crate) fn validate(
        &self,
        policy: &Arc<Policy>,
        answer: Arc<ScrubbedAnswer>,
        unchecked: Unchecked,
        waiter: WaiterKind,
        at: Moment,
    ) {
        let Unchecked { query_key, client, budget, quota } = unchecked;
        let config = &policy.validation;
        let Some(place) = self.unvalidated.place(client, config.waiting, config.waiting_of_network) else {
            self.stats().validation.shed.add();
            return self.give_up(policy, waiter, LookupFailure::Shed(ShedReason::Queue), None, at.cache);
        };
        let candidate = Candidate { answer, query_key, client, budget, quota, waiter, _place: place };
        let basis = lock(&self.validating).basis(policy);
        if let Some(candidate) = self.recall(&Turn { policy, basis: &basis, at }, candidate) {
            self.unvalidated.put(candidate);
        }
    }

    /// Delivers an answer that was validated recently, or whose state follows from cached keys without
    /// signatures, hashes or records and is not bogus. Any other candidate is returned unchanged.
    fn recall(&self, turn: &Turn<'_>, candidate: Candidate) -> Option<Candidate> {
        let recent = lock(&self.validating).recent(&candidate.answer);
        if let Some(finished) = recent {
            deliver(self, turn, &finished, candidate);
            return None;
        }
        let (by, table) = (turn.by(), turn.basis.table(candidate.query_key.partition));
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
}
