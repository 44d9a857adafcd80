//! One run: for every workload, round by round and server by server, start, check the answers, load, measure,
//! stop. Servers take turns (A B C, A B C) so that a machine that drifts drifts for all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::answers::{self, Answers};
use crate::failure::{Failure, Result};
use crate::load::{self, Dnsperf, Load};
use crate::measure::{self, Watch};
use crate::namespaces;
use crate::queries;
use crate::report::{Agreement, Figures, Group, Loading, Results, Row};
use crate::servers::{self, Kind, Programs, Server, Settings, Startup};
use crate::sys;
use crate::workloads::{Cell, Material, Sizes, Workload};

/// What the command line asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Workloads in order.
    pub(crate) workloads: Vec<Workload>,
    /// Servers in order; the reflector is run last.
    pub(crate) servers: Vec<Kind>,
    /// Their programs.
    pub(crate) programs: Programs,
    /// Seconds of each measurement.
    pub(crate) seconds: f64,
    /// Rounds.
    pub(crate) rounds: usize,
    /// Client counts, or the workload's own if empty.
    pub(crate) clients: Vec<usize>,
    /// Queries a second of the fixed-rate measurements.
    pub(crate) rate: u64,
    /// Queries a second that kxdpgun sends.
    pub(crate) flood: u64,
    /// Whether nomen has an AF_XDP front to measure.
    pub(crate) nomen_xdp: bool,
    /// Sizes of zones and query files.
    pub(crate) sizes: Sizes,
    /// Seed of zones and queries.
    pub(crate) seed: u64,
    /// Folder for zones, queries and the servers' own files.
    pub(crate) work: PathBuf,
    /// Root zone to serve instead of a made one.
    pub(crate) root_zone: Option<PathBuf>,
    /// CPU of the server.
    pub(crate) server_cpu: usize,
    /// CPU of the load generator.
    pub(crate) load_cpu: usize,
    /// First port; each start takes the next one.
    pub(crate) port: u16,
    /// Answers compared before timing.
    pub(crate) sample: usize,
    /// How long a server may take to load.
    pub(crate) patience: Duration,
}

/// Queries that must be answered before a server counts as started.
const PROBES: usize = 16;

/// Everything one server has shown so far in a workload.
#[derive(Default)]
struct Record {
    answers: Option<Answers>,
    starts: Vec<Startup>,
    samples: BTreeMap<Cell, Vec<Figures>>,
    rcodes: BTreeMap<Cell, BTreeMap<String, u64>>,
    trouble: Option<String>,
}

/// Runs the plan and adds to the results; what cannot run is skipped with its reason.
pub(crate) fn run(plan: &Plan, results: &mut Results) -> Result<()> {
    for workload in &plan.workloads {
        if let Err(failure) = run_workload(plan, *workload, results) {
            if sys::interrupted() {
                return Err(Failure::new("interrupted; only what was finished before is in the results"));
            }
            eprintln!("{}: {failure}", workload.name());
            results.skipped.push(format!("{}: {failure}", workload.name()));
        }
    }
    Ok(())
}

fn run_workload(plan: &Plan, workload: Workload, results: &mut Results) -> Result<()> {
    let material = workload.prepare(&plan.work, &plan.sizes, plan.seed, plan.root_zone.as_deref())?;
    sys::pin(0, plan.load_cpu)?;
    let mut kinds: Vec<Kind> =
        plan.servers.iter().copied().filter(|kind| kind.serves_zones() || workload.has_floor()).collect();
    kinds.sort_by_key(|kind| !kind.serves_zones());
    let step = (material.queries.count as usize / plan.sample.max(1)).max(1);
    let sample = queries::read(&material.queries.wire, plan.sample, step)?;
    let mut records: BTreeMap<Kind, Record> = BTreeMap::new();
    for round in 0..plan.rounds {
        for kind in &kinds {
            let size = reply_size(&records);
            let record = records.entry(*kind).or_default();
            if record.trouble.is_some() {
                continue;
            }
            eprintln!("{} round {}/{}: {}", workload.name(), round + 1, plan.rounds, kind.name());
            if let Err(failure) = turn(plan, workload, *kind, &material, &sample, size, record) {
                if sys::interrupted() {
                    return Err(failure);
                }
                eprintln!("  {failure}");
                // What goes into results names no folder of this machine.
                let work = plan.work.display().to_string();
                record.trouble = Some(failure.to_string().replace(&work, "WORK"));
            }
        }
        if round == 0 {
            judge(plan, workload, &mut records, results);
        }
    }
    gather(workload, &material, &kinds, &records, results);
    Ok(())
}

/// The size the reflector's replies should have: the mean of those of the first server that answered.
fn reply_size(records: &BTreeMap<Kind, Record>) -> usize {
    let sizes = records.values().filter_map(|record| Some(record.answers.as_ref()?.mean_size));
    sizes.map(|size| size.round() as usize).next().unwrap_or(0)
}

/// One server's turn in one round.
fn turn(
    plan: &Plan,
    workload: Workload,
    kind: Kind,
    material: &Material,
    sample: &[Vec<u8>],
    response_size: usize,
    record: &mut Record,
) -> Result<()> {
    let cells = workload.cells(&plan.clients);
    let mut settings = Settings {
        address: ([127, 0, 0, 1], plan.port + kind as u16).into(),
        cpu: plan.server_cpu,
        apart: false,
        xdp: false,
        folder: plan.work.join("run").join(kind.name()),
        response_size,
    };
    if workload != Workload::Veth {
        return turn_with(plan, kind, &settings, &cells, material, sample, record);
    }
    settings.address = (namespaces::SERVER_ADDRESS, 53).into();
    settings.apart = true;
    for cell in cells {
        settings.xdp = cell == Cell::Veth { xdp: true };
        let able = kind.has_xdp() && (kind != Kind::Nomen || plan.nomen_xdp);
        if !settings.xdp || able {
            // A fresh pair each time: an XDP program left on an interface must not meet the next server.
            let _pair = namespaces::Pair::create()?;
            turn_with(plan, kind, &settings, &[cell], material, sample, record)?;
        }
    }
    Ok(())
}

/// Starts the server as set, checks its answers once, and measures it under each kind of load.
fn turn_with(
    plan: &Plan,
    kind: Kind,
    settings: &Settings,
    cells: &[Cell],
    material: &Material,
    sample: &[Vec<u8>],
    record: &mut Record,
) -> Result<()> {
    let probes: Vec<Vec<u8>> =
        sample.iter().step_by((sample.len() / PROBES).max(1)).take(PROBES).cloned().collect();
    let server = servers::start(kind, &plan.programs, settings, &material.zones, &probes, plan.patience)?;
    settle(&server)?;
    if kind.serves_zones() {
        let memory = measure::memory(&measure::processes(server.group()));
        let idle = cells.is_empty().then(|| idle(plan, &server));
        record.starts.push(Startup { memory, idle, ..server.startup });
        if record.answers.is_none() {
            record.answers = Some(answers::ask(settings.client_namespace(), server.address, sample)?);
        }
    }
    for cell in cells {
        let (load, figures) = measure(plan, &server, *cell, material)?;
        record.samples.entry(*cell).or_default().push(figures);
        let codes = record.rcodes.entry(*cell).or_default();
        for (code, count) in load.rcodes {
            *codes.entry(code).or_default() += count;
        }
    }
    Ok(())
}

/// Waits until the server has no work of its own left from loading (Knot goes on for a while after it answers),
/// so that none of it is counted against queries; half a minute at most.
fn settle(server: &Server) -> Result<()> {
    let window = Duration::from_millis(100);
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let watch = Watch::start(server.group());
        std::thread::sleep(window);
        let used = watch.stop();
        // Waiting for its CPU is work that is still to come.
        if used.cpu + used.waiting < 0.02 * window.as_secs_f64() {
            return Ok(());
        }
        if sys::interrupted() {
            return Err(Failure::new("interrupted"));
        }
    }
    Ok(())
}

/// Share of a CPU the server uses with nothing to do.
fn idle(plan: &Plan, server: &Server) -> f64 {
    let watch = Watch::start(server.group());
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(plan.seconds));
    watch.stop().cpu / began.elapsed().as_secs_f64()
}

/// Warms up for a fifth of the time, then loads and watches.
fn measure(plan: &Plan, server: &Server, cell: Cell, material: &Material) -> Result<(Load, Figures)> {
    let watched = |seconds: f64, queries: &[Vec<u8>]| -> Result<(Load, Figures)> {
        let watch = Watch::start(server.group());
        let load = apply(plan, server, cell, material, queries, seconds)?;
        let figures = Figures::new(&load, &watch.stop());
        Ok((load, figures))
    };
    let needed = queries::read(&material.queries.wire, 100_000, 1)?;
    apply(plan, server, cell, material, &needed, plan.seconds / 5.0)?;
    let (load, figures) = watched(plan.seconds, &needed)?;
    if load.answered == 0 {
        return Err(Failure::new(format!("{}: nothing was answered", cell.name())));
    }
    Ok((load, figures))
}

fn apply(
    plan: &Plan,
    server: &Server,
    cell: Cell,
    material: &Material,
    queries: &[Vec<u8>],
    seconds: f64,
) -> Result<Load> {
    let wire = &material.queries.wire;
    let perf = |how: Dnsperf| load::dnsperf_probed(server.address, wire, how, seconds, queries);
    match cell {
        Cell::RoundTrip => load::round_trips(server.address, queries, seconds),
        Cell::Rate { clients } => {
            perf(Dnsperf { clients, outstanding: clients.max(100), rate: Some(plan.rate), tcp: false })
        }
        Cell::Saturated { clients } => {
            perf(Dnsperf { clients, outstanding: clients.max(200), rate: None, tcp: false })
        }
        Cell::TcpPipelined { clients } => {
            let how = Dnsperf { clients, outstanding: clients * 20, rate: None, tcp: true };
            load::dnsperf(server.address, wire, how, seconds)
        }
        Cell::TcpConnections { clients } => load::connections(server.address, queries, clients, seconds),
        Cell::Veth { .. } => {
            load::kxdpgun(server.address.port(), &material.queries.text, plan.load_cpu, plan.flood, seconds)
        }
    }
}

/// Compares the answers of the first round; who differs from the majority is not timed any further.
fn judge(plan: &Plan, workload: Workload, records: &mut BTreeMap<Kind, Record>, results: &mut Results) {
    let given: Vec<(Kind, &Answers)> =
        records.iter().filter_map(|(kind, record)| Some((*kind, record.answers.as_ref()?))).collect();
    let found = answers::compare(&given.iter().map(|(_, answers)| *answers).collect::<Vec<_>>());
    let mut agreements = Vec::new();
    let verdicts: Vec<(Kind, usize, answers::Difference)> = given
        .iter()
        .zip(found)
        .map(|((kind, answers), difference)| (*kind, answers.summaries.len(), difference))
        .collect();
    for (kind, asked, difference) in verdicts {
        if difference.count > 0
            && let Some(record) = records.get_mut(&kind)
        {
            let text = format!("{} of {asked} answers differ from the other servers'", difference.count);
            eprintln!("  {}: {text}: {}", kind.name(), difference.example.as_deref().unwrap_or(""));
            record.trouble = Some(text);
            record.samples.clear();
        }
        let (differ, example) = (difference.count, difference.example);
        agreements.push(Agreement { server: kind.name().to_string(), asked, differ, example });
    }
    let (workload, title) = (workload.name(), workload.title(&plan.sizes));
    results.groups.push(Group { workload, title, answers: agreements });
}

fn gather(
    workload: Workload,
    material: &Material,
    kinds: &[Kind],
    records: &BTreeMap<Kind, Record>,
    results: &mut Results,
) {
    let mut cells: Vec<Cell> = records.values().flat_map(|record| record.samples.keys().copied()).collect();
    cells.sort();
    cells.dedup();
    for cell in cells {
        for kind in kinds {
            let Some(record) = records.get(kind) else { continue };
            let Some(samples) = record.samples.get(&cell) else { continue };
            results.rows.push(Row {
                workload: workload.name(),
                load: cell.name(),
                server: kind.name().to_string(),
                rounds: samples.len(),
                figures: Figures::median(samples),
                samples: samples.clone(),
                rcodes: record.rcodes.get(&cell).cloned().unwrap_or_default(),
                note: record.trouble.clone(),
            });
        }
    }
    for kind in kinds {
        let Some(record) = records.get(kind) else { continue };
        results.loading.extend(Loading::new(
            &workload.name(),
            kind.name(),
            material.zones.records,
            &record.starts,
        ));
        if let Some(trouble) = &record.trouble {
            results.skip(*kind, format!("{}, {}: {trouble}", workload.name(), kind.name()));
        }
    }
}
