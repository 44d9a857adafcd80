//! A configuration being moved: what was read, what is made of it, and what became of each statement. And the
//! rules for statements that have a key to themselves.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use wire::name::{Name, NameBuf};

use crate::ledger::{Ledger, Outcome};
use crate::model::{Keys, Nomen, Section, Setting, bounded};
use crate::text::SourceSpan;
use crate::tree::Statement;
use crate::units;

/// What is done with a statement that has one value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// A number for this key.
    Number(Section, &'static str),
    /// The same, where 0 means no limit: the most that the key takes.
    Limit(Section, &'static str),
    /// The same, where 0 means what the program chooses.
    Choice(Section, &'static str),
    /// A duration that is written in units of so many milliseconds where it has none.
    Time(Section, &'static str, u64),
    /// The same, where 0 means no limit.
    TimeLimit(Section, &'static str, u64),
    /// Yes or no.
    Switch(Section, &'static str),
    /// The text as it is.
    Text(Section, &'static str),
    /// Yes or no: whether records come in another order for each query.
    Rotation,
    /// Yes or no: whether addresses are listened on that no interface has yet.
    Freebind,
    /// With one of these values it is what nomen does anyway. Any other has no counterpart, for this reason.
    Same(&'static [&'static str], &'static str),
    /// It needs no counterpart, for this reason.
    Unneeded(&'static str),
    /// It has none, for this reason.
    Missing(&'static str),
}

impl Rule {
    /// What becomes of a statement for which there is no key, and why; `None` where the rule has a key for
    /// it.
    pub(crate) fn without_key(self, statement: &Statement) -> Option<(Outcome, String)> {
        let text = statement.value();
        let same = |value: &&str| {
            let on = units::switch(value);
            text.eq_ignore_ascii_case(value) || on.is_some() && units::switch(text) == on
        };
        Some(match self {
            Rule::Unneeded(why) => (Outcome::Unneeded, why.into()),
            Rule::Same(values, _) if values.iter().any(same) => (Outcome::Unneeded, DOES_SO.into()),
            Rule::Missing(why) | Rule::Same(_, why) => (Outcome::Missing, why.into()),
            Rule::Number(..)
            | Rule::Limit(..)
            | Rule::Choice(..)
            | Rule::Time(..)
            | Rule::TimeLimit(..)
            | Rule::Switch(..)
            | Rule::Text(..)
            | Rule::Rotation
            | Rule::Freebind => return None,
        })
    }
}

const DOES_SO: &str = "nomen does so anyway";

/// Special-use names that nomen answers for, but for those that are one of many like it.
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

/// Whether nomen answers for a name by itself. A test of the program compares with its own.
pub fn is_special(name: &str) -> bool {
    let numbered = |end: &str, numbers: std::ops::RangeInclusive<u8>| {
        let number = name.strip_suffix(end).and_then(|number| number.parse().ok());
        number.is_some_and(|number| numbers.contains(&number))
    };
    SPECIAL.contains(&name)
        || numbered(".172.in-addr.arpa", 16..=31)
        || numbered(".100.in-addr.arpa", 64..=127)
}

/// The special-use names under which networks that are not public have their addresses (RFC 6303).
pub(crate) fn private_reverse() -> Vec<String> {
    let numbered = |end: &str, numbers: std::ops::RangeInclusive<u8>| {
        numbers.map(|number| format!("{number}{end}")).collect::<Vec<_>>()
    };
    // What is left has the names of this host, or of DNS64.
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

/// A configuration being moved.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) nomen: Nomen,
    pub(crate) ledger: Ledger,
    /// Zone files, and the folder that the peer's `$INCLUDE` starts from; none where that is the file's own.
    pub(crate) zone_files: Vec<(PathBuf, Option<PathBuf>)>,
    /// Files of hints, and where they are named.
    pub(crate) hints: Vec<(PathBuf, SourceSpan)>,
    /// Trust anchors.
    pub(crate) anchors: Anchors,
    /// What is refused, because what the source does with it cannot be said.
    pub(crate) narrow: Narrow,
    /// Whether the source answers every client from its zones, where it has one list for these and for
    /// recursion.
    pub(crate) answers_all: bool,
    /// Whether the source sends zones over TLS alone.
    pub(crate) encrypted_transfers: bool,
    /// Whether servers at port 853 are asked in the clear.
    pub(crate) plain_at_853: bool,
}

/// Trust anchors that were found.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    pub(crate) found: Vec<Anchor>,
    /// Whether the peer has those of the public root beside them.
    pub(crate) public_root: bool,
    /// Whether those follow their zone (RFC 5011).
    pub(crate) root_followed: bool,
}

/// A trust anchor.
#[derive(Debug)]
pub(crate) struct Anchor {
    /// As nomen's configuration has it.
    pub(crate) line: String,
    /// Whether it is one of the public root's.
    pub(crate) root: bool,
    /// Whether it follows its zone (RFC 5011).
    pub(crate) followed: bool,
}

/// What is refused, because what the source does with it cannot be said.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    /// Domains whose names may not be asked of other servers.
    pub(crate) domains: Vec<String>,
    /// Those of them below which rules are left out as well.
    pub(crate) whole: Vec<String>,
    /// Domains whose names are found from the root servers down, whatever rule stands above them.
    pub(crate) iterated: Vec<String>,
    /// Recursion is for no client.
    pub(crate) closed: bool,
    /// Zones whose queries are limited: as catalog zones alone, which answer no queries, they are served.
    pub(crate) only_catalogs: Vec<String>,
}

impl Work {
    /// Does what a rule says with a statement.
    pub(crate) fn apply(&mut self, statement: &Statement, rule: Rule) {
        let text = statement.value().to_owned();
        let section = match rule {
            Rule::Number(section, _) | Rule::Limit(section, _) | Rule::Choice(section, _) => Some(section),
            Rule::Time(section, ..) | Rule::TimeLimit(section, ..) => Some(section),
            Rule::Switch(section, _) | Rule::Text(section, _) => Some(section),
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
            Rule::Rotation => self.rotate(statement, units::switch(&text)),
            Rule::Freebind => match units::switch(&text) {
                Some(on) => {
                    // Of two statements for it, one is enough.
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

    /// Sets whether addresses come in another order for each query.
    pub(crate) fn rotate(&mut self, statement: &Statement, on: Option<bool>) {
        let Some(on) = on else { return self.not_understood(statement) };
        self.nomen.server.switch("rotate-addresses", on);
        match on {
            true => self.ledger.differs(
                statement,
                "`rotate-addresses` of [server] is for addresses (A and AAAA); other records keep their order",
            ),
            false => self.in_key(statement, Section::Server, "rotate-addresses"),
        }
    }

    /// Sets the addresses that other servers are asked from, one of each family. Returns whether all of them
    /// are set.
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

    /// Sets a number, in the key's measure.
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

    /// Sets the most that a key takes, for a statement that says that there is no limit.
    fn unlimited(&mut self, statement: &Statement, section: Section, key: &'static str) {
        let Some((setting, _)) = bounded(section.header(), key, u64::MAX) else { return };
        let how =
            format!("`{key}` of {} has a limit always; it is {} here", section.header(), shown(&setting));
        self.nomen.section(section).set(key, setting);
        self.ledger.differs(statement, how);
    }

    /// Sets a number of a zone, in the key's measure.
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

    /// Writes whether the answers of other servers are validated.
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

    /// Has nothing validated below a name, for a statement that says so.
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

    /// Adds a key (TSIG). Returns whether it can be used.
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

    /// The name of a key that can be used; what names another is reported.
    pub(crate) fn known_key(&mut self, span: &SourceSpan, name: &str) -> Option<String> {
        let plain = domain(name).filter(|plain| self.nomen.has_key(plain));
        if plain.is_none() {
            let words = format!("there is no key `{name}` that nomen could use; what needs it is left out");
            self.ledger.part(span, name, Outcome::Missing, words);
        }
        plain
    }

    /// A secondary or a zone that takes updates needs a folder that outlives the process.
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

/// A name as nomen's configuration has it: in lower case, without the final dot. None if it is no name.
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

/// Whether nomen takes it for a secret.
pub(crate) fn is_base64(text: &str) -> bool {
    let bytes: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    bytes.len() > padding
        && padding <= 2
        && bytes.len().is_multiple_of(4)
        && bytes[..bytes.len() - padding].iter().all(good)
}

/// `address` or `address@port`, as nomen writes it; the port is left out where it is 53.
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

/// A server as Unbound writes it, `ADDRESS[@PORT][#NAME]`.
pub(crate) fn server_with_port(text: &str) -> Option<String> {
    let text = text.split('#').next().unwrap_or_default();
    let (address, port) = text.split_once('@').map_or((text, None), |(address, port)| (address, Some(port)));
    server(address, port)
}

/// `address@port`, as nomen writes it.
pub(crate) fn with_port(ip: IpAddr, port: u16) -> String {
    if ip.is_ipv4() { format!("{ip}@{port}") } else { format!("[{ip}]@{port}") }
}

/// A path as text.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The unit of times that are written in seconds.
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
