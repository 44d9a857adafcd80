//! [`SentReports`]: the error reports sent recently, so that none is sent again soon, and few at once.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use cache::Now;

use crate::settings::ReportLimits;
use crate::stats::Unreported;
use crate::sync::lock;

/// Most sent reports remembered. Beyond that the oldest are forgotten and may be sent again.
const MAX_REMEMBERED_REPORTS: usize = 10_000;

/// The reports sent recently.
#[derive(Default)]
pub(crate) struct SentReports(Mutex<Sent>);

#[derive(Default)]
struct Sent {
    /// Hashes of the reports' names with the time of sending, oldest first.
    order: VecDeque<(u64, Now)>,
    /// The same hashes.
    recent: HashSet<u64>,
}

impl SentReports {
    /// Records a report that is about to be sent, or returns why it must not be sent now.
    pub(crate) fn take(&self, hash: u64, limits: ReportLimits, now: Now) -> Result<(), Unreported> {
        let mut sent = lock(&self.0);
        let Sent { order, recent } = &mut *sent;
        let is_over = |at: Now| now.since(at) >= limits.interval;
        while let Some((first, at)) = order.front()
            && (is_over(*at) || order.len() >= MAX_REMEMBERED_REPORTS)
        {
            recent.remove(first);
            order.pop_front();
        }
        if recent.contains(&hash) {
            return Err(Unreported::Repeated);
        }
        let within_second = order.iter().rev().take_while(|(_, at)| now.since(*at) == 0).count();
        if within_second >= limits.per_second {
            return Err(Unreported::Rate);
        }
        order.push_back((hash, now));
        recent.insert(hash);
        Ok(())
    }

    /// Removes a recorded report that could not be sent.
    pub(crate) fn give_back(&self, hash: u64) {
        let mut sent = lock(&self.0);
        if let Some(at) = sent.order.iter().rposition(|(taken, _)| *taken == hash) {
            sent.order.remove(at);
            sent.recent.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_sent_once_in_a_while_and_not_too_much_at_once() {
        let (reports, limits) = (SentReports::default(), ReportLimits { per_second: 2, interval: 10 });
        let take = |hash, at| reports.take(hash, limits, Now::since_start(at));
        assert_eq!([take(1, 0), take(1, 0), take(2, 0)], [Ok(()), Err(Unreported::Repeated), Ok(())]);
        assert_eq!([take(3, 0), take(3, 1)], [Err(Unreported::Rate), Ok(())]);
        assert_eq!([take(1, 9), take(1, 10)], [Err(Unreported::Repeated), Ok(())]);
        assert_eq!(take(2, 10), Ok(()));
        assert_eq!(take(3, 10), Err(Unreported::Repeated));
        assert_eq!(take(4, 10), Err(Unreported::Rate));
    }

    #[test]
    fn what_could_not_be_sent_counts_for_nothing() {
        let (reports, limits) = (SentReports::default(), ReportLimits { per_second: 2, interval: 10 });
        let take = |hash| reports.take(hash, limits, Now::since_start(0));
        assert_eq!([take(1), take(2)], [Ok(()), Ok(())]);
        reports.give_back(1);
        reports.give_back(3);
        assert_eq!([take(2), take(1)], [Err(Unreported::Repeated), Ok(())]);
        assert_eq!(take(3), Err(Unreported::Rate));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (reports, limits) =
            (SentReports::default(), ReportLimits { per_second: usize::MAX, interval: 10 });
        let now = Now::since_start(0);
        for hash in 0..2 * MAX_REMEMBERED_REPORTS as u64 {
            assert_eq!(reports.take(hash, limits, now), Ok(()));
        }
        let sent = reports.0.lock().expect("one thread");
        assert_eq!((sent.order.len(), sent.recent.len()), (MAX_REMEMBERED_REPORTS, MAX_REMEMBERED_REPORTS));
    }
}
