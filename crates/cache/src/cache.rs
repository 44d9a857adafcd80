//! The cache as its users see it.

use wire::hash::{HashKey, HashedName};
use wire::message::{HEADER_LEN, QUESTION_TAIL};
use wire::{LowerName, LowerNameBuf, Type};

use crate::answer::{Answer, AnswerKind, rewrite};
use crate::clock::Now;
use crate::config::{Config, ConfigFault};
use crate::entry;
use crate::held::Held;
use crate::key::{EVERY_TYPE, Key, Reach};
use crate::lookup::{Lead, Lookup, Staleness};
use crate::message::message;
use crate::shard::{Draft, Refused, Shard};
use crate::sizes::Sizes;
use crate::stats::Stats;

/// Answers of other servers. Read and written by any number of threads at once; readers take no lock.
///
/// A batch of questions goes through it in passes, so that its waits for memory overlap:
///
/// ```text
/// for each question   prefetch_find   what `find` will read
/// for each question   find            where the answer probably lies: a lead
/// for each lead       prefetch        what `copy` will read
/// for each lead       copy            the answer, aged
/// ```
///
/// Nothing waits for a prefetch, so a whole batch has its memory under way at once.
pub struct Cache {
    shards: Box<[Shard]>,
    key: HashKey,
    config: Config,
}

/// Which entries [`Cache::flush`] drops.
#[derive(Clone, Copy, Debug)]
pub struct Flush<'n> {
    /// Those of this name,
    pub name: LowerName<'n>,
    /// and, if set, of all names below it,
    pub tree: bool,
    /// of this type, NXDOMAIN included since it denies them all; `None` for every type,
    pub qtype: Option<Type>,
    /// and of this view; `None` for every one.
    pub view: Option<u32>,
}

impl Cache {
    /// An empty cache for names hashed under `key`.
    pub fn new(config: &Config, key: HashKey) -> Result<Cache, ConfigFault> {
        let sizes = Sizes::of(config, size_of::<Shard>())?;
        let shards = (0..sizes.shards).map(|_| Shard::new(&sizes)).collect();
        Ok(Cache { shards, key, config: config.clone() })
    }

    /// The key under which names are looked up.
    pub fn key(&self) -> &HashKey {
        &self.key
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes reserved, never more than [`Config::bytes`].
    pub fn reserved(&self) -> usize {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// Has the system give the cache's memory now, all but that of what remembers dropped entries, a
    /// hundredth. Else it is given as the cache fills, and a thread that stores an answer waits until a page
    /// is cleared, which takes long if it is a huge one. Others may use the cache meanwhile.
    pub fn preallocate(&self) {
        self.shards.iter().for_each(Shard::touch);
    }

    /// What is in it and what has happened so far.
    pub fn stats(&self) -> Stats {
        self.shards.iter().map(Shard::stats).fold(Stats::default(), Stats::plus)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard {
        // The upper bits of the hash, as many as a power of two needs; there is at least one shard.
        let shard = ((hash >> 32) * self.shards.len() as u64) >> 32;
        &self.shards[shard as usize]
    }

    fn staleness(&self) -> Staleness {
        Staleness { max: self.config.max_stale, ttl: self.config.stale_ttl }
    }

    /// Prefetches what [`find`](Self::find) will read.
    #[inline]
    pub fn prefetch_find(&self, key: &Key<'_>) {
        let hash = key.subject(Reach::Type).hash;
        let shard = self.shard(hash);
        shard.index.prefetch(&shard.lines, hash);
    }

    /// Where the answer to a question probably lies, an NXDOMAIN of the name included. `None` if there is
    /// none.
    #[inline]
    pub fn find(&self, key: &Key<'_>) -> Option<Lead> {
        self.shard(key.subject(Reach::Type).hash).find(key)
    }

    /// Prefetches what [`copy`](Self::copy) will read.
    #[inline]
    pub fn prefetch(&self, lead: &Lead) {
        self.shard(lead.hash).prefetch(lead);
    }

    /// Copies the answer that a lead for the same key leads to into `room`, which is what a reply has behind
    /// its question, and ages its TTLs. Unless the result is a hit, the content of `room` is unspecified.
    #[inline]
    pub fn copy(&self, lead: &Lead, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        self.shard(lead.hash).copy(lead, key, now, self.staleness(), room)
    }

    /// All passes for one question.
    #[inline]
    pub fn lookup(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        self.find(key).map_or(Lookup::Miss, |lead| self.copy(&lead, key, now, room))
    }

    /// The failure to answer a question, if one is remembered (RFC 9520). Asked for where there is no fresh
    /// answer: failures are kept beside answers, so that these can still be served when they are stale (RFC
    /// 8767 §5).
    pub fn failure(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        let shard = self.shard(key.subject(Reach::Failure).hash);
        let staleness = Staleness { max: 0, ..self.staleness() };
        shard.search(key, &[Reach::Failure], 0, now, staleness, room)
    }

    /// An NXDOMAIN of an ancestor of the name, which denies the name as well (RFC 8020 §2), written for a
    /// question with the name itself. Only fresh ones count. Allocates: for questions that would else go to
    /// another server.
    pub fn nxdomain_above(&self, key: &Key<'_>, now: Now, room: &mut [u8]) -> Lookup {
        let staleness = Staleness { max: 0, ..self.staleness() };
        let mut body = Vec::new();
        for skip in 1..key.name.label_count() {
            let shard = self.shard(key.subject_of_suffix(skip, Reach::Name).hash);
            // Most ancestors are not denied, and need no room.
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

    /// Keeps an answer that has just come, in place of what was kept under the same key.
    ///
    /// An NXDOMAIN takes the place of the data of the type that was asked for, and data that of an NXDOMAIN.
    /// A failure takes no other entry's place.
    pub fn insert(&self, answer: Answer, now: Now) -> Result<(), Refused> {
        self.insert_aged(answer, 0, now)
    }

    /// Keeps an answer that is so many seconds old.
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

    /// Drops entries and returns their number. Looks at every entry; writers of a shard wait meanwhile,
    /// readers do not.
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

    /// Drops the entries of names that `goes` picks, and returns their number; as [`flush`](Self::flush), for
    /// many names at once.
    pub fn flush_names(&self, goes: impl Fn(LowerName<'_>) -> bool) -> usize {
        let goes = |head: &entry::Head, words: &[crate::atomic::AtomicU64]| {
            name_of(head, words).is_some_and(|name| goes(name.as_lower()))
        };
        self.shards.iter().map(|shard| shard.drop_where(goes)).sum()
    }

    /// Shows every entry that may be served, fresh or stale, in no order. Takes no lock: what comes in or
    /// goes meanwhile may be seen or not.
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

/// The name of an entry, for those who hold the mutex of its shard.
fn name_of(head: &entry::Head, words: &[crate::atomic::AtomicU64]) -> Option<LowerNameBuf> {
    let mut bytes = [0; 255];
    let bytes = bytes.get_mut(..head.name_len as usize)?;
    entry::copy(words, entry::HEAD, bytes);
    Some(LowerName::of_checked(bytes).to_buf())
}
