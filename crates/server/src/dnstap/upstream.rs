//! Messages to and from other servers: a core between the one that asks them and the sockets, which passes everything on
//! and copies the messages that go by.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use dnstap::DnstapKind;
use exchange::{Action, Core, Event, Link, NumberMap, Transport};
use wire::message::Header;

use super::Dnstap;
use super::frames::Seen;

/// Queries of one link whose time is kept, at the most: a connection has some tens at a time.
const UNANSWERED: usize = 256;

/// A core and whoever copies its messages.
pub struct Tapped<C> {
    core: C,
    tap: Option<Tap>,
}

/// Whoever copies.
struct Tap {
    dnstap: Arc<Dnstap>,
    links: NumberMap<Link, Open>,
}

/// A link that is open.
struct Open {
    transport: Transport,
    to: SocketAddr,
    /// The address that is asked from, where one is configured. Its port only the system knows.
    from: Option<IpAddr>,
    /// ID and time of queries without a response.
    sent: Vec<([u8; 2], Instant)>,
}

impl<C> Tapped<C> {
    /// This core, whose messages are copied if there is dnstap.
    pub fn new(core: C, dnstap: Option<Arc<Dnstap>>) -> Self {
        Tapped { core, tap: dnstap.map(|dnstap| Tap { dnstap, links: NumberMap::default() }) }
    }
}

impl Tap {
    /// Looks at what the core wants done.
    fn actions(&mut self, actions: &[Action], now: Instant) {
        for action in actions {
            match action {
                Action::Open { link, transport, to, from } => {
                    let (transport, to, from) = (*transport, *to, *from);
                    self.links.insert(*link, Open { transport, to, from, sent: Vec::new() });
                }
                Action::Send { link, message } => self.query(*link, message, now),
                Action::Close { link } => drop(self.links.remove(link)),
            }
        }
    }

    fn query(&mut self, link: Link, message: &[u8], now: Instant) {
        let (Some(open), Some(header)) = (self.links.get_mut(&link), Header::of(message)) else { return };
        let kind = match header.recursion_desired() {
            true => DnstapKind::ForwarderQuery,
            false => DnstapKind::ResolverQuery,
        };
        let id = header.id().to_be_bytes();
        if open.sent.len() == UNANSWERED {
            open.sent.remove(0);
        }
        open.sent.push((id, now));
        self.dnstap.of_server(kind, open, message, id, (Some(now), None));
    }

    fn response(&mut self, link: Link, message: &[u8], now: Instant) {
        let (Some(open), Some(header)) = (self.links.get_mut(&link), Header::of(message)) else { return };
        let kind = match header.recursion_desired() {
            true => DnstapKind::ForwarderResponse,
            false => DnstapKind::ResolverResponse,
        };
        let id = header.id().to_be_bytes();
        let place = open.sent.iter().position(|(sent, _)| *sent == id);
        let sent = place.map(|place| open.sent.swap_remove(place).1);
        self.dnstap.of_server(kind, open, message, id, (sent, Some(now)));
    }
}

impl Dnstap {
    fn of_server(
        &self,
        kind: DnstapKind,
        link: &Open,
        message: &[u8],
        id: [u8; 2],
        (query_at, response_at): (Option<Instant>, Option<Instant>),
    ) {
        if !self.wants(kind, id, link.to.port()) {
            return;
        }
        let unix = |at: Option<Instant>| at.map(|at| self.clock.unix(at));
        let (query_at, response_at) = (unix(query_at), unix(response_at));
        let (transport, answers) = (link.transport, link.to);
        let asks = link.from.map(|from| (from, None));
        let seen = || Seen { kind, transport, asks, answers, query_at, response_at, zone_len: 0 };
        self.leave(seen, &[], message);
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
            Event::Ended { link, .. } => Some(*link),
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
    fn saw(&mut self, actions: &[Action], now: Instant) {
        if let Some(tap) = &mut self.tap {
            tap.actions(actions, now);
        }
    }
}
