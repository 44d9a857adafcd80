//! Threads for work that no query waits for, and locks that ignore poisoning.
//!
//! | module | what it has |
//! |---|---|
//! | [`background`] | a bounded number of threads that run queued jobs |
//! | [`kept_threads`] | threads for tasks that wait, reused for the next task |
//! | [`scheduling`] | threads that get what no other thread wants; short slices of CPU time for threads that clients wait for |
//! | [`spare`] | work at low priority, for which its caller waits |
//! | [`starter`] | starting threads from threads that are confined |
//! | [`sync`] | locking after a holder has panicked |

pub mod background;
pub mod kept_threads;
pub mod scheduling;
pub mod spare;
pub mod starter;
pub mod sync;
