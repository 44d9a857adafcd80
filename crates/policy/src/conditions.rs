//! Conditions of list rules: types of queries, addresses of clients, names that a rule leaves out.
//!
//! A rule has the number of its condition. Equal conditions are stored once, and a rule without a condition
//! costs nothing.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::hash::HashedName;
use wire::{LowerName, Prefix, Type};

/// What rules may depend on.
#[derive(Clone, Copy)]
pub struct PolicyQuery<'q> {
    /// The query name, or the target of an alias.
    pub name: &'q HashedName,
    /// The query type; CNAME for the target of an alias.
    pub qtype: Type,
    /// The client's address, if it is known. Rules for certain clients do not apply without it.
    pub client: Option<IpAddr>,
    /// What rules know of the client's group, if it is in one.
    pub group: Option<&'q GroupFacts>,
}

/// What rules know of a group of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Its name, for `$client`.
    pub name: String,
    /// Its tags, for `$ctag`.
    pub tags: Vec<String>,
}

/// A value of `$client`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ClientValue {
    /// A canonical prefix.
    Prefix(Prefix),
    /// The name of a group.
    Name(Box<str>),
}

/// Number of a condition of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConditionId(u32);

impl ConditionId {
    /// No condition.
    pub const NONE: ConditionId = ConditionId(0);
}

/// The values of one modifier: those that it names, and those that it excludes with `~`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Choice<T> {
    pub(crate) named: Vec<T>,
    pub(crate) excluded: Vec<T>,
}

impl<T> Default for Choice<T> {
    fn default() -> Self {
        Choice { named: Vec::new(), excluded: Vec::new() }
    }
}

impl<T: Ord> Choice<T> {
    /// Whether every value is chosen.
    fn is_any(&self) -> bool {
        self.named.is_empty() && self.excluded.is_empty()
    }

    fn sort(&mut self) {
        for values in [&mut self.named, &mut self.excluded] {
            values.sort_unstable();
            values.dedup();
        }
    }

    /// Whether a value is chosen that `is` recognizes: none of the excluded ones, and one of those that are
    /// named, if any is.
    fn holds(&self, is: impl Fn(&T) -> bool) -> bool {
        !self.excluded.iter().any(&is) && (self.named.is_empty() || self.named.iter().any(&is))
    }
}

/// What must be true of a query for a rule to apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Condition {
    /// `$dnstype`.
    pub(crate) types: Choice<Type>,
    /// `$client`.
    pub(crate) clients: Choice<ClientValue>,
    /// `$ctag`.
    pub(crate) tags: Choice<Box<str>>,
    /// `$denyallow`: names in wire form. The rule covers neither them nor names below.
    pub(crate) left_out: Vec<Box<[u8]>>,
}

impl Condition {
    /// Returns the condition in the one form that all equal conditions have.
    pub(crate) fn normal(mut self) -> Self {
        // AdGuard: with a type that is named, those that are excluded do not count.
        if !self.types.named.is_empty() {
            self.types.excluded.clear();
        }
        self.types.sort();
        self.clients.sort();
        self.tags.sort();
        self.left_out.sort_unstable();
        self.left_out.dedup();
        self
    }

    /// Whether it is true of a query.
    pub(crate) fn holds(&self, query: &PolicyQuery<'_>) -> bool {
        let Condition { types, clients, tags, left_out } = self;
        let is_client = |value: &ClientValue| match value {
            ClientValue::Prefix(prefix) => {
                query.client.is_some_and(|client| prefix.contains(client.to_canonical()))
            }
            ClientValue::Name(name) => query.group.is_some_and(|group| *group.name == **name),
        };
        types.holds(|rtype| *rtype == query.qtype)
            && clients.holds(is_client)
            && tags.holds(|tag| query.group.is_some_and(|group| group.tags.iter().any(|own| **own == **tag)))
            && !left_out.iter().any(|name| query.name.as_lower().is_at_or_below(LowerName::of_checked(name)))
    }

    fn is_about_clients(&self) -> bool {
        let Condition { clients, tags, .. } = self;
        !(clients.is_any() && tags.is_any())
    }
}

/// Conditions, each stored once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    /// That of number 1 is the first.
    all: Vec<Condition>,
    numbers: HashMap<Condition, ConditionId>,
}

impl Conditions {
    /// Whether a condition is true of a query.
    #[inline]
    pub(crate) fn hold(&self, of: ConditionId, query: &PolicyQuery<'_>) -> bool {
        of == ConditionId::NONE || self.get(of).is_some_and(|condition| condition.holds(query))
    }

    fn get(&self, of: ConditionId) -> Option<&Condition> {
        self.all.get((of.0 as usize).checked_sub(1)?)
    }

    /// Returns sealed conditions that can be numbered again. Those here have the same numbers.
    pub(crate) fn reopened(&self) -> Self {
        let numbers = (1..).zip(&self.all).map(|(number, one)| (one.clone(), ConditionId(number)));
        Conditions { all: self.all.clone(), numbers: numbers.collect() }
    }

    /// Whether there is a condition of this number.
    pub(crate) fn has(&self, of: ConditionId) -> bool {
        of == ConditionId::NONE || self.get(of).is_some()
    }

    /// Returns the number of a condition in its normal form.
    pub(crate) fn number(&mut self, condition: &Condition) -> ConditionId {
        if *condition == Condition::default() {
            return ConditionId::NONE;
        }
        if let Some(number) = self.numbers.get(condition) {
            return *number;
        }
        self.all.push(condition.clone());
        // A condition takes more bytes than its number counts: memory ends before the numbers do.
        let number = ConditionId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.numbers.insert(condition.clone(), number);
        number
    }

    /// Returns the number here of a condition of other rules.
    pub(crate) fn take_over(&mut self, from: &Conditions, of: ConditionId) -> ConditionId {
        from.get(of).map_or(ConditionId::NONE, |condition| self.number(condition))
    }

    /// Whether any condition is about clients.
    pub(crate) fn are_about_clients(&self) -> bool {
        self.all.iter().any(Condition::is_about_clients)
    }

    /// Drops what only building needs.
    pub(crate) fn seal(&mut self) {
        self.numbers = HashMap::new();
        self.all.shrink_to_fit();
    }
}
