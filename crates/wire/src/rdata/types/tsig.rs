//! TSIG: the signature of a message with a shared key (RFC 8945 §4.2).
//!
//! Occurs only in messages; the text form is for display.
//!
//! | bytes | field |
//! |---|---|
//! | n | Algorithm: of the MAC |
//! | 6 | Time Signed: seconds since 1970 |
//! | 2 | Fudge: seconds the clocks may differ |
//! | 2+n | MAC: the MAC |
//! | 2 | Original ID: ID of the message when signed |
//! | 2 | Error: an extended RCODE |
//! | 2+n | Other: the clock of the server for BADTIME |

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, NameRule, Special};
use crate::rdata::mnemonic::ERRORS;
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::write_decimal;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::TSIG,
    &[
        Field::new("Algorithm", Kind::Name(NameRule::Plain)),
        Field::new("Time Signed", Kind::Special(&U48)),
        Field::new("Fudge", Kind::U16),
        Field::new("MAC", Kind::SizedBase64),
        Field::new("Original ID", Kind::U16),
        Field::new("Error", Kind::Mnemonic16(ERRORS)),
        Field::new("Other", Kind::SizedBase64),
    ],
);

/// A 48-bit number, decimal (RFC 8945 §4.2).
struct Number48;
static U48: Number48 = Number48;

impl Special for Number48 {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        rest.first_chunk::<6>().map(|bytes| bytes.len()).ok_or(Malformed)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let number = cursor.number((1 << 48) - 1)?;
        out.extend_from_slice(&number.to_be_bytes()[2..]);
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        write_decimal(bytes.iter().fold(0, |value, &byte| value << 8 | byte as u64), to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::TSIG,
            r#"hmac-sha256. 1700000000 300 3 AQID 4660 BADTIME 6 AABlU/EA"#,
            &hex("0b686d61632d7368613235360000006553f100012c000301020312340012000600006553f100"),
        );
    }
}
