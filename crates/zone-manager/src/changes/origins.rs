//! When versions of zones were made, and by whom. In memory only: after a restart this is not known of the
//! versions before.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use wire::{Serial, UnixTime, ZoneName};

use super::edits::ChangeAuthor;

/// Most versions of one zone that are remembered.
const MAX_VERSIONS: usize = 64;
/// Most zones of which versions are remembered. Beyond it, the zone that changed least recently is forgotten.
const MAX_ZONES: usize = 4096;

/// What a change of a zone comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// A dynamic update of this client, signed with this key.
    Update {
        /// The address of the client.
        client: IpAddr,
        /// The name of the TSIG key.
        key: Option<Arc<str>>,
    },
    /// An edit of a program, or what a child zone has of its delegation.
    Edit(ChangeAuthor),
    /// A transaction of an operator.
    Transaction,
    /// The zone file, or the zone's primaries.
    File,
    /// The keys and signatures of a zone that is signed here.
    Signer,
}

impl fmt::Display for ChangeOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Update { client, key: Some(key) } => write!(f, "update by {key} from {client}"),
            Self::Update { client, key: None } => write!(f, "update from {client}"),
            Self::Edit(by @ (ChangeAuthor::Program { .. } | ChangeAuthor::Acme)) => write!(f, "edit by {by}"),
            Self::Edit(by @ (ChangeAuthor::Child { .. } | ChangeAuthor::DsPush { .. })) => by.fmt(f),
            Self::Transaction => f.write_str("transaction"),
            Self::File => f.write_str("zone file"),
            Self::Signer => f.write_str("signatures"),
        }
    }
}

/// When and by whom a version was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionOrigin {
    /// When it was made.
    pub at: UnixTime,
    /// What the change to it comes from.
    pub origin: ChangeOrigin,
}

/// The origins of recent versions of all zones.
#[derive(Debug, Default)]
pub(super) struct VersionOrigins {
    zones: HashMap<ZoneName, VecDeque<(Serial, VersionOrigin)>>,
}

impl VersionOrigins {
    /// Remembers the origin of a version.
    pub(super) fn note(&mut self, apex: &ZoneName, serial: Serial, origin: VersionOrigin) {
        if !self.zones.contains_key(apex) && self.zones.len() >= MAX_ZONES {
            let last =
                |versions: &VecDeque<(Serial, VersionOrigin)>| versions.back().map(|(_, last)| last.at);
            let oldest = self.zones.iter().min_by_key(|(_, versions)| last(versions));
            let oldest = oldest.map(|(apex, _)| apex.clone());
            oldest.iter().for_each(|apex| drop(self.zones.remove(apex)));
        }
        let versions = self.zones.entry(apex.clone()).or_default();
        if versions.len() >= MAX_VERSIONS {
            versions.pop_front();
        }
        versions.push_back((serial, origin));
    }

    /// Returns the origin of a version, if it is remembered.
    pub(super) fn of(&self, apex: &ZoneName, serial: Serial) -> Option<VersionOrigin> {
        let versions = self.zones.get(apex)?;
        versions.iter().rev().find(|(noted, _)| *noted == serial).map(|(_, origin)| origin.clone())
    }

    /// Forgets the versions of a zone.
    pub(super) fn forget(&mut self, apex: &ZoneName) {
        self.zones.remove(apex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_versions_of_the_zones_that_changed_last_are_remembered() {
        let zone = |number: usize| -> ZoneName {
            let name: wire::NameBuf = format!("z{number}.").parse().expect("a name");
            name.as_name().into()
        };
        let at = |seconds| VersionOrigin { at: UnixTime::from_secs(seconds), origin: ChangeOrigin::File };
        let mut origins = VersionOrigins::default();
        for serial in 0..=MAX_VERSIONS as u32 {
            origins.note(&zone(0), Serial(serial), at(u64::from(serial)));
        }
        assert_eq!(origins.of(&zone(0), Serial(0)), None);
        assert_eq!(origins.of(&zone(0), Serial(1)), Some(at(1)));
        // A serial may come again.
        origins.note(&zone(0), Serial(9), at(1000));
        assert_eq!(origins.of(&zone(0), Serial(9)), Some(at(1000)));
        (1..=MAX_ZONES).for_each(|number| origins.note(&zone(number), Serial(1), at(2000 + number as u64)));
        assert_eq!((origins.zones.len(), origins.of(&zone(0), Serial(9))), (MAX_ZONES, None));
        assert!(origins.of(&zone(1), Serial(1)).is_some());
        origins.forget(&zone(1));
        assert!(origins.of(&zone(1), Serial(1)).is_none());
    }
}
