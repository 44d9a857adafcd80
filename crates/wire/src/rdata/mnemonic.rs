//! Number fields that have mnemonics in text.

use std::fmt;

use super::fault::TextFaultKind;
use super::parse::Cursor;
use crate::text;

/// DNSSEC algorithms (RFC 4034 appendix A.1 and the IANA registry).
pub(super) const ALGORITHMS: &[(u8, &str)] = &[
    (0, "DELETE"),
    (1, "RSAMD5"),
    (2, "DH"),
    (3, "DSA"),
    (4, "ECC"),
    (5, "RSASHA1"),
    (6, "DSA-NSEC3-SHA1"),
    (6, "NSEC3DSA"),
    (7, "RSASHA1-NSEC3-SHA1"),
    (7, "NSEC3RSASHA1"),
    (8, "RSASHA256"),
    (10, "RSASHA512"),
    (12, "ECC-GOST"),
    (12, "ECCGOST"),
    (13, "ECDSAP256SHA256"),
    (14, "ECDSAP384SHA384"),
    (15, "ED25519"),
    (16, "ED448"),
    (17, "SM2SM3"),
    (23, "ECC-GOST12"),
    (252, "INDIRECT"),
    (253, "PRIVATEDNS"),
    (254, "PRIVATEOID"),
];

/// Errors of TSIG and TKEY: extended RCODEs (RFC 8945 §3, RFC 2930 §2.6).
pub(super) const ERRORS: &[(u16, &str)] = &[
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (16, "BADSIG"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
];

/// Parses a number, or a mnemonic from the list in any letter case.
#[inline]
pub(super) fn parse<N: Copy + Into<u64>>(
    cursor: &mut Cursor<'_, '_>,
    list: &[(N, &str)],
    max: u64,
) -> Result<u64, TextFaultKind> {
    let word = cursor.word()?;
    match text::decimal(word) {
        Some(number) if number <= max => Ok(number),
        Some(_) => Err(TextFaultKind::OutOfRange { min: 0, max }),
        None => {
            let found = list.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(word));
            found.map(|&(number, _)| number.into()).ok_or(TextFaultKind::BadMnemonic)
        }
    }
}

/// Writes the mnemonic of a number, or the number.
pub(super) fn write<N: Copy + Into<u64>>(
    number: u64,
    list: &[(N, &str)],
    to: &mut dyn fmt::Write,
) -> fmt::Result {
    match list.iter().find(|&&(value, _)| value.into() == number) {
        Some((_, name)) => to.write_str(name),
        None => text::write_decimal(number, to),
    }
}
