//! [`Database`]: the handle of the thread that keeps the connections to a database.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use wire::ZoneName;

use crate::counts::{DatabaseCounts, DatabaseStatus};
use crate::interface::{
    DatabaseFault, DatabaseSink, NewZone, OnCommit, OnHistory, OnNodes, ZoneCommit, ZoneId,
};
use crate::powerdns;
use crate::queue::{Job, Question, Reading, Reply, failed_commit};
use crate::settings::{DatabaseSettings, SchemaKind};
use crate::shared::Shared;
use crate::worker;

/// A database, and the thread that follows it.
pub struct Database {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Starts the thread and returns at once. The thread connects, and connects again when a connection
    /// breaks.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(settings: DatabaseSettings, sink: Arc<dyn DatabaseSink>) -> io::Result<Arc<Database>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("database")
            .max_blocking_threads(2)
            .build()?;
        let shared = Arc::new(Shared::new(settings, sink));
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("database".into()).spawn(move || {
            let _at_end = worker::AtEnd(&of_thread);
            match of_thread.settings.schema {
                SchemaKind::Own => runtime.block_on(worker::work(&of_thread)),
                SchemaKind::PowerDns => runtime.block_on(powerdns::work(&of_thread)),
            }
            // What may block must not keep the process from its end.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Database { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Adds a job, unless the database is read only.
    fn add(&self, job: Job) {
        match self.shared.settings.schema {
            SchemaKind::Own => self.shared.queue.add(job),
            SchemaKind::PowerDns => job.fail(DatabaseFault::Refused(powerdns::READ_ONLY.into())),
        }
    }

    /// Adds a question that the tables of nomen alone answer.
    fn ask(&self, question: Question) {
        match self.shared.settings.schema {
            SchemaKind::Own => self.shared.queue.ask(question),
            SchemaKind::PowerDns => question.fail(DatabaseFault::Refused(powerdns::NO_HISTORY.into())),
        }
    }

    /// Commits a change. All that wait while one commit is in flight go together in the next one.
    pub fn commit(&self, commit: ZoneCommit, end: OnCommit) {
        self.add(Job::Commit(Box::new(commit), Reply::new(end, failed_commit)));
    }

    /// Creates a zone.
    pub fn create(&self, zone: NewZone, end: Box<dyn FnOnce(Result<ZoneId, DatabaseFault>) + Send>) {
        self.add(Job::Create(zone, Reply::new(end, Err)));
    }

    /// Removes a zone and its records.
    pub fn remove(
        &self,
        zone: ZoneId,
        author: String,
        end: Box<dyn FnOnce(Result<(), DatabaseFault>) + Send>,
    ) {
        self.add(Job::Remove(zone, author, Reply::new(end, Err)));
    }

    /// Reads the whole zone again, for [`DatabaseSink::content`].
    pub fn fetch(&self, zone: ZoneId, apex: ZoneName) {
        self.shared.queue.read(Reading::Fetch(zone, apex));
    }

    /// Reads the last changes of a zone, `most` of them at most.
    pub fn history(&self, zone: ZoneId, most: usize, end: OnHistory) {
        self.ask(Question::History(zone, most, Reply::new(end, Err)));
    }

    /// Reads the table of nodes.
    pub fn nodes(&self, end: OnNodes) {
        self.ask(Question::Nodes(Reply::new(end, Err)));
    }

    /// Returns the state of the connection, and how far this node is.
    pub fn status(&self) -> DatabaseStatus {
        self.shared.status()
    }

    /// Returns the counters.
    pub fn counts(&self) -> &DatabaseCounts {
        &self.shared.counts
    }

    /// Ends the thread and waits for it. Commits that wait or are in flight are finished, within the timeout.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What the thread calls may drop the last handle.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.stop();
    }
}
