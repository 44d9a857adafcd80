//! HIP: the host identity of a host and its rendezvous servers (RFC 8005 §5).
//!
//! | bytes | field |
//! |---|---|
//! | 1 | HIT length |
//! | 1 | PK algorithm: as in IPSECKEY |
//! | 2 | PK length |
//! | n | HIT, in text one token of hex |
//! | n | public key, in text one token of base64 |
//! | n | rendezvous servers: names, possibly none, never compressed |
//!
//! Text: `algorithm HIT key [server…]`.

use std::fmt;

use crate::malformed::Malformed;
use crate::rdata::fault::TextFaultKind;
use crate::rdata::field::{Field, Kind, Layout, NameRule, Special};
use crate::rdata::parse::{Cursor, hex_word};
use crate::rr::Type;
use crate::text::{self, Base64};

pub(super) static LAYOUT: Layout = Layout::new(
    Type::HIP,
    &[
        Field::new("host identity", Kind::Special(&Identity)),
        Field::new("rendezvous servers", Kind::Names(NameRule::Plain)),
    ],
);

/// All fields before the servers.
struct Identity;

/// Bytes of the two lengths and the algorithm.
const HEAD: usize = 4;

/// The fields of an [`Identity`].
struct IdentityFields<'a> {
    algorithm: u8,
    /// Host Identity Tag.
    hit: &'a [u8],
    /// Public key.
    key: &'a [u8],
}

fn parts(rest: &[u8]) -> Option<IdentityFields<'_>> {
    let (&[hit_len, algorithm, a, b], rest) = rest.split_first_chunk::<HEAD>()?;
    let (hit, rest) = rest.split_at_checked(hit_len as usize)?;
    let key = rest.get(..u16::from_be_bytes([a, b]) as usize)?;
    if hit.is_empty() || key.is_empty() { None } else { Some(IdentityFields { algorithm, hit, key }) }
}

impl Special for Identity {
    fn wire_len(&self, rest: &[u8]) -> Result<usize, Malformed> {
        parts(rest).map(|fields| HEAD + fields.hit.len() + fields.key.len()).ok_or(Malformed)
    }

    fn parse(&self, cursor: &mut Cursor<'_, '_>, out: &mut Vec<u8>) -> Result<(), TextFaultKind> {
        let start = out.len();
        let algorithm = cursor.number(u8::MAX as u64)? as u8;
        out.extend_from_slice(&[0, algorithm, 0, 0]);
        hex_word(cursor.word()?, out)?;
        let hit_len = out.len() - start - HEAD;
        out[start] = u8::try_from(hit_len).ok().filter(|&len| len > 0).ok_or(TextFaultKind::BadHex)?;
        let mut reader = Base64::default();
        let fed = reader.feed(cursor.word()?, out).and_then(|()| reader.finish());
        fed.map_err(|_| TextFaultKind::BadBase64)?;
        let key_len = out.len() - start - HEAD - hit_len;
        let key_len = u16::try_from(key_len).ok().filter(|&len| len > 0).ok_or(TextFaultKind::BadBase64)?;
        out[start + 2..start + HEAD].copy_from_slice(&key_len.to_be_bytes());
        Ok(())
    }

    fn write(&self, bytes: &[u8], to: &mut dyn fmt::Write) -> fmt::Result {
        let IdentityFields { algorithm, hit, key } = parts(bytes).ok_or(fmt::Error)?;
        text::write_decimal(algorithm as u64, to)?;
        to.write_str(" ")?;
        text::write_hex(hit, to)?;
        to.write_str(" ")?;
        text::write_base64(key, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdata::embedded_names;
    use crate::rdata::testing::{both, hex, parse};

    /// After RFC 8005 §6, with a shorter key.
    #[test]
    fn examples_read_and_write() {
        let plain = hex("10 02 0003 200100107b1a74df365639cc39f1d578 010203");
        both(Type::HIP, "2 200100107B1A74DF365639CC39F1D578 AQID", &plain);
        let served = [&plain[..], b"\x04rvs1\x07example\x03com\0\x04rvs2\x07example\x03com\0"].concat();
        both(
            Type::HIP,
            "2 200100107B1A74DF365639CC39F1D578 AQID rvs1.example.com. rvs2.example.com.",
            &served,
        );
        assert_eq!(
            embedded_names(Type::HIP, &served).map(|n| (n.start, n.len)).collect::<Vec<_>>(),
            [(23, 18), (41, 18)]
        );
        for bad in ["2 2 AQID", "2 - AQID", "2 20 A", "2 20", "256 20 AQID", "2 20 AQID a..b"] {
            assert!(parse(Type::HIP, bad).is_err(), "{bad}");
        }
        for bad in ["10 02 0003 20", "00 02 0001 01", "01 02 0000 20", "01 02 0001 20"] {
            assert!(LAYOUT.validate(&hex(bad)).is_err(), "{bad}");
        }
    }
}
