//! Where `net` and `engine` meet: a batch of packets goes down the engine's line, and its verdicts go back. Each
//! worker thread has one handler of its own.

use std::sync::Arc;

use engine::{BATCH, Packet, Verdict, Worker};
use net::{Batch, Handler, MessageStream, Next, Outcome, Queries};

use crate::app::{App, lock};

/// One worker thread's way into the engine.
pub struct Answer {
    worker: Worker,
    stats: Arc<engine::Stats>,
}

impl Answer {
    /// A handler with counters of its own, which `app` sums up from now on.
    pub fn new(app: &App) -> Self {
        let stats = Arc::new(engine::Stats::default());
        lock(&app.worker_stats).push(Arc::clone(&stats));
        Self { worker: Worker::new(Arc::clone(&app.engine), Arc::clone(&stats)), stats }
    }
}

fn packet<'q>(queries: &Queries<'q>, i: usize) -> Packet<'q> {
    let query = queries.get(i);
    let transport = match query.transport {
        net::Transport::Udp => engine::Transport::Udp,
        net::Transport::Tcp => engine::Transport::Tcp,
    };
    Packet { octets: query.packet, peer: query.peer, transport }
}

impl Handler for Answer {
    fn batch(&mut self, batch: &mut Batch<'_>) {
        let begun = batch.now();
        let (queries, replies) = batch.split();
        self.worker.begin();
        for start in (0..queries.len()).step_by(BATCH) {
            let count = (queries.len() - start).min(BATCH);
            for at in 0..count {
                self.worker.prepare(at, &packet(&queries, start + at));
            }
            self.worker.route(count);
            for at in 0..count {
                let i = start + at;
                let responder = || -> Box<dyn engine::Responder> { Box::new(Later(queries.responder(i))) };
                let out = replies.buffer(i);
                let verdict = self.worker.answer(at, &packet(&queries, i), out, &mut { responder });
                replies.set(i, outcome(verdict));
            }
        }
        self.stats.batch(begun.elapsed(), queries.len());
    }

    fn idle(&mut self) {
        // Lets go of a catalog that was replaced meanwhile.
        self.worker.begin();
    }
}

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Drop => Outcome::Drop,
        Verdict::Reply(octets) => Outcome::Reply(octets),
        Verdict::Pending => Outcome::Pending,
        Verdict::Stream(messages) => Outcome::Stream(Box::new(Messages(messages))),
    }
}

/// `net`'s way back to a client, as the engine knows it.
struct Later(net::Responder);

impl engine::Responder for Later {
    fn send(self: Box<Self>, message: &[u8]) {
        // A client that is gone misses its answer; `net` counts that.
        let _ = self.0.send(message);
    }
}

/// The engine's stream of messages, as `net` pulls it.
struct Messages(Box<dyn engine::MessageStream>);

impl MessageStream for Messages {
    fn next(&mut self, out: &mut [u8]) -> Next {
        match self.0.next(out) {
            engine::Next::Message(octets) => Next::Message(octets),
            engine::Next::End => Next::End,
            engine::Next::Abort => Next::Abort,
        }
    }
}
