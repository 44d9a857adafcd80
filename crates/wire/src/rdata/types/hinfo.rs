//! HINFO: the machine and system of a host (RFC 1035 §3.3.2), or the answer to ANY (RFC 8482 §4.2).
//!
//! | bytes | field |
//! |---|---|
//! | 1+n | CPU: the machine |
//! | 1+n | OS: the system |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::HINFO, &[Field::new("CPU", Kind::String), Field::new("OS", Kind::String)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::HINFO, r#""PDP-11/70" "UNIX""#, &hex("095044502d31312f373004554e4958"));
        both(Type::HINFO, r#""RFC8482" """#, &hex("075246433834383200"));
    }
}
