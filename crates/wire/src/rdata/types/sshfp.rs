//! SSHFP: the fingerprint of an SSH host key (RFC 4255 §3.1, RFC 6594).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | algorithm: of the key |
//! | 1 | fp type: how the fingerprint was made |
//! | n | fingerprint: the fingerprint |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::SSHFP,
    &[
        Field::new("algorithm", Kind::U8),
        Field::new("fp type", Kind::U8),
        Field::new("fingerprint", Kind::Hex(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::SSHFP,
            r#"2 1 123456789ABCDEF67890123456789ABCDEF67890"#,
            &hex("0201123456789abcdef67890123456789abcdef67890"),
        );
    }
}
