//! Recursive service: answers queries for names outside the zones served here.
//!
//! In this crate: access control, local names, reads and writes of the cache, serving stale answers, and the
//! state of clients that wait for a lookup. Elsewhere: the cache itself (`cache`), lookups at other servers
//! (`resolver`), sockets (`net`), the query path (`engine`), configuration files (`config`).
//!
//! | module | does |
//! |---|---|
//! | `service` | [`Service`]: cache, policy, and the connection to the resolver |
//! | `cached` | cache hits on the query path |
//! | `front` | the source that answers cache misses |
//! | `query_state` | the state of one client's query until its reply |
//! | `completion` | passes lookup outcomes to the cache and the waiting clients |
//! | `policy` | the operator's settings, compiled |
//! | `prefix` | tables of address prefixes |
//! | `access` | access control |
//! | `local` | special-use names and local data |
//! | `validation` | validates answers before clients get them |
//! | `reports` | error reports to agents (RFC 9567) |
//! | `sentinel` | root key trust anchor sentinel (RFC 8509) |
//! | `private` | filters private addresses from upstream answers |
//! | `dns64` | synthesizes AAAA records from A records (RFC 6147) |
//! | `cache_views` | finds the rule that covers a name |
//! | `message` | replies to clients |
//! | `inspect` | state of one query, for operators |
//! | `failures` | causes of SERVFAIL |
//! | `stalled` | stale answers served because upstreams failed |
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
pub use private::{PrivateAddresses, PrivateConfig};
pub use reports::Unreported;
pub use service::{FailureReport, LastResortReport, Lookups, Service};
pub use stats::{RecursionStats, ReportStats, SharedCount, ValidationStats};
pub use validation::{Validations, Verdict};
