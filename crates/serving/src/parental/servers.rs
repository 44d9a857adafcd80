//! The parent zone of a zone, and the addresses of its servers, by resolution.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wire::message::{Malformed, Parser};
use wire::{Name, NameBuf, Type};

use super::ParentalAnswer;
use crate::hosts::ServerHosts;
use crate::hosts::exchange::MALFORMED;

/// Most NS names of a parent zone whose addresses are asked.
pub const MAX_NS_NAMES: usize = 26;
/// Most addresses of the servers of a parent zone that are asked.
pub const MAX_ADDRESSES: usize = 64;

/// A zone that has NS records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentZone {
    pub(super) apex: NameBuf,
    /// The names of its servers, in order and each once.
    pub(super) servers: Vec<NameBuf>,
}

/// What follows from the response to a query for the NS records of an ancestor.
#[derive(Debug, PartialEq, Eq)]
enum WalkStep {
    /// It is the apex of a zone with these servers.
    Apex(Vec<NameBuf>),
    /// It is no apex; the name without so many leftmost labels is next.
    Up(usize),
    /// It is no apex, and is the root.
    End,
}

/// Finds the parent of a zone: its nearest ancestor that has NS records.
pub(super) async fn parent_of(hosts: &ServerHosts, zone: Name<'_>) -> Result<ParentZone, String> {
    let mut next = zone.parent().ok_or("the root zone has no parent")?.to_buf();
    // Each step leads to a shorter name.
    loop {
        let message = hosts.response(next, Type::NS).await;
        let message = message.map_err(|fault| format!("the NS records of {next} are not known: {fault}"))?;
        match step(next.as_name(), &message).map_err(|Malformed| MALFORMED)? {
            WalkStep::Apex(servers) => return Ok(ParentZone { apex: next, servers }),
            WalkStep::Up(labels) => next = next.as_name().skip(labels).to_buf(),
            WalkStep::End => return Err("no ancestor of the zone has NS records".to_owned()),
        }
    }
}

/// Reads the response to the query for the NS records of `asked`. A negative response names the zone that the
/// name is in by its SOA, which saves the queries for names between.
fn step(asked: Name<'_>, message: &[u8]) -> Result<WalkStep, Malformed> {
    let (header, mut parser) = Parser::new(message)?;
    let [questions, answers, authorities, _] = header.counts();
    for _ in 0..questions {
        parser.question()?;
    }
    let mut servers = Vec::new();
    for _ in 0..answers {
        let record = parser.record()?;
        // The NS records of an alias's target do not count: an alias is no apex.
        if record.rtype == Type::NS && parser.name_at(record.owner_at)?.as_name() == asked {
            servers.push(parser.name_at(record.rdata_at())?);
        }
    }
    if !servers.is_empty() {
        servers.sort_unstable();
        servers.dedup();
        return Ok(WalkStep::Apex(servers));
    }
    if asked.is_root() {
        return Ok(WalkStep::End);
    }
    let mut labels = 1;
    for _ in 0..authorities {
        let record = parser.record()?;
        if record.rtype == Type::SOA && answers == 0 {
            let apex = parser.name_at(record.owner_at)?;
            if asked.is_at_or_below(apex.as_name()) {
                labels = labels.max(asked.label_count() - apex.as_name().label_count());
            }
        }
    }
    Ok(WalkStep::Up(labels))
}

/// An address to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentalAddress {
    pub(super) address: SocketAddr,
    /// The NS names that have it, by number.
    pub(super) names: Vec<usize>,
}

/// The addresses of the servers of a zone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParentalAddresses {
    pub(super) known: Vec<ParentalAddress>,
    /// NS names without addresses.
    pub(super) unknown: Vec<ParentalAnswer>,
    /// Why some are left out.
    pub(super) fault: Option<String>,
}

impl ParentalAddresses {
    /// Returns configured addresses.
    pub(super) fn configured(servers: &[SocketAddr]) -> Self {
        let mut known: Vec<ParentalAddress> = Vec::new();
        for address in servers {
            if known.iter().all(|one| one.address != *address) {
                known.push(ParentalAddress { address: *address, names: Vec::new() });
            }
        }
        Self { known, ..Self::default() }.bounded()
    }

    /// Resolves the names of servers. `permits` bound the lookups in progress.
    pub(super) async fn resolved(
        hosts: &ServerHosts,
        names: &[NameBuf],
        permits: &Arc<Semaphore>,
        port: u16,
    ) -> Self {
        let wanted: Vec<(NameBuf, Vec<IpAddr>)> = names.iter().map(|name| (*name, Vec::new())).collect();
        Self::of_names(names, looked_up(hosts, &wanted, permits).await, port)
    }

    /// Returns the addresses that were found for the names, each once.
    pub(super) fn of_names(names: &[NameBuf], found: Vec<Result<Vec<IpAddr>, String>>, port: u16) -> Self {
        let mut all = Self::default();
        for (number, (name, found)) in names.iter().zip(found).enumerate() {
            let no_address = || Err("it has no address".to_owned());
            match found.and_then(|found| if found.is_empty() { no_address() } else { Ok(found) }) {
                Ok(found) => {
                    found.into_iter().for_each(|address| all.add(SocketAddr::new(address, port), number));
                }
                Err(fault) => {
                    let found = Err(format!("its addresses are not known: {fault}"));
                    all.unknown.push(ParentalAnswer { server: name.to_string(), found });
                }
            }
        }
        if names.len() > MAX_NS_NAMES {
            let all_names = names.len();
            all.fault = Some(format!("the zone has {all_names} NS records, {MAX_NS_NAMES} at most are used"));
        }
        all.bounded()
    }

    fn add(&mut self, address: SocketAddr, number: usize) {
        match self.known.iter_mut().find(|one| one.address == address) {
            Some(one) => one.names.push(number),
            None => self.known.push(ParentalAddress { address, names: vec![number] }),
        }
    }

    fn bounded(mut self) -> Self {
        let all = self.known.len();
        if all > MAX_ADDRESSES {
            self.known.truncate(MAX_ADDRESSES);
            self.fault = Some(format!("the servers have {all} addresses, {MAX_ADDRESSES} at most are asked"));
        }
        self
    }
}

/// Returns the addresses of names, in their order: those that come with a name, or else by resolution.
pub(super) async fn looked_up(
    hosts: &ServerHosts,
    names: &[(NameBuf, Vec<IpAddr>)],
    permits: &Arc<Semaphore>,
) -> Vec<Result<Vec<IpAddr>, String>> {
    let mut lookups = JoinSet::new();
    // The panic hook has shown a panic.
    let mut found = vec![Err("a bug in nomen".to_owned()); names.len().min(MAX_NS_NAMES)];
    for (number, (name, known)) in names.iter().take(MAX_NS_NAMES).enumerate() {
        if !known.is_empty() {
            found[number] = Ok(known.clone());
            continue;
        }
        let (hosts, permits, name) = (hosts.clone(), Arc::clone(permits), *name);
        lookups.spawn(async move {
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            (number, hosts.addresses_of(name).await)
        });
    }
    while let Some(ended) = lookups.join_next().await {
        if let Ok((number, addresses)) = ended {
            found[number] = addresses;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::testing::{Response, name};

    fn wire(text: &str) -> Vec<u8> {
        name(text).as_name().as_wire().to_vec()
    }

    fn stepped(asked: &str, response: &Response) -> WalkStep {
        step(name(asked).as_name(), &response.message()).expect("a message")
    }

    #[test]
    fn the_walk_ends_at_the_first_name_with_ns_records() {
        let response = Response::to("parent.example", Type::NS)
            .answer("parent.example", Type::NS, 60, &wire("ns2.example"))
            .answer("parent.example", Type::NS, 60, &wire("ns1.example"))
            .answer("PARENT.example", Type::NS, 60, &wire("NS1.example"));
        let servers = vec![name("ns1.example"), name("ns2.example")];
        assert_eq!(stepped("parent.example", &response), WalkStep::Apex(servers));
    }

    #[test]
    fn negative_responses_lead_to_the_zone_of_the_name() {
        let response = || Response::to("b.a.example", Type::NS);
        assert_eq!(stepped("b.a.example", &response().soa("example")), WalkStep::Up(2));
        assert_eq!(stepped("b.a.example", &response().soa(".")), WalkStep::Up(3));
        assert_eq!(stepped("b.a.example", &response().soa("a.example")), WalkStep::Up(1));
        assert_eq!(stepped("b.a.example", &response()), WalkStep::Up(1), "no SOA");
        // A zone that the name is not below cannot contain it.
        for soa in ["b.a.example", "c.b.a.example", "other.example"] {
            assert_eq!(stepped("b.a.example", &response().soa(soa)), WalkStep::Up(1), "{soa}");
        }
        assert_eq!(stepped(".", &Response::to(".", Type::NS).soa(".")), WalkStep::End);
    }

    #[test]
    fn an_alias_is_no_apex() {
        let response = Response::to("b.a.example", Type::NS)
            .answer("b.a.example", Type::CNAME, 60, &wire("else.test"))
            .answer("else.test", Type::NS, 60, &wire("ns.else.test"));
        assert_eq!(stepped("b.a.example", &response), WalkStep::Up(1));
        let response = Response::to("b.a.example", Type::NS)
            .answer("b.a.example", Type::CNAME, 60, &wire("else.example"))
            .soa("example");
        assert_eq!(stepped("b.a.example", &response), WalkStep::Up(1), "the SOA is of the target");
    }

    #[test]
    fn addresses_are_asked_once_and_their_number_is_bounded() {
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let names = [name("a.example"), name("b.example"), name("c.example"), name("d.example")];
        let found = vec![Ok(vec![ip(1), ip(2)]), Ok(vec![ip(2)]), Ok(Vec::new()), Err("no".to_owned())];
        let all = ParentalAddresses::of_names(&names, found, 53);
        let known: Vec<(IpAddr, Vec<usize>)> =
            all.known.into_iter().map(|one| (one.address.ip(), one.names)).collect();
        assert_eq!(known, [(ip(1), vec![0]), (ip(2), vec![0, 1])]);
        let unknown: Vec<&str> = all.unknown.iter().map(|one| &*one.server).collect();
        assert_eq!((unknown, all.fault), (vec!["c.example.", "d.example."], None));

        let many: Vec<IpAddr> = (0..65).map(ip).collect();
        let bounded = |count| ParentalAddresses::of_names(&names[..1], vec![Ok(many[..count].to_vec())], 53);
        assert_eq!((bounded(64).known.len(), bounded(64).fault), (64, None));
        assert_eq!(bounded(65).known.len(), 64);
        assert!(bounded(65).fault.is_some_and(|fault| fault.contains("65 addresses")));
        let many: Vec<SocketAddr> = many.into_iter().map(|ip| SocketAddr::new(ip, 53)).collect();
        let configured = ParentalAddresses::configured(&[&many[..], &many].concat());
        assert_eq!(configured.known.len(), 64);
        assert!(configured.fault.is_some_and(|fault| fault.contains("65 addresses")));
    }

    #[test]
    fn names_beyond_the_bound_are_a_fault() {
        let names: Vec<NameBuf> = (0..27).map(|n| name(&format!("n{n}.example"))).collect();
        let found = |count: usize| vec![Ok(vec![IpAddr::from([192, 0, 2, 1])]); count];
        assert_eq!(ParentalAddresses::of_names(&names[..26], found(26), 53).fault, None);
        let all = ParentalAddresses::of_names(&names, found(26), 53);
        assert!(all.fault.is_some_and(|fault| fault.contains("27 NS records")));
    }
}
