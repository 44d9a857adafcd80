//! Zones: their number, states and sizes; and the use of their images.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::text::SeriesLabels;
use super::{Figures, MetricType, Printer, labelled, unix};
use crate::in_force::InForce;
use query_path::Engine;
use serving::frontend::Served;
use transport::unix_now;
use wire::ZoneName;
use zone_manager::managed::ZoneStatus;
use zone_manager::managed::examination::SignatureAge;
use zone_manager::zones::images::{ImageCounts, Images};
use zone_manager::zones::manager::ZoneTable;
use zone_manager::zones::membership::CatalogStatus;

/// Metrics of zones.
pub struct ZoneFigures {
    /// The zones.
    pub table: Arc<ZoneTable>,
    /// Counts the queries for each zone.
    pub engine: Arc<Engine<Served>>,
    /// Whether each zone has its own series.
    pub in_force: Arc<InForce>,
    /// The zones' images, if there are any.
    pub images: Option<Arc<Images>>,
}

impl Figures for ZoneFigures {
    fn print(&self, out: &mut Printer<'_>) -> fmt::Result {
        self.zones(out)?;
        catalog_zones(&self.table.catalogs(), out)?;
        self.images.as_ref().map_or(Ok(()), |of| images(of.counts(), out))
    }
}

impl ZoneFigures {
    fn zones(&self, out: &mut Printer<'_>) -> fmt::Result {
        let all = self.table.all();
        let count = |word| all.iter().filter(|z| z.word() == word).count() as u64;
        let states = ZoneStatus::WORDS.map(|word| (word, count(word)));
        out.family(
            "zones",
            "Zones by state: ok, old (the newest version is bad, the last good one is served), failed (not \
            served), empty (not yet transferred from its primaries), expired (no primary answered)",
            MetricType::Gauge,
            labelled("state", states),
        )?;
        let now = unix_now();
        let ages: Vec<SignatureAge> =
            all.iter().filter_map(|z| Some(z.examined.as_ref()?.signatures?.age(now))).collect();
        let count = |age| ages.iter().filter(|one| **one == age).count() as u64;
        let states = [SignatureAge::Valid, SignatureAge::Expiring, SignatureAge::Expired];
        let states = states.map(|age| (age.word(), count(age)));
        out.family(
            "signed_zones",
            "Signed zones by the signature that expires first: valid, expiring (in less than three \
            days), expired",
            MetricType::Gauge,
            labelled("signatures", states),
        )?;
        let loaded = || all.iter().filter_map(|z| z.zone.as_ref());
        let records: u64 = loaded().map(|z| z.record_count()).sum();
        let memory: usize = loaded().map(|z| z.memory()).sum();
        out.gauge("zone_records", "Records in all zones that are served", records as f64)?;
        out.gauge("zone_memory_bytes", "Memory of all zones that are served", memory as f64)?;
        let help = "Memory of the index of all zones, those of views included";
        out.gauge("catalog_memory_bytes", help, self.catalog_memory() as f64)?;
        let costly = all.iter().filter_map(|state| {
            let chain = state.zone.as_ref()?.nsec3()?;
            authority::is_costly(chain)
                .then(|| (zone_labels(&state.spec.apex), u64::from(chain.iterations())))
        });
        out.family(
            "zone_nsec3_iterations",
            "NSEC3 iterations of each zone with more than 100, or fewer and a long salt, whose denials \
            nsec3-rounds limits",
            MetricType::Gauge,
            costly,
        )?;
        let meter = self.table.meter();
        let refused = [("size", &meter.too_long), ("stalled", &meter.stalled)];
        let refused = refused.map(|(reason, count)| (reason, count.load(Relaxed)));
        out.family(
            "zone_loads_refused",
            "Loads of zones that failed, by reason: too large (file-max-size) or no progress \
            (load-stall-timeout)",
            MetricType::Counter,
            labelled("reason", refused),
        )?;
        if let Some(last) = self.table.last_reload() {
            out.gauge(
                "last_reload_timestamp_seconds",
                "When the last reload ended, in seconds since 1970",
                unix(last.at),
            )?;
            let good = last.result.as_ref().is_ok_and(|report| report.complaint().is_none());
            out.gauge(
                "last_reload_success",
                "1 if the last reload had no faults",
                f64::from(u8::from(good)),
            )?;
        }
        if self.in_force.settings().counts_per_zone() { self.each_zone(&all, out) } else { Ok(()) }
    }

    /// Returns the bytes of memory of the catalog of the zones outside views, and of what those of views do
    /// not share with it.
    fn catalog_memory(&self) -> usize {
        let (outside, views) = (self.engine.catalog(), self.engine.views());
        let views = views.iter().flat_map(|views| views.iter());
        let own = views.filter(|(_, catalog)| !Arc::ptr_eq(catalog, &outside));
        outside.memory() + own.map(|(_, catalog)| catalog.memory_beside(&outside)).sum::<usize>()
    }

    /// Prints one or more series for each zone.
    fn each_zone(&self, all: &[Arc<ZoneStatus>], out: &mut Printer<'_>) -> fmt::Result {
        let labels = |state: &ZoneStatus| zone_labels(&state.spec.apex);
        let states = all.iter().flat_map(|state| {
            let is = |word| u64::from(state.word() == word);
            let [zone, view] = labels(state);
            ZoneStatus::WORDS.map(|word| ([zone.clone(), view.clone(), ("state", word.into())], is(word)))
        });
        let help = "1 for the state that this zone is in, 0 for the others; states as in nomen_zones";
        out.family("zone_state", help, MetricType::Gauge, states)?;
        let serials = all.iter().filter_map(|state| {
            let zone = state.zone.as_ref()?;
            Some((labels(state), u64::from(zone.serial().0)))
        });
        let help = "Serial number of the version of this zone in service";
        out.family("zone_serial", help, MetricType::Gauge, serials)?;
        let loaded = all.iter().filter_map(|state| Some((labels(state), unix(state.loaded?))));
        let help = "When the version of this zone in service was read or received, in seconds since 1970";
        out.family("zone_loaded_timestamp_seconds", help, MetricType::Gauge, loaded)?;
        let expiries = all.iter().filter_map(|state| {
            let first = state.examined.as_ref()?.signatures?;
            Some((labels(state), first.at.as_secs()))
        });
        out.family(
            "zone_signature_expiry_timestamp_seconds",
            "When the first signature of this zone expires, in seconds since 1970",
            MetricType::Gauge,
            expiries,
        )?;
        let catalog = self.engine.catalog();
        let outside = catalog.iter().map(|e| (None, e));
        let views = self.engine.views();
        let of_views = views.iter().flat_map(|views| views.iter()).flat_map(|(view, catalog)| {
            catalog.iter().filter(|e| e.is_in_view()).map(move |e| (Some(view), e))
        });
        let queries = outside
            .chain(of_views)
            .map(|(view, e)| (zone_labels(&ZoneName::in_view(e.name(), view)), e.queries()));
        out.family("zone_queries", "Queries for names in this zone", MetricType::Counter, queries)
    }
}

/// Returns the labels of a zone: its name, and its view, which is empty outside views and then not printed.
pub(super) fn zone_labels(apex: &ZoneName) -> SeriesLabels<'static, 2> {
    let view = apex.view().map_or_else(String::new, str::to_owned);
    [("zone", apex.as_name().to_string().into()), ("view", view.into())]
}

fn catalog_zones(all: &[CatalogStatus], out: &mut Printer<'_>) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    let of = |count: fn(&CatalogStatus) -> u64| {
        all.iter().map(move |one| ([("catalog", one.zone.as_str().into())], count(one)))
    };
    let help = "Zones served because this catalog zone lists them, or listed by it if nomen produces it";
    out.family("catalog_members", help, MetricType::Gauge, of(|one| one.members as u64))?;
    let help = "Zones that this catalog zone lists but that are configured or listed elsewhere";
    out.family("catalog_conflicts", help, MetricType::Gauge, of(|one| one.conflicts as u64))?;
    let help = "Members of this catalog zone kept in service because one version would remove too many";
    out.family("catalog_held_back", help, MetricType::Gauge, of(|one| one.held_back as u64))?;
    let help = "1 if the newest version of this catalog zone cannot be processed";
    out.family("catalog_broken", help, MetricType::Gauge, of(|one| one.fault.is_some().into()))
}

fn images(counts: &ImageCounts, out: &mut Printer<'_>) -> fmt::Result {
    out.family(
        "image_loads",
        "Zone loads, by use of the image; unless it was used, the zone was read from text",
        MetricType::Counter,
        labelled("image", counts.loads()),
    )?;
    out.family(
        "image_writes",
        "Images of zones written, by result",
        MetricType::Counter,
        labelled("result", counts.writes()),
    )
}
