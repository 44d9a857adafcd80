//! [`KeyFolder`]: the files of one zone's keys and of their states, in the state folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use signer::files::{
    KeyFolderFault, read_public_only, read_responses, read_state, read_state_of, read_zone_keys, remove_key,
    remove_key_of, remove_responses, write_key, write_public, write_responses, write_state_of,
};
use signer::key::pair::PrivateKey;
use signer::key::text::PublicText;
use signer::key::times::KeyTimes;
use signer::key::{KeyRole, ZoneKey};
use signer::rollover::offline::SignedKeyResponse;
use signer::rollover::text::StateText;
use signer::rollover::{KeyId, KeyPurpose, KeyState, Keyring, ManagedKey, NewKey};
use wire::rdata::view::{Dnskey, SigAlgorithm};
use wire::{Name, NameBuf, Ttl, UnixTime, ZoneName};
use wording::reason;

use super::SigningFault;

/// The folder of keys in the state folder, or in that of a view.
const KEYS: &str = "keys";
/// The folder of all views in a state folder.
const VIEWS: &str = "views";
/// Tries to generate a key whose tag no other key of the zone has.
const MOST_TRIES: usize = 16;

/// The files of the keys of one zone.
pub(super) struct KeyFolder {
    path: PathBuf,
    zone: NameBuf,
}

impl KeyFolder {
    /// Returns the folder of a zone's keys, which need not exist.
    pub(super) fn of(state: &Path, apex: &ZoneName) -> KeyFolder {
        let path = match apex.view() {
            Some(view) => state.join(VIEWS).join(view).join(KEYS),
            None => state.join(KEYS),
        };
        KeyFolder { path, zone: apex.as_name().to_buf() }
    }

    /// The folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the keys.
    ///
    /// # Errors
    /// The first fault of a file.
    pub(super) fn keys(&self) -> Result<Vec<ZoneKey>, KeyFolderFault> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        read_zone_keys(&self.path, self.zone.as_name())
    }

    /// Reads the keys with their states. A key without a file of its state has the one that its times say.
    ///
    /// # Errors
    /// The first fault of a file.
    pub(super) fn ring(&self, now: UnixTime) -> Result<Keyring, KeyFolderFault> {
        let keys = self.keys()?;
        let managed = keys.iter().map(|key| {
            let state = match read_state(&self.path, key)? {
                Some(text) => text.state,
                None => KeyState::by_times(purpose_of(key, &keys), key.bits(), key.times(), now),
            };
            Ok(ManagedKey { id: KeyId::of(key), dnskey: key.dnskey().to_vec(), state })
        });
        Ok(Keyring::new(managed.collect::<Result<Vec<ManagedKey>, KeyFolderFault>>()?))
    }

    /// Generates a key, writes its files, and adds it to the ring.
    ///
    /// # Errors
    /// The system or a file.
    pub(super) fn generate(
        &self,
        new: &NewKey,
        ring: &mut Keyring,
        (ttl, times): (Ttl, KeyTimes),
        now: UnixTime,
    ) -> Result<KeyId, SigningFault> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| self.unusable(&error))?;
        let key = generate(self.zone.as_name(), new, ring, ttl, times)?;
        write_key(&self.path, &key)?;
        let id = KeyId::of(&key);
        ring.add(new, id, key.dnskey().to_vec(), key.bits(), now);
        Ok(id)
    }

    fn unusable(&self, error: &io::Error) -> SigningFault {
        SigningFault::Generate(format!("cannot make the folder {}: {}", self.path.display(), reason(error)))
    }

    /// Writes the states of these keys.
    ///
    /// # Errors
    /// The first file that cannot be written; the states of the others are written again next time.
    pub(super) fn write_states(&self, ring: &mut Keyring, changed: &[KeyId]) -> Result<(), KeyFolderFault> {
        if changed.is_empty() {
            return Ok(());
        }
        let zone = self.zone.as_name();
        let here: Vec<KeyId> = self.keys()?.iter().map(KeyId::of).collect();
        let elsewhere = self.offline_ksks()?;
        let all = here.into_iter().chain(elsewhere.into_iter().map(|(id, _)| id));
        for id in all.filter(|id| changed.contains(id)) {
            let Some(managed) = ring.key(id) else { continue };
            // A file that cannot be read is replaced by what is known.
            let before = read_state_of(&self.path, zone, id.algorithm, id.tag).ok().flatten();
            let unknown = before.map(|text| text.unknown).unwrap_or_default();
            let text = StateText { algorithm: id.algorithm, state: managed.state.clone(), unknown };
            write_state_of(&self.path, zone, id.tag, &text)?;
            ring.written(id);
        }
        Ok(())
    }

    /// Deletes the files of a key.
    ///
    /// # Errors
    /// A file that cannot be deleted.
    pub(super) fn remove(&self, id: KeyId) -> Result<(), KeyFolderFault> {
        match self.keys()?.iter().find(|key| KeyId::of(key) == id) {
            Some(key) => remove_key(&self.path, key),
            None => remove_key_of(&self.path, self.zone.as_name(), id.algorithm, id.tag),
        }
    }

    /// Deletes the files of all keys of the zone, of those whose private parts are elsewhere too, and its
    /// signed key responses: a zone that is added under this name later must not publish them.
    ///
    /// # Errors
    /// A file that cannot be deleted.
    pub(super) fn remove_all(&self) -> Result<(), KeyFolderFault> {
        let zone = self.zone.as_name();
        self.keys()?.iter().try_for_each(|key| remove_key(&self.path, key))?;
        for (id, _) in self.offline_ksks()? {
            remove_key_of(&self.path, zone, id.algorithm, id.tag)?;
        }
        remove_responses(&self.path, zone)
    }

    /// Reads the signed key responses.
    ///
    /// # Errors
    /// The file.
    pub(super) fn responses(&self) -> Result<Option<SignedKeyResponse>, KeyFolderFault> {
        match self.path.exists() {
            true => read_responses(&self.path, self.zone.as_name()),
            false => Ok(None),
        }
    }

    /// Writes the signed key responses.
    ///
    /// # Errors
    /// The file.
    pub(super) fn write_responses(
        &self,
        response: &SignedKeyResponse,
        now: UnixTime,
    ) -> Result<(), KeyFolderFault> {
        write_responses(&self.path, self.zone.as_name(), response, now)
    }

    /// Returns the KSKs whose private parts are elsewhere, with their DNSKEY records.
    fn offline_ksks(&self) -> Result<Vec<(KeyId, Vec<u8>)>, KeyFolderFault> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        let keys = read_public_only(&self.path, self.zone.as_name())?;
        let rdatas = keys.iter().map(PublicText::dnskey);
        let is_ksk = |rdata: &Vec<u8>| Dnskey::read(rdata).is_ok_and(|key| key.is_zone_key() && key.is_sep());
        let ksks = rdatas.filter(is_ksk).filter_map(|rdata| Some((KeyId::of_dnskey(&rdata)?, rdata)));
        Ok(ksks.collect())
    }

    /// Reads the keys as [`ring`](Self::ring), with the KSKs whose private parts are elsewhere.
    ///
    /// # Errors
    /// The first fault of a file.
    pub(super) fn ring_with_offline(&self, now: UnixTime) -> Result<Keyring, KeyFolderFault> {
        let mut keys = self.ring(now)?.keys().to_vec();
        for (id, dnskey) in self.offline_ksks()? {
            let text = read_state_of(&self.path, self.zone.as_name(), id.algorithm, id.tag)?;
            // Without a state the parent may have its DS record.
            let bits = key_bits(&dnskey);
            let unknown = || KeyState::by_times(KeyPurpose::Ksk, bits, &KeyTimes::default(), now);
            let state = text.map_or_else(unknown, |text| text.state);
            keys.push(ManagedKey { id, dnskey, state });
        }
        Ok(Keyring::new(keys))
    }

    /// Adds a KSK whose private part is elsewhere to the ring, and writes its files.
    ///
    /// # Errors
    /// A file.
    pub(super) fn add_offline(
        &self,
        id: KeyId,
        dnskey: Vec<u8>,
        ring: &mut Keyring,
        ttl: Ttl,
        now: UnixTime,
    ) -> Result<(), KeyFolderFault> {
        let zone = self.zone.as_name();
        ring.add_offline(id, dnskey.clone(), key_bits(&dnskey), now);
        if let Some(managed) = ring.key(id) {
            // First its state: without one, its DS record is taken to be at the parent.
            let (algorithm, state) = (id.algorithm, managed.state.clone());
            write_state_of(&self.path, zone, id.tag, &StateText { algorithm, state, unknown: Vec::new() })?;
        }
        write_public(&self.path, zone, &dnskey, ttl)
    }
}

/// Returns the size of a public key in bits.
fn key_bits(dnskey: &[u8]) -> usize {
    let Ok(key) = Dnskey::read(dnskey) else { return 0 };
    match (key.algorithm, key.public_key) {
        (SigAlgorithm::ECDSAP384SHA384, _) => 384,
        (SigAlgorithm::RSASHA256 | SigAlgorithm::RSASHA512, [exponent, ..]) if *exponent > 0 => {
            // RFC 3110 §2: the length of the exponent, the exponent, the modulus.
            8 * key.public_key.len().saturating_sub(1 + usize::from(*exponent))
        }
        _ => 256,
    }
}

/// Generates a key for a ring, which does not get it yet.
///
/// # Errors
/// The system.
pub(super) fn generate(
    zone: Name<'_>,
    new: &NewKey,
    ring: &Keyring,
    ttl: Ttl,
    times: KeyTimes,
) -> Result<ZoneKey, SigningFault> {
    for _ in 0..MOST_TRIES {
        let private = PrivateKey::generate(new.algorithm, new.bits)
            .map_err(|fault| SigningFault::Generate(fault.to_string()))?;
        let key = ZoneKey::new(zone, new.role.key_role(), private, times).with_ttl(Some(ttl));
        // Two keys of one tag would make each other's signatures costly to verify.
        if !ring.keys().iter().any(|other| key.tags().contains(&other.id.tag)) {
            return Ok(key);
        }
    }
    Err(SigningFault::Generate("no key with a new tag was found".into()))
}

/// What a key without a state is for: a KSK alone in its algorithm signs everything.
pub(super) fn purpose_of(key: &ZoneKey, all: &[ZoneKey]) -> KeyPurpose {
    let is_zsk =
        |other: &ZoneKey| other.algorithm() == key.algorithm() && other.role() == KeyRole::ZoneSigning;
    match key.role() {
        KeyRole::ZoneSigning => KeyPurpose::Zsk,
        KeyRole::KeySigning if all.iter().any(is_zsk) => KeyPurpose::Ksk,
        KeyRole::KeySigning => KeyPurpose::Csk,
    }
}
