//! Zones in PostgreSQL, and sections of the configuration that all nodes share. The database has the truth
//! about them; each node holds all zones in memory, follows what changes, and commits its own changes in the
//! database before they are acknowledged. No query waits for it.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | what a [`Database`] needs to know; the URL of a database |
//! | [`interface`] | what a node and its database pass to each other: zones, commits, content, faults |
//! | [`counts`] | the state of the database as operators see it, counters, times of commits |
//! | [`handle`] | [`Database`], the handle of its thread |
//! | `worker` | the thread: connecting, and what runs over the connections |
//! | `queue` | what waits for the database, and what is in flight |
//! | [`keys`], `key_rows` | keys of zones that the nodes sign; reading them |
//! | `signing` | the node that signs: the advisory lock |
//! | `follow`, `read` | following changes; reading zones and changes |
//! | `sections` | sections of the configuration that all nodes share |
//! | `write` | commits, and whether one was made whose answer was lost |
//! | `progress` | how far a node is, over restarts |
//! | `text` | records as rows have them |
//! | `connect` | hosts, sockets, TLS, sessions |
//! | `schema` | the SQL of the schema `nomen`; migrations |
//! | [`powerdns`] | the tables of PowerDNS's gpgsql backend, which are read only |
//! | [`admin`] | [`DatabaseAdmin`]: what an operator's commands do |
//!
//! This crate knows neither the configuration nor how zones are served.
#![forbid(unsafe_code)]

pub mod admin;
mod connect;
pub mod counts;
mod follow;
pub mod handle;
pub mod interface;
mod key_rows;
pub mod keys;
pub mod powerdns;
mod progress;
mod queue;
mod read;
mod schema;
mod sections;
pub mod settings;
mod shared;
mod signing;
mod text;
mod worker;
mod write;

pub use admin::{DatabaseAdmin, SchemaReport};
pub use counts::{COMMIT_TIME_BOUNDS, DatabaseCounts, DatabaseNode, DatabaseStatus};
pub use handle::Database;
pub use interface::{
    CommitEnd, CommitStep, DatabaseFault, DatabaseSink, ListedZone, NewZone, OnCommit, OnHistory, OnNodes,
    RecordedChange, SectionEdit, SectionEvent, SectionSet, StoredSection, ZoneCommit, ZoneContent, ZoneId,
};
pub use keys::{KeyCommit, KeySetVersion, StoredKey, ZoneKeySet};
pub use powerdns::PowerDnsReader;
pub use schema::SCHEMA_VERSION;
pub use settings::{DatabaseSettings, DatabaseUrl, HostLookup, SchemaKind};
