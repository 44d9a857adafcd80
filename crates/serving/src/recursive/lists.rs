//! Block lists: their files, and what is known about each. The rules compiled from them and from response
//! policy zones.
//!
//! A list that cannot be read keeps the rules of its last good version, and the fault is logged and shown. A
//! reload reads only files that have changed. Rules are compiled by the thread that starts or reloads the
//! server, and take effect together, in one swap.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use policy::{ListReport, NameKeys, RuleBuilder, SourceId, line_of};
use recursion::{BlockList, BlockLists, PolicyZone};
use tracing::{error, info, warn};
use transport::unix_now;
use wire::hash::HashKey;
use wire::{Name, NameBuf, UnixTime, ZoneName};

use super::policy_zones::{self, PolicyZoneStatus, Versions};
use config::lists::{ListConfig, ListsConfig};
use config::policy_zones::PolicyZonesConfig;
use threads::sync::lock;
use wording::reason;

/// What is known about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListStatus {
    /// Its settings.
    pub config: ListConfig,
    /// What the version in force holds; `None` if there is none.
    pub report: Option<ListReport>,
    /// When the version in force was read.
    pub read: Option<UnixTime>,
    /// Why the file could not be used, if the version in force is an older one.
    pub fault: Option<String>,
}

/// The identity and state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A list that was read.
#[derive(Clone)]
struct ReadList {
    status: ListStatus,
    /// The state of the file that the version in force, or the fault, is from.
    state: Option<FileState>,
}

/// The lists in force.
pub struct Lists {
    keys: NameKeys,
    loaded: Mutex<Loaded>,
}

#[derive(Clone, Default)]
struct Loaded {
    lists: Vec<ReadList>,
    zones: Vec<PolicyZoneStatus>,
    config: ListsConfig,
    zones_config: PolicyZonesConfig,
    versions: Versions,
    in_force: Option<Arc<BlockLists>>,
}

/// Which lists are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Those whose files or settings have changed.
    Changed,
    /// None: all keep their rules.
    Nothing,
}

impl Loaded {
    /// Whether these response policy zones have the rules in force.
    fn has_same_zones(&self, config: &PolicyZonesConfig, versions: &Versions) -> bool {
        let is_same = |name: &NameBuf| {
            let of = |versions: &Versions| versions.get(&ZoneName::from(name)).map(Arc::as_ptr);
            of(&self.versions) == of(versions)
        };
        self.zones_config == *config && config.zones.iter().all(|zone| is_same(&zone.name))
    }
}

impl Lists {
    /// No lists yet; `key` is the hash key of query names.
    pub(super) fn new(key: HashKey) -> Self {
        Lists { keys: NameKeys::new(key), loaded: Mutex::default() }
    }

    /// Compiles the rules again with other versions of response policy zones. Reads no list. Returns `None`
    /// if there are neither zones nor lists.
    pub(super) fn load_again(&self, versions: Versions) -> Option<Arc<BlockLists>> {
        let loaded = lock(&self.loaded).clone();
        if loaded.has_same_zones(&loaded.zones_config, &versions) {
            return loaded.in_force;
        }
        let (config, zones) = (&loaded.config, &loaded.zones_config);
        self.replace(self.compile(&loaded, config, Reading::Nothing, zones, versions))
    }

    /// Reads the lists of a configuration, as far as they have changed, and compiles them with the response
    /// policy zones. Returns `None` if there are neither.
    pub(super) fn load(
        &self,
        config: &ListsConfig,
        zones_config: &PolicyZonesConfig,
        versions: Versions,
    ) -> Option<Arc<BlockLists>> {
        // Nothing waits for the disk: the lock is held to copy and to replace what is known.
        let loaded = lock(&self.loaded).clone();
        let same = |(old, new): (&ReadList, &ListConfig)| {
            old.status.config == *new && old.state.is_some() && old.state == state_of(&new.file)
        };
        let same_zones = loaded.has_same_zones(zones_config, &versions);
        if same_zones && loaded.config == *config && loaded.lists.iter().zip(&config.lists).all(same) {
            return loaded.in_force;
        }
        self.replace(self.compile(&loaded, config, Reading::Changed, zones_config, versions))
    }

    fn replace(&self, loaded: Loaded) -> Option<Arc<BlockLists>> {
        let in_force = loaded.in_force.clone();
        *lock(&self.loaded) = loaded;
        in_force
    }

    fn compile(
        &self,
        old: &Loaded,
        config: &ListsConfig,
        reading: Reading,
        zones_config: &PolicyZonesConfig,
        versions: Versions,
    ) -> Loaded {
        let began = Instant::now();
        let mut builder = RuleBuilder::new(self.keys);
        // There are at most 256 sources.
        let mut sources = (0..=u8::MAX).map(SourceId);
        let (zones, zones_in_force) = compile_zones(&mut builder, &mut sources, old, zones_config, &versions);
        let (mut lists, mut in_force) = (Vec::new(), Vec::new());
        for (source, list) in sources.zip(&config.lists) {
            let before = old.lists.iter().position(|old| is_version_of(&old.status.config, list));
            let kept = before.and_then(|at| {
                let source = SourceId(u8::try_from(old.zones.len() + at).ok()?);
                Some((old.lists.get(at)?, old.in_force.as_deref()?, source))
            });
            lists.push(self.read(&mut builder, source, list, reading, kept));
            // A list that stays goes on counting.
            let of_before = old.in_force.iter().flat_map(|old| old.lists()).find(|old| old.name == list.name);
            let blocked = of_before.map(|old| Arc::clone(&old.blocked)).unwrap_or_default();
            let name = list.name.clone();
            in_force.push(BlockList { name, answer: list.answer.clone(), blocked });
        }
        let rules = builder.build();
        let has_rules = !config.lists.is_empty() || !zones.is_empty();
        if has_rules {
            let (milliseconds, names) = (began.elapsed().as_millis() as u64, rules.len());
            info!(
                zones = zones.len(),
                lists = lists.len(),
                names,
                bytes = rules.bytes(),
                milliseconds,
                "policy rules are compiled"
            );
        }
        let in_force = BlockLists::new(rules, zones_in_force, zones_config.options, in_force, config.ttl);
        let in_force = has_rules.then(|| Arc::new(in_force));
        let (config, zones_config) = (config.clone(), zones_config.clone());
        Loaded { lists, zones, config, zones_config, versions, in_force }
    }

    /// Adds the rules of one list to `builder`: those of its file, or if it cannot be used those of `kept`,
    /// an earlier version.
    fn read(
        &self,
        builder: &mut RuleBuilder,
        source: SourceId,
        list: &ListConfig,
        reading: Reading,
        kept: Option<(&ReadList, &BlockLists, SourceId)>,
    ) -> ReadList {
        let path = list.file.display();
        let state = state_of(&list.file);
        if let Some((old, rules, as_source)) = kept
            && (reading == Reading::Nothing || (old.state == state && state.is_some()))
            && is_read_alike(&old.status.config, list)
        {
            builder.keep(source, rules.rules(), as_source);
            let status = ListStatus { config: list.clone(), ..old.status.clone() };
            return ReadList { status, state: old.state };
        }
        let read = list.text().map_err(|fault| reason(&fault)).and_then(|text| {
            builder.list(source, list.format, &text, list.exempts).map_err(|fault| fault.to_string())
        });
        let fault = match read {
            Ok(report) => {
                warn_of(list, &report);
                let status = ListStatus {
                    config: list.clone(),
                    report: Some(report),
                    read: Some(unix_now()),
                    fault: None,
                };
                return ReadList { status, state };
            }
            Err(fault) => fault,
        };
        let old = kept.filter(|(old, ..)| old.status.report.is_some());
        let Some((old, rules, as_source)) = old else {
            error!(list = list.name, "the list has no rules: {path}: {fault}");
            let status = ListStatus { config: list.clone(), report: None, read: None, fault: Some(fault) };
            return ReadList { status, state };
        };
        error!(list = list.name, "the list keeps its last good version: {path}: {fault}");
        builder.keep(source, rules.rules(), as_source);
        let status = ListStatus { config: list.clone(), fault: Some(fault), ..old.status.clone() };
        ReadList { status, state }
    }

    /// Returns what is known about each list, with the number of queries that it blocked.
    pub fn status(&self) -> Vec<(ListStatus, u64)> {
        let loaded = lock(&self.loaded);
        let lists = loaded.in_force.as_deref().map_or(&[][..], BlockLists::lists);
        let counts = lists.iter().map(|list| list.blocked.get());
        loaded.lists.iter().map(|list| list.status.clone()).zip(counts).collect()
    }

    /// Returns what is known about each response policy zone, with the zones in force, which have the numbers
    /// of queries.
    pub fn zones(&self) -> (Vec<PolicyZoneStatus>, Option<Arc<BlockLists>>) {
        let loaded = lock(&self.loaded);
        (loaded.zones.clone(), loaded.in_force.clone())
    }

    /// Returns the lists in force.
    pub fn in_force(&self) -> Option<Arc<BlockLists>> {
        lock(&self.loaded).in_force.clone()
    }

    /// Returns the line of a list's file that has a rule for this name, if the file still has one.
    pub fn line(&self, list: &str, name: Name<'_>) -> Option<usize> {
        let loaded = lock(&self.loaded);
        let config =
            loaded.lists.iter().map(|list| &list.status.config).find(|config| config.name == list)?;
        let config = config.clone();
        drop(loaded);
        line_of(&config.text().ok()?, config.format, name.to_lower().as_lower())
    }
}

/// Compiles the response policy zones of a configuration.
fn compile_zones(
    builder: &mut RuleBuilder,
    sources: &mut impl Iterator<Item = SourceId>,
    old: &Loaded,
    config: &PolicyZonesConfig,
    versions: &Versions,
) -> (Vec<PolicyZoneStatus>, Vec<PolicyZone>) {
    let (mut all, mut in_force) = (Vec::new(), Vec::new());
    for zone in &config.zones {
        let Some(source) = sources.next() else { break };
        // A zone that stays goes on counting.
        let before = old.in_force.iter().flat_map(|old| old.zones()).find(|old| old.name == zone.name);
        let counts = before.map(|old| Arc::clone(&old.counts)).unwrap_or_default();
        let version = versions.get(&ZoneName::from(&zone.name));
        let (zone, status) = policy_zones::add(builder, source, zone, version, counts);
        let before = old.zones.iter().find(|old| old.config.name == status.config.name);
        policy_zones::note(&status, before);
        in_force.push(zone);
        all.push(status);
    }
    (all, in_force)
}

/// Whether the rules of an earlier configuration may replace those of a list that cannot be read.
fn is_version_of(old: &ListConfig, new: &ListConfig) -> bool {
    old.name == new.name && old.exempts == new.exempts
}

/// Whether two configurations of a list read the same rules from an unchanged file.
fn is_read_alike(old: &ListConfig, new: &ListConfig) -> bool {
    let of = |list: &ListConfig| (list.file.clone(), list.format, list.max_size);
    of(old) == of(new)
}

/// Returns the state of a file; `None` if it cannot be read.
fn state_of(path: &Path) -> Option<FileState> {
    let about = std::fs::metadata(path).ok()?;
    Some(FileState {
        device: about.dev(),
        inode: about.ino(),
        len: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

/// Logs the lines of a list that cannot be used.
fn warn_of(list: &ListConfig, report: &ListReport) {
    if report.faults == 0 {
        return;
    }
    let first = list.places(report).collect::<Vec<_>>();
    warn!(
        list = list.name,
        "{} lines cannot be used, {} rules are: {}",
        report.faults,
        report.rules,
        first.join("; ")
    );
}
