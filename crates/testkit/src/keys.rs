//! DNSSEC keys that make valid signatures. Most tests use Ed25519 keys (RFC 8080) made from a seed, so that
//! the same zone always has the same signatures; keys of the other algorithms are random.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use wire::rdata::view::{Dnskey, Ds, SigAlgorithm};
use wire::{Name, NameBuf, Ttl, Type};

use crate::ModelRecord;

/// A zone's key.
#[derive(Debug)]
pub struct SigningKey {
    /// The DNSKEY RDATA.
    pub dnskey: Vec<u8>,
    pair: Pair,
}

/// The key pair.
#[derive(Debug)]
enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(Box<EcdsaKeyPair>),
    RsaSha256(Box<RsaKeyPair>),
    RsaSha512(Box<RsaKeyPair>),
}

impl Pair {
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let rsa = |pair: &RsaKeyPair, encoding| {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(encoding, &SystemRandom::new(), bytes, &mut signature).expect("a signature");
            signature
        };
        match self {
            Pair::Ed25519(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Ecdsa(pair) => {
                pair.sign(&SystemRandom::new(), bytes).expect("a signature").as_ref().to_vec()
            }
            Pair::RsaSha256(pair) => rsa(pair, &RSA_PKCS1_SHA256),
            Pair::RsaSha512(pair) => rsa(pair, &RSA_PKCS1_SHA512),
        }
    }
}

/// Converts an RSAPublicKey (RFC 8017 §A.1.1) to the form of RFC 3110 §2.
fn rfc_3110(der: &[u8]) -> Vec<u8> {
    fn value<'d>(der: &mut &'d [u8]) -> &'d [u8] {
        let (head, len) = match der[1] {
            0x82 => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
            0x81 => (3, usize::from(der[2])),
            short => (2, usize::from(short)),
        };
        let (value, rest) = der[head..].split_at(len);
        *der = rest;
        value
    }
    let mut integers = value(&mut &*der);
    let (modulus, exponent) = (value(&mut integers), value(&mut integers));
    let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    [&[exponent.len() as u8], exponent, modulus].concat()
}

/// Validity period of a signature, in Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub inception: u32,
    /// The last second.
    pub expiration: u32,
}

impl SigningKey {
    /// Flags of a key-signing key: Zone Key and SEP (RFC 4034 §2.1.1).
    pub const KSK: u16 = 257;
    /// Flags of a zone-signing key.
    pub const ZSK: u16 = 256;

    /// Creates the Ed25519 key with this seed.
    ///
    /// # Panics
    /// Never for any seed: each is a key.
    pub fn new(seed: u16, flags: u16) -> Self {
        let mut bytes = [0x5e; 32];
        bytes[..2].copy_from_slice(&seed.to_be_bytes());
        let pair = Ed25519KeyPair::from_seed_unchecked(&bytes).expect("32 bytes");
        let dnskey = [&flags.to_be_bytes()[..], &[3, 15], pair.public_key().as_ref()].concat();
        SigningKey { dnskey, pair: Pair::Ed25519(pair) }
    }

    /// Creates a random key: RSA/SHA-256 and RSA/SHA-512 (RFC 5702) of 2048 bits, ECDSA P-256 and P-384 (RFC
    /// 6605), or Ed25519.
    ///
    /// # Panics
    /// For any other algorithm: tests call this.
    pub fn random(algorithm: SigAlgorithm, flags: u16) -> Self {
        let ecdsa = |curve| Box::new(EcdsaKeyPair::generate(curve).expect("a key"));
        let rsa = || Box::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"));
        let pair = match algorithm {
            SigAlgorithm::RSASHA256 => Pair::RsaSha256(rsa()),
            SigAlgorithm::RSASHA512 => Pair::RsaSha512(rsa()),
            SigAlgorithm::ECDSAP256SHA256 => Pair::Ecdsa(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)),
            SigAlgorithm::ECDSAP384SHA384 => Pair::Ecdsa(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING)),
            SigAlgorithm::ED25519 => Pair::Ed25519(Ed25519KeyPair::generate().expect("a key")),
            other => panic!("no key of algorithm {other:?} is made here"),
        };
        let public = match &pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
            // Without the first byte, which marks the uncompressed form.
            Pair::Ecdsa(pair) => pair.public_key().as_ref()[1..].to_vec(),
            Pair::RsaSha256(pair) | Pair::RsaSha512(pair) => rfc_3110(pair.public_key().as_ref()),
        };
        let dnskey = [&flags.to_be_bytes()[..], &[3, algorithm.0], &public].concat();
        SigningKey { dnskey, pair }
    }

    /// Returns the key tag.
    ///
    /// # Panics
    /// Never: the RDATA is that of a key.
    pub fn tag(&self) -> u16 {
        dnssec::key::tag(&Dnskey::read(&self.dnskey).expect("a key"))
    }

    /// Returns the RDATA of the key's DS record, with SHA-256.
    ///
    /// # Panics
    /// Never: the RDATA is that of a key.
    pub fn ds(&self, zone: Name<'_>) -> Vec<u8> {
        let key = Dnskey::read(&self.dnskey).expect("a key");
        dnssec::key::ds(zone, &key, Ds::SHA256).expect("a digest type")
    }

    /// Returns the RRSIG over an RRset whose RDATA is in canonical form and order (RFC 4034 §3.1.8.1). The
    /// signed data is encoded here, independently of the code under test.
    pub fn sign(
        &self,
        zone: Name<'_>,
        owner: NameBuf,
        covered: Type,
        ttl: Ttl,
        rdatas: &[Vec<u8>],
        validity: Validity,
    ) -> ModelRecord {
        // RFC 4034 §3.1.3: an asterisk counts, unless it is the leftmost label.
        let leftmost = owner.as_name().labels().take(1).filter(|label| *label == b"*").count();
        let labels = (owner.as_name().labels().count() - leftmost) as u8;
        let mut rdata = covered.0.to_be_bytes().to_vec();
        rdata.extend([self.dnskey[3], labels]);
        rdata.extend(ttl.to_be_bytes());
        rdata.extend(validity.expiration.to_be_bytes());
        rdata.extend(validity.inception.to_be_bytes());
        rdata.extend(self.tag().to_be_bytes());
        rdata.extend(zone.to_lower().as_name().as_wire());
        let mut signed = rdata.clone();
        for data in rdatas {
            signed.extend(owner.as_name().to_lower().as_name().as_wire());
            signed.extend(covered.0.to_be_bytes());
            signed.extend([0, 1]);
            signed.extend(ttl.to_be_bytes());
            signed.extend((data.len() as u16).to_be_bytes());
            signed.extend(data);
        }
        rdata.extend(self.pair.sign(&signed));
        ModelRecord { owner, rtype: Type::RRSIG, ttl, rdata }
    }
}
