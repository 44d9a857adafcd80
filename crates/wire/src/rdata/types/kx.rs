//! KX: a key exchanger (RFC 2230 §3.1).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | PREFERENCE: the lower one is tried first |
//! | n | EXCHANGER: the host |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::KX,
    &[Field::new("PREFERENCE", Kind::U16), Field::new("EXCHANGER", Kind::Name(NameRule::Lower))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::KX, r#"10 kx-host.example."#, &hex("000a076b782d686f7374076578616d706c6500"));
    }
}
