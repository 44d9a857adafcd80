//! The access rules of the zones in service: numbers of rules, and the zones that have them. Used by the
//! publishing thread only.
//!
//! Rules are in force before the zone that has them, and no longer than the zone needs them: new and
//! changed ones count at once, and a zone loses its rules only with a catalog that contains all steps
//! before, since it may be one that is about to be removed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::query_access::zone_access;
use query_path::{Engine, QueryAccess, ZoneAccess};
use serving::frontend::Served;
use wire::ZoneName;
use zone::catalog::ZoneEntry;
use zone_plan::{QueryGrants, ZoneQueries};

/// Returns the entry of a zone in service.
pub(super) type EntryOf<'a> = &'a dyn Fn(&ZoneName) -> Option<ZoneEntry>;

/// The access rules of zones.
#[derive(Default)]
pub(super) struct ZoneRules {
    /// Those of the configuration and of the members of catalog zones.
    wanted: ZoneQueries,
    /// The number of the rules in force for each zone that has some.
    numbers: HashMap<ZoneName, u32>,
    /// The rules that have a number.
    known: HashMap<QueryGrants, u32>,
    table: ZoneAccess,
    /// Zones that lose their rules with the next catalog.
    freed: HashSet<ZoneName>,
    /// Whether the engine has not received the newest rules.
    is_new: bool,
}

impl ZoneRules {
    /// Takes the rules of all zones. Zones that have none any more keep theirs until
    /// [`settle`](Self::settle).
    pub(super) fn set(&mut self, wanted: ZoneQueries, engine: &Engine<Served>, entry_of: EntryOf<'_>) {
        self.wanted = wanted;
        let all: Vec<(ZoneName, QueryGrants)> =
            self.wanted.iter().map(|(apex, grants)| (apex.clone(), Arc::clone(grants))).collect();
        self.take(all, engine, entry_of);
    }

    /// Takes the rules of some zones; `None`: the zone has none any more.
    pub(super) fn change(
        &mut self,
        changes: Vec<(ZoneName, Option<QueryGrants>)>,
        engine: &Engine<Served>,
        entry_of: EntryOf<'_>,
    ) {
        let mut all = Vec::new();
        for (apex, grants) in changes {
            self.wanted.set(&apex, grants.clone());
            match grants {
                Some(grants) => all.push((apex, grants)),
                None if self.numbers.contains_key(&apex) => drop(self.freed.insert(apex)),
                None => {}
            }
        }
        self.take(all, engine, entry_of);
    }

    /// Frees the zones that are in no rules any more. Returns whether the next catalog is needed for it.
    pub(super) fn settle(&mut self) -> bool {
        let unwanted = self.numbers.keys().filter(|apex| self.wanted.get(apex).is_none());
        self.freed.extend(unwanted.cloned());
        self.has_freed()
    }

    /// Whether no zone has rules.
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether zones lose their rules with the next catalog.
    pub(super) fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Puts rules of zones into force, for those in service at once.
    fn take(&mut self, zones: Vec<(ZoneName, QueryGrants)>, engine: &Engine<Served>, entry_of: EntryOf<'_>) {
        let numbered: Vec<(ZoneName, u32)> =
            zones.into_iter().map(|(apex, grants)| (apex, self.number(grants))).collect();
        self.hand_over(engine);
        for (apex, number) in numbered {
            if let Some(entry) = entry_of(&apex) {
                entry.set_access(number);
            }
            self.numbers.insert(apex, number);
        }
    }

    /// Returns the number of rules.
    fn number(&mut self, grants: QueryGrants) -> u32 {
        if let Some(number) = self.known.get(&grants) {
            return *number;
        }
        // The check of the configuration has ensured that there are not too many.
        let rules = zone_access(&*grants).or_else(|_| QueryAccess::new(&[]));
        let number = rules.map_or(u32::MAX, |rules| self.table.add(rules));
        self.known.insert(grants, number);
        self.is_new = true;
        number
    }

    fn hand_over(&mut self, engine: &Engine<Served>) {
        if std::mem::take(&mut self.is_new) {
            let table = Arc::new(self.table.clone());
            engine.change_memory(|served| served.first.access = Some(Arc::clone(&table)));
        }
    }

    /// Sets the rules of zones that are about to go into service, in the catalog that has them.
    pub(super) fn before_service<'z>(
        &self,
        zones: impl Iterator<Item = &'z ZoneName>,
        entry_of: EntryOf<'_>,
    ) {
        for apex in zones {
            let entry = self.numbers.get(apex).and_then(|number| Some((*number, entry_of(apex)?)));
            entry.into_iter().for_each(|(number, entry)| entry.set_access(number));
        }
    }

    /// Removes the rules of zones that have none any more. All steps before are in service.
    pub(super) fn once_in_service(&mut self, engine: &Engine<Served>, entry_of: EntryOf<'_>) {
        if self.freed.is_empty() {
            return;
        }
        for apex in std::mem::take(&mut self.freed) {
            if self.wanted.get(&apex).is_none() && self.numbers.remove(&apex).is_some() {
                entry_of(&apex).into_iter().for_each(|entry| entry.set_access(0));
            }
        }
        if self.numbers.is_empty() && !self.known.is_empty() {
            // Queries do not pay for rules that no zone has.
            self.is_new = true;
            engine.change_memory(|served| served.first.access = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use config::query_access::QueryGrant;
    use query_path::{EngineConfig, Sources, Zones};
    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::catalog::{Catalog, Change};

    use super::*;
    use crate::zones::publisher::Publisher;

    /// A publisher, and the zones `a.`, `b.` and `c.` in service without data.
    fn publisher() -> (Publisher, Arc<Engine<Served>>) {
        let zones = serving::frontend::serving(Zones::new(Arc::new(Catalog::new(&HashKey::new([1, 2, 3])))));
        let engine = Arc::new(Engine::new(zones, Sources::default(), EngineConfig::default()));
        let mut publisher = Publisher::new(Arc::clone(&engine));
        ["a.", "b.", "c."].iter().for_each(|zone| add(&mut publisher, zone));
        publish(&mut publisher);
        (publisher, engine)
    }

    fn add(publisher: &mut Publisher, zone: &str) {
        publisher.add(apex(zone), Change::Unload(Box::new(name(zone))), Instant::now());
    }

    fn publish(publisher: &mut Publisher) {
        publisher.publish().expect("zones of the engine's key");
    }

    fn name(zone: &str) -> NameBuf {
        zone.parse().expect("a name")
    }

    fn apex(zone: &str) -> ZoneName {
        name(zone).as_name().into()
    }

    fn grants(text: &[&str]) -> QueryGrants {
        text.iter().map(|grant| grant.parse::<QueryGrant>().expect("a grant")).collect()
    }

    fn queries(zones: &[(&str, &[&str])]) -> ZoneQueries {
        let mut queries = ZoneQueries::default();
        zones.iter().for_each(|(zone, text)| queries.set(&apex(zone), Some(grants(text))));
        queries
    }

    /// The number of the rules of a zone in service; 0 for none.
    fn number(engine: &Engine<Served>, zone: &str) -> u32 {
        engine.catalog().get(name(zone).as_name()).expect("a zone in service").access()
    }

    #[test]
    fn rules_of_zones_in_service_count_at_once_and_equal_ones_have_one_number() {
        let (mut publisher, engine) = publisher();
        publisher.set_queries(queries(&[
            ("a.", &["192.0.2.0/24"]),
            ("b.", &["192.0.2.0/24"]),
            ("c.", &["!192.0.2.0/24", "any"]),
        ]));
        let [a, b, c] = ["a.", "b.", "c."].map(|zone| number(&engine, zone));
        assert!(a != 0 && c != 0, "{a} {c}");
        assert_eq!(a, b);
        assert_ne!(a, c);
        publisher.change_queries(vec![(apex("a."), Some(grants(&["!192.0.2.0/24", "any"])))], Instant::now());
        assert_eq!(number(&engine, "a."), c);
    }

    #[test]
    fn a_new_zone_has_its_rules_when_it_comes_into_service() {
        let (mut publisher, engine) = publisher();
        publisher.set_queries(queries(&[("new.", &["192.0.2.0/24"])]));
        add(&mut publisher, "new.");
        publish(&mut publisher);
        assert_ne!(number(&engine, "new."), 0);
        // So has the next version of it.
        add(&mut publisher, "new.");
        publish(&mut publisher);
        assert_ne!(number(&engine, "new."), 0);
        assert_eq!(number(&engine, "a."), 0);
    }

    /// A zone that is removed from the configuration is in service until the next catalog, and may still be
    /// one of few clients.
    #[test]
    fn a_zone_loses_its_rules_only_with_the_next_catalog() {
        let (mut publisher, engine) = publisher();
        publisher.set_queries(queries(&[("a.", &["192.0.2.0/24"]), ("b.", &["192.0.2.0/24"])]));
        publisher.set_queries(queries(&[("b.", &["192.0.2.0/24"])]));
        assert_ne!(number(&engine, "a."), 0, "not yet settled");
        publisher.settle_queries(Instant::now());
        assert_ne!(number(&engine, "a."), 0, "not yet published");
        assert!(publisher.deadline().is_some());
        publish(&mut publisher);
        assert_eq!(number(&engine, "a."), 0);
        assert_ne!(number(&engine, "b."), 0);
    }

    #[test]
    fn rules_that_come_back_before_the_next_catalog_stay() {
        let (mut publisher, engine) = publisher();
        let own = grants(&["192.0.2.0/24"]);
        let now = Instant::now();
        publisher.change_queries(vec![(apex("a."), Some(Arc::clone(&own)))], now);
        publisher.change_queries(vec![(apex("a."), None)], now);
        publisher.change_queries(vec![(apex("a."), Some(own))], now);
        publish(&mut publisher);
        assert_ne!(number(&engine, "a."), 0);
        publisher.change_queries(vec![(apex("a."), None), (apex("c."), None)], now);
        publish(&mut publisher);
        assert_eq!(number(&engine, "a."), 0);
    }
}
