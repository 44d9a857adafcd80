//! Starts all parts of a server, wires them, and ends them in order.
//!
//! | module | does |
//! |---|---|
//! | [`builtin`] | the example that is served without a configuration |
//! | [`serve`] | `nomen serve` from start to end: makes all parts and ends them in order |
//! | [`config_source`] | where the configuration comes from, at the start and at a reload |
//! | [`signals`] | operators' commands to a running server by signals |
//! | [`privileges`] | giving up root |
//! | `outside` | warnings of files that a reload names and the sandbox does not allow |
//! | `heap` | the page size of the allocator's memory |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
#![deny(clippy::print_stdout)]

pub mod builtin;
pub mod config_source;
mod heap;
mod outside;
pub mod privileges;
pub mod serve;
pub mod signals;
