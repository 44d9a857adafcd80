//! The sections that a node keeps in its state folder: those that the database has, and those in force, so
//! that a start without the database has them.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::SharedSection;

/// Name of the file in the state folder. It has secrets, so only the owner may read it.
pub const SECTIONS_FILE: &str = "database-sections";
/// Largest file, in bytes: the database has 16 MiB of sections, and the file two versions of each.
const MAX_FILE: u64 = 128 << 20;

/// The sections that a node has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSections {
    /// The number of the last change of a section in the database.
    pub number: i64,
    /// The sections that the database has.
    pub wanted: Vec<SharedSection>,
    /// The sections in force, as far as they differ from these: last good versions of some, and those that
    /// were removed and are needed here.
    #[serde(default)]
    pub earlier: Vec<SharedSection>,
}

impl KeptSections {
    /// Reads the file of a state folder. Without one there are no sections.
    ///
    /// # Errors
    /// It cannot be read, or was cut or changed.
    pub fn read(folder: &Path) -> io::Result<KeptSections> {
        match zone::regular::read_with_checksum(&folder.join(SECTIONS_FILE), MAX_FILE) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => Ok(KeptSections::default()),
            Err(fault) => Err(fault),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The system's; then the file before is there.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        zone::regular::replace_with_checksum(&folder.join(SECTIONS_FILE), &serde_json::to_vec(self)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(KeptSections::read(folder.path()).expect("read"), KeptSections::default());
        let section =
            SharedSection { kind: "policy.list".into(), name: "ads".into(), text: "[[policy.list]]".into() };
        let kept = KeptSections { number: 7, wanted: vec![section.clone()], earlier: vec![section] };
        kept.write(folder.path()).expect("written");
        assert_eq!(KeptSections::read(folder.path()).expect("read"), kept);
        let file = folder.path().join(SECTIONS_FILE);
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
        let mut changed = std::fs::read(&file).expect("read");
        changed[11] ^= 1;
        for text in [&b"{"[..], b"", &changed] {
            std::fs::write(&file, text).expect("written");
            assert!(KeptSections::read(folder.path()).is_err(), "{text:?}");
        }
    }
}
