//! The loop that drives a core: waits for sockets, requests and the core's deadline, passes events to the
//! core, and carries out its actions.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Registry, Token, Waker};
use transport::{Action, Core, EncryptionFault, Event, Link, NumberMap, StreamedEvent, wake_together};

use super::client_queues::{ClientQueue, ClientQueues, Waiting};
use super::link::LinkProgress;
use super::links::{LinkEvent, Mailbox, Place, Tally, WorkerLinks};
use super::port::Ports;
use super::secured::encryption_fault;
use super::shared_driver::{OutgoingCounts, Queue, Shared, SharedDriver, Sleep, Turned};
use super::socket::{BUFFER, LinkSocket, OpeningStep, is_exhausted};
use super::streamed::StreamedLink;

/// The token of the waker; links have the other tokens.
const WAKE: Token = Token(0);
/// Links read before the workers whose queries they answer are woken: as many as the replies that one system
/// call sends.
const LINKS_PER_WAKE: usize = 64;
/// Most requests taken before sockets are read.
const REQUESTS_BEFORE_READS: usize = 256;

/// Longest sleep while requests come now and then, so that nearly no request has to wake the thread because
/// of a deadline.
const MAX_NAP: Duration = Duration::from_millis(25);
/// Time after the last request from which on the thread sleeps until an event.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Settings of a driver.
#[derive(Clone, Debug)]
pub struct OutgoingConfig {
    /// Most open links; one more is refused with [`io::ErrorKind::QuotaExceeded`]. Default: 4096.
    pub links: usize,
    /// Requests waiting for the core, above which [`Outgoing::offer`] returns the next; up to twice as many
    /// may wait if fewer than a sixteenth are of the same [origin](Core::origin). Default: 1000.
    pub queue: usize,
    /// Whether datagram workers drive the core for their own requests, and wait for the replies beside their
    /// sockets. For cores that are quick about everything. Default: no.
    pub by_workers: bool,
    /// What the thread calls first. Default: nothing.
    pub on_start: fn(),
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        OutgoingConfig { links: 4096, queue: 1000, by_workers: false, on_start: || () }
    }
}

/// A core on a thread of its own. Dropping it stops the thread without waiting for it.
pub struct Outgoing<R> {
    requests: Sender<(ClientQueue, R)>,
    /// The queue of requests that workers act on themselves, if they do.
    by_workers: Option<Sender<(ClientQueue, R)>>,
    /// Returns the origin of a request.
    origin: fn(&R) -> u64,
    most: usize,
    shared: Arc<Shared<dyn SharedDriver>>,
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
        let counts = Arc::new(OutgoingCounts::default());
        let driver = Driver {
            core,
            registry: poll.registry().try_clone()?,
            workers: Vec::new(),
            queue: RequestQueue::new(queue),
            brought: RequestQueue::new(brought),
            counts: Arc::clone(&counts),
            most: config.links,
            links: NumberMap::default(),
            tokens: NumberMap::default(),
            timed: Vec::new(),
            ports: Ports::new(),
            next: WAKE.0,
            again: VecDeque::new(),
            actions: Vec::new(),
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
        let (theirs, links, on_start) = (Arc::clone(&shared), config.links, config.on_start);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _end = End(&theirs);
            on_start();
            // Capacity for all links: a timeout is handled only after all replies that arrived before it.
            theirs.run(poll, links + 1);
        })?;
        let by_workers = config.by_workers.then_some(by_workers);
        let (origin, most, thread) = (C::origin, config.queue, Mutex::new(Some(thread)));
        Ok(Outgoing { requests, by_workers, origin, most, shared, thread })
    }

    /// Passes a request to the core. Returns whether the core still exists.
    pub fn request(&self, request: R) -> bool {
        self.pass(self.queue_of(&request), request)
    }

    /// Passes a request to the core, or returns it if too many wait already. If the core has ended, the
    /// request is dropped.
    pub fn offer(&self, request: R) -> Option<R> {
        let client_queue = self.queue_of(&request);
        if !self.shared.waiting.admits(client_queue, self.most) {
            return Some(request);
        }
        self.pass(client_queue, request);
        None
    }

    fn queue_of(&self, request: &R) -> ClientQueue {
        self.shared.waiting.client_queue((self.origin)(request))
    }

    fn pass(&self, client_queue: ClientQueue, request: R) -> bool {
        let Outgoing { requests, by_workers, .. } = self;
        self.shared.pass(client_queue, by_workers.is_some(), |queue| match (queue, by_workers) {
            (Queue::Workers, Some(by_workers)) => by_workers.send((client_queue, request)).is_ok(),
            _ => requests.send((client_queue, request)).is_ok(),
        })
    }

    /// Returns the counters, which any thread may read.
    pub fn counts(&self) -> &OutgoingCounts {
        &self.shared.counts
    }

    /// Stops the thread and waits for its end. Open links are closed without an event to the core.
    pub fn stop(&self) {
        self.shared.tell_stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The panic hook has already reported a panic of the core.
            let _ = thread.join();
        }
    }
}

impl<R> Drop for Outgoing<R> {
    fn drop(&mut self) {
        self.shared.tell_stop();
    }
}

/// Drops the core when its thread ends, by return or by panic. Dropping it notifies every waiter that no
/// outcome follows.
struct End<'s, C: Core>(&'s Shared<Option<Driver<C>>>);

impl<C: Core> Drop for End<'_, C> {
    fn drop(&mut self) {
        // Dropping the core may bring more requests, which then find the driver gone and its lock free.
        let driver = self.0.driver().take();
        drop(driver);
    }
}

/// Requests waiting for the core.
struct RequestQueue<R> {
    come: Receiver<(ClientQueue, R)>,
    client_queues: ClientQueues<R>,
}

impl<R> RequestQueue<R> {
    fn new(come: Receiver<(ClientQueue, R)>) -> Self {
        RequestQueue { come, client_queues: ClientQueues::default() }
    }

    /// Removes and returns the next of the requests queued so far.
    fn take(&mut self, waiting: &Waiting) -> Option<R> {
        while let Ok((client_queue, request)) = self.come.try_recv() {
            self.client_queues.push(client_queue, request);
        }
        let (client_queue, request) = self.client_queues.pop()?;
        waiting.remove(client_queue);
        Some(request)
    }
}

/// An open link.
enum OpenLink {
    /// The core's thread has its socket.
    Here(Token, LinkSocket),
    /// The worker at this place has its socket.
    There(Place),
}

/// The thread that drives the core, which opens the datagram links.
enum At<'w> {
    Thread,
    Worker(&'w mut WorkerLinks),
}

/// The core, and all that is needed to carry out its actions.
struct Driver<C: Core> {
    core: C,
    /// The thread's set of links.
    registry: Registry,
    /// Workers that may have links, and their mailboxes.
    workers: Vec<(Place, Arc<Mailbox>)>,
    queue: RequestQueue<C::Request>,
    /// Requests that workers have brought and act on themselves.
    brought: RequestQueue<C::Request>,
    counts: Arc<OutgoingCounts>,
    most: usize,
    links: NumberMap<Link, OpenLink>,
    /// Tokens are never used twice, so that an event of a closed socket matches no link.
    tokens: NumberMap<Token, Link>,
    /// Links with deadlines of their own: those with a stream for each query.
    timed: Vec<Link>,
    ports: Ports,
    next: usize,
    /// Links of the thread that are readable, or may have more to read.
    again: VecDeque<Link>,
    actions: Vec<Action>,
    /// Spare memory for the actions that carrying out others leads to.
    spare: Vec<Action>,
    buffer: Vec<u8>,
    sleep: Sleep,
    /// When the last request was taken.
    last_request: Option<Instant>,
}

impl<C: Core> SharedDriver for Option<Driver<C>> {
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
    /// Prepares the thread's sleep; returns for how long.
    fn lie_down(&mut self, waiting: &Waiting) -> Option<Duration> {
        let now = Instant::now();
        let busy = self.take_requests(1, waiting, now) > 0 || !self.again.is_empty();
        let busy = busy.then_some(now);
        let nap = self.last_request.filter(|last| now.saturating_duration_since(*last) < IDLE_AFTER);
        let until = [busy, self.deadline(), nap.map(|_| now + MAX_NAP)].into_iter().flatten().min();
        self.sleep = Sleep::until(until);
        until.map(|until| until.saturating_duration_since(now))
    }

    /// Acts on a few waiting requests. Returns whether the thread may sleep on.
    fn act_while_asleep(&mut self, waiting: &Waiting) -> bool {
        let taken = self.take_requests(self.sleep.left(), waiting, Instant::now());
        let deadline = self.deadline();
        self.sleep.goes_on(taken, deadline)
    }

    /// Runs a worker's turn: replies first, since they complete requests. The rest then waits as requests in
    /// client queues, where those of one client do not hold up others, and not as unread replies, whose
    /// servers would seem slow.
    fn turn(&mut self, worker: &mut WorkerLinks, most: usize, waiting: &Waiting) -> Turned {
        let now = Instant::now();
        self.greet(worker);
        let replies = self.take_heard(worker, now);
        // At least one: a link flooded with replies does not block requests for good.
        let most_requests = most.saturating_sub(replies).max(1);
        let requests = self.take_brought(most_requests, waiting, now, &mut At::Worker(worker));
        let more = replies >= most || requests == most_requests;
        let deadline = self.deadline();
        Turned { more, rouse: !self.sleep.ends_by(deadline), gone: false }
    }

    /// Registers a worker, and lets it take its mail before it gets any other action.
    fn greet(&mut self, worker: &mut WorkerLinks) {
        if !self.workers.iter().any(|(place, _)| *place == worker.place()) {
            self.workers.push((worker.place(), Arc::clone(worker.mailbox())));
        }
        worker.take_mail();
        worker.report_bound(self.core.wants_bound());
        let Tally { opened, refused, exhausted, sent } = worker.take_tally();
        self.counts.opened.add(opened);
        self.counts.refused.add(refused);
        self.counts.exhausted.add(exhausted);
        self.counts.sent.add(sent);
    }

    /// Passes the events of a worker's links to the core. Returns their number. If the core panics, the rest
    /// stays for the next turn.
    fn take_heard(&mut self, worker: &mut WorkerLinks, now: Instant) -> usize {
        let mut taken = 0;
        while let Some((link, heard)) = worker.next_heard() {
            taken += 1;
            // Another thread may have let the core close it since.
            if matches!(self.links.get(&link), Some(OpenLink::There(place)) if *place == worker.place()) {
                self.tell_core(link, &heard, worker, now);
                self.act(now, &mut At::Worker(worker));
            }
        }
        taken
    }

    fn tell_core(&mut self, link: Link, heard: &LinkEvent, worker: &WorkerLinks, now: Instant) {
        match heard {
            LinkEvent::Bound(local) => self.core.bound(link, *local),
            LinkEvent::Message(at) => {
                self.counts.received.add(1);
                let event = Event::Message { link, message: worker.message(at) };
                self.core.event(event, now, &mut self.actions);
            }
            LinkEvent::Ended(error) => self.end(link, *error, now),
            LinkEvent::Refused(error) => {
                self.forget(link);
                self.core.event(Event::Ended { link, error: *error }, now, &mut self.actions);
            }
        }
    }

    /// Moves the links and requests of a worker that ends to the core's thread.
    fn leave(&mut self, worker: &mut WorkerLinks, waiting: &Waiting) {
        let now = Instant::now();
        wake_together(|| {
            self.greet(worker);
            worker.carry_out(true);
            self.greet(worker);
            self.workers.retain(|(place, _)| *place != worker.place());
            let mut refused = Vec::new();
            for (link, socket) in worker.give_away() {
                if let Err(error) = self.adopt(link, LinkSocket::Datagrams(socket)) {
                    refused.push((link, error.kind()));
                }
            }
            while let Some((link, heard)) = worker.next_heard() {
                if self.links.contains_key(&link) {
                    self.tell_core(link, &heard, worker, now);
                    self.act(now, &mut At::Thread);
                }
            }
            for (link, error) in refused {
                self.end(link, error, now);
                self.act(now, &mut At::Thread);
            }
            // Requests of other workers, too: it makes no difference to them.
            self.take_brought(usize::MAX, waiting, now, &mut At::Thread);
        });
    }

    /// Passes up to `most` requests of workers to the core. Returns how many there were.
    fn take_brought(&mut self, most: usize, waiting: &Waiting, now: Instant, at: &mut At<'_>) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(request) = self.brought.take(waiting)
        {
            taken += 1;
            self.core.request(request, now, &mut self.actions);
            self.act(now, at);
        }
        if taken > 0 {
            self.last_request = Some(now);
        }
        taken
    }

    /// Passes up to `most` requests of the thread's queue to the core. Returns how many there were.
    fn take_requests(&mut self, most: usize, waiting: &Waiting, now: Instant) -> usize {
        let mut taken = 0;
        wake_together(|| {
            while taken < most
                && let Some(request) = self.queue.take(waiting)
            {
                taken += 1;
                self.core.request(request, now, &mut self.actions);
            }
            self.act(now, &mut At::Thread);
        });
        if taken > 0 {
            self.last_request = Some(now);
        }
        taken
    }

    /// Acts on all events and waiting requests.
    fn work(&mut self, events: &Events, waiting: &Waiting) {
        let now = Instant::now();
        self.take_requests(REQUESTS_BEFORE_READS, waiting, now);
        self.note_ready(events);
        let mut left = self.again.len();
        while left > 0 {
            let together = left.min(LINKS_PER_WAKE);
            wake_together(|| self.read_links(together, now));
            left -= together;
        }
        if self.deadline().is_some_and(|at| at <= now) {
            wake_together(|| {
                self.run_timers(now);
                if self.core.deadline().is_some_and(|at| at <= now) {
                    self.core.timeout(now, &mut self.actions);
                    self.act(now, &mut At::Thread);
                }
            });
        }
    }

    /// Returns the next deadline of the core and of the links.
    fn deadline(&mut self) -> Option<Instant> {
        let Driver { core, links, timed, .. } = self;
        let of_links = timed.iter().filter_map(|link| streamed(links, *link)?.deadline());
        of_links.chain(core.deadline()).min()
    }

    /// Handles the deadlines of links that have passed.
    fn run_timers(&mut self, now: Instant) {
        let Driver { links, timed, .. } = self;
        let mut due = timed.clone();
        due.retain(|link| {
            let deadline = streamed(links, *link).and_then(StreamedLink::deadline);
            deadline.is_some_and(|at| at <= now)
        });
        for link in due {
            let Some(done) = streamed(&mut self.links, link).map(|streamed| streamed.timeout(now)) else {
                continue;
            };
            self.pass_events(link, done, now);
            self.act(now, &mut At::Thread);
        }
    }

    /// Passes the events of a link with a stream for each query to the core; then the error of the link, if
    /// it has ended with one.
    fn pass_events(&mut self, link: Link, done: io::Result<()>, now: Instant) {
        loop {
            let Driver { core, counts, links, actions, .. } = self;
            let Some(event) = streamed(links, link).and_then(StreamedLink::event) else { break };
            let before = actions.len();
            match event {
                StreamedEvent::Established { resumed } => {
                    core.event(Event::Secured { link, resumed }, now, actions);
                }
                StreamedEvent::Response(message) => {
                    counts.received.add(1);
                    core.event(Event::Message { link, message: &message }, now, actions);
                }
                StreamedEvent::Failed { id, fault } => {
                    core.event(Event::Failed { link, id, fault }, now, actions);
                }
                StreamedEvent::KeyWanted => core.event(Event::KeyWanted { link }, now, actions),
                StreamedEvent::Draining => core.event(Event::Draining { link }, now, actions),
                StreamedEvent::Ended(error) => return self.end(link, error, now),
                StreamedEvent::Insecure(fault) => return self.insecure(link, fault, now),
            }
            if closes(actions.get(before..), link) {
                return;
            }
        }
        if let Err(error) = done {
            self.fail(link, &error, now);
        }
    }

    /// Notes which links are readable: the system reports it once.
    fn note_ready(&mut self, events: &Events) {
        let fresh = events.iter().filter_map(|event| self.tokens.get(&event.token()).copied());
        let fresh: Vec<Link> = fresh.filter(|link| !self.again.contains(link)).collect();
        self.again.extend(fresh);
    }

    /// Reads `links` links. If the core panics, the others are left for later.
    fn read_links(&mut self, links: usize, now: Instant) {
        for _ in 0..links {
            let Some(link) = self.again.pop_front() else { return };
            self.ready(link, now);
            self.act(now, &mut At::Thread);
        }
    }

    /// Reads and writes what a link is ready for.
    fn ready(&mut self, link: Link, now: Instant) {
        let Driver { core, counts, links, actions, buffer, .. } = self;
        if let Some(streamed) = streamed(links, link) {
            let done = streamed.ready(buffer, now);
            if let Ok(LinkProgress::More) = done {
                self.again.push_back(link);
            }
            return self.pass_events(link, done.map(drop), now);
        }
        let Some(OpenLink::Here(_, socket)) = links.get_mut(&link) else { return };
        match socket.proceed(buffer) {
            Ok(OpeningStep::Waits) => {}
            Ok(OpeningStep::More) => return self.again.push_back(link),
            Ok(OpeningStep::Opened) => core.event(Event::Opened { link }, now, actions),
            Ok(OpeningStep::Secured { resumed }) => {
                core.event(Event::Secured { link, resumed }, now, actions);
            }
            Err(error) => return self.fail(link, &error, now),
        }
        let mut take = |message: &[u8]| {
            counts.received.add(1);
            let before = actions.len();
            core.event(Event::Message { link, message }, now, actions);
            !closes(actions.get(before..), link)
        };
        match socket.ready(buffer, &mut take) {
            Ok(LinkProgress::Waits) => {}
            Ok(LinkProgress::More) => self.again.push_back(link),
            Err(error) => self.fail(link, &error, now),
        }
    }

    /// Carries out the core's actions, and those that their outcomes lead to.
    fn act(&mut self, now: Instant, at: &mut At<'_>) {
        while !self.actions.is_empty() {
            // Actions that these lead to are collected in the other vector.
            let mut acting = std::mem::replace(&mut self.actions, std::mem::take(&mut self.spare));
            for action in acting.drain(..) {
                let (link, done) = match action {
                    Action::Open { link, .. } => (link, self.open(link, action, now, at)),
                    Action::Send { link, .. } => (link, self.send(link, action, now, at)),
                    Action::Cancel { link, id } => {
                        if let Some(streamed) = streamed(&mut self.links, link) {
                            let done = streamed.cancel(id, now);
                            self.pass_events(link, done, now);
                        }
                        continue;
                    }
                    Action::Resume { link } => {
                        if let Some(streamed) = streamed(&mut self.links, link) {
                            let done = streamed.resume(now);
                            self.pass_events(link, done, now);
                        }
                        continue;
                    }
                    Action::Close { link } => {
                        self.close(link, at);
                        continue;
                    }
                };
                if let Err(error) = done {
                    self.fail(link, &error, now);
                }
            }
            self.spare = acting;
        }
    }

    /// Opens a link: a datagram link on the thread that drives the core, a connection always on the core's
    /// thread, since it may outlive the worker's need for it.
    fn open(&mut self, link: Link, action: Action, now: Instant, at: &mut At<'_>) -> io::Result<()> {
        let Action::Open { transport, to, from, encryption, .. } = &action else { return Ok(()) };
        let (transport, to, from) = (*transport, *to, *from);
        if self.links.len() >= self.most {
            self.counts.refused.add(1);
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        if let At::Worker(worker) = at
            && !transport.is_stream()
        {
            worker.order(action);
            self.links.insert(link, OpenLink::There(worker.place()));
            self.counts.open.set(self.links.len() as u64);
            return Ok(());
        }
        let opened = LinkSocket::open(transport, to, from, encryption.as_ref(), &mut self.ports, now);
        if self.core.wants_bound()
            && let Some(local) = opened.as_ref().ok().and_then(LinkSocket::local)
        {
            self.core.bound(link, local);
        }
        let taken = opened.and_then(|socket| self.adopt(link, socket));
        match &taken {
            Ok(()) => self.counts.opened.add(1),
            Err(error) => {
                self.counts.refused.add(1);
                self.counts.exhausted.add(is_exhausted(error).into());
            }
        }
        taken
    }

    /// Registers a link with the core's thread.
    fn adopt(&mut self, link: Link, mut socket: LinkSocket) -> io::Result<()> {
        self.next += 1;
        let token = Token(self.next);
        socket.register(&self.registry, token)?;
        self.tokens.insert(token, link);
        if matches!(socket, LinkSocket::Streamed(_)) {
            self.timed.push(link);
        }
        self.links.insert(link, OpenLink::Here(token, socket));
        self.counts.open.set(self.links.len() as u64);
        Ok(())
    }

    fn send(&mut self, link: Link, action: Action, now: Instant, at: &mut At<'_>) -> io::Result<()> {
        match self.links.get_mut(&link) {
            // A link that has ended meanwhile has been reported already.
            None => Ok(()),
            Some(OpenLink::There(place)) => {
                let place = *place;
                self.tell(place, action, at);
                Ok(())
            }
            Some(OpenLink::Here(_, socket)) => {
                let Action::Send { message, .. } = action else { return Ok(()) };
                self.counts.sent.add(1);
                let sent = socket.send(&message, now);
                if matches!(socket, LinkSocket::Streamed(_)) {
                    self.pass_events(link, sent, now);
                    return Ok(());
                }
                sent
            }
        }
    }

    /// Passes an action to the worker that has the link: directly if it runs this turn, otherwise through its
    /// mailbox.
    fn tell(&self, place: Place, action: Action, at: &mut At<'_>) {
        match at {
            At::Worker(worker) if worker.place() == place => worker.order(action),
            _ => {
                // A worker that has ended has passed its links to the core's thread.
                if let Some((_, mailbox)) = self.workers.iter().find(|(known, _)| *known == place) {
                    mailbox.leave(action);
                }
            }
        }
    }

    /// Reports to the core that a link has ended, by an error of the socket or of its encryption.
    fn fail(&mut self, link: Link, error: &io::Error, now: Instant) {
        match encryption_fault(error) {
            Some(fault) => self.insecure(link, fault, now),
            None => self.end(link, error.kind(), now),
        }
    }

    /// Reports to the core that a link has ended by a fault of its encryption.
    fn insecure(&mut self, link: Link, fault: EncryptionFault, now: Instant) {
        if self.forget(link) {
            self.counts.ended.add(1);
        }
        self.core.event(Event::Insecure { link, fault }, now, &mut self.actions);
    }

    /// Reports to the core that a link has ended. A link of the thread is closed here; a worker has closed
    /// its own already.
    fn end(&mut self, link: Link, error: io::ErrorKind, now: Instant) {
        if self.forget(link) {
            self.counts.ended.add(1);
        }
        self.core.event(Event::Ended { link, error }, now, &mut self.actions);
    }

    fn close(&mut self, link: Link, at: &mut At<'_>) {
        if let Some(OpenLink::There(place)) = self.links.get(&link) {
            self.tell(*place, Action::Close { link }, at);
        }
        self.forget(link);
    }

    /// Removes a link; a link of the thread is closed by that. Returns whether it was open.
    fn forget(&mut self, link: Link) -> bool {
        let open = self.links.remove(&link);
        if let Some(OpenLink::Here(token, socket)) = &open {
            self.tokens.remove(token);
            if matches!(socket, LinkSocket::Streamed(_)) {
                self.timed.retain(|timed| *timed != link);
            }
        }
        self.counts.open.set(self.links.len() as u64);
        open.is_some()
    }
}

/// Returns the link with a stream for each query that has this number.
fn streamed(links: &mut NumberMap<Link, OpenLink>, link: Link) -> Option<&mut StreamedLink> {
    match links.get_mut(&link)? {
        OpenLink::Here(_, LinkSocket::Streamed(streamed)) => Some(streamed),
        OpenLink::Here(..) | OpenLink::There(_) => None,
    }
}

/// Whether one of these actions closes the link.
fn closes(actions: Option<&[Action]>, link: Link) -> bool {
    let closes = |action: &Action| matches!(action, Action::Close { link: closed } if *closed == link);
    actions.is_some_and(|actions| actions.iter().any(closes))
}
