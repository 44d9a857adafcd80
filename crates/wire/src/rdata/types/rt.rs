//! RT: a host that routes to this one (RFC 1183 §3.3).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | preference: the lower one is tried first |
//! | n | intermediate-host: the host |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::RT,
    &[Field::new("preference", Kind::U16), Field::new("intermediate-host", Kind::Name(NameRule::Lower))],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::RT, r#"2 relay.prime.com."#, &hex("00020572656c6179057072696d6503636f6d00"));
    }
}
