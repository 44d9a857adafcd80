//! Headers of HTTP in which a proxy names the client of a request: `X-Forwarded-For`, and `Forwarded`
//! (RFC 7239). Pure functions read them; from which addresses they count is decided elsewhere.
//!
//! Each proxy adds the address that it received the request from at the end. What stands before the first
//! address that is not one of a known proxy, from the end, may come from the client itself, and is not read.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::ProxyHeaderFault;

/// Most addresses of proxies that are read in a header.
const MAX_HOPS: usize = 32;

/// A header in which proxies name clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`: addresses, separated by commas.
    XForwardedFor,
    /// `Forwarded` (RFC 7239): elements with the parameter `for`, separated by commas.
    Forwarded,
}

impl ForwardedHeader {
    /// Returns the name of the header, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        }
    }

    /// Returns the client that the header names: the last address that is not one of a proxy, or the first of
    /// all if each is. The port is 0 unless the header has one. `lines`: the values of the header's lines, in
    /// the order in which they stand in the request.
    ///
    /// # Errors
    /// [`ProxyHeaderFault::Missing`] without such an address, [`ProxyHeaderFault::NoAddress`] if a proxy
    /// does not know or hides it, [`ProxyHeaderFault::Malformed`] for what is no address, and
    /// [`ProxyHeaderFault::TooLong`] after 32 addresses of proxies.
    pub fn client<'l>(
        self,
        lines: impl DoubleEndedIterator<Item = &'l [u8]>,
        is_proxy: impl Fn(IpAddr) -> bool,
    ) -> Result<SocketAddr, ProxyHeaderFault> {
        let mut first = Err(ProxyHeaderFault::Missing);
        let mut hops = 0;
        for line in lines.rev() {
            let mut rest = Some(line);
            while let Some(list) = rest {
                let (before, element) = self.last_element(list);
                rest = before;
                // A list may have empty elements (RFC 9110 §5.6.1).
                if element.is_empty() {
                    continue;
                }
                let hop = self.hop(element)?;
                if !is_proxy(hop.ip()) {
                    return Ok(hop);
                }
                hops += 1;
                if hops == MAX_HOPS {
                    return Err(ProxyHeaderFault::TooLong);
                }
                first = Ok(hop);
            }
        }
        first
    }

    /// Splits the last element off a list: returns what stands before its comma, and the element.
    fn last_element(self, list: &[u8]) -> (Option<&[u8]>, &[u8]) {
        let comma = match self {
            ForwardedHeader::XForwardedFor => list.iter().rposition(|&byte| byte == b','),
            ForwardedHeader::Forwarded => last_outside_quotes(list, b','),
        };
        match comma {
            Some(at) => (Some(&list[..at]), list[at + 1..].trim_ascii()),
            None => (None, list.trim_ascii()),
        }
    }

    /// Reads one element.
    fn hop(self, element: &[u8]) -> Result<SocketAddr, ProxyHeaderFault> {
        match self {
            ForwardedHeader::XForwardedFor => node(element),
            ForwardedHeader::Forwarded => forwarded_for(element),
        }
    }
}

/// Returns where this byte stands last outside quoted strings (RFC 9110 §5.6.4).
fn last_outside_quotes(list: &[u8], wanted: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, &byte) in list.iter().enumerate().rev() {
        if byte == b'"' {
            let escapes = list[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
            is_quoted ^= escapes % 2 == 0;
        } else if byte == wanted && !is_quoted {
            return Some(at);
        }
    }
    None
}

/// Reads the parameter `for` of an element of `Forwarded` (RFC 7239 §4).
fn forwarded_for(element: &[u8]) -> Result<SocketAddr, ProxyHeaderFault> {
    let mut rest = Some(element);
    let mut found = Err(ProxyHeaderFault::NoAddress);
    while let Some(pairs) = rest {
        let semicolon = last_outside_quotes(pairs, b';');
        let (before, pair) = match semicolon {
            Some(at) => (Some(&pairs[..at]), &pairs[at + 1..]),
            None => (None, pairs),
        };
        rest = before;
        let pair = pair.trim_ascii();
        let equals = pair.iter().position(|&byte| byte == b'=').ok_or(ProxyHeaderFault::Malformed)?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        // Each parameter stands once in an element.
        if found != Err(ProxyHeaderFault::NoAddress) {
            return Err(ProxyHeaderFault::Malformed);
        }
        let value = match value.strip_prefix(b"\"") {
            // An address has nothing that is escaped.
            Some(quoted) => quoted.strip_suffix(b"\"").ok_or(ProxyHeaderFault::Malformed)?,
            None => value,
        };
        found = Ok(node(value)?);
    }
    found
}

/// Reads a node (RFC 7239 §6): an address, perhaps with a port. An IPv6 address needs brackets in `Forwarded`
/// but has none in `X-Forwarded-For`; both forms are read.
fn node(text: &[u8]) -> Result<SocketAddr, ProxyHeaderFault> {
    let text = str::from_utf8(text).map_err(|_| ProxyHeaderFault::Malformed)?;
    if text.eq_ignore_ascii_case("unknown") || text.starts_with('_') {
        return Err(ProxyHeaderFault::NoAddress);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip.to_canonical(), 0));
    }
    let (ip, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((ip, port)) => {
            let ip: Ipv6Addr = ip.parse().map_err(|_| ProxyHeaderFault::Malformed)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(ProxyHeaderFault::Malformed)?),
            };
            (IpAddr::V6(ip), port)
        }
        None => {
            let (ip, port) = text.split_once(':').ok_or(ProxyHeaderFault::Malformed)?;
            (IpAddr::V4(ip.parse().map_err(|_| ProxyHeaderFault::Malformed)?), Some(port))
        }
    };
    let port = match port {
        // A port may be hidden as well.
        None => 0,
        Some(hidden) if hidden.len() > 1 && hidden.starts_with('_') => 0,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().map_err(|_| ProxyHeaderFault::Malformed)?
        }
        Some(_) => return Err(ProxyHeaderFault::Malformed),
    };
    Ok(SocketAddr::new(ip.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Proxies are 10.0.0.0/8 and fd00::/8.
    fn is_proxy(ip: IpAddr) -> bool {
        match ip {
            IpAddr::V4(ip) => ip.octets()[0] == 10,
            IpAddr::V6(ip) => ip.octets()[0] == 0xfd,
        }
    }

    fn read(header: ForwardedHeader, lines: &[&str]) -> Result<String, ProxyHeaderFault> {
        header.client(lines.iter().map(|line| line.as_bytes()), is_proxy).map(|client| client.to_string())
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxys() {
        use ForwardedHeader::{Forwarded, XForwardedFor};
        for (header, lines, expected) in [
            (XForwardedFor, &["192.0.2.7"][..], "192.0.2.7:0"),
            (XForwardedFor, &["198.51.100.9, 192.0.2.7"], "192.0.2.7:0"),
            (XForwardedFor, &["198.51.100.9,192.0.2.7 , 10.0.0.1,10.0.0.2"], "192.0.2.7:0"),
            (XForwardedFor, &["192.0.2.7", "10.0.0.1"], "192.0.2.7:0"),
            (XForwardedFor, &["junk \u{7}, 192.0.2.7"], "192.0.2.7:0"),
            (XForwardedFor, &["junk", "192.0.2.7"], "192.0.2.7:0"),
            (XForwardedFor, &["192.0.2.7,, ", ""], "192.0.2.7:0"),
            (XForwardedFor, &["10.0.0.1, 10.0.0.2"], "10.0.0.1:0"),
            (XForwardedFor, &["192.0.2.7:4711"], "192.0.2.7:4711"),
            (XForwardedFor, &["2001:db8::7"], "[2001:db8::7]:0"),
            (XForwardedFor, &["[2001:db8::7]:53, fd00::1"], "[2001:db8::7]:53"),
            (XForwardedFor, &["::ffff:192.0.2.7"], "192.0.2.7:0"),
            // The examples of RFC 7239 §4, and an attempt of a client to name another one.
            (Forwarded, &["for=192.0.2.60;proto=http;by=203.0.113.43"], "192.0.2.60:0"),
            (Forwarded, &["For=\"[2001:db8:cafe::17]:4711\""], "[2001:db8:cafe::17]:4711"),
            (Forwarded, &["for=192.0.2.43, for=198.51.100.17"], "198.51.100.17:0"),
            (Forwarded, &["for=192.0.2.43", "for=10.0.0.1;host=\"a,b\\\",for=192.0.2.1\""], "192.0.2.43:0"),
            (Forwarded, &["for=\"10.0.0.9, for=192.0.2.1, for=192.0.2.43"], "192.0.2.43:0"),
            (Forwarded, &["for=\"192.0.2.43:_x\""], "192.0.2.43:0"),
            (Forwarded, &["proto=https; FOR=192.0.2.43 ;host=a"], "192.0.2.43:0"),
        ] {
            assert_eq!(read(header, lines).as_deref(), Ok(expected), "{lines:?}");
        }
    }

    #[test]
    fn a_header_without_a_client_is_a_fault() {
        use ForwardedHeader::{Forwarded, XForwardedFor};
        use ProxyHeaderFault::{Malformed, Missing, NoAddress, TooLong};
        let long = ["10.0.0.1"; 40].join(", ");
        for (header, lines, expected) in [
            (XForwardedFor, &[][..], Missing),
            (XForwardedFor, &["", " , "], Missing),
            (XForwardedFor, &["192.0.2.7, unknown"], NoAddress),
            (XForwardedFor, &["192.0.2.7, junk"], Malformed),
            (XForwardedFor, &["192.0.2.7, 10.0.0.256"], Malformed),
            (XForwardedFor, &["192.0.2.7:65536"], Malformed),
            (XForwardedFor, &["192.0.2.7:+5"], Malformed),
            (XForwardedFor, &["192.0.2.7:"], Malformed),
            (XForwardedFor, &["[192.0.2.7]:5"], Malformed),
            (XForwardedFor, &["[2001:db8::7]5"], Malformed),
            (XForwardedFor, &["[2001:db8::7"], Malformed),
            (XForwardedFor, &[&long], TooLong),
            (Forwarded, &["for=unknown"], NoAddress),
            (Forwarded, &["for=_hidden"], NoAddress),
            (Forwarded, &["by=192.0.2.1;proto=https"], NoAddress),
            (Forwarded, &["192.0.2.7"], Malformed),
            (Forwarded, &["for=192.0.2.7;for=192.0.2.8"], Malformed),
            (Forwarded, &["for=\"192.0.2.7"], Malformed),
            (Forwarded, &["for="], Malformed),
        ] {
            assert_eq!(read(header, lines), Err(expected), "{lines:?}");
        }
    }

    proptest! {
        /// What a client puts in front changes nothing: the address that the nearest proxy added counts.
        #[test]
        fn what_a_client_writes_is_not_read(
            before in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3),
            client in any::<[u8; 4]>(),
            hops in 0..4_usize,
            is_forwarded in any::<bool>(),
            in_one_line in any::<bool>(),
        ) {
            let client = IpAddr::from([192, client[1], client[2], client[3]]);
            let (header, name) = match is_forwarded {
                true => (ForwardedHeader::Forwarded, "for="),
                false => (ForwardedHeader::XForwardedFor, ""),
            };
            let mut added = format!("{name}{client}");
            for hop in 0..hops {
                added.push_str(&format!(", {name}10.0.0.{hop}"));
            }
            let mut lines = before;
            match lines.last_mut().filter(|_| in_one_line) {
                Some(last) => last.extend([b", ", added.as_bytes()].concat()),
                None => lines.push(added.into_bytes()),
            }
            let found = header.client(lines.iter().map(Vec::as_slice), is_proxy);
            prop_assert_eq!(found, Ok(SocketAddr::new(client, 0)));
        }

        /// Any bytes are a client that is no proxy, a proxy, or a fault, and never a panic.
        #[test]
        fn any_bytes_are_read(lines in prop::collection::vec("[for=\"\\\\,;.:0-9a-f\\[\\] _]{0,40}", 0..4)) {
            for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
                let _ = header.client(lines.iter().map(|line| line.as_bytes()), is_proxy);
            }
        }
    }
}
