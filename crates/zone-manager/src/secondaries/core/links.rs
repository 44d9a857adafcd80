//! SOA queries and NOTIFYs in progress: their links, timeouts and replies.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use resolver::Random;
use tracing::debug;
use transfer::incoming::TransferFault;
use transfer::secondary::{
    AskExpire, SecondaryEvent, SecondaryFault, SoaReply, notify_query, notify_reply, read_soa_reply,
    soa_query,
};
use transfer::tsig::{self, ResponseVerifier, sign_request};
use transport::{Action, EncryptionFault, Link, Transport};
use wire::{Rcode, UnixTime, ZoneName};
use zone_plan::PeerServer;

use super::targets::PeerReply;
use super::{CoreHost, Moment, PeeredZone, SecondaryCore};
use crate::secondaries::fetch::{expire_of, takes_no_opt};
use telemetry::repeated::log_repeated;

/// Timeouts of an SOA query over UDP, one per try.
const PROBE_WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Timeout of an SOA query over TCP or TLS, with the handshake.
const STREAM_WAIT: Duration = Duration::from_secs(10);
/// Timeout of a NOTIFY. The next one may be sent earlier: a reply to either is accepted.
const NOTIFY_WAIT: Duration = Duration::from_secs(5);
/// Size limit of a message in bytes: two names, an SOA, a TSIG record.
const MAX_MESSAGE_BYTES: usize = 2048;

/// A message that was sent and awaits its reply.
pub(super) struct Exchange {
    apex: ZoneName,
    purpose: Purpose,
    id: u16,
    verifier: Option<ResponseVerifier>,
    deadline: Instant,
    /// Whether the link is encrypted, and the handshake not complete.
    in_handshake: bool,
}

/// The purpose of a message.
#[derive(Clone, Copy)]
enum Purpose {
    /// An SOA query to this primary, with the number of earlier tries.
    Probe { primary: usize, tries: usize, stream: bool, expire: AskExpire },
    /// A NOTIFY to this peer.
    Notify { peer: usize, to: SocketAddr },
}

impl<S: CoreHost, R: Random> SecondaryCore<S, R> {
    /// Sends an SOA query to a primary.
    pub(super) fn send_probe(&mut self, apex: &ZoneName, primary: usize, at: &mut Moment<'_>) {
        let server = self.zones.get(apex).and_then(|zone| zone.peers.primaries.get(primary));
        let expire = server.map_or(AskExpire::Yes, expire_of);
        let stream = server.is_some_and(|server| server.encryption.is_some());
        self.probe(apex, Purpose::Probe { primary, tries: 0, stream, expire }, at);
    }

    fn probe(&mut self, apex: &ZoneName, purpose: Purpose, at: &mut Moment<'_>) {
        let Purpose::Probe { primary, tries, stream, expire } = purpose else { return };
        let Some(zone) = self.zones.get(apex) else { return };
        let Some(server) = zone.peers.primaries.get(primary).cloned() else { return };
        let wait = if stream { STREAM_WAIT } else { PROBE_WAITS.get(tries).copied().unwrap_or(STREAM_WAIT) };
        let query = |buf: &mut [u8], id| soa_query(buf, id, apex.as_name(), expire).ok();
        let link = self.send(apex, purpose, &server, wait, at, query);
        if let Some(refresh) = self.zones.get_mut(apex).and_then(|zone| zone.refresh.as_mut()) {
            refresh.probe = link;
        }
    }

    /// Sends a NOTIFY for the version in service. Returns whether it was sent.
    pub(super) fn send_notify(&mut self, apex: &ZoneName, peer: usize, at: &mut Moment<'_>) -> bool {
        let Some(zone) = self.zones.get(apex) else { return false };
        let (Some(server), Some(soa)) =
            (zone.peers.notify.get(peer).cloned(), zone.notify.as_ref().and_then(|notify| notify.soa()))
        else {
            return false;
        };
        let purpose = Purpose::Notify { peer, to: server.address };
        let sent = self.send(apex, purpose, &server, NOTIFY_WAIT, at, |buf, id| {
            notify_query(buf, id, apex.as_name(), &soa).ok()
        });
        if sent.is_some() {
            self.counts.notify_sent.fetch_add(1, Relaxed);
            debug!(zone = %apex, peer = %server, "NOTIFY sent");
        }
        sent.is_some()
    }

    /// Sends a message on a link of its own.
    fn send(
        &mut self,
        apex: &ZoneName,
        purpose: Purpose,
        server: &PeerServer,
        wait: Duration,
        at: &mut Moment<'_>,
        write: impl FnOnce(&mut [u8], u16) -> Option<usize>,
    ) -> Option<Link> {
        let id = self.random.next_u32() as u16;
        let mut buf = [0; MAX_MESSAGE_BYTES];
        let mut len = write(&mut buf, id)?;
        let mut verifier = None;
        if let Some(key) = &server.key {
            let (signed, theirs) = sign_request(key, &mut buf, len, self.host.wall()).ok()?;
            (len, verifier) = (signed, Some(theirs));
        }
        self.last_link += 1;
        let (link, deadline) = (Link(self.last_link), at.now + wait);
        let encryption = server.encryption.clone();
        let transport = match (&encryption, purpose) {
            (Some(_), _) => Transport::Tls,
            (None, Purpose::Probe { stream: true, .. }) => Transport::Tcp,
            (None, _) => Transport::Udp,
        };
        let in_handshake = encryption.is_some();
        at.actions.push(Action::Open {
            link,
            transport,
            to: server.address,
            from: server.source,
            encryption,
        });
        at.actions.push(Action::Send { link, message: buf.get(..len)?.to_vec() });
        let apex = apex.clone();
        self.links.insert(link, Exchange { apex, purpose, id, verifier, deadline, in_handshake });
        self.deadlines.insert((deadline, link));
        Some(link)
    }

    /// Removes a link; returns its exchange.
    fn end(&mut self, link: Link) -> Option<Exchange> {
        let exchange = self.links.remove(&link)?;
        self.deadlines.remove(&(exchange.deadline, link));
        if let Purpose::Notify { to, .. } = exchange.purpose {
            self.notify_ended(to);
        }
        Some(exchange)
    }

    /// Closes a link whose reply is no longer wanted.
    pub(super) fn close(&mut self, link: Link, at: &mut Moment<'_>) {
        if self.end(link).is_some() {
            at.actions.push(Action::Close { link });
        }
    }

    /// Handles a message received on a link.
    pub(super) fn message(&mut self, link: Link, message: &[u8], at: &mut Moment<'_>) {
        let wall = self.host.wall();
        let Some(exchange) = self.links.get_mut(&link) else { return };
        match exchange.purpose {
            Purpose::Probe { .. } => {
                let read = read_soa_reply(message, exchange.id, exchange.apex.as_name());
                // Anyone can send a message: one that is not the reply to this query is ignored.
                if read == Err(TransferFault::NotTheResponse) {
                    return;
                }
                let said = verified(exchange.verifier.as_mut(), message, wall).and(read);
                self.probed(link, said, at);
            }
            Purpose::Notify { peer, .. } => {
                let Some(rcode) = notify_reply(message, exchange.id, exchange.apex.as_name()) else { return };
                if verified(exchange.verifier.as_mut(), message, wall).is_err() && rcode == Rcode::NOERROR {
                    return;
                }
                if let Some(exchange) = self.end(link) {
                    at.actions.push(Action::Close { link });
                    self.acknowledged(&exchange.apex, peer, rcode);
                }
            }
        }
    }

    fn probed(&mut self, link: Link, said: Result<SoaReply, TransferFault>, at: &mut Moment<'_>) {
        let Some(Exchange { apex, purpose, .. }) = self.end(link) else { return };
        at.actions.push(Action::Close { link });
        let Purpose::Probe { primary, stream, expire, .. } = purpose else { return };
        match said.map_err(SecondaryFault::Transfer) {
            Err(SecondaryFault::Transfer(TransferFault::Truncated)) if !stream => {
                self.probe(&apex, Purpose::Probe { primary, tries: 0, stream: true, expire }, at);
            }
            Err(fault) if expire != AskExpire::No && takes_no_opt(&fault) => {
                let expire = AskExpire::No;
                self.probe(&apex, Purpose::Probe { primary, tries: 0, stream, expire }, at);
            }
            Err(fault) => self.happened(&apex, SecondaryEvent::Failed(fault), at),
            Ok(reply) => self.asked(&apex, reply, at),
        }
    }

    fn acknowledged(&mut self, apex: &ZoneName, peer: usize, rcode: Rcode) {
        let Some(PeeredZone { peers, notify: Some(notify), .. }) = self.zones.get_mut(apex) else { return };
        notify.replied(peer);
        let counts = &self.counts;
        let is_accepted = rcode == Rcode::NOERROR;
        let count = if is_accepted { &counts.notify_acknowledged } else { &counts.notify_declined };
        count.fetch_add(1, Relaxed);
        if let (Some(last), Some(server)) = (notify.replies.get_mut(peer), peers.notify.get(peer)) {
            let (zone, before) = (apex, std::mem::take(last));
            *last = before.after(rcode);
            // A secondary may change its reply with each NOTIFY.
            let object = format!("{zone} {server}");
            match (before, *last) {
                (_, PeerReply::NotYet) => log_repeated!(
                    info,
                    INFO,
                    ("NOTIFY too early", &*object),
                    "zone {zone}: NOTIFY not taken by {server}, rcode={rcode}: the secondary does not have \
                     the zone yet"
                ),
                (before, now @ PeerReply::Declined(_)) if before != now => {
                    log_repeated!(
                        warn,
                        WARN,
                        ("NOTIFY declined", &*object),
                        "zone {zone}: {server} answers NOTIFY with {rcode}: check that it is a secondary of \
                        the zone and accepts NOTIFY from this server"
                    );
                }
                _ => {}
            }
        }
        self.see_to(apex);
    }

    /// Handles the end of a handshake.
    pub(super) fn secured(&mut self, link: Link) {
        if let Some(exchange) = self.links.get_mut(&link) {
            exchange.in_handshake = false;
        }
    }

    /// Handles a link that ended before its reply arrived.
    pub(super) fn lost(&mut self, link: Link, error: ErrorKind, at: &mut Moment<'_>) {
        let Some(Exchange { apex, purpose, in_handshake, .. }) = self.end(link) else { return };
        let of_encryption = EncryptionFault::before_open(error).filter(|_| in_handshake);
        match purpose {
            Purpose::Probe { .. } => {
                let fault = match (of_encryption, error) {
                    (Some(fault), _) => SecondaryFault::Insecure(fault),
                    (None, ErrorKind::ConnectionRefused) => SecondaryFault::Refused,
                    (None, _) => SecondaryFault::Unreachable,
                };
                self.happened(&apex, SecondaryEvent::Failed(fault), at);
            }
            Purpose::Notify { peer, .. } => match of_encryption {
                Some(fault) => self.not_notified(&apex, peer, fault),
                None => self.unanswered(&apex, peer, &error.to_string()),
            },
        }
    }

    /// Handles a link that could not be encrypted, or whose server ended the session with an alert.
    pub(super) fn insecure(&mut self, link: Link, fault: EncryptionFault, at: &mut Moment<'_>) {
        let Some(Exchange { apex, purpose, .. }) = self.end(link) else { return };
        match purpose {
            Purpose::Probe { .. } => {
                self.happened(&apex, SecondaryEvent::Failed(SecondaryFault::Insecure(fault)), at);
            }
            Purpose::Notify { peer, .. } => self.not_notified(&apex, peer, fault),
        }
    }

    /// Ends the exchanges that have timed out.
    pub(super) fn give_up(&mut self, at: &mut Moment<'_>) {
        while let Some((deadline, link)) = self.deadlines.first().copied()
            && deadline <= at.now
        {
            let Some(Exchange { apex, purpose, in_handshake, .. }) = self.end(link) else { continue };
            at.actions.push(Action::Close { link });
            let timeout = EncryptionFault::HandshakeTimeout;
            match purpose {
                Purpose::Probe { primary, tries, stream: false, expire } if tries + 1 < PROBE_WAITS.len() => {
                    let tries = tries + 1;
                    self.probe(&apex, Purpose::Probe { primary, tries, stream: false, expire }, at);
                }
                Purpose::Probe { .. } => {
                    let fault = match in_handshake {
                        true => SecondaryFault::Insecure(timeout),
                        false => SecondaryFault::Unreachable,
                    };
                    self.happened(&apex, SecondaryEvent::Failed(fault), at);
                }
                Purpose::Notify { peer, .. } if in_handshake => self.not_notified(&apex, peer, timeout),
                Purpose::Notify { peer, .. } => self.unanswered(&apex, peer, "no answer in time"),
            }
        }
    }

    fn unanswered(&self, apex: &ZoneName, peer: usize, reason: &str) {
        self.counts.notify_unanswered.fetch_add(1, Relaxed);
        let server = self.zones.get(apex).and_then(|zone| zone.peers.notify.get(peer));
        if let Some(server) = server {
            debug!(zone = %apex, peer = %server, reason, "NOTIFY not answered");
        }
    }

    /// Handles a NOTIFY that was not sent: there is no encrypted connection.
    fn not_notified(&self, apex: &ZoneName, peer: usize, fault: EncryptionFault) {
        self.unanswered(apex, peer, fault.text());
        let server = self.zones.get(apex).and_then(|zone| zone.peers.notify.get(peer));
        if let Some(server) = server {
            let about = ("NOTIFY not sent", &*server.to_string());
            log_repeated!(warn, WARN, about, "zone {apex}: NOTIFY not sent to {server}: {fault}");
        }
    }
}

/// Verifies the signature of a reply.
fn verified(
    verifier: Option<&mut ResponseVerifier>,
    message: &[u8],
    now: UnixTime,
) -> Result<(), TransferFault> {
    let Some(verifier) = verifier else { return Ok(()) };
    let tsig_at = tsig::find(message)?;
    let verified = verifier.message(message, tsig_at, now).and_then(|()| verifier.end());
    match (verified, message.get(3).map(|flags| flags & 15)) {
        (Ok(()), _) => Ok(()),
        // A server that refuses the signature, or the request, need not sign its reply.
        (Err(tsig::ResponseError::Unsigned), Some(1..)) => Ok(()),
        (Err(error), _) => Err(TransferFault::Tsig(error)),
    }
}
