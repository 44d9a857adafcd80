//! Regular expressions in one automaton.
//!
//! The automaton is a table that no search changes: a search takes no lock and allocates nothing, and reads
//! each byte of a text once.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::Hir;

/// The share of an automaton's memory that its computation may take beside it. Its time grows with that, and
/// for an expression that is too large in the end it is most of the time: with this 9 ms, with all 40 ms.
const SCRATCH_SHARE: usize = 4;

/// Regular expressions in one automaton.
#[derive(Clone, Debug)]
pub(crate) struct RegexSet {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    /// The number of each expression.
    numbers: Box<[u32]>,
}

impl RegexSet {
    /// Compiles expressions; `numbers` are passed on for those that match. Returns `None` if the automaton
    /// takes more than `limit` bytes.
    pub(crate) fn of_hirs(hirs: &[Hir], numbers: &[u32], limit: usize) -> Option<Self> {
        let nfa = nfa_of(hirs, limit)?;
        let dfa = dense::Config::new()
            .accelerate(false)
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(limit))
            .determinize_size_limit(Some(limit / SCRATCH_SHARE));
        let dfa = dense::Builder::new().configure(dfa).build_from_nfa(&nfa).ok()?;
        let start = dfa.start_state(&start::Config::new().anchored(Anchored::No)).ok()?;
        Some(RegexSet { dfa, start, numbers: numbers.into() })
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.dfa.memory_usage() + size_of_val(&*self.numbers)
    }

    /// Calls `each` with the number of every expression that matches, once or several times.
    #[inline]
    pub(crate) fn find(&self, text: &[u8], mut each: impl FnMut(u32)) {
        let RegexSet { dfa, start, numbers } = self;
        let mut state = *start;
        let mut report = |state| {
            for at in 0..dfa.match_len(state) {
                if let Some(number) = numbers.get(dfa.match_pattern(state, at).as_usize()) {
                    each(*number);
                }
            }
        };
        for byte in text {
            state = dfa.next_state(state, *byte);
            if dfa.is_special_state(state) {
                if dfa.is_match_state(state) {
                    report(state);
                } else if dfa.is_dead_state(state) {
                    return;
                }
            }
        }
        state = dfa.next_eoi_state(state);
        if dfa.is_match_state(state) {
            report(state);
        }
    }
}

/// Returns the automaton from which the table is computed, or `None` if it takes more than `limit` bytes.
fn nfa_of(hirs: &[Hir], limit: usize) -> Option<thompson::NFA> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(thompson::WhichCaptures::None)
        .nfa_size_limit(Some(limit));
    thompson::Compiler::new().configure(config).build_many_from_hir(hirs).ok()
}

/// Whether a text matches one expression, of which the automaton takes at most `limit` bytes. No table is
/// computed, which takes much longer than to match one text.
pub(crate) fn is_match(hir: &Hir, text: &[u8], limit: usize) -> bool {
    let machine =
        nfa_of(std::slice::from_ref(hir), limit).and_then(|nfa| PikeVM::builder().build_from_nfa(nfa).ok());
    machine.is_some_and(|machine| machine.is_match(&mut machine.create_cache(), text))
}
