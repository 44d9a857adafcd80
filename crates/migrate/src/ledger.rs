//! The outcome of every statement. None is dropped silently: statements without an outcome are reported at
//! the end.

use std::collections::{HashMap, HashSet};

use crate::text::SourceSpan;
use crate::tree::Statement;

/// How far the new configuration covers a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coverage {
    /// It is in the new configuration.
    Translated,
    /// It needs no counterpart: nomen does it by default, or has no need for it.
    Unneeded,
    /// It is in the new configuration with a different meaning; or a default differs.
    Differs,
    /// It cannot be expressed exactly: fewer clients, names or zones are served than before.
    Narrower,
    /// It has no counterpart.
    Missing,
}

/// The outcome of one statement, or of a default that was in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its place; `None` for a default.
    pub span: Option<SourceSpan>,
    /// The beginning of the statement.
    pub statement: String,
    /// The outcome.
    pub outcome: Coverage,
    /// Its new place, or why there is none: a sentence without a full stop.
    pub words: String,
}

/// Whether any outcome is missing or narrower.
pub(crate) fn is_less(accounts: &[Account]) -> bool {
    accounts.iter().any(|account| matches!(account.outcome, Coverage::Missing | Coverage::Narrower))
}

/// Whether a statement's outcome includes the statements in its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    Opened,
}

/// The outcomes of all statements.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) accounts: Vec<Account>,
    seen: HashMap<usize, Seen>,
    /// Entries of `accounts`, to report a statement that applies to many zones once.
    told: HashSet<(usize, usize, Coverage, String)>,
}

impl Ledger {
    pub(crate) fn add(&mut self, statement: &Statement, outcome: Coverage, words: String) {
        self.seen.entry(statement.id).or_insert(Seen::Whole);
        self.part(&statement.span, &statement.title(), outcome, words);
    }

    /// Reports a statement as translated to these keys.
    pub(crate) fn translated(&mut self, statement: &Statement, to: impl Into<String>) {
        self.add(statement, Coverage::Translated, to.into());
    }

    /// Reports a statement that needs no counterpart.
    pub(crate) fn unneeded(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Coverage::Unneeded, why.into());
    }

    /// Reports a statement with a different meaning in nomen.
    pub(crate) fn differs(&mut self, statement: &Statement, how: impl Into<String>) {
        self.add(statement, Coverage::Differs, how.into());
    }

    /// Reports a statement that cannot be expressed exactly, so that less is served.
    pub(crate) fn narrower(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Coverage::Narrower, why.into());
    }

    /// Reports a statement without a counterpart.
    pub(crate) fn missing(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Coverage::Missing, why.into());
    }

    /// Whether a statement has an outcome.
    pub(crate) fn is_seen(&self, statement: &Statement) -> bool {
        self.seen.contains_key(&statement.id)
    }

    /// Marks a statement as a container: each statement in it has its own outcome.
    pub(crate) fn open(&mut self, statement: &Statement) {
        self.seen.insert(statement.id, Seen::Opened);
    }

    /// Reports the outcome of a part of a statement.
    pub(crate) fn part(
        &mut self,
        span: &SourceSpan,
        part: &str,
        outcome: Coverage,
        words: impl Into<String>,
    ) {
        let words = words.into();
        if self.told.insert((span.text, span.range.start, outcome, words.clone())) {
            let (span, statement) = (Some(span.clone()), part.to_owned());
            self.accounts.push(Account { span, statement, outcome, words });
        }
    }

    /// Reports a default that differs.
    pub(crate) fn unwritten(&mut self, outcome: Coverage, words: impl Into<String>) {
        self.accounts.push(Account { span: None, statement: String::new(), outcome, words: words.into() });
    }

    /// Reports all statements that have no outcome yet. `explain` returns outcome and text for a statement.
    pub(crate) fn sweep(
        &mut self,
        statements: &[Statement],
        explain: &dyn Fn(&Statement) -> (Coverage, String),
    ) {
        for statement in statements {
            match self.seen.get(&statement.id) {
                Some(Seen::Whole) => {}
                Some(Seen::Opened) => statement.blocks().for_each(|block| self.sweep(block, explain)),
                None => {
                    let (outcome, words) = explain(statement);
                    self.add(statement, outcome, words);
                }
            }
        }
    }

    /// Number of statements without an outcome: 0 after [`sweep`](Self::sweep).
    #[cfg(test)]
    pub(crate) fn unaccounted(&self, statements: &[Statement]) -> usize {
        let of = |statement: &Statement| match self.seen.get(&statement.id) {
            Some(Seen::Whole) => 0,
            Some(Seen::Opened) => statement.blocks().map(|block| self.unaccounted(block)).sum(),
            None => 1,
        };
        statements.iter().map(of).sum()
    }
}
