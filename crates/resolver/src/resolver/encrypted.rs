//! Queries over encrypted transports that authoritative servers were found to offer, and the probes that find
//! them (RFC 9539).
//!
//! Each address has an entry in the table of servers. Its encrypted transports have their state there, and
//! each transport that is probed or works has a second entry, with the connections, the round-trip time and
//! the counters of the transport. A probe is a duplicate of a query that goes to the same server in the clear
//! at the same time: it has no lookup, no client waits for it, and no budget is charged. Its reply only
//! decides about the transport.
//!
//! A query over such a transport is an ordinary try of its lookup. If the reply is late or useless, or the
//! connection fails, the same query goes to the same server in the clear at once, as the next try.

use std::io;
use std::time::Instant;

use transport::{Action, EncryptionFault, Link};
use wire::{NameBuf, Rcode};

use super::Resolver;
use super::state::{Carrier, InClear, LinkLoss, LinkUse, LookupId, Steps, Timer, Try, TryId};
use crate::config::{Reach, Upstream, UpstreamTransport};
use crate::opportunistic::{
    ENCRYPTED_PORT, OPPORTUNISTIC_TRANSPORTS, ServerEncryption, TransportState, TransportStatus,
};
use crate::query::{self, Reply};
use crate::query_key::QueryKey;
use crate::random::Random;
use crate::request::LookupSink;
use crate::server::Server;
use crate::server_id::ServerId;
use crate::stats::OpportunisticCounts;
use crate::trace::TraceEvent;

/// The port of servers that are probed; others are configured, and have no known encrypted port.
const DNS_PORT: u16 = 53;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Returns the link for a try: an encrypted transport of the server if one is known to work, and else as
    /// [`carrier_to`](Self::carrier_to) returns it. Also returns the entry that the link belongs to.
    pub(super) fn carrier_for(
        &mut self,
        id: TryId,
        server: ServerId,
        steps: Steps,
        may_encrypt: bool,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> Option<(ServerId, Carrier)> {
        if may_encrypt
            && !steps.stream
            && steps.in_clear.is_none()
            && let Some(encrypted) = self.encrypted_entry(server, now)
            && let Some(carrier) = self.stream_to(encrypted, id, now, actions)
        {
            return Some((encrypted, carrier));
        }
        let stream = steps.stream || self.has_only_streams(server);
        Some((server, self.carrier_to(server, stream, id, now, actions)?))
    }

    /// Whether authoritative servers are probed at all.
    pub(super) fn encrypts_opportunistically(&self) -> bool {
        !self.config.iterate.opportunistic.encryptions.is_empty()
    }

    /// Whether queries of a lookup may go over encrypted transports: it is an iteration, and its servers are
    /// queried as authoritative ones.
    pub(super) fn may_encrypt(&self, id: LookupId, is_probe: bool) -> bool {
        let walk = || self.lookups.get(&id).and_then(|lookup| lookup.state.walk());
        self.encrypts_opportunistically() && !is_probe && walk().is_some_and(|walk| !walk.recursion)
    }

    /// Returns the number of encrypted transports that a server may have. A server that a rule names is
    /// queried as the rule says, one on another port is configured, and one on this host needs no encryption.
    fn possible_transports(&self, server: &Server) -> usize {
        let address = server.upstream.address;
        let is_possible = server.used.is_some()
            && address.port() == DNS_PORT
            && !address.ip().to_canonical().is_loopback()
            && server.upstream.reach == Reach::UdpThenTcp;
        let most = self.config.iterate.opportunistic.encryptions.len().min(OPPORTUNISTIC_TRANSPORTS);
        if is_possible { most } else { 0 }
    }

    /// Returns the entry of the first encrypted transport of a server that works.
    fn encrypted_entry(&mut self, server: ServerId, now: Instant) -> Option<ServerId> {
        let in_clear = self.servers.get(server)?;
        let settings = &self.config.iterate.opportunistic;
        let states = in_clear.transports.as_deref()?.iter().take(self.possible_transports(in_clear));
        let place = states.into_iter().position(|state| state.is_usable(settings, now))?;
        let known = in_clear.transports.as_deref()?.get(place)?.server;
        let rtt = in_clear.rtt;
        let encrypted = match known.filter(|id| self.servers.get(*id).is_some()) {
            Some(id) => id,
            // It was evicted.
            None => self.add_encrypted_entry(server, place)?,
        };
        self.servers.touch(encrypted);
        if let Some(entry) = self.servers.get_mut(encrypted).filter(|entry| entry.rtt.smoothed().is_none()) {
            entry.rtt = rtt;
        }
        let state = self.transport_state(server, place)?;
        state.server = Some(encrypted);
        state.queries += 1;
        Some(encrypted)
    }

    /// Adds the entry of an encrypted transport to the table of servers.
    fn add_encrypted_entry(&mut self, server: ServerId, place: usize) -> Option<ServerId> {
        let in_clear = self.servers.get(server)?;
        let mut address = in_clear.upstream.address;
        address.set_port(ENCRYPTED_PORT);
        let encryption = self.config.iterate.opportunistic.encryptions.get(place)?.clone();
        let upstream = Upstream { address, reach: Reach::Encrypted(encryption) };
        let most = self.config.iterate.known_servers;
        let id = self.servers.find(upstream, most, &mut self.random);
        let encrypted = self.servers.get_mut(id)?;
        encrypted.in_clear = Some((server, place));
        Some(id)
    }

    fn transport_state(&mut self, server: ServerId, place: usize) -> Option<&mut TransportState> {
        self.servers.get_mut(server)?.transports.as_deref_mut()?.get_mut(place)
    }

    /// Returns the state of the transport that an entry belongs to.
    fn state_of_entry(&mut self, entry: ServerId) -> Option<&mut TransportState> {
        let (server, place) = self.servers.get(entry)?.in_clear?;
        self.transport_state(server, place).filter(|state| state.server == Some(entry))
    }

    /// Returns the counters of an entry's transport.
    fn counts_of_entry(&self, entry: ServerId) -> Option<&OpportunisticCounts> {
        let transport = self.servers.get(entry)?.transport(true);
        Some(self.stats.opportunistic.of(transport))
    }

    /// Counts a query over an encrypted transport that a server was found to offer.
    pub(super) fn count_encrypted(&self, entry: ServerId) {
        if let Some(counts) = self.counts_of_entry(entry) {
            counts.queries.add(1);
        }
    }

    /// Probes the encrypted transports of a server that are due, unless one of them works. The lookup goes on
    /// meanwhile: its query has been sent in the clear.
    pub(super) fn probe_transports(
        &mut self,
        id: LookupId,
        server: ServerId,
        query_key: &QueryKey,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let settings = &self.config.iterate.opportunistic;
        let Some(in_clear) = self.servers.get(server) else { return };
        let possible = self.possible_transports(in_clear);
        let due = match &in_clear.transports {
            None => [true; OPPORTUNISTIC_TRANSPORTS],
            Some(states) if states.iter().any(|state| state.is_usable(settings, now)) => return,
            Some(states) => states.each_ref().map(|state| state.is_due(settings, now)),
        };
        for place in (0..possible).filter(|place| due.get(*place) == Some(&true)) {
            if self.probes >= self.config.iterate.opportunistic.probes {
                self.stats.opportunistic.suppressed.add(1);
                return;
            }
            self.probe_transport(id, (server, place), query_key, now, actions);
        }
    }

    fn probe_transport(
        &mut self,
        id: LookupId,
        (in_clear, place): (ServerId, usize),
        query_key: &QueryKey,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let Some(server) = self.add_encrypted_entry(in_clear, place) else { return };
        let try_id = TryId(self.number());
        let Some(carrier) = self.stream_to(server, try_id, now, actions) else { return };
        let Carrier { link, query_id, .. } = carrier;
        let Some(clear) = self.servers.get_mut(in_clear) else { return };
        let states = clear.transports.get_or_insert_default();
        if let Some(state) = states.get_mut(place) {
            state.on_probe(server, now);
        }
        let steps = Steps::default();
        let name: NameBuf = query_key.name.into();
        let opt = self.opt_for(server, steps, now);
        let message = query::build(query_id, name.as_name(), query_key, false, opt.as_ref());
        actions.push(Action::Send { link, message });
        if let Some(counts) = self.counts_of_entry(server) {
            counts.probes.add(1);
        }
        let at = now + self.config.iterate.opportunistic.timeout;
        let one = Try {
            lookup: None,
            place: 0,
            server,
            link,
            stream: true,
            id: query_id,
            query_key: *query_key,
            name,
            mixed: false,
            opt,
            steps,
            sent: now,
            measurable: false,
            timer: Some(at),
            probe: true,
            check: false,
            in_clear: Some((in_clear, place)),
            errors: Vec::new(),
        };
        self.set_timer(at, Timer::Try(try_id));
        self.tries.insert(try_id, one);
        self.probes += 1;
        self.stats.opportunistic.in_flight.set(self.probes as u64);
        if let Some(server) = self.servers.get(server) {
            let (server, transport) = (server.upstream.address, server.transport(true));
            self.note(id, now, || TraceEvent::Probed { server, transport });
        }
    }

    /// Ends a probe, of which only the count is left.
    pub(super) fn probe_ended(&mut self, one: &Try) {
        self.probes = self.probes.saturating_sub(1);
        self.stats.opportunistic.in_flight.set(self.probes as u64);
        if let Some(state) = self.state_of_entry(one.server) {
            state.probing = false;
        }
    }

    /// Handles the reply to a probe. A useful one is what a name server of the zone sends. At the port may
    /// also be a resolver, whose answers are others. Another useless reply may be due to the zone, which the
    /// server does not serve.
    pub(super) fn probe_replied(
        &mut self,
        id: TryId,
        reply: &Reply,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let is_useful = matches!(reply.rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN)
            && !reply.truncated
            && !reply.several_opts;
        let Some(one) = self.forget(id, actions) else { return };
        if reply.recursive {
            return self.transport_failed(&one, TransportStatus::Failed, now, actions);
        }
        if let Some(counts) = self.counts_of_entry(one.server) {
            if is_useful { &counts.successes } else { &counts.failures }.add(1);
        }
        let Some(state) = self.state_of_entry(one.server) else { return };
        match is_useful {
            true => state.on_success(now),
            false => {
                state.on_useless(now);
                self.drop_entry(one.server, now, actions);
            }
        }
    }

    /// Records a message on a connection.
    pub(super) fn transport_spoke(&mut self, link: Link, now: Instant) {
        if let Some(LinkUse::Stream(connection)) = self.links.get(&link)
            && let Some(state) = self.state_of_entry(connection.server)
        {
            state.on_message(now);
        }
    }

    /// Records the reply to a query over an encrypted transport: the server is up.
    pub(super) fn encrypted_replied(&mut self, id: TryId) {
        let Some(one) = self.tries.get(&id) else { return };
        let Some((in_clear, _)) = one.in_clear else { return };
        if let Some(state) = self.state_of_entry(one.server) {
            state.on_reply();
        }
        if let Some(server) = self.servers.get_mut(in_clear) {
            server.on_reply(None);
        }
    }

    /// Records a useful reply to a try in the clear after a useless one over an encrypted transport.
    pub(super) fn clear_was_better(&mut self, one: &Try, now: Instant, actions: &mut Vec<Action>) {
        let Some(InClear::Useless(place)) = one.steps.in_clear else { return };
        let entry = self.transport_state(one.server, place).and_then(|state| state.server);
        if let Some(entry) = entry {
            self.leave_transport(entry, TransportStatus::Failed, now, actions);
        }
    }

    /// Handles a useless reply over an encrypted transport.
    pub(super) fn encrypted_useless(&mut self, one: &Try, now: Instant, actions: &mut Vec<Action>) {
        let Some((_, place)) = one.in_clear else { return };
        self.go_clear(one, InClear::Useless(place), now, actions);
    }

    /// Handles a query over an encrypted transport, or a probe, without a reply in time.
    pub(super) fn encrypted_unanswered(&mut self, id: TryId, now: Instant, actions: &mut Vec<Action>) {
        let Some(one) = self.tries.get(&id) else { return };
        let (server, link, sent, probe) = (one.server, one.link, one.sent, one.probe);
        self.note_of(id, now, |server, transport, _| TraceEvent::Unanswered { server, transport });
        if let Some(server) = self.servers.get(server) {
            server.stats.timeouts.add(1);
        }
        if probe {
            if let Some(one) = self.forget(id, actions) {
                self.transport_failed(&one, TransportStatus::TimedOut, now, actions);
            }
            return;
        }
        self.suspect(link, sent);
        let heard = match self.links.get(&link) {
            Some(LinkUse::Stream(connection)) => connection.heard,
            _ => None,
        };
        if heard.is_none_or(|heard| heard <= sent) {
            self.transport_slipped(server, now, actions);
        }
        // A reply that comes later is still accepted.
        let Some(one) = self.tries.get(&id) else { return };
        let (lookup, place, steps) = (one.lookup, one.place, one.steps);
        if let Some(lookup) = lookup {
            self.ask_in_clear(
                lookup,
                server,
                place,
                Steps { in_clear: Some(InClear::NoReply), ..steps },
                now,
                actions,
            );
        }
    }

    /// Handles the failure of the connection of a query over an encrypted transport, or of a probe.
    pub(super) fn encrypted_broken(
        &mut self,
        one: &Try,
        loss: LinkLoss,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let timed_out = matches!(
            loss,
            LinkLoss::Encryption(EncryptionFault::HandshakeTimeout) | LinkLoss::Io(io::ErrorKind::TimedOut)
        );
        let status = if timed_out { TransportStatus::TimedOut } else { TransportStatus::Failed };
        match one.probe {
            // Running out of links is not the server's fault: it is probed again.
            true if loss.is_ours() => return,
            true => return self.transport_failed(one, status, now, actions),
            false if loss.is_ours() => {}
            // The connection was open: the server may have restarted.
            false if one.measurable => self.transport_slipped(one.server, now, actions),
            false => self.leave_transport(one.server, status, now, actions),
        }
        self.go_clear(one, InClear::NoReply, now, actions);
    }

    /// Repeats the query of a try that has ended in the clear.
    fn go_clear(&mut self, one: &Try, why: InClear, now: Instant, actions: &mut Vec<Action>) {
        let Some(lookup) = one.lookup else { return };
        let steps = Steps { in_clear: Some(why), ..one.steps };
        self.ask_in_clear(lookup, one.server, one.place, steps, now, actions);
    }

    fn ask_in_clear(
        &mut self,
        id: LookupId,
        entry: ServerId,
        place: usize,
        steps: Steps,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if self.is_set_aside(id) {
            return;
        }
        if let Some(counts) = self.counts_of_entry(entry) {
            counts.fallbacks.add(1);
        }
        self.launch(id, place, steps, false, now, actions);
    }

    /// Records that a transport in use left a query without a reply.
    fn transport_slipped(&mut self, entry: ServerId, now: Instant, actions: &mut Vec<Action>) {
        if self.state_of_entry(entry).is_some_and(|state| state.on_setback(now)) {
            self.drop_entry(entry, now, actions);
        }
    }

    /// Records a probe without a useful reply.
    fn transport_failed(
        &mut self,
        one: &Try,
        status: TransportStatus,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if let Some(counts) = self.counts_of_entry(one.server) {
            let count = if status == TransportStatus::TimedOut { &counts.timeouts } else { &counts.failures };
            count.add(1);
        }
        self.leave_transport(one.server, status, now, actions);
    }

    /// Leaves a transport alone for the damping time.
    fn leave_transport(
        &mut self,
        entry: ServerId,
        status: TransportStatus,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        if let Some(state) = self.state_of_entry(entry) {
            state.on_failure(status, now);
            self.drop_entry(entry, now, actions);
        }
    }

    /// Removes the entry of a transport, and closes its connections: their queries go in the clear.
    fn drop_entry(&mut self, entry: ServerId, now: Instant, actions: &mut Vec<Action>) {
        let links = self.servers.get(entry).map(|server| server.connections.clone()).unwrap_or_default();
        for link in links {
            self.close_stream(link, now, actions);
        }
        self.servers.drop_found(entry);
    }

    /// Returns the state of all transports that were probed.
    pub(super) fn encryption(&self, now: Instant) -> Vec<ServerEncryption> {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let settings = &self.config.iterate.opportunistic;
        let shown = |server: &Server, place: usize, state: &TransportState| {
            let encryption = settings.encryptions.get(place)?;
            let mut address = server.upstream.address;
            address.set_port(ENCRYPTED_PORT);
            let is_expired = state.status == TransportStatus::Works && !state.is_usable(settings, now);
            Some(ServerEncryption {
                address,
                transport: match encryption.transport() {
                    transport::Transport::Quic => UpstreamTransport::Quic,
                    _ => UpstreamTransport::Tls,
                },
                status: if is_expired { TransportStatus::Unknown } else { state.status },
                probing: state.probing,
                initiated: since(state.initiated),
                completed: since(state.completed),
                last_response: since(state.last_response),
                queries: state.queries,
            })
        };
        let mut all: Vec<_> = Vec::new();
        for server in self.servers.iter() {
            let states = server.transports.iter().flat_map(|states| states.iter().enumerate());
            let probed = states.filter(|(_, state)| state.initiated.is_some());
            all.extend(probed.filter_map(|(place, state)| shown(server, place, state)));
        }
        all.sort_by_key(|one| (one.address, one.transport == UpstreamTransport::Quic));
        all
    }
}
