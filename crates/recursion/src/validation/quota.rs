//! What validating may cost one client's query, and has.

use std::sync::{Arc, Mutex};

use dnssec::{ValidationBudget, ValidationLimits};

use super::lock;

/// The work that validating may take for one client's query, from the first name of a chain to the last. Its
/// clones share it: everything that is asked for the query has one, and none is ever filled again.
#[derive(Clone, Default)]
pub(crate) struct ValidationQuota(Arc<Mutex<Option<ValidationBudget>>>);

/// Work that was done: signatures, those of them that were not good, NSEC3 hashes, questions for DS and
/// DNSKEY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent([u32; 4]);

impl Spent {
    fn of(budget: &ValidationBudget) -> Spent {
        Spent([budget.signatures(), budget.failures(), budget.nsec3_hashes(), budget.fetches()])
    }

    /// Signatures that were verified.
    pub(super) fn signatures(self) -> u32 {
        self.0[0]
    }

    /// Those of them that were not good.
    pub(super) fn failures(self) -> u32 {
        self.0[1]
    }
}

impl ValidationQuota {
    /// Does work that is paid from this, and adds it to what one answer has taken. The limits are those in
    /// force when the query's first answer was validated.
    pub(super) fn pay<T>(
        &self,
        limits: ValidationLimits,
        own: &mut Spent,
        work: impl FnOnce(&mut ValidationBudget) -> T,
    ) -> T {
        let mut left = lock(&self.0);
        let budget = left.get_or_insert_with(|| ValidationBudget::new(limits));
        let before = Spent::of(budget);
        let done = work(budget);
        for ((own, after), before) in own.0.iter_mut().zip(Spent::of(budget).0).zip(before.0) {
            *own = own.saturating_add(after.saturating_sub(before));
        }
        done
    }

    /// Whether the query has spent more than what one answer has taken.
    pub(super) fn is_more_than(&self, own: Spent) -> bool {
        lock(&self.0).as_ref().is_some_and(|budget| Spent::of(budget) != own)
    }
}
