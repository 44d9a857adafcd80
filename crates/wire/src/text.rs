//! The pieces of master-file text (RFC 1035 §5.1): tokens, escapes, names, numbers, addresses, encodings.
//!
//! What lives here: how one token is read, and how names and strings are written. What does not: splitting a
//! file into tokens with parentheses and comments (the zone scanner), and which tokens a record type wants
//! ([`crate::rdata`]).

mod address;
mod encoding;
mod number;

use std::fmt;

use crate::name::{MAX_LABEL, MAX_NAME, Name, NameTextError};

pub use address::{ipv4, ipv6};
pub use encoding::{BadEncoding, Base32Hex, Base64, Hex, write_base32hex, write_base64, write_hex};
pub use number::{decimal, duration, time, write_decimal, write_time};

/// One token of a record's text.
///
/// A quotation mark that opens a token makes the token quoted; its `bytes` are what lies between the marks.
/// A quotation mark inside a token that did not open with one stays in `bytes` with all that follows up to
/// the closing mark, white space included: `alpn="h2 h3"` is one token of twelve bytes (RFC 9460 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The bytes as written: escapes not resolved, the enclosing quotation marks taken off.
    pub bytes: &'a [u8],
    /// Whether the token stood in quotation marks.
    pub quoted: bool,
}

/// `\` at the end, or `\DDD` that is not a number up to 255 (RFC 1035 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEscape;

/// Splits one line into tokens; it knows quotes and escapes, but neither comments nor parentheses.
///
/// For text that is one record's data; master files are read by the zone scanner.
pub fn tokens(line: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = line.as_bytes();
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let quoted = *rest.first()? == b'"';
        if quoted {
            let inner = &rest[1..];
            let end = quoted_len(inner);
            rest = inner.get(end + 1..).unwrap_or_default();
            return Some(Token { bytes: &inner[..end], quoted });
        }
        let mut end = 0;
        while let Some(&byte) = rest.get(end).filter(|byte| !byte.is_ascii_whitespace()) {
            end += match byte {
                b'\\' => 2,
                b'"' => 2 + quoted_len(&rest[end + 1..]),
                _ => 1,
            };
        }
        let (bytes, tail) = rest.split_at(end.min(rest.len()));
        rest = tail;
        Some(Token { bytes, quoted })
    })
}

/// Bytes up to the quotation mark that is not escaped, or to the end.
fn quoted_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at).filter(|&&byte| byte != b'"') {
        at += if byte == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// Appends `raw` with its escapes resolved.
#[inline]
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Result<(), BadEscape> {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, used) = unescape_one(&rest[at..])?;
        out.push(byte);
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Reads one byte at the front, its escape resolved; returns it and how many bytes of text it took.
///
/// `text` must not be empty; if it is, that is a [`BadEscape`].
pub(crate) fn unescape_one(text: &[u8]) -> Result<(u8, usize), BadEscape> {
    match *text {
        [b'\\', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
            let value = (a - b'0') as u16 * 100 + (b - b'0') as u16 * 10 + (c - b'0') as u16;
            u8::try_from(value).map(|byte| (byte, 4)).map_err(|_| BadEscape)
        }
        [b'\\', a, ..] if !a.is_ascii_digit() => Ok((a, 2)),
        [b'\\', ..] | [] => Err(BadEscape),
        [byte, ..] => Ok((byte, 1)),
    }
}

/// Appends the wire form of a name (RFC 1035 §5.1): escapes, `@` for the origin, relative names completed by
/// it.
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
    // The wire form is the text moved by one byte, with a length in place of each dot.
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

/// Writes the length of the label that ends in front of `at` over the byte at `label`.
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

/// Ends the name at `out[start..]`, whose last length byte is at `label`: the root, or the origin.
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

/// [`name`] for text with escapes in it, byte by byte.
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
/// All bytes but letters, digits and `-`, `_`, `*`, `/` are escaped, since some master-file readers take no
/// others as they are.
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

/// Writes a string in quotation marks, escaped so that any reader finds the same bytes.
pub fn write_quoted(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str("\"")?;
    write_escaped(bytes, to, |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))?;
    to.write_str("\"")
}

/// Writes bytes, escaping those that are not `plain`: printable ones as `\X`, others as `\DDD`.
pub(crate) fn write_escaped(
    bytes: &[u8],
    to: &mut dyn fmt::Write,
    plain: impl Fn(u8) -> bool,
) -> fmt::Result {
    let mut rest = bytes;
    while !rest.is_empty() {
        let run = rest.iter().position(|&byte| !plain(byte)).unwrap_or(rest.len());
        write_ascii(&rest[..run], to)?;
        let Some(&byte) = rest.get(run) else { break };
        // Some readers take `\[` for a bit-string label (RFC 2673), which nothing uses any more.
        if matches!(byte, 0x21..=0x7e) && byte != b'[' {
            write_ascii(&[b'\\', byte], to)?;
        } else {
            write_ascii(&[b'\\', b'0' + byte / 100, b'0' + byte / 10 % 10, b'0' + byte % 10], to)?;
        }
        rest = &rest[run + 1..];
    }
    Ok(())
}

/// Writes bytes that are ASCII; others are an error, as there is no such text.
pub(crate) fn write_ascii(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str(std::str::from_utf8(bytes).map_err(|_| fmt::Error)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_split_at_white_space_outside_quotes() {
        let split = |line| tokens(line).map(|t| (t.bytes, t.quoted)).collect::<Vec<_>>();
        assert_eq!(split("10 mail"), [(&b"10"[..], false), (b"mail", false)]);
        assert_eq!(split(r#" "a b" c\ d "#), [(&b"a b"[..], true), (b"c\\ d", false)]);
        assert_eq!(split(r#""a\"b""c""#), [(&br#"a\"b"#[..], true), (b"c", true)]);
        assert_eq!(split(r#"alpn="h2 h3" x"#), [(&br#"alpn="h2 h3""#[..], false), (b"x", false)]);
        assert_eq!(split(r#""open \"#), [(&br"open \"[..], true)]);
        assert_eq!(split("a\\"), [(&b"a\\"[..], false)]);
    }

    #[test]
    fn escapes_resolve() {
        let read = |text: &str| {
            let mut out = Vec::new();
            unescape(text.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(read(r#"a\"b\\c\000\255"#), Ok(b"a\"b\\c\0\xff".to_vec()));
        for bad in [r"a\", r"\256", r"\12", r"\1x2"] {
            assert_eq!(read(bad), Err(BadEscape), "{bad}");
        }
    }

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
        fn strings_read_back(bytes: Vec<u8>) {
            let mut text = String::new();
            prop_assert!(write_quoted(&bytes, &mut text).is_ok());
            let token = tokens(&text).next();
            let mut out = Vec::new();
            prop_assert_eq!(unescape(token.map(|t| t.bytes).unwrap_or_default(), &mut out), Ok(()));
            prop_assert_eq!(out, bytes);
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
