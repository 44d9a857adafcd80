//! Starting threads from threads that are confined: a thread inherits the bounds of the one that starts it,
//! and may need what that one lacks. A thread without bounds of its own starts it instead.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;

/// A thread to be started.
struct Order {
    name: &'static str,
    work: Box<dyn FnOnce() + Send>,
    started: SyncSender<io::Result<()>>,
}

static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();

/// Starts threads for confined ones.
pub struct Starter;

impl Starter {
    /// Starts the thread that starts others. Must be called by a thread that is not confined.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn begin() -> io::Result<()> {
        let (orders, inbox) = channel();
        Builder::new().name("starter".into()).spawn(move || Self::serve(&inbox))?;
        // A second one ends at once, with its orders.
        let _ = ORDERS.set(orders);
        Ok(())
    }

    fn serve(inbox: &Receiver<Order>) {
        for Order { name, work, started } in inbox {
            let _ = started.send(Self::spawn(name, work));
        }
    }

    fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    /// Starts a thread that is bound by what binds the process, and by nothing else.
    ///
    /// # Errors
    /// The system's error if it refuses the thread.
    pub fn start(name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let orders = ORDERS.get().filter(|_| sandbox::kinds::is_confined());
        let Some(orders) = orders else { return Self::spawn(name, work) };
        let (started, reply) = sync_channel(1);
        let ended = || io::Error::other("the thread that starts others has ended");
        orders.send(Order { name, work: Box::new(work), started }).map_err(|_| ended())?;
        reply.recv().map_err(|_| ended())?
    }
}
