//! A running server: zones and their sources, recursive service, control, metrics, logs.
//!
//! | module | does |
//! |---|---|
//! | [`builtin`] | the example that is served without a configuration |
//! | [`serve`] | `nomen serve` from start to end: makes the parts below and ends them in order |
//! | [`frontend`] | what answers: engine, listeners, query log |
//! | [`zones`] | which zones there are, and keeping them: loading, reloading, publishing |
//! | [`changes`] | dynamic updates: zones that change, and what is kept of that |
//! | [`transfers`] | zones for other servers |
//! | [`secondaries`] | zones from other servers, and NOTIFY both ways |
//! | `stores`, [`background`] | stores of zones on disk; the threads of work beside serving |
//! | [`recursive`] | recursive service: cache and forwarder at work |
//! | [`in_force`] | the configuration in force, and which parts take over what a reload changes |
//! | [`control`], [`signals`] | what operators can have a running server do: commands on a socket, signals |
//! | [`connections`] | connections of administration, and which of them makes room for another |
//! | [`metrics`], [`logging`], [`querylog`], [`process`] | what operators see: figures, log, query log, the process itself |
//! | [`dnstap`] | copies of messages for collectors |
//! | [`worker_queue`] | what workers leave for a thread that writes: lines of the query log, messages for dnstap |
//! | `audit` | log lines of requests that are refused on worker threads |
//! | `repeated` | log lines that repeat: one, and then their number |
//! | `trail` | which refused requests have a line of their own in the audit file |
//! | [`descriptors`] | which part may have how many file descriptors |
//! | [`privileges`] | giving up root |
//! | [`message`] | makes queries and prints messages |
#![forbid(unsafe_code)]
// `println!` panics where the reader is gone or the disk is full.
#![deny(clippy::print_stdout)]

mod audit;
pub mod background;
pub mod builtin;
pub mod changes;
pub mod connections;
pub mod control;
pub mod descriptors;
pub mod dnstap;
pub mod frontend;
mod heap;
pub mod in_force;
mod kept_threads;
pub mod logging;
pub mod message;
pub mod metrics;
pub mod page;
pub mod privileges;
pub mod process;
pub mod querylog;
pub mod recursive;
mod repeated;
pub mod secondaries;
pub mod serve;
pub mod signals;
mod spare;
pub mod stores;
mod sync;
mod trail;
pub mod transfers;
pub mod worker_queue;
pub mod zones;
