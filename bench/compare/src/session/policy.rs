//! Turns of resolvers with rules. A server runs with each kind of rules at once, and is measured with one
//! after the other, so that drift of the machine is in no difference between them.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wire::Type;

use super::{Records, Scene, Task, look, measure, part};
use crate::answers::{self, exchange};
use crate::failure::{Context, Failure, Result};
use crate::load::Load;
use crate::measure::{self as resources, WORKING};
use crate::message::{Edns, write_query};
use crate::namespaces;
use crate::queries::{self, Mix};
use crate::refreshing::Refreshing;
use crate::report::{Figures, PolicyFigures};
use crate::rules::{LISTS, POLICY_ZONE, PolicySource, RuleFiles, Rules, ruled_name, version_name};
use crate::servers::{self, Kind, Role, Server, Settings};
use crate::sys;
use crate::workloads::{Base, Cell, Governed, Workload};
use crate::zones::{Zone, ZoneSet};

/// Number of names with a rule that must be answered by it before all rules count as in force.
const RULED_PROBES: u64 = 16;
/// Number of queries of the probe beside answers by rules.
const RULED_TIMED: usize = 20_000;
/// Distance of the first port of servers with rules from the first port of the run.
const FIRST_PORT: u16 = 20;
/// The load of cached answers and of answers by rules.
const LOAD: Cell = Cell::Saturated { clients: 20 };

/// A server with one kind of rules.
struct Governing {
    rules: Rules,
    server: Server,
    start: PolicyFigures,
}

/// Runs a server's turn in one round.
pub(super) fn turn(
    scene: &Scene,
    files: &RuleFiles,
    round: usize,
    kind: Kind,
    records: &mut Records,
) -> Result<()> {
    if scene.stage.base == Base::PolicyUpdates {
        return turn_updates(scene, files, kind, records);
    }
    let upstream = scene.upstream()?;
    let mut running: Vec<Governing> = Vec::new();
    for rules in rules_of(scene, kind) {
        let sample = running.first().map(|without| &without.server);
        match begin(scene, files, kind, rules, sample) {
            Ok(governing) => running.push(governing),
            Err(failure) if rules == Rules::None || sys::interrupted() => return Err(failure),
            Err(failure) => give_up(scene, kind, rules, &failure, records)?,
        }
    }
    let Some(without) = running.first().map(|governing| governing.start) else { return Ok(()) };
    for Governing { rules, start, .. } in &running {
        add_start(scene, kind, *rules, Ok(*start), &without, records)?;
    }
    if let Some(task) = scene.tasks.iter().find(|task| task.workload == Workload::Policy) {
        look(scene, task, kind, &running[0].server, records)?;
        if part(records, kind, task.workload).trouble.is_none() {
            for Governing { server, .. } in &running {
                scene.ground(kind, server, &upstream, task).map(|ground| ground.warm()).transpose()?;
            }
            if round % 2 == 1 {
                running.reverse();
            }
            let cached = |server: &Server| match scene.ground(kind, server, &upstream, task) {
                Some(ground) => ground.with_hits(|| measure(scene.plan, server, LOAD, task)),
                None => measure(scene.plan, server, LOAD, task),
            };
            add_loads(scene, task, kind, Governed::Cached, &running, records, |it| cached(&it.server))?;
            let ruled = |it: &Governing| ruled(scene, task, it);
            add_loads(scene, task, kind, Governed::Ruled, &running, records, ruled)?;
        }
    }
    drop(running);
    if wants(scene, Rules::Lists) && Rules::Lists.suits(kind) {
        add_start(scene, kind, Rules::Lists, ten_lists(scene, files, kind), &without, records)?;
    }
    Ok(())
}

/// Whether a load or a start with these rules is to be measured.
fn wants(scene: &Scene, wanted: Rules) -> bool {
    let has = |cell: &Cell| matches!(cell, Cell::Policy { rules, .. } if *rules == wanted);
    scene.tasks.iter().flat_map(|task| &task.cells).any(has)
}

/// Returns the rules that a server runs with at once.
fn rules_of(scene: &Scene, kind: Kind) -> impl Iterator<Item = Rules> {
    let all = [Rules::None, Rules::Zone, Rules::List, Rules::Exact, Rules::Wild];
    all.into_iter().filter(move |rules| wants(scene, *rules) && rules.suits(kind))
}

/// Returns the settings of a server with these rules: a port and a folder of its own.
fn settings(scene: &Scene, kind: Kind, rules: Rules, policy: PolicySource) -> Settings {
    let own = scene.settings(kind, false, 0);
    let address = (own.address.ip(), scene.plan.port + FIRST_PORT + rules as u16).into();
    let folder = own.folder.with_file_name(format!("{}-{}", kind.key(), rules.key()));
    Settings { address, folder, policy, ..own }
}

/// Starts a server with these rules; its answers about other names must be those of the server without.
fn begin(
    scene: &Scene,
    files: &RuleFiles,
    kind: Kind,
    rules: Rules,
    without: Option<&Server>,
) -> Result<Governing> {
    let settings = settings(scene, kind, rules, files.source(rules));
    let count = rules.count(&scene.plan.sizes);
    let (server, start) = start(scene, kind, &settings, &ruled_probes(scene, 0..count), &[])?;
    if let (Some(without), Some(task)) = (without, scene.tasks.first()) {
        let given = |server: &Server| answers::ask(None, server.address, &task.sample);
        let (own, right) = (given(&server)?.summaries, given(without)?.summaries);
        let differing = own.iter().zip(&right).filter(|(own, right)| own != right).count();
        if differing > 0 {
            return Err(Failure::new(format!("{differing} answers differ from those without rules")));
        }
    }
    if scene.plan.is_timed() {
        resources::until_idle(server.group(), WORKING)?;
    }
    Ok(Governing { rules, server, start })
}

/// Returns queries for names with these indexes that have a rule, from the first to the last.
fn ruled_probes(scene: &Scene, indexes: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let Some(last) = indexes.end.checked_sub(indexes.start + 1) else { return Vec::new() };
    let index = |number| indexes.start + number * last / (RULED_PROBES - 1);
    (0..RULED_PROBES).map(|number| query(&ruled_name(scene.plan.seed, index(number)))).collect()
}

fn query(name: &str) -> Vec<u8> {
    let mut query = Vec::with_capacity(64);
    write_query(&mut query, name, Type::A, Edns::None);
    query[2] |= 1;
    query
}

/// Starts a server, waits until the names of `ruled`, and then those of `newest`, are answered by rules, and
/// returns what that takes.
fn start(
    scene: &Scene,
    kind: Kind,
    settings: &Settings,
    ruled: &[Vec<u8>],
    newest: &[Vec<u8>],
) -> Result<(Server, PolicyFigures)> {
    let plan = scene.plan;
    let probes = scene.probes();
    let probe = &probes[..probes.len().min(1)];
    let server = servers::start(kind, &plan.programs, settings, &scene.zones, probe, plan.patience)?;
    let (first, answered) = (server.startup.seconds, Instant::now());
    let deadline = answered + plan.patience;
    let unruled = until_ruled(&server, ruled, deadline)?;
    let seconds = first + answered.elapsed().as_secs_f64();
    until_ruled(&server, newest, deadline)?;
    let fresh = first + answered.elapsed().as_secs_f64();
    let processes = resources::processes(server.group());
    let figures = PolicyFigures {
        first: Some(first),
        ruled: (!ruled.is_empty()).then_some(seconds),
        fresh: (!newest.is_empty()).then_some(fresh),
        unruled: (!ruled.is_empty()).then_some(unruled as f64),
        start_cpu: Some(resources::cpu_time(&processes).with_ended_threads()),
        resident: Some(resources::memory(&processes).resident as f64),
        ..PolicyFigures::default()
    };
    server.pin(plan.server_cpu);
    if kind != Kind::Nomen || ruled.is_empty() {
        return Ok((server, figures));
    }
    let (compile_ms, bytes_per_rule) = (compile_ms(&server.log()), bytes_per_rule(scene, settings)?);
    Ok((server, PolicyFigures { compile_ms, bytes_per_rule, ..figures }))
}

/// Waits until each of these names is answered by a rule; returns the number of answers without.
fn until_ruled(server: &Server, names: &[Vec<u8>], deadline: Instant) -> Result<u64> {
    let socket = namespaces::socket(None, server.address)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut unruled = 0;
    for (id, name) in names.iter().enumerate() {
        loop {
            match exchange(&socket, name, id as u16).and_then(|answer| Some(answer.get(3)? & 15)) {
                Some(3) => break,
                Some(_) => unruled += 1,
                None if resources::processes(server.group()).is_empty() => {
                    return Err(Failure::new("ended before its rules were in force"));
                }
                None => {}
            }
            if sys::interrupted() || Instant::now() > deadline {
                return Err(Failure::new("its rules do not come into force"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(unruled)
}

/// Returns the milliseconds that nomen reports for compiling rules since its start.
fn compile_ms(log: &str) -> Option<f64> {
    let lines = log.lines().filter(|line| line.contains("policy rules are compiled"));
    let times = lines.filter_map(|line| line.split_once("milliseconds=")?.1.split_whitespace().next());
    let times: Vec<f64> = times.filter_map(|time| time.parse().ok()).collect();
    (!times.is_empty()).then(|| times.iter().sum())
}

/// Returns the bytes that nomen reports for each rule.
fn bytes_per_rule(scene: &Scene, settings: &Settings) -> Result<Option<f64>> {
    let mut command = Command::new(&scene.plan.programs.nomen);
    command.arg("ctl").arg("--socket").arg(settings.folder.join("control.sock")).arg("stats");
    let output = command.stdin(Stdio::null()).output().context(|| "nomen ctl stats".to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let sum = |names: &[&str]| -> f64 {
        let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        lines.filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok()).sum()
    };
    let rules = sum(&["nomen_policy_rules{", "nomen_policy_zone_rules{"]);
    Ok((rules > 0.0).then(|| sum(&["nomen_policy_bytes "]) / rules))
}

/// Records for each load and start with these rules that there is none.
fn give_up(scene: &Scene, kind: Kind, lost: Rules, failure: &Failure, records: &mut Records) -> Result<()> {
    for task in &scene.tasks {
        let has = |cell: &&Cell| matches!(cell, Cell::Policy { rules, .. } if *rules == lost);
        for cell in task.cells.iter().filter(has) {
            let failure = Err(Failure::new(failure.to_string()));
            part(records, kind, task.workload).add(scene, *cell, failure)?;
        }
    }
    Ok(())
}

/// Adds a start, if it is to be measured.
fn add_start(
    scene: &Scene,
    kind: Kind,
    rules: Rules,
    start: Result<PolicyFigures>,
    without: &PolicyFigures,
    records: &mut Records,
) -> Result<()> {
    let cell = Cell::Policy { measured: Governed::Start, rules };
    let Some(task) = scene.tasks.iter().find(|task| task.cells.contains(&cell)) else { return Ok(()) };
    let part = part(records, kind, task.workload);
    if part.broken.contains_key(&cell) {
        return Ok(());
    }
    let start = start.map(|start| {
        let above = || Some(start.start_cpu? - without.start_cpu?);
        let start_cpu_above = if rules == Rules::None { None } else { above() };
        let policy = Some(PolicyFigures { start_cpu_above, ..start });
        (Load::default(), Figures { policy, ..Figures::default() })
    });
    part.add(scene, cell, start)
}

/// Measures each running server, and adds the figures, with the difference to those without rules.
fn add_loads(
    scene: &Scene,
    task: &Task,
    kind: Kind,
    measured: Governed,
    running: &[Governing],
    records: &mut Records,
    measure: impl Fn(&Governing) -> Result<(Load, Figures)>,
) -> Result<()> {
    let mut loads = Vec::new();
    for governing in running {
        let cell = Cell::Policy { measured, rules: governing.rules };
        if task.cells.contains(&cell) && !part(records, kind, task.workload).broken.contains_key(&cell) {
            loads.push((governing.rules, cell, measure(governing)));
        }
    }
    let without = loads.iter().find(|(rules, ..)| *rules == Rules::None);
    let without = without.and_then(|(_, _, load)| load.as_ref().ok().map(|(_, figures)| figures.clone()));
    for (rules, cell, load) in loads {
        let load = load.map(|(load, figures)| {
            let less = |own: Option<f64>, other: Option<f64>| Some(own? - other?);
            let above = |without: &Figures| PolicyFigures {
                user_us: less(figures.user_us, without.user_us),
                cpu_us: less(figures.cpu_us, without.cpu_us),
                ..PolicyFigures::default()
            };
            let policy = without.as_ref().filter(|_| rules != Rules::None).map(above);
            (load, Figures { policy, ..figures })
        });
        part(records, kind, task.workload).add(scene, cell, load)?;
    }
    Ok(())
}

/// Measures answers by rules; each must be one.
fn ruled(scene: &Scene, task: &Task, governing: &Governing) -> Result<(Load, Figures)> {
    let (plan, rules) = (scene.plan, governing.rules);
    let (count, below) = (rules.count(&plan.sizes), rules == Rules::Wild);
    let key = if below { format!("ruled-below-{count}") } else { format!("ruled-{count}") };
    let mix = Mix::Ruled { count, below };
    let set = queries::make(&plan.work.join("queries"), &key, &mix, plan.seed, plan.sizes.queries)?;
    let timed = queries::read(&set.wire, RULED_TIMED, 1)?;
    let cells = vec![LOAD];
    let task = Task { workload: task.workload, queries: Some(set), sample: Vec::new(), timed, cells };
    let (load, figures) = measure(plan, &governing.server, LOAD, &task)?;
    let blocked = load.rcodes.get("NXDOMAIN").copied().unwrap_or(0);
    if blocked < load.answered {
        let others = load.answered - blocked;
        return Err(Failure::new(format!("{others} of {} answers are not by a rule", load.answered)));
    }
    Ok((load, figures))
}

/// Starts a server with ten lists, ends it, changes each list, and starts it again: returns what the second
/// start takes.
fn ten_lists(scene: &Scene, files: &RuleFiles, kind: Kind) -> Result<PolicyFigures> {
    let settings = settings(scene, kind, Rules::Lists, files.source(Rules::Lists));
    let ruled = ruled_probes(scene, 0..Rules::Lists.count(&scene.plan.sizes));
    let newest = |version| -> Vec<_> { (0..LISTS).map(|list| query(&version_name(version, list))).collect() };
    files.write_lists(1)?;
    let (first, _) = start(scene, kind, &settings, &ruled, &newest(1))?;
    if scene.plan.is_timed() {
        resources::until_idle(first.group(), WORKING)?;
    }
    first.end(scene.plan.patience)?;
    files.write_lists(2)?;
    let again = Settings { keeps: true, ..settings };
    start(scene, kind, &again, &ruled, &newest(2)).map(|(_, figures)| figures)
}

/// Runs the turn of a server whose rules are refreshed: half of them are in a zone from a primary, half in a
/// list.
fn turn_updates(scene: &Scene, files: &RuleFiles, kind: Kind, records: &mut Records) -> Result<()> {
    let Some(task) = scene.tasks.first() else { return Ok(()) };
    let (plan, upstream) = (scene.plan, scene.upstream()?);
    let own = scene.settings(kind, false, 0);
    let upstream_address = scene.upstream_address();
    let address = (upstream_address.ip(), upstream_address.port() + 1).into();
    let zone = Zone { name: POLICY_ZONE.to_string(), file: files.half_zone() };
    let zones = ZoneSet { key: POLICY_ZONE.to_string(), zones: vec![zone], records: 0, denial: None };
    let primary = Settings {
        address,
        cpu: plan.upstream_cpu,
        folder: own.folder.with_file_name("policy-primary"),
        role: Role::Feeds(own.address),
        ..own.clone()
    };
    let mut soa = Vec::new();
    write_query(&mut soa, POLICY_ZONE, Type::SOA, Edns::None);
    let primary = servers::start(Kind::Nomen, &plan.programs, &primary, &zones, &[soa], plan.patience)?;
    let text = files.half_list();
    let folder = own.folder.with_file_name("policy-list");
    fs::create_dir_all(&folder)?;
    let list = folder.join("list.txt");
    fs::write(&list, &text)?;
    let policy = PolicySource::Both { primary: primary.address, list: list.clone() };
    let settings = Settings { policy, ..own };
    let (server, _) = start(scene, kind, &settings, &ruled_probes(scene, 0..plan.sizes.rules), &[])?;
    look(scene, task, kind, &server, records)?;
    scene.ground(kind, &server, &upstream, task).map(|ground| ground.warm()).transpose()?;
    let control = settings.folder.join("control.sock");
    let refreshing =
        Refreshing { plan, server: &server, primary: primary.address, control, list, text: &text };
    refreshing.warm()?;
    if plan.is_timed() {
        resources::until_idle(server.group(), WORKING)?;
    }
    for cell in &task.cells {
        if let Cell::Refresh(refreshed) = cell {
            part(records, kind, task.workload).add(scene, *cell, refreshing.measure(*refreshed))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compile_times_add_up() {
        let log = "INFO policy rules are compiled zones=1 bytes=8 milliseconds=317\nINFO x milliseconds=9\n\
                   INFO policy rules are compiled zones=1 milliseconds=46 more=1\n";
        assert_eq!(compile_ms(log), Some(363.0));
        assert_eq!(compile_ms("INFO serving"), None);
    }
}
