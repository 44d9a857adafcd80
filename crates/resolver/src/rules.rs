//! The rules, compiled.

use std::collections::HashMap;
use std::sync::Arc;

use wire::{Class, LowerName, LowerNameBuf, NameBuf, Type};

use crate::config::{ForwardConfig, IterateRule, Upstream};
use crate::copy::LocalCopy;
use crate::delegations::Cut;
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::servers::{ServerId, Servers};

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

/// All rules, by number.
pub(crate) struct Rules {
    all: Vec<Rule>,
    domains: HashMap<LowerNameBuf, usize>,
    /// Bit `n` is set if a domain has `n` labels: only ancestors of that length are looked up.
    depths: u128,
}

impl Rules {
    /// Compiles a configuration's rules. `servers` then has the servers that they name, and none that only
    /// earlier rules named. Also returns the named servers, each once.
    pub(crate) fn of(
        config: &ForwardConfig,
        servers: &mut Servers,
        random: &mut impl Random,
    ) -> (Self, Vec<Upstream>) {
        let mut upstreams: Vec<Upstream> = Vec::new();
        for upstream in config.rules.iter().flat_map(|rule| &rule.upstreams) {
            if !upstreams.contains(upstream) {
                upstreams.push(*upstream);
            }
        }
        servers.name(&upstreams, random);
        let mut rules = Rules { all: Vec::new(), domains: HashMap::new(), depths: 0 };
        for rule in &config.rules {
            let mut named = Vec::new();
            for id in rule.upstreams.iter().filter_map(|upstream| servers.id_of(upstream)) {
                if !named.contains(&id) {
                    named.push(id);
                }
            }
            let instead = rule.instead.as_ref().map(|instead| rules.hide(instead));
            let way = Way::Forward { recursion_desired: rule.recursion_desired, servers: named, instead };
            rules.add(Rule { domain: rule.domain, way });
        }
        for rule in &config.iterate.rules {
            rules.add(Rule::iterated(rule));
        }
        for domain in &config.refused {
            rules.add(Rule { domain: *domain, way: Way::Refuse });
        }
        (rules, upstreams)
    }

    /// Adds a rule that covers no names itself. Returns its number.
    fn hide(&mut self, rule: &IterateRule) -> usize {
        self.all.push(Rule::iterated(rule));
        self.all.len() - 1
    }

    fn add(&mut self, rule: Rule) {
        self.domains.insert(rule.domain.as_name().to_lower(), self.all.len());
        self.depths |= 1 << rule.domain.as_name().label_count();
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

    /// Whether a rule with exactly this domain refuses it.
    fn refuses(&self, domain: LowerName<'_>) -> bool {
        let rule = self.domains.get(&domain.to_buf()).and_then(|rule| self.get(*rule));
        rule.is_some_and(|rule| matches!(rule.way, Way::Refuse))
    }

    /// Returns the number of the rule that covers a query, if that rule has servers. DS belongs to the
    /// parent's zone, so at a rule's own domain the rule above counts (RFC 4035 §3.1.4.1). For a refused
    /// domain DS is refused, too.
    pub(crate) fn covering(&self, query_key: &QueryKey) -> Option<usize> {
        let lower = query_key.name.as_lower();
        let of_parent = query_key.qtype == Type::DS && !self.refuses(lower);
        let from = if of_parent { lower.parent().unwrap_or(lower) } else { lower };
        let mut labels = from.label_count();
        for name in std::iter::successors(Some(from), |name| name.parent()) {
            if self.depths >> labels & 1 == 1
                && let Some(&rule) = self.domains.get(&name.to_buf())
            {
                return Some(rule).filter(|&rule| {
                    self.get(rule).is_some_and(|rule| rule.leads_anywhere(query_key.qclass))
                });
            }
            labels = labels.saturating_sub(1);
        }
        None
    }
}
