//! [`OnlineSigner`]: signatures of answers, made when they are asked for, and cached.
//!
//! A cached signature is found by a digest of the RRset and of the keys: an RRset that a new version of the
//! zone has changed, or new keys, never find a signature of before. A signature is made again once it would
//! have to be renewed in a zone that is signed beforehand.
//!
//! Clients can ask for any number of names that do not exist, each of which needs a signature. Their
//! signatures are cached apart from those of the zone's own names, and may use three quarters of the limit.
//!
//! | file | holds |
//! |---|---|
//! | `cache.rs` | the cache |
//! | `limit.rs` | the limit of signatures a second |

mod cache;
mod limit;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use wire::rdata::view::SigAlgorithm;
use wire::{LowerName, LowerNameBuf, UnixTime};
use zone::catalog::{AnswerSet, AnswerSignatures, AnswerSigner, AnswerUnsigned, OnlineDenial};

use crate::denial::DenialMethod;
use crate::key::ZoneKey;
use crate::keyset::ZoneKeys;
use crate::policy::DnssecPolicy;
use crate::rrset::{SignaturePeriod, UnsignedSet, sign_rrset};
use cache::SignatureCache;
use limit::SignatureLimit;

/// Signatures of an elliptic curve that take as long as one of RSA.
const RSA_COST: u32 = 40;
/// The number of keys in a digest of none.
const NO_KEYS: u64 = 0;

/// Counters of the signatures of answers.
#[derive(Debug, Default)]
pub struct OnlineCounts {
    /// RRsets whose signatures were cached.
    pub hits: AtomicU64,
    /// Signatures made.
    pub made: AtomicU64,
    /// RRsets whose signatures were evicted from the cache.
    pub evicted: AtomicU64,
    /// RRsets that were not signed because of the limit.
    pub refused: AtomicU64,
}

/// When the signatures of answers are valid, and when they are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    validity: Duration,
    refresh: Duration,
    jitter: u32,
    inception_offset: Duration,
}

/// What signs now.
struct Active {
    keys: Vec<Arc<ZoneKey>>,
    times: Times,
    denial: OnlineDenial,
    /// Another one for each set of keys.
    number: u64,
    /// What one RRset costs.
    cost: u32,
}

/// Signs the answers of one zone. All versions of the zone and all workers share it.
pub struct OnlineSigner {
    apex: LowerNameBuf,
    clock: fn() -> UnixTime,
    active: RwLock<Option<Arc<Active>>>,
    numbers: AtomicU64,
    limit: SignatureLimit,
    cache: SignatureCache,
    counts: OnlineCounts,
}

impl OnlineSigner {
    /// Returns a signer without keys. `clock` returns the time of new signatures.
    pub fn new(apex: LowerName<'_>, clock: fn() -> UnixTime) -> OnlineSigner {
        OnlineSigner {
            apex: apex.to_buf(),
            clock,
            active: RwLock::default(),
            numbers: AtomicU64::new(NO_KEYS),
            limit: SignatureLimit::new(),
            cache: SignatureCache::new(),
            counts: OnlineCounts::default(),
        }
    }

    /// Has these keys sign from now on, as the policy says. A policy without online signing changes the keys
    /// alone: the version in service may still need them.
    pub fn set(&self, keys: &ZoneKeys, policy: &DnssecPolicy) {
        let keys = keys.data_signers();
        let before = self.active();
        let times = Times {
            validity: policy.signature_validity,
            refresh: policy.signature_refresh,
            jitter: u32::try_from(policy.signature_jitter.as_secs()).unwrap_or(u32::MAX),
            inception_offset: policy.inception_offset,
        };
        let denial = match policy.denial {
            DenialMethod::Online(denial) => denial,
            _ => before.as_ref().map(|active| active.denial).unwrap_or_default(),
        };
        self.limit.set(policy.online_rate);
        self.counts.evicted.fetch_add(self.cache.set_bytes(policy.online_cache), Relaxed);
        let is_same_key = |(a, b): (&Arc<ZoneKey>, &Arc<ZoneKey>)| a.dnskey() == b.dnskey();
        let has_keys = |active: &&Arc<Active>| {
            active.times == times
                && active.keys.len() == keys.len()
                && active.keys.iter().zip(&keys).all(is_same_key)
        };
        let same = before.as_ref().filter(has_keys);
        if same.is_some_and(|active| active.denial == denial) {
            return;
        }
        let number = same.map_or_else(|| self.numbers.fetch_add(1, Relaxed) + 1, |active| active.number);
        if same.is_none() {
            self.counts.evicted.fetch_add(self.cache.clear(), Relaxed);
        }
        let cost = keys.iter().map(|key| cost(key.algorithm())).sum();
        let active = Active { keys, times, denial, number, cost };
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(active));
    }

    /// Drops the keys and all signatures.
    pub fn clear(&self) {
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.counts.evicted.fetch_add(self.cache.clear(), Relaxed);
    }

    /// The counters.
    pub fn counts(&self) -> &OnlineCounts {
        &self.counts
    }

    /// Returns the bytes of cached signatures.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    fn active(&self) -> Option<Arc<Active>> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes the signatures of an RRset, and returns when they are to be renewed.
    fn make(
        &self,
        active: &Active,
        set: &AnswerSet<'_>,
        now: UnixTime,
    ) -> Result<(AnswerSignatures, UnixTime), AnswerUnsigned> {
        let AnswerSet { owner, rtype, ttl, rdatas, .. } = *set;
        let period = SignaturePeriod {
            inception: now.saturating_sub(active.times.inception_offset),
            expiration: now.saturating_add(active.times.validity),
            jitter: active.times.jitter,
        };
        let unsigned = UnsignedSet { owner, rtype, ttl, rdatas };
        let made = active.keys.iter().map(|key| sign_rrset(self.apex.as_lower(), &unsigned, key, &period));
        let made: Vec<Vec<u8>> = made.collect::<Result<_, _>>().map_err(|_| AnswerUnsigned::Failed)?;
        self.counts.made.fetch_add(made.len() as u64, Relaxed);
        let expiration = now.nearest(period.expiration_of(owner, rtype));
        Ok((made.into(), expiration.saturating_sub(active.times.refresh)))
    }
}

impl AnswerSigner for OnlineSigner {
    fn denial(&self) -> OnlineDenial {
        self.active().map(|active| active.denial).unwrap_or_default()
    }

    fn sign(&self, set: &AnswerSet<'_>, received: Instant) -> Result<AnswerSignatures, AnswerUnsigned> {
        let active = self.active().filter(|active| !active.keys.is_empty()).ok_or(AnswerUnsigned::NoKeys)?;
        let (key, now) = (digest_of(set, active.number), (self.clock)());
        if let Some(found) = self.cache.get(&key, set.is_of_zone, now) {
            self.counts.hits.fetch_add(1, Relaxed);
            return Ok(found);
        }
        if !self.limit.take(active.cost, set.is_of_zone, received) {
            self.counts.refused.fetch_add(1, Relaxed);
            return Err(AnswerUnsigned::Limit);
        }
        let (made, until) = self.make(&active, set, now)?;
        let evicted = self.cache.put(key, set.is_of_zone, Arc::clone(&made), until);
        self.counts.evicted.fetch_add(evicted, Relaxed);
        Ok(made)
    }
}

/// What a signature costs, in signatures of an elliptic curve.
fn cost(algorithm: SigAlgorithm) -> u32 {
    match algorithm {
        SigAlgorithm::RSASHA256 | SigAlgorithm::RSASHA512 => RSA_COST,
        _ => 1,
    }
}

/// Returns a digest of an RRset and the number of the keys that sign it. Clients choose owners, so that it
/// must not have collisions that can be found.
fn digest_of(set: &AnswerSet<'_>, number: u64) -> [u8; 16] {
    let mut context = Context::new(&SHA256);
    context.update(&number.to_be_bytes());
    context.update(set.owner.as_wire());
    context.update(&set.rtype.0.to_be_bytes());
    context.update(&set.ttl.to_be_bytes());
    for rdata in set.rdatas {
        context.update(&(rdata.len() as u32).to_be_bytes());
        context.update(rdata);
    }
    context.finish().as_ref().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
