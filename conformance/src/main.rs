//! Black-box comparison of authoritative servers, forwarders and resolvers: the same zones, the same queries,
//! every section of every answer. The authoritative nomen is queried three times: with zones from files, and
//! as two secondaries. This file reads the command line and runs the suites; queries are made in `generate`
//! and `messages`, differences are found in `compare`, and allowed ones are listed in `explained`. Response
//! policy zones are compared in `policy`, with a model of them.
#![forbid(unsafe_code)]

mod answer;
mod attacks;
mod client;
mod compare;
mod explained;
mod forwarders;
mod forwarding;
mod fronts;
mod generate;
mod internet;
mod messages;
mod name;
mod network;
mod nsec3;
mod policy;
mod programs;
mod query;
mod report;
mod rng;
mod secondaries;
mod servers;
mod zones;

use clap::Parser;
use compare::{Case, Facet, Reply};
use fronts::{Counts, Fronts, Ways};
use internet::lend::{self, What};
use query::{Query, Transport};
use report::{Said, Tally};
use secondaries::{Moved, Origin, Secondaries};
use servers::{AUTHORITATIVE, Duty, Kind, Server};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use zones::World;

/// Time after which an unanswered query is sent again.
const RESEND_TIMEOUT: Duration = Duration::from_millis(1500);
/// Number of queries sent to all servers before their answers are compared.
const BATCH: usize = 4000;

/// Compares nomen with BIND, NSD and Knot; as a forwarder, with Unbound, PowerDNS Recursor, dnsdist and BIND.
#[derive(Debug, Parser)]
#[command(name = "conformance")]
struct Arguments {
    /// Number of queries.
    #[arg(long, default_value_t = 100_000)]
    queries: usize,
    /// Seed of the random zones and the queries.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run a short test for continuous integration: 5,000 queries, 600 with --internet or --policy.
    #[arg(long)]
    quick: bool,
    /// Path of another program for a server: nomen=PATH, or bind, nsd, knot, unbound, recursor, dnsdist; PATH
    /// `none` skips it.
    #[arg(long, value_name = "SERVER=PATH")]
    server: Vec<String>,
    /// Compare caching forwarders, with BIND, NSD and Knot as upstream servers.
    #[arg(long)]
    resolvers: bool,
    /// Compare resolvers on a small Internet in a network namespace; needs root.
    #[arg(long, conflicts_with = "resolvers")]
    internet: bool,
    /// Measure what attacks on resolvers cost each of them, and print the table.
    #[arg(long, conflicts_with_all = ["resolvers", "internet"])]
    attacks: bool,
    /// Compare response policy zones of resolvers on a small Internet in a network namespace; needs root.
    #[arg(long, conflicts_with_all = ["resolvers", "internet", "attacks"])]
    policy: bool,
    /// With --internet: keep everything running for manual tests.
    #[arg(long, requires = "internet")]
    hold: bool,
    /// With --internet or --attacks: run only the authoritative servers, for a program with its own
    /// resolvers, until a line or the end of the input is read; write the questions to files.
    #[arg(long, conflicts_with = "hold")]
    lend: bool,
    /// Compare the peers with each other, without nomen.
    #[arg(long)]
    peers_only: bool,
    /// The signed root zone, gzipped.
    #[arg(long, env = "NOMEN_ROOT_ZONE")]
    root_zone: Option<PathBuf>,
    /// Show only case N, with the replies of all servers, whether they differ or not.
    #[arg(long, value_name = "N")]
    reproduce: Option<usize>,
    /// How many unexplained differences of each kind to print in full.
    #[arg(long, default_value_t = 3)]
    show: usize,
    /// Print the reason of each explained difference.
    #[arg(long)]
    reasons: bool,
    /// Query nomen over plain sockets only, not over its other transports.
    #[arg(long)]
    sockets_only: bool,
    /// Query nomen with zones from files only, not as a secondary.
    #[arg(long)]
    files_only: bool,
    /// Folder for zones and logs, kept afterwards; without it a temporary folder is used and removed.
    #[arg(long)]
    work: Option<PathBuf>,
    /// First port on 127.0.0.1: nine for servers, five for transfers from 20 above it; nomen's metrics are 10
    /// above its own.
    #[arg(long, default_value_t = 25_300)]
    port: u16,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<usize, String> {
    let started = Instant::now();
    let temporary = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dir = folder(arguments.work.as_deref().unwrap_or(temporary.path()))?;
    let programs = programs::choose(arguments)?;
    if arguments.lend {
        return lend(arguments, &programs, &dir);
    }
    println!("{}", programs::versions(&programs));
    match (arguments.attacks, arguments.policy) {
        (true, _) => return attacks::run(&programs, arguments.seed, &dir),
        (_, true) => return policy(&programs, arguments, &dir),
        _ => {}
    }
    let worlds = worlds(arguments, &dir)?;
    let subject = (!arguments.peers_only && programs.contains_key(&Kind::Nomen)).then_some(Kind::Nomen);
    let queries = arguments.count();
    let share: usize = worlds.iter().map(|w| w.share).sum();
    let as_authority = subject.is_some() && !arguments.resolvers && !arguments.internet;
    let ways = (as_authority && !arguments.sockets_only).then(Ways::find);
    let mut run = Run {
        tallies: BTreeMap::new(),
        subject,
        number: 0,
        shown: BTreeMap::new(),
        fronts: None,
        differing: 0,
        arguments,
    };
    if arguments.internet {
        run.internet(&programs, queries, &dir)?;
    }
    let as_secondary = as_authority && !arguments.files_only;
    let (mut counts, mut moved) = (Counts::new(), Moved::default());
    for world in &worlds {
        println!("world {}: {} zones", world.name, world.zones.len());
        let count = queries * world.share / share;
        let mut servers = start(&programs, world, arguments, &dir)?;
        if arguments.resolvers {
            run.forwarders(&programs, world, &mut servers, count, &dir)?;
            continue;
        }
        let loopback = servers.iter().position(|s| s.kind == Kind::Nomen);
        if let (Some(ways), Some(at), Some(program)) = (&ways, loopback, programs.get(&Kind::Nomen)) {
            run.fronts = Some(ways.start(program, world, servers[at].address, &dir)?);
        }
        let mut secondaries = if as_secondary {
            Secondaries::start(&programs, world, arguments, &dir, &mut moved)?
        } else {
            Secondaries::default()
        };
        run.world(world, &mut servers, &mut secondaries, count)?;
        if world.name == "plain" {
            run.messages(world, &servers)?;
        }
        if let (Some(fronts), Some(at)) = (run.fronts.take(), loopback) {
            fronts.finish(&servers[at], &mut counts)?;
        }
    }
    println!("\nseed {}, {:.0} s", arguments.seed, started.elapsed().as_secs_f64());
    if as_secondary {
        println!("{moved}");
    }
    let mut unexplained = run.print_tallies();
    if let Some(ways) = &ways {
        unexplained += fronts::print(&counts, &ways.skipped);
    }
    println!("{unexplained} unexplained");
    Ok(unexplained)
}

/// Creates a folder, and returns its absolute path.
fn folder(dir: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    dir.canonicalize().map_err(|e| e.to_string())
}

impl Arguments {
    /// Returns the number of queries to make.
    fn count(&self) -> usize {
        let quick = if self.internet || self.policy { 600 } else { 5_000 };
        if self.quick { self.queries.min(quick) } else { self.queries }
    }
}

/// Compares response policy zones.
fn policy(programs: &BTreeMap<Kind, PathBuf>, arguments: &Arguments, dir: &Path) -> Result<usize, String> {
    let extent = policy::Extent {
        cases: arguments.count(),
        quick: arguments.quick,
        seed: arguments.seed,
        show: arguments.show,
        reproduce: arguments.reproduce,
        reasons: arguments.reasons,
    };
    policy::run(programs, extent, dir)
}

/// Lends the small Internet, or the zones of the attacks, to another program.
fn lend(arguments: &Arguments, programs: &BTreeMap<Kind, PathBuf>, dir: &Path) -> Result<usize, String> {
    let what = match (arguments.internet, arguments.attacks) {
        (true, _) => What::Internet,
        (_, true) => What::Attacks,
        _ => return Err("--lend needs --internet or --attacks".to_owned()),
    };
    lend::run(what, programs, arguments.queries, arguments.seed, dir).map(|()| 0)
}

/// Returns the zones that servers get; none for the small Internet, which has its own.
fn worlds(arguments: &Arguments, dir: &Path) -> Result<Vec<World>, String> {
    if arguments.internet {
        return Ok(Vec::new());
    }
    let default_root = PathBuf::from("../shared/data/root-zone-signed.gz");
    let root = arguments.root_zone.clone().or_else(|| default_root.exists().then_some(default_root));
    zones::make(dir, arguments.seed, root.as_deref())
}

/// Starts the authoritative servers. For forwarders, nomen is not among them.
fn start(
    programs: &BTreeMap<Kind, PathBuf>,
    world: &World,
    arguments: &Arguments,
    dir: &Path,
) -> Result<Vec<Server>, String> {
    let dir = dir.join(format!("{}-servers", world.name));
    let mut servers = Vec::new();
    for (i, kind) in AUTHORITATIVE.into_iter().enumerate() {
        let Some(program) = programs.get(&kind) else { continue };
        if kind != Kind::Nomen || !arguments.resolvers {
            let port = arguments.port + i as u16;
            servers.push(Server::start(kind, program, port, &world.zones, &dir, Duty::Answer)?);
        }
    }
    Ok(servers)
}

/// A run over all worlds.
struct Run<'a> {
    tallies: BTreeMap<(Kind, Origin), Tally>,
    subject: Option<Kind>,
    number: usize,
    shown: BTreeMap<(Kind, Origin, Facet, Vec<Kind>), usize>,
    /// The other transports to nomen, for the current world.
    fronts: Option<Fronts<'a>>,
    /// Number of answers that differ between transports.
    differing: usize,
    arguments: &'a Arguments,
}

impl Run<'_> {
    /// Prints the counts, and returns the number of unexplained differences.
    fn print_tallies(&self) -> usize {
        let print = |((kind, origin), tally): (&(Kind, Origin), &Tally)| {
            tally.print(*kind, *origin, self.arguments.reasons);
            tally.unexplained
        };
        self.tallies.iter().map(print).sum()
    }

    fn world(
        &mut self,
        world: &World,
        servers: &mut [Server],
        secondaries: &mut Secondaries,
        count: usize,
    ) -> Result<(), String> {
        let mut generator = generate::Generator::new(world, self.arguments.seed);
        let mut left = count;
        while left > 0 {
            let queries: Vec<_> = (0..left.min(BATCH)).map(|_| generator.next_query()).collect();
            left -= queries.len();
            let cut_short = self.batch(world, servers, secondaries, &queries)?;
            // Queries whose answers were truncated are repeated by TCP.
            let again: Vec<_> = cut_short
                .into_iter()
                .map(|i| Query { transport: Transport::Tcp, ..queries[i].clone() })
                .collect();
            self.batch(world, servers, secondaries, &again)?;
        }
        for server in servers.iter_mut().chain(secondaries.list.iter_mut().map(|(_, server)| server)) {
            if !server.is_alive() {
                return Err(format!("{} died\n{}", server.kind.label(), server.log_tail()));
            }
        }
        Ok(())
    }

    /// Queries all servers and compares; returns the queries whose full answer needs TCP.
    fn batch(
        &mut self,
        world: &World,
        servers: &[Server],
        secondaries: &Secondaries,
        queries: &[Query],
    ) -> Result<Vec<usize>, String> {
        let answers = ask(servers, queries)?;
        let as_secondary = ask(secondaries.list.iter().map(|(_, server)| server), queries)?;
        self.by_every_way(servers, queries, &answers)?;
        let mut cut_short = Vec::new();
        for (i, query) in queries.iter().enumerate() {
            self.number += 1;
            let zone = world.zone_of(&query.name);
            let mut case =
                Case { query, message: None, world, replies: Vec::new(), forwarding: None, resolving: None };
            let mut wires = Vec::new();
            for (server, answers) in servers.iter().zip(&answers) {
                if zone.is_some_and(|z| !z.is_served_by(server.kind)) {
                    continue;
                }
                case.replies.push((server.kind, Reply::from_wire(answers[i].as_deref())));
                wires.push(server.said(answers[i].clone()));
            }
            let mut unsure = self.judge(&case, &wires, servers, Origin::File);
            // The same case, with the reply of nomen as a secondary instead.
            let at = case.replies.iter().position(|(kind, _)| *kind == Kind::Nomen);
            for ((origin, server), answers) in secondaries.list.iter().zip(&as_secondary) {
                let Some(at) = at else { continue };
                case.replies[at].1 = Reply::from_wire(answers[i].as_deref());
                wires[at] = server.said(answers[i].clone());
                unsure |= self.judge(&case, &wires, servers, *origin);
            }
            if query.transport == Transport::Udp && unsure {
                cut_short.push(i);
            }
        }
        Ok(cut_short)
    }

    /// Repeats the UDP queries to nomen by every other transport, and compares the bytes.
    fn by_every_way(
        &mut self,
        servers: &[Server],
        queries: &[Query],
        answers: &[Vec<Option<Vec<u8>>>],
    ) -> Result<(), String> {
        let nomen = servers.iter().zip(answers).find(|(server, _)| server.kind == Kind::Nomen);
        let (Some(fronts), Some((loopback, answers))) = (self.fronts.as_mut(), nomen) else { return Ok(()) };
        let udp: Vec<_> = (0..queries.len()).filter(|&i| queries[i].transport == Transport::Udp).collect();
        let messages: Vec<_> = udp.iter().enumerate().map(|(id, &i)| queries[i].to_wire(id as u16)).collect();
        let expected: Vec<_> = udp.iter().map(|&i| answers[i].clone()).collect();
        for difference in fronts.compare(loopback, &messages, &expected)? {
            self.differing += 1;
            if self.differing <= self.arguments.show {
                let expected = expected[difference.index].as_deref();
                fronts::show(&difference, &queries[udp[difference.index]].to_dig(), expected);
            }
        }
        Ok(())
    }

    /// Sends the raw messages of the `messages` suite, by UDP and by TCP, and compares the replies.
    fn messages(&mut self, world: &World, servers: &[Server]) -> Result<(), String> {
        let list = messages::all(self.arguments.seed);
        for transport in [Transport::Udp, Transport::Tcp] {
            let wires: Vec<_> = list.iter().map(|m| m.wire.clone()).collect();
            let answers: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = servers
                    .iter()
                    .map(|server| scope.spawn(|| messages::send(server.address, &wires, transport)))
                    .collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|_| Err("a client thread panicked".to_owned())))
                    .collect()
            });
            let answers = answers.into_iter().collect::<Result<Vec<_>, String>>()?;
            let nomen = servers.iter().zip(&answers).find(|(server, _)| server.kind == Kind::Nomen);
            if let (Transport::Udp, Some(fronts), Some((loopback, expected))) =
                (transport, self.fronts.as_mut(), nomen)
            {
                for difference in fronts.compare(loopback, &wires, expected)? {
                    let expected = expected[difference.index].as_deref();
                    let name = format!("message '{}'", list[difference.index].name);
                    fronts::show(&difference, &name, expected);
                }
            }
            for (i, message) in list.iter().enumerate() {
                self.number += 1;
                let query = Query { transport, ..message.query.clone() };
                let replies = Vec::new();
                let mut case = Case {
                    query: &query,
                    message: Some(message),
                    world,
                    replies,
                    forwarding: None,
                    resolving: None,
                };
                let mut wires = Vec::new();
                for (server, answers) in servers.iter().zip(&answers) {
                    case.replies.push((server.kind, Reply::from_wire(answers[i].as_deref())));
                    wires.push(server.said(answers[i].clone()));
                }
                self.judge(&case, &wires, servers, Origin::File);
            }
        }
        Ok(())
    }

    /// Counts a case, and prints it if it is new or asked for. Returns whether the full answers need TCP.
    fn judge(&mut self, case: &Case<'_>, wires: &[Said], servers: &[Server], origin: Origin) -> bool {
        let subjects: Vec<_> = match self.subject {
            Some(kind) => vec![kind],
            None => servers.iter().map(|s| s.kind).collect(),
        };
        let wanted = self.arguments.reproduce;
        for kind in subjects {
            let rest = self.tallies.entry((kind, origin)).or_default().add(case, kind);
            let mut show = wanted == Some(self.number);
            if wanted.is_none()
                && let Some(difference) = rest.first()
            {
                let against = difference.against.clone();
                let shown = self.shown.entry((kind, origin, difference.facet, against)).or_default();
                *shown += 1;
                show |= *shown <= self.arguments.show;
            }
            if show {
                report::show(self.number, case, (kind, origin), &rest, wires);
            }
        }
        let truncated = |(_, r): &(Kind, Reply)| r.answer().is_some_and(|a| a.has(answer::flag::TC));
        let uneven = |kind| compare::differences(case, kind).iter().any(|d| d.facet == Facet::Additional);
        case.replies.iter().any(truncated) || self.subject.is_some_and(uneven)
    }
}

/// Returns all servers' answers to all queries, in the order of `servers` and `queries`.
fn ask<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    queries: &[Query],
) -> Result<Vec<Vec<Option<Vec<u8>>>>, String> {
    ask_patiently(servers, queries, RESEND_TIMEOUT)
}

/// Like [`ask`], but sends an unanswered query again only after `patience`.
fn ask_patiently<'a>(
    servers: impl IntoIterator<Item = &'a Server>,
    queries: &[Query],
    patience: Duration,
) -> Result<Vec<Vec<Option<Vec<u8>>>>, String> {
    let wires: Vec<_> = queries.iter().enumerate().map(|(i, q)| q.to_wire(i as u16)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .into_iter()
            .map(|server| scope.spawn(|| ask_one(server, queries, &wires, patience)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| "a client thread panicked".to_owned())?)
            .collect()
    })
}

fn ask_one(
    server: &Server,
    queries: &[Query],
    wires: &[Vec<u8>],
    patience: Duration,
) -> Result<Vec<Option<Vec<u8>>>, String> {
    let mut answers = vec![None; wires.len()];
    for transport in [Transport::Udp, Transport::Tcp] {
        let picked: Vec<_> = (0..wires.len()).filter(|i| queries[*i].transport == transport).collect();
        let mut messages: Vec<_> = picked.iter().map(|i| wires[*i].clone()).collect();
        for (id, message) in messages.iter_mut().enumerate() {
            message[..2].copy_from_slice(&(id as u16).to_be_bytes());
        }
        let result = match transport {
            Transport::Udp => client::udp(server.address, &messages, patience),
            Transport::Tcp => client::tcp(server.address, &messages, patience, client::PIPELINE),
        };
        for (i, answer) in
            picked.into_iter().zip(result.map_err(|e| format!("{}: {e}", server.kind.label()))?)
        {
            answers[i] = answer;
        }
    }
    Ok(answers)
}

#[cfg(test)]
mod tests;
