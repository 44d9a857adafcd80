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
//! This crate does what happens to a query between the socket and the data. Not here: sockets and threads
//! (`net`), answers from zone data (`authority`), configuration files (`config`). A [`Worker`] is an
//! [`transport::Handler`]: it takes a batch and sets the outcome of each query.
//!
//! Read [`pipeline`] first.
//!
//! # Files
//!
//! In the order of the query path:
//!
//! | file | does |
//! |---|---|
//! | [`request`] | parses the query |
//! | `gate` | checks whether the query is served |
//! | `route` | selects memory, a source or CHAOS by opcode, type and class |
//! | [`memory`], `zones` | the trait for data that answers at once, `Both`, which joins two; the catalog, answered by `authority` |
//! | [`source`] | the trait for sources beyond memory |
//! | `prefix`, [`access`], `query_access`, `views` | tables of address prefixes; rules about clients; which queries are accepted; the zones of some clients |
//! | `chaos`, `refusal` | answers for class CH; all refusals |
//! | `tail`, `rotation` | parts common to all replies; rotation of addresses |
//! | `reply_limits`, `limiting` | limits on replies to networks, and their application to a reply |
//! | `signature` | verifies signed queries and signs their replies |
//! | [`late`] | state of queries whose answer is pending, and the queue back to their worker |
//! | `log` | the traits of query logs, which receive each whole query before its reply, and each reply; and of failure logs: SERVFAIL and invalid TSIG |
//! | `rule_note` | the rule of a policy that decides a query, as logs receive it |
//! | `zone_facts` | EXPIRE and ZONEVERSION in OPT, for queries that request them |
//! | `settings`, [`stats`] | state that all workers share, and its replacement; the counters of one worker |
//!
//! A worker is generic over the type of its memory, so its calls are static: in the program, zones first, and
//! then the cache of `recursion`. `recursion` is the source for other names, `zone-manager` for transfers,
//! NOTIFY and UPDATE. For a client that may recurse, a name that a zone delegates goes to `recursion` where a
//! rule of the resolver covers it.
//!
//! # Rules of the hot path
//!
//! From the call of [`transport::Handler::batch`] to its return, for an answer from a zone:
//!
//! - No heap allocation, no lock, no system call but reading the clock, no formatting, no `async`. A test of
//!   `authority`, `allocations`, counts the allocations of every kind of answer: none. Other answers may
//!   allocate: texts of class CH, refusals of TSIG, responders and streams; late answers come through a queue
//!   with a lock. Counting per zone, off by default, adds to a counter that workers share. So does signing:
//!   an answer of a zone that is signed while answering allocates, takes short locks, and reads the clock.
//! - The batch moves together. A dependent read in a large zone costs a hundred nanoseconds and more; those
//!   of a batch overlap. Passes prefetch and do not read ahead: a read that waits fills the processor's
//!   reorder window behind it. The test `prefetch` of `authority` counts the cache lines that an answer waits
//!   for.
//! - Most of the cost is in the kernel. System calls move many packets each; a change must not lower how
//!   many.
//! - The question is at offset 12 of every message, so an exact answer is compiled when the zone is built.
//!   Answering is a lookup, a copy and a patch.
//! - Names stay in wire form; one pass lower-cases a name and hashes its suffixes. Hashes are keyed with a
//!   secret, one for all zones. It is generated at the start, or stored in the state directory, since a zone
//!   image is valid for its own key only.
//! - Each worker has its own counters; reports sum them.
//! - The clock is read twice for a batch, never for a query, and by `transport` alone: this crate never reads
//!   one, nor do `wire`, `dnssec`, `validator`, `zone`, `authority`, `cache`, `resolver`, `transfer` and
//!   `update`.
#![forbid(unsafe_code)]

pub mod access;
mod asked;
mod chaos;
mod client_groups;
mod gate;
mod group_limits;
pub mod late;
mod limiting;
mod log;
pub mod memory;
mod noting;
pub mod pipeline;
pub mod prefix;
mod query_access;
mod refusal;
mod reply_limits;
pub mod request;
mod rotation;
mod route;
mod rule_note;
mod settings;
mod signature;
pub mod source;
pub mod stats;
mod tail;
mod views;
mod zone_facts;
mod zones;

pub use asked::{Asked, QueryFacts};
pub use chaos::Identity;
pub use client_groups::{
    ClientId, ClientIds, GroupClient, GroupMatcher, GroupPart, GroupRule, TrustedForwarders,
};
pub use group_limits::{GroupLimit, GroupLimits};
pub use late::{Responder, WorkerState};
pub use log::{FailureLog, LoggedQuery, LoggedReply, QueryLog, Role, RuleLog};
pub use memory::{Both, Either, LookupKey, Memory, MemoryResult};
pub use pipeline::{BATCH, Worker};
pub use query_access::{QueryAccess, QueryAction, QueryRule, QueryTraits, ZoneAccess};
pub use refusal::{Answered, Refusal};
pub use reply_limits::{LimitAction, LimitLog, LimitedReplies, ReplyKind, ReplyLimits};
pub use rule_note::{RuleAction, RuleNote, RuleTrigger, SourceKind, SourceName};
pub use settings::{Engine, EngineConfig};
pub use source::{Operation, Promise, Responders, Source, SourceReply, Sources};
pub use stats::QueryStats;
pub use views::{ViewClients, ViewNumber, ViewRule, Views};
pub use zone_facts::ZoneFacts;
pub use zones::{HasZones, WrongCatalogKey, Zones, ZonesConfig};
