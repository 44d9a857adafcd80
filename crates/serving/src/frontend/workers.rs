//! Connects `net` and `query-path`: creates the engine's workers for the threads of a listener, and holds
//! their state, which outlives them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use query_path::{Engine, QueryStats, Worker, WorkerState};
use transport::{HandlerFactory, WorkerContext};

use super::Served;
use crate::answering;
use threads::sync::lock;

/// The state of all workers of the server, for summing their counters.
#[derive(Clone, Default)]
pub struct Accounts(Arc<Mutex<Vec<Arc<WorkerState>>>>);

impl Accounts {
    /// Sums one figure over all workers' counters.
    pub fn sum(&self, figure: impl Fn(&QueryStats) -> u64) -> u64 {
        lock(&self.0).iter().map(|account| figure(&account.stats)).sum()
    }
}

/// Creates the engine's workers for one listener.
pub(super) struct Workers {
    engine: Arc<Engine<Served>>,
    all: Accounts,
    /// By the worker's index. A worker that replaces a panicked one continues with its state.
    seats: Mutex<HashMap<usize, Arc<WorkerState>>>,
}

impl Workers {
    /// Returns a factory whose workers' states are added to `all`.
    pub(super) fn new(engine: &Arc<Engine<Served>>, all: &Accounts) -> Self {
        Workers { engine: Arc::clone(engine), all: all.clone(), seats: Mutex::default() }
    }
}

impl HandlerFactory for Workers {
    type Handler = Worker<Served>;

    fn make(&self, worker_context: &WorkerContext) -> Worker<Served> {
        answering::begin();
        let new = || {
            let account = Arc::new(WorkerState::new(worker_context.waker.clone()));
            lock(&self.all.0).push(Arc::clone(&account));
            account
        };
        let account = Arc::clone(lock(&self.seats).entry(worker_context.index).or_insert_with(new));
        Worker::new(Arc::clone(&self.engine), account)
    }
}
