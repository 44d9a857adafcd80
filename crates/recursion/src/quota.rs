//! The validation work that one client's query may cost, and has cost.

use std::sync::{Arc, Mutex, MutexGuard};

use validator::{ValidationBudget, ValidationLimits};

use crate::sync::lock;

/// Limits of validation work for one client's query, for all names of a chain. Clones share it: every lookup
/// for the query has one. It is never refilled.
#[derive(Clone, Default)]
pub(crate) struct ValidationQuota(Arc<Mutex<Option<ValidationBudget>>>);

/// Work done: signatures verified, signatures that failed, NSEC3 hashes, lookups of DS and DNSKEY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent([u32; 4]);

impl Spent {
    fn of(budget: &ValidationBudget) -> Spent {
        Spent([budget.signatures(), budget.failures(), budget.nsec3_hashes(), budget.fetches()])
    }

    /// Signatures verified.
    pub(crate) fn signatures(self) -> u32 {
        self.0[0]
    }

    /// Signatures that failed verification.
    pub(crate) fn failures(self) -> u32 {
        self.0[1]
    }
}

impl ValidationQuota {
    /// Does work that is charged to this quota, and adds its cost to `own`, the cost of one answer. The
    /// limits are those in force when the query's first answer was validated.
    pub(crate) fn pay<T>(
        &self,
        limits: ValidationLimits,
        own: &mut Spent,
        work: impl FnOnce(&mut ValidationBudget) -> T,
    ) -> T {
        let mut left = self.left();
        let budget = left.get_or_insert_with(|| ValidationBudget::new(limits));
        let before = Spent::of(budget);
        let done = work(budget);
        for ((own, after), before) in own.0.iter_mut().zip(Spent::of(budget).0).zip(before.0) {
            *own = own.saturating_add(after.saturating_sub(before));
        }
        done
    }

    /// Whether the query has spent more than `own`, the cost of one answer.
    pub(crate) fn is_more_than(&self, own: Spent) -> bool {
        self.left().as_ref().is_some_and(|budget| Spent::of(budget) != own)
    }

    fn left(&self) -> MutexGuard<'_, Option<ValidationBudget>> {
        lock(&self.0)
    }
}
