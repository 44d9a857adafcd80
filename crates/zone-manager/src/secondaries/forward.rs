//! Forwarding of dynamic updates of secondary zones to their primaries (RFC 2136 §6). The message is
//! forwarded unchanged, with its signature, and so is the response: the primary decides. Each update waits on
//! a thread of its own; their number is limited.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use net::PeerStream;
use query_path::{Asked, Engine, Refusal, Responder, Responders, Source, SourceReply};
use wire::edns::ErrorInfo;
use wire::message::{Builder, Header, Parser};
use wire::{Rcode, Serial};
use zone_plan::ZonePeers;

use super::Secondaries;
use super::counts::SecondaryCounts;
use super::fetch::connect;
use serving::frontend::Served;
use telemetry::audit::{AskedChange, RefusalLog};
use telemetry::repeated::log_repeated;
use telemetry::trail::audit;
use threads::sync::read;
use wording::reason;

/// Longest wait for a connection to a primary, and then for its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for the response, which may have to wait for a disk.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Log of updates that are not forwarded.
static REFUSED: RefusalLog = RefusalLog::new("update");

/// No primary responded, or too many updates wait: whether the update was applied is not known.
const NOT_PASSED_ON: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::NO_REACHABLE_AUTHORITY);

/// The source for updates: forwards those of some secondary zones, and hands the rest to the source that
/// changes zones here.
struct UpdateForwarding {
    secondaries: Arc<Secondaries>,
    own: Option<Arc<dyn Source>>,
}

/// Makes the engine forward updates for zones according to their `forward-updates`. All others stay with the
/// existing source.
pub(super) fn install(secondaries: &Arc<Secondaries>, engine: &Engine<Served>) {
    engine.change_sources(|sources| {
        let (secondaries, own) = (Arc::clone(secondaries), sources.update.take());
        sources.update = Some(Arc::new(UpdateForwarding { secondaries, own }));
    });
}

impl Source for UpdateForwarding {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, responders: Responders<'_>) -> SourceReply {
        match (self.peers(asked), &self.own) {
            (Some(peers), _) => self.pass_on(&peers, asked, responders),
            (None, Some(own)) => own.answer(asked, b, responders),
            // The zone is a secondary zone, but this client's updates are not forwarded.
            (None, None) if self.is_secondary(asked) => {
                self.refused(asked, "`forward-updates` does not name the client");
                SourceReply::Refused(Refusal::PROHIBITED)
            }
            (None, None) => {
                self.refused(asked, "no zone here takes updates");
                SourceReply::Refused(Refusal::OPCODE)
            }
        }
    }

    fn unverified(&self, refusal: Refusal, asked: &Asked<'_>, responders: Responders<'_>) -> SourceReply {
        match self.peers(asked) {
            Some(peers) => self.pass_on(&peers, asked, responders),
            None => SourceReply::Refused(refusal),
        }
    }
}

impl UpdateForwarding {
    /// Logs that an update is not forwarded for this reason.
    fn refused(&self, asked: &Asked<'_>, reason: &str) {
        REFUSED.change_refused(asked, reason, || self.serial_of(asked));
    }

    /// Returns the serial number of the zone in service.
    fn serial_of(&self, asked: &Asked<'_>) -> Option<Serial> {
        let entry = self.secondaries.engine.upgrade()?.zone_entry(&asked.apex())?;
        entry.zone().map(|zone| zone.serial())
    }

    /// Whether the zone is a secondary zone.
    fn is_secondary(&self, asked: &Asked<'_>) -> bool {
        read(&self.secondaries.rules).get(&asked.apex()).is_some_and(|peers| !peers.primaries.is_empty())
    }

    /// Returns the peers of the zone to change, if this client's updates are forwarded to its primaries.
    fn peers(&self, asked: &Asked<'_>) -> Option<Arc<ZonePeers>> {
        let peers = read(&self.secondaries.rules).get(&asked.apex()).cloned()?;
        let key = asked.verified.map(|verified| &**verified.key());
        let passes_on = !peers.primaries.is_empty()
            && peers.forwards(asked.client.peer.ip(), key, asked.certificate().map(|shown| &**shown));
        passes_on.then_some(peers)
    }

    fn pass_on(&self, peers: &Arc<ZonePeers>, asked: &Asked<'_>, responders: Responders<'_>) -> SourceReply {
        let counts = &self.secondaries.counts;
        let most = self.secondaries.forwards.load(Relaxed);
        let Some(place) = Place::take(counts, most) else {
            counts.forward_too_many.fetch_add(1, Relaxed);
            self.refused(asked, "too many updates wait for primaries (`forward-in-flight` of [updates])");
            return SourceReply::Refused(NOT_PASSED_ON);
        };
        let (responder, promise) = responders.take();
        let (peers, message) = (Arc::clone(peers), asked.packet.to_vec());
        let update = ForwardedUpdate::of(asked, self.serial_of(asked));
        let work = move || settle(&update, &peers, &message, responder, &place);
        // A responder dropped with the thread sends SERVFAIL.
        if !self.secondaries.desk.threads.run(work) {
            let about = ("no thread", "update");
            log_repeated!(warn, WARN, about, "an update is not passed on: the system refuses a thread");
        }
        SourceReply::Pending(promise)
    }
}

/// One of the updates that wait for a primary; dropped when it has ended.
struct Place(Arc<SecondaryCounts>);

impl Place {
    /// Returns a place if fewer than `most` updates wait.
    fn take(counts: &Arc<SecondaryCounts>, most: u64) -> Option<Place> {
        let more = |waiting| (waiting < most).then_some(waiting + 1);
        counts.forwarding.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Place(Arc::clone(counts)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.forwarding.fetch_sub(1, Relaxed);
    }
}

/// A forwarded update, for the log.
struct ForwardedUpdate {
    zone: String,
    client: IpAddr,
    /// The key that signed it; only its name if the key is unknown here.
    key: String,
    change: AskedChange,
}

impl ForwardedUpdate {
    fn of(asked: &Asked<'_>, serial: Option<Serial>) -> Self {
        let verified = asked.verified.map(|verified| verified.key().name().to_string());
        let key = verified.or_else(|| unverified_key(asked)).unwrap_or_else(|| "none".into());
        let (zone, client) = (asked.qname.as_lower().to_string(), asked.client.peer.ip());
        ForwardedUpdate { zone, client, key, change: AskedChange::of(asked, serial) }
    }

    /// Logs that a primary has answered the update with this response code.
    fn passed_on(&self, primary: &str, rcode: Rcode) {
        let ForwardedUpdate { zone, client, key, change } = self;
        let AskedChange { prerequisites, updates, serial } = change;
        let (object, serial) = (self.object(), serial.map(|serial| serial.0));
        log_repeated!(
            info,
            INFO,
            ("update passed on", &object),
            "zone {zone}: update passed on client={client} key={key} primary={primary} rcode={rcode} \
             prerequisites={prerequisites} updates={updates}"
        );
        audit!(%zone, %client, key, primary, %rcode, prerequisites, updates, serial, "update passed on");
    }

    /// Logs that no primary has answered the update.
    fn not_passed_on(&self, reason: &str) {
        let ForwardedUpdate { zone, client, key, change } = self;
        let AskedChange { prerequisites, updates, serial } = change;
        let (object, serial) = (self.object(), serial.map(|serial| serial.0));
        log_repeated!(
            info,
            INFO,
            ("update not passed on", &object),
            "zone {zone}: update not passed on client={client} key={key} reason={reason:?} \
             prerequisites={prerequisites} updates={updates}"
        );
        audit!(%zone, %client, key, reason, prerequisites, updates, serial, "update not passed on");
    }

    /// The subject under which repeated log lines are counted.
    fn object(&self) -> String {
        format!("{} {} {}", self.zone, self.client, self.key)
    }
}

/// Returns the key that a request names, although it is unknown here or did not make its signature.
fn unverified_key(asked: &Asked<'_>) -> Option<String> {
    let (_, mut parser) = Parser::new(asked.packet).ok()?;
    let name = parser.name_at(asked.request.tsig_at?).ok()?;
    Some(format!("{} (not verified here)", name))
}

/// Sends the update to one primary after the other, until one has received it.
fn settle(update: &ForwardedUpdate, peers: &ZonePeers, message: &[u8], responder: Responder, place: &Place) {
    let mut why = "the zone has no primaries".to_owned();
    for primary in &peers.primaries {
        let mut stream = match connect(primary, CONNECT_TIMEOUT) {
            Ok(stream) => stream,
            Err(fault) => {
                why = format!("no connection to {primary}: {fault}");
                continue;
            }
        };
        match exchange(&mut stream, message, RESPONSE_TIMEOUT) {
            Ok(answer) => {
                place.0.forwarded.fetch_add(1, Relaxed);
                let rcode = Header::of(&answer).map_or(Rcode::FORMERR, |header| header.rcode());
                update.passed_on(&primary.to_string(), rcode);
                return responder.pass_on(answer);
            }
            // The primary may have applied it, so no other primary is asked.
            Err(fault) => {
                why = format!("no answer from {primary}: {}", reason(&fault));
                break;
            }
        }
    }
    place.0.forward_failed.fetch_add(1, Relaxed);
    update.not_passed_on(&why);
    responder.refuse(NOT_PASSED_ON);
}

/// Sends a request, and waits for its response, each no longer than `timeout`. The ID is unchanged: nothing
/// else is in flight on the connection.
pub(crate) fn exchange(stream: &mut PeerStream, message: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.socket().set_write_timeout(Some(timeout))?;
    stream.socket().set_read_timeout(Some(timeout))?;
    stream.write_all(&[&length.to_be_bytes()[..], message].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    let (asked, answered) = (Header::of(message), Header::of(&answer));
    match asked.zip(answered) {
        Some((asked, answered))
            if answered.is_response()
                && answered.id() == asked.id()
                && answered.opcode() == asked.opcode() =>
        {
            Ok(answer)
        }
        _ => Err(io::Error::other("not the answer to the request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_updates_wait_for_a_primary() {
        let counts = Arc::new(SecondaryCounts::default());
        let mut places: Vec<Place> = (0..64).filter_map(|_| Place::take(&counts, 64)).collect();
        assert_eq!((places.len(), Place::take(&counts, 64).is_none()), (64, true));
        places.pop();
        assert!(Place::take(&counts, 64).is_some());
        // The new limit applies to the next update.
        assert!(Place::take(&counts, 20).is_none());
        drop(places);
        assert_eq!(counts.forwarding.load(Relaxed), 0);
    }
}
