//! Escapes in zone file text (RFC 1035 §5.1): resolving and writing `\X` and `\DDD`.

use std::fmt;

/// `\` at the end, or `\DDD` that is not a number up to 255 (RFC 1035 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEscape;

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

/// Reads the first byte, resolving its escape; returns it with the number of text bytes read.
///
/// An empty `text` is a [`BadEscape`].
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
        // Some readers treat `\[` as a bit-string label (RFC 2673), which is obsolete.
        if matches!(byte, 0x21..=0x7e) && byte != b'[' {
            write_ascii(&[b'\\', byte], to)?;
        } else {
            write_ascii(&[b'\\', b'0' + byte / 100, b'0' + byte / 10 % 10, b'0' + byte % 10], to)?;
        }
        rest = &rest[run + 1..];
    }
    Ok(())
}

/// Writes ASCII bytes; other bytes are an error.
pub(crate) fn write_ascii(bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str(std::str::from_utf8(bytes).map_err(|_| fmt::Error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
