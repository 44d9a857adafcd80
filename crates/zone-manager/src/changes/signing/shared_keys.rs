//! [`SharedKeys`]: the keys of one zone of the database. What changes is kept here until it is committed
//! together with the records of the zone; a commit of another node in between makes it void.

use std::path::PathBuf;
use std::sync::Arc;

use ::database::{KeyCommit, KeySetVersion, StoredKey, ZoneKeySet};
use signer::files::{KeyFolderFault, KeyFolderFaultKind};
use signer::key::ZoneKey;
use signer::key::text::{PrivateText, PublicText};
use signer::key::times::KeyTimes;
use signer::rollover::text::StateText;
use signer::rollover::{KeyId, KeyState, Keyring, ManagedKey, NewKey};
use wire::{NameBuf, Serial, Ttl, UnixTime, ZoneName};

use super::key_folder::{generate, purpose_of};
use super::{SigningFault, ZoneTtls};
use crate::changes::clock;

/// The keys of one zone of the database.
pub(super) struct SharedKeys {
    zone: NameBuf,
    /// The keys as the database has them, as far as this node knows.
    base: Arc<ZoneKeySet>,
    /// The keys as they are to be.
    keys: Vec<StoredKey>,
}

impl SharedKeys {
    pub(super) fn of(apex: &ZoneName, base: Arc<ZoneKeySet>) -> SharedKeys {
        let keys = base.keys.clone();
        SharedKeys { zone: apex.as_name().to_buf(), base, keys }
    }

    /// The version that the keys are based on.
    pub(super) fn version(&self) -> KeySetVersion {
        self.base.version
    }

    /// The TTLs of versions of the zone that caches may have.
    pub(super) fn ttls(&self) -> ZoneTtls {
        let ZoneKeySet { dnskey_ttl, largest_ttl, .. } = *self.base;
        ZoneTtls { dnskey: Ttl::from_secs(dnskey_ttl), largest: Ttl::from_secs(largest_ttl) }
    }

    /// Reads the keys.
    ///
    /// # Errors
    /// The first fault of a text.
    pub(super) fn keys(&self) -> Result<Vec<ZoneKey>, KeyFolderFault> {
        self.keys.iter().map(key_of).collect()
    }

    /// Reads the keys with their states.
    ///
    /// # Errors
    /// The first fault of a text.
    pub(super) fn ring(&self, now: UnixTime) -> Result<Keyring, KeyFolderFault> {
        let keys = self.keys()?;
        let managed = keys.iter().zip(&self.keys).map(|(key, stored)| {
            let state = match state_of(stored)? {
                Some(text) => text.state,
                None => KeyState::by_times(purpose_of(key, &keys), key.bits(), key.times(), now),
            };
            Ok(ManagedKey { id: KeyId::of(key), dnskey: key.dnskey().to_vec(), state })
        });
        Ok(Keyring::new(managed.collect::<Result<Vec<ManagedKey>, KeyFolderFault>>()?))
    }

    /// Generates a key, and adds it to the ring.
    ///
    /// # Errors
    /// The system.
    pub(super) fn generate(
        &mut self,
        new: &NewKey,
        ring: &mut Keyring,
        (ttl, times): (Ttl, KeyTimes),
        now: UnixTime,
    ) -> Result<KeyId, SigningFault> {
        let key = generate(self.zone.as_name(), new, ring, ttl, times)?;
        let private = key.private_text().map_err(|bad| SigningFault::Generate(bad.to_string()))?;
        self.keys.push(StoredKey {
            name: key.file_stem(),
            public: key.public_text(),
            private: Arc::new(private),
            state: String::new(),
        });
        self.keys.sort_by(|a, b| a.name.cmp(&b.name));
        let id = KeyId::of(&key);
        ring.add(new, id, key.dnskey().to_vec(), key.bits(), now);
        Ok(id)
    }

    /// Sets the states of these keys.
    ///
    /// # Errors
    /// A text of a key that cannot be read.
    pub(super) fn set_states(&mut self, ring: &mut Keyring, changed: &[KeyId]) -> Result<(), KeyFolderFault> {
        if changed.is_empty() {
            return Ok(());
        }
        for stored in &mut self.keys {
            let key = key_of(stored)?;
            let id = KeyId::of(&key);
            let Some(managed) = ring.key(id).filter(|_| changed.contains(&id)) else { continue };
            let unknown = state_of(stored).ok().flatten().map(|text| text.unknown).unwrap_or_default();
            let text = StateText { algorithm: id.algorithm, state: managed.state.clone(), unknown };
            stored.state = text.write(key.zone(), key.tags()[0]);
            ring.written(id);
        }
        Ok(())
    }

    /// Removes a key.
    pub(super) fn remove(&mut self, id: KeyId) {
        self.keys.retain(|stored| key_of(stored).map_or(true, |key| KeyId::of(&key) != id));
    }

    /// Returns what a commit of the zone requires of the keys, and how it changes them; `serial` is that of
    /// the version to come.
    pub(super) fn commit(&self, serial: Serial, ttls: Option<ZoneTtls>, author: String) -> KeyCommit {
        let before = self.base.version;
        let ttls = ttls.unwrap_or_else(|| self.ttls());
        // A zone that is not signed yet, and that gets no keys, needs no entry.
        let is_bare = self.keys.is_empty() && before == KeySetVersion::default();
        let is_same = is_bare || self.keys == self.base.keys && ttls == self.ttls();
        let after = (!is_same).then(|| {
            Arc::new(ZoneKeySet {
                version: KeySetVersion { number: before.number + 1, stamp: random_stamp() },
                serial,
                dnskey_ttl: ttls.dnskey.as_secs(),
                largest_ttl: ttls.largest.as_secs(),
                keys: self.keys.clone(),
            })
        });
        KeyCommit { before, after, author, at: clock::now() }
    }

    /// Takes note that the keys were committed.
    pub(super) fn committed(&mut self, base: Arc<ZoneKeySet>) {
        self.base = base;
    }
}

/// Returns a random number other than 0, which means that there are no keys.
fn random_stamp() -> i64 {
    let random = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
    (random | 1).cast_signed()
}

fn key_of(stored: &StoredKey) -> Result<ZoneKey, KeyFolderFault> {
    let fault = |end: &str, kind| KeyFolderFault { path: place(stored, end), kind };
    let public = PublicText::parse(&stored.public);
    let public = public.map_err(|text| fault(".key", KeyFolderFaultKind::Text(text)))?;
    let private = PrivateText::parse(&stored.private);
    let private = private.map_err(|text| fault(".private", KeyFolderFaultKind::Text(text)))?;
    let joined = ZoneKey::join(public, private.key, private.times);
    joined.map_err(|bad| fault(".private", KeyFolderFaultKind::Key(bad)))
}

fn state_of(stored: &StoredKey) -> Result<Option<StateText>, KeyFolderFault> {
    if stored.state.is_empty() {
        return Ok(None);
    }
    let fault =
        |text| KeyFolderFault { path: place(stored, ".state"), kind: KeyFolderFaultKind::State(text) };
    StateText::parse(&stored.state).map(Some).map_err(fault)
}

/// Where a text is, for messages.
fn place(stored: &StoredKey, end: &str) -> PathBuf {
    PathBuf::from(format!("nomen.keys: {}{end}", stored.name))
}
