//! The query path from outside: batches in, outcomes out.

mod gate;
mod hashing;
mod late;
mod onward;
mod reference;
mod signed;
mod sources;
mod support;
mod views;
mod world;
