//! `[[zone]]` and `[template.X]`: the zones and the paths of their files. Reads no zone file and no folder;
//! `zones` of `zone-manager` does that.

mod catalogs;
mod ds_push;
pub mod pattern;
mod signing;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use wire::{NameBuf, ViewName, ZoneName};

use super::catalogs::{CatalogKeys, ListingKeys};
use super::dnssec_policy::DnssecPolicies;
use super::peers::PeerKeys;
use super::query_access::ZoneAccessKeys;
use super::report::Diagnostic;
use super::signing::ZoneSigningKeys;
use super::table::keys;
use super::table::rare::Rare;
use super::table::read::At;
use super::table::value::Share;
use super::transfers::TransferGrant;
use super::updates::UpdateKeys;
use ds_push::PushKeys;
use pattern::{FilePattern, PathPattern};
use wording::did_you_mean;

use super::zone_name::{ZoneNameFault, zone_name};

keys! {
    /// A zone to serve, read from a master file (RFC 1035 §5) or taken from other servers.
    pub struct ConfiguredZone in "[[zone]]" {
        /// Name of the zone, such as "example.com"; "." is the root zone.
        live "name" name: NameBuf, example "example.com";
        /// View of the clients for which the zone is served. Unset: all clients, but those of views that have
        /// a zone of the same name.
        live "view" view: Option<ViewName> = None, example "inside";
        /// Its master file. Not needed if the template has `file`, or if the zone or its template has
        /// `primaries`.
        live "file" file: Option<PathBuf> = None, example "zones/example.com.zone";
        /// Template whose keys apply where this block does not set them.
        live "template" template: Option<String> = None, example "customers";
        /// Clients that may transfer the zone (AXFR, IXFR): networks, keys as `key:NAME`, or both in one
        /// string if both must match; "any" is every client. Unset: as in the template, else no client.
        live "allow-transfer" allow_transfer: Option<Vec<At<TransferGrant>>> = None,
            example ["192.0.2.53", "2001:db8::/48 key:transfer.example.com"];
    } with {
        /// Who may query the zone.
        access: Rare<ZoneAccessKeys>;
        /// Other servers of the zone.
        peers: Rare<PeerKeys>;
        /// The zones that it lists.
        catalog: Rare<CatalogKeys>;
        /// The catalog zone that lists it.
        listing: Rare<ListingKeys>;
        /// Updates of the zone.
        updates: Rare<UpdateKeys>;
        /// Signing of the zone.
        signing: Rare<ZoneSigningKeys>;
    }
}

keys! {
    /// Keys that several zones share; zones name it by X. With a `directory`, every file in it whose name
    /// matches `pattern` is a zone, without a `[[zone]]` block.
    pub struct Template in "[template.X]" {
        /// Master file of the zones that name this template. `{zone}` is replaced by the zone's name (`root`
        /// for the root zone), `{1}`, `{2}` and `{3}` by its first characters, `{tld}` by its last label.
        live "file" file: Option<PathPattern> = None, example "zones/{zone}.zone";
        /// Folder of zone files. A reload adds zones for new files and removes zones whose files are gone.
        live "directory" directory: Option<PathBuf> = None, example "zones";
        /// Names of zone files in the directory; `{zone}` is the zone's name. Temporary files of editors and
        /// tools are skipped: hidden files, names that end in `~`, `#` or, if the pattern ends with `{zone}`,
        /// in `.bak`, `.dpkg-dist`, `.dpkg-new`, `.dpkg-old`, `.jbk`, `.jnl`, `.old`, `.orig`, `.rej`,
        /// `.rpmnew`, `.rpmsave`, `.signed`, `.swp` or `.tmp`.
        live "pattern" pattern: FilePattern = FilePattern::default(), example "db.{zone}";
        /// Largest share of the directory's zones that one reload removes. If the files of more zones, and of
        /// at least ten, are gone, as when a file system is not mounted, all of these zones stay in service
        /// until their files are back or `nomen ctl reload --force` removes them.
        live "max-removed" max_removed: Share = Share(0.2), example 0.5;
        /// Clients that may transfer the zones of this template and of its directory, unless the zone has
        /// `allow-transfer` itself.
        live "allow-transfer" allow_transfer: Option<Vec<At<TransferGrant>>> = None,
            example ["key:transfer.example.com"];
    } with {
        /// Who may query the zones.
        access: ZoneAccessKeys;
        /// Other servers of the zones.
        peers: PeerKeys;
        /// The catalog zone that lists them.
        listing: ListingKeys;
        /// Updates of the zones.
        updates: UpdateKeys;
        /// Signing of the zones.
        signing: ZoneSigningKeys;
    }
}

impl ConfiguredZone {
    /// Returns the zone's name and view.
    pub fn apex(&self) -> ZoneName {
        let name = self.name.value.as_name().to_lower();
        ZoneName::in_view(name.as_lower(), self.view.value.as_ref())
    }
}

/// Every `[template.X]` by its name.
pub type Templates = BTreeMap<String, At<Template>>;

/// What the keys of a zone may refer to.
#[derive(Debug, Clone, Copy)]
pub struct SharedKeys<'c> {
    /// Every `[template.X]`.
    pub templates: &'c Templates,
    /// Every `[dnssec-policy.X]`.
    pub policies: &'c DnssecPolicies,
    /// Whether there is a state folder.
    pub has_state: bool,
}

/// Reports templates without a source, zones defined twice or without a source, and updates that cannot be
/// stored. `has_database`: a template may be for zones of the database.
pub(super) fn check<'a>(
    zones: impl Iterator<Item = &'a At<ConfiguredZone>> + Clone,
    shared: SharedKeys<'_>,
    has_database: bool,
    faults: &mut Vec<Diagnostic>,
) {
    let SharedKeys { templates, has_state, .. } = shared;
    for (name, template) in templates {
        let primaries = &template.peers.primaries;
        let of_members =
            || zones.clone().any(|zone| zone.catalog.templates().any(|(template, _)| template == name));
        let has_source = template.file.is_some() || template.directory.is_some() || primaries.is_some();
        if !has_source && !has_database && !of_members() {
            let message = format!("template `{name}` has no `file`, no `directory` and no `primaries`");
            faults.push(Diagnostic::at(template.place.as_ref(), message));
        }
        for (key, place) in [("file", &template.file.place), ("directory", &template.directory.place)] {
            if primaries.is_some() && place.is_some() {
                let message = format!("template `{name}` has `{key}` and `primaries`");
                let fault = Diagnostic::at(primaries.place.as_ref(), message);
                faults.push(fault.also(place.as_ref(), "zones come from one or the other"));
            }
        }
        template.peers.check(faults);
        if !of_members() {
            template.peers.check_authorities(faults);
        }
        template.access.check(faults);
        template.updates.check(has_state, primaries.is_some(), faults);
        signing::check_template(template, shared, faults);
        ds_push::check(PushKeys::Template(template), shared.policies, faults);
        let pattern = &template.pattern;
        if template.directory.is_none() && pattern.place.is_some() {
            let message = "`pattern` has no effect without `directory`";
            faults.push(Diagnostic::at(pattern.place.as_ref(), message));
        }
        let max_removed = &template.max_removed;
        if template.directory.is_none() && max_removed.place.is_some() {
            let message = "`max-removed` has no effect without `directory`";
            faults.push(Diagnostic::at(max_removed.place.as_ref(), message));
        }
    }
    catalogs::check_listings(zones.clone(), templates, faults);
    let are_others = has_database
        || templates.values().any(|template| template.directory.is_some())
        || zones.clone().any(|zone| zone.catalog.templates().next().is_some());
    ds_push::check_parents(zones.clone(), templates, are_others, faults);
    let mut seen: HashMap<(&NameBuf, Option<&ViewName>), &At<NameBuf>> = HashMap::new();
    for zone in zones {
        let first = *seen.entry((&zone.name.value, zone.view.value.as_ref())).or_insert(&zone.name);
        if !std::ptr::eq(first, &zone.name) {
            let message = format!("zone {} is defined twice", zone.name.value);
            let fault = Diagnostic::at(zone.name.place.as_ref(), message);
            faults.push(fault.also(first.place.as_ref(), "first here"));
        }
        check_zone(zone, shared, faults);
    }
}

/// Reports the faults of one zone that do not depend on other zones.
pub(super) fn check_zone(zone: &ConfiguredZone, shared: SharedKeys<'_>, faults: &mut Vec<Diagnostic>) {
    let SharedKeys { templates, has_state, .. } = shared;
    match zone.catalog.is_produced() {
        true => faults.extend(check_produced(zone, has_state)),
        false => faults.extend(check_source(zone, templates)),
    }
    zone.peers.check(faults);
    if zone.template.is_none() {
        zone.peers.check_authorities(faults);
    }
    zone.access.check(faults);
    let primaries = has_primaries(zone, templates);
    zone.updates.check(has_state, primaries, faults);
    if !primaries {
        zone.peers.check_without_primaries(faults);
    }
    let template = zone.template.as_deref().and_then(|name| templates.get(name));
    let template = template.map(|template| &template.value);
    signing::check_zone(zone, template, shared, faults);
    ds_push::check(PushKeys::Zone(zone, template), shared.policies, faults);
    faults.extend(catalogs::check(zone, templates, primaries));
}

/// Returns whether a zone has primaries: its own keys take precedence over those of its template.
fn has_primaries(zone: &ConfiguredZone, templates: &Templates) -> bool {
    let template = zone.template.as_deref().and_then(|name| templates.get(name));
    let of_template = template.is_some_and(|template| template.peers.primaries.is_some());
    zone.peers.primaries.is_some() || zone.file.is_none() && of_template
}

/// Reports other sources and updates of a catalog zone that is produced here.
fn check_produced(zone: &ConfiguredZone, has_state: bool) -> Option<Diagnostic> {
    let (name, updates) = (&zone.name.value, &zone.updates);
    let others = [
        ("file", zone.file.is_some(), &zone.file.place),
        ("primaries", zone.peers.primaries.is_some(), &zone.peers.primaries.place),
        ("template", zone.template.is_some(), &zone.template.place),
        ("catalog-template", zone.catalog.template.is_some(), &zone.catalog.template.place),
        ("allow-update", updates.allow_update.is_some(), &updates.allow_update.place),
        ("update-policy", updates.update_policy.is_some(), &updates.update_policy.place),
        ("api", updates.api.value == Some(true), &updates.api.place),
        ("zonemd", zone.peers.zonemd.is_some(), &zone.peers.zonemd.place),
        ("dnssec-policy", zone.signing.policy.is_some(), &zone.signing.policy.place),
    ];
    let place = zone.catalog.produce.place.as_ref();
    if let Some((key, _, other)) = others.into_iter().find(|(_, is_set, _)| *is_set) {
        let fault = Diagnostic::at(other.as_ref(), format!("zone {name} has `{key}` and `catalog-produce`"));
        return Some(fault.also(place, "nomen generates its records"));
    }
    let fault = || Diagnostic::at(place, "`catalog-produce` needs a state folder");
    (!has_state).then(|| fault().hint("set `state-dir` in [server]"))
}

/// Checks that a zone has a file or primaries, of its own or of its template.
fn check_source(zone: &ConfiguredZone, templates: &Templates) -> Option<Diagnostic> {
    let (name, primaries) = (&zone.name, &zone.peers.primaries);
    if zone.file.is_some() && primaries.is_some() {
        let message = format!("zone {} has `file` and `primaries`", name.value);
        let fault = Diagnostic::at(primaries.place.as_ref(), message);
        return Some(fault.also(zone.file.place.as_ref(), "the zone comes from one or the other"));
    }
    let has_source = zone.file.is_some() || primaries.is_some();
    let Some(wanted) = zone.template.as_deref() else {
        let message = || format!("zone {} has no `file`, no `primaries` and no `template`", name.value);
        return (!has_source).then(|| Diagnostic::at(name.place.as_ref(), message()));
    };
    let Some(template) = templates.get(wanted) else {
        let near = did_you_mean(wanted, templates.keys().map(String::as_str));
        let message = format!("there is no [template.{wanted}]");
        let fault = Diagnostic::at(zone.template.place.as_ref(), message);
        return Some(match near {
            Some(near) => fault.hint(format!("did you mean \"{near}\"?")),
            None => fault,
        });
    };
    let has_source = has_source || template.file.is_some() || template.peers.primaries.is_some();
    (!has_source).then(|| {
        let message = format!(
            "zone {} has no `file` and no `primaries`, and template `{wanted}` has none either",
            name.value
        );
        Diagnostic::at(name.place.as_ref(), message)
    })
}
