//! TLSA: which certificate a TLS server has (RFC 6698 §2.1).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | certificate usage: how it limits what is accepted |
//! | 1 | selector: whole certificate or its key |
//! | 1 | matching type: as it is, or its digest |
//! | n | certificate association data: what to compare with |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::TLSA,
    &[
        Field::new("certificate usage", Kind::U8),
        Field::new("selector", Kind::U8),
        Field::new("matching type", Kind::U8),
        Field::new("certificate association data", Kind::Hex(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::TLSA,
            r#"0 0 1 D2ABDE240D7CD3EE6B4B28C54DF034B97983A1D16E8A410E4561CB106618E971"#,
            &hex("000001d2abde240d7cd3ee6b4b28c54df034b97983a1d16e8a410e4561cb106618e971"),
        );
    }
}
