//! Connections to servers: many queries in flight on each, kept until idle (RFC 7766 §6.2).
//!
//! A server that is reached over TLS, HTTPS or QUIC has encrypted connections only: here is the one place
//! that opens them.

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use transport::{Action, Encryption, EncryptionFault, Link, Transport};

use super::Resolver;
use super::state::{Carrier, Connection, LinkLoss, LinkUse, Steps, Timer, TryId};
use crate::random::Random;
use crate::request::LookupSink;
use crate::server_id::ServerId;

impl<O: LookupSink, R: Random> Resolver<O, R> {
    /// Returns a connection to `server` with room for one more query. `None` if all possible connections are
    /// full.
    pub(super) fn stream_to(
        &mut self,
        server: ServerId,
        id: TryId,
        now: Instant,
        actions: &mut Vec<Action>,
    ) -> Option<Carrier> {
        let known = self.servers.get(server)?.connections.iter().copied().find(|link| self.takes_more(*link));
        let link = match known {
            Some(link) => link,
            None => self.connect(server, now, actions)?,
        };
        let first = self.random.next_u32() as u16;
        let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) else { return None };
        let query_id = (0..=u16::MAX).map(|n| first.wrapping_add(n));
        let query_id = query_id.into_iter().find(|id| !connection.pending.contains_key(id))?;
        connection.pending.insert(query_id, id);
        let measurable = connection.open;
        self.touch(link, now);
        Some(Carrier { link, query_id, measurable })
    }

    fn takes_more(&self, link: Link) -> bool {
        let Some(LinkUse::Stream(connection)) = self.links.get(&link) else { return false };
        !connection.suspect && connection.pending.len() < self.config.limits.pipeline
    }

    fn connect(&mut self, server: ServerId, now: Instant, actions: &mut Vec<Action>) -> Option<Link> {
        let most = self.config.limits.connections;
        let link = Link(self.number());
        let place = server;
        let server = self.servers.get_mut(server).filter(|server| server.connections.len() < most)?;
        server.connections.push(link);
        let to = server.upstream.address;
        let from = self.config.source_for(to);
        let encryption = server.upstream.reach.encryption().cloned();
        let encrypted = encryption.is_some();
        let streamed = encryption.as_ref().is_some_and(Encryption::is_streamed);
        let transport = encryption.as_ref().map_or(Transport::Tcp, Encryption::transport);
        actions.push(Action::Open { link, transport, to, from, encryption });
        let handshake = match server.in_clear {
            Some(_) => self.config.iterate.opportunistic.timeout,
            None => self.config.timing.handshake,
        };
        let handshake_until = encrypted.then(|| now + handshake);
        let idle_at = now + self.config.timing.tcp_idle;
        let connection = Connection {
            server: place,
            open: false,
            pending: HashMap::new(),
            heard: None,
            idle_at,
            suspect: false,
            encrypted,
            streamed,
            handshake_until,
        };
        self.links.insert(link, LinkUse::Stream(connection));
        self.set_timer(idle_at, Timer::Idle(link));
        if let Some(at) = handshake_until {
            self.set_timer(at, Timer::Handshake(link));
        }
        Some(link)
    }

    /// Restarts the idle timer of a connection.
    pub(super) fn touch(&mut self, link: Link, now: Instant) {
        let idle_at = now + self.config.timing.tcp_idle;
        let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) else { return };
        let before = std::mem::replace(&mut connection.idle_at, idle_at);
        self.drop_timer(Some(before), Timer::Idle(link));
        self.set_timer(idle_at, Timer::Idle(link));
    }

    /// Records that a connection is open.
    pub(super) fn opened(&mut self, link: Link) {
        if let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) {
            connection.open = true;
        }
    }

    /// Records that an encrypted connection is open.
    pub(super) fn secured(&mut self, link: Link, resumed: bool) {
        let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) else { return };
        connection.open = true;
        let (server, until) = (connection.server, connection.handshake_until.take());
        self.drop_timer(until, Timer::Handshake(link));
        if let Some(server) = self.servers.get_mut(server) {
            server.on_secured(resumed);
        }
    }

    /// Closes a connection whose encryption was not established, or that has not fetched a key, in time.
    pub(super) fn handshake_timer(&mut self, link: Link, now: Instant, actions: &mut Vec<Action>) {
        match self.links.get_mut(&link) {
            Some(LinkUse::Stream(connection)) => {
                connection.handshake_until = None;
                actions.push(Action::Close { link });
                let loss = LinkLoss::Encryption(EncryptionFault::HandshakeTimeout);
                self.lose_stream(link, loss, now, actions);
            }
            Some(LinkUse::Key(_)) => {
                self.close_key_link(link, Some(EncryptionFault::ObliviousTimeout), actions);
            }
            Some(LinkUse::Datagram(_)) | None => {}
        }
    }

    /// Handles the end of a link for a fault of its encryption.
    pub(super) fn insecure(
        &mut self,
        link: Link,
        fault: EncryptionFault,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        match self.links.get(&link) {
            Some(LinkUse::Key(_)) => self.key_lost(link, LinkLoss::Encryption(fault), actions),
            _ => self.lose_stream(link, LinkLoss::Encryption(fault), now, actions),
        }
    }

    /// Handles a query that gets no response on a connection which stays open. One that the server has not
    /// processed is sent again on another connection, once.
    pub(super) fn failed(
        &mut self,
        link: Link,
        query_id: u16,
        fault: Option<EncryptionFault>,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let connection = match self.links.get_mut(&link) {
            Some(LinkUse::Stream(connection)) => connection,
            Some(LinkUse::Key(_)) => return self.close_key_link(link, fault, actions),
            Some(LinkUse::Datagram(_)) | None => return,
        };
        // With a fault, the server is there.
        connection.heard = fault.map(|_| now).or(connection.heard);
        let server = connection.server;
        let Some(id) = connection.pending.remove(&query_id) else { return };
        self.touch(link, now);
        if let (Some(fault), Some(server)) = (fault, self.servers.get_mut(server)) {
            server.on_insecure(fault);
        }
        let one = self.tries.get(&id).map(|one| (one.steps, one.is_transport_probe()));
        let Some((steps, is_probe)) = one else { return };
        match fault {
            None if !steps.reconnected && !is_probe => {
                self.note_loss(id, LinkLoss::Io(io::ErrorKind::ConnectionAborted), now);
                self.replace(id, Steps { reconnected: true, ..steps }, now, actions);
            }
            None => self.broken(id, LinkLoss::Io(io::ErrorKind::ConnectionAborted), now, actions),
            Some(fault) => self.broken(id, LinkLoss::Encryption(fault), now, actions),
        }
    }

    /// Handles a connection whose server takes no further queries: the next one opens another.
    pub(super) fn draining(&mut self, link: Link) {
        if let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) {
            connection.suspect = true;
        }
    }

    /// Handles a query sent at `sent` that timed out. If nothing arrived since, the connection may be dead,
    /// and the next query opens another. How long a handshake may take has a limit of its own.
    pub(super) fn suspect(&mut self, link: Link, sent: Instant) {
        let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) else { return };
        if connection.handshake_until.is_none() && connection.heard.is_none_or(|heard| heard <= sent) {
            connection.suspect = true;
        }
    }

    /// Handles the end of a link.
    pub(super) fn ended(
        &mut self,
        link: Link,
        error: io::ErrorKind,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        match self.links.get(&link) {
            Some(&LinkUse::Datagram(id)) => {
                self.links.remove(&link);
                self.broken(id, LinkLoss::Io(error), now, actions);
            }
            Some(LinkUse::Stream(_)) => self.lose_stream(link, LinkLoss::Io(error), now, actions),
            Some(LinkUse::Key(_)) => self.key_lost(link, LinkLoss::Io(error), actions),
            None => {}
        }
    }

    /// Closes a connection if it has been idle: during the handshake, and while it has queries that wait for
    /// a reply, it is not.
    pub(super) fn idle_timer(&mut self, link: Link, now: Instant, actions: &mut Vec<Action>) {
        let Some(LinkUse::Stream(connection)) = self.links.get(&link) else { return };
        // Without a stream for each query, IDs of queries that were given up stay pending.
        let waits = connection.pending.values().any(|id| self.tries.contains_key(id));
        match waits || connection.handshake_until.is_some() {
            true => self.touch(link, now),
            false => self.close_stream(link, now, actions),
        }
    }

    /// Closes a connection.
    pub(super) fn close_stream(&mut self, link: Link, now: Instant, actions: &mut Vec<Action>) {
        if self.links.contains_key(&link) {
            actions.push(Action::Close { link });
            self.lose_stream(link, LinkLoss::Io(io::ErrorKind::TimedOut), now, actions);
        }
    }

    /// Removes a connection. A server may close one at any time: queries in flight on a connection that had
    /// delivered replies are repeated on another (RFC 7766 §6.2.4): once, or as long as tries are left for a
    /// server that has no other transport. Those to an authoritative server that offers encryption, which
    /// queries can do without, go in the clear.
    fn lose_stream(&mut self, link: Link, loss: LinkLoss, now: Instant, actions: &mut Vec<Action>) {
        let Some(LinkUse::Stream(connection)) = self.links.remove(&link) else { return };
        self.drop_timer(Some(connection.idle_at), Timer::Idle(link));
        self.drop_timer(connection.handshake_until, Timer::Handshake(link));
        let loss = match loss {
            LinkLoss::Io(error) if connection.encrypted && !connection.open => LinkLoss::before_open(error),
            loss => loss,
        };
        if let Some(server) = self.servers.get_mut(connection.server) {
            server.connections.retain(|other| *other != link);
            if let LinkLoss::Encryption(fault) = loss {
                server.on_insecure(fault);
            }
        }
        let mut under_way: Vec<TryId> = connection.pending.into_values().collect();
        under_way.sort_unstable();
        for id in under_way {
            let one = self.tries.get(&id).map(|one| (one.steps, one.in_clear.is_some()));
            let Some((steps, falls_back)) = one else { continue };
            let may_repeat = connection.heard.is_some() && (connection.encrypted || !steps.reconnected);
            match may_repeat && !falls_back {
                true => {
                    self.note_loss(id, loss, now);
                    self.replace(id, Steps { reconnected: true, ..steps }, now, actions);
                }
                false => self.broken(id, loss, now, actions),
            }
        }
    }
}
