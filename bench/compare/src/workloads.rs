//! The plan: which zones, which queries and which kinds of load make up each workload, and which workloads
//! share zones and so a start. Running them is `session.rs`'s business.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::failure::{Context, Failure, Result};
use crate::queries::{self, Known, Mix, QuerySet, Zipf};
use crate::servers::Kind;
use crate::session::Plan;
use crate::zones::{Denial, Maker, ZoneSet, top_level_names};

/// A workload by the name it has on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// `www.example.com A` only.
    OneName,
    /// The root zone, mostly names that do not exist, mostly with DO.
    Root,
    /// One zone of many delegations: 85 % referrals, 15 % NXDOMAIN.
    Delegations,
    /// The same zone, nothing but names that do not exist.
    Nxdomain,
    /// Ten thousand small zones.
    #[value(name = "zones-10k")]
    Zones10k,
    /// A hundred thousand small zones.
    #[value(name = "zones-100k")]
    Zones100k,
    /// A zone signed with NSEC, asked with DO.
    SignedNsec,
    /// A zone signed with NSEC3, asked with DO.
    SignedNsec3,
    /// The delegations over TCP: pipelined, and one query a connection.
    Tcp,
    /// Start with the delegations, until the first answers.
    Load,
    /// Start again with the delegations, from the image nomen keeps of them.
    Restart,
    /// Start with a far bigger zone of delegations, once; not among the defaults.
    LoadLarge,
    /// The delegations from kxdpgun over veth, saturated: sockets and AF_XDP.
    Veth,
    /// The delegations sent to another server, whole.
    AxfrOut,
    /// The delegations taken from a primary, whole.
    AxfrIn,
    /// Very many small zones taken from a primary, changed at once, kept, and due at once.
    Secondaries,
    /// Dynamic updates of a zone of delegations, each of them durable.
    Update,
    /// Resolvers: a hundred names, all of them cached.
    #[value(name = "cached-100")]
    Cached100,
    /// Resolvers: the hundred from kxdpgun over veth, saturated: sockets and AF_XDP.
    CachedVeth,
    /// Resolvers: many cached names, some asked for far more often than others.
    #[value(name = "cached-200k")]
    Cached200k,
    /// Resolvers: a hundred cached names in a signed zone, validated, asked with DO.
    #[value(name = "validated-100")]
    Validated100,
    /// Resolvers: the same hundred from kxdpgun over veth, saturated: sockets and AF_XDP.
    ValidatedVeth,
    /// Resolvers: many of them, some asked for far more often than others.
    #[value(name = "validated-200k")]
    Validated200k,
    /// Resolvers: every query for a new name.
    Misses,
    /// Resolvers: new names as fast as they are answered, and a well-behaved client beside them.
    Flood,
    /// Resolvers: twice as many new names as they can take, and a well-behaved client beside them.
    Overload,
    /// Resolvers on the small Internet: everything from the root on, with empty caches.
    Cold,
    /// Resolvers beside zones made to use up their processor, and a well-behaved client beside those.
    Attacks,
}

/// Sizes that scale every workload.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// Delegations in the big zone; it has four times as many records.
    pub(crate) names: u64,
    /// Zones of `zones-10k` and `zones-100k`.
    pub(crate) zones: (u64, u64),
    /// Delegations in the zone of `load-large`.
    pub(crate) large: u64,
    /// Names in the signed zones.
    pub(crate) signed: u64,
    /// Queries in a file before it repeats.
    pub(crate) queries: u64,
    /// Names that resolvers hold in `cached-200k` and `validated-200k`.
    pub(crate) cached: u64,
    /// Names that resolvers are asked for with empty caches.
    pub(crate) cold: u64,
    /// Names that the well-behaved client of `flood` asks for.
    pub(crate) client: u64,
    /// Delegations in the zone that is updated.
    pub(crate) updated: u64,
    /// Whether files of delegations are in canonical order.
    pub(crate) sorted: bool,
    /// Zones that servers are secondary for.
    pub(crate) taken: u64,
}

/// Names of `cached-100`, `cached-veth`, `validated-100` and `validated-veth`.
const FEW: u64 = 100;

/// Malicious queries a second of `attacks`.
pub(crate) const ATTACK_RATE: u64 = 150;

/// One way of asking within a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// One query outstanding.
    RoundTrip,
    /// A fixed rate below what any server can do.
    Rate {
        /// Client sockets.
        clients: usize,
    },
    /// So many new names a second.
    MissRate {
        /// Queries a second.
        rate: u64,
        /// Client sockets.
        clients: usize,
    },
    /// As many as get answered.
    Saturated {
        /// Client sockets.
        clients: usize,
    },
    /// TCP, many queries in flight on each connection.
    TcpPipelined {
        /// Connections.
        clients: usize,
    },
    /// TCP, a new connection for each query.
    TcpConnections {
        /// Connections at a time.
        clients: usize,
    },
    /// As many as kxdpgun sends, over veth.
    Veth {
        /// To an AF_XDP front rather than to sockets.
        xdp: bool,
    },
    /// Nothing but a well-behaved client.
    Alone,
    /// The same beside new names as fast as they are answered.
    Flood,
    /// The same beside twice as many new names as the server can take.
    Overload,
    /// A zone that moves as a whole.
    Transfer,
    /// What happens to a secondary of very many zones.
    Secondary(Phase),
    /// Names of the small Internet, each once.
    Cold(Names),
    /// A well-behaved client beside so many malicious queries a second.
    Attack(Attack),
    /// Updates, each after the reply to the one before.
    Update {
        /// Over TCP.
        tcp: bool,
        /// Clients at a time.
        clients: usize,
    },
}

/// What happens to a secondary of very many zones, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It is started and has none of them.
    Start,
    /// All change at once, and it gets a NOTIFY for each.
    Change,
    /// It is started again, with what it kept.
    Restart,
    /// All are due, again and again.
    Refresh,
}

impl Phase {
    /// Words for tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Start => "start, with none of the zones",
            Phase::Change => "all zones change, a NOTIFY for each",
            Phase::Restart => "start again, with all that was kept",
            Phase::Refresh => "all zones are due, again and again",
        }
    }
}

/// Names of the small Internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Names {
    /// In zones without signatures.
    Unsigned,
    /// In zones with signatures from the root on.
    Signed,
    /// In all of them, with what is wrong there.
    Mixed,
}

impl Names {
    /// The name of the list of questions.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Names::Unsigned => "unsigned",
            Names::Signed => "signed",
            Names::Mixed => "mixed",
        }
    }
}

/// What is done to use up a resolver's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attack {
    /// Signatures and keys of which any might fit (CVE-2023-50387).
    KeyTrap,
    /// Names of many labels that are not there, in a zone with many iterations (CVE-2023-50868).
    Nsec3,
}

impl Attack {
    /// The name of the list of questions.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Attack::KeyTrap => "keytrap",
            Attack::Nsec3 => "nsec3",
        }
    }
}

impl Cell {
    /// Words for tables.
    pub(crate) fn name(self) -> String {
        match self {
            Cell::RoundTrip => "one outstanding".to_string(),
            Cell::Rate { clients } => format!("fixed rate, {}", plural(clients)),
            Cell::MissRate { rate, clients } => miss_rate(rate, clients),
            Cell::Saturated { clients } => format!("saturated, {}", plural(clients)),
            Cell::TcpPipelined { clients } => format!("TCP pipelined, {}", plural(clients)),
            Cell::TcpConnections { clients } => format!("TCP one query a connection, {}", plural(clients)),
            Cell::Veth { xdp: false } => "saturated over veth, sockets".to_string(),
            Cell::Veth { xdp: true } => "saturated over veth, AF_XDP".to_string(),
            Cell::Alone => "client alone".to_string(),
            Cell::Flood => "client beside a flood".to_string(),
            Cell::Overload => "client beside twice the capacity".to_string(),
            Cell::Transfer => "whole zone".to_string(),
            Cell::Secondary(phase) => phase.name().to_string(),
            Cell::Cold(Names::Unsigned) => "unsigned zones".to_string(),
            Cell::Cold(Names::Signed) => "signed zones".to_string(),
            Cell::Cold(Names::Mixed) => "all zones, broken ones too".to_string(),
            Cell::Attack(Attack::KeyTrap) => "client beside KeyTrap".to_string(),
            Cell::Attack(Attack::Nsec3) => "client beside NSEC3 hashes".to_string(),
            Cell::Update { tcp: false, clients } => format!("updates over UDP, {}", plural(clients)),
            Cell::Update { tcp: true, clients } => format!("updates over TCP, {}", plural(clients)),
        }
    }
}

/// New names a second that are asked for unless others are wanted, and that goals are judged at.
pub(crate) const MISS_RATES: [u64; 5] = [1_000, 5_000, 10_000, 20_000, 40_000];

/// The row of so many new names a second.
pub(crate) fn miss_rate(rate: u64, clients: usize) -> String {
    format!("fixed rate of {rate} a second, {}", plural(clients))
}

fn plural(clients: usize) -> String {
    if clients == 1 { "1 client".to_string() } else { format!("{clients} clients") }
}

/// The zones a workload is about. Workloads about the same ones share each start of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// `example.com`.
    OneName,
    /// The root zone.
    Root,
    /// The delegations.
    Delegations,
    /// The delegations of `load-large`.
    Large,
    /// The small zones of `zones-10k`.
    Zones10k,
    /// The small zones of `zones-100k`.
    Zones100k,
    /// The zone signed with NSEC.
    SignedNsec,
    /// The zone signed with NSEC3.
    SignedNsec3,
    /// The delegations, which servers take from a primary.
    Taken,
    /// Small zones, which servers take from a primary.
    TakenMany,
    /// The zone that is updated.
    Updated,
    /// None: servers forward. Each such workload needs a cache in a state of its own, so it shares no start.
    Forwarding(Workload),
    /// A signed zone behind the upstream, which servers validate: they have none themselves.
    Validating(Workload),
    /// Those of an Internet of our own, where servers find everything from the root on.
    Internet(Workload),
}

impl Base {
    /// Makes, or finds, the zones.
    pub(crate) fn zones(self, work: &Path, sizes: &Sizes, seed: u64, root: Option<&Path>) -> Result<ZoneSet> {
        let maker = Maker::new(&work.join("zones"), seed);
        match self {
            Base::OneName => maker.one_name(),
            Base::Root => maker.root(root),
            Base::Delegations | Base::Taken => maker.delegations(sizes.names, sizes.sorted),
            Base::Updated => maker.delegations(sizes.updated, sizes.sorted),
            Base::TakenMany => Ok(maker.taken(sizes.taken)),
            Base::Large => maker.delegations(sizes.large, sizes.sorted),
            Base::Zones10k => maker.many(sizes.zones.0),
            Base::Zones100k => maker.many(sizes.zones.1),
            Base::SignedNsec => maker.signed(sizes.signed, Denial::Nsec),
            Base::SignedNsec3 => maker.signed(sizes.signed, Denial::Nsec3),
            Base::Forwarding(workload) | Base::Internet(workload) => {
                Ok(ZoneSet { key: workload.name(), zones: Vec::new(), records: 0, denial: None })
            }
            // What the origin has is not what the servers load.
            Base::Validating(workload) => {
                let zones = maker.validated(workload.known(sizes).unwrap_or(FEW))?;
                Ok(ZoneSet { key: workload.name(), records: 0, ..zones })
            }
        }
    }

    /// Whether servers forward here instead of answering from zones.
    pub(crate) fn forwards(self) -> bool {
        matches!(self, Base::Forwarding(_) | Base::Validating(_))
    }

    /// Whether servers find names from the root on.
    pub(crate) fn iterates(self) -> bool {
        matches!(self, Base::Internet(_))
    }

    /// Whether how servers start here is shown: not where they have next to nothing yet.
    pub(crate) fn has_starts(self) -> bool {
        !matches!(self, Base::Taken | Base::TakenMany | Base::Updated)
    }

    /// Whether a second column shows something here that the first does not: defaults do where answers are
    /// positive and a socket can be full; caches of PowerDNS where names are few or many; kresd's where it
    /// writes them; batches of dnsdist where it answers. Where nothing is timed each takes part once, to be
    /// known to start.
    fn has_second(self, kind: Kind, timed: bool) -> bool {
        use Workload::{Cached100, Cached200k, CachedVeth, Misses};
        let once = matches!(self, Base::OneName | Base::Forwarding(Cached100));
        let shows = match (kind, self) {
            (Kind::NsdDefaults | Kind::KnotDefaults | Kind::BindDefaults, base) => {
                matches!(base, Base::OneName | Base::Zones10k | Base::SignedNsec3)
            }
            (Kind::PdnsAdvised, base) => matches!(base, Base::OneName | Base::Zones10k | Base::Zones100k),
            (Kind::DnsdistAdvised, base) => {
                matches!(base, Base::Forwarding(Cached100 | Cached200k | CachedVeth))
            }
            (Kind::KresdAdvised, base) => matches!(base, Base::Forwarding(Cached100 | Cached200k | Misses)),
            _ => false,
        };
        shows && (timed || once)
    }

    /// Whether a server can take part at all, and shows something if it does. `timed` is false where figures
    /// are not looked at.
    pub(crate) fn suits(self, kind: Kind, timed: bool) -> bool {
        if !kind.is_first() && !self.has_second(kind, timed) {
            return false;
        }
        match self {
            Base::Forwarding(_) => kind.forwards(),
            Base::Validating(_) | Base::Internet(_) => kind.validates(),
            Base::Taken | Base::TakenMany => kind.takes_zones(),
            Base::Updated => kind.takes_updates(),
            _ => kind.serves_zones(),
        }
    }

    /// What nomen's reference of its configuration has in it if this nomen can take part, and what it does
    /// not do otherwise; `None` where every nomen can.
    pub(crate) fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Base::Forwarding(_) => Some(("### `validate`", "this one cannot forward without validating")),
            Base::Validating(_) | Base::Internet(_) => {
                Some(("### `trust-anchors`", "this one does not validate"))
            }
            Base::Taken | Base::TakenMany => {
                Some(("### `primaries`", "this one takes no zones from primaries"))
            }
            Base::Updated => Some(("### `allow-update`", "this one takes no updates")),
            _ => None,
        }
    }

    /// Whether servers are also watched with nothing to do: once with next to no zones, once with a big one,
    /// once with many.
    pub(crate) fn idles(self) -> bool {
        matches!(self, Base::OneName | Base::Delegations | Base::Large | Base::Zones100k)
    }
}

/// Workloads that share their zones, in the order they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The zones.
    pub(crate) base: Base,
    /// The workloads, at least one.
    pub(crate) workloads: Vec<Workload>,
}

/// Sorts workloads into stages; each stage stands where its first workload does.
pub(crate) fn stages(workloads: &[Workload]) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Vec::new();
    for workload in workloads {
        let base = workload.base();
        match stages.iter_mut().find(|stage| stage.base == base) {
            Some(stage) if stage.workloads.contains(workload) => {}
            Some(stage) => stage.workloads.push(*workload),
            None => stages.push(Stage { base, workloads: vec![*workload] }),
        }
    }
    stages
}

impl Stage {
    /// The workload whose table shows how servers started: the one that is about that, or else the first.
    pub(crate) fn of_starts(&self) -> Workload {
        let about = |workload: &&Workload| matches!(workload, Workload::Load | Workload::LoadLarge);
        let first = self.workloads.first().copied().unwrap_or(Workload::Load);
        self.workloads.iter().find(about).copied().unwrap_or(first)
    }

    /// Whether nomen is also started from its image.
    pub(crate) fn restarts(&self) -> bool {
        self.base == Base::Large || self.workloads.contains(&Workload::Restart)
    }
}

impl Workload {
    /// Those that run unless others are asked for, in the order of the table.
    pub(crate) fn all() -> Vec<Workload> {
        let all = Workload::value_variants().iter().copied();
        all.filter(|workload| *workload != Workload::LoadLarge).collect()
    }

    /// The name on the command line and in results.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// The zones it is about.
    pub(crate) fn base(self) -> Base {
        match self {
            Workload::OneName => Base::OneName,
            Workload::Root => Base::Root,
            Workload::Delegations
            | Workload::Nxdomain
            | Workload::Tcp
            | Workload::Load
            | Workload::Restart
            | Workload::Veth
            | Workload::AxfrOut => Base::Delegations,
            Workload::AxfrIn => Base::Taken,
            Workload::Secondaries => Base::TakenMany,
            Workload::Update => Base::Updated,
            Workload::LoadLarge => Base::Large,
            Workload::Zones10k => Base::Zones10k,
            Workload::Zones100k => Base::Zones100k,
            Workload::SignedNsec => Base::SignedNsec,
            Workload::SignedNsec3 => Base::SignedNsec3,
            Workload::Cached100
            | Workload::CachedVeth
            | Workload::Cached200k
            | Workload::Misses
            | Workload::Flood
            | Workload::Overload => Base::Forwarding(self),
            Workload::Validated100 | Workload::ValidatedVeth | Workload::Validated200k => {
                Base::Validating(self)
            }
            Workload::Cold | Workload::Attacks => Base::Internet(self),
        }
    }

    /// Names that resolvers know before they are measured; `None` where all are new.
    pub(crate) fn known(self, sizes: &Sizes) -> Option<u64> {
        match self {
            Workload::Cached100
            | Workload::CachedVeth
            | Workload::Validated100
            | Workload::ValidatedVeth
            | Workload::Overload => Some(FEW),
            Workload::Cached200k | Workload::Validated200k => Some(sizes.cached),
            Workload::Flood => Some(sizes.client),
            _ => None,
        }
    }

    /// Whether it is one of cached answers alone, which are measured as those from zones are.
    pub(crate) fn is_cached(self) -> bool {
        matches!(self, Workload::Cached100 | Workload::CachedVeth | Workload::Cached200k)
            || self.is_validated()
    }

    /// Whether it is asked over veth, and servers that have an AF_XDP front are measured behind that as well.
    pub(crate) fn is_over_veth(self) -> bool {
        matches!(self, Workload::Veth | Workload::CachedVeth | Workload::ValidatedVeth)
    }

    /// Whether its answers are validated, and have signatures.
    pub(crate) fn is_validated(self) -> bool {
        matches!(self, Workload::Validated100 | Workload::ValidatedVeth | Workload::Validated200k)
    }

    /// Whether it has enough names to tell how many bytes each takes.
    pub(crate) fn tells_entries(self) -> bool {
        matches!(self, Workload::Cached200k | Workload::Validated200k)
    }

    /// Which of the questions that are asked again and again it asks.
    pub(crate) fn which(self) -> Known {
        if self.is_validated() { Known::Signed } else { Known::Plain }
    }

    /// Bytes that resolvers may use for their cache: few enough for a flood to fill them.
    pub(crate) fn cache(self, plan: &Plan) -> u64 {
        if self == Workload::Flood { plan.flood_cache } else { plan.cache }
    }

    /// One line for people.
    pub(crate) fn title(self, sizes: &Sizes) -> String {
        match self {
            Workload::OneName => "one name, www.example.com A".to_string(),
            Workload::Root => "root zone, root-like mix, 70 % DO".to_string(),
            Workload::Delegations => format!("{} delegations, 85 % referrals, 15 % NXDOMAIN", sizes.names),
            Workload::Nxdomain => format!("NXDOMAIN flood, {} delegations", sizes.names),
            Workload::Zones10k => format!("{} small zones", sizes.zones.0),
            Workload::Zones100k => format!("{} small zones", sizes.zones.1),
            Workload::SignedNsec => format!("signed with NSEC, {} names, all DO", sizes.signed),
            Workload::SignedNsec3 => format!("signed with NSEC3, {} names, all DO", sizes.signed),
            Workload::Tcp => format!("TCP, {} delegations", sizes.names),
            Workload::Load => format!("start with {} records", sizes.names * 4 + 5),
            Workload::Restart => format!("start from an image, {} records", sizes.names * 4 + 5),
            Workload::LoadLarge => format!("start with {} records", sizes.large * 4 + 5),
            Workload::Veth => format!("kxdpgun over veth, {} delegations", sizes.names),
            Workload::AxfrOut => format!("AXFR to a secondary, {} records", sizes.names * 4 + 5),
            Workload::AxfrIn => format!("AXFR from a primary, {} records", sizes.names * 4 + 5),
            Workload::Secondaries => format!("secondary of {} small zones", sizes.taken),
            Workload::Update => format!("durable updates of a zone of {} records", sizes.updated * 4 + 5),
            Workload::Cached100 => format!("resolvers, {FEW} names, all cached"),
            Workload::CachedVeth => format!("resolvers, {FEW} cached names, kxdpgun over veth"),
            Workload::Cached200k => format!("resolvers, {} cached names, Zipf", sizes.cached),
            Workload::Validated100 => format!("resolvers, {FEW} names with DO, all cached and validated"),
            Workload::ValidatedVeth => {
                format!("resolvers, {FEW} names with DO, cached and validated, kxdpgun over veth")
            }
            Workload::Validated200k => {
                format!("resolvers, {} names with DO, cached and validated, Zipf", sizes.cached)
            }
            Workload::Misses => "resolvers, every query for a new name".to_string(),
            Workload::Flood => {
                format!("resolvers, a flood of new names beside a client of {} names, Zipf", sizes.client)
            }
            Workload::Overload => {
                format!("resolvers, twice their capacity of new names beside a client of {FEW} cached names")
            }
            Workload::Cold => format!("resolvers from the root on, {} names, empty caches", sizes.cold),
            Workload::Attacks => {
                format!("resolvers, {ATTACK_RATE} malicious queries a second beside a client of cached names")
            }
        }
    }

    /// Whether its answers carry no signatures, and are asked for with every number of clients.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(
            self,
            Workload::OneName
                | Workload::Delegations
                | Workload::Nxdomain
                | Workload::Zones10k
                | Workload::Zones100k
        )
    }

    /// How it is asked by a plan.
    pub(crate) fn cells(self, plan: &Plan) -> Vec<Cell> {
        self.asked(&plan.clients, &plan.miss_rates)
    }

    /// How it is asked. `clients` are the counts wanted everywhere; without them unsigned workloads are asked
    /// with 1, 20, 100 and 500, the others with 20.
    fn asked(self, clients: &[usize], miss_rates: &[u64]) -> Vec<Cell> {
        let counts: &[usize] = match clients {
            [] if matches!(self, Workload::Cached100 | Workload::Validated100) => &[1, 10, 50, 100, 200, 500],
            [] if self.is_unsigned() => &[1, 20, 100, 500],
            [] => &[20],
            given => given,
        };
        let most = counts.iter().copied().min_by_key(|count| count.abs_diff(20)).unwrap_or(20);
        match self {
            Workload::Load | Workload::Restart | Workload::LoadLarge => Vec::new(),
            Workload::AxfrOut | Workload::AxfrIn => vec![Cell::Transfer],
            Workload::Secondaries => {
                [Phase::Start, Phase::Change, Phase::Restart, Phase::Refresh].map(Cell::Secondary).to_vec()
            }
            Workload::Update => {
                let ways = [(false, 1), (false, 64), (true, 1), (true, 64)];
                ways.map(|(tcp, clients)| Cell::Update { tcp, clients }).to_vec()
            }
            Workload::Veth | Workload::CachedVeth | Workload::ValidatedVeth => {
                vec![Cell::Veth { xdp: false }, Cell::Veth { xdp: true }]
            }
            Workload::Cached100 | Workload::Validated100 => {
                let saturated = counts.iter().map(|count| Cell::Saturated { clients: *count });
                [Cell::Rate { clients: 20 }].into_iter().chain(saturated).collect()
            }
            Workload::Misses => {
                let rates = miss_rates.iter().map(|rate| Cell::MissRate { rate: *rate, clients: most });
                let saturated = Cell::Saturated { clients: most };
                [Cell::RoundTrip].into_iter().chain(rates).chain([saturated]).collect()
            }
            Workload::Flood => vec![Cell::Alone, Cell::Flood],
            Workload::Overload => vec![Cell::Alone, Cell::Overload],
            Workload::Cold => [Names::Unsigned, Names::Signed, Names::Mixed].map(Cell::Cold).to_vec(),
            Workload::Attacks => {
                vec![Cell::Alone, Cell::Attack(Attack::KeyTrap), Cell::Attack(Attack::Nsec3)]
            }
            // Some servers listen with a backlog of ten; beyond it the generator would time lost SYNs.
            Workload::Tcp => {
                vec![Cell::TcpPipelined { clients: most }, Cell::TcpConnections { clients: most.min(8) }]
            }
            _ => {
                let mut cells: Vec<Cell> =
                    counts.iter().map(|count| Cell::Rate { clients: *count }).collect();
                cells.push(Cell::Saturated { clients: most });
                if matches!(self, Workload::OneName | Workload::Delegations) {
                    cells.push(Cell::RoundTrip);
                }
                cells
            }
        }
    }

    /// Whether the reflector shows here what a client waits for beside a flood that costs no server anything.
    /// In an overload it shows nothing: that is as much as it can take.
    pub(crate) fn is_beside(self) -> bool {
        self == Workload::Flood
    }

    /// What shows here how little it can cost. A reflector speaks UDP only and loads nothing.
    pub(crate) fn floor(self) -> Option<Kind> {
        let reflected = match self {
            Workload::Tcp
            | Workload::Load
            | Workload::Restart
            | Workload::LoadLarge
            | Workload::AxfrOut
            | Workload::AxfrIn
            | Workload::Secondaries
            | Workload::Update => false,
            Workload::Misses => return Some(Kind::Relay),
            _ => self.is_cached() || self.is_beside() || !(self.base().forwards() || self.base().iterates()),
        };
        reflected.then_some(Kind::Reflector)
    }

    /// Makes, or finds, the queries for these zones.
    pub(crate) fn queries(self, zones: &ZoneSet, work: &Path, sizes: &Sizes, seed: u64) -> Result<QuerySet> {
        let mix = match self {
            Workload::OneName => Mix::OneName,
            Workload::Root => {
                let zone = zones.zones.first().context(|| "no root zone".to_string())?;
                Mix::Root { names: top_level_names(&zone.file)? }
            }
            Workload::Delegations
            | Workload::Tcp
            | Workload::Load
            | Workload::Restart
            | Workload::Veth
            | Workload::AxfrOut
            | Workload::AxfrIn => Mix::Delegations { count: sizes.names, nxdomain: 15 },
            Workload::Update => Mix::Delegations { count: sizes.updated, nxdomain: 15 },
            Workload::LoadLarge => Mix::Delegations { count: sizes.large, nxdomain: 15 },
            Workload::Nxdomain => Mix::Delegations { count: sizes.names, nxdomain: 100 },
            Workload::Zones10k => Mix::Many { count: sizes.zones.0 },
            Workload::Zones100k => Mix::Many { count: sizes.zones.1 },
            Workload::Secondaries => Mix::Many { count: sizes.taken },
            Workload::SignedNsec | Workload::SignedNsec3 => Mix::Signed { count: sizes.signed },
            Workload::Cached100
            | Workload::CachedVeth
            | Workload::Validated100
            | Workload::ValidatedVeth
            | Workload::Overload => Mix::Even { count: FEW, known: self.which() },
            Workload::Cached200k | Workload::Validated200k => {
                Mix::Popular(Zipf::new(sizes.cached), self.which())
            }
            Workload::Flood => Mix::Popular(Zipf::new(sizes.client), self.which()),
            Workload::Misses => Mix::Unique,
            Workload::Cold | Workload::Attacks => {
                return Err(Failure::new("what is asked on the small Internet comes with it"));
            }
        };
        let key =
            if self == Workload::Nxdomain { format!("{}-nxdomain", zones.key) } else { zones.key.clone() };
        let count = match self {
            // Those of which there are more are made on the way.
            Workload::OneName | Workload::Misses | Workload::Flood | Workload::Overload => 1000,
            // Only the sample is asked.
            Workload::Secondaries => 1000,
            _ => sizes.queries,
        };
        queries::make(&work.join("queries"), &key, &mix, seed, count)
    }
}

/// Where zones and queries are kept between runs.
pub(crate) fn default_work() -> PathBuf {
    std::env::temp_dir().join("nomen-compare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_about_the_same_zones_share_a_stage() {
        let stages = stages(&Workload::all());
        let shared = stages.iter().find(|stage| stage.base == Base::Delegations).unwrap();
        for workload in [Workload::Delegations, Workload::Nxdomain, Workload::Tcp, Workload::Veth] {
            assert!(shared.workloads.contains(&workload), "{workload:?}");
        }
        assert_eq!(shared.of_starts(), Workload::Load);
        assert!(shared.restarts());
        assert!(stages.iter().all(|stage| stage.base != Base::Large), "35 million records by default");
        let sum: usize = stages.iter().map(|stage| stage.workloads.len()).sum();
        assert_eq!(sum, Workload::all().len());
    }

    #[test]
    fn a_zone_is_sent_from_the_start_that_others_share_and_taken_in_one_of_its_own() {
        let stages = stages(&[Workload::AxfrIn, Workload::Load, Workload::AxfrOut, Workload::Update]);
        let bases: Vec<Base> = stages.iter().map(|stage| stage.base).collect();
        assert_eq!(bases, [Base::Taken, Base::Delegations, Base::Updated]);
        assert_eq!(bases.iter().map(|base| base.has_starts()).collect::<Vec<_>>(), [false, true, false]);
        for (base, able) in
            [(Base::Taken, Kind::Nsd), (Base::Updated, Kind::Bind), (Base::Delegations, Kind::Pdns)]
        {
            assert!(base.suits(Kind::Nomen, true) && base.suits(able, true), "{base:?}");
        }
        assert!(!Base::Taken.suits(Kind::Pdns, true) && !Base::Updated.suits(Kind::Nsd, true));
        let many = Workload::Secondaries;
        assert!(many.base().suits(Kind::Bind, true) && !many.base().suits(Kind::Pdns, true));
        assert!(!many.base().has_starts() && many.floor().is_none());
        assert_eq!(many.asked(&[3], &[])[0], Cell::Secondary(Phase::Start), "before anything can change");
    }

    #[test]
    fn only_who_validates_is_asked_where_that_is_measured() {
        for workload in [Workload::Validated100, Workload::Cold, Workload::Attacks] {
            for kind in [Kind::Nomen, Kind::Unbound, Kind::Recursor, Kind::Bind] {
                assert!(workload.base().suits(kind, true), "{workload:?} {kind:?}");
            }
            assert!(!workload.base().suits(Kind::Dnsdist, true), "{workload:?}");
        }
        let reflected = |workload: Workload| workload.floor() == Some(Kind::Reflector);
        let measured = |workload: Workload| (workload.is_cached(), reflected(workload), workload.which());
        assert_eq!(measured(Workload::Validated200k), (true, true, Known::Signed));
        assert_eq!(measured(Workload::Cached200k), (true, true, Known::Plain));
        assert_eq!(measured(Workload::CachedVeth), (true, true, Known::Plain));
        assert_eq!(measured(Workload::Cold), (false, false, Known::Plain));
        assert_eq!(measured(Workload::Flood), (false, true, Known::Plain));
        assert_eq!(measured(Workload::Overload), (false, false, Known::Plain));
        assert_eq!(Workload::Misses.floor(), Some(Kind::Relay));
        assert_eq!(Workload::Validated100.asked(&[], &[]), Workload::Cached100.asked(&[], &[]));
    }

    #[test]
    fn misses_are_asked_for_at_every_rate_between_one_alone_and_as_many_as_there_can_be() {
        let cells = Workload::Misses.asked(&[], &MISS_RATES);
        let names: Vec<String> = cells.iter().map(|cell| cell.name()).collect();
        assert_eq!(names.len(), MISS_RATES.len() + 2);
        assert_eq!(names[0], "one outstanding");
        assert_eq!(names[1], "fixed rate of 1000 a second, 20 clients");
        assert_eq!(names[names.len() - 2], "fixed rate of 40000 a second, 20 clients");
        assert!(cells.is_sorted(), "as the table has them");
    }

    #[test]
    fn a_second_column_takes_part_where_it_shows_something() {
        let seconds = || Kind::value_variants().iter().copied().filter(|kind| !kind.is_first());
        for kind in seconds() {
            let bases: Vec<Base> = Workload::all().iter().map(|workload| workload.base()).collect();
            let takes_part = |timed: bool| bases.iter().filter(|base| base.suits(kind, timed)).count();
            assert!(takes_part(true) >= 3, "{kind:?}");
            assert_eq!(takes_part(false), 1, "{kind:?}: once, to be known to start");
        }
        assert!(Base::OneName.suits(Kind::NsdDefaults, true));
        assert!(!Base::Taken.suits(Kind::NsdDefaults, true), "answers are not what is measured");
        assert!(!Base::OneName.suits(Kind::KresdAdvised, true), "it has no zones");
        assert!(!Base::Forwarding(Workload::Misses).suits(Kind::DnsdistAdvised, true));
    }

    #[test]
    fn every_unsigned_workload_is_asked_with_every_number_of_clients() {
        for workload in Workload::all().into_iter().filter(|workload| workload.is_unsigned()) {
            let cells = workload.asked(&[], &[]);
            for clients in [1, 20, 100, 500] {
                assert!(cells.contains(&Cell::Rate { clients }), "{workload:?} {clients}");
            }
        }
        assert_eq!(Workload::Root.asked(&[], &[]).len(), 2);
        assert_eq!(
            Workload::Nxdomain.asked(&[3], &[]),
            [Cell::Rate { clients: 3 }, Cell::Saturated { clients: 3 }]
        );
    }
}
