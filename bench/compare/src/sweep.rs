//! When a server serves the newest version of very many zones, seen by a client that asks each for its
//! serial: over UDP, a batch of questions in flight, so that it costs every server the same and little.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::failure::Result;
use crate::message::answered_serial;
use crate::provider::SmallZones;

/// Questions in flight.
const BATCH: usize = 64;
/// How long answers may take; what is not answered is asked again later.
const SILENCE: Duration = Duration::from_millis(20);

/// A client that asks for serials.
pub(crate) struct Sweep<'a> {
    socket: UdpSocket,
    zones: &'a SmallZones,
    wanted: u32,
    /// Zones that were not seen in the wanted version yet.
    left: VecDeque<usize>,
    id: u16,
    /// When the last answer with the wanted serial came.
    last: Instant,
}

impl<'a> Sweep<'a> {
    /// One that asks for this version of all zones.
    pub(crate) fn new(server: SocketAddr, zones: &'a SmallZones, version: u32) -> Result<Sweep<'a>> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let left = (0..zones.len()).collect();
        Ok(Sweep { socket, zones, wanted: SmallZones::serial(version), left, id: 0, last: Instant::now() })
    }

    /// Zones that were not seen yet.
    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    /// When the last answer with the wanted serial came.
    pub(crate) fn last(&self) -> Instant {
        self.last
    }

    /// Asks for a batch of those zones that can be there; returns how many were.
    pub(crate) fn ask(&mut self, can_be: impl Fn(usize) -> bool) -> usize {
        let mut batch = Vec::with_capacity(BATCH);
        for _ in 0..self.left.len() {
            if batch.len() == BATCH {
                break;
            }
            match self.left.pop_front() {
                Some(place) if can_be(place) => batch.push(Some(place)),
                Some(place) => self.left.push_back(place),
                None => break,
            }
        }
        let (first, mut message) = (self.id, Vec::new());
        for (number, place) in batch.iter().flatten().enumerate() {
            self.zones.write_question(&mut message, *place, first.wrapping_add(number as u16), 0);
            // What is lost is asked again.
            let _ = self.socket.send(&message);
        }
        self.id = first.wrapping_add(batch.len() as u16);
        let found = self.answers(&mut batch, first);
        // Those that were not there stand behind all others now, so that a few of them hold up no others.
        self.left.extend(batch.into_iter().flatten());
        found
    }

    /// Takes the answers to a batch, and what is there out of it.
    fn answers(&mut self, batch: &mut [Option<usize>], first: u16) -> usize {
        let (mut answered, mut found, mut buffer) = (vec![false; batch.len()], 0, [0; 4096]);
        let mut open = batch.len();
        while open > 0 {
            let Some(answer) = self.socket.recv(&mut buffer).ok().and_then(|length| buffer.get(..length))
            else {
                break;
            };
            let [high, low, ..] = answer else { continue };
            let number = usize::from(u16::from_be_bytes([*high, *low]).wrapping_sub(first));
            // Others belong to earlier batches.
            if answered.get(number).is_none_or(|answered| *answered) {
                continue;
            }
            answered[number] = true;
            open -= 1;
            if answered_serial(answer) == Some(self.wanted) {
                batch[number] = None;
                found += 1;
                self.last = Instant::now();
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::tests::{address, primary};

    #[test]
    fn zones_are_seen_once_they_are_there_in_the_version_that_is_wanted() {
        let (provider, zones, _) = primary(150);
        let mut sweep = Sweep::new(address(&provider), &zones, 1).unwrap();
        assert_eq!((sweep.ask(|_| true), sweep.left()), (0, 150), "the version before");
        provider.renew(1);
        assert_eq!((sweep.ask(|place| place >= 140), sweep.left()), (10, 140));
        for _ in 0..100 {
            sweep.ask(|place| place != 7);
        }
        assert_eq!(sweep.left(), 1);
        assert_eq!((sweep.ask(|_| true), sweep.left()), (1, 0));
    }

    #[test]
    fn nobody_who_answers_is_no_fault() {
        let unused = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (_provider, zones, _) = primary(3);
        let mut sweep = Sweep::new(unused, &zones, 0).unwrap();
        assert_eq!((sweep.ask(|_| true), sweep.left()), (0, 3));
    }
}
