//! Catalog zones that nomen produces (RFC 9432): the members of each, the next version when these change, and
//! its store in the state folder with the history for IXFR. Used only by the manager thread, which waits for
//! no write: stored and folded versions arrive as [`ProducerEvent`]. Other threads read only
//! [`ProducedStores`].
//!
//! The zone itself is stored: its records have the labels of members and the serial number, so that both
//! continue after a restart. A label is made of random numbers, so that no client finds a member by its name
//! without a transfer of the zone.
//!
//! The configuration lists the zones of each catalog zone, and the newest version has their labels; the
//! difference is the next version. It is on disk before it is served. Further versions may be made while it
//! is stored.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use journal::{RealDisk, StoreFault, StoreFolder};
use tracing::info;
use transfer::catalog_zone::{
    CatalogFault, CatalogZone, Member, base_records, member_label, record_change, version_step,
};
use transport::unix_now;
use update::SerialPolicy;
use wire::hash::HashKey;
use wire::name::BadName;
use wire::{Serial, ZoneName};
use zone::store::{AddError, BuildError, ChangeError, ChangeSet};
use zone::{Zone, ZoneBuilder};
use zone_plan::{Listing, ProducedPlan};

use super::manager::{LEAST_HELD, Removal};
use super::membership::CatalogStatus;
use crate::fold::{FoldEnd, FoldJob, FoldNumber, Folding};
use crate::stores::produced::ProducedStores;
use crate::stores::{StoreOrder, ZoneStores};
use telemetry::repeated::log_repeated;
use threads::background::Background;

/// Folder of the stores in the state folder.
const FOLDER: &str = "catalogs";

/// Why a catalog zone, or a new version of it, cannot be produced.
#[derive(Debug)]
pub enum ProduceFault {
    /// There is no state folder.
    NoState,
    /// The store cannot be read or written.
    Store(StoreFault),
    /// The stored zone is no valid catalog zone.
    Catalog(CatalogFault),
    /// The name of the catalog zone is too long for names of members below it.
    LongName,
    /// A record cannot be in a zone.
    Record(AddError),
    /// The records make no valid zone.
    Zone(BuildError),
    /// The change cannot be applied to the last version.
    Change(ChangeError),
    /// The system returned no random numbers.
    Random(getrandom::Error),
}

impl fmt::Display for ProduceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoState => f.write_str("there is no state folder"),
            Self::Store(fault) => fault.fmt(f),
            Self::Catalog(fault) => write!(f, "its stored version is no catalog zone: {fault}"),
            Self::LongName => f.write_str("its name is so long that no member fits in front of it"),
            Self::Record(fault) => write!(f, "its records make no zone: {fault}"),
            Self::Zone(fault) => write!(f, "its records make no zone: {fault}"),
            Self::Change(fault) => write!(f, "its next version does not follow the last: {fault}"),
            Self::Random(fault) => write!(f, "there are no random numbers: {fault}"),
        }
    }
}

impl std::error::Error for ProduceFault {}

impl From<StoreFault> for ProduceFault {
    fn from(fault: StoreFault) -> Self {
        Self::Store(fault)
    }
}

impl From<BadName> for ProduceFault {
    fn from(_: BadName) -> Self {
        Self::LongName
    }
}

/// An event of the background work of a producer, for [`Producer::ended`].
#[derive(Debug)]
pub enum ProducerEvent {
    /// The end of storing the version with this number.
    Stored(ZoneName, u64, Result<(), StoreFault>),
    /// The end of a job that folds a version; `None` if it failed.
    Folded(ZoneName, FoldNumber, Option<Arc<Zone>>),
}

/// Receives the events of a producer, on any thread.
pub type OnProducerEvent = Arc<dyn Fn(ProducerEvent) + Send + Sync>;

/// A version of a catalog zone to serve, or why there is none.
pub type Produced = Result<Arc<Zone>, ProduceFault>;

/// A produced catalog zone.
struct Catalog {
    plan: ProducedPlan,
    /// The newest version and its members; `None` if there is no valid one.
    made: Option<(Arc<Zone>, Members)>,
    /// Versions being stored, the oldest first.
    storing: VecDeque<StoringVersion>,
    /// Whether the newest version could not be stored. The next production stores it as a whole.
    is_unstored: bool,
    folding: Folding,
    /// The version or fault to report.
    news: Option<Produced>,
    /// Members that stay although they are no longer listed, because too many would be removed.
    held: HashSet<ZoneName>,
    /// Why the newest version is not up to date.
    fault: Option<String>,
}

/// A version that is being stored.
struct StoringVersion {
    number: u64,
    zone: Arc<Zone>,
    /// Serial number of the version before.
    before: Serial,
    /// Number of its members.
    members: usize,
}

/// The members of a catalog zone.
type Members = BTreeMap<ZoneName, Member>;
/// The next entry of a zone; `None`: the entry is removed.
type Step = (ZoneName, Option<Member>);

/// All catalog zones that nomen produces.
pub struct Producer {
    state: Option<PathBuf>,
    work: Work,
    stores: Arc<ProducedStores>,
    catalogs: BTreeMap<ZoneName, Catalog>,
    listings: HashMap<ZoneName, Arc<Listing>>,
    /// Zones whose entries may have changed.
    changed: HashSet<ZoneName>,
    /// Zones among them that need new labels, because they are other zones of the same name.
    renewed: HashSet<ZoneName>,
}

/// The background work of a producer.
struct Work {
    background: Arc<Background>,
    events: OnProducerEvent,
    /// Number of the last version that was ordered to be stored.
    last: u64,
}

impl Producer {
    /// Returns a producer that stores its zones in this state folder. `events` gets the ends of its
    /// background work.
    pub fn open(
        state: Option<PathBuf>,
        stores: Arc<ProducedStores>,
        background: Arc<Background>,
        events: OnProducerEvent,
    ) -> Producer {
        Producer {
            state,
            work: Work { background, events, last: 0 },
            stores,
            catalogs: BTreeMap::new(),
            listings: HashMap::new(),
            changed: HashSet::new(),
            renewed: HashSet::new(),
        }
    }

    /// Number of the last version that was ordered to be stored.
    pub fn last_order(&self) -> u64 {
        self.work.last
    }

    /// Whether the versions up to this number are stored, or have failed.
    pub fn has_stored(&self, number: u64) -> bool {
        let mut storing = self.catalogs.values().filter_map(|catalog| catalog.storing.front());
        storing.all(|first| first.number > number)
    }

    /// Whether nomen produces a catalog zone.
    pub fn makes(&self, apex: &ZoneName) -> bool {
        self.catalogs.contains_key(apex)
    }

    /// Returns the entry of a zone, if it is listed.
    pub fn listing(&self, zone: &ZoneName) -> Option<&Arc<Listing>> {
        self.listings.get(zone)
    }

    /// Sets the catalog zones and the entries of all zones. `key` is the hash key with which zones are built.
    pub fn configure(
        &mut self,
        plans: Vec<ProducedPlan>,
        listings: HashMap<ZoneName, Arc<Listing>>,
        key: &HashKey,
    ) {
        let mut before = std::mem::take(&mut self.catalogs);
        for plan in plans {
            let catalog = match before.remove(&plan.apex).filter(|catalog| catalog.made.is_some()) {
                Some(catalog) => Catalog { plan, ..catalog },
                None => self.open_catalog(plan, key),
            };
            self.changed.extend(catalog.made.iter().flat_map(|(_, members)| members.keys().cloned()));
            self.catalogs.insert(catalog.plan.apex.clone(), catalog);
        }
        before.keys().for_each(|apex| self.stores.set(apex, false));
        self.changed.extend(listings.keys().cloned());
        self.listings = listings;
    }

    /// Sets the entry of a zone; `None`: it is not listed.
    pub fn list(&mut self, zone: &ZoneName, listing: Option<Arc<Listing>>) {
        self.changed.insert(zone.clone());
        match listing {
            Some(listing) => self.listings.insert(zone.clone(), listing),
            None => self.listings.remove(zone),
        };
    }

    /// Gives a zone a new label (RFC 9432 §5.4), because it is another zone of the same name.
    pub fn renew(&mut self, zone: &ZoneName) {
        self.changed.insert(zone.clone());
        self.renewed.insert(zone.clone());
    }

    /// Makes the versions that follow from the changes, and orders to store them. Returns the versions that
    /// were stored before this process started, and the faults. A version that could not be stored is stored
    /// again at the next call.
    pub fn produce(&mut self, removal: Removal) -> Vec<(ZoneName, Produced)> {
        let mut changed = std::mem::take(&mut self.changed);
        if removal == Removal::Force {
            self.catalogs.values_mut().for_each(|catalog| changed.extend(catalog.held.drain()));
        }
        let mut made = Vec::new();
        let mut steps = match self.steps(&changed) {
            Ok(steps) => steps,
            Err(fault) => {
                let about = ("catalogs not made", "");
                log_repeated!(error, ERROR, about, "catalog zones cannot be updated: {fault}");
                self.changed = changed;
                return made;
            }
        };
        for (apex, catalog) in &mut self.catalogs {
            let steps = catalog.held_back(steps.remove(apex).unwrap_or_default(), removal);
            if let Err(fault) = catalog.advance(steps, self.stores.stores.get(), &mut self.work) {
                catalog.fault = Some(fault.to_string());
                catalog.news = Some(Err(fault));
                self.changed.extend(changed.iter().cloned());
            }
            made.extend(catalog.news.take().map(|news| (apex.clone(), news)));
        }
        if self.changed.is_empty() {
            self.renewed.clear();
        }
        made
    }

    /// Handles an event. Returns the catalog zone with a version to serve or a fault, if there is one.
    pub fn ended(&mut self, event: ProducerEvent) -> Option<(ZoneName, Produced)> {
        match event {
            ProducerEvent::Stored(apex, number, result) => {
                let news = self.catalogs.get_mut(&apex)?.stored(number, result)?;
                Some((apex, news))
            }
            ProducerEvent::Folded(apex, number, zone) => {
                let news = self.catalogs.get_mut(&apex)?.folded(number, zone, &self.work)?;
                Some((apex, Ok(news)))
            }
        }
    }

    /// Returns the status of each catalog zone.
    pub fn status(&self) -> impl Iterator<Item = CatalogStatus> {
        self.catalogs.values().map(|catalog| CatalogStatus {
            zone: catalog.plan.apex.to_string(),
            members: catalog.made.as_ref().map_or(0, |(_, members)| members.len()),
            conflicts: 0,
            held_back: catalog.held.len(),
            fault: catalog.fault.clone(),
        })
    }

    /// Returns the changed entries of these zones, by catalog zone.
    fn steps(&self, zones: &HashSet<ZoneName>) -> Result<HashMap<ZoneName, Vec<Step>>, ProduceFault> {
        let mut steps: HashMap<ZoneName, Vec<Step>> = HashMap::new();
        for zone in zones {
            let entries = self.entries(zone)?;
            for (apex, catalog) in &self.catalogs {
                let Some((_, members)) = &catalog.made else { continue };
                let after = entries.iter().find(|(of, _)| of == apex).map(|(_, member)| member);
                if members.get(zone) != after {
                    steps.entry(apex.clone()).or_default().push((zone.clone(), after.cloned()));
                }
            }
        }
        Ok(steps)
    }

    /// Returns the entries that a zone should have, each with its catalog zone. A zone that stays keeps its
    /// label, and keeps it in the catalog zone to which it moves.
    fn entries(&self, zone: &ZoneName) -> Result<Vec<(ZoneName, Member)>, ProduceFault> {
        let Some(listing) = self.listings.get(zone) else { return Ok(Vec::new()) };
        let Listing { catalog, group, new_owner } = &**listing;
        let known = |catalog: &ZoneName| {
            let (_, members) = self.catalogs.get(catalog)?.made.as_ref()?;
            let member = members.get(zone).filter(|_| !self.renewed.contains(zone))?;
            Some(member.id.clone())
        };
        let id = match known(catalog).or_else(|| known(new_owner.as_ref()?)) {
            Some(id) => id,
            None => {
                let mut random = [0; 16];
                getrandom::fill(&mut random).map_err(ProduceFault::Random)?;
                member_label(random)
            }
        };
        let groups: Vec<Box<[u8]>> = group.iter().cloned().collect();
        let there = new_owner.as_ref().map(|new_owner| {
            let id = known(new_owner).unwrap_or_else(|| id.clone());
            (new_owner.clone(), Member { id, groups: groups.clone(), new_owner: None })
        });
        let here = Member { id, groups, new_owner: new_owner.clone() };
        Ok([(catalog.clone(), here)].into_iter().chain(there).collect())
    }

    /// Opens a stored catalog zone, or begins one without members.
    fn open_catalog(&mut self, plan: ProducedPlan, key: &HashKey) -> Catalog {
        self.stores.set(&plan.apex, false);
        let opened = self.open_stores().and_then(|stores| read(&stores, &plan.apex, key));
        let (made, fault, news) = match opened {
            Ok((zone, members)) => {
                self.stores.set(&plan.apex, true);
                (Some((Arc::clone(&zone), members)), None, Ok(zone))
            }
            Err(fault) => (None, Some(fault.to_string()), Err(fault)),
        };
        Catalog {
            plan,
            made,
            storing: VecDeque::new(),
            is_unstored: false,
            folding: Folding::default(),
            news: Some(news),
            held: HashSet::new(),
            fault,
        }
    }

    fn open_stores(&self) -> Result<ZoneStores, ProduceFault> {
        if let Some(stores) = self.stores.stores.get() {
            return Ok(stores.clone());
        }
        let state = self.state.as_ref().ok_or(ProduceFault::NoState)?;
        let stores = ZoneStores::open(Arc::new(RealDisk), state, FOLDER, Arc::clone(&self.work.background))?;
        Ok(self.stores.stores.get_or_init(|| stores).clone())
    }
}

/// Reads a stored catalog zone and its members, or begins and stores one without members.
fn read(stores: &ZoneStores, apex: &ZoneName, key: &HashKey) -> Result<(Arc<Zone>, Members), ProduceFault> {
    stores.exclusively(apex, |folder| open_or_begin(folder, apex, key))
}

fn open_or_begin(
    folder: &StoreFolder,
    apex: &ZoneName,
    key: &HashKey,
) -> Result<(Arc<Zone>, Members), ProduceFault> {
    let (mut store, stored) = folder.zone(apex.as_name())?;
    if let Some(stored) = stored {
        let zone = stored.load(key)?;
        let listed = CatalogZone::read(&zone).map_err(ProduceFault::Catalog)?;
        return Ok((Arc::new(zone), listed.members));
    }
    let mut builder = ZoneBuilder::new(apex.as_name(), key);
    let serial = SerialPolicy::UnixTime.next(Serial(0), unix_now());
    for record in base_records(apex.as_name(), serial)?.iter() {
        let added = builder.add(record.owner, record.rtype, record.ttl, record.rdata);
        added.map_err(ProduceFault::Record)?;
    }
    let zone = builder.finish().map_err(ProduceFault::Zone)?;
    store.replace(&zone)?;
    Ok((Arc::new(zone), Members::new()))
}

/// Sends the end of storing a version. If it is dropped before, the version is reported as not stored.
struct StoreReport {
    events: OnProducerEvent,
    /// The catalog zone and the number of the version, until the end is sent.
    about: Option<(ZoneName, u64)>,
}

impl StoreReport {
    fn send(mut self, result: Result<(), StoreFault>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<(), StoreFault>) {
        if let Some((apex, number)) = self.about.take() {
            (self.events)(ProducerEvent::Stored(apex, number, result));
        }
    }
}

impl Drop for StoreReport {
    fn drop(&mut self) {
        self.end(Err(StoreFault::NotWritten));
    }
}

impl Work {
    /// Orders to store a version. Returns its number, which its [`ProducerEvent::Stored`] has.
    fn store(&mut self, stores: &ZoneStores, zone: Arc<Zone>, changes: Option<Vec<Arc<ChangeSet>>>) -> u64 {
        self.last += 1;
        let apex = ZoneName::from(zone.apex());
        let report = StoreReport { events: Arc::clone(&self.events), about: Some((apex.clone(), self.last)) };
        let stored = move |result: Result<bool, StoreFault>| report.send(result.map(drop));
        stores.order(&apex, StoreOrder::Version(zone, changes, None), Box::new(stored));
        self.last
    }

    fn fold(&self, apex: &ZoneName, job: FoldJob) {
        let (events, of) = (Arc::clone(&self.events), apex.clone());
        job.run(&self.background, move |number, zone| events(ProducerEvent::Folded(of, number, zone)));
    }
}

impl Catalog {
    /// Returns the steps without the removals if these are too many and not forced.
    fn held_back(&mut self, mut steps: Vec<Step>, removal: Removal) -> Vec<Step> {
        let of = self.made.as_ref().map_or(0, |(_, members)| members.len());
        let gone = steps.iter().filter(|(_, after)| after.is_none()).count();
        let too_many = gone >= LEAST_HELD && gone as f64 > self.plan.max_removed * of as f64;
        if too_many && removal == Removal::HoldBack {
            log_repeated!(
                error,
                ERROR,
                ("members held", &self.plan.apex.to_string()),
                "catalog zone {}: {gone} of {of} members are zones here no longer, which is more than \
                 `catalog-max-removed`: it goes on listing them; `nomen ctl reload --force` removes them",
                self.plan.apex
            );
            let gone = steps.extract_if(.., |(_, after)| after.is_none());
            self.held.extend(gone.map(|(zone, _)| zone));
        }
        for (zone, _) in &steps {
            self.held.remove(zone);
        }
        steps
    }

    /// Makes the version that follows from these steps, and orders to store it. If the last version could not
    /// be stored, or the change is larger than the zone was, the version is stored as a whole.
    fn advance(
        &mut self,
        steps: Vec<Step>,
        stores: Option<&ZoneStores>,
        work: &mut Work,
    ) -> Result<(), ProduceFault> {
        let (Some((zone, members)), Some(stores)) = (&mut self.made, stores) else { return Ok(()) };
        if steps.is_empty() && !self.is_unstored {
            return Ok(());
        }
        let (before, mut changes) = (zone.serial(), None);
        if !steps.is_empty() {
            let apex = self.plan.apex.as_name();
            let after = SerialPolicy::UnixTime.next(before, unix_now());
            let mut change = version_step(apex, before, after);
            for (zone, member) in &steps {
                record_change(apex, zone.as_name(), members.get(zone), member.as_ref(), &mut change)?;
            }
            let next = Arc::new(zone.apply(&change).map_err(ProduceFault::Change)?);
            let change = Arc::new(change);
            let is_large = change.record_count() > zone.record_count();
            self.folding.changed(std::slice::from_ref(&change));
            changes = Some(vec![change]).filter(|_| !is_large && !self.is_unstored);
            *zone = next;
            for (zone, member) in steps {
                match member {
                    Some(member) => members.insert(zone, member),
                    None => members.remove(&zone),
                };
            }
            if let Some(job) = self.folding.begin(zone) {
                work.fold(&self.plan.apex, job);
            }
        }
        let number = work.store(stores, Arc::clone(zone), changes);
        let members = members.len();
        self.storing.push_back(StoringVersion { number, zone: Arc::clone(zone), before, members });
        self.is_unstored = false;
        // An earlier version is not served first: it may lack all members, and consumers would remove these.
        self.news = None;
        Ok(())
    }

    /// Handles the end of storing a version. Returns the version to serve or the fault.
    fn stored(&mut self, number: u64, result: Result<(), StoreFault>) -> Option<Produced> {
        let at = self.storing.iter().position(|storing| storing.number == number)?;
        let StoringVersion { zone, before, members, .. } = self.storing.remove(at)?;
        if let Err(fault) = result {
            self.is_unstored = self.storing.is_empty();
            self.fault = Some(fault.to_string());
            return Some(Err(fault.into()));
        }
        let (newest, _) = self.made.as_ref()?;
        info!(members, "catalog zone {}: serial {before} -> {}", self.plan.apex, zone.serial());
        self.fault = None;
        // The newest version may have been folded meanwhile.
        Some(Ok(if newest.serial() == zone.serial() { Arc::clone(newest) } else { zone }))
    }

    /// Handles the end of a fold. Returns the version if it is stored: it replaces the one in service.
    fn folded(&mut self, number: FoldNumber, zone: Option<Arc<Zone>>, work: &Work) -> Option<Arc<Zone>> {
        match self.folding.ended(number, zone) {
            FoldEnd::Outdated | FoldEnd::Failed => None,
            FoldEnd::Continue(job) => {
                work.fold(&self.plan.apex, job);
                None
            }
            FoldEnd::Folded(folded) => {
                self.made.as_mut()?.0 = Arc::clone(&folded);
                (self.storing.is_empty() && !self.is_unstored).then_some(folded)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
