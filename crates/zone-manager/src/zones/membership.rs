//! Members of catalog zones: the zones that each catalog zone lists, which of them owns a zone, and the
//! changes that follow from a new version. A state machine without threads; `manager` reports versions to it
//! and carries out the changes. A file records the owner of each zone, so that a restart neither moves a zone
//! to another catalog zone nor misses that a member was reset.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use transfer::catalog_zone::{
    CatalogFault, CatalogZone, Conflict, ListedIn, Member, MemberIdentity, MemberOf, settle,
};
use wire::{NameBuf, ViewName, ZoneName};
use zone::Zone;

use super::manager::{LEAST_HELD, Removal};
use telemetry::repeated::log_repeated;
use zone::regular::replace;
use zone_plan::{CatalogPlan, MemberTemplate, Origin, PlannedZone, ZoneSpec, ZoneText};

/// File in the state folder.
const FILE: &str = "members.json";

/// A catalog zone and the members that it lists.
#[derive(Debug)]
struct Catalog {
    plan: CatalogPlan,
    /// The members that apply.
    listed: CatalogZone,
    /// The members of the newest version and the number of removals and resets, if these are too many.
    held: Option<(CatalogZone, usize)>,
    fault: Option<CatalogFault>,
    /// Whether this process has read a version.
    is_read: bool,
}

/// Status of a catalog zone, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogStatus {
    /// Its name.
    pub zone: String,
    /// Zones that are served because it lists them; for a produced catalog zone, the zones that it lists.
    pub members: usize,
    /// Zones that it lists without effect because another owner has them.
    pub conflicts: usize,
    /// Members that are held back because too many would be removed or reset.
    pub held_back: usize,
    /// Why its newest version is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The changes that follow from a new version or configuration.
#[derive(Debug, Default)]
pub struct MemberSteps {
    /// Zones that are no longer members.
    pub removed: Vec<ZoneName>,
    /// Members with another ID under the same name: their state is removed.
    pub reset: Vec<ZoneName>,
    /// Members that are new, were reset, or have other properties.
    pub wanted: Vec<PlannedZone>,
}

impl MemberSteps {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.wanted.is_empty()
    }
}

/// All catalog zones.
#[derive(Debug, Default)]
pub struct Membership {
    catalogs: Vec<Catalog>,
    members: BTreeMap<ZoneName, MemberOf>,
    conflicts: Vec<Conflict>,
    /// Logged lines, so that each is logged once.
    logged: HashSet<String>,
    file: Option<PathBuf>,
}

impl Membership {
    /// Loads the owners of zones in the last run from the state folder. An unusable file is logged, and the
    /// owners are decided again.
    pub fn open(state: Option<&Path>) -> Membership {
        let file = state.map(|state| state.join(FILE));
        let members = file.as_deref().map_or_else(|| Ok(BTreeMap::new()), load);
        let members = members.unwrap_or_else(|fault| {
            warn!("the stored members of catalog zones cannot be used: {fault}");
            BTreeMap::new()
        });
        Membership { members, file, ..Membership::default() }
    }

    /// Sets the catalog zones. Until a version of one is read, it has its last known members.
    pub fn configure(&mut self, plans: Vec<CatalogPlan>) {
        let mut before: HashMap<ZoneName, Catalog> =
            self.catalogs.drain(..).map(|catalog| (catalog.plan.apex.clone(), catalog)).collect();
        for plan in plans {
            let catalog = match before.remove(&plan.apex) {
                Some(catalog) => Catalog { plan, ..catalog },
                None => Catalog {
                    listed: self.listed_before(&plan.apex),
                    plan,
                    held: None,
                    fault: None,
                    is_read: false,
                },
            };
            self.catalogs.push(catalog);
        }
    }

    fn listed_before(&self, apex: &ZoneName) -> CatalogZone {
        let of = self.members.iter().filter(|(_, of)| of.catalog == *apex);
        let members = of.map(|(zone, of)| (zone.clone(), of.member.clone())).collect();
        CatalogZone { members, ..CatalogZone::default() }
    }

    /// Whether a zone is a catalog zone.
    pub fn has(&self, apex: &ZoneName) -> bool {
        self.catalogs.iter().any(|catalog| catalog.plan.apex == *apex)
    }

    /// Whether a zone is a catalog zone that answers no client.
    pub fn is_hidden(&self, apex: &ZoneName) -> bool {
        self.catalogs.iter().any(|catalog| catalog.plan.apex == *apex && !catalog.plan.answers)
    }

    /// The catalog zones.
    pub fn catalogs(&self) -> HashSet<ZoneName> {
        self.catalogs.iter().map(|catalog| catalog.plan.apex.clone()).collect()
    }

    /// The catalog zones that answer no client.
    pub fn hidden(&self) -> HashSet<ZoneName> {
        let hidden = self.catalogs.iter().filter(|catalog| !catalog.plan.answers);
        hidden.map(|catalog| catalog.plan.apex.clone()).collect()
    }

    /// The catalog zones of which no version was read yet.
    pub fn unread(&self) -> impl Iterator<Item = &ZoneName> {
        self.catalogs.iter().filter(|catalog| !catalog.is_read).map(|catalog| &catalog.plan.apex)
    }

    /// Reads a version of a catalog zone, whose members are in its view; [`settle`](Self::settle) returns the
    /// changes. A broken version changes nothing (RFC 9432 §5.1).
    pub fn read(&mut self, apex: &ZoneName, version: &Zone) {
        let Some(catalog) = self.catalogs.iter_mut().find(|catalog| catalog.plan.apex == *apex) else {
            return;
        };
        catalog.is_read = true;
        let serial = version.serial();
        match CatalogZone::read(version).map(|listed| listed.in_view(apex.to_view().as_ref())) {
            Ok(listed) => {
                let of = format!("catalog zone {apex}: ");
                let warnings = listed.warnings.iter().map(|warning| format!("{of}{warning}")).collect();
                report(&mut self.logged, |line| line.starts_with(&of), warnings);
                info!(members = listed.members.len(), %serial, "catalog zone {apex} is read");
                catalog.fault = None;
                catalog.take(listed);
            }
            Err(fault) => {
                let about = ("catalog", &*apex.to_string());
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "catalog zone {apex}: serial {serial} changes nothing: {fault}"
                );
                catalog.fault = Some(fault);
            }
        }
    }

    /// Decides the owner of each zone. `is_configured` returns whether a zone is served whatever catalog
    /// zones list.
    pub fn settle(&mut self, is_configured: impl Fn(&ZoneName) -> bool, removal: Removal) -> MemberSteps {
        if removal == Removal::Force {
            for catalog in &mut self.catalogs {
                if let Some((listed, _)) = catalog.held.take() {
                    catalog.listed = listed;
                }
            }
        }
        let listed: Vec<(ZoneName, &CatalogZone)> =
            self.catalogs.iter().map(|catalog| (catalog.plan.apex.clone(), &catalog.listed)).collect();
        let settled = settle(&self.members, &listed, is_configured);
        let mut steps = MemberSteps::default();
        for zone in self.members.keys().filter(|zone| !settled.members.contains_key(*zone)) {
            steps.removed.push(zone.clone());
        }
        for (zone, (of, claim)) in &settled.members {
            let before = self.members.get(zone);
            if *claim == MemberIdentity::New && before.is_some() {
                steps.reset.push(zone.clone());
            }
            if *claim == MemberIdentity::New || before != Some(of) {
                steps.wanted.extend(self.planned(zone, of));
            }
        }
        self.conflicts = settled.conflicts;
        let conflicts = self.conflicts.iter().map(in_words).collect();
        report(&mut self.logged, |line| line.contains(CONFLICT_MARK), conflicts);
        let members = settled.members.into_iter().map(|(zone, (of, _))| (zone, of)).collect();
        if self.members != members {
            self.members = members;
            self.save();
        }
        steps
    }

    /// All members.
    pub fn all(&self) -> impl Iterator<Item = PlannedZone> {
        self.members.iter().filter_map(|(zone, of)| self.planned(zone, of))
    }

    /// Returns a member with the properties of its template.
    fn planned(&self, zone: &ZoneName, of: &MemberOf) -> Option<PlannedZone> {
        let catalog = self.catalogs.iter().find(|catalog| catalog.plan.apex == of.catalog)?;
        let template = catalog.plan.template(&of.member);
        let file = template.file.as_ref().map(|pattern| ZoneText::File(pattern.path(zone.as_name()).into()));
        let text = file.unwrap_or(ZoneText::Primaries);
        let (apex, origin) = (zone.clone(), Origin::Catalog(of.catalog.clone()));
        let MemberTemplate { peers, grants, queries, updates, listing, differences, rules, .. } = template;
        let signed = updates.as_ref().is_some_and(|updates| updates.is_signed());
        let spec = ZoneSpec { apex, text, origin, differences: *differences, rules: *rules, signed };
        let (peers, grants, queries) = (peers.clone(), grants.clone(), queries.clone());
        Some(PlannedZone { spec, peers, grants, queries, updates: updates.clone(), listing: listing.clone() })
    }

    /// Returns the status of each catalog zone.
    pub fn status(&self) -> Vec<CatalogStatus> {
        let mut members: HashMap<&ZoneName, usize> = HashMap::new();
        self.members.values().for_each(|of| *members.entry(&of.catalog).or_default() += 1);
        let status = |catalog: &Catalog| {
            let apex = &catalog.plan.apex;
            CatalogStatus {
                zone: apex.to_string(),
                members: members.get(apex).copied().unwrap_or(0),
                conflicts: self.conflicts.iter().filter(|conflict| conflict.catalog == *apex).count(),
                held_back: catalog.held.as_ref().map_or(0, |(_, many)| *many),
                fault: catalog.fault.as_ref().map(ToString::to_string),
            }
        };
        self.catalogs.iter().map(status).collect()
    }

    fn save(&self) {
        let Some(file) = &self.file else { return };
        if let Err(fault) = save(file, &self.members) {
            log_repeated!(
                warn,
                WARN,
                ("members not written", ""),
                "the members of catalog zones cannot be written to {}: {fault}",
                file.display()
            );
        }
    }
}

impl Catalog {
    /// Accepts the members of a version, unless too many would be removed, or get another ID, which resets
    /// them (RFC 9432 §5.4).
    fn take(&mut self, listed: CatalogZone) {
        let (of, apex) = (self.listed.members.len(), &self.plan.apex);
        let stays = |zone: &ZoneName, member: &Member| {
            listed.members.get(zone).is_some_and(|now| now.id == member.id)
        };
        let gone: Vec<(&ZoneName, &Member)> =
            self.listed.members.iter().filter(|(zone, member)| !stays(zone, member)).collect();
        let many = gone.len();
        if many < LEAST_HELD || many as f64 <= self.plan.max_removed * of as f64 {
            (self.listed, self.held) = (listed, None);
            return;
        }
        let others = gone.iter().filter(|(zone, _)| listed.members.contains_key(*zone)).count();
        log_repeated!(
            error,
            ERROR,
            ("members held", &apex.to_string()),
            "catalog zone {apex}: of {of} members it lists {} no longer and {others} under other labels, \
             together more than `catalog-max-removed`: all of them stay as they are; `nomen ctl reload \
             --force` removes or resets them",
            many - others
        );
        let stay: Vec<(ZoneName, Member)> =
            gone.into_iter().map(|(zone, member)| (zone.clone(), member.clone())).collect();
        let mut counts = listed.clone();
        counts.members.extend(stay);
        (self.listed, self.held) = (counts, Some((listed, many)));
    }
}

/// Most lines of one kind that are logged at a time: others write catalog zones, and a line per entry may be
/// many.
const MAX_LOGGED_LINES: usize = 20;
/// Part of every log line about a conflict.
const CONFLICT_MARK: &str = " in vain: ";

fn in_words(Conflict { zone, catalog, held_by }: &Conflict) -> String {
    let holder = match held_by {
        ListedIn::Configuration => "it is configured here".to_owned(),
        ListedIn::Catalog(other) => format!("catalog zone {} has it", other),
    };
    format!("catalog zone {} lists {}{CONFLICT_MARK}{holder}", catalog, zone)
}

/// Logs the lines of a kind that were not logged before, up to the limit. A line whose cause has ended is
/// logged again when it recurs.
fn report(logged: &mut HashSet<String>, kind: impl Fn(&str) -> bool, lines: Vec<String>) {
    let (before, others): (HashSet<String>, HashSet<String>) = logged.drain().partition(|line| kind(line));
    let news: Vec<&String> = lines.iter().filter(|line| !before.contains(*line)).collect();
    news.iter().take(MAX_LOGGED_LINES).for_each(|line| warn!("{line}"));
    if let Some(more) = news.len().checked_sub(MAX_LOGGED_LINES).filter(|more| *more > 0) {
        warn!("{more} more of this kind");
    }
    logged.extend(others);
    logged.extend(lines);
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// The zone.
    zone: String,
    /// The catalog zone that owns it.
    catalog: String,
    /// Its ID there. Bytes beyond ASCII are written as the characters with the same numbers.
    id: String,
    /// Its groups, in the same form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// The catalog zone to which it changes its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coo: Option<String>,
}

/// Why the file cannot be used.
#[derive(Debug)]
enum FileFault {
    /// A system error.
    Io(io::Error),
    /// This line, counted from 1, is malformed.
    Line(usize),
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(fault) => fault.fmt(f),
            Self::Line(number) => write!(f, "line {number} of {FILE} is damaged"),
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes_of(text: &str) -> Option<Box<[u8]>> {
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

fn apex_of(text: &str) -> Option<ZoneName> {
    let (name, view) = ViewName::split(text).ok()?;
    let name: NameBuf = name.parse().ok()?;
    Some(ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref()))
}

impl Line {
    fn member(&self) -> Option<(ZoneName, MemberOf)> {
        let groups: Option<Vec<_>> = self.groups.iter().map(|group| bytes_of(group)).collect();
        let new_owner = match &self.coo {
            Some(coo) => Some(apex_of(coo)?),
            None => None,
        };
        let member = Member { id: bytes_of(&self.id)?, groups: groups?, new_owner };
        Some((apex_of(&self.zone)?, MemberOf { catalog: apex_of(&self.catalog)?, member }))
    }
}

fn load(path: &Path) -> Result<BTreeMap<ZoneName, MemberOf>, FileFault> {
    let text = match zone::regular::read_to_string(path, u64::MAX) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(FileFault::Io(e)),
    };
    let read = |line: &str| serde_json::from_str::<Line>(line).ok()?.member();
    text.lines().enumerate().map(|(i, line)| read(line).ok_or(FileFault::Line(i + 1))).collect()
}

fn save(path: &Path, members: &BTreeMap<ZoneName, MemberOf>) -> io::Result<()> {
    let mut text = Vec::new();
    for (zone, MemberOf { catalog, member }) in members {
        let line = Line {
            zone: zone.to_string(),
            catalog: catalog.to_string(),
            id: text_of(&member.id),
            groups: member.groups.iter().map(|group| text_of(group)).collect(),
            coo: member.new_owner.as_ref().map(|coo| coo.to_string()),
        };
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    replace(path, &text)
}

#[cfg(test)]
mod tests;
