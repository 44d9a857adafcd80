//! The rules, compiled.

use std::collections::HashMap;
use std::sync::Arc;

use wire::{Class, LowerName, LowerNameBuf, Name, NameBuf, Type};

use crate::config::{ForwardConfig, ForwardRule, IterateRule, Upstream};
use crate::copy::LocalCopy;
use crate::delegations::Cut;
use crate::query_key::{Partition, QueryKey};
use crate::random::Random;
use crate::server_id::ServerId;
use crate::servers::Servers;

/// A rule.
pub(crate) struct Rule {
    pub(crate) domain: NameBuf,
    pub(crate) way: Way,
}

/// How the names of a rule are resolved.
pub(crate) enum Way {
    /// By queries to these servers.
    Forward {
        /// Whether queries have RD.
        recursion_desired: bool,
        /// The servers.
        servers: Vec<ServerId>,
        /// The rule for iteration when these servers have no answer.
        instead: Option<usize>,
    },
    /// By iteration.
    Iterate {
        /// The zone to start from, if no cut below is cached.
        start: Arc<Cut>,
        /// Whether the start zone is primed.
        prime: bool,
        /// A local copy of the zone, used instead of its servers.
        copy: Option<LocalCopy>,
    },
    /// Not at all.
    Refuse,
}

impl Rule {
    fn iterated(rule: &IterateRule) -> Self {
        let start = Arc::new(Cut::start(rule.domain.as_name().to_lower(), &rule.servers));
        let way = Way::Iterate { start, prime: rule.prime, copy: rule.copy.clone() };
        Rule { domain: rule.domain, way }
    }

    /// Whether names are resolved by iteration, at first or when servers have no answer.
    pub(crate) fn may_walk(&self) -> bool {
        self.walks() || matches!(self.way, Way::Forward { instead: Some(_), .. })
    }

    /// Whether names are resolved by iteration.
    pub(crate) fn walks(&self) -> bool {
        matches!(self.way, Way::Iterate { .. })
    }

    /// Returns the zone to start from, with iteration.
    pub(crate) fn start(&self) -> Option<&Arc<Cut>> {
        match &self.way {
            Way::Iterate { start, .. } => Some(start),
            Way::Forward { .. } | Way::Refuse => None,
        }
    }

    /// Whether it has servers. Delegations are of class IN.
    fn leads_anywhere(&self, qclass: Class) -> bool {
        match &self.way {
            Way::Forward { servers, .. } => !servers.is_empty(),
            Way::Iterate { start, .. } => qclass == Class::IN && !start.servers.is_empty(),
            Way::Refuse => false,
        }
    }
}

/// The numbers of rules, by domain.
#[derive(Default)]
struct ByDomain {
    domains: HashMap<LowerNameBuf, usize>,
    /// Bit `n` is set if a domain has `n` labels: only ancestors of that length are looked up.
    depths: u128,
}

impl ByDomain {
    fn add(&mut self, domain: Name<'_>, number: usize) {
        self.domains.insert(domain.to_lower(), number);
        self.depths |= 1 << domain.label_count();
    }

    /// Returns the rule for exactly this domain, which has this many labels.
    fn at(&self, domain: LowerName<'_>, labels: usize) -> Option<usize> {
        (self.depths >> labels & 1 == 1).then(|| self.domains.get(&domain.to_buf()).copied()).flatten()
    }
}

/// All rules, by number.
pub(crate) struct Rules {
    all: Vec<Rule>,
    /// The rules for all lookups.
    shared: ByDomain,
    /// The rules of partitions.
    own: HashMap<Partition, ByDomain>,
}

impl Rules {
    /// Compiles a configuration's rules. `servers` then has the servers that they name, and none that only
    /// earlier rules named. Also returns the servers that the configuration names, each once. `retired` are
    /// rules of partitions that have gone, for lookups that began before.
    pub(crate) fn of(
        config: &ForwardConfig,
        retired: &[ForwardRule],
        servers: &mut Servers,
        random: &mut impl Random,
    ) -> (Self, Vec<Upstream>) {
        let upstreams = upstreams(&config.rules);
        let of_retired = self::upstreams(retired);
        let others = of_retired.iter().filter(|upstream| !upstreams.contains(upstream));
        servers.name(&upstreams.iter().chain(others).cloned().collect::<Vec<_>>(), random);
        let mut rules = Rules { all: Vec::new(), shared: ByDomain::default(), own: HashMap::new() };
        for rule in config.rules.iter().chain(retired) {
            let mut named = Vec::new();
            for id in rule.upstreams.iter().filter_map(|upstream| servers.id_of(upstream)) {
                if !named.contains(&id) {
                    named.push(id);
                }
            }
            let instead = rule.instead.as_ref().map(|instead| rules.hide(instead));
            let way = Way::Forward { recursion_desired: rule.recursion_desired, servers: named, instead };
            rules.add(Rule { domain: rule.domain, way }, rule.partition);
        }
        for rule in &config.iterate.rules {
            rules.add(Rule::iterated(rule), Partition::SHARED);
        }
        for domain in &config.refused {
            rules.add(Rule { domain: *domain, way: Way::Refuse }, Partition::SHARED);
        }
        (rules, upstreams)
    }

    /// Adds a rule that covers no names itself. Returns its number.
    fn hide(&mut self, rule: &IterateRule) -> usize {
        self.all.push(Rule::iterated(rule));
        self.all.len() - 1
    }

    fn add(&mut self, rule: Rule, partition: Partition) {
        let by_domain = match partition.is_shared() {
            true => &mut self.shared,
            false => self.own.entry(partition).or_default(),
        };
        by_domain.add(rule.domain.as_name(), self.all.len());
        self.all.push(rule);
    }

    /// Returns the number of rules.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether queries by a rule have RD.
    pub(crate) fn recurse(&self, number: usize) -> bool {
        let way = self.get(number).map(|rule| &rule.way);
        matches!(way, Some(Way::Forward { recursion_desired: true, .. }))
    }

    /// Returns a rule by its number.
    pub(crate) fn get(&self, number: usize) -> Option<&Rule> {
        self.all.get(number)
    }

    /// Returns the number of the rule that covers a query, if that rule has servers. DS belongs to the
    /// parent's zone, so at a rule's own domain the rule above counts (RFC 4035 §3.1.4.1). For a refused
    /// domain DS is refused, too. Without rules of its own, a partition has no rule at all: it has gone.
    pub(crate) fn covering(&self, query_key: &QueryKey) -> Option<usize> {
        let own = match query_key.partition.is_shared() {
            true => None,
            false => Some(self.own.get(&query_key.partition)?),
        };
        let (rule, _) = self.closest(own, query_key.name.as_lower(), query_key.qtype)?;
        self.get(rule).is_some_and(|rule| rule.leads_anywhere(query_key.qclass)).then_some(rule)
    }

    /// Returns the rule with the longest domain that covers a name, of those for all and those of a
    /// partition, and whether it is of the partition.
    fn closest(&self, own: Option<&ByDomain>, name: LowerName<'_>, qtype: Type) -> Option<(usize, bool)> {
        let at = |name, labels| {
            let of_own = own.and_then(|own| own.at(name, labels)).map(|rule| (rule, true));
            of_own.or_else(|| self.shared.at(name, labels).map(|rule| (rule, false)))
        };
        let is_refusal = |rule: usize| self.get(rule).is_some_and(|rule| matches!(rule.way, Way::Refuse));
        let refuses = || at(name, name.label_count()).is_some_and(|(rule, _)| is_refusal(rule));
        let of_parent = qtype == Type::DS && !refuses();
        let from = if of_parent { name.parent().unwrap_or(name) } else { name };
        let labels = (0..=from.label_count()).rev();
        let names = std::iter::successors(Some(from), |name| name.parent());
        names.zip(labels).find_map(|(name, labels)| at(name, labels))
    }

    /// Whether the rules of a partition cut the chain of aliases from a query to a name. The answer to a
    /// query without a partition is for clients of all partitions that have no own rule for the query name;
    /// it must not say anything about a name for which one of these has.
    pub(crate) fn cut(&self, query_key: &QueryKey, target: LowerName<'_>) -> bool {
        let QueryKey { name, qtype, partition, .. } = query_key;
        let is_of = |own, name| self.closest(Some(own), name, *qtype).is_some_and(|(_, is_own)| is_own);
        let parts = |own| is_of(own, target) && !is_of(own, name.as_lower());
        partition.is_shared() && self.own.values().any(parts)
    }

    /// Whether there are rules of partitions.
    pub(crate) fn has_partitions(&self) -> bool {
        !self.own.is_empty()
    }
}

/// Returns the servers of rules, each once.
fn upstreams(rules: &[ForwardRule]) -> Vec<Upstream> {
    let mut upstreams: Vec<Upstream> = Vec::new();
    for upstream in rules.iter().flat_map(|rule| &rule.upstreams) {
        if !upstreams.contains(upstream) {
            upstreams.push(upstream.clone());
        }
    }
    upstreams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::ChaCha;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn query_key(qname: &str, qtype: Type, partition: u32) -> QueryKey {
        QueryKey {
            name: name(qname).as_name().to_lower(),
            qtype,
            qclass: Class::IN,
            dnssec_ok: false,
            checking_disabled: false,
            partition: Partition::numbered(partition),
        }
    }

    /// Rules of these partitions for these domains, with one server each; `lab.corp.example.` is refused.
    fn rules(of: &[(u32, &str)]) -> Rules {
        let rule = |(partition, domain): &(u32, &str)| ForwardRule {
            partition: Partition::numbered(*partition),
            ..ForwardRule::new(name(domain), vec![Upstream::new(([192, 0, 2, 1], 53).into())])
        };
        let refused = vec![name("lab.corp.example.")];
        let config =
            ForwardConfig { rules: of.iter().map(rule).collect(), refused, ..ForwardConfig::default() };
        Rules::of(&config, &[], &mut Servers::default(), &mut ChaCha::new([1; 32])).0
    }

    const ALL: &[(u32, &str)] = &[(0, "."), (0, "corp.example."), (1, "corp.example."), (2, "example.")];

    #[test]
    fn the_longest_domain_counts_and_then_the_partition() {
        let rules = rules(ALL);
        let of = |qname: &str, partition| rules.covering(&query_key(qname, Type::A, partition));
        assert_eq!(
            ["www.test.", "www.example.", "a.corp.example."].map(|name| of(name, 0)),
            [Some(0), Some(0), Some(1)]
        );
        assert_eq!(
            ["www.test.", "www.example.", "a.corp.example."].map(|name| of(name, 1)),
            [Some(0), Some(0), Some(2)]
        );
        assert_eq!(
            ["www.test.", "www.example.", "a.corp.example."].map(|name| of(name, 2)),
            [Some(0), Some(3), Some(1)]
        );
        assert_eq!(of("www.test.", 9), None, "a partition that has gone has no rule");
        assert_eq!([0, 1, 2].map(|partition| of("x.lab.corp.example.", partition)), [None; 3], "refused");
        assert_eq!(rules.covering(&query_key("corp.example.", Type::DS, 1)), Some(0), "DS is the parent's");
    }

    #[test]
    fn a_chain_is_cut_before_names_that_a_partition_has_a_rule_for() {
        let rules = rules(ALL);
        let cut = |qname: &str, target: &str, partition| {
            let target = name(target).as_name().to_lower();
            rules.cut(&query_key(qname, Type::A, partition), target.as_lower())
        };
        assert!(cut("www.test.", "a.corp.example.", 0));
        assert!(cut("www.test.", "www.example.", 0));
        assert!(cut("www.example.", "a.corp.example.", 0), "partition 2 has a rule for both, 1 has not");
        assert!(!cut("a.corp.example.", "b.corp.example.", 0));
        assert!(!cut("a.corp.example.", "www.test.", 0));
        assert!(!cut("a.corp.example.", "b.corp.example.", 1), "its answers are its own");
        assert!(!self::rules(&[(0, ".")]).has_partitions());
    }
}
