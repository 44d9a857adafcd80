//! State of one upstream server: round-trip time, health, missing abilities.

use std::sync::Arc;
use std::time::{Duration, Instant};

use transport::{Encryption, EncryptionFault, Link, Transport};

use crate::config::{ForwardConfig, ForwardTiming, Upstream, UpstreamTransport};
use crate::opportunistic::TransportStates;
use crate::rtt::Rtt;
use crate::server_id::ServerId;
use crate::stats::UpstreamStats;

/// Useless replies in a row after which a server counts as failing.
const BAD_REPLIES: u32 = 8;
/// How long a server counts as dead after a health check without reply.
const DEAD_AFTER_CHECK: Duration = Duration::from_secs(30);
/// Bytes of a client cookie (RFC 7873 §4).
pub(crate) const CLIENT_COOKIE: usize = 8;

/// State of one server, learned from traffic with it.
pub(crate) struct Server {
    pub(crate) upstream: Upstream,
    pub(crate) rtt: Rtt,
    health: Health,
    /// Our cookie for this server alone (RFC 7873 §4.1).
    pub(crate) client_cookie: [u8; CLIENT_COOKIE],
    /// The server's latest cookie (RFC 7873 §5.3).
    pub(crate) server_cookie: Option<Vec<u8>>,
    /// Abilities that it lacks.
    without: Without,
    /// Connections to it, the oldest first.
    pub(crate) connections: Vec<Link>,
    /// The connection that fetches the key of the target behind it.
    pub(crate) key_link: Option<Link>,
    pub(crate) stats: Arc<UpstreamStats>,
    /// Why the last attempt at an encrypted connection failed, unless it succeeded.
    pub(crate) insecure: Option<EncryptionFault>,
    /// For servers that no rule names: the last use, as counted by [`Servers`](crate::servers::Servers).
    pub(crate) used: Option<u64>,
    /// Its encrypted transports, once one was probed (RFC 9539).
    pub(crate) transports: Option<Box<TransportStates>>,
    /// For the entry with the connections of such a transport: the server in the clear, and the transport's
    /// place among its [transports](Self::transports).
    pub(crate) in_clear: Option<(ServerId, usize)>,
}

/// The health of a server.
#[derive(Default)]
struct Health {
    /// Set if it is failing: the time of the next probe.
    probe_at: Option<Instant>,
    bad_replies: u32,
    /// Time of the last query.
    asked: Option<Instant>,
    /// Start of the last health check.
    checked: Option<Instant>,
    /// A health check waits for its reply.
    is_checked: bool,
    /// When the last health check timed out, if nothing has arrived from the server since.
    dead_since: Option<Instant>,
}

/// The abilities that a server lacks, each until a time.
#[derive(Default)]
struct Without {
    edns: Option<Instant>,
    cookies: Option<Instant>,
    letter_case: Option<Instant>,
}

/// An ability that a server may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// EDNS (RFC 6891).
    Edns,
    /// Cookies (RFC 7873); without, it answers queries with cookies by errors.
    Cookies,
    /// Repeating QNAME in the same letter case.
    LetterCase,
}

impl Server {
    pub(crate) fn new(upstream: Upstream, client_cookie: [u8; CLIENT_COOKIE]) -> Self {
        Server {
            stats: Arc::new(UpstreamStats::new(upstream.clone())),
            upstream,
            rtt: Rtt::default(),
            health: Health::default(),
            client_cookie,
            server_cookie: None,
            without: Without::default(),
            connections: Vec::new(),
            key_link: None,
            insecure: None,
            used: None,
            transports: None,
            in_clear: None,
        }
    }

    /// Whether it is failing: it does not answer, or only with useless replies.
    pub(crate) fn is_failing(&self) -> bool {
        self.health.probe_at.is_some()
    }

    /// Whether it is failing and due for a probe.
    pub(crate) fn wants_probe(&self, now: Instant) -> bool {
        self.health.probe_at.is_some_and(|at| at <= now)
    }

    /// Whether it is failing and did not answer a recent health check. A health check has no slow answer, so
    /// that silence means that the server is down.
    pub(crate) fn is_dead(&self, now: Instant) -> bool {
        self.is_failing() && self.health.dead_since.is_some_and(|at| now < at + DEAD_AFTER_CHECK)
    }

    /// Whether a health check is due: the server is failing, and none was sent within the probe interval.
    pub(crate) fn wants_check(&self, now: Instant, timing: &ForwardTiming) -> bool {
        let is_recent = self.health.checked.is_some_and(|at| now < at + timing.probe);
        self.is_failing() && !self.health.is_checked && !is_recent
    }

    /// Records the start of a health check.
    pub(crate) fn on_check(&mut self, now: Instant) {
        (self.health.checked, self.health.is_checked) = (Some(now), true);
    }

    /// Records the end of a health check.
    pub(crate) fn on_check_ended(&mut self, is_answered: bool, now: Instant) {
        self.health.is_checked = false;
        self.health.dead_since = Some(now).filter(|_| !is_answered);
    }

    /// Returns the time of the last query.
    pub(crate) fn last_asked(&self) -> Option<Instant> {
        self.health.asked
    }

    /// Records a query.
    pub(crate) fn on_asked(&mut self, now: Instant, timing: &ForwardTiming) {
        self.health.asked = Some(now);
        if self.is_failing() {
            self.health.probe_at = now.checked_add(timing.probe);
        }
    }

    /// Records a timeout or broken link. The next query is a probe.
    pub(crate) fn on_silence(&mut self, now: Instant) {
        self.health.probe_at.get_or_insert(now);
        self.publish();
    }

    /// Records a reply, with its round-trip time if known.
    pub(crate) fn on_reply(&mut self, after: Option<Duration>) {
        if let Some(after) = after {
            self.rtt.measured(after);
            self.stats.replied(after);
        }
        self.health.dead_since = None;
        if self.insecure.take().is_some() {
            self.stats.mended();
        }
        if self.health.bad_replies < BAD_REPLIES {
            self.health.probe_at = None;
        }
        self.publish();
    }

    /// Records a useful reply.
    pub(crate) fn on_good_reply(&mut self) {
        self.health.bad_replies = 0;
        self.health.probe_at = None;
        self.publish();
    }

    /// Records a useless reply.
    pub(crate) fn on_bad_reply(&mut self, now: Instant) {
        self.stats.bad_replies.add(1);
        self.on_no_use(now);
    }

    /// Records a useless reply, or a useless connection after truncation. A single one proves nothing, since
    /// other queries may be answered by UDP.
    pub(crate) fn on_no_use(&mut self, now: Instant) {
        self.health.bad_replies = self.health.bad_replies.saturating_add(1);
        if self.health.bad_replies >= BAD_REPLIES {
            self.health.probe_at.get_or_insert(now);
        }
        self.publish();
    }

    /// Records an encrypted connection. The server is up.
    pub(crate) fn on_secured(&mut self, resumed: bool) {
        self.insecure = None;
        self.health.dead_since = None;
        self.stats.secured(resumed);
    }

    /// Records a failed attempt at an encrypted connection, or a query on one that gets no response.
    pub(crate) fn on_insecure(&mut self, fault: EncryptionFault) {
        self.insecure = Some(fault);
        self.stats.insecure(fault);
    }

    fn publish(&self) {
        self.stats.publish(self.rtt.smoothed(), self.is_failing());
    }

    /// Whether all queries to it go over encrypted connections.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.upstream.reach.encryption().is_some()
    }

    /// Returns the transport of a query to it, over a connection or not.
    pub(crate) fn transport(&self, stream: bool) -> UpstreamTransport {
        let encryption = self.upstream.reach.encryption();
        match (stream, encryption.map(Encryption::transport)) {
            (false, _) => UpstreamTransport::Udp,
            (true, None) => UpstreamTransport::Tcp,
            (true, _) if encryption.is_some_and(Encryption::is_oblivious) => UpstreamTransport::Oblivious,
            (true, Some(Transport::Https)) => UpstreamTransport::Https,
            (true, Some(Transport::Quic)) => UpstreamTransport::Quic,
            (true, Some(_)) => UpstreamTransport::Tls,
        }
    }

    /// Whether queries to it use this ability.
    pub(crate) fn can(&self, ability: Ability, config: &ForwardConfig, now: Instant) -> bool {
        let wanted = match ability {
            Ability::Edns => true,
            // Replies on an encrypted connection cannot be forged; cookies would only identify us.
            Ability::Cookies => {
                config.cookies && !self.is_encrypted() && self.can(Ability::Edns, config, now)
            }
            Ability::LetterCase => config.mixed_case && !self.is_encrypted(),
        };
        wanted && self.until(ability).is_none_or(|until| until <= now)
    }

    /// Records that it lacks an ability, for a time.
    pub(crate) fn cannot(&mut self, ability: Ability, now: Instant, timing: &ForwardTiming) {
        *self.until_mut(ability) = now.checked_add(timing.remember);
    }

    fn until(&self, ability: Ability) -> Option<Instant> {
        match ability {
            Ability::Edns => self.without.edns,
            Ability::Cookies => self.without.cookies,
            Ability::LetterCase => self.without.letter_case,
        }
    }

    fn until_mut(&mut self, ability: Ability) -> &mut Option<Instant> {
        match ability {
            Ability::Edns => &mut self.without.edns,
            Ability::Cookies => &mut self.without.cookies,
            Ability::LetterCase => &mut self.without.letter_case,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new(Upstream::new(([192, 0, 2, 1], 53).into()), [0; CLIENT_COOKIE])
    }

    #[test]
    fn a_silent_server_is_probed_at_once_and_then_every_second() {
        let (mut server, timing, start) = (server(), ForwardTiming::default(), Instant::now());
        assert!(!server.wants_probe(start));
        server.on_silence(start);
        assert!(server.is_failing() && server.wants_probe(start));
        server.on_asked(start, &timing);
        server.on_silence(start);
        assert!(!server.wants_probe(start + Duration::from_millis(999)));
        assert!(server.wants_probe(start + Duration::from_secs(1)));
        server.on_reply(None);
        assert!(!server.is_failing());
    }

    #[test]
    fn a_server_whose_replies_are_of_no_use_is_failing_until_one_is() {
        let (mut server, now) = (server(), Instant::now());
        for n in 0..BAD_REPLIES {
            assert!(!server.is_failing(), "after {n}");
            server.on_reply(None);
            server.on_bad_reply(now);
        }
        server.on_reply(None);
        assert!(server.is_failing(), "a reply alone does not mend it");
        server.on_good_reply();
        assert!(!server.is_failing());
    }

    #[test]
    fn what_a_server_cannot_do_is_forgotten_in_time() {
        let (mut server, now) = (server(), Instant::now());
        let config = ForwardConfig::default();
        server.cannot(Ability::Edns, now, &config.timing);
        assert!(!server.can(Ability::Edns, &config, now));
        assert!(!server.can(Ability::Cookies, &config, now), "no cookie without EDNS");
        assert!(server.can(Ability::LetterCase, &config, now));
        assert!(server.can(Ability::Edns, &config, now + config.timing.remember));
    }
}
