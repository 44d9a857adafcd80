//! What waits for the outcome of a lookup: clients, callbacks, validations.

use query_path::Responder;
use resolver::{Budget, ClientPrefix, LookupOutcome, QueryKey};
use validator::{Need, Security};
use wire::NameBuf;

use crate::query_state::QueryState;
use crate::quota::ValidationQuota;

/// A waiter for the outcome of a lookup.
pub struct Waiter {
    pub(crate) who: Who,
    /// Set if the answer is to be validated: the original query.
    pub(crate) unchecked: Option<Box<Unchecked>>,
}

/// The kinds of waiters.
pub(crate) enum Who {
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
    pub(crate) fn new(who: Who) -> Self {
        Waiter { who, unchecked: None }
    }

    /// A waiter without a client; validation of its answer is charged to `quota`.
    pub(crate) fn unattended(quota: ValidationQuota) -> Self {
        Waiter::new(Who::Unattended(quota))
    }

    /// Returns the quota that validation is charged to.
    pub(crate) fn quota(&self) -> ValidationQuota {
        match &self.who {
            Who::Unattended(quota) => quota.clone(),
            Who::Client(waiting) => waiting.query_state.quota.clone(),
            Who::Callback(_) | Who::Validations(_) | Who::Second(_) => ValidationQuota::default(),
        }
    }

    /// A waiter that passes the outcome and, where answers are validated, the verdict to a callback.
    pub fn tell(told: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static) -> Self {
        Waiter::new(Who::Callback(Box::new(told)))
    }

    /// Calls the callback with the outcome, if the waiter is a callback.
    pub(crate) fn told(self, outcome: LookupOutcome) {
        if let Who::Callback(told) = self.who {
            told(outcome, None);
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
}
