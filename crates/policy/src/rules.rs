//! The rules of all sources in one snapshot, and the rule that decides a query.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

use wire::hash::HashedName;
use wire::{LowerName, Name, NameBuf, Ttl, Type};

use crate::conditions::{Choice, Condition, ConditionId, Conditions, PolicyQuery};
use crate::list::{self, Covered, ListFault, ListFormat, ListReport};
use crate::local_data::{DataId, LocalData, LocalDataTable, PolicyRecord, Rewriting};
use crate::names::{NameEntries, NameKeys, NameTable};
use crate::pattern_table::{PatternEntries, PatternTable};
use crate::patterns::PatternRoom;
use crate::prefixes::{PrefixEntries, PrefixOverlay, PrefixTable, comparable_len};
use crate::rewrites::{Rewrites, RewritesFound};
use crate::rpz::{self, Effect, RpzReport, Trigger};
use crate::rule::{RpzAction, Rule, RuleEffect, RuleReach, RuleSets, SetId, SourceId, SourceMask};
use crate::safe_search;

/// Gathers the rules of all sources.
pub struct RuleBuilder {
    keys: NameKeys,
    sets: RuleSets,
    data: LocalDataTable,
    exempting: SourceMask,
    answers: AnswerRules,
    conditions: Conditions,
    qnames: NameEntries,
    patterns: PatternEntries,
    room: PatternRoom,
    ns_names: NameEntries,
    client_ips: PrefixEntries,
    ips: PrefixEntries,
    ns_ips: PrefixEntries,
}

impl RuleBuilder {
    /// `keys` are those of all snapshots whose rules are [kept](Self::keep).
    pub fn new(keys: NameKeys) -> Self {
        RuleBuilder {
            keys,
            sets: RuleSets::default(),
            data: LocalDataTable::default(),
            exempting: SourceMask::default(),
            answers: AnswerRules::default(),
            conditions: Conditions::default(),
            qnames: NameEntries::default(),
            patterns: PatternEntries::default(),
            room: PatternRoom::default(),
            ns_names: NameEntries::default(),
            client_ips: PrefixEntries::default(),
            ips: PrefixEntries::default(),
            ns_ips: PrefixEntries::default(),
        }
    }

    /// Adds a rule of a response policy zone: an owner with all its records. An owner that is no trigger is
    /// counted in `report`.
    pub fn rpz(
        &mut self,
        source: SourceId,
        apex: LowerName<'_>,
        owner: LowerName<'_>,
        records: &[PolicyRecord<'_>],
        report: &mut RpzReport,
    ) {
        match rpz::trigger(owner, apex) {
            Ok(None) => {}
            Ok(Some(trigger)) => report.rules += usize::from(self.rpz_rule(source, &trigger, records)),
            Err(fault) => report.add_fault(owner, fault),
        }
    }

    /// Adds a rule, if the records are one. Returns whether they are.
    fn rpz_rule(&mut self, source: SourceId, trigger: &Trigger, records: &[PolicyRecord<'_>]) -> bool {
        let RuleBuilder { keys, sets, data, qnames, ns_names, client_ips, ips, ns_ips, answers, .. } = self;
        let Some(rule) = rpz_rule(source, trigger, records, data) else { return false };
        let single = sets.single(rule);
        match trigger {
            Trigger::Qname(name) => qnames.push(keys, name.name(), single),
            Trigger::NsDname(name) => ns_names.push(keys, name.name(), single),
            Trigger::ClientIp(prefix) => client_ips.push(*prefix, single),
            Trigger::Ip(prefix) => ips.push(*prefix, single),
            Trigger::NsIp(prefix) => ns_ips.push(*prefix, single),
        }
        answers.replace(source, trigger, false, true);
        true
    }

    /// Adds a rule for each name of a search engine: an alias, with this TTL, to its name without adult
    /// content. Returns the number of rules.
    pub fn safe_search(&mut self, source: SourceId, ttl: Ttl) -> usize {
        let RuleBuilder { keys, sets, data, conditions, qnames, .. } = self;
        // Some names have mail servers, too, and may be targets of aliases.
        let named = vec![Type::A, Type::AAAA, Type::HTTPS, Type::CNAME];
        let types = Choice { named, excluded: Vec::new() };
        let condition = conditions.number(&Condition { types, ..Condition::default() });
        let mut rules = 0;
        let name_of = |text: &str| NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).ok();
        safe_search::all(|name, target| {
            let (Some(name), Some(target)) = (name_of(name), name_of(target)) else { return };
            let record = PolicyRecord { rtype: Type::CNAME, ttl, rdata: target.as_name().as_wire() };
            let effect = RuleEffect::Rpz(RpzAction::LocalData(data.number(&[record])));
            let rule = Rule { source, reach: RuleReach::Name, effect, prefix_len: 0, condition };
            qnames.push(keys, name.as_name().to_lower().as_lower(), sets.single(rule));
            rules += 1;
        });
        rules
    }

    /// Adds the rules of a list. With `exempts`, its blocks are exceptions: it is an allow list.
    ///
    /// # Errors
    /// The text is not a list. No rule of it is added.
    pub fn list(
        &mut self,
        source: SourceId,
        format: ListFormat,
        text: &[u8],
        exempts: bool,
    ) -> Result<ListReport, ListFault> {
        let RuleBuilder { keys, sets, data, conditions, qnames, patterns, .. } = self;
        let (mut entries, mut own_patterns, mut room) = (NameEntries::default(), Vec::new(), self.room);
        // Nearly every line is a rule.
        entries.reserve(text.iter().filter(|byte| **byte == b'\n').count());
        // Most rules of a list differ only in their names.
        let mut last: Option<(Rule, SetId)> = None;
        let report = list::read(text, format, Some(&mut room), |rule| {
            let effect = rule.effect_in(exempts, |rewrite| rewrite.number(data));
            let condition = conditions.number(rule.condition);
            let own = Rule { source, reach: rule.reach, effect, prefix_len: 0, condition };
            let set = match last {
                Some((rule, set)) if rule == own => set,
                _ => sets.single(own),
            };
            last = Some((own, set));
            match rule.covered {
                Covered::Name(name) => entries.push(keys, name, set),
                Covered::Pattern(pattern) => own_patterns.push((pattern.clone(), set)),
            }
            ControlFlow::Continue(())
        })?;
        qnames.append(entries);
        patterns.extend(own_patterns);
        self.room = room;
        if exempts {
            self.exempting = self.exempting.with(source);
        }
        Ok(report)
    }

    /// Adds the rules of a list that an earlier snapshot has as the source `as_source`.
    pub fn keep(&mut self, source: SourceId, of: &Rules, as_source: SourceId) {
        let (of, over) = (&*of.base, of.overlay.as_deref());
        if of.exempting.contains(as_source) {
            self.exempting = self.exempting.with(source);
        }
        let RuleBuilder { sets, data, conditions, qnames, patterns, room, .. } = self;
        let mut kept: HashMap<SetId, Option<SetId>> = HashMap::new();
        // Rules of lists in an overlay have conditions and answers of the base.
        let mut own_rules = |rules: &[Rule]| {
            let own = rules.iter().filter(|rule| rule.source == as_source);
            let mut own: Vec<Rule> = own
                .map(|rule| {
                    let condition = conditions.take_over(&of.conditions, rule.condition);
                    let effect = taken_over(rule.effect, &of.data, data);
                    Rule { source, condition, effect, ..*rule }
                })
                .collect();
            own.sort_unstable();
            (!own.is_empty()).then(|| sets.number(&own))
        };
        let mut of_base = |set| *kept.entry(set).or_insert_with(|| own_rules(of.sets.rules(set)));
        of.qnames.copy(qnames, over.map(|over| &over.qnames.table), &mut of_base);
        of.patterns.copy(patterns, room, of_base);
        if let Some(over) = over {
            over.qnames.table.copy(qnames, None, |set| own_rules(over.sets.rules(set)));
        }
    }

    /// Compiles the rules.
    pub fn build(self) -> Rules {
        let RuleBuilder {
            keys,
            mut sets,
            mut data,
            exempting,
            answers,
            mut conditions,
            qnames,
            patterns,
            ns_names,
            client_ips,
            ips,
            ns_ips,
            ..
        } = self;
        let qnames = NameTable::new(qnames, &mut sets);
        let patterns = PatternTable::new(patterns, &mut sets);
        let ns_names = NameTable::new(ns_names, &mut sets);
        let [client_ips, ips, ns_ips] =
            [client_ips, ips, ns_ips].map(|entries| PrefixTable::new(entries, &mut sets));
        let rewrites = sets.any(|effect| matches!(effect, RuleEffect::Rewrite { .. }));
        sets.seal();
        data.seal();
        conditions.seal();
        let are_about_clients = conditions.are_about_clients();
        let base = Base {
            keys,
            sets,
            data,
            exempting,
            conditions,
            are_about_clients,
            rewrites,
            qnames,
            patterns,
            ns_names,
            client_ips,
            ips,
            ns_ips,
        };
        Rules::new(Arc::new(base), None, answers)
    }
}

/// Returns the effect of a rule of an earlier snapshot with the data here.
pub(crate) fn taken_over(effect: RuleEffect, from: &LocalDataTable, to: &mut LocalDataTable) -> RuleEffect {
    let mut own = |rewriting| match rewriting {
        Rewriting::Code(_) => rewriting,
        Rewriting::Record(data) => {
            let records: Vec<PolicyRecord<'_>> =
                from.get(data).into_iter().flat_map(LocalData::records).collect();
            Rewriting::Record(to.number(&records))
        }
    };
    match effect {
        RuleEffect::Rewrite { to, important } => RuleEffect::Rewrite { to: own(to), important },
        RuleEffect::KeepAnswer { of, important } => RuleEffect::KeepAnswer { of: of.map(own), important },
        effect => effect,
    }
}

/// Returns the rule that the records of a trigger's owner are, if they are one.
pub(crate) fn rpz_rule(
    source: SourceId,
    trigger: &Trigger,
    records: &[PolicyRecord<'_>],
    data: &mut LocalDataTable,
) -> Option<Rule> {
    // The old form of rpz-passthru. is a CNAME to the name of the trigger.
    let own_name = match trigger {
        Trigger::Qname(name) if name.reach == RuleReach::Name => name.name().as_name(),
        _ => Name::ROOT,
    };
    let action = match rpz::effect(own_name, records)? {
        Effect::Action(action) => action,
        Effect::Data(records) => {
            let records: Vec<PolicyRecord<'_>> = records.into_iter().copied().collect();
            RpzAction::LocalData(data.number(&records))
        }
    };
    let (reach, prefix_len) = match trigger {
        Trigger::Qname(name) | Trigger::NsDname(name) => (name.reach, 0),
        Trigger::ClientIp(prefix) | Trigger::Ip(prefix) | Trigger::NsIp(prefix) => {
            (RuleReach::Name, comparable_len(&prefix.to_canonical()))
        }
    };
    Some(Rule { source, reach, effect: RuleEffect::Rpz(action), prefix_len, condition: ConditionId::NONE })
}

/// The sources that have rules about answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerSources {
    /// Those with rules about addresses in answers (IP).
    pub ip: SourceMask,
    /// Those with rules about names of name servers (NSDNAME).
    pub ns_names: SourceMask,
    /// Those with rules about addresses of name servers (NSIP).
    pub ns_ips: SourceMask,
}

/// Numbers of rules about answers, by source: IP, NSDNAME, NSIP.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerRules(BTreeMap<SourceId, [usize; 3]>);

impl AnswerRules {
    /// Takes into account that a source has a rule or none with a trigger, where it had one or none.
    pub(crate) fn replace(&mut self, source: SourceId, trigger: &Trigger, had: bool, has: bool) {
        let kind = match trigger {
            Trigger::Qname(_) | Trigger::ClientIp(_) => return,
            Trigger::Ip(_) => 0,
            Trigger::NsDname(_) => 1,
            Trigger::NsIp(_) => 2,
        };
        let count = &mut self.0.entry(source).or_default()[kind];
        *count = (*count + usize::from(has)).saturating_sub(usize::from(had));
    }

    fn sources(&self) -> AnswerSources {
        let mut sources = AnswerSources::default();
        for (source, counts) in &self.0 {
            let AnswerSources { ip, ns_names, ns_ips } = &mut sources;
            for (mask, count) in [ip, ns_names, ns_ips].into_iter().zip(counts) {
                if *count > 0 {
                    *mask = mask.with(*source);
                }
            }
        }
        sources
    }
}

/// The rules that were compiled together.
pub(crate) struct Base {
    pub(crate) keys: NameKeys,
    pub(crate) sets: RuleSets,
    pub(crate) data: LocalDataTable,
    /// The lists that only exempt.
    pub(crate) exempting: SourceMask,
    pub(crate) conditions: Conditions,
    /// Whether any condition is about clients.
    are_about_clients: bool,
    /// Whether any rule of a list has an answer of its own.
    rewrites: bool,
    pub(crate) qnames: NameTable,
    pub(crate) patterns: PatternTable,
    pub(crate) ns_names: NameTable,
    pub(crate) client_ips: PrefixTable,
    pub(crate) ips: PrefixTable,
    pub(crate) ns_ips: PrefixTable,
}

/// The rules in place of those of a base, of names and prefixes about which rules of response policy zones
/// have changed.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The sets of rules that the tables here refer to.
    pub(crate) sets: RuleSets,
    /// The local data that the base does not have.
    pub(crate) data: LocalDataTable,
    pub(crate) qnames: NameOverlay,
    pub(crate) ns_names: NameOverlay,
    pub(crate) client_ips: PrefixOverlay,
    pub(crate) ips: PrefixOverlay,
    pub(crate) ns_ips: PrefixOverlay,
}

/// All rules of the names that differ from a base.
#[derive(Debug)]
pub(crate) struct NameOverlay {
    /// A name that has no rules any more has the empty set.
    pub(crate) table: NameTable,
    /// Number of names that have rules, with those of the base.
    pub(crate) len: usize,
}

/// The rules of all sources. Immutable; a change of a source makes another one, which may share the base.
#[derive(Clone)]
pub struct Rules {
    pub(crate) base: Arc<Base>,
    pub(crate) overlay: Option<Arc<Overlay>>,
    pub(crate) answers: AnswerRules,
    of_answers: AnswerSources,
    depends_on_client: bool,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A rule that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The rule.
    pub rule: Rule,
    /// Number of labels that the query name has before the name of the rule; 0 for rules about addresses and
    /// for patterns.
    pub skip: usize,
    /// What the rule is about.
    pub trigger: TriggerKind,
}

/// What a rule is about, in the order in which the rules of one response policy zone are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TriggerKind {
    /// The client's address (CLIENT-IP).
    ClientIp,
    /// The query name, or a name that it is an alias of (QNAME).
    Qname,
    /// An address in the answer (IP).
    Ip,
    /// The name of a name server (NSDNAME).
    NsDname,
    /// The address of a name server (NSIP).
    NsIp,
}

impl TriggerKind {
    /// The name of the trigger (draft, §4).
    pub fn name(self) -> &'static str {
        match self {
            TriggerKind::ClientIp => "CLIENT-IP",
            TriggerKind::Qname => "QNAME",
            TriggerKind::Ip => "IP",
            TriggerKind::NsDname => "NSDNAME",
            TriggerKind::NsIp => "NSIP",
        }
    }
}

/// The rules that decide a query before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The rule of the response policy zones, by CLIENT-IP or QNAME.
    pub rpz: Option<Match>,
    /// The rule of the lists.
    pub list: Option<Match>,
}

/// The rules about addresses: those of the base, and those in their place.
type Prefixes<'r> = (&'r PrefixTable, Option<&'r PrefixOverlay>);

impl Rules {
    pub(crate) fn new(base: Arc<Base>, overlay: Option<Arc<Overlay>>, answers: AnswerRules) -> Self {
        let of_answers = answers.sources();
        let clients = overlay.as_ref().map_or(base.client_ips.len(), |overlay| overlay.client_ips.len());
        let depends_on_client = base.are_about_clients || clients > 0;
        Rules { base, overlay, answers, of_answers, depends_on_client }
    }

    /// Whether a source is a list that only exempts.
    pub fn only_exempts(&self, source: SourceId) -> bool {
        self.base.exempting.contains(source)
    }

    /// Number of names, patterns and prefixes that have rules.
    pub fn len(&self) -> usize {
        let Base { qnames, patterns, ns_names, client_ips, ips, ns_ips, .. } = &*self.base;
        patterns.len()
            + match &self.overlay {
                None => qnames.len() + ns_names.len() + client_ips.len() + ips.len() + ns_ips.len(),
                Some(overlay) => {
                    let Overlay { qnames, ns_names, client_ips, ips, ns_ips, .. } = &**overlay;
                    qnames.len + ns_names.len + client_ips.len() + ips.len() + ns_ips.len()
                }
            }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of names and prefixes that have other rules than in the base.
    pub fn overlaid(&self) -> usize {
        self.overlay.as_ref().map_or(0, |overlay| overlay.size())
    }

    /// Bytes of memory of the tables.
    pub fn bytes(&self) -> usize {
        let Base { data, qnames, patterns, ns_names, client_ips, ips, ns_ips, .. } = &*self.base;
        let names = qnames.bytes() + ns_names.bytes() + patterns.bytes();
        let overlay = self.overlay.as_ref().map_or(0, |overlay| overlay.bytes());
        names + client_ips.bytes() + ips.bytes() + ns_ips.bytes() + data.bytes() + overlay
    }

    /// The sources that have rules about answers.
    #[inline]
    pub fn of_answers(&self) -> &AnswerSources {
        &self.of_answers
    }

    /// Returns the records of local data.
    pub fn local_data(&self, data: DataId) -> impl Iterator<Item = PolicyRecord<'_>> {
        let of_overlay = self.overlay.as_ref().and_then(|overlay| overlay.data.get(data));
        of_overlay.or_else(|| self.base.data.get(data)).into_iter().flat_map(LocalData::records)
    }

    /// Whether what the rules say depends on the client: a rule of a list or a zone is for certain clients
    /// only.
    pub fn depends_on_client(&self) -> bool {
        self.depends_on_client
    }

    /// Returns the rules of `sources` that decide a query by its name and, if given, its client's address.
    #[inline]
    pub fn of_query(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> Decision {
        let rpz = query.client.and_then(|client| self.of_client(client, sources));
        let (base, mut decision) = (&*self.base, Decision { rpz, list: None });
        let over = self.overlay.as_ref().map(|overlay| &overlay.qnames);
        self.suffixes(&base.qnames, over, query.name, |skip, rules| {
            self.take_all(&mut decision, rules, (skip, TriggerKind::Qname), query, sources);
        });
        if base.patterns.len() > 0 {
            base.patterns.find(query.name.as_lower(), |set| {
                let rules = base.sets.rules(set);
                self.take_all(&mut decision, rules, (0, TriggerKind::Qname), query, sources);
            });
        }
        decision
    }

    /// Whether any rule of a list has an answer of its own.
    #[inline]
    pub fn have_rewrites(&self) -> bool {
        self.base.rewrites
    }

    /// Returns the answer that rules of lists give to a query, if any does.
    #[cold]
    pub fn rewrites_of(&self, query: &PolicyQuery<'_>, sources: &SourceMask) -> Option<Rewrites> {
        let mut found = RewritesFound::default();
        // The rules of lists change only with the base.
        let Base { keys, sets, conditions, qnames, patterns, .. } = &*self.base;
        let mut take = |skip, set| {
            for rule in sets.rules(set).iter().filter(|rule| {
                sources.contains(rule.source)
                    && rule.reach.covers(skip)
                    && conditions.hold(rule.condition, query)
            }) {
                match rule.effect {
                    RuleEffect::Rewrite { to, important } => found.add(rule.source, to, important),
                    RuleEffect::KeepAnswer { of, important } => found.keep(of, important),
                    _ => {}
                }
            }
        };
        qnames.suffixes(keys, query.name, &mut take);
        if patterns.len() > 0 {
            patterns.find(query.name.as_lower(), |set| take(0, set));
        }
        found.answer(|data| self.local_data(data).any(|record| record.rtype == Type::CNAME))
    }

    /// Calls `each` with every suffix of a name that has rules, the longest first: the number of labels
    /// before it, and its rules.
    #[inline]
    fn suffixes(
        &self,
        table: &NameTable,
        over: Option<&NameOverlay>,
        name: &HashedName,
        mut each: impl FnMut(usize, &[Rule]),
    ) {
        let Base { keys, sets, .. } = &*self.base;
        match (over, &self.overlay) {
            (Some(over), Some(overlay)) => {
                table.suffixes_under(&over.table, keys, name, |skip, is_over, set| {
                    each(skip, if is_over { &overlay.sets } else { sets }.rules(set));
                });
            }
            _ => table.suffixes(keys, name, |skip, set| each(skip, sets.rules(set))),
        }
    }

    /// Adds those of some rules to a decision that apply to a query.
    #[inline]
    fn take_all(
        &self,
        decision: &mut Decision,
        rules: &[Rule],
        (skip, trigger): (usize, TriggerKind),
        query: &PolicyQuery<'_>,
        sources: &SourceMask,
    ) {
        for rule in rules {
            if sources.contains(rule.source)
                && rule.reach.covers(skip)
                && self.base.conditions.hold(rule.condition, query)
                && !rule.is_disabled(rules, sources)
            {
                decision.take(Match { rule: *rule, skip, trigger });
            }
        }
    }

    /// Returns the rule of a response policy zone for a client's address.
    pub fn of_client(&self, client: IpAddr, sources: &SourceMask) -> Option<Match> {
        let over = self.overlay.as_ref().map(|overlay| &overlay.client_ips);
        self.of_address((&self.base.client_ips, over), TriggerKind::ClientIp, client, sources)
    }

    #[inline]
    fn of_address(
        &self,
        (table, over): Prefixes<'_>,
        trigger: TriggerKind,
        address: IpAddr,
        sources: &SourceMask,
    ) -> Option<Match> {
        if over.map_or(table.len(), PrefixOverlay::len) == 0 {
            return None;
        }
        let changed =
            self.overlay.as_ref().and_then(|overlay| Some(overlay.sets.rules(over?.find(address)?)));
        let mut rules = match changed {
            Some(rules) => rules.iter(),
            None => self.base.sets.rules(table.find(address)?).iter(),
        };
        // Rules are in the order of their sources.
        let rule = *rules.find(|rule| sources.contains(rule.source))?;
        Some(Match { rule, skip: 0, trigger })
    }

    /// Returns the rule for an address in an answer (IP).
    pub fn of_answer(&self, address: IpAddr, sources: &SourceMask) -> Option<Match> {
        let over = self.overlay.as_ref().map(|overlay| &overlay.ips);
        self.of_address((&self.base.ips, over), TriggerKind::Ip, address, sources)
    }

    /// Returns the rule for an address of a name server (NSIP).
    pub fn of_server_address(&self, address: IpAddr, sources: &SourceMask) -> Option<Match> {
        let over = self.overlay.as_ref().map(|overlay| &overlay.ns_ips);
        self.of_address((&self.base.ns_ips, over), TriggerKind::NsIp, address, sources)
    }

    /// Returns the rule for the name of a name server (NSDNAME).
    pub fn of_server_name(&self, name: &HashedName, sources: &SourceMask) -> Option<Match> {
        let query = PolicyQuery { name, qtype: Type::NS, client: None, group: None };
        let mut decision = Decision::default();
        let over = self.overlay.as_ref().map(|overlay| &overlay.ns_names);
        self.suffixes(&self.base.ns_names, over, name, |skip, rules| {
            self.take_all(&mut decision, rules, (skip, TriggerKind::NsDname), &query, sources);
        });
        decision.rpz
    }
}

impl Overlay {
    /// Number of names and prefixes that differ.
    pub(crate) fn size(&self) -> usize {
        let names = self.qnames.table.len() + self.ns_names.table.len();
        names + self.client_ips.edited() + self.ips.edited() + self.ns_ips.edited()
    }

    fn bytes(&self) -> usize {
        let names = self.qnames.table.bytes() + self.ns_names.table.bytes() + self.data.bytes();
        names + self.client_ips.bytes() + self.ips.bytes() + self.ns_ips.bytes()
    }
}

/// The rank of an effect of lists; the highest decides.
fn rank(effect: RuleEffect) -> u8 {
    match effect {
        RuleEffect::Rpz(_)
        | RuleEffect::Disable { .. }
        | RuleEffect::Rewrite { .. }
        | RuleEffect::KeepAnswer { .. } => 0,
        RuleEffect::Block { important: false } => 1,
        RuleEffect::Allow { important: false } => 2,
        RuleEffect::Block { important: true } => 3,
        RuleEffect::Allow { important: true } => 4,
    }
}

impl Decision {
    /// Takes a rule about a name, if it comes before those found so far. Rules come in the order of their
    /// names, the longest first; so among equals of one source the longest name stays.
    #[inline]
    fn take(&mut self, found: Match) {
        match found.rule.effect {
            // A zone's rules by CLIENT-IP come before its rules by QNAME.
            RuleEffect::Rpz(_) if self.rpz.is_none_or(|now| found.rule.source < now.rule.source) => {
                self.rpz = Some(found);
            }
            RuleEffect::Rpz(_)
            | RuleEffect::Disable { .. }
            | RuleEffect::Rewrite { .. }
            | RuleEffect::KeepAnswer { .. } => {}
            effect => {
                let order = |rule: &Rule, effect| (rank(effect), Reverse(rule.source));
                let now = self.list.map(|now| order(&now.rule, now.rule.effect));
                if now.is_none_or(|now| order(&found.rule, effect) > now) {
                    self.list = Some(found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};

    use super::*;

    fn key() -> HashKey {
        HashKey::new([1, 2, 3])
    }

    fn lower(text: &str) -> wire::LowerNameBuf {
        text.parse::<NameBuf>().expect("a name").as_name().to_lower()
    }

    fn hashed(text: &str) -> HashedName {
        let mut hashed = HashedName::new();
        hashed.set(&key(), text.parse::<NameBuf>().expect("a name").as_name());
        hashed
    }

    /// The rules for a query of type A.
    fn of_query(rules: &Rules, name: &HashedName, client: Option<IpAddr>, sources: &SourceMask) -> Decision {
        rules.of_query(&PolicyQuery { name, qtype: Type::A, client, group: None }, sources)
    }

    const CLIENT: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    /// A response policy zone with these owners and CNAME targets.
    fn rpz(builder: &mut RuleBuilder, source: u8, rules: &[(&str, &str)]) -> RpzReport {
        let apex = lower("rpz.example.");
        let rules: Vec<_> = rules
            .iter()
            .map(|(owner, target)| (lower(&format!("{owner}rpz.example.")), lower(target)))
            .collect();
        let mut report = RpzReport::default();
        for (owner, target) in &rules {
            let (rtype, ttl, rdata) = (Type::CNAME, Ttl::from_secs(60), target.as_lower().as_wire());
            let records = [PolicyRecord { rtype, ttl, rdata }];
            builder.rpz(SourceId(source), apex.as_lower(), owner.as_lower(), &records, &mut report);
        }
        report
    }

    fn action(found: Option<Match>) -> Option<(u8, RpzAction)> {
        found.map(|found| match found.rule.effect {
            RuleEffect::Rpz(action) => (found.rule.source.0, action),
            other => panic!("{other:?}"),
        })
    }

    /// Draft §5: zones in order, then CLIENT-IP before QNAME, then the longest name.
    #[test]
    fn the_first_zone_decides_then_the_trigger_then_the_longest_name() {
        let mut builder = RuleBuilder::new(NameKeys::new(key()));
        rpz(
            &mut builder,
            0,
            &[("*.b.example.", "rpz-passthru."), ("8.0.0.0.10.rpz-client-ip.", "rpz-drop.")],
        );
        let report = rpz(
            &mut builder,
            1,
            &[("a.b.example.", "."), ("*.example.", "*."), ("*.a.example.", "rpz-tcp-only.")],
        );
        assert_eq!((report.rules, report.faults), (3, 0));
        let rules = builder.build();
        assert_eq!(rules.len(), 5);
        let of =
            |name, client, sources: &SourceMask| action(of_query(&rules, &hashed(name), client, sources).rpz);
        let all = SourceMask::ALL;
        assert_eq!(of("a.b.example.", CLIENT, &all), Some((0, RpzAction::Passthru)));
        assert_eq!(of("a.b.example.", Some([10, 0, 0, 1].into()), &all), Some((0, RpzAction::Drop)));
        assert_eq!(of("x.a.example.", CLIENT, &all), Some((1, RpzAction::TcpOnly)));
        assert_eq!(of("a.example.", CLIENT, &all), Some((1, RpzAction::NoData)));
        assert_eq!(of("example.", CLIENT, &all), None, "a wildcard does not cover its own name");
        let second = SourceMask::default().with(SourceId(1));
        assert_eq!(of("a.b.example.", Some([10, 0, 0, 1].into()), &second), Some((1, RpzAction::NxDomain)));
    }

    #[test]
    fn addresses_and_name_servers_have_rules_of_their_own() {
        let mut builder = RuleBuilder::new(NameKeys::new(key()));
        let owners = [
            ("24.0.2.0.192.rpz-ip.", "."),
            ("32.1.2.0.192.rpz-ip.", "rpz-passthru."),
            ("32.zz.db8.2001.rpz-nsip.", "*."),
            ("*.bad.example.rpz-nsdname.", "rpz-drop."),
            ("33.1.2.0.192.rpz-ip.", "."),
        ];
        let report = rpz(&mut builder, 3, &owners);
        assert_eq!((report.rules, report.faults), (4, 1));
        assert_eq!(report.first[0].fault, rpz::OwnerFault::Length);
        let (rules, all) = (builder.build(), SourceMask::ALL);
        assert_eq!(action(rules.of_answer([192, 0, 2, 2].into(), &all)), Some((3, RpzAction::NxDomain)));
        assert_eq!(action(rules.of_answer([192, 0, 2, 1].into(), &all)), Some((3, RpzAction::Passthru)));
        assert_eq!(rules.of_answer([192, 0, 3, 1].into(), &all), None);
        let address = "2001:db8::1".parse().expect("an address");
        assert_eq!(action(rules.of_server_address(address, &all)), Some((3, RpzAction::NoData)));
        assert_eq!(rules.of_answer(address, &all), None);
        assert_eq!(
            action(rules.of_server_name(&hashed("ns.bad.example."), &all)),
            Some((3, RpzAction::Drop))
        );
        assert_eq!(rules.of_server_name(&hashed("bad.example."), &all), None);
        assert_eq!(of_query(&rules, &hashed("ns.bad.example."), CLIENT, &all), Decision::default());
    }

    /// What a line of a list says about a name, without tables and hashes.
    fn model(line: &str, exempts: bool, name: &str) -> Option<u8> {
        let (rule, important) = line.strip_suffix("$important").map_or((line, false), |rule| (rule, true));
        let (rule, exception) = rule.strip_prefix("@@").map_or((rule, exempts), |rule| (rule, true));
        let name = name.trim_end_matches('.');
        let covers = match rule.strip_prefix("||").and_then(|rule| rule.strip_suffix('^')) {
            Some(of) => name == of || name.ends_with(&format!(".{of}")),
            None => match rule.strip_prefix("*.") {
                Some(of) => name == of || name.ends_with(&format!(".{of}")),
                None => name == rule,
            },
        };
        covers.then_some(match (exception, important) {
            (false, false) => 1,
            (true, false) => 2,
            (false, true) => 3,
            (true, true) => 4,
        })
    }

    fn name() -> impl Strategy<Value = String> {
        prop::collection::vec("[abc]", 1..5).prop_map(|labels| labels.join("."))
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            name(),
            name().prop_map(|name| format!("*.{name}")),
            (name(), any::<bool>(), any::<bool>()).prop_map(|(name, exempts, important)| {
                let [exempts, important] = [(exempts, "@@"), (important, "$important")]
                    .map(|(is_set, text)| if is_set { text } else { "" });
                format!("{exempts}||{name}^{important}")
            }),
        ]
    }

    proptest! {
        #[test]
        fn lists_decide_as_a_walk_over_all_lines(
            texts in prop::collection::vec((prop::collection::vec(line(), 1..12), any::<bool>()), 1..4),
            names in prop::collection::vec(name(), 1..20),
            kept: bool,
        ) {
            let keys = NameKeys::new(key());
            let mut builder = RuleBuilder::new(keys);
            for (source, (lines, exempts)) in (0..).zip(&texts) {
                let text = lines.join("\n");
                builder.list(SourceId(source), ListFormat::Auto, text.as_bytes(), *exempts).expect("a list");
            }
            let mut rules = builder.build();
            if kept {
                // The same sources in another order, from the snapshot.
                let mut again = RuleBuilder::new(keys);
                for source in 0..texts.len() as u8 {
                    again.keep(SourceId(source + 7), &rules, SourceId(source));
                }
                rules = again.build();
            }
            for name in names {
                let lines = texts.iter().flat_map(|(lines, exempts)| lines.iter().map(move |line| (line, *exempts)));
                let wanted = lines.filter_map(|(line, exempts)| model(line, exempts, &name)).max();
                let found = of_query(&rules, &hashed(&format!("{name}.")), CLIENT, &SourceMask::ALL);
                prop_assert_eq!(found.list.map(|found| rank(found.rule.effect)), wanted, "{}", name);
                prop_assert_eq!(found.rpz, None);
            }
        }
    }

    #[test]
    fn a_source_that_is_not_kept_has_no_rule() {
        let keys = NameKeys::new(key());
        let mut builder = RuleBuilder::new(keys);
        builder.list(SourceId(0), ListFormat::Auto, b"both.example\nfirst.example\n", false).expect("a list");
        builder.list(SourceId(1), ListFormat::Auto, b"both.example\nsecond.example\n", true).expect("a list");
        let before = builder.build();
        let mut again = RuleBuilder::new(keys);
        again.keep(SourceId(5), &before, SourceId(0));
        let rules = again.build();
        let of =
            |name| of_query(&rules, &hashed(name), CLIENT, &SourceMask::ALL).list.map(|found| found.rule);
        let block = RuleEffect::Block { important: false };
        let rule = Rule {
            source: SourceId(5),
            reach: RuleReach::Name,
            effect: block,
            prefix_len: 0,
            condition: ConditionId::NONE,
        };
        assert_eq!((rules.len(), of("both.example."), of("first.example.")), (2, Some(rule), Some(rule)));
        assert_eq!(of("second.example."), None);
    }

    /// The list of the longer name decided, although it came later in the configuration.
    #[test]
    fn of_two_lists_that_block_a_name_the_first_decides() {
        let mut builder = RuleBuilder::new(NameKeys::new(key()));
        builder.list(SourceId(0), ListFormat::Auto, b"||example^\n", false).expect("a list");
        builder
            .list(SourceId(1), ListFormat::Auto, b"||ads.example^\n||b.ads.example^\n", false)
            .expect("a list");
        let rules = builder.build();
        let of = |sources: &SourceMask| {
            let found = of_query(&rules, &hashed("a.b.ads.example."), None, sources).list.expect("blocked");
            (found.rule.source.0, found.skip)
        };
        assert_eq!(of(&SourceMask::ALL), (0, 3));
        assert_eq!(of(&SourceMask::default().with(SourceId(1))), (1, 1), "the longest name of one list");
    }

    #[test]
    fn a_list_that_is_refused_adds_no_rule() {
        let mut builder = RuleBuilder::new(NameKeys::new(key()));
        let text = b"one.example\n<html>\n<body>\n";
        assert!(builder.list(SourceId(0), ListFormat::Auto, text, false).is_err());
        assert!(builder.build().is_empty());
    }
}
