//! Which rules a name has by patterns.
//!
//! | automaton | finds |
//! |---|---|
//! | of literals (Aho-Corasick) | wildcard patterns whose longest part a name has, which are then compared |
//! | of regular expressions (DFA) | the regular expressions that a name matches |
//!
//! Both are tables that no search changes: a search takes no lock and allocates nothing, and reads each byte
//! of a name once. Wildcard patterns are not in the DFA: each `*` in the middle may double its states.
//! Regular expressions share one DFA if it is not too large, and else as few as they fit into.

use std::collections::HashMap;

use aho_corasick::Anchored;
use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA as LiteralSet;
use regex_syntax::hir::Hir;
use wire::LowerName;

use crate::patterns::{NameText, Pattern, PatternRoom, Regex};
use crate::regexes::RegexSet;
use crate::rule::{RuleSets, SetId};

/// Most bytes of an automaton that several regular expressions share.
const MAX_SHARED: usize = 1 << 20;
/// Most automata that are given up because they grow too large, so that compiling ends soon.
const MAX_ATTEMPTS: usize = 16;

/// Compiles expressions into as few automata as they fit into, by halves.
fn share(regexes: &[(Hir, u32)], attempts: &mut usize, to: &mut Vec<RegexSet>) {
    let (hirs, numbers): (Vec<Hir>, Vec<u32>) = regexes.iter().cloned().unzip();
    let limit = if regexes.len() == 1 { Regex::max_bytes() } else { MAX_SHARED };
    if (regexes.len() == 1 || *attempts > 0)
        && let Some(set) = RegexSet::of_hirs(&hirs, &numbers, limit)
    {
        to.push(set);
        return;
    }
    *attempts = attempts.saturating_sub(1);
    // Each alone has been compiled before.
    if regexes.len() > 1 {
        let (left, right) = regexes.split_at(regexes.len() / 2);
        share(left, attempts, to);
        share(right, attempts, to);
    }
}

/// Patterns and their rules, in any order, with duplicates.
pub(crate) type PatternEntries = Vec<(Pattern, SetId)>;

/// The rules of patterns.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternTable {
    entries: Box<[(Pattern, SetId)]>,
    /// The literals of the first entries, which are the wildcard patterns.
    literals: Option<LiteralSet>,
    regexes: Box<[RegexSet]>,
}

impl PatternTable {
    /// Compiles patterns; the rules of equal patterns are joined.
    pub(crate) fn new(from: PatternEntries, sets: &mut RuleSets) -> Self {
        let mut joined: HashMap<Pattern, SetId> = HashMap::new();
        for (pattern, set) in from {
            joined.entry(pattern).and_modify(|kept| *kept = sets.union(*kept, set)).or_insert(set);
        }
        let mut entries: Vec<(Pattern, SetId)> = joined.into_iter().collect();
        entries.sort_unstable_by_key(|(pattern, _)| pattern.order());
        let globs = entries.iter().filter_map(|(pattern, _)| match pattern {
            Pattern::Glob(glob) => Some(glob.literal()),
            Pattern::Regex(_) => None,
        });
        let literals: Vec<&[u8]> = globs.collect();
        let regexes = (0..).zip(&entries).filter_map(|(number, (pattern, _))| match pattern {
            Pattern::Glob(_) => None,
            Pattern::Regex(regex) => Some((regex.hir()?, number)),
        });
        let regexes: Vec<(Hir, u32)> = regexes.collect();
        let mut shared = Vec::new();
        if !regexes.is_empty() {
            let mut attempts = MAX_ATTEMPTS;
            share(&regexes, &mut attempts, &mut shared);
        }
        // The memory of patterns is bounded, far below what an automaton can hold.
        let literals = (!literals.is_empty()).then(|| LiteralSet::new(&literals).ok()).flatten();
        PatternTable { literals, regexes: shared.into(), entries: entries.into() }
    }

    /// Number of patterns.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let literals = self.literals.as_ref().map_or(0, |literals| literals.memory_usage());
        let regexes: usize = self.regexes.iter().map(RegexSet::bytes).sum();
        literals + regexes + self.entries.iter().map(|(pattern, _)| pattern.own_bytes()).sum::<usize>()
    }

    /// All patterns and their rules.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Pattern, SetId)> {
        self.entries.iter()
    }

    /// Calls `each` with the rules of every pattern; adds those that it returns to `to`.
    pub(crate) fn copy(
        &self,
        to: &mut PatternEntries,
        room: &mut PatternRoom,
        mut each: impl FnMut(SetId) -> Option<SetId>,
    ) {
        for (pattern, set) in &self.entries {
            if let Some(set) = each(*set) {
                // A rule that is in force stays, also if other lists have grown.
                room.charge(pattern.bytes());
                to.push((pattern.clone(), set));
            }
        }
    }

    /// Calls `each` with the rules of every pattern that a name matches, once or several times.
    pub(crate) fn find(&self, name: LowerName<'_>, mut each: impl FnMut(SetId)) {
        let text = NameText::of(name);
        let text = text.bytes();
        if let Some(literals) = &self.literals {
            find_globs(literals, &self.entries, text, &mut each);
        }
        for regexes in &self.regexes {
            regexes.find(text, |number| {
                if let Some((_, set)) = self.entries.get(number as usize) {
                    each(*set);
                }
            });
        }
    }
}

/// Calls `each` with the rules of every wildcard pattern that a text matches.
fn find_globs(
    literals: &LiteralSet,
    entries: &[(Pattern, SetId)],
    text: &[u8],
    each: &mut impl FnMut(SetId),
) {
    let Ok(mut state) = literals.start_state(Anchored::No) else { return };
    for byte in text {
        state = literals.next_state(Anchored::No, state, *byte);
        if !literals.is_match(state) {
            continue;
        }
        for at in 0..literals.match_len(state) {
            let entry = entries.get(literals.match_pattern(state, at).as_usize());
            if let Some((Pattern::Glob(glob), set)) = entry
                && glob.matches(text)
            {
                each(*set);
            }
        }
    }
}
