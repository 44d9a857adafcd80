//! The operator's settings.

use std::fmt;

/// Size and lifetimes of a cache. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Most bytes of the cache in total. Default 268,435,456 (256 MiB). They are reserved at the start;
    /// memory is taken as they fill.
    pub bytes: usize,
    /// Number of parts that are written independently: a power of two up to 256, or 0 for one per 32 MiB, at
    /// most 64. Default 0.
    pub shards: usize,
    /// Lifetime of positive answers, whatever their TTLs (RFC 8767 §4, RFC 1035 §7.3). Default 0 to 86,400.
    pub positive: Lifetime,
    /// Lifetime of NXDOMAIN and NODATA (RFC 2308 §5). Default 0 to 10,800, the most that the RFC recommends.
    pub negative: Lifetime,
    /// Lifetime of failures: `min` if the caller gives no time (RFC 9520 §3.2: at least 1 second, at most
    /// 300). Default 2 to 300, since an outage may end at any time.
    pub failure: Lifetime,
    /// How long expired entries are kept, to be served if no server answers (RFC 8767 §5). 0 for not at all.
    /// Default 86,400.
    pub max_stale: u32,
    /// TTL of the records in stale answers (RFC 8767 §4 recommends 30). Default 30.
    pub stale_ttl: u32,
}

/// Bounds of a lifetime, in seconds.
///
/// A TTL of 0 is not raised to `min`: the answer is only valid for the query that brought it (RFC 1035
/// §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Shorter times become this.
    pub min: u32,
    /// Longer times become this.
    pub max: u32,
}

impl Lifetime {
    /// Returns the nearest time within the bounds.
    pub(crate) fn clamp(self, seconds: u32) -> u32 {
        seconds.max(self.min).min(self.max)
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            bytes: 256 << 20,
            shards: 0,
            positive: Lifetime { min: 0, max: 86_400 },
            negative: Lifetime { min: 0, max: 10_800 },
            failure: Lifetime { min: 2, max: 300 },
            max_stale: 86_400,
            stale_ttl: 30,
        }
    }
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// Each shard needs at least this many bytes.
    TooFewBytes {
        /// Bytes that the cache would need.
        least: usize,
    },
    /// The logs of one shard would exceed the range of positions; use more shards.
    TooFewShards,
    /// The number of shards is not a power of two, or exceeds 256.
    Shards,
    /// A `min` is greater than its `max`.
    Bounds,
    /// A time exceeds [`CacheConfig::MAX_LIFETIME_SECS`], or failures would be cached for less than 1 or more
    /// than 300 seconds.
    Time,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewBytes { least } => write!(f, "the cache needs at least {least} bytes"),
            Self::TooFewShards => f.write_str("the cache is too large for so few shards"),
            Self::Shards => f.write_str("the number of shards must be a power of two up to 256, or 0"),
            Self::Bounds => f.write_str("the shortest time is longer than the longest one"),
            Self::Time => f.write_str("a time is too long, or too short for failures"),
        }
    }
}
impl std::error::Error for ConfigFault {}

impl CacheConfig {
    /// Longest time that an entry may be kept, fresh or stale: 30 days.
    pub const MAX_LIFETIME_SECS: u32 = 30 * 86_400;

    /// Longest time for failures, in seconds (RFC 9520 §3.2).
    const LONGEST_FAILURE: u32 = 300;

    /// Checks the times.
    pub(crate) fn check(&self) -> Result<(), ConfigFault> {
        for bounds in [self.positive, self.negative, self.failure] {
            if bounds.min > bounds.max {
                return Err(ConfigFault::Bounds);
            }
            if bounds.max > Self::MAX_LIFETIME_SECS {
                return Err(ConfigFault::Time);
            }
        }
        if self.max_stale > Self::MAX_LIFETIME_SECS
            || self.failure.min < 1
            || self.failure.max > Self::LONGEST_FAILURE
        {
            return Err(ConfigFault::Time);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_can_be_used() {
        assert!(CacheConfig::default().check().is_ok());
    }

    #[test]
    fn faults_are_named() {
        let with = |change: fn(&mut CacheConfig)| {
            let mut config = CacheConfig::default();
            change(&mut config);
            config.check().err()
        };
        assert_eq!(with(|c| c.negative.min = 10_801), Some(ConfigFault::Bounds));
        assert_eq!(with(|c| c.positive.max = CacheConfig::MAX_LIFETIME_SECS + 1), Some(ConfigFault::Time));
        assert_eq!(with(|c| c.max_stale = u32::MAX), Some(ConfigFault::Time));
        assert_eq!(with(|c| c.failure.min = 0), Some(ConfigFault::Time));
        assert_eq!(with(|c| c.failure.max = 301), Some(ConfigFault::Time));
    }
}
