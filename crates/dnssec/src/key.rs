//! Key tags (RFC 4034 appendix B), DS digests (RFC 4034 §5.1.4), and the root's trust anchors.

use aws_lc_rs::digest::{self, Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA384};
use wire::Name;
use wire::rdata::view::{Dnskey, Ds};

/// The key tag (RFC 4034 appendix B): the sum of the RDATA as 16-bit numbers, with the carry added once.
/// Algorithm 1, which has its own rule, is obsolete.
pub fn tag(key: &Dnskey<'_>) -> u16 {
    let (pairs, last) = key.rdata.as_chunks::<2>();
    let sum: u32 = pairs.iter().map(|pair| u16::from_be_bytes(*pair) as u32).sum();
    let sum = sum + last.first().map_or(0, |&byte| (byte as u32) << 8);
    (sum + (sum >> 16)) as u16
}

/// The DS of the root's keys 20326 (2017) and 38696 (2024), as published by IANA (RFC 7958).
pub(crate) const ROOT_ANCHORS: [[u8; 36]; 2] = [
    *b"\x4f\x66\x08\x02\xe0\x6d\x44\xb8\x0b\x8f\x1d\x39\xa9\x5c\x0b\x0d\x7c\x65\xd0\x84\x58\xe8\x80\x40\x9b\xbc\x68\x34\x57\x10\x42\x37\xc7\xf8\xec\x8d",
    *b"\x97\x28\x08\x02\x68\x3d\x2d\x0a\xcb\x8c\x9b\x71\x2a\x19\x48\xb2\x7f\x74\x12\x19\x29\x8d\x0a\x45\x0d\x61\x2c\x48\x3a\xf4\x44\xa4\xc0\xfb\x2b\x16",
];

fn digest_algorithm(digest_type: u8) -> Option<&'static digest::Algorithm> {
    match digest_type {
        Ds::SHA1 => Some(&SHA1_FOR_LEGACY_USE_ONLY),
        Ds::SHA256 => Some(&SHA256),
        Ds::SHA384 => Some(&SHA384),
        _ => None,
    }
}

/// Length of a digest of this type in bytes; `None` if the type is not supported.
pub fn digest_len(digest_type: u8) -> Option<usize> {
    digest_algorithm(digest_type).map(digest::Algorithm::output_len)
}

/// The RDATA of a DS for `key` of `zone` (RFC 4034 §5.1); `None` if the digest type is not supported.
pub fn ds(zone: Name<'_>, key: &Dnskey<'_>, digest_type: u8) -> Option<Vec<u8>> {
    let algorithm = digest_algorithm(digest_type)?;
    let [high, low] = tag(key).to_be_bytes();
    let mut ds = vec![high, low, key.algorithm.0, digest_type];
    ds.extend_from_slice(digest_of(zone, key, algorithm).as_ref());
    Some(ds)
}

/// Whether `ds` matches `key` of `zone` in tag, algorithm and digest.
pub fn fits(zone: Name<'_>, key: &Dnskey<'_>, ds: &Ds<'_>) -> bool {
    key.algorithm == ds.algorithm
        && tag(key) == ds.key_tag
        && digest(zone, key, ds.digest_type).is_some_and(|digest| digest.as_ref() == ds.digest)
}

/// The digest of `key` of `zone`; `None` if the digest type is not supported.
pub(crate) fn digest(zone: Name<'_>, key: &Dnskey<'_>, digest_type: u8) -> Option<Digest> {
    digest_algorithm(digest_type).map(|algorithm| digest_of(zone, key, algorithm))
}

fn digest_of(zone: Name<'_>, key: &Dnskey<'_>, algorithm: &'static digest::Algorithm) -> Digest {
    let mut context = digest::Context::new(algorithm);
    context.update(zone.to_lower().as_lower().as_wire());
    context.update(key.rdata);
    context.finish()
}

#[cfg(test)]
mod tests {
    use wire::text::Base64;

    use super::*;

    /// The root's key-signing key of 2017, as in the root zone.
    const ROOT_KSK: &str = "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";

    #[test]
    fn the_root_key_of_2017_has_tag_20326() {
        let mut rdata = vec![1, 1, 3, 8];
        let mut base64 = Base64::default();
        base64.feed(ROOT_KSK.as_bytes(), &mut rdata).expect("base64");
        let key = Dnskey::read(&rdata).expect("a key");
        assert_eq!((tag(&key), key.is_zone_key(), key.is_sep()), (20326, true, true));
    }

    #[test]
    fn the_root_anchor_of_2017_is_the_digest_of_the_root_key() {
        let mut rdata = vec![1, 1, 3, 8];
        Base64::default().feed(ROOT_KSK.as_bytes(), &mut rdata).expect("base64");
        let key = Dnskey::read(&rdata).expect("a key");
        assert_eq!(ds(Name::ROOT, &key, Ds::SHA256).as_deref(), Some(&ROOT_ANCHORS[0][..]));
        let anchors = ROOT_ANCHORS.map(|rdata| fits(Name::ROOT, &key, &Ds::read(&rdata).expect("a DS")));
        assert_eq!(anchors, [true, false]);
        let other: wire::NameBuf = "com".parse().expect("a name");
        assert!(!fits(other.as_name(), &key, &Ds::read(&ROOT_ANCHORS[0]).expect("a DS")));
        assert_eq!(ds(Name::ROOT, &key, 3), None, "GOST");
    }

    #[test]
    fn a_last_byte_without_a_partner_is_the_upper_one() {
        let key = Dnskey::read(&[1, 0, 3, 13, 0xff]).expect("a key");
        assert_eq!(tag(&key), ((0x0100u32 + 0x030d + 0xff00) - 0x10000 + 1) as u16);
    }
}
