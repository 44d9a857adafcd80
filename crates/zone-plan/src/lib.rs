//! The plan of each zone, from the configuration: its source, peers and rules. Nothing here reads a file,
//! waits or starts a thread: the caller lists folders and reads keys.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | one zone: its name, the source of its records, how they are checked |
//! | `signing` | which zones are signed, under which policy |
//! | `updates` | how a zone changes: who may change it, its next serial number, whether it is signed |
//! | `peers` | other servers of a zone: primaries, targets of NOTIFY |
//! | `transfers` | who may transfer a zone |
//! | `queries` | who may query a zone |
//! | `catalogs` | catalog zones: members that are served, zones that nomen lists |
//! | `database` | zones of the database: the keys that apply to them |
//! | `zones` | the plan: all zones of a configuration, with their rules |
//!
//! A module uses only those above it.
#![forbid(unsafe_code)]

mod catalogs;
mod database;
mod peers;
mod queries;
mod signing;
mod spec;
mod transfers;
mod updates;
mod zones;

pub use catalogs::{CatalogPlan, Listing, MemberTemplate, PlannedZone, ProducedPlan};
pub use database::DatabasePlan;
pub use peers::{DsPush, PeerRules, PeerServer, ZonePeers};
pub use queries::{QueryGrants, ZoneQueries};
pub use signing::ZoneSigning;
pub use spec::{DifferenceRule, LEAST_RECORDS, MOST_TEXT, Origin, TextRules, ZoneFault, ZoneSpec, ZoneText};
pub use transfers::{Grants, TransferRules};
pub use updates::{DelegationRules, UpdateRules, ZoneUpdates};
pub use zones::{
    FolderFile, ListFolder, NameDoubt, RefusedFile, ReloadBounds, WantedZones, ZoneFolder, ZoneOfFile,
    added_zone, plan,
};
