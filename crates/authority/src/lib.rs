//! Authoritative answers: builds an answer from a zone snapshot and a question (RFC 1034 §4.3.2 with RFC
//! 2308, 4035, 4470, 4592, 5155, 6672, 8482, 9471 and 9824).
//!
//! This crate fills the sections of an answer. Not here: the frame of the message (`query-path`), the storage
//! of records (`zone`).
//!
//! | module | does |
//! |---|---|
//! | `locate` | finds the zone that answers, and prefetches what a batch of answers will read |
//! | `ask`, `here` | the input of an answer; the name that is being answered |
//! | `answer` | answers QNAME, and then the names that CNAME and DNAME lead to |
//! | `chain`, `unanswered` | what a step of a chain leads to; why there is no answer |
//! | `respond` | writes the sections for the result of a lookup |
//! | [`lookup`] | finds the zone that answers, and what the name is in it: a node, a wildcard, a cut, a DNAME, nothing |
//! | `live` | answers of zones that are signed while answering |
//! | `denial` | selects the NSEC or NSEC3 records that prove it |
//! | `search` | searches for such a record before the answer needs it |
//! | `memo` | caches the NSEC3 hashes that many answers share |
//! | `reply` | copies compiled RRsets into the message and adjusts their pointers |
//! | [`audit`] | checks that a signed zone can prove its answers |
//! | [`explain`] | explains an answer step by step |
//!
//! Answers are written into a message builder: this crate parses no queries and has no sockets.
#![forbid(unsafe_code)]

mod answer;
mod ask;
pub mod audit;
mod chain;
mod denial;
pub mod explain;
mod here;
mod live;
mod locate;
pub mod lookup;
mod memo;
mod reply;
mod respond;
mod search;
mod unanswered;

pub use answer::{Scratch, answer};
pub use ask::Ask;
pub use locate::{AnswerLocation, PASSES};
pub use memo::{HashingLimit, is_costly};
pub use unanswered::Unanswered;
