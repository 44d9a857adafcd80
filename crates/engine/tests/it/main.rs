//! The query path from outside: batches in, outcomes out.

mod gate;
mod late;
mod sources;
mod support;
