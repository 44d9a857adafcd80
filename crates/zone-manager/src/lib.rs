//! Zones of a server: their sources, changes, versions on disk and versions in service.
//!
//! | module | holds |
//! |---|---|
//! | `fold` | folding a version while it changes |
//! | [`managed`] | one zone: its state, messages about its versions |
//! | [`dump`], [`written`], [`shown_change`] | zones as text, in files, and the difference of two versions |
//! | [`stores`] | stores of zones on disk: the one writer for all sources |
//! | [`changes`] | dynamic updates, edits of programs, transactions |
//! | [`secondaries`] | secondary zones, and NOTIFY both ways |
//! | [`transfers`] | outgoing transfers |
//! | [`zones`] | all zones: configuration, loading, reloading, publishing |
//!
//! A module uses only those above it.
#![forbid(unsafe_code)]

pub mod changes;
pub mod dump;
mod fold;
pub mod managed;
pub mod secondaries;
pub mod shown_change;
#[cfg(test)]
mod simulation;
pub mod stores;
pub mod transfers;
pub mod written;
pub mod zones;
