//! HTTPS: SVCB for HTTP origins (RFC 9460 §9); same form.

use super::svcb;
use crate::rdata::field::Layout;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(Type::HTTPS, svcb::FIELDS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex};

    #[test]
    fn examples_read_and_write() {
        let wire = hex("0001 00 0001000302683200020000 00030002 20fb");
        both(Type::HTTPS, r#"1 . alpn="h2" no-default-alpn port=8443"#, &wire);
        assert!(LAYOUT.validate(&wire[..wire.len() - 1]).is_err());
    }
}
