//! TKEY: setting up a shared key (RFC 2930 §2).
//!
//! Occurs only in messages; the text form is for display.
//!
//! | bytes | field |
//! |---|---|
//! | n | Algorithm: what the key is for |
//! | 4 | Inception: not valid before |
//! | 4 | Expiration: not valid after |
//! | 2 | Mode: how the key is agreed on |
//! | 2 | Error: an extended RCODE |
//! | 2+n | Key: the key data |
//! | 2+n | Other: not used |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rdata::mnemonic::ERRORS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::TKEY,
    &[
        Field::new("Algorithm", Kind::Name(NameRule::Plain)),
        Field::new("Inception", Kind::Time),
        Field::new("Expiration", Kind::Time),
        Field::new("Mode", Kind::U16),
        Field::new("Error", Kind::Mnemonic16(ERRORS)),
        Field::new("Key", Kind::SizedBase64),
        Field::new("Other", Kind::SizedBase64),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::TKEY,
            r#"gss.microsoft.com. 20030322173103 20030322173103 3 NOERROR 3 AQID 0"#,
            &hex("03677373096d6963726f736f667403636f6d003e7c9dd73e7c9dd70003000000030102030000"),
        );
    }
}
