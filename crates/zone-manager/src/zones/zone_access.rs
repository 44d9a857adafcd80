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
