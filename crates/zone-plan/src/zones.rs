//! The zones of a configuration: those that it names, and those of its templates' folders.
//!
//! A fault of one file in a folder affects the zone of its name, and no other.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::DEFAULT_HISTORY;
use wire::{Name, NameBuf, ZoneName};

use transfer::tsig::TsigKeys;

use config::Configuration;
use config::catalogs::ListingKeys;
use config::database::DatabaseSchema;
use config::dnssec_policy::DnssecPolicies;
use config::peer_tls::PeerTls;
use config::peers::PeerKeys;
use config::reloading::Reloading;
use config::report::Diagnostic;
use config::signing::policy_of;
use config::table::read::At;
use config::updates::UpdateKeys;
use config::views::ViewRules;
use config::zone_name::ZoneNameFault;
use config::zones::{ConfiguredZone, SharedKeys, Template, Templates};

use crate::catalogs::{CatalogPlan, Listing, MemberTemplate, PlannedZone, ProducedPlan};
use crate::database::DatabasePlan;
use crate::peers::{PeerMaker, PeerRules, ZonePeers};
use crate::queries::{QueryGrantMaker, ZoneQueries};
use crate::spec::{DifferenceRule, LEAST_RECORDS, Origin, TextRules, ZoneSpec, ZoneText};
use crate::transfers::{GrantMaker, Grants, TransferRules, unasked_certificates, unknown_key, unknown_keys};
use crate::updates::{ChangeKeys, UpdateMaker, UpdateRules, ZoneUpdates};

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
    /// Who may query which zone.
    pub queries: ZoneQueries,
    /// The other servers of each zone.
    pub peers: PeerRules,
    /// Who may change which zone, and which zones are signed.
    pub updates: UpdateRules,
    /// The catalog zones whose members are served, in the order of the configuration.
    pub catalogs: Vec<CatalogPlan>,
    /// The zones of the database, if there is one.
    pub database: Option<DatabasePlan>,
    /// The response policy zones, and whether clients get answers from each.
    pub policy_zones: HashMap<ZoneName, bool>,
    /// The catalog zones that nomen produces.
    pub produced: Vec<ProducedPlan>,
    /// Entries of zones in produced catalog zones.
    pub listings: HashMap<ZoneName, Arc<Listing>>,
    /// The files of certificates and keys for TLS to other servers of zones.
    pub tls_files: Vec<PathBuf>,
    /// The zones that were added at run time.
    pub added: Vec<ConfiguredZone>,
    /// The templates for zones that are added at run time.
    pub templates: Arc<Templates>,
    /// The policies of zones that are added at run time and signed.
    pub policies: Arc<DnssecPolicies>,
    /// Limits of a reload of these zones.
    pub bounds: ReloadBounds,
    /// Which clients are in which view, in the order of the configuration.
    pub views: ViewRules,
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
    /// Returns all of a configuration except its zones, their rules and their entries in catalog zones.
    fn without_zones(config: &Configuration, keys: &Arc<TsigKeys>) -> Self {
        let of_zones = config.zones.iter().chain(&config.added).map(|zone| &*zone.peers);
        let peers = of_zones.chain(config.templates.values().map(|template| &template.peers));
        let tls_files: BTreeSet<PathBuf> = peers.flat_map(PeerKeys::files).collect();
        WantedZones {
            tls_files: tls_files.into_iter().collect(),
            transfers: TransferRules::new(keys),
            policy_zones: policy_zones(config),
            produced: produced(config),
            added: config.added.iter().map(|zone| zone.value.clone()).collect(),
            templates: Arc::new(config.templates.clone()),
            policies: Arc::new(config.dnssec_policies.clone()),
            bounds: ReloadBounds::of(&config.settings.server.reloading),
            ..WantedZones::default()
        }
    }

    /// Takes over the rules of a zone and its entry in a catalog zone. Returns its spec.
    fn take_rules(&mut self, planned: PlannedZone) -> ZoneSpec {
        let PlannedZone { spec, peers, grants, queries, updates, listing } = planned;
        self.queries.set(&spec.apex, queries);
        self.set_rules(&spec.apex, grants, peers, updates);
        self.listings.extend(listing.map(|listing| (spec.apex.clone(), listing)));
        spec
    }

    /// Sets the rules of a zone.
    fn set_rules(
        &mut self,
        apex: &ZoneName,
        grants: Option<Grants>,
        peers: Option<Arc<ZonePeers>>,
        updates: Option<Arc<ZoneUpdates>>,
    ) {
        self.transfers.set(apex, grants);
        peers.into_iter().for_each(|peers| self.peers.set(apex, peers));
        self.updates.set(apex, updates);
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
    fn folder_of(&self, spec: &ZoneSpec) -> Option<&ZoneFolder> {
        let folder = spec.text.file()?.parent()?;
        self.folders.iter().find(|known| known.path == folder)
    }
}

/// Returns the response policy zones of a configuration.
fn policy_zones(config: &Configuration) -> HashMap<ZoneName, bool> {
    let zones = config.settings.policy_zones.iter();
    zones.map(|zone| (ZoneName::from(&zone.name.value), *zone.answers)).collect()
}

/// A file in a folder whose name matches the pattern of a template.
#[derive(Debug, Clone)]
pub struct FolderFile {
    /// The file.
    pub path: Arc<Path>,
    /// The zone of its name.
    pub zone: Result<ZoneName, ZoneNameFault>,
}

/// Returns the zone of a file name; `None` if the name does not match the pattern.
pub type ZoneOfFile<'a> = dyn Fn(&str) -> Option<Result<NameBuf, ZoneNameFault>> + 'a;
/// Returns the files of a folder that match, ordered by name, or why the folder cannot be read.
pub type ListFolder<'a> = dyn Fn(&Path, &ZoneOfFile<'_>) -> Result<Vec<FolderFile>, String> + 'a;

/// Returns the zones of a configuration: those that it names, and those of its templates' folders. If a zone
/// is in both, the named one applies. `tls` reads the files that authenticate other servers; `faults` has
/// those of reading `keys`.
///
/// # Errors
/// `faults`, folders that cannot be listed, files that cannot be read, and missing keys.
pub fn plan(
    config: &Configuration,
    keys: TsigKeys,
    tls: &mut PeerTls,
    mut faults: Vec<Diagnostic>,
    list_folder: &ListFolder<'_>,
) -> Result<WantedZones, Vec<Diagnostic>> {
    let keys = Arc::new(keys);
    faults.extend(unknown_keys(config, &keys));
    faults.extend(unasked_certificates(config));
    let mut makers = Makers::new(&keys, tls, &config.dnssec_policies);
    let mut wanted = WantedZones::without_zones(config, &keys);
    let mut specs = HashMap::new();
    let configured = config.zones.iter().map(|zone| (zone, Origin::Configuration));
    let added = config.added.iter().map(|zone| (zone, Origin::Added));
    for (zone, origin) in configured.chain(added) {
        let planned = makers.zone(zone, origin, &config.templates);
        wanted.catalogs.extend(makers.catalog(&planned.spec.apex, zone, &config.templates));
        let spec = wanted.take_rules(planned);
        specs.insert(spec.apex.clone(), spec);
    }
    wanted.database = makers.database(config);
    let root = makers.local_root(config).map(|planned| wanted.take_rules(planned));
    specs.extend(root.map(|spec| (spec.apex.clone(), spec)));
    let (mut from_folders, mut shared) = (HashMap::new(), Vec::new());
    for template in config.templates.values() {
        let Some(folder) = template.directory.value.as_deref() else { continue };
        let max_removed = template.max_removed.value.0;
        wanted.folders.push(ZoneFolder { path: folder.to_owned(), max_removed });
        match list_folder(folder, &|file_name| template.pattern.zone_of(file_name)) {
            Ok(found) => {
                let (transfer, notify) = (&template.allow_transfer, &template.peers.notify);
                let is_listed = template.listing.catalog.is_some();
                let is_limited = template.access.allow_query.is_some();
                let updates =
                    makers.updates.updates(None, Some(change_keys(template)), false, &mut makers.peers);
                let has_rules = transfer.is_some() || notify.is_some() || updates.is_some();
                if has_rules || is_listed || is_limited {
                    let names = found.iter().filter_map(|file| file.zone.as_ref().ok());
                    shared.extend(names.map(|name| (ZoneName::clone(name), template)));
                }
                let signed = is_signed(updates.as_ref());
                let differences = difference_rule(None, Some(&template.updates), transfer.is_some(), signed);
                let rules = FileRules { differences, rules: text_rules(None, Some(template)), signed };
                found.into_iter().for_each(|at| sort_in(at, rules, &mut from_folders, &mut wanted));
            }
            Err(fault) => faults.push(Diagnostic::at(template.directory.place.as_ref(), fault).outside()),
        }
    }
    shared.retain(|(apex, _)| !specs.contains_key(apex));
    wanted.listings.extend(of_folders(&shared));
    for (apex, template) in &shared {
        let grants = makers.grants.grants(template.allow_transfer.value.as_ref());
        let peers = makers.peers.peers(None, Some(&template.peers), false);
        let updates = makers.updates.updates(None, Some(change_keys(template)), false, &mut makers.peers);
        wanted.queries.set(apex, makers.queries.grants(None, Some(&template.access)));
        wanted.set_rules(apex, grants, peers, updates);
    }
    for (apex, (text, of_file)) in from_folders {
        let FileRules { differences, rules, signed } = of_file;
        let origin = Origin::Folder;
        let spec = || ZoneSpec { apex: apex.clone(), text, origin, differences, rules, signed };
        specs.entry(apex.clone()).or_insert_with(spec);
    }
    wanted.specs = specs.into_values().collect();
    faults.extend(makers.peers.take_faults());
    if faults.is_empty() { Ok(wanted) } else { Err(faults) }
}

/// Makes the rules of zones; zones of one template share them.
struct Makers<'t> {
    grants: GrantMaker,
    queries: QueryGrantMaker,
    peers: PeerMaker<'t>,
    updates: UpdateMaker<'t>,
}

impl<'t> Makers<'t> {
    fn new(keys: &Arc<TsigKeys>, tls: &'t mut PeerTls, policies: &'t DnssecPolicies) -> Self {
        let (grants, queries) = (GrantMaker::default(), QueryGrantMaker::default());
        Makers { grants, queries, peers: PeerMaker::new(keys, tls), updates: UpdateMaker::new(policies) }
    }

    /// Returns a zone with its rules; its template's keys apply where it has none of its own.
    fn zone(&mut self, zone: &ConfiguredZone, origin: Origin, templates: &Templates) -> PlannedZone {
        let template = template_of(zone, templates);
        let (apex, text) = (zone.apex(), text_of(zone, template));
        let taken = text == ZoneText::Primaries;
        let of_template = template.and_then(|template| template.allow_transfer.value.as_ref());
        let grants = self.grants.grants(zone.allow_transfer.value.as_ref().or(of_template));
        let own = ChangeKeys { updates: &zone.updates, signing: &zone.signing, peers: &zone.peers };
        // A catalog zone that nomen produces has no template, and is not signed.
        let updates = self.updates.updates(Some(own), template.map(change_keys), taken, &mut self.peers);
        let signed = is_signed(updates.as_ref());
        let of_template = template.map(|template| &template.updates);
        let differences = difference_rule(Some(own.updates), of_template, grants.is_some(), signed);
        let rules = text_rules(Some(zone), template);
        PlannedZone {
            spec: ZoneSpec { apex, text, origin, differences, rules, signed },
            peers: self.peers.peers(Some(&*zone.peers), template.map(|template| &template.peers), taken),
            grants,
            queries: self.queries.grants(Some(&*zone.access), template.map(|template| &template.access)),
            updates,
            listing: listing(Some(&*zone.listing), template.map(|template| &template.listing)),
        }
    }

    /// Returns the root zone if the resolver uses a local copy of it. The check of the configuration has
    /// ensured that the configuration does not name the root zone itself.
    fn local_root(&mut self, config: &Configuration) -> Option<PlannedZone> {
        let source = config.settings.recursive()?.local_root()?;
        let apex = ZoneName::from(Name::ROOT);
        let text = source.file.map_or(ZoneText::Primaries, |file| ZoneText::File(file.into()));
        let peers = self.peers.peers(Some(&source.peers), None, text == ZoneText::Primaries);
        let rules = TextRules { zonemd: source.peers.zonemd.value, ..TextRules::default() };
        let differences = difference_rule(None, None, false, false);
        let spec = ZoneSpec { apex, text, origin: Origin::LocalRoot, differences, rules, signed: false };
        Some(PlannedZone { spec, peers, grants: None, queries: None, updates: None, listing: None })
    }

    /// Returns the plan for the zones of the database, if there is one.
    fn database(&mut self, config: &Configuration) -> Option<DatabasePlan> {
        let section = config.settings.database.as_ref()?;
        let read_only = section.schema.value == DatabaseSchema::PowerDns;
        let mut of = |template: Option<&At<Template>>| {
            let keys = template.map(|template| &template.updates);
            let signing = template.is_some_and(|template| policy_of(&template.signing, None).is_some());
            let updates = self.updates.of_database(template.map(change_keys), read_only, &mut self.peers);
            Arc::new(MemberTemplate {
                file: None,
                // The primaries of a template are those of secondary zones.
                peers: self.peers.peers(None, template.map(|template| &template.peers), false),
                grants: self
                    .grants
                    .grants(template.and_then(|template| template.allow_transfer.value.as_ref())),
                queries: self.queries.grants(None, template.map(|template| &template.access)),
                differences: DifferenceRule {
                    from_records: None,
                    ..difference_rule(None, keys, false, signing)
                },
                updates,
                listing: listing(None, template.map(|template| &template.listing)),
                rules: text_rules(None, template),
            })
        };
        let templates = config.templates.iter().map(|(name, template)| (name.clone(), of(Some(template))));
        let templates: HashMap<String, Arc<MemberTemplate>> = templates.collect();
        let default = section.template.value.as_ref().and_then(|name| templates.get(name).cloned());
        Some(DatabasePlan { default: default.unwrap_or_else(|| of(None)), templates })
    }

    /// Returns the plan for the members of a zone, if it is a catalog zone. The caller has checked that the
    /// templates exist.
    fn catalog(
        &mut self,
        apex: &ZoneName,
        zone: &ConfiguredZone,
        templates: &Templates,
    ) -> Option<CatalogPlan> {
        let of_zone = template_of(zone, templates);
        let own = &zone.peers.primaries;
        let primaries = match (&own.value, of_zone) {
            (None, Some(template)) => &template.peers.primaries,
            _ => own,
        };
        let mut plan = |name: &String| {
            let template = templates.get(name)?;
            let file = template.file.value.clone();
            let of_catalog = PeerKeys {
                primaries: At::unwritten(
                    primaries.value.clone().filter(|_| template.peers.primaries.is_none()),
                ),
                ..PeerKeys::default()
            };
            let updates =
                self.updates.updates(None, Some(change_keys(template)), file.is_none(), &mut self.peers);
            Some(Arc::new(MemberTemplate {
                peers: self.peers.peers(Some(&of_catalog), Some(&template.peers), file.is_none()),
                grants: self.grants.grants(template.allow_transfer.value.as_ref()),
                queries: self.queries.grants(None, Some(&template.access)),
                differences: difference_rule(
                    None,
                    Some(&template.updates),
                    template.allow_transfer.value.is_some(),
                    is_signed(updates.as_ref()),
                ),
                updates,
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
}

/// Returns whether changes of the files of zones with these keys, and those of this template, are stored. By
/// default they are if clients may transfer the zone and it is so large that a difference saves much. Of a
/// signed zone, the changes of its served versions are stored instead.
fn difference_rule(
    own: Option<&UpdateKeys>,
    template: Option<&UpdateKeys>,
    is_shared: bool,
    signed: bool,
) -> DifferenceRule {
    let both = || own.into_iter().chain(template);
    let from_records = match both().find_map(|keys| keys.ixfr_from_differences.value) {
        _ if signed => None,
        Some(true) => Some(0),
        Some(false) => None,
        None => is_shared.then_some(LEAST_RECORDS),
    };
    let size = both().find_map(|keys| keys.journal_size.value.as_ref());
    DifferenceRule { from_records, bytes: size.map_or(DEFAULT_HISTORY, |size| size.0 as u64) }
}

/// Returns the keys of a template about changes.
fn change_keys(template: &At<Template>) -> ChangeKeys<'_> {
    ChangeKeys { updates: &template.updates, signing: &template.signing, peers: &template.peers }
}

/// Whether a zone with these rules is signed.
fn is_signed(updates: Option<&Arc<ZoneUpdates>>) -> bool {
    updates.is_some_and(|updates| updates.is_signed())
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
        apex: ZoneName::from(&zone.name.value),
        max_removed: zone.catalog.max_removed(),
    };
    let all = config.zones.iter().chain(&config.added);
    all.filter(|zone| zone.catalog.is_produced()).map(plan).collect()
}

/// Returns the catalog entries of the zones of folders.
fn of_folders(zones: &[(ZoneName, &At<Template>)]) -> Vec<(ZoneName, Arc<Listing>)> {
    let mut made: HashMap<*const ListingKeys, Option<Arc<Listing>>> = HashMap::new();
    let of = |(apex, template): &(ZoneName, &At<Template>)| {
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
    let group = own.group.value.as_ref().or(template.group.value.as_ref());
    Some(Arc::new(Listing {
        catalog: own.catalog.value.as_ref().or(template.catalog.value.as_ref())?.into(),
        group: group.map(|group| group.as_bytes().into()),
        new_owner: own.new_owner.value.as_ref().or(template.new_owner.value.as_ref()).map(ZoneName::from),
    }))
}

/// Returns the template of a zone, if it has one.
fn template_of<'t>(zone: &ConfiguredZone, templates: &'t Templates) -> Option<&'t At<Template>> {
    templates.get(zone.template.value.as_ref()?)
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

/// Returns a zone that is added at run time, with these templates, policies and keys.
///
/// # Errors
/// Missing keys, and files that cannot be read.
pub fn added_zone(
    zone: &ConfiguredZone,
    shared: SharedKeys<'_>,
    keys: &Arc<TsigKeys>,
    tls: &mut PeerTls,
) -> Result<PlannedZone, Vec<Diagnostic>> {
    let named =
        zone.peers.keys().chain(zone.access.keys()).chain(
            zone.allow_transfer.value.iter().flatten().filter_map(|grant| {
                grant.value.key().map(|key| At { value: *key, place: grant.place.clone() })
            }),
        );
    let missing: Vec<Diagnostic> = named.filter_map(|key| unknown_key(&key.value, None, keys)).collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let mut makers = Makers::new(keys, tls, shared.policies);
    let planned = makers.zone(zone, Origin::Added, shared.templates);
    let faults = makers.peers.take_faults();
    if faults.is_empty() { Ok(planned) } else { Err(faults) }
}

/// Rules for the files of a folder.
#[derive(Clone, Copy)]
struct FileRules {
    /// Which differences are stored.
    differences: DifferenceRule,
    /// How files are checked.
    rules: TextRules,
    /// Whether the zones are signed.
    signed: bool,
}

/// Adds a file to the zone of its name, or to the refused files.
fn sort_in(
    FolderFile { path, zone }: FolderFile,
    rules: FileRules,
    zones: &mut HashMap<ZoneName, (ZoneText, FileRules)>,
    wanted: &mut WantedZones,
) {
    let apex = match zone {
        Ok(apex) => apex,
        Err(fault) => return wanted.refused.push(RefusedFile { path: path.to_path_buf(), fault }),
    };
    match zones.entry(apex) {
        Entry::Vacant(zone) => drop(zone.insert((ZoneText::File(path), rules))),
        Entry::Occupied(mut zone) => {
            let others = match &zone.get().0 {
                ZoneText::File(other) => vec![Arc::clone(other)],
                ZoneText::Disputed(others) => others.to_vec(),
                ZoneText::BuiltIn(_) | ZoneText::Primaries | ZoneText::Produced | ZoneText::Database => {
                    Vec::new()
                }
            };
            // Two templates may use the same folder.
            if !others.contains(&path) {
                let all = others.into_iter().chain([path]).collect();
                zone.insert((ZoneText::Disputed(all), rules));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the plan of a configuration; its folders have one file, of the zone `folder.example.`
    fn planned(text: &str) -> WantedZones {
        let text = format!("[server]\nstate-dir = \"/state\"\n{text}");
        let config = config::read_text("test", text, Path::new("/")).expect("good").config;
        let list = |folder: &Path, _: &ZoneOfFile<'_>| {
            let name: NameBuf = "folder.example".parse().expect("a name");
            Ok(vec![FolderFile { path: folder.join("f").into(), zone: Ok(ZoneName::from(&name)) }])
        };
        plan(&config, TsigKeys::default(), &mut PeerTls::default(), Vec::new(), &list).expect("a plan")
    }

    #[test]
    fn a_signed_zone_has_rules_for_changes_even_if_it_takes_no_updates() {
        let wanted = planned(
            "[template.t]\ndirectory = \"d\"\ndnssec-policy = \"default\"\n\
            allow-transfer = [\"any\"]\nixfr-from-differences = true\n\
            [[zone]]\nname = \"file.example\"\nfile = \"f\"\ntemplate = \"t\"\n\
            [[zone]]\nname = \"updated.example\"\nfile = \"f\"\ntemplate = \"t\"\nallow-update = [\"any\"]\n\
            [[zone]]\nname = \"taken.example\"\nprimaries = [\"192.0.2.1\"]\ndnssec-policy = \"insecure\"\n\
            [[zone]]\nname = \"plain.example\"\nfile = \"f\"\ntemplate = \"t\"\ndnssec-policy = \"none\"\n\
            [[zone]]\nname = \"secondary.example\"\nprimaries = [\"192.0.2.1\"]\n",
        );
        let signed = |policy| Some((policy, false));
        for (zone, expected) in [
            ("folder.example", signed("default")),
            ("file.example", signed("default")),
            ("updated.example", Some(("default", true))),
            ("taken.example", signed("insecure")),
            ("plain.example", None),
            ("secondary.example", None),
        ] {
            let name: NameBuf = zone.parse().expect("a name");
            let apex = ZoneName::from(&name);
            let spec = wanted.specs.iter().find(|spec| spec.apex == apex).expect(zone);
            let rules = wanted.updates.get(&apex);
            let found = rules.map(|rules| {
                let signing = rules.signing.as_ref().expect("signed");
                (&*signing.policy.name, rules.takes_any())
            });
            assert_eq!((found, spec.signed), (expected, expected.is_some()), "{zone}");
            // The changes of the served versions of a signed zone are stored instead.
            let stores = zone == "plain.example";
            assert_eq!(spec.differences.from_records, stores.then_some(0), "{zone}");
        }
    }

    #[test]
    fn a_secondary_zone_takes_no_updates_that_its_template_would_allow() {
        let wanted = planned(
            "[template.t]\nfile = \"{zone}\"\ndnssec-policy = \"default\"\nallow-update = [\"any\"]\n\
            [[zone]]\nname = \"taken.example\"\nprimaries = [\"192.0.2.1\"]\ntemplate = \"t\"\n\
            [[zone]]\nname = \"updated.example\"\ntemplate = \"t\"\n",
        );
        let takes_any = |zone: &str| {
            let name: NameBuf = zone.parse().expect("a name");
            wanted.updates.get(&ZoneName::from(&name)).map(|rules| rules.takes_any())
        };
        assert_eq!([takes_any("taken.example"), takes_any("updated.example")], [Some(false), Some(true)]);
    }

    #[test]
    fn a_zone_is_changed_by_programs_if_it_or_its_template_says_so() {
        let wanted = planned(
            "[template.t]\nfile = \"{zone}\"\ndirectory = \"d\"\napi = true\n\
            [[zone]]\nname = \"of-template.example\"\ntemplate = \"t\"\n\
            [[zone]]\nname = \"not.example\"\ntemplate = \"t\"\napi = false\n\
            [[zone]]\nname = \"updated.example\"\ntemplate = \"t\"\napi = false\nallow-update = [\"any\"]\n\
            [[zone]]\nname = \"own.example\"\nfile = \"f\"\napi = true\n\
            [[zone]]\nname = \"taken.example\"\ntemplate = \"t\"\nprimaries = [\"192.0.2.1\"]\n",
        );
        for (zone, expected) in [
            ("folder.example", Some((true, true, true))),
            ("of-template.example", Some((true, true, true))),
            ("not.example", None),
            ("updated.example", Some((true, false, false))),
            ("own.example", Some((true, true, true))),
            ("taken.example", None),
        ] {
            let name: NameBuf = zone.parse().expect("a name");
            let rules = wanted.updates.get(&ZoneName::from(&name));
            let found = rules.map(|rules| (rules.takes_any(), rules.api, rules.policy.is_empty()));
            assert_eq!(found, expected, "{zone}");
        }
    }

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
