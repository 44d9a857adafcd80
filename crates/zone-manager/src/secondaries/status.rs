//! Status of a zone with other servers, and orders of operators.

use serde::{Serialize, Serializer};
use wire::UnixTime;

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

/// Status of a zone with other servers.
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
    #[serde(serialize_with = "seconds")]
    pub confirmed: Option<UnixTime>,
    /// When the primaries are queried next.
    #[serde(serialize_with = "seconds")]
    pub next_refresh: Option<UnixTime>,
    /// When the zone expires if no primary responds.
    #[serde(serialize_with = "seconds")]
    pub expires: Option<UnixTime>,
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
    #[serde(serialize_with = "seconds")]
    pub at: UnixTime,
    /// The reason.
    pub fault: String,
}

/// A transfer that brought a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastTransfer {
    /// When it ended.
    #[serde(serialize_with = "seconds")]
    pub at: UnixTime,
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

/// Serializes a time as seconds since 1970.
fn seconds<S: Serializer>(
    time: &(impl Copy + Into<Option<UnixTime>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let time: Option<UnixTime> = (*time).into();
    time.map(UnixTime::as_secs).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_in_json() {
        let at = UnixTime::from_secs(5);
        let fault = PrimaryFault { primary: "p".into(), at, fault: "f".into() };
        let status =
            SecondaryStatus { confirmed: Some(at), fault: Some(fault), ..SecondaryStatus::default() };
        let json = serde_json::to_value(&status).expect("JSON");
        assert_eq!((&json["confirmed"], &json["fault"]["at"]), (&5.into(), &5.into()));
        assert!(json["expires"].is_null());
    }
}
