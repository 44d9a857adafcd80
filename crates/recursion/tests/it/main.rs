//! Recursive service as a whole: queries go in at a worker of an engine, and replies come out. There are no sockets, no
//! threads and no clock: lookups are noted instead of made, and a test says what came of each, and when.

mod access;
mod answers;
mod chains;
mod failures;
mod orders;
mod simulation;
mod stale;
mod support;
mod synthesis;
mod validation;
mod withheld;
