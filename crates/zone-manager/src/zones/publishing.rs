//! The thread that puts zones into service. It reports new versions from updates, from primaries and from the
//! examiner to the zones, and makes the next catalog. It reads no disk, parses nothing and waits for nothing
//! but the lock of the zone table, which is never held while a thread waits for a disk or another server. So
//! the `zones` thread may read a configuration meanwhile without delaying the response to an update or a
//! transfer.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};
use wire::ZoneName;

use tracing::error;
use transport::unix_now;
use zone::Zone;

use super::executor::{Executor, log};
use super::images::Images;
use super::manager::ZoneTable;
use super::publisher::Publisher;
use crate::managed::examination::{Examination, SignatureAge};
use crate::managed::publishing::{Claim, ClaimedZone, OncePublished, Publishing};
use crate::managed::state::ImageOrder;
use crate::managed::state::ZoneEvent;
use threads::sync::write;
use zone_plan::Origin;

/// Interval of checks whether workers still read replaced catalogs.
const RELEASE_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Most messages handled before the due steps are published.
const MESSAGES_A_TURN: usize = 10_000;

/// State of the thread.
pub(super) struct PublishingThread {
    table: Arc<ZoneTable>,
    executor: Arc<Executor>,
    publisher: Publisher,
    images: Option<Arc<Images>>,
    messages: Receiver<Publishing>,
    /// Functions to run once the next catalog is in service.
    once_published: Vec<OncePublished>,
    /// Images to write once their zones are in service.
    orders: Vec<ImageOrder>,
    /// Why steps were not published, until reported.
    unpublished: Option<Arc<str>>,
}

impl PublishingThread {
    /// Starts the thread. It ends with [`Publishing::Stop`].
    ///
    /// # Errors
    /// Those of the system, if it refuses a thread.
    pub(super) fn start(
        table: Arc<ZoneTable>,
        executor: Arc<Executor>,
        publisher: Publisher,
        images: Option<Arc<Images>>,
        messages: Receiver<Publishing>,
    ) -> io::Result<()> {
        let mut thread = PublishingThread::new(table, executor, publisher, images, messages);
        let named = std::thread::Builder::new().name("publisher".into());
        named.spawn(move || while thread.turn() {}).map(drop)
    }

    /// Returns the state of the thread before its first message.
    pub(super) fn new(
        table: Arc<ZoneTable>,
        executor: Arc<Executor>,
        publisher: Publisher,
        images: Option<Arc<Images>>,
        messages: Receiver<Publishing>,
    ) -> Self {
        PublishingThread {
            table,
            executor,
            publisher,
            images,
            messages,
            once_published: Vec::new(),
            orders: Vec::new(),
            unpublished: None,
        }
    }

    /// Handles the queued messages, or waits for one, and publishes the due steps. Returns false at the end.
    fn turn(&mut self) -> bool {
        let first = match self.wait() {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        self.turn_from(first)
    }

    /// Handles this message and the queued ones, and publishes the due steps. Returns false at the end.
    pub(super) fn turn_from(&mut self, first: Option<Publishing>) -> bool {
        let messages: Vec<Publishing> =
            first.into_iter().chain(self.messages.try_iter().take(MESSAGES_A_TURN)).collect();
        for message in messages {
            if matches!(message, Publishing::Stop) {
                self.publish();
                return false;
            }
            self.take(message);
        }
        let is_due = self.publisher.deadline().is_some_and(|at| at <= Instant::now());
        if is_due || !self.once_published.is_empty() {
            self.publish();
        }
        true
    }

    fn wait(&mut self) -> Result<Publishing, RecvTimeoutError> {
        let publish = self.publisher.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let release = (!self.publisher.release()).then_some(RELEASE_CHECK_INTERVAL);
        match [publish, release].into_iter().flatten().min() {
            Some(most) => self.messages.recv_timeout(most),
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn take(&mut self, message: Publishing) {
        match message {
            Publishing::Step { apex, change, at_once: true } => {
                self.publisher.add_at_once(apex, change, Instant::now());
            }
            Publishing::Step { apex, change, at_once: false } => {
                self.publisher.add(apex, change, Instant::now());
            }
            Publishing::Views(clients) => self.publisher.set_views(clients, Instant::now()),
            Publishing::Queries(queries) => self.publisher.set_queries(queries),
            Publishing::ChangedQueries(changes) => self.publisher.change_queries(changes, Instant::now()),
            Publishing::SettledQueries => self.publisher.settle_queries(Instant::now()),
            Publishing::Image(order) => self.orders.push(order),
            Publishing::Changed(apex, zone, done) => {
                self.report(&apex, ZoneEvent::Changed(zone, SystemTime::now()));
                // The step of this version is in the queue, before this message.
                self.executor.send(Publishing::Once(done));
            }
            Publishing::Once(done) => self.once_published.push(done),
            Publishing::News(apex, news) => self.report(&apex, ZoneEvent::News(news, SystemTime::now())),
            Publishing::Expires(apex, at) => self.publisher.set_expires(apex, at),
            Publishing::Claim(apex, reply) => reply(self.claim(&apex)),
            Publishing::Unclaim(apex) => self.report(&apex, ZoneEvent::Claimed(false)),
            Publishing::Wrote(apex, file) => self.report(&apex, ZoneEvent::Wrote(file)),
            Publishing::Examined(apex, zone, found) => self.examined(&apex, zone, found),
            Publishing::Folded(apex, number, zone) => self.report(&apex, ZoneEvent::Folded(number, zone)),
            Publishing::Flush(reply) => {
                self.publish();
                // The receiver waits for it.
                let _ = reply.try_send(self.unpublished.take());
            }
            // `turn_from` ends the turn before this.
            Publishing::Stop => {}
        }
    }

    /// Reports an event to the state of a zone, and carries out its actions. Ignores zones that are no longer
    /// in the table.
    fn report(&self, apex: &ZoneName, event: ZoneEvent) {
        let decided = {
            let mut states = write(&self.table.states.zones);
            let Some(zone) = states.get_mut(apex) else { return };
            let actions = zone.state.handle(event);
            self.executor.carry_out(apex, actions)
        };
        log(apex, &decided.notices, false);
        self.executor.order_loads(decided.loads);
    }

    /// Claims a zone for updates until the claim ends. Returns `None` if no version is in service.
    fn claim(&self, apex: &ZoneName) -> Option<ClaimedZone> {
        let mut states = write(&self.table.states.zones);
        let zone = states.get_mut(apex)?;
        let version = zone.state.status().zone.clone()?;
        let of_database = zone.state.status().spec.origin == Origin::Database;
        let ends_at = (!zone.state.is_claimed()).then(|| self.executor.publishing.clone());
        let file = zone.state.file().cloned();
        let actions = zone.state.handle(ZoneEvent::Claimed(true));
        self.executor.carry_out(apex, actions);
        Some(ClaimedZone { version, of_database, file, claim: Claim::new(apex.clone(), ends_at) })
    }

    /// Reports the result of examining a version, and logs if its signatures expire soon.
    fn examined(&self, apex: &ZoneName, version: Arc<Zone>, found: Arc<Examination>) {
        let mut states = write(&self.table.states.zones);
        let Some(zone) = states.get_mut(apex) else { return };
        // Each version is checked as if it were the first one.
        zone.signatures = SignatureAge::default();
        let actions = zone.state.handle(ZoneEvent::Examined(version, found));
        self.executor.carry_out(apex, actions);
        zone.look_at_signatures(unix_now());
    }

    /// Publishes the steps, and runs the work that waits for that.
    fn publish(&mut self) {
        match (self.publisher.publish(), &self.executor.secondaries) {
            (Ok(served), Some(secondaries)) => secondaries.published(&served),
            (Ok(_), None) => {}
            (Err(fault), _) => {
                error!("what was served before stays in service: {fault}");
                self.unpublished = Some(fault.to_string().into());
            }
        }
        std::mem::take(&mut self.once_published).into_iter().for_each(|done| done());
        if let Some(images) = &self.images {
            images.write(std::mem::take(&mut self.orders));
        }
    }
}
