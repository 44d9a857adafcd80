//! The loop that drives a core: waits for sockets, requests and the core's deadline, reports to the core, and does
//! what it decides.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{Action, Core, Counter, Event, Link, NumberMap, wake_together};
use mio::{Events, Poll, Token, Waker};

use super::port::Ports;
use super::socket::{BUFFER, LinkProgress, LinkSocket};

/// The token of the waker; links have the others.
const WAKE: Token = Token(0);
/// Events taken from the system at once.
const EVENTS: usize = 256;
/// Links looked at before those whose queries they answered are told: as many replies as go out with one system call.
const TOGETHER: usize = 64;
/// Requests taken before sockets get their turn.
const REQUESTS: usize = 256;

/// Settings of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingConfig {
    /// Links open at a time; one more is refused with [`io::ErrorKind::QuotaExceeded`]. Default: 4096.
    pub links: usize,
}

impl Default for OutgoingConfig {
    fn default() -> Self {
        OutgoingConfig { links: 4096 }
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

#[derive(Default)]
struct Counts {
    opened: Counter,
    refused: Counter,
    ended: Counter,
    open: Counter,
    sent: Counter,
    received: Counter,
}

/// A core at work on a thread of its own. Dropping it ends the thread, without waiting for what is under way.
pub struct Outgoing<R> {
    requests: Sender<R>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    waker: Waker,
    /// The thread waits, or is about to, and whoever has a request wakes it.
    asleep: AtomicBool,
    stop: AtomicBool,
    counts: Counts,
}

impl<R: Send + 'static> Outgoing<R> {
    /// Starts a core's thread.
    ///
    /// # Errors
    /// The system's, if it refuses a thread or a descriptor.
    pub fn start<C: Core<Request = R>>(name: &str, core: C, config: &OutgoingConfig) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let shared = Arc::new(Shared {
            waker,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            counts: Counts::default(),
        });
        let (requests, queue) = channel();
        let driver = Driver {
            core,
            poll,
            queue,
            shared: Arc::clone(&shared),
            most: config.links,
            links: NumberMap::default(),
            tokens: NumberMap::default(),
            ports: Ports::new(),
            next: WAKE.0,
            again: Vec::new(),
            actions: Vec::new(),
            spare: Vec::new(),
            buffer: vec![0; BUFFER],
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || driver.run())?;
        Ok(Outgoing { requests, shared, thread: Mutex::new(Some(thread)) })
    }

    /// Passes a request to the core. Returns whether its thread is still there to take it.
    pub fn request(&self, request: R) -> bool {
        let sent = self.requests.send(request).is_ok();
        // Either the thread sees the request before it waits, or it is seen to be asleep here.
        fence(SeqCst);
        if self.shared.asleep.load(Relaxed) && self.shared.asleep.swap(false, Relaxed) {
            // Should it fail, the core looks at its next deadline.
            let _ = self.shared.waker.wake();
        }
        sent
    }

    /// What has been done so far.
    pub fn totals(&self) -> OutgoingTotals {
        let Counts { opened, refused, ended, open, sent, received } = &self.shared.counts;
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
        self.tell_stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of the core was shown by the panic hook.
            let _ = thread.join();
        }
    }
}

impl<R> Outgoing<R> {
    fn tell_stop(&self) {
        self.shared.stop.store(true, Relaxed);
        let _ = self.shared.waker.wake();
    }
}

impl<R> Drop for Outgoing<R> {
    fn drop(&mut self) {
        self.tell_stop();
    }
}

/// The thread's state.
struct Driver<C: Core> {
    core: C,
    poll: Poll,
    queue: Receiver<C::Request>,
    shared: Arc<Shared>,
    most: usize,
    links: NumberMap<Link, (Token, LinkSocket)>,
    /// Tokens are never used twice, so that news of a socket that is gone finds nobody.
    tokens: NumberMap<Token, Link>,
    ports: Ports,
    next: usize,
    /// Links that may have more to read.
    again: Vec<Link>,
    actions: Vec<Action>,
    /// Memory for actions that others lead to.
    spare: Vec<Action>,
    buffer: Vec<u8>,
}

impl<C: Core> Driver<C> {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        while !self.shared.stop.load(Relaxed) {
            let now = Instant::now();
            let deadline = self.core.deadline().map(|at| at.saturating_duration_since(now));
            self.shared.asleep.store(true, Relaxed);
            fence(SeqCst);
            let first = self.queue.try_recv().ok();
            let busy = first.is_some() || !self.again.is_empty();
            let wait = if busy { Some(Duration::ZERO) } else { deadline };
            // It may have been interrupted: whatever is ready is found ready again.
            let _ = self.poll.poll(&mut events, wait);
            self.shared.asleep.store(false, Relaxed);
            let now = Instant::now();
            wake_together(|| {
                let more = std::iter::from_fn(|| self.queue.try_recv().ok()).take(REQUESTS);
                for request in first.into_iter().chain(more) {
                    self.core.request(request, now, &mut self.actions);
                }
                self.act(now);
            });
            let again = std::mem::take(&mut self.again);
            let fresh = events.iter().filter_map(|event| self.tokens.get(&event.token()).copied());
            let fresh: Vec<Link> = fresh.filter(|link| !again.contains(link)).collect();
            let links: Vec<Link> = again.into_iter().chain(fresh).collect();
            for links in links.chunks(TOGETHER) {
                wake_together(|| {
                    for &link in links {
                        self.ready(link, now);
                        self.act(now);
                    }
                });
            }
            if self.core.deadline().is_some_and(|at| at <= now) {
                wake_together(|| {
                    self.core.timeout(now, &mut self.actions);
                    self.act(now);
                });
            }
        }
    }

    /// Reads and writes what a link is ready for.
    fn ready(&mut self, link: Link, now: Instant) {
        let Driver { core, shared, links, actions, buffer, .. } = self;
        let Some((_, socket)) = links.get_mut(&link) else { return };
        match socket.opened() {
            Ok(false) => {}
            Ok(true) => core.event(Event::Opened { link }, now, actions),
            Err(error) => return self.end(link, error.kind(), now),
        }
        let mut take = |message: &[u8]| {
            shared.counts.received.add(1);
            let before = actions.len();
            core.event(Event::Message { link, message }, now, actions);
            let closes =
                |action: &Action| matches!(action, Action::Close { link: closed } if *closed == link);
            !actions.get(before..).is_some_and(|new| new.iter().any(closes))
        };
        match socket.ready(buffer, &mut take) {
            Ok(LinkProgress::Waits) => {}
            Ok(LinkProgress::More) => self.again.push(link),
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
                    Action::Send { link, message } => (link, self.send(link, &message)),
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
    }

    fn open(
        &mut self,
        link: Link,
        transport: exchange::Transport,
        to: std::net::SocketAddr,
        from: Option<std::net::IpAddr>,
    ) -> io::Result<()> {
        let counts = &self.shared.counts;
        let opened = match self.links.len() < self.most {
            true => LinkSocket::open(transport, to, from, &mut self.ports),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        };
        let registered = opened.and_then(|mut socket| {
            self.next += 1;
            socket.register(self.poll.registry(), Token(self.next)).map(|()| socket)
        });
        match registered {
            Ok(socket) => {
                counts.opened.add(1);
                counts.open.set(self.links.len() as u64 + 1);
                self.tokens.insert(Token(self.next), link);
                self.links.insert(link, (Token(self.next), socket));
                Ok(())
            }
            Err(e) => {
                counts.refused.add(1);
                Err(e)
            }
        }
    }

    fn send(&mut self, link: Link, message: &[u8]) -> io::Result<()> {
        // A link that has ended in the meantime has been reported already.
        let Some((_, socket)) = self.links.get_mut(&link) else { return Ok(()) };
        self.shared.counts.sent.add(1);
        socket.send(message)
    }

    /// Closes a link and reports it to the core.
    fn end(&mut self, link: Link, error: io::ErrorKind, now: Instant) {
        if self.close(link) {
            self.shared.counts.ended.add(1);
        }
        self.core.event(Event::Ended { link, error }, now, &mut self.actions);
    }

    /// Returns whether it was open.
    fn close(&mut self, link: Link) -> bool {
        let Some((token, _)) = self.links.remove(&link) else { return false };
        self.tokens.remove(&token);
        self.shared.counts.open.set(self.links.len() as u64);
        true
    }
}
