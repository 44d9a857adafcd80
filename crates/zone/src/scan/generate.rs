//! `$GENERATE range owner [ttl] [class] type data`: many records from one line, in BIND's notation.
//!
//! The range is `start-stop` or `start-stop/step`. In owner and data, `$` is replaced by the value,
//! `${offset,width,base}` by the value plus the offset, padded with zeros to the width, in base `d o x X n N`
//! (the last two are nibbles, lowest first, separated by dots), `$$` and `\$` by a dollar sign. If the data
//! is one quoted string, the text within it is expanded; otherwise all of the data is, quotes included.

use super::entry::{EntryPlace, OpenFile, Scanner, Stop, Trouble, quoted_field, show};
use super::fault::FaultKind;
use super::index::Indexer;
use super::input::{EntryStart, View};
use super::lex::{self, Lexed};
use super::simd::{BLOCK, Level};
use super::{Sink, directive};
use std::fmt::Write as _;
use std::io::Write as _;
use wire::text::Token;

/// The greatest value of the range, as in BIND.
const MAX_RANGE_VALUE: i64 = i32::MAX as i64;
/// The widest field, as in BIND.
const MAX_FIELD_WIDTH: usize = 127;

/// `start-stop/step`.
struct Range {
    start: i64,
    stop: i64,
    step: i64,
}

impl Range {
    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (range, step) = text.split_once('/').unwrap_or((text, "1"));
        let (start, stop) = range.split_once('-')?;
        let number = |text: &str| {
            text.parse().ok().filter(|n| (0..=MAX_RANGE_VALUE).contains(n) && !text.starts_with('+'))
        };
        let range = Range { start: number(start)?, stop: number(stop)?, step: number(step)? };
        (range.start <= range.stop && range.step > 0).then_some(range)
    }

    fn count(&self) -> u64 {
        ((self.stop - self.start) / self.step + 1) as u64
    }
}

/// A part of a template.
#[derive(Debug, PartialEq, Eq)]
enum TemplatePiece {
    Text(Vec<u8>),
    Value { offset: i64, width: usize, base: u8 },
}

/// The text of owner or data, with the places of the value.
struct GenerateTemplate(Vec<TemplatePiece>);

impl GenerateTemplate {
    /// Parses a template; `Err` for a malformed `${…}`.
    fn parse(text: &[u8]) -> Result<Self, ()> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), Vec::new(), text);
        loop {
            match rest {
                [] => break,
                [b'\\', escaped, tail @ ..] => {
                    plain.extend([b'\\', *escaped]);
                    rest = tail;
                }
                [b'$', b'$', tail @ ..] => {
                    plain.extend(b"\\$");
                    rest = tail;
                }
                [b'$', tail @ ..] => {
                    pieces.push(TemplatePiece::Text(std::mem::take(&mut plain)));
                    let (value, tail) = match tail {
                        [b'{', inner @ ..] => {
                            let end = memchr::memchr(b'}', inner).ok_or(())?;
                            (modifier(&inner[..end]).ok_or(())?, &inner[end + 1..])
                        }
                        _ => (TemplatePiece::Value { offset: 0, width: 0, base: b'd' }, tail),
                    };
                    pieces.push(value);
                    rest = tail;
                }
                [byte, tail @ ..] => {
                    plain.push(*byte);
                    rest = tail;
                }
            }
        }
        pieces.push(TemplatePiece::Text(plain));
        Ok(GenerateTemplate(pieces))
    }

    /// Whether every value of the range plus its offset is at most 2^31 - 1, as in BIND.
    fn fits(&self, range: &Range) -> bool {
        self.0.iter().all(|piece| match *piece {
            TemplatePiece::Text(_) => true,
            TemplatePiece::Value { offset, .. } => range.stop + offset <= MAX_RANGE_VALUE,
        })
    }

    fn expand(&self, value: i64, to: &mut Vec<u8>) {
        for piece in &self.0 {
            match *piece {
                TemplatePiece::Text(ref text) => to.extend_from_slice(text),
                TemplatePiece::Value { offset, width, base } => write_value(value + offset, width, base, to),
            }
        }
    }
}

/// Parses the content of `${…}`: offset, width and base; the last two are optional.
fn modifier(text: &[u8]) -> Option<TemplatePiece> {
    let mut parts = std::str::from_utf8(text).ok()?.split(',');
    let offset = parts.next()?.parse::<i32>().ok()?.into();
    let width = parts.next().map_or(Some(0), |w| w.parse().ok().filter(|&w| w <= MAX_FIELD_WIDTH))?;
    let base = match parts.next() {
        None => b'd',
        Some(base) => *base.as_bytes().first().filter(|b| base.len() == 1 && b"doxXnN".contains(b))?,
    };
    parts.next().is_none().then_some(TemplatePiece::Value { offset, width, base })
}

fn write_value(value: i64, width: usize, base: u8, to: &mut Vec<u8>) {
    let unsigned = value as u32; // negative values count down from 2^32, as in C
    // Writing to a vector does not fail.
    let _ = match base {
        b'o' => write!(to, "{unsigned:0width$o}"),
        b'x' => write!(to, "{unsigned:0width$x}"),
        b'X' => write!(to, "{unsigned:0width$X}"),
        b'n' => return nibbles(unsigned, width, b"0123456789abcdef", to),
        b'N' => return nibbles(unsigned, width, b"0123456789ABCDEF", to),
        _ => write!(to, "{value:0width$}"),
    };
}

/// Writes nibbles, the lowest first, separated by dots, to at least `width` characters. 0x12d is `d.2.1`;
/// with width 7 it is `d.2.1.0`, with width 6 `d.2.1.` and ends with a dot.
fn nibbles(value: u32, width: usize, digits: &[u8; 16], to: &mut Vec<u8>) {
    let (mut value, mut width) = (value, width);
    loop {
        to.push(digits[(value & 15) as usize]);
        value >>= 4;
        width = width.saturating_sub(1);
        if width > 0 || value != 0 {
            to.push(b'.');
            width = width.saturating_sub(1);
        }
        if width == 0 && value == 0 {
            return;
        }
    }
}

impl<S: Sink> Scanner<'_, S> {
    /// Generates the records of a `$GENERATE` line. The first fault ends the directive.
    pub(super) fn generate<'w>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'w>,
        tokens: &[Token<'w>],
        arguments: &[Token<'w>],
    ) -> Result<Result<(), Stop>, Box<Trouble<'w>>> {
        const NEEDS: &str = "$GENERATE needs a range, an owner, a type and data";
        let (range_text, rest) = directive::argument(tokens, arguments, NEEDS)?;
        let (owner, rest) = directive::argument(tokens, rest, NEEDS)?;
        if owner.quoted {
            return Err(quoted_field(owner));
        }
        let Some(range) = Range::parse(range_text.bytes) else {
            let message = format!("{} is not a range", show(range_text.bytes));
            let trouble = Trouble::at(range_text, FaultKind::BadRange, message);
            return Err(
                trouble.with_note("a range is start-stop or start-stop/step, such as 1-254 or 0-30/2")
            );
        };
        let limit = self.config.limits.generated;
        if range.count() > limit.saturating_sub(self.generated) {
            let message = format!("$GENERATE would make more than {limit} records in all");
            return Err(Trouble::at(range_text, FaultKind::TooManyGenerated, message));
        }
        self.generated += range.count();
        let from = tokens.len() - rest.len();
        let fields = self.fields(tokens, from)?;
        let (words, data) = (&tokens[from..fields.data], &tokens[fields.data..]);
        let Some(first) = data.first() else {
            return Err(Trouble::after(tokens, FaultKind::MissingArgument, NEEDS));
        };
        let owner_template = template(owner, owner.bytes.to_vec(), &range)?;
        let data_template = template(*first, data_text(data), &range)?;
        let words_text: Vec<u8> = words.iter().flat_map(|t| t.bytes.iter().copied().chain([b' '])).collect();
        // Its warnings are shown at the data.
        let here = &EntryPlace { generated: Some(*first), ..*here };
        let (mut owner_text, mut line, mut index) = (Vec::new(), Vec::new(), Vec::new());
        let mut value = range.start;
        while value <= range.stop {
            owner_text.clear();
            owner_template.expand(value, &mut owner_text);
            line.clear();
            line.extend_from_slice(&words_text);
            data_template.expand(value, &mut line);
            if let Err((mut trouble, of_owner)) =
                self.generated_record(file, here, &owner_text, &mut line, &mut index)
            {
                let _ = write!(trouble.message, " (in the record made for {value})");
                let pinned = if of_owner { owner } else { *first };
                let ended = self.add_fault(file, &EntryPlace { generated: Some(pinned), ..*here }, trouble);
                return Ok(ended);
            }
            value += range.step;
        }
        Ok(Ok(()))
    }

    /// Passes one record to the sink, parsed from its text. A fault comes with whether it is about the owner.
    fn generated_record<'t>(
        &mut self,
        file: &mut OpenFile,
        here: &EntryPlace<'_>,
        owner: &'t [u8],
        line: &'t mut Vec<u8>,
        index: &'t mut Vec<u32>,
    ) -> Result<(), (Box<Trouble<'t>>, bool)> {
        let owner = Token { bytes: owner, quoted: false };
        self.owner(file, owner).map_err(|trouble| (trouble, true))?;
        line.push(b'\n');
        line.resize(line.len().next_multiple_of(BLOCK), b' ');
        let line: &'t [u8] = line;
        index.clear();
        Indexer::new(Level::Plain).run(line, 0, index);
        let mut tokens = Vec::with_capacity(16);
        let view = View { bytes: line, index, last: true };
        match lex::step(view, EntryStart::default(), &mut tokens) {
            Lexed::Entry { .. } => {}
            Lexed::Fault { kind, .. } => {
                let whole = Token { bytes: line, quoted: false };
                return Err((
                    Trouble::at(
                        whole,
                        kind,
                        "the data has a NUL byte, or quotes or parentheses without their other half",
                    ),
                    false,
                ));
            }
            Lexed::More(_) => return Ok(()),
        }
        self.record(file, here, &tokens, 0).map_err(|trouble| (trouble, false))
    }
}

/// Parses a template; its faults are at `token`.
fn template<'w>(
    token: Token<'w>,
    text: Vec<u8>,
    range: &Range,
) -> Result<GenerateTemplate, Box<Trouble<'w>>> {
    let fault = |message, note: &str| Trouble::at(token, FaultKind::BadModifier, message).with_note(note);
    let template = GenerateTemplate::parse(&text).map_err(|()| {
        let message = format!("bad ${{…}} in {}", show(token.bytes));
        fault(message, "it is ${offset,width,base}: width at most 127, base one of d o x X n N")
    })?;
    if !template.fits(range) {
        let message = format!("values too large in {}", show(token.bytes));
        return Err(fault(message, "value and offset together are at most 2147483647"));
    }
    Ok(template)
}

/// Returns the text of the data: the content of one quoted string, or everything from the first token to the
/// last.
fn data_text(data: &[Token<'_>]) -> Vec<u8> {
    if let [Token { bytes, quoted: true }] = data {
        let mut text = Vec::with_capacity(bytes.len());
        let mut rest = *bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            match (byte, tail) {
                (b'\\', [b'"', tail @ ..]) => {
                    text.push(b'"');
                    rest = tail;
                }
                (b'\\', [escaped, tail @ ..]) => {
                    text.extend([b'\\', *escaped]);
                    rest = tail;
                }
                _ => {
                    text.push(byte);
                    rest = tail;
                }
            }
        }
        return text;
    }
    // Built from the tokens, not copied from the file: there may be comments and line feeds between them.
    let mut text = Vec::new();
    for token in data {
        if !text.is_empty() {
            text.push(b' ');
        }
        if token.quoted {
            text.push(b'"');
        }
        text.extend_from_slice(token.bytes);
        if token.quoted {
            text.push(b'"');
        }
    }
    text
}
