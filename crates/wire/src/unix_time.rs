//! Wall-clock time in whole seconds, and its form in signatures.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::Serial;

/// A time in whole seconds since 1970-01-01 00:00:00 UTC, without leap seconds.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct UnixTime(u64);

impl UnixTime {
    /// 1970-01-01 00:00:00 UTC.
    pub const EPOCH: UnixTime = UnixTime(0);

    /// The time this many seconds after [`EPOCH`](Self::EPOCH).
    #[inline]
    pub const fn from_secs(seconds: u64) -> UnixTime {
        UnixTime(seconds)
    }

    /// Seconds since [`EPOCH`](Self::EPOCH).
    #[inline]
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// The time `duration` later, whose fraction of a second is ignored.
    #[inline]
    pub const fn saturating_add(self, duration: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(duration.as_secs()))
    }

    /// The time `duration` earlier, whose fraction of a second is ignored; not before 1970.
    #[inline]
    pub const fn saturating_sub(self, duration: Duration) -> UnixTime {
        UnixTime(self.0.saturating_sub(duration.as_secs()))
    }

    /// The time from `earlier` to this; zero if `earlier` is later.
    #[inline]
    pub const fn saturating_duration_since(self, earlier: UnixTime) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }

    /// The time between this and `other`.
    #[inline]
    pub const fn abs_diff(self, other: UnixTime) -> Duration {
        Duration::from_secs(self.0.abs_diff(other.0))
    }

    /// The time in the form of signatures: modulo 2³² (RFC 4034 §3.1.5).
    #[inline]
    pub const fn to_serial(self) -> Serial {
        Serial(self.0 as u32)
    }

    /// The time nearest to this one that has this form in signatures (RFC 4034 §3.1.5); not before 1970.
    #[inline]
    pub const fn nearest(self, serial: Serial) -> UnixTime {
        let ahead = serial.0.wrapping_sub(self.to_serial().0) as i32;
        UnixTime(self.0.saturating_add_signed(ahead as i64))
    }
}

impl From<SystemTime> for UnixTime {
    /// Drops the fraction of a second; a time before 1970 becomes [`UnixTime::EPOCH`].
    fn from(time: SystemTime) -> UnixTime {
        UnixTime(time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }
}

impl From<UnixTime> for SystemTime {
    /// A time that the system cannot represent becomes its epoch.
    fn from(time: UnixTime) -> SystemTime {
        let epoch = SystemTime::UNIX_EPOCH;
        epoch.checked_add(Duration::from_secs(time.0)).unwrap_or(epoch)
    }
}

impl fmt::Display for UnixTime {
    /// Seconds since 1970 in decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stops_at_both_ends() {
        let (second, last) = (Duration::from_secs(1), UnixTime::from_secs(u64::MAX));
        assert_eq!(UnixTime::EPOCH.saturating_sub(second), UnixTime::EPOCH);
        assert_eq!(last.saturating_add(second), last);
        assert_eq!(last.saturating_sub(Duration::MAX), UnixTime::EPOCH);
        assert_eq!(UnixTime::EPOCH.saturating_duration_since(last), Duration::ZERO);
        assert_eq!(UnixTime::from_secs(7).saturating_duration_since(UnixTime::from_secs(5)), 2 * second);
    }

    #[test]
    fn the_clock_of_the_system_is_converted() {
        let half = SystemTime::UNIX_EPOCH + Duration::from_millis(7500);
        assert_eq!(UnixTime::from(half), UnixTime::from_secs(7));
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(UnixTime::from(before), UnixTime::EPOCH);
        assert_eq!(UnixTime::from(SystemTime::from(UnixTime::from_secs(7))), UnixTime::from_secs(7));
        assert_eq!(SystemTime::from(UnixTime::from_secs(u64::MAX)), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn times_of_signatures_are_the_nearest() {
        let turn = 1 << 32;
        for (now, serial, time) in [
            (1_700_000_000, 1_700_000_300, 1_700_000_300),
            (turn - 5, 10, turn + 10),
            (turn + 10, u32::MAX, turn - 1),
            // 68 years before 1970 there is no time.
            (5, u32::MAX, 0),
        ] {
            assert_eq!(UnixTime::from_secs(now).nearest(Serial(serial)), UnixTime::from_secs(time), "{now}");
        }
        assert_eq!(UnixTime::from_secs(turn + 10).to_serial(), Serial(10));
    }
}
