//! Keys that come with the zones of `nomen database import --keys`.

use std::path::Path;
use std::sync::Arc;

use ::database::{KeySetVersion, StoredKey, ZoneKeySet};
use signer::files::{KeyFolderFault, read_state, read_zone_keys};
use signer::key::ZoneKey;
use wire::{Serial, ZoneName};

/// Reads the keys of a zone in a folder, for a zone that is created with this serial; `None` if there are
/// none.
///
/// # Errors
/// The first fault of a file.
pub(super) fn read(folder: &Path, apex: &ZoneName, serial: Serial) -> Result<Option<ZoneKeySet>, String> {
    let keys = read_zone_keys(folder, apex.as_name()).map_err(|fault| fault.to_string())?;
    if keys.is_empty() {
        return Ok(None);
    }
    let stored = keys.iter().map(|key| stored(folder, key));
    let mut keys = stored.collect::<Result<Vec<StoredKey>, String>>()?;
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    let stamp = getrandom::u64().map_err(|fault| fault.to_string())?;
    let version = KeySetVersion { number: 1, stamp: (stamp | 1).cast_signed() };
    // What caches have of the zone is as old as its records: their TTLs are those of the zone.
    Ok(Some(ZoneKeySet { version, serial, keys, ..ZoneKeySet::default() }))
}

fn stored(folder: &Path, key: &ZoneKey) -> Result<StoredKey, String> {
    let state = read_state(folder, key).map_err(|fault: KeyFolderFault| fault.to_string())?;
    Ok(StoredKey {
        name: key.file_stem(),
        public: key.public_text(),
        private: Arc::new(key.private_text().map_err(|bad| format!("key {}: {bad}", key.tag()))?),
        state: state.map(|state| state.write(key.zone(), key.tags()[0])).unwrap_or_default(),
    })
}
