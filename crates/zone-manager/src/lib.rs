//! The zones of a server: where each one comes from, what changes it, its versions on disk and in service.
//!
//! | module | what it has |
//! |---|---|
//! | [`zones`] | which zones there are: loading, reloading, publishing |
//! | [`changes`] | dynamic updates: zones that change, and what is kept of that |
//! | [`secondaries`] | zones from other servers, and NOTIFY both ways |
//! | [`transfers`] | zones for other servers |
//! | [`stores`] | stores of zones on disk |
#![forbid(unsafe_code)]

pub mod changes;
pub mod secondaries;
pub mod stores;
pub mod transfers;
pub mod zones;
