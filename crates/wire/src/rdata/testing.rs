//! Helpers of the types' unit tests: text against wire form, in both directions.

use super::{TextFaultKind, parse_text, validate, write_text};
use crate::name::Name;
use crate::rr::Type;
use crate::text::{Token, tokens};

const ORIGIN: &[u8] = b"\x07example\x03com\0";

/// Parses `text` with the origin `example.com.`.
pub(crate) fn parse(t: Type, text: &str) -> Result<Vec<u8>, TextFaultKind> {
    parse_at(t, text).map_err(|(_, kind)| kind)
}

/// Parses `text`; an error includes the index of its token.
pub(crate) fn parse_at(t: Type, text: &str) -> Result<Vec<u8>, (usize, TextFaultKind)> {
    let list: Vec<Token<'_>> = tokens(text).collect();
    let mut out = vec![0xaa];
    match parse_text(t, &list, Name::from_wire(ORIGIN).ok(), &mut out) {
        Ok(()) => Ok(out.split_off(1)),
        Err(fault) => {
            assert_eq!(out, [0xaa], "what was there before stays");
            Err((fault.token, fault.kind))
        }
    }
}

/// Writes `wire` as text.
pub(crate) fn write(t: Type, wire: &[u8]) -> String {
    let mut text = String::new();
    write_text(t, wire, &mut text).expect("a String takes everything");
    text
}

/// Asserts that `text` parses to `wire`, and `wire` is written as `text`.
#[track_caller]
pub(crate) fn both(t: Type, text: &str, wire: &[u8]) {
    reads(t, text, wire);
    assert_eq!(write(t, wire), text);
}

/// Asserts that `text` parses to `wire`, that this is valid, and that the text written for it parses back.
#[track_caller]
pub(crate) fn reads(t: Type, text: &str, wire: &[u8]) {
    let read = parse(t, text).unwrap_or_else(|fault| panic!("{t} {text}: {fault}"));
    assert_eq!(read, wire, "{t} {text}");
    assert_eq!(validate(t, wire), Ok(()), "{t} {text}");
    assert_eq!(parse(t, &write(t, wire)).as_deref(), Ok(wire), "{t} {text}");
}

/// Bytes from hex, ignoring white space.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}
