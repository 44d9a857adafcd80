//! Compares nomen with its peers in one run: the command line. The script `run` beside this crate builds it
//! and installs missing programs; README.md explains the measurements and how to read them.

mod answers;
mod axfr;
mod buffers;
mod client;
mod failure;
mod goals;
mod internet;
mod iterating;
mod load;
mod measure;
mod message;
mod namespaces;
mod plot;
mod primary;
mod programs;
mod provider;
mod queries;
mod random;
mod redirect;
mod reflector;
mod refreshing;
mod relay;
mod report;
mod resolvers;
mod resolving;
mod rules;
mod secondaries;
mod servers;
mod session;
mod stream;
mod sweep;
mod sys;
mod tcp;
mod transfers;
mod updating;
mod upstream;
mod workloads;
mod zones;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, Subcommand};

use buffers::{Buffers, KERNEL, SOCKET_BUFFER};
use failure::{Context, Failure, Result};
use programs::Programs;
use report::{Machine, Results};
use servers::Kind;
use session::Plan;
use workloads::{MISS_RATES, Sizes, Workload};

/// Compares nomen with its peers on this machine.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,
    /// Everything once, at tiny sizes, in a minute or two.
    #[arg(long)]
    smoke: bool,
    /// Every row, in two rounds of one second each: about half an hour.
    #[arg(long)]
    short: bool,
    /// Workloads, separated by commas; all of them but load-large by default.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Servers, separated by commas; all that are installed by default.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<Kind>,
    /// Seconds of each measurement [default: 3, short: 1].
    #[arg(long)]
    seconds: Option<f64>,
    /// Rounds; medians are reported [default: 3, short: 2].
    #[arg(long)]
    rounds: Option<usize>,
    /// Numbers of clients, separated by commas [default: 1,20,100,500 for unsigned zones over UDP, else 20].
    #[arg(long, value_delimiter = ',')]
    clients: Vec<usize>,
    /// Queries per second where the server is not saturated.
    #[arg(long, default_value_t = 40_000)]
    rate: u64,
    /// Queries per second that kxdpgun sends over veth; more than any server answers.
    #[arg(long, default_value_t = 1_500_000)]
    flood: u64,
    /// Delegations in the big zone, four records each.
    #[arg(long, default_value_t = 1_000_000)]
    names: u64,
    /// Delegations in the zone of load-large; 8,750,000 make 35 million records.
    #[arg(long, default_value_t = 8_750_000)]
    large_names: u64,
    /// Zones of the workload zones-10k.
    #[arg(long, default_value_t = 10_000)]
    zones: u64,
    /// Zones of the workload zones-100k.
    #[arg(long, default_value_t = 100_000)]
    more_zones: u64,
    /// Names in the signed zones.
    #[arg(long, default_value_t = 100_000)]
    signed_names: u64,
    /// Delegations in the zone of the workload update, four records each.
    #[arg(long, default_value_t = 10_000)]
    updated_names: u64,
    /// Write delegations in canonical order, as registries do: peers then have neighbours next to each other
    /// in memory.
    #[arg(long)]
    sorted: bool,
    /// Zones of the workload secondaries [default: 100000, short: 10000].
    #[arg(long)]
    secondary_zones: Option<u64>,
    /// Names that have a rule in the workloads policy, policy-start and policy-updates.
    #[arg(long, default_value_t = 1_000_000)]
    rules: u64,
    /// Refreshes of rules of each kind in the workload policy-updates [default: 100, short: 20].
    #[arg(long)]
    refreshes: Option<u64>,
    /// Queries in a file before it repeats.
    #[arg(long, default_value_t = 1_000_000)]
    queries: u64,
    /// Seed of zones and queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A root zone file (plain or .gz) to serve instead of a generated one.
    #[arg(long)]
    root_zone: Option<PathBuf>,
    /// Answers compared between the servers before they are timed.
    #[arg(long, default_value_t = 500)]
    sample: usize,
    /// CPU of the server [default: the last].
    #[arg(long)]
    server_cpu: Option<usize>,
    /// CPU of the load generator.
    #[arg(long, default_value_t = 0)]
    load_cpu: usize,
    /// First of thirty ports on loopback.
    #[arg(long, default_value_t = 25_400)]
    port: u16,
    /// Seconds a server may take to load.
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// Folder where zones and queries are kept between runs.
    #[arg(long)]
    work: Option<PathBuf>,
    /// Folder for the results [default: bench/results/DATE-MACHINE].
    #[arg(long)]
    out: Option<PathBuf>,
    /// The nomen to measure.
    #[arg(long, default_value = "target/release/nomen")]
    nomen: PathBuf,
    /// The nsd to measure.
    #[arg(long, default_value = "nsd")]
    nsd: PathBuf,
    /// The knotd to measure.
    #[arg(long, default_value = "knotd")]
    knotd: PathBuf,
    /// The named to measure.
    #[arg(long, default_value = "named")]
    named: PathBuf,
    /// The pdns_server to measure.
    #[arg(long, default_value = "pdns_server")]
    pdns: PathBuf,
    #[command(flatten)]
    resolvers: Resolvers,
}

/// Options of the resolver workloads.
#[derive(clap::Args)]
struct Resolvers {
    /// MiB of a resolver's cache.
    #[arg(long, default_value_t = 256)]
    cache_size: u64,
    /// MiB of a resolver's cache in the workload flood, which fills it.
    #[arg(long, default_value_t = 32)]
    flood_cache_size: u64,
    /// Cached names of the workloads cached-200k and validated-200k.
    #[arg(long, default_value_t = 200_000)]
    cached_names: u64,
    /// Names that the well-behaved client of the workload flood queries.
    #[arg(long, default_value_t = 20_000)]
    client_names: u64,
    /// Names that the workload cold queries, for each kind of zones.
    #[arg(long, default_value_t = 50_000)]
    cold_names: u64,
    /// The program that lends the small Internet to cold and attacks, which need root.
    #[arg(long, default_value = "target/release/conformance")]
    conformance: PathBuf,
    /// Queries per second for new names, separated by commas: each is a row.
    #[arg(long, alias = "miss-rate", value_delimiter = ',', default_values_t = MISS_RATES)]
    miss_rates: Vec<u64>,
    /// Milliseconds that the upstream delays each answer.
    #[arg(long, default_value_t = 0)]
    delay: u64,
    /// CPU of the upstream [default: one that neither server nor generator has, or else the generator's].
    #[arg(long)]
    upstream_cpu: Option<usize>,
    /// The unbound to measure.
    #[arg(long, default_value = "unbound")]
    unbound: PathBuf,
    /// The pdns_recursor to measure.
    #[arg(long, default_value = "pdns_recursor")]
    recursor: PathBuf,
    /// The dnsdist to measure.
    #[arg(long, default_value = "dnsdist")]
    dnsdist: PathBuf,
    /// The kresd to measure.
    #[arg(long, default_value = "kresd")]
    kresd: PathBuf,
}

#[derive(Subcommand)]
enum Part {
    /// Only send every query back as its response (started by the benchmark itself).
    #[command(hide = true)]
    Reflector {
        /// Address and port.
        #[arg(long)]
        listen: SocketAddr,
        /// Minimum size of a response.
        #[arg(long, default_value_t = 0)]
        size: usize,
        /// Interface whose queries are received by AF_XDP.
        #[arg(long)]
        xdp: Option<String>,
    },
    /// Only redirect datagrams for this address from an interface to a program's AF_XDP socket, and become
    /// that program (started by the benchmark itself).
    #[command(hide = true)]
    Redirect {
        /// Interface.
        #[arg(long)]
        interface: String,
        /// Address and port.
        #[arg(long)]
        listen: SocketAddr,
        /// The program and its arguments.
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Only forward every query from a port of its own, and return the answer (started by the benchmark
    /// itself).
    #[command(hide = true)]
    Relay {
        /// Address and port.
        #[arg(long)]
        listen: SocketAddr,
        /// Address that queries are forwarded to.
        #[arg(long)]
        upstream: SocketAddr,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.part {
        Some(Part::Reflector { listen, size, xdp }) => reflector::run(*listen, *size, xdp.as_deref()),
        Some(Part::Redirect { interface, listen, command }) => redirect::run(interface, *listen, command),
        Some(Part::Relay { listen, upstream }) => relay::run(*listen, *upstream),
        None => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nomen-compare: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<()> {
    sys::catch_interrupts();
    let mut results = Results { date: today(), machine: Machine::here(), ..Results::default() };
    let plan = plan(arguments, &mut results)?;
    describe(&plan, &mut results);
    let outcome = session::run(&plan, &mut results);
    results.goals = goals::evaluate(&results);
    let out = arguments.out.clone().unwrap_or_else(|| {
        let kind = if arguments.smoke { "smoke-" } else { "" };
        PathBuf::from(format!("bench/results/{}-{kind}{}", results.date, results.machine.slug()))
    });
    write(&out, &results)?;
    outcome?;
    match results.faults.first() {
        Some(fault) => Err(Failure::new(fault)),
        None => Ok(()),
    }
}

fn plan(arguments: &Arguments, results: &mut Results) -> Result<Plan> {
    let programs = programs(arguments);
    let wanted: Vec<Kind> = if arguments.servers.is_empty() {
        <Kind as clap::ValueEnum>::value_variants().to_vec()
    } else {
        arguments.servers.clone()
    };
    let (servers, missing): (Vec<Kind>, Vec<Kind>) = wanted.into_iter().partition(|kind| programs.has(*kind));
    for kind in missing.into_iter().filter(|kind| kind.is_first()) {
        results.skip(kind, format!("{}: not installed", kind.name()));
    }
    if servers.is_empty() {
        return Err(Failure::new("none of the servers is installed"));
    }
    let work = arguments.work.clone().unwrap_or_else(workloads::default_work);
    fs::create_dir_all(&work).context(|| format!("cannot make {}", work.display()))?;
    let smoke = arguments.smoke;
    let (seconds, rounds) = match (smoke, arguments.short) {
        (true, _) => (0.1, 1),
        (false, true) => (1.0, 2),
        (false, false) => (3.0, 3),
    };
    let resolvers = &arguments.resolvers;
    let server_cpu = arguments.server_cpu.unwrap_or(results.machine.cpus.saturating_sub(1));
    let load_cpu = arguments.load_cpu;
    let buffers = Buffers::open(Path::new(KERNEL)).unwrap_or_else(|failure| {
        results.skipped.push(format!(
            "socket buffers are the kernel's where a server has no setting for them: {failure}"
        ));
        Buffers::default()
    });
    let spare = (0..results.machine.cpus).find(|cpu| *cpu != server_cpu && *cpu != load_cpu);
    Ok(Plan {
        workloads: if arguments.workloads.is_empty() { Workload::all() } else { arguments.workloads.clone() },
        servers,
        programs,
        seconds: arguments.seconds.unwrap_or(seconds),
        rounds: arguments.rounds.unwrap_or(rounds).max(1),
        clients: if smoke { vec![20] } else { arguments.clients.clone() },
        rate: if smoke { 5_000 } else { arguments.rate },
        flood: arguments.flood,
        sizes: sizes(arguments),
        seed: arguments.seed,
        work: fs::canonicalize(&work)?,
        root_zone: arguments.root_zone.clone(),
        server_cpu,
        load_cpu,
        port: arguments.port,
        sample: arguments.sample.max(1),
        idle: if smoke { 0.2 } else { 5.0 },
        patience: Duration::from_secs(arguments.patience),
        upstream_cpu: resolvers.upstream_cpu.or(spare).unwrap_or(load_cpu),
        delay: Duration::from_millis(resolvers.delay),
        miss_rates: if smoke { vec![1_000] } else { resolvers.miss_rates.clone() },
        buffers,
        cache: resolvers.cache_size.max(1) << 20,
        flood_cache: resolvers.flood_cache_size.max(1) << 20,
        conformance: fs::canonicalize(&resolvers.conformance)
            .unwrap_or_else(|_| resolvers.conformance.clone()),
    })
}

/// Returns the paths of the programs.
fn programs(arguments: &Arguments) -> Programs {
    Programs {
        nomen: fs::canonicalize(&arguments.nomen).unwrap_or_else(|_| arguments.nomen.clone()),
        nsd: arguments.nsd.clone(),
        knotd: arguments.knotd.clone(),
        named: arguments.named.clone(),
        pdns: arguments.pdns.clone(),
        unbound: arguments.resolvers.unbound.clone(),
        recursor: arguments.resolvers.recursor.clone(),
        dnsdist: arguments.resolvers.dnsdist.clone(),
        kresd: arguments.resolvers.kresd.clone(),
    }
}

/// Returns the sizes of zones and query files.
fn sizes(arguments: &Arguments) -> Sizes {
    if arguments.smoke {
        Sizes {
            names: 500,
            zones: (40, 80),
            large: 1000,
            signed: 100,
            queries: 2000,
            cached: 1000,
            cold: 300,
            client: 100,
            updated: 500,
            sorted: arguments.sorted,
            taken: 50,
            rules: 2000,
            refreshes: 5,
        }
    } else {
        Sizes {
            names: arguments.names.clamp(5, 25_000_000),
            zones: (arguments.zones.max(1), arguments.more_zones.max(1)),
            large: arguments.large_names.clamp(5, 25_000_000),
            signed: arguments.signed_names.max(10),
            queries: arguments.queries.max(1000),
            cached: arguments.resolvers.cached_names.clamp(1, 10_000_000),
            cold: arguments.resolvers.cold_names.clamp(100, 10_000_000),
            client: arguments.resolvers.client_names.clamp(1, 10_000_000),
            updated: arguments.updated_names.clamp(5, 25_000_000),
            sorted: arguments.sorted,
            taken: arguments
                .secondary_zones
                .unwrap_or(if arguments.short { 10_000 } else { 100_000 })
                .clamp(1, 1_000_000),
            rules: arguments.rules.clamp(100, 25_000_000),
            refreshes: arguments.refreshes.unwrap_or(if arguments.short { 20 } else { 100 }).clamp(1, 10_000),
        }
    }
}

/// Adds versions and settings to the results.
fn describe(plan: &Plan, results: &mut Results) {
    for kind in plan.servers.iter().filter(|kind| kind.is_first()) {
        if let Some(version) = plan.programs.version(*kind) {
            results.versions.insert(kind.name().to_string(), version);
        }
    }
    let mut set = |name: &str, value: String| results.settings.insert(name.to_string(), value);
    set("seconds", plan.seconds.to_string());
    set("rounds", plan.rounds.to_string());
    set("rate", plan.rate.to_string());
    set("seed", plan.seed.to_string());
    set("names", plan.sizes.names.to_string());
    set("signed names", plan.sizes.signed.to_string());
    set("updated names", plan.sizes.updated.to_string());
    if plan.sizes.sorted {
        set("delegations", "sorted".to_string());
    }
    set("secondary zones", plan.sizes.taken.to_string());
    set("rules", plan.sizes.rules.to_string());
    set("refreshes", plan.sizes.refreshes.to_string());
    set("cold names", plan.sizes.cold.to_string());
    set("queries", plan.sizes.queries.to_string());
    let rates: Vec<String> = plan.miss_rates.iter().map(u64::to_string).collect();
    set("miss rates", rates.join("/"));
    set("socket buffers MiB", (SOCKET_BUFFER >> 20).to_string());
    set("cache MiB", (plan.cache >> 20).to_string());
    set("flood cache MiB", (plan.flood_cache >> 20).to_string());
    set("upstream delay ms", plan.delay.as_millis().to_string());
}

/// Returns today's date in UTC.
fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}

/// Prints the table, and writes it, the JSON and the plots to `folder`.
fn write(folder: &Path, results: &Results) -> Result<()> {
    let table = report::table(results);
    println!("{table}");
    fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    fs::write(folder.join("table.md"), table)?;
    let json = serde_json::to_string_pretty(results).context(|| "results as JSON".to_string())?;
    fs::write(folder.join("results.json"), json + "\n")?;
    for (file, svg) in plot::charts(results) {
        fs::write(folder.join(file), svg)?;
    }
    eprintln!("written to {}", folder.display());
    Ok(())
}
