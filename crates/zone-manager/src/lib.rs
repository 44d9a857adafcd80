//! Zones of a server: their sources, changes, versions on disk and versions in service.
//!
//! | module | holds |
//! |---|---|
//! | `fold` | folding a version while it changes |
//! | [`managed`] | one zone: its state, messages about its versions |
//! | [`dump`], [`written`], [`shown_change`] | zones as text, in files, and the difference of two versions |
//! | [`stores`] | stores of zones on disk: the one writer for all sources |
//! | [`database`] | zones of a database: which ones there are, and their versions in the state folder |
//! | [`changes`] | dynamic updates, edits of programs, transactions |
//! | [`challenges`] | the zones that challenges of a CA change |
//! | [`secondaries`] | secondary zones, and NOTIFY both ways |
//! | [`transfers`] | outgoing transfers |
//! | [`zones`] | all zones: configuration, loading, reloading, publishing |
//!
//! A module uses only those above it.
#![forbid(unsafe_code)]

pub mod challenges;
pub mod changes;
pub mod database;
pub mod dump;
mod fold;
pub mod managed;
#[cfg(test)]
mod node_simulation;
pub mod secondaries;
pub mod shown_change;
#[cfg(test)]
mod simulation;
pub mod stores;
pub mod transfers;
pub mod written;
pub mod zones;
