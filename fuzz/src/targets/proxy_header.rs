//! PROXY headers of version 2: the first byte is the limit, the rest is what a proxy sends.
//!
//! A header lies within the input and the limit. A decision stays when more bytes come, and the addresses are
//! those at the places that the specification has for the family.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use transport::ProxyHeader;

pub(crate) fn run(bytes: &[u8]) {
    let Some((&most, input)) = bytes.split_first() else { return };
    let most = usize::from(most) * 2;
    let read = ProxyHeader::read(input, most);
    for cut in 0..input.len().min(700) {
        match ProxyHeader::read(&input[..cut], most) {
            Ok(None) => assert!(cut < most.max(16)),
            decided => assert_eq!(decided, read),
        }
    }
    let Ok(Some(header)) = read else { return };
    assert!(header.len >= 16 && header.len <= most.min(input.len()));
    let block = &input[16..header.len];
    let Some(ends) = header.ends else { return assert_eq!(input[12], 0x20) };
    assert_eq!(input[12], 0x21);
    let ports = match input[13] >> 4 {
        1 => {
            let [source, destination] =
                [0, 4].map(|at| Ipv4Addr::from(*block[at..].first_chunk::<4>().expect("an address")));
            assert_eq!([ends.source.ip(), ends.destination.ip()], [source, destination].map(IpAddr::from));
            &block[8..]
        }
        _ => {
            let [source, destination] =
                [0, 16].map(|at| Ipv6Addr::from(*block[at..].first_chunk::<16>().expect("an address")));
            let canonical = [source, destination].map(|ip| ip.to_canonical());
            assert_eq!([ends.source.ip(), ends.destination.ip()], canonical);
            &block[32..]
        }
    };
    assert_eq!(ends.source.port().to_be_bytes(), ports[..2]);
    assert_eq!(ends.destination.port().to_be_bytes(), ports[2..4]);
}
