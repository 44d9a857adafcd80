//! MF: a mail forwarder, obsolete (RFC 1035 §3.3.5).
//!
//! | bytes | field |
//! |---|---|
//! | n | MADNAME: the host |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::MF, &[Field::new("MADNAME", Kind::Name(NameRule::Compress))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::MF, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
