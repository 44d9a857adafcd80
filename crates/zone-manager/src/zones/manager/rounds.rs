//! Rounds: loads whose end is reported together, to the client that requested them.
//!
//! One round at a time is for all zones; rounds of single zones run beside it. No round waits for a load that
//! makes no progress.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::ZoneName;

use query_path::ViewClients;
use tracing::info;
use zone_plan::{Listing, Origin, WantedZones, ZoneFault, ZoneText};

use super::table::Asker;
use super::{Message, ReloadFault, Removal, RoundReport, Summary, ZoneManager, answer, log};
use crate::managed::state::{Looked, Notice, ReadWhen, ZoneEvent};
use crate::managed::table::ManagedZone;
use crate::zones::loaders::{LoadEnd, StalledLoad};
use crate::zones::progress::ProgressDisplay;
use crate::zones::report::LostZones;
use config::zones::ConfiguredZone;
use threads::sync::{read, write};

/// Interval of checks of a round's progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of checks of loads that no round waits for.
const LOADS_INTERVAL: Duration = Duration::from_secs(1);

/// A round.
pub(super) struct Round {
    pub(super) purpose: Purpose,
    begun: Instant,
    /// Number of zones whose loads it waits for.
    pub(super) waiting: usize,
    pub(super) report: RoundReport,
    replies: Vec<Asker>,
    progress: ProgressDisplay,
    /// What happens to views at its end.
    turn: Option<ViewTurn>,
}

/// A change of the views, at the end of a round of all zones.
pub(super) struct ViewTurn {
    /// Which clients are in which view; `None`: there are no views.
    pub(super) clients: Option<Arc<ViewClients>>,
    /// Zones that are removed then: another zone of the same name, in another view, is loaded in the round.
    pub(super) moved: Vec<ZoneName>,
}

impl Round {
    /// Waits for the load of a zone, if one is in progress and not stalled.
    pub(super) fn expect(&mut self, apex: &ZoneName, zone: &mut ManagedZone) {
        zone.awaited = zone.state.is_awaitable();
        let fault = zone.state.status().fault.as_ref().filter(|_| zone.state.is_loading());
        match (zone.awaited, fault) {
            (true, _) => self.waiting += 1,
            (false, None) => self.report.summary.unchanged += 1,
            (false, Some(fault)) => {
                self.report.summary.failed += 1;
                self.report.bad(apex, fault);
            }
        }
    }
}

/// The purpose of a round.
#[derive(PartialEq)]
pub(super) enum Purpose {
    /// The first load, before anything is served.
    Start,
    /// A reload of everything.
    All(Removal),
    /// A reload of this zone.
    Zone(ZoneName),
    /// The first load of this zone, which an operator adds, and its entry in a catalog zone.
    Add(Box<ConfiguredZone>, Option<Arc<Listing>>),
}

impl ZoneManager {
    /// Begins a round of all zones.
    pub(super) fn begin(
        &mut self,
        purpose: Purpose,
        report: RoundReport,
        replies: Vec<Asker>,
        turn: ViewTurn,
    ) {
        self.round = Some(Round { turn: Some(turn), ..self.round_of(purpose, report, replies) });
    }

    /// Begins a round of one zone, which ends with its load.
    pub(super) fn begin_single(&mut self, apex: &ZoneName, purpose: Purpose, replies: Vec<Asker>) {
        let summary = Summary { zones: 1, ..Summary::default() };
        let round = self.round_of(purpose, RoundReport { summary, ..RoundReport::default() }, replies);
        self.singles.insert(apex.clone(), round);
    }

    fn round_of(&self, purpose: Purpose, report: RoundReport, replies: Vec<Asker>) -> Round {
        let begun = Instant::now();
        let progress = ProgressDisplay::new(begun, self.loaders.meter());
        Round { purpose, begun, waiting: 0, report, replies, progress, turn: None }
    }

    /// Returns the zones that operators add and whose first load is in progress.
    pub(super) fn being_added(&self) -> HashSet<ZoneName> {
        let adding = self.singles.iter().filter(|(_, round)| matches!(round.purpose, Purpose::Add(..)));
        adding.map(|(apex, _)| apex.clone()).collect()
    }

    /// Reloads one zone.
    pub(super) fn reload_zone(&mut self, apex: ZoneName, when: ReadWhen, replies: Vec<Asker>) {
        let (decided, stalled) = {
            let mut states = write(&self.table.states.zones);
            let Some(zone) = states.get_mut(&apex) else {
                return answer(replies, &Err(ReloadFault::NoSuchZone));
            };
            let text = zone.state.status().spec.text.clone();
            match text {
                ZoneText::Primaries => return answer(replies, &Err(ReloadFault::Secondary)),
                ZoneText::Produced => return answer(replies, &Err(ReloadFault::Produced)),
                ZoneText::Database => return answer(replies, &Err(ReloadFault::OfDatabase)),
                _ => {}
            }
            let actions = zone.state.handle(ZoneEvent::Wanted(text, when));
            let decided = self.executor.carry_out(&apex, actions);
            (decided, zone.state.is_loading() && !zone.state.is_awaitable())
        };
        self.begin_single(&apex, Purpose::Zone(apex.clone()), replies);
        if stalled {
            self.ended.extend(self.singles.remove(&apex));
        }
        self.load(decided.loads);
    }

    /// Reports the result of a load to the zone's state.
    pub(super) fn loaded(&mut self, LoadEnd { apex, number, looked }: LoadEnd) {
        let looked = self.fit_to_serve(&apex, looked);
        let came_to = match &looked {
            Looked::Unchanged | Looked::Kept(None, None) | Looked::Local(None) => {
                |summary: &mut Summary| summary.unchanged += 1
            }
            Looked::Loaded(_) | Looked::Stored(..) | Looked::Kept(..) | Looked::Local(_) => {
                |summary: &mut Summary| summary.loaded += 1
            }
            Looked::Bad { .. } => |summary: &mut Summary| summary.failed += 1,
        };
        self.load_event(&apex, ZoneEvent::Looked(number, looked), came_to);
    }

    /// Reports an event of a load to the zone's state, and to the rounds that wait for the load.
    fn load_event(&mut self, apex: &ZoneName, event: ZoneEvent, came_to: fn(&mut Summary)) {
        let (decided, is_over, awaited) = {
            let mut states = write(&self.table.states.zones);
            // The zone may have been removed.
            let Some(zone) = states.get_mut(apex) else { return };
            let actions = zone.state.handle(event);
            let decided = self.executor.carry_out(apex, actions);
            let is_over = !zone.state.is_awaitable();
            (decided, is_over, is_over && std::mem::take(&mut zone.awaited))
        };
        let starting = self.round.as_ref().is_some_and(|round| round.purpose == Purpose::Start);
        log(apex, &decided.notices, starting);
        if let Some(round) = &mut self.round {
            note(&mut round.report, apex, &decided.notices);
            if awaited {
                round.waiting -= 1;
                came_to(&mut round.report.summary);
            }
        }
        if let Some(single) = self.singles.get_mut(apex) {
            note(&mut single.report, apex, &decided.notices);
        }
        if is_over && let Some(mut single) = self.singles.remove(apex) {
            came_to(&mut single.report.summary);
            self.ended.push(single);
        }
        self.load(decided.loads);
    }

    /// Returns the time until loads must be checked; `None` if none are in progress.
    pub(super) fn until_look_at_loads(&self) -> Option<Duration> {
        match (&self.round, self.ended.is_empty() && self.asked.is_empty()) {
            // A round that waits for nothing ends at once.
            (_, false) => Some(Duration::ZERO),
            (Some(round), _) if round.waiting == 0 => Some(Duration::ZERO),
            (Some(_), _) => Some(PROGRESS_INTERVAL),
            (None, _) if !self.singles.is_empty() => Some(PROGRESS_INTERVAL),
            (None, _) => self.loaders.is_busy().then_some(LOADS_INTERVAL),
        }
    }

    /// Shows the progress of loads, and handles those without progress.
    pub(super) fn look_at_loads(&mut self, now: Instant) {
        if let Some(round) = &mut self.round {
            let Summary { zones, .. } = round.report.summary;
            round.progress.show(zones - round.waiting.min(zones), zones, self.loaders.meter());
        }
        let longest = self.bounds.load_stall;
        for StalledLoad { apex, number } in self.loaders.watch(now, longest, &self.own, Message::Loaded) {
            let text = format!(
                "its loading has made no progress for {} seconds (`load-stall-timeout`); nothing waits for \
                it any more, and the zone goes into service when its loading ends",
                longest.as_secs()
            );
            let event = ZoneEvent::Stalled(number, Arc::new(ZoneFault::without_place(text)));
            self.load_event(&apex, event, |summary| summary.failed += 1);
        }
    }

    /// Ends the rounds that wait for nothing.
    pub(super) fn end_rounds(&mut self) {
        while let Some(single) = self.ended.pop() {
            self.end_round(single);
        }
        if let Some(round) = self.round.take_if(|round| round.waiting == 0) {
            self.end_round(round);
        }
    }

    fn end_round(&mut self, round: Round) {
        let Round { purpose, begun, mut report, replies, turn, .. } = round;
        if let Some(turn) = turn {
            self.turn_views(turn);
        }
        // The members of produced catalog zones are in service before they are listed.
        self.publish();
        self.produce(if purpose == Purpose::All(Removal::Force) {
            Removal::Force
        } else {
            Removal::HoldBack
        });
        report.ended(begun.elapsed());
        let summary = report.summary;
        let unpublished = self.unpublished.take().map(ReloadFault::Unpublished);
        let result = unpublished.map_or_else(|| Ok(Arc::new(report)), Err);
        match purpose {
            Purpose::Start => self.last = summary,
            Purpose::All(_) => {
                self.last = summary;
                let Summary { zones, loaded, unchanged, failed, refused, .. } = summary;
                let Summary { removed, held_back, not_taken, milliseconds, .. } = summary;
                info!(
                    zones,
                    loaded,
                    unchanged,
                    failed,
                    refused,
                    removed,
                    held_back,
                    not_taken,
                    milliseconds,
                    "reloaded"
                );
                self.reloaded(result, replies);
            }
            Purpose::Zone(apex) => {
                let fault = self.table.get(&apex).and_then(|state| state.fault.clone());
                self.reply(replies, fault.map_or(result, |fault| Err(ReloadFault::Zone(fault))));
            }
            Purpose::Add(zone, listing) => {
                let result = self.added(*zone, listing, result);
                self.reply(replies, result);
            }
        }
    }

    /// Ends the round of a zone that was removed.
    pub(super) fn drop_single(&mut self, apex: &ZoneName) {
        if let Some(single) = self.singles.remove(apex) {
            answer(single.replies, &Err(ReloadFault::NoSuchZone));
        }
    }

    /// Returns the removals of a new configuration if they are too many. Removals of zones from templates'
    /// folders and catalog zones are limited by the keys of those, as long as any zone is left.
    pub(super) fn check_removals(&self, wanted: &WantedZones) -> Option<LostZones> {
        let states = read(&self.table.states.zones);
        let still: HashSet<&ZoneName> = wanted.specs.iter().map(|spec| &spec.apex).collect();
        // A zone that moves to a view is not lost.
        let names: HashSet<&[u8]> = wanted.specs.iter().map(|spec| spec.apex.as_wire()).collect();
        let served: Vec<_> = states
            .values()
            .map(|zone| &zone.state.status().spec)
            .filter(|spec| spec.origin != Origin::LocalRoot)
            .collect();
        let is_asked_for = |spec: &zone_plan::ZoneSpec| match &spec.origin {
            Origin::Folder => spec
                .text
                .file()
                .and_then(|file| file.parent())
                .is_some_and(|parent| wanted.folders.iter().any(|folder| folder.path == parent)),
            Origin::Catalog(catalog) => still.contains(catalog),
            Origin::Database => wanted.database.is_some(),
            Origin::Configuration | Origin::Added | Origin::LocalRoot => false,
        };
        let gone =
            served.iter().filter(|spec| !names.contains(spec.apex.as_wire()) && !is_asked_for(spec)).count();
        let lost = LostZones { gone, of: served.len() };
        // Zones held back by a folder are left.
        let not_held = super::gone(&states, wanted, &HashSet::new(), Removal::HoldBack).0.len();
        // Those of the database join later.
        let of_database =
            wanted.database.is_some() && served.iter().any(|spec| spec.origin == Origin::Database);
        let asks_for_none = !of_database && wanted.specs.iter().all(|spec| spec.origin == Origin::LocalRoot);
        let nothing_is_left = !served.is_empty() && asks_for_none && not_held >= served.len();
        if nothing_is_left {
            return Some(LostZones { gone: served.len(), ..lost });
        }
        (gone >= super::LEAST_HELD && gone as f64 > wanted.bounds.max_removed * served.len() as f64)
            .then_some(lost)
    }
}

/// Records log messages about a zone in a report.
fn note(round: &mut RoundReport, apex: &ZoneName, notices: &[Notice]) {
    for notice in notices {
        match notice {
            Notice::Bad(fault, _) => round.bad(apex, fault),
            Notice::Changed(step) => round.changed(apex, *step),
            Notice::FileNotTaken(serial) => round.not_taken(apex, *serial),
            Notice::Warning(_) | Notice::SerialBack(_) | Notice::SerialKept(_) => {}
        }
    }
}
