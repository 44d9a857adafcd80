//! X25: a PSDN address (RFC 1183 §3.1).
//!
//! | octets | field |
//! |---|---|
//! | 1+n | PSDN-address: digits of X.121, four at least |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::X25, &[Field::new("PSDN-address", Kind::String)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::X25, r#""311061700956""#, &hex("0c333131303631373030393536"));
    }
}
