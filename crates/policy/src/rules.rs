//! The rules of all sources in one snapshot, and the rule that decides a query.

use std::fmt;
use std::net::IpAddr;

use wire::hash::{HashKey, HashedName};
use wire::{LowerName, Name, Type};

use crate::list::{self, ListFault, ListFormat, ListReport, MAX_FAULTS};
use crate::names::{NameEntries, NameKeys, NameTable};
use crate::prefixes::{PrefixEntries, PrefixTable, comparable_len};
use crate::rpz::{self, RpzReport, SkippedRecord, Trigger};
use crate::rule::{Effect, Reach, Rule, RuleSets, SetId, SourceId, SourceMask};

/// A record of a response policy zone.
#[derive(Clone, Copy, Debug)]
pub struct PolicyRecord<'z> {
    /// The owner.
    pub owner: LowerName<'z>,
    /// The type.
    pub rtype: Type,
    /// The data; names in it are not compressed.
    pub rdata: &'z [u8],
}

/// Gathers the rules of all sources.
pub struct RuleBuilder {
    keys: NameKeys,
    sets: RuleSets,
    qnames: NameEntries,
    ns_names: NameEntries,
    client_ips: PrefixEntries,
    ips: PrefixEntries,
    ns_ips: PrefixEntries,
}

impl RuleBuilder {
    /// `key` is the hash key of query names.
    pub fn new(key: HashKey) -> Self {
        RuleBuilder {
            keys: NameKeys::new(key),
            sets: RuleSets::default(),
            qnames: NameEntries::default(),
            ns_names: NameEntries::default(),
            client_ips: PrefixEntries::default(),
            ips: PrefixEntries::default(),
            ns_ips: PrefixEntries::default(),
        }
    }

    /// Adds the rules of a response policy zone. Owners that are no triggers are counted.
    pub fn rpz<'z>(
        &mut self,
        source: SourceId,
        apex: LowerName<'_>,
        records: impl IntoIterator<Item = PolicyRecord<'z>>,
    ) -> RpzReport {
        let mut report = RpzReport::default();
        for PolicyRecord { owner, rtype, rdata } in records {
            match rpz::trigger(owner, apex) {
                Ok(None) => {}
                Ok(Some(trigger)) => report.rules += usize::from(self.rpz_rule(source, trigger, rtype, rdata)),
                Err(fault) => {
                    report.faults += 1;
                    if report.first.len() < MAX_FAULTS {
                        report.first.push(SkippedRecord { owner: owner.as_name().to_string(), fault });
                    }
                }
            }
        }
        report
    }

    /// Adds a rule, if the record is one. Returns whether it is.
    fn rpz_rule(&mut self, source: SourceId, trigger: Trigger, rtype: Type, rdata: &[u8]) -> bool {
        // The old form of rpz-passthru. is a CNAME to the name of the trigger.
        let own_name = match &trigger {
            Trigger::Qname(name) if name.reach == Reach::Name => name.name().as_name(),
            _ => Name::ROOT,
        };
        let Some(action) = rpz::action(own_name, rtype, rdata) else { return false };
        let effect = Effect::Rpz(action);
        let of = |reach, prefix_len| Rule { source, reach, effect, prefix_len };
        let RuleBuilder { keys, sets, .. } = self;
        let (names, prefixes) = match trigger {
            Trigger::Qname(name) => (Some((&mut self.qnames, name)), None),
            Trigger::NsDname(name) => (Some((&mut self.ns_names, name)), None),
            Trigger::ClientIp(prefix) => (None, Some((&mut self.client_ips, prefix))),
            Trigger::Ip(prefix) => (None, Some((&mut self.ips, prefix))),
            Trigger::NsIp(prefix) => (None, Some((&mut self.ns_ips, prefix))),
        };
        if let Some((table, name)) = names {
            let set = sets.single(of(name.reach, 0));
            table.push(keys, name.name(), set);
        }
        if let Some((table, prefix)) = prefixes {
            let prefix = prefix.to_canonical();
            let set = sets.single(of(Reach::Name, comparable_len(&prefix)));
            table.push(prefix, set);
        }
        true
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
        let RuleBuilder { keys, sets, qnames, .. } = self;
        let mut entries = NameEntries::default();
        // Most rules of a list differ only in their names.
        let mut last: Option<(Rule, SetId)> = None;
        let report = list::read(text, format, |rule| {
            let effect = match rule.effect {
                Effect::Block { important } if exempts => Effect::Allow { important },
                effect => effect,
            };
            let own = Rule { source, reach: rule.reach, effect, prefix_len: 0 };
            let set = match last {
                Some((rule, set)) if rule == own => set,
                _ => sets.single(own),
            };
            last = Some((own, set));
            entries.push(keys, rule.name, set);
        })?;
        qnames.append(entries);
        Ok(report)
    }

    /// Compiles the rules.
    pub fn build(self) -> Rules {
        let RuleBuilder { keys, mut sets, qnames, ns_names, client_ips, ips, ns_ips } = self;
        let qnames = NameTable::new(qnames, &mut sets);
        let ns_names = NameTable::new(ns_names, &mut sets);
        let [client_ips, ips, ns_ips] =
            [client_ips, ips, ns_ips].map(|entries| PrefixTable::new(entries, &mut sets));
        sets.seal();
        Rules { keys, sets, qnames, ns_names, client_ips, ips, ns_ips }
    }
}

/// The rules of all sources. Immutable; a change of a source makes another one.
pub struct Rules {
    keys: NameKeys,
    sets: RuleSets,
    qnames: NameTable,
    ns_names: NameTable,
    client_ips: PrefixTable,
    ips: PrefixTable,
    ns_ips: PrefixTable,
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
    /// Number of labels that the query name has before the name of the rule; 0 for rules about addresses.
    pub skip: usize,
}

/// The rules that decide a query before it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The rule of the response policy zones, by CLIENT-IP or QNAME.
    pub rpz: Option<Match>,
    /// The rule of the lists.
    pub list: Option<Match>,
}

impl Rules {
    /// Number of names and prefixes that have rules.
    pub fn len(&self) -> usize {
        let names = self.qnames.len() + self.ns_names.len();
        names + self.client_ips.len() + self.ips.len() + self.ns_ips.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of the tables.
    pub fn bytes(&self) -> usize {
        let names = self.qnames.bytes() + self.ns_names.bytes();
        names + self.client_ips.bytes() + self.ips.bytes() + self.ns_ips.bytes()
    }

    /// Returns the rules of `sources` that decide a query by its name and its client's address.
    #[inline]
    pub fn of_query(&self, name: &HashedName, client: IpAddr, sources: &SourceMask) -> Decision {
        let mut decision = Decision { rpz: self.of_client(client, sources), list: None };
        self.qnames.suffixes(&self.keys, name, |skip, set| {
            for rule in self.sets.rules(set) {
                if sources.contains(rule.source) && rule.reach.covers(skip) {
                    decision.take(Match { rule: *rule, skip });
                }
            }
        });
        decision
    }

    /// Returns the rule of a response policy zone for a client's address.
    fn of_client(&self, client: IpAddr, sources: &SourceMask) -> Option<Match> {
        if self.client_ips.len() == 0 {
            return None;
        }
        of_sources(self.sets.rules(self.client_ips.find(client)?), sources)
    }

    /// Returns the rule for an address in an answer (IP).
    pub fn of_answer(&self, address: IpAddr, sources: &SourceMask) -> Option<Match> {
        of_sources(self.sets.rules(self.ips.find(address)?), sources)
    }

    /// Returns the rule for an address of a name server (NSIP).
    pub fn of_server_address(&self, address: IpAddr, sources: &SourceMask) -> Option<Match> {
        of_sources(self.sets.rules(self.ns_ips.find(address)?), sources)
    }

    /// Returns the rule for the name of a name server (NSDNAME).
    pub fn of_server_name(&self, name: &HashedName, sources: &SourceMask) -> Option<Match> {
        let mut decision = Decision::default();
        self.ns_names.suffixes(&self.keys, name, |skip, set| {
            for rule in self.sets.rules(set) {
                if sources.contains(rule.source) && rule.reach.covers(skip) {
                    decision.take(Match { rule: *rule, skip });
                }
            }
        });
        decision.rpz
    }
}

/// Returns the first rule of `sources`; rules are in the order of their sources.
fn of_sources(rules: &[Rule], sources: &SourceMask) -> Option<Match> {
    rules.iter().find(|rule| sources.contains(rule.source)).map(|rule| Match { rule: *rule, skip: 0 })
}

/// The rank of an effect of lists; the highest decides.
fn rank(effect: Effect) -> u8 {
    match effect {
        Effect::Rpz(_) => 0,
        Effect::Block { important: false } => 1,
        Effect::Allow { important: false } => 2,
        Effect::Block { important: true } => 3,
        Effect::Allow { important: true } => 4,
    }
}

impl Decision {
    /// Takes a rule about a name, if it comes before those found so far. Rules come in the order of their
    /// names, the longest first; so among equals the first stays.
    #[inline]
    fn take(&mut self, found: Match) {
        match found.rule.effect {
            // A zone's rules by CLIENT-IP come before its rules by QNAME.
            Effect::Rpz(_) if self.rpz.is_none_or(|now| found.rule.source < now.rule.source) => {
                self.rpz = Some(found);
            }
            Effect::Rpz(_) => {}
            effect if self.list.is_none_or(|now| rank(effect) > rank(now.rule.effect)) => {
                self.list = Some(found);
            }
            _ => {}
        }
    }
}
