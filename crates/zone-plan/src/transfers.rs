//! Rules of who may transfer which zone, from the configuration.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use transfer::tsig::{TsigKey, TsigKeys};
use transport::{CertificateRule, ClientCertificate};
use wire::{LowerNameBuf, ZoneName};

use config::Configuration;
use config::peers::PeerKeys;
use config::query_access::ZoneAccessKeys;
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
    /// Returns rules without zones.
    pub(crate) fn new(keys: &Arc<TsigKeys>) -> TransferRules {
        TransferRules { keys: Arc::clone(keys), zones: Arc::default() }
    }

    /// Whether a client at `address` whose request `key` has signed, and that has shown `certificate`, may
    /// transfer the zone `apex`.
    pub fn allow(
        &self,
        apex: &ZoneName,
        address: IpAddr,
        key: Option<&TsigKey>,
        certificate: Option<&ClientCertificate>,
    ) -> bool {
        let fits = |grant: &TransferGrant| grant.fits(address, key, certificate);
        self.zones.get(apex).is_some_and(|grants| grants.iter().any(fits))
    }

    /// Returns the grants of a zone.
    pub fn get(&self, apex: &ZoneName) -> Option<&Grants> {
        self.zones.get(apex)
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

/// Makes the grants of zones.
#[derive(Default)]
pub(crate) struct GrantMaker {
    /// Grants shared by many zones, by the address of their list.
    made: HashMap<*const At<TransferGrant>, Grants>,
}

impl GrantMaker {
    /// Returns the grants of a list.
    pub(crate) fn grants(&mut self, list: Option<&Vec<At<TransferGrant>>>) -> Option<Grants> {
        let list = list?;
        let grants = || list.iter().map(|grant| grant.value.clone()).collect();
        Some(Arc::clone(self.made.entry(list.as_ptr()).or_insert_with(grants)))
    }
}

/// Returns a fault for each key that a configuration names and that is not among `keys`.
pub(crate) fn unknown_keys(config: &Configuration, keys: &TsigKeys) -> Vec<Diagnostic> {
    let zones = || config.zones.iter().chain(&config.added);
    let of_zones = zones().map(|zone| &zone.allow_transfer);
    let all = of_zones.chain(config.templates.values().map(|template| &template.allow_transfer));
    let grants = all.flat_map(|list| list.value.iter().flatten());
    let of_grants = grants.filter_map(|grant| unknown_key(grant.value.key()?, grant.place.as_ref(), keys));
    let of_zones = zones().map(|zone| &*zone.peers);
    let peers = of_zones.chain(config.templates.values().map(|template| &template.peers));
    let of_zones = config.zones.iter().map(|zone| &*zone.updates);
    let updates = of_zones.chain(config.templates.values().map(|template| &template.updates));
    let of_root = config.settings.recursive();
    let of_root = of_root.iter().flat_map(|recursive| recursive.local_root_keys());
    let of_zones = zones().map(|zone| &*zone.access);
    let access = of_zones.chain(config.templates.values().map(|template| &template.access));
    let named = peers.flat_map(PeerKeys::keys).chain(updates.flat_map(UpdateKeys::keys)).chain(of_root);
    let named = named.chain(access.flat_map(ZoneAccessKeys::keys));
    let views = config.settings.views.iter().flat_map(|view| view.keys());
    let of_views = views.filter_map(|(key, place)| unknown_key(key, place, keys));
    let of_others = named.filter_map(|key| unknown_key(&key.value, key.place.as_ref(), keys));
    let of_groups = config.settings.group_keys().filter_map(|(key, place)| unknown_key(&key, place, keys));
    let of_access = config.settings.access_keys().filter_map(|(key, place)| unknown_key(key, place, keys));
    of_grants.chain(of_others).chain(of_views).chain(of_groups).chain(of_access).collect()
}

/// Returns a fault for each certificate that an access rule names and that clients are not asked for.
pub(crate) fn unasked_certificates(config: &Configuration) -> Vec<Diagnostic> {
    let keys = &config.settings.server.client_certificates;
    let zones = config.zones.iter().chain(&config.added).map(|zone| &zone.value);
    let of_zones = zones.map(|zone| (&zone.allow_transfer, &*zone.peers, &*zone.updates));
    let templates = config.templates.values();
    let of_templates = templates.map(|of| (&of.allow_transfer, &of.peers, &of.updates));
    let mut faults = Vec::new();
    for (transfers, peers, updates) in of_zones.chain(of_templates) {
        let grants = transfers.value.iter().flatten().chain(peers.grants()).chain(updates.grants());
        let of_grants = grants.map(|grant| (grant.value.certificate(), grant.place.as_ref()));
        let rules = updates.update_policy.value.iter().flatten();
        let of_rules = rules.map(|rule| (rule.value.client.certificate.as_ref(), rule.place.as_ref()));
        for (certificate, place) in of_grants.chain(of_rules) {
            let (message, hint) = match certificate {
                Some(CertificateRule::Name(_)) if !keys.verifies_names() => {
                    ("no name in a certificate is verified", "set `client-ca-file` in [server]")
                }
                Some(CertificateRule::Pin(_)) if !keys.asks() => (
                    "clients are not asked for a certificate",
                    "set `client-certificates = true` in [server]",
                ),
                _ => continue,
            };
            faults.push(Diagnostic::at(place, format!("`cert:` has no effect: {message}")).hint(hint));
        }
    }
    faults
}

/// Returns a fault if a key does not exist.
pub(crate) fn unknown_key(
    name: &LowerNameBuf,
    place: Option<&ConfigPlace>,
    keys: &TsigKeys,
) -> Option<Diagnostic> {
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
