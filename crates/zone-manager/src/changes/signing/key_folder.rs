//! [`KeyFolder`]: the files of one zone's keys and of their states, in the state folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use signer::files::{KeyFolderFault, read_state, read_zone_keys, remove_key, write_key, write_state};
use signer::key::pair::PrivateKey;
use signer::key::times::{KeyEvent, KeyTimes};
use signer::key::{KeyRole, ZoneKey};
use signer::rollover::text::StateText;
use signer::rollover::{KeyId, KeyPurpose, KeyState, Keyring, ManagedKey, NewKey};
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
        ttl: Ttl,
        now: UnixTime,
    ) -> Result<KeyId, SigningFault> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| self.unusable(&error))?;
        let key = generate(self.zone.as_name(), new, ring, ttl, now)?;
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
        for key in self.keys()? {
            let id = KeyId::of(&key);
            let Some(managed) = ring.key(id).filter(|_| changed.contains(&id)) else { continue };
            // A file that cannot be read is replaced by what is known.
            let unknown = read_state(&self.path, &key).ok().flatten().map(|text| text.unknown);
            let (algorithm, state) = (id.algorithm, managed.state.clone());
            write_state(
                &self.path,
                &key,
                &StateText { algorithm, state, unknown: unknown.unwrap_or_default() },
            )?;
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
            None => Ok(()),
        }
    }

    /// Deletes the files of all keys of the zone.
    ///
    /// # Errors
    /// A file that cannot be deleted.
    pub(super) fn remove_all(&self) -> Result<(), KeyFolderFault> {
        self.keys()?.iter().try_for_each(|key| remove_key(&self.path, key))
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
    now: UnixTime,
) -> Result<ZoneKey, SigningFault> {
    for _ in 0..MOST_TRIES {
        let private = PrivateKey::generate(new.algorithm, new.bits)
            .map_err(|fault| SigningFault::Generate(fault.to_string()))?;
        let mut times = KeyTimes::default();
        times.set(KeyEvent::Created, now);
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
