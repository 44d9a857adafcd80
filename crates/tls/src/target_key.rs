//! The key of a target of Oblivious DoH, as the connections to its proxy share it: how old it is, when it is
//! fetched again, and why it is not there. Pure state, without I/O.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use transport::EncryptionFault;

use crate::odoh::ObliviousConfig;

/// Longest wait for a key that is being fetched. The resolver ends the connection mostly earlier.
const FETCH_LIMIT: Duration = Duration::from_secs(10);
/// Shortest and longest age that a key is used to.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The part of this age, in quarters, from which on the key is renewed.
const RENEWED_AT_QUARTERS: u32 = 3;
/// Shortest and longest time between two fetches without an answered query between them.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// The key of a target.
#[derive(Debug)]
pub(crate) struct TargetKey {
    state: Mutex<KeyState>,
    is_configured: bool,
}

#[derive(Debug, Default)]
struct KeyState {
    key: Option<Arc<ObliviousConfig>>,
    /// When the key is fetched again, and when it is not used any more; `None` for one that is configured.
    ages: Option<KeyAges>,
    /// Until when a fetch may take, if one is in flight.
    fetching_until: Option<Instant>,
    /// When the next fetch may begin.
    not_before: Option<Instant>,
    /// Fetches since a query was answered.
    fetches: u32,
    /// Why there is no key.
    fault: Option<EncryptionFault>,
    /// The key that the target has refused since the last fetch.
    refused: Option<Arc<ObliviousConfig>>,
}

#[derive(Clone, Copy, Debug)]
struct KeyAges {
    renew_at: Instant,
    expires: Instant,
}

/// A key and the age that it is used to, or why it was not fetched.
pub(crate) type Fetched = Result<(ObliviousConfig, Duration), EncryptionFault>;

/// What a query can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// It is encrypted to this key.
    Ready {
        key: Arc<ObliviousConfig>,
        /// The caller has the key fetched again.
        fetch: bool,
    },
    /// It waits for the key.
    Wait {
        /// The caller has the key fetched.
        fetch: bool,
    },
    /// It fails.
    Failed(EncryptionFault),
}

impl TargetKey {
    /// Returns the state with a key from the configuration.
    pub(crate) fn configured(key: ObliviousConfig) -> Self {
        let state = KeyState { key: Some(Arc::new(key)), ..KeyState::default() };
        TargetKey { state: Mutex::new(state), is_configured: true }
    }

    /// Returns the state of a key that is fetched.
    pub(crate) fn fetched() -> Self {
        TargetKey { state: Mutex::default(), is_configured: false }
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the next query can do. If that includes a fetch, it counts as begun.
    pub(crate) fn next_use(&self, now: Instant) -> KeyUse {
        let state = &mut *self.state();
        if self.is_configured {
            let key = state.key.clone();
            return key.map_or(KeyUse::Failed(EncryptionFault::ObliviousKey), |key| KeyUse::Ready {
                key,
                fetch: false,
            });
        }
        if let Some(until) = state.fetching_until.filter(|until| *until <= now) {
            state.settle(Err(EncryptionFault::ObliviousTimeout), until);
        }
        if state.ages.is_some_and(|ages| ages.expires <= now) {
            (state.key, state.ages) = (None, None);
        }
        let is_due = state.ages.is_none_or(|ages| ages.renew_at <= now);
        let may_begin = state.not_before.is_none_or(|at| at <= now);
        let fetch = is_due && may_begin && state.fetching_until.is_none();
        if fetch {
            state.fetching_until = Some(now + FETCH_LIMIT);
        }
        match (&state.key, state.fetching_until) {
            (Some(key), _) => KeyUse::Ready { key: Arc::clone(key), fetch },
            (None, Some(_)) => KeyUse::Wait { fetch },
            (None, None) => KeyUse::Failed(state.fault.unwrap_or(EncryptionFault::ObliviousTimeout)),
        }
    }

    /// Returns the end of the wait for a key that is being fetched.
    pub(crate) fn wait_ends(&self) -> Option<Instant> {
        self.state().fetching_until
    }

    /// Records that no fetch is in flight: one that was has failed, since it was not settled.
    pub(crate) fn end_fetch(&self, now: Instant) {
        let state = &mut *self.state();
        if state.fetching_until.is_some() {
            state.settle(Err(EncryptionFault::ObliviousTarget), now);
        }
    }

    /// Records the end of a fetch: the key and the age that it is used to, or why there is none.
    pub(crate) fn settle(&self, fetched: Fetched, now: Instant) {
        self.state().settle(fetched, now);
    }

    /// Records that the target does not have this key. Returns whether another one may come.
    pub(crate) fn refuse(&self, refused: &Arc<ObliviousConfig>) -> bool {
        let state = &mut *self.state();
        if self.is_configured {
            return false;
        }
        // Otherwise it was renewed meanwhile.
        if state.key.as_ref() == Some(refused) {
            (state.key, state.ages) = (None, None);
            state.refused = Some(Arc::clone(refused));
            state.fault = Some(EncryptionFault::ObliviousKey);
        }
        true
    }

    /// Records a response that was decrypted: the key is right.
    pub(crate) fn worked(&self) {
        let state = &mut *self.state();
        (state.fetches, state.not_before) = (0, None);
    }
}

impl KeyState {
    fn settle(&mut self, fetched: Fetched, now: Instant) {
        self.fetching_until = None;
        let backoff = MIN_BACKOFF.saturating_mul(1 << self.fetches.min(16)).min(MAX_BACKOFF);
        self.fetches = self.fetches.saturating_add(1);
        self.not_before = Some(now + backoff);
        let refused = self.refused.take();
        match fetched {
            // The next fetch, after a pause, may show that it has the key by then.
            Ok((key, _)) if refused.as_deref() == Some(&key) => {
                self.fault = Some(EncryptionFault::ObliviousKey);
            }
            Ok((key, age)) => {
                let age = age.clamp(MIN_LIFETIME, MAX_LIFETIME);
                self.ages =
                    Some(KeyAges { renew_at: now + age / 4 * RENEWED_AT_QUARTERS, expires: now + age });
                self.key = Some(Arc::new(key));
            }
            // One that is there is used until its end.
            Err(fault) => self.fault = Some(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::odoh::{ObliviousKeys, ObliviousSeed};

    const HOUR: Duration = Duration::from_secs(3600);
    const SECOND: Duration = Duration::from_secs(1);

    /// The key of the target with this seed.
    fn key(seed: u8) -> ObliviousConfig {
        let mut bytes = [seed; 32];
        bytes[0] = 1;
        let seed = ObliviousSeed::new(bytes).expect("a seed");
        ObliviousConfig::first(ObliviousKeys::new([&seed], HOUR).configs()).expect("a key")
    }

    fn ready(seed: u8, fetch: bool) -> KeyUse {
        KeyUse::Ready { key: Arc::new(key(seed)), fetch }
    }

    #[test]
    fn a_key_is_fetched_once_used_renewed_and_not_used_when_it_is_too_old() {
        let (target, start) = (TargetKey::fetched(), Instant::now());
        assert_eq!(target.next_use(start), KeyUse::Wait { fetch: true });
        assert_eq!(target.next_use(start), KeyUse::Wait { fetch: false }, "one fetch at a time");
        target.settle(Ok((key(7), HOUR)), start);
        assert_eq!(target.next_use(start), ready(7, false));
        target.worked();
        let later = start + HOUR / 4 * 3;
        assert_eq!(target.next_use(later - SECOND), ready(7, false));
        assert_eq!(target.next_use(later), ready(7, true), "renewed before its end");
        assert_eq!(target.next_use(later), ready(7, false));
        target.settle(Err(EncryptionFault::ObliviousTarget), later);
        assert_eq!(target.next_use(later), ready(7, false), "it is used until its end");
        assert_eq!(target.next_use(later + SECOND), ready(7, true), "after a pause");
        let end = start + HOUR;
        assert_eq!(target.next_use(end), KeyUse::Wait { fetch: true }, "the fetch has taken too long");
        target.settle(Ok((key(8), HOUR)), end);
        assert_eq!(target.next_use(end), ready(8, false));
    }

    #[test]
    fn failed_fetches_are_repeated_less_and_less_often() {
        let (target, mut now) = (TargetKey::fetched(), Instant::now());
        let (fault, mut pauses) = (EncryptionFault::ObliviousNoConfigs, Vec::new());
        assert_eq!(target.next_use(now), KeyUse::Wait { fetch: true });
        for _ in 0..8 {
            let ended = now;
            target.settle(Err(fault), ended);
            while target.next_use(now) == KeyUse::Failed(fault) {
                now += SECOND;
            }
            pauses.push((now - ended).as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_fetch_without_an_end_ends_the_wait() {
        let (target, now) = (TargetKey::fetched(), Instant::now());
        assert_eq!(target.next_use(now), KeyUse::Wait { fetch: true });
        assert_eq!(target.wait_ends(), Some(now + FETCH_LIMIT));
        let late = now + FETCH_LIMIT;
        assert_eq!(target.next_use(late), KeyUse::Failed(EncryptionFault::ObliviousTimeout));
        assert_eq!(target.wait_ends(), None);
        let later = late + SECOND;
        assert_eq!(target.next_use(later), KeyUse::Wait { fetch: true });
        target.end_fetch(later);
        assert_eq!(target.next_use(later), KeyUse::Failed(EncryptionFault::ObliviousTarget));
    }

    #[test]
    fn a_refused_key_is_fetched_again_at_once_and_the_same_one_is_a_fault() {
        let (target, now) = (TargetKey::fetched(), Instant::now());
        target.next_use(now);
        target.settle(Ok((key(7), HOUR)), now);
        target.worked();
        assert!(target.refuse(&Arc::new(key(7))));
        assert_eq!(target.next_use(now), KeyUse::Wait { fetch: true });
        target.settle(Ok((key(8), HOUR)), now);
        assert!(target.refuse(&Arc::new(key(7))), "a late refusal of the one before");
        assert_eq!(target.next_use(now), ready(8, false));
        target.worked();
        target.refuse(&Arc::new(key(8)));
        target.next_use(now);
        target.settle(Ok((key(8), HOUR)), now);
        assert_eq!(target.next_use(now), KeyUse::Failed(EncryptionFault::ObliviousKey));
        let later = now + SECOND;
        assert_eq!(target.next_use(later), KeyUse::Wait { fetch: true });
        target.settle(Ok((key(8), HOUR)), later);
        assert_eq!(target.next_use(later), ready(8, false), "the target may have it by now");
    }

    #[test]
    fn a_configured_key_is_never_fetched() {
        let (target, now) = (TargetKey::configured(key(7)), Instant::now());
        assert!(!target.refuse(&Arc::new(key(7))));
        assert_eq!(target.next_use(now + 1000 * HOUR), ready(7, false));
        let text = key(7).to_string();
        assert_eq!(text.parse(), Ok(key(7)), "{text}");
    }
}
