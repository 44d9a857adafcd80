//! Hit rates of the cache against plain FIFO and SIEVE with the same number of entries, so that the choice is
//! based on measurement.
//!
//! `cargo test --release -p cache --test it policy -- --nocapture` prints them.

use std::collections::{HashMap, VecDeque};

use cache::{Cache, Credibility, Lookup};
use wire::Type;
use wire::hash::HashedName;

use crate::support::*;

/// Pseudorandom numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
    }

    /// 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Names with query frequencies like 1 / rank^s.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(names: u32, s: f64) -> Zipf {
        let mut sums: Vec<f64> = Vec::with_capacity(names as usize);
        for rank in 1..=names {
            sums.push(sums.last().unwrap_or(&0.0) + (rank as f64).powf(-s));
        }
        Zipf(sums)
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let at = random.fraction() * self.0.last().expect("names");
        self.0.partition_point(|sum| *sum < at) as u32
    }
}

/// A cache of names: returns whether one was there; if not, it is now.
trait Policy {
    fn ask(&mut self, name: u32) -> bool;
}

struct Fifo {
    held: HashMap<u32, ()>,
    order: VecDeque<u32>,
    room: usize,
}

impl Policy for Fifo {
    fn ask(&mut self, name: u32) -> bool {
        if self.held.contains_key(&name) {
            return true;
        }
        if self.order.len() == self.room {
            let oldest = self.order.pop_front().expect("it is full");
            self.held.remove(&oldest);
        }
        self.order.push_back(name);
        self.held.insert(name, ());
        false
    }
}

/// SIEVE (Zhang and others, NSDI 2024): a hand moves from the oldest to the newest entry and evicts the first
/// one that was not read since it last passed; entries that were read stay in place.
struct Sieve {
    nodes: Vec<Node>,
    held: HashMap<u32, usize>,
    newest: usize,
    oldest: usize,
    hand: usize,
    room: usize,
}

struct Node {
    name: u32,
    visited: bool,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;

impl Sieve {
    fn new(room: usize) -> Sieve {
        Sieve { nodes: Vec::new(), held: HashMap::new(), newest: NONE, oldest: NONE, hand: NONE, room }
    }

    /// Removes a node and returns its index.
    fn evict(&mut self) -> usize {
        let mut at = if self.hand == NONE { self.oldest } else { self.hand };
        while self.nodes[at].visited {
            self.nodes[at].visited = false;
            at = if self.nodes[at].newer == NONE { self.oldest } else { self.nodes[at].newer };
        }
        let Node { name, newer, older, .. } = self.nodes[at];
        self.hand = newer;
        if newer == NONE {
            self.newest = older
        } else {
            self.nodes[newer].older = older
        }
        if older == NONE {
            self.oldest = newer
        } else {
            self.nodes[older].newer = newer
        }
        self.held.remove(&name);
        at
    }
}

impl Policy for Sieve {
    fn ask(&mut self, name: u32) -> bool {
        if let Some(&at) = self.held.get(&name) {
            self.nodes[at].visited = true;
            return true;
        }
        let at = if self.nodes.len() < self.room {
            self.nodes.push(Node { name, visited: false, newer: NONE, older: NONE });
            self.nodes.len() - 1
        } else {
            self.evict()
        };
        self.nodes[at] = Node { name, visited: false, newer: NONE, older: self.newest };
        if self.newest == NONE {
            self.oldest = at
        } else {
            self.nodes[self.newest].newer = at
        }
        self.newest = at;
        self.held.insert(name, at);
        false
    }
}

/// The cache itself, used like the server uses it.
struct Ours {
    cache: Cache,
    hashed: HashedName,
    room: [u8; 512],
}

impl Ours {
    fn new(bytes: usize) -> Ours {
        Ours { cache: cache_of(bytes), hashed: HashedName::new(), room: [0; 512] }
    }
}

impl Policy for Ours {
    fn ask(&mut self, name: u32) -> bool {
        let text = format!("n{name}.example.");
        self.hashed.set(&hash_key(), crate::support::name(&text).as_name());
        if self.cache.lookup(&key(&self.hashed, Type::A), at(0), &mut self.room) != Lookup::Miss {
            return true;
        }
        insert(&self.cache, address(&text, 3600, name, Credibility::Answer), 0).expect("kept");
        false
    }
}

/// Hit rates of the three on a trace, in percent of its second half, with the same number of entries.
fn compare(bytes: usize, trace: impl Fn(&mut Random, u32) -> u32) -> [f64; 3] {
    let mut ours = Ours::new(bytes);
    // As many entries as a full cache really holds.
    let mut full = Ours::new(bytes);
    (0..bytes as u32 / 64).for_each(|n| assert!(!full.ask(n)));
    let room = full.cache.stats().entries as usize;
    let (mut fifo, mut sieve) =
        (Fifo { held: HashMap::new(), order: VecDeque::new(), room }, Sieve::new(room));
    let policies: [&mut dyn Policy; 3] = [&mut ours, &mut fifo, &mut sieve];
    let rates = policies.map(|policy| {
        let (mut random, mut hits) = (Random(1), 0);
        let count = 400_000;
        for i in 0..count {
            let hit = policy.ask(trace(&mut random, i));
            hits += u32::from(hit && i >= count / 2);
        }
        hits as f64 * 200.0 / count as f64
    });
    println!(
        "{room} entries: S3-FIFO (the cache) {:.2} %, FIFO {:.2} %, SIEVE {:.2} %",
        rates[0], rates[1], rates[2]
    );
    rates
}

#[test]
fn it_hits_more_often_than_fifo_and_about_as_often_as_sieve() {
    let zipf = Zipf::new(100_000, 0.9);
    for bytes in [128 << 10, 1 << 20, 4 << 20] {
        let [ours, fifo, sieve] = compare(bytes, |random, _| zipf.draw(random));
        assert!(ours > fifo + 1.0 && ours > sieve - 2.0, "{ours} {fifo} {sieve}");
    }
}

#[test]
fn names_that_are_asked_for_once_do_not_push_out_the_others() {
    let zipf = Zipf::new(100_000, 0.9);
    for bytes in [128 << 10, 1 << 20, 4 << 20] {
        // Every other query is for a new name.
        let scan =
            |random: &mut Random, i: u32| if i.is_multiple_of(2) { 1_000_000 + i } else { zipf.draw(random) };
        let [ours, fifo, sieve] = compare(bytes, scan);
        assert!(ours > fifo + 1.0 && ours > sieve - 2.0, "{ours} {fifo} {sieve}");
    }
}
