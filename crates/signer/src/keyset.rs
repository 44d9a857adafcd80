//! [`ZoneKeys`]: the keys of a zone and what each of them does: which DNSKEY, CDS and CDNSKEY records the
//! zone has, and which keys sign which RRsets.

use std::fmt;
use std::sync::Arc;

use wire::rdata::view::{Dnskey, Rrsig, SigAlgorithm};
use wire::{Name, NameBuf, Type, UnixTime};

use crate::key::times::KeyTimes;
use crate::key::{KeyRole, ZoneKey};
use crate::rrset::PresignedSet;

/// RDATA of the CDS record that asks the parent to delete the DS RRset (RFC 8078 §4, erratum 5049).
pub const CDS_DELETE: [u8; 5] = [0; 5];
/// The same of CDNSKEY.
pub const CDNSKEY_DELETE: [u8; 5] = [0, 0, 3, 0, 0];

/// What a key does in its zone. A plan of rollovers (RFC 7583) decides it, or the times in the key's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    /// Its DNSKEY record is in the zone.
    pub publish: bool,
    /// It signs the RRsets DNSKEY, CDS and CDNSKEY.
    pub sign_keys: bool,
    /// It signs all other RRsets.
    pub sign_zone: bool,
    /// Its CDS and CDNSKEY records are in the zone, if the zone has such records.
    pub sync: bool,
}

impl KeyUse {
    /// Returns the use of a key by its times.
    fn at(key: &ZoneKey, now: UnixTime) -> KeyUse {
        let times: &KeyTimes = key.times();
        let (publish, active) = (times.is_published(now), times.is_active(now));
        match key.role() {
            // RFC 5011 §2.1: it signs the RRset that revokes it, and nothing else.
            _ if key.is_revoked() => KeyUse { publish, sign_keys: publish, ..KeyUse::default() },
            KeyRole::KeySigning => {
                KeyUse { publish, sign_keys: active, sign_zone: false, sync: active && times.is_synced(now) }
            }
            KeyRole::ZoneSigning => KeyUse { publish, sign_zone: active, ..KeyUse::default() },
        }
    }
}

/// Why a zone cannot be signed with these keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySetFault {
    /// The key with this tag is of another zone.
    OtherZone(u16, Box<NameBuf>),
    /// The key with this tag lacks the Zone Key bit.
    NoZoneKey(u16),
    /// No key signs: there is none, or none by its times.
    NoActiveKey,
    /// DNSKEY has a key of this algorithm, and no key of it signs: validators treat the zone as bogus (RFC
    /// 4035 §2.2). The tag is that of one such key.
    Incomplete(SigAlgorithm, u16),
}

impl fmt::Display for KeySetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherZone(tag, zone) => write!(f, "key {tag} is of another zone, {zone}"),
            Self::NoZoneKey(tag) => write!(f, "key {tag} is no zone key: its flags lack the bit 256"),
            Self::NoActiveKey => {
                f.write_str("no key signs now: there is none, or their times do not allow it")
            }
            Self::Incomplete(algorithm, tag) => write!(
                f,
                "the zone would have a DNSKEY of algorithm {} ({algorithm}), key {tag}, but no key of this \
                 algorithm signs: validators require signatures of every algorithm (RFC 4035 §2.2)",
                algorithm.0
            ),
        }
    }
}
impl std::error::Error for KeySetFault {}

/// The keys of a zone.
#[derive(Debug)]
pub struct ZoneKeys {
    keys: Vec<(Arc<ZoneKey>, KeyUse)>,
    /// RDATA of DNSKEY records whose private keys others have (RFC 8901).
    foreign: Vec<Vec<u8>>,
    /// CDS and CDNSKEY ask the parent to delete the DS RRset.
    deletes_ds: bool,
    /// The DNSKEY, CDS and CDNSKEY RRsets, if keys elsewhere have signed them.
    presigned: Option<Vec<PresignedSet>>,
}

impl ZoneKeys {
    /// Returns the keys with the use that their times have at `now`. If an algorithm has no active ZSK, its
    /// KSKs sign everything, and the other way round. `present` is the RDATA of the DNSKEY records that the
    /// zone has: those of other keys stay.
    ///
    /// # Errors
    /// [`KeySetFault`].
    pub fn by_times(
        zone: Name<'_>,
        keys: Vec<ZoneKey>,
        present: Vec<Vec<u8>>,
        now: UnixTime,
    ) -> Result<ZoneKeys, KeySetFault> {
        let mut used: Vec<(ZoneKey, KeyUse)> = Vec::new();
        for key in keys {
            let key = key.as_of(now);
            if used.iter().all(|(other, _)| other.dnskey() != key.dnskey()) {
                let used_as = KeyUse::at(&key, now);
                used.push((key, used_as));
            }
        }
        let algorithms: Vec<SigAlgorithm> = used.iter().map(|(key, _)| key.algorithm()).collect();
        for algorithm in algorithms {
            let mut all: Vec<&mut (ZoneKey, KeyUse)> = used
                .iter_mut()
                .filter(|(key, _)| key.algorithm() == algorithm && !key.is_revoked())
                .collect();
            let sign_zone = all.iter().any(|(_, used)| used.sign_zone);
            let sign_keys = all.iter().any(|(_, used)| used.sign_keys);
            for (_, used) in &mut all {
                let active = used.sign_zone || used.sign_keys;
                used.sign_zone |= active && !sign_zone;
                used.sign_keys |= active && !sign_keys;
            }
        }
        ZoneKeys::new(zone, used, present)
    }

    /// Returns the keys with these uses; see [`by_times`](Self::by_times).
    ///
    /// # Errors
    /// [`KeySetFault`].
    pub fn new(
        zone: Name<'_>,
        keys: Vec<(ZoneKey, KeyUse)>,
        present: Vec<Vec<u8>>,
    ) -> Result<ZoneKeys, KeySetFault> {
        let mut keys = ZoneKeys::new_unchecked(zone, keys)?;
        keys.set_present(present)?;
        Ok(keys)
    }

    fn new_unchecked(zone: Name<'_>, keys: Vec<(ZoneKey, KeyUse)>) -> Result<ZoneKeys, KeySetFault> {
        for (key, _) in &keys {
            if key.zone() != zone {
                return Err(KeySetFault::OtherZone(key.tag(), Box::new(key.zone().to_buf())));
            }
            if !key.is_zone_key() {
                return Err(KeySetFault::NoZoneKey(key.tag()));
            }
        }
        if !keys.iter().any(|(_, used)| used.sign_zone) {
            return Err(KeySetFault::NoActiveKey);
        }
        let keys = keys.into_iter().map(|(key, used)| (Arc::new(key), used)).collect();
        Ok(ZoneKeys { keys, foreign: Vec::new(), deletes_ds: false, presigned: None })
    }

    /// Returns the keys with these uses for the data of the zone, and DNSKEY, CDS and CDNSKEY RRsets that
    /// keys elsewhere have signed: the zone has these and no others.
    ///
    /// # Errors
    /// [`KeySetFault`].
    pub fn with_presigned(
        zone: Name<'_>,
        keys: Vec<(ZoneKey, KeyUse)>,
        sets: Vec<PresignedSet>,
    ) -> Result<ZoneKeys, KeySetFault> {
        let mut keys = ZoneKeys::new_unchecked(zone, keys)?;
        keys.presigned = Some(sets);
        keys.check_complete()?;
        Ok(keys)
    }

    /// Sets the RDATA of the DNSKEY records that the zone has: those of other keys stay.
    ///
    /// # Errors
    /// [`KeySetFault::Incomplete`].
    pub fn set_present(&mut self, present: Vec<Vec<u8>>) -> Result<(), KeySetFault> {
        if self.presigned.is_none() {
            self.foreign = present.into_iter().filter(|rdata| !self.is_ours(rdata)).collect();
        }
        self.check_complete()
    }

    /// Whether a DNSKEY record is that of a key here. A key of ours has the record that its use says, also if
    /// that of the zone is revoked, or is not.
    pub fn is_ours(&self, rdata: &[u8]) -> bool {
        self.presigned.is_some() || self.keys.iter().any(|(key, _)| rdata.get(3..) == key.dnskey().get(3..))
    }

    /// Returns the keys with CDS and CDNSKEY records that ask the parent to delete the DS RRset (RFC 8078
    /// §4), if `deletes_ds`, in place of those of the keys.
    pub fn deleting_ds(self, deletes_ds: bool) -> ZoneKeys {
        ZoneKeys { deletes_ds, ..self }
    }

    /// Checks that each algorithm in DNSKEY signs (RFC 4035 §2.2, RFC 6840 §5.11).
    fn check_complete(&self) -> Result<(), KeySetFault> {
        for rdata in self.dnskeys() {
            let Ok(key) = Dnskey::read(&rdata) else { continue };
            if key.is_zone_key() && !self.signs_with(key.algorithm) {
                return Err(KeySetFault::Incomplete(key.algorithm, dnssec::key::tag(&key)));
            }
        }
        Ok(())
    }

    /// Whether keys of an algorithm are in the zone, and sign its keys and all its data.
    pub fn signs_with(&self, algorithm: SigAlgorithm) -> bool {
        let signs = |signs: fn(&KeyUse) -> bool| {
            let is_same = |signer: &ZoneKey| signer.algorithm() == algorithm && !signer.is_revoked();
            self.keys.iter().any(|(signer, used)| is_same(signer) && used.publish && signs(used))
        };
        let signs_keys = match self.presigned_set(Type::DNSKEY) {
            Some(set) => {
                set.sigs.iter().any(|(_, sig)| Rrsig::read(sig).is_ok_and(|sig| sig.algorithm == algorithm))
            }
            None => signs(|used| used.sign_keys),
        };
        signs(|used| used.sign_zone) && signs_keys
    }

    /// Returns the RRset of a type at the apex that keys elsewhere have signed.
    pub fn presigned_set(&self, rtype: Type) -> Option<&PresignedSet> {
        self.presigned.iter().flatten().find(|set| set.rtype == rtype)
    }

    /// Whether keys elsewhere sign DNSKEY, CDS and CDNSKEY.
    pub fn is_presigned(&self) -> bool {
        self.presigned.is_some()
    }

    fn presigned_rdatas(&self, rtype: Type) -> Option<Vec<Vec<u8>>> {
        self.presigned.as_ref()?;
        Some(self.presigned_set(rtype).map(|set| set.rdatas.clone()).unwrap_or_default())
    }

    /// Returns all keys with their use.
    pub fn keys(&self) -> &[(Arc<ZoneKey>, KeyUse)] {
        &self.keys
    }

    /// Returns the keys that sign the data of the zone, for a signer of answers.
    pub(crate) fn data_signers(&self) -> Vec<Arc<ZoneKey>> {
        let signs = |(key, used): &&(Arc<ZoneKey>, KeyUse)| used.sign_zone && !key.is_revoked();
        self.keys.iter().filter(signs).map(|(key, _)| Arc::clone(key)).collect()
    }

    /// Returns the RDATA of the DNSKEY records whose private keys are not here.
    pub fn foreign(&self) -> &[Vec<u8>] {
        &self.foreign
    }

    /// Returns the RDATA of all DNSKEY records, in canonical order.
    pub fn dnskeys(&self) -> Vec<Vec<u8>> {
        if let Some(rdatas) = self.presigned_rdatas(Type::DNSKEY) {
            return rdatas;
        }
        let ours = self.keys.iter().filter(|(_, used)| used.publish).map(|(key, _)| key.dnskey().to_vec());
        let mut all: Vec<Vec<u8>> = ours.chain(self.foreign.iter().cloned()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns the RDATA of the CDNSKEY records (RFC 7344 §3.2).
    pub fn cdnskeys(&self) -> Vec<Vec<u8>> {
        if let Some(rdatas) = self.presigned_rdatas(Type::CDNSKEY) {
            return rdatas;
        }
        if self.deletes_ds {
            return vec![CDNSKEY_DELETE.to_vec()];
        }
        self.synced().map(|key| key.dnskey().to_vec()).collect()
    }

    /// Returns the RDATA of the CDS records with this digest (RFC 7344 §3.1).
    pub fn cds(&self, digest_type: u8) -> Vec<Vec<u8>> {
        if let Some(rdatas) = self.presigned_rdatas(Type::CDS) {
            return rdatas;
        }
        if self.deletes_ds {
            return vec![CDS_DELETE.to_vec()];
        }
        self.synced().filter_map(|key| key.ds(digest_type)).collect()
    }

    fn synced(&self) -> impl Iterator<Item = &ZoneKey> {
        self.keys.iter().filter(|(_, used)| used.sync).map(|(key, _)| &**key)
    }

    /// Returns the keys that sign RRsets of a type at the apex; all other names have those of any other type.
    pub fn signers(&self, rtype: Type) -> impl Iterator<Item = &ZoneKey> {
        // RFC 7344 §4.1: a parent accepts CDS and CDNSKEY with a signature by a key that its DS refers to.
        let of_keys = matches!(rtype, Type::DNSKEY | Type::CDS | Type::CDNSKEY);
        let is_elsewhere = of_keys && self.is_presigned();
        let signs = move |used: &KeyUse| match of_keys {
            true => used.sign_keys && !is_elsewhere,
            false => used.sign_zone,
        };
        self.keys
            .iter()
            .filter(move |(key, used)| signs(used) && (rtype == Type::DNSKEY || !key.is_revoked()))
            .map(|(key, _)| &**key)
    }
}
