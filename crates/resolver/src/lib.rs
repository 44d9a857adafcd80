//! Lookups at other servers: forwarding and iteration.
//!
//! The [`Resolver`] is a state machine that answers queries by sending queries to upstream servers: to those
//! of a forwarding rule, or to the servers of one zone after the other, from the root down. It has no
//! sockets, no clock and no threads: `net` drives it through [`transport::Core`], tests drive it on virtual
//! time. The cache and the clients are elsewhere, behind a [`LookupSink`].
//!
//! | module | holds |
//! |---|---|
//! | `config` | the operator's settings: rules, servers, limits, times |
//! | `hints` | the root servers |
//! | `rules` | the rules, compiled |
//! | `copy` | local copies of zones, used instead of the zones' servers |
//! | `budget` | the limits of one client's query |
//! | `query_key` | the key of a lookup |
//! | `request`, `outcome` | clients' requests and their outcomes |
//! | `scrub` | the records that are kept of a reply |
//! | `query` | queries to upstreams, and the matching of replies |
//! | `server`, `rtt` | state of an upstream server: health, cookies, missing abilities, round-trip time |
//! | `servers`, `server_id` | all upstream servers, and their numbers |
//! | `opportunistic` | encrypted transports that authoritative servers offer (RFC 9539) |
//! | `delegations` | cached zone cuts and server addresses, `bounded` in bytes |
//! | `select` | the choice of the next server |
//! | `limits` | limits on waiting clients and lookups in flight |
//! | `resolver` | the lookups in flight, their tries, the connections |
//! | `random`, `stats` | random numbers; counters |
//! | `extended` | extended errors of replies, for traces |
//! | `trace` | the log of one request, for display |
#![forbid(unsafe_code)]

mod bounded;
mod budget;
mod config;
mod copy;
mod delegations;
mod extended;
mod hints;
mod limits;
mod opportunistic;
mod outcome;
mod query;
mod query_key;
mod random;
mod request;
mod resolver;
mod rtt;
mod rules;
mod scrub;
mod select;
mod server;
mod server_id;
mod servers;
mod stats;
mod trace;

pub use budget::{Budget, Overspent};
pub use config::{
    BudgetLimits, ForwardConfig, ForwardLimits, ForwardRule, ForwardTiming, IterateConfig, IterateRule,
    Minimisation, Opportunistic, Reach, StartServer, Upstream, UpstreamTransport,
};
pub use copy::{LocalCopy, OwnZones, ServedZones, ZoneCopy};
pub use delegations::ZoneCuts;
pub use extended::UpstreamError;
pub use opportunistic::{ServerEncryption, TransportStatus};
pub use outcome::{LookupFailure, LookupOutcome, NetworkFault, ShedReason};
pub use query::ReplyMismatch;
pub use query_key::{AnsweredBy, Partition, QueryKey, ReportAgent};
pub use random::{ChaCha, Random};
pub use request::{ClientPrefix, LookupRequest, LookupSink, ResolverRequest};
pub use resolver::Resolver;
pub use scrub::{Border, Referral, ReferralProof, ReferralScope, ReplyFault, Scope, ScrubbedAnswer};
pub use scrub::{may_be_asked, priming, referral, referral_proof, scrub};
pub use stats::{
    ForwardStats, OpportunisticCounts, OpportunisticStats, RTT_BUCKETS, Suspects, UpstreamStats,
};
pub use trace::{CookieSent, Trace, TraceEvent, TraceStep, TraceVerdict, TryChange};
