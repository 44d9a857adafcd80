//! The suite for forwarders: each before the same upstream server, asked the same queries twice, the second time out of
//! its cache.

use crate::answer::{Answer, flag};
use crate::compare::{Case, Forwarding, Reply};
use crate::query::{Query, Transport, rtype};
use crate::report::Said;
use crate::servers::{AUTHORITATIVE, FORWARDING, Kind, Server};
use crate::zones::World;
use crate::{BATCH, Run, ask, generate};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between the first answer to the last query and the second to the first: TTLs have gone down by then.
const PAUSE: Duration = Duration::from_millis(2100);

/// Replies of one server to a list of queries.
type Replies = Vec<Option<Vec<u8>>>;

impl Run<'_> {
    /// Asks forwarders before each of `upstreams` in turn, with a share of `count` queries each.
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

    /// One list of queries to forwarders that are started for it, so that their caches are empty.
    fn round(
        &mut self,
        programs: &BTreeMap<Kind, PathBuf>,
        world: &World,
        upstream: &Server,
        mut queries: Vec<Query>,
        dir: &Path,
    ) -> Result<(), String> {
        let born = Instant::now();
        let mut servers = start(programs, self.arguments.port, world, upstream, dir)?;
        let by_tcp = |queries: &[Query]| -> Vec<_> {
            queries.iter().map(|q| Query { transport: Transport::Tcp, ..q.clone() }).collect()
        };
        let origin = std::slice::from_ref(upstream);
        let mut truth = ask(origin, &by_tcp(&queries))?.remove(0);
        let mut first = ask(&servers, &queries)?;
        // What did not fit into a datagram is asked again by TCP, in full.
        let again: Vec<_> = (0..queries.len()).filter(|&i| is_cut_short(&first, i)).collect();
        let repeated: Vec<_> = by_tcp(&again.iter().map(|&i| queries[i].clone()).collect::<Vec<_>>());
        for (all, more) in first.iter_mut().zip(ask(&servers, &repeated)?) {
            all.extend(more);
        }
        truth.extend(again.iter().map(|&i| truth[i].clone()).collect::<Vec<_>>());
        queries.extend(repeated);
        let first_end = Instant::now();
        let first_slack = slack(born);
        std::thread::sleep(PAUSE);
        let waited = first_end.elapsed().as_secs() as u32;
        let second = ask(&servers, &queries)?;
        let second_slack = slack(born);
        for server in &mut servers {
            if !server.is_alive() {
                return Err(format!("{} died\n{}", server.kind.label(), server.log_tail()));
            }
        }
        for (i, query) in queries.iter().enumerate() {
            let read = |replies: &[Replies]| -> Vec<_> {
                let of = |(s, r): (&Server, &Replies)| (s.kind, Reply::from_wire(r[i].as_deref()));
                servers.iter().zip(replies).map(of).collect()
            };
            let passes =
                [(&first, None, first_slack, 0), (&second, Some(&first), second_slack, waited.max(1))];
            for (answers, earlier, slack, waited) in passes {
                self.number += 1;
                let forwarding = Forwarding {
                    upstream: (upstream.kind, Reply::from_wire(truth[i].as_deref())),
                    slack,
                    earlier: earlier.map(|e| read(e)).unwrap_or_default(),
                    waited,
                };
                let replies = read(answers);
                let case = Case { query, message: None, world, replies, forwarding: Some(forwarding) };
                let said = |when: &str, replies: &[Replies]| -> Vec<Said> {
                    let of = |(s, r): (&Server, &Replies)| {
                        let who = format!("{}{when}", s.kind.label());
                        Said { who, ..s.said(r[i].clone()) }
                    };
                    servers.iter().zip(replies).map(of).collect()
                };
                let mut wires = vec![Said {
                    who: format!("{}, what is forwarded to, by TCP", upstream.kind.label()),
                    ..upstream.said(truth[i].clone())
                }];
                if let Some(earlier) = earlier {
                    wires.extend(said(", the first time", earlier));
                }
                wires.extend(said("", answers));
                self.judge(&case, &wires, &servers);
            }
        }
        Ok(())
    }
}

/// Forwarders are asked to recurse: what one that is not does is another matter.
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

/// Seconds that the TTLs of a record in two caches can be apart, `born` being before either had any: all that time, and
/// one for the parts of seconds that are not counted.
fn slack(born: Instant) -> u32 {
    born.elapsed().as_secs() as u32 + 2
}

fn is_cut_short(replies: &[Replies], i: usize) -> bool {
    let truncated = |wire: &[u8]| Answer::parse(wire).is_ok_and(|a| a.has(flag::TC));
    replies.iter().any(|r| r[i].as_deref().is_some_and(truncated))
}
