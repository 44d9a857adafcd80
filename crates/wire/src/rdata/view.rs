//! RDATA parsed into its fields, for the types that several modules use.
//!
//! A view borrows uncompressed RDATA and is as strict as [`validate`](super::validate): both accept the same
//! RDATA, with nothing missing or left over. The meaning of a record is not covered here.
//!
//! Other crates read RDATA through these views, so that none of them counts bytes by hand.

use std::fmt;

use super::bitmap;
use super::mnemonic::ALGORITHMS;
use crate::malformed::Malformed;
use crate::name::Name;
use crate::rr::Type;
use crate::serial::Serial;
use crate::ttl::Ttl;

pub use bitmap::TypeBitmap;

/// RDATA not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    #[inline]
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        self.bytes().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.bytes().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn name(&mut self) -> Result<Name<'a>, Malformed> {
        let name = Name::parse(self.0).map_err(|_| Malformed)?;
        self.0 = &self.0[name.len()..];
        Ok(name)
    }

    /// Reads a length byte and that many bytes.
    fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u8()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Returns everything up to the end, at least one byte.
    fn some(self) -> Result<&'a [u8], Malformed> {
        if self.0.is_empty() { Err(Malformed) } else { Ok(self.0) }
    }

    /// Checks that nothing is left over.
    fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// SOA (RFC 1035 §3.3.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soa<'a> {
    /// MNAME: the primary server of the zone (RFC 1035 §3.3.13, RFC 1996 §1.2).
    pub mname: Name<'a>,
    /// RNAME: the mailbox of the responsible person; its first label is the part before the `@` (RFC 1035
    /// §3.3.13, §8).
    pub rname: Name<'a>,
    /// The five numeric fields.
    pub numbers: SoaNumbers,
}

/// The numeric fields of an SOA record (RFC 1035 §3.3.13); times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoaNumbers {
    /// SERIAL: the version of the zone (RFC 1982).
    pub serial: Serial,
    /// REFRESH: time until a secondary checks for a new version (RFC 1034 §4.3.5).
    pub refresh: u32,
    /// RETRY: time until a secondary checks again after a failure (RFC 1034 §4.3.5).
    pub retry: u32,
    /// EXPIRE: time without a successful check after which a secondary drops the zone (RFC 1034 §4.3.5).
    pub expire: u32,
    /// MINIMUM: the longest time for which a negative answer may be cached (RFC 2308 §4).
    pub minimum: u32,
}

impl<'a> Soa<'a> {
    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        let (mname, rname) = (rest.name()?, rest.name()?);
        let numbers = SoaNumbers {
            serial: Serial(rest.u32()?),
            refresh: rest.u32()?,
            retry: rest.u32()?,
            expire: rest.u32()?,
            minimum: rest.u32()?,
        };
        rest.end()?;
        Ok(Soa { mname, rname, numbers })
    }
}

/// NS (RFC 1035 §3.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ns<'a> {
    /// NSDNAME: a server of the zone (RFC 1035 §3.3.11); never an alias (RFC 2181 §10.3).
    pub nsdname: Name<'a>,
}

impl<'a> Ns<'a> {
    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        let nsdname = rest.name()?;
        rest.end()?;
        Ok(Ns { nsdname })
    }
}

/// The algorithm of a key and its signatures (IANA "DNS Security Algorithm Numbers", RFC 4034 appendix A.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SigAlgorithm(pub u8);

impl SigAlgorithm {
    /// RSA with SHA-1 (RFC 3110).
    pub const RSASHA1: SigAlgorithm = SigAlgorithm(5);
    /// RSA with SHA-1, for zones with NSEC3 (RFC 5155 §2).
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
}

impl fmt::Display for SigAlgorithm {
    /// The mnemonic, or the number if it has none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ALGORITHMS.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

/// RRSIG (RFC 4034 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rrsig<'a> {
    /// Type Covered: the type of the signed RRset (RFC 4034 §3.1.1).
    pub type_covered: Type,
    /// Algorithm of the signature (RFC 4034 §3.1.2).
    pub algorithm: SigAlgorithm,
    /// Number of labels of the signed owner, without the root and a leading `*` (RFC 4034 §3.1.3).
    pub labels: u8,
    /// Original TTL: that of the RRset in its zone (RFC 4034 §3.1.4).
    pub original_ttl: Ttl,
    /// Signature Expiration: the end of validity, in seconds since 1970 (RFC 4034 §3.1.5).
    pub expiration: Serial,
    /// Signature Inception: the start of validity, in seconds since 1970 (RFC 4034 §3.1.5).
    pub inception: Serial,
    /// Key Tag of the signing key (RFC 4034 §3.1.6).
    pub key_tag: u16,
    /// Signer's Name: the zone of the signing key (RFC 4034 §3.1.7).
    pub signer: Name<'a>,
    /// Signature, in the format of its algorithm (RFC 4034 §3.1.8).
    pub signature: &'a [u8],
    /// All fields except the signature, in wire form: the part of its own record that is signed (RFC 4034
    /// §3.1.8.1).
    pub signed_fields: &'a [u8],
}

impl<'a> Rrsig<'a> {
    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        Ok(Rrsig {
            type_covered: Type(rest.u16()?),
            algorithm: SigAlgorithm(rest.u8()?),
            labels: rest.u8()?,
            original_ttl: Ttl::from_be_bytes(rest.bytes()?),
            expiration: Serial(rest.u32()?),
            inception: Serial(rest.u32()?),
            key_tag: rest.u16()?,
            signer: rest.name()?,
            signed_fields: &rdata[..rdata.len() - rest.0.len()],
            signature: rest.some()?,
        })
    }

    /// Parses Type Covered alone, for callers that only sort signatures.
    #[inline]
    pub fn read_type_covered(rdata: &[u8]) -> Result<Type, Malformed> {
        Rest(rdata).u16().map(Type)
    }
}

/// DNSKEY (RFC 4034 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dnskey<'a> {
    /// Flags: the purpose of the key (RFC 4034 §2.1.1).
    pub flags: u16,
    /// Protocol: must be [`DNSSEC`](Self::DNSSEC) (RFC 4034 §2.1.2).
    pub protocol: u8,
    /// Algorithm of the key (RFC 4034 §2.1.3).
    pub algorithm: SigAlgorithm,
    /// Public Key, in the format of its algorithm (RFC 4034 §2.1.4).
    pub public_key: &'a [u8],
    /// The whole RDATA, over which tags and digests are computed (RFC 4034 §5.1.4, appendix B).
    pub rdata: &'a [u8],
}

impl<'a> Dnskey<'a> {
    /// The protocol number of every valid key (RFC 4034 §2.1.2).
    pub const DNSSEC: u8 = 3;
    /// Flag Zone Key: the key may sign the zone's data (RFC 4034 §2.1.1).
    const ZONE_KEY: u16 = 0x0100;
    /// Flag REVOKE (RFC 5011 §3).
    pub const REVOKE: u16 = 0x0080;
    /// Flag Secure Entry Point (RFC 4034 §2.1.1).
    const SEP: u16 = 0x0001;

    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        Ok(Dnskey {
            flags: rest.u16()?,
            protocol: rest.u8()?,
            algorithm: SigAlgorithm(rest.u8()?),
            public_key: rest.some()?,
            rdata,
        })
    }

    /// Whether the key may sign zone data: the Zone Key bit is set, the protocol is right, and it is not
    /// revoked (RFC 4034 §2.1, RFC 5011 §2.1).
    pub fn is_zone_key(&self) -> bool {
        self.flags & (Self::ZONE_KEY | Self::REVOKE) == Self::ZONE_KEY && self.protocol == Self::DNSSEC
    }

    /// Whether the REVOKE bit is set: the key's owner has withdrawn it (RFC 5011 §2.1).
    pub fn is_revoked(&self) -> bool {
        self.flags & Self::REVOKE != 0
    }

    /// Whether the Secure Entry Point bit is set (RFC 4034 §2.1.1).
    pub fn is_sep(&self) -> bool {
        self.flags & Self::SEP != 0
    }
}

/// DS (RFC 4034 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ds<'a> {
    /// Key Tag of the child's key (RFC 4034 §5.1.1).
    pub key_tag: u16,
    /// Algorithm of that key (RFC 4034 §5.1.2).
    pub algorithm: SigAlgorithm,
    /// Digest Type: the digest algorithm (RFC 4034 §5.1.3, RFC 4509 §2.1, RFC 6605 §2).
    pub digest_type: u8,
    /// Digest of the key's owner and its RDATA (RFC 4034 §5.1.4).
    pub digest: &'a [u8],
}

impl<'a> Ds<'a> {
    /// The digest type SHA-1 (RFC 4034 §5.1.3).
    pub const SHA1: u8 = 1;
    /// The digest type SHA-256 (RFC 4509 §2.1).
    pub const SHA256: u8 = 2;
    /// The digest type SHA-384 (RFC 6605 §2).
    pub const SHA384: u8 = 4;

    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        Ok(Ds {
            key_tag: rest.u16()?,
            algorithm: SigAlgorithm(rest.u8()?),
            digest_type: rest.u8()?,
            digest: rest.some()?,
        })
    }
}

/// NSEC (RFC 4034 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsec<'a> {
    /// Next Domain Name: the next owner in canonical order, for the last one the apex (RFC 4034 §4.1.1).
    pub next: Name<'a>,
    /// Type Bit Maps: the types at the owner (RFC 4034 §4.1.2).
    pub types: TypeBitmap<'a>,
}

impl<'a> Nsec<'a> {
    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        Ok(Nsec { next: rest.name()?, types: TypeBitmap::read(rest.0)? })
    }
}

/// CSYNC (RFC 7477 §2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csync<'a> {
    /// SOA Serial: the least version of the child that counts, with [`SOA_MINIMUM`](Self::SOA_MINIMUM).
    pub serial: Serial,
    /// Flags.
    pub flags: u16,
    /// Type Bit Map: the types to copy.
    pub types: TypeBitmap<'a>,
}

impl<'a> Csync<'a> {
    /// The flag `immediate`: no confirmation by an operator is needed.
    pub const IMMEDIATE: u16 = 1;
    /// The flag `soaminimum`: versions of the child below [`serial`](Self::serial) do not count.
    pub const SOA_MINIMUM: u16 = 2;

    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        let (serial, flags) = (Serial(rest.u32()?), rest.u16()?);
        Ok(Csync { serial, flags, types: TypeBitmap::read(rest.0)? })
    }
}

/// NSEC3PARAM (RFC 5155 §4), and the first fields of NSEC3 (RFC 5155 §3.2): the hash parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsec3Param<'a> {
    /// Hash Algorithm (RFC 5155 §3.1.1): [`SHA1`](Self::SHA1) is the only one.
    pub algorithm: u8,
    /// Flags: [`OPT_OUT`](Self::OPT_OUT) in NSEC3 (RFC 5155 §3.1.2), all zero in NSEC3PARAM (RFC 5155
    /// §4.1.2).
    pub flags: u8,
    /// Iterations: rounds after the first (RFC 5155 §3.1.3).
    pub iterations: u16,
    /// Salt, up to 255 bytes (RFC 5155 §3.1.5).
    pub salt: &'a [u8],
}

impl<'a> Nsec3Param<'a> {
    /// The hash algorithm SHA-1 (RFC 5155 §11).
    pub const SHA1: u8 = 1;
    /// Longest salt in bytes: its length is one byte (RFC 5155 §3.1.4).
    pub const MAX_SALT: usize = u8::MAX as usize;
    /// Flag Opt-Out: the hashes between this one and the next may belong to insecure delegations (RFC 5155
    /// §3.1.2.1).
    pub const OPT_OUT: u8 = 1;

    /// Parses RDATA of NSEC3PARAM.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        let param = Self::read_front(&mut rest)?;
        rest.end()?;
        Ok(param)
    }

    fn read_front(rest: &mut Rest<'a>) -> Result<Self, Malformed> {
        Ok(Nsec3Param {
            algorithm: rest.u8()?,
            flags: rest.u8()?,
            iterations: rest.u16()?,
            salt: rest.sized()?,
        })
    }

    /// Whether both hash names equally: all fields except the flags are equal (RFC 5155 §7.2).
    pub fn hashes_as(&self, other: &Nsec3Param<'_>) -> bool {
        let hashing = |p: &Nsec3Param<'_>| (p.algorithm, p.iterations);
        hashing(self) == hashing(other) && self.salt == other.salt
    }
}

/// NSEC3 (RFC 5155 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsec3<'a> {
    /// Hash parameters and flags (RFC 5155 §3.1.1 to §3.1.5).
    pub param: Nsec3Param<'a>,
    /// Next Hashed Owner Name: the next hash, for the last one the first (RFC 5155 §3.1.7).
    pub next_hash: &'a [u8],
    /// Type Bit Maps: the types at the hashed name (RFC 5155 §3.1.8).
    pub types: TypeBitmap<'a>,
}

impl<'a> Nsec3<'a> {
    /// Parses RDATA.
    pub fn read(rdata: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = Rest(rdata);
        let param = Nsec3Param::read_front(&mut rest)?;
        let next_hash = rest.sized()?;
        if next_hash.is_empty() {
            return Err(Malformed);
        }
        Ok(Nsec3 { param, next_hash, types: TypeBitmap::read(rest.0)? })
    }

    /// Parses the parameters alone, for callers that only need the record's chain.
    pub fn read_param(rdata: &'a [u8]) -> Result<Nsec3Param<'a>, Malformed> {
        Nsec3Param::read_front(&mut Rest(rdata))
    }

    /// Whether the Opt-Out flag is set (RFC 5155 §3.1.2.1).
    pub fn is_opt_out(&self) -> bool {
        self.param.flags & Nsec3Param::OPT_OUT != 0
    }
}
