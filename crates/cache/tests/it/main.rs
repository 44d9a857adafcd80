//! The cache through its public interface.
//!
//! | module | does |
//! |---|---|
//! | `answers` | which responses can be cached, and that they mean the same behind every question |
//! | `rules` | the RFCs' rules on ranks, denials, failures, stale answers, TTLs |
//! | `model` | random inserts, lookups, flushes and time against a map that never evicts |
//! | `threads` | concurrent readers and writers; every copy is checked |
//! | `files` | saving and loading, also damaged files |
//! | `policy` | hit rates against FIFO and SIEVE |
//! | `support` | makes responses and looks them up |

mod answers;
mod files;
mod model;
mod policy;
mod rules;
mod support;
mod threads;
