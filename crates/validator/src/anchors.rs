//! [`TrustAnchors`]: trust anchors (RFC 4033 §2) and negative trust anchors (RFC 7646).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dnssec::algorithm;
use dnssec::key;
use wire::rdata::view::{Dnskey, Ds};
use wire::{Name, NameBuf};

/// The DS of the root's keys 20326 (2017) and 38696 (2024), as published by IANA (RFC 7958).
const ROOT_ANCHORS: [[u8; 36]; 2] = [
    *b"\x4f\x66\x08\x02\xe0\x6d\x44\xb8\x0b\x8f\x1d\x39\xa9\x5c\x0b\x0d\x7c\x65\xd0\x84\x58\xe8\x80\x40\x9b\xbc\x68\x34\x57\x10\x42\x37\xc7\xf8\xec\x8d",
    *b"\x97\x28\x08\x02\x68\x3d\x2d\x0a\xcb\x8c\x9b\x71\x2a\x19\x48\xb2\x7f\x74\x12\x19\x29\x8d\x0a\x45\x0d\x61\x2c\x48\x3a\xf4\x44\xa4\xc0\xfb\x2b\x16",
];

/// The trust anchors of a validator, by zone. An anchor is valid only for its own zone.
///
/// All are stored as DS. A DNSKEY anchor is converted to its SHA-256 digest, which matches only that key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustAnchors {
    positive: BTreeMap<NameBuf, BTreeSet<Vec<u8>>>,
    negative: BTreeSet<NameBuf>,
}

/// Why an anchor is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnchorFault {
    /// The RDATA is not that of a DS or DNSKEY.
    Malformed,
    /// The algorithm or digest type is not supported, so the anchor could never validate anything.
    Unsupported,
    /// The key lacks the Zone Key flag, has another protocol, or is revoked (RFC 5011 §2.1).
    NotAZoneKey,
}

impl fmt::Display for AnchorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not the data of a DS or DNSKEY",
            Self::Unsupported => "the algorithm or digest type is not supported",
            Self::NotAZoneKey => "the key cannot sign a zone, or is revoked",
        })
    }
}
impl std::error::Error for AnchorFault {}

/// The anchor that applies to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nearest<'a> {
    /// A trust anchor at this name.
    Positive(Name<'a>),
    /// A negative trust anchor: nothing is validated here.
    Negative,
}

impl TrustAnchors {
    /// No anchors: everything is indeterminate.
    pub fn none() -> Self {
        TrustAnchors::default()
    }

    /// The root's anchors, with the key tags 20326 and 38696.
    pub fn root() -> Self {
        let ds = ROOT_ANCHORS.iter().map(|ds| ds.to_vec()).collect();
        TrustAnchors { positive: BTreeMap::from([(NameBuf::ROOT, ds)]), negative: BTreeSet::new() }
    }

    /// Adds an anchor given as the RDATA of a DS.
    ///
    /// # Errors
    /// [`AnchorFault`].
    pub fn add_ds(&mut self, zone: Name<'_>, rdata: &[u8]) -> Result<(), AnchorFault> {
        let ds = Ds::read(rdata).map_err(|_| AnchorFault::Malformed)?;
        let len = key::digest_len(ds.digest_type).ok_or(AnchorFault::Unsupported)?;
        if !algorithm::is_supported(ds.algorithm) {
            return Err(AnchorFault::Unsupported);
        }
        if ds.digest.len() != len {
            return Err(AnchorFault::Malformed);
        }
        self.positive.entry(zone.to_buf()).or_default().insert(rdata.to_vec());
        Ok(())
    }

    /// Adds an anchor given as the RDATA of a DNSKEY.
    ///
    /// # Errors
    /// [`AnchorFault`].
    pub fn add_dnskey(&mut self, zone: Name<'_>, rdata: &[u8]) -> Result<(), AnchorFault> {
        let key = Dnskey::read(rdata).map_err(|_| AnchorFault::Malformed)?;
        if !key.is_zone_key() {
            return Err(AnchorFault::NotAZoneKey);
        }
        let ds = key::ds(zone, &key, Ds::SHA256).ok_or(AnchorFault::Unsupported)?;
        self.add_ds(zone, &ds)
    }

    /// The zones with positive anchors, with the DS RDATA of each.
    pub fn positive(&self) -> impl Iterator<Item = (&NameBuf, &BTreeSet<Vec<u8>>)> {
        self.positive.iter()
    }

    /// Replaces the anchors of a zone with these DS RDATA; removes the zone if there are none.
    pub(crate) fn replace(&mut self, zone: NameBuf, ds: BTreeSet<Vec<u8>>) {
        match ds.is_empty() {
            true => drop(self.positive.remove(&zone)),
            false => drop(self.positive.insert(zone, ds)),
        }
    }

    /// Whether the zone has an anchor with this key tag.
    pub fn has_tag(&self, zone: Name<'_>, tag: u16) -> bool {
        let of_zone = self.positive.get(&zone.to_buf()).into_iter().flatten();
        of_zone.filter_map(|rdata| Ds::read(rdata).ok()).any(|ds| ds.key_tag == tag)
    }

    /// A fingerprint of the positive anchors, stable across runs. Distinguishes results validated with other
    /// anchors, except for a chance of one in four billion.
    pub fn fingerprint(&self) -> u32 {
        let all = self.positive.iter().flat_map(|(zone, ds)| ds.iter().map(move |ds| (zone, ds)));
        // FNV-1a over names and RDATA; each is length-prefixed or self-terminating.
        let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        all.fold(0x811c_9dc5, |hash, (zone, ds)| {
            let hash = zone.as_name().to_lower().as_lower().as_wire().iter().fold(hash, fold);
            ds.iter().fold(fold(hash, &(ds.len() as u8)), fold)
        })
    }

    /// Treats the name as insecure, with all names below it up to the next anchor (RFC 7646).
    pub fn add_negative(&mut self, name: Name<'_>) {
        self.negative.insert(name.to_buf());
    }

    /// The names with negative anchors.
    pub fn negative(&self) -> impl Iterator<Item = &NameBuf> {
        self.negative.iter()
    }

    /// The closest anchor at or above a name. At the same name, a negative anchor takes precedence.
    pub(crate) fn nearest<'n>(&self, name: Name<'n>) -> Option<Nearest<'n>> {
        name.ancestors().find_map(|at| {
            let key = at.to_buf();
            match (self.negative.contains(&key), self.positive.contains_key(&key)) {
                (true, _) => Some(Nearest::Negative),
                (_, true) => Some(Nearest::Positive(at)),
                _ => None,
            }
        })
    }

    /// The DS RDATA of a zone's anchors; `None` if it has none.
    pub fn ds(&self, zone: Name<'_>) -> Option<Vec<Vec<u8>>> {
        self.positive.get(&zone.to_buf()).map(|ds| ds.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use wire::text::Base64;

    use super::*;

    /// The root's key-signing key of 2017, as in the root zone.
    const ROOT_KSK: &str = "AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=";

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    const DS: [u8; 36] = {
        let mut ds = [7; 36];
        (ds[2], ds[3]) = (13, Ds::SHA256);
        ds
    };

    #[test]
    fn the_closest_anchor_decides_and_a_negative_one_at_the_same_name() {
        let mut anchors = TrustAnchors::root();
        anchors.add_negative(name("com").as_name());
        anchors.add_ds(name("example.com").as_name(), &DS).expect("an anchor");
        let nearest = |text: &str| anchors.nearest(name(text).as_name()).map(|at| format!("{at:?}"));
        assert_eq!(nearest("net"), Some("Positive(.)".to_owned()));
        assert_eq!(nearest("a.com"), Some("Negative".to_owned()));
        assert_eq!(nearest("a.example.com"), Some("Positive(example.com.)".to_owned()));
        anchors.add_negative(name("EXAMPLE.com").as_name());
        assert_eq!(anchors.nearest(name("example.com").as_name()), Some(Nearest::Negative));
        assert_eq!(TrustAnchors::none().nearest(name("com").as_name()), None);
    }

    #[test]
    fn other_positive_anchors_have_another_fingerprint() {
        let mut anchors = TrustAnchors::root();
        let root = anchors.fingerprint();
        anchors.add_negative(name("com").as_name());
        assert_eq!(anchors.fingerprint(), root);
        anchors.add_ds(name("example.com").as_name(), &DS).expect("an anchor");
        assert_ne!(anchors.fingerprint(), root);
        assert_ne!(TrustAnchors::none().fingerprint(), root);
    }

    #[test]
    fn anchors_that_could_never_fit_are_refused() {
        let mut anchors = TrustAnchors::none();
        let root = Name::ROOT;
        let with = |at: usize, byte: u8| {
            let mut ds = DS;
            ds[at] = byte;
            ds
        };
        assert_eq!(anchors.add_ds(root, &with(2, 16)), Err(AnchorFault::Unsupported), "Ed448");
        assert_eq!(anchors.add_ds(root, &with(3, 3)), Err(AnchorFault::Unsupported), "GOST");
        assert_eq!(anchors.add_ds(root, &DS[..35]), Err(AnchorFault::Malformed));
        assert_eq!(anchors.add_dnskey(root, &[1, 0x81, 3, 13, 1]), Err(AnchorFault::NotAZoneKey), "revoked");
        assert_eq!(anchors, TrustAnchors::none());
    }

    #[test]
    fn the_root_anchor_of_2017_is_the_digest_of_the_root_key() {
        let mut rdata = vec![1, 1, 3, 8];
        Base64::default().feed(ROOT_KSK.as_bytes(), &mut rdata).expect("base64");
        let ksk = Dnskey::read(&rdata).expect("a key");
        assert_eq!((key::tag(&ksk), ksk.is_zone_key(), ksk.is_sep()), (20326, true, true));
        assert_eq!(key::ds(Name::ROOT, &ksk, Ds::SHA256).as_deref(), Some(&ROOT_ANCHORS[0][..]));
        let fits = ROOT_ANCHORS.map(|rdata| key::fits(Name::ROOT, &ksk, &Ds::read(&rdata).expect("a DS")));
        assert_eq!(fits, [true, false]);
    }
}
