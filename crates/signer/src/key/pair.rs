//! [`PrivateKey`]: a key pair of one algorithm. It signs, and yields the numbers that key files hold.
//!
//! AWS-LC erases the memory of its keys when it frees it, and aws-lc-rs that of the buffers that it returns.
//! Numbers on their way to and from text are [`Zeroizing`].

use std::fmt;

use aws_lc_rs::encoding::{AsBigEndian, AsDer, Curve25519SeedBin, EcPrivateKeyBin, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use wire::rdata::view::SigAlgorithm;
use zeroize::Zeroizing;

use super::der;

/// Smallest RSA modulus in bits: what AWS-LC signs with, and what RFC 8624 and NIST call for.
pub const MIN_RSA_BITS: usize = 2048;
/// Largest RSA modulus in bits (RFC 3110 §2).
pub const MAX_RSA_BITS: usize = 4096;

/// Length of an Ed25519 seed in bytes (RFC 8032 §5.1.5).
const SEED_LEN: usize = 32;

/// Names of the numbers of an RSA key in key files, in the order of [`der::rsa_private`].
pub(super) const RSA_FIELDS: [&str; 8] = [
    "Modulus",
    "PublicExponent",
    "PrivateExponent",
    "Prime1",
    "Prime2",
    "Exponent1",
    "Exponent2",
    "Coefficient",
];

/// Why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadKey {
    /// nomen does not sign with this algorithm.
    Algorithm(SigAlgorithm),
    /// The RSA modulus has this many bits: too few, too many, or a size that is not generated.
    RsaBits(usize),
    /// The numbers are not those of a key of the algorithm.
    Numbers,
    /// The document is no PKCS#8 private key (RFC 5958).
    Document,
    /// The document holds a key of another algorithm.
    OtherAlgorithm,
    /// The public key in the DNSKEY record is not that of the private key.
    OtherPublicKey,
    /// The system has no random numbers.
    Random,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Algorithm(SigAlgorithm(16)) => {
                f.write_str("nomen cannot sign with algorithm 16 (ED448): its cryptography library lacks it")
            }
            Self::Algorithm(algorithm) => write!(
                f,
                "nomen does not sign with algorithm {} ({algorithm}); use 8, 10, 13, 14 or 15",
                algorithm.0
            ),
            Self::RsaBits(bits) if *bits < MIN_RSA_BITS => {
                write!(f, "the RSA key has {bits} bits, which is too weak: the least is {MIN_RSA_BITS}")
            }
            Self::RsaBits(bits) => write!(
                f,
                "an RSA key of {bits} bits cannot be used: 2048, 3072 or 4096 bits are generated, \
                 {MAX_RSA_BITS} is the most"
            ),
            Self::Numbers => f.write_str("the numbers do not form a private key of this algorithm"),
            Self::Document => f.write_str("not a PKCS#8 private key"),
            Self::OtherAlgorithm => f.write_str("the private key is of another algorithm"),
            Self::OtherPublicKey => f.write_str("the public key is not that of the private key"),
            Self::Random => f.write_str("no key could be generated"),
        }
    }
}
impl std::error::Error for BadKey {}

/// The cryptography library could not make a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSignature;

/// A key pair of one algorithm.
pub struct PrivateKey {
    algorithm: SigAlgorithm,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl fmt::Debug for PrivateKey {
    /// The algorithm only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.algorithm)
    }
}

/// Whether nomen can sign with this algorithm.
pub fn can_sign(algorithm: SigAlgorithm) -> bool {
    matches!(
        algorithm,
        SigAlgorithm::RSASHA256
            | SigAlgorithm::RSASHA512
            | SigAlgorithm::ECDSAP256SHA256
            | SigAlgorithm::ECDSAP384SHA384
            | SigAlgorithm::ED25519
    )
}

/// Whether the algorithm is one of RSA's that nomen signs with.
pub(super) fn is_rsa(algorithm: SigAlgorithm) -> bool {
    matches!(algorithm, SigAlgorithm::RSASHA256 | SigAlgorithm::RSASHA512)
}

fn curve(algorithm: SigAlgorithm) -> Option<&'static EcdsaSigningAlgorithm> {
    match algorithm {
        SigAlgorithm::ECDSAP256SHA256 => Some(&ECDSA_P256_SHA256_FIXED_SIGNING),
        SigAlgorithm::ECDSAP384SHA384 => Some(&ECDSA_P384_SHA384_FIXED_SIGNING),
        _ => None,
    }
}

impl PrivateKey {
    /// Generates a key. `rsa_bits` is the size of the modulus, for RSA only.
    ///
    /// # Errors
    /// [`BadKey::Algorithm`], [`BadKey::RsaBits`] or [`BadKey::Random`].
    pub fn generate(algorithm: SigAlgorithm, rsa_bits: usize) -> Result<PrivateKey, BadKey> {
        let pair = if is_rsa(algorithm) {
            let size = match rsa_bits {
                2048 => KeySize::Rsa2048,
                3072 => KeySize::Rsa3072,
                4096 => KeySize::Rsa4096,
                other => return Err(BadKey::RsaBits(other)),
            };
            Pair::Rsa(Box::new(RsaKeyPair::generate(size).map_err(|_| BadKey::Random)?))
        } else if let Some(curve) = curve(algorithm) {
            Pair::Ecdsa(Box::new(EcdsaKeyPair::generate(curve).map_err(|_| BadKey::Random)?))
        } else if algorithm == SigAlgorithm::ED25519 {
            Pair::Ed25519(Box::new(Ed25519KeyPair::generate().map_err(|_| BadKey::Random)?))
        } else {
            return Err(BadKey::Algorithm(algorithm));
        };
        Ok(PrivateKey { algorithm, pair })
    }

    /// Returns the RSA key of the numbers in [`RSA_FIELDS`].
    pub(super) fn of_rsa(algorithm: SigAlgorithm, numbers: &[&[u8]; 8]) -> Result<PrivateKey, BadKey> {
        check_rsa_size(numbers[0])?;
        let pair = RsaKeyPair::from_der(&der::rsa_document(numbers)).map_err(|_| BadKey::Numbers)?;
        Ok(PrivateKey { algorithm, pair: Pair::Rsa(Box::new(pair)) })
    }

    /// Returns the ECDSA key of this number, or the Ed25519 key of this seed.
    pub(super) fn of_number(algorithm: SigAlgorithm, number: &[u8]) -> Result<PrivateKey, BadKey> {
        let pair = if let Some(curve) = curve(algorithm) {
            // Some programs leave out the zeros in front.
            let len = if algorithm == SigAlgorithm::ECDSAP256SHA256 { 32 } else { 48 };
            let number = der::without_zeros(number);
            let zeros = len - number.len().min(len);
            let padded = Zeroizing::new([&vec![0; zeros], number].concat());
            let document = der::ec_document(&padded);
            let pair = EcdsaKeyPair::from_private_key_der(curve, &document).map_err(|_| BadKey::Numbers)?;
            Pair::Ecdsa(Box::new(pair))
        } else if algorithm == SigAlgorithm::ED25519 {
            if number.len() != SEED_LEN {
                return Err(BadKey::Numbers);
            }
            let pair = Ed25519KeyPair::from_seed_unchecked(number).map_err(|_| BadKey::Numbers)?;
            Pair::Ed25519(Box::new(pair))
        } else {
            return Err(BadKey::Algorithm(algorithm));
        };
        Ok(PrivateKey { algorithm, pair })
    }

    /// Returns the key of a PKCS#8 document (RFC 5958). The document of an RSA key does not say with which
    /// hash it signs: `rsa` is the algorithm of such a key.
    ///
    /// # Errors
    /// All but [`BadKey::OtherPublicKey`] and [`BadKey::Random`].
    pub fn from_pkcs8(document: &[u8], rsa: SigAlgorithm) -> Result<PrivateKey, BadKey> {
        let (object, parameters, inner) = der::pkcs8(document).ok_or(BadKey::Document)?;
        let (algorithm, pair) = match (object, parameters) {
            (der::RSA, _) => {
                let numbers = der::rsa_private(inner).ok_or(BadKey::Document)?;
                return PrivateKey::of_rsa(rsa, &numbers);
            }
            (der::EC, der::P256 | der::P384) => {
                let algorithm = match parameters {
                    der::P256 => SigAlgorithm::ECDSAP256SHA256,
                    _ => SigAlgorithm::ECDSAP384SHA384,
                };
                let curve = curve(algorithm).ok_or(BadKey::Document)?;
                let pair = EcdsaKeyPair::from_pkcs8(curve, document).map_err(|_| BadKey::Numbers)?;
                (algorithm, Pair::Ecdsa(Box::new(pair)))
            }
            (der::ED25519, _) => {
                let pair =
                    Ed25519KeyPair::from_pkcs8_maybe_unchecked(document).map_err(|_| BadKey::Numbers)?;
                (SigAlgorithm::ED25519, Pair::Ed25519(Box::new(pair)))
            }
            (der::ED448, _) => return Err(BadKey::Algorithm(SigAlgorithm(16))),
            _ => return Err(BadKey::Document),
        };
        Ok(PrivateKey { algorithm, pair })
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> SigAlgorithm {
        self.algorithm
    }

    /// Returns the size of the public key in bits: of RSA that of the modulus.
    pub fn bits(&self) -> usize {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_modulus_len() * 8,
            Pair::Ecdsa(_) if self.algorithm == SigAlgorithm::ECDSAP384SHA384 => 384,
            Pair::Ecdsa(_) | Pair::Ed25519(_) => 256,
        }
    }

    /// Returns the public key in the form of DNSKEY: RFC 3110 §2, RFC 6605 §4, RFC 8080 §3.
    pub fn public_key(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let (modulus, exponent) = der::rsa_public(pair.public_key().as_ref()).unwrap_or_default();
                [&[exponent.len() as u8], exponent, modulus].concat()
            }
            // Without the first byte, which marks the uncompressed form.
            Pair::Ecdsa(pair) => pair.public_key().as_ref().get(1..).unwrap_or_default().to_vec(),
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// Signs bytes; the signature is in the form of RRSIG. RSA and Ed25519 make the same signature each
    /// time, ECDSA another one.
    ///
    /// # Errors
    /// The library fails, for instance without random numbers.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, NoSignature> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let encoding = match self.algorithm {
                    SigAlgorithm::RSASHA512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(encoding, &SystemRandom::new(), bytes, &mut signature);
                signed.map(|()| signature).map_err(|_| NoSignature)
            }
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), bytes).map_err(|_| NoSignature)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => {
                let signature = pair.try_sign(bytes).map_err(|_| NoSignature)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }

    /// Passes the fields of the key file to `field`, each with its name and number.
    pub(super) fn fields(&self, mut field: impl FnMut(&str, &[u8])) -> Result<(), BadKey> {
        match &self.pair {
            Pair::Rsa(pair) => {
                let document: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| BadKey::Numbers)?;
                let (.., inner) = der::pkcs8(document.as_ref()).ok_or(BadKey::Numbers)?;
                let numbers = der::rsa_private(inner).ok_or(BadKey::Numbers)?;
                RSA_FIELDS.iter().zip(numbers).for_each(|(name, number)| field(name, number));
            }
            Pair::Ecdsa(pair) => {
                let number: EcPrivateKeyBin<'_> =
                    pair.private_key().as_be_bytes().map_err(|_| BadKey::Numbers)?;
                field("PrivateKey", number.as_ref());
            }
            Pair::Ed25519(pair) => {
                let seed = pair.seed().map_err(|_| BadKey::Numbers)?;
                let seed: Curve25519SeedBin<'_> = seed.as_be_bytes().map_err(|_| BadKey::Numbers)?;
                field("PrivateKey", seed.as_ref());
            }
        }
        Ok(())
    }
}

/// Checks the size of a modulus before the library does, for a clear message.
fn check_rsa_size(modulus: &[u8]) -> Result<(), BadKey> {
    let modulus = der::without_zeros(modulus);
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    match bits {
        MIN_RSA_BITS..=MAX_RSA_BITS => Ok(()),
        other => Err(BadKey::RsaBits(other)),
    }
}
