//! State that all workers of an engine share, and its replacement while queries are answered.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use cookies::{CheckedCookie, CookieSecrets};
use rate_limits::Ticks;
use transfer::tsig::{TsigKeys, sign_request, signature_len};
use transport::{Client, unix_now};
use wire::hash::HashKey;
use wire::{LowerName, NameBuf};

use crate::chaos::Identity;
use crate::group_limits::GroupLimits;
use crate::log::{FailureLog, QueryLog, RuleLog};
use crate::memory::Memory;
use crate::prefix::PrefixMasks;
use crate::query_access::QueryAccess;
use crate::reply_limits::ReplyLimits;
use crate::request::ClientEdns;
use crate::source::Sources;

/// Settings of the query path.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Largest UDP payload sent, and announced in OPT, in bytes; 1232 avoids fragments.
    pub max_udp_size: u16,
    /// NSID (RFC 5001), empty for none.
    pub nsid: Box<[u8]>,
    /// Idle timeout of streams in units of 100 ms, announced to clients that ask (RFC 7828).
    pub keepalive: u16,
    /// The texts for names of class CHAOS.
    pub identity: Identity,
    /// Whether a name's addresses are rotated from query to query. Default: no.
    pub rotate_addresses: bool,
    /// The secrets of server cookies (RFC 7873). Without them the COOKIE option is not answered. Default:
    /// none.
    pub cookies: Option<Arc<CookieSecrets>>,
    /// Clients in these prefixes, of which any number counts, need a valid cookie over UDP. Default: none.
    pub cookies_required_from: Option<PrefixMasks>,
    /// Which messages are accepted. Default: all.
    pub access: Option<Arc<QueryAccess>>,
    /// The agent domain for reports of failures to resolve or validate names of the zones (RFC 9567). Replies
    /// from zones that it is not in carry it, where there is room.
    pub report_channel: Option<NameBuf>,
    /// The limits on replies over UDP. Default: none.
    pub limits: Option<Arc<ReplyLimits>>,
}

impl EngineConfig {
    /// Returns a time as the counters of limits have it, if there are limits.
    #[inline]
    pub(crate) fn ticks(&self, now: Instant) -> Ticks {
        self.limits.as_ref().map_or(Ticks::default(), |limits| limits.table.ticks(now))
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            max_udp_size: 1232,
            nsid: Box::default(),
            keepalive: 100,
            identity: Identity::default(),
            rotate_addresses: false,
            cookies: None,
            cookies_required_from: None,
            access: None,
            report_channel: None,
            limits: None,
        }
    }
}

impl EngineConfig {
    /// Whether some clients need a cookie, or access rules decide.
    fn is_by_client(&self) -> bool {
        self.access.is_some() || (self.cookies.is_some() && self.cookies_required_from.is_some())
    }

    /// Returns the cookie of a query with this OPT, and that of the reply; `None` if the query has none, or
    /// cookies are off. `packet` is as for [`ClientEdns::cookie`].
    pub(crate) fn checked_cookie(
        &self,
        edns: &ClientEdns,
        packet: &[u8],
        client: &Client,
    ) -> Option<CheckedCookie> {
        let (secrets, data) = (self.cookies.as_deref()?, edns.cookie(packet)?);
        // The time in a cookie has 32 bits, and wraps (RFC 9018 §4.3).
        secrets.check(data, client.peer.ip(), unix_now().as_secs() as u32)
    }
}

/// State that all workers share: data in memory, sources beyond it, and settings. All of it can be replaced
/// while queries are answered; a batch sees one version of everything.
pub struct Engine<M: Memory> {
    shared: ArcSwap<Shared<M>>,
}

/// One version of the shared state, pinned by a worker for a batch.
pub(crate) struct Shared<M> {
    pub(crate) memory: M,
    pub(crate) sources: Sources,
    pub(crate) keys: Arc<TsigKeys>,
    pub(crate) config: Arc<EngineConfig>,
    /// Whether the route or the view of a query may depend on its client: some clients need a cookie, access
    /// rules decide, groups have limits, or there are views.
    pub(crate) by_client: bool,
    pub(crate) group_limits: Option<Arc<GroupLimits>>,
    pub(crate) log: Option<Arc<dyn QueryLog>>,
    pub(crate) failures: Option<Arc<dyn FailureLog>>,
    pub(crate) rules: Option<Arc<dyn RuleLog>>,
}

impl<M: Clone> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Shared {
            memory: self.memory.clone(),
            sources: self.sources.clone(),
            keys: Arc::clone(&self.keys),
            config: Arc::clone(&self.config),
            by_client: self.by_client,
            group_limits: self.group_limits.clone(),
            log: self.log.clone(),
            failures: self.failures.clone(),
            rules: self.rules.clone(),
        }
    }
}

impl<M: Memory> Engine<M> {
    /// Returns an engine that answers from `memory`, and asks `sources` for other names and operations.
    pub fn new(memory: M, sources: Sources, config: EngineConfig) -> Self {
        let (keys, log, failures, rules, group_limits) = (Arc::default(), None, None, None, None);
        let by_client = config.is_by_client() || memory.has_views();
        let config = Arc::new(config);
        let shared = Shared { memory, sources, keys, config, by_client, group_limits, log, failures, rules };
        Engine { shared: ArcSwap::from_pointee(shared) }
    }

    pub(crate) fn shared(&self) -> &ArcSwap<Shared<M>> {
        &self.shared
    }

    fn change(&self, change: impl Fn(&mut Shared<M>)) {
        self.shared.rcu(|old| {
            let mut new = Shared::clone(old);
            change(&mut new);
            new.by_client = new.config.is_by_client() || new.memory.has_views() || new.group_limits.is_some();
            new
        });
    }

    /// Changes the data in memory from the next batch on. `change` runs again if another thread changes the
    /// shared state at the same time.
    pub fn change_memory(&self, change: impl Fn(&mut M)) {
        self.change(|shared| change(&mut shared.memory));
    }

    /// Calls `look` with the data currently in service.
    pub fn with_memory<R>(&self, look: impl FnOnce(&M) -> R) -> R {
        look(&self.shared.load().memory)
    }

    /// Replaces the settings from the next batch on.
    pub fn set_config(&self, config: EngineConfig) {
        let config = Arc::new(config);
        self.change(|shared| shared.config = Arc::clone(&config));
    }

    /// Changes the sources from the next batch on. `change` runs again if another thread changes the shared
    /// state at the same time.
    pub fn change_sources(&self, change: impl Fn(&mut Sources)) {
        self.change(|shared| change(&mut shared.sources));
    }

    /// Replaces the TSIG keys that verify queries and sign replies (RFC 8945), from the next batch on. A new
    /// engine has none.
    pub fn set_keys(&self, keys: &Arc<TsigKeys>) {
        self.change(|shared| shared.keys = Arc::clone(keys));
    }

    /// Replaces the limits on the queries of groups, from the next batch on.
    pub fn set_group_limits(&self, limits: Option<Arc<GroupLimits>>) {
        self.change(|shared| shared.group_limits = limits.clone());
    }

    /// Whether there is a TSIG key of this name.
    pub fn has_key(&self, name: LowerName<'_>) -> bool {
        self.shared.load().keys.get(name).is_some()
    }

    /// Returns a query with the signature of the TSIG key of this name, for a query that an operator asks
    /// about; `None` if there is no such key, or no room.
    pub fn sign_query(&self, key: LowerName<'_>, mut query: Vec<u8>) -> Option<Vec<u8>> {
        let key = self.shared.load().keys.get(key).map(Arc::clone)?;
        let len = query.len();
        query.resize(len + signature_len(&key), 0);
        let (len, _) = sign_request(&key, &mut query, len, unix_now()).ok()?;
        query.truncate(len);
        Some(query)
    }

    /// Starts or stops the query log.
    pub fn set_query_log(&self, log: Option<Arc<dyn QueryLog>>) {
        self.change(|shared| shared.log = log.clone());
    }

    /// Returns a copy of the engine as it is now, for a query that an operator asks about: it reports the
    /// rule that decides the query to `log`. No client sent the query: no other log receives it, and it
    /// counts for no limit.
    pub fn for_operator(&self, log: Arc<dyn RuleLog>) -> Self {
        let shared = Shared::clone(&self.shared.load());
        let config = match shared.config.limits {
            Some(_) => Arc::new(EngineConfig { limits: None, ..EngineConfig::clone(&shared.config) }),
            None => Arc::clone(&shared.config),
        };
        let rules = Some(log);
        let shared = Shared { rules, log: None, failures: None, group_limits: None, config, ..shared };
        Engine { shared: ArcSwap::from_pointee(shared) }
    }

    /// Starts or stops counting queries that rules decide.
    pub fn set_rule_log(&self, log: Option<Arc<dyn RuleLog>>) {
        self.change(|shared| shared.rules = log.clone());
    }

    /// Sets the log of failures.
    pub fn set_failure_log(&self, log: &Arc<dyn FailureLog>) {
        self.change(|shared| shared.failures = Some(Arc::clone(log)));
    }

    /// Returns the hash key of names.
    pub fn key(&self) -> HashKey {
        *self.shared.load().memory.key()
    }
}
