//! NOTIFY to the secondaries of one zone (RFC 1996 §3.6), repeated until each has replied or its tries are
//! used up.

use std::time::Duration;

use wire::UnixTime;

use super::{RandomNumbers, with_jitter};

/// Number and spacing of NOTIFY messages; times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyRules {
    /// Wait for a reply to the first message; each further wait is twice as long.
    pub first_wait: u32,
    /// The longest wait.
    pub most_wait: u32,
    /// Messages to one secondary for one change, including the first.
    pub tries: u32,
}

impl Default for NotifyRules {
    /// Five tries in about a minute: 2, 4, 8, 16 seconds apart.
    fn default() -> Self {
        NotifyRules { first_wait: 2, most_wait: 60, tries: 5 }
    }
}

/// State of one secondary.
#[derive(Clone, Copy, Debug, Default)]
struct NotifyAttempts {
    /// When to send next; `None` if nothing is to be sent.
    next: Option<UnixTime>,
    sent: u32,
}

/// NOTIFY state of one zone: the secondaries still to be notified of its last change.
#[derive(Debug)]
pub struct NotifySender {
    rules: NotifyRules,
    secondaries: Vec<NotifyAttempts>,
}

impl NotifySender {
    /// Creates the state for this number of secondaries, each identified by its index in the configured list.
    /// Nothing is due yet.
    pub fn new(rules: NotifyRules, secondaries: usize) -> NotifySender {
        NotifySender { rules, secondaries: vec![NotifyAttempts::default(); secondaries] }
    }

    /// Notifies every secondary of a change of the zone, starting with the first try.
    pub fn changed(&mut self, now: UnixTime) {
        self.secondaries.fill(NotifyAttempts { next: Some(now), sent: 0 });
    }

    /// When the next NOTIFY is due.
    pub fn due(&self) -> Option<UnixTime> {
        self.secondaries.iter().filter_map(|told| told.next).min()
    }

    /// Returns the next secondary to send to, if one is due at `now`. Call until it returns `None`.
    pub fn poll(&mut self, now: UnixTime, random: RandomNumbers<'_>) -> Option<usize> {
        let rules = self.rules;
        let due = |told: &NotifyAttempts| told.next.is_some_and(|next| next <= now);
        loop {
            let (number, told) = self.secondaries.iter_mut().enumerate().find(|(_, told)| due(told))?;
            if told.sent >= rules.tries {
                told.next = None;
                continue;
            }
            let wait =
                ((rules.first_wait.max(1) as u64) << told.sent.min(30)).min(rules.most_wait.max(1) as u64);
            let wait = with_jitter(Duration::from_secs(wait), random).max(Duration::from_secs(1));
            told.next = Some(now.saturating_add(wait));
            told.sent += 1;
            return Some(number);
        }
    }

    /// Defers a secondary whose NOTIFY from [`poll`](Self::poll) could not be sent, until
    /// [`take_up`](Self::take_up).
    pub fn put_off(&mut self, secondary: usize) {
        if let Some(told) = self.secondaries.get_mut(secondary) {
            (told.next, told.sent) = (None, told.sent.saturating_sub(1));
        }
    }

    /// Makes a deferred NOTIFY due at once.
    pub fn take_up(&mut self, secondary: usize) {
        if let Some(told) = self.secondaries.get_mut(secondary) {
            told.next = Some(UnixTime::EPOCH);
        }
    }

    /// Ends the tries for a secondary that has replied, whatever the response code (RFC 1996 §3.6).
    pub fn replied(&mut self, secondary: usize) {
        if let Some(told) = self.secondaries.get_mut(secondary) {
            told.next = None;
        }
    }
}
