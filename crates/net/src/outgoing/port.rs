//! Source ports of outgoing datagrams: random among the unprivileged ones, from the system's random number
//! generator (RFC 5452 §4.5). The kernel's own choice comes from a smaller range.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::Socket;

/// The lowest port used.
const LOWEST_PORT: u16 = 1024;
/// Ports tried before the kernel chooses: where many are taken, it still finds a free one.
const PORT_TRIES: usize = 16;
/// Random bytes fetched from the system at once.
const RANDOM_BYTES: usize = 512;

/// A source of random ports.
pub(super) struct Ports {
    /// Random bytes of the system, each used once.
    bytes: [u8; RANDOM_BYTES],
    used: usize,
}

impl Ports {
    pub(super) fn new() -> Self {
        Ports { bytes: [0; RANDOM_BYTES], used: RANDOM_BYTES }
    }

    /// Binds a socket to a random port of `ip`.
    ///
    /// # Errors
    /// The system's, if this host does not have the address.
    pub(super) fn bind(&mut self, socket: &Socket, ip: IpAddr) -> io::Result<()> {
        for _ in 0..PORT_TRIES {
            match socket.bind(&SocketAddr::new(ip, self.port()?).into()) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                // Some systems reserve ports.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                bound => return bound,
            }
        }
        socket.bind(&SocketAddr::new(ip, 0).into())
    }

    /// Returns a port from [`LOWEST_PORT`] on, all equally likely.
    fn port(&mut self) -> io::Result<u16> {
        loop {
            if self.used == RANDOM_BYTES {
                getrandom::fill(&mut self.bytes).map_err(io::Error::other)?;
                self.used = 0;
            }
            let Some(&bytes) = self.bytes[self.used..].first_chunk() else {
                return Err(io::ErrorKind::Other.into());
            };
            self.used += 2;
            let port = u16::from_ne_bytes(bytes);
            if port >= LOWEST_PORT {
                return Ok(port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use socket2::{Domain, Type};

    use super::*;

    fn bind(ports: &mut Ports) -> io::Result<(Socket, u16)> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        ports.bind(&socket, [127, 0, 0, 1].into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
        Ok((socket, port))
    }

    /// Pearson's chi-square statistic over 63 equal ranges of ports: 62 degrees of freedom.
    #[test]
    fn ports_are_spread_evenly() -> io::Result<()> {
        const SAMPLES: usize = 63 * 400;
        let (mut ports, mut ranges) = (Ports::new(), [0u32; 63]);
        for _ in 0..SAMPLES {
            let (_, port) = bind(&mut ports)?;
            ranges[usize::from((port - LOWEST_PORT) / 1024)] += 1;
        }
        let expected = (SAMPLES / ranges.len()) as f64;
        let statistic: f64 = ranges.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // Even ports exceed 150 once in more than ten million runs; one range left out adds 400.
        assert!(statistic < 150.0, "{statistic}");
        Ok(())
    }

    #[test]
    fn every_socket_has_a_port_of_its_own() -> io::Result<()> {
        let mut ports = Ports::new();
        let bound: Vec<_> = (0..200).map(|_| bind(&mut ports)).collect::<io::Result<_>>()?;
        let taken: HashSet<u16> = bound.iter().map(|(_, port)| *port).collect();
        assert_eq!(taken.len(), bound.len());
        assert!(taken.iter().all(|&port| port >= LOWEST_PORT));
        Ok(())
    }
}
