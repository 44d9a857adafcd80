//! Verifying signatures over RRsets (RFC 4034 §3, RFC 4035 §5.3).

use std::cmp::Ordering;
use std::fmt;

use wire::name::MAX_NAME;
use wire::rdata::view::{Dnskey, Rrsig};
use wire::{Class, Malformed, Name, Serial, Type};

use crate::algorithm;
use crate::key::tag;

/// Why a signature is not accepted for its RRset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SigFault {
    /// The RDATA is not that of an RRSIG.
    Malformed,
    /// It covers another type.
    OtherType,
    /// The signer is not the zone of the owner.
    WrongSigner,
    /// It has more labels than the owner, or fewer than the signer.
    BadLabels,
    /// The inception is in the future.
    NotYetValid,
    /// The expiration is in the past.
    Expired,
    /// The expiration precedes the inception.
    ExpiredBeforeValid,
    /// The zone has no zone key with this tag and algorithm.
    NoKey,
    /// The algorithm is not supported.
    UnsupportedAlgorithm,
    /// The signature is not valid for this data and key.
    BadSignature,
}

impl fmt::Display for SigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed RRSIG",
            Self::OtherType => "the signature covers another type",
            Self::WrongSigner => "the signer is not the zone",
            Self::BadLabels => {
                "the signature counts more labels than the owner has, or fewer than the signer"
            }
            Self::NotYetValid => "the signature is not valid yet",
            Self::Expired => "the signature has expired",
            Self::ExpiredBeforeValid => "the signature expires before it is valid",
            Self::NoKey => "no DNSKEY of the zone has the signature's tag and algorithm",
            Self::UnsupportedAlgorithm => "the signature's algorithm is not supported",
            Self::BadSignature => "the signature does not verify",
        })
    }
}
impl std::error::Error for SigFault {}

impl From<Malformed> for SigFault {
    fn from(_: Malformed) -> Self {
        SigFault::Malformed
    }
}

/// Checks that `now`, in seconds since 1970, is within the signature's validity period (RFC 4034 §3.1.5), or
/// at most `skew` seconds outside it.
fn check_time(sig: &Rrsig<'_>, now: Serial, skew: u32) -> Result<(), SigFault> {
    let after = |a: Serial, b: Serial| a.compare(b) == Some(Ordering::Greater);
    let (latest, earliest) = (Serial(now.0.wrapping_add(skew)), Serial(now.0.wrapping_sub(skew)));
    if after(sig.inception, sig.expiration) {
        return Err(SigFault::ExpiredBeforeValid);
    }
    match (after(sig.inception, latest), after(earliest, sig.expiration)) {
        (true, _) => Err(SigFault::NotYetValid),
        (_, true) => Err(SigFault::Expired),
        _ => Ok(()),
    }
}

/// An RRset in the form in which it is signed.
pub struct SignedSet<'a> {
    /// The owner, as in the response or zone.
    pub owner: Name<'a>,
    /// The type.
    pub rtype: Type,
    /// Each distinct RDATA, in canonical form (names in lower case as RFC 4034 §6.2 requires) and ascending,
    /// which is the order of RFC 4034 §6.3.
    pub rdatas: &'a [Vec<u8>],
}

impl SignedSet<'_> {
    /// Checks whether `sig` may be a signature over this set by `zone` (RFC 4035 §5.3.1), at time `now` plus
    /// or minus `skew` seconds: everything that needs no key. Does not look at the data itself.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(&self, sig: &Rrsig<'_>, zone: Name<'_>, now: Serial, skew: u32) -> Result<(), SigFault> {
        if sig.type_covered != self.rtype {
            return Err(SigFault::OtherType);
        }
        if sig.signer != zone || !self.owner.is_at_or_below(zone) {
            return Err(SigFault::WrongSigner);
        }
        // With fewer labels than the apex, it would be a wildcard above the zone.
        let labels = self.owner.label_count() - self.owner.is_wildcard() as usize;
        if !(zone.label_count()..=labels).contains(&(sig.labels as usize)) {
            return Err(SigFault::BadLabels);
        }
        check_time(sig, now, skew)
    }

    /// The bytes that `sig` signs (RFC 4034 §3.1.8.1).
    ///
    /// # Errors
    /// [`SigFault::BadLabels`].
    pub fn signed_bytes(&self, sig: &Rrsig<'_>) -> Result<Vec<u8>, SigFault> {
        let labels = self.owner.label_count() - self.owner.is_wildcard() as usize;
        let above = labels.checked_sub(sig.labels as usize).ok_or(SigFault::BadLabels)?;
        let mut owner = Vec::with_capacity(MAX_NAME);
        if above > 0 {
            owner.extend_from_slice(b"\x01*");
        }
        let skip = if above > 0 { above + self.owner.is_wildcard() as usize } else { 0 };
        owner.extend(self.owner.skip(skip).as_wire().to_ascii_lowercase());
        // The signer's name is the last of these fields, and the only one that contains letters.
        let mut out = sig.signed_fields.to_vec();
        let signer_at = out.len() - sig.signer.len();
        out[signer_at..].make_ascii_lowercase();
        for rdata in self.rdatas.iter() {
            out.extend_from_slice(&owner);
            out.extend_from_slice(&self.rtype.0.to_be_bytes());
            out.extend_from_slice(&Class::IN.0.to_be_bytes());
            out.extend_from_slice(&sig.original_ttl.to_be_bytes());
            out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            out.extend_from_slice(rdata);
        }
        Ok(out)
    }
}

/// Verifies one signature over `set` with the matching ones of `keys`, at time `now`.
///
/// Only the zone `zone` may have signed. At most two keys of one tag are tried, so that colliding tags cost
/// no more (CVE-2023-50387).
pub fn verify(
    set: &SignedSet<'_>,
    sig: &Rrsig<'_>,
    zone: Name<'_>,
    keys: &[Dnskey<'_>],
    now: Serial,
) -> Result<(), SigFault> {
    set.check(sig, zone, now, 0)?;
    if !algorithm::is_supported(sig.algorithm) {
        return Err(SigFault::UnsupportedAlgorithm);
    }
    let bytes = set.signed_bytes(sig)?;
    let fits = |k: &&Dnskey<'_>| k.algorithm == sig.algorithm && k.is_zone_key() && tag(k) == sig.key_tag;
    let mut fault = SigFault::NoKey;
    for key in keys.iter().filter(fits).take(2) {
        if algorithm::verify(key, &bytes, sig.signature) {
            return Ok(());
        }
        fault = SigFault::BadSignature;
    }
    Err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::NameBuf;

    /// RFC 8080 §6.1, the first Ed25519 example: key, MX record and signature.
    const KEY: [u8; 36] = [
        1, 1, 3, 15, 0x97, 0x4d, 0x96, 0xa2, 0x2d, 0x22, 0x4b, 0xc0, 0x1a, 0xdb, 0x91, 0x50, 0x91, 0x47,
        0x7d, 0x44, 0xcc, 0xd9, 0x1c, 0x9a, 0x41, 0xa1, 0x14, 0x30, 0x01, 0x01, 0x17, 0xd5, 0x2c, 0x59, 0x24,
        0x0e,
    ];
    const SIGNATURE: [u8; 64] = [
        0xa0, 0xbf, 0x64, 0xac, 0x9b, 0xa7, 0xef, 0x17, 0xc1, 0x38, 0x85, 0x9c, 0x18, 0x78, 0xbb, 0x99, 0xa8,
        0x39, 0xfe, 0x17, 0x59, 0xac, 0xa5, 0xb0, 0xd7, 0x98, 0xcf, 0x1a, 0xb1, 0xe9, 0x8d, 0x07, 0x91, 0x02,
        0xf4, 0xdd, 0xb3, 0x36, 0x8f, 0x0f, 0xe4, 0x0b, 0xb3, 0x77, 0xf1, 0xf0, 0x0e, 0x0c, 0xdd, 0xed, 0xb7,
        0x99, 0x16, 0x7d, 0x56, 0xb6, 0xe9, 0x32, 0x78, 0x30, 0x72, 0xba, 0x8d, 0x02,
    ];

    struct Example {
        owner: NameBuf,
        rdatas: Vec<Vec<u8>>,
        rrsig: Vec<u8>,
    }

    fn example() -> Example {
        let owner: NameBuf = "example.com".parse().expect("name");
        let host: NameBuf = "mail.example.com".parse().expect("name");
        let mx = [&[0, 10], host.as_name().as_wire()].concat();
        let mut rrsig = vec![0, 15, 15, 2];
        for number in [3600u32, 1_440_021_600, 1_438_207_200] {
            rrsig.extend(number.to_be_bytes());
        }
        rrsig.extend(3613u16.to_be_bytes());
        rrsig.extend(owner.as_name().as_wire());
        rrsig.extend(SIGNATURE);
        Example { owner, rdatas: vec![mx], rrsig }
    }

    fn check(example: &Example, now: u32) -> Result<(), SigFault> {
        let zone = example.owner;
        let sig = Rrsig::read(&example.rrsig)?;
        let set = SignedSet { owner: zone.as_name(), rtype: Type::MX, rdatas: &example.rdatas };
        verify(&set, &sig, zone.as_name(), &[Dnskey::read(&KEY)?], Serial(now))
    }

    const NOW: u32 = 1_439_000_000;

    #[test]
    fn the_example_of_rfc_8080_verifies() {
        assert_eq!(Dnskey::read(&KEY).map(|key| tag(&key)), Ok(3613));
        assert_eq!(check(&example(), NOW), Ok(()));
    }

    #[test]
    fn any_change_breaks_it() {
        let mut data = example();
        data.rdatas[0][1] = 11;
        assert_eq!(check(&data, NOW), Err(SigFault::BadSignature));
        let mut sig = example();
        let last = sig.rrsig.len() - 1;
        sig.rrsig[last] ^= 1;
        assert_eq!(check(&sig, NOW), Err(SigFault::BadSignature));
    }

    #[test]
    fn time_is_serial_arithmetic() {
        assert_eq!(check(&example(), 1_438_207_199), Err(SigFault::NotYetValid));
        assert_eq!(check(&example(), 1_440_021_601), Err(SigFault::Expired));
        let mut across = example();
        across.rrsig[8..12].copy_from_slice(&5u32.to_be_bytes());
        across.rrsig[12..16].copy_from_slice(&(u32::MAX - 5).to_be_bytes());
        let sig = Rrsig::read(&across.rrsig).expect("RRSIG");
        assert_eq!(check_time(&sig, Serial(u32::MAX), 0), Ok(()));
        assert_eq!(check_time(&sig, Serial(3), 0), Ok(()));
        assert_eq!(check_time(&sig, Serial(6), 0), Err(SigFault::Expired));
    }

    #[test]
    fn clocks_may_differ_by_the_skew() {
        let example = example();
        let sig = Rrsig::read(&example.rrsig).expect("RRSIG");
        assert_eq!(check_time(&sig, Serial(1_438_207_190), 10), Ok(()));
        assert_eq!(check_time(&sig, Serial(1_438_207_189), 10), Err(SigFault::NotYetValid));
        assert_eq!(check_time(&sig, Serial(1_440_021_610), 10), Ok(()));
        assert_eq!(check_time(&sig, Serial(1_440_021_611), 10), Err(SigFault::Expired));
    }

    #[test]
    fn a_signature_that_ends_before_it_begins_is_never_valid() {
        let mut data = example();
        data.rrsig[8..12].copy_from_slice(&(NOW - 2).to_be_bytes());
        data.rrsig[12..16].copy_from_slice(&(NOW - 1).to_be_bytes());
        let sig = Rrsig::read(&data.rrsig).expect("RRSIG");
        assert_eq!(check_time(&sig, Serial(NOW), 60), Err(SigFault::ExpiredBeforeValid));
    }

    #[test]
    fn what_is_no_rrsig_is_malformed() {
        let mut data = example();
        data.rrsig.truncate(data.rrsig.len() - SIGNATURE.len());
        assert_eq!(check(&data, NOW), Err(SigFault::Malformed));
    }

    #[test]
    fn more_labels_than_the_owner_has_are_refused() {
        let mut data = example();
        data.rrsig[3] = 3;
        assert_eq!(check(&data, NOW), Err(SigFault::BadLabels));
    }
}
