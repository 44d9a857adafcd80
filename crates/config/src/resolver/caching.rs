//! Keys of `[resolver]` about the cache: its size, its lifetimes, and the file that stores it between runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cache::Lifetime;
use toml::Spanned;
use toml::de::DeValue;

use crate::report::Diagnostic;
use crate::table::keys;
use crate::table::read::Reader;
use crate::table::value::{Seconds, Size, Time, Value, quote};

/// Longest lifetime of any entry, in seconds.
const MAX_LIFETIME_SECS: u32 = cache::CacheConfig::MAX_LIFETIME_SECS;
/// Longest lifetime of a cached failure, in seconds (RFC 9520 §3.2).
const LONGEST_FAILURE: u32 = 300;

keys! {
    /// Keys about the cache.
    pub struct Caching {
        /// Memory limit of the cache. Address space is reserved at the start, and memory is used as answers
        /// are stored.
        restart "cache-size" size: Size<{ 1 << 20 }, { 64 << 30 }> = Size(256 << 20), example "1GiB";
        /// Allocate that memory at the start, in the background. Otherwise the system allocates it while the
        /// cache fills, which delays single answers: by milliseconds with huge pages, above all on virtual
        /// machines.
        restart "cache-preallocate" preallocate: bool = false, example true;
        /// File that stores the cache while nomen does not run; "none": the cache is not stored. Unset:
        /// `cache` in the state folder, if there is one (`state-dir` of `[server]`). A file that is damaged
        /// or too old is not used.
        restart "cache-file" file: Option<CacheFileSetting> = None, example "/var/lib/nomen/cache";
        /// Interval at which the cache is written to its file. It is also written when nomen stops.
        restart "cache-save-interval" save_interval: Time<10_000, 86_400_000> = Time::secs(900), example "1h";
        /// Shortest time that answers with data are cached, unless their TTL is 0. More than a few seconds
        /// overrides what the zones' operators intend.
        restart "min-ttl" min_ttl: Seconds<0, 3600> = Seconds(0), example "5s";
        /// Longest time that answers with data are cached, whatever their TTL.
        restart "max-ttl" max_ttl: Seconds<0, MAX_LIFETIME_SECS> = Seconds(86_400), example "12h";
        /// Longest time that negative answers are cached (RFC 2308 §5).
        restart "max-negative-ttl" max_negative_ttl: Seconds<0, MAX_LIFETIME_SECS> = Seconds(10_800), example "1h";
        /// Time that a resolution failure is cached (RFC 9520 §3.2).
        restart "failure-ttl" failure_ttl: Seconds<1, LONGEST_FAILURE> = Seconds(2), example "10s";
        /// Time that expired answers stay cached, to be served if no server answers (RFC 8767). "0s": none
        /// do.
        restart "serve-stale" serve_stale: Seconds<0, MAX_LIFETIME_SECS> = Seconds(86_400), example "3d";
        /// TTL of the records in an expired answer (RFC 8767 §4).
        restart "stale-answer-ttl" stale_answer_ttl: Seconds<1, 3600> = Seconds(30), example "20s";
    }
}

impl Caching {
    /// Returns the settings of the cache.
    pub fn config(&self) -> cache::CacheConfig {
        let defaults = cache::CacheConfig::default();
        cache::CacheConfig {
            bytes: self.size.0,
            positive: Lifetime { min: self.min_ttl.0, max: self.max_ttl.0 },
            negative: Lifetime { max: self.max_negative_ttl.0, ..defaults.negative },
            failure: Lifetime { min: self.failure_ttl.0, max: LONGEST_FAILURE },
            max_stale: self.serve_stale.0,
            stale_ttl: self.stale_answer_ttl.0,
            ..defaults
        }
    }

    /// Returns whether the cache takes its memory at the start.
    pub fn preallocate(&self) -> bool {
        *self.preallocate
    }

    /// Returns the file of the cache, if it has one, given the state folder.
    pub fn file(&self, state_folder: Option<&Path>) -> Option<PathBuf> {
        match &self.file.value {
            Some(CacheFileSetting::At(path)) => Some(path.clone()),
            Some(CacheFileSetting::Unkept) => None,
            None => state_folder.map(|folder| folder.join("cache")),
        }
    }

    /// Returns the interval at which the cache is saved to the file.
    pub fn save_interval(&self) -> Duration {
        self.save_interval.0
    }

    pub(super) fn check(&self, faults: &mut Vec<Diagnostic>) {
        let (min, max) = (&self.min_ttl, &self.max_ttl);
        if min.0 > max.0 {
            let [low, high] = [min.value.render(), max.value.render()].map(Option::unwrap_or_default);
            let message = format!("`min-ttl` {low} is longer than `max-ttl` {high}");
            faults.push(Diagnostic::at(min.place.as_ref().or(max.place.as_ref()), message));
        }
    }
}

/// Whether the cache is stored between runs, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheFileSetting {
    /// It is not stored.
    Unkept,
    /// It is stored in this file.
    At(PathBuf),
}

/// The word for [`CacheFileSetting::Unkept`].
const UNKEPT: &str = "none";

impl Value for CacheFileSetting {
    fn kind() -> String {
        format!("{} or \"{UNKEPT}\"", PathBuf::kind())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.get_ref().as_str() == Some(UNKEPT) {
            return Some(Self::Unkept);
        }
        PathBuf::read(node, reader).map(Self::At)
    }
    fn render(&self) -> Option<String> {
        match self {
            Self::Unkept => Some(quote(UNKEPT)),
            Self::At(path) => path.render(),
        }
    }
}
