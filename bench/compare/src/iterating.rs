//! Workloads of full resolvers: names queried with empty caches, and a well-behaved client beside queries
//! that use up the CPU. Both use the small Internet that `internet.rs` borrows.

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::internet::Internet;
use crate::load::{self, Dnsperf, Load};
use crate::measure::{self, WORKING, Watch};
use crate::queries;
use crate::report::Figures;
use crate::resolving::{CLIENT, CLIENT_RATE, LOAD, failed};
use crate::servers::Server;
use crate::session::Plan;
use crate::workloads::{ATTACK_RATE, Attack, Cell, Names};

/// Number of clients, and of queries in flight over all of them, with empty caches.
const COLD: Dnsperf = Dnsperf { clients: 20, outstanding: 100, rate: None, tcp: false };
/// Number of clients, and of queries in flight, while caches are filled.
const KNOWN: Dnsperf = Dnsperf { clients: 10, outstanding: 50, rate: None, tcp: false };

/// A resolver on the small Internet.
#[derive(Clone, Copy)]
pub(crate) struct Abroad<'a> {
    /// The plan of the run.
    pub(crate) plan: &'a Plan,
    /// The small Internet.
    pub(crate) internet: &'a Internet,
    /// The resolver, just started.
    pub(crate) server: &'a Server,
}

impl Abroad<'_> {
    /// Applies one kind of load to the resolver.
    pub(crate) fn measure(&self, cell: Cell) -> Result<(Load, Figures)> {
        match cell {
            Cell::Cold(names) => self.cold(names),
            Cell::Alone => self.beside(None),
            Cell::Attack(attack) => self.beside(Some(attack)),
            _ => Err(Failure::new(format!("{}: not a load of the small Internet", cell.name()))),
        }
    }

    /// Queries every name once. Work after the last answer counts as well.
    fn cold(&self, names: Names) -> Result<(Load, Figures)> {
        let (plan, server) = (self.plan, self.server);
        let list = self.internet.list(names.list())?;
        let before = self.internet.asked()?;
        let watch = Watch::start(server.group());
        let load = load::dnsperf_once(server.address, list, COLD, plan.patience)?;
        measure::until_idle(server.group(), WORKING)?;
        let usage = watch.stop();
        let asked = self.internet.asked()?.since(before);
        if load.answered == 0 {
            return Err(Failure::new("nothing was answered"));
        }
        let each = |count: u64| Some(count as f64 / load.answered as f64);
        let code = |name: &str| Some(load.rcodes.get(name).copied().unwrap_or(0) as f64);
        let figures = Figures {
            wall_seconds: Some(load.seconds),
            forwarded: each(asked.datagrams + asked.connections),
            forwarded_tcp: each(asked.connections),
            noerror: code("NOERROR"),
            nxdomain: code("NXDOMAIN"),
            servfail: code("SERVFAIL"),
            ..Figures::new(&load, &usage)
        };
        Ok((load, figures))
    }

    /// Runs a client that queries cached names, with malicious queries beside it if there are any.
    fn beside(&self, attack: Option<Attack>) -> Result<(Load, Figures)> {
        let (plan, address) = (self.plan, self.server.address);
        let seconds = plan.attack_seconds();
        let known = self.internet.list("benign")?;
        load::dnsperf_once(address, known, KNOWN, plan.patience)?;
        let read = |name: &str| queries::read(self.internet.list(name)?, usize::MAX, 1);
        let (benign, malicious) = (read("benign")?, attack.map(|attack| read(attack.list())).transpose()?);
        let watch = Watch::start(self.server.group());
        let (client, load) = std::thread::scope(|scope| {
            let load = malicious.as_ref().map(|queries| {
                let load = Client { source: LOAD, rate: ATTACK_RATE };
                scope.spawn(move || load.ask(address, seconds, in_turn(queries)))
            });
            let client = Client { source: CLIENT, rate: CLIENT_RATE }.ask(address, seconds, in_turn(&benign));
            let ended = |_| Err(Failure::new("the load failed"));
            (client, load.map(|load| load.join().unwrap_or_else(ended)).transpose())
        });
        measure::until_idle(self.server.group(), WORKING)?;
        let usage = watch.stop();
        let (client, load) = (client?, load?);
        let alone = Figures {
            served_percent: Some(100.0 * client.answered as f64 / client.sent.max(1) as f64),
            failed_percent: failed(&client),
            loss_percent: None,
            ..Figures::new(&client, &usage)
        };
        // The CPU time is for both, but mostly for the malicious queries: all of it is counted as theirs.
        let Some(load) = load else { return Ok((client, alone)) };
        let attack_ms = Some(usage.cpu * 1e3 / load.sent.max(1) as f64);
        let figures = Figures { attack_ms, cpu_us: None, user_us: None, system_us: None, ..alone };
        Ok((load, figures))
    }
}

/// Returns a function that appends these queries one by one, in a cycle.
fn in_turn(queries: &[Vec<u8>]) -> impl FnMut(&mut Vec<u8>) {
    let mut queries = queries.iter().cycle();
    move |out| out.extend(queries.next().into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_come_in_turn() {
        let queries = [vec![1, 2], vec![3]];
        let (mut next, mut out) = (in_turn(&queries), Vec::new());
        (0..3).for_each(|_| next(&mut out));
        assert_eq!(out, [1, 2, 3, 1, 2]);
    }
}
