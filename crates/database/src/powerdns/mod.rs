//! The tables of PowerDNS's gpgsql backend: read, never written.
//!
//! | module | holds |
//! |---|---|
//! | `content` | the content of a row, as RDATA |
//! | `zone_rows` | the rows of a domain, as a zone |
//! | `statements` | SQL, and the rows that come back |
//! | `known` | the domains as this node knows them |
//! | `tables` | listing domains, and reading their rows |
//! | `follow` | following the tables over a connection |
//! | `worker` | what the thread `database` runs: one connection after the other |
//! | `reader` | [`PowerDnsReader`]: the tables for an operator's commands |
//!
//! The tables have no record of what changed. Every `poll`, all SOA rows are listed: a domain whose serial is
//! another one is read whole, and so is one that has new rows. Changes of a domain that neither raise its
//! serial nor insert rows are found by the sums of all rows, every ten minutes and after each connection.

mod content;
mod follow;
mod known;
mod reader;
mod statements;
mod tables;
mod worker;
mod zone_rows;

pub use reader::PowerDnsReader;
pub(crate) use worker::work;

/// Why changes are refused.
pub(crate) const READ_ONLY: &str = "the database has PowerDNS's schema: it is read only here";
/// Why there is neither a history nor a table of nodes.
pub(crate) const NO_HISTORY: &str =
    "the database has PowerDNS's schema, which has no history and no table of nodes";
