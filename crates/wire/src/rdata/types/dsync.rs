//! DSYNC: where a child notifies its parent of changes (RFC 9859 §2).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | RRtype: the type the entry is for |
//! | 1 | Scheme: how to notify |
//! | 2 | Port: the port |
//! | n | Target: the host |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::DSYNC,
    &[
        Field::new("RRtype", Kind::Type),
        Field::new("Scheme", Kind::Mnemonic8Named(SCHEMES)),
        Field::new("Port", Kind::U16),
        Field::new("Target", Kind::Name(NameRule::Plain)),
    ],
);

/// Schemes (RFC 9859 §6.2).
const SCHEMES: &[(u8, &str)] = &[(1, "NOTIFY")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::DSYNC,
            r#"CDS NOTIFY 5359 cds-scanner.example.net."#,
            &hex("003b0114ef0b6364732d7363616e6e6572076578616d706c65036e657400"),
        );
        both(Type::DSYNC, r#"CSYNC 129 53 host.example."#, &hex("003e81003504686f7374076578616d706c6500"));
    }
}
