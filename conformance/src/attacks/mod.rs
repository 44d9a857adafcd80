//! Published attacks on resolvers, each run against nomen, Unbound, BIND and PowerDNS Recursor: what one
//! client query costs other servers, and what it costs the resolver itself. Prints the table for
//! `docs/ATTACKS.md`.

mod relay;
mod zones;

use crate::internet::lend::Lent;
use crate::internet::{self, servers};
use crate::name::Name;
use crate::query::{Edns, Query, rtype};
use crate::rng::Rng;
use crate::servers::{Kind, METRICS_OFFSET, Server};
use crate::{ask_patiently, fronts};
pub(crate) use zones::signed as signed_zone;

use relay::Counted;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of client queries per attack.
const QUERIES: usize = 10;
/// Time after which an unanswered query is sent again: no resolver takes longer to answer.
const RESEND_TIMEOUT: Duration = Duration::from_secs(30);

/// An attack.
struct Attack {
    name: &'static str,
    /// Returns the QNAME of the query with this number.
    asks: fn(usize) -> String,
    /// Maximum number of upstream queries of nomen per client query: its default `budget-queries`, or less
    /// where another of its budgets is used up first.
    limit: f64,
}

impl Attack {
    /// Returns the query with this number.
    fn query(&self, n: usize) -> Result<Query, String> {
        let name =
            Name::from_text(&(self.asks)(n)).ok_or_else(|| format!("{}: a name is too long", self.name))?;
        let edns = Edns { size: 1232, version: 0, dnssec_ok: true, options: Vec::new() };
        Ok(Query { rd: true, edns: Some(edns), ..Query::plain(name, rtype::A) })
    }
}

const ATTACKS: [Attack; 9] = [
    Attack { name: "none: a name that is there", asks: |_| "www.vic.".to_owned(), limit: 8.0 },
    Attack { name: "NXNSAttack, 100 servers", asks: |n| format!("w{n}.nxns.evil."), limit: 16.0 },
    Attack { name: "NRDelegationAttack, 100 servers", asks: |n| format!("w{n}.nrd.evil."), limit: 64.0 },
    Attack { name: "CAMP", asks: |n| format!("w{n}.p{}.evil.", 1 + n), limit: 64.0 },
    Attack { name: "aliases to and fro, 40", asks: |n| format!("w{n}.c1.evil."), limit: 64.0 },
    Attack { name: "TsuNAME", asks: |n| format!("w{n}.x.evil."), limit: 16.0 },
    Attack { name: "60 labels", asks: |n| format!("w{n}.{}.evil.", zones::labels(60)), limit: 16.0 },
    Attack { name: "water torture", asks: |n| format!("w{n}.dead.evil."), limit: 16.0 },
    KEYTRAP,
];

const KEYTRAP: Attack =
    Attack { name: "KeyTrap, 50 keys, 50 signatures", asks: |n| format!("w{n}.trap."), limit: 16.0 };

/// Baseline: queries for existing names.
const BENIGN: Attack = Attack {
    name: "none: names that are there",
    asks: |n| format!("h{}.vic.", n % zones::HOSTS),
    limit: 8.0,
};

/// Queries for non-existent names of many labels in an NSEC3 zone.
const HASHES: Attack = Attack {
    name: "NSEC3, 50 iterations, 100 labels",
    asks: |n| format!("w{n}.{}.hash.", zones::labels(100)),
    limit: 32.0,
};

/// Costs of an attack on a resolver, per client query.
#[derive(Clone, Copy, Debug)]
struct Cost {
    queries: f64,
    to_victim: f64,
    /// CPU time in milliseconds.
    cpu: f64,
    signatures: Option<f64>,
}

/// Measures all attacks, prints the table, and returns how many cost more with nomen than their limit.
pub(crate) fn run(programs: &BTreeMap<Kind, PathBuf>, seed: u64, dir: &Path) -> Result<usize, String> {
    let namespace = internet::namespace()?;
    namespace.enter(|| {
        let sites = zones::make(&dir.join("zones"), &mut Rng::new(seed))?;
        let mut hosts = servers::start_hosts(programs, &[Kind::Nsd], &sites, dir)?;
        let counted = relay::start(hosts[0].address)?;
        println!(
            "| attack, {QUERIES} queries | resolver | upstream queries | to the victim | CPU | \
             signature checks |"
        );
        println!("|---|---|---:|---:|---:|---:|");
        let mut beyond = 0;
        for attack in ATTACKS.iter().chain([&HASHES]) {
            // One after the other, so that they do not disturb each other.
            for kind in servers::RESOLVERS {
                let Some(program) = programs.get(&kind) else { continue };
                let only = BTreeMap::from([(kind, program.clone())]);
                let resolvers = servers::start_resolvers(&only, &sites, dir)?;
                let cost = measure(attack, &resolvers, &counted)?;
                let signatures = cost.signatures.map_or_else(|| "–".to_owned(), |n| format!("{n:.1}"));
                println!(
                    "| {} | {} | {:.1} | {:.1} | {:.2} ms | {signatures} |",
                    attack.name,
                    kind.label(),
                    cost.queries,
                    cost.to_victim,
                    cost.cpu
                );
                beyond += usize::from(kind == Kind::Nomen && cost.queries > attack.limit);
            }
        }
        hosts.iter_mut().try_for_each(Server::still_runs)?;
        println!("{beyond} attacks have cost more by nomen than they may");
        Ok(beyond)
    })
}

/// Lends the zones and their server to another program, with `count` questions of each attack on the
/// resolver's own CPU, and as many for existing names.
pub(crate) fn lent(
    programs: &BTreeMap<Kind, PathBuf>,
    count: usize,
    seed: u64,
    dir: &Path,
) -> Result<Lent, String> {
    let sites = zones::make(&dir.join("zones"), &mut Rng::new(seed))?;
    let hosts = servers::start_hosts(programs, &[Kind::Nsd], &sites, dir)?;
    relay::start(hosts[0].address)?;
    let list = |attack: &Attack| (0..count).map(|n| attack.query(n)).collect::<Result<Vec<_>, _>>();
    let keytrap = list(&KEYTRAP)?;
    let questions = vec![("benign", list(&BENIGN)?), ("keytrap", keytrap), ("nsec3", list(&HASHES)?)];
    Ok((sites, hosts, questions))
}

fn measure(attack: &Attack, resolvers: &[Server], counted: &Counted) -> Result<Cost, String> {
    let resolver = resolvers.first().ok_or("no resolver")?;
    // Work after the start must not count.
    std::thread::sleep(Duration::from_millis(500));
    let count = || [&counted.all, &counted.victim].map(|n| n.load(Ordering::Relaxed));
    let (before, cpu, signatures) = (count(), cpu(resolver)?, signatures(resolver)?);
    let queries: Vec<Query> = (0..QUERIES).map(|n| attack.query(n)).collect::<Result<_, _>>()?;
    ask_patiently(resolvers, &queries, RESEND_TIMEOUT)?;
    // Work after the answers must count.
    std::thread::sleep(Duration::from_millis(1500));
    let per_query = |n: f64| n / QUERIES as f64;
    let [all, victim] = count();
    let after = self::signatures(resolver)?;
    let checked = signatures.zip(after).map(|(before, after)| per_query(after - before));
    Ok(Cost {
        queries: per_query((all - before[0]) as f64),
        to_victim: per_query((victim - before[1]) as f64),
        cpu: per_query(self::cpu(resolver)? - cpu),
        signatures: checked,
    })
}

/// Returns the CPU time of all threads of a server, in milliseconds.
fn cpu(server: &Server) -> Result<f64, String> {
    let path = format!("/proc/{}/task", server.pid());
    let tasks = fs::read_dir(&path).map_err(|e| format!("{path}: {e}"))?;
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(nanoseconds.sum::<f64>() / 1e6)
}

/// Returns the number of signatures that nomen has verified; other resolvers do not report it.
fn signatures(server: &Server) -> Result<Option<f64>, String> {
    if server.kind != Kind::Nomen {
        return Ok(None);
    }
    let at = (server.address.ip(), server.address.port() + METRICS_OFFSET).into();
    let text = fronts::metrics(at)?;
    let line = text.lines().find_map(|line| line.strip_prefix("nomen_validation_signatures_total "));
    line.and_then(|n| n.trim().parse().ok()).map(Some).ok_or_else(|| "nomen has no such figure".to_owned())
}
