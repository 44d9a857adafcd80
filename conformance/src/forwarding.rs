//! The suite for forwarders: all forward to the same upstream server and get the same queries twice, the
//! second time answered from their caches.

use crate::answer::{Answer, flag};
use crate::compare::{Case, Forwarding, Reply};
use crate::name::Name;
use crate::query::{Query, Transport, rtype};
use crate::report::Said;
use crate::secondaries::Origin;
use crate::servers::{AUTHORITATIVE, FORWARDING, Kind, Server};
use crate::zones::World;
use crate::{BATCH, Run, ask, generate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between the first answer to the last query and the first query's repetition: TTLs have decreased by
/// then.
const REPEAT_PAUSE: Duration = Duration::from_millis(2100);

/// Replies of one server to a list of queries.
type Replies = Vec<Option<Vec<u8>>>;

impl Run<'_> {
    /// Tests forwarders before each of `upstreams` in turn, with an equal share of `count` queries each.
    pub(crate) fn forwarders(
        &mut self,
        programs: &BTreeMap<Kind, PathBuf>,
        world: &World,
        upstreams: &mut [Server],
        count: usize,
        dir: &Path,
    ) -> Result<(), String> {
        let mut generator = generate::Generator::new(world, self.arguments.seed);
        let rounds = count.div_ceil(BATCH).max(upstreams.len());
        let dir = dir.join(format!("{}-forwarders", world.name));
        for round in 0..rounds {
            let share = count * (round + 1) / rounds - count * round / rounds;
            let queries: Vec<_> = (0..share).map(|_| wanting_recursion(generator.next_query())).collect();
            let upstream = &upstreams[round % upstreams.len()];
            self.round(programs, world, upstream, queries, &dir)?;
        }
        for server in upstreams {
            if !server.is_alive() {
                return Err(format!("{} died\n{}", server.kind.label(), server.log_tail()));
            }
        }
        Ok(())
    }

    /// Sends one list of queries to newly started forwarders, whose caches are empty.
    fn round(
        &mut self,
        programs: &BTreeMap<Kind, PathBuf>,
        world: &World,
        upstream: &Server,
        queries: Vec<Query>,
        dir: &Path,
    ) -> Result<(), String> {
        let born = Instant::now();
        let mut servers = start(programs, self.arguments.port, world, upstream, dir)?;
        let round = Round::ask(upstream, &servers, queries, born)?;
        for server in &mut servers {
            if !server.is_alive() {
                return Err(format!("{} died\n{}", server.kind.label(), server.log_tail()));
            }
        }
        for i in 0..round.queries.len() {
            for earlier in [None, Some(&round.first)] {
                self.number += 1;
                let case = round.case(i, world, upstream, &servers, earlier);
                self.judge(&case, &round.said(i, upstream, &servers, earlier), &servers, Origin::File);
            }
        }
        Ok(())
    }
}

/// The replies of all servers to a list of queries.
#[derive(Debug)]
struct Round {
    queries: Vec<Query>,
    /// Of the upstream server itself, by TCP.
    upstream: Replies,
    first: Pass,
    second: Pass,
    /// Seconds between the two passes, rounded down.
    waited: u32,
}

/// The replies to all queries sent once.
#[derive(Debug)]
struct Pass {
    /// In the order of the servers.
    replies: Vec<Replies>,
    /// Largest allowed difference of TTLs, in seconds.
    slack: u32,
}

impl Round {
    /// Queries `upstream` once and the forwarders before it twice. `born` is a time at which their caches
    /// were empty.
    fn ask(
        upstream: &Server,
        servers: &[Server],
        mut queries: Vec<Query>,
        born: Instant,
    ) -> Result<Self, String> {
        let by_tcp = |query: &Query| Query { transport: Transport::Tcp, ..query.clone() };
        let whole: Vec<_> = queries.iter().map(by_tcp).collect();
        let mut truth = ask(std::slice::from_ref(upstream), &whole)?.remove(0);
        let mut first = ask(servers, &queries)?;
        // Queries whose answers were truncated are repeated by TCP.
        let again: Vec<_> = (0..queries.len()).filter(|&i| is_cut_short(&first, i)).collect();
        let repeated: Vec<_> = again.iter().map(|&i| whole[i].clone()).collect();
        for (all, more) in first.iter_mut().zip(ask(servers, &repeated)?) {
            all.extend(more);
        }
        truth.extend(again.iter().map(|&i| truth[i].clone()).collect::<Vec<_>>());
        queries.extend(repeated);
        let first = Pass { replies: first, slack: slack(born) };
        let end = Instant::now();
        std::thread::sleep(REPEAT_PAUSE);
        let waited = end.elapsed().as_secs() as u32;
        let second = Pass { replies: ask(servers, &queries)?, slack: slack(born) };
        Ok(Self { queries, upstream: truth, first, second, waited })
    }

    /// Returns the case of query `i`: with the first replies, or, given those as `earlier`, with the second
    /// ones.
    fn case<'a>(
        &'a self,
        i: usize,
        world: &'a World,
        upstream: &Server,
        servers: &[Server],
        earlier: Option<&Pass>,
    ) -> Case<'a> {
        let read = |pass: &Pass| -> Vec<_> {
            let of = |(s, r): (&Server, &Replies)| (s.kind, Reply::from_wire(r[i].as_deref()));
            servers.iter().zip(&pass.replies).map(of).collect()
        };
        let pass = if earlier.is_some() { &self.second } else { &self.first };
        let forwarding = Forwarding {
            upstream: (upstream.kind, Reply::from_wire(self.upstream[i].as_deref())),
            slack: pass.slack,
            earlier: earlier.map(read).unwrap_or_default(),
            waited: self.waited,
            kept_apart: self.kept_apart(&self.queries[i].name.lower()),
        };
        let replies = read(pass);
        Case {
            query: &self.queries[i],
            message: None,
            world,
            replies,
            forwarding: Some(forwarding),
            resolving: None,
        }
    }

    /// Returns how many different answers a cache keeps for a name.
    fn kept_apart(&self, name: &Name) -> usize {
        let about = self.queries.iter().filter(|query| query.name.lower() == *name);
        let dnssec_ok = |query: &Query| query.edns.as_ref().is_some_and(|edns| edns.dnssec_ok);
        about
            .map(|query| (query.qtype, query.class, dnssec_ok(query), query.cd))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// Returns the same replies for printing.
    fn said(&self, i: usize, upstream: &Server, servers: &[Server], earlier: Option<&Pass>) -> Vec<Said> {
        let by = |pass: &Pass, when: &str| -> Vec<Said> {
            let of = |(s, r): (&Server, &Replies)| {
                let who = format!("{}{when}", s.kind.label());
                Said { who, ..s.said(r[i].clone()) }
            };
            servers.iter().zip(&pass.replies).map(of).collect()
        };
        let who = format!("{}, what is forwarded to, by TCP", upstream.kind.label());
        let mut said = vec![Said { who, ..upstream.said(self.upstream[i].clone()) }];
        match earlier {
            None => said.extend(by(&self.first, "")),
            Some(first) => {
                said.extend(by(first, ", the first time"));
                said.extend(by(&self.second, ""));
            }
        }
        said
    }
}

/// Sets RD: what forwarders do without it is not compared.
fn wanting_recursion(query: Query) -> Query {
    Query { rd: true, ..query }
}

fn start(
    programs: &BTreeMap<Kind, PathBuf>,
    port: u16,
    world: &World,
    upstream: &Server,
    dir: &Path,
) -> Result<Vec<Server>, String> {
    let mut servers = Vec::new();
    let mut port = port + AUTHORITATIVE.len() as u16;
    for kind in FORWARDING {
        let Some(program) = programs.get(&kind) else { continue };
        servers.push(Server::start_forwarding(kind, program, port, upstream.address, dir)?);
        port += 1;
    }
    let zone = world.zones.iter().find(|z| z.is_served_by(upstream.kind));
    let zone = zone.ok_or_else(|| format!("{} serves nothing", upstream.kind.label()))?;
    let probe = Query { rd: true, ..Query::plain(zone.name.child(b"is-it-there"), rtype::TXT) };
    for server in &mut servers {
        server.wait_until_forwarding(&probe)?;
    }
    Ok(servers)
}

/// Returns the largest possible difference of a record's TTLs in two caches, in seconds: the time since
/// `born`, when both were empty, and two more for rounding.
fn slack(born: Instant) -> u32 {
    born.elapsed().as_secs() as u32 + 2
}

fn is_cut_short(replies: &[Replies], i: usize) -> bool {
    let truncated = |wire: &[u8]| Answer::parse(wire).is_ok_and(|a| a.has(flag::TC));
    replies.iter().any(|r| r[i].as_deref().is_some_and(truncated))
}
