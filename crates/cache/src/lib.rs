//! Answers of other servers, kept for a while: the cache of a resolver or forwarder.
//!
//! What lives here: responses in wire form with the places of their TTLs, so that a hit is find, copy, age;
//! what may replace what (RFC 2181 §5.4.1), how long anything is kept (RFC 2308, RFC 8767, RFC 9520), and
//! what goes when the bytes run out. What does not: where answers come from and what in them belongs
//! (`resolver`), ID, question, flags and OPT of a reply (`engine`), the time (the caller's).
//!
//! | module | does |
//! |---|---|
//! | `config`, `sizes` | what an operator may choose, and how the bytes are divided |
//! | `answer` | makes a response ready to be kept: one [`Answer`] |
//! | `pointers` | says whether its compression pointers stay right |
//! | `key`, `rank` | what an answer is kept under, and how far it is to be trusted |
//! | `cache` | [`Cache`]: shards, and what its users call |
//! | `lookup` | finds and copies, without a lock |
//! | `shard` | puts in and makes room, under the shard's mutex: S3-FIFO |
//! | `index` | a slot of eight bytes for each entry, in buckets of a cache line |
//! | `log` | rings of lines in which the entries lie, and the proof that a reader needs no lock |
//! | `entry`, `flags` | the words of an entry, and what is one bit of them each |
//! | `ghost` | remembers what was dropped unread |
//! | `held` | entries shown one by one |
//! | `message` | messages made of entries |
//! | `file` | the cache in a file |
//! | `atomic`, `lines` | memory that threads share |
//! | `clock`, `stats` | seconds, and counters |
//!
//! All memory is reserved at the start, so that one bound holds for everything. The caller says what is kept,
//! for which clients and for how long, within the configured bounds: nothing here sends a query or reads a
//! clock.
#![forbid(unsafe_code)]

mod answer;
mod atomic;
mod cache;
mod clock;
mod config;
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
mod rank;
mod shard;
mod sizes;
mod stats;

pub use answer::{Answer, AnswerKind, Terms, Unfit};
pub use cache::{Cache, Flush};
pub use clock::Now;
pub use config::{Config, ConfigFault, Lifetime};
pub use file::{LoadFault, Restored};
pub use held::Held;
pub use key::Key;
pub use lookup::{Freshness, Hit, Lead, Lookup};
pub use message::message;
pub use rank::Credibility;
pub use shard::Refused;
pub use stats::Stats;
