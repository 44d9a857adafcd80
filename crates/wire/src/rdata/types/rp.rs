//! RP: the responsible person of a name (RFC 1183 §2.2).
//!
//! | bytes | field |
//! |---|---|
//! | n | mbox-dname: a mailbox, or the root |
//! | n | txt-dname: a name with TXT records, or the root |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::RP,
    &[
        Field::new("mbox-dname", Kind::Name(NameRule::Lower)),
        Field::new("txt-dname", Kind::Name(NameRule::Lower)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::RP,
            r#"louie.trantor.umd.edu. LAM1.people.umd.edu."#,
            &hex("056c6f756965077472616e746f7203756d640365647500044c414d310670656f706c6503756d640365647500"),
        );
    }
}
