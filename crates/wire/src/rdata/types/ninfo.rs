//! NINFO: the state of a zone (draft-reid-dnsext-zs).
//!
//! Same form as TXT.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::NINFO, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::NINFO,
            r#""zone is under construction" "b""#,
            &hex("1a7a6f6e6520697320756e64657220636f6e737472756374696f6e0162"),
        );
    }
}
