//! Keeping the zones: one thread reports to each keeper what happens to its zone, and does what the keeper decides.
//! Loader threads read for it. Everybody else sees the zones through [`Kept`], and asks for work through [`ZoneKeeping`].
//!
//! What belongs together, such as all zones of a reload, is a round, whose end is reported to the client that asked for it. Rounds about all zones
//! come one after the other; requests that come in during one are answered by the next, together. A round about one zone goes
//! on beside them, so that it does not wait for others.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel};
use std::time::{Duration, Instant, SystemTime};

use engine::Engine;
use tokio::sync::oneshot;
use tracing::{debug, error, info, warn};

use wire::Name;
use wire::hash::HashKey;
use zone::Zone;

use super::differences::Differences;
use super::examiner::{Examination, Examiner, Finding, SignatureAge};
use super::images::{ImageOrder, Images};
use super::keeper::{
    KeeperAction, KeeperEvent, KeptVersion, Looked, Notice, ReadWhen, SecondaryNews, VersionStep,
};
use super::loaders::{LoadEnd, Loaders};
use super::produce::{Listing, ProducedStores};
use super::publisher::Publisher;
pub use super::report::{HeldFolder, LostZones, RoundReport, Summary};
use super::resolve::{ReloadBounds, WantedZones};
use super::{Apex, FileStamp, ZoneFault, ZoneText};
use crate::changes::Changes;
use crate::frontend::Served;
use crate::recursive::LocalRoot;
use crate::secondaries::Secondaries;
use crate::signals;
use crate::sync::{lock, write};
use crate::transfers::Transfers;
use kept::{Asker, KeptZone};
pub use kept::{FolderFindings, Kept, LastReload, ReloadFault, Reloaded};
use members::{Joining, ZoneChange};
use rounds::{Purpose, Round};

/// How often replaced catalogs are looked at, to see whether workers have let go of them.
const RETIREMENT: Duration = Duration::from_millis(100);
/// How often the age of signatures is looked at.
const SIGNATURES: Duration = Duration::from_secs(3600);
/// So many zones of a folder or a catalog zone at least must be gone for them to be held back.
pub(super) const LEAST_HELD: usize = 10;

/// What is done once something is in service.
pub type OncePublished = Box<dyn FnOnce() + Send>;

/// A zone that is changed by updates, as it is when that begins.
pub struct ClaimedZone {
    /// The version in service.
    pub version: Arc<Zone>,
    /// Its file, as it was when last read.
    pub file: Option<FileStamp>,
    /// Ends the claim when dropped.
    pub claim: Claim,
}

/// That a zone is changed by updates, and not by its file. Dropped, it lets the zone come from its file again, unless
/// [kept](Self::keep) or the zone was claimed before.
pub struct Claim {
    apex: Apex,
    /// Where it ends; `None` if it does not.
    ends_at: Option<Sender<Message>>,
}

impl Claim {
    /// A claim of no zone.
    #[cfg(test)]
    pub(crate) fn of_none() -> Self {
        Claim { apex: Apex::default(), ends_at: None }
    }

    /// The zone stays claimed: updates of it are stored.
    pub fn keep(&mut self) {
        self.ends_at = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(messages) = self.ends_at.take() {
            // Otherwise the server is stopping.
            let _ = messages.send(Message::Unclaim(self.apex.clone()));
        }
    }
}

/// A message to the thread.
enum Message {
    Reload(Option<Asker>, Removal),
    ReloadZone(Apex, ReadWhen, Asker),
    Ask(ZoneChange, Asker),
    Loaded(LoadEnd),
    Examined(Apex, Arc<Zone>, Arc<Examination>),
    Folded(Apex, Arc<Zone>, Arc<Zone>),
    News(Apex, SecondaryNews),
    Expires(Apex, Option<u64>),
    Claim(Apex, SyncSender<Option<ClaimedZone>>),
    Unclaim(Apex),
    Wrote(Apex, FileStamp),
    Changed(Vec<(Apex, Arc<Zone>)>, OncePublished),
    Stop,
}

/// What happens to a folder's zones if the files of many of them are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removal {
    /// They stay in service.
    HoldBack,
    /// They are removed.
    Force,
}

/// Asks for something; cheap to clone.
#[derive(Clone)]
pub struct ZoneKeeping {
    messages: Sender<Message>,
}

impl ZoneKeeping {
    /// Asks for the configuration and changed zones to be read.
    pub fn reload(&self, removal: Removal) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Reload(Some(reply), removal))
    }

    /// The same, without a reply at the end.
    pub fn reload_unheard(&self) {
        // Without a receiver, the server is stopping.
        let _ = self.messages.send(Message::Reload(None, Removal::HoldBack));
    }

    /// Asks for one zone to be read whether changed or not. `take`: also if updates have changed it, which its file then
    /// overrules.
    pub fn reload_zone(&self, apex: Apex, take: bool) -> oneshot::Receiver<Reloaded> {
        let when = if take { ReadWhen::Take } else { ReadWhen::Anyway };
        self.ask(|reply| Message::ReloadZone(apex, when, reply))
    }

    /// From now on a zone is changed by updates, and not by its file. The reply has the version in service, if there is one.
    pub fn claim(&self, apex: Apex, reply: SyncSender<Option<ClaimedZone>>) {
        // Without a receiver, the server is stopping.
        let _ = self.messages.send(Message::Claim(apex, reply));
    }

    /// The file of a zone that was claimed was written with what updates have made of it.
    pub fn wrote(&self, apex: Apex, file: FileStamp) {
        let _ = self.messages.send(Message::Wrote(apex, file));
    }

    /// Updates have made these versions; `done` runs once they are in service.
    pub fn changed(&self, zones: Vec<(Apex, Arc<Zone>)>, done: OncePublished) {
        let _ = self.messages.send(Message::Changed(zones, done));
    }

    /// Asks for a zone to be served: the text of its `[[zone]]`.
    pub fn add_zone(&self, text: String) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Ask(ZoneChange::Add(text), reply))
    }

    /// Asks for a zone that was added to be served no longer.
    pub fn remove_zone(&self, apex: Apex) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Ask(ZoneChange::Remove(apex), reply))
    }

    /// Reports what became of a zone that is taken from primaries.
    pub fn news(&self, apex: Apex, news: SecondaryNews) {
        // Without a receiver, the server is stopping.
        let _ = self.messages.send(Message::News(apex, news));
    }

    /// Reports when a zone that is taken from primaries expires, in seconds since 1970.
    pub fn expires(&self, apex: Apex, at: Option<u64>) {
        // As above.
        let _ = self.messages.send(Message::Expires(apex, at));
    }

    /// Ends the thread, in the middle of whatever it does.
    pub fn stop(&self) {
        // It may have ended before.
        let _ = self.messages.send(Message::Stop);
    }

    fn ask(&self, message: impl FnOnce(Asker) -> Message) -> oneshot::Receiver<Reloaded> {
        let (reply, result) = oneshot::channel();
        // There is no receiver if the server is stopping; a reply that is dropped means that.
        let _ = self.messages.send(message(reply));
        result
    }
}

/// Reads the configuration anew and returns the zones that it asks for. Its settings are taken over if the argument accepts
/// these zones.
pub type Prepare = dyn Fn(&AcceptZones<'_>) -> Result<WantedZones, ReloadFault> + Send;

/// Returns why zones are not accepted.
pub type AcceptZones<'a> = dyn Fn(&WantedZones) -> Result<(), ReloadFault> + 'a;

/// The thread's state.
pub struct Keeping {
    kept: Arc<Kept>,
    prepare: Box<Prepare>,
    /// The key that zones are to be built under.
    key: HashKey,
    publisher: Publisher,
    /// Who takes zones from primaries and tells others of changes, if anybody does.
    secondaries: Option<Arc<Secondaries>>,
    /// Who sends zones to others, if anybody does.
    transfers: Option<Arc<Transfers>>,
    /// Zones that come and go at run time.
    joining: Joining,
    loaders: Loaders,
    /// Finds out about versions in service; none if the system refuses a thread.
    examiner: Option<Examiner>,
    /// When signatures are looked at next.
    signatures_due: Instant,
    images: Option<Arc<Images>>,
    /// Images to be written once their zones are in service.
    orders: Vec<ImageOrder>,
    own: Sender<Message>,
    messages: Receiver<Message>,
    /// The round about all zones.
    round: Option<Round>,
    /// Rounds about one zone, by that.
    singles: HashMap<Apex, Round>,
    /// Those whose load has ended.
    ended: Vec<Round>,
    /// What bounds a reload.
    bounds: ReloadBounds,
    /// What the last round about all zones did.
    last: Summary,
    /// Why steps of this round were not made, if they were not.
    unpublished: Option<Arc<str>>,
    /// Who asked for all zones to be looked at next, if anybody did, and what happens to those without files.
    all: Option<(Vec<Asker>, Removal)>,
    /// The same for single zones, and how they are to be read.
    single: HashMap<Apex, (ReadWhen, Vec<Asker>)>,
    /// What operators want of single zones, in the order in which they asked.
    asked: VecDeque<(ZoneChange, Asker)>,
    /// Who changes zones by updates, if anybody does.
    changes: Option<Arc<Changes>>,
    /// Who keeps what changes in zone files, if anybody does.
    differences: Option<Arc<Differences>>,
    /// To be done once the next catalog is in service.
    once_published: Vec<OncePublished>,
}

impl Keeping {
    /// A thread's state, the way to ask it, and what others see of the zones.
    pub fn new(
        engine: Arc<Engine<Served>>,
        images: Option<Arc<Images>>,
        prepare: Box<Prepare>,
    ) -> (Keeping, ZoneKeeping, Arc<Kept>) {
        let (own, messages) = channel();
        let theirs = own.clone();
        let found = move |apex, zone, finding| {
            let message = match finding {
                Finding::Examined(found) => Message::Examined(apex, zone, found),
                Finding::Folded(folded) => Message::Folded(apex, zone, folded),
            };
            theirs.send(message).is_ok()
        };
        let examiner = Examiner::start(unix_now, found);
        if let Err(fault) = &examiner {
            warn!("zones in service are not examined, the system refuses a thread: {fault}");
        }
        let loaders = Loaders::new(engine.key(), images.clone());
        let kept = Arc::new(Kept { meter: Arc::clone(loaders.meter()), ..Kept::default() });
        let keeping = Keeping {
            kept: Arc::clone(&kept),
            prepare,
            loaders,
            key: engine.key(),
            publisher: Publisher::new(engine),
            secondaries: None,
            transfers: None,
            joining: Joining::default(),
            examiner: examiner.ok(),
            signatures_due: Instant::now() + SIGNATURES,
            images,
            orders: Vec::new(),
            own: own.clone(),
            messages,
            round: None,
            singles: HashMap::new(),
            ended: Vec::new(),
            bounds: ReloadBounds::default(),
            last: Summary::default(),
            unpublished: None,
            all: None,
            single: HashMap::new(),
            asked: VecDeque::new(),
            changes: None,
            differences: None,
            once_published: Vec::new(),
        };
        (keeping, ZoneKeeping { messages: own }, kept)
    }

    /// Zones may be changed by updates, which keep them here.
    pub fn change_by(&mut self, changes: Arc<Changes>) {
        self.loaders.read_changed_from(Arc::clone(&changes));
        self.changes = Some(changes);
    }

    /// The copy of the root zone that the resolver asks goes here.
    pub fn copy_root_to(&mut self, local_root: Arc<LocalRoot>) {
        self.secondaries.iter().for_each(|secondaries| secondaries.judge_root_by(Arc::clone(&local_root)));
        self.joining.local_root = Some(local_root);
    }

    /// What changes in zone files is kept here.
    pub fn keep_differences(&mut self, differences: Arc<Differences>) {
        self.differences = Some(differences);
    }

    /// Loads these zones and puts them into service, for the first time.
    pub fn load_first(&mut self, wanted: WantedZones) -> Summary {
        self.look_at_all(wanted, Purpose::Start, Vec::new());
        while self.round.is_some() && self.handle_messages() {}
        self.last
    }

    /// Works until it receives `Message::Stop`.
    pub fn work(mut self) {
        while self.handle_messages() {}
    }

    /// Takes the messages that are there, or waits for one, and does what is due. False at the end.
    fn handle_messages(&mut self) -> bool {
        let first = match self.patience() {
            Some(patience) => self.messages.recv_timeout(patience),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut next = match first {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        while let Some(message) = next {
            match message {
                Message::Reload(reply, removal) => {
                    let (replies, strongest) = self.all.get_or_insert((Vec::new(), removal));
                    replies.extend(reply);
                    *strongest = removal.max(*strongest);
                }
                Message::ReloadZone(apex, when, reply) => {
                    let (strongest, replies) = self.single.entry(apex).or_insert((when, Vec::new()));
                    *strongest = when.max(*strongest);
                    replies.push(reply);
                }
                Message::Ask(change, reply) => self.asked.push_back((change, reply)),
                Message::Loaded(outcome) => self.loaded(outcome),
                Message::Examined(apex, zone, found) => self.examined(&apex, zone, found),
                Message::Folded(apex, zone, folded) => self.folded(&apex, zone, folded),
                Message::News(apex, news) => self.heard(&apex, news),
                Message::Expires(apex, at) => self.publisher.set_expires(apex, at),
                Message::Claim(apex, reply) => {
                    if let Err(TrySendError::Disconnected(Some(claimed))) = reply.try_send(self.claim(&apex))
                    {
                        // The sender has timed out, and may have claimed the zone again: that claim comes later.
                        self.end_claim(claimed.claim);
                    }
                }
                Message::Unclaim(apex) => self.set_claimed(&apex, false),
                Message::Wrote(apex, file) => {
                    let mut keepers = write(&self.kept.keepers);
                    let keeper = keepers.get_mut(&apex).map(|zone| &mut zone.keeper);
                    keeper
                        .into_iter()
                        .for_each(|keeper| drop(keeper.handle(KeeperEvent::Wrote(file.clone()))));
                }
                Message::Changed(zones, done) => {
                    zones.into_iter().for_each(|(apex, zone)| self.changed(&apex, zone));
                    self.once_published.push(done);
                }
                Message::Stop => {
                    self.publish();
                    return false;
                }
            }
            next = self.messages.try_recv().ok();
        }
        self.do_what_is_due();
        true
    }

    /// How long to wait for a message; `None` if there is nothing else to do.
    fn patience(&mut self) -> Option<Duration> {
        let publish = self.publisher.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let release = (!self.publisher.release()).then_some(RETIREMENT);
        let signatures = Some(self.signatures_due.saturating_duration_since(Instant::now()));
        [publish, self.until_look_at_loads(), release, signatures].into_iter().flatten().min()
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if !self.once_published.is_empty() || self.publisher.deadline().is_some_and(|at| at <= now) {
            self.publish();
        }
        self.read_catalogs();
        self.look_at_loads(now);
        self.end_rounds();
        if self.signatures_due <= now {
            self.signatures_due = now + SIGNATURES;
            self.look_at_signatures();
        }
        while let Some((change, reply)) = self.asked.pop_front() {
            self.change(change, reply);
        }
        while self.round.is_none()
            && let Some((replies, removal)) = self.all.take()
        {
            self.reload(replies, removal);
        }
        let begun = |singles: &HashMap<Apex, Round>, apex: &Apex| singles.contains_key(apex);
        let due: Vec<_> = self.single.extract_if(|apex, _| !begun(&self.singles, apex)).collect();
        for (apex, (when, replies)) in due {
            self.reload_zone(apex, when, replies);
        }
    }

    /// Begins a reload of everything; ends it at once if the configuration is bad.
    fn reload(&mut self, replies: Vec<Asker>, removal: Removal) {
        signals::notify_reloading();
        let accept = |wanted: &WantedZones| match removal {
            Removal::Force => Ok(()),
            Removal::HoldBack => {
                self.check_removals(wanted).map_or(Ok(()), |lost| Err(ReloadFault::HeldBack(lost)))
            }
        };
        match (self.prepare)(&accept) {
            Ok(wanted) => self.look_at_all(wanted, Purpose::All(removal), replies),
            Err(fault) => {
                error!("reload failed, the old configuration stays:\n{}", fault.to_string().trim_end());
                self.reloaded(Err(fault), replies);
            }
        }
    }

    /// Notes how a reload of everything ended, and answers who asked for it.
    fn reloaded(&self, result: Reloaded, replies: Vec<Asker>) {
        *lock(&self.kept.last_reload) = Some(LastReload { at: SystemTime::now(), result: result.clone() });
        let zones = self.kept.in_words();
        signals::notify_ready(&match &result {
            Ok(_) => zones,
            Err(ReloadFault::Configuration(_)) => {
                format!("{zones}; the configuration cannot be used, the one before stays")
            }
            Err(ReloadFault::HeldBack(_)) => {
                format!("{zones}; the new configuration removes too many of them, the one before stays")
            }
            Err(_) => format!("{zones}; the last reload failed"),
        });
        answer(replies, &result);
    }

    /// Begins a round about the zones that are wanted and those that no longer are.
    fn look_at_all(&mut self, mut wanted: WantedZones, purpose: Purpose, replies: Vec<Asker>) {
        let mut report = RoundReport::default();
        for refused in &wanted.refused {
            error!("{refused}");
            report.refused(refused);
        }
        let removal =
            if purpose == Purpose::All(Removal::Force) { Removal::Force } else { Removal::HoldBack };
        self.bounds = wanted.bounds;
        self.join_members(&mut wanted, removal);
        self.keep_root(&wanted);
        if let Some(secondaries) = &self.secondaries {
            secondaries.configure(std::mem::take(&mut wanted.peers));
        }
        if let Some(transfers) = &self.transfers {
            transfers.allow(std::mem::take(&mut wanted.transfers));
        }
        if let Some(changes) = &self.changes {
            changes.allow(&wanted.updates);
        }
        let kept = Arc::clone(&self.kept);
        let mut keepers = write(&kept.keepers);
        for (spec, doubt) in wanted.doubtful().filter(|(spec, _)| !keepers.contains_key(&spec.apex)) {
            warn!("zone {} comes from the file {}, and {doubt}: is it meant?", spec.name(), spec.text);
        }
        let adding = self.being_added();
        let (gone, held) = gone(&keepers, &wanted, &adding, removal);
        for held in &held {
            error!("{held}");
            report.held(held.clone());
        }
        report.summary.zones = wanted.specs.len() + report.summary.held_back;
        report.summary.removed = gone.len();
        self.begin(purpose, report, replies);
        let mut actions = Vec::new();
        for apex in gone {
            if let Some(mut zone) = keepers.remove(&apex) {
                let spec = &zone.keeper.state().spec;
                warn!("zone {} is removed: {} is no longer a zone here", spec.name(), spec.text);
                actions.extend(zone.keeper.handle(KeeperEvent::Unwanted));
            }
            self.drop_single(&apex);
        }
        let held_zones = if held.is_empty() { Vec::new() } else { unwanted(&keepers, &wanted, &adding) };
        self.list_members(&mut wanted, &held_zones);
        for spec in wanted.specs {
            let zone = keepers.entry(spec.apex.clone()).or_insert_with(|| KeptZone::new(spec.clone()));
            zone.keeper.wanted_as(&spec);
            let text = spec.text.clone();
            actions.extend(zone.keeper.handle(KeeperEvent::Wanted(text, ReadWhen::IfChanged)));
            self.round.iter_mut().for_each(|round| round.expect(&spec.apex, zone));
        }
        if let Some(images) = &self.images {
            images.keep(keepers.values().map(|zone| &zone.keeper.state().spec));
        }
        if let Some(differences) = &self.differences {
            differences.retain(|apex| keepers.get(apex).is_some_and(|zone| zone.keeper.keeps_differences()));
        }
        drop(keepers);
        *lock(&self.kept.folders) = FolderFindings { held, refused: wanted.refused };
        self.act(actions);
    }

    /// Reports to a zone's keeper what became of the zone at its primaries.
    fn heard(&mut self, apex: &Apex, news: SecondaryNews) {
        let actions = match write(&self.kept.keepers).get_mut(apex) {
            Some(zone) => zone.keeper.handle(KeeperEvent::News(news, SystemTime::now())),
            // It is no longer ours.
            None => return,
        };
        self.act_on(apex, actions);
    }

    /// Has a zone changed by updates, and not by its file, until the claim ends. `None` if no version is in service.
    fn claim(&mut self, apex: &Apex) -> Option<ClaimedZone> {
        let mut keepers = write(&self.kept.keepers);
        let zone = keepers.get_mut(apex)?;
        let version = zone.keeper.state().zone.clone()?;
        let ends_at = (!zone.keeper.is_claimed()).then(|| self.own.clone());
        zone.keeper.handle(KeeperEvent::Claimed(true));
        let claim = Claim { apex: apex.clone(), ends_at };
        Some(ClaimedZone { version, file: zone.keeper.file().cloned(), claim })
    }

    /// Ends a claim at once.
    fn end_claim(&mut self, mut claim: Claim) {
        if claim.ends_at.take().is_some() {
            self.set_claimed(&claim.apex, false);
        }
    }

    fn set_claimed(&mut self, apex: &Apex, claimed: bool) {
        if let Some(zone) = write(&self.kept.keepers).get_mut(apex) {
            zone.keeper.handle(KeeperEvent::Claimed(claimed));
        }
    }

    /// Reports to a zone's keeper what updates have made of it.
    fn changed(&mut self, apex: &Apex, zone: Arc<Zone>) {
        let actions = match write(&self.kept.keepers).get_mut(apex) {
            Some(kept) => kept.keeper.handle(KeeperEvent::Changed(zone, SystemTime::now())),
            // It is no longer ours.
            None => return,
        };
        self.act_on(apex, actions);
    }

    /// Does what the keeper of one zone decided.
    fn act_on(&mut self, apex: &Apex, actions: Vec<KeeperAction>) {
        for action in &actions {
            match (action, &self.examiner, &self.secondaries) {
                (KeeperAction::Examine(order), Some(examiner), _) => {
                    examiner.order(apex.clone(), order.clone());
                }
                (KeeperAction::Begin(kept), _, Some(secondaries)) => {
                    secondaries.begin(apex.clone(), kept.clone());
                }
                (KeeperAction::Take(zone, file), ..) => {
                    let changes = self.changes.iter();
                    changes.for_each(|changes| changes.take(apex.clone(), Arc::clone(zone), file.clone()));
                }
                (KeeperAction::KeepDifference(change, bytes), ..) => {
                    let differences = self.differences.iter();
                    differences.for_each(|kept| kept.keep(apex, Arc::clone(change), *bytes));
                }
                (KeeperAction::ContinueDifferences(change, bytes), ..) => {
                    let differences = self.differences.iter();
                    differences.for_each(|kept| kept.go_on(apex, Arc::clone(change), *bytes));
                }
                (KeeperAction::ForgetDifferences, ..) => {
                    self.differences.iter().for_each(|kept| kept.forget(apex));
                }
                _ => {}
            }
        }
        self.act(actions);
    }

    /// What a load came to, which is nothing if the zone could not be found under the key of the catalog.
    fn fit_to_serve(&self, apex: &Apex, looked: Looked) -> Looked {
        match looked {
            Looked::Kept(Some(kept)) => {
                let expired = self.secondaries.as_ref().is_some_and(|of| of.has_expired(apex, &kept));
                Looked::Kept(Some(KeptVersion { expired, ..kept }))
            }
            Looked::Loaded(reading) if *reading.zone.key() != self.key => Looked::Bad {
                fault: Arc::new(ZoneFault::without_place(
                    "the zone was built under another hash key than that of the server; this is a bug",
                )),
                stamps: reading.stamps,
            },
            looked => looked,
        }
    }

    /// Reports to a zone's keeper what was found out about a version.
    fn examined(&mut self, apex: &Apex, version: Arc<Zone>, found: Arc<Examination>) {
        let mut keepers = write(&self.kept.keepers);
        if let Some(zone) = keepers.get_mut(apex) {
            // Each version is looked at as the first one was.
            zone.signatures = SignatureAge::default();
            zone.keeper.handle(KeeperEvent::Examined(version, found));
            zone.look_at_signatures(unix_now());
        }
    }

    /// Reports to a zone's keeper that a version was folded.
    fn folded(&mut self, apex: &Apex, version: Arc<Zone>, folded: Arc<Zone>) {
        let event = KeeperEvent::Folded(version, folded);
        let actions = write(&self.kept.keepers).get_mut(apex).map(|zone| zone.keeper.handle(event));
        self.act(actions.unwrap_or_default());
    }

    /// Looks at the age of all signatures.
    fn look_at_signatures(&mut self) {
        let now = unix_now();
        write(&self.kept.keepers).values_mut().for_each(|zone| zone.look_at_signatures(now));
        self.joining.local_root.iter().for_each(|copy| copy.look_again());
        self.take_root_again();
    }

    /// Does what keepers decided.
    fn act(&mut self, actions: Vec<KeeperAction>) {
        let mut loads = Vec::new();
        for action in actions {
            match action {
                KeeperAction::Load(load) => loads.push(load),
                KeeperAction::Publish(step) => {
                    let step = self.fit_to_publish(step);
                    step.into_iter().for_each(|step| self.publisher.add(step, Instant::now()));
                }
                KeeperAction::PublishNow(step) => {
                    let step = self.fit_to_publish(step);
                    step.into_iter().for_each(|step| self.publisher.add_at_once(step, Instant::now()));
                }
                KeeperAction::WriteImage(order) => self.orders.push(order),
                // Done before.
                KeeperAction::Report(_)
                | KeeperAction::Examine(_)
                | KeeperAction::Begin(_)
                | KeeperAction::KeepDifference(..)
                | KeeperAction::ContinueDifferences(..)
                | KeeperAction::ForgetDifferences
                | KeeperAction::Take(..) => {}
            }
        }
        if !loads.is_empty() {
            self.loaders.order(loads, &self.own, Message::Loaded);
        }
    }

    fn publish(&mut self) {
        match (self.publisher.publish(), &self.secondaries) {
            (Ok(served), Some(secondaries)) => secondaries.published(&served),
            (Ok(_), None) => {}
            (Err(fault), _) => {
                error!("what was served before stays in service: {fault}");
                self.unpublished = Some(fault.to_string().into());
            }
        }
        std::mem::take(&mut self.once_published).into_iter().for_each(|done| done());
        if let Some(images) = &self.images {
            images.write(std::mem::take(&mut self.orders));
        }
    }
}

/// Seconds since 1970.
pub fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The zones that are no longer wanted, and are not being added.
fn unwanted(keepers: &HashMap<Apex, KeptZone>, wanted: &WantedZones, adding: &HashSet<Apex>) -> Vec<Apex> {
    let still: HashSet<&Apex> = wanted.specs.iter().map(|spec| &spec.apex).chain(adding).collect();
    keepers.keys().filter(|apex| !still.contains(apex)).cloned().collect()
}

/// The zones that are no longer wanted, but for those that are held back, and the folders that hold them.
fn gone(
    keepers: &HashMap<Apex, KeptZone>,
    wanted: &WantedZones,
    adding: &HashSet<Apex>,
    removal: Removal,
) -> (Vec<Apex>, Vec<HeldFolder>) {
    let mut gone = unwanted(keepers, wanted, adding);
    let mut held = Vec::new();
    if removal == Removal::Force || gone.len() < LEAST_HELD {
        return (gone, held);
    }
    for folder in &wanted.folders {
        let is_here = |zone: &KeptZone| {
            let file = zone.keeper.state().spec.text.file();
            file.and_then(Path::parent).is_some_and(|parent| parent == folder.path)
        };
        let of = keepers.values().filter(|zone| is_here(zone)).count();
        let is_gone = |apex: &Apex| keepers.get(apex).is_some_and(is_here);
        let many = gone.iter().filter(|apex| is_gone(apex)).count();
        if many >= LEAST_HELD && many as f64 > folder.max_removed * of as f64 {
            gone.retain(|apex| !is_gone(apex));
            held.push(HeldFolder { folder: folder.path.clone(), gone: many, of });
        }
    }
    (gone, held)
}

fn answer(replies: Vec<Asker>, result: &Reloaded) {
    for reply in replies {
        // The receiver may be gone.
        let _ = reply.send(result.clone());
    }
}

/// Logs what an operator should know. At the start all zones are new, which is not worth a line each.
fn report(apex: &Apex, actions: &[KeeperAction], starting: bool) {
    let name = Name::from_wire(apex).unwrap_or(Name::ROOT);
    for action in actions {
        match action {
            KeeperAction::Report(Notice::Warning(text)) => warn!("zone {name}: {text}"),
            KeeperAction::Report(Notice::Bad(fault, Some(serial))) => {
                error!("zone {name} is bad, serial {serial} stays in service:\n{fault}");
            }
            KeeperAction::Report(Notice::Bad(fault, None)) => {
                // What is wrong in one line stays in one line.
                let gap = if fault.text.contains('\n') { '\n' } else { ' ' };
                error!("zone {name} is bad, no version of it is in service:{gap}{fault}");
            }
            KeeperAction::Report(Notice::Changed(VersionStep { from, to, records, took })) => {
                let (records, milliseconds) = (*records, took.as_millis() as u64);
                match from {
                    Some(from) => info!(records, milliseconds, "zone {name}: serial {from} -> {to}"),
                    None if starting => debug!(records, milliseconds, "zone {name}: serial {to}"),
                    None => info!(records, milliseconds, "zone {name}: new, serial {to}"),
                }
            }
            KeeperAction::Report(Notice::SerialBack(VersionStep { from, to, .. })) => {
                let from = from.unwrap_or(*to);
                warn!(
                    "zone {name}: the serial went back from {from} to {to}: secondaries will not take this version"
                );
            }
            KeeperAction::Report(Notice::SerialKept(VersionStep { to, .. })) => {
                warn!(
                    "zone {name}: the records changed, the serial is still {to}: secondaries will not take this version"
                );
            }
            KeeperAction::Report(Notice::FileNotTaken(serial)) => {
                warn!(
                    "zone {name}: its file, with serial {serial}, is not taken, since updates have changed the zone: \
                     `nomen ctl zone reload --force` takes what it says"
                );
            }
            KeeperAction::Load(_)
            | KeeperAction::Take(..)
            | KeeperAction::KeepDifference(..)
            | KeeperAction::ContinueDifferences(..)
            | KeeperAction::ForgetDifferences
            | KeeperAction::Publish(_)
            | KeeperAction::PublishNow(_)
            | KeeperAction::Begin(_)
            | KeeperAction::WriteImage(_)
            | KeeperAction::Examine(_) => {}
        }
    }
}

mod kept;
mod members;
mod rounds;
#[cfg(test)]
mod tests;
