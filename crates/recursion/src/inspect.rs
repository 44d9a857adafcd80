//! What recursive service knows about a question, for a person who asks.

use std::net::Ipv4Addr;

use cache::{Freshness, Lookup, Now};
use dnssec::BogusReason;
use resolver::{ClientPrefix, LookupFailure, LookupOutcome, LookupRequest, QueryKey, ShedReason, Trace};
use wire::hash::HashedName;
use wire::{LowerNameBuf, Rcode};

use crate::completion::Waiter;
use crate::dns64::Dns64Made;
use crate::service::{Service, key};
use crate::validation::Verdict;

/// What is known about a question.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// It is answered on the spot: special-use names, local data.
    pub local: bool,
    /// The domain of the rule that covers the name.
    pub rule: Option<LowerNameBuf>,
    /// Its answers are validated.
    pub validates: bool,
    /// The answer in the cache.
    pub cached: Option<CachedAnswer>,
    /// For how many seconds more a failure is remembered.
    pub failure: Option<u32>,
    /// If it is one, why the answer was bogus.
    pub bogus: Option<BogusReason>,
}

/// An answer in the cache.
#[derive(Clone, Debug)]
pub struct CachedAnswer {
    /// Whether its time is up.
    pub freshness: Freshness,
    /// It denies a name above, and so this one (RFC 8020).
    pub above: bool,
    /// Its response code.
    pub rcode: Rcode,
    /// It is secure, by what was found here or by the word of servers that are trusted with that.
    pub authentic: bool,
    /// The response, its TTLs aged.
    pub message: Vec<u8>,
}

impl Service {
    /// What is known about a question now. Not counted as a use.
    pub fn inspect(&self, query_key: &QueryKey, now: Now) -> Inspection {
        let policy = self.policy();
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), query_key.name.as_name());
        let local = policy.local.is_local(&hashed, query_key.qtype, query_key.qclass);
        let Some(cache_view) = policy.cache_views.of(&hashed, query_key.qtype) else {
            return Inspection {
                local,
                rule: None,
                validates: false,
                cached: None,
                failure: None,
                bogus: None,
            };
        };
        let key = key(query_key, &hashed, cache_view);
        let mut room = vec![0; usize::from(u16::MAX)];
        let mut answer = |above, found: &dyn Fn(&mut [u8]) -> Lookup| match found(&mut room) {
            Lookup::Hit(hit) => {
                let body = room.get(..hit.len).unwrap_or_default();
                let message = cache::message(
                    hit.rcode,
                    query_key.name.as_lower(),
                    query_key.qtype,
                    query_key.qclass,
                    hit.counts,
                    body,
                );
                let authentic = hit.authentic && cache_view.passes_ad;
                Some(CachedAnswer { freshness: hit.freshness, above, rcode: hit.rcode, authentic, message })
            }
            Lookup::TooLong(_) | Lookup::Miss => None,
        };
        let own = answer(false, &|room| self.cache().lookup(&key, now, room));
        let is_fresh = own.as_ref().is_some_and(|own| matches!(own.freshness, Freshness::Fresh(_)));
        let above = match policy.nxdomain_cut && !is_fresh {
            true => answer(true, &|room| self.cache().nxdomain_above(&key, now, room)),
            false => None,
        };
        let cached = above.or(own);
        let failure = match self.cache().failure(&key, now, &mut room).hit().map(|hit| hit.freshness) {
            Some(Freshness::Fresh(left)) => Some(left),
            _ => None,
        };
        let validates = cache_view.validates;
        let remembered =
            || self.bogus.reason(query_key, now).filter(|_| validates && !query_key.checking_disabled);
        let bogus = failure.and_then(|_| remembered());
        Inspection { local, rule: policy.cache_views.domain(cache_view), validates, cached, failure, bogus }
    }

    /// Whether clients get no records of this answer of other servers, since private addresses are among
    /// them.
    pub fn withholds(&self, message: &[u8]) -> bool {
        self.policy().private.as_ref().is_some_and(|private| private.offends(message))
    }

    /// Whether AAAA records are made of A records (DNS64) where this is the response to a question for AAAA.
    pub fn wants_dns64(&self, aaaa_message: &[u8]) -> bool {
        self.policy().dns64.as_ref().is_some_and(|dns64| dns64.wants_synthesis(aaaa_message))
    }

    /// What becomes of the addresses in a response to a question for A where AAAA records are made of them.
    pub fn dns64_made(&self, a_message: &[u8]) -> Vec<(Ipv4Addr, Dns64Made)> {
        self.policy().dns64.as_ref().map(|dns64| dns64.made_of_all(a_message)).unwrap_or_default()
    }

    /// Has other servers asked, whatever the cache holds; the answer goes into the cache, and the outcome to
    /// `callback`, which is dropped if no server can be asked. With it comes what validating has found, where
    /// answers are validated.
    pub fn look_up(
        &self,
        query_key: QueryKey,
        trace: Option<Trace>,
        callback: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static,
    ) {
        let client = ClientPrefix::of(Ipv4Addr::UNSPECIFIED.into());
        let waiter = Waiter::tell(callback);
        let request = LookupRequest {
            query_key,
            recursion_desired: true,
            client,
            patience: None,
            budget: None,
            other_than: None,
            trace,
            waiter,
        };
        if let Some(LookupRequest { waiter, .. }) = self.request(request) {
            waiter.told(LookupOutcome::Failed(LookupFailure::Shed(ShedReason::Queue)));
        }
    }
}
