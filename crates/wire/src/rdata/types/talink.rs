//! TALINK: a list of trust anchor rolls (draft-wijngaards-dnsop-trust-history).
//!
//! | bytes | field |
//! |---|---|
//! | n | previous name: the previous one |
//! | n | next name: the next one |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::TALINK,
    &[
        Field::new("previous name", Kind::Name(NameRule::Plain)),
        Field::new("next name", Kind::Name(NameRule::Plain)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::TALINK,
            r#"h0.example.com. h2.example.com."#,
            &hex("026830076578616d706c6503636f6d00026832076578616d706c6503636f6d00"),
        );
    }
}
