//! Commands of operators to a running server, and its metrics.
//!
//! | module | does |
//! |---|---|
//! | [`parts`] | the parts of a running server, for the modules below |
//! | [`in_force`] | the configuration in force, and which parts take over what a reload changes |
//! | [`connections`] | operators' connections, and which of them is evicted for a new one |
//! | [`socket`], [`protocol`] | the control socket; the commands on it and their answers |
//! | [`listener`], `commands` | reads commands from the control socket; executes them |
//! | `fault` | why a command is not executed |
//! | [`hand_over`] | the listening sockets, sent to the next server on the control socket |
//! | [`metrics`], [`page`] | metrics, and the status page |
//! | [`http`] | the HTTP listener for both |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
#![deny(clippy::print_stdout)]

mod commands;
pub mod connections;
mod fault;
pub mod hand_over;
pub mod http;
pub mod in_force;
pub mod listener;
pub mod metrics;
pub mod page;
pub mod parts;
pub mod protocol;
pub mod socket;
