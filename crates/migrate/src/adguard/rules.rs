//! Rules of AdGuard Home that the operator has written: `user_rules`, `rewrites`, services.

use std::net::IpAddr;

use super::{Home, answer, is_off, is_on};
use crate::ledger::Coverage;
use crate::model::Section;
use crate::network::Network;
use crate::policy::{Effect, at_and_below};
use crate::tree::{Statement, find};
use crate::work::{Work, domain};

/// The name of the list of `user_rules`.
const USER_RULES: &str = "user-rules";
/// Settings of safe search, the second in older files.
pub(super) const SAFE_SEARCH: [&str; 2] = ["safe_search", "safesearch_enabled"];

/// Converts `user_rules`, in adblock syntax or as lines of a hosts file.
pub(super) fn user_rules(work: &mut Work, home: &Home<'_>) {
    let Some(found) = find(home.all, "user_rules") else { return };
    work.ledger.open(found);
    for rule in found.block() {
        // A member may have several rules.
        let lines = rule.key().lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with(['#', '!'])).collect();
        match (home.is_filtering(), lines.is_empty()) {
            (_, true) => work.ledger.unneeded(rule, "a comment"),
            (false, _) => work.ledger.unneeded(rule, "filtering is off"),
            (true, false) => lines.into_iter().for_each(|line| user_rule(work, home, rule, line)),
        }
    }
}

/// Converts one rule.
fn user_rule(work: &mut Work, home: &Home<'_>, rule: &Statement, line: &str) {
    let effect = Effect::Block(answer(home));
    if let Some((address, names)) = hosts_line(line) {
        return of_hosts(work, home, rule, address, &names);
    }
    if line.contains("$dnsrewrite") || line.contains(",dnsrewrite") {
        return rewriting(work, home, rule, line);
    }
    match unknown_modifier(line) {
        None => {
            work.list_line(USER_RULES, &effect, line);
            work.ledger.translated(rule, "[[policy.list]] `user-rules`");
        }
        // Without its condition, it would exempt more.
        Some(modifier) if line.starts_with("@@") || line.contains("badfilter") => work
            .ledger
            .narrower(rule, format!("nomen has no `${modifier}`: the names of the rule are not exempt")),
        Some(modifier) => {
            let pattern = line.rsplit_once('$').map_or(line, |(pattern, _)| pattern);
            work.list_line(USER_RULES, &effect, pattern);
            work.ledger.narrower(
                rule,
                format!("nomen has no `${modifier}`: the names of the rule are blocked for all clients"),
            );
        }
    }
}

/// The first modifier that nomen's lists do not have.
fn unknown_modifier(line: &str) -> Option<String> {
    // A regular expression may contain the mark of modifiers.
    let line = line.strip_prefix("@@").unwrap_or(line);
    let modifiers = match line.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
        Some((_, rest)) => rest.strip_prefix('$')?,
        None => line.rsplit_once('$')?.1,
    };
    modifiers.split(',').map(str::trim).find_map(|modifier| {
        let (key, value) = modifier.split_once('=').unwrap_or((modifier, ""));
        let is_address =
            |client: &str| Network::parse(client.trim_start_matches('~').trim_matches(['\'', '"'])).is_some();
        let known = match key {
            "important" | "badfilter" | "dnstype" | "denyallow" => true,
            "client" => value.split('|').all(is_address),
            _ => false,
        };
        (!known).then(|| key.to_owned())
    })
}

/// `ADDRESS NAME…` of a hosts file.
fn hosts_line(line: &str) -> Option<(IpAddr, Vec<String>)> {
    let line = line.split('#').next().unwrap_or_default();
    let (address, names) = line.split_once(char::is_whitespace)?;
    let names: Option<Vec<String>> = names.split_whitespace().map(domain).collect();
    Some((address.parse().ok()?, names.filter(|names| !names.is_empty())?))
}

fn of_hosts(work: &mut Work, home: &Home<'_>, rule: &Statement, address: IpAddr, names: &[String]) {
    if address.is_unspecified() || address.is_loopback() {
        let effect = Effect::Block(answer(home));
        for line in names.iter().filter_map(|name| at_and_below(name)) {
            // One `|`: the name alone.
            work.list_line(USER_RULES, &effect, &line[1..]);
        }
        return work.ledger.translated(rule, "[[policy.list]] `user-rules`");
    }
    names.iter().for_each(|name| address_of(work, home, name, address));
    work.in_key(rule, Section::Resolver, "local-data");
}

/// Adds an address record of a name.
fn address_of(work: &mut Work, home: &Home<'_>, name: &str, address: IpAddr) {
    let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
    let ttl = home.blocked_ttl();
    work.recurse().add("local-data", format!("{name}. {ttl} {rtype} {address}"));
}

/// Converts a rule with `$dnsrewrite` for an address; refuses the names of others.
fn rewriting(work: &mut Work, home: &Home<'_>, rule: &Statement, line: &str) {
    let (pattern, modifiers) = line.rsplit_once('$').unwrap_or((line, ""));
    let name = pattern.trim_start_matches('|').strip_suffix('^').and_then(domain);
    let name = name.filter(|name| !name.contains(['*', '/', '@']) && !line.starts_with("@@"));
    let Some(name) = name else {
        return work.refuse_recursion(rule, "nomen has no such rule that gives names other data");
    };
    let value = modifiers.strip_prefix("dnsrewrite=").filter(|value| !value.contains(','));
    let value = value.map(|value| value.rsplit(';').next().unwrap_or(value));
    match value.and_then(|value| value.parse::<IpAddr>().ok()) {
        Some(address) => {
            address_of(work, home, &name, address);
            if pattern.starts_with("||") {
                address_of(work, home, &format!("*.{name}"), address);
            }
            work.in_key(rule, Section::Resolver, "local-data");
        }
        None => {
            work.refuse_domain(&name);
            work.ledger.narrower(rule, "nomen has no such rule: the names are refused (`refused-domains`)");
        }
    }
}

/// Converts `rewrites`: names with addresses of their own, or with those of another name.
pub(super) fn rewrites(work: &mut Work, home: &Home<'_>) {
    let Some(found) = home.filtering("rewrites").or_else(|| find(home.all, "rewrites")) else { return };
    work.ledger.open(found);
    for rule in found.block() {
        let get = |key: &str| rule.find(key).map_or("", Statement::value);
        if is_off(rule.find("enabled")) {
            work.ledger.unneeded(rule, "it is off");
            continue;
        }
        let Some(name) = domain(get("domain")) else {
            work.not_understood(rule);
            continue;
        };
        match (get("answer").parse::<IpAddr>(), domain(get("answer"))) {
            (Ok(address), _) => {
                address_of(work, home, &name, address);
                work.in_key(rule, Section::Resolver, "local-data");
            }
            (Err(_), Some(target)) if !["a", "aaaa"].contains(&target.as_str()) && target != name => {
                let ttl = home.blocked_ttl();
                work.recurse().add("local-data", format!("{name}. {ttl} CNAME {target}."));
                work.in_key(rule, Section::Resolver, "local-data");
            }
            _ => work.ledger.missing(rule, "nomen has no exceptions from `local-data`"),
        }
    }
}

/// The services that are blocked; in older files they are a list by themselves.
pub(super) fn services(found: &Statement) -> &[Statement] {
    found.find("ids").map_or(found.block(), Statement::block)
}

/// Refuses recursion because of protection that nomen does not have.
pub(super) fn protection(work: &mut Work, home: &Home<'_>) {
    if let Some(found) = home.filtering("blocked_services") {
        match services(found).is_empty() || !home.is_filtering() {
            true => work.ledger.unneeded(found, "it blocks nothing"),
            false => {
                work.refuse_recursion(found, "nomen has no lists of services; use a public list of them")
            }
        }
    }
    for (key, why) in [
        ("safebrowsing_enabled", "nomen asks no service about names"),
        ("parental_enabled", "nomen asks no service about names"),
    ] {
        let Some(found) = home.filtering(key) else { continue };
        match is_on(Some(found)) && home.is_protecting() {
            true => work.refuse_recursion(found, why),
            false => work.ledger.unneeded(found, "it is off"),
        }
    }
    for found in SAFE_SEARCH.iter().filter_map(|key| home.filtering(key)) {
        if safe_search(work, home, found) {
            work.nomen.policy.switch("safe-search", true);
        }
    }
}

/// Converts a setting of safe search: that of all clients, or of one. Returns whether it is on.
pub(super) fn safe_search(work: &mut Work, home: &Home<'_>, found: &Statement) -> bool {
    const YANDEX: &str = "nomen has no safe search of Yandex; to block its names, write a list";
    if !(is_on(Some(found)) || is_on(found.find("enabled"))) || !home.is_protecting() {
        work.ledger.unneeded(found, "it is off");
        return false;
    }
    // AdGuard Home rewrites signed answers as well.
    work.nomen.policy.switch("break-dnssec", true);
    work.ledger.open(found);
    work.ledger.part(&found.span, &found.title(), Coverage::Translated, "`safe-search`");
    for engine in found.block() {
        match (engine.key(), is_off(Some(engine))) {
            ("yandex", false) => work.ledger.missing(engine, YANDEX),
            ("yandex", true) => work.ledger.unneeded(engine, "nomen has none of Yandex"),
            (_, true) => work.ledger.differs(engine, "`safe-search` is for all engines that nomen knows"),
            (_, false) => work.ledger.translated(engine, "`safe-search`"),
        }
    }
    // In older files, one setting is for all engines.
    if found.find("yandex").is_none() {
        work.ledger.part(&found.span, &found.title(), Coverage::Missing, YANDEX);
    }
    true
}
