//! Dynamic updates of zones that are taken from primaries, passed on to those (RFC 2136 §6). The message goes on as it came,
//! with its signature, and so does the answer: the primary judges. Each waits on a thread of its own, and there are only so
//! many.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{Asked, Engine, Refusal, Source, Sourced, Ticket, TicketOffice};
use tracing::debug;
use wire::Rcode;
use wire::edns::ErrorInfo;
use wire::message::{Builder, Header};

use super::counts::SecondaryCounts;
use super::plan::ZonePeers;
use super::{Secondaries, on_a_thread};
use crate::frontend::Served;
use crate::repeated::log_repeated;
use crate::sync::read;

/// Longest wait for a connection to a primary.
const CONNECT: Duration = Duration::from_secs(3);
/// Longest wait for its answer, which may have to wait for a disk.
const ANSWER: Duration = Duration::from_secs(15);

/// No primary could be asked, or there are too many updates: whether it was done is not known.
const NOT_PASSED_ON: Refusal = Refusal::because(Rcode::SERVFAIL, ErrorInfo::NO_REACHABLE_AUTHORITY);

/// The source for updates: those of some zones from primaries are passed on, the rest is for whoever changes zones here.
struct UpdateForwarding {
    secondaries: Arc<Secondaries>,
    own: Option<Arc<dyn Source>>,
}

/// Has the engine pass on updates for the zones whose `forward-updates` says so. All others stay with the source that there
/// is.
pub(super) fn install(secondaries: &Arc<Secondaries>, engine: &Engine<Served>) {
    engine.change_sources(|sources| {
        let (secondaries, own) = (Arc::clone(secondaries), sources.update.take());
        sources.update = Some(Arc::new(UpdateForwarding { secondaries, own }));
    });
}

impl Source for UpdateForwarding {
    fn answer(&self, asked: &Asked<'_>, b: &mut Builder<'_>, tickets: TicketOffice<'_>) -> Sourced {
        match (self.peers(asked), &self.own) {
            (Some(peers), _) => self.pass_on(&peers, asked, tickets),
            (None, Some(own)) => own.answer(asked, b, tickets),
            // It could be passed on, but not for this client.
            (None, None) if self.is_secondary(asked) => Sourced::Refused(Refusal::PROHIBITED),
            (None, None) => Sourced::Refused(Refusal::OPCODE),
        }
    }

    fn unverified(&self, refusal: Refusal, asked: &Asked<'_>, tickets: TicketOffice<'_>) -> Sourced {
        match self.peers(asked) {
            Some(peers) => self.pass_on(&peers, asked, tickets),
            None => Sourced::Refused(refusal),
        }
    }
}

impl UpdateForwarding {
    /// Whether the zone is taken from primaries.
    fn is_secondary(&self, asked: &Asked<'_>) -> bool {
        read(&self.secondaries.rules)
            .get(asked.qname.as_lower().as_wire())
            .is_some_and(|peers| !peers.primaries.is_empty())
    }

    /// The primaries of the zone that is to be changed, if updates of this client are passed on to them.
    fn peers(&self, asked: &Asked<'_>) -> Option<Arc<ZonePeers>> {
        let peers = read(&self.secondaries.rules).get(asked.qname.as_lower().as_wire()).cloned()?;
        let key = asked.verified.map(|verified| &**verified.key());
        let passes_on = !peers.primaries.is_empty() && peers.forwards(asked.client.peer.ip(), key);
        passes_on.then_some(peers)
    }

    fn pass_on(&self, peers: &Arc<ZonePeers>, asked: &Asked<'_>, tickets: TicketOffice<'_>) -> Sourced {
        let counts = &self.secondaries.counts;
        let most = self.secondaries.forwards.load(Relaxed);
        let Some(place) = Place::take(counts, most) else {
            counts.forward_too_many.fetch_add(1, Relaxed);
            return Sourced::Refused(NOT_PASSED_ON);
        };
        let (ticket, promise) = tickets.take();
        let (peers, message) = (Arc::clone(peers), asked.packet.to_vec());
        let zone = asked.name().to_string();
        let work = move || settle(&zone, &peers, &message, ticket, &place);
        // A ticket that is dropped with the thread answers SERVFAIL.
        if !on_a_thread("forward", work) {
            let about = ("no thread", "update");
            log_repeated!(warn, WARN, about, "an update is not passed on: the system refuses a thread");
        }
        Sourced::Pending(promise)
    }
}

/// One of the updates that wait for a primary.
struct Place(Arc<SecondaryCounts>);

impl Place {
    /// One of so many.
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

/// Asks one primary after the other, until one has taken the update.
fn settle(zone: &str, peers: &ZonePeers, message: &[u8], ticket: Ticket, place: &Place) {
    for primary in &peers.primaries {
        let Ok(stream) = primary.connect(CONNECT) else { continue };
        match exchange(stream, message) {
            Ok(answer) => {
                place.0.forwarded.fetch_add(1, Relaxed);
                debug!(zone, %primary, "update passed on");
                return ticket.pass_on(answer);
            }
            // It may have been done: nobody else is asked.
            Err(fault) => {
                debug!(zone, %primary, "update passed on, and no answer: {fault}");
                break;
            }
        }
    }
    place.0.forward_failed.fetch_add(1, Relaxed);
    ticket.refuse(NOT_PASSED_ON);
}

/// Sends a request, and waits for its answer. Its ID stays what it was: nothing else is on this connection.
fn exchange(mut stream: TcpStream, message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.set_write_timeout(Some(ANSWER))?;
    stream.set_read_timeout(Some(ANSWER))?;
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
        // Another bound holds for what comes next.
        assert!(Place::take(&counts, 20).is_none());
        drop(places);
        assert_eq!(counts.forwarding.load(Relaxed), 0);
    }
}
