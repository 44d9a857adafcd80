//! The cache as its users see it.
//!
//! | module | does |
//! |---|---|
//! | `answers` | which responses can be kept, and that they mean the same behind every question |
//! | `rules` | what the RFCs say about ranks, denials, failures, stale answers, TTLs |
//! | `model` | random inserts, lookups, flushes and time against a map that forgets nothing |
//! | `threads` | readers and writers at once; every copy is checked |
//! | `files` | saving and loading, damaged files included |
//! | `policy` | hit rates against FIFO and SIEVE |
//! | `support` | makes responses and asks for them |

mod answers;
mod files;
mod model;
mod policy;
mod rules;
mod support;
mod threads;
