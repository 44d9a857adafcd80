//! recursor.conf in the old format. `recursor_yaml` makes statements of it of recursor.yml.

use std::path::Path;

use super::recursor_yaml;
use super::rpz;
use super::settings::{self, list};
use super::{PROCESS, addresses, identity, is_on, loglevel, networks, of, unset_group, upstream, webserver};
use crate::anchors;
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Zone};
use crate::text::{SyntaxFault, Texts};
use crate::tree::Statement;
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, path_text, rule};

/// Settings that the Authoritative Server does not have.
pub(crate) const ONLY_RECURSOR: &[&str] = &[
    "allow-from",
    "allow-from-file",
    "forward-zones",
    "forward-zones-recurse",
    "forward-zones-file",
    "auth-zones",
    "hint-file",
    "dnssec",
    "quiet",
    "lua-config-file",
    "lua-dns-script",
    "minimum-ttl-override",
    "max-qperq",
    "max-negative-ttl",
    "threads",
    "serve-rfc1918",
    "export-etc-hosts",
    "packetcache-ttl",
    "max-mthreads",
    "qname-minimization",
    "public-suffix-list-file",
    "dont-query",
    "root-nx-trust",
    "nothing-below-nxdomain",
];

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const VALIDATES: Rule = Rule::Missing(
    "nomen bounds what validating takes in its own way: see `validate-…` and others of [resolver]",
);
const SUBNETS: Rule = Rule::Missing("nomen passes no addresses of clients on to other servers");

const RULES: &[NamedRule] = &[
    ("threads", Rule::Number(Section::Server, "workers")),
    ("max-concurrent-requests-per-tcp-connection", Rule::Number(Section::Server, "tcp-pipeline")),
    ("max-tcp-clients", Rule::Number(Section::Server, "tcp-connections")),
    ("client-tcp-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("udp-truncation-threshold", Rule::Number(Section::Server, "max-udp-size")),
    ("edns-outgoing-bufsize", Rule::Number(Section::Resolver, "udp-size")),
    ("max-cache-ttl", Rule::Time(Section::Resolver, "max-ttl", SECOND)),
    ("max-negative-ttl", Rule::Time(Section::Resolver, "max-negative-ttl", SECOND)),
    ("minimum-ttl-override", Rule::Time(Section::Resolver, "min-ttl", SECOND)),
    ("max-qperq", Rule::Number(Section::Resolver, "budget-queries")),
    ("max-total-msec", Rule::TimeLimit(Section::Resolver, "budget-time", 1)),
    ("max-ns-per-resolve", Rule::Limit(Section::Resolver, "servers-per-zone")),
    ("max-ns-address-qperq", Rule::Number(Section::Resolver, "budget-fruitless")),
    ("max-cache-bogus-ttl", Rule::Time(Section::Resolver, "bogus-ttl", SECOND)),
    ("max-rrset-size", Rule::Limit(Section::Resolver, "records-per-set")),
    ("nsec3-max-iterations", Rule::Number(Section::Resolver, "max-nsec3-iterations")),
    ("max-signature-validations-per-query", Rule::Limit(Section::Resolver, "validate-signatures")),
    ("tcp-out-max-idle-ms", Rule::TimeLimit(Section::Resolver, "connection-idle-timeout", 1)),
    ("max-mthreads", Rule::Number(Section::Resolver, "lookups")),
    ("serve-rfc1918", Rule::Switch(Section::Resolver, "special-names")),
    ("dns64-prefix", Rule::Text(Section::Resolver, "dns64-prefix")),
    ("write-pid", TUNING),
    ("socket-dir", TUNING),
    ("socket-mode", TUNING),
    ("socket-owner", TUNING),
    ("socket-group", TUNING),
    ("security-poll-suffix", TUNING),
    ("public-suffix-list-file", TUNING),
    ("disable-syslog", TUNING),
    ("log-timestamp", TUNING),
    ("logging-facility", TUNING),
    ("structured-logging", TUNING),
    ("log-common-errors", TUNING),
    ("log-rpz-changes", TUNING),
    ("statistics-interval", Rule::Unneeded("[metrics] has figures at any time")),
    ("stats-ringbuffer-entries", TUNING),
    ("trace", TUNING),
    ("lua-maintenance-interval", TUNING),
    ("dnssec-log-bogus", Rule::Same(&["no"], "nomen's log has queries, and lines up to a level; see [log]")),
    ("aggressive-cache-min-nsec3-hit-ratio", TUNING),
    ("aggressive-cache-max-nsec3-hash-cost", TUNING),
    ("max-rrsigs-per-record", VALIDATES),
    ("max-nsec3s-per-record", VALIDATES),
    ("max-nsec3-hash-computations-per-query", VALIDATES),
    ("max-ds-per-zone", VALIDATES),
    ("max-dnskeys", VALIDATES),
    ("limit-qtype-any", Rule::Unneeded("nomen answers ANY with one RRset")),
    ("lowercase-outgoing", Rule::Same(&["no"], "nomen asks for names as they are, or in random case")),
    ("processes", TUNING),
    ("event-trace-enabled", TUNING),
    ("protobuf-use-kernel-timestamp", TUNING),
    ("save-parent-ns-set", TUNING),
    ("structured-logging-backend", Rule::Same(&["default"], "write `format = \"json\"` into [log]")),
    ("proxy-protocol-maximum-size", Rule::Number(Section::Server, "proxy-protocol-maximum-size")),
    (
        "signature-inception-skew",
        Rule::Missing(
            "nomen has one `signature-skew` of [resolver] for the beginning and the end of a signature",
        ),
    ),
    ("x-dnssec-names", Rule::Missing("nomen counts what is bogus for all names together")),
    (
        "max-cache-entries",
        Rule::Missing(
            "nomen's cache has a size in bytes, `cache-size` of [resolver]: 256 MiB unless it is set",
        ),
    ),
    ("max-packetcache-entries", TUNING),
    ("disable-packetcache", TUNING),
    ("packetcache-ttl", TUNING),
    ("packetcache-negative-ttl", TUNING),
    ("packetcache-servfail-ttl", TUNING),
    ("packetcache-shards", TUNING),
    ("record-cache-shards", TUNING),
    ("record-cache-locked-ttl-perc", TUNING),
    ("ecs-cache-limit-ttl", SUBNETS),
    ("edns-subnet-whitelist", SUBNETS),
    ("edns-subnet-allow-list", SUBNETS),
    ("ecs-add-for", SUBNETS),
    ("ecs-ipv4-bits", SUBNETS),
    ("ecs-ipv6-bits", SUBNETS),
    ("ecs-scope-zero-address", SUBNETS),
    (
        "use-incoming-edns-subnet",
        Rule::Same(&["no"], "nomen passes no addresses of clients on to other servers"),
    ),
    ("dont-query", Rule::Missing("nomen asks the servers that delegations name")),
    ("dont-throttle-names", TUNING),
    ("dont-throttle-netmasks", TUNING),
    ("non-resolving-ns-max-fails", TUNING),
    ("non-resolving-ns-throttle-time", TUNING),
    ("server-down-max-fails", TUNING),
    ("server-down-throttle-time", TUNING),
    ("network-timeout", TUNING),
    ("spoof-nearmiss-max", TUNING),
    ("udp-source-port-min", TUNING),
    ("udp-source-port-max", TUNING),
    ("udp-source-port-avoid", TUNING),
    ("latency-statistic-size", TUNING),
    ("single-socket", TUNING),
    ("distributor-threads", TUNING),
    ("distribution-load-factor", TUNING),
    ("distribution-pipe-buffer-size", TUNING),
    ("pdns-distributes-queries", TUNING),
    ("reuseport", TUNING),
    ("cpu-map", Rule::Missing("`pin-cpus` of [server] keeps each worker on a CPU")),
    ("stack-size", TUNING),
    ("stack-cache-size", TUNING),
    ("max-recursion-depth", TUNING),
    ("max-udp-queries-per-round", TUNING),
    ("max-tcp-queries-per-connection", TUNING),
    ("max-generate-steps", TUNING),
    ("max-include-depth", TUNING),
    ("tcp-fast-open", TUNING),
    ("tcp-fast-open-connect", TUNING),
    ("tcp-out-max-idle-per-auth", TUNING),
    ("tcp-out-max-idle-per-thread", TUNING),
    ("tcp-out-max-queries", TUNING),
    ("entropy-source", TUNING),
    ("rng", TUNING),
    ("edns-padding-from", TUNING),
    ("edns-padding-mode", TUNING),
    ("edns-padding-tag", TUNING),
    ("edns-padding-out", TUNING),
    ("extended-resolution-errors", TUNING),
    ("any-to-tcp", TUNING),
    ("root-nx-trust", TUNING),
    ("system-resolver-ttl", TUNING),
    ("system-resolver-interval", TUNING),
    ("new-domain-tracking", Rule::Same(&["no"], "nomen keeps no list of names")),
    ("unique-response-tracking", Rule::Same(&["no"], "nomen keeps no list of names")),
    ("allow-trust-anchor-query", TUNING),
    ("allow-notify-from", Rule::Same(&[""], "nomen flushes nothing at a NOTIFY")),
    ("allow-notify-for", TUNING),
    ("allow-notify-for-file", TUNING),
    ("gettag-needs-edns-options", TUNING),
    ("proxy-protocol-from", Rule::Networks(Section::Server, "proxy-protocol-from")),
    ("dot-to-auth-names", Rule::Same(&[""], "nomen asks authoritative servers over UDP and TCP alone")),
    ("dot-to-port-853", TUNING),
    ("etc-hosts-file", TUNING),
    ("export-etc-hosts", Rule::Same(&["off"], "write the names into `local-data` of [resolver]")),
    ("export-etc-hosts-search-suffix", TUNING),
    ("non-local-bind", TUNING),
    ("snmp-agent", Rule::Same(&["no"], "[metrics] has figures for Prometheus")),
    ("snmp-master-socket", TUNING),
    ("snmp-daemon-socket", TUNING),
    ("carbon-server", Rule::Same(&[""], "[metrics] has figures for Prometheus")),
    ("webserver-address", TUNING),
    ("webserver-port", TUNING),
    ("webserver-password", TUNING),
    ("webserver-allow-from", TUNING),
    ("webserver-loglevel", TUNING),
    ("api-key", Rule::Missing("[metrics] has figures and no API")),
    ("api-config-dir", TUNING),
    ("ignore-unknown-settings", TUNING),
    ("allow-no-rd", TUNING),
    ("max-busy-dot-probes", TUNING),
    ("tcp-threads", TUNING),
    ("max-tcp-per-client", Rule::Limit(Section::Server, "tcp-connections-per-client")),
];

/// Default networks with access.
const LOCAL: &str = "127.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 169.254.0.0/16, 192.168.0.0/16, 172.16.0.0/12, \
                     ::1/128, fc00::/7, fe80::/10";

/// Converts the configuration of the Recursor.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let is_yaml =
        texts.files.read(path).is_ok_and(|bytes| recursor_yaml::is_yaml(&String::from_utf8_lossy(&bytes)));
    let yaml = is_yaml.then(|| recursor_yaml::parse(texts, path)).transpose()?;
    let all = match &yaml {
        Some(yaml) => yaml.settings.clone(),
        None => settings::parse(texts, path)?,
    };
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    work.recurse();
    let addresses = addresses(work, &all, "127.0.0.1");
    work.nomen.listens.extend(addresses);
    identity(work, &all);
    work.unknown_clients = yaml.as_ref().is_some_and(|yaml| !yaml.unreadable.is_empty());
    access(work, texts, &all, &base);
    work.plain_at_853 =
        of(&all, "dot-to-port-853").last().is_some_and(|found| units::switch(found.value()) == Some(false));
    for (key, recursive) in [("forward-zones", false), ("forward-zones-recurse", true)] {
        for found in of(&all, key) {
            // Commas and lines separate zones, semicolons the servers of a zone.
            for rule in found.value().split([',', '\n']).map(str::trim).filter(|rule| !rule.is_empty()) {
                forward(work, found, rule, recursive);
            }
            work.ledger.translated(found, "[[resolver.forward]] and [[resolver.stub]]");
        }
    }
    for found in of(&all, "forward-zones-file").filter(|found| !found.value().is_empty()) {
        forward_file(work, texts, found, &join(&base, found.value()));
    }
    for found in of(&all, "auth-zones") {
        for zone in list(found.value()) {
            auth_zone(work, found, zone, &base);
        }
        work.ledger.translated(found, "[[zone]]");
    }
    if let Some(found) =
        of(&all, "hint-file").last().filter(|found| !["", "no", "no-refresh"].contains(&found.value()))
    {
        work.hints.push((join(&base, found.value()), found.span.clone()));
        work.ledger
            .unneeded(found, "nomen knows the root servers, and asks them who they are by now (RFC 8109)");
    }
    stale(work, &all);
    let last = |key| of(&all, key).last().filter(|found| !found.value().is_empty());
    let off = last("dnssec")
        .is_some_and(|found| ["off", "process-no-validate", "log-fail"].contains(&found.value()));
    work.anchors.public_root = true;
    if let Some(found) = last("trustanchorfile").filter(|_| !off) {
        anchors::of_file(work, texts, found, &join(&base, found.value()));
    }
    if let Some(found) = last("lua-config-file") {
        let path = join(&base, found.value());
        anchors::of_lua(work, texts, found, &path, off);
        rpz::convert(work, texts, found, &path);
    }
    if let Some(yaml) = &yaml {
        yaml.convert(work, texts, path, off);
        #[cfg(test)]
        assert!(yaml.others().all(|statement| work.ledger.is_seen(statement)));
    }
    for statement in &all {
        simple(work, &all, statement);
    }
    families(work, &all);
    unset_group(work);
    work.ledger.sweep(&all, &explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&all), 0);
    Ok(())
}

fn simple(work: &mut Work, all: &[Statement], statement: &Statement) {
    match statement.key() {
        "loglevel" => loglevel(work, statement),
        "webserver" => webserver(work, all, statement),
        // A setting without a value is on.
        "quiet" => {
            work.nomen.log.switch("queries", !is_on(all, "quiet"));
            work.in_key(statement, Section::Log, "queries");
        }
        "refresh-on-ttl-perc" => {
            let on = statement.value() != "0";
            work.recurse().switch("prefetch", on);
            match on {
                false => work.in_key(statement, Section::Resolver, "prefetch"),
                true => {
                    work.ledger.differs(statement, "nomen chooses by itself when it is time to ask again")
                }
            }
        }
        "aggressive-nsec-cache-size" => {
            let on = statement.value() != "0";
            work.recurse().switch("aggressive-nsec", on);
            match on {
                false => work.in_key(statement, Section::Resolver, "aggressive-nsec"),
                true => work.ledger.differs(
                    statement,
                    "`aggressive-nsec-size` of [resolver] is in bytes: 16 MiB unless it is set",
                ),
            }
        }
        "qname-minimization" => {
            let word = if is_on(all, "qname-minimization") { "relaxed" } else { "off" };
            work.recurse().text("qname-minimisation", word);
            work.in_key(statement, Section::Resolver, "qname-minimisation");
        }
        "nothing-below-nxdomain" => {
            let on = statement.value() != "no";
            work.recurse().switch("nxdomain-cut", on);
            work.in_key(statement, Section::Resolver, "nxdomain-cut");
        }
        "dnssec" => match statement.value() {
            "off" | "process-no-validate" => work.validate(statement, false),
            "validate" => work.validate(statement, true),
            "log-fail" => {
                work.recurse().switch("validate", false);
                work.ledger.differs(statement, "`validate = false`: nomen does not validate to log alone");
            }
            _ => work
                .ledger
                .differs(statement, "nomen validates for every client, not for those alone who ask for it"),
        },
        _ if statement.value().is_empty() => {}
        "trustanchorfile" | "lua-config-file" => {}
        "lua-dns-script" => work.refuse_recursion(statement, "nomen runs no scripts"),
        key => {
            if let Some(rule) = rule(RULES, key).or_else(|| rule(PROCESS, key)) {
                work.apply(statement, rule);
            }
        }
    }
}

/// Converts the source addresses of outgoing queries, which also determine the address families.
fn families(work: &mut Work, all: &[Statement]) {
    let named: Vec<&Statement> =
        ["query-local-address", "query-local-address6"].iter().flat_map(|key| of(all, key)).collect();
    let ips: Vec<std::net::IpAddr> =
        named.iter().flat_map(|found| list(found.value())).filter_map(|text| text.parse().ok()).collect();
    if ips.is_empty() {
        return;
    }
    work.recurse().switch("iterate-ipv4", ips.iter().any(std::net::IpAddr::is_ipv4));
    work.recurse().switch("iterate-ipv6", ips.iter().any(std::net::IpAddr::is_ipv6));
    for found in named.iter().filter(|found| !found.value().is_empty()) {
        let own: Vec<std::net::IpAddr> = list(found.value()).filter_map(|text| text.parse().ok()).collect();
        let own: Vec<std::net::IpAddr> = own.into_iter().filter(|ip| !ip.is_unspecified()).collect();
        match (own.is_empty(), work.ask_from(&own)) {
            (true, _) => work.ledger.translated(found, "`iterate-ipv4` and `iterate-ipv6` of [resolver]"),
            (false, true) => {
                work.ledger.translated(found, "`source`, `iterate-ipv4` and `iterate-ipv6` of [resolver]");
            }
            (false, false) => work.ledger.missing(
                found,
                "`source` of [resolver] takes one address of each family; the others are left out",
            ),
        }
    }
}

fn explain(statement: &Statement) -> (Coverage, String) {
    if statement.value().is_empty() {
        return (Coverage::Unneeded, "it is set to nothing".into());
    }
    if statement.key() == "trustanchorfile" {
        return (Coverage::Unneeded, "nothing is validated".into());
    }
    (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key()))
}

fn access(work: &mut Work, texts: &mut Texts<'_>, all: &[Statement], base: &Path) {
    let from = of(all, "allow-from").last();
    let file = of(all, "allow-from-file").last().filter(|found| !found.value().is_empty());
    let mut clients = match (from, file) {
        (Some(found), None) => networks(work, from, found.value()),
        (None, None) => networks(work, None, LOCAL),
        (_, Some(_)) => Vec::new(),
    };
    if let Some(found) = file {
        let text = texts
            .files
            .read(&join(base, found.value()))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        match text {
            Ok(text) => {
                let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
                clients = networks(work, file, &lines.collect::<Vec<_>>().join(" "));
                work.ledger.translated(found, "[[resolver.access]]");
            }
            Err(_) => work.ledger.missing(found, "the file cannot be read; no client may ask"),
        }
    }
    if let Some(found) = from {
        match file {
            None => work.ledger.translated(found, "[[resolver.access]]"),
            Some(_) => work.ledger.unneeded(found, "`allow-from-file` counts"),
        }
    }
    // The Recursor does not answer other clients.
    if of(all, "auth-zones").next().is_some() {
        clients.iter().for_each(|client| work.nomen.accept("allow", client));
        work.nomen.accept("drop", "any");
    }
    match clients.is_empty() {
        true => work.nomen.grant("refuse", "any"),
        false => clients.into_iter().for_each(|client| work.nomen.grant("allow", client)),
    }
}

/// Converts `[+]DOMAIN=SERVER;SERVER`.
fn forward(work: &mut Work, found: &Statement, text: &str, recursive: bool) {
    let (recursive, text) = (recursive || text.starts_with('+'), text.trim_start_matches(['+', '^']));
    let (name, servers) = text.split_once('=').unwrap_or((text, ""));
    let servers: Vec<String> = list(servers).filter_map(upstream).collect();
    let encrypted = |server: &String| !work.plain_at_853 && server.ends_with("@853");
    let servers: Vec<String> = servers.into_iter().filter(|server| !encrypted(server)).collect();
    let name = domain(name.trim());
    let taken = |rules: &[Keys], name: &str| {
        rules
            .iter()
            .any(|rule| matches!(rule.get("domain"), Some(crate::model::Setting::Text(text)) if text == name))
    };
    let fault = match (&name, servers.is_empty()) {
        (None, _) => Some("its name is not a domain name"),
        (Some(_), true) => Some("it names no server by its address that is asked in the clear"),
        (Some(name), false) if taken(&work.nomen.forwards, name) || taken(&work.nomen.stubs, name) => {
            Some("there is another rule for this domain")
        }
        (Some(name), false) if name == "." && !recursive => {
            Some("a stub cannot be for all names; write the servers into `root-servers` of [resolver]")
        }
        _ => None,
    };
    if let Some(why) = fault {
        match name {
            // Of two rules for a domain, the first one counts.
            Some(name) if !taken(&work.nomen.forwards, &name) && !taken(&work.nomen.stubs, &name) => {
                work.refuse_domain(&name);
                let why = format!("{why}; its names are refused");
                work.ledger.part(&found.span, text, Coverage::Narrower, why);
            }
            Some(_) => work.ledger.part(&found.span, text, Coverage::Missing, why),
            None => work.refuse_recursion(found, why),
        }
        return;
    }
    let mut rule = Keys::default();
    rule.text("domain", name.unwrap_or_default());
    servers.into_iter().for_each(|server| rule.add("servers", server));
    match recursive {
        true => work.nomen.forwards.push(rule),
        false => work.nomen.stubs.push(rule),
    }
}

fn forward_file(work: &mut Work, texts: &mut Texts<'_>, found: &Statement, path: &Path) {
    let Ok(bytes) = texts.files.read(path) else {
        return work.refuse_recursion(found, &format!("cannot read {}", path.display()));
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if !line.is_empty() {
            forward(work, found, line, false);
        }
    }
    work.ledger.translated(found, "[[resolver.forward]] and [[resolver.stub]]");
}

fn auth_zone(work: &mut Work, found: &Statement, text: &str, base: &Path) {
    let (name, file) = text.split_once('=').unwrap_or((text, ""));
    let name = domain(name.trim());
    let new = name.clone().filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name));
    let Some(name) = new.filter(|_| !file.trim().is_empty()) else {
        name.iter().for_each(|name| work.refuse_domain(name));
        return work.ledger.part(
            &found.span,
            text,
            Coverage::Missing,
            "it is no zone and a file, or the zone is there twice",
        );
    };
    if work.unknown_clients {
        work.refuse_domain(&name);
        let why = "which clients may query it cannot be said: it is left out, and its names are refused";
        return work.ledger.part(&found.span, text, Coverage::Narrower, why);
    }
    let path = join(base, file.trim());
    work.zone_files.push((path.clone(), None));
    let (file, span) = (Some(path_text(&path)), Some(found.span.clone()));
    work.nomen.zones.push(Zone { name, file, template: None, keys: Keys::default(), span });
}

/// Converts stale answers: lifetime in units of thirty seconds; unlike in nomen off by default.
fn stale(work: &mut Work, all: &[Statement]) {
    let found = of(all, "serve-stale-extensions").last();
    let count = found.and_then(|found| found.value().parse::<u64>().ok());
    match (found, count.filter(|count| *count > 0)) {
        (Some(found), Some(count)) => {
            work.number(found, Section::Resolver, "serve-stale", count.checked_mul(30 * SECOND));
        }
        (found, _) => {
            work.recurse().text("serve-stale", "0s");
            if let Some(found) = found {
                work.in_key(found, Section::Resolver, "serve-stale");
            }
        }
    }
}
