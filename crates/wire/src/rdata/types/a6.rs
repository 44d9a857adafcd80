//! A6: part of an IPv6 address and the name with the rest (RFC 2874 §3), historic (RFC 6563).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | prefix length in bits, 0 to 128 |
//! | 0–16 | address suffix: the bytes not completely covered by the prefix; its prefix bits are zero |
//! | 0 or n | prefix name, absent if the prefix length is 0 |

use std::fmt;
use std::net::Ipv6Addr;

use crate::malformed::Malformed;
use crate::name::Name;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{EmbeddedName, Field, Kind, Layout, NameRule, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text;

pub(super) static LAYOUT: Layout = Layout::new(Type::A6, &[Field::new("address", Kind::Special(&Partial))]);

struct Partial;

/// Bytes of the address suffix for a prefix of this many bits.
fn suffix_len(bits: u8) -> Option<usize> {
    if bits <= 128 { Some(16 - bits as usize / 8) } else { None }
}

/// The bits of the suffix's first byte that belong to the prefix.
fn prefix_mask(bits: u8) -> u8 {
    !(0xff >> (bits % 8))
}

impl Special for Partial {
    /// Bits of the prefix inside the suffix must be zero, as RFC 2874 §3.1.1 requires of senders.
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        let (&bits, rest) = rest.split_first().ok_or(Malformed)?;
        let (suffix, name) = rest.split_at_checked(suffix_len(bits).ok_or(Malformed)?).ok_or(Malformed)?;
        if suffix.first().is_some_and(|first| first & prefix_mask(bits) != 0) {
            return Err(Malformed);
        }
        let name_len = if bits == 0 { 0 } else { Name::parse(name).map_err(|_| Malformed)?.len() };
        Ok(1 + suffix.len() + name_len)
    }

    fn name(&self, bytes: &[u8]) -> Option<EmbeddedName> {
        let bits = *bytes.first().filter(|&&bits| bits > 0)?;
        let start = 1 + suffix_len(bits)?;
        Some(EmbeddedName { start, len: bytes.len().checked_sub(start)?, rule: NameRule::Lower })
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let bits = cursor.number(128)? as u8;
        let len = suffix_len(bits).ok_or(TextFaultKind::OutOfRange { min: 0, max: 128 })?;
        out.push(bits);
        if len > 0 {
            let mut address = text::ipv6(cursor.word()?).ok_or(TextFaultKind::BadIpv6)?;
            let suffix = &mut address[16 - len..];
            suffix[0] &= !prefix_mask(bits);
            out.extend_from_slice(suffix);
        }
        if bits == 0 { Ok(()) } else { cursor.name(out) }
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let (&bits, rest) = bytes.split_first().ok_or(fmt::Error)?;
        let (suffix, name) = suffix_len(bits).and_then(|len| rest.split_at_checked(len)).ok_or(fmt::Error)?;
        text::write_decimal(bits as u64, to)?;
        if !suffix.is_empty() {
            let mut address = [0u8; 16];
            address[16 - suffix.len()..].copy_from_slice(suffix);
            write!(to, " {}", Ipv6Addr::from(address))?;
        }
        if bits > 0 {
            to.write_str(" ")?;
            text::write_name(Name::from_wire(name).map_err(|_| fmt::Error)?, to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads, write};
    use crate::rdata::{canonical, embedded_names};

    #[test]
    fn examples_read_and_write() {
        // From RFC 2874 §5.1.1 and on.
        let wire = [&hex("40 12345678 9abcdef0")[..], b"\x08SUBNET-1\x02IP\x02EX\0"].concat();
        both(Type::A6, "64 ::1234:5678:9abc:def0 SUBNET-1.IP.EX.", &wire);
        both(Type::A6, "0 2345:c1:ca11:1:1234:5678:9abc:def0", &hex("00 234500c1ca110001123456789abcdef0"));
        both(Type::A6, "128 a.example.", b"\x80\x01a\x07example\0");
        reads(Type::A6, "44 2345:00C1::1 a.", &hex("2c 000000000000000000 0001 01 61 00"));
        assert!(parse(Type::A6, "129 a.").is_err() && parse(Type::A6, "64 ::1").is_err());
        assert!(LAYOUT.validate(&hex("2c f00000000000000000 0001 00")).is_err());
    }

    #[test]
    fn its_name_is_found() {
        let mut rdata = [&hex("40 4142434445464748")[..], b"\x01A\0"].concat();
        let names: Vec<_> = embedded_names(Type::A6, &rdata).collect();
        assert_eq!(names, [EmbeddedName { start: 9, len: 3, rule: NameRule::Lower }]);
        canonical(Type::A6, &mut rdata);
        assert_eq!(write(Type::A6, &rdata), "64 ::4142:4344:4546:4748 a.");
        assert_eq!(embedded_names(Type::A6, &[0; 17]).count(), 0);
    }
}
