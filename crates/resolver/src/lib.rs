//! Answers from other servers.
//!
//! What lives here: the [`Resolver`], a state machine that resolves questions by asking upstream servers:
//! those that a rule names, or those of one zone after the other, from the root down. It has no sockets, no
//! clock and no threads: `net` drives it through [`exchange::Core`], tests drive it on virtual time. What
//! does not: keeping answers, and answering clients, who wait behind an [`LookupSink`].
//!
//! | module | holds |
//! |---|---|
//! | `config` | what an operator sets: rules, servers, bounds, times |
//! | `hints` | the root servers |
//! | `rules` | the rules, ready to be looked up |
//! | `copy` | copies of zones on this machine, asked in place of their servers |
//! | `budget` | what one client's query may cost |
//! | `query_key` | what is asked |
//! | `request`, `outcome` | what clients request, and the outcome |
//! | `scrub` | what is kept of a reply |
//! | `query` | the queries that are sent, and whether a message belongs to one |
//! | `server` | what is known of an upstream server: health, cookies, what it cannot do; `rtt`: how fast it is; `servers`: all |
//! | `delegations` | what is known of zone cuts and their servers' addresses, `bounded` in bytes |
//! | `select` | which server is asked next |
//! | `limits` | who may wait and which lookups may start |
//! | `resolver` | the lookups in flight, their tries, the connections |
//! | `random`, `stats` | random numbers; counters |
//! | `extended` | extended errors of replies, for traces |
//! | `trace` | what was done about a request, for a person |
#![forbid(unsafe_code)]

mod bounded;
mod budget;
mod config;
mod copy;
mod delegations;
mod extended;
mod hints;
mod limits;
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
mod servers;
mod stats;
mod trace;

pub use budget::{Budget, Overspent};
pub use config::{
    BudgetLimits, ForwardConfig, ForwardLimits, ForwardRule, ForwardTiming, IterateConfig, IterateRule,
    Minimisation, Reach, StartServer, Upstream,
};
pub use copy::{LocalCopy, OwnZones, ServedZones, ZoneCopy};
pub use extended::UpstreamError;
pub use outcome::{LookupFailure, LookupOutcome, NetworkFault, ShedReason};
pub use query::ReplyMismatch;
pub use query_key::{AnsweredBy, QueryKey, ReportAgent};
pub use random::{ChaCha, Random};
pub use request::{ClientPrefix, LookupRequest, LookupSink, ResolverRequest};
pub use resolver::Resolver;
pub use scrub::{Answer, Referral, ReferralProof, ReferralScope, ReplyFault, Scope};
pub use scrub::{priming, referral, referral_proof, scrub};
pub use stats::{ForwardStats, RTT_BUCKETS, Suspects, UpstreamStats};
pub use trace::{CookieSent, Trace, TraceEvent, TraceStep, TraceVerdict, TryChange};
