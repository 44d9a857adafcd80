//! Text for operators: reasons of I/O errors, times, bounded lists, and suggestions for misspelt words.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use wire::UnixTime;

/// Whether the process is in a sandbox.
static IN_SANDBOX: AtomicBool = AtomicBool::new(false);

/// From now on, reasons of errors mention that the sandbox may be what denies access.
pub fn mention_sandbox() {
    IN_SANDBOX.store(true, Relaxed);
}

/// Returns the text of an I/O error for operators, without the number.
pub fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied if IN_SANDBOX.load(Relaxed) => {
            "permission denied, or outside the sandbox".into()
        }
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    }
}

/// Returns a time in the form of RFC 3339, in UTC, with milliseconds.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    match calendar(UnixTime::from(time)) {
        Some([date, clock]) => format!("{date}T{clock}.{:03}Z", since.subsec_millis()),
        None => format!("{}", since.as_secs()),
    }
}

/// Returns the date and time in UTC; after the year 2105, seconds since 1970.
pub fn moment(time: UnixTime) -> String {
    match calendar(time) {
        Some([date, clock]) => format!("{date} {clock} UTC"),
        None => time.to_string(),
    }
}

/// Returns date and time of day, in UTC; `None` after the year 2105.
fn calendar(time: UnixTime) -> Option<[String; 2]> {
    struct Digits(u32);
    impl fmt::Display for Digits {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            wire::text::write_time(self.0, f)
        }
    }
    let digits = Digits(u32::try_from(time.as_secs()).ok()?).to_string();
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    let date = format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8));
    Some([date, format!("{}:{}:{}", part(8, 10), part(10, 12), part(12, 14))])
}

/// Longest list that is printed in full, in bytes.
const LONGEST_LIST: usize = 160;

/// Returns a list of words, cut to a readable length.
pub fn bounded_list(words: &[&str]) -> String {
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        if at > 0 && text.len() + word.len() > LONGEST_LIST {
            return format!("{text} and {} more: see `nomen check --print-reference`", words.len() - at);
        }
        text += if at > 0 { ", " } else { "" };
        text += word;
    }
    text
}

/// Returns the candidate closest to a misspelt word, by edit distance; `None` if none is close.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let allowed = (length / 3).max(1);
    candidates
        .into_iter()
        // There may be millions of candidates; each edit changes a word's length by at most one.
        .filter(|c| c.chars().count().abs_diff(length) <= allowed)
        .map(|c| (edit_distance(word, c), c))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn one word into
/// the other; `_` equals `-`, and case is ignored.
fn edit_distance(a: &str, b: &str) -> usize {
    let fold = |word: &str| word.replace('_', "-").to_ascii_lowercase();
    strsim::osa_distance(&fold(a), &fold(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits_and_swaps() {
        assert_eq!(edit_distance("workers", "workers"), 0);
        assert_eq!(edit_distance("wrokers", "workers"), 1);
        assert_eq!(edit_distance("worker", "workers"), 1);
        assert_eq!(edit_distance("max_udp_size", "max-udp-size"), 0);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(moment(UnixTime::EPOCH), "1970-01-01 00:00:00 UTC");
        assert_eq!(moment(UnixTime::from_secs(1_795_369_660)), "2026-11-22 17:47:40 UTC");
        assert_eq!(moment(UnixTime::from_secs(u64::MAX)), u64::MAX.to_string());
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_795_369_660, 5_999_999);
        assert_eq!(rfc3339(time), "2026-11-22T17:47:40.005Z");
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(bounded_list(&["a", "b"]), "a, b");
        let many = bounded_list(&["abcdefgh"; 100]);
        assert!(
            many.len() < 250 && many.ends_with("abcdefgh and 84 more: see `nomen check --print-reference`"),
            "{many}"
        );
    }

    #[test]
    fn suggestions_are_near_or_absent() {
        assert_eq!(did_you_mean("threds", ["user", "threads"]), Some("threads"));
        assert_eq!(did_you_mean("cache", ["user", "threads"]), None);
    }
}
