//! Keys of `[server]` about the identifiers that clients write for themselves.

use std::str::FromStr;

use net::ClientNames;
use toml::Spanned;
use toml::de::DeValue;
use wire::NameBuf;

use super::https::HttpPath;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};

keys! {
    /// Keys about the identifiers that clients write for themselves.
    pub struct ClientNameKeys {
        /// Where clients write an identifier for themselves, which `client-id:` in `from` of
        /// `[[policy.group]]` names: `*.NAME` is the label in front of this server name of TLS, over TLS,
        /// HTTPS, QUIC and HTTP/3; `PATH/*` the segment behind this path of a URL over HTTP, where DNS is
        /// served, too. A client does not prove its identifier. Unset: nowhere.
        restart "client-ids" places: Option<Vec<At<ClientIdPlace>>> = None,
            example ["*.dns.example.com", "/dns-query/*"];
    }
}

impl ClientNameKeys {
    /// Returns where clients write their identifiers.
    pub(super) fn names(&self) -> ClientNames {
        let mut names = ClientNames::default();
        for place in self.places.iter().flatten() {
            match &place.value {
                ClientIdPlace::Below(name) => names.below.push(name.clone()),
                ClientIdPlace::Path(path) => names.paths.push(path.clone()),
            }
        }
        names
    }
}

/// Returns a name as TLS has it: in lower case, without a dot at the end.
fn host(name: &NameBuf) -> String {
    let text = name.as_name().to_lower().as_name().to_string();
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

/// Where clients write an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientIdPlace {
    /// In front of this server name, which is in lower case and has no dot at its end.
    Below(String),
    /// Behind this path, which has no slash at its end.
    Path(String),
}

impl FromStr for ClientIdPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            let path = text.strip_suffix("/*").ok_or("a path ends with `/*`, such as \"/dns-query/*\"")?;
            // The path `/` alone has nothing before its slash.
            if !path.is_empty() {
                path.parse::<HttpPath>()?;
            }
            return Ok(ClientIdPlace::Path(path.to_owned()));
        }
        let name = text.strip_prefix("*.").filter(|name| !name.trim_matches('.').is_empty());
        let name = name.ok_or("write `*.` and a server name, or a path and `/*`")?;
        match name.parse::<NameBuf>() {
            Ok(name) => Ok(ClientIdPlace::Below(host(&name))),
            Err(fault) => Err(format!("`{name}` is not a name: {fault}")),
        }
    }
}

impl Value for ClientIdPlace {
    fn kind() -> String {
        "identifier place".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a place such as \"*.dns.example.com\" or \"/dns-query/*\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            ClientIdPlace::Below(name) => quote(&format!("*.{name}")),
            ClientIdPlace::Path(path) => quote(&format!("{path}/*")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_server_name_or_a_path() {
        for (text, rendered) in [
            ("*.dns.example.com", "\"*.dns.example.com\""),
            ("*.DNS.example.", "\"*.dns.example\""),
            ("/dns-query/*", "\"/dns-query/*\""),
            ("/*", "\"/*\""),
        ] {
            let place = text.parse::<ClientIdPlace>().expect(text);
            assert_eq!(place.render().as_deref(), Some(rendered));
        }
        for (bad, words) in [
            ("dns.example.com", "write `*.` and a server name"),
            ("*", "write `*.` and a server name"),
            ("*..", "write `*.` and a server name"),
            ("*.a..b", "is not a name"),
            ("/dns-query", "ends with `/*`"),
            ("/a b/*", "a path has no ` `"),
        ] {
            let fault = bad.parse::<ClientIdPlace>().expect_err(bad);
            assert!(fault.contains(words), "{bad}: {fault}");
        }
    }
}
