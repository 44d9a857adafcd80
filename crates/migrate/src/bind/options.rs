//! `options` of named.conf, and other statements outside zones.

use super::encryption::TlsFiles;
use super::{Frame, access, acl, encryption, logging, outgoing, zones};
use crate::anchors;
use crate::dnstap;
use crate::encrypted::{self, EncryptedListens};
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::network::Network;
use crate::tree::Statement;
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, is_special, rule, with_port};

const FILES: Rule = Rule::Unneeded("nomen writes no such file, or keeps it in `state-dir`");
const SIGNS: Rule = Rule::Missing("nomen signs zones with `dnssec-policy`, which has nothing for it");
const BOUNDED: Rule = Rule::Missing(
    "nomen bounds what validating takes for one query of a client: see `validate-…` of [resolver]",
);
const ALGORITHMS: Rule = Rule::Missing("nomen verifies with every algorithm that it knows");
const RESOURCES: Rule =
    Rule::Unneeded("the service manager, such as systemd, limits what a process may take");
const UNTAPPED: Rule = Rule::Unneeded("`dnstap` is written nowhere");
const UNANCHORED: Rule = Rule::Unneeded("recursion is off, and so is validation");
const NO_RECURSION: Rule = Rule::Unneeded("recursion is off");
const ALTERNATIVE: Rule = Rule::Missing("nomen has one `source` for a zone, and no other in its place");
const NO_SOURCE: Rule = Rule::Unneeded("there is no zone that it holds for");
const CHECKS: Rule = Rule::Unneeded("nomen checks zones in its own way: see `nomen check`");
const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");
const SORTED: Rule = Rule::Missing("nomen does not sort addresses by the network of the client");

/// Statements with one value.
const RULES: &[NamedRule] = &[
    ("max-udp-size", Rule::Number(Section::Server, "max-udp-size")),
    ("tcp-clients", Rule::Number(Section::Server, "tcp-connections")),
    ("tcp-initial-timeout", Rule::Time(Section::Server, "tcp-first-timeout", 100)),
    ("tcp-idle-timeout", Rule::Time(Section::Server, "tcp-idle-timeout", 100)),
    ("udp-receive-buffer", Rule::Choice(Section::Server, "udp-buffer")),
    ("udp-send-buffer", Rule::Unneeded("`udp-buffer` of [server] is for both directions")),
    ("transfers-in", Rule::Number(Section::Transfers, "incoming")),
    ("transfers-per-ns", Rule::Number(Section::Transfers, "incoming-per-primary")),
    ("transfers-out", Rule::Number(Section::Transfers, "outgoing")),
    ("max-records", Rule::Limit(Section::Transfers, "incoming-max-records")),
    ("max-transfer-time-in", Rule::Time(Section::Transfers, "incoming-max-time", 60 * SECOND)),
    ("max-transfer-idle-in", Rule::Time(Section::Transfers, "incoming-idle-timeout", 60 * SECOND)),
    ("max-cache-size", Rule::Number(Section::Resolver, "cache-size")),
    ("max-cache-ttl", Rule::Time(Section::Resolver, "max-ttl", SECOND)),
    ("max-ncache-ttl", Rule::Time(Section::Resolver, "max-negative-ttl", SECOND)),
    ("min-cache-ttl", Rule::Time(Section::Resolver, "min-ttl", SECOND)),
    ("servfail-ttl", Rule::Time(Section::Resolver, "failure-ttl", SECOND)),
    ("stale-answer-ttl", Rule::Time(Section::Resolver, "stale-answer-ttl", SECOND)),
    ("edns-udp-size", Rule::Number(Section::Resolver, "udp-size")),
    ("max-recursion-depth", Rule::Number(Section::Resolver, "budget-depth")),
    ("max-recursion-queries", Rule::Number(Section::Resolver, "budget-queries")),
    ("recursive-clients", Rule::Limit(Section::Resolver, "lookups")),
    ("max-clients-per-query", Rule::Limit(Section::Resolver, "clients-per-lookup")),
    ("clients-per-query", Rule::Unneeded("`clients-per-lookup` is the most of it, and does not grow")),
    ("fetches-per-zone", Rule::Limit(Section::Resolver, "lookups-per-zone")),
    ("fetches-per-server", Rule::Missing("nomen bounds the questions for one zone, not those to one server")),
    ("synth-from-dnssec", Rule::Switch(Section::Resolver, "aggressive-nsec")),
    ("trust-anchor-telemetry", Rule::Switch(Section::Resolver, "signal-trust-anchors")),
    ("root-key-sentinel", Rule::Switch(Section::Resolver, "root-key-sentinel")),
    ("max-query-restarts", Rule::Number(Section::Server, "max-chain")),
    (
        "max-query-count",
        Rule::Missing("see `budget-queries` of [resolver], which `max-recursion-queries` sets"),
    ),
    ("max-validations-per-fetch", BOUNDED),
    ("max-validation-failures-per-fetch", BOUNDED),
    (
        "max-types-per-name",
        Rule::Missing("nomen bounds the records of one name and type: `records-per-set` of [resolver]"),
    ),
    ("max-records-per-type", Rule::Limit(Section::Resolver, "records-per-set")),
    ("resolver-query-timeout", NO_RECURSION),
    (
        "update-quota",
        Rule::Missing(
            "see `queue` and `forward-in-flight` of [updates], which bound changes and what is passed on",
        ),
    ),
    ("send-report-channel", Rule::Text(Section::Server, "report-channel")),
    (
        "log-report-channel",
        Rule::Same(&["no"], "nomen logs no reports as such; `queries` of [log] has all queries"),
    ),
    ("send-cookie", Rule::Switch(Section::Resolver, "cookies")),
    ("querylog", Rule::Switch(Section::Log, "queries")),
    ("directory", Rule::Unneeded("paths in the printed configuration are whole")),
    ("pid-file", Rule::Unneeded("nomen writes no such file; service managers know the process")),
    ("session-keyfile", FILES),
    ("session-keyname", FILES),
    ("session-keyalg", FILES),
    ("dump-file", FILES),
    ("statistics-file", FILES),
    ("memstatistics-file", FILES),
    ("memstatistics", FILES),
    ("recursing-file", FILES),
    ("secroots-file", FILES),
    ("lock-file", FILES),
    ("managed-keys-directory", FILES),
    ("new-zones-directory", FILES),
    ("lmdb-mapsize", FILES),
    ("bindkeys-file", FILES),
    ("dnssec-update-mode", SIGNS),
    ("dnssec-secure-to-insecure", SIGNS),
    ("dnssec-dnskey-kskonly", SIGNS),
    ("update-check-ksk", SIGNS),
    ("sig-validity-interval", SIGNS),
    ("sig-signing-nodes", TUNING),
    ("sig-signing-signatures", TUNING),
    ("sig-signing-type", SIGNS),
    ("dnskey-sig-validity", SIGNS),
    ("dnssec-loadkeys-interval", TUNING),
    ("auto-dnssec", Rule::Same(&["off"], "nomen signs zones with `dnssec-policy` alone")),
    ("dnssec-validation", Rule::Unneeded("recursion is off, and so is validation")),
    ("trust-anchors", UNANCHORED),
    ("managed-keys", UNANCHORED),
    ("trusted-keys", UNANCHORED),
    ("validate-except", UNANCHORED),
    ("dnssec-must-be-secure", Rule::Missing("nomen demands of no domain that it is signed")),
    ("dnssec-accept-expired", Rule::Same(&["no"], "nomen does not accept expired signatures")),
    ("disable-algorithms", ALGORITHMS),
    ("disable-ds-digests", ALGORITHMS),
    ("query-source", NO_RECURSION),
    ("query-source-v6", NO_RECURSION),
    ("transfer-source", NO_SOURCE),
    ("transfer-source-v6", NO_SOURCE),
    ("notify-source", NO_SOURCE),
    ("notify-source-v6", NO_SOURCE),
    ("alt-transfer-source", ALTERNATIVE),
    ("alt-transfer-source-v6", ALTERNATIVE),
    (
        "use-alt-transfer-source",
        Rule::Same(&["no"], "nomen has one `source` for a zone, and no other in its place"),
    ),
    ("check-names", CHECKS),
    ("check-mx", CHECKS),
    ("check-mx-cname", CHECKS),
    ("check-srv-cname", CHECKS),
    ("check-sibling", CHECKS),
    ("check-spf", CHECKS),
    ("check-dup-records", CHECKS),
    ("check-integrity", CHECKS),
    ("check-wildcard", CHECKS),
    ("check-svcb", CHECKS),
    ("zero-no-soa-ttl", TUNING),
    ("max-zone-ttl", CHECKS),
    ("response-policy", Rule::Unneeded("that of the view counts")),
    ("rrset-order", Rule::Rotation),
    ("sortlist", SORTED),
    ("allow-recursion-on", Rule::Same(&["any"], "write `interface` into [[resolver.access]]")),
    ("allow-query-cache-on", Rule::Same(&["any"], "write `interface` into [[resolver.access]]")),
    ("minimal-any", Rule::Same(&["yes"], "nomen answers ANY with one RRset")),
    ("auth-nxdomain", Rule::Same(&["no"], "nomen sets AA in answers from its zones alone")),
    ("match-mapped-addresses", TUNING),
    ("empty-server", TUNING),
    ("empty-contact", TUNING),
    ("interface-interval", Rule::Missing("nomen listens on the addresses that it finds at the start")),
    (
        "automatic-interface-scan",
        Rule::Same(&["no"], "nomen listens on the addresses that it finds at the start"),
    ),
    ("tcp-listen-queue", TUNING),
    ("tcp-keepalive-timeout", TUNING),
    ("tcp-advertised-timeout", TUNING),
    ("tcp-receive-buffer", TUNING),
    ("tcp-send-buffer", TUNING),
    ("reuseport", TUNING),
    ("reserved-sockets", TUNING),
    ("serial-query-rate", TUNING),
    ("notify-rate", TUNING),
    ("startup-notify-rate", TUNING),
    ("notify-delay", TUNING),
    ("transfer-message-size", TUNING),
    ("transfer-format", Rule::Same(&["many-answers"], "nomen sends many records in a message")),
    ("max-transfer-time-out", TUNING),
    ("max-transfer-idle-out", TUNING),
    ("provide-ixfr", Rule::Same(&["yes"], "nomen answers IXFR with changes wherever it has them")),
    ("request-expire", TUNING),
    ("max-ixfr-ratio", TUNING),
    ("try-tcp-refresh", TUNING),
    ("multi-master", TUNING),
    ("masterfile-style", TUNING),
    ("flush-zones-on-shutdown", TUNING),
    ("heartbeat-interval", TUNING),
    ("dialup", Rule::Same(&["no"], "nomen has no dial-up mode")),
    ("zone-statistics", Rule::Unneeded("`per-zone` of [metrics] counts queries for each zone")),
    ("notify-to-soa", Rule::Same(&["no"], "nomen sends NOTIFY to the servers in `notify` alone")),
    ("answer-cookie", Rule::Switch(Section::Server, "cookies")),
    ("cookie-algorithm", Rule::Same(&["siphash24"], "nomen makes cookies with SipHash-2-4 alone")),
    (
        "require-server-cookie",
        Rule::Same(
            &["no"],
            "`cookies-required-from` of [server] has networks whose clients need a cookie, those that send none as well",
        ),
    ),
    ("nocookie-udp-size", TUNING),
    ("request-nsid", TUNING),
    ("message-compression", Rule::Same(&["yes"], "nomen compresses names always")),
    ("preferred-glue", TUNING),
    ("glue-cache", TUNING),
    ("require-cookie", TUNING),
    ("ipv4only-enable", Rule::Same(&["yes"], "write `special-names-off`")),
    ("ipv4only-server", TUNING),
    ("ipv4only-contact", TUNING),
    ("lame-ttl", TUNING),
    ("resolver-retry-interval", TUNING),
    ("resolver-nonbackoff-tries", TUNING),
    ("fetch-quota-params", TUNING),
    ("max-rsa-exponent-size", TUNING),
    ("stale-cache-enable", TUNING),
    ("v6-bias", TUNING),
    ("attach-cache", TUNING),
    ("dual-stack-servers", Rule::Missing("nomen asks servers by the addresses that they have")),
    ("no-case-compress", Rule::Missing("nomen keeps the letter case of zones")),
    ("deny-answer-addresses", NO_RECURSION),
    ("avoid-v4-udp-ports", TUNING),
    ("avoid-v6-udp-ports", TUNING),
    ("use-v4-udp-ports", TUNING),
    ("use-v6-udp-ports", TUNING),
    ("coresize", RESOURCES),
    ("datasize", RESOURCES),
    ("files", RESOURCES),
    ("stacksize", RESOURCES),
    ("random-device", TUNING),
    ("dns64-contact", TUNING),
    ("dns64-server", TUNING),
    ("parental-source", Rule::Missing("the system chooses the address that parents are asked from")),
    ("parental-source-v6", Rule::Missing("the system chooses the address that parents are asked from")),
    ("deny-answer-aliases", Rule::Missing("nomen does not look at the targets of aliases")),
    ("filter-aaaa", Rule::Missing("nomen drops no AAAA records")),
    ("root-delegation-only", Rule::Missing("nomen has no delegation-only zones")),
    ("dnsrps-enable", Rule::Same(&["no"], "nomen loads no policy provider (DNSRPS)")),
    ("dnstap-output", UNTAPPED),
    ("dnstap-identity", UNTAPPED),
    ("dnstap-version", UNTAPPED),
    ("fstrm-set-buffer-hint", TUNING),
    ("fstrm-set-flush-timeout", TUNING),
    ("fstrm-set-input-queue-size", TUNING),
    ("fstrm-set-output-notify-threshold", TUNING),
    ("fstrm-set-output-queue-model", TUNING),
    ("fstrm-set-output-queue-size", TUNING),
    ("fstrm-set-reopen-interval", TUNING),
    (
        "allow-new-zones",
        Rule::Same(&["no"], "zones that `rndc addzone` has added are not read; use `nomen ctl zone add`"),
    ),
    ("nta-lifetime", Rule::Unneeded("`nomen ctl nta add` takes the duration")),
    ("nta-recheck", Rule::Unneeded("`nomen ctl nta add` takes the duration")),
    ("padding", TUNING),
    (
        "allow-proxy",
        Rule::Missing(
            "`proxy-protocol-from` of [server] has the networks of proxies, all of whose messages must have a header; see docs/PROXIES.md",
        ),
    ),
    ("listen-on", TUNING),
];

/// Statements outside `options` and zones.
const TOP: &[NamedRule] = &[
    ("trust-anchors", UNANCHORED),
    ("managed-keys", UNANCHORED),
    ("trusted-keys", UNANCHORED),
    ("dnssec-policy", Rule::Unneeded("no zone has this policy")),
    ("tls", Rule::Unneeded("nothing refers to it")),
    ("http", Rule::Unneeded("no listener refers to it")),
    ("dyndb", Rule::Missing("nomen loads no modules")),
    ("dlz", Rule::Missing("nomen takes zones from master files and from primaries")),
    ("plugin", Rule::Missing("nomen loads no modules")),
    ("lwres", Rule::Missing("nomen has no lightweight resolver")),
];

/// The report for a statement that has none yet.
pub(super) fn explain(statement: &Statement) -> (Coverage, String) {
    let key = statement.key();
    if zones::INHERITED.contains(&key) {
        return (Coverage::Unneeded, "there is no zone that it holds for".into());
    }
    match rule(RULES, key).or_else(|| rule(TOP, key)) {
        Some(Rule::Missing(why)) if statement.block().first().is_some_and(|first| first.key() == "none") => {
            (Coverage::Unneeded, format!("it is for no client ({why})"))
        }
        Some(rule) => rule
            .without_key(statement)
            .unwrap_or_else(|| (Coverage::Missing, format!("nomen has `{key}` only for all zones together"))),
        None => (Coverage::Missing, format!("nomen has nothing for `{key}`")),
    }
}

/// Whether a statement is about recursion alone.
pub(super) fn is_of_recursion(key: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "dnssec-validation",
        "validate-except",
        "trust-anchors",
        "managed-keys",
        "trusted-keys",
        "prefetch",
        "qname-minimization",
        "disable-empty-zone",
        "empty-zones-enable",
        "response-policy",
        "stale-answer-enable",
        "query-source",
        "query-source-v6",
    ];
    let of_section = match rule(RULES, key) {
        Some(
            Rule::Number(section, _)
            | Rule::Limit(section, _)
            | Rule::Choice(section, _)
            | Rule::Time(section, ..)
            | Rule::TimeLimit(section, ..)
            | Rule::Switch(section, _)
            | Rule::Text(section, _),
        ) => section == Section::Resolver,
        _ => false,
    };
    of_section || RECURSION.contains(&key) || OTHERS.contains(&key)
}

/// Converts server-wide settings.
pub(super) fn options(work: &mut Work, frame: &Frame<'_>) {
    for scope in &frame.scopes {
        work.ledger.open(scope);
    }
    recursion(work, frame);
    listen(work, frame);
    identity(work, frame);
    dnstap::of_bind(work, &frame.directory, &|key| frame.global(key));
    for scope in frame.scopes.clone() {
        for statement in scope.block() {
            option(work, frame, statement);
        }
    }
}

fn option(work: &mut Work, frame: &Frame<'_>, statement: &Statement) {
    let key = statement.key();
    let off = || "recursion is off";
    match key {
        "dns64" if work.nomen.resolver.is_some() => dns64(work, frame, statement),
        "disable-empty-zone" | "empty-zones-enable" if work.nomen.resolver.is_none() => {
            work.ledger.unneeded(statement, off());
        }
        "empty-zones-enable" => match units::switch(statement.value()) {
            Some(on) => {
                work.recurse().switch("special-names", on);
                work.in_key(statement, Section::Resolver, "special-names");
            }
            None => work.not_understood(statement),
        },
        "disable-empty-zone" => match domain(statement.value()).filter(|name| is_special(name)) {
            Some(name) => {
                work.recurse().add("special-names-off", name);
                work.in_key(statement, Section::Resolver, "special-names-off");
            }
            None => work.ledger.unneeded(statement, "nomen has no empty zone of this name"),
        },
        "send-report-channel" => report_channel(work, statement),
        "prefetch" if work.nomen.resolver.is_some() => {
            let on = statement.value() != "0";
            work.recurse().switch("prefetch", on);
            work.in_key(statement, Section::Resolver, "prefetch");
        }
        "dnssec-validation" | "validate-except" | "trust-anchors" | "managed-keys" | "trusted-keys" => {
            validation(work, frame, statement);
        }
        "qname-minimization" if work.nomen.resolver.is_some() => {
            let word = match statement.value() {
                "strict" => "strict",
                "disabled" | "off" => "off",
                _ => "relaxed",
            };
            work.recurse().text("qname-minimisation", word);
            work.in_key(statement, Section::Resolver, "qname-minimisation");
        }
        "max-cache-size"
            if statement.value().ends_with('%')
                || ["default", "unlimited", "0"].contains(&statement.value()) =>
        {
            work.ledger.differs(
                statement,
                "nomen's cache has a size in bytes, of 256 MiB unless `cache-size` says otherwise",
            );
        }
        "allow-query-cache-on" | "allow-recursion-on" if acl::for_all(&frame.acls, statement.block()) => {
            work.ledger.unneeded(statement, "nomen does so anyway");
        }
        _ if in_own_way(work, frame, statement) => {}
        _ => {
            let found = rule(RULES, key);
            let found =
                found.filter(|rule| !matches!(rule, Rule::Unneeded(_) | Rule::Missing(_) | Rule::Text(..)));
            if let Some(rule) = found {
                work.apply(statement, rule);
            }
        }
    }
}

/// Converts statements whose values need special handling. Returns whether the statement is one.
fn in_own_way(work: &mut Work, frame: &Frame<'_>, statement: &Statement) -> bool {
    match statement.key() {
        "query-source" | "query-source-v6" if work.nomen.resolver.is_some() => {
            outgoing::query_source(work, statement);
        }
        "rrset-order" => outgoing::rrset_order(work, statement),
        "resolver-query-timeout" if work.nomen.resolver.is_some() => {
            // Values up to 300 are in seconds; 0 means the program's default.
            match statement.value().parse::<u64>() {
                Ok(0) => work.ledger.unneeded(statement, "nomen chooses, as it does"),
                Ok(time) => {
                    let unit = if time <= 300 { SECOND } else { 1 };
                    work.number(statement, Section::Resolver, "budget-time", time.checked_mul(unit));
                }
                Err(_) => work.not_understood(statement),
            }
        }
        "max-query-restarts" => {
            work.apply(statement, Rule::Number(Section::Server, "max-chain"));
            if work.nomen.resolver.is_some() {
                work.apply(statement, Rule::Number(Section::Resolver, "max-rule-chain"));
            }
        }
        "max-records-per-type" if work.nomen.resolver.is_some() => {
            work.apply(statement, Rule::Limit(Section::Resolver, "records-per-set"));
            work.ledger.differs(
                statement,
                "zones of nomen's own have as many records of a name and type as they have",
            );
        }
        "deny-answer-addresses" if work.nomen.resolver.is_some() => deny_answers(work, frame, statement),
        "min-transfer-rate-in" => transfer_rate(work, statement),
        _ => return false,
    }
    true
}

/// `deny-answer-addresses { … } except-from { … }`.
fn deny_answers(work: &mut Work, frame: &Frame<'_>, statement: &Statement) {
    let networks = acl::networks(work, &frame.acls, statement);
    let all = networks.iter().any(|network| network.ends_with("/0"));
    let known: Vec<Network> = networks.iter().filter_map(|network| Network::parse(network)).collect();
    if all || known.len() != networks.len() || known.is_empty() {
        return work
            .ledger
            .missing(statement, "`private-addresses` of [resolver] takes networks by their addresses");
    }
    for network in known {
        work.recurse().add("private-addresses", network.to_string());
    }
    for name in statement.blocks().nth(1).unwrap_or_default() {
        match domain(name.key()) {
            Some(domain) => work.recurse().add("private-domains", domain),
            None => work.ledger.part(&name.span, name.key(), Coverage::Missing, "it is not a domain name"),
        }
    }
    work.ledger.translated(statement, "`private-addresses` and `private-domains` of [resolver]");
}

/// `min-transfer-rate-in BYTES MINUTES`.
fn transfer_rate(work: &mut Work, statement: &Statement) {
    let number = |n: usize| statement.argument(n).and_then(|word| word.text.parse::<u64>().ok());
    let (bytes, minutes) = (number(0), number(1).filter(|minutes| *minutes > 0));
    let rate = bytes.zip(minutes).map(|(bytes, minutes)| bytes / minutes.saturating_mul(60));
    work.number(statement, Section::Transfers, "incoming-min-rate", rate);
    if minutes.is_some_and(|minutes| minutes != 1) {
        work.ledger.differs(statement, "`incoming-min-rate` of [transfers] is of every single minute");
    }
}

/// Converts the agent for error reports; the root means none.
fn report_channel(work: &mut Work, statement: &Statement) {
    match domain(statement.value()).as_deref() {
        Some(".") => work.ledger.unneeded(statement, "it names no agent"),
        Some(name) => {
            work.nomen.server.text("report-channel", name);
            work.in_key(statement, Section::Server, "report-channel");
        }
        None => work.not_understood(statement),
    }
}

/// Converts whether answers are validated, and with which anchors.
fn validation(work: &mut Work, frame: &Frame<'_>, statement: &Statement) {
    if work.nomen.resolver.is_none() {
        return;
    }
    match (statement.key(), validates(frame)) {
        ("dnssec-validation", on) => work.validate(statement, on),
        (_, false) => work.ledger.unneeded(statement, "nothing is validated"),
        ("validate-except", true) => {
            for name in statement.block() {
                work.trust_nothing_below(name, name.key());
            }
            work.in_key(statement, Section::Resolver, "negative-trust-anchors");
        }
        (_, true) => anchors::of_bind(work, statement),
    }
}

/// Whether answers are validated: `yes` uses only configured anchors, and validates nothing without them.
fn validates(frame: &Frame<'_>) -> bool {
    match frame.global("dnssec-validation").map_or("auto", Statement::value) {
        "no" => false,
        "auto" => true,
        _ => frame.anchored,
    }
}

fn for_all(statement: &Statement, none: bool) -> bool {
    let first = statement.block().first().map_or("", Statement::key);
    first == if none { "none" } else { "any" }
}

/// Other statements that affect recursion.
const RECURSION: [&str; 5] = ["allow-recursion", "allow-query-cache", "forwarders", "forward", "dns64"];

/// Converts `recursion`, its access lists, forwarders, and stale answers.
fn recursion(work: &mut Work, frame: &Frame<'_>) {
    let found = frame.global("recursion");
    if frame.split {
        for key in RECURSION.iter().chain(&["recursion"]) {
            if let Some(found) = frame.global(key) {
                work.ledger.unneeded(found, "no view here has recursion");
            }
        }
        return;
    }
    if found.is_some_and(|found| units::switch(found.value()) == Some(false)) {
        if let Some(found) = found {
            work.ledger.unneeded(found, "without [resolver], nomen answers from its zones alone");
        }
        for key in RECURSION {
            if let Some(found) = frame.global(key) {
                work.ledger.unneeded(found, "recursion is off");
            }
        }
        return;
    }
    work.recurse();
    if let Some(found) = found {
        work.ledger.translated(found, "[resolver]");
    }
    let auto = frame.global("dnssec-validation").is_none_or(|found| found.value() == "auto");
    (work.anchors.public_root, work.anchors.root_followed) = (auto, auto);
    access::recursion(work, frame);
    if let Some(found) = frame.global("forwarders") {
        let mut files = TlsFiles::of_rule();
        let servers = zones::addresses(work, frame, found, &mut files);
        let mode = frame.global("forward");
        match servers.is_empty() {
            true if found.block().is_empty() => work.ledger.unneeded(found, "it names no servers"),
            true => {
                work.ledger.narrower(
                    found,
                    "nomen can ask none of these servers, and asks no others in their place",
                );
                work.refuse_domain(".");
            }
            false => {
                let mut rule = Keys::default();
                rule.text("domain", ".");
                rule.texts("servers", servers);
                files.write(&mut rule);
                work.ledger.translated(found, "[[resolver.forward]]");
                zones::forward_mode(work, mode, &mut rule);
                work.nomen.forwards.push(rule);
            }
        }
    }
    stale(work, frame);
}

/// Converts `stale-answer-enable`, which unlike in nomen is off by default.
fn stale(work: &mut Work, frame: &Frame<'_>) {
    let enable = frame.global("stale-answer-enable");
    let on = enable.is_some_and(|found| units::switch(found.value()) == Some(true));
    if let Some(enable) = enable {
        work.in_key(enable, Section::Resolver, "serve-stale");
    }
    if !on {
        work.recurse().text("serve-stale", "0s");
        for key in ["max-stale-ttl", "stale-answer-client-timeout", "stale-answer-ttl", "stale-refresh-time"]
        {
            if let Some(found) = frame.global(key) {
                work.ledger.unneeded(found, "`stale-answer-enable` is off");
            }
        }
        return;
    }
    if let Some(found) = frame.global("max-stale-ttl") {
        work.apply(found, Rule::Time(Section::Resolver, "serve-stale", SECOND));
    }
    if let Some(found) = frame.global("stale-refresh-time") {
        work.apply(found, Rule::Time(Section::Resolver, "stale-refresh-time", SECOND));
    }
    if let Some(found) = frame.global("stale-answer-client-timeout") {
        match found.value() {
            "off" | "disabled" => {
                work.ledger.differs(found, "clients get older answers after `stale-after`, 1.8 s")
            }
            _ => work.apply(found, Rule::Time(Section::Resolver, "stale-after", 1)),
        }
    }
}

/// Converts the listening addresses; by default all addresses.
fn listen(work: &mut Work, frame: &Frame<'_>) {
    let port = frame.global("port");
    let usual = port.and_then(|port| port.value().parse().ok()).unwrap_or(53u16);
    if let Some(port) = port {
        work.ledger.translated(port, "the port in `addr` of [[listen]]");
    }
    let (mut addresses, mut encrypted) = (Vec::new(), EncryptedListens::default());
    for (key, all) in [("listen-on", "0.0.0.0"), ("listen-on-v6", "::")] {
        let blocks = frame.scopes.iter().flat_map(|scope| scope.block());
        let found: Vec<&Statement> = blocks.filter(|statement| statement.key() == key).collect();
        if found.is_empty() {
            addresses.extend(all.parse().ok().map(|ip| with_port(ip, usual)));
        }
        for statement in found {
            let proto = match encryption::listener(work, frame, statement) {
                Ok(proto) => proto,
                Err(why) => {
                    work.ledger.missing(statement, why);
                    continue;
                }
            };
            let (setting, usual) = match proto {
                Some("https") => ("https-port", 443),
                Some("http") => ("http-port", 80),
                Some(_) => ("tls-port", 853),
                None => ("port", usual),
            };
            let usual = frame.global(setting).and_then(|port| port.value().parse().ok()).unwrap_or(usual);
            let port = statement.word_after("port").and_then(|port| port.text.parse().ok()).unwrap_or(usual);
            let mut named = Vec::new();
            for member in statement.block() {
                listen_on(work, member, all, port, &mut named);
            }
            if proto == Some("http") {
                named.retain(|address| clear_http(work, statement, address));
                if named.is_empty() {
                    continue;
                }
            }
            match proto {
                Some(proto) => named.into_iter().for_each(|address| encrypted.add(proto, address)),
                None => addresses.extend(named),
            }
            work.ledger.translated(statement, "`addr` of [[listen]]");
        }
    }
    for found in ["tls-port", "https-port", "http-port"].iter().filter_map(|key| frame.global(key)) {
        work.ledger.translated(found, "the port in `addr` of [[listen]]");
    }
    let has_encrypted = encrypted.blocks().next().is_some();
    encrypted.finish(work);
    if addresses.is_empty() && has_encrypted {
        return;
    }
    if addresses.is_empty() {
        work.ledger.unwritten(
            Coverage::Differs,
            "it listens on no address; without any [[listen]], nomen does on 127.0.0.1 and ::1 at port 5300",
        );
        return;
    }
    let mut block = Keys::default();
    block.texts("addr", addresses);
    work.nomen.listens.push(block);
}

/// Whether an address for HTTP without TLS is moved; reports it otherwise.
fn clear_http(work: &mut Work, statement: &Statement, address: &str) -> bool {
    let fault = encrypted::clear_http_fault(address);
    if let Some(why) = fault {
        work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, why);
    }
    fault.is_none()
}

fn listen_on(work: &mut Work, member: &Statement, all: &str, port: u16, out: &mut Vec<String>) {
    let text = member.key();
    let single = Network::parse(text).and_then(Network::single);
    match (text, single) {
        ("any", _) => out.extend(all.parse().ok().map(|ip| with_port(ip, port))),
        ("none", _) => {}
        ("localhost", _) => {
            let how = "here it is 127.0.0.1 or ::1, not this machine's other addresses";
            work.ledger.part(&member.span, text, Coverage::Differs, how);
            let ip = if all == "::" { "::1" } else { "127.0.0.1" };
            out.extend(ip.parse().ok().map(|ip| with_port(ip, port)));
        }
        (_, Some(ip)) if ip.is_ipv6() == (all == "::") => out.push(with_port(ip, port)),
        _ => {
            let why = "nomen listens on single addresses or on all; write those of this machine into `addr`";
            work.ledger.part(&member.span, &member.title(), Coverage::Missing, why);
        }
    }
}

/// Converts `version`, `hostname` and `server-id`.
fn identity(work: &mut Work, frame: &Frame<'_>) {
    let usable = |text: &str| !text.is_empty() && text.len() <= 128;
    if let Some(found) = frame.global("version") {
        match found.value() {
            "none" => work.nomen.server.text("version", "hide"),
            text if usable(text) => work.nomen.server.text("version", text),
            _ => return work.not_understood(found),
        }
        work.in_key(found, Section::Server, "version");
    }
    // By default nomen reports its own name.
    let (host, id) = (frame.global("hostname"), frame.global("server-id"));
    if let Some(found) = host {
        match found.value() {
            "none" => work.nomen.server.text("id", "hide"),
            text if usable(text) => work.nomen.server.text("id", text),
            _ => return work.not_understood(found),
        }
        work.in_key(found, Section::Server, "id");
    } else {
        work.nomen.server.text("id", "auto");
    }
    let Some(found) = id else { return };
    match (found.value(), host.is_some()) {
        ("none", _) => work.ledger.unneeded(found, "nomen has no NSID unless `nsid` is set"),
        ("hostname", _) => work.ledger.differs(found, "write the host's name into `nsid` of [server]"),
        (text, has_host) if usable(text) => {
            work.nomen.server.text("nsid", text);
            if !has_host {
                work.nomen.server.text("id", text);
            }
            work.ledger.translated(found, "`nsid` and `id` of [server]");
        }
        _ => work.not_understood(found),
    }
}

fn dns64(work: &mut Work, frame: &Frame<'_>, statement: &Statement) {
    let prefix = Network::parse(statement.value()).map(|network| network.to_string());
    let known = prefix.as_deref().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
    if work.recurse().get("dns64-prefix").is_some() {
        return work.ledger.missing(statement, "nomen has one prefix for DNS64, and has taken the first");
    }
    let Some(prefix) = prefix.clone().filter(|_| ["32", "40", "48", "56", "64", "96"].contains(&known))
    else {
        return work.not_understood(statement);
    };
    work.recurse().text("dns64-prefix", prefix);
    work.ledger.open(statement);
    work.ledger.part(
        &statement.span,
        &statement.title(),
        Coverage::Translated,
        "`dns64-prefix` of [resolver]",
    );
    for inner in statement.block() {
        let v6 = |text: &String| text.contains(':');
        match inner.key() {
            "clients" if !for_all(inner, false) => {
                let list = acl::networks(work, &frame.acls, inner);
                work.recurse().texts("dns64-clients", list);
                work.in_key(inner, Section::Resolver, "dns64-clients");
            }
            "exclude" => {
                let list: Vec<String> =
                    acl::networks(work, &frame.acls, inner).into_iter().filter(v6).collect();
                work.recurse().texts("dns64-exclude", list);
                work.in_key(inner, Section::Resolver, "dns64-exclude");
            }
            "clients" | "break-dnssec" => work.ledger.unneeded(inner, "nomen does so anyway"),
            "mapped" if for_all(inner, false) => work.ledger.unneeded(inner, "nomen does so anyway"),
            "mapped" => work
                .ledger
                .missing(inner, "nomen says which addresses no record is made of, in `dns64-exclude-v4`"),
            "recursive-only" => work
                .ledger
                .differs(inner, "nomen makes records of answers of other servers, never of its own zones"),
            _ => work.ledger.missing(inner, "nomen takes prefixes with nothing behind the IPv4 address"),
        }
    }
}

/// Reports defaults that differ, once.
pub(super) fn finish(work: &mut Work, frame: &Frame<'_>) {
    let has = |key: &str| work.nomen.zones.iter().any(|zone| zone.keys.get(key).is_some());
    let (zones, transfers) = (!work.nomen.zones.is_empty(), has("allow-transfer"));
    if zones && !transfers && frame.global("allow-transfer").is_none() {
        let how = "without `allow-transfer`, BIND before 9.20 lets all clients transfer zones, nomen none";
        work.ledger.unwritten(Coverage::Differs, how);
    }
    if zones && frame.global("notify").is_none() {
        let how = "BIND sends NOTIFY to the servers of a zone's NS records; nomen to those in `notify` alone";
        work.ledger.unwritten(Coverage::Differs, how);
    }
    let how = "nomen adds addresses that clients need next, and no NS records of the zone to answers \
               (`minimal-responses no-auth`)";
    match frame.global("minimal-responses") {
        Some(found) if found.value() == "no-auth" => work.ledger.unneeded(found, "nomen does so anyway"),
        Some(found) => work.ledger.differs(found, how),
        None if zones => work.ledger.unwritten(Coverage::Differs, how),
        None => {}
    }
}

/// Converts `zone-statistics`, once it is known whether there are metrics.
pub(super) fn per_zone(work: &mut Work, frame: &Frame<'_>) {
    let Some(found) = frame.global("zone-statistics") else { return };
    let full = found.value() == "full" || units::switch(found.value()) == Some(true);
    if full && work.nomen.metrics.is_some() {
        work.nomen.section(Section::Metrics).switch("per-zone", true);
        work.in_key(found, Section::Metrics, "per-zone");
    }
}

/// Converts statements outside `options` and zones.
pub(super) fn top(work: &mut Work, frame: &Frame<'_>, statement: &Statement) {
    match statement.key() {
        "controls" => {
            work.ledger.open(statement);
            for inner in statement.block() {
                let local = inner.key() == "unix"
                    || inner.value().parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
                match local {
                    true => work
                        .ledger
                        .unneeded(inner, "`nomen ctl` talks to a local socket that [control] has by default"),
                    false => work.ledger.missing(
                        inner,
                        "`nomen ctl` talks to a local socket; nothing is controlled over the network",
                    ),
                }
            }
        }
        "statistics-channels" => {
            work.ledger.open(statement);
            statement.block().iter().for_each(|inner| statistics(work, inner));
        }
        "logging" => logging::logging(work, frame, statement),
        "trust-anchors" | "managed-keys" | "trusted-keys" => validation(work, frame, statement),
        _ => {}
    }
}

fn statistics(work: &mut Work, inner: &Statement) {
    let port = inner.word_after("port").and_then(|port| port.text.parse().ok()).unwrap_or(80u16);
    let address = inner.value().parse().ok().filter(std::net::IpAddr::is_loopback);
    match address {
        Some(ip) if work.nomen.metrics.is_none() => {
            work.nomen.section(Section::Metrics).text("listen", with_port(ip, port));
            work.ledger.differs(
                inner,
                "`listen` of [metrics]: figures for Prometheus at `/metrics`, for everybody who reaches it; \
                 no XML and no JSON",
            );
        }
        _ => work.ledger.missing(
            inner,
            "[metrics] has no access control, so it is for one address on loopback or a management network",
        ),
    }
}
