//! WALLET: an address to pay to (IANA registry; Paul Hoffman, 2024).
//!
//! Same form as TXT.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::WALLET, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::WALLET, r#""ETH" "b""#, &hex("034554480162"));
    }
}
