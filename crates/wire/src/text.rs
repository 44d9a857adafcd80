//! Elements of zone file text (RFC 1035 §5.1): tokens, escapes, names, numbers, addresses, encodings.
//!
//! Parses single tokens and writes strings; re-exports the parsing and writing of names and escapes. Other
//! modules split a file into tokens with parentheses and comments (the zone scanner), and determine the
//! tokens of a record type ([`crate::rdata`]).

mod address;
mod encoding;
mod number;

use std::fmt;

pub use crate::escape::{BadEscape, unescape};
pub(crate) use crate::escape::{unescape_one, write_ascii, write_escaped};
pub use crate::name::text::{name, write_name};
pub use address::{ipv4, ipv6};
pub use encoding::{BadEncoding, Base32Hex, Base64, Hex, write_base32hex, write_base64, write_hex};
pub use number::{decimal, duration, time, write_decimal, write_time};

/// One token of a record's text.
///
/// A leading quotation mark makes the token quoted; its `bytes` are those between the marks. A quotation mark
/// inside an unquoted token stays in `bytes` with everything up to the closing mark, including white space:
/// `alpn="h2 h3"` is one token of twelve bytes (RFC 9460 §2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The bytes as written: with escapes, without the enclosing quotation marks.
    pub bytes: &'a [u8],
    /// Whether the token was quoted.
    pub quoted: bool,
}

/// Splits one line into tokens; handles quotes and escapes, but neither comments nor parentheses.
///
/// For the text of one record's RDATA; the zone scanner reads zone files.
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

/// Length up to the first unescaped quotation mark, or to the end.
fn quoted_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at).filter(|&&byte| byte != b'"') {
        at += if byte == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// Writes a string in quotation marks, escaped so that any reader gets the same bytes.
pub fn write_quoted(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str("\"")?;
    write_escaped(bytes, to, |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))?;
    to.write_str("\"")
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

    proptest! {
        #[test]
        fn strings_read_back(bytes: Vec<u8>) {
            let mut text = String::new();
            prop_assert!(write_quoted(&bytes, &mut text).is_ok());
            let token = tokens(&text).next();
            let mut out = Vec::new();
            prop_assert_eq!(unescape(token.map(|t| t.bytes).unwrap_or_default(), &mut out), Ok(()));
            prop_assert_eq!(out, bytes);
        }
    }
}
