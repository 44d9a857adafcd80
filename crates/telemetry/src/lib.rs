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
//! | [`policy_top`], [`limits_top`] | what rules of policies block most; which networks are limited most |
//! | [`heavy`], `last_hour` | the most frequent keys in bounded memory; counts of the last hour |
//! | [`worker_queue`] | queue from workers to a writing thread, for the query log, dnstap and the two tops |
//! | [`systemd`] | notifications to the service manager |
//! | [`process`] | start time and resource usage of the process |
#![forbid(unsafe_code)]

pub mod audit;
pub mod dnstap;
pub mod heavy;
mod last_hour;
pub mod limits_top;
pub mod logging;
pub mod policy_top;
pub mod process;
pub mod querylog;
pub mod repeated;
pub mod systemd;
mod top_thread;
pub mod trail;
pub mod worker_queue;
