//! The servers that AdGuard Home queries.

use super::{Home, is_off, is_on};
use crate::ledger::Coverage;
use crate::model::Keys;
use crate::text::{SourceSpan, Texts};
use crate::tree::Statement;
use crate::upstream::{Upstream, parse};
use crate::work::{Work, domain};

/// The servers for the names of a domain.
#[derive(Default)]
struct Group {
    servers: Vec<String>,
    over_tcp: Vec<bool>,
}

/// Reverse zones of the networks that hosts in private use have.
pub(super) fn private_networks() -> Vec<String> {
    let mut all: Vec<String> = (16..=31).map(|number| format!("{number}.172.in-addr.arpa")).collect();
    let others = ["10.in-addr.arpa", "168.192.in-addr.arpa", "254.169.in-addr.arpa", "d.f.ip6.arpa"];
    all.extend(others.map(str::to_owned));
    all.extend("89ab".chars().map(|digit| format!("{digit}.e.f.ip6.arpa")));
    all
}

/// Converts all servers.
pub(super) fn convert(work: &mut Work, texts: &mut Texts<'_>, home: &Home<'_>) {
    let mut groups: Vec<(String, Group)> = Vec::new();
    let file = home.dns("upstream_dns_file").filter(|found| !found.value().is_empty());
    if let Some(found) = file {
        match texts.files.read(std::path::Path::new(found.value())) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                text.lines().for_each(|line| add(work, &mut groups, line, &found.span));
                work.ledger.translated(found, "[[resolver.forward]]");
            }
            Err(_) => {
                work.refuse_domain(".");
                work.ledger.narrower(found, "it cannot be read: no names are asked for");
            }
        }
    }
    if let Some(found) = home.dns("upstream_dns") {
        work.ledger.open(found);
        for member in found.block() {
            match file {
                Some(_) => work.ledger.unneeded(member, "`upstream_dns_file` counts"),
                None => {
                    add(work, &mut groups, member.key(), &member.span);
                    work.ledger.translated(member, "[[resolver.forward]]");
                }
            }
        }
    }
    // It does not iterate from the root servers.
    if !groups.iter().any(|(name, _)| name == ".") {
        groups.push((".".to_owned(), Group::default()));
    }
    for (name, group) in groups {
        write(work, &name, &group);
    }
    others(work, home);
    private(work, home);
}

/// Adds a line: `SERVER`, or `[/DOMAIN/…/]SERVER …`, in which `#` means the servers for all names.
fn add(work: &mut Work, groups: &mut Vec<(String, Group)>, line: &str, span: &SourceSpan) {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return;
    }
    let (names, servers) = match line.strip_prefix("[/").and_then(|rest| rest.split_once("/]")) {
        Some((names, servers)) => (names.split('/').collect(), servers),
        None => (vec!["."], line),
    };
    for name in names {
        let Some(plain) = domain(name).filter(|plain| !plain.contains('*')) else {
            if let Some(parent) = name.strip_prefix("*.").and_then(domain) {
                work.refuse_domain(&parent);
            }
            let why = "nomen has rules for a domain and all names below it; those of this one are refused";
            work.ledger.part(span, line, Coverage::Narrower, why);
            continue;
        };
        if !groups.iter().any(|(other, _)| *other == plain) {
            groups.push((plain.clone(), Group::default()));
        }
        if servers == "#" {
            let all = groups.iter().find(|(other, _)| other == ".");
            let all = all.map(|(_, group)| (group.servers.clone(), group.over_tcp.clone()));
            if let (Some((servers, over_tcp)), Some((_, group))) =
                (all, groups.iter_mut().find(|(other, _)| *other == plain))
            {
                (group.servers, group.over_tcp) = (servers, over_tcp);
            }
            continue;
        }
        for text in servers.split_whitespace() {
            let Some((_, group)) = groups.iter_mut().find(|(other, _)| *other == plain) else { continue };
            match parse(text) {
                Upstream::Plain { server, tcp } => {
                    group.servers.push(server);
                    group.over_tcp.push(tcp);
                }
                Upstream::Encrypted { servers, differs } => {
                    group.over_tcp.extend(servers.iter().map(|_| false));
                    group.servers.extend(servers);
                    if let Some(how) = differs {
                        work.ledger.part(span, text, Coverage::Differs, how);
                    }
                }
                other => work.ledger.part(span, text, Coverage::Narrower, other.why()),
            }
        }
    }
}

fn write(work: &mut Work, name: &str, group: &Group) {
    if group.servers.is_empty() {
        return work.refuse_domain(name);
    }
    let mut rule = Keys::default();
    rule.text("domain", name);
    group.servers.iter().for_each(|server| rule.add("servers", server));
    if group.over_tcp.iter().all(|tcp| *tcp) {
        rule.switch("tcp-only", true);
    }
    work.nomen.forwards.push(rule);
}

/// Reports the servers that are asked in other cases.
fn others(work: &mut Work, home: &Home<'_>) {
    if let Some(found) = home.dns("bootstrap_dns") {
        work.ledger.unneeded(found, "nomen takes servers with their addresses");
    }
    if let Some(found) = home.dns("fallback_dns").filter(|found| !found.block().is_empty()) {
        work.ledger.missing(found, "nomen asks no other servers where those of a rule do not answer");
    }
    if let Some(found) = home.dns("upstream_mode") {
        match found.value() {
            "" | "load_balance" => work.ledger.unneeded(found, "nomen asks the fastest first"),
            _ => work.ledger.differs(found, "nomen asks the fastest server first, and one at a time"),
        }
    }
    if let Some(found) = home.dns("edns_client_subnet") {
        match is_on(found.find("enabled")) || is_on(Some(found)) {
            true => work.ledger.missing(found, "nomen passes no addresses of clients on to other servers"),
            false => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    if let Some(found) = home.dns("hostsfile_enabled") {
        match is_off(Some(found)) {
            true => work.ledger.unneeded(found, "nomen does so anyway"),
            false => work.ledger.differs(
                found,
                "nomen answers no names of /etc/hosts; write them into `local-data` of [resolver]",
            ),
        }
    }
}

/// Converts the servers for names of private addresses.
fn private(work: &mut Work, home: &Home<'_>) {
    let on = is_on(home.dns("use_private_ptr_resolvers"));
    if let Some(found) = home.dns("use_private_ptr_resolvers") {
        let empty = home.dns("local_ptr_upstreams").is_none_or(|list| list.block().is_empty());
        match (on, empty) {
            (true, true) => work.ledger.differs(
                found,
                "names of private addresses do not exist here; AdGuard Home asks the servers of the system",
            ),
            (true, false) => work.ledger.translated(found, "[[resolver.forward]] for private addresses"),
            (false, _) => work.ledger.unneeded(found, "nomen does so anyway"),
        }
    }
    if let Some(found) = home.dns("private_networks").filter(|found| !found.block().is_empty()) {
        work.ledger.missing(found, "private networks are the usual ones here");
    }
    let Some(found) = home.dns("local_ptr_upstreams").filter(|found| !found.block().is_empty()) else {
        return;
    };
    if !on {
        return work.ledger.unneeded(found, "`use_private_ptr_resolvers` is off");
    }
    work.ledger.open(found);
    let servers: Vec<String> =
        found.block().iter().flat_map(|member| private_servers(work, member)).collect();
    if servers.is_empty() {
        return;
    }
    for name in private_networks() {
        let mut rule = Keys::default();
        rule.text("domain", name);
        rule.texts("servers", servers.clone());
        work.nomen.forwards.push(rule);
    }
}

/// Servers for names of private addresses.
fn private_servers(work: &mut Work, member: &Statement) -> Vec<String> {
    let servers = match parse(member.key()) {
        Upstream::Plain { server, .. } => vec![server],
        Upstream::Encrypted { servers, .. } => servers,
        other => {
            work.ledger.narrower(member, other.why());
            return Vec::new();
        }
    };
    let how = "[[resolver.forward]] for private addresses; every client that may recurse gets their names";
    work.ledger.differs(member, how);
    servers
}
