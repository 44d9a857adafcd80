//! Recursive service as a whole: queries enter a worker of an engine, and replies leave it. Without sockets,
//! threads (but in `threads`) and clock: lookups are recorded, and a test supplies their outcomes and times.

mod access;
mod answers;
mod blocking;
mod cases;
mod chains;
mod denied;
mod failures;
mod joined;
mod orders;
mod partitions;
mod peers;
mod policy_zones;
mod reports;
mod second;
mod simulation;
mod stale;
mod support;
mod synthesis;
mod threads;
mod validation;
mod withheld;
