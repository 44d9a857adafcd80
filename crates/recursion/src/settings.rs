//! The operator's settings for recursive service, and their compiled form.
//!
//! It is replaced as a whole; each batch of queries uses one version.

use std::sync::Arc;
use std::time::Duration;

use policy::{Decision, Match, PolicyQuery, Rewrites, SourceMask};
use resolver::Partition;
use validator::{TrustAnchors, ValidationLimits, ValidationSettings};
use wire::Class;
use wire::hash::HashKey;

use crate::cache_views::{CacheViews, Domain};
use crate::dns64::{Dns64, Dns64Config, Dns64Fault};
use crate::local::{LocalConfig, LocalNames};
use crate::partitions::{Partitions, PartitionsConfig};
use crate::policy_rules::{Blocked, PolicyRules};
use crate::private::{PrivateAddresses, PrivateConfig};
use crate::rewrite_state::RewriteState;
use crate::rpz::RpzOrder;
use query_path::access::{Access, AccessRule, TooManyRules};
use query_path::{GroupClient, RuleNote};

/// Settings of recursive service.
#[derive(Clone, Debug)]
pub struct PolicyConfig {
    /// Access rules: the first that matches counts; clients that match none are refused.
    pub access: Vec<AccessRule>,
    /// Local names.
    pub local: LocalConfig,
    /// Rules of response policy zones and lists, unless a name is local; `None`: no rules.
    pub lists: Option<Arc<PolicyRules>>,
    /// Private addresses, which upstream answers must not contain.
    pub private: PrivateConfig,
    /// DNS64 settings; `None`: off.
    pub dns64: Option<Dns64Config>,
    /// The rules' domains.
    pub domains: Vec<Domain>,
    /// Which clients have rules of their own.
    pub partitions: PartitionsConfig,
    /// Serve-stale (RFC 8767): how long a client waits for servers before it gets an expired answer (§5: 1.8
    /// seconds). `None`: off.
    pub stale_after: Option<Duration>,
    /// Seconds after a failure in which stale answers are sent at once without a lookup (RFC 8767 §5: the
    /// failure recheck timer). 0: every client waits for servers.
    pub stale_refresh: u32,
    /// Whether NXDOMAIN denies all names below (RFC 8020).
    pub nxdomain_cut: bool,
    /// Whether proven denials are also used for other names (RFC 8198).
    pub aggressive_nsec: bool,
    /// Most bytes of cached denials for that.
    pub denials: usize,
    /// Whether popular answers are refreshed before they expire.
    pub prefetch: bool,
    /// Most links of a chain from one rule's names to another's.
    pub max_chain: u8,
    /// Validation settings, for the [domains](Domain) that have it on.
    pub validation: ValidationConfig,
    /// Limits of error reporting (RFC 9567); `None`: off.
    pub reports: Option<ReportLimits>,
}

/// Limits of error reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Most reports per second.
    pub per_second: usize,
    /// Least seconds between two identical reports; the cached answer to the first may prolong it.
    pub interval: u32,
}

/// Validation settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationConfig {
    /// Algorithms and other settings of the validator.
    pub settings: ValidationSettings,
    /// Limits per client query.
    pub limits: ValidationLimits,
    /// Trust anchors, positive and negative.
    pub anchors: TrustAnchors,
    /// Whether root key sentinels are answered (RFC 8509).
    pub sentinel: bool,
    /// Most names whose keys are cached.
    pub names: usize,
    /// Most clients that wait for validation.
    pub waiting: usize,
    /// Most of them from one network: an IPv4 /24 or an IPv6 /56.
    pub waiting_of_network: usize,
}

impl Default for ValidationConfig {
    /// The root's trust anchors, 20,000 names, 10,000 clients, 1000 of one network. The number of signatures
    /// is enough for a chain of aliases through some ten zones with a cold cache.
    fn default() -> Self {
        ValidationConfig {
            settings: ValidationSettings::default(),
            limits: ValidationLimits { signatures: 48, ..ValidationLimits::default() },
            anchors: TrustAnchors::root(),
            sentinel: true,
            names: 20_000,
            waiting: 10_000,
            waiting_of_network: 1000,
        }
    }
}

/// Why settings cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyFault {
    /// Too many access rules.
    Access(TooManyRules),
    /// Invalid DNS64 settings.
    Dns64(Dns64Fault),
}

impl std::fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Access(fault) => fault.fmt(f),
            Self::Dns64(fault) => fault.fmt(f),
        }
    }
}
impl std::error::Error for PolicyFault {}

/// What the rules say about a query name before there is an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Gate {
    /// No rule keeps the name from being looked up.
    Open,
    /// A list blocks it.
    Blocked(Blocked),
    /// A response policy zone has a rule about it.
    Rpz(Match),
    /// Lists have an answer of their own.
    Rewrite(Rewrites),
}

/// One compiled version of the settings.
#[derive(Clone)]
pub(crate) struct Policy {
    pub(crate) access: Access,
    pub(crate) local: Arc<LocalNames>,
    pub(crate) lists: Option<Arc<PolicyRules>>,
    pub(crate) private: Option<PrivateAddresses>,
    /// The settings by which cached answers may be unfit.
    pub(crate) unfit_by: Arc<(LocalConfig, PrivateConfig, Vec<Domain>)>,
    pub(crate) dns64: Option<Dns64>,
    pub(crate) cache_views: CacheViews,
    /// `None` if no client has rules of its own.
    pub(crate) partitions: Option<Arc<Partitions>>,
    pub(crate) stale_after: Option<Duration>,
    pub(crate) stale_refresh: u32,
    pub(crate) nxdomain_cut: bool,
    pub(crate) aggressive_nsec: bool,
    pub(crate) denials: usize,
    pub(crate) prefetch: bool,
    pub(crate) max_chain: u8,
    pub(crate) validation: ValidationConfig,
    pub(crate) reports: Option<ReportLimits>,
}

impl Policy {
    /// Returns the rule that decides about a query, of these sources. Local names are the operator's own;
    /// `partition` is that of the client, `qclass` that of the query.
    #[inline]
    pub(crate) fn gate(
        &self,
        query: &PolicyQuery<'_>,
        sources: &SourceMask,
        partition: Partition,
        qclass: Class,
    ) -> Gate {
        let Some(lists) = &self.lists else { return Gate::Open };
        let Decision { rpz, list } = lists.decide(query, sources);
        let rewrites = if rpz.is_none() { lists.rewrites(query, sources, list.as_ref()) } else { None };
        let gate = match (rpz, rewrites, list.and_then(|rule| lists.blocked(&rule))) {
            (Some(rule), ..) => Gate::Rpz(rule),
            (None, Some(rewrites), _) => Gate::Rewrite(rewrites),
            (None, None, Some(blocked)) => Gate::Blocked(blocked),
            (None, None, None) => return Gate::Open,
        };
        // A special-use name is answered here, unless the client's group has it forwarded.
        let is_ours = qclass == Class::IN && !self.local(partition).is_local(query.name, query.qtype, qclass);
        if is_ours { gate } else { Gate::Open }
    }

    /// Counts the rule that decides a query for the group of its client, and returns the rule for logs.
    pub(crate) fn counted(&self, rewrite: &RewriteState) -> Option<RuleNote> {
        match &self.lists {
            Some(lists) => lists.counted(rewrite.rule_client(), rewrite.rule),
            None => rewrite.rule,
        }
    }

    /// Returns the partition of a client.
    #[inline]
    pub(crate) fn partition_of(&self, client: GroupClient<'_>) -> Partition {
        self.partitions.as_ref().map_or(Partition::SHARED, |partitions| partitions.of(client))
    }

    /// Returns the local names for clients of a partition.
    pub(crate) fn local(&self, of_client: Partition) -> &LocalNames {
        let own = self.partitions.as_ref().and_then(|partitions| partitions.local(of_client));
        own.unwrap_or(&self.local)
    }

    /// Whether a rule about a query exempts it from all rules.
    pub(crate) fn exempts(&self, rule: &Match, sources: &SourceMask, dnssec_ok: bool) -> bool {
        let Some(lists) = &self.lists else { return false };
        let Some(zone) = lists.zone(rule) else { return false };
        zone.order(rule) == RpzOrder::Passthru && !lists.must_wait(rule, sources, dnssec_ok)
    }

    pub(crate) fn new(config: &PolicyConfig, key: &HashKey) -> Result<Policy, PolicyFault> {
        let private = (!config.private.blocks.is_empty()).then(|| PrivateAddresses::new(&config.private));
        let partitions = Partitions::new(&config.partitions, &config.domains, &config.local, key);
        let partitions = partitions.map_err(PolicyFault::Access)?;
        let PolicyConfig { local: names, private: blocks, domains, .. } = config;
        Ok(Policy {
            access: Access::new(&config.access).map_err(PolicyFault::Access)?,
            local: Arc::new(LocalNames::new(&config.local, key)),
            lists: config.lists.clone(),
            private,
            unfit_by: Arc::new((names.clone(), blocks.clone(), domains.clone())),
            dns64: config.dns64.as_ref().map(Dns64::new).transpose().map_err(PolicyFault::Dns64)?,
            cache_views: CacheViews::new(&config.domains, key, config.validation.anchors.fingerprint()),
            partitions: partitions.map(Arc::new),
            stale_after: config.stale_after,
            stale_refresh: config.stale_refresh,
            nxdomain_cut: config.nxdomain_cut,
            aggressive_nsec: config.aggressive_nsec,
            denials: config.denials,
            prefetch: config.prefetch,
            max_chain: config.max_chain,
            validation: config.validation.clone(),
            reports: config.reports,
        })
    }
}
