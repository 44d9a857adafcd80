//! Every order in which a reader may see a writer's steps, as far as the memory model allows it: the protocol
//! of `src/log.rs`, compiled with atomics that try all orders.

/// The atomics of the model.
mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    pub(crate) fn zeroed(words: usize) -> Box<[AtomicU64]> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }
}

#[path = "../src/lines.rs"]
#[allow(dead_code, unused_imports, reason = "the test needs a part of it, and not its tests")]
mod lines;
#[path = "../src/log.rs"]
#[allow(dead_code, reason = "the test needs a part of it")]
mod log;

use std::sync::Arc;

use atomic::{AtomicU64, Ordering};
use lines::Lines;
use log::{Ends, Log, Position};
use loom::sync::Mutex;
use loom::thread;

/// Words of an entry that are written and read: enough for one old and one new.
const WORDS: usize = 2;

/// A log of one line, so that each entry overwrites the previous one, and a slot that points to the last one.
struct Model {
    lines: Lines,
    log: Log,
    ends: Mutex<Ends>,
    slot: AtomicU64,
}

impl Model {
    fn new() -> Arc<Model> {
        let lines = Lines::new(1);
        let (log, ends) = Log::new(lines.first(), 1, 1);
        let model = Model { lines, log, ends: Mutex::new(ends), slot: AtomicU64::new(0) };
        model.insert();
        Arc::new(model)
    }

    /// Writes an entry whose words are its position.
    fn insert(&self) {
        let mut ends = self.ends.lock().expect("no thread panics");
        let at = loop {
            match self.log.fits(&ends, 1) {
                Some(at) => break at,
                None => self.log.free(&mut ends, 1),
            }
        };
        self.log.take(&mut ends, at, 1);
        self.log.write(&self.lines, at, std::iter::repeat_n(at.0, WORDS));
        self.slot.store(at.0, Ordering::Release);
    }

    /// Counts a use in the upper half of the slot.
    fn note_use(&self, held: u64) {
        let used = held + (1 << 60);
        let _ = self.slot.compare_exchange(held, used, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn read(&self) {
        let held = self.slot.load(Ordering::Acquire);
        let at = Position(held & ((1 << 60) - 1));
        let words: Vec<u64> = self
            .log
            .words(&self.lines, at)
            .iter()
            .take(WORDS)
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        if self.log.holds(at) {
            assert_eq!(words, [at.0; WORDS], "an entry that was taken for good is not what was written");
            self.note_use(held);
        }
    }
}

/// Tries every order of the threads with a bounded number of preemptions; without the bound it takes minutes.
/// Two preemptions are enough to break an algorithm that lacks a fence.
fn every_order(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

fn a_reader_beside_a_writer_takes_nothing_wrong() {
    every_order(|| {
        let model = Model::new();
        let writer = {
            let model = model.clone();
            thread::spawn(move || (0..2).for_each(|_| model.insert()))
        };
        model.read();
        writer.join().expect("the writer ends");
    });
}

fn a_use_counted_by_another_reader_hides_nothing() {
    every_order(|| {
        let model = Model::new();
        let writer = {
            let model = model.clone();
            thread::spawn(move || model.insert())
        };
        let other = {
            let model = model.clone();
            thread::spawn(move || model.read())
        };
        model.read();
        other.join().expect("the reader ends");
        writer.join().expect("the writer ends");
    });
}

/// One thread moves the tail and another writes the lines: only the mutex orders them.
fn lines_freed_by_one_writer_may_be_written_by_another() {
    every_order(|| {
        let model = Model::new();
        let freeing = {
            let model = model.clone();
            thread::spawn(move || {
                let mut ends = model.ends.lock().expect("no thread panics");
                if model.log.oldest(&ends).is_some() {
                    model.log.free(&mut ends, 1);
                }
            })
        };
        let writing = {
            let model = model.clone();
            thread::spawn(move || model.insert())
        };
        model.read();
        freeing.join().expect("the writer ends");
        writing.join().expect("the writer ends");
    });
}

fn main() {
    a_reader_beside_a_writer_takes_nothing_wrong();
    a_use_counted_by_another_reader_hides_nothing();
    lines_freed_by_one_writer_may_be_written_by_another();
}
