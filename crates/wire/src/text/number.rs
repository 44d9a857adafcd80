//! Numbers, durations and points in time, parsed without `str`.

use std::fmt;

use super::write_ascii;

/// Parses decimal digits, nothing else; `None` also if the number exceeds 64 bits.
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit as u64)?;
    }
    Some(value)
}

/// Parses a time span in seconds, plain or with units in any letter case: `3600`, `1h`, `1w2d3h4m5s`.
///
/// A number after the last unit counts as seconds, as in other zone file readers. `None` for anything else,
/// and for more than 32 bits.
#[inline]
pub fn duration(text: &[u8]) -> Option<u32> {
    let (mut total, mut value, mut digits) = (0u64, 0u64, false);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + digit as u64;
            digits = true;
        } else {
            let unit = match byte | 0x20 {
                b's' => 1,
                b'm' => 60,
                b'h' => 3_600,
                b'd' => 86_400,
                b'w' => 604_800,
                _ => return None,
            };
            if !digits {
                return None;
            }
            total += value * unit;
            (value, digits) = (0, false);
        }
        // Keeps all later steps far below overflow.
        if value > u32::MAX as u64 || total > u32::MAX as u64 {
            return None;
        }
    }
    if text.is_empty() {
        return None;
    }
    u32::try_from(total + value).ok()
}

/// Days from 1970-01-01 to the first of `month` (1 to 12) in `year`, in the Gregorian calendar from 1970 on.
fn days_to_month(year: u64, month: u64) -> u64 {
    // Years that begin in March have the leap day at the end. Their months have 31, 30, 31, 30 and 31 days,
    // which is 153 in five, repeatedly: (m * 153 + 2) / 5 is 0, 31, 61, 92, 122, 153 for the first six.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 - 719_468
}

/// Parses `YYYYMMDDHHmmSS` (UTC) or seconds since 1970 up to 32 bits (RFC 4034 §3.2).
///
/// A date beyond 2106 is taken modulo 2³², as the field is a serial number (RFC 4034 §3.1.5).
#[inline]
pub fn time(text: &[u8]) -> Option<u32> {
    let value = decimal(text)?;
    if text.len() != 14 {
        return u32::try_from(value).ok();
    }
    let part = |divisor: u64, modulus: u64| value / divisor % modulus;
    let (year, month, day) = (value / 10_000_000_000, part(100_000_000, 100), part(1_000_000, 100));
    let (hour, minute, second) = (part(10_000, 100), part(100, 100), part(1, 100));
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 || day == 0 {
        return None;
    }
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let first = days_to_month(year, month);
    if day > days_to_month(next_year, next_month) - first {
        return None;
    }
    Some(((first + day - 1) * 86_400 + hour * 3_600 + minute * 60 + second) as u32)
}

/// Writes seconds since 1970 as `YYYYMMDDHHmmSS`; 32 bits end in 2106.
pub fn write_time(seconds: u32, to: &mut dyn fmt::Write) -> fmt::Result {
    let days = seconds as u64 / 86_400;
    // Estimates the year by the mean length of a year, and corrects it.
    let mut year = 1970 + days * 400 / 146_097;
    while days_to_month(year + 1, 1) <= days {
        year += 1;
    }
    while days_to_month(year, 1) > days {
        year -= 1;
    }
    let month = (1..=12).rev().find(|&m| days_to_month(year, m) <= days).unwrap_or(1);
    let day = days - days_to_month(year, month) + 1;
    let clock = seconds as u64 % 86_400;
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    let digits = ((((year * 100 + month) * 100 + day) * 100 + hour) * 100 + minute) * 100 + second;
    write_decimal(digits, to)
}

/// Writes a number in decimal.
pub fn write_decimal(value: u64, to: &mut dyn fmt::Write) -> fmt::Result {
    let (mut digits, mut at, mut left) = ([0u8; 20], 20, value);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return write_ascii(&digits[at..], to);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_add_up_their_units() {
        assert_eq!(duration(b"3600"), Some(3600));
        assert_eq!(duration(b"1w2d3h4m5s"), Some(604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5));
        assert_eq!(duration(b"1H30"), Some(3630));
        assert_eq!(duration(b"4294967295"), Some(u32::MAX));
        for bad in ["", "h", "1hh", "1x", "-1", "4294967296", "99999999w", "1 h"] {
            assert_eq!(duration(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn times_are_utc_dates_or_seconds() {
        assert_eq!(time(b"19700101000000"), Some(0));
        assert_eq!(time(b"20030322173103"), Some(1_048_354_263));
        assert_eq!(time(b"1048354263"), Some(1_048_354_263));
        assert_eq!(time(b"20240229000000"), Some(1_709_164_800));
        assert_eq!(time(b"21060207062815"), Some(u32::MAX));
        assert_eq!(time(b"21060207062816"), Some(0));
        for bad in ["20230229000000", "20231301000000", "20230100000000", "20230101240000", "4294967296", "x"]
        {
            assert_eq!(time(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn times_read_back(seconds: u32) {
            let mut text = String::new();
            prop_assert!(write_time(seconds, &mut text).is_ok());
            prop_assert_eq!(text.len(), 14);
            prop_assert_eq!(time(text.as_bytes()), Some(seconds));
        }

        #[test]
        fn numbers_agree_with_std(value: u64) {
            let mut text = String::new();
            prop_assert!(write_decimal(value, &mut text).is_ok());
            prop_assert_eq!(&text, &value.to_string());
            prop_assert_eq!(decimal(text.as_bytes()), Some(value));
            prop_assert_eq!(decimal(format!("{text}{text}").as_bytes()), format!("{text}{text}").parse().ok());
        }
    }
}
