//! `[acme]`: a certificate of TLS listeners that the server orders from a CA and renews by itself. `issuing`
//! of `serving` does that.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;
use url::Url;
use wire::{Name, NameBuf};

use super::listen::Listen;
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The port that a CA connects to (RFC 8737 §3).
const CHALLENGE_PORT: u16 = 443;
/// Most names of one certificate; Let's Encrypt allows as many.
const MAX_NAMES: usize = 100;

keys! {
    /// A certificate of listeners with TLS that nomen orders from a CA by ACME (RFC 8555), and renews when a
    /// third of its lifetime is left. The section's presence turns it on. The CA connects to port 443 of each
    /// name (challenge tls-alpn-01, RFC 8737), where a listener with `proto` "https" or "tls" must be. The
    /// account and the certificate are stored in `state-dir` of `[server]`. The certificate is used after
    /// those of `[[certificate]]`; until there is one, nomen uses a self-signed one.
    /// [CERTIFICATES.md](CERTIFICATES.md) explains it.
    pub struct AcmeSection in "[acme]" {
        /// Host names of this server, all in one certificate: at most 100. A change orders a new certificate;
        /// the one before stays in use until then.
        live "names" names: Vec<At<CertificateName>>, example ["dns.example.net"];
        /// Whether you accept the terms of service of the CA; it must be `true`.
        live "accept-terms" accept_terms: bool = false, example true;
        /// URL of the directory of the CA. Unset: that of Let's Encrypt.
        live "directory" directory: DirectoryUrl = DirectoryUrl::default(),
            example "https://acme-staging-v02.api.letsencrypt.org/directory";
        /// Addresses of the account's owner that the CA may write to. Unset: none.
        live "contact" contact: Option<Vec<At<ContactAddress>>> = None, example ["mailto:dns@example.net"];
        /// PEM file of the CA certificates that the directory's server is verified with, in place of those of
        /// the system: for a CA of your own.
        live "ca-file" ca_file: Option<PathBuf> = None, example "/etc/ssl/company-ca.pem";
    }
}

/// The name of a host, in lower case, for a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateName(pub String);

/// Why a text is no name that a certificate can be ordered for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CertificateNameFault {
    Wildcard(String),
    Address(String),
    Syntax(String),
}

impl fmt::Display for CertificateNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wildcard(name) => write!(
                f,
                "`{name}` is a wildcard: CAs issue it only after the challenge dns-01, which nomen does not \
                 support; use [[certificate]] with another ACME client"
            ),
            Self::Address(text) => write!(f, "`{text}` is an address: only host names are supported"),
            Self::Syntax(text) => write!(
                f,
                "`{text}` is not the full name of a host, such as `dns.example.net`: letters, digits and hyphens, \
                 with a dot"
            ),
        }
    }
}

impl CertificateName {
    fn parse(text: &str) -> Result<Self, CertificateNameFault> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.starts_with("*.") {
            return Err(CertificateNameFault::Wildcard(text.to_owned()));
        }
        if text.parse::<std::net::IpAddr>().is_ok() {
            return Err(CertificateNameFault::Address(text.to_owned()));
        }
        // RFC 1123 §2.1.
        let is_label = |label: &str| {
            let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
        };
        let is_host = name.contains('.') && name.split('.').all(is_label) && name.parse::<NameBuf>().is_ok();
        if is_host { Ok(CertificateName(name)) } else { Err(CertificateNameFault::Syntax(text.to_owned())) }
    }
}

impl Value for CertificateName {
    fn kind() -> String {
        "host name".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a host name such as \"dns.example.net\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// The URL of a CA's directory (RFC 8555 §7.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryUrl(pub Url);

impl Default for DirectoryUrl {
    fn default() -> Self {
        DirectoryUrl(Url::parse(LETS_ENCRYPT).expect("a URL"))
    }
}

impl DirectoryUrl {
    fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|fault| format!("`{text}` is not a URL: {fault}"))?;
        match (url.scheme(), url.username(), url.password()) {
            ("https", "", None) if url.has_host() => Ok(DirectoryUrl(url)),
            ("https", ..) => Err("a user name or password in the URL is not supported".to_owned()),
            // RFC 8555 §6.1.
            (scheme, ..) => Err(format!("`{scheme}` is not a scheme that ACME can have, use https")),
        }
    }
}

impl Value for DirectoryUrl {
    fn kind() -> String {
        "URL".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a URL such as \"https://ca.example.net/acme/directory\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(self.0.as_str()))
    }
}

/// A URL that the CA reaches the owner of an account by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactAddress(pub String);

impl ContactAddress {
    fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("mailto:") {
            Some(address) if address.contains('@') && !address.contains(char::is_whitespace) => {
                Ok(ContactAddress(text.to_owned()))
            }
            None if text.contains('@') => Err(format!("a contact is a URL: write \"mailto:{text}\"")),
            _ => Err(format!("`{text}` is not a contact, such as \"mailto:dns@example.net\"")),
        }
    }
}

impl Value for ContactAddress {
    fn kind() -> String {
        "URL".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a URL such as \"mailto:dns@example.net\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

/// What the section asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCertificate {
    /// The names in lower case.
    pub names: BTreeSet<String>,
    /// The directory of the CA.
    pub directory: Url,
    /// How the CA reaches the owner of the account.
    pub contacts: Vec<String>,
    /// PEM file of the CA certificates that the directory's server is verified with.
    pub ca_file: Option<PathBuf>,
}

impl AcmeSection {
    /// Returns what the section asks for.
    pub fn wanted(&self) -> WantedCertificate {
        WantedCertificate {
            names: self.names.value.iter().map(|name| name.value.0.clone()).collect(),
            directory: self.directory.value.0.clone(),
            contacts: self.contact.iter().flatten().map(|contact| contact.value.0.clone()).collect(),
            ca_file: self.ca_file.value.clone(),
        }
    }

    /// Returns the first name.
    pub(super) fn first_name(&self) -> Option<NameBuf> {
        let first = &self.names.value.first()?.value.0;
        NameBuf::from_text(first.as_bytes(), Some(Name::ROOT)).ok()
    }

    /// Reports what an order needs and lacks. `has_state`: there is a state folder.
    pub(super) fn check(section: &At<Self>, has_state: bool, faults: &mut Vec<Diagnostic>) {
        if !section.accept_terms.value {
            let place = section.accept_terms.place.as_ref().or(section.place.as_ref());
            let fault = Diagnostic::at(place, "the terms of service of the CA are not accepted");
            faults
                .push(fault.hint("read them at the CA's site; `accept-terms = true` in [acme] accepts them"));
        }
        let names = &section.names;
        if names.value.is_empty() && names.place.is_some() {
            faults.push(Diagnostic::at(names.place.as_ref(), "the list is empty"));
        }
        if names.value.len() > MAX_NAMES {
            let text = format!("more than {MAX_NAMES} names are not possible in one certificate");
            faults.push(Diagnostic::at(names.place.as_ref(), text));
        }
        let mut seen = BTreeSet::new();
        for name in &names.value {
            if !seen.insert(&name.value) {
                let text = format!("the name `{}` is here twice", name.value.0);
                faults.push(Diagnostic::at(name.place.as_ref(), text));
            }
        }
        if !has_state {
            let fault =
                Diagnostic::at(section.place.as_ref(), "[acme] needs a folder to store certificates in");
            faults.push(fault.hint("set `state-dir` in [server]"));
        }
    }

    /// Returns the warning about listeners that the section lacks.
    pub(super) fn warning(section: &At<Self>, listens: &[At<Listen>]) -> Option<Diagnostic> {
        let at = |text: &str| Diagnostic::at(section.place.as_ref(), text);
        let mut secured = listens.iter().filter(|listen| listen.has_tls()).peekable();
        if secured.peek().is_none() {
            let hint = "`proto = [\"tls\"]` or `[\"https\"]` in [[listen]] opens one";
            return Some(at("no listener uses the certificate of [acme], so none is ordered").hint(hint));
        }
        let mut ports = secured.flat_map(|listen| listen.addr.iter().map(|addr| addr.value.0.port()));
        let is_reached = ports.any(|port| port == CHALLENGE_PORT);
        let hint = "add one of `proto` \"https\" at port 443, or forward that port to a listener with TLS";
        (!is_reached)
            .then(|| at("the CA of [acme] connects to port 443, where no listener has TLS").hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(more: &str) -> Result<crate::Settings, String> {
        let text = format!("[server]\nstate-dir = \"/state\"\n{more}");
        match crate::read_text("test", text, Path::new("/")) {
            Ok(read) => Ok(read.config.settings),
            Err(rejected) => Err(rejected.to_string()),
        }
    }

    #[test]
    fn names_are_those_of_hosts() {
        for (text, expected) in [
            ("DNS.Example.Net.", Ok("dns.example.net")),
            ("a-1.xn--bcher-kva.example", Ok("a-1.xn--bcher-kva.example")),
            ("*.example.net", Err("is a wildcard")),
            ("192.0.2.1", Err("is an address")),
            ("2001:db8::1", Err("is an address")),
            ("localhost", Err("is not the full name of a host")),
            ("a_b.example", Err("is not the full name of a host")),
            ("-a.example", Err("is not the full name of a host")),
            ("a..example", Err("is not the full name of a host")),
            ("", Err("is not the full name of a host")),
        ] {
            match (CertificateName::parse(text), expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name.0, expected),
                (Err(fault), Err(expected)) => assert!(fault.to_string().contains(expected), "{fault}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
        assert!(CertificateName::parse(&format!("{}.example", "a".repeat(64))).is_err());
    }

    #[test]
    fn what_an_order_lacks_is_reported() {
        let good = "[acme]\naccept-terms = true\nnames = [\"a.example\"]\n";
        let wanted = read(good).expect("good").acme.expect("a section").wanted();
        assert_eq!(wanted.directory.as_str(), LETS_ENCRYPT);
        for (text, expected) in [
            ("[acme]\nnames = [\"a.example\"]\n", "the terms of service of the CA are not accepted"),
            ("[acme]\naccept-terms = true\n", "[acme] needs the key `names`"),
            ("[acme]\naccept-terms = true\nnames = []\n", "the list is empty"),
            (
                "[acme]\naccept-terms = true\nnames = [\"a.example\", \"A.example\"]\n",
                "the name `a.example` is here twice",
            ),
            (&format!("{good}directory = \"http://ca.example/\"\n"), "`http` is not a scheme"),
            (&format!("{good}directory = \"https://me@ca.example/\"\n"), "a user name or password"),
            (&format!("{good}contact = [\"me@a.example\"]\n"), "write \"mailto:me@a.example\""),
        ] {
            let fault = read(text).expect_err(expected);
            assert!(fault.contains(expected), "{fault}");
        }
        let stateless = crate::read_text("test", good.to_owned(), Path::new("/"));
        if crate::Storage::default().folder().is_none() {
            let fault = stateless.expect_err("no state").to_string();
            assert!(fault.contains("set `state-dir` in [server]"), "{fault}");
        }
    }

    #[test]
    fn clients_discover_the_first_name_unless_another_is_set() {
        let more = "[resolver]\n[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n\
                    [acme]\naccept-terms = true\nnames = [\"b.example\", \"a.example\"]\n";
        let name = |text: &str| read(text).expect("good").encrypted_service().map(|service| service.name);
        assert_eq!(name(more), Some("b.example".parse().expect("a name")));
        let other = more.replace("[resolver]\n", "[resolver]\ndiscovery-name = \"c.example\"\n");
        assert_eq!(name(&other), Some("c.example".parse().expect("a name")));
    }

    #[test]
    fn listeners_that_the_ca_cannot_reach_are_warned_of() {
        let acme = "[acme]\naccept-terms = true\nnames = [\"a.example\"]\n";
        for (listen, expected) in [
            ("", Some("no listener uses the certificate")),
            ("[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n", Some("connects to port 443")),
            ("[[listen]]\naddr = [\"192.0.2.1@443\"]\nproto = [\"tcp\"]\n", Some("no listener uses")),
            ("[[listen]]\naddr = [\"192.0.2.1@443\"]\nproto = [\"https\"]\n", None),
        ] {
            let settings = read(&format!("{acme}{listen}")).expect("good");
            let section = settings.acme.as_ref().expect("a section");
            let warning = AcmeSection::warning(section, &settings.listens).map(|warning| warning.message);
            match expected {
                None => assert_eq!(warning, None),
                Some(text) => assert!(warning.as_ref().is_some_and(|own| own.contains(text)), "{warning:?}"),
            }
        }
    }
}
