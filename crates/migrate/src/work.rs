//! [`Work`]: a conversion in progress, with the outcome of each statement; and rules for statements with one
//! key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use wire::name::{Name, NameBuf};

use crate::ledger::{Coverage, Ledger};
use crate::lists::MadeLists;
use crate::model::{Keys, Nomen, Section, Setting, bounded};
use crate::network::Network;
use crate::source_rates::SourceRates;
use crate::text::SourceSpan;
use crate::tree::Statement;
use crate::units;

/// The conversion of a statement with one value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// A number for this key.
    Number(Section, &'static str),
    /// A number; 0 means no limit, and becomes the key's maximum.
    Limit(Section, &'static str),
    /// A number; 0 means the program's default.
    Choice(Section, &'static str),
    /// A duration; without a unit, in units of this many milliseconds.
    Time(Section, &'static str, u64),
    /// A duration; 0 means no limit.
    TimeLimit(Section, &'static str, u64),
    /// Yes or no.
    Switch(Section, &'static str),
    /// The text unchanged.
    Text(Section, &'static str),
    /// A list of networks, without exceptions.
    Networks(Section, &'static str),
    /// Yes or no: whether records are rotated with each query.
    Rotation,
    /// Yes or no: whether to listen on addresses that no interface has yet.
    Freebind,
    /// One of these values is nomen's behaviour anyway. Any other has no counterpart, for this reason.
    Same(&'static [&'static str], &'static str),
    /// It needs no counterpart, for this reason.
    Unneeded(&'static str),
    /// It has no counterpart, for this reason.
    Missing(&'static str),
}

impl Rule {
    /// Outcome and reason for a statement without a key; `None` if the rule has a key.
    pub(crate) fn without_key(self, statement: &Statement) -> Option<(Coverage, String)> {
        let text = statement.value();
        let same = |value: &&str| {
            let on = units::switch(value);
            text.eq_ignore_ascii_case(value) || on.is_some() && units::switch(text) == on
        };
        Some(match self {
            Rule::Unneeded(why) => (Coverage::Unneeded, why.into()),
            Rule::Same(values, _) if values.iter().any(same) => (Coverage::Unneeded, DOES_SO.into()),
            Rule::Missing(why) | Rule::Same(_, why) => (Coverage::Missing, why.into()),
            Rule::Number(..)
            | Rule::Limit(..)
            | Rule::Choice(..)
            | Rule::Time(..)
            | Rule::TimeLimit(..)
            | Rule::Switch(..)
            | Rule::Text(..)
            | Rule::Networks(..)
            | Rule::Rotation
            | Rule::Freebind => return None,
        })
    }
}

const DOES_SO: &str = "nomen does so anyway";

/// Special-use names that nomen answers itself, except those in numbered series.
const SPECIAL: &[&str] = &[
    "localhost",
    "test",
    "invalid",
    "local",
    "onion",
    "alt",
    "home.arpa",
    "service.arpa",
    "resolver.arpa",
    "ipv4only.arpa",
    "170.0.0.192.in-addr.arpa",
    "171.0.0.192.in-addr.arpa",
    "127.in-addr.arpa",
    "10.in-addr.arpa",
    "168.192.in-addr.arpa",
    "0.in-addr.arpa",
    "254.169.in-addr.arpa",
    "2.0.192.in-addr.arpa",
    "100.51.198.in-addr.arpa",
    "113.0.203.in-addr.arpa",
    "255.255.255.255.in-addr.arpa",
    "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
    "d.f.ip6.arpa",
    "8.e.f.ip6.arpa",
    "9.e.f.ip6.arpa",
    "a.e.f.ip6.arpa",
    "b.e.f.ip6.arpa",
    "8.b.d.0.1.0.0.2.ip6.arpa",
];

/// Whether nomen answers a name itself. A test of the program compares this with its own list.
pub fn is_special(name: &str) -> bool {
    let numbered = |end: &str, numbers: std::ops::RangeInclusive<u8>| {
        let number = name.strip_suffix(end).and_then(|number| number.parse().ok());
        number.is_some_and(|number| numbers.contains(&number))
    };
    SPECIAL.contains(&name)
        || numbered(".172.in-addr.arpa", 16..=31)
        || numbered(".100.in-addr.arpa", 64..=127)
}

/// The reverse zones of private networks (RFC 6303), which nomen answers itself.
pub(crate) fn private_reverse() -> Vec<String> {
    let numbered = |end: &str, numbers: std::ops::RangeInclusive<u8>| {
        numbers.map(|number| format!("{number}{end}")).collect::<Vec<_>>()
    };
    // The others belong to this host, or to DNS64.
    let ours = |name: &&&str| {
        let reverse = name.ends_with(".in-addr.arpa") || name.ends_with(".ip6.arpa");
        reverse && !["127.", "170.", "171.", "1.0."].iter().any(|first| name.starts_with(first))
    };
    let mut all: Vec<String> = SPECIAL.iter().filter(ours).map(|name| (*name).to_owned()).collect();
    all.extend(numbered(".172.in-addr.arpa", 16..=31));
    all.extend(numbered(".100.in-addr.arpa", 64..=127));
    all
}

/// The rule for a keyword.
pub(crate) type NamedRule = (&'static str, Rule);

/// Finds the rule for a keyword.
pub(crate) fn rule(rules: &[NamedRule], key: &str) -> Option<Rule> {
    rules.iter().find(|(name, _)| *name == key).map(|(_, rule)| *rule)
}

/// A conversion in progress.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) nomen: Nomen,
    pub(crate) ledger: Ledger,
    /// Zone files, with the base folder of the source's `$INCLUDE`; `None` for the file's own folder.
    pub(crate) zone_files: Vec<(PathBuf, Option<PathBuf>)>,
    /// Root hints files, with the places that name them.
    pub(crate) hints: Vec<(PathBuf, SourceSpan)>,
    /// Trust anchors.
    pub(crate) anchors: Anchors,
    /// Refusals for what cannot be expressed exactly.
    pub(crate) narrow: Narrow,
    /// Block lists that are made.
    pub(crate) made_lists: MadeLists,
    /// Whether the clients that the source answers cannot be determined.
    pub(crate) unknown_clients: bool,
    /// Whether the source sends zones only over TLS.
    pub(crate) encrypted_transfers: bool,
    /// How NSD authenticates servers over TLS, by the names of its `tls-auth` blocks.
    pub(crate) tls_auths: HashMap<String, TlsAuth>,
    /// Limits on replies found so far.
    pub(crate) rates: Option<SourceRates>,
    /// Whether servers at port 853 are queried in the clear.
    pub(crate) plain_at_853: bool,
}

/// How a server of a zone is authenticated over TLS.
#[derive(Debug, Clone)]
pub(crate) struct TlsAuth {
    /// What is written after the `#`.
    pub(crate) identity: String,
    /// The keys of the zone with files for it.
    pub(crate) files: Vec<(&'static str, String)>,
}

/// The trust anchors found.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    pub(crate) found: Vec<Anchor>,
    /// Whether the source also has those of the public root.
    pub(crate) public_root: bool,
    /// Whether the public root's anchors follow their zone (RFC 5011).
    pub(crate) root_followed: bool,
}

/// A trust anchor.
#[derive(Debug)]
pub(crate) struct Anchor {
    /// In nomen's configuration format.
    pub(crate) line: String,
    /// Whether it is one of the public root's.
    pub(crate) root: bool,
    /// Whether it follows its zone (RFC 5011).
    pub(crate) followed: bool,
}

/// Refusals for what cannot be expressed exactly.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    /// Domains whose names must not be queried at other servers.
    pub(crate) domains: Vec<String>,
    /// Those of them that the source refuses as well.
    pub(crate) exact: Vec<String>,
    /// Those of them below which rules are left out as well.
    pub(crate) whole: Vec<String>,
    /// Domains resolved starting at the root servers, whatever rule is above them.
    pub(crate) iterated: Vec<String>,
    /// Whether recursion is refused to all clients.
    pub(crate) closed: bool,
    /// Zones with limited queries: served only as catalog zones or policy zones, which answer no queries.
    pub(crate) unanswered: Vec<String>,
}

impl Work {
    /// Applies a rule to a statement.
    pub(crate) fn apply(&mut self, statement: &Statement, rule: Rule) {
        let text = statement.value().to_owned();
        let section = match rule {
            Rule::Number(section, _) | Rule::Limit(section, _) | Rule::Choice(section, _) => Some(section),
            Rule::Time(section, ..) | Rule::TimeLimit(section, ..) => Some(section),
            Rule::Switch(section, _) | Rule::Text(section, _) | Rule::Networks(section, _) => Some(section),
            Rule::Rotation | Rule::Freebind | Rule::Same(..) | Rule::Unneeded(_) | Rule::Missing(_) => None,
        };
        if section == Some(Section::Resolver) && self.nomen.resolver.is_none() {
            return self.ledger.unneeded(statement, "it is about recursion, which is off");
        }
        match rule {
            Rule::Number(section, key) => self.number(statement, section, key, units::size(&text)),
            Rule::Limit(section, key) => match units::size(&text) {
                Some(0) => self.unlimited(statement, section, key),
                value => self.number(statement, section, key, value),
            },
            Rule::Choice(_, _) if units::size(&text) == Some(0) => {
                self.ledger.unneeded(statement, "nomen chooses, as it does");
            }
            Rule::Choice(section, key) => self.number(statement, section, key, units::size(&text)),
            Rule::Time(section, key, unit) | Rule::TimeLimit(section, key, unit) => {
                let plain = text.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
                let value = plain.or_else(|| units::seconds(&text)?.checked_mul(1000));
                match value {
                    Some(0) if matches!(rule, Rule::TimeLimit(..)) => self.unlimited(statement, section, key),
                    value => self.number(statement, section, key, value),
                }
            }
            Rule::Switch(section, key) => match units::switch(&text) {
                Some(on) => {
                    self.nomen.section(section).switch(key, on);
                    self.in_key(statement, section, key);
                }
                None => self.not_understood(statement),
            },
            Rule::Text(section, key) if !text.is_empty() => {
                self.nomen.section(section).text(key, text);
                self.in_key(statement, section, key);
            }
            Rule::Text(..) => self.not_understood(statement),
            Rule::Networks(..) if text.is_empty() => self.ledger.unneeded(statement, DOES_SO),
            Rule::Networks(section, key) => match networks(&text) {
                Some(networks) => {
                    self.nomen.section(section).texts(key, networks);
                    self.in_key(statement, section, key);
                }
                None => self.not_understood(statement),
            },
            Rule::Rotation => self.rotate(statement, units::switch(&text)),
            Rule::Freebind => match units::switch(&text) {
                Some(on) => {
                    // Of two statements for it, one suffices.
                    self.nomen.freebind = Some(on || self.nomen.freebind == Some(true));
                    self.ledger.translated(statement, "`freebind` of [[listen]]");
                }
                None => self.not_understood(statement),
            },
            Rule::Same(..) | Rule::Unneeded(_) | Rule::Missing(_) => {
                if let Some((outcome, why)) = rule.without_key(statement) {
                    self.ledger.add(statement, outcome, why);
                }
            }
        }
    }

    /// Sets whether addresses are rotated with each query.
    pub(crate) fn rotate(&mut self, statement: &Statement, on: Option<bool>) {
        let Some(on) = on else { return self.not_understood(statement) };
        self.nomen.server.switch("rotate-addresses", on);
        match on {
            true => self.ledger.differs(
                statement,
                "`rotate-addresses` of [server] is for addresses (A and AAAA); other records keep their \
                 order",
            ),
            false => self.in_key(statement, Section::Server, "rotate-addresses"),
        }
    }

    /// Sets the source addresses of outgoing queries, one of each family. Returns whether all of them are
    /// set.
    pub(crate) fn ask_from(&mut self, addresses: &[IpAddr]) -> bool {
        let mut set = self.recurse().members("source").to_vec();
        for address in addresses {
            let is_same_family = |text: &String| text.contains(':') == address.is_ipv6();
            if !set.iter().any(is_same_family) {
                set.push(address.to_string());
            }
        }
        let all = addresses.iter().all(|address| set.contains(&address.to_string()));
        self.recurse().texts("source", set);
        all
    }

    /// Sets a number, in the key's unit.
    pub(crate) fn number(
        &mut self,
        statement: &Statement,
        section: Section,
        key: &'static str,
        value: Option<u64>,
    ) {
        match value.and_then(|value| bounded(section.header(), key, value)) {
            Some((setting, changed)) => {
                let shown = shown(&setting);
                self.nomen.section(section).set(key, setting);
                match changed {
                    true => self.ledger.differs(
                        statement,
                        format!("`{key}` of {} takes no such value; it is {shown} here", section.header()),
                    ),
                    false => self.in_key(statement, section, key),
                }
            }
            None => self.not_understood(statement),
        }
    }

    /// Sets a key's maximum, for a statement without a limit.
    fn unlimited(&mut self, statement: &Statement, section: Section, key: &'static str) {
        let Some((setting, _)) = bounded(section.header(), key, u64::MAX) else { return };
        let how =
            format!("`{key}` of {} has a limit always; it is {} here", section.header(), shown(&setting));
        self.nomen.section(section).set(key, setting);
        self.ledger.differs(statement, how);
    }

    /// Sets a number of a zone, in the key's unit.
    pub(crate) fn zone_number(
        &mut self,
        statement: &Statement,
        keys: &mut Keys,
        key: &'static str,
        value: Option<u64>,
    ) {
        match value.and_then(|value| bounded("[[zone]]", key, value)) {
            Some((setting, changed)) => {
                let words = format!("`{key}` takes no such value; it is {} here", shown(&setting));
                keys.set(key, setting);
                match changed {
                    true => self.ledger.differs(statement, words),
                    false => self.ledger.translated(statement, format!("`{key}` of the zone")),
                }
            }
            None => self.not_understood(statement),
        }
    }

    pub(crate) fn in_key(&mut self, statement: &Statement, section: Section, key: &str) {
        self.ledger.translated(statement, format!("`{key}` of {}", section.header()));
    }

    pub(crate) fn not_understood(&mut self, statement: &Statement) {
        self.ledger.missing(statement, "its value is not one that is understood here");
    }

    /// Sets whether answers of other servers are validated.
    pub(crate) fn validate(&mut self, statement: &Statement, on: bool) {
        match on {
            true => {
                self.ledger.unneeded(statement, "nomen validates anyway, with its own anchors of the root")
            }
            false => {
                self.recurse().switch("validate", false);
                self.in_key(statement, Section::Resolver, "validate");
            }
        }
    }

    /// Disables validation below a name.
    pub(crate) fn trust_nothing_below(&mut self, statement: &Statement, name: &str) {
        match domain(name) {
            Some(name) => {
                self.recurse().add("negative-trust-anchors", name);
                self.in_key(statement, Section::Resolver, "negative-trust-anchors");
            }
            None => self.not_understood(statement),
        }
    }

    /// Turns recursion on.
    pub(crate) fn recurse(&mut self) -> &mut Keys {
        self.nomen.section(Section::Resolver)
    }

    /// Adds a TSIG key. Returns whether it is usable.
    pub(crate) fn tsig_key(
        &mut self,
        statement: &Statement,
        name: &str,
        algorithm: &str,
        secret: &str,
    ) -> bool {
        let Some(name) = domain(name) else {
            self.ledger.missing(statement, "the key's name is not a domain name");
            return false;
        };
        let algorithm = algorithm.to_ascii_lowercase();
        let plain = algorithm.trim_end_matches('.');
        let plain = if plain.is_empty() { "hmac-sha256" } else { plain };
        if !["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"].contains(&plain) {
            let words = format!("nomen signs with HMAC-SHA1 and HMAC-SHA2 alone, not with {plain}");
            self.ledger.missing(statement, words);
            return false;
        }
        if !is_base64(secret) {
            self.ledger.missing(statement, "the key's secret is not base64");
            return false;
        }
        if self.nomen.has_key(&name) {
            self.ledger.differs(statement, "there is another key of this name; the first one counts");
            return true;
        }
        let mut block = Keys::default();
        block.text("name", name);
        block.text("algorithm", plain);
        block.text("secret", secret.split_whitespace().collect::<String>());
        self.nomen.tsig_keys.push(block);
        self.ledger.translated(statement, "[[tsig-key]]");
        true
    }

    /// The name of a usable key; reports names of other keys.
    pub(crate) fn known_key(&mut self, span: &SourceSpan, name: &str) -> Option<String> {
        let plain = domain(name).filter(|plain| self.nomen.has_key(plain));
        if plain.is_none() {
            let words = format!("there is no key `{name}` that nomen could use; what needs it is left out");
            self.ledger.part(span, name, Coverage::Missing, words);
        }
        plain
    }

    /// Sets `state-dir`, which secondaries and zones with updates need.
    pub(crate) fn keep_state(&mut self) {
        if self.nomen.server.get("state-dir").is_none() {
            self.nomen.server.text("state-dir", "/var/lib/nomen");
        }
    }
}

fn shown(setting: &Setting) -> String {
    match setting {
        Setting::Text(text) => text.clone(),
        Setting::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A name in nomen's configuration format: in lower case, without the final dot. `None` if it is not a name.
pub(crate) fn domain(text: &str) -> Option<String> {
    if text.is_empty() || !text.is_ascii() {
        return None;
    }
    let name = NameBuf::from_text(text.as_bytes(), Some(Name::ROOT)).ok()?;
    let text = name.to_string().to_ascii_lowercase();
    Some(match text.strip_suffix('.') {
        Some("") | None => text,
        // An escaped dot does not end a name.
        Some(plain) => plain.to_owned(),
    })
}

/// Returns the networks of a list that is separated by commas, semicolons or spaces; `None` if one is not a
/// network.
fn networks(text: &str) -> Option<Vec<String>> {
    let members = text.split([',', ';', ' ', '\t']).filter(|member| !member.is_empty());
    members.map(|member| Network::parse(member).map(|network| network.to_string())).collect()
}

/// Whether nomen accepts it as a secret.
pub(crate) fn is_base64(text: &str) -> bool {
    let bytes: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    bytes.len() > padding
        && padding <= 2
        && bytes.len().is_multiple_of(4)
        && bytes[..bytes.len() - padding].iter().all(good)
}

/// `address` or `address@port` in nomen's format; port 53 is omitted.
pub(crate) fn server(address: &str, port: Option<&str>) -> Option<String> {
    let ip: IpAddr = address.parse().ok()?;
    if ip.is_unspecified() || ip.is_multicast() {
        return None;
    }
    match port.map(str::parse::<u16>) {
        None | Some(Ok(53)) => Some(ip.to_string()),
        Some(Ok(0) | Err(_)) => None,
        Some(Ok(port)) => Some(with_port(ip, port)),
    }
}

/// Parses a server in Unbound's format, `ADDRESS[@PORT][#NAME]`.
pub(crate) fn server_with_port(text: &str) -> Option<String> {
    let text = text.split('#').next().unwrap_or_default();
    let (address, port) = text.split_once('@').map_or((text, None), |(address, port)| (address, Some(port)));
    server(address, port)
}

/// Parses a server in Unbound's format that is asked over TLS, into nomen's with an identity. Without a name,
/// Unbound accepts any certificate.
pub(crate) fn server_over_tls(text: &str) -> Option<String> {
    let (address, name) = text.split_once('#').map_or((text, None), |(address, name)| (address, Some(name)));
    let (ip, port) = address.split_once('@').map_or((address, None), |(ip, port)| (ip, Some(port)));
    let usual = if name.is_some() { 853 } else { 53 };
    let port = port.map_or(Some(usual), |port| port.parse().ok()).filter(|port| *port > 0)?;
    // It checks the address.
    server(ip, None)?;
    let identity = match name.filter(|name| !name.is_empty()) {
        None => "opportunistic".to_owned(),
        Some(name) if name.parse::<IpAddr>().is_ok() => name.to_owned(),
        Some(name) => domain(name)?,
    };
    Some(format!("{}#{identity}", with_port(ip.parse().ok()?, port)))
}

/// `address@port` in nomen's format.
pub(crate) fn with_port(ip: IpAddr, port: u16) -> String {
    if ip.is_ipv4() { format!("{ip}@{port}") } else { format!("[{ip}]@{port}") }
}

/// A path as text.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Milliseconds per second, for times in seconds.
pub(crate) const SECOND: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(domain("Example.COM."), Some("example.com".into()));
        assert_eq!(domain("."), Some(".".into()));
        assert_eq!(domain("a..b"), None);
        assert_eq!(domain("bücher"), None);
    }

    #[test]
    fn servers_have_addresses() {
        assert_eq!(server("192.0.2.1", Some("53")), Some("192.0.2.1".into()));
        assert_eq!(server("2001:db8::1", Some("5353")), Some("[2001:db8::1]@5353".into()));
        assert_eq!(server("0.0.0.0", None), None);
        assert_eq!(server("ns1", None), None);
        assert_eq!(server("192.0.2.1", Some("0")), None);
    }

    #[test]
    fn secrets_are_base64() {
        assert!(is_base64("c2VjcmV0"));
        assert!(is_base64("c2Vj cmU="));
        for bad in ["", "=", "abc", "ab!c", "===="] {
            assert!(!is_base64(bad), "{bad}");
        }
    }
}
