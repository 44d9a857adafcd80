//! What a resolver takes: requests of clients and settings. Where it puts the outcomes.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use wire::Name;

use crate::budget::Budget;
use crate::config::ForwardConfig;
use crate::outcome::LookupOutcome;
use crate::query_key::{AnsweredBy, QueryKey};
use crate::trace::Trace;

/// The network that a client is in, as far as limits go: IPv4 /24, IPv6 /56.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientPrefix(u64);

impl ClientPrefix {
    /// The prefix of an address; IPv4 mapped into IPv6 is IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // No IPv6 prefix has its lowest eight bits set.
            IpAddr::V4(v4) => ClientPrefix(u64::from(v4.to_bits() >> 8) << 8 | 0xff),
            IpAddr::V6(v6) => ClientPrefix((v6.to_bits() >> 64) as u64 & !0xff),
        }
    }

    /// A number that no other prefix has.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// A client's request.
#[derive(Debug)]
pub struct LookupRequest<W> {
    /// What it asks.
    pub query_key: QueryKey,
    /// RD: whether it wants others to be asked at all (RFC 1035 §4.1.1).
    pub recursion_desired: bool,
    /// Where it is.
    pub client: ClientPrefix,
    /// How long it waits, [`ForwardTiming::client`](crate::ForwardTiming::client) at most, or
    /// [`BudgetLimits::time`](crate::BudgetLimits::time) where names are resolved step by step; `None`: as
    /// long as that.
    pub patience: Option<Duration>,
    /// What the client's query has spent, if others were asked for it before: for the beginning of a chain,
    /// say.
    pub budget: Option<Budget>,
    /// Who has answered already, with what is of no use to who asks: others of the same zone are asked, and
    /// no other lookup is joined. Where there are none it fails with
    /// [`NoOtherServer`](crate::LookupFailure::NoOtherServer).
    pub other_than: Option<AnsweredBy>,
    /// Where what is done about it is noted, if a person asks.
    pub trace: Option<Trace>,
    /// The client itself, handed back with the outcome.
    pub waiter: W,
}

/// What the resolver is asked for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "all but a few are lookups")]
pub enum ResolverRequest<W> {
    /// A client asks.
    Lookup(LookupRequest<W>),
    /// Other settings are in force from now on, all at once. Servers that are in the old ones and the new
    /// keep what is known of them, their connections and their counters. Lookups in flight go on under the
    /// rule that covers them now: queries to servers that it does not have are dropped, servers that it has
    /// besides may be asked. Where no rule covers them they fail with
    /// [`NoRule`](crate::LookupFailure::NoRule). Clients keep their deadlines.
    Configure(Box<ForwardConfig>),
}

/// Where outcomes go.
pub trait LookupSink: Send + 'static {
    /// A client that waits.
    type Waiter: Send + 'static;

    /// A lookup has ended `now`: called once for each that has started, before its clients are settled.
    /// Lookups of servers' addresses have no clients; of these, none is reported that is no longer needed.
    /// Nor is one that found no [other server](LookupRequest::other_than): the question was answered before;
    /// nor one whose clients' time was over before any server had been silent: that is no failure of the
    /// servers.
    fn ended(&mut self, query_key: &QueryKey, outcome: &LookupOutcome, now: Instant);

    /// A lookup takes an answer of `server` that is not authoritative, since no server of `zone` is of use
    /// otherwise. Called before [`ended`](Self::ended).
    fn took_recursive(&mut self, _zone: Name<'_>, _server: SocketAddr, _inquiry: &QueryKey) {}

    /// A client's wait is over `now`: called once for each. That may be later than its lookup has ended, and
    /// others may have ended in between.
    fn settle(&mut self, waiter: Self::Waiter, outcome: LookupOutcome, now: Instant);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_24_bits_of_ipv4_and_56_of_ipv6() {
        let of = |text: &str| ClientPrefix::of(text.parse().expect("an address"));
        assert_eq!(of("192.0.2.1"), of("192.0.2.255"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.7"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:0:100::1"), of("2001:db8:0:1ff:ffff::"));
        assert_ne!(of("2001:db8:0:100::1"), of("2001:db8:0:200::1"));
        assert_ne!(of("::"), of("0.0.0.0"));
    }
}
