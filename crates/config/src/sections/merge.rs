//! Sections of the database beside the blocks of a node's own configuration file, which has precedence: a
//! section of the same kind and name is not used then. A section that makes the configuration unusable is
//! left out; its last good version takes its place, except for tokens. A section that was removed from the
//! database stays if the configuration file or another section names it, again except for tokens.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::kept::KeptSections;
use super::kind::{self, SectionKind};
use super::{SharedSection, split};
use crate::Configuration;
use crate::api::{ApiTokenBlock, read_hash_files};
use crate::report::{ConfigTexts, Diagnostic};
use crate::table::read::At;

/// What a node does with a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionUse {
    /// It is in force.
    InForce,
    /// The configuration file has one of this name, which is in force.
    OwnFile,
    /// It has no effect, since the configuration file has no `[resolver]`.
    NoResolver,
    /// It cannot be used, for this reason; none is in force.
    Unusable(String),
    /// It cannot be used, for this reason; its last good version is in force.
    LastGood(String),
    /// The database has it no longer, but this node needs it, for this reason.
    Needed(String),
}

impl SectionUse {
    /// Returns its word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::OwnFile => "own file",
            Self::NoResolver => "no resolver",
            Self::Unusable(_) => "unusable",
            Self::LastGood(_) => "last good version",
            Self::Needed(_) => "removed, but needed",
        }
    }

    /// Returns why the section that the database has is not in force, if that is a fault.
    pub fn fault(&self) -> Option<&str> {
        match self {
            Self::InForce | Self::OwnFile | Self::NoResolver => None,
            Self::Unusable(why) | Self::LastGood(why) | Self::Needed(why) => Some(why),
        }
    }
}

/// A section with its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionState {
    /// The section: its version in force, if there is one.
    pub section: SharedSection,
    /// What this node does with it.
    pub used: SectionUse,
}

/// The sections that were merged with a configuration.
#[derive(Debug, Default)]
pub struct MergedSections {
    entries: Vec<Entry>,
    /// Sections that were in force and that the database has no longer.
    removed: Vec<SharedSection>,
    base: PathBuf,
    /// Whether there is no configuration in force that could stay.
    is_first: bool,
    /// Why the file of the state folder could not be read.
    damage: Option<Diagnostic>,
}

#[derive(Debug)]
struct Entry {
    state: SectionState,
    /// The number of its text, if its blocks are in the configuration.
    source: Option<usize>,
    /// Another version that was in force.
    earlier: Option<SharedSection>,
}

impl MergedSections {
    /// Adds sections to a configuration; their relative paths start from `base`. `is_first`: no configuration
    /// is in force that could stay.
    pub(crate) fn add(
        config: &mut Configuration,
        sources: &mut ConfigTexts,
        kept: &KeptSections,
        (base, is_first): (&Path, bool),
    ) -> MergedSections {
        let own: HashSet<(SectionKind, String)> = kind::names(config).into_iter().collect();
        let has_resolver = config.settings.resolver.is_some();
        let mut merged = MergedSections { base: base.to_owned(), is_first, ..MergedSections::default() };
        for kind in SectionKind::ALL.into_iter().map(Some).chain([None]) {
            for section in kept.wanted.iter().filter(|section| section.known_kind() == kind) {
                let used = match kind {
                    Some(kind) if own.contains(&(kind, section.name.clone())) => SectionUse::OwnFile,
                    Some(kind) if kind.needs_resolver() && !has_resolver => SectionUse::NoResolver,
                    _ => SectionUse::InForce,
                };
                let earlier = kept.earlier.iter().find(|earlier| earlier.is(section)).cloned();
                let is_used = used == SectionUse::InForce;
                let state = SectionState { section: section.clone(), used };
                let mut entry = Entry { state, source: None, earlier };
                if is_used {
                    entry.put(config, sources, base);
                }
                merged.entries.push(entry);
            }
        }
        let is_removed = |earlier: &&SharedSection| {
            let Some(kind) = earlier.known_kind() else { return false };
            let is_unused = kind.needs_resolver() && !has_resolver;
            let is_wanted = kept.wanted.iter().any(|section| section.is(earlier));
            !is_wanted && !is_unused && !kind.fails_closed() && !own.contains(&(kind, earlier.name.clone()))
        };
        merged.removed = kept.earlier.iter().filter(is_removed).cloned().collect();
        merged
    }

    pub(crate) fn with_damage(self, damage: Option<Diagnostic>) -> MergedSections {
        MergedSections { damage, ..self }
    }

    /// Returns why the sections of the state folder could not be read, if that is so. There are none then.
    pub fn damage(&self) -> Option<&Diagnostic> {
        self.damage.as_ref()
    }

    /// Changes which sections are used until there are no faults. `faults` are those of the configuration as
    /// it is; further ones are found by its check.
    ///
    /// # Errors
    /// Faults that the configuration has without sections, too.
    pub(crate) fn mend(
        &mut self,
        config: &mut Configuration,
        sources: &mut ConfigTexts,
        mut faults: Vec<Diagnostic>,
    ) -> Result<(), Vec<Diagnostic>> {
        // Each round leaves out a section, takes an earlier version or brings one back, each once.
        while !faults.is_empty() {
            // What was removed and is still named is needed: its removal must not end the service of zones.
            let is_changed = self.bring_back(config, sources, &faults)
                || self.leave_out(config, sources, &faults)
                || self.go_back(config, sources, &faults);
            if !is_changed {
                return Err(faults);
            }
            faults = Vec::new();
            config.check(&mut faults);
        }
        Ok(())
    }

    /// Leaves out the sections that faults are in. Returns whether there are any.
    fn leave_out(
        &mut self,
        config: &mut Configuration,
        sources: &mut ConfigTexts,
        faults: &[Diagnostic],
    ) -> bool {
        let mut is_changed = false;
        for fault in faults {
            let places = || fault.place.iter().chain(fault.related.iter().map(|(place, _)| place));
            let Some(source) = places().find(|place| place.is_shared()).map(|place| place.source) else {
                continue;
            };
            if let Some(entry) = self.entries.iter_mut().find(|entry| entry.source == Some(source)) {
                kind::remove(config, source);
                entry.source = None;
                entry.fail(one_line(sources, fault), config, sources, &self.base);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Brings back sections that the database has no longer and that the configuration needs. Returns whether
    /// there are any.
    fn bring_back(
        &mut self,
        config: &mut Configuration,
        sources: &mut ConfigTexts,
        faults: &[Diagnostic],
    ) -> bool {
        let about = |section: &SharedSection| {
            let name = section.name.trim_end_matches('.');
            faults.iter().find(|fault| is_about(&fault.message, name))
        };
        let mut needed: Vec<(SharedSection, String)> = Vec::new();
        self.removed.retain(|section| match about(section) {
            Some(fault) => {
                needed.push((section.clone(), one_line(sources, fault)));
                false
            }
            None => true,
        });
        let is_changed = !needed.is_empty();
        for (section, why) in needed {
            let state = SectionState { section, used: SectionUse::Needed(why) };
            let mut entry = Entry { state, source: None, earlier: None };
            entry.put(config, sources, &self.base);
            self.entries.push(entry);
        }
        is_changed
    }

    /// Takes the earlier versions of all sections that have one; then, if the configuration must be usable
    /// without one that was in force before, no section but tokens. Returns whether there were any.
    fn go_back(
        &mut self,
        config: &mut Configuration,
        sources: &mut ConfigTexts,
        faults: &[Diagnostic],
    ) -> bool {
        let why = faults.first().map(|fault| one_line(sources, fault)).unwrap_or_default();
        let is_open = |entry: &&mut Entry| {
            let kind = entry.state.section.known_kind();
            entry.source.is_some() && kind.is_some_and(|kind| !kind.fails_closed())
        };
        let has_earlier = self.entries.iter().any(|entry| entry.source.is_some() && entry.earlier.is_some());
        let may_drop = self.is_first;
        let mut is_changed = false;
        for entry in self.entries.iter_mut().filter(is_open) {
            let is_gone = if has_earlier { entry.earlier.is_some() } else { may_drop };
            if let Some(source) = entry.source.filter(|_| is_gone) {
                kind::remove(config, source);
                entry.source = None;
                entry.fail(why.clone(), config, sources, &self.base);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Returns all sections, each with its use.
    pub fn states(&self) -> Vec<SectionState> {
        self.entries.iter().map(|entry| entry.state.clone()).collect()
    }
}

impl Entry {
    /// Adds the blocks of its text to a configuration.
    fn put(&mut self, config: &mut Configuration, sources: &mut ConfigTexts, base: &Path) {
        let section = &self.state.section;
        let source = sources.add_shared(&format!("database: {}", section.title()), section.text.clone());
        match split::read_alone(section, source, base) {
            Ok(blocks) => {
                kind::append(config, blocks);
                self.source = Some(source);
            }
            Err(faults) => {
                let why = faults.first().map(|fault| one_line(sources, fault)).unwrap_or_default();
                self.fail(why, config, sources, base);
            }
        }
    }

    /// Notes that it cannot be used, and takes its earlier version instead, if there is one.
    fn fail(&mut self, why: String, config: &mut Configuration, sources: &mut ConfigTexts, base: &Path) {
        let SectionState { section, used } = &mut self.state;
        // What is wrong with the newest version is of interest, not with the one before.
        let why = used.fault().map_or(why, str::to_owned);
        let kind = section.known_kind();
        match self.earlier.take().filter(|_| kind.is_some_and(|kind| !kind.fails_closed())) {
            Some(earlier) => {
                *section = earlier;
                *used = SectionUse::LastGood(why);
                self.put(config, sources, base);
            }
            None => *used = SectionUse::Unusable(why),
        }
    }
}

/// Whether a message is about a list, zone, group, template, policy or key of this name, in one of the ways
/// in which messages write names. Names may be words that messages have, too.
pub(super) fn is_about(message: &str, name: &str) -> bool {
    let ways = [format!("`{name}`"), format!("`{name}.`"), format!(".{name}]")];
    ways.iter().any(|way| message.contains(way)) || message.ends_with(&format!(" key {name}."))
}

/// Returns a fault in one line.
fn one_line(sources: &ConfigTexts, fault: &Diagnostic) -> String {
    let hint = fault.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    match &fault.place {
        Some(place) => format!("{}: {}{hint}", sources.address(place), fault.message),
        None => format!("{}{hint}", fault.message),
    }
}

/// Returns tokens together with those of sections, and the use of these sections.
pub fn join_tokens(
    own: Vec<At<ApiTokenBlock>>,
    kept: &KeptSections,
    base: &Path,
) -> (Vec<At<ApiTokenBlock>>, Vec<SectionState>) {
    let is_token = |section: &&SharedSection| section.known_kind() == Some(SectionKind::Token);
    let wanted: Vec<SharedSection> = kept.wanted.iter().filter(is_token).cloned().collect();
    let tokens = KeptSections { wanted, ..KeptSections::default() };
    let mut config = Configuration::default();
    // Without the section, tokens are not checked.
    config.settings.api = Some(At::default());
    config.settings.api_tokens = own;
    let mut sources = ConfigTexts::default();
    let mut merged = MergedSections::add(&mut config, &mut sources, &tokens, (base, false));
    let mut faults = Vec::new();
    config.check(&mut faults);
    loop {
        // Faults of the file's own tokens were reported when it was read.
        if merged.mend(&mut config, &mut sources, faults).is_err() {
            break;
        }
        faults = read_hash_files(&mut config.settings.api_tokens);
        if faults.is_empty() {
            break;
        }
    }
    (config.settings.api_tokens, merged.states())
}
