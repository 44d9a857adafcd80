//! Requests that wait for the core, in client queues: a request waits behind earlier requests of its own
//! origin, not behind those of others. So a client that floods the server with queries does not hold up other
//! clients, neither in the queues nor at their limit.
//!
//! This is stochastic fairness queueing (McKenney, 1990): there are fewer client queues than origins, and a
//! secret decides which origins share one, so a client cannot choose whose queue it fills.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of client queues.
const CLIENT_QUEUES: usize = 256;
/// The divisor of the limit that yields each client queue's guaranteed share; the share is at least one.
const SHARE_DIVISOR: usize = 16;
/// Capacity that an empty client queue keeps, in requests.
const EMPTY_QUEUE_CAPACITY: usize = 16;

/// A client queue's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientQueue(u8);

/// Numbers of waiting requests, counted without a lock by the threads that bring them.
pub(super) struct Waiting {
    secret: RandomState,
    all: AtomicUsize,
    client_queues: [AtomicUsize; CLIENT_QUEUES],
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            secret: RandomState::new(),
            all: AtomicUsize::new(0),
            client_queues: [const { AtomicUsize::new(0) }; CLIENT_QUEUES],
        }
    }
}

impl Waiting {
    /// Returns the client queue of an origin.
    pub(super) fn client_queue(&self, origin: u64) -> ClientQueue {
        ClientQueue(self.secret.hash_one(origin) as u8)
    }

    /// Whether one more request may wait in this queue. The limit is `most` in all; above it, client queues
    /// that hold less than their share are still admitted, up to twice the limit. Threads that call this
    /// concurrently may exceed it.
    pub(super) fn admits(&self, client_queue: ClientQueue, most: usize) -> bool {
        let (all, share) = (self.all.load(Relaxed), (most / SHARE_DIVISOR).max(1));
        all < most || (all < most.saturating_mul(2) && self.of(client_queue).load(Relaxed) < share)
    }

    /// Counts a request that begins to wait.
    pub(super) fn add(&self, client_queue: ClientQueue) {
        self.all.fetch_add(1, Relaxed);
        self.of(client_queue).fetch_add(1, Relaxed);
    }

    /// Counts a request that the core takes.
    pub(super) fn remove(&self, client_queue: ClientQueue) {
        self.all.fetch_sub(1, Relaxed);
        self.of(client_queue).fetch_sub(1, Relaxed);
    }

    fn of(&self, client_queue: ClientQueue) -> &AtomicUsize {
        // The number of a client queue is a byte: there are 256 queues.
        &self.client_queues[usize::from(client_queue.0)]
    }
}

/// Requests in the order in which the core takes them: one of each queue in turn, and within a queue in order
/// of arrival.
pub(super) struct ClientQueues<R> {
    client_queues: Vec<VecDeque<R>>,
    /// The client queues that are not empty.
    turns: VecDeque<ClientQueue>,
}

impl<R> Default for ClientQueues<R> {
    fn default() -> Self {
        ClientQueues {
            client_queues: (0..CLIENT_QUEUES).map(|_| VecDeque::new()).collect(),
            turns: VecDeque::new(),
        }
    }
}

impl<R> ClientQueues<R> {
    /// Adds a request at the end of its client queue.
    pub(super) fn push(&mut self, client_queue: ClientQueue, request: R) {
        let held = &mut self.client_queues[usize::from(client_queue.0)];
        if held.is_empty() {
            self.turns.push_back(client_queue);
        }
        held.push_back(request);
    }

    /// Removes and returns the next request.
    pub(super) fn pop(&mut self) -> Option<(ClientQueue, R)> {
        let client_queue = self.turns.pop_front()?;
        let held = &mut self.client_queues[usize::from(client_queue.0)];
        let request = held.pop_front()?;
        match held.is_empty() {
            false => self.turns.push_back(client_queue),
            true if held.capacity() > EMPTY_QUEUE_CAPACITY => *held = VecDeque::new(),
            true => {}
        }
        Some((client_queue, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two origins with different client queues.
    fn two_queues(waiting: &Waiting) -> (ClientQueue, ClientQueue) {
        let first = waiting.client_queue(0);
        let other = (1..)
            .map(|origin| waiting.client_queue(origin))
            .find(|&client_queue| client_queue != first)
            .unwrap();
        (first, other)
    }

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let (flood, single) = two_queues(&Waiting::default());
        let mut client_queues = ClientQueues::default();
        (0..100).for_each(|n| client_queues.push(flood, n));
        (0..3).for_each(|n| client_queues.push(single, 1000 + n));
        let order: Vec<i32> = std::iter::from_fn(|| Some(client_queues.pop()?.1)).collect();
        assert_eq!(order[..8], [0, 1000, 1, 1001, 2, 1002, 3, 4]);
        assert_eq!(order[8..], (5..100).collect::<Vec<_>>()[..]);
        assert!(
            client_queues.client_queues[usize::from(flood.0)].capacity() <= EMPTY_QUEUE_CAPACITY,
            "its memory is given back"
        );
        client_queues.push(single, 7);
        assert_eq!((client_queues.pop(), client_queues.pop()), (Some((single, 7)), None));
    }

    #[test]
    fn who_has_few_waiting_is_let_in_where_all_places_are_taken() {
        let waiting = Waiting::default();
        let (flood, single) = two_queues(&waiting);
        let fill = |client_queue| {
            (0..1000)
                .take_while(|_| waiting.admits(client_queue, 64))
                .inspect(|_| waiting.add(client_queue))
                .count()
        };
        assert_eq!(fill(flood), 64);
        assert_eq!(fill(single), 64 / SHARE_DIVISOR);
        assert_eq!(fill(flood), 0);
        waiting.remove(single);
        assert_eq!(fill(single), 1);
    }

    #[test]
    fn where_there_were_few_places_in_all_one_origin_took_them_from_all_others() {
        for most in [1, 2, 15] {
            let waiting = Waiting::default();
            let (flood, single) = two_queues(&waiting);
            (0..most).for_each(|_| waiting.add(flood));
            assert!(!waiting.admits(flood, most) && waiting.admits(single, most), "{most}");
        }
    }

    #[test]
    fn however_many_origins_there_are_twice_as_many_are_the_most() {
        let waiting = Waiting::default();
        for origin in 0..100_000 {
            let client_queue = waiting.client_queue(origin);
            if waiting.admits(client_queue, 64) {
                waiting.add(client_queue);
            }
        }
        assert_eq!(waiting.all.load(Relaxed), 128);
    }
}
