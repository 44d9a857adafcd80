//! Addresses of the root servers for priming (RFC 8109 §2), from IANA's root hints file of 2024.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::config::{IterateRule, StartServer};

/// Each server's letter and addresses.
const ROOT: [(char, Ipv4Addr, Ipv6Addr); 13] = [
    ('a', Ipv4Addr::new(198, 41, 0, 4), Ipv6Addr::new(0x2001, 0x503, 0xba3e, 0, 0, 0, 2, 0x30)),
    ('b', Ipv4Addr::new(170, 247, 170, 2), Ipv6Addr::new(0x2801, 0x1b8, 0x10, 0, 0, 0, 0, 0xb)),
    ('c', Ipv4Addr::new(192, 33, 4, 12), Ipv6Addr::new(0x2001, 0x500, 2, 0, 0, 0, 0, 0xc)),
    ('d', Ipv4Addr::new(199, 7, 91, 13), Ipv6Addr::new(0x2001, 0x500, 0x2d, 0, 0, 0, 0, 0xd)),
    ('e', Ipv4Addr::new(192, 203, 230, 10), Ipv6Addr::new(0x2001, 0x500, 0xa8, 0, 0, 0, 0, 0xe)),
    ('f', Ipv4Addr::new(192, 5, 5, 241), Ipv6Addr::new(0x2001, 0x500, 0x2f, 0, 0, 0, 0, 0xf)),
    ('g', Ipv4Addr::new(192, 112, 36, 4), Ipv6Addr::new(0x2001, 0x500, 0x12, 0, 0, 0, 0, 0xd0d)),
    ('h', Ipv4Addr::new(198, 97, 190, 53), Ipv6Addr::new(0x2001, 0x500, 1, 0, 0, 0, 0, 0x53)),
    ('i', Ipv4Addr::new(192, 36, 148, 17), Ipv6Addr::new(0x2001, 0x7fe, 0, 0, 0, 0, 0, 0x53)),
    ('j', Ipv4Addr::new(192, 58, 128, 30), Ipv6Addr::new(0x2001, 0x503, 0xc27, 0, 0, 0, 2, 0x30)),
    ('k', Ipv4Addr::new(193, 0, 14, 129), Ipv6Addr::new(0x2001, 0x7fd, 0, 0, 0, 0, 0, 1)),
    ('l', Ipv4Addr::new(199, 7, 83, 42), Ipv6Addr::new(0x2001, 0x500, 0x9f, 0, 0, 0, 0, 0x42)),
    ('m', Ipv4Addr::new(202, 12, 27, 33), Ipv6Addr::new(0x2001, 0xdc3, 0, 0, 0, 0, 0, 0x35)),
];

impl IterateRule {
    /// Resolves all names from the root servers, with priming (RFC 8109).
    pub fn root() -> Self {
        let server = |&(letter, v4, v6): &(char, Ipv4Addr, Ipv6Addr)| StartServer {
            name: format!("{letter}.root-servers.net.").parse().ok(),
            addresses: vec![(v4, 53).into(), (v6, 53).into()],
        };
        let servers = ROOT.iter().map(server).collect();
        IterateRule { domain: wire::NameBuf::ROOT, servers, prime: true, copy: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_thirteen_servers_with_two_addresses_each() {
        let rule = IterateRule::root();
        assert_eq!(rule.servers.len(), 13);
        assert!(rule.servers.iter().all(|server| server.name.is_some() && server.addresses.len() == 2));
        let mut all: Vec<_> = rule.servers.iter().flat_map(|server| &server.addresses).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 26);
    }
}
