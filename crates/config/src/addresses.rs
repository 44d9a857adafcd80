//! Addresses of other servers, the source addresses of queries to them, and addresses of this server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use query_path::access::LocalAddress;
use toml::Spanned;
use toml::de::DeValue;

use super::report::Diagnostic;
use super::table::read::{At, Reader};
use super::table::value::{AddrPort, AddrPortFault, Value, quote};

/// The address of another server, and its port if that is not 53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerAddress(pub AddrPort);

/// What is wrong with the text of a [`ServerAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerFault {
    /// The fault of any address with a port.
    AddrPort(AddrPortFault),
    /// No server has this address.
    NoServer(IpAddr),
}

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddrPort(fault) => fault.fmt(f),
            Self::NoServer(ip) => write!(f, "{ip} is not the address of one server"),
        }
    }
}

impl ServerAddress {
    /// The default port.
    const PORT: u16 = 53;

    /// Parses `ip` or `ip@port`. IPv4 mapped into IPv6 is IPv4.
    pub fn parse(text: &str) -> Result<Self, ServerFault> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let addr = match bare.parse() {
            Ok(ip) => SocketAddr::new(ip, Self::PORT),
            // If the port is separated by another character than `@`, the fault is about the port.
            Err(_) if text.contains('@') || text.parse::<SocketAddr>().is_ok() => {
                AddrPort::parse(text).map_err(ServerFault::AddrPort)?.0
            }
            Err(_) => return Err(ServerFault::AddrPort(AddrPortFault::NoAddress(text.to_owned()))),
        };
        let ip = addr.ip().to_canonical();
        if ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
            return Err(ServerFault::NoServer(ip));
        }
        Ok(Self(AddrPort(SocketAddr::new(ip, addr.port()))))
    }
}

impl Value for ServerAddress {
    fn kind() -> String {
        "address `ip` or `ip@port`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.53\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

/// A source address of packets on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAddress(pub IpAddr);

/// What is wrong with a [`SourceAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceFault {
    /// The text is not an address.
    NoAddress(String),
    /// No packet can come from this address.
    NoHost(IpAddr),
}

impl fmt::Display for SourceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(text) => write!(f, "`{text}` is no address such as 192.0.2.2 or 2001:db8::2"),
            Self::NoHost(address) => write!(f, "{address} is not the address of a host"),
        }
    }
}

impl std::str::FromStr for SourceAddress {
    type Err = SourceFault;

    fn from_str(text: &str) -> Result<Self, SourceFault> {
        let address: IpAddr = text.parse().map_err(|_| SourceFault::NoAddress(text.to_owned()))?;
        let is_host = !address.is_unspecified() && !address.is_multicast();
        if is_host { Ok(Self(address)) } else { Err(SourceFault::NoHost(address)) }
    }
}

impl Value for SourceAddress {
    fn kind() -> String {
        "address".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.2\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

/// The address of this server in a condition `on:ADDRESS` or `on:ADDRESS@PORT` on queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OnAddress(pub LocalAddress);

/// What is wrong with the text of an [`OnAddress`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnFault(pub String);

impl fmt::Display for OnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(f, "`{text}` is not an address of this server; write `on:192.0.2.53` or `on:192.0.2.53@5353`")
    }
}

impl std::error::Error for OnFault {}

impl OnAddress {
    /// What a condition begins with.
    pub const PREFIX: &str = "on:";
}

impl std::str::FromStr for OnAddress {
    type Err = OnFault;

    /// Parses `ADDRESS` or `ADDRESS@PORT`.
    fn from_str(text: &str) -> Result<Self, OnFault> {
        let fault = || OnFault(text.to_owned());
        let local = match text.contains('@') {
            true => {
                let AddrPort(local) = AddrPort::parse(text).map_err(|_| fault())?;
                LocalAddress { address: local.ip(), port: Some(local.port()) }
            }
            false => text.parse::<IpAddr>().map_err(|_| fault())?.into(),
        };
        if local.address.is_unspecified() { Err(fault()) } else { Ok(OnAddress(local)) }
    }
}

impl fmt::Display for OnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OnAddress(LocalAddress { address, port }) = *self;
        match port {
            None => address.fmt(f),
            Some(port) => AddrPort(SocketAddr::new(address, port)).fmt(f),
        }
    }
}

/// Reports two source addresses of one family.
pub(super) fn check_sources(source: &At<Option<Vec<At<SourceAddress>>>>, faults: &mut Vec<Diagnostic>) {
    let all = || source.value.iter().flatten();
    if [true, false].iter().any(|v4| all().filter(|source| source.value.0.is_ipv4() == *v4).count() > 1) {
        let message = "`source` has two addresses of one family";
        faults.push(Diagnostic::at(source.place.as_ref(), message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_the_address_of_a_host() {
        let source = |text: &str| text.parse::<SourceAddress>().map(|source| source.0.to_string());
        assert_eq!(source("2001:DB8::2"), Ok("2001:db8::2".to_owned()));
        assert_eq!(source("192.0.2.2@53"), Err(SourceFault::NoAddress("192.0.2.2@53".to_owned())));
        for text in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            assert!(matches!(source(text), Err(SourceFault::NoHost(_))), "{text}");
        }
    }
}
