//! The texts a configuration is made of, places in them, and what can be wrong with them.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::files::Files;

/// Largest text that is read, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Most texts of one configuration.
const MAX_TEXTS: usize = 10_000;

/// One text that was read.
#[derive(Debug, Clone)]
pub struct SourceText {
    /// Where it came from, as its includer names it.
    pub path: PathBuf,
    /// The text. Bytes that are not UTF-8 stand as U+FFFD.
    pub text: String,
}

/// A stretch of one text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSpan {
    /// Number of the text.
    pub text: usize,
    /// Byte range within it.
    pub range: Range<usize>,
}

/// Why a configuration cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxFault {
    /// Where; none if no text is there to point into.
    pub span: Option<SourceSpan>,
    /// What is wrong.
    pub kind: SyntaxFaultKind,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyntaxFaultKind {
    /// It cannot be read, for this reason.
    CannotRead(PathBuf, std::io::ErrorKind),
    /// It has more bytes than are read.
    TooLarge(PathBuf),
    /// More texts include each other than are read.
    TooManyTexts,
    /// It includes itself.
    IncludesItself(PathBuf),
    /// Blocks stand within each other deeper than anybody writes.
    TooDeep,
    /// A quoted string does not end.
    OpenString,
    /// A comment does not end.
    OpenComment,
    /// A block does not end.
    OpenBlock,
    /// A `}` without its `{`.
    StrayBrace,
    /// A statement does not end with `;`.
    NoSemicolon,
    /// A statement begins with something else than a word.
    NoKeyword,
    /// A keyword lacks its value.
    NoValue(String),
    /// This statement stands in no section.
    NoSection(String),
    /// The indentation fits nothing above.
    Indentation,
    /// This part of YAML is not read.
    Yaml(&'static str),
    /// Nothing shows whose configuration it is.
    UnknownKind,
}

impl SyntaxFaultKind {
    /// Whether the text is not to blame, but a file that cannot be read.
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
            Self::UnknownKind => {
                f.write_str("nothing in it shows whose configuration this is; name the program with --from")
            }
        }
    }
}

/// The texts read so far, and how many statements they had.
pub(crate) struct Texts<'f> {
    pub(crate) files: &'f dyn Files,
    pub(crate) all: Vec<SourceText>,
    /// Texts that are being read, from the first to the one within it.
    open: Vec<PathBuf>,
    statements: usize,
}

impl<'f> Texts<'f> {
    pub(crate) fn new(files: &'f dyn Files) -> Self {
        Self { files, all: Vec::new(), open: Vec::new(), statements: 0 }
    }

    /// Reads a text and returns its number; `span` is where it is named. [`Texts::close`] follows.
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

    /// The text that was opened last has been read.
    pub(crate) fn close(&mut self) {
        self.open.pop();
    }

    /// How many texts include each other at the moment.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// A number for one more statement.
    pub(crate) fn number(&mut self) -> usize {
        self.statements += 1;
        self.statements - 1
    }

    /// A copy of a text, to be read while other texts are opened.
    pub(crate) fn text(&self, number: usize) -> String {
        self.all.get(number).map(|text| text.text.clone()).unwrap_or_default()
    }
}
