//! All upstream servers with cached state: those of rules, and those found by delegations.
//!
//! The number of the servers found by delegations is bounded.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use transport::NumberMap;

use crate::bounded::UseOrder;
use crate::config::Upstream;
use crate::random::Random;
use crate::server::Server;
use crate::server_id::ServerId;
use crate::stats::UpstreamStats;

/// Servers by number. Of those found by delegations the number is bounded, and the least recently used is
/// evicted first.
#[derive(Default)]
pub(crate) struct Servers {
    all: NumberMap<ServerId, Server>,
    by_upstream: HashMap<Upstream, ServerId>,
    /// Servers that no rule names.
    found: UseOrder<ServerId>,
    /// The last number given to a server.
    last: u64,
}

impl Servers {
    /// Returns a server, unless evicted.
    pub(crate) fn get(&self, id: ServerId) -> Option<&Server> {
        self.all.get(&id)
    }

    /// Returns a server for changes, unless evicted.
    pub(crate) fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        self.all.get_mut(&id)
    }

    /// Sets the servers of rules. Servers that were known before keep their numbers.
    pub(crate) fn name(&mut self, upstreams: &[Upstream], random: &mut impl Random) {
        for upstream in upstreams {
            let id = self.intern(upstream.clone(), random);
            if let Some(used) = self.get_mut(id).and_then(|server| server.used.take()) {
                self.found.remove(used);
            }
        }
        let gone = |(id, server): (&ServerId, &Server)| {
            (server.used.is_none() && !upstreams.contains(&server.upstream)).then_some(*id)
        };
        let gone: Vec<_> = self.all.iter().filter_map(gone).collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Returns the server that a delegation leads to, and evicts servers beyond `most`.
    pub(crate) fn find(&mut self, upstream: Upstream, most: usize, random: &mut impl Random) -> ServerId {
        let new = !self.by_upstream.contains_key(&upstream);
        let id = self.intern(upstream, random);
        // A server that a rule names has no last use.
        let found = self.all.get_mut(&id).filter(|server| new || server.used.is_some());
        let Some(server) = found else { return id };
        if let Some(used) = server.used {
            self.found.remove(used);
        }
        server.used = Some(self.found.record(id));
        while self.found.len() > most.max(1)
            && let Some(id) = self.found.pop_oldest()
        {
            self.remove(id);
        }
        id
    }

    /// Records a use of a server that a delegation led to.
    pub(crate) fn touch(&mut self, id: ServerId) {
        let Servers { all, found, .. } = self;
        if let Some(used) = all.get_mut(&id).and_then(|server| server.used.as_mut()) {
            found.remove(*used);
            *used = found.record(id);
        }
    }

    /// Removes a server that no rule names.
    pub(crate) fn drop_found(&mut self, id: ServerId) {
        if let Some(used) = self.get(id).and_then(|server| server.used) {
            self.found.remove(used);
            self.remove(id);
        }
    }

    /// Returns all servers, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Server> {
        self.all.values()
    }

    /// Drops all that is known of encrypted transports.
    pub(crate) fn forget_transports(&mut self) {
        self.all.values_mut().for_each(|server| server.transports = None);
    }

    /// Returns the number of a known server.
    pub(crate) fn id_of(&self, upstream: &Upstream) -> Option<ServerId> {
        self.by_upstream.get(upstream).copied()
    }

    /// Returns the counters of some servers.
    pub(crate) fn stats(&self, upstreams: &[Upstream]) -> Vec<Arc<UpstreamStats>> {
        let known = upstreams.iter().filter_map(|upstream| self.get(self.id_of(upstream)?));
        known.map(|server| Arc::clone(&server.stats)).collect()
    }

    /// Returns the address of a server.
    pub(crate) fn address(&self, id: ServerId) -> Option<SocketAddr> {
        self.get(id).map(|server| server.upstream.address)
    }

    fn intern(&mut self, upstream: Upstream, random: &mut impl Random) -> ServerId {
        if let Some(&id) = self.by_upstream.get(&upstream) {
            return id;
        }
        self.last += 1;
        let id = ServerId(self.last);
        self.all.insert(id, Server::new(upstream.clone(), random.bytes()));
        self.by_upstream.insert(upstream, id);
        id
    }

    fn remove(&mut self, id: ServerId) {
        if let Some(server) = self.all.remove(&id) {
            self.by_upstream.remove(&server.upstream);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::random::ChaCha;

    fn upstream(n: u8) -> Upstream {
        Upstream::new(([192, 0, 2, n], 53).into())
    }

    /// A number of servers of rules.
    pub(crate) fn servers(count: u8) -> (Servers, Vec<ServerId>) {
        let upstreams: Vec<_> = (1..=count).map(upstream).collect();
        let mut servers = Servers::default();
        servers.name(&upstreams, &mut ChaCha::new([1; 32]));
        let ids = upstreams.iter().map(|upstream| servers.id_of(upstream).expect("known")).collect();
        (servers, ids)
    }

    #[test]
    fn of_servers_found_the_one_longest_out_of_use_goes() {
        let (mut servers, mut random) = (Servers::default(), ChaCha::new([1; 32]));
        let a = servers.find(upstream(1), 2, &mut random);
        let b = servers.find(upstream(2), 2, &mut random);
        assert_eq!(servers.find(upstream(1), 2, &mut random), a);
        let c = servers.find(upstream(3), 2, &mut random);
        let known = [a, b, c].map(|id| servers.get(id).is_some());
        assert_eq!(known, [true, false, true]);
        assert_ne!(servers.find(upstream(2), 2, &mut random), b, "a number is never used again");
    }

    #[test]
    fn servers_that_rules_name_stay_however_many_are_found() {
        let (mut servers, ids) = servers(1);
        let mut random = ChaCha::new([1; 32]);
        assert_eq!(servers.find(upstream(1), 1, &mut random), ids[0]);
        for n in 2..9 {
            servers.find(upstream(n), 1, &mut random);
        }
        assert!(servers.get(ids[0]).is_some());
        assert_eq!(servers.all.len(), 2);
        servers.name(&[upstream(8)], &mut random);
        assert!(servers.get(ids[0]).is_none());
        assert!(servers.found.len() == 0 && servers.all.len() == 1);
    }
}
