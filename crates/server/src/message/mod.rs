//! DNS messages for people: builds queries from what a user asks for, and prints messages. `nomen query`
//! shows what came over the network with it, `nomen ctl explain` what the query path made.

pub mod compose;
mod lines;
pub mod print;
pub mod style;
pub mod yaml;

pub use compose::{QuerySpec, QueryTooLong};
pub use style::Style;
