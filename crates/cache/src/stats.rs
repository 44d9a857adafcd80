//! What a cache counts of itself.

/// What is in a cache and what became of what came. Hits are not here: those who look up count them, each for
/// himself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries that lookups can find, those that have expired included until they are dropped.
    pub entries: u64,
    /// Bytes that these take.
    pub bytes: u64,
    /// Answers that were kept.
    pub inserts: u64,
    /// Entries dropped to make room while they could still have been served, fresh or stale.
    pub evictions: u64,
    /// Entries dropped that could not even be served stale any more.
    pub expired: u64,
    /// Answers refused because something of higher rank was there (RFC 2181 §5.4.1).
    pub refused_rank: u64,
    /// Answers refused because they were too large.
    pub refused_size: u64,
}

impl Stats {
    /// Both together.
    pub fn plus(self, other: Stats) -> Stats {
        Stats {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
            inserts: self.inserts + other.inserts,
            evictions: self.evictions + other.evictions,
            expired: self.expired + other.expired,
            refused_rank: self.refused_rank + other.refused_rank,
            refused_size: self.refused_size + other.refused_size,
        }
    }
}
