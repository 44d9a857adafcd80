//! The parse result of all syntaxes: statements of words and blocks.

use crate::text::SourceSpan;

/// A word, or a quoted string, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceWord {
    pub(crate) text: String,
    pub(crate) quoted: bool,
    pub(crate) span: SourceSpan,
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Word(SourceWord),
    Block(Vec<Statement>),
}

/// A statement: words, with blocks of statements between and after them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its number among all statements.
    pub(crate) id: usize,
    pub(crate) parts: Vec<Part>,
    pub(crate) span: SourceSpan,
}

impl Statement {
    /// Its words, the keyword first.
    pub(crate) fn words(&self) -> impl Iterator<Item = &SourceWord> {
        self.parts.iter().filter_map(|part| match part {
            Part::Word(word) => Some(word),
            Part::Block(_) => None,
        })
    }

    /// Its blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Statement]> {
        self.parts.iter().filter_map(|part| match part {
            Part::Word(_) => None,
            Part::Block(block) => Some(block.as_slice()),
        })
    }

    /// Its first word.
    pub(crate) fn key(&self) -> &str {
        self.words().next().map_or("", |word| &word.text)
    }

    /// The nth word after the keyword, from 0.
    pub(crate) fn argument(&self, n: usize) -> Option<&SourceWord> {
        self.words().nth(n + 1)
    }

    /// The text of the first word after the keyword.
    pub(crate) fn value(&self) -> &str {
        self.argument(0).map_or("", |word| &word.text)
    }

    /// The words after the keyword.
    pub(crate) fn values(&self) -> impl Iterator<Item = &SourceWord> {
        self.words().skip(1)
    }

    /// Its first block.
    pub(crate) fn block(&self) -> &[Statement] {
        self.blocks().next().unwrap_or_default()
    }

    /// The word after `key`.
    pub(crate) fn word_after(&self, key: &str) -> Option<&SourceWord> {
        let mut words = self.words().skip_while(|word| word.text != key);
        words.next()?;
        words.next()
    }

    /// The first statement of its first block with this keyword.
    pub(crate) fn find(&self, key: &str) -> Option<&Statement> {
        find(self.block(), key)
    }

    /// The beginning of the statement, for display.
    pub(crate) fn title(&self) -> String {
        let words = self.parts.iter().map_while(|part| match part {
            Part::Word(word) => Some(word.text.as_str()),
            Part::Block(_) => None,
        });
        let title = words.collect::<Vec<_>>().join(" ");
        match title.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &title[..end]),
            None => title,
        }
    }
}

/// The last statement with this keyword, which takes precedence if there are several.
pub(crate) fn last<'t>(all: &[&'t Statement], key: &str) -> Option<&'t Statement> {
    all.iter().rev().find(|statement| statement.key() == key).copied()
}

/// The first statement with this keyword.
pub(crate) fn find<'t>(all: &'t [Statement], key: &str) -> Option<&'t Statement> {
    all.iter().find(|statement| statement.key() == key)
}
