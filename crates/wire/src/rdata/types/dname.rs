//! DNAME: the tree that replaces everything below a name (RFC 6672 §2.1).
//!
//! Not to be compressed (RFC 6672 §2.5).
//!
//! | bytes | field |
//! |---|---|
//! | n | target: the root of the other tree |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::DNAME, &[Field::new("target", Kind::Name(NameRule::Lower))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::DNAME, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
