//! Rules of how zones change, from the configuration: who may change which zone, and which ones are signed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use journal::DEFAULT_HISTORY;
use update::{SerialPolicy, UpdatePolicy};
use wire::ZoneName;

use config::dnssec_policy::DnssecPolicies;
use config::signing::ZoneSigningKeys;
use config::updates::{UpdateKeys, rule_of};

use crate::signing::{SigningMaker, ZoneSigning};

/// Rules for changes of one zone, or of all zones of a folder: zones that clients may update, and zones that
/// nomen signs.
#[derive(Debug, Default)]
pub struct ZoneUpdates {
    /// Who may change which records; without rules for a zone that is signed and takes no updates.
    pub policy: UpdatePolicy,
    /// How the serial number of the next version is chosen.
    pub serial: SerialPolicy,
    /// Bytes of older changes to keep.
    pub history: u64,
    /// Longest time from a change to writing the zone file; `None`: it is written only when an operator asks
    /// for it.
    pub write_file_every: Option<Duration>,
    /// Whether programs may change the zone through the HTTP API.
    pub api: bool,
    /// How the zone is signed; `None`: it is served as it is.
    pub signing: Option<Arc<ZoneSigning>>,
}

impl ZoneUpdates {
    /// Whether any client or program may change the zone.
    pub fn takes_any(&self) -> bool {
        self.api || !self.policy.is_empty()
    }

    /// Whether nomen signs the zone.
    pub fn is_signed(&self) -> bool {
        self.signing.is_some()
    }
}

/// Rules of all zones that may be updated or are signed.
#[derive(Debug, Clone, Default)]
pub struct UpdateRules {
    zones: Arc<HashMap<ZoneName, Arc<ZoneUpdates>>>,
}

impl UpdateRules {
    /// Whether no zone has rules.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Sets the rules of a zone; `None`: it is neither updated nor signed.
    pub fn set(&mut self, apex: &ZoneName, updates: Option<Arc<ZoneUpdates>>) {
        let zones = Arc::make_mut(&mut self.zones);
        match updates {
            Some(updates) => zones.insert(apex.clone(), updates),
            None => zones.remove(apex),
        };
    }

    /// Returns the zones that may be updated or are signed, with their rules.
    pub fn iter(&self) -> impl Iterator<Item = (&ZoneName, &Arc<ZoneUpdates>)> {
        self.zones.iter()
    }

    /// Returns the rules of a zone.
    pub fn get(&self, apex: &ZoneName) -> Option<&Arc<ZoneUpdates>> {
        self.zones.get(apex)
    }
}

/// The keys of a zone or of a template about changes.
#[derive(Clone, Copy)]
pub(crate) struct ChangeKeys<'k> {
    /// Who may change it.
    pub(crate) updates: &'k UpdateKeys,
    /// How it is signed.
    pub(crate) signing: &'k ZoneSigningKeys,
}

/// Makes the rules of zones.
pub(crate) struct UpdateMaker<'c> {
    signing: SigningMaker<'c>,
    /// Rules shared by the zones of a template, by the address of the template's keys and whether the zones
    /// are secondary zones.
    made: HashMap<(*const UpdateKeys, bool), Option<Arc<ZoneUpdates>>>,
}

impl<'c> UpdateMaker<'c> {
    /// Returns a maker with these policies.
    pub(crate) fn new(policies: &'c DnssecPolicies) -> Self {
        UpdateMaker { signing: SigningMaker::new(policies), made: HashMap::new() }
    }

    /// Returns the rules of zones with these keys and those of this template; `None` if they are neither
    /// updated nor signed. `taken`: they are secondary zones, which no client may update.
    pub(crate) fn updates(
        &mut self,
        own: Option<ChangeKeys<'_>>,
        template: Option<ChangeKeys<'_>>,
        taken: bool,
    ) -> Option<Arc<ZoneUpdates>> {
        let (updates, signing) = (UpdateKeys::default(), ZoneSigningKeys::default());
        let nothing = ChangeKeys { updates: &updates, signing: &signing };
        let silent = own.is_none_or(|own| *own.updates == updates && *own.signing == signing);
        let at = template.filter(|_| silent).map(|template| (std::ptr::from_ref(template.updates), taken));
        if let Some(made) = at.and_then(|at| self.made.get(&at)) {
            return made.clone();
        }
        let made = self.make(own.unwrap_or(nothing), template.unwrap_or(nothing), taken).map(Arc::new);
        at.and_then(|at| self.made.insert(at, made.clone()));
        made
    }

    /// Returns the rules of zones of the database with the keys of this template. Programs may change them
    /// unless the template has `api = false`; `read_only`: they are not changed here.
    pub(crate) fn of_database(
        &mut self,
        template: Option<ChangeKeys<'_>>,
        read_only: bool,
    ) -> Option<Arc<ZoneUpdates>> {
        let made = self.updates(None, template, read_only);
        let api = !read_only && template.is_none_or(|keys| keys.updates.api.value != Some(false));
        let rules = made.as_deref();
        Some(Arc::new(ZoneUpdates {
            policy: rules.map(|rules| rules.policy.clone()).unwrap_or_default(),
            serial: rules.map(|rules| rules.serial).unwrap_or_default(),
            history: rules.map_or(DEFAULT_HISTORY, |rules| rules.history),
            write_file_every: None,
            api,
            signing: None,
        }))
    }

    fn make(&mut self, own: ChangeKeys<'_>, template: ChangeKeys<'_>, taken: bool) -> Option<ZoneUpdates> {
        let signing = self.signing.signing(own.signing, template.signing);
        let (own, template) = (own.updates, template.updates);
        let has_rules = !taken && (own.has_rules() || template.has_rules());
        let api = !taken && own.api.value.or(template.api.value).unwrap_or(false);
        if !has_rules && !api && signing.is_none() {
            return None;
        }
        let rules = own.update_policy.value.as_ref().or(template.update_policy.value.as_ref());
        let grants = own.allow_update.value.as_ref().or(template.allow_update.value.as_ref());
        let rules = rules.into_iter().flatten().map(|rule| rule.value.clone());
        let grants = grants.into_iter().flatten().map(|grant| rule_of(&grant.value));
        let size = own.journal_size.value.as_ref().or(template.journal_size.value.as_ref());
        Some(ZoneUpdates {
            policy: UpdatePolicy::new(rules.chain(grants).filter(|_| has_rules)),
            serial: own.serial_policy.value.or(template.serial_policy.value).unwrap_or_default(),
            history: size.map_or(DEFAULT_HISTORY, |size| size.0 as u64),
            write_file_every: own
                .write_file_every
                .value
                .or(template.write_file_every.value)
                .map(|every| every.0),
            api,
            signing,
        })
    }
}
