//! RDATA for random zones: few values, so that they collide.

use wire::{Name, NameBuf, Ttl, Type};

/// NSEC3 owner labels: 20 bytes of zero, of middle and of high value in Base 32, and two that differ only in
/// the last digit.
pub const HASHES: [&[u8; 32]; 5] = [
    b"00000000000000000000000000000000",
    b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom",
    b"h9p7u7tr2u91d0v0ljs9l1gidnp90u3h",
    b"h9p7u7tr2u91d0v0ljs9l1gidnp90u3i",
    b"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
];

/// The TTL of records at the apex.
pub(crate) const HOUR: Ttl = Ttl::from_secs(3600);

pub(crate) fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// An RRSIG over `covered` with a made-up signature.
pub fn rrsig(covered: Type, tag: u8) -> Vec<u8> {
    joined(&[
        &covered.0.to_be_bytes(),
        &[13, 2, 0, 0, 14, 16, 1, 2, 3, 4, 1, 2, 3, 0, 0, tag],
        b"\x01s\0",
        &[tag; 8],
    ])
}

/// NSEC3 RDATA with one of two sets of parameters.
pub(crate) fn nsec3(other: bool, next: u8) -> Vec<u8> {
    let salt: &[u8] = if other { b"\x00" } else { b"\x02\xab\xcd" };
    joined(&[&[1, 0, 0, other as u8], salt, &[20], &[next; 20], b"\0\x01\x40"])
}

/// SOA RDATA with names that compress against `apex`.
pub fn soa(apex: Name<'_>, serial: u32) -> Vec<u8> {
    let (mut rdata, name) =
        (Vec::new(), |label: &[u8]| NameBuf::prepend(label, apex).map_or(NameBuf::ROOT, |n| n));
    rdata.extend_from_slice(name(b"NS1").as_name().as_wire());
    rdata.extend_from_slice(name(b"Hostmaster").as_name().as_wire());
    for number in [serial, 7200, 3600, 1_209_600, 300] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    rdata
}
