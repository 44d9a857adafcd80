//! AFSDB: a database server of a cell (RFC 1183 §1, RFC 5864).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | subtype: 1 for AFS, 2 for DCE |
//! | n | hostname: the server |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::AFSDB,
    &[Field::new("subtype", Kind::U16), Field::new("hostname", Kind::Name(NameRule::Lower))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::AFSDB,
            r#"1 bigbird.toaster.com."#,
            &hex("0001076269676269726407746f617374657203636f6d00"),
        );
    }
}
