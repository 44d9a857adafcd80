//! Secondary zones: carries out the scheduler's actions, and reports the results to the scheduler, the zone's
//! state and the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use resolver::Random;
use tracing::{Level, info, warn};
use transfer::incoming::AskedFor;
use transfer::secondary::{
    LastFault, PrimaryId, SecondaryAction, SecondaryEvent, SecondaryFault, SecondaryId, SecondaryState,
    SecondaryZone, SoaReply,
};
use transport::Link;
use wire::{Serial, UnixTime, ZoneName};
use zone::Zone;
use zone::store::ChangeSet;
use zone_plan::ZonePeers;

use super::{CoreHost, Moment, SecondaryCore};
use crate::fold::{FoldEnd, FoldNumber, Folding};
use crate::managed::state::{KeptVersion, SecondaryNews};
use crate::secondaries::counts::word;
use crate::secondaries::fetch::{FetchFigures, FetchJob, Fetched};
use crate::secondaries::status::{LastTransfer, PrimaryFault, SecondaryStatus, ZoneOrder};
use crate::secondaries::store::Keep;
use telemetry::repeated::{self, log_repeated};

/// Shortest time between a poll without news and the next NOTIFY handled: an attacker may send NOTIFYs to
/// cause queries.
const NOTIFY_QUIET_TIME: Duration = Duration::from_secs(1);

/// State of a secondary zone.
pub(super) struct RefreshState {
    pub(super) id: SecondaryId,
    /// The link of the SOA query in progress.
    pub(super) probe: Option<Link>,
    /// The transfer in progress.
    fetch: Option<Box<Fetch>>,
    /// The version at hand.
    version: Option<Arc<Zone>>,
    folding: Folding,
    /// Until when NOTIFYs are deferred.
    quiet_until: Option<Instant>,
    /// A deferred NOTIFY: its primary and serial.
    waiting: Option<(Option<usize>, Option<Serial>)>,
    /// The fault last logged for each primary; none for primaries beyond the end.
    logged: Vec<Option<String>>,
    last_transfer: Option<Transferred>,
    /// When the zone expires, as last reported.
    expires: Option<UnixTime>,
}

/// A transfer in progress.
struct Fetch {
    number: u64,
    primary: usize,
    asked: AskedFor,
    cancelled: Arc<AtomicBool>,
}

/// The transfer that brought the version at hand, in compact form.
struct Transferred {
    at: UnixTime,
    /// The primary's index.
    primary: u32,
    kind: &'static str,
    from: Option<Serial>,
    to: Serial,
    records: u64,
    bytes: u64,
    milliseconds: u64,
}

impl Transferred {
    fn status(&self, peers: &ZonePeers) -> LastTransfer {
        let Transferred { at, kind, records, bytes, milliseconds, .. } = *self;
        let primary = peers.primaries.get(self.primary as usize).map(ToString::to_string).unwrap_or_default();
        let (from, to) = (self.from.map(|from| from.0), self.to.0);
        LastTransfer { at, primary, kind, from, to, records, bytes, milliseconds }
    }
}

impl RefreshState {
    fn new(id: SecondaryId, version: Option<Arc<Zone>>) -> Self {
        RefreshState {
            id,
            probe: None,
            fetch: None,
            version,
            folding: Folding::default(),
            quiet_until: None,
            waiting: None,
            logged: Vec::new(),
            last_transfer: None,
            expires: None,
        }
    }

    /// Returns the status at `now`.
    pub(super) fn status(
        &self,
        timers: &SecondaryZone,
        peers: &ZonePeers,
        notify: Vec<String>,
        now: UnixTime,
    ) -> SecondaryStatus {
        let fault = timers.last_fault().map(|LastFault { at, primary, fault }| PrimaryFault {
            primary: peers.primaries.get(*primary).map(ToString::to_string).unwrap_or_default(),
            at: *at,
            fault: fault.to_string(),
        });
        SecondaryStatus {
            state: Some(word(timers.state(now))),
            serial: timers.soa().map(|soa| soa.serial.0),
            primaries: peers.primaries.iter().map(ToString::to_string).collect(),
            under_way: timers.is_under_way(),
            confirmed: timers.checked(),
            next_refresh: Some(timers.next()).filter(|_| !timers.is_under_way()),
            expires: timers.expires(),
            fault,
            last_transfer: self.last_transfer.as_ref().map(|last| last.status(peers)),
            notify,
        }
    }
}

impl<S: CoreHost, R: Random> SecondaryCore<S, R> {
    /// Starts to refresh a zone from its primaries.
    pub(super) fn begin(&mut self, apex: &ZoneName, kept: Option<KeptVersion>, at: &mut Moment<'_>) {
        let now = self.unix(at.now);
        self.stop_refresh(apex, at);
        let Some(zone) = self.zones.get(apex).filter(|zone| !zone.peers.primaries.is_empty()) else { return };
        let (rules, random) = (zone.peers.rules.clone(), &mut self.random);
        let timers = match &kept {
            None => SecondaryZone::new(rules, now),
            // After the clock was set back, a later time would delay the expiry.
            Some(kept) => {
                let confirmed = kept.confirmed.min(now);
                SecondaryZone::kept(rules, kept.zone.soa(), confirmed, &mut || random.next_u32())
            }
        };
        self.take(apex, timers, kept.map(|kept| kept.zone));
    }

    fn take(&mut self, apex: &ZoneName, timers: SecondaryZone, version: Option<Arc<Zone>>) {
        let SecondaryCore { zones, primaries, scheduler, by_id, .. } = self;
        let Some(zone) = zones.get_mut(apex) else { return };
        let ids: Vec<PrimaryId> = zone
            .peers
            .primaries
            .iter()
            .map(|peer| {
                let next = PrimaryId(primaries.len() as u32);
                *primaries.entry(peer.address).or_insert(next)
            })
            .collect();
        let id = scheduler.add(timers, &ids);
        by_id.insert(id, apex.clone());
        zone.refresh = Some(Box::new(RefreshState::new(id, version)));
        self.report_expiry(apex);
    }

    /// Reports when a zone expires, if that has changed.
    fn report_expiry(&mut self, apex: &ZoneName) {
        let Some(refresh) = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut()) else { return };
        let expires = self.scheduler.zone(refresh.id).and_then(SecondaryZone::expires);
        if expires != refresh.expires {
            refresh.expires = expires;
            self.host.expires(apex, expires);
        }
    }

    /// When a zone's first primary last confirmed the version at hand.
    fn vouched(&self, apex: &ZoneName) -> Option<UnixTime> {
        let refresh = self.zones.get(apex)?.refresh.as_ref()?;
        self.scheduler.zone(refresh.id)?.vouched()
    }

    /// Stops refreshing a zone. Returns its timers and its version.
    pub(super) fn stop_refresh(
        &mut self,
        apex: &ZoneName,
        at: &mut Moment<'_>,
    ) -> Option<(SecondaryZone, Option<Arc<Zone>>)> {
        let refresh = self.zones.get_mut(apex)?.refresh.take()?;
        if let Some(fetch) = refresh.fetch {
            fetch.cancelled.store(true, Relaxed);
        }
        if let Some(link) = refresh.probe {
            self.close(link, at);
        }
        self.by_id.remove(&refresh.id);
        Some((self.scheduler.remove(refresh.id)?, refresh.version))
    }

    /// Stops refreshing a zone, and removes its store.
    pub(super) fn let_go(&mut self, apex: &ZoneName, at: &mut Moment<'_>) {
        if self.stop_refresh(apex, at).is_some() {
            self.host.expires(apex, None);
            self.host.keep(apex, Keep::Nothing, self.unix(at.now));
        }
    }

    /// Applies other primaries or rules to a zone, which keeps its version and timers.
    pub(super) fn retake(&mut self, apex: &ZoneName, at: &mut Moment<'_>) {
        let now = self.unix(at.now);
        let Some(zone) = self.zones.get(apex).filter(|zone| !zone.peers.primaries.is_empty()) else {
            return self.let_go(apex, at);
        };
        let rules = zone.peers.rules.clone();
        let Some((timers, version)) = self.stop_refresh(apex, at) else { return };
        let timers = timers.under(rules, now);
        self.take(apex, timers, version);
    }

    /// Carries out the scheduler's actions.
    pub(super) fn act(&mut self, at: &mut Moment<'_>) {
        let now = self.unix(at.now);
        while let Some((id, action)) = self.scheduler.poll(now) {
            let Some(apex) = self.by_id.get(&id).cloned() else { continue };
            match action {
                SecondaryAction::Probe { primary } => self.send_probe(&apex, primary, at),
                SecondaryAction::Transfer { primary, asked } => self.fetch(&apex, primary, asked),
                SecondaryAction::Expire => {
                    self.counts.expired.fetch_add(1, Relaxed);
                    warn!("zone {} has expired: no primary answered, it is out of service", apex);
                    self.host.news(&apex, SecondaryNews::Expired);
                }
            }
        }
    }

    fn fetch(&mut self, apex: &ZoneName, primary: usize, asked: AskedFor) {
        let SecondaryCore { zones, host, random, limits, key, last_job, scheduler, .. } = self;
        let Some(zone) = zones.get_mut(apex) else { return };
        let (Some(refresh), Some(server)) = (&mut zone.refresh, zone.peers.primaries.get(primary)) else {
            return;
        };
        *last_job += 1;
        let cancelled = Arc::new(AtomicBool::new(false));
        let job = FetchJob {
            number: *last_job,
            apex: apex.as_name().to_buf(),
            primary: server.clone(),
            asked,
            any_serial: scheduler.zone(refresh.id).is_none_or(SecondaryZone::takes_any_serial),
            id: random.next_u32() as u16,
            have: refresh.version.clone(),
            key: *key,
            zonemd: zone.peers.zonemd,
            nsec3_max_iterations: zone.peers.nsec3_max_iterations,
            limits: limits.fetch,
            cancelled: Arc::clone(&cancelled),
        };
        refresh.fetch = Some(Box::new(Fetch { number: *last_job, primary, asked, cancelled }));
        host.fetch(apex.clone(), job);
    }

    /// Handles a primary's reply to an SOA query.
    pub(super) fn asked(&mut self, apex: &ZoneName, reply: SoaReply, at: &mut Moment<'_>) {
        let ours =
            self.zones.get(apex).and_then(|zone| zone.refresh.as_ref()?.version.as_ref()).map(|v| v.serial());
        self.happened(apex, SecondaryEvent::Probed(reply), at);
        if ours == Some(reply.serial) {
            self.confirmed(apex, at);
        }
    }

    /// Handles a primary's confirmation that the version at hand is the newest. The zone stays expired if it
    /// has expired at the primary, too.
    fn confirmed(&mut self, apex: &ZoneName, at: &Moment<'_>) {
        self.counts.unchanged.fetch_add(1, Relaxed);
        let vouched = self.vouched(apex);
        if let Some(refresh) = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut()) {
            refresh.quiet_until = Some(at.now + NOTIFY_QUIET_TIME);
            if self.scheduler.zone(refresh.id).is_some_and(|timers| timers.expires().is_some()) {
                self.host.news(apex, SecondaryNews::Confirmed);
            }
            if let Some(vouched) = vouched {
                self.host.keep(apex, Keep::Confirmed, vouched);
            }
        }
    }

    /// Handles the end of a transfer.
    pub(super) fn fetched(
        &mut self,
        number: u64,
        apex: &ZoneName,
        figures: FetchFigures,
        result: Result<Fetched, SecondaryFault>,
        at: &mut Moment<'_>,
    ) {
        self.counts.bytes.fetch_add(figures.bytes, Relaxed);
        self.counts.records.fetch_add(figures.records, Relaxed);
        let refresh = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut());
        // The transfer was replaced or cancelled.
        let Some(refresh) =
            refresh.filter(|refresh| refresh.fetch.as_ref().is_some_and(|f| f.number == number))
        else {
            return;
        };
        let Some(fetch) = refresh.fetch.take() else { return };
        let version = refresh.version.clone();
        match result {
            Err(fault) => {
                self.counts.fault(&fault);
                self.happened(apex, SecondaryEvent::Failed(fault), at);
            }
            Ok(Fetched::Same) => {
                let event = version.map(|_| SecondaryEvent::Unchanged(figures.expire));
                // A primary cannot confirm a version that this server does not have.
                let event = event.unwrap_or(SecondaryEvent::Failed(SecondaryFault::BrokenOff));
                self.happened(apex, event, at);
                self.confirmed(apex, at);
            }
            Ok(Fetched::Whole(zone)) => {
                self.counts.axfr.fetch_add(1, Relaxed);
                refresh.folding.cancel();
                self.received(apex, &fetch, figures, zone, None, at);
            }
            Ok(Fetched::Changed(zone, changes)) => {
                self.counts.ixfr.fetch_add(1, Relaxed);
                refresh.folding.changed(&changes);
                let job = refresh.folding.begin(&zone);
                self.received(apex, &fetch, figures, zone, Some(changes), at);
                if let Some(job) = job {
                    self.host.fold(apex.clone(), job);
                }
            }
        }
    }

    /// Handles a received version; `changes` if it came as differences.
    fn received(
        &mut self,
        apex: &ZoneName,
        fetch: &Fetch,
        figures: FetchFigures,
        zone: Arc<Zone>,
        changes: Option<Vec<Arc<ChangeSet>>>,
        at: &mut Moment<'_>,
    ) {
        let (now, soa) = (self.unix(at.now), zone.soa());
        let kind = if changes.is_some() { "IXFR" } else { "AXFR" };
        let Some(peered) = self.zones.get_mut(apex) else { return };
        let (Some(refresh), Some(server)) = (&mut peered.refresh, peered.peers.primaries.get(fetch.primary))
        else {
            return;
        };
        let from = refresh.version.replace(Arc::clone(&zone)).map(|before| before.serial());
        let (milliseconds, FetchFigures { records, bytes, .. }) = (figures.took.as_millis() as u64, figures);
        let primary = server.to_string();
        let transport = server.stream().label();
        let key = server.key.as_ref().map_or("none".into(), |key| key.name().to_string());
        let (to, asked) = (soa.serial, if fetch.asked == AskedFor::Axfr { "AXFR" } else { "IXFR" });
        let before = from.map_or("none".into(), |from| from.to_string());
        info!(
            zone = apex.to_string(), from = before, serial = %to, primary, transport, key, asked, kind,
            records, bytes, milliseconds, "transfer received"
        );
        let primary = fetch.primary as u32;
        refresh.last_transfer =
            Some(Transferred { at: now, primary, kind, from, to, records, bytes, milliseconds });
        self.host.news(apex, SecondaryNews::Received(Arc::clone(&zone)));
        self.happened(apex, SecondaryEvent::Transferred(soa, figures.expire), at);
        let vouched = self.vouched(apex).unwrap_or(now);
        self.host.keep(apex, Keep::Version(zone, changes), vouched);
    }

    /// Handles the end of a job that folds a version.
    pub(super) fn folded(&mut self, number: FoldNumber, apex: &ZoneName, zone: Option<Arc<Zone>>) {
        let Some(refresh) = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut()) else { return };
        match refresh.folding.ended(number, zone) {
            FoldEnd::Outdated | FoldEnd::Failed => {}
            FoldEnd::Continue(job) => self.host.fold(apex.clone(), job),
            FoldEnd::Folded(zone) => {
                refresh.version = Some(Arc::clone(&zone));
                self.host.news(apex, SecondaryNews::Folded(zone));
            }
        }
    }

    /// Handles an accepted NOTIFY (RFC 1996 §3.11).
    pub(super) fn notified(
        &mut self,
        apex: &ZoneName,
        primary: Option<usize>,
        serial: Option<Serial>,
        at: &mut Moment<'_>,
    ) {
        self.host.looked(apex);
        let Some(refresh) = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut()) else { return };
        match refresh.quiet_until.filter(|until| *until > at.now) {
            None => self.happened(apex, SecondaryEvent::Notified { primary, serial }, at),
            // The first deferred NOTIFY covers later ones: one query checks them all. It then has no
            // serial, since the highest is not known.
            Some(_) if refresh.waiting.is_some() => refresh.waiting = Some((primary, None)),
            Some(until) => {
                refresh.waiting = Some((primary, serial));
                self.put_off.insert((until, apex.clone()));
            }
        }
    }

    /// Handles the NOTIFYs whose deferral has ended.
    pub(super) fn look_at_put_off(&mut self, at: &mut Moment<'_>) {
        while let Some((until, apex)) = self.put_off.first().cloned()
            && until <= at.now
        {
            self.put_off.pop_first();
            let refresh = self.zones.get_mut(&apex).and_then(|zone| zone.refresh.as_mut());
            if let Some((primary, serial)) = refresh.and_then(|refresh| refresh.waiting.take()) {
                self.happened(&apex, SecondaryEvent::Notified { primary, serial }, at);
            }
        }
    }

    /// Handles an operator's order. Returns whether it can be carried out.
    pub(super) fn order(&mut self, apex: &ZoneName, order: ZoneOrder, at: &mut Moment<'_>) -> bool {
        let event = match order {
            ZoneOrder::Refresh => SecondaryEvent::Refresh,
            ZoneOrder::Retransfer => SecondaryEvent::Retransfer,
            ZoneOrder::Notify => return self.notify_again(apex, at),
        };
        let is_refreshed = self.zones.get(apex).is_some_and(|zone| zone.refresh.is_some());
        self.happened(apex, event, at);
        is_refreshed
    }

    /// Reports an event of a zone to the scheduler.
    pub(super) fn happened(&mut self, apex: &ZoneName, event: SecondaryEvent, at: &Moment<'_>) {
        let now = self.unix(at.now);
        let SecondaryCore { zones, scheduler, random, .. } = self;
        let Some(zone) = zones.get_mut(apex) else { return };
        let Some(refresh) = &mut zone.refresh else { return };
        if matches!(event, SecondaryEvent::Probed(_) | SecondaryEvent::Failed(_)) {
            refresh.probe = None;
        }
        scheduler.event(refresh.id, event, now, &mut || random.next_u32());
        self.report_expiry(apex);
        self.log_fault(apex, now);
    }

    /// Logs the last fault of a zone's primaries if it has changed, and the recovery.
    fn log_fault(&mut self, apex: &ZoneName, now: UnixTime) {
        let SecondaryCore { zones, scheduler, .. } = self;
        let Some(zone) = zones.get_mut(apex) else { return };
        let Some(refresh) = &mut zone.refresh else { return };
        let Some(timers) = scheduler.zone(refresh.id) else { return };
        match timers.last_fault() {
            None => {
                let recovers = refresh.logged.iter().any(Option::is_some);
                refresh.logged.iter_mut().for_each(|logged| *logged = None);
                if recovers {
                    let about = ("primary", &*apex.to_string());
                    log_repeated!(info, INFO, about, "zone {}: a primary can be used again", apex);
                }
            }
            Some(&LastFault { primary, ref fault, .. }) => {
                let text = fault.to_string();
                refresh.logged.resize(refresh.logged.len().max(primary + 1), None);
                if let Some(logged) = refresh.logged.get_mut(primary)
                    && logged.as_ref() != Some(&text)
                {
                    let server =
                        zone.peers.primaries.get(primary).map(ToString::to_string).unwrap_or_default();
                    let state = word(timers.state(now));
                    let served = match timers.state(now) {
                        SecondaryState::Fresh | SecondaryState::Stale => "",
                        _ => ", not in service",
                    };
                    let line = format!("zone {}{served}: primary {server}: {text}", apex);
                    // A transfer that does not succeed fails with several faults in turn, repeatedly: all of
                    // them are counted as one log line.
                    let about = ("primary", &*format!("{} {server}", apex));
                    if let Some(line) = repeated::admit(about, Level::WARN, line) {
                        warn!(state, "{line}");
                    }
                    *logged = Some(text);
                }
            }
        }
    }
}
