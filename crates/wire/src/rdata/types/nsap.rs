//! NSAP: an address of the OSI network layer (RFC 1706 §5).
//!
//! | bytes | field |
//! |---|---|
//! | n | NSAP: the address; in text `0x` and hex digits, dots anywhere between them |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::{self, Hex};

pub(super) static LAYOUT: Layout = Layout::new(Type::NSAP, &[Field::new("NSAP", Kind::Special(&DottedHex))]);

struct DottedHex;

impl Special for DottedHex {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        if rest.is_empty() { Err(Malformed) } else { Ok(rest.len()) }
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let Some((b"0x" | b"0X", digits)) = cursor.word()?.split_at_checked(2) else {
            return Err(TextFaultKind::BadForm("0x and hex digits"));
        };
        let (start, mut reader) = (out.len(), Hex::default());
        for part in digits.split(|&byte| byte == b'.') {
            reader.feed(part, out)?;
        }
        reader.finish()?;
        if out.len() == start { Err(TextFaultKind::BadHex) } else { Ok(()) }
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        to.write_str("0x")?;
        text::write_hex(bytes, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads};

    #[test]
    fn examples_read_and_write() {
        let wire = hex("47 0005 80 005a00 0000 0001 e133 ffffff000161 00");
        reads(Type::NSAP, "0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00", &wire);
        both(Type::NSAP, "0x47000580005A0000000001E133FFFFFF00016100", &wire);
        for bad in ["47", "0x", "0x4", "0x4g", "0x."] {
            assert!(parse(Type::NSAP, bad).is_err(), "{bad}");
        }
        assert!(LAYOUT.validate(b"").is_err());
    }
}
