//! UID: reserved (IANA registry), without a document.
//!
//! | bytes | field |
//! |---|---|
//! | n | DATA: anything |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::UID, &[Field::new("DATA", Kind::Opaque)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::UID, r#"\# 3 00FF41"#, &hex("00ff41"));
        both(Type::UID, r#"\# 0"#, &hex(""));
    }
}
