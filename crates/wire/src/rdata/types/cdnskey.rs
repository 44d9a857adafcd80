//! CDNSKEY: the key the child wants a DS of (RFC 7344 §3.2), or `0 3 0 AA==` for none (RFC 8078 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | flags: what the key is for |
//! | 1 | protocol: 3 for DNSSEC |
//! | 1 | algorithm: of the key |
//! | n | public key: the key |

use crate::rdata::field::{Field, Kind, Layout};
use crate::rdata::mnemonic::ALGORITHMS;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::CDNSKEY,
    &[
        Field::new("flags", Kind::U16),
        Field::new("protocol", Kind::U8),
        Field::new("algorithm", Kind::Mnemonic8(ALGORITHMS)),
        Field::new("public key", Kind::Base64(1)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(Type::CDNSKEY, r#"0 3 0 AA=="#, &hex("0000030000"));
        both(
            Type::CDNSKEY,
            r#"256 3 5 AQPSKmynfzW4kyBv015MUG2DeIQ3Cbl+BBZH4b/0PY1kxkmvHjcZc8nokfzj31GajIQKY+5CptLr3buXA10hWqTkF7H6RfoRqXQeogmMHfpftf6zMv1LyBUgia7za6ZEzOJBOztyvhjL742iU/TpPSEDhm2SNKLijfUppn1UaNvv4w=="#,
            &hex(
                "010003050103d22a6ca77f35b893206fd35e4c506d8378843709b97e041647e1bff43d8d64c649af1e371973c9e891fce3df519a8c840a63ee42a6d2ebddbb97035d215aa4e417b1fa45fa11a9741ea2098c1dfa5fb5feb332fd4bc8152089aef36ba644cce2413b3b72be18cbef8da253f4e93d2103866d9234a2e28df529a67d5468dbefe3",
            ),
        );
    }
}
