//! MG: a member of a mail group, experimental (RFC 1035 §3.3.6).
//!
//! | bytes | field |
//! |---|---|
//! | n | MGMNAME: the mailbox |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::MG, &[Field::new("MGMNAME", Kind::Name(NameRule::Compress))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::MG, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
