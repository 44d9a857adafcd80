//! Patterns of names: wildcard patterns and regular expressions.
//!
//! A pattern is matched against the *text* of a name: its labels in lower case with dots between them, and no
//! dot at the end. A dot within a label is the byte 0xff there, so that no pattern takes it for a separator.

use std::borrow::Cow;
use std::fmt;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use wire::LowerName;

use crate::regexes::{self, RegexSet};
use crate::rule::RuleReach;

/// Most bytes of the automaton of one regular expression.
const MAX_REGEX: usize = 1 << 20;
/// Bytes that all patterns of all lists may take.
pub const MAX_PATTERN_BYTES: usize = 64 << 20;
/// Deepest nesting of a regular expression.
const MAX_NESTING: u32 = 50;
/// Most bytes of the text of a name.
const MAX_TEXT: usize = 253;
/// Shorter patterns cover nearly every name.
const MIN_PATTERN: usize = 3;

/// Why a text is not a pattern of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePatternFault {
    /// Names have no such character.
    Character(char),
    /// There is more behind the end of the name.
    End,
    /// It is longer than a name.
    TooLong,
    /// It covers nearly every name.
    TooWide,
    /// It is no regular expression, or one that needs another kind of engine.
    Syntax(String),
    /// Its automaton is too large.
    TooLarge,
    /// All patterns together are too large.
    Full,
}

impl fmt::Display for NamePatternFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(c) => {
                write!(f, "the pattern matches no name: names do not have the character {c:?}")
            }
            Self::End => f.write_str("the pattern matches no name: it goes on behind \"^\" or \"|\""),
            Self::TooLong => f.write_str("the pattern matches no name: it is longer than a name"),
            Self::TooWide => {
                f.write_str("the pattern covers nearly every name; it needs a modifier such as $dnstype")
            }
            Self::Syntax(why) => write!(f, "the regular expression cannot be used: {why}"),
            Self::TooLarge => f.write_str("the regular expression needs more than 1 MiB of memory"),
            Self::Full => f.write_str("the patterns of all lists together need more than 64 MiB of memory"),
        }
    }
}
impl std::error::Error for NamePatternFault {}

/// The memory that patterns may still take, and with it the time that compiling them may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatternRoom(usize);

impl Default for PatternRoom {
    fn default() -> Self {
        PatternRoom(MAX_PATTERN_BYTES)
    }
}

impl PatternRoom {
    /// Takes the bytes of a pattern.
    ///
    /// # Errors
    /// There is not as much.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), NamePatternFault> {
        self.0 = self.0.checked_sub(bytes).ok_or(NamePatternFault::Full)?;
        Ok(())
    }

    /// Takes the bytes of a pattern, or all that is left.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pattern {
    Glob(Glob),
    Regex(Regex),
}

impl Pattern {
    /// Whether it matches a name. Compiles a regular expression: not for the query path.
    pub(crate) fn matches(&self, name: LowerName<'_>) -> bool {
        let text = NameText::of(name);
        match self {
            Pattern::Glob(glob) => glob.matches(text.bytes()),
            Pattern::Regex(regex) => regex.matches(text.bytes()),
        }
    }

    /// Bytes of memory, compiled.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes()
            + match self {
                Pattern::Glob(glob) => glob.literal().len() * LITERAL_BYTE,
                Pattern::Regex(regex) => regex.bytes,
            }
    }

    /// Bytes of memory without a share of any automaton.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Pattern::Glob(glob) => glob.parts.iter().map(|part| size_of_val(part) + part.len()).sum(),
                Pattern::Regex(regex) => regex.text.len(),
            }
    }

    /// The place of a pattern among others: wildcard patterns first, then regular expressions.
    ///
    /// Those with many repetitions come last: they are the ones that may not fit into one automaton.
    pub(crate) fn order(&self) -> usize {
        match self {
            Pattern::Glob(_) => 0,
            Pattern::Regex(regex) => 1 + regex.text.bytes().filter(|byte| b"*+{".contains(byte)).count(),
        }
    }
}

/// A pattern with wildcards, which has to match a whole text.
///
/// It consists of two or more parts with any bytes between them. A pattern that is not bound to the start or
/// the end of the name has an empty part there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Glob {
    /// Whether the first part may be at the start of any label (`||`), not only of the first one.
    at_label: bool,
    parts: Box<[Box<[u8]>]>,
}

/// What a pattern without a regular expression covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mask<'t> {
    /// A name, or what is below it. The text may be no name.
    Name(Cow<'t, [u8]>, RuleReach),
    /// Names that match.
    Glob(Glob),
    /// Every name.
    All,
}

impl<'t> Mask<'t> {
    /// Reads a pattern. `is_narrow` says that its rule has a condition.
    ///
    /// # Errors
    /// It matches no name, or nearly all.
    pub(crate) fn read(pattern: &'t [u8], is_narrow: bool) -> Result<Self, NamePatternFault> {
        let mut is_end = false;
        let (at_label, is_start, body) = match pattern {
            [b'|', b'|', body @ ..] => (true, true, body),
            [b'|', body @ ..] => (false, true, body),
            body => (false, false, body),
        };
        let mut body = body;
        if let Some(end) = body.iter().position(|byte| b"^|".contains(byte)) {
            if body[end..].iter().any(|byte| !b"^|*".contains(byte)) {
                return Err(NamePatternFault::End);
            }
            (is_end, body) = (true, &body[..end]);
        }
        if pattern.len() < MIN_PATTERN && !is_narrow {
            return Err(NamePatternFault::TooWide);
        }
        let other = |byte: &&u8| !(byte.is_ascii_alphanumeric() || b"-_.*".contains(byte));
        if let Some(other) = body.iter().find(other) {
            let all = String::from_utf8_lossy(body);
            let c = all.chars().find(|c| !c.is_ascii()).unwrap_or(char::from(*other));
            return Err(NamePatternFault::Character(c));
        }
        if body.iter().filter(|byte| **byte != b'*').count() > MAX_TEXT {
            return Err(NamePatternFault::TooLong);
        }
        if is_start && is_end && !body.contains(&b'*') {
            let reach = if at_label { RuleReach::NameAndBelow } else { RuleReach::Name };
            return Ok(Mask::Name(Cow::Borrowed(body), reach));
        }
        let body = body.to_ascii_lowercase();
        let mut parts: Vec<&[u8]> = body.split(|byte| *byte == b'*').collect();
        if !is_start {
            parts.insert(0, b"");
        }
        if !is_end {
            parts.push(b"");
        }
        Ok(Glob::new(at_label, &parts).mask())
    }
}

impl Glob {
    fn new(at_label: bool, parts: &[&[u8]]) -> Self {
        let last = parts.len().saturating_sub(1);
        let kept = parts.iter().enumerate().filter(|(at, part)| *at == 0 || *at == last || !part.is_empty());
        let parts: Box<[Box<[u8]>]> = kept.map(|(_, part)| Box::from(*part)).collect();
        // A first label start with anything behind it: the pattern may begin anywhere.
        let at_label = at_label && parts.first().is_some_and(|first| !first.is_empty());
        Glob { at_label, parts }
    }

    /// Returns the same without a pattern, if a name or a constant says as much.
    fn mask(self) -> Mask<'static> {
        match &*self.parts {
            parts if parts.iter().all(|part| part.is_empty()) => Mask::All,
            [first, last] if first.is_empty() => match &**last {
                [b'.', name @ ..] => Mask::Name(Cow::Owned(name.into()), RuleReach::Below),
                _ => Mask::Glob(self),
            },
            _ => Mask::Glob(self),
        }
    }

    /// A text that every match contains.
    pub(crate) fn literal(&self) -> &[u8] {
        self.parts.iter().max_by_key(|part| part.len()).map_or(b"", |part| part)
    }

    /// Whether it matches a text.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let [first, middle @ .., last] = &*self.parts else { return false };
        let is_label = |at: usize| at.checked_sub(1).is_none_or(|before| text.get(before) == Some(&b'.'));
        // Of all places for a part, the first leaves the most text to those behind it.
        let mut starts = if self.at_label { 0..=text.len() } else { 0..=0 };
        let start = starts.find(|at| is_label(*at) && text[*at..].starts_with(first));
        let Some(mut left) = start.map(|at| &text[at + first.len()..]) else { return false };
        for part in middle {
            let Some(at) = left.windows(part.len()).position(|window| window == &**part) else {
                return false;
            };
            left = &left[at + part.len()..];
        }
        left.ends_with(last)
    }
}

/// Bytes of the automaton of literals for each byte of a literal.
const LITERAL_BYTE: usize = 32;

/// A regular expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Regex {
    text: Box<str>,
    /// Bytes of its own automaton.
    bytes: usize,
}

impl Regex {
    /// Reads a regular expression, and takes the memory of its automaton from `room`. Without one, it is not
    /// compiled.
    ///
    /// # Errors
    /// It is none, or it is too large.
    pub(crate) fn read(text: &[u8], room: Option<&mut PatternRoom>) -> Result<Self, NamePatternFault> {
        let text = std::str::from_utf8(text).map_err(|_| NamePatternFault::Syntax("not UTF-8".into()))?;
        let hir = syntax(text)?;
        let mut regex = Regex { text: text.into(), bytes: 0 };
        if let Some(room) = room {
            // A text that costs as much time as this must not cost it again and again.
            room.take(MAX_REGEX)?;
            let compiled = RegexSet::of_hirs(&[hir], &[0], MAX_REGEX).ok_or(NamePatternFault::TooLarge)?;
            regex.bytes = compiled.bytes();
            room.0 += MAX_REGEX - regex.bytes.min(MAX_REGEX);
        }
        Ok(regex)
    }

    /// Its syntax tree.
    pub(crate) fn hir(&self) -> Option<Hir> {
        syntax(&self.text).ok()
    }

    /// Most bytes of the automaton of one.
    pub(crate) const fn max_bytes() -> usize {
        MAX_REGEX
    }

    /// Whether it matches a text and is not too large to be in force. Slow, but most expressions match no
    /// text, and those are not compiled into a table.
    fn matches(&self, text: &[u8]) -> bool {
        self.hir().is_some_and(|hir| {
            regexes::is_match(&hir, text, MAX_REGEX) && RegexSet::of_hirs(&[hir], &[0], MAX_REGEX).is_some()
        })
    }
}

/// Returns the syntax tree of a regular expression over the bytes of a text.
fn syntax(text: &str) -> Result<Hir, NamePatternFault> {
    let mut builder = ParserBuilder::new();
    builder
        .nest_limit(MAX_NESTING)
        .utf8(false)
        .unicode(false)
        .case_insensitive(true)
        .dot_matches_new_line(true);
    builder.build().parse(text).map_err(|fault| {
        NamePatternFault::Syntax(match fault {
            regex_syntax::Error::Parse(fault) => fault.kind().to_string(),
            regex_syntax::Error::Translate(fault) => fault.kind().to_string(),
            _ => "it is not understood".into(),
        })
    })
}

/// The text of a name, as patterns see it.
pub(crate) struct NameText {
    bytes: [u8; 256],
    len: usize,
}

impl NameText {
    #[inline]
    pub(crate) fn of(name: LowerName<'_>) -> Self {
        let mut text = NameText { bytes: [0; 256], len: 0 };
        for label in name.labels() {
            // A name has 255 bytes at most, one of which is for each label.
            if let Some(to) = text.bytes.get_mut(text.len..text.len + label.len()) {
                to.copy_from_slice(label);
                to.iter_mut().filter(|byte| **byte == b'.').for_each(|byte| *byte = 0xff);
                text.len += label.len();
            }
            if let Some(dot) = text.bytes.get_mut(text.len) {
                *dot = b'.';
                text.len += 1;
            }
        }
        text.len = text.len.saturating_sub(1);
        text
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}
