//! The rules, ready to be looked up.

use std::collections::HashMap;

use wire::{LowerNameBuf, NameBuf, Type};

use crate::config::{ForwardConfig, Upstream};
use crate::inquiry::Inquiry;

/// A rule, its servers by their place among all.
pub(crate) struct Rule {
    pub(crate) domain: NameBuf,
    pub(crate) recursion_desired: bool,
    pub(crate) servers: Vec<usize>,
}

/// All rules, by number.
pub(crate) struct Rules {
    all: Vec<Rule>,
    domains: HashMap<LowerNameBuf, usize>,
    /// Bit `n` is set if a domain has `n` labels: only ancestors of a name that have as many are looked up.
    depths: u128,
}

impl Rules {
    /// The rules of a configuration, and the servers that they name, each once.
    pub(crate) fn of(config: &ForwardConfig) -> (Self, Vec<Upstream>) {
        let mut upstreams: Vec<Upstream> = Vec::new();
        let mut rules = Rules { all: Vec::new(), domains: HashMap::new(), depths: 0 };
        for (number, rule) in config.rules.iter().enumerate() {
            let mut servers = Vec::new();
            for upstream in &rule.upstreams {
                let place = upstreams.iter().position(|known| known == upstream).unwrap_or(upstreams.len());
                if place == upstreams.len() {
                    upstreams.push(*upstream);
                }
                if !servers.contains(&place) {
                    servers.push(place);
                }
            }
            rules.domains.insert(rule.domain.as_name().to_lower(), number);
            rules.depths |= 1 << rule.domain.as_name().label_count();
            let (domain, recursion_desired) = (rule.domain, rule.recursion_desired);
            rules.all.push(Rule { domain, recursion_desired, servers });
        }
        (rules, upstreams)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// One, by its number.
    pub(crate) fn get(&self, number: usize) -> Option<&Rule> {
        self.all.get(number)
    }

    /// The number of the rule that covers a question, if that has servers. DS stands in the parent's zone: at the domain
    /// of a rule it is another's (RFC 4035 §3.1.4.1).
    pub(crate) fn covering(&self, inquiry: &Inquiry) -> Option<usize> {
        let lower = inquiry.name.as_lower();
        let from = if inquiry.qtype == Type::DS { lower.parent().unwrap_or(lower) } else { lower };
        let mut labels = from.label_count();
        for name in std::iter::successors(Some(from), |name| name.parent()) {
            if self.depths >> labels & 1 == 1
                && let Some(&rule) = self.domains.get(&name.to_buf())
            {
                return Some(rule)
                    .filter(|&rule| self.get(rule).is_some_and(|rule| !rule.servers.is_empty()));
            }
            labels = labels.saturating_sub(1);
        }
        None
    }
}
