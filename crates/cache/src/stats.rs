//! The counters of a cache.

/// The contents and history of a cache. Hits are not counted here, but by each thread that looks up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries in the index, with expired ones that are not dropped yet.
    pub entries: u64,
    /// Bytes of these entries.
    pub bytes: u64,
    /// Answers stored.
    pub inserts: u64,
    /// Entries evicted that could still have been served, fresh or stale.
    pub evictions: u64,
    /// Entries evicted that were too old even to be served stale.
    pub expired: u64,
    /// Answers refused because a fresh entry has a higher credibility (RFC 2181 §5.4.1).
    pub refused_rank: u64,
    /// Answers refused because they were too large.
    pub refused_size: u64,
}

impl CacheStats {
    /// Returns the sums of both.
    pub fn plus(self, other: CacheStats) -> CacheStats {
        CacheStats {
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
