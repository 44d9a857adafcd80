//! recursor.yml of the Recursor 5: its settings as statements of the old format, which are converted then.
//!
//! A setting of a section has the name of the old one, but for hyphens and those in [`NAMES`]. Lists of one
//! line each become one value. Policy zones and trust anchors, which the old format has in Lua, stay apart.

use std::path::Path;

use super::rpz;
use crate::anchors;
use crate::ledger::Coverage;
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Part, SourceWord, Statement};
use crate::work::Work;
use crate::yaml;

/// Settings that have another name in the old format.
const NAMES: &[(&str, &str, &str)] = &[
    ("incoming", "listen", "local-address"),
    ("incoming", "port", "local-port"),
    ("incoming", "tcp_timeout", "client-tcp-timeout"),
    ("incoming", "pdns_distributes_queries", "pdns-distributes-queries"),
    ("outgoing", "source_address", "query-local-address"),
    ("outgoing", "edns_bufsize", "edns-outgoing-bufsize"),
    ("outgoing", "edns_padding", "edns-padding-out"),
    ("outgoing", "lowercase", "lowercase-outgoing"),
    ("outgoing", "tcp_max_idle_ms", "tcp-out-max-idle-ms"),
    ("outgoing", "tcp_max_idle_per_auth", "tcp-out-max-idle-per-auth"),
    ("outgoing", "tcp_max_idle_per_thread", "tcp-out-max-idle-per-thread"),
    ("outgoing", "tcp_max_queries", "tcp-out-max-queries"),
    ("dnssec", "validation", "dnssec"),
    ("dnssec", "log_bogus", "dnssec-log-bogus"),
    ("recordcache", "max_ttl", "max-cache-ttl"),
    ("recordcache", "max_entries", "max-cache-entries"),
    ("recordcache", "shards", "record-cache-shards"),
    ("recordcache", "locked_ttl_perc", "record-cache-locked-ttl-perc"),
    ("packetcache", "disable", "disable-packetcache"),
    ("packetcache", "max_entries", "max-packetcache-entries"),
    ("packetcache", "ttl", "packetcache-ttl"),
    ("packetcache", "negative_ttl", "packetcache-negative-ttl"),
    ("packetcache", "servfail_ttl", "packetcache-servfail-ttl"),
    ("packetcache", "shards", "packetcache-shards"),
    ("logging", "common_errors", "log-common-errors"),
    ("logging", "rpz_changes", "log-rpz-changes"),
    ("logging", "timestamp", "log-timestamp"),
    ("logging", "facility", "logging-facility"),
    ("webservice", "address", "webserver-address"),
    ("webservice", "port", "webserver-port"),
    ("webservice", "password", "webserver-password"),
    ("webservice", "allow_from", "webserver-allow-from"),
    ("webservice", "loglevel", "webserver-loglevel"),
    ("ecs", "add_for", "ecs-add-for"),
    ("ecs", "ipv4_bits", "ecs-ipv4-bits"),
    ("ecs", "ipv6_bits", "ecs-ipv6-bits"),
    ("ecs", "scope_zero_address", "ecs-scope-zero-address"),
    ("nod", "tracking", "new-domain-tracking"),
    ("snmp", "agent", "snmp-agent"),
    ("snmp", "daemon_socket", "snmp-daemon-socket"),
    ("carbon", "server", "carbon-server"),
];

/// Settings whose old names are unlike any other setting, by section.
const SECTIONS: [&str; 12] = [
    "incoming",
    "outgoing",
    "dnssec",
    "recordcache",
    "packetcache",
    "recursor",
    "logging",
    "webservice",
    "ecs",
    "nod",
    "snmp",
    "carbon",
];

/// Whether a text is YAML: its first line that is no comment is a key without a value, or the mark of a
/// document.
pub(super) fn is_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().is_some_and(|line| {
        line == "---"
            || line.strip_suffix(':').is_some_and(|key| SECTIONS.contains(&key))
            || line.split_once(": {").is_some_and(|(key, _)| SECTIONS.contains(&key))
    })
}

/// A file in YAML.
pub(super) struct RecursorYaml {
    /// Its settings, as statements of the old format.
    pub(super) settings: Vec<Statement>,
    /// The members of `rpzs`, in their order.
    rpzs: Vec<Statement>,
    /// The members of `trustanchors` and `negative_trustanchors`.
    anchors: Vec<Statement>,
    negative: Vec<Statement>,
    /// What would widen what clients may do if it were left out.
    pub(super) unreadable: Vec<Statement>,
}

/// Parses a file.
pub(super) fn parse(texts: &mut Texts<'_>, path: &Path) -> Result<RecursorYaml, SyntaxFault> {
    let number = texts.open(path, None)?;
    let sections = yaml::parse(texts, number)?;
    texts.close();
    let (settings, rpzs, anchors, negative, unreadable) = Default::default();
    let mut found = RecursorYaml { settings, rpzs, anchors, negative, unreadable };
    for section in &sections {
        if section.block().is_empty() && !section.value().is_empty() {
            found.settings.push(renamed(section, section.key().to_owned(), section.value().to_owned()));
        }
        for setting in section.block() {
            found.take(section.key(), setting);
        }
    }
    Ok(found)
}

impl RecursorYaml {
    fn take(&mut self, section: &str, setting: &Statement) {
        match (section, setting.key()) {
            ("recursor", "rpzs") => self.rpzs.extend(setting.block().iter().cloned()),
            ("dnssec", "trustanchors") => self.anchors.extend(setting.block().iter().cloned()),
            ("dnssec", "negative_trustanchors") => self.negative.extend(setting.block().iter().cloned()),
            ("recursor", "forward_zones" | "forward_zones_recurse") => {
                for member in setting.block() {
                    let recurse = text(member, "recurse") == "true" || setting.key() != "forward_zones";
                    let servers = values(member.find("forwarders")).join(";");
                    let rule = format!("{}={servers}", text(member, "zone"));
                    let key = if recurse { "forward-zones-recurse" } else { "forward-zones" };
                    self.settings.push(renamed(member, key.into(), rule));
                }
            }
            ("recursor", "auth_zones") => {
                for member in setting.block() {
                    let zone = format!("{}={}", text(member, "zone"), text(member, "file"));
                    self.settings.push(renamed(member, "auth-zones".into(), zone));
                }
            }
            // Their files are YAML, too, and have zones, servers and clients.
            ("recursor", "include_dir" | "forward_zones_file") | ("incoming", "allow_from_file")
                if !setting.value().is_empty() =>
            {
                self.unreadable.push(renamed(
                    setting,
                    old_name(section, setting.key()),
                    setting.value().into(),
                ));
            }
            ("recursor", "sortlists") | ("incoming", "proxymappings") => {
                self.unreadable.push(renamed(setting, old_name(section, setting.key()), "set".into()));
            }
            _ => {
                let value = match setting.block() {
                    [] => setting.value().to_owned(),
                    _ => values(Some(setting)).join(", "),
                };
                let value = match value.as_str() {
                    "true" => "yes".to_owned(),
                    "false" => "no".to_owned(),
                    _ => value,
                };
                self.settings.push(renamed(setting, old_name(section, setting.key()), value));
            }
        }
    }

    /// Converts what the old format has in Lua. Refuses recursion for what cannot be moved.
    pub(super) fn convert(&self, work: &mut Work, texts: &Texts<'_>, path: &Path, off: bool) {
        for found in &self.unreadable {
            work.refuse_recursion(found, "what it names is not read");
        }
        for found in &self.rpzs {
            match rpz::of_yaml(work, texts, found, path) {
                true => work.ledger.translated(found, "[[zone]] and [[policy.zone]]"),
                false => work.refuse_recursion(found, "it is a policy list (RPZ) that cannot be moved"),
            }
        }
        for found in &self.negative {
            work.trust_nothing_below(found, &text(found, "name"));
            work.ledger.translated(found, "`negative-trust-anchors` of [resolver]");
        }
        for found in &self.anchors {
            if off {
                work.ledger.unneeded(found, "nothing is validated");
                continue;
            }
            for record in values(found.find("dsrecords")) {
                let words: Vec<&str> = record.split_whitespace().collect();
                if let Err(why) = anchors::add(work, &text(found, "name"), "DS", &words, false) {
                    let title = found.title();
                    work.ledger.part(&found.span, &title, Coverage::Missing, format!("`{record}`: {why}"));
                }
            }
            work.ledger.translated(found, "`trust-anchors` of [resolver]");
        }
    }

    /// All statements, for the account of what became of each.
    #[cfg(test)]
    pub(super) fn others(&self) -> impl Iterator<Item = &Statement> {
        [&self.rpzs, &self.anchors, &self.negative, &self.unreadable].into_iter().flatten()
    }
}

/// The name of a setting in the old format; that of its section is before one that is not known there.
fn old_name(section: &str, key: &str) -> String {
    let known = NAMES.iter().find(|(of, name, _)| (*of, *name) == (section, key));
    match known {
        Some((.., old)) => (*old).to_owned(),
        None if SECTIONS.contains(&section) => key.replace('_', "-"),
        None => format!("{section}.{key}"),
    }
}

/// A statement in place of another one, with this key and value.
fn renamed(of: &Statement, key: String, value: String) -> Statement {
    let word = |text| Part::Word(SourceWord { text, quoted: false, span: of.span.clone() });
    Statement { id: of.id, parts: vec![word(key), word(value)], span: of.span.clone() }
}

/// The value of a key of a list member.
pub(super) fn text(member: &Statement, key: &str) -> String {
    member.find(key).map(|found| found.value().to_owned()).unwrap_or_default()
}

/// The members of a list.
pub(super) fn values(list: Option<&Statement>) -> Vec<String> {
    let block = list.map(Statement::block).unwrap_or_default();
    block.iter().map(|member| member.key().to_owned()).collect()
}
