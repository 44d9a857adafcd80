//! The loop that drives a core: waits for sockets, requests and the core's deadline, reports to the core, and does
//! what it decides.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{Action, Core, Event, Link, NumberMap, wake_together};
use mio::{Events, Poll, Registry, Token, Waker};

use super::desk::{Counts, Desk, Place, Queue, Shared, Sleep, Turned, WorkerLinks};
use super::lanes::{Lane, Lanes, Waiting};
use super::port::Ports;
use super::promptness::Promptness;
use super::socket::{BUFFER, LinkProgress, LinkSocket};

/// The token of the waker; links have the others.
const WAKE: Token = Token(0);
/// Links looked at before those whose queries they answered are told: as many replies as go out with one system call.
const TOGETHER: usize = 64;
/// Requests taken before sockets get their turn.
const REQUESTS: usize = 256;

/// While requests come now and then, the thread sleeps no longer than this, so that nearly none of them has to wake it
/// because of a deadline.
const NAP: Duration = Duration::from_millis(25);
/// So long after the last request the thread sleeps until something happens.
const QUIET: Duration = Duration::from_secs(1);

/// Settings of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingConfig {
    /// Links open at a time; one more is refused with [`io::ErrorKind::QuotaExceeded`]. Default: 4096.
    pub links: usize,
    /// Requests that wait for the core, above which [`Outgoing::offer`] returns the next; but not before twice as many wait if
    /// fewer than a sixteenth are of the same [origin](Core::origin). Default: 1000.
    pub queue: usize,
    /// Whether datagram workers act themselves on the requests that they bring, and wait for the replies beside their
    /// sockets. For cores that are quick about everything. Default: no.
    pub by_workers: bool,
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        OutgoingConfig { links: 4096, queue: 1000, by_workers: false }
    }
}

/// What a driver has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutgoingTotals {
    /// Links opened.
    pub opened: u64,
    /// Links that could not be opened, those beyond the limit among them.
    pub refused: u64,
    /// Links that ended by an error or by the other end.
    pub ended: u64,
    /// Links open now.
    pub open: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
}

/// A core at work on a thread of its own. Dropping it ends the thread, without waiting for what is under way.
pub struct Outgoing<R> {
    requests: Sender<(Lane, R)>,
    /// For those that workers act on themselves, if they do.
    by_workers: Option<Sender<(Lane, R)>>,
    /// Where a request comes from.
    origin: fn(&R) -> u64,
    most: usize,
    shared: Arc<Shared<dyn Desk>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<R: Send + 'static> Outgoing<R> {
    /// Starts a core's thread.
    ///
    /// # Errors
    /// The system's, if it refuses a thread or a descriptor.
    pub fn start<C: Core<Request = R>>(name: &str, core: C, config: &OutgoingConfig) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let (requests, queue) = channel();
        let (by_workers, brought) = channel();
        let counts = Arc::new(Counts::default());
        let driver = Driver {
            core,
            places: vec![WaitingPlace {
                place: Place::THREAD,
                registry: poll.registry().try_clone()?,
                open: Arc::default(),
            }],
            here: 0,
            queue: Line::new(queue),
            brought: Line::new(brought),
            counts: Arc::clone(&counts),
            most: config.links,
            links: NumberMap::default(),
            tokens: NumberMap::default(),
            ports: Ports::new(),
            next: WAKE.0,
            again: VecDeque::new(),
            fresh: VecDeque::new(),
            promptness: Promptness::default(),
            closed: Vec::new(),
            actions: Vec::new(),
            outbox: Vec::new(),
            spare: Vec::new(),
            buffer: vec![0; BUFFER],
            sleep: Sleep::default(),
            last_request: None,
        };
        let shared = Arc::new(Shared {
            waker,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            waiting: Waiting::default(),
            counts,
            driver: Mutex::new(Some(driver)),
        });
        let (theirs, links) = (Arc::clone(&shared), config.links);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _end = End(&theirs);
            // Room for all links: a timer that has run out does so only after all replies that were there before.
            theirs.run(poll, links + 1);
        })?;
        let by_workers = config.by_workers.then_some(by_workers);
        let (origin, most, thread) = (C::origin, config.queue, Mutex::new(Some(thread)));
        Ok(Outgoing { requests, by_workers, origin, most, shared, thread })
    }

    /// Passes a request to the core. Returns whether there is one to take it.
    pub fn request(&self, request: R) -> bool {
        self.pass(self.lane_of(&request), request)
    }

    /// The same, unless too many wait already: then it is returned. If there is no core to take it any more, it is dropped.
    pub fn offer(&self, request: R) -> Option<R> {
        let lane = self.lane_of(&request);
        if !self.shared.waiting.admits(lane, self.most) {
            return Some(request);
        }
        self.pass(lane, request);
        None
    }

    fn lane_of(&self, request: &R) -> Lane {
        self.shared.waiting.lane((self.origin)(request))
    }

    fn pass(&self, lane: Lane, request: R) -> bool {
        let Outgoing { requests, by_workers, .. } = self;
        self.shared.pass(lane, by_workers.is_some(), |queue| match (queue, by_workers) {
            (Queue::Workers, Some(by_workers)) => by_workers.send((lane, request)).is_ok(),
            _ => requests.send((lane, request)).is_ok(),
        })
    }

    /// What has been done so far.
    pub fn totals(&self) -> OutgoingTotals {
        let Counts { opened, refused, ended, open, sent, received } = &*self.shared.counts;
        OutgoingTotals {
            opened: opened.get(),
            refused: refused.get(),
            ended: ended.get(),
            open: open.get(),
            sent: sent.get(),
            received: received.get(),
        }
    }

    /// Ends the thread and waits for that. Links under way are closed without a word to the core.
    pub fn stop(&self) {
        self.shared.tell_stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the core was shown by the panic hook.
            let _ = thread.join();
        }
    }
}

impl<R> Drop for Outgoing<R> {
    fn drop(&mut self) {
        self.shared.tell_stop();
    }
}

/// Drops the core when its thread ends, however it does: whoever waits for an outcome learns by that that none comes.
struct End<'s, C: Core>(&'s Shared<Option<Driver<C>>>);

impl<C: Core> Drop for End<'_, C> {
    fn drop(&mut self) {
        // What is dropped may bring more requests, which find the driver gone and not its lock taken.
        let driver = self.0.driver().take();
        drop(driver);
    }
}

/// Requests on their way to the core.
struct Line<R> {
    come: Receiver<(Lane, R)>,
    lanes: Lanes<R>,
}

impl<R> Line<R> {
    fn new(come: Receiver<(Lane, R)>) -> Self {
        Line { come, lanes: Lanes::default() }
    }

    /// Takes the next request of those that have come by now.
    fn take(&mut self, waiting: &Waiting) -> Option<R> {
        while let Ok((lane, request)) = self.come.try_recv() {
            self.lanes.push(lane, request);
        }
        let (lane, request) = self.lanes.pop()?;
        waiting.remove(lane);
        Some(request)
    }
}

/// A thread that waits for links.
struct WaitingPlace {
    place: Place,
    registry: Registry,
    /// How many.
    open: Arc<AtomicUsize>,
}

/// A link that is open.
struct OpenLink {
    token: Token,
    /// Where it is waited for.
    place: Place,
    /// Whether it is: one whose reply may be there before anybody has to wait is not at first.
    waited_for: bool,
    socket: LinkSocket,
}

/// The core, and all that its decisions are carried out with.
struct Driver<C: Core> {
    core: C,
    /// Where links are waited for: first at the thread, then at workers.
    places: Vec<WaitingPlace>,
    /// Which of them whoever acts at the moment waits at.
    here: usize,
    queue: Line<C::Request>,
    /// What workers have brought and act on themselves.
    brought: Line<C::Request>,
    counts: Arc<Counts>,
    most: usize,
    links: NumberMap<Link, OpenLink>,
    /// Tokens are never used twice, so that news of a socket that is gone finds nobody.
    tokens: NumberMap<Token, Link>,
    ports: Ports,
    next: usize,
    /// Links that have something, or may have more.
    again: VecDeque<Link>,
    /// Links that nobody waits for yet. Whoever has opened one takes another turn, or sees to it that it is waited for.
    fresh: VecDeque<Link>,
    promptness: Promptness,
    /// Sockets of links that are closed, for whoever acts to let go of.
    closed: Vec<LinkSocket>,
    actions: Vec<Action>,
    /// Datagrams of a worker's turn, which leave together at its end: whoever receives them is woken for all of them.
    outbox: Vec<(Link, Vec<u8>)>,
    /// Memory for actions that others lead to.
    spare: Vec<Action>,
    buffer: Vec<u8>,
    sleep: Sleep,
    /// When the last request came.
    last_request: Option<Instant>,
}

impl<C: Core> Desk for Option<Driver<C>> {
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration> {
        self.as_mut().and_then(|driver| driver.lie_down(waiting))
    }

    fn work(&mut self, events: &Events, waiting: &Waiting) {
        self.iter_mut().for_each(|driver| driver.work(events, waiting));
    }

    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool {
        self.as_mut().is_some_and(|driver| driver.act_while_asleep(waiting))
    }

    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned {
        let gone = Turned { gone: true, ..Turned::default() };
        self.as_mut().map_or(gone, |driver| driver.turn(worker, most, waiting))
    }

    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting) {
        if let Some(driver) = self {
            driver.leave(worker, waiting);
        }
    }
}

impl<C: Core> Driver<C> {
    /// The thread is about to sleep; returns for how long.
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration> {
        let now = Instant::now();
        self.here = 0;
        let busy = self.take_requests(1, waiting, now) > 0 || !self.again.is_empty();
        let busy = busy.then_some(now);
        let nap = self.last_request.filter(|last| now.saturating_duration_since(*last) < QUIET);
        let until = [busy, self.core.deadline(), nap.map(|_| now + NAP)].into_iter().flatten().min();
        self.sleep = Sleep::until(until);
        until.map(|until| until.saturating_duration_since(now))
    }

    /// Acts on what is there, a few requests at the most. Returns whether the thread may sleep on.
    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool {
        self.here = 0;
        let taken = self.take_requests(self.sleep.left(), waiting, Instant::now());
        self.sleep.goes_on(taken, self.core.deadline())
    }

    /// A worker's turn: replies first, since they end what requests begin. Requests so wait in their lanes, where one client's do
    /// not hold up another's, and not as replies that nobody reads yet, whose servers would seem slow.
    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned {
        self.here = self.place_of(worker);
        let now = Instant::now();
        // An error leaves no events; whatever is ready is found ready again.
        if worker.open.load(Relaxed) > 0 && worker.poll.poll(&mut worker.events, Some(Duration::ZERO)).is_ok()
        {
            self.note_ready(&worker.events);
        }
        let replies = self.again.len();
        let more = wake_together(|| {
            let prompt = self.hear_fresh(now);
            self.hear(replies, now);
            // Whoever floods a link with replies stops no request for good.
            let most_requests = most.saturating_sub(replies + prompt).max(1);
            let requests = self.take_brought(most_requests, waiting, now);
            self.empty_outbox(now);
            let more = replies + prompt >= most || requests == most_requests || !self.again.is_empty();
            if !more {
                self.wait_for_fresh(now);
            }
            more
        });
        worker.closed.append(&mut self.closed);
        Turned { more, rouse: !self.sleep.ends_by(self.core.deadline()), gone: false }
    }

    /// The number of the place that a worker waits at. If the system does not let it wait, the thread does for it.
    fn place_of(&mut self, worker: &WorkerLinks) -> usize {
        let known = self.places.iter().position(|known| known.place == worker.place);
        known.unwrap_or_else(|| match worker.poll.registry().try_clone() {
            Ok(registry) => {
                let open = Arc::clone(&worker.open);
                self.places.push(WaitingPlace { place: worker.place, registry, open });
                self.places.len() - 1
            }
            Err(_) => 0,
        })
    }

    /// The thread waits from now on for what a worker waited for.
    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting) {
        self.here = 0;
        let now = Instant::now();
        let Driver { links, places, .. } = self;
        let mut refused = Vec::new();
        let theirs = links.iter_mut().filter(|(_, open)| open.place == worker.place);
        for (&link, OpenLink { token, place, waited_for, socket }) in theirs {
            // Whatever is ready already is reported again there.
            let moved = if *waited_for { socket.deregister(worker.poll.registry()) } else { Ok(()) };
            if let Err(error) = moved.and_then(|()| socket.register(&places[0].registry, *token)) {
                refused.push((link, error.kind()));
            }
            *place = Place::THREAD;
            worker.open.fetch_sub(usize::from(*waited_for), Relaxed);
            *waited_for = true;
            places[0].open.fetch_add(1, Relaxed);
        }
        places.retain(|known| known.place != worker.place);
        wake_together(|| {
            self.empty_outbox(now);
            for (link, error) in refused {
                self.end(link, error, now);
                self.act(now);
            }
            // That of others, too: it makes no difference to them.
            self.take_brought(usize::MAX, waiting, now);
        });
    }

    /// Has the core act on requests of workers, so many at the most. Returns how many there were.
    fn take_brought(&mut self, most: usize, waiting: &Waiting, now: Instant) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(request) = self.brought.take(waiting)
        {
            taken += 1;
            self.core.request(request, now, &mut self.actions);
            self.act(now);
        }
        if taken > 0 {
            self.last_request = Some(now);
        }
        taken
    }

    /// Has the core act on requests, so many at the most. Returns how many there were.
    fn take_requests(&mut self, most: usize, waiting: &Waiting, now: Instant) -> usize {
        let mut taken = 0;
        wake_together(|| {
            while taken < most
                && let Some(request) = self.queue.take(waiting)
            {
                taken += 1;
                self.core.request(request, now, &mut self.actions);
            }
            self.act(now);
        });
        if taken > 0 {
            self.last_request = Some(now);
        }
        taken
    }

    /// Acts on everything that has happened.
    fn work(&mut self, events: &Events, waiting: &Waiting) {
        let now = Instant::now();
        self.here = 0;
        self.take_requests(REQUESTS, waiting, now);
        self.note_ready(events);
        let mut left = self.again.len();
        while left > 0 {
            let together = left.min(TOGETHER);
            wake_together(|| self.hear(together, now));
            left -= together;
        }
        if self.core.deadline().is_some_and(|at| at <= now) {
            wake_together(|| {
                self.core.timeout(now, &mut self.actions);
                self.act(now);
            });
        }
    }

    /// Notes which links have something: the system reports it once.
    fn note_ready(&mut self, events: &Events) {
        let fresh = events.iter().filter_map(|event| self.tokens.get(&event.token()).copied());
        let fresh: Vec<Link> = fresh.filter(|link| !self.again.contains(link)).collect();
        self.again.extend(fresh);
    }

    /// Takes what so many links have. Should the core panic, the others are left for later.
    fn hear(&mut self, links: usize, now: Instant) {
        for _ in 0..links {
            let Some(link) = self.again.pop_front() else { return };
            self.ready(link, now);
            self.act(now);
        }
    }

    /// Takes what there is on links that nobody waits for yet; the others are waited for from here on. Returns how many had
    /// something.
    fn hear_fresh(&mut self, now: Instant) -> usize {
        let mut heard = 0;
        for _ in 0..self.fresh.len() {
            let Some(link) = self.fresh.pop_front() else { break };
            let before = self.counts.received.get();
            self.ready(link, now);
            self.act(now);
            let came = self.counts.received.get() > before || !self.links.contains_key(&link);
            self.promptness.note(came);
            heard += usize::from(came);
            self.wait_for(link, now);
        }
        heard
    }

    /// Nobody comes back to look at fresh links before there is something to wake for.
    fn wait_for_fresh(&mut self, now: Instant) {
        while let Some(link) = self.fresh.pop_front() {
            self.wait_for(link, now);
        }
    }

    /// Sees to it that a link is waited for at its place, if it is open.
    fn wait_for(&mut self, link: Link, now: Instant) {
        let Driver { links, places, .. } = self;
        let Some(OpenLink { token, place, waited_for, socket }) = links.get_mut(&link) else { return };
        let Some(known) = places.iter().find(|known| known.place == *place).filter(|_| !*waited_for) else {
            return;
        };
        // What has come already is reported at once.
        match socket.register(&known.registry, *token) {
            Ok(()) => {
                *waited_for = true;
                known.open.fetch_add(1, Relaxed);
            }
            Err(error) => {
                self.end(link, error.kind(), now);
                self.act(now);
            }
        }
    }

    /// Reads and writes what a link is ready for.
    fn ready(&mut self, link: Link, now: Instant) {
        let Driver { core, counts, links, actions, buffer, .. } = self;
        let Some(OpenLink { socket, .. }) = links.get_mut(&link) else { return };
        match socket.opened() {
            Ok(false) => {}
            Ok(true) => core.event(Event::Opened { link }, now, actions),
            Err(error) => return self.end(link, error.kind(), now),
        }
        let mut take = |message: &[u8]| {
            counts.received.add(1);
            let before = actions.len();
            core.event(Event::Message { link, message }, now, actions);
            let closes =
                |action: &Action| matches!(action, Action::Close { link: closed } if *closed == link);
            !actions.get(before..).is_some_and(|new| new.iter().any(closes))
        };
        match socket.ready(buffer, &mut take) {
            Ok(LinkProgress::Waits) => {}
            Ok(LinkProgress::More) => self.again.push_back(link),
            Err(error) => self.end(link, error.kind(), now),
        }
    }

    /// Does everything the core has decided, and what it decides when it hears how that went.
    fn act(&mut self, now: Instant) {
        while !self.actions.is_empty() {
            // What these lead to is collected elsewhere.
            let mut acting = std::mem::replace(&mut self.actions, std::mem::take(&mut self.spare));
            for action in acting.drain(..) {
                let (link, done) = match action {
                    Action::Open { link, transport, to, from } => {
                        (link, self.open(link, transport, to, from))
                    }
                    Action::Send { link, message } => (link, self.send(link, message)),
                    Action::Close { link } => {
                        self.close(link);
                        continue;
                    }
                };
                if let Err(error) = done {
                    self.end(link, error.kind(), now);
                }
            }
            self.spare = acting;
        }
        if self.here == 0 {
            self.closed.clear();
        }
    }

    fn open(
        &mut self,
        link: Link,
        transport: exchange::Transport,
        to: std::net::SocketAddr,
        from: Option<std::net::IpAddr>,
    ) -> io::Result<()> {
        let counts = &self.counts;
        let opened = match self.links.len() < self.most {
            true => LinkSocket::open(transport, to, from, &mut self.ports),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        };
        // Connections outlast a worker's interest.
        let here = &mut self.places[if transport.is_stream() { 0 } else { self.here }];
        // The thread waits for all of its own.
        let waited_for = here.place == Place::THREAD || !self.promptness.expects_reply();
        let registered = opened.and_then(|mut socket| {
            self.next += 1;
            let waits = if waited_for { socket.register(&here.registry, Token(self.next)) } else { Ok(()) };
            waits.map(|()| socket)
        });
        match registered {
            Ok(socket) => {
                counts.opened.add(1);
                counts.open.set(self.links.len() as u64 + 1);
                let (token, place) = (Token(self.next), here.place);
                if waited_for {
                    here.open.fetch_add(1, Relaxed);
                } else {
                    self.fresh.push_back(link);
                }
                self.tokens.insert(token, link);
                self.links.insert(link, OpenLink { token, place, waited_for, socket });
                Ok(())
            }
            Err(e) => {
                counts.refused.add(1);
                Err(e)
            }
        }
    }

    fn send(&mut self, link: Link, message: Vec<u8>) -> io::Result<()> {
        // A link that has ended in the meantime has been reported already.
        let Some(OpenLink { socket, .. }) = self.links.get_mut(&link) else { return Ok(()) };
        if self.here != 0 && socket.is_datagrams() {
            self.outbox.push((link, message));
            return Ok(());
        }
        self.counts.sent.add(1);
        socket.send(&message)
    }

    /// Sends what is to leave together. An error may lead to more of it.
    fn empty_outbox(&mut self, now: Instant) {
        while !self.outbox.is_empty() {
            let mut sending = std::mem::take(&mut self.outbox);
            for (link, message) in sending.drain(..) {
                let Some(OpenLink { socket, .. }) = self.links.get_mut(&link) else { continue };
                self.counts.sent.add(1);
                if let Err(error) = socket.send(&message) {
                    self.end(link, error.kind(), now);
                    self.act(now);
                }
            }
            if self.outbox.is_empty() {
                self.outbox = sending;
                return;
            }
        }
    }

    /// Closes a link and reports it to the core.
    fn end(&mut self, link: Link, error: io::ErrorKind, now: Instant) {
        if self.close(link) {
            self.counts.ended.add(1);
        }
        self.core.event(Event::Ended { link, error }, now, &mut self.actions);
    }

    /// Returns whether it was open.
    fn close(&mut self, link: Link) -> bool {
        let Some(OpenLink { token, place, waited_for, socket }) = self.links.remove(&link) else {
            return false;
        };
        self.tokens.remove(&token);
        if let Some(known) = self.places.iter().find(|known| known.place == place) {
            known.open.fetch_sub(usize::from(waited_for), Relaxed);
        }
        self.closed.push(socket);
        self.counts.open.set(self.links.len() as u64);
        true
    }
}
