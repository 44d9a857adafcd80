//! NXT: the next name of the zone in the first DNSSEC (RFC 2535 §5), superseded by NSEC.
//!
//! | bytes | field |
//! |---|---|
//! | n | next domain name, lower case in canonical form |
//! | 1–16 | type bit map: one bit for each of the types 1 to 127 from the left; bit 0 is zero |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, NameRule, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NXT,
    &[
        Field::new("next domain name", Kind::Name(NameRule::Lower)),
        Field::new("type bit map", Kind::Special(&OldBitmap)),
    ],
);

/// Bytes that hold the types below 128.
const MAX_BITMAP_BYTES: usize = 16;

struct OldBitmap;

impl Special for OldBitmap {
    /// Bit 0 would indicate another format, which was never defined (RFC 2535 §5.2).
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        let well_formed =
            rest.len() <= MAX_BITMAP_BYTES && rest.first().is_none_or(|&first| first & 0x80 == 0);
        if well_formed { Ok(rest.len()) } else { Err(Malformed) }
    }

    /// Text lists the types, but not how many zero bytes follow them.
    fn has_text(&self, bytes: &[u8]) -> bool {
        bytes.last() != Some(&0)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let mut map = [0u8; MAX_BITMAP_BYTES];
        while !cursor.at_end() {
            match cursor.rtype()?.0 {
                number @ 1..=127 => map[number as usize / 8] |= 0x80 >> (number % 8),
                _ => return Err(TextFaultKind::OutOfRange { min: 1, max: 127 }),
            }
        }
        let len = map.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        out.extend_from_slice(&map[..len]);
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let types = (0u16..).zip(bytes).flat_map(|(i, &byte)| {
            (0..8).filter(move |bit| byte & 0x80 >> bit != 0).map(move |bit| Type(i * 8 + bit))
        });
        for (i, t) in types.enumerate() {
            write!(to, "{}{t}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse};

    #[test]
    fn examples_read_and_write() {
        // RFC 2535 §5.2's example: big.foo.tld. NXT medium.foo.tld. A MX SIG NXT.
        let wire = [&b"\x06medium\x03foo\x03tld\0"[..], &hex("40010082")].concat();
        both(Type::NXT, "medium.foo.tld. A MX SIG NXT", &wire);
        assert_eq!(parse(Type::NXT, ". URI"), Err(TextFaultKind::OutOfRange { min: 1, max: 127 }));
        assert!(LAYOUT.validate(b"\0\x80").is_err());
    }
}
