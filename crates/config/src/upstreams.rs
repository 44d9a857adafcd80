//! Servers of forward and stub rules and of zones: an address, the protocol, and how the server is
//! authenticated if that is encrypted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use resolver::{Reach, Upstream};
use tls::client::{Authorities, ClientSettings, HostName, KeyPin, PinFault, ServerIdentity};
use tls::{AuthoritiesFault, HttpsUrl, HttpsUrlFault};
use toml::Spanned;
use toml::de::DeValue;
use transport::{Encryption, EncryptionFault, Transport};

use crate::addresses::{ServerAddress, ServerFault};
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::read::{At, Reader};
use crate::table::value::{AddrPort, Value, quote};

/// Begins a pin. A name has no slash.
const PIN: &str = "sha256/";
/// Stands in the place of a name where any server is accepted.
const OPPORTUNISTIC: &str = "opportunistic";

/// Separates a URL from the address of its host.
const ADDRESS: char = '@';
/// Begins a server over QUIC.
const QUIC: &str = "quic://";
/// Begins a server over HTTPS.
const HTTPS: &str = "https://";

/// Another server, written `ip`, `ip@port`, for TLS `ip#identity` or `ip@port#identity`, for HTTPS
/// `https://host/path@ip` and for QUIC `quic://host@ip`, the last two with or without `#identity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Its address and port.
    pub address: AddrPort,
    /// How it is authenticated; `None`: it is queried in the clear.
    pub tls: Option<TlsServer>,
    /// What is spoken over TLS, if anything else than DNS.
    over: Over,
}

/// How an encrypted server is queried.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Over {
    /// DNS over TLS, or in the clear.
    Dns,
    /// DNS over HTTPS, at this URL.
    Https(HttpsUrl),
    /// DNS over QUIC. The name or address of the host, as written.
    Quic(String),
}

/// How a server is authenticated over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsServer {
    /// The name in its certificate.
    name: Option<HostName>,
    /// Its key is one of these, if there are any.
    pins: Vec<KeyPin>,
    /// The CA certificates that verify the name; `None` until the files are read.
    authorities: Option<Authorities>,
}

/// What is wrong with the text of an [`UpstreamServer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamFault {
    /// The fault of any server's address.
    Address(ServerFault),
    /// Nothing stands after the `#`, or between two commas.
    NoIdentity,
    /// It is not the name or the address of a host.
    BadName(String),
    /// There are two names.
    SecondName(String),
    /// It is not a pin.
    BadPin(String, PinFault),
    /// A pin is named twice.
    SecondPin(KeyPin),
    /// There is something beside `opportunistic`.
    NotAlone,
    /// It begins with another scheme than those of HTTPS and QUIC.
    Scheme(String),
    /// It is not the URL of DNS over HTTPS.
    BadUrl(String, HttpsUrlFault),
    /// It is not the host of a server over QUIC.
    BadHost(String),
    /// It has a host with a name, and no address for it; the text without the identity.
    NoAddress(String),
    /// This is not the address of the host.
    BadAddress(String),
    /// Any server would be accepted over HTTPS.
    OpportunisticHttps,
    /// A zone cannot come from a server over HTTPS or QUIC.
    OnlyTls,
}

impl fmt::Display for UpstreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(fault) => fault.fmt(f),
            Self::NoIdentity => write!(
                f,
                "after `#` comes the server's name, a pin `{PIN}…` of its key, or `{OPPORTUNISTIC}`"
            ),
            Self::BadName(name) => write!(f, "`{name}` cannot be the name in a certificate"),
            Self::SecondName(name) => write!(f, "a server has one name, and `{name}` is the second"),
            Self::BadPin(pin, fault) => write!(f, "`{pin}` is not the pin of a key: {fault}"),
            Self::SecondPin(pin) => write!(f, "the pin `{PIN}{pin}` is named twice"),
            Self::NotAlone => {
                write!(f, "`{OPPORTUNISTIC}` accepts any server, so there can be no name or pin beside it")
            }
            Self::Scheme(scheme) => write!(
                f,
                "`{scheme}` is not supported; write `192.0.2.53` for UDP and TCP, \
                 `192.0.2.53#dns.example.net` for TLS, `{HTTPS}dns.example.net/dns-query@192.0.2.53` for \
                 HTTPS, `{QUIC}dns.example.net@192.0.2.53` for QUIC"
            ),
            Self::BadUrl(url, fault) => write!(f, "`{url}`: {fault}"),
            Self::BadHost(host) => {
                write!(f, "`{host}` is not a host, such as dns.example.net or dns.example.net:8853")
            }
            Self::NoAddress(text) => {
                write!(f, "the host has a name; write its address behind it: `{text}{ADDRESS}192.0.2.53`")
            }
            Self::BadAddress(text) => write!(
                f,
                "`{text}` is not the address of the host; the port is written behind the host's name"
            ),
            Self::OpportunisticHttps => write!(
                f,
                "a server over HTTPS is authenticated (RFC 8484); `{OPPORTUNISTIC}` is for TLS and QUIC"
            ),
            Self::OnlyTls => {
                f.write_str("servers of a zone are asked over TCP or TLS: `192.0.2.53#ns1.example.net`")
            }
        }
    }
}

impl UpstreamServer {
    /// The default port of DNS over TLS (RFC 7858 §3.1) and over QUIC (RFC 9250 §4.1.1).
    const TLS_PORT: u16 = 853;

    /// Returns the server at an address that is asked in the clear.
    pub fn in_clear(address: SocketAddr) -> Self {
        UpstreamServer { address: AddrPort(address), tls: None, over: Over::Dns }
    }

    /// Parses the text of a server.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UpstreamFault> {
        if let Some((scheme, _)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => Self::parse_https(text),
                "quic" => Self::parse_quic(text),
                _ => Err(UpstreamFault::Scheme(format!("{scheme}://"))),
            };
        }
        let Some((address, identity)) = text.split_once('#') else {
            let ServerAddress(address) = ServerAddress::parse(text).map_err(UpstreamFault::Address)?;
            return Ok(UpstreamServer { address, tls: None, over: Over::Dns });
        };
        let ServerAddress(mut address) = ServerAddress::parse(address).map_err(UpstreamFault::Address)?;
        if !text.contains('@') {
            address.0.set_port(Self::TLS_PORT);
        }
        Ok(UpstreamServer { address, tls: Some(TlsServer::parse(identity)?), over: Over::Dns })
    }

    /// Parses a server over HTTPS.
    fn parse_https(text: &str) -> Result<Self, UpstreamFault> {
        let (place, identity) = split_identity(text);
        let (url, address) = split_address(place);
        let (_, rest) = url.split_at(HTTPS.len());
        let url: HttpsUrl =
            format!("{HTTPS}{rest}").parse().map_err(|fault| UpstreamFault::BadUrl(url.to_owned(), fault))?;
        let address = host_address(place, url.address(), address)?;
        let tls = TlsServer::parse(identity.unwrap_or(url.host()))?;
        if tls.is_opportunistic() {
            return Err(UpstreamFault::OpportunisticHttps);
        }
        let address = AddrPort(SocketAddr::new(address, url.port()));
        Ok(UpstreamServer { address, tls: Some(tls), over: Over::Https(url) })
    }

    /// Parses a server over QUIC.
    fn parse_quic(text: &str) -> Result<Self, UpstreamFault> {
        let (place, identity) = split_identity(text);
        let (url, address) = split_address(place);
        let (_, authority) = url.split_at(QUIC.len());
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let fault = || UpstreamFault::BadHost(authority.to_owned());
        let (host, port) = match authority.rsplit_once(':') {
            // An address in brackets has colons of its own.
            Some((host, port)) if !port.contains(']') => (host, port.parse().map_err(|_| fault())?),
            _ => (authority, Self::TLS_PORT),
        };
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let host: HostName = bare.parse().map_err(|_| fault())?;
        let host = host.to_string();
        if port == 0 {
            return Err(fault());
        }
        let address = host_address(place, host.parse().ok(), address)?;
        let tls = TlsServer::parse(identity.unwrap_or(&host))?;
        let address = AddrPort(SocketAddr::new(address, port));
        Ok(UpstreamServer { address, tls: Some(tls), over: Over::Quic(host) })
    }

    /// Returns an error for a server that zones cannot come from.
    ///
    /// # Errors
    /// It is one over HTTPS or QUIC.
    pub(crate) fn with_zones(self) -> Result<Self, UpstreamFault> {
        if self.over == Over::Dns { Ok(self) } else { Err(UpstreamFault::OnlyTls) }
    }

    /// Returns whether it is queried over TLS, HTTPS or QUIC.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether it is authenticated by its name.
    pub fn is_named(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.name.is_some())
    }

    /// Returns how it is queried; `in_clear` if not over TLS.
    pub(crate) fn upstream(&self, in_clear: &Reach) -> Upstream {
        let encryption = self.encryption(&ClientSettings::default());
        let reach = encryption.map_or_else(|| in_clear.clone(), Reach::Encrypted);
        Upstream { address: self.address.0, reach }
    }

    /// Returns the encryption of connections to it, with these settings; `None` in the clear.
    pub(crate) fn encryption(&self, settings: &ClientSettings) -> Option<Encryption> {
        let tls = self.tls.as_ref()?;
        let made = tls.identity().and_then(|identity| {
            let made = match &self.over {
                Over::Dns => tls::client::encryption(&identity, settings),
                Over::Https(url) => tls::over_https(&identity, url),
                Over::Quic(_) => tls::over_quic(&identity, settings),
            };
            made.ok()
        });
        Some(made.unwrap_or_else(|| self.nothing()))
    }

    /// Returns an encryption that accepts no server: there is no authority for its name.
    fn nothing(&self) -> Encryption {
        let shown = self.tls.as_ref().map(ToString::to_string).unwrap_or_default();
        let described = format!("{shown} by nothing");
        let transport = match &self.over {
            Over::Dns => {
                return Encryption::new(described, shown, |_| Err(EncryptionFault::UnknownIssuer));
            }
            Over::Https(_) => Transport::Https,
            Over::Quic(_) => Transport::Quic,
        };
        Encryption::streamed(transport, described, shown, |_, _| Err(EncryptionFault::UnknownIssuer))
    }

    /// Sets the CA certificates that verify its name, if it has one.
    pub(crate) fn set_authorities(&mut self, authorities: &Authorities) {
        if let Some(tls) = self.tls.as_mut().filter(|tls| tls.name.is_some()) {
            tls.authorities = Some(authorities.clone());
        }
    }
}

impl TlsServer {
    fn parse(text: &str) -> Result<Self, UpstreamFault> {
        let mut server = TlsServer { name: None, pins: Vec::new(), authorities: None };
        if text == OPPORTUNISTIC {
            return Ok(server);
        }
        for part in text.split(',').map(str::trim) {
            if part.is_empty() {
                return Err(UpstreamFault::NoIdentity);
            } else if part == OPPORTUNISTIC {
                return Err(UpstreamFault::NotAlone);
            } else if let Some(pin) = part.strip_prefix(PIN) {
                let pin = pin.parse().map_err(|fault| UpstreamFault::BadPin(part.to_owned(), fault))?;
                if server.pins.contains(&pin) {
                    return Err(UpstreamFault::SecondPin(pin));
                }
                server.pins.push(pin);
            } else {
                let name = part.parse().map_err(|_| UpstreamFault::BadName(part.to_owned()))?;
                if server.name.replace(name).is_some() {
                    return Err(UpstreamFault::SecondName(part.to_owned()));
                }
            }
        }
        Ok(server)
    }

    /// Whether any server is accepted.
    fn is_opportunistic(&self) -> bool {
        self.name.is_none() && self.pins.is_empty()
    }

    /// Returns how the server is authenticated; `None` if there is no authority for its name.
    fn identity(&self) -> Option<ServerIdentity> {
        let TlsServer { name, pins, authorities } = self;
        match (name, authorities) {
            (None, _) if pins.is_empty() => Some(ServerIdentity::Opportunistic),
            (None, _) => Some(ServerIdentity::Authenticated { name: None, pins: pins.clone() }),
            (Some(name), Some(authorities)) => {
                let name = Some((name.clone(), authorities.clone()));
                Some(ServerIdentity::Authenticated { name, pins: pins.clone() })
            }
            (Some(_), None) => None,
        }
    }
}

/// Splits the identity from what stands before it.
fn split_identity(text: &str) -> (&str, Option<&str>) {
    text.split_once('#').map_or((text, None), |(place, identity)| (place, Some(identity)))
}

/// Splits the address of a URL's host from the URL. In a URL, `@` may also follow a user.
fn split_address(place: &str) -> (&str, Option<&str>) {
    match place.rsplit_once(ADDRESS) {
        Some((url, address)) if !address.contains('/') => (url, Some(address)),
        _ => (place, None),
    }
}

/// Returns the address of a host: the one that is written behind the URL, or in it.
fn host_address(place: &str, of_url: Option<IpAddr>, written: Option<&str>) -> Result<IpAddr, UpstreamFault> {
    let Some(written) = written else {
        let ip = of_url.ok_or_else(|| UpstreamFault::NoAddress(place.to_owned()))?;
        let shown = ip.to_string();
        return Ok(ServerAddress::parse(&shown).map_err(UpstreamFault::Address)?.0.0.ip());
    };
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(written);
    match bare.parse::<IpAddr>() {
        Ok(_) => Ok(ServerAddress::parse(bare).map_err(UpstreamFault::Address)?.0.0.ip()),
        Err(_) => Err(UpstreamFault::BadAddress(written.to_owned())),
    }
}

impl fmt::Display for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.iter().map(ToString::to_string);
        let all: Vec<String> = name.chain(self.pins.iter().map(|pin| format!("{PIN}{pin}"))).collect();
        f.write_str(if all.is_empty() { OPPORTUNISTIC } else { "" })?;
        f.write_str(&all.join(","))
    }
}

impl fmt::Display for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ip, port) = (self.address.0.ip(), self.address.0.port());
        let host = match &self.over {
            Over::Dns => {
                self.address.fmt(f)?;
                return self.tls.as_ref().map_or(Ok(()), |tls| write!(f, "#{tls}"));
            }
            Over::Https(url) => {
                url.fmt(f)?;
                url.host()
            }
            Over::Quic(host) => {
                f.write_str(QUIC)?;
                match host.contains(':') {
                    true => write!(f, "[{host}]")?,
                    false => f.write_str(host)?,
                }
                if port != Self::TLS_PORT {
                    write!(f, ":{port}")?;
                }
                host
            }
        };
        if host.parse() != Ok(ip) {
            write!(f, "{ADDRESS}{ip}")?;
        }
        let identity = self.tls.as_ref().map(ToString::to_string).filter(|identity| identity != host);
        identity.map_or(Ok(()), |identity| write!(f, "#{identity}"))
    }
}

impl Value for UpstreamServer {
    fn kind() -> String {
        "server `ip`, `ip@port`, `ip#name`, `ip@port#name`, `https://host/path@ip` or `quic://host@ip`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a server such as \"192.0.2.53\" or \"192.0.2.53#dns.example.net\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// Why servers of a rule cannot be used.
#[derive(Debug)]
pub enum RuleServersFault {
    /// What is wrong with the text of one.
    Text(String, UpstreamFault),
    /// The CA certificates of the system cannot be read.
    Authorities(AuthoritiesFault),
}

impl fmt::Display for RuleServersFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text, fault) => write!(f, "`{text}`: {fault}"),
            Self::Authorities(fault) => fault.fmt(f),
        }
    }
}

/// Returns the servers of a rule, of which those with a name are verified by the CA certificates of the
/// system.
///
/// # Errors
/// A text is not a server, or the certificates cannot be read.
pub fn rule_servers(texts: &[String]) -> Result<Vec<Upstream>, RuleServersFault> {
    let parse = |text: &String| {
        UpstreamServer::parse(text).map_err(|fault| RuleServersFault::Text(text.clone(), fault))
    };
    let mut servers = texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    if servers.iter().any(UpstreamServer::is_named) {
        let roots = tls::authorities(None).map_err(RuleServersFault::Authorities)?;
        let authorities = Authorities::new(roots);
        servers.iter_mut().for_each(|server| server.set_authorities(&authorities));
    }
    Ok(servers.iter().map(|server| server.upstream(&Reach::UdpThenTcp)).collect())
}

/// Reads the authorities of a rule's servers: those of its `ca-file`, or of the system.
pub(crate) fn read_authorities(
    servers: &mut [At<UpstreamServer>],
    file: &At<Option<PathBuf>>,
    faults: &mut Vec<Diagnostic>,
) {
    let Some(named) = servers.iter().find(|server| server.value.is_named()) else { return };
    let place = file.place.as_ref().or(named.place.as_ref());
    match tls::authorities(file.value.as_deref()) {
        Ok(roots) => {
            let authorities = Authorities::new(roots);
            servers.iter_mut().for_each(|server| server.value.set_authorities(&authorities));
        }
        Err(fault) => faults.push(Diagnostic::at(place, fault.to_string()).outside()),
    }
}

/// Reports a file of authorities that authenticate none of these servers.
pub(crate) fn check_authorities<'s>(
    mut servers: impl Iterator<Item = &'s UpstreamServer>,
    file: &At<Option<PathBuf>>,
    faults: &mut Vec<Diagnostic>,
) {
    if file.value.is_some() && !servers.any(UpstreamServer::is_named) {
        let fault = Diagnostic::at(file.place.as_ref(), "`ca-file` has no effect: no server has a name");
        faults.push(fault.hint("write the name in the server's certificate: \"192.0.2.53#dns.example.net\""));
    }
}

/// Returns a warning for a rule whose queries are sent in the clear as well as over TLS.
pub(crate) fn in_clear(
    servers: &[At<UpstreamServer>],
    first: Option<&ConfigPlace>,
) -> impl Iterator<Item = Diagnostic> {
    let encrypted = servers.iter().find(|server| server.value.is_encrypted());
    let plain = servers.iter().find(|server| !server.value.is_encrypted());
    let mixed = encrypted.and(plain).map(|server| {
        let message = format!(
            "queries of this rule go to {} in the clear, though those to other servers are encrypted",
            server.value
        );
        Diagnostic::at(server.place.as_ref(), message)
    });
    let iterated = encrypted.and(first).map(|place| {
        let message = "with `forward-first`, queries go to other servers in the clear if none of these can \
                       be reached by an encrypted connection";
        Diagnostic::at(Some(place), message)
    });
    mixed.into_iter().chain(iterated)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN_TEXT: &str = "sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn a_server_is_written_as_it_is_read_with_the_port_of_its_transport() {
        for (text, shown) in [
            ("192.0.2.53", "192.0.2.53@53"),
            ("192.0.2.53@5353", "192.0.2.53@5353"),
            ("192.0.2.53#dns.example.net", "192.0.2.53@853#dns.example.net"),
            ("192.0.2.53#DNS.example.net.", "192.0.2.53@853#dns.example.net"),
            ("2001:db8::53@8853#dns.example.net", "[2001:db8::53]@8853#dns.example.net"),
            ("[2001:db8::53]#192.0.2.53", "[2001:db8::53]@853#192.0.2.53"),
            ("192.0.2.53#opportunistic", "192.0.2.53@853#opportunistic"),
        ] {
            let server = UpstreamServer::parse(text).expect(text);
            assert_eq!(server.to_string(), shown);
            assert_eq!(UpstreamServer::parse(shown).as_ref(), Ok(&server), "{shown}");
        }
        let both = format!("192.0.2.53@853#dns.example.net,{PIN_TEXT}");
        assert_eq!(UpstreamServer::parse(&both).expect("a server").to_string(), both);
    }

    #[test]
    fn a_server_over_https_or_quic_is_a_url_with_the_address_of_its_host() {
        for (text, shown, address) in [
            ("https://dns.example/dns-query@192.0.2.53", "", "192.0.2.53:443"),
            ("https://dns.example@192.0.2.53", "https://dns.example/dns-query@192.0.2.53", "192.0.2.53:443"),
            (
                "HTTPS://DNS.example:8443/q@[2001:db8::1]",
                "https://dns.example:8443/q@2001:db8::1",
                "[2001:db8::1]:8443",
            ),
            ("https://192.0.2.53/dns-query", "", "192.0.2.53:443"),
            ("https://[2001:db8::1]/q", "", "[2001:db8::1]:443"),
            ("https://dns.example/dns-query@192.0.2.53#other.example", "", "192.0.2.53:443"),
            ("https://dns.example/a@b/c@192.0.2.53", "", "192.0.2.53:443"),
            ("quic://dns.example@192.0.2.53", "", "192.0.2.53:853"),
            ("quic://DNS.example.:8853/@192.0.2.53", "", "192.0.2.53:8853"),
            ("quic://[2001:db8::1]", "", "[2001:db8::1]:853"),
            ("quic://[2001:db8::1]:54#opportunistic", "", "[2001:db8::1]:54"),
            ("quic://192.0.2.53#dns.example", "", "192.0.2.53:853"),
        ] {
            let server = UpstreamServer::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            let lower = text.replace("DNS.example.:8853/", "dns.example:8853");
            assert_eq!(server.to_string(), if shown.is_empty() { &lower } else { shown });
            assert_eq!(server.address.0, address.parse().expect("an address"), "{text}");
            assert_eq!(UpstreamServer::parse(&server.to_string()), Ok(server), "{text}");
        }
        let pinned = format!("https://dns.example/q@192.0.2.53#{PIN_TEXT}");
        let server = UpstreamServer::parse(&pinned).expect("a server");
        assert!(server.is_encrypted() && !server.is_named() && server.to_string() == pinned);
    }

    #[test]
    fn what_is_no_server_over_https_or_quic_is_refused_with_its_fault() {
        let fault = |text: &str| UpstreamServer::parse(text).expect_err(text);
        let without = |text: &str| UpstreamFault::NoAddress(text.to_owned());
        assert_eq!(fault("https://dns.example/q"), without("https://dns.example/q"));
        assert_eq!(fault("quic://dns.example#dns.example"), without("quic://dns.example"));
        assert_eq!(fault("https://192.0.2.1#opportunistic"), UpstreamFault::OpportunisticHttps);
        for (text, scheme) in
            [("tls://dns.example", "tls"), ("h3://a@192.0.2.1", "h3"), ("sdns://AQ", "sdns")]
        {
            assert_eq!(fault(text), UpstreamFault::Scheme(format!("{scheme}://")));
        }
        for text in ["https://dns.example/q@192.0.2.53@443", "https://dns.example/q@192.0.2.53:443"] {
            assert!(matches!(fault(text), UpstreamFault::BadAddress(_)), "{text}");
        }
        for text in ["https://@192.0.2.1", "https://a b@192.0.2.1", "https://dns.example:0/@192.0.2.1"] {
            assert!(matches!(fault(text), UpstreamFault::BadUrl(..)), "{text}");
        }
        for text in
            ["quic://@192.0.2.1", "quic://a..b@192.0.2.1", "quic://a/b@192.0.2.1", "quic://a:0@192.0.2.1"]
        {
            assert!(matches!(fault(text), UpstreamFault::BadHost(_)), "{text}");
        }
        assert!(matches!(fault("quic://0.0.0.0"), UpstreamFault::Address(ServerFault::NoServer(_))));
        assert_eq!(fault("quic://a.example@192.0.2.1#"), UpstreamFault::NoIdentity);
    }

    #[test]
    fn every_wrong_identity_is_refused_with_its_fault() {
        let fault =
            |identity: &str| UpstreamServer::parse(&format!("192.0.2.53#{identity}")).expect_err(identity);
        assert_eq!(fault(""), UpstreamFault::NoIdentity);
        assert_eq!(fault("dns.example,"), UpstreamFault::NoIdentity);
        assert_eq!(fault("a..b"), UpstreamFault::BadName("a..b".into()));
        assert_eq!(fault("dns example"), UpstreamFault::BadName("dns example".into()));
        assert_eq!(fault("a.example,b.example"), UpstreamFault::SecondName("b.example".into()));
        assert_eq!(fault("dns.example,opportunistic"), UpstreamFault::NotAlone);
        assert_eq!(fault("sha256/AAAA"), UpstreamFault::BadPin("sha256/AAAA".into(), PinFault::Length(3)));
        assert_eq!(fault("sha256/?"), UpstreamFault::BadPin("sha256/?".into(), PinFault::NoBase64));
        let twice = format!("{PIN_TEXT},{PIN_TEXT}");
        assert!(matches!(fault(&twice), UpstreamFault::SecondPin(_)));
        assert!(matches!(UpstreamServer::parse("name#dns.example"), Err(UpstreamFault::Address(_))));
    }
}
