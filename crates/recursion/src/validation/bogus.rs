//! Why answers were bogus, for as long as the cache remembers them as failures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use cache::Now;
use dnssec::BogusReason;
use resolver::QueryKey;
use wire::{NameBuf, Type};

/// Most answers of which it is known why they were bogus. Of others it is known that they failed.
const MAX_BOGUS_REASONS: usize = 1000;

/// A question, whatever its DO bit.
type Asked = (NameBuf, Type);

/// The answers that were bogus.
#[derive(Default)]
pub(crate) struct BogusAnswers(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    all: BTreeMap<Asked, (BogusReason, Now)>,
    /// The same in the order of their coming.
    order: VecDeque<Asked>,
}

impl BogusAnswers {
    /// The answer to a question is bogus, which is remembered up to `until`.
    pub(crate) fn note(&self, query_key: &QueryKey, reason: BogusReason, until: Now) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (query_key.name.into(), query_key.qtype);
        if noted.all.insert(asked, (reason, until)).is_none() {
            noted.order.push_back(asked);
        }
        if noted.order.len() > MAX_BOGUS_REASONS
            && let Some(first) = noted.order.pop_front()
        {
            noted.all.remove(&first);
        }
    }

    /// Why the answer to a question was bogus, if that is remembered.
    pub(crate) fn reason(&self, query_key: &QueryKey, now: Now) -> Option<BogusReason> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = (query_key.name.into(), query_key.qtype);
        noted.all.get(&asked).filter(|(_, until)| now < *until).map(|(reason, _)| *reason)
    }
}
