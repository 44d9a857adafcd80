//! Sections of unbound.conf for names: servers to query, and zones.

use std::path::{Path, PathBuf};

use crate::files::join;
use crate::ledger::Coverage;
use crate::local_root;
use crate::model::{Keys, Setting, Zone};
use crate::network::Network;
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, domain, path_text, server_with_port};

/// Converts the servers of a rule; `None` if they cannot be queried as required.
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
            match server_with_port(statement.value()) {
                Some(server) => {
                    rule.add("servers", server);
                    work.ledger.translated(statement, "`servers` of the rule");
                }
                None => work.not_understood(statement),
            }
        } else if found == key("host") {
            work.ledger.missing(statement, "nomen takes servers by their addresses");
        } else if [key("tls-upstream"), key("ssl-upstream")].iter().any(|key| key == found)
            && units::switch(statement.value()) != Some(false)
        {
            work.ledger.narrower(
                statement,
                "nomen asks over plain UDP and TCP alone; the rule is left out and its names are refused, so \
                 that nothing goes in the clear",
            );
            encrypted = true;
        } else if found == key("tcp-upstream") && on {
            rule.switch("tcp-only", true);
            work.ledger.translated(statement, "`tcp-only` of the rule");
        } else if found == key("first") && on && prefix == "forward" {
            rule.switch("forward-first", true);
            work.ledger.translated(statement, "`forward-first` of the rule");
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
    if (!servers || encrypted)
        && let Some(Setting::Text(name)) = rule.get("domain")
    {
        work.refuse_domain(name);
    }
    (servers && !encrypted).then_some(rule)
}

pub(super) fn forward(work: &mut Work, section: &Statement) {
    if let Some(rule) = upstreams(work, section, "forward") {
        work.nomen.forwards.push(rule);
    }
}

pub(super) fn stub(work: &mut Work, section: &Statement) {
    let Some(rule) = upstreams(work, section, "stub") else { return };
    if section.find("name").is_some_and(|name| name.value() == ".") {
        let servers = rule.members("servers").to_vec();
        work.recurse().texts("root-servers", servers);
        return work.ledger.part(
            &section.span,
            &section.title(),
            Coverage::Translated,
            "`root-servers` of [resolver]",
        );
    }
    work.nomen.stubs.push(rule);
}

/// Leaves out a zone that not every client may query.
fn kept_from_clients(work: &mut Work, section: &Statement, name: &str) {
    work.refuse_all_below(name);
    let why = "`access-control` limits who may query it, and nomen answers every client from its zones: it \
               is left out, and its names are refused. Write a [[resolver.stub]] for its servers, or \
               [[zone]] once a firewall limits the clients";
    section.block().iter().for_each(|statement| work.ledger.unneeded(statement, "the zone is left out"));
    work.ledger.narrower(section, why);
}

pub(super) fn auth_zone(work: &mut Work, section: &Statement, directory: &Path) {
    let get = |key| section.find(key).map(Statement::value);
    let name = get("name").and_then(domain);
    let Some(name) = name.filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name)) else {
        return work.ledger.missing(section, "it has no name, or that of another zone");
    };
    if get("for-downstream").and_then(units::switch) == Some(false) {
        return local_root::of_unbound(work, section, &name, directory);
    }
    if !work.answers_all {
        return kept_from_clients(work, section, &name);
    }
    let mut keys = Keys::default();
    let mut file: Option<PathBuf> = None;
    for statement in section.block() {
        match statement.key() {
            "name" => work.ledger.translated(statement, "`name` of the zone"),
            "primary" | "master" => match server_with_port(statement.value()) {
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
    digest(work, section, &mut keys);
    let (secondary, zonefile) = (keys.get("primaries").is_some(), section.find("zonefile"));
    if !secondary {
        keys.remove("allow-notify");
    }
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
        (None, false) => {
            work.refuse_domain(&name);
            return work.ledger.missing(section, "it has no file and no primaries");
        }
    }
    let file = file.filter(|_| !secondary).as_deref().map(path_text);
    let span = Some(section.span.clone());
    work.nomen.zones.push(Zone { name, file, template: None, keys, span });
}

/// Converts the verification of the zone's digest (ZONEMD).
fn digest(work: &mut Work, section: &Statement, keys: &mut Keys) {
    let is = |key| section.find(key).and_then(|found| units::switch(found.value()));
    let word = match (is("zonemd-check"), is("zonemd-reject-absence")) {
        (Some(true), Some(true)) => "require",
        (Some(true), _) => "verify",
        _ => "off",
    };
    for found in ["zonemd-check", "zonemd-reject-absence"].into_iter().filter_map(|key| section.find(key)) {
        keys.text("zonemd", word);
        work.ledger.translated(found, "`zonemd` of the zone");
    }
}
