//! What became of every statement. None is dropped in silence: what has no account is reported in the end.

use std::collections::{HashMap, HashSet};

use crate::text::SourceSpan;
use crate::tree::Statement;

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It is in the configuration that was made.
    Translated,
    /// It needs no counterpart: nomen does so anyway, or has no use for it.
    Unneeded,
    /// It is in the configuration that was made, and means something else there; or a default does.
    Differs,
    /// It cannot be said exactly: fewer clients, names or zones are served than by the source.
    Narrower,
    /// It has no counterpart.
    Missing,
}

/// What became of one statement, or of what was not written and held all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Where it stands; none for what holds without having been written.
    pub span: Option<SourceSpan>,
    /// How it begins.
    pub statement: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Where it went, or why it did not: a sentence without a full stop.
    pub words: String,
}

/// Whether something is missing or narrower than it was.
pub(crate) fn is_less(accounts: &[Account]) -> bool {
    accounts.iter().any(|account| matches!(account.outcome, Outcome::Missing | Outcome::Narrower))
}

/// Whether the statements in a statement's blocks are accounted for with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Whole,
    Opened,
}

/// The accounts.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) accounts: Vec<Account>,
    seen: HashMap<usize, Seen>,
    /// What stands in `accounts`: a statement that holds for many zones has an account all the same.
    told: HashSet<(usize, usize, Outcome, String)>,
}

impl Ledger {
    pub(crate) fn add(&mut self, statement: &Statement, outcome: Outcome, words: String) {
        self.seen.entry(statement.id).or_insert(Seen::Whole);
        self.part(&statement.span, &statement.title(), outcome, words);
    }

    /// The statement is in these keys now.
    pub(crate) fn translated(&mut self, statement: &Statement, to: impl Into<String>) {
        self.add(statement, Outcome::Translated, to.into());
    }

    /// The statement needs no counterpart.
    pub(crate) fn unneeded(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Outcome::Unneeded, why.into());
    }

    /// The statement means something else here.
    pub(crate) fn differs(&mut self, statement: &Statement, how: impl Into<String>) {
        self.add(statement, Outcome::Differs, how.into());
    }

    /// The statement cannot be said exactly, and less is served for it.
    pub(crate) fn narrower(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Outcome::Narrower, why.into());
    }

    /// The statement has no counterpart.
    pub(crate) fn missing(&mut self, statement: &Statement, why: impl Into<String>) {
        self.add(statement, Outcome::Missing, why.into());
    }

    /// The statement is a frame: each statement in it has an account of its own.
    pub(crate) fn open(&mut self, statement: &Statement) {
        self.seen.insert(statement.id, Seen::Opened);
    }

    /// What became of a part of a statement.
    pub(crate) fn part(&mut self, span: &SourceSpan, part: &str, outcome: Outcome, words: impl Into<String>) {
        let words = words.into();
        if self.told.insert((span.text, span.range.start, outcome, words.clone())) {
            let (span, statement) = (Some(span.clone()), part.to_owned());
            self.accounts.push(Account { span, statement, outcome, words });
        }
    }

    /// What no statement sets, and is otherwise here.
    pub(crate) fn unwritten(&mut self, outcome: Outcome, words: impl Into<String>) {
        self.accounts.push(Account { span: None, statement: String::new(), outcome, words: words.into() });
    }

    /// Accounts for all that has no account yet. `explain` finds words for a statement.
    pub(crate) fn sweep(
        &mut self,
        statements: &[Statement],
        explain: &dyn Fn(&Statement) -> (Outcome, String),
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

    /// Statements without an account: none, once they were swept.
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
