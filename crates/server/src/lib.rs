//! A running server: zones and their sources, recursive service, control, metrics, logs.
//!
//! | module | does |
//! |---|---|
//! | [`builtin`] | the example that is served without a configuration |
//! | [`serve`] | `nomen serve` from start to end: makes all parts and ends them in order |
//! | [`in_force`] | the configuration in force, and which parts take over what a reload changes |
//! | [`parts`] | its parts, for those below |
//! | [`control`], [`signals`] | what operators can have a running server do: commands on a socket, signals |
//! | [`connections`] | connections of administration, and which of them makes room for another |
//! | [`metrics`], [`page`] | figures, and the status page |
//! | [`privileges`] | giving up root |
//! | [`message`] | makes queries and prints messages |
#![forbid(unsafe_code)]
// `println!` panics where the reader is gone or the disk is full.
#![deny(clippy::print_stdout)]

pub mod builtin;
pub mod connections;
pub mod control;
mod heap;
pub mod in_force;
pub mod message;
pub mod metrics;
pub mod page;
pub mod parts;
pub mod privileges;
pub mod serve;
pub mod signals;
