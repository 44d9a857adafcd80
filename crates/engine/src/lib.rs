//! The query path, the same for every transport.
//!
//! ```text
//!  Batch ─▶ request ─▶ gate ─▶ route ─▶ source ─▶ tail ─▶ reply
//!           parse,     may it  which    │         TC, extended error, OPT, TSIG, counters, query log
//!           hash       be      source   ├ Memory   answers at once: zones
//!                      asked            └ Source   answers at once, later (Responder) or as a stream;
//!                                                  a late answer comes back at tail
//! ```
//!
//! What lives here: what happens to a query between the socket and the data. What does not: sockets and
//! threads (`net`), what a zone answers (`authority`), configuration files (`server`). A [`Worker`] is an
//! [`exchange::Handler`]: a batch goes in, and each query gets its outcome.
//!
//! Read [`pipeline`] first.
#![forbid(unsafe_code)]

mod asked;
mod chaos;
mod gate;
pub mod late;
mod log;
pub mod memory;
pub mod pipeline;
mod refusal;
pub mod request;
mod rotation;
mod route;
mod settings;
mod signature;
pub mod source;
pub mod stats;
mod tail;
mod zone_facts;
mod zones;

pub use asked::Asked;
pub use chaos::Identity;
pub use late::{Responder, WorkerState};
pub use log::{FailureLog, LoggedQuery, LoggedReply, QueryLog, Role};
pub use memory::{Both, Either, Found, LookupKey, Memory};
pub use pipeline::{BATCH, Worker};
pub use refusal::{Answered, Refusal};
pub use settings::{Config, Engine};
pub use source::{Operation, Promise, Responders, Source, SourceReply, Sources};
pub use stats::Stats;
pub use zone_facts::ZoneFacts;
pub use zones::{HasZones, WrongCatalogKey, Zones, ZonesConfig};
