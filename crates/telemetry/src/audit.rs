//! Log lines about unanswered or refused requests, which anyone can cause: refused transfers, updates and
//! NOTIFY, bad signatures, SERVFAIL. At most one of a kind is logged in an interval, with the number of those
//! that were not logged. The audit file, if there is one, has a line for each refused request, as many as
//! [`Trail`](crate::trail::Trail) admits. Worker threads call this, so a line that is not logged costs two
//! atomic operations, and with an audit file a lock.

use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use query_path::{Asked, FailureLog, LoggedQuery, Refusal, Role};
use recursion::FailureCause;
use resolver::QueryKey;
use tracing::{debug, info};
use transfer::tsig::{TsigError, TsigKey};
use transport::ClientCertificate;
use wire::edns::ErrorInfo;
use wire::{Name, Opcode, Serial};

use crate::repeated;
use crate::trail::{audit, has_audit_file};

/// Longest time between two lines of a kind while such requests arrive: shorter than the interval of lines
/// about one object, since these are about all clients.
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// The origin of the gates' times.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When the next line of a kind may be logged, and how many were not.
#[derive(Debug, Default)]
struct Gate {
    /// The earliest time of the next line, in milliseconds.
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

    /// Calls [`admit`](Self::admit) with the configured interval.
    fn admit_at(&self, now: Instant) -> Option<u64> {
        self.admit(now.saturating_duration_since(*BEGUN), repeated::interval().min(MAX_INTERVAL))
    }
}

/// The log of one kind of refused requests.
#[derive(Debug)]
pub struct RefusalLog {
    /// The kind of request, such as "transfer".
    what: &'static str,
    gate: Gate,
}

/// The contents of a refused update.
#[derive(Debug, Clone, Copy)]
pub struct AskedChange {
    /// Number of prerequisites.
    pub prerequisites: usize,
    /// Number of updates.
    pub updates: usize,
    /// Serial of the zone in service; `None` if there is none.
    pub serial: Option<Serial>,
}

/// The fields of a line about a refused request.
struct Refused<'a> {
    what: &'static str,
    /// `None` if the message cannot be parsed.
    zone: Option<Name<'a>>,
    client: IpAddr,
    key: Option<&'a TsigKey>,
    certificate: Option<&'a ClientCertificate>,
    reason: &'a str,
    change: Option<AskedChange>,
}

impl Refused<'_> {
    /// Writes the line to the log if `others` is the number of lines that were not logged, and to the audit
    /// file if `in_audit`.
    fn write(&self, others: Option<u64>, in_audit: bool) {
        let Refused { what, zone, client, key, certificate, reason, change } = self;
        let certificate = certificate.map(ToString::to_string);
        let cert = certificate.as_deref();
        let key = key.map_or_else(|| "none".to_owned(), |key| key.name().to_string());
        let (zone, key) = (zone.as_ref().map(tracing::field::display), key.as_str());
        let (prerequisites, updates) = (change.map(|of| of.prerequisites), change.map(|of| of.updates));
        let serial = change.and_then(|of| of.serial).map(|serial| serial.0);
        if let Some(others) = others {
            info!(zone, %client, key, cert, reason, prerequisites, updates, serial, not_logged = others, "{what} refused");
        }
        if in_audit {
            audit!(zone, %client, key, cert, reason, prerequisites, updates, serial, "{what} refused");
        }
    }
}

impl RefusalLog {
    /// Returns the log of requests that are called `what`.
    pub const fn new(what: &'static str) -> Self {
        RefusalLog { what, gate: Gate::new() }
    }

    /// Logs or counts a refused request.
    pub fn refused(&self, asked: &Asked<'_>, reason: &str) {
        self.write(asked, reason, || None);
    }

    /// Logs or counts a refused change of a zone with this serial.
    pub fn change_refused(&self, asked: &Asked<'_>, reason: &str, serial: impl FnOnce() -> Option<Serial>) {
        self.write(asked, reason, || Some(AskedChange::of(asked, serial())));
    }

    /// Writes a refused request to the audit file only; the log has a line of another kind.
    pub fn audited(&self, asked: &Asked<'_>, reason: &str) {
        self.write_where(asked, reason, None, || None);
    }

    fn write(&self, asked: &Asked<'_>, reason: &str, change: impl FnOnce() -> Option<AskedChange>) {
        self.write_where(asked, reason, self.gate.admit_at(asked.received), change);
    }

    /// Writes the line to the log if `others` is the number of lines that were not logged, and to the audit
    /// file if that admits it.
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
        let certificate = asked.certificate().map(|certificate| &**certificate);
        let (zone, change) = (Some(zone.as_name()), change());
        let refused = Refused { what, zone, client, key, certificate, reason, change };
        refused.write(others, in_audit);
    }
}

impl AskedChange {
    /// Returns the counts in the header of an update message.
    pub fn of(asked: &Asked<'_>, serial: Option<Serial>) -> Self {
        let [_, prerequisites, updates, _] = asked.request.header.counts();
        AskedChange { prerequisites: prerequisites.into(), updates: updates.into(), serial }
    }
}

/// The log of SERVFAIL, bad signatures, and requests refused before a zone is looked up.
#[derive(Debug, Default)]
pub struct FailureLines {
    /// By the INFO-CODE of the extended error; the last one is for none.
    failures: [Gate; GATED_INFO_CODES],
    signatures: Gate,
    /// Requests refused before a zone is looked up.
    stopped: [Gate; STOPPED.len()],
}

/// INFO-CODEs with their own gate; all others share the last one.
const GATED_INFO_CODES: usize = 32;

/// The names of requests that are refused before a zone is looked up.
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
        let (key, certificate, change) = (query.key, None, None);
        Refused { what, zone, client, key, certificate, reason, change }.write(others, in_audit);
    }

    /// Failures of recursive service are logged by cause instead: [`RecursionFailureLines`].
    fn failed(&self, query: &LoggedQuery<'_>, info: Option<ErrorInfo>) {
        if query.role == Role::Recursion {
            return;
        }
        let kind = info.map_or(GATED_INFO_CODES - 1, |info| usize::from(info.0).min(GATED_INFO_CODES - 1));
        let Some(others) = self.failures[kind].admit_at(query.received) else { return };
        let (name, client) = (query.qname(), query.client.peer.ip());
        let qtype = query.request.question.map(|question| question.qtype.to_string());
        let (zone, reason) = (query.zone.map(|zone| zone.to_string()), info.map(ErrorInfo::name));
        info!(%name, r#type = qtype, zone, %client, reason, not_logged = others, "SERVFAIL");
    }
}

/// The log of failures of recursive service, by cause.
#[derive(Debug, Default)]
pub struct RecursionFailureLines([Gate; FailureCause::COUNT]);

impl RecursionFailureLines {
    /// Logs a failure at level info, or at debug if it follows the last one of its cause too soon.
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

/// The log of answers that the resolver accepts from servers that are not authoritative.
#[derive(Debug, Default)]
pub struct LastResortLines(Gate);

impl LastResortLines {
    /// Logs an answer at level info, or at debug if it follows the last one too soon.
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

/// Logged when no other server of the zone can be used.
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
