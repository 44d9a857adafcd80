//! Discovery of the encrypted listeners by clients (DDR, RFC 9462): keys of `[resolver]`, and the service
//! that they and the listeners describe.

use std::net::IpAddr;

use recursion::LocalRecord;
use toml::Spanned;
use toml::de::DeValue;
use transport::Transport;
use wire::{Name, NameBuf};

use super::certificates::CertificateBlock;
use super::https::Https;
use super::listen::Listen;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};

/// The name whose SVCB records lead a client of an unencrypted resolver to encrypted ones (RFC 9462 §4).
pub const DISCOVERY_NAME: &str = "_dns.resolver.arpa.";
/// TTL of these records, in seconds: how long a client does not see that a listener was removed.
const DISCOVERY_TTL: u32 = 600;
/// Most addresses of each family in a record.
const MAX_HINTS: usize = 8;

keys! {
    /// Keys about the discovery of encrypted listeners.
    pub struct Discovery {
        /// Answer `_dns.resolver.arpa SVCB` with the listeners for TLS, QUIC and HTTPS, so that clients that
        /// know the address of this resolver find and use them (DDR, RFC 9462). Needs such a listener, and a
        /// name: `discovery-name`, or the first one in the first certificate, or else in `[acme]`. Records of
        /// `local-data` with this owner replace it.
        live "discovery" discovery: bool = true, example false;
        /// Name of this resolver, which its certificate has. Unset: the first name without a wildcard in the
        /// first certificate, or else the first of `[acme]`.
        live "discovery-name" name: Option<NameBuf> = None, example "dns.example.net";
        /// Addresses at which clients reach the encrypted listeners. Unset: those that the listeners have;
        /// of listeners at a wildcard address, clients get none, and look `discovery-name` up.
        live "discovery-addresses" addresses: Option<Vec<At<ServiceAddress>>> = None,
            example ["192.0.2.53", "2001:db8::53"];
    }
}

/// An address at which clients reach this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceAddress(IpAddr);

impl std::str::FromStr for ServiceAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: IpAddr = text.parse().map_err(|_| format!("`{text}` is not an IP address"))?;
        match address.is_unspecified() || address.is_multicast() {
            true => Err(format!("clients cannot reach `{text}`")),
            false => Ok(ServiceAddress(address)),
        }
    }
}

impl Value for ServiceAddress {
    fn kind() -> String {
        "IP address".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.53\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

/// The encrypted listeners, as clients discover them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedService {
    /// The name that clients expect in the certificate.
    pub name: NameBuf,
    /// The listeners, the preferred one first.
    pub endpoints: Vec<Endpoint>,
}

/// One port with an encrypted transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its transport.
    pub transport: Transport,
    /// Its port.
    pub port: u16,
    /// Addresses to reach it at; none if they are only known by the name.
    pub addresses: Vec<IpAddr>,
    /// The application protocol (RFC 9461 §4), and for HTTPS the path of the URL (RFC 9461 §5), in
    /// master-file text.
    protocol: String,
}

impl Endpoint {
    fn new(transport: Transport, port: u16, https: &Https) -> Option<Self> {
        let protocol = match transport {
            Transport::Tls => "alpn=dot".to_owned(),
            Transport::Quic => "alpn=doq".to_owned(),
            Transport::Https => format!("alpn=h2 dohpath=\"{}{{?dns}}\"", https.paths().first()?),
            Transport::H3 => format!("alpn=h3 dohpath=\"{}{{?dns}}\"", https.paths().first()?),
            Transport::Udp | Transport::Tcp | Transport::Http => return None,
        };
        Some(Endpoint { transport, port, addresses: Vec::new(), protocol })
    }

    /// Returns the parameters of its SVCB record in master-file text, without addresses.
    fn parameters(&self) -> String {
        format!("{} port={}", self.protocol, self.port)
    }

    /// Returns these parameters in wire form.
    pub fn svc_params(&self) -> Vec<u8> {
        let line = format!(". SVCB 1 . {}", self.parameters());
        // In front of them: priority and target.
        line.parse()
            .ok()
            .and_then(|record: LocalRecord| record.rdata.get(3..).map(<[u8]>::to_vec))
            .unwrap_or_default()
    }

    /// Returns its addresses as parameters of an SVCB record.
    fn hints(&self) -> String {
        let mut text = String::new();
        for (key, of_family) in
            [("ipv4hint", IpAddr::is_ipv4 as fn(&IpAddr) -> bool), ("ipv6hint", IpAddr::is_ipv6)]
        {
            let addresses = self.addresses.iter().filter(|address| of_family(address)).take(MAX_HINTS);
            let list: Vec<String> = addresses.map(IpAddr::to_string).collect();
            if !list.is_empty() {
                text.push_str(&format!(" {key}={}", list.join(",")));
            }
        }
        text
    }
}

impl EncryptedService {
    /// Returns the SVCB records of this owner, as lines of a master file.
    pub fn lines(&self, owner: &str) -> Vec<String> {
        let line = |(number, endpoint): (u16, &Endpoint)| {
            let (name, parameters, hints) = (&self.name, endpoint.parameters(), endpoint.hints());
            format!("{owner} {DISCOVERY_TTL} SVCB {number} {name} {parameters}{hints}")
        };
        (1..).zip(&self.endpoints).map(line).collect()
    }

    /// Returns the records of [`DISCOVERY_NAME`].
    pub(super) fn records(&self) -> Vec<LocalRecord> {
        self.lines(DISCOVERY_NAME).iter().filter_map(|line| line.parse().ok()).collect()
    }
}

/// Returns what clients discover; `None` without an encrypted listener or a name. `ordered`: the name of a
/// certificate that is ordered from a CA.
pub(super) fn service(
    keys: &Discovery,
    listens: &[At<Listen>],
    certificates: &[At<CertificateBlock>],
    ordered: Option<NameBuf>,
    https: &Https,
) -> Option<EncryptedService> {
    let name = keys.name.value.or_else(|| name_of(certificates)).or(ordered).filter(|_| *keys.discovery)?;
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for listen in listens {
        for transport in listen.proto.iter().map(|proto| proto.value) {
            for addr in listen.addr.iter().map(|addr| addr.value.0) {
                let Some(new) = Endpoint::new(transport, addr.port(), https) else { continue };
                let same = |other: &Endpoint| (other.transport, other.port) == (transport, addr.port());
                let known = endpoints.iter().position(same);
                let at = known.unwrap_or(endpoints.len());
                if known.is_none() {
                    endpoints.push(new);
                }
                if let Some(endpoint) = endpoints.get_mut(at).filter(|_| !addr.ip().is_unspecified()) {
                    endpoint.addresses.push(addr.ip());
                }
            }
        }
    }
    if let Some(addresses) = &keys.addresses.value {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.value.0).collect();
        endpoints.iter_mut().for_each(|endpoint| endpoint.addresses.clone_from(&addresses));
    }
    // What costs clients and server least comes first.
    endpoints.sort_by_key(|endpoint| match endpoint.transport {
        Transport::Tls => 0,
        Transport::Quic => 1,
        Transport::Https => 2,
        _ => 3,
    });
    (!endpoints.is_empty()).then_some(EncryptedService { name, endpoints })
}

/// Returns the first name in the first certificate that is no wildcard.
fn name_of(certificates: &[At<CertificateBlock>]) -> Option<NameBuf> {
    let first = super::certificates::of(certificates).into_iter().next()?;
    let names =
        first.names.iter().filter_map(|name| NameBuf::from_text(name.as_bytes(), Some(Name::ROOT)).ok());
    names.into_iter().find(|name| !name.as_name().is_wildcard() && !name.as_name().is_root())
}

/// Returns the warning about keys without effect.
pub(super) fn warning(keys: &Discovery, has_tls: bool) -> Option<Diagnostic> {
    let written = keys.name.place.as_ref().or(keys.addresses.place.as_ref());
    let text = match (*keys.discovery, has_tls) {
        (false, _) => "clients cannot discover the listeners: `discovery` is false",
        (true, false) => "there is no listener that clients can discover: `proto = [\"tls\"]` opens one",
        (true, true) => return None,
    };
    written.map(|place| Diagnostic::at(Some(place), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    const NAMED: &str = "[resolver]\ndiscovery-name = \"dns.example.net\"\n";

    fn settings(text: &str) -> Settings {
        crate::read_text("test", text.to_owned(), std::path::Path::new("/")).expect("good").config.settings
    }

    fn lines(text: &str) -> Vec<String> {
        let service = settings(text).encrypted_service();
        service.map(|service| service.lines(DISCOVERY_NAME)).unwrap_or_default()
    }

    fn listen(addresses: &str, proto: &str) -> String {
        format!("[[listen]]\naddr = [{addresses}]\nproto = [\"{proto}\"]\n")
    }

    #[test]
    fn clients_discover_each_encrypted_port_with_its_addresses() {
        let both = listen(r#""192.0.2.1@443", "[2001:db8::1]@443", "192.0.2.2@443""#, "https")
            + &listen(r#""0.0.0.0@853", "[::]@853""#, "tls")
            + &listen(r#""[::]@853""#, "quic")
            + &listen(r#""192.0.2.1@53""#, "udp");
        assert_eq!(
            lines(&format!("{both}{NAMED}")),
            [
                "_dns.resolver.arpa. 600 SVCB 1 dns.example.net. alpn=dot port=853",
                "_dns.resolver.arpa. 600 SVCB 2 dns.example.net. alpn=doq port=853",
                "_dns.resolver.arpa. 600 SVCB 3 dns.example.net. alpn=h2 dohpath=\"/dns-query{?dns}\" port=443 \
                 ipv4hint=192.0.2.1,192.0.2.2 ipv6hint=2001:db8::1",
            ]
        );
        let addresses = "discovery-addresses = [\"192.0.2.9\"]\n";
        let paths = "[server]\nhttps-paths = [\"/a;b\", \"/c\"]\n";
        assert_eq!(
            lines(&format!("{paths}{both}{NAMED}{addresses}")),
            [
                "_dns.resolver.arpa. 600 SVCB 1 dns.example.net. alpn=dot port=853 ipv4hint=192.0.2.9",
                "_dns.resolver.arpa. 600 SVCB 2 dns.example.net. alpn=doq port=853 ipv4hint=192.0.2.9",
                "_dns.resolver.arpa. 600 SVCB 3 dns.example.net. alpn=h2 dohpath=\"/a;b{?dns}\" port=443 \
                 ipv4hint=192.0.2.9",
            ]
        );
        let service = settings(&format!("{paths}{both}{NAMED}")).encrypted_service().expect("a service");
        assert_eq!(service.records().len(), 3, "every line is a record");
    }

    #[test]
    fn nothing_is_discovered_without_a_listener_or_a_name_or_if_it_is_off() {
        let tls = listen(r#""192.0.2.1@853""#, "tls");
        assert_eq!(lines(&format!("{tls}{NAMED}")).len(), 1);
        assert_eq!(lines(&format!("{tls}{NAMED}discovery = false\n")), [""; 0]);
        assert_eq!(lines(&format!("{tls}[resolver]\n")), [""; 0], "a self-signed certificate has no name");
        assert_eq!(lines(&listen(r#""192.0.2.1@53""#, "tcp")), [""; 0]);
        assert_eq!(lines(&tls), [""; 0], "it does not resolve");
    }

    #[test]
    fn keys_without_effect_are_warned_of() {
        let warning = |text: &str| {
            let found = settings(text).discovery_warning();
            found.map(|warning| warning.message).unwrap_or_default()
        };
        let tls = listen(r#""192.0.2.1@853""#, "tls");
        assert!(warning(NAMED).contains("no listener that clients can discover"));
        assert!(warning(&format!("{tls}{NAMED}discovery = false\n")).contains("`discovery` is false"));
        assert_eq!(warning(&format!("{tls}{NAMED}")), "");
        assert_eq!(warning("[resolver]\n"), "");
    }

    #[test]
    fn addresses_are_those_that_clients_can_reach() {
        let fault = |text: &str| text.parse::<ServiceAddress>().expect_err(text);
        assert!(fault("192.0.2.1@53").contains("not an IP address"));
        assert!(fault("0.0.0.0").contains("cannot reach"));
        assert!(fault("ff02::1").contains("cannot reach"));
    }
}
