//! [`SerialPolicy`]: the serial of the next version.

use std::cmp::Ordering;

use wire::{Serial, UnixTime};

/// Method for the serial of the next version. Each serial is greater than the one before (RFC 1982): if the
/// clock yields no greater serial, all methods increment by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SerialPolicy {
    /// Adds one. Skips 0, which some servers treat as no serial: 1 follows 4294967295.
    #[default]
    Increment,
    /// Seconds since 1970. Increments by one if that is not greater: for a second change within the same
    /// second, or if the clock is behind, or the current serial comes from a scheme that is ahead.
    UnixTime,
    /// The UTC date and two digits: YYYYMMDD00, then YYYYMMDD01. The hundredth change of a day continues into
    /// the numbers of the next day, and further changes beyond it; once the calendar is ahead again, the date
    /// is used again. Also increments by one if the clock is behind. Years beyond 4294 do not fit, and
    /// increment.
    Date,
}

impl SerialPolicy {
    /// The serial that follows `current`.
    pub fn next(self, current: Serial, now: UnixTime) -> Serial {
        let wanted = match self {
            Self::Increment => None,
            // RFC 4034 §3.1.5: such a time wraps from 4294967295 to 0.
            Self::UnixTime => Some(now.to_serial()),
            Self::Date => date(now).map(Serial),
        };
        let greater = |serial: &Serial| serial.0 != 0 && serial.compare(current) == Some(Ordering::Greater);
        wanted.filter(greater).unwrap_or(match current.0.wrapping_add(1) {
            0 => Serial(1),
            next => Serial(next),
        })
    }
}

/// YYYYMMDD00 for a time; `None` if it exceeds 32 bits.
fn date(now: UnixTime) -> Option<u32> {
    // Days since 1 March of the year 0, in eras of 400 years; years begin in March, so that the leap day is
    // the last one.
    let days = now.as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    u32::try_from(((year * 100 + month) * 100 + day).checked_mul(100)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 22 November 2026, 06:00:30.
    const NOW: u64 = 1_795_327_230;

    #[test]
    fn each_policy_has_its_number() {
        for (policy, current, next) in [
            (SerialPolicy::Increment, 7, 8),
            (SerialPolicy::Increment, u32::MAX, 1),
            (SerialPolicy::UnixTime, 7, NOW as u32),
            (SerialPolicy::UnixTime, NOW as u32, NOW as u32 + 1),
            (SerialPolicy::Date, 2_026_112_199, 2_026_112_200),
            (SerialPolicy::Date, 2_026_112_200, 2_026_112_201),
            (SerialPolicy::Date, 2_026_112_299, 2_026_112_300),
            (SerialPolicy::Date, 2_026_112_301, 2_026_112_302),
            // From seconds to dates is an increase; the reverse is not, and increments.
            (SerialPolicy::Date, NOW as u32, 2_026_112_200),
            (SerialPolicy::UnixTime, 2_026_112_200, 2_026_112_201),
        ] {
            assert_eq!(
                policy.next(Serial(current), UnixTime::from_secs(NOW)),
                Serial(next),
                "{policy:?} {current}"
            );
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (now, expected) in [
            (0, Some(1_970_010_100)),
            (951_782_400, Some(2_000_022_900)),
            (951_868_800, Some(2_000_030_100)),
            (4_107_542_399, Some(2_100_022_800)),
            (4_107_542_400, Some(2_100_030_100)),
            (NOW, Some(2_026_112_200)),
            (u64::MAX, None),
        ] {
            assert_eq!(date(UnixTime::from_secs(now)), expected, "{now}");
        }
    }

    proptest! {
        #[test]
        fn no_policy_goes_back(current: u32, now: u64, soon in 0..1u64 << 33) {
            for (policy, now) in [SerialPolicy::Increment, SerialPolicy::UnixTime, SerialPolicy::Date]
                .into_iter().flat_map(|policy| [(policy, now), (policy, soon)])
            {
                let next = policy.next(Serial(current), UnixTime::from_secs(now));
                prop_assert_eq!(next.compare(Serial(current)), Some(Ordering::Greater));
                prop_assert_ne!(next, Serial(0));
            }
        }
    }
}
