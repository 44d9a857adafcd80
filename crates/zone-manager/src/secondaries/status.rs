//! Status of a zone with other servers, and orders of operators.

use serde::Serialize;

/// An operator's order for a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneOrder {
    /// Query the primaries for a newer version.
    Refresh,
    /// Transfer the whole zone from the primaries, whatever its version.
    Retransfer,
    /// Send NOTIFY with the version in service.
    Notify,
}

/// Status of a zone with other servers. Times are in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SecondaryStatus {
    /// "fresh", "stale", "expired" or "never-loaded"; `None` if the zone is not a secondary zone.
    pub state: Option<&'static str>,
    /// The serial number of the version at hand.
    pub serial: Option<u32>,
    /// The primaries.
    pub primaries: Vec<String>,
    /// Whether a query to a primary or a transfer is in progress.
    pub under_way: bool,
    /// When a primary last confirmed the version at hand as the newest.
    pub confirmed: Option<u64>,
    /// When the primaries are queried next.
    pub next_refresh: Option<u64>,
    /// When the zone expires if no primary responds.
    pub expires: Option<u64>,
    /// The last fault, if no primary has responded properly since.
    pub fault: Option<PrimaryFault>,
    /// The last transfer that brought a version.
    pub last_transfer: Option<LastTransfer>,
    /// The targets of NOTIFY.
    pub notify: Vec<String>,
}

/// Why a primary could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrimaryFault {
    /// The primary.
    pub primary: String,
    /// When the fault happened.
    pub at: u64,
    /// The reason.
    pub fault: String,
}

/// A transfer that brought a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastTransfer {
    /// When it ended.
    pub at: u64,
    /// The primary.
    pub primary: String,
    /// "AXFR" or "IXFR".
    pub kind: &'static str,
    /// The serial number before.
    pub from: Option<u32>,
    /// The serial number of the received version.
    pub to: u32,
    /// Records received, including removed ones.
    pub records: u64,
    /// Bytes of its messages.
    pub bytes: u64,
    /// Duration in milliseconds.
    pub milliseconds: u64,
}
