//! nsd.conf, of NSD 4.3 to 4.12.

mod limits;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::clauses;
use crate::clients::{self, Grant};
use crate::dnstap;
use crate::encrypted;
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting, Zone};
use crate::network::{Client, Member, Network, passes};
use crate::nsd_unbound::{PortUse, listen, nsid, verbosity};
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, last};
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, TlsAuth, Work, domain, path_text, rule, server};

/// Keywords that begin a section.
pub(crate) const SECTIONS: &[&str] =
    &["server", "zone", "pattern", "key", "remote-control", "tls-auth", "verify", "dnstap", "xdp"];

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const FILES: Rule = Rule::Unneeded("nomen writes no such file, or keeps it in `state-dir`");
const RATES: Rule = Rule::Missing("nomen has one rate for all zones: that of `rrl-ratelimit`");
/// Converted with the listeners.
const TLS: Rule = Rule::Missing("nomen cannot use this value");
/// Clients of that port need a certificate.
const MUTUAL: &str = "nomen's listeners do not need certificates of all clients";
const VERIFY: Rule = Rule::Missing("nomen runs no program to verify a zone");

const RULES: &[NamedRule] = &[
    ("server-count", Rule::Number(Section::Server, "workers")),
    ("tcp-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("receive-buffer-size", Rule::Choice(Section::Server, "udp-buffer")),
    ("send-buffer-size", Rule::Unneeded("`udp-buffer` of [server] is for both directions")),
    ("xfrd-tcp-max", Rule::Number(Section::Transfers, "incoming")),
    ("zonesdir", Rule::Unneeded("paths in the printed configuration are whole")),
    (
        "chroot",
        Rule::Same(
            &[""],
            "nomen stays in the root that it is started in; packaging/nomen.service shuts it off otherwise",
        ),
    ),
    ("pidfile", FILES),
    ("database", FILES),
    ("xfrdfile", FILES),
    ("xfrdir", FILES),
    ("difffile", FILES),
    (
        "zonelistfile",
        Rule::Missing("zones that `nsd-control addzone` has added are not read; use `nomen ctl zone add`"),
    ),
    ("debug-mode", TUNING),
    ("ip-transparent", Rule::Freebind),
    ("ip-freebind", Rule::Freebind),
    ("bindtodevice", Rule::Same(&["no"], "nomen listens on addresses, not on interfaces")),
    ("reuseport", TUNING),
    ("xdp-interface", Rule::Missing("write `xdp` into [[listen]]; see docs/AF_XDP.md")),
    ("xdp-program-path", TUNING),
    ("xdp-program-load", TUNING),
    ("xdp-bpffs-path", TUNING),
    ("xdp-force-copy", TUNING),
    ("cpu-affinity", Rule::Missing("`pin-cpus` of [server] keeps each worker on a CPU")),
    ("xfrd-cpu-affinity", TUNING),
    ("zonefiles-check", Rule::Unneeded("a reload reads the zones whose files changed")),
    (
        "zonefiles-write",
        Rule::Unneeded(
            "nomen keeps zones from primaries in `state-dir`; `nomen ctl zone write` writes a file",
        ),
    ),
    ("reload-config", TUNING),
    ("xfrd-reload-timeout", TUNING),
    ("xfrd-tcp-pipeline", TUNING),
    ("statistics", Rule::Unneeded("[metrics] has figures at any time")),
    ("zonestats", Rule::Unneeded("`per-zone` of [metrics] counts queries for each zone")),
    ("zonestatsfile", FILES),
    ("log-only-syslog", Rule::Unneeded("nomen writes to stderr, which systemd keeps")),
    ("log-time-ascii", TUNING),
    ("log-time-iso", TUNING),
    ("drop-updates", TUNING),
    ("hide-trustanchor", TUNING),
    ("tcp-query-count", TUNING),
    ("tcp-mss", TUNING),
    ("outgoing-tcp-mss", TUNING),
    ("tcp-reject-overflow", TUNING),
    ("tcp-listen-queue", TUNING),
    (
        "minimal-responses",
        Rule::Unneeded("nomen adds the records that clients will need next, and no others"),
    ),
    ("confine-to-zone", TUNING),
    ("refuse-any", Rule::Unneeded("nomen answers ANY with one RRset")),
    ("round-robin", Rule::Rotation),
    ("min-expire-time-expression", TUNING),
    ("ixfr-number", Rule::Unneeded("`journal-size` of a zone bounds what is kept, in bytes")),
    ("nsec3-keep-zonefile-cache", TUNING),
    ("answer-cookie", Rule::Switch(Section::Server, "cookies")),
    ("cookie-secret-file", Rule::Unneeded("it names no file")),
    (
        "proxy_protocol_port",
        Rule::Missing(
            "write the proxies' networks into `proxy-protocol-from` of [server]: nomen has no ports for them; see docs/PROXIES.md",
        ),
    ),
    (
        "proxy-protocol-port",
        Rule::Missing(
            "write the proxies' networks into `proxy-protocol-from` of [server]: nomen has no ports for them; see docs/PROXIES.md",
        ),
    ),
    ("rrl-size", TUNING),
    ("rrl-whitelist-ratelimit", Rule::Unneeded("it is for queries of `rrl-whitelist` of zones")),
    ("rrl-whitelist", RATES),
    ("tls-service-key", TLS),
    ("tls-service-pem", TLS),
    ("tls-service-ocsp", Rule::Missing("nomen sends no OCSP responses with its certificate")),
    ("tls-port", TLS),
    ("tls-auth-port", Rule::Missing(MUTUAL)),
    (
        "tls-auth-xfr-only",
        Rule::Same(&["no"], "nomen sends zones over TCP and TLS; `allow-transfer` does not tell them apart"),
    ),
    ("tls-cert-bundle", Rule::Unneeded("no zone comes over TLS from a server that is authenticated")),
    ("store-ixfr", Rule::Unneeded("nomen keeps changes of zones from primaries in `state-dir`")),
    ("notify-retry", TUNING),
    ("multi-master-check", TUNING),
    ("multi-primary-check", TUNING),
    (
        "allow-axfr-fallback",
        Rule::Same(&["yes"], "nomen takes the whole zone where primaries have no differences"),
    ),
    ("size-limit-xfr", Rule::Same(&["0"], "`incoming-max-size` of [transfers] is for all zones")),
    ("verify-zone", VERIFY),
    ("verifier", VERIFY),
    ("verifier-feed-zone", VERIFY),
    ("verifier-timeout", VERIFY),
];

/// Converts a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let parsed = clauses::parse(texts, path, SECTIONS)?;
    for include in &parsed.includes {
        work.ledger.translated(include, "its statements, as if they stood here");
    }
    let sections = &parsed.sections;
    sections.iter().for_each(|section| work.ledger.open(section));
    let of =
        |key: &str| -> Vec<&Statement> { sections.iter().filter(|section| section.key() == key).collect() };
    let all: Vec<&Statement> = of("server").into_iter().flat_map(Statement::block).collect();
    for key in of("key") {
        let get = |name| key.find(name).map_or("", Statement::value);
        let (name, algorithm, secret) = (get("name"), get("algorithm"), get("secret"));
        let title = key.find("name").unwrap_or(key);
        work.tsig_key(title, name, algorithm, secret);
        for statement in key.block().iter().filter(|statement| statement.key() != "name") {
            work.ledger.translated(statement, "[[tsig-key]]");
        }
    }
    let base = path.parent().unwrap_or(Path::new(""));
    let zonesdir = last(&all, "zonesdir").filter(|found| !found.value().is_empty());
    let zonesdir = zonesdir.map_or(base.to_owned(), |found| join(base, found.value()));
    limits::rates(work, &all, of("server").first().copied());
    limits::secrets(work, texts.files, &all, &zonesdir);
    server_section(work, &all);
    if let Some(found) =
        last(&all, "tls-auth-xfr-only").filter(|found| units::switch(found.value()) != Some(false))
    {
        work.encrypted_transfers = true;
        work.ledger.narrower(
            found,
            "no client may transfer zones: name their certificates in `allow-transfer` (`cert:`)",
        );
    }
    of("tls-auth")
        .into_iter()
        .for_each(|block| tls_auth(work, block, last(&all, "tls-cert-bundle"), &zonesdir));
    let patterns = of("pattern");
    for zone in of("zone") {
        one_zone(work, zone, &patterns, &zonesdir);
    }
    for section in sections {
        match section.key() {
            "remote-control" => {
                for statement in section.block() {
                    work.ledger.unneeded(
                        statement,
                        "`nomen ctl` talks to a local socket that [control] has by default",
                    );
                }
            }
            "verify" => work.ledger.missing(section, "nomen runs no program to verify a zone"),
            "dnstap" => dnstap::of_section(work, section, &zonesdir),
            _ => {}
        }
    }
    work.ledger.sweep(sections, &explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(sections), 0);
    Ok(())
}

fn explain(statement: &Statement) -> (Coverage, String) {
    match rule(RULES, statement.key()).and_then(|rule| rule.without_key(statement)) {
        Some(explained) => explained,
        None if ZONE_KEYS.contains(&statement.key()) => {
            (Coverage::Unneeded, "no zone of this configuration has this pattern".into())
        }
        None => (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key())),
    }
}

/// Converts the certificate and the port of the listeners for TLS.
fn encryption(work: &mut Work, all: &[&Statement], certificate: Option<(&Statement, &Statement)>) {
    let any = work.nomen.listens.iter().any(|block| block.get("proto").is_some());
    if let (Some((chain, key)), true) = (certificate, any) {
        encrypted::certificate(work, Path::new("/"), chain, key);
        last(all, "tls-port").iter().for_each(|found| {
            work.ledger.translated(found, "the port in `addr` of [[listen]]");
        });
        return;
    }
    for found in ["tls-service-pem", "tls-service-key", "tls-port"].iter().filter_map(|key| last(all, key)) {
        work.ledger.unneeded(found, "no `ip-address` has a port with TLS, or its certificate is missing");
    }
}

fn server_section(work: &mut Work, all: &[&Statement]) {
    let everywhere = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
    let named = |key: &str| last(all, key).and_then(|found| found.value().parse().ok());
    let certificate = encrypted::service(all);
    let (tls, mutual): (u16, Option<u16>) = (named("tls-port").unwrap_or(853), named("tls-auth-port"));
    listen(work, all, everywhere, |_, port: u16| match certificate.is_some() {
        true if mutual == Some(port) => PortUse::Missing(MUTUAL),
        true if port == tls => PortUse::Encrypted(&["tls"]),
        _ => PortUse::Plain,
    });
    encryption(work, all, certificate);
    for (said, hide, key) in [("identity", "hide-identity", "id"), ("version", "hide-version", "version")] {
        let hidden = last(all, hide).is_some_and(|found| units::switch(found.value()) == Some(true));
        let text = last(all, said).map_or("auto", Statement::value);
        work.nomen
            .server
            .text(if key == "id" { "id" } else { "version" }, if hidden { "hide" } else { text });
        for found in [last(all, said), last(all, hide)].into_iter().flatten() {
            work.in_key(found, Section::Server, key);
        }
    }
    user(work, all);
    let sizes: Vec<&Statement> =
        ["ipv4-edns-size", "ipv6-edns-size"].iter().filter_map(|key| last(all, key)).collect();
    let least = sizes.iter().filter_map(|found| units::size(found.value())).min();
    for found in sizes {
        work.number(found, Section::Server, "max-udp-size", least);
        if units::size(found.value()) != least {
            work.ledger.differs(found, "`max-udp-size` is for both families, and is the smaller one here");
        }
    }
    if let Some(found) = last(all, "tcp-count") {
        // The limit is per server process.
        let servers =
            last(all, "server-count").and_then(|found| units::size(found.value())).unwrap_or(1).max(1);
        let value = units::size(found.value()).and_then(|value| value.checked_mul(servers));
        work.number(found, Section::Server, "tcp-connections", value);
    }
    for statement in all {
        match statement.key() {
            "nsid" => nsid(work, statement),
            "do-ip4" | "do-ip6" => match units::switch(statement.value()) {
                Some(true) => work.ledger.unneeded(statement, "nomen does so anyway"),
                Some(false) => work.ledger.translated(statement, "`addr` of [[listen]]"),
                None => work.not_understood(statement),
            },
            "verbosity" => verbosity(work, statement),
            "logfile" => {
                work.nomen.log.text("target", statement.value());
                work.in_key(statement, Section::Log, "target");
            }
            key => {
                if let Some(rule) = rule(RULES, key).filter(|_| !work.ledger.is_seen(statement)) {
                    work.apply(statement, rule);
                }
            }
        }
    }
}

/// Converts the user that the process changes to.
fn user(work: &mut Work, all: &[&Statement]) {
    match last(all, "username") {
        None => work.nomen.server.text("user", "nsd"),
        Some(found) if found.value().is_empty() => {
            work.ledger.unneeded(found, "nomen stays who it is unless `user` of [server] says otherwise");
        }
        Some(found) => {
            // NSD writes both as `user.group`.
            let (user, group) = found.value().split_once('.').unwrap_or((found.value(), ""));
            work.nomen.server.text("user", user);
            if !group.is_empty() {
                work.nomen.server.text("group", group);
            }
            work.in_key(found, Section::Server, "user");
        }
    }
}

/// Translated keys of zones and patterns.
const ZONE_KEYS: &[&str] = &[
    "name",
    "zonefile",
    "include-pattern",
    "request-xfr",
    "allow-query",
    "allow-notify",
    "notify",
    "provide-xfr",
    "min-refresh-time",
    "max-refresh-time",
    "min-retry-time",
    "max-retry-time",
    "min-expire-time",
    "max-expire-time",
    "create-ixfr",
    "ixfr-size",
    "outgoing-interface",
    "catalog",
    "catalog-member-pattern",
    "catalog-producer-zone",
];

/// Collects a zone's statements with those of included patterns; returns the first pattern.
fn flattened<'t>(
    work: &mut Work,
    section: &'t Statement,
    patterns: &[&'t Statement],
    depth: usize,
    out: &mut Vec<&'t Statement>,
) -> Option<String> {
    let mut first = None;
    for statement in section.block() {
        if statement.key() != "include-pattern" {
            out.push(statement);
            continue;
        }
        let name = statement.value();
        let pattern = patterns.iter().find(|pattern| pattern.find("name").is_some_and(|n| n.value() == name));
        match pattern {
            Some(pattern) if depth < 16 => {
                work.ledger.translated(statement, "the pattern's keys, with the zone's");
                if let Some(found) = pattern.find("name") {
                    work.ledger.translated(found, "[template], where several zones have the same keys");
                }
                first.get_or_insert(name.to_owned());
                let mut inner = Vec::new();
                flattened(work, pattern, patterns, depth + 1, &mut inner);
                out.extend(inner.into_iter().filter(|statement| statement.key() != "name"));
            }
            Some(_) => work.ledger.missing(statement, "patterns include each other too deep"),
            None => work.ledger.missing(statement, "there is no pattern of this name"),
        }
    }
    first
}

fn one_zone(work: &mut Work, section: &Statement, patterns: &[&Statement], zonesdir: &Path) {
    let name = section.find("name").and_then(|name| domain(name.value()));
    let Some(name) = name.filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name)) else {
        return work.ledger.missing(section, "it has no name in DNS, or that of another zone");
    };
    let mut all = Vec::new();
    let template = flattened(work, section, patterns, 0, &mut all);
    let mut keys = Keys::default();
    let (mut whole, mut primaries) = (true, 0);
    for statement in all.iter().filter(|s| s.key() == "request-xfr") {
        if let Some((server, axfr)) = primary(work, statement, &mut keys) {
            keys.add("primaries", server);
            (whole, primaries) = (whole && axfr, primaries + 1);
        }
    }
    let wanted = all.iter().any(|s| s.key() == "request-xfr");
    if wanted && primaries == 0 {
        return work.ledger.missing(section, "none of its primaries can be asked by nomen");
    }
    if wanted && whole {
        keys.switch("ixfr", false);
    }
    shared_keys(work, &all, wanted, &mut keys);
    if catalog(work, &all, patterns, zonesdir, &mut keys) {
        work.keep_state();
        let span = Some(section.span.clone());
        return work.nomen.zones.push(Zone { name, file: None, template: None, keys, span });
    }
    let file = last(&all, "zonefile");
    let path = file.map(|file| join(zonesdir, &file_name(file.value(), &name)));
    match (file, &path, wanted) {
        (Some(file), _, true) => {
            work.ledger.unneeded(
                file,
                "nomen takes the zone from its primaries at the start, and keeps it in `state-dir`",
            );
        }
        (Some(file), Some(path), false) => {
            work.zone_files.push((path.clone(), Some(zonesdir.to_owned())));
            work.ledger.translated(file, "`file` of the zone");
        }
        (None, _, false) => return work.ledger.missing(section, "it has no file and no primaries"),
        _ => {}
    }
    if wanted {
        work.keep_state();
    }
    let file = path.filter(|_| !wanted).as_deref().map(path_text);
    work.nomen.zones.push(Zone { name, file, template, keys, span: Some(section.span.clone()) });
}

/// Converts the keys common to zones and templates, except primaries.
fn shared_keys(work: &mut Work, all: &[&Statement], secondary: bool, keys: &mut Keys) {
    queries(work, all, keys);
    for (theirs, ours) in [("provide-xfr", "allow-transfer"), ("allow-notify", "allow-notify")] {
        let mut list = clients(work, all, theirs);
        if theirs == "provide-xfr" && work.encrypted_transfers {
            list.clear();
        }
        if secondary || theirs == "provide-xfr" {
            keys.texts(ours, list);
        }
    }
    for statement in all {
        zone_key(work, statement, secondary, keys);
    }
    source(work, all, keys);
}

/// Converts the first source address of each family for queries and NOTIFY to a zone's servers.
fn source(work: &mut Work, all: &[&Statement], keys: &mut Keys) {
    let mut taken: Vec<IpAddr> = Vec::new();
    for found in all.iter().filter(|statement| statement.key() == "outgoing-interface") {
        match found.value().parse::<IpAddr>() {
            Ok(ip) if taken.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) => {
                work.ledger.missing(found, "`source` of a zone is one address of each family");
            }
            Ok(ip) => {
                taken.push(ip);
                work.ledger.translated(found, "`source` of the zone");
            }
            Err(_) => work.ledger.missing(found, "nomen asks from an address, at any port"),
        }
    }
    keys.texts("source", taken.iter().map(ToString::to_string).collect());
}

/// Converts a zone's catalog role: its members are served, nomen produces it, or it is a member. Returns
/// whether nomen produces it.
fn catalog(
    work: &mut Work,
    all: &[&Statement],
    patterns: &[&Statement],
    zonesdir: &Path,
    keys: &mut Keys,
) -> bool {
    if let Some(found) = last(all, "catalog-producer-zone") {
        match domain(found.value()) {
            Some(name) => {
                keys.text("catalog-member", name);
                let how = "`catalog-member`: every zone of the pattern is listed, not those alone that \
                           `nsd-control addzone` adds";
                work.ledger.differs(found, how);
            }
            None => work.not_understood(found),
        }
    }
    let Some(role) = last(all, "catalog") else { return false };
    match role.value() {
        "producer" => {
            *keys = Keys(
                keys.0
                    .drain(..)
                    .filter(|(key, _)| ["allow-query", "allow-transfer", "notify"].contains(key))
                    .collect(),
            );
            keys.switch("catalog-produce", true);
            for found in [Some(role), last(all, "zonefile")].into_iter().flatten() {
                work.ledger.translated(found, "`catalog-produce` of the zone");
            }
            return true;
        }
        "consumer" => match last(all, "catalog-member-pattern") {
            Some(found) => match member_template(work, found.value(), patterns, zonesdir) {
                true => {
                    keys.text("catalog-template", found.value());
                    work.ledger.translated(role, "`catalog-template` of the zone");
                    let how = "members of all groups have this template; write those of others into \
                               `catalog-groups`";
                    work.ledger.differs(found, how);
                }
                false => work.ledger.missing(found, "there is no pattern of this name"),
            },
            None => work.ledger.missing(role, "it has no `catalog-member-pattern`; write `catalog-groups`"),
        },
        _ => work.not_understood(role),
    }
    false
}

/// Converts a pattern to a template for members of a catalog zone. Returns whether it exists.
fn member_template(work: &mut Work, name: &str, patterns: &[&Statement], zonesdir: &Path) -> bool {
    let named = |pattern: &&&Statement| pattern.find("name").is_some_and(|found| found.value() == name);
    let Some(pattern) = patterns.iter().find(named) else { return false };
    if work.nomen.templates.iter().any(|(other, _)| other == name) {
        return true;
    }
    let mut all = Vec::new();
    flattened(work, pattern, patterns, 0, &mut all);
    let mut keys = Keys::default();
    for statement in all.iter().filter(|s| s.key() == "request-xfr") {
        if let Some((server, _)) = primary(work, statement, &mut keys) {
            keys.add("primaries", server);
        }
    }
    let secondary = keys.get("primaries").is_some();
    if let (Some(file), false) = (last(&all, "zonefile"), secondary) {
        let pattern = filled(file.value(), &mut |letter| {
            Some(match letter {
                's' => "{zone}".to_owned(),
                'z' => "{tld}".to_owned(),
                digit @ '1'..='3' => format!("{{{digit}}}"),
                _ => return None,
            })
        });
        keys.text("file", path_text(&join(zonesdir, &pattern)));
    }
    shared_keys(work, &all, secondary, &mut keys);
    work.nomen.templates.push((name.to_owned(), keys));
    true
}

fn zone_key(work: &mut Work, statement: &Statement, secondary: bool, keys: &mut Keys) {
    match statement.key() {
        "create-ixfr" | "zonefile" if secondary => {
            work.ledger.unneeded(
                statement,
                "nomen keeps zones from primaries, and what changes in them, in `state-dir`",
            );
        }
        "create-ixfr" => match units::switch(statement.value()) {
            Some(on) => {
                keys.switch("ixfr-from-differences", on);
                if on {
                    work.keep_state();
                }
                work.ledger.translated(statement, "`ixfr-from-differences` of the zone");
            }
            None => work.not_understood(statement),
        },
        "ixfr-size" if units::size(statement.value()) == Some(0) => {
            work.zone_number(statement, keys, "journal-size", Some(u64::MAX));
        }
        "ixfr-size" => work.zone_number(statement, keys, "journal-size", units::size(statement.value())),
        "zonefile"
        | "outgoing-interface"
        | "catalog"
        | "catalog-member-pattern"
        | "catalog-producer-zone" => {}
        "name" => work.ledger.translated(statement, "`name` of the zone"),
        "notify" => {
            if let Some(server) = peer(work, statement, 0) {
                keys.add("notify", server);
                work.ledger.translated(statement, "`notify` of the zone");
            }
        }
        key if key.ends_with("-time") => {
            let ours = ["min-refresh", "max-refresh", "min-retry", "max-retry", "min-expire", "max-expire"];
            let Some(ours) = ours.into_iter().find(|ours| key.strip_suffix("-time") == Some(ours)) else {
                return;
            };
            match (secondary, statement.value().parse::<u64>()) {
                (false, _) => work.ledger.unneeded(statement, "the zone has no primaries"),
                (true, Ok(seconds)) => work.zone_number(statement, keys, ours, seconds.checked_mul(1000)),
                (true, Err(_)) => {
                    work.ledger.missing(statement, "nomen takes a time, not what the SOA record makes of it")
                }
            }
        }
        key => {
            if let Some(rule) = rule(RULES, key) {
                work.apply(statement, rule);
            }
        }
    }
}

/// Converts a `tls-auth` block. NSD verifies a certificate with `tls-cert-bundle`, or the CA certificates of
/// the system.
fn tls_auth(work: &mut Work, block: &Statement, bundle: Option<&Statement>, folder: &Path) {
    work.ledger.open(block);
    let get = |key| block.find(key).map(Statement::value).filter(|value| !value.is_empty());
    let Some((name, host)) = get("name").zip(get("auth-domain-name").and_then(domain)) else {
        return work.ledger.missing(block, "it has no `name`, or no `auth-domain-name` that is a name");
    };
    let path = |file: &str| path_text(&join(folder, file));
    let mut files = Vec::new();
    if let Some(bundle) = bundle.filter(|found| !found.value().is_empty()) {
        files.push(("ca-file", path(bundle.value())));
        work.ledger.translated(bundle, "`ca-file` of the zones");
    }
    if let Some((chain, key)) = get("client-cert").zip(get("client-key")) {
        files.extend([("client-chain", path(chain)), ("client-key", path(key))]);
    }
    for statement in block.block() {
        match statement.key() {
            "name" => work.ledger.translated(statement, "wherever it is named"),
            "auth-domain-name" => work.ledger.translated(statement, "the name after `#` of the servers"),
            "client-cert" => work.ledger.translated(statement, "`client-chain` of the zones"),
            "client-key" => work.ledger.translated(statement, "`client-key` of the zones"),
            "client-key-pw" => {
                work.ledger.missing(statement, "nomen takes keys without a passphrase: decrypt the file");
            }
            _ => {}
        }
    }
    work.tls_auths.insert(name.to_owned(), TlsAuth { identity: host, files });
}

/// Parses `request-xfr: [AXFR|UDP] ADDRESS KEY [TLS-AUTH]`; also returns whether it is for AXFR only. Adds
/// the keys with the files of TLS.
fn primary(work: &mut Work, statement: &Statement, keys: &mut Keys) -> Option<(String, bool)> {
    let kind = statement.value();
    let skip = usize::from(["AXFR", "UDP"].contains(&kind));
    let mut server = peer(work, statement, skip)?;
    if let Some(named) = statement.argument(skip + 2) {
        let Some(auth) = work.tls_auths.get(&named.text).cloned() else {
            work.ledger.missing(statement, "there is no such `tls-auth`; the server is left out");
            return None;
        };
        let is_other = |(key, file): &(&'static str, String)| match keys.get(key) {
            Some(Setting::Text(other)) => other != file,
            _ => false,
        };
        if auth.files.iter().any(is_other) {
            let why = "all servers of a zone have one certificate; the server is left out";
            work.ledger.missing(statement, why);
            return None;
        }
        auth.files.into_iter().for_each(|(key, file)| keys.text(key, file));
        let (address, key) = server.split_once(' ').map_or((&*server, ""), |(address, key)| (address, key));
        let text = statement.argument(skip).map_or("", |word| &word.text);
        let port = if text.contains('@') && !address.contains('@') { "@53" } else { "" };
        server = format!("{address}{port}#{} {key}", auth.identity).trim_end().to_owned();
    }
    match kind {
        "UDP" => work.ledger.differs(statement, "nomen asks for transfers over TCP"),
        _ => work.ledger.translated(statement, "`primaries` of the zone"),
    }
    Some((server, kind == "AXFR"))
}

/// Parses `ADDRESS[@PORT] KEY` after `skip` words.
fn peer(work: &mut Work, statement: &Statement, skip: usize) -> Option<String> {
    let (address, key) = (statement.argument(skip)?, statement.argument(skip + 1));
    let (ip, port) =
        address.text.split_once('@').map_or((address.text.as_str(), None), |(ip, port)| (ip, Some(port)));
    let Some(found) = server(ip, port) else {
        work.not_understood(statement);
        return None;
    };
    match key.filter(|key| key.text != "NOKEY") {
        None => Some(found),
        Some(key) => match work.known_key(&key.span, &key.text) {
            Some(key) => Some(format!("{found} key:{key}")),
            None => {
                work.ledger.missing(statement, "nomen cannot use its key; the server is left out");
                None
            }
        },
    }
}

/// Converts `allow-query`. BLOCKED takes precedence wherever it is.
fn queries(work: &mut Work, all: &[&Statement], keys: &mut Keys) {
    let Some(first) = all.iter().find(|statement| statement.key() == "allow-query") else { return };
    let plain = |networks: &[Network]| -> Vec<Network> {
        networks.iter().filter(|network| !network.is_mapped()).copied().collect()
    };
    let mut grants: Vec<Grant> = Vec::new();
    let found = listed(work, all, "allow-query");
    if let Some(Listed { blocked, mut allowed }) = found {
        let refused = blocked.iter().map(|network| network.unmapped());
        grants.extend(refused.map(|network| Grant { refuses: true, network: Some(network), key: None }));
        // Members for a key are one rule.
        allowed.sort_by(|a, b| a.1.cmp(&b.1));
        for members in allowed.chunk_by(|a, b| a.1 == b.1) {
            let (networks, key) = (members.iter().flat_map(|(networks, _)| plain(networks)), &members[0].1);
            let networks: Vec<Network> = networks.collect();
            let grant = |network| Grant { refuses: false, network, key: key.clone() };
            match Network::all().iter().all(|whole| networks.contains(whole)) {
                true => grants.push(grant(None)),
                false => grants.extend(networks.into_iter().map(|network| grant(Some(network)))),
            }
        }
    }
    let is_open = |grant: &Grant| !grant.refuses && grant.network.is_none() && grant.key.is_none();
    if blocked_none(&grants) && grants.iter().any(is_open) {
        return;
    }
    let list = clients::allow_query(&grants).unwrap_or_else(|| {
        work.ledger.narrower(first, "`allow-query` of nomen can have 64 rules: no client may query the zone");
        Vec::new()
    });
    let permits = list.iter().any(|text| !text.starts_with('!'));
    keys.texts("allow-query", if permits { list } else { clients::no_client() });
}

fn blocked_none(grants: &[Grant]) -> bool {
    grants.iter().all(|grant| !grant.refuses)
}

/// The clients of `allow-query`, `provide-xfr` or `allow-notify`.
struct Listed {
    blocked: Vec<Network>,
    allowed: Vec<(Vec<Network>, Option<String>)>,
}

/// Reads a list; `None` if it blocks clients that cannot be expressed: no client passes then.
fn listed(work: &mut Work, all: &[&Statement], key: &str) -> Option<Listed> {
    let mut out = Listed { blocked: Vec::new(), allowed: Vec::new() };
    for statement in all.iter().filter(|statement| statement.key() == key) {
        let text = statement.value();
        let blocks = statement.argument(1).is_some_and(|key| key.text == "BLOCKED");
        let network = text.split('@').next().and_then(Network::parse_range);
        let Some(networks) = network.filter(|_| blocks || !text.contains('@')) else {
            work.ledger.missing(statement, "nomen knows clients by their addresses, not by their ports");
            if blocks {
                work.ledger.narrower(statement, "which clients it blocks cannot be said; no client passes");
                return None;
            }
            continue;
        };
        if statement.argument(2).is_some() && !blocks {
            work.ledger.missing(
                statement,
                "nomen does not authenticate clients by certificates; these clients do not pass",
            );
            continue;
        }
        match statement.argument(1).map_or("NOKEY", |key| key.text.as_str()) {
            "BLOCKED" => out.blocked.extend(networks),
            "NOKEY" => out.allowed.push((networks, None)),
            name => {
                let span = statement.argument(1).map_or(&statement.span, |word| &word.span);
                match work.known_key(span, name) {
                    Some(key) => out.allowed.push((networks, Some(key))),
                    None => {
                        work.ledger.missing(statement, "nomen cannot use its key");
                        continue;
                    }
                }
            }
        }
        work.ledger.translated(
            statement,
            match key {
                "provide-xfr" => "`allow-transfer` of the zone",
                "allow-query" => "`allow-query` of the zone",
                _ => "`allow-notify` of the zone",
            },
        );
    }
    Some(out)
}

/// The clients that `provide-xfr` or `allow-notify` permits. BLOCKED takes precedence wherever it is.
fn clients(work: &mut Work, all: &[&Statement], key: &str) -> Vec<String> {
    let Some(Listed { blocked, allowed }) = listed(work, all, key) else { return Vec::new() };
    let blocked = vec![Member { deny: true, client: Client::Networks(blocked) }];
    let mut out: Vec<String> = Vec::new();
    for (networks, key) in allowed {
        let mut list = blocked.clone();
        list.push(Member { deny: false, client: Client::Networks(networks) });
        for pass in passes(&list).unwrap_or_default() {
            let text = crate::network::Pass { key: key.clone(), ..pass }.to_string();
            if !out.contains(&text) {
                out.push(text);
            }
        }
    }
    // A key with all addresses.
    let v4 = out.iter().filter_map(|text| text.strip_prefix("0.0.0.0/0 key:"));
    let keys: Vec<String> =
        v4.filter(|key| out.contains(&format!("::/0 key:{key}"))).map(str::to_owned).collect();
    for key in keys {
        out.retain(|text| !text.ends_with(&format!(" key:{key}")));
        out.push(format!("key:{key}"));
    }
    out
}

/// A zone's file from its pattern: `%s` is the name, `%1` to `%3` are its first characters, `%z`, `%y` and
/// `%x` its last labels.
fn file_name(pattern: &str, zone: &str) -> String {
    let labels: Vec<&str> = zone.split('.').filter(|label| !label.is_empty()).collect();
    let label = |n: usize| labels.iter().rev().nth(n).map_or(".", |label| *label).to_owned();
    let letter = |n: usize| zone.chars().nth(n).map_or(".".to_owned(), String::from);
    filled(pattern, &mut |what| {
        Some(match what {
            's' => zone.to_owned(),
            '1' => letter(0),
            '2' => letter(1),
            '3' => letter(2),
            'z' => label(0),
            'y' => label(1),
            'x' => label(2),
            _ => return None,
        })
    })
}

/// Replaces `%` and the character after it in a pattern; those without a replacement stay.
fn filled(pattern: &str, with: &mut dyn FnMut(char) -> Option<String>) -> String {
    let (mut out, mut chars) = (String::new(), pattern.chars());
    while let Some(c) = chars.next() {
        let what = if c == '%' { chars.next() } else { None };
        match what.map(|what| (what, with(what))) {
            None => out.push(c),
            Some((_, Some(text))) => out.push_str(&text),
            Some((what, None)) => out.extend(['%', what]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_their_pattern() {
        assert_eq!(file_name("%z/%y/%1/%2%3/%s.zone", "example.com"), "com/example/e/xa/example.com.zone");
        assert_eq!(file_name("%x%%%", "a.b"), ".%%%");
    }
}
