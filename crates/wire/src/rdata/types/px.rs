//! PX: X.400 mail mapping (RFC 2163 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | PREFERENCE: the lower one is tried first |
//! | n | MAP822: the domain of RFC 822 |
//! | n | MAPX400: the domain of X.400 |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::PX,
    &[
        Field::new("PREFERENCE", Kind::U16),
        Field::new("MAP822", Kind::Name(NameRule::Lower)),
        Field::new("MAPX400", Kind::Name(NameRule::Lower)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::PX,
            r#"50 ab.net2.it. O-ab.PRMD-net2.ADMDb.C-it."#,
            &hex("0032026162046e65743202697400044f2d61620950524d442d6e6574320541444d446204432d697400"),
        );
    }
}
