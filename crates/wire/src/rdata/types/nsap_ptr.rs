//! NSAP-PTR: the name of an NSAP address (RFC 1348 §4, RFC 1706 §6).
//!
//! | bytes | field |
//! |---|---|
//! | n | PTRDNAME: the name |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::NSAP_PTR, &[Field::new("PTRDNAME", Kind::Name(NameRule::Plain))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::NSAP_PTR, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
