//! What was pushed for a zone, and when it is tried again.

use std::fmt;
use std::time::Duration;

use wire::UnixTime;
use wording::moment;
use zone_plan::DsPush;

use crate::changes::signing::{PushNeed, WantedDs};

/// Bounds of the time from a failure to the next try; each failure doubles it.
const SHORTEST_BACK_OFF: Duration = Duration::from_secs(1);
const FIRST_BACK_OFF: Duration = Duration::from_secs(60);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(3600);
/// Most doublings.
const MAX_DOUBLINGS: u32 = 12;
/// The part of a back-off by which it is longer at most, so that zones are not due at the same time.
const JITTER_PART: u32 = 10;
/// Time beyond the propagation delay of the parent after which an accepted push should have an effect.
const EFFECT_MARGIN: Duration = Duration::from_secs(10);
/// Time to the next try of a push that found all places taken.
const BUSY_PAUSE: Duration = Duration::from_secs(5);

/// The outcome of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// The change was made, or acknowledged, there; the tags of the DS records before.
    Accepted { place: String, from: String },
    /// The DS records were there already.
    Unchanged { place: String },
    /// Why it was not.
    Failed(String),
}

/// The state of the last push of a zone, as a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DsPushState {
    /// It is in progress.
    Running,
    /// The change was made in the parent zone, or a server has acknowledged it.
    Accepted,
    /// The parent zone had the DS records already.
    Unchanged,
    /// It failed, and is tried again.
    Failed,
    /// It is not made now: the reason is the detail.
    Held,
}

impl DsPushState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Accepted => "accepted",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
            Self::Held => "held",
        }
    }
}

/// What was pushed to the parent of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DsPushStatus {
    /// Where DS records are pushed: `here`, or the servers.
    pub target: String,
    /// The state of the last push.
    pub state: DsPushState,
    /// The place that has the change, or why it has not.
    pub detail: String,
    /// When the last push ended.
    pub at: Option<UnixTime>,
    /// When the next try is due.
    pub next: Option<UnixTime>,
    /// Failures in a row.
    pub failures: u32,
}

impl fmt::Display for DsPushStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state.word())?;
        if let Some(at) = self.at.filter(|_| self.state != DsPushState::Running) {
            write!(f, " {}", moment(at))?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        match self.next {
            Some(next) => write!(f, "; next try {}", moment(next)),
            None => Ok(()),
        }
    }
}

/// What was pushed for one zone.
#[derive(Debug, Default)]
pub(super) struct ZonePush {
    wanted: Option<WantedDs>,
    held: Option<&'static str>,
    is_running: bool,
    /// The outcome of the last push, and when it ended.
    last: Option<(PushOutcome, UnixTime)>,
    /// When a push of what is wanted was accepted.
    accepted: Option<UnixTime>,
    failures: u32,
    /// When the next try is due, unless one is in progress or was accepted.
    next: UnixTime,
}

impl ZonePush {
    /// Whether a push is in progress.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Takes what the parent is to have. Returns what is to be pushed now; `may_run`: there is a place.
    pub(super) fn take(&mut self, need: &PushNeed, now: UnixTime, may_run: bool) -> Option<WantedDs> {
        let wanted = match need {
            PushNeed::Push(wanted) => wanted,
            PushNeed::Held(_) | PushNeed::Nothing => {
                self.held = if let PushNeed::Held(why) = need { Some(*why) } else { None };
                self.wanted = None;
                return None;
            }
        };
        self.held = None;
        if self.wanted.as_ref().is_none_or(|known| known.rdatas != wanted.rdatas) {
            (self.accepted, self.failures, self.next) = (None, 0, now);
        }
        self.wanted = Some(wanted.clone());
        if self.is_running {
            return None;
        }
        if let Some(accepted) = self.accepted {
            let effective = accepted.saturating_add(wanted.delay).saturating_add(EFFECT_MARGIN);
            if wanted.checked.is_none_or(|checked| checked < effective) {
                return None;
            }
            let why = "the servers of the parent do not have the DS records that were accepted";
            self.fail(PushOutcome::Failed(why.to_owned()), wanted.delay, now, 0);
        }
        if self.next > now {
            return None;
        }
        if !may_run {
            self.next = now.saturating_add(BUSY_PAUSE);
            return None;
        }
        self.is_running = true;
        Some(wanted.clone())
    }

    /// Takes the outcome of a push of `pushed`.
    pub(super) fn end(&mut self, pushed: &WantedDs, outcome: PushOutcome, now: UnixTime, random: u32) {
        self.is_running = false;
        let is_wanted = self.wanted.as_ref().is_some_and(|wanted| wanted.rdatas == pushed.rdatas);
        match outcome {
            PushOutcome::Failed(_) if is_wanted => self.fail(outcome, pushed.delay, now, random),
            // Something else is wanted by now, at once.
            PushOutcome::Failed(_) => self.last = Some((outcome, now)),
            PushOutcome::Accepted { .. } | PushOutcome::Unchanged { .. } => {
                self.last = Some((outcome, now));
                self.accepted = is_wanted.then_some(now);
            }
        }
    }

    fn fail(&mut self, outcome: PushOutcome, delay: Duration, now: UnixTime, random: u32) {
        let first = delay.clamp(SHORTEST_BACK_OFF, FIRST_BACK_OFF);
        let wait = (first * (1 << self.failures.min(MAX_DOUBLINGS))).min(LONGEST_BACK_OFF);
        let jitter = (wait / JITTER_PART).mul_f64(f64::from(random) / f64::from(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        self.next = now.saturating_add(wait + jitter);
        (self.last, self.accepted) = (Some((outcome, now)), None);
    }

    /// Returns when the zone is to be looked at again.
    pub(super) fn wake(&self, now: UnixTime) -> Option<UnixTime> {
        let waits = self.wanted.is_some() && !self.is_running && self.accepted.is_none();
        waits.then(|| self.next.max(now.saturating_add(SHORTEST_BACK_OFF)))
    }

    /// Returns what operators see; `None`: nothing was pushed or held.
    pub(super) fn status(&self, target: &DsPush) -> Option<DsPushStatus> {
        let (state, detail) = match (&self.last, self.held, self.is_running) {
            (_, _, true) => (DsPushState::Running, String::new()),
            (_, Some(why), false) => (DsPushState::Held, why.to_owned()),
            (Some((PushOutcome::Accepted { place, .. }, _)), ..) => (DsPushState::Accepted, place.clone()),
            (Some((PushOutcome::Unchanged { place }, _)), ..) => (DsPushState::Unchanged, place.clone()),
            (Some((PushOutcome::Failed(why), _)), ..) => (DsPushState::Failed, why.clone()),
            (None, None, false) => return None,
        };
        let target = match target {
            DsPush::Off => return None,
            DsPush::Here => "here".to_owned(),
            DsPush::Servers(servers) => {
                servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
        };
        let waits = self.wanted.is_some() && !self.is_running && self.accepted.is_none();
        Some(DsPushStatus {
            target,
            state,
            detail,
            at: self.last.as_ref().map(|(_, at)| *at),
            next: waits.then_some(self.next),
            failures: self.failures,
        })
    }
}

#[cfg(test)]
mod tests {
    use wire::Ttl;

    use super::*;

    const DELAY: Duration = Duration::from_secs(300);

    fn wanted(tag: u8, checked: Option<u64>) -> WantedDs {
        WantedDs {
            rdatas: vec![vec![0, tag, 13, 2, 1]],
            ttl: Ttl::from_secs(60),
            checked: checked.map(UnixTime::from_secs),
            delay: DELAY,
        }
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_secs(seconds)
    }

    fn failed() -> PushOutcome {
        PushOutcome::Failed("REFUSED".to_owned())
    }

    fn accepted() -> PushOutcome {
        PushOutcome::Accepted { place: "there".to_owned(), from: "none".to_owned() }
    }

    /// Takes a need; returns whether a push starts.
    fn starts(push: &mut ZonePush, wanted: &WantedDs, seconds: u64) -> bool {
        push.take(&PushNeed::Push(wanted.clone()), at(seconds), true).is_some()
    }

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let (mut push, first) = (ZonePush::default(), wanted(1, None));
        assert!(starts(&mut push, &first, 1000));
        assert!(!starts(&mut push, &first, 1001), "it is in progress");
        let mut now = 1000;
        for wait in [60, 120, 240, 480, 960, 1920, 3600, 3600] {
            push.end(&first, failed(), at(now), 0);
            assert_eq!(push.wake(at(now)), Some(at(now + wait)));
            assert!(!starts(&mut push, &first, now + wait - 1));
            now += wait;
            assert!(starts(&mut push, &first, now));
        }
        push.end(&first, failed(), at(now), u32::MAX);
        assert_eq!(push.wake(at(now)), Some(at(now + 3960)), "a tenth later");
        let status = push.status(&DsPush::Here).expect("a status");
        assert_eq!((status.state, &*status.detail, status.failures), (DsPushState::Failed, "REFUSED", 9));
        // Another DS RRset is pushed at once.
        assert!(starts(&mut push, &wanted(2, None), now + 1));
    }

    #[test]
    fn what_was_accepted_is_pushed_again_only_if_it_has_no_effect() {
        let (mut push, first) = (ZonePush::default(), wanted(1, None));
        assert!(starts(&mut push, &first, 1000));
        push.end(&first, accepted(), at(1002), 0);
        assert_eq!(push.wake(at(1002)), None, "the servers of the parent are asked");
        for checked in [None, Some(1001), Some(1100), Some(1311)] {
            assert!(!starts(&mut push, &wanted(1, checked), 5000), "{checked:?}");
        }
        // They had 300 seconds.
        assert!(!starts(&mut push, &wanted(1, Some(1312)), 5000));
        assert_eq!(push.status(&DsPush::Here).expect("a status").state, DsPushState::Failed);
        assert!(starts(&mut push, &wanted(1, Some(1312)), 5060));
    }

    #[test]
    fn nothing_is_pushed_that_is_not_needed_or_held() {
        let (mut push, first) = (ZonePush::default(), wanted(1, None));
        assert_eq!(push.take(&PushNeed::Nothing, at(1), true), None);
        assert_eq!((push.wake(at(1)), push.status(&DsPush::Here)), (None, None));
        assert_eq!(push.take(&PushNeed::Held("why"), at(2), true), None);
        assert_eq!(push.status(&DsPush::Here).map(|status| status.detail), Some("why".to_owned()));
        assert_eq!(push.take(&PushNeed::Push(first.clone()), at(3), false), None, "no place");
        assert_eq!(push.wake(at(3)), Some(at(8)));
        assert!(starts(&mut push, &first, 8));
        // What is wanted changes during the push, whose end does not count for the new one.
        assert!(!starts(&mut push, &wanted(2, None), 9));
        push.end(&first, accepted(), at(10), 0);
        assert!(starts(&mut push, &wanted(2, None), 10));
    }
}
