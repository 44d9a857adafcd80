//! Resolvers with only IPv4 or only IPv6: from a network namespace of its own beside the small Internet,
//! nomen must find the zones that servers of its family lead to, with the same answers as with both families.

use super::servers;
use super::sites::{Alone, SILENT, Sites};
use crate::answer::flag;
use crate::ask_patiently;
use crate::compare::Reply;
use crate::network::Namespace;
use crate::query::{Edns, Query, rtype};
use crate::servers::{Kind, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time after which an unanswered query is sent again: longer than a resolver takes to answer.
const RESEND_TIMEOUT: Duration = Duration::from_secs(12);

/// A link of one address family between the small Internet and a resolver outside.
struct Family {
    name: &'static str,
    /// The interface on the Internet's side.
    interface: &'static str,
    /// Addresses of the Internet's side and of the resolver's, with prefix length.
    ends: [&'static str; 2],
    /// The route to the small Internet.
    route: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "IPv4",
        interface: "alone4",
        ends: ["10.18.0.1/30", "10.18.0.2/30"],
        route: "198.18.0.0/15 via 10.18.0.1",
    },
    Family {
        name: "IPv6",
        interface: "alone6",
        ends: ["fd00:18::1/64", "fd00:18::2/64"],
        route: "2001:2::/48 via fd00:18::1",
    },
];

/// Binds the silent addresses: while the sockets are kept, packets to them are received and never answered.
pub(super) fn silence() -> Result<Vec<UdpSocket>, String> {
    SILENT.iter().map(|at| UdpSocket::bind((*at, 53)).map_err(|e| format!("{at}: {e}"))).collect()
}

/// Asks nomen for a name in each zone, with both address families and with one. Called inside `internet`.
pub(super) fn compare(
    programs: &BTreeMap<Kind, PathBuf>,
    sites: &Sites,
    internet: &Namespace,
    dir: &Path,
) -> Result<(), String> {
    let Some(program) = programs.get(&Kind::Nomen) else { return Ok(()) };
    let dir = dir.join("families");
    let edns = Edns { size: 4096, version: 0, dnssec_ok: true, options: Vec::new() };
    let query = |name| Query { rd: true, edns: Some(edns.clone()), ..Query::plain(name, rtype::A) };
    let queries: Vec<Query> = sites.zones.iter().map(|zone| query(zone.name.child(b"www"))).collect();
    let only = BTreeMap::from([(Kind::Nomen, program.clone())]);
    let with_both = ask(&servers::start_resolvers(&only, sites, &dir)?, &queries)?;
    for (at, family) in FAMILIES.iter().enumerate() {
        let namespace = beside(internet, family)?;
        let text = servers::nomen_resolver(Ipv4Addr::LOCALHOST.into(), sites);
        let home = dir.join(family.interface);
        let mut server = Server::start_inside(&namespace, program, &text, &[], &home)?;
        let with_one = namespace.enter(|| {
            server.wait_until_forwarding(&servers::probe(sites))?;
            ask(std::slice::from_ref(&server), &queries)
        })?;
        let (mut counts, mut wrong) = ([0; 3], Vec::new());
        for ((zone, both), one) in sites.zones.iter().zip(&with_both).zip(&with_one) {
            let is_cut = one.answer().is_some_and(|answer| answer.rcode == SERVFAIL);
            let is_same = said(both).is_some() && said(both) == said(one);
            let (count, is_right) = match sites.alone[&zone.name][at] {
                Alone::Reached => (0, is_same),
                Alone::ByChance => (1, is_same || is_cut),
                Alone::Cut => (2, is_cut),
            };
            counts[count] += 1;
            if !is_right {
                wrong.push(format!("www.{}: {one:?}, with both {both:?}", zone.name));
            }
        }
        let [reached, chance, cut] = counts;
        println!(
            "{} alone: of {} zones {reached} are reached, {chance} by chance, {cut} not; {} answers are \
             wrong",
            family.name,
            sites.zones.len(),
            wrong.len()
        );
        if !wrong.is_empty() {
            return Err(format!("with {} alone:\n{}", family.name, wrong.join("\n")));
        }
    }
    Ok(())
}

const SERVFAIL: u16 = 2;

fn ask(resolvers: &[Server], queries: &[Query]) -> Result<Vec<Reply>, String> {
    let replies = ask_patiently(resolvers, queries, RESEND_TIMEOUT)?;
    let of_first = replies.into_iter().next().ok_or("no resolver")?;
    Ok(of_first.iter().map(|reply| Reply::from_wire(reply.as_deref())).collect())
}

/// RCODE, AD, and the types and RDATA of the answer.
type Said<'r> = (u16, bool, BTreeSet<(u16, &'r [u8])>);

/// Returns the contents of a response, without TTLs.
fn said(reply: &Reply) -> Option<Said<'_>> {
    let answer = reply.answer()?;
    let records = answer.sections[0].iter().map(|record| (record.rtype, &record.rdata[..])).collect();
    Some((answer.rcode, answer.has(flag::AD), records))
}

/// Creates a network namespace that is linked to the small Internet by one address family.
fn beside(internet: &Namespace, family: &Family) -> Result<Namespace, String> {
    let namespace = Namespace::new()?;
    let Family { interface, ends: [there, here], route, .. } = family;
    namespace.ip("link set lo up")?;
    namespace.ip(&format!("link add internet type veth peer name {interface} netns {}", internet.path()))?;
    for (side, name, address) in [(internet, *interface, there), (&namespace, "internet", here)] {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        side.ip(&format!("addr add {address} dev {name}{nodad}"))?;
        side.ip(&format!("link set {name} up"))?;
    }
    namespace.ip(&format!("route add {route}"))?;
    Ok(namespace)
}
