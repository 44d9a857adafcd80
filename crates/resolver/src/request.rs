//! The resolver's input, requests of clients and settings, and the sink for outcomes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use wire::Name;

use crate::budget::Budget;
use crate::config::ForwardConfig;
use crate::opportunistic::ServerEncryption;
use crate::outcome::LookupOutcome;
use crate::query_key::{AnsweredBy, QueryKey};
use crate::trace::Trace;

/// The client's network for limits: IPv4 /24, IPv6 /56.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientPrefix(u64);

impl ClientPrefix {
    /// Returns the prefix for requests that no client has sent.
    pub fn none() -> Self {
        Self::of(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    /// Returns the prefix of an address; IPv4-mapped IPv6 counts as IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            // No IPv6 prefix has its lowest eight bits set.
            IpAddr::V4(v4) => ClientPrefix(u64::from(v4.to_bits() >> 8) << 8 | 0xff),
            IpAddr::V6(v6) => ClientPrefix((v6.to_bits() >> 64) as u64 & !0xff),
        }
    }

    /// Returns a number that is unique to the prefix.
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// A client's request.
#[derive(Debug)]
pub struct LookupRequest<W> {
    /// The query.
    pub query_key: QueryKey,
    /// RD: whether other servers may be queried at all (RFC 1035 §4.1.1).
    pub recursion_desired: bool,
    /// The client's network.
    pub client: ClientPrefix,
    /// How long the client waits; at most, and if `None`,
    /// [`ForwardTiming::client`](crate::ForwardTiming::client), or with iteration
    /// [`BudgetLimits::time`](crate::BudgetLimits::time).
    pub patience: Option<Duration>,
    /// The counters of the client's query, if this is not its first request, for example after the first part
    /// of a chain.
    pub budget: Option<Budget>,
    /// The source of an earlier answer that was useless to the caller: other servers of the zone are queried,
    /// and no other lookup is joined. Without another server the request fails with
    /// [`NoOtherServer`](crate::LookupFailure::NoOtherServer).
    pub other_than: Option<AnsweredBy>,
    /// The log for the steps of the request, if an operator wants it.
    pub trace: Option<Trace>,
    /// The client, returned with the outcome.
    pub waiter: W,
}

impl<W> LookupRequest<W> {
    /// Returns a request that may query other servers, with the usual time and a budget of its own.
    pub fn new(query_key: QueryKey, client: ClientPrefix, waiter: W) -> Self {
        LookupRequest {
            query_key,
            recursion_desired: true,
            client,
            patience: None,
            budget: None,
            other_than: None,
            trace: None,
            waiter,
        }
    }
}

/// Input of the resolver.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "all but a few are lookups")]
pub enum ResolverRequest<W> {
    /// A client's request.
    Lookup(LookupRequest<W>),
    /// Replaces the settings at once. Servers in both the old and the new settings keep their state,
    /// connections and counters. Lookups in flight continue under the rule that covers them now: queries to
    /// servers that it lacks are dropped, its additional servers may be queried. Lookups that no rule covers
    /// fail with [`NoRule`](crate::LookupFailure::NoRule). The rules of partitions that are gone stay for
    /// lookups of these until the next change. Clients keep their deadlines.
    Configure(Box<ForwardConfig>),
    /// Sends the state of the encrypted transports of authoritative servers, of those that were probed.
    Encryption(Sender<Vec<ServerEncryption>>),
}

/// Receives the outcomes.
pub trait LookupSink: Send + 'static {
    /// A waiting client.
    type Waiter: Send + 'static;

    /// A lookup ended at `now`: called once per lookup, before its clients are settled. Lookups of server
    /// addresses have no clients, and are not reported if no longer needed. Not reported either: a lookup
    /// that found no [other server](LookupRequest::other_than), since the query was answered before; and a
    /// lookup whose clients' deadlines passed before any server had been silent, since that is no failure of
    /// the servers.
    fn ended(&mut self, query_key: &QueryKey, outcome: &LookupOutcome, now: Instant);

    /// A lookup accepts an answer of `server` that is not authoritative, since every other server of `zone`
    /// is useless. Called before [`ended`](Self::ended).
    fn took_recursive(&mut self, _zone: Name<'_>, _server: SocketAddr, _inquiry: &QueryKey) {}

    /// A client's wait ended at `now`: called once per client. Its lookup may have ended earlier, and others
    /// in between.
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
