//! Record types and classes, with the mnemonics of the IANA registry (RFC 1035 §3.2, RFC 3597 §5).

use std::fmt;
use std::str::FromStr;

/// A record or query type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

/// A text that is neither a mnemonic nor `TYPEn` / `CLASSn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMnemonic;

impl fmt::Display for UnknownMnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown mnemonic")
    }
}
impl std::error::Error for UnknownMnemonic {}

macro_rules! types {
    ($($name:ident = $value:literal $text:literal),* $(,)?) => {
        #[allow(missing_docs, reason = "each is the type of its mnemonic")]
        impl Type { $(pub const $name: Type = Type($value);)* }
        /// Every type with a mnemonic, by number.
        pub const TYPES: &[(Type, &str)] = &[$((Type($value), $text)),*];
    };
}

types! {
    A = 1 "A", NS = 2 "NS", MD = 3 "MD", MF = 4 "MF", CNAME = 5 "CNAME", SOA = 6 "SOA", MB = 7 "MB",
    MG = 8 "MG", MR = 9 "MR", NULL = 10 "NULL", WKS = 11 "WKS", PTR = 12 "PTR", HINFO = 13 "HINFO",
    MINFO = 14 "MINFO", MX = 15 "MX", TXT = 16 "TXT", RP = 17 "RP", AFSDB = 18 "AFSDB", X25 = 19 "X25",
    ISDN = 20 "ISDN", RT = 21 "RT", NSAP = 22 "NSAP", NSAP_PTR = 23 "NSAP-PTR", SIG = 24 "SIG",
    KEY = 25 "KEY", PX = 26 "PX", GPOS = 27 "GPOS", AAAA = 28 "AAAA", LOC = 29 "LOC", NXT = 30 "NXT",
    EID = 31 "EID", NIMLOC = 32 "NIMLOC", SRV = 33 "SRV", ATMA = 34 "ATMA", NAPTR = 35 "NAPTR",
    KX = 36 "KX", CERT = 37 "CERT", A6 = 38 "A6", DNAME = 39 "DNAME", SINK = 40 "SINK", OPT = 41 "OPT",
    APL = 42 "APL", DS = 43 "DS", SSHFP = 44 "SSHFP", IPSECKEY = 45 "IPSECKEY", RRSIG = 46 "RRSIG",
    NSEC = 47 "NSEC", DNSKEY = 48 "DNSKEY", DHCID = 49 "DHCID", NSEC3 = 50 "NSEC3",
    NSEC3PARAM = 51 "NSEC3PARAM", TLSA = 52 "TLSA", SMIMEA = 53 "SMIMEA", HIP = 55 "HIP",
    NINFO = 56 "NINFO", RKEY = 57 "RKEY", TALINK = 58 "TALINK", CDS = 59 "CDS", CDNSKEY = 60 "CDNSKEY",
    OPENPGPKEY = 61 "OPENPGPKEY", CSYNC = 62 "CSYNC", ZONEMD = 63 "ZONEMD", SVCB = 64 "SVCB",
    HTTPS = 65 "HTTPS", DSYNC = 66 "DSYNC", HHIT = 67 "HHIT", BRID = 68 "BRID", SPF = 99 "SPF",
    UINFO = 100 "UINFO", UID = 101 "UID", GID = 102 "GID", UNSPEC = 103 "UNSPEC", NID = 104 "NID",
    L32 = 105 "L32", L64 = 106 "L64", LP = 107 "LP", EUI48 = 108 "EUI48", EUI64 = 109 "EUI64",
    NXNAME = 128 "NXNAME", TKEY = 249 "TKEY", TSIG = 250 "TSIG", IXFR = 251 "IXFR", AXFR = 252 "AXFR",
    MAILB = 253 "MAILB", MAILA = 254 "MAILA", ANY = 255 "ANY", URI = 256 "URI", CAA = 257 "CAA",
    AVC = 258 "AVC", DOA = 259 "DOA", AMTRELAY = 260 "AMTRELAY", RESINFO = 261 "RESINFO",
    WALLET = 262 "WALLET", CLA = 263 "CLA", IPN = 264 "IPN", TA = 32768 "TA", DLV = 32769 "DLV",
}

impl Type {
    /// Whether this is a query or meta type, which no zone can hold (RFC 6895 §3.1), or the reserved 0.
    pub fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255)
    }

    /// Whether records of this type may coexist with a CNAME, other than the CNAME itself: the DNSSEC types
    /// (RFC 2181 §10.1, RFC 4034 §3, RFC 2535 §2.3.5).
    pub fn may_be_beside_cname(self) -> bool {
        matches!(self, Self::NSEC | Self::NSEC3 | Self::RRSIG | Self::KEY | Self::SIG | Self::NXT)
    }

    /// Parses a mnemonic, in any letter case, or `TYPEn`.
    pub fn from_text(text: &[u8]) -> Result<Self, UnknownMnemonic> {
        let mut slot = mnemonic_slot(text);
        while let Some((t, name)) = TYPES.get(MNEMONICS[slot] as usize) {
            if name.as_bytes().eq_ignore_ascii_case(text) {
                return Ok(*t);
            }
            slot = (slot + 1) % MNEMONICS.len();
        }
        numbered(text, b"TYPE").map(Type).ok_or(UnknownMnemonic)
    }
}

/// Marks an empty slot of [`MNEMONICS`].
const EMPTY: u8 = u8::MAX;

/// Indexes into [`TYPES`] by a hash of the mnemonic, with linear probing. Zone files have a type in every
/// record and several in every NSEC.
static MNEMONICS: [u8; 512] = {
    assert!(TYPES.len() < EMPTY as usize);
    let mut slots = [EMPTY; 512];
    let mut i = 0;
    while i < TYPES.len() {
        let mut slot = mnemonic_slot(TYPES[i].1.as_bytes());
        while slots[slot] != EMPTY {
            slot = (slot + 1) % slots.len();
        }
        slots[slot] = i as u8;
        i += 1;
    }
    slots
};

/// The slot at which the search for a mnemonic starts. Independent of letter case: bit 5, in which `A` (0x41)
/// and `a` (0x61) differ, is set in every byte.
#[inline]
const fn mnemonic_slot(text: &[u8]) -> usize {
    // Longer texts are not mnemonics; the first sixteen bytes of all mnemonics differ.
    let len = if text.len() < 16 { text.len() } else { 16 };
    let (mut hash, mut i) = (0u32, 0);
    while i < len {
        hash = (hash ^ (text[i] | 0x20) as u32).wrapping_mul(0x9e37_79b1);
        i += 1;
    }
    (hash >> 23) as usize
}

/// `PREFIXn` with n in 0..=65535 (RFC 3597 §5).
fn numbered(text: &[u8], prefix: &[u8]) -> Option<u16> {
    let (head, digits) = text.split_at_checked(prefix.len())?;
    let plain = head.eq_ignore_ascii_case(prefix) && digits.iter().all(u8::is_ascii_digit);
    if !plain {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TYPES.binary_search_by_key(self, |&(t, _)| t) {
            Ok(i) => f.pad(TYPES[i].1),
            Err(_) => write!(f, "TYPE{}", self.0),
        }
    }
}
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl FromStr for Type {
    type Err = UnknownMnemonic;
    fn from_str(text: &str) -> Result<Self, UnknownMnemonic> {
        Type::from_text(text.as_bytes())
    }
}

/// A record or query class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u16);

impl Class {
    /// The Internet.
    pub const IN: Class = Class(1);
    /// CHAOS: information about the server itself (RFC 4892).
    pub const CH: Class = Class(3);
    /// Hesiod.
    pub const HS: Class = Class(4);
    /// QCLASS NONE (RFC 2136 §2.4).
    pub const NONE: Class = Class(254);
    /// QCLASS `*` (RFC 1035 §3.2.5).
    pub const ANY: Class = Class(255);

    const NAMES: [(Class, &str); 5] =
        [(Self::IN, "IN"), (Self::CH, "CH"), (Self::HS, "HS"), (Self::NONE, "NONE"), (Self::ANY, "ANY")];

    /// Parses a mnemonic, in any letter case, or `CLASSn`.
    pub fn from_text(text: &[u8]) -> Result<Self, UnknownMnemonic> {
        let found = Self::NAMES.iter().find(|(_, name)| name.as_bytes().eq_ignore_ascii_case(text));
        found.map(|&(c, _)| c).or_else(|| numbered(text, b"CLASS").map(Class)).ok_or(UnknownMnemonic)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(c, _)| c == self) {
            Some((_, name)) => f.pad(name),
            None => write!(f, "CLASS{}", self.0),
        }
    }
}
impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl FromStr for Class {
    type Err = UnknownMnemonic;
    fn from_str(text: &str) -> Result<Self, UnknownMnemonic> {
        Class::from_text(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_sorted_and_round_trip() {
        assert!(TYPES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for &(t, name) in TYPES {
            assert_eq!(name.parse(), Ok(t));
            assert_eq!(name.to_ascii_lowercase().parse(), Ok(t));
            assert_eq!(t.to_string(), name);
        }
        assert_eq!("TYPE65280".parse(), Ok(Type(65280)));
        assert_eq!("type1".parse(), Ok(Type::A));
        assert_eq!(Type(65280).to_string(), "TYPE65280");
        for bad in ["TYPE65536", "TYPE", "TYPE-1", "TYPE+1", "NOPE", ""] {
            assert_eq!(bad.parse::<Type>(), Err(UnknownMnemonic), "{bad}");
        }
    }

    #[test]
    fn classes_round_trip() {
        assert_eq!("in".parse(), Ok(Class::IN));
        assert_eq!("CLASS32".parse(), Ok(Class(32)));
        assert_eq!(Class(32).to_string(), "CLASS32");
        assert_eq!(Class::ANY.to_string(), "ANY");
    }
}
