//! A well-behaved client: sends queries at a fixed rate from its own address, whether or not answers arrive,
//! and times each. Runs beside an abusive load, or alone for comparison.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::{Context, Result};
use crate::load::{Latency, Load, named};
use crate::sys;

/// Time after which an answer is ignored: a stub resolver would have asked again or elsewhere.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Source address.
    pub(crate) source: Ipv4Addr,
    /// Queries per second.
    pub(crate) rate: u64,
}

impl Client {
    /// Sends the queries that `next` appends to its buffer for `seconds`, and waits for the last answers.
    /// Only NOERROR and NXDOMAIN count as answers.
    pub(crate) fn ask(
        self,
        server: SocketAddr,
        seconds: f64,
        next: impl FnMut(&mut Vec<u8>),
    ) -> Result<Load> {
        let end = Duration::from_secs_f64(seconds);
        self.ask_while(server, |due| due < end, next)
    }

    /// The same, as long as `goes_on` returns true for the time of the next query, from the first on.
    pub(crate) fn ask_while(
        self,
        server: SocketAddr,
        goes_on: impl Fn(Duration) -> bool,
        mut next: impl FnMut(&mut Vec<u8>),
    ) -> Result<Load> {
        let source = SocketAddr::from((self.source, 0));
        let socket = UdpSocket::bind(source).context(|| format!("cannot send from {source}"))?;
        socket.connect(server).context(|| format!("cannot reach {server}"))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        sys::stamp_arrivals(&socket)?;
        // Send time of the query with each ID, in nanoseconds since the epoch; 0 once it is answered.
        let left: Vec<AtomicU64> = (0..=u16::MAX).map(|_| AtomicU64::new(0)).collect();
        let over = AtomicBool::new(false);
        let began = Instant::now();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&socket, &left, &over));
            let sent = self.send(&socket, &left, goes_on, &mut next);
            let seconds = began.elapsed().as_secs_f64();
            std::thread::sleep(ANSWER_TIMEOUT);
            over.store(true, Ordering::Relaxed);
            let (mut times, codes) = receiver.join().unwrap_or_default();
            Ok(Load {
                sent: sent?,
                answered: times.len() as u64,
                seconds,
                rcodes: named(&codes),
                latency: Latency::of(&mut times),
                ..Load::default()
            })
        })
    }

    fn send(
        self,
        socket: &UdpSocket,
        left: &[AtomicU64],
        goes_on: impl Fn(Duration) -> bool,
        next: &mut impl FnMut(&mut Vec<u8>),
    ) -> Result<u64> {
        let step = Duration::from_secs_f64(1.0 / self.rate.max(1) as f64);
        let first = Instant::now();
        let mut due = first;
        let mut sent = 0u64;
        let mut message = Vec::with_capacity(512);
        while goes_on(due - first) && !sys::interrupted() {
            message.clear();
            next(&mut message);
            let id = sent as u16;
            message[..2].copy_from_slice(&id.to_be_bytes());
            left[usize::from(id)].store(now(), Ordering::Relaxed);
            socket.send(&message)?;
            sent += 1;
            due += step;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(sent)
    }
}

/// Returns the current time in nanoseconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Receives answers until `over` is set; returns the latency of each in nanoseconds, and the number of each
/// response code.
fn receive(socket: &UdpSocket, left: &[AtomicU64], over: &AtomicBool) -> (Vec<u64>, [u64; 16]) {
    let (mut times, mut codes) = (Vec::new(), [0; 16]);
    let mut buffer = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let Ok((length, Some(stamp))) = sys::receive_stamped(socket, &mut buffer) else { continue };
        if length < 12 {
            continue;
        }
        let sent = left[usize::from(u16::from_be_bytes([buffer[0], buffer[1]]))].swap(0, Ordering::Relaxed);
        // Of duplicate answers the first counts.
        let Some(took) = (stamp.as_nanos() as u64).checked_sub(sent).filter(|_| sent != 0) else { continue };
        let code = buffer[3] & 15;
        codes[usize::from(code)] += 1;
        if matches!(code, 0 | 3) && took <= ANSWER_TIMEOUT.as_nanos() as u64 {
            times.push(took);
        }
    }
    (times, codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queries::write_known;

    /// Runs the client against a server that answers every query with this code, or not at all.
    fn against(code: Option<u8>) -> Load {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = [0; 512];
                while !over.load(Ordering::Relaxed) {
                    let Ok((length, peer)) = server.recv_from(&mut buffer) else { continue };
                    assert_eq!(peer.ip(), Ipv4Addr::new(127, 0, 0, 2));
                    if let Some(code) = code {
                        buffer[2] |= 0x80;
                        buffer[3] = code;
                        // Twice; only one of them may count.
                        server.send_to(&buffer[..length], peer).unwrap();
                        server.send_to(&buffer[..length], peer).unwrap();
                    }
                }
            });
            let mut number = 0;
            let client = Client { source: Ipv4Addr::new(127, 0, 0, 2), rate: 1000 };
            let load = client.ask(address, 0.05, |out| {
                number += 1;
                write_known(out, 1, number);
            });
            over.store(true, Ordering::Relaxed);
            load.unwrap()
        })
    }

    #[test]
    fn answers_count_once_and_refusals_not_at_all() {
        let load = against(Some(0));
        assert_eq!((load.sent, load.answered, load.rcodes["NOERROR"]), (50, 50, 50));
        assert!(load.latency.p99 >= load.latency.p50);
        let load = against(Some(5));
        assert_eq!((load.sent, load.answered, load.rcodes["REFUSED"]), (50, 0, 50));
        assert_eq!(against(None).answered, 0);
    }
}
