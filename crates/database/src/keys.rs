//! Keys of zones that the nodes sign: [`ZoneKeySet`], and how commits carry it. Private keys are in no log
//! line and in no text for debugging.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use wire::{Serial, UnixTime};
use zeroize::Zeroizing;

/// The version of the keys of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeySetVersion {
    /// Grows with each change; 0: the zone has no keys.
    pub number: i64,
    /// A random number, which a commit names: two versions of one number, made before and after a database
    /// lost changes, differ in it. 0: the zone has no keys.
    pub stamp: i64,
}

/// The keys of a zone with their states, as text of the files that a node has of zones of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneKeySet {
    /// Its version.
    pub version: KeySetVersion,
    /// The serial of the zone with which they were committed. The states of the keys are about this version,
    /// and no earlier one says anything about them.
    pub serial: Serial,
    /// The largest TTL of DNSKEY records that caches may have, in seconds.
    pub dnskey_ttl: u32,
    /// The largest TTL of all other RRsets that caches may have, in seconds.
    pub largest_ttl: u32,
    /// The keys, by name.
    pub keys: Vec<StoredKey>,
}

/// One key of a zone.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The name of its files, without an ending: `K<zone>+<algorithm>+<tag>`.
    pub name: String,
    /// The text of the file `.key`.
    pub public: String,
    /// The text of the file `.private`. Its memory is erased.
    pub private: Arc<Zeroizing<String>>,
    /// The text of the file `.state`; empty if there is none.
    pub state: String,
}

impl fmt::Debug for StoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredKey({})", self.name)
    }
}

/// What a commit requires of the keys of its zone, and how it changes them.
#[derive(Clone, Debug)]
pub struct KeyCommit {
    /// The version that the commit was decided with. Another one is a conflict.
    pub before: KeySetVersion,
    /// The keys from now on; `None`: as before.
    pub after: Option<Arc<ZoneKeySet>>,
    /// Who changes them, for the history.
    pub author: String,
    /// The clock of this node. One that differs much from that of the database makes signatures that are not
    /// valid: the commit is refused.
    pub at: UnixTime,
}

/// [`KeyCommit`] as `nomen.commit_signed` takes it.
#[derive(Serialize)]
pub(crate) struct KeyCommitText<'a> {
    before: i64,
    after: Option<KeySetText<'a>>,
    author: &'a str,
    at: u64,
}

impl<'a> KeyCommitText<'a> {
    pub(crate) fn of(commit: &'a KeyCommit) -> KeyCommitText<'a> {
        KeyCommitText {
            before: commit.before.stamp,
            after: commit.after.as_deref().map(KeySetText::of),
            author: &commit.author,
            at: commit.at.as_secs(),
        }
    }
}

/// [`ZoneKeySet`] as `nomen.put_keys` takes it.
#[derive(Serialize)]
pub(crate) struct KeySetText<'a> {
    version: i64,
    stamp: i64,
    serial: u32,
    dnskey_ttl: u32,
    largest_ttl: u32,
    keys: Vec<KeyText<'a>>,
}

#[derive(Serialize)]
struct KeyText<'a> {
    name: &'a str,
    public: &'a str,
    private: &'a str,
    state: &'a str,
}

impl<'a> KeySetText<'a> {
    pub(crate) fn of(set: &'a ZoneKeySet) -> KeySetText<'a> {
        let key = |key: &'a StoredKey| KeyText {
            name: &key.name,
            public: &key.public,
            private: &key.private,
            state: &key.state,
        };
        let KeySetVersion { number: version, stamp } = set.version;
        let ZoneKeySet { serial, dnskey_ttl, largest_ttl, keys, .. } = set;
        let (serial, dnskey_ttl, largest_ttl) = (serial.0, *dnskey_ttl, *largest_ttl);
        KeySetText { version, stamp, serial, dnskey_ttl, largest_ttl, keys: keys.iter().map(key).collect() }
    }
}
