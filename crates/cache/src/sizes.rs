//! Divides the bytes of a cache.

use crate::config::{CacheConfig, ConfigFault};
use crate::ghost::Ghost;
use crate::index::{Index, PAIR_SLOTS};
use crate::lines::{LINE, Lines};

/// Bytes of entries for each slot of the index. Small answers take two lines, those with a few records three
/// or four, signed ones more; a slot for every two lines is enough for a cache of small answers.
const BYTES_PER_SLOT: usize = 2 * LINE;

/// Least bytes of a shard.
const MIN_SHARD_BYTES: usize = 64 << 10;

/// Bytes per shard, if the configuration does not set their number. Each shard begins at a huge page where
/// the system has them, so many shards take much memory while they are empty; and few are enough for the
/// writers, which all take little time.
const BYTES_PER_SHARD: usize = 32 << 20;

/// Most shards, if chosen by size, and if configured.
const MAX_SHARDS: (usize, usize) = (64, 256);

/// Most lines in one shard: a position must have enough bits left for laps.
const MOST_LINES: usize = 1 << 24;

/// The sizes of the parts of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Number of shards, a power of two.
    pub(crate) shards: usize,
    /// Pairs of buckets in the index of each shard.
    pub(crate) pairs: usize,
    /// Lines of the log for new entries of each shard.
    pub(crate) small: usize,
    /// Lines of the main log of each shard.
    pub(crate) main: usize,
}

impl Sizes {
    /// Checks a configuration and divides its bytes. `shard` is the size of a shard's other parts in bytes.
    pub(crate) fn of(config: &CacheConfig, shard: usize) -> Result<Sizes, ConfigFault> {
        config.check()?;
        let bytes = config.bytes;
        let shards = match config.shards {
            0 => (bytes / BYTES_PER_SHARD).clamp(1, MAX_SHARDS.0).next_power_of_two(),
            n if n.is_power_of_two() && n <= MAX_SHARDS.1 => n,
            _ => return Err(ConfigFault::Shards),
        };
        let each = bytes / shards;
        if each < MIN_SHARD_BYTES {
            return Err(ConfigFault::TooFewBytes { least: MIN_SHARD_BYTES * shards });
        }
        let fixed = shard + Lines::bytes_for(0);
        let left = each.saturating_sub(fixed);
        let pair = Index::PAIR_BYTES + Ghost::PAIR_BYTES;
        let pairs = left / (PAIR_SLOTS * BYTES_PER_SLOT + pair);
        let lines = (left - pairs * pair) / LINE;
        if lines > MOST_LINES {
            return Err(ConfigFault::TooFewShards);
        }
        let small = lines / 10;
        Ok(Sizes { shards, pairs, small, main: lines - small })
    }

    /// Returns the lines of a shard: its index and both logs.
    pub(crate) fn lines(&self) -> usize {
        self.pairs * Index::PAIR_LINES + self.small + self.main
    }

    /// Returns the most lines of an entry: one entry must not evict all new ones.
    pub(crate) fn largest(&self) -> usize {
        self.small / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes with 1 KiB for a shard's other parts.
    fn sizes(config: &CacheConfig) -> Result<Sizes, ConfigFault> {
        Sizes::of(config, 1 << 10)
    }

    #[test]
    fn the_default_can_be_used() {
        assert!(sizes(&CacheConfig::default()).is_ok());
    }

    #[test]
    fn faults_are_named() {
        let with = |change: fn(&mut CacheConfig)| {
            let mut config = CacheConfig::default();
            change(&mut config);
            sizes(&config).err()
        };
        assert_eq!(with(|c| c.shards = 3), Some(ConfigFault::Shards));
        assert_eq!(with(|c| c.shards = 512), Some(ConfigFault::Shards));
        assert_eq!(with(|c| c.bytes = 1000), Some(ConfigFault::TooFewBytes { least: 65_536 }));
        assert_eq!(with(|c| (c.bytes, c.shards) = (1 << 46, 1)), Some(ConfigFault::TooFewShards));
        assert_eq!(with(|c| c.failure.min = 0), Some(ConfigFault::Time));
    }
}
