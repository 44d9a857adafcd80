//! Rules of how zones change, from the configuration: who may change which zone, and which ones are signed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use journal::DEFAULT_HISTORY;
use update::{SerialPolicy, UpdatePolicy};
use wire::ZoneName;

use config::dnssec_policy::DnssecPolicies;
use config::peers::PeerKeys;
use config::signing::ZoneSigningKeys;
use config::updates::{DelegationUpdate, UpdateKeys, rule_of};

use crate::peers::PeerMaker;
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
    /// What its child zones may change; `None`: nothing.
    pub delegations: Option<DelegationRules>,
}

/// What child zones may change of their delegations, and when they are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationRules {
    /// The DS RRset, by CDS and CDNSKEY.
    pub cds: bool,
    /// The first DS RRset of an unsigned delegation.
    pub bootstrap: bool,
    /// NS records and glue, by CSYNC.
    pub csync: bool,
    /// How often the servers of each are asked; `None`: only after a NOTIFY, or by command.
    pub scan_every: Option<Duration>,
    /// Whether NOTIFY is taken.
    pub notify: bool,
    /// The zone is not changed.
    pub dry_run: bool,
}

impl DelegationRules {
    /// Whether the child may change its DS RRset, or have the first one set.
    pub fn changes_ds(&self) -> bool {
        self.cds || self.bootstrap
    }
}

impl ZoneUpdates {
    /// Whether any client or program may change the zone.
    pub fn takes_any(&self) -> bool {
        self.api || !self.policy.is_empty()
    }

    /// Whether clients, programs or child zones may change the zone.
    pub fn changes_here(&self) -> bool {
        self.takes_any() || self.delegations.is_some()
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
    /// Its other servers: some of them change its DS records.
    pub(crate) peers: &'k PeerKeys,
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
    /// updated nor signed. `taken`: they are secondary zones, which no client may update. `servers` makes the
    /// servers that change DS records.
    pub(crate) fn updates(
        &mut self,
        own: Option<ChangeKeys<'_>>,
        template: Option<ChangeKeys<'_>>,
        taken: bool,
        servers: &mut PeerMaker<'_>,
    ) -> Option<Arc<ZoneUpdates>> {
        let (updates, signing, peers) =
            (UpdateKeys::default(), ZoneSigningKeys::default(), PeerKeys::default());
        let nothing = ChangeKeys { updates: &updates, signing: &signing, peers: &peers };
        // The zone's own sources and files may be those of the servers that its template names.
        let pushes = template.is_some_and(|template| template.peers.ds_push.is_some());
        let silent = own.is_none_or(|own| {
            let has_servers = own.peers.ds_push.is_some() || pushes && *own.peers != peers;
            *own.updates == updates && *own.signing == signing && !has_servers
        });
        let at = template.filter(|_| silent).map(|template| (std::ptr::from_ref(template.updates), taken));
        if let Some(made) = at.and_then(|at| self.made.get(&at)) {
            return made.clone();
        }
        let (own, template) = (own.unwrap_or(nothing), template.unwrap_or(nothing));
        let made = self.make(own, template, taken, servers).map(Arc::new);
        at.and_then(|at| self.made.insert(at, made.clone()));
        made
    }

    /// Returns the rules of zones of the database with the keys of this template. Programs may change them
    /// unless the template has `api = false`; `read_only`: they are not changed here.
    pub(crate) fn of_database(
        &mut self,
        template: Option<ChangeKeys<'_>>,
        read_only: bool,
        servers: &mut PeerMaker<'_>,
    ) -> Option<Arc<ZoneUpdates>> {
        let made = self.updates(None, template, read_only, servers);
        let api = !read_only && template.is_none_or(|keys| keys.updates.api.value != Some(false));
        let rules = made.as_deref();
        Some(Arc::new(ZoneUpdates {
            policy: rules.map(|rules| rules.policy.clone()).unwrap_or_default(),
            serial: rules.map(|rules| rules.serial).unwrap_or_default(),
            history: rules.map_or(DEFAULT_HISTORY, |rules| rules.history),
            write_file_every: None,
            api,
            signing: rules.and_then(|rules| rules.signing.clone()).filter(|_| !read_only),
            delegations: rules.and_then(|rules| rules.delegations),
        }))
    }

    fn make(
        &mut self,
        own: ChangeKeys<'_>,
        template: ChangeKeys<'_>,
        taken: bool,
        servers: &mut PeerMaker<'_>,
    ) -> Option<ZoneUpdates> {
        let ds_push = || servers.ds_push(own.peers, template.peers);
        let signing = self.signing.signing(own.signing, template.signing, ds_push);
        let (own, template) = (own.updates, template.updates);
        let has_rules = !taken && (own.has_rules() || template.has_rules());
        let api = !taken && own.api.value.or(template.api.value).unwrap_or(false);
        let delegations = delegation_rules(own, template).filter(|_| !taken);
        if !has_rules && !api && signing.is_none() && delegations.is_none() {
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
            delegations,
        })
    }
}

/// How often the servers of a delegation are asked, unless the configuration has another interval.
const DEFAULT_SCAN: Duration = Duration::from_secs(86_400);

/// Returns what child zones may change.
fn delegation_rules(own: &UpdateKeys, template: &UpdateKeys) -> Option<DelegationRules> {
    let updates = own.delegation_updates.value.as_ref().or(template.delegation_updates.value.as_ref())?;
    let has = |wanted| updates.iter().any(|update| update.value == wanted);
    let rules = DelegationRules {
        cds: has(DelegationUpdate::Cds),
        bootstrap: has(DelegationUpdate::Bootstrap),
        csync: has(DelegationUpdate::Csync),
        scan_every: own
            .delegation_scan
            .value
            .or(template.delegation_scan.value)
            .map_or(Some(DEFAULT_SCAN), |every| Some(every.0).filter(|every| !every.is_zero())),
        notify: own.delegation_notify.value.or(template.delegation_notify.value).unwrap_or(true),
        dry_run: own.delegation_dry_run.value.or(template.delegation_dry_run.value).unwrap_or(false),
    };
    (rules.changes_ds() || rules.csync).then_some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(own: &str, template: &str) -> Option<DelegationRules> {
        let text = format!(
            "[resolver]\n[server]\nstate-dir = \"/state\"\n[template.t]\nfile = \"x/{{zone}}\"\n{template}\n[[zone]]\nname = \"example\"\n\
             template = \"t\"\n{own}\n"
        );
        let read =
            config::read_text("test", text, std::path::Path::new("/")).unwrap_or_else(|e| panic!("{e}"));
        delegation_rules(&read.config.zones[0].updates, &read.config.templates["t"].updates)
    }

    #[test]
    fn the_keys_of_the_zone_take_precedence_over_those_of_the_template() {
        let day = Some(Duration::from_secs(86_400));
        let usual = DelegationRules {
            cds: true,
            bootstrap: false,
            csync: false,
            scan_every: day,
            notify: true,
            dry_run: false,
        };
        assert_eq!(rules("", ""), None);
        assert_eq!(rules("delegation-updates = [\"cds\"]", ""), Some(usual));
        assert_eq!(rules("", "delegation-updates = [\"cds\"]"), Some(usual));
        assert_eq!(rules("delegation-updates = [\"none\"]", "delegation-updates = [\"cds\"]"), None);
        let own = "delegation-scan = \"0s\"\ndelegation-dry-run = true\ndelegation-notify = false";
        let template = "delegation-updates = [\"bootstrap\"]\ndelegation-scan = \"1h\"";
        let all = DelegationRules {
            cds: false,
            bootstrap: true,
            csync: false,
            scan_every: None,
            notify: false,
            dry_run: true,
        };
        assert_eq!(rules(own, template), Some(all));
        let csync = DelegationRules { cds: false, csync: true, ..usual };
        assert_eq!(rules("delegation-updates = [\"csync\"]", ""), Some(csync));
    }
}
