//! Pi-hole: pihole.toml of version 6, setupVars.conf of version 5, and the lists beside them.

mod gravity;
mod lists;
mod old;

use std::net::IpAddr;
use std::path::Path;

use crate::ledger::Coverage;
use crate::model::{Keys, Section, Setting};
use crate::network::Network;
use crate::policy::{Effect, at_and_below};
use crate::text::{SyntaxFault, Texts};
use crate::toml;
use crate::tree::Statement;
use crate::units;
use crate::upstream::{Upstream, parse};
use crate::work::{Rule, SECOND, Work, domain, is_special, private_reverse, with_port};

/// TTL of local records: dnsmasq's.
const LOCAL_TTL: u64 = 0;
/// List of names that Pi-hole answers itself.
const OWN_NAMES: &str = "own-names";

/// Settings that several others need.
#[derive(Default)]
struct Hole {
    port: Option<u16>,
    /// How blocked names are answered, and with which addresses.
    mode: String,
    addresses: Vec<String>,
    inactive: bool,
    /// The domain of hosts.
    domain: String,
    expand: bool,
    /// Whether the domain has names that other servers know.
    is_shared: bool,
}

impl Hole {
    fn effect(&self) -> Effect {
        match self.mode.to_ascii_uppercase().as_str() {
            "NX" | "NXDOMAIN" => Effect::answer("nxdomain"),
            "NODATA" => Effect::answer("nodata"),
            "IP" | "IP-NODATA-AAAA" | "IP_NODATA_AAAA" if !self.addresses.is_empty() => {
                Effect::Block(Setting::Texts(self.addresses.clone()))
            }
            _ => Effect::answer("null"),
        }
    }
}

/// Converts a configuration, with the lists in its folder.
pub(crate) fn convert(texts: &mut Texts<'_>, path: &Path, work: &mut Work) -> Result<(), SyntaxFault> {
    let number = texts.open(path, None)?;
    work.recurse().text("serve-stale", "0s");
    let is_new = path.extension().is_some_and(|end| end == "toml");
    let (all, hole) = match is_new {
        true => {
            let all = toml::parse(texts, number)?;
            let hole = settings(&all);
            walk(work, &all, "", &hole);
            (all, hole)
        }
        false => {
            let all = old::parse(texts, number);
            let hole = old::convert(work, &all);
            (all, hole)
        }
    };
    texts.close();
    if work.nomen.forwards.iter().all(|rule| rule.get("domain") != Some(&Setting::Text(".".into()))) {
        // It does not iterate from the root servers.
        work.refuse_domain(".");
    }
    if work.nomen.access.is_empty() {
        ["loopback", "attached"].into_iter().for_each(|from| work.nomen.grant("allow", from));
    }
    if hole.port != Some(0) {
        let port = hole.port.unwrap_or(53);
        let mut block = Keys::default();
        ["0.0.0.0", "::"]
            .iter()
            .filter_map(|ip| ip.parse::<IpAddr>().ok())
            .for_each(|ip| block.add("addr", with_port(ip, port)));
        work.nomen.listens.push(block);
    }
    if work.nomen.policy.get("block-ttl").is_none() {
        work.nomen.policy.text("block-ttl", "2s");
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    lists::convert(work, texts, folder, &hole)?;
    let nothing =
        |statement: &Statement| (Coverage::Missing, format!("nomen has nothing for `{}`", statement.key()));
    work.ledger.sweep(&all, &nothing);
    #[cfg(test)]
    assert_eq!(work.ledger.unaccounted(&all), 0);
    Ok(())
}

fn is_on(statement: &Statement) -> bool {
    units::switch(statement.value()) == Some(true)
}

/// Whether a statement has keys of its own.
fn is_table(statement: &Statement) -> bool {
    let block = statement.block();
    !block.is_empty() && block.iter().all(|entry| entry.parts.len() >= 2)
}

/// Calls a function with every setting and its path.
fn each<'s>(all: &'s [Statement], before: &str, visit: &mut dyn FnMut(&str, &'s Statement)) {
    for statement in all {
        let path = if before.is_empty() {
            statement.key().to_owned()
        } else {
            format!("{before}.{}", statement.key())
        };
        match is_table(statement) {
            true => each(statement.block(), &path, visit),
            false => visit(&path, statement),
        }
    }
}

/// The settings that others need.
fn settings(all: &[Statement]) -> Hole {
    let mut hole = Hole::default();
    let mut elsewhere: Vec<&str> = Vec::new();
    let (mut forced, mut replies) = ([false; 2], [String::new(), String::new()]);
    each(all, "", &mut |path, found| match path {
        "dns.port" => hole.port = found.value().parse().ok(),
        "dns.blocking.active" => hole.inactive = !is_on(found),
        "dns.blocking.mode" => hole.mode = found.value().to_owned(),
        "dns.domain" | "dns.domain.name" => hole.domain = found.value().to_owned(),
        "dns.expandHosts" => hole.expand = is_on(found),
        "dns.domain.local" => hole.is_shared |= !is_on(found),
        "dns.revServers" => elsewhere.extend(found.block().iter().filter_map(|one| served_domain(one.key()))),
        "dns.reply.blocking.force4" => forced[0] = is_on(found),
        "dns.reply.blocking.force6" => forced[1] = is_on(found),
        "dns.reply.blocking.IPv4" => replies[0] = found.value().to_owned(),
        "dns.reply.blocking.IPv6" => replies[1] = found.value().to_owned(),
        _ => {}
    });
    hole.is_shared |= elsewhere.iter().any(|name| name.eq_ignore_ascii_case(&hole.domain));
    let both = !hole.mode.contains("NODATA");
    for ((address, forced), used) in replies.into_iter().zip(forced).zip([true, both]) {
        if forced && used && !address.is_empty() {
            hole.addresses.push(address);
        }
    }
    hole
}

/// The domain of a line of `revServers` that is on.
fn served_domain(line: &str) -> Option<&str> {
    let mut words = line.split(',').map(str::trim);
    let is_on = words.next().and_then(units::switch) == Some(true);
    words.nth(2).filter(|_| is_on)
}

fn walk(work: &mut Work, all: &[Statement], before: &str, hole: &Hole) {
    for statement in all {
        let path = if before.is_empty() {
            statement.key().to_owned()
        } else {
            format!("{before}.{}", statement.key())
        };
        match is_table(statement) {
            true => {
                work.ledger.open(statement);
                walk(work, statement.block(), &path, hole);
            }
            false => setting(work, &path, statement, hole),
        }
    }
}

/// Converts one setting of pihole.toml.
fn setting(work: &mut Work, path: &str, found: &Statement, hole: &Hole) {
    match path {
        "dns.upstreams" => members(work, found, upstream),
        "dns.hosts" => members(work, found, |work, one| host(work, one, one.key(), hole)),
        "dns.cnameRecords" => members(work, found, |work, one| alias(work, one, one.key())),
        "dns.revServers" => members(work, found, |work, one| reverse(work, one, one.key())),
        "dns.hostRecord" if !found.value().is_empty() => host_record(work, found),
        "dns.port" if hole.port == Some(0) => {
            work.ledger.differs(found, "it answers no client; without [[listen]], nomen listens on 127.0.0.1")
        }
        "dns.port" => work.ledger.translated(found, "the port in `addr` of [[listen]]"),
        "dns.blocking.active" => match hole.inactive {
            true => work.ledger.translated(found, "the lists are left out"),
            false => work.ledger.unneeded(found, "lists are applied where they are named"),
        },
        "dns.blocking.mode" => blocking_mode(work, found, hole),
        "dns.blockTTL" => work.apply(found, Rule::Time(Section::Policy, "block-ttl", SECOND)),
        "dns.listeningMode" => listening(work, found, found.value()),
        "dns.interface" if !found.value().is_empty() => {
            work.ledger.differs(found, "nomen listens on all addresses; name them in `addr` of [[listen]]")
        }
        "dns.dnssec" => work.validate(found, is_on(found)),
        "dns.domainNeeded" => match is_on(found) {
            true => work.ledger.missing(found, "nomen asks for names of one label as for all others"),
            false => work.ledger.unneeded(found, "nomen does so anyway"),
        },
        "dns.bogusPriv" => bogus_priv(work, found),
        "dns.domain" | "dns.domain.name" => own_domain(work, found, hole),
        "dns.domain.local" => work.ledger.translated(found, "[[policy.list]] `own-names`, or none"),
        "dns.expandHosts" => work.ledger.translated(found, "the names of `local-data` of [resolver]"),
        "dns.queryLogging" => work.apply(found, Rule::Switch(Section::Log, "queries")),
        "dns.CNAMEdeepInspect" if !is_on(found) => {
            work.ledger.differs(found, "nomen's lists are for the targets of aliases always")
        }
        "dns.specialDomains.mozillaCanary" => special(work, found, &["use-application-dns.net"]),
        "dns.specialDomains.iCloudPrivateRelay" => {
            special(work, found, &["mask.icloud.com", "mask-h2.icloud.com"])
        }
        "dns.cache.size" => match found.value() {
            "0" => work.ledger.missing(found, "nomen keeps answers for as long as their TTLs say"),
            _ => {
                work.ledger.differs(found, "`cache-size` of [resolver] is in bytes: 256 MiB unless it is set")
            }
        },
        "dns.cache.optimizer" => stale(work, found),
        "dns.rateLimit.count" if found.value() != "0" => {
            work.ledger.missing(found, "nomen limits no rates of answers")
        }
        "dhcp.active" if is_on(found) => {
            work.ledger.missing(found, "nomen gives no addresses to hosts: it is no DHCP server")
        }
        "misc.dnsmasq_lines" if !found.block().is_empty() => {
            work.refuse_recursion(found, "lines for dnsmasq are not read");
        }
        "misc.etc_dnsmasq_d" if is_on(found) => {
            work.refuse_recursion(found, "files in /etc/dnsmasq.d are not read");
        }
        _ => without_key(work, path, found),
    }
}

/// Reports a setting that has no key.
fn without_key(work: &mut Work, path: &str, found: &Statement) {
    const UNNEEDED: [&str; 10] = [
        "dns.",
        "dhcp.",
        "misc.",
        "resolver.",
        "database.",
        "webserver.",
        "files.",
        "debug.",
        "ntp.",
        "config.",
    ];
    // New settings of `dns` and `misc` may matter.
    const KNOWN: [&str; 25] = [
        "dns.blockESNI",
        "dns.EDNS0ECS",
        "dns.ignoreLocalhost",
        "dns.showDNSSEC",
        "dns.analyzeOnlyAandAAAA",
        "dns.piholePTR",
        "dns.replyWhenBusy",
        "dns.interface",
        "dns.hostRecord",
        "dns.CNAMEdeepInspect",
        "dns.localise",
        "dns.cache.upstreamBlockedTTL",
        "dns.blocking.edns",
        "dns.specialDomains.designatedResolver",
        "dns.reply.host",
        "dns.reply.blocking",
        "dns.rateLimit",
        "misc.privacylevel",
        "misc.delay_startup",
        "misc.nice",
        "misc.addr2line",
        "misc.extraLogging",
        "misc.etc_dnsmasq_d",
        "misc.readOnly",
        "misc.check.",
    ];
    let in_dns = path.starts_with("dns.") || path.starts_with("misc.");
    let is_known = KNOWN.iter().any(|known| path.starts_with(known)) || path == "misc.dnsmasq_lines";
    let is_other = UNNEEDED.iter().any(|section| path.starts_with(section));
    match (in_dns, is_known, is_other) {
        (true, true, _) => work.ledger.unneeded(found, "nomen decides this by itself"),
        (false, _, true) => work.ledger.unneeded(found, "nomen serves the DNS alone, and has no such part"),
        _ => work.ledger.missing(found, format!("nomen has nothing for `{path}`")),
    }
}

/// Converts each member of a list.
fn members(work: &mut Work, found: &Statement, convert: impl Fn(&mut Work, &Statement)) {
    work.ledger.open(found);
    found.block().iter().for_each(|member| convert(work, member));
}

/// Converts a server for all names.
fn upstream(work: &mut Work, found: &Statement) {
    match parse(found.key()) {
        Upstream::Plain { server, .. } => forward(work, ".", server),
        other => return work.ledger.narrower(found, other.why()),
    }
    work.ledger.translated(found, "[[resolver.forward]]");
}

/// Adds a server to the rule of a domain.
fn forward(work: &mut Work, domain: &str, server: String) {
    let named = Setting::Text(domain.to_owned());
    match work.nomen.forwards.iter_mut().find(|rule| rule.get("domain") == Some(&named)) {
        Some(rule) => rule.add("servers", server),
        None => {
            let mut rule = Keys::default();
            rule.set("domain", named);
            rule.add("servers", server);
            work.nomen.forwards.push(rule);
        }
    }
}

/// Converts `ADDRESS NAME…`, which also gives the address a name.
fn host(work: &mut Work, found: &Statement, line: &str, hole: &Hole) {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
    let names: Option<Vec<String>> = words.map(domain).collect();
    let (Some(address), Some(names)) = (address, names.filter(|names| !names.is_empty())) else {
        return work.not_understood(found);
    };
    for (at, name) in names.iter().enumerate() {
        let mut all = vec![name.clone()];
        if hole.expand && !name.contains('.') && !hole.domain.is_empty() {
            all.push(format!("{name}.{}", hole.domain));
        }
        let last = all.last().cloned().unwrap_or_default();
        all.iter().for_each(|name| address_record(work, name, address));
        if at == 0 {
            work.recurse().add("local-data", pointer(address, &last));
        }
    }
    work.in_key(found, Section::Resolver, "local-data");
}

fn address_record(work: &mut Work, name: &str, address: IpAddr) {
    let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
    work.recurse().add("local-data", format!("{name}. {LOCAL_TTL} {rtype} {address}"));
}

/// The PTR record of an address.
fn pointer(address: IpAddr, name: &str) -> String {
    format!("{}. {LOCAL_TTL} PTR {name}.", reverse_name(address))
}

/// The name of an address in `in-addr.arpa` or `ip6.arpa`.
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let digits: Vec<String> =
                format!("{:032x}", u128::from(v6)).chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

/// Converts `ALIAS[,ALIAS…],TARGET[,TTL]`.
fn alias(work: &mut Work, found: &Statement, line: &str) {
    let mut words: Vec<&str> = line.split(',').map(str::trim).collect();
    let ttl = match words.last().and_then(|word| word.parse::<u64>().ok()) {
        Some(ttl) if words.len() > 2 => {
            words.pop();
            ttl
        }
        _ => LOCAL_TTL,
    };
    let names: Option<Vec<String>> = words.into_iter().map(domain).collect();
    match names.as_deref() {
        Some([aliases @ .., target]) if !aliases.is_empty() => {
            for alias in aliases {
                work.recurse().add("local-data", format!("{alias}. {ttl} CNAME {target}."));
            }
            work.in_key(found, Section::Resolver, "local-data");
        }
        _ => work.not_understood(found),
    }
}

/// Converts `NAME[,NAME…][,IPV4][,IPV6][,TTL]`.
fn host_record(work: &mut Work, found: &Statement) {
    let words: Vec<&str> = found.value().split(',').map(str::trim).collect();
    let addresses: Vec<IpAddr> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let is_name = |word: &&&str| word.parse::<IpAddr>().is_err() && word.parse::<u64>().is_err();
    let names: Option<Vec<String>> = words.iter().filter(is_name).map(|word| domain(word)).collect();
    let Some(names) = names.filter(|names| !names.is_empty() && !addresses.is_empty()) else {
        return work.not_understood(found);
    };
    for address in addresses {
        names.iter().for_each(|name| address_record(work, name, address));
        work.recurse().add("local-data", pointer(address, &names[0]));
    }
    work.in_key(found, Section::Resolver, "local-data");
}

/// Converts `ON,NETWORK,SERVER[,DOMAIN]`: the servers for the addresses of a network and for its domain.
fn reverse(work: &mut Work, found: &Statement, line: &str) {
    let words: Vec<&str> = line.split(',').map(str::trim).collect();
    let [on, network, server, rest @ ..] = &words[..] else { return work.not_understood(found) };
    if units::switch(on) == Some(false) {
        return work.ledger.unneeded(found, "it is off");
    }
    let (Some(network), Upstream::Plain { server, .. }) = (Network::parse(network), parse(server)) else {
        return work.not_understood(found);
    };
    let (address, length) = (network.first(), usize::from(network.length()));
    let bits = if address.is_ipv4() { 8 } else { 4 };
    let whole = reverse_name(address);
    let labels = whole.split('.').count();
    let zone = whole.splitn(labels - 2 - length / bits + 1, '.').last().unwrap_or_default().to_owned();
    if !length.is_multiple_of(bits) {
        return work.ledger.narrower(found, "nomen has rules for domains: the network must end at a label");
    }
    // A rule turns off the special-use name around its domain, whose other names are not asked for.
    let mut above = zone.as_str();
    while let Some((_, parent)) = above.split_once('.') {
        if is_special(parent) {
            work.refuse_domain(parent);
        }
        above = parent;
    }
    forward(work, &zone, server.clone());
    if let Some(name) = rest.first().and_then(|name| domain(name)) {
        forward(work, &name, server);
    }
    work.ledger.translated(found, "[[resolver.forward]]");
}

fn blocking_mode(work: &mut Work, found: &Statement, hole: &Hole) {
    let by_address = hole.mode.to_ascii_uppercase().starts_with("IP");
    match by_address && hole.addresses.is_empty() {
        true => work.ledger.differs(
            found,
            "`answer` of each list is \"null\": no address of this machine is named (`reply.blocking`)",
        ),
        false => work.ledger.translated(found, "`answer` of each [[policy.list]]"),
    }
}

/// Converts the clients that may query, by their network.
fn listening(work: &mut Work, found: &Statement, mode: &str) {
    match mode.to_ascii_uppercase().as_str() {
        "ALL" => {
            work.nomen.grant("allow", "any");
            work.ledger.translated(found, "[[resolver.access]]");
        }
        "LOCAL" => work.ledger.translated(found, "[[resolver.access]]"),
        _ => work.ledger.narrower(
            found,
            "clients of attached networks may recurse; for others, write `interface` into \
             [[resolver.access]]",
        ),
    }
}

fn bogus_priv(work: &mut Work, found: &Statement) {
    if is_on(found) {
        return work.ledger.unneeded(found, "nomen does so anyway");
    }
    private_reverse().into_iter().for_each(|name| work.recurse().add("special-names-off", name));
    work.in_key(found, Section::Resolver, "special-names-off");
}

/// Converts the domain of the hosts, whose other names do not exist.
fn own_domain(work: &mut Work, found: &Statement, hole: &Hole) {
    match domain(&hole.domain).and_then(|name| at_and_below(&name)) {
        _ if hole.is_shared => work.ledger.unneeded(found, "other servers are asked for its names"),
        Some(rule) => {
            work.list_line(OWN_NAMES, &Effect::answer("nxdomain"), format!("{rule}$important"));
            work.ledger.translated(found, "[[policy.list]] `own-names`");
        }
        None if hole.domain.is_empty() => work.ledger.unneeded(found, "it is not set"),
        None => work.not_understood(found),
    }
}

/// Blocks names by which applications ask whether they may go around the resolver.
fn special(work: &mut Work, found: &Statement, names: &[&str]) {
    if !is_on(found) {
        return work.ledger.unneeded(found, "nomen does so anyway");
    }
    for name in names {
        work.list_line(OWN_NAMES, &Effect::answer("nxdomain"), format!("|{name}^$important"));
    }
    work.ledger.translated(found, "[[policy.list]] `own-names`");
}

/// Converts the time for which expired answers are kept.
fn stale(work: &mut Work, found: &Statement) {
    match found.value().parse::<i64>() {
        Ok(1..) => work.apply(found, Rule::Time(Section::Resolver, "serve-stale", SECOND)),
        Ok(0) => {
            work.recurse().remove("serve-stale");
            work.ledger.differs(found, "nomen keeps answers for a day beyond their end (`serve-stale`)");
        }
        Ok(_) => work.in_key(found, Section::Resolver, "serve-stale"),
        Err(_) => work.not_understood(found),
    }
}
