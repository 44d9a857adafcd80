//! Queries whose stale answers were served because their servers failed, with the time of the failure
//! (RFC 8767 §5: the failure recheck timer).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cache::Now;
use resolver::QueryKey;

use crate::sync::lock;

/// Most queries remembered.
const MAX_STALLED: usize = 16_384;

/// How an expired answer is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Lookup; the client waits for its outcome.
    Wait,
    /// The stale answer is sent at once, and a lookup runs in the background.
    Behind,
    /// The stale answer is sent at once, without a lookup.
    Later,
}

/// Hashed queries with the time when their servers failed or a background lookup started.
#[derive(Default)]
pub(crate) struct StalledRefreshes {
    since: Mutex<HashMap<u64, Now>>,
    /// Number of entries.
    len: AtomicUsize,
    hasher: RandomState,
}

impl StalledRefreshes {
    fn key(&self, query_key: &QueryKey) -> u64 {
        let QueryKey { name, qtype, qclass, partition, .. } = query_key;
        self.hasher.hash_one((name.as_lower().as_wire(), qtype.0, qclass.0, partition))
    }

    /// Records that the servers failed to answer a query at `now`.
    pub(crate) fn failed(&self, query_key: &QueryKey, now: Now, interval: u32) {
        let key = self.key(query_key);
        let mut since = lock(&self.since);
        if since.len() >= MAX_STALLED {
            since.retain(|_, at| now.since(*at) < interval.saturating_mul(2));
        }
        if since.len() < MAX_STALLED || since.contains_key(&key) {
            since.insert(key, now);
        }
        self.len.store(since.len(), Relaxed);
    }

    /// Removes a query that a server has answered.
    pub(crate) fn answered(&self, query_key: &QueryKey) {
        if self.len.load(Relaxed) > 0 {
            let mut since = lock(&self.since);
            since.remove(&self.key(query_key));
            self.len.store(since.len(), Relaxed);
        }
    }

    /// Returns how to refresh an expired answer. For `interval` seconds after a failure no lookup starts; in
    /// the next `interval` seconds the first query starts one in the background.
    pub(crate) fn refresh(&self, query_key: &QueryKey, now: Now, interval: u32) -> Refresh {
        if self.len.load(Relaxed) == 0 {
            return Refresh::Wait;
        }
        let key = self.key(query_key);
        let mut since = lock(&self.since);
        let Some(at) = since.get_mut(&key) else { return Refresh::Wait };
        let age = now.since(*at);
        if age < interval {
            Refresh::Later
        } else if age < interval.saturating_mul(2) {
            // Later queries do not start another one meanwhile.
            *at = now;
            Refresh::Behind
        } else {
            since.remove(&key);
            self.len.store(since.len(), Relaxed);
            Refresh::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use resolver::Partition;
    use wire::{Class, NameBuf, Type};

    use super::*;

    fn query_key(number: usize) -> QueryKey {
        let name: NameBuf = format!("n{number}.example.").parse().expect("a name");
        QueryKey {
            name: name.as_name().to_lower(),
            qtype: Type::A,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::SHARED,
        }
    }

    #[test]
    fn a_full_table_renews_its_entries_and_takes_no_more_before_some_expire() {
        let (stalled, start) = (StalledRefreshes::default(), Now::since_start(0));
        for number in 0..MAX_STALLED {
            stalled.failed(&query_key(number), start, 30);
        }
        let later = start.plus(59);
        stalled.failed(&query_key(MAX_STALLED), later, 30);
        assert_eq!(stalled.refresh(&query_key(MAX_STALLED), later, 30), Refresh::Wait);
        stalled.failed(&query_key(0), later, 30);
        assert_eq!(stalled.refresh(&query_key(0), later, 30), Refresh::Later);
        // All but the renewed entry have expired.
        stalled.failed(&query_key(MAX_STALLED), start.plus(60), 30);
        assert_eq!(stalled.refresh(&query_key(MAX_STALLED), start.plus(60), 30), Refresh::Later);
        assert_eq!(stalled.len.load(Relaxed), 2);
    }
}
