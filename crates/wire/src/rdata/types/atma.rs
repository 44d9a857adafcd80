//! ATMA: an ATM address (ATM Forum, ATM Name System Specification 2.0, af-dans-0152, July 2000).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | FORMAT: 0 for an ATM end system address, 1 for E.164 |
//! | n | ADDRESS: format 0: 20 bytes, in text hex digits with dots anywhere; format 1: digits, in text behind `+` |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::{self, Hex};

pub(super) static LAYOUT: Layout =
    Layout::new(Type::ATMA, &[Field::new("address", Kind::Special(&AtmAddress))]);

const END_SYSTEM: u8 = 0;
const E164: u8 = 1;

struct AtmAddress;

impl Special for AtmAddress {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        if rest.len() < 2 { Err(Malformed) } else { Ok(rest.len()) }
    }

    fn has_text(&self, bytes: &[u8]) -> bool {
        match bytes {
            [END_SYSTEM, ..] => true,
            [E164, digits @ ..] => digits.iter().all(u8::is_ascii_digit),
            _ => false,
        }
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let word = cursor.word()?;
        let start = out.len();
        if let [b'+', digits @ ..] = word {
            out.push(E164);
            out.extend(digits.iter().filter(|&&byte| byte != b'.'));
            if !out[start + 1..].iter().all(u8::is_ascii_digit) {
                return Err(TextFaultKind::BadForm("+ and digits, or hex digits"));
            }
        } else {
            out.push(END_SYSTEM);
            let mut reader = Hex::default();
            for part in word.split(|&byte| byte == b'.') {
                reader.feed(part, out)?;
            }
            reader.finish()?;
        }
        if out.len() - start < 2 {
            Err(TextFaultKind::BadForm("+ and digits, or hex digits"))
        } else {
            Ok(())
        }
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        match bytes {
            [E164, digits @ ..] => {
                to.write_str("+")?;
                text::write_ascii(digits, to)
            }
            [_, address @ ..] => text::write_hex(address, to),
            [] => Err(fmt::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads, write};

    #[test]
    fn examples_read_and_write() {
        let wire = hex("00 39246f 000e7c9c031200010001000012345678 00");
        reads(Type::ATMA, "39.246f.000e7c9c031200010001.000012345678.00", &wire);
        both(Type::ATMA, "39246F000E7C9C03120001000100001234567800", &wire);
        both(Type::ATMA, "+358400123456", b"\x01358400123456");
        reads(Type::ATMA, "+358.400.1234567", b"\x013584001234567");
        for bad in ["+", "+12a", "39.2", "."] {
            assert!(parse(Type::ATMA, bad).is_err(), "{bad}");
        }
        assert_eq!(write(Type::ATMA, &[2, 0]), r"\# 2 0200");
    }
}
