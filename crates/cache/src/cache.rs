//! The public interface of the cache.

use wire::hash::{HashKey, HashedName};
use wire::message::{HEADER_LEN, QUESTION_TAIL};
use wire::{LowerName, LowerNameBuf, Type};

use crate::answer::{Answer, AnswerKind, rewrite};
use crate::clock::Now;
use crate::config::{CacheConfig, ConfigFault};
use crate::entry;
use crate::held::Held;
use crate::key::{EVERY_TYPE, Key, Reach};
use crate::lookup::{Lead, Lookup, Staleness};
use crate::message::message;
use crate::shard::{Draft, Refused, Shard};
use crate::sizes::Sizes;
use crate::stats::CacheStats;

/// A cache for answers of other servers. Any number of threads read and write it; readers take no lock.
///
/// A batch of queries goes through it in passes, so that the memory accesses overlap:
///
/// ```text
/// for each query      prefetch_find   the memory that `find` will read
/// for each query      find            the probable position of the answer: a lead
/// for each lead       prefetch        the memory that `copy` will read
/// for each lead       copy            the answer, aged
/// ```
///
/// Nothing waits for a prefetch, so the accesses of a whole batch are in flight at once.
pub struct Cache {
    shards: Box<[Shard]>,
    key: HashKey,
    config: CacheConfig,
}

/// The entries that [`Cache::flush`] drops.
#[derive(Clone, Copy, Debug)]
pub struct Flush<'n> {
    /// Entries of this name,
    pub name: LowerName<'n>,
    /// and, if set, of all names below it;
    pub tree: bool,
    /// of this type, and NXDOMAIN since it denies all types; `None` for every type;
    pub qtype: Option<Type>,
    /// and of this view; `None` for every view.
    pub view: Option<u32>,
}

impl Cache {
    /// Creates an empty cache for names hashed under `key`.
    pub fn new(config: &CacheConfig, key: HashKey) -> Result<Cache, ConfigFault> {
        let sizes = Sizes::of(config, size_of::<Shard>())?;
        let shards = (0..sizes.shards).map(|_| Shard::new(&sizes)).collect();
        Ok(Cache { shards, key, config: config.clone() })
    }

    /// Returns the hash key of names.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    /// Returns the configuration.
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// Returns the bytes reserved, at most [`CacheConfig::bytes`].
    pub fn reserved(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// Makes the system map the cache's memory now, all but the ghost tables, about a hundredth. Otherwise it
    /// is mapped as the cache fills, and a thread that inserts an answer waits until a page is cleared, which
    /// takes long for a huge page. Other threads may use the cache meanwhile.
    pub fn preallocate(&self) {
        self.shards.iter().for_each(Shard::touch);
    }

    /// Returns the counters of all shards.
    pub fn stats(&self) -> CacheStats {
        self.shards.iter().map(Shard::stats).fold(CacheStats::default(), CacheStats::plus)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // The upper half of the hash, scaled to the number of shards; there is at least one.
        let shard = ((hash >> 32) * self.shards.len() as u64) >> 32;
        &self.shards[shard as usize]
    }

    fn staleness(&self) -> Staleness {
        Staleness { max: self.config.max_stale, ttl: self.config.stale_ttl }
    }

    /// Prefetches the memory that [`find`](Self::find) will read.
    #[inline]
    pub fn prefetch_find(&self, key: &Key<'_>) {
        let hash = key.subject(Reach::Type).hash;
        let shard = self.shard(hash);
        shard.index.prefetch(&shard.lines, hash);
    }

    /// Returns the probable position of the answer to a query, or of an NXDOMAIN for the name. `None` if
    /// there is none.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> Option<Lead> {
        self.shard(key.subject(Reach::Type).hash).find(key)
    }

    /// Prefetches the memory that [`copy`](Self::copy) will read.
    #[inline]
    pub fn prefetch(&self, lead: &Lead) {
        self.shard(lead.hash).prefetch(lead);
    }

    /// Copies the answer at a lead for the same key into `room`, with aged TTLs: the part of a reply behind
    /// its question. Unless the result is a hit, the content of `room` is unspecified.
    #[inline]
    pub fn copy(&self, lead: &Lead, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        self.shard(lead.hash).copy(lead, key, now, self.staleness(), room)
    }

    /// Runs all passes for one query.
    #[inline]
    pub fn lookup(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        self.find(key).map_or(Lookup::Miss, |lead| self.copy(&lead, key, now, room))
    }

    /// Looks up a cached failure to answer a query (RFC 9520). Call it if there is no fresh answer: failures
    /// are stored beside answers, so that these can still be served when they are stale (RFC 8767 §5).
    pub fn failure(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        let shard = self.shard(key.subject(Reach::Failure).hash);
        let staleness = Staleness { max: 0, ..self.staleness() };
        shard.search(key, &[Reach::Failure], 0, now, staleness, room)
    }

    /// Looks up a fresh NXDOMAIN of an ancestor, which denies the name as well (RFC 8020 §2), written for a
    /// query for the name itself. Allocates: use it for queries that would otherwise need a lookup at other
    /// servers.
    pub fn nxdomain_above(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        let staleness = Staleness { max: 0, ..self.staleness() };
        let mut body = Vec::new();
        for skip in 1..key.name.label_count() {
            let shard = self.shard(key.subject_of_suffix(skip, Reach::Name).hash);
            // Most ancestors are not denied, and need no buffer.
            let needed = match shard.search(key, &[Reach::Name], skip, now, staleness, &mut []) {
                Lookup::Miss => continue,
                Lookup::Hit(hit) | Lookup::TooLong(hit) => hit.len,
            };
            body.resize(needed, 0);
            let Lookup::Hit(hit) = shard.search(key, &[Reach::Name], skip, now, staleness, &mut body) else {
                continue;
            };
            let ancestor = key.name.suffix(skip);
            let message = message(hit.rcode, ancestor, key.qtype, key.qclass, hit.counts, &body[..hit.len]);
            let Ok(written) = rewrite(&message, key.name.as_lower().as_name()) else { continue };
            let denial = &written[HEADER_LEN + key.name.as_lower().len() + QUESTION_TAIL..];
            let hit = crate::Hit { len: denial.len(), ..hit };
            return match room.get_mut(..denial.len()) {
                Some(room) => {
                    room.copy_from_slice(denial);
                    Lookup::Hit(hit)
                }
                None => Lookup::TooLong(hit),
            };
        }
        Lookup::Miss
    }

    /// Stores a new answer and replaces the entry with the same key.
    ///
    /// An NXDOMAIN also replaces the data of the queried type, and data replaces an NXDOMAIN. A failure
    /// replaces no other entry.
    pub fn insert(&self, answer: Answer, now: Now) -> Result<(), Refused> {
        self.insert_aged(answer, 0, now)
    }

    /// Stores an answer that is `age` seconds old.
    pub(crate) fn insert_aged(&self, mut answer: Answer, age: u32, now: Now) -> Result<(), Refused> {
        let lifetime = answer.settle(&self.config);
        if lifetime == 0 {
            return Err(Refused::ZeroTtl);
        }
        let stored = now.minus(age);
        let max_stale = if answer.kind() == AnswerKind::Failure { 0 } else { self.config.max_stale };
        if now.since(stored) < age || stored.plus(lifetime).plus(max_stale) <= now {
            return Err(Refused::Expired);
        }
        let mut name = HashedName::new();
        name.set(&self.key, answer.name.as_name());
        let key = Key {
            name: &name,
            qtype: answer.qtype,
            qclass: answer.qclass,
            view: answer.terms.view,
            dnssec_ok: answer.terms.dnssec_ok,
            checking_disabled: answer.terms.checking_disabled,
        };
        let subject = key.subject(answer.reach());
        let draft = Draft::of(&answer, subject, stored, lifetime);
        self.shard(subject.hash).insert(&draft, now, self.config.max_stale)
    }

    /// Drops entries and returns their number. Visits every entry; writers of a shard wait meanwhile, readers
    /// do not.
    pub fn flush(&self, what: &Flush<'_>) -> usize {
        let goes = |head: &entry::Head, words: &[crate::atomic::AtomicU64]| {
            if what.view.is_some_and(|view| view != head.subject.view) {
                return false;
            }
            let every = head.subject.qtype == EVERY_TYPE;
            if what.qtype.is_some_and(|qtype| qtype != head.subject.qtype && !every) {
                return false;
            }
            name_of(head, words).is_some_and(|name| {
                let name = name.as_lower();
                if what.tree { name.is_at_or_below(what.name) } else { name == what.name }
            })
        };
        self.shards.iter().map(|shard| shard.drop_where(goes)).sum()
    }

    /// Like [`flush`](Self::flush), for all names that `goes` selects. Returns the number of entries dropped.
    pub fn flush_names(&self, goes: impl Fn(LowerName<'_>) -> bool) -> usize {
        let goes = |head: &entry::Head, words: &[crate::atomic::AtomicU64]| {
            name_of(head, words).is_some_and(|name| goes(name.as_lower()))
        };
        self.shards.iter().map(|shard| shard.drop_where(goes)).sum()
    }

    /// Calls `show` with every entry that may be served, fresh or stale, in no order. Takes no lock: entries
    /// that are inserted or dropped meanwhile may be shown or not.
    pub fn for_each(&self, now: Now, mut show: impl FnMut(&Held)) {
        for shard in &self.shards {
            for slot in 0..shard.index.slots() {
                if let Some(held) = shard.held(slot, now, self.config.max_stale) {
                    show(&held);
                }
            }
        }
    }
}

/// Returns the name of an entry. The caller must hold the shard's mutex.
fn name_of(head: &entry::Head, words: &[crate::atomic::AtomicU64]) -> Option<LowerNameBuf> {
    let mut bytes = [0; 255];
    let bytes = bytes.get_mut(..head.name_len as usize)?;
    entry::copy(words, entry::HEAD, bytes);
    Some(LowerName::of_checked(bytes).to_buf())
}
