//! Reasons of bogus answers, kept as long as the cache has them as failures.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use cache::Now;
use resolver::{Partition, QueryKey};
use validator::BogusReason;
use wire::{NameBuf, Type};

use crate::sync::lock;

/// Most answers whose reason is kept. For others only the failure is known.
const MAX_BOGUS_REASONS: usize = 1000;

/// A query, whatever its DO bit, and its partition.
type Asked = (NameBuf, Type, Partition);

/// The bogus answers.
#[derive(Default)]
pub(crate) struct BogusAnswers(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    all: BTreeMap<Asked, (BogusReason, Now)>,
    /// The same queries, oldest first.
    order: VecDeque<Asked>,
}

impl BogusAnswers {
    /// Records that the answer to a query is bogus, until `until`.
    pub(crate) fn note(&self, query_key: &QueryKey, reason: BogusReason, until: Now) {
        let mut noted = lock(&self.0);
        let asked = (query_key.name.into(), query_key.qtype, query_key.partition);
        if noted.all.insert(asked, (reason, until)).is_none() {
            noted.order.push_back(asked);
        }
        if noted.order.len() > MAX_BOGUS_REASONS
            && let Some(first) = noted.order.pop_front()
        {
            noted.all.remove(&first);
        }
    }

    /// Returns why the answer to a query was bogus, if that is recorded.
    pub(crate) fn reason(&self, query_key: &QueryKey, now: Now) -> Option<BogusReason> {
        let noted = lock(&self.0);
        let asked = (query_key.name.into(), query_key.qtype, query_key.partition);
        noted.all.get(&asked).filter(|(_, until)| now < *until).map(|(reason, _)| *reason)
    }
}
