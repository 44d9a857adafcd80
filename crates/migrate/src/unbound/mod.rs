//! unbound.conf, of Unbound 1.17 to 1.22.

mod access;
mod limits;
mod local;
mod local_types;
mod response_ip;
mod rules;
mod tags;
mod zones;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::anchors;
use crate::clauses;
use crate::dnstap;
use crate::encrypted;
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting};
use crate::network::Network;
use crate::nsd_unbound::{self, PortUse, nsid, verbosity};
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, find, last};
use crate::units;
use crate::work::{Rule, SECOND, Work, domain, path_text, private_reverse, rule, with_port};
use rules::RULES;

/// Keywords that begin a section.
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

/// Converts a configuration.
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
    limits::rates(work, &all);
    limits::secrets(work, texts.files, &all, &directory);
    server_section(work, &all, &directory);
    anchors::of_unbound(work, texts, &all, &directory);
    let authorities = authorities(work, &all, &directory);
    for section in sections {
        match section.key() {
            "forward-zone" => zones::forward(work, section, authorities.as_deref()),
            "stub-zone" => zones::stub(work, section, authorities.as_deref()),
            "auth-zone" => zones::auth_zone(work, section, &directory),
            "remote-control" => remote_control(work, section),
            "server" => {}
            "rpz" => zones::rpz(work, section, &directory),
            "python" | "dynlib" | "ipset" => {
                work.ledger.missing(section, "nomen loads no modules");
            }
            "view" => work.ledger.missing(section, "views are not migrated; give the zones of each a `view`"),
            "dnstap" => dnstap::of_section(work, section, &directory),
            key => {
                let why = format!("nomen has nothing for the section `{key}`");
                work.ledger.missing(section, why);
            }
        }
    }
    response_ip::convert(work, &all);
    over_tcp(work, &all);
    over_tls(work, &all);
    if find(sections, "server").is_none_or(|_| last(&all, "username").is_none()) {
        work.nomen.server.text("user", "unbound");
    }
    access::finish(work);
    work.ledger.sweep(sections, &explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(sections), 0);
    Ok(())
}

fn explain(statement: &Statement) -> (Coverage, String) {
    let explained = rule(RULES, statement.key()).and_then(|rule| rule.without_key(statement));
    explained.unwrap_or_else(|| (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key())))
}

fn is_on(all: &[&Statement], key: &str) -> bool {
    last(all, key).is_some_and(|found| units::switch(found.value()) == Some(true))
}

fn server_section(work: &mut Work, all: &[&Statement], directory: &Path) {
    listen(work, all);
    transports(work, all);
    encryption(work, all, directory);
    access::access(work, all);
    cache(work, all);
    threads(work, all);
    validation(work, all);
    identity(work, all);
    local::names(work, all);
    sources(work, all);
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
            "qname-minimisation" => minimisation(work, all, statement),
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
                if let Some(rule) =
                    rule(RULES, key).filter(|_| !HANDLED.contains(&key) && !work.ledger.is_seen(statement))
                {
                    work.apply(statement, rule);
                }
            }
        }
    }
    if work.recurse().get("private-domains").is_some() && work.recurse().get("private-addresses").is_none() {
        work.recurse().remove("private-domains");
    }
}

/// Converts the source addresses of outgoing queries, which also determine the address families.
fn sources(work: &mut Work, all: &[&Statement]) {
    let mut ips: Vec<IpAddr> = Vec::new();
    for found in all.iter().filter(|statement| statement.key() == "outgoing-interface") {
        match found.value().parse::<IpAddr>() {
            Ok(ip) if ip.is_unspecified() => work.ledger.unneeded(found, "nomen does so anyway"),
            Ok(ip) => {
                ips.push(ip);
                match work.ask_from(&[ip]) {
                    true => work.in_key(found, Section::Resolver, "source"),
                    false => work.apply(
                        found,
                        Rule::Missing("`source` of [resolver] takes one address of each family"),
                    ),
                }
            }
            Err(_) => work.ledger.missing(found, "`source` of [resolver] takes single addresses"),
        }
    }
    for (key, is_v6) in [("iterate-ipv4", false), ("iterate-ipv6", true)] {
        if !ips.is_empty() && ips.iter().all(|ip| ip.is_ipv6() != is_v6) {
            work.recurse().switch(key, false);
        }
    }
}

fn minimisation(work: &mut Work, all: &[&Statement], statement: &Statement) {
    let word = match (units::switch(statement.value()), is_on(all, "qname-minimisation-strict")) {
        (Some(false), _) => "off",
        (_, true) => "strict",
        _ => "relaxed",
    };
    work.recurse().text("qname-minimisation", word);
    work.in_key(statement, Section::Resolver, "qname-minimisation");
}

/// Keys whose rule only provides a report: they are converted elsewhere.
const HANDLED: &[&str] = &[
    "val-sig-skew-min",
    "val-sig-skew-max",
    "val-nsec3-keysize-iterations",
    "unblock-lan-zones",
    "insecure-lan-zones",
    "serve-expired-ttl",
    "qname-minimisation-strict",
    "serve-expired-reply-ttl",
    "trust-anchor",
    "trust-anchor-file",
    "auto-trust-anchor-file",
    "trusted-keys-file",
    "domain-insecure",
    "tls-upstream",
    "ssl-upstream",
    "access-control-view",
    "interface-view",
    "interface-action",
    "response-ip",
    "response-ip-data",
    "response-ip-tag",
    "local-zone-tag",
    "outgoing-interface",
];

fn modules(work: &mut Work, statement: &Statement) {
    for module in statement.value().split_whitespace() {
        let why = match module {
            "iterator" | "dns64" | "validator" | "respip" => continue,
            "subnetcache" => "nomen passes no addresses of clients on to other servers",
            _ => "nomen loads no modules",
        };
        let words = format!("module `{module}`: {why}");
        work.ledger.part(&statement.span, &statement.title(), Coverage::Missing, words);
    }
    work.ledger.translated(statement, "[resolver]");
}

fn listen(work: &mut Work, all: &[&Statement]) {
    let port = |keys: [&str; 2], usual: u16| {
        let named = keys.iter().find_map(|key| last(all, key));
        named.map_or(Some(usual), |found| found.value().parse().ok())
    };
    let (tls, https) = (port(["tls-port", "ssl-port"], 853), port(["https-port"; 2], 443));
    let quic: Option<u16> = last(all, "quic-port").and_then(|found| found.value().parse().ok());
    let more = all.iter().filter(|found| found.key() == "tls-additional-port");
    let more: Vec<u16> = more.filter_map(|found| found.value().parse().ok()).collect();
    let here = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let in_clear = is_on(all, "http-notls-downstream");
    nsd_unbound::listen(work, all, here, |ip: IpAddr, port: u16| {
        let is_tls = Some(port) == tls || more.contains(&port);
        match (Some(port) == https, is_tls, Some(port) == quic) {
            (true, _, _) if in_clear => match encrypted::clear_http_fault(&with_port(ip, port)) {
                Some(why) => PortUse::Missing(why),
                None => PortUse::Encrypted(&["http"]),
            },
            (true, _, true) => PortUse::Encrypted(&["https", "quic"]),
            (true, _, false) => PortUse::Encrypted(&["https"]),
            (_, true, true) => PortUse::Encrypted(&["tls", "quic"]),
            (_, true, false) => PortUse::Encrypted(&["tls"]),
            (_, _, true) => PortUse::Encrypted(&["quic"]),
            _ => PortUse::Plain,
        }
    });
}

/// Converts the certificate, the keys of session tickets and the path of HTTPS.
fn encryption(work: &mut Work, all: &[&Statement], directory: &Path) {
    let is_in_clear = |block: &Keys| block.members("proto") == ["http"];
    let is_encrypted = |block: &Keys| block.get("proto").is_some() && !is_in_clear(block);
    let (in_clear, encrypted) =
        (work.nomen.listens.iter().any(is_in_clear), work.nomen.listens.iter().any(is_encrypted));
    if in_clear {
        all.iter().filter(|found| found.key() == "http-notls-downstream").for_each(|found| {
            work.ledger.translated(found, "`proto` of [[listen]]");
        });
    }
    if !encrypted && !in_clear {
        for key in OF_ENCRYPTION {
            all.iter().filter(|found| found.key() == *key).for_each(|found| {
                work.ledger.unneeded(found, "no `interface` has a port with encryption");
            });
        }
        return;
    }
    match encrypted::service(all) {
        // Listeners without TLS need none.
        _ if !encrypted => {}
        Some((chain, key)) => encrypted::certificate(work, directory, chain, key),
        None => all.iter().filter(|found| found.key() == "interface").take(1).for_each(|found| {
            encrypted::uncertified(work, found);
        }),
    }
    for found in all.iter().filter(|found| found.key() == "tls-session-ticket-keys") {
        work.nomen.server.add("tls-ticket-keys", path_text(&join(directory, found.value())));
        work.in_key(found, Section::Server, "tls-ticket-keys");
    }
    if let Some(found) = last(all, "http-endpoint") {
        work.nomen.server.texts("https-paths", vec![found.value().to_owned()]);
        work.in_key(found, Section::Server, "https-paths");
    }
    for key in ["tls-port", "ssl-port", "https-port", "quic-port", "tls-additional-port"] {
        all.iter().filter(|found| found.key() == key).for_each(|found| {
            work.ledger.translated(found, "the port in `addr` of [[listen]]");
        });
    }
}

/// Keys that only encrypted listeners use.
const OF_ENCRYPTION: &[&str] = &[
    "tls-service-key",
    "tls-service-pem",
    "ssl-service-key",
    "ssl-service-pem",
    "tls-port",
    "ssl-port",
    "https-port",
    "quic-port",
    "tls-additional-port",
    "http-endpoint",
    "tls-session-ticket-keys",
];

/// Converts the client transports, UDP and TCP. nomen chooses the transport of outgoing queries itself.
fn transports(work: &mut Work, all: &[&Statement]) {
    let off = |key: &str| last(all, key).filter(|found| units::switch(found.value()) == Some(false));
    // 0 connections from clients disables TCP.
    let none = last(all, "incoming-num-tcp").filter(|found| units::size(found.value()) == Some(0));
    let (udp, tcp) = (off("do-udp"), off("do-tcp").or(none));
    let left: Vec<&str> =
        [(udp, "udp"), (tcp, "tcp")].iter().filter(|(off, _)| off.is_none()).map(|(_, word)| *word).collect();
    match left[..] {
        [only] => {
            // Its listeners for TLS and HTTPS are TCP sockets, those for QUIC are UDP sockets.
            let stays = |block: &Keys| match block.members("proto") {
                [proto] => (proto == "quic") == (only == "udp"),
                _ => true,
            };
            work.nomen.listens.retain(stays);
            let plain = work.nomen.listens.iter_mut().filter(|block| block.get("proto").is_none());
            plain.for_each(|block| block.texts("proto", vec![only.to_owned()]));
            let how = format!("`proto` of [[listen]] is {only} alone; other servers are asked over both");
            [udp, tcp].into_iter().flatten().for_each(|found| work.ledger.differs(found, how.clone()));
        }
        [] => {
            work.nomen.listens.clear();
            let why =
                "it answers no client; without [[listen]], nomen listens on 127.0.0.1 and ::1 at port 5300";
            [udp, tcp].into_iter().flatten().for_each(|found| work.ledger.differs(found, why));
        }
        _ => {}
    }
    for key in ["do-udp", "do-tcp"] {
        if let Some(found) = last(all, key).filter(|found| units::switch(found.value()) != Some(false)) {
            work.ledger.unneeded(found, "nomen does so anyway");
        }
    }
}

/// Converts limits per thread to totals.
fn threads(work: &mut Work, all: &[&Statement]) {
    let threads = last(all, "num-threads").and_then(|found| units::size(found.value())).unwrap_or(1).max(1);
    for (theirs, section, ours) in [
        ("incoming-num-tcp", Section::Server, "tcp-connections"),
        ("num-queries-per-thread", Section::Resolver, "lookups"),
    ] {
        let Some(found) = last(all, theirs) else { continue };
        let value = units::size(found.value());
        if value == Some(0) && theirs == "incoming-num-tcp" {
            continue;
        }
        work.number(found, section, ours, value.and_then(|value| value.checked_mul(threads)));
    }
}

/// Converts validation limits that nomen can match.
fn validation(work: &mut Work, all: &[&Statement]) {
    let skews = ["val-sig-skew-min", "val-sig-skew-max"].map(|key| last(all, key));
    if let [Some(least), Some(most)] = skews
        && least.value() == most.value()
    {
        for found in [least, most] {
            work.apply(found, Rule::Time(Section::Resolver, "signature-skew", SECOND));
        }
    }
    if let Some(found) = last(all, "val-nsec3-keysize-iterations") {
        let counts = found.value().split_whitespace().skip(1).step_by(2).map(str::parse::<u64>);
        let counts: Result<Vec<u64>, _> = counts.collect();
        if let Ok([first, rest @ ..]) = counts.as_deref()
            && rest.iter().all(|count| count == first)
        {
            work.number(found, Section::Resolver, "max-nsec3-iterations", Some(*first));
        }
    }
    for (theirs, ours) in
        [("unblock-lan-zones", "special-names-off"), ("insecure-lan-zones", "negative-trust-anchors")]
    {
        let Some(found) = last(all, theirs) else { continue };
        match units::switch(found.value()) {
            Some(true) => {
                private_reverse().into_iter().for_each(|name| work.recurse().add(ours, name));
                work.in_key(found, Section::Resolver, ours);
            }
            Some(false) => work.ledger.unneeded(found, "nomen does so anyway"),
            None => work.not_understood(found),
        }
    }
}

/// Converts `tcp-upstream`, after the rules that it applies to.
fn over_tcp(work: &mut Work, all: &[&Statement]) {
    let Some(found) = last(all, "tcp-upstream") else { return };
    match units::switch(found.value()) {
        Some(true) => {
            let rules = work.nomen.forwards.iter_mut().chain(&mut work.nomen.stubs);
            rules.for_each(|rule| rule.switch("tcp-only", true));
            let root = |rule: &Keys| rule.get("domain") == Some(&Setting::Text(".".into()));
            match work.nomen.forwards.iter().any(root) {
                true => work.ledger.translated(found, "`tcp-only` of the rules"),
                false => work.ledger.missing(
                    found,
                    "names that no rule is for are asked for over UDP first; all rules have `tcp-only`",
                ),
            }
        }
        Some(false) => work.ledger.unneeded(found, "nomen does so anyway"),
        None => work.not_understood(found),
    }
}

/// Returns the file of CA certificates for servers over TLS, unless those of the system are used.
fn authorities(work: &mut Work, all: &[&Statement], directory: &Path) -> Option<PathBuf> {
    if is_on(all, "tls-system-cert") {
        return None;
    }
    let found = last(all, "tls-cert-bundle").filter(|found| !found.value().is_empty())?;
    work.ledger.translated(found, "`ca-file` of the rules whose servers have names");
    Some(join(directory, found.value()))
}

/// Names queried only over TLS are not queried in the clear.
fn over_tls(work: &mut Work, all: &[&Statement]) {
    for found in ["tls-upstream", "ssl-upstream"].into_iter().filter_map(|key| last(all, key)) {
        if units::switch(found.value()) == Some(false) {
            continue;
        }
        work.ledger.narrower(
            found,
            "nomen asks over TLS only the servers of rules with an identity after `#`, and asks none in the \
             clear in its place",
        );
        work.nomen.forwards.clear();
        work.nomen.stubs.clear();
        work.refuse_domain(".");
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
        // It is on by default in nomen, but not in Unbound.
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
                work.ledger.differs(
                    statement,
                    "nomen keeps answers for a time beyond their end, of a day unless `serve-stale` says \
                     otherwise",
                );
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

fn remote_control(work: &mut Work, section: &Statement) {
    for statement in section.block() {
        let local =
            |text: &str| text.starts_with('/') || text.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
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
