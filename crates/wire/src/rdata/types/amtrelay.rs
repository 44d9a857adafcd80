//! AMTRELAY: a relay for multicast over unicast (RFC 8777 §4).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | precedence: the lowest is tried first |
//! | 1 | D, the highest bit: discovery is optional; type: 0 none, 1 IPv4, 2 IPv6, 3 a name |
//! | 0, 4, 16 or n | relay, in text `.` for none; any bytes for other types |

use std::fmt;

use super::relay::{self, Relay};
use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{EmbeddedName, Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;

pub(super) static LAYOUT: Layout = Layout::new(
    Type::AMTRELAY,
    &[Field::new("precedence", Kind::U8), Field::new("relay", Kind::Special(&DiscoveryAndRelay))],
);

/// The D bit.
const OPTIONAL: u8 = 0x80;

struct DiscoveryAndRelay;

impl Special for DiscoveryAndRelay {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        let (head, relay) = rest.split_first().ok_or(Malformed)?;
        match Relay::of(head & !OPTIONAL) {
            Some(form) => Ok(1 + form.wire_len(relay)?),
            None => Ok(rest.len()),
        }
    }

    fn name(&self, bytes: &[u8]) -> Option<EmbeddedName> {
        relay::name(Relay::of(bytes.first()? & !OPTIONAL)?, 1, bytes)
    }

    fn has_text(&self, bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|head| Relay::of(head & !OPTIONAL).is_some())
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let optional = cursor.number(1)? as u8;
        let kind = cursor.number(relay::MAX_RELAY_TYPE)? as u8;
        out.push(optional << 7 | kind);
        Relay::of(kind).ok_or(TextFaultKind::BadMnemonic)?.parse(cursor, out)
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let (head, relay) = bytes.split_first().ok_or(fmt::Error)?;
        let kind = head & !OPTIONAL;
        write!(to, "{} {kind} ", head >> 7)?;
        Relay::of(kind).ok_or(fmt::Error)?.write(relay, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, write};

    /// RFC 8777 §4.3.2's examples.
    #[test]
    fn examples_read_and_write() {
        both(Type::AMTRELAY, "10 0 1 203.0.113.15", &hex("0a 01 cb00710f"));
        both(Type::AMTRELAY, "10 0 2 2001:db8::15", &hex("0a 02 20010db8000000000000000000000015"));
        both(
            Type::AMTRELAY,
            "128 1 3 amtrelays.example.com.",
            &[&[0x80, 0x83][..], b"\x09amtrelays\x07example\x03com\0"].concat(),
        );
        both(Type::AMTRELAY, "0 0 0 .", &hex("00 00"));
        for bad in ["10 2 1 203.0.113.15", "10 0 4 .", "10 0 0 x", "10 0 1"] {
            assert!(parse(Type::AMTRELAY, bad).is_err(), "{bad}");
        }
        assert_eq!(write(Type::AMTRELAY, &hex("0a 04 01")), r"\# 3 0A0401");
    }
}
