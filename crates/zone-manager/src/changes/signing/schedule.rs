//! When which zone is due for a look at its keys and signatures.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use wire::{UnixTime, ZoneName};

/// Longest wait by the monotonic clock: the system's time may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// The times at which zones are due.
#[derive(Default)]
pub(in super::super) struct SignSchedule {
    /// Ordered by time.
    order: BTreeSet<(Instant, ZoneName)>,
    zones: HashMap<ZoneName, (Instant, UnixTime)>,
}

impl SignSchedule {
    /// Makes a zone due at a time, in place of the time before.
    pub(in super::super) fn set(&mut self, apex: &ZoneName, at: UnixTime, now: UnixTime, clock: Instant) {
        let wait = at.saturating_duration_since(now).min(LONGEST_WAIT);
        let due = clock + wait;
        if let Some((before, _)) = self.zones.insert(apex.clone(), (due, at)) {
            self.order.remove(&(before, apex.clone()));
        }
        self.order.insert((due, apex.clone()));
    }

    /// Makes a zone due at a time, unless it is due before.
    pub(in super::super) fn set_no_later(
        &mut self,
        apex: &ZoneName,
        at: UnixTime,
        now: UnixTime,
        clock: Instant,
    ) {
        if self.zones.get(apex).is_none_or(|(_, known)| at < *known) {
            self.set(apex, at, now, clock);
        }
    }

    /// Returns when to look again, by the monotonic clock.
    pub(in super::super) fn first(&self) -> Option<Instant> {
        self.order.first().map(|(due, _)| *due)
    }

    /// Removes and returns a zone that is due.
    pub(in super::super) fn next(&mut self, now: UnixTime, clock: Instant) -> Option<ZoneName> {
        while self.first().is_some_and(|due| due <= clock) {
            let (_, apex) = self.order.pop_first()?;
            let (_, at) = self.zones.remove(&apex)?;
            if at <= now {
                return Some(apex);
            }
            self.set(&apex, at, now, clock);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;

    #[test]
    fn zones_are_due_at_their_last_time_and_by_the_systems_clock() {
        let [a, b] = [b"\x01a\0", b"\x01b\0"].map(|wire| ZoneName::from(Name::of_checked(wire)));
        let (begun, zero) = (Instant::now(), UnixTime::from_secs(1_000_000));
        let later = |seconds| {
            (zero.saturating_add(Duration::from_secs(seconds)), begun + Duration::from_secs(seconds))
        };
        let mut schedule = SignSchedule::default();
        schedule.set(&a, later(50).0, zero, begun);
        schedule.set(&b, later(20).0, zero, begun);
        schedule.set(&a, later(10).0, zero, begun);
        let at = |schedule: &mut SignSchedule, seconds| {
            let (now, clock) = later(seconds);
            schedule.next(now, clock)
        };
        assert_eq!(
            [9, 10, 19, 20, 90].map(|seconds| at(&mut schedule, seconds)),
            [None, Some(a.clone()), None, Some(b.clone()), None]
        );
        schedule.set(&a, later(100).0, zero, begun);
        schedule.set_no_later(&a, later(300).0, zero, begun);
        schedule.set_no_later(&b, later(120).0, zero, begun);
        assert_eq!(schedule.next(later(100).0, later(100).1), Some(a.clone()));
        assert_eq!(schedule.next(later(120).0, later(120).1), Some(b.clone()));
        // The wait of two days is cut to an hour, after which the zone is not due yet.
        schedule.set(&a, later(2 * 86_400).0, zero, begun);
        assert_eq!(schedule.first(), Some(later(3600).1));
        let (now, clock) = later(3600);
        assert_eq!(schedule.next(now, clock), None);
        assert_eq!(schedule.first(), Some(later(7200).1));
        // The system's clock was set.
        assert_eq!(schedule.next(later(2 * 86_400).0, later(7200).1), Some(a.clone()));
        assert_eq!(schedule.first(), None);
    }
}
