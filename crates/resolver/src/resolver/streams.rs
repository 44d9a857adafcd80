//! Connections to servers: many queries in flight on each, kept until idle (RFC 7766 §6.2).

use std::collections::HashMap;
use std::io;
use std::time::Instant;

use transport::{Action, Link, Transport};

use super::Resolver;
use super::state::{Carrier, Connection, LinkUse, Steps, Timer, TryId};
use crate::random::Random;
use crate::request::LookupSink;
use crate::servers::ServerId;
use crate::trace::TraceEvent;

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
        actions.push(Action::Open { link, transport: Transport::Tcp, to, from });
        let idle_at = now + self.config.timing.tcp_idle;
        let connection = Connection {
            server: place,
            open: false,
            pending: HashMap::new(),
            heard: None,
            idle_at,
            suspect: false,
        };
        self.links.insert(link, LinkUse::Stream(connection));
        self.set_timer(idle_at, Timer::Idle(link));
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

    /// Handles a query sent at `sent` that timed out. If nothing arrived since, the connection may be dead,
    /// and the next query opens another.
    pub(super) fn suspect(&mut self, link: Link, sent: Instant) {
        let Some(LinkUse::Stream(connection)) = self.links.get_mut(&link) else { return };
        if connection.heard.is_none_or(|heard| heard <= sent) {
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
                self.broken(id, error, now, actions);
            }
            Some(LinkUse::Stream(_)) => self.lose_stream(link, error, now, actions),
            None => {}
        }
    }

    /// Closes an idle connection.
    pub(super) fn close_stream(&mut self, link: Link, now: Instant, actions: &mut Vec<Action>) {
        if self.links.contains_key(&link) {
            actions.push(Action::Close { link });
            self.lose_stream(link, io::ErrorKind::TimedOut, now, actions);
        }
    }

    /// Removes a connection. A server may close one at any time: queries in flight on a connection that had
    /// delivered replies are repeated on another (RFC 7766 §6.2.4).
    fn lose_stream(&mut self, link: Link, error: io::ErrorKind, now: Instant, actions: &mut Vec<Action>) {
        let Some(LinkUse::Stream(connection)) = self.links.remove(&link) else { return };
        self.drop_timer(Some(connection.idle_at), Timer::Idle(link));
        if let Some(server) = self.servers.get_mut(connection.server) {
            server.connections.retain(|other| *other != link);
        }
        let mut under_way: Vec<TryId> = connection.pending.into_values().collect();
        under_way.sort_unstable();
        for id in under_way {
            let Some(steps) = self.tries.get(&id).map(|one| one.steps) else { continue };
            match connection.heard.is_some() && !steps.reconnected {
                true => {
                    let broke = |server, transport, _: &_| TraceEvent::Broke { server, transport, error };
                    self.note_of(id, now, broke);
                    self.replace(id, Steps { reconnected: true, ..steps }, now, actions);
                }
                false => self.broken(id, error, now, actions),
            }
        }
    }
}
