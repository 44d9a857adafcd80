//! Records of the challenge dns-01, and what an order needs of the zones of this server, which the zone
//! manager changes.

use std::future::Future;
use std::pin::Pin;

use wire::{NameBuf, ZoneName};

/// The end of a change of zones.
pub type ChangeEnd<'c> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'c>>;

/// The zone and the owner of a record of a challenge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChallengePlace {
    /// The zone.
    pub zone: ZoneName,
    /// The owner: the name of the challenge, or the end of its aliases.
    pub owner: NameBuf,
}

/// A TXT record of a challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeRecord {
    /// Where it is.
    pub place: ChallengePlace,
    /// Its text.
    pub value: String,
}

/// Changes zones of this server.
pub trait ChallengeZones: Send + Sync {
    /// Returns where the record of a challenge belongs: one place at least, and several if zones of views
    /// contain the name.
    ///
    /// # Errors
    /// Why it belongs into no zone that this server can change.
    fn places(&self, owner: &NameBuf) -> Result<Vec<ChallengePlace>, String>;

    /// Adds records. The future ends when they are on disk and in service.
    fn add(&self, records: Vec<ChallengeRecord>) -> ChangeEnd<'_>;

    /// Removes records; those that are not there are ignored.
    fn remove(&self, records: Vec<ChallengeRecord>) -> ChangeEnd<'_>;
}
