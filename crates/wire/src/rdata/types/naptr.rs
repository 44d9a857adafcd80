//! NAPTR: a rewrite rule (RFC 3403 §4.1).
//!
//! | bytes | field |
//! |---|---|
//! | 2 | ORDER: the rules go in this order |
//! | 2 | PREFERENCE: among those of one order |
//! | 1+n | FLAGS: letters that say what follows |
//! | 1+n | SERVICES: what the rule is for |
//! | 1+n | REGEXP: the rewrite, or empty |
//! | n | REPLACEMENT: the next name, or the root |

use crate::rdata::field::{Field, Kind, Layout, NameRule};
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::NAPTR,
    &[
        Field::new("ORDER", Kind::U16),
        Field::new("PREFERENCE", Kind::U16),
        Field::new("FLAGS", Kind::String),
        Field::new("SERVICES", Kind::String),
        Field::new("REGEXP", Kind::String),
        Field::new("REPLACEMENT", Kind::Name(NameRule::Lower)),
    ],
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        both(
            Type::NAPTR,
            r#"100 50 "a" "z3950+N2L+N2C" "" cidserver.example.com."#,
            &hex("0064003201610d7a333935302b4e324c2b4e32430009636964736572766572076578616d706c6503636f6d00"),
        );
        both(
            Type::NAPTR,
            r#"100 10 "" "" "!^urn:cid:.+@([^\\.]+\\.)(.*)$!\\2!i" ."#,
            &hex("0064000a000021215e75726e3a6369643a2e2b40285b5e5c2e5d2b5c2e29282e2a2924215c32216900"),
        );
    }
}
