//! The operator's settings: the upstream servers for each domain, limits and times.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use transport::Encryption;
use wire::NameBuf;

use crate::copy::{LocalCopy, OwnZones};
use crate::query_key::Partition;

/// How an upstream server is queried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// By UDP; by TCP after truncation or a possible forgery (RFC 1035 §4.2, RFC 7766).
    #[default]
    UdpThenTcp,
    /// By TCP only.
    Tcp,
    /// Over TLS (RFC 7858), HTTPS (RFC 8484, RFC 9230) or QUIC (RFC 9250) only: no query to it is ever sent
    /// in the clear.
    Encrypted(Encryption),
}

impl Reach {
    /// Whether all queries go over connections.
    pub(crate) fn is_stream(&self) -> bool {
        !matches!(self, Reach::UdpThenTcp)
    }

    /// Returns the encryption of connections, if they are encrypted.
    pub fn encryption(&self) -> Option<&Encryption> {
        match self {
            Reach::Encrypted(encryption) => Some(encryption),
            Reach::UdpThenTcp | Reach::Tcp => None,
        }
    }
}

/// The transport of a query to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// Datagrams (RFC 1035 §4.2.1).
    Udp,
    /// A connection in the clear (RFC 7766).
    Tcp,
    /// A connection over TLS (RFC 7858).
    Tls,
    /// A stream of a connection over HTTPS (RFC 8484).
    Https,
    /// A stream of a connection over QUIC (RFC 9250).
    Quic,
    /// A stream of a connection over HTTPS to a proxy, for a target behind it (RFC 9230).
    Oblivious,
}

impl fmt::Display for UpstreamTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpstreamTransport::Udp => "udp",
            UpstreamTransport::Tcp => "tcp",
            UpstreamTransport::Tls => "tls",
            UpstreamTransport::Https => "https",
            UpstreamTransport::Quic => "quic",
            UpstreamTransport::Oblivious => "odoh",
        })
    }
}

/// One upstream server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Its address and port.
    pub address: SocketAddr,
    /// How it is queried.
    pub reach: Reach,
}

impl Upstream {
    /// A server that is queried by UDP, then TCP.
    pub fn new(address: SocketAddr) -> Self {
        Upstream { address, reach: Reach::UdpThenTcp }
    }
}

/// Forwards the names at and below a domain. The rule with the longest domain counts, of those for the
/// lookup's partition and those for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRule {
    /// The domain; the root for all names.
    pub domain: NameBuf,
    /// The partition whose lookups it is for; [`Partition::SHARED`] for all. For one domain, a partition's
    /// own rule comes before the shared one.
    pub partition: Partition,
    /// The servers. With an empty list every lookup fails.
    pub upstreams: Vec<Upstream>,
    /// RD in the queries (RFC 1035 §4.1.1): set for recursive servers, clear for servers that are
    /// authoritative for the domain. Default: true.
    pub recursion_desired: bool,
    /// Iteration for names that the servers have no answer for. Default: none.
    pub instead: Option<IterateRule>,
}

impl ForwardRule {
    /// A rule for recursive servers.
    pub fn new(domain: NameBuf, upstreams: Vec<Upstream>) -> Self {
        let partition = Partition::SHARED;
        ForwardRule { domain, partition, upstreams, recursion_desired: true, instead: None }
    }
}

/// Limits on what clients can make the resolver store and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Most waiting clients of one client prefix (IPv4 /24, IPv6 /56). Default: 1000.
    pub clients_per_prefix: usize,
    /// Most clients of one prefix settled within 10 ms, of those that have waited longer than
    /// [`ForwardTiming::gather`]; the next ones follow in the next 10 ms, and so on, but each before its
    /// deadline. Otherwise an attacker that forges addresses of a network and has a server that replies late
    /// could gather answers for seconds and have them hit that network all at once (DNSBomb, CVE-2024-33655).
    /// 0: unlimited. Default: 32.
    pub pulse: usize,
    /// Most clients waiting for one lookup. Default: 1000.
    pub clients_per_lookup: usize,
    /// Most lookups in flight by one rule. Default: 10,000.
    pub lookups_per_rule: usize,
    /// Most lookups in flight in total. Default: 20,000.
    pub lookups: usize,
    /// Most tries of one lookup of any kind: other servers, retransmissions, TCP, downgrades, probes. Never
    /// reset. Default: 8.
    pub tries: u8,
    /// Most TCP connections to one server. Default: 4.
    pub connections: usize,
    /// Most queries in flight on one connection. Default: 100.
    pub pipeline: usize,
    /// Most records of one RRset; a reply with more is rejected. Default: 256.
    pub records_per_set: usize,
}

impl Default for ForwardLimits {
    fn default() -> Self {
        ForwardLimits {
            clients_per_prefix: 1000,
            pulse: 32,
            clients_per_lookup: 1000,
            lookups_per_rule: 10_000,
            lookups: 20_000,
            tries: 8,
            connections: 4,
            pipeline: 100,
            records_per_set: 256,
        }
    }
}

/// Timeouts and intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTiming {
    /// Longest wait of a client for its outcome. Default: 5 s.
    pub client: Duration,
    /// Clients that have waited longer than this are settled at the pace of [`ForwardLimits::pulse`], others
    /// at once. Default: 200 ms.
    pub gather: Duration,
    /// Time to the next try at a server that was never measured; after twice this time without a server's
    /// address, another server's address is looked up in parallel. Default: 400 ms.
    pub first_rto: Duration,
    /// Shortest time to the next try. Default: 50 ms.
    pub min_rto: Duration,
    /// Longest time to the next try, and the timeout of probes. Default: 2 s.
    pub max_rto: Duration,
    /// Interval between probes of a failing server. Default: 1 s.
    pub probe: Duration,
    /// Idle time after which a connection is closed. Default: 10 s.
    pub tcp_idle: Duration,
    /// Longest time until an encrypted connection is open. Default: 3 s.
    pub handshake: Duration,
    /// How long missing abilities of a server are cached: EDNS, cookies, the letter case of QNAME. Default:
    /// 15 min.
    pub remember: Duration,
}

impl Default for ForwardTiming {
    fn default() -> Self {
        ForwardTiming {
            client: Duration::from_secs(5),
            gather: Duration::from_millis(200),
            first_rto: Duration::from_millis(400),
            min_rto: Duration::from_millis(50),
            max_rto: Duration::from_secs(2),
            probe: Duration::from_secs(1),
            tcp_idle: Duration::from_secs(10),
            handshake: Duration::from_secs(3),
            remember: Duration::from_secs(900),
        }
    }
}

/// A configured server of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartServer {
    /// Its name, if needed: without addresses it is looked up.
    pub name: Option<NameBuf>,
    /// Its addresses and ports.
    pub addresses: Vec<SocketAddr>,
}

/// Resolves names by iteration from the servers of a zone down (RFC 1034 §5.3.3). Of several rules of any
/// kind for one domain, this one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterateRule {
    /// The zone to start from; the root for all names.
    pub domain: NameBuf,
    /// Its servers.
    pub servers: Vec<StartServer>,
    /// Whether these servers are queried for the zone's current servers, which are then used for their TTL
    /// (RFC 8109). Otherwise the configured servers are always used.
    pub prime: bool,
    /// A local copy of the zone, used instead of its servers as long as it has a response.
    pub copy: Option<LocalCopy>,
}

/// Limits of one client's query. Lookups of server addresses, restarts and aliases share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Most queries to other servers, of all kinds. Default: 64.
    pub queries: u16,
    /// Most of these to the servers of one zone. Default: 16.
    pub queries_per_zone: u16,
    /// Most bytes of replies. Default: 100,000.
    pub bytes: usize,
    /// Longest time. Default: 10 s.
    pub time: Duration,
    /// Most aliases whose targets need another lookup. Default: 11.
    pub aliases: u16,
    /// Most fruitless lookups of server addresses. Pending ones count, since all of them may be fruitless.
    /// Default: 5.
    pub fruitless: u16,
    /// Most queries with a part of the name only (RFC 9156 §2.3). Default: 10.
    pub minimised: u16,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        BudgetLimits {
            queries: 64,
            queries_per_zone: 16,
            bytes: 100_000,
            time: Duration::from_secs(10),
            aliases: 11,
            fruitless: 5,
            minimised: 10,
        }
    }
}

/// How much of a name each server sees (RFC 9156).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimisation {
    /// All of it.
    Off,
    /// Only what it needs; all of it after a useless reply or a denial.
    #[default]
    Relaxed,
    /// Only what it needs. A denial of a part denies the whole name (RFC 8020).
    Strict,
}

/// Encryption of queries to authoritative servers that are not known to offer it (RFC 9539). Servers are not
/// authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunistic {
    /// The encryptions of the transports that are probed, the preferred one first; at most two count.
    /// Default: none.
    pub encryptions: Vec<Encryption>,
    /// How long a transport counts as working after its last reply. Default: 3 days.
    pub persistence: Duration,
    /// How long a transport is left alone after a failure. Default: 1 day.
    pub damping: Duration,
    /// Longest time until a connection is open, and until the reply to a probe. Default: 4 s.
    pub timeout: Duration,
    /// Most probes in flight. Default: 50.
    pub probes: usize,
}

impl Default for Opportunistic {
    fn default() -> Self {
        Opportunistic {
            encryptions: Vec::new(),
            persistence: Duration::from_secs(3 * 86_400),
            damping: Duration::from_secs(86_400),
            timeout: Duration::from_secs(4),
            probes: 50,
        }
    }
}

/// Settings of iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterateConfig {
    /// The zones to start from.
    pub rules: Vec<IterateRule>,
    /// Zones served by this server: lookups of names below their delegations start from there. Default: none.
    pub own_zones: Option<OwnZones>,
    /// Limits of one client's query.
    pub budget: BudgetLimits,
    /// How much of a name each server sees.
    pub minimisation: Minimisation,
    /// Most servers of one zone that are used, those with glue first. Default: 13.
    pub servers: usize,
    /// Most addresses of one server. Default: 6.
    pub addresses: usize,
    /// Most nested lookups of server addresses that one query has begun. Default: 7.
    pub depth: u8,
    /// Most lookups in flight at the servers of one zone. Default: 2000.
    pub lookups_per_zone: usize,
    /// Most lookups in flight at a zone none of whose servers answers. Default: 20.
    pub lookups_per_dead_zone: usize,
    /// Whether servers are queried over IPv4. Default: true.
    pub ipv4: bool,
    /// Whether servers are queried over IPv6. Default: true.
    pub ipv6: bool,
    /// Whether delegations may lead to loopback addresses. Default: false.
    pub loopback: bool,
    /// Most bytes of cached delegations (one half), server addresses (one quarter), and names without a zone
    /// cut (one quarter). Default: 32 MiB.
    pub delegation_bytes: usize,
    /// Most servers of delegations whose state is cached. Default: 20,000.
    pub known_servers: usize,
    /// Encryption of queries to authoritative servers.
    pub opportunistic: Opportunistic,
}

impl Default for IterateConfig {
    fn default() -> Self {
        IterateConfig {
            rules: Vec::new(),
            own_zones: None,
            budget: BudgetLimits::default(),
            minimisation: Minimisation::default(),
            servers: 13,
            addresses: 6,
            depth: 7,
            lookups_per_zone: 2000,
            lookups_per_dead_zone: 20,
            ipv4: true,
            ipv6: true,
            loopback: false,
            delegation_bytes: 32 << 20,
            known_servers: 20_000,
            opportunistic: Opportunistic::default(),
        }
    }
}

/// The resolver's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardConfig {
    /// The forwarding rules, in any order; of two for one domain the later counts.
    pub rules: Vec<ForwardRule>,
    /// Iteration for the names that are not forwarded.
    pub iterate: IterateConfig,
    /// Domains that are not resolved, except domains below them that have a rule. They take precedence over a
    /// rule for the same domain.
    pub refused: Vec<NameBuf>,
    /// Limits.
    pub limits: ForwardLimits,
    /// Timeouts and intervals.
    pub timing: ForwardTiming,
    /// One lookup in this many first tries a server other than the fastest; 0: none. Default: 20.
    pub explore: u32,
    /// Whether letters of QNAME are in random case, which the reply must repeat. Default: true.
    pub mixed_case: bool,
    /// Whether queries have cookies (RFC 7873). Default: true.
    pub cookies: bool,
    /// The largest UDP response that we accept, in bytes (RFC 6891 §6.2.3). Default: 1232.
    pub udp_size: u16,
    /// Source addresses of queries; the first of the server's family is used. Default: chosen by the system.
    pub sources: Vec<IpAddr>,
    /// Most seconds that a positive answer may be cached. Default: 1 day.
    pub max_ttl: u32,
    /// Most seconds that a negative answer may be cached (RFC 2308 §5). Default: 3 hours.
    pub max_negative_ttl: u32,
}

impl ForwardConfig {
    /// Returns the source address for queries to a server, if one is configured for its family.
    pub(crate) fn source_for(&self, to: SocketAddr) -> Option<IpAddr> {
        self.sources.iter().copied().find(|source| source.is_ipv4() == to.is_ipv4())
    }
}

impl Default for ForwardConfig {
    fn default() -> Self {
        ForwardConfig {
            rules: Vec::new(),
            iterate: IterateConfig::default(),
            refused: Vec::new(),
            limits: ForwardLimits::default(),
            timing: ForwardTiming::default(),
            explore: 20,
            mixed_case: true,
            cookies: true,
            udp_size: 1232,
            sources: Vec::new(),
            max_ttl: 86_400,
            max_negative_ttl: 10_800,
        }
    }
}
