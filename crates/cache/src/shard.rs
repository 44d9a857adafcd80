//! A part of the cache with its own index, logs and mutex; inserts and evicts.
//!
//! New entries go into the log `small`. When one is the oldest there, it moves to `main` if it has been read,
//! and otherwise it is evicted and recorded in the ghost table. A new entry that is in the ghost table goes
//! into `main` directly. The oldest entry of `main` is appended again with one use less, or evicted if it has
//! no uses. That is S3-FIFO (Yang and others, SOSP 2023).
//!
//! Until `main` is full for the first time, it takes all entries that leave `small`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::Rcode;

use crate::atomic::AtomicU64;
use crate::clock::Now;
use crate::entry::{self, Head};
use crate::ghost::Ghost;
use crate::index::{Index, Slot, Which};
use crate::key::{EVERY_TYPE, Reach, Subject};
use crate::lines::{LINE, Lines};
use crate::log::{Ends, Log, Position};
use crate::sizes::Sizes;
use crate::stats::CacheStats;

/// Most entries that one insert appends again, so that no writer passes through the whole log: some 0.1 ms.
/// The next one is evicted although it is in use. Entries in use are adjacent, since one pass of the tail
/// leaves them so; with a much lower bound each insert would reach it and evict one of them.
const MOST_APPENDED_AGAIN: usize = 1024;

/// Slots that are checked at once for entries to drop. Then other writers may take the mutex: a shard has
/// some 200,000 slots, each of which needs another memory access. An entry never changes its slot, so none is
/// missed.
const SLOTS_PER_LOCK: usize = 4096;

/// One shard.
pub(crate) struct Shard {
    /// The memory of the index and both logs in one block: an empty shard takes one huge page instead of
    /// three.
    pub(crate) lines: Lines,
    pub(crate) index: Index,
    small: Log,
    main: Log,
    writers: Mutex<Writers>,
    /// Most lines of an entry.
    largest: usize,
}

/// State under the mutex.
struct Writers {
    small: Ends,
    main: Ends,
    /// Whether `main` has been full.
    main_was_full: bool,
    ghost: Ghost,
    stats: CacheStats,
}

/// An entry in the index.
struct Indexed {
    /// Its slot, and the slot's content.
    slot: usize,
    held: Slot,
    head: Head,
}

/// The oldest entry of a log.
struct Oldest {
    at: Position,
    head: Head,
    /// Its slot and the slot's content; `None` if the entry was replaced or dropped.
    slot: Option<(usize, Slot)>,
}

/// An entry to be written.
pub(crate) struct Draft<'a> {
    pub(crate) head: Head,
    pub(crate) name: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) ttls: &'a [u16],
}

/// Why an answer was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The present entry is fresh and has a higher credibility (RFC 2181 §5.4.1).
    Credibility,
    /// A TTL is 0: the answer is only valid for the query that brought it (RFC 1035 §3.2.1).
    ZeroTtl,
    /// It is larger than a quarter of the log for new entries.
    TooLarge,
    /// It is from a file and too old.
    Expired,
}

impl Shard {
    /// Creates an empty shard.
    pub(crate) fn new(sizes: &Sizes) -> Shard {
        let lines = Lines::new(sizes.lines());
        let behind_index = lines.first().after(sizes.pairs * Index::PAIR_LINES);
        let (small, small_ends) = Log::new(behind_index, sizes.small, 1);
        let (main, main_ends) = Log::new(behind_index.after(sizes.small), sizes.main, 1);
        let writers = Writers {
            small: small_ends,
            main: main_ends,
            main_was_full: false,
            ghost: Ghost::new(sizes.pairs),
            stats: CacheStats::default(),
        };
        let index = Index::new(lines.first(), sizes.pairs);
        Shard { lines, index, small, main, writers: Mutex::new(writers), largest: sizes.largest() }
    }

    /// Returns the bytes of the shard, itself included.
    pub(crate) fn bytes(&self) -> usize {
        let ghost = self.writers().ghost.bytes();
        size_of::<Shard>() + self.lines.bytes() + ghost
    }

    /// Makes the system map the memory of index and logs now. Takes no lock.
    pub(crate) fn touch(&self) {
        self.lines.touch();
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> CacheStats {
        self.writers().stats
    }

    /// Locks the mutex. A writer that panicked left at worst an entry without a slot, or lines that are free.
    fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn log(&self, which: Which) -> &Log {
        match which {
            Which::Small => &self.small,
            Which::Main => &self.main,
        }
    }

    /// Returns the words from a position of a log on.
    #[inline]
    pub(crate) fn words(&self, which: Which, at: Position) -> &[AtomicU64] {
        self.log(which).words(&self.lines, at)
    }

    /// Returns an entry. The caller must hold the mutex.
    fn entry_of(&self, subject: &Subject, name: &[u8]) -> Option<Indexed> {
        let full_hash = subject.full_hash();
        self.index.held(&self.lines, subject.hash).filter(|(_, held)| held.may_be(full_hash)).find_map(
            |(slot, held)| {
                let words = self.words(held.which(), held.at());
                let head = Head::read(words)?;
                let same = head.subject == *subject
                    && head.name_len as usize == name.len()
                    && entry::is_named(words, name);
                same.then_some(Indexed { slot, held, head })
            },
        )
    }

    /// Inserts an entry in place of the one with the same key.
    pub(crate) fn insert(&self, draft: &Draft<'_>, now: Now, max_stale: u32) -> Result<(), Refused> {
        let (head, lines) = (&draft.head, draft.head.lines());
        let mut writers = self.writers();
        if lines > self.largest {
            writers.stats.refused_size += 1;
            return Err(Refused::TooLarge);
        }
        let rival = rival(head);
        let before = self.entry_of(&head.subject, draft.name);
        let denied = rival.and_then(|rival| self.entry_of(&rival, draft.name));
        let outranks = |other: &Indexed| other.head.until > now && other.head.rank > head.rank;
        if before.iter().chain(&denied).any(outranks) {
            writers.stats.refused_rank += 1;
            return Err(Refused::Credibility);
        }
        if let Some(Indexed { slot, head, .. }) = denied {
            self.drop_entry(&mut writers, slot, &head);
        }
        let full_hash = head.subject.full_hash();
        let (which, uses) = match before {
            // The new entry keeps the uses of the old one.
            Some(Indexed { held, .. }) => (held.which(), held.uses()),
            None if writers.ghost.recall(full_hash) => (Which::Main, 0),
            None => (Which::Small, 0),
        };
        let at = match which {
            Which::Small => self.room_in_small(&mut writers, lines, now, max_stale),
            Which::Main => self.room_in_main(&mut writers, lines, now, max_stale),
        };
        // Making room may have dropped or moved the old entry.
        let slot = match self.entry_of(&head.subject, draft.name) {
            Some(Indexed { slot, head, .. }) => {
                writers.discount(&head);
                slot
            }
            None => self.free_slot(&mut writers, head.subject.hash),
        };
        self.log(which).take(writers.ends(which), at, lines);
        self.log(which).write(&self.lines, at, entry::words(head, draft.name, draft.body, draft.ttls));
        self.index.store(&self.lines, slot, Slot::new(full_hash, which, at, uses));
        writers.stats.inserts += 1;
        writers.stats.entries += 1;
        writers.stats.bytes += (lines * LINE) as u64;
        Ok(())
    }

    /// Removes an entry from the index. Its lines stay in use until the tail passes them.
    fn drop_entry(&self, writers: &mut Writers, slot: usize, head: &Head) {
        self.index.store(&self.lines, slot, Slot::EMPTY);
        writers.discount(head);
    }

    /// Returns an empty slot for this hash. If there is none, evicts the entry of least worth: with the
    /// fewest uses, where being in `main` counts as one, and of those the oldest.
    fn free_slot(&self, writers: &mut Writers, hash: u64) -> usize {
        let mut least: Option<((u64, Now), usize, Head)> = None;
        for slot in self.index.candidates(hash) {
            let held = self.index.load(&self.lines, slot);
            let front = Head::read(self.words(held.which(), held.at()));
            let Some(head) = front.filter(|_| !held.is_empty()) else { return slot };
            let worth = (held.uses() + u64::from(held.which() == Which::Main), head.stored);
            if least.is_none_or(|(lowest, ..)| worth < lowest) {
                least = Some((worth, slot, head));
            }
        }
        // There are always candidates.
        let Some((_, slot, head)) = least else { return 0 };
        self.drop_entry(writers, slot, &head);
        writers.stats.evictions += 1;
        slot
    }

    /// Returns the oldest entry of a log; `None` if the log is empty.
    fn oldest(&self, which: Which, ends: &Ends) -> Option<Oldest> {
        let log = self.log(which);
        let at = log.oldest(ends)?;
        let head = Head::read(log.words(&self.lines, at))?;
        let slot = self
            .index
            .held(&self.lines, head.subject.hash)
            .find(|(_, held)| held.at() == at && held.which() == which);
        Some(Oldest { at, head, slot })
    }

    /// Makes room for `lines` lines in the log for new entries.
    fn room_in_small(&self, writers: &mut Writers, lines: usize, now: Now, max_stale: u32) -> Position {
        loop {
            if let Some(at) = self.small.fits(&writers.small, lines) {
                return at;
            }
            let Some(Oldest { at, head, slot }) = self.oldest(Which::Small, &writers.small) else {
                self.small.restart(&mut writers.small);
                continue;
            };
            let size = head.lines();
            if let Some((slot, held)) = slot {
                let over = head.freshness(now, max_stale).is_none();
                let room = !writers.main_was_full && self.main.fits(&writers.main, size).is_some();
                if !over && (held.uses() > 0 || room) {
                    let to = self.room_in_main(writers, size, now, max_stale);
                    self.main.take(&mut writers.main, to, size);
                    self.main.write_from(&self.lines, to, &self.small, at, size);
                    self.index.store(&self.lines, slot, held.moved(Which::Main, to, 0));
                } else {
                    self.evict(writers, slot, &head, over);
                }
            }
            self.small.free(&mut writers.small, size);
        }
    }

    /// Makes room for `lines` lines in the main log.
    fn room_in_main(&self, writers: &mut Writers, lines: usize, now: Now, max_stale: u32) -> Position {
        let mut appended = 0;
        loop {
            if let Some(at) = self.main.fits(&writers.main, lines) {
                return at;
            }
            writers.main_was_full = true;
            let Some(Oldest { at, head, slot }) = self.oldest(Which::Main, &writers.main) else {
                self.main.restart(&mut writers.main);
                continue;
            };
            let size = head.lines();
            self.main.free(&mut writers.main, size);
            let Some((slot, held)) = slot else { continue };
            let over = head.freshness(now, max_stale).is_none();
            let again = !over && held.uses() > 0 && appended < MOST_APPENDED_AGAIN;
            // It fits where it has just been freed.
            match self.main.fits(&writers.main, size).filter(|_| again) {
                Some(to) => {
                    appended += 1;
                    self.main.take(&mut writers.main, to, size);
                    self.main.write_from(&self.lines, to, &self.main, at, size);
                    self.index.store(&self.lines, slot, held.moved(Which::Main, to, held.uses() - 1));
                }
                None => self.evict(writers, slot, &head, over),
            }
        }
    }

    /// Evicts an entry; `over` if it had expired for good.
    fn evict(&self, writers: &mut Writers, slot: usize, head: &Head, over: bool) {
        self.drop_entry(writers, slot, head);
        if over {
            writers.stats.expired += 1;
        } else {
            writers.stats.evictions += 1;
            writers.ghost.remember(head.subject.full_hash());
        }
    }

    /// Drops the entries that `goes` selects, of those present at the start, and returns their number.
    pub(crate) fn drop_where(&self, mut goes: impl FnMut(&Head, &[AtomicU64]) -> bool) -> usize {
        let mut dropped = 0;
        if self.writers().stats.entries == 0 {
            return 0;
        }
        let slots = self.index.slots();
        for first in (0..slots).step_by(SLOTS_PER_LOCK) {
            let mut writers = self.writers();
            for slot in first..slots.min(first + SLOTS_PER_LOCK) {
                let held = self.index.load(&self.lines, slot);
                let words = self.words(held.which(), held.at());
                let Some(head) = Head::read(words).filter(|_| !held.is_empty()) else { continue };
                if goes(&head, words) {
                    self.drop_entry(&mut writers, slot, &head);
                    dropped += 1;
                }
            }
        }
        dropped
    }
}

impl Writers {
    /// Counts a removed entry.
    fn discount(&mut self, head: &Head) {
        self.stats.entries -= 1;
        self.stats.bytes -= (head.lines() * LINE) as u64;
    }

    fn ends(&mut self, which: Which) -> &mut Ends {
        match which {
            Which::Small => &mut self.small,
            Which::Main => &mut self.main,
        }
    }
}

/// Returns the key of the entry that an answer contradicts: data of any type contradicts an NXDOMAIN, and an
/// NXDOMAIN the data of the queried type. `None` for failures, which contradict nothing, and for an NXDOMAIN
/// of a single type, which agrees with both.
fn rival(head: &Head) -> Option<Subject> {
    let denies_one_type =
        head.rcode == Rcode::NXDOMAIN && head.subject.qtype != EVERY_TYPE && head.counts[0] == 0;
    if head.flags.is_failure() || denies_one_type {
        return None;
    }
    let qtype = if head.subject.qtype == EVERY_TYPE { head.asked } else { EVERY_TYPE };
    Some(Subject { qtype, ..head.subject })
}

impl Draft<'_> {
    /// The draft of an entry for an answer whose TTLs are settled.
    pub(crate) fn of<'a>(
        answer: &'a crate::answer::Answer,
        subject: Subject,
        stored: Now,
        lifetime: u32,
    ) -> Draft<'a> {
        debug_assert_eq!(subject.flags.is_failure(), answer.reach() == Reach::Failure);
        let name = answer.name.as_lower().as_wire();
        let head = Head {
            subject,
            flags: subject.flags.and(answer.flags()),
            stored,
            until: stored.plus(lifetime),
            rank: answer.terms.rank,
            rcode: answer.rcode,
            counts: answer.counts,
            asked: answer.qtype,
            // It always fits: a name has at most 255 bytes, a message 65,535.
            name_len: name.len() as u8,
            ttls: answer.ttls.len() as u16,
            body_len: answer.body.len() as u16,
        };
        Draft { head, name, body: &answer.body, ttls: &answer.ttls }
    }
}
