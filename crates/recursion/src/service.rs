//! State of recursive service that the query path, the source and the resolver's threads share.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use cache::{Cache, Flush, Held, Now};
use resolver::{Budget, ClientPrefix, LookupRequest, Partition, QueryKey};
use validator::ProvenDenials;
use wire::hash::HashedName;
use wire::{LowerName, LowerNameBuf, Name, Type};

use crate::bogus::BogusAnswers;
use crate::cache_views::CacheView;
use crate::failures::FailureCause;
use crate::jobs::queue::Queue;
use crate::jobs::state::State;
use crate::partitions::{Partitions, PartitionsConfig};
use crate::policy_rules::PolicyRules;
use crate::quota::ValidationQuota;
use crate::repeats::Repeats;
use crate::sent_reports::SentReports;
use crate::settings::{Policy, PolicyConfig, PolicyFault};
use crate::stalled::StalledRefreshes;
use crate::stats::RecursionStats;
use crate::sync::lock;
use crate::targets::AliasTargets;
use crate::waiter::{Unchecked, Waiter};

/// A server of a zone by its name, and the addresses that the delegation has for it.
pub type DelegatedServer = (LowerNameBuf, Vec<IpAddr>);

/// Passes requests to the resolver.
pub trait Lookups: Send + Sync {
    /// Queues a request, or returns it if the queue is full. If the resolver has stopped, the request is
    /// dropped, which notifies its client.
    fn request(&self, request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>>;

    /// Returns the servers of a zone that its parent's servers named last; nothing if no such delegation is
    /// known.
    fn delegated_servers(&self, zone: LowerName<'_>) -> Vec<DelegatedServer>;
}

/// Recursive service: cache, policy, and the connection to the resolver.
pub struct Service {
    cache: Cache,
    /// Time 0 of the cache's clock.
    start: Instant,
    stats: RecursionStats,
    policy: ArcSwap<Policy>,
    lookups: OnceLock<Box<dyn Lookups>>,
    /// The zones served here.
    pub(crate) zones: OnceLock<Box<dyn AliasTargets>>,
    report: OnceLock<Box<FailureReport>>,
    last_resort: OnceLock<Box<LastResortReport>>,
    /// Answers queued for the validation threads.
    pub(crate) unvalidated: Queue,
    /// Validations in progress, and the cached keys of zones.
    pub(crate) validating: Mutex<State>,
    /// Reasons of cached failures that are due to bogus answers.
    pub(crate) bogus: BogusAnswers,
    /// Proven denials (RFC 8198).
    pub(crate) denials: ProvenDenials,
    /// Recent queries answered from `denials`.
    pub(crate) made: Repeats,
    /// Error reports sent recently.
    pub(crate) sent_reports: SentReports,
    /// Queries whose stale answers were served because their servers failed.
    pub(crate) stalled: StalledRefreshes,
}

/// Receives each query that gets SERVFAIL and the cause. Must not block.
pub type FailureReport = dyn Fn(&QueryKey, FailureCause<'_>) + Send + Sync;

/// Receives the zone, server and query of an answer accepted from a server that is not authoritative. Must
/// not block.
pub type LastResortReport = dyn Fn(Name<'_>, SocketAddr, &QueryKey) + Send + Sync;

impl Service {
    /// Creates the service with a cache whose clock began at `start`. Lookups need [`connect`](Self::connect)
    /// first.
    ///
    /// # Errors
    /// The policy is invalid.
    pub fn new(cache: Cache, start: Instant, policy: &PolicyConfig) -> Result<Arc<Service>, PolicyFault> {
        let policy = Policy::new(policy, cache.key())?;
        let (denials, policy) = (ProvenDenials::new(0), Arc::new(policy));
        configure(&denials, &policy);
        Ok(Arc::new(Service {
            cache,
            start,
            stats: RecursionStats::default(),
            validating: Mutex::new(State::new(Arc::clone(&policy))),
            policy: ArcSwap::new(policy),
            lookups: OnceLock::new(),
            zones: OnceLock::new(),
            report: OnceLock::new(),
            last_resort: OnceLock::new(),
            unvalidated: Queue::default(),
            bogus: BogusAnswers::default(),
            denials,
            made: Repeats::default(),
            sent_reports: SentReports::default(),
            stalled: StalledRefreshes::default(),
        }))
    }

    /// Sets the resolver; only the first call has an effect.
    pub fn connect(&self, lookups: Box<dyn Lookups>) {
        let _ = self.lookups.set(lookups);
    }

    /// Returns the servers of a zone that its parent's servers named last.
    pub(crate) fn delegated_servers(&self, zone: LowerName<'_>) -> Vec<DelegatedServer> {
        self.lookups.get().map(|lookups| lookups.delegated_servers(zone)).unwrap_or_default()
    }

    /// Sets the zones served here; only the first call has an effect.
    pub fn serve_zones(&self, zones: Box<dyn AliasTargets>) {
        let _ = self.zones.set(zones);
    }

    /// Sets the callback for failures; only the first call has an effect.
    pub fn report_failures(&self, report: Box<FailureReport>) {
        let _ = self.report.set(report);
    }

    /// Sets the callback for last-resort answers; only the first call has an effect.
    pub fn report_last_resorts(&self, report: Box<LastResortReport>) {
        let _ = self.last_resort.set(report);
    }

    /// Reports an answer accepted from a server that is not authoritative for the zone.
    pub(crate) fn took_recursive(&self, zone: Name<'_>, server: SocketAddr, query_key: &QueryKey) {
        if let Some(report) = self.last_resort.get() {
            report(zone, server, query_key);
        }
    }

    /// Counts and reports a query that gets SERVFAIL.
    pub(crate) fn failed(&self, query_key: &QueryKey, cause: FailureCause<'_>) {
        self.stats.failures.add(cause);
        if let Some(report) = self.report.get() {
            report(query_key, cause);
        }
    }

    /// Replaces the policy. Handles from [`memory`](Self::memory) keep the one they were created with.
    /// `before` is called once it is known to be valid, before it takes effect.
    ///
    /// # Errors
    /// The policy is invalid; the old one stays.
    pub fn set_policy(&self, policy: &PolicyConfig, before: impl FnOnce()) -> Result<(), PolicyFault> {
        let policy = Arc::new(Policy::new(policy, self.cache.key())?);
        before();
        let old = self.policy.swap(Arc::clone(&policy));
        configure(&self.denials, &policy);
        // Reading all of the cache takes milliseconds of a CPU that may have queries to answer.
        if policy.unfit_by != old.unfit_by {
            self.drop_unfit();
        }
        Ok(())
    }

    /// Replaces the rules of response policy zones and lists, and nothing else. Handles from
    /// [`memory`](Self::memory) keep those they were created with. The cache has answers as they were
    /// received, so none is dropped.
    pub fn set_rules(&self, lists: Option<Arc<PolicyRules>>) {
        self.policy.rcu(|policy| Policy { lists: lists.clone(), ..(**policy).clone() });
    }

    /// Replaces which clients are in which partition, and nothing else: the rules of each partition stay, and
    /// so do its answers. Handles from [`memory`](Self::memory) keep those they were created with.
    ///
    /// # Errors
    /// There are more than 64 groups; nothing has changed then.
    pub fn set_partitions(&self, config: &PartitionsConfig) -> Result<(), PolicyFault> {
        let policy = self.policy();
        let (local, _, domains) = &*policy.unfit_by;
        let partitions = Partitions::new(config, domains, local, self.cache.key());
        let partitions = partitions.map_err(PolicyFault::Access)?.map(Arc::new);
        self.policy.rcu(|policy| Policy { partitions: partitions.clone(), ..(**policy).clone() });
        Ok(())
    }

    /// Drops cached answers that the policy forbids: local names, answers with private addresses, and answers
    /// for all clients whose aliases lead to names that a partition has rules for by now. A change of policy
    /// does so if need be; call it after loading a cache file.
    pub fn drop_unfit(&self) {
        let (policy, mut unfit) = (self.policy.load(), HashSet::new());
        let mut hashed = HashedName::new();
        // The age of an answer does not matter here.
        self.cache.for_each(Now::since_start(0), |held| {
            let name = held.name();
            hashed.set(self.cache.key(), name.as_name());
            let is_local = |partition| policy.local(partition).is_local(&hashed, held.asked(), held.qclass());
            let forbids = match policy.partitions {
                None => is_local(Partition::SHARED),
                Some(_) => self.is_forbidden_to_partition(&policy, held, is_local),
            };
            if forbids || policy.private.as_ref().is_some_and(|private| private.offends(&held.message())) {
                unfit.insert(*name);
            }
        });
        if !unfit.is_empty() {
            self.cache.flush_names(|name| unfit.contains(&name.to_buf()));
        }
    }

    /// Like the first and third condition of [`drop_unfit`](Self::drop_unfit), if partitions have rules.
    fn is_forbidden_to_partition(
        &self,
        policy: &Policy,
        held: &Held,
        is_local: impl FnOnce(Partition) -> bool,
    ) -> bool {
        let shared = shared_key(held);
        // Where the view is that of no rule, no client gets the answer.
        let partition = policy.cache_views.partition_of_view(&shared, held.view());
        let is_of_all =
            self.cache_view(policy, &shared).is_some_and(|cache_view| cache_view.number == held.view());
        partition.is_some_and(is_local)
            || is_of_all && policy.cache_views.is_answer_across(&shared, &held.message())
    }

    /// Whether this upstream answer is withheld from clients because it contains private addresses.
    pub fn withholds(&self, message: &[u8]) -> bool {
        self.policy().private.as_ref().is_some_and(|private| private.offends(message))
    }

    /// Drops cached answers and keys of a name and, if `tree` is set, all names below; of one type or of all
    /// types. Returns the number of answers.
    pub fn flush(&self, name: LowerName<'_>, tree: bool, qtype: Option<Type>) -> usize {
        self.forget_keys(name.as_name());
        self.denials.forget(name.as_name(), tree);
        self.cache.flush(&Flush { name, tree, qtype, view: None })
    }

    /// Drops the cached keys at and below a name.
    fn forget_keys(&self, name: Name<'_>) {
        let mut state = lock(&self.validating);
        state.recent.clear();
        let basis = Arc::clone(&state.basis);
        drop(state);
        basis.forget(name);
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns the number and bytes of cached denials that are also used for other names.
    pub fn proven_denials(&self) -> (usize, usize) {
        (self.denials.len(), self.denials.bytes())
    }

    /// The counters.
    pub fn stats(&self) -> &RecursionStats {
        &self.stats
    }

    /// Returns the cache's time at `at`.
    #[inline]
    pub fn now(&self, at: Instant) -> Now {
        let seconds = at.saturating_duration_since(self.start).as_secs();
        Now::since_start(u32::try_from(seconds).unwrap_or(u32::MAX))
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Sends a request to the resolver. Returns it if the queue is full. If no resolver is connected, the
    /// waiter is dropped, and the drop reports that no answer comes.
    ///
    /// Where answers are validated, clients without CD get answers validated here, and the upstream queries
    /// have CD set, so that servers return data that they consider bogus, too (RFC 6840 §5.9).
    pub(crate) fn request(&self, mut request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>> {
        let asked = request.query_key;
        let validates =
            self.cache_view(&self.policy.load(), &asked).is_some_and(|cache_view| cache_view.validates);
        if validates && !asked.checking_disabled {
            let budget = request.budget.get_or_insert_default().clone();
            let (client, quota) = (request.client, request.waiter.quota());
            request.waiter.unchecked = Some(Box::new(Unchecked { query_key: asked, client, budget, quota }));
            request.query_key = QueryKey { dnssec_ok: true, checking_disabled: true, ..asked };
        }
        let shed = self.lookups.get()?.request(request);
        if shed.is_some() {
            self.stats.shed.add();
        }
        shed
    }

    /// Starts a lookup for the cache alone, charged to the client's query that benefits.
    #[cold]
    pub(crate) fn fetch(
        &self,
        query_key: QueryKey,
        client: ClientPrefix,
        budget: Option<Budget>,
        quota: ValidationQuota,
    ) {
        let waiter = Waiter::unattended(quota);
        // A shed request is sent again for the next client that needs it.
        let _ = self.request(LookupRequest { budget, ..LookupRequest::new(query_key, client, waiter) });
    }

    /// Refreshes a popular answer.
    #[cold]
    pub(crate) fn prefetch(&self, query_key: QueryKey, client: ClientPrefix) {
        self.stats.prefetched.add();
        self.fetch(query_key, client, None, ValidationQuota::default());
    }

    /// Returns the cache view of the rule that covers a query.
    pub(crate) fn cache_view(&self, policy: &Policy, query_key: &QueryKey) -> Option<CacheView> {
        policy.cache_views.of_query(self.cache.key(), query_key)
    }
}

/// Returns the query of a cached answer, in no partition.
pub(crate) fn shared_key(held: &Held) -> QueryKey {
    QueryKey {
        name: *held.name(),
        qtype: held.asked(),
        qclass: held.qclass(),
        dnssec_ok: held.dnssec_ok(),
        checking_disabled: held.checking_disabled(),
        partition: Partition::SHARED,
    }
}

/// Drops all denials and applies the policy's limits; none are kept if aggressive use is off.
fn configure(denials: &ProvenDenials, policy: &Policy) {
    let room = if policy.aggressive_nsec { policy.denials } else { 0 };
    denials.configure(room, &policy.validation.settings, &policy.validation.limits);
}
