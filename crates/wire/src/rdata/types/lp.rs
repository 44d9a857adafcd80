//! LP: the name of a network with locators (RFC 6742 §2.4).
//!
//! Not to be compressed.
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Preference: the lower one is tried first |
//! | n | FQDN: the network |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::LP,
    &[Field::new("Preference", Kind::U16), Field::new("FQDN", Kind::Name(NameRule::Plain))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::LP,
            r#"10 l64-subnet1.example.com."#,
            &hex("000a0b6c36342d7375626e657431076578616d706c6503636f6d00"),
        );
    }
}
