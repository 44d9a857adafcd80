//! OPENPGPKEY: a transferable OpenPGP key (RFC 7929 §2).
//!
//! | bytes | field |
//! |---|---|
//! | n | public key: the key |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rr::Type;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::OPENPGPKEY, &[Field::new("public key", Kind::Base64(1))]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::OPENPGPKEY, r#"mQINBA=="#, &hex("99020d04"));
    }
}
