//! The zones in service, as data in memory. `authority` writes the answers, and decides what to prefetch.

use std::fmt;
use std::sync::Arc;

use authority::{AnswerLocation, Ask, HashingLimit, Scratch, Unanswered};
use transfer::tsig::TsigKey;
use transport::Client;
use wire::hash::{HashKey, HashedName};
use wire::message::Builder;
use wire::{Class, Name, ViewName, ZoneName};
use zone::catalog::{Catalog, ZoneEntry};

use crate::asked::Asked;
use crate::memory::{Both, LookupKey, Memory, MemoryResult};
use crate::query_access::{QueryTraits, ZoneAccess};
use crate::refusal::Refusal;
use crate::request::QueryQuestion;
use crate::settings::Engine;
use crate::stats::QueryStats;
use crate::views::{ViewNumber, Views};
use crate::zone_facts::ZoneFacts;

/// Settings for answers from zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonesConfig {
    /// Most CNAME and DNAME links followed for one query. Default: 16.
    pub max_chain: u8,
    /// Whether queries are counted for each zone. Default: no.
    pub count_per_zone: bool,
    /// Rounds of SHA-1 per second that a worker spends on names of zones with more than a hundred NSEC3
    /// iterations. Default: [`HashingLimit::DEFAULT_ROUNDS`].
    pub nsec3_rounds: u32,
}

impl Default for ZonesConfig {
    fn default() -> Self {
        ZonesConfig { max_chain: 16, count_per_zone: false, nsec3_rounds: HashingLimit::DEFAULT_ROUNDS }
    }
}

/// Zones, and the settings for their answers.
#[derive(Clone)]
pub struct Zones {
    /// The zones outside views.
    pub catalog: Arc<Catalog>,
    /// The views, if there are any.
    pub views: Option<Arc<Views>>,
    /// The access rules of zones, if any zone has some.
    pub access: Option<Arc<ZoneAccess>>,
    /// Settings for answers from them.
    pub config: ZonesConfig,
}

impl Zones {
    /// Returns these zones with default settings.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Zones { catalog, views: None, access: None, config: ZonesConfig::default() }
    }

    /// Returns the zones for queries in a view.
    #[inline]
    fn of(&self, view: ViewNumber) -> &Catalog {
        if view == ViewNumber::OUTSIDE { &self.catalog } else { self.of_view(view) }
    }

    /// Returns the refusal of a query that the access rules of its zone do not allow. Not inlined: a server
    /// without such rules does not pay for its length.
    #[inline(never)]
    fn refuses(access: &ZoneAccess, entry: Option<&ZoneEntry>, asked: &Asked<'_>) -> Result<(), Refusal> {
        if entry.is_some_and(|entry| access.allows(entry, &traits(asked))) {
            return Ok(());
        }
        asked.stats.zone_refused.add(1);
        Err(Refusal::PROHIBITED)
    }

    /// Not inlined: a server without views does not pay for its length.
    #[inline(never)]
    fn of_view(&self, view: ViewNumber) -> &Catalog {
        self.views.as_ref().and_then(|views| views.catalog(view)).unwrap_or(&self.catalog)
    }

    /// Whether a chain of aliases may continue in the zone of this entry.
    #[cold]
    fn may_enter(&self, entry: &ZoneEntry, asked: &Asked<'_>) -> bool {
        let may = self.access.as_ref().is_none_or(|access| access.allows(entry, &traits(asked)));
        if !may {
            asked.stats.zone_chains_ended.add(1);
        }
        may
    }

    /// Returns the zones that a location is in.
    #[inline]
    fn of_location(&self, location: &AnswerLocation) -> &Catalog {
        self.of(ViewNumber::of_byte(location.catalog()))
    }
}

/// Returns the properties of a query that rules decide by.
fn traits<'a>(asked: &Asked<'a>) -> QueryTraits<'a> {
    let key = asked.verified.map(|verified| verified.key().name());
    QueryTraits::of(asked.request, asked.client, key)
}

/// The catalog's hash key is not that of the engine, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongCatalogKey;

impl fmt::Display for WrongCatalogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the catalog is of another hash key than the engine")
    }
}
impl std::error::Error for WrongCatalogKey {}

/// Data in memory that contain zones.
pub trait HasZones {
    /// Returns the zones.
    fn zones(&self) -> &Zones;

    /// Returns the zones, for replacement.
    fn zones_mut(&mut self) -> &mut Zones;
}

impl HasZones for Zones {
    fn zones(&self) -> &Zones {
        self
    }

    fn zones_mut(&mut self) -> &mut Zones {
        self
    }
}

impl<B> HasZones for Both<Zones, B> {
    fn zones(&self) -> &Zones {
        &self.first
    }

    fn zones_mut(&mut self) -> &mut Zones {
        &mut self.first
    }
}

impl<M: Memory + HasZones> Engine<M> {
    /// Replaces the zones in service, from the next batch on.
    ///
    /// # Errors
    /// If the catalog's hash key is not that of the engine; the present catalog stays.
    pub fn set_catalog(&self, catalog: &Arc<Catalog>) -> Result<(), WrongCatalogKey> {
        if *catalog.key() != self.key() {
            return Err(WrongCatalogKey);
        }
        self.change_memory(|memory| memory.zones_mut().catalog = Arc::clone(catalog));
        Ok(())
    }

    /// Replaces the zones in service, and those of views, from the next batch on.
    ///
    /// # Errors
    /// As for [`set_catalog`](Self::set_catalog).
    pub fn set_catalogs(
        &self,
        catalog: &Arc<Catalog>,
        views: Option<&Arc<Views>>,
    ) -> Result<(), WrongCatalogKey> {
        let mut all = views.into_iter().flat_map(|views| views.iter().map(|(_, catalog)| catalog));
        if *catalog.key() != self.key() || all.any(|catalog| *catalog.key() != self.key()) {
            return Err(WrongCatalogKey);
        }
        self.change_memory(|memory| {
            let zones = memory.zones_mut();
            zones.catalog = Arc::clone(catalog);
            zones.views = views.cloned();
        });
        Ok(())
    }

    /// Returns the zones in service outside views.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.with_memory(|memory| Arc::clone(&memory.zones().catalog))
    }

    /// Returns the views, if there are any.
    pub fn views(&self) -> Option<Arc<Views>> {
        self.with_memory(|memory| memory.zones().views.clone())
    }

    /// Returns the zones for the queries in a view; `None`: for those in no view, or there is no such view.
    pub fn catalog_of(&self, view: Option<&str>) -> Option<Arc<Catalog>> {
        let Some(view) = view else { return Some(self.catalog()) };
        let views = self.views()?;
        views.iter().find(|(name, _)| name.as_str() == view).map(|(_, catalog)| Arc::clone(catalog))
    }

    /// Returns a zone in service.
    pub fn zone_entry(&self, apex: &ZoneName) -> Option<ZoneEntry> {
        self.with_memory(|memory| {
            let zones = memory.zones();
            match apex.is_in_view() {
                true => zones.views.as_ref()?.entry(apex).cloned(),
                false => zones.catalog.get(apex.as_name()).cloned(),
            }
        })
    }
}

impl Memory for Zones {
    type Location = AnswerLocation;
    type Scratch = Scratch;

    const PASSES: usize = authority::PASSES;

    #[inline]
    fn key(&self) -> &HashKey {
        self.catalog.key()
    }

    fn has_views(&self) -> bool {
        self.views.is_some()
    }

    fn view(&self, client: &Client, key: Option<&TsigKey>) -> ViewNumber {
        let views = self.views.as_ref();
        views.map_or(ViewNumber::OUTSIDE, |views| views.clients().of(client, key.map(TsigKey::name)))
    }

    fn view_name(&self, view: ViewNumber) -> Option<&ViewName> {
        self.views.as_ref()?.clients().name(view)
    }

    fn apex(&self, view: ViewNumber, qname: &HashedName) -> ZoneName {
        let name = qname.as_lower();
        let is_of_view = |views: &&Arc<Views>| {
            let entry = views.catalog(view).and_then(|catalog| catalog.get(name.as_name()));
            entry.is_some_and(ZoneEntry::is_in_view)
        };
        let views = self.views.as_ref().filter(is_of_view);
        ZoneName::in_view(name, views.and_then(|views| views.clients().name(view)))
    }

    #[inline]
    fn prefetch_find(&self, qname: &HashedName) {
        if self.catalog.is_large() {
            self.catalog.prefetch(qname);
        }
    }

    #[inline]
    fn find(&self, lookup_key: &LookupKey<'_>) -> Option<AnswerLocation> {
        let view = lookup_key.view;
        AnswerLocation::find_in(
            self.of(view),
            view.byte(),
            lookup_key.qname,
            lookup_key.question.qtype,
            lookup_key.request.dnssec_ok(),
        )
    }

    #[inline]
    fn prefetch(&self, pass: usize, location: &mut AnswerLocation, qname: &HashedName) -> bool {
        location.prefetch(self.of_location(location), pass, qname)
    }

    fn zone(&self, location: &AnswerLocation) -> Option<Name<'_>> {
        self.of_location(location).entry(location.located()).map(|entry| entry.name().as_name())
    }

    fn zone_facts(&self, location: &AnswerLocation) -> Option<ZoneFacts> {
        let located = location.located();
        let entry = self.of_location(location).entry(located)?;
        Some(ZoneFacts::of(entry, entry.zone()?, located.below() == 0))
    }

    #[inline]
    fn answer<'s>(
        &self,
        location: &AnswerLocation,
        asked: &Asked<'_>,
        b: &mut Builder<'_>,
        scratch: &'s mut Scratch,
    ) -> Result<MemoryResult<'s>, Refusal> {
        let catalog = self.of_location(location);
        if let Some(access) = &self.access {
            Zones::refuses(access, catalog.entry(location.located()), asked)?;
        }
        let may_enter = |entry: &ZoneEntry| self.may_enter(entry, asked);
        if self.config.count_per_zone
            && let Some(entry) = catalog.entry(location.located())
        {
            entry.count_query();
        }
        let QueryQuestion { qtype, qclass, .. } = asked.question;
        let ask = Ask {
            name: asked.name(),
            qname: asked.qname,
            qtype,
            dnssec_ok: asked.request.dnssec_ok(),
            compact_ok: &|| asked.request.compact_ok(),
            catalog,
            key: catalog.key(),
            resolves: &|| asked.facts.resolves(),
            may_enter: &may_enter,
            max_chain: self.config.max_chain,
            hashing: HashingLimit { now: asked.received, rounds_per_second: self.config.nsec3_rounds },
        };
        let leads_to = match authority::answer(&ask, location, b, scratch) {
            Ok(leads_to) => leads_to,
            Err(Unanswered::Delegated) => return Ok(MemoryResult::Nothing),
            Err(why) => return Err(refusal(why, asked.stats)),
        };
        if qclass == Class::ANY {
            // Other classes may have more data (RFC 1035 §6.2).
            b.flags(|h| h.set_authoritative(false));
        }
        Ok(leads_to.map_or(MemoryResult::Answer(None), MemoryResult::LeadsTo))
    }
}

/// Returns the refusal of a query that the zone does not answer.
#[cold]
fn refusal(why: Unanswered, stats: &QueryStats) -> Refusal {
    match why {
        Unanswered::NotLoaded | Unanswered::Delegated => Refusal::NOT_LOADED,
        Unanswered::Hashing => {
            stats.hashing_refused.add(1);
            Refusal::TOO_MANY_ITERATIONS
        }
        Unanswered::SigningLimit => Refusal::TOO_MANY_SIGNATURES,
        Unanswered::NoSignature => Refusal::NO_SIGNATURE,
        Unanswered::MetaType => Refusal::META_TYPE,
    }
}
