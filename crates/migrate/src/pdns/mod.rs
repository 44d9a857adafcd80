//! PowerDNS: pdns.conf of the Authoritative Server 4.3 to 4.9, with the named.conf of its bind backend, and
//! recursor.conf of the Recursor 4.4 to 5.2, and its recursor.yml.

mod recursor;
mod recursor_yaml;
mod rpz;
pub(crate) mod settings;

use std::net::IpAddr;
use std::path::Path;

use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Zone};
use crate::named_conf;
use crate::network::{Network, of_longest_match};
use crate::rates;
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Part, Statement};
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, path_text, rule, server, with_port};
use settings::list;

pub(crate) use recursor::{ONLY_RECURSOR, convert as convert_recursor};

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const FILES: Rule = Rule::Unneeded("nomen writes no such file, or keeps it in `state-dir`");
const BACKENDS: Rule = Rule::Missing(
    "nomen takes zones from master files and from primaries; write them with `pdnsutil list-zone`, or have \
     nomen take them by AXFR",
);
const SIGNS: Rule = Rule::Missing(
    "keys and settings of signed zones are in the database: `pdnsutil export-zone-key` and `nomen key import` take \
     the keys over, and `dnssec-policy` signs the zone",
);
const SCRIPTS: Rule = Rule::Missing("nomen runs no scripts");
const LOG: Rule = Rule::Missing("nomen's log has queries, and lines up to a level; see [log]");
const API: Rule = Rule::Missing("[metrics] has figures and no API; `nomen ctl` changes zones");

/// Settings common to PowerDNS and its recursor: about the process, not about DNS.
const PROCESS: &[NamedRule] = &[
    ("setuid", Rule::Text(Section::Server, "user")),
    ("setgid", Rule::Text(Section::Server, "group")),
    (
        "chroot",
        Rule::Same(
            &[""],
            "nomen stays in the root that it is started in; packaging/nomen.service shuts it off otherwise",
        ),
    ),
    ("include-dir", Rule::Unneeded("its files are read, as if they stood here")),
    ("config-dir", TUNING),
    ("config-name", TUNING),
    ("daemon", TUNING),
];

const RULES: &[NamedRule] = &[
    ("receiver-threads", Rule::Number(Section::Server, "workers")),
    ("max-tcp-connections", Rule::Number(Section::Server, "tcp-connections")),
    ("max-tcp-connections-per-client", Rule::Limit(Section::Server, "tcp-connections-per-client")),
    ("tcp-idle-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("udp-truncation-threshold", Rule::Number(Section::Server, "max-udp-size")),
    ("axfr-fetch-timeout", Rule::Time(Section::Transfers, "incoming-idle-timeout", SECOND)),
    ("retrieval-threads", Rule::Number(Section::Transfers, "incoming")),
    ("log-dns-queries", Rule::Switch(Section::Log, "queries")),
    ("max-cname-recursions", Rule::Number(Section::Server, "max-chain")),
    ("max-include-depth", TUNING),
    ("max-generate-steps", TUNING),
    ("guardian", TUNING),
    ("launch", BACKENDS),
    ("load-modules", BACKENDS),
    ("module-dir", BACKENDS),
    ("bind-check-interval", Rule::Same(&["0"], "zones are read again at a reload; see `nomen ctl reload`")),
    (
        "bind-dnssec-db",
        Rule::Same(
            &[""],
            "keys and metadata in it are not read: `pdnsutil export-zone-key` and `nomen key import` take keys over, and `dnssec-policy` signs zones",
        ),
    ),
    ("bind-hybrid", SIGNS),
    ("bind-ignore-broken-records", TUNING),
    (
        "bind-supermaster-config",
        Rule::Missing("nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md"),
    ),
    (
        "bind-supermaster-destdir",
        Rule::Missing("nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md"),
    ),
    ("bind-supermasters", Rule::Missing("nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md")),
    ("bind-autoprimaries", Rule::Missing("nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md")),
    ("autosecondary", Rule::Same(&["no"], "nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md")),
    ("superslave", Rule::Same(&["no"], "nomen adds no zone because of a NOTIFY; see docs/CATALOGS.md")),
    ("allow-unsigned-autoprimary", TUNING),
    ("allow-unsigned-supermaster", TUNING),
    (
        "allow-unsigned-notify",
        Rule::Unneeded("nomen takes NOTIFY from primaries, by their addresses or by their keys"),
    ),
    (
        "allow-notify-from",
        Rule::Same(
            &["0.0.0.0/0,::/0", "0.0.0.0/0, ::/0"],
            "nomen takes NOTIFY from primaries, by their addresses or by their keys, and from those in \
             `allow-notify`",
        ),
    ),
    (
        "only-notify",
        Rule::Same(&["0.0.0.0/0,::/0", ""], "nomen sends NOTIFY to the servers in `notify` alone"),
    ),
    ("prevent-self-notification", TUNING),
    ("forward-notify", Rule::Missing("nomen passes no NOTIFY on but by `notify`")),
    ("cache-ttl", TUNING),
    ("query-cache-ttl", TUNING),
    ("negquery-cache-ttl", TUNING),
    ("zone-cache-refresh-interval", TUNING),
    ("zone-metadata-cache-ttl", TUNING),
    ("domain-metadata-cache-ttl", TUNING),
    ("max-cache-entries", TUNING),
    ("max-packet-cache-entries", TUNING),
    ("max-signature-cache-entries", TUNING),
    ("consistent-backends", TUNING),
    ("distributor-threads", TUNING),
    ("signing-threads", TUNING),
    ("max-queue-length", TUNING),
    ("overload-queue-length", TUNING),
    ("queue-limit", TUNING),
    ("reuseport", TUNING),
    ("tcp-fast-open", TUNING),
    ("max-tcp-connection-duration", TUNING),
    ("max-tcp-transactions-per-conn", TUNING),
    ("local-address-nonexist-fail", TUNING),
    ("local-ipv6-nonexist-fail", TUNING),
    ("non-local-bind", TUNING),
    ("xfr-cycle-interval", TUNING),
    ("slave-cycle-interval", TUNING),
    ("traceback-handler", TUNING),
    ("max-ent-entries", TUNING),
    ("max-nsec3-iterations", TUNING),
    ("delay-notifications", TUNING),
    ("write-pid", FILES),
    ("socket-dir", FILES),
    ("enable-lua-records", Rule::Same(&["no"], "nomen runs no scripts")),
    ("edns-cookie-secret", Rule::Unneeded("nomen answers cookies anyway, with a random secret")),
    ("edns-subnet-processing", Rule::Same(&["no"], "nomen does not use addresses of clients' networks")),
    ("any-to-tcp", TUNING),
    ("do-ipv6-additional-processing", TUNING),
    ("proxy-protocol-maximum-size", Rule::Number(Section::Server, "proxy-protocol-maximum-size")),
    ("proxy-protocol-from", Rule::Networks(Section::Server, "proxy-protocol-from")),
    ("resolver", Rule::Missing("nomen has no ALIAS records")),
    ("expand-alias", Rule::Same(&["no"], "nomen has no ALIAS records")),
    ("outgoing-axfr-expand-alias", Rule::Same(&["no"], "nomen has no ALIAS records")),
    ("8bit-dns", TUNING),
    ("direct-dnskey", SIGNS),
    ("svc-autohints", Rule::Same(&["no"], "nomen makes no hints")),
    ("send-signed-notify", TUNING),
    ("ignore-unknown-settings", TUNING),
    ("upgrade-unknown-types", TUNING),
    ("default-ksk-algorithm", SIGNS),
    ("default-ksk-algorithms", SIGNS),
    ("default-ksk-size", SIGNS),
    ("default-zsk-algorithm", SIGNS),
    ("default-zsk-algorithms", SIGNS),
    ("default-zsk-size", SIGNS),
    ("default-api-rectify", SIGNS),
    ("default-soa-edit", SIGNS),
    ("default-soa-edit-signed", SIGNS),
    ("default-publish-cdnskey", SIGNS),
    ("default-publish-cds", SIGNS),
    ("dnssec-key-cache-ttl", SIGNS),
    ("default-soa-content", TUNING),
    ("default-soa-name", TUNING),
    ("default-soa-mail", TUNING),
    ("default-ttl", TUNING),
    (
        "default-catalog-zone",
        Rule::Missing(
            "it lists zones that are made at run time; here `catalog-member` of a zone or a template lists \
             it",
        ),
    ),
    ("soa-minimum-ttl", TUNING),
    ("soa-refresh-default", TUNING),
    ("soa-retry-default", TUNING),
    ("soa-expire-default", TUNING),
    ("lua-axfr-script", Rule::Same(&[""], "nomen runs no scripts")),
    ("lua-dnsupdate-policy-script", SCRIPTS),
    ("lua-prequery-script", SCRIPTS),
    ("lua-health-checks-expire-delay", TUNING),
    ("lua-health-checks-interval", TUNING),
    ("lua-records-exec-limit", TUNING),
    ("lua-records-insert-whitespace", TUNING),
    ("lua-consistent-hashes-cleanup-interval", TUNING),
    ("lua-consistent-hashes-expire-delay", TUNING),
    ("dnsupdate-require-tsig", TUNING),
    ("api", Rule::Same(&["no"], "[metrics] has figures and no API; `nomen ctl` changes zones")),
    ("api-key", API),
    ("webserver-address", TUNING),
    ("webserver-port", TUNING),
    ("webserver-allow-from", TUNING),
    ("webserver-password", TUNING),
    ("webserver-print-arguments", TUNING),
    ("webserver-loglevel", TUNING),
    ("webserver-max-bodysize", TUNING),
    ("webserver-connection-timeout", TUNING),
    ("webserver-hash-plaintext-credentials", TUNING),
    ("webserver-enabled", TUNING),
    ("carbon-server", Rule::Same(&[""], "[metrics] has figures for Prometheus")),
    ("carbon-interval", TUNING),
    ("carbon-instance", TUNING),
    ("carbon-ourname", TUNING),
    ("carbon-namespace", TUNING),
    ("stats-ring", TUNING),
    (
        "tcp-control-address",
        Rule::Same(&[""], "`nomen ctl` talks to a local socket; nothing is controlled over the network"),
    ),
    ("tcp-control-port", TUNING),
    ("tcp-control-range", TUNING),
    ("tcp-control-secret", TUNING),
    ("log-dns-details", LOG),
    ("log-timestamp", TUNING),
    ("logging-facility", TUNING),
    ("disable-syslog", TUNING),
    ("structured-logging", Rule::Missing("write `format = \"json\"` into [log]")),
    ("query-logging", LOG),
    ("entropy-source", TUNING),
    ("rng", TUNING),
    ("security-poll-suffix", TUNING),
    ("no-config", TUNING),
    ("no-shuffle", TUNING),
    ("allow-axfr-ips", TUNING),
    ("also-notify", TUNING),
    ("bind-config", TUNING),
    ("master", TUNING),
    ("primary", TUNING),
    ("slave", TUNING),
    ("secondary", TUNING),
    ("allow-dnsupdate-from", TUNING),
    ("disable-axfr", TUNING),
    ("disable-axfr-rectify", TUNING),
    (
        "allow-recursion",
        Rule::Missing("write [resolver]; recursion has been another program of PowerDNS since 4.1"),
    ),
    ("recursor", Rule::Missing("write [resolver]; recursion has been another program of PowerDNS since 4.1")),
];

/// Converts the configuration of the Authoritative Server.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let all = settings::parse(texts, path)?;
    let backends: Vec<String> =
        of(&all, "launch").flat_map(|found| list(found.value())).map(str::to_owned).collect();
    for found in of(&all, "launch") {
        let others: Vec<&str> =
            list(found.value()).filter(|backend| backend.split(':').next() != Some("bind")).collect();
        match others.is_empty() {
            true => work.ledger.unneeded(found, "nomen has zones from master files always"),
            false => {
                let why = "nomen takes zones from master files and from primaries, not from a database: \
                           write them with `pdnsutil list-zone`, or have nomen take them by AXFR";
                work.ledger.missing(found, format!("{}: {why}", others.join(", ")));
            }
        }
    }
    let addresses = addresses(work, &all, "0.0.0.0, ::");
    work.nomen.listens.extend(addresses);
    identity(work, &all);
    let bind = backends.iter().any(|backend| backend.split(':').next() == Some("bind"));
    let named = of(&all, "bind-config").last().filter(|found| bind && !found.value().is_empty());
    let shared = shared(work, &all);
    let mut zones = Vec::new();
    if let Some(found) = named {
        let file = join(path.parent().unwrap_or(Path::new("")), found.value());
        let parsed = named_conf::parse(texts, &file, file.parent().unwrap_or(Path::new("")))?;
        work.ledger.translated(found, "[[zone]], one for each of its zones");
        for include in &parsed.includes {
            work.ledger.translated(include, "its statements, as if they stood here");
        }
        let folder = parsed.directory.unwrap_or_default();
        let retold = RENOTIFY.iter().any(|key| is_on(&all, key));
        backend(work, &parsed.statements, &folder, &shared, retold);
        zones = parsed.statements;
    }
    all.iter().for_each(|statement| simple(work, &all, statement));
    unset_group(work);
    work.ledger.sweep(&all, &explain);
    work.ledger.sweep(&zones, &explain_backend);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&all) + work.ledger.unaccounted(&zones), 0);
    Ok(())
}

/// Converts server-wide statements.
fn simple(work: &mut Work, all: &[Statement], statement: &Statement) {
    match statement.key() {
        "loglevel" => loglevel(work, statement),
        "edns-cookie-secret" if !statement.value().is_empty() => {
            rates::secrets_of(work, statement, &[statement.value().to_owned()]);
        }
        "webserver" => webserver(work, all, statement),
        "xfr-max-received-mbytes" => {
            let bytes = statement.value().parse::<u64>().ok().and_then(|count| count.checked_mul(1 << 20));
            work.number(statement, Section::Transfers, "incoming-max-size", bytes);
        }
        "launch" | "bind-config" | "local-address" | "local-port" | "local-ipv6" => {}
        key => {
            let done = [
                "allow-axfr-ips",
                "also-notify",
                "master",
                "primary",
                "slave",
                "secondary",
                "disable-axfr",
                "dnsupdate",
                "allow-dnsupdate-from",
                "forward-dnsupdate",
                "query-local-address",
                "query-local-address6",
                "trusted-notification-proxy",
                "slave-renotify",
                "secondary-do-renotify",
            ];
            if let Some(rule) =
                rule(RULES, key).or_else(|| rule(PROCESS, key)).filter(|_| !done.contains(&key))
            {
                work.apply(statement, rule);
            }
        }
    }
}

/// A group without a user has no effect in nomen, and an empty name means no user.
fn unset_group(work: &mut Work) {
    if work.nomen.server.get("user").is_none() {
        work.nomen.server.remove("group");
    }
}

fn of<'t>(all: &'t [Statement], key: &str) -> impl Iterator<Item = &'t Statement> {
    all.iter().filter(move |statement| statement.key() == key)
}

fn is_on(all: &[Statement], key: &str) -> bool {
    of(all, key)
        .last()
        .is_some_and(|found| units::switch(found.value()) == Some(true) || found.value().is_empty())
}

fn explain(statement: &Statement) -> (Coverage, String) {
    let key = statement.key();
    // An empty setting is not set.
    if statement.value().is_empty() {
        return (Coverage::Unneeded, "it is set to nothing".into());
    }
    let rule = rule(RULES, key).or_else(|| rule(PROCESS, key));
    match rule.and_then(|rule| rule.without_key(statement)) {
        Some(explained) => explained,
        None if [
            "gmysql-",
            "gpgsql-",
            "gsqlite3-",
            "godbc-",
            "lmdb-",
            "ldap-",
            "remote-",
            "pipe-",
            "geoip-",
            "tinydns-",
            "lua2-",
        ]
        .iter()
        .any(|prefix| key.starts_with(prefix)) =>
        {
            (
                Coverage::Missing,
                "nomen takes zones from master files and from primaries, not from this backend".into(),
            )
        }
        None => (Coverage::Missing, format!("nomen has nothing for `{key}`")),
    }
}

fn explain_backend(statement: &Statement) -> (Coverage, String) {
    match statement.key() {
        "zone" => (Coverage::Missing, "it has no file and no masters".into()),
        "options" => (Coverage::Unneeded, "PowerDNS takes its folder alone from it".into()),
        _ => (Coverage::Unneeded, "PowerDNS takes zones alone from this file".into()),
    }
}

/// Converts the listening addresses.
fn addresses(work: &mut Work, all: &[Statement], usual: &str) -> Option<Keys> {
    let port = of(all, "local-port").last();
    let usual_port = port.and_then(|port| port.value().parse().ok()).unwrap_or(53u16);
    if let Some(port) = port {
        work.ledger.translated(port, "the port in `addr` of [[listen]]");
    }
    let mut block = Keys::default();
    let mut add = |text: &str| match socket(text, usual_port) {
        Some(address) => {
            block.add("addr", address);
            true
        }
        None => false,
    };
    let named: Vec<&Statement> =
        all.iter().filter(|s| ["local-address", "local-ipv6"].contains(&s.key())).collect();
    for statement in &named {
        let bad: Vec<&str> = list(statement.value()).filter(|text| !add(text)).collect();
        match bad.is_empty() {
            true => work.ledger.translated(statement, "`addr` of [[listen]]"),
            false => work.ledger.missing(statement, format!("not an address: {}", bad.join(" "))),
        }
    }
    if named.is_empty() {
        list(usual).for_each(|text| {
            add(text);
        });
    }
    (!block.0.is_empty()).then_some(block)
}

/// Parses `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
fn socket(text: &str, port: u16) -> Option<String> {
    let plain = text.trim_start_matches('[').trim_end_matches(']');
    match (plain.parse(), text.parse::<std::net::SocketAddr>()) {
        (Ok(ip), _) => Some(with_port(ip, port)),
        (_, Ok(socket)) => Some(with_port(socket.ip(), socket.port())),
        _ => None,
    }
}

/// Parses a server: an address, optionally with a port.
fn upstream(text: &str) -> Option<String> {
    let found = socket(text, 53)?;
    let (ip, port) = found.rsplit_once('@')?;
    server(ip.trim_matches(['[', ']']), Some(port))
}

fn identity(work: &mut Work, all: &[Statement]) {
    let version = of(all, "version-string").last();
    if let Some(found) = version {
        let text = match found.value() {
            "anonymous" => "hide",
            "" | "full" | "powerdns" => "auto",
            text => text,
        };
        work.nomen.server.text("version", text);
        work.in_key(found, Section::Server, "version");
    }
    match of(all, "server-id").last() {
        Some(found) if found.value() == "disabled" => {
            work.ledger.unneeded(found, "nomen sends no server identity unless configured")
        }
        Some(found) if !found.value().is_empty() => {
            work.nomen.server.text("id", found.value());
            work.nomen.server.text("nsid", found.value());
            work.ledger.translated(found, "`id` and `nsid` of [server]");
        }
        _ => work.nomen.server.text("id", "auto"),
    }
}

/// Converts the settings for all zones of the bind backend.
fn shared(work: &mut Work, all: &[Statement]) -> Keys {
    let mut keys = Keys::default();
    let off = is_on(all, "disable-axfr");
    for found in of(all, "disable-axfr") {
        work.ledger.translated(found, "`allow-transfer` of the zones");
    }
    let ips = of(all, "allow-axfr-ips").last();
    let clients = networks(work, ips, ips.map_or("127.0.0.0/8,::1", Statement::value));
    if !off {
        keys.texts("allow-transfer", clients);
    }
    if let Some(found) = ips {
        work.ledger.translated(found, "`allow-transfer` of the zones");
    }
    let primary = is_on(all, "primary") || is_on(all, "master");
    for found in all.iter().filter(|s| ["primary", "master"].contains(&s.key())) {
        match primary {
            true => work.ledger.differs(
                found,
                "nomen sends NOTIFY to the servers in `notify` alone, not to those of NS records",
            ),
            false => work.ledger.unneeded(found, "nomen sends NOTIFY to the servers in `notify` alone"),
        }
    }
    for found in all.iter().filter(|s| ["secondary", "slave"].contains(&s.key())) {
        work.ledger.unneeded(found, "zones with `primaries` are taken from them always");
    }
    for found in of(all, "also-notify") {
        let servers: Vec<String> = list(found.value()).filter_map(upstream).collect();
        if primary {
            servers.iter().for_each(|server| keys.add("notify", server.clone()));
        }
        match servers.len() == list(found.value()).count() {
            true => work.ledger.translated(found, "`notify` of the zones"),
            false => work.not_understood(found),
        }
    }
    source(work, all, &mut keys);
    let limit = of(all, "allow-notify-from").last();
    let limited = limit.is_some_and(|found| {
        let from = networks(work, None, found.value());
        !["0.0.0.0/0", "::/0"].iter().all(|whole| from.iter().any(|network| network == whole))
    });
    for found in of(all, "trusted-notification-proxy") {
        if limited {
            work.ledger
                .narrower(found, "`allow-notify-from` limits it; NOTIFY is taken from primaries alone");
            continue;
        }
        let clients = networks(work, Some(found), found.value());
        clients.into_iter().for_each(|client| keys.add("allow-notify", client));
        work.ledger.translated(found, "`allow-notify` of zones with primaries");
    }
    for found in RENOTIFY.iter().flat_map(|key| of(all, key)) {
        work.ledger.translated(found, "`notify` of zones with primaries, or none");
    }
    updates(work, all, &mut keys);
    keys
}

/// Converts dynamic updates: those of secondary zones are forwarded.
fn updates(work: &mut Work, all: &[Statement], keys: &mut Keys) {
    let on = is_on(all, "dnsupdate");
    for found in of(all, "dnsupdate") {
        match on {
            true => work.ledger.missing(
                found,
                "the bind backend takes no updates; write `allow-update` into the zones that are to",
            ),
            false => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    let forward = of(all, "forward-dnsupdate").last();
    let from = of(all, "allow-dnsupdate-from").last();
    let scripted = ["lua-dnsupdate-policy-script", "dnsupdate-require-tsig"].into_iter().find_map(|key| {
        of(all, key).last().filter(|found| !found.value().is_empty() && found.value() != "no")
    });
    if let Some(found) = scripted.filter(|_| on) {
        work.ledger.narrower(found, "nomen cannot look at it before an update is passed on: none is");
    } else if on && forward.is_none_or(|found| units::switch(found.value()) == Some(true)) {
        let clients = networks(work, from, from.map_or("127.0.0.0/8,::1", Statement::value));
        keys.texts("forward-updates", clients);
    }
    for found in [from, forward].into_iter().flatten() {
        match on {
            true => work.ledger.translated(found, "`forward-updates` of zones with primaries"),
            false => work.ledger.unneeded(found, "`dnsupdate` is off"),
        }
    }
}

/// Settings for NOTIFY from secondaries after a transfer.
const RENOTIFY: [&str; 2] = ["slave-renotify", "secondary-do-renotify"];

/// Converts the source address of each family for queries and NOTIFY to other servers.
fn source(work: &mut Work, all: &[Statement], keys: &mut Keys) {
    let mut taken: Vec<IpAddr> = Vec::new();
    for found in ["query-local-address", "query-local-address6"].iter().flat_map(|key| of(all, key)) {
        let ips: Result<Vec<IpAddr>, _> = list(found.value()).map(str::parse).collect();
        let named: Vec<IpAddr> = ips.iter().flatten().filter(|ip| !ip.is_unspecified()).copied().collect();
        let single = |v4: bool| named.iter().chain(&taken).filter(|ip| ip.is_ipv4() == v4).count() < 2;
        match (ips.is_ok() && single(true) && single(false), named.is_empty()) {
            (false, _) => work.ledger.missing(found, "`source` of a zone is one address of each family"),
            (true, true) => work.ledger.unneeded(found, "nomen asks from any address anyway"),
            (true, false) => {
                taken.extend(named);
                work.ledger.translated(found, "`source` of the zones");
            }
        }
    }
    keys.texts("source", taken.iter().map(ToString::to_string).collect());
}

/// The networks that a list permits: `!` refuses, and the longest match decides. Reports members that are not
/// networks.
fn networks(work: &mut Work, found: Option<&Statement>, text: &str) -> Vec<String> {
    let mut members = Vec::new();
    for word in list(text) {
        let (deny, plain) = match word.strip_prefix('!') {
            Some(plain) => (true, plain.trim()),
            None => (false, word),
        };
        let network = Network::parse(plain);
        if let (None, Some(found)) = (network, found) {
            match deny {
                true => {
                    let why = "what it refuses is no network that can be read; no client passes";
                    work.ledger.part(&found.span, word, Coverage::Narrower, why);
                }
                false => work.ledger.part(&found.span, word, Coverage::Missing, "it is no network"),
            }
        }
        if network.is_some_and(Network::is_mapped) {
            if let Some(found) = found.filter(|_| !deny) {
                let why = "nomen takes IPv4 addresses mapped into IPv6 for the IPv4 addresses themselves; \
                           these clients do not pass";
                work.ledger.part(&found.span, word, Coverage::Narrower, why);
            }
            continue;
        }
        members.push((deny, network));
    }
    of_longest_match(&members).iter().map(ToString::to_string).collect()
}

/// Converts the zones of the bind backend: PowerDNS takes names, types, files and masters from named.conf.
/// With `retold`, secondaries send NOTIFY after a transfer.
fn backend(work: &mut Work, statements: &[Statement], folder: &Path, shared: &Keys, retold: bool) {
    for zone in statements.iter().filter(|statement| statement.key() == "zone") {
        work.ledger.open(zone);
        let name =
            domain(zone.value()).filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name));
        let Some(name) = name else {
            work.ledger.missing(zone, "it has no name in DNS, or that of another zone");
            continue;
        };
        let kind = zone.find("type").map_or("native", Statement::value);
        let mut keys = Keys::default();
        let masters = zone.find("masters").or_else(|| zone.find("primaries"));
        for member in masters.into_iter().flat_map(Statement::block) {
            match upstream(member.key()) {
                Some(server) => keys.add("primaries", server),
                None => work.ledger.part(
                    &member.span,
                    &member.title(),
                    Coverage::Missing,
                    "it is not the address of a server",
                ),
            }
        }
        let secondary = ["slave", "secondary"].contains(&kind);
        let file = zone.find("file").map(|file| join(folder, file.value()));
        match (secondary, keys.get("primaries").is_some(), &file) {
            (true, false, _) | (false, _, None) => {
                work.ledger.missing(zone, "it has no file and no masters");
                continue;
            }
            (false, ..) => keys.remove("primaries"),
            (true, true, _) => work.keep_state(),
        }
        keys.0.extend(shared.0.iter().cloned());
        match secondary {
            false => ["forward-updates", "allow-notify"].iter().for_each(|key| keys.remove(key)),
            true if !retold => keys.remove("notify"),
            true => {}
        }
        for inner in zone.block() {
            match inner.key() {
                "file" if secondary => work.ledger.unneeded(
                    inner,
                    "nomen takes the zone from its primaries at the start, and keeps it in `state-dir`",
                ),
                "type" | "file" | "masters" | "primaries" => work.ledger.translated(inner, "[[zone]]"),
                "also-notify" => {
                    let servers = inner.block().iter().filter_map(|member| upstream(member.key()));
                    servers.for_each(|server| keys.add("notify", server));
                    work.ledger.translated(inner, "`notify` of the zone");
                }
                _ => {
                    work.ledger.unneeded(inner, "PowerDNS takes type, file and masters alone from this file")
                }
            }
        }
        let file = file.filter(|_| !secondary);
        // PowerDNS also looks for `$INCLUDE` beside the file.
        work.zone_files.extend(file.iter().map(|file| (file.clone(), None)));
        let file = file.as_deref().map(path_text);
        work.nomen.zones.push(Zone { name, file, template: None, keys, span: Some(zone.span.clone()) });
    }
    backend_options(work, statements);
}

/// Converts `options`, of which PowerDNS uses only the folder for relative paths.
fn backend_options(work: &mut Work, statements: &[Statement]) {
    for options in statements.iter().filter(|statement| statement.key() == "options") {
        work.ledger.open(options);
        for inner in options
            .block()
            .iter()
            .filter(|inner| inner.parts.iter().any(|part| matches!(part, Part::Word(_))))
        {
            match inner.key() {
                "directory" => work.ledger.unneeded(inner, "paths in the printed configuration are whole"),
                _ => work.ledger.unneeded(inner, "PowerDNS takes `directory` alone from here"),
            }
        }
    }
}

/// Converts a syslog level to a log level.
fn loglevel(work: &mut Work, statement: &Statement) {
    let level = match statement.value().parse::<u32>() {
        Ok(0..=3) => "error",
        Ok(4) => "warn",
        Ok(5 | 6) => "info",
        Ok(7) => "debug",
        Ok(_) => "trace",
        Err(_) => return work.not_understood(statement),
    };
    work.nomen.log.text("level", level);
    work.in_key(statement, Section::Log, "level");
}

/// Converts the built-in web server, which has metrics at the same path.
fn webserver(work: &mut Work, all: &[Statement], statement: &Statement) {
    if !is_on(all, "webserver") {
        return work.ledger.unneeded(statement, "nomen does so anyway");
    }
    let get = |key, usual| of(all, key).last().map_or(usual, Statement::value);
    let address =
        socket(get("webserver-address", "127.0.0.1"), get("webserver-port", "8081").parse().unwrap_or(8081));
    let loopback = get("webserver-address", "127.0.0.1").parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match address.filter(|_| loopback) {
        Some(address) => {
            work.nomen.section(Section::Metrics).text("listen", address);
            work.ledger.differs(
                statement,
                "`listen` of [metrics]: figures for Prometheus at `/metrics`, under other names; no API and \
                 no pages",
            );
        }
        None => work.ledger.missing(
            statement,
            "[metrics] has no access control, so it is for one address on loopback or a management network",
        ),
    }
}
