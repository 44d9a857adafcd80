//! IPN: a node number of the bundle protocol (draft-johnson-dns-ipn-cla).
//!
//! | bytes | field |
//! |---|---|
//! | 8 | node number: decimal |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::IPN, &[Field::new("node number", Kind::U64)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::IPN, r#"18446744073709551615"#, &hex("ffffffffffffffff"));
        both(Type::IPN, r#"5"#, &hex("0000000000000005"));
    }
}
