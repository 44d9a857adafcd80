//! Keeping the zones: one thread reports to each keeper what happens to its zone, and does what the keeper decides.
//! Loader threads read for it. Everybody else sees the zones through [`Kept`], and asks for work through [`ZoneKeeping`].
//!
//! What belongs together, such as all zones of a reload, is a round: whoever asked for it hears its end. Rounds come one
//! after the other; requests that come in during one are answered by the next, together.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime};

use engine::Engine;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use wire::Name;

use super::images::{ImageOrder, Images};
use super::keeper::{Keeper, KeeperAction, KeeperEvent, Looked, Notice, ReadWhen};
use super::loaders::{LoadEnd, Loaders};
use super::progress::ProgressDisplay;
use super::publisher::Publisher;
use super::{Apex, ZoneSpec, ZoneState};
use crate::config::Rejected;
use crate::frontend::Served;
use crate::signals;
use crate::sync::{lock, read, write};

/// How often replaced catalogs are looked at, to see whether workers have let go of them.
const RETIREMENT: Duration = Duration::from_millis(100);
/// How often a round's progress is looked at.
const PROGRESS: Duration = Duration::from_millis(50);

/// What a round did, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Zones that are served or should be.
    pub zones: usize,
    /// Zones whose files were read with success.
    pub loaded: usize,
    /// Zones that look unchanged and were not read.
    pub unchanged: usize,
    /// Zones whose files are bad: served in their last good version, if there is one.
    pub failed: usize,
    /// Zones that are no longer served.
    pub removed: usize,
    /// Time it took, in milliseconds.
    pub milliseconds: u64,
}

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadFault {
    /// The configuration cannot be used; what is wrong with it, for people.
    Configuration(Arc<str>),
    /// There is no such zone here.
    NoSuchZone,
    /// The zone's files are bad; what is wrong with them, for people.
    Zone(Arc<str>),
    /// The server is stopping.
    Stopping,
}

impl fmt::Display for ReloadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(text) | Self::Zone(text) => f.write_str(text),
            Self::NoSuchZone => f.write_str("there is no such zone here"),
            Self::Stopping => f.write_str("the server is stopping"),
        }
    }
}

impl std::error::Error for ReloadFault {}

/// How a request ended.
pub type Reloaded = Result<Summary, ReloadFault>;
type Asker = oneshot::Sender<Reloaded>;

/// How the last reload ended.
#[derive(Debug, Clone)]
pub struct LastReload {
    /// When it ended.
    pub at: SystemTime,
    /// What it did, or why it did nothing.
    pub result: Reloaded,
}

/// A zone and its keeper.
struct KeptZone {
    keeper: Keeper,
    /// The round under way waits for its load.
    awaited: bool,
}

impl KeptZone {
    fn new(spec: ZoneSpec) -> Self {
        KeptZone { keeper: Keeper::new(spec), awaited: false }
    }
}

/// What is known of every zone, for whoever asks.
#[derive(Default)]
pub struct Kept {
    keepers: RwLock<HashMap<Apex, KeptZone>>,
    last_reload: Mutex<Option<LastReload>>,
}

impl Kept {
    /// What is known of one zone.
    pub fn get(&self, apex: &Apex) -> Option<Arc<ZoneState>> {
        read(&self.keepers).get(apex).map(|zone| Arc::clone(zone.keeper.state()))
    }

    /// What is known of every zone, in no particular order.
    pub fn all(&self) -> Vec<Arc<ZoneState>> {
        read(&self.keepers).values().map(|zone| Arc::clone(zone.keeper.state())).collect()
    }

    /// How the last reload ended, if there was one.
    pub fn last_reload(&self) -> Option<LastReload> {
        lock(&self.last_reload).clone()
    }
}

/// What the thread hears.
enum Message {
    Reload(Option<Asker>),
    ReloadZone(Apex, Asker),
    Loaded(LoadEnd),
    Stop,
}

/// Asks for something; cheap to clone.
#[derive(Clone)]
pub struct ZoneKeeping {
    messages: Sender<Message>,
}

impl ZoneKeeping {
    /// Asks for the configuration and changed zones to be read.
    pub fn reload(&self) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::Reload(Some(reply)))
    }

    /// The same, for whoever does not want to hear the end.
    pub fn reload_unheard(&self) {
        // The server is stopping, if nobody takes it.
        let _ = self.messages.send(Message::Reload(None));
    }

    /// Asks for one zone to be read whether changed or not.
    pub fn reload_zone(&self, apex: Apex) -> oneshot::Receiver<Reloaded> {
        self.ask(|reply| Message::ReloadZone(apex, reply))
    }

    /// Ends the thread, in the middle of whatever it does.
    pub fn stop(&self) {
        // It may have ended before.
        let _ = self.messages.send(Message::Stop);
    }

    fn ask(&self, message: impl FnOnce(Asker) -> Message) -> oneshot::Receiver<Reloaded> {
        let (reply, result) = oneshot::channel();
        // Nobody takes it if the server is stopping; a reply that is dropped means that.
        let _ = self.messages.send(message(reply));
        result
    }
}

/// Reads the configuration anew, takes over its settings, and returns the zones that it asks for.
pub type Prepare = dyn Fn() -> Result<Vec<ZoneSpec>, Rejected> + Send;

/// The thread's state.
pub struct Keeping {
    kept: Arc<Kept>,
    prepare: Box<Prepare>,
    publisher: Publisher,
    loaders: Loaders,
    images: Option<Arc<Images>>,
    /// Images to be written once their zones are in service.
    orders: Vec<ImageOrder>,
    own: Sender<Message>,
    messages: Receiver<Message>,
    round: Option<Round>,
    /// What the last round did.
    last: Summary,
    /// Who asked for all zones to be looked at next, if anybody did.
    all: Option<Vec<Asker>>,
    /// The same for single zones.
    single: HashMap<Apex, Vec<Asker>>,
}

/// What is done together.
struct Round {
    purpose: Purpose,
    begun: Instant,
    /// Zones whose loads it waits for.
    waiting: usize,
    summary: Summary,
    replies: Vec<Asker>,
    progress: ProgressDisplay,
}

/// What a round is for.
#[derive(PartialEq, Eq)]
enum Purpose {
    /// The first load, before anything is served.
    Start,
    /// A reload of everything.
    All,
    /// A reload of this zone.
    Zone(Apex),
}

impl Keeping {
    /// A thread's state, the way to ask it, and what others see of the zones.
    pub fn new(
        engine: Arc<Engine<Served>>,
        images: Option<Arc<Images>>,
        prepare: Box<Prepare>,
    ) -> (Keeping, ZoneKeeping, Arc<Kept>) {
        let (own, messages) = channel();
        let kept = Arc::new(Kept::default());
        let keeping = Keeping {
            kept: Arc::clone(&kept),
            prepare,
            loaders: Loaders::new(engine.key(), images.clone()),
            publisher: Publisher::new(engine),
            images,
            orders: Vec::new(),
            own: own.clone(),
            messages,
            round: None,
            last: Summary::default(),
            all: None,
            single: HashMap::new(),
        };
        (keeping, ZoneKeeping { messages: own }, kept)
    }

    /// Loads these zones and puts them into service, for the first time.
    pub fn load_first(&mut self, specs: Vec<ZoneSpec>) -> Summary {
        self.look_at_all(specs, Purpose::Start, Vec::new());
        while self.round.is_some() && self.hear() {}
        self.last
    }

    /// Works until it is told to stop.
    pub fn work(mut self) {
        while self.hear() {}
    }

    /// Takes the messages that are there, or waits for one, and does what is due. False at the end.
    fn hear(&mut self) -> bool {
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
                Message::Reload(reply) => self.all.get_or_insert_default().extend(reply),
                Message::ReloadZone(apex, reply) => self.single.entry(apex).or_default().push(reply),
                Message::Loaded(outcome) => self.loaded(outcome),
                Message::Stop => return false,
            }
            next = self.messages.try_recv().ok();
        }
        self.do_what_is_due();
        true
    }

    /// How long to wait for a message; `None` if there is nothing else to do.
    fn patience(&mut self) -> Option<Duration> {
        let publish = self.publisher.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let progress = self.round.is_some().then_some(PROGRESS);
        let release = (!self.publisher.release()).then_some(RETIREMENT);
        [publish, progress, release].into_iter().flatten().min()
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.publisher.deadline().is_some_and(|at| at <= now) {
            self.publish();
        }
        if let Some(round) = &mut self.round {
            let Summary { zones, .. } = round.summary;
            round.progress.show(zones - round.waiting.min(zones), zones, self.loaders.meter());
        }
        if self.round.as_ref().is_some_and(|round| round.waiting == 0) {
            self.end_round();
        }
        while self.round.is_none() {
            if let Some(replies) = self.all.take() {
                self.reload(replies);
            } else if let Some(apex) = self.single.keys().next().cloned() {
                let replies = self.single.remove(&apex).unwrap_or_default();
                self.reload_zone(apex, replies);
            } else {
                return;
            }
        }
    }

    /// Begins a reload of everything; ends it at once if the configuration is bad.
    fn reload(&mut self, replies: Vec<Asker>) {
        signals::notify_reloading();
        match (self.prepare)() {
            Ok(specs) => self.look_at_all(specs, Purpose::All, replies),
            Err(rejected) => {
                let text = rejected.to_string();
                error!("reload failed, the old configuration stays:\n{}", text.trim_end());
                self.reloaded(Err(ReloadFault::Configuration(text.into())), replies);
            }
        }
    }

    /// Notes how a reload of everything ended, and answers who asked for it.
    fn reloaded(&self, result: Reloaded, replies: Vec<Asker>) {
        *lock(&self.kept.last_reload) = Some(LastReload { at: SystemTime::now(), result: result.clone() });
        signals::notify_ready();
        answer(replies, &result);
    }

    /// Begins a round about the zones that are wanted and those that no longer are.
    fn look_at_all(&mut self, specs: Vec<ZoneSpec>, purpose: Purpose, replies: Vec<Asker>) {
        let summary = Summary { zones: specs.len(), ..Summary::default() };
        self.begin(purpose, summary, replies);
        if let Some(images) = &self.images {
            images.keep(specs.iter());
        }
        let mut actions = Vec::new();
        {
            let mut keepers = write(&self.kept.keepers);
            let wanted: HashSet<&Apex> = specs.iter().map(|spec| &spec.apex).collect();
            let gone: Vec<Apex> = keepers.keys().filter(|apex| !wanted.contains(apex)).cloned().collect();
            for apex in gone {
                if let Some(mut zone) = keepers.remove(&apex) {
                    actions.extend(zone.keeper.handle(KeeperEvent::Unwanted));
                    self.round.iter_mut().for_each(|round| round.summary.removed += 1);
                }
            }
            for spec in specs {
                let text = spec.text.clone();
                let zone = keepers.entry(spec.apex.clone()).or_insert_with(|| KeptZone::new(spec));
                actions.extend(zone.keeper.handle(KeeperEvent::Wanted(text, ReadWhen::IfChanged)));
                zone.awaited = true;
                self.round.iter_mut().for_each(|round| round.waiting += 1);
            }
        }
        self.act(actions);
    }

    /// Begins a round about one zone.
    fn reload_zone(&mut self, apex: Apex, replies: Vec<Asker>) {
        let actions = {
            let mut keepers = write(&self.kept.keepers);
            let Some(zone) = keepers.get_mut(&apex) else {
                return answer(replies, &Err(ReloadFault::NoSuchZone));
            };
            zone.awaited = true;
            let text = zone.keeper.state().spec.text.clone();
            zone.keeper.handle(KeeperEvent::Wanted(text, ReadWhen::Anyway))
        };
        self.begin(Purpose::Zone(apex), Summary { zones: 1, ..Summary::default() }, replies);
        self.round.iter_mut().for_each(|round| round.waiting = 1);
        self.act(actions);
    }

    fn begin(&mut self, purpose: Purpose, summary: Summary, replies: Vec<Asker>) {
        let begun = Instant::now();
        self.round = Some(Round {
            purpose,
            begun,
            waiting: 0,
            summary,
            replies,
            progress: ProgressDisplay::new(begun, self.loaders.meter()),
        });
    }

    /// Reports to a zone's keeper what its load came to.
    fn loaded(&mut self, LoadEnd { apex, number, looked }: LoadEnd) {
        let came_to = match &looked {
            Looked::Unchanged => |summary: &mut Summary| summary.unchanged += 1,
            Looked::Loaded(_) => |summary: &mut Summary| summary.loaded += 1,
            Looked::Bad { .. } => |summary: &mut Summary| summary.failed += 1,
        };
        let actions = {
            let mut keepers = write(&self.kept.keepers);
            // It may be gone by now.
            let Some(zone) = keepers.get_mut(&apex) else { return };
            let actions = zone.keeper.handle(KeeperEvent::Looked(number, looked));
            if !zone.keeper.is_loading() && std::mem::take(&mut zone.awaited) {
                self.round.iter_mut().for_each(|round| {
                    round.waiting -= 1;
                    came_to(&mut round.summary);
                });
            }
            actions
        };
        report(&apex, &actions);
        self.act(actions);
    }

    /// Does what keepers decided.
    fn act(&mut self, actions: Vec<KeeperAction>) {
        let mut loads = Vec::new();
        for action in actions {
            match action {
                KeeperAction::Load(load) => loads.push(load),
                KeeperAction::Publish(step) => self.publisher.add(step, Instant::now()),
                KeeperAction::WriteImage(order) => self.orders.push(order),
                // Written before.
                KeeperAction::Report(_) => {}
            }
        }
        if !loads.is_empty() {
            self.loaders.order(loads, &self.own, Message::Loaded);
        }
    }

    fn publish(&mut self) {
        if let Err(fault) = self.publisher.publish() {
            error!("what was served before stays in service: {fault}");
        }
        if let Some(images) = &self.images {
            images.write(std::mem::take(&mut self.orders));
        }
    }

    fn end_round(&mut self) {
        self.publish();
        let Some(Round { purpose, begun, mut summary, replies, .. }) = self.round.take() else { return };
        summary.milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last = summary;
        match purpose {
            Purpose::Start => {}
            Purpose::All => {
                let Summary { zones, loaded, unchanged, failed, removed, milliseconds } = summary;
                info!(zones, loaded, unchanged, failed, removed, milliseconds, "reloaded");
                self.reloaded(Ok(summary), replies);
            }
            Purpose::Zone(apex) => {
                let fault = self.kept.get(&apex).and_then(|state| state.fault.clone());
                answer(replies, &fault.map_or(Ok(summary), |fault| Err(ReloadFault::Zone(fault))));
            }
        }
    }
}

fn answer(replies: Vec<Asker>, result: &Reloaded) {
    for reply in replies {
        // Whoever asked may have gone away.
        let _ = reply.send(result.clone());
    }
}

/// Logs what an operator should know.
fn report(apex: &Apex, actions: &[KeeperAction]) {
    let name = Name::from_wire(apex).unwrap_or(Name::ROOT);
    for action in actions {
        match action {
            KeeperAction::Report(Notice::Warning(text)) => warn!("zone {name}: {text}"),
            KeeperAction::Report(Notice::Bad(fault, Some(serial))) => {
                error!("zone {name} is bad, serial {serial} stays in service:\n{fault}");
            }
            KeeperAction::Report(Notice::Bad(fault, None)) => {
                error!("zone {name} is bad, it is answered with SERVFAIL:\n{fault}");
            }
            KeeperAction::Load(_) | KeeperAction::Publish(_) | KeeperAction::WriteImage(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use engine::{Config, Sources, Zones};
    use tempfile::TempDir;
    use wire::NameBuf;
    use wire::hash::HashKey;
    use zone::catalog::Catalog;

    use super::*;
    use crate::frontend;
    use crate::zones::ZoneText;

    /// A folder of zones, each file named after its zone, and the thread that keeps them.
    struct Rig {
        folder: TempDir,
        engine: Arc<Engine<Served>>,
        keeping: ZoneKeeping,
        kept: Arc<Kept>,
    }

    fn apex(name: &str) -> Apex {
        name.parse::<NameBuf>().expect("a name").as_name().as_wire().into()
    }

    fn specs(folder: &Path) -> Vec<ZoneSpec> {
        let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let name = |path: &Path| path.file_name().expect("a name").to_str().expect("text").to_owned();
        files.map(|path| ZoneSpec { apex: apex(&name(&path)), text: ZoneText::File(path) }).collect()
    }

    impl Rig {
        fn new(zones: &[(&str, &str)]) -> (Rig, Summary) {
            let folder = tempfile::tempdir().expect("a folder");
            let key = HashKey::new([1, 2, 3]);
            let zones_of = frontend::serving(Zones::new(Arc::new(Catalog::new(&key))));
            let engine = Arc::new(Engine::new(zones_of, Sources::default(), Config::default()));
            let path = folder.path().to_owned();
            let prepare = Box::new(move || Ok(specs(&path)));
            let (mut thread, keeping, kept) = Keeping::new(Arc::clone(&engine), None, prepare);
            let rig = Rig { folder, engine, keeping, kept };
            zones.iter().for_each(|(name, serial)| rig.write(name, serial));
            let summary = thread.load_first(specs(rig.folder.path()));
            std::thread::spawn(move || thread.work());
            (rig, summary)
        }

        fn write(&self, name: &str, serial: &str) {
            let text =
                format!("$TTL 60\n@ SOA ns1 admin {serial} 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n");
            fs::write(self.folder.path().join("fresh"), text).expect("written");
            fs::rename(self.folder.path().join("fresh"), self.folder.path().join(name)).expect("moved");
        }

        fn reload(&self) -> Summary {
            let result = self.keeping.reload().blocking_recv().expect("an answer");
            Summary { milliseconds: 0, ..result.expect("a configuration") }
        }

        /// The serial numbers of the zones that are served, with their names; 0 if a zone is not loaded.
        fn served(&self) -> Vec<(String, u32)> {
            let catalog = self.engine.catalog();
            let serial = |e: &zone::ZoneEntry| e.zone().map_or(0, |zone| zone.serial().0);
            let mut all: Vec<_> = catalog.iter().map(|e| (e.name().to_string(), serial(e))).collect();
            all.sort();
            all
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            self.keeping.stop();
        }
    }

    #[test]
    fn zones_come_change_and_go() {
        let (rig, first) = Rig::new(&[("a", "1"), ("b", "1"), ("c", "bad")]);
        assert_eq!((first.zones, first.loaded, first.failed), (3, 2, 1));
        let served = |a: u32, b: u32| vec![("a.".to_owned(), a), ("b.".to_owned(), b)];
        assert_eq!(rig.served(), [served(1, 1), vec![("c.".to_owned(), 0)]].concat());
        fs::remove_file(rig.folder.path().join("c")).expect("removed");
        rig.write("b", "2");
        let summary = Summary { zones: 2, loaded: 1, unchanged: 1, removed: 1, ..Summary::default() };
        assert_eq!(rig.reload(), summary);
        assert_eq!(rig.served(), served(1, 2));
        // A bad version leaves the one before in service.
        rig.write("b", "bad");
        assert_eq!(rig.reload().failed, 1);
        assert_eq!(rig.served(), served(1, 2));
        assert_eq!(rig.kept.get(&apex("b")).expect("kept").word(), "old");
        assert!(rig.kept.last_reload().is_some_and(|last| last.result.is_ok_and(|s| s.failed == 1)));
    }

    #[test]
    fn one_zone_is_read_without_looking_at_the_others() {
        let (rig, _) = Rig::new(&[("a", "1"), ("b", "1")]);
        rig.write("a", "2");
        rig.write("b", "2");
        let ask = |name: &str| rig.keeping.reload_zone(apex(name)).blocking_recv().expect("an answer");
        assert_eq!(ask("b").map(|summary| (summary.zones, summary.loaded)), Ok((1, 1)));
        assert_eq!(rig.served(), [("a.".to_owned(), 1), ("b.".to_owned(), 2)]);
        assert_eq!(ask("elsewhere"), Err(ReloadFault::NoSuchZone));
        rig.write("a", "bad");
        assert!(matches!(ask("a"), Err(ReloadFault::Zone(fault)) if fault.contains("bad")));
    }

    #[test]
    fn everybody_who_asks_is_answered() {
        let (rig, _) = Rig::new(&[("a", "1")]);
        let all: Vec<_> = (0..50)
            .map(|i| if i % 2 == 0 { rig.keeping.reload() } else { rig.keeping.reload_zone(apex("a")) })
            .collect();
        for answer in all {
            assert!(answer.blocking_recv().expect("an answer").is_ok());
        }
        rig.keeping.stop();
        while rig.keeping.reload().blocking_recv().is_ok() {}
    }
}
