//! Trust anchors at run time: those that follow their zones (RFC 5011), and temporary negative ones (RFC
//! 7646). A thread queries for DNSKEYs when due, and ends negative anchors when they expire. Both kinds are
//! stored in the state folder.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use resolver::{LookupOutcome, Partition, QueryKey};
use tracing::{error, info, warn};
use transport::unix_now;
use validator::{AnchorChange, AnchorEvent, AnchorState, Response, TrustAnchors, TrustPoint, TrustPoints};
use wire::rdata::view::Ds;
use wire::{Class, Name, NameBuf, Type, UnixTime};

use super::kept::{KeptFault, KeptText};
use super::{Decided, Recursive};
use telemetry::repeated::log_repeated;
use threads::sync::lock;
use wording::reason;

/// Longest lifetime of a negative trust anchor (RFC 7646 §2).
pub const LONGEST_NEGATIVE: Duration = Duration::from_secs(7 * 86_400);
/// Longest sleep of the thread, since the wall clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Smallest difference between the wall clock and the elapsed time that counts as a clock set.
const LEAST_JUMP: Duration = Duration::from_secs(60);

/// A message to the thread.
pub(super) enum AnchorOrder {
    /// The outcome of a DNSKEY lookup for a zone.
    Found(Box<(NameBuf, LookupOutcome)>),
    /// The next due time may have changed.
    Look,
    /// Stop the thread.
    Stop,
}

/// The files of both kinds of trust anchors.
pub(super) struct AnchorFiles {
    points: KeptText,
    negative: KeptText,
}

/// The expiry times of the negative trust anchors.
pub(super) type NegativeTimes = BTreeMap<NameBuf, Instant>;

impl AnchorFiles {
    /// Returns the files in a state folder.
    pub(super) fn new(state: &Path) -> Self {
        AnchorFiles {
            points: KeptText::new(state, "trust-anchors"),
            negative: KeptText::new(state, "negative-trust-anchors"),
        }
    }

    /// Reads the state of followed zones; returns an empty state if the file is missing or damaged.
    pub(super) fn read_points(&self) -> TrustPoints {
        let read = read_with(&self.points, |lines| TrustPoints::from_str(lines).map_err(|fault| fault.0));
        read.unwrap_or_else(|fault| {
            let path = self.points.path().display();
            error!(
                "{path} cannot be used: {fault}; the configured trust anchors apply, learned ones are lost"
            );
            TrustPoints::default()
        })
    }

    /// Reads the negative anchors that have not expired.
    pub(super) fn read_negative(&self) -> NegativeTimes {
        let (now, at) = (unix_now(), Instant::now());
        let read = read_with(&self.negative, |lines| read_negative(lines, now));
        let left = read.unwrap_or_else(|fault| {
            let path = self.negative.path().display();
            error!("{path} cannot be used: {fault}; added negative trust anchors are lost");
            Vec::new()
        });
        left.into_iter().map(|(domain, left)| (domain, at + left)).collect()
    }

    /// Stores the state of followed zones.
    pub(super) fn write_points(&self, points: &TrustPoints) {
        complain(&self.points, self.points.write(&points.to_string()));
    }

    /// Stores the negative anchors.
    pub(super) fn write_negative(&self, negative: &NegativeTimes) {
        let (now, at) = (unix_now(), Instant::now());
        let mut lines = String::new();
        for (domain, until) in negative {
            // Rounded to the nearest second.
            let left = until.saturating_duration_since(at) + Duration::from_millis(500);
            let until = now.saturating_add(left);
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{until} {domain}");
        }
        complain(&self.negative, self.negative.write(&lines));
    }
}

fn read_with<T: Default>(
    kept: &KeptText,
    read: impl FnOnce(&str) -> Result<T, usize>,
) -> Result<T, KeptFault> {
    let lines = kept.read().and_then(|lines| match lines {
        // The lines do not include the file's first line.
        Some(lines) => read(&lines).map_err(|line| KeptFault::Line(line + 1)),
        None => Ok(T::default()),
    });
    lines.inspect_err(|_| kept.put_aside())
}

/// Returns domains, each with its remaining time.
fn read_negative(lines: &str, now: UnixTime) -> Result<Vec<(NameBuf, Duration)>, usize> {
    let read = |line: &str| {
        let (until, domain) = line.split_once(' ')?;
        let (until, domain): (u64, NameBuf) = (until.parse().ok()?, domain.parse().ok()?);
        let left = UnixTime::from_secs(until).saturating_duration_since(now);
        // Even with a wrong clock, the time is limited to the longest allowed.
        Some((domain, left.min(LONGEST_NEGATIVE)))
    };
    let all = (1..).zip(lines.lines()).map(|(number, line)| read(line).ok_or(number));
    all.filter(|read| !matches!(read, Ok((_, left)) if left.is_zero())).collect()
}

fn complain(kept: &KeptText, written: std::io::Result<()>) {
    if let Err(e) = written {
        let path = kept.path().display();
        let about = ("anchors not written", &*path.to_string());
        log_repeated!(
            error,
            ERROR,
            about,
            "cannot write {path}: {}; the changes are lost at a restart",
            reason(&e)
        );
    }
}

/// Logs that the keys of a followed zone cannot be used.
fn complain_of_keys(zone: &NameBuf, what: &dyn fmt::Display) {
    let about = ("keys of anchors", &*zone.to_string());
    log_repeated!(warn, WARN, about, "the keys of {zone}, a trust anchor's zone, {what}");
}

/// Detects changes of the wall clock against the monotonic clock.
struct WallClock {
    /// The last reading, and the instant.
    seen: (UnixTime, Instant),
}

impl WallClock {
    /// Returns whether the wall clock, `wall` at `now`, was set since the last call.
    fn was_put(&mut self, wall: UnixTime, now: Instant) -> bool {
        let (before, at) = std::mem::replace(&mut self.seen, (wall, now));
        let expected = before.saturating_add(now.saturating_duration_since(at));
        expected.abs_diff(wall) > LEAST_JUMP
    }
}

/// Runs the thread.
pub(super) fn work(recursive: &Weak<Recursive>, orders: &Receiver<AnchorOrder>, back: &Sender<AnchorOrder>) {
    let mut clock = WallClock { seen: (unix_now(), Instant::now()) };
    loop {
        let Some(running) = recursive.upgrade() else { return };
        running.drop_expired_anchors();
        if clock.was_put(unix_now(), Instant::now()) {
            info!("the clock was set: fetching the keys of the trust anchors' zones");
            lock(&running.decided).points.clock_was_put();
        }
        running.ask_for_keys(back);
        let sleep = running.until_anchors();
        drop(running);
        match orders.recv_timeout(sleep) {
            Ok(AnchorOrder::Found(found)) => match recursive.upgrade() {
                Some(running) => running.take_keys(found.0, found.1),
                None => return,
            },
            Ok(AnchorOrder::Look) | Err(RecvTimeoutError::Timeout) => {}
            Ok(AnchorOrder::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A zone whose trust anchors are followed. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct FollowedZone {
    /// The zone.
    pub zone: NameBuf,
    /// When its keys were last seen with a good signature.
    pub seen: Option<UnixTime>,
    /// When they are queried next.
    pub next: UnixTime,
}

/// A trust anchor, or a key that may become one, as shown to the operator.
pub struct ShownAnchor {
    /// Its zone.
    pub zone: NameBuf,
    /// Its key tag.
    pub tag: u16,
    /// Its algorithm number.
    pub algorithm: u8,
    /// Its state; `None` if it is configured and its key has not been seen.
    pub state: Option<AnchorState>,
    /// The start of that state.
    pub since: Option<UnixTime>,
}

impl Recursive {
    /// Returns the time until a DNSKEY lookup is due or a negative anchor expires.
    fn until_anchors(&self) -> Duration {
        let decided = lock(&self.decided);
        let now = Instant::now();
        let keys = decided.points.wait(unix_now());
        let negative = decided.negative.values().map(|until| until.saturating_duration_since(now));
        keys.into_iter().chain(negative).min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }

    /// Starts the DNSKEY lookups that are due. Each zone is marked as failed until its answer arrives.
    fn ask_for_keys(&self, back: &Sender<AnchorOrder>) {
        let (due, signals) = {
            let mut decided = lock(&self.decided);
            let now = unix_now();
            let due = decided.points.due(now);
            due.iter().for_each(|zone| decided.points.failed(zone.as_name(), now));
            let signals: Vec<NameBuf> = match decided.signals {
                true => due
                    .iter()
                    .filter_map(|zone| signal(zone, &decided.in_force().validation.anchors))
                    .collect(),
                false => Vec::new(),
            };
            (due, signals)
        };
        let query_key = |name: Name<'_>, qtype, dnssec_ok| QueryKey {
            name: name.to_lower(),
            qtype,
            qclass: Class::IN,
            dnssec_ok,
            // The answer is validated in `take_keys`, with the anchors of its zone alone.
            checking_disabled: true,
            partition: Partition::SHARED,
        };
        for zone in due {
            let back = back.clone();
            self.service.look_up(query_key(zone.as_name(), Type::DNSKEY, true), None, move |outcome, _| {
                // The thread may have stopped.
                let _ = back.send(AnchorOrder::Found(Box::new((zone, outcome))));
            });
        }
        for name in signals {
            // The answer is ignored (RFC 8145 §5.1).
            self.service.look_up(query_key(name.as_name(), Type::NULL, false), None, |_, _| {});
        }
    }

    /// Handles the outcome of a DNSKEY lookup.
    fn take_keys(&self, zone: NameBuf, outcome: LookupOutcome) {
        let answer = match outcome {
            LookupOutcome::Answered(answer) => answer,
            LookupOutcome::Failed(failure) => {
                return complain_of_keys(&zone, &format_args!("could not be had: {failure}"));
            }
        };
        let Ok(response) = Response::read(&answer.message, answer.rcode) else {
            return complain_of_keys(&zone, &"cannot be read");
        };
        let mut decided = lock(&self.decided);
        let mut new = decided.clone();
        let settings = new.policy.validation.settings;
        let report = new.points.receive(zone.as_name(), &response, &settings, unix_now());
        report.changes.iter().for_each(say);
        if let Some(fault) = report.fault {
            complain_of_keys(&zone, &format_args!("count for nothing: {fault}"));
        }
        if let Some(files) = &self.anchor_files {
            files.write_points(&new.points);
        }
        let [before, after] = [&*decided, &new].map(|decided| decided.in_force().validation.anchors);
        if before == after {
            *decided = new;
            return;
        }
        if !after.positive().any(|(anchored, _)| *anchored == zone) {
            error!(
                "{zone} has revoked all its keys: it has no trust anchor any more, and nothing below it is \
                validated"
            );
        }
        if let Err(fault) = self.decide(&mut decided, new) {
            let about = ("trust anchors stay", "");
            log_repeated!(error, ERROR, about, "trust anchors stay unchanged: {fault}");
        }
    }

    /// Notifies the thread that the next due time may have changed.
    pub(super) fn look_at_anchors(&self) {
        if let Some((orders, _)) = &*lock(&self.anchor_thread) {
            // The thread may have stopped.
            let _ = orders.send(AnchorOrder::Look);
        }
    }

    /// Returns every trust anchor, and every key that may become one, with its state.
    pub fn trust_anchors(&self) -> Vec<ShownAnchor> {
        let decided = lock(&self.decided);
        let mut shown = Vec::new();
        for (zone, ds) in decided.policy.validation.anchors.positive() {
            let point = decided.points.iter().find(|(followed, _)| *followed == zone).map(|(_, point)| point);
            let unseen: Vec<&Vec<u8>> = match point {
                Some(point) => point.unseen(zone.as_name()).collect(),
                None => ds.iter().collect(),
            };
            shown.extend(unseen.into_iter().filter_map(|rdata| Ds::read(rdata).ok()).map(|ds| ShownAnchor {
                zone: *zone,
                tag: ds.key_tag,
                algorithm: ds.algorithm.0,
                state: None,
                since: None,
            }));
            shown.extend(point.into_iter().flat_map(TrustPoint::keys).map(|key| ShownAnchor {
                zone: *zone,
                tag: key.tag(),
                algorithm: key.algorithm(),
                state: Some(key.state),
                since: Some(key.since),
            }));
        }
        shown
    }

    /// Returns the zones whose anchors are followed.
    pub fn followed_zones(&self) -> Vec<FollowedZone> {
        let decided = lock(&self.decided);
        let one = |(zone, point): (&NameBuf, &TrustPoint)| FollowedZone {
            zone: *zone,
            seen: point.seen(),
            next: point.next(),
        };
        decided.points.iter().map(one).collect()
    }
}

impl Decided {
    /// Follows the anchors that are now configured.
    pub(super) fn follow(&mut self) {
        let Decided { policy, followed, points, .. } = self;
        points.follow(&policy.validation.anchors, |zone| followed.contains(&zone.to_buf()));
    }
}

fn say(AnchorChange { zone, tag, event }: &AnchorChange) {
    match event {
        AnchorEvent::Appeared(until) => {
            let days = until.saturating_duration_since(unix_now()).as_secs() / 86_400;
            info!("key {tag} of {zone}: {event}, {days} days");
        }
        AnchorEvent::Revoked | AnchorEvent::Missed => warn!("key {tag} of {zone}: {event}"),
        _ => info!("key {tag} of {zone}: {event}"),
    }
}

/// Returns the query name that signals to a zone's servers which of its keys are anchors here (RFC 8145
/// §5.1).
fn signal(zone: &NameBuf, anchors: &TrustAnchors) -> Option<NameBuf> {
    let (_, ds) = anchors.positive().find(|(anchored, _)| *anchored == zone)?;
    let tags: std::collections::BTreeSet<u16> =
        ds.iter().filter_map(|rdata| Ds::read(rdata).ok()).map(|ds| ds.key_tag).collect();
    let label = tags.iter().fold("_ta".to_owned(), |label, tag| format!("{label}-{tag:04x}"));
    NameBuf::from_text(label.as_bytes(), Some(zone.as_name())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NameBuf {
        text.parse().expect("a name")
    }

    #[test]
    fn the_signal_has_the_tags_in_order() {
        let root = signal(&NameBuf::ROOT, &TrustAnchors::root());
        assert_eq!(root, Some(name("_ta-4f66-9728.")));
        assert_eq!(signal(&name("example"), &TrustAnchors::root()), None);
    }

    /// A clock set back by less than 15 days delayed the key lookups by as long.
    #[test]
    fn a_clock_that_is_put_is_noticed_whichever_way() {
        let at = Instant::now();
        let mut clock = WallClock { seen: (UnixTime::from_secs(1_000_000), at) };
        let mut was_put =
            |wall, after| clock.was_put(UnixTime::from_secs(wall), at + Duration::from_secs(after));
        assert!(!was_put(1_000_060, 60), "it goes on");
        assert!(!was_put(1_000_119, 120), "it is a second slow");
        assert!(was_put(900_000, 180), "it was put back");
        assert!(!was_put(900_060, 240), "that was noticed");
        assert!(was_put(2_000_000, 300), "it was put forward");
    }

    #[test]
    fn negative_anchors_that_have_had_their_time_are_not_read() {
        let lines = "99 over.example.\n160 left.example.\n9999999999 far.example.\n";
        let now = UnixTime::from_secs(100);
        let left = read_negative(lines, now).expect("good");
        assert_eq!(
            left,
            [(name("left.example"), Duration::from_secs(60)), (name("far.example"), LONGEST_NEGATIVE)]
        );
        assert_eq!(read_negative("160 a.example.\nabc\n", now), Err(2));
    }

    #[test]
    fn damaged_files_are_put_aside_and_count_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = AnchorFiles::new(folder.path());
        let mut points = TrustPoints::default();
        points.follow(&TrustAnchors::root(), |_| true);
        files.write_points(&points);
        assert_eq!(files.read_points(), points);
        let path = files.points.path().to_owned();
        let text = std::fs::read_to_string(&path).expect("read");
        std::fs::write(&path, text.replace("seen -", "seen 5")).expect("written");
        assert_eq!(files.read_points(), TrustPoints::default());
        assert!(folder.path().join("trust-anchors.bad").exists());
    }
}
