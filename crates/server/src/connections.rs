//! Connections of administration: those of the control socket and those of the HTTP listener.
//!
//! Each set has a limit. Where it is full, a new connection takes the place of the one that has been idle for
//! longest, so that connections that are only held keep no operator out. Connections that a command or a
//! request is worked on for are not idle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use threads::sync::lock;

/// The connections of both listeners.
#[derive(Debug, Default)]
pub struct AdminConnections {
    /// Those of the control socket.
    pub control: Arc<ConnectionSet>,
    /// Those of the HTTP listener.
    pub metrics: Arc<ConnectionSet>,
}

impl AdminConnections {
    /// Both sets, each with a word for labels.
    pub fn sets(&self) -> [(&'static str, &ConnectionSet); 2] {
        [("control", &self.control), ("metrics", &self.metrics)]
    }
}

/// Connections that are open.
#[derive(Debug, Default)]
pub struct ConnectionSet {
    open: Mutex<OpenConnections>,
    /// A connection ended, or became idle.
    changed: Notify,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenConnections {
    all: HashMap<u64, OpenConnection>,
    /// Grows by one with each connection, and each time that one becomes idle.
    clock: u64,
}

#[derive(Debug)]
struct OpenConnection {
    /// The clock when it became idle; `None` while it is not.
    idle_since: Option<u64>,
    evict: Arc<Notify>,
}

impl OpenConnections {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Takes out the connection that has been idle for longest.
    fn take_idle(&mut self) -> Option<OpenConnection> {
        let idle = self.all.iter().filter_map(|(id, one)| Some((one.idle_since?, *id)));
        let (_, oldest) = idle.min()?;
        self.all.remove(&oldest)
    }
}

impl ConnectionSet {
    /// A place for a connection among at most `most`. One that is idle makes room at need; if none is, this
    /// waits.
    pub async fn place(self: &Arc<Self>, most: usize) -> ConnectionPlace {
        loop {
            if let Some(place) = self.try_place(most) {
                return place;
            }
            self.changed.notified().await;
        }
    }

    fn try_place(self: &Arc<Self>, most: usize) -> Option<ConnectionPlace> {
        let mut open = lock(&self.open);
        while open.all.len() >= most.max(1) {
            open.take_idle()?.evict.notify_one();
            self.evicted.fetch_add(1, Relaxed);
        }
        let (id, evict) = (open.tick(), Arc::new(Notify::new()));
        open.all.insert(id, OpenConnection { idle_since: Some(id), evict: Arc::clone(&evict) });
        Some(ConnectionPlace { set: Arc::clone(self), id, evict })
    }

    /// Number of connections that are open.
    pub fn open(&self) -> usize {
        lock(&self.open).all.len()
    }

    /// Number of connections that were closed to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }
}

/// The place of one connection, which is idle at first. Dropping it gives the place back.
#[derive(Debug)]
pub struct ConnectionPlace {
    set: Arc<ConnectionSet>,
    id: u64,
    evict: Arc<Notify>,
}

impl ConnectionPlace {
    /// The connection is worked for from now on, and makes room for no other.
    pub fn busy(&self) {
        if let Some(one) = lock(&self.set.open).all.get_mut(&self.id) {
            one.idle_since = None;
        }
    }

    /// The connection is idle from now on.
    pub fn idle(&self) {
        {
            let mut open = lock(&self.set.open);
            let now = open.tick();
            if let Some(one) = open.all.get_mut(&self.id) {
                one.idle_since = Some(now);
            }
        }
        self.set.changed.notify_one();
    }

    /// Ends when the connection is to be closed to make room for another.
    pub async fn evicted(&self) {
        self.evict.notified().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        lock(&self.set.open).all.remove(&self.id);
        self.set.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evicted(place: &ConnectionPlace) -> bool {
        !lock(&place.set.open).all.contains_key(&place.id)
    }

    #[test]
    fn the_connection_that_was_idle_for_longest_makes_room() {
        let set = Arc::new(ConnectionSet::default());
        let place = || set.try_place(2);
        let (first, second) = (place().expect("room"), place().expect("room"));
        first.busy();
        first.idle();
        let third = place().expect("the second makes room");
        assert_eq!((evicted(&first), evicted(&second), set.evicted()), (false, true, 1));
        first.busy();
        third.busy();
        assert!(place().is_none(), "both are worked for");
        drop(first);
        let fourth = place().expect("room");
        // What became of one that was closed changes nothing.
        second.idle();
        drop(second);
        assert_eq!((set.open(), evicted(&third), evicted(&fourth)), (2, false, false));
    }

    #[test]
    fn who_waits_for_a_place_has_it_as_soon_as_one_is_idle() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let set = Arc::new(ConnectionSet::default());
            let first = set.place(1).await;
            first.busy();
            let waiting = tokio::spawn({
                let set = Arc::clone(&set);
                async move { drop(set.place(1).await) }
            });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            first.idle();
            waiting.await.expect("it has a place");
            first.evicted().await;
        });
    }
}
