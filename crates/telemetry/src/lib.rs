//! Observability of a running server, except metrics: logs, the audit file, the query log, dnstap, the
//! service manager, the process itself.
//!
//! | module | what it has |
//! |---|---|
//! | [`logging`] | the log and its files |
//! | [`repeated`] | repeated log lines: the first one, then their number |
//! | [`mod@audit`] | lines about requests that worker threads refuse |
//! | [`trail`] | which refused requests have their own line in the audit file |
//! | [`querylog`], [`dnstap`] | the query log; copies of messages for collectors |
//! | [`policy_top`], [`heavy`] | what rules of policies block most; the most frequent keys in bounded memory |
//! | [`worker_queue`] | queue from workers to a writing thread, for the query log, dnstap and `policy_top` |
//! | [`systemd`] | notifications to the service manager |
//! | [`process`] | start time and resource usage of the process |
#![forbid(unsafe_code)]

pub mod audit;
pub mod dnstap;
pub mod heavy;
pub mod logging;
pub mod policy_top;
pub mod process;
pub mod querylog;
pub mod repeated;
pub mod systemd;
pub mod trail;
pub mod worker_queue;
