//! The URL of DNS over HTTPS at another server (RFC 8484).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

/// The path of most servers, and of a URL without one.
const DEFAULT_PATH: &str = "/dns-query";
/// The end of a URI template (RFC 8484 §4.1.1), which says how a GET request has its query; ours are POST.
const TEMPLATE: &str = "{?dns}";
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
}

impl fmt::Display for HttpsUrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpsUrlFault::NoUrl => "it is not a URL such as https://dns.example.net/dns-query",
            HttpsUrlFault::User => "a URL of DNS over HTTPS has no user",
            HttpsUrlFault::Port => "a port is a number from 1 to 65535",
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
        let path = path.strip_suffix(TEMPLATE).unwrap_or(path);
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
