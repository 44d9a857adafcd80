//! The keeper of one zone: what is known of it, and what is to be done when something happens to it. A state machine
//! without files, threads or a clock; `keeping` tells it the events and does the actions.
//!
//! ```text
//!  Wanted ──▶ Load ─ ─ ─ ▶ Looked: Unchanged            nothing
//!                          Looked: Loaded      ──▶ Publish, WriteImage, Report
//!                          Looked: Bad         ──▶ Report; the version served stays, or SERVFAIL is published
//!  Unwanted ──▶ Publish (removal)
//! ```
//!
//! One load is under way at a time. What is wanted meanwhile is looked at once more when it has ended.

use std::sync::Arc;
use std::time::SystemTime;

use wire::Serial;
use zone::Zone;
use zone::catalog::Change;
use zone::image::Provenance;

use super::images::ImageOrder;
use super::{FileStamp, Origin, ZoneSpec, ZoneState};

/// How closely a zone's files are to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// They are read if they look changed.
    IfChanged,
    /// They are read in any case.
    Anyway,
}

/// A load, as the loader needs it.
#[derive(Debug, Clone)]
pub struct Load {
    /// Tells this load from earlier ones of the zone.
    pub number: u32,
    /// The zone and its files.
    pub spec: ZoneSpec,
    /// The files as they were when last read: if they still look so, there is nothing to read. `None`: they are read in
    /// any case.
    pub known: Option<Arc<[FileStamp]>>,
    /// Whether an image may stand for them.
    pub image: bool,
}

/// What a load came to.
#[derive(Debug)]
pub enum Looked {
    /// The files look as they did when last read.
    Unchanged,
    /// They hold a zone.
    Loaded(Box<Reading>),
    /// They do not, or cannot be read.
    Bad {
        /// Why: text for people, one line or more.
        fault: Arc<str>,
        /// The files as they were.
        stamps: Arc<[FileStamp]>,
    },
}

/// A zone that was read.
#[derive(Debug)]
pub struct Reading {
    /// The snapshot.
    pub zone: Arc<Zone>,
    /// The files as they were.
    pub stamps: Arc<[FileStamp]>,
    /// When.
    pub at: SystemTime,
    /// Warnings about it, each in one line or more; of a zone from an image only their number is known.
    pub warnings: Vec<String>,
    /// How many warnings there are.
    pub warning_count: usize,
    /// For its image: how it was made from text. `None` if it came from an image, or may have none.
    pub provenance: Option<Provenance>,
}

/// What happens to a zone.
#[derive(Debug)]
pub enum Event {
    /// The configuration wants it served from here.
    Wanted(Origin, Check),
    /// A load has ended.
    Looked(u32, Looked),
    /// The configuration wants it no longer.
    Unwanted,
}

/// What is to be done.
#[derive(Debug)]
pub enum Action {
    /// Look at its files; ends in [`Event::Looked`].
    Load(Load),
    /// Make this step to the next catalog.
    Publish(Change),
    /// Write an image, once the zone is in service.
    WriteImage(ImageOrder),
    /// Report this to the operator.
    Report(Report),
}

/// What an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A warning about the version that goes into service.
    Warning(String),
    /// The files are bad; the serial number of the version that stays in service, if there is one.
    Bad(Arc<str>, Option<Serial>),
}

/// One zone's keeper.
#[derive(Debug)]
pub struct Keeper {
    state: Arc<ZoneState>,
    /// The files as they were when last read; none before that.
    stamps: Option<Arc<[FileStamp]>>,
    loading: Option<Loading>,
    /// The number of the last load.
    number: u32,
}

/// A load under way.
#[derive(Debug)]
struct Loading {
    /// What was wanted since it began.
    again: Option<Check>,
}

impl Keeper {
    /// A keeper of a zone that nothing is known of yet.
    pub fn new(spec: ZoneSpec) -> Self {
        let state = ZoneState { spec, zone: None, loaded: None, fault: None, warnings: 0 };
        Keeper { state: Arc::new(state), stamps: None, loading: None, number: 0 }
    }

    /// What is known of the zone, for whoever asks.
    pub fn state(&self) -> &Arc<ZoneState> {
        &self.state
    }

    /// Whether a load is under way.
    pub fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Takes an event. Returns what is to be done, in this order.
    pub fn handle(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Wanted(origin, check) => self.wanted(origin, check),
            Event::Looked(number, looked) if number == self.number && self.loading.is_some() => {
                self.looked(looked)
            }
            // Of a load that no longer counts.
            Event::Looked(..) => Vec::new(),
            Event::Unwanted => {
                self.loading = None;
                vec![Action::Publish(Change::Remove(self.state.spec.name().to_buf()))]
            }
        }
    }

    fn wanted(&mut self, origin: Origin, check: Check) -> Vec<Action> {
        if self.state.spec.origin != origin {
            self.change(|state| state.spec.origin = origin);
            self.stamps = None;
        }
        match &mut self.loading {
            Some(loading) => {
                loading.again = loading.again.max(Some(check));
                Vec::new()
            }
            None => vec![self.load(check)],
        }
    }

    fn load(&mut self, check: Check) -> Action {
        self.loading = Some(Loading { again: None });
        self.number = self.number.wrapping_add(1);
        // What is bad is read again: perhaps it was not the files' fault.
        let known = self.stamps.clone().filter(|_| check == Check::IfChanged && self.state.fault.is_none());
        let image = check == Check::IfChanged;
        Action::Load(Load { number: self.number, spec: self.state.spec.clone(), known, image })
    }

    fn looked(&mut self, looked: Looked) -> Vec<Action> {
        let mut actions = match looked {
            Looked::Unchanged => Vec::new(),
            Looked::Loaded(reading) => self.accept(*reading),
            Looked::Bad { fault, stamps } => self.reject(fault, stamps),
        };
        if let Some(check) = self.loading.take().and_then(|loading| loading.again) {
            actions.push(self.load(check));
        }
        actions
    }

    fn accept(&mut self, reading: Reading) -> Vec<Action> {
        let Reading { zone, stamps, at, warnings, warning_count, provenance } = reading;
        self.stamps = Some(stamps);
        self.change(|state| {
            state.zone = Some(Arc::clone(&zone));
            (state.loaded, state.fault, state.warnings) = (Some(at), None, warning_count);
        });
        let mut actions: Vec<Action> =
            warnings.into_iter().map(|text| Action::Report(Report::Warning(text))).collect();
        actions.push(Action::Publish(Change::Serve(Arc::clone(&zone))));
        let spec = self.state.spec.clone();
        actions
            .extend(provenance.map(|provenance| Action::WriteImage(ImageOrder { spec, zone, provenance })));
        actions
    }

    fn reject(&mut self, fault: Arc<str>, stamps: Arc<[FileStamp]>) -> Vec<Action> {
        self.stamps = Some(stamps);
        self.change(|state| state.fault = Some(Arc::clone(&fault)));
        let serving = self.state.zone.as_ref().map(|zone| zone.serial());
        let mut actions = vec![Action::Report(Report::Bad(fault, serving))];
        if serving.is_none() {
            actions.push(Action::Publish(Change::Unload(self.state.spec.name().to_buf())));
        }
        actions
    }

    /// Changes what is known; those who look at the old state keep it.
    fn change(&mut self, change: impl FnOnce(&mut ZoneState)) {
        change(Arc::make_mut(&mut self.state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::hash::HashKey;
    use wire::{NameBuf, Ttl, Type};
    use zone::ZoneBuilder;

    fn apex() -> NameBuf {
        "example.".parse().expect("a name")
    }

    fn keeper() -> Keeper {
        let spec = ZoneSpec { apex: apex().as_name().as_wire().into(), origin: Origin::File("a".into()) };
        Keeper::new(spec)
    }

    fn reading(serial: u8) -> Looked {
        let mut builder = ZoneBuilder::new(apex().as_name(), &HashKey::new([1, 2, 3]));
        let rdata = [&[0, 0][..], &[0, 0, 0, serial], &[0; 16]].concat();
        builder.add(apex().as_name(), Type::SOA, Ttl::from_secs(60), &rdata).expect("a record");
        Looked::Loaded(Box::new(Reading {
            zone: Arc::new(builder.finish().expect("a zone")),
            stamps: Arc::new([]),
            at: SystemTime::UNIX_EPOCH,
            warnings: vec!["odd".into()],
            warning_count: 1,
            provenance: Some(Provenance { sources: Vec::new(), warnings: 1 }),
        }))
    }

    fn bad() -> Looked {
        Looked::Bad { fault: "no SOA".into(), stamps: Arc::new([]) }
    }

    /// One word for each action.
    fn words(actions: &[Action]) -> Vec<String> {
        let word = |action: &Action| match action {
            Action::Load(load) => {
                format!("load {} known {} image {}", load.number, load.known.is_some(), load.image)
            }
            Action::Publish(Change::Serve(zone)) => format!("serve {}", zone.serial()),
            Action::Publish(Change::Unload(_)) => "unload".into(),
            Action::Publish(Change::Remove(_)) => "remove".into(),
            Action::WriteImage(_) => "image".into(),
            Action::Report(Report::Warning(text)) => format!("warn {text}"),
            Action::Report(Report::Bad(_, serial)) => format!("bad, serving {}", serial.is_some()),
        };
        actions.iter().map(word).collect()
    }

    fn want(keeper: &mut Keeper, check: Check) -> Vec<String> {
        words(&keeper.handle(Event::Wanted(Origin::File("a".into()), check)))
    }

    fn look(keeper: &mut Keeper, number: u32, looked: Looked) -> Vec<String> {
        words(&keeper.handle(Event::Looked(number, looked)))
    }

    #[test]
    fn a_good_zone_is_served_and_then_read_only_when_it_changed() {
        let mut keeper = keeper();
        assert_eq!(want(&mut keeper, Check::IfChanged), ["load 1 known false image true"]);
        assert_eq!(look(&mut keeper, 1, reading(7)), ["warn odd", "serve 7", "image"]);
        assert_eq!((keeper.state().word(), keeper.state().warnings), ("ok", 1));
        assert_eq!(want(&mut keeper, Check::IfChanged), ["load 2 known true image true"]);
        assert!(look(&mut keeper, 2, Looked::Unchanged).is_empty());
        assert_eq!(want(&mut keeper, Check::Anyway), ["load 3 known false image false"]);
    }

    #[test]
    fn a_bad_version_leaves_the_one_that_is_served() {
        let mut keeper = keeper();
        want(&mut keeper, Check::IfChanged);
        look(&mut keeper, 1, reading(7));
        want(&mut keeper, Check::IfChanged);
        assert_eq!(look(&mut keeper, 2, bad()), ["bad, serving true"]);
        assert_eq!(keeper.state().word(), "old");
        // It is read again even if it looks the same.
        assert_eq!(want(&mut keeper, Check::IfChanged), ["load 3 known false image true"]);
        assert_eq!(look(&mut keeper, 3, reading(8)), ["warn odd", "serve 8", "image"]);
        assert_eq!((keeper.state().word(), keeper.state().fault.is_none()), ("ok", true));
    }

    #[test]
    fn a_zone_without_a_good_version_is_ours_all_the_same() {
        let mut keeper = keeper();
        want(&mut keeper, Check::IfChanged);
        assert_eq!(look(&mut keeper, 1, bad()), ["bad, serving false", "unload"]);
        assert_eq!(keeper.state().word(), "failed");
    }

    #[test]
    fn what_is_wanted_during_a_load_is_looked_at_after_it() {
        let mut keeper = keeper();
        want(&mut keeper, Check::IfChanged);
        assert!(want(&mut keeper, Check::Anyway).is_empty());
        assert!(want(&mut keeper, Check::IfChanged).is_empty());
        let all = look(&mut keeper, 1, reading(7));
        assert_eq!(all, ["warn odd", "serve 7", "image", "load 2 known false image false"]);
        assert!(look(&mut keeper, 1, reading(6)).is_empty(), "the first load has ended already");
    }

    #[test]
    fn another_file_is_read_whatever_was_known_of_the_first() {
        let mut keeper = keeper();
        want(&mut keeper, Check::IfChanged);
        look(&mut keeper, 1, reading(7));
        let moved = keeper.handle(Event::Wanted(Origin::File("b".into()), Check::IfChanged));
        assert_eq!(words(&moved), ["load 2 known false image true"]);
    }

    #[test]
    fn a_zone_that_is_no_longer_wanted_goes_and_stays_gone() {
        let mut keeper = keeper();
        want(&mut keeper, Check::IfChanged);
        assert_eq!(words(&keeper.handle(Event::Unwanted)), ["remove"]);
        assert!(look(&mut keeper, 1, reading(7)).is_empty(), "the load that was under way");
    }
}
