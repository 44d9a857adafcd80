//! The texts of a configuration, positions in them, and their faults.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::files::Files;

/// Largest text that is read, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Most texts of one configuration.
const MAX_TEXTS: usize = 10_000;

/// A text that was read.
#[derive(Debug, Clone)]
pub struct SourceText {
    /// Its path, as in the statement that includes it.
    pub path: PathBuf,
    /// The text, with U+FFFD for bytes that are not UTF-8.
    pub text: String,
}

/// A byte range of one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    /// Number of the text.
    pub text: usize,
    /// Byte range within it.
    pub range: Range<usize>,
}

/// Why a configuration cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The place; `None` if there is no text.
    pub span: Option<SourceSpan>,
    /// What is wrong.
    pub kind: SyntaxFaultKind,
}

/// The kind of a [`SyntaxFault`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyntaxFaultKind {
    /// The file cannot be read, for this reason.
    CannotRead(PathBuf, std::io::ErrorKind),
    /// The file exceeds the size limit.
    TooLarge(PathBuf),
    /// The configuration has too many texts.
    TooManyTexts,
    /// The file includes itself.
    IncludesItself(PathBuf),
    /// Blocks are nested too deeply.
    TooDeep,
    /// A quoted string is not closed.
    OpenString,
    /// A comment is not closed.
    OpenComment,
    /// A block is not closed.
    OpenBlock,
    /// A `}` without its `{`.
    StrayBrace,
    /// A statement does not end with `;`.
    NoSemicolon,
    /// A statement does not begin with a word.
    NoKeyword,
    /// A keyword lacks its value.
    NoValue(String),
    /// The statement is outside all sections.
    NoSection(String),
    /// The indentation matches no previous line.
    Indentation,
    /// This YAML construct is not supported.
    Yaml(&'static str),
    /// The document (YAML or TOML) is not well-formed, for this reason.
    Document(String),
    /// The program cannot be recognised.
    UnknownKind,
}

impl SyntaxFaultKind {
    /// Whether the fault is that a file cannot be read, not the text itself.
    pub fn is_outside(&self) -> bool {
        matches!(self, Self::CannotRead(..))
    }
}

impl fmt::Display for SyntaxFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotRead(path, kind) => {
                let why = match kind {
                    std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
                    kind => kind.to_string(),
                };
                write!(f, "cannot read {}: {why}", path.display())
            }
            Self::TooLarge(path) => write!(f, "{} is too large to be a configuration", path.display()),
            Self::TooManyTexts => write!(f, "more than {MAX_TEXTS} files are included"),
            Self::IncludesItself(path) => write!(f, "{} includes itself", path.display()),
            Self::TooDeep => f.write_str("blocks stand too deep within each other"),
            Self::OpenString => f.write_str("the string that begins here does not end"),
            Self::OpenComment => f.write_str("the comment that begins here does not end"),
            Self::OpenBlock => f.write_str("the block that begins here is not closed"),
            Self::StrayBrace => f.write_str("there is no block that this closes"),
            Self::NoSemicolon => f.write_str("a `;` is missing behind this"),
            Self::NoKeyword => f.write_str("a statement begins with a word, not with this"),
            Self::NoValue(key) => write!(f, "`{key}` has no value"),
            Self::NoSection(key) => write!(f, "`{key}` stands in no section"),
            Self::Indentation => f.write_str("the indentation fits no line above"),
            Self::Yaml(what) => f.write_str(what),
            Self::Document(why) => f.write_str(why),
            Self::UnknownKind => {
                f.write_str("nothing in it shows whose configuration this is; name the program with --from")
            }
        }
    }
}

/// The texts read so far, and their number of statements.
pub(crate) struct Texts<'f> {
    pub(crate) files: &'f dyn Files,
    pub(crate) all: Vec<SourceText>,
    /// Paths of the texts being read, outermost first.
    open: Vec<PathBuf>,
    statements: usize,
}

impl<'f> Texts<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, all: Vec::new(), open: Vec::new(), statements: 0 }
    }

    /// Reads a text and returns its number; `span` is the place that names it. The caller then calls
    /// [`Texts::close`].
    pub(crate) fn open(&mut self, path: &Path, span: Option<&SourceSpan>) -> Result<usize, SyntaxFault> {
        let fault = |kind| SyntaxFault { span: span.cloned(), kind };
        if self.open.iter().any(|open| open == path) {
            return Err(fault(SyntaxFaultKind::IncludesItself(path.to_owned())));
        }
        if self.all.len() >= MAX_TEXTS {
            return Err(fault(SyntaxFaultKind::TooManyTexts));
        }
        let bytes = self
            .files
            .read(path)
            .map_err(|e| fault(SyntaxFaultKind::CannotRead(path.to_owned(), e.kind())))?;
        if bytes.len() > MAX_TEXT {
            return Err(fault(SyntaxFaultKind::TooLarge(path.to_owned())));
        }
        let text = String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into());
        self.open.push(path.to_owned());
        self.all.push(SourceText { path: path.to_owned(), text });
        Ok(self.all.len() - 1)
    }

    /// Ends the text opened last.
    pub(crate) fn close(&mut self) {
        self.open.pop();
    }

    /// The current nesting depth of includes.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns a number for a new statement.
    pub(crate) fn number(&mut self) -> usize {
        self.statements += 1;
        self.statements - 1
    }

    /// A copy of a text, so that other texts can be opened while it is read.
    pub(crate) fn text(&self, number: usize) -> String {
        self.all.get(number).map(|text| text.text.clone()).unwrap_or_default()
    }
}
