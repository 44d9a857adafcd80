//! The query path, one line in one direction, the same for every transport.
//!
//! ```text
//!  Batch ─▶ request ─▶ gate ─▶ route ─▶ source ─▶ tail ─▶ reply
//!           parse,     may it  which    │         TC, extended error, OPT, TSIG, counters, query log
//!           hash       be      source   ├ Memory   answers at once: zones, later the cache
//!                      asked            └ Source   answers at once, later (Ticket) or as a stream;
//!                                                  a late answer joins again at tail
//! ```
//!
//! What lives here: what happens to one query between the socket and the data. What does not: sockets (`net`), what a
//! zone answers (`authority`), configuration files, threads (`server`). The way in is a [`exchange::Batch`], the way out
//! its outcomes: a [`Worker`] is an [`exchange::Handler`].
//!
//! Read [`pipeline`] first.
#![forbid(unsafe_code)]

mod asked;
mod chaos;
mod gate;
pub mod late;
pub mod memory;
pub mod pipeline;
mod refusal;
pub mod request;
mod route;
mod settings;
pub mod source;
pub mod stats;
mod tail;
mod tsig;
mod zones;

pub use asked::Asked;
pub use chaos::Identity;
pub use late::{Account, Ticket};
pub use memory::{Both, Memory};
pub use pipeline::{BATCH, Worker};
pub use refusal::{Answered, Refusal};
pub use settings::{Config, Engine, LogEntry, QueryLog};
pub use source::{Operation, Promise, Source, Sourced, Sources, TicketOffice};
pub use stats::Stats;
pub use zones::{WrongCatalogKey, Zones, ZonesConfig};
