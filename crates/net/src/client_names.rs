//! The names that clients write for themselves: in front of the server name of TLS, or behind the path of a
//! request over HTTP. No client proves its name.

use std::sync::Arc;

/// Longest name, in bytes: that of a label (RFC 1035 §2.3.4).
const MAX_NAME: usize = 63;

/// Where clients write their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientNames {
    /// Server names of TLS, in lower case and without a dot at the end: the label in front of one is the name
    /// of the client.
    pub below: Vec<String>,
    /// Paths of URLs, without a slash at the end: the segment behind one is the name of the client, and DNS
    /// is served there.
    pub paths: Vec<String>,
}

impl ClientNames {
    /// Returns the name of the client that sent this server name, in lower case.
    pub(crate) fn of_server_name(&self, server: Option<&str>) -> Option<Arc<str>> {
        let (name, below) = server?.split_once('.')?;
        let below = below.strip_suffix('.').unwrap_or(below);
        let is_known = self.below.iter().any(|known| known.eq_ignore_ascii_case(below));
        if is_known { checked(name) } else { None }
    }

    /// Returns the name of the client in the path of a request, in lower case.
    pub(crate) fn of_path(&self, path: &str) -> Option<Arc<str>> {
        let (before, name) = path.rsplit_once('/')?;
        if self.paths.iter().any(|known| known == before) { checked(name) } else { None }
    }
}

/// Returns a name in lower case, if it is one.
fn checked(name: &str) -> Option<Arc<str>> {
    let is_of_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_of_name);
    is_name.then(|| name.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> ClientNames {
        let paths = vec!["/dns-query".to_owned(), String::new()];
        ClientNames { below: vec!["dns.example".to_owned()], paths }
    }

    #[test]
    fn one_label_in_front_of_a_known_server_name_is_the_client() {
        let of = |server| names().of_server_name(Some(server)).map(|name| name.to_string());
        assert_eq!(of("phone.dns.example"), Some("phone".into()));
        assert_eq!(of("Phone-1.DNS.Example."), Some("phone-1".into()));
        for none in ["dns.example", "a.b.dns.example", "phone.dns.example.org", ".dns.example", "phone", ""] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(names().of_server_name(None), None);
        assert_eq!(of(&format!("{}.dns.example", "x".repeat(64))), None);
    }

    #[test]
    fn one_segment_behind_a_known_path_is_the_client() {
        let of = |path| names().of_path(path).map(|name| name.to_string());
        assert_eq!(of("/dns-query/Phone"), Some("phone".into()));
        assert_eq!(of("/tablet"), Some("tablet".into()), "behind the path `/`");
        for none in ["/dns-query/", "/dns-query/a/b", "/other/phone", "/dns-query/a%20b", "/dns-query/..", ""]
        {
            assert_eq!(of(none), None, "{none}");
        }
        let alone = ClientNames { paths: vec!["/dns-query".to_owned()], ..ClientNames::default() };
        assert_eq!(alone.of_path("/dns-query"), None);
    }
}
