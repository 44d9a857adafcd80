//! The floor: a server that receives a batch, turns each query into its own response and sends the batch back.
//! It parses nothing; what it costs is what the kernel costs. Not a DNS server in any other sense.

use std::net::{SocketAddr, UdpSocket};

use crate::failure::{Context, Result};
use crate::sys::{Batch, SLOT};

/// Answers on `address` until killed; responses shorter than `size` octets are padded with zeros to that length.
pub(crate) fn run(address: SocketAddr, size: usize) -> Result<()> {
    let socket = UdpSocket::bind(address).context(|| format!("cannot listen on {address}"))?;
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
        assert!(bytes[30..40].iter().all(|octet| *octet == 0));
        assert_eq!(bytes[40], 7);
        assert_eq!(reflect(&mut bytes, 30, 1 << 20), SLOT);
    }
}
