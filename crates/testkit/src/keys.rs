//! Keys that sign for real: Ed25519 (RFC 8080), made of a seed, so that the same zone always has the same signatures.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use wire::rdata::view::{Dnskey, Ds};
use wire::{Name, NameBuf, Ttl, Type};

use crate::Record;

/// A key of a zone.
#[derive(Debug)]
pub struct SigningKey {
    /// RDATA of its DNSKEY.
    pub dnskey: Vec<u8>,
    pair: Ed25519KeyPair,
}

/// When a signature is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub inception: u32,
    /// The last.
    pub expiration: u32,
}

impl SigningKey {
    /// Flags of a key that signs keys: Zone Key and SEP (RFC 4034 §2.1.1).
    pub const KSK: u16 = 257;
    /// Flags of a key that signs all else.
    pub const ZSK: u16 = 256;

    /// A key made of a number.
    ///
    /// # Panics
    /// Never for any seed: each is a key.
    pub fn new(seed: u16, flags: u16) -> Self {
        let mut bytes = [0x5e; 32];
        bytes[..2].copy_from_slice(&seed.to_be_bytes());
        let pair = Ed25519KeyPair::from_seed_unchecked(&bytes).expect("32 bytes");
        let dnskey = [&flags.to_be_bytes()[..], &[3, 15], pair.public_key().as_ref()].concat();
        SigningKey { dnskey, pair }
    }

    /// Its tag.
    ///
    /// # Panics
    /// Never: the RDATA is that of a key.
    pub fn tag(&self) -> u16 {
        dnssec::key::tag(&Dnskey::read(&self.dnskey).expect("a key"))
    }

    /// RDATA of its DS, with SHA-256.
    ///
    /// # Panics
    /// Never: the RDATA is that of a key.
    pub fn ds(&self, zone: Name<'_>) -> Vec<u8> {
        let key = Dnskey::read(&self.dnskey).expect("a key");
        dnssec::key::ds(zone, &key, Ds::SHA256).expect("a digest type")
    }

    /// The RRSIG over an RRset whose RDATA is in canonical form and order (RFC 4034 §3.1.8.1), written down here once more
    /// and not taken from what is tested with it.
    pub fn sign(
        &self,
        zone: Name<'_>,
        (owner, covered, ttl): (NameBuf, Type, Ttl),
        rdatas: &[Vec<u8>],
        validity: Validity,
    ) -> Record {
        let labels = owner.as_name().labels().filter(|label| *label != b"*").count() as u8;
        let mut rdata = covered.0.to_be_bytes().to_vec();
        rdata.extend([15, labels]);
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
        rdata.extend(self.pair.sign(&signed).as_ref());
        Record { owner, rtype: Type::RRSIG, ttl, rdata }
    }
}
