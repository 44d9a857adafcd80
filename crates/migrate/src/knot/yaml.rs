//! The subset of YAML in knot.conf: sections, items that begin with `-`, and keys with one value or a list.
//! Knot itself reads no more of YAML, so a full YAML parser would report other errors than Knot.

use std::path::Path;

use crate::files::{expand, is_pattern, join};
use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Most nested includes.
const MAX_DEPTH: usize = 50;

/// The parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// A statement for each section. Its block has keys, or items, each with a block of keys.
    pub(crate) sections: Vec<Statement>,
    /// Every `include`.
    pub(crate) includes: Vec<Statement>,
}

/// Parses a file with all its includes.
pub(crate) fn parse(texts: &mut Texts<'_>, path: &Path) -> Result<Parsed, SyntaxFault> {
    let mut out = Parsed::default();
    file(texts, path, None, &mut out)?;
    Ok(out)
}

fn file(
    texts: &mut Texts<'_>,
    path: &Path,
    named: Option<&SourceSpan>,
    out: &mut Parsed,
) -> Result<(), SyntaxFault> {
    if texts.depth() > MAX_DEPTH {
        return Err(SyntaxFault { span: named.cloned(), kind: SyntaxFaultKind::TooDeep });
    }
    let number = texts.open(path, named)?;
    let text = texts.text(number);
    let mut reader = Reader { text: &text, number, at: 0, item: None, entry: None };
    while let Some(line) = reader.line()? {
        if line.indent == 0 && !line.dash {
            (reader.item, reader.entry) = (None, None);
            if line.key.text == "include" {
                include(texts, line, path, out)?;
                continue;
            }
            let mut statement = statement(texts, number, &line);
            statement.parts.push(Part::Block(Vec::new()));
            out.sections.push(statement);
            continue;
        }
        let fault = |kind| Err(SyntaxFault { span: Some(line.key.span.clone()), kind });
        let Some(Part::Block(section)) = out.sections.last_mut().and_then(|section| section.parts.last_mut())
        else {
            return fault(SyntaxFaultKind::NoSection(line.key.text));
        };
        reader.add(texts, line, section)?;
    }
    texts.close();
    Ok(())
}

fn include(texts: &mut Texts<'_>, line: Line, from: &Path, out: &mut Parsed) -> Result<(), SyntaxFault> {
    let statement = statement(texts, line.key.span.text, &line);
    let path = join(from.parent().unwrap_or(Path::new("")), statement.value());
    let paths = match is_pattern(statement.value()) {
        true => expand(texts.files, &path),
        false => vec![path],
    };
    for path in paths {
        file(texts, &path, Some(&statement.span), out)?;
    }
    out.includes.push(statement);
    Ok(())
}

fn statement(texts: &mut Texts<'_>, number: usize, line: &Line) -> Statement {
    let end = line.values.last().map_or(line.key.span.range.end, |word| word.span.range.end);
    let parts = std::iter::once(&line.key).chain(&line.values).cloned().map(Part::Word).collect();
    let span = SourceSpan { text: number, range: line.key.span.range.start..end };
    Statement { id: texts.number(), parts, span }
}

/// A line with content; a list of values may span several lines.
struct Line {
    indent: usize,
    /// Whether it begins with `-`.
    dash: bool,
    /// The key, or the value of a list member, which has no key.
    key: SourceWord,
    has_colon: bool,
    values: Vec<SourceWord>,
}

struct Reader<'r> {
    text: &'r str,
    number: usize,
    at: usize,
    /// Indentation of the dashes of this section's items.
    item: Option<usize>,
    /// Indentation of the keys.
    entry: Option<usize>,
}

impl Reader<'_> {
    fn fault<T>(&self, from: usize, kind: SyntaxFaultKind) -> Result<T, SyntaxFault> {
        let end = self.text[from..].chars().next().map_or(from, |c| from + c.len_utf8());
        Err(SyntaxFault { span: Some(SourceSpan { text: self.number, range: from..end }), kind })
    }

    /// Skips white space and a comment; returns whether the line ends here.
    fn blanks(&mut self) -> bool {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        let rest = &self.text[self.at..];
        if rest.starts_with('#') {
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
        self.text[self.at..].is_empty() || self.text[self.at..].starts_with('\n')
    }

    /// Returns the next line with content.
    fn line(&mut self) -> Result<Option<Line>, SyntaxFault> {
        loop {
            let from = self.at;
            if !self.blanks() {
                let indent = self.at - from;
                return self.content(indent).map(Some);
            }
            if self.at >= self.text.len() {
                return Ok(None);
            }
            self.at += 1;
        }
    }

    fn content(&mut self, indent: usize) -> Result<Line, SyntaxFault> {
        let from = self.at;
        let rest = &self.text[from..];
        for (mark, what) in [
            ("---", "this is no YAML that Knot reads: documents"),
            ("{", "this is no YAML that Knot reads: maps in braces"),
            ("&", "this is no YAML that Knot reads: anchors"),
            ("*", "this is no YAML that Knot reads: anchors"),
            ("%", "this is no YAML that Knot reads: directives"),
        ] {
            if rest.starts_with(mark) {
                return self.fault(from, SyntaxFaultKind::Yaml(what));
            }
        }
        let dash = rest.starts_with('-') && rest[1..].starts_with([' ', '\t', '\n', '\r']);
        if dash {
            self.at += 1;
            if self.blanks() {
                return self.fault(from, SyntaxFaultKind::NoValue("-".into()));
            }
        }
        let key = self.word(true)?;
        let has_colon = !key.quoted && self.text[self.at..].starts_with(':');
        let mut values = Vec::new();
        if has_colon {
            self.at += 1;
            if !self.blanks() {
                values = self.values()?;
            }
        }
        if !self.blanks() {
            return self
                .fault(self.at, SyntaxFaultKind::Yaml("there is more on the line than a key and its value"));
        }
        Ok(Line { indent, dash, key, has_colon, values })
    }

    /// Parses one value, or a list in brackets, which may span lines.
    fn values(&mut self) -> Result<Vec<SourceWord>, SyntaxFault> {
        let from = self.at;
        if !self.text[from..].starts_with('[') {
            return Ok(vec![self.word(false)?]);
        }
        self.at += 1;
        let mut out = Vec::new();
        loop {
            while self.blanks() {
                if self.at >= self.text.len() {
                    return self.fault(from, SyntaxFaultKind::OpenBlock);
                }
                self.at += 1;
            }
            match self.text[self.at..].chars().next() {
                Some(']') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(',') => self.at += 1,
                _ => out.push(self.word(false)?),
            }
        }
    }

    /// Parses a word or a string. A key ends at its colon; an address in a value may contain colons.
    fn word(&mut self, key: bool) -> Result<SourceWord, SyntaxFault> {
        let from = self.at;
        let rest = &self.text[from..];
        if let Some(quote) = rest.chars().next().filter(|c| *c == '"' || *c == '\'') {
            let (mut text, mut escaped) = (String::new(), false);
            for (at, c) in rest.char_indices().skip(1) {
                match c {
                    '\n' => break,
                    _ if escaped => {
                        text.push(c);
                        escaped = false;
                    }
                    '\\' if quote == '"' => escaped = true,
                    c if c == quote => {
                        self.at = from + at + 1;
                        let span = SourceSpan { text: self.number, range: from..self.at };
                        return Ok(SourceWord { text, quoted: true, span });
                    }
                    c => text.push(c),
                }
            }
            return self.fault(from, SyntaxFaultKind::OpenString);
        }
        let ends = |c: char| c.is_whitespace() || ",[]".contains(c);
        let mut end = rest.find(ends).unwrap_or(rest.len());
        if key && let Some(colon) = rest[..end].strip_suffix(':') {
            end = colon.len();
        } else if key && let Some(colon) = rest[..end].find(':').filter(|_| !rest[..end].contains('@')) {
            // `key:value` without white space.
            end = colon;
        }
        if end == 0 {
            return self.fault(from, SyntaxFaultKind::NoKeyword);
        }
        self.at = from + end;
        let span = SourceSpan { text: self.number, range: from..self.at };
        Ok(SourceWord { text: rest[..end].into(), quoted: false, span })
    }

    /// Adds an indented line to its section.
    fn add(
        &mut self,
        texts: &mut Texts<'_>,
        line: Line,
        section: &mut Vec<Statement>,
    ) -> Result<(), SyntaxFault> {
        if !line.has_colon {
            // A list member on a line of its own.
            let in_item =
                section.last().is_some_and(|last| matches!(last.parts.last(), Some(Part::Block(_))));
            let entry = match (section.last_mut(), in_item) {
                (Some(Statement { parts, .. }), true) => match parts.last_mut() {
                    Some(Part::Block(entries)) => entries.last_mut(),
                    _ => None,
                },
                (last, _) => last,
            };
            return match entry.filter(|_| line.dash) {
                Some(entry) => {
                    entry.parts.push(Part::Word(line.key));
                    Ok(())
                }
                None => self.fault(line.key.span.range.start, SyntaxFaultKind::NoValue(line.key.text)),
            };
        }
        let number = self.number;
        if line.dash {
            if *self.item.get_or_insert(line.indent) != line.indent {
                return self.fault(line.key.span.range.start, SyntaxFaultKind::Indentation);
            }
            self.entry = None;
            let first = statement(texts, number, &line);
            let mut item = Statement { id: texts.number(), ..first.clone() };
            item.parts.push(Part::Block(vec![first]));
            section.push(item);
            return Ok(());
        }
        let wanted = *self.entry.get_or_insert(line.indent);
        if wanted != line.indent || self.item.is_some_and(|item| line.indent <= item) {
            return self.fault(line.key.span.range.start, SyntaxFaultKind::Indentation);
        }
        let entry = statement(texts, number, &line);
        match section.last_mut().filter(|_| self.item.is_some()).and_then(|item| item.parts.last_mut()) {
            Some(Part::Block(entries)) => entries.push(entry),
            _ => section.push(entry),
        }
        Ok(())
    }
}
