//! Text documents by HTTPS, and their last versions on disk. Has no policy: callers decide what is fetched,
//! when, and whether a text is good.
//!
//! | module | what it has |
//! |---|---|
//! | `client` | one request, with its redirects, limits and decompression |
//! | `exchange` | one request of another protocol over HTTPS |
//! | `oblivious` | queries by Oblivious DoH |
//! | `connection` | TCP and TLS connections |
//! | `fault` | why there is no document |
//! | `store` | last versions on disk, each with a checksum |
//!
//! Names are resolved by the caller ([`HostAddresses`]), not by the system: the system's resolver may be this
//! server. All I/O runs on the caller's tokio runtime, which needs I/O and timers.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod exchange;
mod fault;
mod oblivious;
mod store;

pub use client::{FetchRequest, Fetched, MAX_REDIRECTS, Validators, fetch};
pub use connection::{CONNECT_TIMEOUT, HostAddresses};
pub use exchange::{ExchangeOptions, exchange};
pub use fault::FetchFault;
pub use oblivious::{
    ObliviousExchangeFault, ObliviousRoute, ObliviousRouteFault, oblivious_config, oblivious_exchange,
};
pub use store::{DocumentFault, DocumentStore, StoredDocument, checksum};
