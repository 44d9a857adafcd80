//! DNS messages as text: builds queries and prints messages. `nomen query` prints received messages with it,
//! `nomen ctl explain` the messages of the query path.

pub mod compose;
mod lines;
pub mod print;
pub mod style;
pub mod yaml;

pub use compose::{QuerySpec, QueryTooLong};
pub use style::Style;
