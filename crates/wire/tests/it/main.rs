//! Tests of record data that go over all types at once: round trips, hostile input, other implementations.

mod arbitrary;
mod domain;
mod hickory;
mod hostile;
mod round_trip;

use wire::rdata::{TextFault, parse_text, write_text};
use wire::text::{Token, tokens};
use wire::{Name, Type};

/// Every type with a form of its own.
fn known_types() -> impl Iterator<Item = Type> {
    wire::rr::TYPES.iter().map(|&(t, _)| t).filter(|&t| wire::rdata::layout(t).is_some())
}

/// Reads text with the origin `example.com.`.
fn read(t: Type, text: &str) -> Result<Vec<u8>, TextFault> {
    let list: Vec<Token<'_>> = tokens(text).collect();
    let mut out = Vec::new();
    parse_text(t, &list, Name::from_wire(b"\x07example\x03com\0").ok(), &mut out).map(|()| out)
}

fn written(t: Type, rdata: &[u8]) -> String {
    let mut text = String::new();
    write_text(t, rdata, &mut text).expect("a String takes everything");
    text
}
