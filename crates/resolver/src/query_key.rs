//! What is asked for, who waits, and the outcome.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::{Class, LowerNameBuf, Name, Type};

use crate::budget::{Budget, Overspent};
use crate::config::ForwardConfig;
use crate::scrub::{Answer, ReplyFault};
use crate::trace::Trace;

/// A question, with the two bits that make the answer another one. Those that are equal share one lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKey {
    /// QNAME.
    pub name: LowerNameBuf,
    /// QTYPE.
    pub qtype: Type,
    /// QCLASS.
    pub qclass: Class,
    /// DO: DNSSEC records are wanted (RFC 3225).
    pub dnssec_ok: bool,
    /// CD: unvalidated data is wanted, too (RFC 4035 §3.2.2).
    pub checking_disabled: bool,
}

impl Hash for QueryKey {
    /// The name in one piece, for speed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name.as_lower().as_wire());
        let bits = u8::from(self.dnssec_ok) | u8::from(self.checking_disabled) << 1;
        state.write_u64(u64::from(self.qtype.0) << 24 | u64::from(self.qclass.0) << 8 | u64::from(bits));
    }
}

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

/// Who has given an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// The server at this address.
    Server(SocketAddr),
    /// The [copy](crate::LocalCopy) of the zone on this machine.
    Copy,
}

impl AnsweredBy {
    /// The server's address, if it was one.
    pub fn server(self) -> Option<SocketAddr> {
        match self {
            AnsweredBy::Server(address) => Some(address),
            AnsweredBy::Copy => None,
        }
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
    /// no other lookup is joined. Where there are none it fails with [`LookupFailure::NoOtherServer`].
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
    /// besides may be asked. Where no rule covers them they fail with [`LookupFailure::NoRule`]. Clients keep
    /// their deadlines.
    Configure(Box<ForwardConfig>),
}

/// The agent that the servers of a zone name for reports of what cannot be resolved or validated there
/// (RFC 9567). It is not validated: OPT is not signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAgent {
    /// The agent domain; never the root.
    pub domain: LowerNameBuf,
    /// The zone whose servers say so.
    pub zone: LowerNameBuf,
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

/// What came of a client's request.
#[derive(Clone, Debug)]
pub enum LookupOutcome {
    /// An upstream server has answered.
    Answered(Arc<Answer>),
    /// There is no answer.
    Failed(LookupFailure),
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupFailure {
    /// The client did not ask for recursion.
    NoRecursion,
    /// No rule covers the name, or the one that does has no servers.
    NoRule,
    /// A limit was reached.
    Shed(ShedReason),
    /// The client's time was over.
    TimedOut,
    /// All tries are spent, and no server replied.
    NoReply,
    /// No server of a zone on the way could be reached.
    Network(NetworkFault),
    /// All tries are spent, and no reply could be used; why the last could not.
    BadReply(ReplyFault),
    /// A zone on the way has no server whose address can be found.
    NoServers,
    /// The client's query has cost enough.
    Overspent(Overspent),
    /// No other server than the one that is [not wanted](LookupRequest::other_than) has an answer.
    NoOtherServer,
}

/// Why no server of a zone could be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// Nothing listens at any of their ports: all connections are refused.
    Refused,
    /// There is no route to one of them, or a link failed in another way.
    Unreachable,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// Too many clients of its prefix wait.
    ClientPrefix,
    /// Too many clients wait for the lookup.
    Clients,
    /// Too many lookups by the rule.
    Rule,
    /// Too many lookups in all.
    Lookups,
    /// Too many lookups at the servers of one zone.
    Zone,
    /// Too many requests wait to be looked at. The owner of that queue counts them.
    Queue,
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
