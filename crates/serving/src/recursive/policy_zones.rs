//! Response policy zones: their versions, as the zone manager passes them on, and the rules in them: of whole
//! zones, and by the differences of versions.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use policy::{ChangedOwner, RpzReport, RuleBuilder, RuleChanges, SourceId};
use recursion::{PolicyRules, PolicyZone, RewriteCounts, RpzOverride};
use tracing::{debug, info, warn};
use wire::edns::ErrorInfo;
use wire::{LowerName, NameBuf, Serial, Ttl, Type, ZoneName};
use zone::Zone;
use zone::catalog::Change;
use zone::store::{changed_owners, diff_within};

use super::lists::RulesConfig;
use config::policy_zones::{OwnerData, PolicyZoneConfig, each_owner};
use threads::sync::lock;

/// Versions of zones by their names.
pub(super) type Versions = HashMap<ZoneName, Arc<Zone>>;

/// The versions of the response policy zones. The zone manager passes each version on; the thread `policy`
/// waits for them.
#[derive(Default)]
pub struct PolicyZones {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    versions: Versions,
    /// Number of changes of the versions.
    changes: u64,
    /// Number of changes that are in force.
    in_force: u64,
    is_stopped: bool,
}

/// What the thread `policy` has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// There are versions that are not in force yet.
    Compile,
    /// The time is over.
    Nothing,
    /// End.
    Stop,
}

impl PolicyZones {
    /// Takes a new version of a zone, or its removal.
    pub fn take(&self, change: Change) {
        let mut state = lock(&self.state);
        match change {
            Change::Serve(zone) => {
                state.versions.insert(ZoneName::from(zone.apex().as_name()), zone);
            }
            Change::Unload(name) | Change::Remove(name) => {
                state.versions.remove(&ZoneName::from(name.as_name()));
            }
        }
        state.changes += 1;
        self.changed.notify_all();
    }

    /// Makes the thread compare the versions with the rules in force.
    pub(super) fn look_again(&self) {
        lock(&self.state).changes += 1;
        self.changed.notify_all();
    }

    /// Returns the versions, and the number of changes that they contain.
    pub(super) fn versions(&self) -> (Versions, u64) {
        let state = lock(&self.state);
        (state.versions.clone(), state.changes)
    }

    /// Records that this many changes are in force.
    pub(super) fn is_in_force(&self, changes: u64) {
        lock(&self.state).in_force = changes;
        self.changed.notify_all();
    }

    /// Leaves the rules of versions so far out, so that nothing waits for them.
    pub(super) fn give_up(&self) {
        let mut state = lock(&self.state);
        state.in_force = state.changes;
        self.changed.notify_all();
    }

    /// Waits until the rules of all versions so far are in force, or the thread has ended.
    pub(super) fn settle(&self) {
        let state = lock(&self.state);
        let changes = state.changes;
        let is_open = |state: &mut State| state.in_force < changes && !state.is_stopped;
        drop(self.changed.wait_while(state, is_open).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for versions that are not in force yet, for a time if there is one.
    pub(super) fn wait(&self, time: Option<Duration>) -> Due {
        let state = lock(&self.state);
        let is_idle = |state: &mut State| state.in_force == state.changes && !state.is_stopped;
        let state = match time {
            None => self.changed.wait_while(state, is_idle).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = self.changed.wait_timeout_while(state, time, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        match (state.is_stopped, state.in_force == state.changes) {
            (true, _) => Due::Stop,
            (false, true) => Due::Nothing,
            (false, false) => Due::Compile,
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        lock(&self.state).is_stopped = true;
        self.changed.notify_all();
    }
}

/// What is known about a response policy zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyZoneStatus {
    /// Its settings.
    pub config: PolicyZoneConfig,
    /// The serial number of the version in force; `None` if there is none.
    pub serial: Option<Serial>,
    /// What that version holds.
    pub report: RpzReport,
}

/// Name of the zone that the rules of safe search count as.
pub(super) const SAFE_SEARCH: &str = recursion::SAFE_SEARCH;

/// TTL of the aliases of safe search.
const SAFE_SEARCH_TTL: Ttl = Ttl::from_secs(300);

/// Compiles the response policy zones of a configuration, and safe search if any clients have it. `old` are
/// the zones before. Returns what is known of each, and the zones as they come into force.
pub(super) fn compile(
    builder: &mut RuleBuilder,
    sources: &mut impl Iterator<Item = SourceId>,
    (old, rules): (&[PolicyZoneStatus], Option<&PolicyRules>),
    config: &RulesConfig,
    versions: &Versions,
) -> (Vec<PolicyZoneStatus>, Vec<PolicyZone>) {
    let (mut all, mut in_force) = (Vec::new(), Vec::new());
    // A zone that stays goes on counting.
    let counts = |name: &NameBuf| {
        let before = rules.into_iter().flat_map(PolicyRules::zones).find(|zone| zone.name == *name);
        before.map(|zone| Arc::clone(&zone.counts)).unwrap_or_default()
    };
    // The zones come first in the pairs: at their end no source is taken.
    for (zone, source) in config.zones.zones.iter().zip(sources.by_ref()) {
        let version = versions.get(&ZoneName::from(&zone.name));
        let (zone, status) = add(builder, source, zone, version, counts(&zone.name));
        note(&status, old.iter().find(|old| old.config.name == status.config.name));
        in_force.push(zone);
        all.push(status);
    }
    let safe_search = SAFE_SEARCH.parse::<NameBuf>().ok().filter(|_| config.groups.safe_search());
    if let (Some(name), Some(source)) = (safe_search, safe_search.and_then(|_| sources.next())) {
        let rules = builder.safe_search(source, SAFE_SEARCH_TTL);
        let (instead, max_ttl, info) = (RpzOverride::Given, SAFE_SEARCH_TTL, Some(ErrorInfo::FORGED_ANSWER));
        let (soa, is_logged, counts) = (None, true, counts(&name));
        in_force.push(PolicyZone { name, instead, max_ttl, soa, info, is_logged, counts });
        let report = RpzReport { rules, ..RpzReport::default() };
        let config = PolicyZoneConfig { name, instead, max_ttl, add_soa: false, info, is_logged };
        all.push(PolicyZoneStatus { config, serial: Some(Serial(1)), report });
    }
    (all, in_force)
}

/// Adds the rules of a zone's version. Returns the zone as it comes into force.
fn add(
    builder: &mut RuleBuilder,
    source: SourceId,
    config: &PolicyZoneConfig,
    version: Option<&Arc<Zone>>,
    counts: Arc<RewriteCounts>,
) -> (PolicyZone, PolicyZoneStatus) {
    let mut report = RpzReport::default();
    if let Some(zone) = version {
        read(builder, source, zone, &mut report);
    }
    let serial = version.map(|zone| zone.serial());
    (in_force(config, version, counts), PolicyZoneStatus { config: config.clone(), serial, report })
}

/// Returns a zone as it comes into force.
fn in_force(
    config: &PolicyZoneConfig,
    version: Option<&Arc<Zone>>,
    counts: Arc<RewriteCounts>,
) -> PolicyZone {
    let soa = version.filter(|_| config.add_soa).and_then(|zone| soa(zone));
    let PolicyZoneConfig { name, instead, max_ttl, info, is_logged, .. } = config.clone();
    PolicyZone { name, instead, max_ttl, soa, info, is_logged, counts }
}

fn read(builder: &mut RuleBuilder, source: SourceId, zone: &Zone, report: &mut RpzReport) {
    let apex = zone.apex();
    each_owner(zone, |owner, records| builder.rpz(source, apex, owner, records, report));
}

/// Two versions without a common base, as after the fold of a zone, are compared as a whole if all rules
/// are as many times more as this, ...
const MUCH_MORE: usize = 16;
/// ... or if both have no more nodes than these, which takes less than a millisecond.
const FEW_NODES: u64 = 4096;

/// Changes rules by the differences of zones from their versions before. Returns `None` if all rules are to
/// be compiled: versions cannot be compared with little work, or too much has changed.
pub(super) fn change(
    rules: &PolicyRules,
    old: &[PolicyZoneStatus],
    config: &RulesConfig,
    (before, after): (&Versions, &Versions),
) -> Option<(Vec<PolicyZoneStatus>, PolicyRules)> {
    let began = Instant::now();
    let mut changes = RuleChanges::new(rules.rules());
    let (mut all, mut zones, mut count) = (Vec::new(), Vec::new(), 0);
    let mut sources = (0..=u8::MAX).map(SourceId);
    for (at, (status, zone)) in old.iter().zip(rules.zones()).enumerate() {
        let source = sources.next()?;
        let name = ZoneName::from(&zone.name);
        // Safe search comes after the zones, and does not change.
        let version = |of: &Versions| of.get(&name).filter(|_| at < config.zones.zones.len()).map(Arc::clone);
        let (mut status, versions) = (status.clone(), (version(before), version(after)));
        let PolicyZone { name, instead, max_ttl, soa, info, is_logged, counts } = zone;
        let (max_ttl, counts) = (*max_ttl, Arc::clone(counts));
        match versions {
            (Some(old), Some(new)) if !Arc::ptr_eq(&old, &new) => {
                let owners = differing_owners(&old, &new, rules.rules().len(), changes.room())?;
                count += owners.len();
                for owner in owners {
                    change_owner(&mut changes, source, (&old, &new), &owner, &mut status.report)?;
                }
                status.serial = Some(new.serial());
                zones.push(in_force(&status.config, Some(&new), counts));
            }
            (Some(_), Some(_)) | (None, None) => {
                let (name, instead, soa, info, is_logged) = (*name, *instead, soa.clone(), *info, *is_logged);
                zones.push(PolicyZone { name, instead, max_ttl, soa, info, is_logged, counts });
            }
            _ => return None,
        }
        all.push(status);
    }
    let changed = changes.finish().inspect_err(|reason| debug!("all rules are compiled: {reason:?}")).ok()?;
    all.iter().zip(old).for_each(|(new, old)| note(new, Some(old)));
    let (names, overlaid) = (changed.len(), changed.overlaid());
    let milliseconds = began.elapsed().as_millis() as u64;
    // A fold of a zone makes another version with the same records.
    if count > 0 {
        info!(owners = count, names, overlaid, milliseconds, "policy rules are changed");
    }
    Some((all, rules.changed(changed, zones)))
}

/// Returns the owners that differ between two versions of a zone, and maybe others; `None` if there are too
/// many, or they are not found with little work.
fn differing_owners(old: &Zone, new: &Zone, rules: usize, most: usize) -> Option<Vec<NameBuf>> {
    if let Some(owners) = changed_owners(old, new, most) {
        return Some(owners);
    }
    let nodes = old.node_count() + new.node_count();
    if nodes > FEW_NODES.max((rules / MUCH_MORE) as u64) {
        return None;
    }
    let change = diff_within(old, new, most)?;
    let records = change.removed.iter().chain(change.added.iter());
    let owners: BTreeSet<NameBuf> = records.map(|record| record.owner.to_lower().into()).collect();
    Some(owners.into_iter().collect())
}

/// Changes the rule of an owner; `None` if that cannot be done.
fn change_owner(
    changes: &mut RuleChanges<'_>,
    source: SourceId,
    (old, new): (&Zone, &Zone),
    owner: &NameBuf,
    report: &mut RpzReport,
) -> Option<()> {
    let (mut before, mut after) = (OwnerData::default(), OwnerData::default());
    before.read(old.find_name(owner.as_name()));
    after.read(new.find_name(owner.as_name()));
    let (before, after) = (before.records(), after.records());
    if before == after {
        return Some(());
    }
    let lower = owner.as_name().to_lower();
    let owner: LowerName<'_> = lower.as_lower();
    let changed =
        changes.rpz(source, new.apex(), ChangedOwner { owner, before: &before, after: &after }, report);
    changed.inspect_err(|reason| debug!("all rules are compiled: {owner}: {reason:?}")).ok()
}

/// Returns TTL and data of a zone's SOA record.
fn soa(zone: &Zone) -> Option<(Ttl, Box<[u8]>)> {
    let rrset = zone.apex_node().rrset(Type::SOA)?;
    let mut bytes = Vec::new();
    rrset.rdatas().next()?.copy_to(&mut bytes);
    Some((rrset.ttl(), bytes.into()))
}

/// Logs a version that is new, and its owners that are no triggers.
fn note(status: &PolicyZoneStatus, before: Option<&PolicyZoneStatus>) {
    let zone = status.config.name.to_string();
    let Some(serial) = status.serial else {
        if before.is_none_or(|before| before.serial.is_some()) {
            warn!("response policy zone {zone} has no rules: there is no version of the zone");
        }
        return;
    };
    if before.is_some_and(|before| before.serial == status.serial && before.report == status.report) {
        return;
    }
    let RpzReport { rules, faults, first } = &status.report;
    if *faults > 0 {
        let first: Vec<String> =
            first.iter().map(|skipped| format!("{}: {}", skipped.owner, skipped.fault)).collect();
        warn!("response policy zone {zone}: {faults} owners are no triggers: {}", first.join("; "));
    }
    info!("response policy zone {zone} is in force: serial {}, {rules} rules", serial.0);
}
