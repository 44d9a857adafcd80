//! Key tags (RFC 4034 appendix B) and DS digests (RFC 4034 §5.1.4).

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

/// The digest of a key, as bytes.
pub struct KeyDigest(Digest);

impl AsRef<[u8]> for KeyDigest {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

/// The digest of `key` of `zone`; `None` if the digest type is not supported.
pub fn digest(zone: Name<'_>, key: &Dnskey<'_>, digest_type: u8) -> Option<KeyDigest> {
    digest_algorithm(digest_type).map(|algorithm| KeyDigest(digest_of(zone, key, algorithm)))
}

fn digest_of(zone: Name<'_>, key: &Dnskey<'_>, algorithm: &'static digest::Algorithm) -> Digest {
    let mut context = digest::Context::new(algorithm);
    context.update(zone.to_lower().as_lower().as_wire());
    context.update(key.rdata);
    context.finish()
}

#[cfg(test)]
mod tests {
    use wire::text::{Base64, Hex};

    use super::*;

    /// The key of dskey.example.com. in RFC 4034 §5.4.
    const KEY: &str = "AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMmmAphXdvxegXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw==";

    #[test]
    fn the_examples_of_rfc_4034_and_4509_have_their_tag_and_digests() {
        let mut rdata = vec![1, 0, 3, 5];
        Base64::default().feed(KEY.as_bytes(), &mut rdata).expect("base64");
        let key = Dnskey::read(&rdata).expect("a key");
        let zone: wire::NameBuf = "dskey.example.com".parse().expect("a name");
        assert_eq!((tag(&key), key.is_zone_key(), key.is_sep()), (60485, true, false));
        let digests = [
            (Ds::SHA1, "2BB183AF5F22588179A53B0A98631FAD1A292118"),
            (Ds::SHA256, "D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A"),
        ];
        for (digest_type, text) in digests {
            let mut expected = vec![0xec, 0x45, 5, digest_type];
            Hex::default().feed(text.as_bytes(), &mut expected).expect("hexadecimal");
            assert_eq!(ds(zone.as_name(), &key, digest_type), Some(expected.clone()));
            let published = Ds::read(&expected).expect("a DS");
            assert!(fits(zone.as_name(), &key, &published));
            assert!(!fits(Name::ROOT, &key, &published), "the name is part of the digest");
        }
        assert_eq!(ds(zone.as_name(), &key, 3), None, "GOST");
    }

    #[test]
    fn a_last_byte_without_a_partner_is_the_upper_one() {
        let key = Dnskey::read(&[1, 0, 3, 13, 0xff]).expect("a key");
        assert_eq!(tag(&key), ((0x0100u32 + 0x030d + 0xff00) - 0x10000 + 1) as u16);
    }
}
