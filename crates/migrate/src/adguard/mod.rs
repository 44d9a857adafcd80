//! AdGuardHome.yaml, of AdGuard Home 0.107.

mod clients;
mod rules;
mod settings;
mod upstreams;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use crate::encrypted::{self, EncryptedListens};
use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting};
use crate::network::Network;
use crate::policy::Effect;
use crate::rates;
use crate::source_rates::{Lengths, SourceRates};
use crate::text::{SyntaxFault, Texts};
use crate::tree::{Statement, find};
use crate::units;
use crate::work::{Rule, SECOND, Work, domain, rule, with_port};
use crate::yaml;
use settings::{APART, DNS, FILTERING};

/// TTL of blocked answers in seconds, unless it is set.
const BLOCKED_TTL: u64 = 10;

/// The settings, by section.
struct Home<'s> {
    all: &'s [Statement],
}

impl<'s> Home<'s> {
    /// The keys of a section.
    fn section(&self, name: &str) -> &'s [Statement] {
        find(self.all, name).map_or(&[], Statement::block)
    }

    /// A setting of `filtering`; in older files they are in `dns`.
    fn filtering(&self, key: &str) -> Option<&'s Statement> {
        find(self.section("filtering"), key).or_else(|| find(self.section("dns"), key))
    }

    fn dns(&self, key: &str) -> Option<&'s Statement> {
        find(self.section("dns"), key)
    }

    /// The TTL of blocked answers, in seconds.
    fn blocked_ttl(&self) -> u64 {
        let found = self.filtering("blocked_response_ttl").and_then(|found| found.value().parse().ok());
        found.unwrap_or(BLOCKED_TTL)
    }

    /// Whether lists and rules are applied.
    fn is_filtering(&self) -> bool {
        self.is_protecting() && !is_off(self.filtering("filtering_enabled"))
    }

    /// Whether any protection is on.
    fn is_protecting(&self) -> bool {
        !is_off(self.filtering("protection_enabled"))
    }
}

fn is_on(found: Option<&Statement>) -> bool {
    found.is_some_and(|found| units::switch(found.value()) == Some(true))
}

fn is_off(found: Option<&Statement>) -> bool {
    found.is_some_and(|found| units::switch(found.value()) == Some(false))
}

/// Whether a setting has no value, or an empty list.
fn is_unset(statement: &Statement) -> bool {
    statement.value().is_empty() && statement.block().is_empty()
}

/// Converts a configuration.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let number = texts.open(path, None)?;
    let all = yaml::parse(texts, number)?;
    texts.close();
    let home = Home { all: &all };
    work.recurse().text("serve-stale", "0s");
    for section in ["dns", "filtering"].iter().filter_map(|name| find(&all, name)) {
        work.ledger.open(section);
    }
    listen(work, &home);
    access(work, &home);
    rates(work, &home);
    upstreams::convert(work, texts, &home);
    cache(work, &home);
    validation(work, &home);
    blocking(work, &home);
    lists(work, &home);
    rules::user_rules(work, &home);
    rules::rewrites(work, &home);
    rules::protection(work, &home);
    clients::convert(work, &home);
    apart(work, &home);
    for (section, rules) in [("dns", DNS), ("filtering", FILTERING), ("dns", FILTERING)] {
        for statement in home.section(section) {
            if let Some(rule) = rule(rules, statement.key()).filter(|_| !work.ledger.is_seen(statement)) {
                apply(work, statement, rule);
            }
        }
    }
    let explain = |statement: &Statement| match is_unset(statement) {
        true => (Coverage::Unneeded, "it is not set".to_owned()),
        false => (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key())),
    };
    work.ledger.sweep(&all, &explain);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&all), 0);
    Ok(())
}

/// Converts the queries per second of each network of clients.
fn rates(work: &mut Work, home: &Home<'_>) {
    let get = |key: &str| home.dns(key).and_then(|found| found.value().parse::<u64>().ok());
    let Some((found, rate)) = home.dns("ratelimit").zip(get("ratelimit").filter(|rate| *rate > 0)) else {
        return;
    };
    let length = |key, usual| get(key).and_then(|length| u8::try_from(length).ok()).unwrap_or(usual);
    let lengths = Lengths {
        ipv4: length("ratelimit_subnet_len_ipv4", 24),
        ipv6: length("ratelimit_subnet_len_ipv6", 56),
    };
    let mut out = SourceRates::of_networks([Some(rate); 4], 0, lengths);
    let exempt = home.dns("ratelimit_whitelist").map(Statement::block).unwrap_or_default();
    let exempt = exempt.iter().filter_map(|member| Network::parse(member.key()));
    out.exempt = exempt.map(|network| network.to_string()).collect();
    work.in_key(found, Section::RateLimits, "answers-per-second");
    for (key, to) in [
        ("ratelimit_subnet_len_ipv4", "ipv4-factors"),
        ("ratelimit_subnet_len_ipv6", "ipv6-factors"),
        ("ratelimit_whitelist", "exempt"),
    ] {
        home.dns(key).iter().for_each(|found| work.in_key(found, Section::RateLimits, to));
    }
    rates::write(work, out, found);
}

/// Applies a rule to a setting, unless it has no value.
fn apply(work: &mut Work, statement: &Statement, rule: Rule) {
    match rule {
        Rule::Unneeded(why) => work.ledger.unneeded(statement, why),
        _ if is_unset(statement) => work.ledger.unneeded(statement, "it is not set"),
        rule => work.apply(statement, rule),
    }
}

fn listen(work: &mut Work, home: &Home<'_>) {
    let port = home.dns("port");
    let usual = port.and_then(|port| port.value().parse().ok()).unwrap_or(53u16);
    if let Some(port) = port {
        work.ledger.translated(port, "the port in `addr` of [[listen]]");
    }
    let addresses = addresses(work, home);
    match home.dns("serve_plain_dns").filter(|found| is_off(Some(found))) {
        Some(off) => work.ledger.translated(off, "no [[listen]] has UDP and TCP"),
        None => {
            let mut block = Keys::default();
            block.texts("addr", addresses.iter().map(|ip| with_port(*ip, usual)).collect());
            work.nomen.listens.push(block);
        }
    }
    encryption(work, home, &addresses);
    if work.nomen.listens.is_empty() {
        let why =
            "it listens without encryption nowhere; without any [[listen]], nomen does on 127.0.0.1 and ::1";
        work.ledger.unwritten(Coverage::Differs, why);
    }
}

/// Returns the listening addresses.
fn addresses(work: &mut Work, home: &Home<'_>) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let hosts = home.dns("bind_hosts").map(Statement::block);
    let hosts = hosts.filter(|hosts| !hosts.is_empty());
    for host in hosts.unwrap_or_default().iter().chain(home.dns("bind_host")) {
        let text = if host.key() == "bind_host" { host.value() } else { host.key() };
        match text.parse::<IpAddr>() {
            Ok(ip) => {
                addresses.push(ip);
                // It listens on all addresses of both families then.
                if text == "0.0.0.0" && hosts.is_none_or(|hosts| hosts.len() == 1) {
                    addresses.push(Ipv6Addr::UNSPECIFIED.into());
                }
                work.ledger.translated(host, "`addr` of [[listen]]");
            }
            Err(_) => work.not_understood(host),
        }
    }
    if let Some(found) = home.dns("bind_hosts") {
        work.ledger.open(found);
    }
    if addresses.is_empty() {
        addresses = vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    }
    addresses
}

/// Converts the listeners with encryption and their certificate.
fn encryption(work: &mut Work, home: &Home<'_>, addresses: &[IpAddr]) {
    let Some(section) = find(home.all, "tls") else { return };
    if !is_on(section.find("enabled")) {
        return work.ledger.unneeded(section, "it is off");
    }
    work.ledger.open(section);
    let mut encrypted = EncryptedListens::default();
    for (key, usual, proto) in [
        ("port_dns_over_tls", 853u16, "tls"),
        ("port_https", 443, "https"),
        ("port_dns_over_quic", 853, "quic"),
    ] {
        let found = section.find(key);
        let port = found.map_or(Ok(usual), |found| found.value().parse());
        match (port, found) {
            (Ok(0), Some(found)) => work.ledger.unneeded(found, "it is off"),
            (Ok(port), found) => {
                addresses.iter().for_each(|ip| encrypted.add(proto, with_port(*ip, port)));
                if let Some(http3) = home.dns("serve_http3").filter(|_| proto == "https") {
                    if is_on(Some(http3)) {
                        addresses.iter().for_each(|ip| encrypted.add("h3", with_port(*ip, port)));
                    }
                    work.ledger.translated(http3, "`proto` of [[listen]]");
                }
                if let Some(found) = found {
                    work.ledger.translated(found, "`addr` of [[listen]]");
                }
            }
            (Err(_), Some(found)) => work.not_understood(found),
            (Err(_), None) => {}
        }
    }
    encrypted.finish(work);
    let file = |key: &str| section.find(key).filter(|found| !is_unset(found));
    match (file("certificate_path"), file("private_key_path")) {
        (Some(chain), Some(key)) => encrypted::certificate(work, Path::new("/"), chain, key),
        _ => encrypted::uncertified(work, section),
    }
    for statement in section.block().iter().filter(|statement| !is_unset(statement)) {
        match statement.key() {
            "enabled" => work.ledger.translated(statement, "`proto` of [[listen]]"),
            "server_name" => {
                work.nomen.section(Section::Resolver).text("discovery-name", statement.value());
                work.in_key(statement, Section::Resolver, "discovery-name");
            }
            "certificate_chain" | "private_key" => {
                let why = "write it to a file, and name that in [[certificate]]";
                work.ledger.missing(statement, why);
            }
            "allow_unencrypted_doh" | "force_https" if is_off(Some(statement)) => {
                work.ledger.unneeded(statement, "nomen does so anyway");
            }
            "force_https" => work.ledger.missing(statement, "nomen's page is at `listen` of [metrics]"),
            "port_dnscrypt" if statement.value() == "0" => work.ledger.unneeded(statement, "it is off"),
            "port_dnscrypt" | "dnscrypt_config_file" => {
                work.ledger.missing(statement, "nomen does not speak DNSCrypt");
            }
            _ => {}
        }
    }
}

/// Converts the clients that may query: those of `allowed_clients`, or all but those of `disallowed_clients`.
fn access(work: &mut Work, home: &Home<'_>) {
    let [allowed, disallowed] = ["allowed_clients", "disallowed_clients"].map(|key| home.dns(key));
    let members = |list: Option<&'_ Statement>| list.map_or(0, |list| list.block().len());
    [allowed, disallowed].into_iter().flatten().for_each(|list| work.ledger.open(list));
    if members(allowed) > 0 {
        for client in allowed.map_or(&[][..], Statement::block) {
            match Network::parse(client.key()).filter(|network| !network.is_mapped()) {
                Some(network) => {
                    work.nomen.grant("allow", network.to_string());
                    work.ledger.translated(client, "[[resolver.access]]");
                }
                None => work.ledger.narrower(client, "nomen knows clients by their addresses alone"),
            }
        }
        for client in disallowed.map_or(&[][..], Statement::block) {
            work.ledger.unneeded(client, "`allowed_clients` counts");
        }
        if work.nomen.access.is_empty() {
            work.nomen.grant("refuse", "any");
        }
        return;
    }
    for client in disallowed.map_or(&[][..], Statement::block) {
        match Network::parse(client.key()) {
            Some(network) => {
                work.nomen.grant("refuse", network.to_string());
                work.ledger.differs(client, "nomen answers REFUSED, it does not stay silent");
            }
            None => work.refuse_recursion(client, "nomen knows clients by their addresses alone"),
        }
    }
    work.nomen.grant("allow", "any");
}

fn cache(work: &mut Work, home: &Home<'_>) {
    if let Some(found) = home.dns("cache_size") {
        match found.value() {
            "0" => work.ledger.missing(found, "nomen keeps answers for as long as their TTLs say"),
            _ => work.apply(found, Rule::Number(Section::Resolver, "cache-size")),
        }
    }
    for (theirs, ours) in [("cache_ttl_min", "min-ttl"), ("cache_ttl_max", "max-ttl")] {
        match home.dns(theirs) {
            Some(found) if found.value() == "0" => work.ledger.unneeded(found, "it is not set"),
            Some(found) => work.apply(found, Rule::Time(Section::Resolver, ours, SECOND)),
            None => {}
        }
    }
    if let Some(found) = home.dns("cache_optimistic") {
        if is_on(Some(found)) {
            work.recurse().remove("serve-stale");
            work.ledger.differs(
                found,
                "nomen answers from what has expired where no server answers in time: see `serve-stale` and \
                 `stale-after` of [resolver]",
            );
        } else {
            work.in_key(found, Section::Resolver, "serve-stale");
        }
    }
}

/// Converts `enable_dnssec`: without it, AdGuard Home validates nothing and asks for nothing.
fn validation(work: &mut Work, home: &Home<'_>) {
    match home.dns("enable_dnssec") {
        Some(found) if is_on(Some(found)) => work.ledger.differs(
            found,
            "nomen validates answers itself, and does not go by what the servers say that they validated",
        ),
        found => {
            work.recurse().switch("validate", false);
            found.into_iter().for_each(|found| work.in_key(found, Section::Resolver, "validate"));
        }
    }
    let dns64 = is_on(home.dns("use_dns64"));
    let Some(found) = home.dns("dns64_prefixes") else {
        if dns64 {
            work.recurse().text("dns64-prefix", "64:ff9b::/96");
        }
        return;
    };
    let all: Vec<Network> = found.block().iter().filter_map(|one| Network::parse(one.key())).collect();
    match all.first() {
        _ if !dns64 => work.ledger.unneeded(found, "`use_dns64` is off"),
        None => work.recurse().text("dns64-prefix", "64:ff9b::/96"),
        Some(first) => {
            work.recurse().text("dns64-prefix", first.to_string());
            match all.len() {
                1 => work.in_key(found, Section::Resolver, "dns64-prefix"),
                _ => work.ledger.differs(found, "`dns64-prefix` of [resolver] is one prefix, here the first"),
            }
        }
    }
}

/// What clients get for blocked names.
fn answer(home: &Home<'_>) -> Setting {
    let addresses = ["blocking_ipv4", "blocking_ipv6"].map(|key| home.filtering(key).map(Statement::value));
    let addresses: Vec<String> =
        addresses.into_iter().flatten().filter(|ip| !ip.is_empty()).map(str::to_owned).collect();
    match home.filtering("blocking_mode").map_or("default", Statement::value) {
        "nxdomain" | "refused" => Setting::Text("nxdomain".into()),
        "custom_ip" if !addresses.is_empty() => Setting::Texts(addresses),
        _ => Setting::Text("null".into()),
    }
}

fn blocking(work: &mut Work, home: &Home<'_>) {
    work.nomen.policy.text("block-ttl", units::duration(BLOCKED_TTL * 1000));
    if let Some(found) = home.filtering("blocked_response_ttl") {
        work.apply(found, Rule::Time(Section::Policy, "block-ttl", SECOND));
    }
    if let Some(found) = home.filtering("blocking_mode") {
        match found.value() {
            "default" => work.ledger.differs(
                found,
                "`answer` of each list is \"null\"; a line of a hosts file blocks, whatever address it has",
            ),
            "refused" => work.ledger.differs(found, "blocked names do not exist here (`answer`)"),
            "nxdomain" | "null_ip" | "custom_ip" => {
                work.ledger.translated(found, "`answer` of each [[policy.list]]");
            }
            _ => work.not_understood(found),
        }
    }
    for key in ["blocking_ipv4", "blocking_ipv6"] {
        if let Some(found) = home.filtering(key).filter(|found| !is_unset(found)) {
            match answer(home) {
                Setting::Texts(_) => work.ledger.translated(found, "`answer` of each [[policy.list]]"),
                _ => work.ledger.unneeded(found, "`blocking_mode` is another"),
            }
        }
    }
    for key in ["protection_enabled", "filtering_enabled"] {
        if let Some(found) = home.filtering(key) {
            match is_off(Some(found)) {
                true => work.ledger.translated(found, "the lists are left out"),
                false => work.ledger.unneeded(found, "lists are applied where they are named"),
            }
        }
    }
    hosts(work, home);
}

/// Converts `blocked_hosts`, whose queries are dropped. The usual names are those of the server's identity.
fn hosts(work: &mut Work, home: &Home<'_>) {
    let Some(found) = home.dns("blocked_hosts") else { return };
    work.ledger.open(found);
    for host in found.block() {
        let text = host.key().to_ascii_lowercase();
        match text.as_str() {
            "version.bind" => {
                work.nomen.server.text("version", "hide");
                work.in_key(host, Section::Server, "version");
            }
            "id.server" | "hostname.bind" => {
                work.nomen.server.text("id", "hide");
                work.in_key(host, Section::Server, "id");
            }
            text => {
                let inner = text.strip_prefix("||").and_then(|text| text.strip_suffix('^'));
                match domain(inner.unwrap_or(text)).filter(|name| !name.contains(['*', '/', '$', '|'])) {
                    Some(name) => {
                        work.refuse_all_below(&name);
                        work.narrow.exact.push(name);
                        work.ledger.differs(
                            host,
                            "the name and all names below it are refused (`refused-domains`), not dropped",
                        );
                    }
                    None => work.refuse_recursion(host, "nomen has no such rule for names that are dropped"),
                }
            }
        }
    }
}

/// Converts `filters` and `whitelist_filters`.
fn lists(work: &mut Work, home: &Home<'_>) {
    let every = home.filtering("filters_update_interval");
    let hours = every.and_then(|found| found.value().parse::<u64>().ok());
    if let Some(found) = every {
        match hours {
            Some(0) => work.ledger.differs(found, "nomen fetches each list again after its `refresh`"),
            Some(_) => work.ledger.translated(found, "`refresh` of each [[policy.list]]"),
            None => work.not_understood(found),
        }
    }
    let refresh = hours.unwrap_or(24).checked_mul(3_600_000).filter(|refresh| *refresh > 0);
    let blocks = Effect::Block(answer(home));
    for (key, effect) in [("filters", &blocks), ("whitelist_filters", &Effect::Allow)] {
        let Some(all) = find(home.all, key) else { continue };
        work.ledger.open(all);
        for list in all.block() {
            if is_off(list.find("enabled")) || !home.is_filtering() {
                work.ledger.unneeded(list, "it is off");
                continue;
            }
            let get = |key: &str| list.find(key).map_or("", Statement::value);
            let (name, url) = (get("name"), get("url"));
            match url.split_once("://") {
                Some(("https" | "http", _)) => work.list_of_url(name, url, refresh, effect),
                None if url.starts_with('/') => work.list_of_file(name, Path::new(url), None, effect),
                _ => {
                    match effect {
                        Effect::Allow => work.ledger.narrower(list, "its `url` is not understood here"),
                        Effect::Block(_) => work.refuse_recursion(list, "its `url` is not understood here"),
                    }
                    continue;
                }
            }
            work.ledger.translated(list, "[[policy.list]]");
        }
    }
}

/// Converts the sections that are not about names.
fn apart(work: &mut Work, home: &Home<'_>) {
    if let Some(found) = find(home.section("querylog"), "enabled") {
        work.ledger.open(find(home.all, "querylog").unwrap_or(found));
        work.apply(found, Rule::Switch(Section::Log, "queries"));
        for other in home.section("querylog").iter().filter(|other| other.id != found.id) {
            work.ledger.unneeded(other, "nomen's query log is lines of its log");
        }
    }
    if let Some(log) = find(home.all, "log") {
        work.ledger.open(log);
        for statement in log.block() {
            match statement.key() {
                "file" if statement.value().starts_with('/') => {
                    work.apply(statement, Rule::Text(Section::Log, "target"));
                }
                "verbose" if is_on(Some(statement)) => {
                    work.nomen.log.text("level", "debug");
                    work.in_key(statement, Section::Log, "level");
                }
                _ => work.ledger.unneeded(statement, "nomen writes its log as [log] says"),
            }
        }
    }
    if let Some(os) = find(home.all, "os") {
        work.ledger.open(os);
        for statement in os.block() {
            match statement.key() {
                "user" => apply(work, statement, Rule::Text(Section::Server, "user")),
                "group" => apply(work, statement, Rule::Text(Section::Server, "group")),
                _ => work.ledger.unneeded(statement, "the service manager limits what a process may take"),
            }
        }
    }
    if let Some(found) = find(home.all, "dhcp") {
        match is_on(found.find("enabled")) {
            true => work.ledger.missing(found, "nomen gives no addresses to hosts: it is no DHCP server"),
            false => work.ledger.unneeded(found, "it is off"),
        }
    }
    for statement in home.all {
        if let Some(rule) = rule(APART, statement.key()) {
            apply(work, statement, rule);
        }
    }
}
