//! A running server: zones and their sources, recursive service, control, metrics, logs.
//!
//! | module | does |
//! |---|---|
//! | [`builtin`] | the example that is served without a configuration |
//! | [`serve`] | `nomen serve` from start to end: makes all parts and ends them in order |
//! | [`in_force`] | the configuration in force, and which parts take over what a reload changes |
//! | [`parts`] | the parts of a running server, for the modules below |
//! | [`control`], [`signals`] | operators' commands to a running server: on a socket, by signals |
//! | [`connections`] | operators' connections, and which of them is evicted for a new one |
//! | [`metrics`], [`page`] | metrics, and the status page |
//! | [`privileges`] | giving up root |
//! | [`message`] | makes queries and prints messages |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
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
