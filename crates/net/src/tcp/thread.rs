//! The thread of a worker whose clients have connections, over TCP or QUIC: a single-threaded runtime, the
//! handler with its buffers, and the way back of late answers.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::task::LocalSet;
use transport::HandlerFactory;

use super::connection::SharedBuffers;
use super::returns::{Bell, Events, Returns};
use crate::fault::WorkerFaultKind;
use crate::guard::Guarded;
use crate::job::Job;
use crate::sys;

/// Starts the thread. `serve` runs on it, with the handler and the event senders of the connections, until
/// the worker ends.
pub(crate) fn on_thread<F: HandlerFactory, S: Future<Output = ()>>(
    name: String,
    factory: Arc<F>,
    job: Job,
    serve: impl FnOnce(Job, Rc<RefCell<SharedBuffers<F>>>, Events) -> S + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name(name).spawn(move || {
        if job.config.pin_cpus
            && let Err(e) = sys::pin_thread(job.id.index)
        {
            job.reporter.report(WorkerFaultKind::Pin(e));
        }
        let bell = Bell::new();
        let worker_context = job.id.worker_context(Arc::clone(&bell).into());
        let guarded = Guarded::new(factory, worker_context, Arc::clone(&job.stats), job.reporter.clone());
        let buffers = Rc::new(RefCell::new(SharedBuffers::new(guarded)));
        let events = Events::default();
        let returns = Returns::new(Rc::clone(&buffers), Rc::clone(&events), Arc::clone(&job.stats));
        LocalSet::new().block_on(&runtime, async {
            // Ends with the set, when all connections of the worker have ended.
            tokio::task::spawn_local(returns.run(bell));
            serve(job, buffers, events).await;
        });
    })
}
