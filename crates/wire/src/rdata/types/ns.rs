//! NS: a name server of the zone (RFC 1035 §3.3.11).
//!
//! | bytes | field |
//! |---|---|
//! | n | NSDNAME: the server |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::NS, &[Field::new("NSDNAME", Kind::Name(NameRule::Compress))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::NS, r#"host.example.net."#, &hex("04686f7374076578616d706c65036e657400"));
    }
}
