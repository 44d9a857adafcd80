//! Catalog zones that are made here (RFC 9432): which zones each lists, the version that follows when that
//! changes, and its file in the state folder, with the history that IXFR is answered from. Belongs to the
//! thread that keeps the zones; only [`ProducedStores`] is read by others.
//!
//! What is kept is the zone itself: its records have the labels of members and the serial number, so that
//! both go on where they were. A label is made of random numbers, so that no client finds a member by its
//! name without a transfer of the zone.
//!
//! The configuration says where each zone is listed, the newest version says with which label, and what
//! differs is the next version. It is on disk before it is served.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use exchange::unix_seconds;
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

/// The folder of the files in the state folder.
const FOLDER: &str = "catalogs";

/// Where a zone is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The catalog zone.
    pub catalog: Apex,
    /// Its group there.
    pub group: Option<Box<[u8]>>,
    /// The catalog zone that it is to move to.
    pub new_owner: Option<Apex>,
}

/// A catalog zone as it is configured.
#[derive(Debug, Clone, PartialEq)]
pub struct ProducedPlan {
    /// Its name.
    pub apex: Apex,
    /// The largest share of members, from 0 to 1, that one version removes.
    pub max_removed: f64,
}

/// Why a catalog zone cannot be made, or not be changed.
#[derive(Debug)]
pub enum ProduceFault {
    /// There is no state folder.
    NoState,
    /// What was kept cannot be read, or not be added to.
    Store(StoreFault),
    /// What was kept is no catalog zone.
    Catalog(CatalogFault),
    /// The name of the catalog zone leaves no room for the names of members.
    LongName,
    /// The records make no zone.
    Record(AddError),
    /// Nor do they together.
    Zone(BuildError),
    /// The records of the next version do not fit those of the last.
    Change(ChangeError),
    /// The system has no random numbers.
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

/// A catalog zone at work.
struct Catalog {
    plan: ProducedPlan,
    /// The newest version, and what it lists; `None` if it cannot be made.
    made: Option<(Arc<Zone>, Members)>,
    /// What is to be reported of it.
    news: Option<Result<Arc<Zone>, ProduceFault>>,
    /// Members that stay though nothing lists them any more: too many would go.
    held: HashSet<Apex>,
    /// Why the newest version is not what it should be.
    fault: Option<String>,
}

/// What a catalog zone lists.
type Members = BTreeMap<Apex, Member>;
/// The next entry of a zone; `None`: it ends.
type Step = (Apex, Option<Member>);

/// All catalog zones that are made here.
#[derive(Default)]
pub struct Producer {
    state: Option<PathBuf>,
    background: Arc<Background>,
    stores: Arc<ProducedStores>,
    catalogs: BTreeMap<Apex, Catalog>,
    listings: HashMap<Apex, Arc<Listing>>,
    /// Zones whose entries may be others than before.
    changed: HashSet<Apex>,
    /// Those that are others than before under the same name.
    renewed: HashSet<Apex>,
}

fn shown(apex: &[u8]) -> Name<'_> {
    Name::from_wire(apex).unwrap_or(Name::ROOT)
}

impl Producer {
    /// One that keeps what it makes in this state folder.
    pub fn open(
        state: Option<PathBuf>,
        stores: Arc<ProducedStores>,
        background: Arc<Background>,
    ) -> Producer {
        Producer { state, stores, background, ..Producer::default() }
    }

    /// Whether a catalog zone is made here.
    pub fn makes(&self, apex: &[u8]) -> bool {
        self.catalogs.contains_key(apex)
    }

    /// Where a zone is listed.
    pub fn listing(&self, zone: &Apex) -> Option<&Arc<Listing>> {
        self.listings.get(zone)
    }

    /// These catalog zones are made from now on, and list these zones. `key` is the one that zones are built
    /// under.
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

    /// A zone is listed here from now on, and nowhere else; `None`: nowhere.
    pub fn list(&mut self, zone: &Apex, listing: Option<Arc<Listing>>) {
        self.changed.insert(zone.clone());
        match listing {
            Some(listing) => self.listings.insert(zone.clone(), listing),
            None => self.listings.remove(zone),
        };
    }

    /// A zone is another one than before under the same name: it gets another label (RFC 9432 §5.4).
    pub fn renew(&mut self, zone: &Apex) {
        self.changed.insert(zone.clone());
        self.renewed.insert(zone.clone());
    }

    /// Makes the versions that follow from what has changed, and keeps them. Returns the catalog zones with
    /// another version, and those with a fault; what cannot be kept has not happened, and is tried again the
    /// next time.
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

    /// What is known of each catalog zone.
    pub fn status(&self) -> impl Iterator<Item = CatalogStatus> {
        self.catalogs.values().map(|catalog| CatalogStatus {
            zone: shown(&catalog.plan.apex).to_string(),
            members: catalog.made.as_ref().map_or(0, |(_, members)| members.len()),
            conflicts: 0,
            held_back: catalog.held.len(),
            fault: catalog.fault.clone(),
        })
    }

    /// The next entries of these zones, by catalog zone.
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

    /// The entries that a zone should have, each with its catalog zone. A zone that stays keeps its label,
    /// and takes it along to the catalog zone that it is to move to.
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

    /// A catalog zone as it was kept, or one that lists nothing yet.
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

/// A catalog zone as it was kept, and what it lists; or one that lists nothing, which is kept from now on.
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
    let serial = SerialPolicy::UnixTime.next(Serial(0), unix_seconds());
    for record in base_records(shown(apex), serial)?.iter() {
        let added = builder.add(record.owner, record.rtype, record.ttl, record.rdata);
        added.map_err(ProduceFault::Record)?;
    }
    let zone = builder.finish().map_err(ProduceFault::Zone)?;
    store.replace(&zone)?;
    Ok((Arc::new(zone), Members::new()))
}

/// Stores the version that a change has made of another, and waits for the disk. Where the change is larger
/// than the zone was, the version is stored as a whole.
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
    /// The steps without removals that are too many, unless these are forced.
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

    /// Makes the version that follows from these steps, and keeps it.
    fn advance(&mut self, steps: Vec<Step>, stores: Option<&ZoneStores>) -> Result<(), ProduceFault> {
        let (Some((zone, members)), Some(stores)) = (&mut self.made, stores) else { return Ok(()) };
        if steps.is_empty() {
            return Ok(());
        }
        let (apex, before) = (shown(&self.plan.apex), zone.serial());
        let after = SerialPolicy::UnixTime.next(before, unix_seconds());
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
