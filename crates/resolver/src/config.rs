//! What an operator sets: which upstream servers are asked for which names, and the bounds of that.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::NameBuf;

use crate::copy::{LocalCopy, OwnZones};

/// How an upstream server is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// By datagrams; over TCP what does not fit or may be forged (RFC 1035 §4.2, RFC 7766).
    #[default]
    UdpThenTcp,
    /// Over TCP only.
    Tcp,
}

/// One upstream server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Upstream {
    /// Its address and port.
    pub address: SocketAddr,
    /// How it is reached.
    pub reach: Reach,
}

impl Upstream {
    /// A server that is asked by UDP, then TCP.
    pub fn new(address: SocketAddr) -> Self {
        Upstream { address, reach: Reach::UdpThenTcp }
    }
}

/// Which servers are asked for the names at and below a domain. The rule with the longest domain counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardRule {
    /// The domain; the root for everything.
    pub domain: NameBuf,
    /// The servers. A rule without any fails every lookup.
    pub upstreams: Vec<Upstream>,
    /// RD in the queries (RFC 1035 §4.1.1): set for servers that ask others, clear for those that are
    /// authoritative for the domain. Default: true.
    pub recursion_desired: bool,
    /// How names are resolved step by step where the servers have no answer. Default: they are not.
    pub instead: Option<IterateRule>,
}

impl ForwardRule {
    /// A rule for servers that ask others.
    pub fn new(domain: NameBuf, upstreams: Vec<Upstream>) -> Self {
        ForwardRule { domain, upstreams, recursion_desired: true, instead: None }
    }
}

/// Bounds on what clients can make the resolver keep and do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Clients that wait at a time, by client prefix (IPv4 /24, IPv6 /56). Default: 1000.
    pub clients_per_prefix: usize,
    /// Clients of one prefix settled within 10 ms of those that have waited longer than
    /// [`ForwardTiming::gather`]; the next ones follow in the next 10 ms, and so on, but each before its
    /// deadline. An attacker that forges the addresses of a network and has a server that replies late would
    /// else gather answers for seconds and have them hit that network all at once (DNSBomb, CVE-2024-33655).
    /// 0: any number. Default: 32.
    pub pulse: usize,
    /// Clients that wait for one lookup. Default: 1000.
    pub clients_per_lookup: usize,
    /// Lookups in flight by one rule. Default: 10,000.
    pub lookups_per_rule: usize,
    /// Lookups in flight in all. Default: 20,000.
    pub lookups: usize,
    /// Tries of one lookup, whatever they are for: other servers, retransmissions, TCP, downgrades, probes.
    /// Never reset. Default: 8.
    pub tries: u8,
    /// TCP connections to one server. Default: 4.
    pub connections: usize,
    /// Queries under way on one connection. Default: 100.
    pub pipeline: usize,
    /// Records of one RRset; a reply with more is not taken. Default: 256.
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

/// How long things take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardTiming {
    /// How long a client waits for its outcome at most. Default: 5 s.
    pub client: Duration,
    /// A client that has waited longer than this is settled at the pace of [`ForwardLimits::pulse`]; others
    /// at once. Default: 200 ms.
    pub gather: Duration,
    /// Time to the next try of a server that was never measured; twice as long a server's address may be in
    /// coming, before another server's is looked up beside it. Default: 400 ms.
    pub first_rto: Duration,
    /// The shortest time to the next try. Default: 50 ms.
    pub min_rto: Duration,
    /// The longest, and how long a probe's reply is waited for. Default: 2 s.
    pub max_rto: Duration,
    /// Between probes of a server that does not answer. Default: 1 s.
    pub probe: Duration,
    /// After which a connection without traffic is closed. Default: 10 s.
    pub tcp_idle: Duration,
    /// How long it is remembered what a server cannot do: EDNS, cookies, the letter case of a name. Default:
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
            remember: Duration::from_secs(900),
        }
    }
}

/// One server of a zone, by the operator's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartServer {
    /// Its name, if that is of interest: without addresses it is looked up.
    pub name: Option<NameBuf>,
    /// Its addresses and ports.
    pub addresses: Vec<SocketAddr>,
}

/// Names that are resolved step by step, from the servers of a zone down (RFC 1034 §5.3.3). Of two rules for
/// one domain, whatever their kinds, the one that is iterated counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterateRule {
    /// The zone to begin with; the root for everything.
    pub domain: NameBuf,
    /// Its servers.
    pub servers: Vec<StartServer>,
    /// Whether they are asked who the servers are by now, and that is believed as long as they say
    /// (RFC 8109). Else the configured servers are kept for ever.
    pub prime: bool,
    /// A copy of the zone on this machine, which is asked in place of the servers as long as it has a
    /// response.
    pub copy: Option<LocalCopy>,
}

/// What one client's query may cost others. Lookups of servers' addresses, restarts and aliases share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Queries to other servers, of all kinds. Default: 64.
    pub queries: u16,
    /// Of these, to the servers of any one zone. Default: 16.
    pub queries_per_zone: u16,
    /// Bytes of replies. Default: 100,000.
    pub bytes: usize,
    /// Time. Default: 10 s.
    pub time: Duration,
    /// Aliases whose targets are looked up by themselves. Default: 11.
    pub aliases: u16,
    /// Lookups of servers' addresses that find nothing. Those under way count, since all of them may.
    /// Default: 5.
    pub fruitless: u16,
    /// Queries that show a part of the name only (RFC 9156 §2.3). Default: 10.
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
    /// What it needs; if what it replies to that denies the name or is of no use, all of it.
    #[default]
    Relaxed,
    /// What it needs. A denial of a part denies the whole (RFC 8020).
    Strict,
}

/// How names are resolved step by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterateConfig {
    /// Where to begin.
    pub rules: Vec<IterateRule>,
    /// Zones that are served on this machine: lookups of names that they delegate set out from there.
    /// Default: none.
    pub own_zones: Option<OwnZones>,
    /// What one client's query may cost.
    pub budget: BudgetLimits,
    /// How much of a name each server sees.
    pub minimisation: Minimisation,
    /// Servers of one zone that are considered, those with glue first. Default: 13.
    pub servers: usize,
    /// Addresses of one server that are. Default: 6.
    pub addresses: usize,
    /// Lookups of servers' addresses that wait for each other in a row, as far as one query has begun them.
    /// Default: 7.
    pub depth: u8,
    /// Lookups in flight at the servers of any one zone. Default: 2000.
    pub lookups_per_zone: usize,
    /// The same if none of these servers answers. Default: 20.
    pub lookups_per_dead_zone: usize,
    /// Whether servers are asked by IPv4. Default: true.
    pub ipv4: bool,
    /// Whether by IPv6. Default: true.
    pub ipv6: bool,
    /// Whether delegations may lead to loopback addresses. Default: false.
    pub loopback: bool,
    /// Bytes of what is known of delegations, of their servers' addresses, and of names at which no zone
    /// begins: a half and a quarter each. Default: 32 MiB.
    pub delegation_bytes: usize,
    /// Servers of delegations that speed and abilities are remembered of. Default: 20,000.
    pub known_servers: usize,
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
        }
    }
}

/// The resolver's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardConfig {
    /// The rules, in any order; of two with one domain the later counts.
    pub rules: Vec<ForwardRule>,
    /// What is not forwarded but resolved step by step.
    pub iterate: IterateConfig,
    /// Domains for which no server is asked, but for those below them that have a rule. They count before a
    /// rule for the same domain.
    pub refused: Vec<NameBuf>,
    /// Bounds.
    pub limits: ForwardLimits,
    /// Times.
    pub timing: ForwardTiming,
    /// One lookup in so many asks another server than the fastest first; 0: none does. Default: 20.
    pub explore: u32,
    /// Whether letters of the name that is asked are in random case, which the reply must repeat. Default:
    /// true.
    pub mixed_case: bool,
    /// Whether cookies are sent (RFC 7873). Default: true.
    pub cookies: bool,
    /// The largest datagram that may come back, in bytes (RFC 6891 §6.2.3). Default: 1232.
    pub udp_size: u16,
    /// The addresses that servers of each family are asked from, the first that fits. Default: the system
    /// chooses them.
    pub sources: Vec<IpAddr>,
    /// The most a positive answer may be kept, in seconds. Default: 1 day.
    pub max_ttl: u32,
    /// The most a negative answer may be kept, in seconds (RFC 2308 §5). Default: 3 hours.
    pub max_negative_ttl: u32,
}

impl ForwardConfig {
    /// The address that this server is asked from, if one is configured for its family.
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
