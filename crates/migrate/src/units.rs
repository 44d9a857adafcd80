//! Numbers, times and sizes in the formats of other programs, and in nomen's.

/// Parses a number with a unit of size: `512`, `16k`, `4M`, `1G`, `2GiB`; units are powers of 1024.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].to_ascii_lowercase();
    let shift = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Parses seconds: a number, numbers with units (`1w2d3h4m5s`), or an ISO 8601 duration (`P1DT2H`).
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let (iso, mut rest) = match text.strip_prefix('p') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let (mut total, mut in_time) = (0u64, !iso);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('t').filter(|_| !in_time) {
            (rest, in_time) = (after, true);
            continue;
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next();
        let factor = match unit {
            None if !iso => 1,
            Some('s') => 1,
            Some('m') if in_time => 60,
            Some('h') => 3600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            // As BIND counts them.
            Some('m') if iso => 31 * 86_400,
            Some('y') if iso && !in_time => 365 * 86_400,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = &rest[digits + unit.map_or(0, char::len_utf8)..];
    }
    Some(total)
}

/// Parses all spellings of yes and no.
pub(crate) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "on" | "true" | "1" => Some(true),
        "no" | "off" | "false" | "0" => Some(false),
        _ => None,
    }
}

/// A duration in nomen's format.
pub(crate) fn duration(ms: u64) -> String {
    for (unit, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= factor && ms.is_multiple_of(factor) {
            return format!("{}{unit}", ms / factor);
        }
    }
    if ms == 0 { "0s".into() } else { format!("{ms}ms") }
}

/// A size in nomen's format.
pub(crate) fn bytes(size: u64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if size >= 1 << shift && size.is_multiple_of(1 << shift) {
            return format!("{}{unit}", size >> shift);
        }
    }
    size.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_are_read() {
        assert_eq!(size("512"), Some(512));
        assert_eq!(size("16k"), Some(16 << 10));
        assert_eq!(size("4MB"), Some(4 << 20));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(size("99999999999999999999"), None);
        assert_eq!(size("99999999999G"), None);
        assert_eq!(size("5q"), None);
        assert_eq!(seconds("90"), Some(90));
        assert_eq!(seconds("1w2d3h4m5s"), Some(604_800 + 2 * 86_400 + 3 * 3600 + 4 * 60 + 5));
        assert_eq!(seconds("P1DT2H"), Some(86_400 + 7200));
        assert_eq!(seconds("pt5m"), Some(300));
        assert_eq!(seconds("p5m"), Some(5 * 31 * 86_400));
        assert_eq!(seconds("P1YT1M"), Some(365 * 86_400 + 60));
        assert_eq!(seconds("1y"), None);
        assert_eq!(seconds(""), None);
        assert_eq!(seconds("1é"), None);
        assert_eq!(duration(90_000), "90s");
        assert_eq!(duration(3_600_000), "1h");
        assert_eq!(bytes(1 << 20), "1MiB");
    }
}
