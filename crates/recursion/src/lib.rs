//! Recursive service: answers queries for names outside the zones served here.
//!
//! In this crate: local names, reads and writes of the cache, serving stale answers, and the state of clients
//! that wait for a lookup. Elsewhere: the cache itself (`cache`), lookups at other servers (`resolver`),
//! sockets (`net`), the query path and rules about clients (`query-path`), configuration files (`config`).
//!
//! | module | does |
//! |---|---|
//! | `sync` | locks that outlive a panic |
//! | `cache_views` | finds the rule that covers a name |
//! | `local` | special-use names and local data |
//! | `private` | filters private addresses from upstream answers |
//! | `partitions` | which clients have rules of their own |
//! | `dns64` | synthesizes AAAA records from A records (RFC 6147) |
//! | `count` | counters that threads share |
//! | `groups` | groups of clients, by which rules differ |
//! | `rpz` | response policy zones: settings, orders of rules, counters |
//! | `policy_rules` | the rules of policy zones and lists; names that lists block |
//! | `rpz_orders` | the answers that rules of policy zones make |
//! | `settings` | the operator's settings, compiled |
//! | `sentinel` | root key trust anchor sentinel (RFC 8509) |
//! | `failures`, `stats` | causes of SERVFAIL; counters |
//! | `stalled`, `bogus`, `repeats`, `sent_reports` | recent queries: served stale, bogus, answered from proofs, reported |
//! | `message` | answers as messages, replies to clients |
//! | `quota` | the validation work charged to one query |
//! | `rewrite_state` | what response policy zones do to one query |
//! | `query_state` | the state of one client's query until its reply |
//! | `waiter` | what waits for the outcome of a lookup |
//! | `targets` | targets of aliases that are made here, in zones served here |
//! | `jobs` | validations as data |
//! | `service` | [`Service`]: cache, policy, and the connection to the resolver, which all modules below share |
//! | `kept` | what goes into the cache |
//! | `denied` | answers from cached proofs (RFC 8198) |
//! | `known` | answers from local state |
//! | `rewrite` | applies rules of response policy zones to a query and its answer |
//! | `steps` | the next step of a client's query |
//! | `reports` | error reports to agents (RFC 9567) |
//! | `clients` | waiting clients: their lookups, the end of their queries |
//! | `validation` | validates answers before clients get them |
//! | `completion` | passes lookup outcomes to the cache and to what waits for them |
//! | `cached` | cache hits on the query path |
//! | `source` | the source that answers cache misses |
//! | `inspect` | state of one query, for operators |
//!
//! A module uses only those above it. The modules below `service` add methods to [`Service`].
#![forbid(unsafe_code)]

mod bogus;
mod cache_views;
mod cached;
mod clients;
mod completion;
mod count;
mod denied;
mod dns64;
mod failures;
mod groups;
mod inspect;
mod jobs;
mod kept;
mod known;
mod local;
mod message;
mod partitions;
mod policy_rules;
mod private;
mod query_state;
mod quota;
mod repeats;
mod reports;
mod rewrite;
mod rewrite_state;
mod rpz;
mod rpz_orders;
mod sent_reports;
mod sentinel;
mod service;
mod settings;
mod source;
mod stalled;
mod stats;
mod steps;
mod sync;
mod targets;
mod validation;
mod waiter;

/// Name of the policy zone that safe search is shown as.
pub const SAFE_SEARCH: &str = "safe-search.";

pub use cache_views::Domain;
pub use cached::Cached;
pub use completion::LookupCompletion;
pub use count::SharedCount;
pub use dns64::{Dns64, Dns64Config, Dns64Fault, Dns64Made};
pub use failures::{FailureCause, FailureCounts};
pub use groups::{ClientGroup, ClientGroups, GroupCounts, GroupView, OtherClients};
pub use inspect::{CachedAnswer, Inspection};
pub use local::{
    Below, LocalAnswer, LocalConfig, LocalNames, LocalRecord, LocalRecordFault, SpecialName, SpecialOff,
};
pub use partitions::{PartitionedGroup, PartitionsConfig};
pub use policy_rules::{BlockAnswer, BlockList, Blocked, PolicyRules};
pub use private::{PrivateAddresses, PrivateConfig};
pub use query_path::access::{Access, AccessAction, AccessRule, TooManyRules};
pub use rpz::{PolicyZone, RewriteCounts, RewriteKind, RpzOptions, RpzOverride};
pub use service::{DelegatedServer, FailureReport, LastResortReport, Lookups, Service};
pub use settings::{PolicyConfig, PolicyFault, ReportLimits, ValidationConfig};
pub use stats::{RecursionStats, ReportStats, Unreported, ValidationStats};
pub use targets::{AliasTarget, AliasTargets, TargetAnswer};
pub use validation::Validations;
pub use waiter::{Verdict, Waiter};
