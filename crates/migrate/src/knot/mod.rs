//! knot.conf, of Knot DNS 3.0 to 3.5.

mod limits;
mod queries;
mod signing;
pub(crate) mod yaml;
mod zones;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::dnstap;
use crate::encrypted::{self, EncryptedListens};
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::network::{Client, Member, Network};
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, last};
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, rule, server, with_port};

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const FILES: Rule = Rule::Unneeded("nomen writes no such file, or keeps it in `state-dir`");

/// Keys of `server`.
const SERVER: &[NamedRule] = &[
    ("udp-workers", Rule::Number(Section::Server, "workers")),
    ("tcp-max-clients", Rule::Number(Section::Server, "tcp-connections")),
    ("tcp-idle-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("tcp-io-timeout", Rule::TimeLimit(Section::Server, "tcp-write-timeout", 1)),
    ("tcp-remote-io-timeout", Rule::TimeLimit(Section::Transfers, "incoming-idle-timeout", 1)),
    ("udp-max-payload", Rule::Number(Section::Server, "max-udp-size")),
    ("udp-max-payload-ipv4", Rule::Number(Section::Server, "max-udp-size")),
    ("udp-max-payload-ipv6", Rule::Number(Section::Server, "max-udp-size")),
    ("rundir", FILES),
    ("pidfile", FILES),
    ("tcp-workers", TUNING),
    ("background-workers", TUNING),
    ("async-start", TUNING),
    ("tcp-fastopen", TUNING),
    ("tcp-reuseport", TUNING),
    ("socket-affinity", TUNING),
    ("remote-pool-limit", TUNING),
    ("remote-pool-timeout", TUNING),
    ("remote-retry-delay", TUNING),
    ("dbus-event", Rule::Missing("nomen sends no D-Bus signals")),
    ("dbus-init-delay", TUNING),
    ("answer-rotation", Rule::Rotation),
    ("edns-client-subnet", Rule::Same(&["off"], "nomen does not use addresses of clients' networks")),
    (
        "proxy-allowlist",
        Rule::Missing(
            "`proxy-protocol-from` of [server] has the networks of proxies, all of whose messages must have a header; see docs/PROXIES.md",
        ),
    ),
    ("listen-xdp", Rule::Missing("write `xdp` into [[listen]]; see docs/AF_XDP.md")),
    ("key-file", Rule::Unneeded("no listener has TLS")),
    ("cert-file", Rule::Unneeded("no listener has TLS")),
    ("ca-file", Rule::Missing("nomen asks no client for a certificate")),
    ("quic-max-clients", TUNING),
    ("quic-outbuf-max-size", TUNING),
    ("quic-idle-close-timeout", TUNING),
];

/// Definitions that other parts of the file refer to by id.
pub(crate) struct Frame<'t> {
    /// Servers: addresses, optionally with port and key, in nomen's syntax.
    remotes: HashMap<String, Vec<String>>,
    /// Servers with source addresses: these, and the entry that sets them.
    sources: HashMap<String, (Vec<String>, &'t Statement)>,
    /// Items of `acl`.
    acls: HashMap<String, &'t Statement>,
    /// Items of `template`.
    templates: HashMap<String, &'t Statement>,
    /// Items of `policy`.
    policies: HashMap<String, &'t Statement>,
    /// Items of `submission`.
    submissions: HashMap<String, &'t Statement>,
    /// Items of `mod-queryacl`.
    query_modules: HashMap<String, &'t Statement>,
    /// Ids of servers with `automatic-acl` off.
    without_automatic: HashSet<String>,
    /// The `automatic-acl` statement, which permits a zone's servers what they need.
    automatic: Option<&'t Statement>,
    /// The folder for relative paths without a template's own.
    base: std::path::PathBuf,
}

/// Converts a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let parsed = yaml::parse(texts, path)?;
    for include in &parsed.includes {
        work.ledger.translated(include, "its sections, as if they stood here");
    }
    let sections = &parsed.sections;
    sections.iter().for_each(|section| work.ledger.open(section));
    let items = |key: &str| -> Vec<&Statement> {
        sections.iter().filter(|section| section.key() == key).flat_map(|section| section.block()).collect()
    };
    for item in items("key") {
        let get = |key| item.find(key).map_or("", Statement::value);
        work.ledger.open(item);
        let (id, algorithm, secret) = (get("id"), get("algorithm"), get("secret"));
        work.tsig_key(item.find("id").unwrap_or(item), id, algorithm, secret);
        for entry in item.block().iter().filter(|entry| entry.key() != "id") {
            work.ledger.translated(entry, "[[tsig-key]]");
        }
    }
    server_section(work, &items("server"));
    let by_id = |key: &str| -> HashMap<String, &Statement> {
        items(key).into_iter().filter_map(|item| Some((item.find("id")?.value().to_owned(), item))).collect()
    };
    let mut frame = Frame {
        remotes: HashMap::new(),
        sources: HashMap::new(),
        acls: by_id("acl"),
        query_modules: by_id("mod-queryacl"),
        templates: by_id("template"),
        policies: by_id("policy"),
        submissions: by_id("submission"),
        without_automatic: HashSet::new(),
        automatic: items("server").into_iter().find(|entry| entry.key() == "automatic-acl"),
        base: "/var/lib/knot".into(),
    };
    if let Some(found) = frame.automatic {
        work.ledger.translated(found, "`allow-transfer` and `allow-notify` of the zones");
    }
    items("remote").into_iter().for_each(|item| remote(work, item, &mut frame));
    items("remotes").into_iter().for_each(|item| remotes(work, item, &mut frame));
    for key in ["acl", "template", "zone", "mod-queryacl"] {
        items(key).into_iter().for_each(|item| work.ledger.open(item));
    }
    copies(work, sections);
    limits::convert(work, sections);
    zones::templates(work, &frame, &items("zone"));
    items("zone").into_iter().for_each(|item| zones::zone(work, &frame, item));
    log(work, &items("log"));
    work.ledger.sweep(sections, &|statement| explain(sections, statement));
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(sections), 0);
    Ok(())
}

/// Converts dnstap of zones and templates. nomen has one sink for all.
fn copies(work: &mut Work, sections: &[Statement]) {
    let of = |key: &str| {
        let key = key.to_owned();
        sections.iter().filter(move |section| section.key() == key).flat_map(|section| section.block())
    };
    let modules = of("template").chain(of("zone")).flat_map(|item| item.block());
    let modules = modules.filter(|entry| ["module", "global-module"].contains(&entry.key()));
    let ids: Vec<&str> = modules
        .flat_map(Statement::values)
        .filter_map(|word| word.text.strip_prefix("mod-dnstap")?.strip_prefix('/'))
        .collect();
    for item in of("mod-dnstap") {
        let id = item.find("id").map_or("", Statement::value);
        if !ids.contains(&id) {
            work.ledger.unneeded(item, "no zone of this configuration has it");
        } else if work.nomen.dnstap.is_some() {
            work.ledger.missing(item, "nomen copies messages to one place alone");
        } else {
            dnstap::of_knot(work, item);
        }
    }
}

/// The report for a statement that has none yet, depending on its section.
fn explain(sections: &[Statement], statement: &Statement) -> (Coverage, String) {
    let within = |section: &&Statement| {
        let (of, at) = (&section.span, &statement.span);
        of.text == at.text && of.range.start <= at.range.start
    };
    let section = sections.iter().rfind(within).map_or("", Statement::key);
    let (outcome, why) = match section {
        "control" => {
            (Coverage::Unneeded, "`nomen ctl` talks to a local socket that [control] has by default")
        }
        "statistics" => (Coverage::Unneeded, "[metrics] has figures at any time"),
        "database" => (Coverage::Unneeded, "nomen keeps what it must in `state-dir`"),
        "policy" | "submission" => (Coverage::Unneeded, "no zone of this configuration is signed under it"),
        "keystore" => (
            Coverage::Missing,
            "nomen has the keys in the folder `keys` of `state-dir`: `nomen key import` takes over PEM files",
        ),
        "dnskey-sync" => (Coverage::Missing, "nomen does not exchange keys with other signers"),
        "xdp" => (Coverage::Missing, "write `xdp` into [[listen]]; see docs/AF_XDP.md"),
        "mod-stats" => (Coverage::Unneeded, "[metrics] has figures at any time"),
        "mod-queryacl" => (Coverage::Unneeded, "no zone of this configuration has it"),
        "mod-onlinesign" => (
            Coverage::Missing,
            "`online = \"compact\"` in the `dnssec-policy` of the zone signs its answers; see docs/SIGNING.md",
        ),
        section if section.starts_with("mod-") => (Coverage::Missing, "nomen has no modules"),
        "acl" | "template" | "remote" | "remotes" => {
            let known = zones::KEYS.contains(&statement.key()) || ACL.contains(&statement.key());
            match known {
                true => (Coverage::Unneeded, "no zone of this configuration has it"),
                false => (zones::explain(statement).0, zones::explain(statement).1),
            }
        }
        "zone" => zones::explain(statement),
        _ => (Coverage::Missing, "nomen has nothing for it"),
    };
    (outcome, why.to_owned())
}

/// Keys of `acl`.
const ACL: &[&str] = &[
    "id",
    "address",
    "key",
    "remote",
    "action",
    "deny",
    "update-type",
    "update-owner",
    "update-owner-match",
    "update-owner-name",
    "comment",
];

/// Converts listening addresses, each with its port or else the usual one.
fn listen(work: &mut Work, entry: &Statement, usual: &str, add: &mut dyn FnMut(String)) {
    for value in entry.values() {
        let (ip, port) = value.text.split_once('@').unwrap_or((&value.text, usual));
        match (ip.parse(), port.parse()) {
            (Ok(ip), Ok(port)) => add(with_port(ip, port)),
            _ => {
                let why = "nomen listens on addresses, not on sockets of other kinds";
                work.ledger.part(&value.span, &value.text, Coverage::Missing, why);
            }
        }
    }
    work.ledger.translated(entry, "`addr` of [[listen]]");
}

/// Converts the listeners for TLS and QUIC and their certificate.
fn encryption(work: &mut Work, all: &[&Statement]) {
    let mut encrypted = EncryptedListens::default();
    for (key, proto) in [("listen-tls", "tls"), ("listen-quic", "quic")] {
        for entry in all.iter().filter(|entry| entry.key() == key) {
            listen(work, entry, "853", &mut |address| encrypted.add(proto, address));
        }
    }
    let Some(first) = last(all, "listen-tls").or_else(|| last(all, "listen-quic")) else { return };
    let file = |key: &str| last(all, key).filter(|found| !found.value().is_empty());
    match (file("cert-file"), file("key-file")) {
        // Relative paths are in its folder of settings.
        (Some(chain), Some(key)) => encrypted::certificate(work, Path::new("/etc/knot"), chain, key),
        _ => encrypted::uncertified(work, first),
    }
    encrypted.finish(work);
}

fn server_section(work: &mut Work, all: &[&Statement]) {
    let mut block = Keys::default();
    for entry in all {
        match entry.key() {
            "listen" => listen(work, entry, "53", &mut |address| block.add("addr", address)),
            "identity" | "version" => {
                let key = if entry.key() == "identity" { "id" } else { "version" };
                let text = if entry.value().is_empty() { "hide" } else { entry.value() };
                work.nomen.server.text(key, text);
                work.in_key(entry, Section::Server, key);
            }
            "nsid" => match entry.value() {
                "" => work.ledger.unneeded(entry, "nomen has no NSID unless `nsid` is set"),
                text => {
                    work.nomen.server.text("nsid", text);
                    work.in_key(entry, Section::Server, "nsid");
                }
            },
            "user" => {
                let (user, group) = entry.value().split_once(':').unwrap_or((entry.value(), ""));
                work.nomen.server.text("user", user);
                if !group.is_empty() {
                    work.nomen.server.text("group", group);
                }
                work.in_key(entry, Section::Server, "user");
            }
            key => {
                if let Some(rule) = rule(SERVER, key) {
                    work.apply(entry, rule);
                }
            }
        }
    }
    // By default Knot reports the host's name and its own version.
    if work.nomen.server.get("id").is_none() {
        work.nomen.server.text("id", "auto");
    }
    if block.0.is_empty() {
        ["0.0.0.0", "::"]
            .iter()
            .filter_map(|ip| ip.parse().ok())
            .for_each(|ip| block.add("addr", with_port(ip, 53)));
    }
    work.nomen.listens.push(block);
    encryption(work, all);
}

fn remote<'t>(work: &mut Work, item: &'t Statement, frame: &mut Frame<'t>) {
    work.ledger.open(item);
    let id = item.find("id").map_or("", Statement::value).to_owned();
    let mut usable = true;
    let key = item.find("key").and_then(|entry| {
        let found = entry.argument(0).and_then(|word| work.known_key(&word.span, &word.text));
        usable = found.is_some();
        found
    });
    let identity = over_tls(item);
    let mut all = Vec::new();
    for entry in item.block() {
        match entry.key() {
            "id" | "key" => work.ledger.translated(entry, "wherever the server is named"),
            "address" => {
                for value in entry.values() {
                    let (ip, port) = value
                        .text
                        .split_once('@')
                        .map_or((value.text.as_str(), None), |(ip, port)| (ip, Some(port)));
                    let usual = identity.as_ref().map(|_| "853");
                    match server(ip, port.or(usual)).map(|server| with_identity(server, identity.as_deref()))
                    {
                        Some(server) => all.push(server),
                        None => work.ledger.part(
                            &value.span,
                            &value.text,
                            Coverage::Missing,
                            "it is not the address of a server",
                        ),
                    }
                }
                work.ledger.translated(entry, "wherever the server is named");
            }
            "via" => match sources(entry) {
                Some(found) => {
                    frame.sources.insert(id.clone(), (found, entry));
                }
                None => work
                    .ledger
                    .missing(entry, "`source` of a zone is one address of each family, without a port"),
            },
            "quic" if units::switch(entry.value()) != Some(false) => {
                usable = false;
                work.ledger.missing(entry, "nomen asks over UDP, TCP and TLS; the server is left out");
            }
            "tls" | "cert-key" | "cert-hostname" if identity.is_some() => {
                work.ledger.translated(entry, "what is after the `#` of the servers");
            }
            "cert-hostname" if item.find("tls").is_some_and(is_on) => {
                usable = false;
                work.ledger.missing(entry, "a server has one name here; the server is left out");
            }
            "cert-key" | "cert-hostname" => work.ledger.unneeded(entry, "the server is not asked over TLS"),
            "automatic-acl" => {
                if units::switch(entry.value()) == Some(false) {
                    frame.without_automatic.insert(id.clone());
                }
                work.ledger.translated(entry, "`allow-transfer` of the zones");
            }
            "block-notify-after-transfer" | "no-edns" | "quic" | "tls" | "comment" => {
                work.ledger.unneeded(entry, "nomen decides this by itself");
            }
            _ => {}
        }
    }
    let with_key = |server: String| key.as_ref().map_or(server.clone(), |key| format!("{server} key:{key}"));
    let all = if usable { all.into_iter().map(with_key).collect() } else { Vec::new() };
    frame.remotes.insert(id, all);
}

/// Returns what authenticates a remote that is asked over TLS: its name and the pins of its key. `None` if it
/// is asked in the clear, or has several names, of which nomen takes one.
fn over_tls(item: &Statement) -> Option<String> {
    item.find("tls").filter(|entry| is_on(entry))?;
    let all =
        |key| item.find(key).into_iter().flat_map(Statement::values).filter(|word| !word.text.is_empty());
    let names: Vec<String> = all("cert-hostname").filter_map(|word| domain(&word.text)).collect();
    if names.len() > 1 || names.len() < all("cert-hostname").count() {
        return None;
    }
    let pins = all("cert-key").map(|word| format!("sha256/{}", word.text));
    let identity: Vec<String> = names.into_iter().chain(pins).collect();
    Some(if identity.is_empty() { "opportunistic".to_owned() } else { identity.join(",") })
}

fn is_on(entry: &Statement) -> bool {
    units::switch(entry.value()) == Some(true)
}

/// Returns a server with its port and its identity, if it is asked over TLS.
fn with_identity(server: String, identity: Option<&str>) -> String {
    match identity {
        None => server,
        // The port 53 is not written, and not the default of TLS.
        Some(identity) if server.contains('@') => format!("{server}#{identity}"),
        Some(identity) => format!("{server}@53#{identity}"),
    }
}

/// The source addresses in `via`: the first of each family.
fn sources(entry: &Statement) -> Option<Vec<String>> {
    let all: Option<Vec<std::net::IpAddr>> = entry.values().map(|word| word.text.parse().ok()).collect();
    let all = all?;
    let first = |v4: bool| all.iter().find(|ip| ip.is_ipv4() == v4);
    Some([first(true), first(false)].into_iter().flatten().map(ToString::to_string).collect())
}

fn remotes<'t>(work: &mut Work, item: &'t Statement, frame: &mut Frame<'t>) {
    work.ledger.open(item);
    let id = item.find("id").map_or("", Statement::value).to_owned();
    let all = item.find("remote").map(|entry| named_servers(work, frame, entry)).unwrap_or_default();
    item.block().iter().for_each(|entry| work.ledger.translated(entry, "wherever the servers are named"));
    let members = || item.find("remote").into_iter().flat_map(Statement::values);
    if members().any(|word| frame.without_automatic.contains(&word.text)) {
        frame.without_automatic.insert(id.clone());
    }
    let found: Option<Vec<_>> = members().map(|word| frame.sources.get(&word.text).cloned()).collect();
    if let Some([first, rest @ ..]) = found.as_deref()
        && rest.iter().all(|other| other.0 == first.0)
    {
        frame.sources.insert(id.clone(), first.clone());
        // The other members have the same entries.
        rest.iter().for_each(|(_, entry)| work.ledger.translated(entry, "`source` of the zones"));
    }
    frame.remotes.insert(id, all);
}

/// The servers named by an entry.
fn named_servers(work: &mut Work, frame: &Frame<'_>, entry: &Statement) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for value in entry.values().filter(|value| !value.text.is_empty()) {
        match frame.remotes.get(&value.text) {
            Some(servers) => out.extend(servers.iter().cloned()),
            None => {
                work.ledger.part(&value.span, &value.text, Coverage::Missing, "there is no remote of this id")
            }
        }
    }
    let mut seen = HashSet::new();
    out.retain(|server| seen.insert(server.clone()));
    out
}

/// A client of an `acl` item: its networks (`None` for all), and its key.
type AclClient = (Option<Vec<Network>>, Option<String>);

/// The members of an `acl` item, and whether these are all of its clients.
fn members(work: &mut Work, frame: &Frame<'_>, item: &Statement) -> (Vec<AclClient>, bool) {
    let mut whole = true;
    let mut networks: Option<Vec<Network>> = None;
    for value in item.find("address").into_iter().flat_map(Statement::values) {
        match Network::parse_range(&value.text) {
            Some(found) => networks.get_or_insert_default().extend(found),
            None => {
                // An unreadable address must not mean all clients.
                networks.get_or_insert_default();
                whole = false;
                work.ledger.part(&value.span, &value.text, Coverage::Missing, "it is no network");
            }
        }
    }
    let mut out = Vec::new();
    let mut any_key = false;
    for value in item.find("key").into_iter().flat_map(Statement::values) {
        any_key = true;
        match value.text.as_str() {
            "" => out.push((networks.clone(), None)),
            name => {
                let key = work.known_key(&value.span, name);
                whole &= key.is_some();
                out.extend(key.map(|key| (networks.clone(), Some(key))));
            }
        }
    }
    for value in item.find("remote").into_iter().flat_map(Statement::values) {
        any_key |= !value.text.is_empty();
        whole &= value.text.is_empty() || frame.remotes.get(&value.text).is_some_and(|all| !all.is_empty());
    }
    for server in item.find("remote").map(|entry| named_servers(work, frame, entry)).unwrap_or_default() {
        out.push(client_of(&server));
    }
    if !any_key {
        out.push((networks, None));
    }
    (out, whole)
}

/// A server as a client: its address without the port, and its key.
fn client_of(server: &str) -> AclClient {
    let (address, key) =
        server.split_once(" key:").map_or((server, None), |(a, key)| (a, Some(key.to_owned())));
    let ip = address.split('@').next().unwrap_or_default().trim_matches(['[', ']']);
    (Network::parse(ip).map(|network| vec![network]), key)
}

/// A refusing member of a nomen list; keys cannot be refused.
fn refused(networks: Option<Vec<Network>>, key: Option<String>) -> Member {
    let client = match (networks, key) {
        (_, Some(_)) => Client::Unknown,
        (Some(networks), None) => Client::Networks(networks),
        (None, None) => Client::Networks(Network::all().into()),
    };
    Member { deny: true, client }
}

fn log(work: &mut Work, items: &[&Statement]) {
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            work.ledger.missing(item, "nomen has one log for all; see `target` and `level` of [log]");
            continue;
        }
        work.ledger.open(item);
        for entry in item.block() {
            match (entry.key(), entry.value()) {
                ("target", "syslog") => {
                    work.ledger.differs(entry, "nomen writes to stderr, which systemd keeps")
                }
                ("target", _) => work.apply(entry, Rule::Text(Section::Log, "target")),
                ("any", level) => {
                    let level = match level {
                        "critical" | "error" => "error",
                        "warning" => "warn",
                        "notice" | "info" => "info",
                        "debug" => "debug",
                        _ => {
                            work.not_understood(entry);
                            continue;
                        }
                    };
                    work.nomen.log.text("level", level);
                    work.in_key(entry, Section::Log, "level");
                }
                _ => work.ledger.missing(entry, "nomen has one level for all; see `level` of [log]"),
            }
        }
    }
}
