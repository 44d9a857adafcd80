//! X25: a PSDN address (RFC 1183 §3.1).
//!
//! | bytes | field |
//! |---|---|
//! | 1+n | PSDN-address: digits of X.121, four at least |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::X25, &[Field::new("PSDN-address", Kind::String)]).with_check(four_digits);

/// An X.121 address has at least four digits: the network's number.
fn four_digits(rdata: &[u8]) -> Result<(), &'static str> {
    let is_address = rdata.len() > 4 && rdata[1..].iter().all(u8::is_ascii_digit);
    if is_address { Ok(()) } else { Err("not four digits or more") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse};
    use crate::rdata::validate;

    #[test]
    fn examples_read_and_write() {
        both(Type::X25, r#""311061700956""#, &hex("0c333131303631373030393536"));
    }

    #[test]
    fn digits_are_wanted() {
        assert!(parse(Type::X25, "311").is_err() && parse(Type::X25, "3110x").is_err());
        assert!(validate(Type::X25, b"\x033110").is_err());
    }
}
