//! Names as zone file text (RFC 1035 §5.1): parsing with an origin, and writing.

use std::fmt;

use super::{MAX_LABEL, MAX_NAME, Name};
use crate::escape::{unescape_one, write_escaped};

/// Why a text is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameTextError {
    /// The text is empty.
    Empty,
    /// Two consecutive dots, or a leading dot.
    EmptyLabel,
    /// A label of more than 63 bytes.
    LabelTooLong,
    /// More than 255 bytes in all.
    NameTooLong,
    /// `\` at the end, or `\DDD` that is not a number up to 255.
    BadEscape,
    /// The name is relative and there is no origin to complete it.
    NoOrigin,
}

impl fmt::Display for NameTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty name",
            Self::EmptyLabel => "empty label (two dots in a row, or a dot in front)",
            Self::LabelTooLong => "label longer than 63 bytes",
            Self::NameTooLong => "name longer than 255 bytes",
            Self::BadEscape => "bad escape (\\ needs a character or three digits up to 255)",
            Self::NoOrigin => "relative name without an origin to complete it",
        })
    }
}
impl std::error::Error for NameTextError {}

/// Parses a name and appends its wire form (RFC 1035 §5.1): escapes, `@` for the origin, relative names
/// completed by the origin.
///
/// On an error `out` may have grown.
#[inline]
pub fn name(text: &[u8], origin: Option<Name<'_>>, out: &mut Vec<u8>) -> Result<(), NameTextError> {
    match text {
        [] => return Err(NameTextError::Empty),
        b"." => {
            out.push(0);
            return Ok(());
        }
        b"@" => {
            out.extend_from_slice(origin.ok_or(NameTextError::NoOrigin)?.as_wire());
            return Ok(());
        }
        _ => {}
    }
    // The wire form is the text shifted by one byte, with a length instead of each dot.
    let start = out.len();
    out.reserve(text.len() + 2);
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let (mut label, mut at) = (0, 1);
    while at < wire.len() {
        match wire[at] {
            b'.' => {
                end_label(wire, label, at)?;
                label = at;
            }
            b'\\' => {
                out.truncate(start);
                return escaped_name(text, origin, out);
            }
            _ => {}
        }
        at += 1;
    }
    finish_name(start, label, origin, out)
}

/// Writes the length of the label that ends before `at` over the byte at `label`.
#[inline]
fn end_label(wire: &mut [u8], label: usize, at: usize) -> Result<(), NameTextError> {
    match at - label - 1 {
        0 => Err(NameTextError::EmptyLabel),
        len @ 1..=MAX_LABEL => {
            wire[label] = len as u8;
            Ok(())
        }
        _ => Err(NameTextError::LabelTooLong),
    }
}

/// Ends the name at `out[start..]`, whose last length byte is at `label`, with the root or the origin.
#[inline]
fn finish_name(
    start: usize,
    label: usize,
    origin: Option<Name<'_>>,
    out: &mut Vec<u8>,
) -> Result<(), NameTextError> {
    let wire = &mut out[start..];
    if label + 1 == wire.len() {
        wire[label] = 0;
    } else {
        end_label(wire, label, wire.len())?;
        let origin = origin.ok_or(NameTextError::NoOrigin)?;
        out.extend_from_slice(origin.as_wire());
    }
    if out.len() - start > MAX_NAME { Err(NameTextError::NameTooLong) } else { Ok(()) }
}

/// [`name`] for text with escapes, byte by byte.
#[cold]
fn escaped_name(text: &[u8], origin: Option<Name<'_>>, out: &mut Vec<u8>) -> Result<(), NameTextError> {
    let start = out.len();
    out.push(0);
    let (mut label, mut rest) = (0, text);
    while !rest.is_empty() {
        if rest[0] == b'.' {
            let at = out.len() - start;
            end_label(&mut out[start..], label, at)?;
            label = at;
            out.push(0);
            rest = &rest[1..];
            continue;
        }
        let (byte, used) = unescape_one(rest).map_err(|_| NameTextError::BadEscape)?;
        out.push(byte);
        rest = &rest[used..];
    }
    finish_name(start, label, origin, out)
}

/// Writes a name with the final dot; `.` for the root (RFC 1035 §5.1, RFC 4343 §2.1).
///
/// Escapes all bytes except letters, digits, `-`, `_`, `*` and `/`, since some zone file readers accept no
/// others unescaped.
pub fn write_name(name: Name<'_>, to: &mut dyn fmt::Write) -> fmt::Result {
    if name.is_root() {
        return to.write_str(".");
    }
    for label in name.labels() {
        write_escaped(label, to, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*' | b'/')
        })?;
        to.write_str(".")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_read_whole_are_those_read_byte_by_byte(text in r"[a-zA-Z0-9@.]{1,260}", with_origin: bool) {
            prop_assume!(text != "." && text != "@");
            let origin = Name::from_wire(b"\x07example\0").ok().filter(|_| with_origin);
            let (mut whole, mut bytewise) = (vec![7], vec![7]);
            let read = name(text.as_bytes(), origin, &mut whole);
            prop_assert_eq!(read, escaped_name(text.as_bytes(), origin, &mut bytewise));
            if read.is_ok() {
                prop_assert_eq!(whole, bytewise);
            }
        }

        #[test]
        fn names_read_back(labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..8)) {
            let mut wire: Vec<u8> =
                labels.iter().flat_map(|l| std::iter::once(l.len() as u8).chain(l.iter().copied())).collect();
            wire.push(0);
            if let Ok(name) = Name::from_wire(&wire) {
                let (text, mut out) = (name.to_string(), Vec::new());
                prop_assert!(text.bytes().all(|byte| matches!(byte, 0x21..=0x7e)));
                prop_assert_eq!(super::name(text.as_bytes(), None, &mut out), Ok(()));
                prop_assert_eq!(out, wire);
            }
        }
    }
}
