//! The servers of a child zone, and the RRsets that they have: every address of every name server is asked.
//!
//! The child chooses the addresses. None is asked that leads to this host itself, or to no single host; a
//! name server with such an address counts as one that does not answer.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use query_path::Engine;
use resolver::may_be_asked;
use tokio::task::JoinSet;
use validator::children::{ChildRrset, ChildServerFault, ServerAnswer, SignalAnswer};
use wire::{Name, NameBuf, Type, ZoneName};

use super::servers::{ParentalAddresses, looked_up};
use super::{AskedAddress, ParentalHosts, ParentalTiming, shown, without_unreachable};
use crate::frontend::Served;
use crate::hosts::exchange::{ExchangeFault, QueryKind, ServerQuery, exchange};

/// A name server of a delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildHost {
    /// Its name.
    pub name: NameBuf,
    /// Its addresses in the parent zone; empty: they are found by resolution.
    pub glue: Vec<IpAddr>,
}

/// A question to a child's servers: name and type.
pub type ChildQuestion = (NameBuf, Type);

/// The answers of one server to several questions, in their order.
type AskedChild = AskedAddress<Vec<ChildRrset>, ChildServerFault>;

/// The servers of a child zone.
#[derive(Debug)]
pub struct ChildServers {
    addresses: ParentalAddresses,
    /// Whether they were asked before: then none is left out any more.
    was_asked: bool,
}

impl ChildServers {
    /// Finds the addresses of the name servers of a delegation of `parent`, by resolution that uses the zones
    /// of `engine` first.
    pub async fn find(
        hosts: &ParentalHosts,
        engine: &Weak<Engine<Served>>,
        parent: &ZoneName,
        servers: &[ChildHost],
        timing: &ParentalTiming,
    ) -> ChildServers {
        let resolver = hosts.hosts.with_zones(engine, parent.to_view());
        let wanted: Vec<_> = servers.iter().map(|server| (server.name, server.glue.clone())).collect();
        let names: Vec<NameBuf> = servers.iter().map(|server| server.name).collect();
        let found = looked_up(&resolver, &wanted, &hosts.permits).await;
        let found = found.into_iter().map(|found| found.and_then(all_may_be_asked)).collect();
        ChildServers { addresses: ParentalAddresses::of_names(&names, found, timing.port), was_asked: false }
    }

    /// Asks every server these questions, one after the other, until one fails. The answers of several calls
    /// are of the same servers in the same order. An IPv6 address that this host has no route to is left out
    /// if another address of the same name server has answered the first call.
    pub async fn ask(
        &mut self,
        hosts: &ParentalHosts,
        questions: &[ChildQuestion],
        timing: &ParentalTiming,
    ) -> Vec<ServerAnswer<Vec<ChildRrset>>> {
        let mut asked = self.ask_all(hosts, questions, timing).await;
        if !self.was_asked {
            asked = without_unreachable(asked);
            self.addresses.known = asked.iter().map(|one| one.of.clone()).collect();
            self.was_asked = true;
        }
        let answers =
            asked.into_iter().map(|one| ServerAnswer { server: shown(one.of.address), found: one.found });
        let unknown = self.addresses.unknown.iter().map(|one| {
            let fault = one.found.as_ref().err().cloned().unwrap_or_default();
            ServerAnswer { server: one.server.clone(), found: Err(ChildServerFault::NoAnswer(fault)) }
        });
        let beyond = self.addresses.fault.iter().map(|fault| {
            let found = Err(ChildServerFault::NoAnswer(fault.clone()));
            ServerAnswer { server: "others".to_owned(), found }
        });
        answers.chain(unknown).chain(beyond).collect()
    }

    async fn ask_all(
        &self,
        hosts: &ParentalHosts,
        questions: &[ChildQuestion],
        timing: &ParentalTiming,
    ) -> Vec<AskedChild> {
        let mut queries = JoinSet::new();
        for (number, of) in self.addresses.known.iter().enumerate() {
            let (of, permits) = (of.clone(), Arc::clone(&hosts.permits));
            let (questions, timing) = (questions.to_vec(), *timing);
            queries.spawn(async move {
                // The semaphore is never closed.
                let _permit = permits.acquire().await;
                let (mut found, mut has_route) = (Ok(Vec::new()), true);
                for (name, qtype) in questions {
                    let query = ServerQuery { name, qtype, kind: QueryKind::IterateSigned };
                    let response = exchange(of.address, &query, timing.timeout, timing.tries).await;
                    has_route = !matches!(response, Err(ExchangeFault::NoRoute(_)));
                    let rrset = response
                        .map_err(|fault| ChildServerFault::NoAnswer(fault.into_text()))
                        .and_then(|message| ChildRrset::read(&message, name.as_name(), qtype));
                    match (&mut found, rrset) {
                        (Ok(found), Ok(rrset)) => found.push(rrset),
                        (_, Ok(_)) => {}
                        (_, Err(fault)) => {
                            found = Err(fault);
                            break;
                        }
                    }
                }
                (number, found, has_route)
            });
        }
        // The panic hook has shown a panic.
        let unasked = || Err(ChildServerFault::NoAnswer("a bug in nomen".to_owned()));
        let mut asked: Vec<AskedChild> = Vec::new();
        for of in &self.addresses.known {
            asked.push(AskedAddress { of: of.clone(), found: unasked(), has_route: true });
        }
        while let Some(ended) = queries.join_next().await {
            if let Ok((number, found, has_route)) = ended {
                (asked[number].found, asked[number].has_route) = (found, has_route);
            }
        }
        asked
    }
}

/// Looks up what the name servers outside of a child zone signal about it (RFC 9615 §4.1), by the resolver of
/// this server, which must find it secure.
pub async fn bootstrap_signals(
    hosts: &ParentalHosts,
    child: Name<'_>,
    servers: &[ChildHost],
) -> Vec<SignalAnswer> {
    let mut signals = Vec::new();
    for server in servers.iter().filter(|server| !server.name.as_name().is_at_or_below(child)) {
        let (name, found) = match signaling_name(child, server.name.as_name()) {
            Some(name) => {
                // The semaphore is never closed.
                let _permit = hosts.permits.acquire().await;
                let cds = hosts.hosts.secure_records(name, Type::CDS).await;
                let cdnskey = hosts.hosts.secure_records(name, Type::CDNSKEY).await;
                let found = cds.and_then(|cds| Ok([sorted(cds), sorted(cdnskey?)]));
                (name.to_string(), found)
            }
            None => (server.name.to_string(), Err("its signaling name is too long".to_owned())),
        };
        signals.push(SignalAnswer { name, found });
    }
    signals
}

/// Returns the addresses, if each is one of a server on a network.
fn all_may_be_asked(addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    match addresses.iter().find(|address| !may_be_asked(**address, false)) {
        Some(address) => Err(format!("its address {address} is not asked: it is not that of another host")),
        None => Ok(addresses),
    }
}

fn sorted(mut rdatas: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    rdatas.sort_unstable();
    rdatas.dedup();
    rdatas
}

/// Returns `_dsboot.CHILD._signal.SERVER`; `None` if it is too long.
fn signaling_name(child: Name<'_>, server: Name<'_>) -> Option<NameBuf> {
    let signal = NameBuf::prepend(b"_signal", server).ok()?;
    let below = NameBuf::replace_suffix(child, 0, signal.as_name()).ok()?;
    NameBuf::prepend(b"_dsboot", below.as_name()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::testing::name;

    #[test]
    fn the_addresses_of_a_child_lead_to_other_hosts() {
        let of = |texts: &[&str]| {
            let parsed = texts.iter().map(|text| text.parse().expect("an address")).collect();
            all_may_be_asked(parsed).map(|all| all.len())
        };
        assert_eq!(of(&["192.0.2.1", "10.0.0.1", "2001:db8::1"]), Ok(3));
        for other in ["127.0.0.1", "::1", "0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "::ffff:127.0.0.1"]
        {
            assert!(of(&["192.0.2.1", other]).is_err(), "{other}");
        }
    }

    /// The example of RFC 9615 §4.1.1.
    #[test]
    fn the_signaling_name_has_the_child_between_its_labels() {
        let of = |child: &str, server: &str| {
            signaling_name(name(child).as_name(), name(server).as_name()).map(|name| name.to_string())
        };
        let wanted = "_dsboot.example.co.uk._signal.ns1.example.net.".to_owned();
        assert_eq!(of("example.co.uk", "ns1.example.net"), Some(wanted));
        let label = "x".repeat(60);
        assert_eq!(of(&format!("{label}.{label}.test"), &format!("{label}.{label}.test")), None);
    }
}
