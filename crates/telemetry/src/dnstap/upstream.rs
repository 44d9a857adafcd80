//! Copies messages to and from other servers: a core between the resolver's core and the sockets, which
//! passes everything on. The socket of a link is opened after the core has decided to send a query on it, so
//! the copy of the query waits until its source address and port are known.
//!
//! The driver reports the address and port of each link for that purpose (`Core::bound`).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use dnstap::DnstapKind;
use transport::{Action, Core, Event, Link, NumberMap, Transport};
use wire::message::Header;

use super::Dnstap;
use super::frames::Seen;

/// Largest number of outstanding queries per link whose time is stored: a connection has some tens at a time.
const MAX_OUTSTANDING: usize = 256;

/// A core whose messages are copied.
pub struct Tapped<C> {
    core: C,
    tap: Option<Tap>,
}

/// Copies the messages of a core.
struct Tap {
    dnstap: Arc<Dnstap>,
    links: NumberMap<Link, Open>,
}

/// An open link.
struct Open {
    transport: Transport,
    to: SocketAddr,
    /// The source address, if one is configured.
    from: Option<IpAddr>,
    local: Local,
    /// ID and time of outstanding queries.
    sent: Vec<([u8; 2], Instant)>,
}

/// The local address and port of a link.
enum Local {
    /// Not reported yet. Copies of queries wait for it.
    Awaited(Vec<(Vec<u8>, Instant)>),
    /// Not requested when the link was opened.
    Unknown,
    /// The reported address.
    Known(SocketAddr),
}

impl Open {
    /// Returns the source address, and the port if it is known.
    fn asks(&self) -> Option<(IpAddr, Option<u16>)> {
        match self.local {
            Local::Known(local) => Some((local.ip(), Some(local.port()))),
            Local::Awaited(_) | Local::Unknown => self.from.map(|from| (from, None)),
        }
    }
}

impl<C> Tapped<C> {
    /// Wraps a core; its messages are copied if `dnstap` is given.
    pub fn new(core: C, dnstap: Option<Arc<Dnstap>>) -> Self {
        Tapped { core, tap: dnstap.map(|dnstap| Tap { dnstap, links: NumberMap::default() }) }
    }
}

impl Tap {
    /// Processes the core's actions.
    fn actions(&mut self, actions: &[Action], now: Instant) {
        for action in actions {
            match action {
                Action::Open { link, transport, to, from, .. } => {
                    let (transport, to, from) = (*transport, *to, *from);
                    let local = match self.dnstap.wants_upstream() {
                        true => Local::Awaited(Vec::new()),
                        false => Local::Unknown,
                    };
                    self.links.insert(*link, Open { transport, to, from, local, sent: Vec::new() });
                }
                Action::Send { link, message } => self.send(*link, message, now),
                Action::Cancel { .. } | Action::Resume { .. } => {}
                Action::Close { link } => {
                    // Queries that still wait have been sent, or are lost with the link.
                    self.know(*link, Local::Unknown);
                    self.links.remove(link);
                }
            }
        }
    }

    /// Handles a query that is sent on a link.
    fn send(&mut self, link: Link, message: &[u8], now: Instant) {
        match self.links.get_mut(&link).map(|open| &mut open.local) {
            Some(Local::Awaited(waiting)) => waiting.push((message.to_vec(), now)),
            Some(_) => self.query(link, message, now),
            None => {}
        }
    }

    /// Sets the local address of a link, or that it is unknown; then copies the queries that waited for it.
    fn know(&mut self, link: Link, local: Local) {
        let Some(open) = self.links.get_mut(&link) else { return };
        if let Local::Awaited(waiting) = std::mem::replace(&mut open.local, local) {
            waiting.iter().for_each(|(message, at)| self.query(link, message, *at));
        }
    }

    fn query(&mut self, link: Link, message: &[u8], now: Instant) {
        let (Some(open), Some(header)) = (self.links.get_mut(&link), Header::of(message)) else { return };
        let kind = match header.recursion_desired() {
            true => DnstapKind::ForwarderQuery,
            false => DnstapKind::ResolverQuery,
        };
        let id = header.id().to_be_bytes();
        if open.sent.len() == MAX_OUTSTANDING {
            open.sent.remove(0);
        }
        open.sent.push((id, now));
        self.dnstap.of_server(
            kind,
            open,
            message,
            id,
            MessageTimes { query_at: Some(now), response_at: None },
        );
    }

    fn response(&mut self, link: Link, message: &[u8], now: Instant) {
        if self.links.get(&link).is_some_and(|open| matches!(open.local, Local::Awaited(_))) {
            self.know(link, Local::Unknown);
        }
        let (Some(open), Some(header)) = (self.links.get_mut(&link), Header::of(message)) else { return };
        let kind = match header.recursion_desired() {
            true => DnstapKind::ForwarderResponse,
            false => DnstapKind::ResolverResponse,
        };
        let id = header.id().to_be_bytes();
        let place = open.sent.iter().position(|(sent, _)| *sent == id);
        let sent = place.map(|place| open.sent.swap_remove(place).1);
        self.dnstap.of_server(
            kind,
            open,
            message,
            id,
            MessageTimes { query_at: sent, response_at: Some(now) },
        );
    }
}

/// The kinds of messages to and from other servers.
const UPSTREAM: [DnstapKind; 4] = [
    DnstapKind::ForwarderQuery,
    DnstapKind::ForwarderResponse,
    DnstapKind::ResolverQuery,
    DnstapKind::ResolverResponse,
];

/// When a query was sent and its response received, if known.
#[derive(Clone, Copy)]
struct MessageTimes {
    query_at: Option<Instant>,
    response_at: Option<Instant>,
}

impl Dnstap {
    /// Returns whether any message to or from other servers is copied.
    fn wants_upstream(&self) -> bool {
        UPSTREAM.iter().any(|kind| self.is_selected(*kind))
    }

    fn of_server(&self, kind: DnstapKind, link: &Open, message: &[u8], id: [u8; 2], times: MessageTimes) {
        if !self.wants(kind, id, link.to.port()) {
            return;
        }
        let unix = |at: Option<Instant>| at.map(|at| self.clock.unix(at));
        let (query_at, response_at) = (unix(times.query_at), unix(times.response_at));
        let (transport, answers) = (link.transport, link.to);
        let asks = link.asks();
        let seen = || Seen {
            kind,
            transport,
            asks,
            answers,
            query_at,
            response_at,
            zone_len: 0,
            view_len: 0,
            rule: None,
        };
        self.leave(seen, [&[], &[]], message);
    }
}

impl<C: Core> Core for Tapped<C> {
    type Request = C::Request;

    fn origin(request: &C::Request) -> u64 {
        C::origin(request)
    }

    fn request(&mut self, request: C::Request, now: Instant, actions: &mut Vec<Action>) {
        let before = actions.len();
        self.core.request(request, now, actions);
        self.saw(&actions[before..], now);
    }

    fn event(&mut self, event: Event<'_>, now: Instant, actions: &mut Vec<Action>) {
        let ended = match &event {
            Event::Ended { link, .. } | Event::Insecure { link, .. } => Some(*link),
            _ => None,
        };
        if let (Some(tap), Event::Message { link, message }) = (&mut self.tap, &event) {
            tap.response(*link, message, now);
        }
        let before = actions.len();
        self.core.event(event, now, actions);
        if let (Some(tap), Some(link)) = (&mut self.tap, ended) {
            tap.links.remove(&link);
        }
        self.saw(&actions[before..], now);
    }

    fn wants_bound(&self) -> bool {
        self.tap.as_ref().is_some_and(|tap| tap.dnstap.wants_upstream())
    }

    fn bound(&mut self, link: Link, local: SocketAddr) {
        if let Some(tap) = &mut self.tap {
            tap.know(link, Local::Known(local));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.core.deadline()
    }

    fn timeout(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let before = actions.len();
        self.core.timeout(now, actions);
        self.saw(&actions[before..], now);
    }
}

impl<C> Tapped<C> {
    /// Processes the core's actions if there is dnstap.
    fn saw(&mut self, actions: &[Action], now: Instant) {
        if let Some(tap) = &mut self.tap {
            tap.actions(actions, now);
        }
    }
}
