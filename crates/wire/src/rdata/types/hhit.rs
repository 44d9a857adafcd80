//! HHIT: a hierarchical host identity tag (RFC 9886 §5.1).
//!
//! The CBOR inside is not validated.
//!
//! | bytes | field |
//! |---|---|
//! | n | data: CBOR |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::HHIT, &[Field::new("data", Kind::Base64(1))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::HHIT, r#"gwppAQI="#, &hex("830a690102"));
    }
}
