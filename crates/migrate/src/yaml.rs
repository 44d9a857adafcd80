//! YAML as statements: a key with a value, or with a block of keys or of list members.

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Most nested blocks.
const MAX_DEPTH: usize = 50;
/// Keys whose value names a list member in reports.
const TITLES: [&str; 3] = ["name", "domain", "url"];

/// Parses a text that has been opened. Its statements are those of the outermost mapping, or the members of
/// the outermost list.
pub(crate) fn parse(texts: &mut Texts<'_>, number: usize) -> Result<Vec<Statement>, SyntaxFault> {
    let text = texts.text(number);
    let mut reader = Reader { parser: Parser::new_from_str(&text), places: Places::of(&text), number, texts };
    loop {
        match reader.next()? {
            (Event::MappingStart(..), _) => return reader.entries(0),
            (Event::SequenceStart(..), _) => return reader.members(0),
            (Event::StreamEnd | Event::DocumentEnd, _) => return Ok(Vec::new()),
            (Event::Scalar(..) | Event::Alias(_), span) => {
                return reader.fault(&span, SyntaxFaultKind::Yaml("a mapping is expected here"));
            }
            _ => {}
        }
    }
}

/// Byte positions of characters.
enum Places {
    Ascii(usize),
    Others(Vec<usize>),
}

impl Places {
    fn of(text: &str) -> Self {
        match text.is_ascii() {
            true => Self::Ascii(text.len()),
            false => {
                let starts = text.char_indices().map(|(at, _)| at);
                Self::Others(starts.chain([text.len()]).collect())
            }
        }
    }

    fn byte(&self, index: usize) -> usize {
        match self {
            Self::Ascii(len) => index.min(*len),
            Self::Others(starts) => starts.get(index).or(starts.last()).copied().unwrap_or(0),
        }
    }
}

struct Reader<'r, 'f> {
    parser: Parser<'r, StrInput<'r>>,
    places: Places,
    number: usize,
    texts: &'r mut Texts<'f>,
}

impl<'r> Reader<'r, '_> {
    fn next(&mut self) -> Result<(Event<'r>, SourceSpan), SyntaxFault> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, self.span(&span))),
            Some(Err(fault)) => {
                let at = *fault.marker();
                let span = self.span(&Span::empty(at));
                self.fault(&span, SyntaxFaultKind::Document(fault.info().to_owned()))
            }
            None => Ok((Event::StreamEnd, SourceSpan { text: self.number, range: 0..0 })),
        }
    }

    fn span(&self, span: &Span) -> SourceSpan {
        let start = self.places.byte(span.start.index());
        let end = self.places.byte(span.end.index()).max(start);
        SourceSpan { text: self.number, range: start..end }
    }

    fn fault<T>(&self, span: &SourceSpan, kind: SyntaxFaultKind) -> Result<T, SyntaxFault> {
        Err(SyntaxFault { span: Some(span.clone()), kind })
    }

    /// The keys of a mapping, after its start.
    fn entries(&mut self, depth: usize) -> Result<Vec<Statement>, SyntaxFault> {
        let mut out = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd | Event::StreamEnd, _) => return Ok(out),
                (Event::Scalar(text, style, ..), span) => word(&text, style, span),
                (_, span) => return self.fault(&span, SyntaxFaultKind::Yaml("a key is expected here")),
            };
            let (event, span) = self.next()?;
            out.push(self.statement(Some(key), event, span, depth)?);
        }
    }

    /// The members of a list, after its start.
    fn members(&mut self, depth: usize) -> Result<Vec<Statement>, SyntaxFault> {
        let mut out = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(out),
                (event, span) => out.push(self.statement(None, event, span, depth)?),
            }
        }
    }

    /// The statement of a key and its value, or of a list member.
    fn statement(
        &mut self,
        key: Option<SourceWord>,
        event: Event<'r>,
        span: SourceSpan,
        depth: usize,
    ) -> Result<Statement, SyntaxFault> {
        if depth >= MAX_DEPTH {
            return self.fault(&span, SyntaxFaultKind::TooDeep);
        }
        let mut whole = key.as_ref().map_or(span.clone(), |key| key.span.clone());
        let mut parts: Vec<Part> = key.into_iter().map(Part::Word).collect();
        match event {
            Event::Scalar(text, style, ..) => {
                whole.range.end = whole.range.end.max(span.range.end);
                parts.push(Part::Word(word(&text, style, span)));
            }
            Event::MappingStart(..) => {
                let block = self.entries(depth + 1)?;
                if parts.is_empty() {
                    let named = TITLES.iter().find_map(|key| block.iter().find(|entry| entry.key() == *key));
                    if let Some(first) = named.or(block.first()) {
                        whole = first.span.clone();
                        parts.extend(first.words().cloned().map(Part::Word));
                    }
                }
                parts.push(Part::Block(block));
            }
            Event::SequenceStart(..) => parts.push(Part::Block(self.members(depth + 1)?)),
            _ => return self.fault(&span, SyntaxFaultKind::Yaml("anchors and aliases are not read here")),
        }
        Ok(Statement { id: self.texts.number(), parts, span: whole })
    }
}

/// A scalar; a plain null is empty.
fn word(text: &str, style: ScalarStyle, span: SourceSpan) -> SourceWord {
    let plain = style == ScalarStyle::Plain;
    let text = if plain && ["~", "null", "Null", "NULL"].contains(&text) { "" } else { text };
    SourceWord { text: text.to_owned(), quoted: !plain, span }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::files::Files;

    struct One(&'static str);

    impl Files for One {
        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Ok(self.0.as_bytes().to_vec())
        }
        fn names(&self, _: &Path) -> io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    fn read(text: &'static str) -> Result<Vec<Statement>, SyntaxFault> {
        let files = One(text);
        let mut texts = Texts::new(&files);
        let number = texts.open(Path::new("/y"), None)?;
        parse(&mut texts, number)
    }

    #[test]
    fn keys_lists_and_their_places_are_read() {
        let text = "é: ü # x\ndns:\n  hosts: [a, 'b c']\n  none: null\nclients:\n- id: 1\n  name: n\n";
        let all = read(text).expect("it is YAML");
        assert_eq!(all.iter().map(Statement::key).collect::<Vec<_>>(), ["é", "dns", "clients"]);
        assert_eq!((all[0].value(), &text[all[0].span.range.clone()]), ("ü", "é: ü"));
        let hosts = all[1].find("hosts").expect("a list");
        assert_eq!(hosts.block().iter().map(Statement::key).collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(&text[hosts.block()[1].span.range.clone()], "'b c'");
        assert_eq!(all[1].find("none").map(Statement::value), Some(""));
        assert_eq!((all[2].block()[0].title(), all[2].block()[0].block().len()), ("name n".into(), 2));
    }

    #[test]
    fn what_is_not_read_is_refused() {
        let kind = |text| read(text).map_err(|fault| fault.kind);
        assert!(matches!(kind("a: &x 1\nb: *x\n"), Err(SyntaxFaultKind::Yaml(_))));
        assert!(matches!(kind("a: [1\n"), Err(SyntaxFaultKind::Document(_))));
        assert_eq!(kind("just text"), Err(SyntaxFaultKind::Yaml("a mapping is expected here")));
        let deep: &'static str = "[".repeat(60).leak();
        assert!(kind(deep).is_err());
    }
}
