//! DNS messages as text: builds queries and prints messages. `nomen query` prints received messages with it,
//! `nomen ctl explain` the messages of the query path.

#![forbid(unsafe_code)]

pub mod compose;
mod decoded;
mod lines;
pub mod print;
pub mod style;
pub mod yaml;

pub use compose::{EdnsOption, QuerySpec, QueryTooLong};
pub use style::Style;
