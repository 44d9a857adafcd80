//! What operators see of a zone with other servers, and what they can order.

use serde::Serialize;

/// What an operator wants of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneOrder {
    /// Ask the primaries whether there is a newer version.
    Refresh,
    /// Take all of the zone from the primaries, whatever its version.
    Retransfer,
    /// Tell the secondaries of the version in service.
    Notify,
}

/// What is known of a zone with other servers. Times are in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SecondaryStatus {
    /// "fresh", "stale", "expired" or "never-loaded"; none if the zone is not taken from primaries.
    pub state: Option<&'static str>,
    /// The version that was taken last.
    pub serial: Option<u32>,
    /// Whom it is taken from.
    pub primaries: Vec<String>,
    /// Whether a primary is being asked, or transfers the zone.
    pub under_way: bool,
    /// When a primary last said that our version is the newest.
    pub confirmed: Option<u64>,
    /// When primaries are asked next.
    pub next_refresh: Option<u64>,
    /// When the zone expires if none answers.
    pub expires: Option<u64>,
    /// The last fault, if no primary was of use since.
    pub fault: Option<PrimaryFault>,
    /// The last transfer.
    pub last_transfer: Option<LastTransfer>,
    /// The targets of NOTIFY.
    pub notify: Vec<String>,
}

/// Why a primary was of no use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrimaryFault {
    /// Which one.
    pub primary: String,
    /// When.
    pub at: u64,
    /// Why.
    pub fault: String,
}

/// A transfer that brought a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastTransfer {
    /// When it ended.
    pub at: u64,
    /// From whom.
    pub primary: String,
    /// "AXFR" or "IXFR".
    pub kind: &'static str,
    /// The version before.
    pub from: Option<u32>,
    /// The version that it brought.
    pub to: u32,
    /// Records in it, those that went among them.
    pub records: u64,
    /// Bytes of its messages.
    pub bytes: u64,
    /// How long it took.
    pub milliseconds: u64,
}
