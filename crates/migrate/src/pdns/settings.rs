//! The syntax of pdns.conf and of the old recursor.conf: `name=value`, `name+=value`, and lines continued
//! after a backslash.

use std::path::Path;

use crate::files::join;
use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Parses a file and those of its `include-dir`.
pub(crate) fn parse(texts: &mut Texts<'_>, path: &Path) -> Result<Vec<Statement>, SyntaxFault> {
    let mut all = file(texts, path, None)?;
    let folders: Vec<Statement> =
        all.iter().filter(|statement| statement.key() == "include-dir").cloned().collect();
    for folder in folders.iter().filter(|folder| !folder.value().is_empty()) {
        let path = join(path.parent().unwrap_or(Path::new("")), folder.value());
        let names = texts.files.names(&path).map_err(|e| SyntaxFault {
            span: Some(folder.span.clone()),
            kind: SyntaxFaultKind::CannotRead(path.clone(), e.kind()),
        });
        let mut names: Vec<String> =
            names?.into_iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.')).collect();
        names.sort();
        for name in names {
            all.extend(file(texts, &path.join(name), Some(&folder.span))?);
        }
    }
    Ok(all)
}

fn file(
    texts: &mut Texts<'_>,
    path: &Path,
    named: Option<&SourceSpan>,
) -> Result<Vec<Statement>, SyntaxFault> {
    let number = texts.open(path, named)?;
    let text = texts.text(number);
    let mut all = Vec::new();
    let mut at = 0;
    while at < text.len() {
        // A line with its continuation lines.
        let from = at;
        loop {
            let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
            let goes_on = text[at..end].trim_end().ends_with('\\');
            at = (end + 1).min(text.len());
            if !goes_on || at >= text.len() {
                break;
            }
        }
        all.extend(statement(texts, number, &text, from, at)?);
    }
    texts.close();
    Ok(all)
}

fn statement(
    texts: &mut Texts<'_>,
    number: usize,
    text: &str,
    from: usize,
    end: usize,
) -> Result<Option<Statement>, SyntaxFault> {
    let line = text[from..end].trim_end();
    let start = from + (line.len() - line.trim_start().len());
    let line = line.trim_start();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let span = |from: usize, len: usize| SourceSpan { text: number, range: from..from + len };
    let Some(equals) = line.find('=') else {
        let kind = SyntaxFaultKind::NoValue(line.split_whitespace().next().unwrap_or_default().to_owned());
        return Err(SyntaxFault { span: Some(span(start, line.len())), kind });
    };
    // `+=` extends the previous value; here lists always do.
    let key = line[..equals].trim_end_matches('+').trim_end();
    if key.is_empty() {
        return Err(SyntaxFault { span: Some(span(start, 1)), kind: SyntaxFaultKind::NoKeyword });
    }
    let raw = &line[equals + 1..];
    // A comment begins after a space.
    let raw = raw.find(" #").map_or(raw, |at| &raw[..at]);
    let value = raw.replace("\\\n", " ").replace("\\\r\n", " ");
    let key = SourceWord { text: key.to_owned(), quoted: false, span: span(start, key.len()) };
    let value = SourceWord {
        text: value.trim().to_owned(),
        quoted: false,
        span: span(start + equals + 1, raw.len()),
    };
    let parts = vec![Part::Word(key), Part::Word(value)];
    let first_line = line.lines().next().unwrap_or_default().trim_end().len();
    Ok(Some(Statement { id: texts.number(), parts, span: span(start, first_line) }))
}

/// The members of a list, separated by commas, semicolons or white space.
pub(crate) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|word| !word.is_empty())
}
