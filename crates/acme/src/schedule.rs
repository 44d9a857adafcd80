//! When an order is due: when there is no certificate, when the names or the CA change, and when a third of
//! the lifetime is left; after a failure, after a wait that becomes longer. All times are of the wall clock,
//! as those in certificates are.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tls::ServerCertificate;

/// Wait after the first failure. Each further wait is `WAIT_FACTOR` times as long, so that there are at most
/// four failures in an hour: Let's Encrypt allows five for each name.
const FIRST_WAIT: Duration = Duration::from_secs(60);
const WAIT_FACTOR: u32 = 4;
/// Longest wait without a certificate that is valid.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Shortest and longest of the longest waits while a certificate is valid: this part of its lifetime.
const WAIT_SHARE: u32 = 24;
const SHORTEST_LIMIT: Duration = Duration::from_secs(3600);
/// Longest wait that a CA can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Part of the lifetime that is left when a certificate is renewed.
const RENEWAL_SHARE: u32 = 3;
/// Largest jitter of the renewal, as a part of the lifetime.
const JITTER_SHARE: u32 = 30;

/// What certificates are ordered for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeTarget {
    /// The URL of the directory of the CA.
    pub directory: String,
    /// The names in lower case.
    pub names: BTreeSet<String>,
}

/// The validity of a certificate, and what its jitter is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificatePeriod {
    /// When it becomes valid.
    pub not_before: SystemTime,
    /// When it expires.
    pub not_after: SystemTime,
    /// A number that is different in each certificate, so that servers that got theirs together renew them at
    /// different times; the same after a restart.
    pub seed: u32,
}

impl CertificatePeriod {
    /// Returns the validity of a certificate.
    pub fn of(certificate: &ServerCertificate) -> Self {
        let own = certificate.chain().first().map(|own| own.as_ref()).unwrap_or_default();
        let digest = digest(&SHA256, own);
        let seed = digest.as_ref().first_chunk().copied().map_or(0, u32::from_be_bytes);
        CertificatePeriod { not_before: certificate.not_before, not_after: certificate.not_after, seed }
    }

    fn lifetime(&self) -> Duration {
        self.not_after.duration_since(self.not_before).unwrap_or_default()
    }

    /// Returns when the certificate is to be renewed.
    pub fn renewal(&self) -> SystemTime {
        let lifetime = self.lifetime();
        let jitter = (lifetime / JITTER_SHARE).mul_f64(f64::from(self.seed) / f64::from(u32::MAX));
        self.not_after - lifetime / RENEWAL_SHARE - jitter
    }
}

/// Why an order is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueReason {
    /// There is no certificate.
    First,
    /// The certificate is for other names, or from another CA.
    Changed,
    /// A third of the lifetime is left.
    Renewal,
    /// The CA suggests it.
    Suggested,
}

/// What the CA suggested about the renewal of a certificate. All times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredSuggestion {
    /// The seed of the certificate.
    of: u32,
    /// The window in which the certificate is to be renewed; `None` if the CA makes no suggestions.
    window: Option<(u64, u64)>,
    /// When the CA was asked.
    asked: u64,
    /// When it is asked again.
    again: u64,
}

impl StoredSuggestion {
    /// Returns a time in the window that differs between certificates (RFC 9773 §4.2).
    fn renewal(&self) -> Option<SystemTime> {
        let (start, end) = self.window?;
        let share = f64::from(self.of) / f64::from(u32::MAX);
        let into = Duration::from_secs(end.saturating_sub(start)).mul_f64(share);
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(start) + into)
    }
}

/// The failure of the last order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFailure {
    /// What was ordered.
    target: AcmeTarget,
    /// How many orders have failed in a row.
    pub count: u32,
    /// When it failed, in seconds since 1970.
    at: u64,
    /// How long the next order waits from then on, in seconds.
    wait: u64,
    /// Whether the CA asks to wait.
    #[serde(default)]
    is_asked: bool,
    /// Why it failed.
    pub fault: String,
}

/// When orders are due. Is stored between runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeSchedule {
    /// What the stored certificate was ordered for.
    certified: Option<AcmeTarget>,
    /// `None` after an order that was successful.
    failure: Option<LastFailure>,
    /// What the CA suggested about the renewal of the stored certificate.
    #[serde(default)]
    suggestion: Option<StoredSuggestion>,
}

impl AcmeSchedule {
    /// Returns why and when the next order for `target` is due. `held`: the stored certificate.
    pub fn next(
        &mut self,
        target: &AcmeTarget,
        held: Option<&CertificatePeriod>,
        now: SystemTime,
    ) -> (DueReason, SystemTime) {
        let (reason, due) = match held {
            None => (DueReason::First, now),
            Some(_) if self.certified.as_ref() != Some(target) => (DueReason::Changed, now),
            Some(held) => match self.suggested(held) {
                Some(at) => (DueReason::Suggested, at),
                None => (DueReason::Renewal, held.renewal()),
            },
        };
        let waits = self.failure.as_mut().filter(|failure| failure.target == *target);
        let retry = waits.map(|failure| {
            // The clock was set back: the wait begins again.
            failure.at = failure.at.min(seconds(now));
            SystemTime::UNIX_EPOCH + Duration::from_secs(failure.at) + Duration::from_secs(failure.wait)
        });
        (reason, retry.map_or(due, |retry| due.max(retry)))
    }

    /// Returns when the certificate is to be renewed as the CA suggests. A suggestion after its end is
    /// ignored.
    fn suggested(&self, held: &CertificatePeriod) -> Option<SystemTime> {
        let suggestion = self.suggestion.as_ref().filter(|suggestion| suggestion.of == held.seed)?;
        suggestion.renewal().filter(|at| *at < held.not_after)
    }

    /// Returns when to ask the CA about the renewal of a certificate; `None` if the certificate is not the
    /// one that is wanted.
    pub fn next_question(
        &self,
        target: &AcmeTarget,
        held: Option<&CertificatePeriod>,
        now: SystemTime,
    ) -> Option<SystemTime> {
        let held = held.filter(|_| self.certified.as_ref() == Some(target))?;
        let known = self.suggestion.as_ref().filter(|suggestion| suggestion.of == held.seed);
        // After the clock was set back, it is asked at once.
        let known = known.filter(|suggestion| suggestion.asked <= seconds(now));
        Some(known.map_or(now, |known| SystemTime::UNIX_EPOCH + Duration::from_secs(known.again)))
    }

    /// Takes in an answer of the CA about the renewal of a certificate; `None` if it makes no suggestions, or
    /// has not answered. `after`: how long until it is asked again.
    pub fn answered(
        &mut self,
        held: &CertificatePeriod,
        window: Option<(SystemTime, SystemTime)>,
        after: Duration,
        now: SystemTime,
    ) {
        let asked = seconds(now);
        let window = window.map(|(start, end)| (seconds(start), seconds(end)));
        let again = asked.saturating_add(after.as_secs());
        self.suggestion = Some(StoredSuggestion { of: held.seed, window, asked, again });
    }

    /// Takes in that the CA was asked about the renewal of a certificate without success: what it suggested
    /// before counts.
    pub fn unanswered(&mut self, held: &CertificatePeriod, after: Duration, now: SystemTime) {
        let before = self.suggestion.take().filter(|suggestion| suggestion.of == held.seed);
        self.answered(held, None, after, now);
        if let (Some(now), Some(before)) = (&mut self.suggestion, before) {
            now.window = before.window;
        }
    }

    /// Takes in that an order has failed. `asked`: how long the CA asks to wait.
    pub fn failed(
        &mut self,
        target: &AcmeTarget,
        held: Option<&CertificatePeriod>,
        fault: String,
        asked: Option<Duration>,
        now: SystemTime,
    ) {
        let before = self.failure.take().filter(|failure| failure.target == *target);
        let count = before.map_or(0, |failure| failure.count).saturating_add(1);
        let limit = held
            .filter(|held| held.not_after > now)
            .map_or(LONGEST_WAIT, |held| (held.lifetime() / WAIT_SHARE).clamp(SHORTEST_LIMIT, LONGEST_WAIT));
        let factor = WAIT_FACTOR.saturating_pow(count - 1);
        let wait = FIRST_WAIT.checked_mul(factor).map_or(limit, |wait| wait.min(limit));
        let wait = wait.max(asked.unwrap_or_default().min(LONGEST_ASKED));
        let (target, at, wait) = (target.clone(), seconds(now), wait.as_secs());
        self.failure = Some(LastFailure { target, count, at, wait, is_asked: asked.is_some(), fault });
    }

    /// Ends the wait after a failure, since its cause may be mended; not one that the CA asked for.
    pub fn end_wait(&mut self) {
        if let Some(failure) = self.failure.as_mut().filter(|failure| !failure.is_asked) {
            failure.wait = 0;
        }
    }

    /// Takes in that the certificate is stored.
    pub fn obtained(&mut self, target: &AcmeTarget) {
        *self = AcmeSchedule { certified: Some(target.clone()), ..AcmeSchedule::default() };
    }

    /// Returns the failure of the last order, if it has failed.
    pub fn failure(&self) -> Option<&LastFailure> {
        self.failure.as_ref()
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds)
    }

    fn target(name: &str) -> AcmeTarget {
        AcmeTarget { directory: "https://ca.example/dir".into(), names: [name.to_owned()].into() }
    }

    /// A certificate of 90 days.
    fn held(seed: u32) -> CertificatePeriod {
        CertificatePeriod { not_before: at(0), not_after: at(90 * DAY), seed }
    }

    /// The seconds until the next order.
    fn wait(schedule: &mut AcmeSchedule, held: Option<&CertificatePeriod>, now: SystemTime) -> u64 {
        let (_, due) = schedule.next(&target("a.example"), held, now);
        due.duration_since(now).unwrap_or_default().as_secs()
    }

    fn fail(
        schedule: &mut AcmeSchedule,
        held: Option<&CertificatePeriod>,
        asked: Option<u64>,
        now: SystemTime,
    ) {
        let asked = asked.map(Duration::from_secs);
        schedule.failed(&target("a.example"), held, "a fault".into(), asked, now);
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left_and_servers_differ() {
        let mut schedule = AcmeSchedule::default();
        let wanted = target("a.example");
        assert_eq!(schedule.next(&wanted, None, at(0)), (DueReason::First, at(0)));
        schedule.obtained(&wanted);
        assert_eq!(schedule.next(&wanted, Some(&held(0)), at(5)), (DueReason::Renewal, at(60 * DAY)));
        assert_eq!(held(u32::MAX).renewal(), at(57 * DAY));
        assert!(held(1 << 31).renewal() > at(58 * DAY) && held(1 << 31).renewal() < at(59 * DAY));
        // The time is that of the certificate, whatever the clock was meanwhile.
        assert_eq!(wait(&mut schedule, Some(&held(0)), at(80 * DAY)), 0);
        assert_eq!(schedule.next(&wanted, Some(&held(0)), at(0) - Duration::from_secs(DAY)).1, at(60 * DAY));
    }

    #[test]
    fn a_suggestion_of_the_ca_decides_within_its_window_and_for_its_certificate() {
        let (mut schedule, wanted, of) = (AcmeSchedule::default(), target("a.example"), held(1 << 31));
        let question = |schedule: &AcmeSchedule, now| schedule.next_question(&wanted, Some(&of), now);
        assert_eq!(question(&schedule, at(5)), None, "not of this target");
        schedule.obtained(&wanted);
        assert_eq!(question(&schedule, at(5)), Some(at(5)));
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        schedule.answered(&of, Some((at(10 * DAY), at(20 * DAY))), hours(6), at(5));
        assert_eq!(question(&schedule, at(6)), Some(at(5 + 6 * 3600)));
        let (reason, due) = schedule.next(&wanted, Some(&of), at(6));
        assert!(reason == DueReason::Suggested && due > at(14 * DAY) && due < at(16 * DAY), "{due:?}");
        // The CA does not answer: its suggestion stays.
        schedule.unanswered(&of, hours(1), at(7));
        assert_eq!(question(&schedule, at(8)), Some(at(7 + 3600)));
        assert_eq!(schedule.next(&wanted, Some(&of), at(8)), (DueReason::Suggested, due));
        let text = serde_json::to_string(&schedule).expect("JSON");
        let mut read: AcmeSchedule = serde_json::from_str(&text).expect("the same");
        assert_eq!(read.next(&wanted, Some(&of), at(8)), (DueReason::Suggested, due));
        // The clock was set back.
        assert_eq!(question(&schedule, at(0)), Some(at(0)));
        // A window in the past means at once, one after the end of the certificate nothing.
        schedule.answered(&of, Some((at(0), at(1))), hours(6), at(DAY));
        assert!(schedule.next(&wanted, Some(&of), at(DAY)).1 < at(DAY));
        schedule.answered(&of, Some((at(90 * DAY), at(99 * DAY))), hours(6), at(DAY));
        assert_eq!(schedule.next(&wanted, Some(&of), at(DAY)), (DueReason::Renewal, of.renewal()));
        // It is of another certificate.
        schedule.answered(&of, Some((at(0), at(1))), hours(6), at(DAY));
        let next = schedule.next(&wanted, Some(&held(3)), at(DAY));
        assert_eq!(next, (DueReason::Renewal, held(3).renewal()));
        schedule.obtained(&wanted);
        assert_eq!(schedule.next(&wanted, Some(&of), at(DAY)).0, DueReason::Renewal);
    }

    #[test]
    fn other_names_and_another_ca_are_ordered_at_once() {
        let mut schedule = AcmeSchedule::default();
        schedule.obtained(&target("a.example"));
        let other = target("b.example");
        assert_eq!(schedule.next(&other, Some(&held(0)), at(7)), (DueReason::Changed, at(7)));
        let elsewhere = AcmeTarget { directory: "https://other.example/".into(), ..target("a.example") };
        assert_eq!(schedule.next(&elsewhere, Some(&held(0)), at(7)), (DueReason::Changed, at(7)));
        // The wait after a failure is that of the names that failed.
        fail(&mut schedule, Some(&held(0)), None, at(7));
        assert_eq!(schedule.next(&other, Some(&held(0)), at(8)).1, at(8));
        // The certificate is gone.
        schedule.obtained(&target("a.example"));
        assert_eq!(schedule.next(&target("a.example"), None, at(9)), (DueReason::First, at(9)));
    }

    #[test]
    fn waits_become_longer_up_to_a_day_and_there_are_few_in_an_hour() {
        let (mut schedule, mut now, mut waits) = (AcmeSchedule::default(), at(0), Vec::new());
        for _ in 0..9 {
            fail(&mut schedule, None, None, now);
            let next = wait(&mut schedule, None, now);
            waits.push(next);
            now += Duration::from_secs(next);
        }
        assert_eq!(waits, [60, 240, 960, 3840, 15_360, 61_440, DAY, DAY, DAY]);
        // The first failures are at 0, 1, 5 and 21 minutes, the fifth at 85.
        assert!(waits[..3].iter().sum::<u64>() < 3600 && waits[..4].iter().sum::<u64>() > 3600);
        assert_eq!(schedule.failure().map(|failure| (failure.count, &*failure.fault)), Some((9, "a fault")));
        for _ in 0..100 {
            fail(&mut schedule, None, None, now);
        }
        assert_eq!(wait(&mut schedule, None, now), DAY);
        schedule.obtained(&target("a.example"));
        assert!(schedule.failure().is_none());
    }

    #[test]
    fn a_short_lifetime_shortens_the_waits_and_the_ca_lengthens_them() {
        let short = CertificatePeriod { not_before: at(0), not_after: at(DAY), seed: 0 };
        let mut schedule = AcmeSchedule::default();
        schedule.obtained(&target("a.example"));
        for _ in 0..9 {
            fail(&mut schedule, Some(&short), None, at(60_000));
        }
        assert_eq!(wait(&mut schedule, Some(&short), at(60_000)), 3600);
        fail(&mut schedule, Some(&short), None, at(2 * DAY));
        assert_eq!(wait(&mut schedule, Some(&short), at(2 * DAY)), DAY, "it has expired");
        fail(&mut schedule, Some(&held(0)), Some(3 * DAY), at(70 * DAY));
        assert_eq!(wait(&mut schedule, Some(&held(0)), at(70 * DAY)), 3 * DAY);
        fail(&mut schedule, Some(&held(0)), Some(u64::MAX), at(70 * DAY));
        assert_eq!(wait(&mut schedule, Some(&held(0)), at(70 * DAY)), 7 * DAY);
    }

    #[test]
    fn a_changed_configuration_ends_a_wait_unless_the_ca_asked_for_it() {
        let mut schedule = AcmeSchedule::default();
        fail(&mut schedule, None, None, at(0));
        schedule.end_wait();
        assert_eq!(wait(&mut schedule, None, at(1)), 0);
        fail(&mut schedule, None, None, at(1));
        assert_eq!(wait(&mut schedule, None, at(1)), 240, "the failure before counts");
        fail(&mut schedule, None, Some(3600), at(1));
        schedule.end_wait();
        assert_eq!(wait(&mut schedule, None, at(1)), 3600);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_delay_an_order_for_years() {
        let mut schedule = AcmeSchedule::default();
        fail(&mut schedule, None, None, at(10 * 365 * DAY));
        assert_eq!(wait(&mut schedule, None, at(100)), 60);
        assert_eq!(wait(&mut schedule, None, at(140)), 20, "the wait passes");
        assert_eq!(wait(&mut schedule, None, at(10 * 365 * DAY)), 0);
    }

    #[test]
    fn a_restart_continues_the_wait() {
        let mut schedule = AcmeSchedule::default();
        fail(&mut schedule, None, None, at(0));
        fail(&mut schedule, None, None, at(60));
        let text = serde_json::to_string(&schedule).expect("JSON");
        let mut read: AcmeSchedule = serde_json::from_str(&text).expect("the same");
        assert_eq!(read, schedule);
        assert_eq!(wait(&mut read, None, at(100)), 200);
    }
}
