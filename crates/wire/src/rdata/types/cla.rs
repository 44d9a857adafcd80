//! CLA: convergence layers of the bundle protocol (draft-johnson-dns-ipn-cla).
//!
//! Same form as TXT.
//!
//! | bytes | field |
//! |---|---|
//! | n | TXT-DATA: strings, each with a length byte |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::CLA, &[Field::new("TXT-DATA", Kind::Strings)]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::CLA, r#""TCP-v4-v6" "b""#, &hex("095443502d76342d76360162"));
    }
}
