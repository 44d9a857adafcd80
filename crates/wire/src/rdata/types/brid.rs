//! BRID: what is broadcast for remote identification (RFC 9886 §5.2).
//!
//! The CBOR inside is not validated.
//!
//! | bytes | field |
//! |---|---|
//! | n | data: CBOR |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::BRID, &[Field::new("data", Kind::Base64(1))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::BRID, r#"gwppAQI="#, &hex("830a690102"));
    }
}
