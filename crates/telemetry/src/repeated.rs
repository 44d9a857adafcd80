//! Repeated log lines. The first line of a kind about an object is logged at once; further ones within an
//! interval, by default a minute, are counted, and one line then has their number and the newest text.
//! [`Repeats`] decides this without a clock or a thread; `log_repeated!` uses it for logging. One thread
//! writes the lines with numbers, also those of the audit file ([`Trail`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{Level, debug, error, info, warn};

use config::log::DEFAULT_INTERVAL;

use crate::trail::{RefusalCount, Trail};
use threads::sync::lock;

/// The interval in force, in milliseconds.
static INTERVAL_MILLIS: AtomicU64 = AtomicU64::new(60_000);
/// Lines that were not logged because they repeat.
static HELD_LINES: AtomicU64 = AtomicU64::new(0);
/// Refused requests without a line of their own in the audit file.
static REFUSALS_HELD: AtomicU64 = AtomicU64::new(0);
/// Largest number of distinct objects at a time; lines about further objects of a kind are counted together.
const MAX_OBJECTS: usize = 4096;

/// Lines with the same key are counted together: a kind, and the object of the line.
type Key = (&'static str, Box<str>);

/// Lines of one kind about one object.
#[derive(Debug)]
struct Repeat {
    level: Level,
    /// When a line may be logged again.
    due: Instant,
    /// Number of lines that were not logged; `newest` is the text of the newest.
    held: u64,
    newest: String,
}

/// The lines that were logged recently.
#[derive(Debug)]
pub struct Repeats {
    /// Least time between two lines of a kind about an object.
    interval: Duration,
    repeats: HashMap<Key, Repeat>,
}

/// A line logged in place of those that were held back.
#[derive(Debug, PartialEq, Eq)]
pub struct HeldLine {
    /// Its severity.
    pub level: Level,
    /// Its text.
    pub text: String,
}

impl Default for Repeats {
    fn default() -> Self {
        Repeats { interval: DEFAULT_INTERVAL, repeats: HashMap::new() }
    }
}

impl Repeats {
    /// Returns the text of a line if it is to be logged now; otherwise counts it.
    pub fn admit(
        &mut self,
        (kind, object): (&'static str, &str),
        level: Level,
        text: String,
        now: Instant,
    ) -> Option<String> {
        if self.interval.is_zero() {
            return Some(text);
        }
        let key = (kind, Box::from(object));
        let is_full = self.repeats.len() >= MAX_OBJECTS && !self.repeats.contains_key(&key);
        let key = if is_full { (kind, Box::from("")) } else { key };
        match self.repeats.get_mut(&key) {
            Some(repeat) => {
                (repeat.held, repeat.newest, repeat.level) = (repeat.held + 1, text, level);
                None
            }
            None => {
                let due = now + self.interval;
                self.repeats.insert(key, Repeat { level, due, held: 0, newest: String::new() });
                Some(text)
            }
        }
    }

    /// Returns the lines that are due, or with `all` every held line. Removes entries that did not repeat.
    pub fn due(&mut self, now: Instant, all: bool) -> Vec<HeldLine> {
        let (mut lines, interval) = (Vec::new(), self.interval);
        self.repeats.retain(|_, repeat| {
            if repeat.due > now && !all {
                return true;
            }
            let held = std::mem::take(&mut repeat.held);
            repeat.due = now + interval;
            if held > 0 {
                let text =
                    format!("{} ({held} such lines in the last {} s)", repeat.newest, interval.as_secs());
                lines.push(HeldLine { level: repeat.level, text });
            }
            held > 0
        });
        lines
    }

    /// Returns when [`due`](Self::due) must be called next.
    pub fn next(&self) -> Option<Instant> {
        self.repeats.values().map(|repeat| repeat.due).min()
    }
}

/// The lines of this process, and whether the thread that logs due lines runs.
#[derive(Default)]
struct Shared {
    repeats: Repeats,
    trail: Trail,
    is_watched: bool,
}

/// Due lines with numbers, of the log and of the audit file.
struct DueLines(Vec<HeldLine>, Vec<RefusalCount>);

impl DueLines {
    fn log(self) {
        self.0.into_iter().for_each(log);
        self.1.iter().for_each(RefusalCount::log);
    }
}

impl Shared {
    fn due(&mut self, now: Instant, all: bool) -> DueLines {
        DueLines(self.repeats.due(now, all), self.trail.due(now, all))
    }

    fn next(&self) -> Option<Instant> {
        self.repeats.next().into_iter().chain(self.trail.next()).min()
    }

    /// Starts the thread that logs due lines, if needed. Returns the lines due now if no thread can be
    /// started: the next line tries again.
    fn watched(&mut self) -> Option<DueLines> {
        if self.is_watched || self.next().is_none() {
            return None;
        }
        let watched = std::thread::Builder::new().name("log-repeats".into()).spawn(watch);
        self.is_watched = watched.is_ok();
        watched.is_err().then(|| self.due(Instant::now(), false))
    }
}

static SHARED: LazyLock<(Mutex<Shared>, Condvar)> = LazyLock::new(Default::default);

/// Returns the least time between two lines of a kind about an object.
pub fn interval() -> Duration {
    Duration::from_millis(INTERVAL_MILLIS.load(Relaxed))
}

/// Sets this interval. Lines that are held back stay due at their old time.
pub fn set_interval(interval: Duration) {
    INTERVAL_MILLIS.store(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX), Relaxed);
    let mut shared = lock(&SHARED.0);
    shared.repeats.interval = interval;
    shared.trail.set_interval(interval);
}

/// Sets the largest number of audit lines about refused requests per client and interval.
pub fn set_audit_refusals(per_client: usize) {
    lock(&SHARED.0).trail.set_per_client(per_client);
}

/// Counts a line that is not logged because it repeats.
pub fn count_held() {
    HELD_LINES.fetch_add(1, Relaxed);
}

/// Returns the number of lines not logged because they repeat; most are included in the number of a logged
/// line.
pub fn held() -> u64 {
    HELD_LINES.load(Relaxed)
}

/// Returns the number of refused requests that have no line of their own in the audit file.
pub fn refusals_held() -> u64 {
    REFUSALS_HELD.load(Relaxed)
}

/// Returns the text of a line if it is to be logged now. Otherwise counts it, and a thread logs it later.
pub fn admit(about: (&'static str, &str), level: Level, text: String) -> Option<String> {
    let mut shared = lock(&SHARED.0);
    let admitted = shared.repeats.admit(about, level, text, Instant::now());
    if admitted.is_none() {
        count_held();
    }
    let due = shared.watched();
    drop(shared);
    due.into_iter().for_each(DueLines::log);
    admitted
}

/// Returns whether the refused request of a client is logged with its own line in the audit file. Otherwise
/// counts it, and a thread writes a line with the number.
pub fn admit_refusal(client: IpAddr, what: &'static str) -> bool {
    let mut shared = lock(&SHARED.0);
    let admitted = shared.trail.admit(client, what, Instant::now());
    if !admitted {
        REFUSALS_HELD.fetch_add(1, Relaxed);
    }
    let due = shared.watched();
    drop(shared);
    due.into_iter().for_each(DueLines::log);
    admitted
}

/// Runs the thread: logs due lines while lines repeat.
fn watch() {
    let mut shared = lock(&SHARED.0);
    while let Some(next) = shared.next() {
        let now = Instant::now();
        if next > now {
            let waited = SHARED.1.wait_timeout(shared, next - now);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
            continue;
        }
        let lines = shared.due(now, false);
        drop(shared);
        lines.log();
        shared = lock(&SHARED.0);
    }
    shared.is_watched = false;
}

/// Logs all counted lines when the process ends.
pub fn log_all() {
    let lines = lock(&SHARED.0).due(Instant::now(), true);
    SHARED.1.notify_all();
    lines.log();
}

fn log(HeldLine { level, text }: HeldLine) {
    match level {
        Level::ERROR => error!("{text}"),
        Level::WARN => warn!("{text}"),
        Level::INFO => info!("{text}"),
        _ => debug!("{text}"),
    }
}

/// Logs a line that may repeat: `log_repeated!(warn, WARN, ("kind", object), "text {}", ...)`. Lines with the
/// same kind and object, which is text, are counted together.
#[macro_export]
macro_rules! log_repeated {
    ($log:ident, $level:ident, $about:expr, $($text:tt)+) => {
        if let Some(text) = $crate::repeated::admit($about, tracing::Level::$level, format!($($text)+)) {
            tracing::$log!("{text}");
        }
    };
}
pub use log_repeated;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lines_that_repeat_the_first_is_logged_and_the_rest_is_counted() {
        let (mut repeats, begun) = (Repeats::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let line = |repeats: &mut Repeats, object: &str, number: u64, seconds| {
            repeats.admit(("update", object), Level::ERROR, format!("line {number}"), at(seconds)).is_some()
        };
        assert!(line(&mut repeats, "a", 0, 0));
        assert!(line(&mut repeats, "b", 0, 0), "another object");
        let logged = (1..=901).filter(|number| line(&mut repeats, "a", *number, 14)).count();
        assert_eq!(logged, 0);
        assert_eq!((repeats.due(at(59), false), repeats.next()), (Vec::new(), Some(at(60))));
        let due = repeats.due(at(60), false);
        let text = "line 901 (901 such lines in the last 60 s)".to_owned();
        assert_eq!(due, [HeldLine { level: Level::ERROR, text }], "b did not repeat");
        assert!(line(&mut repeats, "b", 1, 61) && !line(&mut repeats, "a", 902, 61));
        assert_eq!(repeats.due(at(120), false).len(), 1);
        assert_eq!(repeats.due(at(180), false), []);
        assert_eq!(repeats.next(), None, "all is forgotten");
        assert!(line(&mut repeats, "a", 903, 181));
    }

    #[test]
    fn lines_that_were_counted_are_not_lost_at_the_end() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let mut line = || repeats.admit(("kind", "a"), Level::WARN, "x".into(), now).is_some();
        assert!(line() && !line());
        assert_eq!(repeats.due(now, true).len(), 1);
    }

    #[test]
    fn the_memory_for_objects_is_bounded() {
        let (mut repeats, now) = (Repeats::default(), Instant::now());
        let line = |object: usize| (("kind", object.to_string()), now);
        let logged = (0..3 * MAX_OBJECTS)
            .filter(|object| {
                let ((kind, object), now) = line(*object);
                repeats.admit((kind, &object), Level::WARN, "x".into(), now).is_some()
            })
            .count();
        assert_eq!((logged, repeats.repeats.len()), (MAX_OBJECTS + 1, MAX_OBJECTS + 1));
    }
}
