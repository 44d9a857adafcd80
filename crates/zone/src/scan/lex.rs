//! Collects the tokens of one entry (RFC 1035 §5.1): the scanner's second stage.
//!
//! An entry ends with a line feed outside parentheses. [`super::entry`] interprets the tokens. Faults here
//! are those of quotes and parentheses, and NUL bytes; after a fault, scanning continues with the next line
//! that can be the start of an entry.

use super::fault::FaultKind;
use super::input::{EntryStart, View};
use wire::text::Token;

/// The result of reading at a cursor.
#[derive(Debug)]
pub(super) enum Lexed {
    /// An entry of at least one token.
    Entry {
        /// Its start, after blank lines.
        at: EntryStart,
        /// Whether its first token is the owner: the line does not begin with a blank.
        has_owner: bool,
        /// The start of the next entry.
        after: EntryStart,
    },
    /// A fault of `length` bytes at byte `at` of the view; its entry is skipped.
    Fault { kind: FaultKind, at: usize, length: usize, entry: EntryStart, after: EntryStart },
    /// The entry that starts here continues beyond the view, or there is none.
    More(EntryStart),
}

/// Reads the entry at `cursor` into `tokens`, which must be empty.
///
/// # Panics
/// Never for an index made by [`super::index`] from the same bytes.
#[inline]
pub(super) fn step<'w>(view: View<'w>, cursor: EntryStart, tokens: &mut Vec<Token<'w>>) -> Lexed {
    let View { bytes, index, .. } = view;
    let mut at = cursor;
    let mut lines = 0;
    let mut open: Option<usize> = None; // the outermost parenthesis
    let mut depth = 0u32;
    let mut i = cursor.next;
    let broken = |kind, fault: usize, length, entry: EntryStart, nested: bool| match recover(
        view, entry, fault, nested,
    ) {
        Some(after) => Lexed::Fault { kind, at: fault, length, entry, after },
        None => Lexed::More(entry),
    };
    while let Some(&start) = index.get(i) {
        let start = start as usize;
        match bytes[start] {
            b'\n' => {
                i += 1;
                lines += 1;
                if depth == 0 {
                    let after = EntryStart { next: i, start: start + 1, line: at.line.saturating_add(lines) };
                    if !tokens.is_empty() {
                        let has_owner = !matches!(bytes[at.start], b' ' | b'\t' | b'\r');
                        return Lexed::Entry { at, has_owner, after };
                    }
                    (at, lines, open) = (after, 0, None);
                }
            }
            b'(' => {
                open.get_or_insert(start);
                depth += 1;
                i += 1;
            }
            b')' => {
                let Some(less) = depth.checked_sub(1) else {
                    return broken(FaultKind::UnmatchedParenthesis, start, 1, at, false);
                };
                depth = less;
                i += 1;
            }
            b'"' => {
                let Some(&end) = index.get(i + 1) else { break };
                let end = end as usize;
                match bytes[end] {
                    b'"' => match stray(bytes, start, end, tokens) {
                        Some(mark) => return broken(FaultKind::StrayQuote, mark, 1, at, depth > 0),
                        None => quoted(bytes, index, i, tokens),
                    },
                    0 => return broken(FaultKind::NulByte, end, 1, at, depth > 0),
                    _ => return broken(FaultKind::UnclosedQuote, start, end - start, at, depth > 0),
                }
                i += 2;
            }
            0 => return broken(FaultKind::NulByte, start, 1, at, depth > 0),
            _ => {
                let Some(&end) = index.get(i + 1) else { break };
                let end = end as usize;
                tokens.push(Token { bytes: &bytes[start..end], quoted: false });
                // The next entry of the index is the word's end. A blank or `;` there has no meaning of its
                // own and is skipped; anything else, such as the `)` of `a)`, is read next.
                i += 1 + usize::from(matches!(bytes[end], b' ' | b'\t' | b'\r' | b';'));
            }
        }
    }
    match open {
        Some(open) if view.last && depth > 0 => broken(FaultKind::UnclosedParenthesis, open, 1, at, true),
        _ => Lexed::More(at),
    }
}

/// Pushes the quoted string between entries `i` and `i + 1`.
///
/// A string right after `key=` belongs to it (RFC 9460 §2.1): the token is then the whole raw text.
fn quoted<'w>(bytes: &'w [u8], index: &[u32], i: usize, tokens: &mut Vec<Token<'w>>) {
    let (open, close) = (index[i] as usize, index[i + 1] as usize);
    if let Some(last) = tokens.last_mut()
        && !last.quoted
        && last.bytes.ends_with(b"=")
        && last.bytes.as_ptr_range().end == bytes[open..].as_ptr()
    {
        let start = open - last.bytes.len();
        last.bytes = &bytes[start..=close];
        return;
    }
    tokens.push(Token { bytes: &bytes[open + 1..close], quoted: true });
}

/// Returns the quotation mark, of the two around a string, that touches other text. A word that ends in `=`
/// may directly precede it: see [`quoted`]. Other servers read such text as several strings, or as one with
/// the mark in it, and neither is meant.
fn stray(bytes: &[u8], open: usize, close: usize, tokens: &[Token<'_>]) -> Option<usize> {
    let touches = |token: &Token<'_>| {
        token.bytes.as_ptr_range().end == bytes[open..].as_ptr() && !token.bytes.ends_with(b"=")
    };
    if tokens.last().is_some_and(|last| !last.quoted && touches(last)) {
        return Some(open);
    }
    let apart = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' | 0);
    (!bytes.get(close + 1).is_none_or(apart)).then_some(close)
}

/// Returns where to continue after a fault at byte `fault` of the entry at `entry`: the start of the next
/// line, or for a fault inside parentheses, of the next line that does not look like their continuation.
///
/// `None` if that is beyond the view, and more bytes follow.
fn recover(view: View<'_>, entry: EntryStart, fault: usize, nested: bool) -> Option<EntryStart> {
    let View { bytes, index, last } = view;
    let mut line = entry.line;
    let mut end = None;
    for (i, &at) in index.iter().enumerate().skip(entry.next) {
        let at = at as usize;
        if bytes[at] != b'\n' {
            continue;
        }
        line = line.saturating_add(1);
        let after = EntryStart { next: i + 1, start: at + 1, line };
        if at < fault {
            continue;
        }
        let continued = |next| matches!(next, b' ' | b'\t' | b'\r' | b'\n' | b';' | b')');
        match bytes.get(after.start) {
            Some(&next) if nested && continued(next) => {}
            Some(_) => return Some(after),
            None if last => return Some(after),
            None => {}
        }
        end = Some(after);
    }
    end.filter(|_| last)
}
