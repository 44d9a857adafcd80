//! The binary header of the PROXY protocol, version 2 (the specification of HAProxy, "proxy-protocol.txt"
//! §2.2): a proxy sends it before what a client sent, and names the client in it. A pure function reads
//! it; who must send it is decided elsewhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes of every header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses: the signature, version and command, family and protocol, length of the rest.
const FIXED: usize = 16;
/// Bytes of the addresses and ports of each family.
const IPV4_BLOCK: usize = 12;
const IPV6_BLOCK: usize = 36;

/// A whole header at the start of a message or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Its length in bytes, with addresses and extensions (TLVs). The client's own bytes follow.
    pub len: usize,
    /// The client and the address it sent to; `None` if the proxy speaks for itself (command LOCAL).
    pub ends: Option<ProxiedEnds>,
}

/// The ends of the client's connection to the proxy, or of its datagram. IPv4 mapped into IPv6 is IPv4,
/// so that rules about IPv4 networks apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxiedEnds {
    /// The client.
    pub source: SocketAddr,
    /// The address that it sent to.
    pub destination: SocketAddr,
}

/// The reason why a message has no valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderFault {
    /// It does not begin with the signature.
    Missing,
    /// Another version, an unknown command or family, or too few bytes for the addresses of the family.
    Malformed,
    /// It is longer than the limit.
    TooLong,
    /// The client has no IP address: the family is unspecified or that of Unix sockets.
    NoAddress,
}

impl ProxyHeader {
    /// Reads the header at the start of `input`, of at most `most` bytes; `Ok(None)` if `input` ends
    /// before the header does. Extensions are skipped, whatever is in them.
    ///
    /// # Errors
    /// [`ProxyHeaderFault`] as soon as the bytes show it: more of them would not change it.
    pub fn read(input: &[u8], most: usize) -> Result<Option<ProxyHeader>, ProxyHeaderFault> {
        let seen = input.len().min(SIGNATURE.len());
        if input[..seen] != SIGNATURE[..seen] {
            return Err(ProxyHeaderFault::Missing);
        }
        let Some(&command) = input.get(12) else { return Ok(None) };
        let is_local = match command {
            0x20 => true,
            0x21 => false,
            _ => return Err(ProxyHeaderFault::Malformed),
        };
        let Some(&family) = input.get(13) else { return Ok(None) };
        // With LOCAL the family and the addresses are ignored (§2.2).
        let least = match family {
            _ if is_local => 0,
            0x11 | 0x12 => IPV4_BLOCK,
            0x21 | 0x22 => IPV6_BLOCK,
            0x00 | 0x31 | 0x32 => return Err(ProxyHeaderFault::NoAddress),
            _ => return Err(ProxyHeaderFault::Malformed),
        };
        let Some(rest) = input.get(14..FIXED) else { return Ok(None) };
        let rest = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        let len = FIXED + rest;
        if len > most {
            return Err(ProxyHeaderFault::TooLong);
        }
        if rest < least {
            return Err(ProxyHeaderFault::Malformed);
        }
        let Some(block) = input.get(FIXED..len) else { return Ok(None) };
        Ok(Some(ProxyHeader { len, ends: if is_local { None } else { ends(block, least) } }))
    }
}

/// Returns the ends in a block of addresses of a family whose addresses and ports take `len` bytes.
fn ends(block: &[u8], len: usize) -> Option<ProxiedEnds> {
    let (source, block) = address(block, len)?;
    let (destination, block) = address(block, len)?;
    let (source_port, block) = block.split_first_chunk::<2>()?;
    let (destination_port, _) = block.split_first_chunk::<2>()?;
    Some(ProxiedEnds {
        source: SocketAddr::new(source, u16::from_be_bytes(*source_port)),
        destination: SocketAddr::new(destination, u16::from_be_bytes(*destination_port)),
    })
}

/// Returns the address at the start of `block`, and what follows it.
fn address(block: &[u8], len: usize) -> Option<(IpAddr, &[u8])> {
    if len == IPV4_BLOCK {
        let (octets, rest) = block.split_first_chunk::<4>()?;
        Some((Ipv4Addr::from(*octets).into(), rest))
    } else {
        let (octets, rest) = block.split_first_chunk::<16>()?;
        Some((IpAddr::from(Ipv6Addr::from(*octets)).to_canonical(), rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 512;

    fn pair(source: &str, destination: &str) -> ProxiedEnds {
        let [source, destination] = [source, destination].map(|text| text.parse().expect("an address"));
        ProxiedEnds { source, destination }
    }

    /// Returns a header that names these ends, of a datagram if `is_datagram`. Both ends are written as IPv6
    /// addresses unless both are of IPv4.
    fn write(ends: Option<ProxiedEnds>, is_datagram: bool, extensions: &[u8]) -> Vec<u8> {
        let protocol = if is_datagram { 2 } else { 1 };
        let (command, family, mut block) = match ends.map(|ends| (ends.source, ends.destination)) {
            None => (0x20, 0, Vec::new()),
            Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
                (0x21, 0x10 | protocol, [source.ip().octets(), destination.ip().octets()].concat())
            }
            Some((source, destination)) => {
                let octets = |addr: SocketAddr| match addr.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                (0x21, 0x20 | protocol, [octets(source), octets(destination)].concat())
            }
        };
        if let Some(ends) = ends {
            block.extend(ends.source.port().to_be_bytes());
            block.extend(ends.destination.port().to_be_bytes());
        }
        block.extend(extensions);
        let len = u16::try_from(block.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, &block].concat()
    }

    /// Returns a header with these bytes of version and command, and of family and protocol.
    fn raw(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let len = u16::try_from(block.len()).expect("short").to_be_bytes();
        [&SIGNATURE[..], &[command, family], &len, block].concat()
    }

    #[test]
    fn a_header_of_the_specification_is_read_byte_by_byte() {
        // Written by hand: 192.0.2.7 port 4660 to 198.51.100.1 port 53, by TCP, with a TLV of 3 bytes.
        let header = [
            0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a, 0x21, 0x11, 0, 18, 192,
            0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0, 53, 0x04, 0, 3, 1, 2, 3,
        ];
        let ends = pair("192.0.2.7:4660", "198.51.100.1:53");
        assert_eq!(ProxyHeader::read(&header, MOST), Ok(Some(ProxyHeader { len: 34, ends: Some(ends) })));
        assert_eq!(write(Some(ends), false, &[4, 0, 3, 1, 2, 3]), header);
    }

    #[test]
    fn every_end_of_the_input_is_an_incomplete_header() {
        for ends in [
            None,
            Some(pair("192.0.2.7:4660", "198.51.100.1:53")),
            Some(pair("[2001:db8::7]:1", "[2001:db8::53]:53")),
        ] {
            for extensions in [&[][..], &[1; 40]] {
                let header = write(ends, true, extensions);
                for cut in 0..header.len() {
                    assert_eq!(ProxyHeader::read(&header[..cut], MOST), Ok(None), "{ends:?} {cut}");
                }
                let whole = Ok(Some(ProxyHeader { len: header.len(), ends }));
                assert_eq!(ProxyHeader::read(&header, MOST), whole);
                assert_eq!(ProxyHeader::read(&[&header[..], b"more"].concat(), MOST), whole);
            }
        }
    }

    #[test]
    fn every_command_and_family_is_as_the_specification_says() {
        let block = [7; 40];
        for command in 0..=u8::MAX {
            for family in 0..=u8::MAX {
                let read = ProxyHeader::read(&raw(command, family, &block), MOST);
                let ends = read.map(|header| header.expect("whole").ends.map(|ends| ends.source.is_ipv4()));
                let expected = match (command, family) {
                    (0x20, _) => Ok(None),
                    (0x21, 0x11 | 0x12) => Ok(Some(true)),
                    (0x21, 0x21 | 0x22) => Ok(Some(false)),
                    (0x21, 0x00 | 0x31 | 0x32) => Err(ProxyHeaderFault::NoAddress),
                    _ => Err(ProxyHeaderFault::Malformed),
                };
                assert_eq!(ends, expected, "{command:#x} {family:#x}");
            }
        }
    }

    #[test]
    fn every_length_is_judged_by_its_family_and_the_limit() {
        for (family, least) in [(0x11, 12), (0x22, 36)] {
            for len in 0..60 {
                let header = raw(0x21, family, &vec![9; len]);
                let read = ProxyHeader::read(&header, 60);
                match len {
                    _ if len < least => assert_eq!(read, Err(ProxyHeaderFault::Malformed), "{len}"),
                    ..=44 => assert_eq!(read.map(|read| read.map(|read| read.len)), Ok(Some(16 + len))),
                    _ => assert_eq!(read, Err(ProxyHeaderFault::TooLong), "{len}"),
                }
                // The length alone decides, before the rest has come.
                if let Err(fault) = read {
                    assert_eq!(ProxyHeader::read(&header[..16], 60), Err(fault));
                }
            }
        }
        assert_eq!(
            ProxyHeader::read(&raw(0x20, 0, &[0; 45]), 60),
            Err(ProxyHeaderFault::TooLong),
            "LOCAL too"
        );
    }

    #[test]
    fn a_wrong_byte_of_the_signature_is_seen_at_once() {
        let header = write(None, true, &[]);
        for at in 0..SIGNATURE.len() {
            let mut wrong = header.clone();
            wrong[at] ^= 1;
            assert_eq!(ProxyHeader::read(&wrong[..=at], MOST), Err(ProxyHeaderFault::Missing));
        }
        assert_eq!(
            ProxyHeader::read(b"PROXY TCP4 192.0.2.1", MOST),
            Err(ProxyHeaderFault::Missing),
            "version 1"
        );
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        let block = [
            &Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped().octets()[..],
            &Ipv4Addr::new(192, 0, 2, 53).to_ipv6_mapped().octets(),
            &[0, 1, 0, 53],
        ]
        .concat();
        let read = ProxyHeader::read(&raw(0x21, 0x21, &block), MOST).expect("valid").expect("whole");
        assert_eq!(read.ends, Some(pair("192.0.2.7:1", "192.0.2.53:53")));
    }

    fn address() -> impl Strategy<Value = SocketAddr> {
        prop_oneof![
            any::<([u8; 4], u16)>().prop_map(|(ip, port)| SocketAddr::new(Ipv4Addr::from(ip).into(), port)),
            any::<([u8; 16], u16)>().prop_map(|(ip, port)| {
                SocketAddr::new(IpAddr::from(Ipv6Addr::from(ip)).to_canonical(), port)
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            source in address(), destination in address(), is_datagram: bool,
            extensions in prop::collection::vec(any::<u8>(), 0..200), more in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let ends = Some(ProxiedEnds { source, destination });
            let header = write(ends, is_datagram, &extensions);
            let input = [&header[..], &more].concat();
            prop_assert_eq!(ProxyHeader::read(&input, MOST), Ok(Some(ProxyHeader { len: header.len(), ends })));
        }

        /// Bytes that come later never change a decision that was made without them.
        #[test]
        fn a_decision_stays(start in 0..=16_usize, bytes in prop::collection::vec(any::<u8>(), 0..80), most in 16..80_usize) {
            let header = write(None, true, &[]);
            let input = [&header[..start], &bytes].concat();
            let whole = ProxyHeader::read(&input, most);
            for cut in 0..input.len() {
                match ProxyHeader::read(&input[..cut], most) {
                    Ok(None) => {}
                    decided => prop_assert_eq!(decided, whole),
                }
            }
            if let Ok(Some(read)) = whole {
                prop_assert!(read.len <= most.min(input.len()));
            }
        }
    }
}
