//! Recursive service: what becomes of a question that no zone here answers.
//!
//! What lives here: who may ask, which names are answered on the spot, what is taken from the cache and what
//! is kept in it, when an answer that is too old is better than none, and the client that waits meanwhile.
//! What does not: the cache itself (`cache`), asking other servers (`resolver`), sockets (`net`), the query
//! path (`engine`), configuration files (`config`).
//!
//! | module | does |
//! |---|---|
//! | `service` | [`Service`]: cache, policy, and the way to other servers |
//! | `cached` | the cache as data in memory: hits, on the query path |
//! | `front` | the source for what memory does not answer |
//! | `query_state` | one client's question, step by step to its answer |
//! | `completion` | takes outcomes of lookups into the cache and to the clients who wait |
//! | `policy` | what an operator decides, made ready to be asked |
//! | `prefix` | networks: an address and a length |
//! | `access` | says who may ask |
//! | `local` | answers special-use names and local data |
//! | `validation` | has answers validated before anybody gets them |
//! | `reports` | tells who is named for that what cannot be resolved or validated (RFC 9567) |
//! | `sentinel` | tells clients whether a key is a trust anchor (RFC 8509) |
//! | `private` | keeps private addresses out of answers from outside |
//! | `dns64` | makes AAAA records of A records |
//! | `cache_views` | says which rule covers a name |
//! | `message` | answers on their way to a client |
//! | `inspect` | says to a person what is known |
//! | `failures` | why clients get SERVFAIL |
//! | `stalled` | which expired answers were served because servers failed |
//! | `stats` | counters |
#![forbid(unsafe_code)]

mod access;
mod cache_views;
mod cached;
mod completion;
mod dns64;
mod failures;
mod front;
mod inspect;
mod local;
mod message;
mod policy;
mod prefix;
mod private;
mod query_state;
mod reports;
mod sentinel;
mod service;
mod stalled;
mod stats;
mod validation;

pub use access::{Access, AccessAction, AccessRule, TooManyRules};
pub use cache_views::Domain;
pub use cached::Cached;
pub use completion::{LookupCompletion, Waiter};
pub use dns64::{Dns64, Dns64Config, Dns64Fault, Dns64Made};
pub use failures::{FailureCause, FailureCounts};
pub use inspect::{CachedAnswer, Inspection};
pub use local::{
    Below, LocalAnswer, LocalConfig, LocalNames, LocalRecord, LocalRecordFault, SpecialName, SpecialOff,
};
pub use policy::{PolicyConfig, PolicyFault, ReportLimits, ValidationConfig};
pub use prefix::{Prefix, PrefixFault};
pub use private::{PrivateAddresses, PrivateConfig};
pub use reports::Unreported;
pub use service::{FailureReport, LastResortReport, Lookups, Service};
pub use stats::{RecursionStats, ReportStats, SharedCount, ValidationStats};
pub use validation::{Validations, Verdict};
