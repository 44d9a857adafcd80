//! The cache as seen by the query path: answers cache hits batch by batch, without a lock.

use std::sync::Arc;

use cache::{Freshness, Hit, Key, Lead, Lookup};
use policy::{Match, PolicyQuery, Rewrites, SourceId, TriggerKind};
use query_path::access::AccessAction;
use query_path::{Asked, GroupClient, LookupKey, Memory, MemoryResult, Refusal, RuleAction, RuleNote};
use resolver::{ClientPrefix, Partition, QueryKey};
use transport::Client;
use wire::hash::{HashKey, HashedName};
use wire::message::{Builder, Full, Offset};
use wire::{Class, Type};

use crate::cache_views::CacheView;
use crate::groups::GroupView;
use crate::message::ReplyOptions;
use crate::policy_rules::{Blocked, PolicyRules};
use crate::rpz::{PolicyZone, RpzOrder, noted_trigger};
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

/// The zone that exempts a query from rules, and what its rule is about.
type Exemption = (SourceId, TriggerKind);

/// What was found for a query before its answer is read.
#[derive(Clone, Copy)]
enum Found {
    /// The position of its answer in the cache. No rule applies to the query if a policy zone exempts it.
    Entry { lead: Lead, cache_view: CacheView, exempt_by: Option<Exemption> },
    /// A list blocks the name.
    Blocked(Blocked),
    /// A response policy zone has a rule about the name.
    Rpz(Match),
    /// The rules depend on the client, or a list has an answer of its own; the position of the query's answer
    /// in the cache, if any.
    ByClient(Option<(Lead, CacheView)>),
    /// The servers that are queried for the name depend on the client, and so does the answer.
    ByPartition,
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

/// Returns the query's key for lookups, without its partition.
pub(crate) fn query_key(asked: &Asked<'_>) -> QueryKey {
    QueryKey {
        name: asked.qname.as_lower().to_buf(),
        qtype: asked.question.qtype,
        qclass: asked.question.qclass,
        dnssec_ok: asked.request.dnssec_ok(),
        checking_disabled: asked.request.header.checking_disabled(),
        partition: Partition::SHARED,
    }
}

impl On {
    /// Writes the header of an answer whose sections are written, and counts it.
    #[inline]
    fn finish(&self, hit: &Hit, cache_view: CacheView, asked: &Asked<'_>, b: &mut Builder<'_>) {
        ReplyOptions::of(asked.request).set_flags(b, hit.rcode, false, hit.authentic && cache_view.passes_ad);
        if hit.prefetch && self.policy.prefetch {
            let query_key = QueryKey { partition: cache_view.partition, ..query_key(asked) };
            self.service.prefetch(query_key, ClientPrefix::of(asked.client.peer.ip()));
        }
        asked.stats.cache_hits.add(1);
        asked.stats.cache_negative.add(u64::from(hit.negative));
    }
}

impl On {
    /// Returns the position in the cache of the answer for clients of the client's partition.
    #[cold]
    fn entry_of_client(&self, asked: &Asked<'_>) -> Option<(Lead, CacheView)> {
        let On { service, policy } = self;
        let partition = policy.partition_of(asked.group_client());
        let cache_view = policy.cache_views.for_client(partition, asked.qname, asked.question.qtype)?;
        let lead = service.cache().find(&key(asked.request, asked.question, asked.qname, cache_view))?;
        Some((lead, cache_view))
    }

    /// Returns what the rules say about a query if they depend on its client: the position of its answer in
    /// the cache, the zone that exempts it from rules, and the rule about it.
    fn gate_of_client(
        &self,
        entry: Option<(Lead, CacheView)>,
        asked: &Asked<'_>,
    ) -> (Option<(Lead, CacheView)>, Option<Exemption>, Gate) {
        let policy = &self.policy;
        let Some(lists) = &policy.lists else { return (entry, None, Gate::Open) };
        let GroupView { sources, facts } = lists.group_of(asked.group_client());
        let query = PolicyQuery { group: facts, ..policy_query(asked) };
        let partition = policy.partition_of(asked.group_client());
        match policy.gate(&query, sources, partition, asked.question.qclass) {
            Gate::Rpz(rule) if policy.exempts(&rule, sources, asked.request.dnssec_ok()) => {
                (entry, Some((rule.rule.source, rule.trigger)), Gate::Open)
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

    fn resolves(&self, lookup_key: &LookupKey<'_>, client: GroupClient<'_>) -> bool {
        let Some(On { policy, .. }) = &self.on else { return false };
        let partition = policy.partition_of(client);
        policy.cache_views.for_client(partition, lookup_key.qname, lookup_key.question.qtype).is_some()
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
        let LookupKey { request, question, qname, may_recurse, .. } = *lookup_key;
        if !may_recurse || !request.header.recursion_desired() {
            return None;
        }
        if policy.cache_views.may_depend_on_client(qname, question.qtype) {
            return Some(CacheLocation(Found::ByPartition));
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
            let sources = lists.sources();
            let query = PolicyQuery { name: qname, qtype: question.qtype, client: None, group: None };
            // Names that are special-use for some groups alone are not in the cache of all.
            match policy.gate(&query, sources, Partition::SHARED, question.qclass) {
                Gate::Open => {}
                Gate::Blocked(blocked) => return Some(CacheLocation(Found::Blocked(blocked))),
                Gate::Rpz(rule) if policy.exempts(&rule, sources, request.dnssec_ok()) => {
                    exempt_by = Some((rule.rule.source, rule.trigger));
                }
                Gate::Rpz(rule) => return Some(CacheLocation(Found::Rpz(rule))),
                // Its answer is large, and decided again.
                Gate::Rewrite(_) => return Some(CacheLocation(Found::ByClient(None))),
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
            Found::ByPartition => on.gate_of_client(on.entry_of_client(asked), asked),
        };
        match (lists, gate) {
            (Some(lists), Gate::Blocked(blocked)) => {
                lists.count_disabled(&policy_query(asked));
                asked.rule.set(lists.counted(asked.group_client(), lists.note_blocked(blocked)));
                return Ok(MemoryResult::Answer(Some(lists.write(blocked, asked.name(), qtype, b))));
            }
            (Some(lists), Gate::Rpz(rule)) => return Ok(by_rule(lists, &rule, asked, b)),
            (Some(lists), Gate::Rewrite(rewrites)) => return Ok(by_list(lists, &rewrites, asked, b)),
            _ => {}
        }
        let Some((lead, cache_view)) = entry else { return Ok(MemoryResult::Nothing) };
        let (lists, exempting) = (lists.filter(|_| exempt_by.is_none()), lists.zip(exempt_by));
        // DNS64 may have to synthesize the answer.
        let may_be_synthesized = qtype == Type::AAAA && policy.dns64.is_some();
        let needs_servers = |lists: &PolicyRules| lists.needs_servers(lists.sources_of(asked.group_client()));
        if may_be_synthesized || lists.is_some_and(needs_servers) {
            return Ok(MemoryResult::Nothing);
        }
        let (question_only, header, from) = (b.mark(), b.header(), b.end());
        let key = key(asked.request, asked.question, asked.qname, cache_view);
        let now = service.now(asked.received);
        match service.cache().copy(&lead, &key, now, b.spare_mut()) {
            Lookup::Hit(hit) if matches!(hit.freshness, Freshness::Fresh(_)) => {
                b.advance(hit.len, hit.counts);
                if let Some(lists) = lists.filter(|lists| lists.look_at(b.written(), from, hit.counts[0])) {
                    let (client, answers) = (asked.group_client(), hit.counts[0]);
                    if lists.has_rule_about_answer(&self.key, client, b.written(), answers) {
                        return Ok(MemoryResult::Nothing);
                    }
                    if let Some(blocked) = lists.blocks_alias(&self.key, client, b.written(), answers) {
                        b.rollback(question_only);
                        b.flags(|now| *now = header);
                        asked.rule.set(lists.counted(client, lists.note_blocked(blocked)));
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
        if let Some((lists, (source, trigger))) = exempting {
            note_exempt(lists, source, trigger, asked);
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
    PolicyQuery { name: asked.qname, qtype, client, group: None }
}

/// Answers a query with the answer of lists, if no lookup is needed.
#[cold]
fn by_list(
    lists: &PolicyRules,
    rewrites: &Rewrites,
    asked: &Asked<'_>,
    b: &mut Builder<'_>,
) -> MemoryResult<'static> {
    let order = RpzOrder::Rewrites(rewrites);
    let qtype = asked.question.qtype;
    if qtype.is_meta() || lists.alias(order, asked.name(), qtype).is_some() {
        return MemoryResult::Nothing;
    }
    lists.count_rewrite(rewrites);
    answer_by(lists, lists.rewriter(), order, lists.note_rewrite(rewrites), asked, b)
}

/// Counts and notes a query that a zone exempts from rules.
fn note_exempt(lists: &PolicyRules, source: SourceId, trigger: TriggerKind, asked: &Asked<'_>) {
    lists.count_exempt(source);
    let note = lists.note(source, RuleAction::Passthru, noted_trigger(trigger));
    asked.rule.set(lists.counted(asked.group_client(), note));
}

/// Answers a query as a zone or lists order.
fn answer_by(
    lists: &PolicyRules,
    zone: &PolicyZone,
    order: RpzOrder<'_>,
    note: Option<RuleNote>,
    asked: &Asked<'_>,
    b: &mut Builder<'_>,
) -> MemoryResult<'static> {
    asked.rule.set(lists.counted(asked.group_client(), note));
    lists.count_disabled(&policy_query(asked));
    match order {
        RpzOrder::Drop => return MemoryResult::NoReply,
        RpzOrder::TcpOnly => b.flags(|header| header.set_truncated(true)),
        _ => {
            b.learn(asked.name(), Offset::QNAME);
            if let Err(Full) = lists.write_order(zone, order, asked.name(), asked.question.qtype, b) {
                b.flags(|header| header.set_truncated(true));
            }
        }
    }
    MemoryResult::Answer(zone.info)
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
        || lists.must_wait(rule, lists.sources_of(asked.group_client()), asked.request.dnssec_ok())
    {
        return MemoryResult::Nothing;
    }
    zone.counts.of(order.kind()).add();
    answer_by(lists, zone, order, lists.note_order(rule, order), asked, b)
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
