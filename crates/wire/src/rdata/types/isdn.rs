//! ISDN: a telephone number (RFC 1183 §3.2).
//!
//! | bytes | field |
//! |---|---|
//! | 1+n | ISDN-address: the number with direct dial-in |
//! | 0 or 1+n | sa: the subaddress |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::ISDN,
    &[Field::new("ISDN-address", Kind::String), Field::new("sa", Kind::OptionalString)],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::ISDN, r#""150862028003217" "004""#, &hex("0f31353038363230323830303332313703303034"));
        both(Type::ISDN, r#""150862028003217""#, &hex("0f313530383632303238303033323137"));
    }
}
