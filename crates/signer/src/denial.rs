//! Records that prove what does not exist: NSEC (RFC 4034 §4) and NSEC3 (RFC 5155), with their type bitmaps.

use std::fmt;

use dnssec::nsec::write_bitmap;
use dnssec::nsec3::HASH_LEN;
use wire::name::BadName;
use wire::rdata::view::Nsec3Param;
use wire::text::write_base32hex;
use wire::{LowerName, Name, NameBuf, Type};
use zone::catalog::OnlineDenial;

/// Length of the label of an NSEC3 owner: a hash in base32.
const HASH_LABEL: usize = 32;

/// How a zone proves what does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenialMethod {
    /// By NSEC.
    Nsec,
    /// By NSEC3.
    Nsec3(Nsec3Settings),
    /// By NSEC records that are made for each answer: the zone has no chain, and signatures at its apex
    /// alone.
    Online(OnlineDenial),
}

/// Parameters of NSEC3. The default is what RFC 9276 §3.1 recommends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nsec3Settings {
    /// Leave out insecure delegations (RFC 5155 §6).
    pub opt_out: bool,
    /// Hash iterations after the first.
    pub iterations: u16,
    /// Salt, of at most 255 bytes.
    pub salt: Vec<u8>,
}

/// A salt of more than 255 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongSalt;

impl fmt::Display for LongSalt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the salt has more than {} bytes", Nsec3Param::MAX_SALT)
    }
}
impl std::error::Error for LongSalt {}

impl Nsec3Settings {
    /// Checks the length of the salt.
    ///
    /// # Errors
    /// [`LongSalt`].
    pub fn check(&self) -> Result<(), LongSalt> {
        if self.salt.len() <= Nsec3Param::MAX_SALT { Ok(()) } else { Err(LongSalt) }
    }

    /// Returns the hash of a name.
    pub fn hash(&self, name: LowerName<'_>) -> [u8; HASH_LEN] {
        dnssec::nsec3::hash(name, &self.salt, self.iterations)
    }

    /// Returns the RDATA of NSEC3PARAM, whose flags are 0 (RFC 5155 §4.1.2).
    pub fn parameters(&self) -> Vec<u8> {
        self.head(0)
    }

    fn head(&self, flags: u8) -> Vec<u8> {
        let mut out = vec![Nsec3Param::SHA1, flags];
        out.extend_from_slice(&self.iterations.to_be_bytes());
        out.push(self.salt.len() as u8);
        out.extend_from_slice(&self.salt);
        out
    }

    /// Returns the RDATA of an NSEC3 record. `types` are ascending.
    pub fn record(&self, next: &[u8; HASH_LEN], types: &[Type]) -> Vec<u8> {
        let mut out = self.head(if self.opt_out { Nsec3Param::OPT_OUT } else { 0 });
        out.push(HASH_LEN as u8);
        out.extend_from_slice(next);
        write_bitmap(types, &mut out);
        out
    }
}

/// Returns the owner of the NSEC3 record with this hash (RFC 5155 §3).
///
/// # Errors
/// The name is too long, since that of the zone is.
pub fn nsec3_owner(hash: &[u8; HASH_LEN], apex: Name<'_>) -> Result<NameBuf, BadName> {
    let mut label = String::with_capacity(HASH_LABEL);
    // Writing to a String cannot fail.
    let _ = write_base32hex(hash, &mut label);
    NameBuf::prepend(label.as_bytes(), apex)
}

/// Returns the RDATA of an NSEC record. `types` are ascending.
pub fn nsec_record(next: LowerName<'_>, types: &[Type]) -> Vec<u8> {
    dnssec::nsec::record(next, types)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 4034 §4.3.
    #[test]
    fn the_bitmap_of_rfc_4034() {
        let next: NameBuf = "host.example.com.".parse().expect("a name");
        let types = [Type::A, Type::MX, Type::RRSIG, Type::NSEC, Type(1234)];
        let rdata = nsec_record(next.as_name().to_lower().as_lower(), &types);
        let mut expected = b"\x04host\x07example\x03com\x00\x00\x06\x40\x01\x00\x00\x00\x03\x04\x1b".to_vec();
        expected.extend([0; 26]);
        expected.push(0x20);
        assert_eq!(rdata, expected);
    }

    #[test]
    fn no_types_are_an_empty_bitmap() {
        let settings = Nsec3Settings { opt_out: true, iterations: 258, salt: vec![0xab] };
        let record = settings.record(&[7; HASH_LEN], &[]);
        assert_eq!(record, [&[1, 1, 1, 2, 1, 0xab, 20][..], &[7; 20]].concat());
        assert_eq!(settings.parameters(), [1, 0, 1, 2, 1, 0xab]);
    }
}
