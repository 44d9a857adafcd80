//! What is counted in the last hour, in parts of ten minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Length of a part.
const PART: Duration = Duration::from_secs(600);
/// Whole parts that are kept.
const PARTS: u32 = 6;

/// The parts of the last hour, the present one last, with the time at which it began.
pub(crate) struct LastHour<T>(VecDeque<(Instant, T)>);

impl<T> Default for LastHour<T> {
    fn default() -> Self {
        LastHour(VecDeque::new())
    }
}

impl<T> LastHour<T> {
    /// Returns the present part. Begins it with `new` if the one before is over, and drops those that are too
    /// old.
    pub(crate) fn present(&mut self, now: Instant, new: impl FnOnce() -> T) -> Option<&mut T> {
        let began = self.0.back().map(|(began, _)| *began);
        match began.map(|began| now.saturating_duration_since(began)) {
            Some(age) if age < PART => {}
            // Parts begin at multiples of their length, so that a quiet hour empties the tables.
            Some(age) => {
                let whole = age.as_secs() / PART.as_secs();
                let step = PART.saturating_mul(u32::try_from(whole).unwrap_or(u32::MAX));
                let began = began.and_then(|began| began.checked_add(step)).unwrap_or(now);
                self.0.push_back((began, new()));
            }
            None => self.0.push_back((now, new())),
        }
        self.drop_old(now);
        self.0.back_mut().map(|(_, part)| part)
    }

    /// Returns the parts of the last hour.
    pub(crate) fn all(&mut self, now: Instant) -> impl Iterator<Item = &T> {
        self.drop_old(now);
        self.0.iter().map(|(_, part)| part)
    }

    fn drop_old(&mut self, now: Instant) {
        let oldest = PART.saturating_mul(PARTS + 1);
        self.0.retain(|(began, _)| now.saturating_duration_since(*began) < oldest);
    }
}
