//! Servers of forward and stub rules and of zones: an address, and for TLS how the server is authenticated.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use resolver::{Reach, Upstream};
use tls::client::{Authorities, ClientSettings, HostName, KeyPin, PinFault, ServerIdentity};
use toml::Spanned;
use toml::de::DeValue;
use transport::{Encryption, EncryptionFault};

use crate::addresses::{ServerAddress, ServerFault};
use crate::report::{ConfigPlace, Diagnostic};
use crate::table::read::{At, Reader};
use crate::table::value::{AddrPort, Value, quote};

/// Begins a pin. A name has no slash.
const PIN: &str = "sha256/";
/// Stands in the place of a name where any server is accepted.
const OPPORTUNISTIC: &str = "opportunistic";

/// Another server, written `ip`, `ip@port`, or for TLS `ip#identity` or `ip@port#identity`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Its address and port.
    pub address: AddrPort,
    /// How it is authenticated; `None`: it is queried in the clear.
    pub tls: Option<TlsServer>,
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
        }
    }
}

impl UpstreamServer {
    /// The default port of DNS over TLS (RFC 7858 §3.1).
    const TLS_PORT: u16 = 853;

    /// Returns the server at an address that is asked in the clear.
    pub fn in_clear(address: SocketAddr) -> Self {
        UpstreamServer { address: AddrPort(address), tls: None }
    }

    /// Parses the text of a server.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, UpstreamFault> {
        let Some((address, identity)) = text.split_once('#') else {
            let ServerAddress(address) = ServerAddress::parse(text).map_err(UpstreamFault::Address)?;
            return Ok(UpstreamServer { address, tls: None });
        };
        let ServerAddress(mut address) = ServerAddress::parse(address).map_err(UpstreamFault::Address)?;
        if !text.contains('@') {
            address.0.set_port(Self::TLS_PORT);
        }
        Ok(UpstreamServer { address, tls: Some(TlsServer::parse(identity)?) })
    }

    /// Returns whether it is queried over TLS.
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
        let reach = encryption.map_or_else(|| in_clear.clone(), Reach::Tls);
        Upstream { address: self.address.0, reach }
    }

    /// Returns the encryption of connections to it, with these settings; `None` in the clear.
    pub(crate) fn encryption(&self, settings: &ClientSettings) -> Option<Encryption> {
        self.tls.as_ref().map(|tls| tls.encryption(settings))
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

    fn encryption(&self, settings: &ClientSettings) -> Encryption {
        let TlsServer { name, pins, authorities } = self;
        let identity = match (name, authorities) {
            (None, _) if pins.is_empty() => ServerIdentity::Opportunistic,
            (None, _) => ServerIdentity::Authenticated { name: None, pins: pins.clone() },
            (Some(name), Some(authorities)) => {
                let name = Some((name.clone(), authorities.clone()));
                ServerIdentity::Authenticated { name, pins: pins.clone() }
            }
            (Some(_), None) => return self.nothing(),
        };
        tls::client::encryption(&identity, settings).unwrap_or_else(|_| self.nothing())
    }

    /// Returns an encryption that accepts no server: there is no authority for its name.
    fn nothing(&self) -> Encryption {
        let shown = self.to_string();
        Encryption::new(format!("{shown} by nothing"), shown, |_| Err(EncryptionFault::UnknownIssuer))
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
        self.address.fmt(f)?;
        self.tls.as_ref().map_or(Ok(()), |tls| write!(f, "#{tls}"))
    }
}

impl Value for UpstreamServer {
    fn kind() -> String {
        "server `ip`, `ip@port`, `ip#name` or `ip@port#name`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a server such as \"192.0.2.53\" or \"192.0.2.53#dns.example.net\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
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
            "queries of this rule go to {} in the clear, though its other servers are asked over TLS",
            server.value
        );
        Diagnostic::at(server.place.as_ref(), message)
    });
    let iterated = encrypted.and(first).map(|place| {
        let message = "with `forward-first`, queries go to other servers in the clear if none of these can \
                       be reached over TLS";
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
