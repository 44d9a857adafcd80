//! The plan: which zones, which queries and which kinds of load make up each workload, and in what order they run
//! over the servers. Figures are only gathered here; `report.rs` prints them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::failure::Result;
use crate::queries::{self, Mix, QuerySet};
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
    /// The delegations from kxdpgun over veth, saturated: sockets and AF_XDP.
    Veth,
}

/// Sizes that scale every workload.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    /// Delegations in the big zone; it has four times as many records.
    pub(crate) names: u64,
    /// Zones of `zones-10k` and `zones-100k`.
    pub(crate) zones: (u64, u64),
    /// Names in the signed zones.
    pub(crate) signed: u64,
    /// Queries in a file before it repeats.
    pub(crate) queries: u64,
}

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
}

impl Cell {
    /// Words for tables.
    pub(crate) fn name(self) -> String {
        match self {
            Cell::RoundTrip => "one outstanding".to_string(),
            Cell::Rate { clients } => format!("fixed rate, {}", plural(clients)),
            Cell::Saturated { clients } => format!("saturated, {}", plural(clients)),
            Cell::TcpPipelined { clients } => format!("TCP pipelined, {}", plural(clients)),
            Cell::TcpConnections { clients } => format!("TCP one query a connection, {}", plural(clients)),
            Cell::Veth { xdp: false } => "saturated over veth, sockets".to_string(),
            Cell::Veth { xdp: true } => "saturated over veth, AF_XDP".to_string(),
        }
    }
}

fn plural(clients: usize) -> String {
    if clients == 1 { "1 client".to_string() } else { format!("{clients} clients") }
}

impl Workload {
    /// All of them, in the order of the table.
    pub(crate) fn all() -> Vec<Workload> {
        Workload::value_variants().to_vec()
    }

    /// The name on the command line and in results.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
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
            Workload::Veth => format!("kxdpgun over veth, {} delegations", sizes.names),
        }
    }

    /// How it is asked. `clients` are the counts wanted everywhere; without them `one-name` and `delegations` are
    /// asked with 1, 20, 100 and 500, the others with 20.
    pub(crate) fn cells(self, clients: &[usize]) -> Vec<Cell> {
        let wide = matches!(self, Workload::OneName | Workload::Delegations);
        let counts: &[usize] = match clients {
            [] if wide => &[1, 20, 100, 500],
            [] => &[20],
            given => given,
        };
        let most = counts.iter().copied().min_by_key(|count| count.abs_diff(20)).unwrap_or(20);
        match self {
            Workload::Load => Vec::new(),
            Workload::Veth => vec![Cell::Veth { xdp: false }, Cell::Veth { xdp: true }],
            // Some servers listen with a backlog of ten; beyond it the generator would time lost SYNs.
            Workload::Tcp => {
                vec![Cell::TcpPipelined { clients: most }, Cell::TcpConnections { clients: most.min(8) }]
            }
            _ => {
                let mut cells: Vec<Cell> =
                    counts.iter().map(|count| Cell::Rate { clients: *count }).collect();
                cells.push(Cell::Saturated { clients: most });
                if wide {
                    cells.push(Cell::RoundTrip);
                }
                cells
            }
        }
    }

    /// Whether a reflector says anything here: it speaks UDP only and loads nothing.
    pub(crate) fn has_floor(self) -> bool {
        !matches!(self, Workload::Tcp | Workload::Load)
    }

    /// Makes, or finds, the zones and queries.
    pub(crate) fn prepare(
        self,
        work: &Path,
        sizes: &Sizes,
        seed: u64,
        root: Option<&Path>,
    ) -> Result<Material> {
        let maker = Maker::new(&work.join("zones"), seed);
        let (zones, mix) = match self {
            Workload::OneName => (maker.one_name()?, Mix::OneName),
            Workload::Root => {
                let zones = maker.root(root)?;
                let names = top_level_names(&zones.zones[0].file)?;
                (zones, Mix::Root { names })
            }
            Workload::Delegations | Workload::Tcp | Workload::Load | Workload::Veth => {
                (maker.delegations(sizes.names)?, Mix::Delegations { count: sizes.names, nxdomain: 15 })
            }
            Workload::Nxdomain => {
                (maker.delegations(sizes.names)?, Mix::Delegations { count: sizes.names, nxdomain: 100 })
            }
            Workload::Zones10k => (maker.many(sizes.zones.0)?, Mix::Many { count: sizes.zones.0 }),
            Workload::Zones100k => (maker.many(sizes.zones.1)?, Mix::Many { count: sizes.zones.1 }),
            Workload::SignedNsec => {
                (maker.signed(sizes.signed, Denial::Nsec)?, Mix::Signed { count: sizes.signed })
            }
            Workload::SignedNsec3 => {
                (maker.signed(sizes.signed, Denial::Nsec3)?, Mix::Signed { count: sizes.signed })
            }
        };
        let key =
            if self == Workload::Nxdomain { format!("{}-nxdomain", zones.key) } else { zones.key.clone() };
        let count = if self == Workload::OneName { 1000 } else { sizes.queries };
        let queries = queries::make(&work.join("queries"), &key, &mix, seed, count)?;
        Ok(Material { zones, queries })
    }
}

/// What a workload serves and asks.
#[derive(Clone, Debug)]
pub(crate) struct Material {
    /// The zones.
    pub(crate) zones: ZoneSet,
    /// The queries.
    pub(crate) queries: QuerySet,
}

/// Where zones and queries are kept between runs.
pub(crate) fn default_work() -> PathBuf {
    std::env::temp_dir().join("nomen-compare")
}
