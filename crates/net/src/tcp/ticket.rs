//! Tickets: the right to answer one query of a connection later. Each sends its connection exactly one event, an
//! answer or, when dropped unused, the news that none will come; so the channel is bounded by the tickets issued.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use crate::handler::MessageStream;
use crate::responder::SendError;
use crate::stats::WorkerStats;

/// What other parts tell a connection.
pub(crate) enum Event {
    /// A ticket was used: the answer.
    Message(Vec<u8>),
    /// A ticket was used: a source of answers.
    Stream(Box<dyn MessageStream>),
    /// A ticket was dropped unused.
    Unanswered,
    /// Make room for another connection.
    Evict,
    /// The listener stops.
    Drain,
}

/// Issues the tickets of one connection and counts those out.
pub(crate) struct Tickets {
    events: UnboundedSender<Event>,
    stats: Arc<WorkerStats>,
    out: Cell<usize>,
}

impl Tickets {
    pub(crate) fn new(events: UnboundedSender<Event>, stats: Arc<WorkerStats>) -> Self {
        Tickets { events, stats, out: Cell::new(0) }
    }

    pub(crate) fn issue(&self) -> Ticket {
        self.out.set(self.out.get() + 1);
        Ticket { events: self.events.clone(), stats: Arc::clone(&self.stats), used: AtomicBool::new(false) }
    }

    /// Notes that the event of one ticket arrived.
    pub(crate) fn returned(&self) {
        self.out.set(self.out.get().saturating_sub(1));
    }

    /// Tickets whose event has not arrived.
    pub(crate) fn out(&self) -> usize {
        self.out.get()
    }
}

/// The right to answer one query.
pub(crate) struct Ticket {
    events: UnboundedSender<Event>,
    stats: Arc<WorkerStats>,
    used: AtomicBool,
}

impl Ticket {
    pub(crate) fn message(&self, message: &[u8]) -> Result<(), SendError> {
        self.claim()?;
        let sent = self.send(Event::Message(message.to_vec()));
        if sent.is_ok() {
            self.stats.shared.later_replies.add(1);
            self.stats.shared.later_bytes.add(message.len() as u64);
        }
        sent
    }

    pub(crate) fn stream(&self, stream: Box<dyn MessageStream>) -> Result<(), SendError> {
        self.claim()?;
        self.send(Event::Stream(stream))
    }

    fn claim(&self) -> Result<(), SendError> {
        if self.used.swap(true, Ordering::AcqRel) { Err(SendError::Answered) } else { Ok(()) }
    }

    fn send(&self, event: Event) -> Result<(), SendError> {
        self.events.send(event).map_err(|_| {
            self.stats.shared.later_errors.add(1);
            SendError::Closed
        })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !*self.used.get_mut() {
            // A connection that is gone needs no news.
            let _ = self.events.send(Event::Unanswered);
        }
    }
}
