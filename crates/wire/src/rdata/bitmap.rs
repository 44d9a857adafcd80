//! Type bit maps: the set of types at a name, in windows of 256 (RFC 4034 §4.1.2).

use std::fmt;

use super::fault::TextFaultKind;
use super::parse::Cursor;
use crate::malformed::Malformed;
use crate::rr::Type;
use crate::text::write_ascii;

/// Most bytes of the map of one window.
const MAX_WINDOW_BYTES: usize = 32;

/// Checks that windows ascend, hold 1 to 32 bytes and do not end with a zero byte.
pub(super) fn validate(mut map: &[u8]) -> Result<(), Malformed> {
    let mut next_window = 0;
    while let [window, len, rest @ ..] = map {
        let bytes = rest.get(..*len as usize).ok_or(Malformed)?;
        if (*window as usize) < next_window
            || bytes.len() > MAX_WINDOW_BYTES
            || bytes.last().is_none_or(|&last| last == 0)
        {
            return Err(Malformed);
        }
        next_window = *window as usize + 1;
        map = &rest[bytes.len()..];
    }
    if map.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// The types at a name (RFC 4034 §4.1.2), as in NSEC, NSEC3 and CSYNC: for each window of 256 types with any
/// types, its number, the length of its map, and the map, whose bits count from the left.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TypeBitmap<'a>(&'a [u8]);

impl<'a> TypeBitmap<'a> {
    /// Parses `map`: windows ascend, hold 1 to 32 bytes and do not end with a zero byte.
    pub fn read(map: &'a [u8]) -> Result<Self, Malformed> {
        validate(map).map(|()| TypeBitmap(map))
    }

    /// The windows with their numbers.
    fn windows(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut map = self.0;
        std::iter::from_fn(move || {
            let [window, len, rest @ ..] = map else { return None };
            let (bytes, later) = rest.split_at_checked(*len as usize)?;
            map = later;
            Some((*window, bytes))
        })
    }

    /// The types, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Type> + use<'a> {
        self.windows().flat_map(|(window, bytes)| {
            bytes.iter().enumerate().flat_map(move |(i, &byte)| {
                (0..8)
                    .filter(move |bit| byte & 0x80 >> bit != 0)
                    .map(move |bit| Type((window as u16) << 8 | (i as u16) << 3 | bit))
            })
        })
    }

    /// Whether the map contains `t`.
    pub fn contains(self, t: Type) -> bool {
        let [window, low] = t.0.to_be_bytes();
        let bytes = self.windows().find(|&(number, _)| number == window).map_or(&[][..], |(_, bytes)| bytes);
        bytes.get(low as usize / 8).is_some_and(|byte| byte & 0x80 >> (low % 8) != 0)
    }
}

impl fmt::Debug for TypeBitmap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Reads mnemonics up to the last token, in any order.
pub(super) fn parse(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let mut window = [0u8; MAX_WINDOW_BYTES];
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

/// [`parse`] for maps with types above 255: uses a map of all types.
#[cold]
fn parse_high(cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    let mut windows = [0u8; 65_536 / 8];
    while !cursor.at_end() {
        let Type(number) = cursor.rtype()?;
        set(&mut windows, number);
    }
    for (number, window) in (0..=u8::MAX).zip(windows.chunks(MAX_WINDOW_BYTES)) {
        push_window(number, window, out);
    }
    Ok(())
}

fn set(map: &mut [u8], number: u16) {
    map[number as usize / 8] |= 0x80 >> (number % 8);
}

fn push_window(number: u8, window: &[u8], out: &mut Vec<u8>) {
    if let Some(last) = window.iter().rposition(|&byte| byte != 0) {
        out.extend_from_slice(&[number, last as u8 + 1]);
        out.extend_from_slice(&window[..=last]);
    }
}

/// Writes the mnemonics with spaces between them.
pub(super) fn write(map: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
    for (i, t) in TypeBitmap(map).iter().enumerate() {
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
        fn sets_read_back(
            numbers in prop::collection::vec(prop_oneof![0u16..256, any::<u16>()], 0..12),
            probes: [u16; 8],
        ) {
            let text = numbers.iter().map(|n| format!(" TYPE{n}")).collect::<String>();
            let rdata = parse_type(Type::NSEC, &format!(".{text}")).expect("a map");
            prop_assert_eq!(validate(&rdata[1..]), Ok(()));
            let set: std::collections::BTreeSet<Type> = numbers.iter().copied().map(Type).collect();
            let probes = probes.into_iter().chain(numbers);
            let map = TypeBitmap::read(&rdata[1..]).expect("a map");
            prop_assert!(map.iter().eq(set.iter().copied()));
            for n in (0..600).chain(probes) {
                prop_assert_eq!(map.contains(Type(n)), set.contains(&Type(n)), "{}", n);
            }
        }
    }
}
