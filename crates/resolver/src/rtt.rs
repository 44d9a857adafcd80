//! Smoothed round-trip times and retransmission timeouts (RFC 6298).

use std::time::Duration;

use crate::config::ForwardTiming;

/// Clock granularity G in RFC 6298's formula.
const GRAIN: Duration = Duration::from_millis(10);

/// SRTT and RTTVAR of one server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt(Option<(Duration, Duration)>);

impl Rtt {
    /// Adds a measurement (RFC 6298 §2.2, §2.3).
    pub(crate) fn measured(&mut self, r: Duration) {
        self.0 = Some(match self.0 {
            None => (r, r / 2),
            Some((srtt, var)) => ((srtt * 7 + r) / 8, (var * 3 + srtt.abs_diff(r)) / 4),
        });
    }

    /// Returns SRTT, if measured.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.0.map(|(srtt, _)| srtt)
    }

    /// Returns the retransmission timeout, doubled for each of the `unanswered` tries before (RFC 6298 §2.3,
    /// §5.5).
    pub(crate) fn timeout(&self, unanswered: u32, timing: &ForwardTiming) -> Duration {
        let once = self.0.map_or(timing.first_rto, |(srtt, var)| srtt + GRAIN.max(var * 4));
        let once = once.max(timing.min_rto);
        once.saturating_mul(1 << unanswered.min(16)).min(timing.max_rto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_first_measurement_is_taken_whole_and_the_next_by_an_eighth() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.smoothed(), None);
        rtt.measured(ms(80));
        assert_eq!(rtt.timeout(0, &ForwardTiming::default()), ms(80 + 4 * 40));
        rtt.measured(ms(160));
        assert_eq!(rtt.smoothed(), Some(ms(90)));
        assert_eq!(rtt.timeout(0, &ForwardTiming::default()), ms(90 + 4 * 50));
    }

    #[test]
    fn timeouts_double_within_their_bounds() {
        let timing = ForwardTiming::default();
        let mut rtt = Rtt::default();
        assert_eq!([0, 1, 2, 3, 60].map(|n| rtt.timeout(n, &timing)), [400, 800, 1600, 2000, 2000].map(ms));
        for _ in 0..100 {
            rtt.measured(Duration::from_micros(200));
        }
        assert_eq!(rtt.timeout(0, &timing), timing.min_rto);
        assert_eq!(rtt.timeout(1, &timing), timing.min_rto * 2);
    }

    #[test]
    fn a_slower_server_is_waited_for_longer_after_a_few_replies() {
        let timing = ForwardTiming::default();
        let mut rtt = Rtt::default();
        rtt.measured(ms(10));
        for _ in 0..3 {
            rtt.measured(ms(300));
        }
        assert!(rtt.timeout(0, &timing) > ms(300), "{rtt:?}");
    }
}
