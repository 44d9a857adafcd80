//! SVCB: where and how to reach a service (RFC 9460).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | SvcPriority: 0 for an alias; the lowest value is used first |
//! | n | TargetName, never compressed |
//! | n | SvcParams: key, length and value of each, keys ascending |
//!
//! Text: `priority target [key[=value]]…` in any order. Values are character-strings, for some keys with
//! commas inside; the escapes of the list are nested in those of the string (RFC 9460 appendix A).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, NameRule, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::{self, Base64};

pub(super) static LAYOUT: Layout = Layout::new(Type::SVCB, FIELDS);

/// The fields of SVCB and HTTPS.
pub(super) const FIELDS: &[Field] = &[
    Field::new("SvcPriority", Kind::U16),
    Field::new("TargetName", Kind::Name(NameRule::Plain)),
    Field::new("SvcParams", Kind::Special(&Params)),
];

const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
/// "Invalid key" (RFC 9460 §14.3.2): never written by name, rejected in text.
const INVALID: u16 = 65_535;
/// Keys up to this, those of RFC 9460, are written by name. Readers older than a key only know it as `keyN`.
const LAST_NAMED: u16 = 6;

/// The format of a parameter's value.
#[derive(Clone, Copy)]
enum Value {
    /// Keys, ascending, without `mandatory` itself.
    Keys,
    /// Strings with a length byte each; `optional` if there may be none, which is an empty value.
    Strings { optional: bool },
    /// No value.
    Nothing,
    /// A 16-bit number.
    Port,
    /// 16-bit numbers, each once (RFC 9847 registry of groups).
    Groups,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Bytes, in base64.
    Base64,
    /// UTF-8, at least one byte (RFC 9461 §5).
    Text,
    /// Arbitrary bytes.
    Any,
}

/// Registered keys: IANA "DNS SVCB Service Parameter Keys"; RFC 9460 §7 and §8, RFC 9461, RFC 9540 and on.
const KEYS: &[(u16, &str, Value)] = &[
    (MANDATORY, "mandatory", Value::Keys),
    (ALPN, "alpn", Value::Strings { optional: false }),
    (NO_DEFAULT_ALPN, "no-default-alpn", Value::Nothing),
    (3, "port", Value::Port),
    (4, "ipv4hint", Value::Ipv4),
    (5, "ech", Value::Base64),
    (6, "ipv6hint", Value::Ipv6),
    (7, "dohpath", Value::Text),
    (8, "ohttp", Value::Nothing),
    (9, "tls-supported-groups", Value::Groups),
    (10, "docpath", Value::Strings { optional: true }),
];

fn form_of(key: u16) -> Value {
    KEYS.iter().find(|entry| entry.0 == key).map_or(Value::Any, |entry| entry.2)
}

/// The parameters on the wire, in order; `None` for the rest if it is truncated.
fn params(mut rest: &[u8]) -> impl Iterator<Item = Option<(u16, &[u8])>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let taken = rest.split_first_chunk::<4>().and_then(|(&[a, b, c, d], tail)| {
            let (value, tail) = tail.split_at_checked(u16::from_be_bytes([c, d]) as usize)?;
            Some((u16::from_be_bytes([a, b]), value, tail))
        });
        rest = taken.map_or(&[], |(.., tail)| tail);
        Some(taken.map(|(key, value, _)| (key, value)))
    })
}

fn has_key(bytes: &[u8], wanted: u16) -> bool {
    params(bytes).flatten().any(|(key, _)| key == wanted)
}

struct Params;

impl Special for Params {
    /// Checks that keys ascend, values have their format, and all keys in `mandatory` exist (RFC 9460 §2.2,
    /// §8).
    fn wire_len(&self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut least = 0;
        for param in params(bytes) {
            let (key, value) = param.ok_or(Malformed)?;
            if (key as u32) < least || !form_of(key).accepts(value) {
                return Err(Malformed);
            }
            least = key as u32 + 1;
        }
        mandatory_are_there(bytes).map_err(|_| Malformed)?;
        Ok(bytes.len())
    }

    fn has_text(&self, bytes: &[u8]) -> bool {
        // Text is stricter than the wire form: no-default-alpn alone is not self-consistent.
        !has_key(bytes, INVALID) && is_consistent(bytes).is_ok()
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let start = out.len();
        while !cursor.at_end() {
            let at = out.len();
            let key = param(cursor.word()?, out)?;
            insert(start, at, key, out)?;
        }
        mandatory_are_there(&out[start..]).and(is_consistent(&out[start..])).map_err(TextFaultKind::Rule)
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        for (i, param) in params(bytes).enumerate() {
            let (key, value) = param.ok_or(fmt::Error)?;
            if i > 0 {
                to.write_str(" ")?;
            }
            write_param(key, value, to)?;
        }
        Ok(())
    }
}

/// RFC 9460 §8: all keys in `mandatory` must exist.
fn mandatory_are_there(bytes: &[u8]) -> Result<(), &'static str> {
    let listed =
        params(bytes).flatten().find(|(key, _)| *key == MANDATORY).map_or(&[][..], |(_, value)| value);
    let (keys, _) = listed.as_chunks::<2>();
    let all_there = keys.iter().all(|&key| has_key(bytes, u16::from_be_bytes(key)));
    if all_there { Ok(()) } else { Err("a key listed in mandatory is missing") }
}

/// RFC 9460 §7.1.1: `no-default-alpn` only together with `alpn`.
fn is_consistent(bytes: &[u8]) -> Result<(), &'static str> {
    let lone = has_key(bytes, NO_DEFAULT_ALPN) && !has_key(bytes, ALPN);
    if lone { Err("no-default-alpn without alpn") } else { Ok(()) }
}

/// Moves the last parameter, at `at`, to its place among those from `start` on.
fn insert(start: usize, at: usize, key: u16, out: &mut [u8]) -> Result<(), TextFaultKind> {
    let mut place = start;
    for (other, value) in params(&out[start..at]).flatten() {
        match other.cmp(&key) {
            std::cmp::Ordering::Less => place += 4 + value.len(),
            std::cmp::Ordering::Equal => return Err(TextFaultKind::DuplicateSvcKey),
            std::cmp::Ordering::Greater => break,
        }
    }
    let len = out.len() - at;
    out[place..].rotate_right(len);
    Ok(())
}

/// Parses `key[=value]`, appends key, length and value, and returns the key.
fn param(word: &[u8], out: &mut Vec<u8>) -> Result<u16, TextFaultKind> {
    let (name, raw) = match word.iter().position(|&byte| byte == b'=') {
        Some(at) => (&word[..at], unquoted(&word[at + 1..])?),
        None => (word, &[][..]),
    };
    let named = KEYS.iter().find(|entry| entry.1.as_bytes() == name);
    let (key, form) = match named {
        Some(&(key, _, form)) => (key, form),
        None => (generic_key(name)?, Value::Any),
    };
    out.extend_from_slice(&key.to_be_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 2]);
    form.parse(raw, out)?;
    let len = u16::try_from(out.len() - length_at - 2).map_err(|_| TextFaultKind::TooLong)?;
    out[length_at..length_at + 2].copy_from_slice(&len.to_be_bytes());
    if !form_of(key).accepts(&out[length_at + 2..]) {
        return Err(TextFaultKind::BadForm("a value of the form that this key has"));
    }
    Ok(key)
}

/// `keyN`, without leading zeros (RFC 9460 §2.1).
fn generic_key(name: &[u8]) -> Result<u16, TextFaultKind> {
    let digits = name.strip_prefix(b"key").ok_or(TextFaultKind::UnknownSvcKey)?;
    let spelled = !digits.starts_with(b"0") || digits == b"0";
    let number = text::decimal(digits).filter(|_| spelled).and_then(|number| u16::try_from(number).ok());
    number.filter(|&key| key != INVALID).ok_or(TextFaultKind::UnknownSvcKey)
}

/// Removes the quotation marks around a value.
fn unquoted(raw: &[u8]) -> Result<&[u8], TextFaultKind> {
    let inner = match raw {
        [b'"', inner @ .., b'"'] => inner,
        _ => raw,
    };
    // Other quotation marks must be escaped.
    let mut rest = inner;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        match rest[at] {
            b'"' => return Err(TextFaultKind::Quoted),
            _ => rest = rest.get(at + 2..).ok_or(TextFaultKind::BadEscape)?,
        }
    }
    Ok(inner)
}

impl Value {
    /// Whether a value on the wire has this format.
    fn accepts(self, value: &[u8]) -> bool {
        match self {
            Value::Keys => {
                let (keys, rest) = value.as_chunks::<2>();
                rest.is_empty() && !keys.is_empty() && keys[0] != [0, 0] && keys.is_sorted_by(|a, b| a < b)
            }
            Value::Strings { optional } => {
                let mut rest = value;
                while let [len @ 1..=255, tail @ ..] = rest {
                    let Some(tail) = tail.get(*len as usize..) else { return false };
                    rest = tail;
                }
                rest.is_empty() && (optional || !value.is_empty())
            }
            Value::Nothing => value.is_empty(),
            Value::Port => value.len() == 2,
            Value::Groups => {
                let (groups, rest) = value.as_chunks::<2>();
                let once = groups.iter().enumerate().all(|(i, group)| !groups[..i].contains(group));
                // The limit on the number of groups bounds the quadratic search for repetitions.
                rest.is_empty() && !groups.is_empty() && groups.len() <= 1024 && once
            }
            Value::Ipv4 => !value.is_empty() && value.len().is_multiple_of(4),
            Value::Ipv6 => !value.is_empty() && value.len().is_multiple_of(16),
            Value::Base64 => !value.is_empty(),
            Value::Text => !value.is_empty() && std::str::from_utf8(value).is_ok(),
            Value::Any => true,
        }
    }

    /// Parses a value's raw text, with escapes, and appends its wire form.
    fn parse(self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        match self {
            Value::Nothing if raw.is_empty() => return Ok(()),
            Value::Nothing => return Err(TextFaultKind::UnexpectedSvcValue),
            Value::Any | Value::Strings { optional: true } if raw.is_empty() => return Ok(()),
            _ if raw.is_empty() => return Err(TextFaultKind::MissingSvcValue),
            Value::Any | Value::Text => text::unescape(raw, out)?,
            Value::Strings { .. } => return parse_strings(raw, out),
            Value::Port => out.extend_from_slice(&number(raw)?.to_be_bytes()),
            Value::Keys => return parse_keys(raw, out),
            Value::Groups => {
                for item in raw.split(|&byte| byte == b',') {
                    out.extend_from_slice(&number(item)?.to_be_bytes());
                }
            }
            Value::Ipv4 => {
                for item in raw.split(|&byte| byte == b',') {
                    out.extend_from_slice(&text::ipv4(item).ok_or(TextFaultKind::BadIpv4)?);
                }
            }
            Value::Ipv6 => {
                for item in raw.split(|&byte| byte == b',') {
                    out.extend_from_slice(&text::ipv6(item).ok_or(TextFaultKind::BadIpv6)?);
                }
            }
            Value::Base64 => {
                let mut reader = Base64::default();
                let fed = reader.feed(raw, out).and_then(|()| reader.finish());
                fed.map_err(|_| TextFaultKind::BadBase64)?;
            }
        }
        Ok(())
    }
}

fn number(digits: &[u8]) -> Result<u16, TextFaultKind> {
    let value = text::decimal(digits).ok_or(TextFaultKind::NotANumber)?;
    u16::try_from(value).map_err(|_| TextFaultKind::OutOfRange { min: 0, max: 65_535 })
}

/// Keys in any order, each once (RFC 9460 §8).
fn parse_keys(raw: &[u8], out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let start = out.len();
    for item in raw.split(|&byte| byte == b',') {
        let named = KEYS.iter().find(|entry| entry.1.as_bytes() == item).map(|entry| entry.0);
        let key = named.map_or_else(|| generic_key(item), Ok)?;
        if key == MANDATORY {
            return Err(TextFaultKind::Rule("mandatory must not list itself"));
        }
        let (keys, _) = out[start..].as_chunks::<2>();
        if keys.contains(&key.to_be_bytes()) {
            return Err(TextFaultKind::DuplicateSvcKey);
        }
        out.extend_from_slice(&key.to_be_bytes());
    }
    out[start..].as_chunks_mut::<2>().0.sort_unstable();
    Ok(())
}

/// Strings separated by commas; within the string's escapes, `\,` and `\\` mean `,` and `\` (RFC 9460
/// appendix A.1).
fn parse_strings(raw: &[u8], out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    const EMPTY: TextFaultKind = TextFaultKind::BadForm("a list of strings that are not empty");
    let (mut rest, mut escaped, mut length_at) = (raw, false, out.len());
    out.push(0);
    let end_item = |length_at: usize, out: &mut Vec<u8>| match out.len() - length_at - 1 {
        0 => Err(EMPTY),
        len => {
            out[length_at] = u8::try_from(len).map_err(|_| TextFaultKind::StringTooLong)?;
            Ok(())
        }
    };
    while !rest.is_empty() {
        let (byte, used) = text::unescape_one(rest)?;
        rest = &rest[used..];
        match byte {
            b',' if !escaped => {
                end_item(length_at, out)?;
                length_at = out.len();
                out.push(0);
            }
            b'\\' if !escaped => {
                escaped = true;
                continue;
            }
            _ if escaped && !matches!(byte, b',' | b'\\') => return Err(TextFaultKind::BadEscape),
            _ => out.push(byte),
        }
        escaped = false;
    }
    if escaped { Err(TextFaultKind::BadEscape) } else { end_item(length_at, out) }
}

fn write_key(key: u16, to: &mut dyn fmt::Write) -> fmt::Result {
    match KEYS.iter().find(|entry| entry.0 == key && key <= LAST_NAMED) {
        Some((_, name, _)) => to.write_str(name),
        None => write!(to, "key{key}"),
    }
}

fn write_param(key: u16, value: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    write_key(key, to)?;
    if value.is_empty() {
        return Ok(());
    }
    to.write_str("=")?;
    if key > LAST_NAMED {
        return text::write_quoted(value, to);
    }
    let separated = |i: usize, to: &mut dyn fmt::Write| if i > 0 { to.write_str(",") } else { Ok(()) };
    match form_of(key) {
        Value::Nothing => Ok(()),
        Value::Any | Value::Text => text::write_quoted(value, to),
        Value::Base64 => text::write_base64(value, to),
        Value::Strings { .. } => write_strings(value, to),
        Value::Keys => value.as_chunks::<2>().0.iter().enumerate().try_for_each(|(i, &key)| {
            separated(i, to)?;
            write_key(u16::from_be_bytes(key), to)
        }),
        Value::Port | Value::Groups => {
            value.as_chunks::<2>().0.iter().enumerate().try_for_each(|(i, &number)| {
                separated(i, to)?;
                text::write_decimal(u16::from_be_bytes(number) as u64, to)
            })
        }
        Value::Ipv4 => value.as_chunks::<4>().0.iter().enumerate().try_for_each(|(i, &address)| {
            separated(i, to)?;
            write!(to, "{}", Ipv4Addr::from(address))
        }),
        Value::Ipv6 => value.as_chunks::<16>().0.iter().enumerate().try_for_each(|(i, &address)| {
            separated(i, to)?;
            write!(to, "{}", Ipv6Addr::from(address))
        }),
    }
}

/// Writes strings separated by commas in quotation marks: a comma inside one becomes `\\,`, a backslash
/// `\\\\`.
fn write_strings(value: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    to.write_str("\"")?;
    let mut rest = value;
    while let [len, tail @ ..] = rest {
        let (string, tail) = tail.split_at_checked(*len as usize).ok_or(fmt::Error)?;
        for byte in string {
            match byte {
                b',' => to.write_str("\\\\,")?,
                b'\\' => to.write_str("\\\\\\\\")?,
                _ => text::write_escaped(&[*byte], to, |byte| matches!(byte, b' '..=b'~') && byte != b'"')?,
            }
        }
        if !tail.is_empty() {
            to.write_str(",")?;
        }
        rest = tail;
    }
    to.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, parse_at, reads, write};

    const FOO: &str = "03666f6f07657861 6d706c6503636f6d00";
    const FOO_ORG: &str = "03666f6f07657861 6d706c65036f726700";

    /// RFC 9460 appendix D.1 and D.2.
    #[test]
    fn examples_read_and_write() {
        let wire = |head: &str, name: &str, params: &str| hex(&[head, name, params].concat());
        both(Type::SVCB, "0 foo.example.com.", &wire("0000", FOO, ""));
        both(Type::SVCB, "1 .", &wire("0001", "00", ""));
        both(Type::SVCB, "16 foo.example.com. port=53", &wire("0010", FOO, "00030002 0035"));
        reads(Type::SVCB, "1 foo.example.com. key667=hello", &wire("0001", FOO, "029b0005 68656c6c6f"));
        both(
            Type::SVCB,
            r#"1 foo.example.com. key667="hello\210qoo""#,
            &wire("0001", FOO, "029b0009 68656c6c6fd2716f6f"),
        );
        both(
            Type::SVCB,
            "1 foo.example.com. ipv6hint=2001:db8::1,2001:db8::53:1",
            &wire("0001", FOO, "00060020 20010db8000000000000000000000001 20010db8000000000000000000530001"),
        );
        let sorted =
            wire("0010", FOO_ORG, "00000004 00010004 00010009 026832 0568332d3139 00040004 c0000201");
        both(
            Type::SVCB,
            r#"16 foo.example.org. mandatory=alpn,ipv4hint alpn="h2,h3-19" ipv4hint=192.0.2.1"#,
            &sorted,
        );
        reads(
            Type::SVCB,
            "16 foo.example.org. alpn=h2,h3-19 mandatory=ipv4hint,alpn ipv4hint=192.0.2.1",
            &sorted,
        );
        let escaped = wire("0010", FOO_ORG, "0001000c 08665c6f6f2c62617202 6832");
        reads(Type::SVCB, r#"16 foo.example.org. alpn="f\\\\oo\\,bar,h2""#, &escaped);
        reads(Type::SVCB, r"16 foo.example.org. alpn=f\\\092oo\092,bar,h2", &escaped);
        assert_eq!(write(Type::SVCB, &escaped), r#"16 foo.example.org. alpn="f\\\\oo\\,bar,h2""#);
    }

    /// RFC 9460 appendix D.3: invalid parameters.
    #[test]
    fn failures_are_named() {
        use TextFaultKind as Kind;
        let fault = |text: &str| parse_at(Type::SVCB, &format!("1 foo. {text}")).expect_err(text);
        assert_eq!(fault("key123=abc key123=def"), (3, Kind::DuplicateSvcKey));
        assert_eq!(fault("mandatory"), (2, Kind::MissingSvcValue));
        assert_eq!(fault("alpn"), (2, Kind::MissingSvcValue));
        assert_eq!(fault("port"), (2, Kind::MissingSvcValue));
        assert_eq!(fault("ipv4hint"), (2, Kind::MissingSvcValue));
        assert_eq!(fault("ipv6hint"), (2, Kind::MissingSvcValue));
        assert_eq!(fault("alpn=h2 no-default-alpn=abc"), (3, Kind::UnexpectedSvcValue));
        assert!(matches!(fault("mandatory=key123"), (2, Kind::Rule(_))));
        assert!(matches!(fault("mandatory=mandatory"), (2, Kind::Rule(_))));
        assert_eq!(fault("mandatory=key123,key123 key123=abc"), (2, Kind::DuplicateSvcKey));
        assert!(matches!(fault("no-default-alpn"), (2, Kind::Rule(_))));
        assert_eq!(fault("key65535=x"), (2, Kind::UnknownSvcKey));
        assert_eq!(fault("key007=x"), (2, Kind::UnknownSvcKey));
        assert_eq!(fault("nope=x"), (2, Kind::UnknownSvcKey));
        assert_eq!(fault("port=65536"), (2, Kind::OutOfRange { min: 0, max: 65_535 }));
        assert_eq!(fault("ipv4hint=192.0.2.1,"), (2, Kind::BadIpv4));
        assert_eq!(fault("ech=?"), (2, Kind::BadBase64));
        assert!(matches!(fault("alpn=h2,,h3"), (2, Kind::BadForm(_))));
        assert!(matches!(fault(r"key3=\001"), (2, Kind::BadForm(_))));
        assert_eq!(fault(r"alpn=a\\b"), (2, Kind::BadEscape));
    }

    #[test]
    fn later_keys_read_by_name_and_by_number() {
        let named =
            r#"1 . alpn=h2 ech=AQID dohpath=/dns-query{?dns} ohttp tls-supported-groups=29,23 docpath=dns,x"#;
        let numbered = r#"1 . alpn="h2" ech=AQID key7="/dns-query{?dns}" key8 key9="\000\029\000\023" key10="\003dns\001x""#;
        assert_eq!(parse(Type::SVCB, named), parse(Type::SVCB, numbered));
        assert_eq!(parse(Type::SVCB, named).map(|wire| write(Type::SVCB, &wire)), Ok(numbered.into()));
        assert!(parse(Type::SVCB, "1 . docpath").is_ok());
        assert!(parse(Type::SVCB, "1 . tls-supported-groups=29,29").is_err());
    }

    #[test]
    fn wire_is_checked() {
        for bad in [
            "00030002 0035 00030002 0035",
            "00040004 c0000201 00030002 0035",
            "00030001 35",
            "00030002 00",
            "000300",
            "00010000",
            "00010001 00",
            "00010003 036832",
            "00020001 00",
            "00040003 c00002",
            "00060000",
            "00000002 0000",
            "00000002 0003",
            "00000004 00030003 00030002 0035",
            "00050000",
            "00070000",
            "00070001 ff",
        ] {
            assert!(LAYOUT.validate(&hex(&["000100", bad].concat())).is_err(), "{bad}");
        }
        // Only in text, no-default-alpn needs alpn; key 65535 has no text.
        assert!(write(Type::SVCB, &hex("000100 00020000")).starts_with(r"\#"));
        assert!(write(Type::SVCB, &hex("000100 ffff0000")).starts_with(r"\#"));
    }
}
