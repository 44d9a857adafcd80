//! The floor: a server that receives a batch, turns each query into its own response and sends the batch
//! back. It parses nothing; its cost is that of the kernel. Not a DNS server in any other respect.

use std::net::{SocketAddr, UdpSocket};

use net::{Context as Faults, Listener, ListenerConfig, XdpConfig};
use transport::{Batch as Queries, Handler, LateReplies, Outcome, Transport, WorkerContext};

use crate::failure::{Context, Failure, Result};
use crate::sys::{self, Batch, SLOT};

/// Size of a socket buffer in bytes, each for receiving and sending: as the servers set, so that bursts are
/// not lost here only.
const SOCKET_BUFFER: usize = 4 << 20;

/// Answers on `address` until killed; pads responses with zeros to at least `size` bytes. With an interface,
/// receives its queries by AF_XDP.
pub(crate) fn run(address: SocketAddr, size: usize, xdp: Option<&str>) -> Result<()> {
    match xdp {
        None => sockets(address, size),
        Some(interface) => front(address, size, interface),
    }
}

/// Uses plain batched system calls, none of the server's code.
fn sockets(address: SocketAddr, size: usize) -> Result<()> {
    let socket = UdpSocket::bind(address).context(|| format!("cannot listen on {address}"))?;
    sys::widen_buffers(&socket, SOCKET_BUFFER);
    let mut batch = Batch::new();
    loop {
        let count = batch.receive(&socket)?;
        for index in 0..count {
            let (bytes, length) = batch.slot(index);
            *length = reflect(bytes, *length, size);
        }
        // A full socket buffer drops replies, as it would a server's.
        let _ = batch.send(&socket, count);
    }
}

/// Uses nomen's own AF_XDP code without a server; another implementation would have other costs.
fn front(address: SocketAddr, size: usize, interface: &str) -> Result<()> {
    let config = ListenerConfig { workers: 1, ..ListenerConfig::default() };
    let bound = Listener::bind(address, Transport::Udp, &config).context(|| "reflector".to_string())?;
    let front = Listener::xdp(&[&bound], &config, &XdpConfig::new(interface))
        .context(|| "reflector: no AF_XDP".to_string())?;
    let faults = Faults::default().on_fault(|fault| eprintln!("{fault}"));
    let serve = |bound: net::Bound| {
        bound.serve(move |_: &WorkerContext| Reflector { size }, &faults).context(|| "reflector".to_string())
    };
    let running = [serve(front)?, serve(bound)?];
    for listener in running {
        listener.join();
    }
    Err(Failure::new("reflector: stopped by itself"))
}

struct Reflector {
    size: usize,
}

impl Handler for Reflector {
    fn batch(&mut self, batch: &mut Queries<'_>) {
        for index in 0..batch.len() {
            let (query, out) = batch.parts(index);
            let length = query.packet.len();
            let padded = self.size.clamp(length.min(out.len()), out.len());
            if let Some((head, rest)) = out.split_at_mut_checked(length) {
                head.copy_from_slice(query.packet);
                head[2] |= 0x80;
                rest[..padded - length].fill(0);
                batch.set(index, Outcome::Reply(padded));
            }
        }
    }

    fn late(&mut self, _: &mut LateReplies<'_>) -> bool {
        false
    }
}

/// Sets QR and pads; returns the new length.
fn reflect(bytes: &mut [u8; SLOT], length: usize, size: usize) -> usize {
    bytes[2] |= 0x80;
    let padded = size.clamp(length.min(SLOT), SLOT);
    bytes[length.min(SLOT)..padded].fill(0);
    padded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reflects_and_pads() {
        let mut bytes = [7; SLOT];
        assert_eq!(reflect(&mut bytes, 30, 0), 30);
        assert_eq!(bytes[2], 0x87);
        assert_eq!(bytes[30], 7);
        assert_eq!(reflect(&mut bytes, 30, 40), 40);
        assert!(bytes[30..40].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[40], 7);
        assert_eq!(reflect(&mut bytes, 30, 1 << 20), SLOT);
    }
}
