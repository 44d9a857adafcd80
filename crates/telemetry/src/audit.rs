//! Lines about requests that get nothing, which anyone can cause: transfers, updates and NOTIFY that are
//! refused, signatures that are not good, SERVFAIL. At most one of a kind is logged in an interval, with the
//! number of those that were not logged. The audit file, if there is one, has a line for each refused
//! request, as many as [`Trail`](crate::trail::Trail) admits. Worker threads call this, so one that is not
//! logged costs two atomic operations, and with an audit file a lock.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::{Asked, FailureLog, LoggedQuery, Refusal, Role};
use recursion::FailureCause;
use resolver::QueryKey;
use tracing::{debug, info};
use transfer::tsig::{TsigError, TsigKey};
use wire::edns::ErrorInfo;
use wire::{Name, Opcode, Serial};

use crate::repeated;
use crate::trail::{audit, has_audit_file};

/// Longest time between two lines of a kind, where there is something to log: less than the interval of lines
/// about one object, since these are about all clients.
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// The time that gates count from.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When the next line of a kind may be logged, and how many were not.
#[derive(Debug, Default)]
struct Gate {
    /// Milliseconds from which the next line may be logged.
    next: AtomicU64,
    /// Events since the last line.
    held: AtomicU64,
}

impl Gate {
    const fn new() -> Self {
        Gate { next: AtomicU64::new(0), held: AtomicU64::new(0) }
    }

    /// Returns how many events were not logged since the last line, if one may be logged now.
    fn admit(&self, now: Duration, interval: Duration) -> Option<u64> {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now = milliseconds(now);
        let next = self.next.load(Relaxed);
        let later = now.saturating_add(milliseconds(interval));
        if now < next || self.next.compare_exchange(next, later, Relaxed, Relaxed).is_err() {
            self.held.fetch_add(1, Relaxed);
            repeated::count_held();
            return None;
        }
        Some(self.held.swap(0, Relaxed))
    }

    /// The same by the clock and the interval that are in force.
    fn admit_at(&self, now: Instant) -> Option<u64> {
        self.admit(now.saturating_duration_since(*BEGUN), repeated::interval().min(MAX_INTERVAL))
    }
}

/// Requests of a kind that are refused.
#[derive(Debug)]
pub struct RefusalLog {
    /// What is refused, such as "transfer".
    what: &'static str,
    gate: Gate,
}

/// What a refused update asks for.
#[derive(Debug, Clone, Copy)]
pub struct AskedChange {
    /// Prerequisites.
    pub prerequisites: usize,
    /// Updates.
    pub updates: usize,
    /// Serial number of the zone in service; `None` where there is none.
    pub serial: Option<Serial>,
}

/// A refused request, as its line has it.
struct Refused<'a> {
    what: &'static str,
    /// `None` where the message cannot be read.
    zone: Option<Name<'a>>,
    client: IpAddr,
    key: Option<&'a TsigKey>,
    reason: &'a str,
    change: Option<AskedChange>,
}

impl Refused<'_> {
    /// Writes the line to the log where `others` has the number of those that were not logged, and to the
    /// audit file.
    fn write(&self, others: Option<u64>, in_audit: bool) {
        let Refused { what, zone, client, key, reason, change } = self;
        let key = key.map_or_else(|| "none".to_owned(), |key| key.name().to_string());
        let (zone, key) = (zone.as_ref().map(tracing::field::display), key.as_str());
        let (prerequisites, updates) = (change.map(|of| of.prerequisites), change.map(|of| of.updates));
        let serial = change.and_then(|of| of.serial).map(|serial| serial.0);
        if let Some(others) = others {
            info!(zone, %client, key, reason, prerequisites, updates, serial, not_logged = others, "{what} refused");
        }
        if in_audit {
            audit!(zone, %client, key, reason, prerequisites, updates, serial, "{what} refused");
        }
    }
}

impl RefusalLog {
    /// Requests that are called `what` in the log.
    pub const fn new(what: &'static str) -> Self {
        RefusalLog { what, gate: Gate::new() }
    }

    /// Logs that the request is refused for this reason, or counts it.
    pub fn refused(&self, asked: &Asked<'_>, reason: &str) {
        self.write(asked, reason, || None);
    }

    /// Logs that a change of a zone with this serial number is refused, or counts it.
    pub fn change_refused(&self, asked: &Asked<'_>, reason: &str, serial: impl FnOnce() -> Option<Serial>) {
        self.write(asked, reason, || Some(AskedChange::of(asked, serial())));
    }

    /// Writes to the audit file that the request is refused for this reason; the log has a line of another
    /// kind.
    pub fn audited(&self, asked: &Asked<'_>, reason: &str) {
        self.write_where(asked, reason, None, || None);
    }

    fn write(&self, asked: &Asked<'_>, reason: &str, change: impl FnOnce() -> Option<AskedChange>) {
        self.write_where(asked, reason, self.gate.admit_at(asked.received), change);
    }

    /// Writes the line to the log where `others` has the number of those that were not logged, and to the
    /// audit file if it is admitted there.
    fn write_where(
        &self,
        asked: &Asked<'_>,
        reason: &str,
        others: Option<u64>,
        change: impl FnOnce() -> Option<AskedChange>,
    ) {
        let (what, client) = (self.what, asked.client.peer.ip());
        let in_audit = has_audit_file() && repeated::admit_refusal(client, what);
        if others.is_none() && !in_audit {
            return;
        }
        let zone = asked.qname.as_lower();
        let key = asked.verified.map(|verified| &**verified.key());
        let refused = Refused { what, zone: Some(zone.as_name()), client, key, reason, change: change() };
        refused.write(others, in_audit);
    }
}

impl AskedChange {
    /// What a message asks for, as its header says.
    pub fn of(asked: &Asked<'_>, serial: Option<Serial>) -> Self {
        let [_, prerequisites, updates, _] = asked.request.header.counts();
        AskedChange { prerequisites: prerequisites.into(), updates: updates.into(), serial }
    }
}

/// Queries that get SERVFAIL, those whose signature is not good, and requests that nothing here takes.
#[derive(Debug, Default)]
pub struct FailureLines {
    /// By the INFO-CODE of the extended error, the last one without.
    failures: [Gate; KINDS],
    signatures: Gate,
    /// Requests that are refused before a zone is looked at.
    stopped: [Gate; STOPPED.len()],
}

/// INFO-CODEs that have a gate of their own; further ones share the last.
const KINDS: usize = 32;

/// What requests are called that are refused before a zone is looked at.
const STOPPED: [&str; 3] = ["transfer", "NOTIFY", "update"];

impl FailureLog for FailureLines {
    fn bad_signature(&self, query: &LoggedQuery<'_>, error: &TsigError) {
        let client = query.client.peer.ip();
        let others = self.signatures.admit_at(query.received);
        let in_audit = has_audit_file() && repeated::admit_refusal(client, "signature");
        if others.is_none() && !in_audit {
            return;
        }
        let (opcode, name) = (query.request.header.opcode(), query.qname());
        let qtype = query.request.question.map(|question| question.qtype.to_string());
        if let Some(others) = others {
            info!(%opcode, %name, r#type = qtype, %client, reason = %error, not_logged = others, "signature refused");
        }
        if in_audit {
            audit!(%opcode, %name, r#type = qtype, %client, reason = %error, "signature refused");
        }
    }

    fn stopped(&self, query: &LoggedQuery<'_>, refusal: Refusal) {
        let (request, client) = (query.request, query.client.peer.ip());
        let place = match request.header.opcode() {
            Opcode::NOTIFY => 1,
            Opcode::UPDATE => 2,
            _ => 0,
        };
        let what = STOPPED[place];
        let others = self.stopped[place].admit_at(query.received);
        let in_audit = has_audit_file() && repeated::admit_refusal(client, what);
        let zone = request.question.map(|_| query.qname());
        let reason = match refusal {
            Refusal::MALFORMED => "the message is malformed",
            Refusal::CLASS => "the class is not IN",
            Refusal::OPCODE => "no zone here takes it",
            Refusal { rcode, .. } if rcode == Refusal::EDNS_VERSION.rcode => "the version of EDNS is not 0",
            _ => "the server does not take it",
        };
        Refused { what, zone, client, key: query.key, reason, change: None }.write(others, in_audit);
    }

    /// Failures of recursive service have a line each by their cause: [`RecursionFailureLines`].
    fn failed(&self, query: &LoggedQuery<'_>, info: Option<ErrorInfo>) {
        if query.role == Role::Recursion {
            return;
        }
        let kind = info.map_or(KINDS - 1, |info| usize::from(info.0).min(KINDS - 1));
        let Some(others) = self.failures[kind].admit_at(query.received) else { return };
        let (name, client) = (query.qname(), query.client.peer.ip());
        let qtype = query.request.question.map(|question| question.qtype.to_string());
        let (zone, reason) = (query.zone.map(|zone| zone.to_string()), info.map(ErrorInfo::name));
        info!(%name, r#type = qtype, zone, %client, reason, not_logged = others, "SERVFAIL");
    }
}

/// Failures of recursive service by cause.
#[derive(Debug, Default)]
pub struct RecursionFailureLines([Gate; FailureCause::COUNT]);

impl RecursionFailureLines {
    /// Logs one at level info, or at debug what comes too soon after the last one of its cause.
    pub fn failed(&self, inquiry: &QueryKey, cause: FailureCause<'_>) {
        let Some(gate) = cause.place().and_then(|place| self.0.get(place)) else { return };
        let name = inquiry.name.as_name();
        match gate.admit_at(Instant::now()) {
            Some(others) => {
                info!(%name, r#type = %inquiry.qtype, reason = %cause, not_logged = others, "SERVFAIL");
            }
            None => debug!(%name, r#type = %inquiry.qtype, reason = %cause, "SERVFAIL"),
        }
    }
}

/// Answers that the resolver takes of servers that are not authoritative.
#[derive(Debug, Default)]
pub struct LastResortLines(Gate);

impl LastResortLines {
    /// Logs one at level info, or at debug what comes too soon after the last one.
    pub fn took(&self, zone: Name<'_>, server: SocketAddr, inquiry: &QueryKey) {
        let name = inquiry.name.as_name();
        match self.0.admit_at(Instant::now()) {
            Some(others) => {
                info!(%zone, %server, %name, r#type = %inquiry.qtype, not_logged = others, "{LAST_RESORT}");
            }
            None => debug!(%zone, %server, %name, r#type = %inquiry.qtype, "{LAST_RESORT}"),
        }
    }
}

/// Where no server of a zone is of use otherwise.
const LAST_RESORT: &str = "answer used of a server that is not authoritative";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_logged_each_ten_seconds_and_counted_between() {
        let gate = Gate::new();
        let at = |milliseconds| gate.admit(Duration::from_millis(milliseconds), MAX_INTERVAL);
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(9_999)), (None, None));
        assert_eq!(at(10_000), Some(2));
        assert_eq!(at(30_000), Some(0));
    }
}
