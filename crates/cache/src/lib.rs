//! The cache of a resolver or forwarder for answers of other servers.
//!
//! In this crate: responses in wire form with the positions of their TTLs, so that a hit is find, copy, age;
//! the rules of replacement (RFC 2181 §5.4.1), lifetimes (RFC 2308, RFC 8767, RFC 9520), and eviction.
//! Elsewhere: the source of answers and their scrubbing (`resolver`), ID, question, flags and OPT of a reply
//! (`query-path`), the time (the caller).
//!
//! | module | does |
//! |---|---|
//! | `config`, `sizes` | the operator's settings, and the division of the bytes |
//! | `answer` | prepares a response for the cache: one [`Answer`] |
//! | `pointers` | checks whether its compression pointers stay valid |
//! | `key`, `credibility` | the key of an answer, and its credibility |
//! | `cache` | [`Cache`]: shards, and the public functions |
//! | `lookup` | finds and copies, without a lock |
//! | `shard` | inserts and evicts, under the shard's mutex: S3-FIFO |
//! | `index` | a slot of eight bytes for each entry, in buckets of a cache line |
//! | `log` | rings of lines that hold the entries, and the proof that readers need no lock |
//! | `entry`, `flags` | the words of an entry, and its flag bits |
//! | `ghost` | fingerprints of entries evicted unread |
//! | `held` | copies of single entries |
//! | `message` | messages built from entries |
//! | `file` | the cache in a file |
//! | `atomic`, `lines` | memory that threads share |
//! | `clock`, `stats` | seconds, and counters |
//!
//! All memory is reserved at the start, so that one bound holds for everything. The caller decides what is
//! cached, for which clients and for how long, within the configured bounds. This crate sends no query and
//! reads no clock.
#![forbid(unsafe_code)]

mod answer;
mod atomic;
mod cache;
mod clock;
mod config;
mod credibility;
mod entry;
mod file;
mod flags;
mod ghost;
mod held;
mod index;
mod key;
mod lines;
mod log;
mod lookup;
mod message;
mod pointers;
mod shard;
mod sizes;
mod stats;

pub use answer::{Answer, AnswerKind, Terms, Unfit};
pub use cache::{Cache, Flush};
pub use clock::Now;
pub use config::{CacheConfig, ConfigFault, Lifetime};
pub use credibility::Credibility;
pub use file::{LoadFault, Restored};
pub use held::Held;
pub use key::Key;
pub use lookup::{Freshness, Hit, Lead, Lookup};
pub use message::message;
pub use shard::Refused;
pub use stats::CacheStats;
