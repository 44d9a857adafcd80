//! The zones of a server: where each one comes from, what changes it, its versions on disk and in service.
//!
//! | module | what it has |
//! |---|---|
//! | [`managed`] | one zone: its entry in the configuration, its state, messages about its versions |
//! | [`dump`], [`written`], [`shown_change`] | a zone as text, in a file, and what differs between two versions |
//! | `fold` | folding a version that changes |
//! | [`stores`] | stores of zones on disk: the writer for all sources |
//! | [`changes`] | dynamic updates |
//! | [`secondaries`] | zones from other servers, and NOTIFY both ways |
//! | [`transfers`] | zones for other servers |
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
