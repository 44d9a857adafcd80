//! NULL: arbitrary bytes, experimental (RFC 1035 §3.3.10).
//!
//! RFC 1035 does not allow it in zone files; the generic form of RFC 3597 supports it.
//!
//! | bytes | field |
//! |---|---|
//! | n | DATA: any bytes |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::NULL, &[Field::new("DATA", Kind::Opaque)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::NULL, r#"\# 3 00FF41"#, &hex("00ff41"));
        both(Type::NULL, r#"\# 0"#, &hex(""));
    }
}
