//! When which delegation is checked, without I/O and clock: scans that are spread over their interval, and
//! checks that were asked for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use wire::{NameBuf, ZoneName};
use zone_plan::DelegationRules;

/// Least time between two checks of a scan.
const SCAN_GAP: Duration = Duration::from_millis(1);
/// Longest time until the first delegation of a zone is checked after the start.
const FIRST_CHECK: Duration = Duration::from_secs(60);
/// Longest time after which a zone without delegations is looked at again.
const EMPTY_ZONE_INTERVAL: Duration = Duration::from_secs(3600);
/// Least time between two checks of a delegation that are asked for by NOTIFY.
pub(super) const NOTIFY_GAP: Duration = Duration::from_secs(10);
/// Most checks that were asked for and wait.
pub(super) const MAX_REQUESTED: usize = 10_000;
/// When a check is repeated after one that was asked for and failed.
const RETRIES: [Duration; 4] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(900), Duration::from_secs(3600)];

/// A delegation: its zone, and the name of the child.
pub(super) type ChildOf = (ZoneName, NameBuf);

/// The delegations of zones in service.
pub(super) trait ZoneDelegations {
    /// Returns the number of delegations of a zone, and the name before which a scan begins, chosen by a
    /// random number.
    fn survey(&self, zone: &ZoneName, random: u32) -> (usize, Option<NameBuf>);
    /// Returns the first delegation of a zone after a name in canonical order; after the last one, the first.
    fn after(&self, zone: &ZoneName, name: Option<&NameBuf>) -> Option<NameBuf>;
}

/// The scan of one zone.
#[derive(Debug)]
struct ZoneScan {
    rules: DelegationRules,
    /// When its next delegation is due; `None`: it is not scanned.
    due: Option<Instant>,
    /// The delegation that was checked last.
    cursor: Option<NameBuf>,
    /// Delegations until it is surveyed again; `None`: it was not surveyed.
    left: Option<usize>,
    /// Time between two checks.
    gap: Duration,
}

/// A check that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestedCheck {
    due: Instant,
    /// How often it has failed.
    tries: usize,
    /// Whether a NOTIFY asks for it.
    is_notify: bool,
}

/// The schedule of all zones.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    zones: HashMap<ZoneName, ZoneScan>,
    /// The zones by when they are due.
    queue: BTreeSet<(Instant, ZoneName)>,
    requested: HashMap<ChildOf, RequestedCheck>,
    running: HashSet<ChildOf>,
    /// Delegations that NOTIFY had checked not long ago, with the time from which on it may do so again.
    recent: HashMap<ChildOf, Instant>,
    /// How often checks of these that were asked for have failed.
    failed: HashMap<ChildOf, usize>,
    /// Whether the last check that has begun was asked for.
    was_requested: bool,
    /// Least time between the starts of two checks, of all zones together.
    gap: Duration,
    /// When the next check may begin.
    earliest: Option<Instant>,
}

impl Schedule {
    /// Sets the rules of a zone; `None`: its delegations are not checked. A scan goes on where it was if the
    /// interval is the same.
    pub(super) fn set(&mut self, zone: &ZoneName, rules: Option<DelegationRules>, now: Instant, random: u32) {
        let Some(rules) = rules else { return self.forget(zone) };
        if let Some(scan) = self.zones.get_mut(zone)
            && scan.rules.scan_every == rules.scan_every
        {
            scan.rules = rules;
            return;
        }
        self.forget(zone);
        let due = rules.scan_every.map(|every| now + part(every.min(FIRST_CHECK), random));
        self.queue.extend(due.map(|due| (due, zone.clone())));
        let scan = ZoneScan { rules, due, cursor: None, left: None, gap: Duration::ZERO };
        self.zones.insert(zone.clone(), scan);
    }

    fn forget(&mut self, zone: &ZoneName) {
        if let Some(due) = self.zones.remove(zone).and_then(|scan| scan.due) {
            self.queue.remove(&(due, zone.clone()));
        }
        self.requested.retain(|(of, _), _| of != zone);
        self.failed.retain(|(of, _), _| of != zone);
    }

    /// Sets the least time between the starts of two checks, from the next one on.
    pub(super) fn limit(&mut self, gap: Duration) {
        self.gap = gap;
    }

    /// The zones with rules.
    pub(super) fn zones(&self) -> impl Iterator<Item = &ZoneName> {
        self.zones.keys()
    }

    /// Returns the rules of a zone.
    pub(super) fn rules(&self, zone: &ZoneName) -> Option<DelegationRules> {
        self.zones.get(zone).map(|scan| scan.rules)
    }

    /// Asks for a check now; after a NOTIFY, not before [`NOTIFY_GAP`] after the last one. Returns false if
    /// too many wait.
    pub(super) fn request(&mut self, child: &ChildOf, is_notify: bool, now: Instant) -> bool {
        let earliest = self.recent.get(child).copied().filter(|_| is_notify).unwrap_or(now).max(now);
        self.failed.remove(child);
        if let Some(requested) = self.requested.get_mut(child) {
            let (due, is_notify) = (requested.due.min(earliest), requested.is_notify || is_notify);
            *requested = RequestedCheck { due, tries: 0, is_notify };
            return true;
        }
        if self.requested.len() >= MAX_REQUESTED || is_notify && self.recent.len() >= MAX_REQUESTED {
            return false;
        }
        self.requested.insert(child.clone(), RequestedCheck { due: earliest, tries: 0, is_notify });
        true
    }

    /// Returns the next check that is due, which begins: one that was asked for, and one of a scan, in turn.
    /// So a scan goes on, however many checks are asked for.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        zones: &impl ZoneDelegations,
        random: u32,
    ) -> Option<ChildOf> {
        if self.earliest.is_some_and(|earliest| now < earliest) {
            return None;
        }
        let scanned = if self.was_requested { self.begin_scanned(now, zones, random) } else { None };
        let requested = if scanned.is_none() { self.begin_requested(now) } else { None };
        self.was_requested = requested.is_some();
        let begun = scanned.or(requested).or_else(|| self.begin_scanned(now, zones, random));
        if begun.is_some() {
            self.earliest = Some(now + self.gap);
        }
        begun
    }

    fn begin_requested(&mut self, now: Instant) -> Option<ChildOf> {
        let is_due =
            |child: &ChildOf, check: &RequestedCheck| check.due <= now && !self.running.contains(child);
        let due = self.requested.iter().filter(|(child, check)| is_due(child, check));
        let child = due.min_by_key(|(_, check)| check.due).map(|(child, _)| child.clone())?;
        if let Some(check) = self.requested.remove(&child) {
            self.failed.insert(child.clone(), check.tries);
            self.recent.retain(|_, until| *until > now);
            self.recent.extend(check.is_notify.then(|| (child.clone(), now + NOTIFY_GAP)));
        }
        self.running.insert(child.clone());
        Some(child)
    }

    fn begin_scanned(&mut self, now: Instant, zones: &impl ZoneDelegations, random: u32) -> Option<ChildOf> {
        // A zone of which nothing is to be checked now is due later, so this ends.
        while self.queue.first().is_some_and(|(due, _)| *due <= now) {
            let (_, zone) = self.queue.pop_first()?;
            let Some(scan) = self.zones.get_mut(&zone) else { continue };
            let next = scan.step(&zone, now, zones, random);
            self.queue.extend(scan.due.map(|due| (due, zone.clone())));
            let Some(child) = next.map(|child| (zone, child)) else { continue };
            if self.running.insert(child.clone()) {
                return Some(child);
            }
        }
        None
    }

    /// Ends a check. One that was asked for and failed is repeated some times.
    pub(super) fn end(&mut self, child: &ChildOf, is_failed: bool, now: Instant) {
        self.running.remove(child);
        let tries = self.failed.remove(child);
        if !self.zones.contains_key(&child.0) {
            return;
        }
        let again = tries.filter(|_| is_failed && !self.requested.contains_key(child));
        if let Some((tries, wait)) = again.and_then(|tries| Some((tries, RETRIES.get(tries)?)))
            && self.requested.len() < MAX_REQUESTED
        {
            self.requested.insert(
                child.clone(),
                RequestedCheck { due: now + *wait, tries: tries + 1, is_notify: false },
            );
        }
    }

    /// Returns when a delegation is checked next, if that is known; otherwise it is checked within the
    /// interval of its zone.
    pub(super) fn next_of(&self, child: &ChildOf) -> Option<Instant> {
        self.requested.get(child).map(|check| check.due)
    }

    /// The number of checks that were asked for and wait.
    pub(super) fn waiting(&self) -> usize {
        self.requested.len()
    }

    /// Returns when a check is due next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let requested = self.requested.iter().filter(|(child, _)| !self.running.contains(*child));
        let requested = requested.map(|(_, check)| check.due).min();
        let due = requested.into_iter().chain(self.queue.first().map(|(due, _)| *due)).min();
        due.max(due.and(self.earliest))
    }
}

impl ZoneScan {
    /// Returns the next delegation to check, and sets when the one after it is due.
    fn step(
        &mut self,
        zone: &ZoneName,
        now: Instant,
        zones: &impl ZoneDelegations,
        random: u32,
    ) -> Option<NameBuf> {
        let every = self.rules.scan_every?;
        if self.left.is_none_or(|left| left == 0) {
            let (count, start) = zones.survey(zone, random);
            if self.left.is_none() {
                self.cursor = start;
            }
            (self.left, self.gap) = (Some(count), every / u32::try_from(count.max(1)).unwrap_or(u32::MAX));
        }
        let next = zones.after(zone, self.cursor.as_ref());
        self.left = self.left.map(|left| left.saturating_sub(1));
        let gap = match next {
            Some(_) => self.gap,
            None => every.min(EMPTY_ZONE_INTERVAL),
        };
        // A tenth more or less, so that zones do not stay due at the same time.
        self.due = Some(now + (gap - gap / 10 + part(gap / 5, random)).max(SCAN_GAP));
        if next.is_some() {
            self.cursor.clone_from(&next);
        }
        next
    }
}

/// Returns a random part of a time.
fn part(time: Duration, random: u32) -> Duration {
    time.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delegations of each zone, in order.
    struct Listed(Vec<(ZoneName, Vec<NameBuf>)>);

    impl ZoneDelegations for Listed {
        fn survey(&self, zone: &ZoneName, random: u32) -> (usize, Option<NameBuf>) {
            let all = self.of(zone);
            let start = all.get(random as usize % all.len().max(1)).copied();
            (all.len(), start)
        }
        fn after(&self, zone: &ZoneName, name: Option<&NameBuf>) -> Option<NameBuf> {
            let all = self.of(zone);
            let later = name.and_then(|name| all.iter().position(|one| one == name));
            all.get(later.map_or(0, |at| (at + 1) % all.len())).copied()
        }
    }

    impl Listed {
        fn of(&self, zone: &ZoneName) -> &[NameBuf] {
            self.0.iter().find(|(of, _)| of == zone).map_or(&[], |(_, all)| all)
        }
    }

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    fn zone(text: &str) -> ZoneName {
        (&name(text)).into()
    }

    const DAY: Duration = Duration::from_secs(86_400);

    fn rules(scan_every: Option<Duration>) -> DelegationRules {
        DelegationRules {
            cds: true,
            bootstrap: false,
            csync: false,
            scan_every,
            notify: true,
            dry_run: false,
        }
    }

    /// Runs the schedule on virtual time until `end`. Returns the checks with their times.
    fn run(
        schedule: &mut Schedule,
        zones: &Listed,
        mut now: Instant,
        end: Instant,
    ) -> Vec<(Instant, String)> {
        let (mut checks, mut random) = (Vec::new(), 1u32);
        while let Some(due) = schedule.next_due().filter(|due| *due <= end) {
            now = now.max(due);
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let Some(child) = schedule.begin(now, zones, random) else { continue };
            checks.push((now, child.1.to_string()));
            schedule.end(&child, false, now);
            now += SCAN_GAP;
        }
        checks
    }

    #[test]
    fn a_scan_is_spread_over_the_interval_and_has_each_delegation_once() {
        let names: Vec<NameBuf> = (0..1000).map(|n| name(&format!("c{n:04}.example"))).collect();
        let zones = Listed(vec![(zone("example"), names.clone())]);
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.set(&zone("example"), Some(rules(Some(DAY))), start, 7);
        let checks = run(&mut schedule, &zones, start, start + DAY);
        assert!((950..=1050).contains(&checks.len()), "{}", checks.len());
        let most_in_an_hour = (0..24u32).map(|hour| {
            let from = start + Duration::from_secs(3600) * hour;
            checks.iter().filter(|(at, _)| (from..from + Duration::from_secs(3600)).contains(at)).count()
        });
        assert!(most_in_an_hour.max() < Some(50), "no burst");
        let different: HashSet<&String> = checks.iter().map(|(_, child)| child).collect();
        assert!(different.len() >= checks.len().min(1000) - 1);
        // The next one goes on behind the last.
        let later = run(&mut schedule, &zones, start + DAY, start + 2 * DAY);
        let all: HashSet<&String> = checks.iter().chain(&later).map(|(_, child)| child).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn the_first_delegation_is_checked_soon_and_an_empty_zone_seldom() {
        let zones = Listed(vec![(zone("one"), vec![name("child.one")])]);
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.set(&zone("one"), Some(rules(Some(DAY))), start, u32::MAX);
        schedule.set(&zone("empty"), Some(rules(Some(DAY))), start, 0);
        let checks = run(&mut schedule, &zones, start, start + 2 * DAY);
        assert!((2..=3).contains(&checks.len()), "{checks:?}");
        assert!(checks[0].0 <= start + FIRST_CHECK);
        assert!(checks[1].0 - checks[0].0 > DAY / 2);
    }

    #[test]
    fn checks_that_are_asked_for_come_first_and_not_too_often_by_notify() {
        let zones = Listed(vec![(zone("example"), vec![name("a.example")])]);
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let child = (zone("example"), name("b.example"));
        schedule.set(&child.0, Some(rules(None)), now, 0);
        assert_eq!((schedule.next_due(), schedule.begin(now, &zones, 0)), (None, None), "no scan");
        assert!(schedule.request(&child, true, now) && schedule.request(&child, true, now));
        assert_eq!(schedule.begin(now, &zones, 0), Some(child.clone()));
        assert_eq!(schedule.begin(now, &zones, 0), None, "only once");
        assert!(schedule.request(&child, false, now));
        assert_eq!((schedule.begin(now, &zones, 0), schedule.next_due()), (None, None), "it still runs");
        schedule.end(&child, false, now);
        assert_eq!(schedule.begin(now, &zones, 0), Some(child.clone()));
        schedule.end(&child, false, now);
        assert!(schedule.request(&child, true, now));
        assert_eq!(schedule.next_of(&child), Some(now + NOTIFY_GAP));
        assert!(schedule.request(&child, false, now), "an operator need not wait");
        assert_eq!(schedule.next_of(&child), Some(now));
        let other = (zone("example"), name("c.example"));
        assert!(schedule.request(&other, false, now));
        while let Some(checked) = schedule.begin(now, &zones, 0) {
            schedule.end(&checked, false, now);
        }
        assert!(schedule.request(&other, true, now));
        assert_eq!(schedule.next_of(&other), Some(now), "what an operator has asked for does not count");
    }

    #[test]
    fn many_checks_that_are_asked_for_do_not_stop_a_scan() {
        let names: Vec<NameBuf> = (0..100).map(|n| name(&format!("c{n:02}.example"))).collect();
        let zones = Listed(vec![(zone("example"), names)]);
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.set(&zone("example"), Some(rules(Some(Duration::from_millis(100)))), now, 0);
        let other = |n: usize| (zone("example"), name(&format!("x{n:02}.example")));
        assert!((0..50).all(|n| schedule.request(&other(n), true, now)));
        let mut begun =
            |at: u64| schedule.begin(now + Duration::from_millis(at), &zones, 0).expect("one is due");
        let names: Vec<String> = (0..40).map(|n| begun(1000 + 10 * n).1.to_string()).collect();
        assert_eq!(names.iter().filter(|name| name.starts_with('x')).count(), 20, "{names:?}");
    }

    #[test]
    fn checks_begin_at_the_rate_that_is_set() {
        let names: Vec<NameBuf> = (0..100).map(|n| name(&format!("c{n:02}.example"))).collect();
        let zones = Listed(vec![(zone("example"), names.clone())]);
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.set(&zone("example"), Some(rules(Some(Duration::from_secs(1)))), start, 0);
        schedule.limit(Duration::from_millis(50));
        assert!(names.iter().all(|child| schedule.request(&(zone("example"), *child), true, start)));
        let checks = run(&mut schedule, &zones, start, start + Duration::from_secs(10));
        let gaps = checks.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert_eq!(gaps.min(), Some(Duration::from_millis(50)));
        assert!((199..=201).contains(&checks.len()), "{}", checks.len());
    }

    #[test]
    fn what_was_asked_for_and_failed_is_tried_again_some_times() {
        let zones = Listed(Vec::new());
        let (mut schedule, mut now) = (Schedule::default(), Instant::now());
        let child = (zone("example"), name("b.example"));
        schedule.set(&child.0, Some(rules(None)), now, 0);
        assert!(schedule.request(&child, true, now));
        for wait in RETRIES {
            assert_eq!(schedule.begin(now, &zones, 0), Some(child.clone()));
            schedule.end(&child, true, now);
            assert_eq!(schedule.next_of(&child), Some(now + wait));
            now += wait;
        }
        assert_eq!(schedule.begin(now, &zones, 0), Some(child.clone()));
        schedule.end(&child, true, now);
        assert_eq!(schedule.next_of(&child), None);
    }

    #[test]
    fn what_waits_is_bounded_and_forgotten_with_its_zone() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        let child = |n: usize| (zone("example"), name(&format!("c{n}.example")));
        schedule.set(&zone("example"), Some(rules(Some(DAY))), now, 0);
        assert!((0..MAX_REQUESTED).all(|n| schedule.request(&child(n), true, now)));
        assert!(!schedule.request(&child(MAX_REQUESTED), true, now));
        assert!(schedule.request(&child(3), true, now), "one that waits already");
        schedule.set(&zone("example"), None, now, 0);
        assert_eq!((schedule.next_due(), schedule.zones().count()), (None, 0));
    }
}
