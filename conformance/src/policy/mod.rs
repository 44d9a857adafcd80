//! Response policy zones: the same policy zones and queries through nomen, BIND, Unbound and PowerDNS
//! Recursor, each a resolver on a small Internet of its own. A model predicts each response; where a server
//! differs from it, a named change of the model must predict what the server sends.

mod configs;
mod data;
mod judge;
mod model;
mod rules;
pub(crate) mod variants;

use crate::answer::Answer;
use crate::client;
use crate::internet;
use crate::internet::servers::{RESOLVERS, start_adapted, start_hosts};
use crate::internet::sites::of_both;
use crate::programs;
use crate::query::{Edns, Query, Transport, rtype};
use crate::rng::Rng;
use crate::servers::{Kind, Server};
use data::DataZones;
use judge::Judge;
use model::{Ask, Model};
use rules::{CLIENTS, Maker, Policy};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of cases after which the policy changes and resolvers are restarted.
const CASES_PER_ROUND: usize = 1000;
/// The same for a short run.
const CASES_PER_SHORT_ROUND: usize = 150;
/// Time after which a query is sent again; a response that is dropped is waited for this long each time.
const PATIENCE: Duration = Duration::from_millis(1000);
/// How often a query is sent before its response counts as dropped.
const SENDS: u32 = 3;

/// How often a query that has failed is sent again.
const REPEATS: usize = 2;
/// Time before that, so that failures are no longer cached.
const PAUSE: Duration = Duration::from_secs(2);

/// The oldest version of Unbound that is compared.
const OLDEST_UNBOUND: (u32, u32) = (1, 18);

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Number of cases.
    pub cases: usize,
    /// Whether the run is a short one.
    pub quick: bool,
    /// Seed.
    pub seed: u64,
    /// How many unexplained responses to print.
    pub show: usize,
    /// The only case to print.
    pub reproduce: Option<usize>,
    /// Whether to print reasons.
    pub reasons: bool,
}

/// Compares all servers, and returns the number of unexplained responses.
pub(crate) fn run(programs: &BTreeMap<Kind, PathBuf>, extent: Extent, dir: &Path) -> Result<usize, String> {
    let namespace = internet::namespace()?;
    let of_resolvers = RESOLVERS.map(resolver_v6);
    for address in CLIENTS.into_iter().chain(of_resolvers).filter(IpAddr::is_ipv6) {
        namespace.ip(&format!("addr add {address}/128 dev lo nodad"))?;
    }
    // Servers end with the thread that has started them, so one thread does everything.
    namespace.enter(|| {
        let data = DataZones::plan(extent.seed);
        let sites = data.make(&dir.join("zones"))?;
        let mut hosts = start_hosts(programs, &[Kind::Nsd, Kind::Knot, Kind::Bind], &sites, dir)?;
        let resolvers = resolvers(programs);
        let maker = Maker::new(&data);
        let mut judge = Judge::new(extent);
        let mut left = extent.cases;
        let mut round = 0;
        while left > 0 {
            round += 1;
            let mut rng = Rng::new(extent.seed.wrapping_mul(1_000_003) ^ round);
            let policy = maker.policy(&mut rng);
            let per_round = if extent.quick { CASES_PER_SHORT_ROUND } else { CASES_PER_ROUND };
            let asks: Vec<Ask> = (0..left.min(per_round)).map(|_| ask(&maker, &policy, &mut rng)).collect();
            left -= asks.len();
            let dir = dir.join(format!("round{round}"));
            let mut servers = start_adapted(&resolvers, &sites, &dir, |kind, text, home| {
                configs::adapt(kind, text, home, &policy)
            })?;
            servers.iter_mut().try_for_each(|server| wait_for_rules(server, policy.zones.len()))?;
            let replies = send(&servers, &asks);
            let mut replies = living(&mut servers, replies, &mut judge, round)?;
            repeat_failed(&servers, &asks, &mut replies, &mut judge)?;
            for (at, ask) in asks.iter().enumerate() {
                let of = |(kind, replies): &(Kind, Vec<Reply>)| (*kind, replies[at].clone());
                judge.case(
                    &Model::new(&data, &policy),
                    ask,
                    &replies.iter().map(of).collect::<Vec<_>>(),
                    round,
                );
            }
        }
        hosts.iter_mut().try_for_each(Server::still_runs)?;
        Ok(judge.finish())
    })
}

/// Waits until a server has the rules of all policy zones. BIND compiles them after its start, each zone by
/// itself, and answers without them until then; the other servers have them when they answer.
fn wait_for_rules(server: &mut Server, zones: usize) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(20);
    while server.kind == Kind::Bind && server.log().matches(": reload done: success").count() < zones {
        // A peer that has ended is reported after the queries.
        if server.still_runs().is_err() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("BIND does not load the policy zones\n{}", server.log_tail()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Returns the IPv6 address of a resolver.
fn resolver_v6(kind: Kind) -> IpAddr {
    let at = RESOLVERS.iter().position(|other| *other == kind);
    of_both(201, at.map_or(0, |at| at as u8 + 1))[1]
}

/// Returns the programs that are there and new enough; says which are not.
fn resolvers(programs: &BTreeMap<Kind, PathBuf>) -> BTreeMap<Kind, PathBuf> {
    let chosen = |kind: Kind| {
        let Some(path) = programs.get(&kind).filter(|path| path.exists()) else {
            println!("{} is left out: there is no such program", kind.label());
            return None;
        };
        // Unbound 1.17 ends with a segmentation fault with some of the policies.
        if kind == Kind::Unbound && programs::is_older(kind, path, OLDEST_UNBOUND) {
            println!("{} is left out: it crashes with policy zones in this version", kind.label());
            return None;
        }
        Some((kind, path.clone()))
    };
    RESOLVERS.into_iter().filter_map(chosen).collect()
}

/// A response, or none.
type Reply = Option<Vec<u8>>;

fn ask(maker: &Maker<'_>, policy: &Policy, rng: &mut Rng) -> Ask {
    let qtype = match rng.below(100) {
        0..48 => rtype::A,
        48..70 => rtype::AAAA,
        70..82 => rtype::TXT,
        82..90 => rtype::MX,
        90..95 => rtype::CNAME,
        _ => rtype::HTTPS,
    };
    Ask {
        name: maker.asked(policy, rng),
        qtype,
        client: *rng.pick(&CLIENTS),
        dnssec_ok: rng.chance(40),
        ad: rng.chance(30),
        cd: rng.chance(15),
        transport: if rng.chance(12) { Transport::Tcp } else { Transport::Udp },
    }
}

impl Ask {
    /// Returns it as a query.
    pub(crate) fn query(&self) -> Query {
        let edns = Edns { size: 1232, version: 0, dnssec_ok: self.dnssec_ok, options: Vec::new() };
        Query {
            rd: true,
            ad: self.ad,
            cd: self.cd,
            edns: Some(edns),
            transport: self.transport,
            ..Query::plain(self.name.clone(), self.qtype)
        }
    }
}

/// Sends all queries to all servers, each from its client's address.
fn send(servers: &[Server], asks: &[Ask]) -> Vec<Result<Vec<Reply>, String>> {
    std::thread::scope(|scope| {
        let one = |server| move || send_to(server, asks);
        let threads: Vec<_> = servers.iter().map(|server| scope.spawn(one(server))).collect();
        threads.into_iter().map(joined).collect()
    })
}

/// Returns the responses of the servers that still run. A peer that has died is left out of the round; nomen
/// must not die.
fn living(
    servers: &mut [Server],
    replies: Vec<Result<Vec<Reply>, String>>,
    judge: &mut Judge,
    round: u64,
) -> Result<Vec<(Kind, Vec<Reply>)>, String> {
    let mut out = Vec::new();
    for (server, replies) in servers.iter_mut().zip(replies) {
        match server.still_runs() {
            Ok(()) => out.push((server.kind, replies?)),
            Err(error) if server.kind == Kind::Nomen => return Err(error),
            Err(_) => judge.died(server.kind, round, &server.log()),
        }
    }
    Ok(out)
}

/// Sends queries that have failed again when no others wait, and counts those that do not fail then: at first
/// nothing is in the caches, and a server on a busy machine may be late. Unbound and PowerDNS fail for other
/// reasons.
fn repeat_failed(
    servers: &[Server],
    asks: &[Ask],
    replies: &mut [(Kind, Vec<Reply>)],
    judge: &mut Judge,
) -> Result<(), String> {
    let has_failed =
        |reply: &Reply| reply.as_ref().is_some_and(|wire| wire.get(3).is_some_and(|b| b & 15 == 2));
    for (kind, of_kind) in replies.iter_mut().filter(|(kind, _)| matches!(kind, Kind::Nomen | Kind::Bind)) {
        let Some(server) = servers.iter().find(|server| server.kind == *kind) else { continue };
        for _ in 0..REPEATS {
            if of_kind.iter().any(has_failed) {
                std::thread::sleep(PAUSE);
            }
            for (ask, reply) in asks.iter().zip(of_kind.iter_mut()).filter(|(_, reply)| has_failed(reply)) {
                let again = send_from(server, ask.client, ask.transport, std::iter::once(ask))?;
                *reply = again.into_iter().next().flatten();
                if !has_failed(reply) {
                    judge.failed_at_first(*kind);
                }
            }
        }
    }
    Ok(())
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, String>>) -> Result<T, String> {
    thread.join().map_err(|_| "a client thread panicked".to_owned())?
}

fn send_to(server: &Server, asks: &[Ask]) -> Result<Vec<Reply>, String> {
    let mut replies = vec![None; asks.len()];
    let groups: Vec<(IpAddr, Transport)> = CLIENTS
        .iter()
        .flat_map(|client| [Transport::Udp, Transport::Tcp].map(|transport| (*client, transport)))
        .collect();
    let by_group: Vec<(Vec<usize>, Vec<Reply>)> = std::thread::scope(|scope| {
        let one = |(client, transport)| {
            move || {
                let is_mine = |at: &usize| (asks[*at].client, asks[*at].transport) == (client, transport);
                let mine: Vec<usize> = (0..asks.len()).filter(is_mine).collect();
                let replies = send_from(server, client, transport, mine.iter().map(|at| &asks[*at]))?;
                Ok((mine, replies))
            }
        };
        let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(one(group))).collect();
        threads.into_iter().map(joined).collect::<Result<_, String>>()
    })?;
    for (mine, of_group) in by_group {
        for (at, reply) in mine.into_iter().zip(of_group) {
            replies[at] = reply;
        }
    }
    Ok(replies)
}

fn send_from<'a>(
    server: &Server,
    client: IpAddr,
    transport: Transport,
    asks: impl Iterator<Item = &'a Ask>,
) -> Result<Vec<Reply>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", server.kind.label());
    let messages: Vec<Vec<u8>> = asks.enumerate().map(|(id, ask)| ask.query().to_wire(id as u16)).collect();
    let address = match client {
        IpAddr::V4(_) => server.address,
        IpAddr::V6(_) => SocketAddr::new(resolver_v6(server.kind), server.address.port()),
    };
    if transport == Transport::Udp {
        return client::udp_from(client, address, &messages, PATIENCE, SENDS).map_err(failed);
    }
    let one = |message: &Vec<u8>| {
        let first = client::tcp_from(client, address, message, PATIENCE).map_err(failed)?;
        // Silence is confirmed by a second try.
        match first {
            Some(reply) => Ok(Some(reply)),
            None => client::tcp_from(client, address, message, PATIENCE).map_err(failed),
        }
    };
    messages.iter().map(one).collect()
}

/// Decodes a response.
fn decoded(reply: &Reply) -> Result<Option<Answer>, String> {
    reply.as_deref().map(Answer::parse).transpose()
}

#[cfg(test)]
mod tests;
