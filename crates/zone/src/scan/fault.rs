//! Faults of a zone file, their places, and how they are shown.

use std::fmt;
use std::sync::Arc;
use wire::name::{NameBuf, NameTextError};
use wire::rdata::TextFaultKind;
use wire::rr::Type;

/// The severity of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The record is accepted, or left out on purpose; the zone can be served.
    Warning,
    /// The record cannot be accepted; the zone must not be served.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// The kinds of faults; [`Fault::message`] has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The file cannot be opened or read.
    CannotRead,
    /// A byte of value zero, which does not occur in text.
    NulByte,
    /// A quoted string that does not end on its line.
    UnclosedQuote,
    /// A quotation mark inside text: a string without blanks between it and its neighbours.
    StrayQuote,
    /// `(` without its `)`.
    UnclosedParenthesis,
    /// `)` without its `(`.
    UnmatchedParenthesis,
    /// The text of one entry is longer than [`Limits::entry_text`](super::Limits::entry_text).
    EntryTooLong,
    /// The files have more bytes than [`Limits::text`](super::Limits::text).
    TextTooLong,
    /// No line ends within the limit of an entry: this is no zone file, and the scan stops.
    NoText,
    /// A line that begins with a blank, without an owner before it (RFC 1035 §5.1).
    NoPreviousOwner,
    /// Quotes around an owner, a TTL, a class, a type or a directive.
    QuotedField,
    /// The owner is not a domain name.
    BadOwner(NameTextError),
    /// A TTL that is not a number, with or without units, below 2^32 seconds.
    BadTtl,
    /// A second TTL in one record.
    RepeatedTtl,
    /// A second class in one record.
    RepeatedClass,
    /// A class that is not the zone's.
    WrongClass,
    /// Neither a record type, nor a TTL or class.
    UnknownType,
    /// The record ends before its type.
    MissingType,
    /// A type that no zone can hold (RFC 6895 §3.1).
    MetaType,
    /// No TTL is given, and there is none to inherit (RFC 2308 §4).
    NoTtl,
    /// The record data is not what the type requires.
    Rdata(TextFaultKind),
    /// A word that begins with `$` but is not a directive.
    UnknownDirective,
    /// A directive that lacks an argument.
    MissingArgument,
    /// A directive with too many arguments.
    ExtraArgument,
    /// The name after `$ORIGIN` or `$INCLUDE` is not a domain name.
    BadOrigin(NameTextError),
    /// `$INCLUDE` in a source that does not allow it.
    IncludeForbidden,
    /// Files that include files, deeper than [`Limits::include_depth`](super::Limits::include_depth).
    IncludeTooDeep,
    /// More files than [`Limits::includes`](super::Limits::includes).
    TooManyIncludes,
    /// The range of `$GENERATE` is not `start-stop` or `start-stop/step`.
    BadRange,
    /// `${…}` that is not `${offset,width,base}`.
    BadModifier,
    /// `$GENERATE` directives yield more records than [`Limits::generated`](super::Limits::generated) in all.
    TooManyGenerated,
    /// The [`Sink`](super::Sink) rejected the record.
    Rejected,
    /// A [`Remark`](super::Remark) of the [`Sink`](super::Sink) about the record.
    Remarked,
    /// Warning: there is no other TTL, so the first one is the SOA record's MINIMUM.
    TtlFromSoa,
    /// Warning: there is no `$TTL`, so the TTL is that of the record before (RFC 1035 §5.1).
    TtlFromPrevious,
    /// Warning: an origin ends in the zone's name twice.
    OriginTwice,
    /// Warning: a `;` directly after a word of a TXT record begins a comment.
    CutByComment,
    /// Warning: a TTL of 2^31 seconds or more counts as 0 (RFC 2181 §8).
    TtlTooLarge,
}

/// A fault with its place.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The severity.
    pub severity: Severity,
    /// The file, as it was named.
    pub file: Arc<str>,
    /// Line, from 1; 0 if the fault is about the whole file.
    pub line: u32,
    /// Column in bytes, from 1; 0 if the fault is about the whole line.
    pub column: u32,
    /// The details: one line, in lower case, without a final full stop.
    pub message: String,
    /// A hint: what to write instead, which file included this one.
    pub note: Option<String>,
    /// The line with the fault, or the part of it around the fault.
    pub excerpt: Option<Excerpt>,
    /// The owner and type of the faulty records, if the fault was found when the zone was built.
    pub about: Option<Box<(NameBuf, Type)>>,
}

impl fmt::Display for Fault {
    /// One line: `zones/example.zone:12:17: error: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for place in [self.line, self.column] {
            if place == 0 {
                break;
            }
            write!(f, ":{place}")?;
        }
        write!(f, ": {}: {}", self.severity, self.message)
    }
}
impl std::error::Error for Fault {}

impl Fault {
    /// Returns several lines: the one line of [`fmt::Display`], the source line with a caret, the note.
    pub fn pretty(&self) -> impl fmt::Display + '_ {
        Pretty(self)
    }
}

struct Pretty<'a>(&'a Fault);

impl fmt::Display for Pretty<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = self.0;
        write!(f, "{fault}")?;
        let number = fault.line.to_string();
        let gutter = number.len();
        if let Some(Excerpt { text, from, width }) = &fault.excerpt {
            let carets = "^".repeat(*width);
            write!(f, "\n{:gutter$} |\n{number} | {text}\n{:gutter$} | {:from$}{carets}", "", "", "")?;
        }
        if let Some(note) = &fault.note {
            write!(f, "\n{:gutter$} = {note}", "")?;
        }
        Ok(())
    }
}

/// A part of a source line, made printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The text, one line.
    pub text: String,
    /// Start of the fault, in characters from the start of `text`.
    pub from: usize,
    /// Length of the fault in characters, at least 1.
    pub width: usize,
}

/// Most bytes of a line that an excerpt shows on either side of the fault's first byte.
const CONTEXT: usize = 60;

impl Excerpt {
    /// Returns the part of `line` around the fault of `length` bytes at byte `at`.
    pub(super) fn new(line: &[u8], at: usize, length: usize) -> Self {
        let at = at.min(line.len());
        let start = if at > 2 * CONTEXT { at - CONTEXT } else { 0 };
        let end = line.len().min(at + 2 * CONTEXT);
        let fault_end = end.min(at + length.max(1));
        let mut text = String::new();
        let mut push = |bytes: &[u8]| {
            let lossy = String::from_utf8_lossy(bytes);
            let printable = lossy.chars().map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => '\u{fffd}',
                c => c,
            });
            let before = text.chars().count();
            text.extend(printable);
            text.chars().count() - before
        };
        if start > 0 {
            push("… ".as_bytes());
        }
        push(&line[start..at]);
        let width = push(&line[at..fault_end]).max(1);
        push(&line[fault_end..end]);
        if end < line.len() {
            push(" …".as_bytes());
        }
        let from = if start > 0 { 2 } else { 0 } + String::from_utf8_lossy(&line[start..at]).chars().count();
        Excerpt { text: text.trim_end().to_owned(), from, width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Fault {
        Fault {
            kind: FaultKind::UnknownType,
            severity: Severity::Error,
            file: "zones/example.zone".into(),
            line: 12,
            column: 17,
            message: "unknown record type `AAA`".into(),
            note: Some("included from zones/main.zone:3".into()),
            excerpt: Some(Excerpt::new(b"www\t3600 IN AAA 192.0.2.1", 12, 3)),
            about: None,
        }
    }

    #[test]
    fn one_line_names_the_place() {
        assert_eq!(fault().to_string(), "zones/example.zone:12:17: error: unknown record type `AAA`");
        let whole = Fault { line: 0, column: 0, ..fault() };
        assert_eq!(whole.to_string(), "zones/example.zone: error: unknown record type `AAA`");
    }

    #[test]
    fn pretty_points_at_the_word() {
        let want = "zones/example.zone:12:17: error: unknown record type `AAA`\n   |\n\
            12 | www 3600 IN AAA 192.0.2.1\n   |             ^^^\n   = included from zones/main.zone:3";
        assert_eq!(fault().pretty().to_string(), want);
    }

    #[test]
    fn long_lines_and_odd_bytes_are_cut_to_size() {
        let line = [b"a".repeat(500), b"\xffX\x1bY".to_vec(), b"b".repeat(500)].concat();
        let excerpt = Excerpt::new(&line, 501, 1);
        assert!(excerpt.text.chars().count() < 200);
        assert_eq!(excerpt.text.chars().nth(excerpt.from), Some('X'));
        assert!(!excerpt.text.contains('\x1b'));
        assert_eq!(Excerpt::new(b"ab", 7, 0), Excerpt { text: "ab".into(), from: 2, width: 1 });
    }
}
