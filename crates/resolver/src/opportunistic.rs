//! Which encrypted transports an authoritative server offers without saying so (RFC 9539): the state of one
//! address and one transport, without I/O.
//!
//! A transport is [unknown](TransportStatus::Unknown) until a probe has ended: a query over a connection of
//! this transport, beside the query in the clear. After a probe with a useful reply, queries go over the
//! transport, as long as replies came within the persistence time; after one without, the transport is left
//! alone for the damping time, or for a minute if the reply may be about the zone alone. A transport that
//! worked and then leaves a query without a reply, or loses its connection, is probed again with the next
//! query: three times without another reply between, then it counts as failed. `resolver` sends the probes
//! and the queries.

use std::time::{Duration, Instant};

use crate::config::{Opportunistic, UpstreamTransport};
use crate::server_id::ServerId;

/// The most transports that are probed at one address: DNS over TLS and over QUIC.
pub(crate) const OPPORTUNISTIC_TRANSPORTS: usize = 2;
/// The port of both (RFC 7858 §3.1, RFC 9250 §4.1.1).
pub(crate) const ENCRYPTED_PORT: u16 = 853;
/// Setbacks in a row after which a transport that had worked counts as failed.
const MAX_SETBACKS: u8 = 3;
/// Useless replies to probes in a row after which a transport counts as failed.
const MAX_USELESS: u8 = 3;
/// Time after a useless reply to a probe until the next probe.
const USELESS_RETRY: Duration = Duration::from_secs(60);

/// What is known of one encrypted transport of an authoritative server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportStatus {
    /// It was never probed, or long ago.
    #[default]
    Unknown,
    /// It works: queries go over it.
    Works,
    /// It worked, and then left a query without a reply; the next query probes it again.
    Late,
    /// The reply to a probe was useless, as a server may reply to a query for a zone that it does not serve.
    /// It is probed again after a minute; after the third such reply in a row it counts as failed.
    Useless,
    /// There is no such transport, or it leads to another service.
    Failed,
    /// The server did not reply to the probe in time.
    TimedOut,
}

impl TransportStatus {
    /// Returns its word in tables and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            TransportStatus::Unknown => "unknown",
            TransportStatus::Works => "works",
            TransportStatus::Late => "late",
            TransportStatus::Useless => "useless",
            TransportStatus::Failed => "failed",
            TransportStatus::TimedOut => "timed-out",
        }
    }
}

/// The state of one encrypted transport of an authoritative server, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEncryption {
    /// The server's address and the port of the transport.
    pub address: std::net::SocketAddr,
    /// The transport.
    pub transport: UpstreamTransport,
    /// What is known of it.
    pub status: TransportStatus,
    /// Whether a probe waits for its reply.
    pub probing: bool,
    /// Time since the last probe began.
    pub initiated: Option<Duration>,
    /// Time since the last probe ended, or the last failure of the transport.
    pub completed: Option<Duration>,
    /// Time since the last reply over it.
    pub last_response: Option<Duration>,
    /// Queries sent over it, since it was found to work.
    pub queries: u64,
}

/// The state of one encrypted transport of one address.
#[derive(Clone, Debug, Default)]
pub(crate) struct TransportState {
    pub(crate) status: TransportStatus,
    /// A probe waits for its reply.
    pub(crate) probing: bool,
    pub(crate) initiated: Option<Instant>,
    pub(crate) completed: Option<Instant>,
    pub(crate) last_response: Option<Instant>,
    /// Losses of queries since the last reply to a query, probes apart.
    setbacks: u8,
    /// Useless replies to probes in a row.
    useless: u8,
    pub(crate) queries: u64,
    /// The server's entry with the connections of this transport, while there are any to use.
    pub(crate) server: Option<ServerId>,
}

/// The states of all transports, in the order of the configured encryptions.
pub(crate) type TransportStates = [TransportState; OPPORTUNISTIC_TRANSPORTS];

impl TransportState {
    /// Whether queries go over the transport.
    pub(crate) fn is_usable(&self, settings: &Opportunistic, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < settings.persistence;
        self.status == TransportStatus::Works && self.last_response.is_some_and(is_recent)
    }

    /// Whether the next query is accompanied by a probe.
    pub(crate) fn is_due(&self, settings: &Opportunistic, now: Instant) -> bool {
        let is_within =
            |time: Duration| self.completed.is_some_and(|at| now.saturating_duration_since(at) < time);
        !self.probing
            && match self.status {
                TransportStatus::Unknown | TransportStatus::Late => true,
                TransportStatus::Works => !self.is_usable(settings, now),
                TransportStatus::Useless => !is_within(USELESS_RETRY.min(settings.damping)),
                TransportStatus::Failed | TransportStatus::TimedOut => !is_within(settings.damping),
            }
    }

    /// Records the start of a probe over the connections of `server`.
    pub(crate) fn on_probe(&mut self, server: ServerId, now: Instant) {
        (self.probing, self.initiated, self.server) = (true, Some(now), Some(server));
    }

    /// Records a useful reply to a probe.
    pub(crate) fn on_success(&mut self, now: Instant) {
        (self.status, self.completed, self.last_response) = (TransportStatus::Works, Some(now), Some(now));
        self.useless = 0;
    }

    /// Records that the transport is of no use: until the damping time has passed, it is left alone.
    pub(crate) fn on_failure(&mut self, status: TransportStatus, now: Instant) {
        (self.status, self.completed) = (status, Some(now));
        (self.probing, self.setbacks, self.queries, self.server) = (false, 0, 0, None);
    }

    /// Records a useless reply to a probe.
    pub(crate) fn on_useless(&mut self, now: Instant) {
        let useless = self.useless + 1;
        let is_failure = useless >= MAX_USELESS;
        self.on_failure(if is_failure { TransportStatus::Failed } else { TransportStatus::Useless }, now);
        self.useless = if is_failure { 0 } else { useless };
    }

    /// Records a message on a connection of the transport, to whichever query.
    pub(crate) fn on_message(&mut self, now: Instant) {
        self.last_response = Some(now);
        if self.status == TransportStatus::Late && !self.probing {
            self.status = TransportStatus::Works;
        }
    }

    /// Records the reply to a query that is no probe.
    pub(crate) fn on_reply(&mut self) {
        self.setbacks = 0;
    }

    /// Records that a query got no reply in time or lost its connection, while the transport was in use.
    /// Returns whether the transport counts as failed from now on.
    pub(crate) fn on_setback(&mut self, now: Instant) -> bool {
        if self.status != TransportStatus::Works {
            return false;
        }
        self.status = TransportStatus::Late;
        self.setbacks += 1;
        let is_failure = self.setbacks >= MAX_SETBACKS;
        if is_failure {
            self.on_failure(TransportStatus::Failed, now);
        }
        is_failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn settings() -> Opportunistic {
        Opportunistic::default()
    }

    #[test]
    fn a_transport_that_works_is_used_for_three_days_after_its_last_reply() {
        let (mut state, start) = (TransportState::default(), Instant::now());
        assert!(state.is_due(&settings(), start) && !state.is_usable(&settings(), start));
        state.on_probe(ServerId(1), start);
        assert!(!state.is_due(&settings(), start), "one probe at a time");
        state.probing = false;
        state.on_success(start);
        assert!(state.is_usable(&settings(), start) && !state.is_due(&settings(), start));
        state.on_message(start + DAY);
        assert!(state.is_usable(&settings(), start + 4 * DAY - Duration::from_secs(1)));
        assert!(!state.is_usable(&settings(), start + 4 * DAY));
        assert!(state.is_due(&settings(), start + 4 * DAY));
    }

    #[test]
    fn a_failed_probe_is_repeated_after_a_day() {
        for status in [TransportStatus::Failed, TransportStatus::TimedOut] {
            let (mut state, start) = (TransportState::default(), Instant::now());
            state.on_failure(status, start);
            assert!(!state.is_due(&settings(), start + DAY - Duration::from_secs(1)));
            assert!(state.is_due(&settings(), start + DAY) && !state.is_usable(&settings(), start));
        }
    }

    /// Otherwise a delegation of any zone to a server would keep the server's zones in the clear for a day.
    #[test]
    fn a_useless_reply_counts_as_a_failure_the_third_time_and_is_checked_each_minute_before() {
        let (mut state, mut now) = (TransportState::default(), Instant::now());
        for _ in 0..2 {
            state.on_useless(now);
            assert_eq!(state.status, TransportStatus::Useless);
            assert!(!state.is_due(&settings(), now + Duration::from_secs(59)));
            now += Duration::from_secs(60);
            assert!(state.is_due(&settings(), now));
        }
        state.on_useless(now);
        assert_eq!(state.status, TransportStatus::Failed);
        assert!(!state.is_due(&settings(), now + Duration::from_secs(60)));
        state.on_success(now);
        state.on_useless(now);
        assert_eq!(state.status, TransportStatus::Useless, "they count in a row");
    }

    #[test]
    fn a_late_transport_is_probed_at_once_unless_a_message_comes_and_fails_after_three_setbacks() {
        let (mut state, start) = (TransportState::default(), Instant::now());
        state.on_success(start);
        assert!(!state.on_setback(start) && state.is_due(&settings(), start));
        assert!(!state.on_setback(start), "several queries are lost together, and count once");
        state.on_message(start);
        assert!(state.is_usable(&settings(), start));
        assert!(!state.on_setback(start));
        state.on_success(start);
        assert!(state.on_setback(start), "the third without a reply to a query between");
        assert_eq!(state.status, TransportStatus::Failed);
        state.on_success(start);
        state.on_reply();
        assert!(!state.on_setback(start));
    }
}
