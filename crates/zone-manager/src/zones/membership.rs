//! Which zones catalog zones ask for: what each lists, who has which zone, and what a new version of one
//! changes. A state machine without threads; `manager` reports versions to it and does what follows. Which
//! zone is whose is kept in a file, so that a restart neither takes a zone from the catalog zone that has it,
//! nor misses that a member was reset.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use transfer::catalog_zone::{
    CatalogFault, CatalogZone, Claim, Conflict, ListedIn, Member, MemberOf, settle,
};
use wire::{Name, NameBuf};
use zone::Zone;

use super::manager::{LEAST_HELD, Removal};
use super::produce::Listing;
use crate::changes::ZoneUpdates;
use crate::managed::DifferenceRule;
use crate::managed::{Apex, Origin, TextRules, ZoneSpec, ZoneText};
use crate::secondaries::ZonePeers;
use crate::transfers::Grants;
use config::zones::pattern::PathPattern;
use telemetry::repeated::log_repeated;
use zone::regular::replace;

/// The file in the state folder.
const FILE: &str = "members.json";

/// What members of a catalog zone have in common.
#[derive(Debug)]
pub struct MemberTemplate {
    /// Their files; `None`: they are taken from primaries.
    pub file: Option<PathPattern>,
    /// Their other servers, if they have any.
    pub peers: Option<Arc<ZonePeers>>,
    /// Who may have them.
    pub grants: Option<Grants>,
    /// How they may be changed, if they may be.
    pub updates: Option<Arc<ZoneUpdates>>,
    /// Whether it is kept what changes in their files.
    pub differences: DifferenceRule,
    /// How their files are judged.
    pub rules: TextRules,
    /// Where they are listed for others, if they are.
    pub listing: Option<Arc<Listing>>,
}

/// A catalog zone as it is configured.
#[derive(Debug, Clone)]
pub struct CatalogPlan {
    /// Its name.
    pub apex: Apex,
    /// Of members that have none by their group.
    pub template: Arc<MemberTemplate>,
    /// Of members of a group.
    pub groups: HashMap<Box<[u8]>, Arc<MemberTemplate>>,
    /// The largest share of members, from 0 to 1, that one version removes.
    pub max_removed: f64,
    /// Whether queries and transfers of it are answered.
    pub answers: bool,
}

impl CatalogPlan {
    fn template(&self, member: &Member) -> &MemberTemplate {
        member.groups.iter().find_map(|group| self.groups.get(group)).unwrap_or(&self.template)
    }
}

/// A zone that is wanted at run time.
#[derive(Debug, Clone)]
pub struct PlannedZone {
    /// The zone.
    pub spec: ZoneSpec,
    /// Its other servers, if it has any.
    pub peers: Option<Arc<ZonePeers>>,
    /// Who may have it.
    pub grants: Option<Grants>,
    /// How it may be changed, if it may be.
    pub updates: Option<Arc<ZoneUpdates>>,
    /// Where it is listed for others, if it is.
    pub listing: Option<Arc<Listing>>,
}

/// A catalog zone at work.
#[derive(Debug)]
struct Catalog {
    plan: CatalogPlan,
    /// What counts of it.
    listed: CatalogZone,
    /// What the newest version lists, if that would remove or reset too many.
    held: Option<(CatalogZone, usize)>,
    fault: Option<CatalogFault>,
    /// Whether a version was read by this process.
    is_read: bool,
}

/// What is known of a catalog zone, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogStatus {
    /// Its name.
    pub zone: String,
    /// Zones that are served because it lists them; of one that is made here, those that it lists.
    pub members: usize,
    /// Zones that it lists in vain: others have them.
    pub conflicts: usize,
    /// Members that stay as they are because too many would go or be reset.
    pub held_back: usize,
    /// Why its newest version counts for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// What follows from a change.
#[derive(Debug, Default)]
pub struct MemberSteps {
    /// Zones that are members no longer.
    pub removed: Vec<Apex>,
    /// Members that are others than before under the same name: what is known of them is to be forgotten.
    pub reset: Vec<Apex>,
    /// Members that are new, were reset, or are served in another way.
    pub wanted: Vec<PlannedZone>,
}

impl MemberSteps {
    /// Whether nothing follows.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.wanted.is_empty()
    }
}

/// All catalog zones.
#[derive(Debug, Default)]
pub struct Membership {
    catalogs: Vec<Catalog>,
    members: BTreeMap<Apex, MemberOf>,
    conflicts: Vec<Conflict>,
    /// What was logged, so that it is logged once.
    logged: HashSet<String>,
    file: Option<PathBuf>,
}

fn shown(apex: &[u8]) -> Name<'_> {
    Name::from_wire(apex).unwrap_or(Name::ROOT)
}

impl Membership {
    /// Who had which zone when the last process ended, from the state folder. A file that cannot be used is
    /// reported, and the catalog zones decide anew.
    pub fn open(state: Option<&Path>) -> Membership {
        let file = state.map(|state| state.join(FILE));
        let members = file.as_deref().map_or_else(|| Ok(BTreeMap::new()), load);
        let members = members.unwrap_or_else(|fault| {
            warn!("which catalog zone has which zone is not known from before: {fault}");
            BTreeMap::new()
        });
        Membership { members, file, ..Membership::default() }
    }

    /// These are the catalog zones from now on. Until a version of one is read, it lists what it listed last.
    pub fn configure(&mut self, plans: Vec<CatalogPlan>) {
        let mut before: HashMap<Apex, Catalog> =
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

    fn listed_before(&self, apex: &Apex) -> CatalogZone {
        let of = self.members.iter().filter(|(_, of)| of.catalog == *apex);
        let members = of.map(|(zone, of)| (zone.clone(), of.member.clone())).collect();
        CatalogZone { members, ..CatalogZone::default() }
    }

    /// Whether a zone is a catalog zone.
    pub fn has(&self, apex: &[u8]) -> bool {
        self.catalogs.iter().any(|catalog| *catalog.plan.apex == *apex)
    }

    /// Whether a zone is a catalog zone that answers no client.
    pub fn is_hidden(&self, apex: &[u8]) -> bool {
        self.catalogs.iter().any(|catalog| *catalog.plan.apex == *apex && !catalog.plan.answers)
    }

    /// The catalog zones.
    pub fn catalogs(&self) -> HashSet<Apex> {
        self.catalogs.iter().map(|catalog| catalog.plan.apex.clone()).collect()
    }

    /// The catalog zones that answer no client.
    pub fn hidden(&self) -> HashSet<Apex> {
        let hidden = self.catalogs.iter().filter(|catalog| !catalog.plan.answers);
        hidden.map(|catalog| catalog.plan.apex.clone()).collect()
    }

    /// The catalog zones of which no version was read yet.
    pub fn unread(&self) -> impl Iterator<Item = &Apex> {
        self.catalogs.iter().filter(|catalog| !catalog.is_read).map(|catalog| &catalog.plan.apex)
    }

    /// Reads a version of a catalog zone; [`settle`](Self::settle) says what follows. A version that is
    /// broken changes nothing (RFC 9432 §5.1).
    pub fn read(&mut self, version: &Zone) {
        let apex = version.apex().as_wire();
        let Some(catalog) = self.catalogs.iter_mut().find(|catalog| *catalog.plan.apex == *apex) else {
            return;
        };
        catalog.is_read = true;
        let serial = version.serial();
        match CatalogZone::read(version) {
            Ok(listed) => {
                let of = format!("catalog zone {}: ", shown(apex));
                let warnings = listed.warnings.iter().map(|warning| format!("{of}{warning}")).collect();
                report(&mut self.logged, |line| line.starts_with(&of), warnings);
                info!(members = listed.members.len(), %serial, "catalog zone {} is read", shown(apex));
                catalog.fault = None;
                catalog.take(listed);
            }
            Err(fault) => {
                let about = ("catalog", &*shown(apex).to_string());
                log_repeated!(
                    error,
                    ERROR,
                    about,
                    "catalog zone {}: serial {serial} changes nothing: {fault}",
                    shown(apex)
                );
                catalog.fault = Some(fault);
            }
        }
    }

    /// Decides who has which zone. `is_configured` says which zones are served whatever catalog zones list.
    pub fn settle(&mut self, is_configured: impl Fn(&Apex) -> bool, removal: Removal) -> MemberSteps {
        if removal == Removal::Force {
            for catalog in &mut self.catalogs {
                if let Some((listed, _)) = catalog.held.take() {
                    catalog.listed = listed;
                }
            }
        }
        let listed: Vec<(Apex, &CatalogZone)> =
            self.catalogs.iter().map(|catalog| (catalog.plan.apex.clone(), &catalog.listed)).collect();
        let settled = settle(&self.members, &listed, is_configured);
        let mut steps = MemberSteps::default();
        for zone in self.members.keys().filter(|zone| !settled.members.contains_key(*zone)) {
            steps.removed.push(zone.clone());
        }
        for (zone, (of, claim)) in &settled.members {
            let before = self.members.get(zone);
            if *claim == Claim::New && before.is_some() {
                steps.reset.push(zone.clone());
            }
            if *claim == Claim::New || before != Some(of) {
                steps.wanted.extend(self.planned(zone, of));
            }
        }
        self.conflicts = settled.conflicts;
        let conflicts = self.conflicts.iter().map(in_words).collect();
        report(&mut self.logged, |line| line.contains(VAIN), conflicts);
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

    /// A member as its catalog zone's templates have it.
    fn planned(&self, zone: &Apex, of: &MemberOf) -> Option<PlannedZone> {
        let catalog = self.catalogs.iter().find(|catalog| catalog.plan.apex == of.catalog)?;
        let template = catalog.plan.template(&of.member);
        let file = template.file.as_ref().map(|pattern| ZoneText::File(pattern.path(shown(zone)).into()));
        let text = file.unwrap_or(ZoneText::Primaries);
        let (apex, origin) = (zone.clone(), Origin::Catalog(of.catalog.clone()));
        let spec = ZoneSpec { apex, text, origin, differences: template.differences, rules: template.rules };
        let MemberTemplate { peers, grants, updates, listing, .. } = template;
        let (peers, grants) = (peers.clone(), grants.clone());
        Some(PlannedZone { spec, peers, grants, updates: updates.clone(), listing: listing.clone() })
    }

    /// What is known of each catalog zone.
    pub fn status(&self) -> Vec<CatalogStatus> {
        let mut members: HashMap<&Apex, usize> = HashMap::new();
        self.members.values().for_each(|of| *members.entry(&of.catalog).or_default() += 1);
        let status = |catalog: &Catalog| {
            let apex = &catalog.plan.apex;
            CatalogStatus {
                zone: shown(apex).to_string(),
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
                "which catalog zone has which zone cannot be written to {}: {fault}",
                file.display()
            );
        }
    }
}

impl Catalog {
    /// A version lists these zones from now on, unless too many would be removed, or be others under their
    /// names, of which all that is known is forgotten (RFC 9432 §5.4).
    fn take(&mut self, listed: CatalogZone) {
        let (of, apex) = (self.listed.members.len(), &self.plan.apex);
        let stays =
            |zone: &Apex, member: &Member| listed.members.get(zone).is_some_and(|now| now.id == member.id);
        let gone: Vec<(&Apex, &Member)> =
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
            ("members held", &shown(apex).to_string()),
            "catalog zone {}: of {of} members it lists {} no longer and {others} under other labels, together more than \
             `catalog-max-removed`: all of them stay as they are; `nomen ctl reload --force` removes or resets them",
            shown(apex),
            many - others
        );
        let stay: Vec<(Apex, Member)> =
            gone.into_iter().map(|(zone, member)| (zone.clone(), member.clone())).collect();
        let mut counts = listed.clone();
        counts.members.extend(stay);
        (self.listed, self.held) = (counts, Some((listed, many)));
    }
}

/// Lines of one kind that are logged at a time: others write catalog zones, and a line for each entry may be
/// many.
const SHOWN: usize = 20;
/// What every line about a conflict has in it.
const VAIN: &str = " in vain: ";

fn in_words(Conflict { zone, catalog, held_by }: &Conflict) -> String {
    let holder = match held_by {
        ListedIn::Configuration => "it is configured here".to_owned(),
        ListedIn::Catalog(other) => format!("catalog zone {} has it", shown(other)),
    };
    format!("catalog zone {} lists {}{VAIN}{holder}", shown(catalog), shown(zone))
}

/// Logs the lines of a kind that were not true before, as far as shown. What is true no longer is news when
/// it comes again.
fn report(logged: &mut HashSet<String>, kind: impl Fn(&str) -> bool, lines: Vec<String>) {
    let (before, others): (HashSet<String>, HashSet<String>) = logged.drain().partition(|line| kind(line));
    let news: Vec<&String> = lines.iter().filter(|line| !before.contains(*line)).collect();
    news.iter().take(SHOWN).for_each(|line| warn!("{line}"));
    if let Some(more) = news.len().checked_sub(SHOWN).filter(|more| *more > 0) {
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
    /// The catalog zone that has it.
    catalog: String,
    /// Its label there. Bytes beyond ASCII are the characters of the same numbers.
    id: String,
    /// Its groups, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// The catalog zone that it is to go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coo: Option<String>,
}

/// Why the file cannot be used.
#[derive(Debug)]
enum FileFault {
    /// The system's word.
    Io(io::Error),
    /// This line, from 1, is none of ours.
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

fn apex_of(text: &str) -> Option<Apex> {
    let name: NameBuf = text.parse().ok()?;
    Some(name.as_name().to_lower().as_lower().as_wire().into())
}

impl Line {
    fn member(&self) -> Option<(Apex, MemberOf)> {
        let groups: Option<Vec<_>> = self.groups.iter().map(|group| bytes_of(group)).collect();
        let new_owner = match &self.coo {
            Some(coo) => Some(apex_of(coo)?),
            None => None,
        };
        let member = Member { id: bytes_of(&self.id)?, groups: groups?, new_owner };
        Some((apex_of(&self.zone)?, MemberOf { catalog: apex_of(&self.catalog)?, member }))
    }
}

fn load(path: &Path) -> Result<BTreeMap<Apex, MemberOf>, FileFault> {
    let text = match zone::regular::read_to_string(path, u64::MAX) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(FileFault::Io(e)),
    };
    let read = |line: &str| serde_json::from_str::<Line>(line).ok()?.member();
    text.lines().enumerate().map(|(i, line)| read(line).ok_or(FileFault::Line(i + 1))).collect()
}

fn save(path: &Path, members: &BTreeMap<Apex, MemberOf>) -> io::Result<()> {
    let mut text = Vec::new();
    for (zone, MemberOf { catalog, member }) in members {
        let line = Line {
            zone: shown(zone).to_string(),
            catalog: shown(catalog).to_string(),
            id: text_of(&member.id),
            groups: member.groups.iter().map(|group| text_of(group)).collect(),
            coo: member.new_owner.as_ref().map(|coo| shown(coo).to_string()),
        };
        serde_json::to_writer(&mut text, &line)?;
        text.push(b'\n');
    }
    replace(path, &text)
}

#[cfg(test)]
mod tests;
