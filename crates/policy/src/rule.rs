//! A rule: its source, the names that it covers, its effect. Sets of rules, each stored once.

use std::collections::HashMap;

use crate::conditions::ConditionId;
use crate::local_data::{DataId, Rewriting};

/// Most faults that the report about a source shows.
pub const MAX_FAULTS: usize = 10;

/// Number of a source, in the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u8);

/// A set of sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceMask([u64; 4]);

impl SourceMask {
    /// All sources.
    pub const ALL: SourceMask = SourceMask([u64::MAX; 4]);

    /// Returns the set with one more source.
    #[must_use]
    pub fn with(mut self, source: SourceId) -> Self {
        if let Some(word) = self.0.get_mut(usize::from(source.0 / 64)) {
            *word |= 1 << (source.0 % 64);
        }
        self
    }

    /// Whether there is a source in both sets that comes before this one.
    #[inline]
    pub fn has_before(&self, source: SourceId, other: &SourceMask) -> bool {
        let (word, bit) = (usize::from(source.0 / 64), source.0 % 64);
        self.0.iter().zip(&other.0).enumerate().any(|(at, (a, b))| {
            let before = match at.cmp(&word) {
                std::cmp::Ordering::Less => u64::MAX,
                std::cmp::Ordering::Equal => (1 << bit) - 1,
                std::cmp::Ordering::Greater => 0,
            };
            a & b & before != 0
        })
    }

    /// Returns the sources in both sets.
    #[must_use]
    pub fn and(&self, other: &SourceMask) -> Self {
        let mut both = self.0;
        both.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
        SourceMask(both)
    }

    /// Whether there is a source in both sets.
    #[inline]
    pub fn meets(&self, other: &SourceMask) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Whether a source is in the set.
    #[inline]
    pub fn contains(&self, source: SourceId) -> bool {
        self.0.get(usize::from(source.0 / 64)).is_some_and(|word| word >> (source.0 % 64) & 1 == 1)
    }
}

/// The names that a rule for one name covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleReach {
    /// The name alone.
    Name,
    /// All names below, without the name itself.
    Below,
    /// The name and all names below.
    NameAndBelow,
    /// The names that a pattern of a list matches.
    Pattern,
}

impl RuleReach {
    /// Whether a rule for the suffix of a query name covers that name. `skip` is the number of labels that
    /// the query name has before the suffix.
    #[inline]
    pub fn covers(self, skip: usize) -> bool {
        match self {
            RuleReach::Name => skip == 0,
            RuleReach::Below => skip > 0,
            RuleReach::NameAndBelow | RuleReach::Pattern => true,
        }
    }
}

/// What a response policy zone orders (draft, §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RpzAction {
    /// The name does not exist: CNAME to the root.
    NxDomain,
    /// The name has no records of this type: CNAME to `*.`.
    NoData,
    /// The answer is not changed: CNAME to `rpz-passthru.`.
    Passthru,
    /// There is no reply: CNAME to `rpz-drop.`.
    Drop,
    /// The reply over UDP is truncated: CNAME to `rpz-tcp-only.`.
    TcpOnly,
    /// These records are the answer.
    LocalData(DataId),
}

/// The effect of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleEffect {
    /// That of a response policy zone.
    Rpz(RpzAction),
    /// A list blocks the name.
    Block {
        /// Exceptions do not count, unless they are important too.
        important: bool,
    },
    /// A list exempts the name from all lists.
    Allow {
        /// Blocks do not count even if they are important.
        important: bool,
    },
    /// A list answers with this (`$dnsrewrite`).
    Rewrite {
        /// The answer.
        to: Rewriting,
        /// Exceptions do not count, unless they are important too.
        important: bool,
    },
    /// A list exempts the name from rules that answer with this, or from all such rules.
    KeepAnswer {
        /// The answer; `None` for all.
        of: Option<Rewriting>,
        /// Important rules do not count either.
        important: bool,
    },
    /// A list disables the blocks or exceptions of all lists that are equal otherwise (`$badfilter`).
    Disable {
        /// It disables exceptions.
        exempts: bool,
        /// It disables important rules.
        important: bool,
    },
}

impl RuleEffect {
    /// Returns the effect of a rule that disables rules with this effect.
    fn disabled_by(self) -> Option<RuleEffect> {
        match self {
            RuleEffect::Block { important } => Some(RuleEffect::Disable { exempts: false, important }),
            RuleEffect::Allow { important } => Some(RuleEffect::Disable { exempts: true, important }),
            RuleEffect::Rpz(_)
            | RuleEffect::Disable { .. }
            | RuleEffect::Rewrite { .. }
            | RuleEffect::KeepAnswer { .. } => None,
        }
    }
}

/// A rule, without the name or prefix that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule {
    /// Its source.
    pub source: SourceId,
    /// The names that it covers; [`RuleReach::Name`] for rules about addresses.
    pub reach: RuleReach,
    /// Its effect.
    pub effect: RuleEffect,
    /// Of a rule about addresses, the length of its prefix in bits; IPv4 prefixes count as those of
    /// IPv4-mapped IPv6 addresses, so that lengths compare. 0 for rules about names.
    pub prefix_len: u8,
    /// What must be true of a query for it to apply.
    pub condition: ConditionId,
}

impl Rule {
    /// Whether one of `rules`, which are about the same name, is of these sources and disables it.
    #[inline]
    pub(crate) fn is_disabled(&self, rules: &[Rule], sources: &SourceMask) -> bool {
        let by = self.effect.disabled_by();
        rules.iter().any(|rule| {
            Some(rule.effect) == by
                && (rule.reach, rule.condition) == (self.reach, self.condition)
                && sources.contains(rule.source)
        })
    }
}

/// Number of a set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SetId(pub(crate) u32);

/// Sets of rules; equal ones are stored once. A list of a million names has a handful of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSets {
    sets: Vec<Box<[Rule]>>,
    numbers: HashMap<Box<[Rule]>, SetId>,
    unions: HashMap<(SetId, SetId), SetId>,
}

impl RuleSets {
    /// Returns the rules of a set, in order of their sources.
    #[inline]
    pub(crate) fn rules(&self, set: SetId) -> &[Rule] {
        self.sets.get(set.0 as usize).map_or(&[], |rules| rules)
    }

    /// Returns the set that consists of one rule.
    pub(crate) fn single(&mut self, rule: Rule) -> SetId {
        self.number(&[rule])
    }

    /// Returns the set of the rules of both sets.
    pub(crate) fn union(&mut self, a: SetId, b: SetId) -> SetId {
        if a == b {
            return a;
        }
        if let Some(union) = self.unions.get(&(a, b)) {
            return *union;
        }
        let mut rules = [self.rules(a), self.rules(b)].concat();
        rules.sort_unstable();
        rules.dedup();
        let union = self.number(&rules);
        self.unions.insert((a, b), union);
        union
    }

    /// Returns the number of a set, whose rules are sorted.
    pub(crate) fn number(&mut self, rules: &[Rule]) -> SetId {
        if let Some(number) = self.numbers.get(rules) {
            return *number;
        }
        // A set takes more bytes than its number counts: memory ends before the numbers do.
        let number = SetId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(rules.into());
        self.numbers.insert(rules.into(), number);
        number
    }

    /// All sets, in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &[Rule]> {
        self.sets.iter().map(|rules| &**rules)
    }

    /// Whether any rule has an effect.
    pub(crate) fn any(&self, has: impl Fn(&RuleEffect) -> bool) -> bool {
        self.sets.iter().flatten().any(|rule| has(&rule.effect))
    }

    /// Drops what only building needs.
    pub(crate) fn seal(&mut self) {
        (self.numbers, self.unions) = Default::default();
        self.sets.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(source: u8) -> Rule {
        let effect = RuleEffect::Block { important: false };
        let condition = ConditionId::NONE;
        Rule { source: SourceId(source), reach: RuleReach::Name, effect, prefix_len: 0, condition }
    }

    #[test]
    fn equal_sets_have_one_number() {
        let mut sets = RuleSets::default();
        let [a, b, c] = [3, 1, 2].map(|source| sets.single(rule(source)));
        let ab = sets.union(a, b);
        assert_eq!(sets.rules(ab), [rule(1), rule(3)]);
        assert_eq!(sets.union(b, a), ab);
        let abc = sets.union(ab, c);
        let (bc, ca) = (sets.union(b, c), sets.union(c, a));
        assert_eq!(sets.union(bc, ca), abc);
        assert_eq!(sets.rules(abc), [rule(1), rule(2), rule(3)]);
        assert_eq!((sets.single(rule(3)), sets.union(a, a)), (a, a));
    }

    #[test]
    fn a_mask_has_the_sources_that_were_added() {
        let added = [0, 63, 64, 200, 255].map(SourceId);
        let mask = added.into_iter().fold(SourceMask::default(), SourceMask::with);
        for source in 0..=255 {
            assert_eq!(mask.contains(SourceId(source)), added.contains(&SourceId(source)), "{source}");
            assert!(SourceMask::ALL.contains(SourceId(source)));
            let before = added.iter().any(|added| added.0 < source);
            assert_eq!(mask.has_before(SourceId(source), &SourceMask::ALL), before, "{source}");
            let one = SourceMask::default().with(SourceId(source));
            assert_eq!(mask.meets(&one), mask.contains(SourceId(source)), "{source}");
        }
    }
}
