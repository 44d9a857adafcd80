//! What operators see of a running server, but for figures: logs, the audit file, the query log, dnstap, the
//! service manager, the process itself.
//!
//! | module | what it has |
//! |---|---|
//! | [`logging`] | the log and its files |
//! | [`repeated`] | log lines that repeat: one, and then their number |
//! | [`mod@audit`] | lines of requests that are refused on worker threads |
//! | [`trail`] | which refused requests have a line of their own in the audit file |
//! | [`querylog`], [`dnstap`] | lines of queries; copies of messages for collectors |
//! | [`worker_queue`] | what workers leave for a thread that writes: lines of the query log, messages for dnstap |
//! | [`systemd`] | what the service manager is notified of |
//! | [`process`] | when the process started, what it takes of the machine |
#![forbid(unsafe_code)]

pub mod audit;
pub mod dnstap;
pub mod logging;
pub mod process;
pub mod querylog;
pub mod repeated;
pub mod systemd;
pub mod trail;
pub mod worker_queue;
