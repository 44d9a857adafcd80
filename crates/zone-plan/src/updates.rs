//! Rules of who may change which zone, from the configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use journal::DEFAULT_HISTORY;
use update::{SerialPolicy, UpdatePolicy};
use wire::ZoneName;

use config::updates::{UpdateKeys, rule_of};

/// Rules for updates of one zone, or of all zones of a folder.
#[derive(Debug, Default)]
pub struct ZoneUpdates {
    /// Who may change which records.
    pub policy: UpdatePolicy,
    /// How the serial number of the next version is chosen.
    pub serial: SerialPolicy,
    /// Bytes of older changes to keep.
    pub history: u64,
    /// Longest time from a change to writing the zone file; `None`: it is written only when an operator asks
    /// for it.
    pub write_file_every: Option<Duration>,
}

/// Rules of all zones that may be changed.
#[derive(Debug, Clone, Default)]
pub struct UpdateRules {
    zones: Arc<HashMap<ZoneName, Arc<ZoneUpdates>>>,
}

impl UpdateRules {
    /// Whether no zone may be changed.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Sets the rules of a zone; `None`: the zone may not be changed.
    pub fn set(&mut self, apex: &ZoneName, updates: Option<Arc<ZoneUpdates>>) {
        let zones = Arc::make_mut(&mut self.zones);
        match updates {
            Some(updates) => zones.insert(apex.clone(), updates),
            None => zones.remove(apex),
        };
    }

    /// Returns the zones that may be changed, with their rules.
    pub fn iter(&self) -> impl Iterator<Item = (&ZoneName, &Arc<ZoneUpdates>)> {
        self.zones.iter()
    }

    /// Returns the rules of a zone.
    pub fn get(&self, apex: &ZoneName) -> Option<&Arc<ZoneUpdates>> {
        self.zones.get(apex)
    }
}

/// Makes the rules of zones.
#[derive(Default)]
pub(crate) struct UpdateMaker {
    /// Rules shared by the zones of a template, by the address of the template's keys.
    made: HashMap<*const UpdateKeys, Arc<ZoneUpdates>>,
}

impl UpdateMaker {
    /// Returns the rules of zones with these keys and those of this template; `None` if they may not be
    /// changed.
    pub(crate) fn updates(
        &mut self,
        own: Option<&UpdateKeys>,
        template: Option<&UpdateKeys>,
    ) -> Option<Arc<ZoneUpdates>> {
        let nothing = UpdateKeys::default();
        let silent = own.is_none_or(|own| *own == nothing);
        let shared = template.filter(|_| silent).map(std::ptr::from_ref);
        let (own, template) = (own.unwrap_or(&nothing), template.unwrap_or(&nothing));
        if !own.takes_any() && !template.takes_any() {
            return None;
        }
        Some(match shared.and_then(|at| self.made.get(&at)) {
            Some(made) => Arc::clone(made),
            None => {
                let made = Arc::new(make(own, template));
                shared.and_then(|at| self.made.insert(at, Arc::clone(&made)));
                made
            }
        })
    }
}

fn make(own: &UpdateKeys, template: &UpdateKeys) -> ZoneUpdates {
    let rules = own.update_policy.value.as_ref().or(template.update_policy.value.as_ref());
    let grants = own.allow_update.value.as_ref().or(template.allow_update.value.as_ref());
    let rules = rules.into_iter().flatten().map(|rule| rule.value.clone());
    let grants = grants.into_iter().flatten().map(|grant| rule_of(&grant.value));
    let size = own.journal_size.value.as_ref().or(template.journal_size.value.as_ref());
    ZoneUpdates {
        policy: UpdatePolicy::new(rules.chain(grants)),
        serial: own.serial_policy.value.or(template.serial_policy.value).unwrap_or_default(),
        history: size.map_or(DEFAULT_HISTORY, |size| size.0 as u64),
        write_file_every: own.write_file_every.value.or(template.write_file_every.value).map(|every| every.0),
    }
}
