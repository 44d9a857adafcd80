//! Catalog zones that nomen produces (RFC 9432): the members of each, the next version when these change, and
//! its store in the state folder with the history for IXFR. Used only by the manager thread; other threads
//! read only [`ProducedStores`].
//!
//! The zone itself is stored: its records have the labels of members and the serial number, so that both
//! continue after a restart. A label is made of random numbers, so that no client finds a member by its name
//! without a transfer of the zone.
//!
//! The configuration lists the zones of each catalog zone, and the newest version has their labels; the
//! difference is the next version. It is on disk before it is served.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use exchange::unix_now;
use journal::{RealDisk, StoreFault, ZoneFolder};
use tracing::info;
use transfer::catalog_zone::{
    CatalogFault, CatalogZone, Member, base_records, member_label, record_change, version_step,
};
use update::SerialPolicy;
use wire::hash::HashKey;
use wire::name::BadName;
use wire::{Name, Serial};
use zone::store::{AddError, BuildError, ChangeError, ChangeSet};
use zone::{Zone, ZoneBuilder};

use super::manager::{LEAST_HELD, Removal};
use super::membership::CatalogStatus;
use crate::managed::Apex;
use crate::stores::produced::ProducedStores;
use crate::stores::{StoreOrder, ZoneStores};
use telemetry::repeated::log_repeated;
use threads::background::Background;

/// Folder of the stores in the state folder.
const FOLDER: &str = "catalogs";

/// The entry of a zone in a catalog zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The catalog zone.
    pub catalog: Apex,
    /// Its group there.
    pub group: Option<Box<[u8]>>,
    /// The catalog zone to which the zone is to move.
    pub new_owner: Option<Apex>,
}

/// A produced catalog zone as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct ProducedPlan {
    /// Its name.
    pub apex: Apex,
    /// The largest share of members, from 0 to 1, that one version may remove.
    pub max_removed: f64,
}

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
            Self::Catalog(fault) => write!(f, "what was kept of it is no catalog zone: {fault}"),
            Self::LongName => f.write_str("its name is so long that no member fits in front of it"),
            Self::Record(fault) => write!(f, "its records make no zone: {fault}"),
            Self::Zone(fault) => write!(f, "its records make no zone: {fault}"),
            Self::Change(fault) => write!(f, "its next version does not follow from the last: {fault}"),
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

/// A produced catalog zone.
struct Catalog {
    plan: ProducedPlan,
    /// The newest version and its members; `None` if there is no valid one.
    made: Option<(Arc<Zone>, Members)>,
    /// The version or fault to report.
    news: Option<Result<Arc<Zone>, ProduceFault>>,
    /// Members that stay although they are no longer listed, because too many would be removed.
    held: HashSet<Apex>,
    /// Why the newest version is not up to date.
    fault: Option<String>,
}

/// The members of a catalog zone.
type Members = BTreeMap<Apex, Member>;
/// The next entry of a zone; `None`: the entry is removed.
type Step = (Apex, Option<Member>);

/// All catalog zones that nomen produces.
#[derive(Default)]
pub struct Producer {
    state: Option<PathBuf>,
    background: Arc<Background>,
    stores: Arc<ProducedStores>,
    catalogs: BTreeMap<Apex, Catalog>,
    listings: HashMap<Apex, Arc<Listing>>,
    /// Zones whose entries may have changed.
    changed: HashSet<Apex>,
    /// Zones among them that need new labels, because they are other zones of the same name.
    renewed: HashSet<Apex>,
}

fn shown(apex: &Apex) -> Name<'_> {
    apex.as_name()
}

impl Producer {
    /// Returns a producer that stores its zones in this state folder.
    pub fn open(
        state: Option<PathBuf>,
        stores: Arc<ProducedStores>,
        background: Arc<Background>,
    ) -> Producer {
        Producer { state, stores, background, ..Producer::default() }
    }

    /// Whether nomen produces a catalog zone.
    pub fn makes(&self, apex: &Apex) -> bool {
        self.catalogs.contains_key(apex)
    }

    /// Returns the entry of a zone, if it is listed.
    pub fn listing(&self, zone: &Apex) -> Option<&Arc<Listing>> {
        self.listings.get(zone)
    }

    /// Sets the catalog zones and the entries of all zones. `key` is the hash key with which zones are built.
    pub fn configure(
        &mut self,
        plans: Vec<ProducedPlan>,
        listings: HashMap<Apex, Arc<Listing>>,
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
    pub fn list(&mut self, zone: &Apex, listing: Option<Arc<Listing>>) {
        self.changed.insert(zone.clone());
        match listing {
            Some(listing) => self.listings.insert(zone.clone(), listing),
            None => self.listings.remove(zone),
        };
    }

    /// Gives a zone a new label (RFC 9432 §5.4), because it is another zone of the same name.
    pub fn renew(&mut self, zone: &Apex) {
        self.changed.insert(zone.clone());
        self.renewed.insert(zone.clone());
    }

    /// Makes and stores the versions that follow from the changes. Returns the catalog zones with a new
    /// version, and those with a fault. A version that cannot be stored is dropped, and made again the next
    /// time.
    pub fn produce(&mut self, removal: Removal) -> Vec<(Apex, Result<Arc<Zone>, ProduceFault>)> {
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
            if let Err(fault) = catalog.advance(steps, self.stores.stores.get()) {
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

    /// Returns the status of each catalog zone.
    pub fn status(&self) -> impl Iterator<Item = CatalogStatus> {
        self.catalogs.values().map(|catalog| CatalogStatus {
            zone: shown(&catalog.plan.apex).to_string(),
            members: catalog.made.as_ref().map_or(0, |(_, members)| members.len()),
            conflicts: 0,
            held_back: catalog.held.len(),
            fault: catalog.fault.clone(),
        })
    }

    /// Returns the changed entries of these zones, by catalog zone.
    fn steps(&self, zones: &HashSet<Apex>) -> Result<HashMap<Apex, Vec<Step>>, ProduceFault> {
        let mut steps: HashMap<Apex, Vec<Step>> = HashMap::new();
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
    fn entries(&self, zone: &Apex) -> Result<Vec<(Apex, Member)>, ProduceFault> {
        let Some(listing) = self.listings.get(zone) else { return Ok(Vec::new()) };
        let Listing { catalog, group, new_owner } = &**listing;
        let known = |catalog: &Apex| {
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
        Catalog { plan, made, news: Some(news), held: HashSet::new(), fault }
    }

    fn open_stores(&self) -> Result<ZoneStores, ProduceFault> {
        if let Some(stores) = self.stores.stores.get() {
            return Ok(stores.clone());
        }
        let state = self.state.as_ref().ok_or(ProduceFault::NoState)?;
        let stores = ZoneStores::open(Arc::new(RealDisk), &state.join(FOLDER), Arc::clone(&self.background))?;
        Ok(self.stores.stores.get_or_init(|| stores).clone())
    }
}

/// Reads a stored catalog zone and its members, or begins and stores one without members.
fn read(stores: &ZoneStores, apex: &Apex, key: &HashKey) -> Result<(Arc<Zone>, Members), ProduceFault> {
    stores.exclusively(apex, |folder| open_or_begin(folder, apex, key))
}

fn open_or_begin(
    folder: &ZoneFolder,
    apex: &Apex,
    key: &HashKey,
) -> Result<(Arc<Zone>, Members), ProduceFault> {
    let (mut store, stored) = folder.zone(shown(apex))?;
    if let Some(stored) = stored {
        let zone = stored.load(key)?;
        let listed = CatalogZone::read(&zone).map_err(ProduceFault::Catalog)?;
        return Ok((Arc::new(zone), listed.members));
    }
    let mut builder = ZoneBuilder::new(shown(apex), key);
    let serial = SerialPolicy::UnixTime.next(Serial(0), unix_now());
    for record in base_records(shown(apex), serial)?.iter() {
        let added = builder.add(record.owner, record.rtype, record.ttl, record.rdata);
        added.map_err(ProduceFault::Record)?;
    }
    let zone = builder.finish().map_err(ProduceFault::Zone)?;
    store.replace(&zone)?;
    Ok((Arc::new(zone), Members::new()))
}

/// Stores the version `after`, made of `before` by `change`, and waits for the disk. If the change is larger
/// than the zone was, stores the version as a whole.
fn store(
    stores: &ZoneStores,
    apex: &Apex,
    before: &Zone,
    change: ChangeSet,
    after: &Arc<Zone>,
) -> Result<(), StoreFault> {
    let is_large = (change.removed.len() + change.added.len()) as u64 > before.record_count();
    let changes = (!is_large).then(|| vec![Arc::new(change)]);
    let (done, ended) = sync_channel(1);
    let version = StoreOrder::Version(Arc::clone(after), changes, None);
    stores.order(apex, version, Box::new(move |result| drop(done.send(result))));
    ended.recv().unwrap_or(Err(StoreFault::NotWritten)).map(drop)
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
                ("members held", &shown(&self.plan.apex).to_string()),
                "catalog zone {}: {gone} of {of} members are zones here no longer, which is more than \
                 `catalog-max-removed`: it goes on listing them; `nomen ctl reload --force` removes them",
                shown(&self.plan.apex)
            );
            let gone = steps.extract_if(.., |(_, after)| after.is_none());
            self.held.extend(gone.map(|(zone, _)| zone));
        }
        for (zone, _) in &steps {
            self.held.remove(zone);
        }
        steps
    }

    /// Makes the version that follows from these steps, and stores it.
    fn advance(&mut self, steps: Vec<Step>, stores: Option<&ZoneStores>) -> Result<(), ProduceFault> {
        let (Some((zone, members)), Some(stores)) = (&mut self.made, stores) else { return Ok(()) };
        if steps.is_empty() {
            return Ok(());
        }
        let (apex, before) = (shown(&self.plan.apex), zone.serial());
        let after = SerialPolicy::UnixTime.next(before, unix_now());
        let mut change = version_step(apex, before, after);
        for (zone, member) in &steps {
            record_change(apex, shown(zone), members.get(zone), member.as_ref(), &mut change)?;
        }
        let next = Arc::new(zone.apply(&change).map_err(ProduceFault::Change)?);
        store(stores, &self.plan.apex, zone, change, &next)?;
        let folded = next.is_worth_folding().then(|| next.folded().ok()).flatten();
        *zone = folded.map_or(next, Arc::new);
        for (zone, member) in steps {
            match member {
                Some(member) => members.insert(zone, member),
                None => members.remove(&zone),
            };
        }
        info!(members = members.len(), "catalog zone {apex} is made: serial {before} -> {after}");
        (self.news, self.fault) = (Some(Ok(Arc::clone(zone))), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
