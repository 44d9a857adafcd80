//! State of recursive service for one query, for the control commands of operators.

use std::net::Ipv4Addr;

use cache::{Freshness, Held, Lookup, Now};
use query_path::GroupClient;
use resolver::{
    ClientPrefix, LookupFailure, LookupOutcome, LookupRequest, Partition, QueryKey, ShedReason, Trace,
};
use validator::BogusReason;
use wire::hash::HashedName;
use wire::{LowerNameBuf, Rcode};

use crate::dns64::Dns64Made;
use crate::kept::key;
use crate::message::response;
use crate::query_state::in_partition;
use crate::service::{Service, shared_key};
use crate::waiter::{Verdict, Waiter};

/// State of recursive service for one query.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// The query is for a local name (special use or local data).
    pub local: bool,
    /// The domain of the rule that covers the name.
    pub rule: Option<LowerNameBuf>,
    /// Answers are validated.
    pub validates: bool,
    /// The cached answer.
    pub cached: Option<CachedAnswer>,
    /// Remaining seconds of a cached failure.
    pub failure: Option<u32>,
    /// Why the answer was bogus, if the cached failure is due to that.
    pub bogus: Option<BogusReason>,
}

/// A cached answer.
#[derive(Clone, Debug)]
pub struct CachedAnswer {
    /// Whether it is fresh or expired, and for how long.
    pub freshness: Freshness,
    /// It is the NXDOMAIN of an ancestor, which also denies this name (RFC 8020).
    pub above: bool,
    /// Its response code.
    pub rcode: Rcode,
    /// It is secure, by our own validation or by AD of servers that are trusted to validate.
    pub authentic: bool,
    /// The response, with aged TTLs.
    pub message: Vec<u8>,
}

impl Service {
    /// Returns the partition of a client, or of those in no group.
    pub fn partition_of(&self, client: Option<GroupClient<'_>>) -> Partition {
        let policy = self.policy();
        let Some(partitions) = &policy.partitions else { return Partition::SHARED };
        client.map_or(partitions.others(), |client| partitions.of(client))
    }

    /// Returns the partition whose clients get a cached answer; `None` if no client does.
    pub fn partition_of_held(&self, held: &Held) -> Option<Partition> {
        self.policy().cache_views.partition_of_view(&shared_key(held), held.view())
    }

    /// Returns the state for a query of clients of a partition, and the query with the partition that its
    /// lookup is in. Does not count as a use of the cache entry.
    pub fn inspect(&self, of_client: Partition, query_key: QueryKey, now: Now) -> (Inspection, QueryKey) {
        let query_key = in_partition(&self.policy(), of_client, query_key);
        (self.inspection(of_client, &query_key, now), query_key)
    }

    fn inspection(&self, of_client: Partition, query_key: &QueryKey, now: Now) -> Inspection {
        let policy = self.policy();
        let mut hashed = HashedName::new();
        hashed.set(self.cache().key(), query_key.name.as_name());
        let local = policy.local(of_client).is_local(&hashed, query_key.qtype, query_key.qclass);
        let Some(cache_view) = policy.cache_views.of_hashed(query_key, &hashed) else {
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
                let message = response(query_key, hit.rcode, hit.counts, body);
                let authentic = hit.authentic && cache_view.passes_ad;
                Some(CachedAnswer { freshness: hit.freshness, above, rcode: hit.rcode, authentic, message })
            }
            Lookup::TooLong(_) | Lookup::Miss => None,
        };
        let across = policy.cache_views.across(of_client, query_key);
        let across = across.map(|across| crate::kept::key(query_key, &hashed, across));
        let own = answer(false, &|room| self.cache().lookup(&key, now, room)).or_else(|| {
            across.and_then(|across| answer(false, &|room| self.cache().lookup(&across, now, room)))
        });
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

    /// Whether DNS64 synthesizes AAAA records, given this response to a query for AAAA.
    pub fn wants_dns64(&self, aaaa_message: &[u8]) -> bool {
        self.policy().dns64.as_ref().is_some_and(|dns64| dns64.wants_synthesis(aaaa_message))
    }

    /// Returns what DNS64 makes of each address in a response to a query for A.
    pub fn dns64_made(&self, a_message: &[u8]) -> Vec<(Ipv4Addr, Dns64Made)> {
        self.policy().dns64.as_ref().map(|dns64| dns64.made_of_all(a_message)).unwrap_or_default()
    }

    /// Starts a lookup regardless of the cache. The answer is cached, and `callback` receives the outcome
    /// and, where answers are validated, the verdict. `callback` is dropped if no resolver is connected.
    pub fn look_up(
        &self,
        query_key: QueryKey,
        trace: Option<Trace>,
        callback: impl FnOnce(LookupOutcome, Option<Verdict>) + Send + 'static,
    ) {
        let waiter = Waiter::callback(callback);
        let request = LookupRequest { trace, ..LookupRequest::new(query_key, ClientPrefix::none(), waiter) };
        if let Some(LookupRequest { waiter, .. }) = self.request(request) {
            waiter.complete(LookupOutcome::Failed(LookupFailure::Shed(ShedReason::Queue)));
        }
    }
}
