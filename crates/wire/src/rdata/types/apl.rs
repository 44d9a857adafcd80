//! APL: a list of address prefixes (RFC 3123).
//!
//! Any number of items, possibly none:
//!
//! | bytes | field |
//! |---|---|
//! | 2 | ADDRESSFAMILY: 1 IPv4, 2 IPv6 |
//! | 1 | PREFIX: bits |
//! | 1 | N, the highest bit: all except this prefix; AFDLENGTH: bytes of the address |
//! | 0–127 | AFDPART: the address without the zero bytes at its end |
//!
//! Text: `[!]family:address/prefix` for each.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, Special};
use crate::rdata::parse::Cursor;
use crate::rr::Type;
use crate::text;

pub(super) static LAYOUT: Layout =
    Layout::new(Type::APL, &[Field::new("prefixes", Kind::Special(&Prefixes))]);

const IPV4: u16 = 1;
const IPV6: u16 = 2;

/// One item of the list.
struct Item<'r> {
    family: u16,
    prefix: u8,
    negated: bool,
    address: &'r [u8],
}

/// Parses the first item and returns the rest.
fn item(rest: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (head, rest) = rest.split_first_chunk::<4>()?;
    let (address, rest) = rest.split_at_checked((head[3] & 0x7f) as usize)?;
    let family = u16::from_be_bytes([head[0], head[1]]);
    Some((Item { family, prefix: head[2], negated: head[3] & 0x80 != 0, address }, rest))
}

impl Item<'_> {
    /// No trailing zero byte (RFC 3123 §4); for known families, no more bytes than an address has.
    fn is_valid(&self) -> bool {
        let fits = match self.family {
            IPV4 => self.prefix <= 32 && self.address.len() <= 4,
            IPV6 => self.prefix <= 128 && self.address.len() <= 16,
            _ => true,
        };
        fits && self.address.last() != Some(&0)
    }
}

struct Prefixes;

impl Special for Prefixes {
    fn wire_len(&self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (item, later) = item(rest).ok_or(Malformed)?;
            if !item.is_valid() {
                return Err(Malformed);
            }
            rest = later;
        }
        Ok(bytes.len())
    }

    /// Text is defined only for IPv4 and IPv6.
    fn has_text(&self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some((item, later)) = item(rest) {
            if !matches!(item.family, IPV4 | IPV6) {
                return false;
            }
            rest = later;
        }
        true
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        while !cursor.at_end() {
            parse_item(cursor.word()?, out)?;
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let mut rest = bytes;
        while let Some((item, later)) = item(rest) {
            let negation = if item.negated { "!" } else { "" };
            write!(to, "{negation}{}:", item.family)?;
            let mut address = [0u8; 16];
            address.get_mut(..item.address.len()).ok_or(fmt::Error)?.copy_from_slice(item.address);
            match address {
                [a, b, c, d, ..] if item.family == IPV4 => write!(to, "{}", Ipv4Addr::new(a, b, c, d))?,
                _ => write!(to, "{}", Ipv6Addr::from(address))?,
            }
            write!(to, "/{}", item.prefix)?;
            rest = later;
            if !rest.is_empty() {
                to.write_str(" ")?;
            }
        }
        Ok(())
    }
}

fn parse_item(word: &[u8], out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
    const FORM: TextFaultKind = TextFaultKind::BadForm("[!]family:address/prefix with the family 1 or 2");
    let (negated, word) = match word {
        [b'!', rest @ ..] => (0x80, rest),
        _ => (0, word),
    };
    let slash = word.iter().position(|&byte| byte == b'/').ok_or(FORM)?;
    let (family, address) = word[..slash].split_at_checked(2).ok_or(FORM)?;
    let prefix = text::decimal(&word[slash + 1..]).ok_or(FORM)?;
    let (mut bytes, most) = ([0u8; 16], if family == b"1:" { 32 } else { 128 });
    match family {
        b"1:" => bytes[..4].copy_from_slice(&text::ipv4(address).ok_or(TextFaultKind::BadIpv4)?),
        b"2:" => bytes = text::ipv6(address).ok_or(TextFaultKind::BadIpv6)?,
        _ => return Err(FORM),
    }
    if prefix > most {
        return Err(TextFaultKind::OutOfRange { min: 0, max: most });
    }
    let len = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    out.extend_from_slice(&[0, family[0] - b'0', prefix as u8, negated | len as u8]);
    out.extend_from_slice(&bytes[..len]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::testing::{both, hex, parse, reads, write};

    #[test]
    fn examples_read_and_write() {
        both(Type::APL, "1:192.168.32.0/21 !1:192.168.38.0/28", &hex("0001 15 03 c0a820 0001 1c 83 c0a826"));
        both(Type::APL, "1:224.0.0.0/4 2:ff00::/8", &hex("0001 04 01 e0 0002 08 01 ff"));
        reads(Type::APL, "", b"");
        both(Type::APL, "1:0.0.0.0/0", &hex("0001 00 00"));
        for bad in ["3:1.2.3.4/1", "1:1.2.3.4/33", "2:::/129", "1:1.2.3.4", "1:1.2.3/8", "2:1.2.3.4/8", "!"] {
            assert!(parse(Type::APL, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wire_is_checked() {
        for bad in [
            "0001 15 03 c0a800",
            "0001 21 00",
            "0001 08 05 0102030405",
            "0001 08 02 c0",
            "0001 08",
            "0002 81 00",
        ] {
            assert!(LAYOUT.validate(&hex(bad)).is_err(), "{bad}");
        }
        assert_eq!(write(Type::APL, &hex("0003 ff 01 07")), r"\# 5 0003FF0107");
    }
}
