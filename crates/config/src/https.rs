//! Keys of `[server]` about DNS over HTTPS.

use toml::Spanned;
use toml::de::DeValue;

use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};

/// Longest path of a URL, in bytes.
const MAX_PATH: usize = 255;

keys! {
    /// Keys about DNS over HTTPS.
    pub struct Https {
        /// Paths of the URLs at which HTTPS listeners serve DNS (RFC 8484): `https://NAME/dns-query` by
        /// default. Requests for other paths get the status 404.
        restart "https-paths" paths: Vec<At<HttpPath>> = vec![At::unwritten(HttpPath("/dns-query".to_owned()))],
            example ["/dns-query", "/family"];
    }
}

impl Https {
    /// Returns the paths.
    pub fn paths(&self) -> Vec<String> {
        self.paths.value.iter().map(|path| path.value.0.clone()).collect()
    }
}

/// The path of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpPath(String);

impl std::str::FromStr for HttpPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_of_path = |c: char| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@%".contains(c);
        match text {
            _ if !text.starts_with('/') => Err("a path begins with `/`, such as \"/dns-query\"".to_owned()),
            _ if text.len() > MAX_PATH => Err(format!("a path has at most {MAX_PATH} bytes")),
            _ => match text.chars().find(|&c| !is_of_path(c)) {
                Some('{' | '?') => {
                    Err("write the path alone, without the parameter `{?dns}` of the template".to_owned())
                }
                Some(wrong) => Err(format!("a path has no `{}`", wrong.escape_debug())),
                None => Ok(HttpPath(text.to_owned())),
            },
        }
    }
}

impl Value for HttpPath {
    fn kind() -> String {
        "path of a URL".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a path such as \"/dns-query\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_urls() {
        for good in ["/", "/dns-query", "/a/b~c", "/%20"] {
            assert_eq!(good.parse::<HttpPath>().map(|path| path.0).as_deref(), Ok(good));
        }
        for (bad, words) in [
            ("dns-query", "begins with `/`"),
            ("", "begins with `/`"),
            ("/dns-query{?dns}", "without the parameter"),
            ("/dns-query?dns=", "without the parameter"),
            ("/a b", "has no ` `"),
            ("/ä", "has no `ä`"),
            ("/a#b", "has no `#`"),
            (&format!("/{}", "x".repeat(255)), "at most 255 bytes"),
        ] {
            let fault = bad.parse::<HttpPath>().expect_err(bad);
            assert!(fault.contains(words), "{bad}: {fault}");
        }
    }
}
