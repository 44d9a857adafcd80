//! Resolver workloads with uncached names: misses, floods and overload, with a well-behaved client beside
//! them. Also fills the caches beforehand. Purely cached answers are measured like those from zones, in
//! `session.rs`.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::load::{self, Dnsperf, Load};
use crate::measure::{self, Usage, Watch};
use crate::queries::{self, Known, Mix, Zipf};
use crate::random::Random;
use crate::report::Figures;
use crate::servers::Server;
use crate::session::Plan;
use crate::upstream::Upstream;
use crate::workloads::{Cell, Workload};

/// Address of the well-behaved client: in another network than the loads, for servers that distinguish
/// networks.
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// Source address of loads.
pub(crate) const LOAD: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Queries per second of the well-behaved client.
pub(crate) const CLIENT_RATE: u64 = 1000;
/// Queries per second beside misses, to measure their latency.
const PROBE_RATE: u64 = 500;
/// Queries in flight of a flood; a server that handles fewer must drop some.
const FLOOD: usize = 1000;
/// Maximum number of queries in flight of dnsperf.
const MAX_IN_FLIGHT: usize = 60_000;
/// Maximum number of passes over the names until all are cached.
const PASSES: usize = 6;
/// Interval of memory samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// A server with the upstream that it forwards to.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// The plan of the run.
    pub(crate) plan: &'a Plan,
    /// The server.
    pub(crate) server: &'a Server,
    /// Its upstream.
    pub(crate) upstream: &'a Upstream,
    /// The workload.
    pub(crate) workload: Workload,
}

/// Arrival of queries for new names.
#[derive(Clone, Copy)]
enum Flow {
    /// As fast as they are answered, or at a fixed rate.
    Answered(Dnsperf),
    /// At a fixed rate, whether or not they are answered.
    Regardless(u64),
}

/// Results of a load and of the client beside it, and the server's resource use.
struct Seen {
    /// The load, or the client if there is no other.
    load: Load,
    client: Load,
    usage: Usage,
    /// Resident bytes, ten times per second.
    resident: Vec<f64>,
    /// Upstream queries for names that the client asks for, and for those below the wildcard.
    forwarded: (u64, u64),
}

impl Ground<'_> {
    /// Queries every known name until the server has cached them all; returns the bytes that each takes.
    pub(crate) fn warm(&self) -> Result<Option<f64>> {
        let plan = self.plan;
        let Some(names) = self.workload.known(&plan.sizes) else { return Ok(None) };
        let which = self.workload.which();
        let key = if which == Known::Plain { "known" } else { "known-signed" };
        let set = queries::make(&plan.work.join("queries"), key, &Mix::Each(which), plan.seed, names)?;
        let how = Dnsperf { clients: 10, outstanding: 50, rate: None, tcp: false };
        let resident = || measure::memory(&measure::processes(self.server.group())).resident;
        let before = resident();
        let mut forwarded = 0;
        for _ in 0..PASSES {
            let asked = self.upstream.asked().known;
            load::dnsperf_once(self.server.address, &set.wire, how, plan.patience)?;
            forwarded = self.upstream.asked().known - asked;
            // A server that assumes a lost answer may repeat a few upstream queries.
            if forwarded * 1000 <= names {
                let grown = resident().saturating_sub(before) as f64;
                return Ok(self.workload.tells_entries().then(|| grown / names as f64));
            }
        }
        Err(Failure::new(format!("does not keep {names} names: {forwarded} are forwarded in pass {PASSES}")))
    }

    /// Runs `work`, and adds the percentage of queries answered without the upstream to its figures.
    pub(crate) fn with_hits(
        &self,
        work: impl FnOnce() -> Result<(Load, Figures)>,
    ) -> Result<(Load, Figures)> {
        let before = self.upstream.asked().known;
        let (load, figures) = work()?;
        let forwarded = self.upstream.asked().known - before;
        let hit_percent = hits(load.answered + load.probed, forwarded);
        Ok((load, Figures { hit_percent, ..figures }))
    }

    /// Applies one kind of load to the server.
    pub(crate) fn measure(&self, cell: Cell) -> Result<(Load, Figures)> {
        let plan = self.plan;
        // Enough queries in flight for 100,000 per second despite the upstream's delay, which must not be the
        // limit.
        let held = plan.delay.as_millis() as usize * 100;
        let loaded = |clients: usize, outstanding: usize, rate: Option<u64>| Dnsperf {
            clients,
            outstanding: (outstanding.max(clients) + held).min(MAX_IN_FLIGHT),
            rate,
            tcp: false,
        };
        let (seen, offered) = match cell {
            Cell::RoundTrip => return self.round_trips(),
            Cell::MissRate { rate, clients } => (self.misses(loaded(clients, 100, Some(rate)))?, Some(rate)),
            Cell::Saturated { clients } => (self.misses(loaded(clients, 200, None))?, None),
            Cell::Alone => (self.beside(None)?, None),
            Cell::Flood => (self.beside(Some(Flow::Answered(loaded(20, FLOOD, None))))?, None),
            Cell::Overload => {
                let full = self.beside(Some(Flow::Answered(loaded(20, FLOOD, None))))?;
                let rate = 2 * (full.load.answered as f64 / full.load.seconds) as u64;
                (self.beside(Some(Flow::Regardless(rate)))?, Some(rate))
            }
            _ => return Err(Failure::new(format!("{}: not a load of resolvers", cell.name()))),
        };
        if seen.load.answered == 0 {
            return Err(Failure::new(format!("{}: nothing was answered", cell.name())));
        }
        Ok(self.told(seen, cell, offered))
    }

    /// Applies a load to the reflector in the server's place: shows what client, flood and their CPU make of
    /// answers without cost.
    pub(crate) fn floor(&self, cell: Cell) -> Result<(Load, Figures)> {
        let (load, figures) = self.measure(cell)?;
        // It neither caches nor forwards.
        let nothing = Figures {
            forwarded: None,
            hit_percent: None,
            peak_bytes: None,
            bound_share: None,
            resident: Vec::new(),
            ..figures
        };
        Ok((load, nothing))
    }

    /// Keeps one query outstanding, each for a new name, to the server and to its upstream.
    fn round_trips(&self) -> Result<(Load, Figures)> {
        let plan = self.plan;
        let unique = |seconds: f64| -> Vec<Vec<u8>> {
            (0..(seconds * 60_000.0) as usize).map(|_| self.written()).collect()
        };
        let ask = |server, seconds| load::round_trips(server, &unique(seconds), 0, seconds);
        if plan.is_timed() {
            ask(self.server.address, plan.seconds / 5.0)?;
        }
        let direct = ask(self.upstream.address, plan.seconds)?.latency;
        let before = self.upstream.asked().unique;
        let watch = Watch::start(self.server.group());
        let load = ask(self.server.address, plan.seconds)?;
        let usage = watch.stop();
        let forwarded = self.upstream.asked().unique - before;
        let added = |own: Option<f64>, direct: Option<f64>| Some(own? - direct?);
        let figures = Figures {
            added_p50_us: added(load.latency.p50, direct.p50),
            added_p99_us: added(load.latency.p99, direct.p99),
            forwarded: Some(forwarded as f64 / load.answered.max(1) as f64),
            failed_percent: failed(&load),
            ..Figures::new(&load, &usage)
        };
        Ok((load, figures))
    }

    fn written(&self) -> Vec<u8> {
        let mut query = Vec::with_capacity(64);
        queries::write_unique(&mut query, self.plan.seed, self.upstream.unused());
        query
    }

    /// Only new names; the client beside the load asks for new ones too.
    fn misses(&self, how: Dnsperf) -> Result<Seen> {
        let unique = |out: &mut Vec<u8>| queries::write_unique(out, self.plan.seed, self.upstream.unused());
        if self.plan.is_timed() {
            load::dnsperf_fed(self.server.address, how, self.plan.seconds / 5.0, unique)?;
        }
        let client = Client { source: CLIENT, rate: PROBE_RATE };
        self.watched(Some(Flow::Answered(how)), client, unique)
    }

    /// New names, if any, with a client beside them that asks for popular known names.
    fn beside(&self, flow: Option<Flow>) -> Result<Seen> {
        let zipf = Zipf::new(self.workload.known(&self.plan.sizes).unwrap_or(1));
        let mut random = Random::new(self.plan.seed ^ self.upstream.unused());
        let known = |out: &mut Vec<u8>| queries::write_known(out, self.plan.seed, zipf.pick(&mut random));
        self.watched(flow, Client { source: CLIENT, rate: CLIENT_RATE }, known)
    }

    fn watched(
        &self,
        flow: Option<Flow>,
        client: Client,
        next: impl FnMut(&mut Vec<u8>) + Send,
    ) -> Result<Seen> {
        let unique = |out: &mut Vec<u8>| queries::write_unique(out, self.plan.seed, self.upstream.unused());
        let failed = |what: &'static str| move |_| Err(Failure::new(what));
        let seconds = self.plan.seconds;
        let (address, before) = (self.server.address, self.upstream.asked());
        std::thread::scope(|scope| {
            let load = flow.map(|flow| {
                scope.spawn(move || match flow {
                    Flow::Answered(how) => load::dnsperf_fed(address, how, seconds, unique),
                    // dnsperf mistakes late answers for those to later queries with the same ID.
                    Flow::Regardless(rate) => Client { source: LOAD, rate }.ask(address, seconds, unique),
                })
            });
            let client = scope.spawn(|| client.ask(address, seconds, next));
            // dnsperf still waits for lost answers after it has stopped sending.
            let watch = Watch::start(self.server.group());
            let resident = self.resident(seconds);
            let usage = watch.stop();
            let client = client.join().unwrap_or_else(failed("the client failed"))?;
            let load = load.map(|load| load.join().unwrap_or_else(failed("the load failed"))).transpose()?;
            let load = load.unwrap_or_else(|| client.clone());
            let after = self.upstream.asked();
            let forwarded = (after.known - before.known, after.unique - before.unique);
            Ok(Seen { load, client, usage, resident, forwarded })
        })
    }

    /// Samples the resident bytes for `seconds`.
    fn resident(&self, seconds: f64) -> Vec<f64> {
        let processes = measure::processes(self.server.group());
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut seen = Vec::new();
        loop {
            seen.push(measure::memory(&processes).resident as f64);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return seen;
            }
            std::thread::sleep(left.min(SAMPLE_INTERVAL));
        }
    }

    fn told(&self, seen: Seen, cell: Cell, offered: Option<u64>) -> (Load, Figures) {
        let Seen { mut load, client, usage, resident, forwarded } = seen;
        load.latency = client.latency;
        let alone = cell == Cell::Alone;
        load.probed = if alone { 0 } else { client.answered };
        let misses = matches!(cell, Cell::MissRate { .. } | Cell::Saturated { .. });
        let unique = load.answered + if misses { client.answered } else { 0 };
        let peak = resident.iter().copied().fold(0.0, f64::max);
        let bound = self.workload.cache(self.plan) as f64;
        let grown = peak - self.server.startup.memory.resident as f64;
        let floods = cell == Cell::Flood;
        let figures = Figures {
            forwarded: (!alone).then(|| forwarded.1 as f64 / unique.max(1) as f64),
            failed_percent: failed(&load),
            hit_percent: if misses { None } else { hits(client.answered, forwarded.0) },
            served_percent: (!misses).then(|| 100.0 * client.answered as f64 / client.sent.max(1) as f64),
            // It sends for this time, and then waits for the last answers.
            offered_qps: offered.map(|_| load.sent as f64 / self.plan.seconds),
            wanted_qps: offered.map(|wanted| wanted as f64),
            peak_bytes: floods.then_some(peak),
            bound_share: floods.then_some(grown / bound),
            resident: if floods { resident } else { Vec::new() },
            ..Figures::new(&load, &usage)
        };
        (load, figures)
    }
}

/// Returns the percentage of answers without an upstream query.
fn hits(answered: u64, forwarded: u64) -> Option<f64> {
    (answered > 0).then(|| 100.0 * (1.0 - forwarded as f64 / answered as f64).max(0.0))
}

/// Returns the percentage of answers that are neither NOERROR nor NXDOMAIN.
pub(crate) fn failed(load: &Load) -> Option<f64> {
    let all: u64 = load.rcodes.values().sum();
    let good: u64 = ["NOERROR", "NXDOMAIN"].iter().filter_map(|code| load.rcodes.get(*code)).sum();
    (all > 0).then(|| 100.0 * (all - good) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_hits_unless_forwarded_and_failures_are_told() {
        assert_eq!(hits(200, 50), Some(75.0));
        assert_eq!(hits(10, 30), Some(0.0), "asked again by the server");
        assert_eq!(hits(0, 0), None);
        let codes = [("NOERROR", 60), ("NXDOMAIN", 20), ("SERVFAIL", 20)];
        let rcodes = codes.map(|(code, count)| (code.to_string(), count)).into();
        assert_eq!(failed(&Load { rcodes, ..Load::default() }), Some(20.0));
        assert_eq!(failed(&Load::default()), None);
    }
}
