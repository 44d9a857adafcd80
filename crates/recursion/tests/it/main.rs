//! Recursive service as a whole: queries go in at a worker of an engine, and replies come out. There are no
//! sockets, no threads (but in `threads`) and no clock: lookups are noted instead of made, and a test says
//! what came of each, and when.

mod access;
mod answers;
mod cases;
mod chains;
mod denied;
mod failures;
mod joined;
mod orders;
mod peers;
mod reports;
mod second;
mod simulation;
mod stale;
mod support;
mod synthesis;
mod threads;
mod validation;
mod withheld;
