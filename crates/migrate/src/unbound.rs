//! unbound.conf, of Unbound 1.17 to 1.22.

use std::path::{Path, PathBuf};

use crate::anchors;
use crate::clauses;
use crate::dnstap;
use crate::files::join;
use crate::ledger::Outcome;
use crate::model::{Keys, Section, Zone};
use crate::network::Network;
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, find, last};
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, SPECIAL, Work, domain, path_text, rule, server, with_port};

/// Words that begin a section.
pub(crate) const SECTIONS: &[&str] = &[
    "server",
    "forward-zone",
    "stub-zone",
    "auth-zone",
    "rpz",
    "view",
    "remote-control",
    "python",
    "dynlib",
    "dnscrypt",
    "cachedb",
    "redis",
    "ipset",
    "dnstap",
];

const UNANCHORED: Rule = Rule::Unneeded("nothing is validated");
const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const VALIDATES: Rule = Rule::Missing(
    "write it by hand: `validate`, `trust-anchors` and other keys of `[resolver]` say how nomen validates",
);
const KERNEL: Rule = Rule::Missing("the kernel chooses the address that nomen asks from");
const TLS: Rule = Rule::Missing("nomen speaks plain UDP and TCP alone");
const RATES: Rule = Rule::Same(&["0"], "nomen limits no rates of answers");
const TAGS: Rule = Rule::Missing("nomen has no tags and no views");
const FILES: Rule = Rule::Unneeded("nomen writes no such file");
const SUBNETS: Rule = Rule::Missing("nomen passes no addresses of clients on to other servers");
const LOG: Rule = Rule::Missing("nomen's log has queries, and lines up to a level; see [log]");

const RULES: &[NamedRule] = &[
    ("num-threads", Rule::Number(Section::Server, "workers")),
    ("so-rcvbuf", Rule::Number(Section::Server, "udp-buffer")),
    ("so-sndbuf", Rule::Unneeded("`udp-buffer` of [server] is for both directions")),
    ("incoming-num-tcp", Rule::Number(Section::Server, "tcp-connections")),
    ("tcp-idle-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", 1)),
    ("max-udp-size", Rule::Number(Section::Server, "max-udp-size")),
    ("edns-buffer-size", Rule::Number(Section::Resolver, "udp-size")),
    ("cache-min-ttl", Rule::Time(Section::Resolver, "min-ttl", SECOND)),
    ("cache-max-ttl", Rule::Time(Section::Resolver, "max-ttl", SECOND)),
    ("cache-max-negative-ttl", Rule::Time(Section::Resolver, "max-negative-ttl", SECOND)),
    ("serve-expired-reply-ttl", Rule::Time(Section::Resolver, "stale-answer-ttl", SECOND)),
    ("prefetch", Rule::Switch(Section::Resolver, "prefetch")),
    ("use-caps-for-id", Rule::Switch(Section::Resolver, "mixed-case")),
    ("harden-below-nxdomain", Rule::Switch(Section::Resolver, "nxdomain-cut")),
    ("do-ip4", Rule::Switch(Section::Resolver, "iterate-ipv4")),
    ("do-ip6", Rule::Switch(Section::Resolver, "iterate-ipv6")),
    ("dns-error-reporting", Rule::Switch(Section::Resolver, "error-reporting")),
    ("max-query-restarts", Rule::Number(Section::Resolver, "max-rule-chain")),
    ("log-queries", Rule::Switch(Section::Log, "queries")),
    ("infra-cache-numhosts", Rule::Number(Section::Resolver, "known-servers")),
    ("do-udp", Rule::Same(&["yes"], "write `proto` into [[listen]]")),
    ("do-tcp", Rule::Same(&["yes"], "write `proto` into [[listen]]")),
    ("directory", Rule::Unneeded("paths in the printed configuration are whole")),
    (
        "chroot",
        Rule::Same(
            &[""],
            "nomen stays in the root that it is started in; packaging/nomen.service shuts it off otherwise",
        ),
    ),
    ("pidfile", FILES),
    ("do-daemonize", Rule::Unneeded("nomen stays in the foreground")),
    ("if-automatic-ports", TUNING),
    (
        "interface-automatic",
        Rule::Same(&["no"], "nomen answers from the address that was asked, on all addresses of [[listen]]"),
    ),
    ("log-identity", TUNING),
    ("log-time-ascii", TUNING),
    ("log-time-iso", TUNING),
    ("log-replies", LOG),
    ("log-tag-queryreply", LOG),
    ("log-destaddr", LOG),
    ("log-local-actions", LOG),
    ("log-servfail", LOG),
    ("val-log-level", VALIDATES),
    ("statistics-interval", Rule::Unneeded("[metrics] has figures at any time")),
    ("statistics-cumulative", TUNING),
    ("extended-statistics", TUNING),
    ("statistics-inhibit-zero", TUNING),
    ("shm-enable", TUNING),
    ("shm-key", TUNING),
    ("trust-anchor", UNANCHORED),
    ("trust-anchor-file", UNANCHORED),
    ("auto-trust-anchor-file", UNANCHORED),
    ("trusted-keys-file", UNANCHORED),
    ("domain-insecure", UNANCHORED),
    ("trust-anchor-signaling", VALIDATES),
    ("root-key-sentinel", VALIDATES),
    ("val-override-date", VALIDATES),
    ("val-sig-skew-min", VALIDATES),
    ("val-sig-skew-max", VALIDATES),
    ("val-max-restart", VALIDATES),
    ("val-bogus-ttl", VALIDATES),
    ("val-clean-additional", VALIDATES),
    (
        "val-permissive-mode",
        Rule::Same(&["no"], "nomen has no such mode: it validates nothing (`validate = false`)"),
    ),
    ("val-nsec3-keysize-iterations", VALIDATES),
    ("ignore-cd-flag", VALIDATES),
    ("disable-edns-do", VALIDATES),
    ("add-holddown", VALIDATES),
    ("del-holddown", VALIDATES),
    ("keep-missing", VALIDATES),
    ("permit-small-holddown", VALIDATES),
    ("key-cache-size", VALIDATES),
    ("key-cache-slabs", VALIDATES),
    ("aggressive-nsec", VALIDATES),
    ("harden-dnssec-stripped", VALIDATES),
    ("harden-algo-downgrade", VALIDATES),
    ("prefetch-key", VALIDATES),
    ("insecure-lan-zones", VALIDATES),
    (
        "zonemd-permissive-mode",
        Rule::Same(
            &["no"],
            "nomen has no such mode: `zonemd = \"off\"` of a zone does not look at its digest",
        ),
    ),
    ("serve-original-ttl", Rule::Same(&["no"], "nomen counts TTLs down always")),
    ("ede", TUNING),
    ("ede-serve-expired", TUNING),
    ("fake-dsa", VALIDATES),
    ("fake-sha1", VALIDATES),
    ("caps-whitelist", TUNING),
    ("caps-exempt", TUNING),
    ("hide-trustanchor", VALIDATES),
    ("outgoing-interface", KERNEL),
    ("outgoing-port-permit", Rule::Missing("the kernel chooses the ports that nomen asks from")),
    ("outgoing-port-avoid", Rule::Missing("the kernel chooses the ports that nomen asks from")),
    ("tls-service-key", TLS),
    ("tls-service-pem", TLS),
    ("ssl-service-key", TLS),
    ("ssl-service-pem", TLS),
    ("tls-port", TLS),
    ("ssl-port", TLS),
    ("https-port", TLS),
    ("http-endpoint", TLS),
    ("tls-upstream", Rule::Same(&["no"], "nomen speaks plain UDP and TCP alone")),
    ("ssl-upstream", Rule::Same(&["no"], "nomen speaks plain UDP and TCP alone")),
    ("tls-cert-bundle", Rule::Unneeded("nomen speaks no TLS")),
    ("tls-system-cert", Rule::Unneeded("nomen speaks no TLS")),
    ("tls-additional-port", TLS),
    ("tls-ciphers", TLS),
    ("tls-ciphersuites", TLS),
    ("quic-port", TLS),
    ("proxy-protocol-port", Rule::Missing("nomen takes no PROXY protocol")),
    ("ratelimit", RATES),
    ("ip-ratelimit", RATES),
    ("ip-ratelimit-cookie", RATES),
    ("ratelimit-for-domain", Rule::Missing("nomen limits no rates of answers")),
    ("ratelimit-below-domain", Rule::Missing("nomen limits no rates of answers")),
    ("ratelimit-size", TUNING),
    ("ratelimit-slabs", TUNING),
    ("ratelimit-factor", TUNING),
    ("ratelimit-backoff", TUNING),
    ("ip-ratelimit-size", TUNING),
    ("ip-ratelimit-slabs", TUNING),
    ("ip-ratelimit-factor", TUNING),
    ("ip-ratelimit-backoff", TUNING),
    ("wait-limit", TUNING),
    ("discard-timeout", TUNING),
    ("outbound-msg-retry", TUNING),
    ("max-sent-count", TUNING),
    ("define-tag", TAGS),
    ("local-zone-tag", TAGS),
    ("local-zone-override", TAGS),
    ("access-control-tag", TAGS),
    ("access-control-tag-action", TAGS),
    ("access-control-tag-data", TAGS),
    ("access-control-view", TAGS),
    ("interface-tag", TAGS),
    ("interface-tag-action", TAGS),
    ("interface-tag-data", TAGS),
    ("interface-view", TAGS),
    ("interface-action", Rule::Missing("write `interface` into [[resolver.access]]")),
    ("response-ip", TAGS),
    ("response-ip-tag", TAGS),
    ("response-ip-data", TAGS),
    ("send-client-subnet", SUBNETS),
    ("client-subnet-zone", SUBNETS),
    ("client-subnet-always-forward", SUBNETS),
    ("max-client-subnet-ipv4", SUBNETS),
    ("max-client-subnet-ipv6", SUBNETS),
    ("min-client-subnet-ipv4", SUBNETS),
    ("min-client-subnet-ipv6", SUBNETS),
    ("max-ecs-tree-size-ipv4", SUBNETS),
    ("max-ecs-tree-size-ipv6", SUBNETS),
    ("answer-cookie", Rule::Same(&["no"], "nomen answers no cookies of clients")),
    ("cookie-secret", Rule::Missing("nomen answers no cookies of clients")),
    ("dns64-synthall", Rule::Same(&["no"], "nomen makes AAAA records where there are none")),
    ("dns64-ignore-aaaa", Rule::Missing("see `dns64-exclude` of [resolver]")),
    ("nat64-prefix", Rule::Missing("nomen asks servers by the addresses that they have")),
    ("do-nat64", Rule::Same(&["no"], "nomen asks servers by the addresses that they have")),
    ("do-not-query-address", Rule::Missing("nomen asks the servers that delegations name")),
    ("do-not-query-localhost", TUNING),
    ("rrset-roundrobin", Rule::Same(&["no"], "nomen keeps the order of the records")),
    ("unblock-lan-zones", Rule::Same(&["no"], "write the names into `special-names-off` of [resolver]")),
    ("prefer-ip4", Rule::Same(&["no"], "nomen asks the fastest first")),
    ("prefer-ip6", Rule::Same(&["no"], "nomen asks the fastest first")),
    ("tcp-upstream", Rule::Same(&["no"], "write `tcp-only` into the rules")),
    ("udp-upstream-without-downstream", TUNING),
    ("delay-close", TUNING),
    ("udp-connect", TUNING),
    ("low-rtt", TUNING),
    ("fast-server-permil", TUNING),
    ("fast-server-num", TUNING),
    ("minimal-responses", TUNING),
    ("deny-any", Rule::Unneeded("nomen answers ANY with one RRset")),
    ("harden-glue", TUNING),
    ("harden-unverified-glue", TUNING),
    ("harden-short-bufsize", TUNING),
    ("harden-large-queries", TUNING),
    ("harden-referral-path", TUNING),
    ("harden-unknown-additional", TUNING),
    ("unwanted-reply-threshold", TUNING),
    ("edns-tcp-keepalive", TUNING),
    ("edns-tcp-keepalive-timeout", TUNING),
    ("max-reuse-tcp-queries", TUNING),
    ("tcp-reuse-timeout", TUNING),
    ("tcp-auth-query-timeout", TUNING),
    ("sock-queue-timeout", TUNING),
    ("pad-responses", TUNING),
    ("pad-responses-block-size", TUNING),
    ("pad-queries", TUNING),
    ("pad-queries-block-size", TUNING),
    ("edns-client-string", Rule::Missing("nomen sends no text about itself")),
    ("edns-client-string-opcode", TUNING),
    ("outgoing-range", TUNING),
    ("outgoing-num-tcp", TUNING),
    ("stream-wait-size", TUNING),
    ("msg-buffer-size", TUNING),
    ("msg-cache-slabs", TUNING),
    ("rrset-cache-slabs", TUNING),
    ("infra-cache-slabs", TUNING),
    ("num-queries-per-thread", TUNING),
    ("jostle-timeout", TUNING),
    ("so-reuseport", TUNING),
    ("ip-transparent", Rule::Same(&["no"], "nomen listens on addresses that the machine has")),
    ("ip-freebind", Rule::Same(&["no"], "nomen listens on addresses that the machine has")),
    ("ip-dscp", TUNING),
    ("infra-host-ttl", TUNING),
    ("infra-lame-ttl", TUNING),
    ("infra-keep-probing", TUNING),
    ("infra-cache-min-rtt", TUNING),
    ("infra-cache-max-rtt", TUNING),
    ("infra-cache-lame-size", TUNING),
    ("neg-cache-size", TUNING),
    ("target-fetch-policy", TUNING),
    ("unknown-server-time-limit", TUNING),
    ("tcp-mss", TUNING),
    ("outgoing-tcp-mss", TUNING),
    ("use-systemd", TUNING),
    ("cache-min-negative-ttl", TUNING),
    ("serve-expired-ttl-reset", TUNING),
    ("http-max-streams", TLS),
    ("max-global-quota", Rule::Number(Section::Resolver, "budget-queries")),
    (
        "tcp-connection-limit",
        Rule::Missing("nomen limits the connections of each client: `tcp-connections-per-client`"),
    ),
    ("iter-scrub-ns", TUNING),
    ("iter-scrub-cname", TUNING),
    ("qname-minimisation-strict", TUNING),
    ("serve-expired-ttl", TUNING),
    ("root-hints", TUNING),
];

/// Moves a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let parsed = clauses::parse(texts, path, SECTIONS)?;
    for include in &parsed.includes {
        work.ledger.translated(include, "its statements, as if they stood here");
    }
    let sections = &parsed.sections;
    let all: Vec<&Statement> = sections
        .iter()
        .filter(|section| section.key() == "server")
        .flat_map(|section| section.block())
        .collect();
    let base = path.parent().unwrap_or(Path::new(""));
    let directory = last(&all, "directory").map_or(base.to_owned(), |found| join(base, found.value()));
    work.recurse();
    sections.iter().for_each(|section| work.ledger.open(section));
    server_section(work, &all, &directory);
    anchors::of_unbound(work, texts, &all, &directory);
    for section in sections {
        match section.key() {
            "forward-zone" => forward(work, section),
            "stub-zone" => stub(work, section),
            "auth-zone" => auth_zone(work, section, &directory),
            "remote-control" => remote_control(work, section),
            "server" => {}
            "rpz" => work.ledger.missing(section, "nomen has no policy lists (RPZ)"),
            "view" => work.ledger.missing(section, "nomen has no views; run an instance for each view"),
            "dnstap" => dnstap::of_section(work, section, &directory),
            key => {
                let why = format!("nomen has nothing for the section `{key}`");
                work.ledger.missing(section, why);
            }
        }
    }
    if find(sections, "server").is_none_or(|_| last(&all, "username").is_none()) {
        work.nomen.server.text("user", "unbound");
    }
    work.ledger.sweep(sections, &explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(sections), 0);
    Ok(())
}

fn explain(statement: &Statement) -> (Outcome, String) {
    let explained = rule(RULES, statement.key()).and_then(|rule| rule.without_key(statement));
    explained.unwrap_or_else(|| (Outcome::Missing, format!("nomen has nothing for `{}`", statement.key())))
}

fn is_on(all: &[&Statement], key: &str) -> bool {
    last(all, key).is_some_and(|found| units::switch(found.value()) == Some(true))
}

fn server_section(work: &mut Work, all: &[&Statement], directory: &Path) {
    listen(work, all);
    access(work, all);
    cache(work, all);
    identity(work, all);
    local_names(work, all);
    for statement in all {
        match statement.key() {
            "private-address" => match Network::parse(statement.value()) {
                Some(network) => {
                    work.recurse().add("private-addresses", network.to_string());
                    work.in_key(statement, Section::Resolver, "private-addresses");
                }
                None => work.not_understood(statement),
            },
            "private-domain" => match domain(statement.value()) {
                Some(name) => {
                    work.recurse().add("private-domains", name);
                    work.in_key(statement, Section::Resolver, "private-domains");
                }
                None => work.not_understood(statement),
            },
            "username" => match statement.value() {
                "" => work
                    .ledger
                    .unneeded(statement, "nomen stays who it is unless `user` of [server] says otherwise"),
                _ => work.apply(statement, Rule::Text(Section::Server, "user")),
            },
            "qname-minimisation" => {
                let word = match (units::switch(statement.value()), is_on(all, "qname-minimisation-strict")) {
                    (Some(false), _) => "off",
                    (_, true) => "strict",
                    _ => "relaxed",
                };
                work.recurse().text("qname-minimisation", word);
                work.in_key(statement, Section::Resolver, "qname-minimisation");
            }
            "root-hints" => work.hints.push((join(directory, statement.value()), statement.span.clone())),
            "module-config" => modules(work, statement),
            "dns64-prefix" => match Network::parse(statement.value()) {
                Some(network) if last(all, "module-config").is_some_and(|m| m.value().contains("dns64")) => {
                    work.recurse().text("dns64-prefix", network.to_string());
                    work.in_key(statement, Section::Resolver, "dns64-prefix");
                }
                Some(_) => work.ledger.unneeded(statement, "`module-config` has no dns64"),
                None => work.not_understood(statement),
            },
            "logfile" if statement.value().is_empty() => {
                work.ledger.unneeded(statement, "nomen logs to stderr")
            }
            "logfile" => {
                let path = path_text(&join(directory, statement.value()));
                work.nomen.log.text("target", path);
                work.in_key(statement, Section::Log, "target");
            }
            "use-syslog" => work.ledger.unneeded(statement, "nomen writes to stderr, which systemd keeps"),
            "verbosity" => verbosity(work, statement),
            key => {
                if let Some(rule) = rule(RULES, key).filter(|_| !HANDLED.contains(&key)) {
                    work.apply(statement, rule);
                }
            }
        }
    }
    if work.recurse().get("private-domains").is_some() && work.recurse().get("private-addresses").is_none() {
        work.recurse().remove("private-domains");
    }
}

/// Keys whose rule is only for words about them: their work is done elsewhere.
const HANDLED: &[&str] = &[
    "serve-expired-ttl",
    "qname-minimisation-strict",
    "serve-expired-reply-ttl",
    "trust-anchor",
    "trust-anchor-file",
    "auto-trust-anchor-file",
    "trusted-keys-file",
    "domain-insecure",
];

/// The level of the log for a verbosity.
pub(crate) fn verbosity(work: &mut Work, statement: &Statement) {
    let level = match statement.value().parse::<u32>() {
        Ok(0) => "warn",
        Ok(1) => "info",
        Ok(_) => "debug",
        Err(_) => return work.not_understood(statement),
    };
    work.nomen.log.text("level", level);
    work.in_key(statement, Section::Log, "level");
}

fn modules(work: &mut Work, statement: &Statement) {
    for module in statement.value().split_whitespace() {
        let why = match module {
            "iterator" | "dns64" | "validator" => continue,
            "respip" => "nomen has no policy lists (RPZ)",
            "subnetcache" => "nomen passes no addresses of clients on to other servers",
            _ => "nomen loads no modules",
        };
        let words = format!("module `{module}`: {why}");
        work.ledger.part(&statement.span, &statement.title(), Outcome::Missing, words);
    }
    work.ledger.translated(statement, "[resolver]");
}

fn listen(work: &mut Work, all: &[&Statement]) {
    let port = last(all, "port");
    let usual = port.and_then(|port| port.value().parse().ok()).unwrap_or(53u16);
    if let Some(port) = port {
        work.ledger.translated(port, "the port in `addr` of [[listen]]");
    }
    let named: Vec<&&Statement> =
        all.iter().filter(|s| s.key() == "interface" || s.key() == "ip-address").collect();
    let mut block = Keys::default();
    for statement in &named {
        let (ip, own) =
            statement.value().split_once('@').map_or((statement.value(), None), |(ip, p)| (ip, Some(p)));
        let port = own.map_or(Some(usual), |port| port.parse().ok());
        let of_tls = ["tls-port", "ssl-port", "https-port"].iter().any(|key| {
            let of = last(all, key).map(|found| found.value().to_owned());
            let usual = if *key == "https-port" { "443" } else { "853" };
            port.is_some_and(|port| port.to_string() == of.unwrap_or(usual.to_owned()))
        });
        match (ip.parse(), port) {
            (Ok(_), Some(_)) if of_tls => {
                work.ledger.missing(statement, "nomen listens for plain UDP and TCP alone");
            }
            (Ok(ip), Some(port)) => {
                block.add("addr", with_port(ip, port));
                work.ledger.translated(statement, "`addr` of [[listen]]");
            }
            _ => {
                work.ledger.missing(statement, "nomen listens on addresses, not on interfaces by their names")
            }
        }
    }
    if named.is_empty() {
        ["127.0.0.1", "::1"]
            .iter()
            .filter_map(|ip| ip.parse().ok())
            .for_each(|ip| block.add("addr", with_port(ip, usual)));
    }
    if block.0.is_empty() {
        return work.ledger.unwritten(Outcome::Differs, "it listens on no address that nomen could; without any [[listen]], nomen does on 127.0.0.1 and ::1 at port 5300");
    }
    work.nomen.listens.push(block);
}

/// The longest network that a client is in decides there; here the first, so they are sorted.
fn access(work: &mut Work, all: &[&Statement]) {
    let mut rules: Vec<(u8, bool, Network)> = Vec::new();
    for statement in all.iter().filter(|s| s.key() == "access-control") {
        let Some(network) = Network::parse(statement.value()) else {
            work.not_understood(statement);
            continue;
        };
        let action = statement.argument(1).map_or("", |action| &action.text);
        let allow = match action {
            "allow" | "allow_snoop" | "allow_setrd" | "allow_cookie" => true,
            "deny" | "deny_non_local" | "refuse" | "refuse_non_local" => false,
            _ => {
                work.not_understood(statement);
                continue;
            }
        };
        rules.retain(|(_, _, other)| *other != network);
        rules.push((network.length(), allow, network));
        match action {
            "allow" | "refuse_non_local" => work.ledger.translated(statement, "[[resolver.access]]"),
            "allow_snoop" | "allow_setrd" | "allow_cookie" => {
                work.ledger.differs(statement, "these clients may recurse, as with `allow`");
            }
            "deny" | "deny_non_local" => {
                work.ledger.differs(statement, "nomen answers REFUSED, it does not stay silent")
            }
            _ => work.ledger.differs(
                statement,
                "nomen refuses recursion; names of its own zones are answered to everybody",
            ),
        }
    }
    for text in ["127.0.0.0/8", "::1"] {
        let network =
            Network::parse(text).filter(|network| !rules.iter().any(|(_, _, other)| other == network));
        rules.extend(network.map(|network| (network.length(), true, network)));
    }
    rules.sort_by_key(|(length, allow, network)| (std::cmp::Reverse(*length), !*allow, *network));
    for (_, allow, network) in rules {
        work.nomen.grant(if allow { "allow" } else { "refuse" }, network.to_string());
    }
}

fn cache(work: &mut Work, all: &[&Statement]) {
    let sizes = ["msg-cache-size", "rrset-cache-size"].map(|key| last(all, key));
    if sizes.iter().any(Option::is_some) {
        let bytes = sizes.map(|found| found.map_or(Some(4 << 20), |found| units::size(found.value())));
        for found in sizes.into_iter().flatten() {
            let total = bytes[0].zip(bytes[1]).and_then(|(a, b)| a.checked_add(b));
            work.number(found, Section::Resolver, "cache-size", total);
            if total.is_some() {
                work.ledger.differs(
                    found,
                    "nomen has one cache for messages and RRsets; `cache-size` is the sum of both",
                );
            }
        }
    }
    let on = is_on(all, "serve-expired");
    if let Some(found) = last(all, "serve-expired") {
        work.in_key(found, Section::Resolver, "serve-stale");
    }
    if !on {
        // Unlike there, it is on here unless it is turned off.
        work.recurse().text("serve-stale", "0s");
    }
    for statement in all {
        let key = statement.key();
        if !on && key.starts_with("serve-expired-") {
            work.ledger.unneeded(statement, "`serve-expired` is off");
            continue;
        }
        match key {
            "serve-expired-ttl" if statement.value() == "0" => {
                work.ledger.differs(statement, "nomen keeps answers for a time beyond their end, of a day unless `serve-stale` says otherwise");
            }
            "serve-expired-ttl" => {
                work.apply(statement, Rule::Time(Section::Resolver, "serve-stale", SECOND))
            }
            "serve-expired-reply-ttl" => {
                work.apply(statement, Rule::Time(Section::Resolver, "stale-answer-ttl", SECOND))
            }
            "serve-expired-client-timeout" => {
                work.apply(statement, Rule::Time(Section::Resolver, "stale-after", 1))
            }
            _ => {}
        }
    }
}

fn identity(work: &mut Work, all: &[&Statement]) {
    for (text, hide, key) in [("identity", "hide-identity", "id"), ("version", "hide-version", "version")] {
        let hidden = is_on(all, hide);
        if let Some(found) = last(all, hide) {
            work.in_key(found, Section::Server, key);
        }
        let said = last(all, text);
        let value = match (hidden, said.map(Statement::value)) {
            (true, _) => "hide",
            (false, None | Some("")) => "auto",
            (false, Some(text)) => text,
        };
        work.nomen.server.text(if key == "id" { "id" } else { "version" }, value);
        if let Some(found) = said {
            match hidden {
                true => work.ledger.unneeded(found, "it is hidden"),
                false => work.in_key(found, Section::Server, key),
            }
        }
    }
    if let Some(found) = last(all, "nsid") {
        nsid(work, found);
    }
}

/// `nsid: "ascii_TEXT"`, or hexadecimal digits.
pub(crate) fn nsid(work: &mut Work, found: &Statement) {
    let text = match found.value().strip_prefix("ascii_") {
        Some(text) => text.to_owned(),
        None => format!("0x{}", found.value().trim_start_matches("0x")),
    };
    let hex = text
        .strip_prefix("0x")
        .is_none_or(|hex| hex.len().is_multiple_of(2) && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if !hex || text.len() <= 2 && text.starts_with("0x") || text.is_empty() || text.len() > 128 {
        return work.not_understood(found);
    }
    work.nomen.server.text("nsid", text);
    work.in_key(found, Section::Server, "nsid");
}

fn local_names(work: &mut Work, all: &[&Statement]) {
    let mut wildcards = Vec::new();
    for statement in all.iter().filter(|s| s.key() == "local-zone") {
        let Some(name) = domain(statement.value()) else {
            work.not_understood(statement);
            continue;
        };
        let kind = statement.argument(1).map_or("", |kind| &kind.text);
        match kind {
            "transparent" => {
                work.ledger.unneeded(statement, "names without `local-data` are resolved as any other")
            }
            "redirect" => {
                wildcards.push(name);
                work.ledger.translated(statement, "`local-data` of [resolver], with a `*` in front as well");
            }
            "nodefault" if SPECIAL.contains(&name.as_str()) => {
                work.recurse().add("special-names-off", name);
                work.in_key(statement, Section::Resolver, "special-names-off");
            }
            "nodefault" => work.ledger.unneeded(statement, "nomen answers nothing for it by itself"),
            "static" if SPECIAL.contains(&name.as_str()) => {
                work.ledger.unneeded(statement, "nomen does so anyway")
            }
            "typetransparent" | "inform" | "static" => {
                work.ledger.differs(statement, "its `local-data` is answered; all other names in it are resolved, and other types of a name with data do not exist");
            }
            _ => work.ledger.missing(
                statement,
                "nomen has no policy for names; records can be put into `local-data` of [resolver]",
            ),
        }
    }
    for statement in all {
        let text = match statement.key() {
            "local-data" => statement.value().to_owned(),
            "local-data-ptr" => match pointer(statement.value()) {
                Some(text) => text,
                None => {
                    work.not_understood(statement);
                    continue;
                }
            },
            _ => continue,
        };
        let owner = text.split_whitespace().next().and_then(domain);
        let Some(owner) = owner else {
            work.not_understood(statement);
            continue;
        };
        if wildcards.contains(&owner) {
            let rest = text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
            work.recurse().add("local-data", format!("*.{owner}. {rest}"));
        }
        work.recurse().add("local-data", text);
        work.in_key(statement, Section::Resolver, "local-data");
    }
}

/// `ADDRESS [TTL] NAME` as a PTR record.
fn pointer(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (address, ttl, name) = match words[..] {
        [address, name] => (address, "", name),
        [address, ttl, name] => (address, ttl, name),
        _ => return None,
    };
    let owner = match address.parse().ok()? {
        std::net::IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        std::net::IpAddr::V6(v6) => {
            let digits: Vec<String> =
                format!("{:032x}", u128::from(v6)).chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa.", digits.join("."))
        }
    };
    Some(
        [owner.as_str(), ttl, "PTR", name]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// `ADDRESS[@PORT][#NAME]`.
fn upstream(text: &str) -> Option<String> {
    let text = text.split('#').next().unwrap_or_default();
    let (address, port) = text.split_once('@').map_or((text, None), |(address, port)| (address, Some(port)));
    server(address, port)
}

/// The servers of a rule, and whether they can be asked as they are to be.
fn upstreams(work: &mut Work, section: &Statement, prefix: &str) -> Option<Keys> {
    let name = section.find("name").and_then(|name| domain(name.value()));
    let Some(name) = name else {
        work.ledger.missing(section, "it has no name");
        return None;
    };
    let key = |suffix: &str| format!("{prefix}-{suffix}");
    let (mut rule, mut encrypted) = (Keys::default(), false);
    rule.text("domain", name);
    for statement in section.block() {
        let on = units::switch(statement.value()) == Some(true);
        let found = statement.key();
        if found == "name" {
            work.ledger.translated(statement, "`domain` of the rule");
        } else if found == key("addr") {
            match upstream(statement.value()) {
                Some(server) => {
                    rule.add("servers", server);
                    work.ledger.translated(statement, "`servers` of the rule");
                }
                None => work.not_understood(statement),
            }
        } else if found == key("host") {
            work.ledger.missing(statement, "nomen takes servers by their addresses");
        } else if [key("tls-upstream"), key("ssl-upstream")].iter().any(|key| key == found) && on {
            work.ledger.missing(statement, "nomen asks over plain UDP and TCP alone; the rule is left out, so that nothing goes in the clear");
            encrypted = true;
        } else if found == key("tcp-upstream") && on {
            rule.switch("tcp-only", true);
            work.ledger.translated(statement, "`tcp-only` of the rule");
        } else if found == key("first") && on {
            work.ledger.differs(statement, "nomen asks these servers alone, also where they do not answer");
        } else if found == key("prime") && on {
            work.ledger.differs(
                statement,
                "nomen asks these servers themselves, not those that they name in NS records",
            );
        } else if found == key("no-cache") && on {
            work.ledger.missing(statement, "nomen keeps all answers for as long as their TTLs say");
        } else {
            work.ledger.unneeded(statement, "nomen does so anyway");
        }
    }
    let servers = !rule.members("servers").is_empty();
    if !servers && !encrypted {
        work.ledger.missing(section, "it names no server by its address");
    }
    (servers && !encrypted).then_some(rule)
}

fn forward(work: &mut Work, section: &Statement) {
    if let Some(rule) = upstreams(work, section, "forward") {
        work.nomen.forwards.push(rule);
    }
}

fn stub(work: &mut Work, section: &Statement) {
    let Some(rule) = upstreams(work, section, "stub") else { return };
    if section.find("name").is_some_and(|name| name.value() == ".") {
        let servers = rule.members("servers").to_vec();
        work.recurse().texts("root-servers", servers);
        return work.ledger.part(
            &section.span,
            &section.title(),
            Outcome::Translated,
            "`root-servers` of [resolver]",
        );
    }
    work.nomen.stubs.push(rule);
}

fn auth_zone(work: &mut Work, section: &Statement, directory: &Path) {
    let get = |key| section.find(key).map(Statement::value);
    let name = get("name").and_then(domain);
    let Some(name) = name.filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name)) else {
        return work.ledger.missing(section, "it has no name, or that of another zone");
    };
    if get("for-downstream").and_then(units::switch) == Some(false) {
        return work.ledger.missing(section, "nomen keeps no zone for its own recursion alone");
    }
    let mut keys = Keys::default();
    let mut file: Option<PathBuf> = None;
    for statement in section.block() {
        match statement.key() {
            "name" => work.ledger.translated(statement, "`name` of the zone"),
            "primary" | "master" => match upstream(statement.value()) {
                Some(server) => {
                    keys.add("primaries", server);
                    work.ledger.translated(statement, "`primaries` of the zone");
                }
                None => work.ledger.missing(statement, "nomen takes primaries by their addresses"),
            },
            "allow-notify" => match Network::parse(statement.value()) {
                Some(network) => {
                    keys.add("allow-notify", network.to_string());
                    work.ledger.translated(statement, "`allow-notify` of the zone");
                }
                None => work.not_understood(statement),
            },
            "zonefile" => file = Some(join(directory, statement.value())),
            "url" => work.ledger.missing(statement, "nomen fetches no zones over HTTP"),
            "for-downstream" | "for-upstream" => work.ledger.unneeded(statement, "nomen does so anyway"),
            "fallback-enabled" => {
                work.ledger.differs(statement, "a zone that is gone is answered with SERVFAIL")
            }
            _ => {}
        }
    }
    let secondary = keys.get("primaries").is_some();
    if !secondary {
        keys.remove("allow-notify");
    }
    digest(work, section, secondary, &mut keys);
    let zonefile = section.find("zonefile");
    match (&file, secondary) {
        (_, true) => {
            work.keep_state();
            if let Some(found) = zonefile {
                work.ledger.unneeded(
                    found,
                    "nomen takes the zone from its primaries at the start, and keeps it in `state-dir`",
                );
            }
        }
        (Some(path), false) => {
            work.zone_files.push((path.clone(), Some(directory.to_owned())));
            if let Some(found) = zonefile {
                work.ledger.translated(found, "`file` of the zone");
            }
        }
        (None, false) => return work.ledger.missing(section, "it has no file and no primaries"),
    }
    let file = file.filter(|_| !secondary).as_deref().map(path_text);
    let span = Some(section.span.clone());
    work.nomen.zones.push(Zone { name, file, template: None, keys, span });
}

/// Whether the zone must be what its digest was made of (ZONEMD).
fn digest(work: &mut Work, section: &Statement, secondary: bool, keys: &mut Keys) {
    let is = |key| section.find(key).and_then(|found| units::switch(found.value()));
    let (check, require) = (is("zonemd-check"), is("zonemd-reject-absence"));
    let word = match (check, require) {
        (Some(true), Some(true)) => "require",
        (Some(true), _) => "verify",
        _ => "off",
    };
    for key in ["zonemd-check", "zonemd-reject-absence"] {
        let Some(found) = section.find(key) else { continue };
        match (secondary, check) {
            (true, _) => {
                keys.text("zonemd", word);
                work.ledger.translated(found, "`zonemd` of the zone");
            }
            (false, Some(true)) => work.ledger.missing(found, NO_DIGEST),
            (false, _) => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
}

/// Why a file's digest is not looked at.
pub(crate) const NO_DIGEST: &str =
    "nomen verifies digests of zones from primaries; `nomen zone check --zonemd` does of a file";

fn remote_control(work: &mut Work, section: &Statement) {
    for statement in section.block() {
        let local = |text: &str| {
            text.starts_with('/') || text.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        };
        match statement.key() {
            "control-interface" if !local(statement.value()) => {
                work.ledger.missing(
                    statement,
                    "`nomen ctl` talks to a local socket; nothing is controlled over the network",
                );
            }
            _ => work
                .ledger
                .unneeded(statement, "`nomen ctl` talks to a local socket that [control] has by default"),
        }
    }
}
