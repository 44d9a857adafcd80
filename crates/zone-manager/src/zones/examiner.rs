//! Examination of versions in service: flaws of the zone as a whole, and how long its signatures are valid. A
//! separate thread examines, so that no load waits for it. It does long work in spare CPU time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandbox::kinds::{ThreadKind, confine};
use tracing::debug;
use wire::{Serial, Type, UnixTime, ZoneName};
use zone::Zone;
use zone::check::{Flaw, check};
use zone::scan::Severity;

use crate::managed::examination::{Examination, FirstExpiry, FlawText};
use threads::spare::{CpuShare, spare};
use threads::sync::lock;

/// Most findings stored per zone.
pub const FINDINGS_KEPT: usize = 10;
/// Zones of at most this many records are examined at normal priority: starting a thread for each would take
/// longer.
const SMALL_ZONE_RECORDS: u64 = 1000;
/// Least duration of a long examination, after which the zone is not examined again for a while.
const MIN_LONG_EXAMINATION: Duration = Duration::from_micros(100);
/// That while, in durations of the examination: a zone that changes all the time takes a hundredth of a CPU.
const REST_FACTOR: u32 = 99;

/// Examines a zone as of `now`.
pub(super) fn examine(zone: &Zone, now: UnixTime) -> Examination {
    let mut found = Examination::default();
    check(zone, &mut |flaw: Flaw| match found.findings.len() < FINDINGS_KEPT {
        true => {
            let error = flaw.kind.severity() == Severity::Error;
            found.findings.push(FlawText { error, message: flaw.to_string() });
        }
        false => found.more += 1,
    });
    if zone.is_signed() || zone.is_chainless() {
        found.signatures = first_expiry(zone, now);
    }
    found
}

/// Number of a zone's signatures, number of expired ones, and the latest expiration time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignatureEnds {
    /// Number of signatures.
    pub all: u64,
    /// Number of expired signatures.
    pub ended: u64,
    /// The latest expiration time.
    pub last: UnixTime,
}

impl SignatureEnds {
    /// Counts the signatures of a zone.
    pub fn of(zone: &Zone, now: UnixTime) -> Self {
        let mut ends = Self::default();
        for (at, _) in times(zone, now) {
            ends.all += 1;
            ends.ended += u64::from(at <= now);
            ends.last = ends.last.max(at);
        }
        ends
    }
}

/// Returns the signature that expires first. Signature times are serial numbers (RFC 4034 §3.1.5), so `now`
/// selects the 68-year range that is meant.
fn first_expiry(zone: &Zone, now: UnixTime) -> Option<FirstExpiry> {
    let mut first: Option<FirstExpiry> = None;
    for (at, lifetime) in times(zone, now) {
        if first.is_none_or(|first| at < first.at) {
            first = Some(FirstExpiry { at, lifetime });
        }
    }
    first
}

/// Returns the expiration time of each signature of a zone, and its lifetime.
fn times(zone: &Zone, now: UnixTime) -> impl Iterator<Item = (UnixTime, Duration)> {
    let sets = zone.iter().flat_map(|node| node.rrsets()).filter(|set| set.rtype() != Type::RRSIG);
    sets.flat_map(|set| set.sig_rdatas()).filter_map(move |signature| {
        // RFC 4034 §3.1: eight bytes, then the expiration, then the inception.
        let times = <&[u8; 8]>::try_from(signature.compiled().get(8..16)?).ok()?;
        let [a, b, c, d, e, f, g, h] = *times;
        let (end, begin) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        let lifetime = u64::try_from(end.wrapping_sub(begin) as i32).unwrap_or(0);
        Some((now.nearest(Serial(end)), Duration::from_secs(lifetime)))
    })
}

/// The queue of the thread.
#[derive(Default)]
struct Queue {
    /// When each waiting zone is due; the first one on top.
    due: BinaryHeap<Reverse<(Instant, u64, ZoneName)>>,
    /// The newest version of each waiting zone.
    newest: HashMap<ZoneName, Arc<Zone>>,
    /// Until when zones with long examinations are not examined again.
    rest: HashMap<ZoneName, Instant>,
    /// Number of orders so far.
    count: u64,
    closed: bool,
}

impl Queue {
    /// Adds a zone. Of a zone that changes faster than it can be examined, only the newest version stays.
    /// Returns whether the zone is now the first one due, and was not before.
    fn add(&mut self, apex: ZoneName, zone: Arc<Zone>, now: Instant) -> bool {
        if let Some(waiting) = self.newest.get_mut(&apex) {
            *waiting = zone;
            return false;
        }
        self.count += 1;
        let due = self.rest.get(&apex).map_or(now, |rest| now.max(*rest));
        let first = self.due.peek().is_none_or(|Reverse((first, ..))| due < *first);
        self.due.push(Reverse((due, self.count, apex.clone())));
        self.newest.insert(apex, zone);
        first
    }

    /// Returns the next zone that is due, or otherwise when one will be.
    fn next(&mut self, now: Instant) -> Result<(ZoneName, Arc<Zone>), Option<Instant>> {
        match self.due.peek() {
            None => return Err(None),
            Some(Reverse((due, ..))) if *due > now => return Err(Some(*due)),
            Some(_) => {}
        }
        let Some(Reverse((_, _, apex))) = self.due.pop() else { return Err(None) };
        let zone = self.newest.remove(&apex).ok_or(None)?;
        Ok((apex, zone))
    }

    /// Records that the examination of a zone ended at `now`.
    fn examined(&mut self, apex: &ZoneName, took: Duration, now: Instant) {
        match took < MIN_LONG_EXAMINATION {
            true => self.rest.remove(apex),
            false => self.rest.insert(apex.clone(), now + took * REST_FACTOR),
        };
    }
}

/// The thread that examines versions.
pub(super) struct Examiner {
    queue: Arc<(Mutex<Queue>, Condvar)>,
}

impl Examiner {
    /// Starts the thread. Its results go to `done`. It ends when the examiner is dropped, or when `done`
    /// returns false.
    ///
    /// # Errors
    /// Those of the system, if it refuses a thread.
    pub(super) fn start(
        now: impl Fn() -> UnixTime + Send + Sync + 'static,
        done: impl Fn(ZoneName, Arc<Zone>, Arc<Examination>) -> bool + Send + 'static,
    ) -> std::io::Result<Examiner> {
        let queue: Arc<(Mutex<Queue>, Condvar)> = Arc::default();
        let theirs = Arc::clone(&queue);
        // Nearly all zones have no findings and share this value.
        let nothing = Arc::new(Examination::default());
        std::thread::Builder::new().name("examiner".into()).spawn(move || {
            confine(ThreadKind::Compute);
            while let Some((apex, zone)) = wait(&theirs) {
                let begun = Instant::now();
                let examine = || examine(&zone, now());
                let found = if zone.record_count() > SMALL_ZONE_RECORDS {
                    spare(CpuShare::Least, examine)
                } else {
                    examine()
                };
                let took = begun.elapsed();
                debug!(milliseconds = took.as_millis() as u64, "zone {}: examined", apex);
                lock(&theirs.0).examined(&apex, took, Instant::now());
                let found = if found == *nothing { Arc::clone(&nothing) } else { Arc::new(found) };
                if !done(apex, zone, found) {
                    return;
                }
            }
        })?;
        Ok(Examiner { queue })
    }

    /// Queues the examination of a zone. Wakes the thread only if the zone is the first one due, and not for
    /// each version of a zone that changes all the time.
    pub(super) fn order(&self, apex: ZoneName, zone: Arc<Zone>) {
        let first = lock(&self.queue.0).add(apex, zone, Instant::now());
        if first {
            self.queue.1.notify_one();
        }
    }
}

impl Drop for Examiner {
    fn drop(&mut self) {
        lock(&self.queue.0).closed = true;
        self.queue.1.notify_one();
    }
}

/// Waits for a zone that is due; `None` when the examiner is dropped.
fn wait((queue, changed): &(Mutex<Queue>, Condvar)) -> Option<(ZoneName, Arc<Zone>)> {
    let mut queue = lock(queue);
    loop {
        if queue.closed {
            return None;
        }
        let now = Instant::now();
        queue = match queue.next(now) {
            Ok(next) => return Some(next),
            Err(None) => changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Err(Some(due)) => {
                let waited = changed.wait_timeout(queue, due.saturating_duration_since(now));
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use wire::hash::HashKey;
    use wire::{Name, NameBuf};
    use zone::LoadConfig;
    use zone::scan::TextSource;

    use super::*;

    fn zone(text: &str) -> Zone {
        let apex: NameBuf = "example.".parse().expect("a name");
        let text = format!("$TTL 60\n@ SOA ns1 admin 1 1 1 9 9\n@ NS ns1\n@ NS ns2\n{text}");
        let source = TextSource::bytes("test", text.as_bytes());
        let (key, config) = (HashKey::new([1, 2, 3]), LoadConfig::default());
        let loaded = zone::load::load(source, apex.as_name(), &key, &config, |_| ControlFlow::Continue(()));
        loaded.expect("a zone").zone
    }

    const HOSTS: &str = "ns1 A 192.0.2.1\nns2 A 192.0.2.2\n";

    fn signature(begin: i64, end: i64) -> String {
        let [begin, end] = [begin, end].map(|at| at.rem_euclid(1 << 32));
        format!("ns1 RRSIG A 13 2 60 {end} {begin} 1 example. AAAA\n")
    }

    #[test]
    fn flaws_are_found_and_counted() {
        assert_eq!(examine(&zone(HOSTS), UnixTime::EPOCH), Examination::default());
        let many: String = (0..15).map(|i| format!("h{i} MX 1 nowhere{i}\n")).collect();
        let found = examine(&zone(&format!("{HOSTS}{many}")), UnixTime::EPOCH);
        assert_eq!((found.findings.len(), found.more), (FINDINGS_KEPT, 5));
        assert_eq!(
            found.findings[0],
            FlawText {
                error: false,
                message: "h0.example. MX: nowhere0.example. has no address records in this zone".into()
            }
        );
    }

    #[test]
    fn every_version_of_a_zone_that_changed_all_the_time_was_examined() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let versions: [Arc<Zone>; 3] = std::array::from_fn(|_| Arc::new(zone(HOSTS)));
        let order = |at: usize| Arc::clone(&versions[at]);
        let (one, other): (ZoneName, ZoneName) =
            (Name::of_checked(b"\x03one\0").into(), Name::of_checked(b"\x05other\0").into());
        let woken = [(&one, 0), (&other, 1), (&one, 2)].map(|(of, at)| queue.add(of.clone(), order(at), now));
        assert_eq!(woken, [true, false, false]);
        let mut next = |now| queue.next(now);
        let (apex, version) = next(now).expect("due");
        assert!(apex == one && Arc::ptr_eq(&version, &versions[2]), "the newest version");
        assert_eq!(next(now).map(|(apex, _)| apex), Ok(other));
        assert_eq!(next(now).map(|(apex, _)| apex), Err(None));
        // The examination took a second: the zone waits ninety-nine.
        queue.examined(&one, Duration::from_secs(1), now);
        assert!(queue.add(one.clone(), order(0), now), "no other zone waits before it");
        let due = now + Duration::from_secs(99);
        assert_eq!(queue.next(now).map(|(apex, _)| apex), Err(Some(due)));
        assert_eq!(queue.next(due).map(|(apex, _)| apex), Ok(one));
    }

    #[test]
    fn the_signature_that_ends_first_counts_even_where_seconds_begin_anew() {
        for time in [1_700_000_000, (1 << 32) - 5, 1 << 32] {
            let text = format!(
                "{HOSTS}@ DNSKEY 257 3 13 AAAA\n{}{}",
                signature(time - 100, time + 700),
                signature(time - 100, time + 300)
            );
            let unix = |seconds: i64| UnixTime::from_secs(seconds.unsigned_abs());
            let expected = FirstExpiry { at: unix(time + 300), lifetime: Duration::from_secs(400) };
            assert_eq!(first_expiry(&zone(&text), unix(time)), Some(expected), "{time}");
        }
        assert_eq!(first_expiry(&zone(HOSTS), UnixTime::EPOCH), None);
    }
}
