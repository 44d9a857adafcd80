//! The cache as seen by the query path: answers cache hits batch by batch, without a lock.

use std::sync::Arc;

use cache::{Freshness, Hit, Key, Lead, Lookup};
use policy::{Match, PolicyQuery, SourceId};
use query_path::{Asked, LookupKey, Memory, MemoryResult, Refusal};
use resolver::{ClientPrefix, QueryKey};
use transport::Client;
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Full, Offset};
use wire::{Class, Type};

use crate::access::AccessAction;
use crate::cache_views::CacheView;
use crate::message::ReplyOptions;
use crate::policy_rules::{Blocked, PolicyRules};
use crate::rpz::RpzOrder;
use crate::service::Service;
use crate::settings::{Gate, Policy};

/// The cache; empty if recursive service is off.
#[derive(Clone)]
pub struct Cached {
    on: Option<On>,
    key: HashKey,
}

#[derive(Clone)]
struct On {
    service: Arc<Service>,
    policy: Arc<Policy>,
}

/// Where the answer to a query is looked up.
pub struct CacheLocation(Found);

/// What was found for a query before its answer is read.
#[derive(Clone, Copy)]
enum Found {
    /// The position of its answer in the cache. No rule applies to the query if a policy zone exempts it.
    Entry { lead: Lead, cache_view: CacheView, exempt_by: Option<SourceId> },
    /// A list blocks the name.
    Blocked(Blocked),
    /// A response policy zone has a rule about the name.
    Rpz(Match),
    /// The rules depend on the client; the position of its answer in the cache, if any.
    ByClient(Option<(Lead, CacheView)>),
}

impl Cached {
    /// Recursive service is off; `key` is the hash key of names.
    pub fn off(key: HashKey) -> Self {
        Cached { on: None, key }
    }

    fn new(service: Arc<Service>, policy: Arc<Policy>) -> Self {
        let key = *service.cache().key();
        Cached { on: Some(On { service, policy }), key }
    }
}

impl Service {
    /// Returns a handle of the cache for the query path, with the current policy.
    pub fn memory(self: &Arc<Self>) -> Cached {
        Cached::new(Arc::clone(self), self.policy())
    }
}

/// Returns the query's key for lookups.
pub(crate) fn query_key(asked: &Asked<'_>) -> QueryKey {
    QueryKey {
        name: asked.qname.as_lower().to_buf(),
        qtype: asked.question.qtype,
        qclass: asked.question.qclass,
        dnssec_ok: asked.request.dnssec_ok(),
        checking_disabled: asked.request.header.checking_disabled(),
    }
}

impl On {
    /// Writes the header of an answer whose sections are written, and counts it.
    #[inline]
    fn finish(&self, hit: &Hit, cache_view: CacheView, asked: &Asked<'_>, b: &mut Builder<'_>) {
        ReplyOptions::of(asked.request).set_flags(b, hit.rcode, false, hit.authentic && cache_view.passes_ad);
        if hit.prefetch && self.policy.prefetch {
            self.service.prefetch(query_key(asked), ClientPrefix::of(asked.client.peer.ip()));
        }
        asked.stats.cache_hits.add(1);
        asked.stats.cache_negative.add(u64::from(hit.negative));
    }
}

impl On {
    /// Returns what the rules say about a query if they depend on its client: the position of its answer in
    /// the cache, the zone that exempts it from rules, and the rule about it.
    fn gate_of_client(
        &self,
        entry: Option<(Lead, CacheView)>,
        asked: &Asked<'_>,
    ) -> (Option<(Lead, CacheView)>, Option<SourceId>, Gate) {
        let policy = &self.policy;
        let Some(lists) = &policy.lists else { return (entry, None, Gate::Open) };
        let (query, sources) = (policy_query(asked), lists.sources_of(asked.client));
        match policy.gate(&query, sources, query.qtype, asked.question.qclass) {
            Gate::Rpz(rule) if policy.exempts(&rule, sources, asked.request.dnssec_ok()) => {
                (entry, Some(rule.rule.source), Gate::Open)
            }
            gate => (entry, None, gate),
        }
    }
}

impl Memory for Cached {
    type Location = CacheLocation;
    type Scratch = ();

    const PASSES: usize = 1;

    fn key(&self) -> &HashKey {
        &self.key
    }

    #[inline]
    fn offers_recursion(&self, client: impl FnOnce() -> Client) -> bool {
        let Some(on) = &self.on else { return false };
        on.policy.access.of(&client()) == AccessAction::Allow
    }

    fn resolves(&self, lookup_key: &LookupKey<'_>) -> bool {
        let Some(On { policy, .. }) = &self.on else { return false };
        policy.cache_views.of(lookup_key.qname, lookup_key.question.qtype).is_some()
    }

    #[inline]
    fn prefetch_find(&self, qname: &HashedName) {
        let Some(On { service, policy }) = &self.on else { return };
        // The position of a name's entries does not depend on the type.
        let Some(cache_view) = policy.cache_views.of(qname, Type::A) else { return };
        let (qtype, qclass, cache_view) = (Type::A, Class::IN, cache_view.number);
        service.cache().prefetch_find(&Key {
            name: qname,
            qtype,
            qclass,
            view: cache_view,
            dnssec_ok: false,
            checking_disabled: false,
        });
    }

    #[inline]
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<CacheLocation> {
        let On { service, policy } = self.on.as_ref()?;
        let LookupKey { request, question, qname, may_recurse } = *lookup_key;
        if !may_recurse || !request.header.recursion_desired() {
            return None;
        }
        let entry = || {
            let cache_view = policy.cache_views.of(qname, question.qtype)?;
            let lead = service.cache().find(&key(request, question, qname, cache_view))?;
            Some((lead, cache_view))
        };
        let mut exempt_by = None;
        if let Some(lists) = &policy.lists {
            if lists.depends_on_client() {
                return Some(CacheLocation(Found::ByClient(entry())));
            }
            let (qtype, sources) = (question.qtype, lists.sources());
            let query = PolicyQuery { name: qname, qtype, client: None };
            match policy.gate(&query, sources, qtype, question.qclass) {
                Gate::Open => {}
                Gate::Blocked(blocked) => return Some(CacheLocation(Found::Blocked(blocked))),
                Gate::Rpz(rule) if policy.exempts(&rule, sources, request.dnssec_ok()) => {
                    exempt_by = Some(rule.rule.source);
                }
                Gate::Rpz(rule) => return Some(CacheLocation(Found::Rpz(rule))),
            }
        }
        entry().map(|(lead, cache_view)| CacheLocation(Found::Entry { lead, cache_view, exempt_by }))
    }

    #[inline]
    fn prefetch(&self, _: usize, location: &mut CacheLocation, _: &HashedName) -> bool {
        if let (Some(On { service, .. }), Found::Entry { lead, .. } | Found::ByClient(Some((lead, _)))) =
            (&self.on, &location.0)
        {
            service.cache().prefetch(lead);
        }
        false
    }

    #[inline]
    fn answer<'s>(
        &self,
        location: &CacheLocation,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        (): &'s mut (),
    ) -> Result<MemoryResult<'s>, Refusal> {
        let Some(on @ On { service, policy }) = &self.on else { return Ok(MemoryResult::Nothing) };
        let (lists, qtype) = (policy.lists.as_deref(), asked.question.qtype);
        let (entry, exempt_by, gate) = match location.0 {
            Found::Entry { lead, cache_view, exempt_by } => (Some((lead, cache_view)), exempt_by, Gate::Open),
            Found::Blocked(blocked) => (None, None, Gate::Blocked(blocked)),
            Found::Rpz(rule) => (None, None, Gate::Rpz(rule)),
            Found::ByClient(entry) => on.gate_of_client(entry, asked),
        };
        match (lists, gate) {
            (Some(lists), Gate::Blocked(blocked)) => {
                lists.count_disabled(&policy_query(asked));
                return Ok(MemoryResult::Answer(Some(lists.write(blocked, asked.name(), qtype, b))));
            }
            (Some(lists), Gate::Rpz(rule)) => return Ok(by_rule(lists, &rule, asked, b)),
            _ => {}
        }
        let Some((lead, cache_view)) = entry else { return Ok(MemoryResult::Nothing) };
        let (lists, exempting) = (lists.filter(|_| exempt_by.is_none()), lists.zip(exempt_by));
        if lists.is_some_and(|lists| lists.needs_servers(lists.sources_of(asked.client))) {
            return Ok(MemoryResult::Nothing);
        }
        if qtype == Type::AAAA && policy.dns64.is_some() {
            // DNS64 may have to synthesize the answer.
            return Ok(MemoryResult::Nothing);
        }
        let (question_only, header, from) = (b.mark(), b.header(), b.end());
        let key = key(asked.request, asked.question, asked.qname, cache_view);
        let now = service.now(asked.received);
        match service.cache().copy(&lead, &key, now, b.spare_mut()) {
            Lookup::Hit(hit) if matches!(hit.freshness, Freshness::Fresh(_)) => {
                b.advance(hit.len, hit.counts);
                if let Some(lists) = lists.filter(|lists| lists.look_at(b.written(), from, hit.counts[0])) {
                    let (client, answers) = (asked.client, hit.counts[0]);
                    if lists.has_rule_about_answer(&self.key, client, b.written(), answers) {
                        return Ok(MemoryResult::Nothing);
                    }
                    if let Some(blocked) = lists.blocks_alias(&self.key, client, b.written(), answers) {
                        b.rollback(question_only);
                        b.flags(|now| *now = header);
                        let info = lists.write(blocked, asked.name(), qtype, b);
                        return Ok(MemoryResult::Answer(Some(info)));
                    }
                }
                on.finish(&hit, cache_view, asked, b);
            }
            Lookup::TooLong(hit) if matches!(hit.freshness, Freshness::Fresh(_)) => {
                on.finish(&hit, cache_view, asked, b);
                b.flags(|header| header.set_truncated(true));
            }
            _ => return Ok(MemoryResult::Nothing),
        }
        if let Some((lists, source)) = exempting {
            lists.count_exempt(source);
        }
        if let Some(lists) = &policy.lists {
            lists.count_disabled(&policy_query(asked));
        }
        Ok(MemoryResult::Answer(None))
    }
}

/// Returns what rules about a query may depend on.
#[inline]
fn policy_query<'q>(asked: &Asked<'q>) -> PolicyQuery<'q> {
    let (qtype, client) = (asked.question.qtype, Some(asked.client.peer.ip()));
    PolicyQuery { name: asked.qname, qtype, client }
}

/// Answers a query by a rule of a response policy zone about its name, if no lookup is needed.
#[cold]
fn by_rule(
    lists: &PolicyRules,
    rule: &Match,
    asked: &Asked<'_>,
    b: &mut Builder<'_>,
) -> MemoryResult<'static> {
    let qtype = asked.question.qtype;
    let Some(zone) = lists.zone(rule) else { return MemoryResult::Nothing };
    let order = zone.order(rule);
    let needs_lookup = match order {
        RpzOrder::Passthru => true,
        RpzOrder::TcpOnly => asked.client.transport.is_stream(),
        _ => lists.alias(order, asked.name(), qtype).is_some(),
    };
    if needs_lookup
        || qtype.is_meta()
        || lists.must_wait(rule, lists.sources_of(asked.client), asked.request.dnssec_ok())
    {
        return MemoryResult::Nothing;
    }
    zone.counts.of(order.kind()).add();
    lists.count_disabled(&policy_query(asked));
    match order {
        RpzOrder::Drop => return MemoryResult::NoReply,
        RpzOrder::TcpOnly => b.flags(|header| header.set_truncated(true)),
        _ => {
            b.learn(asked.name(), Offset::QNAME);
            if let Err(Full) = lists.write_order(zone, order, asked.name(), qtype, b) {
                b.flags(|header| header.set_truncated(true));
            }
        }
    }
    MemoryResult::Answer(zone.info)
}

/// Returns the cache key of a query.
#[inline]
fn key<'n>(
    request: &query_path::request::Request,
    question: query_path::request::QueryQuestion,
    name: &'n HashedName,
    cache_view: CacheView,
) -> Key<'n> {
    Key {
        name,
        qtype: question.qtype,
        qclass: question.qclass,
        view: cache_view.number,
        dnssec_ok: request.dnssec_ok(),
        checking_disabled: request.header.checking_disabled(),
    }
}
