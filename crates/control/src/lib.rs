//! Commands of operators to a running server, and its metrics.
//!
//! | module | does |
//! |---|---|
//! | [`parts`] | the parts of a running server, for the modules below |
//! | [`in_force`] | the configuration in force, and which parts take over what a reload changes |
//! | [`connections`] | operators' connections, and which of them is evicted for a new one |
//! | [`socket`], [`protocol`] | the control socket; the commands on it and their answers |
//! | [`listener`], [`commands`] | reads commands from the control socket; executes them |
//! | [`fault`] | why a command is not executed |
//! | [`tokens`], [`api_figures`] | the tokens of the HTTP API, and its counters |
//! | [`hand_over`] | the listening sockets, sent to the next server on the control socket |
//! | [`metrics`], `readiness` | metrics, and whether the server is ready |
//! | [`database_state`] | the state of the database of zones |
//! | [`rates`] | counts of the last minutes |
//! | [`challenges`] | the HTTP listeners of the challenge http-01 |
//! | [`http`], [`hosts`] | the HTTP listener for both; which host names requests to the API may have |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
#![deny(clippy::print_stdout)]

pub mod api_figures;
pub mod challenges;
pub mod commands;
pub mod connections;
pub mod database_state;
pub mod fault;
pub mod hand_over;
pub mod hosts;
pub mod http;
pub mod in_force;
pub mod listener;
pub mod metrics;
pub mod parts;
pub mod protocol;
pub mod rates;
pub mod readiness;
pub mod socket;
pub mod tokens;
