//! Sections of the configuration that the database has, on this node: those of the database, those in force,
//! and the file in the state folder with both, from which a start without the database has them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ::database::SectionSet;
use config::sections::{KeptSections, SECTIONS_FILE, SectionKind, SectionState, SectionUse, SharedSection};
use tracing::{error, info, warn};
use wording::reason;

use threads::sync::lock;

/// What differs after sections were taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SectionNews {
    /// Tokens differ.
    pub tokens: bool,
    /// Sections of other kinds differ: they are in force after a reload.
    pub others: bool,
}

/// The sections of a node.
#[derive(Debug)]
pub struct NodeSections {
    folder: PathBuf,
    state: Mutex<NodeState>,
    /// What the file has. Locked while it is written.
    saved: Mutex<KeptSections>,
    /// Locked while tokens go into force, so that the newest ones are the last.
    tokens: Mutex<()>,
}

#[derive(Debug, Default)]
struct NodeState {
    kept: Arc<KeptSections>,
    /// Those in force.
    in_force: Vec<SharedSection>,
    /// What this node does with each.
    states: Vec<SectionState>,
    /// The number of the last change up to which sections were applied.
    applied: i64,
    /// Why the newest ones are not applied.
    fault: Option<String>,
    /// Whether the database has none any more and those before stay.
    is_held: bool,
}

/// The sections of a node as operators see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SectionStatus {
    /// The number of the last change of a section in the database.
    pub number: i64,
    /// What this node does with each section.
    pub states: Vec<SectionState>,
    /// Why the newest ones are not applied, if they are not.
    pub fault: Option<String>,
    /// Whether the database has none any more and those before stay.
    pub is_held: bool,
}

impl SectionStatus {
    /// The number of sections that are not in force as the database has them, because of a fault.
    pub fn unusable(&self) -> usize {
        let faulty = self.states.iter().filter(|state| state.used.fault().is_some()).count();
        faulty + usize::from(self.fault.is_some() || self.is_held)
    }
}

impl NodeSections {
    /// Reads the file of a state folder. One that is damaged is as none, and is logged.
    pub fn open(folder: &Path) -> NodeSections {
        let kept = KeptSections::read(folder).unwrap_or_else(|fault| {
            let (file, why) = (folder.join(SECTIONS_FILE), reason(&fault));
            let file = file.display();
            error!(
                "cannot read {file}: {why}; sections of the database are not in force until it is reached"
            );
            KeptSections::default()
        });
        let applied = kept.number;
        let state = NodeState { kept: Arc::new(kept.clone()), applied, ..NodeState::default() };
        NodeSections {
            folder: folder.to_owned(),
            state: Mutex::new(state),
            saved: Mutex::new(kept),
            tokens: Mutex::default(),
        }
    }

    /// The sections to be applied.
    pub fn kept(&self) -> Arc<KeptSections> {
        Arc::clone(&lock(&self.state).kept)
    }

    /// Takes all sections of the database; returns what differs. `listed`: after a connection. An earlier
    /// state of the database without any is not taken: it must not end the service of all nodes.
    pub fn take(&self, set: SectionSet, listed: bool) -> SectionNews {
        let number = set.number;
        let wanted: Vec<SharedSection> = set
            .sections
            .into_iter()
            .map(|section| SharedSection { kind: section.kind, name: section.name, text: section.text })
            .collect();
        let mut state = lock(&self.state);
        let before = Arc::clone(&state.kept);
        state.is_held = listed && wanted.is_empty() && !before.wanted.is_empty() && number < before.number;
        if state.is_held {
            error!(
                "the database has no sections of the configuration any more: those before stay in force until one \
                 is set there"
            );
            return SectionNews::default();
        }
        let of = |is_token: bool| {
            let fits = move |section: &&SharedSection| is_a_token(section) == is_token;
            !wanted.iter().filter(fits).eq(before.wanted.iter().filter(fits))
        };
        let news = SectionNews { tokens: of(true), others: of(false) };
        state.keep(number, wanted);
        if !news.others && state.fault.is_none() {
            state.applied = number;
        }
        drop(state);
        self.save();
        if news != SectionNews::default() {
            info!(number, "sections of the configuration have changed in the database");
        }
        news
    }

    /// Notes that a configuration with these sections is in force.
    pub fn applied(&self, kept: &KeptSections, states: Vec<SectionState>) {
        let mut state = lock(&self.state);
        log_faults(&state.states, &states);
        (state.applied, state.fault) = (kept.number, None);
        state.set_in_force(states);
        drop(state);
        self.save();
    }

    /// Notes that a configuration with these sections could not be used.
    pub fn failed(&self, kept: &KeptSections, fault: &str) {
        let mut state = lock(&self.state);
        if state.applied != kept.number {
            state.fault = Some(fault.to_owned());
        }
    }

    /// Puts tokens into force: `apply` gets the newest sections, and returns the use of those of tokens.
    pub fn apply_tokens(&self, apply: impl FnOnce(&KeptSections) -> Vec<SectionState>) {
        let one_at_a_time = lock(&self.tokens);
        let tokens = apply(&self.kept());
        let mut state = lock(&self.state);
        let others = state.states.iter().filter(|state| !is_a_token(&state.section));
        let states: Vec<SectionState> = tokens.into_iter().chain(others.cloned()).collect();
        log_faults(&state.states, &states);
        state.set_in_force(states);
        drop((state, one_at_a_time));
    }

    /// The sections as operators see them.
    pub fn status(&self) -> SectionStatus {
        let state = lock(&self.state);
        let (states, fault) = (state.states.clone(), state.fault.clone());
        SectionStatus { number: state.kept.number, states, fault, is_held: state.is_held }
    }

    /// Writes the file, if there is something new.
    fn save(&self) {
        let mut saved = lock(&self.saved);
        let kept = self.kept();
        if *saved == *kept {
            return;
        }
        if let Err(fault) = kept.write(&self.folder) {
            warn!(
                "the sections of the database are not on the disk, and a start without the database has earlier \
                 ones: {}",
                reason(&fault)
            );
            return;
        }
        *saved = KeptSections::clone(&kept);
    }
}

impl NodeState {
    /// Keeps these sections, and those in force that differ from them.
    fn keep(&mut self, number: i64, wanted: Vec<SharedSection>) {
        let differs = |section: &&SharedSection| !is_a_token(section) && !wanted.contains(section);
        let earlier = self.in_force.iter().filter(differs).cloned().collect();
        self.kept = Arc::new(KeptSections { number, wanted, earlier });
    }

    fn set_in_force(&mut self, states: Vec<SectionState>) {
        let has = |state: &&SectionState| match state.used {
            SectionUse::InForce | SectionUse::LastGood(_) | SectionUse::Needed(_) => true,
            SectionUse::OwnFile | SectionUse::NoResolver | SectionUse::Unusable(_) => false,
        };
        self.in_force = states.iter().filter(has).map(|state| state.section.clone()).collect();
        self.states = states;
        let (number, wanted) = (self.kept.number, self.kept.wanted.clone());
        self.keep(number, wanted);
    }
}

fn is_a_token(section: &SharedSection) -> bool {
    section.known_kind() == Some(SectionKind::Token)
}

/// Logs the faults that are new.
fn log_faults(before: &[SectionState], now: &[SectionState]) {
    let key = |state: &SectionState| (state.section.title(), state.used.fault().map(str::to_owned));
    let known: std::collections::HashSet<_> = before.iter().map(key).collect();
    for state in now.iter().filter(|state| !known.contains(&key(state))) {
        let (title, instead) = (state.section.title(), state.used.word());
        if let Some(fault) = state.used.fault() {
            error!("{title} of the database cannot be used here ({instead}): {fault}");
        }
    }
}

#[cfg(test)]
mod tests {
    use ::database::StoredSection;

    use super::*;

    fn set(number: i64, sections: &[(&str, &str, &str)]) -> SectionSet {
        let section = |(kind, name, text): &(&str, &str, &str)| StoredSection {
            kind: (*kind).into(),
            name: (*name).into(),
            text: (*text).into(),
            author: "test".into(),
            node: "a".into(),
            at: std::time::SystemTime::UNIX_EPOCH,
            change: number,
        };
        SectionSet { number, sections: sections.iter().map(section).collect() }
    }

    fn in_force(kept: &KeptSections) -> Vec<SectionState> {
        let state =
            |section: &SharedSection| SectionState { section: section.clone(), used: SectionUse::InForce };
        kept.wanted.iter().map(state).collect()
    }

    const LIST: (&str, &str, &str) = ("policy.list", "ads", "1");
    const TOKEN: (&str, &str, &str) = ("api.token", "t", "1");

    #[test]
    fn the_next_run_has_the_sections_and_the_last_good_versions() {
        let folder = tempfile::tempdir().expect("a folder");
        let sections = NodeSections::open(folder.path());
        let news = sections.take(set(2, &[LIST, TOKEN]), true);
        assert_eq!(news, SectionNews { tokens: true, others: true });
        let kept = sections.kept();
        sections.applied(&kept, in_force(&kept));
        assert_eq!(sections.take(set(2, &[LIST, TOKEN]), true), SectionNews::default());
        let news = sections.take(set(4, &[("policy.list", "ads", "2")]), false);
        assert_eq!(news, SectionNews { tokens: true, others: true });
        let again = NodeSections::open(folder.path());
        assert_eq!(again.kept(), sections.kept());
        let earlier: Vec<String> = again.kept().earlier.iter().map(|section| section.title()).collect();
        assert_eq!(earlier, ["policy.list \"ads\""], "no token");
        // The new version goes into force, and the old one is not kept any longer.
        let kept = sections.kept();
        sections.applied(&kept, in_force(&kept));
        assert!(NodeSections::open(folder.path()).kept().earlier.is_empty());
        // A file that was changed is as none, and is written again.
        let file = folder.path().join(SECTIONS_FILE);
        let whole = std::fs::read_to_string(&file).expect("read");
        std::fs::write(&file, whole.replace("\"ads\"", "\"adz\"")).expect("written");
        let sections = NodeSections::open(folder.path());
        assert_eq!(*sections.kept(), KeptSections::default());
        sections.take(set(4, &[("policy.list", "ads", "2")]), true);
        assert_eq!(NodeSections::open(folder.path()).kept(), sections.kept());
    }

    #[test]
    fn a_database_that_lost_all_sections_ends_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let sections = NodeSections::open(folder.path());
        sections.take(set(2, &[LIST]), true);
        assert_eq!(sections.take(set(0, &[]), true), SectionNews::default());
        assert_eq!((sections.kept().wanted.len(), sections.status().unusable()), (1, 1));
        // The last one was removed.
        sections.take(set(3, &[]), false);
        assert_eq!((sections.kept().wanted.len(), sections.status().unusable()), (0, 0));
    }

    #[test]
    fn what_is_not_applied_is_a_fault_until_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let sections = NodeSections::open(folder.path());
        sections.take(set(2, &[LIST]), true);
        let kept = sections.kept();
        sections.failed(&kept, "a fault of the file");
        assert_eq!(sections.status().fault.as_deref(), Some("a fault of the file"));
        sections.applied(&kept, in_force(&kept));
        assert_eq!(sections.status().unusable(), 0);
        sections.failed(&kept, "not about sections");
        assert_eq!(sections.status().fault, None);
    }
}
