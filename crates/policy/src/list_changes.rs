//! Changes of a list: which names have other rules by a new text than by the text before.
//!
//! The text before is not needed. Each name of the new text is looked up among the compiled names; a rule
//! that is there already costs one bit, which notes that the text still has it. What remains are the rules
//! that are new, and at the end those whose bit is not set. So the memory that a comparison takes depends on
//! what has changed, and not on the size of the list.
//!
//! Names are looked up in groups, each in the order of the table: a million lookups in the order of a text
//! wait for memory a million times, which takes longer than to compile all rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::changes::{NeedsBuild, RuleChanges};
use crate::conditions::{Condition, ConditionId, Conditions};
use crate::list::{self, Covered, ListFault, ListFormat, ListReport, ListRule};
use crate::local_data::{LocalDataTable, Rewriting};
use crate::names::{Depths, NamePlace};
use crate::patterns::{Pattern, PatternRoom};
use crate::rule::{Rule, RuleEffect, SetId, SourceId};
use crate::rules::Base;

impl RuleChanges<'_> {
    /// Replaces the rules of a list by those of a text. The text is compared with the rules in force, so the
    /// work depends on its size, and not on that of other lists. Without a change in it, nothing changes.
    ///
    /// The inner error is that the text is no list: its rules stay as they are.
    ///
    /// # Errors
    /// The change cannot be made. These changes are of no use any more.
    pub fn list(
        &mut self,
        source: SourceId,
        format: ListFormat,
        text: &[u8],
        exempts: bool,
    ) -> Result<Result<ListReport, ListFault>, NeedsBuild> {
        let from = self.from;
        let base = &*from.base;
        if base.exempting.contains(source) != exempts {
            return Err(NeedsBuild::OtherKinds);
        }
        let mut comparison = Comparison::new(base, source, exempts, self.room());
        let mut room = PatternRoom::default();
        let read = list::read(text, format, Some(&mut room), |rule| match comparison.take(&rule) {
            Ok(()) => ControlFlow::Continue(()),
            Err(reason) => {
                comparison.stopped = Some(reason);
                ControlFlow::Break(())
            }
        });
        if let Some(reason) = comparison.stopped {
            return Err(reason);
        }
        let report = match read {
            Ok(report) => report,
            Err(fault) => return Ok(Err(fault)),
        };
        comparison.find_group()?;
        comparison.compare_patterns()?;
        self.take_difference(comparison)?;
        Ok(Ok(report))
    }

    /// Changes the rules of all names that a comparison finds different.
    fn take_difference(&mut self, comparison: Comparison<'_>) -> Result<(), NeedsBuild> {
        let gone = comparison.gone()?;
        if !gone.is_empty() {
            // How many labels these names have is not known.
            self.qnames.depths.include(comparison.base.qnames.depths());
        }
        self.qnames.depths.include(comparison.depths);
        let mut places: BTreeSet<NamePlace> = comparison.added.keys().copied().collect();
        places.extend(gone);
        if let Some(old) = &self.from.overlay {
            places.extend(old.qnames.table.iter().map(|(place, _)| place));
        }
        let source = comparison.source;
        for place in places {
            let new = comparison.rules_at(place);
            let of_base =
                comparison.base.qnames.at(place).map_or(&[][..], |set| comparison.base.sets.rules(set));
            let answers = |rule: &&Rule| {
                matches!(rule.effect, RuleEffect::Rewrite { .. } | RuleEffect::KeepAnswer { .. })
            };
            let before = of_base.iter().filter(|rule| rule.source == source).filter(answers);
            if !before.eq(new.iter().filter(answers)) {
                return Err(NeedsBuild::OtherKinds);
            }
            self.replace_at(false, place, |rule| rule.source == source, new);
        }
        Ok(())
    }
}

/// Names that are looked up together: they fit into the cache of a processor.
const GROUP: usize = 1 << 16;
/// Most rules that differ in more than their names in a group.
const MAX_KINDS: usize = 64;

/// The rules of the list in a set.
enum OwnRules {
    None,
    One(Rule),
    Several(Box<[Rule]>),
}

/// A name of the text, and the number of its rule in `kinds`.
struct GroupName {
    place: NamePlace,
    kind: u32,
    depth: u8,
}

/// A text of a list, compared with the rules of the list in a base.
struct Comparison<'b> {
    base: &'b Base,
    source: SourceId,
    exempts: bool,
    /// Most names that may differ.
    most: usize,
    /// By the number of a set in the base.
    own: Vec<OwnRules>,
    /// Names that are to be looked up.
    group: Vec<GroupName>,
    /// The rules of the group without their names. Most lists have only a few.
    kinds: Vec<Rule>,
    /// One bit for each name of the base: whether the text has the one rule of the list for it.
    seen: Vec<u64>,
    /// By the position of a name for which the list has several rules in the base: those of them in the text.
    several: HashMap<usize, Vec<Rule>>,
    /// The rules that the base does not have.
    added: BTreeMap<NamePlace, Vec<Rule>>,
    /// Numbers of labels of their names.
    depths: Depths,
    patterns: HashMap<Pattern, Vec<Rule>>,
    /// Conditions and answers of the base, once a rule has one.
    conditions: Option<Conditions>,
    data: Option<LocalDataTable>,
    /// Why reading has stopped.
    stopped: Option<NeedsBuild>,
}

impl<'b> Comparison<'b> {
    fn new(base: &'b Base, source: SourceId, exempts: bool, most: usize) -> Self {
        let own = base.sets.all().map(|rules| {
            let own: Vec<Rule> = rules.iter().filter(|rule| rule.source == source).copied().collect();
            match own[..] {
                [] => OwnRules::None,
                [rule] => OwnRules::One(rule),
                _ => OwnRules::Several(own.into()),
            }
        });
        Comparison {
            base,
            source,
            exempts,
            most,
            own: own.collect(),
            group: Vec::new(),
            kinds: Vec::new(),
            seen: vec![0; base.qnames.len().div_ceil(64)],
            several: HashMap::new(),
            added: BTreeMap::new(),
            depths: Depths::default(),
            patterns: HashMap::new(),
            conditions: None,
            data: None,
            stopped: None,
        }
    }

    /// Takes a rule of the text.
    fn take(&mut self, rule: &ListRule<'_>) -> Result<(), NeedsBuild> {
        let condition = self.condition(rule.condition)?;
        let effect = self.effect(rule)?;
        let own = Rule { source: self.source, reach: rule.reach, effect, prefix_len: 0, condition };
        let name = match rule.covered {
            Covered::Name(name) => name,
            Covered::Pattern(pattern) => {
                self.patterns.entry(pattern.clone()).or_default().push(own);
                return Ok(());
            }
        };
        if self.kinds.len() >= MAX_KINDS {
            self.find_group()?;
            self.kinds.clear();
        }
        let kind = self.kind(own);
        self.group.push(GroupName { place: self.base.keys.place(name), kind, depth: Depths::depth_of(name) });
        if self.group.len() < GROUP { Ok(()) } else { self.find_group() }
    }

    /// Returns the number of a rule.
    fn kind(&mut self, rule: Rule) -> u32 {
        // Rules that follow each other are mostly of one kind.
        let at = self.kinds.iter().rposition(|kind| *kind == rule).unwrap_or_else(|| {
            self.kinds.push(rule);
            self.kinds.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Looks up the names of a group.
    fn find_group(&mut self) -> Result<(), NeedsBuild> {
        let mut group = std::mem::take(&mut self.group);
        group.sort_unstable_by_key(|name| name.place);
        for GroupName { place, kind, depth } in &group {
            if let Some(rule) = self.kinds.get(*kind as usize) {
                self.find(*place, *rule, *depth)?;
            }
        }
        group.clear();
        self.group = group;
        Ok(())
    }

    /// Notes a rule of the text as seen or as new.
    fn find(&mut self, place: NamePlace, own: Rule, depth: u8) -> Result<(), NeedsBuild> {
        if let Some((at, set)) = self.base.qnames.found_at(place) {
            match self.own.get(set.0 as usize) {
                Some(OwnRules::One(one)) if *one == own => {
                    if let Some(word) = self.seen.get_mut(at / 64) {
                        *word |= 1 << (at % 64);
                    }
                    return Ok(());
                }
                Some(OwnRules::Several(rules)) if rules.contains(&own) => {
                    self.several.entry(at).or_default().push(own);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.added.entry(place).or_default().push(own);
        self.depths.add_depth(depth);
        if self.added.len() > self.most { Err(NeedsBuild::Outgrown) } else { Ok(()) }
    }

    fn condition(&mut self, condition: &Condition) -> Result<ConditionId, NeedsBuild> {
        if *condition == Condition::default() {
            return Ok(ConditionId::NONE);
        }
        let base = &self.base.conditions;
        let number = self.conditions.get_or_insert_with(|| base.reopened()).number(condition);
        if base.has(number) { Ok(number) } else { Err(NeedsBuild::OtherKinds) }
    }

    fn effect(&mut self, rule: &ListRule<'_>) -> Result<RuleEffect, NeedsBuild> {
        let (base, data) = (&self.base.data, &mut self.data);
        let mut is_known = true;
        let effect = rule.effect_in(self.exempts, |rewrite| {
            let rewriting = rewrite.number(data.get_or_insert_with(|| base.reopened()));
            if let Some(Rewriting::Record(record)) = rewriting {
                is_known = base.get(record).is_some();
            }
            rewriting
        });
        if is_known { Ok(effect) } else { Err(NeedsBuild::OtherKinds) }
    }

    /// Checks that the text has the patterns of the base.
    fn compare_patterns(&mut self) -> Result<(), NeedsBuild> {
        let mut before: HashMap<&Pattern, &[Rule]> = HashMap::new();
        for (pattern, set) in self.base.patterns.iter() {
            match self.own.get(set.0 as usize) {
                None | Some(OwnRules::None) => {}
                Some(OwnRules::One(rule)) => drop(before.insert(pattern, std::slice::from_ref(rule))),
                Some(OwnRules::Several(rules)) => drop(before.insert(pattern, rules)),
            }
        }
        self.patterns.values_mut().for_each(in_order);
        let is_same = before.len() == self.patterns.len()
            && self.patterns.iter().all(|(pattern, rules)| before.get(pattern) == Some(&&rules[..]));
        if is_same { Ok(()) } else { Err(NeedsBuild::OtherKinds) }
    }

    /// Whether the text has the one rule that the list has for a name.
    fn is_seen(&self, at: usize) -> bool {
        self.seen.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Returns the names of the base for which the text does not have all rules of the list.
    fn gone(&self) -> Result<Vec<NamePlace>, NeedsBuild> {
        let mut gone = Vec::new();
        for (at, (place, set)) in self.base.qnames.iter().enumerate() {
            let is_same = match self.own.get(set.0 as usize) {
                None | Some(OwnRules::None) => true,
                Some(OwnRules::One(_)) => self.is_seen(at),
                Some(OwnRules::Several(rules)) => self.several_at(at)[..] == **rules,
            };
            if !is_same {
                gone.push(place);
            }
            if gone.len() > self.most {
                return Err(NeedsBuild::Outgrown);
            }
        }
        Ok(gone)
    }

    fn several_at(&self, at: usize) -> Vec<Rule> {
        let mut rules = self.several.get(&at).cloned().unwrap_or_default();
        in_order(&mut rules);
        rules
    }

    /// Returns the rules of the text for a name, in order.
    fn rules_at(&self, place: NamePlace) -> Vec<Rule> {
        let kept = |(at, set): (usize, SetId)| match self.own.get(set.0 as usize) {
            Some(OwnRules::One(rule)) if self.is_seen(at) => vec![*rule],
            Some(OwnRules::Several(_)) => self.several_at(at),
            _ => Vec::new(),
        };
        let mut rules = self.base.qnames.found_at(place).map_or_else(Vec::new, kept);
        rules.extend(self.added.get(&place).into_iter().flatten());
        in_order(&mut rules);
        rules
    }
}

/// Sorts rules, and leaves out equal ones.
fn in_order(rules: &mut Vec<Rule>) {
    rules.sort_unstable();
    rules.dedup();
}
