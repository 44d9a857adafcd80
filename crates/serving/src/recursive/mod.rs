//! Recursive service at run time: connects the cache, the policy, and the thread of the resolver. `store`
//! saves the cache to a file.
//!
//! | file | holds |
//! |---|---|
//! | `store` | the cache in a file |
//! | `anchors` | the thread that queries for keys of followed trust anchors, and ends negative ones |
//! | `local_root` | the copy of the root zone |
//! | `policy_zones` | response policy zones |
//! | `groups` | groups of clients, schedules and pauses |
//! | `lists` | block lists: what is read; the rules from them and from zones |
//! | `fetched_lists`, `list_fetches` | lists with a URL: what is stored and known of each; when it is due |
//! | `list_fetcher` | the thread that fetches lists |
//! | `kept` | text files on disk, for `anchors` |
//! | `figures` | counters |
//!
//! The threads for validation, lookups, trust anchors, rules and the cache file start and end here.

mod anchors;
mod fetched_lists;
mod figures;
mod groups;
mod kept;
mod list_changes;
mod list_fetcher;
mod list_fetches;
mod lists;
mod local_root;
mod policy_zones;
pub mod store;

use std::collections::BTreeSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cache::Cache;
use net::{Outgoing, OutgoingConfig, OutgoingCounts};
use query_path::Engine;
use recursion::{
    DelegatedServer, Domain, Lookups, PartitionsConfig, PolicyConfig, PolicyFault, PolicyRules, Service,
    Validations, Waiter,
};
use resolver::{
    ChaCha, ForwardConfig, ForwardRule, ForwardStats, IterateRule, LookupRequest, OwnZones, Partition,
    Resolver, ResolverRequest, ServerEncryption, ZoneCuts,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tracing::{error, info, warn};
use validator::TrustPoints;
use wire::{LowerName, Name, NameBuf};

use crate::answering;
use crate::descriptors::DescriptorShares;
use crate::frontend::Served;
use crate::hosts::ServerHosts;
use crate::own_zones::{OfEngine, TargetsOfEngine};
use anchors::{AnchorFiles, AnchorOrder, NegativeTimes};
pub use anchors::{FollowedZone, LONGEST_NEGATIVE, ShownAnchor};
use config::Adopt;
use config::Settings;
use config::interfaces::Interfaces;
use config::policy_groups::DEFAULT_GROUP;
use config::resolver::ScheduledPartitions;
use config::resolver::validating::is_private;
pub use figures::{counts, recursion_counts};
pub use groups::GroupFigure;
use list_fetcher::ListOrder;
pub use list_fetches::{FetchCounts, ListFetches};
pub use lists::{ListStatus, Lists, RefreshedLists, RulesConfig};
pub use local_root::{LocalRoot, LocalRootStatus, RootTrust};
use policy_zones::Due;
pub use policy_zones::{PolicyZoneStatus, PolicyZones};
use store::CacheFile;
use telemetry::audit::{LastResortLines, RecursionFailureLines};
use telemetry::dnstap::{Dnstap, Tapped};
use telemetry::repeated::log_repeated;
use threads::spare::{CpuShare, spare};
use threads::sync::lock;
use wording::reason;

/// The parameters of recursive service.
pub struct Plan {
    /// The cache.
    pub cache: cache::CacheConfig,
    /// Whether the cache takes all its memory at the start.
    pub preallocate: bool,
    /// Which clients may query, and how queries are answered. Without block lists.
    pub policy: PolicyConfig,
    /// Response policy zones, block lists, groups of clients.
    pub rules: RulesConfig,
    /// The partitions of groups while schedules are in force.
    pub scheduled: ScheduledPartitions,
    /// Forwarding and iteration rules.
    pub forward: ForwardConfig,
    /// Whether answers are validated under rules that are added at run time.
    pub validates: bool,
    /// The zones whose trust anchors are followed (RFC 5011), if there is a state folder.
    pub followed: BTreeSet<NameBuf>,
    /// Whether their servers are sent the tags of the trusted keys (RFC 8145).
    pub signals: bool,
    /// Largest number of queries that wait for the resolver's thread.
    pub queue: usize,
    /// Largest number of sockets to other servers at a time.
    pub sockets: usize,
    /// Number of validation threads.
    pub validators: usize,
    /// The file of the cache, and the interval at which it is saved.
    pub file: Option<(PathBuf, Duration)>,
}

/// Recursive service.
pub struct Recursive {
    /// The cache and the policy.
    pub service: Arc<Service>,
    /// The counters of the resolver.
    pub forward: Arc<ForwardStats>,
    /// The cache's file.
    pub file: Option<CacheFile>,
    /// The local copy of the root zone.
    pub local_root: Arc<LocalRoot>,
    /// The block lists, and the rules in force.
    pub lists: Lists,
    /// The versions of response policy zones.
    policy_zones: Arc<PolicyZones>,
    /// Rules that are no longer in force, until no worker uses them.
    retired: Mutex<Vec<Arc<PolicyRules>>>,
    /// The thread that puts new versions of response policy zones into force.
    policy_thread: Mutex<Option<JoinHandle<()>>>,
    /// The zones served here, for resolving names that they delegate.
    own_zones: OwnZones,
    outgoing: Arc<Outgoing<ResolverRequest<Waiter>>>,
    engine: Arc<Engine<Served>>,
    /// The validation threads.
    validating: Mutex<Vec<JoinHandle<()>>>,
    /// The thread for trust anchors, and the channel to it.
    anchor_thread: Mutex<Option<(Sender<AnchorOrder>, JoinHandle<()>)>>,
    /// The thread that fetches lists, and the channel to it.
    list_thread: Mutex<Option<(UnboundedSender<ListOrder>, JoinHandle<()>)>>,
    /// The files of trust anchors.
    anchor_files: Option<AnchorFiles>,
    /// The configuration and the trust anchors in force.
    decided: Mutex<Decided>,
}

/// What can change while the server runs.
#[derive(Clone)]
struct Decided {
    policy: PolicyConfig,
    scheduled: ScheduledPartitions,
    /// Which clients are in which partition now, by the schedules and the addresses of hosts.
    present: PartitionsConfig,
    forward: ForwardConfig,
    validates: bool,
    followed: BTreeSet<NameBuf>,
    signals: bool,
    /// The state of the zones whose anchors are followed.
    points: TrustPoints,
    /// Negative trust anchors with their expiry times.
    negative: NegativeTimes,
}

/// Why recursive service did not start.
#[derive(Debug)]
pub enum RecursiveFault {
    /// The cache cannot be created.
    Cache(cache::ConfigFault),
    /// The policy cannot be applied.
    Policy(PolicyFault),
    /// The system returned no random numbers.
    Random(getrandom::Error),
    /// The system refused a thread or a descriptor.
    Thread(io::Error),
}

impl std::fmt::Display for RecursiveFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cache(fault) => write!(f, "the cache cannot be made: {fault}"),
            Self::Policy(fault) => fault.fmt(f),
            Self::Random(fault) => write!(f, "there are no random numbers: {fault}"),
            Self::Thread(fault) => write!(f, "cannot start a thread of recursive service: {fault}"),
        }
    }
}
impl std::error::Error for RecursiveFault {}

/// How often rules that are no longer in force are looked at until no worker uses them.
const RETIRED_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the resolver to report the state of encrypted transports.
const ENCRYPTION_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The channel to the resolver's thread, and the zone cuts that it knows.
struct Asker {
    outgoing: Arc<Outgoing<ResolverRequest<Waiter>>>,
    cuts: Arc<ZoneCuts>,
}

impl Lookups for Asker {
    fn request(&self, request: LookupRequest<Waiter>) -> Option<LookupRequest<Waiter>> {
        match self.outgoing.offer(ResolverRequest::Lookup(request)) {
            Some(ResolverRequest::Lookup(request)) => Some(request),
            _ => None,
        }
    }

    fn delegated_servers(&self, zone: LowerName<'_>) -> Vec<DelegatedServer> {
        self.cuts.servers_of(zone)
    }
}

impl Recursive {
    /// Starts recursive service; the engine uses it from the next batch on. dnstap receives copies of the
    /// messages to and from other servers. The state of trust anchors is stored in the state folder.
    ///
    /// # Errors
    /// [`RecursiveFault`].
    pub fn start(
        mut plan: Plan,
        engine: &Arc<Engine<Served>>,
        dnstap: Option<Arc<Dnstap>>,
        state: Option<&Path>,
        local_root: Arc<LocalRoot>,
        policy_zones: Arc<PolicyZones>,
    ) -> Result<Arc<Recursive>, RecursiveFault> {
        let start = Instant::now();
        let cache = Cache::new(&plan.cache, engine.key()).map_err(RecursiveFault::Cache)?;
        let (queue, links, file) = (plan.queue, plan.sockets, plan.file.clone());
        let (anchor_files, preallocates) = (state.map(AnchorFiles::new), plan.preallocate);
        let validators = plan.validators.max(1);
        let own_zones = OwnZones::new(Arc::new(OfEngine(Arc::downgrade(engine))));
        take_zones_here(&mut plan.forward, &local_root, &own_zones);
        let lists = Lists::new(engine.key(), state);
        plan.policy.lists = lists.load(&plan.rules, policy_zones.versions().0);
        let decided = Decided::first(plan, &lists, anchor_files.as_ref());
        let service = Service::new(cache, start, &decided.in_force()).map_err(RecursiveFault::Policy)?;
        if preallocates {
            preallocate(&service).map_err(RecursiveFault::Thread)?;
        }
        report(&service);
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(RecursiveFault::Random)?;
        let resolver = Resolver::new(decided.forward.clone(), service.completion(), ChaCha::new(seed));
        let (forward, cuts) = (resolver.stats(), resolver.cuts());
        let config = OutgoingConfig { queue, links, by_workers: true, on_start: answering::begin };
        let outgoing = Outgoing::start("forward", Tapped::new(resolver, dnstap), &config);
        let outgoing = Arc::new(outgoing.map_err(RecursiveFault::Thread)?);
        connect(&service, &outgoing, cuts, engine);
        let validations = service.validations();
        let validators = (0..validators).map(|_| {
            let validations = validations.clone();
            std::thread::Builder::new().name("validate".into()).spawn(move || validate(&validations))
        });
        let validating = validators.collect::<io::Result<_>>().map_err(RecursiveFault::Thread)?;
        let file = match file {
            Some((path, every)) => {
                Some(CacheFile::start(path, every, &service).map_err(RecursiveFault::Thread)?)
            }
            None => None,
        };
        let (engine, decided) = (Arc::clone(engine), Mutex::new(decided));
        let recursive = Arc::new(Recursive {
            service,
            forward,
            file,
            local_root,
            lists,
            policy_zones,
            retired: Mutex::default(),
            policy_thread: Mutex::default(),
            own_zones,
            outgoing,
            engine,
            validating: Mutex::new(validating),
            anchor_thread: Mutex::new(None),
            list_thread: Mutex::new(None),
            anchor_files,
            decided,
        });
        recursive.put_into_service();
        recursive.put_limits();
        recursive.local_root.trust(RootTrust::of(&lock(&recursive.decided).in_force()));
        let started = recursive.look_after_anchors().and_then(|()| recursive.look_after_lists());
        started.and_then(|()| recursive.look_after_rules()).map_err(RecursiveFault::Thread)?;
        Ok(recursive)
    }

    /// Starts the thread that puts new versions of response policy zones into force.
    fn look_after_rules(self: &Arc<Self>) -> io::Result<()> {
        let (recursive, zones) = (Arc::downgrade(self), Arc::clone(&self.policy_zones));
        let mut has_retired = false;
        // What counts for groups may change by the time before any zone does.
        let mut until_change = self.lists.until_change();
        let work = move || {
            loop {
                let time = has_retired.then_some(RETIRED_INTERVAL).into_iter().chain(until_change).min();
                if zones.wait(time) == Due::Stop {
                    break;
                }
                let Some(recursive) = recursive.upgrade() else { break };
                // The start and reloads wait for the rules: a panic, which would be a bug in nomen, leaves
                // those before in force.
                if catch_unwind(AssertUnwindSafe(|| recursive.renew_rules())).is_err() {
                    zones.give_up();
                    error!("new versions of policy zones are not in force");
                }
                has_retired = recursive.free_retired();
                until_change = recursive.lists.until_change();
            }
        };
        let thread = std::thread::Builder::new().name("policy".into()).spawn(work)?;
        *lock(&self.policy_thread) = Some(thread);
        Ok(())
    }

    /// Compiles the rules again if versions of response policy zones have changed, and puts them into force;
    /// also if other rules count for a group by now.
    fn renew_rules(&self) {
        let _changing = self.lists.change();
        let (versions, changes) = self.policy_zones.versions();
        self.put_rules(self.lists.renew(versions));
        self.renew_partitions();
        self.policy_zones.is_in_force(changes);
    }

    /// Puts the limits on the queries of groups into force.
    fn put_limits(&self) {
        match self.lists.limits() {
            Ok(limits) => self.engine.set_group_limits(limits),
            Err(fault) => error!("limits of groups stay those of before: {fault}"),
        }
    }

    /// Puts clients into other partitions, if schedules or the addresses of hosts have changed.
    fn renew_partitions(&self) {
        let mut decided = lock(&self.decided);
        let present = self.lists.partitions(&decided.policy.partitions, &decided.scheduled);
        if present == decided.present {
            return;
        }
        self.put_limits();
        match self.service.set_partitions(&present) {
            Ok(()) => {
                decided.present = present;
                self.put_into_service();
            }
            Err(fault) => error!("rules of groups stay those of before: {fault}"),
        }
    }

    /// Puts rules into force, and changes nothing else. The caller has locked out other changes of them.
    fn put_rules(&self, rules: Option<Arc<PolicyRules>>) {
        let mut decided = lock(&self.decided);
        let same = match (&rules, &decided.policy.lists) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (None, None) => true,
            _ => false,
        };
        if !same {
            self.service.set_rules(rules.clone());
            self.retire(std::mem::replace(&mut decided.policy.lists, rules));
            self.put_into_service();
        }
    }

    /// Suspends all rules for a group for a time, or ends that. Returns whether there is such a group.
    pub fn pause_rules(&self, group: &str, time: Option<Duration>) -> bool {
        if !self.lists.has_group(group) {
            return false;
        }
        self.lists.pause(group, time);
        self.renew_rules();
        // The thread is to know when the pause ends.
        self.policy_zones.look_again();
        true
    }

    /// Keeps rules that are no longer in force until no worker uses them, so that none has to free them.
    fn retire(&self, rules: Option<Arc<PolicyRules>>) {
        lock(&self.retired).extend(rules);
    }

    /// Frees the rules that no worker uses any more. Returns whether there are others.
    fn free_retired(&self) -> bool {
        let mut retired = lock(&self.retired);
        let (free, used): (Vec<_>, Vec<_>) =
            retired.drain(..).partition(|rules| Arc::strong_count(rules) == 1);
        *retired = used;
        let has_others = !retired.is_empty();
        drop(retired);
        drop(free);
        has_others
    }

    /// Waits until the rules of all versions of response policy zones so far are in force.
    pub fn settle_rules(&self) {
        self.policy_zones.settle();
    }

    /// Starts the thread for trust anchors.
    fn look_after_anchors(self: &Arc<Self>) -> io::Result<()> {
        let (orders, taken) = channel();
        let (recursive, back) = (Arc::downgrade(self), orders.clone());
        let thread = std::thread::Builder::new().name("anchors".into());
        let thread = thread.spawn(move || anchors::work(&recursive, &taken, &back))?;
        *lock(&self.anchor_thread) = Some((orders, thread));
        Ok(())
    }

    /// Returns what resolves the names of other servers, from zones served here and by this resolver.
    pub fn hosts(&self) -> ServerHosts {
        ServerHosts::of_resolver(Arc::clone(&self.service), &self.engine)
    }

    /// Starts the thread that fetches lists.
    fn look_after_lists(self: &Arc<Self>) -> io::Result<()> {
        let (orders, taken) = unbounded_channel();
        let hosts = self.hosts();
        let recursive = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("lists".into());
        let thread = thread.spawn(move || list_fetcher::work(recursive, hosts, taken))?;
        *lock(&self.list_thread) = Some((orders, thread));
        self.order_lists(ListOrder::Look);
        Ok(())
    }

    /// Makes the engine use the current state.
    fn put_into_service(&self) {
        let memory = self.service.memory();
        self.engine.change_memory(|served| served.then = memory.clone());
        let source = self.service.source();
        self.engine.change_sources(|sources| sources.elsewhere = Some(Arc::clone(&source)));
    }

    /// Returns the counters of the links to other servers.
    pub fn link_counts(&self) -> &OutgoingCounts {
        self.outgoing.counts()
    }

    /// Replaces the configuration. Flushes from the cache names whose rules changed, and names that are now
    /// validated differently. Temporary negative trust anchors stay.
    ///
    /// # Errors
    /// If the policy cannot be applied; nothing has changed then.
    pub fn configure(&self, plan: Plan) -> Result<(), PolicyFault> {
        let Plan { mut policy, scheduled, mut forward, validates, followed, signals, rules, .. } = plan;
        let changing = self.lists.change();
        policy.lists = self.lists.load(&rules, self.policy_zones.versions().0);
        take_zones_here(&mut forward, &self.local_root, &self.own_zones);
        let mut decided = lock(&self.decided);
        let (points, negative) = (decided.points.clone(), decided.negative.clone());
        let followed = if self.anchor_files.is_some() { followed } else { BTreeSet::new() };
        let present = self.lists.partitions(&policy.partitions, &scheduled);
        let mut new =
            Decided { policy, scheduled, present, forward, validates, followed, signals, points, negative };
        new.follow();
        let rules = decided.policy.lists.clone();
        self.decide(&mut decided, new)?;
        self.put_limits();
        drop((decided, changing));
        self.retire(rules);
        self.policy_zones.look_again();
        self.look_at_anchors();
        self.order_lists(ListOrder::Look);
        Ok(())
    }

    fn decide(&self, old: &mut Decided, new: Decided) -> Result<(), PolicyFault> {
        let policy = new.in_force();
        // The resolver has the rules before the first lookup by them, and keeps those of partitions that go.
        let before = || {
            self.outgoing.request(ResolverRequest::Configure(Box::new(new.forward.clone())));
        };
        self.service.set_policy(&policy, before)?;
        self.local_root.trust(RootTrust::of(&policy));
        self.put_into_service();
        // Other rules of groups make other partitions, which share no answers with those before.
        let [rules, new_rules] = [&*old, &new].map(|decided| shared_rules(&decided.forward));
        let forwarded = changed(&rules, &new_rules, |rule| rule.domain);
        let iterated = changed(&old.forward.iterate.rules, &new.forward.iterate.rules, |rule| rule.domain);
        for domain in forwarded.chain(iterated) {
            self.flush_tree(domain);
        }
        let [before, after] = [&*old, &new].map(|decided| decided.in_force().validation.anchors);
        let once: BTreeSet<NameBuf> = before.negative().chain(after.negative()).copied().collect();
        let is_in_both =
            |name: &NameBuf| [&before, &after].iter().all(|all| all.negative().any(|n| n == name));
        once.into_iter().filter(|name| !is_in_both(name)).for_each(|name| self.flush_tree(name));
        *old = new;
        Ok(())
    }

    /// Flushes a name and all names below it from the cache.
    fn flush_tree(&self, domain: NameBuf) {
        self.service.flush(domain.as_name().to_lower().as_lower(), true, None);
    }

    /// Returns the forwarding rules and the iteration rules.
    pub fn rules(&self) -> (Vec<ForwardRule>, Vec<IterateRule>) {
        let decided = lock(&self.decided);
        (decided.forward.rules.clone(), decided.forward.iterate.rules.clone())
    }

    /// Returns the state of the encrypted transports of authoritative servers that were probed; `None` if the
    /// resolver does not reply in time.
    pub fn encryption(&self) -> Option<Vec<ServerEncryption>> {
        let (sender, states) = channel();
        self.outgoing.request(ResolverRequest::Encryption(sender));
        states.recv_timeout(ENCRYPTION_REPLY_TIMEOUT).ok()
    }

    /// Returns the names of the groups in a partition, and the schedules by which a group is in it.
    pub fn groups_of(&self, partition: Partition) -> Vec<String> {
        let decided = lock(&self.decided);
        let names = decided.policy.partitions.names(partition, DEFAULT_GROUP);
        let at_times = decided.scheduled.iter().filter(|(_, own)| **own == partition);
        let at_times = at_times.map(|(schedule, _)| format!("schedule {schedule}"));
        names.into_iter().map(str::to_owned).chain(at_times).collect()
    }

    /// Adds a forwarding rule for all clients, which replaces one for the same domain.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn put_rule(&self, rule: ForwardRule) -> Result<(), PolicyFault> {
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        new.drop_rule(rule.domain.as_name());
        let validate = new.validates && !is_private(rule.domain.as_name());
        let partition = Partition::SHARED;
        new.policy.domains.push(Domain { name: rule.domain, partition, trust_ad: false, validate });
        new.policy.local.forwarded.push(rule.domain.as_name().to_lower());
        new.forward.rules.push(rule);
        self.decide(&mut decided, new)
    }

    /// Removes the rule for this domain and all clients. Returns whether there was one.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn drop_rule(&self, domain: Name<'_>) -> Result<bool, PolicyFault> {
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        let dropped = new.drop_rule(domain);
        if dropped {
            self.decide(&mut decided, new)?;
        }
        Ok(dropped)
    }

    /// Adds a negative trust anchor for `time` (RFC 7646), in place of an earlier one for the domain.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn put_negative_anchor(&self, domain: NameBuf, time: Duration) -> Result<(), PolicyFault> {
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        new.negative.insert(domain, Instant::now() + time);
        self.decide(&mut decided, new)?;
        self.keep_negative(&decided.negative);
        drop(decided);
        self.look_at_anchors();
        Ok(())
    }

    fn keep_negative(&self, negative: &NegativeTimes) {
        if let Some(files) = &self.anchor_files {
            files.write_negative(negative);
        }
    }

    /// Removes a negative trust anchor. Returns whether there was one that was added at run time: those of
    /// the configuration do not count.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn drop_negative_anchor(&self, domain: &NameBuf) -> Result<bool, PolicyFault> {
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        let dropped = new.negative.remove(domain).is_some();
        if dropped {
            self.decide(&mut decided, new)?;
            self.keep_negative(&decided.negative);
        }
        Ok(dropped)
    }

    /// Removes the negative trust anchors that have expired.
    pub fn drop_expired_anchors(&self) {
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        let now = Instant::now();
        new.negative.retain(|_, until| *until > now);
        if new.negative.len() == decided.negative.len() {
            return;
        }
        match self.decide(&mut decided, new) {
            Ok(()) => self.keep_negative(&decided.negative),
            Err(fault) => {
                let about = ("negative trust anchors", "");
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "negative trust anchors are not removed at their end: {fault}"
                );
            }
        }
    }

    /// Returns the negative trust anchors: those of the configuration, and the temporary ones with their
    /// remaining time.
    pub fn negative_anchors(&self) -> Vec<(NameBuf, Option<Duration>)> {
        let (decided, now) = (lock(&self.decided), Instant::now());
        let configured = decided.policy.validation.anchors.negative().map(|name| (*name, None));
        let left = |until: &Instant| Some(until.saturating_duration_since(now));
        configured.chain(decided.negative.iter().map(|(name, until)| (*name, left(until)))).collect()
    }

    /// Saves the cache and sends no more queries. Clients that still wait receive SERVFAIL.
    pub fn stop(&self) {
        if let Some((orders, thread)) = lock(&self.list_thread).take() {
            // The thread may have ended, and the panic hook has shown a panic.
            let _ = orders.send(ListOrder::Stop);
            let _ = thread.join();
        }
        if let Some((orders, thread)) = lock(&self.anchor_thread).take() {
            // The thread may have ended, and the panic hook has shown a panic.
            let _ = orders.send(AnchorOrder::Stop);
            let _ = thread.join();
        }
        self.policy_zones.stop();
        if let Some(thread) = lock(&self.policy_thread).take() {
            // The panic hook has shown a panic.
            let _ = thread.join();
        }
        self.outgoing.stop();
        self.service.stop_validating();
        for thread in std::mem::take(&mut *lock(&self.validating)) {
            // The panic hook has shown a panic.
            let _ = thread.join();
        }
        if let Some(file) = &self.file {
            file.stop();
        }
    }
}

/// Connects the service with the resolver and with the zones served here.
fn connect(
    service: &Service,
    outgoing: &Arc<Outgoing<ResolverRequest<Waiter>>>,
    cuts: Arc<ZoneCuts>,
    engine: &Arc<Engine<Served>>,
) {
    service.connect(Box::new(Asker { outgoing: Arc::clone(outgoing), cuts }));
    service.serve_zones(Box::new(TargetsOfEngine(Arc::downgrade(engine))));
}

/// Has failures and last-resort answers logged.
fn report(service: &Service) {
    let failures = RecursionFailureLines::default();
    service.report_failures(Box::new(move |query_key, cause| failures.failed(query_key, cause)));
    let last_resorts = LastResortLines::default();
    service.report_last_resorts(Box::new(move |zone, server, query_key| {
        last_resorts.took(zone, server, query_key);
    }));
}

/// Starts a thread that makes the cache take all its memory, at low priority.
fn preallocate(service: &Arc<Service>) -> io::Result<()> {
    let service = Arc::clone(service);
    let preallocate = move || {
        let began = Instant::now();
        spare(CpuShare::Tenth, || service.cache().preallocate());
        info!(milliseconds = began.elapsed().as_millis() as u64, "the cache's memory is allocated");
    };
    std::thread::Builder::new().name("cache-memory".into()).spawn(preallocate).map(drop)
}

/// Runs a validation thread. A panic, which would be a bug in nomen, costs the clients that wait at that
/// time.
fn validate(validations: &Validations) {
    answering::begin();
    while catch_unwind(AssertUnwindSafe(|| validations.run())).is_err() {
        validations.reset();
        let about = ("validating", "");
        log_repeated!(error, ERROR, about, "validation restarts: answers in validation are lost");
    }
}

/// Returns the forwarding rules for all clients.
fn shared_rules(forward: &ForwardConfig) -> Vec<ForwardRule> {
    forward.rules.iter().filter(|rule| rule.partition.is_shared()).cloned().collect()
}

/// Returns the domains of rules that are in only one of two lists.
fn changed<'r, R: PartialEq>(
    before: &'r [R],
    after: &'r [R],
    domain: impl Fn(&R) -> NameBuf,
) -> impl Iterator<Item = NameBuf> {
    let gone = before.iter().filter(|rule| !after.contains(rule));
    let come = after.iter().filter(|rule| !before.contains(rule));
    gone.chain(come).map(domain)
}

impl Decided {
    /// Returns the initial state: the plan, and what is stored from the previous run.
    fn first(plan: Plan, lists: &Lists, kept: Option<&AnchorFiles>) -> Decided {
        let Plan { policy, scheduled, forward, validates, mut followed, signals, .. } = plan;
        if kept.is_none() && !followed.is_empty() {
            info!(
                "trust anchors do not follow key rollovers (RFC 5011) without a state folder: set \
                `state-dir` in [server]"
            );
            followed.clear();
        }
        let points = match kept.filter(|_| !followed.is_empty()) {
            Some(files) => files.read_points(),
            None => TrustPoints::default(),
        };
        let negative = kept.map(AnchorFiles::read_negative).unwrap_or_default();
        let present = lists.partitions(&policy.partitions, &scheduled);
        let mut first =
            Decided { policy, scheduled, present, forward, validates, followed, signals, points, negative };
        first.follow();
        first
    }

    /// Returns the policy with the present partitions, the current trust anchors of followed zones, and the
    /// temporary negative ones.
    fn in_force(&self) -> PolicyConfig {
        let mut policy = self.policy.clone();
        policy.partitions = self.present.clone();
        policy.validation.anchors = self.points.in_force(&policy.validation.anchors);
        self.negative.keys().for_each(|name| policy.validation.anchors.add_negative(name.as_name()));
        policy
    }

    fn drop_rule(&mut self, domain: Name<'_>) -> bool {
        let Decided { policy, forward, .. } = self;
        let count = |forward: &ForwardConfig| forward.rules.len() + forward.iterate.rules.len();
        let before = count(forward);
        forward.rules.retain(|rule| rule.domain.as_name() != domain || !rule.partition.is_shared());
        forward.iterate.rules.retain(|rule| rule.domain.as_name() != domain);
        policy.domains.retain(|other| other.name.as_name() != domain || !other.partition.is_shared());
        policy.local.forwarded.retain(|other| other.as_name() != domain);
        count(forward) < before
    }
}

impl Adopt for Recursive {
    fn adopt(&self, settings: &Settings) {
        if let Some(plan) = plan(settings)
            && let Err(fault) = self.configure(plan)
        {
            error!("recursive service keeps its previous settings: {fault}");
        }
    }
}

/// Makes the resolver use the local copy of the root zone, if it holds one, in place of the root servers, and
/// resolve names that zones here delegate from these zones.
fn take_zones_here(forward: &mut ForwardConfig, local_root: &Arc<LocalRoot>, own_zones: &OwnZones) {
    forward.iterate.own_zones = Some(own_zones.clone());
    let instead = forward.rules.iter_mut().filter_map(|rule| rule.instead.as_mut());
    let all = forward.iterate.rules.iter_mut().chain(instead);
    let of_root = all.filter(|rule| rule.domain.as_name().is_root());
    of_root.for_each(|rule| rule.copy = Some(local_root.copy()));
}

/// Returns the plan for these settings on this machine; `None` if recursive service is off.
pub fn plan(settings: &Settings) -> Option<Plan> {
    let wanted = settings.recursive()?;
    let interfaces = Interfaces::of_this_machine().unwrap_or_else(|e| {
        warn!("the addresses of network interfaces cannot be read: {}", reason(&e));
        Interfaces::default()
    });
    for interface in wanted.interfaces_without_address(&interfaces) {
        warn!("[[resolver.access]]: there is no interface {interface}, or it has no address");
    }
    wanted.anchor_notes().iter().for_each(|note| warn!("{note}"));
    Some(Plan {
        cache: wanted.cache_config(),
        policy: wanted.policy_config(&interfaces),
        rules: RulesConfig {
            zones: settings.policy_zones(),
            lists: settings.lists(),
            groups: settings.policy_groups(&interfaces),
        },
        scheduled: wanted.scheduled_partitions(),
        forward: wanted.forward_config(),
        validates: wanted.validates(),
        followed: wanted.followed(),
        signals: wanted.signals(),
        queue: wanted.queue(),
        sockets: DescriptorShares::of(settings).upstream.min(OutgoingConfig::default().links),
        validators: wanted.validators(),
        preallocate: wanted.cache_preallocate(),
        file: wanted.cache_file().map(|file| (file, wanted.cache_save_interval())),
    })
}
