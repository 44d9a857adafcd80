//! Authoritative answers: a zone snapshot and a question make an answer (RFC 1034 §4.3.2 with RFC 2308,
//! 4035, 4592, 5155, 6672, 8482 and 9471).
//!
//! What lives here: what the sections of an answer hold. What does not: how the message is framed (`engine`),
//! how records are kept (`zone`).
//!
//! | module | does |
//! |---|---|
//! | `aim` | finds the zone that is asked, and prefetches what a batch of answers will read |
//! | `ask`, `here` | what is asked; the name that is being answered |
//! | `answer` | answers the name asked for, and then the names that CNAME and DNAME lead to |
//! | `respond` | turns what a name is into sections |
//! | [`lookup`] | finds which zone answers, and what the name is in it: a node, a wildcard, a cut, a DNAME, nothing |
//! | `denial` | picks the NSEC or NSEC3 records that prove it |
//! | `search` | searches for such a record before it is known to be needed |
//! | `memo` | keeps the NSEC3 hashes that many answers share |
//! | `reply` | copies compiled RRsets into the message and moves their pointers |
//! | [`audit`] | checks that a signed zone can prove what it will have to |
//! | [`explain`] | says to a person why |
//!
//! An answer is written into a message builder: nothing here reads a query or has a socket.
#![forbid(unsafe_code)]

mod aim;
mod answer;
mod ask;
pub mod audit;
mod denial;
pub mod explain;
mod here;
pub mod lookup;
mod memo;
mod reply;
mod respond;
mod search;

pub use aim::{Aim, PASSES};
pub use answer::{Scratch, Unanswered, answer};
pub use ask::Ask;
pub use memo::{HashingLimit, is_costly};
