//! Rules of who may transfer which zone, from the configuration.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use transfer::tsig::{TsigKey, TsigKeys};
use wire::{LowerNameBuf, ZoneName};

use config::Configuration;
use config::peers::PeerKeys;
use config::report::{ConfigPlace, Diagnostic};
use config::table::read::At;
use config::transfers::TransferGrant;
use config::updates::UpdateKeys;
use wording::did_you_mean;

/// The grants of one zone, or of all zones of a folder.
pub type Grants = Arc<[TransferGrant]>;

/// Who may transfer which zone, and the keys that identify clients.
#[derive(Debug, Clone, Default)]
pub struct TransferRules {
    /// The keys.
    pub keys: Arc<TsigKeys>,
    /// The zones that may be transferred, each with its grants.
    zones: Arc<HashMap<ZoneName, Grants>>,
}

impl TransferRules {
    /// Whether a client at `address` whose request `key` has signed may transfer the zone `apex`, in
    /// lower-case wire form.
    pub fn allow(&self, apex: &[u8], address: IpAddr, key: Option<&TsigKey>) -> bool {
        self.zones.get(apex).is_some_and(|grants| grants.iter().any(|grant| grant.fits(address, key)))
    }

    /// Sets the grants of a zone; `None`: no client may transfer it.
    pub fn set(&mut self, apex: &ZoneName, grants: Option<Grants>) {
        match grants {
            Some(grants) => drop(Arc::make_mut(&mut self.zones).insert(apex.clone(), grants)),
            None if self.zones.contains_key(apex) => drop(Arc::make_mut(&mut self.zones).remove(apex)),
            None => {}
        }
    }
}

/// Builds the rules while the zones of a configuration are found.
pub struct RuleMaker {
    keys: Arc<TsigKeys>,
    zones: HashMap<ZoneName, Grants>,
    /// Grants shared by many zones, by the address of their list.
    made: HashMap<*const At<TransferGrant>, Grants>,
}

impl RuleMaker {
    /// Returns rules without zones. Checks that all named keys are among `keys`.
    pub fn new(config: &Configuration, keys: TsigKeys, faults: &mut Vec<Diagnostic>) -> RuleMaker {
        let zones = || config.zones.iter().chain(&config.added);
        let of_zones = zones().map(|zone| &zone.allow_transfer);
        let all = of_zones.chain(config.templates.values().map(|template| &template.allow_transfer));
        for grant in all.flat_map(|list| list.value.iter().flatten()) {
            faults.extend(grant.value.key().and_then(|key| unknown_key(key, grant.place.as_ref(), &keys)));
        }
        let of_zones = zones().map(|zone| &*zone.peers);
        let peers = of_zones.chain(config.templates.values().map(|template| &template.peers));
        let of_zones = config.zones.iter().map(|zone| &*zone.updates);
        let updates = of_zones.chain(config.templates.values().map(|template| &template.updates));
        let of_root = config.settings.recursive();
        let of_root = of_root.iter().flat_map(|recursive| recursive.local_root_keys());
        let named = peers.flat_map(PeerKeys::keys).chain(updates.flat_map(UpdateKeys::keys));
        for key in named.chain(of_root) {
            faults.extend(unknown_key(&key.value, key.place.as_ref(), &keys));
        }
        RuleMaker { keys: Arc::new(keys), zones: HashMap::new(), made: HashMap::new() }
    }

    /// Allows the clients in the list to transfer this zone.
    pub fn allow(&mut self, apex: &ZoneName, list: Option<&Vec<At<TransferGrant>>>) {
        if let Some(grants) = self.grants(list) {
            self.zones.insert(apex.clone(), grants);
        }
    }

    /// Returns the grants of a list.
    pub fn grants(&mut self, list: Option<&Vec<At<TransferGrant>>>) -> Option<Grants> {
        let list = list?;
        Some(Arc::clone(self.made.entry(list.as_ptr()).or_insert_with(|| grants(list))))
    }

    /// Returns the keys.
    pub fn keys(&self) -> &Arc<TsigKeys> {
        &self.keys
    }

    /// Returns the rules.
    pub fn made(self) -> TransferRules {
        TransferRules { keys: self.keys, zones: Arc::new(self.zones) }
    }
}

/// Returns the grants of a list, in a new allocation.
pub fn grants(list: &[At<TransferGrant>]) -> Grants {
    list.iter().map(|grant| grant.value.clone()).collect()
}

/// Returns a fault if a key does not exist.
pub fn unknown_key(name: &LowerNameBuf, place: Option<&ConfigPlace>, keys: &TsigKeys) -> Option<Diagnostic> {
    if keys.get(name.as_lower()).is_some() {
        return None;
    }
    let text = |name: wire::LowerName<'_>| name.as_name().to_string();
    let wanted = text(name.as_lower());
    let fault = Diagnostic::at(place, format!("there is no key {wanted}"));
    let known: Vec<String> = keys.iter().map(|key| text(key.name())).collect();
    Some(match did_you_mean(&wanted, known.iter().map(String::as_str)) {
        Some(near) => fault.hint(format!("did you mean \"key:{near}\"?")),
        None => fault,
    })
}
