//! Block lists: their files, and what is known about each. The rules compiled from them and from response
//! policy zones.
//!
//! A list that cannot be read keeps the rules of its last good version, and the fault is logged and shown. A
//! reload reads only files that have changed. What has changed in a text is changed in the rules in force
//! (`list_changes`), and more than that compiles all rules again. Both is done by the thread that starts or
//! reloads the server, or that fetches lists (`list_fetcher`), and takes effect in one swap.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fetch::{DocumentStore, checksum};
use policy::{ListReport, NameKeys, RuleBuilder, SourceId, line_of};
use query_path::GroupLimits;
use rate_limits::RateTable;
use recursion::{BlockList, PartitionsConfig, PolicyRules};
use tracing::{error, info, warn};
use transport::unix_now;
use wire::hash::HashKey;
use wire::{Name, NameBuf, UnixTime, ZoneName};

use super::fetched_lists::FetchedText;
use super::groups::{self, GroupFigure, GroupFigures, MacAddresses, Pauses, Selected};
use super::list_fetches::ListFetches;
use super::policy_zones::{self, PolicyZoneStatus, Versions};
use config::lists::{LISTS_FOLDER, ListConfig, ListSource, ListsConfig};
use config::policy_groups::{DEFAULT_GROUP, GroupsConfig};
use config::policy_zones::PolicyZonesConfig;
use config::resolver::ScheduledPartitions;
use threads::spare::{CpuShare, spare};
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
    /// Why the file or what was fetched could not be used, if the version in force is an older one.
    pub fault: Option<String>,
    /// The fetches of a list with a URL.
    pub fetches: Option<ListFetches>,
    /// Checksum of the text of the version in force.
    pub(super) sum: Option<[u8; 32]>,
}

/// The identity and state of a file, by which a change is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A list that was read.
#[derive(Clone)]
pub(super) struct ReadList {
    pub(super) status: ListStatus,
    /// The state of the file that the version in force, or the fault, is from.
    pub(super) state: Option<FileState>,
}

/// The lists in force.
pub struct Lists {
    keys: NameKeys,
    /// Last good versions of lists with a URL.
    pub(super) store: Option<DocumentStore>,
    /// Held from before lists are read until the rules from them are in force.
    changing: Mutex<()>,
    pub(super) loaded: Mutex<Loaded>,
    pub(super) pauses: Pauses,
    /// The counters of clients with limits, once there are any.
    limit_table: Mutex<Option<Arc<RateTable>>>,
    figures: GroupFigures,
}

#[derive(Clone, Default)]
pub(super) struct Loaded {
    pub(super) lists: Vec<ReadList>,
    pub(super) zones: Vec<PolicyZoneStatus>,
    pub(super) config: RulesConfig,
    pub(super) versions: Versions,
    /// What counts for each group, and for clients in none.
    pub(super) selected: Selected,
    /// The addresses of hosts that groups name by their MAC addresses.
    pub(super) addresses: MacAddresses,
    pub(super) in_force: Option<Arc<PolicyRules>>,
}

/// The settings that rules are compiled from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RulesConfig {
    /// Response policy zones.
    pub zones: PolicyZonesConfig,
    /// Block lists.
    pub lists: ListsConfig,
    /// Groups of clients.
    pub groups: GroupsConfig,
}

impl Loaded {
    /// Whether these response policy zones have the rules in force.
    fn has_same_zones(&self, versions: &Versions) -> bool {
        let of = |versions: &Versions, name: &NameBuf| versions.get(&ZoneName::from(name)).map(Arc::as_ptr);
        let mut zones = self.config.zones.zones.iter();
        zones.all(|zone| of(&self.versions, &zone.name) == of(versions, &zone.name))
    }
}

/// What lists are compiled from, besides the version in force.
pub(super) enum NewTexts<'t> {
    /// Files that have changed.
    Changed,
    /// Of these lists, by name, what was fetched, or the changed file; of all others the version in force.
    Of(&'t BTreeMap<String, Option<FetchedText>>),
}

/// By the name of a list, whether its text has changed, or why the text cannot be used.
pub type RefreshedLists = BTreeMap<String, Result<bool, String>>;

/// The version in force of a list: what is known about it, the rules of all lists, and its number there.
pub(super) type InForce<'l> = (&'l ReadList, &'l PolicyRules, SourceId);

impl Lists {
    /// No lists yet; `key` is the hash key of query names. Lists with a URL are stored in the state folder.
    pub(super) fn new(key: HashKey, state: Option<&Path>) -> Self {
        let store = state.map(|state| DocumentStore::new(state.join(LISTS_FOLDER)));
        Lists {
            keys: NameKeys::new(key),
            store,
            changing: Mutex::default(),
            loaded: Mutex::default(),
            pauses: Pauses::default(),
            limit_table: Mutex::default(),
            figures: GroupFigures::default(),
        }
    }

    /// Locks out other changes of lists, until the caller has put its own into force.
    pub(super) fn change(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// Reads the lists of a configuration, as far as they have changed, and compiles them with the response
    /// policy zones. Returns `None` if there are no rules.
    pub(super) fn load(&self, config: &RulesConfig, versions: Versions) -> Option<Arc<PolicyRules>> {
        // Nothing waits for the disk: the lock is held to copy and to replace what is known.
        let loaded = lock(&self.loaded).clone();
        let same = |(old, new): (&ReadList, &ListConfig)| {
            let is_unchanged = match &new.source {
                ListSource::File(file) => old.state.is_some() && old.state == state_of(file),
                ListSource::Url(_) => true,
            };
            old.status.config == *new && is_unchanged
        };
        let changed = loaded.lists.iter().zip(&config.lists.lists).filter(|both| !same(*both));
        let changed: BTreeMap<String, Option<FetchedText>> =
            changed.map(|(_, list)| (list.name.clone(), None)).collect();
        let is_same_config = loaded.config == *config;
        if is_same_config && changed.is_empty() {
            return self.renew(versions);
        }
        // The start waits for the rules, and no query does.
        let is_first = loaded.in_force.is_none();
        if is_same_config
            && !is_first
            && let Some(new) = spare(CpuShare::Rest, || Lists::with_texts(&loaded, &changed))
        {
            self.replace(new);
            return self.renew(versions);
        }
        let compile = || self.compile(&loaded, config, &NewTexts::Changed, &versions);
        self.replace(if is_first { compile() } else { spare(CpuShare::Rest, compile) })
    }

    fn replace(&self, loaded: Loaded) -> Option<Arc<PolicyRules>> {
        let in_force = loaded.in_force.clone();
        *lock(&self.loaded) = loaded;
        in_force
    }

    /// Returns the rules for these versions of response policy zones and the present time: with the changes
    /// of the versions, or compiled again if these are many, and with other groups if other sources count
    /// for any. Reads no list.
    pub(super) fn renew(&self, versions: Versions) -> Option<Arc<PolicyRules>> {
        let old = lock(&self.loaded).clone();
        if !old.has_same_zones(&versions) {
            let none = NewTexts::Of(&BTreeMap::new());
            let compile = || self.compile(&old, &old.config, &none, &versions);
            let change = || self.changed(&old, &versions).unwrap_or_else(compile);
            // The start waits for the rules.
            let is_first = old.versions.is_empty();
            return self.replace(if is_first { compile() } else { spare(CpuShare::Rest, change) });
        }
        let selected = self.selected(&old.config);
        let addresses = groups::addresses(&old.config.groups, &old.addresses);
        if selected == old.selected && addresses == old.addresses {
            return old.in_force;
        }
        let in_force = old.in_force.as_deref().map(|rules| {
            Arc::new(rules.with_groups(groups::compiled(
                &old.config.groups,
                &selected,
                &addresses,
                &self.figures,
            )))
        });
        self.replace(Loaded { selected, addresses, in_force, ..old })
    }

    /// Returns the same lists with the changes of response policy zones; `None` if all rules are to be
    /// compiled.
    fn changed(&self, old: &Loaded, versions: &Versions) -> Option<Loaded> {
        let rules = old.in_force.as_deref()?;
        let (zones, rules) = policy_zones::change(rules, &old.zones, &old.config, (&old.versions, versions))?;
        let selected = self.selected(&old.config);
        let addresses = groups::addresses(&old.config.groups, &old.addresses);
        let groups = groups::compiled(&old.config.groups, &selected, &addresses, &self.figures);
        let in_force = Some(Arc::new(rules.with_groups(groups)));
        Some(Loaded { zones, versions: versions.clone(), selected, addresses, in_force, ..old.clone() })
    }

    /// Returns what counts for each group now.
    fn selected(&self, config: &RulesConfig) -> Selected {
        groups::selected(config, &self.pauses, jiff::Timestamp::now())
    }

    /// Returns which clients are in which partition now: `usual` are the groups while no schedule is in
    /// force, without the addresses of hosts.
    pub(super) fn partitions(
        &self,
        usual: &PartitionsConfig,
        scheduled: &ScheduledPartitions,
    ) -> PartitionsConfig {
        let (now, loaded) = (jiff::Timestamp::now(), lock(&self.loaded));
        groups::partitions(&loaded.config.groups, usual, scheduled, &loaded.addresses, now)
    }

    /// Returns the limits on the queries of groups; `None` if no client has one.
    ///
    /// # Errors
    /// The system returned no random numbers.
    pub(super) fn limits(&self) -> Result<Option<Arc<GroupLimits>>, getrandom::Error> {
        let loaded = lock(&self.loaded);
        let config = &loaded.config.groups;
        if !groups::has_limits(config) {
            return Ok(None);
        }
        let mut table = lock(&self.limit_table);
        if table.is_none() {
            *table = Some(groups::limit_table()?);
        }
        let limits =
            table.as_ref().and_then(|table| groups::limits(config, &loaded.addresses, &self.figures, table));
        Ok(limits.map(Arc::new))
    }

    /// Returns the counters of each group since the start.
    pub fn group_figures(&self) -> Vec<(String, GroupFigure)> {
        self.figures.all()
    }

    /// Whether there is a group of this name.
    pub(super) fn has_group(&self, name: &str) -> bool {
        let loaded = lock(&self.loaded);
        name == DEFAULT_GROUP || loaded.config.groups.groups.iter().any(|group| group.name == name)
    }

    /// Suspends the rules for a group for a time from now; `None` ends that.
    pub(super) fn pause(&self, group: &str, time: Option<Duration>) {
        let until = time.and_then(|time| jiff::Timestamp::now().checked_add(time).ok());
        self.pauses.set(group, until);
    }

    /// Returns the addresses that the hosts of a group have, which it names by their MAC addresses.
    pub fn host_addresses(&self, group: &str) -> Vec<IpAddr> {
        let loaded = lock(&self.loaded);
        let group = loaded.config.groups.groups.iter().find(|own| own.name == group);
        let macs = group.iter().flat_map(|group| &group.macs);
        macs.filter_map(|mac| loaded.addresses.get(mac)).flatten().copied().collect()
    }

    /// Returns the name of each group, with the end of its pause if it is paused.
    pub fn groups(&self) -> Vec<(String, Option<UnixTime>)> {
        let now = jiff::Timestamp::now();
        let names: Vec<String> = {
            let loaded = lock(&self.loaded);
            loaded.config.groups.groups.iter().map(|group| group.name.clone()).collect()
        };
        let until = |name: &str| {
            let end = self.pauses.of(name, now)?;
            Some(UnixTime::from_secs(u64::try_from(end.as_second()).ok()?))
        };
        let names = names.into_iter().chain([DEFAULT_GROUP.to_owned()]);
        names.map(|name| (name.clone(), until(&name))).collect()
    }

    /// Returns the time until what counts for a group may change.
    pub(super) fn until_change(&self) -> Option<Duration> {
        let loaded = lock(&self.loaded);
        groups::until_change(&loaded.config.groups, &self.pauses, jiff::Timestamp::now())
    }

    /// Takes new texts of some lists: what has changed in them is changed in the rules, or all rules are
    /// compiled again. Returns the outcomes of these.
    pub(super) fn take(&self, texts: &BTreeMap<String, Option<FetchedText>>) -> RefreshedLists {
        let old = lock(&self.loaded).clone();
        let compile = || self.compile(&old, &old.config, &NewTexts::Of(texts), &old.versions);
        let new = spare(CpuShare::Rest, || Lists::with_texts(&old, texts).unwrap_or_else(compile));
        let both = old.lists.iter().zip(&new.lists);
        let named = both.filter(|(old, _)| texts.contains_key(&old.status.config.name));
        let outcome = |(old, new): (&ReadList, &ReadList)| {
            let is_new = old.status.sum != new.status.sum;
            (new.status.config.name.clone(), new.status.fault.clone().map_or(Ok(is_new), Err))
        };
        let outcomes = named.map(outcome).collect();
        *lock(&self.loaded) = new;
        outcomes
    }

    fn compile(
        &self,
        old: &Loaded,
        config: &RulesConfig,
        texts: &NewTexts<'_>,
        versions: &Versions,
    ) -> Loaded {
        let began = Instant::now();
        let mut builder = RuleBuilder::new(self.keys);
        // There are at most 256 sources.
        let mut sources = (0..=u8::MAX).map(SourceId);
        let (zones, zones_in_force) = policy_zones::compile(
            &mut builder,
            &mut sources,
            (&old.zones, old.in_force.as_deref()),
            config,
            versions,
        );
        let (mut lists, mut in_force) = (Vec::new(), Vec::new());
        for (source, list) in sources.zip(&config.lists.lists) {
            let before = old.lists.iter().position(|old| is_version_of(&old.status.config, list));
            let kept = before.and_then(|at| {
                let rules = old.in_force.as_deref()?;
                let source = SourceId(u8::try_from(rules.zones().len() + at).ok()?);
                Some((old.lists.get(at)?, rules, source))
            });
            lists.push(match &list.source {
                ListSource::File(file) => {
                    let reads = match texts {
                        NewTexts::Changed => true,
                        NewTexts::Of(texts) => texts.contains_key(&list.name),
                    };
                    read_file(&mut builder, source, (list, file), kept, reads)
                }
                ListSource::Url(fetching) => {
                    let text = match texts {
                        NewTexts::Changed => None,
                        NewTexts::Of(texts) => texts.get(&list.name).and_then(Option::as_ref),
                    };
                    let status = self.read_fetched(&mut builder, source, (list, fetching), kept, text);
                    ReadList { status, state: None }
                }
            });
            // A list that stays goes on counting.
            let of_before = old.in_force.iter().flat_map(|old| old.lists()).find(|old| old.name == list.name);
            let blocked = of_before.map(|old| Arc::clone(&old.blocked)).unwrap_or_default();
            let name = list.name.clone();
            in_force.push(BlockList { name, answer: list.answer.clone(), blocked });
        }
        let rules = builder.build();
        let has_rules = !config.lists.lists.is_empty() || !zones.is_empty();
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
        let selected = self.selected(config);
        let addresses = groups::addresses(&config.groups, &old.addresses);
        let rules = PolicyRules::new(rules, zones_in_force, config.zones.options, in_force, config.lists.ttl);
        let rules = rules.with_groups(groups::compiled(&config.groups, &selected, &addresses, &self.figures));
        let in_force = has_rules.then(|| Arc::new(rules));
        let versions = versions.clone();
        Loaded { lists, zones, config: config.clone(), versions, selected, addresses, in_force }
    }

    /// Returns what is known about each response policy zone, with the zones in force, which have the numbers
    /// of queries.
    pub fn zones(&self) -> (Vec<PolicyZoneStatus>, Option<Arc<PolicyRules>>) {
        let loaded = lock(&self.loaded);
        (loaded.zones.clone(), loaded.in_force.clone())
    }

    /// Returns what is known about each list, with the number of queries that it blocked.
    pub fn status(&self) -> Vec<(ListStatus, u64)> {
        let loaded = lock(&self.loaded);
        let lists = loaded.in_force.as_deref().map_or(&[][..], PolicyRules::lists);
        let counts = lists.iter().map(|list| list.blocked.get());
        loaded.lists.iter().map(|list| list.status.clone()).zip(counts).collect()
    }

    /// Returns the name and the source of every list.
    pub(super) fn sources(&self) -> Vec<(String, ListSource)> {
        let of = |list: &ReadList| (list.status.config.name.clone(), list.status.config.source.clone());
        lock(&self.loaded).lists.iter().map(of).collect()
    }

    /// Returns the lists in force.
    pub fn in_force(&self) -> Option<Arc<PolicyRules>> {
        lock(&self.loaded).in_force.clone()
    }

    /// Returns the line of a list's text that has a rule for this name, if the file still has one.
    pub fn line(&self, list: &str, name: Name<'_>) -> Option<usize> {
        let loaded = lock(&self.loaded);
        let config =
            loaded.lists.iter().map(|list| &list.status.config).find(|config| config.name == list)?;
        let config = config.clone();
        drop(loaded);
        let text = match &config.source {
            ListSource::File(file) => config.file_text(file).ok()?,
            ListSource::Url(fetching) => self.stored(&config, fetching).ok()??.text,
        };
        line_of(&text, config.format, name.to_lower().as_lower())
    }
}

/// Adds the rules of a list with a file to `builder`: those of the file, or if it is not read or cannot be
/// used those of `kept`, an earlier version.
fn read_file(
    builder: &mut RuleBuilder,
    source: SourceId,
    (list, file): (&ListConfig, &Path),
    kept: Option<InForce<'_>>,
    reads: bool,
) -> ReadList {
    let state = state_of(file);
    if let Some((old, rules, as_source)) = kept
        && (!reads || old.state == state && state.is_some())
        && is_read_alike(&old.status.config, list)
    {
        builder.keep(source, rules.rules(), as_source);
        let status = ListStatus { config: list.clone(), ..old.status.clone() };
        return ReadList { status, state: old.state };
    }
    let text = list.file_text(file).map_err(|fault| reason(&fault));
    let added = text.and_then(|text| Ok((add(builder, source, list, &text)?, checksum(&text))));
    let status = match added {
        Ok((report, sum)) => {
            let (report, read) = (Some(report), Some(unix_now()));
            ListStatus { config: list.clone(), report, read, fault: None, fetches: None, sum: Some(sum) }
        }
        Err(fault) => keep(builder, source, list, kept, Some(fault)),
    };
    ReadList { status, state }
}

/// Adds the rules in a text of a list to `builder`.
pub(super) fn add(
    builder: &mut RuleBuilder,
    source: SourceId,
    list: &ListConfig,
    text: &[u8],
) -> Result<ListReport, String> {
    list.check_lines(text)?;
    let report = builder.list(source, list.format, text, list.exempts).map_err(|fault| fault.to_string())?;
    warn_of(list, &report);
    Ok(report)
}

/// Adds the rules of the version in force to `builder`, if there is one, and logs the fault of the new one.
pub(super) fn keep(
    builder: &mut RuleBuilder,
    source: SourceId,
    list: &ListConfig,
    kept: Option<InForce<'_>>,
    fault: Option<String>,
) -> ListStatus {
    let from = &list.source;
    let Some((old, rules, as_source)) = kept.filter(|(old, ..)| old.status.report.is_some()) else {
        if let Some(fault) = &fault {
            error!(list = list.name, "the list has no rules: {from}: {fault}");
        }
        let (report, read, fetches, sum) = (None, None, None, None);
        return ListStatus { config: list.clone(), report, read, fault, fetches, sum };
    };
    if let Some(fault) = &fault {
        error!(list = list.name, "the list keeps its last good version: {from}: {fault}");
    }
    builder.keep(source, rules.rules(), as_source);
    // The same text in another format is another list.
    let sum = old.status.sum.filter(|_| is_read_alike(&old.status.config, list));
    ListStatus { config: list.clone(), fault, fetches: None, sum, ..old.status.clone() }
}

/// Whether the rules of an earlier configuration may replace those of a list that cannot be read.
fn is_version_of(old: &ListConfig, new: &ListConfig) -> bool {
    old.name == new.name && old.exempts == new.exempts
}

/// Whether two configurations of a list read the same rules from an unchanged text.
pub(super) fn is_read_alike(old: &ListConfig, new: &ListConfig) -> bool {
    old.source.is_same_text(&new.source)
        && (old.format, old.max_size, old.max_lines) == (new.format, new.max_size, new.max_lines)
}

/// Returns the state of a file; `None` if it cannot be read.
pub(super) fn state_of(path: &Path) -> Option<FileState> {
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
pub(super) fn warn_of(list: &ListConfig, report: &ListReport) {
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
