//! The zones of a configuration: those that it names, and those of its templates' folders.
//!
//! A fault of one file in a folder affects the zone of its name, and no other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::DEFAULT_HISTORY;
use wire::{Name, NameBuf};

use transfer::tsig::TsigKeys;

use super::membership::{CatalogPlan, MemberTemplate, PlannedZone};
use super::produce::{Listing, ProducedPlan};
use crate::changes::{UpdateMaker, UpdateRules};
use crate::managed::{Apex, Origin, TextRules, ZoneSpec, ZoneText};
use crate::managed::{DifferenceRule, LEAST_RECORDS};
use crate::secondaries::{PeerMaker, PeerRules};
use crate::transfers::{RuleMaker, TransferRules, grants, unknown_key};
use config::Configuration;
use config::catalogs::ListingKeys;
use config::peers::PeerKeys;
use config::reloading::Reloading;
use config::report::Diagnostic;
use config::table::read::At;
use config::updates::UpdateKeys;
use config::zone_name::ZoneNameFault;
use config::zones::{ConfiguredZone, Template, Templates};
use wording::reason;

/// The zones and rules of a configuration.
#[derive(Debug, Clone, Default)]
pub struct WantedZones {
    /// The zones, in no particular order.
    pub specs: Vec<ZoneSpec>,
    /// The folders that were searched for zones.
    pub folders: Vec<ZoneFolder>,
    /// Files in them whose names contain no valid zone name.
    pub refused: Vec<RefusedFile>,
    /// Who may transfer which zone.
    pub transfers: TransferRules,
    /// The other servers of each zone.
    pub peers: PeerRules,
    /// Who may change which zone.
    pub updates: UpdateRules,
    /// The catalog zones whose members are served, in the order of the configuration.
    pub catalogs: Vec<CatalogPlan>,
    /// The catalog zones that nomen produces.
    pub produced: Vec<ProducedPlan>,
    /// Entries of zones in produced catalog zones.
    pub listings: HashMap<Apex, Arc<Listing>>,
    /// The zones that were added at run time.
    pub added: Vec<ConfiguredZone>,
    /// The templates for zones that are added at run time.
    pub templates: Arc<Templates>,
    /// Limits of a reload of these zones.
    pub bounds: ReloadBounds,
}

/// Limits of a reload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReloadBounds {
    /// The largest share of all zones, from 0 to 1, that a reload of the configuration may remove.
    pub max_removed: f64,
    /// Longest time without progress of one load.
    pub load_stall: Duration,
}

impl Default for ReloadBounds {
    fn default() -> Self {
        ReloadBounds::of(&Reloading::default())
    }
}

impl ReloadBounds {
    fn of(keys: &Reloading) -> Self {
        ReloadBounds { max_removed: keys.max_removed.value.0, load_stall: keys.load_stall.value.0 }
    }
}

/// A folder whose files are zones.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneFolder {
    /// The folder.
    pub path: PathBuf,
    /// The largest share of its zones, from 0 to 1, that one reload may remove.
    pub max_removed: f64,
}

/// A file in a folder of zones whose name matches the folder's pattern, but contains no valid zone name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedFile {
    /// The file.
    pub path: PathBuf,
    /// The fault of its name.
    pub fault: ZoneNameFault,
}

impl fmt::Display for RefusedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not served: {}", self.path.display(), self.fault)
    }
}

/// Why the name of a file is probably not meant as a zone name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameDoubt {
    /// It has one label only.
    SingleLabel,
    /// Its last label is a number; no top-level domain is one (RFC 3696 §2).
    Number,
}

impl fmt::Display for NameDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SingleLabel => "its name has a single label",
            Self::Number => "its name ends in a number",
        })
    }
}

impl NameDoubt {
    /// Returns the doubt about a name, if any.
    pub fn of(name: Name<'_>) -> Option<NameDoubt> {
        let last = name.labels().last()?;
        if last.iter().all(u8::is_ascii_digit) {
            return Some(Self::Number);
        }
        name.parent().is_some_and(Name::is_root).then_some(Self::SingleLabel)
    }
}

impl WantedZones {
    /// Returns all of a configuration except its zones and their rules.
    fn without_specs(config: &Configuration) -> Self {
        WantedZones {
            produced: produced(config),
            listings: listings(config),
            added: config.added.iter().map(|zone| zone.value.clone()).collect(),
            templates: Arc::new(config.templates.clone()),
            bounds: ReloadBounds::of(&config.settings.server.reloading),
            ..WantedZones::default()
        }
    }

    /// Returns the zones of folders whose names are doubtful.
    pub fn doubtful(&self) -> impl Iterator<Item = (&ZoneSpec, NameDoubt)> {
        self.specs.iter().filter_map(|spec| {
            let doubt = NameDoubt::of(spec.name())?;
            self.folder_of(spec).map(|_| (spec, doubt))
        })
    }

    /// Whether the root zone is a copy for the resolver.
    pub fn copies_root(&self) -> bool {
        self.specs.iter().any(|spec| spec.origin == Origin::LocalRoot)
    }

    /// Returns the folder that contains a zone's file.
    pub fn folder_of(&self, spec: &ZoneSpec) -> Option<&ZoneFolder> {
        let folder = spec.text.file()?.parent()?;
        self.folders.iter().find(|known| known.path == folder)
    }
}

/// Returns the zones of a configuration: those that it names, and those of its templates' folders. If a zone
/// is in both, the named one applies.
///
/// # Errors
/// Folders and key files that cannot be read, and missing keys.
pub fn resolve(config: &Configuration) -> Result<WantedZones, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let (mut specs, mut catalogs) = (HashMap::new(), Vec::new());
    let mut rules = RuleMaker::new(config, &mut faults);
    let mut peers = PeerMaker::new(rules.keys());
    let mut updates = UpdateMaker::default();
    let configured = config.zones.iter().map(|zone| (zone, Origin::Configuration));
    for (zone, origin) in configured.chain(config.added.iter().map(|zone| (zone, Origin::Added))) {
        let apex = Apex::from(&zone.name.value);
        let template = zone.template.value.as_ref().and_then(|t| config.templates.get(t));
        let text = text_of(zone, template);
        let of_template = template.and_then(|t| t.allow_transfer.value.as_ref());
        let grants = zone.allow_transfer.value.as_ref().or(of_template);
        rules.allow(&apex, grants);
        let (taken, of_changes) = (text == ZoneText::Primaries, template.map(|t| &t.updates));
        peers.add(&apex, Some(&*zone.peers), template.map(|t| &t.peers), taken);
        if !taken {
            updates.add(&apex, Some(&*zone.updates), of_changes);
        }
        let differences = difference_rule(Some(&*zone.updates), of_changes, grants.is_some());
        catalogs.extend(catalog_plan(&apex, zone, config, &mut rules, &mut peers, &mut updates));
        let rules = text_rules(Some(zone), template);
        specs.insert(apex.clone(), ZoneSpec { apex, text, origin, differences, rules });
    }
    specs.extend(local_root(config, &mut peers));
    let mut wanted = WantedZones { catalogs, ..WantedZones::without_specs(config) };
    let (mut from_folders, mut shared) = (HashMap::new(), Vec::new());
    for template in config.templates.values() {
        let Some(folder) = template.directory.value.as_deref() else { continue };
        let max_removed = template.max_removed.value.0;
        wanted.folders.push(ZoneFolder { path: folder.to_owned(), max_removed });
        match list_folder(folder, |file_name| template.pattern.zone_of(file_name)) {
            Ok(found) => {
                let (transfer, notify) = (&template.allow_transfer, &template.peers.notify);
                let is_listed = template.listing.catalog.is_some();
                if transfer.is_some() || notify.is_some() || template.updates.takes_any() || is_listed {
                    let names = found.iter().filter_map(|(_, name)| name.as_ref().ok());
                    shared.extend(names.map(|name| (Apex::clone(name), template)));
                }
                let differences = difference_rule(None, Some(&template.updates), transfer.is_some());
                let rules = (differences, text_rules(None, Some(template)));
                found.into_iter().for_each(|at| sort_in(at, rules, &mut from_folders, &mut wanted));
            }
            Err(fault) => faults.push(Diagnostic::at(template.directory.place.as_ref(), fault).outside()),
        }
    }
    shared.retain(|(apex, _)| !specs.contains_key(apex));
    wanted.listings.extend(of_folders(&shared));
    for (apex, template) in &shared {
        rules.allow(apex, template.allow_transfer.value.as_ref());
        peers.add(apex, None, Some(&template.peers), false);
        updates.add(apex, None, Some(&template.updates));
    }
    wanted.transfers = rules.made();
    wanted.peers = peers.made();
    wanted.updates = updates.made();
    for (apex, (text, (differences, rules))) in from_folders {
        let spec = || ZoneSpec { apex: apex.clone(), text, origin: Origin::Folder, differences, rules };
        specs.entry(apex.clone()).or_insert_with(spec);
    }
    wanted.specs = specs.into_values().collect();
    if faults.is_empty() { Ok(wanted) } else { Err(faults) }
}

/// Returns the root zone if the resolver uses a local copy of it. The check of the configuration has ensured
/// that the configuration does not name the root zone itself.
fn local_root(config: &Configuration, peers: &mut PeerMaker) -> Option<(Apex, ZoneSpec)> {
    let source = config.settings.recursive()?.local_root()?;
    let apex = Apex::from(Name::ROOT);
    let text = source.file.map_or(ZoneText::Primaries, |file| ZoneText::File(file.into()));
    peers.add(&apex, Some(&source.peers), None, text == ZoneText::Primaries);
    let rules = TextRules { zonemd: source.peers.zonemd.value, ..TextRules::default() };
    let differences = difference_rule(None, None, false);
    Some((apex.clone(), ZoneSpec { apex, text, origin: Origin::LocalRoot, differences, rules }))
}

/// Returns whether changes of the files of zones with these keys, and those of this template, are stored. By
/// default they are if clients may transfer the zone and it is so large that a difference saves much.
fn difference_rule(
    own: Option<&UpdateKeys>,
    template: Option<&UpdateKeys>,
    is_shared: bool,
) -> DifferenceRule {
    let both = || own.into_iter().chain(template);
    let from_records = match both().find_map(|keys| keys.ixfr_from_differences.value) {
        Some(true) => Some(0),
        Some(false) => None,
        None => is_shared.then_some(LEAST_RECORDS),
    };
    let size = both().find_map(|keys| keys.journal_size.value.as_ref());
    DifferenceRule { from_records, bytes: size.map_or(DEFAULT_HISTORY, |size| size.0 as u64) }
}

/// Returns how the file of a zone is checked: the zone's own keys take precedence over those of its template.
fn text_rules(zone: Option<&ConfiguredZone>, template: Option<&At<Template>>) -> TextRules {
    let of_zone = zone.map(|zone| (&*zone.peers, &*zone.updates));
    let both = of_zone.into_iter().chain(template.map(|template| (&template.peers, &template.updates)));
    TextRules {
        zonemd: both.clone().find_map(|(peers, _)| peers.zonemd.value),
        nsec3_max_iterations: both
            .clone()
            .find_map(|(peers, _)| peers.nsec3_max_iterations.value.as_ref())
            .map(|most| most.0),
        split_strings: both.clone().find_map(|(_, updates)| updates.split_strings.value).unwrap_or(false),
        max_size: both.clone().find_map(|(_, updates)| updates.file_max_size.value).map(|size| size.0 as u64),
        any_file: false,
    }
}

/// Returns the catalog zones that nomen produces.
fn produced(config: &Configuration) -> Vec<ProducedPlan> {
    let plan = |zone: &At<ConfiguredZone>| ProducedPlan {
        apex: zone.name.value.as_name().into(),
        max_removed: zone.catalog.max_removed(),
    };
    let all = config.zones.iter().chain(&config.added);
    all.filter(|zone| zone.catalog.is_produced()).map(plan).collect()
}

/// Returns the catalog entries of zones that the configuration names.
fn listings(config: &Configuration) -> HashMap<Apex, Arc<Listing>> {
    let of = |zone: &At<ConfiguredZone>| {
        let template = zone.template.value.as_ref().and_then(|name| config.templates.get(name));
        let listing = listing(Some(&*zone.listing), template.map(|template| &template.listing))?;
        Some((zone.name.value.as_name().into(), listing))
    };
    config.zones.iter().chain(&config.added).filter_map(of).collect()
}

/// Returns the catalog entries of the zones of folders.
fn of_folders(zones: &[(Apex, &At<Template>)]) -> Vec<(Apex, Arc<Listing>)> {
    let mut made: HashMap<*const ListingKeys, Option<Arc<Listing>>> = HashMap::new();
    let of = |(apex, template): &(Apex, &At<Template>)| {
        let keys = &template.listing;
        let listing = made.entry(std::ptr::from_ref(keys)).or_insert_with(|| listing(None, Some(keys)));
        Some((apex.clone(), listing.clone()?))
    };
    zones.iter().filter_map(of).collect()
}

/// Returns the catalog entry of a zone with these keys; its template's apply where it has none.
fn listing(own: Option<&ListingKeys>, template: Option<&ListingKeys>) -> Option<Arc<Listing>> {
    let nothing = ListingKeys::default();
    let (own, template) = (own.unwrap_or(&nothing), template.unwrap_or(&nothing));
    let name = |name: &NameBuf| Apex::from(name.as_name());
    let group = own.group.value.as_ref().or(template.group.value.as_ref());
    Some(Arc::new(Listing {
        catalog: own.catalog.value.as_ref().or(template.catalog.value.as_ref()).map(name)?,
        group: group.map(|group| group.as_bytes().into()),
        new_owner: own.new_owner.value.as_ref().or(template.new_owner.value.as_ref()).map(name),
    }))
}

/// Returns the source of a zone's records; `template` is the zone's template.
fn text_of(zone: &ConfiguredZone, template: Option<&At<Template>>) -> ZoneText {
    if zone.catalog.is_produced() {
        return ZoneText::Produced;
    }
    let pattern = template.and_then(|template| template.file.value.as_ref());
    let pattern = pattern.filter(|_| zone.peers.primaries.is_none());
    let of_template = pattern.map(|pattern| pattern.path(zone.name.value.as_name()));
    // The check of the configuration has ensured that the zone has a file or primaries.
    let file = zone.file.value.clone().or(of_template);
    file.map_or(ZoneText::Primaries, |path| ZoneText::File(path.into()))
}

/// Returns a zone that is added at run time, with these templates and keys.
///
/// # Errors
/// Missing keys.
pub fn added_zone(
    zone: &ConfiguredZone,
    templates: &Templates,
    keys: &Arc<TsigKeys>,
) -> Result<PlannedZone, Vec<Diagnostic>> {
    let named =
        zone.peers.keys().chain(
            zone.allow_transfer.value.iter().flatten().filter_map(|grant| {
                grant.value.key().map(|key| At { value: *key, place: grant.place.clone() })
            }),
        );
    let missing: Vec<Diagnostic> = named.filter_map(|key| unknown_key(&key.value, None, keys)).collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let template = zone.template.value.as_ref().and_then(|template| templates.get(template));
    let text = text_of(zone, template);
    let taken = text == ZoneText::Primaries;
    let peers =
        PeerMaker::new(keys).peers(Some(&*zone.peers), template.map(|template| &template.peers), taken);
    let of_template = template.and_then(|template| template.allow_transfer.value.as_ref());
    let list = zone.allow_transfer.value.as_ref().or(of_template);
    let apex = zone.name.value.as_name().into();
    let of_changes = template.map(|template| &template.updates);
    let differences = difference_rule(Some(&*zone.updates), of_changes, list.is_some());
    let rules = text_rules(Some(zone), template);
    let spec = ZoneSpec { apex, text, origin: Origin::Added, differences, rules };
    let updates = UpdateMaker::default().updates(Some(&*zone.updates), of_changes).filter(|_| !taken);
    let listing = listing(Some(&*zone.listing), template.map(|template| &template.listing));
    Ok(PlannedZone { spec, peers, grants: list.map(|list| grants(list)), updates, listing })
}

/// Returns the plan for the members of a zone, if it is a catalog zone. The caller has checked that the
/// templates exist.
fn catalog_plan(
    apex: &Apex,
    zone: &ConfiguredZone,
    config: &Configuration,
    rules: &mut RuleMaker,
    peers: &mut PeerMaker,
    updates: &mut UpdateMaker,
) -> Option<CatalogPlan> {
    let of_zone = zone.template.value.as_ref().and_then(|template| config.templates.get(template));
    let own = &zone.peers.primaries;
    let primaries = match (&own.value, of_zone) {
        (None, Some(template)) => &template.peers.primaries,
        _ => own,
    };
    let mut plan = |name: &String| {
        let template = config.templates.get(name)?;
        let file = template.file.value.clone();
        let of_catalog = PeerKeys {
            primaries: At::unwritten(primaries.value.clone().filter(|_| template.peers.primaries.is_none())),
            ..PeerKeys::default()
        };
        Some(Arc::new(MemberTemplate {
            peers: peers.peers(Some(&of_catalog), Some(&template.peers), file.is_none()),
            grants: rules.grants(template.allow_transfer.value.as_ref()),
            differences: difference_rule(
                None,
                Some(&template.updates),
                template.allow_transfer.value.is_some(),
            ),
            updates: updates.updates(None, Some(&template.updates)).filter(|_| file.is_some()),
            listing: listing(None, Some(&template.listing)),
            rules: text_rules(None, Some(template)),
            file,
        }))
    };
    let groups = zone.catalog.groups.value.iter().flat_map(|groups| &groups.0);
    Some(CatalogPlan {
        apex: apex.clone(),
        template: plan(zone.catalog.template.value.as_ref()?)?,
        groups: groups
            .filter_map(|(group, name)| Some((group.as_bytes().into(), plan(&name.value)?)))
            .collect(),
        max_removed: zone.catalog.max_removed(),
        answers: zone.catalog.answers.value.unwrap_or(false),
    })
}

/// Rules for the files of a folder: which differences are stored, and how files are checked.
type FileRules = (DifferenceRule, TextRules);

/// A file whose name matches a pattern, and the zone of that name.
type FoundZone = (Arc<Path>, Result<Apex, ZoneNameFault>);

/// Adds a file to the zone of its name, or to the refused files.
fn sort_in(
    (path, name): FoundZone,
    rules: FileRules,
    zones: &mut HashMap<Apex, (ZoneText, FileRules)>,
    wanted: &mut WantedZones,
) {
    let apex = match name {
        Ok(apex) => apex,
        Err(fault) => return wanted.refused.push(RefusedFile { path: path.to_path_buf(), fault }),
    };
    match zones.entry(apex) {
        Entry::Vacant(zone) => drop(zone.insert((ZoneText::File(path), rules))),
        Entry::Occupied(mut zone) => {
            let others = match &zone.get().0 {
                ZoneText::File(other) => vec![Arc::clone(other)],
                ZoneText::Disputed(others) => others.to_vec(),
                ZoneText::BuiltIn(_) | ZoneText::Primaries | ZoneText::Produced => Vec::new(),
            };
            // Two templates may use the same folder.
            if !others.contains(&path) {
                let all = others.into_iter().chain([path]).collect();
                zone.insert((ZoneText::Disputed(all), rules));
            }
        }
    }
}

/// Returns the files of a folder that are zones, ordered by name. Includes files whose metadata cannot be
/// read, such as a broken link: their loads report why they cannot be read.
fn list_folder(
    folder: &Path,
    zone_of: impl Fn(&str) -> Option<Result<NameBuf, ZoneNameFault>>,
) -> Result<Vec<FoundZone>, String> {
    let fault = |e: std::io::Error| format!("cannot read the folder {}: {}", folder.display(), reason(&e));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(name) = entry.file_name().to_str().and_then(&zone_of) else { continue };
        let (path, name): FoundZone = (entry.path().into(), name.map(|name| Apex::from(name.as_name())));
        // For nearly all files the folder's entry has the type, so that no further system call is needed.
        let is_zone = entry.file_type().is_ok_and(|kind| kind.is_file())
            || match fs::metadata(&path) {
                Ok(about) => about.is_file(),
                // The file may have been removed in the meantime.
                Err(_) => fs::symlink_metadata(&path).is_ok(),
            };
        if is_zone {
            found.push((path, name));
        }
    }
    // Ordered by bytes: comparing paths by component would take as long as everything else here.
    found.sort_unstable_by(|a, b| a.0.as_os_str().cmp(b.0.as_os_str()));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubtful_names() {
        let doubt = |text: &str| NameDoubt::of(text.parse::<NameBuf>().expect("a name").as_name());
        for (name, expected) in [
            ("com.", Some(NameDoubt::SingleLabel)),
            ("example.com.2024.", Some(NameDoubt::Number)),
            ("20240101.", Some(NameDoubt::Number)),
            ("example.com.", None),
            ("2.0.192.in-addr.arpa.", None),
            ("a.a.", None),
            (".", None),
        ] {
            assert_eq!(doubt(name), expected, "{name}");
        }
    }
}
