//! CNAME: the name that this name is an alias of (RFC 1035 §3.3.1).
//!
//! | bytes | field |
//! |---|---|
//! | n | CNAME: the canonical name |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::CNAME, &[Field::new("CNAME", Kind::Name(NameRule::Compress))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::CNAME, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
