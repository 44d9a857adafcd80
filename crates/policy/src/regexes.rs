//! Regular expressions in one automaton.
//!
//! The automaton is a table that no search changes: a search takes no lock and allocates nothing, and reads
//! each byte of a text once.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::Hir;

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
        let nfa = thompson::Config::new()
            .utf8(false)
            .which_captures(thompson::WhichCaptures::None)
            .nfa_size_limit(Some(limit));
        let nfa = thompson::Compiler::new().configure(nfa).build_many_from_hir(hirs).ok()?;
        let dfa = dense::Config::new()
            .accelerate(false)
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(limit))
            .determinize_size_limit(Some(limit));
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
