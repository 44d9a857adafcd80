//! The URL of DNS over HTTPS at another server (RFC 8484), also of a proxy and a target of Oblivious DoH.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

use crate::odoh::OBLIVIOUS_CONFIGS;

/// The path of most servers, and of a URL without one.
const DEFAULT_PATH: &str = "/dns-query";
/// The end of a URI template (RFC 8484 §4.1.1), which says how a GET request has its query; ours are POST.
const TEMPLATE: &str = "{?dns}";
/// The end of a URI template of an oblivious proxy (RFC 9230 §4.1), which is the form of every other proxy.
const PROXY_TEMPLATE: &str = "{?targethost,targetpath}";
/// The parts of a target, in the template of a proxy.
const TARGET_HOST: &str = "targethost";
const TARGET_PATH: &str = "targetpath";
const SCHEME: &str = "https://";
/// The default port of HTTPS.
const PORT: u16 = 443;

/// The URL of DNS over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsUrl(Uri);

/// What is wrong with the text of an [`HttpsUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpsUrlFault {
    /// It is not a URL that begins with `https://`.
    NoUrl,
    /// It names a user.
    User,
    /// It has a port that is not one.
    Port,
    /// It is a template of a proxy with other variables than those of RFC 9230, or without one of them.
    Template,
}

impl fmt::Display for HttpsUrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpsUrlFault::NoUrl => "it is not a URL such as https://dns.example.net/dns-query",
            HttpsUrlFault::User => "a URL of DNS over HTTPS has no user",
            HttpsUrlFault::Port => "a port is a number from 1 to 65535",
            HttpsUrlFault::Template => {
                "the template of a proxy has both {targethost} and {targetpath}, or ends in \
                 {?targethost,targetpath}, or has neither"
            }
        })
    }
}
impl std::error::Error for HttpsUrlFault {}

impl HttpsUrl {
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Returns the name of its host, or its address without brackets.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Returns the address of its host, if the URL has no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.host().parse().ok()
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(PORT)
    }

    /// Returns what follows `https://`.
    pub fn without_scheme(&self) -> String {
        let text = self.to_string();
        text.strip_prefix(SCHEME).unwrap_or(&text).to_owned()
    }

    /// Returns the URL of the configurations of Oblivious DoH at this host.
    pub(crate) fn configs(&self) -> Option<Uri> {
        format!("{SCHEME}{}{OBLIVIOUS_CONFIGS}", self.0.authority()?).parse().ok()
    }

    /// Returns the URL at which this proxy passes messages on to a target (RFC 9230 §4.1): the variables
    /// `targethost` and `targetpath` stand where its template has them, or else in its query.
    ///
    /// # Errors
    /// The template has one of the variables alone, or another one, or makes no URL.
    pub fn to_target(&self, target: &HttpsUrl) -> Result<HttpsUrl, HttpsUrlFault> {
        let host = escaped(target.0.authority().map_or("", |authority| authority.as_str()));
        let path = escaped(target.0.path());
        let template = self.to_string();
        let [has_host, has_path] = [TARGET_HOST, TARGET_PATH].map(|name| template.contains(&braced(name)));
        let text = match (has_host, has_path) {
            (true, true) => {
                template.replace(&braced(TARGET_HOST), &host).replace(&braced(TARGET_PATH), &path)
            }
            (false, false) => {
                let separator = if self.0.query().is_some() { '&' } else { '?' };
                format!("{template}{separator}{TARGET_HOST}={host}&{TARGET_PATH}={path}")
            }
            _ => return Err(HttpsUrlFault::Template),
        };
        match text.contains(['{', '}']) {
            true => Err(HttpsUrlFault::Template),
            false => text.parse().map(HttpsUrl).map_err(|_| HttpsUrlFault::NoUrl),
        }
    }
}

/// Returns a variable as a template has it.
fn braced(name: &str) -> String {
    format!("{{{name}}}")
}

/// Returns a value as it stands in a URL: all but unreserved characters in percent-encoding (RFC 6570
/// §3.2.1).
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text
}

impl FromStr for HttpsUrl {
    type Err = HttpsUrlFault;

    fn from_str(text: &str) -> Result<Self, HttpsUrlFault> {
        let Some(rest) = text.strip_prefix(SCHEME) else { return Err(HttpsUrlFault::NoUrl) };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if authority.contains('@') {
            return Err(HttpsUrlFault::User);
        }
        let authority = authority.to_ascii_lowercase();
        // An address in brackets has colons of its own.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => match port.parse::<u16>() {
                Ok(0) | Err(_) => return Err(HttpsUrlFault::Port),
                Ok(port) => (host, Some(port).filter(|port| *port != PORT)),
            },
            _ => (authority.as_str(), None),
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = path.strip_suffix(TEMPLATE).or(path.strip_suffix(PROXY_TEMPLATE)).unwrap_or(path);
        let path = if matches!(path, "" | "/") { DEFAULT_PATH } else { path };
        let uri: Uri = format!("{SCHEME}{host}{port}{path}").parse().map_err(|_| HttpsUrlFault::NoUrl)?;
        let is_whole = uri.host().is_some_and(|host| !host.trim_matches(['[', ']']).is_empty());
        if is_whole { Ok(HttpsUrl(uri)) } else { Err(HttpsUrlFault::NoUrl) }
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (text, shown, host, port) in [
            ("https://dns.example/dns-query", "https://dns.example/dns-query", "dns.example", 443),
            ("https://DNS.example", "https://dns.example/dns-query", "dns.example", 443),
            ("https://dns.example:443/", "https://dns.example/dns-query", "dns.example", 443),
            ("https://dns.example:8443/q{?dns}", "https://dns.example:8443/q", "dns.example", 8443),
            ("https://192.0.2.1/a/b?c=d", "https://192.0.2.1/a/b?c=d", "192.0.2.1", 443),
            ("https://[2001:db8::1]:8443/q", "https://[2001:db8::1]:8443/q", "2001:db8::1", 8443),
            ("https://[2001:db8::1]", "https://[2001:db8::1]/dns-query", "2001:db8::1", 443),
        ] {
            let url: HttpsUrl = text.parse().expect(text);
            assert_eq!((url.to_string().as_str(), url.host(), url.port()), (shown, host, port));
            assert_eq!(shown.parse(), Ok(url), "{shown}");
        }
    }

    #[test]
    fn the_url_of_a_proxy_has_host_and_path_of_the_target() {
        let to = |proxy: &str, target: &str| {
            let (proxy, target): (HttpsUrl, HttpsUrl) =
                (proxy.parse().expect(proxy), target.parse().expect(target));
            proxy.to_target(&target).map(|url| url.to_string())
        };
        let query = "https://proxy.example/p?targethost=dns.example&targetpath=%2Fdns-query";
        for (proxy, target, url) in [
            ("https://proxy.example/p", "https://dns.example", query),
            ("https://proxy.example/p{?targethost,targetpath}", "https://dns.example:443/dns-query", query),
            (
                "https://proxy.example/p?key=1",
                "https://[2001:db8::1]:8443/a",
                "https://proxy.example/p?key=1&targethost=%5B2001%3Adb8%3A%3A1%5D%3A8443&targetpath=%2Fa",
            ),
            (
                "https://proxy.example/{targethost}/{targetpath}",
                "https://dns.example/q",
                "https://proxy.example/dns.example/%2Fq",
            ),
        ] {
            assert_eq!(to(proxy, target).as_deref(), Ok(url), "{proxy}");
        }
        for proxy in ["https://proxy.example/{targethost}", "https://proxy.example/{?other}"] {
            assert_eq!(to(proxy, "https://dns.example"), Err(HttpsUrlFault::Template), "{proxy}");
        }
        let target: HttpsUrl = "https://dns.example:8443/q".parse().expect("a URL");
        let configs = target.configs().expect("a URL").to_string();
        assert_eq!(configs, "https://dns.example:8443/.well-known/odohconfigs");
    }

    #[test]
    fn what_is_no_url_of_dns_over_https_is_refused() {
        for (text, fault) in [
            ("http://dns.example/dns-query", HttpsUrlFault::NoUrl),
            ("https:///dns-query", HttpsUrlFault::NoUrl),
            ("https://dns example/", HttpsUrlFault::NoUrl),
            ("https://dns.example/a b", HttpsUrlFault::NoUrl),
            ("https://user@dns.example/", HttpsUrlFault::User),
            ("https://dns.example:0/", HttpsUrlFault::Port),
            ("https://dns.example:https/", HttpsUrlFault::Port),
        ] {
            assert_eq!(text.parse::<HttpsUrl>(), Err(fault), "{text}");
        }
    }
}
