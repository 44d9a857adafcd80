//! `[resolver]` and the blocks inside it: recursive service. Names of network interfaces are stored as names;
//! they are resolved to addresses when the settings of the parts are made.

pub mod access;
pub mod answering;
pub mod asking;
pub mod caching;
pub mod encrypting;
pub mod files;
pub mod iterating;
pub mod local_root;
pub mod networks;
mod partitions;
pub mod reporting;
pub mod validating;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use recursion::{Domain, LocalConfig, LocalRecord, PolicyConfig};
use resolver::{ForwardConfig, ForwardRule, IterateConfig};
use wire::{LowerNameBuf, Name, NameBuf, Prefix};
use zone::Zone;
use zone::store::NodeFlags;

use super::listen::Opened;
use super::report::Diagnostic;
use super::storage::Storage;
use super::table::read::At;
use super::table::section;
use crate::discovery::Discovery;
use crate::interfaces::Interfaces;
use answering::{LocalNameKeys, PrivateAnswers, Serving, Synthesis};
use asking::{Asking, AskingLimits, AskingTimes};
use caching::Caching;
use encrypting::Encrypting;
use iterating::{Iterating, QueryBudget};
use local_root::{RootCopy, RootSource};
use partitions::{GroupPartitions, RuleFacts};
use reporting::Reporting;
use validating::Validating;

pub use access::AccessBlock;
pub use asking::{Forward, Stub};
pub use partitions::ScheduledPartitions;
pub(crate) use partitions::{NamedGroups, NamedSchedule};

section! {
    /// Recursive service: queries that no zone here answers go to other servers, and their answers are
    /// cached. The section, or a block inside it, turns it on; without it nomen answers for its own zones
    /// only. `[[resolver.forward]]` and `[[resolver.stub]]` are rules that name the servers for a domain;
    /// other names are resolved iteratively, from the root servers down.
    pub struct ResolverSection in "[resolver]" {
        /// The cache.
        caching: Caching;
        /// Answers from the cache.
        serving: Serving;
        /// Names that are answered locally.
        local: LocalNameKeys;
        /// Discovery of encrypted listeners.
        discovery: Discovery;
        /// Private addresses in answers of other servers.
        private: PrivateAnswers;
        /// AAAA records synthesized from A records.
        synthesis: Synthesis;
        /// Iteration from the root servers down.
        iterating: Iterating;
        /// The local copy of the root zone.
        root_copy: RootCopy;
        /// What one client query may cost other servers.
        budget: QueryBudget;
        /// Validation of answers.
        validating: Validating;
        /// Reporting of failures.
        reporting: Reporting;
        /// Encryption of queries to authoritative servers.
        encrypting: Encrypting;
        /// Queries to other servers.
        asking: Asking;
        /// Timeouts and intervals.
        times: AskingTimes;
        /// Limits on the work that clients can cause.
        limits: AskingLimits;
    }
}

/// The configuration of recursive service: `[resolver]`, its blocks, and the state folder of `[server]`.
#[derive(Debug, Clone)]
pub struct RecursiveConfig<'s> {
    pub(crate) resolver: &'s At<ResolverSection>,
    pub(crate) forwards: &'s [At<Forward>],
    pub(crate) stubs: &'s [At<Stub>],
    pub(crate) access: &'s [At<AccessBlock>],
    pub(crate) groups: &'s dyn NamedGroups,
    pub(crate) schedules: Vec<NamedSchedule<'s>>,
    /// Networks whose clients are trusted to say in options for which client they ask.
    pub(crate) trusted: Vec<Prefix>,
    pub(crate) storage: &'s Storage,
    /// The records by which clients discover the encrypted listeners.
    pub(crate) designated: Vec<LocalRecord>,
}

impl<'s> RecursiveConfig<'s> {
    /// Returns the settings of the cache.
    pub fn cache_config(&self) -> cache::CacheConfig {
        self.resolver.caching.config()
    }

    /// Returns whether the cache takes its memory at the start.
    pub fn cache_preallocate(&self) -> bool {
        self.resolver.caching.preallocate()
    }

    /// Returns the file that stores the cache between runs; `None` if it is not stored.
    pub fn cache_file(&self) -> Option<PathBuf> {
        self.resolver.caching.file(self.storage.folder().as_deref())
    }

    /// Returns the interval at which the cache is saved to its file.
    pub fn cache_save_interval(&self) -> Duration {
        self.resolver.caching.save_interval()
    }

    /// Returns the policy for answers to clients, on a machine with these interfaces.
    pub fn policy_config(&self, interfaces: &Interfaces) -> PolicyConfig {
        let ResolverSection {
            caching,
            serving,
            local,
            private,
            synthesis,
            validating,
            reporting,
            limits,
            ..
        } = &self.resolver.value;
        let RecursiveConfig { access, groups, .. } = *self;
        let domains: Vec<Domain> = self.domains().collect();
        let shared = domains.iter().filter(|domain| domain.partition.is_shared());
        let names: Vec<LowerNameBuf> = shared.map(|domain| domain.name.as_name().to_lower()).collect();
        PolicyConfig {
            access: access::rules(access, interfaces),
            local: LocalConfig { designated: self.designated.clone(), ..local.config(names) },
            // Its rules are read from files, which the caller does.
            lists: None,
            private: private.config(),
            dns64: synthesis.config(),
            domains,
            partitions: self.partitions().config(groups.rules(interfaces), self.trusted.clone()),
            stale_after: (caching.serve_stale.0 > 0).then_some(serving.stale_after.0),
            stale_refresh: serving.stale_refresh.0,
            nxdomain_cut: *serving.nxdomain_cut,
            aggressive_nsec: *serving.aggressive_nsec,
            denials: serving.denials.0,
            prefetch: *serving.prefetch,
            max_chain: serving.max_rule_chain.0,
            validation: validating.config(limits.clients_per_network()),
            reports: reporting.limits(),
        }
    }

    /// Returns whether answers are validated under rules without a setting of their own.
    pub fn validates(&self) -> bool {
        *self.resolver.validating.validate
    }

    /// Returns the zones whose trust anchors are followed; none if no rule validates answers.
    pub fn followed(&self) -> BTreeSet<NameBuf> {
        let any = self.domains().any(|domain| domain.validate);
        if any { self.resolver.validating.followed() } else { BTreeSet::new() }
    }

    /// Returns the partition of each group.
    fn partitions(&self) -> GroupPartitions<'s> {
        let RecursiveConfig { forwards, stubs, groups, .. } = *self;
        let forwards = forwards.iter().map(|rule| RuleFacts::of_forward(rule));
        let rules = forwards.chain(stubs.iter().map(|rule| RuleFacts::of_stub(rule))).collect();
        GroupPartitions::new(groups, &self.schedules, rules)
    }

    /// Returns the partitions of groups while schedules are in force.
    pub fn scheduled_partitions(&self) -> ScheduledPartitions {
        self.partitions().scheduled()
    }

    /// Returns the domains of all rules, and of each partition.
    fn domains(&self) -> impl Iterator<Item = Domain> {
        let RecursiveConfig { resolver, forwards, stubs, .. } = *self;
        let (partitions, validating) = (self.partitions(), &resolver.value.validating);
        let mut domains = Vec::new();
        for rule in forwards {
            let of = partitions.of(RuleFacts::of_forward(rule));
            domains.extend(of.into_iter().map(|partition| rule.domain(partition, validating)));
        }
        for rule in stubs {
            let of = partitions.of(RuleFacts::of_stub(rule));
            domains.extend(of.into_iter().map(|partition| rule.domain(partition, validating)));
        }
        let iterated = self.iterates().then(|| resolver.iterating.domain(validating));
        domains.into_iter().chain(iterated)
    }

    /// Returns the rules of all domains and partitions.
    fn rules(&self) -> Vec<ForwardRule> {
        let RecursiveConfig { resolver, forwards, stubs, .. } = *self;
        let partitions = self.partitions();
        let mut rules = Vec::new();
        for rule in forwards {
            let of = partitions.of(RuleFacts::of_forward(rule));
            rules.extend(of.into_iter().map(|partition| rule.rule(partition, || resolver.iterating.rule())));
        }
        for rule in stubs {
            let of = partitions.of(RuleFacts::of_stub(rule));
            rules.extend(of.into_iter().map(|partition| rule.rule(partition)));
        }
        rules
    }

    /// Returns whether the servers of these zones are sent the tags of the trusted keys (RFC 8145).
    pub fn signals(&self) -> bool {
        *self.resolver.validating.signals
    }

    /// Returns whether there are names without a rule, which are iterated.
    fn iterates(&self) -> bool {
        let all = |rule: &At<Forward>| rule.domain.as_name().is_root() && rule.groups.is_none();
        *self.resolver.iterating.iterate && !self.forwards.iter().any(all)
    }

    /// Returns the source of the local copy of the root zone, if a copy is configured.
    pub fn local_root(&self) -> Option<RootSource> {
        self.resolver.root_copy.source(&self.resolver.iterating).filter(|_| self.iterates())
    }

    /// Returns the keys that sign transfers of that copy.
    pub fn local_root_keys(&self) -> impl Iterator<Item = At<LowerNameBuf>> {
        self.resolver.root_copy.peers().keys().collect::<Vec<_>>().into_iter()
    }

    /// Returns which servers are queried, and how.
    pub fn forward_config(&self) -> ForwardConfig {
        let ResolverSection { caching, iterating, budget, encrypting, asking, times, limits, .. } =
            &self.resolver.value;
        let opportunistic = encrypting.config();
        ForwardConfig {
            rules: self.rules(),
            iterate: IterateConfig { opportunistic, ..iterating.config(budget, self.iterates()) },
            refused: iterating.refused(),
            limits: limits.config(),
            timing: times.config(),
            explore: asking.explore.0,
            mixed_case: *asking.mixed_case,
            cookies: *asking.cookies,
            udp_size: asking.udp_size.0,
            sources: [asking.source(true), asking.source(false)].into_iter().flatten().collect(),
            max_ttl: caching.max_ttl.0,
            max_negative_ttl: caching.max_negative_ttl.0,
        }
    }

    /// Returns the largest number of queries that wait for the resolver's thread.
    pub fn queue(&self) -> usize {
        self.resolver.limits.queue.0
    }

    /// Returns the number of validation threads.
    pub fn validators(&self) -> usize {
        self.resolver.validating.threads.count()
    }

    /// Returns notes for the operator on the trust anchors, one sentence each.
    pub fn anchor_notes(&self) -> Vec<String> {
        self.resolver.validating.notes()
    }

    /// Returns the interfaces of `[[resolver.access]]` that have no address: their blocks match no client.
    pub fn interfaces_without_address(&self, interfaces: &Interfaces) -> Vec<&'s str> {
        let named = self.access.iter().flat_map(|block| block.interface.iter().flatten());
        let named = named.map(|name| name.value.as_str());
        named.filter(|name| interfaces.addresses_of(name).next().is_none()).collect()
    }

    /// Reports contradictions in the section and its blocks.
    pub(super) fn check(&self, opened: &[Opened], faults: &mut Vec<Diagnostic>) {
        let RecursiveConfig { resolver, forwards, stubs, access, groups, .. } = *self;
        resolver.caching.check(faults);
        resolver.local.check(faults);
        resolver.private.check(faults);
        resolver.synthesis.check(faults);
        resolver.iterating.check(opened, faults);
        resolver.encrypting.check(faults);
        // The rule of a group is an exception for the group.
        let of_all = forwards.iter().filter(|rule| rule.groups.is_none()).map(|rule| &rule.domain);
        let stubs_of_all = stubs.iter().filter(|rule| rule.groups.is_none()).map(|rule| &rule.domain);
        resolver.iterating.check_refused(of_all.chain(stubs_of_all), faults);
        resolver.root_copy.check(&resolver.iterating, self.iterates(), faults);
        resolver.validating.check(faults);
        resolver.reporting.check(faults);
        resolver.times.check(faults);
        resolver.asking.check(faults);
        asking::check(forwards, stubs, (&groups.names(), &self.schedules), opened, faults);
        access::check(access, faults);
        // A block that could not be read is missing here, and its fault is already reported.
        if !*resolver.iterating.iterate && forwards.is_empty() && stubs.is_empty() && faults.is_empty() {
            let block = access.first().and_then(|block| block.place.as_ref());
            let fault =
                Diagnostic::at(resolver.place.as_ref().or(block), "[resolver] has no server to query");
            faults.push(fault.hint("add a [[resolver.forward]] with `servers`, or drop `iterate = false`"));
        }
    }
}

/// Returns a warning for each rule whose domain is a zone served here.
pub(super) fn shadowed<'z>(
    forwards: &[At<Forward>],
    stubs: &[At<Stub>],
    zones: impl Iterator<Item = Name<'z>>,
) -> Vec<Diagnostic> {
    let domains = forwards.iter().map(|rule| &rule.domain).chain(stubs.iter().map(|rule| &rule.domain));
    let domains: HashMap<NameBuf, &At<NameBuf>> = domains.map(|domain| (domain.value, domain)).collect();
    let served = zones.filter_map(|zone| domains.get(&zone.to_buf()));
    let shadowed = |domain: &&At<NameBuf>| {
        let message = format!(
            "{} is a zone served here, and answered from it: the rule is only for names that the zone \
            delegates",
            domain.value
        );
        Diagnostic::at(domain.place.as_ref(), message)
    };
    served.map(shadowed).collect()
}

/// Rules for domains inside zones served here.
#[derive(Debug, Default)]
pub struct InnerRules {
    /// The domains, by their closest zone.
    by_zone: HashMap<NameBuf, Vec<At<NameBuf>>>,
}

impl InnerRules {
    /// Returns the rules whose domains are inside these zones.
    pub(super) fn of<'z>(
        forwards: &[At<Forward>],
        stubs: &[At<Stub>],
        zones: impl Iterator<Item = Name<'z>>,
    ) -> Self {
        let domains = forwards.iter().map(|rule| &rule.domain).chain(stubs.iter().map(|rule| &rule.domain));
        let domains: Vec<&At<NameBuf>> = domains.collect();
        let above: HashSet<NameBuf> = domains.iter().flat_map(|domain| ancestors(domain.value)).collect();
        // There may be many zones: only those with a rule inside are stored.
        let served: HashSet<NameBuf> =
            zones.map(|zone| zone.to_buf()).filter(|zone| above.contains(zone)).collect();
        let mut by_zone: HashMap<NameBuf, Vec<At<NameBuf>>> = HashMap::new();
        for domain in domains {
            let is_served = served.contains(&domain.value);
            let closest = ancestors(domain.value).find(|zone| served.contains(zone)).filter(|_| !is_served);
            closest.into_iter().for_each(|zone| by_zone.entry(zone).or_default().push(domain.clone()));
        }
        InnerRules { by_zone }
    }

    /// Returns the zones with rules inside.
    pub fn zones(&self) -> impl Iterator<Item = Name<'_>> {
        self.by_zone.keys().map(NameBuf::as_name)
    }

    /// Returns a warning for each rule that never applies: its zone delegates no name that it covers.
    pub fn idle(&self, zone: &Zone) -> Vec<Diagnostic> {
        let apex = zone.apex().as_name();
        let Some(domains) = self.by_zone.get(&apex.to_buf()) else { return Vec::new() };
        let cuts = zone.iter().filter(|node| node.flags().contains(NodeFlags::CUT));
        let cuts: Vec<NameBuf> = cuts.map(|node| node.owner().as_name().to_buf()).collect();
        let is_delegated = |domain: Name<'_>| {
            cuts.iter()
                .any(|cut| domain.is_at_or_below(cut.as_name()) || cut.as_name().is_at_or_below(domain))
        };
        let idle = domains.iter().filter(|domain| !is_delegated(domain.value.as_name()));
        let warning = |domain: &At<NameBuf>| {
            let message = format!(
                "{} is in the zone {apex}, which is served here and has no delegation for it: the rule \
                never applies",
                domain.value
            );
            let hint = "delegate the domain by NS records in the zone, or remove the rule";
            Diagnostic::at(domain.place.as_ref(), message).hint(hint)
        };
        idle.map(warning).collect()
    }
}

/// Returns the ancestors of a name, the closest first.
fn ancestors(name: NameBuf) -> impl Iterator<Item = NameBuf> {
    let parent = |name: &NameBuf| name.as_name().parent().map(|parent| parent.to_buf());
    std::iter::successors(parent(&name), parent)
}

/// Returns warnings about allowed but probably unintended access; `reached_by`: how other machines reach the
/// server.
pub(super) fn access_warnings(blocks: &[At<AccessBlock>], reached_by: &str) -> Vec<Diagnostic> {
    access::warnings(blocks, reached_by)
}

#[cfg(test)]
mod tests;
