//! Threads of work that no query waits for, and locks that outlive a panic.
//!
//! | module | what it has |
//! |---|---|
//! | [`background`] | a bounded number of threads that take jobs from queues of their own |
//! | [`kept_threads`] | threads for tasks that wait, kept for the next one |
//! | [`spare`] | work at low priority, for a thread that waits for it |
//! | [`sync`] | taking a lock whose holder has panicked |
#![forbid(unsafe_code)]

pub mod background;
pub mod kept_threads;
pub mod spare;
pub mod sync;
