//! What the servers of a parent zone have: the DS set of a child zone, asked of every server (RFC 7583),
//! and the targets for NOTIFY(CDS) and NOTIFY(CSYNC) (RFC 9859). And what the servers of a child zone have.
//!
//! | file | holds |
//! |---|---|
//! | `servers` | the parent zone, and the addresses of its servers |
//! | `answers` | what a response proves |
//! | `notifying` | targets for NOTIFY |
//! | `children` | the servers of a child zone, and the RRsets that they have |
//!
//! The number of servers of a zone is bounded: [`MAX_NS_NAMES`] and [`MAX_ADDRESSES`]. All zones
//! together send [`MAX_QUERIES`] queries at a time to parents, and as many to children.

mod answers;
mod children;
mod notifying;
mod servers;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use query_path::Engine;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use transport::unix_now;
use wire::{Header, NameBuf, Rcode, Ttl, Type, UnixTime, ZoneName};

use crate::descriptors::PARENT_QUERIES;
use crate::frontend::Served;
use crate::hosts::ServerHosts;
use crate::hosts::exchange::{ExchangeFault, QueryKind, ServerQuery, exchange};
use crate::recursive::Recursive;
use answers::judge;
pub use children::{ChildHost, ChildQuestion, ChildServers, bootstrap_signals};
use notifying::{MAX_TARGET_ADDRESSES, NotifyHost, dsync_names, targets_of};
pub use servers::{MAX_ADDRESSES, MAX_NS_NAMES};
use servers::{ParentalAddress, ParentalAddresses, parent_of};

/// Most queries to parental servers, or to those of children, lookups of their addresses, and NOTIFYs at a
/// time. A lookup by the resolvers of the system opens two sockets, each other one a socket.
pub const MAX_QUERIES: usize = PARENT_QUERIES;

/// The port of parental servers that are found by resolution.
const DNS_PORT: u16 = 53;

/// The DS set of a zone, as each server of its parent zone has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentReport {
    /// When the servers were asked.
    pub at: UnixTime,
    /// The apex of the parent zone; `None` if it was not looked for, because the servers are configured.
    pub parent: Option<NameBuf>,
    /// The servers and their answers. An IPv6 address that this host has no route to is left out if another
    /// address of the same NS name has answered.
    pub servers: Vec<ParentalAnswer>,
    /// Why not all servers of the parent zone are known, if so.
    pub fault: Option<String>,
}

/// The answer of one server of a parent zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentalAnswer {
    /// The address; [`SERVED_HERE`] if this server has the parent zone; an NS name without usable addresses.
    pub server: String,
    /// What the server has, or why that is not known.
    pub found: Result<DsAtServer, String>,
}

/// The server of a [`ParentalAnswer`] that was read from a zone of this server.
pub const SERVED_HERE: &str = "served here";

/// The DS set of a zone at one server of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsAtServer {
    /// The data of each record, in order and each once; empty if there is no DS.
    pub rdatas: Vec<Vec<u8>>,
    /// The TTL of the DS set; `None` if there is no DS.
    pub ttl: Option<Ttl>,
}

impl ParentReport {
    /// Whether all servers are known and have answered, and what each has fulfills a condition.
    pub fn is_everywhere(&self, fulfills: impl Fn(&DsAtServer) -> bool) -> bool {
        let is_at = |answer: &ParentalAnswer| answer.found.as_ref().is_ok_and(&fulfills);
        self.fault.is_none() && !self.servers.is_empty() && self.servers.iter().all(is_at)
    }

    /// Returns the largest TTL of the DS set at any server.
    pub fn largest_ttl(&self) -> Option<Ttl> {
        self.servers.iter().filter_map(|answer| answer.found.as_ref().ok()?.ttl).max()
    }
}

/// How servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentalTiming {
    /// Longest wait for one response.
    pub timeout: Duration,
    /// How often a server is asked that does not respond.
    pub tries: u32,
    /// The port of servers that are found by resolution.
    pub port: u16,
}

impl Default for ParentalTiming {
    fn default() -> Self {
        ParentalTiming { timeout: Duration::from_secs(3), tries: 2, port: DNS_PORT }
    }
}

/// Finds parent zones and the addresses of their servers: by the resolver of this server, or else, where it
/// is off, by the resolvers of the system.
pub struct ParentalHosts {
    hosts: ServerHosts,
    permits: Arc<Semaphore>,
}

impl ParentalHosts {
    /// Returns what resolves names by `recursive`; `None`: by the resolvers of the system.
    pub fn new(recursive: Option<&Arc<Recursive>>) -> Self {
        Self::of(ServerHosts::new(recursive.map(|recursive| recursive.hosts())))
    }

    /// Returns the same with a bound on queries of its own.
    pub fn apart(&self) -> Self {
        Self::of(self.hosts.clone())
    }

    /// Whether a lookup opens files: for the names of the resolvers of the system.
    pub fn opens_files(&self) -> bool {
        self.hosts.is_by_system()
    }

    fn of(hosts: ServerHosts) -> Self {
        ParentalHosts { hosts, permits: Arc::new(Semaphore::new(MAX_QUERIES)) }
    }
}

/// Asks all servers of the parent zone for the DS set of a zone. `servers` are their addresses; if empty,
/// they are found by resolution, which uses the zones of `engine` first. If the engine has the parent zone,
/// it is one of the servers. For a zone in a view, the zones are those of that view.
pub async fn ask_parents(
    hosts: &ParentalHosts,
    engine: &Weak<Engine<Served>>,
    zone: &ZoneName,
    servers: &[SocketAddr],
    timing: &ParentalTiming,
) -> ParentReport {
    let at = unix_now();
    let name = zone.as_name().to_buf();
    let resolver = hosts.hosts.with_zones(engine, zone.to_view());
    let (parent, addresses) = match servers {
        [] => match parent_of(&resolver, name.as_name()).await {
            Ok(parent) => {
                let (names, permits) = (&parent.servers, &hosts.permits);
                let resolved = ParentalAddresses::resolved(&resolver, names, permits, timing.port).await;
                (Some(parent.apex), resolved)
            }
            Err(fault) => (None, ParentalAddresses { fault: Some(fault), ..ParentalAddresses::default() }),
        },
        servers => (None, ParentalAddresses::configured(servers)),
    };
    let here = resolver.of_own_zones(name, Type::DS);
    let here = here.and_then(|message| {
        // A response that proves nothing means that the parent zone is not here.
        judge(&message, name.as_name(), parent.as_ref().map(NameBuf::as_name)).ok()
    });
    let here = here.map(|found| ParentalAnswer { server: SERVED_HERE.to_owned(), found: Ok(found) });
    let ParentalAddresses { known, unknown, fault } = addresses;
    let asked = ask_all(known, name, parent, &hosts.permits, timing).await;
    let answer = |one: AskedAddress<_, _>| ParentalAnswer { server: shown(one.of.address), found: one.found };
    let asked = without_unreachable(asked).into_iter().map(answer);
    let servers = here.into_iter().chain(asked).chain(unknown).collect();
    ParentReport { at, parent, servers, fault }
}

/// An address that was asked.
struct AskedAddress<T, E> {
    of: ParentalAddress,
    found: Result<T, E>,
    has_route: bool,
}

/// Asks addresses for the DS set of `name`, all at the same time as far as permits last.
async fn ask_all(
    addresses: Vec<ParentalAddress>,
    name: NameBuf,
    parent: Option<NameBuf>,
    permits: &Arc<Semaphore>,
    timing: &ParentalTiming,
) -> Vec<AskedAddress<DsAtServer, String>> {
    let mut queries = JoinSet::new();
    for (number, of) in addresses.iter().enumerate() {
        let (address, permits, timing) = (of.address, Arc::clone(permits), *timing);
        queries.spawn(async move {
            let query = ServerQuery { name, qtype: Type::DS, kind: QueryKind::Iterate };
            // The semaphore is never closed.
            let _permit = permits.acquire().await;
            let response = exchange(address, &query, timing.timeout, timing.tries).await;
            let has_route = !matches!(response, Err(ExchangeFault::NoRoute(_)));
            let found = response
                .map_err(ExchangeFault::into_text)
                .and_then(|message| judge(&message, name.as_name(), parent.as_ref().map(NameBuf::as_name)));
            (number, found, has_route)
        });
    }
    // The panic hook has shown a panic.
    let unasked = |of| AskedAddress { of, found: Err("a bug in nomen".to_owned()), has_route: true };
    let mut asked: Vec<AskedAddress<DsAtServer, String>> = addresses.into_iter().map(unasked).collect();
    while let Some(ended) = queries.join_next().await {
        if let Ok((number, found, has_route)) = ended {
            (asked[number].found, asked[number].has_route) = (found, has_route);
        }
    }
    asked
}

/// Returns the answers, without those of IPv6 addresses that this host has no route to, if each of their NS
/// names has another address that has answered.
fn without_unreachable<T, E>(asked: Vec<AskedAddress<T, E>>) -> Vec<AskedAddress<T, E>> {
    let answered: Vec<usize> =
        asked.iter().filter(|one| one.found.is_ok()).flat_map(|one| one.of.names.clone()).collect();
    let is_left_out = |one: &AskedAddress<T, E>| {
        let names = &one.of.names;
        let has_answered = |name: &usize| answered.contains(name);
        !one.has_route && one.of.address.is_ipv6() && !names.is_empty() && names.iter().all(has_answered)
    };
    asked.into_iter().filter(|one| !is_left_out(one)).collect()
}

/// Returns the text of a server's address.
fn shown(address: SocketAddr) -> String {
    match address.port() {
        DNS_PORT => address.ip().to_string(),
        _ => address.to_string(),
    }
}

/// Sends NOTIFY of a type, CDS or CSYNC, for a zone to the targets that its parent zone names by DSYNC
/// records (RFC 9859 §4): four at most, at four addresses each until one acknowledges. Returns text for the
/// log.
///
/// # Errors
/// No target is known, or none has acknowledged the message.
pub async fn notify_parent(
    hosts: &ParentalHosts,
    engine: &Weak<Engine<Served>>,
    zone: &ZoneName,
    rtype: Type,
    timing: &ParentalTiming,
) -> Result<String, String> {
    let resolver = hosts.hosts.with_zones(engine, zone.to_view());
    let parent = parent_of(&resolver, zone.as_name()).await?.apex;
    let mut targets = Vec::new();
    for name in dsync_names(zone.as_name(), parent.as_name()) {
        let records = resolver.records(name, Type::DSYNC).await;
        let records =
            records.map_err(|fault| format!("the DSYNC records of {name} are not known: {fault}"))?;
        // Records of another type or scheme at the first name count: those for all children do not apply.
        if let Some(records) = records.filter(|records| !records.is_empty()) {
            targets = targets_of(rtype, &records);
            break;
        }
    }
    if targets.is_empty() {
        return Err(format!("the parent zone {parent} has no DSYNC record for NOTIFY({rtype})"));
    }
    let _permit = hosts.permits.acquire().await;
    let (mut lines, mut is_acknowledged) = (Vec::new(), false);
    for target in &targets {
        let outcome = notify_target(&resolver, (zone, rtype), target, timing).await;
        is_acknowledged |= outcome.is_ok();
        let outcome = outcome.map_or_else(|fault| fault, |address| format!("acknowledged by {address}"));
        lines.push(format!("{} port {}: {outcome}", target.host, target.port));
    }
    let text = lines.join("; ");
    if is_acknowledged { Ok(text) } else { Err(text) }
}

/// Sends NOTIFY of a type to the addresses of a target until one acknowledges, which is returned.
async fn notify_target(
    resolver: &ServerHosts,
    (zone, qtype): (&ZoneName, Type),
    target: &NotifyHost,
    timing: &ParentalTiming,
) -> Result<SocketAddr, String> {
    let query = ServerQuery { name: zone.as_name().to_buf(), qtype, kind: QueryKind::Notify };
    let mut fault = "it has no address".to_owned();
    for address in resolver.addresses_of(target.host).await?.into_iter().take(MAX_TARGET_ADDRESSES) {
        let response = exchange(SocketAddr::new(address, target.port), &query, timing.timeout, timing.tries);
        match response.await {
            Ok(message) => match Header::of(&message).map(|header| header.rcode()) {
                Some(Rcode::NOERROR) => return Ok(SocketAddr::new(address, target.port)),
                Some(rcode) => fault = format!("the response of {address} is {rcode}"),
                None => {}
            },
            Err(of_address) => fault = format!("{address}: {}", of_address.into_text()),
        }
    }
    Err(fault)
}
