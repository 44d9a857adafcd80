//! The links of one worker: datagram sockets that the core requested from it, and that no other thread
//! touches. A worker's turn has three parts, of which only the middle one needs the core's lock: it
//! [reads](WorkerLinks::read_links) its links, passes the events to the core, and [carries
//! out](WorkerLinks::carry_out) the core's actions. So system calls, which take most of the time of an
//! upstream query, keep no other worker waiting.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use transport::{Action, Link, NumberMap};

use super::link::DatagramLink;
use super::port::Ports;
use super::predictor::ReplyPredictor;
use super::socket::{BUFFER, is_exhausted};
use super::stock::{SOCKETS_PER_REFILL, Stock};
use crate::ready::Ready;

/// The token of the mailbox; links have the other tokens.
const MAIL: Token = Token(usize::MAX);
/// The most links read in a turn, apart from those opened in the last one.
const LINKS_READ: usize = 32;
/// The most links that a worker waits for by their own descriptors. With so few, that costs less than adding
/// each to the set and reading the set.
const MAX_LINKS_APART: usize = 4;
const _: () = assert!(MAX_LINKS_APART < Ready::MAX_DESCRIPTORS);
/// Index of the set among the descriptors that are waited for; the links apart follow.
const SET: usize = 0;
/// Bytes of the message buffer that stay allocated.
const BUFFER_KEPT_BYTES: usize = 64 * 1024;

/// The thread that waits for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    /// The core's thread.
    pub(super) const THREAD: Place = Place(0);

    /// Returns the place of a new worker.
    fn new() -> Place {
        static LAST: AtomicU64 = AtomicU64::new(Place::THREAD.0);
        Place(LAST.fetch_add(1, Relaxed) + 1)
    }
}

/// Actions of other threads for a worker's links. They are put in and taken out with the core's lock held, so
/// that they stay in order with the actions that the worker gets in its own turns.
pub(super) struct Mailbox {
    actions: Mutex<Vec<Action>>,
    waker: Waker,
}

impl Mailbox {
    /// Adds an action for the worker, and wakes it if it waits.
    pub(super) fn leave(&self, action: Action) {
        let mut actions = self.actions();
        actions.push(action);
        if actions.len() == 1 {
            // If it fails, the worker finds the action in its next turn.
            let _ = self.waker.wake();
        }
    }

    fn actions(&self) -> MutexGuard<'_, Vec<Action>> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event of a link, before the core gets it.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// Its local address; reported only if the core asks for it.
    Bound(SocketAddr),
    /// A message was received; the range of its bytes.
    Message(Range<usize>),
    /// It has ended.
    Ended(io::ErrorKind),
    /// It could not be opened.
    Refused(io::ErrorKind),
}

/// How a worker waits for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitedFor {
    /// Not yet: a reply may arrive before the worker waits at all.
    Not,
    /// By its own descriptor, beside that of the set.
    Apart,
    /// In the set (epoll), which reports it once.
    InSet,
}

/// The links that may be readable.
#[derive(Clone, Copy, Debug)]
enum MaybeReadable {
    /// All links.
    Any,
    /// Those that the last wait reported.
    These(Ready),
}

/// An open link.
struct WorkerLink {
    socket: DatagramLink,
    waited_for: WaitedFor,
    /// The link is in the queue of readable links.
    queued: bool,
}

/// Counts of a worker since it last reported them.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) opened: u64,
    pub(super) refused: u64,
    /// Refused links for which no file descriptor was left.
    pub(super) exhausted: u64,
    pub(super) sent: u64,
}

/// The links of one worker; see the module.
pub(super) struct WorkerLinks {
    place: Place,
    poll: Poll,
    events: Events,
    mail: Arc<Mailbox>,
    open: NumberMap<Link, WorkerLink>,
    /// Links that are readable, or may have more to read.
    again: VecDeque<Link>,
    /// Links that the worker does not wait for yet. If another turn follows at once, it reads them.
    fresh: VecDeque<Link>,
    /// Links with [`WaitedFor::Apart`].
    apart: Vec<Link>,
    /// The descriptors of the set and of the links apart, in this order.
    descriptors: Vec<RawFd>,
    maybe_readable: MaybeReadable,
    predictor: ReplyPredictor,
    ports: Ports,
    /// Events that the core has not received yet.
    heard: VecDeque<(Link, LinkEvent)>,
    /// The bytes of the messages in these events.
    bytes: Vec<u8>,
    buffer: Vec<u8>,
    /// Actions of the core, in their order.
    orders: Vec<Action>,
    /// Datagrams, sent together at the end of a turn: their receiver is woken once for all of them.
    outbox: Vec<(Link, Vec<u8>)>,
    /// Sockets of closed links, which are closed when the answers are sent.
    closed: Vec<DatagramLink>,
    stock: Stock,
    tally: Tally,
    /// Whether the core wants the local addresses of links.
    reports_bound: bool,
}

impl WorkerLinks {
    /// Returns the links of a new worker.
    ///
    /// # Errors
    /// The system's, if it refuses a descriptor.
    pub(super) fn new() -> io::Result<WorkerLinks> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), MAIL)?;
        Ok(WorkerLinks {
            place: Place::new(),
            descriptors: vec![poll.as_raw_fd()],
            poll,
            events: Events::with_capacity(LINKS_READ),
            mail: Arc::new(Mailbox { actions: Mutex::default(), waker }),
            open: NumberMap::default(),
            again: VecDeque::new(),
            fresh: VecDeque::new(),
            apart: Vec::new(),
            maybe_readable: MaybeReadable::Any,
            predictor: ReplyPredictor::default(),
            ports: Ports::new(),
            heard: VecDeque::new(),
            bytes: Vec::new(),
            buffer: vec![0; BUFFER],
            orders: Vec::new(),
            outbox: Vec::new(),
            closed: Vec::new(),
            stock: Stock::default(),
            tally: Tally::default(),
            reports_bound: false,
        })
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mail
    }

    /// Sets whether the local addresses of links opened from now on are reported.
    pub(super) fn report_bound(&mut self, wanted: bool) {
        self.reports_bound = wanted;
    }

    /// Whether any link is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the descriptors that are readable when a link is readable or there is mail.
    pub(super) fn descriptors(&self) -> &[RawFd] {
        &self.descriptors
    }

    /// Marks all links as possibly readable.
    pub(super) fn look(&mut self) {
        self.maybe_readable = MaybeReadable::Any;
    }

    /// Sets which of the [descriptors](Self::descriptors) are readable.
    pub(super) fn set_readable(&mut self, ready: Ready) {
        self.maybe_readable = MaybeReadable::These(ready);
    }

    /// Reads one message from each link: from `most` of the readable ones, but at most [`LINKS_READ`], and
    /// from all that were opened in the last turn. Reads nothing before the core has received the earlier
    /// events: a worker that does not get the lock tries again soon, and would read links in vain that are
    /// about to be closed.
    pub(super) fn read_links(&mut self, most: usize) {
        if self.open.is_empty() || !self.heard.is_empty() {
            return;
        }
        let asks_set = match std::mem::replace(&mut self.maybe_readable, MaybeReadable::Any) {
            MaybeReadable::These(ready) => {
                for (place, link) in self.apart.iter().enumerate() {
                    if ready.has(SET + 1 + place) {
                        queue(*link, &mut self.open, &mut self.again);
                    }
                }
                ready.has(SET)
            }
            MaybeReadable::Any => {
                self.put_into_set();
                true
            }
        };
        // The set is read however many links are left from before: others would never get their turn while
        // these are flooded. An error returns no events; links that are ready are reported again.
        if asks_set && self.poll.poll(&mut self.events, Some(Duration::ZERO)).is_ok() {
            for event in self.events.iter().filter(|event| event.token() != MAIL) {
                queue(Link(event.token().0 as u64), &mut self.open, &mut self.again);
            }
        }
        // These links may have more to read: the next turn reads them again, unless they are closed.
        let ready = self.again.len();
        for _ in 0..self.fresh.len() {
            let Some(link) = self.fresh.pop_front() else { break };
            if self.open.contains_key(&link) {
                let came = self.read(link);
                self.predictor.note(came);
            }
        }
        let mut left = most.min(LINKS_READ);
        for _ in 0..ready {
            if left == 0 {
                break;
            }
            let Some(link) = self.again.pop_front() else { break };
            // A closed link does not count.
            if let Some(WorkerLink { queued, .. }) = self.open.get_mut(&link) {
                *queued = false;
                self.read(link);
                left -= 1;
            }
        }
    }

    /// Reads one message of a link, or waits for the link. Returns whether there was a message or an error.
    fn read(&mut self, link: Link) -> bool {
        let Some(WorkerLink { socket, .. }) = self.open.get_mut(&link) else { return false };
        match socket.receive(&mut self.buffer) {
            Ok(len) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(&self.buffer[..len]);
                self.heard.push_back((link, LinkEvent::Message(start..start + len)));
                queue(link, &mut self.open, &mut self.again);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.wait_for(link);
                    return false;
                }
                io::ErrorKind::Interrupted => queue(link, &mut self.open, &mut self.again),
                kind => self.over(link, LinkEvent::Ended(kind)),
            },
        }
        true
    }

    /// Makes sure that a wait ends when the link is readable.
    fn wait_for(&mut self, link: Link) {
        let few = self.open.len() <= MAX_LINKS_APART;
        let Some(WorkerLink { socket, waited_for, .. }) = self.open.get_mut(&link) else { return };
        match waited_for {
            WaitedFor::Not if few => {
                *waited_for = WaitedFor::Apart;
                self.descriptors.push(socket.descriptor());
                self.apart.push(link);
            }
            WaitedFor::Not => self.register(link),
            WaitedFor::Apart | WaitedFor::InSet => {}
        }
    }

    /// Moves the links apart into the set: no wait has reported whether they are readable.
    fn put_into_set(&mut self) {
        self.descriptors.truncate(SET + 1);
        while let Some(link) = self.apart.pop() {
            self.register(link);
        }
    }

    /// Puts a link into the set.
    fn register(&mut self, link: Link) {
        let Some(WorkerLink { socket, waited_for, .. }) = self.open.get_mut(&link) else { return };
        // A message that has arrived already is reported at once.
        match socket.register(self.poll.registry(), Token(link.0 as usize)) {
            Ok(()) => *waited_for = WaitedFor::InSet,
            Err(error) => self.over(link, LinkEvent::Ended(error.kind())),
        }
    }

    /// Closes a link that has ended; the core gets the event in the next turn.
    fn over(&mut self, link: Link, heard: LinkEvent) {
        self.close(link);
        self.heard.push_back((link, heard));
    }

    /// Closes a link. Its socket is closed later.
    fn close(&mut self, link: Link) {
        let Some(WorkerLink { socket, waited_for, .. }) = self.open.remove(&link) else { return };
        self.closed.push(socket);
        if waited_for == WaitedFor::Apart
            && let Some(place) = self.apart.iter().position(|apart| *apart == link)
        {
            self.apart.swap_remove(place);
            self.descriptors.swap_remove(SET + 1 + place);
        }
    }

    /// Returns the counts since the last call.
    pub(super) fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Returns the next event for the core.
    pub(super) fn next_heard(&mut self) -> Option<(Link, LinkEvent)> {
        let next = self.heard.pop_front();
        if next.is_none() {
            self.bytes.clear();
            self.bytes.shrink_to(BUFFER_KEPT_BYTES);
        }
        next
    }

    /// The bytes of a received message.
    pub(super) fn message(&self, at: &Range<usize>) -> &[u8] {
        &self.bytes[at.clone()]
    }

    /// Takes the actions from the mailbox, before any later ones. The caller holds the core's lock.
    pub(super) fn take_mail(&mut self) {
        self.orders.append(&mut self.mail.actions());
    }

    /// Queues an action of the core for a datagram link of this worker, to be [carried out](Self::carry_out).
    pub(super) fn order(&mut self, action: Action) {
        self.orders.push(action);
    }

    /// Carries out the core's actions. `goes_on`: another turn follows at once. Returns whether another turn
    /// must follow at once.
    pub(super) fn carry_out(&mut self, goes_on: bool) -> bool {
        let mut orders = std::mem::take(&mut self.orders);
        for action in orders.drain(..) {
            match action {
                Action::Open { link, to, from, .. } => match self.open_link(to, from) {
                    Ok(socket) => self.take_in(link, socket),
                    Err(error) => {
                        self.tally.refused += 1;
                        self.tally.exhausted += u64::from(is_exhausted(&error));
                        self.heard.push_back((link, LinkEvent::Refused(error.kind())));
                    }
                },
                Action::Send { link, message } => self.outbox.push((link, message)),
                // A worker has datagram links only.
                Action::Cancel { .. } | Action::Resume { .. } => {}
                Action::Close { link } => self.close(link),
            }
        }
        self.orders = orders;
        self.empty_outbox();
        let Self { open, again, .. } = self;
        // Links that are closed matter only if there is nothing else in the queue.
        if again.len() <= 2 * LINKS_READ {
            again.retain(|link| open.contains_key(link));
        }
        let goes_on = goes_on || !self.again.is_empty() || !self.heard.is_empty();
        if !goes_on {
            self.wait_for_fresh();
        }
        goes_on || !self.heard.is_empty()
    }

    /// Opens a link's socket. If descriptors run out, first closes the sockets in stock and those of closed
    /// links.
    fn open_link(&mut self, to: SocketAddr, from: Option<IpAddr>) -> io::Result<DatagramLink> {
        let socket = match self.stock.take(to) {
            Err(error) if is_exhausted(&error) => {
                self.stock.clear();
                self.closed.clear();
                self.stock.take(to)?
            }
            taken => taken?,
        };
        DatagramLink::open(socket, to, from, &mut self.ports)
    }

    fn take_in(&mut self, link: Link, socket: DatagramLink) {
        self.tally.opened += 1;
        if self.reports_bound {
            self.heard.extend(socket.local().map(|local| (link, LinkEvent::Bound(local))));
        }
        self.open.insert(link, WorkerLink { socket, waited_for: WaitedFor::Not, queued: false });
        match self.predictor.expects_reply() {
            true => self.fresh.push_back(link),
            false => self.wait_for(link),
        }
    }

    fn empty_outbox(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for (link, message) in outbox.drain(..) {
            // A link that has ended in the meantime has been reported already.
            let Some(WorkerLink { socket, .. }) = self.open.get_mut(&link) else { continue };
            self.tally.sent += 1;
            if let Err(error) = socket.send(&message) {
                self.over(link, LinkEvent::Ended(error.kind()));
            }
        }
        self.outbox = outbox;
    }

    /// Waits for the fresh links: no turn reads them before an event wakes the worker.
    fn wait_for_fresh(&mut self) {
        while let Some(link) = self.fresh.pop_front() {
            self.wait_for(link);
        }
    }

    /// Removes and returns all links, for another thread. Its poll reports again which are readable.
    pub(super) fn give_away(&mut self) -> Vec<(Link, DatagramLink)> {
        self.again.clear();
        self.fresh.clear();
        self.apart.clear();
        self.descriptors.truncate(SET + 1);
        let mut given = Vec::new();
        for (link, WorkerLink { mut socket, waited_for, .. }) in self.open.drain() {
            let moved = match waited_for {
                WaitedFor::InSet => socket.deregister(self.poll.registry()),
                WaitedFor::Not | WaitedFor::Apart => Ok(()),
            };
            match moved {
                Ok(()) => given.push((link, socket)),
                Err(error) => self.heard.push_back((link, LinkEvent::Ended(error.kind()))),
            }
        }
        given
    }

    /// Drops all links and events, since the core has ended.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.again.clear();
        self.fresh.clear();
        self.apart.clear();
        self.descriptors.truncate(SET + 1);
        self.heard.clear();
        self.bytes.clear();
        self.orders.clear();
        self.mail.actions().clear();
    }

    /// Closes the sockets of closed links and opens new ones, once there are enough: in a row each takes the
    /// kernel less time.
    pub(super) fn tidy(&mut self) {
        if self.closed.len() >= SOCKETS_PER_REFILL {
            self.closed.clear();
            self.stock.fill();
        }
    }

    /// Closes the sockets of closed links.
    pub(super) fn idle(&mut self) {
        self.closed.clear();
    }
}

/// Adds a link to the queue of readable links, unless it is in it.
fn queue(link: Link, open: &mut NumberMap<Link, WorkerLink>, again: &mut VecDeque<Link>) {
    if let Some(WorkerLink { queued: queued @ false, .. }) = open.get_mut(&link) {
        *queued = true;
        again.push_back(link);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::UdpSocket;

    use transport::Transport;

    use super::*;
    use crate::alarm::{Alarm, NOTHING, Wait};

    fn other() -> (UdpSocket, SocketAddr) {
        let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        other.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket takes it");
        let address = other.local_addr().expect("it has one");
        (other, address)
    }

    fn ask(links: &mut WorkerLinks, link: u64, to: SocketAddr) {
        let link = Link(link);
        links.order(Action::Open { link, transport: Transport::Udp, to, from: None, encryption: None });
        links.order(Action::Send { link, message: link.0.to_be_bytes().to_vec() });
    }

    /// Reads links until there is an event, and returns all events.
    fn heard(links: &mut WorkerLinks) -> Vec<(u64, Result<Vec<u8>, io::ErrorKind>)> {
        let mut all = Vec::new();
        while all.is_empty() {
            links.read_links(LINKS_READ);
            while let Some((link, heard)) = links.next_heard() {
                all.push(match heard {
                    LinkEvent::Bound(local) => panic!("{local}: not wanted"),
                    LinkEvent::Message(at) => (link.0, Ok(links.message(&at).to_vec())),
                    LinkEvent::Ended(error) | LinkEvent::Refused(error) => (link.0, Err(error)),
                });
            }
            links.carry_out(false);
        }
        all
    }

    #[test]
    fn nothing_is_sent_on_a_link_that_is_closed_in_the_same_turn() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        ask(&mut links, 1, to);
        links.order(Action::Close { link: Link(1) });
        ask(&mut links, 2, to);
        assert!(!links.carry_out(false));
        let mut message = [0; 8];
        other.recv(&mut message).expect("the second one's");
        assert_eq!((message, links.open.len(), links.closed.len()), (2u64.to_be_bytes(), 1, 1));
        assert_eq!(links.take_tally().sent, 1);
    }

    #[test]
    fn a_link_that_cannot_be_opened_is_heard_of_in_the_next_turn_which_follows_at_once() {
        let ((_other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        let from = Some([192, 0, 2, 1].into());
        links.order(Action::Open { link: Link(1), transport: Transport::Udp, to, from, encryption: None });
        assert!(links.carry_out(false));
        assert!(matches!(
            links.next_heard(),
            Some((Link(1), LinkEvent::Refused(io::ErrorKind::AddrNotAvailable)))
        ));
        assert_eq!((links.take_tally().refused, links.is_open()), (1, false));
    }

    /// Waits until links are readable.
    fn wait(links: &mut WorkerLinks) -> Ready {
        let alarm = Alarm::new().expect("a descriptor");
        let wait = Wait { alarm: &alarm, links: links.descriptors(), at_most: None };
        let woken = wait.beside(NOTHING, Duration::from_secs(20));
        links.set_readable(woken.links);
        woken.links
    }

    #[test]
    fn few_links_are_waited_for_by_their_own_descriptors() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        (1..=2).for_each(|link| ask(&mut links, link, to));
        links.carry_out(false);
        let from: Vec<SocketAddr> = (0..2).map(|_| other.recv_from(&mut [0; 8]).expect("both").1).collect();
        assert_eq!((links.descriptors().len(), links.apart.as_slice()), (3, &[Link(1), Link(2)][..]));
        other.send_to(b"reply", from[1]).expect("it is sent");
        let ready = wait(&mut links);
        assert!(!ready.has(SET) && !ready.has(1) && ready.has(2), "{ready:?}");
        links.read_links(LINKS_READ);
        assert_eq!(links.next_heard().map(|(link, _)| link), Some(Link(2)));
        links.order(Action::Close { link: Link(2) });
        links.carry_out(false);
        assert_eq!((links.descriptors().len(), links.apart.as_slice()), (2, &[Link(1)][..]));
        other.send_to(b"reply", from[0]).expect("it is sent");
        assert!(wait(&mut links).has(1));
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
    }

    #[test]
    fn many_links_are_waited_for_in_the_set() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        let all = MAX_LINKS_APART as u64 + 2;
        (1..=all).for_each(|link| ask(&mut links, link, to));
        links.carry_out(false);
        let from: Vec<SocketAddr> =
            (0..all).map(|_| other.recv_from(&mut [0; 8]).expect("all are sent").1).collect();
        assert!(links.descriptors().len() <= 1 + MAX_LINKS_APART, "{:?}", links.descriptors());
        other.send_to(b"reply", from[from.len() - 1]).expect("it is sent");
        assert!(wait(&mut links).has(SET));
        assert_eq!(heard(&mut links), [(all, Ok(b"reply".to_vec()))]);
    }

    #[test]
    fn links_that_no_wait_has_asked_are_found_all_the_same() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        ask(&mut links, 1, to);
        links.carry_out(false);
        let (_, from) = other.recv_from(&mut [0; 8]).expect("it is sent");
        assert_eq!(links.descriptors().len(), 2);
        links.look();
        links.read_links(LINKS_READ);
        assert_eq!((links.descriptors().len(), links.heard.len()), (1, 0), "it is in the set from here on");
        other.send_to(b"reply", from).expect("it is sent");
        assert!(wait(&mut links).has(SET));
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
    }

    #[test]
    fn sockets_are_closed_and_opened_in_bunches_and_each_link_has_one_of_its_own() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        let (mut ports, mut sockets) = (HashSet::new(), Vec::new());
        for link in 1..=3 * SOCKETS_PER_REFILL as u64 {
            ask(&mut links, link, to);
            links.carry_out(false);
            ports.insert(other.recv_from(&mut [0; 8]).expect("it is sent").1.port());
            links.order(Action::Close { link: Link(link) });
            links.carry_out(false);
            links.tidy();
            sockets.push(links.closed.len());
        }
        assert_eq!(sockets[..SOCKETS_PER_REFILL + 2], [1, 2, 3, 4, 5, 6, 7, 0, 1, 2]);
        // Two random ports are equal now and then.
        assert!(ports.len() >= 3 * SOCKETS_PER_REFILL - 2, "{ports:?}");
        ask(&mut links, 0, to);
        links.order(Action::Close { link: Link(0) });
        links.carry_out(false);
        assert_eq!(links.closed.len(), 1);
        links.idle();
        assert_eq!(links.closed.len(), 0);
    }

    #[test]
    fn where_a_link_sends_from_is_reported_before_what_comes_on_it_and_only_if_that_is_wanted() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        links.report_bound(true);
        ask(&mut links, 1, to);
        assert!(links.carry_out(false), "the next turn follows at once");
        let (_, from) = other.recv_from(&mut [0; 8]).expect("it is sent");
        other.send_to(b"reply", from).expect("it is sent");
        let Some((Link(1), LinkEvent::Bound(local))) = links.next_heard() else { panic!("not reported") };
        assert_eq!((local, links.next_heard().is_none()), (from, true));
        links.report_bound(false);
        ask(&mut links, 2, to);
        links.carry_out(false);
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
    }

    #[test]
    fn a_worker_that_was_kept_out_looked_again_at_links_whose_replies_it_had() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        ask(&mut links, 1, to);
        links.carry_out(true);
        let (_, from) = other.recv_from(&mut [0; 8]).expect("it is sent");
        (0..2).for_each(|_| assert!(other.send_to(b"reply", from).is_ok()));
        while links.heard.is_empty() {
            links.read_links(LINKS_READ);
        }
        links.read_links(LINKS_READ);
        assert_eq!((links.heard.len(), links.again.len()), (1, 1));
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
    }

    #[test]
    fn what_many_links_have_is_heard_a_few_at_a_time_and_none_is_passed_over() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        (1..=20).for_each(|link| ask(&mut links, link, to));
        links.carry_out(false);
        for _ in 0..20 {
            let (_, from) = other.recv_from(&mut [0; 8]).expect("all are sent");
            other.send_to(b"reply", from).expect("it is sent");
        }
        let mut heard = Vec::new();
        while heard.len() < 20 {
            links.read_links(4);
            assert!(links.heard.len() <= 4, "{} at a time", links.heard.len());
            while let Some((link, _)) = links.next_heard() {
                heard.push(link.0);
            }
            links.carry_out(true);
        }
        heard.sort_unstable();
        assert_eq!(heard, Vec::from_iter(1..=20));
    }

    #[test]
    fn a_flood_on_one_link_leaves_the_others_their_turn() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        (1..=2).for_each(|link| ask(&mut links, link, to));
        links.carry_out(false);
        let from: Vec<SocketAddr> = (0..2).map(|_| other.recv_from(&mut [0; 8]).expect("both").1).collect();
        (0..100).for_each(|_| assert!(other.send_to(b"flood", from[0]).is_ok()));
        other.send_to(b"reply", from[1]).expect("it is sent");
        let mut turns = 0;
        let came = loop {
            let heard = heard(&mut links);
            assert!(heard.len() <= 2, "{heard:?}");
            turns += heard.len();
            if let Some((_, came)) = heard.into_iter().find(|(link, _)| *link == 2) {
                break came;
            }
        };
        assert_eq!(came, Ok(b"reply".to_vec()));
        assert!(turns <= 8, "{turns}");
    }

    #[test]
    fn floods_on_many_links_kept_others_from_ever_being_heard() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        (1..=9).for_each(|link| ask(&mut links, link, to));
        links.carry_out(false);
        let from: Vec<SocketAddr> = (0..9).map(|_| other.recv_from(&mut [0; 8]).expect("all").1).collect();
        for from in &from[..8] {
            (0..50).for_each(|_| assert!(other.send_to(b"flood", from).is_ok()));
        }
        // All of the flood arrives before the reply.
        links.read_links(2);
        other.send_to(b"reply", from[8]).expect("it is sent");
        let mut turns = 0;
        while !std::iter::from_fn(|| links.next_heard()).any(|(link, _)| link == Link(9)) {
            links.carry_out(true);
            links.read_links(2);
            turns += 1;
            assert!(turns < 20, "it waits behind {turns} turns");
        }
    }

    #[test]
    fn mail_is_carried_out_before_what_the_core_decides_after_it() {
        let ((other, to), mut links) = (other(), WorkerLinks::new().expect("descriptors"));
        ask(&mut links, 1, to);
        links.carry_out(false);
        // Another thread closed it, and the number is used again here.
        links.mailbox().leave(Action::Close { link: Link(1) });
        links.take_mail();
        ask(&mut links, 1, to);
        links.carry_out(false);
        assert_eq!((links.open.len(), links.closed.len()), (1, 1));
        other.recv(&mut [0; 8]).expect("the first one's");
        let (_, from) = other.recv_from(&mut [0; 8]).expect("the second one's");
        other.send_to(b"reply", from).expect("it is sent");
        assert_eq!(heard(&mut links), [(1, Ok(b"reply".to_vec()))]);
    }
}
