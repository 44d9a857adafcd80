//! Values of the answers of `nomen ctl`, as text.

use serde_json::Value;
use transport::unix_now;
use wire::UnixTime;
use wording::moment;

/// Keys of times in seconds since 1970, anywhere in an answer.
const TIMES: [&str; 25] = [
    "last_used",
    "loaded",
    "signatures_end",
    "signed_until",
    "started",
    "confirmed",
    "attempted",
    "next_refresh",
    "next_attempt",
    "next_try",
    "expires",
    "at",
    "last",
    "paused_until",
    "next_look",
    "first_expiration",
    "since",
    "until",
    "current_at",
    "seen",
    "checked",
    "slot_since",
    "next_slot",
    "response_until",
    "keys_until",
];

/// Returns the value of a key on one line: times as date, time and age.
pub(super) fn value_text(key: &str, value: &Value) -> String {
    match value.as_u64().filter(|_| TIMES.contains(&key)) {
        Some(seconds) => moment_and_age(UnixTime::from_secs(seconds), unix_now()),
        None => flat(value),
    }
}

/// Returns a time as text, with its age at `now`.
pub(super) fn moment_and_age(time: UnixTime, now: UnixTime) -> String {
    let age = in_days(time.abs_diff(now).as_secs());
    let age = if time > now { format!("in {age}") } else { format!("{age} ago") };
    format!("{} ({age})", moment(time))
}

/// Returns a value on one line: objects as `key value, key value`.
pub(super) fn flat(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        Value::Object(map) => {
            let parts: Vec<String> = map.iter().map(|(k, v)| format!("{k} {}", value_text(k, v))).collect();
            parts.join(", ")
        }
        Value::Array(all) => all.iter().map(flat).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns a duration in its two largest units.
pub(super) fn in_days(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, minutes) => format!("{minutes}m{}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}
