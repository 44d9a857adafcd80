//! Lookups of entries without a lock.

use wire::{LowerName, Rcode};

use crate::clock::Now;
use crate::credibility::Credibility;
use crate::entry::{self, Head};
use crate::index::Slot;
use crate::key::{Key, Reach, Subject};
use crate::shard::Shard;

/// The probable position of an answer: the result of [`Cache::find`](crate::Cache::find), for
/// [`Cache::copy`](crate::Cache::copy).
#[derive(Clone, Copy, Debug)]
pub struct Lead {
    pub(crate) hash: u64,
    /// The slot's content.
    pub(crate) held: Slot,
    pub(crate) slot: u32,
    pub(crate) reach: Reach,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// No entry that may be served, not even stale.
    Miss,
    /// An answer, copied.
    Hit(Hit),
    /// An answer that is longer than the buffer. Nothing was copied; the reply has to be truncated (RFC 2181
    /// §9).
    TooLong(Hit),
}

impl Lookup {
    /// Returns the hit, copied or not.
    pub fn hit(&self) -> Option<&Hit> {
        match self {
            Lookup::Miss => None,
            Lookup::Hit(hit) | Lookup::TooLong(hit) => Some(hit),
        }
    }
}

/// Properties of the answer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Length in bytes of the part behind the question.
    pub len: usize,
    /// Whether it is fresh or expired.
    pub freshness: Freshness,
    /// The response code. The upper bits go into OPT.
    pub rcode: Rcode,
    /// Whether it is negative: NXDOMAIN or NODATA, for QNAME or the end of an alias chain.
    pub negative: bool,
    /// AA of the response.
    pub authoritative: bool,
    /// AD of the response (RFC 4035 §3.2.3).
    pub authentic: bool,
    /// Records in the answer, authority and additional section.
    pub counts: [u16; 3],
    /// Its credibility.
    pub rank: Credibility,
    /// The answer is popular and in the last tenth of its lifetime: the caller should prefetch it. Set for
    /// one lookup only.
    pub prefetch: bool,
}

/// Whether an answer is fresh or expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Valid for this many seconds more, at least 1.
    Fresh(u32),
    /// Expired this many seconds ago; may be served if no server answers (RFC 8767).
    Stale(u32),
}

/// Settings for stale answers, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Staleness {
    /// [`CacheConfig::max_stale`](crate::CacheConfig::max_stale).
    pub(crate) max: u32,
    /// [`CacheConfig::stale_ttl`](crate::CacheConfig::stale_ttl).
    pub(crate) ttl: u32,
}

/// Uses from which on an entry is popular.
const POPULAR_USES: u64 = 2;

/// An entry that matches the key.
struct Match {
    slot: usize,
    held: Slot,
    head: Head,
    freshness: Freshness,
}

impl Head {
    /// Returns whether the entry is fresh or stale; `None` if it must not be served.
    #[inline]
    pub(crate) fn freshness(&self, now: Now, max_stale: u32) -> Option<Freshness> {
        let left = self.until.since(now);
        if left > 0 {
            return Some(Freshness::Fresh(left));
        }
        let ago = now.since(self.until);
        // Failures are not served stale (RFC 9520 §3.2).
        let max_stale = if self.flags.is_failure() { 0 } else { max_stale };
        (ago < max_stale).then_some(Freshness::Stale(ago))
    }
}

impl Shard {
    /// Returns the first entry whose slot matches the query.
    #[inline]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Lead> {
        let subject = key.subject(Reach::Type);
        let (full, denial) = (subject.full_hash(), key.subject(Reach::Name).full_hash());
        let mut lead = None;
        for (slot, held) in self.index.held(&self.lines, subject.hash) {
            let reach = match held {
                held if held.may_be(full) => Reach::Type,
                held if held.may_be(denial) && lead.is_none() => Reach::Name,
                _ => continue,
            };
            lead = Some(Lead { hash: subject.hash, held, slot: slot as u32, reach });
            if reach == Reach::Type {
                break;
            }
        }
        lead
    }

    /// Prefetches the entry at a lead.
    #[inline]
    pub(crate) fn prefetch(&self, lead: &Lead) {
        self.log(lead.held.which()).prefetch(&self.lines, lead.held.at());
    }

    /// Copies the entry at a lead, if it is fresh, or else searches again.
    #[inline]
    pub(crate) fn copy(
        &self,
        lead: &Lead,
        key: &Key<'_>,
        now: Now,
        staleness: Staleness,
        room: &mut [u8],
    ) -> Lookup {
        let subject = key.subject(lead.reach);
        let name = key.name.as_lower();
        let found = self.verify(lead.slot as usize, lead.held, &subject, name, now, staleness.max);
        if let Some(found) = found.filter(|found| matches!(found.freshness, Freshness::Fresh(_)))
            && let Some(lookup) = self.take(&found, now, staleness, room)
        {
            return lookup;
        }
        self.search(key, &[Reach::Type, Reach::Name], 0, now, staleness, room)
    }

    /// Copies the best matching entry for a query or, with `skip`, for an ancestor of its name: fresh before
    /// stale, then in the order of `reaches`.
    pub(crate) fn search(
        &self,
        key: &Key<'_>,
        reaches: &[Reach],
        skip: usize,
        now: Now,
        staleness: Staleness,
        room: &mut [u8],
    ) -> Lookup {
        // Repeated once if the entry is dropped or moved during the copy.
        for _ in 0..2 {
            let mut best: Option<Match> = None;
            for &reach in reaches {
                let subject = key.subject_of_suffix(skip, reach);
                let full_hash = subject.full_hash();
                for (slot, held) in
                    self.index.held(&self.lines, subject.hash).filter(|(_, held)| held.may_be(full_hash))
                {
                    let name = key.name.suffix(skip);
                    let Some(found) = self.verify(slot, held, &subject, name, now, staleness.max) else {
                        continue;
                    };
                    let fresh = |found: &Match| matches!(found.freshness, Freshness::Fresh(_));
                    if best.as_ref().is_none_or(|best| fresh(&found) && !fresh(best)) {
                        best = Some(found);
                    }
                }
            }
            let Some(best) = best else { break };
            if let Some(lookup) = self.take(&best, now, staleness, room) {
                return lookup;
            }
        }
        Lookup::Miss
    }

    /// Returns the entry of a slot, if it is for this subject and may be served.
    #[inline]
    fn verify(
        &self,
        slot: usize,
        held: Slot,
        subject: &Subject,
        name: LowerName<'_>,
        now: Now,
        max_stale: u32,
    ) -> Option<Match> {
        let log = self.log(held.which());
        let words = log.words(&self.lines, held.at());
        let head = Head::read(words)?;
        let same = head.subject == *subject
            && head.name_len as usize == name.len()
            && entry::is_named(words, name.as_wire());
        if !same || !log.holds(held.at()) {
            return None;
        }
        let freshness = head.freshness(now, max_stale)?;
        Some(Match { slot, held, head, freshness })
    }

    /// Copies an entry and ages its TTLs; `None` if it was dropped or moved meanwhile.
    #[inline]
    fn take(&self, found: &Match, now: Now, staleness: Staleness, room: &mut [u8]) -> Option<Lookup> {
        let Match { held, head, freshness, .. } = found;
        let log = self.log(held.which());
        let len = head.body_len as usize;
        let to = room.get_mut(..len);
        let fits = to.is_some();
        if let Some(to) = to {
            let words = log.words(&self.lines, held.at());
            entry::copy(words, head.body_at(), to);
            let age = now.since(head.stored);
            for place in entry::ttl_places(words, head) {
                let Some(field) = to.get_mut(place).and_then(|field| field.first_chunk_mut::<4>()) else {
                    continue;
                };
                let ttl = match freshness {
                    Freshness::Fresh(_) => u32::from_be_bytes(*field).saturating_sub(age),
                    Freshness::Stale(_) => staleness.ttl,
                };
                *field = ttl.to_be_bytes();
            }
            if !log.holds(held.at()) {
                return None;
            }
        }
        let hit = Hit {
            len,
            freshness: *freshness,
            rcode: head.rcode,
            negative: head.flags.is_negative(),
            authoritative: head.flags.authoritative(),
            authentic: head.flags.authentic(),
            counts: head.counts,
            rank: head.rank,
            prefetch: self.note_use(found),
        };
        Some(if fits { Lookup::Hit(hit) } else { Lookup::TooLong(hit) })
    }

    /// Counts a use of an entry, and returns whether it should be prefetched. Does not write to the slot of
    /// an entry with the maximum of uses.
    #[inline]
    fn note_use(&self, found: &Match) -> bool {
        let Match { slot, held, head, freshness } = *found;
        let ending = match freshness {
            Freshness::Fresh(left) => left as u64 * 10 <= head.lifetime() as u64,
            Freshness::Stale(_) => false,
        };
        let prefetch =
            ending && held.uses() >= POPULAR_USES && !held.is_announced() && !head.flags.is_failure();
        let after = if prefetch { held.used().announced() } else { held.used() };
        // The exchange fails if another thread has counted a use, or if the entry was dropped.
        after != held && self.index.exchange(&self.lines, slot, held, after) && prefetch
    }
}
