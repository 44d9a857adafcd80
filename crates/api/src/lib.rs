//! The HTTP API of a running server, and its web page.
//!
//! | module | does |
//! |---|---|
//! | [`listener`], `answer`, `body` | accepts connections; answers requests; bodies of responses |
//! | `limits`, `path` | limits of each client address; paths and query strings |
//! | `audit` | lines in the log and the audit file |
//! | [`documents`] | comments, disabled records and metadata of zones, on disk |
//! | [`parts`] | the parts of the server that requests reach |
//! | [`request`], [`reply`] | a request as handlers read it; replies and faults |
//! | [`rights`] | what the token of a request may do |
//! | `native` | `/api/nomen/v1`: the API of nomen |
//! | `powerdns` | `/api/v1`: the API of PowerDNS |
//! | `page` | `/`: the web page |
#![forbid(unsafe_code)]
// `println!` panics when the reader has closed the pipe or the disk is full.
#![deny(clippy::print_stdout)]

mod answer;
mod audit;
mod body;
pub mod documents;
mod limits;
pub mod listener;
mod native;
mod page;
pub mod parts;
mod path;
mod powerdns;
pub mod reply;
pub mod request;
pub mod rights;
