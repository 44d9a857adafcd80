//! Servers as AdGuard Home and Pi-hole name them.

use crate::work::{server, server_over_tls};

/// A server that is queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upstream {
    /// By its address, over UDP or over TCP alone.
    Plain { server: String, tcp: bool },
    /// By its address, over TLS; its certificate has the address.
    Tls { server: String },
    /// Over HTTPS, QUIC or DNSCrypt.
    Other,
    /// By a name, or not understood.
    Unknown,
}

impl Upstream {
    /// Why a server is left out.
    pub(crate) fn why(&self) -> &'static str {
        match self {
            Self::Other => {
                "nomen asks over UDP, TCP and TLS alone; the server is left out, so that nothing goes to it in \
                 the clear"
            }
            _ => "nomen takes servers by their addresses; the server is left out",
        }
    }
}

/// Parses `[udp://|tcp://|tls://]ADDRESS[:PORT]`, with an IPv6 address before a port in brackets, or
/// `ADDRESS#PORT`.
pub(crate) fn parse(text: &str) -> Upstream {
    let (scheme, rest) = text.trim().split_once("://").unwrap_or(("udp", text.trim()));
    match scheme {
        "udp" | "tcp" | "tls" => {}
        "https" | "h3" | "quic" | "sdns" => return Upstream::Other,
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
    if scheme == "tls" {
        let server = server_over_tls(&format!("{address}@{}#{address}", port.unwrap_or("853")));
        return server.map_or(Upstream::Unknown, |server| Upstream::Tls { server });
    }
    match server(address, port) {
        Some(server) => Upstream::Plain { server, tcp: scheme == "tcp" },
        None => Upstream::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_with_ports() {
        let plain = |server: &str, tcp| Upstream::Plain { server: server.into(), tcp };
        let tls = |server: &str| Upstream::Tls { server: server.into() };
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
            ("tls://dns.example", Upstream::Unknown),
            ("https://dns.example/dns-query", Upstream::Other),
            ("dns.example", Upstream::Unknown),
            ("[2001:db8::1", Upstream::Unknown),
            ("192.0.2.1:0", Upstream::Unknown),
        ] {
            assert_eq!(parse(text), found, "{text}");
        }
    }
}
