//! Counters of checks of delegations.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use validator::children::RefusalReason;

use super::status::{CheckOutcome, ChildRequestKind};

/// Counters of checks of delegations, of all zones together.
#[derive(Debug, Default)]
pub struct DelegationCounts {
    /// Checks of CDS and CDNSKEY records.
    pub cds: DelegationCheckCounts,
    /// Checks of CSYNC records.
    pub csync: DelegationCheckCounts,
    /// NOTIFYs that have led to a check, or to one that waited already.
    pub notify_taken: AtomicU64,
    /// NOTIFYs for names that are not delegated.
    pub notify_refused: AtomicU64,
    /// NOTIFYs that were dropped, because too many checks wait.
    pub notify_dropped: AtomicU64,
}

/// Counters of checks by their outcomes.
#[derive(Debug, Default)]
pub struct DelegationCheckCounts {
    /// Checks without a request of the child.
    pub nothing: AtomicU64,
    /// Checks after which the zone had what the child asks for.
    pub unchanged: AtomicU64,
    /// Checks that changed the zone.
    pub changed: AtomicU64,
    /// Checks that would have changed the zone (`delegation-dry-run`).
    pub would_change: AtomicU64,
    /// Checks whose change could not be made.
    pub failed: AtomicU64,
    /// Requests that were not accepted, in the order of [`RefusalReason::ALL`].
    pub refused: [AtomicU64; RefusalReason::ALL.len()],
}

impl DelegationCounts {
    /// Counts a check.
    pub(super) fn ended(&self, kind: ChildRequestKind, outcome: &CheckOutcome) {
        match kind {
            ChildRequestKind::Cds => self.cds.ended(outcome),
            ChildRequestKind::Csync => self.csync.ended(outcome),
        }
    }
}

impl DelegationCheckCounts {
    fn ended(&self, outcome: &CheckOutcome) {
        let counter = match outcome {
            CheckOutcome::NotDelegated
            | CheckOutcome::Unsigned
            | CheckOutcome::NotAccepted
            | CheckOutcome::Nothing => &self.nothing,
            CheckOutcome::Unchanged => &self.unchanged,
            CheckOutcome::Changed(_) => &self.changed,
            CheckOutcome::WouldChange(_) => &self.would_change,
            CheckOutcome::Failed(_) => &self.failed,
            CheckOutcome::Refused(reason, _) => {
                let at = RefusalReason::ALL.iter().position(|one| one == reason).unwrap_or_default();
                &self.refused[at]
            }
        };
        counter.fetch_add(1, Relaxed);
    }
}
