//! Requests that wait for the core, in lanes: a request waits behind earlier requests of its own origin, not
//! behind those of others. So a client that floods the server with queries does not hold up other clients, be
//! it for answers or for being let in.
//!
//! This is stochastic fairness queueing (McKenney, 1990): there are fewer lanes than origins, and a secret decides which origins
//! share one, so a client cannot choose whose lane it fills.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many lanes there are.
const LANES: usize = 256;
/// The share of all places that a lane has for itself, whatever the others hold; one at the least.
const SHARE: usize = 16;
/// Requests that an empty lane keeps memory for.
const KEPT: usize = 16;

/// A lane's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane(u8);

/// How many requests wait, counted without a lock where they come from.
pub(super) struct Waiting {
    secret: RandomState,
    all: AtomicUsize,
    lanes: [AtomicUsize; LANES],
}

impl Default for Waiting {
    fn default() -> Self {
        Waiting {
            secret: RandomState::new(),
            all: AtomicUsize::new(0),
            lanes: [const { AtomicUsize::new(0) }; LANES],
        }
    }
}

impl Waiting {
    /// The lane of an origin.
    pub(super) fn lane(&self, origin: u64) -> Lane {
        Lane(self.secret.hash_one(origin) as u8)
    }

    /// Whether one more may wait there, where `most` in all are many: then lanes that hold less than their share go on up to
    /// twice as many in all. Threads that ask together may be let in together.
    pub(super) fn admits(&self, lane: Lane, most: usize) -> bool {
        let (all, share) = (self.all.load(Relaxed), (most / SHARE).max(1));
        all < most || (all < most.saturating_mul(2) && self.of(lane).load(Relaxed) < share)
    }

    /// One more waits.
    pub(super) fn add(&self, lane: Lane) {
        self.all.fetch_add(1, Relaxed);
        self.of(lane).fetch_add(1, Relaxed);
    }

    /// One has been taken.
    pub(super) fn remove(&self, lane: Lane) {
        self.all.fetch_sub(1, Relaxed);
        self.of(lane).fetch_sub(1, Relaxed);
    }

    fn of(&self, lane: Lane) -> &AtomicUsize {
        // A lane's number is a byte, and there are as many lanes.
        &self.lanes[usize::from(lane.0)]
    }
}

/// Requests in the order in which they are acted on: lane by lane in turn, and in each lane as they came.
pub(super) struct Lanes<R> {
    lanes: Vec<VecDeque<R>>,
    /// The lanes that hold something.
    turns: VecDeque<Lane>,
}

impl<R> Default for Lanes<R> {
    fn default() -> Self {
        Lanes { lanes: (0..LANES).map(|_| VecDeque::new()).collect(), turns: VecDeque::new() }
    }
}

impl<R> Lanes<R> {
    /// Adds a request at the end of its lane.
    pub(super) fn push(&mut self, lane: Lane, request: R) {
        let held = &mut self.lanes[usize::from(lane.0)];
        if held.is_empty() {
            self.turns.push_back(lane);
        }
        held.push_back(request);
    }

    /// Takes the next request.
    pub(super) fn pop(&mut self) -> Option<(Lane, R)> {
        let lane = self.turns.pop_front()?;
        let held = &mut self.lanes[usize::from(lane.0)];
        let request = held.pop_front()?;
        match held.is_empty() {
            false => self.turns.push_back(lane),
            true if held.capacity() > KEPT => *held = VecDeque::new(),
            true => {}
        }
        Some((lane, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two origins whose lanes are not the same.
    fn two_lanes(waiting: &Waiting) -> (Lane, Lane) {
        let first = waiting.lane(0);
        let other = (1..).map(|origin| waiting.lane(origin)).find(|&lane| lane != first).unwrap();
        (first, other)
    }

    #[test]
    fn lanes_take_turns_and_each_keeps_its_order() {
        let (flood, single) = two_lanes(&Waiting::default());
        let mut lanes = Lanes::default();
        (0..100).for_each(|n| lanes.push(flood, n));
        (0..3).for_each(|n| lanes.push(single, 1000 + n));
        let order: Vec<i32> = std::iter::from_fn(|| Some(lanes.pop()?.1)).collect();
        assert_eq!(order[..8], [0, 1000, 1, 1001, 2, 1002, 3, 4]);
        assert_eq!(order[8..], (5..100).collect::<Vec<_>>()[..]);
        assert!(lanes.lanes[usize::from(flood.0)].capacity() <= KEPT, "its memory is given back");
        lanes.push(single, 7);
        assert_eq!((lanes.pop(), lanes.pop()), (Some((single, 7)), None));
    }

    #[test]
    fn who_has_few_waiting_is_let_in_where_all_places_are_taken() {
        let waiting = Waiting::default();
        let (flood, single) = two_lanes(&waiting);
        let fill =
            |lane| (0..1000).take_while(|_| waiting.admits(lane, 64)).inspect(|_| waiting.add(lane)).count();
        assert_eq!(fill(flood), 64);
        assert_eq!(fill(single), 64 / SHARE);
        assert_eq!(fill(flood), 0);
        waiting.remove(single);
        assert_eq!(fill(single), 1);
    }

    #[test]
    fn where_there_were_few_places_in_all_one_origin_took_them_from_all_others() {
        for most in [1, 2, 15] {
            let waiting = Waiting::default();
            let (flood, single) = two_lanes(&waiting);
            (0..most).for_each(|_| waiting.add(flood));
            assert!(!waiting.admits(flood, most) && waiting.admits(single, most), "{most}");
        }
    }

    #[test]
    fn however_many_origins_there_are_twice_as_many_are_the_most() {
        let waiting = Waiting::default();
        for origin in 0..100_000 {
            let lane = waiting.lane(origin);
            if waiting.admits(lane, 64) {
                waiting.add(lane);
            }
        }
        assert_eq!(waiting.all.load(Relaxed), 128);
    }
}
