//! The syntax of unbound.conf and nsd.conf: `section:`, and any number of `key: value` on a line.

use std::path::{Path, PathBuf};

use crate::files::{expand, is_pattern, join};
use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Most nested includes.
const MAX_DEPTH: usize = 50;

/// The parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// A statement for each section, with its keys in a block.
    pub(crate) sections: Vec<Statement>,
    /// Every `include`.
    pub(crate) includes: Vec<Statement>,
}

/// Parses a file with all its includes; `sections` are the keywords that begin a section.
pub(crate) fn parse(texts: &mut Texts<'_>, path: &Path, sections: &[&str]) -> Result<Parsed, SyntaxFault> {
    let mut out = Parsed::default();
    let mut base = path.parent().unwrap_or(Path::new("")).to_owned();
    file(texts, path, None, sections, &mut base, &mut out)?;
    Ok(out)
}

fn file(
    texts: &mut Texts<'_>,
    path: &Path,
    named: Option<&SourceSpan>,
    sections: &[&str],
    base: &mut PathBuf,
    out: &mut Parsed,
) -> Result<(), SyntaxFault> {
    if texts.depth() > MAX_DEPTH {
        return Err(SyntaxFault { span: named.cloned(), kind: SyntaxFaultKind::TooDeep });
    }
    let number = texts.open(path, named)?;
    let text = texts.text(number);
    let words = words(&text, number)?;
    let mut at = 0;
    while let Some(first) = words.get(at) {
        let Some(key) = keyword(&first.word) else {
            let span = Some(first.word.span.clone());
            return Err(SyntaxFault { span, kind: SyntaxFaultKind::NoKeyword });
        };
        // Values are on the keyword's line; the first one may also be on the next line.
        let mut end = at + 1;
        while words
            .get(end)
            .is_some_and(|next| keyword(&next.word).is_none() && (next.line == first.line || end == at + 1))
        {
            end += 1;
        }
        let head = SourceWord { text: key.to_owned(), ..first.word.clone() };
        let values = words[at + 1..end].iter().map(|word| word.word.clone());
        let parts: Vec<Part> = std::iter::once(head).chain(values).map(Part::Word).collect();
        let last = words[end - 1].word.span.range.end;
        let range = first.word.span.range.start..last;
        let span = SourceSpan { text: number, range };
        let statement = Statement { id: texts.number(), parts, span };
        at = end;
        add(texts, statement, sections, base, out)?;
    }
    texts.close();
    Ok(())
}

fn add(
    texts: &mut Texts<'_>,
    mut statement: Statement,
    sections: &[&str],
    base: &mut PathBuf,
    out: &mut Parsed,
) -> Result<(), SyntaxFault> {
    let fault = |kind| Err(SyntaxFault { span: Some(statement.span.clone()), kind });
    let key = statement.key().to_owned();
    // In nsd.conf `zone:` begins a section, but is not a key in a pattern; a section has no value.
    if statement.parts.len() == 1 {
        if !sections.contains(&key.as_str()) {
            return fault(SyntaxFaultKind::NoValue(key));
        }
        statement.parts.push(Part::Block(Vec::new()));
        out.sections.push(statement);
        return Ok(());
    }
    if key == "include" || key == "include-toplevel" {
        let path = join(base, statement.value());
        let paths = match is_pattern(statement.value()) {
            true => expand(texts.files, &path),
            false => vec![path],
        };
        for path in paths {
            file(texts, &path, Some(&statement.span), sections, base, out)?;
        }
        out.includes.push(statement);
        return Ok(());
    }
    if key == "directory" && !statement.value().is_empty() {
        *base = join(base, statement.value());
    }
    match out.sections.last_mut().and_then(|section| section.parts.last_mut()) {
        Some(Part::Block(block)) => block.push(statement),
        _ => return fault(SyntaxFaultKind::NoSection(key)),
    }
    Ok(())
}

/// The keyword in a word, without its colon.
fn keyword(word: &SourceWord) -> Option<&str> {
    let key = word.text.strip_suffix(':').filter(|_| !word.quoted)?;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.bytes().all(good)).then_some(key)
}

struct Placed {
    word: SourceWord,
    line: usize,
}

fn words(text: &str, number: usize) -> Result<Vec<Placed>, SyntaxFault> {
    let mut out: Vec<Placed> = Vec::new();
    let (mut at, mut line) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let from = at;
        match c {
            '\n' => {
                line += 1;
                at += 1;
            }
            c if c.is_whitespace() => at += c.len_utf8(),
            '#' => at += rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => {
                let Some(end) = rest[1..].find([c, '\n']).filter(|end| rest[1 + end..].starts_with(c)) else {
                    let span = Some(SourceSpan { text: number, range: at..at + 1 });
                    return Err(SyntaxFault { span, kind: SyntaxFaultKind::OpenString });
                };
                at += end + 2;
                let span = SourceSpan { text: number, range: from..at };
                out.push(Placed {
                    word: SourceWord { text: rest[1..=end].into(), quoted: true, span },
                    line,
                });
            }
            _ => {
                let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
                // `key:value` without white space.
                let colon = rest[..end].find(':').map(|colon| colon + 1).filter(|colon| {
                    let span = SourceSpan { text: number, range: 0..0 };
                    let first = out.last().is_none_or(|last| last.line < line);
                    first
                        && keyword(&SourceWord { text: rest[..*colon].into(), quoted: false, span }).is_some()
                });
                at += colon.unwrap_or(end);
                let span = SourceSpan { text: number, range: from..at };
                out.push(Placed {
                    word: SourceWord { text: text[from..at].into(), quoted: false, span },
                    line,
                });
            }
        }
    }
    Ok(out)
}
