//! Changes of single rules: the next snapshot shares the base of the one before.
//!
//! A snapshot is a base, which was compiled as a whole, and an overlay. The overlay has all rules of each
//! name about which rules have changed since, of all sources, so that a lookup that finds a name there needs
//! nothing from the base. For addresses it has ranges around the prefixes that changed.
//!
//! A change makes a new overlay from the one before, which takes time in proportion to its size. An overlay
//! that has outgrown its share of the base is not made: the caller compiles all rules then.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use wire::LowerName;

use crate::local_data::{LocalData, LocalDataTable, PolicyRecord};
use crate::names::{Depths, NameEntries, NamePlace, NameTable};
use crate::prefixes::PrefixEdits;
use crate::rpz::{self, RpzReport, Trigger, TriggerName};
use crate::rule::{RpzAction, Rule, RuleEffect, RuleSets, SetId, SourceId};
use crate::rules::{AnswerRules, NameOverlay, Overlay, Rules, rpz_rule};

/// An overlay may have a name or prefix for as many as these of the base, ...
const SHARE: usize = 32;
/// ... or this many.
const FEW: usize = 1024;

/// Changes of a snapshot's rules of response policy zones and lists.
pub struct RuleChanges<'r> {
    pub(crate) from: &'r Rules,
    next: NextSets<'r>,
    answers: AnswerRules,
    pub(crate) qnames: NameEdits,
    ns_names: NameEdits,
    client_ips: PrefixEdits<'r>,
    ips: PrefixEdits<'r>,
    ns_ips: PrefixEdits<'r>,
}

/// Why a change cannot be made: all rules must be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsBuild {
    /// A zone has several owners with one trigger, such as two forms of an address.
    SameTrigger,
    /// One of the owners in a report that are no triggers is gone, and the one that follows it is not known.
    UnknownFault,
    /// Too many rules have changed since all were compiled.
    Outgrown,
    /// A list has other patterns, conditions or answers of its own, or exempts names and did not: these
    /// change only when all rules are compiled.
    OtherKinds,
}

/// The records of an owner in two versions of a zone; none where the version does not have the owner.
#[derive(Clone, Copy, Debug)]
pub struct ChangedOwner<'z> {
    /// The owner.
    pub owner: LowerName<'z>,
    /// Its records in the version of the snapshot.
    pub before: &'z [PolicyRecord<'z>],
    /// Its records in the next version.
    pub after: &'z [PolicyRecord<'z>],
}

impl<'r> RuleChanges<'r> {
    /// Begins to change a snapshot.
    pub fn new(from: &'r Rules) -> Self {
        let base = &*from.base;
        let old = from.overlay.as_deref();
        let mut next = NextSets::new(from);
        let mut prefixes = |table, old| PrefixEdits::new((table, &base.sets), old, |rule| next.carry(rule));
        let client_ips = prefixes(&base.client_ips, old.map(|old| &old.client_ips));
        let ips = prefixes(&base.ips, old.map(|old| &old.ips));
        let ns_ips = prefixes(&base.ns_ips, old.map(|old| &old.ns_ips));
        let len = |table: &NameTable, old: Option<&NameOverlay>| old.map_or(table.len(), |old| old.len);
        RuleChanges {
            from,
            next,
            answers: from.answers.clone(),
            qnames: NameEdits::new(len(&base.qnames, old.map(|old| &old.qnames))),
            ns_names: NameEdits::new(len(&base.ns_names, old.map(|old| &old.ns_names))),
            client_ips,
            ips,
            ns_ips,
        }
    }

    /// Most names and prefixes that may have other rules than when all were compiled.
    pub fn room(&self) -> usize {
        (self.from.len() / SHARE).max(FEW)
    }

    /// Changes the rule of an owner in a response policy zone, whose report is of the version in the snapshot
    /// and becomes that of the next version.
    ///
    /// # Errors
    /// The change cannot be made. These changes and the report are of no use any more.
    pub fn rpz(
        &mut self,
        source: SourceId,
        apex: LowerName<'_>,
        ChangedOwner { owner, before, after }: ChangedOwner<'_>,
        report: &mut RpzReport,
    ) -> Result<(), NeedsBuild> {
        let trigger = match rpz::trigger(owner, apex) {
            Ok(None) => return Ok(()),
            Ok(Some(trigger)) => trigger,
            Err(fault) => {
                if !before.is_empty() && !report.remove_fault(owner) {
                    return Err(NeedsBuild::UnknownFault);
                }
                if !after.is_empty() {
                    report.add_fault(owner, fault);
                }
                return Ok(());
            }
        };
        // Data that are not used any more are numbered in a table that is dropped.
        let had = rpz_rule(source, &trigger, before, &mut LocalDataTable::default()).is_some();
        let rule = rpz_rule(source, &trigger, after, &mut self.next.data);
        let Some(rules) = (report.rules + usize::from(rule.is_some())).checked_sub(usize::from(had)) else {
            return Err(NeedsBuild::SameTrigger);
        };
        report.rules = rules;
        self.answers.replace(source, &trigger, had, rule.is_some());
        let is_done = match &trigger {
            Trigger::Qname(name) => self.about_name(source, false, name, had, rule),
            Trigger::NsDname(name) => self.about_name(source, true, name, had, rule),
            Trigger::ClientIp(prefix) => self.client_ips.replace(*prefix, source, had, rule),
            Trigger::Ip(prefix) => self.ips.replace(*prefix, source, had, rule),
            Trigger::NsIp(prefix) => self.ns_ips.replace(*prefix, source, had, rule),
        };
        if is_done { Ok(()) } else { Err(NeedsBuild::SameTrigger) }
    }

    fn about_name(
        &mut self,
        source: SourceId,
        of_server: bool,
        name: &TriggerName,
        had: bool,
        by: Option<Rule>,
    ) -> bool {
        let place = self.from.base.keys.place(name.name());
        let edits = if of_server { &mut self.ns_names } else { &mut self.qnames };
        edits.depths.add(name.name());
        let is_replaced = |rule: &Rule| {
            (rule.source, rule.reach) == (source, name.reach) && matches!(rule.effect, RuleEffect::Rpz(_))
        };
        self.replace_at(of_server, place, is_replaced, by) == usize::from(had)
    }

    /// Replaces rules of a name, or of a name server with `of_server`. Returns the number of replaced rules.
    pub(crate) fn replace_at(
        &mut self,
        of_server: bool,
        place: NamePlace,
        is_replaced: impl Fn(&Rule) -> bool,
        by: impl IntoIterator<Item = Rule>,
    ) -> usize {
        let RuleChanges { from, next, qnames, ns_names, .. } = self;
        let (base, old) = (&*from.base, from.overlay.as_deref());
        let (edits, table) = if of_server { (ns_names, &base.ns_names) } else { (qnames, &base.qnames) };
        let over = old.map(|old| if of_server { &old.ns_names } else { &old.qnames });
        let current = || match over.and_then(|over| over.table.at(place)).zip(old) {
            Some((set, old)) => old.sets.rules(set).iter().map(|rule| next.carry(rule)).collect(),
            None => table.at(place).map_or(Vec::new(), |set| base.sets.rules(set).to_vec()),
        };
        let rules = edits.edits.entry(place).or_insert_with(current);
        let (before, count) = (rules.len(), rules.iter().filter(|rule| is_replaced(rule)).count());
        rules.retain(|rule| !is_replaced(rule));
        rules.extend(by);
        rules.sort_unstable();
        edits.len = (edits.len + usize::from(!rules.is_empty())).saturating_sub(usize::from(before > 0));
        count
    }

    /// Compiles the snapshot with the changes.
    ///
    /// # Errors
    /// Too many rules have changed since all were compiled.
    pub fn finish(self) -> Result<Rules, NeedsBuild> {
        let room = self.room();
        let RuleChanges { from, mut next, answers, qnames, ns_names, client_ips, ips, ns_ips } = self;
        let (base, old) = (&*from.base, from.overlay.as_deref());
        let of_base = |table: &NameTable, place| table.at(place).map_or(&[][..], |set| base.sets.rules(set));
        let qnames = qnames.finish(old.map(|old| &old.qnames), &mut next, |at| of_base(&base.qnames, at));
        let ns_names =
            ns_names.finish(old.map(|old| &old.ns_names), &mut next, |at| of_base(&base.ns_names, at));
        let NextSets { mut sets, mut data, .. } = next;
        let mut prefixes = |edits: PrefixEdits<'_>| edits.finish(&mut sets, room).ok_or(NeedsBuild::Outgrown);
        let (client_ips, ips, ns_ips) = (prefixes(client_ips)?, prefixes(ips)?, prefixes(ns_ips)?);
        sets.seal();
        data.seal();
        let overlay = Overlay { sets, data, qnames, ns_names, client_ips, ips, ns_ips };
        match overlay.size() {
            size if size > room => Err(NeedsBuild::Outgrown),
            // The rules are again those of the base.
            0 => Ok(Rules::new(Arc::clone(&from.base), None, answers)),
            _ => Ok(Rules::new(Arc::clone(&from.base), Some(Arc::new(overlay)), answers)),
        }
    }
}

/// The sets of rules and the local data of the next overlay.
struct NextSets<'r> {
    old: Option<&'r Overlay>,
    sets: RuleSets,
    data: LocalDataTable,
    /// Sets of the overlay before, and the same sets here.
    carried: HashMap<SetId, SetId>,
}

impl<'r> NextSets<'r> {
    fn new(from: &'r Rules) -> Self {
        let data = LocalDataTable::after(&from.base.data);
        let old = from.overlay.as_deref();
        NextSets { old, sets: RuleSets::default(), data, carried: HashMap::new() }
    }

    /// Returns a rule of the overlay before with its local data, if any, as numbered here.
    fn carry(&mut self, rule: &Rule) -> Rule {
        let RuleEffect::Rpz(RpzAction::LocalData(data)) = rule.effect else { return *rule };
        let Some(records) = self.old.and_then(|old| old.data.get(data)) else { return *rule };
        let records: Vec<PolicyRecord<'_>> = LocalData::records(records).collect();
        Rule { effect: RuleEffect::Rpz(RpzAction::LocalData(self.data.number(&records))), ..*rule }
    }

    /// Returns the number of a set of the overlay before.
    fn carry_set(&mut self, set: SetId) -> SetId {
        if let Some(carried) = self.carried.get(&set) {
            return *carried;
        }
        let rules = self.old.map_or(&[][..], |old| old.sets.rules(set));
        let mut rules: Vec<Rule> = rules.iter().map(|rule| self.carry(rule)).collect();
        rules.sort_unstable();
        let carried = self.sets.number(&rules);
        self.carried.insert(set, carried);
        carried
    }
}

/// The names of a table about which rules change, with all their rules.
pub(crate) struct NameEdits {
    edits: BTreeMap<NamePlace, Vec<Rule>>,
    pub(crate) depths: Depths,
    /// Number of names that have rules, with those of the base.
    len: usize,
}

impl NameEdits {
    fn new(len: usize) -> Self {
        NameEdits { edits: BTreeMap::new(), depths: Depths::default(), len }
    }

    /// Compiles the overlay from the one before; `of_base` has the rules of names in the base.
    fn finish<'b>(
        self,
        old: Option<&NameOverlay>,
        next: &mut NextSets<'_>,
        of_base: impl Fn(NamePlace) -> &'b [Rule],
    ) -> NameOverlay {
        let NameEdits { edits, depths, len } = self;
        let mut entries = NameEntries::default();
        if let Some(old) = old {
            entries.include(old.table.depths());
            for (place, set) in old.table.iter() {
                if !edits.contains_key(&place) {
                    entries.push_at(place, next.carry_set(set));
                }
            }
        }
        entries.include(depths);
        for (place, rules) in edits {
            if rules != of_base(place) {
                entries.push_at(place, next.sets.number(&rules));
            }
        }
        NameOverlay { table: NameTable::new(entries, &mut next.sets), len }
    }
}
