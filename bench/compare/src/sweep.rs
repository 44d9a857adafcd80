//! Finds out when a server serves the newest version of very many zones: queries each for its serial over
//! UDP, with a batch of queries in flight, so that the cost is small and the same for every server.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::failure::Result;
use crate::message::answered_serial;
use crate::provider::SmallZones;

/// Number of queries in flight.
const BATCH: usize = 64;
/// Longest wait for answers; unanswered queries are repeated later.
const SILENCE: Duration = Duration::from_millis(20);

/// A client that queries serials.
pub(crate) struct Sweep<'a> {
    socket: UdpSocket,
    zones: &'a SmallZones,
    wanted: u32,
    /// Zones that were not yet found in the wanted version.
    left: VecDeque<usize>,
    id: u16,
    /// Time of the last answer with the wanted serial.
    last: Instant,
}

impl<'a> Sweep<'a> {
    /// Creates a client for this version of all zones.
    pub(crate) fn new(server: SocketAddr, zones: &'a SmallZones, version: u32) -> Result<Sweep<'a>> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let left = (0..zones.len()).collect();
        Ok(Sweep { socket, zones, wanted: SmallZones::serial(version), left, id: 0, last: Instant::now() })
    }

    /// Returns the number of zones that were not yet found.
    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    /// Returns the time of the last answer with the wanted serial.
    pub(crate) fn last(&self) -> Instant {
        self.last
    }

    /// Queries a batch of the remaining zones for which `can_be` is true; returns how many were found.
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
            // Lost queries are repeated.
            let _ = self.socket.send(&message);
        }
        self.id = first.wrapping_add(batch.len() as u16);
        let found = self.answers(&mut batch, first);
        // Zones that were not found move to the end, so that they do not delay others.
        self.left.extend(batch.into_iter().flatten());
        found
    }

    /// Receives the answers to a batch, and removes the found zones from it.
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
