//! SRV: the server of a service (RFC 2782).
//!
//! The target must not be compressed; RFC 2782 changed this from RFC 2052.
//!
//! | bytes | field |
//! |---|---|
//! | 2 | Priority: the lowest is used first |
//! | 2 | Weight: share among those of one priority |
//! | 2 | Port: the port |
//! | n | Target: the host, or the root if there is no service |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::SRV,
    &[
        Field::new("Priority", Kind::U16),
        Field::new("Weight", Kind::U16),
        Field::new("Port", Kind::U16),
        Field::new("Target", Kind::Name(NameRule::Lower)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::SRV,
            r#"0 5 5060 sip.example.com."#,
            &hex("0000000513c403736970076578616d706c6503636f6d00"),
        );
    }
}
