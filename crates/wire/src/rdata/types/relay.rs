//! The gateway of IPSECKEY and relay of AMTRELAY: nothing, an address or a name, depending on a type number.

use std::fmt;

use crate::malformed::Malformed;
use crate::name::Name;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{EmbeddedName, Kind, NameRule};
use crate::rdata::parse::Cursor;
use crate::text;

/// The greatest defined type number.
pub(super) const MAX_RELAY_TYPE: u64 = 3;

/// The forms of a gateway or relay (RFC 4025 §2.3, RFC 8777 §4.2.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relay {
    Nothing,
    Ipv4,
    Ipv6,
    Name,
}

impl Relay {
    /// The form for a type number.
    pub(super) fn of(number: u8) -> Option<Relay> {
        Some(match number {
            0 => Relay::Nothing,
            1 => Relay::Ipv4,
            2 => Relay::Ipv6,
            3 => Relay::Name,
            _ => return None,
        })
    }

    /// Checks the field at the front of `rest` and returns its length in bytes.
    pub(super) fn wire_len(self, rest: &[u8]) -> Result<usize, Malformed> {
        match self {
            Relay::Nothing => Ok(0),
            Relay::Ipv4 => Kind::Ipv4.wire_len(rest),
            Relay::Ipv6 => Kind::Ipv6.wire_len(rest),
            Relay::Name => Kind::Name(NameRule::Plain).wire_len(rest),
        }
    }

    /// Parses the field's token, `.` for nothing.
    pub(super) fn parse(self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        match self {
            Relay::Nothing if cursor.word()? == b"." => {}
            Relay::Nothing => return Err(TextFaultKind::BadForm("a dot, for nothing")),
            Relay::Ipv4 => out.extend_from_slice(&text::ipv4(cursor.word()?).ok_or(TextFaultKind::BadIpv4)?),
            Relay::Ipv6 => out.extend_from_slice(&text::ipv6(cursor.word()?).ok_or(TextFaultKind::BadIpv6)?),
            Relay::Name => cursor.name(out)?,
        }
        Ok(())
    }

    /// Writes the field as text.
    pub(super) fn write(self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Relay::Nothing => to.write_str("."),
            Relay::Ipv4 => {
                let address: [u8; 4] = bytes.try_into().map_err(|_| fmt::Error)?;
                write!(to, "{}", std::net::Ipv4Addr::from(address))
            }
            Relay::Ipv6 => {
                let address: [u8; 16] = bytes.try_into().map_err(|_| fmt::Error)?;
                write!(to, "{}", std::net::Ipv6Addr::from(address))
            }
            Relay::Name => text::write_name(Name::from_wire(bytes).map_err(|_| fmt::Error)?, to),
        }
    }
}

/// The name in a field with `start` bytes before it.
pub(super) fn name(relay: Relay, start: usize, bytes: &[u8]) -> Option<EmbeddedName> {
    let len = bytes.len().checked_sub(start)?;
    (relay == Relay::Name).then_some(EmbeddedName { start, len, rule: NameRule::Plain })
}
