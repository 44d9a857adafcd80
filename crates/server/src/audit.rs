//! Lines about requests that get nothing, which anyone can cause: transfers, updates and NOTIFY that are refused, signatures that are
//! not good, SERVFAIL. At most one of a kind is logged in an interval, with the number of those that were not logged. Worker threads
//! call this, so one that is not logged costs two atomic operations.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::{Asked, FailureLog, LoggedQuery, Role};
use recursion::FailureCause;
use resolver::Inquiry;
use tracing::{debug, info};
use transfer::tsig::TsigError;
use wire::Name;
use wire::edns::ErrorInfo;

use crate::logging::audit;
use crate::repeated;

/// Longest time between two lines of a kind, where there is something to log: less than the interval of lines about one object, since
/// these are about all clients.
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
pub(crate) struct RefusalLog {
    /// What is refused, such as "transfer".
    what: &'static str,
    gate: Gate,
}

impl RefusalLog {
    /// Requests that are called `what` in the log.
    pub(crate) const fn new(what: &'static str) -> Self {
        RefusalLog { what, gate: Gate::new() }
    }

    /// Logs that the request is refused for this reason, or counts it.
    pub(crate) fn refused(&self, asked: &Asked<'_>, reason: &str) {
        let Some(others) = self.gate.admit_at(asked.received) else { return };
        let key = asked.verified.map(|verified| verified.key().name().to_string());
        let (zone, client) = (asked.qname.as_lower(), asked.client.peer.ip());
        let (zone, key, what) = (zone.as_name(), key.as_deref().unwrap_or("none"), self.what);
        info!(%zone, %client, key, reason, not_logged = others, "{what} refused");
        audit!(%zone, %client, key, reason, not_logged = others, "{what} refused");
    }
}

/// Queries that get SERVFAIL, and those whose signature is not good.
#[derive(Debug, Default)]
pub(crate) struct FailureLines {
    /// By the INFO-CODE of the extended error, the last one without.
    failures: [Gate; KINDS],
    signatures: Gate,
}

/// INFO-CODEs that have a gate of their own; further ones share the last.
const KINDS: usize = 32;

impl FailureLog for FailureLines {
    fn bad_signature(&self, query: &LoggedQuery<'_>, error: &TsigError) {
        let Some(others) = self.signatures.admit_at(query.received) else { return };
        let (opcode, client) = (query.request.header.opcode(), query.client.peer.ip());
        info!(%opcode, name = %query.qname(), %client, reason = %error, not_logged = others, "signature refused");
        audit!(%opcode, name = %query.qname(), %client, reason = %error, not_logged = others, "signature refused");
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
pub(crate) struct RecursionFailureLines([Gate; FailureCause::COUNT]);

impl RecursionFailureLines {
    /// Logs one at level info, or at debug what comes too soon after the last one of its cause.
    pub(crate) fn failed(&self, inquiry: &Inquiry, cause: FailureCause<'_>) {
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
pub(crate) struct LastResortLines(Gate);

impl LastResortLines {
    /// Logs one at level info, or at debug what comes too soon after the last one.
    pub(crate) fn took(&self, zone: Name<'_>, server: SocketAddr, inquiry: &Inquiry) {
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
