//! [`SignatureScan`]: which keys have signed a version of a zone, and until when its signatures are valid.

use wire::rdata::view::{Dnskey, Rrsig, SigAlgorithm};
use wire::{Serial, Ttl, Type, UnixTime};
use zone::Zone;
use zone::store::{NodeFlags, RrSet};

use crate::zone::is_signed_data;

/// A key as signatures name it: its algorithm and its tag.
pub type SignedBy = (SigAlgorithm, u16);

/// What the signatures of one version of a zone say. The scan reads each signature once, and verifies none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureScan {
    /// RDATA of the DNSKEY records at the apex.
    pub dnskeys: Vec<Vec<u8>>,
    /// TTL of the DNSKEY records; `None` if there are none.
    pub dnskey_ttl: Option<Ttl>,
    /// The keys that have signed the DNSKEY RRset.
    pub of_keys: Vec<SignedBy>,
    /// The keys that have signed every RRset which is signed, except DNSKEY, CDS and CDNSKEY at the apex.
    pub of_all: Vec<SignedBy>,
    /// The keys that have signed one of those RRsets, or more.
    pub of_some: Vec<SignedBy>,
    /// The first expiration of a signature; `None` if there are no signatures.
    pub earliest: Option<UnixTime>,
    /// The largest TTL of an RRset that is signed, except DNSKEY, CDS and CDNSKEY at the apex.
    pub largest_ttl: Ttl,
    /// Whether an RRset that is signed in a signed zone has no signature.
    pub has_unsigned: bool,
}

impl SignatureScan {
    /// Scans a version. `now` decides which 136 years the times of signatures are in (RFC 4034 §3.1.5).
    pub fn of(zone: &Zone, now: UnixTime) -> SignatureScan {
        let mut scan = SignatureScan::default();
        let mut is_first = true;
        // Of a zone that is signed while answering, the apex alone has signatures.
        let is_online = zone.is_chainless();
        for node in zone {
            let is_apex = node.flags().contains(NodeFlags::APEX);
            let is_proof = |rtype| matches!(rtype, Type::NSEC | Type::NSEC3);
            let sets = node.rrsets();
            for set in sets.filter(|set| is_proof(set.rtype()) || is_signed_data(&node, set.rtype())) {
                if is_online && !is_apex {
                    scan.largest_ttl = scan.largest_ttl.max(set.ttl());
                    continue;
                }
                let is_of_keys = is_apex && matches!(set.rtype(), Type::DNSKEY | Type::CDS | Type::CDNSKEY);
                let signers = scan.read(&set, now);
                match set.rtype() {
                    Type::DNSKEY if is_apex => scan.take_keys(&set, signers),
                    _ if is_of_keys => {}
                    _ => {
                        scan.largest_ttl = scan.largest_ttl.max(set.ttl());
                        scan.count(&signers, std::mem::take(&mut is_first));
                    }
                }
            }
        }
        scan
    }

    /// Returns the keys that have signed an RRset, and takes its expirations into account.
    fn read(&mut self, set: &RrSet<'_>, now: UnixTime) -> Vec<SignedBy> {
        let (mut signers, mut rdata) = (Vec::with_capacity(2), Vec::new());
        for record in set.sig_rdatas() {
            rdata.clear();
            record.copy_to(&mut rdata);
            let Ok(signature) = Rrsig::read(&rdata) else { continue };
            let expires = time_near(signature.expiration, now);
            self.earliest = Some(self.earliest.map_or(expires, |earliest| earliest.min(expires)));
            signers.push((signature.algorithm, signature.key_tag));
        }
        signers
    }

    fn take_keys(&mut self, set: &RrSet<'_>, signers: Vec<SignedBy>) {
        self.dnskey_ttl = Some(set.ttl());
        self.of_keys = signers;
        for record in set.rdatas() {
            let mut rdata = Vec::new();
            record.copy_to(&mut rdata);
            self.dnskeys.push(rdata);
        }
    }

    fn count(&mut self, signers: &[SignedBy], is_first: bool) {
        self.has_unsigned |= signers.is_empty();
        if is_first {
            self.of_all = signers.to_vec();
        } else if self.of_all != signers {
            self.of_all.retain(|key| signers.contains(key));
        }
        for key in signers {
            if !self.of_some.contains(key) {
                self.of_some.push(*key);
            }
        }
    }

    /// Whether the version has a DNSKEY record with this RDATA.
    pub fn has_key(&self, dnskey: &[u8]) -> bool {
        self.dnskeys.iter().any(|rdata| rdata == dnskey)
    }

    /// Returns the DNSKEY records with their tags.
    pub fn tagged_keys(&self) -> impl Iterator<Item = (SignedBy, &Vec<u8>)> {
        self.dnskeys.iter().filter_map(|rdata| {
            let key = Dnskey::read(rdata).ok()?;
            Some(((key.algorithm, dnssec::key::tag(&key)), rdata))
        })
    }
}

/// Returns the time nearest to `now` that a signature's 32 bits mean.
pub fn time_near(serial: Serial, now: UnixTime) -> UnixTime {
    let ahead = serial.0.wrapping_sub(now.to_serial().0) as i32;
    UnixTime::from_secs(now.as_secs().saturating_add_signed(ahead.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wire::hash::HashKey;
    use wire::{Name, NameBuf};
    use zone::ZoneBuilder;

    use super::*;
    use crate::denial::DenialMethod;
    use crate::key::pair::PrivateKey;
    use crate::key::times::KeyTimes;
    use crate::key::{KeyRole, ZoneKey};
    use crate::keyset::{KeyUse, ZoneKeys};
    use crate::rrset::SignaturePeriod;
    use crate::zone::{SigningPolicy, sign_zone};

    const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);

    fn key(apex: Name<'_>, role: KeyRole) -> ZoneKey {
        let private = PrivateKey::generate(SigAlgorithm::ED25519, 0).expect("a key");
        ZoneKey::new(apex, role, private, KeyTimes::default())
    }

    #[test]
    fn a_scan_tells_which_keys_have_signed_what() {
        let apex: NameBuf = "example.".parse().expect("a name");
        let mut builder = ZoneBuilder::new(apex.as_name(), &HashKey::new([1, 2, 3]));
        let soa = [&[0, 0][..], &[0, 0, 0, 1], &[0; 12], &[0, 0, 0, 60]].concat();
        builder.add(apex.as_name(), Type::SOA, Ttl::from_secs(300), &soa).expect("added");
        let www: NameBuf = "www.example.".parse().expect("a name");
        builder.add(www.as_name(), Type::A, Ttl::from_secs(7200), &[192, 0, 2, 1]).expect("added");
        let cut: NameBuf = "sub.example.".parse().expect("a name");
        builder.add(cut.as_name(), Type::NS, Ttl::from_secs(90_000), b"\x02ns\x00").expect("added");
        let zone = builder.finish().expect("a zone");
        let unsigned = SignatureScan::of(&zone, NOW);
        assert!(unsigned.has_unsigned && unsigned.of_all.is_empty() && unsigned.earliest.is_none());
        let (ksk, zsk) =
            (key(apex.as_name(), KeyRole::KeySigning), key(apex.as_name(), KeyRole::ZoneSigning));
        let id = |key: &ZoneKey| (key.algorithm(), key.tag());
        let (of_ksk, of_zsk) = (id(&ksk), id(&zsk));
        let uses = [
            (ksk, KeyUse { publish: true, sign_keys: true, sync: true, ..KeyUse::default() }),
            (zsk, KeyUse { publish: true, sign_zone: true, ..KeyUse::default() }),
        ];
        let keys = ZoneKeys::new(apex.as_name(), uses.into(), Vec::new()).expect("keys");
        let expiration = NOW.saturating_add(Duration::from_secs(86_400));
        let period =
            SignaturePeriod { inception: NOW.saturating_sub(Duration::from_secs(60)), expiration, jitter: 0 };
        let policy = SigningPolicy {
            period,
            denial: DenialMethod::Nsec,
            serial: None,
            dnskey_ttl: Some(Ttl::from_secs(3600)),
            sync: true,
            zonemd: Vec::new(),
        };
        let signed = sign_zone(&zone, &keys, &policy, 1).expect("signed").zone;
        let scan = SignatureScan::of(&signed, NOW);
        assert_eq!(
            (&*scan.of_keys, &*scan.of_all, &*scan.of_some),
            (&[of_ksk][..], &[of_zsk][..], &[of_zsk][..])
        );
        assert_eq!((scan.earliest, scan.dnskeys.len()), (Some(expiration), 2));
        // The delegation's NS records are not signed, and DNSKEY has a TTL of its own.
        assert_eq!((scan.largest_ttl, scan.has_unsigned), (Ttl::from_secs(7200), false));
        assert_eq!(scan.dnskey_ttl, Some(Ttl::from_secs(3600)));
    }

    #[test]
    fn times_of_signatures_are_those_nearest_to_now() {
        let wrap = UnixTime::from_secs(1 << 32);
        assert_eq!(
            time_near(Serial(10), wrap.saturating_sub(Duration::from_secs(5))),
            UnixTime::from_secs((1 << 32) + 10)
        );
        assert_eq!(time_near(Serial(u32::MAX), wrap), UnixTime::from_secs(u64::from(u32::MAX)));
    }
}
