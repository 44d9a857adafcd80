//! dnsdist.yml: the settings of dnsdist 2.0 and later in YAML.

use std::path::Path;

use super::script::{FORWARDED_FOR, either};
use super::{Action, Balancer, Selector, SourceServer, https_fault, identity};
use crate::files::join;
use crate::ledger::Coverage;
use crate::model::{Keys, Section};
use crate::network::Network;
use crate::source_rates::Lengths;
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, find};
use crate::units;
use crate::work::{NamedRule, Rule, SECOND, Work, domain, path_text, rule};
use crate::yaml;

const TUNING: Rule = Rule::Unneeded("nomen decides this by itself");

/// Sections that have no clients, servers or rules.
const SECTIONS: &[NamedRule] = &[
    ("packet_caches", Rule::Unneeded("nomen has one cache: `cache-size` of [resolver] is in bytes")),
    ("cache_settings", Rule::Unneeded("nomen has one cache: see [resolver]")),
    ("console", Rule::Unneeded("`nomen ctl` talks to a local socket that [control] has by default")),
    ("webserver", Rule::Missing("[metrics] has figures, [api] a web page; they have their own keys")),
    ("load_balancing_policies", Rule::Missing("nomen chooses the fastest server that answers")),
    ("edns_client_subnet", Rule::Missing("nomen passes no addresses of clients on to other servers")),
    ("metrics", Rule::Missing("[metrics] has figures for Prometheus")),
    ("snmp", Rule::Missing("[metrics] has figures for Prometheus")),
    ("remote_logging", Rule::Missing("write [dnstap]")),
    ("logging", Rule::Missing("write [log]")),
    ("query_count", Rule::Missing("[metrics] has figures at any time")),
    ("dynamic_rules_settings", TUNING),
    ("general", TUNING),
    ("health_checks", TUNING),
    ("ring_buffers", TUNING),
    ("security_polling", TUNING),
    // What refers to these is a condition that is not moved.
    ("netmask_groups", Rule::Unneeded("the rules that name them are reported")),
    ("timed_ip_sets", Rule::Unneeded("the rules that name them are reported")),
    ("key_value_stores", Rule::Missing("nomen looks nothing up in databases of keys and values")),
    ("ebpf", Rule::Missing("nomen loads no filters into the kernel, but for AF_XDP")),
    ("xsk", Rule::Missing("write `xdp` into [[listen]]; see docs/AF_XDP.md")),
];

/// Settings of `tcp` of `tuning`.
const TCP: &[NamedRule] = &[
    ("max_connections_per_client", Rule::Limit(Section::Server, "tcp-connections-per-client")),
    ("receive_timeout", Rule::Time(Section::Server, "tcp-idle-timeout", SECOND)),
    ("send_timeout", Rule::Time(Section::Server, "tcp-write-timeout", SECOND)),
];

/// Actions that change neither which queries are answered, nor by which server.
const HARMLESS: [&str; 11] = [
    "Log",
    "DnstapLog",
    "RemoteLog",
    "SNMPTrap",
    "None",
    "SetTag",
    "SetSkipCache",
    "SetDisableECS",
    "SetDisableValidation",
    "SetNoRecurse",
    "SetMaxReturnedTTL",
];

/// Reads the settings.
pub(super) fn read(
    texts: &mut Texts<'_>,
    number: usize,
    path: &Path,
    work: &mut Work,
    found: &mut Balancer,
) -> Result<Vec<Statement>, SyntaxFault> {
    let all = yaml::parse(texts, number)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let selectors = find(&all, "selectors").map(Statement::block).unwrap_or_default();
    for section in &all {
        match section.key() {
            "binds" => {
                work.ledger.open(section);
                section.block().iter().for_each(|bind| listen(work, found, base, bind));
            }
            "backends" => {
                work.ledger.open(section);
                section.block().iter().for_each(|backend| server(work, found, backend));
            }
            "acl" => {
                let networks: Vec<String> = section.block().iter().map(|one| one.key().to_owned()).collect();
                found.clients(work, section, &networks, true);
            }
            "proxy_protocol" => proxies(work, section),
            "query_rules" | "cache_miss_rules" => {
                work.ledger.open(section);
                for one in section.block() {
                    let selector =
                        one.find("selector").map_or(Selector::Unknown, |it| selector(it, selectors));
                    let action = one.find("action").map_or(Action::Unknown, action);
                    match action {
                        Action::QueriesPerSecond => found.rule(one, Selector::TotalRate, Action::Drop),
                        action => found.rule(one, selector, action),
                    }
                }
            }
            "dynamic_rules" => {
                work.ledger.open(section);
                section.block().iter().for_each(|group| dynamic(work, found, group));
            }
            "selectors" => work.ledger.translated(section, "wherever they are named"),
            "pools" => pools(work, section),
            "tuning" => {
                work.ledger.open(section);
                for part in section.block() {
                    work.ledger.open(part);
                    for setting in part.block() {
                        let rule = rule(TCP, setting.key()).filter(|_| part.key() == "tcp");
                        work.apply(setting, rule.unwrap_or(TUNING));
                    }
                }
            }
            key => match rule(SECTIONS, key) {
                Some(rule) => work.apply(section, rule),
                None if key.ends_with("response_rules") => {
                    work.refuse_recursion(section, "rules about replies are not moved");
                }
                None => work.refuse_recursion(section, &format!("the section `{key}` is not moved")),
            },
        }
    }
    Ok(all)
}

fn text<'s>(of: &'s Statement, key: &str) -> &'s str {
    of.find(key).map_or("", Statement::value)
}

fn texts(of: &Statement, key: &str) -> Vec<String> {
    let found = of.find(key);
    let value = found.map(Statement::value).filter(|value| !value.is_empty());
    let members = found.map(Statement::block).unwrap_or_default().iter().map(|one| one.key().to_owned());
    members.chain(value.map(str::to_owned)).collect()
}

fn number(of: &Statement, key: &str) -> Option<u64> {
    text(of, key).parse().ok()
}

/// Converts a member of `binds`.
fn listen(work: &mut Work, found: &mut Balancer, base: &Path, bind: &Statement) {
    let mut proto = match text(bind, "protocol").to_ascii_lowercase().as_str() {
        "" | "do53" => "",
        "dot" => "tls",
        "doh" => "https",
        "doq" => "quic",
        "doh3" => "h3",
        _ => return work.ledger.missing(bind, "nomen does not listen for this protocol"),
    };
    if !proto.is_empty() {
        let tls = bind.find("tls").and_then(|tls| tls.find("certificates"));
        let pairs: Vec<(&str, &str)> = tls
            .map(Statement::block)
            .unwrap_or_default()
            .iter()
            .map(|one| (text(one, "certificate"), text(one, "key")))
            .collect();
        let is_clear = proto == "https" && pairs.iter().all(|(chain, _)| chain.is_empty());
        if is_clear {
            proto = "http";
        } else if pairs.is_empty() || pairs.iter().any(|(chain, key)| chain.is_empty() || key.is_empty()) {
            return work.ledger.missing(bind, "it has no certificate with a key in a file");
        }
        if !found.listen(work, bind, text(bind, "listen_address"), proto) {
            return;
        }
        for (chain, key) in pairs.into_iter().filter(|_| !is_clear) {
            let mut block = Keys::default();
            block.text("chain", path_text(&join(base, chain)));
            block.text("key", path_text(&join(base, key)));
            if !work.nomen.certificates.contains(&block) {
                work.nomen.certificates.push(block);
            }
        }
    } else {
        found.listen(work, bind, text(bind, "listen_address"), proto);
    }
    if let Some(doh) = bind.find("doh") {
        texts(doh, "paths").into_iter().for_each(|path| work.nomen.server.add("https-paths", path));
        if units::switch(text(doh, "trust_forwarded_for_header")) == Some(true) {
            work.ledger.part(&bind.span, &bind.title(), Coverage::Missing, FORWARDED_FOR);
        }
    }
}

/// Converts a member of `backends`.
fn server(work: &mut Work, found: &mut Balancer, backend: &Statement) {
    let address = text(backend, "address").to_owned();
    let tls = backend.find("tls");
    let protocol = text(backend, "protocol").to_ascii_lowercase();
    let validates = tls.is_none_or(|tls| units::switch(text(tls, "validate_certificate")) != Some(false));
    let path = (protocol == "doh").then(|| {
        let path = backend.find("doh").map_or("", |doh| text(doh, "path"));
        if path.is_empty() { "/dns-query".to_owned() } else { path.to_owned() }
    });
    let identity = (protocol == "dot" || protocol == "doh")
        .then(|| identity(&address, tls.map_or("", |tls| text(tls, "subject_name")), validates));
    let fault = match protocol.as_str() {
        "" | "do53" | "dot" | "doh" if units::switch(text(backend, "use_proxy_protocol")) == Some(true) => {
            Some("nomen sends no PROXY headers")
        }
        "" | "do53" | "dot" => None,
        "doh" => path.as_ref().and_then(|path| https_fault(identity.as_ref(), path)),
        _ => Some("nomen does not ask other servers over this protocol"),
    };
    let pools = texts(backend, "pools");
    found.server(work, backend, &SourceServer { address, pools, identity, path, fault });
}

fn proxies(work: &mut Work, section: &Statement) {
    let all = texts(section, "acl");
    let networks: Option<Vec<String>> =
        all.iter().map(|text| Network::parse(text).map(|network| network.to_string())).collect();
    match networks {
        Some(networks) if !networks.is_empty() => {
            work.nomen.server.texts("proxy-protocol-from", networks);
            work.in_key(section, Section::Server, "proxy-protocol-from");
        }
        _ => work.not_understood(section),
    }
}

fn pools(work: &mut Work, section: &Statement) {
    work.ledger.open(section);
    for pool in section.block() {
        match text(pool, "policy") {
            "" => work.ledger.unneeded(pool, "its servers name it"),
            _ => work.ledger.missing(pool, "nomen chooses the fastest server that answers"),
        }
    }
}

/// Converts the condition of a rule.
fn selector(of: &Statement, named: &[Statement]) -> Selector {
    selector_within(of, named, 0)
}

fn selector_within(of: &Statement, named: &[Statement], depth: usize) -> Selector {
    const MAX_DEPTH: usize = 20;
    let inner = || -> Vec<Selector> {
        let all = of.find("selectors").map(Statement::block).unwrap_or_default();
        all.iter().map(|one| selector_within(one, named, depth + 1)).collect()
    };
    let names = |all: Vec<String>| {
        let names: Option<Vec<String>> = all.iter().map(|text| domain(text)).collect();
        names.filter(|names| !names.is_empty()).map_or(Selector::Unknown, Selector::Suffixes)
    };
    match text(of, "type") {
        _ if depth > MAX_DEPTH => Selector::Unknown,
        "All" => Selector::All,
        "QNameSuffix" => names(texts(of, "suffixes")),
        "NetmaskGroup"
            if units::switch(text(of, "source")) != Some(false)
                && text(of, "netmask_group_name").is_empty() =>
        {
            let all = texts(of, "netmasks");
            let networks: Option<Vec<Network>> = all.iter().map(|text| Network::parse(text)).collect();
            networks.filter(|all| !all.is_empty()).map_or(Selector::Unknown, Selector::Networks)
        }
        "MaxQPSIP" => match number(of, "qps").filter(|rate| *rate > 0) {
            Some(rate) => {
                let length =
                    |key, usual| number(of, key).and_then(|one| u8::try_from(one).ok()).unwrap_or(usual);
                let lengths = Lengths { ipv4: length("ipv4_mask", 32), ipv6: length("ipv6_mask", 64) };
                let burst = number(of, "burst").filter(|burst| *burst > 0).unwrap_or(rate);
                Selector::ClientRate { rate, burst, lengths }
            }
            None => Selector::Unknown,
        },
        "MaxQPS" => Selector::TotalRate,
        "And" => match inner() {
            all if all.is_empty() => Selector::Unknown,
            all => Selector::Every(all),
        },
        "Or" => either(inner()),
        "ByName" => {
            let name = text(of, "selector_name");
            let found = named.iter().find(|one| text(one, "name") == name);
            found.map_or(Selector::Unknown, |one| selector_within(one, named, depth + 1))
        }
        _ => Selector::Unknown,
    }
}

/// Converts the action of a rule.
fn action(of: &Statement) -> Action {
    match text(of, "type") {
        "Allow" => Action::Allow,
        "Drop" => Action::Drop,
        "Delay" => Action::Delay,
        "TC" => Action::Truncate,
        "QPS" => Action::QueriesPerSecond,
        "RCode" | "ERCode" => match text(of, "rcode").to_ascii_lowercase().as_str() {
            "" | "0" | "noerror" | "no error" => Action::Unknown,
            _ => Action::Refuse,
        },
        "NegativeAndSOA" => Action::Refuse,
        "Pool" if units::switch(text(of, "stop_processing")) != Some(false) => {
            Action::Pool(text(of, "pool_name").to_owned())
        }
        kind if HARMLESS.contains(&kind) => Action::Harmless,
        _ => Action::Unknown,
    }
}

/// Converts a member of `dynamic_rules`.
fn dynamic(work: &mut Work, found: &mut Balancer, group: &Statement) {
    work.ledger.open(group);
    let length = |key, usual| number(group, key).and_then(|one| u8::try_from(one).ok()).unwrap_or(usual);
    let masks = Lengths { ipv4: length("mask_ipv4", 32), ipv6: length("mask_ipv6", 64) };
    let exempt = texts(group, "exclude_ranges");
    found.unlimited.extend(exempt.iter().filter_map(|text| Network::parse(text)));
    for entry in group.block() {
        match entry.key() {
            "rules" => {
                work.ledger.open(entry);
                for one in entry.block() {
                    let kind = match text(one, "type") {
                        "query-rate" => "setQueryRate",
                        "rcode-rate" => "setRCodeRate",
                        "response-byte-rate" => "setResponseByteRate",
                        _ => "",
                    };
                    match number(one, "rate").filter(|rate| *rate > 0) {
                        Some(rate) => found.dynamic(work, one, (kind, text(one, "rcode")), rate, masks),
                        None => work.ledger.missing(one, "[rate-limits] has replies per second alone"),
                    }
                }
            }
            "exclude_ranges" => work.in_key(entry, Section::RateLimits, "exempt"),
            "exclude_domains" => work.ledger.missing(entry, "[rate-limits] has no names"),
            _ => work.ledger.translated(entry, "[rate-limits]"),
        }
    }
}
