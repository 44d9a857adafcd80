//! TOML as statements: a key with a value, or with a block of keys or of list members.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Parses a text that has been opened. The parser bounds how deep values are nested.
pub(crate) fn parse(texts: &mut Texts<'_>, number: usize) -> Result<Vec<Statement>, SyntaxFault> {
    let text = texts.text(number);
    match DeTable::parse(&text) {
        Ok(table) => Ok(Reader { number, texts }.entries(table.get_ref())),
        Err(fault) => {
            let span = fault.span().filter(|range| text.get(range.clone()).is_some());
            let span = span.map(|range| SourceSpan { text: number, range });
            Err(SyntaxFault { span, kind: SyntaxFaultKind::Document(fault.message().to_owned()) })
        }
    }
}

struct Reader<'r, 'f> {
    number: usize,
    texts: &'r mut Texts<'f>,
}

impl Reader<'_, '_> {
    fn word(&self, text: &str, range: Range<usize>) -> SourceWord {
        SourceWord { text: text.to_owned(), quoted: false, span: SourceSpan { text: self.number, range } }
    }

    /// The keys of a table, in the order of the text.
    fn entries(&mut self, table: &DeTable<'_>) -> Vec<Statement> {
        let mut all: Vec<_> = table.iter().collect();
        all.sort_by_key(|(key, _)| key.span().start);
        let mut out = Vec::new();
        for (key, value) in all {
            let key = self.word(key.get_ref(), key.span());
            out.push(self.statement(Some(key), value.get_ref(), value.span()));
        }
        out
    }

    fn statement(&mut self, key: Option<SourceWord>, value: &DeValue<'_>, range: Range<usize>) -> Statement {
        let mut whole = key.as_ref().map_or(range.clone(), |key| key.span.range.clone());
        let mut parts: Vec<Part> = key.into_iter().map(Part::Word).collect();
        match value {
            DeValue::Table(table) => parts.push(Part::Block(self.entries(table))),
            DeValue::Array(array) => {
                let members =
                    array.iter().map(|member| self.statement(None, member.get_ref(), member.span()));
                parts.push(Part::Block(members.collect()));
            }
            scalar => {
                whole.end = whole.end.max(range.end);
                let text = match scalar {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.to_string(),
                    DeValue::Float(number) => number.to_string(),
                    DeValue::Boolean(on) => on.to_string(),
                    DeValue::Datetime(time) => time.to_string(),
                    DeValue::Table(_) | DeValue::Array(_) => String::new(),
                };
                parts.push(Part::Word(self.word(&text, range)));
            }
        }
        let span = SourceSpan { text: self.number, range: whole };
        Statement { id: self.texts.number(), parts, span }
    }
}
