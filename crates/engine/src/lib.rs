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
//! threads (`net`), what a zone answers (`authority`), configuration files (`config`). A [`Worker`] is an
//! [`exchange::Handler`]: a batch goes in, and each query gets its outcome.
//!
//! Read [`pipeline`] first.
//!
//! # Files
//!
//! In the order of the line:
//!
//! | file | does |
//! |---|---|
//! | [`request`] | reads the query |
//! | `gate` | decides whether it may be asked |
//! | `route` | sends it on by opcode, type and class |
//! | [`memory`], `zones` | the trait for data that answers at once, `Both`, which joins two; the catalog, answered by `authority` |
//! | [`source`] | the trait for what answers beyond memory |
//! | `chaos`, `refusal` | answers for class CH; every way to refuse |
//! | `tail`, `rotation` | what every reply has; the order of addresses |
//! | `signature` | verifies signed queries and signs their replies |
//! | [`late`] | a query while its answer is due later, and the way back |
//! | `log` | the traits of query logs, which get each query, whole and before its reply, and each reply; and of failures: SERVFAIL, and signatures that are not good |
//! | `zone_facts` | EXPIRE and ZONEVERSION in OPT, for queries that ask for them |
//! | `settings`, [`stats`] | what all workers share, and how it is replaced; the counters of one worker |
//!
//! A worker knows the type of its memory, so calls of it are static: in the program zones, and then the
//! cache, which `recursion` has. `recursion` is the source of answers for other names, `zone-manager` for
//! transfers, NOTIFY and UPDATE. For a client that may recurse, a name that a zone delegates goes to
//! `recursion` where a rule of the resolver covers it.
//!
//! # Rules of the hot path
//!
//! From the call of [`exchange::Handler::batch`] to its return, for an answer from a zone:
//!
//! - No heap allocation, no lock, no system call but reading the clock, no formatting, no `async`. A test of
//!   `authority`, `allocations`, counts the allocations of every kind of answer: none. Other answers may:
//!   texts of class CH, refusals of TSIG, responders and streams allocate, and late answers come through a
//!   queue with a lock. Counting per zone, off by default, adds to a counter that workers share.
//! - The batch moves together. A dependent read in a large zone costs a hundred nanoseconds and more; those
//!   of a batch overlap. Passes prefetch and do not read ahead: a read that waits fills the processor's
//!   window behind it. The test `prefetch` of `authority` counts the cache lines that an answer waits for.
//! - The kernel is most of the cost. System calls move many packets each; a change must not lower how many.
//! - The question stands at offset 12 of every message, so an exact answer is compiled when the zone is
//!   built. To answer is to look up, copy and patch.
//! - Names stay in wire form; one pass lower-cases a name and hashes its suffixes. Hashes are keyed with a
//!   secret, one for all zones. It is made at the start, or kept in the state folder, since an image is good
//!   under its own key only.
//! - Counters belong to one worker; reports add them up.
//! - The clock is read twice for a batch, never for a query, and by `exchange` alone: this crate never reads
//!   one, nor do `wire`, `dnssec`, `zone`, `authority`, `cache`, `resolver`, `transfer` and `update`.
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
