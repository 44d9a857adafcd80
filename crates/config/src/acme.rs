//! `[acme]`: a certificate of TLS listeners that the server orders from a CA and renews by itself. `issuing`
//! of `serving` does that.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use toml::Spanned;
use toml::de::DeValue;
use url::Url;
use wire::{Name, NameBuf};
use wording::reason;

use super::listen::{Listen, Opened};
use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{AddrPort, Int, Time, Value, list, quote};

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// The port that a CA connects to (RFC 8737 §3).
const CHALLENGE_PORT: u16 = 443;
/// The port that a CA sends requests to (RFC 8555 §8.3).
const HTTP_PORT: u16 = 80;
/// Defaults of the limits of its listeners.
const HTTP_CONNECTIONS: usize = 64;
const HTTP_HEAD: Duration = Duration::from_secs(5);
/// Most bytes of the file of an external account's key.
const MAX_KEY_FILE: u64 = 64 * 1024;
/// The permission of other users to read a file.
const OTHERS_READ: u32 = 0o004;
/// Most names of one certificate; Let's Encrypt allows as many.
const MAX_NAMES: usize = 100;

keys! {
    /// A certificate of listeners with TLS that nomen orders from a CA by ACME (RFC 8555), and renews when
    /// the CA suggests it, or else when a third of its lifetime is left. The section's presence turns it
    /// on. `challenge` selects how the CA verifies that this server has the names. The account and the
    /// certificate are stored in `state-dir` of `[server]`. The certificate is used after those of
    /// `[[certificate]]`; until there is one, nomen uses a self-signed one.
    /// [CERTIFICATES.md](CERTIFICATES.md) explains it.
    pub struct AcmeSection in "[acme]" {
        /// Host names of this server, all in one certificate: at most 100. With `challenge = "dns-01"` also
        /// wildcards. A change orders a new certificate; the one before stays in use until then.
        live "names" names: Vec<At<CertificateName>>, example ["dns.example.net"];
        /// Whether you accept the terms of service of the CA; it must be `true`.
        live "accept-terms" accept_terms: bool = false, example true;
        /// How the CA verifies the names. "tls-alpn-01": it connects to port 443 of each name (RFC 8737),
        /// where a listener with `proto` "https" or "tls" must be. "http-01": it connects to port 80 of each
        /// name, where `http-listen` must be. "dns-01": it asks for a TXT record of `_acme-challenge.NAME`,
        /// which nomen adds to its zone for as long as the order lasts; that zone must take changes (`api`,
        /// `allow-update` or `update-policy`).
        live "challenge" challenge: ChallengeMethod = ChallengeMethod::TlsAlpn01, example "dns-01";
        /// With "dns-01": whether nomen asks the servers in the NS records of the zone for the TXT record,
        /// and has the CA verify it once all of them that answer have it.
        live "dns-check" dns_check: bool = true, example false;
        /// With "dns-01": longest time until all servers of the zone have the TXT record; the order fails
        /// after it. With `dns-check = false` the time between the change and the verification.
        live "dns-wait" dns_wait: Time<0, 3_600_000> = Time::secs(120), example "30s";
        /// With "http-01": the addresses to listen on for the CA. Only the paths of challenges are answered,
        /// and only while an order is in progress; all else gets status 404. A socket that systemd passes
        /// for an address is used.
        restart "http-listen" http_listen: Option<Vec<At<AddrPort>>> = None,
            example ["0.0.0.0@80", "[::]@80"];
        /// Most connections to `http-listen` at a time. One more replaces the connection that has been idle
        /// longest.
        live "http-connections" http_connections: Int<usize, 1, 10_000> = Int(HTTP_CONNECTIONS), example 200;
        /// Longest time in which the head of a request to `http-listen` must arrive.
        live "http-head-timeout" http_head: Time<100, 600_000> = Time(HTTP_HEAD), example "2s";
        /// Identifier of the external account that a new account is bound to (RFC 8555 §7.3.4), from the CA.
        /// Unset: none. A change makes a new account.
        live "eab-key-id" eab_key_id: Option<String> = None, example "kid-1";
        /// File with the key of that external account: base64url, in the first line. Only the owner of the
        /// file and its group may read it.
        live "eab-key-file" eab_key_file: Option<EabKeyFile> = None, example "/etc/nomen/eab.key";
        /// Whether the CA is asked when it suggests renewal (RFC 9773), and its suggestion is followed.
        live "renewal-info" renewal_info: bool = true, example false;
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

/// How a CA verifies that the server has the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeMethod {
    /// By a handshake at port 443.
    TlsAlpn01,
    /// By a request at port 80.
    Http01,
    /// By a record in the zone of the name.
    Dns01,
}

impl ChallengeMethod {
    const ALL: [Self; 3] = [Self::TlsAlpn01, Self::Http01, Self::Dns01];

    /// The name of the challenge (RFC 8555 §9.7.8).
    pub fn word(self) -> &'static str {
        match self {
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Http01 => "http-01",
            Self::Dns01 => "dns-01",
        }
    }
}

impl Value for ChallengeMethod {
    fn kind() -> String {
        list(Self::ALL.iter().map(|method| method.word()))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, &Self::kind(), |text| {
            let found = Self::ALL.into_iter().find(|method| method.word() == text);
            found.ok_or_else(|| format!("\"{text}\" is not one of: {}", Self::kind()))
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(self.word()))
    }
}

/// A file with the key of an external account, and what was read from it.
#[derive(Clone, PartialEq, Eq)]
pub struct EabKeyFile {
    path: PathBuf,
    /// `None` until the file is read.
    key: Option<Vec<u8>>,
}

impl fmt::Debug for EabKeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EabKeyFile({})", self.path.display())
    }
}

impl Value for EabKeyFile {
    fn kind() -> String {
        "path".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        PathBuf::read(node, reader).map(|path| EabKeyFile { path, key: None })
    }
    fn render(&self) -> Option<String> {
        self.path.render()
    }
}

impl EabKeyFile {
    /// Reads the key.
    fn read_key(&self) -> Result<Vec<u8>, String> {
        let shown = self.path.display();
        let text = zone::regular::read_to_string(&self.path, MAX_KEY_FILE)
            .map_err(|fault| format!("cannot read {shown}: {}", reason(&fault)))?;
        if std::fs::metadata(&self.path).is_ok_and(|about| about.mode() & OTHERS_READ != 0) {
            return Err(format!("the key file {shown} is not used: every user may read it; run `chmod o-r`"));
        }
        let line = text.lines().next().unwrap_or_default().trim().trim_end_matches('=');
        // CAs show base64url; some tools convert it.
        let encoding = if line.contains(['+', '/']) { BASE64_NOPAD } else { BASE64URL_NOPAD };
        match encoding.decode(line.as_bytes()) {
            Ok(key) if !key.is_empty() => Ok(key),
            Ok(_) => Err(format!("{shown}:1:1: the line has no key")),
            Err(fault) => {
                let column = fault.position + 1;
                Err(format!("{shown}:1:{column}: the key is not base64url (RFC 4648 §5)"))
            }
        }
    }
}

/// The external account that a new account is bound to.
#[derive(Clone, PartialEq, Eq)]
pub struct ExternalAccountKey {
    /// Its identifier.
    pub id: String,
    /// The key of its HMAC.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalAccountKey({})", self.id)
    }
}

/// The name of a host, in lower case, for a certificate; also `*.` and the name of a host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateName(pub String);

/// Why a text is no name that a certificate can be ordered for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CertificateNameFault {
    Address(String),
    Syntax(String),
}

impl fmt::Display for CertificateNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
        if text.parse::<std::net::IpAddr>().is_ok() {
            return Err(CertificateNameFault::Address(text.to_owned()));
        }
        // RFC 1123 §2.1.
        let is_label = |label: &str| {
            let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
        };
        let host = name.strip_prefix("*.").unwrap_or(&name);
        let is_host = host.contains('.') && host.split('.').all(is_label) && name.parse::<NameBuf>().is_ok();
        if is_host { Ok(CertificateName(name)) } else { Err(CertificateNameFault::Syntax(text.to_owned())) }
    }

    /// Whether it is a wildcard.
    fn is_wildcard(&self) -> bool {
        self.0.starts_with("*.")
    }

    /// Returns the name of the record of the challenge dns-01 (RFC 8555 §8.4).
    ///
    /// # Errors
    /// The name is too long.
    pub fn challenge_owner(&self) -> Result<NameBuf, String> {
        challenge_owner(&self.0)
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

/// Returns the name of the record of the challenge dns-01 for a name of a certificate (RFC 8555 §8.4).
///
/// # Errors
/// The name is too long.
pub fn challenge_owner(name: &str) -> Result<NameBuf, String> {
    let text = format!("_acme-challenge.{}", name.strip_prefix("*.").unwrap_or(name));
    let owner = NameBuf::from_text(text.as_bytes(), Some(Name::ROOT));
    owner.map_err(|_| format!("`{text}` is too long for a name"))
}

/// Limits of the listeners for the CA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpBounds {
    /// Most connections at a time.
    pub connections: usize,
    /// Longest time in which the head of a request must arrive.
    pub head: Duration,
}

impl Default for HttpBounds {
    fn default() -> Self {
        HttpBounds { connections: HTTP_CONNECTIONS, head: HTTP_HEAD }
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
    /// How the CA verifies the names.
    pub challenge: ChallengeMethod,
    /// Whether the servers of a zone are asked for the record of a challenge.
    pub dns_check: bool,
    /// Longest time until they have it; if they are not asked, the time until the CA asks them.
    pub dns_wait: Duration,
    /// The external account that a new account is bound to.
    pub external: Option<ExternalAccountKey>,
    /// Whether the CA is asked when it suggests renewal.
    pub renewal_info: bool,
}

impl AcmeSection {
    /// Returns what the section asks for.
    pub fn wanted(&self) -> WantedCertificate {
        WantedCertificate {
            names: self.names.value.iter().map(|name| name.value.0.clone()).collect(),
            directory: self.directory.value.0.clone(),
            contacts: self.contact.iter().flatten().map(|contact| contact.value.0.clone()).collect(),
            ca_file: self.ca_file.value.clone(),
            challenge: self.challenge.value,
            dns_check: self.dns_check.value,
            dns_wait: self.dns_wait.value.0,
            external: self.external(),
            renewal_info: self.renewal_info.value,
        }
    }

    /// Returns the addresses that are listened on for the CA.
    pub fn http_addresses(&self) -> impl Iterator<Item = &At<AddrPort>> {
        self.http_listen.value.iter().flatten()
    }

    /// Returns the limits of the listeners for the CA.
    pub fn http_bounds(&self) -> HttpBounds {
        HttpBounds { connections: self.http_connections.0, head: self.http_head.0 }
    }

    fn external(&self) -> Option<ExternalAccountKey> {
        let (id, file) = (self.eab_key_id.value.clone()?, self.eab_key_file.value.as_ref()?);
        Some(ExternalAccountKey { id, key: file.key.clone()? })
    }

    /// Returns the files that it names.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let key = self.eab_key_file.value.as_ref().map(|file| file.path.clone());
        key.into_iter().chain(self.ca_file.value.clone())
    }

    /// Reads the file of the external account's key.
    pub(super) fn read_file(&mut self) -> Option<Diagnostic> {
        let place = self.eab_key_file.place.clone();
        let file = self.eab_key_file.value.as_mut()?;
        match file.read_key() {
            Ok(key) => {
                file.key = Some(key);
                None
            }
            Err(fault) => Some(Diagnostic::at(place.as_ref(), fault).outside()),
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
        section.check_challenge(faults);
        if !has_state {
            let fault =
                Diagnostic::at(section.place.as_ref(), "[acme] needs a folder to store certificates in");
            faults.push(fault.hint("set `state-dir` in [server]"));
        }
    }

    /// Reports names that the challenge cannot verify, and keys that it lacks.
    fn check_challenge(&self, faults: &mut Vec<Diagnostic>) {
        let method = self.challenge.value;
        for name in self.names.value.iter().filter(|_| method != ChallengeMethod::Dns01) {
            if name.value.is_wildcard() {
                let text = format!(
                    "`{}` is a wildcard: CAs issue it only after the challenge dns-01, not {}",
                    name.value.0,
                    method.word()
                );
                let fault = Diagnostic::at(name.place.as_ref(), text);
                faults.push(fault.hint("set `challenge = \"dns-01\"` in [acme]"));
            }
        }
        for name in self.names.value.iter().filter(|_| method == ChallengeMethod::Dns01) {
            let fault = name.value.challenge_owner().err();
            faults.extend(fault.map(|fault| Diagnostic::at(name.place.as_ref(), fault)));
        }
        if method == ChallengeMethod::Http01 && self.http_addresses().next().is_none() {
            let fault =
                Diagnostic::at(self.challenge.place.as_ref(), "the challenge http-01 needs a listener");
            faults.push(fault.hint("set `http-listen = [\"0.0.0.0@80\", \"[::]@80\"]` in [acme]"));
        }
        for (key, has, lacks) in [
            (self.eab_key_id.place.as_ref(), self.eab_key_id.is_some(), self.eab_key_file.is_none()),
            (self.eab_key_file.place.as_ref(), self.eab_key_file.is_some(), self.eab_key_id.is_none()),
        ] {
            if has && lacks {
                faults.push(Diagnostic::at(key, "`eab-key-id` and `eab-key-file` need each other"));
            }
        }
    }

    /// Reports addresses that others listen on. `http`: those of [metrics] and [api].
    pub(super) fn check_addresses<'a>(
        &'a self,
        opened: &[Opened],
        http: impl Iterator<Item = &'a At<AddrPort>>,
        faults: &mut Vec<Diagnostic>,
    ) {
        let mut seen: Vec<&At<AddrPort>> = http.collect();
        for addr in self.http_addresses() {
            Opened::check_other(opened, addr, faults);
            if let Some(first) = seen.iter().find(|first| first.value == addr.value) {
                let message = format!("{} is listened on already", addr.value);
                let fault = Diagnostic::at(addr.place.as_ref(), message);
                faults.push(fault.also(first.place.as_ref(), "here"));
            }
            seen.push(addr);
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
        match section.challenge.value {
            ChallengeMethod::Dns01 => return None,
            ChallengeMethod::Http01 => {
                let mut ports = section.http_addresses().map(|addr| addr.value.0.port());
                let hint = "add an address with port 80 to `http-listen`, or forward that port to one";
                let text = "the CA of [acme] connects to port 80, where `http-listen` is not";
                return (!ports.any(|port| port == HTTP_PORT)).then(|| at(text).hint(hint));
            }
            ChallengeMethod::TlsAlpn01 => {}
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
    use std::os::unix::fs::PermissionsExt;
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
            ("*.Example.net", Ok("*.example.net")),
            ("*.*.example.net", Err("is not the full name of a host")),
            ("www.*.example.net", Err("is not the full name of a host")),
            ("*.net", Err("is not the full name of a host")),
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
            (&good.replace("\"a.", "\"*.a."), "`*.a.example` is a wildcard"),
            (&format!("{good}challenge = \"dns-02\"\n"), "\"dns-02\" is not one of: \"tls-alpn-01\""),
            (&format!("{good}challenge = \"http-01\"\n"), "the challenge http-01 needs a listener"),
            (&format!("{good}eab-key-id = \"kid\"\n"), "need each other"),
            (&format!("{good}eab-key-file = \"eab.key\"\n"), "need each other"),
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
            ("challenge = \"dns-01\"\n[[listen]]\naddr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n", None),
            (
                "challenge = \"http-01\"\nhttp-listen = [\"[::]@8080\"]\n[[listen]]\n\
                 addr = [\"192.0.2.1@443\"]\nproto = [\"https\"]\n",
                Some("connects to port 80"),
            ),
            (
                "challenge = \"http-01\"\nhttp-listen = [\"[::]@80\"]\n[[listen]]\n\
                 addr = [\"192.0.2.1@853\"]\nproto = [\"tls\"]\n",
                None,
            ),
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

    #[test]
    fn addresses_for_the_ca_are_those_of_no_other_listener() {
        let acme = "[acme]\naccept-terms = true\nnames = [\"a.example\"]\nhttp-listen = ";
        for (text, expected) in [
            (format!("{acme}[\"192.0.2.1@80\", \"192.0.2.1@80\"]\n"), "192.0.2.1@80 is listened on already"),
            (
                format!("{acme}[\"192.0.2.1@53\"]\n[[listen]]\naddr = [\"192.0.2.1@53\"]\n"),
                "overlaps with the DNS",
            ),
            (format!("{acme}[\"127.0.0.1@9153\"]\n[metrics]\n"), "127.0.0.1@9153 is listened on already"),
            (format!("{acme}[\"127.0.0.1@8081\"]\n[api]\n"), "127.0.0.1@8081 is listened on already"),
        ] {
            let fault = read(&text).expect_err(expected);
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn the_key_of_an_external_account_is_read_unless_every_user_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("eab.key");
        let text = "[server]\nstate-dir = \"/state\"\n[acme]\naccept-terms = true\nnames = [\"a.example\"]\n\
                    eab-key-id = \"kid\"\neab-key-file = \"eab.key\"\n";
        let read = |contents: &str, mode: u32| {
            std::fs::write(&path, contents).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            let read = crate::read_text("test", text.to_owned(), folder.path()).expect("good");
            let mut settings = read.config.settings;
            match settings.read_named_files() {
                Ok(()) => Ok(settings.acme.expect("a section").wanted().external.expect("an account")),
                Err(faults) => Err(faults[0].message.clone()),
            }
        };
        let expected = ExternalAccountKey { id: "kid".into(), key: vec![0xfb, 0xff, 0x00] };
        for contents in ["-_8A\n", "+/8A", "  -_8A \nmore\n"] {
            assert_eq!(read(contents, 0o640), Ok(expected.clone()), "{contents}");
        }
        assert!(
            read("-_8A\n", 0o644)
                .is_err_and(|fault| fault.contains("every user may read it; run `chmod o-r`"))
        );
        for (contents, fault) in
            [("", ":1:1: the line has no key"), ("-_8!\n", ":1:4: the key is not base64url")]
        {
            assert!(read(contents, 0o600).is_err_and(|own| own.contains(fault)), "{contents}");
        }
        std::fs::remove_file(&path).expect("removed");
        let fault = crate::read_text("test", text.to_owned(), folder.path()).expect("good").config.settings;
        let fault = { fault }.read_named_files().expect_err("no file")[0].message.clone();
        assert!(fault.starts_with("cannot read ") && !format!("{expected:?}").contains("fb"), "{fault}");
    }
}
