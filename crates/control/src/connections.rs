//! Connections of operators: those of the control socket, of the HTTP listener for metrics, and of the API;
//! and those of CAs for the challenge http-01.
//!
//! Each set has a limit. When a set is full, a new connection replaces the one that has been idle for
//! longest, so that connections that are only held open lock no operator out. A connection with a command or
//! a request in progress is not idle.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use threads::sync::lock;

/// The connections of the control socket, of the HTTP listener for metrics, of the API, and for challenges.
#[derive(Debug, Default)]
pub struct AdminConnections {
    /// Connections of the control socket.
    pub control: Arc<ConnectionSet>,
    /// Connections of the HTTP listener for metrics.
    pub metrics: Arc<ConnectionSet>,
    /// Connections of the HTTP API.
    pub api: Arc<ConnectionSet>,
    /// Connections for the challenge http-01.
    pub acme: Arc<ConnectionSet>,
}

impl AdminConnections {
    /// Returns all sets, each with its label.
    pub fn sets(&self) -> [(&'static str, &ConnectionSet); 4] {
        [("control", &self.control), ("metrics", &self.metrics), ("api", &self.api), ("acme", &self.acme)]
    }
}

/// A set of open connections.
#[derive(Debug, Default)]
pub struct ConnectionSet {
    open: Mutex<OpenConnections>,
    /// Notified when a connection ends or becomes idle.
    changed: Notify,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct OpenConnections {
    all: HashMap<u64, OpenConnection>,
    /// Incremented with each new connection, and each time a connection becomes idle.
    clock: u64,
}

#[derive(Debug)]
struct OpenConnection {
    /// The clock when the connection became idle; `None` while it is busy.
    idle_since: Option<u64>,
    evict: Arc<Notify>,
}

impl OpenConnections {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Removes the connection that has been idle for longest.
    fn take_idle(&mut self) -> Option<OpenConnection> {
        let idle = self.all.iter().filter_map(|(id, one)| Some((one.idle_since?, *id)));
        let (_, oldest) = idle.min()?;
        self.all.remove(&oldest)
    }
}

impl ConnectionSet {
    /// Returns a place among at most `most` connections. Evicts an idle connection if all places are taken,
    /// and waits if none is idle.
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

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        lock(&self.open).all.len()
    }

    /// Returns the number of connections that were closed to make room.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }
}

/// The place of one connection, idle at first. Dropping it frees the place.
#[derive(Debug)]
pub struct ConnectionPlace {
    set: Arc<ConnectionSet>,
    id: u64,
    evict: Arc<Notify>,
}

impl ConnectionPlace {
    /// Marks the connection as busy: it is not evicted.
    pub fn busy(&self) {
        if let Some(one) = lock(&self.set.open).all.get_mut(&self.id) {
            one.idle_since = None;
        }
    }

    /// Marks the connection as idle: it may be evicted.
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

    /// Returns whether the connection is marked as busy.
    pub fn is_busy(&self) -> bool {
        lock(&self.set.open).all.get(&self.id).is_some_and(|one| one.idle_since.is_none())
    }

    /// Waits until the connection is to be closed to make room for another.
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
        // A change to an evicted connection has no effect.
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
