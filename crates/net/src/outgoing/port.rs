//! Source ports of outgoing datagrams: any of the unprivileged ones, as hard to guess as the system's random numbers
//! (RFC 5452 §4.5). The kernel's own choice comes from a smaller range.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The lowest port taken.
const LOWEST: u16 = 1024;
/// Ports tried before the choice is left to the kernel: where many are taken, one of these is free all the same.
const TRIES: usize = 16;

/// A socket on a random port of `ip`.
///
/// # Errors
/// The system's, if there is no descriptor left or no such address here.
pub(super) fn bind(ip: IpAddr) -> io::Result<UdpSocket> {
    for _ in 0..TRIES {
        match UdpSocket::bind(SocketAddr::new(ip, random_port()?)) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            // Some systems keep ports for themselves.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            bound => return bound,
        }
    }
    UdpSocket::bind(SocketAddr::new(ip, 0))
}

/// A port from [`LOWEST`] on, each as likely as the others.
fn random_port() -> io::Result<u16> {
    loop {
        let mut bytes = [0; 2];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let port = u16::from_ne_bytes(bytes);
        if port >= LOWEST {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pearson's chi-square statistic over 63 equal ranges of ports: 62 degrees of freedom.
    #[test]
    fn ports_are_spread_evenly() -> io::Result<()> {
        const SAMPLES: usize = 63 * 400;
        let mut ranges = [0u32; 63];
        for _ in 0..SAMPLES {
            let port = bind([127, 0, 0, 1].into())?.local_addr()?.port();
            ranges[usize::from((port - LOWEST) / 1024)] += 1;
        }
        let expected = (SAMPLES / ranges.len()) as f64;
        let statistic: f64 = ranges.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        // Even ports exceed 150 once in more than ten million runs; one range left out adds 400.
        assert!(statistic < 150.0, "{statistic}");
        Ok(())
    }

    #[test]
    fn every_socket_has_a_port_of_its_own() -> io::Result<()> {
        let sockets: Vec<_> = (0..200).map(|_| bind([127, 0, 0, 1].into())).collect::<io::Result<_>>()?;
        let ports: std::collections::HashSet<u16> =
            sockets.iter().map(|s| s.local_addr().map(|a| a.port())).collect::<io::Result<_>>()?;
        assert_eq!(ports.len(), sockets.len());
        assert!(ports.iter().all(|&port| port >= LOWEST));
        Ok(())
    }
}
