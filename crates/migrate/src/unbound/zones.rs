//! Sections of unbound.conf for names: servers to query, and zones.

use std::path::{Path, PathBuf};

use crate::files::join;
use crate::ledger::Coverage;
use crate::local_root;
use crate::model::{Keys, Setting, Zone};
use crate::network::Network;
use crate::policy;
use crate::tree::Statement;
use crate::units;
use crate::work::{Work, domain, path_text, server_over_tls, server_with_port};

/// Converts the servers of a rule; `None` if they cannot be queried as required. `authorities` is the file of
/// `tls-cert-bundle`.
fn upstreams(work: &mut Work, section: &Statement, prefix: &str, authorities: Option<&Path>) -> Option<Keys> {
    let name = section.find("name").and_then(|name| domain(name.value()));
    let Some(name) = name else {
        work.ledger.missing(section, "it has no name");
        return None;
    };
    let key = |suffix: &str| format!("{prefix}-{suffix}");
    let over_tls = [key("tls-upstream"), key("ssl-upstream")];
    let encrypted =
        section.block().iter().filter(|statement| over_tls.iter().any(|key| key == statement.key()));
    // What is no switch is taken for the one that keeps queries from the clear.
    let encrypted = encrypted.map(|statement| units::switch(statement.value())).any(|on| on != Some(false));
    let mut rule = Keys::default();
    rule.text("domain", name);
    for statement in section.block() {
        let on = units::switch(statement.value()) == Some(true);
        let found = statement.key();
        if found == "name" {
            work.ledger.translated(statement, "`domain` of the rule");
        } else if found == key("addr") {
            let parse = if encrypted { server_over_tls } else { server_with_port };
            match parse(statement.value()) {
                Some(server) => {
                    rule.add("servers", server);
                    work.ledger.translated(statement, "`servers` of the rule");
                }
                None => work.not_understood(statement),
            }
        } else if found == key("host") {
            work.ledger.missing(statement, "nomen takes servers by their addresses");
        } else if over_tls.iter().any(|key| key == found) && encrypted {
            work.ledger.translated(statement, "`#` after the servers of the rule");
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
    if !servers {
        work.ledger.missing(section, "it names no server by its address");
    }
    let is_named = |server: &String| server.contains('#') && !server.ends_with("#opportunistic");
    if let Some(file) = authorities.filter(|_| rule.members("servers").iter().any(is_named)) {
        rule.text("ca-file", path_text(file));
    }
    if !servers && let Some(Setting::Text(name)) = rule.get("domain") {
        work.refuse_domain(name);
    }
    servers.then_some(rule)
}

pub(super) fn forward(work: &mut Work, section: &Statement, authorities: Option<&Path>) {
    if let Some(rule) = upstreams(work, section, "forward", authorities) {
        work.nomen.forwards.push(rule);
    }
}

pub(super) fn stub(work: &mut Work, section: &Statement, authorities: Option<&Path>) {
    let Some(rule) = upstreams(work, section, "stub", authorities) else { return };
    if section.find("name").is_some_and(|name| name.value() == ".") {
        let servers = rule.members("servers").to_vec();
        if servers.iter().any(|server| server.contains('#')) {
            work.ledger
                .narrower(section, "nomen asks root servers in the clear alone, and none in their place");
            return work.refuse_domain(".");
        }
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

pub(super) fn auth_zone(work: &mut Work, section: &Statement, directory: &Path) {
    let get = |key| section.find(key).map(Statement::value);
    let name = get("name").and_then(domain);
    let Some(name) = name.filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name)) else {
        return work.ledger.missing(section, "it has no name, or that of another zone");
    };
    if get("for-downstream").and_then(units::switch) == Some(false) {
        return local_root::of_unbound(work, section, &name, directory);
    }
    for statement in section.block() {
        match statement.key() {
            "for-downstream" | "for-upstream" => work.ledger.unneeded(statement, "nomen does so anyway"),
            "fallback-enabled" => {
                work.ledger.differs(statement, "a zone that is gone is answered with SERVFAIL")
            }
            _ => {}
        }
    }
    if !zone(work, section, &name, directory) {
        work.refuse_domain(&name);
        work.ledger.missing(section, "it has no file and no primaries");
    }
}

/// Adds the zone of an `auth-zone` or `rpz` section. Returns whether it has a source.
fn zone(work: &mut Work, section: &Statement, name: &str, directory: &Path) -> bool {
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
        (None, false) => return false,
    }
    let file = file.filter(|_| !secondary).as_deref().map(path_text);
    let span = Some(section.span.clone());
    work.nomen.zones.push(Zone { name: name.to_owned(), file, template: None, keys, span });
    true
}

/// Converts a response policy zone.
pub(super) fn rpz(work: &mut Work, section: &Statement, directory: &Path) {
    let name = section.find("name").and_then(|name| domain(name.value()));
    let Some(name) = name.filter(|name| !work.nomen.zones.iter().any(|zone| zone.name == *name)) else {
        return work.refuse_recursion(section, "it has no name, or that of another zone");
    };
    if let Some(tags) = section.find("tags") {
        work.refuse_recursion(tags, "nomen has no tags, and would apply the policy zone to every client");
    }
    let mut keys = Keys::default();
    keys.text("name", policy::absolute(&name));
    if let Err(found) = action(section, &mut keys) {
        return work.refuse_recursion(found, "its action is not one that is understood here");
    }
    // Unbound bounds no TTLs of policy zones.
    keys.text("max-ttl", "7d");
    if !zone(work, section, &name, directory) {
        let why = "nomen takes policy zones from master files and from the addresses of primaries";
        return work.refuse_recursion(section, why);
    }
    let on = |statement: &Statement| units::switch(statement.value()) == Some(true);
    if section.find("rpz-log").is_some_and(|statement| units::switch(statement.value()) == Some(false)) {
        keys.switch("log", false);
    }
    let for_downstream = section.find("for-downstream").is_some_and(on);
    if !for_downstream {
        work.serve_without_answers(&name);
    }
    if policy::zone(work, section, &name, keys) {
        work.ledger.open(section);
        work.ledger.part(
            &section.span,
            &section.title(),
            Coverage::Translated,
            "[[zone]] and [[policy.zone]]",
        );
    }
    for statement in section.block() {
        match statement.key() {
            "for-downstream" if !for_downstream => {
                work.ledger.unneeded(statement, "nomen does so anyway");
            }
            "for-downstream" => {
                work.ledger.translated(statement, "`answers` of [[policy.zone]]");
            }
            "rpz-action-override" | "rpz-cname-override" => {
                work.ledger.translated(statement, "`action` of [[policy.zone]]");
            }
            "rpz-log" if !on(statement) => work.ledger.translated(statement, "`log` of [[policy.zone]]"),
            "rpz-log" => work.ledger.differs(statement, LOGS),
            "rpz-log-name" => work.ledger.unneeded(statement, "the log of queries has the name of the zone"),
            "rpz-signal-nxdomain-ra" if on(statement) => {
                work.ledger.missing(statement, "nomen sets the RA bit of blocked answers as of all others");
            }
            "rpz-signal-nxdomain-ra" => work.ledger.unneeded(statement, "nomen does so anyway"),
            _ => {}
        }
    }
}

/// How what a policy zone decides is logged.
const LOGS: &str = "`queries` of [log] turns on the log of queries, which has the rules";

/// Sets the action of a policy zone.
///
/// # Errors
/// The statement whose action is unknown.
fn action<'s>(section: &'s Statement, keys: &mut Keys) -> Result<(), &'s Statement> {
    let Some(found) = section.find("rpz-action-override") else { return Ok(()) };
    match found.value().to_ascii_lowercase().as_str() {
        action @ ("nxdomain" | "nodata" | "passthru" | "drop" | "disabled") => keys.text("action", action),
        "cname" => {
            let target = section.find("rpz-cname-override");
            let target = target.and_then(|target| domain(target.value())).ok_or(found)?;
            keys.text("action", policy::absolute(&target));
        }
        _ => return Err(found),
    }
    Ok(())
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
