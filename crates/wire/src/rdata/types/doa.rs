//! DOA: a digital object (draft-durand-doa-over-dns).
//!
//! | bytes | field |
//! |---|---|
//! | 4 | DOA-ENTERPRISE: the enterprise that defines the type |
//! | 4 | DOA-TYPE: the type |
//! | 1 | DOA-LOCATION: the location of the data |
//! | 1+n | DOA-MEDIA-TYPE: the media type |
//! | n | DOA-DATA: the data, in text `-` if there is none |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::DOA,
    &[
        Field::new("DOA-ENTERPRISE", Kind::U32),
        Field::new("DOA-TYPE", Kind::U32),
        Field::new("DOA-LOCATION", Kind::U8),
        Field::new("DOA-MEDIA-TYPE", Kind::String),
        Field::new("DOA-DATA", Kind::Base64OrDash),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::DOA,
            r#"1234567890 1234567890 1 "image/gif" R0lGODlh"#,
            &hex("499602d2499602d20109696d6167652f676966474946383961"),
        );
        both(Type::DOA, r#"0 1 2 "" -"#, &hex("00000000000000010200"));
    }
}
