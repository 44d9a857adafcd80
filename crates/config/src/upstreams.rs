//! Servers of forward and stub rules and of zones: an address, the protocol, and how the server is
//! authenticated if that is encrypted.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use resolver::{Reach, Upstream};
use tls::client::{Authorities, ClientSettings, HostName, KeyPin, PinFault, ServerIdentity};
use tls::{
    AuthoritiesFault, HttpsUrl, HttpsUrlFault, ObliviousConfig, ObliviousConfigsFault, TargetKeySource,
};
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
/// Begins a target of Oblivious DoH.
const ODOH: &str = "odoh://";
/// Separates the target, and its configurations if it has any, from its proxy.
const PROXY: &str = "proxy=";
/// Begins the configurations of a target.
const CONFIGS: &str = "configs=";

/// Another server, written `ip`, `ip@port`, for TLS `ip#identity` or `ip@port#identity`, for HTTPS
/// `https://host/path@ip`, for QUIC `quic://host@ip`, and for Oblivious DoH
/// `odoh://target/path@ip?proxy=https://host/path@ip`, the last three with or without `#identity`.
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
    /// Oblivious DoH.
    Oblivious(Box<ObliviousServer>),
}

/// A target of Oblivious DoH and its proxy, whose address is that of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ObliviousServer {
    target: HttpsUrl,
    key: ObliviousServerKey,
    proxy: HttpsUrl,
}

/// Where the key of a target comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ObliviousServerKey {
    /// It is written in the configuration.
    Written(ObliviousConfig),
    /// The target at this address has it, which is authenticated so.
    Target(IpAddr, TlsServer),
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
    /// A target of Oblivious DoH has no proxy.
    NoProxy,
    /// The proxy of a target has a fault.
    BadProxy(Box<UpstreamFault>),
    /// The text behind a target is not its configurations.
    BadTargetKey(String),
    /// The configurations of a target cannot be used.
    BadConfigs(ObliviousConfigsFault),
    /// A target has a name, and neither an address nor configurations; the text of the target.
    NoTargetKey(String),
    /// A target has an address and configurations.
    TwoTargetKeys,
    /// A zone cannot come from a server over HTTPS or QUIC, or by Oblivious DoH.
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
                 HTTPS, `{QUIC}dns.example.net@192.0.2.53` for QUIC, \
                 `{ODOH}dns.example.net/dns-query@192.0.2.53?{PROXY}{HTTPS}proxy.example/dns-query@198.51.100.1` \
                 for Oblivious DoH"
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
            Self::NoProxy => write!(
                f,
                "the target of Oblivious DoH has no proxy; write it behind the target: \
                 `?{PROXY}{HTTPS}proxy.example/dns-query@198.51.100.1`"
            ),
            Self::BadProxy(fault) => write!(f, "the proxy behind `{PROXY}`: {fault}"),
            Self::BadTargetKey(text) => {
                write!(
                    f,
                    "`{text}` stands in the place of the target's configurations, `{CONFIGS}` and base64"
                )
            }
            Self::BadConfigs(fault) => write!(f, "the target's configurations behind `{CONFIGS}`: {fault}"),
            Self::NoTargetKey(text) => write!(
                f,
                "the target's key is not known; write the address it is fetched from, \
                 `{text}{ADDRESS}192.0.2.53`, or the target's configurations in base64, `{text}?{CONFIGS}…`"
            ),
            Self::TwoTargetKeys => {
                write!(f, "with `{CONFIGS}` the target's key is not fetched: leave out its address")
            }
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
                "odoh" => Self::parse_oblivious(text),
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

    /// Parses a target of Oblivious DoH and its proxy.
    fn parse_oblivious(text: &str) -> Result<Self, UpstreamFault> {
        let (_, rest) = text.split_at(ODOH.len());
        let (place, parameters) = rest.split_once('?').ok_or(UpstreamFault::NoProxy)?;
        // The proxy is the last parameter, since it has the same characters as the whole.
        let (configs, proxy) = match parameters.strip_prefix(PROXY) {
            Some(proxy) => (None, proxy),
            None => {
                let (configs, proxy) = parameters.split_once('&').ok_or(UpstreamFault::NoProxy)?;
                (Some(configs), proxy.strip_prefix(PROXY).ok_or(UpstreamFault::NoProxy)?)
            }
        };
        let (target, address) = split_address(place);
        let url = format!("{HTTPS}{target}");
        let target: HttpsUrl =
            url.parse().map_err(|fault| UpstreamFault::BadUrl(format!("{ODOH}{target}"), fault))?;
        let key = ObliviousServerKey::parse(place, &target, address, configs)?;
        let of_proxy = |fault| UpstreamFault::BadProxy(Box::new(fault));
        let server = match proxy.get(..HTTPS.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(HTTPS)) {
            true => Self::parse_https(proxy).map_err(of_proxy)?,
            false => return Err(of_proxy(UpstreamFault::BadUrl(proxy.to_owned(), HttpsUrlFault::NoUrl))),
        };
        let Over::Https(proxy) = server.over else { return Err(UpstreamFault::NoProxy) };
        let unusable = |fault| of_proxy(UpstreamFault::BadUrl(proxy.to_string(), fault));
        proxy.to_target(&target).map_err(unusable)?;
        let over = Over::Oblivious(Box::new(ObliviousServer { target, key, proxy }));
        Ok(UpstreamServer { over, ..server })
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
    /// It is one over HTTPS or QUIC, or by Oblivious DoH.
    pub(crate) fn with_zones(self) -> Result<Self, UpstreamFault> {
        if self.over == Over::Dns { Ok(self) } else { Err(UpstreamFault::OnlyTls) }
    }

    /// Returns whether it is queried over TLS, HTTPS or QUIC, or by Oblivious DoH.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether it, or the target behind it, is authenticated by its name.
    pub fn is_named(&self) -> bool {
        let is_named = |tls: &TlsServer| tls.name.is_some();
        self.tls.as_ref().is_some_and(is_named) || self.target_tls().is_some_and(is_named)
    }

    /// Returns how the target that it is a proxy of is authenticated, if its key is fetched.
    fn target_tls(&self) -> Option<&TlsServer> {
        match &self.over {
            Over::Oblivious(oblivious) => match &oblivious.key {
                ObliviousServerKey::Target(_, tls) => Some(tls),
                ObliviousServerKey::Written(_) => None,
            },
            Over::Dns | Over::Https(_) | Over::Quic(_) => None,
        }
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
                Over::Oblivious(oblivious) => {
                    let source = oblivious.key.source(oblivious.target.port())?;
                    tls::over_oblivious_https(&identity, &oblivious.proxy, &oblivious.target, &source)
                }
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
            Over::Https(_) | Over::Oblivious(_) => Transport::Https,
            Over::Quic(_) => Transport::Quic,
        };
        Encryption::streamed(transport, described, shown, |_, _| Err(EncryptionFault::UnknownIssuer))
    }

    /// Sets the CA certificates that verify its name and that of the target behind it, if they have one.
    pub(crate) fn set_authorities(&mut self, authorities: &Authorities) {
        let target = match &mut self.over {
            Over::Oblivious(oblivious) => match &mut oblivious.key {
                ObliviousServerKey::Target(_, tls) => Some(tls),
                ObliviousServerKey::Written(_) => None,
            },
            Over::Dns | Over::Https(_) | Over::Quic(_) => None,
        };
        for tls in self.tls.iter_mut().chain(target).filter(|tls| tls.name.is_some()) {
            tls.authorities = Some(authorities.clone());
        }
    }
}

impl ObliviousServerKey {
    /// Parses where the key of a target comes from: the address behind the target, or the configurations.
    fn parse(
        place: &str,
        target: &HttpsUrl,
        address: Option<&str>,
        configs: Option<&str>,
    ) -> Result<Self, UpstreamFault> {
        match (configs, address) {
            (Some(_), Some(_)) => Err(UpstreamFault::TwoTargetKeys),
            (Some(text), None) => {
                let bad = || UpstreamFault::BadTargetKey(text.to_owned());
                let configs = text.strip_prefix(CONFIGS).ok_or_else(bad)?;
                configs.parse().map(ObliviousServerKey::Written).map_err(UpstreamFault::BadConfigs)
            }
            (None, None) if target.address().is_none() => {
                Err(UpstreamFault::NoTargetKey(format!("{ODOH}{place}")))
            }
            (None, _) => {
                let address = host_address(place, target.address(), address)?;
                Ok(ObliviousServerKey::Target(address, TlsServer::parse(target.host())?))
            }
        }
    }

    /// Returns where the key comes from, for the port of the target; `None` if there is no authority for its
    /// name.
    fn source(&self, port: u16) -> Option<TargetKeySource> {
        Some(match self {
            ObliviousServerKey::Written(config) => TargetKeySource::Configured(config.clone()),
            ObliviousServerKey::Target(ip, tls) => {
                TargetKeySource::Fetched(SocketAddr::new(*ip, port), tls.identity()?)
            }
        })
    }
}

impl fmt::Display for ObliviousServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObliviousServer { target, key, proxy } = self;
        write!(f, "{ODOH}{}", target.without_scheme())?;
        match key {
            ObliviousServerKey::Written(configs) => write!(f, "?{CONFIGS}{configs}&")?,
            ObliviousServerKey::Target(ip, _) if target.address() == Some(*ip) => f.write_str("?")?,
            ObliviousServerKey::Target(ip, _) => write!(f, "{ADDRESS}{ip}?")?,
        }
        write!(f, "{PROXY}{proxy}")
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
            Over::Oblivious(oblivious) => {
                oblivious.fmt(f)?;
                oblivious.proxy.host()
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
        "server `ip`, `ip@port`, `ip#name`, `ip@port#name`, `https://host/path@ip`, `quic://host@ip` or \
         `odoh://target/path@ip?proxy=https://host/path@ip`"
            .into()
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

    const CONFIGS_TEXT: &str = "ACwAAQAoACAAAQABACABAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==";

    #[test]
    fn a_target_of_oblivious_doh_stands_before_its_proxy() {
        let configs = format!("odoh://dns.example/q?configs={CONFIGS_TEXT}&proxy=https://192.0.2.1/p");
        for (text, shown, address) in [
            ("odoh://dns.example/q@192.0.2.53?proxy=https://proxy.example/p@192.0.2.1", "", "192.0.2.1:443"),
            (
                "ODOH://DNS.example:8443@[2001:db8::1]?proxy=HTTPS://proxy.example:8443@[2001:db8::2]",
                "odoh://dns.example:8443/dns-query@2001:db8::1?proxy=https://proxy.example:8443/dns-query@2001:db8::2",
                "[2001:db8::2]:8443",
            ),
            (
                "odoh://192.0.2.53/q?proxy=https://proxy.example/p?a=b&c=d@192.0.2.1#other.example",
                "",
                "192.0.2.1:443",
            ),
            (
                "odoh://dns.example/q@192.0.2.53?proxy=https://proxy.example/{targethost}/{targetpath}@192.0.2.1",
                "",
                "192.0.2.1:443",
            ),
            (
                "odoh://dns.example/q@192.0.2.53?proxy=https://proxy.example/p{?targethost,targetpath}@192.0.2.1",
                "odoh://dns.example/q@192.0.2.53?proxy=https://proxy.example/p@192.0.2.1",
                "192.0.2.1:443",
            ),
            (&configs, "", "192.0.2.1:443"),
        ] {
            let server = UpstreamServer::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(server.to_string(), if shown.is_empty() { text } else { shown });
            assert_eq!(server.address.0, address.parse().expect("an address"), "{text}");
            assert_eq!(UpstreamServer::parse(&server.to_string()), Ok(server.clone()), "{text}");
            assert!(server.is_encrypted() && server.with_zones() == Err(UpstreamFault::OnlyTls));
        }
        let named = |text: &str| UpstreamServer::parse(text).expect(text).is_named();
        assert!(named(&configs));
        let pinned = format!("{configs}#{PIN_TEXT}");
        assert!(!named(&pinned), "no name has to be verified");
        assert!(named(&pinned.replace(&format!("?configs={CONFIGS_TEXT}&"), "@192.0.2.53?")), "the target's");
    }

    #[test]
    fn a_target_without_a_proxy_or_a_key_is_refused_with_its_fault() {
        let proxy = "proxy=https://proxy.example/p@192.0.2.1";
        let fault = |text: &str| UpstreamServer::parse(text).expect_err(text);
        for text in ["odoh://dns.example/q", "odoh://dns.example@192.0.2.1?a=b", "odoh://a@192.0.2.1?a&b=c"] {
            assert_eq!(fault(text), UpstreamFault::NoProxy, "{text}");
        }
        let without = UpstreamFault::NoTargetKey("odoh://dns.example/q".into());
        assert_eq!(fault(&format!("odoh://dns.example/q?{proxy}")), without);
        let other = UpstreamFault::BadTargetKey("key=AA==".into());
        assert_eq!(fault(&format!("odoh://dns.example/q?key=AA==&{proxy}")), other);
        for (configs, expected) in [
            ("?", ObliviousConfigsFault::NoBase64),
            ("AAAA", ObliviousConfigsFault::Malformed),
            ("AAcAAgADAQID", ObliviousConfigsFault::Unsupported),
        ] {
            let text = format!("odoh://dns.example/q?configs={configs}&{proxy}");
            assert_eq!(fault(&text), UpstreamFault::BadConfigs(expected), "{configs}");
        }
        let both = format!("odoh://dns.example/q@192.0.2.53?configs={CONFIGS_TEXT}&{proxy}");
        assert_eq!(fault(&both), UpstreamFault::TwoTargetKeys);
        for url in ["", "user@dns.example/q", "dns.example:0/q"] {
            let text = format!("odoh://{url}@192.0.2.53?{proxy}");
            assert!(matches!(fault(&text), UpstreamFault::BadUrl(..)), "{text}");
        }
        for (proxy, expected) in [
            ("https://proxy.example/p", UpstreamFault::NoAddress("https://proxy.example/p".into())),
            ("http://192.0.2.1/p", UpstreamFault::BadUrl("http://192.0.2.1/p".into(), HttpsUrlFault::NoUrl)),
            ("https://192.0.2.1/p#opportunistic", UpstreamFault::OpportunisticHttps),
            (
                "https://192.0.2.1/{targetpath}",
                UpstreamFault::BadUrl("https://192.0.2.1/{targetpath}".into(), HttpsUrlFault::Template),
            ),
        ] {
            let text = format!("odoh://dns.example/q@192.0.2.53?proxy={proxy}");
            assert_eq!(fault(&text), UpstreamFault::BadProxy(Box::new(expected)), "{proxy}");
        }
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
