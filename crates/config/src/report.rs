//! Faults in configuration text, and their display: file, line, column, the source line and a caret under the
//! place. Reading finds the faults, this file prints them; it depends on no key or section.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use crate::exit_status::{EXIT_FAULTS, EXIT_OUTSIDE};

/// Largest number of columns of a source line that are shown; longer lines are cut around the fault.
const SHOWN_COLUMNS: usize = 100;

/// One configuration text: the main file, or an included one.
#[derive(Debug)]
pub struct ConfigText {
    /// The path of the text, as the operator names it.
    pub path: PathBuf,
    /// The text itself.
    pub text: String,
}

/// The number of the first text that is a section of the database.
const FIRST_SHARED: usize = 1 << 31;

/// All texts of one configuration; a [`ConfigPlace`] refers to them by number.
#[derive(Debug, Default)]
pub struct ConfigTexts {
    all: Vec<ConfigText>,
    /// Those that are sections of the database.
    shared: Vec<ConfigText>,
}

/// A byte range of one source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPlace {
    /// Number of the text in [`ConfigTexts`].
    pub source: usize,
    /// Byte range within that text.
    pub span: Range<usize>,
}

impl ConfigPlace {
    /// Whether it is in a section of the database.
    pub fn is_shared(&self) -> bool {
        self.source >= FIRST_SHARED
    }
}

/// One fault, with its place and a hint if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Its place; `None` for faults of the whole, such as a file that cannot be opened.
    pub place: Option<ConfigPlace>,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// A hint printed beside the caret.
    pub hint: Option<String>,
    /// Other places that explain the fault ("first defined here").
    pub related: Vec<(ConfigPlace, String)>,
    /// Whether the cause is outside the text: a file or folder that it needs cannot be read.
    pub outside: bool,
}

/// Why a configuration cannot be used: at least one fault.
#[derive(Debug)]
pub struct RejectedConfig {
    /// The texts, for showing places in them.
    pub sources: ConfigTexts,
    /// The faults in the order of their places.
    pub faults: Vec<Diagnostic>,
}

/// Prints every fault with its source line, for a terminal.
impl fmt::Display for RejectedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sources.render(&self.faults))
    }
}

impl std::error::Error for RejectedConfig {}

impl Diagnostic {
    /// Returns an error at a place.
    pub fn error(place: ConfigPlace, message: impl Into<String>) -> Self {
        Self { place: Some(place), ..Self::whole(message) }
    }

    /// Returns an error that no line of the text causes.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), hint: None, related: Vec::new(), outside: false }
    }

    /// Returns an error at a place if there is one: a default has none.
    pub fn at(place: Option<&ConfigPlace>, message: impl Into<String>) -> Self {
        Self { place: place.cloned(), ..Self::whole(message) }
    }

    /// Adds a hint, shown beside the caret.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the cause as outside the text.
    #[must_use]
    pub fn outside(mut self) -> Self {
        self.outside = true;
        self
    }

    /// Adds a second place, if there is one, with a text of its own.
    #[must_use]
    pub fn also(mut self, place: Option<&ConfigPlace>, words: impl Into<String>) -> Self {
        self.related.extend(place.cloned().map(|place| (place, words.into())));
        self
    }
}

impl ConfigTexts {
    /// Adds a text and returns its number.
    pub fn add(&mut self, path: impl Into<PathBuf>, text: String) -> usize {
        self.all.push(ConfigText { path: path.into(), text });
        self.all.len() - 1
    }

    /// Adds the text of a section of the database and returns its number. `title` names it in messages.
    pub fn add_shared(&mut self, title: &str, text: String) -> usize {
        self.shared.push(ConfigText { path: title.into(), text });
        FIRST_SHARED + self.shared.len() - 1
    }

    /// Returns the paths of all texts that are files.
    pub fn paths(&self) -> impl Iterator<Item = &std::path::Path> {
        self.all.iter().map(|text| text.path.as_path())
    }

    /// Returns the text with this number, if there is one.
    pub fn get(&self, number: usize) -> Option<&ConfigText> {
        match number.checked_sub(FIRST_SHARED) {
            Some(number) => self.shared.get(number),
            None => self.all.get(number),
        }
    }

    /// Returns line and column (both from 1, columns in characters) of the start of a place.
    pub fn line_column(&self, place: &ConfigPlace) -> (usize, usize) {
        let Some(source) = self.get(place.source) else { return (1, 1) };
        let start = floor_char(&source.text, place.span.start);
        let before = &source.text[..start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// Returns `file:line:column` of a place; of a section of the database, its title, line and column.
    pub fn address(&self, place: &ConfigPlace) -> String {
        let (line, column) = self.line_column(place);
        let path = self.get(place.source).map(|s| s.path.display().to_string()).unwrap_or_default();
        match place.is_shared() {
            true => format!("{path}, line {line}, column {column}"),
            false => format!("{path}:{line}:{column}"),
        }
    }

    /// Returns the faults as text for a terminal, each with its source line, separated by empty lines.
    pub fn render(&self, faults: &[Diagnostic]) -> String {
        let mut out = String::new();
        for (i, fault) in faults.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            out += &self.render_as("error", fault);
        }
        out
    }

    /// Returns one fault as text, prefixed with `word`.
    pub fn render_as(&self, word: &str, fault: &Diagnostic) -> String {
        let mut out = format!("{word}: {}\n", fault.message);
        match &fault.place {
            Some(place) => self.render_place(&mut out, place, '^', fault.hint.as_deref()),
            None => {
                if let Some(hint) = &fault.hint {
                    let _ = writeln!(out, "  hint: {hint}");
                }
            }
        }
        for (place, words) in &fault.related {
            self.render_place(&mut out, place, '-', Some(words));
        }
        out
    }

    /// Prints one place: its address, the line, and marks under it.
    fn render_place(&self, out: &mut String, place: &ConfigPlace, mark: char, words: Option<&str>) {
        let Some(source) = self.get(place.source) else { return };
        let (number, column) = self.line_column(place);
        let start = floor_char(&source.text, place.span.start);
        let line_start = source.text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source.text[start..].find('\n').map_or(source.text.len(), |i| start + i);
        let line = source.text[line_start..line_end].trim_end_matches('\r');
        let end = floor_char(&source.text, place.span.end).clamp(start, line_end);
        let marked = source.text[start..end].trim_end().chars().count().max(1);

        let before = column - 1;
        let skip = before.saturating_sub(SHOWN_COLUMNS / 2);
        let skip = if line.chars().count() <= SHOWN_COLUMNS { 0 } else { skip };
        let shown: String = line.chars().skip(skip).take(SHOWN_COLUMNS).map(printable).collect();
        let cut_left = if skip > 0 { "…" } else { "" };
        let cut_right = if line.chars().count() > skip + SHOWN_COLUMNS { "…" } else { "" };
        let offset = before - skip + cut_left.chars().count();
        let marks: String = std::iter::repeat_n(mark, marked.min(SHOWN_COLUMNS)).collect();

        let gutter = " ".repeat(number.to_string().len());
        let _ = writeln!(out, "{gutter}--> {}", self.address(place));
        let _ = writeln!(out, "{gutter} |");
        let _ = writeln!(out, "{number} | {cut_left}{shown}{cut_right}");
        let spaced = words.map(|w| format!(" {w}")).unwrap_or_default();
        let _ = writeln!(out, "{gutter} | {}{marks}{spaced}", " ".repeat(offset));
    }
}

/// Replaces control characters, which would move the caret or disturb the terminal.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// Returns the last character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Returns the exit code for an unusable configuration, by its cause: the text, or a file that cannot be
/// opened.
pub fn exit_code(faults: &[Diagnostic]) -> u8 {
    if faults.iter().any(|fault| fault.outside) { EXIT_OUTSIDE } else { EXIT_FAULTS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_stands_under_the_place() {
        let mut sources = ConfigTexts::default();
        let number = sources.add("a.toml", "x = 1\nkéy = 2\n".into());
        let at = "x = 1\nkéy = ".len();
        let fault = Diagnostic::error(ConfigPlace { source: number, span: at..at + 1 }, "bad").hint("good");
        assert_eq!(
            sources.render(&[fault]),
            "error: bad\n --> a.toml:2:7\n  |\n2 | kéy = 2\n  |       ^ good\n"
        );
    }

    #[test]
    fn places_outside_the_text_do_not_panic() {
        let mut sources = ConfigTexts::default();
        let number = sources.add("a.toml", "é".into());
        for span in [0..9, 1..1, 7..9] {
            sources.render(&[Diagnostic::error(ConfigPlace { source: number, span }, "m")]);
        }
        sources.render(&[Diagnostic::error(ConfigPlace { source: 9, span: 0..1 }, "m")]);
    }

    #[test]
    fn long_lines_are_cut_around_the_fault() {
        let mut sources = ConfigTexts::default();
        let text = format!("{}BAD{}", "a".repeat(500), "b".repeat(500));
        let number = sources.add("a.toml", text);
        let shown = sources.render(&[Diagnostic::error(ConfigPlace { source: number, span: 500..503 }, "m")]);
        let lines: Vec<&str> = shown.lines().collect();
        let column = lines[4].chars().position(|c| c == '^');
        let marked: String = lines[3].chars().skip(column.unwrap_or(0)).take(3).collect();
        assert_eq!(marked, "BAD");
        assert!(lines[3].chars().count() < 110);
    }
}
