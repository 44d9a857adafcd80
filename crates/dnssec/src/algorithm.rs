//! Signature algorithms: which are supported, and verification with a key.

use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use wire::rdata::view::{Dnskey, SigAlgorithm};

/// Longest accepted RSA modulus in bytes: 4096 bits, the maximum of RFC 3110 §2.
const MAX_MODULUS: usize = 512;
/// Shortest accepted RSA modulus in bytes: 1024 bits, the minimum of RFC 5702 §2.2 for RSA/SHA-512.
const MIN_MODULUS: usize = 128;
/// Longest accepted RSA exponent in bytes. A longer one only slows verification down.
const MAX_EXPONENT: usize = 8;

/// Whether signatures of this algorithm can be verified.
pub fn is_supported(algorithm: SigAlgorithm) -> bool {
    matches!(
        algorithm,
        SigAlgorithm::RSASHA1
            | SigAlgorithm::RSASHA1_NSEC3_SHA1
            | SigAlgorithm::RSASHA256
            | SigAlgorithm::RSASHA512
            | SigAlgorithm::ECDSAP256SHA256
            | SigAlgorithm::ECDSAP384SHA384
            | SigAlgorithm::ED25519
    )
}

/// Whether signatures of this algorithm use SHA-1 (RFC 9905).
pub fn uses_sha1(algorithm: SigAlgorithm) -> bool {
    matches!(algorithm, SigAlgorithm::RSASHA1 | SigAlgorithm::RSASHA1_NSEC3_SHA1)
}

/// Whether `signature` is a valid signature over `bytes` by `key`. False for malformed keys, and for RSA keys
/// of less than 1024 or more than 4096 bits or with an exponent of more than 64 bits.
pub fn verify(key: &Dnskey<'_>, bytes: &[u8], signature: &[u8]) -> bool {
    let public = key.public_key;
    let ecdsa = |algorithm, len: usize| {
        let point = [&[4], public].concat();
        public.len() == len && UnparsedPublicKey::new(algorithm, point).verify(bytes, signature).is_ok()
    };
    match key.algorithm {
        SigAlgorithm::RSASHA1 | SigAlgorithm::RSASHA1_NSEC3_SHA1 => {
            rsa(&signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, public, bytes, signature)
        }
        SigAlgorithm::RSASHA256 => {
            rsa(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, public, bytes, signature)
        }
        SigAlgorithm::RSASHA512 => {
            rsa(&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, public, bytes, signature)
        }
        SigAlgorithm::ECDSAP256SHA256 => ecdsa(&ECDSA_P256_SHA256_FIXED, 64),
        SigAlgorithm::ECDSAP384SHA384 => ecdsa(&ECDSA_P384_SHA384_FIXED, 96),
        SigAlgorithm::ED25519 => UnparsedPublicKey::new(&ED25519, public).verify(bytes, signature).is_ok(),
        _ => false,
    }
}

/// Exponent and modulus of a key in the format of RFC 3110 §2: exponent length, exponent, modulus. `None` if
/// the key is malformed or its size is not accepted.
fn rsa_key(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (e, n) = match key {
        [0, high, low, rest @ ..] => rest.split_at_checked(u16::from_be_bytes([*high, *low]) as usize),
        [len, rest @ ..] => rest.split_at_checked(*len as usize),
        [] => None,
    }?;
    let n = &n[n.iter().position(|&byte| byte != 0).unwrap_or(n.len())..];
    let used = (1..=MAX_EXPONENT).contains(&e.len()) && (MIN_MODULUS..=MAX_MODULUS).contains(&n.len());
    used.then_some((e, n))
}

fn rsa(parameters: &'static signature::RsaParameters, key: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
    let Some((e, n)) = rsa_key(key) else { return false };
    RsaPublicKeyComponents { n, e }.verify(parameters, bytes, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rsa_keys_of_absurd_sizes_are_not_used() {
        let key = |e: usize, n: usize| [&[e as u8][..], &vec![1; e], &vec![1; n]].concat();
        for (e, n, used) in [
            (3, 128, true),
            (3, 512, true),
            (8, 256, true),
            (3, 127, false),
            (3, 513, false),
            (9, 256, false),
            (0, 256, false),
        ] {
            assert_eq!(rsa_key(&key(e, n)).is_some(), used, "exponent {e}, modulus {n}");
        }
        assert_eq!(rsa_key(&[0, 255, 255, 1, 1]), None, "the exponent overruns the key");
        assert_eq!(rsa_key(&[]), None);
        let padded = [&[1, 3][..], &[0; 400], &[1; 128]].concat();
        assert_eq!(rsa_key(&padded).map(|(_, n)| n.len()), Some(128), "zeros in front do not count");
    }
}
