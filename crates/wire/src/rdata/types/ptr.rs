//! PTR: a pointer to another place in the name space (RFC 1035 §3.3.12).
//!
//! | bytes | field |
//! |---|---|
//! | n | PTRDNAME: the name |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::PTR, &[Field::new("PTRDNAME", Kind::Name(NameRule::Compress))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::PTR, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
