//! The plan: the zones, queries and kinds of load of each workload, and which workloads share zones and
//! thereby a start. Workloads are run in `session.rs`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::failure::{Context, Failure, Result};
use crate::queries::{self, Known, Mix, QuerySet, Zipf};
use crate::rules::{RuleFiles, Rules};
use crate::servers::Kind;
use crate::session::Plan;
use crate::zones::{Denial, Maker, ZoneSet, top_level_names};

/// A workload, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    /// Only `www.example.com A`.
    OneName,
    /// The root zone, mostly non-existent names, mostly with DO.
    Root,
    /// One zone of many delegations: 85 % referrals, 15 % NXDOMAIN.
    Delegations,
    /// The same zone, only non-existent names.
    Nxdomain,
    /// Ten thousand small zones.
    #[value(name = "zones-10k")]
    Zones10k,
    /// A hundred thousand small zones.
    #[value(name = "zones-100k")]
    Zones100k,
    /// A zone signed with NSEC, queried with DO.
    SignedNsec,
    /// A zone signed with NSEC3, queried with DO.
    SignedNsec3,
    /// The delegations over TCP: pipelined, and one query per connection.
    Tcp,
    /// Start with the delegations, until the first answers.
    Load,
    /// Restart with the delegations, from nomen's image of them.
    Restart,
    /// Start with a far larger zone of delegations, once; not among the defaults.
    LoadLarge,
    /// The delegations from kxdpgun over veth, saturated: sockets and AF_XDP.
    Veth,
    /// The delegations sent to another server as a whole.
    AxfrOut,
    /// The delegations received from a primary as a whole.
    AxfrIn,
    /// Very many small zones received from a primary, changed at once, stored, and due for a refresh at once.
    Secondaries,
    /// Dynamic updates of a zone of delegations, each of them durable.
    Update,
    /// Resolvers: a hundred names, all cached.
    #[value(name = "cached-100")]
    Cached100,
    /// Resolvers: the hundred from kxdpgun over veth, saturated: sockets and AF_XDP.
    CachedVeth,
    /// Resolvers: many cached names, some queried far more often than others.
    #[value(name = "cached-200k")]
    Cached200k,
    /// Resolvers: a hundred cached names in a signed zone, validated, queried with DO.
    #[value(name = "validated-100")]
    Validated100,
    /// Resolvers: the same hundred from kxdpgun over veth, saturated: sockets and AF_XDP.
    ValidatedVeth,
    /// Resolvers: many names in a signed zone, some queried far more often than others.
    #[value(name = "validated-200k")]
    Validated200k,
    /// Resolvers: every query for a new name.
    Misses,
    /// Resolvers: new names as fast as they are answered, and a well-behaved client beside them.
    Flood,
    /// Resolvers: twice as many new names as they can answer, and a well-behaved client beside them.
    Overload,
    /// Resolvers on the small Internet: iteration from the root, with empty caches.
    Cold,
    /// Resolvers with zones that use up their CPU, and a well-behaved client beside these queries.
    Attacks,
    /// Resolvers with rules: cached answers about other names beside the same without rules, and answers by
    /// rules.
    Policy,
    /// Starts of resolvers with rules.
    PolicyStart,
    /// A client of cached names beside refreshes of a resolver's rules.
    PolicyUpdates,
}

/// Sizes that scale every workload.
#[derive(Clone, Debug, Default)]
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
    /// Cached names of `cached-200k` and `validated-200k`.
    pub(crate) cached: u64,
    /// Names queried with empty caches.
    pub(crate) cold: u64,
    /// Names that the well-behaved client of `flood` queries.
    pub(crate) client: u64,
    /// Delegations in the zone of `update`.
    pub(crate) updated: u64,
    /// Whether zone files of delegations are in canonical order.
    pub(crate) sorted: bool,
    /// Zones of a secondary.
    pub(crate) taken: u64,
    /// Names that have a rule.
    pub(crate) rules: u64,
    /// Refreshes of rules of each kind.
    pub(crate) refreshes: u64,
}

impl Sizes {
    /// Returns the number of names in the smaller lists.
    pub(crate) fn few_rules(&self) -> u64 {
        (self.rules / 5).max(1)
    }
}

/// Number of names of `cached-100`, `cached-veth`, `validated-100` and `validated-veth`.
pub(crate) const FEW_NAMES: u64 = 100;

/// Malicious queries per second of `attacks`.
pub(crate) const ATTACK_RATE: u64 = 150;

/// One kind of load within a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// One query outstanding.
    RoundTrip,
    /// A fixed rate below any server's limit.
    Rate {
        /// Client sockets.
        clients: usize,
    },
    /// A fixed rate of new names.
    MissRate {
        /// Queries per second.
        rate: u64,
        /// Client sockets.
        clients: usize,
    },
    /// As many queries as are answered.
    Saturated {
        /// Client sockets.
        clients: usize,
    },
    /// TCP, with many queries in flight on each connection.
    TcpPipelined {
        /// Connections.
        clients: usize,
    },
    /// TCP, a new connection for each query.
    TcpConnections {
        /// Concurrent connections.
        clients: usize,
    },
    /// As many queries as kxdpgun sends, over veth.
    Veth {
        /// Whether to AF_XDP rather than to sockets.
        xdp: bool,
    },
    /// Only a well-behaved client.
    Alone,
    /// A well-behaved client beside new names as fast as they are answered.
    Flood,
    /// A well-behaved client beside twice as many new names as the server can answer.
    Overload,
    /// A whole-zone transfer.
    Transfer,
    /// A phase of a secondary of very many zones.
    Secondary(Phase),
    /// Names of the small Internet, each once.
    Cold(Names),
    /// A well-behaved client beside malicious queries at a fixed rate.
    Attack(Attack),
    /// Updates, each after the reply to the one before.
    Update {
        /// Whether over TCP.
        tcp: bool,
        /// Number of concurrent clients.
        clients: usize,
    },
    /// A resolver with these rules.
    Policy {
        /// What is measured.
        measured: Governed,
        /// The rules.
        rules: Rules,
    },
    /// A client of cached names beside refreshes of rules.
    Refresh(Refreshed),
}

/// What is measured of a resolver with rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Governed {
    /// Its start.
    Start,
    /// Cached answers about names without a rule, saturated.
    Cached,
    /// Answers by rules, saturated.
    Ruled,
}

/// Rules that are refreshed, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refreshed {
    /// None.
    None,
    /// A list whose file changes.
    List,
    /// A response policy zone that its primary changes.
    Zone,
}

/// Phases of a secondary of very many zones, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It starts without any of them.
    Start,
    /// All change at once, with a NOTIFY for each.
    Change,
    /// It restarts, with what it stored.
    Restart,
    /// All are due for a refresh, again and again.
    Refresh,
}

impl Phase {
    /// Returns the name in tables.
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
    /// In unsigned zones.
    Unsigned,
    /// In zones that are signed from the root on.
    Signed,
    /// In all zones, including broken ones.
    Mixed,
}

impl Names {
    /// Returns the name of the list of questions.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Names::Unsigned => "unsigned",
            Names::Signed => "signed",
            Names::Mixed => "mixed",
        }
    }
}

/// An attack on a resolver's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attack {
    /// Signatures and keys any of which might match (CVE-2023-50387).
    KeyTrap,
    /// Non-existent names of many labels, in a zone with many iterations (CVE-2023-50868).
    Nsec3,
}

impl Attack {
    /// Returns the name of the list of questions.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Attack::KeyTrap => "keytrap",
            Attack::Nsec3 => "nsec3",
        }
    }
}

impl Cell {
    /// Returns the name in tables.
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
            Cell::Policy { measured: Governed::Start, rules } => format!("start, {}", rules.name()),
            Cell::Policy { measured: Governed::Cached, rules } => format!("cached names, {}", rules.name()),
            Cell::Policy { measured: Governed::Ruled, rules } => {
                format!("names with a rule, {}", rules.name())
            }
            Cell::Refresh(Refreshed::None) => "client alone".to_string(),
            Cell::Refresh(Refreshed::List) => "client beside reloads of a list".to_string(),
            Cell::Refresh(Refreshed::Zone) => "client beside IXFRs of a policy zone".to_string(),
        }
    }
}

/// Default rates of new names per second, for which the goals are defined.
pub(crate) const MISS_RATES: [u64; 5] = [1_000, 5_000, 10_000, 20_000, 40_000];

/// Returns the label of a row with this rate of new names.
pub(crate) fn miss_rate(rate: u64, clients: usize) -> String {
    format!("fixed rate of {rate} a second, {}", plural(clients))
}

fn plural(clients: usize) -> String {
    if clients == 1 { "1 client".to_string() } else { format!("{clients} clients") }
}

/// The zones of a workload. Workloads with the same zones share each start of a server.
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
    /// The delegations, received from a primary.
    Taken,
    /// Small zones, received from a primary.
    TakenMany,
    /// The zone of `update`.
    Updated,
    /// None: servers forward. Each such workload needs a cache in a certain state, so it shares no start.
    Forwarding(Workload),
    /// A signed zone behind the upstream, whose answers servers validate: they have no zones.
    Validating(Workload),
    /// Those of the small Internet, where servers iterate from the root.
    Internet(Workload),
    /// None: servers with rules forward.
    Policy,
    /// None: servers whose rules are refreshed forward.
    PolicyUpdates,
}

impl Base {
    /// Makes or finds the zones.
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
            Base::Policy | Base::PolicyUpdates => {
                Ok(ZoneSet { key: "policy".to_string(), zones: Vec::new(), records: 0, denial: None })
            }
            // The servers do not load the origin's zone.
            Base::Validating(workload) => {
                let zones = maker.validated(workload.known(sizes).unwrap_or(FEW_NAMES))?;
                Ok(ZoneSet { key: workload.name(), records: 0, ..zones })
            }
        }
    }

    /// Makes or finds the files with rules, if servers have any.
    pub(crate) fn rules(self, work: &Path, sizes: &Sizes, seed: u64) -> Result<Option<RuleFiles>> {
        self.has_rules().then(|| RuleFiles::make(work, sizes, seed)).transpose()
    }

    /// Whether servers forward instead of answering from zones.
    pub(crate) fn forwards(self) -> bool {
        matches!(self, Base::Forwarding(_) | Base::Validating(_)) || self.has_rules()
    }

    /// Whether servers have rules.
    pub(crate) fn has_rules(self) -> bool {
        matches!(self, Base::Policy | Base::PolicyUpdates)
    }

    /// Whether servers iterate from the root.
    pub(crate) fn iterates(self) -> bool {
        matches!(self, Base::Internet(_))
    }

    /// Whether the figures of starts are shown: not if servers have hardly any data at that point, or if
    /// starts have rows.
    pub(crate) fn has_starts(self) -> bool {
        !matches!(self, Base::Taken | Base::TakenMany | Base::Updated) && !self.has_rules()
    }

    /// Whether a second configuration shows something here that the first does not: defaults where answers
    /// are positive and a socket buffer can be full; PowerDNS' caches where names are few or many; kresd's
    /// where it writes its cache; dnsdist's batches where it answers. Without timing, each takes part once,
    /// to check that it starts.
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

    /// Whether a server can take part, and shows something if it does. `timed` is false if figures do not
    /// count.
    pub(crate) fn suits(self, kind: Kind, timed: bool) -> bool {
        if !kind.is_first() && !self.has_second(kind, timed) {
            return false;
        }
        match self {
            Base::Forwarding(_) => kind.forwards(),
            Base::Validating(_) | Base::Internet(_) => kind.validates(),
            Base::Taken | Base::TakenMany => kind.takes_zones(),
            Base::Updated => kind.takes_updates(),
            Base::Policy => kind.has_policy(),
            Base::PolicyUpdates => kind == Kind::Nomen,
            _ => kind.serves_zones(),
        }
    }

    /// Returns what nomen's configuration reference must contain for nomen to take part, and the message
    /// otherwise; `None` if every nomen can.
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
            Base::Policy | Base::PolicyUpdates => {
                Some(("## `[[policy.zone]]`", "this one has no response policy zones"))
            }
            _ => None,
        }
    }

    /// Whether servers are also watched while idle: once with hardly any zones, once with a big one, once
    /// with many.
    pub(crate) fn idles(self) -> bool {
        matches!(self, Base::OneName | Base::Delegations | Base::Large | Base::Zones100k)
    }
}

/// Workloads that share their zones, in the order of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The zones.
    pub(crate) base: Base,
    /// The workloads, at least one.
    pub(crate) workloads: Vec<Workload>,
}

/// Groups workloads into stages, in the order of their first workload.
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
    /// Returns the workload whose table shows the starts: the one about starts, or else the first.
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
    /// Returns the default workloads, in the order of the table.
    pub(crate) fn all() -> Vec<Workload> {
        let all = Workload::value_variants().iter().copied();
        all.filter(|workload| *workload != Workload::LoadLarge).collect()
    }

    /// Returns the name on the command line and in results.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// Returns its zones.
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
            Workload::Policy | Workload::PolicyStart => Base::Policy,
            Workload::PolicyUpdates => Base::PolicyUpdates,
        }
    }

    /// Returns the number of names cached before the measurement; `None` if all are new.
    pub(crate) fn known(self, sizes: &Sizes) -> Option<u64> {
        match self {
            Workload::Cached100
            | Workload::CachedVeth
            | Workload::Validated100
            | Workload::ValidatedVeth
            | Workload::Policy
            | Workload::PolicyStart
            | Workload::PolicyUpdates
            | Workload::Overload => Some(FEW_NAMES),
            Workload::Cached200k | Workload::Validated200k => Some(sizes.cached),
            Workload::Flood => Some(sizes.client),
            _ => None,
        }
    }

    /// Whether it only queries cached answers, which are measured like those from zones.
    pub(crate) fn is_cached(self) -> bool {
        matches!(self, Workload::Cached100 | Workload::CachedVeth | Workload::Cached200k)
            || self.is_validated()
    }

    /// Whether queries come over veth; servers with AF_XDP are then measured with that as well.
    pub(crate) fn is_over_veth(self) -> bool {
        matches!(self, Workload::Veth | Workload::CachedVeth | Workload::ValidatedVeth)
    }

    /// Whether its answers are validated, and have signatures.
    pub(crate) fn is_validated(self) -> bool {
        matches!(self, Workload::Validated100 | Workload::ValidatedVeth | Workload::Validated200k)
    }

    /// Whether it has enough names to compute the size of a cache entry.
    pub(crate) fn tells_entries(self) -> bool {
        matches!(self, Workload::Cached200k | Workload::Validated200k)
    }

    /// Returns the kind of its repeated questions.
    pub(crate) fn which(self) -> Known {
        if self.is_validated() { Known::Signed } else { Known::Plain }
    }

    /// Returns the size of a resolver's cache in bytes: small enough for a flood to fill it.
    pub(crate) fn cache(self, plan: &Plan) -> u64 {
        if self == Workload::Flood { plan.flood_cache } else { plan.cache }
    }

    /// Returns a description in one line.
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
            Workload::Cached100 => format!("resolvers, {FEW_NAMES} names, all cached"),
            Workload::CachedVeth => format!("resolvers, {FEW_NAMES} cached names, kxdpgun over veth"),
            Workload::Cached200k => format!("resolvers, {} cached names, Zipf", sizes.cached),
            Workload::Validated100 => {
                format!("resolvers, {FEW_NAMES} names with DO, all cached and validated")
            }
            Workload::ValidatedVeth => {
                format!("resolvers, {FEW_NAMES} names with DO, cached and validated, kxdpgun over veth")
            }
            Workload::Validated200k => {
                format!("resolvers, {} names with DO, cached and validated, Zipf", sizes.cached)
            }
            Workload::Misses => "resolvers, every query for a new name".to_string(),
            Workload::Flood => {
                format!("resolvers, a flood of new names beside a client of {} names, Zipf", sizes.client)
            }
            Workload::Overload => {
                format!(
                    "resolvers, twice their capacity of new names beside a client of {FEW_NAMES} cached names"
                )
            }
            Workload::Cold => format!("resolvers from the root on, {} names, empty caches", sizes.cold),
            Workload::Attacks => {
                format!("resolvers, {ATTACK_RATE} malicious queries a second beside a client of cached names")
            }
            Workload::Policy => {
                let (all, few) = (sizes.rules, sizes.few_rules());
                format!("resolvers, rules about {all} names ({few} in exact and wildcard lists), 20 clients")
            }
            Workload::PolicyStart => format!("start of resolvers, rules about {} names", sizes.rules),
            Workload::PolicyUpdates => format!(
                "resolvers, {} refreshes of rules about {} names beside a client of cached names",
                sizes.refreshes, sizes.rules
            ),
        }
    }

    /// Whether its answers have no signatures, and are measured with every number of clients.
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

    /// Returns its loads for a plan.
    pub(crate) fn cells(self, plan: &Plan) -> Vec<Cell> {
        self.asked(&plan.clients, &plan.miss_rates)
    }

    /// Returns its loads. `clients` are the client counts to use; if empty, unsigned workloads use 1, 20, 100
    /// and 500, the others 20.
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
            Workload::Policy => {
                let rules = [Rules::None, Rules::Zone, Rules::List, Rules::Exact, Rules::Wild];
                let cell = |measured| move |rules| Cell::Policy { measured, rules };
                let ruled = rules[1..].iter().copied().map(cell(Governed::Ruled));
                rules.into_iter().map(cell(Governed::Cached)).chain(ruled).collect()
            }
            Workload::PolicyStart => {
                let start = |rules| Cell::Policy { measured: Governed::Start, rules };
                [Rules::None, Rules::Zone, Rules::List, Rules::Lists].map(start).to_vec()
            }
            Workload::PolicyUpdates => {
                [Refreshed::None, Refreshed::List, Refreshed::Zone].map(Cell::Refresh).to_vec()
            }
            // Some servers have a listen backlog of ten; above that the generator would measure lost SYNs.
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

    /// Whether the reflector shows a client's latency beside a flood that costs the server nothing. In an
    /// overload it shows nothing: the overload is as much as it can answer.
    pub(crate) fn is_beside(self) -> bool {
        self == Workload::Flood
    }

    /// Returns the server that shows the lowest possible cost. A reflector supports UDP only and loads
    /// nothing.
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

    /// Makes or finds the queries for these zones.
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
            | Workload::Policy
            | Workload::PolicyStart
            | Workload::PolicyUpdates
            | Workload::Overload => Mix::Even { count: FEW_NAMES, known: self.which() },
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
            // The queries of the larger loads are made on the fly.
            Workload::OneName | Workload::Misses | Workload::Flood | Workload::Overload => 1000,
            // Only the sample is used.
            Workload::Secondaries | Workload::PolicyStart | Workload::PolicyUpdates => 1000,
            _ => sizes.queries,
        };
        queries::make(&work.join("queries"), &key, &mix, seed, count)
    }
}

/// Returns the default folder for zones and queries between runs.
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
    #[test]
    fn each_policy_load_has_its_rules_and_peers_have_the_zone_alone() {
        let stages = stages(&[Workload::Policy, Workload::PolicyStart, Workload::PolicyUpdates]);
        assert_eq!(stages.iter().map(|stage| stage.workloads.len()).collect::<Vec<_>>(), [2, 1]);
        assert!(stages.iter().all(|stage| stage.base.forwards() && !stage.base.has_starts()));
        let names: Vec<String> = Workload::Policy.asked(&[], &[]).iter().map(|cell| cell.name()).collect();
        assert_eq!(names.len(), 9);
        assert_eq!((&names[0][..], &names[5][..]), ("cached names, no rules", "names with a rule, RPZ"));
        for kind in [Kind::Unbound, Kind::Bind, Kind::Recursor] {
            assert!(Base::Policy.suits(kind, true) && !Base::PolicyUpdates.suits(kind, true));
            assert!(Rules::Zone.suits(kind) && !Rules::List.suits(kind), "{kind:?}");
        }
        assert!(Base::PolicyUpdates.suits(Kind::Nomen, true) && !Base::Policy.suits(Kind::Kresd, true));
        for workload in [Workload::Policy, Workload::PolicyStart, Workload::PolicyUpdates] {
            assert!(workload.floor().is_none() && workload.asked(&[], &[]).is_sorted(), "{workload:?}");
        }
    }
}
