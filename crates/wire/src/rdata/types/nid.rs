//! NID: a 64-bit ILNP node identifier (RFC 6742 §2.1).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Preference: the lower one is tried first |
//! | 8 | NodeID, in text four groups of hex with colons between |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NID,
    &[Field::new("Preference", Kind::U16), Field::new("NodeID", Kind::Special(&Groups))],
);

/// 64 bits as four groups of up to four hex digits, also used by L64.
pub(super) struct Groups;

impl Special for Groups {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        rest.first_chunk::<8>().map(|bytes| bytes.len()).ok_or(Malformed)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        const FORM: TextFaultKind =
            TextFaultKind::BadForm("four groups of one to four hex digits with colons between");
        let mut groups = cursor.word()?.split(|&byte| byte == b':');
        for _ in 0..4 {
            let group = groups.next().filter(|group| (1..=4).contains(&group.len())).ok_or(FORM)?;
            let digit = |value: u16, &byte: &u8| Some(value << 4 | (byte as char).to_digit(16)? as u16);
            let value = group.iter().try_fold(0, digit).ok_or(FORM)?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        if groups.next().is_none() { Ok(()) } else { Err(FORM) }
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        for (i, &group) in bytes.as_chunks::<2>().0.iter().enumerate() {
            let separator = if i > 0 { ":" } else { "" };
            write!(to, "{separator}{:04x}", u16::from_be_bytes(group))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads};

    #[test]
    fn examples_read_and_write() {
        both(Type::NID, "10 0014:4fff:ff20:ee64", &hex("000a 00144fffff20ee64"));
        reads(Type::NID, "10 14:4FFF:0:1", &hex("000a 00144fff00000001"));
        for bad in ["10 1:2:3", "10 1:2:3:4:5", "10 1::3:4", "10 1:2:3:45678", "10 1:2:3:g"] {
            assert!(parse(Type::NID, bad).is_err(), "{bad}");
        }
    }
}
