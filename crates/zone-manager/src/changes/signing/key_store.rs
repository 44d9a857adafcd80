//! [`KeyStore`]: where the keys of one zone and their states are: in the files of this node, or in the
//! database that all nodes share.

use std::sync::Arc;

use ::database::{KeyCommit, KeySetVersion, ZoneKeySet};
use signer::files::KeyFolderFault;
use signer::key::times::KeyTimes;
use signer::key::{KeyRole, ZoneKey};
use signer::keyset::{KeySetFault, KeyUse, ZoneKeys};
use signer::rollover::offline::SignedKeyResponse;
use signer::rollover::{KeyId, Keyring, NewKey};
use wire::{Name, Serial, Ttl, UnixTime};

use super::key_folder::KeyFolder;
use super::shared_keys::SharedKeys;
use super::{SigningFault, ZoneTtls};

/// The keys of one zone.
pub(super) enum KeyStore {
    /// Files of this node. What changes is written at once.
    Folder(KeyFolder),
    /// The database. What changes is committed with the records of the zone.
    Database(SharedKeys),
}

impl KeyStore {
    /// Where an operator puts keys that are missing.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Folder(folder) => {
                format!("its files are not in {}: put them there", folder.path().display())
            }
            Self::Database(_) => {
                "the database does not have it: restore its keys from a backup, or import the zone unsigned"
                    .into()
            }
        }
    }

    /// Reads the keys with their states.
    ///
    /// # Errors
    /// The first key that cannot be read.
    pub(super) fn ring(&self, now: UnixTime) -> Result<Keyring, KeyFolderFault> {
        match self {
            Self::Folder(folder) => folder.ring(now),
            Self::Database(keys) => keys.ring(now),
        }
    }

    /// Generates a key, stores it, and adds it to the ring.
    ///
    /// # Errors
    /// The system or a file.
    pub(super) fn generate(
        &mut self,
        new: &NewKey,
        ring: &mut Keyring,
        ttl: Ttl,
        times: KeyTimes,
        now: UnixTime,
    ) -> Result<KeyId, SigningFault> {
        match self {
            Self::Folder(folder) => folder.generate(new, ring, (ttl, times), now),
            Self::Database(keys) => keys.generate(new, ring, (ttl, times), now),
        }
    }

    /// Returns the folder of the keys of a zone whose KSK is offline.
    fn offline_folder(&self) -> Result<&KeyFolder, SigningFault> {
        match self {
            Self::Folder(folder) => Ok(folder),
            Self::Database(_) => Err(SigningFault::Refused(
                "its policy has `offline-ksk`, which is not possible for zones of a database".into(),
            )),
        }
    }

    /// Whether there are signed key responses.
    ///
    /// # Errors
    /// Their file.
    pub(super) fn has_responses(&self) -> Result<bool, SigningFault> {
        match self {
            Self::Folder(folder) => Ok(folder.responses()?.is_some()),
            Self::Database(_) => Ok(false),
        }
    }

    /// Reads the signed key responses.
    ///
    /// # Errors
    /// Their file; the keys are in a database.
    pub(super) fn responses(&self) -> Result<Option<SignedKeyResponse>, SigningFault> {
        Ok(self.offline_folder()?.responses()?)
    }

    /// Stores the signed key responses.
    ///
    /// # Errors
    /// As of [`responses`](Self::responses).
    pub(super) fn write_responses(
        &self,
        response: &SignedKeyResponse,
        now: UnixTime,
    ) -> Result<(), SigningFault> {
        Ok(self.offline_folder()?.write_responses(response, now)?)
    }

    /// Reads the keys with their states, those of KSKs whose private keys are elsewhere included.
    ///
    /// # Errors
    /// As of [`responses`](Self::responses).
    pub(super) fn ring_with_offline(&self, now: UnixTime) -> Result<Keyring, SigningFault> {
        Ok(self.offline_folder()?.ring_with_offline(now)?)
    }

    /// Adds a KSK whose private key is elsewhere to the ring, and stores it.
    ///
    /// # Errors
    /// As of [`responses`](Self::responses).
    pub(super) fn add_offline(
        &self,
        id: KeyId,
        dnskey: Vec<u8>,
        ring: &mut Keyring,
        ttl: Ttl,
        now: UnixTime,
    ) -> Result<(), SigningFault> {
        Ok(self.offline_folder()?.add_offline(id, dnskey, ring, ttl, now)?)
    }

    /// Reads the keys whose private parts are here.
    ///
    /// # Errors
    /// The first key that cannot be read.
    pub(super) fn keys(&self) -> Result<Vec<ZoneKey>, KeyFolderFault> {
        match self {
            Self::Folder(folder) => folder.keys(),
            Self::Database(keys) => keys.keys(),
        }
    }

    /// Returns the times in the files of the keys.
    ///
    /// # Errors
    /// As of [`keys`](Self::keys).
    pub(super) fn times(&self) -> Result<Vec<(KeyId, KeyTimes)>, KeyFolderFault> {
        Ok(self.keys()?.iter().map(|key| (KeyId::of(key), *key.times())).collect())
    }

    /// Returns the KSKs whose private parts are here.
    ///
    /// # Errors
    /// As of [`keys`](Self::keys).
    pub(super) fn private_ksks(&self) -> Result<Vec<KeyId>, KeyFolderFault> {
        let keys = self.keys()?;
        Ok(keys.iter().filter(|key| key.role() == KeyRole::KeySigning).map(KeyId::of).collect())
    }

    /// Stores the states of these keys.
    ///
    /// # Errors
    /// The first one that cannot be stored; the states of the others are stored next time.
    pub(super) fn write_states(
        &mut self,
        ring: &mut Keyring,
        changed: &[KeyId],
    ) -> Result<(), KeyFolderFault> {
        match self {
            Self::Folder(folder) => folder.write_states(ring, changed),
            Self::Database(keys) => keys.set_states(ring, changed),
        }
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// A file that cannot be deleted.
    pub(super) fn remove(&mut self, id: KeyId) -> Result<(), KeyFolderFault> {
        match self {
            Self::Folder(folder) => folder.remove(id),
            Self::Database(keys) => {
                keys.remove(id);
                Ok(())
            }
        }
    }

    /// Reads the keys, each with its use, beside the DNSKEY records that the zone has. `None`: there are
    /// none.
    ///
    /// # Errors
    /// The first key that cannot be read, or keys that do not fit together.
    pub(super) fn zone_keys(
        &self,
        apex: Name<'_>,
        use_of: impl Fn(KeyId) -> KeyUse,
        present: Vec<Vec<u8>>,
    ) -> Result<Option<ZoneKeys>, SigningFault> {
        let keys = self.keys()?;
        let with_use = |key: ZoneKey| (use_of(KeyId::of(&key)), key);
        let keys = keys.into_iter().map(with_use).map(|(used, key)| (key, used)).collect();
        match ZoneKeys::new(apex, keys, present) {
            Ok(keys) => Ok(Some(keys)),
            Err(KeySetFault::NoActiveKey) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    /// The version of the keys of the database that these are based on; `None` for files.
    pub(super) fn version(&self) -> Option<KeySetVersion> {
        match self {
            Self::Folder(_) => None,
            Self::Database(keys) => Some(keys.version()),
        }
    }

    /// Returns how a commit in the database changes the keys; `None` for files.
    pub(super) fn commit(&self, serial: Serial, ttls: Option<ZoneTtls>, author: String) -> Option<KeyCommit> {
        match self {
            Self::Folder(_) => None,
            Self::Database(keys) => Some(keys.commit(serial, ttls, author)),
        }
    }

    /// Takes note of keys that were committed.
    pub(super) fn committed(&mut self, base: Arc<ZoneKeySet>) {
        if let Self::Database(keys) = self {
            keys.committed(base);
        }
    }
}
