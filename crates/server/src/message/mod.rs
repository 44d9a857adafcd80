//! DNS messages for people: a query made from what somebody asked for, a message printed. `nomen query` shows what came
//! over the network with it, `nomen ctl explain` what the query path made.

pub mod compose;
mod lines;
pub mod print;
pub mod style;
pub mod yaml;

pub use compose::{QuerySpec, QueryTooLong};
pub use style::Style;
