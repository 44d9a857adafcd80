//! Servers as AdGuard Home and Pi-hole name them.

use std::net::IpAddr;

use crate::work::{domain, server, with_port};

/// The path of DNS over HTTPS where a URL has none.
const PATH: &str = "/dns-query";

/// Addresses of public resolvers by the names in their certificates. nomen resolves no names of servers, and
/// these addresses are what the resolvers are known by.
const PUBLIC: &[(&str, [[u8; 4]; 2])] = &[
    ("dns.quad9.net", [[9, 9, 9, 9], [149, 112, 112, 112]]),
    ("dns10.quad9.net", [[9, 9, 9, 10], [149, 112, 112, 10]]),
    ("dns11.quad9.net", [[9, 9, 9, 11], [149, 112, 112, 11]]),
    ("cloudflare-dns.com", [[1, 1, 1, 1], [1, 0, 0, 1]]),
    ("one.one.one.one", [[1, 1, 1, 1], [1, 0, 0, 1]]),
    ("security.cloudflare-dns.com", [[1, 1, 1, 2], [1, 0, 0, 2]]),
    ("family.cloudflare-dns.com", [[1, 1, 1, 3], [1, 0, 0, 3]]),
    ("dns.google", [[8, 8, 8, 8], [8, 8, 4, 4]]),
    ("dns.adguard-dns.com", [[94, 140, 14, 14], [94, 140, 15, 15]]),
    ("family.adguard-dns.com", [[94, 140, 14, 15], [94, 140, 15, 16]]),
    ("unfiltered.adguard-dns.com", [[94, 140, 14, 140], [94, 140, 14, 141]]),
];

/// A server that is queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// By its address, over UDP or over TCP alone.
    Plain { server: String, tcp: bool },
    /// Over TLS, HTTPS or QUIC.
    Encrypted {
        /// It, with each of its addresses.
        servers: Vec<String>,
        /// What differs, if anything does.
        differs: Option<&'static str>,
    },
    /// Over TLS, HTTPS or QUIC, by a name whose address is not known.
    Named,
    /// By DNSCrypt.
    Other,
    /// By a name, or not understood.
    Unknown,
}

impl Upstream {
    /// Why a server is left out.
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::Other => {
                "nomen asks over UDP, TCP, TLS, HTTPS and QUIC alone; the server is left out, so that nothing goes \
                 to it in the clear"
            }
            Self::Named => {
                "nomen needs the address of a server: write it behind the URL, \
                 `https://dns.example.net/dns-query@192.0.2.53` or `quic://dns.example.net@192.0.2.53`, or before \
                 the name, `192.0.2.53#dns.example.net`; the server is left out"
            }
            _ => "nomen takes servers by their addresses; the server is left out",
        }
    }
}

/// Parses `[udp://|tcp://]ADDRESS[:PORT]`, with an IPv6 address before a port in brackets, `ADDRESS#PORT`, or
/// an encrypted server, `tls://`, `https://`, `h3://` or `quic://` before `HOST[:PORT][/PATH]`.
pub(crate) fn parse(text: &str) -> Upstream {
    let (scheme, rest) = text.trim().split_once("://").unwrap_or(("udp", text.trim()));
    match scheme {
        "udp" | "tcp" => {}
        "tls" | "https" | "h3" | "quic" => return encrypted(scheme, rest),
        "sdns" => return Upstream::Other,
        _ => return Upstream::Unknown,
    }
    let (address, port) = match rest.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => (address, Some(port.trim_start_matches([':', '#']))),
            None => return Upstream::Unknown,
        },
        None => match rest.split_once('#') {
            Some((address, port)) => (address, Some(port)),
            None if rest.matches(':').count() == 1 => {
                rest.split_once(':').map_or((rest, None), |(address, port)| (address, Some(port)))
            }
            None => (rest, None),
        },
    };
    match server(address, port) {
        Some(server) => Upstream::Plain { server, tcp: scheme == "tcp" },
        None => Upstream::Unknown,
    }
}

/// Parses `HOST[:PORT][/PATH]` of an encrypted server.
fn encrypted(scheme: &str, text: &str) -> Upstream {
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    let (host, port) = match authority.rsplit_once(':') {
        // An address in brackets has colons of its own.
        Some((host, port)) if !port.contains(']') => match port.parse::<u16>() {
            Ok(0) | Err(_) => return Upstream::Unknown,
            Ok(port) => (host, Some(port)),
        },
        _ => (authority, None),
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    let name = bare.to_ascii_lowercase();
    let (addresses, by_name): (Vec<IpAddr>, bool) = match bare.parse::<IpAddr>() {
        Ok(ip) if server(bare, None).is_some() => (vec![ip], false),
        Ok(_) => return Upstream::Unknown,
        Err(_) => match PUBLIC.iter().find(|(public, _)| *public == name) {
            Some((_, addresses)) => (addresses.map(IpAddr::from).to_vec(), true),
            None if domain(&name).is_some() => return Upstream::Named,
            None => return Upstream::Unknown,
        },
    };
    let port_text = port.map(|port| format!(":{port}")).unwrap_or_default();
    let written = |ip: &IpAddr| {
        let at = if by_name { format!("@{ip}") } else { String::new() };
        match scheme {
            "tls" => format!("{}#{name}", with_port(*ip, port.unwrap_or(853))),
            "quic" => format!("quic://{host}{port_text}{at}"),
            _ => format!("https://{host}{port_text}{}{at}", if path.len() > 1 { path } else { PATH }),
        }
    };
    let differs = match (scheme, by_name) {
        ("h3", _) => Some("nomen asks over HTTP/2, where AdGuard Home asks over HTTP/3"),
        (_, true) => Some("the addresses of its host are written down, and not looked up from time to time"),
        (_, false) => None,
    };
    Upstream::Encrypted { servers: addresses.iter().map(written).collect(), differs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_with_ports() {
        let plain = |server: &str, tcp| Upstream::Plain { server: server.into(), tcp };
        let tls = |server: &str| Upstream::Encrypted { servers: vec![server.into()], differs: None };
        for (text, found) in [
            ("192.0.2.1", plain("192.0.2.1", false)),
            ("192.0.2.1:5353", plain("192.0.2.1@5353", false)),
            ("192.0.2.1#5353", plain("192.0.2.1@5353", false)),
            ("udp://192.0.2.1:53", plain("192.0.2.1", false)),
            ("tcp://[2001:db8::1]:54", plain("[2001:db8::1]@54", true)),
            ("2001:db8::1", plain("2001:db8::1", false)),
            ("2001:db8::1#53", plain("2001:db8::1", false)),
            ("tls://192.0.2.1", tls("192.0.2.1@853#192.0.2.1")),
            ("tls://192.0.2.1:53", tls("192.0.2.1@53#192.0.2.1")),
            ("tls://[2001:db8::1]:54", tls("[2001:db8::1]@54#2001:db8::1")),
            ("tls://dns.example", Upstream::Named),
            ("https://dns.example/dns-query", Upstream::Named),
            ("https://192.0.2.1", tls("https://192.0.2.1/dns-query")),
            ("https://[2001:db8::1]:8443/q", tls("https://[2001:db8::1]:8443/q")),
            ("quic://192.0.2.1:8853", tls("quic://192.0.2.1:8853")),
            ("quic://0.0.0.0", Upstream::Unknown),
            ("quic://192.0.2.1:0", Upstream::Unknown),
            ("quic://a..b", Upstream::Unknown),
            ("sdns://AQMAAA", Upstream::Other),
            ("dns.example", Upstream::Unknown),
            ("[2001:db8::1", Upstream::Unknown),
            ("192.0.2.1:0", Upstream::Unknown),
        ] {
            assert_eq!(parse(text), found, "{text}");
        }
    }

    #[test]
    fn public_resolvers_have_their_addresses() {
        for (text, first) in [
            ("https://dns10.quad9.net/dns-query", "https://dns10.quad9.net/dns-query@9.9.9.10"),
            ("tls://DNS.google", "8.8.8.8@853#dns.google"),
            ("quic://dns.adguard-dns.com:784", "quic://dns.adguard-dns.com:784@94.140.14.14"),
            ("h3://cloudflare-dns.com", "https://cloudflare-dns.com/dns-query@1.1.1.1"),
        ] {
            let Upstream::Encrypted { servers, differs } = parse(text) else { panic!("{text}") };
            assert_eq!((servers.len(), servers[0].as_str(), differs.is_some()), (2, first, true), "{text}");
        }
    }
}
