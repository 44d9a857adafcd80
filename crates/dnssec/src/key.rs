//! DNSKEY and DS: reading keys, key tags, digests (RFC 4034 §2, §5, Appendix B; RFC 4509; RFC 6605).

use aws_lc_rs::digest::{Algorithm, Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384};
use wire::Name;

/// A DNSSEC signature algorithm number (IANA "DNS Security Algorithm Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SigAlgorithm(pub u8);

impl SigAlgorithm {
    /// RSA with SHA-1 (RFC 3110).
    pub const RSASHA1: SigAlgorithm = SigAlgorithm(5);
    /// The same, for zones with NSEC3 (RFC 5155 §2).
    pub const RSASHA1_NSEC3_SHA1: SigAlgorithm = SigAlgorithm(7);
    /// RSA with SHA-256 (RFC 5702).
    pub const RSASHA256: SigAlgorithm = SigAlgorithm(8);
    /// RSA with SHA-512 (RFC 5702).
    pub const RSASHA512: SigAlgorithm = SigAlgorithm(10);
    /// ECDSA on P-256 with SHA-256 (RFC 6605).
    pub const ECDSAP256SHA256: SigAlgorithm = SigAlgorithm(13);
    /// ECDSA on P-384 with SHA-384 (RFC 6605).
    pub const ECDSAP384SHA384: SigAlgorithm = SigAlgorithm(14);
    /// Ed25519 (RFC 8080).
    pub const ED25519: SigAlgorithm = SigAlgorithm(15);

    /// Whether signatures of this algorithm can be verified here.
    pub fn is_supported(self) -> bool {
        matches!(self.0, 5 | 7 | 8 | 10 | 13 | 14 | 15)
    }
}

/// A DNSKEY's RDATA, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsKey<'a> {
    rdata: &'a [u8],
}

impl<'a> DnsKey<'a> {
    /// Reads RDATA; `None` if it is too short to be a key.
    pub fn parse(rdata: &'a [u8]) -> Option<Self> {
        (rdata.len() > 4).then_some(DnsKey { rdata })
    }

    /// The flags field.
    pub fn flags(self) -> u16 {
        u16::from_be_bytes([self.rdata[0], self.rdata[1]])
    }

    /// Whether the key may sign zone data: Zone Key bit set, protocol 3, not revoked (RFC 4034 §2.1,
    /// RFC 5011 §2.1).
    pub fn is_zone_key(self) -> bool {
        self.flags() & 0x0100 != 0 && self.rdata[2] == 3 && self.flags() & 0x0080 == 0
    }

    /// Whether the Secure Entry Point bit is set.
    pub fn is_sep(self) -> bool {
        self.flags() & 1 != 0
    }

    /// The algorithm.
    pub fn algorithm(self) -> SigAlgorithm {
        SigAlgorithm(self.rdata[3])
    }

    /// The public key in the algorithm's own form.
    pub fn public_key(self) -> &'a [u8] {
        &self.rdata[4..]
    }

    /// The key tag (RFC 4034 Appendix B; algorithm 1 with its own rule is obsolete).
    pub fn tag(self) -> u16 {
        let sum: u32 = self
            .rdata
            .iter()
            .enumerate()
            .map(|(i, &octet)| if i % 2 == 0 { (octet as u32) << 8 } else { octet as u32 })
            .sum();
        (sum + (sum >> 16)) as u16
    }
}

/// How a DS record relates to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DsMatch {
    /// It is the key's digest.
    Yes,
    /// It is not.
    No,
    /// Its digest type is not known here.
    UnknownDigest,
}

/// Whether the DS (or CDS) RDATA `ds` at `owner` stands for the key with RDATA `key`.
pub fn ds_matches(owner: Name<'_>, ds: &[u8], key: DnsKey<'_>) -> DsMatch {
    let [tag_high, tag_low, algorithm, digest_type, digest @ ..] = ds else { return DsMatch::No };
    if u16::from_be_bytes([*tag_high, *tag_low]) != key.tag() || *algorithm != key.algorithm().0 {
        return DsMatch::No;
    }
    let kind: &'static Algorithm = match digest_type {
        1 => &SHA1_FOR_LEGACY_USE_ONLY,
        2 => &SHA256,
        4 => &SHA384,
        _ => return DsMatch::UnknownDigest,
    };
    let mut context = Context::new(kind);
    context.update(&owner.as_wire().to_ascii_lowercase());
    context.update(key.rdata);
    if context.finish().as_ref() == digest { DsMatch::Yes } else { DsMatch::No }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;

    /// The root's key-signing key of 2017 and its DS, as the root zone and IANA's trust anchors have them.
    const ROOT_KSK: &str = "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";
    const ROOT_DS: &str = "e06d44b80b8f1d39a95c0b0d7c65d08458e880409bbc683457104237c7f8ec8d";

    #[test]
    fn the_root_key_of_2017_has_tag_20326_and_matches_its_ds() {
        let mut rdata = vec![1, 1, 3, 8];
        rdata.extend(base64(ROOT_KSK));
        let key = DnsKey::parse(&rdata).expect("a key");
        assert_eq!((key.tag(), key.is_zone_key(), key.is_sep()), (20326, true, true));
        let mut ds = vec![0x4f, 0x66, 8, 2];
        ds.extend((0..32).map(|i| u8::from_str_radix(&ROOT_DS[2 * i..2 * i + 2], 16).expect("hex")));
        assert_eq!(ds_matches(NameBuf::ROOT.as_name(), &ds, key), DsMatch::Yes);
        ds[10] ^= 1;
        assert_eq!(ds_matches(NameBuf::ROOT.as_name(), &ds, key), DsMatch::No);
        ds[3] = 77;
        assert_eq!(ds_matches(NameBuf::ROOT.as_name(), &ds, key), DsMatch::UnknownDigest);
    }

    fn base64(text: &str) -> Vec<u8> {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let value = |c: u8| DIGITS.iter().position(|&d| d == c).unwrap_or(0) as u32;
        let mut out = Vec::new();
        for four in text.as_bytes().chunks(4) {
            let word = four.iter().fold(0, |acc, &c| acc << 6 | value(c));
            let pad = four.iter().filter(|&&c| c == b'=').count();
            out.extend_from_slice(&word.to_be_bytes()[1..4 - pad]);
        }
        out
    }
}
