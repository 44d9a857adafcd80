//! SPF: sender policy, obsolete (RFC 7208 §3.1).
//!
//! Same form as TXT.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::SPF, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::SPF, r#""v=spf1 -all" "b""#, &hex("0b763d73706631202d616c6c0162"));
    }
}
