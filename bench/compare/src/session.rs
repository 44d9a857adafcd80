//! One run: stage by stage, round by round and server by server, it starts, checks the answers, loads,
//! measures and stops. Servers alternate (A B C, A B C), so that drift of the machine affects all; the
//! reflector runs beside nomen and is measured right before or after it, as their difference matters.

mod gather;
mod policy;
mod secondary;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wire::Type;

use crate::answers::{self, Answers};
use crate::axfr::Content;
use crate::buffers::Buffers;
use crate::failure::{Context, Failure, Result};
use crate::internet::Internet;
use crate::iterating::Abroad;
use crate::load::{self, Dnsperf, Load};
use crate::measure::{self, CpuTicks, WORKING, Watch};
use crate::message::{Count, Edns, Summary, write_query};
use crate::namespaces::{self, Pair};
use crate::primary::{Primary, Versions};
use crate::programs::Programs;
use crate::provider::SmallZones;
use crate::queries::{self, QuerySet};
use crate::report::{Figures, Results};
use crate::resolvers::{Anchor, Resolving, Source};
use crate::resolving::Ground;
use crate::rules::{PolicySource, RuleFiles};
use crate::secondaries;
use crate::servers::{self, Kind, Role, Server, Settings, Startup};
use crate::sys;
use crate::transfers;
use crate::updating::Updating;
use crate::upstream::Upstream;
use crate::workloads::{Base, Cell, Sizes, Stage, Workload, stages};
use crate::zones::{self, DELEGATIONS, ZoneSet};
use gather::{gather, judge};

/// The parameters of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Workloads, in order.
    pub(crate) workloads: Vec<Workload>,
    /// Servers, in order; the reflector runs beside the first.
    pub(crate) servers: Vec<Kind>,
    /// Their programs.
    pub(crate) programs: Programs,
    /// Duration of each measurement in seconds.
    pub(crate) seconds: f64,
    /// Number of rounds.
    pub(crate) rounds: usize,
    /// Client counts; if empty, the workload's own.
    pub(crate) clients: Vec<usize>,
    /// Queries per second of the fixed-rate measurements.
    pub(crate) rate: u64,
    /// Queries per second that kxdpgun sends.
    pub(crate) flood: u64,
    /// Sizes of zones and query files.
    pub(crate) sizes: Sizes,
    /// Seed of zones and queries.
    pub(crate) seed: u64,
    /// Folder for zones, queries and the servers' own files.
    pub(crate) work: PathBuf,
    /// Root zone file to serve instead of a generated zone.
    pub(crate) root_zone: Option<PathBuf>,
    /// CPU of the server.
    pub(crate) server_cpu: usize,
    /// CPU of the load generator.
    pub(crate) load_cpu: usize,
    /// First port; each server has its own.
    pub(crate) port: u16,
    /// Number of answers compared before timing.
    pub(crate) sample: usize,
    /// Seconds for which idle servers are watched.
    pub(crate) idle: f64,
    /// Longest time for a server to load.
    pub(crate) patience: Duration,
    /// CPU of the upstream of resolvers.
    pub(crate) upstream_cpu: usize,
    /// Delay of each upstream answer.
    pub(crate) delay: Duration,
    /// Queries per second of the fixed-rate measurements of misses.
    pub(crate) miss_rates: Vec<u64>,
    /// Sizes of socket buffers for servers without a setting for them.
    pub(crate) buffers: Buffers,
    /// Size of a resolver's cache in bytes.
    pub(crate) cache: u64,
    /// Size of a resolver's cache in bytes where a flood fills it.
    pub(crate) flood_cache: u64,
    /// The program that lends the small Internet.
    pub(crate) conformance: PathBuf,
}

impl Plan {
    /// Whether the figures count: not if only a tenth of a second is measured.
    pub(crate) fn is_timed(&self) -> bool {
        self.seconds >= 0.5
    }

    /// Returns the duration of malicious load in seconds: there are few queries per second, and one benign
    /// query in a thousand must show.
    pub(crate) fn attack_seconds(&self) -> f64 {
        3.0 * self.seconds
    }
}

/// Number of queries that must be answered before a server counts as started.
const PROBES: usize = 16;
/// Longest wait for the first answer of a server without zones.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of queries that our own client repeats.
const TIMED: usize = 300_000;
/// Number of servers with answers from which on one that differs is left out at once.
const QUORUM: usize = 4;

/// Results of one server in a stage.
#[derive(Default)]
struct Record {
    starts: Vec<Startup>,
    restarts: Vec<Startup>,
    parts: BTreeMap<Workload, Part>,
    /// Why it is no longer started.
    trouble: Option<String>,
    /// Why its AF_XDP or its image is no longer tried.
    aside: BTreeMap<&'static str, String>,
}

/// Its results in one workload.
#[derive(Default)]
struct Part {
    answers: Option<Answers>,
    samples: BTreeMap<Cell, Vec<Figures>>,
    rcodes: BTreeMap<Cell, BTreeMap<String, u64>>,
    /// Loads that are no longer applied to it, and why.
    broken: BTreeMap<Cell, String>,
    /// Why it is no longer timed.
    trouble: Option<String>,
}

type Records = BTreeMap<Kind, Record>;

fn part(records: &mut Records, kind: Kind, workload: Workload) -> &mut Part {
    records.entry(kind).or_default().parts.entry(workload).or_default()
}

/// A workload of the stage with its queries.
struct Task {
    workload: Workload,
    /// `None` if they come with the small Internet.
    queries: Option<QuerySet>,
    /// Queries sent to every server before it is timed.
    sample: Vec<Vec<u8>>,
    /// Queries for our own clients.
    timed: Vec<Vec<u8>>,
    cells: Vec<Cell>,
}

impl Task {
    /// Creates a task on the small Internet.
    fn abroad(workload: Workload, internet: &Internet, plan: &Plan) -> Result<Task> {
        let sample = internet.sample(workload, plan.sample)?;
        Ok(Task { workload, queries: None, sample, timed: Vec::new(), cells: workload.cells(plan) })
    }
}

/// A stage with everything it needs.
struct Scene<'a> {
    plan: &'a Plan,
    stage: &'a Stage,
    zones: ZoneSet,
    tasks: Vec<Task>,
    /// The zone that servers receive in `axfr-in`.
    versions: Option<Versions>,
    /// The zones that servers receive in `secondaries`.
    small: Option<Arc<SmallZones>>,
    /// The contents that servers must send in `axfr-out`.
    content: Option<Content>,
    /// The small Internet, for resolvers that iterate.
    internet: Option<Internet>,
    /// The rules of resolvers.
    rules: Option<RuleFiles>,
    /// The trust anchor.
    anchor: Option<Anchor>,
    /// Servers in order, without the reflector unless it is alone.
    kinds: Vec<Kind>,
    /// The server that the reflector runs beside, if it takes part.
    lead: Option<Kind>,
    images: bool,
}

/// Runs the plan and adds to the results; skips what cannot run, with the reason.
pub(crate) fn run(plan: &Plan, results: &mut Results) -> Result<()> {
    for stage in stages(&plan.workloads) {
        if let Err(failure) = run_stage(plan, &stage, results) {
            if sys::interrupted() {
                return Err(Failure::new("interrupted; only what was finished before is in the results"));
            }
            for workload in &stage.workloads {
                eprintln!("{}: {failure}", workload.name());
                results.skipped.push(format!("{}: {failure}", workload.name()));
            }
            // Where it is possible, its failure is ours.
            if stage.base.iterates() && Internet::is_possible(plan).is_ok() {
                results.faults.push(failure.to_string());
            }
        }
    }
    Ok(())
}

fn run_stage(plan: &Plan, stage: &Stage, results: &mut Results) -> Result<()> {
    let scene = Scene::set(plan, stage)?;
    if let Some((_, lack)) = stage.base.needs()
        && plan.servers.contains(&Kind::Nomen)
        && !scene.kinds.contains(&Kind::Nomen)
    {
        results.skipped.push(format!("{}, nomen: {lack}", scene.name()));
    }
    sys::pin(0, plan.load_cpu)?;
    let mut records = Records::new();
    // Measurements that take minutes and hardly vary are done once.
    let rounds = if matches!(stage.base, Base::Large | Base::PolicyUpdates) { 1 } else { plan.rounds };
    for round in 0..rounds {
        let mut pair = Pair::create();
        if let (0, Err(failure), true) = (round, &pair, scene.has_veth()) {
            results.skipped.push(format!("{}: {failure}", scene.name()));
        }
        for kind in &scene.kinds {
            eprintln!("{} round {}/{rounds}: {}", scene.name(), round + 1, kind.name());
            scene
                .attempt(&mut records, *kind, |records| turn(&scene, round, *kind, pair.is_ok(), records))?;
        }
        if scene.has_veth() && pair.is_ok() {
            for kind in scene.fronts() {
                // A fresh pair each time: an XDP program left on an interface must not affect the next
                // server.
                drop(pair);
                pair = Pair::create();
                eprintln!("{} round {}/{rounds}: {}, AF_XDP", scene.name(), round + 1, kind.name());
                scene.aside(&mut records, kind, "AF_XDP", |records| front_turn(&scene, kind, records))?;
            }
        }
        if scene.images {
            eprintln!("{} round {}/{rounds}: nomen, from image", scene.name(), round + 1);
            let again = |records: &mut Records| restart(&scene, pair.is_ok(), records);
            scene.aside(&mut records, Kind::Nomen, "image", again)?;
        }
        if round == 0 {
            judge(&scene, &mut records, results);
        }
    }
    gather(&scene, &records, results);
    Ok(())
}

impl<'a> Scene<'a> {
    /// Makes zones and queries, and selects the servers.
    fn set(plan: &'a Plan, stage: &'a Stage) -> Result<Scene<'a>> {
        let zones = stage.base.zones(&plan.work, &plan.sizes, plan.seed, plan.root_zone.as_deref())?;
        let internet = match stage.base {
            Base::Validating(_) if !plan.programs.has(Kind::Nsd) => {
                return Err(Failure::new("NSD, which has the zone, is not installed"));
            }
            Base::Internet(workload) => {
                Internet::is_possible(plan)?;
                Some(Internet::lend(plan, workload)?)
            }
            _ => None,
        };
        let anchor = match (stage.base, &internet) {
            (Base::Validating(_), _) => {
                let zone = zones.zones.first().context(|| "no zone to validate".to_string())?;
                Some(zones::anchor(zone)?)
            }
            (_, internet) => internet.as_ref().map(|internet| internet.anchor.clone()),
        };
        let task = |workload: &Workload| -> Result<Task> {
            if let Some(internet) = &internet {
                return Task::abroad(*workload, internet, plan);
            }
            let queries = workload.queries(&zones, &plan.work, &plan.sizes, plan.seed)?;
            let step = (queries.count as usize / plan.sample.max(1)).max(1);
            let sample = queries::read(&queries.wire, plan.sample, step)?;
            let cells = workload.cells(plan);
            let timed = if cells.is_empty() { 1 } else { TIMED };
            let timed = queries::read(&queries.wire, timed, 1)?;
            Ok(Task { workload: *workload, queries: Some(queries), sample, timed, cells })
        };
        // A start from an image is not a workload with answers of its own, unless it is the only one.
        let own = |workload: &&Workload| **workload != Workload::Restart || stage.workloads.len() == 1;
        let tasks = stage.workloads.iter().filter(own).map(task).collect::<Result<Vec<_>>>()?;
        let has_floor = |floor| plan.servers.contains(&floor);
        let mut floors =
            stage.workloads.iter().filter_map(|workload| workload.floor()).filter(|floor| has_floor(*floor));
        let serving = |kind: &Kind| {
            let able = || stage.base.needs().is_none_or(|(words, _)| plan.programs.knows(words));
            stage.base.suits(*kind, plan.is_timed()) && (*kind != Kind::Nomen || able())
        };
        let mut kinds: Vec<Kind> = plan.servers.iter().copied().filter(serving).collect();
        let floor = floors.next();
        let lead = kinds.first().copied().filter(|_| floor.is_some());
        if kinds.is_empty() {
            kinds.extend(floor.filter(|floor| *floor == Kind::Reflector));
        }
        let images = stage.restarts() && plan.servers.contains(&Kind::Nomen) && plan.programs.keeps_images();
        let taken = stage.base == Base::Taken && !kinds.is_empty();
        let versions = taken.then(|| Versions::of(&zones)).transpose()?;
        let many = stage.base == Base::TakenMany && !kinds.is_empty();
        let small = many.then(|| secondaries::zones(plan, &zones));
        let sent = stage.workloads.contains(&Workload::AxfrOut);
        let content = sent.then(|| transfers::content(&zones)).transpose()?;
        Ok(Scene {
            plan,
            stage,
            zones,
            tasks,
            versions,
            small,
            content,
            internet,
            rules: stage.base.rules(&plan.work, &plan.sizes, plan.seed)?,
            anchor,
            kinds,
            lead,
            images,
        })
    }

    fn name(&self) -> String {
        self.stage.workloads.iter().map(|workload| workload.name()).collect::<Vec<_>>().join("+")
    }

    fn has_veth(&self) -> bool {
        self.stage.workloads.iter().any(|workload| workload.is_over_veth())
    }

    /// Returns the servers measured with AF_XDP; the reflector right after nomen.
    fn fronts(&self) -> Vec<Kind> {
        let fit = |kind: &Kind| {
            (self.kinds.contains(kind) || !kind.answers()) && self.plan.programs.has_front(*kind)
        };
        let mut able: Vec<Kind> = self.plan.servers.iter().copied().filter(fit).collect();
        able.sort_by_key(|kind| (*kind != Kind::Nomen, *kind != Kind::Reflector));
        able
    }

    fn probes(&self) -> Vec<Vec<u8>> {
        if self.internet.is_some() {
            // Nothing that must stay uncached: a name that the root does not have.
            let mut probe = Vec::new();
            write_query(&mut probe, "is-it-there", Type::TXT, Edns::Plain);
            probe[2] |= 1;
            return vec![probe];
        }
        let sample = self.tasks.first().map_or(&[][..], |task| &task.sample);
        sample.iter().step_by((sample.len() / PROBES).max(1)).take(PROBES).cloned().collect()
    }

    /// Returns the settings of a server's start: in the pair of namespaces if there is one, or else on the
    /// host's loopback.
    fn settings(&self, kind: Kind, apart: bool, size: usize) -> Settings {
        let port = self.plan.port + kind as u16;
        let cache = self.tasks.first().map_or(self.plan.cache, |task| task.workload.cache(self.plan));
        let role = match self.stage.base {
            Base::Forwarding(_) | Base::Validating(_) | Base::Policy | Base::PolicyUpdates => {
                Role::Resolves(Resolving { source: Source::Upstream(self.upstream_address()), cache })
            }
            Base::Internet(_) => {
                let root = self.internet.as_ref().map_or(Ipv4Addr::UNSPECIFIED, |internet| internet.root);
                Role::Resolves(Resolving { source: Source::Root(root), cache })
            }
            Base::Taken => Role::Takes(self.upstream_address()),
            Base::TakenMany => Role::TakesMany(self.upstream_address()),
            Base::Updated => Role::Updated,
            _ if self.content.is_some() => Role::Sends,
            _ => Role::Answers,
        };
        // Clients of a resolver have several addresses, all of them on loopback, as has a primary.
        let loopback =
            matches!(role, Role::Resolves(_) | Role::Takes(_) | Role::TakesMany(_)) && !self.has_veth();
        Settings {
            address: if apart && !loopback {
                (namespaces::SERVER_ADDRESS, port).into()
            } else {
                ([127, 0, 0, 1], port).into()
            },
            cpu: self.plan.server_cpu,
            xdp: false,
            folder: self.plan.work.join("run").join(kind.key()),
            keeps: false,
            response_size: size,
            state: None,
            role,
            anchor: self.anchor.clone(),
            policy: PolicySource::None,
            tuning: kind.tuning(),
            buffers: self.plan.buffers.clone(),
        }
    }

    /// Returns the upstream's address: the port after those of the servers.
    fn upstream_address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.plan.port + Kind::Relay as u16 + 1).into()
    }

    /// Starts the upstream of forwarders, and the server behind it with the zone that they validate.
    fn upstream(&self) -> Result<Option<(Upstream, Option<Server>)>> {
        let (plan, address) = (self.plan, self.upstream_address());
        Ok(match self.stage.base {
            Base::Forwarding(_) | Base::Policy | Base::PolicyUpdates => {
                Some((Upstream::start(address, plan.upstream_cpu, plan.delay)?, None))
            }
            Base::Validating(_) => {
                let settings = Settings {
                    address: (address.ip(), address.port() + 1).into(),
                    cpu: plan.upstream_cpu,
                    folder: plan.work.join("run").join("origin"),
                    role: Role::Answers,
                    anchor: None,
                    ..self.settings(Kind::Nsd, false, 0)
                };
                let origin = self.start(Kind::Nsd, &settings)?;
                Some((Upstream::passing_on(address, plan.upstream_cpu, origin.address)?, Some(origin)))
            }
            _ => None,
        })
    }

    /// Returns a server with the upstream that it forwards to, if it does.
    fn ground<'b>(
        &'b self,
        kind: Kind,
        server: &'b Server,
        upstream: &'b Option<(Upstream, Option<Server>)>,
        task: &Task,
    ) -> Option<Ground<'b>> {
        let (upstream, _) = upstream.as_ref().filter(|_| kind.answers())?;
        Some(Ground { plan: self.plan, server, upstream, workload: task.workload })
    }

    fn primary(&self) -> Result<Option<Primary>> {
        let start = |versions| Primary::start(self.upstream_address(), self.plan.upstream_cpu, versions);
        self.versions.as_ref().map(start).transpose()
    }

    fn start(&self, kind: Kind, settings: &Settings) -> Result<Server> {
        let plan = self.plan;
        // A server without zones does not load any.
        let most = if self.stage.base.forwards() { START_TIMEOUT } else { plan.patience };
        let patience = most.min(plan.patience);
        let server = servers::start(kind, &plan.programs, settings, &self.zones, &self.probes(), patience)?;
        if plan.is_timed() {
            measure::until_idle(server.group(), WORKING)?;
        }
        Ok(server)
    }

    /// Returns a failure's text for the results, without names of folders.
    fn plain(&self, failure: &Failure) -> String {
        failure.to_string().replace(&self.plan.work.display().to_string(), "WORK")
    }

    /// Runs a server's turn unless it has failed before, and records its failure.
    fn attempt(
        &self,
        records: &mut Records,
        kind: Kind,
        turn: impl FnOnce(&mut Records) -> Result<()>,
    ) -> Result<()> {
        let record = records.entry(kind).or_default();
        let hopeless = !record.parts.is_empty() && record.parts.values().all(|part| part.trouble.is_some());
        if record.trouble.is_some() || hopeless {
            return Ok(());
        }
        if let Err(failure) = turn(records) {
            if sys::interrupted() {
                return Err(failure);
            }
            eprintln!("  {failure}");
            records.entry(kind).or_default().trouble = Some(self.plain(&failure));
        }
        Ok(())
    }

    /// Like `attempt`, for measurements beside the turn; a failure does not affect the turns.
    fn aside(
        &self,
        records: &mut Records,
        kind: Kind,
        what: &'static str,
        turn: impl FnOnce(&mut Records) -> Result<()>,
    ) -> Result<()> {
        let record = records.entry(kind).or_default();
        if record.trouble.is_some() || record.aside.contains_key(what) {
            return Ok(());
        }
        if let Err(failure) = turn(records) {
            if sys::interrupted() {
                return Err(failure);
            }
            eprintln!("  {failure}");
            records.entry(kind).or_default().aside.insert(what, self.plain(&failure));
        }
        Ok(())
    }
}

/// Returns the size for the reflector's replies: the mean size of the first server's answers.
fn reply_size(records: &Records, workload: Workload) -> usize {
    let answers = |record: &Record| Some(record.parts.get(&workload)?.answers.as_ref()?.mean_size);
    records.values().filter_map(answers).map(|size| size.round() as usize).next().unwrap_or(0)
}

/// Runs one server's turn in one round.
fn turn(scene: &Scene, round: usize, kind: Kind, apart: bool, records: &mut Records) -> Result<()> {
    if let Some(files) = &scene.rules {
        return policy::turn(scene, files, round, kind, records);
    }
    match (&scene.internet, &scene.small) {
        (None, None) => turn_here(scene, round, kind, apart, records),
        (None, Some(small)) => secondary::turn(scene, small, kind, records),
        (Some(internet), _) if apart => turn_abroad(scene, internet, kind, records),
        (Some(_), _) => Err(Failure::new("no namespace to join to the small Internet")),
    }
}

/// Runs every workload of the stage, from one start.
fn turn_here(scene: &Scene, round: usize, kind: Kind, apart: bool, records: &mut Records) -> Result<()> {
    let (upstream, primary) = (scene.upstream()?, scene.primary()?);
    let server = scene.start(kind, &scene.settings(kind, apart, 0))?;
    if kind.answers() {
        let memory = measure::memory(&measure::processes(server.group()));
        let watched = scene.stage.base.idles() && (round == 0 || kind == Kind::Nomen);
        let idle = watched.then(|| idle(scene.plan, &server));
        records.entry(kind).or_default().starts.push(Startup { memory, idle, ..server.startup });
    }
    for task in &scene.tasks {
        // A server has the zone only after it has received it.
        if let (Some(primary), Some(versions)) = (&primary, &scene.versions) {
            let taken = transfers::take(scene.plan, &server, primary, versions, scene.zones.records)?;
            part(records, kind, task.workload).add(scene, Cell::Transfer, Ok(taken))?;
        }
        look(scene, task, kind, &server, records)?;
        if part(records, kind, task.workload).trouble.is_some() || primary.is_some() {
            continue;
        }
        let ground = scene.ground(kind, &server, &upstream, task);
        if let Some(entry) = ground.map(|ground| ground.warm()).transpose()?.flatten()
            && let Some(start) = records.entry(kind).or_default().starts.last_mut()
        {
            start.entry = Some(entry);
        }
        let below = task.workload.floor().filter(|floor| scene.plan.servers.contains(floor));
        let size = reply_size(records, task.workload);
        let start_floor =
            |floor| scene.start(floor, &scene.settings(floor, apart, size)).map(|it| (floor, it));
        let floor = below.filter(|_| scene.lead == Some(kind)).map(start_floor).transpose()?;
        for (number, cell) in task.cells.iter().enumerate() {
            if matches!(cell, Cell::Veth { .. }) && !(apart && floods(scene.plan, kind, *cell)) {
                continue;
            }
            let mut both = vec![(kind, &server)];
            both.extend(floor.as_ref().map(|(floor, server)| (*floor, server)));
            if (round + number) % 2 == 1 {
                both.reverse();
            }
            for (kind, server) in both {
                let part = part(records, kind, task.workload);
                if !part.broken.contains_key(cell) {
                    let plainly = || match cell {
                        Cell::Transfer => transfers::out(scene.plan, server, &scene.zones),
                        _ => measure(scene.plan, server, *cell, task),
                    };
                    let measured = match ground {
                        Some(ground) if !kind.answers() && task.workload.is_beside() => {
                            Ground { server, ..ground }.floor(*cell)
                        }
                        Some(ground) if kind == Kind::Relay => Ground { server, ..ground }.measure(*cell),
                        Some(ground) if kind.answers() && task.workload.is_cached() => {
                            ground.with_hits(plainly)
                        }
                        Some(ground) if kind.answers() => ground.measure(*cell),
                        _ => plainly(),
                    };
                    part.add(scene, *cell, measured)?;
                }
            }
        }
    }
    Ok(())
}

/// Runs a resolver's turn on the small Internet: each load from a start of its own, with an empty cache.
fn turn_abroad(scene: &Scene, internet: &Internet, kind: Kind, records: &mut Records) -> Result<()> {
    let _link = internet.join()?;
    let settings = scene.settings(kind, false, 0);
    for task in &scene.tasks {
        if part(records, kind, task.workload).answers.is_none() {
            look(scene, task, kind, &scene.start(kind, &settings)?, records)?;
        }
        if part(records, kind, task.workload).trouble.is_some() {
            continue;
        }
        for cell in &task.cells {
            if part(records, kind, task.workload).broken.contains_key(cell) {
                continue;
            }
            let server = scene.start(kind, &settings)?;
            records.entry(kind).or_default().starts.push(server.startup);
            let measured = Abroad { plan: scene.plan, internet, server: &server }.measure(*cell);
            part(records, kind, task.workload).add(scene, *cell, measured)?;
        }
    }
    Ok(())
}

/// Sends the sample to a server once, and records a failure if its answers differ from the others', or if it
/// does not do what is to be timed.
fn look(scene: &Scene, task: &Task, kind: Kind, server: &Server, records: &mut Records) -> Result<()> {
    if !kind.answers() || part(records, kind, task.workload).answers.is_some() {
        return Ok(());
    }
    let mut answers = answers::ask(None, server.address, &task.sample)?;
    if scene.internet.is_some() {
        // The proofs in a negative answer depend on what else a resolver has cached.
        let plain = |summary: Summary| Summary { authority: Count::default(), glue: 0, ..summary };
        answers.summaries.iter_mut().for_each(|summary| *summary = summary.map(plain));
    }
    part(records, kind, task.workload).answers = Some(answers);
    let trouble = differs(task, kind, records).map(Failure::new).map_or(Ok(()), Err);
    if let Err(failure) = trouble.and_then(|()| verify(scene, task.workload, server)) {
        eprintln!("  {failure}");
        part(records, kind, task.workload).trouble = Some(scene.plain(&failure));
    }
    Ok(())
}

/// Checks that a server does what is to be timed, where its answers do not show it.
fn verify(scene: &Scene, workload: Workload, server: &Server) -> Result<()> {
    match (workload, scene.content) {
        (Workload::AxfrOut, Some(content)) => transfers::check(scene.plan, server, &scene.zones, content),
        (Workload::Validated100 | Workload::Validated200k | Workload::Cold, _) => validates(scene, server),
        (Workload::Update, _) => {
            Updating { server: server.address, zone: DELEGATIONS, clients: 1, tcp: false }.check()
        }
        _ => Ok(()),
    }
}

/// Checks that a validating server sets AD.
fn validates(scene: &Scene, server: &Server) -> Result<()> {
    let sample = scene.tasks.first().map_or(&[][..], |task| &task.sample);
    let given = answers::ask(None, server.address, sample)?.summaries;
    let authentic = given.iter().flatten().filter(|summary| summary.authentic).count();
    // Half of the names on the small Internet are in unsigned zones, and half of the other queries are
    // without DO.
    let least = if scene.internet.is_some() { sample.len() / 8 } else { sample.len() };
    if authentic < least {
        return Err(Failure::new(format!("{authentic} of {} answers have AD", sample.len())));
    }
    Ok(())
}

/// Whether a server is flooded over veth in its own turn. Each flood costs two seconds more than its
/// duration; a smoke run skips it for servers without AF_XDP.
fn floods(plan: &Plan, kind: Kind, cell: Cell) -> bool {
    cell == Cell::Veth { xdp: false } && (plan.is_timed() || plan.programs.has_front(kind))
}

impl Part {
    /// Adds a measurement, or records why there is none: a failed load does not affect the others.
    fn add(&mut self, scene: &Scene, cell: Cell, measured: Result<(Load, Figures)>) -> Result<()> {
        match measured {
            Ok((load, figures)) => {
                self.samples.entry(cell).or_default().push(figures);
                let codes = self.rcodes.entry(cell).or_default();
                for (code, count) in load.rcodes {
                    *codes.entry(code).or_default() += count;
                }
            }
            Err(failure) if sys::interrupted() => return Err(failure),
            Err(failure) => {
                eprintln!("  {}: {failure}", cell.name());
                self.broken.insert(cell, scene.plain(&failure));
                // Rounds are compared with each other, so a row has all of them or none.
                self.samples.remove(&cell);
            }
        }
        Ok(())
    }
}

/// Returns how a server differs from what enough others agree on, so that timing it would be wasted.
fn differs(task: &Task, kind: Kind, records: &Records) -> Option<String> {
    let given: Vec<(Kind, &Answers)> = given(task.workload, records);
    let all = voting(&given);
    if all.iter().filter(|(_, has_vote)| *has_vote).count() < QUORUM {
        return None;
    }
    let found = answers::compare(&all);
    let own = given.iter().zip(found).find(|((other, _), _)| *other == kind)?.1;
    (own.count > 0).then(|| differ_text(own.count, task.sample.len()))
}

fn differ_text(count: usize, asked: usize) -> String {
    format!("{count} of {asked} answers differ from the other servers'")
}

fn given(workload: Workload, records: &Records) -> Vec<(Kind, &Answers)> {
    records
        .iter()
        .filter_map(|(kind, record)| Some((*kind, record.parts.get(&workload)?.answers.as_ref()?)))
        .collect()
}

/// Returns the answers, each with its right to vote: a program has one vote, however many configurations it
/// has.
fn voting<'a>(given: &[(Kind, &'a Answers)]) -> Vec<(&'a Answers, bool)> {
    given.iter().map(|(kind, answers)| (*answers, kind.is_first())).collect()
}

/// Measures a server with AF_XDP: its answers must equal those that it sends through sockets.
fn front_turn(scene: &Scene, kind: Kind, records: &mut Records) -> Result<()> {
    let Some(task) = scene.tasks.iter().find(|task| task.workload.is_over_veth()) else { return Ok(()) };
    if part(records, kind, task.workload).trouble.is_some() {
        return Ok(());
    }
    let settings = scene.settings(kind, true, reply_size(records, task.workload)).behind_af_xdp(kind);
    let upstream = scene.upstream()?;
    let server = scene.start(kind, &settings)?;
    if let Some(line) = server.lacks_front() {
        return Err(Failure::new(format!("AF_XDP was not to be had: {line}")));
    }
    namespaces::check_xdp()?;
    if let Some(known) = &part(records, kind, task.workload).answers {
        let given = answers::ask(settings.client_namespace(), server.address, &task.sample)?;
        let pairs = known.summaries.iter().zip(&given.summaries);
        let count = pairs.filter(|(sockets, front)| sockets != front).count();
        if count > 0 {
            return Err(Failure::new(format!(
                "{count} of {} answers through AF_XDP differ from those through sockets",
                task.sample.len()
            )));
        }
    }
    let cell = Cell::Veth { xdp: true };
    let plainly = || measure(scene.plan, &server, cell, task);
    let measured = match scene.ground(kind, &server, &upstream, task) {
        Some(ground) => {
            ground.warm()?;
            ground.with_hits(plainly)
        }
        None => plainly(),
    };
    part(records, kind, task.workload).add(scene, cell, measured)
}

/// Starts nomen once to write an image, and again from that image.
fn restart(scene: &Scene, apart: bool, records: &mut Records) -> Result<()> {
    let mut settings = scene.settings(Kind::Nomen, apart, 0);
    let state = scene.plan.work.join("run").join("nomen-state");
    let _ = std::fs::remove_dir_all(&state);
    settings.state = Some(state.clone());
    let first = scene.start(Kind::Nomen, &settings)?;
    let end = Instant::now() + scene.plan.patience;
    while !servers::image_is_kept(&state) {
        if sys::interrupted() || Instant::now() > end {
            return Err(Failure::new(format!("no image was kept: {}", first.log().trim_end())));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(first);
    let server = scene.start(Kind::Nomen, &settings)?;
    let memory = measure::memory(&measure::processes(server.group()));
    if !server.log().contains("from image") {
        return Err(Failure::new(format!("the image was not used: {}", server.log().trim_end())));
    }
    if let Some(task) = scene.tasks.first()
        && let Some(known) = &part(records, Kind::Nomen, task.workload).answers
        && answers::ask(None, server.address, &task.sample)?.summaries != known.summaries
    {
        return Err(Failure::new("answers from the image differ from those from the text"));
    }
    records.entry(Kind::Nomen).or_default().restarts.push(Startup { memory, ..server.startup });
    drop(server);
    let _ = std::fs::remove_dir_all(&state);
    Ok(())
}

/// Returns the share of a CPU that the idle server uses.
fn idle(plan: &Plan, server: &Server) -> f64 {
    let watch = Watch::start(server.group());
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(plan.idle));
    watch.stop().cpu / began.elapsed().as_secs_f64()
}

/// Warms up for a fifth of the time, then applies the load and measures.
fn measure(plan: &Plan, server: &Server, cell: Cell, task: &Task) -> Result<(Load, Figures)> {
    if plan.is_timed() {
        apply(plan, server, cell, task, 0, plan.seconds / 5.0)?;
    }
    let cpus = [plan.server_cpu, plan.load_cpu];
    let done = AtomicBool::new(false);
    let (before, veth) = (cpus.map(CpuTicks::now), matches!(cell, Cell::Veth { .. }));
    let (measured, shares) = std::thread::scope(|scope| {
        let shares = veth.then(|| scope.spawn(|| measure::busiest(cpus, plan.seconds, &done)));
        let watch = Watch::start(server.group());
        let load = apply(plan, server, cell, task, 1, plan.seconds);
        let usage = watch.stop();
        done.store(true, Ordering::Relaxed);
        (load.map(|load| (load, usage)), shares.map(|shares| shares.join().unwrap_or_default()))
    });
    let (load, usage) = measured?;
    let mut figures = Figures::new(&load, &usage);
    let whole = || [0, 1].map(|cpu| CpuTicks::now(cpus[cpu]).since(before[cpu]));
    [figures.server_cpu, figures.generator_cpu] = shares.unwrap_or_else(whole);
    if load.answered == 0 {
        return Err(Failure::new(format!("{}: nothing was answered", cell.name())));
    }
    Ok((load, figures))
}

/// Applies one kind of load to the server. `turn` is 0 for the warm-up and 1 for the measurement: they query
/// different names, and so do the numbers of clients; otherwise short measurements would be of a few names in
/// every cache.
fn apply(plan: &Plan, server: &Server, cell: Cell, task: &Task, turn: usize, seconds: f64) -> Result<Load> {
    let queries = &task.timed[..];
    let number = task.cells.iter().position(|candidate| *candidate == cell).unwrap_or(0);
    let set = task.queries.as_ref().context(|| format!("{}: nothing to ask", cell.name()))?;
    let perf = |how: Dnsperf| {
        // At a fixed rate, a part of the queries is enough.
        let part = set.parts.get((2 * number + turn) % set.parts.len().max(1));
        let file = part.filter(|_| how.rate.is_some()).unwrap_or(&set.wire);
        load::dnsperf_probed(server.address, file, how, seconds, queries)
    };
    match cell {
        Cell::RoundTrip => load::round_trips(server.address, queries, turn * queries.len() / 4, seconds),
        Cell::Rate { clients } => {
            perf(Dnsperf { clients, outstanding: clients.max(100), rate: Some(plan.rate), tcp: false })
        }
        Cell::Saturated { clients } => {
            perf(Dnsperf { clients, outstanding: clients.max(200), rate: None, tcp: false })
        }
        Cell::TcpPipelined { clients } => {
            let how = Dnsperf { clients, outstanding: clients * 20, rate: None, tcp: true };
            load::dnsperf(server.address, &set.wire, how, seconds)
        }
        Cell::TcpConnections { clients } => load::connections(server.address, queries, clients, seconds),
        Cell::Veth { .. } => {
            load::kxdpgun(server.address.port(), &set.text, plan.load_cpu, plan.flood, seconds)
        }
        Cell::Update { tcp, clients } => Updating { server: server.address, zone: DELEGATIONS, clients, tcp }
            .run(seconds, 2 * number + turn),
        Cell::Alone
        | Cell::Flood
        | Cell::Overload
        | Cell::MissRate { .. }
        | Cell::Transfer
        | Cell::Secondary(_)
        | Cell::Cold(_)
        | Cell::Attack(_)
        | Cell::Policy { .. }
        | Cell::Refresh(_) => Err(Failure::new(format!("{}: not a load of zones", cell.name()))),
    }
}
