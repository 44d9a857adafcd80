//! IPSECKEY: the public key and gateway for IPsec with a host (RFC 4025 §2).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | precedence: the lowest is tried first |
//! | 1 | gateway type: 0 none, 1 IPv4, 2 IPv6, 3 a name |
//! | 1 | algorithm of the key: 1 DSA, 2 RSA, 3 ECDSA; 0 without a key |
//! | 0, 4, 16 or n | gateway, in text `.` for none |
//! | n | public key, in base64, or absent |

use std::fmt;

use super::relay::{self, Relay};
use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{EmbeddedName, Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text::write_decimal;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::IPSECKEY,
    &[
        Field::new("precedence", Kind::U8),
        Field::new("gateway", Kind::Special(&Gateway)),
        Field::new("public key", Kind::Base64(0)),
    ],
)
.with_check(algorithm_has_key);

/// RFC 4025 §2.4: algorithm 0 "indicates that no key is present", so any other requires a key.
fn algorithm_has_key(rdata: &[u8]) -> Result<(), &'static str> {
    let head = 1 + Gateway.wire_len(rdata.get(1..).unwrap_or_default()).unwrap_or(0);
    let keyless = rdata.len() <= head && rdata.get(2).is_some_and(|&algorithm| algorithm != 0);
    if keyless { Err("an algorithm but no key") } else { Ok(()) }
}

/// Gateway type, algorithm and gateway: the type determines the gateway's length.
struct Gateway;

impl Special for Gateway {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        let [kind, _, rest @ ..] = rest else { return Err(Malformed) };
        Ok(2 + Relay::of(*kind).ok_or(Malformed)?.wire_len(rest)?)
    }

    fn name(&self, bytes: &[u8]) -> Option<EmbeddedName> {
        relay::name(Relay::of(*bytes.first()?)?, 2, bytes)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let kind = cursor.number(relay::MAX_RELAY_TYPE)? as u8;
        let algorithm = cursor.number(u8::MAX as u64)? as u8;
        out.extend_from_slice(&[kind, algorithm]);
        Relay::of(kind).ok_or(TextFaultKind::BadMnemonic)?.parse(cursor, out)
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let [kind, algorithm, gateway @ ..] = bytes else { return Err(fmt::Error) };
        write_decimal(*kind as u64, to)?;
        to.write_str(" ")?;
        write_decimal(*algorithm as u64, to)?;
        to.write_str(" ")?;
        Relay::of(*kind).ok_or(fmt::Error)?.write(gateway, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::NameRule;
    use crate::rdata::embedded_names;
    use crate::rdata::testing::{both, hex, parse};

    /// RFC 4025 §3.2's examples, with a shorter key.
    #[test]
    fn examples_read_and_write() {
        both(Type::IPSECKEY, "10 1 2 192.0.2.38 AQNRU3mG", &hex("0a 01 02 c0000226 010351537986"));
        both(Type::IPSECKEY, "10 0 2 . AQNRU3mG", &hex("0a 00 02 010351537986"));
        both(
            Type::IPSECKEY,
            "10 3 2 my.example. AQNRU3mG",
            &hex("0a 03 02 026d79076578616d706c6500 010351537986"),
        );
        both(
            Type::IPSECKEY,
            "10 2 2 2001:db8::1 AQNRU3mG",
            &hex("0a 02 02 20010db8000000000000000000000001 010351537986"),
        );
        both(Type::IPSECKEY, "10 1 0 192.0.2.38", &hex("0a 01 00 c0000226"));
        for bad in
            ["10 4 2 . AQNRU3mG", "10 0 2 x AQNRU3mG", "10 1 2 . AQNRU3mG", "10 1 2", "10 1 2 192.0.2.38"]
        {
            assert!(parse(Type::IPSECKEY, bad).is_err(), "{bad}");
        }
        assert!(
            LAYOUT.validate(&hex("0a 04 02")).is_err() && LAYOUT.validate(&hex("0a 01 02 c00002")).is_err()
        );
        let named = hex("0a 03 02 0141 00 0103");
        let names: Vec<_> = embedded_names(Type::IPSECKEY, &named).collect();
        assert_eq!(names, [EmbeddedName { start: 3, len: 3, rule: NameRule::Plain }]);
    }
}
