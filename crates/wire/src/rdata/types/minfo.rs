//! MINFO: the mailboxes responsible for a mailbox or list, experimental (RFC 1035 §3.3.7).
//!
//! | bytes | field |
//! |---|---|
//! | n | RMAILBX: the responsible mailbox |
//! | n | EMAILBX: the mailbox for error reports |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::MINFO,
    &[
        Field::new("RMAILBX", Kind::Name(NameRule::Compress)),
        Field::new("EMAILBX", Kind::Name(NameRule::Compress)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::MINFO,
            r#"gene.example.org. errs.example.org."#,
            &hex("0467656e65076578616d706c65036f7267000465727273076578616d706c65036f726700"),
        );
    }
}
