//! The syntax of named.conf: statements that end with `;`, blocks in braces, three kinds of comments.

use std::path::{Path, PathBuf};

use crate::files::{expand, is_pattern, join};
use crate::text::{SourceSpan, SyntaxFault, SyntaxFaultKind, Texts};
use crate::tree::{Part, SourceWord, Statement};

/// Most nested blocks and includes.
const MAX_DEPTH: usize = 50;

/// The parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// All statements; those of an included file are at the place of its `include`.
    pub(crate) statements: Vec<Statement>,
    /// Every `include`.
    pub(crate) includes: Vec<Statement>,
    /// The folder for relative paths, at the end of the file.
    pub(crate) directory: Option<PathBuf>,
}

/// Parses a named.conf with all its includes. Relative paths start at `base` until `directory` changes that.
pub(crate) fn parse(texts: &mut Texts<'_>, path: &Path, base: &Path) -> Result<Parsed, SyntaxFault> {
    let mut out = Parsed { directory: Some(base.to_owned()), ..Parsed::default() };
    out.statements = file(texts, path, None, &mut out.includes, &mut out.directory)?;
    Ok(out)
}

fn file(
    texts: &mut Texts<'_>,
    path: &Path,
    named: Option<&SourceSpan>,
    includes: &mut Vec<Statement>,
    directory: &mut Option<PathBuf>,
) -> Result<Vec<Statement>, SyntaxFault> {
    let number = texts.open(path, named)?;
    let text = texts.text(number);
    let mut reader = Reader { text: &text, number, at: 0, texts, includes, directory };
    let found = reader.statements(None, 0);
    texts.close();
    found
}

#[derive(Debug, PartialEq)]
enum Lexeme {
    Word(SourceWord),
    Open(SourceSpan),
    Close(SourceSpan),
    End(SourceSpan),
}

struct Reader<'r, 'f> {
    text: &'r str,
    number: usize,
    at: usize,
    texts: &'r mut Texts<'f>,
    includes: &'r mut Vec<Statement>,
    directory: &'r mut Option<PathBuf>,
}

impl Reader<'_, '_> {
    fn span(&self, from: usize) -> SourceSpan {
        SourceSpan { text: self.number, range: from..self.at }
    }

    fn fault<T>(&self, span: SourceSpan, kind: SyntaxFaultKind) -> Result<T, SyntaxFault> {
        Err(SyntaxFault { span: Some(span), kind })
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), SyntaxFault> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start().len();
            let rest = &self.text[self.at..];
            if rest.starts_with('#') || rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                let Some(end) = rest.find("*/") else {
                    let span = SourceSpan { text: self.number, range: self.at..self.at + 2 };
                    return self.fault(span, SyntaxFaultKind::OpenComment);
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Lexeme>, SyntaxFault> {
        self.skip()?;
        let from = self.at;
        let Some(first) = self.text[from..].chars().next() else { return Ok(None) };
        self.at += first.len_utf8();
        Ok(Some(match first {
            '{' => Lexeme::Open(self.span(from)),
            '}' => Lexeme::Close(self.span(from)),
            ';' => Lexeme::End(self.span(from)),
            '"' => Lexeme::Word(self.string(from)?),
            '!' => Lexeme::Word(self.word(from, "!".to_owned())),
            _ => {
                let rest = &self.text[from..];
                let end = rest.find(|c: char| c.is_whitespace() || "{};\"".contains(c));
                self.at = from + end.unwrap_or(rest.len());
                self.word(from, self.text[from..self.at].to_owned()).into()
            }
        }))
    }

    fn word(&self, from: usize, text: String) -> SourceWord {
        SourceWord { text, quoted: false, span: self.span(from) }
    }

    fn string(&mut self, from: usize) -> Result<SourceWord, SyntaxFault> {
        let (mut text, mut escaped) = (String::new(), false);
        for c in self.text[self.at..].chars() {
            self.at += c.len_utf8();
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => return Ok(SourceWord { text, quoted: true, span: self.span(from) }),
                c => text.push(c),
            }
        }
        let span = SourceSpan { text: self.number, range: from..from + 1 };
        self.fault(span, SyntaxFaultKind::OpenString)
    }

    /// Parses statements up to the closing brace of the block, or the end of the file.
    fn statements(&mut self, open: Option<SourceSpan>, depth: usize) -> Result<Vec<Statement>, SyntaxFault> {
        if depth + self.texts.depth() > MAX_DEPTH {
            let span = open.unwrap_or(SourceSpan { text: self.number, range: 0..0 });
            return self.fault(span, SyntaxFaultKind::TooDeep);
        }
        let (mut all, mut parts): (Vec<Statement>, Vec<Part>) = (Vec::new(), Vec::new());
        let mut from = None;
        loop {
            let lexeme = self.next()?;
            match lexeme {
                Some(Lexeme::Word(word)) => {
                    from.get_or_insert(word.span.range.start);
                    parts.push(Part::Word(word));
                }
                Some(Lexeme::Open(span)) => {
                    from.get_or_insert(span.range.start);
                    parts.push(Part::Block(self.statements(Some(span), depth + 1)?));
                }
                Some(Lexeme::End(_)) => {
                    // An empty statement is skipped.
                    if let Some(from) = from.take() {
                        let parts = std::mem::take(&mut parts);
                        self.finish(from, parts, depth, &mut all)?;
                    }
                }
                Some(Lexeme::Close(span)) => match (&open, from) {
                    (None, _) => return self.fault(span, SyntaxFaultKind::StrayBrace),
                    (Some(_), Some(from)) => return self.unfinished(from, &parts),
                    (Some(_), None) => return Ok(all),
                },
                None => match (open, from) {
                    (Some(open), _) => return self.fault(open, SyntaxFaultKind::OpenBlock),
                    (None, Some(from)) => return self.unfinished(from, &parts),
                    (None, None) => return Ok(all),
                },
            }
        }
    }

    /// Reports a statement without an end, after its last word, or at its beginning if it ends with a block.
    fn unfinished<T>(&self, from: usize, parts: &[Part]) -> Result<T, SyntaxFault> {
        let span = match (parts.last(), parts.first()) {
            (Some(Part::Word(word)), _) | (_, Some(Part::Word(word))) => word.span.clone(),
            _ => SourceSpan { text: self.number, range: from..from + 1 },
        };
        self.fault(span, SyntaxFaultKind::NoSemicolon)
    }

    fn finish(
        &mut self,
        from: usize,
        parts: Vec<Part>,
        depth: usize,
        all: &mut Vec<Statement>,
    ) -> Result<(), SyntaxFault> {
        // The span covers the beginning; statements in blocks have their own.
        let words = parts.iter().map_while(|part| match part {
            Part::Word(word) => Some(word.span.range.end),
            Part::Block(_) => None,
        });
        let span = SourceSpan { text: self.number, range: from..words.last().unwrap_or(from + 1) };
        let statement = Statement { id: self.texts.number(), parts, span };
        match (statement.key(), statement.parts.len()) {
            ("include", 2) if !statement.value().is_empty() => {
                self.include(&statement, all)?;
                self.includes.push(statement);
                return Ok(());
            }
            // BIND changes the folder immediately, which affects later paths.
            ("directory", 2) if depth == 1 => {
                let base = self.directory.clone().unwrap_or_default();
                *self.directory = Some(join(&base, statement.value()));
            }
            _ => {}
        }
        all.push(statement);
        Ok(())
    }

    fn include(&mut self, statement: &Statement, all: &mut Vec<Statement>) -> Result<(), SyntaxFault> {
        let path = join(&self.directory.clone().unwrap_or_default(), statement.value());
        let paths = match is_pattern(statement.value()) {
            true => expand(self.texts.files, &path),
            false => vec![path],
        };
        for path in paths {
            all.extend(file(self.texts, &path, Some(&statement.span), self.includes, self.directory)?);
        }
        Ok(())
    }
}

impl From<SourceWord> for Lexeme {
    fn from(word: SourceWord) -> Self {
        Self::Word(word)
    }
}
