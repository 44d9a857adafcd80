//! What waits for the outcome of a lookup: clients, callbacks, validations.

use query_path::Responder;
use resolver::{Budget, ClientPrefix, LookupOutcome, Partition, QueryKey};
use validator::{Need, Security};
use wire::NameBuf;

use crate::query_state::QueryState;
use crate::quota::ValidationQuota;

/// A waiter for the outcome of a lookup.
pub struct Waiter {
    pub(crate) kind: WaiterKind,
    /// Set if the answer is to be validated: the original query.
    pub(crate) unchecked: Option<Box<Unchecked>>,
}

/// The kinds of waiters.
pub(crate) enum WaiterKind {
    /// No client: only the cache receives the answer. Validation is charged to this quota.
    Unattended(ValidationQuota),
    /// A client.
    Client(Box<Waiting>),
    /// A callback in this process.
    Callback(Box<OutcomeCallback>),
    /// A validation that needs the answer.
    Validations(Box<Wanted>),
    /// The number of a validation that needs a second answer, since the first was bogus.
    Second(u64),
}

/// Takes the outcome of a lookup and the verdict of validation.
pub(crate) type OutcomeCallback = dyn FnOnce(LookupOutcome, Option<Verdict>) + Send;

impl Waiter {
    pub(crate) fn new(kind: WaiterKind) -> Self {
        Waiter { kind, unchecked: None }
    }

    /// A waiter without a client; validation of its answer is charged to `quota`.
    pub(crate) fn unattended(quota: ValidationQuota) -> Self {
        Waiter::new(WaiterKind::Unattended(quota))
    }

    /// Returns the quota that validation is charged to.
    pub(crate) fn quota(&self) -> ValidationQuota {
        match &self.kind {
            WaiterKind::Unattended(quota) => quota.clone(),
            WaiterKind::Client(waiting) => waiting.query_state.quota.clone(),
            WaiterKind::Callback(_) | WaiterKind::Validations(_) | WaiterKind::Second(_) => {
                ValidationQuota::default()
            }
        }
    }

    /// A waiter that passes the outcome and, where answers are validated, the verdict to a callback.
    pub fn callback(callback: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static) -> Self {
        Waiter::new(WaiterKind::Callback(Box::new(callback)))
    }

    /// Calls the callback with the outcome, if the waiter is a callback.
    pub(crate) fn complete(self, outcome: LookupOutcome) {
        if let WaiterKind::Callback(callback) = self.kind {
            callback(outcome, None);
        }
    }
}

/// A waiting client.
pub(crate) struct Waiting {
    pub(crate) responder: Responder,
    pub(crate) query_state: QueryState,
}

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

/// A lookup of DS or DNSKEY for validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) need: Need,
    /// The first answer was bogus: the lookup goes to another server.
    pub(crate) again: bool,
    /// The partition of the answers that need it.
    pub(crate) partition: Partition,
}
