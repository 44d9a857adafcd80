//! The known addresses of a zone's servers, and whether they are reachable.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::Type;

use super::Resolver;
use super::state::LookupId;
use crate::config::Upstream;
use crate::delegations::{Cut, CutServer};
use crate::random::Random;
use crate::request::LookupSink;
use crate::select::{self, Asked};

/// How long an address family without a route is avoided.
const NO_WAY: Duration = Duration::from_secs(10);

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Whether all addresses of a zone's servers are known, and all of them are failing.
    pub(super) fn is_dead(&mut self, cut: &Cut, now: Instant) -> bool {
        if self.may_find_more(cut, now) {
            return false;
        }
        let mut known = Vec::new();
        self.addresses_of(cut, false, now, &mut known);
        let failing = |address: &SocketAddr| {
            let server = self.servers.id_of(&Upstream::new(*address));
            server.and_then(|id| self.servers.get(id)).is_some_and(|server| server.is_failing())
        };
        !known.is_empty() && known.iter().all(failing)
    }

    /// Whether a lookup can find further addresses of a zone's servers. Names below the zone are excluded,
    /// since only these servers have their addresses.
    fn may_find_more(&mut self, cut: &Cut, now: Instant) -> bool {
        let families = [(false, Type::A), (true, Type::AAAA)].into_iter();
        let families: Vec<Type> = families.filter(|(v6, _)| self.is_open(*v6, now)).map(|(_, t)| t).collect();
        let mut names = cut.servers.iter().filter_map(CutServer::name);
        names.any(|name| {
            let is_outside = !name.is_at_or_below(cut.zone.as_lower());
            is_outside
                && families.iter().any(|&t| !self.delegations.host(name, t).is_some_and(|f| f.holds(now)))
        })
    }

    /// Collects the known, reachable addresses of a zone's servers, each once; if there are none, those of
    /// families without a route, since one of them may be reachable after all. With `outside` also addresses
    /// from the parent that it is not authoritative for.
    fn addresses_of(&mut self, cut: &Cut, outside: bool, now: Instant, into: &mut Vec<SocketAddr>) {
        let iterate = &self.config.iterate;
        let (most, wanted) = (iterate.addresses, [iterate.ipv4, iterate.ipv6]);
        let open = [false, true].map(|v6| self.is_open(v6, now));
        for families in [open, wanted] {
            for server in &cut.servers {
                let mut own = self.own_addresses(server, now);
                own.extend(server.outside.iter().filter(|_| outside));
                own.retain(|address| families[usize::from(address.is_ipv6())]);
                own.dedup();
                own.truncate(most);
                own.retain(|address| !into.contains(address));
                into.extend(own);
            }
            if !into.is_empty() {
                break;
            }
        }
    }

    /// Returns the known addresses of one server.
    pub(super) fn own_addresses(&mut self, server: &CutServer, now: Instant) -> Vec<SocketAddr> {
        let mut own: Vec<SocketAddr> = server.glue.clone();
        for qtype in [Type::A, Type::AAAA] {
            let found = server.name().and_then(|name| self.delegations.host(name, qtype));
            let found = found.filter(|found| found.holds(now));
            own.extend(
                found.into_iter().flat_map(|found| &found.addresses).map(|&ip| SocketAddr::new(ip, 53)),
            );
        }
        own
    }

    /// Whether an address family is in use.
    pub(super) fn is_open(&self, v6: bool, now: Instant) -> bool {
        let wanted = if v6 { self.config.iterate.ipv6 } else { self.config.iterate.ipv4 };
        let shut = self.no_way.get(usize::from(v6)).copied().flatten();
        // If neither family has a route, both are tried.
        wanted && (shut.is_none_or(|until| until <= now) || self.no_way.iter().all(Option::is_some))
    }

    /// Adds the addresses known by now to the lookup, in random order. Returns whether there are new ones.
    pub(super) fn add_addresses(&mut self, id: LookupId, now: Instant) -> bool {
        let walk = self.lookups.get(&id).and_then(|lookup| lookup.state.walk());
        let Some((cut, outside)) = walk.map(|walk| (Arc::clone(&walk.cut), walk.outside)) else {
            return false;
        };
        let mut addresses = Vec::new();
        self.addresses_of(&cut, outside, now, &mut addresses);
        for last in (1..addresses.len()).rev() {
            addresses.swap(last, self.random.below(last as u32 + 1) as usize);
        }
        let most = self.config.iterate.known_servers;
        let unwanted = self.unwanted(id, &cut, now);
        let mut any = false;
        for address in addresses {
            let server = self.servers.find(Upstream::new(address), most, &mut self.random);
            let Some(lookup) = self.lookups.get_mut(&id) else { return any };
            if !lookup.attempts.asked.iter().any(|asked| asked.server == server) {
                lookup.attempts.asked.push(Asked { server, ..Asked::default() });
                any = true;
            }
        }
        if let Some(lookup) = self.lookups.get_mut(&id) {
            select::set_aside(&mut lookup.attempts.asked, &self.servers, &unwanted);
        }
        any
    }

    /// Returns the addresses of the excluded server. It may be queried for a part of the name.
    fn unwanted(&mut self, id: LookupId, cut: &Cut, now: Instant) -> Vec<SocketAddr> {
        let lookup = self.lookups.get(&id).filter(|lookup| *lookup.question() == lookup.query_key);
        let Some(address) = lookup.and_then(|lookup| lookup.unwanted_server()) else { return Vec::new() };
        let mut all = vec![address];
        for server in &cut.servers {
            let own = self.own_addresses(server, now);
            if own.contains(&address) {
                all.extend(own);
            }
        }
        all
    }

    /// Handles an unreachable address; most likely its whole family is. A lookup with iteration excludes the
    /// family, if it has addresses of the other one, and otherwise the address.
    pub(super) fn shut(&mut self, id: LookupId, address: SocketAddr, now: Instant) {
        let v6 = address.is_ipv6();
        if let Some(shut) = self.no_way.get_mut(usize::from(v6)) {
            *shut = now.checked_add(NO_WAY);
        }
        let Some(lookup) = self.lookups.get_mut(&id).filter(|lookup| lookup.state.walk().is_some()) else {
            return;
        };
        let address_of = |asked: &Asked| self.servers.get(asked.server).map(|server| server.upstream.address);
        let of_family = |asked: &Asked| address_of(asked).is_some_and(|address| address.is_ipv6() == v6);
        let others = lookup.attempts.asked.iter().any(|asked| !asked.spent && !of_family(asked));
        for asked in &mut lookup.attempts.asked {
            asked.spent |= if others { of_family(asked) } else { address_of(asked) == Some(address) };
        }
    }
}
