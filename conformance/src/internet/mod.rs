//! The small Internet in a network namespace: a root, top-level domains and dozens of zones below them,
//! signed and unsigned, valid and broken, served by NSD, Knot, BIND and nomen, by IPv4, IPv6 or both, where
//! some servers are silent by one of them. Resolvers get the same queries there, with empty caches and again
//! with filled ones.

mod families;
pub(crate) mod lend;
pub(crate) mod links;
mod queries;
pub(crate) mod servers;
pub(crate) mod sites;

use crate::answer::{Answer, flag};
use crate::compare::{Case, Reply, Resolving};
use crate::network::Namespace;
use crate::query::{Query, Transport};
use crate::report::Said;
use crate::secondaries::Origin;
use crate::servers::{Kind, Server};
use crate::zones::World;
use crate::{Run, ask_patiently};
use sites::{Extent, Sites};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Number of queries after which resolvers are restarted.
const QUERIES_PER_RUN: usize = 4000;
/// Time after which an unanswered query is sent again: several times this is longer than a resolver tries to
/// reach unavailable servers.
const RESEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates a network namespace in which every server has its own addresses, all with port 53.
pub(crate) fn namespace() -> Result<Namespace, String> {
    let namespace = Namespace::new()?;
    namespace.ip("link set lo up")?;
    // The whole network is local.
    namespace.ip("addr add 198.18.0.1/15 dev lo")?;
    // BIND listens only on addresses that an interface has exactly; for IPv6 all servers need that.
    let hosts = sites::HOSTS.into_iter().flat_map(sites::addresses).map(|at| at.ip());
    let others = [sites::UNUSED, sites::SILENT, sites::of_both(200, 1)].into_iter().flatten();
    let v6 = hosts.clone().chain(others).filter(std::net::IpAddr::is_ipv6);
    for address in v6 {
        namespace.ip(&format!("addr add {address}/128 dev lo nodad"))?;
    }
    let of_bind = sites::addresses(Kind::Bind).into_iter().chain([servers::resolver(Kind::Bind)]);
    for address in of_bind.filter(|at| at.is_ipv4()) {
        namespace.ip(&format!("addr add {}/32 dev lo", address.ip()))?;
    }
    Ok(namespace)
}

impl Run<'_> {
    /// Creates the small Internet, and sends `count` queries there.
    pub(crate) fn internet(
        &mut self,
        programs: &BTreeMap<Kind, PathBuf>,
        count: usize,
        dir: &Path,
    ) -> Result<(), String> {
        let namespace = namespace()?;
        let path = namespace.path();
        // Servers end with the thread that has started them, so one thread does everything.
        namespace.enter(|| {
            let sites = Sites::make(&dir.join("zones"), self.arguments.seed, Extent::default())?;
            let mut hosts = servers::start_hosts(programs, &sites::HOSTS, &sites, dir)?;
            let _silent = families::silence()?;
            if self.arguments.hold {
                return hold(programs, &sites, dir, &path);
            }
            self.rounds(programs, &sites, count, dir)?;
            families::compare(programs, &sites, &namespace, dir)?;
            for host in &mut hosts {
                host.still_runs()?;
            }
            Ok(())
        })
    }

    fn rounds(
        &mut self,
        programs: &BTreeMap<Kind, PathBuf>,
        sites: &Sites,
        count: usize,
        dir: &Path,
    ) -> Result<(), String> {
        let world = World { name: "internet", zones: sites.zones.clone(), share: 100 };
        println!("world {}: {} zones", world.name, world.zones.len());
        let mut generator = queries::Generator::new(sites, self.arguments.seed);
        let mut left = count;
        while left > 0 {
            let mut queries: Vec<_> =
                (0..left.min(QUERIES_PER_RUN)).map(|_| generator.next_query()).collect();
            left -= queries.len();
            let mut resolvers = servers::start_resolvers(programs, sites, dir)?;
            let cold = whole(&resolvers, &mut queries)?;
            let warm = whole(&resolvers, &mut queries)?;
            for resolver in &mut resolvers {
                resolver.still_runs()?;
            }
            for (i, query) in queries.iter().enumerate() {
                for (replies, earlier) in [(&cold, None), (&warm, Some(&cold))] {
                    self.number += 1;
                    let read = |replies: &[Replies]| -> Vec<(Kind, Reply)> {
                        let of = |(s, r): (&Server, &Replies)| (s.kind, Reply::from_wire(r[i].as_deref()));
                        resolvers.iter().zip(replies).map(of).collect()
                    };
                    let resolving = Resolving {
                        earlier: earlier.map(|replies| read(replies)).unwrap_or_default(),
                        conditions: &sites.conditions,
                        links: &sites.links,
                    };
                    let case = Case {
                        query,
                        message: None,
                        world: &world,
                        replies: read(replies),
                        forwarding: None,
                        resolving: Some(resolving),
                    };
                    let mut said = said(&resolvers, replies, i, "");
                    if let Some(earlier) = earlier {
                        said.extend(self::said(&resolvers, earlier, i, ", the first time"));
                    }
                    self.judge(&case, &said, &resolvers, Origin::File);
                }
            }
        }
        Ok(())
    }
}

/// Replies of one resolver to a list of queries.
type Replies = Vec<Option<Vec<u8>>>;

fn said(resolvers: &[Server], replies: &[Replies], i: usize, when: &str) -> Vec<Said> {
    let of = |(server, replies): (&Server, &Replies)| {
        let said = server.said(replies[i].clone());
        Said { who: format!("{}{when}", said.who), ..said }
    };
    resolvers.iter().zip(replies).map(of).collect()
}

/// Queries all resolvers. If a resolver's answer is truncated, the query is repeated by TCP to all of them.
fn whole(resolvers: &[Server], queries: &mut [Query]) -> Result<Vec<Replies>, String> {
    let mut replies = ask_patiently(resolvers, queries, RESEND_TIMEOUT)?;
    let truncated = |wire: &[u8]| Answer::parse(wire).is_ok_and(|a| a.has(flag::TC));
    let cut_short = |i: &usize| replies.iter().any(|r| r[*i].as_deref().is_some_and(truncated));
    let again: Vec<usize> = (0..queries.len()).filter(cut_short).collect();
    again.iter().for_each(|&i| queries[i].transport = Transport::Tcp);
    let repeated: Vec<Query> = again.iter().map(|&i| queries[i].clone()).collect();
    for (all, more) in replies.iter_mut().zip(ask_patiently(resolvers, &repeated, RESEND_TIMEOUT)?) {
        for (&i, reply) in again.iter().zip(more) {
            all[i] = reply;
        }
    }
    Ok(replies)
}

/// Keeps everything running for manual tests, until a line is entered.
fn hold(
    programs: &BTreeMap<Kind, PathBuf>,
    sites: &Sites,
    dir: &Path,
    namespace: &str,
) -> Result<(), String> {
    let resolvers = servers::start_resolvers(programs, sites, dir)?;
    for (name, condition) in &sites.conditions {
        println!("{name} {condition:?}");
    }
    for resolver in &resolvers {
        println!("{} resolves at {}", resolver.kind.label(), resolver.address.ip());
    }
    println!("ask them with: nsenter --net={namespace} dig @198.18.200.1 +dnssec www.NAME A");
    println!("Enter ends it.");
    wait()
}

/// Waits for a line, or for the end of the input.
fn wait() -> Result<(), String> {
    std::io::stdin().read_line(&mut String::new()).map(drop).map_err(|e| e.to_string())
}
