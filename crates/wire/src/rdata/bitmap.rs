//! Type bit maps: the set of types at a name, in windows of 256 (RFC 4034 §4.1.2).

use std::fmt;

use super::BadRdata;
use super::fault::TextFaultKind;
use super::parse::Cursor;
use crate::rr::Type;
use crate::text::write_ascii;

/// Octets of the map of one whole window.
const WINDOW: usize = 32;

/// Checks that windows ascend, hold 1 to 32 octets and do not end with a zero octet.
pub(super) fn validate(mut map: &[u8]) -> Result<(), BadRdata> {
    let mut next_window = 0;
    while let [window, len, rest @ ..] = map {
        let octets = rest.get(..*len as usize).ok_or(BadRdata)?;
        if (*window as usize) < next_window
            || octets.len() > WINDOW
            || octets.last().is_none_or(|&last| last == 0)
        {
            return Err(BadRdata);
        }
        next_window = *window as usize + 1;
        map = &rest[octets.len()..];
    }
    if map.is_empty() { Ok(()) } else { Err(BadRdata) }
}

/// The types in a valid map, in ascending order.
pub(crate) fn types(mut map: &[u8]) -> impl Iterator<Item = Type> {
    std::iter::from_fn(move || {
        let [window, len, rest @ ..] = map else { return None };
        let (octets, later) = rest.split_at_checked(*len as usize)?;
        map = later;
        Some((*window, octets))
    })
    .flat_map(|(window, octets)| {
        octets.iter().enumerate().flat_map(move |(i, &octet)| {
            (0..8)
                .filter(move |bit| octet & 0x80 >> bit != 0)
                .map(move |bit| Type((window as u16) << 8 | (i as u16) << 3 | bit))
        })
    })
}

/// Reads mnemonics up to the last token, in any order.
pub(super) fn parse(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let mut window = [0u8; WINDOW];
    let first = cursor.position();
    while !cursor.at_end() {
        let Type(number) = cursor.rtype()?;
        if number > 255 {
            cursor.go_back_to(first);
            return parse_high(cursor, out);
        }
        set(&mut window, number);
    }
    push_window(0, &window, out);
    Ok(())
}

/// [`parse`] for maps with types above 255: the whole number space at once.
#[cold]
fn parse_high(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let mut windows = [0u8; 65_536 / 8];
    while !cursor.at_end() {
        let Type(number) = cursor.rtype()?;
        set(&mut windows, number);
    }
    for (number, window) in (0..=u8::MAX).zip(windows.chunks(WINDOW)) {
        push_window(number, window, out);
    }
    Ok(())
}

fn set(map: &mut [u8], number: u16) {
    map[number as usize / 8] |= 0x80 >> (number % 8);
}

fn push_window(number: u8, window: &[u8], out: &mut Vec<u8>) {
    if let Some(last) = window.iter().rposition(|&octet| octet != 0) {
        out.extend_from_slice(&[number, last as u8 + 1]);
        out.extend_from_slice(&window[..=last]);
    }
}

/// Writes the mnemonics with spaces between them.
pub(super) fn write(map: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    for (i, t) in types(map).enumerate() {
        if i > 0 {
            write_ascii(b" ", to)?;
        }
        write!(to, "{t}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rdata::testing::{hex, parse as parse_type};

    #[test]
    fn windows_are_checked() {
        for (map, ok) in [
            ("", true),
            ("0001 40", true),
            ("0001 40 0101 01", true),
            ("0001 40 0001 40", false),
            ("0101 40 0001 40", false),
            ("0000", false),
            ("0001 00", false),
            ("0002 4000", false),
            ("0002 40", false),
            ("00", false),
            ("0021 000000000000000000000000000000000000000000000000000000000000000001", false),
        ] {
            assert_eq!(validate(&hex(map)).is_ok(), ok, "{map}");
        }
    }

    proptest! {
        #[test]
        fn sets_read_back(numbers in prop::collection::vec(prop_oneof![0u16..256, any::<u16>()], 0..12)) {
            let text = numbers.iter().map(|n| format!(" TYPE{n}")).collect::<String>();
            let rdata = parse_type(Type::NSEC, &format!(".{text}")).expect("a map");
            prop_assert_eq!(validate(&rdata[1..]), Ok(()));
            let set: std::collections::BTreeSet<Type> = numbers.into_iter().map(Type).collect();
            prop_assert_eq!(types(&rdata[1..]).collect::<Vec<_>>(), set.into_iter().collect::<Vec<_>>());
        }
    }
}
