//! Questions whose expired answers were served because their servers failed, and when (RFC 8767 §5: the
//! failure recheck timer).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use cache::Now;
use resolver::QueryKey;

/// Most questions that are remembered.
const MAX_STALLED: usize = 16_384;

/// What is done for a question whose answer has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    /// Other servers are asked, and the client waits for them.
    Wait,
    /// The expired answer is served at once, and other servers are asked meanwhile.
    Behind,
    /// The expired answer is served at once, and no server is asked.
    Later,
}

/// Questions by their hash, each with the time when its servers failed or were asked behind a client.
#[derive(Default)]
pub(crate) struct StalledRefreshes {
    since: Mutex<HashMap<u64, Now>>,
    /// How many there are.
    len: AtomicUsize,
    hasher: RandomState,
}

impl StalledRefreshes {
    fn key(&self, query_key: &QueryKey) -> u64 {
        self.hasher.hash_one((query_key.name.as_lower().as_wire(), query_key.qtype.0, query_key.qclass.0))
    }

    /// Notes that the servers for a question have failed at `now`.
    pub(crate) fn failed(&self, query_key: &QueryKey, now: Now, interval: u32) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() >= MAX_STALLED {
            since.retain(|_, at| now.since(*at) < interval.saturating_mul(2));
        }
        if since.len() < MAX_STALLED {
            since.insert(self.key(query_key), now);
        }
        self.len.store(since.len(), Relaxed);
    }

    /// Forgets a question: a server has answered it.
    pub(crate) fn answered(&self, query_key: &QueryKey) {
        if self.len.load(Relaxed) > 0 {
            let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
            since.remove(&self.key(query_key));
            self.len.store(since.len(), Relaxed);
        }
    }

    /// Returns what is done at `now` for a question whose answer has expired: for `interval` seconds after a
    /// failure no server is asked, and for as long again one of those who ask has them asked behind.
    pub(crate) fn refresh(&self, query_key: &QueryKey, now: Now, interval: u32) -> Refresh {
        if self.len.load(Relaxed) == 0 {
            return Refresh::Wait;
        }
        let key = self.key(query_key);
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = since.get_mut(&key) else { return Refresh::Wait };
        let age = now.since(*at);
        if age < interval {
            Refresh::Later
        } else if age < interval.saturating_mul(2) {
            // Others that come before that has ended do not ask.
            *at = now;
            Refresh::Behind
        } else {
            since.remove(&key);
            self.len.store(since.len(), Relaxed);
            Refresh::Wait
        }
    }
}
